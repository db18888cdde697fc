/* What a context promises: a cache that can be shared, cut, moved, saved and
 * loaded. That results depend on nothing but the sequence: company_test.c. */
#include "unit/model/helpers.h"

#include <math.h>
#include <string.h>

enum { N_VOCAB = 512, N_PROMPT = 42 };

static void alone(const char *folder, float *out)
{
    struct loaded l = load_model(folder, "tiny/llama.gguf", NULL, 1);
    memcpy(out, run_tokens(l.ctx, 0, 0, long_prompt, N_PROMPT), N_VOCAB * sizeof *out);
    unload(&l);
}

static void same(const char *what, const float *a, const float *b)
{
    for (int i = 0; i < N_VOCAB; i++)
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0)
            fail_msg("%s: logit %d is %.8g instead of %.8g", what, i, (double)b[i], (double)a[i]);
}

static struct loaded two_sequences(const char *folder, int32_t n_ctx, bool unified)
{
    struct context_settings s = context_settings_default();
    s.n_ctx = n_ctx;
    s.n_seq_max = 2;
    s.kv_unified = unified;
    return load_model(folder, "tiny/llama.gguf", &s, 1);
}

static void a_shared_prefix_takes_no_cells_and_gives_the_same_result(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    float one[N_VOCAB];
    alone(folder, one);
    struct loaded l = two_sequences(folder, 512, true);
    run_tokens(l.ctx, 0, 0, long_prompt, 30);
    assert_true(kv_seq_copy(l.ctx, 0, 1, -1, -1));
    assert_int_equal(kv_cells_used(l.ctx), 30);
    same("continued", one, run_tokens(l.ctx, 1, 30, long_prompt + 30, 12));
    assert_int_equal(kv_cells_used(l.ctx), 42);
    /* The first goes its own way; the second still holds what it shared. */
    assert_true(kv_seq_remove(l.ctx, 0, 10, -1));
    assert_int_equal(kv_seq_pos_max(l.ctx, 0), 9);
    assert_int_equal(kv_cells_used(l.ctx), 42);
    assert_true(kv_seq_remove(l.ctx, 1, 41, -1));
    same("again", one, run_tokens(l.ctx, 1, 41, long_prompt + 41, 1));
    assert_true(kv_seq_remove(l.ctx, 1, -1, -1));
    assert_int_equal(kv_cells_used(l.ctx), 10);
    unload(&l);
}

/* Moving keys is re-rotating them: a text moved and moved back answers as if it
 * had not been, and one moved by d as one computed there, up to rounding. */
static void a_shifted_sequence_answers_as_one_computed_there(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    struct context_settings s = context_settings_default();
    s.n_ctx = 512;
    s.n_seq_max = 2;
    s.kv_unified = true;
    s.type_k = s.type_v = DTYPE_F32;
    static const char *const models[] = {"tiny/llama.gguf", "tiny/llama-yarn.gguf",
                                         "tiny/smollm3.gguf", "tiny/gemma3.gguf"};
    for (size_t m = 0; m < 4; m++) {
        struct loaded l = load_model(folder, models[m], &s, 1);
        float there[N_VOCAB];
        run_tokens(l.ctx, 0, 100, long_prompt, 41);
        memcpy(there, run_tokens(l.ctx, 0, 141, long_prompt + 41, 1), sizeof there);
        run_tokens(l.ctx, 1, 20, long_prompt, 41);
        assert_true(kv_seq_copy(l.ctx, 1, 0, -1, -1) && kv_seq_remove(l.ctx, 0, -1, -1));
        assert_true(kv_seq_copy(l.ctx, 1, 0, -1, -1));
        assert_true(kv_seq_shift(l.ctx, 1, -1, -1, 80)); /* shared: a copy is moved */
        assert_int_equal(kv_seq_pos_min(l.ctx, 1), 100);
        assert_int_equal(kv_seq_pos_min(l.ctx, 0), 20);
        const float *moved = run_tokens(l.ctx, 1, 141, long_prompt + 41, 1);
        for (int i = 0; i < N_VOCAB; i++)
            if (!(fabsf(moved[i] - there[i]) < 2e-3f))
                fail_msg("%s: logit %d is %g instead of %g", models[m], i, (double)moved[i],
                         (double)there[i]);
        assert_false(kv_seq_shift(l.ctx, 1, -1, -1, -200));
        unload(&l);
    }
}

static void a_saved_sequence_loads_into_another_slot(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    float one[N_VOCAB];
    alone(folder, one);
    struct loaded l = two_sequences(folder, 512, true);
    struct error err = {0};
    struct str saved = {0};
    run_tokens(l.ctx, 0, 0, long_prompt, 41);
    assert_true(kv_seq_save(l.ctx, 0, &saved));
    kv_seq_remove(l.ctx, 0, -1, -1);
    assert_true(kv_seq_load(l.ctx, 1, str_slice(&saved), &err));
    same("loaded", one, run_tokens(l.ctx, 1, 41, long_prompt + 41, 1));
    /* Cut anywhere, it is refused and the sequence is empty. */
    for (size_t n = 0; n < saved.len; n += 97) {
        assert_false(kv_seq_load(l.ctx, 1, (struct slice){saved.data, n}, &err));
        assert_int_equal(kv_seq_pos_max(l.ctx, 1), -1);
    }
    saved.data[9]++;
    assert_false(kv_seq_load(l.ctx, 1, str_slice(&saved), &err));
    assert_int_equal(kv_cells_used(l.ctx), 0);
    str_free(&saved);
    unload(&l);
}

static void a_full_cache_is_said_and_changes_nothing(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    struct loaded l = two_sequences(folder, 512, false);
    assert_int_equal(context_n_ctx_seq(l.ctx), 256);
    struct error err = {0};
    int32_t token[300], pos[300], seq[300];
    for (int32_t i = 0; i < 300; i++) {
        token[i] = 5;
        pos[i] = i;
        seq[i] = 0;
    }
    struct batch b = {300, token, pos, seq, NULL, NULL, NULL};
    assert_false(model_decode(l.ctx, &b, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(kv_cells_used(l.ctx), 0);
    b.n_tokens = 256;
    assert_true(model_decode(l.ctx, &b, &err));
    pos[0] = 256;
    b.n_tokens = 1;
    assert_false(model_decode(l.ctx, &b, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    seq[0] = 1; /* the other sequence has its own budget */
    assert_true(model_decode(l.ctx, &b, &err));
    unload(&l);
}

static void a_batch_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    struct loaded l = two_sequences(folder, 512, true);
    struct error err = {0};
    run_tokens(l.ctx, 0, 0, long_prompt, 5);
    const struct {
        int32_t token, pos, seq;
    } bad[] = {{-1, 5, 0}, {512, 5, 0}, {1, 4, 0}, {1, -1, 0}, {1, 5, 2}, {1, 5, -1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct batch b = {1, &bad[i].token, &bad[i].pos, &bad[i].seq, NULL, NULL, NULL};
        assert_false(model_decode(l.ctx, &b, &err));
        assert_int_equal(err.code, ERR_INVALID);
        assert_int_equal(kv_cells_used(l.ctx), 5);
    }
    struct batch none = {0, NULL, NULL, NULL, NULL, NULL, NULL};
    assert_false(model_decode(l.ctx, &none, &err));
    unload(&l);
}

static bool abort_third(void *arg)
{
    return ++*(int *)arg == 3;
}

static void an_aborted_batch_leaves_no_cells(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    struct loaded l = two_sequences(folder, 512, true);
    struct error err = {0};
    int calls = 0;
    int32_t pos[N_PROMPT], seq[N_PROMPT] = {0};
    for (int32_t i = 0; i < N_PROMPT; i++)
        pos[i] = i;
    struct batch b = {N_PROMPT, long_prompt, pos, seq, NULL, NULL, NULL};
    context_set_abort(l.ctx, abort_third, &calls);
    assert_false(model_decode(l.ctx, &b, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_int_equal(kv_cells_used(l.ctx), 0);
    context_set_abort(l.ctx, NULL, NULL);
    assert_true(model_decode(l.ctx, &b, &err));
    unload(&l);
}

static void the_model_says_what_it_is(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    struct loaded l = load_model(folder, "stories260k/stories260K.gguf", NULL, 1);
    const struct model_info *info = model_info(l.model);
    assert_string_equal(info->arch, "llama");
    assert_string_equal(info->name, "stories260K");
    assert_string_equal(info->ftype, "all F32");
    assert_int_equal(info->n_params, 292800);
    assert_int_equal(info->n_bytes, 1171200);
    assert_int_equal(info->n_ctx_train, 512);
    assert_true(info->has_decoder && !info->is_encoder);
    unload(&l);
    l = load_model(folder, "stories260k/mlx-4bit", NULL, 1);
    assert_int_equal(model_info(l.model)->n_params, 292800 - 512 * 64); /* tied */
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_prefix_takes_no_cells_and_gives_the_same_result),
        cmocka_unit_test(a_shifted_sequence_answers_as_one_computed_there),
        cmocka_unit_test(a_saved_sequence_loads_into_another_slot),
        cmocka_unit_test(a_full_cache_is_said_and_changes_nothing),
        cmocka_unit_test(a_batch_that_makes_no_sense_is_refused),
        cmocka_unit_test(an_aborted_batch_leaves_no_cells),
        cmocka_unit_test(the_model_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
