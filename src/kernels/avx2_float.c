/* avx2_float.c - plain formats, activations and attention with AVX2. */
#if defined(__x86_64__)
#include "kernels/avx2.h"
#include "kernels/blocks.h"
#include "kernels/transpose_x86.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- the vector that float_simd.h is written in ---- */

typedef __m256 vf;
#define VF_LANES           8
#define PRODUCT_VECTORS    2
#define vf_load            _mm256_loadu_ps
#define vf_store           _mm256_storeu_ps
#define vf_set             _mm256_set1_ps
#define vf_add             _mm256_add_ps
#define vf_sub             _mm256_sub_ps
#define vf_mul             _mm256_mul_ps
#define vf_div             _mm256_div_ps
#define vf_fma             _mm256_fmadd_ps
#define vf_fnma            _mm256_fnmadd_ps
#define vf_sum             sum8
#define FLOAT_TAILS        1
#define DECODES_FIFTH_BITS 1

INLINE float sum8(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* ---- rows of weights times rows of activations ---- */

INLINE __m256 load_weights(enum dtype dtype, const void *w, size_t k)
{
    switch (dtype) {
    case DTYPE_F16:
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)w + k)));
    case DTYPE_BF16:
        return _mm256_castsi256_ps(_mm256_slli_epi32(
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)((const uint16_t *)w + k))),
            16));
    default:
        return _mm256_loadu_ps((const float *)w + k);
    }
}

/* n_w times n_x outputs (constants) of two registers each: DOT_LANES is 16. */
INLINE void dots(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                 const float *const *x, size_t n_x, size_t n, float *acc, size_t stride)
{
    __m256 sum[DOT_WEIGHTS][2][2];
    for (size_t i = 0; i < n_w; i++) {
        for (size_t t = 0; t < n_x; t++) {
            sum[i][t][0] = _mm256_loadu_ps(acc + (i * stride + t) * DOT_LANES);
            sum[i][t][1] = _mm256_loadu_ps(acc + (i * stride + t) * DOT_LANES + 8);
        }
    }
    for (size_t k = 0; k < n; k += DOT_LANES) {
        for (size_t j = 0; j < 2; j++) {
            __m256 a[2];
            for (size_t t = 0; t < n_x; t++)
                a[t] = _mm256_loadu_ps(x[t] + k + 8 * j);
            for (size_t i = 0; i < n_w; i++) {
                __m256 b = load_weights(dtype, w[i], k / DOT_LANES * step + 8 * j);
                for (size_t t = 0; t < n_x; t++)
                    sum[i][t][j] = _mm256_fmadd_ps(b, a[t], sum[i][t][j]);
            }
        }
    }
    for (size_t i = 0; i < n_w; i++) {
        for (size_t t = 0; t < n_x; t++) {
            _mm256_storeu_ps(acc + (i * stride + t) * DOT_LANES, sum[i][t][0]);
            _mm256_storeu_ps(acc + (i * stride + t) * DOT_LANES + 8, sum[i][t][1]);
        }
    }
}

float lanes_sum_avx2(const float *acc)
{
    return sum8(_mm256_add_ps(_mm256_loadu_ps(acc), _mm256_loadu_ps(acc + 8)));
}

/* ---- decoding (the cache's formats) ---- */

static void decode_halves(enum dtype dtype, const uint8_t *in, float *out, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, load_weights(dtype, in, i));
    if (i < n)
        dtype_decode(dtype, in + 2 * i, out + i, n - i);
}

/* Bits 0..15 of a word as bytes 0 or 16. */
INLINE __m128i fifth_bits(unsigned bits)
{
    const __m128i each = _mm_set1_epi64x((int64_t)0x8040201008040201);
    __m128i v = _mm_shuffle_epi8(_mm_cvtsi32_si128((int)bits),
                                 _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
    return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(v, each), each), _mm_set1_epi8(16));
}

#include "kernels/cache_blocks_x86.h"

INLINE void decode_block(enum dtype dtype, const uint8_t *b, float *out)
{
    __m128i half[2];
    float block_scale, block_min;
    block_integers(dtype, b, half, &block_scale, &block_min);
    __m256 scale = _mm256_set1_ps(block_scale), min = _mm256_set1_ps(block_min);
    for (int i = 0; i < 4; i++) {
        __m128i eight = i % 2 ? _mm_srli_si128(half[i / 2], 8) : half[i / 2];
        __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
        _mm256_storeu_ps(out + 8 * i, _mm256_add_ps(_mm256_mul_ps(scale, v), min));
    }
}

INLINE __m256 vf_half(__m256 x)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#include "kernels/float_simd.h"

/* ---- attention ---- */

/* n_q (a constant) queries meet one key: its row is loaded once for them. Keys are
 * floats, dim apart, or each where it lies, in half precision. */
INLINE void score_rows(const float *const *q, size_t n_q, const float *floats,
                       const uint16_t *const *halves, size_t ahead, size_t n_k, size_t dim,
                       float *scores, size_t stride)
{
    size_t whole = dim / 8 * 8;
    for (size_t c = 0; c < n_k; c++) {
        const void *k = halves ? (const void *)halves[c] : floats + c * dim;
        __m256 sum[4];
        for (size_t i = 0; i < n_q; i++)
            sum[i] = _mm256_setzero_ps();
        for (size_t d = 0; ahead && d < dim; d += LINE_HALVES)
            fetch(halves[c] + d, ahead);
        for (size_t d = 0; d < whole; d += 8) {
            __m256 v = load_weights(halves ? DTYPE_F16 : DTYPE_F32, k, d);
            for (size_t i = 0; i < n_q; i++)
                sum[i] = _mm256_fmadd_ps(_mm256_loadu_ps(q[i] + d), v, sum[i]);
        }
        for (size_t i = 0; i < n_q; i++) {
            float s = sum8(sum[i]);
            for (size_t d = whole; d < dim; d++)
                s += q[i][d] * (halves ? f16_to_f32(halves[c][d]) : floats[c * dim + d]);
            scores[i * stride + c] = s;
        }
    }
}

INLINE void score_all(const float *const *q, size_t n_q, const float *floats,
                      const uint16_t *const *halves, size_t ahead, size_t n_k, size_t dim,
                      float *scores, size_t stride)
{
    size_t i = 0;
    for (; i + 4 <= n_q; i += 4)
        score_rows(q + i, 4, floats, halves, i ? 0 : ahead, n_k, dim, scores + i * stride, stride);
    for (; i < n_q; i++)
        score_rows(q + i, 1, floats, halves, i ? 0 : ahead, n_k, dim, scores + i * stride, stride);
}

void scores_avx2(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                 float *scores, size_t stride)
{
    score_all(q, n_q, k, NULL, 0, n_k, dim, scores, stride);
}

void scores_half_avx2(const float *const *q, size_t n_q, const uint16_t *const *k, size_t ahead,
                      size_t n_k, size_t dim, float *scores, size_t stride)
{
    score_all(q, n_q, NULL, k, ahead, n_k, dim, scores, stride);
}

INLINE void value_rows(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                       size_t dim, float *const *out)
{
    size_t d = 0;
    for (; d + 16 <= dim; d += 16) {
        __m256 sum[4][2];
        for (size_t i = 0; i < n_q; i++) {
            sum[i][0] = _mm256_loadu_ps(out[i] + d);
            sum[i][1] = _mm256_loadu_ps(out[i] + d + 8);
        }
        for (size_t c = 0; c < n_k; c++) {
            __m256 a = _mm256_loadu_ps(v + c * dim + d), b = _mm256_loadu_ps(v + c * dim + d + 8);
            for (size_t i = 0; i < n_q; i++) {
                __m256 w = _mm256_set1_ps(weights[i * stride + c]);
                sum[i][0] = _mm256_fmadd_ps(w, a, sum[i][0]);
                sum[i][1] = _mm256_fmadd_ps(w, b, sum[i][1]);
            }
        }
        for (size_t i = 0; i < n_q; i++) {
            _mm256_storeu_ps(out[i] + d, sum[i][0]);
            _mm256_storeu_ps(out[i] + d + 8, sum[i][1]);
        }
    }
    for (; d < dim; d++) {
        for (size_t i = 0; i < n_q; i++) {
            for (size_t c = 0; c < n_k; c++)
                out[i][d] += weights[i * stride + c] * v[c * dim + d];
        }
    }
}

void values_avx2(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                 size_t dim, float *const *out)
{
    size_t i = 0;
    for (; i + 4 <= n_q; i += 4)
        value_rows(weights + i * stride, stride, 4, v, n_k, dim, out + i);
    for (; i < n_q; i++)
        value_rows(weights + i * stride, stride, 1, v, n_k, dim, out + i);
}

/* ---- exponentials ---- */

/* Below -87 it is 0, since 2^n is made of exponent bits. */
INLINE vf vf_exp(vf x)
{
    __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(-87), _CMP_LT_OQ);
    x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-87)), _mm256_set1_ps(88));
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504089f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
    return _mm256_andnot_ps(tiny, _mm256_mul_ps(exp_fraction(x, n), power));
}

FLOAT_KERNELS(avx2)
PRODUCT_KERNEL(avx2)

void transpose_avx2(const float *in, size_t n_rows, size_t n_cols, float *out)
{
    transpose(in, n_rows, n_cols, out);
}
#endif
