/* table_test.c - every instruction set of this machine against plain C. */
#include "unit/unit.h"

#include "kernels/format.h"
#include "kernels/matrix.h"
#include "kernels/table.h"

#include <math.h>
#include <string.h>

static uint64_t seed = 0x9E3779B97F4A7C15u;

enum { MAX_COLS = 1024 };

static void fill(float *x, size_t n, float amplitude)
{
    dtype_fill_random(DTYPE_F32, x, n, amplitude, &seed);
}

#define EACH_TABLE(k)                                                                              \
    const struct kernel_table *k;                                                                  \
    for (size_t i_table = 0; (k = kernel_table_at(i_table)) != NULL; i_table++)

static void assert_close(const struct kernel_table *k, const char *what, float got, float want,
                         float tolerance)
{
    if (got != want && !(fabsf(got - want) <= tolerance) && !(isnan(got) && isnan(want)))
        fail_msg("%s: %s is %g instead of %g", k->name, what, (double)got, (double)want);
}

/* Rounding activations gives the same bytes everywhere. */
static void activations_round_alike(void **state)
{
    (void)state;
    static float x[MAX_COLS];
    int8_t q[2][MAX_COLS];
    float scale[2][MAX_COLS / 32];
    int32_t sum[2][MAX_COLS / 16];
    for (int round = 0; round < 50; round++) {
        fill(x, MAX_COLS, round % 2 ? 1.0f : 1000.0f);
        memset(x + 64, 0, 32 * sizeof *x);
        struct act_row want = {q[0], scale[0], sum[0]}, got = {q[1], scale[1], sum[1]};
        x[300] = -(x[310] = 5000); /* two that are equally far from zero */
        for (int wide = 0; wide < 2; wide++) {
            (wide ? quantize_wide_generic : quantize_generic)(x, MAX_COLS, &want);
            EACH_TABLE(k)
            {
                (wide ? k->quantize_wide : k->quantize)(x, MAX_COLS, &got);
                assert_memory_equal(q[0], q[1], sizeof q[0]);
                assert_memory_equal(scale[0], scale[1], sizeof scale[0]);
                assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
            }
        }
    }
}

struct panel_memory {
    _Alignas(64) uint8_t q[MAX_COLS * PANEL_ROWS];
    _Alignas(64) float scale[MAX_COLS / 16 * PANEL_ROWS];
    _Alignas(64) float min[MAX_COLS / 16 * PANEL_ROWS];
};

static void make_source(const struct matrix *w, int32_t first_row, struct panel_source *s)
{
    assert_true(panel_format_of(w, &s->format));
    s->w = w;
    s->expert = 0;
    s->first_row = first_row;
    s->n_rows = w->n_rows - first_row < PANEL_ROWS ? w->n_rows - first_row : PANEL_ROWS;
    for (int32_t i = 0; i < PANEL_ROWS; i++)
        s->row[i] = matrix_row_data(w, 0, first_row + (i < s->n_rows ? i : s->n_rows - 1));
    s->packing = matrix_packing(w);
    s->packed = matrix_packed(w, &s->packing, 0, first_row);
}

/* One row of activations times a packed panel at once is, to the last bit, what
 * unpacking and multiplying give. */
static void check_one_row(const struct kernel_table *k, const struct panel_source *s)
{
    static struct panel_memory memory;
    static int8_t a[MAX_COLS];
    static float scale[MAX_COLS / 32], sum[MAX_COLS / 16];
    static int32_t bias[MAX_COLS / 16];
    size_t n = (size_t)s->w->n_cols;
    struct act_tile tile = {.q = {a}, .scale = {scale}, .sum = {sum}, .bias = {bias}};
    for (size_t i = 0; i < n; i++)
        a[i] = (int8_t)((int)(i * 2654435761u >> 13 & 255) - 128 + (i % 3 == 0));
    fill(scale, MAX_COLS / 32, 0.1f);
    fill(sum, MAX_COLS / 16, 1);
    for (size_t i = 0; i < MAX_COLS / 16; i++)
        bias[i] = (int32_t)i * 17 - 100;
    struct panel panel = {s->format, memory.q, memory.scale, memory.min};
    float got[PANEL_ROWS], want[PANEL_ROWS], *acc = want;
    fill(want, PANEL_ROWS, 1);
    memcpy(got, want, sizeof got);
    k->unpack(s, 0, n, &panel);
    k->panel_dot(&panel, 1, &tile, n, 1, &acc);
    k->panel_one(s, &tile, n, got);
    if (memcmp(got, want, sizeof got) != 0)
        fail_msg("%s: one row times a panel of %s differs", k->name, dtype_info(s->w->dtype)->name);
}

static void check_panel(const struct panel_source *s)
{
    static struct panel_memory memory[2];
    const char *name = dtype_info(s->w->dtype)->name;
    size_t block = s->format.block_len, n_cols = (size_t)s->w->n_cols;
    size_t begin = n_cols > block ? block : 0, n = n_cols - begin;
    size_t n_scales = n / s->format.sub_len * PANEL_ROWS;
    struct panel want = {s->format, memory[0].q, memory[0].scale, memory[0].min};
    struct panel got = {s->format, memory[1].q, memory[1].scale, memory[1].min};
    unpack_generic(s, begin, n, &want);
    for (size_t i = 0; i < n * PANEL_ROWS; i++)
        assert_true(memory[0].q[i] <= s->format.max);
    EACH_TABLE(k)
    {
        if (s->packed && !k->reads_packed(s->w))
            continue;
        memset(memory[1].q, 0xEE, sizeof memory[1].q);
        k->unpack(s, begin, n, &got);
        if (memcmp(memory[0].q, memory[1].q, n * PANEL_ROWS) != 0)
            fail_msg("%s: integers of %s differ", k->name, name);
        for (size_t i = 0; i < n_scales; i++) {
            assert_close(k, name, got.scale[i], want.scale[i], 1e-6f * fabsf(want.scale[i]));
            if (s->format.has_min)
                assert_close(k, name, got.min[i], want.min[i], 1e-6f * fabsf(want.min[i]));
        }
        if (s->packed && k->panel_one)
            check_one_row(k, s);
    }
}

/* Unpack two panels of w, one of them with missing rows, on every table: from the rows
 * as they are, and packed. */
static void check_unpacking(const struct matrix *w)
{
    struct matrix packed = *w;
    struct panel_source s;
    struct error err;
    assert_true(matrix_prepare(&packed, NULL, &err));
    for (int32_t first = 0; first < w->n_rows; first += PANEL_ROWS) {
        make_source(w, first, &s);
        check_panel(&s);
        if (!packed.packed)
            continue;
        make_source(&packed, first, &s);
        check_panel(&s);
    }
    matrix_release(&packed);
}

static void *make_data(enum dtype dtype, size_t n, size_t *bytes)
{
    assert_true(dtype_bytes(dtype, n, bytes));
    void *data = malloc(*bytes);
    assert_non_null(data);
    dtype_fill_random(dtype, data, n, 1.0f, &seed);
    return data;
}

static void blocks_unpack_alike(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (!dtype_info((enum dtype)d)->is_quantized)
            continue;
        int32_t block = dtype_info((enum dtype)d)->block_len;
        for (int32_t blocks = 1; blocks <= MAX_COLS / block; blocks = blocks * 2 + 1) {
            struct matrix w;
            struct error err;
            size_t bytes;
            void *data = make_data((enum dtype)d, (size_t)(block * blocks) * 21, &bytes);
            assert_true(matrix_plain(&w, (enum dtype)d, 21, block * blocks, 1, data, bytes, &err));
            check_unpacking(&w);
            free(data);
        }
    }
}

/* Random bytes are valid too, whatever their scales. */
static void any_bytes_unpack_alike(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (!dtype_info((enum dtype)d)->is_quantized)
            continue;
        int32_t n_cols = 512;
        size_t bytes;
        assert_true(dtype_bytes((enum dtype)d, (uint64_t)n_cols * PANEL_ROWS, &bytes));
        uint8_t *data = malloc(bytes);
        for (size_t i = 0; i < bytes; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            data[i] = (uint8_t)(seed >> 56);
        }
        struct matrix w;
        struct error err;
        assert_true(matrix_plain(&w, (enum dtype)d, PANEL_ROWS, n_cols, 1, data, bytes, &err));
        check_unpacking(&w);
        free(data);
    }
}

static void mlx_groups_unpack_alike(void **state)
{
    (void)state;
    static const int32_t bits[] = {2, 3, 4, 5, 6, 8};
    static const int32_t groups[] = {32, 64, 128};
    static const enum dtype scales[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    enum { ROWS = 21, COLS = 384 };
    static uint8_t words[ROWS * COLS];
    static float scale_data[ROWS * COLS / 16], bias_data[ROWS * COLS / 16];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (!dtype_info((enum dtype)d)->mlx_mode || !format_of((enum dtype)d)->matrix->pack)
            continue;
        for (size_t i = 0; i < 6 * 3 * 3; i++) {
            bool affine = dtype_info((enum dtype)d)->has_biases;
            struct matrix w = {.dtype = (enum dtype)d,
                               .n_rows = ROWS,
                               .n_cols = COLS,
                               .n_experts = 1,
                               .data = words,
                               .n_bytes = sizeof words,
                               .scale_dtype = affine ? scales[i % 3] : DTYPE_U8,
                               .scales = scale_data,
                               .biases = affine ? bias_data : NULL,
                               .bits = bits[i / 9],
                               .group_size = groups[i / 3 % 3]};
            size_t n_scales = ROWS * COLS / (size_t)(affine ? w.group_size : matrix_group(&w));
            if (affine) {
                dtype_fill_random(w.scale_dtype, scale_data, n_scales, 1.0f, &seed);
                dtype_fill_random(w.scale_dtype, bias_data, n_scales, 1.0f, &seed);
            } else {
                dtype_fill_random(DTYPE_F8_E4M3, scale_data, n_scales, 1.0f, &seed);
            }
            size_t bytes = n_scales * dtype_info(w.scale_dtype)->block_bytes;
            struct error err;
            if (!matrix_check(&w, bytes, affine ? bytes : 0, &err))
                fail_msg("%s", err.message);
            check_unpacking(&w);
        }
    }
}

/* Panels of every kind times tiles of 1 to TILE_TOKENS rows. */
static void panels_multiply_alike(void **state)
{
    (void)state;
    static struct panel_memory memory[2];
    static const struct panel_format formats[] = {
        {.sub_len = 32, .offset = 8, .max = 15},      {.sub_len = 32, .max = 15, .has_min = true},
        {.sub_len = 32, .offset = 16, .max = 31},     {.sub_len = 32, .offset = 128, .max = 255},
        {.sub_len = 32, .max = 255, .has_min = true}, {.sub_len = 16, .offset = 32, .max = 63},
        {.sub_len = 16, .max = 3, .has_min = true},   {.sub_len = 16, .offset = 12, .max = 24},
        {.sub_len = 32, .offset = 62, .max = 124},    {.sub_len = 16, .offset = 43, .max = 86},
    };
    enum { N = 352 };
    static int8_t a[TILE_TOKENS][N];
    static float scale[TILE_TOKENS][N / 32], sum[TILE_TOKENS][N / 16];
    static int32_t bias[TILE_TOKENS][N / 16];
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        for (size_t i = 0; i < N * PANEL_ROWS; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            /* the extremes often, where sums of 16 bits would overflow */
            memory[0].q[i] =
                (uint8_t)(seed >> 63 ? formats[f].max : (seed >> 33) % (formats[f].max + 1u));
            memory[1].q[i] = (uint8_t)((seed >> 20) % (formats[f].max + 1u));
        }
        for (int i = 0; i < 2; i++) {
            fill(memory[i].scale, N / 16 * PANEL_ROWS, 1);
            fill(memory[i].min, N / 16 * PANEL_ROWS, 1);
        }
        struct act_tile tile;
        for (size_t t = 0; t < TILE_TOKENS; t++) {
            fill(scale[t], N / 32, 0.1f);
            fill(sum[t], N / 16, 1);
            for (size_t i = 0; i < N; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                a[t][i] = (int8_t)(t == 0 ? 127 : t == 1 ? -127 : (int)(seed >> 33) % 128);
            }
            for (size_t i = 0; i < N / 16; i++)
                bias[t][i] = (int32_t)i * 17 - 100;
            tile.q[t] = a[t];
            tile.scale[t] = scale[t];
            tile.sum[t] = sum[t];
            tile.bias[t] = bias[t];
        }
        struct panel p[2] = {{formats[f], memory[0].q, memory[0].scale, memory[0].min},
                             {formats[f], memory[1].q, memory[1].scale, memory[1].min}};
        for (size_t i = 0; i < TILE_TOKENS * 2; i++) {
            size_t n_tokens = 1 + i / 2, n_panels = 1 + i % 2;
            float want[2 * TILE_TOKENS][PANEL_ROWS] = {{0}}, got[2 * TILE_TOKENS][PANEL_ROWS];
            float *want_acc[2 * TILE_TOKENS], *got_acc[2 * TILE_TOKENS];
            for (size_t t = 0; t < 2 * TILE_TOKENS; t++) {
                want_acc[t] = want[t];
                got_acc[t] = got[t];
            }
            panel_dot_generic(p, n_panels, &tile, N, n_tokens, want_acc);
            EACH_TABLE(k)
            {
                memset(got, 0, sizeof got);
                k->panel_dot(p, n_panels, &tile, N, n_tokens, got_acc);
                for (size_t t = 0; t < 2 * TILE_TOKENS; t++) {
                    for (size_t r = 0; r < PANEL_ROWS; r++)
                        assert_close(k, "a product", got[t][r], want[t][r],
                                     0.01f + 1e-5f * fabsf(want[t][r]));
                }
            }
        }
    }
}

static void plain_rows_multiply_alike(void **state)
{
    (void)state;
    static const enum dtype plain[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static const size_t lengths[] = {1, 3, 15, 16, 17, 31, 33, 64, 80, 100, 255, 512};
    static float x_data[DOT_TOKENS][512];
    fill(x_data[0], DOT_TOKENS * 512, 1);
    for (size_t i = 0; i < sizeof plain / sizeof *plain * sizeof lengths / sizeof *lengths; i++) {
        enum dtype dtype = plain[i % 3];
        size_t n = lengths[i / 3], bytes;
        uint8_t *data = make_data(dtype, n * DOT_WEIGHTS, &bytes);
        size_t step = n % DOT_LANES == 0 && n > 64 ? FLOAT_STEP : DOT_LANES;
        size_t row = step == FLOAT_STEP ? DOT_LANES : n;
        const void *w[DOT_WEIGHTS];
        const float *x[DOT_TOKENS];
        for (size_t j = 0; j < DOT_WEIGHTS; j++)
            w[j] = data + j * row * dtype_info(dtype)->block_bytes;
        for (size_t j = 0; j < DOT_TOKENS; j++)
            x[j] = x_data[j];
        for (size_t n_w = 1; n_w <= DOT_WEIGHTS; n_w++) {
            for (size_t n_x = 1; n_x <= DOT_TOKENS; n_x++) {
                float want[DOT_WEIGHTS * DOT_TOKENS * DOT_LANES] = {0};
                float_dots_generic(dtype, w, n_w, step, x, n_x, n, want);
                EACH_TABLE(k)
                {
                    float got[DOT_WEIGHTS * DOT_TOKENS * DOT_LANES] = {0};
                    k->float_dots(dtype, w, n_w, step, x, n_x, n, got);
                    for (size_t j = 0; j < n_w * n_x * DOT_LANES; j++)
                        assert_close(k, "a partial sum", got[j], want[j], 1e-4f);
                    assert_close(k, "a sum", k->lanes_sum(got), lanes_sum_generic(want), 1e-4f);
                }
            }
        }
        free(data);
    }
}

/* The cache's formats decode to the truth, bit for bit. */
static void blocks_decode_alike(void **state)
{
    (void)state;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        const struct dtype_info *info = dtype_info((enum dtype)d);
        if (info->is_scaled)
            continue;
        for (size_t blocks = 1; blocks < 40; blocks += 7) {
            static float want[40 * DTYPE_MAX_BLOCK], got[40 * DTYPE_MAX_BLOCK];
            size_t n = blocks * info->block_len, bytes;
            void *data = make_data((enum dtype)d, n, &bytes);
            dtype_decode((enum dtype)d, data, want, n);
            EACH_TABLE(k)
            {
                memset(got, 0, sizeof got);
                k->decode((enum dtype)d, data, got, n);
                for (size_t i = 0; i < n; i++)
                    assert_close(k, info->name, got[i], want[i], 0);
            }
            free(data);
        }
    }
}

static void scores_and_values_agree(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 8, 13, 16, 40, 64, 80, 96, 128, 192, 256};
    enum { CELLS = 64, MAX_Q = 17, MAX_DIM = 256 };
    static float q_data[MAX_Q * MAX_DIM], kv[CELLS * MAX_DIM], weights[MAX_Q * CELLS];
    static float want[MAX_Q * MAX_DIM], got[MAX_Q * MAX_DIM], half[MAX_Q * MAX_DIM];
    static uint16_t halves[CELLS * MAX_DIM];
    fill(q_data, MAX_Q * MAX_DIM, 1);
    dtype_fill_random(DTYPE_F16, halves, CELLS * MAX_DIM, 1, &seed);
    dtype_decode(DTYPE_F16, halves, kv, CELLS * MAX_DIM);
    fill(weights, MAX_Q * CELLS, 1);
    for (size_t i = 0; i < sizeof dims / sizeof *dims * 4; i++) {
        size_t dim = dims[i / 4];
        size_t n_k = (size_t[]){1, 17, 63, 64}[i % 4];
        const uint16_t *rows[CELLS];
        for (size_t c = 0; c < CELLS; c++)
            rows[c] = halves + c * dim;
        for (size_t n_q = 1; n_q <= MAX_Q; n_q++) {
            const float *q[MAX_Q];
            float *want_rows[MAX_Q], *got_rows[MAX_Q];
            for (size_t j = 0; j < n_q; j++) {
                q[j] = q_data + j * dim;
                want_rows[j] = want + j * dim;
                got_rows[j] = got + j * dim;
            }
            EACH_TABLE(k)
            {
                scores_generic(q, n_q, kv, n_k, dim, want, CELLS);
                k->scores(q, n_q, kv, n_k, dim, got, CELLS);
                if (k->scores_half) {
                    k->scores_half(q, n_q, rows, 64, n_k, dim, half, CELLS);
                    for (size_t j = 0; j < n_q * n_k; j++)
                        assert_close(k, "a score with keys as they are",
                                     half[j / n_k * CELLS + j % n_k],
                                     got[j / n_k * CELLS + j % n_k], 0);
                }
                for (size_t j = 0; j < n_q * n_k; j++)
                    assert_close(k, "a score", got[j / n_k * CELLS + j % n_k],
                                 want[j / n_k * CELLS + j % n_k], 1e-4f);
                for (size_t j = 0; j < n_q * dim; j++)
                    want[j] = got[j] = (float)j;
                values_generic(weights, CELLS, n_q, kv, n_k, dim, want_rows);
                k->values(weights, CELLS, n_q, kv, n_k, dim, got_rows);
                for (size_t j = 0; j < n_q * dim; j++)
                    assert_close(k, "a value", got[j], want[j], 1e-3f);
            }
        }
    }
}

/* Rows that shrink, rows with weights of 0, and neighbours that have neither. */
static void half_precision_sums_agree(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 8, 13, 40, 64, 80, 128, 200};
    enum { CELLS = 61, STRIDE = 64, MAX_DIM = 200, ROWS = 7 };
    static const bool shrinks[ROWS] = {true, false, false, false, true, false, false};
    static uint16_t halves[CELLS * MAX_DIM];
    static float weights[ROWS * STRIDE], shrink[ROWS * STRIDE];
    static float want[ROWS * MAX_DIM], got[ROWS * MAX_DIM];
    const uint16_t *v[CELLS];
    dtype_fill_random(DTYPE_F16, halves, CELLS * MAX_DIM, 1, &seed);
    for (size_t i = 0; i < CELLS * MAX_DIM; i += 7) /* sums among the smallest halves, too */
        halves[i] = (uint16_t)(halves[i] & 0x83FF);
    for (size_t c = 0; c < CELLS; c++)
        v[c] = halves + c * MAX_DIM;
    fill(weights, ROWS * STRIDE, 1);
    for (size_t i = 0; i < ROWS * STRIDE; i++) {
        size_t row = i / STRIDE;
        weights[i] = row % 3 == 0 && i % 9 == 0 ? 0 : fabsf(weights[i]) + 0.01f;
        shrink[i] = !shrinks[row] ? NAN : i % 11 ? 1.0f : 0.7f;
    }
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        memset(want, 0, sizeof want);
        values_half_generic(weights, shrink, shrinks, STRIDE, ROWS, v, 64, CELLS, dims[i], want);
        EACH_TABLE(k)
        {
            memset(got, 0, sizeof got);
            k->values_half(weights, shrink, shrinks, STRIDE, ROWS, v, 64, CELLS, dims[i], got);
            assert_memory_equal(got, want, ROWS * dims[i] * sizeof *got);
        }
    }
}

static void exponentials_agree(void **state)
{
    (void)state;
    static float x[1001], want[1001], got[1001];
    for (size_t n = 1; n <= 1001; n = n * 3 + 1) {
        fill(x, n, 20);
        float max = 0;
        for (size_t i = 0; i < n; i++)
            max = fmaxf(max, x[i]);
        x[n / 2] = -INFINITY;
        float want_sum = exp_sum_generic(x, max, n, want);
        EACH_TABLE(k)
        {
            float sum = k->exp_sum(x, max, n, got);
            assert_close(k, "a sum of exponentials", sum, want_sum, 1e-5f * want_sum);
            for (size_t i = 0; i < n; i++)
                assert_close(k, "an exponential", got[i], want[i], 3e-7f * want[i] + 1e-37f);
            assert_true(got[n / 2] == 0);
        }
    }
}

static void activations_agree(void **state)
{
    (void)state;
    static float x[333], want[333], got[333];
    for (int act = ACT_SILU; act <= ACT_SIGMOID; act++) {
        for (size_t n = 1; n <= 333; n = n * 2 + 1) {
            fill(x, n, 12);
            x[0] = n % 4 ? -200 : 200;
            activate_generic((enum activation)act, x, n, want);
            EACH_TABLE(k)
            {
                k->activate((enum activation)act, x, n, got);
                for (size_t i = 0; i < n; i++)
                    assert_close(k, "an activation", got[i], want[i],
                                 2e-6f + 2e-6f * fabsf(want[i]));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_round_alike), cmocka_unit_test(blocks_unpack_alike),
        cmocka_unit_test(any_bytes_unpack_alike),  cmocka_unit_test(mlx_groups_unpack_alike),
        cmocka_unit_test(panels_multiply_alike),   cmocka_unit_test(plain_rows_multiply_alike),
        cmocka_unit_test(blocks_decode_alike),     cmocka_unit_test(scores_and_values_agree),
        cmocka_unit_test(exponentials_agree),      cmocka_unit_test(half_precision_sums_agree),
        cmocka_unit_test(activations_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
