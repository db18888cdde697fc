/* gemm.c - a register-blocked matrix product in GCC's vector types.
 *
 * A tile of 4 rows by 32 columns of c stays in registers while k runs; rows of
 * c are handed out to threads, so that no sum is ever split. */
#include "gemm.h"

#include "isas.h"
#include "kernels/kernels.h"

#include <string.h>

enum { TILE_ROWS = 4, LANES = 16, TILE_COLUMNS = 2 * LANES, GRAIN = 32, BLOCK = 32 };

typedef float vec __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

struct product {
    size_t m, n, k;
    const float *a, *b;
    float *c;
    int add;
};

/* Rows [i, i + 4) and columns [j, j + 32). */
static inline __attribute__((always_inline)) void tile(const struct product *p, size_t i, size_t j)
{
    vec sum[TILE_ROWS][2] = {{{0}}};
    for (size_t l = 0; l < p->k; l++) {
        const float *b = p->b + l * p->n + j;
        vec b0 = *(const vec *)b, b1 = *(const vec *)(b + LANES);
        for (size_t r = 0; r < TILE_ROWS; r++) {
            float x = p->a[(i + r) * p->k + l];
            sum[r][0] += x * b0;
            sum[r][1] += x * b1;
        }
    }
    for (size_t r = 0; r < TILE_ROWS; r++) {
        vec *c = (vec *)(p->c + (i + r) * p->n + j);
        vec *c1 = (vec *)(p->c + (i + r) * p->n + j + LANES);
        if (p->add) {
            sum[r][0] += *c;
            sum[r][1] += *c1;
        }
        *c = sum[r][0];
        *c1 = sum[r][1];
    }
}

/* What does not fill a tile. */
static inline __attribute__((always_inline)) void edge(const struct product *p, size_t i0,
                                                       size_t i1, size_t j0, size_t j1)
{
    for (size_t i = i0; i < i1; i++)
        for (size_t j = j0; j < j1; j++) {
            float sum = 0;
            for (size_t l = 0; l < p->k; l++)
                sum += p->a[i * p->k + l] * p->b[l * p->n + j];
            p->c[i * p->n + j] = p->add ? p->c[i * p->n + j] + sum : sum;
        }
}

MANY_ISAS static void rows(const struct product *p, size_t begin, size_t end)
{
    size_t whole_columns = p->n / TILE_COLUMNS * TILE_COLUMNS;
    size_t i = begin;
    for (size_t j = 0; j < whole_columns; j += TILE_COLUMNS)
        for (i = begin; i + TILE_ROWS <= end; i += TILE_ROWS)
            tile(p, i, j);
    size_t whole_rows = begin + (end - begin) / TILE_ROWS * TILE_ROWS;
    edge(p, begin, whole_rows, whole_columns, p->n);
    edge(p, whole_rows, end, 0, p->n);
}

static void run_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    rows(arg, begin, end);
}

void gemm(struct worker_pool *pool, size_t m, size_t n, size_t k, const float *a, const float *b,
          float *c, int add)
{
    struct product p = {m, n, k, a, b, c, add};
    worker_pool_each(pool, m, GRAIN, run_rows, &p);
}

struct turn {
    size_t m, n;
    const float *from;
    float *to;
};

static void turn_columns(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct turn *t = arg;
    for (size_t i0 = 0; i0 < t->m; i0 += BLOCK)
        for (size_t j = begin; j < end; j++)
            for (size_t i = i0; i < t->m && i < i0 + BLOCK; i++)
                t->to[j * t->m + i] = t->from[i * t->n + j];
}

void transpose(struct worker_pool *pool, size_t m, size_t n, const float *from, float *to)
{
    struct turn t = {m, n, from, to};
    worker_pool_each(pool, n, BLOCK, turn_columns, &t);
}
