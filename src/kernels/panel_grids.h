/* panel_grids.h - unpacking the formats with codebooks (IQ1, IQ2, IQ3) into
 * panels; a part of panel_simd.h.
 *
 * A codebook's points are dwords of four coordinates, which is what a panel
 * holds of a row: gathering by the rows' indices puts them in place. */

/* Dword `half` of points of eight coordinates (64 bits). */
static inline vint gather_eight(const uint64_t *grid, vint index, int half)
{
    return vi_gather((const int32_t *)(const void *)grid + half, vi_sll(index, 1));
}

static inline vint byte_of(vint v, unsigned n)
{
    return vi_and(vi_srl(v, 8 * n), vi_set32(255));
}

/* Coordinates negated where their sign bit (bits n..n+3 of signs) is set, plus
 * the offset: with bits b of 0 and 1, (v ^ -b) + b. */
static inline vint apply_signs(vint v, vint signs, unsigned n, uint8_t offset)
{
    vint bits = spread_bits(signs, n);
    vint mask = vi_sub8(vi_set32(0), bits);
    return vi_add8(vi_add8(vi_xor(v, mask), bits), vi_set8(offset));
}

/* Seven sign bits from bit n on; the eighth makes their number even. */
static inline vint seven_signs(vint v, unsigned n)
{
    vint seven = vi_and(vi_srl(v, n), vi_set32(127));
    vint parity = vi_xor(seven, vi_srl(seven, 4));
    parity = vi_xor(parity, vi_srl(parity, 2));
    parity = vi_and(vi_xor(parity, vi_srl(parity, 1)), vi_set32(1));
    return vi_or(seven, vi_sll(parity, 7));
}

/* Eight signed columns from a point of eight. */
static inline void put_point(struct sink *to, size_t col, const uint64_t *grid, vint index,
                             vint signs, uint8_t offset)
{
    put_q(to, col, apply_signs(gather_eight(grid, index, 0), signs, 0, offset));
    put_q(to, col + 4, apply_signs(gather_eight(grid, index, 1), signs, 4, offset));
}

/* (0.5 + n) * d, n an integer. */
static inline vfloat half_steps(vint n, vfloat d)
{
    return vf_mul(vf_add(vf_from_int(n), vf_set(0.5f)), d);
}

static inline vint nibble_of(vint v, unsigned n)
{
    return vi_and(vi_srl(v, 4 * n), vi_set32(15));
}

INLINE void unpack_simd_iq2_xxs(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint v[4];
    vfloat d = vf_mul(load_head(r, at), vf_set(0.25f));
#pragma GCC unroll 16
    for (size_t j = 0; j < 8; j++) {
        if (j % 2 == 0)
            load_rows(r, at + 2 + 8 * j, v);
        vint points = v[j % 2 * 2], signs = v[j % 2 * 2 + 1];
        put_scale(to, col / 32 + j, half_steps(vi_srl(signs, 28), d));
        for (unsigned l = 0; l < 4; l++)
            put_point(to, col + 32 * j + 8 * l, iq2_xxs_grid, byte_of(points, l),
                      seven_signs(signs, 7 * l), 43);
    }
}

INLINE void unpack_simd_iq2_xs(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint tail[4], v[4];
    load_rows(r, at + 58, tail);
    vfloat d = vf_mul(load_head(r, at), vf_set(0.25f));
    for (unsigned j = 0; j < 16; j++)
        put_scale(to, col / 16 + j, half_steps(nibble_of(tail[2 + j / 8], j % 8), d));
#pragma GCC unroll 16
    for (size_t c = 0; c < 4; c++) {
        load_rows(r, at + 2 + 16 * c, v);
        for (unsigned l = 0; l < 8; l++) {
            vint word = vi_srl(v[l / 2], l % 2 * 16);
            put_point(to, col + 64 * c + 8 * l, iq2_xs_grid, vi_and(word, vi_set32(511)),
                      seven_signs(word, 9), 43);
        }
    }
}

INLINE void unpack_simd_iq2_s(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint tail[4], points[8], signs[8];
    load_rows(r, at + 2, points);
    load_rows(r, at + 18, points + 4);
    load_rows(r, at + 34, signs);
    load_rows(r, at + 50, signs + 4);
    load_rows(r, at + 66, tail);
    vfloat d = vf_mul(load_head(r, at), vf_set(0.25f));
    for (unsigned j = 0; j < 16; j++)
        put_scale(to, col / 16 + j, half_steps(nibble_of(tail[2 + j / 8], j % 8), d));
#pragma GCC unroll 16
    for (unsigned l = 0; l < 32; l++) {
        unsigned w = l / 4, b = l % 4;
        vint high = vi_and(vi_srl(tail[w / 4], 8 * (w % 4) + 2 * b), vi_set32(3));
        vint index = vi_or(byte_of(points[w], b), vi_sll(high, 8));
        put_point(to, col + 8 * l, iq2_s_grid, index, byte_of(signs[w], b), 43);
    }
}

static inline vint gather_four(const uint32_t *grid, vint index)
{
    return vi_gather((const int32_t *)(const void *)grid, index);
}

INLINE void unpack_simd_iq3_xxs(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint points[4], signs[4];
    vfloat d = vf_mul(load_head(r, at), vf_set(0.5f));
#pragma GCC unroll 16
    for (size_t j = 0; j < 8; j++) {
        if (j % 2 == 0)
            load_rows(r, at + 2 + 8 * j, points);
        if (j % 4 == 0)
            load_rows(r, at + 66 + 4 * j, signs);
        vint word = signs[j % 4];
        put_scale(to, col / 32 + j, half_steps(vi_srl(word, 28), d));
        for (unsigned l = 0; l < 8; l++) {
            vint v = gather_four(iq3_xxs_grid, byte_of(points[j % 2 * 2 + l / 4], l % 4));
            put_q(to, col + 32 * j + 4 * l,
                  apply_signs(v, seven_signs(word, 7 * (l / 2)), l % 2 * 4, 62));
        }
    }
}

INLINE void unpack_simd_iq3_s(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint high[4], signs[8], tail[4], points[4];
    load_rows(r, at + 66, high);
    load_rows(r, at + 74, signs);
    load_rows(r, at + 90, signs + 4);
    load_rows(r, at + 94, tail);
    vfloat d = load_head(r, at);
#pragma GCC unroll 16
    for (unsigned j = 0; j < 8; j++) {
        vint twice = vi_sll(nibble_of(tail[3], j), 1);
        put_scale(to, col / 32 + j, vf_mul(vf_from_int(vi_or(twice, vi_set32(1))), d));
    }
#pragma GCC unroll 16
    for (unsigned l = 0; l < 64; l++) {
        if (l % 16 == 0)
            load_rows(r, at + 2 + l, points);
        vint ninth = vi_and(vi_srl(high[l / 32], l % 32), vi_set32(1));
        vint index = vi_or(byte_of(points[l % 16 / 4], l % 4), vi_sll(ninth, 8));
        put_q(to, col + 4 * l,
              apply_signs(gather_four(iq3_s_grid, index), signs[l / 8], l % 8 * 4, 15));
    }
}

/* Coordinates -1, 0, 1 in eighths, one eighth down (all bits of `down` set in a
 * lane) or up, plus the offset 9. */
static inline vint ternary_eighths(vint v, vint down)
{
    vint eight = vi_and(vi_sll(v, 3), vi_set8(0xF8));
    return vi_add8(eight, vi_sub8(vi_set8(10), vi_and(down, vi_set8(2))));
}

static inline void put_ternary(struct sink *to, size_t col, vint index, vint down)
{
    put_q(to, col, ternary_eighths(gather_eight(iq1_grid, index, 0), down));
    put_q(to, col + 4, ternary_eighths(gather_eight(iq1_grid, index, 1), down));
}

/* All bits of a lane as its bit n. */
static inline vint whole_lane(vint v, unsigned n)
{
    return vi_sra(vi_sll(v, 31 - n), 31);
}

/* (2 n + 1) * d / 8 */
static inline vfloat odd_steps(vint n, vfloat d)
{
    vfloat odd = vf_from_int(vi_or(vi_sll(n, 1), vi_set32(1)));
    return vf_mul(vf_mul(odd, d), vf_set(0.125f));
}

INLINE void unpack_simd_iq1_s(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint points[8], high[4];
    load_rows(r, at + 2, points);
    load_rows(r, at + 18, points + 4);
    load_rows(r, at + 34, high);
    vfloat d = load_head(r, at);
#pragma GCC unroll 16
    for (unsigned j = 0; j < 8; j++) {
        vint word = vi_srl(high[j / 2], j % 2 * 16);
        put_scale(to, col / 32 + j, odd_steps(vi_and(vi_srl(word, 12), vi_set32(7)), d));
        for (unsigned l = 0; l < 4; l++) {
            vint three = vi_and(vi_srl(word, 3 * l), vi_set32(7));
            put_ternary(to, col + 32 * j + 8 * l, vi_or(byte_of(points[j], l), vi_sll(three, 8)),
                        whole_lane(word, 15));
        }
    }
}

INLINE void unpack_simd_iq1_m(const struct lane_rows *r, struct sink *to, size_t at, size_t col)
{
    vint points[8], high[4], tail[4];
    load_rows(r, at, points);
    load_rows(r, at + 16, points + 4);
    load_rows(r, at + 32, high);
    load_rows(r, at + 40, tail); /* the scales are its last two */
    vint bits = vi_or(vi_and(vi_srl(tail[2], 12), vi_set32(0x000F)),
                      vi_and(vi_srl(tail[2], 24), vi_set32(0x00F0)));
    bits = vi_or(bits, vi_or(vi_and(vi_srl(tail[3], 4), vi_set32(0x0F00)),
                             vi_and(vi_srl(tail[3], 16), vi_set32(0xF000))));
    vfloat d = vf_from_f16(bits);
#pragma GCC unroll 16
    for (unsigned j = 0; j < 16; j++) {
        vint three = vi_srl(tail[2 + j / 8], j % 8 / 4 * 16 + j % 4 * 3);
        put_scale(to, col / 16 + j, odd_steps(vi_and(three, vi_set32(7)), d));
    }
#pragma GCC unroll 16
    for (unsigned l = 0; l < 32; l++) {
        vint four = nibble_of(high[l / 8], l % 8);
        vint index = vi_or(byte_of(points[l / 4], l % 4), vi_sll(vi_and(four, vi_set32(7)), 8));
        put_ternary(to, col + 8 * l, index, whole_lane(four, 3));
    }
}
