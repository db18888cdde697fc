/* table.c - which kernels run here: chosen once, at first use. */
#include "kernels/table.h"

#include "kernels/blocks.h"
#include "kernels/matrix.h"

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
#endif

static const struct {
    const struct kernel_table *table;
    bool (*is_here)(void);
} tables[] = {
#if defined(__x86_64__)
    {&kernels_avx512, has_avx512},
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
    switch (w->kind) {
    case MATRIX_PLAIN: {
        const struct block_format *f = block_format(w->dtype);
        if (!f->len)
            return false;
        /* Formats with a minimum hold unsigned integers already. */
        *format = (struct panel_format){f->sub_len, f->has_min ? 0 : f->max_q, f->has_min, f->len};
        return true;
    }
    case MATRIX_MLX_AFFINE:
        *format = (struct panel_format){32, 0, true, 32};
        return true;
    case MATRIX_MLX_MXFP4:
        *format = (struct panel_format){32, 12, false, 32};
        return true;
    case MATRIX_MLX_NVFP4:
        *format = (struct panel_format){16, 12, false, 32};
        return true;
    default:
        return false;
    }
}
