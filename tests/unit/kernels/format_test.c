/* format_test.c - every row of the table of formats: its functions agree with each other.
 *
 * The tests go through the table, and what they cannot know of a format stands in
 * `expected`: a row without an entry there fails. */
#include "unit/unit.h"

#include "kernels/format.h"
#include "kernels/matrix.h"
#include "kernels/table.h"

#include <math.h>
#include <string.h>

#define NO_ENCODER -1.0f

/* How far a format may be from what it was made of: root mean square, of numbers spread
 * evenly over -1..1. */
static const struct {
    bool is_listed;
    float worst_error;
} expected[DTYPE_COUNT] = {
    [DTYPE_F32] = {true, 0},
    [DTYPE_F16] = {true, 3e-4f},
    [DTYPE_BF16] = {true, 2e-3f},
    [DTYPE_F64] = {true, 0},
    [DTYPE_I8] = {true, NO_ENCODER},
    [DTYPE_I16] = {true, NO_ENCODER},
    [DTYPE_I32] = {true, NO_ENCODER},
    [DTYPE_I64] = {true, NO_ENCODER},
    [DTYPE_U8] = {true, NO_ENCODER},
    [DTYPE_U16] = {true, NO_ENCODER},
    [DTYPE_U32] = {true, NO_ENCODER},
    [DTYPE_U64] = {true, NO_ENCODER},
    [DTYPE_BOOL] = {true, NO_ENCODER},
    [DTYPE_F8_E4M3] = {true, NO_ENCODER},
    [DTYPE_F8_E5M2] = {true, NO_ENCODER},
    [DTYPE_Q1_0] = {true, 0.35f},
    [DTYPE_Q2_0] = {true, 0.35f},
    [DTYPE_Q4_0] = {true, 0.05f},
    [DTYPE_Q4_1] = {true, 0.05f},
    [DTYPE_Q5_0] = {true, 0.025f},
    [DTYPE_Q5_1] = {true, 0.025f},
    [DTYPE_Q8_0] = {true, 3e-3f},
    [DTYPE_Q8_1] = {true, NO_ENCODER},
    [DTYPE_Q2_K] = {true, 0.2f},
    [DTYPE_Q3_K] = {true, 0.1f},
    [DTYPE_Q4_K] = {true, 0.05f},
    [DTYPE_Q5_K] = {true, 0.025f},
    [DTYPE_Q6_K] = {true, 0.012f},
    [DTYPE_Q8_K] = {true, NO_ENCODER},
    [DTYPE_IQ1_S] = {true, NO_ENCODER},
    [DTYPE_IQ1_M] = {true, NO_ENCODER},
    [DTYPE_IQ2_XXS] = {true, NO_ENCODER},
    [DTYPE_IQ2_XS] = {true, NO_ENCODER},
    [DTYPE_IQ2_S] = {true, NO_ENCODER},
    [DTYPE_IQ3_XXS] = {true, NO_ENCODER},
    [DTYPE_IQ3_S] = {true, NO_ENCODER},
    [DTYPE_IQ4_NL] = {true, 0.06f},
    [DTYPE_IQ4_XS] = {true, 0.06f},
    [DTYPE_TQ1_0] = {true, 0.35f},
    [DTYPE_TQ2_0] = {true, 0.35f},
    [DTYPE_MXFP4] = {true, 0.1f},
    [DTYPE_NVFP4] = {true, 0.1f},
    [DTYPE_F8_SCALED] = {true, NO_ENCODER},
    [DTYPE_MLX_AFFINE] = {true, NO_ENCODER},
    [DTYPE_MLX_MXFP4] = {true, NO_ENCODER},
    [DTYPE_MLX_MXFP8] = {true, NO_ENCODER},
    [DTYPE_MLX_NVFP4] = {true, NO_ENCODER},
};

static uint64_t seed = 0x2545F4914F6CDD1Du;

static uint8_t random_byte(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(seed >> 56);
}

static void every_row_is_whole(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        const struct format *f = format_of((enum dtype)d);
        if (!expected[d].is_listed)
            fail_msg("%s has no entry in this test", f->info.name);
        assert_non_null(f->info.name);
        assert_non_null(f->matrix);
        assert_non_null(f->matrix->row);
        /* Exactly one way to decode, unless it is a matrix of several tensors. */
        assert_int_equal((f->decode != NULL) + (f->unpack != NULL), !f->info.is_scaled);
        assert_int_equal(f->info.can_decode, !f->info.is_scaled);
        assert_int_equal(f->info.is_quantized, f->unpack != NULL);
        assert_int_equal(dtype_can_encode((enum dtype)d), expected[d].worst_error >= 0);
        assert_true(f->info.block_len >= 1 && f->info.block_len <= DTYPE_MAX_BLOCK);
        if (f->matrix->panel_format)
            assert_true(f->matrix->unpack && f->matrix->packing && f->matrix->pack);
        if (f->unpack) {
            assert_true(f->sub_len == 16 || f->sub_len == 32);
            assert_true(f->encode_block || f->set_scale || f->largest > 0);
            assert_int_equal(f->info.block_len % f->sub_len, 0);
            assert_true(!f->has_min || f->offset == 0);
        }
        for (int e = 0; e < d; e++)
            assert_true(strcmp(f->info.name, dtype_info((enum dtype)e)->name) != 0);
    }
}

/* Whatever bytes a block has, its integers fit what the row says of them. */
static void integers_of_any_block_are_in_range(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        const struct format *f = format_of((enum dtype)d);
        for (int round = 0; f->unpack && round < 200; round++) {
            uint8_t block[512];
            struct block_ints ints;
            for (size_t i = 0; i < sizeof block; i++)
                block[i] = random_byte();
            f->unpack(block, &ints);
            for (size_t i = 0; i < f->info.block_len; i++)
                assert_true(ints.q[i] + f->offset >= 0 && ints.q[i] + f->offset <= f->max);
        }
    }
}

static void what_is_encoded_comes_back_nearly(void **state)
{
    (void)state;
    enum { N = 4096 };
    static float x[N], y[N];
    static uint8_t blocks[N * 8];
    dtype_fill_random(DTYPE_F32, x, N, 1, &seed);
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (!dtype_can_encode((enum dtype)d)) {
            assert_false(dtype_encode((enum dtype)d, x, blocks, 256));
            continue;
        }
        assert_true(dtype_encode((enum dtype)d, x, blocks, N));
        dtype_decode((enum dtype)d, blocks, y, N);
        double squares = 0;
        for (size_t i = 0; i < N; i++)
            squares += (double)(x[i] - y[i]) * (double)(x[i] - y[i]);
        double error = sqrt(squares / N);
        if (!(error <= (double)expected[d].worst_error))
            fail_msg("%s: off by %g", dtype_info((enum dtype)d)->name, error);
    }
}

/* ---- matrices of every format ---- */

enum { ROWS = 37, COLS = 1024 };

/* A byte that stands for a scale of ordinary size. */
static uint8_t scale_byte(const struct format *f)
{
    for (;;) {
        uint8_t v = random_byte();
        float scale = f->group_scale(v);
        if (scale > 0.06f && scale < 16)
            return v;
    }
}

static void make_scaled(struct matrix *w, enum dtype dtype)
{
    const struct format *f = format_of(dtype);
    *w = (struct matrix){.dtype = dtype,
                         .n_rows = ROWS,
                         .n_cols = COLS,
                         .n_experts = 1,
                         .bits = f->info.bits,
                         .group_size = f->info.group_len,
                         .block_rows = 8,
                         .block_cols = 100,
                         .scale_dtype = f->group_scale ? DTYPE_U8 : DTYPE_F16};
    w->n_bytes = (size_t)(ROWS * COLS) * (size_t)f->info.bits / 8;
    uint8_t *data = malloc(w->n_bytes);
    assert_non_null(data);
    /* An F8 of all ones is no number. */
    for (size_t i = 0; i < w->n_bytes; i++)
        data[i] = random_byte() & (f->info.bits == 8 ? 0xBF : 0xFF);
    size_t n = (size_t)ROWS * (COLS / 16), used = (size_t)ROWS * COLS;
    used = f->info.group_len ? used / (size_t)f->info.group_len : 5 * 11;
    uint8_t *scales = malloc(2 * n), *biases = malloc(2 * n);
    assert_non_null(scales);
    assert_non_null(biases);
    for (size_t i = 0; f->group_scale && i < n; i++)
        scales[i] = scale_byte(f);
    if (!f->group_scale)
        dtype_fill_random(DTYPE_F16, scales, n, 1, &seed);
    dtype_fill_random(DTYPE_F16, biases, n, 1, &seed);
    w->data = data;
    w->scales = scales;
    w->biases = biases;
    size_t bytes = used * dtype_info(w->scale_dtype)->block_bytes;
    struct error err;
    if (!matrix_check(w, bytes, bytes, &err))
        fail_msg("%s: %s", f->info.name, err.message);
}

/* Random, of any format; free_any frees it. */
static void make_any(struct matrix *w, enum dtype dtype)
{
    size_t bytes;
    struct error err;
    if (dtype_info(dtype)->is_scaled) {
        make_scaled(w, dtype);
        return;
    }
    assert_true(dtype_bytes(dtype, ROWS * COLS, &bytes));
    void *data = malloc(bytes);
    assert_non_null(data);
    dtype_fill_random(dtype, data, ROWS * COLS, 1, &seed);
    assert_true(matrix_plain(w, dtype, ROWS, COLS, 1, data, bytes, &err));
}

static void free_any(struct matrix *w)
{
    matrix_release(w);
    free((void *)w->data);
    free((void *)w->scales);
    free((void *)w->biases);
}

/* y is x times the decoded rows, but for the rounding of activations to 8 bits where the
 * format is multiplied so: each of at most 1 is then off by at most 1/254. */
static void check_product(const struct matrix *w, const float *x, const float *y)
{
    static float row[COLS];
    struct panel_format format;
    double tolerance = panel_format_of(w, &format) ? 5.0 / 254 : 1e-5;
    for (int32_t r = 0; r < ROWS; r++) {
        double sum = 0, squares = 0;
        matrix_row(w, 0, r, row);
        for (size_t i = 0; i < COLS; i++) {
            sum += (double)row[i] * (double)x[i];
            squares += (double)row[i] * (double)row[i];
        }
        if (!(fabs(sum - (double)y[r]) <= tolerance * sqrt(squares) + 1e-5))
            fail_msg("%s row %d: %g instead of %g", dtype_info(w->dtype)->name, r, (double)y[r],
                     sum);
    }
}

/* Integers other than bytes are no weights. */
static bool is_weight(enum dtype dtype)
{
    return dtype < DTYPE_I8 || dtype > DTYPE_BOOL;
}

/* A product is that of the decoded rows; packing changes no bit of it, nor does the number
 * of activations. */
static void rows_multiply_as_decoded_and_as_packed(void **state)
{
    (void)state;
    enum { N_X = 7 };
    static float x[N_X * COLS], plain[N_X * ROWS], packed[N_X * ROWS], alone[ROWS];
    struct worker_settings settings = {.n_threads = 2, .poll = 50};
    struct error err;
    struct worker_pool *pool = worker_pool_create(&settings, &err);
    assert_non_null(pool);
    for (int d = 0; d < DTYPE_COUNT; d++) {
        struct matrix w;
        if (!is_weight((enum dtype)d))
            continue;
        make_any(&w, (enum dtype)d);
        dtype_fill_random(DTYPE_F32, x, N_X * COLS, 1, &seed);
        assert_true(matmul(pool, &w, x, COLS, N_X, plain, ROWS));
        assert_true(matrix_prepare(&w, pool, &err));
        assert_int_equal(w.packed != NULL, format_of((enum dtype)d)->matrix->pack != NULL &&
                                               kernel_table()->reads_packed(&w));
        assert_true(matmul(pool, &w, x, COLS, N_X, packed, ROWS));
        assert_memory_equal(plain, packed, sizeof plain);
        for (size_t i = 0; i < N_X; i++) {
            check_product(&w, x + i * COLS, plain + i * ROWS);
            assert_true(matmul(pool, &w, x + i * COLS, COLS, 1, alone, ROWS));
            assert_memory_equal(alone, plain + i * ROWS, sizeof alone);
        }
        free_any(&w);
    }
    worker_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(integers_of_any_block_are_in_range),
        cmocka_unit_test(what_is_encoded_comes_back_nearly),
        cmocka_unit_test(rows_multiply_as_decoded_and_as_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
