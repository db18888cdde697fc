/* Models made up from a description: they run, repeat, and read back from file. */
#include "unit/model/helpers.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static struct loaded make(const char *spec, const char *path)
{
    struct loaded l = {0};
    struct error err = {0};
    struct worker_settings pool = {.n_threads = 2};
    struct model_settings repack = {.repack = true};
    l.pool = worker_pool_create(&pool, &err);
    bool ok = path ? model_file_open(path, NULL, &l.file, &err) &&
                         model_load(l.file, &repack, l.pool, &l.model, &err)
                   : model_synthetic(spec, &repack, l.pool, &l.model, &err);
    if (!ok)
        fail_msg("%s: %s", spec, err.message);
    struct context_settings s = context_settings_default();
    s.n_ctx = 256;
    s.pool = l.pool;
    if (!context_create(l.model, &s, &l.ctx, &err))
        fail_msg("%s", err.message);
    return l;
}

static void every_type_makes_a_model_that_answers_with_finite_numbers(void **state)
{
    (void)state;
    static const char *const types[] = {
        "f32",    "f16",    "bf16",   "q4_0",    "q4_1",   "q5_0",   "q5_1",    "q8_0",
        "q2_k",   "q3_k_s", "q3_k_m", "q4_k_s",  "q4_k_m", "q5_k_s", "q5_k_m",  "q6_k",
        "iq4_nl", "iq4_xs", "iq3_s",  "iq3_xxs", "iq2_s",  "iq2_xs", "iq2_xxs", "iq1_s",
        "iq1_m",  "tq1_0",  "tq2_0",  "q1_0",    "q2_0",   "mxfp4",  "nvfp4",   "mlx2",
        "mlx3",   "mlx4",   "mlx5",   "mlx6",    "mlx8"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char spec[96];
        snprintf(spec, sizeof spec, "llama:10m:%s:layers=2:vocab=512", types[i]);
        struct loaded l = make(spec, NULL);
        const float *logits = run_tokens(l.ctx, 0, 0, long_prompt, 42);
        double sum = 0.0;
        for (int k = 0; k < 512; k++)
            sum += fabs((double)logits[k]);
        if (!(sum > 0.1 && sum < 1e5))
            fail_msg("%s: the logits add up to %g", spec, sum);
        unload(&l);
    }
}

static void write_new_file(const char *spec, char *path)
{
    struct error err = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (!model_synthetic_write(spec, path, &err))
        fail_msg("%s", err.message);
}

/* A bert's vector, written and read again. */
static void a_written_encoder_embeds_as_the_one_in_memory(void **state)
{
    (void)state;
    const char *spec = "bert:bge-micro:q8_0:layers=2:vocab=1024";
    char path[] = "/tmp/mlxcel-synthetic-XXXXXX";
    write_new_file(spec, path);
    struct loaded a = make(spec, NULL), b = make(spec, path);
    assert_true(model_info(b.model)->is_encoder);
    assert_int_equal(context_pooling(b.ctx), POOLING_CLS);
    assert_int_equal(model_info(a.model)->n_params, model_info(b.model)->n_params);
    run_tokens(a.ctx, 0, 0, long_prompt, 42);
    run_tokens(b.ctx, 0, 0, long_prompt, 42);
    const float *x = model_embedding_seq(a.ctx, 0), *y = model_embedding_seq(b.ctx, 0);
    assert_true(x && y);
    assert_memory_equal(x, y, 384 * sizeof *x);
    unload(&a);
    unload(&b);
    unlink(path);
}

static void a_written_model_answers_as_the_one_in_memory(void **state)
{
    (void)state;
    const char *spec = "llama:10m:q4_k_m:vocab=1024";
    char path[] = "/tmp/mlxcel-synthetic-XXXXXX";
    write_new_file(spec, path);
    struct loaded a = make(spec, NULL), b = make(spec, path);
    assert_int_equal(model_info(a.model)->n_params, model_info(b.model)->n_params);
    assert_int_equal(model_info(a.model)->n_bytes, model_info(b.model)->n_bytes);
    assert_string_equal(model_info(b.model)->ftype, "Q4_K - Medium");
    const float *x = run_tokens(a.ctx, 0, 0, long_prompt, 42);
    const float *y = run_tokens(b.ctx, 0, 0, long_prompt, 42);
    assert_memory_equal(x, y, 1024 * sizeof *x);
    unload(&a);
    unload(&b);
    unlink(path);
}

static void a_description_that_makes_no_sense_is_refused_with_what_there_is(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *says;
    } bad[] = {{"", "llama:SIZE:TYPE"},
               {"gpt2:1b:f16", "llama:SIZE:TYPE"},
               {"llama", "no size ''"},
               {"llama:2b:f16", "500m"},
               {"llama:1b", "no type ''"},
               {"llama:1b:q9", "q4_k_m"},
               {"llama:10m:f16:width=3", "kv_heads"},
               {"llama:10m:f16:embd=0", "1 to"},
               {"llama:10m:f16:heads=7", "do not go together"},
               {"llama:10m:q4_k:embd=320", "multiples of 256"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error err = {0};
        struct model *m;
        assert_false(model_synthetic(bad[i].spec, NULL, NULL, &m, &err));
        if (!strstr(err.message, bad[i].says))
            fail_msg("'%s': \"%s\" does not say \"%s\"", bad[i].spec, err.message, bad[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_makes_a_model_that_answers_with_finite_numbers),
        cmocka_unit_test(a_written_model_answers_as_the_one_in_memory),
        cmocka_unit_test(a_written_encoder_embeds_as_the_one_in_memory),
        cmocka_unit_test(a_description_that_makes_no_sense_is_refused_with_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
