/* convert_anthropic.c - a /v1/messages body as an OpenAI chat body. */
#include "api/internal.h"

enum { DEFAULT_MAX_TOKENS = 4096, DEFAULT_THINKING_BUDGET = 10000 };

static bool is_type(const json_t *block, const char *type)
{
    return slice_equal_text(member_text(block, "type"), type);
}

static json_t *text_of(struct slice text)
{
    return json_string_from(text.data ? text : SLICE(""));
}

/* ---- the system prompt ----------------------------------------------------------------- */

/* One client begins its system prompt with a block that differs with every session and
 * means nothing to a model; left in, no prompt would be found in the cache. */
static bool is_billing_header(struct slice text)
{
    return slice_starts_with(text, SLICE("x-anthropic-billing-header:"));
}

/* A text without its first line where that is the header. */
static struct slice without_billing_header(struct slice text)
{
    const char *end = is_billing_header(text) ? memchr(text.data, '\n', text.len) : NULL;
    if (!is_billing_header(text))
        return text;
    return end ? slice_from(text, (size_t)(end - text.data) + 1) : SLICE("");
}

static bool add_system(const json_t *body, json_t *messages)
{
    const json_t *system = member(body, "system");
    struct str text = {0};
    size_t i;
    json_t *block;
    if (!system)
        return true;
    if (json_is_string(system))
        str_append_slice(&text, without_billing_header(json_slice(system)));
    json_array_foreach(system, i, block)
    {
        if (is_type(block, "text") && !(i == 0 && is_billing_header(member_text(block, "text"))))
            str_append_slice(&text, member_text(block, "text"));
    }
    bool ok = push(messages, json_pack("{s:s,s:o}", "role", "system", "content",
                                       json_string_from(str_slice(&text))));
    str_free(&text);
    return ok;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* An image as an image_url part; NULL for a source of another kind. */
static json_t *image_part(const json_t *block)
{
    const json_t *source = json_object_get(block, "source");
    struct str url = {0};
    if (is_type(source, "base64")) {
        struct slice media = member_text(source, "media_type");
        str_append_text(&url, "data:");
        str_append_slice(&url, media.data ? media : SLICE("image/jpeg"));
        str_append_text(&url, ";base64,");
        str_append_slice(&url, member_text(source, "data"));
    } else if (is_type(source, "url")) {
        str_append_slice(&url, member_text(source, "url"));
    } else {
        return NULL;
    }
    json_t *part = json_pack("{s:s,s:{s:o}}", "type", "image_url", "image_url", "url",
                             json_string_from(str_slice(&url)));
    str_free(&url);
    return part;
}

static json_t *tool_call(const json_t *block)
{
    struct str arguments = {0};
    const json_t *input = member(block, "input");
    if (!input || !json_append(&arguments, input))
        str_append_text(&arguments, "{}");
    json_t *call =
        json_pack("{s:o,s:s,s:{s:o,s:o}}", "id", text_of(member_text(block, "id")), "type",
                  "function", "function", "name", text_of(member_text(block, "name")), "arguments",
                  json_string_from(str_slice(&arguments)));
    str_free(&arguments);
    return call;
}

/* What a tool answered: one text, or parts where it holds images. */
static json_t *tool_content(const json_t *content)
{
    struct str text = {0};
    json_t *parts = json_array(), *part;
    bool has_images = false;
    size_t i;
    if (json_is_string(content))
        str_append_slice(&text, json_slice(content));
    json_array_foreach(content, i, part)
    {
        if (is_type(part, "text")) {
            str_append_slice(&text, member_text(part, "text"));
            push(parts, json_pack("{s:s,s:o}", "type", "text", "text",
                                  text_of(member_text(part, "text"))));
        } else if (is_type(part, "image")) {
            json_t *image = image_part(part);
            has_images = true;
            if (image)
                push(parts, image);
        }
    }
    if (!has_images) {
        json_decref(parts);
        parts = json_string_from(str_slice(&text));
    }
    str_free(&text);
    return parts;
}

/* A message of blocks: text and images, thoughts, calls; then one message for
 * each tool's answer. */
static bool add_blocks(const json_t *message, json_t *messages)
{
    json_t *content = json_array(), *calls = json_array(), *results = json_array(), *block, *image;
    struct str thoughts = {0};
    size_t i;
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        if (is_type(block, "text"))
            json_array_append(content, block);
        else if (is_type(block, "thinking"))
            str_append_slice(&thoughts, member_text(block, "thinking"));
        else if (is_type(block, "image") && (image = image_part(block)))
            push(content, image);
        else if (is_type(block, "tool_use"))
            push(calls, tool_call(block));
        else if (is_type(block, "tool_result"))
            push(results, json_pack("{s:s,s:o,s:o}", "role", "tool", "tool_call_id",
                                    text_of(member_text(block, "tool_use_id")), "content",
                                    tool_content(json_object_get(block, "content"))));
    }
    bool has_content = json_array_size(content) > 0, has_calls = json_array_size(calls) > 0;
    if (has_content || has_calls || thoughts.len > 0) {
        json_t *o = json_object();
        put(o, "role", text_of(member_text(message, "role")));
        if (has_content)
            json_object_set(o, "content", content);
        else
            put(o, "content", json_string(""));
        if (has_calls)
            json_object_set(o, "tool_calls", calls);
        if (thoughts.len > 0)
            put(o, "reasoning_content", json_string_from(str_slice(&thoughts)));
        push(messages, o);
    }
    bool ok = json_array_extend(messages, results) == 0;
    json_decref(content);
    json_decref(calls);
    json_decref(results);
    str_free(&thoughts);
    return ok;
}

static bool add_message(const json_t *message, json_t *messages)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_array(content))
        return add_blocks(message, messages);
    if (!content && slice_equal_text(member_text(message, "role"), "assistant"))
        return true;
    return json_array_append(messages, (json_t *)message) == 0;
}

/* ---- the rest ----------------------------------------------------------------------------------
 */

static json_t *convert_tools(const json_t *tools)
{
    json_t *list = json_array(), *tool;
    size_t i;
    json_array_foreach(tools, i, tool)
    {
        json_t *schema = json_object_get(tool, "input_schema");
        push(list, json_pack("{s:s,s:{s:o,s:o,s:o}}", "type", "function", "function", "name",
                             text_of(member_text(tool, "name")), "description",
                             text_of(member_text(tool, "description")), "parameters",
                             schema ? json_incref(schema) : json_object()));
    }
    return list;
}

static void copy_members(const json_t *body, json_t *chat)
{
    static const char *const names[][2] = {{"temperature", "temperature"},
                                           {"top_p", "top_p"},
                                           {"top_k", "top_k"},
                                           {"stream", "stream"},
                                           {"chat_template_kwargs", "chat_template_kwargs"},
                                           {"stop_sequences", "stop"},
                                           {"max_tokens", "max_tokens"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(body, names[i][0]);
        if (value)
            json_object_set(chat, names[i][1], value);
    }
    if (!json_object_get(body, "max_tokens"))
        put(chat, "max_tokens", json_integer(DEFAULT_MAX_TOKENS));
}

json_t *convert_anthropic(const json_t *body, struct error *err)
{
    json_t *chat = json_object(), *messages = json_array(), *message;
    size_t i;
    if (!json_object_get(body, "messages")) {
        error_set(err, ERR_INVALID, "'messages' is required");
        goto failed;
    }
    if (!add_system(body, messages))
        goto memory;
    json_array_foreach(json_object_get(body, "messages"), i,
                       message) if (!add_message(message, messages)) goto memory;
    put(chat, "messages", json_incref(messages));
    if (json_is_array(json_object_get(body, "tools")))
        put(chat, "tools", convert_tools(json_object_get(body, "tools")));
    const json_t *choice = json_object_get(body, "tool_choice");
    if (is_type(choice, "auto"))
        put(chat, "tool_choice", json_string("auto"));
    else if (is_type(choice, "any") || is_type(choice, "tool"))
        put(chat, "tool_choice", json_string("required"));
    copy_members(body, chat);
    const json_t *thinking = json_object_get(body, "thinking");
    if (is_type(thinking, "enabled"))
        put(chat, "thinking_budget_tokens",
            json_integer(member_integer(thinking, "budget_tokens", DEFAULT_THINKING_BUDGET)));
    json_decref(messages);
    return chat;
memory:
    error_memory(err);
failed:
    json_decref(chat);
    json_decref(messages);
    return NULL;
}
