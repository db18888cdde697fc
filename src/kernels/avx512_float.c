/* avx512_float.c - plain formats, activations and attention with AVX-512. */
#if defined(__x86_64__)
#include "kernels/avx512.h"
#include "kernels/blocks.h"
#include "kernels/transpose_x86.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- the vector that float_simd.h is written in ---- */

typedef __m512 vf;
#define VF_LANES           16
#define PRODUCT_VECTORS    4
#define vf_load            _mm512_loadu_ps
#define vf_store           _mm512_storeu_ps
#define vf_set             _mm512_set1_ps
#define vf_add             _mm512_add_ps
#define vf_sub             _mm512_sub_ps
#define vf_mul             _mm512_mul_ps
#define vf_div             _mm512_div_ps
#define vf_fma             _mm512_fmadd_ps
#define vf_fnma            _mm512_fnmadd_ps
#define DECODES_FIFTH_BITS 1

/* ---- rows of weights times rows of activations ---- */

INLINE __m512 load_weights(enum dtype dtype, const void *w, size_t k)
{
    switch (dtype) {
    case DTYPE_F16:
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)((const uint16_t *)w + k)));
    case DTYPE_BF16:
        return _mm512_castsi512_ps(_mm512_slli_epi32(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)((const uint16_t *)w + k))),
            16));
    default:
        return _mm512_loadu_ps((const float *)w + k);
    }
}

/* The last columns, fewer than a vector; zeros beyond. */
INLINE __m512 load_weights_tail(enum dtype dtype, const void *w, size_t k, __mmask16 mask)
{
    if (dtype == DTYPE_F32)
        return _mm512_maskz_loadu_ps(mask, (const float *)w + k);
    __m256i half = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)w + k);
    if (dtype == DTYPE_F16)
        return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* A register holds the 16 partial sums of one output; n_w, n_x and step are
 * constants, so that all n_w * n_x of them stay in registers. `stride` is the
 * number of activations in the caller's tile. */
INLINE void dots(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                 const float *const *x, size_t n_x, size_t n, float *acc, size_t stride)
{
    __m512 sum[DOT_WEIGHTS][DOT_TOKENS];
    size_t element = dtype == DTYPE_F32 ? 4 : 2;
    /* Several short rows at once are no stream that the processor foresees: fetch
     * the same place of the rows that come next, for the few activations that
     * leave memory as the bound. */
    bool fetch = step == DOT_LANES && n_w > 1 && n_x <= 2;
    size_t ahead = fetch ? n_w * ((uintptr_t)w[1] - (uintptr_t)w[0]) : 0;
    for (size_t i = 0; i < n_w; i++) {
        for (size_t t = 0; t < n_x; t++)
            sum[i][t] = _mm512_loadu_ps(acc + (i * stride + t) * DOT_LANES);
    }
    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
        __m512 a[DOT_TOKENS];
        for (size_t t = 0; t < n_x; t++)
            a[t] = _mm512_loadu_ps(x[t] + k);
        for (size_t i = 0; i < n_w; i++) {
            __m512 b = load_weights(dtype, w[i], k / DOT_LANES * step);
            if (fetch)
                _mm_prefetch((const char *)((uintptr_t)w[i] + k * element + ahead), _MM_HINT_T0);
            for (size_t t = 0; t < n_x; t++)
                sum[i][t] = _mm512_fmadd_ps(b, a[t], sum[i][t]);
        }
    }
    if (k < n) {
        __mmask16 mask = (__mmask16)((1u << (n - k)) - 1);
        for (size_t i = 0; i < n_w; i++) {
            __m512 b = load_weights_tail(dtype, w[i], k, mask);
            for (size_t t = 0; t < n_x; t++)
                sum[i][t] = _mm512_fmadd_ps(b, _mm512_maskz_loadu_ps(mask, x[t] + k), sum[i][t]);
        }
    }
    for (size_t i = 0; i < n_w; i++) {
        for (size_t t = 0; t < n_x; t++)
            _mm512_storeu_ps(acc + (i * stride + t) * DOT_LANES, sum[i][t]);
    }
}

INLINE void dots_rows(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                      const float *const *x, size_t n_x, size_t n, float *acc, size_t stride)
{
    size_t t = 0;
    for (; t + 6 <= n_x; t += 6)
        dots(dtype, w, n_w, step, x + t, 6, n, acc + t * DOT_LANES, stride);
    for (; t + 2 <= n_x; t += 2)
        dots(dtype, w, n_w, step, x + t, 2, n, acc + t * DOT_LANES, stride);
    for (; t < n_x; t++)
        dots(dtype, w, n_w, step, x + t, 1, n, acc + t * DOT_LANES, stride);
}

INLINE void dots_dtype(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                       const float *const *x, size_t n_x, size_t n, float *acc)
{
    if (n_w == DOT_WEIGHTS && step == FLOAT_STEP) {
        dots_rows(dtype, w, DOT_WEIGHTS, FLOAT_STEP, x, n_x, n, acc, n_x);
        return;
    }
    if (n_w == DOT_WEIGHTS) {
        dots_rows(dtype, w, DOT_WEIGHTS, DOT_LANES, x, n_x, n, acc, n_x);
        return;
    }
    for (size_t i = 0; i < n_w; i++)
        dots_rows(dtype, w + i, 1, step, x, n_x, n, acc + i * n_x * DOT_LANES, n_x);
}

void float_dots_avx512(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                       const float *const *x, size_t n_x, size_t n, float *acc)
{
    switch (dtype) {
    case DTYPE_F16:
        dots_dtype(DTYPE_F16, w, n_w, step, x, n_x, n, acc);
        break;
    case DTYPE_BF16:
        dots_dtype(DTYPE_BF16, w, n_w, step, x, n_x, n, acc);
        break;
    default:
        dots_dtype(DTYPE_F32, w, n_w, step, x, n_x, n, acc);
        break;
    }
}

float lanes_sum_avx512(const float *acc)
{
    return _mm512_reduce_add_ps(_mm512_loadu_ps(acc));
}

/* ---- decoding (the cache's formats) ---- */

INLINE __m512 bytes_to_floats(__m128i bytes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

static void decode_halves(enum dtype dtype, const uint8_t *in, float *out, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, load_weights(dtype, in, i));
    if (i < n) {
        __mmask16 mask = (__mmask16)((1u << (n - i)) - 1);
        _mm512_mask_storeu_ps(out + i, mask, load_weights_tail(dtype, in, i, mask));
    }
}

/* Bits 0..15 of a word as bytes 0 or 16. */
INLINE __m128i fifth_bits(unsigned bits)
{
    return _mm_maskz_mov_epi8((__mmask16)bits, _mm_set1_epi8(16));
}

#include "kernels/cache_blocks_x86.h"

INLINE void decode_block(enum dtype dtype, const uint8_t *b, float *out)
{
    __m128i half[2];
    float block_scale, block_min;
    block_integers(dtype, b, half, &block_scale, &block_min);
    __m512 scale = _mm512_set1_ps(block_scale), min = _mm512_set1_ps(block_min);
    for (int i = 0; i < 2; i++)
        _mm512_storeu_ps(out + 16 * i,
                         _mm512_add_ps(_mm512_mul_ps(scale, bytes_to_floats(half[i])), min));
}

#include "kernels/float_simd.h"

void decode_avx512(enum dtype dtype, const void *blocks, float *out, size_t n)
{
    decode_cache(dtype, blocks, out, n);
}

/* ---- attention ---- */

enum { CELLS = 64, DIMS = 64 };

/* A block's keys: floats, dim apart, or each where it lies, in half precision. */
struct keys {
    const float *floats;
    const uint16_t *const *halves;
    size_t dim, ahead;
};

/* Up to sixteen dimensions of a key, zeros beyond. */
INLINE __m512 load_key(const struct keys *k, size_t cell, size_t d, __mmask16 mask)
{
    if (k->halves && d % LINE_HALVES == 0)
        fetch(k->halves[cell] + d, k->ahead);
    if (k->halves)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, k->halves[cell] + d));
    return _mm512_maskz_loadu_ps(mask, k->floats + cell * k->dim + d);
}

/* kt[i][c] = dimension dim + i of 16 cells from `first` on; zeros past n_k and dim. */
INLINE void transpose16(const struct keys *k, size_t first, size_t n_k, size_t dim, float *kt)
{
    __m512 r[16], s[16];
    size_t n_d = k->dim - dim;
    __mmask16 mask = (__mmask16)(n_d >= 16 ? 0xFFFF : (1u << n_d) - 1);
    for (size_t i = 0; i < 16; i++)
        r[i] = first + i < n_k ? load_key(k, first + i, dim, mask) : _mm512_setzero_ps();
    for (size_t i = 0; i < 16; i += 2) {
        s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (size_t i = 0; i < 16; i += 4) {
        r[i] = _mm512_castpd_ps(
            _mm512_unpacklo_pd(_mm512_castps_pd(s[i]), _mm512_castps_pd(s[i + 2])));
        r[i + 1] = _mm512_castpd_ps(
            _mm512_unpackhi_pd(_mm512_castps_pd(s[i]), _mm512_castps_pd(s[i + 2])));
        r[i + 2] = _mm512_castpd_ps(
            _mm512_unpacklo_pd(_mm512_castps_pd(s[i + 1]), _mm512_castps_pd(s[i + 3])));
        r[i + 3] = _mm512_castpd_ps(
            _mm512_unpackhi_pd(_mm512_castps_pd(s[i + 1]), _mm512_castps_pd(s[i + 3])));
    }
    /* r[4g + j] holds, in its quarter q, dimension 4q + j of cells 4g..4g+3. */
    for (size_t j = 0; j < 4; j++) {
        __m512 a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);
        __m512 b = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
        __m512 c = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xDD);
        __m512 d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xDD);
        _mm512_store_ps(kt + (0 + j) * CELLS, _mm512_shuffle_f32x4(a, b, 0x88));
        _mm512_store_ps(kt + (4 + j) * CELLS, _mm512_shuffle_f32x4(c, d, 0x88));
        _mm512_store_ps(kt + (8 + j) * CELLS, _mm512_shuffle_f32x4(a, b, 0xDD));
        _mm512_store_ps(kt + (12 + j) * CELLS, _mm512_shuffle_f32x4(c, d, 0xDD));
    }
}

/* Scores of n_q (a constant) query rows with up to 64 cells: each broadcast
 * query element meets 64 cells, no sum across a register is ever needed. */
INLINE void score_rows(const float *const *q, size_t n_q, size_t first_dim, size_t n_d,
                       const float *kt, float *scores, size_t stride)
{
    __m512 sum[6][4];
    for (size_t i = 0; i < n_q; i++) {
        for (size_t v = 0; v < 4; v++)
            sum[i][v] =
                first_dim ? _mm512_loadu_ps(scores + i * stride + 16 * v) : _mm512_setzero_ps();
    }
    for (size_t d = 0; d < n_d; d++) {
        __m512 k[4];
        for (size_t v = 0; v < 4; v++)
            k[v] = _mm512_load_ps(kt + d * CELLS + 16 * v);
        for (size_t i = 0; i < n_q; i++) {
            __m512 a = _mm512_set1_ps(q[i][first_dim + d]);
            for (size_t v = 0; v < 4; v++)
                sum[i][v] = _mm512_fmadd_ps(a, k[v], sum[i][v]);
        }
    }
    for (size_t i = 0; i < n_q; i++) {
        for (size_t v = 0; v < 4; v++)
            _mm512_storeu_ps(scores + i * stride + 16 * v, sum[i][v]);
    }
}

INLINE void scores(const float *const *q, size_t n_q, const struct keys *k, size_t n_k,
                   float *scores, size_t stride)
{
    _Alignas(64) float kt[DIMS * CELLS];
    for (size_t first = 0; first < k->dim; first += DIMS) {
        size_t n_d = k->dim - first < DIMS ? k->dim - first : DIMS;
        for (size_t c = 0; c < CELLS; c += 16) {
            for (size_t d = 0; d < n_d; d += 16)
                transpose16(k, c, n_k, first + d, kt + d * CELLS + c);
        }
        size_t i = 0;
        for (; i + 6 <= n_q; i += 6)
            score_rows(q + i, 6, first, n_d, kt, scores + i * stride, stride);
        for (; i + 4 <= n_q; i += 4)
            score_rows(q + i, 4, first, n_d, kt, scores + i * stride, stride);
        for (; i + 2 <= n_q; i += 2)
            score_rows(q + i, 2, first, n_d, kt, scores + i * stride, stride);
        for (; i < n_q; i++)
            score_rows(q + i, 1, first, n_d, kt, scores + i * stride, stride);
    }
}

void scores_avx512(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                   float *out, size_t stride)
{
    struct keys keys = {.floats = k, .dim = dim};
    scores(q, n_q, &keys, n_k, out, stride);
}

void scores_half_avx512(const float *const *q, size_t n_q, const uint16_t *const *k, size_t ahead,
                        size_t n_k, size_t dim, float *out, size_t stride)
{
    struct keys keys = {.halves = k, .dim = dim, .ahead = ahead};
    scores(q, n_q, &keys, n_k, out, stride);
}

/* n_q rows and n_v vectors of dimensions, both constants; mask for the last. */
INLINE void value_rows(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                       size_t dim, size_t first_dim, size_t n_v, __mmask16 mask, float *const *out)
{
    __m512 sum[6][4];
    for (size_t i = 0; i < n_q; i++) {
        for (size_t j = 0; j < n_v; j++)
            sum[i][j] = _mm512_maskz_loadu_ps(mask, out[i] + first_dim + 16 * j);
    }
    for (size_t c = 0; c < n_k; c++) {
        __m512 row[4];
        for (size_t j = 0; j < n_v; j++)
            row[j] = _mm512_maskz_loadu_ps(mask, v + c * dim + first_dim + 16 * j);
        for (size_t i = 0; i < n_q; i++) {
            __m512 a = _mm512_set1_ps(weights[i * stride + c]);
            for (size_t j = 0; j < n_v; j++)
                sum[i][j] = _mm512_fmadd_ps(a, row[j], sum[i][j]);
        }
    }
    for (size_t i = 0; i < n_q; i++) {
        for (size_t j = 0; j < n_v; j++)
            _mm512_mask_storeu_ps(out[i] + first_dim + 16 * j, mask, sum[i][j]);
    }
}

INLINE void value_dims(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                       size_t dim, float *const *out)
{
    size_t d = 0;
    for (; d + 64 <= dim; d += 64)
        value_rows(weights, stride, n_q, v, n_k, dim, d, 4, 0xFFFF, out);
    for (; d < dim; d += 16) {
        __mmask16 mask = (__mmask16)(dim - d >= 16 ? 0xFFFF : (1u << (dim - d)) - 1);
        value_rows(weights, stride, n_q, v, n_k, dim, d, 1, mask, out);
    }
}

void values_avx512(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                   size_t dim, float *const *out)
{
    size_t i = 0;
    for (; i + 6 <= n_q; i += 6)
        value_dims(weights + i * stride, stride, 6, v, n_k, dim, out + i);
    for (; i + 2 <= n_q; i += 2)
        value_dims(weights + i * stride, stride, 2, v, n_k, dim, out + i);
    for (; i < n_q; i++)
        value_dims(weights + i * stride, stride, 1, v, n_k, dim, out + i);
}

/* Rounded to half precision: adding and taking away a number whose last digit has
 * the weight of the last digit to keep leaves the rounding to the addition. 10 digits
 * after the first; from 2^-14 down their weight is 2^-24. */
INLINE __m512 to_half(__m512 x)
{
    __m512 power = _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7F800000)));
    power = _mm512_max_ps(power, _mm512_set1_ps(0x1p-14f));
    __m512 far = _mm512_set1_ps(0x1.8p13f);
    return _mm512_fnmadd_ps(power, far, _mm512_fmadd_ps(power, far, x));
}

enum { HALF_ROWS = 4 };

/* Sums of n_q rows from dimension d on, n_v vectors each, all kept in registers. A
 * cell is a chain of roundings, so rows side by side take little more time than
 * one. */
INLINE void value_halves(const float *weights, const float *const *shrink, size_t stride,
                         size_t n_q, const uint16_t *const *v, size_t ahead, size_t n_k, size_t dim,
                         size_t d, size_t n_v, __mmask16 mask, float *acc)
{
    __m512 sum[HALF_ROWS][4];
    for (size_t r = 0; r < n_q; r++) {
        for (size_t i = 0; i < n_v; i++)
            sum[r][i] = _mm512_maskz_loadu_ps(mask, acc + r * dim + d + 16 * i);
    }
    for (size_t c = 0; c < n_k; c++) {
        __m512 row[4];
        for (size_t i = 0; i < 16 * n_v; i += LINE_HALVES)
            fetch(v[c] + d + i, ahead);
        for (size_t i = 0; i < n_v; i++)
            row[i] = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, v[c] + d + 16 * i));
        for (size_t r = 0; r < n_q; r++) {
            float weight = weights[r * stride + c];
            if (weight == 0)
                continue;
            if (shrink[r] && shrink[r][c] != 1) {
                for (size_t i = 0; i < n_v; i++)
                    sum[r][i] = to_half(_mm512_mul_ps(sum[r][i], _mm512_set1_ps(shrink[r][c])));
            }
            __m512 w = _mm512_set1_ps(weight);
            for (size_t i = 0; i < n_v; i++)
                sum[r][i] = to_half(_mm512_fmadd_ps(row[i], w, sum[r][i]));
        }
    }
    for (size_t r = 0; r < n_q; r++) {
        for (size_t i = 0; i < n_v; i++)
            _mm512_mask_storeu_ps(acc + r * dim + d + 16 * i, mask, sum[r][i]);
    }
}

INLINE void value_halves_all(const float *weights, const float *const *shrink, size_t stride,
                             size_t n_q, const uint16_t *const *v, size_t ahead, size_t n_k,
                             size_t dim, float *acc)
{
    size_t d = 0;
    for (; d + 64 <= dim; d += 64)
        value_halves(weights, shrink, stride, n_q, v, ahead, n_k, dim, d, 4, 0xFFFF, acc);
    for (; d < dim; d += 16) {
        __mmask16 mask = (__mmask16)(dim - d >= 16 ? 0xFFFF : (1u << (dim - d)) - 1);
        value_halves(weights, shrink, stride, n_q, v, ahead, n_k, dim, d, 1, mask, acc);
    }
}

void values_half_avx512(const float *weights, const float *shrink, const bool *shrinks,
                        size_t stride, size_t n_q, const uint16_t *const *v, size_t ahead,
                        size_t n_k, size_t dim, float *acc)
{
    for (size_t i = 0, n; i < n_q; i += n) {
        const float *rows[HALF_ROWS], *w = weights + i * stride;
        n = n_q - i >= HALF_ROWS ? HALF_ROWS : n_q - i >= 2 ? 2 : 1;
        for (size_t r = 0; r < n; r++)
            rows[r] = shrinks[i + r] ? shrink + (i + r) * stride : NULL;
        if (n == HALF_ROWS)
            value_halves_all(w, rows, stride, HALF_ROWS, v, ahead, n_k, dim, acc + i * dim);
        else if (n == 2)
            value_halves_all(w, rows, stride, 2, v, ahead, n_k, dim, acc + i * dim);
        else
            value_halves_all(w, rows, stride, 1, v, ahead, n_k, dim, acc + i * dim);
    }
}

PRODUCT_KERNEL(avx512)

void transpose_avx512(const float *in, size_t n_rows, size_t n_cols, float *out)
{
    transpose(in, n_rows, n_cols, out);
}

/* ---- exponentials ---- */

/* Below -150 it is 0. */
INLINE vf vf_exp(vf x)
{
    x = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-150)), _mm512_set1_ps(89));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504089f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm512_scalef_ps(exp_fraction(x, n), n);
}

float exp_sum_avx512(const float *x, float max, size_t n, float *y)
{
    __m512 sum = _mm512_setzero_ps(), shift = _mm512_set1_ps(max);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = (__mmask16)(n - i >= 16 ? 0xFFFF : (1u << (n - i)) - 1);
        __m512 e = vf_exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), shift));
        _mm512_mask_storeu_ps(y + i, mask, e);
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
    }
    return _mm512_reduce_add_ps(sum);
}

#define EACH16(expression)                                                                         \
    for (size_t i = 0; i < n; i += 16) {                                                           \
        __mmask16 mask = (__mmask16)(n - i >= 16 ? 0xFFFF : (1u << (n - i)) - 1);                  \
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);                                             \
        _mm512_mask_storeu_ps(y + i, mask, (expression));                                          \
    }                                                                                              \
    break

void activate_avx512(enum activation act, const float *x, size_t n, float *y)
{
    switch (act) {
    case ACT_SILU:
        EACH16(gated_sigmoid(v, 1));
    case ACT_GELU:
        EACH16(gelu(v));
    case ACT_GELU_QUICK:
        EACH16(gated_sigmoid(v, 1.702f));
    default:
        activate_generic(act, x, n, y);
        break;
    }
}
#endif
