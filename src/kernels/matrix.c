/* matrix.c - weight matrices: checking what a file says of them, and single
 * rows decoded. */
#include "kernels/matrix.h"

#include "kernels/blocks.h"

#include <string.h>

static bool mul_size(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

static bool is_mlx(enum matrix_kind kind)
{
    return kind >= MATRIX_MLX_AFFINE;
}

int32_t matrix_group(const struct matrix *w)
{
    switch (w->kind) {
    case MATRIX_MLX_AFFINE:
        return w->group_size;
    case MATRIX_MLX_NVFP4:
        return 16;
    default:
        return 32;
    }
}

int32_t matrix_bits(const struct matrix *w)
{
    switch (w->kind) {
    case MATRIX_MLX_AFFINE:
        return w->bits;
    case MATRIX_MLX_MXFP8:
        return 8;
    default:
        return 4;
    }
}

static bool check_affine(const struct matrix *w, struct error *err)
{
    if (w->bits < 2 || w->bits > 8 || w->bits == 7)
        return error_set(err, ERR_UNSUPPORTED,
                         "affine quantization with %d bits; 2, 3, 4, 5, 6 and 8 are known",
                         w->bits);
    if (w->group_size != 32 && w->group_size != 64 && w->group_size != 128)
        return error_set(err, ERR_UNSUPPORTED,
                         "affine quantization in groups of %d; 32, 64 and 128 are known",
                         w->group_size);
    if (!w->biases)
        return error_set(err, ERR_FORMAT, "affine quantization without biases");
    return true;
}

static bool is_small_float(enum dtype dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

/* Bytes of all scales (and of all biases). */
static bool scale_bytes(const struct matrix *w, size_t *bytes)
{
    size_t per_expert;
    if (w->kind == MATRIX_F8_SCALED) {
        size_t down = ((size_t)w->n_rows + (size_t)w->block_rows - 1) / (size_t)w->block_rows;
        size_t across = ((size_t)w->n_cols + (size_t)w->block_cols - 1) / (size_t)w->block_cols;
        if (!mul_size(down, across, &per_expert))
            return false;
    } else if (!mul_size((size_t)w->n_rows, (size_t)(w->n_cols / matrix_group(w)), &per_expert)) {
        return false;
    }
    return mul_size(per_expert, (size_t)w->n_experts, bytes) &&
           mul_size(*bytes, dtype_info(w->scale_dtype)->block_bytes, bytes);
}

static bool check_scaled(struct matrix *w, size_t scales_bytes, size_t biases_bytes,
                         struct error *err)
{
    bool mlx = is_mlx(w->kind);
    if (w->dtype != (mlx ? DTYPE_U32 : DTYPE_F8_E4M3))
        return error_set(err, ERR_FORMAT, "quantized weights are stored as %s instead of %s",
                         dtype_info(w->dtype)->name, mlx ? "u32" : "f8_e4m3");
    if (w->kind == MATRIX_MLX_AFFINE && !check_affine(w, err))
        return false;
    if (w->kind == MATRIX_F8_SCALED && (w->block_rows < 1 || w->block_cols < 1))
        return error_set(err, ERR_FORMAT, "scales for blocks of %d x %d weights", w->block_rows,
                         w->block_cols);
    bool by_byte = mlx && w->kind != MATRIX_MLX_AFFINE;
    if (by_byte ? w->scale_dtype != DTYPE_U8 : !is_small_float(w->scale_dtype))
        return error_set(err, ERR_FORMAT, "scales are stored as %s",
                         dtype_info(w->scale_dtype)->name);
    if (mlx && w->n_cols % matrix_group(w))
        return error_set(err, ERR_FORMAT, "%d columns are no whole number of groups of %d",
                         w->n_cols, matrix_group(w));
    size_t wanted;
    if (!w->scales || !scale_bytes(w, &wanted))
        return error_set(err, ERR_FORMAT, "quantized weights without scales");
    if (scales_bytes != wanted)
        return error_set(err, ERR_FORMAT, "%zu bytes of scales where %zu belong", scales_bytes,
                         wanted);
    if (w->kind == MATRIX_MLX_AFFINE && biases_bytes != wanted)
        return error_set(err, ERR_FORMAT, "%zu bytes of biases where %zu belong", biases_bytes,
                         wanted);
    return true;
}

bool matrix_check(struct matrix *w, size_t scales_bytes, size_t biases_bytes, struct error *err)
{
    if (w->n_rows < 1 || w->n_cols < 1 || w->n_experts < 1)
        return error_set(err, ERR_FORMAT, "a matrix of %d x %d x %d", w->n_experts, w->n_rows,
                         w->n_cols);
    if ((unsigned)w->dtype >= DTYPE_COUNT || !dtype_info(w->dtype)->can_decode)
        return error_set(err, ERR_UNSUPPORTED, "weights in format %d", (int)w->dtype);
    if (w->kind != MATRIX_PLAIN && !check_scaled(w, scales_bytes, biases_bytes, err))
        return false;
    if (is_mlx(w->kind))
        w->row_bytes = (size_t)w->n_cols / 32 * (size_t)matrix_bits(w) * 4;
    else if (!dtype_bytes(w->dtype, (uint64_t)w->n_cols, &w->row_bytes))
        return error_set(err, ERR_FORMAT,
                         "rows of %d columns are no whole number of %s blocks (%d)", w->n_cols,
                         dtype_info(w->dtype)->name, dtype_info(w->dtype)->block_len);
    size_t bytes;
    if (!mul_size(w->row_bytes, (size_t)w->n_rows, &bytes) ||
        !mul_size(bytes, (size_t)w->n_experts, &bytes) || bytes > w->n_bytes || !w->data)
        return error_set(err, ERR_FORMAT, "%zu bytes of weights do not hold %d x %d x %d of %s",
                         w->n_bytes, w->n_experts, w->n_rows, w->n_cols,
                         dtype_info(w->dtype)->name);
    if (w->scale == 0)
        w->scale = 1;
    w->packed = NULL;
    return true;
}

bool matrix_plain(struct matrix *w, enum dtype dtype, int32_t n_rows, int32_t n_cols,
                  int32_t n_experts, const void *data, size_t n_bytes, struct error *err)
{
    *w = (struct matrix){.kind = MATRIX_PLAIN,
                         .dtype = dtype,
                         .n_rows = n_rows,
                         .n_cols = n_cols,
                         .n_experts = n_experts,
                         .data = data,
                         .n_bytes = n_bytes};
    return matrix_check(w, 0, 0, err);
}

/* Number i of an array of F32, F16 or BF16. */
static float small_float_at(enum dtype dtype, const void *data, size_t i)
{
    float f;
    dtype_decode(dtype, (const char *)data + i * dtype_info(dtype)->block_bytes, &f, 1);
    return f;
}

const uint8_t *matrix_row_data(const struct matrix *w, int32_t expert, int32_t row)
{
    return (const uint8_t *)w->data +
           ((size_t)expert * (size_t)w->n_rows + (size_t)row) * w->row_bytes;
}

float matrix_group_scale(const struct matrix *w, size_t i)
{
    uint8_t v = w->scale_dtype == DTYPE_U8 ? ((const uint8_t *)w->scales)[i] : 0;
    switch (w->kind) {
    case MATRIX_MLX_MXFP4:
    case MATRIX_MLX_MXFP8:
        return e8m0_to_f32(v) * w->scale;
    case MATRIX_MLX_NVFP4:
        return e4m3_to_f32(v) * w->scale;
    default:
        return small_float_at(w->scale_dtype, w->scales, i) * w->scale;
    }
}

float matrix_group_bias(const struct matrix *w, size_t i)
{
    return small_float_at(w->scale_dtype, w->biases, i);
}

/* Values of `bits` bits stand one after another from the low end of each word;
 * on a little-endian machine that is one stream of bits. */
static unsigned mlx_bits(const uint8_t *row, size_t i, int bits)
{
    size_t at = i * (size_t)bits;
    unsigned v = row[at / 8];
    if (at % 8 + (size_t)bits > 8)
        v |= (unsigned)row[at / 8 + 1] << 8;
    return v >> at % 8 & ((1u << bits) - 1);
}

void matrix_mlx_ints(const struct matrix *w, const uint8_t *row, size_t begin, size_t n, uint8_t *q)
{
    int bits = matrix_bits(w);
    for (size_t i = 0; i < n; i++)
        q[i] = (uint8_t)mlx_bits(row, begin + i, bits);
}

/* The columns begin..begin+n of a row, n_cols a whole number of groups. */
static void decode_mlx(const struct matrix *w, const uint8_t *row, size_t first_group, size_t begin,
                       size_t n, float *out)
{
    size_t group = (size_t)matrix_group(w);
    for (size_t i = 0; i < n; i++) {
        size_t k = begin + i;
        unsigned q = mlx_bits(row, k, matrix_bits(w));
        float v = w->kind == MATRIX_MLX_AFFINE  ? (float)q
                  : w->kind == MATRIX_MLX_MXFP8 ? e4m3_to_f32((uint8_t)q)
                                                : (float)e2m1_doubled[q] * 0.5f;
        out[i] = v * matrix_group_scale(w, first_group + k / group);
        if (w->kind == MATRIX_MLX_AFFINE)
            out[i] += matrix_group_bias(w, first_group + k / group);
    }
}

static void decode_f8(const struct matrix *w, int32_t expert, int32_t row, const uint8_t *data,
                      size_t begin, size_t n, float *out)
{
    size_t across = ((size_t)w->n_cols + (size_t)w->block_cols - 1) / (size_t)w->block_cols;
    size_t down = ((size_t)w->n_rows + (size_t)w->block_rows - 1) / (size_t)w->block_rows;
    size_t first = ((size_t)expert * down + (size_t)(row / w->block_rows)) * across;
    for (size_t i = 0; i < n;) {
        size_t k = begin + i, block = k / (size_t)w->block_cols;
        float scale = matrix_group_scale(w, first + block);
        size_t end = (block + 1) * (size_t)w->block_cols - begin;
        for (; i < n && i < end; i++)
            out[i] = e4m3_to_f32(data[begin + i]) * scale;
    }
}

void matrix_decode(const struct matrix *w, int32_t expert, int32_t row, size_t begin, size_t n,
                   float *out)
{
    const uint8_t *data = matrix_row_data(w, expert, row);
    if (is_mlx(w->kind)) {
        size_t groups = (size_t)w->n_cols / (size_t)matrix_group(w);
        size_t first = ((size_t)expert * (size_t)w->n_rows + (size_t)row) * groups;
        decode_mlx(w, data, first, begin, n, out);
    } else if (w->kind == MATRIX_F8_SCALED) {
        decode_f8(w, expert, row, data, begin, n, out);
    } else {
        const struct dtype_info *info = dtype_info(w->dtype);
        dtype_decode(w->dtype, data + begin / info->block_len * info->block_bytes, out, n);
    }
}

void matrix_row(const struct matrix *w, int32_t expert, int32_t row, float *out)
{
    matrix_decode(w, expert, row, 0, (size_t)w->n_cols, out);
}

bool matrix_has_float_kernel(const struct matrix *w)
{
    return w->kind == MATRIX_PLAIN &&
           (w->dtype == DTYPE_F32 || w->dtype == DTYPE_F16 || w->dtype == DTYPE_BF16);
}
