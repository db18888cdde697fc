/* sleep_test.c - an engine that falls asleep whenever nobody asks, asked by many at
 * once: what they read of it without its locks never changes. A thread sanitizer makes
 * this test speak. */
#include "unit/engine/helpers.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>

enum { N_THREADS = 4, N_REQUESTS = 12 };

struct client {
    struct engine *engine;
    int32_t number;
    int32_t n_ctx;
    atomic_int n_done, n_slept;
    atomic_int n_changed; /* a size was not what it was at first */
    pthread_barrier_t *together;
};

static void ask(struct client *c, int32_t i)
{
    struct engine_request *request = test_request(10 + c->number, 4 + i % 5, 3);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    request->n_completions = 1 + i % 2;
    request->sampling.repeat_last_n = -1; /* a sampler as long as the context */
    request->sampling.repeat_penalty = 1.1f;
    int32_t n = request->n_completions;
    if (engine_submit(c->engine, request, mailbox, NULL, &err))
        for (int32_t k = 0; k < n; k++) {
            struct engine_event *event = test_wait(mailbox);
            atomic_fetch_add(&c->n_done, event->kind == ENGINE_EVENT_DONE && k == 0);
            engine_event_free(event);
        }
    engine_mailbox_free(mailbox);
}

static void *be_client(void *arg)
{
    struct client *c = arg;
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        int32_t n;
        struct engine_metrics metrics;
        ask(c, i);
        atomic_fetch_add(&c->n_changed, engine_slot_n_ctx(c->engine) != c->n_ctx);
        atomic_fetch_add(&c->n_changed, engine_n_ubatch(c->engine) < 1);
        atomic_fetch_add(&c->n_changed, engine_pooling(c->engine) != POOLING_NONE);
        engine_metrics(c->engine, &metrics);
        struct engine_slot_status *statuses = engine_slot_statuses(c->engine, &n);
        engine_slot_statuses_free(statuses, n);
        pthread_barrier_wait(c->together);
        /* Nobody asks now. Then all do, and wake it while they ask. */
        for (int tries = 0; tries < 10000 && engine_state(c->engine) != ENGINE_SLEEPING; tries++)
            clock_sleep_ms(1);
        atomic_fetch_add(&c->n_slept, engine_state(c->engine) == ENGINE_SLEEPING);
        pthread_barrier_wait(c->together);
    }
    return NULL;
}

static void requests_wake_an_engine_that_always_falls_asleep(void **state)
{
    (void)state;
    struct engine_settings settings = test_settings();
    settings.sleep_idle_seconds = 0;
    struct engine *engine = test_engine_start(&settings);
    struct client clients[N_THREADS];
    pthread_t threads[N_THREADS];
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, N_THREADS);
    for (int32_t i = 0; i < N_THREADS; i++) {
        clients[i] = (struct client){.engine = engine,
                                     .number = i,
                                     .n_ctx = engine_slot_n_ctx(engine),
                                     .together = &together};
        assert_int_equal(pthread_create(&threads[i], NULL, be_client, &clients[i]), 0);
    }
    for (int32_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&clients[i].n_done), N_REQUESTS);
        assert_int_equal(atomic_load(&clients[i].n_slept), N_REQUESTS);
        assert_int_equal(atomic_load(&clients[i].n_changed), 0);
    }
    pthread_barrier_destroy(&together);
    engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_wake_an_engine_that_always_falls_asleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
