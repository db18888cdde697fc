/* transpose_x86.h - rows become columns, eight by eight with AVX. */
#ifndef MLXCEL_KERNELS_TRANSPOSE_X86_H
#define MLXCEL_KERNELS_TRANSPOSE_X86_H

#include <immintrin.h>
#include <stddef.h>

/* Four rows' columns 0..3 of the eight at `in` and, in the upper halves, those of the
 * four rows below. */
static inline __attribute__((always_inline)) void transpose_half(const float *in, size_t in_stride,
                                                                 float *out, size_t out_stride)
{
    __m256 r[4];
    for (size_t i = 0; i < 4; i++) {
        __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(in + i * in_stride));
        r[i] = _mm256_insertf128_ps(low, _mm_loadu_ps(in + (i + 4) * in_stride), 1);
    }
    __m256 a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
    __m256 c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);
    _mm256_storeu_ps(out, _mm256_shuffle_ps(a, c, 0x44));
    _mm256_storeu_ps(out + out_stride, _mm256_shuffle_ps(a, c, 0xEE));
    _mm256_storeu_ps(out + 2 * out_stride, _mm256_shuffle_ps(b, d, 0x44));
    _mm256_storeu_ps(out + 3 * out_stride, _mm256_shuffle_ps(b, d, 0xEE));
}

static inline __attribute__((always_inline)) void transpose(const float *in, size_t n_rows,
                                                            size_t n_cols, float *out)
{
    size_t i = 0;
    for (; i + 8 <= n_rows; i += 8) {
        size_t j = 0;
        for (; j + 4 <= n_cols; j += 4)
            transpose_half(in + i * n_cols + j, n_cols, out + j * n_rows + i, n_rows);
        for (; j < n_cols; j++) {
            for (size_t k = i; k < i + 8; k++)
                out[j * n_rows + k] = in[k * n_cols + j];
        }
    }
    for (; i < n_rows; i++) {
        for (size_t j = 0; j < n_cols; j++)
            out[j * n_rows + i] = in[i * n_cols + j];
    }
}

#endif
