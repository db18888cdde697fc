/* attention.c - the attention block: q, k, v, norms, rope, cache, attention. */
#include "model/context.h"

#include <string.h>

/* Where q, k and v of a token lie in its row of scratch. */
struct qkv_layout {
    size_t n_q, n_k, n_v, stride;
};

static struct qkv_layout layout_of(const struct model_context *ctx, int32_t layer)
{
    const struct hparams *h = &ctx->model->h;
    const struct layer_hparams *lh = &h->layers[layer];
    return (struct qkv_layout){(size_t)lh->n_heads * (size_t)h->head_dim_k,
                               (size_t)lh->n_kv_heads * (size_t)h->head_dim_k,
                               (size_t)lh->n_kv_heads * (size_t)h->head_dim_v, ctx->s.n_qkv};
}

static bool project(struct model_context *ctx, const struct ubatch *u, const struct layer *l,
                    const struct qkv_layout *at, const float *input)
{
    float *qkv = ctx->s.qkv;
    size_t n_embd = (size_t)ctx->model->h.n_embd, n = (size_t)u->n;
    float *k = qkv + at->n_q, *v = k + at->n_k;
    struct matmul_term fused = {&l->qkv.matrix, linear_bias(&l->qkv), qkv, at->stride, false};
    struct matmul_term split[] = {{&l->q.matrix, linear_bias(&l->q), qkv, at->stride, false},
                                  {&l->k.matrix, linear_bias(&l->k), k, at->stride, false},
                                  {&l->v.matrix, linear_bias(&l->v), v, at->stride, false}};
    bool ok = is_bound(&l->qkv) ? matmul_many(u->pool, &fused, 1, input, n_embd, n)
                                : matmul_many(u->pool, split, 3, input, n_embd, n);
    if (!ok)
        return false;
    scale_products(u->pool, &l->qkv, NULL, qkv, at->stride, n);
    scale_products(u->pool, &l->q, NULL, qkv, at->stride, n);
    scale_products(u->pool, &l->k, NULL, k, at->stride, n);
    scale_products(u->pool, &l->v, NULL, v, at->stride, n);
    return true;
}

struct finish_arg {
    struct model_context *ctx;
    const struct ubatch *u;
    const struct layer *l;
    struct qkv_layout at;
    int32_t layer;
};

static void norm_heads(const struct model_context *ctx, const struct norm *norm,
                       enum qk_norm_kind kind, float *x, size_t n_heads)
{
    const struct hparams *h = &ctx->model->h;
    size_t dim = (size_t)h->head_dim_k;
    size_t n = kind == QK_NORM_WHOLE ? dim * n_heads : dim;
    size_t rows = kind == QK_NORM_NONE ? 0 : kind == QK_NORM_WHOLE ? 1 : n_heads;
    for (size_t i = 0; i < rows; i++) {
        const float *w = norm->weight + (kind == QK_NORM_PER_HEAD ? i * dim : 0);
        if (h->arch->norm == NORM_RMS)
            rms_norm(x + i * n, w, h->norm_eps, n, x + i * n);
        else
            layer_norm(x + i * n, w, norm->bias, h->norm_eps, n, x + i * n);
    }
}

static void store(const struct model_context *ctx, const struct finish_arg *a, const float *k,
                  const float *v, int32_t cell)
{
    const struct kv_cache *kv = &ctx->kv;
    const struct kv_layer *l = &kv->layers[a->layer];
    size_t dim_k = (size_t)kv->head_dim_k, dim_v = (size_t)kv->head_dim_v;
    for (size_t i = 0; i < (size_t)l->n_kv_heads; i++) {
        dtype_encode(kv->type_k, k + i * dim_k,
                     l->k + i * l->k_head_bytes + (size_t)cell * kv->k_row_bytes, dim_k);
        dtype_encode(kv->type_v, v + i * dim_v,
                     l->v + i * l->v_head_bytes + (size_t)cell * kv->v_row_bytes, dim_v);
    }
}

/* What happens to each token's q, k and v between projection and attention. */
static void finish_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct finish_arg *a = arg;
    const struct model_context *ctx = a->ctx;
    const struct hparams *h = &ctx->model->h;
    const struct layer_hparams *lh = &h->layers[a->layer];
    enum rope_kind kind = h->is_hf ? h->arch->rope_hf : h->arch->rope;
    size_t dim = (size_t)h->head_dim_k, n_rot = (size_t)h->n_rot;
    const float *angles = lh->is_swa ? ctx->s.cos_sin_swa : ctx->s.cos_sin;
    const int32_t *cells = a->u->cell[ctx->has_kv ? ctx->kv.layers[a->layer].kind : KV_ALL];
    bool late = h->arch->traits & ARCH_QK_NORM_LATE;
    for (size_t i = begin; i < end; i++) {
        float *q = ctx->s.qkv + i * a->at.stride;
        float *k = q + a->at.n_q, *v = k + a->at.n_k;
        for (size_t j = 0; h->clamp_qkv > 0.0f && j < a->at.n_q + a->at.n_k + a->at.n_v; j++)
            q[j] = q[j] > h->clamp_qkv ? h->clamp_qkv : q[j] < -h->clamp_qkv ? -h->clamp_qkv : q[j];
        if (!late) {
            norm_heads(ctx, &a->l->q_norm, a->l->q_norm_kind, q, (size_t)lh->n_heads);
            norm_heads(ctx, &a->l->k_norm, a->l->k_norm_kind, k, (size_t)lh->n_kv_heads);
        }
        if (lh->use_rope && n_rot) {
            rope_apply(kind, q, lh->n_heads, dim, h->n_rot, angles + i * n_rot);
            rope_apply(kind, k, lh->n_kv_heads, dim, h->n_rot, angles + i * n_rot);
        }
        if (late) {
            norm_heads(ctx, &a->l->q_norm, a->l->q_norm_kind, q, (size_t)lh->n_heads);
            norm_heads(ctx, &a->l->k_norm, a->l->k_norm_kind, k, (size_t)lh->n_kv_heads);
        }
        if (cells)
            store(ctx, a, k, v, cells[i]);
    }
}

/* Blocks of cells that the attention kernel takes at once begin at multiples of
 * this; a window's first block is found so, and sums are grouped the same way
 * whoever shares the batch. */
enum { CELL_BLOCK = 256 };

/* The tokens of one sequence that follow each other, with the cells they see. */
static struct attention_sequence run_of(const struct model_context *ctx, const struct ubatch *u,
                                        int32_t first, int32_t n, bool causal, int32_t window,
                                        enum kv_kind kind)
{
    struct attention_sequence run = {
        .first_query = first, .n_queries = n, .wide = u->wide && u->wide[first]};
    const struct kv_seq *s = &ctx->kv.seqs[u->seq[first]];
    int32_t *cells = s->cells[kind];
    int32_t begin = 0, end = s->n;
    if (causal) {
        int32_t last = u->pos[first + n - 1];
        end = last == INT32_MAX ? s->n : kv_find(s, last + 1);
    }
    if (causal && window > 0 && u->pos[first] >= window)
        begin = kv_find(s, u->pos[first] - window + 1) / CELL_BLOCK * CELL_BLOCK;
    /* A block may begin with positions that are given up, and that nobody sees. */
    for (int32_t i = begin; kind == KV_WINDOW && i < s->first; i++)
        cells[i] = cells[s->first];
    run.cells = cells + begin;
    run.pos = s->pos + begin;
    run.n_cells = end - begin;
    return run;
}

static size_t find_runs(struct model_context *ctx, const struct ubatch *u, bool causal,
                        int32_t window, enum kv_kind kind)
{
    size_t n_runs = 0;
    for (int32_t i = 0; i < u->n;) {
        int32_t end = i + 1;
        while (end < u->n && u->seq[end] == u->seq[i] && (!u->wide || u->wide[end] == u->wide[i]))
            end++;
        if (ctx->has_kv) {
            ctx->runs[n_runs++] = run_of(ctx, u, i, end - i, causal, window, kind);
        } else { /* keys and values are the ubatch's own rows */
            ctx->runs[n_runs++] = (struct attention_sequence){.cells = ctx->order + i,
                                                              .pos = u->pos + i,
                                                              .n_cells = end - i,
                                                              .first_query = i,
                                                              .n_queries = end - i,
                                                              .wide = true};
        }
        i = end;
    }
    return n_runs;
}

bool attention_block(struct model_context *ctx, const struct ubatch *u, int32_t layer,
                     const float *input, struct error *err)
{
    const struct hparams *h = &ctx->model->h;
    const struct layer_hparams *lh = &h->layers[layer];
    const struct layer *l = &ctx->model->w.layers[layer];
    struct qkv_layout at = layout_of(ctx, layer);
    if (!project(ctx, u, l, &at, input))
        return error_memory(err);
    struct finish_arg finish = {ctx, u, l, at, layer};
    each_row(u->pool, (size_t)u->n, at.n_q + at.n_k + at.n_v, finish_rows, &finish);

    bool causal = ctx->settings.causal && h->causal;
    int32_t window = lh->is_swa ? h->n_swa : 0;
    struct attention a = {.n_heads = lh->n_heads,
                          .n_kv_heads = lh->n_kv_heads,
                          .head_dim_k = h->head_dim_k,
                          .head_dim_v = h->head_dim_v,
                          .scale = h->attn_scale,
                          .soft_cap = h->attn_soft_cap,
                          .causal = causal,
                          .window_kind = window <= 0                            ? WINDOW_NONE
                                         : h->arch->traits & ARCH_SWA_SYMMETRIC ? WINDOW_SYMMETRIC
                                                                                : WINDOW_SLIDING,
                          .window = window,
                          .sinks = l->sinks,
                          .slopes = h->alibi};
    enum kv_kind kind = KV_ALL;
    if (ctx->has_kv) {
        const struct kv_layer *kv = &ctx->kv.layers[layer];
        kind = kv->kind;
        a.k_dtype = ctx->kv.type_k;
        a.v_dtype = ctx->kv.type_v;
        a.k = kv->k;
        a.v = kv->v;
        a.k_cell_bytes = ctx->kv.k_row_bytes;
        a.v_cell_bytes = ctx->kv.v_row_bytes;
        a.k_head_bytes = kv->k_head_bytes;
        a.v_head_bytes = kv->v_head_bytes;
    } else {
        a.k_dtype = a.v_dtype = DTYPE_F32;
        a.k = ctx->s.qkv + at.n_q;
        a.v = ctx->s.qkv + at.n_q + at.n_k;
        a.k_cell_bytes = a.v_cell_bytes = at.stride * sizeof(float);
        a.k_head_bytes = (size_t)h->head_dim_k * sizeof(float);
        a.v_head_bytes = (size_t)h->head_dim_v * sizeof(float);
    }
    size_t n_runs = find_runs(ctx, u, causal, window, kind);
    return attention(u->pool, &a, ctx->runs, n_runs, ctx->s.qkv, at.stride, u->pos, ctx->s.attn,
                     (size_t)lh->n_heads * (size_t)h->head_dim_v) ||
           error_memory(err);
}
