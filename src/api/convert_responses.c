/* convert_responses.c - a /v1/responses body as an OpenAI chat body. */
#include "api/internal.h"

static bool invalid(struct error *err, const char *message)
{
    return error_set(err, ERR_INVALID, "%s", message);
}

static bool is_text(const json_t *item, const char *key, const char *value)
{
    const json_t *member_value = json_object_get(item, key);
    return json_is_string(member_value) &&
           (!value || strcmp(json_string_value(member_value), value) == 0);
}

static bool is_list(const json_t *item, const char *key)
{
    return json_is_array(json_object_get(item, key));
}

/* The last message, if it is the assistant's: what follows belongs to it. */
static json_t *open_turn(json_t *messages)
{
    size_t n = json_array_size(messages);
    json_t *last = n ? json_array_get(messages, n - 1) : NULL;
    return is_text(last, "role", "assistant") ? last : NULL;
}

static json_t *text_part(json_t *text)
{
    return json_pack("{s:O,s:s}", "text", text, "type", "text");
}

/* ---- items -------------------------------------------------------------------------- */

static bool add_input_part(json_t *content, const json_t *part, struct error *err)
{
    json_t *text = json_object_get(part, "text"), *url = json_object_get(part, "image_url");
    if (is_text(part, "type", "input_text"))
        return text ? push(content, text_part(text)) : invalid(err, "'Input text' requires 'text'");
    if (is_text(part, "type", "input_image"))
        return url ? push(content,
                          json_pack("{s:{s:O},s:s}", "image_url", "url", url, "type", "image_url"))
                   : invalid(err, "'image_url' is required");
    if (is_text(part, "type", "input_file"))
        return invalid(err, "'input_file' is not supported by llamacpp at this moment");
    return invalid(err, "'type' must be one of 'input_text', 'input_image', or 'input_file'");
}

/* A message of the user, the system or the developer. */
static bool add_input_message(json_t *messages, const json_t *item, struct error *err)
{
    json_t *content = json_array(), *part;
    size_t i;
    json_array_foreach(json_object_get(item, "content"), i, part)
    {
        if (!add_input_part(content, part, err)) {
            json_decref(content);
            return false;
        }
    }
    json_t *message = json_copy((json_t *)item);
    json_object_del(message, "type");
    json_object_del(message, "status");
    put(message, "content", content);
    return push(messages, message);
}

static bool add_output_part(json_t *content, const json_t *part, struct error *err)
{
    if (is_text(part, "type", "output_text") || is_text(part, "type", "input_text"))
        return is_text(part, "text", NULL) ? push(content, text_part(json_object_get(part, "text")))
                                           : invalid(err, "'Output text' requires 'text'");
    if (is_text(part, "type", "refusal"))
        return is_text(part, "refusal", NULL)
                   ? push(content, json_pack("{s:O,s:s}", "refusal",
                                             json_object_get(part, "refusal"), "type", "refusal"))
                   : invalid(err, "'Refusal' requires 'refusal'");
    return invalid(err, "'type' must be one of 'output_text' or 'refusal'");
}

/* A message the assistant gave. */
static bool add_output_message(json_t *messages, const json_t *item, struct error *err)
{
    json_t *content = json_array(), *part, *turn = open_turn(messages);
    size_t i;
    json_array_foreach(json_object_get(item, "content"), i, part)
    {
        if (!add_output_part(content, part, err)) {
            json_decref(content);
            return false;
        }
    }
    if (turn) {
        if (!is_list(turn, "content"))
            put(turn, "content", json_array());
        json_array_extend(json_object_get(turn, "content"), content);
        json_decref(content);
        return true;
    }
    json_t *message = json_copy((json_t *)item);
    json_object_del(message, "status");
    json_object_del(message, "type");
    put(message, "content", content);
    return push(messages, message);
}

static bool add_call(json_t *messages, const json_t *item)
{
    json_t *turn = open_turn(messages);
    json_t *call =
        json_pack("{s:{s:O,s:O},s:O,s:s}", "function", "arguments",
                  json_object_get(item, "arguments"), "name", json_object_get(item, "name"), "id",
                  json_object_get(item, "call_id"), "type", "function");
    if (!turn)
        return push(messages, json_pack("{s:s,s:[o]}", "role", "assistant", "tool_calls", call));
    if (!is_list(turn, "tool_calls"))
        put(turn, "tool_calls", json_array());
    return push(json_object_get(turn, "tool_calls"), call);
}

static bool add_call_output(json_t *messages, const json_t *item, struct error *err)
{
    json_t *output = json_deep_copy(json_object_get(item, "output")), *part;
    size_t i;
    json_array_foreach(output, i, part)
    {
        if (!is_text(part, "type", "input_text")) {
            json_decref(output);
            return invalid(err, "Output of tool call should be 'Input text'");
        }
        put(part, "type", json_string("text"));
    }
    return push(messages, json_pack("{s:o,s:s,s:O}", "content", output, "role", "tool",
                                    "tool_call_id", json_object_get(item, "call_id")));
}

static bool add_reasoning(json_t *messages, const json_t *item, struct error *err)
{
    const json_t *content = json_object_get(item, "content");
    if (!json_is_array(content))
        return invalid(err, "item['content'] is not an array");
    if (json_array_size(content) == 0)
        return invalid(err, "item['content'] is empty");
    if (!is_text(json_array_get(content, 0), "text", NULL))
        return invalid(err, "item['content']['text'] is not a string");
    json_t *text = json_object_get(json_array_get(content, 0), "text");
    json_t *turn = open_turn(messages);
    if (turn)
        return json_object_set(turn, "reasoning_content", text) == 0;
    return push(messages, json_pack("{s:s,s:[],s:O}", "role", "assistant", "content",
                                    "reasoning_content", text));
}

static bool add_item(json_t *messages, const json_t *item, struct error *err)
{
    bool is_input = is_list(item, "content") &&
                    (is_text(item, "role", "user") || is_text(item, "role", "system") ||
                     is_text(item, "role", "developer"));
    if (is_input)
        return add_input_message(messages, item, err);
    if (is_text(item, "role", "assistant") && is_text(item, "type", "message"))
        return add_output_message(messages, item, err);
    if (is_text(item, "arguments", NULL) && is_text(item, "call_id", NULL) &&
        is_text(item, "name", NULL) && is_text(item, "type", "function_call"))
        return add_call(messages, item);
    if (is_text(item, "call_id", NULL) &&
        (is_text(item, "output", NULL) || is_list(item, "output")) &&
        is_text(item, "type", "function_call_output"))
        return add_call_output(messages, item, err);
    if (is_list(item, "summary") && is_text(item, "type", "reasoning"))
        return add_reasoning(messages, item, err);
    return invalid(err, "Cannot determine type of 'item'");
}

static bool add_input(json_t *messages, json_t *input, struct error *err)
{
    size_t i;
    json_t *item;
    if (json_is_string(input))
        return push(messages, json_pack("{s:s,s:O}", "role", "user", "content", input));
    if (!json_is_array(input))
        return invalid(err, "'input' must be a string or array of objects");
    json_array_foreach(input, i, item)
    {
        json_t *copy = json_copy(item);
        /* A text stands for a list of one part. */
        if (is_text(item, "content", NULL))
            put(copy, "content",
                json_pack("[{s:O,s:s}]", "text", json_object_get(item, "content"), "type",
                          "input_text"));
        bool ok = add_item(messages, copy, err);
        json_decref(copy);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- tools ------------------------------------------------------------------------------- */

static bool convert_tools(json_t *chat, struct error *err)
{
    json_t *tools = json_object_get(chat, "tools"), *tool, *converted;
    size_t i;
    if (!tools)
        return true;
    if (!json_is_array(tools))
        return invalid(err, "'tools' must be an array of objects");
    converted = json_array();
    json_array_foreach(tools, i, tool)
    {
        if (!is_text(tool, "type", "function"))
            continue; /* chat completions have no such tools */
        json_t *function = json_copy(tool);
        json_object_del(function, "type");
        if (!json_object_get(function, "strict"))
            put(function, "strict", json_true());
        push(converted, json_pack("{s:s,s:o}", "type", "function", "function", function));
    }
    if (json_array_size(converted) > 0) {
        put(chat, "tools", converted);
    } else {
        json_object_del(chat, "tools");
        json_decref(converted);
    }
    return true;
}

json_t *convert_responses(const json_t *body, struct error *err)
{
    json_t *input = json_object_get(body, "input");
    if (!input) {
        invalid(err, "'input' is required");
        return NULL;
    }
    if (member_text(body, "previous_response_id").len > 0) {
        invalid(err, "llama.cpp does not support 'previous_response_id'.");
        return NULL;
    }
    json_t *chat = json_copy((json_t *)body), *messages = json_array();
    if (!chat || !messages) {
        json_decref(chat);
        json_decref(messages);
        error_memory(err);
        return NULL;
    }
    if (json_object_get(body, "instructions"))
        push(messages, json_pack("{s:s,s:o}", "role", "system", "content",
                                 json_string_from(member_text(body, "instructions"))));
    if (!add_input(messages, input, err)) {
        json_decref(messages);
        json_decref(chat);
        return NULL;
    }
    json_object_del(chat, "input");
    json_object_del(chat, "instructions");
    put(chat, "messages", messages);
    if (!convert_tools(chat, err)) {
        json_decref(chat);
        return NULL;
    }
    json_t *max = json_object_get(body, "max_output_tokens");
    if (max)
        json_object_set(chat, "max_tokens", max);
    json_object_del(chat, "max_output_tokens");
    json_t *effort = json_object_get(json_object_get(body, "reasoning"), "effort");
    if (effort)
        json_object_set(chat, "reasoning_effort", effort);
    json_object_del(chat, "reasoning");
    return chat;
}
