/* attention_test.c - attention over a cache against its formula. */
#include "unit/unit.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static uint64_t seed = 31337;

enum { N_CELLS = 200, MAX_QUERIES = 40 };

struct setup {
    struct attention a;
    uint8_t *k, *v;
    float *q, *out;
    int32_t cells[N_CELLS], pos[N_CELLS], q_pos[MAX_QUERIES];
    bool wide; /* attention_sequence's */
};

static void setup(struct setup *s, int32_t n_heads, int32_t n_kv_heads, int32_t dk, int32_t dv,
                  enum dtype k_dtype, enum dtype v_dtype)
{
    memset(s, 0, sizeof *s);
    s->a = (struct attention){.n_heads = n_heads,
                              .n_kv_heads = n_kv_heads,
                              .head_dim_k = dk,
                              .head_dim_v = dv,
                              .k_dtype = k_dtype,
                              .v_dtype = v_dtype,
                              .scale = 1 / sqrtf((float)dk),
                              .causal = true};
    assert_true(dtype_bytes(k_dtype, (uint64_t)dk, &s->a.k_head_bytes));
    assert_true(dtype_bytes(v_dtype, (uint64_t)dv, &s->a.v_head_bytes));
    s->a.k_cell_bytes = s->a.k_head_bytes * (size_t)n_kv_heads;
    s->a.v_cell_bytes = s->a.v_head_bytes * (size_t)n_kv_heads;
    s->k = malloc(s->a.k_cell_bytes * N_CELLS);
    s->v = malloc(s->a.v_cell_bytes * N_CELLS);
    dtype_fill_random(k_dtype, s->k, (size_t)(N_CELLS * n_kv_heads * dk), 1, &seed);
    dtype_fill_random(v_dtype, s->v, (size_t)(N_CELLS * n_kv_heads * dv), 1, &seed);
    s->a.k = s->k;
    s->a.v = s->v;
    s->q = malloc((size_t)(MAX_QUERIES * n_heads * dk) * sizeof(float));
    s->out = malloc((size_t)(MAX_QUERIES * n_heads * dv) * sizeof(float));
    dtype_fill_random(DTYPE_F32, s->q, (size_t)(MAX_QUERIES * n_heads * dk), 2, &seed);
    for (int32_t i = 0; i < N_CELLS; i++) {
        s->cells[i] = i * 37 % N_CELLS; /* scattered over the cache */
        s->pos[i] = i;
    }
    for (int32_t i = 0; i < MAX_QUERIES; i++)
        s->q_pos[i] = N_CELLS - MAX_QUERIES + i;
}

static void teardown(struct setup *s)
{
    free(s->k);
    free(s->v);
    free(s->q);
    free(s->out);
}

static bool visible(const struct attention *a, int32_t pos, int32_t q_pos)
{
    if (a->causal && pos > q_pos)
        return false;
    int32_t w = a->window;
    return a->window_kind == WINDOW_NONE || (a->window_kind == WINDOW_SLIDING && q_pos - pos < w) ||
           (a->window_kind == WINDOW_CHUNKED && pos / w == q_pos / w) ||
           (a->window_kind == WINDOW_SYMMETRIC && abs(q_pos - pos) <= w / 2);
}

/* One head of one query, in doubles, into out[dv]. */
static void exact(const struct setup *s, int32_t query, int32_t head, double *out)
{
    const struct attention *a = &s->a;
    int32_t kv = head / (a->n_heads / a->n_kv_heads);
    double logits[N_CELLS], max = a->sinks ? (double)a->sinks[head] : -INFINITY, sum = 0;
    const float *q = s->q + (size_t)(query * a->n_heads + head) * (size_t)a->head_dim_k;
    float row[512];
    for (int32_t i = 0; i < N_CELLS; i++) {
        dtype_decode(a->k_dtype,
                     s->k + (size_t)s->cells[i] * a->k_cell_bytes + (size_t)kv * a->k_head_bytes,
                     row, (size_t)a->head_dim_k);
        double dot = 0;
        for (int32_t d = 0; d < a->head_dim_k; d++)
            dot += (double)q[d] * (double)row[d];
        dot *= (double)a->scale;
        if (a->soft_cap != 0)
            dot = (double)a->soft_cap * tanh(dot / (double)a->soft_cap);
        if (a->slopes)
            dot -= (double)a->slopes[head] * abs(s->pos[i] - s->q_pos[query]);
        logits[i] = visible(a, s->pos[i], s->q_pos[query]) ? dot : -INFINITY;
        max = fmax(max, logits[i]);
    }
    memset(out, 0, (size_t)a->head_dim_v * sizeof *out);
    if (max == -INFINITY)
        return;
    for (int32_t i = 0; i < N_CELLS; i++) {
        double weight = exp(logits[i] - max);
        sum += weight;
        dtype_decode(a->v_dtype,
                     s->v + (size_t)s->cells[i] * a->v_cell_bytes + (size_t)kv * a->v_head_bytes,
                     row, (size_t)a->head_dim_v);
        for (int32_t d = 0; d < a->head_dim_v; d++)
            out[d] += weight * (double)row[d];
    }
    if (a->sinks)
        sum += exp((double)a->sinks[head] - max);
    for (int32_t d = 0; d < a->head_dim_v; d++)
        out[d] /= sum;
}

static struct worker_pool *make_pool(int32_t n_threads)
{
    struct worker_settings settings = {.n_threads = n_threads, .poll = 50};
    struct error err;
    struct worker_pool *pool = worker_pool_create(&settings, &err);
    assert_non_null(pool);
    return pool;
}

static void run(struct setup *s, struct worker_pool *pool, int32_t first, int32_t n)
{
    const struct attention *a = &s->a;
    struct attention_sequence sequence = {s->cells, s->pos, N_CELLS, first, n, s->wide};
    assert_true(attention(pool, a, &sequence, 1, s->q, (size_t)(a->n_heads * a->head_dim_k),
                          s->q_pos, s->out, (size_t)(a->n_heads * a->head_dim_v)));
}

/* Queries are rounded to the keys' precision and values in halves summed in
 * halves: that is what the tolerance leaves room for. Wide sequences know no halves. */
static double tolerance(const struct setup *s)
{
    const struct attention *a = &s->a;
    bool k_is_exact = a->k_dtype == DTYPE_F32 || (s->wide && a->k_dtype == DTYPE_F16);
    return k_is_exact && (s->wide || a->v_dtype == DTYPE_F32) ? 1e-5
           : dtype_info(a->k_dtype)->is_quantized             ? 2e-2
                                                              : 4e-3;
}

static void check_one(struct setup *s, struct worker_pool *pool, int32_t n_queries)
{
    const struct attention *a = &s->a;
    run(s, pool, 0, n_queries);
    double want[512];
    for (int32_t q = 0; q < n_queries; q++) {
        for (int32_t h = 0; h < a->n_heads; h++) {
            const float *got = s->out + (size_t)(q * a->n_heads + h) * (size_t)a->head_dim_v;
            exact(s, q, h, want);
            for (int32_t d = 0; d < a->head_dim_v; d++) {
                if (!(fabs((double)got[d] - want[d]) <= tolerance(s)))
                    fail_msg("%squery %d head %d dim %d: %g instead of %g", s->wide ? "wide " : "",
                             q, h, d, (double)got[d], want[d]);
            }
        }
    }
}

static void check(struct setup *s, int32_t n_queries)
{
    struct worker_pool *pool = make_pool(2);
    for (int wide = 0; wide < 2; wide++) {
        s->wide = wide;
        check_one(s, pool, n_queries);
    }
    worker_pool_free(pool);
}

static void every_cache_format_attends(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0,  DTYPE_Q4_0,
                                       DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_IQ4_NL};
    enum { N = sizeof types / sizeof *types };
    for (size_t i = 0; i < N; i++) {
        struct setup s;
        setup(&s, 8, 2, 64, 96, types[i], types[(i + i / 3) % N]);
        check(&s, i % 2 ? 1 : MAX_QUERIES);
        teardown(&s);
    }
}

static void heads_of_any_shape_attend(void **state)
{
    (void)state;
    static const int32_t shapes[][4] = {{1, 1, 1, 1},    {4, 4, 20, 20},   {6, 2, 128, 128},
                                        {16, 1, 80, 40}, {130, 2, 32, 32}, {3, 3, 256, 72}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct setup s;
        setup(&s, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], DTYPE_F32, DTYPE_F32);
        check(&s, 1);
        check(&s, 13);
        teardown(&s);
    }
}

static void windows_caps_sinks_and_slopes_are_honoured(void **state)
{
    (void)state;
    static const float sinks[4] = {-1, 0, 2, 5}, slopes[4] = {0.5f, 0.25f, 0.125f, 0};
    for (int kind = WINDOW_NONE; kind <= WINDOW_SYMMETRIC; kind++) {
        for (int extra = 0; extra < 8; extra++) {
            struct setup s;
            setup(&s, 4, 2, 32, 32, DTYPE_F32, DTYPE_F32);
            s.a.window_kind = (enum attention_window)kind;
            s.a.window = 48;
            s.a.causal = kind != WINDOW_SYMMETRIC;
            s.a.soft_cap = extra & 1 ? 0.75f : 0;
            s.a.sinks = extra & 2 ? sinks : NULL;
            s.a.slopes = extra & 4 ? slopes : NULL;
            check(&s, 7);
            teardown(&s);
        }
    }
}

static void a_query_that_sees_nothing_gets_zeros(void **state)
{
    (void)state;
    struct setup s;
    setup(&s, 2, 1, 32, 32, DTYPE_F16, DTYPE_F16);
    s.q_pos[0] = -1;
    check(&s, 2);
    teardown(&s);
}

/* The same bits alone or in company, on one thread or three, and however the
 * queries are split into calls. */
static void a_result_does_not_depend_on_its_company(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    struct worker_pool *one = make_pool(1), *three = make_pool(3);
    for (size_t i = 0; i < 6; i++) {
        struct setup s;
        setup(&s, 6, 2, 64, 64, types[i / 2], types[i / 2]);
        s.wide = i % 2;
        size_t n = MAX_QUERIES * 6 * 64;
        run(&s, three, 0, MAX_QUERIES);
        float *together = malloc(n * sizeof *together);
        memcpy(together, s.out, n * sizeof *together);
        memset(s.out, 0, n * sizeof *together);
        for (int32_t q = 0; q < MAX_QUERIES; q++)
            run(&s, one, q, 1);
        assert_memory_equal(together, s.out, n * sizeof *together);
        free(together);
        teardown(&s);
    }
    worker_pool_free(one);
    worker_pool_free(three);
}

static void several_sequences_keep_to_their_own_cells(void **state)
{
    (void)state;
    struct setup s;
    setup(&s, 4, 2, 64, 64, DTYPE_F16, DTYPE_F16);
    struct worker_pool *pool = make_pool(2);
    size_t width = 4 * 64;
    /* Both see half of the cells; their positions begin at 0. */
    struct attention_sequence both[2] = {{s.cells, s.pos, 100, 0, 3, false},
                                         {s.cells + 100, s.pos, 100, 3, 9, true}};
    float alone[12 * 4 * 64];
    assert_true(attention(pool, &s.a, both, 2, s.q, width, s.q_pos, s.out, width));
    for (int i = 0; i < 2; i++)
        assert_true(attention(pool, &s.a, &both[i], 1, s.q, width, s.q_pos, alone, width));
    assert_memory_equal(alone, s.out, sizeof alone);
    worker_pool_free(pool);
    teardown(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cache_format_attends),
        cmocka_unit_test(heads_of_any_shape_attend),
        cmocka_unit_test(windows_caps_sinks_and_slopes_are_honoured),
        cmocka_unit_test(a_query_that_sees_nothing_gets_zeros),
        cmocka_unit_test(a_result_does_not_depend_on_its_company),
        cmocka_unit_test(several_sequences_keep_to_their_own_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
