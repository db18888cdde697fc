/* forward.c - one pass over the weights for one ubatch: rows in, a range of layers, rows out. */
#include "model/blocks/linear.h"
#include "model/context.h"

#include <assert.h>

void norm_rows(const struct pass *pass, const struct norm *norm, const float *x, float *y, size_t n)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct norm_op op = {h->norm != NORM_RMS, norm->weight, norm->bias, h->norm_eps};
    pass->compute->ops->norm(pass->compute, &op, stream_input(pass, x, n), stream_rows(pass, y, n));
}

/* x += scale * norm(y), or for encoders x = norm(x + y). */
static void join(const struct pass *pass, const struct norm *post, size_t n)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct scratch *s = &pass->ctx->s;
    if (post->weight && !h->norms_after)
        norm_rows(pass, post, s->y, s->y, n);
    pass->compute->ops->add(pass->compute, h->residual_scale, stream_rows(pass, s->y, n),
                            stream_rows(pass, s->x, n));
    if (post->weight && h->norms_after)
        norm_rows(pass, post, s->x, s->x, n);
}

/* ---- beginning ------------------------------------------------------------------ */

void embed(struct pass *pass)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct weights *w = &pass->ctx->model->w;
    const struct ubatch *u = pass->u;
    const struct compute_ops *ops = pass->compute->ops;
    size_t n = (size_t)u->n;
    struct tensor x = stream_rows(pass, pass->ctx->s.x, n);
    struct tensor spare = stream_rows(pass, pass->ctx->s.y, n);
    const struct embed_op tokens = {&w->token_embd.matrix, u->token, 0, h->embd_scale, false};
    const struct embed_op types = {&w->token_types.matrix, NULL, 0, 1.0f, true};
    const struct embed_op places = {&w->position_embd.matrix, u->pos, h->n_pos_offset, 1.0f, true};
    if (u->input)
        ops->copy(pass->compute, stream_input(pass, u->input, n), x);
    else
        ops->embed(pass->compute, &tokens, x, spare);
    if (is_bound(&w->token_types))
        ops->embed(pass->compute, &types, x, spare);
    if (is_bound(&w->position_embd))
        ops->embed(pass->compute, &places, x, spare);
    if (w->embd_norm.weight)
        norm_rows(pass, &w->embd_norm, pass->ctx->s.x, pass->ctx->s.x, n);
}

/* The rotation of each row's position, which every layer uses. */
static void find_angles(const struct pass *pass)
{
    const struct model_context *ctx = pass->ctx;
    const struct hparams *h = &ctx->model->h;
    size_t n = (size_t)pass->u->n, n_rot = (size_t)h->n_rot;
    const struct compute_ops *ops = pass->compute->ops;
    if (n_rot)
        ops->angles(pass->compute, &ctx->rope, pass->u->pos,
                    rows_of(ctx->s.cos_sin, n, n_rot, n_rot));
    if (n_rot && h->n_swa)
        ops->angles(pass->compute, &ctx->rope_swa, pass->u->pos,
                    rows_of(ctx->s.cos_sin_swa, n, n_rot, n_rot));
}

/* ---- layers ------------------------------------------------------------------------ */

/* Keep only the rows that want an output. */
static void keep_rows(const struct pass *pass, float *rows, size_t width)
{
    const struct ubatch *u = pass->u;
    pass->compute->ops->keep(pass->compute, u->out_rows, (size_t)u->n_out,
                             rows_of(rows, (size_t)u->n, width, width));
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

/* Add what a control vector has for layer i to n rows of the stream. */
static void steer(const struct pass *pass, int32_t i, size_t n)
{
    const struct model_context *ctx = pass->ctx;
    size_t n_embd = (size_t)ctx->model->h.n_embd;
    if (!ctx->control.rows || i < ctx->control.first || i > ctx->control.last ||
        is_encoder(ctx->model))
        return;
    pass->compute->ops->add(pass->compute, 1.0f,
                            stream_rows(pass, ctx->control.rows + (size_t)i * n_embd, 1),
                            stream_rows(pass, ctx->s.x, n));
}

/* After the model's last attention only the rows that want an output go on. */
static size_t drop_rows(const struct pass *pass, int32_t i, size_t n_attn, bool parallel)
{
    const struct hparams *h = &pass->ctx->model->h;
    const struct scratch *s = &pass->ctx->s;
    const struct ubatch *u = pass->u;
    if (i != h->n_layers - 1 || u->n_out == u->n)
        return (size_t)u->n;
    keep_rows(pass, s->x, (size_t)h->n_embd);
    keep_rows(pass, s->attn, n_attn);
    if (parallel)
        keep_rows(pass, s->h, (size_t)h->n_embd);
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
        pass->compute->ops->copy(pass->compute, stream_rows(pass, s->x, n),
                                 stream_rows(pass, s->h, n));
    if (!direct)
        join(pass, &l->attn_post_norm, n);
    if (l->attn_post_norm_2.weight) {
        pass->compute->ops->copy(pass->compute, stream_rows(pass, s->h, n),
                                 stream_rows(pass, s->y, n));
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
    find_angles(pass);
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
