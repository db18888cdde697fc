/* matmul_test.c - products with every format, against decoded weights. */
#include "unit/unit.h"

#include "kernels/table.h"

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

static void fill_bytes(uint8_t *bytes, size_t n, unsigned least, unsigned most)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(least + (unsigned)(seed >> 40) % (most - least + 1));
    }
}

/* Kinds whose scales lie apart from the weights: MLX's affine with all bits,
 * groups and types of scales, its three small floats, and F8 by blocks. */
enum { N_SCALED = 6 * 3 * 3 + 5 };

static struct matrix scaled_kind(size_t i)
{
    static const int32_t bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static const struct matrix others[] = {
        {.dtype = DTYPE_MLX_MXFP4, .scale_dtype = DTYPE_U8},
        {.dtype = DTYPE_MLX_MXFP8, .scale_dtype = DTYPE_U8},
        {.dtype = DTYPE_MLX_NVFP4, .scale_dtype = DTYPE_U8, .scale = 0.5f},
        {.dtype = DTYPE_F8_SCALED,
         .scale_dtype = DTYPE_F32,
         .block_rows = 16,
         .block_cols = 48},
        {.dtype = DTYPE_F8_SCALED,
         .scale_dtype = DTYPE_BF16,
         .block_rows = 1,
         .block_cols = 1 << 20}};
    if (i >= 54)
        return others[i - 54];
    return (struct matrix){.dtype = DTYPE_MLX_AFFINE,
                           .scale_dtype = types[i % 3],
                           .bits = bits[i / 9],
                           .group_size = groups[i / 3 % 3]};
}

/* Of random weights; free_scaled frees it. */
static void make_scaled(struct matrix *w, size_t kind, int32_t n_rows, int32_t n_cols,
                        int32_t n_experts)
{
    *w = scaled_kind(kind);
    w->n_rows = n_rows;
    w->n_cols = n_cols;
    w->n_experts = n_experts;
    size_t rows = (size_t)n_rows * (size_t)n_experts, n = rows * (size_t)n_cols;
    bool affine = w->dtype == DTYPE_MLX_AFFINE, f8 = w->dtype == DTYPE_F8_SCALED;
    w->n_bytes = affine ? n / 8 * (size_t)w->bits : n / (f8 || w->dtype == DTYPE_MLX_MXFP8 ? 1 : 2);
    uint8_t *data = malloc(w->n_bytes);
    assert_non_null(data);
    /* An F8 of all ones is no number. */
    fill_bytes(data, w->n_bytes, 0, f8 || w->dtype == DTYPE_MLX_MXFP8 ? 0x7E : 0xFF);
    w->data = data;
    size_t group = affine ? (size_t)w->group_size : w->dtype == DTYPE_MLX_NVFP4 ? 16 : 32;
    size_t n_scales = n / group;
    if (f8)
        n_scales = ((size_t)n_rows + (size_t)w->block_rows - 1) / (size_t)w->block_rows *
                   (((size_t)n_cols + (size_t)w->block_cols - 1) / (size_t)w->block_cols) *
                   (size_t)n_experts;
    size_t bytes = n_scales * dtype_info(w->scale_dtype)->block_bytes;
    void *scales = malloc(bytes), *biases = malloc(bytes);
    assert_non_null(scales);
    assert_non_null(biases);
    if (w->scale_dtype != DTYPE_U8) {
        dtype_fill_random(w->scale_dtype, scales, n_scales, f8 ? 0.01f : 1.0f, &seed);
        dtype_fill_random(w->scale_dtype, biases, n_scales, 1.0f, &seed);
    } else if (w->dtype == DTYPE_MLX_NVFP4) {
        fill_bytes(scales, n_scales, 0x20, 0x48); /* E4M3: 1/8 to 4 */
    } else {
        unsigned low = w->dtype == DTYPE_MLX_MXFP8 ? 117 : 124;
        fill_bytes(scales, n_scales, low, low + 5); /* powers of two */
    }
    w->scales = scales;
    w->biases = affine ? biases : NULL;
    if (!affine)
        free(biases);
    struct error err;
    if (!matrix_check(w, bytes, affine ? bytes : 0, &err))
        fail_msg("%s", err.message);
}

static void free_scaled(struct matrix *w)
{
    matrix_release(w);
    free((void *)w->data);
    free((void *)w->scales);
    free((void *)w->biases);
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
    struct panel_format format;
    bool rounds = panel_format_of(w, &format);
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
    return !dtype_info(dtype)->is_scaled && dtype != DTYPE_BOOL && !(dtype >= DTYPE_I8 && dtype <= DTYPE_U64);
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

/* The numbers that MLX's definition gives a row: value k is `bits` bits from bit
 * k * bits of its words on, times its group's scale, plus its bias. */
static void affine_rows_are_what_their_definition_says(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 384 };
    for (size_t kind = 0; kind < 54; kind++) {
        struct matrix w;
        make_scaled(&w, kind, ROWS, COLS, 2);
        size_t bits = (size_t)w.bits, groups = COLS / (size_t)w.group_size;
        const uint32_t *words = w.data;
        for (size_t r = 0; r < 2 * ROWS; r++) {
            float row[COLS];
            matrix_row(&w, (int32_t)(r / ROWS), (int32_t)(r % ROWS), row);
            for (size_t k = 0; k < COLS; k++) {
                size_t at = (r * COLS + k) * bits, g = r * groups + k / (size_t)w.group_size;
                uint64_t both = words[at / 32];
                if (at % 32 + bits > 32)
                    both |= (uint64_t)words[at / 32 + 1] << 32;
                float scale, bias;
                size_t step = dtype_info(w.scale_dtype)->block_bytes;
                dtype_decode(w.scale_dtype, (const char *)w.scales + g * step, &scale, 1);
                dtype_decode(w.scale_dtype, (const char *)w.biases + g * step, &bias, 1);
                float q = (float)(both >> at % 32 & ((1u << bits) - 1));
                assert_true(fabsf(row[k] - (q * scale + bias)) <= 1e-5f * fabsf(q * scale));
            }
        }
        free_scaled(&w);
    }
}

/* Every kind with scales of its own, before and after packing; the same bits
 * alone, together, and on three threads. */
static void scaled_kinds_multiply_like_their_decoded_weights(void **state)
{
    (void)state;
    struct worker_pool *one = make_pool(1), *three = make_pool(3);
    static const struct {
        int32_t rows, cols;
        size_t n_x;
    } shapes[] = {{1, 128, 1}, {37, 384, 9}, {17, 2048 + 384, 5}};
    struct error err;
    for (size_t i = 0; i < N_SCALED * 3; i++) {
        struct matrix w;
        size_t n = (size_t)shapes[i % 3].cols, rows = (size_t)shapes[i % 3].rows,
               n_x = shapes[i % 3].n_x;
        make_scaled(&w, i / 3, (int32_t)rows, (int32_t)n, 1);
        float *x = make_floats(n_x * n), *y = make_floats(n_x * rows), *alone = make_floats(rows);
        for (int pass = 0; pass < 2; pass++) {
            assert_true(matmul(three, &w, x, n, n_x, y, rows));
            for (size_t j = 0; j < n_x; j++) {
                check_close(&w, 0, x + j * n, y + j * rows);
                assert_true(matmul(one, &w, x + j * n, n, 1, alone, rows));
                assert_memory_equal(alone, y + j * rows, rows * sizeof *alone);
            }
            assert_true(matrix_prepare(&w, three, &err));
        }
        free(x);
        free(y);
        free(alone);
        free_scaled(&w);
    }
    worker_pool_free(one);
    worker_pool_free(three);
}

/* ... and as experts, and beside others over the same activations. */
static void scaled_kinds_are_gathered_and_share_activations(void **state)
{
    (void)state;
    static const int32_t expert[] = {3, 0, 3, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3};
    static const int32_t x_row[] = {0, 0, 1, 1, 2, 3, 4, 0, 1, 2, 3, 4, 4};
    enum { N = sizeof expert / sizeof *expert, ROWS = 21, COLS = 256 };
    struct worker_pool *pool = make_pool(2);
    struct matrix plain;
    make_matrix(&plain, DTYPE_Q4_K, 24, COLS, 1);
    for (size_t kind = 0; kind < N_SCALED; kind += kind < 54 ? 4 : 1) {
        struct matrix w, single;
        make_scaled(&w, kind, ROWS, COLS, 4);
        make_scaled(&single, kind, ROWS, COLS, 1);
        float *x = make_floats(5 * COLS), *y = make_floats(N * ROWS), other[5 * 24];
        assert_true(matmul_gathered(pool, &w, NULL, expert, x_row, N, x, COLS, 5, y, ROWS));
        for (size_t j = 0; j < N; j++)
            check_close(&w, expert[j], x + x_row[j] * COLS, y + j * ROWS);
        struct matmul_term terms[] = {{.w = &single, .y = y, .y_stride = ROWS},
                                      {.w = &plain, .y = other, .y_stride = 24}};
        assert_true(matmul_many(pool, terms, 2, x, COLS, 5));
        for (size_t j = 0; j < 5; j++) {
            check_close(&single, 0, x + j * COLS, y + j * ROWS);
            check_close(&plain, 0, x + j * COLS, other + j * 24);
        }
        free(x);
        free(y);
        free_scaled(&w);
        free_scaled(&single);
    }
    free((void *)plain.data);
    worker_pool_free(pool);
}

/* A vocabulary's worth of rows, and a long prompt's worth of activations. */
static void many_rows_and_many_activations_are_multiplied(void **state)
{
    (void)state;
    static const enum dtype some[] = {DTYPE_Q4_K, DTYPE_Q8_0, DTYPE_F16};
    struct worker_pool *pool = make_pool(2);
    for (size_t d = 0; d < sizeof some / sizeof *some; d++) {
        struct matrix w;
        make_matrix(&w, some[d], 70001, 256, 1);
        check_product(&w, 1, pool);
        free((void *)w.data);
        make_matrix(&w, some[d], 17, 256, 1);
        check_product(&w, 1031, pool);
        free((void *)w.data);
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
        cmocka_unit_test(affine_rows_are_what_their_definition_says),
        cmocka_unit_test(scaled_kinds_multiply_like_their_decoded_weights),
        cmocka_unit_test(scaled_kinds_are_gathered_and_share_activations),
        cmocka_unit_test(many_rows_and_many_activations_are_multiplied),
        cmocka_unit_test(plain_formats_take_any_number_of_columns),
        cmocka_unit_test(long_rows_are_multiplied_whole),
        cmocka_unit_test(a_result_does_not_depend_on_its_company),
        cmocka_unit_test(packing_changes_no_result),
        cmocka_unit_test(terms_share_activations_and_take_a_bias),
        cmocka_unit_test(experts_are_gathered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
