/* forward.c - one pass over the weights for one ubatch. */
#include "model/context.h"

#include <string.h>

/* Below this much work a dispatch costs more than it saves. */
enum { ROW_WORK_MIN = 1 << 14 };

void each_row(struct worker_pool *pool, size_t n, size_t row_cost, worker_items_fn fn, void *arg)
{
    if (n < 2 || n * row_cost < ROW_WORK_MIN) {
        fn(arg, 0, n, 0);
        return;
    }
    size_t grain = ROW_WORK_MIN / (row_cost ? row_cost : 1);
    worker_pool_each(pool, n, grain ? grain : 1, fn, arg);
}

/* ---- rows --------------------------------------------------------------------- */

struct norm_arg {
    const struct hparams *h;
    const struct norm *norm;
    const float *x;
    float *y;
};

static void norm_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct norm_arg *a = arg;
    size_t n = (size_t)a->h->n_embd;
    for (size_t i = begin; i < end; i++) {
        if (a->h->arch->norm == NORM_RMS)
            rms_norm(a->x + i * n, a->norm->weight, a->h->norm_eps, n, a->y + i * n);
        else
            layer_norm(a->x + i * n, a->norm->weight, a->norm->bias, a->h->norm_eps, n,
                       a->y + i * n);
    }
}

void norm_rows(const struct model_context *ctx, struct worker_pool *pool, const struct norm *norm,
               const float *x, float *y, size_t n)
{
    struct norm_arg a = {&ctx->model->h, norm, x, y};
    each_row(pool, n, (size_t)a.h->n_embd * 2, norm_some, &a);
}

struct residual_arg {
    size_t n_embd;
    float scale;
    float *x;
    const float *y;
};

static void residual_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct residual_arg *a = arg;
    vec_add_scaled(a->x + begin * a->n_embd, a->y + begin * a->n_embd, a->scale,
                   (end - begin) * a->n_embd);
}

/* x += scale * norm(y), or for encoders x = norm(x + y). */
static void join(const struct model_context *ctx, struct worker_pool *pool, const struct norm *post,
                 size_t n)
{
    const struct hparams *h = &ctx->model->h;
    const struct scratch *s = &ctx->s;
    bool after = h->arch->traits & ARCH_NORM_AFTER;
    if (post->weight && !after)
        norm_rows(ctx, pool, post, s->y, s->y, n);
    struct residual_arg a = {(size_t)h->n_embd, h->residual_scale, s->x, s->y};
    each_row(pool, n, (size_t)h->n_embd, residual_some, &a);
    if (post->weight && after)
        norm_rows(ctx, pool, post, s->x, s->x, n);
}

/* ---- beginning ------------------------------------------------------------------ */

struct embed_arg {
    struct model_context *ctx;
    const struct ubatch *u;
};

static void embed_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct embed_arg *a = arg;
    struct model_context *ctx = a->ctx;
    const struct hparams *h = &ctx->model->h;
    const struct weights *w = &ctx->model->w;
    size_t n = (size_t)h->n_embd, n_rot = (size_t)h->n_rot;
    for (size_t i = begin; i < end; i++) {
        float *x = ctx->s.x + i * n, *extra = ctx->s.y + i * n;
        matrix_row(&w->token_embd.matrix, 0, a->u->token[i], x);
        if (h->embd_scale != 1.0f)
            vec_scale(x, h->embd_scale, n, x);
        if (is_bound(&w->token_types)) {
            matrix_row(&w->token_types.matrix, 0, 0, extra);
            vec_add(x, extra, n, x);
        }
        if (is_bound(&w->position_embd)) {
            matrix_row(&w->position_embd.matrix, 0, a->u->pos[i] + h->n_pos_offset, extra);
            vec_add(x, extra, n, x);
        }
        if (n_rot) {
            rope_angles(&ctx->rope, a->u->pos[i], ctx->s.cos_sin + i * n_rot);
            if (h->n_swa)
                rope_angles(&ctx->rope_swa, a->u->pos[i], ctx->s.cos_sin_swa + i * n_rot);
        }
    }
}

static void embed(struct model_context *ctx, const struct ubatch *u)
{
    struct embed_arg a = {ctx, u};
    const struct norm *norm = &ctx->model->w.embd_norm;
    each_row(u->pool, (size_t)u->n, (size_t)ctx->model->h.n_embd * 4, embed_some, &a);
    if (norm->weight)
        norm_rows(ctx, u->pool, norm, ctx->s.x, ctx->s.x, (size_t)u->n);
}

/* ---- layers ------------------------------------------------------------------------ */

/* Keep only the rows that want an output; they are ascending, so a row is never
 * overwritten before it moved. */
static void keep_rows(float *rows, size_t width, const struct ubatch *u)
{
    for (int32_t i = 0; i < u->n_out; i++)
        if (u->out_rows[i] != i)
            memmove(rows + (size_t)i * width, rows + (size_t)u->out_rows[i] * width,
                    width * sizeof *rows);
}

/* What a block reads: the normed stream, or the stream itself. */
static const float *block_input(const struct model_context *ctx, struct worker_pool *pool,
                                const struct norm *norm, size_t n)
{
    if (!norm->weight && !(ctx->model->h.arch->traits & ARCH_BARE_NORM))
        return ctx->s.x;
    norm_rows(ctx, pool, norm, ctx->s.x, ctx->s.h, n);
    return ctx->s.h;
}

struct control_arg {
    float *x;
    const float *direction;
    size_t n_embd;
};

static void control_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct control_arg *a = arg;
    for (size_t i = begin; i < end; i++)
        vec_add(a->x + i * a->n_embd, a->direction, a->n_embd, a->x + i * a->n_embd);
}

/* Add what a control vector has for layer i to n rows of the stream. */
static void steer(const struct model_context *ctx, struct worker_pool *pool, int32_t i, size_t n)
{
    size_t n_embd = (size_t)ctx->model->h.n_embd;
    if (!ctx->control.rows || i < ctx->control.first || i > ctx->control.last ||
        is_encoder(ctx->model))
        return;
    struct control_arg a = {ctx->s.x, ctx->control.rows + (size_t)i * n_embd, n_embd};
    each_row(pool, n, n_embd, control_some, &a);
}

static bool run_layer(struct model_context *ctx, const struct ubatch *u, int32_t i,
                      struct error *err)
{
    const struct hparams *h = &ctx->model->h;
    const struct layer *l = &ctx->model->w.layers[i];
    struct scratch *s = &ctx->s;
    size_t n = (size_t)u->n, n_embd = (size_t)h->n_embd;
    size_t n_attn = (size_t)h->layers[i].n_heads * (size_t)h->head_dim_v;
    bool plain = h->residual_scale == 1.0f && !(h->arch->traits & ARCH_NORM_AFTER);
    bool parallel = h->arch->traits & ARCH_PARALLEL && !l->ffn_norm.weight;

    const float *input = block_input(ctx, u->pool, &l->attn_norm, n);
    if (!attention_block(ctx, u, i, input, err))
        return false;
    if (i == h->n_layers - 1 && u->n_out < u->n) {
        keep_rows(s->x, n_embd, u);
        keep_rows(s->attn, n_attn, u);
        if (parallel)
            keep_rows(s->h, n_embd, u);
        n = (size_t)u->n_out;
    }
    bool direct = plain && !l->attn_post_norm.weight;
    scale_inputs(u->pool, &l->out, NULL, s->attn, n_attn, n);
    struct matmul_term out = {&l->out.matrix, l->out.bias, direct ? s->x : s->y, n_embd, direct};
    if (!matmul_many(u->pool, &out, 1, s->attn, n_attn, n))
        return error_memory(err);
    if (l->attn_post_norm_2.weight) /* the layer's input is wanted once more */
        memcpy(s->h, s->x, n * n_embd * sizeof *s->h);
    if (!direct)
        join(ctx, u->pool, &l->attn_post_norm, n);
    if (l->attn_post_norm_2.weight) {
        memcpy(s->y, s->h, n * n_embd * sizeof *s->y);
        join(ctx, u->pool, &l->attn_post_norm_2, n);
    }

    const float *ffn_in = parallel ? s->h : block_input(ctx, u->pool, &l->ffn_norm, n);
    /* Where the block reads the stream itself it must not write to it. */
    direct = plain && !l->ffn_post_norm.weight && ffn_in != s->x;
    if (!ffn_block(ctx, u->pool, l, ffn_in, direct ? s->x : s->y, direct, n, err))
        return false;
    if (!direct)
        join(ctx, u->pool, &l->ffn_post_norm, n);
    steer(ctx, u->pool, i, n);
    return true;
}

bool forward(struct model_context *ctx, const struct ubatch *u, struct error *err)
{
    const struct hparams *h = &ctx->model->h;
    embed(ctx, u);
    for (int32_t i = 0; i < h->n_layers; i++) {
        if (ctx->should_abort && ctx->should_abort(ctx->abort_arg))
            return error_set(err, ERR_CANCELLED, "the computation was cancelled");
        if (i == h->n_layers - 1 && u->n_out == 0 && ctx->has_kv) {
            /* Nobody wants the result: the last layer's keys and values will do. */
            const float *input =
                block_input(ctx, u->pool, &ctx->model->w.layers[i].attn_norm, (size_t)u->n);
            return attention_block(ctx, u, i, input, err);
        }
        if (!run_layer(ctx, u, i, err))
            return false;
    }
    const struct norm *norm = &ctx->model->w.output_norm;
    if (norm->weight || h->arch->traits & ARCH_BARE_NORM)
        norm_rows(ctx, u->pool, norm, ctx->s.x, ctx->s.x, (size_t)u->n_out);
    return true;
}
