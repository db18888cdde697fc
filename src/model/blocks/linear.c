/* scale.c - factors that whole matrices have beside them (NAME.scale): a product is
 * multiplied by its matrix' factor, and its bias is added after that. */
#include "model/context.h"

struct scale_arg {
    const struct linear *l;
    const int32_t *expert;
    float *rows;
    size_t stride, width;
    bool with_bias;
};

static void scale_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct scale_arg *a = arg;
    for (size_t i = begin; i < end; i++) {
        size_t e = a->expert ? (size_t)a->expert[i] : 0;
        float *row = a->rows + i * a->stride;
        vec_scale(row, a->l->scale[e], a->width, row);
        if (a->with_bias && a->l->bias)
            vec_add_scaled(row, a->l->bias + e * a->width, 1.0f, a->width);
    }
}

void scale_products(struct worker_pool *pool, const struct linear *l, const int32_t *expert,
                    float *y, size_t stride, size_t n)
{
    struct scale_arg a = {l, expert, y, stride, (size_t)l->matrix.n_rows, true};
    if (l->scale)
        each_row(pool, n, a.width, scale_some, &a);
}

void scale_inputs(struct worker_pool *pool, const struct linear *l, const int32_t *expert, float *x,
                  size_t stride, size_t n)
{
    struct scale_arg a = {l, expert, x, stride, (size_t)l->matrix.n_cols, false};
    if (l->scale)
        each_row(pool, n, a.width, scale_some, &a);
}
