/* workers_test.c - long handlers hold up neither brief work nor the server's end. */
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include "base/clock.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { N_WORKERS = 2, N_LONG = 8 };

#define ASK(path) "GET " path " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

/* What the routes below count, and the exchange that waits. */
struct work {
    atomic_int n_begun, n_ended; /* long handlers */
    atomic_int n_steps;
    _Atomic(struct http_exchange *) waiting;
    atomic_bool go_on;
};

/* Works until nobody wants the answer, as a handler at long work asks between its
 * steps; one that never hears of that gives up in the end, so that a fault shows as
 * a failure and not as a hang. */
static void long_route(struct http_exchange *x, void *context)
{
    struct work *work = context;
    atomic_fetch_add(&work->n_begun, 1);
    for (int i = 0; i < 30000 && !http_is_unwanted(x); i++)
        clock_sleep_ms(1);
    bool unwanted = http_is_unwanted(x);
    atomic_fetch_add(&work->n_ended, unwanted);
    if (http_client_gone(x))
        http_abandon(x);
    else
        http_reply(x, 503, "text/plain", SLICE("stopping"));
}

static void answer(struct http_exchange *x, void *context)
{
    (void)context;
    http_reply(x, 200, "text/plain", SLICE("here"));
}

static void wait_step(struct http_exchange *x, void *state)
{
    struct work *work = state;
    atomic_fetch_add(&work->n_steps, 1);
    if (atomic_load(&work->go_on) || http_is_stopping(x))
        http_reply(x, 200, "text/plain", SLICE("stepped"));
    else
        atomic_store(&work->waiting, x);
}

static void nothing(void *state)
{
    (void)state;
}

static void wait_route(struct http_exchange *x, void *context)
{
    http_continue(x, wait_step, context, nothing);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/long", long_route, true, HTTP_LONG},
    {HTTP_GET, "/health", answer, true, HTTP_INSTANT},
    {HTTP_GET, "/state", answer, true, HTTP_BRIEF},
    {HTTP_GET, "/wait", wait_route, true, HTTP_LONG},
};

static struct http_server *open_server(struct work *work)
{
    struct http_settings settings = {.host = "127.0.0.1",
                                     .n_workers = N_WORKERS,
                                     .timeout_s = 30,
                                     .routes = routes,
                                     .n_routes = sizeof routes / sizeof *routes,
                                     .context = work};
    return house_open(NULL, &settings);
}

static void begin_long(const struct http_server *server, struct work *work, int *clients)
{
    for (int i = 0; i < N_LONG; i++) {
        clients[i] = client_connect(server);
        client_send(clients[i], ASK("/long"));
    }
    assert_true(comes_to(&work->n_begun, N_WORKERS));
}

static void assert_answers(const struct http_server *server, const char *request, const char *part)
{
    char *text = client_ask(server, request);
    assert_non_null(strstr(text, part));
    free(text);
}

static void brief_work_is_done_whatever_the_others_do(void **state)
{
    (void)state;
    struct work work = {0};
    int clients[N_LONG];
    struct http_server *server = open_server(&work);
    int waiting = client_connect(server);
    client_send(waiting, ASK("/wait"));
    assert_true(comes_to(&work.n_steps, 1));
    begin_long(server, &work, clients);
    for (int i = 0; i < 3; i++) {
        assert_answers(server, ASK("/health"), "here");
        assert_answers(server, ASK("/state"), "here");
    }
    /* An answer that was under way goes on. */
    atomic_store(&work.go_on, true);
    http_wake(atomic_load(&work.waiting));
    char *text = client_read(waiting, 3000);
    assert_non_null(strstr(text, "stepped"));
    free(text);
    close(waiting);
    for (int i = 0; i < N_LONG; i++)
        close(clients[i]);
    http_server_stop(server, 5000);
}

/* Both those at work and those that wait for their turn. */
static void abandoned_work_ends(void **state)
{
    (void)state;
    struct work work = {0};
    int clients[N_LONG];
    struct http_server *server = open_server(&work);
    begin_long(server, &work, clients);
    for (int i = 0; i < N_LONG; i++)
        close(clients[i]);
    assert_true(comes_to(&work.n_ended, N_LONG));
    http_server_stop(server, 5000);
}

static void stopping_ends_work_that_still_has_its_client(void **state)
{
    (void)state;
    struct work work = {0};
    int clients[N_LONG];
    struct http_server *server = open_server(&work);
    begin_long(server, &work, clients);
    http_server_stop(server, 5000);
    assert_int_equal(atomic_load(&work.n_ended), atomic_load(&work.n_begun));
    assert_true(atomic_load(&work.n_begun) >= N_WORKERS);
    for (int i = 0; i < N_LONG; i++)
        close(clients[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brief_work_is_done_whatever_the_others_do),
        cmocka_unit_test(abandoned_work_ends),
        cmocka_unit_test(stopping_ends_work_that_still_has_its_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
