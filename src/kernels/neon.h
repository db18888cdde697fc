/* neon.h - the kernels of the NEON tables. */
#ifndef MLXCEL_KERNELS_NEON_H
#define MLXCEL_KERNELS_NEON_H

#include "kernels/table.h"

void panel_dot_neon(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                    size_t n, size_t n_tokens, float *const *acc);
/* ... for processors with the dot product instructions of ARMv8.2 */
void panel_dot_neon_dot(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                        size_t n, size_t n_tokens, float *const *acc);
bool reads_packed_neon(const struct matrix *w);
void unpack_neon(const struct panel_source *s, size_t begin, size_t n, struct panel *out);
void quantize_neon(const float *x, size_t n, const struct act_row *out);
void quantize_wide_neon(const float *x, size_t n, const struct act_row *out);

void float_dots_neon(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                     const float *const *x, size_t n_x, size_t n, float *acc);
float lanes_sum_neon(const float *acc);

void decode_neon(enum dtype dtype, const void *blocks, float *out, size_t n);
void scores_neon(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                 float *scores, size_t stride);
void values_neon(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                 size_t dim, float *const *out);
void values_half_neon(const float *weights, const float *shrink, const bool *shrinks, size_t stride,
                      size_t n_q, const uint16_t *const *v, size_t ahead, size_t n_k, size_t dim,
                      float *acc);
void product_neon(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,
                  float *const *c);
float exp_sum_neon(const float *x, float max, size_t n, float *y);
void activate_neon(enum activation act, const float *x, size_t n, float *y);

#endif
