/* neon_float.c - plain formats, activations and attention with NEON. */
#if defined(__aarch64__)
#include "kernels/blocks.h"
#include "kernels/neon.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- the vector that float_simd.h is written in ---- */

typedef float32x4_t vf;
#define VF_LANES         4
#define PRODUCT_VECTORS  4
#define vf_load          vld1q_f32
#define vf_store         vst1q_f32
#define vf_set           vdupq_n_f32
#define vf_add           vaddq_f32
#define vf_sub           vsubq_f32
#define vf_mul           vmulq_f32
#define vf_div           vdivq_f32
#define vf_fma(a, b, c)  vfmaq_f32(c, a, b)
#define vf_fnma(a, b, c) vfmsq_f32(c, a, b)
#define vf_sum           vaddvq_f32
#define FLOAT_TAILS      1

/* ---- rows of weights times rows of activations ---- */

INLINE float32x4_t load_weights(enum dtype dtype, const void *w, size_t k)
{
    switch (dtype) {
    case DTYPE_F16:
        return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)w + k)));
    case DTYPE_BF16:
        return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)w + k), 16));
    default:
        return vld1q_f32((const float *)w + k);
    }
}

/* n_w times n_x outputs (constants) of four registers each: DOT_LANES is 16. */
INLINE void dots(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                 const float *const *x, size_t n_x, size_t n, float *acc, size_t stride)
{
    float32x4_t sum[DOT_WEIGHTS][2][4];
    for (size_t i = 0; i < n_w; i++) {
        for (size_t t = 0; t < n_x; t++) {
            for (size_t j = 0; j < 4; j++)
                sum[i][t][j] = vld1q_f32(acc + (i * stride + t) * DOT_LANES + 4 * j);
        }
    }
    for (size_t k = 0; k < n; k += DOT_LANES) {
        for (size_t j = 0; j < 4; j++) {
            float32x4_t a[2];
            for (size_t t = 0; t < n_x; t++)
                a[t] = vld1q_f32(x[t] + k + 4 * j);
            for (size_t i = 0; i < n_w; i++) {
                float32x4_t b = load_weights(dtype, w[i], k / DOT_LANES * step + 4 * j);
                for (size_t t = 0; t < n_x; t++)
                    sum[i][t][j] = vfmaq_f32(sum[i][t][j], b, a[t]);
            }
        }
    }
    for (size_t i = 0; i < n_w; i++) {
        for (size_t t = 0; t < n_x; t++) {
            for (size_t j = 0; j < 4; j++)
                vst1q_f32(acc + (i * stride + t) * DOT_LANES + 4 * j, sum[i][t][j]);
        }
    }
}

float lanes_sum_neon(const float *acc)
{
    float32x4_t a = vaddq_f32(vld1q_f32(acc), vld1q_f32(acc + 8));
    float32x4_t b = vaddq_f32(vld1q_f32(acc + 4), vld1q_f32(acc + 12));
    float32x4_t s = vaddq_f32(a, b);
    float32x2_t two = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* ---- decoding (the cache's formats) ---- */

static void decode_halves(enum dtype dtype, const uint8_t *in, float *out, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(out + i, load_weights(dtype, in, i));
    if (i < n)
        dtype_decode(dtype, in + 2 * i, out + i, n - i);
}

/* out = scale * q + min for sixteen; product and sum are rounded apart, as the
 * format's definition does. */
INLINE void put_sixteen(int8x16_t q, float scale, float min, float *out)
{
    int16x8_t eight[2] = {vmovl_s8(vget_low_s8(q)), vmovl_high_s8(q)};
    for (size_t i = 0; i < 2; i++) {
        float32x4_t a = vcvtq_f32_s32(vmovl_s16(vget_low_s16(eight[i])));
        float32x4_t b = vcvtq_f32_s32(vmovl_high_s16(eight[i]));
        vst1q_f32(out + 8 * i, vaddq_f32(vmulq_n_f32(a, scale), vdupq_n_f32(min)));
        vst1q_f32(out + 8 * i + 4, vaddq_f32(vmulq_n_f32(b, scale), vdupq_n_f32(min)));
    }
}

INLINE void decode_block(enum dtype dtype, const uint8_t *b, float *out)
{
    float scale = load_f16(b);
    if (dtype == DTYPE_Q8_0) {
        for (size_t i = 0; i < 2; i++)
            put_sixteen(vreinterpretq_s8_u8(vld1q_u8(b + 2 + 16 * i)), scale, 0, out + 16 * i);
        return;
    }
    uint8x16_t v = vld1q_u8(b + (dtype == DTYPE_Q4_1 ? 4 : 2));
    int8x16_t half[2] = {vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))),
                         vreinterpretq_s8_u8(vshrq_n_u8(v, 4))};
    float min = dtype == DTYPE_Q4_1 ? load_f16(b + 2) : 0;
    for (size_t i = 0; i < 2; i++) {
        if (dtype == DTYPE_Q4_0)
            half[i] = vsubq_s8(half[i], vdupq_n_s8(8));
        if (dtype == DTYPE_IQ4_NL)
            half[i] = vqtbl1q_s8(vld1q_s8(iq4_values), vreinterpretq_u8_s8(half[i]));
        put_sixteen(half[i], scale, min, out + 16 * i);
    }
}

INLINE float32x4_t vf_half(float32x4_t x)
{
    return vcvt_f32_f16(vcvt_f16_f32(x));
}

#include "kernels/float_simd.h"

/* ---- attention ---- */

/* n_q (a constant) queries meet one key: its row is loaded once for them. */
INLINE void score_rows(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                       float *scores, size_t stride)
{
    size_t whole = dim / 8 * 8;
    for (size_t c = 0; c < n_k; c++, k += dim) {
        float32x4_t sum[4][2];
        for (size_t i = 0; i < n_q; i++)
            sum[i][0] = sum[i][1] = vdupq_n_f32(0);
        for (size_t d = 0; d < whole; d += 8) {
            float32x4_t a = vld1q_f32(k + d), b = vld1q_f32(k + d + 4);
            for (size_t i = 0; i < n_q; i++) {
                sum[i][0] = vfmaq_f32(sum[i][0], vld1q_f32(q[i] + d), a);
                sum[i][1] = vfmaq_f32(sum[i][1], vld1q_f32(q[i] + d + 4), b);
            }
        }
        for (size_t i = 0; i < n_q; i++) {
            float s = vaddvq_f32(vaddq_f32(sum[i][0], sum[i][1]));
            for (size_t d = whole; d < dim; d++)
                s += q[i][d] * k[d];
            scores[i * stride + c] = s;
        }
    }
}

void scores_neon(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                 float *scores, size_t stride)
{
    size_t i = 0;
    for (; i + 4 <= n_q; i += 4)
        score_rows(q + i, 4, k, n_k, dim, scores + i * stride, stride);
    for (; i < n_q; i++)
        score_rows(q + i, 1, k, n_k, dim, scores + i * stride, stride);
}

INLINE void value_rows(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                       size_t dim, float *const *out)
{
    size_t d = 0;
    for (; d + 16 <= dim; d += 16) {
        float32x4_t sum[4][4];
        for (size_t i = 0; i < n_q; i++) {
            for (size_t j = 0; j < 4; j++)
                sum[i][j] = vld1q_f32(out[i] + d + 4 * j);
        }
        for (size_t c = 0; c < n_k; c++) {
            float32x4_t a[4];
            for (size_t j = 0; j < 4; j++)
                a[j] = vld1q_f32(v + c * dim + d + 4 * j);
            for (size_t i = 0; i < n_q; i++) {
                for (size_t j = 0; j < 4; j++)
                    sum[i][j] = vfmaq_n_f32(sum[i][j], a[j], weights[i * stride + c]);
            }
        }
        for (size_t i = 0; i < n_q; i++) {
            for (size_t j = 0; j < 4; j++)
                vst1q_f32(out[i] + d + 4 * j, sum[i][j]);
        }
    }
    for (; d < dim; d++) {
        for (size_t i = 0; i < n_q; i++) {
            for (size_t c = 0; c < n_k; c++)
                out[i][d] += weights[i * stride + c] * v[c * dim + d];
        }
    }
}

void values_neon(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
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
    uint32x4_t tiny = vcltq_f32(x, vdupq_n_f32(-87));
    x = vminq_f32(vmaxq_f32(x, vdupq_n_f32(-87)), vdupq_n_f32(88));
    float32x4_t n = vrndnq_f32(vmulq_n_f32(x, 1.44269504089f));
    int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    float32x4_t p = vmulq_f32(exp_fraction(x, n), vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(p), tiny));
}

FLOAT_KERNELS(neon)
PRODUCT_KERNEL(neon)
#endif
