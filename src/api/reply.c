/* reply.c - answers and error envelopes. */
#include "api/internal.h"

#include <stdlib.h>

static const struct {
    int status;
    const char *type;
} failures[] = {
    [FAIL_INVALID] = {400, "invalid_request_error"},
    [FAIL_NOT_FOUND] = {404, "not_found_error"},
    [FAIL_SERVER] = {500, "server_error"},
    [FAIL_NOT_SUPPORTED] = {501, "not_supported_error"},
    [FAIL_UNAVAILABLE] = {503, "unavailable_error"},
};

void reply_failure(struct http_exchange *x, enum failure failure, const char *message)
{
    http_reply_error(x, failures[failure].status, failures[failure].type, message);
}

enum failure failure_of(enum error_code code)
{
    switch (code) {
    case ERR_FORMAT:
    case ERR_INVALID:
    case ERR_LIMIT:
        return FAIL_INVALID;
    case ERR_NOT_FOUND:
        return FAIL_NOT_FOUND;
    case ERR_UNSUPPORTED:
        return FAIL_NOT_SUPPORTED;
    case ERR_CANCELLED:
    case ERR_STATE:
        return FAIL_UNAVAILABLE;
    default:
        return FAIL_SERVER;
    }
}

void reply_error(struct http_exchange *x, const struct error *err)
{
    if (err->code == ERR_CANCELLED)
        request_end_unwanted(x);
    else
        reply_failure(x, failure_of(err->code), err->message);
}

json_t *failure_to_json(enum failure failure, const char *message)
{
    json_t *text = json_string_from(slice_of(message));
    return json_pack("{s:i,s:o,s:s}", "code", failures[failure].status, "message",
                     text ? text : json_null(), "type", failures[failure].type);
}

json_t *error_to_json(const struct error *err)
{
    return failure_to_json(failure_of(err->code), err->message);
}

json_t *size_error_to_json(const struct error *err, size_t n_prompt, int32_t n_ctx)
{
    json_t *o = error_to_json(err);
    if (err->code == ERR_LIMIT && n_ctx > 0) {
        put(o, "type", json_string("exceed_context_size_error"));
        put(o, "n_prompt_tokens", json_integer((json_int_t)n_prompt));
        put(o, "n_ctx", json_integer(n_ctx));
    }
    return o;
}

json_t *event_error_to_json(const struct engine_event *event)
{
    return size_error_to_json(&event->error, (size_t)event->n_prompt, event->n_ctx);
}

void reply_error_json(struct http_exchange *x, json_t *error, enum surface surface)
{
    int status = (int)json_integer_value(json_object_get(error, "code"));
    struct str text = {0};
    http_note_text(x, "error", json_slice(json_object_get(error, "message")));
    json_t *envelope =
        surface == SURFACE_ANTHROPIC ? anthropic_error(error) : json_pack("{s:o}", "error", error);
    json_append(&text, envelope);
    json_decref(envelope);
    http_reply_str(x, status ? status : 500, HTTP_JSON, &text);
    str_free(&text);
}

void reply_json(struct http_exchange *x, json_t *value)
{
    struct str text = {0};
    json_append(&text, value);
    json_decref(value);
    http_reply_str(x, 200, HTTP_JSON, &text);
    str_free(&text);
}
