/* decode.c - a batch from end to end: checked, given cells, split, computed. */
#include "model/blocks/linear.h"
#include "model/context.h"

#include <stdlib.h>
#include <string.h>

/* ---- checking ------------------------------------------------------------------- */

static bool check_row(const struct model_context *ctx, const struct batch *b, int32_t i,
                      struct error *err)
{
    const struct model *m = ctx->model;
    if (!b->input && (b->token[i] < 0 || b->token[i] >= m->w.n_vocab))
        return error_set(err, ERR_INVALID, "token %d is outside the vocabulary of %d", b->token[i],
                         m->w.n_vocab);
    if (b->seq[i] < 0 || b->seq[i] >= ctx->settings.n_seq_max)
        return error_set(err, ERR_INVALID, "sequence %d is outside 0..%d", b->seq[i],
                         ctx->settings.n_seq_max - 1);
    if (b->pos[i] < 0)
        return error_set(err, ERR_INVALID, "position %d is negative", b->pos[i]);
    int32_t n_pos = m->w.position_embd.matrix.n_rows - m->h.n_pos_offset;
    if (is_bound(&m->w.position_embd) && b->pos[i] >= n_pos)
        return error_set(err, ERR_INVALID, "position %d is beyond the model's %d", b->pos[i],
                         n_pos);
    return true;
}

static bool check(const struct model_context *ctx, const struct batch *b, struct error *err)
{
    if (b->n_tokens < 1 || b->n_tokens > ctx->settings.n_batch)
        return error_set(err, ERR_INVALID, "a batch of %d tokens; 1 to %d are possible",
                         b->n_tokens, ctx->settings.n_batch);
    for (int32_t i = 0; i < b->n_tokens; i++)
        if (!check_row(ctx, b, i, err))
            return false;
    return true;
}

/* ---- cells ------------------------------------------------------------------------ */

/* Give back the cells of rows [0, n), the last first. */
static void take_back(struct model_context *ctx, const struct batch *b, int32_t n)
{
    for (int32_t i = n; ctx->has_kv && i-- > 0;)
        kv_remove_range(&ctx->kv, b->seq[i], b->pos[i],
                        b->pos[i] == INT32_MAX ? -1 : b->pos[i] + 1);
}

static bool place(struct model_context *ctx, const struct batch *b, struct error *err)
{
    for (int32_t i = 0; ctx->has_kv && i < b->n_tokens; i++) {
        int32_t last = kv_seq_pos_max(ctx, b->seq[i]);
        if (b->pos[i] <= last) {
            take_back(ctx, b, i);
            return error_set(err, ERR_INVALID,
                             "position %d of sequence %d is not beyond its last, %d", b->pos[i],
                             b->seq[i], last);
        }
        const struct kv_seq *s = &ctx->kv.seqs[b->seq[i]];
        if (ctx->kv.size.n_window && s->placed == s->n && !kv_window_is_whole(&ctx->kv, s, s->n)) {
            take_back(ctx, b, i);
            return error_set(err, ERR_INVALID,
                             "sequence %d has given up cells that position %d sees; remove it or "
                             "load a window",
                             b->seq[i], b->pos[i]);
        }
        ctx->cell[i] = kv_append(&ctx->kv, b->seq[i], b->pos[i]);
        if (ctx->cell[i] < 0) {
            take_back(ctx, b, i);
            return error_set(err, ERR_LIMIT, "no room in the KV cache for a batch of %d tokens",
                             b->n_tokens);
        }
    }
    return true;
}

/* ---- outputs ------------------------------------------------------------------------ */

static bool wanted(const struct model_context *ctx, const struct batch *b, int32_t i)
{
    if (ctx->settings.embeddings && ctx->pooling != POOLING_NONE)
        return true;
    return b->want_logits ? b->want_logits[i] : i == b->n_tokens - 1;
}

static bool grow(float **data, size_t *capacity, size_t rows, size_t width)
{
    if (rows <= *capacity)
        return true;
    float *grown = rows <= SIZE_MAX / sizeof **data / width
                       ? realloc(*data, rows * width * sizeof **data)
                       : NULL;
    if (!grown)
        return false;
    *data = grown;
    *capacity = rows;
    return true;
}

static bool number_outputs(struct model_context *ctx, const struct batch *b, struct error *err)
{
    ctx->n_out = 0;
    ctx->n_rows = b->n_tokens;
    for (int32_t i = 0; i < b->n_tokens; i++)
        ctx->out_of_row[i] = wanted(ctx, b, i) ? ctx->n_out++ : -1;
    memset(ctx->pooled_count, 0, (size_t)ctx->settings.n_seq_max * sizeof *ctx->pooled_count);
    size_t n = (size_t)ctx->n_out;
    bool ok = true;
    if (!ctx->settings.embeddings)
        ok = grow(&ctx->logits, &ctx->logits_capacity, n, (size_t)ctx->model->w.n_vocab);
    else if (ctx->pooling == POOLING_NONE)
        ok = grow(&ctx->embd, &ctx->embd_capacity, n, (size_t)ctx->model->h.n_embd);
    return ok || error_set(err, ERR_MEMORY, "no memory for the outputs of %d tokens", ctx->n_out);
}

/* The ubatch's hidden states become logits, embeddings or pooled vectors;
 * done counts the outputs before it. */
static bool collect(const struct pass *pass, int32_t done, struct error *err)
{
    struct model_context *ctx = pass->ctx;
    const struct ubatch *u = pass->u;
    const struct hparams *h = &ctx->model->h;
    size_t n_embd = (size_t)h->n_embd, n = (size_t)u->n_out,
           n_vocab = (size_t)ctx->model->w.n_vocab;
    if (n == 0)
        return true;
    if (ctx->settings.embeddings) {
        if (ctx->pooling != POOLING_NONE)
            pool_rows(pass);
        else
            memcpy(ctx->embd + (size_t)done * n_embd, ctx->s.x, n * n_embd * sizeof *ctx->embd);
        return ctx->pooling != POOLING_NONE ||
               dense_rows(pass, ctx->embd + (size_t)done * n_embd, n) || error_memory(err);
    }
    float *logits = ctx->logits + (size_t)done * n_vocab;
    struct linear_term output = {&ctx->model->w.output, logits, n_vocab, false};
    if (!linear_many(pass, &output, 1, ctx->s.x, n_embd, n))
        return error_memory(err);
    if (h->logit_scale != 1.0f || h->final_soft_cap > 0.0f)
        pass->compute->ops->cap(pass->compute, h->logit_scale, h->final_soft_cap,
                                rows_of(logits, n, n_vocab, n_vocab));
    return true;
}

/* ---- splitting ------------------------------------------------------------------------ */

/* Where the ubatch that begins at `first` ends. Without a causal mask a token
 * sees those after it, so a sequence must not be split. */
static bool ubatch_end(const struct model_context *ctx, const struct batch *b, int32_t first,
                       int32_t *end, struct error *err)
{
    int32_t most = ctx->settings.n_ubatch, left = b->n_tokens - first;
    *end = first + (left < most ? left : most);
    bool whole = !(ctx->settings.causal && ctx->model->h.causal);
    if (!whole || *end == b->n_tokens)
        return true;
    while (*end > first && b->seq[*end] == b->seq[*end - 1])
        --*end;
    if (*end == first)
        return error_set(err, ERR_INVALID,
                         "sequence %d is longer than the physical batch of %d tokens; use a larger "
                         "-ub",
                         b->seq[first], most);
    return true;
}

/* Generation (one token per sequence) and prompts have a pool each. */
static struct worker_pool *pool_of(const struct model_context *ctx, const struct batch *b)
{
    for (int32_t i = 1; i < b->n_tokens; i++)
        if (b->seq[i] == b->seq[i - 1])
            return ctx->settings.pool_batch;
    return ctx->settings.pool;
}

static bool run(struct model_context *ctx, const struct batch *b, struct error *err)
{
    struct worker_pool *pool = pool_of(ctx, b);
    if (ctx->entered != pool) { /* the caller computes too, where the pool does */
        worker_pool_enter(pool);
        ctx->entered = pool;
    }
    struct compute compute = {ctx->ops, pool, ctx->ops_state};
    size_t n_embd = (size_t)ctx->model->h.n_embd;
    int32_t done = 0, end;
    for (int32_t first = 0; first < b->n_tokens; first = end) {
        if (!ubatch_end(ctx, b, first, &end, err))
            return false;
        struct ubatch u = {.n = end - first,
                           .first = first,
                           .token = b->token ? b->token + first : NULL,
                           .input = b->input ? b->input + (size_t)first * n_embd : NULL,
                           .pos = b->pos + first,
                           .seq = b->seq + first,
                           .wide = b->wide ? b->wide + first : NULL,
                           .cell = {ctx->has_kv ? ctx->cell + first : NULL},
                           .out_rows = ctx->out_rows};
        struct pass pass = {ctx, &u, &compute};
        for (int32_t i = first; i < end; i++)
            if (ctx->out_of_row[i] >= 0)
                ctx->out_rows[u.n_out++] = i - first;
        if (ctx->has_kv && ctx->kv.size.n_window) {
            if (!kv_place(&ctx->kv, u.seq, u.n, ctx->cell_window))
                return error_set(err, ERR_LIMIT, "no room in the KV cache for %d sliding windows",
                                 ctx->kv.size.n_seqs);
            u.cell[KV_WINDOW] = ctx->cell_window;
        }
        embed(&pass);
        if (!forward(&pass, 0, ctx->model->h.n_layers, err))
            return false;
        norm_outputs(&pass);
        if (!collect(&pass, done, err))
            return false;
        done += u.n_out;
    }
    const struct pass behind = {ctx, NULL, &compute};
    return !ctx->pooled || pool_finish(&behind, err);
}

bool model_decode(struct model_context *ctx, const struct batch *b, struct error *err)
{
    if (!check(ctx, b, err) || !place(ctx, b, err))
        return false;
    if (number_outputs(ctx, b, err) && run(ctx, b, err))
        return true;
    take_back(ctx, b, b->n_tokens);
    ctx->n_rows = ctx->n_out = 0;
    return false;
}

/* ---- results ---------------------------------------------------------------------------- */

/* The output of batch row i, or of the i-th last output; -1: none. */
static int32_t output_of(const struct model_context *ctx, int32_t i)
{
    if (i < 0)
        return i >= -ctx->n_out ? ctx->n_out + i : -1;
    return i < ctx->n_rows ? ctx->out_of_row[i] : -1;
}

float *model_logits(struct model_context *ctx, int32_t i)
{
    int32_t k = output_of(ctx, i);
    return k < 0 || ctx->settings.embeddings
               ? NULL
               : ctx->logits + (size_t)k * (size_t)ctx->model->w.n_vocab;
}

const float *model_embedding(struct model_context *ctx, int32_t i)
{
    int32_t k = output_of(ctx, i);
    return k < 0 || !ctx->settings.embeddings || ctx->pooling != POOLING_NONE
               ? NULL
               : ctx->embd + (size_t)k * (size_t)ctx->model->h.n_embd;
}

bool model_warmup(struct model_context *ctx, struct error *err)
{
    int32_t zero = 0;
    struct batch b = {.n_tokens = 1, .token = &zero, .pos = &zero, .seq = &zero};
    if (kv_seq_pos_max(ctx, 0) >= 0)
        return true; /* it has been used: there is nothing left to warm */
    bool ok = model_decode(ctx, &b, err);
    kv_seq_remove(ctx, 0, -1, -1);
    return ok;
}
