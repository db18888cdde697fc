/* avx2.h - the kernels of the AVX2 table. */
#ifndef MLXCEL_KERNELS_AVX2_H
#define MLXCEL_KERNELS_AVX2_H

#include "kernels/table.h"

void panel_dot_avx2(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                    size_t n, size_t n_tokens, float *const *acc);
void panel_one_avx2(const struct panel_source *s, const struct act_tile *tile, size_t n,
                    float *acc);
bool reads_packed_avx2(const struct matrix *w);
void unpack_avx2(const struct panel_source *s, size_t begin, size_t n, struct panel *out);
void quantize_avx2(const float *x, size_t n, const struct act_row *out);
void quantize_wide_avx2(const float *x, size_t n, const struct act_row *out);

void float_dots_avx2(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                     const float *const *x, size_t n_x, size_t n, float *acc);
float lanes_sum_avx2(const float *acc);

void decode_avx2(enum dtype dtype, const void *blocks, float *out, size_t n);
void scores_half_avx2(const float *const *q, size_t n_q, const uint16_t *const *k, size_t ahead,
                      size_t n_k, size_t dim, float *scores, size_t stride);
void scores_avx2(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                 float *scores, size_t stride);
void values_avx2(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                 size_t dim, float *const *out);
void values_half_avx2(const float *weights, const float *shrink, const bool *shrinks, size_t stride,
                      size_t n_q, const uint16_t *const *v, size_t ahead, size_t n_k, size_t dim,
                      float *acc);
void product_avx2(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,
                  float *const *c);
void transpose_avx2(const float *in, size_t n_rows, size_t n_cols, float *out);
float exp_sum_avx2(const float *x, float max, size_t n, float *y);
void activate_avx2(enum activation act, const float *x, size_t n, float *y);

#endif
