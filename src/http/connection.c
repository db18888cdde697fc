/* connection.c - libmicrohttpd's callbacks: heads judged, bodies gathered,
 * answers handed over. */
#include "http/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

size_t connection_keep_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text);
}

/* ---- connections come and go ---------------------------------------------------- */

void connection_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
                       enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct connection *place = calloc(1, sizeof *place);
        *socket_context = place;
        if (!place)
            return;
        place->fd = info ? info->connect_fd : -1;
        place->since_us = clock_monotonic_us();
        place->receiving = true;
        pthread_mutex_lock(&server->lock);
        place->next = server->connections;
        if (place->next)
            place->next->previous = place;
        server->connections = place;
        atomic_fetch_add(&server->n_connections, 1);
        watch_add(server, place);
        pthread_mutex_unlock(&server->lock);
        return;
    }
    struct connection *place = *socket_context;
    *socket_context = NULL;
    if (!place)
        return;
    pthread_mutex_lock(&server->lock);
    watch_remove(server, place);
    if (place->previous)
        place->previous->next = place->next;
    else
        server->connections = place->next;
    if (place->next)
        place->next->previous = place->previous;
    atomic_fetch_sub(&server->n_connections, 1);
    pthread_mutex_unlock(&server->lock);
    free(place);
}

static struct connection *place_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void set_receiving(struct http_server *server, struct connection *place, bool receiving)
{
    if (!place)
        return;
    pthread_mutex_lock(&server->lock);
    place->receiving = receiving;
    place->since_us = clock_monotonic_us();
    pthread_mutex_unlock(&server->lock);
}

/* ---- heads --------------------------------------------------------------------------- */

/* The request line arrived. What is returned is the request's con_cls. */
void *connection_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    struct http_server *server = cls;
    struct http_exchange *x = exchange_create(server);
    if (!x)
        return NULL;
    x->connection = connection;
    x->place = place_of(connection);
    char *copy = arena_duplicate(&x->arena, slice_of(target));
    x->raw_target = slice_of(copy ? copy : "/");
    return x;
}

struct head_size {
    struct http_exchange *x;
    size_t n_bytes;
    bool failed;
};

static enum MHD_Result copy_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct head_size *size = cls;
    (void)kind;
    struct slice text = slice_of(value ? value : "");
    size->n_bytes += strlen(name) + text.len + 4;
    if (!exchange_add_field(size->x, &size->x->headers, slice_of(name), text))
        size->failed = true;
    return MHD_YES;
}

static enum http_method method_of(const char *name, bool *is_head)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {{"GET", HTTP_GET},
                   {"HEAD", HTTP_GET},
                   {"POST", HTTP_POST},
                   {"DELETE", HTTP_DELETE},
                   {"OPTIONS", HTTP_OPTIONS}};
    *is_head = strcmp(name, "HEAD") == 0;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].method;
    return HTTP_OTHER;
}

static void not_found(struct http_exchange *x)
{
    http_reply_error(x, 404, "not_found_error", "File Not Found");
}

/* Decide what the head alone decides: x->route is set, or the exchange is
 * answered. In the order a client sees: preflight, not ready, key, files,
 * routes, size. */
static void judge_head(struct http_exchange *x)
{
    struct http_server *server = x->server;
    const struct front *front = &server->front;
    cors_headers(x, front, x->method == HTTP_OPTIONS);
    if (x->method == HTTP_OPTIONS) {
        http_reply(x, 200, "text/html", SLICE(""));
        return;
    }
    struct slice prefix = slice_of(front->prefix);
    bool inside = slice_starts_with(x->path, prefix);
    x->route_path = inside ? slice_from(x->path, prefix.len) : SLICE("");
    bool is_front_page = slice_equal_text(x->route_path, "/");
    if (!atomic_load(&server->ready) && !is_front_page) {
        http_reply_error(x, 503, "unavailable_error", "Loading model");
        return;
    }
    const struct http_route *route =
        inside ? route_find(server, x, x->method, x->route_path) : NULL;
    bool is_public = is_front_page || (route && route->is_public);
    if (!is_public && !key_is_valid(front, x)) {
        http_reply_error(x, 401, "authentication_error", "Invalid API Key");
        return;
    }
    if (inside && x->method == HTTP_GET && statics_answer(front, x))
        return;
    if (!route) {
        not_found(x);
        return;
    }
    struct slice length = field_find(x->headers, "Content-Length", true);
    if (length.len > 0) {
        char *end = NULL;
        unsigned long long n = strtoull(length.data, &end, 10);
        if (n > server->max_body)
            x->oversized = true;
        else if (!str_reserve(&x->body, (size_t)n))
            x->body.failed = true;
    }
    x->route = route;
}

static void read_head(struct http_exchange *x, struct MHD_Connection *connection,
                      const char *method)
{
    x->method = method_of(method, &x->is_head);
    struct head_size size = {.x = x, .n_bytes = x->raw_target.len};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, copy_header, &size);
    if (size.failed || !target_parse(x, x->raw_target))
        http_reply_error(x, 500, "server_error", "out of memory");
    else if (size.n_bytes > HTTP_MAX_HEAD)
        http_reply_error(x, 431, "invalid_request_error",
                         "the request's headers are larger than 16 KiB");
    else
        judge_head(x);
}

static void refuse_size(struct http_exchange *x)
{
    char message[128];
    snprintf(message, sizeof message, "the request's body is larger than the limit of %zu bytes",
             x->server->max_body);
    x->route = NULL;
    http_reply_error(x, 413, "invalid_request_error", message);
}

/* ---- answers ----------------------------------------------------------------------------- */

static void answer_free(void *cls)
{
    exchange_drop(cls);
}

/* Let the connection sleep until exchange_resume. False: nobody is there to wake
 * for, or the server closes, and libmicrohttpd must not be stopped while a
 * connection sleeps. Under x->lock: who closes sets the flag first and then goes
 * through all exchanges, so that none slips through. */
static bool suspend(struct http_exchange *x, struct MHD_Connection *connection)
{
    if (x->gone || atomic_load(&x->server->closing))
        return false;
    MHD_suspend_connection(connection);
    x->suspended = true;
    return true;
}

/* libmicrohttpd asks for more of a stream. */
static ssize_t answer_read(void *cls, uint64_t position, char *out, size_t max)
{
    struct http_exchange *x = cls;
    (void)position;
    ssize_t n;
    pthread_mutex_lock(&x->lock);
    size_t available = x->out.len - x->out_begin;
    if (x->gone || (x->abandoned && available == 0)) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (available > 0) {
        size_t taken = available < max ? available : max;
        memcpy(out, x->out.data + x->out_begin, taken);
        x->out_begin += taken;
        if (x->out_begin == x->out.len) {
            str_clear(&x->out);
            x->out_begin = 0;
        }
        n = (ssize_t)taken;
    } else if (x->ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        n = suspend(x, x->connection) ? 0 : MHD_CONTENT_READER_END_WITH_ERROR;
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}

static struct MHD_Response *make_response(struct http_exchange *x)
{
    if (x->file_fd >= 0) {
        int fd = x->file_fd;
        x->file_fd = -1;
        return MHD_create_response_from_fd_at_offset64(x->file_len, fd, x->file_begin);
    }
    if (x->streaming) {
        exchange_hold(x);
        struct MHD_Response *response = MHD_create_response_from_callback(
            MHD_SIZE_UNKNOWN, HTTP_STREAM_BLOCK, answer_read, x, answer_free);
        if (!response)
            exchange_drop(x);
        return response;
    }
    size_t len = x->out.len;
    char *data = str_detach(&x->out);
    if (!data)
        return NULL;
    return MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
}

/* Hand the settled answer to libmicrohttpd. Without x->lock: what a settled
 * answer consists of does not change, and libmicrohttpd's own lock on it is held
 * while answer_read takes ours. */
static enum MHD_Result send_answer(struct http_exchange *x, struct MHD_Connection *connection)
{
    struct MHD_Response *response = make_response(x);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Server", "mlxcel");
    if (x->content_type[0])
        MHD_add_response_header(response, "Content-Type", x->content_type);
    for (const struct field *f = x->answer_headers; f; f = f->next)
        if (MHD_add_response_header(response, f->name, f->value) == MHD_NO)
            log_debug("http: header %s could not be sent", f->name);
    if (atomic_load(&x->server->stopping))
        MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)x->status, response);
    MHD_destroy_response(response);
    x->phase = PHASE_SENT;
    return result;
}

static enum MHD_Result wait_for_workers(struct http_exchange *x, struct MHD_Connection *connection)
{
    pthread_mutex_lock(&x->lock);
    bool send = x->answered && !(x->abandoned && !x->streaming) && !x->gone;
    bool wait = !send && !x->ended && suspend(x, connection);
    pthread_mutex_unlock(&x->lock);
    if (send)
        return send_answer(x, connection);
    return wait ? MHD_YES : MHD_NO;
}

static enum MHD_Result hand_to_workers(struct http_exchange *x, struct MHD_Connection *connection)
{
    struct http_server *server = x->server;
    bool hung_up = false;
    x->phase = PHASE_WORK;
    if (x->place) {
        pthread_mutex_lock(&server->lock);
        x->place->receiving = false;
        x->place->working = x;
        hung_up = x->place->hung_up;
        pthread_mutex_unlock(&server->lock);
    }
    pthread_mutex_lock(&x->lock);
    bool handed = suspend(x, connection);
    x->with_workers = handed;
    if (handed)
        exchange_hold(x); /* the handler's */
    pthread_mutex_unlock(&x->lock);
    if (!handed)
        return MHD_NO;
    crew_run(&server->crew, x);
    if (hung_up)
        exchange_client_gone(x);
    return MHD_YES;
}

/* Part of a body: kept, or swallowed where the answer is settled already. */
static enum MHD_Result take_body(struct http_exchange *x, const char *upload, size_t *upload_size)
{
    size_t n = *upload_size;
    *upload_size = 0;
    if (x->route && !x->oversized) {
        if (n > x->server->max_body - x->body.len)
            x->oversized = true;
        else
            str_append(&x->body, upload, n);
    }
    if (!x->route || x->oversized || x->body.failed) {
        str_free(&x->body);
        x->n_swallowed += n;
        /* Too much to be polite about. */
        if (x->n_swallowed > (uint64_t)x->server->max_body + HTTP_SWALLOW)
            return MHD_NO;
    }
    return MHD_YES;
}

enum MHD_Result connection_access(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **con_cls)
{
    struct http_exchange *x = *con_cls;
    (void)cls;
    (void)url;
    (void)version;
    if (!x)
        return MHD_NO;
    switch (x->phase) {
    case PHASE_HEAD: {
        read_head(x, connection, method);
        x->phase = PHASE_BODY;
        set_receiving(x->server, x->place, true);
        if (x->oversized)
            refuse_size(x);
        /* A refusal whose body is long, or waits for a 100, is said at once; a
         * short body is read first, so that the client is not cut off while it
         * still writes. */
        struct slice length = field_find(x->headers, "Content-Length", true);
        bool expects = field_find(x->headers, "Expect", true).data != NULL;
        if (x->answered &&
            (expects || (length.len > 0 && strtoull(length.data, NULL, 10) > HTTP_SWALLOW))) {
            return send_answer(x, connection);
        }
        return MHD_YES;
    }
    case PHASE_BODY:
        if (*upload_size > 0)
            return take_body(x, upload, upload_size);
        if (x->oversized && !x->answered)
            refuse_size(x);
        if (x->body.failed && !x->answered) {
            x->route = NULL;
            http_reply_error(x, 500, "server_error", "out of memory for the request's body");
        }
        if (x->route)
            return hand_to_workers(x, connection);
        return send_answer(x, connection);
    case PHASE_WORK:
        return wait_for_workers(x, connection);
    case PHASE_SENT:
        break;
    }
    return MHD_YES;
}

/* libmicrohttpd 0.9.75 forgets a connection whose stream ended with an error:
 * it is closed, but neither in the epoll set nor among the ready ones, so that its
 * descriptor stays until its timeout, or until it happens to be the one that is
 * idle longest. Connections with a timeout of their own are all looked at each
 * time, at the latest when that timeout is over; there the closed one is found. */
static void close_soon(struct MHD_Connection *connection)
{
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
}

void connection_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                          enum MHD_RequestTerminationCode code)
{
    struct http_server *server = cls;
    struct http_exchange *x = *con_cls;
    *con_cls = NULL;
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK &&
        code != MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN)
        close_soon(connection);
    if (!x)
        return;
    if (x->place) {
        pthread_mutex_lock(&server->lock);
        x->place->working = NULL;
        x->place->receiving = true;
        x->place->since_us = clock_monotonic_us();
        pthread_mutex_unlock(&server->lock);
    }
    pthread_mutex_lock(&x->lock);
    x->connection = NULL;
    x->suspended = false;
    pthread_mutex_unlock(&x->lock);
    exchange_client_gone(x); /* the workers may still be at it */
    exchange_drop(x);
}
