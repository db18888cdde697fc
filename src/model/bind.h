/* bind.h - finding one tensor by its weight_id and making a matrix or a vector of it. */
#ifndef MLXCEL_MODEL_BIND_H
#define MLXCEL_MODEL_BIND_H

#include "model/weights.h"

struct binder {
    const struct tensor_source *source;
    const struct hparams *h;
    struct arena *arena;
    struct error *err;
    const char *root; /* folders: what stands before "layers." */
};

enum { BIND_GLOBAL = -1, BIND_STACKED = -1 };

/* Find out how a folder's names begin. */
void binder_find_root(struct binder *b);

/* The weight's tensor, or NULL: layer BIND_GLOBAL for weights of no layer, expert
 * BIND_STACKED for names without an expert's number. suffix: ".weight" (then a
 * bare name is fine too), ".bias", ".scales" ... The name it has, or would have,
 * is left in name [BIND_NAME_MAX]. */
enum { BIND_NAME_MAX = 256 };
const struct tensor_view *bind_find(const struct binder *b, enum weight_id id, int32_t layer,
                                    int32_t expert, const char *suffix, char *name);
bool bind_has(const struct binder *b, enum weight_id id, int32_t layer, int32_t expert);

/* Bind n_rows x n_cols (times n_experts) with its bias where there is one.
 * Unbound and true when the tensor is absent and not required. */
bool bind_linear(const struct binder *b, enum weight_id id, int32_t layer, int32_t expert,
                 int64_t n_rows, int64_t n_cols, int32_t n_experts, bool required,
                 struct linear *out);
/* n numbers as F32: borrowed where the file has them so, else in the arena.
 * *out is NULL and the result true when absent and not required. */
bool bind_vector(const struct binder *b, enum weight_id id, int32_t layer, const char *suffix,
                 int64_t n, bool required, const float **out);

/* The kinds of matrices only folders have; base is the tensors' common name. */
bool bind_quantized(const struct binder *b, const char *base, const struct tensor_view *weight,
                    int64_t n_rows, int64_t n_cols, int32_t n_experts, struct matrix *m,
                    bool *is_quantized);

#endif
