/* chat_generate.c - the parser for a template that was analyzed. */
#include "chat/chat_analysis.h"
#include "chat/chat_build.h"

#include <stdlib.h>

struct generator {
    struct chat_build b;
    const struct chat_analysis *a;
    peg_id reasoning; /* reads a thought, or nothing */
};

static peg_id lit(struct generator *z, struct slice text)
{
    return peg_literal(z->b.g, text);
}

/* text, of which the blanks at both ends may be missing. */
static peg_id loosely(struct generator *z, struct slice text)
{
    struct peg *g = z->b.g;
    struct slice core = chat_trim(text);
    if (core.len == 0)
        core = (struct slice){text.data + text.len, 0};
    peg_id made = PEG_NOTHING;
    for (const char *c = text.data; c < core.data; c++)
        made = SEQ(g, made, peg_optional(g, lit(z, (struct slice){c, 1})));
    made = SEQ(g, made, lit(z, core));
    for (const char *c = core.data + core.len; c < text.data + text.len; c++)
        made = SEQ(g, made, peg_optional(g, lit(z, (struct slice){c, 1})));
    return made;
}

static peg_id build_reasoning(struct generator *z)
{
    struct peg *g = z->b.g;
    const struct chat_analysis *a = z->a;
    /* wrapped content has no place for a thought */
    bool apart = chat_build_reads_thoughts(&z->b) || (a->content_wrapped && z->b.required);
    if (!apart || a->reasoning == REASONING_NONE || a->reasoning_end.len == 0)
        return PEG_NOTHING;
    peg_id thought =
        SEQ(g, chat_thought_text(&z->b, peg_until_slice(g, chat_trim(a->reasoning_end))),
            loosely(z, a->reasoning_end));
    if (a->reasoning_start.len)
        thought = SEQ(g, loosely(z, a->reasoning_start), thought);
    return chat_build_thought(&z->b, chat_thought_whole(&z->b, thought),
                              chat_trim(a->reasoning_start), chat_trim(a->reasoning_end));
}

static peg_id content_until(struct generator *z, struct slice text)
{
    return peg_tag(z->b.g, TAG_CONTENT, peg_until_slice(z->b.g, text));
}

static peg_id content_before_calls(struct generator *z, struct slice marker)
{
    bool thinks = z->reasoning != PEG_NOTHING;
    return chat_content_before(&z->b, &marker, 1,
                               thinks ? chat_trim(z->a->reasoning_start) : SLICE(""));
}

static peg_id build_content(struct generator *z)
{
    struct peg *g = z->b.g;
    const struct chat_analysis *a = z->a;
    if (!a->content_wrapped)
        return SEQ(g, z->reasoning, peg_tag(g, TAG_CONTENT, peg_rest(g)), peg_end(g));
    bool extracting = z->b.extract && a->reasoning != REASONING_NONE;
    return SEQ(g, extracting ? z->reasoning : content_until(z, a->content_start),
               lit(z, a->content_start), content_until(z, a->content_end), lit(z, a->content_end),
               peg_end(g));
}

/* ---- Calls as JSON ------------------------------------------------------- */

static struct slice under(struct generator *z, struct slice outer, struct slice key)
{
    return chat_build_text(&z->b, "%.*s.%.*s", (int)outer.len, outer.data, (int)key.len, key.data);
}

static peg_id build_json_calls(struct generator *z)
{
    struct peg *g = z->b.g;
    const struct chat_analysis *a = z->a;
    bool per_call = a->section_start.len == 0 && a->call_start.len > 0;
    struct chat_json_style style = {
        .section_start = per_call ? a->call_start : a->section_start,
        .section_end = per_call ? a->call_end : a->section_end,
        .name_key = a->name_field,
        .args_key = a->args_field,
        .id_key = a->id_field,
        .made_id_key = a->made_id_field,
        .order = a->field_order,
        .n_order = a->n_field_order,
        .in_array = a->in_array,
        .name_is_key = a->name_is_key,
        .wrapper_may_lead = a->wrapper_may_lead,
        .forced = z->b.required,
    };
    bool dotted = a->name_field.len && memchr(a->name_field.data, '.', a->name_field.len);
    if (a->function_field.len && !slice_equal_text(a->function_field, "function") && !dotted) {
        style.name_key = under(z, a->function_field, a->name_field);
        style.args_key = under(z, a->function_field, a->args_field);
    }
    peg_id calls = chat_json_calls(&z->b, &style);
    if (per_call)
        calls = peg_rule(g, SLICE("tool-calls"), peg_some(g, SEQ(g, calls, peg_space(g))), true);
    peg_id content;
    if (a->content_wrapped)
        content = peg_optional(g, SEQ(g, lit(z, a->content_start), content_until(z, a->content_end),
                                      lit(z, a->content_end)));
    else
        content = peg_optional(g, content_before_calls(z, a->section_start.len ? a->section_start
                                                          : a->call_start.len  ? a->call_start
                                                                               : SLICE("{")));
    return SEQ(g, z->reasoning, content, calls, peg_end(g));
}

/* ---- Calls in tags ------------------------------------------------------- */

/* An id between the name and the arguments. */
static peg_id build_call_id(struct generator *z, bool *has_id)
{
    struct peg *g = z->b.g;
    const struct chat_analysis *a = z->a;
    *has_id = a->id_between_name_and_args && a->id_prefix.len && a->id_suffix.len;
    if (!*has_id)
        return PEG_NOTHING;
    peg_id id = SEQ(g, lit(z, a->id_prefix),
                    peg_atomic(g, peg_tag(g, TAG_TOOL_ID, peg_until_slice(g, a->id_suffix))));
    return a->calls == CALLS_TAGGED_JSON ? SEQ(g, peg_optional(g, id), lit(z, a->id_suffix))
                                         : peg_optional(g, SEQ(g, id, lit(z, a->id_suffix)));
}

/* A call: its name, id, arguments and end. first: what must follow the name
 * before it shows; PEG_NOTHING for none. */
static peg_id build_function(struct generator *z, const struct chat_tool *tool, peg_id args,
                             peg_id first)
{
    struct peg *g = z->b.g;
    const struct chat_analysis *a = z->a;
    bool has_id;
    peg_id id = build_call_id(z, &has_id);
    peg_id name = peg_atomic(g, peg_tag(g, TAG_TOOL_NAME, lit(z, tool->name)));
    peg_id open = peg_atomic(
        g, peg_tag(g, TAG_TOOL_OPEN, SEQ(g, lit(z, a->name_prefix), name, lit(z, a->name_suffix))));
    if (a->args_separator.len)
        open = SEQ(g, open, peg_space(g), lit(z, a->args_separator));
    bool shows = true; /* the name shows before the call is whole */
    peg_id call;
    if (a->name_suffix.len) {
        call = SEQ(g, open, id, peg_space(g), args);
    } else if (has_id) {
        call = SEQ(g, peg_atomic(g, SEQ(g, open, id)), peg_space(g), args);
    } else if (first) {
        call = SEQ(g, peg_atomic(g, SEQ(g, open, peg_space(g), peg_ahead(g, first))), args);
    } else {
        call = SEQ(g, open, peg_space(g), args);
        shows = false;
    }
    peg_id close;
    if (a->close.len) {
        close = lit(z, a->close);
        call = SEQ(g, call, peg_space(g));
    } else if (a->call_end.len) {
        /* What looks like the end must be it: "</" may also open an argument. */
        peg_id end = lit(z, a->call_end);
        close = peg_ahead(g, a->blanks_between_tags ? SEQ(g, peg_space(g), end) : end);
    } else {
        close = peg_space(g);
    }
    call = SEQ(g, call, peg_atomic(g, peg_tag(g, TAG_TOOL_CLOSE, close)));
    return shows ? call : peg_atomic(g, call);
}

/* All the calls of an answer, in their section. loose: blanks may stand around
 * each. */
static peg_id build_section(struct generator *z, peg_id one, bool loose)
{
    struct peg *g = z->b.g;
    const struct chat_analysis *a = z->a;
    bool parallel = z->b.in->parallel_tool_calls;
    peg_id blank = loose ? peg_space(g) : PEG_NOTHING, calls;
    if (a->call_start.len) {
        peg_id call = SEQ(g, lit(z, a->call_start), blank, one, blank, lit(z, a->call_end));
        peg_id all = parallel ? SEQ(g, call, peg_any_number(g, SEQ(g, peg_space(g), call))) : call;
        calls = peg_rule(g, SLICE("tool-call"), SEQ(g, all, blank), true);
        if (a->section_start.len)
            calls = peg_rule(
                g, SLICE("tool-calls"),
                SEQ(g, lit(z, a->section_start), peg_space(g), calls, peg_space(g),
                    a->section_end.len ? SEQ(g, lit(z, a->section_end), blank) : peg_end(g)),
                true);
    } else {
        peg_id more = parallel ? peg_any_number(g, SEQ(g, peg_text(g, ", "), one)) : PEG_NOTHING;
        calls = peg_rule(
            g, SLICE("tool-call"),
            SEQ(g, lit(z, a->section_start), blank, one, more, blank, lit(z, a->section_end)),
            true);
    }
    struct slice marker = a->section_start.len ? a->section_start : a->call_start;
    peg_id content = marker.len ? peg_optional(g, content_before_calls(z, marker)) : PEG_NOTHING;
    return SEQ(g, z->reasoning, content, z->b.required ? calls : peg_optional(g, calls),
               peg_end(g));
}

static peg_id build_tagged_argument(struct chat_build *b, const struct chat_tool *tool,
                                    const char *key, const json_t *schema, const void *context)
{
    const struct chat_analysis *a = context;
    struct peg *g = b->g;
    peg_id open = SEQ(g, peg_literal(g, a->arg_name_prefix),
                      peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_NAME, peg_text(g, key))),
                      peg_literal(g, a->arg_name_suffix));
    peg_id close =
        peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_CLOSE, peg_literal(g, a->arg_value_suffix)));
    peg_id value;
    if (chat_schema_is_text(schema, tool->parameters)) {
        value =
            SEQ(g, peg_tag(g, TAG_TOOL_ARG_STRING_VALUE, peg_until_slice(g, a->arg_value_suffix)),
                close);
        if (a->arg_value_suffix.len)
            value = peg_through(g, value, &a->arg_value_suffix, 1);
    } else {
        value = SEQ(g, chat_json_arg(b, tool, key, schema), close);
    }
    return peg_tag(g, TAG_TOOL_ARG,
                   SEQ(g, peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_OPEN, open)),
                       peg_literal(g, a->arg_value_prefix), value));
}

static peg_id build_tagged_calls(struct generator *z)
{
    struct peg *g = z->b.g;
    const struct chat_analysis *a = z->a;
    struct peg_ids tools = {0};
    struct chat_tool tool;
    bool tagged = a->calls == CALLS_TAGGED;
    for (size_t i = 0; chat_build_tool(&z->b, i, &tool); i++) {
        struct chat_arg_style style = {.argument = build_tagged_argument, .context = a};
        bool has_required = false;
        peg_id args = tagged ? chat_arguments(&z->b, &tool, &style, &has_required)
                             : chat_json_args(&z->b, &tool);
        peg_id first = tagged && has_required && a->arg_name_prefix.len ? lit(z, a->arg_name_prefix)
                                                                        : PEG_NOTHING;
        struct slice name = chat_build_text(&z->b, "tool-%.*s", (int)tool.name.len, tool.name.data);
        chat_ids_add(&z->b, &tools,
                     peg_rule(g, name, build_function(z, &tool, args, first), false));
    }
    return build_section(z, chat_choice_of(&z->b, &tools), tagged);
}

/* ---- All ----------------------------------------------------------------- */

static peg_id build_calls(struct generator *z)
{
    switch (z->a->calls) {
    case CALLS_JSON:
        return build_json_calls(z);
    case CALLS_TAGGED_JSON:
    case CALLS_TAGGED:
        return build_tagged_calls(z);
    default:
        return build_content(z);
    }
}

static peg_id build_response(struct generator *z)
{
    struct peg *g = z->b.g;
    peg_id json = peg_rule(g, SLICE("response-format"),
                           chat_response(&z->b, "response-format-schema"), false);
    return SEQ(
        g, z->reasoning, peg_space(g),
        CHOICE(g,
               SEQ(g, peg_text(g, "```json"), peg_space(g), json, peg_space(g), peg_text(g, "```")),
               SEQ(g, peg_space(g), json, peg_space(g))),
        peg_end(g));
}

/* The prompt of a message to go on with: the usual opening up to the thought,
 * the thought, and the content as far as they are there. */
static void build_continuation(struct generator *z)
{
    const struct chat_inputs *in = z->b.in;
    struct str *prompt = &z->b.out->generation_prompt;
    if (!in->has_continuation)
        return;
    bool content = in->continuation == CHAT_CONTINUE_CONTENT;
    if (z->a->reasoning_start.len) {
        char *start = slice_duplicate(z->a->reasoning_start);
        const char *found = start ? strstr(str_text(prompt), start) : NULL;
        if (found)
            str_truncate(prompt, (size_t)(found - str_text(prompt)));
        free(start);
        str_append_slice(prompt, z->a->reasoning_start);
        str_append_slice(prompt, str_slice(&in->continue_reasoning));
        if (content)
            str_append_slice(prompt, z->a->reasoning_end);
    }
    if (content)
        str_append_slice(prompt, str_slice(&in->continue_content));
    str_append_slice(&z->b.out->text, str_slice(prompt));
}

static void describe(struct generator *z)
{
    const struct chat_analysis *a = z->a;
    struct chat_build *b = &z->b;
    for (size_t i = 0; i < a->n_preserved; i++) {
        struct slice token =
            chat_build_text(b, "%.*s", (int)a->preserved[i].len, a->preserved[i].data);
        chat_build_preserve(b, (const char *const[]){token.data, NULL});
    }
    if (a->stop.len && !chat_texts_add(&b->out->stops, a->stop.data))
        error_memory(b->err);
    struct slice start = chat_build_text(b, "%.*s", (int)a->assistant_start.len,
                                         a->assistant_start.data),
                 user = chat_build_text(b, "%.*s", (int)a->user_start.len, a->user_start.data);
    if (start.len)
        chat_build_delimiter(b, "assistant", start.data);
    if (user.len)
        chat_build_delimiter(b, "user", user.data);
    if (a->reasoning != REASONING_NONE) {
        struct slice open = chat_trim(a->reasoning_start), close = chat_trim(a->reasoning_end);
        open = chat_build_text(b, "%.*s", (int)open.len, open.data);
        close = chat_build_text(b, "%.*s", (int)close.len, close.data);
        chat_build_thinking(b, open.data,
                            (const char *const[]){close.len ? close.data : NULL, NULL});
    }
}

bool chat_generate(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    struct generator z = {.a = in->t->analysis};
    if (!z.a) {
        if (err)
            *err = in->t->analysis_error;
        return false;
    }
    if (!chat_build_begin(&z.b, in, NULL, NULL, out, err))
        return chat_build_end(&z.b, PEG_NOTHING, false, false);
    struct peg *g = z.b.g;
    /* the parser starts with the usual opening, up to where a thought starts */
    struct slice opening = chat_build_text(&z.b, "%s", str_text(&out->generation_prompt));
    struct slice think = chat_trim(z.a->reasoning_start);
    for (size_t i = 0; think.len && i + think.len <= opening.len; i++)
        if (memcmp(opening.data + i, think.data, think.len) == 0)
            opening.len = i;
    build_continuation(&z);
    describe(&z);
    z.reasoning = build_reasoning(&z);
    bool pure = false, calls = z.b.with_tools && z.a->calls != CALLS_NONE;
    peg_id body;
    if (in->schema) {
        body = build_response(&z);
    } else if (calls) {
        body = build_calls(&z);
    } else {
        body = build_content(&z);
        pure = z.a->reasoning == REASONING_NONE;
    }
    peg_id root =
        pure ? SEQ(g, lit(&z, opening), body) : SEQ(g, lit(&z, opening), peg_space(g), body);
    struct slice marker = z.a->section_start.len ? z.a->section_start : z.a->call_start;
    bool has_tools = z.a->calls != CALLS_NONE && in->tools;
    bool automatic = in->tool_choice == CHAT_TOOLS_AUTO;
    bool grammar = in->schema || (has_tools && ((automatic && marker.len) || z.b.required));
    bool lazy = !in->schema && automatic;
    if (grammar && lazy) {
        chat_build_trigger(&z.b, CHAT_TRIGGER_WORD,
                           chat_build_text(&z.b, "%.*s", (int)marker.len, marker.data).data);
        if (z.a->wrapper_may_lead)
            chat_build_trigger(&z.b, CHAT_TRIGGER_WORD, "{\"type\": \"function\",");
    }
    return chat_build_end(&z.b, root, grammar, lazy);
}
