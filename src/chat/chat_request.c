/* chat_request.c - what a chat request's JSON body asks for.
 *
 * The messages come out in one shape: role, content (text or typed parts),
 * reasoning_content, name, tool_call_id, tool_calls with arguments as text; the
 * tools as {type, function: {name, description, parameters}}. */
#include "chat/chat_internal.h"

#include <stdlib.h>

static const char *text_or(const json_t *object, const char *key, const char *fallback)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : fallback;
}

static bool bool_or(const json_t *object, const char *key, bool fallback)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

bool chat_json_append(struct str *out, const json_t *value)
{
    return value ? json_append(out, value) : str_append_text(out, "null");
}

/* ERR_UNSUPPORTED with the value at the end of the message. */
static bool refuse(struct error *err, const char *what, const json_t *value)
{
    struct str text = {0};
    if (value)
        chat_json_append(&text, value);
    error_set(err, ERR_UNSUPPORTED, "%s%s", what, str_text(&text));
    str_free(&text);
    return false;
}

/* ---- Reasoning formats and continuations --------------------------------- */

static const char *const reasoning_names[] = {
    [CHAT_REASONING_NONE] = "none",
    [CHAT_REASONING_AUTO] = "auto",
    [CHAT_REASONING_DEEPSEEK] = "deepseek",
    [CHAT_REASONING_DEEPSEEK_LEGACY] = "deepseek-legacy",
};

const char *chat_reasoning_format_name(enum chat_reasoning_format format)
{
    return reasoning_names[format];
}

bool chat_reasoning_format_from_name(struct slice name, enum chat_reasoning_format *out,
                                     struct error *err)
{
    for (size_t i = 0; i < sizeof reasoning_names / sizeof *reasoning_names; i++)
        if (slice_equal_text(name, reasoning_names[i])) {
            *out = (enum chat_reasoning_format)i;
            return true;
        }
    return error_set(err, ERR_UNSUPPORTED, "Unknown reasoning format: %.*s",
                     name.len < 100 ? (int)name.len : 100, name.data);
}

enum chat_continuation chat_continuation_from_json(const json_t *value)
{
    const char *text = json_string_value(value);
    if (json_is_true(value))
        return CHAT_CONTINUE_AUTO;
    if (text && strcmp(text, "reasoning_content") == 0)
        return CHAT_CONTINUE_REASONING;
    return text && strcmp(text, "content") == 0 ? CHAT_CONTINUE_CONTENT : CHAT_CONTINUE_NONE;
}

/* ---- Messages ------------------------------------------------------------ */

/* Parts that stand for files; none can be taken in. */
static const struct {
    const char *type, *error;
} media[] = {
    {"image_url", "image input is not supported - hint: if this is unexpected, you may need to "
                  "provide the mmproj"},
    {"input_audio", "audio input is not supported - hint: if this is unexpected, you may need to "
                    "provide the mmproj"},
    {"input_video", "video input is not supported - hint: if this is unexpected, you may need to "
                    "provide the mmproj"},
};

/* What every chat route checks before it looks closer. */
static bool check_shape(const json_t *messages, struct error *err)
{
    size_t i, k;
    json_t *message, *part;
    json_array_foreach((json_t *)messages, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        if (strcmp(text_or(message, "role", ""), "assistant") == 0) {
            if (!content && !json_object_get(message, "tool_calls"))
                return error_set(
                    err, ERR_INVALID,
                    "Assistant message must contain either 'content' or 'tool_calls'!");
        } else if (!content) {
            return error_set(err, ERR_INVALID, "All non-assistant messages must contain 'content'");
        }
        if (!content || json_is_string(content) || json_is_null(content))
            continue;
        if (!json_is_array(content))
            return error_set(err, ERR_INVALID, "Expected 'content' to be a string or an array");
        json_array_foreach((json_t *)content, k, part)
        {
            const char *type = text_or(part, "type", "");
            for (size_t m = 0; m < sizeof media / sizeof *media; m++)
                if (strcmp(type, media[m].type) == 0)
                    return error_set(err, ERR_UNSUPPORTED, "%s", media[m].error);
            if (strcmp(type, "text") != 0)
                return error_set(err, ERR_INVALID, "unsupported content[].type");
        }
    }
    return true;
}

static json_t *content_from(const json_t *content, struct error *err)
{
    if (!content || json_is_null(content))
        return json_string("");
    if (json_is_string(content))
        return json_incref((json_t *)content);
    json_t *parts = json_array();
    size_t i;
    json_t *part;
    json_array_foreach((json_t *)content, i, part)
    {
        const json_t *text = json_object_get(part, "text");
        if (!json_is_string(text)) {
            refuse(err, "a content part needs a 'text' that is a string: ", part);
            json_decref(parts);
            return NULL;
        }
        json_array_append_new(parts, json_pack("{s:s,s:O}", "type", "text", "text", text));
    }
    if (json_array_size(parts) > 0)
        return parts;
    json_decref(parts);
    return json_string("");
}

static json_t *tool_call_from(const json_t *call, struct error *err)
{
    const json_t *type = json_object_get(call, "type"),
                 *function = json_object_get(call, "function"),
                 *name = json_object_get(function, "name"),
                 *arguments = json_object_get(function, "arguments"),
                 *id = json_object_get(call, "id");
    const struct {
        bool wrong;
        const char *what;
    } checks[] = {
        {!type, "Missing tool call type: "},
        {!json_is_string(type) || strcmp(json_string_value(type), "function") != 0,
         "Unsupported tool call type: "},
        {!function, "Missing tool call function: "},
        {!name, "Missing tool call name: "},
        {!json_is_string(name), "A tool call's name must be a string: "},
        {!arguments, "Missing tool call arguments: "},
        {id && !json_is_string(id), "A tool call's id must be a string: "},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].wrong) {
            refuse(err, checks[i].what, call);
            return NULL;
        }
    struct str text = {0};
    if (json_is_string(arguments))
        str_append_slice(&text, json_slice(arguments));
    else
        chat_json_append(&text, arguments);
    json_t *made = json_pack("{s:s,s:{s:O,s:o}}", "type", "function", "function", "name", name,
                             "arguments", json_string_from(str_slice(&text)));
    str_free(&text);
    if (made && id && json_string_length(id) > 0)
        json_object_set(made, "id", (json_t *)id);
    return made;
}

static json_t *message_from(const json_t *message, struct error *err)
{
    const json_t *role = json_object_get(message, "role"),
                 *calls = json_object_get(message, "tool_calls");
    if (!json_is_object(message)) {
        refuse(err, "Expected 'message' to be an object, got ", message);
        return NULL;
    }
    if (!json_is_string(role)) {
        refuse(err, role ? "'role' must be a string in message: " : "Missing 'role' in message: ",
               message);
        return NULL;
    }
    json_t *content = content_from(json_object_get(message, "content"), err);
    json_t *made = content ? json_pack("{s:O,s:o}", "role", role, "content", content) : NULL;
    static const char *const texts[] = {"reasoning_content", "name", "tool_call_id"};
    for (size_t i = 0; made && i < sizeof texts / sizeof *texts; i++) {
        json_t *value = json_object_get(message, texts[i]);
        if (value && !json_is_string(value)) {
            struct str what = {0};
            str_append_format(&what, "'%s' must be a string, got ", texts[i]);
            refuse(err, str_text(&what), value);
            str_free(&what);
            json_decref(made);
            return NULL;
        }
        if (value && json_string_length(value) > 0)
            json_object_set(made, texts[i], value);
    }
    json_t *list = json_array(), *call;
    size_t i;
    json_array_foreach((json_t *)calls, i, call)
    {
        json_t *one = made ? tool_call_from(call, err) : NULL;
        if (!one) {
            json_decref(made);
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, one);
    }
    if (made && json_array_size(list) > 0)
        json_object_set(made, "tool_calls", list);
    json_decref(list);
    return made;
}

static json_t *messages_from(const json_t *messages, struct error *err)
{
    json_t *list = json_array(), *message;
    size_t i;
    json_array_foreach((json_t *)messages, i, message)
    {
        struct error reason = {0};
        json_t *one = message_from(message, &reason);
        if (!one || json_array_append_new(list, one) != 0) {
            if (reason.code == ERR_NONE)
                error_memory(&reason);
            error_set(err, reason.code, "Failed to parse messages: %s", reason.message);
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* ---- Tools --------------------------------------------------------------- */

static json_t *tool_from(const json_t *tool, struct error *err)
{
    const json_t *type = json_object_get(tool, "type"),
                 *function = json_object_get(tool, "function"),
                 *name = json_object_get(function, "name");
    const struct {
        bool wrong;
        const char *what;
    } checks[] = {
        {!type, "Missing tool type: "},
        {!json_is_string(type) || strcmp(json_string_value(type), "function") != 0,
         "Unsupported tool type: "},
        {!function, "Missing tool function: "},
        {!json_is_string(name), "A tool's function needs a 'name': "},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].wrong) {
            refuse(err, checks[i].what, i < 2 && type && i ? type : tool);
            return NULL;
        }
    json_t *parameters = json_object_get(function, "parameters");
    return json_pack("{s:s,s:{s:O,s:s,s:o}}", "type", "function", "function", "name", name,
                     "description", text_or(function, "description", ""), "parameters",
                     parameters ? json_incref(parameters) : json_object());
}

static bool tools_from(const json_t *tools, json_t **out, struct error *err)
{
    struct error reason = {0};
    json_t *list = json_array(), *tool;
    size_t i;
    if (!tools || json_is_null(tools)) {
        json_decref(list);
        return true;
    }
    bool ok =
        json_is_array(tools) || refuse(&reason, "Expected 'tools' to be an array, got ", tools);
    json_array_foreach((json_t *)tools, i, tool)
    {
        json_t *one = ok ? tool_from(tool, &reason) : NULL;
        ok = one && json_array_append_new(list, one) == 0;
    }
    if (!ok) {
        char *text = json_dumps(tools, JSON_INDENT(2) | JSON_ENCODE_ANY);
        error_set(err, reason.code ? reason.code : ERR_MEMORY,
                  "Failed to parse tools: %s; tools = %s", reason.message, text ? text : "");
        free(text);
        json_decref(list);
        return false;
    }
    if (json_array_size(list) > 0)
        *out = list;
    else
        json_decref(list);
    return true;
}

static bool tool_choice_from(const json_t *choice, struct chat_request *out, struct error *err)
{
    static const struct {
        const char *name;
        enum chat_tool_choice choice;
    } table[] = {
        {"auto", CHAT_TOOLS_AUTO}, {"none", CHAT_TOOLS_NONE}, {"required", CHAT_TOOLS_REQUIRED}};
    /* {"type": "function", "function": {"name": ...}} asks for that one */
    const char *name =
        json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (name) {
        out->named_tool = slice_duplicate(slice_of(name));
        out->tool_choice = CHAT_TOOLS_REQUIRED;
        return out->named_tool || error_memory(err);
    }
    const char *text = json_is_string(choice) ? json_string_value(choice) : "auto";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(text, table[i].name) == 0) {
            out->tool_choice = table[i].choice;
            return true;
        }
    return error_set(err, ERR_INVALID, "Invalid tool_choice: %.100s", text);
}

/* ---- Formats, variables, continuations ------------------------------------ */

/* null, {} or [] */
static bool is_empty(const json_t *value)
{
    return json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static bool response_format_from(const json_t *body, struct chat_request *out, struct error *err)
{
    json_t *schema = json_object_get(body, "json_schema");
    if (schema && json_is_null(schema))
        schema = NULL;
    if (schema && out->grammar)
        return error_set(err, ERR_UNSUPPORTED, "Cannot use both json_schema and grammar");
    const json_t *format = json_object_get(body, "response_format");
    const char *type = text_or(format, "type", "");
    json_t *made = schema ? json_incref(schema) : NULL;
    if (strcmp(type, "json_object") == 0) {
        json_t *own = json_object_get(format, "schema");
        bool empty = !schema || is_empty(schema);
        if (own || empty) {
            json_decref(made);
            made = own && !is_empty(own) ? json_incref(own) : json_pack("{s:s}", "type", "object");
        }
    } else if (strcmp(type, "json_schema") == 0) {
        json_t *own = json_object_get(json_object_get(format, "json_schema"), "schema");
        json_decref(made);
        made = own && !json_is_null(own) ? json_incref(own) : json_object();
    } else if (*type && strcmp(type, "text") != 0) {
        json_decref(made);
        return error_set(err, ERR_INVALID,
                         "response_format type must be one of \"text\" or \"json_object\", but "
                         "got: %.100s",
                         type);
    }
    out->json_schema = made;
    return true;
}

static bool continuation_from(const json_t *body, const struct chat_defaults *defaults,
                              struct chat_request *out, struct error *err)
{
    out->continue_final_message =
        chat_continuation_from_json(json_object_get(body, "continue_final_message"));
    size_t n = json_array_size(out->messages);
    const json_t *last = n ? json_array_get(out->messages, n - 1) : NULL,
                 *before = n > 1 ? json_array_get(out->messages, n - 2) : NULL;
    if (out->continue_final_message == CHAT_CONTINUE_NONE && defaults->prefill_assistant &&
        strcmp(text_or(last, "role", ""), "assistant") == 0) {
        if (strcmp(text_or(before, "role", ""), "assistant") == 0)
            return error_set(err, ERR_INVALID,
                             "Cannot have 2 or more assistant messages at the end of the list.");
        out->continue_final_message = CHAT_CONTINUE_AUTO;
        out->add_generation_prompt = false;
    }
    if (out->continue_final_message != CHAT_CONTINUE_NONE && out->add_generation_prompt)
        return error_set(
            err, ERR_INVALID,
            "Cannot set both add_generation_prompt and continue_final_message to true.");
    return true;
}

static bool kwargs_from(const json_t *body, const struct chat_defaults *defaults,
                        struct chat_request *out, struct error *err)
{
    out->kwargs = json_object();
    const json_t *given = json_object_get(body, "chat_template_kwargs");
    if (!out->kwargs ||
        (json_is_object(defaults->kwargs) &&
         json_object_update(out->kwargs, (json_t *)defaults->kwargs) != 0) ||
        (json_is_object(given) && json_object_update(out->kwargs, (json_t *)given) != 0))
        return error_memory(err);
    const json_t *thinking = json_object_get(out->kwargs, "enable_thinking");
    if (json_is_boolean(thinking))
        out->enable_thinking = json_is_true(thinking);
    else if (json_is_string(thinking))
        return error_set(err, ERR_INVALID,
                         "invalid type for \"enable_thinking\" (expected boolean, got string)");
    const char *effort = text_or(body, "reasoning_effort", "");
    if (strcmp(effort, "none") == 0) {
        out->enable_thinking = false;
        json_object_del(out->kwargs, "reasoning_effort");
    } else if (*effort &&
               json_object_set_new(out->kwargs, "reasoning_effort", json_string(effort)) != 0) {
        return error_memory(err);
    }
    return true;
}

static bool request_from(const json_t *body, const struct chat_templates *templates,
                         const struct chat_defaults *defaults, struct chat_request *out,
                         struct error *err)
{
    const json_t *tools = json_object_get(body, "tools"),
                 *choice = json_object_get(body, "tool_choice"),
                 *messages = json_object_get(body, "messages"),
                 *reasoning = json_object_get(body, "reasoning_format");
    const char *grammar = text_or(body, "grammar", "");
    if (!templates->use_jinja) {
        if (json_array_size(tools) > 0)
            return error_set(err, ERR_UNSUPPORTED, "tools param requires --jinja flag");
        if (json_is_string(choice) && strcmp(json_string_value(choice), "auto") != 0)
            return error_set(err, ERR_UNSUPPORTED, "tool_choice param requires --jinja flag");
    }
    if (*grammar && !(out->grammar = slice_duplicate(slice_of(grammar))))
        return error_memory(err);
    if (!response_format_from(body, out, err))
        return false;
    if (!messages)
        return error_set(err, ERR_INVALID, "'messages' is required");
    if (!json_is_array(messages))
        return error_set(err, ERR_INVALID, "Expected 'messages' to be an array");
    if (!check_shape(messages, err) || !(out->messages = messages_from(messages, err)) ||
        !tools_from(tools, &out->tools, err) || !tool_choice_from(choice, out, err))
        return false;
    out->parallel_tool_calls = bool_or(body, "parallel_tool_calls",
                                       chat_templates_caps(templates).supports_parallel_tool_calls);
    out->add_generation_prompt = bool_or(body, "add_generation_prompt", true);
    if (!continuation_from(body, defaults, out, err))
        return false;
    out->reasoning_format = defaults->reasoning_format;
    if (json_is_string(reasoning) &&
        !chat_reasoning_format_from_name(json_slice(reasoning), &out->reasoning_format, err))
        return false;
    out->enable_thinking = defaults->enable_thinking;
    if (out->tools && out->tool_choice != CHAT_TOOLS_NONE && json_object_get(body, "grammar"))
        return error_set(err, ERR_INVALID, "Cannot use custom grammar constraints with tools.");
    out->force_pure_content = defaults->force_pure_content;
    return kwargs_from(body, defaults, out, err);
}

bool chat_request_parse(const json_t *body, const struct chat_templates *templates,
                        const struct chat_defaults *defaults, struct chat_request *out,
                        struct error *err)
{
    *out = (struct chat_request){0};
    if (request_from(body, templates, defaults, out, err))
        return true;
    chat_request_free(out);
    return false;
}

void chat_request_free(struct chat_request *request)
{
    json_decref(request->messages);
    json_decref(request->tools);
    json_decref(request->json_schema);
    json_decref(request->kwargs);
    free(request->grammar);
    free(request->named_tool);
    *request = (struct chat_request){0};
}
