/* avx512.h - the kernels of the AVX-512 table. */
#ifndef MLXCEL_KERNELS_AVX512_H
#define MLXCEL_KERNELS_AVX512_H

#include "kernels/table.h"

void panel_dot_avx512(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                      size_t n, size_t n_tokens, float *const *acc);
void panel_one_avx512(const struct panel_source *s, const struct act_tile *tile, size_t n,
                      float *acc);
bool reads_packed_avx512(const struct matrix *w);
void unpack_avx512(const struct panel_source *s, size_t begin, size_t n, struct panel *out);
void quantize_avx512(const float *x, size_t n, const struct act_row *out);
void quantize_wide_avx512(const float *x, size_t n, const struct act_row *out);

void float_dots_avx512(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                       const float *const *x, size_t n_x, size_t n, float *acc);
float lanes_sum_avx512(const float *acc);

void decode_avx512(enum dtype dtype, const void *blocks, float *out, size_t n);
void scores_half_avx512(const float *const *q, size_t n_q, const uint16_t *const *k, size_t ahead,
                        size_t n_k, size_t dim, float *scores, size_t stride);
void scores_avx512(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                   float *scores, size_t stride);
void values_avx512(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                   size_t dim, float *const *out);
void values_half_avx512(const float *weights, const float *shrink, const bool *shrinks,
                        size_t stride, size_t n_q, const uint16_t *const *v, size_t ahead,
                        size_t n_k, size_t dim, float *acc);
void product_avx512(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,
                    float *const *c);
void transpose_avx512(const float *in, size_t n_rows, size_t n_cols, float *out);
float exp_sum_avx512(const float *x, float max, size_t n, float *y);
void activate_avx512(enum activation act, const float *x, size_t n, float *y);

#endif
