/* bench_sampling.h - what picking a token costs, without a model. */
#ifndef MLXCEL_CMD_BENCH_SAMPLING_H
#define MLXCEL_CMD_BENCH_SAMPLING_H

/* Print the cost of the default chain and of the JSON grammar over a vocabulary
 * of 152,064 made-up tokens, a line each. Returns the exit code: 1 when a number
 * could not be had. */
int bench_sampling(void);

#endif
