/* fit.c - how much context free memory has room for.
 *
 * The cache is reserved whole but touched only as it fills; one that cannot
 * fill without swapping is a promise that breaks under load, so it is made
 * smaller at the start. */
#include "engine/fit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* ---- control groups ---- */

/* Files of a control group: what it may have, and what it has. */
struct group_files {
    const char *root, *limit, *used;
};

static const struct group_files version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current"};
static const struct group_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                             "memory.usage_in_bytes"};

static int64_t group_number(const struct group_files *files, const char *group, size_t len,
                            const char *name)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s%.*s/%s", files->root, (int)len, group, name);
    return n > 0 && (size_t)n < sizeof path ? number_in(path) : -1;
}

/* The narrowest of a group and those it is in. */
static void look_at_groups(const struct group_files *files, const char *group, int64_t *total,
                           int64_t *room)
{
    for (size_t len = strlen(group);; len--) {
        if (len && group[len] != '/' && group[len] != '\0')
            continue;
        int64_t limit = group_number(files, group, len, files->limit);
        int64_t used = group_number(files, group, len, files->used);
        if (limit >= 0 && limit < *total)
            *total = limit;
        if (limit >= 0 && used >= 0 && limit - used < *room)
            *room = limit > used ? limit - used : 0;
        if (len == 0)
            return;
    }
}

/* The groups of this process, as /proc/self/cgroup has them: "0::/PATH" (version 2) or
 * "N:memory:/PATH". In a container the path may be that outside: the root counts always. */
static void group_limits(int64_t *total, int64_t *room)
{
    look_at_groups(&version_2, "", total, room);
    look_at_groups(&version_1, "", total, room);
    FILE *file = fopen("/proc/self/cgroup", "r");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        bool is_2 = names[1] == '\0';
        if (is_2 || strstr(names + 1, "memory"))
            look_at_groups(is_2 ? &version_2 : &version_1, strcmp(path, "/") ? path : "", total,
                           room);
    }
    if (file)
        fclose(file);
}

/* ---- the address space ---- */

/* What RLIMIT_AS leaves; INT64_MAX where there is none. */
static int64_t address_space_left(int64_t *limit)
{
    struct rlimit space;
    *limit = INT64_MAX;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY ||
        space.rlim_cur > INT64_MAX)
        return INT64_MAX;
    *limit = (int64_t)space.rlim_cur;
    int64_t pages = number_in("/proc/self/statm"),
            used = pages < 0 ? 0 : pages * sysconf(_SC_PAGESIZE);
    return *limit > used ? *limit - used : 0;
}

int64_t memory_available(void)
{
    int64_t room = meminfo("MemAvailable"), total = INT64_MAX, limit;
    if (room < 0)
        room = INT64_MAX;
    group_limits(&total, &room);
    int64_t left = address_space_left(&limit);
    return left < room ? left : room;
}

uint64_t memory_total(void)
{
    int64_t memory = meminfo("MemTotal"), swap = meminfo("SwapTotal"), room = INT64_MAX, limit;
    int64_t total = memory < 0 ? INT64_MAX : memory + (swap > 0 ? swap : 0);
    group_limits(&total, &room);
    address_space_left(&limit);
    total = limit < total ? limit : total;
    return total == INT64_MAX ? UINT64_MAX : (uint64_t)total;
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
