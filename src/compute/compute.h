/* compute.h - the operations that layers are made of, on rows of numbers.
 *
 * Blocks of models call these and nothing of kernels' that computes. An implementation is a
 * table of functions (struct compute_ops); `compute_cpu` is the one there is, over kernels
 * and a worker pool. Another device would be another table, and tests wrap the one there is
 * to check what blocks ask for.
 *
 * An operation works on whole tensors, in one dispatch. What gives a row's result never
 * depends on how many rows share a call. A struct compute serves one caller at a time.
 * Depends on: base, kernels. */
#ifndef MLXCEL_COMPUTE_COMPUTE_H
#define MLXCEL_COMPUTE_COMPUTE_H

#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of numbers; borrowed. */
struct tensor {
    enum dtype dtype; /* F32 for everything but what a cache holds */
    size_t n_rows, n_cols;
    size_t stride; /* elements from a row to the next, at least n_cols */
    void *data;    /* where the processor finds it */
    void *place;   /* where another device does; NULL: nowhere else */
};

static inline struct tensor rows_of(float *data, size_t n_rows, size_t n_cols, size_t stride)
{
    return (struct tensor){DTYPE_F32, n_rows, n_cols, stride, data, NULL};
}

/* Rows of x that are read only: no operation writes what it calls its input. */
static inline struct tensor input_rows(const float *data, size_t n_rows, size_t n_cols,
                                       size_t stride)
{
    return (struct tensor){DTYPE_F32, n_rows, n_cols, stride, (void *)(uintptr_t)data, NULL};
}

static inline float *tensor_row(const struct tensor *t, size_t i)
{
    return (float *)t->data + i * t->stride;
}

struct embed_op {
    const struct matrix *table;
    const int32_t *ids; /* [n_rows] rows of the table; NULL: row 0 */
    int32_t offset;     /* of the rows in the table */
    float scale;
    bool add; /* to y, instead of over it */
};

struct norm_op {
    bool centred; /* layer norm, else RMS norm */
    const float *weight, *bias;
    float eps;
};

struct linear_op {
    const struct matrix *w;
    const float *bias; /* [n_rows] or NULL */
    struct tensor y;
    bool add; /* to y, instead of over it */
};

/* y[j] = w[expert[j]] x[x_row[j]] + bias[expert[j]] */
struct gathered_op {
    const struct matrix *w; /* of several experts */
    const float *bias;      /* [n_experts][n_rows] or NULL */
    const int32_t *expert, *x_row;
};

/* y[i] = y[i] * factor[e] + bias[e]; e = expert[i] */
struct factor_op {
    const float *factor;   /* [n_experts] */
    const int32_t *expert; /* NULL: 0 */
    const float *bias;     /* [n_experts][n_cols] or NULL */
};

/* How many norms a row of heads has. */
enum head_norm { HEAD_NORM_NONE, HEAD_NORM_SHARED, HEAD_NORM_PER_HEAD, HEAD_NORM_WHOLE };

struct heads {
    int32_t n, dim;
    struct norm_op norm;
    enum head_norm norm_kind;
};

/* Where keys and values go: cell c of head h at base + h * head_bytes + c * cell_bytes. */
struct store_op {
    const int32_t *cells; /* [n_rows]; NULL: nothing is stored */
    enum dtype k_dtype, v_dtype;
    unsigned char *k, *v;
    size_t k_cell_bytes, k_head_bytes, v_cell_bytes, v_head_bytes;
};

/* Between projection and attention: a row is q, then k, then v. */
struct heads_op {
    struct heads q, k;
    size_t dim_v;
    float clamp;     /* 0: none */
    bool norms_late; /* after rope */
    enum rope_kind rope;
    int32_t n_rot;        /* 0: no rope */
    struct tensor angles; /* [n_rows][n_rot] */
    struct store_op store;
};

struct attend_op {
    const struct attention *a;
    const struct attention_sequence *runs;
    size_t n_runs;
    const int32_t *pos; /* of each row of q */
};

enum activate_form {
    ACTIVATE_PLAIN,       /* n_ff */
    ACTIVATE_GATED,       /* gate [n_ff], up [n_ff]; the result replaces gate */
    ACTIVATE_INTERLEAVED, /* gate and up in turns [2 n_ff], then scratch [n_ff] */
};

struct activate_op {
    enum activate_form form;
    enum activation act;
    bool oai; /* gpt-oss's clamped SwiGLU instead of act */
    size_t n_ff;
};

enum route_weights { ROUTE_LOGITS, ROUTE_SOFTMAX, ROUTE_SIGMOID, ROUTE_SOFTMAX_OF_CHOSEN };

struct route_op {
    enum route_weights weights;
    const float *bias; /* [n_experts], added to choose, not to weigh; or NULL */
    int32_t n_used;
    bool add_up_to_one;
    float scale;
    int32_t *expert; /* [n_rows][n_used], the best first */
    float *weight;   /* [n_rows][n_used] */
};

struct compute;

struct compute_ops {
    const char *name;
    /* y (+)= scale * rows of a table; spare [n_rows][n_cols] where it adds. */
    void (*embed)(struct compute *c, const struct embed_op *op, struct tensor y,
                  struct tensor spare);
    void (*copy)(struct compute *c, struct tensor x, struct tensor y);
    /* y[i] = y[rows[i]] for i < n, in place; rows ascend. */
    void (*keep)(struct compute *c, const int32_t *rows, size_t n, struct tensor y);
    void (*norm)(struct compute *c, const struct norm_op *op, struct tensor x, struct tensor y);
    /* y += scale * x; x of one row is added to every row. */
    void (*add)(struct compute *c, float scale, struct tensor x, struct tensor y);
    /* y += sigmoid(gate) * x, a gate for each row; gate is overwritten. */
    void (*add_gated)(struct compute *c, struct tensor gate, struct tensor x, struct tensor y);
    /* Several matrices of the same n_cols over the same x. False when out of memory. */
    bool (*linear)(struct compute *c, const struct linear_op *ops, size_t n_ops, struct tensor x);
    bool (*linear_gathered)(struct compute *c, const struct gathered_op *op, struct tensor x,
                            struct tensor y);
    void (*factor)(struct compute *c, const struct factor_op *op, struct tensor y);
    /* y[i] = the rotation of pos[i] (rope_angles). */
    void (*angles)(struct compute *c, const struct rope_params *p, const int32_t *pos,
                   struct tensor y);
    void (*heads)(struct compute *c, const struct heads_op *op, struct tensor qkv);
    bool (*attend)(struct compute *c, const struct attend_op *op, struct tensor q, struct tensor y);
    void (*activate)(struct compute *c, const struct activate_op *op, struct tensor y);
    /* The best experts of each row of logits, which are overwritten. */
    void (*route)(struct compute *c, const struct route_op *op, struct tensor logits);
    /* y[i] (+)= sum over k of weight[i][k] * x[i * n_used + k] */
    void (*combine)(struct compute *c, const float *weight, size_t n_used, bool add,
                    struct tensor x, struct tensor y);
    /* y = cap * tanh(scale * y / cap); a cap of 0 is none. */
    void (*cap)(struct compute *c, float scale, float cap, struct tensor y);
    void (*softmax)(struct compute *c, struct tensor y);
};

struct compute {
    const struct compute_ops *ops;
    struct worker_pool *pool; /* compute_cpu's */
    void *state;              /* another implementation's */
};

extern const struct compute_ops compute_cpu;

static inline struct compute compute_on_cpu(struct worker_pool *pool)
{
    return (struct compute){&compute_cpu, pool, NULL};
}

#endif
