/* linear.c - multiplying by a weight, with its factor and its bias. */
#include "model/blocks/linear.h"

#include "model/context.h"

#include <assert.h>
#include <string.h>

/* ---- factors -------------------------------------------------------------------- */

struct factor_arg {
    const struct linear *w;
    const int32_t *expert; /* of each row; NULL: one matrix */
    float *rows;
    size_t stride, width;
    bool with_bias;
};

static void factor_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct factor_arg *a = arg;
    for (size_t i = begin; i < end; i++) {
        size_t e = a->expert ? (size_t)a->expert[i] : 0;
        float *row = a->rows + i * a->stride;
        vec_scale(row, a->w->scale[e], a->width, row);
        if (a->with_bias && a->w->bias)
            vec_add_scaled(row, a->w->bias + e * a->width, 1.0f, a->width);
    }
}

/* The products, computed without a bias, are multiplied and get it. */
static void factor_outputs(const struct pass *pass, const struct linear *w, const int32_t *expert,
                           float *y, size_t stride, size_t n)
{
    struct factor_arg a = {w, expert, y, stride, (size_t)w->matrix.n_rows, true};
    if (w->scale)
        each_row(pass->pool, n, a.width, factor_some, &a);
}

static void factor_inputs(const struct pass *pass, const struct linear *w, float *x, size_t stride,
                          size_t n)
{
    struct factor_arg a = {w, NULL, x, stride, (size_t)w->matrix.n_cols, false};
    if (w->scale)
        each_row(pass->pool, n, a.width, factor_some, &a);
}

/* The bias of a product whose factor comes after it. */
static const float *bias_before_factor(const struct linear *w)
{
    return w->scale ? NULL : w->bias;
}

/* ---- products ------------------------------------------------------------------- */

enum { N_TERMS_MAX = 4 };

bool linear_many(const struct pass *pass, const struct linear_term *terms, size_t n_terms,
                 const float *x, size_t x_stride, size_t n)
{
    struct matmul_term products[N_TERMS_MAX] = {{0}};
    size_t n_products = 0;
    assert(n_terms <= N_TERMS_MAX);
    for (size_t i = 0; i < n_terms; i++) {
        const struct linear_term *t = &terms[i];
        if (!is_bound(t->w))
            continue;
        assert(t->w->matrix.n_experts <= 1 && t->stride >= (size_t)t->w->matrix.n_rows);
        assert(x_stride >= (size_t)t->w->matrix.n_cols && t->y != x);
        assert(!t->w->scale || !t->add);
        products[n_products++] =
            (struct matmul_term){&t->w->matrix, bias_before_factor(t->w), t->y, t->stride, t->add};
    }
    if (!matmul_many(pass->pool, products, n_products, x, x_stride, n))
        return false;
    for (size_t i = 0; i < n_terms; i++)
        if (is_bound(terms[i].w))
            factor_outputs(pass, terms[i].w, NULL, terms[i].y, terms[i].stride, n);
    return true;
}

bool linear_consuming(const struct pass *pass, const struct linear_term *t, float *x,
                      size_t x_stride, size_t n)
{
    assert(is_bound(t->w) && t->y != x);
    assert(x_stride >= (size_t)t->w->matrix.n_cols && t->stride >= (size_t)t->w->matrix.n_rows);
    factor_inputs(pass, t->w, x, x_stride, n);
    struct matmul_term product = {&t->w->matrix, t->w->bias, t->y, t->stride, t->add};
    return matmul_many(pass->pool, &product, 1, x, x_stride, n);
}

/* ---- experts -------------------------------------------------------------------- */

bool has_experts(const struct experts *w)
{
    return is_bound(&w->stacked) || w->each;
}

/* Copy the rows of expert e out of x; returns how many. */
static size_t gather(const struct gathered *in, int32_t e, size_t width, float *rows)
{
    size_t k = 0;
    for (size_t j = 0; j < in->n; j++)
        if (in->expert[j] == e)
            memcpy(rows + k++ * width, in->x + (size_t)in->x_row[j] * in->x_stride,
                   width * sizeof *rows);
    return k;
}

static void scatter(const struct gathered *in, int32_t e, size_t width, const float *rows, float *y,
                    size_t y_stride)
{
    size_t k = 0;
    for (size_t j = 0; j < in->n; j++)
        if (in->expert[j] == e)
            memcpy(y + j * y_stride, rows + k++ * width, width * sizeof *rows);
}

bool linear_gathered(const struct pass *pass, const struct experts *w, const struct gathered *in,
                     float *y, size_t y_stride)
{
    if (is_bound(&w->stacked)) {
        if (!matmul_gathered(pass->pool, &w->stacked.matrix, bias_before_factor(&w->stacked),
                             in->expert, in->x_row, in->n, in->x, in->x_stride, in->n_x, y,
                             y_stride))
            return false;
        factor_outputs(pass, &w->stacked, in->expert, y, y_stride, in->n);
        return true;
    }
    assert(w->each);
    for (int32_t e = 0; e < pass->ctx->model->h.n_experts; e++) {
        size_t n_cols = (size_t)w->each[e].matrix.n_cols, n_rows = (size_t)w->each[e].matrix.n_rows;
        float *rows = pass->ctx->s.gathered, *out = rows + in->n * n_cols;
        size_t k = gather(in, e, n_cols, rows);
        struct linear_term term = {&w->each[e], out, n_rows, false};
        if (k && !linear_many(pass, &term, 1, rows, n_cols, k))
            return false;
        scatter(in, e, n_rows, out, y, y_stride);
    }
    return true;
}
