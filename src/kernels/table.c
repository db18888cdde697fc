/* table.c - which kernels run here: chosen once, at first use. */
#include "kernels/table.h"

#include "kernels/format.h"
#include "kernels/matrix.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct kernel_table *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The best first. MLXCEL_ISA names the best that may be used. */
static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}

/* clang 14 has no name for it. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
#endif

#if defined(__aarch64__)
/* Linux says so in bit 20 of AT_HWCAP; elsewhere what the compiler was told to
 * build for is all that is known. */
static bool has_dot_products(void)
{
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & 1ul << 20) != 0;
#elif defined(__ARM_FEATURE_DOTPROD)
    return true;
#else
    return false;
#endif
}
#endif

static const struct {
    const struct kernel_table *table;
    bool (*is_here)(void);
} tables[] = {
#if defined(__x86_64__)
    {&kernels_avx512, has_avx512},
    {&kernels_avx2, has_avx2},
#elif defined(__aarch64__)
    {&kernels_neon_dot, has_dot_products},
    {&kernels_neon, always},
#endif
    {&kernels_generic, always},
};

static void choose(void)
{
    const char *limit = getenv("MLXCEL_ISA");
    size_t n = sizeof tables / sizeof *tables, i = 0;
    if (limit) {
        while (i < n && strcmp(tables[i].table->name, limit) != 0)
            i++;
        if (i == n) /* a name nobody knows limits nothing */
            i = 0;
    }
    while (!tables[i].is_here())
        i++;
    chosen = tables[i].table;
}

const struct kernel_table *kernel_table_at(size_t i)
{
    for (size_t j = 0; j < sizeof tables / sizeof *tables; j++) {
        if (tables[j].is_here() && i-- == 0)
            return tables[j].table;
    }
    return NULL;
}

const struct kernel_table *kernel_table(void)
{
    pthread_once(&once, choose);
    return chosen;
}

const char *kernels_isa(void)
{
    return kernel_table()->name;
}

bool panel_format_of(const struct matrix *w, struct panel_format *format)
{
    const struct matrix_functions *matrix = format_of(w->dtype)->matrix;
    if (matrix->panel_format)
        matrix->panel_format(w, format);
    return matrix->panel_format != NULL;
}
