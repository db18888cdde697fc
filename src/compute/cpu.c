/* cpu.c - compute on the processor: operations over kernels and the worker pool. */
#include "compute/cpu.h"

#include <string.h>

/* Below this much work a dispatch costs more than it saves. */
enum { ROW_WORK_MIN = 1 << 14 };

void cpu_rows(struct compute *c, size_t n, size_t row_cost, worker_items_fn fn, void *arg)
{
    if (n < 2 || n * row_cost < ROW_WORK_MIN) {
        fn(arg, 0, n, 0);
        return;
    }
    size_t grain = ROW_WORK_MIN / (row_cost ? row_cost : 1);
    worker_pool_each(c->pool, n, grain ? grain : 1, fn, arg);
}

/* ---- beginning ---------------------------------------------------------------------- */

struct embed_arg {
    const struct embed_op *op;
    struct tensor y, spare;
};

static void embed_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct embed_arg *a = arg;
    size_t n = a->y.n_cols;
    for (size_t i = begin; i < end; i++) {
        float *y = tensor_row(&a->y, i), *row = a->op->add ? tensor_row(&a->spare, i) : y;
        int32_t id = a->op->ids ? a->op->ids[i] + a->op->offset : 0;
        matrix_row(a->op->table, 0, id, row);
        if (a->op->scale != 1.0f)
            vec_scale(row, a->op->scale, n, row);
        if (a->op->add)
            vec_add(y, row, n, y);
    }
}

static void cpu_embed(struct compute *c, const struct embed_op *op, struct tensor y,
                      struct tensor spare)
{
    struct embed_arg a = {op, y, spare};
    cpu_rows(c, y.n_rows, y.n_cols * 4, embed_some, &a);
}

static void cpu_copy(struct compute *c, struct tensor x, struct tensor y)
{
    (void)c;
    for (size_t i = 0; i < y.n_rows; i++)
        memcpy(tensor_row(&y, i), tensor_row(&x, i), y.n_cols * sizeof(float));
}

/* The rows ascend, so none is overwritten before it moved. */
static void cpu_keep(struct compute *c, const int32_t *rows, size_t n, struct tensor y)
{
    (void)c;
    for (size_t i = 0; i < n; i++)
        if ((size_t)rows[i] != i)
            memmove(tensor_row(&y, i), tensor_row(&y, (size_t)rows[i]), y.n_cols * sizeof(float));
}

struct angles_arg {
    const struct rope_params *p;
    const int32_t *pos;
    struct tensor y;
};

static void angles_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct angles_arg *a = arg;
    for (size_t i = begin; i < end; i++)
        rope_angles(a->p, a->pos[i], tensor_row(&a->y, i));
}

static void cpu_angles(struct compute *c, const struct rope_params *p, const int32_t *pos,
                       struct tensor y)
{
    struct angles_arg a = {p, pos, y};
    cpu_rows(c, y.n_rows, y.n_cols * 16, angles_some, &a);
}

/* ---- rows --------------------------------------------------------------------------- */

void cpu_norm_row(const struct norm_op *op, const float *x, size_t n, float *y)
{
    if (op->centred)
        layer_norm(x, op->weight, op->bias, op->eps, n, y);
    else
        rms_norm(x, op->weight, op->eps, n, y);
}

struct norm_arg {
    const struct norm_op *op;
    struct tensor x, y;
};

static void norm_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct norm_arg *a = arg;
    for (size_t i = begin; i < end; i++)
        cpu_norm_row(a->op, tensor_row(&a->x, i), a->y.n_cols, tensor_row(&a->y, i));
}

static void cpu_norm(struct compute *c, const struct norm_op *op, struct tensor x, struct tensor y)
{
    struct norm_arg a = {op, x, y};
    cpu_rows(c, y.n_rows, y.n_cols * 2, norm_some, &a);
}

struct add_arg {
    float scale;
    struct tensor x, y;
};

static void add_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct add_arg *a = arg;
    size_t n = a->y.n_cols;
    bool every = a->x.n_rows == a->y.n_rows;
    if (every && a->x.stride == n && a->y.stride == n) {
        vec_add_scaled(tensor_row(&a->y, begin), tensor_row(&a->x, begin), a->scale,
                       (end - begin) * n);
        return;
    }
    for (size_t i = begin; i < end; i++)
        vec_add_scaled(tensor_row(&a->y, i), tensor_row(&a->x, every ? i : 0), a->scale, n);
}

static void cpu_add(struct compute *c, float scale, struct tensor x, struct tensor y)
{
    struct add_arg a = {scale, x, y};
    cpu_rows(c, y.n_rows, y.n_cols, add_some, &a);
}

static void cpu_add_gated(struct compute *c, struct tensor gate, struct tensor x, struct tensor y)
{
    (void)c;
    for (size_t i = 0; i < y.n_rows; i++) {
        float *g = tensor_row(&gate, i);
        activate(ACT_SIGMOID, g, 1, g);
        vec_add_scaled(tensor_row(&y, i), tensor_row(&x, i), *g, y.n_cols);
    }
}

struct factor_arg {
    const struct factor_op *op;
    struct tensor y;
};

static void factor_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct factor_arg *a = arg;
    size_t n = a->y.n_cols;
    for (size_t i = begin; i < end; i++) {
        size_t e = a->op->expert ? (size_t)a->op->expert[i] : 0;
        float *row = tensor_row(&a->y, i);
        vec_scale(row, a->op->factor[e], n, row);
        if (a->op->bias)
            vec_add_scaled(row, a->op->bias + e * n, 1.0f, n);
    }
}

static void cpu_factor(struct compute *c, const struct factor_op *op, struct tensor y)
{
    struct factor_arg a = {op, y};
    cpu_rows(c, y.n_rows, y.n_cols, factor_some, &a);
}

/* ---- products ----------------------------------------------------------------------- */

enum { N_TERMS_MAX = 8 };

static bool cpu_linear(struct compute *c, const struct linear_op *ops, size_t n_ops,
                       struct tensor x)
{
    struct matmul_term terms[N_TERMS_MAX] = {{0}};
    for (size_t done = 0; done < n_ops;) {
        size_t n = 0;
        for (; n < N_TERMS_MAX && done + n < n_ops; n++) {
            const struct linear_op *op = &ops[done + n];
            terms[n] = (struct matmul_term){op->w, op->bias, op->y.data, op->y.stride, op->add};
        }
        if (!matmul_many(c->pool, terms, n, x.data, x.stride, x.n_rows))
            return false;
        done += n;
    }
    return true;
}

static bool cpu_linear_gathered(struct compute *c, const struct gathered_op *op, struct tensor x,
                                struct tensor y)
{
    return matmul_gathered(c->pool, op->w, op->bias, op->expert, op->x_row, y.n_rows, x.data,
                           x.stride, x.n_rows, y.data, y.stride);
}

static bool cpu_attend(struct compute *c, const struct attend_op *op, struct tensor q,
                       struct tensor y)
{
    return attention(c->pool, op->a, op->runs, op->n_runs, q.data, q.stride, op->pos, y.data,
                     y.stride);
}

/* ---- ends --------------------------------------------------------------------------- */

struct cap_arg {
    float scale, cap;
    float *y;
};

static void cap_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct cap_arg *a = arg;
    float *y = a->y + begin;
    if (a->scale != 1.0f)
        vec_scale(y, a->scale, end - begin, y);
    if (a->cap > 0.0f)
        soft_cap(y, a->cap, end - begin, y);
}

static void cpu_cap(struct compute *c, float scale, float cap, struct tensor y)
{
    for (size_t i = 0; i < (y.stride == y.n_cols ? 1 : y.n_rows); i++) {
        size_t n = y.stride == y.n_cols ? y.n_rows * y.n_cols : y.n_cols;
        struct cap_arg a = {scale, cap, tensor_row(&y, i)};
        cpu_rows(c, n, 16, cap_some, &a);
    }
}

static void cpu_softmax(struct compute *c, struct tensor y)
{
    (void)c;
    for (size_t i = 0; i < y.n_rows; i++)
        softmax(tensor_row(&y, i), NULL, 1.0f, NULL, y.n_cols, tensor_row(&y, i));
}

const struct compute_ops compute_cpu = {
    .name = "cpu",
    .embed = cpu_embed,
    .copy = cpu_copy,
    .keep = cpu_keep,
    .norm = cpu_norm,
    .add = cpu_add,
    .add_gated = cpu_add_gated,
    .linear = cpu_linear,
    .linear_gathered = cpu_linear_gathered,
    .factor = cpu_factor,
    .angles = cpu_angles,
    .heads = cpu_heads,
    .attend = cpu_attend,
    .activate = cpu_activate,
    .route = cpu_route,
    .combine = cpu_combine,
    .cap = cpu_cap,
    .softmax = cpu_softmax,
};
