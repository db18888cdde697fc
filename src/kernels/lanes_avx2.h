/* lanes_avx2.h - a vector of eight 32-bit lanes, for panel_simd.h. */
#ifndef MLXCEL_KERNELS_LANES_AVX2_H
#define MLXCEL_KERNELS_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 8 };
typedef __m256i vint;
typedef __m256 vfloat;

static inline vint vi_set8(uint8_t v)
{
    return _mm256_set1_epi8((char)v);
}
static inline vint vi_set32(uint32_t v)
{
    return _mm256_set1_epi32((int)v);
}
static inline vint vi_and(vint a, vint b)
{
    return _mm256_and_si256(a, b);
}
static inline vint vi_or(vint a, vint b)
{
    return _mm256_or_si256(a, b);
}
static inline vint vi_xor(vint a, vint b)
{
    return _mm256_xor_si256(a, b);
}
static inline vint vi_srl(vint a, unsigned n)
{
    return _mm256_srli_epi32(a, (int)n);
}
static inline vint vi_sll(vint a, unsigned n)
{
    return _mm256_slli_epi32(a, (int)n);
}
static inline vint vi_sra(vint a, unsigned n)
{
    return _mm256_srai_epi32(a, (int)n);
}
static inline vint vi_srl16(vint a, unsigned n)
{
    return _mm256_srli_epi16(a, (int)n);
}
static inline vint vi_add8(vint a, vint b)
{
    return _mm256_add_epi8(a, b);
}
static inline vint vi_sub8(vint a, vint b)
{
    return _mm256_sub_epi8(a, b);
}
/* table[index], each lane its own. */
static inline vint vi_gather(const int32_t *table, vint index)
{
    return _mm256_i32gather_epi32(table, index, 4);
}
static inline vint vi_add16(vint a, vint b)
{
    return _mm256_add_epi16(a, b);
}
static inline vint vi_sub32(vint a, vint b)
{
    return _mm256_sub_epi32(a, b);
}
static inline vint vi_max32(vint a, vint b)
{
    return _mm256_max_epi32(a, b);
}
/* a, but 0 where it equals b. */
static inline vint vi_zero_if_equal(vint a, vint b)
{
    return _mm256_andnot_si256(_mm256_cmpeq_epi32(a, b), a);
}
static inline vint vi_mul32(vint a, vint b)
{
    return _mm256_mullo_epi32(a, b);
}
static inline vint vi_shuffle8(vint table, vint index)
{
    return _mm256_shuffle_epi8(table, index);
}
static inline vint vi_repeat16(const void *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}
static inline vint vi_load(const void *p)
{
    return _mm256_load_si256((const __m256i *)p);
}
static inline void vi_store(void *p, vint a)
{
    _mm256_store_si256((__m256i *)p, a);
}
static inline vfloat vf_from_int(vint a)
{
    return _mm256_cvtepi32_ps(a);
}
static inline vfloat vf_bits(vint a)
{
    return _mm256_castsi256_ps(a);
}
static inline vfloat vf_set(float v)
{
    return _mm256_set1_ps(v);
}
static inline vfloat vf_add(vfloat a, vfloat b)
{
    return _mm256_add_ps(a, b);
}
static inline vfloat vf_mul(vfloat a, vfloat b)
{
    return _mm256_mul_ps(a, b);
}
static inline void vf_store(float *p, vfloat a)
{
    _mm256_store_ps(p, a);
}
static inline vfloat vf_fma(vfloat a, vfloat b, vfloat c)
{
    return _mm256_fmadd_ps(a, b, c);
}
/* A number for each lane, of any alignment. */
static inline vfloat vf_load_f32(const void *p)
{
    return _mm256_loadu_ps(p);
}
static inline void vf_store_f32(float *p, vfloat a)
{
    _mm256_storeu_ps(p, a);
}
static inline vfloat vf_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline vfloat vf_load_bf16(const void *p)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline vint vi_load_bytes(const void *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
/* sum + the products of each lane's four bytes (w 0..max) with those at x. Two
 * products must fit 16 bits; where they may not, even and odd bytes go apart. */
#define HAS_VI_DOT
static inline vint vi_dot(vint sum, vint w, const int8_t *x, unsigned max)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    __m256i a = _mm256_set1_epi32(four), ones = _mm256_set1_epi16(1);
    if (2 * 127 * max <= INT16_MAX)
        return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, a), ones));
    const __m256i even = _mm256_set1_epi16(255);
    __m256i w0 = _mm256_and_si256(w, even), w1 = _mm256_andnot_si256(even, w);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w0, a), ones));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w1, a), ones));
}
/* F16 in the low half of each lane. */
static inline vfloat vf_from_f16(vint a)
{
    __m256i low = _mm256_and_si256(a, _mm256_set1_epi32(0xFFFF));
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

/* Bytes at..at+16 of rows 0..8, as four vectors of one dword of each row. */
static inline void vi_load_rows(const uint8_t *const *row, size_t at, vint out[4])
{
    __m256i y[4];
    for (int i = 0; i < 4; i++) {
        y[i] = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(row[i] + at)));
        y[i] =
            _mm256_inserti128_si256(y[i], _mm_loadu_si128((const __m128i *)(row[4 + i] + at)), 1);
    }
    __m256i a = _mm256_unpacklo_epi32(y[0], y[1]), b = _mm256_unpackhi_epi32(y[0], y[1]);
    __m256i c = _mm256_unpacklo_epi32(y[2], y[3]), d = _mm256_unpackhi_epi32(y[2], y[3]);
    out[0] = _mm256_unpacklo_epi64(a, c);
    out[1] = _mm256_unpackhi_epi64(a, c);
    out[2] = _mm256_unpacklo_epi64(b, d);
    out[3] = _mm256_unpackhi_epi64(b, d);
}

#endif
