/* fit.c - how much context free memory has room for.
 *
 * The cache is reserved whole but touched only as it fills; one that cannot
 * fill without swapping is a promise that breaks under load, so it is made
 * smaller at the start. */
#include "engine/fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { STEP = 256 };

/* "NAME: N kB" of /proc/meminfo in bytes; -1 when absent. */
static int64_t meminfo(const char *name)
{
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file)
        return -1;
    char line[256];
    size_t len = strlen(name);
    int64_t bytes = -1;
    while (bytes < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, name, len) && line[len] == ':')
            bytes = strtoll(line + len + 1, NULL, 10) * 1024;
    fclose(file);
    return bytes;
}

/* A file that holds one number; -1 when absent or no number ("max"). */
static int64_t number_in(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    long long value;
    int64_t result = fscanf(file, "%lld", &value) == 1 ? (int64_t)value : -1;
    fclose(file);
    return result;
}

int64_t memory_available(void)
{
    int64_t room = meminfo("MemAvailable");
    if (room < 0)
        room = INT64_MAX;
    int64_t limit = number_in("/sys/fs/cgroup/memory.max");
    int64_t used = number_in("/sys/fs/cgroup/memory.current");
    if (limit >= 0 && used >= 0 && limit - used < room)
        room = limit > used ? limit - used : 0;
    return room;
}

uint64_t memory_total(void)
{
    int64_t memory = meminfo("MemTotal"), swap = meminfo("SwapTotal");
    uint64_t total = memory < 0 ? UINT64_MAX : (uint64_t)memory + (uint64_t)(swap > 0 ? swap : 0);
    int64_t limit = number_in("/sys/fs/cgroup/memory.max");
    if (limit >= 0 && (uint64_t)limit < total)
        total = (uint64_t)limit;
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        space.rlim_cur < total)
        total = space.rlim_cur;
    return total;
}

int32_t fit_n_ctx(int32_t n_ctx, uint64_t kv_bytes, int64_t room, int32_t n_min)
{
    if (room > 0 && kv_bytes <= (uint64_t)room)
        return n_ctx;
    double share = room > 0 && kv_bytes > 0 ? (double)room / (double)kv_bytes : 0;
    int32_t fitting = (int32_t)((double)n_ctx * share) / STEP * STEP;
    int32_t least = n_min < n_ctx ? n_min : n_ctx;
    return fitting > least ? fitting : least;
}
