/* gemm.h - matrix products for training. */
#ifndef MLXCEL_TOOLS_GEMM_H
#define MLXCEL_TOOLS_GEMM_H

#include <stddef.h>

struct worker_pool;

/* c[m][n] = a[m][k] b[k][n], or += with add. Rows are contiguous. The order of
 * the sums does not depend on the number of threads. */
void gemm(struct worker_pool *pool, size_t m, size_t n, size_t k, const float *a, const float *b,
          float *c, int add);
/* to[n][m] = from[m][n] transposed. */
void transpose(struct worker_pool *pool, size_t m, size_t n, const float *from, float *to);

#endif
