/* blocks.h - what the block formats are taken apart with: codebooks, small floats, packed
 * scales.
 *
 * Private to the module. Every block format is, whatever its packing, a row of
 * integers of at most 8 bits with a scale (and sometimes a minimum) for each 16
 * or 32 of them. The plain-C functions of unpack.c say so for each format once;
 * decoding, and the multiplication on any processor, build on that. */
#ifndef MLXCEL_KERNELS_BLOCKS_H
#define MLXCEL_KERNELS_BLOCKS_H

#include "kernels/kernels.h"

/* Codebooks (grids.c), and those small enough to stand in a register. */
extern const uint64_t iq2_xxs_grid[256];
extern const uint64_t iq2_xs_grid[512];
extern const uint64_t iq2_s_grid[1024];
extern const uint32_t iq3_xxs_grid[256];
extern const uint32_t iq3_s_grid[512];
extern const uint64_t iq1_grid[2048];
extern const int8_t iq4_values[16];
extern const int8_t e2m1_doubled[16]; /* E2M1's sixteen values, times two */

float e2m1_to_f32(uint8_t v);  /* OCP Microscaling's 4-bit float */
float e8m0_to_f32(uint8_t e);  /* 2^(e - 127) */
float e4m3_to_f32(uint8_t v);  /* OCP 8-bit floating point, E4M3 */
float e5m2_to_f32(uint8_t v);  /* OCP 8-bit floating point, E5M2 */
float ue4m3_to_f32(uint8_t v); /* NVFP4's block scale in GGUF: unsigned, 0x7F is 0 */
uint8_t f32_to_ue4m3(float f); /* to nearest, at least 0 */

static inline uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16(p));
}

/* The eight 6-bit scales and minimums of a Q4_K or Q5_K block, packed in 12
 * bytes: the first four of each whole, the upper ones' two high bits in the top
 * bits of the lower ones. */
static inline void k4_scale_min(const uint8_t *s, int j, uint8_t *scale, uint8_t *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (uint8_t)((s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
        *min = (uint8_t)((s[j + 4] >> 4) | (s[j] >> 6) << 4);
    }
}

/* Scale j of the sixteen 6-bit ones of a Q3_K block, 0..63, offset by 32. */
static inline int q3_k_scale(const uint8_t *s, int j)
{
    int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    int high = (s[8 + j % 4] >> 2 * (j / 4)) & 3;
    return low | high << 4;
}

#endif
