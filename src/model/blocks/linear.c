/* linear.c - multiplying by a weight, with its factor and its bias. */
#include "model/blocks/linear.h"

#include "model/context.h"

#include <assert.h>
#include <string.h>

/* ---- factors -------------------------------------------------------------------- */

/* The products, computed without a bias, are multiplied and get it. */
static void factor_outputs(const struct pass *pass, const struct linear *w, const int32_t *expert,
                           float *y, size_t stride, size_t n)
{
    const struct factor_op op = {w->scale, expert, w->bias};
    if (w->scale)
        pass->compute->ops->factor(pass->compute, &op,
                                   rows_of(y, n, (size_t)w->matrix.n_rows, stride));
}

static void factor_inputs(const struct pass *pass, const struct linear *w, float *x, size_t stride,
                          size_t n)
{
    const struct factor_op op = {w->scale, NULL, NULL};
    if (w->scale)
        pass->compute->ops->factor(pass->compute, &op,
                                   rows_of(x, n, (size_t)w->matrix.n_cols, stride));
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
    struct linear_op products[N_TERMS_MAX] = {{0}};
    size_t n_cols = 0;
    size_t n_products = 0;
    assert(n_terms <= N_TERMS_MAX);
    for (size_t i = 0; i < n_terms; i++) {
        const struct linear_term *t = &terms[i];
        if (!is_bound(t->w))
            continue;
        assert(t->w->matrix.n_experts <= 1 && t->stride >= (size_t)t->w->matrix.n_rows);
        assert(x_stride >= (size_t)t->w->matrix.n_cols && t->y != x);
        assert(!t->w->scale || !t->add);
        n_cols = (size_t)t->w->matrix.n_cols;
        products[n_products++] =
            (struct linear_op){&t->w->matrix, bias_before_factor(t->w),
                               rows_of(t->y, n, (size_t)t->w->matrix.n_rows, t->stride), t->add};
    }
    if (!pass->compute->ops->linear(pass->compute, products, n_products,
                                    input_rows(x, n, n_cols, x_stride)))
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
    const struct linear_op product = {&t->w->matrix, t->w->bias,
                                      rows_of(t->y, n, (size_t)t->w->matrix.n_rows, t->stride),
                                      t->add};
    return pass->compute->ops->linear(pass->compute, &product, 1,
                                      rows_of(x, n, (size_t)t->w->matrix.n_cols, x_stride));
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
        const struct matrix *m = &w->stacked.matrix;
        const struct gathered_op op = {m, bias_before_factor(&w->stacked), in->expert, in->x_row};
        if (!pass->compute->ops->linear_gathered(
                pass->compute, &op, input_rows(in->x, in->n_x, (size_t)m->n_cols, in->x_stride),
                rows_of(y, in->n, (size_t)m->n_rows, y_stride)))
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
