/* server.c - a server's life: listen, answer, stop. */
#include "http/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* As many descriptors as the system lets us have; a connection needs one. */
static unsigned connection_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 512;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    rlim_t usable = limit.rlim_cur > 128 ? limit.rlim_cur - 64 : limit.rlim_cur / 2;
    return usable > HTTP_MAX_CONNECTIONS ? HTTP_MAX_CONNECTIONS : (unsigned)usable;
}

/* Threads that only move bytes; more than a few gain nothing. */
static unsigned n_socket_threads(int32_t n_workers)
{
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    long n = n_cores < 4 ? n_cores : 4;
    if (n > n_workers)
        n = n_workers;
    return n < 1 ? 1 : (unsigned)n;
}

static bool copy_front(struct front *front, const struct http_settings *s, struct error *err)
{
    struct arena *arena = &front->arena;
    front->prefix = arena_duplicate(arena, slice_of(s->prefix ? s->prefix : ""));
    front->cors_origins = arena_duplicate(arena, slice_of(s->cors_origins ? s->cors_origins : "*"));
    front->cors_methods = arena_duplicate(
        arena, slice_of(s->cors_methods ? s->cors_methods : "GET, POST, DELETE, OPTIONS"));
    front->cors_headers = arena_duplicate(arena, slice_of(s->cors_headers ? s->cors_headers : "*"));
    front->cors_credentials = s->cors_credentials;
    front->keys = arena_alloc_array(arena, s->n_keys + 1, sizeof *front->keys);
    if (!front->prefix || !front->cors_origins || !front->cors_methods || !front->cors_headers ||
        !front->keys)
        return error_memory(err);
    for (size_t i = 0; i < s->n_keys; i++) {
        front->keys[i] =
            (struct slice){arena_duplicate(arena, slice_of(s->keys[i])), strlen(s->keys[i])};
        if (!front->keys[i].data)
            return error_memory(err);
    }
    front->n_keys = s->n_keys;
    return statics_open(front, s->static_folder, err);
}

/* Wait until no exchange is left, at most timeout_ms. */
static void wait_until_ended(struct http_server *server, uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&server->lock);
    while (server->n_exchanges > 0 &&
           pthread_cond_timedwait(&server->ended, &server->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&server->lock);
}

static void server_free(struct http_server *server)
{
    accept_stop(server);
    io_stop(server);
    wait_until_ended(server, 500);
    size_t n = http_server_n_exchanges(server);
    if (n > 0)
        log_warn("http: %zu requests did not end in time", n);
    crew_stop(&server->crew);
    if (server->socket_path)
        unlink(server->socket_path);
    free(server->socket_path);
    free(server->address);
    tls_close(&server->tls);
    free(server->front.static_root);
    arena_free(&server->front.arena);
    pthread_cond_destroy(&server->ended);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

bool http_server_start(const struct http_settings *settings, struct http_server **out,
                       struct error *err)
{
    struct http_server *server = calloc(1, sizeof *server);
    *out = NULL;
    if (!server)
        return error_memory(err);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&server->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&server->lock, NULL);
    server->listen_fd = server->acceptor.wake = -1;
    server->routes = settings->routes;
    server->n_routes = settings->n_routes;
    server->shape_error = settings->shape_error;
    server->context = settings->context;
    server->max_body = settings->max_body ? settings->max_body : (size_t)1 << 30;
    server->timeout_s = settings->timeout_s;
    server->max_connections = connection_limit();

    const char *key_file = settings->tls_key_file, *cert_file = settings->tls_cert_file;
    bool has_key = key_file && *key_file, has_cert = cert_file && *cert_file;
    if (has_key != has_cert) {
        error_set(err, ERR_INVALID,
                  "TLS needs both --ssl-key-file and --ssl-cert-file; only %s is given",
                  has_key ? key_file : cert_file);
        goto failed;
    }
    if (!copy_front(&server->front, settings, err) ||
        (has_key && !tls_open(&server->tls, key_file, cert_file, err)))
        goto failed;
    server->listen_fd = listen_open(settings, &server->port, &server->address, err);
    if (server->listen_fd < 0)
        goto failed;
    if (server->address && strncmp(server->address, "unix://", 7) == 0)
        server->socket_path = slice_duplicate(slice_of(server->address + 7));
    if (!server->address) {
        error_memory(err);
        goto failed;
    }
    if (!crew_start(&server->crew, settings->n_workers, err) ||
        !io_start(server, n_socket_threads(settings->n_workers), err) || !accept_start(server, err))
        goto failed;
    *out = server;
    return true;
failed:
    server_free(server);
    return false;
}

void http_server_ready(struct http_server *server)
{
    atomic_store(&server->ready, true);
}

const char *http_server_address(const struct http_server *server)
{
    return server->address;
}

int32_t http_server_port(const struct http_server *server)
{
    return server->port;
}

size_t http_server_n_exchanges(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    size_t n = server->n_exchanges;
    pthread_mutex_unlock(&server->lock);
    return n;
}

size_t http_server_n_connections(struct http_server *server)
{
    return atomic_load(&server->n_connections);
}

/* All exchanges, each with a reference; the caller frees the array. */
static struct http_exchange **list_exchanges(struct http_server *server, size_t *n)
{
    *n = 0;
    pthread_mutex_lock(&server->lock);
    struct http_exchange **list = calloc(server->n_exchanges + 1, sizeof(struct http_exchange *));
    for (struct http_exchange *x = server->exchanges; x && list; x = x->next) {
        /* One whose last reference is gone waits for our lock to leave the list. */
        int references = atomic_load(&x->references);
        while (references > 0 &&
               !atomic_compare_exchange_weak(&x->references, &references, references + 1))
            ;
        if (references > 0)
            list[(*n)++] = x;
    }
    pthread_mutex_unlock(&server->lock);
    return list;
}

static void for_all_exchanges(struct http_server *server, void (*act)(struct http_exchange *x))
{
    size_t n;
    struct http_exchange **list = list_exchanges(server, &n);
    for (size_t i = 0; i < n; i++) {
        act(list[i]);
        exchange_drop(list[i]);
    }
    free(list);
}

static void wake_if_working(struct http_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool working = x->with_workers && !x->ended;
    pthread_mutex_unlock(&x->lock);
    if (working)
        http_wake(x);
}

void http_server_stop(struct http_server *server, uint32_t grace_ms)
{
    atomic_store(&server->stopping, true);
    accept_stop(server);
    for_all_exchanges(server, wake_if_working);
    wait_until_ended(server, grace_ms);
    /* Who is not done now is cut off. */
    atomic_store(&server->closing, true);
    for_all_exchanges(server, exchange_client_gone);
    wait_until_ended(server, 500);
    server_free(server);
}
