/* family_channels.c - families that write an answer in channels: gpt-oss
 * (harmony) and Gemma 4. */
#include "chat/chat_build.h"
#include "chat/families.h"

static peg_id rule(struct chat_build *b, const char *name, peg_id item)
{
    return peg_rule(b->g, slice_of(name), item, false);
}

/* ---- gpt-oss ------------------------------------------------------------- */

/* The template reads thoughts as "thinking", and no content beside calls. */
static json_t *harmony_messages(const json_t *messages)
{
    json_t *out = json_deep_copy(messages), *message;
    size_t i;
    json_array_foreach(out, i, message)
    {
        json_t *thought = json_object_get(message, "reasoning_content");
        if (!thought)
            continue;
        json_object_set(message, "thinking", thought);
        if (json_array_size(json_object_get(message, "tool_calls")) > 0)
            json_object_del(message, "content");
    }
    return out;
}

/* A turn that is over ends with <|return|>; in a prompt it goes on. */
static void return_to_end(struct chat_prompt *out)
{
    static const char from[] = "<|return|>", to[] = "<|end|>";
    char *last = NULL;
    for (char *at = out->text.data; at && (at = strstr(at, from)); at++)
        last = at;
    if (!last)
        return;
    size_t shrink = sizeof from - sizeof to, at = (size_t)(last - out->text.data);
    memcpy(last, to, sizeof to - 1);
    memmove(last + sizeof to - 1, last + sizeof from - 1, out->text.len - at - sizeof from + 1);
    str_truncate(&out->text, out->text.len - shrink);
    for (size_t i = 0; i < out->n_user; i++) {
        if (out->user[i].begin > at)
            out->user[i].begin -= shrink;
        if (out->user[i].end > at)
            out->user[i].end -= shrink;
    }
}

/* The parts of harmony's grammar that calls need. */
struct harmony {
    peg_id channel, constraint, message;
};

static peg_id harmony_call(struct chat_build *b, const struct harmony *h,
                           const struct chat_tool *tool)
{
    struct peg *g = b->g;
    peg_id name = SEQ(g, peg_text(g, " to=functions."),
                      peg_atomic(g, peg_tag(g, TAG_TOOL_NAME, peg_literal(g, tool->name))));
    peg_id args = chat_json_args(b, tool);
    /* the recipient stands behind the role or behind the channel */
    peg_id in_role = peg_atomic(
        g, peg_tag(g, TAG_TOOL_OPEN, SEQ(g, name, h->channel, h->constraint, h->message)));
    peg_id in_channel = peg_atomic(
        g, peg_tag(g, TAG_TOOL_OPEN, SEQ(g, h->channel, name, h->constraint, h->message)));
    return CHOICE(g, peg_tag(g, TAG_TOOL, SEQ(g, in_role, args)),
                  peg_tag(g, TAG_TOOL, SEQ(g, in_channel, args)));
}

static peg_id harmony_calls(struct chat_build *b, const struct harmony *h)
{
    struct peg_ids tools = {0};
    struct chat_tool tool;
    for (size_t i = 0; chat_build_tool(b, i, &tool); i++) {
        struct slice name = chat_build_text(b, "tool-%.*s", (int)tool.name.len, tool.name.data);
        chat_ids_add(b, &tools, peg_rule(b->g, name, harmony_call(b, h, &tool), false));
    }
    return peg_rule(b->g, SLICE("tool-call"), chat_choice_of(b, &tools), true);
}

static peg_id harmony_root(struct chat_build *b)
{
    struct peg *g = b->g;
    peg_id start = rule(b, "start", peg_text(g, "<|start|>assistant"));
    peg_id end = rule(b, "end", peg_text(g, "<|end|>"));
    peg_id content = rule(b, "message-content", peg_until(g, "<|end|>"));
    peg_id optional_constraint =
        peg_optional(g, SEQ(g, peg_space(g), peg_optional(g, peg_text(g, "<|constrain|>")),
                            peg_chars(g, "[A-Za-z0-9_-]", 1, -1)));
    struct harmony h = {
        .channel = SEQ(g, peg_text(g, "<|channel|>"),
                       CHOICE(g, peg_text(g, "commentary"), peg_text(g, "analysis"))),
        .constraint = optional_constraint,
        .message = peg_text(g, "<|message|>"),
    };
    /* the small model likes to begin with this */
    peg_id stray = peg_optional(g, SEQ(g, peg_text(g, "<|channel|>commentary"),
                                       peg_optional(g, peg_text(g, " to=assistant"))));
    peg_id think = SEQ(g, stray, peg_text(g, "<|channel|>analysis<|message|>"));
    /* as content the opening shows only once it is whole: it may yet be a call's */
    peg_id analysis =
        rule(b, "analysis",
             b->extract ? SEQ(g, think, peg_tag(g, TAG_REASONING, content), end)
                        : SEQ(g, peg_atomic(g, peg_tag(g, TAG_CONTENT, think)),
                              peg_tag(g, TAG_CONTENT, content), peg_tag(g, TAG_CONTENT, end)));
    peg_id preamble = rule(b, "preamble",
                           SEQ(g, peg_text(g, "<|channel|>commentary<|message|>"),
                               peg_tag(g, TAG_CONTENT, content), end));
    peg_id final = rule(b, "final",
                        SEQ(g, stray, peg_text(g, "<|channel|>final<|message|>"),
                            peg_tag(g, TAG_CONTENT, content)));
    peg_id any = peg_any_number(g, SEQ(g, start, rule(b, "any", CHOICE(g, preamble, analysis))));
    if (b->in->schema) {
        peg_id json = rule(b, "response-format",
                           SEQ(g, peg_text(g, "<|channel|>final"), h.constraint, h.message,
                               chat_response(b, "response-format-schema")));
        return SEQ(g, peg_any_number(g, SEQ(g, start, analysis)), start, json);
    }
    if (b->with_tools) {
        peg_id calls = harmony_calls(b, &h);
        return SEQ(g, any, start, b->required ? calls : CHOICE(g, calls, final));
    }
    /* calls of functions that nobody offered are swallowed */
    peg_id unasked =
        rule(b, "unsolicited",
             peg_atomic(g, SEQ(g, peg_optional(g, h.channel), peg_text(g, " to="), content, end)));
    return SEQ(g, any, start, CHOICE(g, final, unasked));
}

bool family_gpt_oss(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    static const char *const triggers[] = {
        "^\\s+to$", "^<\\|channel\\|>(?:commentary|analysis)\\s+to=functions$",
        "<\\|start\\|>assistant(\\s+to)",
        "<\\|start\\|>assistant(<\\|channel\\|>(?:commentary|analysis)\\s+to)"};
    struct chat_build b;
    if (!chat_build_begin_own(&b, in, harmony_messages(in->messages), out, err))
        return false;
    if (!in->add_generation_prompt)
        return_to_end(out);
    chat_build_thinking(&b, "<|channel|>analysis<|message|>", TOKENS("<|end|>"));
    chat_build_preserve(
        &b, TOKENS("<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>"));
    chat_build_delimiter(&b, "assistant", "<|start|>assistant");
    chat_build_delimiter(&b, "user", "<|start|>user");
    chat_build_delimiter(&b, "system", "<|start|>developer");
    chat_build_delimiter(&b, "system", "<|start|>system");
    chat_build_delimiter(&b, "tool", "<|start|>functions");
    chat_build_continue(&b, "<|start|>assistant", "<|channel|>analysis<|message|>",
                        "<|end|><|start|>assistant<|channel|>final<|message|>");
    bool grammar = in->schema || b.with_tools;
    for (size_t i = 0; grammar && i < sizeof triggers / sizeof *triggers; i++)
        chat_build_trigger(&b, CHAT_TRIGGER_PATTERN, triggers[i]);
    return chat_build_end(&b, harmony_root(&b), grammar,
                          !(in->schema || (in->tools && b.required)));
}

/* ---- Gemma 4 ------------------------------------------------------------- */

/* Older templates know no tool messages: a turn's results stand in the message
 * that called, together with the answer that follows them. */
static json_t *tool_response(const json_t *message, const json_t *calls, size_t i)
{
    const json_t *function = json_object_get(json_array_get(calls, i), "function");
    json_t *name = json_object_get(function, "name"),
           *content = json_object_get(message, "content"), *value = NULL;
    if (json_string_length(name) == 0)
        name = json_object_get(message, "tool_call_id");
    if (json_is_string(content))
        value = json_loadb(json_string_value(content), json_string_length(content), JSON_DECODE_ANY,
                           NULL);
    if (!value)
        value = content ? json_incref(content) : json_null();
    return json_pack("{s:o,s:o}", "name", name ? json_incref(name) : json_string(""), "response",
                     value);
}

static bool has_content(const json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    return json_string_length(content) > 0 || json_array_size(content) > 0;
}

static json_t *join_turns(const json_t *messages)
{
    json_t *out = json_array();
    size_t n = json_array_size(messages);
    for (size_t i = 0; i < n;) {
        json_t *message = json_array_get(messages, i++);
        json_t *calls = json_object_get(message, "tool_calls");
        if (!chat_has_role(message, "assistant") || json_array_size(calls) == 0) {
            json_array_append(out, message);
            continue;
        }
        json_t *turn = json_pack("{s:s,s:O}", "role", "assistant", "tool_calls", calls);
        json_t *responses = json_array(), *thought = json_object_get(message, "reasoning_content");
        for (size_t k = 0; i < n && chat_has_role(json_array_get(messages, i), "tool"); i++, k++)
            json_array_append_new(responses, tool_response(json_array_get(messages, i), calls, k));
        if (json_array_size(responses) > 0)
            json_object_set(turn, "tool_responses", responses);
        json_decref(responses);
        const json_t *next = i < n ? json_array_get(messages, i) : NULL;
        if (chat_has_role(next, "assistant") && has_content(next) &&
            json_array_size(json_object_get(next, "tool_calls")) == 0) {
            json_object_set(turn, "content", json_object_get(next, "content"));
            i++;
        }
        if (thought)
            json_object_set(turn, "reasoning_content", thought);
        json_array_append_new(out, turn);
    }
    return out;
}

/* Gemma's own notation of values: {key:<|"|>text<|"|>,other:[1,2]} */
static peg_id gemma_dict(struct chat_build *b)
{
    struct peg *g = b->g;
    peg_id value = peg_ref(g, "gemma4-value"), space = peg_space(g), comma = peg_text(g, ",");
    peg_id quote = peg_text(g, "<|\"|>");
    peg_id text =
        rule(b, "gemma4-string-content", peg_tag(g, TAG_GEMMA_STRING_TEXT, peg_until(g, "<|\"|>")));
    peg_id string =
        rule(b, "gemma4-string", peg_tag(g, TAG_GEMMA_STRING, SEQ(g, quote, text, quote)));
    peg_id plain = peg_tag(g, TAG_GEMMA_NUMBER,
                           CHOICE(g, peg_json_number(g), peg_json_bool(g), peg_json_null(g)));
    peg_id key_name = rule(b, "gemma4-dict-key-name",
                           peg_tag(g, TAG_GEMMA_KEY_NAME, peg_chars(g, "[^:}]", 1, -1)));
    peg_id key =
        rule(b, "gemma4-dict-key", peg_tag(g, TAG_GEMMA_KEY, SEQ(g, key_name, peg_text(g, ":"))));
    peg_id pair = rule(b, "gemma4-dict-kv", peg_tag(g, TAG_GEMMA_PAIR, SEQ(g, key, space, value)));
    peg_id pairs = SEQ(g, pair, peg_any_number(g, SEQ(g, comma, space, pair)));
    peg_id dict =
        rule(b, "gemma4-dict",
             peg_tag(g, TAG_GEMMA_DICT,
                     SEQ(g, peg_text(g, "{"), space,
                         CHOICE(g, peg_text(g, "}"), SEQ(g, pairs, space, peg_text(g, "}"))))));
    peg_id items = SEQ(g, value, peg_any_number(g, SEQ(g, comma, space, value)));
    peg_id array =
        rule(b, "gemma4-array",
             peg_tag(g, TAG_GEMMA_ARRAY,
                     SEQ(g, peg_text(g, "["), space,
                         CHOICE(g, peg_text(g, "]"), SEQ(g, items, space, peg_text(g, "]"))))));
    rule(b, "gemma4-value", CHOICE(g, string, dict, array, plain));
    return dict;
}

static peg_id gemma_calls(struct chat_build *b)
{
    struct peg *g = b->g;
    struct peg_ids tools = {0};
    struct chat_tool tool;
    peg_id dict = gemma_dict(b);
    for (size_t i = 0; chat_build_tool(b, i, &tool); i++) {
        peg_id name = peg_atomic(g, peg_tag(g, TAG_TOOL_NAME, peg_literal(g, tool.name)));
        peg_id open =
            peg_atomic(g, peg_tag(g, TAG_TOOL_OPEN, SEQ(g, name, peg_ahead(g, peg_text(g, "{")))));
        struct slice title = chat_build_text(b, "tool-%.*s", (int)tool.name.len, tool.name.data);
        chat_ids_add(b, &tools,
                     peg_rule(g, title,
                              peg_tag(g, TAG_TOOL, SEQ(g, open, peg_tag(g, TAG_TOOL_ARGS, dict))),
                              false));
    }
    peg_id call = SEQ(g, peg_text(g, "<|tool_call>call:"), chat_choice_of(b, &tools),
                      peg_text(g, "<tool_call|>"));
    return peg_rule(g, SLICE("tool-call"),
                    peg_repeat(g, call, b->required, b->in->parallel_tool_calls ? -1 : 1), true);
}

static peg_id gemma_root(struct chat_build *b)
{
    struct peg *g = b->g;
    peg_id start = rule(b, "start", peg_optional(g, peg_text(g, "<|turn>model\n")));
    peg_id open = peg_text(g, "<|channel>thought"), close = peg_text(g, "<channel|>");
    peg_id inner = peg_until(g, "<channel|>");
    peg_id thought =
        rule(b, "thought",
             b->extract ? SEQ(g, open, peg_space(g), peg_tag(g, TAG_REASONING, inner), close)
                        : peg_tag(g, TAG_CONTENT, SEQ(g, open, peg_space(g), inner, close)));
    peg_id channel = peg_text(g, "<|channel>");
    peg_id empty = peg_grammar(
        g, peg_any_number(g, SEQ(g, channel, peg_not_ahead(g, peg_text(g, "thought")))), "");
    peg_id maybe =
        CHOICE(g, SEQ(g, peg_ahead(g, channel), empty, thought), peg_not_ahead(g, channel));
    if (b->in->schema) {
        return SEQ(g, start, peg_optional(g, maybe),
                   chat_response_block(b, "response-format-schema"));
    }
    const struct slice ends[] = {SLICE("<|channel>"), SLICE("<channel|>"), SLICE("<|tool_call>")};
    peg_id content =
        rule(b, "content", peg_tag(g, TAG_CONTENT, peg_until_any(g, ends, b->with_tools ? 3 : 2)));
    peg_id message = rule(b, "message", SEQ(g, maybe, content));
    if (!b->with_tools)
        return SEQ(g, start, peg_some(g, message));
    return SEQ(g, start, peg_any_number(g, message),
               rule(b, "scan-to-toolcall", peg_until(g, "<|tool_call>")), gemma_calls(b));
}

bool family_gemma(const struct chat_inputs *in, struct chat_prompt *out, struct error *err)
{
    struct chat_build b;
    bool old = !chat_template_has(in->t, "{#- OpenAI Chat Completions:");
    json_t *messages = old ? join_turns(in->messages) : NULL;
    bool begun = chat_build_begin(&b, in, messages, NULL, out, err);
    json_decref(messages);
    if (!begun)
        return false;
    bool turn_over = slice_ends_with(str_slice(&out->text), SLICE("<turn|>\n"));
    if (in->add_generation_prompt && turn_over) {
        /* after content and calls the template forgets to open the next turn */
        str_clear(&out->generation_prompt);
        str_append_text(&out->generation_prompt, "<|turn>model\n");
        str_append_text(&out->text, "<|turn>model\n");
    }
    out->format = CHAT_FORMAT_PEG_GEMMA4;
    chat_build_delimiter(&b, "user", "<|turn>user");
    chat_build_delimiter(&b, "assistant", "<|turn>model");
    chat_build_thinking(&b, "<|channel>thought", TOKENS("<channel|>"));
    chat_build_preserve(
        &b, TOKENS("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|turn>"));
    chat_build_continue(&b, turn_over ? "<|turn>model\n" : "", "<|channel>thought\n", "<channel|>");
    bool grammar = in->schema || b.with_tools;
    if (grammar)
        chat_build_trigger(&b, CHAT_TRIGGER_WORD, "<|tool_call>");
    return chat_build_end(&b, gemma_root(&b), grammar, !(in->schema || (in->tools && b.required)));
}
