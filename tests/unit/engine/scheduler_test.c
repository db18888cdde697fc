/* scheduler_test.c - how a step divides what it computes among those who wait. */
#include "unit/engine/helpers.h"

/* A prompt of n_prompt tokens that no other number begins like. */
static struct engine_request *prompt_number(int32_t number, int32_t n_prompt, int32_t n_predict)
{
    struct engine_request *request = test_request(3 + number, 1, n_predict);
    for (int32_t i = 1; i < n_prompt; i++)
        assert_true(VEC_PUSH(&request->prompt, 3 + (number * 131 + i * i * 7 + i) % 310));
    request->stream = true;
    request->index = number;
    return request;
}

/* Whole characters only, so that each token is an event. */
static struct engine_request *of_letters(struct engine_request *request)
{
    enum { FIRST_BYTE = 3 };
    struct logit_bias *bias = arena_alloc(&request->arena, sizeof *bias);
    assert_non_null(bias);
    *bias = (struct logit_bias){FIRST_BYTE + 'a', 1000};
    request->sampling.logit_bias = bias;
    request->sampling.n_logit_bias = 1;
    return request;
}

enum { STREAM, LONG, N_LONG = 240 };

/* A stream and a long prompt begin in one step, which gives the prompt what its
 * batch has left. From then on: the most of it that was read between two tokens of
 * the stream, and in how many steps, while the stream ran. */
struct meeting {
    int32_t n_most, n_steps;
};

static struct meeting meet(const struct engine_settings *settings)
{
    struct meeting m = {0};
    struct engine *engine = test_engine_start(settings);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct engine_request *requests[] = {of_letters(prompt_number(STREAM, 8, 40)),
                                         prompt_number(LONG, N_LONG, 1)};
    struct error err;
    requests[STREAM]->id_slot = 0;
    requests[LONG]->id_slot = 1;
    requests[LONG]->return_progress = true;
    assert_true(engine_submit_all(engine, requests, 2, mailbox, NULL, &err));
    int32_t read = 0, read_at_token = 0, n_done = 0;
    bool stream_runs = true;
    while (n_done < 2) {
        struct engine_event *event = engine_mailbox_take(mailbox, 30000);
        assert_non_null(event);
        assert_int_not_equal(event->kind, ENGINE_EVENT_ERROR);
        if (event->kind == ENGINE_EVENT_TOKEN && event->index == STREAM)
            read_at_token = read;
        if (event->kind == ENGINE_EVENT_PROGRESS && stream_runs) {
            bool first = read == 0;
            m.n_steps += !first && event->n_processed > read;
            read = event->n_processed;
            if (!first && read - read_at_token > m.n_most)
                m.n_most = read - read_at_token;
        }
        if (event->kind == ENGINE_EVENT_DONE) {
            stream_runs &= event->index != STREAM;
            n_done++;
        }
        engine_event_free(event);
    }
    engine_mailbox_free(mailbox);
    engine_free(engine);
    return m;
}

/* While somebody generates a step reads no more of a prompt than one physical
 * batch, and less where attention costs more; each step gives the stream a token. */
static void a_long_prompt_lets_a_stream_go_on(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    for (int32_t n_ubatch = 16; n_ubatch <= 64; n_ubatch *= 2) {
        settings.context.n_batch = 128;
        settings.context.n_ubatch = n_ubatch;
        struct meeting m = meet(&settings);
        /* So deep in this model a chunk of 64 would take as long as two at first. */
        int32_t n_most = n_ubatch < 64 ? n_ubatch - 1 : 32, n_left = N_LONG - (128 - 8);
        assert_int_equal(m.n_most, n_most);
        assert_int_equal(m.n_steps, (n_left + n_most - 1) / n_most);
    }
}

/* More streams than a physical batch has rows: prompts are read nevertheless. */
static void many_streams_do_not_keep_a_prompt_out(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.context.n_batch = 128;
    settings.context.n_ubatch = 1;
    struct meeting m = meet(&settings);
    assert_int_equal(m.n_most, 1);
    assert_in_range(m.n_steps, 30, 40);
}

/* Without continuous batching a prompt waits until nobody generates. */
static void without_continuous_batching_a_prompt_waits(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.continuous_batching = false;
    settings.context.n_batch = 128;
    assert_int_equal(meet(&settings).n_steps, 0);
}

/* Alone a prompt is read by whole batches. */
static void alone_a_prompt_takes_the_whole_batch(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.context.n_batch = 80;
    settings.context.n_ubatch = 16;
    struct engine *engine = test_engine_start(&settings);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    struct engine_request *request = prompt_number(LONG, N_LONG, 1);
    request->return_progress = true;
    assert_true(engine_submit(engine, request, mailbox, NULL, &err));
    static const int32_t expected[] = {0, 80, 160, N_LONG};
    size_t n = 0;
    for (bool done = false; !done;) {
        struct engine_event *event = engine_mailbox_take(mailbox, 30000);
        assert_non_null(event);
        if (event->kind == ENGINE_EVENT_PROGRESS) {
            assert_true(n < sizeof expected / sizeof *expected);
            assert_int_equal(event->n_processed, expected[n++]);
        }
        done = event->kind >= ENGINE_EVENT_DONE;
        engine_event_free(event);
    }
    assert_int_equal(n, sizeof expected / sizeof *expected);
    engine_mailbox_free(mailbox);
    engine_free(engine);
}

/* Each with a chain and a seed of its own. */
static struct engine_request *sampled(int32_t number)
{
    struct engine_request *request = prompt_number(number, 20, 40);
    request->stream = false;
    request->cache_prompt = false;
    request->sampling.temperature = 0.5f + (float)number;
    request->sampling.seed = 7 + (uint32_t)number;
    request->sampling.n_probs = 3 * number;
    request->sampling.top_k = 40 * number;
    return request;
}

/* Slots that sample at once, on whatever thread of the pool, draw what each draws
 * alone. */
static void slots_that_sample_together_draw_as_each_alone(void **state)
{
    (void)state;
    enum { N = TEST_N_SLOTS };
    struct engine_settings settings = test_settings();
    settings.pool.n_threads = 3;
    settings.cache_ram_mib = 0;
    struct engine *engine = test_engine_start(&settings);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    char *alone[N];
    for (int32_t i = 0; i < N; i++) {
        struct engine_event *event = test_run(engine, sampled(i));
        assert_int_equal(event->kind, ENGINE_EVENT_DONE);
        alone[i] = slice_duplicate(event->whole_text);
        engine_event_free(event);
    }
    struct engine_request *requests[N];
    struct error err;
    for (int32_t i = 0; i < N; i++)
        requests[i] = sampled(i);
    assert_true(engine_submit_all(engine, requests, N, mailbox, NULL, &err));
    for (int32_t i = 0; i < N; i++) {
        struct engine_event *event = test_wait(mailbox);
        assert_int_equal(event->kind, ENGINE_EVENT_DONE);
        assert_int_equal(event->whole_text.len, strlen(alone[event->index]));
        assert_memory_equal(event->whole_text.data, alone[event->index], event->whole_text.len);
        free(alone[event->index]);
        engine_event_free(event);
    }
    engine_mailbox_free(mailbox);
    engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_prompt_lets_a_stream_go_on),
        cmocka_unit_test(many_streams_do_not_keep_a_prompt_out),
        cmocka_unit_test(without_continuous_batching_a_prompt_waits),
        cmocka_unit_test(alone_a_prompt_takes_the_whole_batch),
        cmocka_unit_test(slots_that_sample_together_draw_as_each_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
