/* neon_tiles.h - panels times tiles of activations on AArch64.
 *
 * Included by one file per way to multiply bytes (neon_panel.c, neon_dot.c),
 * which defines before it
 *   dot_vector(q, a, n_tokens, sub, run, flip, dot): for two vectors of four
 *   rows each, dot[t][0..1] += sub columns; run as run_of says; flip: stored
 *   integers are taken as signed, 128 less than they are.
 * Bytes are multiplied as signed ones, so a format whose integers pass 127 is
 * shifted by 128, and 128 times the sum of the activations is added back: exact
 * in integers. */
#include "kernels/table.h"

#include <string.h>

/* Sums of this many products per 16-bit lane cannot overflow: a power of two,
 * at least 2, since |q| <= 128 and |a| <= 127. */
INLINE size_t run_of(const struct panel_format *f)
{
    int size = f->max > 127 ? 128 : f->max, fits = INT16_MAX / (127 * size);
    return fits >= 8 ? 8 : fits >= 4 ? 4 : 2;
}

INLINE int32_t sum_of(const int8_t *a, size_t n)
{
    int32_t sum = 0;
    for (size_t k = 0; k < n; k += 16)
        sum += vaddlvq_s8(vld1q_s8(a + k));
    return sum;
}

/* n_tokens, sub, run and flip are constants. */
INLINE void dot_tile(const struct panel *p, const struct act_tile *tile, size_t first, size_t n,
                     float *const *acc, size_t n_tokens, size_t sub, size_t run, bool flip)
{
    bool has_min = p->format.has_min, has_offset = p->format.offset != 0;
    for (size_t half = 0; half < PANEL_ROWS; half += 8) {
        float32x4_t sum[TOKENS][2];
        for (size_t t = 0; t < n_tokens; t++) {
            sum[t][0] = vld1q_f32(acc[first + t] + half);
            sum[t][1] = vld1q_f32(acc[first + t] + half + 4);
        }
        for (size_t s = 0; s < n / sub; s++) {
            const int8_t *a[TOKENS];
            int32x4_t dot[TOKENS][2];
            for (size_t t = 0; t < n_tokens; t++) {
                a[t] = tile->q[first + t] + s * sub;
                int32_t start = has_offset ? tile->bias[first + t][s] : 0;
                if (flip)
                    start += 128 * sum_of(a[t], sub);
                dot[t][0] = dot[t][1] = vdupq_n_s32(start);
            }
            dot_vector(p->q + s * sub * PANEL_ROWS + 4 * half, a, n_tokens, sub, run, flip, dot);
            const float *scale = p->scale + s * PANEL_ROWS + half;
            for (size_t t = 0; t < n_tokens; t++) {
                float b = tile->scale[first + t][s * sub / BLOCK_COLS];
                for (size_t i = 0; i < 2; i++)
                    sum[t][i] = vfmaq_f32(sum[t][i], vcvtq_f32_s32(dot[t][i]),
                                          vmulq_n_f32(vld1q_f32(scale + 4 * i), b));
            }
            if (has_min) {
                const float *min = p->min + s * PANEL_ROWS + half;
                for (size_t t = 0; t < n_tokens; t++) {
                    for (size_t i = 0; i < 2; i++)
                        sum[t][i] =
                            vfmaq_n_f32(sum[t][i], vld1q_f32(min + 4 * i), tile->sum[first + t][s]);
                }
            }
        }
        for (size_t t = 0; t < n_tokens; t++) {
            vst1q_f32(acc[first + t] + half, sum[t][0]);
            vst1q_f32(acc[first + t] + half + 4, sum[t][1]);
        }
    }
}

INLINE void dot_tokens(const struct panel *p, const struct act_tile *tile, size_t n,
                       size_t n_tokens, float *const *acc, size_t sub, size_t run, bool flip)
{
    size_t t = 0;
    for (; t + TOKENS <= n_tokens; t += TOKENS)
        dot_tile(p, tile, t, n, acc, TOKENS, sub, run, flip);
    for (; t < n_tokens; t++)
        dot_tile(p, tile, t, n, acc, 1, sub, run, flip);
}

static void dot_one_panel(const struct panel *p, const struct act_tile *tile, size_t n,
                          size_t n_tokens, float *const *acc)
{
    size_t run = run_of(&p->format);
    if (p->format.sub_len == 32) {
        if (p->format.max > 127)
            dot_tokens(p, tile, n, n_tokens, acc, 32, 2, true);
        else if (run == 8)
            dot_tokens(p, tile, n, n_tokens, acc, 32, 8, false);
        else if (run == 4)
            dot_tokens(p, tile, n, n_tokens, acc, 32, 4, false);
        else
            dot_tokens(p, tile, n, n_tokens, acc, 32, 2, false);
    } else {
        if (p->format.max > 127)
            dot_tokens(p, tile, n, n_tokens, acc, 16, 2, true);
        else if (run >= 4)
            dot_tokens(p, tile, n, n_tokens, acc, 16, 4, false);
        else
            dot_tokens(p, tile, n, n_tokens, acc, 16, 2, false);
    }
}
