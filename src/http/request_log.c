/* request_log.c - a line in the log for each request, when its exchange is over. What the
 * request was about is added by handlers (http_note); no text of prompts or answers. */
#include "http/internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#include <stdio.h>

static bool add_note(struct http_exchange *x, const char *name, struct slice value, bool is_text)
{
    struct note *note = arena_alloc(&x->arena, sizeof *note);
    const char *copy = note ? arena_duplicate(&x->arena, value) : NULL;
    if (!copy) /* a line that says less */
        return false;
    *note = (struct note){name, {copy, value.len}, is_text, NULL};
    struct note **end = &x->notes;
    while (*end)
        end = &(*end)->next;
    *end = note;
    return true;
}

void http_note_text(struct http_exchange *x, const char *name, struct slice value)
{
    add_note(x, name, value, true);
}

void http_note_number(struct http_exchange *x, const char *name, double value)
{
    char text[40];
    snprintf(text, sizeof text, value == (double)(int64_t)value ? "%.0f" : "%.1f", value);
    add_note(x, name, slice_of(text), false);
}

/* Probes of the machine's watchers say nothing at the usual level. */
static enum log_level level_of(const struct http_exchange *x)
{
    bool loading = x->status == 503 && !atomic_load(&x->server->ready);
    bool probe = x->method == HTTP_GET && (x->status == 200 || loading) &&
                 (slice_equal_text(x->route_path, "/health") ||
                  slice_equal_text(x->route_path, "/v1/health") ||
                  slice_equal_text(x->route_path, "/metrics"));
    return probe ? LOG_DEBUG : x->status >= 500 && !loading ? LOG_WARN : LOG_INFO;
}

static void append_json_member(struct str *out, const char *name, struct slice value, bool is_text)
{
    str_append_format(out, ",\"%s\":", name);
    json_t *text = is_text ? json_string_from(value) : NULL;
    if (text)
        json_append(out, text);
    else
        str_append_slice(out, is_text ? SLICE("null") : value);
    json_decref(text);
}

static void append_text_member(struct str *out, const char *name, struct slice value)
{
    bool quote = value.len == 0 || memchr(value.data, ' ', value.len) != NULL;
    str_append_format(out, quote ? " %s=\"%.*s\"" : " %s=%.*s", name, (int)value.len, value.data);
}

void request_log(const struct http_exchange *x)
{
    enum { PATH_SHOWN = 200 };
    enum log_level level = level_of(x);
    if (x->outer || !x->t_begin_us || !log_enabled(level))
        return;
    double ms = (double)(clock_monotonic_us() - x->t_begin_us) / 1000;
    struct slice path = x->path;
    if (path.len > PATH_SHOWN)
        path.len = PATH_SHOWN;
    const char *ending = x->gone && !x->delivered ? "client-left" : x->abandoned ? "cut-off" : NULL;
    struct str text = {0}, members = {0};
    char number[32];
    snprintf(number, sizeof number, x->status ? "%d" : "-", x->status);
    str_append_format(&text, "%s %.*s %s %.1f ms client=%s", x->method_text, (int)path.len,
                      path.data, number, ms, x->client);
    append_json_member(&members, "method", slice_of(x->method_text), true);
    append_json_member(&members, "path", path, true);
    snprintf(number, sizeof number, x->status ? "%d" : "null", x->status);
    append_json_member(&members, "status", slice_of(number), false);
    snprintf(number, sizeof number, "%.1f", ms);
    append_json_member(&members, "ms", slice_of(number), false);
    append_json_member(&members, "client", slice_of(x->client), true);
    if (ending) {
        append_text_member(&text, "ended", slice_of(ending));
        append_json_member(&members, "ended", slice_of(ending), true);
    }
    for (const struct note *note = x->notes; note; note = note->next) {
        append_text_member(&text, note->name, note->value);
        append_json_member(&members, note->name, note->value, note->is_text);
    }
    if (!text.failed && !members.failed)
        log_event(level, "request", str_text(&text), str_text(&members));
    str_free(&text);
    str_free(&members);
}
