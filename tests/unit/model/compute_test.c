/* compute_test.c - what blocks ask of the compute interface: tensors of the right shape that
 * do not overlap where they must not, rows that somebody wrote before they are read, and no
 * product more than a layer needs. A second implementation wraps the processor's. */
#include "unit/model/helpers.h"

#include "compute/compute.h"
#include "model/context.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { N = 42, COMPLAINT_MAX = 256 };

/* What the wrapping implementation found and counted. */
struct checker {
    char complaint[COMPLAINT_MAX]; /* the first */
    int n_complaints;
    int n_linear, n_products, n_gathered, n_attend, n_heads;
    size_t weight_bytes; /* of the matrices that were read, each call anew */
};

static void complain(struct checker *k, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (k->n_complaints++ == 0)
        vsnprintf(k->complaint, sizeof k->complaint, format, args);
    va_end(args);
}

static void check_shape(struct checker *k, const char *what, const struct tensor *t, size_t n_cols)
{
    if (!t->data || t->dtype != DTYPE_F32)
        complain(k, "%s: not rows of F32", what);
    else if (t->stride < t->n_cols)
        complain(k, "%s: a stride of %zu for %zu columns", what, t->stride, t->n_cols);
    else if (t->n_cols != n_cols)
        complain(k, "%s: %zu columns instead of %zu", what, t->n_cols, n_cols);
}

/* Rows that are read must have been written: scratch is full of NaN before a pass. */
static void check_written(struct checker *k, const char *what, const struct tensor *t)
{
    for (size_t i = 0; k->n_complaints == 0 && i < t->n_rows; i++)
        for (size_t j = 0; j < t->n_cols; j++)
            if (isnan(tensor_row(t, i)[j])) {
                complain(k, "%s: column %zu of row %zu was never written", what, j, i);
                return;
            }
}

static void check_apart(struct checker *k, const char *what, const struct tensor *a,
                        const struct tensor *b)
{
    if (a->n_rows == 0 || b->n_rows == 0)
        return;
    const float *a0 = a->data, *a1 = a0 + (a->n_rows - 1) * a->stride + a->n_cols;
    const float *b0 = b->data, *b1 = b0 + (b->n_rows - 1) * b->stride + b->n_cols;
    if (a0 < b1 && b0 < a1)
        complain(k, "%s: input and output overlap", what);
}

static bool checked_linear(struct compute *c, const struct linear_op *ops, size_t n_ops,
                           struct tensor x)
{
    struct checker *k = c->state;
    k->n_linear++;
    k->n_products += (int)n_ops;
    for (size_t i = 0; i < n_ops; i++) {
        check_shape(k, "linear's input", &x, (size_t)ops[i].w->n_cols);
        check_shape(k, "linear's output", &ops[i].y, (size_t)ops[i].w->n_rows);
        check_apart(k, "linear", &x, &ops[i].y);
        if (ops[i].y.n_rows != x.n_rows)
            complain(k, "linear: %zu rows in, %zu out", x.n_rows, ops[i].y.n_rows);
        if (ops[i].add)
            check_written(k, "what linear adds to", &ops[i].y);
        k->weight_bytes += ops[i].w->row_bytes * (size_t)ops[i].w->n_rows;
    }
    check_written(k, "linear's input", &x);
    return k->n_complaints ? true : compute_cpu.linear(c, ops, n_ops, x);
}

static bool checked_gathered(struct compute *c, const struct gathered_op *op, struct tensor x,
                             struct tensor y)
{
    struct checker *k = c->state;
    k->n_gathered++;
    check_shape(k, "the gathered input", &x, (size_t)op->w->n_cols);
    check_shape(k, "the gathered output", &y, (size_t)op->w->n_rows);
    check_apart(k, "linear_gathered", &x, &y);
    for (size_t j = 0; j < y.n_rows; j++) {
        if (op->expert[j] < 0 || op->expert[j] >= op->w->n_experts)
            complain(k, "linear_gathered: expert %d of %d", op->expert[j], op->w->n_experts);
        if (op->x_row[j] < 0 || (size_t)op->x_row[j] >= x.n_rows)
            complain(k, "linear_gathered: row %d of %zu", op->x_row[j], x.n_rows);
    }
    check_written(k, "the gathered input", &x);
    return k->n_complaints ? true : compute_cpu.linear_gathered(c, op, x, y);
}

static void checked_norm(struct compute *c, const struct norm_op *op, struct tensor x,
                         struct tensor y)
{
    struct checker *k = c->state;
    check_shape(k, "norm's input", &x, y.n_cols);
    if (x.n_rows != y.n_rows)
        complain(k, "norm: %zu rows in, %zu out", x.n_rows, y.n_rows);
    if (x.data != y.data)
        check_apart(k, "norm", &x, &y);
    check_written(k, "norm's input", &x);
    if (!k->n_complaints)
        compute_cpu.norm(c, op, x, y);
}

static void checked_add(struct compute *c, float scale, struct tensor x, struct tensor y)
{
    struct checker *k = c->state;
    check_shape(k, "what is added", &x, y.n_cols);
    if (x.n_rows != y.n_rows && x.n_rows != 1)
        complain(k, "add: %zu rows to %zu", x.n_rows, y.n_rows);
    check_apart(k, "add", &x, &y);
    check_written(k, "what is added", &x);
    check_written(k, "what is added to", &y);
    if (!k->n_complaints)
        compute_cpu.add(c, scale, x, y);
}

static void checked_heads(struct compute *c, const struct heads_op *op, struct tensor qkv)
{
    struct checker *k = c->state;
    k->n_heads++;
    check_shape(k, "q, k and v", &qkv,
                (size_t)op->q.n * (size_t)op->q.dim +
                    (size_t)op->k.n * ((size_t)op->k.dim + op->dim_v));
    check_written(k, "q, k and v", &qkv);
    if (op->n_rot) {
        check_shape(k, "the rotations", &op->angles, (size_t)op->n_rot);
        check_written(k, "the rotations", &op->angles);
    }
    if (!k->n_complaints)
        compute_cpu.heads(c, op, qkv);
}

static bool checked_attend(struct compute *c, const struct attend_op *op, struct tensor q,
                           struct tensor y)
{
    struct checker *k = c->state;
    k->n_attend++;
    check_shape(k, "the queries", &q, (size_t)op->a->n_heads * (size_t)op->a->head_dim_k);
    check_shape(k, "the attention's output", &y,
                (size_t)op->a->n_heads * (size_t)op->a->head_dim_v);
    check_apart(k, "attend", &q, &y);
    check_written(k, "the queries", &q);
    return k->n_complaints ? true : compute_cpu.attend(c, op, q, y);
}

static void checked_combine(struct compute *c, const float *weight, size_t n_used, bool add,
                            struct tensor x, struct tensor y)
{
    struct checker *k = c->state;
    check_shape(k, "what is combined", &x, y.n_cols);
    if (x.n_rows != y.n_rows * n_used)
        complain(k, "combine: %zu rows for %zu", x.n_rows, y.n_rows);
    check_apart(k, "combine", &x, &y);
    check_written(k, "what is combined", &x);
    if (add)
        check_written(k, "what combine adds to", &y);
    if (!k->n_complaints)
        compute_cpu.combine(c, weight, n_used, add, x, y);
}

static void checked_copy(struct compute *c, struct tensor x, struct tensor y)
{
    struct checker *k = c->state;
    check_shape(k, "what is copied", &x, y.n_cols);
    check_apart(k, "copy", &x, &y);
    check_written(k, "what is copied", &x);
    if (!k->n_complaints)
        compute_cpu.copy(c, x, y);
}

static struct compute_ops checked_ops(void)
{
    struct compute_ops ops = compute_cpu;
    ops.name = "checked";
    ops.linear = checked_linear;
    ops.linear_gathered = checked_gathered;
    ops.norm = checked_norm;
    ops.add = checked_add;
    ops.heads = checked_heads;
    ops.attend = checked_attend;
    ops.combine = checked_combine;
    ops.copy = checked_copy;
    return ops;
}

/* ---- models ------------------------------------------------------------------------- */

/* One call for q, k and v, one for the output, one for gate and up, one for down; a mixture
 * has a router and three gathered products (one less where gate and up are one). */
static const struct {
    const char *path;
    int n_linear, n_gathered; /* a layer */
} models[] = {
    {"tiny/llama.gguf", 4, 0},    {"tiny/gemma3.gguf", 4, 0},  {"tiny/olmo2.gguf", 4, 0},
    {"tiny/qwen3moe.gguf", 3, 3}, {"tiny/gpt-oss.gguf", 3, 3}, {"zoo/phi2.gguf", 4, 0},
    {"zoo/command-r.gguf", 4, 0}, {"tiny/bert.gguf", 4, 0},    {"zoo/qwen2moe.gguf", 6, 3},
};

static void poison(struct model_context *ctx)
{
    const struct scratch *s = &ctx->s;
    size_t n = (size_t)ctx->settings.n_ubatch, n_embd = (size_t)ctx->model->h.n_embd;
    float *const rows[] = {s->x, s->h, s->y, s->qkv, s->attn};
    const size_t widths[] = {n_embd, n_embd, n_embd, s->n_qkv, s->n_attn};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (size_t i = 0; i < n * widths[k]; i++)
            rows[k][i] = NAN;
    for (size_t i = 0; i < (size_t)s->n_ffn_rows * s->n_ffn; i++)
        s->ffn[i] = NAN;
}

static const float *decode(struct loaded *l)
{
    struct error err = {0};
    int32_t token[N], pos[N], seq[N] = {0};
    for (int32_t i = 0; i < N; i++) {
        token[i] = long_prompt[i] % l->model->w.n_vocab;
        pos[i] = i;
    }
    kv_seq_remove(l->ctx, 0, -1, -1);
    struct batch b = {.n_tokens = N, .token = token, .pos = pos, .seq = seq};
    if (!model_decode(l->ctx, &b, &err))
        fail_msg("%s", err.message);
    const float *logits = model_logits(l->ctx, -1);
    return logits ? logits : model_embedding(l->ctx, -1);
}

static void every_block_asks_for_what_is_there_and_no_more(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    const struct compute_ops ops = checked_ops();
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct context_settings s = context_settings_default();
        s.n_ctx = 512;
        s.pooling = POOLING_NONE;
        struct loaded l = load_model(folder, models[m].path, &s, 2);
        const struct hparams *h = &l.model->h;
        size_t n = (size_t)(h->is_encoder ? h->n_embd : l.model->w.n_vocab);
        float *expected = calloc(n, sizeof *expected);
        assert_non_null(expected);
        memcpy(expected, decode(&l), n * sizeof *expected);
        struct checker k = {0};
        l.ctx->ops = &ops;
        l.ctx->ops_state = &k;
        poison(l.ctx);
        const float *checked = decode(&l);
        if (k.n_complaints)
            fail_msg("%s: %s", models[m].path, k.complaint);
        if (memcmp(expected, checked, n * sizeof *expected) != 0)
            fail_msg("%s: other results through the checker", models[m].path);
        int n_linear = models[m].n_linear * h->n_layers + (h->is_encoder ? 0 : 1);
        if (k.n_linear != n_linear || k.n_gathered != models[m].n_gathered * h->n_layers)
            fail_msg("%s: %d products and %d gathered ones; %d and %d are enough", models[m].path,
                     k.n_linear, k.n_gathered, n_linear, models[m].n_gathered * h->n_layers);
        assert_int_equal(k.n_attend, h->n_layers);
        assert_int_equal(k.n_heads, h->n_layers);
        free(expected);
        unload(&l);
    }
}

/* ---- the checker itself ------------------------------------------------------------- */

static void wrong_shapes_overlaps_and_unwritten_rows_are_found(void **state)
{
    (void)state;
    const struct compute_ops ops = checked_ops();
    float values[64] = {0}, weights[16] = {0};
    struct error err = {0};
    struct matrix w = {0};
    assert_true(matrix_plain(&w, DTYPE_F32, 4, 4, 1, weights, sizeof weights, &err));
    struct tensor good = rows_of(values, 2, 4, 4), out = rows_of(values + 8, 2, 4, 4);
    struct tensor narrow = rows_of(values, 2, 3, 4), tight = rows_of(values, 2, 4, 3);
    struct tensor fewer = rows_of(values + 8, 1, 4, 4), over = rows_of(values + 7, 2, 4, 4);
    values[32] = NAN;
    struct tensor unwritten = rows_of(values + 30, 2, 4, 4);
    const struct {
        struct tensor x, y;
        bool add;
        const char *complaint;
    } cases[] = {
        {narrow, out, false, "3 columns instead of 4"}, {tight, out, false, "a stride of 3"},
        {good, fewer, false, "2 rows in, 1 out"},       {good, over, false, "overlap"},
        {unwritten, out, false, "never written"},       {good, unwritten, true, "never written"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct checker k = {0};
        struct compute c = {&ops, NULL, &k};
        const struct linear_op op = {&w, NULL, cases[i].y, cases[i].add};
        assert_true(ops.linear(&c, &op, 1, cases[i].x));
        if (!strstr(k.complaint, cases[i].complaint))
            fail_msg("case %zu: '%s' instead of '%s'", i, k.complaint, cases[i].complaint);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_asks_for_what_is_there_and_no_more),
        cmocka_unit_test(wrong_shapes_overlaps_and_unwritten_rows_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
