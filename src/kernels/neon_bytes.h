/* neon_bytes.h - what both ways to multiply bytes on AArch64 begin with. */
#ifndef MLXCEL_KERNELS_NEON_BYTES_H
#define MLXCEL_KERNELS_NEON_BYTES_H

#include <arm_neon.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { TOKENS = 3 }; /* activations of a tile that fit the registers */

/* Four bytes, four times. */
INLINE int8x16_t broadcast_four(const int8_t *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return vreinterpretq_s8_s32(vdupq_n_s32(v));
}

#endif
