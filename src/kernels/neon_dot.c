/* neon_dot.c - panels times activations with the dot products of ARMv8.2: four
 * bytes of each of four rows with one instruction. */
#if defined(__aarch64__)
#include "kernels/neon.h"
#include "kernels/neon_bytes.h"

INLINE void dot_vector(const uint8_t *q, const int8_t *const *a, size_t n_tokens, size_t sub,
                       size_t run, bool flip, int32x4_t dot[][2])
{
    (void)run; /* sums have 32 bits from the start */
    for (size_t k = 0; k < sub; k += 4) {
        for (size_t i = 0; i < 2; i++) {
            uint8x16_t w = vld1q_u8(q + k * PANEL_ROWS + 16 * i);
            if (flip)
                w = veorq_u8(w, vdupq_n_u8(128));
            for (size_t t = 0; t < n_tokens; t++)
                dot[t][i] = vdotq_s32(dot[t][i], vreinterpretq_s8_u8(w), broadcast_four(a[t] + k));
        }
    }
}

#include "kernels/neon_tiles.h"

void panel_dot_neon_dot(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                        size_t n, size_t n_tokens, float *const *acc)
{
    for (size_t p = 0; p < n_panels; p++)
        dot_one_panel(&panels[p], tile, n, n_tokens, acc + p * n_tokens);
}
#endif
