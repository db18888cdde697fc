/* attention.c - the attention block: q, k, v, norms, rope, cache, attention. */
#include "model/blocks/linear.h"
#include "model/context.h"

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

static bool project(const struct pass *pass, const struct layer *l, const struct qkv_layout *at,
                    const float *input)
{
    float *q = pass->ctx->s.qkv, *k = q + at->n_q, *v = k + at->n_k;
    const struct linear_term parts[] = {{&l->qkv, q, at->stride, false},
                                        {&l->q, q, at->stride, false},
                                        {&l->k, k, at->stride, false},
                                        {&l->v, v, at->stride, false}};
    return linear_many(pass, parts, sizeof parts / sizeof *parts, input,
                       (size_t)pass->ctx->model->h.n_embd, (size_t)pass->u->n);
}

static struct heads heads_of(const struct hparams *h, const struct norm *norm,
                             enum qk_norm_kind kind, int32_t n)
{
    static const enum head_norm kinds[] = {[QK_NORM_NONE] = HEAD_NORM_NONE,
                                           [QK_NORM_SHARED] = HEAD_NORM_SHARED,
                                           [QK_NORM_PER_HEAD] = HEAD_NORM_PER_HEAD,
                                           [QK_NORM_WHOLE] = HEAD_NORM_WHOLE};
    return (struct heads){n,
                          h->head_dim_k,
                          {h->norm != NORM_RMS, norm->weight, norm->bias, h->norm_eps},
                          kinds[kind]};
}

static struct store_op store_of(const struct pass *pass, int32_t layer)
{
    const struct kv_cache *kv = &pass->ctx->kv;
    if (!pass->ctx->has_kv)
        return (struct store_op){0};
    const struct kv_layer *l = &kv->layers[layer];
    return (struct store_op){
        pass->u->cell[l->kind], kv->type_k,      kv->type_v,      l->k,           l->v,
        kv->k_row_bytes,        l->k_head_bytes, kv->v_row_bytes, l->v_head_bytes};
}

/* What happens to each token's q, k and v between projection and attention. */
static void finish_heads(const struct pass *pass, int32_t layer, const struct qkv_layout *at)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct layer_hparams *lh = &h->layers[layer];
    const struct layer *l = &pass->ctx->model->w.layers[layer];
    const struct scratch *s = &pass->ctx->s;
    size_t n = (size_t)pass->u->n, n_rot = (size_t)h->n_rot;
    const struct heads_op op = {
        .q = heads_of(h, &l->q_norm, l->q_norm_kind, lh->n_heads),
        .k = heads_of(h, &l->k_norm, l->k_norm_kind, lh->n_kv_heads),
        .dim_v = (size_t)h->head_dim_v,
        .clamp = h->clamp_qkv,
        .norms_late = h->qk_norm_late,
        .rope = h->rope_kind,
        .n_rot = lh->use_rope ? h->n_rot : 0,
        .angles = rows_of(lh->is_swa ? s->cos_sin_swa : s->cos_sin, n, n_rot, n_rot),
        .store = store_of(pass, layer)};
    pass->compute->ops->heads(pass->compute, &op,
                              rows_of(s->qkv, n, at->n_q + at->n_k + at->n_v, at->stride));
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

bool attention_block(const struct pass *pass, int32_t layer, const float *input, struct error *err)
{
    struct model_context *ctx = pass->ctx;
    const struct ubatch *u = pass->u;
    const struct hparams *h = &ctx->model->h;
    const struct layer_hparams *lh = &h->layers[layer];
    const struct layer *l = &ctx->model->w.layers[layer];
    struct qkv_layout at = layout_of(ctx, layer);
    if (!project(pass, l, &at, input))
        return error_memory(err);
    finish_heads(pass, layer, &at);

    bool causal = ctx->settings.causal && h->causal;
    int32_t window = lh->is_swa ? h->n_swa : 0;
    struct attention a = {.n_heads = lh->n_heads,
                          .n_kv_heads = lh->n_kv_heads,
                          .head_dim_k = h->head_dim_k,
                          .head_dim_v = h->head_dim_v,
                          .scale = h->attn_scale,
                          .soft_cap = h->attn_soft_cap,
                          .causal = causal,
                          .window_kind = window <= 0        ? WINDOW_NONE
                                         : h->swa_symmetric ? WINDOW_SYMMETRIC
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
    const struct attend_op op = {&a, ctx->runs, n_runs, u->pos};
    size_t n = (size_t)u->n, n_attn = (size_t)lh->n_heads * (size_t)h->head_dim_v;
    return pass->compute->ops->attend(pass->compute, &op, rows_of(ctx->s.qkv, n, at.n_q, at.stride),
                                      rows_of(ctx->s.attn, n, n_attn, n_attn)) ||
           error_memory(err);
}
