/* measure_test.c - what a context takes is known before any of it is reserved. */
#include "unit/model/helpers.h"

#include <sys/resource.h>

/* Sanitizers keep a record of all memory beside it, whether it is touched or not. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_KIB = 1 << 21 };
#else
enum { MOST_KIB = 1 << 14 };
#endif

static const char *const specs[] = {
    "llama:10m:f32:layers=2:embd=64:heads=4:kv_heads=2:ff=128:vocab=320",
    "gemma2:10m:f32:layers=2:embd=64:heads=4:kv_heads=2:ff=64:vocab=300:window=100",
};

enum { N_SPECS = sizeof specs / sizeof *specs };

static struct model *models[N_SPECS];
static struct worker_pool *pool;

static int make_models(void **state)
{
    (void)state;
    struct worker_settings one = {.n_threads = 1};
    struct error err;
    pool = worker_pool_create(&one, &err);
    for (size_t i = 0; i < N_SPECS; i++)
        if (!pool || !model_synthetic(specs[i], NULL, pool, &models[i], &err))
            return -1;
    return 0;
}

static struct context_settings settings_for(int32_t n_ctx)
{
    struct context_settings s = context_settings_default();
    s.n_ctx = n_ctx;
    s.n_batch = 64;
    s.n_ubatch = 32;
    s.pool = pool;
    return s;
}

/* The numbers are those of the context that is then made. */
static void what_is_measured_is_what_is_reserved(void **state)
{
    (void)state;
    struct error err;
    for (size_t i = 0; i < N_SPECS; i++) {
        for (int32_t n_ctx = 256; n_ctx <= 4096; n_ctx *= 4) {
            struct context_settings s = settings_for(n_ctx);
            struct context_needs needs;
            struct model_context *ctx;
            assert_true(context_measure(models[i], &s, &needs, &err));
            assert_true(context_create(models[i], &s, &ctx, &err));
            assert_int_equal(needs.n_ctx, context_n_ctx(ctx));
            /* Lists beside, a few bytes a cell; layers are aligned. */
            uint64_t cells = context_kv_bytes(ctx);
            assert_in_range(needs.kv_bytes, cells - 4 * 64, cells + 20 * (uint64_t)needs.n_ctx);
            assert_true(needs.work_bytes > 32 * 64 * sizeof(float));
            context_free(ctx);
        }
    }
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void the_largest_numbers_are_counted_without_memory(void **state)
{
    (void)state;
    struct error err;
    long before = peak_kib();
    for (size_t i = 0; i < N_SPECS; i++) {
        struct context_settings s = settings_for(INT32_MAX);
        struct context_needs needs;
        assert_true(context_measure(models[i], &s, &needs, &err));
        assert_true(needs.n_ctx > INT32_MAX - 1024);
        assert_true(needs.kv_bytes > (uint64_t)needs.n_ctx * 64);
        s.n_batch = s.n_ubatch = INT32_MAX;
        uint64_t small = needs.work_bytes;
        assert_true(context_measure(models[i], &s, &needs, &err));
        assert_true(needs.work_bytes > small * 1000);
        s.n_ctx = -1;
        assert_false(context_measure(models[i], &s, &needs, &err));
    }
    assert_in_range(peak_kib() - before, 0, MOST_KIB);
}

/* A large cache costs what is used of it: no list of all cells is filled. */
static void a_large_cache_is_not_touched(void **state)
{
    (void)state;
    struct error err;
    struct model_context *ctx;
    struct context_settings s = settings_for(1 << 25);
    long before = peak_kib();
    assert_true(context_create(models[0], &s, &ctx, &err));
    assert_true(context_kv_bytes(ctx) > UINT64_C(1) << 32);
    assert_in_range(peak_kib() - before, 0, MOST_KIB);
    context_free(ctx);
}

static int free_models(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SPECS; i++)
        model_free(models[i]);
    worker_pool_free(pool);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_measured_is_what_is_reserved),
        cmocka_unit_test(the_largest_numbers_are_counted_without_memory),
        cmocka_unit_test(a_large_cache_is_not_touched),
    };
    return cmocka_run_group_tests(tests, make_models, free_models);
}
