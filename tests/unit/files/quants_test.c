/* quants_test.c - real files in every format decode to nearly the numbers they
 * were made from. */
#include "unit/unit.h"

#include "files/files.h"

#include <math.h>
#include <string.h>

/* Relative root mean square error of the coarsest tensor that may be in a file
 * of that name. */
static const struct {
    const char *name;
    double worst;
} files[] = {
    {"F16", 4e-4},  {"BF16", 3e-3},   {"Q8_0", 6e-3},   {"Q6_K", 0.03},   {"Q5_K_M", 0.06},
    {"Q5_1", 0.06}, {"Q5_0", 0.07},   {"Q4_K_M", 0.12}, {"Q4_K_S", 0.12}, {"Q4_1", 0.12},
    {"Q4_0", 0.14}, {"IQ4_NL", 0.12}, {"IQ4_XS", 0.12}, {"Q3_K_M", 0.25}, {"Q3_K_S", 0.25},
    {"IQ3_S", 0.3}, {"Q2_K", 0.45},   {"Q2_0", 1.0},    {"TQ1_0", 1.0},   {"TQ2_0", 1.0},
    {"Q1_0", 0.9},
};

static double relative_error(const struct tensor_view *a, const struct tensor_view *b, float *x,
                             float *y, size_t n)
{
    double error = 0, size = 0;
    dtype_decode(a->dtype, a->data, x, n);
    dtype_decode(b->dtype, b->data, y, n);
    for (size_t i = 0; i < n; i++) {
        error += (double)(x[i] - y[i]) * (double)(x[i] - y[i]);
        size += (double)y[i] * (double)y[i];
    }
    return sqrt(error / size);
}

static void quantized_files_decode_to_nearly_their_originals(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared);
    struct error err;
    struct model_file_settings settings = {0};
    char path[1024];
    struct model_file *original;
    snprintf(path, sizeof path, "%s/models/quants/wide.gguf", shared);
    if (!model_file_open(path, &settings, &original, &err))
        fail_msg("%s", err.message);
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct model_file *file;
        snprintf(path, sizeof path, "%s/models/quants/wide-%s.gguf", shared, files[f].name);
        if (!model_file_open(path, &settings, &file, &err))
            fail_msg("%s", err.message);
        bool any = false;
        for (size_t i = 0; i < model_file_n_tensors(file); i++) {
            const struct tensor_view *t = model_file_tensor_at(file, i);
            const struct tensor_view *o = model_file_find_tensor(original, t->name);
            assert_non_null(o);
            size_t n = (size_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]);
            float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
            double error = relative_error(t, o, x, y, n);
            if (!(error <= files[f].worst))
                fail_msg("%s: %s (%s) is off by %g", files[f].name, t->name,
                         dtype_info(t->dtype)->name, error);
            any |= error > 0;
            free(x);
            free(y);
        }
        assert_true(any);
        model_file_close(file);
    }
    model_file_close(original);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantized_files_decode_to_nearly_their_originals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
