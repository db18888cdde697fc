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

void pool_rows(struct model_context *ctx, const struct ubatch *u)
{
    size_t n = (size_t)ctx->model->h.n_embd;
    bool last = reads_last(ctx), mean = ctx->pooling == POOLING_MEAN;
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

/* A classifier's scores from the pooled vector: dense and tanh where there is
 * one, then the output layer. */
static bool classify(struct model_context *ctx, struct worker_pool *pool, float *x)
{
    const struct weights *w = &ctx->model->w;
    const struct hparams *h = &ctx->model->h;
    size_t n = (size_t)h->n_embd;
    if (is_bound(&w->cls)) {
        struct matmul_term dense = {&w->cls.matrix, w->cls.bias, ctx->s.y, n, false};
        if (!matmul_many(pool, &dense, 1, x, n, 1))
            return false;
        activate(ACT_TANH, ctx->s.y, n, x);
    }
    if (is_bound(&w->cls_out)) {
        struct matmul_term out = {&w->cls_out.matrix, w->cls_out.bias, ctx->s.y,
                                  (size_t)h->n_labels, false};
        if (!matmul_many(pool, &out, 1, x, n, 1))
            return false;
        memcpy(x, ctx->s.y, (size_t)h->n_labels * sizeof *x);
        if (!is_encoder(ctx->model))
            softmax(x, NULL, 1.0f, NULL, (size_t)h->n_labels, x);
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
        if (ctx->pooling == POOLING_MEAN)
            vec_scale(x, 1.0f / (float)count, n, x);
        if (ctx->pooling == POOLING_RANK && !classify(ctx, pool, x))
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
