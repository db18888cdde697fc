/* panel_simd.h - unpacking weights into panels, for any vector of 32-bit lanes.
 *
 * Included by one file per instruction set, after its lanes_*.h. A lane is a
 * row: sixteen bytes of each row are read and transposed in registers
 * (vi_load_rows), so that everything after it (nibbles, scales, minimums) works
 * on all rows at once and lands where the panel wants it: dword k/4 of a panel
 * holds columns k..k+3 of each row. What the bytes of each format mean is said
 * in unpack.c. No load reaches past the block it is for.
 *
 * What comes out goes to a sink: into a panel that many activations are then
 * multiplied with, or, where the instruction set has vi_dot and there is but one
 * (panel_one.h), into the product at once. */
#include "kernels/blocks.h"
#include "kernels/format.h"
#include "kernels/matrix.h"
#include "kernels/table.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* The rows of one vector. */
struct lane_rows {
    const uint8_t *row[LANES];
    /* or what prepare.c made of them: the blocks' dwords, transposed, and of
     * the block that is read now the small scale that stood before or behind them */
    bool is_packed;
    const uint8_t *packed, *small;
    size_t first; /* of the panel's rows */
};

struct sink {
    vfloat factor; /* the matrix's own */
    /* where the rows' lanes lie in a panel ... */
    uint8_t *q;
    float *scale, *min;
    /* ... or, at once, the products of a block: sums of sub columns, and what stands
     * before each */
    bool at_once;
    const int8_t *x;
    vint *dot;
    vfloat *scales, *mins;
    size_t sub;
    unsigned max; /* the largest stored integer */
};

typedef void (*unpack_block_fn)(const struct lane_rows *r, struct sink *to, size_t at, size_t col);

/* Bytes at..at+16 of the rows, as four vectors of one dword of each row. In packed
 * rows `at` does not count the small scales of blocks, and is whole dwords. */
INLINE void load_rows(const struct lane_rows *r, size_t at, vint out[4])
{
    if (!r->is_packed) {
        vi_load_rows(r->row, at, out);
        return;
    }
    const uint8_t *p = r->packed + at / 4 * (PANEL_ROWS * 4);
    for (size_t j = 0; j < 4; j++)
        out[j] = vi_load(p + j * (PANEL_ROWS * 4));
}

/* The half-precision number that a block at `at` begins with ... */
INLINE vfloat load_head(const struct lane_rows *r, size_t at)
{
    if (r->is_packed)
        return vf_load_f16(r->small + 2 * r->first);
    vint v[4];
    vi_load_rows(r->row, at, v);
    return vf_from_f16(v[0]);
}

/* ... or ends with, from `at` on. */
INLINE vfloat load_tail(const struct lane_rows *r, size_t at)
{
    if (r->is_packed)
        return vf_load_f16(r->small + 2 * r->first);
    vint v[4];
    vi_load_rows(r->row, at - 14, v);
    return vf_from_f16(vi_srl(v[3], 16));
}

#ifdef HAS_VI_DOT
INLINE void multiply_q(struct sink *to, size_t col, vint v)
{
    vint *dot = &to->dot[col / to->sub];
    *dot = vi_dot(*dot, v, to->x + col, to->max);
}
#else
INLINE void multiply_q(struct sink *to, size_t col, vint v)
{
    (void)to, (void)col, (void)v;
}
#endif

INLINE void put_q(struct sink *to, size_t col, vint v)
{
    if (to->at_once)
        multiply_q(to, col, v);
    else
        vi_store(to->q + col * PANEL_ROWS, v);
}

INLINE void put_scale(struct sink *to, size_t sub, vfloat v)
{
    if (to->at_once)
        to->scales[sub] = vf_mul(v, to->factor);
    else
        vf_store(to->scale + sub * PANEL_ROWS, vf_mul(v, to->factor));
}

INLINE void put_min(struct sink *to, size_t sub, vfloat v)
{
    if (to->at_once)
        to->mins[sub] = vf_mul(v, to->factor);
    else
        vf_store(to->min + sub * PANEL_ROWS, vf_mul(v, to->factor));
}

static inline vint low_nibbles(vint v)
{
    return vi_and(v, vi_set8(15));
}

static inline vint high_nibbles(vint v)
{
    return vi_and(vi_srl(v, 4), vi_set8(15));
}

/* Bits n..n+1 of every byte. */
static inline vint bit_pairs(vint v, unsigned n)
{
    return vi_and(vi_srl(v, n), vi_set8(3));
}

/* Bits n..n+3 of each lane, one to a byte. */
static inline vint spread_bits(vint v, unsigned n)
{
    vint four = vi_and(vi_srl(v, n), vi_set32(15));
    return vi_and(vi_mul32(four, vi_set32(0x00204081)), vi_set8(1));
}

/* Byte n of each lane as a float. */
static inline vfloat byte_float(vint v, unsigned n)
{
    return vf_from_int(vi_and(vi_srl(v, 8 * n), vi_set32(255)));
}

static inline vfloat signed_byte_float(vint v, unsigned n)
{
    return vf_from_int(vi_sra(vi_sll(v, 24 - 8 * n), 24));
}

static inline vfloat negative(vfloat v)
{
    return vf_mul(v, vf_set(-1));
}

/* ---- blocks of 32 ---- */

INLINE void unpack_simd_q4_0(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4];
    load_rows(r, at + 2, v);
    put_scale(to, col / 32, load_head(r, at));
#pragma GCC unroll 16
    for (size_t j = 0; j < 4; j++) {
        put_q(to, col + 4 * j, low_nibbles(v[j]));
        put_q(to, col + 16 + 4 * j, high_nibbles(v[j]));
    }
}

INLINE void unpack_simd_q4_1(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    load_rows(r, at + 4, v);
    put_scale(to, col / 32, vf_from_f16(head[0]));
    put_min(to, col / 32, vf_from_f16(vi_srl(head[0], 16)));
#pragma GCC unroll 16
    for (size_t j = 0; j < 4; j++) {
        put_q(to, col + 4 * j, low_nibbles(v[j]));
        put_q(to, col + 16 + 4 * j, high_nibbles(v[j]));
    }
}

static inline void put_five_bits(struct sink *to, size_t col, vint v[4], vint fifth)
{
#pragma GCC unroll 16
    for (unsigned j = 0; j < 4; j++) {
        vint low = vi_sll(spread_bits(fifth, 4 * j), 4);
        vint high = vi_sll(spread_bits(fifth, 16 + 4 * j), 4);
        put_q(to, col + 4 * j, vi_or(low_nibbles(v[j]), low));
        put_q(to, col + 16 + 4 * j, vi_or(high_nibbles(v[j]), high));
    }
}

INLINE void unpack_simd_q5_0(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint fifth[4], v[4];
    load_rows(r, at + 2, fifth);
    load_rows(r, at + 6, v);
    put_scale(to, col / 32, load_head(r, at));
    put_five_bits(to, col, v, fifth[0]);
}

INLINE void unpack_simd_q5_1(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    load_rows(r, at + 8, v);
    put_scale(to, col / 32, vf_from_f16(head[0]));
    put_min(to, col / 32, vf_from_f16(vi_srl(head[0], 16)));
    put_five_bits(to, col, v, head[1]);
}

INLINE void unpack_simd_q8_0(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4], flip = vi_set8(128);
    put_scale(to, col / 32, load_head(r, at));
#pragma GCC unroll 16
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 2 + 16 * half, v);
        for (size_t j = 0; j < 4; j++)
            put_q(to, col + 16 * half + 4 * j, vi_xor(v[j], flip));
    }
}

/* A table of 16 signed values, as the stored integers they become. */
static inline vint offset_table(const int8_t table[16], uint8_t offset)
{
    return vi_add8(vi_repeat16(table), vi_set8(offset));
}

INLINE void unpack_simd_q8_1(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint head[4], v[4], flip = vi_set8(128);
    load_rows(r, at, head);
    put_scale(to, col / 32, vf_from_f16(head[0]));
#pragma GCC unroll 16
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 4 + 16 * half, v);
        for (size_t j = 0; j < 4; j++)
            put_q(to, col + 16 * half + 4 * j, vi_xor(v[j], flip));
    }
}

INLINE void unpack_simd_iq4_nl(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4], table = offset_table(iq4_values, 127);
    load_rows(r, at + 2, v);
    put_scale(to, col / 32, load_head(r, at));
#pragma GCC unroll 16
    for (size_t j = 0; j < 4; j++) {
        put_q(to, col + 4 * j, vi_shuffle8(table, low_nibbles(v[j])));
        put_q(to, col + 16 + 4 * j, vi_shuffle8(table, high_nibbles(v[j])));
    }
}

/* 2^(e - 127) from the exponent in the low byte; 0 means 2^-127. */
static inline vfloat vf_from_e8m0(vint e)
{
    vint bits = vi_sll(vi_and(e, vi_set32(255)), 23);
    return vf_bits(vi_max32(bits, vi_set32(0x00400000)));
}

/* The byte that a block at `at` begins with. */
INLINE vint load_exponent(const struct lane_rows *r, size_t at)
{
    if (r->is_packed)
        return vi_load_bytes(r->small + r->first);
    vint v[4];
    vi_load_rows(r->row, at, v);
    return v[0];
}

INLINE void unpack_simd_mxfp4(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4], table = offset_table(e2m1_doubled, 12);
    load_rows(r, at + 1, v);
    put_scale(to, col / 32, vf_mul(vf_from_e8m0(load_exponent(r, at)), vf_set(0.5f)));
#pragma GCC unroll 16
    for (size_t j = 0; j < 4; j++) {
        put_q(to, col + 4 * j, vi_shuffle8(table, low_nibbles(v[j])));
        put_q(to, col + 16 + 4 * j, vi_shuffle8(table, high_nibbles(v[j])));
    }
}

/* ---- blocks of 64 and 128 ---- */

/* Four pairs of bits of byte n of each lane, one to a byte. */
static inline vint spread_pairs(vint v, unsigned n)
{
    vint x = vi_and(vi_srl(v, 8 * n), vi_set32(255));
    vint y = vi_or(vi_or(x, vi_sll(x, 6)), vi_or(vi_sll(x, 12), vi_sll(x, 18)));
    return vi_and(y, vi_set8(3));
}

INLINE void unpack_simd_q2_0(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4];
    load_rows(r, at + 2, v);
    vfloat scale = load_head(r, at);
    put_scale(to, col / 32, scale);
    put_scale(to, col / 32 + 1, scale);
    for (unsigned j = 0; j < 16; j++)
        put_q(to, col + 4 * j, spread_pairs(v[j / 4], j % 4));
}

INLINE void unpack_simd_q1_0(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4];
    load_rows(r, at + 2, v);
    vfloat scale = load_head(r, at);
#pragma GCC unroll 16
    for (unsigned k = 0; k < 4; k++) {
        put_scale(to, col / 32 + k, scale);
        for (unsigned j = 0; j < 8; j++)
            put_q(to, col + 32 * k + 4 * j, vi_sll(spread_bits(v[k], 4 * j), 1));
    }
}

/* NVFP4's scale from byte n: moving an E4M3 number's bits to where F32 has
 * exponent and mantissa leaves the exponent 120 too small. */
static inline vfloat vf_from_ue4m3(vint v, unsigned n)
{
    vint seven = vi_zero_if_equal(vi_and(vi_srl(v, 8 * n), vi_set32(127)), vi_set32(127));
    return vf_mul(vf_bits(vi_sll(seven, 20)), vf_set(0x1p120f));
}

INLINE void unpack_simd_nvfp4(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint head[4], v[4], table = offset_table(e2m1_doubled, 12);
    load_rows(r, at, head);
    for (unsigned s = 0; s < 4; s++)
        put_scale(to, col / 16 + s, vf_mul(vf_from_ue4m3(head[0], s), vf_set(0.5f)));
#pragma GCC unroll 16
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 4 + 16 * half, v);
        for (size_t j = 0; j < 4; j++) {
            size_t c = col + 32 * half + 16 * (j / 2) + 4 * (j % 2);
            put_q(to, c, vi_shuffle8(table, low_nibbles(v[j])));
            put_q(to, c + 8, vi_shuffle8(table, high_nibbles(v[j])));
        }
    }
}

/* ---- super-blocks ---- */

INLINE void unpack_simd_q2_k(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint scales[4], tail[4], v[4];
    load_rows(r, at, scales);
    load_rows(r, at + 68, tail);
    vfloat d = vf_from_f16(tail[3]), dmin = negative(vf_from_f16(vi_srl(tail[3], 16)));
#pragma GCC unroll 16
    for (unsigned j = 0; j < 16; j++) {
        put_scale(to, col / 16 + j, vf_mul(byte_float(low_nibbles(scales[j / 4]), j % 4), d));
        put_min(to, col / 16 + j, vf_mul(byte_float(high_nibbles(scales[j / 4]), j % 4), dmin));
    }
#pragma GCC unroll 16
    for (size_t c = 0; c < 4; c++) {
        load_rows(r, at + 16 + 16 * c, v);
        for (unsigned j = 0; j < 4; j++) {
            for (unsigned s = 0; s < 4; s++)
                put_q(to, col + 128 * (c / 2) + 32 * s + 16 * (c % 2) + 4 * j,
                      bit_pairs(v[j], 2 * s));
        }
    }
}

INLINE void unpack_simd_q3_k(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint sixths[4], high[8], v[4], fifteen = vi_set8(15), three = vi_set8(3);
    load_rows(r, at, high);
    load_rows(r, at + 16, high + 4);
    load_rows(r, at + 92, sixths); /* four bytes, the twelve of the scales */
    vint a0 = sixths[1], a1 = sixths[2], a2 = sixths[3];
    vfloat d = load_tail(r, at + 108);
#pragma GCC unroll 16
    for (unsigned k = 0; k < 4; k++) {
        vint low = vi_and(vi_srl(k % 2 ? a1 : a0, k < 2 ? 0 : 4), fifteen);
        vint sixes = vi_or(low, vi_sll(vi_and(vi_srl(a2, 2 * k), three), 4));
        for (unsigned j = 0; j < 4; j++) {
            vint six = vi_and(vi_srl(sixes, 8 * j), vi_set32(255));
            put_scale(to, col / 16 + 4 * k + j,
                      vf_mul(vf_from_int(vi_sub32(six, vi_set32(32))), d));
        }
    }
#pragma GCC unroll 16
    for (size_t c = 0; c < 4; c++) {
        load_rows(r, at + 32 + 16 * c, v);
        for (unsigned j = 0; j < 4; j++) {
            for (unsigned s = 0; s < 4; s++) {
                vint third =
                    vi_and(vi_srl(high[c % 2 * 4 + j], (unsigned)(c / 2) * 4 + s), vi_set8(1));
                put_q(to, col + 128 * (c / 2) + 32 * s + 16 * (c % 2) + 4 * j,
                      vi_or(bit_pairs(v[j], 2 * s), vi_sll(third, 2)));
            }
        }
    }
}

/* Scales and minimums of Q4_K and Q5_K from the first 16 bytes. */
static inline void put_k4_scales(struct sink *to, const vint head[4], size_t col)
{
    vint six = vi_set8(63), four = vi_set8(15), high = vi_set8(0x30);
    vint scales[2] = {vi_and(head[1], six),
                      vi_or(vi_and(head[3], four), vi_and(vi_srl(head[1], 2), high))};
    vint mins[2] = {vi_and(head[2], six),
                    vi_or(vi_and(vi_srl(head[3], 4), four), vi_and(vi_srl(head[2], 2), high))};
    vfloat d = vf_from_f16(head[0]), dmin = negative(vf_from_f16(vi_srl(head[0], 16)));
#pragma GCC unroll 16
    for (unsigned j = 0; j < 8; j++) {
        put_scale(to, col / 32 + j, vf_mul(byte_float(scales[j / 4], j % 4), d));
        put_min(to, col / 32 + j, vf_mul(byte_float(mins[j / 4], j % 4), dmin));
    }
}

INLINE void unpack_simd_q4_k(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    put_k4_scales(to, head, col);
#pragma GCC unroll 16
    for (size_t c = 0; c < 8; c++) {
        load_rows(r, at + 16 + 16 * c, v);
        size_t first = col + 64 * (c / 2) + 16 * (c % 2);
        for (size_t j = 0; j < 4; j++) {
            put_q(to, first + 4 * j, low_nibbles(v[j]));
            put_q(to, first + 32 + 4 * j, high_nibbles(v[j]));
        }
    }
}

INLINE void unpack_simd_q5_k(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint head[4], high[8], v[4];
    load_rows(r, at, head);
    put_k4_scales(to, head, col);
    load_rows(r, at + 16, high);
    load_rows(r, at + 32, high + 4);
#pragma GCC unroll 16
    for (unsigned c = 0; c < 8; c++) {
        load_rows(r, at + 48 + 16 * c, v);
        size_t first = col + 64 * (c / 2) + 16 * (c % 2);
        for (unsigned j = 0; j < 4; j++) {
            vint bits = high[c % 2 * 4 + j];
            vint a = vi_and(vi_srl(bits, c / 2 * 2), vi_set8(1));
            vint b = vi_and(vi_srl(bits, c / 2 * 2 + 1), vi_set8(1));
            put_q(to, first + 4 * j, vi_or(low_nibbles(v[j]), vi_sll(a, 4)));
            put_q(to, first + 32 + 4 * j, vi_or(high_nibbles(v[j]), vi_sll(b, 4)));
        }
    }
}

INLINE void unpack_simd_q6_k(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint scales[4], high[8], v[4];
    load_rows(r, at + 192, scales);
    vfloat d = load_tail(r, at + 208);
    for (unsigned j = 0; j < 16; j++)
        put_scale(to, col / 16 + j, vf_mul(signed_byte_float(scales[j / 4], j % 4), d));
#pragma GCC unroll 16
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 128 + 32 * half, high);
        load_rows(r, at + 144 + 32 * half, high + 4);
        for (unsigned c = 0; c < 4; c++) {
            load_rows(r, at + 64 * half + 16 * c, v);
            size_t first = col + 128 * half + 16 * c;
            for (unsigned j = 0; j < 4; j++) {
                vint bits = high[c % 2 * 4 + j];
                vint a = bit_pairs(bits, c / 2 * 2), b = bit_pairs(bits, c / 2 * 2 + 4);
                put_q(to, first + 4 * j, vi_or(low_nibbles(v[j]), vi_sll(a, 4)));
                put_q(to, first + 64 + 4 * j, vi_or(high_nibbles(v[j]), vi_sll(b, 4)));
            }
        }
    }
}

INLINE void unpack_simd_q8_k(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint head[4], v[4], flip = vi_set8(128);
    load_rows(r, at, head);
    for (size_t j = 0; j < 8; j++)
        put_scale(to, col / 32 + j, vf_bits(head[0]));
#pragma GCC unroll 16
    for (size_t c = 0; c < 16; c++) {
        load_rows(r, at + 4 + 16 * c, v);
        for (size_t j = 0; j < 4; j++)
            put_q(to, col + 16 * c + 4 * j, vi_xor(v[j], flip));
    }
}

INLINE void unpack_simd_iq4_xs(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint head[4], v[4], table = offset_table(iq4_values, 127);
    load_rows(r, at, head);
    vfloat d = vf_from_f16(head[0]);
#pragma GCC unroll 16
    for (unsigned j = 0; j < 8; j++) {
        vint low = vi_and(vi_srl(head[1], 4 * j), vi_set32(15));
        vint high = vi_and(vi_srl(head[0], 16 + 2 * j), vi_set32(3));
        vint six = vi_sub32(vi_or(low, vi_sll(high, 4)), vi_set32(32));
        put_scale(to, col / 32 + j, vf_mul(vf_from_int(six), d));
        load_rows(r, at + 8 + 16 * j, v);
        for (size_t k = 0; k < 4; k++) {
            put_q(to, col + 32 * j + 4 * k, vi_shuffle8(table, low_nibbles(v[k])));
            put_q(to, col + 32 * j + 16 + 4 * k, vi_shuffle8(table, high_nibbles(v[k])));
        }
    }
}

INLINE void unpack_simd_tq2_0(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4];
    vfloat d = load_tail(r, at + 64);
    for (size_t j = 0; j < 8; j++)
        put_scale(to, col / 32 + j, d);
#pragma GCC unroll 16
    for (size_t c = 0; c < 4; c++) {
        load_rows(r, at + 16 * c, v);
        for (unsigned j = 0; j < 4; j++) {
            for (unsigned s = 0; s < 4; s++)
                put_q(to, col + 128 * (c / 2) + 32 * s + 16 * (c % 2) + 4 * j,
                      bit_pairs(v[j], 2 * s));
        }
    }
}

/* n digits in base 3 of every byte, the first at col, each `stride` columns
 * further. A byte is a fraction of 256: times 3, what goes over is the digit. */
static inline void put_trits(struct sink *to, size_t col, size_t stride, int n, vint v)
{
    vint low = vi_and(v, vi_set32(0x00FF00FF)), high = vi_srl16(v, 8);
    for (int i = 0; i < n; i++) {
        low = vi_add16(low, vi_add16(low, low));
        high = vi_add16(high, vi_add16(high, high));
        vint digits = vi_or(vi_srl16(low, 8), vi_and(high, vi_set32(0xFF00FF00)));
        put_q(to, col + (size_t)i * stride, digits);
        low = vi_and(low, vi_set32(0x00FF00FF));
        high = vi_and(high, vi_set32(0x00FF00FF));
    }
}

INLINE void unpack_simd_tq1_0(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint tail[4], v[4];
    load_rows(r, at + 36, tail);
    vfloat d = load_tail(r, at + 52);
    for (size_t j = 0; j < 8; j++)
        put_scale(to, col / 32 + j, d);
#pragma GCC unroll 16
    for (size_t c = 0; c < 3; c++) {
        load_rows(r, at + 16 * c, v);
        for (size_t j = 0; j < 4; j++) {
            if (c < 2)
                put_trits(to, col + 16 * c + 4 * j, 32, 5, v[j]);
            else
                put_trits(to, col + 160 + 4 * j, 16, 5, v[j]);
        }
    }
    put_trits(to, col + 240, 4, 4, tail[3]);
}

#include "kernels/panel_grids.h"

/* ---- into panels ---- */

/* The sink of panels at hand; nothing of the other kind is left in the code. */
#define UNPACKER(ID, name, ...)                                                                    \
    static void unpack_panel_##name(const struct lane_rows *r, struct sink *to, size_t at,         \
                                    size_t col)                                                    \
    {                                                                                              \
        struct sink panel = {                                                                      \
            .factor = to->factor, .q = to->q, .scale = to->scale, .min = to->min};                 \
        unpack_simd_##name(r, &panel, at, col);                                                    \
    }
BLOCK_FORMATS(UNPACKER)

static const unpack_block_fn simd_unpackers[DTYPE_COUNT] = {
#define ENTRY(ID, name, ...) [DTYPE_##ID] = unpack_panel_##name,
    BLOCK_FORMATS(ENTRY)};

/* Sixteen rows are sixteen streams, more than a processor follows by itself:
 * ask for each PREFETCH_BYTES ahead, and near the row's end for the beginning
 * of the rows sixteen further down, which come next. Returns how far it got. */
enum { PREFETCH_BYTES = 512 };

static inline size_t prefetch_rows(const struct panel_source *s, size_t first, size_t done,
                                   size_t until)
{
    size_t row_bytes = s->w->row_bytes;
    for (; done < until; done += 64) {
        size_t at = done < row_bytes ? done : done + (PANEL_ROWS - 1) * row_bytes;
        for (size_t i = 0; i < LANES; i++)
            __builtin_prefetch(s->row[first + i] + at);
    }
    return done;
}

/* A packed panel is one stream, but blocks are not read from front to back. */
enum { PREFETCH_PACKED_BYTES = 4096 };

INLINE void prefetch_packed(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch(p + PREFETCH_PACKED_BYTES + i);
}

/* The rows from `first` on at a block; returns its `at`. */
INLINE size_t rows_at(const struct panel_source *s, bool is_packed, size_t first, size_t block,
                      struct lane_rows *r)
{
    const struct packing *k = &s->packing;
    r->is_packed = is_packed;
    r->first = first;
    if (!is_packed)
        return block * (k->payload + k->small);
    size_t run = block / PACK_RUN * PACK_RUN, left = k->n_blocks - run;
    size_t n_blocks = left < PACK_RUN ? left : PACK_RUN;
    const uint8_t *begin = s->packed + run / PACK_RUN * k->run_bytes;
    r->packed = begin + (block - run) * k->payload * PANEL_ROWS + 4 * first;
    r->small = begin + (n_blocks * k->payload + (block - run) * k->small) * PANEL_ROWS;
    /* Below zero; what is added to it brings it back. */
    return k->small_first ? -k->small : 0;
}

/* What a block takes of a packed panel, as far ahead. */
INLINE void prefetch_block(const struct lane_rows *r, const struct packing *k)
{
    prefetch_packed(r->packed, (k->payload + k->small) * PANEL_ROWS);
}

static void unpack_blocks_simd(const struct panel_source *s, size_t begin, size_t n,
                               struct panel *out)
{
    unpack_block_fn unpack = simd_unpackers[s->w->dtype];
    const struct packing *k = &s->packing;
    size_t len = s->format.block_len;
    for (size_t first = 0; first < PANEL_ROWS; first += LANES) {
        struct lane_rows r;
        struct sink to = {.factor = vf_set(s->w->scale),
                          .q = out->q + 4 * first,
                          .scale = out->scale + first,
                          .min = out->min + first};
        if (!s->packed)
            memcpy(r.row, s->row + first, sizeof r.row);
        size_t ahead = begin ? begin / len * (k->payload + k->small) + PREFETCH_BYTES : 0;
        for (size_t col = 0; col < n; col += len) {
            size_t at = rows_at(s, s->packed != NULL, first, (begin + col) / len, &r);
            if (r.is_packed && first == 0)
                prefetch_block(&r, k);
            else if (!r.is_packed)
                ahead = prefetch_rows(s, first, ahead, at + k->payload + k->small + PREFETCH_BYTES);
            unpack(&r, &to, at, col);
        }
    }
}

/* ---- MLX ---- */

/* Four of the eight nibbles of each lane, from bytes b and b + 1: one to a
 * byte, low nibble first. */
INLINE vint spread_nibbles(vint v, vint two_bytes)
{
    vint twice = vi_shuffle8(v, two_bytes);
    return vi_or(vi_and(twice, vi_set32(0x000F000F)),
                 vi_and(vi_srl(twice, 4), vi_set32(0x0F000F00)));
}

INLINE void mlx_nibbles(const struct lane_rows *r, struct sink *to, size_t at, size_t col,
                        bool e2m1)
{
    static const uint8_t first[16] = {0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13};
    static const uint8_t second[16] = {2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15};
    vint v[4], a = vi_repeat16(first), b = vi_repeat16(second);
    vint table = offset_table(e2m1_doubled, 12);
    load_rows(r, at, v);
    for (size_t j = 0; j < 4; j++) {
        vint x = spread_nibbles(v[j], a), y = spread_nibbles(v[j], b);
        put_q(to, col + 8 * j, e2m1 ? vi_shuffle8(table, x) : x);
        put_q(to, col + 8 * j + 4, e2m1 ? vi_shuffle8(table, y) : y);
    }
}

INLINE void mlx_bytes(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4];
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 16 * half, v);
        for (size_t j = 0; j < 4; j++)
            put_q(to, col + 16 * half + 4 * j, v[j]);
    }
}

/* Four integers of so many bits in the low bits of each lane, one to a byte. */
INLINE vint spread_ints(vint v, unsigned bits)
{
    uint32_t mask = (1u << bits) - 1;
    vint out = vi_and(v, vi_set32(mask));
    for (unsigned i = 1; i < 4; i++)
        out = vi_or(out, vi_and(vi_sll(v, i * (8 - bits)), vi_set32(mask << 8 * i)));
    return out;
}

/* 32 integers of 2, 3, 5 or 6 bits: a stream, lowest bits first. Packed rows only. */
INLINE void mlx_stream(const struct lane_rows *r, struct sink *to, size_t at, size_t col,
                       unsigned bits)
{
    const uint8_t *p = r->packed + at / 4 * (PANEL_ROWS * 4);
#pragma GCC unroll 8
    for (unsigned j = 0; j < 8; j++) {
        unsigned dword = 4 * j * bits / 32, shift = 4 * j * bits % 32;
        vint v = vi_srl(vi_load(p + dword * PANEL_ROWS * 4), shift);
        if (shift + 4 * bits > 32)
            v = vi_or(v, vi_sll(vi_load(p + (dword + 1) * PANEL_ROWS * 4), 32 - shift));
        put_q(to, col + 4 * j, spread_ints(v, bits));
    }
}

/* The integers of 32 columns of packed rows. */
INLINE void mlx_ints(const struct lane_rows *r, struct sink *to, size_t at, size_t col, int bits,
                     bool e2m1)
{
    switch (bits) {
    case 2:
        mlx_stream(r, to, at, col, 2);
        break;
    case 3:
        mlx_stream(r, to, at, col, 3);
        break;
    case 5:
        mlx_stream(r, to, at, col, 5);
        break;
    case 6:
        mlx_stream(r, to, at, col, 6);
        break;
    case 8:
        mlx_bytes(r, to, at, col);
        break;
    default:
        mlx_nibbles(r, to, at, col, e2m1);
    }
}

INLINE vfloat vf_from_e4m3(vint v)
{
    vint sign = vi_sll(vi_and(v, vi_set32(128)), 24), rest = vi_sll(vi_and(v, vi_set32(127)), 20);
    return vf_mul(vf_bits(vi_or(sign, rest)), vf_set(0x1p120f));
}

/* The scale (or bias) of a group of packed rows; U8: that of the MX kinds, or of
 * NVFP4, whose groups are 16 columns. */
INLINE vfloat mlx_scale(enum dtype dtype, bool groups_of_16, const uint8_t *p)
{
    switch (dtype) {
    case DTYPE_F16:
        return vf_load_f16(p);
    case DTYPE_BF16:
        return vf_load_bf16(p);
    case DTYPE_F32:
        return vf_load_f32(p);
    default:
        return vf_mul(groups_of_16 ? vf_from_e4m3(vi_load_bytes(p))
                                   : vf_from_e8m0(vi_load_bytes(p)),
                      vf_set(0.5f));
    }
}

/* Scales and biases of 32 columns from column `at` of a block on, which go to `col`;
 * sub of them share one. */
INLINE void mlx_scales(const struct packing *k, enum dtype dtype, size_t sub, bool has_min,
                       const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    for (size_t i = 0; i < BLOCK_COLS; i += sub) {
        size_t number = sub == BLOCK_COLS ? 0 : (at + i) / sub;
        const uint8_t *scale = r->small + (number * PANEL_ROWS + r->first) * k->number;
        put_scale(to, (col + i) / sub, mlx_scale(dtype, sub != BLOCK_COLS, scale));
        if (has_min)
            put_min(to, (col + i) / sub, mlx_scale(dtype, false, scale + PANEL_ROWS * k->number));
    }
}

static void unpack_mlx_simd(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    int bits = matrix_bits(s->w);
    bool e2m1 = !s->format.has_min;
    size_t cols = s->packing.block_cols;
    for (size_t first = 0; first < PANEL_ROWS; first += LANES) {
        struct lane_rows r;
        struct sink to = {.factor = vf_set(s->w->scale),
                          .q = out->q + 4 * first,
                          .scale = out->scale + first,
                          .min = out->min + first};
        /* The columns may begin and end within a block. */
        for (size_t col = 0; col < n; col += BLOCK_COLS) {
            size_t in_block = (begin + col) % cols;
            rows_at(s, true, first, (begin + col) / cols, &r);
            if (first == 0 && in_block == 0)
                prefetch_block(&r, &s->packing);
            mlx_ints(&r, &to, in_block / 8 * (size_t)bits, col, bits, e2m1);
            mlx_scales(&s->packing, s->w->scale_dtype, s->format.sub_len, s->format.has_min, &r,
                       &to, in_block, col);
        }
    }
}

static void unpack_simd(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    if (simd_unpackers[s->w->dtype])
        unpack_blocks_simd(s, begin, n, out);
    else if (s->packed)
        unpack_mlx_simd(s, begin, n, out);
    else
        unpack_generic(s, begin, n, out);
}

static bool reads_packed_simd(const struct matrix *w)
{
    return !matrix_has_float_kernel(w) || w->n_cols % DOT_LANES == 0;
}
