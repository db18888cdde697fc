/* fit.h - how much context free memory has room for. Private to the room. */
#ifndef MLXCEL_ENGINE_FIT_H
#define MLXCEL_ENGINE_FIT_H

#include <stdint.h>

/* Bytes that can still be used without swapping: what the system says is
 * available, and no more than the control groups (version 1 or 2) and the address space
 * (RLIMIT_AS) of this process allow. INT64_MAX when nobody tells. */
int64_t memory_available(void);

/* Bytes that this process can have at most: memory and swap, what its control group
 * allows, and its address space (RLIMIT_AS). UINT64_MAX when nobody tells. */
uint64_t memory_total(void);

/* The context whose cache fits into room bytes, when n_ctx tokens take
 * kv_bytes: n_ctx itself if it fits, else a multiple of 256, but at least
 * n_min (or n_ctx where that is smaller). */
int32_t fit_n_ctx(int32_t n_ctx, uint64_t kv_bytes, int64_t room, int32_t n_min);

#endif
