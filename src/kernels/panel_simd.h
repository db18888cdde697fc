/* panel_simd.h - unpacking weights into panels, for any vector of 32-bit lanes.
 *
 * Included by one file per instruction set, after its lanes_*.h. A lane is a
 * row: sixteen bytes of each row are read and transposed in registers
 * (vi_load_rows), so that everything after it (nibbles, scales, minimums) works
 * on all rows at once and lands where the panel wants it: dword k/4 of a panel
 * holds columns k..k+3 of each row. What the bytes of each format mean is said
 * in unpack.c. No load reaches past the block it is for. */
#include "kernels/blocks.h"
#include "kernels/matrix.h"
#include "kernels/table.h"

#include <string.h>

/* The rows of one vector, and where its lanes lie in the panel. */
struct lane_rows {
    const uint8_t *row[LANES];
    const uint8_t *packed; /* or their dwords, transposed (prepare.c); else NULL */
    uint8_t *q;
    float *scale, *min;
    vfloat factor; /* the matrix's own */
};

typedef void (*unpack_block_fn)(const struct lane_rows *r, size_t at, size_t col);

/* Bytes at..at+16 of the rows, as four vectors of one dword of each row. What
 * matrix_prepare packed is that already, but for whole dwords: others are put
 * together from their two halves. */
static inline void load_rows(const struct lane_rows *r, size_t at, vint out[4])
{
    if (!r->packed) {
        vi_load_rows(r->row, at, out);
        return;
    }
    const uint8_t *p = r->packed + at / 4 * (PANEL_ROWS * 4);
    unsigned shift = (unsigned)(at % 4) * 8;
    if (shift == 0) {
        for (size_t j = 0; j < 4; j++)
            out[j] = vi_load(p + j * (PANEL_ROWS * 4));
        return;
    }
    for (size_t j = 0; j < 4; j++)
        out[j] = vi_or(vi_srl(vi_load(p + j * (PANEL_ROWS * 4)), shift),
                       vi_sll(vi_load(p + (j + 1) * (PANEL_ROWS * 4)), 32 - shift));
}

static inline void put_q(const struct lane_rows *r, size_t col, vint v)
{
    vi_store(r->q + col * PANEL_ROWS, v);
}

static inline void put_scale(const struct lane_rows *r, size_t sub, vfloat v)
{
    vf_store(r->scale + sub * PANEL_ROWS, vf_mul(v, r->factor));
}

static inline void put_min(const struct lane_rows *r, size_t sub, vfloat v)
{
    vf_store(r->min + sub * PANEL_ROWS, vf_mul(v, r->factor));
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

static void unpack_simd_q4_0(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    load_rows(r, at + 2, v);
    put_scale(r, col / 32, vf_from_f16(head[0]));
    for (size_t j = 0; j < 4; j++) {
        put_q(r, col + 4 * j, low_nibbles(v[j]));
        put_q(r, col + 16 + 4 * j, high_nibbles(v[j]));
    }
}

static void unpack_simd_q4_1(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    load_rows(r, at + 4, v);
    put_scale(r, col / 32, vf_from_f16(head[0]));
    put_min(r, col / 32, vf_from_f16(vi_srl(head[0], 16)));
    for (size_t j = 0; j < 4; j++) {
        put_q(r, col + 4 * j, low_nibbles(v[j]));
        put_q(r, col + 16 + 4 * j, high_nibbles(v[j]));
    }
}

static inline void put_five_bits(const struct lane_rows *r, size_t col, vint v[4], vint fifth)
{
    for (unsigned j = 0; j < 4; j++) {
        vint low = vi_sll(spread_bits(fifth, 4 * j), 4);
        vint high = vi_sll(spread_bits(fifth, 16 + 4 * j), 4);
        put_q(r, col + 4 * j, vi_or(low_nibbles(v[j]), low));
        put_q(r, col + 16 + 4 * j, vi_or(high_nibbles(v[j]), high));
    }
}

static void unpack_simd_q5_0(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    load_rows(r, at + 6, v);
    put_scale(r, col / 32, vf_from_f16(head[0]));
    put_five_bits(r, col, v, vi_or(vi_srl(head[0], 16), vi_sll(head[1], 16)));
}

static void unpack_simd_q5_1(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    load_rows(r, at + 8, v);
    put_scale(r, col / 32, vf_from_f16(head[0]));
    put_min(r, col / 32, vf_from_f16(vi_srl(head[0], 16)));
    put_five_bits(r, col, v, head[1]);
}

static void unpack_simd_q8_0(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4], flip = vi_set8(128);
    load_rows(r, at, head);
    put_scale(r, col / 32, vf_from_f16(head[0]));
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 2 + 16 * half, v);
        for (size_t j = 0; j < 4; j++)
            put_q(r, col + 16 * half + 4 * j, vi_xor(v[j], flip));
    }
}

/* A table of 16 signed values, as the stored integers they become. */
static inline vint offset_table(const int8_t table[16], uint8_t offset)
{
    return vi_add8(vi_repeat16(table), vi_set8(offset));
}

static void unpack_simd_iq4_nl(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4], table = offset_table(iq4_values, 127);
    load_rows(r, at, head);
    load_rows(r, at + 2, v);
    put_scale(r, col / 32, vf_from_f16(head[0]));
    for (size_t j = 0; j < 4; j++) {
        put_q(r, col + 4 * j, vi_shuffle8(table, low_nibbles(v[j])));
        put_q(r, col + 16 + 4 * j, vi_shuffle8(table, high_nibbles(v[j])));
    }
}

/* 2^(e - 127) from the exponent in the low byte; 0 means 2^-127. */
static inline vfloat vf_from_e8m0(vint e)
{
    vint bits = vi_sll(vi_and(e, vi_set32(255)), 23);
    return vf_bits(vi_max32(bits, vi_set32(0x00400000)));
}

static void unpack_simd_mxfp4(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4], table = offset_table(e2m1_doubled, 12);
    load_rows(r, at, head);
    load_rows(r, at + 1, v);
    put_scale(r, col / 32, vf_mul(vf_from_e8m0(head[0]), vf_set(0.5f)));
    for (size_t j = 0; j < 4; j++) {
        put_q(r, col + 4 * j, vi_shuffle8(table, low_nibbles(v[j])));
        put_q(r, col + 16 + 4 * j, vi_shuffle8(table, high_nibbles(v[j])));
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

static void unpack_simd_q2_0(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    load_rows(r, at + 2, v);
    vfloat scale = vf_from_f16(head[0]);
    put_scale(r, col / 32, scale);
    put_scale(r, col / 32 + 1, scale);
    for (unsigned j = 0; j < 16; j++)
        put_q(r, col + 4 * j, spread_pairs(v[j / 4], j % 4));
}

static void unpack_simd_q1_0(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    load_rows(r, at + 2, v);
    vfloat scale = vf_from_f16(head[0]);
    for (unsigned k = 0; k < 4; k++) {
        put_scale(r, col / 32 + k, scale);
        for (unsigned j = 0; j < 8; j++)
            put_q(r, col + 32 * k + 4 * j, vi_sll(spread_bits(v[k], 4 * j), 1));
    }
}

/* NVFP4's scale from byte n: moving an E4M3 number's bits to where F32 has
 * exponent and mantissa leaves the exponent 120 too small. */
static inline vfloat vf_from_ue4m3(vint v, unsigned n)
{
    vint seven = vi_zero_if_equal(vi_and(vi_srl(v, 8 * n), vi_set32(127)), vi_set32(127));
    return vf_mul(vf_bits(vi_sll(seven, 20)), vf_set(0x1p120f));
}

static void unpack_simd_nvfp4(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4], table = offset_table(e2m1_doubled, 12);
    load_rows(r, at, head);
    for (unsigned s = 0; s < 4; s++)
        put_scale(r, col / 16 + s, vf_mul(vf_from_ue4m3(head[0], s), vf_set(0.5f)));
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 4 + 16 * half, v);
        for (size_t j = 0; j < 4; j++) {
            size_t c = col + 32 * half + 16 * (j / 2) + 4 * (j % 2);
            put_q(r, c, vi_shuffle8(table, low_nibbles(v[j])));
            put_q(r, c + 8, vi_shuffle8(table, high_nibbles(v[j])));
        }
    }
}

/* ---- super-blocks ---- */

static void unpack_simd_q2_k(const struct lane_rows *r, size_t at, size_t col)
{
    vint scales[4], tail[4], v[4];
    load_rows(r, at, scales);
    load_rows(r, at + 68, tail);
    vfloat d = vf_from_f16(tail[3]), dmin = negative(vf_from_f16(vi_srl(tail[3], 16)));
    for (unsigned j = 0; j < 16; j++) {
        put_scale(r, col / 16 + j, vf_mul(byte_float(low_nibbles(scales[j / 4]), j % 4), d));
        put_min(r, col / 16 + j, vf_mul(byte_float(high_nibbles(scales[j / 4]), j % 4), dmin));
    }
    for (size_t c = 0; c < 4; c++) {
        load_rows(r, at + 16 + 16 * c, v);
        for (unsigned j = 0; j < 4; j++) {
            for (unsigned s = 0; s < 4; s++)
                put_q(r, col + 128 * (c / 2) + 32 * s + 16 * (c % 2) + 4 * j,
                      bit_pairs(v[j], 2 * s));
        }
    }
}

static void unpack_simd_q3_k(const struct lane_rows *r, size_t at, size_t col)
{
    vint tail[4], high[8], v[4], fifteen = vi_set8(15), three = vi_set8(3);
    load_rows(r, at, high);
    load_rows(r, at + 16, high + 4);
    load_rows(r, at + 94, tail); /* two bytes, the twelve of the scales, d */
    vint a0 = vi_or(vi_srl(tail[0], 16), vi_sll(tail[1], 16));
    vint a1 = vi_or(vi_srl(tail[1], 16), vi_sll(tail[2], 16));
    vint a2 = vi_or(vi_srl(tail[2], 16), vi_sll(tail[3], 16));
    vfloat d = vf_from_f16(vi_srl(tail[3], 16));
    for (unsigned k = 0; k < 4; k++) {
        vint low = vi_and(vi_srl(k % 2 ? a1 : a0, k < 2 ? 0 : 4), fifteen);
        vint sixes = vi_or(low, vi_sll(vi_and(vi_srl(a2, 2 * k), three), 4));
        for (unsigned j = 0; j < 4; j++) {
            vint six = vi_and(vi_srl(sixes, 8 * j), vi_set32(255));
            put_scale(r, col / 16 + 4 * k + j, vf_mul(vf_from_int(vi_sub32(six, vi_set32(32))), d));
        }
    }
    for (size_t c = 0; c < 4; c++) {
        load_rows(r, at + 32 + 16 * c, v);
        for (unsigned j = 0; j < 4; j++) {
            for (unsigned s = 0; s < 4; s++) {
                vint third =
                    vi_and(vi_srl(high[c % 2 * 4 + j], (unsigned)(c / 2) * 4 + s), vi_set8(1));
                put_q(r, col + 128 * (c / 2) + 32 * s + 16 * (c % 2) + 4 * j,
                      vi_or(bit_pairs(v[j], 2 * s), vi_sll(third, 2)));
            }
        }
    }
}

/* Scales and minimums of Q4_K and Q5_K from the first 16 bytes. */
static inline void put_k4_scales(const struct lane_rows *r, const vint head[4], size_t col)
{
    vint six = vi_set8(63), four = vi_set8(15), high = vi_set8(0x30);
    vint scales[2] = {vi_and(head[1], six),
                      vi_or(vi_and(head[3], four), vi_and(vi_srl(head[1], 2), high))};
    vint mins[2] = {vi_and(head[2], six),
                    vi_or(vi_and(vi_srl(head[3], 4), four), vi_and(vi_srl(head[2], 2), high))};
    vfloat d = vf_from_f16(head[0]), dmin = negative(vf_from_f16(vi_srl(head[0], 16)));
    for (unsigned j = 0; j < 8; j++) {
        put_scale(r, col / 32 + j, vf_mul(byte_float(scales[j / 4], j % 4), d));
        put_min(r, col / 32 + j, vf_mul(byte_float(mins[j / 4], j % 4), dmin));
    }
}

static void unpack_simd_q4_k(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4];
    load_rows(r, at, head);
    put_k4_scales(r, head, col);
    for (size_t c = 0; c < 8; c++) {
        load_rows(r, at + 16 + 16 * c, v);
        size_t first = col + 64 * (c / 2) + 16 * (c % 2);
        for (size_t j = 0; j < 4; j++) {
            put_q(r, first + 4 * j, low_nibbles(v[j]));
            put_q(r, first + 32 + 4 * j, high_nibbles(v[j]));
        }
    }
}

static void unpack_simd_q5_k(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], high[8], v[4];
    load_rows(r, at, head);
    put_k4_scales(r, head, col);
    load_rows(r, at + 16, high);
    load_rows(r, at + 32, high + 4);
    for (unsigned c = 0; c < 8; c++) {
        load_rows(r, at + 48 + 16 * c, v);
        size_t first = col + 64 * (c / 2) + 16 * (c % 2);
        for (unsigned j = 0; j < 4; j++) {
            vint bits = high[c % 2 * 4 + j];
            vint a = vi_and(vi_srl(bits, c / 2 * 2), vi_set8(1));
            vint b = vi_and(vi_srl(bits, c / 2 * 2 + 1), vi_set8(1));
            put_q(r, first + 4 * j, vi_or(low_nibbles(v[j]), vi_sll(a, 4)));
            put_q(r, first + 32 + 4 * j, vi_or(high_nibbles(v[j]), vi_sll(b, 4)));
        }
    }
}

static void unpack_simd_q6_k(const struct lane_rows *r, size_t at, size_t col)
{
    vint scales[4], tail[4], high[8], v[4];
    load_rows(r, at + 192, scales);
    load_rows(r, at + 194, tail);
    vfloat d = vf_from_f16(vi_srl(tail[3], 16));
    for (unsigned j = 0; j < 16; j++)
        put_scale(r, col / 16 + j, vf_mul(signed_byte_float(scales[j / 4], j % 4), d));
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 128 + 32 * half, high);
        load_rows(r, at + 144 + 32 * half, high + 4);
        for (unsigned c = 0; c < 4; c++) {
            load_rows(r, at + 64 * half + 16 * c, v);
            size_t first = col + 128 * half + 16 * c;
            for (unsigned j = 0; j < 4; j++) {
                vint bits = high[c % 2 * 4 + j];
                vint a = bit_pairs(bits, c / 2 * 2), b = bit_pairs(bits, c / 2 * 2 + 4);
                put_q(r, first + 4 * j, vi_or(low_nibbles(v[j]), vi_sll(a, 4)));
                put_q(r, first + 64 + 4 * j, vi_or(high_nibbles(v[j]), vi_sll(b, 4)));
            }
        }
    }
}

static void unpack_simd_iq4_xs(const struct lane_rows *r, size_t at, size_t col)
{
    vint head[4], v[4], table = offset_table(iq4_values, 127);
    load_rows(r, at, head);
    vfloat d = vf_from_f16(head[0]);
    for (unsigned j = 0; j < 8; j++) {
        vint low = vi_and(vi_srl(head[1], 4 * j), vi_set32(15));
        vint high = vi_and(vi_srl(head[0], 16 + 2 * j), vi_set32(3));
        vint six = vi_sub32(vi_or(low, vi_sll(high, 4)), vi_set32(32));
        put_scale(r, col / 32 + j, vf_mul(vf_from_int(six), d));
        load_rows(r, at + 8 + 16 * j, v);
        for (size_t k = 0; k < 4; k++) {
            put_q(r, col + 32 * j + 4 * k, vi_shuffle8(table, low_nibbles(v[k])));
            put_q(r, col + 32 * j + 16 + 4 * k, vi_shuffle8(table, high_nibbles(v[k])));
        }
    }
}

static void unpack_simd_tq2_0(const struct lane_rows *r, size_t at, size_t col)
{
    vint tail[4], v[4];
    load_rows(r, at + 50, tail);
    vfloat d = vf_from_f16(vi_srl(tail[3], 16));
    for (size_t j = 0; j < 8; j++)
        put_scale(r, col / 32 + j, d);
    for (size_t c = 0; c < 4; c++) {
        load_rows(r, at + 16 * c, v);
        for (unsigned j = 0; j < 4; j++) {
            for (unsigned s = 0; s < 4; s++)
                put_q(r, col + 128 * (c / 2) + 32 * s + 16 * (c % 2) + 4 * j,
                      bit_pairs(v[j], 2 * s));
        }
    }
}

/* n digits in base 3 of every byte, the first at col, each `stride` columns
 * further. A byte is a fraction of 256: times 3, what goes over is the digit. */
static inline void put_trits(const struct lane_rows *r, size_t col, size_t stride, int n, vint v)
{
    vint low = vi_and(v, vi_set32(0x00FF00FF)), high = vi_srl16(v, 8);
    for (int i = 0; i < n; i++) {
        low = vi_add16(low, vi_add16(low, low));
        high = vi_add16(high, vi_add16(high, high));
        vint digits = vi_or(vi_srl16(low, 8), vi_and(high, vi_set32(0xFF00FF00)));
        put_q(r, col + (size_t)i * stride, digits);
        low = vi_and(low, vi_set32(0x00FF00FF));
        high = vi_and(high, vi_set32(0x00FF00FF));
    }
}

static void unpack_simd_tq1_0(const struct lane_rows *r, size_t at, size_t col)
{
    vint tail[4], v[4];
    load_rows(r, at + 38, tail);
    vfloat d = vf_from_f16(vi_srl(tail[3], 16));
    for (size_t j = 0; j < 8; j++)
        put_scale(r, col / 32 + j, d);
    for (size_t c = 0; c < 3; c++) {
        load_rows(r, at + 16 * c, v);
        for (size_t j = 0; j < 4; j++) {
            if (c < 2)
                put_trits(r, col + 16 * c + 4 * j, 32, 5, v[j]);
            else
                put_trits(r, col + 160 + 4 * j, 16, 5, v[j]);
        }
    }
    put_trits(r, col + 240, 4, 4, vi_or(vi_srl(tail[2], 16), vi_sll(tail[3], 16)));
}

#include "kernels/panel_grids.h"

static const unpack_block_fn simd_unpackers[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = unpack_simd_q4_0,       [DTYPE_Q4_1] = unpack_simd_q4_1,
    [DTYPE_Q5_0] = unpack_simd_q5_0,       [DTYPE_Q5_1] = unpack_simd_q5_1,
    [DTYPE_Q8_0] = unpack_simd_q8_0,       [DTYPE_IQ4_NL] = unpack_simd_iq4_nl,
    [DTYPE_MXFP4] = unpack_simd_mxfp4,     [DTYPE_NVFP4] = unpack_simd_nvfp4,
    [DTYPE_Q1_0] = unpack_simd_q1_0,       [DTYPE_Q2_0] = unpack_simd_q2_0,
    [DTYPE_Q2_K] = unpack_simd_q2_k,       [DTYPE_Q3_K] = unpack_simd_q3_k,
    [DTYPE_Q4_K] = unpack_simd_q4_k,       [DTYPE_Q5_K] = unpack_simd_q5_k,
    [DTYPE_Q6_K] = unpack_simd_q6_k,       [DTYPE_IQ4_XS] = unpack_simd_iq4_xs,
    [DTYPE_IQ1_S] = unpack_simd_iq1_s,     [DTYPE_IQ1_M] = unpack_simd_iq1_m,
    [DTYPE_IQ2_XXS] = unpack_simd_iq2_xxs, [DTYPE_IQ2_XS] = unpack_simd_iq2_xs,
    [DTYPE_IQ2_S] = unpack_simd_iq2_s,     [DTYPE_IQ3_XXS] = unpack_simd_iq3_xxs,
    [DTYPE_IQ3_S] = unpack_simd_iq3_s,     [DTYPE_TQ1_0] = unpack_simd_tq1_0,
    [DTYPE_TQ2_0] = unpack_simd_tq2_0,
};

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

static inline void prefetch_packed(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch(p + PREFETCH_PACKED_BYTES + i);
}

static void unpack_plain_simd(const struct panel_source *s, size_t begin, size_t n,
                              struct panel *out)
{
    unpack_block_fn unpack = simd_unpackers[s->w->dtype];
    size_t len = s->format.block_len, bytes = dtype_info(s->w->dtype)->block_bytes;
    for (size_t first = 0; first < PANEL_ROWS; first += LANES) {
        struct lane_rows r = {.q = out->q + 4 * first,
                              .scale = out->scale + first,
                              .min = out->min + first,
                              .factor = vf_set(s->w->scale)};
        memcpy(r.row, s->row + first, sizeof r.row);
        r.packed = s->packed ? s->packed + 4 * first : NULL;
        size_t at = begin / len * bytes, ahead = at + (begin ? PREFETCH_BYTES : 0);
        for (size_t col = 0; col < n; col += len, at += bytes) {
            if (r.packed)
                prefetch_packed(r.packed + at * PANEL_ROWS, bytes * PANEL_ROWS);
            else
                ahead = prefetch_rows(s, first, ahead, at + bytes + PREFETCH_BYTES);
            unpack(&r, at, col);
        }
    }
}

/* ---- MLX ---- */

/* Four of the eight nibbles of each lane, from bytes b and b + 1: one to a
 * byte, low nibble first. */
static inline vint spread_nibbles(vint v, vint two_bytes)
{
    vint twice = vi_shuffle8(v, two_bytes);
    return vi_or(vi_and(twice, vi_set32(0x000F000F)),
                 vi_and(vi_srl(twice, 4), vi_set32(0x0F000F00)));
}

static void unpack_mlx_ints_4(const struct lane_rows *r, size_t at, size_t col, bool e2m1)
{
    static const uint8_t first[16] = {0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13};
    static const uint8_t second[16] = {2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15};
    vint v[4], a = vi_repeat16(first), b = vi_repeat16(second);
    vint table = offset_table(e2m1_doubled, 12);
    load_rows(r, at, v);
    for (size_t j = 0; j < 4; j++) {
        vint x = spread_nibbles(v[j], a), y = spread_nibbles(v[j], b);
        put_q(r, col + 8 * j, e2m1 ? vi_shuffle8(table, x) : x);
        put_q(r, col + 8 * j + 4, e2m1 ? vi_shuffle8(table, y) : y);
    }
}

static void unpack_mlx_ints_8(const struct lane_rows *r, size_t at, size_t col)
{
    vint v[4];
    for (size_t half = 0; half < 2; half++) {
        load_rows(r, at + 16 * half, v);
        for (size_t j = 0; j < 4; j++)
            put_q(r, col + 16 * half + 4 * j, v[j]);
    }
}

/* Any number of bits: through bytes in memory. n is a multiple of 32. */
static void unpack_mlx_ints_any(const struct panel_source *s, size_t first, size_t begin, size_t n,
                                const struct lane_rows *r)
{
    uint8_t bytes[LANES][BLOCK_COLS];
    const uint8_t *row[LANES];
    for (size_t col = 0; col < n; col += BLOCK_COLS) {
        for (size_t i = 0; i < LANES; i++) {
            matrix_mlx_ints(s->w, s->row[first + i], begin + col, BLOCK_COLS, bytes[i]);
            row[i] = bytes[i];
        }
        vint v[4];
        for (size_t half = 0; half < 2; half++) {
            vi_load_rows(row, 16 * half, v);
            for (size_t j = 0; j < 4; j++)
                put_q(r, col + 16 * half + 4 * j, v[j]);
        }
    }
}

enum { MAX_GROUPS = 64 }; /* converted at a time; a multiple of four */

/* n scales or biases of one row, from number `first` on. */
static inline void convert_scales(const struct matrix *w, const void *data, size_t first, size_t n,
                                  float *out)
{
    const uint8_t *halves = (const uint8_t *)data + 2 * first; /* of any alignment */
    switch (w->scale_dtype) {
    case DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            out[i] = vf_one_f16(load_u16(halves + 2 * i));
        break;
    case DTYPE_BF16:
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = (uint32_t)load_u16(halves + 2 * i) << 16;
            memcpy(out + i, &bits, sizeof bits);
        }
        break;
    case DTYPE_F32:
        memcpy(out, (const float *)data + first, n * sizeof *out);
        break;
    default: /* a byte, to be read as the kind says */
        for (size_t i = 0; i < n; i++)
            out[i] = matrix_group_scale(w, first + i) * 0.5f;
    }
}

/* Scales (or biases) of the groups of n columns, for the rows of one vector:
 * converted row by row, then transposed, and repeated for each block of a
 * group. */
static void unpack_mlx_scales(const struct panel_source *s, const void *data, size_t first_lane,
                              size_t begin, size_t n, float *out)
{
    const struct matrix *w = s->w;
    size_t group = (size_t)matrix_group(w), sub = s->format.sub_len, repeat = group / sub;
    size_t groups = (size_t)w->n_cols / group;
    float values[LANES][MAX_GROUPS];
    const uint8_t *row[LANES];
    /* Groups that the columns touch: a chunk may begin or end within one. */
    size_t first_group = begin / group, end_group = (begin + n + group - 1) / group;
    for (size_t g = first_group; g < end_group; g += MAX_GROUPS) {
        size_t n_groups = end_group - g < MAX_GROUPS ? end_group - g : MAX_GROUPS;
        for (size_t i = 0; i < LANES; i++) {
            size_t lane = first_lane + i, last = (size_t)s->n_rows - 1;
            size_t r = (size_t)s->first_row + (lane < last ? lane : last);
            size_t at = ((size_t)s->expert * (size_t)w->n_rows + r) * groups + g;
            memset(values[i] + n_groups / 4 * 4, 0, n_groups % 4 ? 4 * sizeof(float) : 0);
            convert_scales(w, data, at, n_groups, values[i]);
            row[i] = (const uint8_t *)values[i];
        }
        for (size_t j = 0; j < n_groups; j += 4) {
            vint four[4];
            vi_load_rows(row, j * sizeof(float), four);
            for (size_t k = 0; k < 4 && j + k < n_groups; k++) {
                for (size_t c = 0; c < repeat; c++) {
                    size_t col = (g + j + k) * group + c * sub;
                    if (col >= begin && col < begin + n)
                        vf_store(out + (col - begin) / sub * PANEL_ROWS + first_lane,
                                 vf_bits(four[k]));
                }
            }
        }
    }
}

static void unpack_mlx_simd(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    int32_t bits = matrix_bits(s->w);
    for (size_t first = 0; first < PANEL_ROWS; first += LANES) {
        struct lane_rows r = {.q = out->q + 4 * first};
        memcpy(r.row, s->row + first, sizeof r.row);
        r.packed = s->packed ? s->packed + 4 * first : NULL;
        if (bits == 4) {
            bool e2m1 = s->w->kind != MATRIX_MLX_AFFINE;
            for (size_t col = 0; col < n; col += 32)
                unpack_mlx_ints_4(&r, (begin + col) / 2, col, e2m1);
        } else if (bits == 8) {
            for (size_t col = 0; col < n; col += 32)
                unpack_mlx_ints_8(&r, begin + col, col);
        } else {
            unpack_mlx_ints_any(s, first, begin, n, &r);
        }
        unpack_mlx_scales(s, s->w->scales, first, begin, n, out->scale);
        if (s->w->kind == MATRIX_MLX_AFFINE)
            unpack_mlx_scales(s, s->w->biases, first, begin, n, out->min);
    }
}

static void unpack_simd(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    if (s->w->kind != MATRIX_PLAIN)
        unpack_mlx_simd(s, begin, n, out);
    else if (simd_unpackers[s->w->dtype])
        unpack_plain_simd(s, begin, n, out);
    else
        unpack_generic(s, begin, n, out);
}

static bool reads_packed_simd(const struct matrix *w)
{
    if (w->kind == MATRIX_PLAIN)
        return simd_unpackers[w->dtype] != NULL;
    return w->kind != MATRIX_MLX_MXFP8 && w->kind != MATRIX_F8_SCALED &&
           (matrix_bits(w) == 4 || matrix_bits(w) == 8);
}
