/* pooling.c - from the vectors of tokens to the vector of a text, and scores. */
#include "model/blocks/linear.h"
#include "model/context.h"

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

void pool_rows(const struct pass *pass)
{
    struct model_context *ctx = pass->ctx;
    const struct ubatch *u = pass->u;
    const struct compute_ops *ops = pass->compute->ops;
    size_t n = (size_t)ctx->model->h.n_embd;
    bool last = reads_last(ctx), mean = takes_mean(ctx);
    for (int32_t i = 0; i < u->n_out; i++) {
        int32_t seq = u->seq[u->out_rows[i]];
        struct tensor x = stream_rows(pass, ctx->s.x + (size_t)i * n, 1);
        struct tensor to = stream_rows(pass, ctx->pooled + (size_t)seq * n, 1);
        if (ctx->pooled_count[seq]++ == 0)
            ops->copy(pass->compute, x, to);
        else if (mean)
            ops->add(pass->compute, 1.0f, x, to);
        else if (last)
            ops->copy(pass->compute, x, to);
    }
}

static bool multiply(const struct pass *pass, const struct linear *w, const float *x, float *y)
{
    struct linear_term term = {w, y, (size_t)w->matrix.n_rows, false};
    return linear_many(pass, &term, 1, x, (size_t)w->matrix.n_cols, 1);
}

/* A classifier's scores from the pooled vector: dense and activation where there
 * is one, a norm, then the output layer. */
static bool classify(const struct pass *pass, float *x)
{
    struct model_context *ctx = pass->ctx;
    const struct compute_ops *ops = pass->compute->ops;
    const struct weights *w = &ctx->model->w;
    bool gelu = ctx->model->h.classifies_mean;
    if (is_bound(&w->cls)) {
        if (!multiply(pass, &w->cls, x, ctx->s.y))
            return false;
        size_t n = (size_t)w->cls.matrix.n_rows;
        const struct activate_op op = {ACTIVATE_PLAIN, gelu ? ACT_GELU : ACT_TANH, false, n};
        ops->activate(pass->compute, &op, rows_of(ctx->s.y, 1, n, n));
        ops->copy(pass->compute, rows_of(ctx->s.y, 1, n, n), rows_of(x, 1, n, n));
    }
    if (w->cls_norm.weight)
        norm_rows(pass, &w->cls_norm, x, x, 1);
    if (is_bound(&w->cls_out)) {
        size_t n_labels = (size_t)w->cls_out.matrix.n_rows;
        if (!multiply(pass, &w->cls_out, x, ctx->s.y))
            return false;
        struct tensor scores = rows_of(x, 1, n_labels, n_labels);
        ops->copy(pass->compute, rows_of(ctx->s.y, 1, n_labels, n_labels), scores);
        if (!is_encoder(ctx->model))
            ops->softmax(pass->compute, scores);
    }
    return true;
}

bool dense_rows(const struct pass *pass, float *x, size_t n)
{
    struct model_context *ctx = pass->ctx;
    const struct linear *first = &ctx->model->w.dense[0], *second = &ctx->model->w.dense[1];
    if (!is_bound(first) && !is_bound(second))
        return true;
    size_t n_embd = (size_t)ctx->model->h.n_embd;
    for (size_t i = 0; i < n; i++) { /* one at a time: the layer between is wide */
        float *row = x + i * n_embd, *wide = ctx->dense;
        if (is_bound(first) && !multiply(pass, first, row, wide))
            return false;
        if (is_bound(second) && !multiply(pass, second, is_bound(first) ? wide : row, ctx->s.y))
            return false;
        pass->compute->ops->copy(pass->compute,
                                 stream_rows(pass, is_bound(second) ? ctx->s.y : wide, 1),
                                 stream_rows(pass, row, 1));
    }
    return true;
}

bool pool_finish(const struct pass *pass, struct error *err)
{
    struct model_context *ctx = pass->ctx;
    size_t n = (size_t)ctx->model->h.n_embd;
    for (int32_t seq = 0; seq < ctx->settings.n_seq_max; seq++) {
        float *x = ctx->pooled + (size_t)seq * n;
        int32_t count = ctx->pooled_count[seq];
        if (count == 0)
            continue;
        if (takes_mean(ctx))
            pass->compute->ops->cap(pass->compute, 1.0f / (float)count, 0.0f,
                                    stream_rows(pass, x, 1));
        bool ok = ctx->pooling == POOLING_RANK ? classify(pass, x) : dense_rows(pass, x, 1);
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
