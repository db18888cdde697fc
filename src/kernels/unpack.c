/* unpack.c - each block format as integers, scales and minimums: the truth.
 *
 * One short function a format. Offsets in the comments are bytes of the block.
 * Source: the GGUF formats' definition (ggml's documentation of its blocks) and
 * OCP Microscaling v1.0 for E2M1 and E8M0. */
#include "kernels/blocks.h"
#include "kernels/format.h"

#include <string.h>

const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void fill_scale(struct block_ints *out, int n_subs, float scale)
{
    for (int i = 0; i < n_subs; i++)
        out->scale[i] = scale;
}

/* Byte j holds value j in its low half and value j + half in its high one. */
static void nibbles(const uint8_t *qs, int half, int offset, int8_t *q)
{
    for (int j = 0; j < half; j++) {
        q[j] = (int8_t)((qs[j] & 15) - offset);
        q[j + half] = (int8_t)((qs[j] >> 4) - offset);
    }
}

static void nibbles_through(const int8_t table[16], const uint8_t *qs, int half, int8_t *q)
{
    for (int j = 0; j < half; j++) {
        q[j] = table[qs[j] & 15];
        q[j + half] = table[qs[j] >> 4];
    }
}

/* 0 d; 2 bits: 1 is +d, 0 is -d */
void unpack_q1_0(const uint8_t *b, struct block_ints *out)
{
    fill_scale(out, 4, load_f16(b));
    for (int i = 0; i < 128; i++)
        out->q[i] = (int8_t)((b[2 + i / 8] >> i % 8 & 1) ? 1 : -1);
}

/* 0 d; 2 pairs of bits, less 1 */
void unpack_q2_0(const uint8_t *b, struct block_ints *out)
{
    fill_scale(out, 2, load_f16(b));
    for (int i = 0; i < 64; i++)
        out->q[i] = (int8_t)((b[2 + i / 4] >> i % 4 * 2 & 3) - 1);
}

/* 0 d; 2 nibbles, less 8 */
void unpack_q4_0(const uint8_t *b, struct block_ints *out)
{
    out->scale[0] = load_f16(b);
    nibbles(b + 2, 16, 8, out->q);
}

/* 0 d; 2 m; 4 nibbles */
void unpack_q4_1(const uint8_t *b, struct block_ints *out)
{
    out->scale[0] = load_f16(b);
    out->min[0] = load_f16(b + 2);
    nibbles(b + 4, 16, 0, out->q);
}

static void add_fifth_bits(uint32_t bits, int8_t *q)
{
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(q[i] + (int8_t)((bits >> i & 1) << 4));
}

/* 0 d; 2 fifth bits; 6 nibbles; less 16 */
void unpack_q5_0(const uint8_t *b, struct block_ints *out)
{
    out->scale[0] = load_f16(b);
    nibbles(b + 6, 16, 16, out->q);
    add_fifth_bits(load_u32(b + 2), out->q);
}

/* 0 d; 2 m; 4 fifth bits; 8 nibbles */
void unpack_q5_1(const uint8_t *b, struct block_ints *out)
{
    out->scale[0] = load_f16(b);
    out->min[0] = load_f16(b + 2);
    nibbles(b + 8, 16, 0, out->q);
    add_fifth_bits(load_u32(b + 4), out->q);
}

/* 0 d; 2 bytes */
void unpack_q8_0(const uint8_t *b, struct block_ints *out)
{
    out->scale[0] = load_f16(b);
    memcpy(out->q, b + 2, 32);
}

/* 0 d; 2 d times the sum; 4 bytes */
void unpack_q8_1(const uint8_t *b, struct block_ints *out)
{
    out->scale[0] = load_f16(b);
    memcpy(out->q, b + 4, 32);
}

/* 0 d (F32); 4 bytes; 260 sums of each sixteen */
void unpack_q8_k(const uint8_t *b, struct block_ints *out)
{
    uint32_t bits = load_u32(b);
    float d;
    memcpy(&d, &bits, sizeof d);
    fill_scale(out, 8, d);
    memcpy(out->q, b + 4, 256);
}

/* Element i of each half of 128 is in byte i % 32, at bits i / 32 * 2. */
static int two_bits(const uint8_t *qs, int i)
{
    return qs[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

/* 0 scales (low nibble) and mins (high); 16 bits; 80 d; 82 dmin */
void unpack_q2_k(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b + 80), dmin = load_f16(b + 82);
    for (int j = 0; j < 16; j++) {
        out->scale[j] = d * (float)(b[j] & 15);
        out->min[j] = -(dmin * (float)(b[j] >> 4));
    }
    for (int i = 0; i < 256; i++)
        out->q[i] = (int8_t)two_bits(b + 16, i);
}

/* 0 high bits (clear: less 4); 32 low bits; 96 scales; 108 d */
void unpack_q3_k(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b + 108);
    for (int j = 0; j < 16; j++)
        out->scale[j] = d * (float)(q3_k_scale(b + 96, j) - 32);
    for (int i = 0; i < 256; i++)
        out->q[i] = (int8_t)(two_bits(b + 32, i) - (b[i % 32] >> i / 32 & 1 ? 0 : 4));
}

static void k4_scales(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b), dmin = load_f16(b + 2);
    for (int j = 0; j < 8; j++) {
        uint8_t scale, min;
        k4_scale_min(b + 4, j, &scale, &min);
        out->scale[j] = d * (float)scale;
        out->min[j] = -(dmin * (float)min);
    }
}

/* 0 d; 2 dmin; 4 scales and mins; 16 nibbles, 64 elements to 32 bytes */
void unpack_q4_k(const uint8_t *b, struct block_ints *out)
{
    k4_scales(b, out);
    for (int j = 0; j < 4; j++)
        nibbles(b + 16 + 32 * j, 32, 0, out->q + 64 * j);
}

/* 0 d; 2 dmin; 4 scales and mins; 16 fifth bits; 48 nibbles */
void unpack_q5_k(const uint8_t *b, struct block_ints *out)
{
    k4_scales(b, out);
    for (int j = 0; j < 4; j++)
        nibbles(b + 48 + 32 * j, 32, 0, out->q + 64 * j);
    for (int i = 0; i < 256; i++)
        out->q[i] = (int8_t)(out->q[i] + ((b[16 + i % 32] >> i / 32 & 1) << 4));
}

/* 0 low nibbles; 128 high pairs of bits; 192 scales; 208 d; less 32 */
void unpack_q6_k(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b + 208);
    for (int j = 0; j < 16; j++)
        out->scale[j] = d * (float)(int8_t)b[192 + j];
    for (int half = 0; half < 2; half++)
        nibbles(b + 64 * half, 64, 32, out->q + 128 * half);
    for (int i = 0; i < 256; i++)
        out->q[i] = (int8_t)(out->q[i] + (two_bits(b + 128, i) << 4));
}

/* Seven sign bits stand for eight: the eighth makes their number even. */
static uint8_t even_signs(uint32_t seven)
{
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (uint8_t)(seven | (parity & 1) << 7);
}

/* n coordinates of a lattice point, negated where the sign bit is set. */
static void point(uint64_t coordinates, unsigned signs, int n, int8_t *q)
{
    for (int j = 0; j < n; j++) {
        int v = (int)(coordinates >> 8 * j & 255);
        q[j] = (int8_t)(signs >> j & 1 ? -v : v);
    }
}

/* 0 d; 2 for each 32: four points, then four sevens of signs and a scale */
void unpack_iq2_xxs(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b);
    for (int j = 0; j < 8; j++) {
        const uint8_t *p = b + 2 + 8 * j;
        uint32_t signs = load_u32(p + 4);
        out->scale[j] = d * (0.5f + (float)(signs >> 28)) * 0.25f;
        for (int l = 0; l < 4; l++)
            point(iq2_xxs_grid[p[l]], even_signs(signs >> 7 * l & 127), 8, out->q + 32 * j + 8 * l);
    }
}

/* 0 d; 2 nine bits of point and seven of signs for each 8; 66 scales */
void unpack_iq2_xs(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b);
    for (int j = 0; j < 16; j++) {
        int scale = b[66 + j / 2] >> j % 2 * 4 & 15;
        out->scale[j] = d * (0.5f + (float)scale) * 0.25f;
    }
    for (int l = 0; l < 32; l++) {
        unsigned v = load_u16(b + 2 + 2 * l);
        point(iq2_xs_grid[v & 511], even_signs(v >> 9), 8, out->q + 8 * l);
    }
}

/* 0 d; 2 low bits of points; 34 signs; 66 high bits of points; 74 scales */
void unpack_iq2_s(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b);
    for (int j = 0; j < 16; j++) {
        int scale = b[74 + j / 2] >> j % 2 * 4 & 15;
        out->scale[j] = d * (0.5f + (float)scale) * 0.25f;
    }
    for (int l = 0; l < 32; l++) {
        unsigned high = b[66 + l / 4] >> l % 4 * 2 & 3;
        point(iq2_s_grid[b[2 + l] | high << 8], b[34 + l], 8, out->q + 8 * l);
    }
}

/* 0 d; 2 points of four; 66 for each 32: four sevens of signs and a scale */
void unpack_iq3_xxs(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b);
    for (int j = 0; j < 8; j++) {
        uint32_t signs = load_u32(b + 66 + 4 * j);
        out->scale[j] = d * (0.5f + (float)(signs >> 28)) * 0.5f;
        for (int l = 0; l < 8; l++) {
            unsigned eight = even_signs(signs >> 7 * (l / 2) & 127);
            point(iq3_xxs_grid[b[2 + 8 * j + l]], eight >> 4 * (l % 2), 4, out->q + 32 * j + 4 * l);
        }
    }
}

/* 0 d; 2 low bits of points; 66 high bits; 74 signs; 106 scales */
void unpack_iq3_s(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b);
    for (int j = 0; j < 8; j++)
        out->scale[j] = d * (float)(1 + 2 * (b[106 + j / 2] >> j % 2 * 4 & 15));
    for (int l = 0; l < 64; l++) {
        unsigned high = b[66 + l / 8] >> l % 8 & 1;
        point(iq3_s_grid[b[2 + l] | high << 8], (unsigned)b[74 + l / 2] >> 4 * (l % 2), 4,
              out->q + 4 * l);
    }
}

/* Eight values -1, 0, 1, each moved by an eighth up or down: in eighths they
 * are integers. */
static void ternary_point(unsigned index, bool down, int8_t *q)
{
    for (int j = 0; j < 8; j++) {
        int8_t v = (int8_t)(iq1_grid[index] >> 8 * j & 255);
        q[j] = (int8_t)(8 * v + (down ? -1 : 1));
    }
}

/* 0 d; 2 low bits of points; 34 for each 32: four threes of high bits, a scale,
 * the direction */
void unpack_iq1_s(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b);
    for (int j = 0; j < 8; j++) {
        unsigned high = load_u16(b + 34 + 2 * j);
        out->scale[j] = d * (float)(2 * (high >> 12 & 7) + 1) * 0.125f;
        for (int l = 0; l < 4; l++)
            ternary_point(b[2 + 4 * j + l] | (high >> 3 * l & 7) << 8, high >> 15,
                          out->q + 32 * j + 8 * l);
    }
}

/* 0 low bits of points; 32 nibbles of three high bits and a direction; 48
 * threes of scales, and in the top nibbles of their four words d */
void unpack_iq1_m(const uint8_t *b, struct block_ints *out)
{
    const uint8_t *s = b + 48;
    float d = f16_to_f32((uint16_t)(load_u16(s) >> 12 | (load_u16(s + 2) >> 12) << 4 |
                                    (load_u16(s + 4) >> 12) << 8 | (load_u16(s + 6) >> 12) << 12));
    for (int j = 0; j < 16; j++) {
        int scale = load_u16(s + j / 4 * 2) >> j % 4 * 3 & 7;
        out->scale[j] = d * (float)(2 * scale + 1) * 0.125f;
    }
    for (int l = 0; l < 32; l++) {
        unsigned high = (unsigned)b[32 + l / 2] >> l % 2 * 4 & 15u;
        ternary_point(b[l] | (high & 7) << 8, high >> 3, out->q + 8 * l);
    }
}

/* 0 d; 2 nibbles into a table */
void unpack_iq4_nl(const uint8_t *b, struct block_ints *out)
{
    out->scale[0] = load_f16(b);
    nibbles_through(iq4_values, b + 2, 16, out->q);
}

/* 0 d; 2 high bits of scales; 4 low bits; 8 nibbles into a table */
void unpack_iq4_xs(const uint8_t *b, struct block_ints *out)
{
    float d = load_f16(b);
    unsigned high = load_u16(b + 2);
    for (int j = 0; j < 8; j++) {
        int scale = (b[4 + j / 2] >> j % 2 * 4 & 15) | (int)(high >> 2 * j & 3) << 4;
        out->scale[j] = d * (float)(scale - 32);
        nibbles_through(iq4_values, b + 8 + 16 * j, 16, out->q + 32 * j);
    }
}

/* Digit n of a byte that holds a fraction of 256 in base 3. */
static int8_t trit(uint8_t byte, int n)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return (int8_t)(((uint8_t)(byte * power[n]) * 3 >> 8) - 1);
}

/* 0 five trits to a byte, 32 and then 16 bytes apart; 48 four trits; 52 d */
void unpack_tq1_0(const uint8_t *b, struct block_ints *out)
{
    fill_scale(out, 8, load_f16(b + 52));
    for (int i = 0; i < 160; i++)
        out->q[i] = trit(b[i % 32], i / 32);
    for (int i = 0; i < 80; i++)
        out->q[160 + i] = trit(b[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++)
        out->q[240 + i] = trit(b[48 + i % 4], i / 4);
}

/* 0 pairs of bits, less 1; 64 d */
void unpack_tq2_0(const uint8_t *b, struct block_ints *out)
{
    fill_scale(out, 8, load_f16(b + 64));
    for (int i = 0; i < 256; i++)
        out->q[i] = (int8_t)(two_bits(b, i) - 1);
}

/* 0 exponent; 1 E2M1 */
void unpack_mxfp4(const uint8_t *b, struct block_ints *out)
{
    out->scale[0] = e8m0_to_f32(b[0]) * 0.5f;
    nibbles_through(e2m1_doubled, b + 1, 16, out->q);
}

/* 0 E4M3 scales; 4 E2M1, 16 elements to 8 bytes */
void unpack_nvfp4(const uint8_t *b, struct block_ints *out)
{
    for (int j = 0; j < 4; j++) {
        out->scale[j] = ue4m3_to_f32(b[j]) * 0.5f;
        nibbles_through(e2m1_doubled, b + 4 + 8 * j, 8, out->q + 16 * j);
    }
}
