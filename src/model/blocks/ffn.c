/* ffn.c - the feed-forward block: dense, or a mixture of experts.
 *
 * Sources: Shazeer 2020 (gated units), Fedus et al. 2021 (mixtures). */
#include "model/blocks/linear.h"
#include "model/context.h"

#include <assert.h>

/* ---- dense ------------------------------------------------------------------------ */

/* A gated unit or a plain one: the weights of one feed-forward network. */
struct dense_weights {
    const struct linear *gate_up, *gate, *up, *down;
};

static bool dense(const struct pass *pass, const struct dense_weights *w, const float *input,
                  float *y, bool add, size_t n)
{
    const struct hparams *h = &pass->ctx->model->h;
    size_t n_embd = (size_t)h->n_embd, n_ff = (size_t)w->down->matrix.n_cols;
    bool gated = is_bound(w->gate_up) || is_bound(w->gate);
    size_t stride = gated ? 2 * n_ff : n_ff;
    float *rows = pass->ctx->s.ffn;
    assert(stride <= pass->ctx->s.n_ffn && n <= (size_t)pass->ctx->s.n_ffn_rows);
    const struct linear_term parts[] = {{w->gate_up, rows, stride, false},
                                        {w->gate, rows, stride, false},
                                        {w->up, rows + (gated ? n_ff : 0), stride, false}};
    if (!linear_many(pass, parts, sizeof parts / sizeof *parts, input, n_embd, n))
        return false;
    const struct activate_op act = {gated ? ACTIVATE_GATED : ACTIVATE_PLAIN, h->act, h->swiglu_oai,
                                    n_ff};
    pass->compute->ops->activate(pass->compute, &act, rows_of(rows, n, stride, stride));
    struct linear_term down = {w->down, y, n_embd, add};
    return linear_consuming(pass, &down, rows, stride, n);
}

/* ---- routing ------------------------------------------------------------------------ */

static bool shared_expert(const struct pass *pass, const struct layer *l, const float *input,
                          float *y, size_t n)
{
    static const struct linear none;
    const struct dense_weights w = {&none, &l->gate_shared, &l->up_shared, &l->down_shared};
    if (!is_bound(&l->up_shared))
        return true;
    if (!is_bound(&l->shared_router))
        return dense(pass, &w, input, y, true, n);
    /* Its own gate: a sigmoid of one number per token. */
    const struct scratch *s = &pass->ctx->s;
    size_t n_embd = (size_t)pass->ctx->model->h.n_embd;
    float *out = s->ffn + n * 2 * (size_t)l->down_shared.matrix.n_cols, *gate = s->router;
    struct linear_term router = {&l->shared_router, gate, 1, false};
    if (!dense(pass, &w, input, out, false, n) || !linear_many(pass, &router, 1, input, n_embd, n))
        return false;
    pass->compute->ops->add_gated(pass->compute, rows_of(gate, n, 1, 1), stream_rows(pass, out, n),
                                  stream_rows(pass, y, n));
    return true;
}

/* Which experts each of n rows goes to, and with what weight: into the scratch. */
static bool route(const struct pass *pass, const struct layer *l, const float *input, size_t n)
{
    const struct hparams *h = &pass->ctx->model->h;
    struct scratch *s = &pass->ctx->s;
    struct linear_term router = {&l->router, s->router, (size_t)h->n_experts, false};
    if (!linear_many(pass, &router, 1, input, (size_t)h->n_embd, n))
        return false;
    static const enum route_weights weights[] = {[GATING_NONE] = ROUTE_LOGITS,
                                                 [GATING_SOFTMAX] = ROUTE_SOFTMAX,
                                                 [GATING_SIGMOID] = ROUTE_SIGMOID,
                                                 [GATING_SOFTMAX_TOPK] = ROUTE_SOFTMAX_OF_CHOSEN};
    const struct route_op op = {weights[h->gating], l->router_bias, h->n_experts_used, h->norm_topk,
                                h->expert_scale,    s->expert,      s->expert_weight};
    pass->compute->ops->route(pass->compute, &op,
                              rows_of(s->router, n, (size_t)h->n_experts, (size_t)h->n_experts));
    return true;
}

static bool mixture(const struct pass *pass, const struct layer *l, const float *input, float *y,
                    bool add, size_t n)
{
    const struct hparams *h = &pass->ctx->model->h;
    struct scratch *s = &pass->ctx->s;
    size_t n_embd = (size_t)h->n_embd, n_ff = (size_t)h->n_ff_exp;
    size_t used = (size_t)h->n_experts_used, n_pairs = n * used;
    if (!route(pass, l, input, n))
        return false;
    for (size_t j = 0; j < n_pairs; j++)
        s->expert_row[j] = (int32_t)(j / used);

    bool fused = has_experts(&l->gate_up_exps), gated = fused || has_experts(&l->gate_exps);
    size_t stride = 3 * n_ff; /* a third part for taking interleaved rows apart */
    float *rows = s->ffn, *parts = rows + n_pairs * stride;
    assert(n <= (size_t)s->n_ffn_rows && used * (stride + n_embd) <= s->n_ffn);
    struct gathered in = {s->expert, s->expert_row, n_pairs, input, n_embd, n};
    bool ok = fused
                  ? linear_gathered(pass, &l->gate_up_exps, &in, rows, stride)
                  : (!gated || linear_gathered(pass, &l->gate_exps, &in, rows, stride)) &&
                        linear_gathered(pass, &l->up_exps, &in, rows + (gated ? n_ff : 0), stride);
    if (!ok)
        return false;
    const struct activate_op act = {l->gate_up_interleaved ? ACTIVATE_INTERLEAVED
                                    : gated                ? ACTIVATE_GATED
                                                           : ACTIVATE_PLAIN,
                                    h->act, h->swiglu_oai, n_ff};
    pass->compute->ops->activate(pass->compute, &act, rows_of(rows, n_pairs, stride, stride));
    for (size_t j = 0; j < n_pairs; j++)
        s->expert_row[j] = (int32_t)j;
    struct gathered down = {s->expert, s->expert_row, n_pairs, rows, stride, n_pairs};
    if (!linear_gathered(pass, &l->down_exps, &down, parts, n_embd))
        return false;
    pass->compute->ops->combine(pass->compute, s->expert_weight, used, add,
                                stream_rows(pass, parts, n_pairs), stream_rows(pass, y, n));
    return shared_expert(pass, l, input, y, n);
}

bool ffn_block(const struct pass *pass, const struct layer *l, const float *input, float *y,
               bool add, size_t n, struct error *err)
{
    size_t n_embd = (size_t)pass->ctx->model->h.n_embd, step = (size_t)pass->ctx->s.n_ffn_rows;
    const struct dense_weights w = {&l->gate_up, &l->gate, &l->up, &l->down};
    assert(input != y);
    for (size_t i = 0; i < n; i += step) {
        size_t m = n - i < step ? n - i : step;
        const float *in = input + i * n_embd;
        float *out = y + i * n_embd;
        bool ok = l->is_moe ? mixture(pass, l, in, out, add, m) : dense(pass, &w, in, out, add, m);
        if (!ok)
            return error_memory(err);
    }
    return true;
}
