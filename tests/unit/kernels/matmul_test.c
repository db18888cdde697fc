/* matmul_test.c - products with every format, against decoded weights. */
#include "unit/unit.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static uint64_t seed = 88172645463325252u;

static float random_float_in(float amplitude)
{
    float v;
    dtype_fill_random(DTYPE_F32, &v, 1, amplitude, &seed);
    return v;
}

static struct worker_pool *make_pool(int32_t n_threads)
{
    struct worker_settings settings = {.n_threads = n_threads, .poll = 50};
    struct error err;
    struct worker_pool *pool = worker_pool_create(&settings, &err);
    assert_non_null(pool);
    return pool;
}

/* A random plain matrix; the caller frees w->data. */
static void make_matrix(struct matrix *w, enum dtype dtype, int32_t n_rows, int32_t n_cols,
                        int32_t n_experts)
{
    size_t bytes;
    uint64_t n = (uint64_t)n_rows * (uint64_t)n_cols * (uint64_t)n_experts;
    assert_true(dtype_bytes(dtype, n, &bytes));
    void *data = malloc(bytes);
    assert_non_null(data);
    dtype_fill_random(dtype, data, (size_t)n, 1.0f, &seed);
    struct error err;
    assert_true(matrix_plain(w, dtype, n_rows, n_cols, n_experts, data, bytes, &err));
}

static float *make_floats(size_t n)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = random_float_in(1.0f);
    return x;
}

/* The exact product, and the size that its terms have: what 8-bit activations
 * may move it by is a small part of that. */
static double exact(const float *row, const float *x, size_t n, double *size)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double term = (double)row[i] * (double)x[i];
        sum += term;
        squares += (double)row[i] * (double)row[i];
    }
    *size = sqrt(squares);
    return sum;
}

static void check_close(const struct matrix *w, int32_t expert, const float *x, const float *y)
{
    size_t n = (size_t)w->n_cols;
    float *row = malloc(n * sizeof *row);
    /* An activation of at most 1 is off by at most 1/254. */
    bool rounds = w->kind == MATRIX_PLAIN
                      ? dtype_info(w->dtype)->is_quantized
                      : w->kind != MATRIX_F8_SCALED && w->kind != MATRIX_MLX_MXFP8;
    double tolerance = rounds ? 5.0 / 254 : 1e-5;
    for (int32_t r = 0; r < w->n_rows; r++) {
        double size;
        matrix_row(w, expert, r, row);
        double want = exact(row, x, n, &size);
        if (!(fabs(want - (double)y[r]) <= tolerance * size + 1e-5))
            fail_msg("%s row %d of %d x %d: %g instead of %g (size %g)", dtype_info(w->dtype)->name,
                     r, w->n_rows, w->n_cols, (double)y[r], want, size);
    }
    free(row);
}

static void check_product(const struct matrix *w, size_t n_x, struct worker_pool *pool)
{
    size_t n = (size_t)w->n_cols, n_rows = (size_t)w->n_rows;
    float *x = make_floats(n_x * n), *y = make_floats(n_x * n_rows);
    assert_true(matmul(pool, w, x, n, n_x, y, n_rows));
    for (size_t i = 0; i < n_x; i++)
        check_close(w, 0, x + i * n, y + i * n_rows);
    free(x);
    free(y);
}

static bool is_float(enum dtype dtype)
{
    return dtype != DTYPE_BOOL && !(dtype >= DTYPE_I8 && dtype <= DTYPE_U64);
}

/* Whatever the format, a product is that of the decoded weights. */
static void every_format_multiplies_like_its_decoded_weights(void **state)
{
    (void)state;
    struct worker_pool *pool = make_pool(2);
    static const struct {
        int32_t rows, blocks;
        size_t n_x;
    } shapes[] = {{1, 1, 1}, {5, 3, 2}, {16, 2, 1}, {33, 5, 3}, {70, 4, 9}, {37, 9, 17}};
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (!is_float((enum dtype)d))
            continue;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct matrix w;
            make_matrix(&w, (enum dtype)d, shapes[i].rows,
                        shapes[i].blocks * dtype_info((enum dtype)d)->block_len, 1);
            check_product(&w, shapes[i].n_x, pool);
            free((void *)w.data);
        }
    }
    worker_pool_free(pool);
}

/* Plain formats have no blocks: any number of columns will do. */
static void plain_formats_take_any_number_of_columns(void **state)
{
    (void)state;
    static const enum dtype plain[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64, DTYPE_F8_E4M3};
    static const int32_t cols[] = {1, 7, 15, 17, 31, 33, 100, 1025, 2049, 3000};
    struct worker_pool *pool = make_pool(2);
    for (size_t d = 0; d < sizeof plain / sizeof *plain; d++) {
        for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
            struct matrix w;
            make_matrix(&w, plain[d], 19, cols[i], 1);
            check_product(&w, 1, pool);
            check_product(&w, 13, pool);
            check_product(&w, 50, pool);
            free((void *)w.data);
        }
    }
    worker_pool_free(pool);
}

/* Long rows cross the chunks in which columns are unpacked. */
static void long_rows_are_multiplied_whole(void **state)
{
    (void)state;
    static const enum dtype some[] = {DTYPE_Q8_0, DTYPE_Q4_0,  DTYPE_Q4_K,  DTYPE_Q6_K,
                                      DTYPE_Q2_K, DTYPE_IQ1_M, DTYPE_NVFP4, DTYPE_F16};
    struct worker_pool *pool = make_pool(2);
    for (size_t d = 0; d < sizeof some / sizeof *some; d++) {
        struct matrix w;
        make_matrix(&w, some[d], 21, 2048 + 1024 + 256, 1);
        check_product(&w, 1, pool);
        check_product(&w, 11, pool);
        free((void *)w.data);
    }
    worker_pool_free(pool);
}

/* A row's result is the same bits alone and among others, on any number of
 * threads. */
static void a_result_does_not_depend_on_its_company(void **state)
{
    (void)state;
    struct worker_pool *one = make_pool(1), *three = make_pool(3);
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (!is_float((enum dtype)d))
            continue;
        struct matrix w;
        make_matrix(&w, (enum dtype)d, 75, 1280, 1);
        size_t n = 1280, n_x = 19;
        float *x = make_floats(n_x * n), *together = make_floats(n_x * 75), alone[75];
        assert_true(matmul(three, &w, x, n, n_x, together, 75));
        for (size_t i = 0; i < n_x; i++) {
            assert_true(matmul(one, &w, x + i * n, n, 1, alone, 75));
            assert_memory_equal(alone, together + i * 75, sizeof alone);
        }
        free(x);
        free(together);
        free((void *)w.data);
    }
    worker_pool_free(one);
    worker_pool_free(three);
}

/* Packing changes no bit of any product. */
static void packing_changes_no_result(void **state)
{
    (void)state;
    struct worker_pool *pool = make_pool(2);
    struct error err;
    static const int32_t n_rows[] = {1, 16, 37};
    for (int i = 0; i < DTYPE_COUNT * 3; i++) {
        enum dtype d = (enum dtype)(i / 3);
        if (!is_float(d))
            continue;
        struct matrix w;
        int32_t n_cols = 3 * dtype_info(d)->block_len, rows = n_rows[i % 3];
        make_matrix(&w, d, rows, n_cols, 2);
        size_t n = (size_t)n_cols, n_y = 9 * (size_t)rows;
        static const int32_t expert[9] = {1, 0, 1, 1, 1, 1, 1, 1, 1};
        static const int32_t x_row[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
        float *x = make_floats(9 * n), *plain = make_floats(n_y), *packed = make_floats(n_y);
        for (int pass = 0; pass < 2; pass++) {
            assert_true(matmul_gathered(pool, &w, NULL, expert, x_row, 9, x, n, 9,
                                        pass ? packed : plain, (size_t)rows));
            assert_true(matrix_prepare(&w, pool, &err));
        }
        assert_memory_equal(plain, packed, n_y * sizeof *plain);
        matrix_release(&w);
        assert_null(w.packed);
        free(x);
        free(plain);
        free(packed);
        free((void *)w.data);
    }
    worker_pool_free(pool);
}

/* Several terms share the activations; a bias comes on top, and so does what y
 * held where it is asked to stay. */
static void terms_share_activations_and_take_a_bias(void **state)
{
    (void)state;
    struct worker_pool *pool = make_pool(2);
    struct matrix a, b, c;
    make_matrix(&a, DTYPE_Q4_K, 40, 512, 1);
    make_matrix(&b, DTYPE_F32, 17, 512, 1);
    make_matrix(&c, DTYPE_Q6_K, 24, 512, 1);
    float *x = make_floats(3 * 512), *bias = make_floats(40);
    float ya[3 * 40], yb[3 * 20], yc[3 * 24], plain[3 * 40];
    for (int i = 0; i < 3 * 20; i++)
        yb[i] = 5;
    struct matmul_term terms[] = {{.w = &a, .bias = bias, .y = ya, .y_stride = 40},
                                  {.w = &b, .y = yb, .y_stride = 20, .add = true},
                                  {.w = &c, .y = yc, .y_stride = 24}};
    assert_true(matmul_many(pool, terms, 3, x, 512, 3));
    assert_true(matmul(pool, &a, x, 512, 3, plain, 40));
    for (int i = 0; i < 3 * 40; i++)
        assert_true(fabsf(ya[i] - plain[i] - bias[i % 40]) < 1e-4f);
    assert_true(matmul(pool, &b, x, 512, 3, plain, 20));
    for (int i = 0; i < 3 * 20; i++)
        assert_true(i % 20 >= 17 ? yb[i] == 5 : fabsf(yb[i] - plain[i] - 5) < 1e-4f);
    for (size_t i = 0; i < 3; i++)
        check_close(&c, 0, x + i * 512, yc + i * 24);
    free(x);
    free(bias);
    free((void *)a.data);
    free((void *)b.data);
    free((void *)c.data);
    worker_pool_free(pool);
}

/* Each assignment gets its own expert's product, in the order asked for. */
static void experts_are_gathered(void **state)
{
    (void)state;
    static const enum dtype some[] = {DTYPE_Q4_K, DTYPE_F16, DTYPE_MXFP4};
    static const int32_t expert[] = {3, 0, 3, 1, 3, 3, 0, 6, 3, 3, 3, 3, 3};
    static const int32_t x_row[] = {0, 0, 1, 1, 2, 3, 3, 4, 4, 1, 2, 0, 4};
    enum { N = sizeof expert / sizeof *expert, ROWS = 35, COLS = 768 };
    struct worker_pool *pool = make_pool(2);
    for (size_t d = 0; d < sizeof some / sizeof *some; d++) {
        struct matrix w;
        make_matrix(&w, some[d], ROWS, COLS, 7);
        float *x = make_floats(5 * COLS), *y = make_floats(N * ROWS);
        float *bias = calloc(7 * ROWS, sizeof *bias);
        assert_true(matmul_gathered(pool, &w, NULL, expert, x_row, N, x, COLS, 5, y, ROWS));
        for (size_t j = 0; j < N; j++)
            check_close(&w, expert[j], x + x_row[j] * COLS, y + j * ROWS);
        for (int i = 0; i < ROWS; i++)
            bias[6 * ROWS + i] = 100;
        float *with = make_floats(N * ROWS);
        assert_true(matmul_gathered(pool, &w, bias, expert, x_row, N, x, COLS, 5, with, ROWS));
        for (size_t i = 0; i < N * ROWS; i++)
            assert_true(fabsf(with[i] - y[i] - (i / ROWS == 7 ? 100.0f : 0.0f)) < 1e-3f);
        free(x);
        free(y);
        free(bias);
        free(with);
        free((void *)w.data);
    }
    worker_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_multiplies_like_its_decoded_weights),
        cmocka_unit_test(plain_formats_take_any_number_of_columns),
        cmocka_unit_test(long_rows_are_multiplied_whole),
        cmocka_unit_test(a_result_does_not_depend_on_its_company),
        cmocka_unit_test(packing_changes_no_result),
        cmocka_unit_test(terms_share_activations_and_take_a_bias),
        cmocka_unit_test(experts_are_gathered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
