/* table.h - the kernels that exist once per instruction set.
 *
 * Private to the module. kernel_table() is the one chosen for this processor;
 * each instruction set fills in what it does better and takes the rest from the
 * plain-C table.
 *
 * Multiplying with a block format: weights are unpacked into panels of 16 rows
 * (struct panel), so that one activation, broadcast, serves 16 outputs; the
 * products of a block of 32 columns are summed exactly, in integers, and the
 * blocks' sums are added in the order of the columns. A result is therefore the
 * same for every number of rows, threads and panels.
 *
 * Multiplying with a plain format: each output is 16 (a vector's) partial sums
 * over every 16th column, added up at the end in a fixed order. */
#ifndef MLXCEL_KERNELS_TABLE_H
#define MLXCEL_KERNELS_TABLE_H

#include "kernels/kernels.h"
#include "kernels/matrix.h"

enum {
    PANEL_ROWS = 16,
    BLOCK_COLS = 32, /* activations share a scale */
    WIDE_COLS = 256, /* ... or these, with weights in blocks of 256 */
    TILE_TOKENS = 6, /* the most that panel_dot takes at once ... */
    TILE_PANELS = 2, /* ... with so many panels */
    DOT_LANES = 16,  /* partial sums of float_dots */
    DOT_WEIGHTS = 4, /* the most rows of weights of float_dots ... */
    DOT_TOKENS = 6,  /* ... and of activations */
    FLOAT_STEP = DOT_WEIGHTS * DOT_LANES
};

/* What the panels of a format look like. */
struct panel_format {
    uint8_t sub_len; /* 16 or 32 columns share a scale */
    uint8_t offset;  /* stored integers are q + offset */
    uint8_t max;     /* and 0..max */
    bool has_min;
    uint16_t block_len; /* columns unpacked at a time: begin and n are multiples */
};

/* Sixteen rows of a matrix; rows past its end repeat the last. */
struct panel_source {
    const struct matrix *w;
    struct panel_format format;
    int32_t expert, first_row, n_rows; /* n_rows of PANEL_ROWS exist */
    const uint8_t *row[PANEL_ROWS];
    const uint8_t *packed; /* the panel as matrix_prepare packed it, or NULL */
    struct packing packing;
};

/* Unpacked columns: integers [cols/4][16 rows][4 cols], scales and minimums
 * [cols/sub_len][16 rows]. 64-byte aligned. */
struct panel {
    struct panel_format format;
    uint8_t *q;
    float *scale;
    float *min;
};

/* Put n integers of one row, from column `col` on, in their places. */
static inline void panel_place(const struct panel *out, size_t row, size_t col, const uint8_t *q,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = col + i;
        out->q[k / 4 * (PANEL_ROWS * 4) + row * 4 + k % 4] = q[i];
    }
}

/* Activations of up to TILE_TOKENS rows, from some column on. */
struct act_tile {
    const int8_t *q[TILE_TOKENS];     /* [cols] */
    const float *scale[TILE_TOKENS];  /* [cols/32] */
    const float *sum[TILE_TOKENS];    /* [cols/sub_len] scale * sum of q; has_min only */
    const int32_t *bias[TILE_TOKENS]; /* [cols/sub_len] -offset * sum of q; offset != 0 only */
};

/* One row of activations in 8 bits. */
struct act_row {
    int8_t *q;      /* [n] -127..127 */
    float *scale;   /* [n/32] */
    int32_t *sum16; /* [n/16] sums of q */
};

/* Of the largest and the smallest of WIDE_COLS numbers, the one that is farther
 * from zero; of two equally far, the one that comes first. */
static inline float wide_extreme(const float *x, float largest, float smallest)
{
    if (largest != -smallest)
        return largest > -smallest ? largest : smallest;
    for (size_t i = 0; i < WIDE_COLS; i++) {
        if (x[i] == largest || x[i] == smallest)
            return x[i];
    }
    return smallest;
}

struct kernel_table {
    const char *name;
    /* x[n] (n a multiple of 32) to 8 bits, each 32 by their own largest; the
     * scales are rounded to half precision. */
    void (*quantize)(const float *x, size_t n, const struct act_row *out);
    /* The same (n a multiple of 256), each 256 by their own largest; the scale
     * is written for each 32 of them. What matrices in blocks of 256 are
     * multiplied with. */
    void (*quantize_wide)(const float *x, size_t n, const struct act_row *out);
    /* Columns begin..begin+n of a panel, whole blocks of its format. */
    void (*unpack)(const struct panel_source *source, size_t begin, size_t n, struct panel *out);
    /* acc[p * n_tokens + t][0..16) += panel p times row t of the tile over n
     * columns; n_panels of one format. */
    void (*panel_dot)(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                      size_t n, size_t n_tokens, float *const *acc);
    /* The same of one packed panel, from column 0 on, and one row; NULL where there
     * is none. */
    void (*panel_one)(const struct panel_source *source, const struct act_tile *tile, size_t n,
                      float *acc);
    /* acc[(i * n_x + t) * DOT_LANES + lane] += w[i][k] * x[t][k] for k of n with
     * k % DOT_LANES == lane; w of dtype F32, F16 or BF16. Where w[i] has its DOT_LANES
     * columns from k on: at element k / DOT_LANES * step, DOT_LANES for rows as they
     * are in the file (then n may end within), FLOAT_STEP for packed ones. */
    void (*float_dots)(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                       const float *const *x, size_t n_x, size_t n, float *acc);
    float (*lanes_sum)(const float *acc);
    /* whether unpack (or float_dots) reads what matrix_prepare packs of such a matrix */
    bool (*reads_packed)(const struct matrix *w);
    /* n elements (whole blocks) of any format to floats. */
    void (*decode)(enum dtype dtype, const void *blocks, float *out, size_t n);
    /* scores[i * stride + c] = q[i] . k[c], n_q rows of q and n_k of k, dim floats each */
    void (*scores)(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                   float *scores, size_t stride);
    /* The same with keys in half precision, each where it lies, and asks for what lies
     * so many bytes ahead of each; NULL where there is none. */
    void (*scores_half)(const float *const *q, size_t n_q, const uint16_t *const *k, size_t ahead,
                        size_t n_k, size_t dim, float *scores, size_t stride);
    /* out[i][0..dim) += sum over c of weights[i * stride + c] * v[c] */
    void (*values)(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                   size_t dim, float *const *out);
    /* For each of n_q rows, whose weights begin `stride` apart and whose acc, dim:
     * acc = half(half(acc * shrink[c]) + weights[c] * v[c]) for c of n_k in their
     * order, where half rounds to half precision (an acc beyond its range may go on
     * in F32); cells of weight 0 are left out. shrink is like weights, but 1 all over for a row i
     * without shrinks[i], where it is not read. v[c] is [dim], in half precision; asks for what
     * lies so many bytes ahead of each. */
    void (*values_half)(const float *weights, const float *shrink, const bool *shrinks,
                        size_t stride, size_t n_q, const uint16_t *const *v, size_t ahead,
                        size_t n_k, size_t dim, float *acc);
    /* c[i][j] += sum over k of a[i * n_k + k] * b[k * n_cols + j], the terms added one
     * after another in the order of k, for i of n_rows and j of n_cols. */
    void (*product)(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,
                    float *const *c);
    /* out[j * n_rows + i] = in[i * n_cols + j] */
    void (*transpose)(const float *in, size_t n_rows, size_t n_cols, float *out);
    /* y[i] = exp(x[i] - max), returns their sum; y may be x */
    float (*exp_sum)(const float *x, float max, size_t n, float *y);
    void (*activate)(enum activation act, const float *x, size_t n, float *y);
};

const struct kernel_table *kernel_table(void);

/* How w is multiplied: false when through floats. */
bool panel_format_of(const struct matrix *w, struct panel_format *format);

extern const struct kernel_table kernels_avx512, kernels_avx2;
extern const struct kernel_table kernels_neon_dot, kernels_neon;

/* Table i of those that work on this processor, the best first; NULL past the
 * last. For tests. */
const struct kernel_table *kernel_table_at(size_t i);

/* The plain-C kernels. */
extern const struct kernel_table kernels_generic;
void quantize_generic(const float *x, size_t n, const struct act_row *out);
void quantize_wide_generic(const float *x, size_t n, const struct act_row *out);
void values_half_generic(const float *weights, const float *shrink, const bool *shrinks,
                         size_t stride, size_t n_q, const uint16_t *const *v, size_t ahead,
                         size_t n_k, size_t dim, float *acc);
void unpack_generic(const struct panel_source *source, size_t begin, size_t n, struct panel *out);
void panel_dot_generic(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                       size_t n, size_t n_tokens, float *const *acc);
void float_dots_generic(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                        const float *const *x, size_t n_x, size_t n, float *acc);
float lanes_sum_generic(const float *acc);
void scores_generic(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                    float *scores, size_t stride);
void values_generic(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                    size_t dim, float *const *out);
void product_generic(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,
                     float *const *c);
void transpose_generic(const float *in, size_t n_rows, size_t n_cols, float *out);
float exp_sum_generic(const float *x, float max, size_t n, float *y);
void activate_generic(enum activation act, const float *x, size_t n, float *y);

#endif
