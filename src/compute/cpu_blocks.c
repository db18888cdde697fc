/* cpu_blocks.c - compute on the processor: what attention and feed-forward blocks do to rows
 * between their products, each in one dispatch.
 *
 * Sources: Shazeer 2020 (gated units), Fedus et al. 2021 (mixtures). */
#include "compute/cpu.h"

#include <math.h>
#include <string.h>

/* ---- heads -------------------------------------------------------------------------- */

static void norm_heads(const struct heads *h, float *x)
{
    size_t dim = (size_t)h->dim, n_heads = (size_t)h->n;
    size_t n = h->norm_kind == HEAD_NORM_WHOLE ? dim * n_heads : dim;
    size_t rows = h->norm_kind == HEAD_NORM_NONE    ? 0
                  : h->norm_kind == HEAD_NORM_WHOLE ? 1
                                                    : n_heads;
    for (size_t i = 0; i < rows; i++) {
        struct norm_op op = h->norm;
        op.weight += h->norm_kind == HEAD_NORM_PER_HEAD ? i * dim : 0;
        cpu_norm_row(&op, x + i * n, n, x + i * n);
    }
}

static void store_row(const struct heads_op *op, const float *k, const float *v, int32_t cell)
{
    const struct store_op *s = &op->store;
    size_t dim_k = (size_t)op->k.dim;
    for (size_t i = 0; i < (size_t)op->k.n; i++) {
        dtype_encode(s->k_dtype, k + i * dim_k,
                     s->k + i * s->k_head_bytes + (size_t)cell * s->k_cell_bytes, dim_k);
        dtype_encode(s->v_dtype, v + i * op->dim_v,
                     s->v + i * s->v_head_bytes + (size_t)cell * s->v_cell_bytes, op->dim_v);
    }
}

struct heads_arg {
    const struct heads_op *op;
    struct tensor qkv;
};

static void heads_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct heads_arg *a = arg;
    const struct heads_op *op = a->op;
    size_t n_q = (size_t)op->q.n * (size_t)op->q.dim, n_k = (size_t)op->k.n * (size_t)op->k.dim;
    size_t n = n_q + n_k + (size_t)op->k.n * op->dim_v;
    for (size_t i = begin; i < end; i++) {
        float *q = tensor_row(&a->qkv, i), *k = q + n_q, *v = k + n_k;
        for (size_t j = 0; op->clamp > 0.0f && j < n; j++)
            q[j] = q[j] > op->clamp ? op->clamp : q[j] < -op->clamp ? -op->clamp : q[j];
        for (int turn = 0; turn < 2; turn++) {
            if (turn == (op->norms_late ? 1 : 0)) {
                norm_heads(&op->q, q);
                norm_heads(&op->k, k);
            } else if (op->n_rot) {
                const float *angles = tensor_row(&op->angles, i);
                rope_apply(op->rope, q, op->q.n, (size_t)op->q.dim, op->n_rot, angles);
                rope_apply(op->rope, k, op->k.n, (size_t)op->k.dim, op->n_rot, angles);
            }
        }
        if (op->store.cells)
            store_row(op, k, v, op->store.cells[i]);
    }
}

void cpu_heads(struct compute *c, const struct heads_op *op, struct tensor qkv)
{
    struct heads_arg a = {op, qkv};
    cpu_rows(c, qkv.n_rows, qkv.n_cols, heads_some, &a);
}

/* ---- activation --------------------------------------------------------------------- */

#define OAI_ALPHA 1.702f
#define OAI_LIMIT 7.0f

/* Gates to the front; the ups to a place behind the pairs. */
static void deinterleave(float *row, size_t n_ff, float *up)
{
    for (size_t i = 0; i < n_ff; i++) {
        float gate = row[2 * i];
        up[i] = row[2 * i + 1];
        row[i] = gate;
    }
}

struct activate_arg {
    const struct activate_op *op;
    struct tensor y;
};

static void activate_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct activate_arg *a = arg;
    const struct activate_op *op = a->op;
    for (size_t i = begin; i < end; i++) {
        float *gate = tensor_row(&a->y, i), *up = gate + op->n_ff;
        if (op->form == ACTIVATE_INTERLEAVED) {
            up = gate + 2 * op->n_ff;
            deinterleave(gate, op->n_ff, up);
        }
        if (op->oai)
            swiglu_oai(gate, up, OAI_ALPHA, OAI_LIMIT, op->n_ff, gate);
        else if (op->form == ACTIVATE_PLAIN)
            activate(op->act, gate, op->n_ff, gate);
        else
            activate_gated(op->act, gate, up, op->n_ff, gate);
    }
}

void cpu_activate(struct compute *c, const struct activate_op *op, struct tensor y)
{
    struct activate_arg a = {op, y};
    cpu_rows(c, y.n_rows, op->n_ff * 8, activate_some, &a);
}

/* ---- experts ------------------------------------------------------------------------ */

/* The largest n_used of n values (plus bias, where there is one): their indices, largest
 * first, the lower index first among equals. */
static void pick(const float *values, const float *bias, int32_t n, int32_t n_used, int32_t *out)
{
    for (int32_t k = 0; k < n_used; k++) {
        int32_t best = -1;
        float most = 0.0f;
        for (int32_t e = 0; e < n; e++) {
            bool taken = false;
            for (int32_t j = 0; j < k; j++)
                taken |= out[j] == e;
            float value = bias ? values[e] + bias[e] : values[e];
            /* Comparing so lets a NaN be picked last, but picked. */
            if (!taken && (best < 0 || value > most)) {
                best = e;
                most = value;
            }
        }
        out[k] = best;
    }
}

struct route_arg {
    const struct route_op *op;
    struct tensor logits;
};

static void route_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct route_arg *a = arg;
    const struct route_op *op = a->op;
    size_t n = a->logits.n_cols, used = (size_t)op->n_used;
    for (size_t i = begin; i < end; i++) {
        float *probs = tensor_row(&a->logits, i), *weight = op->weight + i * used, sum = 0.0f;
        int32_t *expert = op->expert + i * used;
        if (op->weights == ROUTE_SOFTMAX)
            softmax(probs, NULL, 1.0f, NULL, n, probs);
        else if (op->weights == ROUTE_SIGMOID)
            activate(ACT_SIGMOID, probs, n, probs);
        pick(probs, op->bias, (int32_t)n, op->n_used, expert);
        for (size_t k = 0; k < used; k++)
            sum += weight[k] = probs[expert[k]];
        if (op->weights == ROUTE_SOFTMAX_OF_CHOSEN)
            softmax(weight, NULL, 1.0f, NULL, used, weight);
        else if (op->add_up_to_one)
            vec_scale(weight, 1.0f / fmaxf(sum, 6.103515625e-5f), used, weight);
        if (op->scale != 1.0f)
            vec_scale(weight, op->scale, used, weight);
    }
}

void cpu_route(struct compute *c, const struct route_op *op, struct tensor logits)
{
    struct route_arg a = {op, logits};
    cpu_rows(c, logits.n_rows, logits.n_cols * (size_t)op->n_used, route_some, &a);
}

struct combine_arg {
    const float *weight;
    size_t n_used;
    bool add;
    struct tensor x, y;
};

static void combine_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct combine_arg *a = arg;
    for (size_t i = begin; i < end; i++) {
        float *y = tensor_row(&a->y, i);
        if (!a->add)
            memset(y, 0, a->y.n_cols * sizeof *y);
        for (size_t k = 0; k < a->n_used; k++)
            vec_add_scaled(y, tensor_row(&a->x, i * a->n_used + k), a->weight[i * a->n_used + k],
                           a->y.n_cols);
    }
}

void cpu_combine(struct compute *c, const float *weight, size_t n_used, bool add, struct tensor x,
                 struct tensor y)
{
    struct combine_arg a = {weight, n_used, add, x, y};
    cpu_rows(c, y.n_rows, y.n_cols * n_used, combine_some, &a);
}
