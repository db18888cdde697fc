/* result_responses.c - the answers of /v1/responses. */
#include "api/internal.h"

#include "base/clock.h"

#include <stdio.h>

static json_t *usage(const struct engine_event *e)
{
    return json_pack("{s:i,s:i,s:i,s:{s:i}}", "input_tokens", (int)e->n_prompt, "output_tokens",
                     (int)e->timings.n_generated, "total_tokens",
                     (int)(e->n_prompt + e->timings.n_generated), "input_tokens_details",
                     "cached_tokens", (int)e->timings.n_prompt_cached);
}

static json_t *prefixed(const char *prefix, const struct str *id)
{
    struct str text = {0};
    str_append_text(&text, prefix);
    str_append_slice(&text, str_slice(id));
    json_t *value = json_string_from(str_slice(&text));
    str_free(&text);
    return value;
}

static json_t *reasoning_item(const char *id, const struct str *text, const char *status)
{
    json_t *content = json_array();
    if (text)
        push(content, json_pack("{s:o,s:s}", "text", json_string_from(str_slice(text)), "type",
                                "reasoning_text"));
    json_t *o = json_object();
    put(o, "id", json_string(id));
    put(o, "summary", json_array());
    put(o, "type", json_string("reasoning"));
    put(o, "content", content);
    put(o, "encrypted_content", json_string(""));
    if (status)
        put(o, "status", json_string(status));
    return o;
}

static json_t *text_part(struct slice text)
{
    json_t *o = json_object();
    put(o, "type", json_string("output_text"));
    put(o, "annotations", json_array());
    put(o, "logprobs", json_array());
    put(o, "text", json_string_from(text));
    return o;
}

static json_t *message_item(const char *id, json_t *content, const char *status)
{
    json_t *o = json_object();
    put(o, "type", json_string("message"));
    put(o, "status", json_string(status));
    put(o, "id", json_string(id));
    put(o, "content", content);
    put(o, "role", json_string("assistant"));
    return o;
}

static json_t *call_item(const struct str *id, const struct str *name, const struct str *arguments,
                         const char *status)
{
    json_t *o = json_object();
    put(o, "id", prefixed("fc_", id));
    put(o, "type", json_string("function_call"));
    put(o, "status", json_string(status));
    put(o, "arguments", json_string_from(arguments ? str_slice(arguments) : SLICE("")));
    put(o, "call_id", prefixed("call_", id));
    put(o, "name", json_string_from(str_slice(name)));
    return o;
}

static json_t *list_of(json_t *value)
{
    json_t *list = json_array();
    push(list, value);
    return list;
}

json_t *responses_whole(struct result *r)
{
    const struct chat_message *message = chat_stream_message(r->stream);
    json_t *output = json_array();
    if (message->reasoning_content.len > 0)
        push(output, reasoning_item(r->reasoning_id, &message->reasoning_content, "completed"));
    struct slice text = answer_content(r);
    if (text.len > 0)
        push(output, message_item(r->message_id, list_of(text_part(text)), "completed"));
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const struct chat_tool_call *call = &message->tool_calls[i];
        push(output, call_item(&call->id, &call->name, &call->arguments, "completed"));
    }
    json_t *o = json_object();
    put(o, "completed_at", json_integer(clock_unix_seconds()));
    put(o, "created_at", json_integer(clock_unix_seconds()));
    put(o, "id", json_string(r->response_id));
    put(o, "model", json_string_from(slice_of(r->api->model_name)));
    put(o, "object", json_string("response"));
    put(o, "output", output);
    put(o, "status", json_string("completed"));
    put(o, "usage", usage(r->event));
    return o;
}

static bool emit_state(struct result *r, json_t *events, const char *name)
{
    return event_push_typed(events, name,
                            json_pack("{s:{s:s,s:s,s:s}}", "response", "id", r->response_id,
                                      "object", "response", "status", "in_progress"));
}

static bool emit_delta(json_t *events, const char *name, json_t *item_id, const struct str *text)
{
    return event_push_typed(
        events, name,
        json_pack("{s:o,s:o}", "item_id", item_id, "delta", json_string_from(str_slice(text))));
}

static bool reasoning_delta(struct result *r, const struct chat_delta *delta, json_t *events)
{
    bool ok = true;
    if (!r->thinking_started)
        ok = event_push_typed(
            events, "response.output_item.added",
            json_pack("{s:o}", "item", reasoning_item(r->reasoning_id, NULL, "in_progress")));
    r->thinking_started = true;
    return ok && emit_delta(events, "response.reasoning_text.delta", json_string(r->reasoning_id),
                            &delta->text);
}

static bool content_delta(struct result *r, const struct chat_delta *delta, json_t *events)
{
    bool ok = true;
    if (!r->text_started)
        ok =
            event_push_typed(events, "response.output_item.added",
                             json_pack("{s:o}", "item",
                                       message_item(r->message_id, json_array(), "in_progress"))) &&
            event_push_typed(events, "response.content_part.added",
                             json_pack("{s:s,s:{s:s,s:s}}", "item_id", r->message_id, "part",
                                       "type", "output_text", "text", ""));
    r->text_started = true;
    return ok && emit_delta(events, "response.output_text.delta", json_string(r->message_id),
                            &delta->text);
}

static bool call_delta(struct result *r, const struct chat_delta *delta, json_t *events)
{
    bool ok = true;
    if (delta->name.len > 0) {
        ok = event_push_typed(
            events, "response.output_item.added",
            json_pack("{s:o}", "item", call_item(&delta->id, &delta->name, NULL, "in_progress")));
        str_clear(&r->call_id);
        str_append_slice(&r->call_id, str_slice(&delta->id));
    }
    if (delta->text.len > 0)
        ok = ok && emit_delta(events, "response.function_call_arguments.delta",
                              prefixed("fc_", &r->call_id), &delta->text);
    return ok;
}

static bool emit_deltas(struct result *r, json_t *events)
{
    bool ok = true;
    for (size_t i = 0; i < r->deltas.n && ok; i++) {
        const struct chat_delta *delta = &r->deltas.data[i];
        if (delta->kind == CHAT_DELTA_REASONING)
            ok = reasoning_delta(r, delta, events);
        else if (delta->kind == CHAT_DELTA_CONTENT)
            ok = content_delta(r, delta, events);
        else
            ok = call_delta(r, delta, events);
    }
    return ok;
}

bool responses_partial(struct result *r, json_t *events)
{
    size_t n_before = json_array_size(events);
    bool ok = true;
    if (!r->created)
        ok = emit_state(r, events, "response.created") &&
             emit_state(r, events, "response.in_progress");
    else if (r->event->kind == ENGINE_EVENT_PROGRESS)
        ok = emit_state(r, events, "response.in_progress");
    r->created = true;
    ok = ok && emit_deltas(r, events);
    size_t n = json_array_size(events);
    if (n > n_before)
        put_extras(r, json_object_get(json_array_get(events, n - 1), "data"));
    return ok;
}

static bool finish_item(json_t *events, json_t *output, json_t *item)
{
    json_array_append(output, item);
    return event_push_typed(events, "response.output_item.done", json_pack("{s:o}", "item", item));
}

static bool finish_text(struct result *r, const struct chat_message *message, json_t *events,
                        json_t *output)
{
    json_t *part = text_part(str_slice(&message->content));
    bool ok = event_push_typed(events, "response.output_text.done",
                               json_pack("{s:s,s:o}", "item_id", r->message_id, "text",
                                         json_string_from(str_slice(&message->content)))) &&
              event_push_typed(events, "response.content_part.done",
                               json_pack("{s:s,s:O}", "item_id", r->message_id, "part", part)) &&
              finish_item(events, output,
                          message_item(r->message_id, list_of(json_incref(part)), "completed"));
    json_decref(part);
    return ok;
}

bool responses_final(struct result *r, json_t *events)
{
    const struct chat_message *message = chat_stream_message(r->stream);
    json_t *output = json_array();
    /* What the end let go of (a stop string's beginning, mostly nothing). */
    bool ok = emit_deltas(r, events);
    if (message->reasoning_content.len > 0)
        ok = ok && finish_item(events, output,
                               reasoning_item(r->reasoning_id, &message->reasoning_content, NULL));
    if (message->content.len > 0)
        ok = ok && finish_text(r, message, events, output);
    for (size_t i = 0; i < message->n_tool_calls && ok; i++) {
        const struct chat_tool_call *call = &message->tool_calls[i];
        ok = finish_item(events, output,
                         call_item(&call->id, &call->name, &call->arguments, "completed"));
    }
    json_t *response = json_object();
    put(response, "id", json_string(r->response_id));
    put(response, "object", json_string("response"));
    put(response, "created_at", json_integer(clock_unix_seconds()));
    put(response, "status", json_string("completed"));
    put(response, "model", json_string_from(slice_of(r->api->model_name)));
    put(response, "output", output);
    put(response, "usage", usage(r->event));
    json_t *data = json_pack("{s:o,s:o}", "response", response, "timings",
                             timings_to_json(&r->event->timings));
    if (!ok) {
        json_decref(data);
        return false;
    }
    return event_push_typed(events, "response.completed", data);
}

/* The API knows few codes; the rest are "server_error". */
bool responses_failed(struct result *r, json_t *error, json_t *events)
{
    int status = (int)json_integer_value(json_object_get(error, "code"));
    json_t *message = json_incref(json_object_get(error, "message"));
    const char *type = json_string_value(json_object_get(error, "type"));
    bool too_long = type && strcmp(type, "exceed_context_size_error") == 0;
    json_t *reason = json_pack("{s:s,s:o}", "code",
                               too_long                        ? "context_length_exceeded"
                               : status >= 400 && status < 500 ? "invalid_prompt"
                                                               : "server_error",
                               "message", message ? message : json_null());
    json_t *response = json_object();
    put(response, "id", json_string(r->response_id));
    put(response, "object", json_string("response"));
    put(response, "created_at", json_integer(clock_unix_seconds()));
    put(response, "status", json_string("failed"));
    put(response, "error", reason);
    put(response, "model", json_string_from(slice_of(r->api->model_name)));
    put(response, "output", json_array());
    json_decref(error);
    return event_push_typed(events, "response.failed", json_pack("{s:o}", "response", response));
}
