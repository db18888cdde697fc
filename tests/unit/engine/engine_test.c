/* engine_test.c - what the engine promises to whoever submits requests. */
#include "unit/engine/helpers.h"

#include "base/clock.h"

#include <sys/stat.h>
#include <unistd.h>

static char *whole_text(const struct engine_event *event)
{
    return slice_duplicate(event->whole_text);
}

/* The limit is kept to the token and reported as the reason. */
static void a_completion_has_as_many_tokens_as_asked_for(void **state)
{
    struct engine_event *event = test_run(*state, test_request(10, 8, 12));
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    assert_int_equal(event->stop, ENGINE_STOP_LIMIT);
    assert_int_equal(event->n_ids, 12);
    assert_int_equal(event->timings.n_generated, 12);
    assert_int_equal(event->timings.n_prompt_processed + event->timings.n_prompt_cached, 8);
    engine_event_free(event);
}

/* What the events of a stream show, put together, is the whole answer. */
static void the_pieces_of_a_stream_are_the_whole(void **state)
{
    struct engine_request *request = test_request(20, 5, 24);
    request->stream = true;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    assert_true(engine_submit(*state, request, mailbox, NULL, &err));
    struct str shown = {0};
    for (bool done = false; !done;) {
        struct engine_event *event = engine_mailbox_take(mailbox, 30000);
        assert_non_null(event);
        str_append_slice(&shown, event->text);
        done = event->kind == ENGINE_EVENT_DONE;
        if (done)
            assert_true(slice_equal(str_slice(&shown), event->whole_text));
        engine_event_free(event);
    }
    str_free(&shown);
    engine_mailbox_free(mailbox);
}

/* Company in the batch changes nothing. */
static void neighbours_do_not_change_an_answer(void **state)
{
    enum { N = 8 };
    struct engine *engine = *state;
    char *alone[N];
    for (int32_t i = 0; i < N; i++) {
        struct engine_event *event = test_run(engine, test_request(30 + 7 * i, 6 + i, 16));
        alone[i] = whole_text(event);
        engine_event_free(event);
    }
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    for (int32_t i = 0; i < N; i++) {
        struct engine_request *request = test_request(30 + 7 * i, 6 + i, 16);
        request->index = i;
        assert_true(engine_submit(engine, request, mailbox, NULL, &err));
    }
    for (int32_t n = 0; n < N; n++) {
        struct engine_event *event = test_wait(mailbox);
        assert_int_equal(event->kind, ENGINE_EVENT_DONE);
        char *together = whole_text(event);
        assert_string_equal(together, alone[event->index]);
        free(together);
        engine_event_free(event);
    }
    for (int32_t i = 0; i < N; i++)
        free(alone[i]);
    engine_mailbox_free(mailbox);
}

/* A prompt that begins like the last one is not computed again. */
static void a_known_prefix_comes_from_the_cache(void **state)
{
    struct engine *engine = *state;
    engine_event_free(test_run(engine, test_request(50, 40, 4)));
    struct engine_event *event = test_run(engine, test_request(50, 44, 4));
    assert_int_equal(event->timings.n_prompt_cached, 40);
    assert_int_equal(event->timings.n_prompt_processed, 4);
    engine_event_free(event);

    struct engine_request *fresh = test_request(50, 44, 4);
    fresh->cache_prompt = false;
    event = test_run(engine, fresh);
    assert_int_equal(event->timings.n_prompt_cached, 0);
    assert_int_equal(event->timings.n_prompt_processed, 44);
    engine_event_free(event);
}

/* The answer ends before a stop string, wherever in the text it stands. */
static void a_stop_string_ends_the_answer_and_is_not_shown(void **state)
{
    struct engine *engine = *state;
    struct engine_event *whole = test_run(engine, test_request(70, 5, 20));
    char *text = whole_text(whole);
    size_t len = strlen(text);
    int n_tried = 0;
    for (size_t at = 1; at + 3 < len; at += 3) {
        struct engine_request *request = test_request(70, 5, 20);
        request->stream = at % 2;
        request->n_stop = 1;
        request->stop = arena_alloc(&request->arena, sizeof *request->stop);
        struct slice word = {arena_duplicate(&request->arena, (struct slice){text + at, 3}), 3};
        *request->stop = word;
        /* What stands for bytes that are no characters never matches. */
        if ((word.data[0] | word.data[1] | word.data[2]) & 0x80) {
            engine_request_free(request);
            continue;
        }
        n_tried++;
        struct engine_event *event = test_run(engine, request);
        assert_int_equal(event->stop, ENGINE_STOP_WORD);
        size_t expected = (size_t)(strstr(text, word.data) - text);
        assert_int_equal(event->whole_text.len, expected);
        assert_memory_equal(event->whole_text.data, text, expected);
        engine_event_free(event);
    }
    assert_true(n_tried > 3);
    free(text);
    engine_event_free(whole);
}

/* Several completions of a prompt share its computation and differ by seed. */
static void completions_of_one_prompt_share_its_computation(void **state)
{
    struct engine_request *request = test_request(90, 30, 12);
    request->n_completions = 3;
    request->sampling.temperature = 2.0f;
    request->sampling.seed = 5;
    request->cache_prompt = false;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    struct engine_metrics before, after;
    engine_metrics(*state, &before);
    assert_true(engine_submit(*state, request, mailbox, NULL, &err));
    char *texts[3] = {0};
    for (int i = 0; i < 3; i++) {
        struct engine_event *event = test_wait(mailbox);
        assert_int_equal(event->kind, ENGINE_EVENT_DONE);
        assert_int_equal(event->seed, 5 + event->index);
        assert_null(texts[event->index]);
        texts[event->index] = whole_text(event);
        engine_event_free(event);
    }
    engine_metrics(*state, &after);
    assert_int_equal(after.n_prompt_tokens - before.n_prompt_tokens, 30);
    assert_true(strcmp(texts[0], texts[1]) != 0 || strcmp(texts[1], texts[2]) != 0);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
    engine_mailbox_free(mailbox);
}

/* Cancelling gives the slot back, running or waiting. */
static void a_cancelled_job_frees_its_slot(void **state)
{
    struct engine *engine = *state;
    enum { N = 2 * TEST_N_SLOTS };
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct engine_job *jobs[N];
    struct error err;
    for (int i = 0; i < N; i++)
        assert_true(engine_submit(engine, test_request(5 + i, 4, 200), mailbox, &jobs[i], &err));
    for (int i = 0; i < N; i++)
        engine_job_cancel(jobs[i]);
    struct engine_metrics metrics;
    for (int tries = 0; tries < 3000; tries++) {
        engine_metrics(engine, &metrics);
        if (metrics.n_processing == 0 && metrics.n_deferred == 0)
            break;
        clock_sleep_ms(10);
    }
    assert_int_equal(metrics.n_processing, 0);
    assert_int_equal(metrics.n_deferred, 0);
    for (int i = 0; i < N; i++)
        engine_job_release(jobs[i]);
    engine_mailbox_free(mailbox);
}

/* What cannot be right is refused before it waits. */
static void impossible_requests_are_refused_at_once(void **state)
{
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    struct engine_request *request = test_request(1 << 30, 1, 4);
    assert_false(engine_submit(*state, request, mailbox, NULL, &err));
    assert_int_equal(err.code, ERR_INVALID);
    request = test_request(5, 4, 4);
    request->id_slot = TEST_N_SLOTS;
    assert_false(engine_submit(*state, request, mailbox, NULL, &err));
    request = test_request(5, 4, 4);
    request->n_completions = TEST_N_SLOTS + 1;
    assert_false(engine_submit(*state, request, mailbox, NULL, &err));
    engine_mailbox_free(mailbox);
}

/* A prompt as long as the context leaves no room and is refused with both
 * numbers; one token less is served. */
static void a_prompt_must_leave_room_for_a_token(void **state)
{
    struct engine_event *event = test_run(*state, test_request(1, TEST_N_CTX, 4));
    assert_int_equal(event->kind, ENGINE_EVENT_ERROR);
    assert_int_equal(event->error.code, ERR_LIMIT);
    assert_int_equal(event->n_ctx, TEST_N_CTX);
    assert_int_equal(event->n_prompt, TEST_N_CTX);
    engine_event_free(event);
    event = test_run(*state, test_request(1, TEST_N_CTX - 1, 4));
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    assert_true(event->truncated);
    assert_int_equal(event->timings.n_generated, 1);
    engine_event_free(event);
}

/* ---- slot files ---- */

/* NULL when it is refused at once. */
static struct engine_event *slot_action(struct engine *engine, enum engine_slot_action action,
                                        int32_t id_slot, const char *path)
{
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    bool ok = engine_submit_slot_action(engine, action, id_slot, path, 0, mailbox, &err);
    struct engine_event *event = ok ? test_wait(mailbox) : NULL;
    if (event)
        engine_slot_save_finish(event);
    engine_mailbox_free(mailbox);
    return event;
}

static struct engine_request *on_slot(struct engine_request *request, int32_t id_slot)
{
    request->id_slot = id_slot;
    return request;
}

static void a_saved_slot_comes_back_in_another(void **state)
{
    struct engine *engine = *state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/mlxcel-slot-%ld", (long)getpid());
    engine_event_free(slot_action(engine, ENGINE_SLOT_ERASE, 2, NULL));
    engine_event_free(test_run(engine, on_slot(test_request(100, 50, 1), 1)));
    struct engine_event *event = slot_action(engine, ENGINE_SLOT_SAVE, 1, path);
    assert_int_equal(event->kind, ENGINE_EVENT_SLOT);
    assert_int_equal(event->n_slot_tokens, 50);
    engine_event_free(event);
    event = slot_action(engine, ENGINE_SLOT_RESTORE, 2, path);
    assert_int_equal(event->kind, ENGINE_EVENT_SLOT);
    assert_int_equal(event->n_slot_tokens, 50);
    engine_event_free(event);
    event = test_run(engine, on_slot(test_request(100, 55, 3), 2));
    assert_int_equal(event->timings.n_prompt_cached, 50);
    engine_event_free(event);
    unlink(path);
}

/* One flipped or missing byte anywhere: refused, the slot keeps what it had. */
static void a_damaged_slot_file_is_refused(void **state)
{
    struct engine *engine = *state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/mlxcel-slot-bad-%ld", (long)getpid());
    engine_event_free(test_run(engine, on_slot(test_request(120, 20, 1), 0)));
    engine_event_free(slot_action(engine, ENGINE_SLOT_SAVE, 0, path));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    size_t size = (size_t)info.st_size;
    char *good = malloc(size), *bad = malloc(size);
    FILE *file = fopen(path, "rb");
    assert_int_equal(fread(good, 1, size, file), size);
    fclose(file);
    for (size_t i = 0; i < 60; i++) {
        size_t at = i < 48 ? i : i * size / 60;
        size_t len = i % 3 == 2 ? at : size;
        memcpy(bad, good, size);
        bad[at] = (char)(bad[at] ^ 0x41);
        file = fopen(path, "wb");
        fwrite(bad, 1, len, file);
        fclose(file);
        assert_null(slot_action(engine, ENGINE_SLOT_RESTORE, 0, path));
    }
    free(good);
    free(bad);
    struct engine_event *event = test_run(engine, on_slot(test_request(120, 30, 1), 0));
    assert_int_equal(event->timings.n_prompt_cached, 20);
    engine_event_free(event);
    unlink(path);
}

/* However many ask: a file is not read into memory for each of them. */
static void one_file_at_a_time_waits_for_a_slot(void **state)
{
    struct engine *engine = *state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/mlxcel-slot-turn-%ld", (long)getpid());
    engine_event_free(test_run(engine, on_slot(test_request(120, 20, 1), 0)));
    engine_event_free(slot_action(engine, ENGINE_SLOT_SAVE, 0, path));
    struct engine_mailbox *running = engine_mailbox_create(NULL, NULL);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err = {0};
    struct engine_job *job;
    struct engine_request *request = on_slot(test_request(120, 20, 200), 0);
    request->stream = true;
    assert_true(engine_submit(engine, request, running, &job, &err));
    engine_event_free(engine_mailbox_take(running, -1)); /* it runs */
    int n_taken = 0, n_refused = 0;
    for (int i = 0; i < 20; i++) {
        if (engine_submit_slot_action(engine, ENGINE_SLOT_RESTORE, 0, path, 0, mailbox, &err))
            n_taken++;
        else if (err.code == ERR_STATE)
            n_refused++;
    }
    engine_job_cancel(job);
    engine_job_release(job);
    assert_int_equal(n_taken + n_refused, 20);
    assert_true(n_refused > 0);
    for (int i = 0; i < n_taken; i++)
        engine_event_free(test_wait(mailbox));
    engine_mailbox_free(running);
    engine_mailbox_free(mailbox);
    unlink(path);
}

/* Copies of slots wait for their turn, and a copy that nobody takes gives it up. */
static void one_copy_at_a_time_waits_to_be_written(void **state)
{
    struct engine *engine = *state;
    enum { N = 4 };
    char path[64];
    struct error err = {0};
    snprintf(path, sizeof path, "/tmp/mlxcel-slot-copy-%ld", (long)getpid());
    engine_event_free(test_run(engine, on_slot(test_request(120, 20, 1), 0)));
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    for (int i = 0; i < N; i++)
        assert_true(engine_submit_slot_action(engine, ENGINE_SLOT_SAVE, 0, path, i, mailbox, &err));
    for (int i = 0; i < N; i++) {
        struct engine_event *event = engine_mailbox_take(mailbox, -1);
        assert_int_equal(event->index, i);
        /* Others go on meanwhile, the next copy does not come. */
        engine_event_free(test_run(engine, on_slot(test_request(130, 20, 2), 1)));
        assert_null(engine_mailbox_take(mailbox, 0));
        if (i % 2 == 0)
            engine_slot_save_finish(event);
        engine_event_free(event);
    }
    engine_mailbox_free(mailbox);
    unlink(path);
}

/* ---- engines of another kind ---- */

/* With context shift a text may be longer than the context. */
static void a_shifted_context_goes_on(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.context_shift = true;
    struct engine *engine = test_engine_start(&settings);
    struct engine_event *event = test_run(engine, test_request(40, 20, TEST_N_CTX + 50));
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    assert_int_equal(event->timings.n_generated, TEST_N_CTX + 50);
    assert_true(event->truncated);
    engine_event_free(event);
    engine_free(engine);
}

/* Asleep, the engine wakes for a request and answers as before. */
static void a_sleeping_engine_wakes_for_a_request(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.sleep_idle_seconds = 1;
    struct engine *engine = test_engine_start(&settings);
    struct engine_event *event = test_run(engine, test_request(40, 20, 8));
    char *before = whole_text(event);
    engine_event_free(event);
    for (int tries = 0; tries < 3000 && engine_state(engine) != ENGINE_SLEEPING; tries++)
        clock_sleep_ms(10);
    assert_int_equal(engine_state(engine), ENGINE_SLEEPING);
    assert_string_equal(engine_model_info(engine)->arch, "llama");
    event = test_run(engine, test_request(40, 20, 8));
    char *after = whole_text(event);
    assert_string_equal(before, after);
    free(before);
    free(after);
    engine_event_free(event);
    engine_free(engine);
}

/* Stopping ends what runs and what waits with an error of its own kind. */
static void stopping_ends_every_job_with_an_event(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    struct engine *engine = test_engine_start(&settings);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    enum { N = 10 };
    for (int i = 0; i < N; i++)
        assert_true(engine_submit(engine, test_request(5 + i, 4, 240), mailbox, NULL, &err));
    engine_stop(engine);
    for (int i = 0; i < N; i++) {
        struct engine_event *event = test_wait(mailbox);
        if (event->kind != ENGINE_EVENT_DONE)
            assert_int_equal(event->error.code, ERR_CANCELLED);
        engine_event_free(event);
    }
    assert_false(engine_submit(engine, test_request(5, 4, 4), mailbox, NULL, &err));
    assert_int_equal(err.code, ERR_STATE);
    engine_mailbox_free(mailbox);
    engine_free(engine);
}

static void a_missing_model_is_a_load_error_that_names_it(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.model_path = "/nonexistent/model.gguf";
    struct engine *engine = NULL;
    struct error err;
    assert_true(engine_create(&settings, &engine, &err));
    assert_int_equal(engine_wait_loaded(engine), ENGINE_FAILED);
    engine_load_error(engine, &err);
    assert_non_null(strstr(err.message, "/nonexistent/model.gguf"));
    engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(a_completion_has_as_many_tokens_as_asked_for),
        cmocka_unit_test(the_pieces_of_a_stream_are_the_whole),
        cmocka_unit_test(neighbours_do_not_change_an_answer),
        cmocka_unit_test(a_known_prefix_comes_from_the_cache),
        cmocka_unit_test(a_stop_string_ends_the_answer_and_is_not_shown),
        cmocka_unit_test(completions_of_one_prompt_share_its_computation),
        cmocka_unit_test(a_cancelled_job_frees_its_slot),
        cmocka_unit_test(impossible_requests_are_refused_at_once),
        cmocka_unit_test(a_prompt_must_leave_room_for_a_token),
        cmocka_unit_test(a_saved_slot_comes_back_in_another),
        cmocka_unit_test(a_damaged_slot_file_is_refused),
        cmocka_unit_test(one_file_at_a_time_waits_for_a_slot),
        cmocka_unit_test(one_copy_at_a_time_waits_to_be_written),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(a_shifted_context_goes_on),
        cmocka_unit_test(a_sleeping_engine_wakes_for_a_request),
        cmocka_unit_test(stopping_ends_every_job_with_an_event),
        cmocka_unit_test(a_missing_model_is_a_load_error_that_names_it),
    };
    int failed = cmocka_run_group_tests(shared, test_start, test_stop);
    return failed + cmocka_run_group_tests(own, NULL, NULL);
}
