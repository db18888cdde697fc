/* Prompts of models with sliding windows: what of them is reused, from where, and
 * that nobody can tell from the answers. */
#include "unit/engine/helpers.h"

#include "base/slice.h"

#include <string.h>
#include <unistd.h>

enum { N_VOCAB = 320, N_CTX = 2048, WINDOW = 64 };

static char model_path[64];

static void remove_model(void)
{
    unlink(model_path);
}

static struct engine *start(int32_t n_slots, bool swa_full, int32_t n_checkpoints, int32_t step)
{
    struct engine_settings settings = test_settings();
    struct error err;
    if (!model_path[0]) {
        snprintf(model_path, sizeof model_path, "/tmp/mlxcel-window-test-%ld.gguf", (long)getpid());
        if (!model_synthetic_write("gemma2:10m:f32:embd=64:heads=4:kv_heads=2:ff=64:vocab=320:"
                                   "window=64:ctx=4096",
                                   model_path, &err))
            fail_msg("%s", err.message);
        atexit(remove_model);
    }
    settings.model_path = model_path;
    settings.n_parallel = n_slots;
    settings.context.n_ctx = N_CTX * n_slots;
    settings.context.swa_full = swa_full;
    settings.n_checkpoints = n_checkpoints;
    settings.checkpoint_min_step = step;
    return test_engine_start(&settings);
}

/* n tokens that depend on the text's number; the first `shared` are those of another. */
static struct engine_request *request(int32_t text, int32_t n, int32_t other, int32_t shared)
{
    struct engine_request *r = test_request(3, n, 12);
    for (int32_t i = 0; i < n; i++) {
        int32_t number = i < shared ? other : text;
        r->prompt.data[i] = 3 + (number * 7919 + i * 31 + i * i * 7) % (N_VOCAB - 3);
    }
    return r;
}

/* Prompt tokens that came from the cache. */
static int32_t cached(struct engine *engine, struct engine_request *r)
{
    struct engine_event *event = test_run(engine, r);
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    int32_t n = event->timings.n_prompt_cached;
    engine_event_free(event);
    return n;
}

/* A text, much more of it, and another continuation: what the last one is spared. */
static int32_t spared(bool swa_full, int32_t n_checkpoints, int32_t step)
{
    struct engine *engine = start(1, swa_full, n_checkpoints, step);
    assert_int_equal(cached(engine, request(1, 200, 0, 0)), 0);
    assert_int_equal(cached(engine, request(1, 900, 0, 0)), 200);
    int32_t n = cached(engine, request(2, 230, 1, 200));
    engine_free(engine);
    return n;
}

/* Checkpoints stand a physical batch of 32 and 4 tokens before a prompt's end, and
 * 4; one of an older job that is close to another is the first to go. */
static void a_prompt_is_taken_up_from_the_last_checkpoint_that_fits(void **state)
{
    (void)state;
    assert_int_equal(spared(false, 32, 0), 195);
    assert_int_equal(spared(false, 32, 8192), 163);
    assert_int_equal(spared(false, 1, 0), 0);
    assert_int_equal(spared(false, 0, 0), 0);
    assert_int_equal(spared(true, 32, 0), 200);
}

static void what_the_windows_still_hold_needs_no_checkpoint(void **state)
{
    (void)state;
    struct engine *engine = start(1, false, 0, 0);
    cached(engine, request(1, 900, 0, 0));
    assert_int_equal(cached(engine, request(1, 900, 0, 0)), 899);
    assert_int_equal(cached(engine, request(2, 910, 1, 890)), 890);
    assert_int_equal(cached(engine, request(3, 300, 1, 100)), 0);
    engine_free(engine);
}

/* A user's message is where the next turn's prompt may part from this one. */
static void a_checkpoint_is_made_where_the_users_message_begins(void **state)
{
    (void)state;
    struct engine *engine = start(1, false, 32, 8192);
    struct engine_request *r = request(1, 900, 0, 0);
    r->user_starts = arena_alloc_array(&r->arena, 2, sizeof *r->user_starts);
    r->n_user_starts = 2;
    r->user_starts[0] = 150;
    r->user_starts[1] = 600;
    cached(engine, r);
    assert_int_equal(cached(engine, request(2, 700, 1, 610)), 599);
    assert_int_equal(cached(engine, request(3, 500, 1, 160)), 149);
    engine_free(engine);
}

static struct slice last_text(struct engine *engine, struct engine_request *r,
                              struct engine_event **event)
{
    *event = test_run(engine, r);
    assert_int_equal((*event)->kind, ENGINE_EVENT_DONE);
    return (*event)->text;
}

static void the_prompt_cache_brings_checkpoints_back(void **state)
{
    (void)state;
    struct engine *engine = start(1, false, 32, 0);
    cached(engine, request(1, 500, 0, 0));
    cached(engine, request(2, 700, 0, 0)); /* takes the only slot */
    struct engine_event *event, *fresh;
    struct slice text = last_text(engine, request(3, 520, 1, 480), &event);
    assert_int_equal(event->timings.n_prompt_cached, 463);
    struct engine_request *again = request(3, 520, 1, 480);
    again->cache_prompt = false;
    assert_true(slice_equal(text, last_text(engine, again, &fresh)));
    engine_event_free(event);
    engine_event_free(fresh);
    engine_free(engine);
}

/* The same requests of three engines, in any order of sharing beginnings: one that
 * keeps everything, one that has checkpoints, one that has none. */
static void answers_do_not_depend_on_how_a_cache_is_kept(void **state)
{
    (void)state;
    struct engine *engines[] = {start(2, true, 32, 0), start(2, false, 32, 0),
                                start(2, false, 0, 0)};
    uint32_t x = 7;
    int32_t n_spared[3] = {0};
    for (int32_t i = 0; i < 24; i++) {
        x = x * 1664525u + 1013904223u;
        int32_t n = 40 + (int32_t)(x >> 8) % 500, other = (int32_t)(x >> 20) % 3;
        x = x * 1664525u + 1013904223u;
        int32_t shared = (int32_t)(x >> 8) % (n + 1), completions = x >> 30 == 0 ? 2 : 1;
        struct slice texts[3];
        struct engine_event *events[3];
        for (int k = 0; k < 3; k++) {
            struct engine_request *r = request(i % 5, n, other, shared);
            struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
            struct error err;
            r->n_completions = completions;
            assert_true(engine_submit(engines[k], r, mailbox, NULL, &err));
            events[k] = test_wait(mailbox);
            for (int32_t c = 1; c < completions; c++) {
                struct engine_event *one = events[k], *more = test_wait(mailbox);
                assert_true(slice_equal(one->text, more->text)); /* greedy */
                engine_event_free(more);
            }
            engine_mailbox_free(mailbox);
            assert_int_equal(events[k]->kind, ENGINE_EVENT_DONE);
            texts[k] = events[k]->text;
            n_spared[k] += events[k]->timings.n_prompt_cached;
        }
        assert_true(slice_equal(texts[0], texts[1]));
        assert_true(slice_equal(texts[0], texts[2]));
        for (int k = 0; k < 3; k++)
            engine_event_free(events[k]);
    }
    assert_true(n_spared[0] >= n_spared[1] && n_spared[1] > n_spared[2]);
    for (int k = 0; k < 3; k++)
        engine_free(engines[k]);
}

static void a_context_with_windows_ends_where_it_is_full(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    engine_free(start(1, false, 32, 0)); /* makes the file */
    settings.model_path = model_path;
    settings.n_parallel = 1;
    settings.context.n_ctx = 512;
    settings.context_shift = true;
    struct engine *engine = test_engine_start(&settings);
    struct engine_request *r = request(1, 400, 0, 0);
    r->n_predict = 1000;
    struct engine_event *event = test_run(engine, r);
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    assert_true(event->truncated);
    assert_int_equal(event->stop, ENGINE_STOP_LIMIT);
    engine_event_free(event);
    engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_taken_up_from_the_last_checkpoint_that_fits),
        cmocka_unit_test(what_the_windows_still_hold_needs_no_checkpoint),
        cmocka_unit_test(a_checkpoint_is_made_where_the_users_message_begins),
        cmocka_unit_test(the_prompt_cache_brings_checkpoints_back),
        cmocka_unit_test(answers_do_not_depend_on_how_a_cache_is_kept),
        cmocka_unit_test(a_context_with_windows_ends_where_it_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
