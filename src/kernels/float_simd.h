/* float_simd.h - what the float kernels of the instruction sets have in common.
 *
 * Before it is included, a file defines
 *   vf, VF_LANES          a vector of floats
 *   vf_load, vf_store     from and to memory, not aligned
 *   vf_set, vf_add, vf_sub, vf_mul, vf_div
 *   vf_fma(a, b, c)       a b + c, rounded once
 *   vf_fnma(a, b, c)      c - a b, rounded once
 *   decode_halves, decode_block; DECODES_FIFTH_BITS where it knows Q5_0 and Q5_1
 *   PRODUCT_VECTORS       vectors of a row that PRODUCT_ROWS rows of sums, a vector
 *                         of each and one more number keep in registers
 * and, to have the kernels that end with plain C where a vector no longer fits,
 * FLOAT_TAILS with vf_half, vf_sum and dots. vf_exp follows after it, then
 * FLOAT_KERNELS(isa), which makes the functions of the table. */
#ifndef MLXCEL_KERNELS_FLOAT_SIMD_H
#define MLXCEL_KERNELS_FLOAT_SIMD_H

#include "kernels/table.h"

#include <math.h>
#include <string.h>

/* ---- decoding (the cache's formats) ---- */

#define DECODE_BLOCKS(dtype)                                                                       \
    case dtype:                                                                                    \
        for (size_t i = 0; i < n / 32; i++)                                                        \
            decode_block(dtype, in + i * dtype_info(dtype)->block_bytes, out + 32 * i);            \
        break

INLINE void decode_cache(enum dtype dtype, const void *blocks, float *out, size_t n)
{
    const uint8_t *in = blocks;
    switch (dtype) {
    case DTYPE_F32:
        memcpy(out, blocks, n * sizeof *out);
        break;
    case DTYPE_F16:
        decode_halves(DTYPE_F16, in, out, n);
        break;
    case DTYPE_BF16:
        decode_halves(DTYPE_BF16, in, out, n);
        break;
        DECODE_BLOCKS(DTYPE_Q8_0);
        DECODE_BLOCKS(DTYPE_Q4_0);
        DECODE_BLOCKS(DTYPE_Q4_1);
#ifdef DECODES_FIFTH_BITS
        DECODE_BLOCKS(DTYPE_Q5_0);
        DECODE_BLOCKS(DTYPE_Q5_1);
#endif
        DECODE_BLOCKS(DTYPE_IQ4_NL);
    default:
        dtype_decode(dtype, blocks, out, n);
        break;
    }
}

/* ---- exponentials ---- */

/* exp(x - n ln 2) for n the nearest whole number to x / ln 2, by a polynomial of
 * degree 6 (the Taylor terms; the error is below 2 units in the last place). */
INLINE vf exp_fraction(vf x, vf n)
{
    vf r = vf_fnma(n, vf_set(0.693359375f), x);
    r = vf_fnma(n, vf_set(-2.12194440e-4f), r);
    vf p = vf_set(1.0f / 720);
    p = vf_fma(p, r, vf_set(1.0f / 120));
    p = vf_fma(p, r, vf_set(1.0f / 24));
    p = vf_fma(p, r, vf_set(1.0f / 6));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_fma(p, r, vf_set(1));
    return vf_fma(p, r, vf_set(1));
}

INLINE vf vf_exp(vf x);

/* Ask for what lies so many bytes ahead. */
enum { LINE_HALVES = 32 };
INLINE void fetch(const uint16_t *p, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + ahead));
}

/* x / (1 + exp(-alpha x)) */
INLINE vf gated_sigmoid(vf x, float alpha)
{
    return vf_div(x, vf_add(vf_set(1), vf_exp(vf_mul(x, vf_set(-alpha)))));
}

/* 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)) */
INLINE vf gelu(vf x)
{
    vf cubic = vf_fma(vf_mul(x, x), vf_set(0.044715f), vf_set(1));
    vf u = vf_mul(vf_mul(x, vf_set(0.7978845608f)), cubic);
    return vf_div(x, vf_add(vf_set(1), vf_exp(vf_mul(u, vf_set(-2)))));
}

/* ---- products of floats ---- */

enum { PRODUCT_ROWS = 6 };

/* n_rows and n_v (constants) vectors of sums from column j on, kept in registers. */
INLINE void product_tile(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,
                         size_t j, size_t n_v, float *const *c)
{
    vf sum[PRODUCT_ROWS][PRODUCT_VECTORS];
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t v = 0; v < n_v; v++)
            sum[i][v] = vf_load(c[i] + j + VF_LANES * v);
    }
    for (size_t k = 0; k < n_k; k++) {
        vf row[PRODUCT_VECTORS];
        for (size_t v = 0; v < n_v; v++)
            row[v] = vf_load(b + k * n_cols + j + VF_LANES * v);
        for (size_t i = 0; i < n_rows; i++) {
            vf x = vf_set(a[i * n_k + k]);
            for (size_t v = 0; v < n_v; v++)
                sum[i][v] = vf_fma(x, row[v], sum[i][v]);
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t v = 0; v < n_v; v++)
            vf_store(c[i] + j + VF_LANES * v, sum[i][v]);
    }
}

/* All rows against n_v vectors of columns: what is read of b stays near. */
INLINE void product_columns(const float *a, size_t n_rows, size_t n_k, const float *b,
                            size_t n_cols, size_t j, size_t n_v, float *const *c)
{
    size_t i = 0;
    for (; i + PRODUCT_ROWS <= n_rows; i += PRODUCT_ROWS)
        product_tile(a + i * n_k, PRODUCT_ROWS, n_k, b, n_cols, j, n_v, c + i);
    for (; i + 4 <= n_rows; i += 4)
        product_tile(a + i * n_k, 4, n_k, b, n_cols, j, n_v, c + i);
    for (; i < n_rows; i++)
        product_tile(a + i * n_k, 1, n_k, b, n_cols, j, n_v, c + i);
}

INLINE void product(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,
                    float *const *c)
{
    size_t j = 0;
    for (; j + VF_LANES * PRODUCT_VECTORS <= n_cols; j += VF_LANES * PRODUCT_VECTORS)
        product_columns(a, n_rows, n_k, b, n_cols, j, PRODUCT_VECTORS, c);
    for (; j + VF_LANES <= n_cols; j += VF_LANES)
        product_columns(a, n_rows, n_k, b, n_cols, j, 1, c);
    for (; j < n_cols; j++) {
        for (size_t i = 0; i < n_rows; i++) {
            for (size_t k = 0; k < n_k; k++)
                c[i][j] = fmaf(a[i * n_k + k], b[k * n_cols + j], c[i][j]);
        }
    }
}

#define PRODUCT_KERNEL(isa)                                                                        \
    void product_##isa(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,   \
                       float *const *c)                                                            \
    {                                                                                              \
        product(a, n_rows, n_k, b, n_cols, c);                                                     \
    }

#ifdef FLOAT_TAILS

/* ---- rows of weights times rows of activations ---- */

INLINE void dots_rows(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                      const float *const *x, size_t n_x, size_t n, float *acc, size_t stride)
{
    size_t t = 0;
    for (; n_w <= 2 && t + 2 <= n_x; t += 2)
        dots(dtype, w, n_w, step, x + t, 2, n, acc + t * DOT_LANES, stride);
    for (; t < n_x; t++)
        dots(dtype, w, n_w, step, x + t, 1, n, acc + t * DOT_LANES, stride);
}

/* Packed rows and one activation: all rows of the pack at once, one stream. */
INLINE void dots_step(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                      const float *const *x, size_t n_x, size_t n, float *acc)
{
    size_t i = 0;
    if (step == FLOAT_STEP && n_x == 1) {
        for (; i + DOT_WEIGHTS <= n_w; i += DOT_WEIGHTS)
            dots_rows(dtype, w + i, DOT_WEIGHTS, step, x, 1, n, acc + i * DOT_LANES, 1);
    }
    for (; i + 2 <= n_w; i += 2)
        dots_rows(dtype, w + i, 2, step, x, n_x, n, acc + i * n_x * DOT_LANES, n_x);
    for (; i < n_w; i++)
        dots_rows(dtype, w + i, 1, step, x, n_x, n, acc + i * n_x * DOT_LANES, n_x);
}

INLINE void dots_dtype(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                       const float *const *x, size_t n_x, size_t n, float *acc)
{
    if (step == FLOAT_STEP)
        dots_step(dtype, w, n_w, FLOAT_STEP, x, n_x, n, acc);
    else
        dots_step(dtype, w, n_w, DOT_LANES, x, n_x, n, acc);
}

INLINE void float_dots(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                       const float *const *x, size_t n_x, size_t n, float *acc)
{
    size_t whole = n / DOT_LANES * DOT_LANES;
    switch (dtype) {
    case DTYPE_F16:
        dots_dtype(DTYPE_F16, w, n_w, step, x, n_x, whole, acc);
        break;
    case DTYPE_BF16:
        dots_dtype(DTYPE_BF16, w, n_w, step, x, n_x, whole, acc);
        break;
    default:
        dots_dtype(DTYPE_F32, w, n_w, step, x, n_x, whole, acc);
        break;
    }
    if (whole == n)
        return;
    const void *w_tail[DOT_WEIGHTS];
    const float *x_tail[DOT_TOKENS];
    for (size_t i = 0; i < n_w; i++)
        w_tail[i] = (const char *)w[i] + whole * dtype_info(dtype)->block_bytes;
    for (size_t t = 0; t < n_x; t++)
        x_tail[t] = x[t] + whole;
    float_dots_generic(dtype, w_tail, n_w, step, x_tail, n_x, n - whole, acc);
}

/* ---- attention ---- */

/* n_v vectors (a constant) of sums from dimension d on, kept in registers; ahead 0: what
 * lies ahead was asked for. */
INLINE void value_halves(const float *weights, const float *shrink, const uint16_t *const *v,
                         size_t ahead, size_t n_k, size_t d, size_t n_v, float *acc)
{
    vf sum[64 / VF_LANES];
    for (size_t i = 0; i < n_v; i++)
        sum[i] = vf_load(acc + d + VF_LANES * i);
    for (size_t c = 0; c < n_k; c++) {
        for (size_t i = 0; ahead && i < VF_LANES * n_v; i += LINE_HALVES)
            fetch(v[c] + d + i, ahead);
        if (weights[c] == 0)
            continue;
        if (shrink && shrink[c] != 1) {
            for (size_t i = 0; i < n_v; i++)
                sum[i] = vf_half(vf_mul(sum[i], vf_set(shrink[c])));
        }
        vf w = vf_set(weights[c]);
        for (size_t i = 0; i < n_v; i++) {
            vf value = load_weights(DTYPE_F16, v[c], d + VF_LANES * i);
            sum[i] = vf_half(vf_fma(value, w, sum[i]));
        }
    }
    for (size_t i = 0; i < n_v; i++)
        vf_store(acc + d + VF_LANES * i, sum[i]);
}

/* One row; shrink NULL: 1 all over. */
INLINE void values_half(const float *weights, const float *shrink, const uint16_t *const *v,
                        size_t ahead, size_t n_k, size_t dim, float *acc)
{
    size_t d = 0;
    for (; d + 64 <= dim; d += 64)
        value_halves(weights, shrink, v, ahead, n_k, d, 64 / VF_LANES, acc);
    for (; d + VF_LANES <= dim; d += VF_LANES)
        value_halves(weights, shrink, v, ahead, n_k, d, 1, acc);
    for (size_t c = 0; d < dim && c < n_k; c++) {
        if (weights[c] == 0)
            continue;
        for (size_t i = d; i < dim; i++) {
            float kept = shrink ? f16_to_f32(f32_to_f16(acc[i] * shrink[c])) : acc[i];
            acc[i] = f16_to_f32(f32_to_f16(fmaf(f16_to_f32(v[c][i]), weights[c], kept)));
        }
    }
}

/* ---- activations ---- */

INLINE float exp_sum(const float *x, float max, size_t n, float *y)
{
    vf sum = vf_set(0), shift = vf_set(max);
    size_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) {
        vf e = vf_exp(vf_sub(vf_load(x + i), shift));
        vf_store(y + i, e);
        sum = vf_add(sum, e);
    }
    float total = vf_sum(sum);
    return i < n ? total + exp_sum_generic(x + i, max, n - i, y + i) : total;
}

#define ACTIVATE(act, expression)                                                                  \
    case act:                                                                                      \
        for (; i + VF_LANES <= n; i += VF_LANES) {                                                 \
            vf v = vf_load(x + i);                                                                 \
            vf_store(y + i, (expression));                                                         \
        }                                                                                          \
        break

INLINE void activate_lanes(enum activation act, const float *x, size_t n, float *y)
{
    size_t i = 0;
    switch (act) {
        ACTIVATE(ACT_SILU, gated_sigmoid(v, 1));
        ACTIVATE(ACT_GELU, gelu(v));
        ACTIVATE(ACT_GELU_QUICK, gated_sigmoid(v, 1.702f));
    default:
        break;
    }
    activate_generic(act, x + i, n - i, y + i);
}

#define FLOAT_KERNELS(isa)                                                                         \
    void float_dots_##isa(enum dtype dtype, const void *const *w, size_t n_w, size_t step,         \
                          const float *const *x, size_t n_x, size_t n, float *acc)                 \
    {                                                                                              \
        float_dots(dtype, w, n_w, step, x, n_x, n, acc);                                           \
    }                                                                                              \
    void decode_##isa(enum dtype dtype, const void *blocks, float *out, size_t n)                  \
    {                                                                                              \
        decode_cache(dtype, blocks, out, n);                                                       \
    }                                                                                              \
    void values_half_##isa(const float *weights, const float *shrink, const bool *shrinks,         \
                           size_t stride, size_t n_q, const uint16_t *const *v, size_t ahead,      \
                           size_t n_k, size_t dim, float *acc)                                     \
    {                                                                                              \
        for (size_t i = 0; i < n_q; i++)                                                           \
            values_half(weights + i * stride, shrinks[i] ? shrink + i * stride : NULL, v,          \
                        i ? 0 : ahead, n_k, dim, acc + i * dim);                                   \
    }                                                                                              \
    float exp_sum_##isa(const float *x, float max, size_t n, float *y)                             \
    {                                                                                              \
        return exp_sum(x, max, n, y);                                                              \
    }                                                                                              \
    void activate_##isa(enum activation act, const float *x, size_t n, float *y)                   \
    {                                                                                              \
        activate_lanes(act, x, n, y);                                                              \
    }

#endif
#endif
