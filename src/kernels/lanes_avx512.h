/* lanes_avx512.h - a vector of sixteen 32-bit lanes, for panel_simd.h. */
#ifndef MLXCEL_KERNELS_LANES_AVX512_H
#define MLXCEL_KERNELS_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16 };
typedef __m512i vint;
typedef __m512 vfloat;

static inline vint vi_set8(uint8_t v)
{
    return _mm512_set1_epi8((char)v);
}
static inline vint vi_set32(uint32_t v)
{
    return _mm512_set1_epi32((int)v);
}
static inline vint vi_and(vint a, vint b)
{
    return _mm512_and_si512(a, b);
}
static inline vint vi_or(vint a, vint b)
{
    return _mm512_or_si512(a, b);
}
static inline vint vi_xor(vint a, vint b)
{
    return _mm512_xor_si512(a, b);
}
static inline vint vi_srl(vint a, unsigned n)
{
    return _mm512_srli_epi32(a, n);
}
static inline vint vi_sll(vint a, unsigned n)
{
    return _mm512_slli_epi32(a, n);
}
static inline vint vi_sra(vint a, unsigned n)
{
    return _mm512_srai_epi32(a, n);
}
static inline vint vi_srl16(vint a, unsigned n)
{
    return _mm512_srli_epi16(a, n);
}
static inline vint vi_add8(vint a, vint b)
{
    return _mm512_add_epi8(a, b);
}
static inline vint vi_sub8(vint a, vint b)
{
    return _mm512_sub_epi8(a, b);
}
/* table[index], each lane its own. */
static inline vint vi_gather(const int32_t *table, vint index)
{
    return _mm512_i32gather_epi32(index, table, 4);
}
static inline vint vi_add16(vint a, vint b)
{
    return _mm512_add_epi16(a, b);
}
static inline vint vi_sub32(vint a, vint b)
{
    return _mm512_sub_epi32(a, b);
}
static inline vint vi_max32(vint a, vint b)
{
    return _mm512_max_epi32(a, b);
}
/* a, but 0 where it equals b. */
static inline vint vi_zero_if_equal(vint a, vint b)
{
    return _mm512_maskz_mov_epi32(_mm512_cmpneq_epi32_mask(a, b), a);
}
static inline vint vi_mul32(vint a, vint b)
{
    return _mm512_mullo_epi32(a, b);
}
static inline vint vi_shuffle8(vint table, vint index)
{
    return _mm512_shuffle_epi8(table, index);
}
static inline vint vi_repeat16(const void *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}
static inline vint vi_load(const void *p)
{
    return _mm512_load_si512(p);
}
static inline void vi_store(void *p, vint a)
{
    _mm512_store_si512(p, a);
}
static inline vfloat vf_from_int(vint a)
{
    return _mm512_cvtepi32_ps(a);
}
static inline vfloat vf_bits(vint a)
{
    return _mm512_castsi512_ps(a);
}
static inline vfloat vf_set(float v)
{
    return _mm512_set1_ps(v);
}
static inline vfloat vf_add(vfloat a, vfloat b)
{
    return _mm512_add_ps(a, b);
}
static inline vfloat vf_mul(vfloat a, vfloat b)
{
    return _mm512_mul_ps(a, b);
}
static inline void vf_store(float *p, vfloat a)
{
    _mm512_store_ps(p, a);
}
static inline vfloat vf_fma(vfloat a, vfloat b, vfloat c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* A number for each lane, of any alignment. */
static inline vfloat vf_load_f32(const void *p)
{
    return _mm512_loadu_ps(p);
}
static inline void vf_store_f32(float *p, vfloat a)
{
    _mm512_storeu_ps(p, a);
}
static inline vfloat vf_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline vfloat vf_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
static inline vint vi_load_bytes(const void *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
/* sum + the products of each lane's four bytes (w 0..max) with those at x. */
#define HAS_VI_DOT
static inline vint vi_dot(vint sum, vint w, const int8_t *x, unsigned max)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    (void)max;
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(four));
}
/* F16 in the low half of each lane. */
static inline vfloat vf_from_f16(vint a)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a));
}

/* Bytes at..at+16 of rows 0..16, as four vectors of one dword of each row. */
static inline void vi_load_rows(const uint8_t *const *row, size_t at, vint out[4])
{
    __m512i z[4];
    for (int i = 0; i < 4; i++) {
        z[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(row[i] + at)));
        z[i] = _mm512_mask_broadcast_i32x4(z[i], 0x00F0,
                                           _mm_loadu_si128((const __m128i *)(row[4 + i] + at)));
        z[i] = _mm512_mask_broadcast_i32x4(z[i], 0x0F00,
                                           _mm_loadu_si128((const __m128i *)(row[8 + i] + at)));
        z[i] = _mm512_mask_broadcast_i32x4(z[i], 0xF000,
                                           _mm_loadu_si128((const __m128i *)(row[12 + i] + at)));
    }
    __m512i a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]);
    __m512i c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
    out[0] = _mm512_unpacklo_epi64(a, c);
    out[1] = _mm512_unpackhi_epi64(a, c);
    out[2] = _mm512_unpacklo_epi64(b, d);
    out[3] = _mm512_unpackhi_epi64(b, d);
}

#endif
