/* matrix.c - weight matrices: checking what a file says of them, and single
 * rows decoded. */
#include "kernels/matrix.h"
#include "kernels/format.h"
#include "kernels/table.h"

#include <string.h>

static bool mul_size(size_t a, size_t b, size_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* Bytes of a row; false when its columns are no whole blocks. */
static bool bytes_of_row(const struct matrix *w, size_t *bytes)
{
    if (!dtype_info(w->dtype)->is_scaled)
        return dtype_bytes(w->dtype, (uint64_t)w->n_cols, bytes);
    *bytes = (size_t)w->n_cols * (size_t)matrix_bits(w) / 8;
    return true;
}

bool matrix_check(struct matrix *w, size_t scales_bytes, size_t biases_bytes, struct error *err)
{
    if (w->n_rows < 1 || w->n_cols < 1 || w->n_experts < 1)
        return error_set(err, ERR_FORMAT, "a matrix of %d x %d x %d", w->n_experts, w->n_rows,
                         w->n_cols);
    if ((unsigned)w->dtype >= DTYPE_COUNT)
        return error_set(err, ERR_UNSUPPORTED, "weights in format %d", (int)w->dtype);
    const struct format *f = format_of(w->dtype);
    if (f->matrix->check && !f->matrix->check(w, scales_bytes, biases_bytes, err))
        return false;
    if (!bytes_of_row(w, &w->row_bytes))
        return error_set(err, ERR_FORMAT, "rows of %d columns do not divide into %s blocks (%d)",
                         w->n_cols, f->info.name, f->info.block_len);
    size_t bytes;
    if (!mul_size(w->row_bytes, (size_t)w->n_rows, &bytes) ||
        !mul_size(bytes, (size_t)w->n_experts, &bytes) || bytes > w->n_bytes || !w->data)
        return error_set(err, ERR_FORMAT, "%zu bytes of weights do not hold %d x %d x %d of %s",
                         w->n_bytes, w->n_experts, w->n_rows, w->n_cols, f->info.name);
    if (w->scale == 0)
        w->scale = 1;
    w->packed = NULL;
    return true;
}

bool matrix_plain(struct matrix *w, enum dtype dtype, int32_t n_rows, int32_t n_cols,
                  int32_t n_experts, const void *data, size_t n_bytes, struct error *err)
{
    *w = (struct matrix){.dtype = dtype,
                         .n_rows = n_rows,
                         .n_cols = n_cols,
                         .n_experts = n_experts,
                         .data = data,
                         .n_bytes = n_bytes};
    return matrix_check(w, 0, 0, err);
}

const uint8_t *matrix_row_data(const struct matrix *w, int32_t expert, int32_t row)
{
    return (const uint8_t *)w->data +
           ((size_t)expert * (size_t)w->n_rows + (size_t)row) * w->row_bytes;
}

static void plain_row(const struct matrix *w, int32_t expert, int32_t row, float *out)
{
    dtype_decode(w->dtype, matrix_row_data(w, expert, row), out, (size_t)w->n_cols);
}

void matrix_row(const struct matrix *w, int32_t expert, int32_t row, float *out)
{
    format_of(w->dtype)->matrix->row(w, expert, row, out);
}

bool matrix_has_float_kernel(const struct matrix *w)
{
    return format_of(w->dtype)->matrix->has_float_kernel;
}

/* ---- numbers that stand alone ---- */

static size_t lanes_bytes(const struct matrix *w)
{
    return DOT_LANES * dtype_info(w->dtype)->block_bytes;
}

size_t matrix_packed_float_row(const struct matrix *w, size_t row)
{
    size_t pack = row / DOT_WEIGHTS * DOT_WEIGHTS;
    return pack * w->row_bytes + (row - pack) * lanes_bytes(w);
}

/* Of a packing that float_dots reads only the panels' size is of use. */
static struct packing packing_of_floats(const struct matrix *w)
{
    return (struct packing){.block_cols = 1, .small = dtype_info(w->dtype)->block_bytes};
}

static void pack_floats(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                        const size_t *row_numbers, uint8_t *out)
{
    size_t step = lanes_bytes(w);
    (void)k, (void)row_numbers;
    for (size_t first = 0; first < PANEL_ROWS; first += DOT_WEIGHTS) {
        for (size_t at = 0; at < w->row_bytes; at += step) {
            for (size_t r = 0; r < DOT_WEIGHTS; r++, out += step)
                memcpy(out, rows[first + r] + at, step);
        }
    }
}

const struct matrix_functions matrix_of_numbers = {.row = plain_row};
const struct matrix_functions matrix_of_floats = {
    .row = plain_row, .has_float_kernel = true, .packing = packing_of_floats, .pack = pack_floats};

/* ---- blocks ---- */

static void panel_format_of_blocks(const struct matrix *w, struct panel_format *format)
{
    const struct format *f = format_of(w->dtype);
    *format = (struct panel_format){.sub_len = f->sub_len,
                                    .offset = f->offset,
                                    .max = f->max,
                                    .has_min = f->has_min,
                                    .block_len = f->info.block_len};
}

static void unpack_blocks(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    const struct format *f = format_of(s->w->dtype);
    size_t len = f->info.block_len, bytes = f->info.block_bytes, n_subs = len / f->sub_len;
    struct block_ints ints;
    uint8_t q[DTYPE_MAX_BLOCK];
    for (size_t row = 0; row < PANEL_ROWS; row++) {
        const uint8_t *block = s->row[row] + begin / len * bytes;
        for (size_t col = 0; col < n; col += len, block += bytes) {
            f->unpack(block, &ints);
            for (size_t i = 0; i < len; i++)
                q[i] = (uint8_t)(ints.q[i] + f->offset);
            panel_place(out, row, col, q, len);
            for (size_t j = 0; j < n_subs; j++) {
                size_t at = (col / f->sub_len + j) * PANEL_ROWS + row;
                out->scale[at] = ints.scale[j] * s->w->scale;
                if (f->has_min)
                    out->min[at] = ints.min[j] * s->w->scale;
            }
        }
    }
}

static struct packing packing_of_blocks(const struct matrix *w)
{
    const struct format *f = format_of(w->dtype);
    return (struct packing){.block_cols = f->info.block_len,
                            .payload = f->info.block_bytes / DWORD * DWORD,
                            .small = f->info.block_bytes % DWORD,
                            .small_first = !f->small_last};
}

/* What of the rows' block is no whole dword. */
static void pack_small(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                       const size_t *row_numbers, size_t block, uint8_t *out)
{
    size_t at = block * (k->payload + k->small) + (k->small_first ? 0 : k->payload);
    (void)w, (void)row_numbers;
    for (size_t r = 0; r < PANEL_ROWS; r++, out += k->small)
        memcpy(out, rows[r] + at, k->small);
}

static void pack_blocks(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                        const size_t *row_numbers, uint8_t *out)
{
    matrix_pack_runs(w, k, rows, row_numbers, pack_small, out);
}

const struct matrix_functions matrix_of_blocks = {.row = plain_row,
                                                  .panel_format = panel_format_of_blocks,
                                                  .unpack = unpack_blocks,
                                                  .packing = packing_of_blocks,
                                                  .pack = pack_blocks};
