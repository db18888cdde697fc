/* pool.h - what the room's own functions use of the worker pool. */
#ifndef MLXCEL_KERNELS_POOL_H
#define MLXCEL_KERNELS_POOL_H

#include "kernels/kernels.h"

/* At least `bytes` of memory, aligned to a cache line, the same until the next
 * call; its contents do not survive one. NULL when out of memory. The pool may
 * not be NULL. */
void *pool_scratch(struct worker_pool *pool, size_t bytes);

/* Handing out the items of an uneven job: start before the run, take within. */
void pool_items_start(struct worker_pool *pool);
size_t pool_items_take(struct worker_pool *pool, size_t n); /* the first of n */

#endif
