/* prepare.c - packing weights for the kernels that read panels.
 *
 * Sixteen rows lie transposed, dword by dword: what an unpacking kernel would
 * otherwise gather from sixteen places and transpose in registers is then one
 * stream, which memory delivers at its full speed. Plain formats lie four rows
 * side by side, DOT_LANES columns of each. The bytes are those of the format, so
 * nothing grows but the last panel, whose missing rows repeat the last. */
#include "kernels/format.h"
#include "kernels/matrix.h"
#include "kernels/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PACKED_ALIGNMENT = 64 };

struct packing matrix_packing(const struct matrix *w)
{
    struct packing k = format_of(w->dtype)->matrix->packing(w);
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

/* Whether the kernels that run read it packed. */
static bool gains(const struct matrix *w)
{
    return format_of(w->dtype)->matrix->pack && kernel_table()->reads_packed(w);
}

void matrix_pack_runs(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                      const size_t *row_numbers, pack_small_fn small, uint8_t *out)
{
    size_t stride = w->row_bytes / k->n_blocks, skip = k->small_first ? k->small : 0;
    for (size_t first = 0; first < k->n_blocks; first += PACK_RUN) {
        size_t end = k->n_blocks - first < PACK_RUN ? k->n_blocks : first + PACK_RUN;
        for (size_t b = first; b < end; b++) {
            for (size_t at = skip; at < skip + k->payload; at += DWORD) {
                for (size_t r = 0; r < PANEL_ROWS; r++, out += DWORD)
                    memcpy(out, rows[r] + b * stride + at, DWORD);
            }
        }
        for (size_t b = first; b < end; b++, out += k->small * PANEL_ROWS)
            small(w, k, rows, row_numbers, b, out);
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
    format_of(w->dtype)->matrix->pack(w, k, rows, numbers, out);
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
