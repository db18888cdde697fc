/* result_anthropic.c - the answers of /v1/messages. */
#include "api/internal.h"

static const char *stop_reason(struct result *r)
{
    if (!finished_by_itself(r->event))
        return "max_tokens";
    return chat_stream_message(r->stream)->n_tool_calls > 0 ? "tool_use" : "end_turn";
}

static json_t *stop_sequence(const struct engine_event *e)
{
    return e->stopping_word.len > 0 ? json_string_from(e->stopping_word) : json_null();
}

static json_t *usage(const struct engine_event *e, int32_t n_output)
{
    int n_cached = e->timings.n_prompt_cached;
    return json_pack("{s:i,s:i,s:i}", "cache_read_input_tokens", n_cached, "input_tokens",
                     (int)e->n_prompt - n_cached, "output_tokens", (int)n_output);
}

static json_t *tool_use(const struct str *id, const struct str *name)
{
    json_t *o = json_object();
    put(o, "type", json_string("tool_use"));
    put(o, "id", json_string_from(str_slice(id)));
    put(o, "name", json_string_from(str_slice(name)));
    return o;
}

static json_t *text_block(const char *type, const char *key, struct slice text)
{
    json_t *o = json_object();
    put(o, "type", json_string(type));
    put(o, key, json_string_from(text));
    return o;
}

json_t *anthropic_whole(struct result *r)
{
    const struct chat_message *message = chat_stream_message(r->stream);
    json_t *content = json_array();
    if (message->reasoning_content.len > 0) {
        json_t *thinking =
            text_block("thinking", "thinking", str_slice(&message->reasoning_content));
        put(thinking, "signature", json_string(""));
        push(content, thinking);
    }
    struct slice text = answer_content(r);
    if (text.len > 0)
        push(content, text_block("text", "text", text));
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const struct chat_tool_call *call = &message->tool_calls[i];
        json_t *block = tool_use(&call->id, &call->name);
        json_t *input = json_parse(str_slice(&call->arguments), NULL);
        put(block, "input", input ? input : json_object());
        push(content, block);
    }
    json_t *o = json_object();
    put(o, "id", json_string(r->completion_id));
    put(o, "type", json_string("message"));
    put(o, "role", json_string("assistant"));
    put(o, "content", content);
    put(o, "model", json_string_from(slice_of(r->api->model_name)));
    put(o, "stop_reason", json_string(stop_reason(r)));
    put(o, "stop_sequence", stop_sequence(r->event));
    put(o, "usage", usage(r->event, r->event->timings.n_generated));
    return o;
}

static bool emit_start(json_t *events, size_t index, json_t *block)
{
    return event_push_typed(events, "content_block_start",
                            json_pack("{s:i,s:o}", "index", (int)index, "content_block", block));
}

static bool emit_delta(json_t *events, size_t index, const char *type, const char *key,
                       struct slice text)
{
    return event_push_typed(
        events, "content_block_delta",
        json_pack("{s:i,s:o}", "index", (int)index, "delta", text_block(type, key, text)));
}

static bool emit_stop(json_t *events, size_t index)
{
    return event_push_typed(events, "content_block_stop", json_pack("{s:i}", "index", (int)index));
}

static bool emit_message_start(struct result *r, json_t *events)
{
    json_t *message = json_object();
    put(message, "id", json_string(r->completion_id));
    put(message, "type", json_string("message"));
    put(message, "role", json_string("assistant"));
    put(message, "content", json_array());
    put(message, "model", json_string_from(slice_of(r->api->model_name)));
    put(message, "stop_reason", json_null());
    put(message, "stop_sequence", json_null());
    put(message, "usage", usage(r->event, 0));
    return event_push_typed(events, "message_start", json_pack("{s:o}", "message", message));
}

/* Blocks stand in the order thinking, text, tools. */
static bool emit_block_delta(struct result *r, const struct chat_delta *delta, json_t *events)
{
    size_t has_thinking = chat_stream_message(r->stream)->reasoning_content.len > 0;
    bool ok = true;
    if (delta->kind == CHAT_DELTA_REASONING) {
        if (!r->thinking_started)
            ok = emit_start(events, 0, text_block("thinking", "thinking", SLICE("")));
        r->thinking_started = true;
        return ok && emit_delta(events, 0, "thinking_delta", "thinking", str_slice(&delta->text));
    }
    if (delta->kind == CHAT_DELTA_CONTENT) {
        if (!r->text_started)
            ok = emit_start(events, has_thinking, text_block("text", "text", SLICE("")));
        r->text_started = true;
        return ok &&
               emit_delta(events, has_thinking, "text_delta", "text", str_slice(&delta->text));
    }
    size_t index = has_thinking + (r->text_started ? 1 : 0) + delta->tool_index;
    if (delta->name.len > 0)
        ok = emit_start(events, index, tool_use(&delta->id, &delta->name));
    if (delta->text.len > 0)
        ok = ok &&
             emit_delta(events, index, "input_json_delta", "partial_json", str_slice(&delta->text));
    return ok;
}

static bool emit_deltas(struct result *r, json_t *events)
{
    bool ok = true;
    for (size_t i = 0; i < r->deltas.n && ok; i++)
        ok = emit_block_delta(r, &r->deltas.data[i], events);
    return ok;
}

bool anthropic_partial(struct result *r, json_t *events)
{
    bool ok = true;
    if (!r->created && r->event->timings.n_generated > 0) {
        r->created = true;
        ok = emit_message_start(r, events);
    }
    return ok && emit_deltas(r, events);
}

bool anthropic_final(struct result *r, json_t *events)
{
    const struct chat_message *message = chat_stream_message(r->stream);
    size_t has_thinking = message->reasoning_content.len > 0;
    size_t index = 0;
    bool ok = r->created || emit_message_start(r, events);
    r->created = true;
    ok = ok && emit_deltas(r, events);
    if (has_thinking)
        ok = ok && emit_delta(events, index, "signature_delta", "signature", SLICE("")) &&
             emit_stop(events, index);
    index += has_thinking;
    if (message->content.len > 0)
        ok = ok && emit_stop(events, index++);
    for (size_t i = 0; i < message->n_tool_calls && ok; i++)
        ok = emit_stop(events, index++);
    json_t *delta = json_object();
    put(delta, "stop_reason", json_string(stop_reason(r)));
    put(delta, "stop_sequence", stop_sequence(r->event));
    return ok &&
           event_push_typed(events, "message_delta",
                            json_pack("{s:o,s:{s:i}}", "delta", delta, "usage", "output_tokens",
                                      (int)r->event->timings.n_generated)) &&
           event_push_typed(events, "message_stop", json_object());
}

/* ---- errors ---- */

/* By status, as the API's public description has them. */
static const char *error_type(int status)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {
        {400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"},
        {404, "not_found_error"},       {413, "request_too_large"},    {429, "rate_limit_error"},
        {501, "invalid_request_error"}, {503, "overloaded_error"},     {529, "overloaded_error"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == status)
            return types[i].type;
    return status >= 400 && status < 500 ? "invalid_request_error" : "api_error";
}

json_t *anthropic_error(json_t *error)
{
    char id[48];
    int status = (int)json_integer_value(json_object_get(error, "code"));
    random_id("req_", id, sizeof id);
    json_object_del(error, "code");
    json_object_set_new(error, "type", json_string(error_type(status)));
    return json_pack("{s:s,s:o,s:s}", "type", "error", "error", error, "request_id", id);
}

bool shape_error(struct slice path, int status, const char *message, struct str *body)
{
    if (!slice_equal_text(path, "/v1/messages") && !slice_starts_with(path, SLICE("/v1/messages/")))
        return false;
    json_t *text = json_string_from(slice_of(message));
    json_t *error = anthropic_error(
        json_pack("{s:i,s:o}", "code", status, "message", text ? text : json_null()));
    size_t begin = body->len;
    bool ok = error && json_append(body, error);
    json_decref(error);
    if (!ok)
        str_truncate(body, begin);
    return ok;
}
