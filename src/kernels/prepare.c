/* prepare.c - packing weights for the kernels that read panels.
 *
 * Sixteen rows lie transposed, dword by dword: what an unpacking kernel would
 * otherwise gather from sixteen places and transpose in registers is then one
 * stream, which memory delivers at its full speed. Plain formats lie four rows
 * side by side, DOT_LANES columns of each. The bytes are those of the format, so
 * nothing grows but the last panel, whose missing rows repeat the last. */
#include "kernels/matrix.h"
#include "kernels/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DWORD = 4, PACKED_ALIGNMENT = 64 };

static struct packing packing_of_blocks(const struct matrix *w)
{
    const struct dtype_info *info = dtype_info(w->dtype);
    struct packing k = {.block_cols = info->block_len,
                        .payload = info->block_bytes / DWORD * DWORD,
                        .small = info->block_bytes % DWORD};
    k.small_first = w->dtype != DTYPE_Q3_K && w->dtype != DTYPE_Q6_K && w->dtype != DTYPE_TQ1_0 &&
                    w->dtype != DTYPE_TQ2_0;
    return k;
}

static struct packing packing_of_groups(const struct matrix *w)
{
    size_t group = (size_t)matrix_group(w), cols = group < BLOCK_COLS ? BLOCK_COLS : group;
    size_t n_numbers = cols / group * (w->kind == MATRIX_MLX_AFFINE ? 2 : 1);
    size_t number = dtype_info(w->scale_dtype)->block_bytes;
    return (struct packing){.block_cols = cols,
                            .payload = cols * (size_t)matrix_bits(w) / 8,
                            .small = n_numbers * number,
                            .group = group,
                            .number = number};
}

/* Of a plain format, which float_dots reads, only the panels' size is of use. */
struct packing matrix_packing(const struct matrix *w)
{
    struct packing k = w->kind == MATRIX_PLAIN ? packing_of_blocks(w) : packing_of_groups(w);
    k.n_blocks = (size_t)w->n_cols / k.block_cols;
    k.run_bytes = PACK_RUN * (k.payload + k.small) * PANEL_ROWS;
    k.n_bytes = k.n_blocks * (k.payload + k.small) * PANEL_ROWS;
    k.n_bytes = (k.n_bytes + PACKED_ALIGNMENT - 1) / PACKED_ALIGNMENT * PACKED_ALIGNMENT;
    return k;
}

static size_t panels_per_expert(const struct matrix *w)
{
    return ((size_t)w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
}

const uint8_t *matrix_packed(const struct matrix *w, const struct packing *k, int32_t expert,
                             int32_t first_row)
{
    if (!w->packed)
        return NULL;
    size_t panel = (size_t)expert * panels_per_expert(w) + (size_t)first_row / PANEL_ROWS;
    return (const uint8_t *)w->packed + panel * k->n_bytes;
}

static size_t lanes_bytes(const struct matrix *w)
{
    return DOT_LANES * dtype_info(w->dtype)->block_bytes;
}

size_t matrix_packed_float_row(const struct matrix *w, size_t row)
{
    size_t pack = row / DOT_WEIGHTS * DOT_WEIGHTS;
    return pack * w->row_bytes + (row - pack) * lanes_bytes(w);
}

static void pack_floats(const struct matrix *w, const uint8_t *const *rows, uint8_t *out)
{
    size_t step = lanes_bytes(w);
    for (size_t first = 0; first < PANEL_ROWS; first += DOT_WEIGHTS) {
        for (size_t at = 0; at < w->row_bytes; at += step) {
            for (size_t r = 0; r < DOT_WEIGHTS; r++, out += step)
                memcpy(out, rows[first + r] + at, step);
        }
    }
}

/* Whether the kernels that run read it packed. */
static bool gains(const struct matrix *w)
{
    struct panel_format format;
    if (matrix_has_float_kernel(w))
        return kernel_table() != &kernels_generic && w->n_cols % DOT_LANES == 0;
    return panel_format_of(w, &format) && kernel_table()->reads_packed(w);
}

/* The small scales of a block of an MLX kind: those of its groups, then the biases. */
static uint8_t *pack_group(const struct matrix *w, const struct packing *k,
                           const size_t *row_numbers, size_t block, uint8_t *out)
{
    size_t n_groups = (size_t)w->n_cols / k->group, size = k->number;
    size_t per_block = k->block_cols / k->group;
    const void *data[2] = {w->scales, w->kind == MATRIX_MLX_AFFINE ? w->biases : NULL};
    for (size_t i = 0; i < 2 && data[i]; i++) {
        for (size_t g = block * per_block; g < (block + 1) * per_block; g++) {
            for (size_t r = 0; r < PANEL_ROWS; r++, out += size)
                memcpy(out, (const uint8_t *)data[i] + (row_numbers[r] * n_groups + g) * size,
                       size);
        }
    }
    return out;
}

static void pack_blocks(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                        const size_t *row_numbers, uint8_t *out)
{
    bool mlx = w->kind != MATRIX_PLAIN;
    size_t stride = mlx ? k->payload : k->payload + k->small;
    size_t skip = !mlx && k->small_first ? k->small : 0, small = skip ? 0 : k->payload;
    for (size_t first = 0; first < k->n_blocks; first += PACK_RUN) {
        size_t end = k->n_blocks - first < PACK_RUN ? k->n_blocks : first + PACK_RUN;
        for (size_t b = first; b < end; b++) {
            for (size_t at = skip; at < skip + k->payload; at += DWORD) {
                for (size_t r = 0; r < PANEL_ROWS; r++, out += DWORD)
                    memcpy(out, rows[r] + b * stride + at, DWORD);
            }
        }
        for (size_t b = first; b < end && mlx; b++)
            out = pack_group(w, k, row_numbers, b, out);
        for (size_t b = first; b < end && !mlx; b++) {
            for (size_t r = 0; r < PANEL_ROWS; r++, out += k->small)
                memcpy(out, rows[r] + b * stride + small, k->small);
        }
    }
}

static void pack_panel(const struct matrix *w, const struct packing *k, size_t panel)
{
    int32_t expert = (int32_t)(panel / panels_per_expert(w));
    int32_t first = (int32_t)(panel % panels_per_expert(w)) * PANEL_ROWS;
    const uint8_t *rows[PANEL_ROWS];
    size_t numbers[PANEL_ROWS];
    uint8_t *out = (uint8_t *)w->packed + panel * k->n_bytes;
    for (int32_t r = 0; r < PANEL_ROWS; r++) {
        int32_t row = first + r < w->n_rows ? first + r : w->n_rows - 1;
        rows[r] = matrix_row_data(w, expert, row);
        numbers[r] = (size_t)expert * (size_t)w->n_rows + (size_t)row;
    }
    if (matrix_has_float_kernel(w))
        pack_floats(w, rows, out);
    else
        pack_blocks(w, k, rows, numbers, out);
}

static void pack_panels(void *arg, size_t begin, size_t end, int32_t thread)
{
    struct matrix *w = arg;
    (void)thread;
    struct packing k = matrix_packing(w);
    for (size_t panel = begin; panel < end; panel++)
        pack_panel(w, &k, panel);
}

/* Fewer pages to look up, and fewer to be zeroed one by one when first written. */
static void prefer_large_pages(void *data, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data;
    uintptr_t first = (begin + page - 1) / page * page, last = (begin + bytes) / page * page;
    if (last > first)
        (void)madvise((void *)first, last - first, MADV_HUGEPAGE);
#else
    (void)data;
    (void)bytes;
#endif
}

bool matrix_prepare(struct matrix *w, struct worker_pool *pool, struct error *err)
{
    if (w->packed || !gains(w))
        return true;
    size_t n_panels = panels_per_expert(w) * (size_t)w->n_experts, bytes;
    if (__builtin_mul_overflow(n_panels, matrix_packing(w).n_bytes, &bytes))
        return error_memory(err);
    w->packed = aligned_alloc(PACKED_ALIGNMENT, bytes);
    if (!w->packed)
        return error_memory(err);
    prefer_large_pages(w->packed, bytes);
    worker_pool_each(pool, n_panels, 8, pack_panels, w);
    return true;
}

void matrix_release(struct matrix *w)
{
    free(w->packed);
    w->packed = NULL;
}
