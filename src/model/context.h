/* context.h - one forward pass's memory: the KV cache, scratch, outputs. */
#ifndef MLXCEL_MODEL_CONTEXT_H
#define MLXCEL_MODEL_CONTEXT_H

#include "compute/compute.h"
#include "model/kv.h"
#include "model/weights.h"

struct model {
    struct arena arena;
    struct hparams h;
    struct weights w;
    struct model_info info;
    void *owned; /* synthetic weights */
    size_t owned_bytes;
};

/* A part of a batch that passes over the weights together. Rows that want an
 * output are n_out of the n; after the last layer's attention only they go on. */
struct ubatch {
    int32_t n, first; /* batch rows [first, first + n) */
    const int32_t *token, *pos, *seq;
    const float *input;              /* [n][n_embd] rows instead of tokens, or NULL */
    const bool *wide;                /* NULL: none */
    const int32_t *cell[KV_N_KINDS]; /* [n] where keys and values go; NULL: no such cache */
    int32_t n_out;
    const int32_t *out_rows; /* [n_out] rows of the ubatch, ascending */
};

/* Float buffers of n_ubatch rows; widths in the layout below. */
struct scratch {
    float *x;                     /* [n][n_embd] the residual stream */
    float *h;                     /* [n][n_embd] what a block reads */
    float *y;                     /* [n][n_embd] what a block writes */
    float *qkv;                   /* [n][n_qkv] */
    float *attn;                  /* [n][n_heads * head_dim_v] */
    float *ffn;                   /* [n_ffn_rows][n_ffn] gate and up, or the experts' */
    float *cos_sin, *cos_sin_swa; /* [n][n_rot] */
    float *router;                /* [n][n_experts] */
    float *expert_weight;         /* [n][n_experts_used] */
    int32_t *expert, *expert_row; /* the same shape */
    float *gathered;              /* rows of one expert, where experts are apart */
    int32_t n_ffn_rows;           /* tokens that the FFN takes at once */
    size_t n_qkv, n_attn, n_ffn;  /* widths */
    size_t n_gathered;
};

struct model_context {
    const struct model *model;
    struct context_settings settings;
    enum pooling pooling;
    struct rope_params rope, rope_swa;
    struct kv_cache kv; /* no cells for encoders */
    bool has_kv;
    struct scratch s;
    struct {
        float *rows;         /* [n_layers][n_embd]; NULL: none */
        int32_t first, last; /* layers that have one, both included */
    } control;
    const struct compute_ops *ops; /* the processor's, unless a test wraps them */
    void *ops_state;
    const struct worker_pool *entered; /* by the thread that decodes */
    bool (*should_abort)(void *);
    void *abort_arg;

    /* Outputs of the last decode. */
    float *logits; /* [n_out][n_vocab] */
    size_t logits_capacity;
    float *embd; /* [n_out][n_embd] where embeddings are on */
    size_t embd_capacity;
    int32_t n_out;
    int32_t *out_of_row;   /* [n_batch] index of the output or -1 */
    int32_t n_rows;        /* of the last batch */
    float *pooled;         /* [n_seq_max][n_embd] */
    int32_t *pooled_count; /* [n_seq_max] tokens that went in; 0: none */
    float *dense;          /* between the dense layers behind pooling */

    /* Lists made while a batch runs, [n_batch] each. */
    int32_t *cell, *out_rows, *order;
    int32_t *cell_window; /* [n_ubatch] */
    struct attention_sequence *runs;
};

static inline bool is_encoder(const struct model *m)
{
    return m->h.is_encoder;
}

/* What the blocks of one pass over the weights work with. */
struct pass {
    struct model_context *ctx; /* the model, scratch, the cache, control vectors */
    const struct ubatch *u;    /* the rows; NULL behind the layers, for pooled vectors */
    struct compute *compute;   /* what it is computed on */
};

/* ---- blocks of the forward pass (forward.c, blocks/) ------------------------ */

/* n rows of n_embd. */
static inline struct tensor stream_rows(const struct pass *pass, float *data, size_t n)
{
    size_t n_embd = (size_t)pass->ctx->model->h.n_embd;
    return rows_of(data, n, n_embd, n_embd);
}

static inline struct tensor stream_input(const struct pass *pass, const float *data, size_t n)
{
    size_t n_embd = (size_t)pass->ctx->model->h.n_embd;
    return input_rows(data, n, n_embd, n_embd);
}

/* y[i] = norm(x[i]) for n rows of n_embd; y may be x. A norm without a weight
 * has ones, and no bias. */
void norm_rows(const struct pass *pass, const struct norm *norm, const float *x, float *y,
               size_t n);
/* qkv, norms, rope, cache, attention: input to ctx->s.attn. */
bool attention_block(const struct pass *pass, int32_t layer, const float *input, struct error *err);
/* y (+)= ffn(input) for n rows. add: onto y, else over it. y is not the input. */
bool ffn_block(const struct pass *pass, const struct layer *l, const float *input, float *y,
               bool add, size_t n, struct error *err);

/* A pass is embed, forward over all layers, norm_outputs. Between them the rows stand in
 * ctx->s.x, and nothing else is carried from one layer to the next: layers may be run in
 * several ranges, on several machines, by copying [n][n_embd] there. */

/* Tokens, or the input's rows, to rows of the stream. Input rows stand for scaled token
 * embeddings; token types, positions and a norm are added to them as to those. */
void embed(struct pass *pass);
/* Layers [first_layer, end_layer). After the model's last layer only the n_out rows that
 * want an output are left, in their order. */
bool forward(struct pass *pass, int32_t first_layer, int32_t end_layer, struct error *err);
/* The norm behind the last layer, on the n_out rows, in place. */
void norm_outputs(struct pass *pass);

/* Take rows of hidden states into the pooled vectors, and finish them when the
 * batch is through. */
void pool_rows(const struct pass *pass);
/* The dense layers behind pooling, on n rows of n_embd in place; nothing where
 * there are none. */
bool dense_rows(const struct pass *pass, float *x, size_t n);
bool pool_finish(const struct pass *pass, struct error *err);

/* The rotation parameters of a context (rope.c). */
void context_rope(struct model_context *ctx);
/* Re-rotate the keys of cells [begin, end) of a sequence by delta positions. */
bool kv_rotate(struct model_context *ctx, int32_t seq, int32_t begin, int32_t end, int32_t delta);

#endif
