/* helpers.c - a small server under test and a client that speaks bytes. */
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
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

static void flood_step(struct http_exchange *x, void *state)
{
    struct visit *visit = state;
    if (http_client_gone(x) || http_is_stopping(x)) {
        atomic_fetch_add(&visit->house->n_gone, 1);
        http_abandon(x);
        return;
    }
    if (visit->at++ == 0)
        http_stream_begin(x, 200, "text/plain", 0);
    char *block = calloc(1, FLOOD_BLOCK);
    http_write(x, (struct slice){block, FLOOD_BLOCK});
    free(block);
    atomic_fetch_add(&visit->house->n_blocks, 1);
    http_wake(x);
}

static void flood_route(struct http_exchange *x, void *context)
{
    http_continue(x, flood_step, visit_begin(x, context), visit_release);
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
    {HTTP_GET, "/flood", flood_route, false, HTTP_LONG},
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

/* ---- with TLS ------------------------------------------------------------------- */

static void write_text(const char *path, gnutls_datum_t text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    fclose(file);
    gnutls_free(text.data);
}

/* A key and a certificate that it signed itself. */
static void write_pair(const char *key_path, const char *cert_path)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t text;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    assert_int_equal(gnutls_x509_crt_set_version(cert, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(cert, "\1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_dn(cert, "CN=localhost", NULL), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(cert, time(NULL) - 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_key(cert, key), 0);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), 0);
    write_text(key_path, text);
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &text), 0);
    write_text(cert_path, text);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

void client_open(struct client *client, const struct http_server *server,
                 gnutls_certificate_credentials_t trust)
{
    struct timeval patience = {.tv_sec = 5};
    *client = (struct client){.fd = client_connect(server)};
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!trust)
        return;
    assert_int_equal(gnutls_init(&client->tls, GNUTLS_CLIENT), 0);
    gnutls_set_default_priority(client->tls);
    gnutls_credentials_set(client->tls, GNUTLS_CRD_CERTIFICATE, trust);
    gnutls_transport_set_int(client->tls, client->fd);
    int code;
    do
        code = gnutls_handshake(client->tls);
    while (code < 0 && !gnutls_error_is_fatal(code));
    assert_int_equal(code, 0);
}

void client_write(struct client *client, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t n = client->tls ? gnutls_record_send(client->tls, bytes.data, bytes.len)
                                : send(client->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        bytes = slice_from(bytes, (size_t)n);
    }
}

char *client_read_all(struct client *client, int timeout_ms, bool *closed)
{
    struct str all = {0};
    struct timeval patience = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    char block[4096];
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (;;) {
        ssize_t n = client->tls ? gnutls_record_recv(client->tls, block, sizeof block)
                                : recv(client->fd, block, sizeof block, 0);
        if (n <= 0) {
            bool late = client->tls ? n == GNUTLS_E_AGAIN
                                    : n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
            *closed = !late;
            break;
        }
        str_append(&all, block, (size_t)n);
    }
    return str_detach(&all);
}

void client_drop(struct client *client, bool abruptly)
{
    struct linger none = {.l_onoff = 1};
    if (abruptly)
        setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(client->fd);
    if (client->tls)
        gnutls_deinit(client->tls);
}

void tls_house_open(struct tls_house *t)
{
    memset(t, 0, sizeof *t);
    snprintf(t->folder, sizeof t->folder, "/tmp/mlxcel-drops-XXXXXX");
    assert_non_null(mkdtemp(t->folder));
    snprintf(t->key, sizeof t->key, "%s/key.pem", t->folder);
    snprintf(t->cert, sizeof t->cert, "%s/cert.pem", t->folder);
    write_pair(t->key, t->cert);
    struct http_settings settings = house_settings(&t->house);
    settings.tls_key_file = t->key;
    settings.tls_cert_file = t->cert;
    t->server = house_open(&t->house, &settings);
    unlink(t->key);
    unlink(t->cert);
    rmdir(t->folder);
}
