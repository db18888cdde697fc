/* weights.h - a model's tensors, bound to the places where they are used. */
#ifndef MLXCEL_MODEL_WEIGHTS_H
#define MLXCEL_MODEL_WEIGHTS_H

#include "model/hparams.h"

/* Where tensors come from: a file, or memory (synthetic models). */
struct tensor_source {
    const struct tensor_view *(*find)(const void *arg, const char *name);
    const void *arg;
    const char *path;              /* for messages */
    const struct model_file *file; /* NULL: none; for model_file_release */
    const json_t *config;          /* of a folder; NULL */
};

struct tensor_source source_of_file(const struct model_file *file);

/* y = scale w x + bias. Unbound while matrix.n_rows is 0. */
struct linear {
    struct matrix matrix;
    const float *bias;  /* [n_rows] (times n_experts), or NULL */
    const float *scale; /* [n_experts] or NULL: 1 */
};

struct norm {
    const float *weight, *bias; /* weight NULL: there is no such norm */
};

/* One projection of all experts: stacked in one tensor, or one tensor each. */
struct experts {
    struct linear stacked; /* n_experts matrices; unbound: */
    struct linear *each;   /* [n_experts], in the arena */
};

enum qk_norm_kind {
    QK_NORM_NONE,
    QK_NORM_SHARED,   /* each head by the same weights [head_dim] */
    QK_NORM_PER_HEAD, /* each head by its own [n_heads][head_dim] */
    QK_NORM_WHOLE     /* all heads as one row [n_heads * head_dim] */
};

struct layer {
    struct norm attn_norm, attn_post_norm, attn_post_norm_2, ffn_norm, ffn_post_norm;
    struct norm q_norm, k_norm;
    enum qk_norm_kind q_norm_kind, k_norm_kind;
    struct linear qkv;     /* or: */
    struct linear q, k, v; /* rows of q, k and v, one after the other */
    struct linear out;
    const float *sinks;     /* [n_heads] or NULL */
    struct linear gate_up;  /* gate rows, then up rows; or: */
    struct linear gate, up; /* gate unbound: the FFN has none */
    struct linear down;
    bool is_moe;
    bool gate_up_interleaved; /* gate_up_exps: row 2i is gate i, 2i+1 up i */
    struct linear router;
    const float *router_bias; /* [n_experts] or NULL */
    struct experts gate_exps, up_exps, gate_up_exps, down_exps;
    struct linear shared_router; /* one row; unbound: none */
    struct linear gate_shared, up_shared, down_shared;
};

struct weights {
    struct linear token_embd, output; /* output may borrow token_embd's matrix */
    bool output_is_token_embd;
    struct norm embd_norm, output_norm;
    struct linear token_types, position_embd;
    struct linear cls, cls_out, dense[2];
    struct norm cls_norm;
    const float *rope_freqs, *rope_long, *rope_short; /* [n_rot / 2] or NULL */
    struct layer *layers;                             /* [n_layers], in the arena */
    int32_t n_vocab;
};

static inline bool is_bound(const struct linear *l)
{
    return l->matrix.n_rows != 0;
}

/* ---- the table of matrices (weights_table.c) --------------------------------
 * Binding asks it where a matrix goes, and repacking, counting and releasing go through it:
 * a matrix that has no row cannot be bound, so none is forgotten. */

/* Asserts that the id has such a place. */
struct linear *weight_global(struct weights *w, enum weight_id id);
struct linear *weight_linear(struct layer *l, enum weight_id id);
struct experts *weight_experts(struct layer *l, enum weight_id id);

/* Find, check and bind all tensors. Fails naming the tensor. */
bool weights_bind(const struct tensor_source *source, const struct hparams *h, struct arena *arena,
                  struct weights *out, struct error *err);
/* Let the kernels repack what they like to; the source's pages are given up.
 * progress, where not NULL, counts up to 1000. */
bool weights_prepare(struct weights *w, const struct hparams *h, const struct model_file *file,
                     struct worker_pool *pool, atomic_int *progress, struct error *err);
/* Fails naming a tensor that holds NaN or infinity (plain float formats). */
bool weights_check_finite(const struct model_file *file, struct error *err);
void weights_release(struct weights *w, const struct hparams *h);

#endif
