/* pool.h - what the room's own functions use of the worker pool. */
#ifndef MLXCEL_KERNELS_POOL_H
#define MLXCEL_KERNELS_POOL_H

#include "kernels/kernels.h"

/* At least `bytes` of memory, aligned to a cache line, the same until the next
 * call; its contents do not survive one. NULL when out of memory. The pool may
 * not be NULL. */
void *pool_scratch(struct worker_pool *pool, size_t bytes);

/* Handing out the items 0..n_items (at most UINT32_MAX) of a job: start before the
 * run, take within. A thread gets a stretch of items in their order; when that is
 * done it helps whoever has most left. False when none is left. */
void pool_items_start(struct worker_pool *pool, size_t n_items);
bool pool_items_take(struct worker_pool *pool, int32_t thread, size_t *item);

#endif
