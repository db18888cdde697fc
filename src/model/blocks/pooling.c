/* pooling.c - from the vectors of tokens to the vector of a text, and scores. */
#include "model/context.h"

#include <math.h>
#include <string.h>

/* Rerankers built on decoders read the last token, the others the first. */
static bool reads_last(const struct model_context *ctx)
{
    return ctx->pooling == POOLING_LAST ||
           (ctx->pooling == POOLING_RANK && !is_encoder(ctx->model));
}

static bool takes_mean(const struct model_context *ctx)
{
    return ctx->pooling == POOLING_MEAN ||
           (ctx->pooling == POOLING_RANK && ctx->model->h.classifies_mean);
}

void pool_rows(struct model_context *ctx, const struct ubatch *u)
{
    size_t n = (size_t)ctx->model->h.n_embd;
    bool last = reads_last(ctx), mean = takes_mean(ctx);
    for (int32_t i = 0; i < u->n_out; i++) {
        int32_t seq = u->seq[u->out_rows[i]];
        const float *x = ctx->s.x + (size_t)i * n;
        float *to = ctx->pooled + (size_t)seq * n;
        if (ctx->pooled_count[seq]++ == 0)
            memcpy(to, x, n * sizeof *to);
        else if (mean)
            vec_add(to, x, n, to);
        else if (last)
            memcpy(to, x, n * sizeof *to);
    }
}

static bool multiply(struct worker_pool *pool, const struct linear *w, const float *x, size_t n,
                     float *y)
{
    struct matmul_term term = {&w->matrix, w->bias, y, (size_t)w->matrix.n_rows, false};
    return matmul_many(pool, &term, 1, x, (size_t)w->matrix.n_cols, n);
}

/* A classifier's scores from the pooled vector: dense and activation where there
 * is one, a norm, then the output layer. */
static bool classify(struct model_context *ctx, struct worker_pool *pool, float *x)
{
    const struct weights *w = &ctx->model->w;
    bool gelu = ctx->model->h.arch->traits & ARCH_CLS_MEAN_GELU;
    if (is_bound(&w->cls)) {
        if (!multiply(pool, &w->cls, x, 1, ctx->s.y))
            return false;
        activate(gelu ? ACT_GELU : ACT_TANH, ctx->s.y, (size_t)w->cls.matrix.n_rows, x);
    }
    if (w->cls_norm.weight)
        norm_rows(ctx, pool, &w->cls_norm, x, x, 1);
    if (is_bound(&w->cls_out)) {
        size_t n_labels = (size_t)w->cls_out.matrix.n_rows;
        if (!multiply(pool, &w->cls_out, x, 1, ctx->s.y))
            return false;
        memcpy(x, ctx->s.y, n_labels * sizeof *x);
        if (!is_encoder(ctx->model))
            softmax(x, NULL, 1.0f, NULL, n_labels, x);
    }
    return true;
}

bool dense_rows(struct model_context *ctx, struct worker_pool *pool, float *x, size_t n)
{
    const struct linear *first = &ctx->model->w.dense[0], *second = &ctx->model->w.dense[1];
    if (!is_bound(first) && !is_bound(second))
        return true;
    size_t n_embd = (size_t)ctx->model->h.n_embd;
    for (size_t i = 0; i < n; i++) { /* one at a time: the layer between is wide */
        float *row = x + i * n_embd, *wide = ctx->dense;
        if (is_bound(first) && !multiply(pool, first, row, 1, wide))
            return false;
        if (is_bound(second) && !multiply(pool, second, is_bound(first) ? wide : row, 1, ctx->s.y))
            return false;
        memcpy(row, is_bound(second) ? ctx->s.y : wide, n_embd * sizeof *row);
    }
    return true;
}

bool pool_finish(struct model_context *ctx, struct worker_pool *pool, struct error *err)
{
    size_t n = (size_t)ctx->model->h.n_embd;
    for (int32_t seq = 0; seq < ctx->settings.n_seq_max; seq++) {
        float *x = ctx->pooled + (size_t)seq * n;
        int32_t count = ctx->pooled_count[seq];
        if (count == 0)
            continue;
        if (takes_mean(ctx))
            vec_scale(x, 1.0f / (float)count, n, x);
        bool ok =
            ctx->pooling == POOLING_RANK ? classify(ctx, pool, x) : dense_rows(ctx, pool, x, 1);
        if (!ok)
            return error_memory(err);
    }
    return true;
}

const float *model_embedding_seq(struct model_context *ctx, int32_t seq)
{
    if (!ctx->pooled || seq < 0 || seq >= ctx->settings.n_seq_max || ctx->pooled_count[seq] == 0)
        return NULL;
    return ctx->pooled + (size_t)seq * (size_t)ctx->model->h.n_embd;
}
