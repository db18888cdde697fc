/* cache_test.c - what slots keep of prompts, take from each other, and lose. */
#include "unit/engine/helpers.h"

#include <unistd.h>

/* A prompt that differs from those of other numbers from its first token on. */
static struct engine_request *prompt_number(int32_t number, int32_t n_prompt, int32_t n_predict)
{
    struct engine_request *request = test_request(3 + number, 1, n_predict);
    for (int32_t i = 1; i < n_prompt; i++)
        assert_true(VEC_PUSH(&request->prompt, 3 + (number * 131 + i * i * 7 + i) % 310));
    return request;
}

static struct engine_request *on_slot(int32_t id_slot, struct engine_request *request)
{
    request->id_slot = id_slot;
    return request;
}

static struct engine_request *without_cache(struct engine_request *request)
{
    request->cache_prompt = false;
    return request;
}

static uint64_t n_shared(struct engine *engine)
{
    struct engine_metrics metrics;
    engine_metrics(engine, &metrics);
    return metrics.n_prompt_shared;
}

static int32_t n_cached(struct engine *engine, struct engine_request *request)
{
    struct engine_event *event = test_run(engine, request);
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    int32_t n = event->timings.n_prompt_cached;
    assert_int_equal(n + event->timings.n_prompt_processed, event->n_prompt);
    engine_event_free(event);
    return n;
}

static int32_t slot_of(struct engine *engine, struct engine_request *request)
{
    struct engine_event *event = test_run(engine, request);
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    int32_t id = event->id_slot;
    engine_event_free(event);
    return id;
}

static char *answer(struct engine *engine, struct engine_request *request)
{
    struct engine_event *event = test_run(engine, request);
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    char *text = slice_duplicate(event->whole_text);
    assert_non_null(text);
    engine_event_free(event);
    return text;
}

static void same_answer(struct engine *engine, struct engine_request *request,
                        struct engine_request *other)
{
    char *a = answer(engine, request), *b = answer(engine, other);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

/* ---- shared cells ---- */

/* The cells are another slot's, the numbers those of a slot that computed them. */
static void a_prompt_takes_what_another_slot_has_computed(void **state)
{
    struct engine *engine = *state;
    char *alone = answer(engine, on_slot(0, without_cache(prompt_number(1, 120, 12))));
    engine_event_free(test_run(engine, on_slot(0, prompt_number(1, 100, 4))));
    uint64_t before = n_shared(engine);
    struct engine_event *event = test_run(engine, on_slot(1, prompt_number(1, 120, 12)));
    assert_int_equal(n_shared(engine) - before, 100);
    assert_int_equal(event->timings.n_prompt_cached, 0);
    assert_int_equal(event->timings.n_prompt_processed, 120);
    assert_int_equal(event->whole_text.len, strlen(alone));
    assert_memory_equal(event->whole_text.data, alone, strlen(alone));
    engine_event_free(event);
    free(alone);
    /* Its own slot's cells come first, and count as cached. */
    before = n_shared(engine);
    assert_int_equal(n_cached(engine, on_slot(1, prompt_number(1, 118, 1))), 117);
    assert_int_equal(n_shared(engine) - before, 0);
    n_cached(engine, on_slot(1, without_cache(prompt_number(1, 50, 1))));
    before = n_shared(engine);
    assert_int_equal(n_cached(engine, on_slot(1, prompt_number(1, 90, 1))), 50);
    assert_int_equal(n_shared(engine) - before, 39);
}

static void prompts_that_arrive_together_are_computed_once(void **state)
{
    (void)state;
    enum { N = TEST_N_SLOTS };
    struct engine_settings settings = test_settings();
    settings.cache_ram_mib = 0;
    struct engine *engine = test_engine_start(&settings);
    char *alone = answer(engine, on_slot(0, prompt_number(2, 150, 16)));
    n_cached(engine, on_slot(0, prompt_number(30, 8, 1)));
    uint64_t before = n_shared(engine);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct engine_request *requests[N];
    struct error err;
    for (int32_t i = 0; i < N; i++)
        requests[i] = prompt_number(2, 150, 16);
    assert_true(engine_submit_all(engine, requests, N, mailbox, NULL, &err));
    for (int32_t i = 0; i < N; i++) {
        struct engine_event *event = test_wait(mailbox);
        assert_int_equal(event->kind, ENGINE_EVENT_DONE);
        assert_int_equal(event->timings.n_prompt_cached, 0);
        assert_int_equal(event->whole_text.len, strlen(alone));
        assert_memory_equal(event->whole_text.data, alone, strlen(alone));
        engine_event_free(event);
    }
    assert_int_equal(n_shared(engine) - before, (N - 1) * 149);
    engine_mailbox_free(mailbox);
    engine_free(engine);
    free(alone);
}

static void a_request_that_wants_no_cache_takes_nothing(void **state)
{
    struct engine *engine = *state;
    n_cached(engine, on_slot(0, prompt_number(3, 100, 1)));
    uint64_t before = n_shared(engine);
    assert_int_equal(n_cached(engine, on_slot(1, without_cache(prompt_number(3, 100, 1)))), 0);
    assert_int_equal(n_shared(engine) - before, 0);
}

/* A prompt of two parts of prompt_number(5) with n left out between them. */
static struct engine_request *with_a_gap(int32_t n, int32_t n_predict)
{
    struct engine_request *request = prompt_number(5, 150, n_predict);
    memmove(request->prompt.data + 40, request->prompt.data + 40 + n,
            (request->prompt.n - 40 - (size_t)n) * sizeof(int32_t));
    request->prompt.n -= (size_t)n;
    request->n_cache_reuse = 8;
    return request;
}

/* What a moved token saw was something else: nobody takes it from there on. What
 * moves its own cells leaves the others theirs. */
static void what_was_moved_is_not_shared(void **state)
{
    struct engine *engine = *state;
    n_cached(engine, on_slot(0, prompt_number(5, 150, 1)));
    uint64_t before = n_shared(engine);
    n_cached(engine, on_slot(1, prompt_number(5, 150, 1)));
    assert_int_equal(n_shared(engine) - before, 149);
    assert_int_equal(n_cached(engine, on_slot(0, with_a_gap(30, 1))), 119);
    same_answer(engine, on_slot(1, prompt_number(5, 150, 12)),
                on_slot(2, without_cache(prompt_number(5, 150, 12))));
    n_cached(engine, on_slot(1, prompt_number(40, 8, 1)));
    n_cached(engine, on_slot(2, prompt_number(41, 8, 1)));
    before = n_shared(engine);
    same_answer(engine, on_slot(1, with_a_gap(30, 12)),
                on_slot(2, without_cache(with_a_gap(30, 12))));
    assert_int_equal(n_shared(engine) - before, 40);
}

static void context_shift_leaves_shared_cells_alone(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.context_shift = true;
    struct engine *engine = test_engine_start(&settings);
    n_cached(engine, on_slot(0, prompt_number(6, 200, 1)));
    uint64_t before = n_shared(engine);
    n_cached(engine, on_slot(1, prompt_number(6, 200, 1)));
    assert_int_equal(n_shared(engine) - before, 199);
    struct engine_event *event = test_run(engine, on_slot(0, prompt_number(6, 200, 100)));
    assert_true(event->truncated);
    assert_int_equal(event->timings.n_generated, 100);
    engine_event_free(event);
    same_answer(engine, on_slot(1, prompt_number(6, 200, 12)),
                on_slot(2, without_cache(prompt_number(6, 200, 12))));
    engine_free(engine);
}

/* Two slots of one pool that holds either alone: their common beginning is there
 * once, so that both fit; and an idle one gives way to one that moves its cells. */
static void a_unified_pool_holds_a_common_beginning_once(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.context.n_ctx = TEST_N_CTX;
    settings.context.kv_unified = true;
    settings.context_shift = true;
    struct engine *engine = test_engine_start(&settings);
    assert_int_equal(engine_slot_n_ctx(engine), TEST_N_CTX);
    uint64_t before = n_shared(engine);
    n_cached(engine, on_slot(0, prompt_number(7, 200, 1)));
    n_cached(engine, on_slot(1, prompt_number(7, 210, 1)));
    assert_int_equal(n_shared(engine) - before, 200);
    assert_int_equal(n_cached(engine, on_slot(0, prompt_number(7, 205, 1))), 200);
    struct engine_event *event = test_run(engine, on_slot(0, prompt_number(7, 205, 300)));
    assert_int_equal(event->kind, ENGINE_EVENT_DONE);
    assert_int_equal(event->timings.n_generated, 300);
    assert_true(event->truncated);
    engine_event_free(event);
    engine_free(engine);
}

/* ---- one pool or a budget each ---- */

static void a_budget_is_each_slots_own_and_a_pool_everybodys(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    struct engine *engine = test_engine_start(&settings);
    assert_int_equal(engine_slot_n_ctx(engine), TEST_N_CTX);
    for (int32_t i = 0; i < TEST_N_SLOTS; i++)
        assert_int_equal(n_cached(engine, on_slot(i, prompt_number(i, 250, 1))), 0);
    for (int32_t i = 0; i < TEST_N_SLOTS; i++) /* nobody's was given up for another's */
        assert_int_equal(n_cached(engine, on_slot(i, prompt_number(i, 250, 1))), 249);
    engine_free(engine);

    settings.context.kv_unified = true;
    settings.cache_ram_mib = 0;
    engine = test_engine_start(&settings);
    assert_int_equal(engine_slot_n_ctx(engine), TEST_N_CTX * TEST_N_SLOTS);
    n_cached(engine, on_slot(0, prompt_number(1, 250, 1)));
    n_cached(engine, on_slot(1, prompt_number(2, 900, 1)));
    assert_int_equal(n_cached(engine, on_slot(0, prompt_number(1, 250, 1))), 0);
    engine_free(engine);
}

/* ---- choosing a slot ---- */

static void a_prompt_like_no_other_goes_to_the_slot_unused_for_longest(void **state)
{
    struct engine *engine = *state;
    static const int32_t order[TEST_N_SLOTS] = {2, 0, 3, 1};
    for (int32_t i = 0; i < TEST_N_SLOTS; i++)
        n_cached(engine, on_slot(order[i], prompt_number(50 + i, 30, 1)));
    for (int32_t i = 0; i < TEST_N_SLOTS; i++)
        assert_int_equal(slot_of(engine, prompt_number(60 + i, 30, 1)), order[i]);
}

static void a_prompt_goes_to_the_slot_that_holds_most_of_it(void **state)
{
    struct engine *engine = *state;
    static const int32_t held[TEST_N_SLOTS] = {20, 60, 40, 9};
    for (int32_t i = 0; i < TEST_N_SLOTS; i++)
        n_cached(engine, on_slot(i, without_cache(prompt_number(70, held[i], 1))));
    assert_int_equal(slot_of(engine, prompt_number(70, 100, 1)), 1);
    /* A tenth or less is no reason: the one unused for longest, which is 0. */
    n_cached(engine, on_slot(1, without_cache(prompt_number(71, 20, 1))));
    n_cached(engine, on_slot(2, without_cache(prompt_number(72, 20, 1))));
    n_cached(engine, on_slot(3, without_cache(prompt_number(73, 10, 1))));
    assert_int_equal(slot_of(engine, prompt_number(73, 100, 1)), 0);
}

/* ---- idle prompts in memory ---- */

/* More prompts than a megabyte holds, one after another on one slot: the last ones
 * come back, those before them are gone. A cell of the model is 512 bytes. */
static void idle_prompts_are_kept_within_the_limit_the_oldest_going_first(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.cache_ram_mib = 1;
    struct engine *engine = test_engine_start(&settings);
    enum { N = 24, LEN = 240 };
    for (int32_t i = 0; i < N; i++)
        assert_int_equal(n_cached(engine, on_slot(0, prompt_number(i, LEN, 1))), 0);
    int32_t n_kept = 0;
    bool gap = false;
    for (int32_t i = N - 1; i >= 0; i--) {
        int32_t n = n_cached(engine, on_slot(0, prompt_number(i, LEN, 1)));
        assert_true(n == 0 || n == LEN - 1);
        if (n)
            assert_false(gap);
        gap |= n == 0;
        n_kept += n > 0;
    }
    assert_true(gap && n_kept >= 4 && n_kept < N - 4);
    engine_free(engine);
}

static void the_idle_prompt_that_holds_most_comes_back(void **state)
{
    struct engine *engine = *state;
    n_cached(engine, on_slot(0, without_cache(prompt_number(80, 30, 1))));
    n_cached(engine, on_slot(0, prompt_number(81, 20, 1)));
    struct engine_request *longer = prompt_number(80, 100, 1);
    longer->prompt.data[70]++; /* so that neither covers the other */
    n_cached(engine, on_slot(0, longer));
    n_cached(engine, on_slot(0, prompt_number(82, 20, 1)));
    assert_int_equal(n_cached(engine, on_slot(0, prompt_number(80, 90, 1))), 70);
}

/* Without a limit in bytes as many tokens are kept as the context has; what the
 * next prompt wants is taken before that limit is looked at. */
static void without_a_limit_in_bytes_tokens_are_counted(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.cache_ram_mib = -1;
    settings.context.n_ctx = 2 * TEST_N_CTX;
    settings.n_parallel = 2;
    struct engine *engine = test_engine_start(&settings);
    for (int32_t i = 0; i < 4; i++)
        n_cached(engine, on_slot(0, prompt_number(i, 200, 1)));
    /* 1 and 2 are kept; 3 is in the slot, and pushes 1 out only when it is not the
     * one that is asked for. */
    assert_int_equal(n_cached(engine, on_slot(0, prompt_number(1, 200, 1))), 199);
    assert_int_equal(n_cached(engine, on_slot(0, prompt_number(0, 200, 1))), 0);
    engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest shared[] = {
        cmocka_unit_test(a_prompt_takes_what_another_slot_has_computed),
        cmocka_unit_test(a_request_that_wants_no_cache_takes_nothing),
        cmocka_unit_test(what_was_moved_is_not_shared),
        cmocka_unit_test(a_prompt_like_no_other_goes_to_the_slot_unused_for_longest),
        cmocka_unit_test(a_prompt_goes_to_the_slot_that_holds_most_of_it),
        cmocka_unit_test(the_idle_prompt_that_holds_most_comes_back),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(prompts_that_arrive_together_are_computed_once),
        cmocka_unit_test(context_shift_leaves_shared_cells_alone),
        cmocka_unit_test(a_unified_pool_holds_a_common_beginning_once),
        cmocka_unit_test(a_budget_is_each_slots_own_and_a_pool_everybodys),
        cmocka_unit_test(idle_prompts_are_kept_within_the_limit_the_oldest_going_first),
        cmocka_unit_test(without_a_limit_in_bytes_tokens_are_counted),
    };
    int failed = cmocka_run_group_tests(shared, test_start, test_stop);
    return failed + cmocka_run_group_tests(own, NULL, NULL);
}
