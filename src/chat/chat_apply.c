/* chat_apply.c - a request and a template to a prompt.
 *
 * Before rendering, the messages are changed where a template needs it: each
 * change is a function here, and prepare() says which apply when. */
#include "chat/chat_build.h"

#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

/* ---- Content ------------------------------------------------------------- */

bool chat_content_text(const json_t *message, const char *separator, struct str *out)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_string(content))
        return str_append_slice(out, json_slice(content));
    size_t i, begin = out->len;
    json_t *part;
    json_array_foreach((json_t *)content, i, part)
    {
        if (out->len > begin)
            str_append_text(out, separator);
        str_append_slice(out, json_slice(json_object_get(part, "text")));
    }
    return !out->failed;
}

/* Some templates take only text, some only typed parts. */
bool chat_shape_content(const struct chat_caps *caps, json_t *messages)
{
    bool only_text = caps->supports_string_content && !caps->supports_typed_content;
    bool only_parts = !caps->supports_string_content && caps->supports_typed_content;
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message)
    {
        json_t *content = json_object_get(message, "content"), *changed = NULL;
        if (only_parts && json_is_string(content)) {
            changed = json_pack("[{s:s,s:O}]", "type", "text", "text", content);
        } else if (only_text && json_is_array(content)) {
            struct str text = {0};
            if (chat_content_text(message, "\n", &text))
                changed = json_string_from(str_slice(&text));
            str_free(&text);
        } else {
            continue;
        }
        if (!changed || json_object_set_new(message, "content", changed) != 0)
            return false;
    }
    return true;
}

static bool set_text(json_t *object, const char *key, struct slice text)
{
    return json_object_set_new(object, key, json_string_from(text)) == 0;
}

/* StepFun's models loop when blanks are left around what they reason about. */
static bool trim_content(json_t *messages)
{
    size_t i, k;
    json_t *message, *part;
    json_array_foreach(messages, i, message)
    {
        json_t *content = json_object_get(message, "content"),
               *reasoning = json_object_get(message, "reasoning_content");
        if (reasoning) {
            struct slice trimmed = chat_trim(json_slice(reasoning));
            if (trimmed.len == 0)
                json_object_del(message, "reasoning_content");
            else if (!set_text(message, "reasoning_content", trimmed))
                return false;
        }
        json_array_foreach(json_is_array(content) ? content : NULL, k, part)
        {
            if (!set_text(part, "text", chat_trim(json_slice(json_object_get(part, "text")))))
                return false;
        }
        /* Last: it frees the old content. */
        if (json_is_string(content) &&
            !set_text(message, "content", chat_trim(json_slice(content))))
            return false;
    }
    return true;
}

static bool developer_is_system(json_t *messages)
{
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message)
    {
        if (chat_has_role(message, "developer") && !set_text(message, "role", SLICE("system")))
            return false;
    }
    return true;
}

/* Without a system role, what it says goes in front of the next message. */
static bool merge_system(json_t *messages)
{
    json_t *first = json_array_get(messages, 0), *second = json_array_get(messages, 1);
    if (!chat_has_role(first, "system"))
        return true;
    struct str text = {0};
    bool ok = true;
    if (second) {
        ok = chat_content_text(first, "\n", &text) && str_append_char(&text, '\n') &&
             chat_content_text(second, "\n", &text) &&
             set_text(second, "content", str_slice(&text));
    }
    str_free(&text);
    return ok && json_array_remove(messages, 0) == 0;
}

/* Arguments as JSON values instead of JSON text. */
static bool parse_arguments(json_t *messages, struct error *err)
{
    static const struct json_limits limits = {.total = {NULL, 32 << 20, 1 << 17},
                                              .other = {NULL, 32 << 20, 1 << 17}};
    struct json_cost cost = {0}; /* of all calls together */
    size_t i, k;
    json_t *message, *call;
    json_array_foreach(messages, i, message)
    {
        json_array_foreach(json_object_get(message, "tool_calls"), k, call)
        {
            json_t *function = json_object_get(call, "function"),
                   *arguments = json_object_get(function, "arguments");
            if (!json_is_string(arguments))
                continue;
            struct error reason = {0};
            json_t *value = json_parse_within(json_slice(arguments), &limits, &cost, &reason);
            if (!value && reason.code == ERR_MEMORY)
                return error_memory(err);
            if (!value)
                return error_set(err, ERR_UNSUPPORTED,
                                 "Failed to parse tool call arguments as JSON: %s", reason.message);
            if (json_object_set_new(function, "arguments", value) != 0)
                return error_memory(err);
        }
    }
    return true;
}

/* ---- Inputs -------------------------------------------------------------- */

static void inputs_free(struct chat_inputs *in)
{
    json_decref(in->messages);
    json_decref(in->context);
    str_free(&in->continue_content);
    str_free(&in->continue_reasoning);
}

/* Names that templates expect besides the request's own. */
static json_t *context_of(const struct chat_request *request, int64_t now)
{
    char date[64], day_first[64];
    time_t seconds = (time_t)now;
    struct tm parts = {0};
    localtime_r(&seconds, &parts);
    strftime(date, sizeof date, "%b %d %Y", &parts);
    strftime(day_first, sizeof day_first, "%d %b %Y", &parts);
    json_t *context = json_pack("{s:s,s:s}", "datetime", date, "date_string", day_first);
    if (context && request->kwargs && json_object_update(context, request->kwargs) != 0) {
        json_decref(context);
        return NULL;
    }
    return context;
}

/* Take off the message that is to be continued. */
static bool take_last(struct chat_inputs *in)
{
    in->add_generation_prompt = false;
    size_t n = json_array_size(in->messages);
    if (n == 0)
        return true;
    const json_t *last = json_array_get(in->messages, n - 1);
    const json_t *content = json_object_get(last, "content");
    bool ok = chat_content_text(last, "\n\n", &in->continue_content) &&
              str_append_slice(&in->continue_reasoning,
                               json_slice(json_object_get(last, "reasoning_content")));
    bool has_content = json_array_size(content) > 0 || in->continue_content.len > 0;
    in->has_continuation = has_content || in->continue_reasoning.len > 0 ||
                           json_object_get(last, "tool_calls") || json_object_get(last, "name") ||
                           json_object_get(last, "tool_call_id");
    if (in->continuation == CHAT_CONTINUE_AUTO)
        in->continuation = in->continue_reasoning.len > 0 && !has_content ? CHAT_CONTINUE_REASONING
                                                                          : CHAT_CONTINUE_CONTENT;
    return ok && json_array_remove(in->messages, n - 1) == 0;
}

static bool prepare(const struct chat_templates *templates, const struct chat_request *request,
                    struct chat_inputs *in, struct error *err)
{
    const struct chat_template *t =
        request->tools && templates->tool_use ? templates->tool_use : templates->main;
    const struct chat_caps *caps = &t->caps;
    *in = (struct chat_inputs){
        .t = t,
        .request = request,
        .tools = request->tools,
        .tool_choice = request->tool_choice,
        .reasoning_format = request->reasoning_format,
        .continuation = request->continue_final_message,
        .add_generation_prompt = request->add_generation_prompt,
        .parallel_tool_calls = request->parallel_tool_calls,
        .enable_thinking = request->enable_thinking,
        .now = request->now ? request->now : clock_unix_seconds(),
        .budget = request->budget,
    };
    in->schema = request->json_schema;
    in->messages = json_deep_copy(request->messages);
    in->context = context_of(request, in->now);
    bool ok = in->messages && in->context;
    /* First: what is continued stands as it was given, whatever the template takes. */
    if (in->continuation != CHAT_CONTINUE_NONE)
        ok = ok && take_last(in);
    if (chat_template_has(t, "You have access to the following functions in JSONSchema format"))
        ok = ok && trim_content(in->messages);
    ok = ok && chat_shape_content(caps, in->messages);
    if (!chat_template_has(t, "<|channel|>")) /* only harmony knows developers */
        ok = ok && developer_is_system(in->messages);
    if (!caps->supports_system_role)
        ok = ok && merge_system(in->messages);
    if (!ok)
        return error_memory(err);
    if (caps->supports_object_arguments && !parse_arguments(in->messages, err))
        return false;
    if (in->tools && in->tool_choice != CHAT_TOOLS_NONE && request->grammar)
        return error_set(err, ERR_UNSUPPORTED, "Cannot specify grammar with tools");
    return true;
}

/* ---- Prompts ------------------------------------------------------------- */

bool chat_texts_add(struct chat_texts *texts, const char *text)
{
    char **grown = realloc(texts->data, (texts->n + 1) * sizeof *grown);
    if (!grown)
        return false;
    texts->data = grown;
    char *copy = slice_duplicate(slice_of(text));
    if (copy)
        texts->data[texts->n++] = copy;
    return copy != NULL;
}

bool chat_prompt_add_trigger(struct chat_prompt *prompt, enum chat_trigger_kind kind,
                             const char *value)
{
    struct chat_trigger *grown =
        realloc(prompt->triggers, (prompt->n_triggers + 1) * sizeof *grown);
    if (!grown)
        return false;
    prompt->triggers = grown;
    char *copy = slice_duplicate(slice_of(value));
    if (copy)
        prompt->triggers[prompt->n_triggers++] = (struct chat_trigger){kind, copy};
    return copy != NULL;
}

bool chat_prompt_add_delimiter(struct chat_prompt *prompt, const char *role, const char *text)
{
    struct chat_delimiter *grown =
        realloc(prompt->delimiters, (prompt->n_delimiters + 1) * sizeof *grown);
    if (!grown)
        return false;
    prompt->delimiters = grown;
    char *copy = slice_duplicate(slice_of(text));
    if (copy)
        prompt->delimiters[prompt->n_delimiters++] = (struct chat_delimiter){role, copy};
    return copy != NULL;
}

static void texts_free(struct chat_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        free(texts->data[i]);
    free(texts->data);
}

void chat_prompt_free(struct chat_prompt *prompt)
{
    str_free(&prompt->text);
    free(prompt->user);
    str_free(&prompt->generation_prompt);
    str_free(&prompt->grammar);
    str_free(&prompt->grammar_objects);
    for (size_t i = 0; i < prompt->n_triggers; i++)
        free(prompt->triggers[i].value);
    free(prompt->triggers);
    texts_free(&prompt->preserved_tokens);
    texts_free(&prompt->stops);
    for (size_t i = 0; i < prompt->n_delimiters; i++)
        free(prompt->delimiters[i].text);
    free(prompt->delimiters);
    str_free(&prompt->thinking_start);
    texts_free(&prompt->thinking_end);
    chat_parser_release(prompt->parser);
    *prompt = (struct chat_prompt){0};
}

const char *chat_format_name(enum chat_format format)
{
    static const char *const names[] = {
        [CHAT_FORMAT_CONTENT_ONLY] = "Content-only",     [CHAT_FORMAT_PEG_SIMPLE] = "peg-simple",
        [CHAT_FORMAT_PEG_NATIVE] = "peg-native",         [CHAT_FORMAT_PEG_GEMMA4] = "peg-gemma4",
        [CHAT_FORMAT_PEG_MINIMAX_M3] = "peg-minimax-m3",
    };
    return names[format];
}

/* Everything the model writes is content. */
static bool build_pure(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    peg_id content = in->schema ? chat_response(&b, "response-format") : chat_content_rest(b.g);
    peg_id opening = peg_literal(b.g, str_slice(&out->generation_prompt));
    return chat_build_end(&b, chat_spaced(&b, opening, content), in->schema, false);
}

static bool apply_jinja(const struct chat_templates *templates, const struct chat_request *request,
                        struct chat_prompt *out, struct error *err)
{
    struct chat_inputs in;
    bool ok = prepare(templates, request, &in, err);
    const struct chat_family *family = ok ? chat_family_of(in.t) : NULL;
    if (ok && request->force_pure_content)
        ok = build_pure(&in, out, err);
    else if (ok && family)
        ok = family->build(&in, out, err);
    else if (ok && !(ok = chat_generate(&in, out, err)))
        error_prefix(err, "Unable to generate parser for this template. Automatic parser "
                          "generation failed");
    inputs_free(&in);
    return ok;
}

static bool apply_legacy(const struct chat_templates *templates, const struct chat_request *request,
                         struct chat_prompt *out, struct error *err)
{
    int which = chat_legacy_find(str_slice(&templates->source));
    if (which < 0)
        return error_set(err, ERR_UNSUPPORTED,
                         "this custom template is not supported, try using --jinja");
    json_t *messages = json_deep_copy(request->messages);
    const struct chat_caps only_text = {.supports_string_content = true};
    bool ok = (messages && chat_shape_content(&only_text, messages)) || error_memory(err);
    ok = ok && chat_legacy_render(which, messages, request->add_generation_prompt, request->budget,
                                  out, err);
    json_decref(messages);
    if (!ok)
        return false;
    out->format = CHAT_FORMAT_CONTENT_ONLY;
    out->parser = chat_parser_plain();
    if (!out->parser)
        return error_memory(err);
    if (request->json_schema)
        return schema_to_grammar(request->json_schema, request->budget, &out->grammar,
                                 &out->grammar_objects, err);
    return !request->grammar || str_append_text(&out->grammar, request->grammar) ||
           error_memory(err);
}

bool chat_apply(const struct chat_templates *templates, const struct chat_request *request,
                struct chat_prompt *out, struct error *err)
{
    bool ok = templates->use_jinja ? apply_jinja(templates, request, out, err)
                                   : apply_legacy(templates, request, out, err);
    if (!ok)
        return false;
    out->grammar_is_tool_calls = out->grammar.len > 0;
    out->parse_tool_calls = request->tools && request->tool_choice != CHAT_TOOLS_NONE;
    return true;
}
