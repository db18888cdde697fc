/* cache_blocks_x86.h - a block of the cache's formats as 32 small integers.
 *
 * Before it is included, a file defines fifth_bits: bits 0..15 of a word as bytes
 * 0 or 16. */
#ifndef MLXCEL_KERNELS_CACHE_BLOCKS_X86_H
#define MLXCEL_KERNELS_CACHE_BLOCKS_X86_H

#include "kernels/blocks.h"

#include <immintrin.h>

/* Values 0..15 from the low nibbles, 16..31 from the high ones. */
INLINE void nibble_halves(const uint8_t *qs, __m128i half[2])
{
    __m128i v = _mm_loadu_si128((const __m128i *)qs), mask = _mm_set1_epi8(15);
    half[0] = _mm_and_si128(v, mask);
    half[1] = _mm_and_si128(_mm_srli_epi16(v, 4), mask);
}

/* The block's values are scale times the integers of half, plus min. */
INLINE void block_integers(enum dtype dtype, const uint8_t *b, __m128i half[2], float *scale,
                           float *min)
{
    *scale = load_f16(b);
    *min = 0;
    switch (dtype) {
    case DTYPE_Q8_0:
        half[0] = _mm_loadu_si128((const __m128i *)(b + 2));
        half[1] = _mm_loadu_si128((const __m128i *)(b + 18));
        break;
    case DTYPE_Q4_0:
        nibble_halves(b + 2, half);
        for (int i = 0; i < 2; i++)
            half[i] = _mm_sub_epi8(half[i], _mm_set1_epi8(8));
        break;
    case DTYPE_Q4_1:
        nibble_halves(b + 4, half);
        *min = load_f16(b + 2);
        break;
    case DTYPE_Q5_0:
        nibble_halves(b + 6, half);
        for (int i = 0; i < 2; i++)
            half[i] = _mm_sub_epi8(_mm_or_si128(half[i], fifth_bits(load_u16(b + 2 + 2 * i))),
                                   _mm_set1_epi8(16));
        break;
    case DTYPE_Q5_1:
        nibble_halves(b + 8, half);
        for (int i = 0; i < 2; i++)
            half[i] = _mm_or_si128(half[i], fifth_bits(load_u16(b + 4 + 2 * i)));
        *min = load_f16(b + 2);
        break;
    default: /* IQ4_NL */
        nibble_halves(b + 2, half);
        for (int i = 0; i < 2; i++)
            half[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)iq4_values), half[i]);
        break;
    }
}

#endif
