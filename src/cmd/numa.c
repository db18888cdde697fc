/* numa.c - which CPUs the workers take on a machine of several memory nodes.
 *
 * Weights that are mapped come from the page cache of whichever node read them
 * first; what can be chosen is where the threads run. */
#define _GNU_SOURCE
#include "cmd/numa.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has(const uint64_t *cpus, size_t i)
{
    return cpus[i / 64] >> (i % 64) & 1;
}

static void put(uint64_t *cpus, size_t i)
{
    cpus[i / 64] |= UINT64_C(1) << (i % 64);
}

static bool is_empty(const uint64_t *cpus)
{
    for (size_t i = 0; i < NUMA_WORDS; i++)
        if (cpus[i])
            return false;
    return true;
}

bool numa_parse_list(const char *list, uint64_t cpus[NUMA_WORDS])
{
    memset(cpus, 0, NUMA_WORDS * sizeof *cpus);
    while (*list && *list != '\n') {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (end == list)
            return false;
        if (*end == '-') {
            list = end + 1;
            last = strtoul(list, &end, 10);
            if (end == list)
                return false;
        }
        if (first > last || last >= WORKER_MAX_CPUS)
            return false;
        for (unsigned long i = first; i <= last; i++)
            put(cpus, i);
        if (*end && *end != ',' && *end != '\n')
            return false;
        list = *end == ',' ? end + 1 : end;
    }
    return true;
}

static bool read_node(int32_t node, uint64_t cpus[NUMA_WORDS])
{
    char path[96], list[4096] = "";
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", (int)node);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool ok = fgets(list, sizeof list, file) && numa_parse_list(list, cpus);
    fclose(file);
    return ok;
}

void numa_read_machine(struct numa_machine *machine)
{
    *machine = (struct numa_machine){0};
    cpu_set_t allowed;
    bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    for (size_t i = 0; i < WORKER_MAX_CPUS && i < CPU_SETSIZE; i++)
        if (!known || CPU_ISSET(i, &allowed))
            put(machine->allowed, i);
    while (machine->n_nodes < NUMA_MAX_NODES &&
           read_node(machine->n_nodes, machine->node_cpus[machine->n_nodes]))
        machine->n_nodes++;
    if (machine->n_nodes == 0) {
        machine->n_nodes = 1;
        memcpy(machine->node_cpus[0], machine->allowed, sizeof machine->allowed);
    }
    int cpu = sched_getcpu();
    for (int32_t n = 0; cpu >= 0 && cpu < WORKER_MAX_CPUS && n < machine->n_nodes; n++)
        if (has(machine->node_cpus[n], (size_t)cpu))
            machine->own_node = n;
}

static void intersect(uint64_t *cpus, const uint64_t *with)
{
    for (size_t i = 0; i < NUMA_WORDS; i++)
        cpus[i] &= with[i];
}

/* The next CPU of a node at or after from that may be used; -1: none left. */
static int32_t next_cpu(const uint64_t *node, const uint64_t *usable, int32_t from)
{
    for (int32_t i = from; i < WORKER_MAX_CPUS; i++)
        if (has(node, (size_t)i) && has(usable, (size_t)i))
            return i;
    return -1;
}

static void distribute(const struct numa_machine *machine, const uint64_t *usable,
                       struct worker_settings *workers)
{
    uint64_t chosen[NUMA_WORDS] = {0};
    int32_t from[NUMA_MAX_NODES] = {0}, n = 0;
    for (bool any = true; any && n < workers->n_threads;) {
        any = false;
        for (int32_t node = 0; node < machine->n_nodes && n < workers->n_threads; node++) {
            int32_t cpu = next_cpu(machine->node_cpus[node], usable, from[node]);
            if (cpu < 0)
                continue;
            put(chosen, (size_t)cpu);
            from[node] = cpu + 1;
            any = true;
            n++;
        }
    }
    memcpy(workers->cpu_mask, chosen, sizeof chosen);
    workers->strict = n == workers->n_threads;
}

void numa_apply(const struct numa_machine *machine, enum option_numa strategy,
                struct worker_settings *workers)
{
    uint64_t usable[NUMA_WORDS];
    memcpy(usable, workers->cpu_mask, sizeof usable);
    if (is_empty(usable))
        memcpy(usable, machine->allowed, sizeof usable);
    else
        intersect(usable, machine->allowed);
    if (strategy == OPTION_NUMA_NUMACTL) {
        memcpy(workers->cpu_mask, usable, sizeof usable);
    } else if (strategy == OPTION_NUMA_ISOLATE && machine->n_nodes > 1) {
        intersect(usable, machine->node_cpus[machine->own_node]);
        if (!is_empty(usable))
            memcpy(workers->cpu_mask, usable, sizeof usable);
    } else if (strategy == OPTION_NUMA_DISTRIBUTE && machine->n_nodes > 1) {
        distribute(machine, usable, workers);
    }
}
