/* family_json.c - families that write a call as a marker, the function's name
 * and its arguments as JSON (or, LFM2, as a Python call). */
#include "chat/chat_build.h"
#include "chat/families.h"

/* ---- Ministral 3: [TOOL_CALLS]name[ARGS]{...} ---------------------------- */

/* The template wants thoughts as a part of the content. */
static json_t *thoughts_as_parts(const json_t *messages)
{
    json_t *out = json_deep_copy(messages), *message;
    size_t i, k;
    json_array_foreach(out, i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        if (!role || (strcmp(role, "system") != 0 && strcmp(role, "assistant") != 0))
            continue;
        json_t *parts = json_array(), *part;
        json_t *thought = json_object_get(message, "reasoning_content"),
               *content = json_object_get(message, "content");
        if (thought)
            json_array_append_new(parts,
                                  json_pack("{s:s,s:O}", "type", "thinking", "thinking", thought));
        if (json_is_string(content))
            json_array_append_new(parts, json_pack("{s:s,s:O}", "type", "text", "text", content));
        json_array_foreach(json_is_array(content) ? content : NULL, k, part)
        {
            json_array_append(parts, part);
        }
        json_object_set_new(message, "content", parts);
        json_object_del(message, "reasoning_content");
    }
    return out;
}

static peg_id ministral_call(struct chat_build *b, const struct chat_tool *tool,
                             const void *context)
{
    (void)context;
    struct peg *g = b->g;
    return SEQ(g, chat_tool_open(g, SEQ(g, chat_tool_name(g, tool), peg_text(g, "[ARGS]"))),
               chat_json_args(b, tool));
}

bool family_ministral(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    struct chat_build b;
    if (!chat_build_begin_own(&b, in, thoughts_as_parts(in->messages), out, err))
        return false;
    struct peg *g = b.g;
    chat_build_thinking(&b, "[THINK]", TOKENS("[/THINK]"));
    chat_build_preserve(&b, TOKENS("[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"));
    chat_build_continue(&b, "", "[THINK]", "[/THINK]");
    peg_id thought = PEG_NOTHING, root;
    if (chat_build_reads_thoughts(&b))
        thought = chat_thought_between(&b, "[THINK]", "[/THINK]");
    bool grammar = true;
    if (in->schema) {
        root = chat_spaced(&b, thought, chat_response_block(&b, "response-format"));
    } else if (b.with_tools) {
        peg_id call =
            SEQ(g, peg_text(g, "[TOOL_CALLS]"), chat_tool_choice(&b, ministral_call, NULL));
        peg_id calls =
            peg_rule(g, SLICE("tool-call"),
                     peg_repeat(g, call, b.required, in->parallel_tool_calls ? -1 : 1), true);
        root = chat_spaced(&b, thought, chat_content_until(g, "[TOOL_CALLS]"));
        root = chat_spaced(&b, root, calls);
    } else {
        grammar = false;
        root = chat_spaced(&b, thought, chat_content_rest(g));
    }
    if (grammar)
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, "[TOOL_CALLS]");
    return chat_build_end(&b, root, grammar, !in->schema && in->tool_choice == CHAT_TOOLS_AUTO);
}

/* ---- Functionary v3.2: >>>name\n{...} ------------------------------------ */

static peg_id functionary_call(struct chat_build *b, const struct chat_tool *tool,
                               const void *context)
{
    (void)context;
    struct peg *g = b->g;
    return peg_tag(g, TAG_TOOL,
                   SEQ(g, chat_tool_open(g, SEQ(g, chat_tool_name(g, tool), peg_text(g, "\n"))),
                       chat_json_args(b, tool)));
}

bool family_functionary(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char opening[] = "<|start_header_id|>assistant<|end_header_id|>\n\n>>>";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    chat_build_preserve(&b, TOKENS(">>>all"));
    if (in->has_continuation) {
        str_clear(&out->generation_prompt);
        str_append_text(&out->generation_prompt, opening);
        str_append_text(&out->generation_prompt, "all\n");
        str_append_slice(&out->generation_prompt, str_slice(&in->continue_content));
        str_append_slice(&out->text, str_slice(&out->generation_prompt));
    }
    peg_id only_content =
        SEQ(g, peg_text(g, "all\n"),
            in->schema ? chat_response(&b, "response-format") : chat_content_rest(g));
    peg_id body = only_content;
    if (!in->schema && b.with_tools) {
        chat_build_trigger(&b, CHAT_TRIGGER_PATTERN, ">>>(?!all)");
        peg_id one = chat_tool_choice(&b, functionary_call, NULL);
        peg_id calls = peg_rule(g, SLICE("tools"), peg_some(g, one), true);
        peg_id content = SEQ(g, peg_text(g, "all\n"), chat_content_until(g, ">>>"));
        peg_id more = in->parallel_tool_calls ? calls : one;
        peg_id both = SEQ(g, content, peg_text(g, ">>>"), more);
        if (b.required)
            body = CHOICE(g, both, calls);
        else
            body = CHOICE(g, both, only_content, more);
    }
    return chat_build_end(&b, SEQ(g, peg_text(g, opening), body, peg_end(g)),
                          in->schema || b.with_tools,
                          !in->schema && in->tool_choice == CHAT_TOOLS_AUTO);
}

/* ---- Kimi K2: functions.name:0 and JSON ---------------------------------- */

static peg_id kimi_k2_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    (void)context;
    struct peg *g = b->g;
    peg_id id = peg_atomic(g, peg_tag(g, TAG_TOOL_ID,
                                      SEQ(g, peg_text(g, "functions."), chat_tool_name(g, tool),
                                          peg_text(g, ":"), peg_chars(g, "[0-9]", 1, -1))));
    return peg_tag(g, TAG_TOOL,
                   SEQ(g,
                       chat_tool_open(g, SEQ(g, id, peg_text(g, "<|tool_call_argument_begin|>"))),
                       chat_json_args(b, tool),
                       peg_atomic(g, peg_tag(g, TAG_TOOL_CLOSE,
                                             peg_optional(g, peg_text(g, "<|tool_call_end|>"))))));
}

bool family_kimi_k2(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char opening[] = "<|im_assistant|>assistant<|im_middle|>";
    static const char section[] = "<|tool_calls_section_begin|>", call[] = "<|tool_call_begin|>";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    chat_build_thinking(&b, "<think>", TOKENS("</think>"));
    chat_build_preserve(&b, TOKENS(section, "<|tool_calls_section_end|>", call,
                                   "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<think>",
                                   "</think>"));
    chat_build_continue(&b, opening, "<think>", "</think>");
    peg_id thought = PEG_NOTHING;
    if (in->schema) {
        thought = chat_thought_between(&b, "<think>", "</think>");
    } else if (b.extract) { /* a call may come without the thought being closed */
        const struct slice ends[] = {SLICE("</think>"), slice_of(section), slice_of(call)};
        thought = peg_optional(g, SEQ(g, peg_text(g, "<think>"),
                                      peg_tag(g, TAG_REASONING, peg_until_any(g, ends, 3)),
                                      peg_optional(g, peg_text(g, "</think>"))));
    }
    peg_id body = chat_content_rest(g);
    if (in->schema) {
        body = chat_spaced(&b, PEG_NOTHING, chat_response(&b, "response-format"));
    } else if (b.with_tools) {
        const struct slice starts[] = {slice_of(section), slice_of(call)};
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, call);
        peg_id one = SEQ(g, peg_text(g, call), chat_tool_choice(&b, kimi_k2_call, NULL));
        peg_id calls =
            peg_rule(g, SLICE("tool-call"),
                     SEQ(g, peg_repeat(g, one, b.required, in->parallel_tool_calls ? -1 : 1),
                         peg_optional(g, peg_text(g, "<|tool_calls_section_end|>"))),
                     true);
        body = SEQ(g, peg_tag(g, TAG_CONTENT, peg_until_any(g, starts, 2)),
                   peg_rule(g, SLICE("tool-calls"),
                            SEQ(g, peg_optional(g, peg_text(g, section)), calls), false));
    }
    return chat_build_end(&b, SEQ(g, peg_text(g, opening), thought, body, peg_end(g)),
                          in->schema || b.with_tools,
                          !in->schema && in->tool_choice == CHAT_TOOLS_AUTO);
}

/* ---- GigaChat 3 ---------------------------------------------------------- */

static peg_id gigachat_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    (void)context;
    struct peg *g = b->g;
    peg_id name = peg_json_member(
        g, "name", SEQ(g, peg_text(g, "\""), chat_tool_name(g, tool), peg_text(g, "\"")));
    peg_id open = chat_tool_open(g, chat_spaced(b, peg_text(g, "{"), name));
    peg_id made = chat_spaced(b, open, peg_text(g, ","));
    made = chat_spaced(b, made, peg_json_member(g, "arguments", chat_json_args(b, tool)));
    return chat_spaced(b, made, peg_text(g, "}"));
}

bool family_gigachat(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char call[] = "<|message_sep|>\n\nfunction call<|role_sep|>\n";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    chat_build_preserve(&b, TOKENS("<|message_sep|>\n\n", "<|role_sep|>\n"));
    if (in->has_continuation) {
        str_clear(&out->generation_prompt);
        str_append_text(&out->generation_prompt, "assistant<|role_sep|>\n");
        str_append_slice(&out->generation_prompt, str_slice(&in->continue_content));
        str_append_slice(&out->text, str_slice(&out->generation_prompt));
    }
    peg_id body = chat_content_rest(g);
    if (in->schema) {
        body = chat_response(&b, "response-format");
    } else if (b.with_tools) {
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, call);
        peg_id one =
            peg_rule(g, SLICE("tool-call"),
                     SEQ(g, peg_text(g, call), chat_tool_choice(&b, gigachat_call, NULL)), false);
        peg_id calls =
            peg_rule(g, SLICE("tool-call-root"), peg_repeat(g, one, b.required, 1), true);
        body = chat_spaced(&b, chat_content_until(g, "<|message_sep|>\n\n"), calls);
    }
    return chat_build_end(&b, SEQ(g, peg_text(g, "assistant<|role_sep|>\n"), body),
                          in->schema || b.with_tools,
                          !in->schema && in->tool_choice == CHAT_TOOLS_AUTO);
}

/* ---- Cohere2 MoE --------------------------------------------------------- */

bool family_cohere2(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
#define TURN "<|START_OF_TURN_TOKEN|>"
    static const char opening[] = TURN "<|CHATBOT_TOKEN|>";
    static const char think[] = "<|START_THINKING|>", think_end[] = "<|END_THINKING|>",
                      text[] = "<|START_TEXT|>", text_end[] = "<|END_TEXT|>",
                      action[] = "<|START_ACTION|>", action_end[] = "<|END_ACTION|>";
    struct chat_build b;
    if (!chat_build_begin(&b, in, NULL, NULL, out, err))
        return false;
    struct peg *g = b.g;
    chat_build_thinking(&b, think, TOKENS(think_end));
    chat_build_preserve(&b,
                        TOKENS(TURN, "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|USER_TOKEN|>",
                               "<|SYSTEM_TOKEN|>", think, think_end, text, text_end, action,
                               action_end, "<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>"));
    chat_build_delimiter(&b, "assistant", opening);
    chat_build_delimiter(&b, "user", TURN "<|USER_TOKEN|>");
    chat_build_delimiter(&b, "tool", TURN "<|SYSTEM_TOKEN|><|START_TOOL_RESULT|>");
    chat_build_delimiter(&b, "system", TURN "<|SYSTEM_TOKEN|>");
#undef TURN
    chat_build_continue(&b, opening, think, "<|END_THINKING|><|START_TEXT|>");
    const struct slice ends[] = {slice_of(think_end), slice_of(text), slice_of(action)};
    peg_id inner = peg_until_any(g, ends, 3), close = peg_optional(g, peg_text(g, think_end));
    peg_id thought = b.extract ? SEQ(g, peg_text(g, think), peg_tag(g, TAG_REASONING, inner), close)
                               : peg_tag(g, TAG_CONTENT, SEQ(g, peg_text(g, think), inner, close));
    peg_id body = SEQ(g, peg_text(g, text),
                      in->schema ? chat_response(&b, "response-format-schema")
                                 : chat_content_until(g, text_end),
                      peg_optional(g, peg_text(g, text_end)));
    if (!in->schema && b.with_tools) {
        static const struct slice order[] = {
            {"tool_call_id", 12}, {"tool_name", 9}, {"parameters", 10}};
        const struct chat_json_style style = {.section_start = slice_of(action),
                                              .section_end = slice_of(action_end),
                                              .name_key = SLICE("tool_name"),
                                              .args_key = SLICE("parameters"),
                                              .made_id_key = SLICE("tool_call_id"),
                                              .order = order,
                                              .n_order = 3,
                                              .in_array = true,
                                              .forced = true};
        peg_id calls = chat_json_calls(&b, &style);
        body = b.required ? calls : CHOICE(g, calls, body);
    }
    if (in->schema || b.with_tools)
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, action);
    return chat_build_end(&b,
                          SEQ(g, peg_text(g, opening), peg_optional(g, thought), body,
                              peg_optional(g, peg_text(g, "<|END_OF_TURN_TOKEN|>")), peg_end(g)),
                          in->schema || b.with_tools,
                          !in->schema && in->tool_choice == CHAT_TOOLS_AUTO);
}

/* ---- LFM2: [name(key="text", other=1)] ----------------------------------- */

static peg_id lfm2_argument(struct chat_build *b, const char *key, const json_t *schema)
{
    struct peg *g = b->g;
    const char *type = json_string_value(json_object_get(schema, "type"));
    bool text = type && strcmp(type, "string") == 0;
    peg_id value =
        text ? CHOICE(g, SEQ(g, peg_text(g, "\""), peg_string_content(g, '"'), peg_text(g, "\"")),
                      SEQ(g, peg_text(g, "'"), peg_string_content(g, '\''), peg_text(g, "'")))
             : peg_python_value(g, true);
    peg_id name = peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_NAME, peg_text(g, key)));
    peg_id open = peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_OPEN, SEQ(g, name, peg_text(g, "="))));
    return peg_tag(g, TAG_TOOL_ARG,
                   SEQ(g, open, peg_tag(g, TAG_TOOL_ARG_VALUE, value),
                       peg_atomic(g, peg_tag(g, TAG_TOOL_ARG_CLOSE, PEG_NOTHING))));
}

static peg_id lfm2_call(struct chat_build *b, const struct chat_tool *tool, const void *context)
{
    (void)context;
    struct peg *g = b->g;
    struct peg_ids all = {0};
    const char *key;
    json_t *schema;
    json_object_foreach(json_object_get(tool->parameters, "properties"), key, schema)
    {
        chat_ids_add(b, &all, lfm2_argument(b, key, schema));
    }
    peg_id args = PEG_NOTHING;
    if (all.n) {
        peg_id one = peg_choice(g, all.data, all.n);
        args = SEQ(g, one, peg_any_number(g, SEQ(g, peg_text(g, ","), peg_space(g), one)));
    }
    VEC_FREE(&all);
    return peg_tag(g, TAG_TOOL,
                   SEQ(g, chat_tool_open(g, SEQ(g, chat_tool_name(g, tool), peg_text(g, "("))),
                       peg_space(g), peg_tag(g, TAG_TOOL_ARGS, args), peg_space(g),
                       peg_atomic(g, peg_tag(g, TAG_TOOL_CLOSE, peg_text(g, ")")))));
}

/* Where the template reads thoughts it calls them "thinking". */
static json_t *with_thinking(const json_t *messages)
{
    json_t *out = json_deep_copy(messages), *message;
    size_t i;
    json_array_foreach(out, i, message)
    {
        json_t *thought = json_object_get(message, "reasoning_content");
        if (thought)
            json_object_set(message, "thinking", thought);
    }
    return out;
}

static bool build_lfm2(const struct chat_inputs *in, bool list_tokens, struct chat_prompt *out,
                       struct error *err)
{
    static const char opening[] = "<|im_start|>assistant\n", start[] = "<|tool_call_start|>",
                      end[] = "<|tool_call_end|>";
    struct chat_build b;
    if (!chat_build_begin_own(&b, in, with_thinking(in->messages), out, err))
        return false;
    struct peg *g = b.g;
    chat_build_thinking(&b, "<think>", TOKENS("</think>"));
    chat_build_preserve(&b, TOKENS(start, end, "<think>", "</think>"));
    if (list_tokens)
        chat_build_preserve(&b, TOKENS("<|tool_list_start|>", "<|tool_list_end|>"));
    chat_build_continue(&b, opening, "<think>", "</think>");
    peg_id thought = PEG_NOTHING, body;
    /* a message to go on with is given a thought, whatever the template knows */
    bool thinks = chat_template_has(in->t, "<think>") || (in->schema && in->has_continuation);
    if (chat_build_reads_thoughts(&b) && thinks)
        thought = chat_thought_between(&b, "<think>", "</think>");
    if (in->schema) {
        body = chat_spaced(&b, PEG_NOTHING, chat_response(&b, "response-format-schema"));
    } else if (b.with_tools) {
        peg_id one = chat_tool_choice(&b, lfm2_call, NULL), more = PEG_NOTHING;
        if (in->parallel_tool_calls)
            more = peg_any_number(g, SEQ(g, peg_text(g, ","), peg_space(g), one));
        peg_id calls = peg_rule(g, SLICE("tool-call"),
                                SEQ(g, peg_text(g, start), peg_text(g, "["), peg_space(g), one,
                                    more, peg_space(g), peg_text(g, "]"), peg_text(g, end)),
                                true);
        body = SEQ(g, chat_content_until(g, start), b.required ? calls : peg_optional(g, calls));
    } else {
        body = chat_content_rest(g);
    }
    if (in->schema || b.with_tools)
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, start);
    return chat_build_end(&b, SEQ(g, peg_text(g, opening), thought, body, peg_end(g)),
                          in->schema || b.with_tools, !(in->schema || (in->tools && b.required)));
}

bool family_lfm2(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    return build_lfm2(in, true, out, err);
}

bool family_lfm25(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    return build_lfm2(in, false, out, err);
}
