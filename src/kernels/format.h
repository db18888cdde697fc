/* format.h - what the module's own files see of a format: its row of the table.
 *
 * Whoever needs something of a format asks its row. How a format is stored is said once,
 * in plain C, by the functions that the row names; the kernels of the instruction sets are
 * measured against them. */
#ifndef MLXCEL_KERNELS_FORMAT_H
#define MLXCEL_KERNELS_FORMAT_H

#include "kernels/kernels.h"

struct packing;
struct panel;
struct panel_format;
struct panel_source;

/* A block: value i = scale[i / sub_len] * q[i] + min[i / sub_len]. */
struct block_ints {
    int8_t q[DTYPE_MAX_BLOCK];
    float scale[DTYPE_MAX_BLOCK / 16];
    float min[DTYPE_MAX_BLOCK / 16];
};

/* What is done with a matrix, by the way its numbers and scales lie. */
struct matrix_functions {
    /* What is the way's own to check; NULL: nothing. */
    bool (*check)(const struct matrix *w, size_t scales_bytes, size_t biases_bytes,
                  struct error *err);
    /* A row, decoded. */
    void (*row)(const struct matrix *w, int32_t expert, int32_t row, float *out);
    /* float_dots reads its rows as they are. */
    bool has_float_kernel;
    /* The panels it is multiplied through; NULL: through floats. */
    void (*panel_format)(const struct matrix *w, struct panel_format *format);
    /* Columns of a panel, unpacked in plain C from rows that are not packed. */
    void (*unpack)(const struct panel_source *source, size_t begin, size_t n, struct panel *out);
    /* How sixteen rows are packed, and packing them; NULL: they never are. */
    struct packing (*packing)(const struct matrix *w);
    void (*pack)(const struct matrix *w, const struct packing *k, const uint8_t *const *rows,
                 const size_t *row_numbers, uint8_t *out);
};

struct format {
    struct dtype_info info;
    const struct matrix_functions *matrix;

    /* Numbers that stand alone: n of them. encode may be NULL. */
    void (*decode)(const void *in, float *out, size_t n);
    void (*encode)(const float *x, void *out, size_t n);

    /* Blocks, of integers q with q + offset in 0..max. */
    uint8_t sub_len; /* elements that share a scale: 16 or 32 */
    bool has_min;    /* else every min is 0 and is not written */
    uint8_t offset;
    uint8_t max;
    bool small_last; /* what is no whole dword stands behind the rest, not before it */
    void (*unpack)(const uint8_t *block, struct block_ints *out); /* NULL: no block format */
    void (*encode_block)(const float *x, uint8_t *block);         /* or NULL, and then: */
    /* make random bytes a block whose values lie within +-amplitude, or (NULL) how large
     * its values become for an F16 factor, its first two bytes, of one */
    void (*set_scale)(uint8_t *block, float amplitude);
    float largest;

    /* Matrices of several tensors: what stored integers and bytes of scales stand for;
     * NULL: the integers themselves, and scales that are floats. */
    float (*value)(uint8_t q);
    float (*group_scale)(uint8_t v);
};

extern const struct format format_table[DTYPE_COUNT];

static inline const struct format *format_of(enum dtype dtype)
{
    return &format_table[dtype];
}

extern const struct matrix_functions matrix_of_numbers, matrix_of_floats, matrix_of_blocks,
    matrix_of_scaled_f8, matrix_of_mlx, matrix_of_mlx_bytes;

/* The functions that the rows name. */
#define DECLARE(ID, id, ...) void decode_##id(const void *in, float *out, size_t n);
PLAIN_FORMATS(DECLARE)
#undef DECLARE
void encode_f32(const float *x, void *out, size_t n);
void encode_f16(const float *x, void *out, size_t n);
void encode_bf16(const float *x, void *out, size_t n);
void encode_f64(const float *x, void *out, size_t n);
#define DECLARE(ID, id, ...)                                                                       \
    void unpack_##id(const uint8_t *block, struct block_ints *out);                                \
    void encode_##id(const float *x, uint8_t *block); /* where the row names it */
BLOCK_FORMATS(DECLARE)
#undef DECLARE
void set_scale_q8_1(uint8_t *block, float amplitude);
void set_scale_q8_k(uint8_t *block, float amplitude);
void set_scale_iq1_m(uint8_t *block, float amplitude);

#endif
