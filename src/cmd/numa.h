/* numa.h - which CPUs the workers take on a machine of several memory nodes. */
#ifndef MLXCEL_CMD_NUMA_H
#define MLXCEL_CMD_NUMA_H

#include "kernels/kernels.h"
#include "options/options.h"

enum { NUMA_MAX_NODES = 64, NUMA_WORDS = WORKER_MAX_CPUS / 64 };

/* A machine as --numa sees it. */
struct numa_machine {
    int32_t n_nodes; /* at least 1 */
    uint64_t node_cpus[NUMA_MAX_NODES][NUMA_WORDS];
    uint64_t allowed[NUMA_WORDS]; /* what this process may use */
    int32_t own_node;             /* where it runs now */
};

void numa_read_machine(struct numa_machine *machine);
/* "0-3,8" into a set of CPUs; false when it is no such list. */
bool numa_parse_list(const char *list, uint64_t cpus[NUMA_WORDS]);
/* Narrow the workers' CPUs as the strategy wants. With one node only numactl
 * changes anything.
 *   distribute  as many CPUs as there are threads, taken from the nodes in
 *               turn, a thread on each
 *   isolate     the CPUs of the node the process runs on
 *   numactl     the CPUs the process was given */
void numa_apply(const struct numa_machine *machine, enum option_numa strategy,
                struct worker_settings *workers);

#endif
