/* matrix_scaled.c - matrices of several tensors: MLX's groups of packed integers and small
 * floats, and 8-bit floats with scales by blocks. */
#include "kernels/blocks.h"
#include "kernels/format.h"
#include "kernels/matrix.h"
#include "kernels/table.h"

#include <string.h>

int32_t matrix_group(const struct matrix *w)
{
    const struct dtype_info *info = dtype_info(w->dtype);
    return info->has_biases ? w->group_size : info->group_len;
}

int32_t matrix_bits(const struct matrix *w)
{
    const struct dtype_info *info = dtype_info(w->dtype);
    return info->has_biases ? w->bits : info->bits;
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
    return !dtype_info(dtype)->is_scaled && format_of(dtype)->matrix->has_float_kernel;
}

static size_t ceil_divide(int32_t a, int32_t b)
{
    return ((size_t)a + (size_t)b - 1) / (size_t)b;
}

/* Scales (and biases) of an expert. */
static bool scales_per_expert(const struct matrix *w, size_t *n)
{
    size_t down = (size_t)w->n_rows, across;
    if (matrix_group(w)) {
        across = (size_t)(w->n_cols / matrix_group(w));
    } else {
        down = ceil_divide(w->n_rows, w->block_rows);
        across = ceil_divide(w->n_cols, w->block_cols);
    }
    return !__builtin_mul_overflow(down, across, n);
}

static bool check_scales(const struct matrix *w, size_t scales_bytes, size_t biases_bytes,
                         struct error *err)
{
    if (format_of(w->dtype)->group_scale ? w->scale_dtype != DTYPE_U8
                                         : !is_small_float(w->scale_dtype))
        return error_set(err, ERR_FORMAT, "scales are stored as %s",
                         dtype_info(w->scale_dtype)->name);
    if (matrix_group(w) && w->n_cols % matrix_group(w))
        return error_set(err, ERR_FORMAT, "%d columns do not divide into groups of %d", w->n_cols,
                         matrix_group(w));
    size_t wanted;
    if (!w->scales || !scales_per_expert(w, &wanted) ||
        __builtin_mul_overflow(wanted, (size_t)w->n_experts, &wanted) ||
        __builtin_mul_overflow(wanted, dtype_info(w->scale_dtype)->block_bytes, &wanted))
        return error_set(err, ERR_FORMAT, "quantized weights without scales");
    if (scales_bytes != wanted)
        return error_set(err, ERR_FORMAT, "%zu bytes of scales where %zu belong", scales_bytes,
                         wanted);
    if (dtype_info(w->dtype)->has_biases && biases_bytes != wanted)
        return error_set(err, ERR_FORMAT, "%zu bytes of biases where %zu belong", biases_bytes,
                         wanted);
    return true;
}

static bool check_mlx(const struct matrix *w, size_t scales_bytes, size_t biases_bytes,
                      struct error *err)
{
    if (dtype_info(w->dtype)->has_biases && !check_affine(w, err))
        return false;
    if (w->n_cols % BLOCK_COLS)
        return error_set(err, ERR_FORMAT, "%d columns are not a multiple of %d", w->n_cols,
                         BLOCK_COLS);
    return check_scales(w, scales_bytes, biases_bytes, err);
}

static bool check_f8(const struct matrix *w, size_t scales_bytes, size_t biases_bytes,
                     struct error *err)
{
    if (w->block_rows < 1 || w->block_cols < 1)
        return error_set(err, ERR_FORMAT, "scales for blocks of %d x %d weights", w->block_rows,
                         w->block_cols);
    return check_scales(w, scales_bytes, biases_bytes, err);
}

/* Number i of an array of F32, F16 or BF16. */
static float small_float_at(enum dtype dtype, const void *data, size_t i)
{
    float f;
    dtype_decode(dtype, (const char *)data + i * dtype_info(dtype)->block_bytes, &f, 1);
    return f;
}

static float group_scale(const struct matrix *w, size_t i)
{
    const struct format *f = format_of(w->dtype);
    float scale = f->group_scale ? f->group_scale(((const uint8_t *)w->scales)[i])
                                 : small_float_at(w->scale_dtype, w->scales, i);
    return scale * w->scale;
}

static float group_bias(const struct matrix *w, size_t i)
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

static void mlx_ints(const struct matrix *w, const uint8_t *row, size_t begin, size_t n, uint8_t *q)
{
    int bits = matrix_bits(w);
    for (size_t i = 0; i < n; i++)
        q[i] = (uint8_t)mlx_bits(row, begin + i, bits);
}

static void mlx_row(const struct matrix *w, int32_t expert, int32_t row, float *out)
{
    const struct format *f = format_of(w->dtype);
    const uint8_t *data = matrix_row_data(w, expert, row);
    size_t group = (size_t)matrix_group(w), groups = (size_t)w->n_cols / group;
    size_t first = ((size_t)expert * (size_t)w->n_rows + (size_t)row) * groups;
    for (size_t k = 0; k < (size_t)w->n_cols; k++) {
        unsigned q = mlx_bits(data, k, matrix_bits(w));
        float v = f->value ? f->value((uint8_t)q) : (float)q;
        out[k] = v * group_scale(w, first + k / group);
        if (f->info.has_biases)
            out[k] += group_bias(w, first + k / group);
    }
}

static void f8_row(const struct matrix *w, int32_t expert, int32_t row, float *out)
{
    const struct format *f = format_of(w->dtype);
    const uint8_t *data = matrix_row_data(w, expert, row);
    size_t n = (size_t)w->n_cols, width = (size_t)w->block_cols;
    size_t across = ceil_divide(w->n_cols, w->block_cols);
    size_t down = ceil_divide(w->n_rows, w->block_rows);
    size_t first = ((size_t)expert * down + (size_t)(row / w->block_rows)) * across;
    for (size_t block = 0; block < across; block++) {
        float scale = group_scale(w, first + block);
        size_t end = n - block * width < width ? n : (block + 1) * width;
        for (size_t k = block * width; k < end; k++)
            out[k] = f->value(data[k]) * scale;
    }
}

static void mlx_panel_format(const struct matrix *w, struct panel_format *format)
{
    const struct dtype_info *info = dtype_info(w->dtype);
    *format = (struct panel_format){.sub_len = BLOCK_COLS, .block_len = BLOCK_COLS};
    if (info->has_biases) {
        format->max = (uint8_t)((1u << w->bits) - 1);
        format->has_min = true;
    } else { /* E2M1, doubled */
        format->sub_len = (uint8_t)info->group_len;
        format->offset = 12;
        format->max = 24;
    }
}

/* The integers of one row's columns from `at` on, as panels hold them. */
static void panel_ints(const struct matrix *w, const uint8_t *row, size_t at, size_t n,
                       uint8_t offset, uint8_t *q)
{
    mlx_ints(w, row, at, n, q);
    for (size_t i = 0; format_of(w->dtype)->value && i < n; i++)
        q[i] = (uint8_t)(e2m1_doubled[q[i]] + (int)offset);
}

static void unpack_mlx(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    const struct matrix *w = s->w;
    size_t group = (size_t)matrix_group(w), sub = out->format.sub_len;
    size_t groups = (size_t)w->n_cols / group;
    bool affine = dtype_info(w->dtype)->has_biases;
    for (size_t row = 0; row < PANEL_ROWS; row++) {
        size_t real = row < (size_t)s->n_rows ? row : (size_t)s->n_rows - 1;
        size_t first =
            ((size_t)s->expert * (size_t)w->n_rows + (size_t)s->first_row + real) * groups;
        for (size_t col = 0; col < n; col += sub) {
            uint8_t q[BLOCK_COLS];
            panel_ints(w, s->row[row], begin + col, sub, out->format.offset, q);
            panel_place(out, row, col, q, sub);
            size_t i = first + (begin + col) / group, at = col / sub * PANEL_ROWS + row;
            float scale = group_scale(w, i);
            out->scale[at] = affine ? scale : scale * 0.5f;
            if (affine)
                out->min[at] = group_bias(w, i);
        }
    }
}

static struct packing packing_of_groups(const struct matrix *w)
{
    size_t group = (size_t)matrix_group(w), cols = group < BLOCK_COLS ? BLOCK_COLS : group;
    size_t n_numbers = cols / group * (dtype_info(w->dtype)->has_biases ? 2 : 1);
    size_t number = dtype_info(w->scale_dtype)->block_bytes;
    return (struct packing){.block_cols = cols,
                            .payload = cols * (size_t)matrix_bits(w) / 8,
                            .small = n_numbers * number,
                            .group = group,
                            .number = number};
}

/* The small scales of a block: those of its groups, then the biases. */
static void pack_small(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                       const size_t *row_numbers, size_t block, uint8_t *out)
{
    size_t n_groups = (size_t)w->n_cols / k->group, size = k->number;
    size_t per_block = k->block_cols / k->group;
    const void *data[2] = {w->scales, dtype_info(w->dtype)->has_biases ? w->biases : NULL};
    (void)rows;
    for (size_t i = 0; i < 2 && data[i]; i++) {
        for (size_t g = block * per_block; g < (block + 1) * per_block; g++) {
            for (size_t r = 0; r < PANEL_ROWS; r++, out += size)
                memcpy(out, (const uint8_t *)data[i] + (row_numbers[r] * n_groups + g) * size,
                       size);
        }
    }
}

static void pack_mlx(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                     const size_t *row_numbers, uint8_t *out)
{
    matrix_pack_runs(w, k, rows, row_numbers, pack_small, out);
}

const struct matrix_functions matrix_of_mlx = {.check = check_mlx,
                                               .row = mlx_row,
                                               .panel_format = mlx_panel_format,
                                               .unpack = unpack_mlx,
                                               .packing = packing_of_groups,
                                               .pack = pack_mlx};
/* Eight-bit floats are multiplied as the floats that they stand for. */
const struct matrix_functions matrix_of_mlx_bytes = {.check = check_mlx, .row = mlx_row};
const struct matrix_functions matrix_of_scaled_f8 = {.check = check_f8, .row = f8_row};
