/* custom_cpu.c - threads, CPU sets, and what is taken when none are named. */
#define _GNU_SOURCE
#include "options/table.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int32_t online_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n < INT32_MAX ? (int32_t)n : 1;
}

/* Cores, not hardware threads: two threads of a core share its arithmetic, and
 * matrix products gain nothing from the second. Counted over the CPUs that this
 * process may use; a core is known by the first of its sibling threads. */
static int32_t physical_cores(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return online_cpus();
    unsigned char seen[CPU_SETSIZE] = {0};
    int32_t n = 0, n_allowed = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        n_allowed++;
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
                 cpu);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        int first = -1;
        if (fscanf(file, "%d", &first) != 1)
            first = -1;
        fclose(file);
        if (first >= 0 && first < CPU_SETSIZE && !seen[first]) {
            seen[first] = 1;
            n++;
        }
    }
    return n > 0 ? n : n_allowed > 0 ? n_allowed : 1;
}

static struct cpu_options *cpu_of(struct option_parser *p, const struct option_use *use)
{
    return (struct cpu_options *)((char *)p->options + use->option->field);
}

bool apply_threads(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t n;
    if (!read_int(use, INT32_MIN, OPTION_CPU_MAX, &n, err))
        return false;
    cpu_of(p, use)->n_threads = n > 0 ? (int32_t)n : online_cpus();
    return true;
}

static void mask_set(struct cpu_options *cpu, size_t i)
{
    cpu->mask[i / 64] |= UINT64_C(1) << (i % 64);
}

bool apply_cpu_mask(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct cpu_options *cpu = cpu_of(p, use);
    const char *digits = use->value;
    if (digits[0] == '0' && digits[1] == 'x')
        digits += 2;
    size_t n = strlen(digits);
    if (n == 0 || n > OPTION_CPU_MAX / 4 || strspn(digits, "0123456789abcdefABCDEF") != n)
        return bad_value(use, err, "1 to 128 hexadecimal digits");
    for (size_t i = 0; i < n; i++) {
        char digit[2] = {digits[n - 1 - i]};
        unsigned long bits = strtoul(digit, NULL, 16);
        for (size_t b = 0; b < 4; b++)
            if (bits >> b & 1)
                mask_set(cpu, i * 4 + b);
    }
    cpu->mask_valid = true;
    return true;
}

bool apply_cpu_range(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct cpu_options *cpu = cpu_of(p, use);
    const char *dash = strchr(use->value, '-');
    char *end;
    unsigned long low = 0, high = OPTION_CPU_MAX - 1;
    bool ok = dash != NULL;
    if (ok && dash != use->value) {
        low = strtoul(use->value, &end, 10);
        ok = end == dash;
    }
    if (ok && dash[1]) {
        high = strtoul(dash + 1, &end, 10);
        ok = dash[1] >= '0' && dash[1] <= '9' && *end == '\0';
    }
    if (!ok || low > high || high >= OPTION_CPU_MAX)
        return bad_value(use, err, "FIRST-LAST, CPUs 0 to 511");
    for (size_t i = low; i <= high; i++)
        mask_set(cpu, i);
    cpu->mask_valid = true;
    return true;
}

bool apply_zero_one(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t n;
    if (!read_int(use, 0, 1, &n, err))
        return false;
    *(bool *)((char *)p->options + use->option->field) = n != 0;
    return true;
}

bool apply_poll(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t n;
    if (!read_int(use, 0, 100, &n, err))
        return false;
    *(uint32_t *)((char *)p->options + use->option->field) = (uint32_t)n;
    return true;
}

static bool was_given(const struct option_parser *p, const char *spelling)
{
    bool on;
    return p->given[option_index(option_find(spelling, &on))];
}

static bool check_mask(struct option_parser *p, const struct cpu_options *cpu, const char *name)
{
    int32_t n = 0;
    for (size_t i = 0; i < OPTION_CPU_MAX; i++)
        n += (int32_t)(cpu->mask[i / 64] >> (i % 64) & 1);
    return !cpu->mask_valid || n >= cpu->n_threads ||
           option_warn(p, "%s: %d threads share the %d CPUs of their mask", name, cpu->n_threads,
                       n);
}

bool options_finish_cpu(struct option_parser *p, struct error *err)
{
    struct cpu_options *cpu = &p->options->cpu, *batch = &p->options->cpu_batch;
    if (cpu->n_threads < 0)
        cpu->n_threads = physical_cores();
    if (batch->n_threads < 0)
        batch->n_threads = cpu->n_threads;
    if (!batch->mask_valid) {
        batch->mask_valid = cpu->mask_valid;
        memcpy(batch->mask, cpu->mask, sizeof batch->mask);
    }
    if (!was_given(p, "--cpu-strict-batch"))
        batch->strict = cpu->strict;
    if (!was_given(p, "--prio-batch"))
        batch->prio = cpu->prio;
    if (!was_given(p, "--poll-batch"))
        batch->poll = cpu->poll;
    return (check_mask(p, cpu, "--threads") && check_mask(p, batch, "--threads-batch")) ||
           error_memory(err);
}
