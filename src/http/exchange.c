/* exchange.c - one request and its answer, between a connection and a handler. */
#include "http/internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#define NO_MEMORY                                                                                  \
    "{\"error\":{\"code\":500,\"message\":\"out of memory\",\"type\":\"server_error\"}}"

struct http_exchange *exchange_create(struct http_server *server)
{
    struct http_exchange *x = calloc(1, sizeof *x);
    /* So that it can always be said that memory ran out. */
    if (!x || !str_reserve(&x->out, sizeof NO_MEMORY)) {
        free(x);
        return NULL;
    }
    x->server = server;
    x->file_fd = -1;
    atomic_init(&x->references, 1);
    pthread_mutex_init(&x->lock, NULL);
    pthread_mutex_lock(&server->lock);
    x->next = server->exchanges;
    if (x->next)
        x->next->previous = x;
    server->exchanges = x;
    server->n_exchanges++;
    pthread_mutex_unlock(&server->lock);
    return x;
}

void exchange_hold(struct http_exchange *x)
{
    atomic_fetch_add(&x->references, 1);
}

static void leave_server(struct http_exchange *x)
{
    struct http_server *server = x->server;
    pthread_mutex_lock(&server->lock);
    if (x->previous)
        x->previous->next = x->next;
    else
        server->exchanges = x->next;
    if (x->next)
        x->next->previous = x->previous;
    server->n_exchanges--;
    pthread_cond_broadcast(&server->ended);
    pthread_mutex_unlock(&server->lock);
}

void exchange_drop(struct http_exchange *x)
{
    if (atomic_fetch_sub(&x->references, 1) != 1)
        return;
    struct http_exchange *outer = x->outer;
    request_log(x);
    leave_server(x); /* first: until then others may find it there */
    if (x->file_fd >= 0)
        close(x->file_fd);
    size_t n_bytes = x->body.capacity + x->n_answer;
    str_free(&x->body);
    str_free(&x->out);
    arena_free(&x->arena);
    pthread_mutex_destroy(&x->lock);
    free(x);
    memory_give_back(n_bytes);
    if (outer)
        exchange_drop(outer);
}

/* ---- fields ----------------------------------------------------------------- */

bool exchange_add_field(struct http_exchange *x, struct fields *list, struct slice name,
                        struct slice value)
{
    struct field *field = arena_alloc(&x->arena, sizeof *field);
    if (!field)
        return false;
    field->name = arena_duplicate(&x->arena, name);
    field->value = arena_duplicate(&x->arena, value);
    if (!field->name || !field->value)
        return false;
    if (list->last)
        list->last->next = field;
    else
        list->first = field;
    list->last = field;
    return true;
}

struct slice field_find(const struct fields *list, const char *name, bool fold_case)
{
    for (const struct field *f = list->first; f; f = f->next)
        if (fold_case ? strcasecmp(f->name, name) == 0 : strcmp(f->name, name) == 0)
            return slice_of(f->value);
    return (struct slice){NULL, 0};
}

enum http_method http_method(const struct http_exchange *x)
{
    return x->method;
}

struct slice http_body(const struct http_exchange *x)
{
    return str_slice(&x->body);
}

struct slice http_header(const struct http_exchange *x, const char *name)
{
    return field_find(&x->headers, name, true);
}

struct slice http_query(const struct http_exchange *x, const char *name)
{
    return field_find(&x->query, name, false);
}

struct slice http_param(const struct http_exchange *x, const char *name)
{
    return field_find(&x->params, name, false);
}

/* ---- the connection's side ------------------------------------------------------ */

void exchange_resume(struct http_exchange *x)
{
    x->dirty = false;
    if (x->connection)
        io_wake(x->connection);
}

void exchange_client_gone(struct http_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool tell = x->with_workers && !x->ended && !x->gone;
    x->gone = true;
    exchange_resume(x);
    for (struct http_exchange *inner = x->inners; inner; inner = inner->inner_next)
        crew_run(&x->server->crew, inner); /* they ask us whether the client is there */
    pthread_mutex_unlock(&x->lock);
    if (tell)
        crew_run(&x->server->crew, x);
}

void exchange_ping(struct http_exchange *x, uint64_t now_us)
{
    pthread_mutex_lock(&x->lock);
    if (x->streaming && !x->ended && !x->gone && x->ping_s > 0 &&
        now_us - x->last_write_us >= (uint64_t)x->ping_s * 1000000u) {
        str_append_text(&x->out, ":\n\n");
        x->last_write_us = now_us;
        exchange_resume(x);
    }
    pthread_mutex_unlock(&x->lock);
}

/* ---- answering -------------------------------------------------------------------- */

void http_answer_header(struct http_exchange *x, const char *name, const char *value)
{
    exchange_add_field(x, &x->answer_headers, slice_of(name), slice_of(value));
}

/* Settle status and type. False when that was done before: an answer is given
 * once. Under x->lock. */
static bool settle(struct http_exchange *x, int status, const char *content_type)
{
    if (x->answered || x->ended)
        return false;
    x->answered = true;
    x->status = status;
    snprintf(x->content_type, sizeof x->content_type, "%s", content_type ? content_type : "");
    x->dirty = true;
    return true;
}

void http_reply_str(struct http_exchange *x, int status, const char *content_type, struct str *body)
{
    /* What a handler made of too little memory is not shown, whatever it says. */
    bool lacks = body->failed || (x->handled && memory_failed());
    pthread_mutex_lock(&x->lock);
    if (settle(x, status, content_type)) {
        if (lacks) {
            if (x->file_fd >= 0)
                close(x->file_fd);
            x->file_fd = -1;
            str_free(body);
            x->status = 500;
            snprintf(x->content_type, sizeof x->content_type, "%s", HTTP_JSON);
            str_append_text(&x->out, NO_MEMORY);
        } else {
            str_free(&x->out);
            x->out = *body;
            x->n_answer = body->len;
            *body = (struct str){0};
        }
        x->ended = true;
    }
    pthread_mutex_unlock(&x->lock);
}

void http_reply(struct http_exchange *x, int status, const char *content_type, struct slice body)
{
    struct str copy = {0};
    if (body.len > 0)
        str_append_slice(&copy, body);
    http_reply_str(x, status, content_type, &copy);
    str_free(&copy);
}

void http_reply_error(struct http_exchange *x, int status, const char *type, const char *message)
{
    struct str body = {0};
    http_note_text(x, "error", slice_of(message));
    if (x->server && x->server->shape_error &&
        x->server->shape_error(x->route_path, status, message, &body)) {
        http_reply_str(x, status, HTTP_JSON, &body);
        str_free(&body);
        return;
    }
    json_t *text = json_string_from(slice_of(message));
    str_append_format(&body, "{\"error\":{\"code\":%d,\"message\":", status);
    if (!text || !json_append(&body, text))
        body.failed = true;
    str_append_format(&body, ",\"type\":\"%s\"}}", type);
    json_decref(text);
    http_reply_str(x, status, HTTP_JSON, &body);
    str_free(&body);
}

void http_stream_begin(struct http_exchange *x, int status, const char *content_type,
                       int32_t ping_s)
{
    pthread_mutex_lock(&x->lock);
    if (settle(x, status, content_type)) {
        x->streaming = true;
        x->ping_s = ping_s;
        x->last_write_us = clock_monotonic_us();
        exchange_add_field(x, &x->answer_headers, SLICE("X-Accel-Buffering"), SLICE("no"));
    }
    pthread_mutex_unlock(&x->lock);
}

/* Under x->lock: keep what nobody will read out of memory, and give up a reader
 * that is too far behind. */
static bool may_write(struct http_exchange *x)
{
    if (!x->streaming || x->ended || x->gone)
        return false;
    if (x->out.len - x->out_begin > HTTP_MAX_UNREAD || x->out.failed) {
        x->gone = true;
        x->dirty = true;
        crew_run(&x->server->crew, x); /* it may wait for nothing else */
        return false;
    }
    if (x->out_begin > HTTP_STREAM_BLOCK && x->out_begin * 2 > x->out.len) {
        str_drop_front(&x->out, x->out_begin);
        x->out_begin = 0;
    }
    x->last_write_us = clock_monotonic_us();
    x->dirty = true;
    return true;
}

/* Under x->lock: what found no memory must not look like the end of the stream. */
static void end_if_lost(struct http_exchange *x, size_t len_before)
{
    if (!x->out.failed)
        return;
    str_truncate(&x->out, len_before);
    x->ended = true;
    x->abandoned = true;
}

void http_write(struct http_exchange *x, struct slice bytes)
{
    pthread_mutex_lock(&x->lock);
    if (may_write(x)) {
        size_t before = x->out.len;
        str_append_slice(&x->out, bytes);
        end_if_lost(x, before);
    }
    pthread_mutex_unlock(&x->lock);
}

void http_write_event(struct http_exchange *x, const char *name, struct slice text)
{
    pthread_mutex_lock(&x->lock);
    if (may_write(x)) {
        size_t before = x->out.len;
        if (name)
            str_append_format(&x->out, "event: %s\n", name);
        str_append_text(&x->out, "data: ");
        str_append_slice(&x->out, text);
        str_append_text(&x->out, "\n\n");
        end_if_lost(x, before);
    }
    pthread_mutex_unlock(&x->lock);
}

void http_stream_end(struct http_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (x->streaming) {
        x->ended = true;
        x->dirty = true;
    }
    pthread_mutex_unlock(&x->lock);
}

bool http_client_gone(const struct http_exchange *x)
{
    struct http_exchange *mutable = (struct http_exchange *)x;
    pthread_mutex_lock(&mutable->lock);
    bool gone = x->gone;
    pthread_mutex_unlock(&mutable->lock);
    return gone || (x->outer && http_client_gone(x->outer));
}

void http_abandon(struct http_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->ended = true;
    x->abandoned = true;
    x->dirty = true;
    pthread_mutex_unlock(&x->lock);
}

bool http_is_stopping(const struct http_exchange *x)
{
    return atomic_load(&x->server->stopping);
}

bool http_is_unwanted(void *exchange)
{
    const struct http_exchange *x = exchange;
    return http_is_stopping(x) || http_client_gone(x);
}

/* ---- the handler's side --------------------------------------------------------------- */

void http_continue(struct http_exchange *x, http_step *step, void *state,
                   void (*release)(void *state))
{
    x->step = step;
    x->state = state;
    x->release = release;
}

void http_wake(void *arg)
{
    struct http_exchange *x = arg;
    crew_run(&x->server->crew, x);
}

static void leave_outer(struct http_exchange *x)
{
    pthread_mutex_lock(&x->outer->lock);
    struct http_exchange **at = &x->outer->inners;
    while (*at && *at != x)
        at = &(*at)->inner_next;
    if (*at)
        *at = x->inner_next;
    pthread_mutex_unlock(&x->outer->lock);
}

/* The handler's side is over: free its state, report an inner exchange. */
static void finish(struct http_exchange *x)
{
    void (*release)(void *) = x->release;
    x->release = NULL;
    x->step = NULL;
    if (release)
        release(x->state);
    if (x->done) {
        void (*done)(void *, int, bool, struct slice) = x->done;
        x->done = NULL;
        leave_outer(x);
        done(x->done_arg, x->abandoned ? 500 : x->status, x->streaming,
             x->streaming ? SLICE("") : str_slice(&x->out));
    }
    exchange_drop(x); /* the handler's reference */
}

void exchange_run(struct http_exchange *x)
{
    memory_forget_failure(); /* what an earlier request on this thread ran out of */
    if (!x->handled) {
        x->handled = true;
        x->route->handler(x, x->server->context);
    }
    pthread_mutex_lock(&x->lock);
    bool ended = x->ended;
    pthread_mutex_unlock(&x->lock);
    if (!ended && x->step) {
        x->step(x, x->state);
    } else if (!ended && !x->step) {
        http_reply_error(x, 500, "server_error", "the request was left without an answer");
    }
    pthread_mutex_lock(&x->lock);
    ended = x->ended;
    if (x->dirty)
        exchange_resume(x);
    pthread_mutex_unlock(&x->lock);
    if (ended && !x->finished) {
        x->finished = true;
        finish(x);
    }
}

/* ---- exchanges within an exchange --------------------------------------------------------- */

bool http_inner(struct http_exchange *outer, enum http_method method, const char *path,
                struct slice body,
                void (*done)(void *arg, int status, bool streamed, struct slice body), void *arg)
{
    struct http_server *server = outer->server;
    struct http_exchange *x = exchange_create(server);
    if (!x)
        return false;
    x->outer = outer;
    exchange_hold(outer);
    x->method = method;
    x->headers = outer->headers; /* in the outer's arena, which we hold */
    x->query = outer->query;
    x->path = x->route_path =
        (struct slice){arena_duplicate(&x->arena, slice_of(path)), strlen(path)};
    x->route = x->path.data ? route_find(server, x, method, x->path) : NULL;
    if (!x->route || !str_append_slice(&x->body, body)) {
        exchange_drop(x);
        return false;
    }
    x->done = done;
    x->done_arg = arg;
    x->with_workers = true;
    pthread_mutex_lock(&outer->lock);
    x->inner_next = outer->inners;
    outer->inners = x;
    pthread_mutex_unlock(&outer->lock);
    /* exchange_create's reference is the handler's; there is no connection. */
    crew_run(&server->crew, x);
    return true;
}
