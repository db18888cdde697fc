/* lanes_neon.h - a vector of four 32-bit lanes, for panel_simd.h. */
#ifndef MLXCEL_KERNELS_LANES_NEON_H
#define MLXCEL_KERNELS_LANES_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 4 };
typedef uint32x4_t vint;
typedef float32x4_t vfloat;

static inline uint8x16_t vi_bytes(vint a)
{
    return vreinterpretq_u8_u32(a);
}
static inline vint vi_from_bytes(uint8x16_t a)
{
    return vreinterpretq_u32_u8(a);
}
static inline vint vi_set8(uint8_t v)
{
    return vi_from_bytes(vdupq_n_u8(v));
}
static inline vint vi_set32(uint32_t v)
{
    return vdupq_n_u32(v);
}
static inline vint vi_and(vint a, vint b)
{
    return vandq_u32(a, b);
}
static inline vint vi_or(vint a, vint b)
{
    return vorrq_u32(a, b);
}
static inline vint vi_xor(vint a, vint b)
{
    return veorq_u32(a, b);
}
/* Shifts by a register: right is left by a negative number. */
static inline vint vi_srl(vint a, unsigned n)
{
    return vshlq_u32(a, vdupq_n_s32(-(int32_t)n));
}
static inline vint vi_sll(vint a, unsigned n)
{
    return vshlq_u32(a, vdupq_n_s32((int32_t)n));
}
static inline vint vi_sra(vint a, unsigned n)
{
    return vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(a), vdupq_n_s32(-(int32_t)n)));
}
static inline vint vi_srl16(vint a, unsigned n)
{
    int16x8_t right = vdupq_n_s16((int16_t)(-(int32_t)n));
    return vreinterpretq_u32_u16(vshlq_u16(vreinterpretq_u16_u32(a), right));
}
static inline vint vi_add8(vint a, vint b)
{
    return vi_from_bytes(vaddq_u8(vi_bytes(a), vi_bytes(b)));
}
static inline vint vi_sub8(vint a, vint b)
{
    return vi_from_bytes(vsubq_u8(vi_bytes(a), vi_bytes(b)));
}
/* table[index], each lane its own. */
static inline vint vi_gather(const int32_t *table, vint index)
{
    int32x4_t v = vdupq_n_s32(table[vgetq_lane_u32(index, 0)]);
    v = vsetq_lane_s32(table[vgetq_lane_u32(index, 1)], v, 1);
    v = vsetq_lane_s32(table[vgetq_lane_u32(index, 2)], v, 2);
    v = vsetq_lane_s32(table[vgetq_lane_u32(index, 3)], v, 3);
    return vreinterpretq_u32_s32(v);
}
static inline vint vi_add16(vint a, vint b)
{
    return vreinterpretq_u32_u16(vaddq_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)));
}
static inline vint vi_sub32(vint a, vint b)
{
    return vsubq_u32(a, b);
}
static inline vint vi_max32(vint a, vint b)
{
    return vreinterpretq_u32_s32(vmaxq_s32(vreinterpretq_s32_u32(a), vreinterpretq_s32_u32(b)));
}
/* a, but 0 where it equals b. */
static inline vint vi_zero_if_equal(vint a, vint b)
{
    return vbicq_u32(a, vceqq_u32(a, b));
}
static inline vint vi_mul32(vint a, vint b)
{
    return vmulq_u32(a, b);
}
static inline vint vi_shuffle8(vint table, vint index)
{
    return vi_from_bytes(vqtbl1q_u8(vi_bytes(table), vi_bytes(index)));
}
static inline vint vi_load(const void *p)
{
    return vi_from_bytes(vld1q_u8(p));
}
static inline vint vi_repeat16(const void *p)
{
    return vi_load(p);
}
static inline void vi_store(void *p, vint a)
{
    vst1q_u8(p, vi_bytes(a));
}
static inline vfloat vf_from_int(vint a)
{
    return vcvtq_f32_s32(vreinterpretq_s32_u32(a));
}
static inline vfloat vf_bits(vint a)
{
    return vreinterpretq_f32_u32(a);
}
static inline vfloat vf_set(float v)
{
    return vdupq_n_f32(v);
}
static inline vfloat vf_add(vfloat a, vfloat b)
{
    return vaddq_f32(a, b);
}
static inline vfloat vf_mul(vfloat a, vfloat b)
{
    return vmulq_f32(a, b);
}
static inline void vf_store(float *p, vfloat a)
{
    vst1q_f32(p, a);
}
/* A number for each lane, of any alignment. */
static inline vfloat vf_load_f32(const void *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}
static inline vfloat vf_load_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
static inline vfloat vf_load_bf16(const void *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}
static inline vint vi_load_bytes(const void *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)))));
}
/* F16 in the low half of each lane. */
static inline vfloat vf_from_f16(vint a)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(a)));
}

/* Bytes at..at+16 of rows 0..4, as four vectors of one dword of each row. */
static inline void vi_load_rows(const uint8_t *const *row, size_t at, vint out[4])
{
    vint y[4];
    for (int i = 0; i < 4; i++)
        y[i] = vi_load(row[i] + at);
    uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(y[0], y[1]));
    uint64x2_t b = vreinterpretq_u64_u32(vtrn2q_u32(y[0], y[1]));
    uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(y[2], y[3]));
    uint64x2_t d = vreinterpretq_u64_u32(vtrn2q_u32(y[2], y[3]));
    out[0] = vreinterpretq_u32_u64(vtrn1q_u64(a, c));
    out[1] = vreinterpretq_u32_u64(vtrn1q_u64(b, d));
    out[2] = vreinterpretq_u32_u64(vtrn2q_u64(a, c));
    out[3] = vreinterpretq_u32_u64(vtrn2q_u64(b, d));
}

#endif
