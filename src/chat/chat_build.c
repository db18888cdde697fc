/* chat_build.c - putting a request's parser together. */
#include "chat/chat_build.h"

#include "chat/peg_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Begin, end ---------------------------------------------------------- */

bool chat_build_begin(struct chat_build *b, const struct chat_inputs *in, const json_t *messages,
                      const json_t *more, struct chat_prompt *out, struct error *err)
{
    *b = (struct chat_build){.in = in, .out = out, .err = err};
    b->with_tools = in->tools && in->tool_choice != CHAT_TOOLS_NONE;
    b->required = in->tool_choice == CHAT_TOOLS_REQUIRED;
    b->extract = in->reasoning_format != CHAT_REASONING_NONE;
    out->format = CHAT_FORMAT_PEG_NATIVE;
    if (!chat_render_prompt(in, messages, NULL, more, out, err))
        return false;
    b->g = peg_create();
    return b->g || error_memory(err);
}

bool chat_build_begin_own(struct chat_build *b, const struct chat_inputs *in, json_t *messages,
                          struct chat_prompt *out, struct error *err)
{
    bool ok = messages ? chat_build_begin(b, in, messages, NULL, out, err) : error_memory(err);
    json_decref(messages);
    return ok;
}

static bool out_of_memory(const struct chat_build *b)
{
    return b->g->failed || b->out->text.failed || b->out->generation_prompt.failed;
}

bool chat_build_end(struct chat_build *b, peg_id root, bool grammar, bool lazy)
{
    if (!b->g)
        return false;
    peg_set_root(b->g, root);
    bool ok = !out_of_memory(b) || error_memory(b->err);
    if (ok && grammar) {
        b->out->grammar_lazy = lazy;
        ok = peg_to_grammar(b->g, lazy, b->in->budget, &b->out->grammar, &b->out->grammar_objects,
                            b->err);
    }
    if (!ok) {
        peg_free(b->g);
        b->g = NULL;
        return false;
    }
    b->out->parser =
        chat_parser_create(b->g, b->out->format, str_slice(&b->out->generation_prompt), b->err);
    b->g = NULL;
    return b->out->parser != NULL;
}

void chat_build_continue(struct chat_build *b, const char *opening, const char *think_start,
                         const char *think_end)
{
    if (!b->in->has_continuation)
        return;
    struct str *prompt = &b->out->generation_prompt;
    str_clear(prompt);
    str_append_text(prompt, opening);
    str_append_text(prompt, think_start);
    if (*think_start)
        str_append_slice(prompt, str_slice(&b->in->continue_reasoning));
    if (b->in->continuation == CHAT_CONTINUE_CONTENT) {
        str_append_text(prompt, think_end);
        str_append_slice(prompt, str_slice(&b->in->continue_content));
    }
    str_append_slice(&b->out->text, str_slice(prompt));
}

static void need(struct chat_build *b, bool ok)
{
    b->g->failed = b->g->failed || !ok;
}

/* Where text stands last; SIZE_MAX: nowhere. */
static size_t last_of(struct slice in, struct slice text)
{
    for (size_t i = in.len + 1; text.len && i-- > text.len;)
        if (memcmp(in.data + i - text.len, text.data, text.len) == 0)
            return i - text.len;
    return SIZE_MAX;
}

bool chat_build_reads_thoughts(const struct chat_build *b)
{
    return b->extract || b->in->schema;
}

peg_id chat_thought_text(struct chat_build *b, peg_id text)
{
    return b->extract ? peg_tag(b->g, TAG_REASONING, text) : text;
}

peg_id chat_thought_whole(struct chat_build *b, peg_id thought)
{
    return b->extract ? thought : peg_tag(b->g, TAG_CONTENT, thought);
}

peg_id chat_thought_between(struct chat_build *b, const char *start, const char *end)
{
    struct peg *g = b->g;
    peg_id text = chat_thought_text(b, peg_until(g, end));
    return peg_optional(g,
                        chat_thought_whole(b, SEQ(g, peg_text(g, start), text, peg_text(g, end))));
}

bool chat_build_in_thought(const struct chat_build *b, struct slice start, struct slice end)
{
    struct slice prompt = str_slice(&b->out->generation_prompt);
    size_t opened = last_of(prompt, start), closed = last_of(prompt, end);
    return opened != SIZE_MAX && (closed == SIZE_MAX || closed < opened);
}

peg_id chat_build_thought(struct chat_build *b, peg_id thought, struct slice start,
                          struct slice end)
{
    bool must = b->required && b->with_tools && chat_build_in_thought(b, start, end);
    return must ? thought : peg_optional(b->g, thought);
}

peg_id chat_content_before(struct chat_build *b, const struct slice *texts, size_t n,
                           struct slice think)
{
    VEC(struct slice) all = {0};
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = ok && VEC_PUSH(&all, texts[i]);
    if (b->required && b->extract && think.len)
        ok = ok && VEC_PUSH(&all, think);
    need(b, ok);
    peg_id made = peg_tag(b->g, TAG_CONTENT, peg_until_any(b->g, all.data, all.n));
    VEC_FREE(&all);
    return made;
}

/* ---- What goes with the prompt ------------------------------------------- */

void chat_build_thinking(struct chat_build *b, const char *start, const char *const *ends)
{
    b->out->supports_thinking = true;
    need(b, str_append_text(&b->out->thinking_start, start));
    for (; *ends; ends++)
        need(b, chat_texts_add(&b->out->thinking_end, *ends));
}

void chat_build_preserve(struct chat_build *b, const char *const *tokens)
{
    for (; *tokens; tokens++)
        need(b, chat_texts_add(&b->out->preserved_tokens, *tokens));
}

void chat_build_trigger(struct chat_build *b, enum chat_trigger_kind kind, const char *value)
{
    need(b, chat_prompt_add_trigger(b->out, kind, value));
}

void chat_build_delimiter(struct chat_build *b, const char *role, const char *text)
{
    need(b, chat_prompt_add_delimiter(b->out, role, text));
}

bool chat_build_tool(const struct chat_build *b, size_t i, struct chat_tool *tool)
{
    const char *only = b->in->request->named_tool;
    size_t k, seen = 0;
    json_t *one;
    json_array_foreach((json_t *)b->in->tools, k, one)
    {
        const json_t *function = json_object_get(one, "function");
        tool->name = json_slice(json_object_get(function, "name"));
        tool->parameters = json_object_get(function, "parameters");
        if ((!only || slice_equal_text(tool->name, only)) && seen++ == i)
            return true;
    }
    return false;
}

/* ---- Small parsers ------------------------------------------------------- */

struct slice chat_build_text(struct chat_build *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : arena_alloc(&b->g->arena, (size_t)n + 1);
    if (!text) {
        b->g->failed = true;
        return SLICE("");
    }
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return (struct slice){text, (size_t)n};
}

peg_id chat_spaced(struct chat_build *b, peg_id first, peg_id second)
{
    return SEQ(b->g, first, peg_space(b->g), second);
}

bool chat_ids_add(struct chat_build *b, struct peg_ids *ids, peg_id id)
{
    bool ok = VEC_PUSH(ids, id);
    need(b, ok);
    return ok;
}

peg_id chat_choice_of(struct chat_build *b, struct peg_ids *ids)
{
    peg_id made = peg_choice(b->g, ids->data, ids->n);
    VEC_FREE(ids);
    return made;
}

peg_id chat_json_args(struct chat_build *b, const struct chat_tool *tool)
{
    struct slice name =
        chat_build_text(b, "tool-%.*s-schema", (int)tool->name.len, tool->name.data);
    return peg_tag(b->g, TAG_TOOL_ARGS,
                   peg_schema(b->g, peg_json_object(b->g), name, tool->parameters, SCHEMA_LENIENT));
}

peg_id chat_response(struct chat_build *b, const char *name)
{
    return peg_tag(b->g, TAG_CONTENT,
                   peg_schema(b->g, peg_json(b->g), slice_of(name), b->in->schema, SCHEMA_STRICT));
}

peg_id chat_response_block(struct chat_build *b, const char *name)
{
    struct peg *g = b->g;
    peg_id json = peg_rule(g, SLICE("response-json"), chat_response(b, name), false);
    peg_id block = chat_spaced(b, peg_text(g, "```json"), json);
    block = chat_spaced(b, block, peg_text(g, "```"));
    return b->in->continue_content.len > 0 ? CHOICE(g, block, json) : block;
}

/* ---- Schemas ------------------------------------------------------------- */

enum { SCHEMA_DEPTH = 32 };

/* What "#/a/b" points to in root. */
static const json_t *follow_ref(const json_t *root, const char *ref)
{
    if (strncmp(ref, "#/", 2) != 0)
        return NULL;
    const json_t *at = root;
    for (const char *part = ref + 2; at && *part;) {
        size_t n = strcspn(part, "/");
        char key[256];
        if (n >= sizeof key)
            return NULL;
        memcpy(key, part, n);
        key[n] = '\0';
        at = json_object_get(at, key);
        part += n + (part[n] == '/');
    }
    return at;
}

static bool is_string(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static bool is_text_type(const json_t *type)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)type, i, one)
    {
        if (is_string(one, "string"))
            return true;
    }
    return is_string(type, "string");
}

static bool any_string(const json_t *values)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)values, i, one)
    {
        if (json_is_string(one))
            return true;
    }
    return false;
}

static bool is_text(const json_t *schema, const json_t *root, int depth)
{
    static const char *const text_formats[] = {"date",  "time",     "date-time", "uri",
                                               "email", "hostname", "ipv4",      "ipv6"};
    size_t i;
    json_t *one;
    if (!json_is_object(schema) || depth > SCHEMA_DEPTH)
        return false;
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref)
        return is_text(follow_ref(root, ref), root, depth + 1);
    if (is_text_type(json_object_get(schema, "type")))
        return true;
    static const char *const any_of[] = {"oneOf", "anyOf"};
    for (int k = 0; k < 2; k++)
        json_array_foreach(json_object_get(schema, any_of[k]), i, one)
        {
            if (is_text(one, root, depth + 1))
                return true;
        }
    const json_t *all = json_object_get(schema, "allOf");
    bool every = all != NULL;
    json_array_foreach((json_t *)all, i, one)
    {
        every = every && is_text(one, root, depth + 1);
    }
    if (every || json_is_string(json_object_get(schema, "const")) ||
        any_string(json_object_get(schema, "enum")) || json_object_get(schema, "pattern") ||
        json_object_get(schema, "minLength") || json_object_get(schema, "maxLength"))
        return true;
    const char *format = json_string_value(json_object_get(schema, "format"));
    for (i = 0; format && i < sizeof text_formats / sizeof *text_formats; i++)
        if (strcmp(format, text_formats[i]) == 0)
            return true;
    return format && strncmp(format, "uuid", 4) == 0;
}

bool chat_schema_is_text(const json_t *schema, const json_t *root)
{
    return is_text(schema, root, 0);
}

json_t *chat_schema_part(const json_t *schema, const json_t *root)
{
    static const char *const definitions[] = {"$defs", "definitions"};
    if (!json_is_object(schema))
        return json_incref((json_t *)schema);
    json_t *part = json_copy((json_t *)schema);
    for (int i = 0; part && i < 2; i++) {
        json_t *known = json_object_get(root, definitions[i]);
        if (known && !json_object_get(part, definitions[i]))
            json_object_set(part, definitions[i], known);
    }
    return part;
}

bool chat_schema_requires(const json_t *root, const char *key)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(root, "required"), i, one)
    {
        if (is_string(one, key))
            return true;
    }
    return false;
}

/* ---- Arguments ----------------------------------------------------------- */

peg_id chat_json_arg(struct chat_build *b, const struct chat_tool *tool, const char *key,
                     const json_t *schema)
{
    struct slice name =
        chat_build_text(b, "tool-%.*s-arg-%s-schema", (int)tool->name.len, tool->name.data, key);
    json_t *part = chat_schema_part(schema, tool->parameters);
    need(b, part != NULL);
    peg_id made = peg_tag(b->g, TAG_TOOL_ARG_VALUE,
                          peg_schema(b->g, peg_json(b->g), name, part, SCHEMA_LENIENT));
    json_decref(part);
    return made;
}

peg_id chat_text_arg(struct chat_build *b, const char *close, bool grammar_through)
{
    struct peg *g = b->g;
    peg_id made = SEQ(g, peg_tag(g, TAG_TOOL_ARG_STRING_VALUE, peg_until(g, close)),
                      peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_CLOSE, peg_text(g, close))));
    struct slice end = slice_of(close);
    return grammar_through ? peg_through(g, made, &end, 1) : made;
}

/* Each of ids once, in any order: a rule for each set that is still to come. Too many for
 * that come in their own order. */
static peg_id permute(struct chat_build *b, struct slice name, const struct peg_ids *ids)
{
    enum { PERMUTE_MAX = 8 };
    struct peg *g = b->g;
    if (ids->n < 2 || ids->n > PERMUTE_MAX)
        return peg_sequence(g, ids->data, ids->n);
    peg_id rules[1 << PERMUTE_MAX] = {PEG_NOTHING};
    for (unsigned set = 1; set < 1u << ids->n; set++) {
        peg_id choices[PERMUTE_MAX];
        size_t n = 0;
        for (unsigned i = 0; i < ids->n; i++)
            if (set >> i & 1u)
                choices[n++] = SEQ(g, ids->data[i], rules[set & ~(1u << i)]);
        rules[set] = peg_rule(g, chat_build_text(b, "%.*s-%u", (int)name.len, name.data, set),
                              peg_choice(g, choices, n), false);
    }
    return rules[(1u << ids->n) - 1];
}

peg_id chat_members(struct chat_build *b, struct slice name, const struct peg_ids *required,
                    const struct peg_ids *optional, bool tight)
{
    struct peg *g = b->g;
    struct peg_ids needed = {0};
    peg_id others = PEG_NOTHING, blank = tight ? PEG_NOTHING : peg_space(g);
    if (optional->n) {
        peg_id any = peg_choice(g, optional->data, optional->n);
        others = peg_any_number(g, tight ? any : SEQ(g, blank, any));
    }
    for (size_t i = 0; i < required->n; i++)
        chat_ids_add(b, &needed, SEQ(g, blank, required->data[i], others));
    peg_id made = SEQ(g, others, permute(b, name, &needed));
    VEC_FREE(&needed);
    return made;
}

peg_id chat_arguments(struct chat_build *b, const struct chat_tool *tool,
                      const struct chat_arg_style *style, bool *has_required)
{
    struct peg *g = b->g;
    struct peg_ids required = {0}, optional = {0};
    const char *key;
    json_t *schema;
    json_object_foreach(json_object_get(tool->parameters, "properties"), key, schema)
    {
        struct slice name =
            chat_build_text(b, "tool-%.*s-arg-%s", (int)tool->name.len, tool->name.data, key);
        peg_id one =
            peg_rule(g, name, style->argument(b, tool, key, schema, style->context), false);
        chat_ids_add(b, chat_schema_requires(tool->parameters, key) ? &required : &optional, one);
    }
    if (has_required)
        *has_required = required.n > 0;
    struct slice name = chat_build_text(b, "tool-%.*s-args", (int)tool->name.len, tool->name.data);
    peg_id made = chat_members(b, name, &required, &optional, style->tight);
    VEC_FREE(&required);
    VEC_FREE(&optional);
    return made;
}

/* ---- Calls as JSON ------------------------------------------------------- */

/* "key" : */
static peg_id json_key(struct chat_build *b, struct slice key)
{
    struct peg *g = b->g;
    return SEQ(g, peg_literal(g, chat_build_text(b, "\"%.*s\"", (int)key.len, key.data)),
               peg_space(g), peg_text(g, ":"), peg_space(g));
}

static peg_id quoted_name(struct chat_build *b, const struct chat_tool *tool)
{
    struct peg *g = b->g;
    peg_id name = peg_atomic(g, peg_tag(g, TAG_TOOL_NAME, peg_literal(g, tool->name)));
    return peg_atomic(g, SEQ(g, peg_text(g, "\""), name, peg_text(g, "\"")));
}

/* An id, as text or number, under its key. */
static peg_id id_field(struct chat_build *b, struct slice key)
{
    struct peg *g = b->g;
    peg_id text =
        SEQ(g, peg_text(g, "\""),
            peg_atomic(g, peg_tag(g, TAG_TOOL_ID, peg_string_content(g, '"'))), peg_text(g, "\""));
    peg_id number = peg_atomic(g, peg_tag(g, TAG_TOOL_ID, peg_json_number(g)));
    return peg_atomic(g, SEQ(g, json_key(b, key), CHOICE(g, text, number)));
}

/* The id with what parts it from the next field, which may be missing. */
static peg_id leading_id(struct chat_build *b, struct slice key, bool comma_must)
{
    struct peg *g = b->g;
    peg_id comma = SEQ(g, peg_text(g, ","), peg_space(g));
    if (key.len == 0 || memchr(key.data, '.', key.len))
        return PEG_NOTHING;
    return peg_optional(
        g, SEQ(g, id_field(b, key), peg_space(g), comma_must ? comma : peg_optional(g, comma)));
}

static peg_id tool_open(struct peg *g, peg_id inner)
{
    return peg_atomic(g, peg_tag(g, TAG_TOOL_OPEN, inner));
}

static peg_id tool_close(struct peg *g, peg_id inner)
{
    return peg_atomic(g, peg_tag(g, TAG_TOOL_CLOSE, inner));
}

/* {"get_weather": {...}} */
static peg_id call_by_key(struct chat_build *b, const struct chat_json_style *s,
                          const struct chat_tool *tool)
{
    struct peg *g = b->g;
    peg_id args = chat_json_args(b, tool);
    if (s->args_key.len)
        args = SEQ(g, json_key(b, s->args_key), args);
    peg_id ids = SEQ(g, leading_id(b, s->id_key, false), leading_id(b, s->made_id_key, false));
    bool bare = s->args_key.len == 0 && s->id_key.len == 0 && s->made_id_key.len == 0;
    peg_id inner = bare ? args
                        : SEQ(g, peg_text(g, "{"), peg_space(g), ids, peg_space(g), args,
                              peg_space(g), peg_text(g, "}"));
    peg_id name = peg_atomic(g, peg_tag(g, TAG_TOOL_NAME, peg_literal(g, tool->name)));
    return SEQ(g, tool_open(g, peg_text(g, "{")), peg_space(g), peg_text(g, "\""), name,
               peg_text(g, "\""), peg_space(g), peg_text(g, ":"), peg_space(g), inner, peg_space(g),
               tool_close(g, peg_text(g, "}")));
}

/* The part of "a.b" before the dot (empty without one), or behind it. */
static struct slice key_part(struct slice key, bool behind)
{
    const char *dot = key.len ? memchr(key.data, '.', key.len) : NULL;
    size_t n = dot ? (size_t)(dot - key.data) : 0;
    if (!behind)
        return (struct slice){key.data, n};
    return dot ? slice_from(key, n + 1) : key;
}

/* {"id": ..., "function": {"name": ..., "arguments": ...}} */
static peg_id call_nested(struct chat_build *b, const struct chat_json_style *s,
                          const struct chat_tool *tool)
{
    struct peg *g = b->g;
    struct slice outer = key_part(s->name_key, false);
    if (outer.len == 0)
        outer = key_part(s->args_key, false);
    peg_id inner = SEQ(g, peg_text(g, "{"), peg_space(g), json_key(b, key_part(s->name_key, true)),
                       quoted_name(b, tool), peg_space(g), peg_text(g, ","), peg_space(g),
                       json_key(b, key_part(s->args_key, true)), chat_json_args(b, tool),
                       peg_space(g), peg_text(g, "}"));
    return SEQ(g, tool_open(g, peg_text(g, "{")), peg_space(g), leading_id(b, s->id_key, true),
               leading_id(b, s->made_id_key, true), json_key(b, outer), inner, peg_space(g),
               tool_close(g, peg_text(g, "}")));
}

static size_t order_of(const struct chat_json_style *s, struct slice key)
{
    for (size_t i = 0; i < s->n_order; i++)
        if (slice_equal(s->order[i], key))
            return i;
    return s->n_order;
}

/* {"name": ..., "arguments": ..., "id": ...} in the template's order */
static peg_id call_flat(struct chat_build *b, const struct chat_json_style *s,
                        const struct chat_tool *tool)
{
    struct peg *g = b->g;
    struct {
        size_t order;
        peg_id id;
    } fields[4];
    size_t n = 0;
    const struct slice keys[4] = {s->name_key, s->args_key, s->id_key, s->made_id_key};
    for (size_t i = 0; i < 4; i++) {
        if (keys[i].len == 0)
            continue;
        peg_id field = i == 0   ? SEQ(g, json_key(b, keys[0]), quoted_name(b, tool))
                       : i == 1 ? SEQ(g, json_key(b, keys[1]), chat_json_args(b, tool))
                                : peg_optional(g, id_field(b, keys[i]));
        size_t order = order_of(s, keys[i]), k = n++;
        for (; k > 0 && fields[k - 1].order > order; k--)
            fields[k] = fields[k - 1];
        fields[k].order = order;
        fields[k].id = field;
    }
    peg_id wrapper = PEG_NOTHING;
    if (s->wrapper_may_lead)
        wrapper = peg_optional(g, SEQ(g, json_key(b, SLICE("type")), peg_text(g, "\"function\""),
                                      peg_space(g), peg_text(g, ","), peg_space(g)));
    peg_id body = SEQ(g, tool_open(g, peg_text(g, "{")), peg_space(g), wrapper);
    for (size_t i = 0; i < n; i++)
        body = i ? SEQ(g, body, peg_space(g), peg_text(g, ","), peg_space(g), fields[i].id)
                 : SEQ(g, body, fields[i].id);
    return SEQ(g, body, peg_space(g), tool_close(g, peg_text(g, "}")));
}

peg_id chat_json_calls(struct chat_build *b, const struct chat_json_style *given)
{
    struct peg *g = b->g;
    struct chat_json_style s = *given;
    struct peg_ids tools = {0};
    struct chat_tool tool;
    if (!s.name_is_key && s.name_key.len == 0)
        s.name_key = SLICE("name");
    if (!s.name_is_key && s.args_key.len == 0)
        s.args_key = SLICE("arguments");
    bool nested = key_part(s.name_key, false).len || key_part(s.args_key, false).len;
    for (size_t i = 0; chat_build_tool(b, i, &tool); i++) {
        peg_id call = s.name_is_key ? call_by_key(b, &s, &tool)
                      : nested      ? call_nested(b, &s, &tool)
                                    : call_flat(b, &s, &tool);
        struct slice name = chat_build_text(b, "tool-%.*s", (int)tool.name.len, tool.name.data);
        chat_ids_add(b, &tools, peg_rule(g, name, peg_tag(g, TAG_TOOL, call), false));
    }
    peg_id one = chat_choice_of(b, &tools), calls = one;
    if (b->in->parallel_tool_calls)
        calls = SEQ(g, one,
                    peg_any_number(g, SEQ(g, peg_space(g), peg_text(g, ","), peg_space(g), one)));
    if (s.in_array)
        calls = SEQ(g, peg_text(g, "["), peg_space(g), calls, peg_space(g), peg_text(g, "]"));
    peg_id section = peg_rule(g, SLICE("tool-call"),
                              SEQ(g, peg_literal(g, s.section_start), peg_space(g), calls,
                                  peg_space(g), peg_literal(g, s.section_end)),
                              true);
    return s.forced ? section : peg_optional(g, section);
}
