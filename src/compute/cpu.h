/* cpu.h - what the files of compute_cpu share. */
#ifndef MLXCEL_COMPUTE_CPU_H
#define MLXCEL_COMPUTE_CPU_H

#include "compute/compute.h"

/* Rows [0, n) of some work that costs row_cost each (about a number's worth), on the pool
 * when there is enough of it. */
void cpu_rows(struct compute *c, size_t n, size_t row_cost, worker_items_fn fn, void *arg);
void cpu_norm_row(const struct norm_op *op, const float *x, size_t n, float *y);

void cpu_heads(struct compute *c, const struct heads_op *op, struct tensor qkv);
void cpu_activate(struct compute *c, const struct activate_op *op, struct tensor y);
void cpu_route(struct compute *c, const struct route_op *op, struct tensor logits);
void cpu_combine(struct compute *c, const float *weight, size_t n_used, bool add, struct tensor x,
                 struct tensor y);

#endif
