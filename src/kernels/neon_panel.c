/* neon_panel.c - block formats with NEON.
 *
 * As in avx2_panel.c: bytes are multiplied into 16-bit sums, as many as fit
 * (run), which are then added by pairs into 32 bits. */
#if defined(__aarch64__)
#include "kernels/lanes_neon.h"
/**/
#include "kernels/neon.h"
#include "kernels/neon_bytes.h"
#include "kernels/panel_simd.h"

INLINE void dot_vector(const uint8_t *q, const int8_t *const *a, size_t n_tokens, size_t sub,
                       size_t run, bool flip, int32x4_t dot[][2])
{
    for (size_t k = 0; k < sub; k += 4 * run) {
        for (size_t i = 0; i < 2; i++) {
            int16x8_t low[TOKENS], high[TOKENS];
            for (size_t j = 0; j < run; j++) {
                uint8x16_t bytes = vld1q_u8(q + (k + 4 * j) * PANEL_ROWS + 16 * i);
                if (flip)
                    bytes = veorq_u8(bytes, vdupq_n_u8(128));
                int8x16_t w = vreinterpretq_s8_u8(bytes);
                for (size_t t = 0; t < n_tokens; t++) {
                    int8x16_t x = broadcast_four(a[t] + k + 4 * j);
                    if (j == 0) {
                        low[t] = vmull_s8(vget_low_s8(w), vget_low_s8(x));
                        high[t] = vmull_high_s8(w, x);
                    } else {
                        low[t] = vmlal_s8(low[t], vget_low_s8(w), vget_low_s8(x));
                        high[t] = vmlal_high_s8(high[t], w, x);
                    }
                }
            }
            for (size_t t = 0; t < n_tokens; t++)
                dot[t][i] =
                    vaddq_s32(dot[t][i], vpaddq_s32(vpaddlq_s16(low[t]), vpaddlq_s16(high[t])));
        }
    }
}

#include "kernels/neon_tiles.h"

void panel_dot_neon(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                    size_t n, size_t n_tokens, float *const *acc)
{
    for (size_t p = 0; p < n_panels; p++)
        dot_one_panel(&panels[p], tile, n, n_tokens, acc + p * n_tokens);
}

bool reads_packed_neon(const struct matrix *w)
{
    return reads_packed_simd(w);
}

void unpack_neon(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    unpack_simd(s, begin, n, out);
}

/* 32 activations to 8 bits (to nearest, ties to even), and the sums of both
 * sixteens. */
INLINE void quantize_32(const float *x, float inverse, int8_t *q, int32_t *sum16)
{
    for (size_t half = 0; half < 2; half++) {
        int16x4_t part[4];
        for (size_t i = 0; i < 4; i++) {
            float32x4_t v = vrndnq_f32(vmulq_n_f32(vld1q_f32(x + 16 * half + 4 * i), inverse));
            /* What is no number or too large becomes 0. */
            uint32x4_t fits = vcleq_f32(vabsq_f32(v), vdupq_n_f32(127));
            uint32x4_t ints = vandq_u32(vreinterpretq_u32_s32(vcvtq_s32_f32(v)), fits);
            part[i] = vmovn_s32(vreinterpretq_s32_u32(ints));
        }
        int8x16_t bytes = vcombine_s8(vmovn_s16(vcombine_s16(part[0], part[1])),
                                      vmovn_s16(vcombine_s16(part[2], part[3])));
        vst1q_s8(q + 16 * half, bytes);
        sum16[half] = vaddlvq_s8(bytes);
    }
}

INLINE float to_half_and_back(float v)
{
    return vgetq_lane_f32(vcvt_f32_f16(vcvt_f16_f32(vdupq_n_f32(v))), 0);
}

/* The same numbers as quantize_generic. */
void quantize_neon(const float *x, size_t n, const struct act_row *out)
{
    for (size_t b = 0; b < n / BLOCK_COLS; b++, x += BLOCK_COLS) {
        float32x4_t amax4 = vdupq_n_f32(0);
        for (size_t i = 0; i < BLOCK_COLS; i += 4)
            amax4 = vmaxnmq_f32(amax4, vabsq_f32(vld1q_f32(x + i)));
        float amax = vmaxnmvq_f32(amax4);
        quantize_32(x, amax > 0 ? 127.0f / amax : 0, out->q + b * BLOCK_COLS, out->sum16 + 2 * b);
        out->scale[b] = to_half_and_back(amax / 127.0f);
    }
}

/* The same numbers as quantize_wide_generic. */
void quantize_wide_neon(const float *x, size_t n, const struct act_row *out)
{
    for (size_t b = 0; b < n / WIDE_COLS; b++, x += WIDE_COLS) {
        float32x4_t max = vdupq_n_f32(0), min = max;
        for (size_t i = 0; i < WIDE_COLS; i += 4) {
            max = vmaxnmq_f32(max, vld1q_f32(x + i));
            min = vminnmq_f32(min, vld1q_f32(x + i));
        }
        float high = vmaxnmvq_f32(max), low = vminnmvq_f32(min);
        float far = wide_extreme(x, high, low);
        float inverse = far != 0 ? -127.0f / far : 0, scale = far != 0 ? 1 / inverse : 0;
        for (size_t i = 0; i < WIDE_COLS; i += BLOCK_COLS) {
            size_t at = b * WIDE_COLS + i;
            quantize_32(x + i, inverse, out->q + at, out->sum16 + at / 16);
            out->scale[at / BLOCK_COLS] = scale;
        }
    }
}
#endif
