/* result_openai.c - the answers of /v1/completions and /v1/chat/completions. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/version.h"

static json_t *usage(const struct engine_event *e)
{
    return json_pack("{s:i,s:i,s:i,s:{s:i}}", "completion_tokens", (int)e->timings.n_generated,
                     "prompt_tokens", (int)e->n_prompt, "total_tokens",
                     (int)(e->n_prompt + e->timings.n_generated), "prompt_tokens_details",
                     "cached_tokens", (int)e->timings.n_prompt_cached);
}

static json_t *logprobs(struct result *r)
{
    return json_pack("{s:o}", "content", probs_to_json(r));
}

/* The members around "choices". */
static json_t *frame(struct result *r, const char *object, json_t *choices)
{
    json_t *o = json_object();
    put(o, "choices", choices);
    put(o, "created", json_integer(clock_unix_seconds()));
    put(o, "model", json_string_from(slice_of(r->api->model_name)));
    put(o, "system_fingerprint", json_string(SYSTEM_FINGERPRINT));
    put(o, "object", json_string(object));
    put(o, "id", json_string(r->completion_id));
    return o;
}

static json_t *one_of(json_t *value)
{
    json_t *list = json_array();
    push(list, value);
    return list;
}

/* ---- completions ----------------------------------------------------------------- */

static json_t *text_choice(struct result *r, bool with_probs, const char *finish)
{
    json_t *choice = json_object();
    put(choice, "text", json_string_from(r->event->text));
    put(choice, "index", json_integer(r->index));
    put(choice, "logprobs", with_probs ? logprobs(r) : json_null());
    put(choice, "finish_reason", finish ? json_string(finish) : json_null());
    return choice;
}

static json_t *completions_last(struct result *r)
{
    const struct engine_event *e = r->event;
    json_t *choice = text_choice(r, !r->g->stream && event_has_probs(r),
                                 finished_by_itself(e) ? "stop" : "length");
    json_t *o = frame(r, "text_completion", one_of(choice));
    put(o, "usage", usage(e));
    if (r->g->verbose)
        put(o, "__verbose", native_whole(r));
    put(o, "timings", timings_to_json(&e->timings));
    return o;
}

json_t *completions_whole(struct result *r)
{
    return completions_last(r);
}

bool completions_final(struct result *r, json_t *events)
{
    return event_push(events, NULL, completions_last(r));
}

bool completions_partial(struct result *r, json_t *events)
{
    json_t *o = frame(r, "text_completion", one_of(text_choice(r, event_has_probs(r), NULL)));
    if (r->g->verbose)
        put(o, "__verbose", native_part(r));
    put_extras(r, o);
    return event_push(events, NULL, o);
}

/* ---- chat ----------------------------------------------------------------------------- */

static json_t *tool_calls(const struct chat_message *message)
{
    json_t *list = json_array();
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const struct chat_tool_call *call = &message->tool_calls[i];
        json_t *function = json_object();
        put(function, "name", json_string_from(str_slice(&call->name)));
        put(function, "arguments", json_string_from(str_slice(&call->arguments)));
        json_t *entry = json_object();
        put(entry, "type", json_string("function"));
        put(entry, "function", function);
        if (call->id.len > 0)
            put(entry, "id", json_string_from(str_slice(&call->id)));
        push(list, entry);
    }
    return list;
}

struct slice answer_content(const struct result *r)
{
    const struct chat_message *message = chat_stream_message(r->stream);
    bool empty = message->content.len == 0 && message->reasoning_content.len == 0 &&
                 message->n_tool_calls == 0;
    return empty ? r->event->text : str_slice(&message->content);
}

static json_t *message_to_json(const struct result *r)
{
    const struct chat_message *message = chat_stream_message(r->stream);
    json_t *o = json_object();
    put(o, "role", json_string("assistant"));
    put(o, "content", json_string_from(answer_content(r)));
    if (message->reasoning_content.len > 0)
        put(o, "reasoning_content", json_string_from(str_slice(&message->reasoning_content)));
    if (message->n_tool_calls > 0)
        put(o, "tool_calls", tool_calls(message));
    return o;
}

static const char *chat_finish(struct result *r)
{
    if (!finished_by_itself(r->event))
        return "length";
    return chat_stream_message(r->stream)->n_tool_calls > 0 ? "tool_calls" : "stop";
}

json_t *chat_whole(struct result *r)
{
    json_t *choice = json_object();
    put(choice, "finish_reason", json_string(chat_finish(r)));
    put(choice, "index", json_integer(r->index));
    put(choice, "message", message_to_json(r));
    if (event_has_probs(r))
        put(choice, "logprobs", logprobs(r));
    json_t *o = frame(r, "chat.completion", one_of(choice));
    put(o, "usage", usage(r->event));
    if (r->g->verbose)
        put(o, "__verbose", native_whole(r));
    put(o, "timings", timings_to_json(&r->event->timings));
    return o;
}

static json_t *delta_to_json(const struct chat_delta *delta)
{
    json_t *o = json_object();
    if (delta->kind == CHAT_DELTA_REASONING) {
        put(o, "reasoning_content", json_string_from(str_slice(&delta->text)));
    } else if (delta->kind == CHAT_DELTA_CONTENT) {
        put(o, "content", json_string_from(str_slice(&delta->text)));
    } else {
        json_t *call = json_object(), *function = json_object();
        put(call, "index", json_integer((json_int_t)delta->tool_index));
        if (delta->id.len > 0) {
            put(call, "id", json_string_from(str_slice(&delta->id)));
            put(call, "type", json_string("function"));
        }
        if (delta->name.len > 0)
            put(function, "name", json_string_from(str_slice(&delta->name)));
        if (delta->text.len > 0)
            put(function, "arguments", json_string_from(str_slice(&delta->text)));
        if (json_object_size(function) > 0)
            put(call, "function", function);
        else
            json_decref(function);
        put(o, "tool_calls", one_of(call));
    }
    return o;
}

static json_t *chunk(struct result *r, json_t *delta, const char *finish)
{
    json_t *choice = json_object();
    put(choice, "finish_reason", finish ? json_string(finish) : json_null());
    put(choice, "index", json_integer(r->index));
    put(choice, "delta", delta);
    return frame(r, "chat.completion.chunk", one_of(choice));
}

static json_t *last_data(json_t *events, size_t n_before)
{
    size_t n = json_array_size(events);
    return n > n_before ? json_object_get(json_array_get(events, n - 1), "data") : NULL;
}

bool chat_partial(struct result *r, json_t *events)
{
    size_t n_before = json_array_size(events);
    bool is_progress = r->event->kind == ENGINE_EVENT_PROGRESS;
    bool ok = true;
    if (is_progress || r->event->timings.n_generated == 1)
        ok = event_push(events, NULL,
                        chunk(r, json_pack("{s:s,s:n}", "role", "assistant", "content"), NULL));
    for (size_t i = 0; i < r->deltas.n && ok; i++)
        ok = event_push(events, NULL, chunk(r, delta_to_json(&r->deltas.data[i]), NULL));
    json_t *last = last_data(events, n_before);
    if (!last)
        return ok;
    if (event_has_probs(r))
        put(json_array_get(json_object_get(last, "choices"), 0), "logprobs", logprobs(r));
    return ok && put_extras(r, last);
}

bool chat_final(struct result *r, json_t *events)
{
    size_t n_before = json_array_size(events);
    bool ok = true;
    for (size_t i = 0; i < r->deltas.n && ok; i++)
        ok = event_push(events, NULL, chunk(r, delta_to_json(&r->deltas.data[i]), NULL));
    ok = ok && event_push(events, NULL, chunk(r, json_object(), chat_finish(r)));
    if (ok && r->g->include_usage) {
        json_t *o = frame(r, "chat.completion.chunk", json_array());
        put(o, "usage", usage(r->event));
        ok = event_push(events, NULL, o);
    }
    json_t *last = last_data(events, n_before);
    if (!ok || !last)
        return false;
    if (r->g->verbose)
        put(json_object_get(json_array_get(events, n_before), "data"), "__verbose",
            native_whole(r));
    return put(last, "timings", timings_to_json(&r->event->timings));
}
