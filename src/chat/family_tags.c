/* family_tags.c - families that write each argument of a call in a tag. */
#include "chat/chat_build.h"
#include "chat/families.h"

static peg_id tool_close(struct peg *g, peg_id inner)
{
    return peg_atomic(g, peg_tag(g, TAG_TOOL_CLOSE, inner));
}

static peg_id arg_name(struct peg *g, const char *key)
{
    return peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_NAME, peg_text(g, key)));
}

static peg_id arg_open(struct peg *g, peg_id inner)
{
    return peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_OPEN, inner));
}

static peg_id arg_close(struct peg *g, const char *text)
{
    return peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_CLOSE, peg_text(g, text)));
}

/* The value of an argument up to its closing tag: text as it is, else JSON. */
static peg_id arg_value(struct chat_build *b, const struct chat_tool *tool, const char *key,
                        const json_t *schema, const char *close)
{
    return chat_schema_is_text(schema, tool->parameters)
               ? chat_text_arg(b, close, true)
               : SEQ(b->g, chat_json_arg(b, tool, key, schema), arg_close(b->g, close));
}

/* Any of the arguments, any number of them, blanks between. */
static peg_id loose_arguments(struct chat_build *b, const struct chat_tool *tool,
                              peg_id (*one)(struct chat_build *, const struct chat_tool *,
                                            const char *, const json_t *),
                              bool blanks)
{
    struct peg *g = b->g;
    struct peg_ids all = {0};
    const char *key;
    json_t *schema;
    json_object_foreach(json_object_get(tool->parameters, "properties"), key, schema)
    {
        chat_ids_add(b, &all, one(b, tool, key, schema));
    }
    if (all.n == 0)
        return PEG_NOTHING;
    peg_id any = chat_choice_of(b, &all);
    return peg_any_number(g, blanks ? SEQ(g, any, peg_space(g)) : any);
}

/* ---- Qwen3-Coder --------------------------------------------------------- */

static peg_id qwen_argument(struct chat_build *b, const struct chat_tool *tool, const char *key,
                            const json_t *schema, const void *context)
{
    struct peg *g = b->g;
    (void)context;
    return peg_tag(
        g, TAG_TOOL_ARG,
        SEQ(g,
            arg_open(g, SEQ(g, peg_text(g, "<parameter="), arg_name(g, key), peg_text(g, ">\n"))),
            arg_value(b, tool, key, schema, "\n</parameter>\n")));
}

static peg_id qwen_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    struct peg *g = b->g;
    const struct chat_arg_style style = {.argument = qwen_argument, .tight = true};
    (void)context;
    return peg_tag(g, TAG_TOOL,
                   SEQ(g,
                       chat_tool_open(g, SEQ(g, peg_text(g, "<function="), chat_tool_name(g, tool),
                                             peg_text(g, ">\n"))),
                       peg_tag(g, TAG_TOOL_ARGS, chat_arguments(b, tool, &style, NULL)),
                       tool_close(g, peg_text(g, "</function>\n"))));
}

struct texts {
    struct slice *data;
    size_t n, capacity;
};

/* Calls start with their tag, or where the model leaves that out with a known
 * function's. */
static struct texts qwen_starts(struct chat_build *b)
{
    struct texts starts = {0};
    struct chat_tool tool;
    bool ok = VEC_PUSH(&starts, SLICE("<tool_call>"));
    for (size_t i = 0; chat_build_tool(b, i, &tool); i++)
        ok = ok && VEC_PUSH(&starts, chat_build_text(b, "<function=%.*s>", (int)tool.name.len,
                                                     tool.name.data));
    if (!ok)
        error_memory(b->err);
    return starts;
}

static peg_id qwen_calls(struct chat_build *b, const struct texts *starts)
{
    struct peg *g = b->g;
    for (size_t i = 0; i < starts->n; i++)
        if (b->in->tool_choice == CHAT_TOOLS_AUTO)
            chat_build_trigger(b, CHAT_TRIGGER_WORD, starts->data[i].data);
    bool thinks = chat_template_has(b->in->t, "<think>");
    peg_id content =
        chat_content_before(b, starts->data, starts->n, thinks ? SLICE("<think>") : SLICE(""));
    peg_id body =
        SEQ(g, chat_tool_choice(b, qwen_call, NULL), peg_text(g, "</tool_call>"), peg_space(g));
    peg_id tag = peg_text(g, "<tool_call>\n");
    peg_id first = peg_rule(g, SLICE("tool-call-first"), SEQ(g, peg_optional(g, tag), body), false);
    peg_id more = peg_rule(g, SLICE("tool-call"), SEQ(g, tag, body), false);
    peg_id calls = b->in->parallel_tool_calls ? SEQ(g, first, peg_any_number(g, more)) : first;
    return chat_spaced(
        b, content,
        peg_rule(g, SLICE("tool-call-root"), peg_repeat(g, calls, b->required, 1), true));
}

/* A thought may also be left by calling. Where a call is required the text that
 * leaves it is all that a call may start with. */
static peg_id qwen_thought(struct chat_build *b, const struct texts *starts)
{
    struct peg *g = b->g;
    struct slice ends[2] = {SLICE("</think>"), SLICE("<tool_call>")};
    peg_id inner = peg_until_any(g, ends, 2), call = peg_text(g, "<tool_call>");
    if (b->in->schema) {
        inner = chat_thought_text(b, peg_until(g, "</think>"));
        peg_id thought =
            SEQ(g, peg_text(g, "<think>"), peg_space(g), inner, peg_text(g, "</think>"));
        return peg_optional(g, chat_thought_whole(b, thought));
    }
    if (b->required && b->with_tools) {
        struct texts all = {0};
        struct peg_ids calls = {0};
        bool ok = VEC_PUSH(&all, ends[0]);
        for (size_t i = 0; i < starts->n; i++) {
            ok = ok && VEC_PUSH(&all, starts->data[i]);
            chat_ids_add(b, &calls, peg_literal(g, starts->data[i]));
        }
        if (!ok)
            error_memory(b->err);
        inner = peg_until_any(g, all.data, all.n);
        call = chat_choice_of(b, &calls);
        VEC_FREE(&all);
    }
    return chat_build_thought(b,
                              SEQ(g, peg_text(g, "<think>"), peg_space(g),
                                  peg_tag(g, TAG_REASONING, inner),
                                  CHOICE(g, peg_text(g, "</think>"), peg_ahead(g, call))),
                              SLICE("<think>"), SLICE("</think>"));
}

bool family_qwen_coder(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char opening[] = "<|im_start|>assistant\n";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    bool thinks = chat_template_has(in->t, "<think>");
    chat_build_preserve(&b, TOKENS("<tool_call>", "</tool_call>"));
    if (thinks) {
        chat_build_thinking(&b, "<think>", TOKENS("</think>", "<tool_call>"));
        chat_build_preserve(&b, TOKENS("<think>", "</think>"));
    }
    chat_build_delimiter(&b, "assistant", "<|im_start|>assistant");
    chat_build_delimiter(&b, "tool", "<|im_start|>user\n<tool_response>");
    chat_build_delimiter(&b, "tool", "<|im_start|>tool_response");
    chat_build_delimiter(&b, "user", "<|im_start|>user");
    chat_build_delimiter(&b, "system", "<|im_start|>system");
    chat_build_continue(&b, opening, thinks ? "<think>\n" : "", thinks ? "\n</think>\n\n" : "");
    struct texts starts = qwen_starts(&b);
    peg_id thought =
               thinks && chat_build_reads_thoughts(&b) ? qwen_thought(&b, &starts) : PEG_NOTHING,
           body;
    if (in->schema)
        body = chat_response(&b, "response-format");
    else
        body = b.with_tools ? qwen_calls(&b, &starts) : chat_content_rest(g);
    VEC_FREE(&starts);
    return chat_build_end(&b, SEQ(g, peg_text(g, opening), chat_spaced(&b, thought, body)),
                          in->schema || b.with_tools,
                          !in->schema && in->tool_choice == CHAT_TOOLS_AUTO);
}

/* ---- MiniCPM5 ------------------------------------------------------------ */

static peg_id minicpm_argument(struct chat_build *b, const struct chat_tool *tool, const char *key,
                               const json_t *schema)
{
    static const char close[] = "</param>";
    struct peg *g = b->g;
    peg_id value = arg_value(b, tool, key, schema, close);
    if (chat_schema_is_text(schema, tool->parameters)) {
        /* CDATA lets a value hold what would close the tag */
        struct slice end = SLICE("]]>");
        peg_id inner =
            SEQ(g, peg_tag(g, TAG_TOOL_ARG_STRING_VALUE, peg_until(g, "]]>")), peg_text(g, "]]>"));
        peg_id cdata = peg_text(g, "<![CDATA[");
        value = CHOICE(g, SEQ(g, cdata, peg_through(g, inner, &end, 1), arg_close(g, close)),
                       SEQ(g, peg_not_ahead(g, cdata), value));
    }
    return peg_tag(g, TAG_TOOL_ARG,
                   SEQ(g,
                       arg_open(g, SEQ(g, peg_text(g, "<param name=\""), arg_name(g, key),
                                       peg_text(g, "\">"))),
                       value));
}

static peg_id minicpm_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    struct peg *g = b->g;
    (void)context;
    peg_id open = chat_tool_open(
        g, SEQ(g, peg_text(g, "<function name=\""), chat_tool_name(g, tool), peg_text(g, "\">")));
    peg_id args = peg_tag(g, TAG_TOOL_ARGS, loose_arguments(b, tool, minicpm_argument, true));
    peg_id made =
        chat_spaced(b, chat_spaced(b, open, args), tool_close(g, peg_text(g, "</function>")));
    return peg_tag(g, TAG_TOOL, made);
}

bool family_minicpm(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char opening[] = "<|im_start|>assistant\n";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    chat_build_thinking(&b, "<think>", TOKENS("</think>"));
    chat_build_preserve(
        &b, TOKENS("<function", "<param", "</function>", "</param>", "<think>", "</think>"));
    chat_build_delimiter(&b, "assistant", "<|im_start|>assistant");
    chat_build_delimiter(&b, "tool", "<|im_start|>user\n<tool_response>");
    chat_build_delimiter(&b, "user", "<|im_start|>user");
    chat_build_delimiter(&b, "system", "<|im_start|>system");
    chat_build_continue(&b, opening, "<think>\n", "\n</think>\n\n");
    peg_id thought = PEG_NOTHING, body;
    if (chat_build_reads_thoughts(&b)) {
        thought = chat_spaced(&b, peg_text(g, "<think>"),
                              chat_thought_text(&b, peg_until(g, "</think>")));
        thought = chat_thought_whole(&b, chat_spaced(&b, thought, peg_text(g, "</think>")));
        thought = SEQ(g, thought, peg_space(g));
    }
    if (in->schema) {
        body = chat_response(&b, "response-format");
    } else if (b.with_tools) {
        peg_id call = SEQ(g, chat_tool_choice(&b, minicpm_call, NULL), peg_space(g));
        peg_id calls = peg_rule(g, SLICE("tool-call"),
                                peg_repeat(g, call, 1, in->parallel_tool_calls ? -1 : 1), true);
        body = SEQ(g, chat_content_until(g, "<function"),
                   b.required ? calls : peg_optional(g, calls), peg_end(g));
    } else {
        body = SEQ(g, chat_content_rest(g), peg_end(g));
    }
    if (in->schema || b.with_tools)
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, "<function");
    return chat_build_end(&b, SEQ(g, peg_text(g, opening), thought, body),
                          in->schema || b.with_tools, !(in->schema || (in->tools && b.required)));
}

/* ---- Muse Glimmer -------------------------------------------------------- */

static peg_id muse_argument(struct chat_build *b, const struct chat_tool *tool, const char *key,
                            const json_t *schema)
{
    struct peg *g = b->g;
    return peg_tag(g, TAG_TOOL_ARG,
                   SEQ(g,
                       arg_open(g, SEQ(g, peg_text(g, "<atem:parameter name=\""), arg_name(g, key),
                                       peg_text(g, "\">"))),
                       arg_value(b, tool, key, schema, "</atem:parameter>")));
}

static peg_id muse_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    struct peg *g = b->g;
    (void)context;
    peg_id open = chat_tool_open(g, SEQ(g, peg_text(g, " to="), peg_until(g, "<|message|>"),
                                        peg_text(g, "<|message|><atem:function_calls>"),
                                        peg_space(g), peg_text(g, "<atem:invoke name=\""),
                                        chat_tool_name(g, tool), peg_text(g, "\">"), peg_space(g)));
    peg_id args = peg_tag(g, TAG_TOOL_ARGS, loose_arguments(b, tool, muse_argument, true));
    peg_id close = tool_close(g, SEQ(g, peg_text(g, "</atem:invoke>"), peg_space(g),
                                     peg_text(g, "</atem:function_calls>")));
    return peg_tag(g, TAG_TOOL, chat_spaced(b, chat_spaced(b, open, args), close));
}

bool family_muse(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char opening[] = "<|start|>assistant";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    str_clear(&out->generation_prompt);
    str_append_text(&out->generation_prompt, opening);
    out->supports_thinking = true;
    chat_build_preserve(&b,
                        TOKENS("<|start|>", "<|message|>", "<|eom|>", "<|eot|>",
                               "<atem:function_calls>", "<atem:invoke", "<atem:parameter",
                               "</atem:parameter>", "</atem:invoke>", "</atem:function_calls>"));
    chat_build_delimiter(&b, "assistant", opening);
    chat_build_delimiter(&b, "user", "<|start|>user");
    chat_build_delimiter(&b, "system", "<|start|>system");
    chat_build_delimiter(&b, "tool", "<|start|>tool");
    chat_build_continue(&b, opening, " to=self<|message|>",
                        "<|eom|><|start|>assistant to=user<|message|>");
    peg_id start = peg_rule(g, SLICE("start"), peg_text(g, opening), false);
    if (!b.extract && !b.with_tools && !in->schema)
        return chat_build_end(&b, SEQ(g, start, chat_content_rest(g)), false, false);
    peg_id thought =
        peg_rule(g, SLICE("analysis"),
                 SEQ(g, peg_text(g, " to=self<|message|>"),
                     peg_tag(g, b.extract ? TAG_REASONING : TAG_CONTENT, peg_until(g, "<|eom|>")),
                     peg_text(g, "<|eom|>")),
                 false);
    const struct slice ends[] = {SLICE("<|eot|>"), SLICE("<|eom|>")};
    peg_id answer =
        peg_rule(g, SLICE("final"),
                 SEQ(g, peg_optional(g, peg_text(g, " to=user")), peg_text(g, "<|message|>"),
                     in->schema ? chat_response(&b, "response-format")
                                : peg_tag(g, TAG_CONTENT, peg_until_any(g, ends, 2))),
                 false);
    peg_id thoughts = peg_any_number(g, SEQ(g, start, thought)), body = answer;
    if (!in->schema && b.with_tools) {
        chat_build_trigger(&b, CHAT_TRIGGER_PATTERN,
                           "<\\|start\\|>assistant( to=(?!self<\\|message\\|>)"
                           "(?!user<\\|message\\|>)[^<]*?<\\|message\\|>)");
        peg_id one = chat_tool_choice(&b, muse_call, NULL), calls = one;
        if (in->parallel_tool_calls)
            calls = SEQ(g, one, peg_any_number(g, SEQ(g, peg_text(g, "<|eom|>"), start, one)));
        calls = peg_rule(g, SLICE("tool-call"), calls, true);
        peg_id later = peg_optional(g, SEQ(g, peg_text(g, "<|eom|>"), start, calls));
        body = b.required ? calls : CHOICE(g, calls, SEQ(g, answer, later));
    }
    return chat_build_end(&b, SEQ(g, thoughts, start, body), in->schema || b.with_tools,
                          !in->schema && !b.required);
}

/* ---- Kimi K3: <|open|>tag<|sep|> ... <|close|>tag<|sep|> ----------------- */

static peg_id kimi_argument(struct chat_build *b, const struct chat_tool *tool, const char *key,
                            const json_t *schema)
{
    static const char close[] = "<|close|>argument<|sep|>";
    struct peg *g = b->g;
    const char *type = json_string_value(json_object_get(schema, "type"));
    bool text = !type || strcmp(type, "string") == 0;
    /* the attribute that says the type is skipped: the schema knows it */
    peg_id made = peg_tag(
        g, TAG_TOOL_ARG,
        SEQ(g, arg_open(g, peg_text(g, "<|open|>argument key=\"")), arg_name(g, key),
            peg_text(g, "\""), peg_until(g, "<|sep|>"), peg_text(g, "<|sep|>"),
            peg_tag(g, text ? TAG_TOOL_ARG_STRING_VALUE : TAG_TOOL_ARG_VALUE, peg_until(g, close)),
            arg_close(g, close)));
    struct slice name =
        chat_build_text(b, "kimi-k3-arg-%.*s-%s", (int)tool->name.len, tool->name.data, key);
    return peg_rule(g, name, made, false);
}

static peg_id kimi_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    struct peg *g = b->g;
    (void)context;
    return peg_tag(g, TAG_TOOL,
                   SEQ(g,
                       chat_tool_open(g, SEQ(g, peg_text(g, "<|open|>call tool=\""),
                                             chat_tool_name(g, tool), peg_text(g, "\""),
                                             peg_until(g, "<|sep|>"), peg_text(g, "<|sep|>"))),
                       peg_tag(g, TAG_TOOL_ARGS, loose_arguments(b, tool, kimi_argument, false)),
                       tool_close(g, peg_text(g, "<|close|>call<|sep|>"))));
}

bool family_kimi_k3(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char opening[] = "<|open|>message role=\"assistant\"<|sep|>",
                      think[] = "<|open|>think<|sep|>", think_end[] = "<|close|>think<|sep|>",
                      answer[] = "<|open|>response<|sep|>",
                      answer_end[] = "<|close|>response<|sep|>", section[] = "<|open|>tools<|sep|>",
                      end[] = "<|close|>message<|sep|>";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    chat_build_thinking(&b, think, TOKENS(think_end));
    chat_build_preserve(&b, TOKENS("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"));
    chat_build_delimiter(&b, "assistant", opening);
    chat_build_delimiter(&b, "user", "<|open|>message role=\"user\"<|sep|>");
    chat_build_delimiter(&b, "tool", "<|open|>message role=\"tool\"");
    chat_build_delimiter(&b, "system", "<|open|>message role=\"system\"");
    chat_build_continue(&b, opening, think, "<|close|>think<|sep|><|open|>response<|sep|>");
    /* a thought may also be left by calling */
    const struct slice think_ends[] = {slice_of(think_end), slice_of(answer), slice_of(section)},
                       answer_ends[] = {slice_of(answer_end), slice_of(section), slice_of(end)};
    peg_id thought = peg_optional(
        g, SEQ(g, peg_optional(g, peg_text(g, think)),
               peg_tag(g, b.extract ? TAG_REASONING : TAG_CONTENT, peg_until_any(g, think_ends, 3)),
               peg_optional(g, peg_text(g, think_end))));
    if (in->schema)
        thought = chat_thought_between(&b, think, think_end);
    peg_id content = SEQ(g, peg_optional(g, peg_text(g, answer)),
                         in->schema ? chat_response(&b, "response-format")
                                    : peg_tag(g, TAG_CONTENT, peg_until_any(g, answer_ends, 3)),
                         peg_optional(g, peg_text(g, answer_end)));
    peg_id closing =
        SEQ(g, peg_optional(g, peg_text(g, end)), peg_optional(g, peg_text(g, "<|end_of_msg|>")));
    peg_id calls = PEG_NOTHING;
    if (!in->schema && b.with_tools) {
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, section);
        calls = peg_rule(g, SLICE("kimi-k3-tool-call"),
                         SEQ(g, peg_text(g, section),
                             peg_some(g, chat_tool_choice(&b, kimi_call, NULL)),
                             peg_text(g, "<|close|>tools<|sep|>"), closing),
                         true);
        if (!b.required)
            calls = peg_optional(g, calls);
    }
    return chat_build_end(
        &b,
        SEQ(g, peg_optional(g, peg_text(g, opening)), thought, content, calls, closing, peg_end(g)),
        in->schema || b.with_tools, !in->schema && !b.required);
}

/* ---- DeepSeek V3.2 and V4 ------------------------------------------------ */

#define DSML "｜DSML｜"

static peg_id deepseek_argument(struct chat_build *b, const struct chat_tool *tool, const char *key,
                                const json_t *schema, const void *context)
{
    static const char close[] = "</" DSML "parameter>";
    struct peg *g = b->g;
    bool text = chat_schema_is_text(schema, tool->parameters);
    (void)context;
    return peg_tag(
        g, TAG_TOOL_ARG,
        SEQ(g,
            arg_open(g, SEQ(g, peg_text(g, "<" DSML "parameter name=\""), arg_name(g, key),
                            peg_text(g, text ? "\" string=\"true\">" : "\" string=\"false\">"))),
            text ? peg_tag(g, TAG_TOOL_ARG_STRING_VALUE, peg_until(g, close))
                 : chat_json_arg(b, tool, key, schema),
            arg_close(g, close)));
}

static peg_id deepseek_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    struct peg *g = b->g;
    const struct chat_arg_style style = {.argument = deepseek_argument};
    (void)context;
    return peg_tag(g, TAG_TOOL,
                   SEQ(g,
                       chat_tool_open(g, SEQ(g, peg_text(g, "<" DSML "invoke name=\""),
                                             chat_tool_name(g, tool), peg_text(g, "\">\n"))),
                       chat_arguments(b, tool, &style, NULL), peg_space(g),
                       tool_close(g, peg_text(g, "</" DSML "invoke>"))));
}

static size_t place_of(const json_t *calls, const json_t *message)
{
    const char *id = json_string_value(json_object_get(message, "tool_call_id"));
    size_t i;
    json_t *call;
    json_array_foreach((json_t *)calls, i, call)
    {
        const char *other = json_string_value(json_object_get(call, "id"));
        if (id && other && strcmp(id, other) == 0)
            return i;
    }
    return 0;
}

/* V4 reads the results of several calls in the order of the calls. */
static json_t *results_in_call_order(const json_t *messages)
{
    json_t *out = json_deep_copy(messages);
    const json_t *calls = NULL;
    size_t n = json_array_size(out);
    for (size_t i = 0; out && i < n; i++) {
        json_t *message = json_array_get(out, i);
        const json_t *own = json_object_get(message, "tool_calls");
        if (chat_has_role(message, "assistant") && json_array_size(own) > 0)
            calls = own;
        if (!chat_has_role(message, "tool") || !calls)
            continue;
        /* insertion: move it before later ones of the same run */
        for (size_t k = i; k > 0;) {
            size_t before = k - 1;
            while (before > 0 && chat_has_role(json_array_get(out, before), "user"))
                before--;
            json_t *other = json_array_get(out, before);
            if (!chat_has_role(other, "tool") || place_of(calls, other) <= place_of(calls, message))
                break;
            json_t *a = json_incref(json_array_get(out, k)), *c = json_incref(other);
            json_array_set_new(out, k, c);
            json_array_set_new(out, before, a);
            k = before;
        }
    }
    return out;
}

bool family_deepseek(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char opening[] = "<｜Assistant｜>";
    bool v4 = !chat_template_has(in->t, "function_calls");
    const char *start = v4 ? "<" DSML "tool_calls>" : "<" DSML "function_calls>",
               *end = v4 ? "</" DSML "tool_calls>" : "</" DSML "function_calls>",
               *apart = v4 ? "\n\n<" DSML "tool_calls>" : "\n\n<" DSML "function_calls>";
    struct chat_build b;
    json_t *messages = v4 ? results_in_call_order(in->messages) : NULL;
    json_t *more = v4 && in->schema ? json_pack("{s:O}", "response_format", in->schema) : NULL;
    bool begun = chat_build_begin(&b, in, messages, more, out, err);
    json_decref(messages);
    json_decref(more);
    if (!begun)
        return false;
    struct peg *g = b.g;
    chat_build_thinking(&b, "<think>", TOKENS("</think>", start));
    chat_build_preserve(&b, TOKENS(DSML, "<think>", "</think>"));
    if (v4 && in->continue_reasoning.len == 0)
        chat_build_continue(&b, "<｜Assistant｜></think>", "", "");
    else
        chat_build_continue(&b, opening, "<think>", "</think>");
    bool thinking = b.extract && in->enable_thinking;
    peg_id think = peg_text(g, "<think>"), think_end = peg_text(g, "</think>");
    peg_id thought = PEG_NOTHING, body;
    if (thinking || (in->schema && !b.extract))
        thought = chat_thought_between(&b, "<think>", "</think>");
    else if (b.extract) { /* the prompt holds an empty thought */
        peg_id empty = SEQ(g, think, peg_until(g, "</think>"), think_end);
        if (v4)
            empty = in->schema ? CHOICE(g, think_end, empty) : think_end;
        thought = peg_optional(g, empty);
    }
    if (in->schema) {
        if (v4) /* the prompt of a message to go on with may hold only the end */
            thought = CHOICE(g, think_end, thought);
        peg_id json = chat_response_block(&b, "response-format-schema");
        body = SEQ(g, thought, peg_rule(g, SLICE("response-format"), json, false));
    } else if (b.with_tools) {
        const struct slice starts[] = {slice_of(apart), slice_of(start), SLICE("</think>")};
        peg_id one = chat_tool_choice(&b, deepseek_call, NULL), rest = PEG_NOTHING;
        if (in->parallel_tool_calls)
            rest = peg_any_number(g, SEQ(g, peg_space(g), one));
        peg_id calls = peg_rule(
            g, SLICE("tool-call"),
            SEQ(g, peg_text(g, start), peg_space(g), one, rest, peg_space(g), peg_text(g, end)),
            true);
        peg_id content = SEQ(g, peg_not_ahead(g, think),
                             peg_tag(g, TAG_CONTENT, peg_until_any(g, starts, 2)), peg_space(g));
        body = SEQ(g, thought, content, b.required ? calls : peg_optional(g, calls));
        if (thinking) /* a thought may end by calling */
            body = CHOICE(g,
                          SEQ(g, think, peg_tag(g, TAG_REASONING, peg_until_any(g, starts, 3)),
                              peg_space(g), calls),
                          body);
    } else {
        body = SEQ(g, thought, chat_content_rest(g));
    }
    if (in->schema || b.with_tools)
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, start);
    return chat_build_end(&b, SEQ(g, peg_text(g, opening), body, peg_end(g)),
                          in->schema || b.with_tools, in->tools && !b.required && !in->schema);
}

/* ---- MiniMax-M3: arguments nested as tags -------------------------------- */

#define NS "]<]minimax[>["

enum { MINIMAX_DEPTH = 16 };

static peg_id minimax_members(struct chat_build *b, const json_t *root, const json_t *schema,
                              struct slice rule, int depth);

/* A value up to its closing tag. */
static peg_id minimax_value(struct chat_build *b, const json_t *root, const json_t *schema,
                            struct slice rule, struct slice close, int depth)
{
    struct peg *g = b->g;
    peg_id end = peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_CLOSE, peg_literal(g, close)));
    if (chat_schema_is_text(schema, root))
        return peg_through(
            g, SEQ(g, peg_tag(g, TAG_TOOL_ARG_STRING_VALUE, peg_until_slice(g, close)), end),
            &close, 1);
    const json_t *choices = json_object_get(schema, "oneOf");
    if (json_array_size(choices) == 0)
        choices = json_object_get(schema, "anyOf");
    if (json_array_size(choices) > 0 && depth < MINIMAX_DEPTH) {
        struct peg_ids all = {0};
        size_t i;
        json_t *one;
        json_array_foreach((json_t *)choices, i, one)
        {
            struct slice name = chat_build_text(b, "%.*s-%zu", (int)rule.len, rule.data, i);
            chat_ids_add(b, &all, minimax_value(b, root, one, name, close, depth + 1));
        }
        return chat_choice_of(b, &all);
    }
    const char *type = json_string_value(json_object_get(schema, "type"));
    const json_t *items = json_object_get(schema, "items");
    if (type && strcmp(type, "object") == 0 && json_object_get(schema, "properties") &&
        depth < MINIMAX_DEPTH)
        return SEQ(
            g, peg_tag(g, TAG_TOOL_ARG_OBJECT, minimax_members(b, root, schema, rule, depth + 1)),
            peg_space(g), end);
    if (type && strcmp(type, "array") == 0 && items && depth < MINIMAX_DEPTH) {
        struct slice name = chat_build_text(b, "%.*s-item", (int)rule.len, rule.data);
        peg_id item = peg_rule(
            g, name,
            peg_tag(g, TAG_TOOL_ARG_ITEM,
                    SEQ(g, peg_text(g, NS "<item>"),
                        minimax_value(b, root, items, name, SLICE(NS "</item>"), depth + 1))),
            false);
        return SEQ(g, peg_tag(g, TAG_TOOL_ARG_ARRAY, peg_any_number(g, SEQ(g, peg_space(g), item))),
                   peg_space(g), end);
    }
    json_t *part = chat_schema_part(schema, root);
    struct slice name = chat_build_text(b, "%.*s-schema", (int)rule.len, rule.data);
    peg_id json = peg_schema(g, peg_json(g), name, part, SCHEMA_LENIENT);
    json_decref(part);
    return SEQ(g, peg_tag(g, TAG_TOOL_ARG_VALUE, json), end);
}

static peg_id minimax_members(struct chat_build *b, const json_t *root, const json_t *schema,
                              struct slice rule, int depth)
{
    struct peg *g = b->g;
    struct peg_ids required = {0}, optional = {0};
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(schema, "properties"), key, value)
    {
        struct slice name = chat_build_text(b, "%.*s-%s", (int)rule.len, rule.data, key);
        struct slice close = chat_build_text(b, NS "</%s>", key);
        peg_id one = peg_tag(
            g, TAG_TOOL_ARG,
            SEQ(g, arg_open(g, SEQ(g, peg_text(g, NS "<"), arg_name(g, key), peg_text(g, ">"))),
                minimax_value(b, root, value, name, close, depth)));
        chat_ids_add(b, chat_schema_requires(schema, key) ? &required : &optional,
                     peg_rule(g, name, one, false));
    }
    struct slice name = chat_build_text(b, "%.*s-members", (int)rule.len, rule.data);
    peg_id made = chat_members(b, name, &required, &optional, false);
    VEC_FREE(&required);
    VEC_FREE(&optional);
    return made;
}

static peg_id minimax_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    struct peg *g = b->g;
    (void)context;
    struct slice rule = chat_build_text(b, "tool-%.*s-arg", (int)tool->name.len, tool->name.data);
    return peg_tag(g, TAG_TOOL,
                   SEQ(g,
                       chat_tool_open(g, SEQ(g, peg_text(g, NS "<invoke name=\""),
                                             chat_tool_name(g, tool), peg_text(g, "\">"))),
                       peg_space(g),
                       minimax_members(b, tool->parameters, tool->parameters, rule, 0),
                       peg_space(g), tool_close(g, peg_text(g, NS "</invoke>"))));
}

bool family_minimax_m3(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char think[] = "<mm:think>", think_end[] = "</mm:think>",
                      start[] = NS "<tool_call>", end[] = NS "</tool_call>";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    out->format = CHAT_FORMAT_PEG_MINIMAX_M3;
    chat_build_thinking(&b, think, TOKENS(think_end));
    chat_build_preserve(&b, TOKENS(NS, "<tool_call>", "</tool_call>", think, think_end));
    chat_build_delimiter(&b, "assistant", "]~b]ai");
    chat_build_delimiter(&b, "user", "]~b]user");
    chat_build_delimiter(&b, "tool", "]~b]tool");
    chat_build_delimiter(&b, "system", "]~b]developer");
    chat_build_delimiter(&b, "system", "]~b]system");
    struct slice opening = chat_build_text(&b, "%s", str_text(&out->generation_prompt));
    chat_build_continue(&b, opening.data, think, think_end);
    const char *cut = strstr(opening.data, think);
    if (cut)
        opening.len = (size_t)(cut - opening.data);
    peg_id thought = PEG_NOTHING, body;
    if (chat_build_reads_thoughts(&b)) {
        struct slice close = slice_of(think_end);
        peg_id inner = peg_until(g, think_end);
        if (in->enable_thinking)
            inner = chat_thought_text(&b, inner);
        peg_id block = SEQ(g, peg_text(g, think), in->enable_thinking ? peg_space(g) : PEG_NOTHING,
                           peg_through(g, SEQ(g, inner, peg_text(g, think_end)), &close, 1));
        thought = chat_thought_whole(&b, CHOICE(g, block, peg_text(g, think_end)));
        thought = chat_build_thought(&b, thought, slice_of(think), slice_of(think_end));
    }
    if (in->schema) {
        peg_id json = chat_response_block(&b, "response-format-schema");
        body = peg_rule(g, SLICE("response-format"), json, false);
    } else if (b.with_tools) {
        peg_id one = chat_tool_choice(&b, minimax_call, NULL), rest = PEG_NOTHING;
        if (in->parallel_tool_calls)
            rest = peg_any_number(g, SEQ(g, peg_space(g), one));
        peg_id calls = peg_rule(
            g, SLICE("tool-call"),
            SEQ(g, peg_text(g, start), peg_space(g), one, rest, peg_space(g), peg_text(g, end)),
            true);
        struct slice marker = slice_of(start);
        body = SEQ(g, chat_content_before(&b, &marker, 1, slice_of(think)),
                   b.required ? calls : peg_optional(g, calls));
    } else {
        body = chat_content_rest(g);
    }
    if (in->schema || b.with_tools)
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, start);
    return chat_build_end(&b, SEQ(g, peg_literal(g, opening), thought, body, peg_end(g)),
                          in->schema || b.with_tools, !(in->schema || (in->tools && b.required)));
}
