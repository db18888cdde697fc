/* bench_earlier.h - what an earlier run of mlxcel bench --json measured. */
#ifndef MLXCEL_CMD_BENCH_EARLIER_H
#define MLXCEL_CMD_BENCH_EARLIER_H

#include "base/error.h"

#include <stdint.h>

/* *speed = tokens per second of the test, at the same depth with as many clients, in
 * the file at path: a run, of whatever model, or an array of runs, of which that of
 * this model counts. Left alone where there is none. Fails when the file cannot be
 * read. */
bool bench_earlier(const char *path, const char *model, const char *test, int32_t depth,
                   int32_t clients, double *speed, struct error *err);

#endif
