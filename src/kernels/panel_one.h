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

#define ONE_ROW(dtype, name, len, sub_len, max_int, has_mins)                                      \
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
            start_products(&to, tile, col, SUBS, has_mins);                                        \
            unpack_simd_##name(&r, &to, at, 0);                                                    \
            sum = add_products(&to, tile, col, SUBS, has_mins, sum);                               \
        }                                                                                          \
        vf_store_f32(acc + first, sum);                                                            \
    }
BLOCK_FORMATS(ONE_ROW)

static const one_fn one_row[DTYPE_COUNT] = {
#define ONE_ENTRY(dtype, name, len, sub_len, max_int, has_mins) [DTYPE_##dtype] = one_##name,
    BLOCK_FORMATS(ONE_ENTRY)};

/* All but the pointers are constants. */
INLINE void one_mlx(const struct panel_source *s, const struct act_tile *tile, size_t n,
                    size_t first, float *acc, int bits, size_t sub, bool e2m1)
{
    struct lane_rows r;
    vfloat sum = vf_load_f32(acc + first);
    size_t cols = s->packing.block_cols;
    for (size_t col = 0; col < n; col += BLOCK_COLS) {
        vint dot[2];
        vfloat scales[2], mins[2];
        struct sink to = {.factor = vf_set(s->w->scale),
                          .at_once = true,
                          .x = tile->q[0] + col,
                          .dot = dot,
                          .scales = scales,
                          .mins = mins,
                          .sub = sub,
                          .max = e2m1 ? 24 : (1u << bits) - 1};
        size_t in_block = col % cols;
        rows_at(s, true, first, col / cols, &r);
        if (first == 0 && in_block == 0)
            prefetch_block(&r, &s->packing);
        start_products(&to, tile, col, BLOCK_COLS / sub, !e2m1);
        mlx_ints(&r, &to, in_block / 8 * (size_t)bits, 0, bits, e2m1);
        mlx_scales(s, &r, &to, in_block, 0);
        sum = add_products(&to, tile, col, BLOCK_COLS / sub, !e2m1, sum);
    }
    vf_store_f32(acc + first, sum);
}

static void one_mlx_affine(const struct panel_source *s, const struct act_tile *tile, size_t n,
                           size_t first, float *acc)
{
    switch (s->w->bits) {
    case 2:
        one_mlx(s, tile, n, first, acc, 2, BLOCK_COLS, false);
        break;
    case 3:
        one_mlx(s, tile, n, first, acc, 3, BLOCK_COLS, false);
        break;
    case 4:
        one_mlx(s, tile, n, first, acc, 4, BLOCK_COLS, false);
        break;
    case 5:
        one_mlx(s, tile, n, first, acc, 5, BLOCK_COLS, false);
        break;
    case 6:
        one_mlx(s, tile, n, first, acc, 6, BLOCK_COLS, false);
        break;
    default:
        one_mlx(s, tile, n, first, acc, 8, BLOCK_COLS, false);
    }
}

static void panel_one_simd(const struct panel_source *s, const struct act_tile *tile, size_t n,
                           float *acc)
{
    for (size_t first = 0; first < PANEL_ROWS; first += LANES) {
        if (s->w->kind == MATRIX_PLAIN)
            one_row[s->w->dtype](s, tile, n, first, acc);
        else if (s->w->kind == MATRIX_MLX_AFFINE)
            one_mlx_affine(s, tile, n, first, acc);
        else if (s->w->kind == MATRIX_MLX_NVFP4)
            one_mlx(s, tile, n, first, acc, 4, 16, true);
        else
            one_mlx(s, tile, n, first, acc, 4, BLOCK_COLS, true);
    }
}
