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

enum { ROW_BYTES_UNIT = 4, PACKED_ALIGNMENT = 64 };

/* The row's dwords and one more, since kernels put odd bytes together from two. */
static size_t panel_bytes(const struct matrix *w)
{
    if (matrix_has_float_kernel(w))
        return w->row_bytes * PANEL_ROWS;
    size_t dwords = (w->row_bytes + ROW_BYTES_UNIT - 1) / ROW_BYTES_UNIT + 1;
    return dwords * ROW_BYTES_UNIT * PANEL_ROWS;
}

static size_t panels_per_expert(const struct matrix *w)
{
    return ((size_t)w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
}

const uint8_t *matrix_packed(const struct matrix *w, int32_t expert, int32_t first_row)
{
    if (!w->packed)
        return NULL;
    size_t panel = (size_t)expert * panels_per_expert(w) + (size_t)first_row / PANEL_ROWS;
    return (const uint8_t *)w->packed + panel * panel_bytes(w);
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

static void pack_panel(const struct matrix *w, size_t panel, uint8_t *out)
{
    int32_t expert = (int32_t)(panel / panels_per_expert(w));
    int32_t first = (int32_t)(panel % panels_per_expert(w)) * PANEL_ROWS;
    const uint8_t *rows[PANEL_ROWS];
    for (int32_t r = 0; r < PANEL_ROWS; r++)
        rows[r] = matrix_row_data(w, expert, first + r < w->n_rows ? first + r : w->n_rows - 1);
    if (matrix_has_float_kernel(w)) {
        pack_floats(w, rows, out);
        return;
    }
    size_t whole = w->row_bytes / ROW_BYTES_UNIT * ROW_BYTES_UNIT, at = 0;
    for (; at < whole; at += ROW_BYTES_UNIT) {
        for (size_t r = 0; r < PANEL_ROWS; r++, out += ROW_BYTES_UNIT)
            memcpy(out, rows[r] + at, ROW_BYTES_UNIT);
    }
    for (size_t r = 0; at < w->row_bytes && r < PANEL_ROWS; r++, out += ROW_BYTES_UNIT)
        memcpy(out, rows[r] + at, w->row_bytes - at);
}

static void pack_panels(void *arg, size_t begin, size_t end, int32_t thread)
{
    struct matrix *w = arg;
    (void)thread;
    for (size_t panel = begin; panel < end; panel++)
        pack_panel(w, panel, (uint8_t *)w->packed + panel * panel_bytes(w));
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
    if (__builtin_mul_overflow(n_panels, panel_bytes(w), &bytes))
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
