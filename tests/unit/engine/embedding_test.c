/* embedding_test.c - texts that are embedded: whole, together, and each as if
 * alone. */
#include "unit/engine/helpers.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_EMBD = 64, N_UBATCH = 32 };

static int start(void **state)
{
    struct engine_settings settings = test_settings();
    settings.context.embeddings = true;
    settings.context.pooling = POOLING_MEAN;
    settings.context.n_batch = N_UBATCH;
    *state = test_engine_start(&settings);
    return 0;
}

static struct engine_request *text(int32_t first, int32_t n)
{
    struct engine_request *request = test_request(first, n, -1);
    request->task = ENGINE_EMBEDDING;
    return request;
}

static void vector_of(struct engine *engine, int32_t first, int32_t n, float out[N_EMBD])
{
    struct engine_event *event = test_run(engine, text(first, n));
    assert_int_equal(event->kind, ENGINE_EVENT_EMBEDDING);
    assert_int_equal(event->n_vectors, 1);
    assert_int_equal(event->n_embd, N_EMBD);
    assert_int_equal(event->n_prompt, n);
    memcpy(out, event->vectors, N_EMBD * sizeof *out);
    engine_event_free(event);
}

static uint64_t n_decodes(struct engine *engine)
{
    struct engine_metrics metrics;
    engine_metrics(engine, &metrics);
    return metrics.n_decode_calls;
}

static int32_t length_of(int i)
{
    return 1 + i % 7;
}

/* More texts than slots are shown fill the batches, and each vector is that of
 * the text alone. */
static void texts_share_batches_and_keep_their_vectors(void **state)
{
    enum { N = 100 };
    struct engine *engine = *state;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct engine_request *requests[N];
    struct error err;
    uint64_t before = n_decodes(engine);
    int32_t n_tokens = 0;
    for (int i = 0; i < N; i++) {
        requests[i] = text(3 + i, length_of(i));
        requests[i]->index = i;
        n_tokens += length_of(i);
    }
    assert_true(engine_submit_all(engine, requests, N, mailbox, NULL, &err));
    float together[N][N_EMBD];
    for (int i = 0; i < N; i++) {
        struct engine_event *event = test_wait(mailbox);
        assert_int_equal(event->kind, ENGINE_EVENT_EMBEDDING);
        memcpy(together[event->index], event->vectors, sizeof together[0]);
        engine_event_free(event);
    }
    /* A text that does not fit any more leaves at most its length empty. */
    uint64_t n_most = (uint64_t)(n_tokens / (N_UBATCH - 6) + 1);
    assert_true(n_decodes(engine) - before <= n_most);
    for (int i = 0; i < N; i += 9) {
        float alone[N_EMBD];
        vector_of(engine, 3 + i, length_of(i), alone);
        for (int k = 0; k < N_EMBD; k++)
            assert_true(fabsf(alone[k] - together[i][k]) < 1e-5f);
    }
    engine_mailbox_free(mailbox);
}

/* One that cannot be run keeps all of its call from being queued. */
static void of_several_requests_all_are_queued_or_none(void **state)
{
    struct engine *engine = *state;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct engine_request *requests[] = {text(5, 4), text(5, N_UBATCH + 1), text(5, 4)};
    struct error err;
    assert_false(engine_submit_all(engine, requests, 3, mailbox, NULL, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.message, "input (33 tokens) is too large to process. increase the "
                                     "physical batch size (current batch size: 32)");
    assert_null(engine_mailbox_take(mailbox, 50));
    struct engine_metrics metrics;
    engine_metrics(engine, &metrics);
    assert_int_equal(metrics.n_processing + metrics.n_deferred, 0);
    engine_mailbox_free(mailbox);
}

/* A text as long as the physical batch is embedded, however many short ones keep
 * coming. */
static void a_long_text_is_not_passed_for_ever(void **state)
{
    enum { N = 400 };
    struct engine *engine = *state;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct engine_request *requests[N];
    struct error err;
    for (int i = 0; i < N; i++) {
        requests[i] = text(3, i == 40 ? N_UBATCH : 3);
        requests[i]->index = i;
    }
    assert_true(engine_submit_all(engine, requests, N, mailbox, NULL, &err));
    int place = -1;
    for (int i = 0; i < N; i++) {
        struct engine_event *event = test_wait(mailbox);
        assert_int_equal(event->kind, ENGINE_EVENT_EMBEDDING);
        if (event->index == 40)
            place = i;
        engine_event_free(event);
    }
    assert_true(place >= 0 && place < 60);
    engine_mailbox_free(mailbox);
}

/* Who cancels gets no more batches, and is in nobody's way. */
static void cancelled_texts_are_not_computed(void **state)
{
    enum { N = 2000 };
    struct engine *engine = *state;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct engine_request **requests = calloc(N, sizeof *requests);
    struct engine_job **jobs = calloc(N, sizeof *jobs);
    struct error err;
    assert_true(requests && jobs);
    for (int i = 0; i < N; i++)
        requests[i] = text(3 + i % 100, 30);
    uint64_t before = n_decodes(engine);
    assert_true(engine_submit_all(engine, requests, N, mailbox, jobs, &err));
    for (int i = 0; i < N; i++)
        engine_job_cancel(jobs[i]);
    float vector[N_EMBD];
    vector_of(engine, 9, 5, vector);
    assert_true(n_decodes(engine) - before < N / 2);
    struct engine_metrics metrics;
    engine_metrics(engine, &metrics);
    assert_int_equal(metrics.n_deferred, 0);
    for (int i = 0; i < N; i++)
        engine_job_release(jobs[i]);
    free(jobs);
    free(requests);
    engine_mailbox_free(mailbox);
}

/* Only what the context was made for. */
static void an_embedding_engine_neither_generates_nor_ranks(void **state)
{
    struct engine *engine = *state;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    assert_false(engine_submit(engine, test_request(5, 4, 4), mailbox, NULL, &err));
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    struct engine_request *request = text(5, 4);
    request->task = ENGINE_RERANK;
    assert_false(engine_submit(engine, request, mailbox, NULL, &err));
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_false(engine_submit(engine, text(5, 0), mailbox, NULL, &err));
    assert_int_equal(err.code, ERR_INVALID);
    engine_mailbox_free(mailbox);
}

static void a_generating_engine_does_not_embed(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    struct engine *engine = test_engine_start(&settings);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    assert_false(engine_submit(engine, text(5, 4), mailbox, NULL, &err));
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    engine_mailbox_free(mailbox);
    engine_free(engine);
}

/* The slots behind those that are shown change neither their number nor what one
 * of them may hold. */
static void what_is_shown_of_slots_is_as_configured(void **state)
{
    struct engine *engine = *state;
    int32_t n;
    assert_int_equal(engine_n_slots(engine), TEST_N_SLOTS);
    assert_int_equal(engine_slot_n_ctx(engine), TEST_N_CTX);
    struct engine_slot_status *statuses = engine_slot_statuses(engine, &n);
    assert_int_equal(n, TEST_N_SLOTS);
    engine_slot_statuses_free(statuses, n);
    struct engine_metrics metrics;
    engine_metrics(engine, &metrics);
    assert_int_equal(metrics.n_idle, TEST_N_SLOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_share_batches_and_keep_their_vectors),
        cmocka_unit_test(of_several_requests_all_are_queued_or_none),
        cmocka_unit_test(a_long_text_is_not_passed_for_ever),
        cmocka_unit_test(cancelled_texts_are_not_computed),
        cmocka_unit_test(an_embedding_engine_neither_generates_nor_ranks),
        cmocka_unit_test(a_generating_engine_does_not_embed),
        cmocka_unit_test(what_is_shown_of_slots_is_as_configured),
    };
    return cmocka_run_group_tests(tests, start, test_stop);
}
