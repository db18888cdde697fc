/* ffn.c - the feed-forward block: dense, or a mixture of experts.
 *
 * Sources: Shazeer 2020 (gated units), Fedus et al. 2021 (mixtures). */
#include "model/blocks/linear.h"
#include "model/context.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- activation of rows -------------------------------------------------------- */

struct act_arg {
    const struct hparams *h;
    float *rows; /* [n][stride]: gate [n_ff], up [n_ff]; the result replaces gate */
    size_t stride, n_ff;
    bool gated, interleaved;
};

#define OAI_ALPHA 1.702f
#define OAI_LIMIT 7.0f

/* gate and up of row 2i and 2i+1 apart; the second half of the row is scratch. */
static void deinterleave(float *row, size_t n_ff, float *up)
{
    for (size_t i = 0; i < n_ff; i++) {
        float gate = row[2 * i];
        up[i] = row[2 * i + 1];
        row[i] = gate;
    }
}

static void activate_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct act_arg *a = arg;
    for (size_t i = begin; i < end; i++) {
        float *gate = a->rows + i * a->stride, *up = gate + a->n_ff;
        if (a->interleaved) {
            up = gate + 2 * a->n_ff;
            deinterleave(gate, a->n_ff, up);
        }
        if (a->h->swiglu_oai)
            swiglu_oai(gate, up, OAI_ALPHA, OAI_LIMIT, a->n_ff, gate);
        else if (a->gated)
            activate_gated(a->h->act, gate, up, a->n_ff, gate);
        else
            activate(a->h->act, gate, a->n_ff, gate);
    }
}

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
    struct act_arg a = {h, rows, stride, n_ff, gated, false};
    each_row(pass->pool, n, n_ff * 8, activate_rows, &a);
    struct linear_term down = {w->down, y, n_embd, add};
    return linear_consuming(pass, &down, rows, stride, n);
}

/* ---- routing ------------------------------------------------------------------------ */

struct route_arg {
    const struct model_context *ctx;
    const struct layer *l;
};

/* The largest n_used of n values: their indices, largest first, the lower index
 * first among equals. */
static void pick(const float *values, int32_t n, int32_t n_used, int32_t *out)
{
    for (int32_t k = 0; k < n_used; k++) {
        int32_t best = -1;
        for (int32_t e = 0; e < n; e++) {
            bool taken = false;
            for (int32_t j = 0; j < k; j++)
                taken |= out[j] == e;
            /* Comparing so lets a NaN be picked last, but picked. */
            if (!taken && (best < 0 || values[e] > values[best]))
                best = e;
        }
        out[k] = best;
    }
}

static void gate_probs(const struct hparams *h, float *logits)
{
    size_t n = (size_t)h->n_experts;
    if (h->gating == GATING_SOFTMAX)
        softmax(logits, NULL, 1.0f, NULL, n, logits);
    else if (h->gating == GATING_SIGMOID)
        activate(ACT_SIGMOID, logits, n, logits);
}

static void route_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct route_arg *a = arg;
    const struct hparams *h = &a->ctx->model->h;
    const struct scratch *s = &a->ctx->s;
    size_t n = (size_t)h->n_experts, used = (size_t)h->n_experts_used;
    for (size_t i = begin; i < end; i++) {
        float *probs = s->router + i * n, *weight = s->expert_weight + i * used;
        int32_t *expert = s->expert + i * used;
        gate_probs(h, probs);
        if (a->l->router_bias) {
            float biased[MODEL_MAX_EXPERTS];
            vec_add(probs, a->l->router_bias, n, biased);
            pick(biased, h->n_experts, h->n_experts_used, expert);
        } else {
            pick(probs, h->n_experts, h->n_experts_used, expert);
        }
        float sum = 0.0f;
        for (size_t k = 0; k < used; k++)
            sum += weight[k] = probs[expert[k]];
        if (h->gating == GATING_SOFTMAX_TOPK)
            softmax(weight, NULL, 1.0f, NULL, used, weight);
        else if (h->norm_topk)
            vec_scale(weight, 1.0f / fmaxf(sum, 6.103515625e-5f), used, weight);
        if (h->expert_scale != 1.0f)
            vec_scale(weight, h->expert_scale, used, weight);
    }
}

/* ---- experts ------------------------------------------------------------------------- */

struct combine_arg {
    const struct model_context *ctx;
    const float *parts; /* [n * used][n_embd] */
    float *y;
    bool add;
};

static void combine_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct combine_arg *a = arg;
    const struct hparams *h = &a->ctx->model->h;
    size_t n_embd = (size_t)h->n_embd, used = (size_t)h->n_experts_used;
    for (size_t i = begin; i < end; i++) {
        const float *weight = a->ctx->s.expert_weight + i * used;
        const float *part = a->parts + i * used * n_embd;
        float *y = a->y + i * n_embd;
        if (!a->add)
            memset(y, 0, n_embd * sizeof *y);
        for (size_t k = 0; k < used; k++)
            vec_add_scaled(y, part + k * n_embd, weight[k], n_embd);
    }
}

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
    activate(ACT_SIGMOID, gate, n, gate);
    for (size_t i = 0; i < n; i++)
        vec_add_scaled(y + i * n_embd, out + i * n_embd, gate[i], n_embd);
    return true;
}

/* Which experts each of n rows goes to, and with what weight: into the scratch. */
static bool route(const struct pass *pass, const struct layer *l, const float *input, size_t n)
{
    const struct hparams *h = &pass->ctx->model->h;
    struct scratch *s = &pass->ctx->s;
    size_t used = (size_t)h->n_experts_used;
    struct linear_term router = {&l->router, s->router, (size_t)h->n_experts, false};
    if (!linear_many(pass, &router, 1, input, (size_t)h->n_embd, n))
        return false;
    struct route_arg arg = {pass->ctx, l};
    each_row(pass->pool, n, (size_t)h->n_experts * used, route_rows, &arg);
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
    struct act_arg a = {h, rows, stride, n_ff, gated, l->gate_up_interleaved};
    each_row(pass->pool, n_pairs, n_ff * 8, activate_rows, &a);
    for (size_t j = 0; j < n_pairs; j++)
        s->expert_row[j] = (int32_t)j;
    struct gathered down = {s->expert, s->expert_row, n_pairs, rows, stride, n_pairs};
    if (!linear_gathered(pass, &l->down_exps, &down, parts, n_embd))
        return false;
    struct combine_arg c = {pass->ctx, parts, y, add};
    each_row(pass->pool, n, n_embd * used, combine_rows, &c);
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
