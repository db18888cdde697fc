/* forward.c - one pass over the weights for one ubatch: rows in, a range of layers, rows out. */
#include "model/blocks/linear.h"
#include "model/context.h"

#include <assert.h>
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
        if (a->h->norm == NORM_RMS)
            rms_norm(a->x + i * n, a->norm->weight, a->h->norm_eps, n, a->y + i * n);
        else
            layer_norm(a->x + i * n, a->norm->weight, a->norm->bias, a->h->norm_eps, n,
                       a->y + i * n);
    }
}

void norm_rows(const struct pass *pass, const struct norm *norm, const float *x, float *y, size_t n)
{
    struct norm_arg a = {&pass->ctx->model->h, norm, x, y};
    each_row(pass->pool, n, (size_t)a.h->n_embd * 2, norm_some, &a);
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
static void join(const struct pass *pass, const struct norm *post, size_t n)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct scratch *s = &pass->ctx->s;
    if (post->weight && !h->norms_after)
        norm_rows(pass, post, s->y, s->y, n);
    struct residual_arg a = {(size_t)h->n_embd, h->residual_scale, s->x, s->y};
    each_row(pass->pool, n, (size_t)h->n_embd, residual_some, &a);
    if (post->weight && h->norms_after)
        norm_rows(pass, post, s->x, s->x, n);
}

/* ---- beginning ------------------------------------------------------------------ */

/* A token's own row, or the row that is given instead of it. */
static void first_row(const struct pass *pass, size_t i, float *x)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct ubatch *u = pass->u;
    size_t n = (size_t)h->n_embd;
    if (u->input) {
        memcpy(x, u->input + i * n, n * sizeof *x);
        return;
    }
    matrix_row(&pass->ctx->model->w.token_embd.matrix, 0, u->token[i], x);
    if (h->embd_scale != 1.0f)
        vec_scale(x, h->embd_scale, n, x);
}

static void embed_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct pass *pass = arg;
    const struct hparams *h = &pass->ctx->model->h;
    const struct weights *w = &pass->ctx->model->w;
    size_t n = (size_t)h->n_embd;
    for (size_t i = begin; i < end; i++) {
        float *x = pass->ctx->s.x + i * n, *extra = pass->ctx->s.y + i * n;
        first_row(pass, i, x);
        if (is_bound(&w->token_types)) {
            matrix_row(&w->token_types.matrix, 0, 0, extra);
            vec_add(x, extra, n, x);
        }
        if (is_bound(&w->position_embd)) {
            matrix_row(&w->position_embd.matrix, 0, pass->u->pos[i] + h->n_pos_offset, extra);
            vec_add(x, extra, n, x);
        }
    }
}

void embed(struct pass *pass)
{
    const struct norm *norm = &pass->ctx->model->w.embd_norm;
    float *x = pass->ctx->s.x;
    size_t n = (size_t)pass->u->n;
    each_row(pass->pool, n, (size_t)pass->ctx->model->h.n_embd * 4, embed_some, pass);
    if (norm->weight)
        norm_rows(pass, norm, x, x, n);
}

/* The rotation of each row's position, which every layer uses. */
static void angles_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct pass *pass = arg;
    const struct model_context *ctx = pass->ctx;
    size_t n_rot = (size_t)ctx->model->h.n_rot;
    for (size_t i = begin; i < end; i++) {
        rope_angles(&ctx->rope, pass->u->pos[i], ctx->s.cos_sin + i * n_rot);
        if (ctx->model->h.n_swa)
            rope_angles(&ctx->rope_swa, pass->u->pos[i], ctx->s.cos_sin_swa + i * n_rot);
    }
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
static const float *block_input(const struct pass *pass, const struct norm *norm, size_t n)
{
    const struct scratch *s = &pass->ctx->s;
    if (!norm->weight && !pass->ctx->model->h.bare_norms)
        return s->x;
    norm_rows(pass, norm, s->x, s->h, n);
    return s->h;
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
static void steer(const struct pass *pass, int32_t i, size_t n)
{
    const struct model_context *ctx = pass->ctx;
    size_t n_embd = (size_t)ctx->model->h.n_embd;
    if (!ctx->control.rows || i < ctx->control.first || i > ctx->control.last ||
        is_encoder(ctx->model))
        return;
    struct control_arg a = {ctx->s.x, ctx->control.rows + (size_t)i * n_embd, n_embd};
    each_row(pass->pool, n, n_embd, control_some, &a);
}

/* After the model's last attention only the rows that want an output go on. */
static size_t drop_rows(const struct pass *pass, int32_t i, size_t n_attn, bool parallel)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct scratch *s = &pass->ctx->s;
    const struct ubatch *u = pass->u;
    if (i != h->n_layers - 1 || u->n_out == u->n)
        return (size_t)u->n;
    keep_rows(s->x, (size_t)h->n_embd, u);
    keep_rows(s->attn, n_attn, u);
    if (parallel)
        keep_rows(s->h, (size_t)h->n_embd, u);
    return (size_t)u->n_out;
}

/* The attention's result through its output projection into the stream. */
static bool project_out(const struct pass *pass, const struct layer *l, bool plain, size_t n_attn,
                        size_t n)
{
    const struct scratch *s = &pass->ctx->s;
    size_t n_embd = (size_t)pass->ctx->model->h.n_embd;
    bool direct = plain && !l->attn_post_norm.weight;
    struct linear_term out = {&l->out, direct ? s->x : s->y, n_embd, direct};
    if (!linear_consuming(pass, &out, s->attn, n_attn, n))
        return false;
    if (l->attn_post_norm_2.weight) /* the layer's input is wanted once more */
        memcpy(s->h, s->x, n * n_embd * sizeof *s->h);
    if (!direct)
        join(pass, &l->attn_post_norm, n);
    if (l->attn_post_norm_2.weight) {
        memcpy(s->y, s->h, n * n_embd * sizeof *s->y);
        join(pass, &l->attn_post_norm_2, n);
    }
    return true;
}

static bool run_layer(const struct pass *pass, int32_t i, struct error *err)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct layer *l = &pass->ctx->model->w.layers[i];
    const struct scratch *s = &pass->ctx->s;
    size_t n_attn = (size_t)h->layers[i].n_heads * (size_t)h->head_dim_v;
    bool plain = h->residual_scale == 1.0f && !h->norms_after;
    bool parallel = h->parallel && !l->ffn_norm.weight;

    const float *input = block_input(pass, &l->attn_norm, (size_t)pass->u->n);
    /* A parallel feed-forward block reads the attention's input, so that must last. */
    assert(!parallel || (input == s->h && !l->attn_post_norm_2.weight));
    if (!attention_block(pass, i, input, err))
        return false;
    size_t n = drop_rows(pass, i, n_attn, parallel);
    if (!project_out(pass, l, plain, n_attn, n))
        return error_memory(err);

    const float *ffn_in = parallel ? s->h : block_input(pass, &l->ffn_norm, n);
    /* Where the block reads the stream itself it must not write to it. */
    bool direct = plain && !l->ffn_post_norm.weight && ffn_in != s->x;
    if (!ffn_block(pass, l, ffn_in, direct ? s->x : s->y, direct, n, err))
        return false;
    if (!direct)
        join(pass, &l->ffn_post_norm, n);
    steer(pass, i, n);
    return true;
}

bool forward(struct pass *pass, int32_t first_layer, int32_t end_layer, struct error *err)
{
    struct model_context *ctx = pass->ctx;
    const struct hparams *h = &ctx->model->h;
    const struct ubatch *u = pass->u;
    assert(0 <= first_layer && first_layer <= end_layer && end_layer <= h->n_layers);
    if (h->n_rot)
        each_row(pass->pool, (size_t)u->n, (size_t)h->n_rot * 4, angles_some, pass);
    for (int32_t i = first_layer; i < end_layer; i++) {
        if (ctx->should_abort && ctx->should_abort(ctx->abort_arg))
            return error_set(err, ERR_CANCELLED, "the computation was cancelled");
        if (i == h->n_layers - 1 && u->n_out == 0 && ctx->has_kv) {
            /* Nobody wants the result: the last layer's keys and values will do. */
            const float *input =
                block_input(pass, &ctx->model->w.layers[i].attn_norm, (size_t)u->n);
            return attention_block(pass, i, input, err);
        }
        if (!run_layer(pass, i, err))
            return false;
    }
    return true;
}

void norm_outputs(struct pass *pass)
{
    const struct norm *norm = &pass->ctx->model->w.output_norm;
    float *x = pass->ctx->s.x;
    if (norm->weight || pass->ctx->model->h.bare_norms)
        norm_rows(pass, norm, x, x, (size_t)pass->u->n_out);
}
