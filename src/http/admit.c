/* admit.c - what a request's head alone decides: its route, or a refusal. */
#include "http/internal.h"

#include "base/clock.h"

#include <stdio.h>

static enum http_method method_of(struct slice name, bool *is_head)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {{"GET", HTTP_GET},
                   {"HEAD", HTTP_GET},
                   {"POST", HTTP_POST},
                   {"DELETE", HTTP_DELETE},
                   {"OPTIONS", HTTP_OPTIONS}};
    *is_head = slice_equal_text(name, "HEAD");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (slice_equal_text(name, methods[i].name))
            return methods[i].method;
    return HTTP_OTHER;
}

/* In the order a client sees: preflight, not ready, key, files, routes. */
static void judge(struct http_exchange *x)
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
    if (!route)
        http_reply_error(x, 404, "not_found_error", "File Not Found");
    x->route = route;
}

static bool copy_head(struct http_exchange *x, const struct head *head)
{
    size_t at = 0;
    struct slice name, value;
    while (head_next_field(head, &at, &name, &value))
        if (!exchange_add_field(x, &x->headers, name, value))
            return false;
    const char *target = arena_duplicate(&x->arena, head_target(head));
    return target && target_parse(x, slice_of(target));
}

void admit_head(struct http_exchange *x, const struct head *head)
{
    x->method = method_of(head_method(head), &x->is_head);
    x->t_begin_us = clock_monotonic_us();
    x->method_text = arena_duplicate(&x->arena, head_method(head));
    if (!x->method_text)
        x->method_text = "?";
    if (!copy_head(x, head)) {
        http_reply_error(x, 500, "server_error", "out of memory");
        return;
    }
    judge(x);
    if (x->route && head->has_length && head->length > x->server->max_body)
        admit_refuse_size(x);
}

void admit_refuse_size(struct http_exchange *x)
{
    char message[128];
    snprintf(message, sizeof message, "the request's body is larger than the limit of %zu bytes",
             x->server->max_body);
    x->route = NULL;
    http_reply_error(x, 413, "invalid_request_error", message);
}
