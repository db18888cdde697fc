/* panel_one.h - a packed panel times one row of activations, for any vector of
 * 32-bit lanes that has vi_dot.
 *
 * Included after panel_simd.h. Nothing is written but the sums: weights are
 * multiplied as they are unpacked, so that reading them goes on all the while. The
 * sums are those of unpack and panel_dot, to the last bit. */

typedef void (*one_fn)(const struct panel_source *s, const struct act_tile *tile, size_t n,
                       size_t first, float *acc);

/* Add the products of a block's n_subs stretches, in the order of their columns. */
INLINE vfloat add_products(const struct sink *from, const struct act_tile *tile, size_t col,
                           size_t n_subs, bool has_min, vfloat sum)
{
    for (size_t i = 0; i < n_subs; i++) {
        vfloat scale = vf_set(tile->scale[0][(col + i * from->sub) / BLOCK_COLS]);
        sum = vf_fma(vf_from_int(from->dot[i]), vf_mul(from->scales[i], scale), sum);
        if (has_min)
            sum = vf_fma(from->mins[i], vf_set(tile->sum[0][col / from->sub + i]), sum);
    }
    return sum;
}

/* Where the integer sums begin: what the offset of the stored integers adds. */
INLINE void start_products(const struct sink *to, const struct act_tile *tile, size_t col,
                           size_t n_subs, bool has_min)
{
    for (size_t i = 0; i < n_subs; i++)
        to->dot[i] = vi_set32(has_min ? 0 : (uint32_t)tile->bias[0][col / to->sub + i]);
}

#define ONE_ROW(ID, name, text, number, bytes, len, sub_len, has_min, offset, max_int, ...)        \
    static void one_##name(const struct panel_source *s, const struct act_tile *tile, size_t n,    \
                           size_t first, float *acc)                                               \
    {                                                                                              \
        enum { SUBS = (len) / (sub_len) };                                                         \
        struct lane_rows r;                                                                        \
        vfloat sum = vf_load_f32(acc + first);                                                     \
        for (size_t col = 0; col < n; col += (len)) {                                              \
            vint dot[SUBS];                                                                        \
            vfloat scales[SUBS], mins[SUBS];                                                       \
            struct sink to = {.factor = vf_set(s->w->scale),                                       \
                              .at_once = true,                                                     \
                              .x = tile->q[0] + col,                                               \
                              .dot = dot,                                                          \
                              .scales = scales,                                                    \
                              .mins = mins,                                                        \
                              .sub = (sub_len),                                                    \
                              .max = (max_int)};                                                   \
            size_t at = rows_at(s, true, first, col / (len), &r);                                  \
            if (first == 0)                                                                        \
                prefetch_block(&r, &s->packing);                                                   \
            start_products(&to, tile, col, SUBS, has_min);                                         \
            unpack_simd_##name(&r, &to, at, 0);                                                    \
            sum = add_products(&to, tile, col, SUBS, has_min, sum);                                \
        }                                                                                          \
        vf_store_f32(acc + first, sum);                                                            \
    }
BLOCK_FORMATS(ONE_ROW)

/* All but the pointers are constants. */
INLINE void one_mlx(const struct panel_source *s, const struct act_tile *tile, size_t n,
                    size_t first, float *acc, int bits, enum dtype scales_of, size_t sub)
{
    struct lane_rows r;
    const struct packing *k = &s->packing;
    bool affine = scales_of != DTYPE_U8;
    vfloat sum = vf_load_f32(acc + first), factor = vf_set(s->w->scale);
    for (size_t block = 0, col = 0; col < n; block++) {
        rows_at(s, true, first, block, &r);
        if (first == 0)
            prefetch_block(&r, k);
        for (size_t at = 0; at < k->block_cols; at += BLOCK_COLS, col += BLOCK_COLS) {
            vint dot[2];
            vfloat scales[2], mins[2];
            struct sink to = {.factor = factor,
                              .at_once = true,
                              .x = tile->q[0] + col,
                              .dot = dot,
                              .scales = scales,
                              .mins = mins,
                              .sub = sub,
                              .max = affine ? (1u << bits) - 1 : 24};
            start_products(&to, tile, col, BLOCK_COLS / sub, affine);
            mlx_ints(&r, &to, at / 8 * (size_t)bits, 0, bits, !affine);
            mlx_scales(k, scales_of, sub, affine, &r, &to, at, 0);
            sum = add_products(&to, tile, col, BLOCK_COLS / sub, affine, sum);
        }
    }
    vf_store_f32(acc + first, sum);
}

INLINE void one_affine(const struct panel_source *s, const struct act_tile *tile, size_t n,
                       size_t first, float *acc, int bits)
{
    switch (s->w->scale_dtype) {
    case DTYPE_F16:
        one_mlx(s, tile, n, first, acc, bits, DTYPE_F16, BLOCK_COLS);
        break;
    case DTYPE_BF16:
        one_mlx(s, tile, n, first, acc, bits, DTYPE_BF16, BLOCK_COLS);
        break;
    default:
        one_mlx(s, tile, n, first, acc, bits, DTYPE_F32, BLOCK_COLS);
    }
}

static void one_affine_bits(const struct panel_source *s, const struct act_tile *tile, size_t n,
                            size_t first, float *acc)
{
    switch (s->w->bits) {
    case 2:
        one_affine(s, tile, n, first, acc, 2);
        break;
    case 3:
        one_affine(s, tile, n, first, acc, 3);
        break;
    case 4:
        one_affine(s, tile, n, first, acc, 4);
        break;
    case 5:
        one_affine(s, tile, n, first, acc, 5);
        break;
    case 6:
        one_affine(s, tile, n, first, acc, 6);
        break;
    default:
        one_affine(s, tile, n, first, acc, 8);
    }
}

static void one_mxfp4_groups(const struct panel_source *s, const struct act_tile *tile, size_t n,
                             size_t first, float *acc)
{
    one_mlx(s, tile, n, first, acc, 4, DTYPE_U8, BLOCK_COLS);
}

static void one_nvfp4_groups(const struct panel_source *s, const struct act_tile *tile, size_t n,
                             size_t first, float *acc)
{
    one_mlx(s, tile, n, first, acc, 4, DTYPE_U8, 16);
}

static const one_fn one_row[DTYPE_COUNT] = {
#define ENTRY_ONE(ID, name, ...) [DTYPE_##ID] = one_##name,
    BLOCK_FORMATS(ENTRY_ONE)[DTYPE_MLX_AFFINE] = one_affine_bits,
    [DTYPE_MLX_MXFP4] = one_mxfp4_groups,
    [DTYPE_MLX_NVFP4] = one_nvfp4_groups,
};

static void panel_one_simd(const struct panel_source *s, const struct act_tile *tile, size_t n,
                           float *acc)
{
    for (size_t first = 0; first < PANEL_ROWS; first += LANES)
        one_row[s->w->dtype](s, tile, n, first, acc);
}
