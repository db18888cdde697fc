/* ffn.c - the feed-forward block: dense, or a mixture of experts.
 *
 * Sources: Shazeer 2020 (gated units), Fedus et al. 2021 (mixtures). */
#include "model/context.h"

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
    bool oai = a->h->arch->traits & ARCH_SWIGLU_OAI;
    for (size_t i = begin; i < end; i++) {
        float *gate = a->rows + i * a->stride, *up = gate + a->n_ff;
        if (a->interleaved) {
            up = gate + 2 * a->n_ff;
            deinterleave(gate, a->n_ff, up);
        }
        if (oai)
            swiglu_oai(gate, up, OAI_ALPHA, OAI_LIMIT, a->n_ff, gate);
        else if (a->gated)
            activate_gated(a->h->act, gate, up, a->n_ff, gate);
        else
            activate(a->h->act, gate, a->n_ff, gate);
    }
}

/* ---- dense ------------------------------------------------------------------------ */

static bool dense(struct model_context *ctx, struct worker_pool *pool, const struct linear *gate_up,
                  const struct linear *gate, const struct linear *up, const struct linear *down,
                  const float *input, float *y, bool add, size_t n)
{
    const struct hparams *h = &ctx->model->h;
    size_t n_embd = (size_t)h->n_embd, n_ff = (size_t)down->matrix.n_cols;
    bool gated = is_bound(gate_up) || is_bound(gate);
    size_t stride = gated ? 2 * n_ff : n_ff;
    float *rows = ctx->s.ffn;
    size_t n_terms = 0;
    const struct {
        const struct linear *l;
        float *y;
    } parts[] = {{gate_up, rows}, {gate, rows}, {up, rows + (gated ? n_ff : 0)}};
    enum { N_PARTS = sizeof parts / sizeof *parts };
    struct matmul_term terms[N_PARTS];
    for (size_t i = 0; i < N_PARTS; i++)
        if (is_bound(parts[i].l))
            terms[n_terms++] = (struct matmul_term){&parts[i].l->matrix, linear_bias(parts[i].l),
                                                    parts[i].y, stride, false};
    if (!matmul_many(pool, terms, n_terms, input, n_embd, n))
        return false;
    for (size_t i = 0; i < N_PARTS; i++)
        scale_products(pool, parts[i].l, NULL, parts[i].y, stride, n);
    struct act_arg a = {h, rows, stride, n_ff, gated, false};
    each_row(pool, n, n_ff * 8, activate_rows, &a);
    scale_inputs(pool, down, NULL, rows, stride, n);
    struct matmul_term last = {&down->matrix, down->bias, y, n_embd, add};
    return matmul_many(pool, &last, 1, rows, stride, n);
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
    enum gating gating = h->arch->gating;
    if (h->gating_func == 1)
        gating = GATING_SOFTMAX;
    else if (h->gating_func == 2)
        gating = GATING_SIGMOID;
    else if (h->gating_func == 3)
        gating = GATING_SOFTMAX_TOPK;
    if (gating == GATING_SOFTMAX)
        softmax(logits, NULL, 1.0f, NULL, n, logits);
    else if (gating == GATING_SIGMOID)
        activate(ACT_SIGMOID, logits, n, logits);
}

static void route_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct route_arg *a = arg;
    const struct hparams *h = &a->ctx->model->h;
    const struct scratch *s = &a->ctx->s;
    size_t n = (size_t)h->n_experts, used = (size_t)h->n_experts_used;
    bool topk =
        h->gating_func == 3 || (h->gating_func == 0 && h->arch->gating == GATING_SOFTMAX_TOPK);
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
        if (topk)
            softmax(weight, NULL, 1.0f, NULL, used, weight);
        else if (h->norm_topk)
            vec_scale(weight, 1.0f / fmaxf(sum, 6.103515625e-5f), used, weight);
        if (h->expert_scale != 1.0f)
            vec_scale(weight, h->expert_scale, used, weight);
    }
}

/* ---- experts ------------------------------------------------------------------------- */

/* y[j] = w[expert[j]] x[x_row[j]] for n assignments. */
static bool experts_matmul(struct model_context *ctx, struct worker_pool *pool,
                           const struct experts *w, const int32_t *expert, const int32_t *x_row,
                           size_t n, const float *x, size_t x_stride, size_t n_x, float *y,
                           size_t y_stride)
{
    if (is_bound(&w->stacked)) {
        if (!matmul_gathered(pool, &w->stacked.matrix, linear_bias(&w->stacked), expert, x_row, n,
                             x, x_stride, n_x, y, y_stride))
            return false;
        scale_products(pool, &w->stacked, expert, y, y_stride, n);
        return true;
    }
    for (int32_t e = 0; e < ctx->model->h.n_experts; e++) {
        const struct matrix *m = &w->each[e].matrix;
        size_t n_cols = (size_t)m->n_cols, n_rows = (size_t)m->n_rows, k = 0;
        float *in = ctx->s.gathered, *out = in + n * n_cols;
        for (size_t j = 0; j < n; j++)
            if (expert[j] == e)
                memcpy(in + k++ * n_cols, x + (size_t)x_row[j] * x_stride, n_cols * sizeof *in);
        if (k && !matmul(pool, m, in, n_cols, k, out, n_rows))
            return false;
        k = 0;
        for (size_t j = 0; j < n; j++)
            if (expert[j] == e)
                memcpy(y + j * y_stride, out + k++ * n_rows, n_rows * sizeof *out);
    }
    return true;
}

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

static bool shared_expert(struct model_context *ctx, struct worker_pool *pool,
                          const struct layer *l, const float *input, float *y, size_t n)
{
    static const struct linear none;
    if (!is_bound(&l->up_shared))
        return true;
    size_t n_embd = (size_t)ctx->model->h.n_embd;
    if (!is_bound(&l->shared_router))
        return dense(ctx, pool, &none, &l->gate_shared, &l->up_shared, &l->down_shared, input, y,
                     true, n);
    /* Its own gate: a sigmoid of one number per token. */
    float *out = ctx->s.ffn + n * 2 * (size_t)l->down_shared.matrix.n_cols, *gate = ctx->s.router;
    if (!dense(ctx, pool, &none, &l->gate_shared, &l->up_shared, &l->down_shared, input, out, false,
               n) ||
        !matmul(pool, &l->shared_router.matrix, input, n_embd, n, gate, 1))
        return false;
    activate(ACT_SIGMOID, gate, n, gate);
    for (size_t i = 0; i < n; i++)
        vec_add_scaled(y + i * n_embd, out + i * n_embd, gate[i], n_embd);
    return true;
}

static bool mixture(struct model_context *ctx, struct worker_pool *pool, const struct layer *l,
                    const float *input, float *y, bool add, size_t n)
{
    const struct hparams *h = &ctx->model->h;
    struct scratch *s = &ctx->s;
    size_t n_embd = (size_t)h->n_embd, n_ff = (size_t)h->n_ff_exp;
    size_t used = (size_t)h->n_experts_used, n_pairs = n * used;
    struct matmul_term router = {&l->router.matrix, l->router.bias, s->router, (size_t)h->n_experts,
                                 false};
    if (!matmul_many(pool, &router, 1, input, n_embd, n))
        return false;
    struct route_arg route = {ctx, l};
    each_row(pool, n, (size_t)h->n_experts * used, route_rows, &route);
    for (size_t j = 0; j < n_pairs; j++)
        s->expert_row[j] = (int32_t)(j / used);

    bool fused = is_bound(&l->gate_up_exps.stacked) || l->gate_up_exps.each;
    bool gated = fused || is_bound(&l->gate_exps.stacked) || l->gate_exps.each;
    size_t stride = 3 * n_ff; /* a third part for taking interleaved rows apart */
    float *rows = s->ffn, *parts = rows + n_pairs * stride;
    bool ok = fused ? experts_matmul(ctx, pool, &l->gate_up_exps, s->expert, s->expert_row, n_pairs,
                                     input, n_embd, n, rows, stride)
                    : (!gated || experts_matmul(ctx, pool, &l->gate_exps, s->expert, s->expert_row,
                                                n_pairs, input, n_embd, n, rows, stride)) &&
                          experts_matmul(ctx, pool, &l->up_exps, s->expert, s->expert_row, n_pairs,
                                         input, n_embd, n, rows + (gated ? n_ff : 0), stride);
    if (!ok)
        return false;
    struct act_arg a = {h, rows, stride, n_ff, gated, l->gate_up_interleaved};
    each_row(pool, n_pairs, n_ff * 8, activate_rows, &a);
    for (size_t j = 0; j < n_pairs; j++)
        s->expert_row[j] = (int32_t)j;
    if (!experts_matmul(ctx, pool, &l->down_exps, s->expert, s->expert_row, n_pairs, rows, stride,
                        n_pairs, parts, n_embd))
        return false;
    struct combine_arg c = {ctx, parts, y, add};
    each_row(pool, n, n_embd * used, combine_rows, &c);
    return shared_expert(ctx, pool, l, input, y, n);
}

bool ffn_block(struct model_context *ctx, struct worker_pool *pool, const struct layer *l,
               const float *input, float *y, bool add, size_t n, struct error *err)
{
    size_t n_embd = (size_t)ctx->model->h.n_embd, step = (size_t)ctx->s.n_ffn_rows;
    for (size_t i = 0; i < n; i += step) {
        size_t m = n - i < step ? n - i : step;
        const float *in = input + i * n_embd;
        float *out = y + i * n_embd;
        bool ok = l->is_moe
                      ? mixture(ctx, pool, l, in, out, add, m)
                      : dense(ctx, pool, &l->gate_up, &l->gate, &l->up, &l->down, in, out, add, m);
        if (!ok)
            return error_memory(err);
    }
    return true;
}
