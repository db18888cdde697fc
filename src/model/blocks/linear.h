/* linear.h - multiplying by a weight: the one way for every block.
 *
 * A factor beside the matrix (NAME.scale) and the bias are taken care of here, once, and
 * so would be whatever else is added to a weight (adapters). */
#ifndef MLXCEL_MODEL_BLOCKS_LINEAR_H
#define MLXCEL_MODEL_BLOCKS_LINEAR_H

#include "model/weights.h"

struct pass;

/* y[i][0..n_rows) (+)= factor w x[i] + bias. */
struct linear_term {
    const struct linear *w; /* one that is not bound is passed over */
    float *y;
    size_t stride; /* of y, in floats */
    bool add;      /* to y, instead of over it */
};

/* Weights of the same n_cols with the same n rows of x [n][x_stride], in one dispatch. A
 * factor multiplies the products, so a term that has one cannot add. False when out of
 * memory. */
bool linear_many(const struct pass *pass, const struct linear_term *terms, size_t n_terms,
                 const float *x, size_t x_stride, size_t n);
/* One weight whose inputs nobody else wants: a factor multiplies them, in place, and the
 * product may be added to something. */
bool linear_consuming(const struct pass *pass, const struct linear_term *term, float *x,
                      size_t x_stride, size_t n);

/* Rows of x for some experts. */
struct gathered {
    const int32_t *expert, *x_row; /* [n]: y[j] = w[expert[j]] x[x_row[j]] */
    size_t n;
    const float *x;
    size_t x_stride, n_x; /* x has n_x rows */
};

/* y[j] for each of the n, by experts that are stacked or apart. */
bool linear_gathered(const struct pass *pass, const struct experts *w, const struct gathered *in,
                     float *y, size_t y_stride);
/* Whether the layer has this projection of experts. */
bool has_experts(const struct experts *w);

#endif
