/* blocks.h - the quantized formats, taken apart into small integers and scales.
 *
 * Private to the room. Every block format is, whatever its packing, a row of
 * integers of at most 8 bits with a scale (and sometimes a minimum) for each 16
 * or 32 of them. The plain-C functions of unpack.c say so for each format once;
 * decoding, and the multiplication on any processor, build on that. */
#ifndef MLXCEL_KERNELS_BLOCKS_H
#define MLXCEL_KERNELS_BLOCKS_H

#include "kernels/kernels.h"

/* A block: value i = scale[i / sub_len] * q[i] + min[i / sub_len]. */
struct block_ints {
    int8_t q[DTYPE_MAX_BLOCK];
    float scale[DTYPE_MAX_BLOCK / 16];
    float min[DTYPE_MAX_BLOCK / 16];
};

struct block_format {
    uint16_t len;    /* elements of a block; 0: not a block format */
    uint8_t sub_len; /* elements that share a scale: 16 or 32 */
    bool has_min;    /* else every min is 0 and is not written */
    uint8_t offset;  /* q + offset is 0..max */
    uint8_t max;
    void (*unpack)(const uint8_t *block, struct block_ints *out);
};

/* The rows of the formats that are also unpacked with vectors (panel_simd.h), where they
 * must be known when compiling: dtype, name of its functions, len, sub_len, has_min,
 * offset, max. */
#define BLOCK_FORMATS(FORMAT)                                                                      \
    FORMAT(Q1_0, q1_0, 128, 32, false, 1, 2)                                                       \
    FORMAT(Q2_0, q2_0, 64, 32, false, 1, 3)                                                        \
    FORMAT(Q4_0, q4_0, 32, 32, false, 8, 15)                                                       \
    FORMAT(Q4_1, q4_1, 32, 32, true, 0, 15)                                                        \
    FORMAT(Q5_0, q5_0, 32, 32, false, 16, 31)                                                      \
    FORMAT(Q5_1, q5_1, 32, 32, true, 0, 31)                                                        \
    FORMAT(Q8_0, q8_0, 32, 32, false, 128, 255)                                                    \
    FORMAT(Q2_K, q2_k, 256, 16, true, 0, 3)                                                        \
    FORMAT(Q3_K, q3_k, 256, 16, false, 4, 7)                                                       \
    FORMAT(Q4_K, q4_k, 256, 32, true, 0, 15)                                                       \
    FORMAT(Q5_K, q5_k, 256, 32, true, 0, 31)                                                       \
    FORMAT(Q6_K, q6_k, 256, 16, false, 32, 63)                                                     \
    FORMAT(IQ1_S, iq1_s, 256, 32, false, 9, 18)                                                    \
    FORMAT(IQ1_M, iq1_m, 256, 16, false, 9, 18)                                                    \
    FORMAT(IQ2_XXS, iq2_xxs, 256, 32, false, 43, 86)                                               \
    FORMAT(IQ2_XS, iq2_xs, 256, 16, false, 43, 86)                                                 \
    FORMAT(IQ2_S, iq2_s, 256, 16, false, 43, 86)                                                   \
    FORMAT(IQ3_XXS, iq3_xxs, 256, 32, false, 62, 124)                                              \
    FORMAT(IQ3_S, iq3_s, 256, 32, false, 15, 30)                                                   \
    FORMAT(IQ4_NL, iq4_nl, 32, 32, false, 127, 240)                                                \
    FORMAT(IQ4_XS, iq4_xs, 256, 32, false, 127, 240)                                               \
    FORMAT(TQ1_0, tq1_0, 256, 32, false, 1, 2)                                                     \
    FORMAT(TQ2_0, tq2_0, 256, 32, false, 1, 3)                                                     \
    FORMAT(MXFP4, mxfp4, 32, 32, false, 12, 24)                                                    \
    FORMAT(NVFP4, nvfp4, 64, 16, false, 12, 24)

/* The format's row; .len is 0 for plain formats. */
const struct block_format *block_format(enum dtype dtype);

/* Codebooks (grids.c), and those small enough to stand in a register. */
extern const uint64_t iq2_xxs_grid[256];
extern const uint64_t iq2_xs_grid[512];
extern const uint64_t iq2_s_grid[1024];
extern const uint32_t iq3_xxs_grid[256];
extern const uint32_t iq3_s_grid[512];
extern const uint64_t iq1_grid[2048];
extern const int8_t iq4_values[16];
extern const int8_t e2m1_doubled[16]; /* E2M1's sixteen values, times two */

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
