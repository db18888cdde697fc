/* matrix.h - what the module's own files see of a weight matrix. */
#ifndef MLXCEL_KERNELS_MATRIX_H
#define MLXCEL_KERNELS_MATRIX_H

#include "kernels/kernels.h"

/* Elements that share a scale (0: F8_SCALED, whose blocks do) and bits of an element, of the
 * scaled formats. */
int32_t matrix_group(const struct matrix *w);
int32_t matrix_bits(const struct matrix *w);
const uint8_t *matrix_row_data(const struct matrix *w, int32_t expert, int32_t row);

/* How sixteen rows of a block format are packed: by runs of PACK_RUN blocks, of each
 * run first the blocks without their small scales (whose bytes are no whole dwords),
 * transposed by dwords: [block][dword][16 rows]; then the small scales, [block][16 rows].
 * Of MLX's formats a block is a group, or 32 columns if that is more; its small scales
 * are the groups' scales, then the biases, each [16 rows]. */
enum { PACK_RUN = 4, DWORD = 4 };

struct packing {
    size_t block_cols;
    size_t payload;   /* bytes of a row's block but its small scales */
    size_t small;     /* bytes of those */
    bool small_first; /* in the file's format they stand before the rest */
    size_t n_blocks;  /* of a row */
    size_t group;     /* MLX's formats: columns that share a scale ... */
    size_t number;    /* ... of so many bytes */
    size_t run_bytes;
    size_t n_bytes; /* of a panel */
};
struct packing matrix_packing(const struct matrix *w);
/* Pack sixteen rows so; `small` writes the small scales of a block. */
typedef void (*pack_small_fn)(const struct matrix *w, const struct packing *k,
                              const uint8_t *const *rows, const size_t *row_numbers, size_t block,
                              uint8_t *out);
void matrix_pack_runs(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                      const size_t *row_numbers, pack_small_fn small, uint8_t *out);

/* What matrix_prepare packed of the sixteen rows from first_row on, or NULL. */
const uint8_t *matrix_packed(const struct matrix *w, const struct packing *k, int32_t expert,
                             int32_t first_row);
/* Whether its elements are multiplied as floats that need no decoding. */
bool matrix_has_float_kernel(const struct matrix *w);
/* Where, in what was packed of such a matrix, a row (of sixteen) begins. */
size_t matrix_packed_float_row(const struct matrix *w, size_t row);

#endif
