/* helpers.c - a small server under test and a client that speaks bytes. */
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct visit {
    struct house *house;
    int32_t n, at;
    pthread_t ticker;
    bool ticking;
    atomic_bool stop;
    struct http_exchange *x;
};

static void *tick(void *arg)
{
    struct visit *visit = arg;
    while (!atomic_load(&visit->stop)) {
        http_wake(visit->x);
        clock_sleep_ms(2);
    }
    return NULL;
}

static struct visit *visit_begin(struct http_exchange *x, struct house *house)
{
    struct visit *visit = calloc(1, sizeof *visit);
    visit->house = house;
    visit->x = x;
    atomic_fetch_add(&house->n_begun, 1);
    return visit;
}

static void visit_release(void *state)
{
    struct visit *visit = state;
    atomic_store(&visit->stop, true);
    if (visit->ticking)
        pthread_join(visit->ticker, NULL);
    atomic_fetch_add(&visit->house->n_released, 1);
    free(visit);
}

static void health(struct http_exchange *x, void *context)
{
    (void)context;
    http_reply(x, 200, HTTP_JSON, SLICE("{\"status\":\"ok\"}"));
}

static void echo(struct http_exchange *x, void *context)
{
    (void)context;
    http_reply(x, 200, "text/plain", http_body(x));
}

static void item(struct http_exchange *x, void *context)
{
    (void)context;
    struct str body = {0};
    str_append_slice(&body, http_param(x, "id"));
    str_append_char(&body, '|');
    str_append_slice(&body, http_query(x, "x"));
    http_reply_str(x, 200, "text/plain", &body);
}

static void wait_step(struct http_exchange *x, void *state)
{
    struct visit *visit = state;
    if (http_client_gone(x)) {
        atomic_fetch_add(&visit->house->n_gone, 1);
        http_abandon(x);
    } else if (http_is_stopping(x)) {
        http_reply_error(x, 503, "unavailable_error", "stopping");
    }
}

static void wait_route(struct http_exchange *x, void *context)
{
    http_continue(x, wait_step, visit_begin(x, context), visit_release);
}

static void stream_step(struct http_exchange *x, void *state)
{
    struct visit *visit = state;
    if (http_client_gone(x)) {
        atomic_fetch_add(&visit->house->n_gone, 1);
        http_abandon(x);
        return;
    }
    if (visit->at == 0)
        http_stream_begin(x, 200, "text/event-stream", 1);
    if (visit->at < visit->n) {
        char text[32];
        snprintf(text, sizeof text, "%d", (int)visit->at++);
        http_write_event(x, NULL, slice_of(text));
    } else {
        http_stream_end(x);
    }
}

static void stream_route(struct http_exchange *x, void *context)
{
    struct visit *visit = visit_begin(x, context);
    struct slice n = http_query(x, "n");
    visit->n = n.data ? atoi(n.data) : 3;
    http_continue(x, stream_step, visit, visit_release);
    visit->ticking = pthread_create(&visit->ticker, NULL, tick, visit) == 0;
}

static void silent_step(struct http_exchange *x, void *state)
{
    struct visit *visit = state;
    if (visit->at++ == 0)
        http_stream_begin(x, 200, "text/event-stream", 1);
    wait_step(x, state);
    if (http_is_stopping(x)) {
        http_write_event(x, "error", SLICE("stopping"));
        http_stream_end(x);
    }
}

static void silent_route(struct http_exchange *x, void *context)
{
    http_continue(x, silent_step, visit_begin(x, context), visit_release);
}

static void form(struct http_exchange *x, void *context)
{
    (void)context;
    const struct http_part *parts;
    size_t n;
    struct error err;
    if (!http_form(x, &parts, &n, &err)) {
        http_reply_error(x, 400, "invalid_request_error", err.message);
        return;
    }
    struct str body = {0};
    for (size_t i = 0; i < n; i++) {
        str_append_slice(&body, parts[i].name);
        str_append_char(&body, '=');
        str_append_slice(&body, parts[i].data);
        if (parts[i].filename.data) {
            str_append_char(&body, '@');
            str_append_slice(&body, parts[i].filename);
        }
        str_append_char(&body, ';');
    }
    http_reply_str(x, 200, "text/plain", &body);
}

struct outer {
    struct http_exchange *x;
    pthread_mutex_t lock;
    struct str all;
    int n;
};

static void inner_done(void *arg, int status, bool streamed, struct slice body)
{
    struct outer *outer = arg;
    (void)status;
    (void)streamed;
    pthread_mutex_lock(&outer->lock);
    struct http_exchange *x = outer->x; /* after the unlock the last one may free outer */
    outer->n++;
    str_append_slice(&outer->all, body);
    pthread_mutex_unlock(&outer->lock);
    http_wake(x);
}

static void outer_step(struct http_exchange *x, void *state)
{
    struct outer *outer = state;
    pthread_mutex_lock(&outer->lock);
    if (outer->n == 3)
        http_reply_str(x, 200, "text/plain", &outer->all);
    pthread_mutex_unlock(&outer->lock);
}

static void outer_release(void *state)
{
    struct outer *outer = state;
    str_free(&outer->all);
    pthread_mutex_destroy(&outer->lock);
    free(outer);
}

static void outer_route(struct http_exchange *x, void *context)
{
    (void)context;
    struct outer *outer = calloc(1, sizeof *outer);
    outer->x = x;
    pthread_mutex_init(&outer->lock, NULL);
    http_continue(x, outer_step, outer, outer_release);
    for (int i = 0; i < 3; i++)
        assert_true(http_inner(x, HTTP_POST, "/echo", http_body(x), inner_done, outer));
}

static const struct http_route routes[] = {
    {HTTP_GET, "/health", health, true, HTTP_INSTANT},
    {HTTP_POST, "/echo", echo, false, HTTP_LONG},
    {HTTP_GET, "/wait", wait_route, false, HTTP_LONG},
    {HTTP_POST, "/wait", wait_route, false, HTTP_LONG},
    {HTTP_GET, "/stream", stream_route, false, HTTP_LONG},
    {HTTP_GET, "/silent", silent_route, false, HTTP_LONG},
    {HTTP_POST, "/form", form, false, HTTP_LONG},
    {HTTP_POST, "/outer", outer_route, false, HTTP_LONG},
    {HTTP_GET, "/item/:id", item, false, HTTP_LONG},
};

struct http_settings house_settings(struct house *house)
{
    return (struct http_settings){.host = "127.0.0.1",
                                  .n_workers = 4,
                                  .timeout_s = 30,
                                  .cors_origins = "*",
                                  .cors_credentials = true,
                                  .routes = routes,
                                  .n_routes = sizeof routes / sizeof *routes,
                                  .context = house};
}

struct http_server *house_open(struct house *house, const struct http_settings *settings)
{
    (void)house;
    struct http_server *server = NULL;
    struct error err = {0};
    if (!http_server_start(settings, &server, &err))
        fail_msg("%s", err.message);
    http_server_ready(server);
    return server;
}

int client_connect(const struct http_server *server)
{
    const char *address = http_server_address(server);
    if (strncmp(address, "unix://", 7) == 0) {
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        snprintf(name.sun_path, sizeof name.sun_path, "%s", address + 7);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
        return fd;
    }
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)http_server_port(server)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

void client_send(int fd, const char *text)
{
    size_t len = strlen(text);
    while (len > 0) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        text += n;
        len -= (size_t)n;
    }
}

char *client_read(int fd, int timeout_ms)
{
    struct str all = {0};
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char block[4096];
    uint64_t until = clock_monotonic_us() + (uint64_t)timeout_ms * 1000;
    for (;;) {
        uint64_t now = clock_monotonic_us();
        if (now >= until || poll(&poll_fd, 1, (int)((until - now) / 1000) + 1) <= 0)
            break;
        ssize_t n = recv(fd, block, sizeof block, 0);
        if (n <= 0)
            break;
        str_append(&all, block, (size_t)n);
    }
    return str_detach(&all);
}

char *client_ask(const struct http_server *server, const char *text)
{
    int fd = client_connect(server);
    client_send(fd, text);
    char *answer = client_read(fd, 3000);
    close(fd);
    return answer;
}

bool comes_to(atomic_int *counter, int n)
{
    for (int i = 0; i < 300 && atomic_load(counter) < n; i++)
        clock_sleep_ms(10);
    return atomic_load(counter) >= n;
}
