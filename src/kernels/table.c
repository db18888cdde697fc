/* table.c - which kernels run here: chosen once, at first use. */
#include "kernels/table.h"

#include "kernels/blocks.h"
#include "kernels/matrix.h"

#include <pthread.h>

static const struct kernel_table *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    chosen = &kernels_generic;
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
