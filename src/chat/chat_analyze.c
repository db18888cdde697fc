/* chat_analyze.c - how a model writes reasoning, content and calls, found by
 * rendering its template.
 *
 * Two conversations that differ in one thing are rendered and compared: what
 * only one of them has is how that thing is written. */
#include "chat/chat_analysis.h"
#include "chat/chat_family.h"
#include "chat/peg.h"
#include "chat/text_diff.h"

#include <ctype.h>
#include <stdlib.h>

/* Texts that no template writes by itself. */
#define FUNCTION_1 "FFF_FIRST_FUN_F"
#define FUNCTION_2 "SSS_SECOND_FUN_S"
#define ARGUMENT_1 "AA_ARG_FST_AA"
#define ARGUMENT_2 "BB_ARG_SND_BB"
#define USER_1     "U_USER_MSG Hello END_U"
#define USER_2     "V_USER_MSG Hello END_V"
#define ANSWER     "A_ASST_MSG I can help END_A"
#define THOUGHT    "REASON_PART I am thinking END_R"

#define SAY(role, text) "{\"role\":\"" role "\",\"content\":\"" text "\"}"
#define CALL(id, name, args)                                                                       \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                      \
    "\",\"arguments\":{" args "}}}"
#define CALLING(calls)       "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" calls "]}"
#define ARG(name, value)     "\"" name "\":\"" value "\""
#define BOTH_ARGS            ARG(ARGUMENT_1, "XXXX") "," ARG(ARGUMENT_2, "YYYY")
#define CALL_1               CALL("call00001", FUNCTION_1, BOTH_ARGS)
#define CALL_2               CALL("call00002", FUNCTION_2, BOTH_ARGS)
#define ASKED                SAY("user", USER_1)
#define ANSWERED             SAY("assistant", ANSWER)
#define AFTER_ASKED(message) "[" ASKED "," message "]"

#define PARAMETERS                                                                                 \
    "{\"type\":\"object\",\"properties\":{\"" ARGUMENT_1                                           \
    "\":{\"type\":\"string\",\"description\":\"First argument\"},\"" ARGUMENT_2                    \
    "\":{\"type\":\"string\",\"description\":\"Second argument\"}},\"required\":[]}"
#define TOOL(name, text)                                                                           \
    "{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"description\":\"" text           \
    "\",\"parameters\":" PARAMETERS "}}"
static const char tools_json[] =
    "[" TOOL(FUNCTION_1, "Test function foo") "," TOOL(FUNCTION_2, "Test function bar") "]";

struct analyzer {
    const struct chat_template *t;
    struct chat_probing *probing;
    struct chat_analysis *a;
    bool out_of_memory;
};

struct comparison {
    struct slice a, b; /* the two renderings */
    struct text_diff diff;
};

/* One variant of a conversation. */
struct variant {
    const char *messages;
    bool tools, generation_prompt, no_thinking;
};

/* ---- Small tools --------------------------------------------------------- */

static struct slice keep(struct analyzer *z, struct slice text)
{
    char *copy = arena_duplicate(&z->a->arena, text);
    z->out_of_memory = z->out_of_memory || !copy;
    return copy ? (struct slice){copy, text.len} : SLICE("");
}

static struct slice join(struct analyzer *z, struct slice a, struct slice b)
{
    struct str both = {0};
    str_append_slice(&both, a);
    str_append_slice(&both, b);
    struct slice kept = keep(z, str_slice(&both));
    str_free(&both);
    return kept;
}

static struct slice upto(struct slice text, size_t end)
{
    return (struct slice){text.data, end < text.len ? end : text.len};
}

static struct slice before(struct slice text, const char *what)
{
    return upto(text, slice_find(text, 0, slice_of(what)));
}

static bool has(struct slice text, const char *what)
{
    return slice_find(text, 0, slice_of(what)) != SLICE_NOT_FOUND;
}

static struct slice trim_left(struct slice text)
{
    while (text.len && isspace((unsigned char)text.data[0]))
        text = slice_from(text, 1);
    return text;
}

/* A tag in angle or square brackets. */
static peg_id marker(struct peg *g)
{
    return CHOICE(g, SEQ(g, peg_text(g, "<"), peg_until(g, ">"), peg_text(g, ">")),
                  SEQ(g, peg_text(g, "["), peg_until(g, "]"), peg_text(g, "]")));
}

/* A tag and the blanks behind it, as a part. */
static peg_id marker_part(struct peg *g, enum peg_tag_name part)
{
    return peg_tag(g, part, SEQ(g, marker(g), peg_space(g)));
}

/* Characters up to the next tag. */
static peg_id no_markers(struct peg *g)
{
    return peg_any_number(g, SEQ(g, peg_not_ahead(g, marker(g)), peg_any(g)));
}

/* Names for the parts a text is taken apart into. */
#define PRE  TAG_PART_1
#define POST TAG_PART_2

/* Take text apart by root; frees g. The parts are slices of text. */
static bool take_apart(struct analyzer *z, struct peg *g, peg_id root, struct slice text,
                       bool anywhere, struct slice *parts)
{
    struct arena arena = {0};
    for (int i = 0; i < TAG_COUNT; i++)
        parts[i] = SLICE("");
    peg_set_root(g, root);
    z->out_of_memory = z->out_of_memory || peg_failed(g);
    bool ok = !peg_failed(g) && peg_extract(g, text, anywhere, &arena, parts);
    arena_free(&arena);
    peg_free(g);
    return ok;
}

static struct peg *new_peg(struct analyzer *z)
{
    struct peg *g = peg_create();
    z->out_of_memory = z->out_of_memory || !g;
    return g;
}

/* ---- Rendering ----------------------------------------------------------- */

static bool render(struct analyzer *z, const struct variant *v, struct slice *out)
{
    json_t *messages = json_loads(v->messages, 0, NULL);
    json_t *tools = v->tools ? json_loads(tools_json, 0, NULL) : NULL;
    json_t *context = json_pack("{s:b}", "enable_thinking", !v->no_thinking);
    struct chat_inputs in = {.t = z->t,
                             .context = context,
                             .enable_thinking = !v->no_thinking,
                             .keep_ends = true,
                             .budget = &z->probing->budget};
    struct jinja_output text = {0};
    struct error why = {0};
    bool ok =
        messages && context && (tools || !v->tools) && chat_shape_content(&z->t->caps, messages);
    z->out_of_memory = z->out_of_memory || !ok;
    ok = ok && chat_probing_goes_on(z->probing) &&
         chat_probing_note(
             z->probing, chat_render(&in, messages, tools, NULL, v->generation_prompt, &text, &why),
             &why);
    if (ok)
        *out = keep(z, str_slice(&text.text));
    jinja_output_free(&text);
    json_decref(messages);
    json_decref(tools);
    json_decref(context);
    return ok;
}

static bool compare(struct analyzer *z, struct variant a, struct variant b, struct comparison *out)
{
    *out = (struct comparison){0};
    if (!render(z, &a, &out->a) || !render(z, &b, &out->b))
        return false;
    if (!chat_text_diff(out->a, out->b, &z->a->arena, &out->diff))
        z->out_of_memory = true;
    return !z->out_of_memory;
}

/* The usual comparison: two conversations with tools. */
static bool compare_calls(struct analyzer *z, const char *a, const char *b, struct comparison *out)
{
    return compare(z, (struct variant){.messages = a, .tools = true},
                   (struct variant){.messages = b, .tools = true}, out);
}

/* ---- Reasoning ----------------------------------------------------------- */

#define ANSWERED_WITH_THOUGHT                                                                      \
    "{\"role\":\"assistant\",\"content\":\"" ANSWER "\",\"reasoning_content\":\"" THOUGHT "\"}"

/* A shown thought stands between tags, or only before one. */
static void find_shown_reasoning(struct analyzer *z)
{
    struct comparison c;
    struct slice parts[TAG_COUNT];
    if (!compare(z, (struct variant){.messages = AFTER_ASKED(ANSWERED)},
                 (struct variant){.messages = AFTER_ASKED(ANSWERED_WITH_THOUGHT)}, &c) ||
        !has(c.diff.right, THOUGHT))
        return;
    struct peg *g = new_peg(z);
    if (!g)
        return;
    bool ok = take_apart(z, g,
                         SEQ(g, marker_part(g, PRE), peg_text(g, THOUGHT),
                             peg_tag(g, POST, SEQ(g, peg_space(g), marker(g), peg_space(g))),
                             peg_rest(g)),
                         c.b, true, parts);
    if (!ok && (g = new_peg(z)))
        ok = take_apart(z, g,
                        SEQ(g, peg_text(g, THOUGHT), peg_space(g),
                            peg_optional(g, SEQ(g, marker_part(g, POST), peg_rest(g)))),
                        c.b, true, parts);
    if (ok && parts[POST].len) {
        z->a->reasoning = REASONING_TAGGED;
        z->a->reasoning_start = parts[PRE];
        z->a->reasoning_end = parts[POST];
    }
}

/* Thinking on may leave an open tag at the end, thinking off a closed one. */
static void find_reasoning_switch(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison c;
    if (!compare(z,
                 (struct variant){
                     .messages = "[" ASKED "]", .generation_prompt = true, .no_thinking = true},
                 (struct variant){.messages = "[" ASKED "]", .generation_prompt = true}, &c))
        return;
    struct slice left = chat_trim(c.diff.left), right = chat_trim(c.diff.right);
    if (left.len == 0 && c.diff.right.len) {
        if (right.len && slice_ends_with(c.b, right) && a->reasoning_start.len == 0) {
            a->reasoning_start = c.diff.right;
            a->reasoning = REASONING_TAGGED;
        }
    } else if (right.len == 0 && c.diff.left.len) {
        if (left.len && slice_ends_with(c.a, left) && a->reasoning_end.len == 0) {
            struct text_pieces pieces = {0};
            if (!chat_split_markers(c.a, true, &pieces))
                z->out_of_memory = true;
            size_t n = pieces.n;
            if (n >= 2 && slice_equal(pieces.data[n - 1].text, left) &&
                pieces.data[n - 2].is_marker)
                a->reasoning_start = pieces.data[n - 2].text;
            VEC_FREE(&pieces);
            a->reasoning_end = c.diff.left;
            a->reasoning = REASONING_TAGGED;
        }
    } else if (left.len && right.len) {
        /* The switch changes more than the end; does one end go on with an
         * empty thought where the other stops? */
        const struct slice ends[2][2] = {{c.b, c.a}, {c.a, c.b}};
        for (int i = 0; i < 2; i++) {
            struct slice base = ends[i][0], longer = ends[i][1];
            size_t n = base.len < 64 ? base.len : 64;
            size_t at = slice_find_last(longer, slice_from(base, base.len - n));
            if (at == SLICE_NOT_FOUND || at + n >= longer.len)
                continue;
            struct text_pieces pieces = {0};
            if (!chat_split_markers(chat_trim(slice_from(longer, at + n)), true, &pieces))
                z->out_of_memory = true;
            bool pair = pieces.n == 2 && pieces.data[0].is_marker && pieces.data[1].is_marker;
            if (pair) {
                if (a->reasoning_start.len == 0)
                    a->reasoning_start = pieces.data[0].text;
                if (a->reasoning_end.len == 0)
                    a->reasoning_end = pieces.data[1].text;
                a->reasoning = REASONING_TAGGED;
            }
            VEC_FREE(&pieces);
            if (pair)
                break;
        }
    }
    if (a->reasoning == REASONING_NONE && a->reasoning_start.len == 0 && a->reasoning_end.len)
        a->reasoning = REASONING_TAGGED;
}

/* Is a thought shown only where calls follow? */
static void find_reasoning_scope(struct analyzer *z)
{
    struct comparison c;
    struct slice parts[TAG_COUNT];
    if (!compare_calls(
            z, AFTER_ASKED(ANSWERED_WITH_THOUGHT),
            AFTER_ASKED("{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"" THOUGHT
                        "\",\"tool_calls\":[" CALL(
                            "call00001", FUNCTION_1,
                            ARG(ARGUMENT_1, "VVVV") "," ARG(ARGUMENT_2, "XXXX")) "]}"),
            &c) ||
        has(c.a, THOUGHT) || !has(c.b, THOUGHT))
        return;
    struct peg *g = new_peg(z);
    if (!g)
        return;
    z->a->reasoning = REASONING_WITH_TOOLS;
    if (take_apart(
            z, g,
            SEQ(g, marker_part(g, PRE), peg_text(g, THOUGHT), peg_space(g), marker_part(g, POST)),
            c.b, true, parts)) {
        z->a->reasoning_start = parts[PRE];
        z->a->reasoning_end = parts[POST];
    } else if ((g = new_peg(z)) && take_apart(z, g,
                                              SEQ(g, peg_text(g, THOUGHT), peg_space(g),
                                                  peg_optional(g, marker_part(g, POST))),
                                              c.b, true, parts)) {
        z->a->reasoning_end = parts[POST];
    } else {
        z->a->reasoning = REASONING_NONE;
    }
}

/* ---- Content ------------------------------------------------------------- */

/* Nothing but the answer, perhaps with a closing tag behind it. */
static bool is_plain(struct analyzer *z, struct slice text)
{
    struct slice parts[TAG_COUNT];
    struct peg *g = new_peg(z);
    return g && take_apart(z, g,
                           SEQ(g, peg_space(g), peg_literal(g, text), peg_space(g),
                               peg_optional(g, marker(g)), peg_space(g), peg_end(g)),
                           text, false, parts);
}

static bool follows_reasoning(struct analyzer *z, struct slice text)
{
    struct slice parts[TAG_COUNT];
    struct peg *g = z->a->reasoning_end.len ? new_peg(z) : NULL;
    return g &&
           take_apart(
               z, g, SEQ(g, peg_literal(g, z->a->reasoning_end), peg_space(g), peg_text(g, ANSWER)),
               text, true, parts);
}

static void find_content(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison tools, thought;
    struct slice parts[TAG_COUNT];
    if (!compare_calls(z, AFTER_ASKED(ANSWERED),
                       AFTER_ASKED(CALLING(CALL("call00001", "test_func", ARG("arg1", "value1")))),
                       &tools) ||
        !compare_calls(z, AFTER_ASKED(ANSWERED),
                       AFTER_ASKED("{\"role\":\"assistant\",\"content\":\"\","
                                   "\"reasoning_content\":\"" THOUGHT "\"}"),
                       &thought))
        return;
    if (slice_equal_text(chat_trim(tools.diff.left), ANSWER) &&
        (is_plain(z, thought.diff.left) ||
         (a->reasoning != REASONING_NONE && follows_reasoning(z, thought.diff.left))))
        return;
    struct slice rest = thought.diff.left;
    size_t at = a->reasoning_end.len ? slice_find(rest, 0, a->reasoning_end) : SLICE_NOT_FOUND;
    if (at != SLICE_NOT_FOUND)
        rest = slice_from(rest, at + a->reasoning_end.len);
    struct slice pure = rest.len > tools.diff.left.len ? rest : tools.diff.left;
    struct peg *g = new_peg(z);
    if (!g)
        return;
    take_apart(z, g,
               SEQ(g, marker_part(g, PRE), peg_text(g, ANSWER), peg_space(g), marker_part(g, POST),
                   peg_rest(g)),
               pure, true, parts);
    a->content_start = parts[PRE];
    a->content_end = parts[POST];
    a->content_wrapped = a->content_start.len && a->content_end.len;
}

/* ---- Calls: JSON --------------------------------------------------------- */

static bool holds(const json_t *value, const char *needle)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    bool found = text && strstr(text, needle);
    free(text);
    return found;
}

static struct slice dotted(struct analyzer *z, const char *prefix, const char *key)
{
    struct str name = {0};
    if (*prefix)
        str_append_format(&name, "%s.", prefix);
    str_append_text(&name, key);
    struct slice kept = keep(z, str_slice(&name));
    str_free(&name);
    return kept;
}

/* What a field of the call object is for. */
static void name_field(struct analyzer *z, const char *prefix, const char *key, const json_t *value)
{
    struct chat_analysis *a = z->a;
    const char *text = json_string_value(value);
    if (text && strstr(text, "call0000"))
        a->id_field = dotted(z, prefix, key);
    else if (text && strcmp(text, FUNCTION_1) == 0)
        a->name_field = dotted(z, prefix, key);
    else if (holds(value, ARGUMENT_1))
        a->args_field = dotted(z, prefix, key);
    else if (strstr(key, "id"))
        a->made_id_field = dotted(z, prefix, key);
}

static void name_fields(struct analyzer *z, const json_t *call)
{
    const char *key, *inner_key;
    json_t *value, *inner;
    json_object_foreach((json_t *)call, key, value)
    {
        if (strcmp(key, FUNCTION_1) == 0) {
            z->a->name_is_key = true;
            z->a->name_field = z->a->args_field = SLICE("");
            continue;
        }
        if (json_is_object(value) && !holds(value, ARGUMENT_1)) {
            z->a->function_field = keep(z, slice_of(key));
            json_object_foreach(value, inner_key, inner)
            {
                name_field(z, key, inner_key, inner);
            }
        }
        name_field(z, "", key, value);
    }
}

static void order_fields(struct chat_analysis *a, struct slice haystack)
{
    const struct slice fields[] = {a->name_field, a->args_field, a->id_field, a->made_id_field};
    size_t at[CHAT_FIELDS_MAX] = {0};
    for (size_t i = 0; i < CHAT_FIELDS_MAX; i++) {
        if (fields[i].len == 0)
            continue;
        size_t where = slice_find(haystack, 0, fields[i]), k = a->n_field_order++;
        while (k > 0 && at[k - 1] > where) {
            at[k] = at[k - 1];
            a->field_order[k] = a->field_order[k - 1];
            k--;
        }
        at[k] = where;
        a->field_order[k] = fields[i];
    }
}

static void find_json_calls(struct analyzer *z, struct slice haystack)
{
    struct chat_analysis *a = z->a;
    size_t begin = slice_find(haystack, 0, SLICE("{")),
           last = slice_find_last(haystack, SLICE("}"));
    if (begin == SLICE_NOT_FOUND || last == SLICE_NOT_FOUND || last < begin)
        return;
    size_t end = last + 1;
    struct slice cut = {haystack.data + begin, end - begin};
    json_t *call = json_loadb(cut.data, cut.len, 0, NULL);
    if (!json_is_object(call)) {
        json_decref(call);
        a->calls = CALLS_NONE;
        return;
    }
    name_fields(z, call);
    json_decref(call);
    struct slice parts[TAG_COUNT];
    struct peg *g = new_peg(z);
    if (g && take_apart(z, g,
                        SEQ(g, peg_tag(g, PRE, SEQ(g, peg_text(g, "["), peg_space(g))),
                            peg_literal(g, cut),
                            peg_tag(g, POST, SEQ(g, peg_space(g), peg_text(g, "]")))),
                        haystack, true, parts)) {
        a->in_array = true;
        begin -= parts[PRE].len;
        end += parts[POST].len;
    }
    order_fields(a, haystack);
    a->section_start = trim_left(upto(haystack, begin));
    a->section_end = chat_trim(slice_from(haystack, end));
    if (a->in_array && slice_equal_text(a->section_end, "]"))
        a->section_end = SLICE("");
}

/* What stands around the section in one call's conversation stands around each
 * call when a second call has it again. */
static void section_is_per_call(struct chat_analysis *a)
{
    a->call_start = a->section_start;
    a->call_end = a->section_end;
    a->section_start = a->section_end = SLICE("");
}

static void find_json_parallel(struct analyzer *z)
{
    struct comparison c;
    if (z->a->section_start.len &&
        compare_calls(z, AFTER_ASKED(CALLING(CALL_1)), AFTER_ASKED(CALLING(CALL_1 "," CALL_2)),
                      &c) &&
        slice_find(c.diff.right, 0, z->a->section_start) != SLICE_NOT_FOUND)
        section_is_per_call(z->a);
}

/* ---- Calls: tags --------------------------------------------------------- */

/* name in brackets: what stands before it in the bracket, and behind. */
static peg_id name_in_bracket(struct peg *g, const char *open, const char *close, bool whole)
{
    const struct slice stops[] = {slice_of(close), SLICE(FUNCTION_1)};
    peg_id rest = SEQ(g, peg_until(g, close), peg_text(g, close));
    peg_id behind = whole ? SEQ(g, peg_not_ahead(g, SEQ(g, peg_space(g), peg_text(g, open))), rest)
                          : SEQ(g, peg_not_ahead(g, SEQ(g, peg_space(g), peg_text(g, open), rest)),
                                peg_space(g));
    peg_id made = SEQ(g, peg_tag(g, PRE, SEQ(g, peg_text(g, open), peg_until_any(g, stops, 2))),
                      peg_text(g, FUNCTION_1), peg_tag(g, POST, behind));
    return whole ? SEQ(g, made, peg_space(g)) : made;
}

static void find_tagged_calls(struct analyzer *z, struct slice haystack)
{
    struct chat_analysis *a = z->a;
    struct slice fun[TAG_COUNT], parts[TAG_COUNT], ends[TAG_COUNT];
    struct peg *g = new_peg(z);
    if (!g)
        return;
    bool in_tag = take_apart(
        z, g,
        peg_tag(g, TAG_PART_3,
                CHOICE(g, name_in_bracket(g, "<", ">", true), name_in_bracket(g, "[", "]", false))),
        haystack, true, fun);
    struct slice name = in_tag ? fun[TAG_PART_3] : SLICE(FUNCTION_1);
    if (!(g = new_peg(z)))
        return;
    bool two = take_apart(z, g,
                          SEQ(g, marker_part(g, TAG_PART_3), marker_part(g, TAG_PART_4),
                              peg_tag(g, TAG_PART_5, peg_until_slice(g, name)),
                              peg_literal(g, name), peg_tag(g, TAG_PART_6, peg_rest(g))),
                          haystack, true, parts);
    if (!two) {
        if (!(g = new_peg(z)))
            return;
        take_apart(z, g,
                   SEQ(g, marker_part(g, TAG_PART_3), peg_literal(g, name),
                       peg_tag(g, TAG_PART_6, peg_rest(g))),
                   haystack, true, parts);
    } else {
        a->name_prefix = join(z, in_tag ? fun[PRE] : SLICE(""), a->name_prefix);
    }
    if (!(g = new_peg(z)))
        return;
    peg_id section_end = SEQ(g, marker_part(g, TAG_PART_4), peg_end(g));
    take_apart(z, g, two ? SEQ(g, marker_part(g, TAG_PART_3), section_end) : section_end,
               parts[TAG_PART_6], true, ends);
    a->call_start = parts[TAG_PART_4];
    a->call_end = ends[TAG_PART_3];
    a->section_start = parts[TAG_PART_3];
    a->section_end = ends[TAG_PART_4];
}

static void find_per_call_markers(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison c;
    struct text_diff second;
    if (!compare_calls(z, AFTER_ASKED(CALLING(CALL_1)), AFTER_ASKED(CALLING(CALL_1 "," CALL_2)),
                       &c))
        return;
    if (!chat_text_diff(c.diff.suffix, c.diff.right, &a->arena, &second)) {
        z->out_of_memory = true;
        return;
    }
    if (a->section_start.len && slice_starts_with(trim_left(second.right), a->section_start))
        section_is_per_call(a);
    if (a->call_end.len) {
        size_t one = chat_count(c.a, a->call_end), two = chat_count(c.b, a->call_end);
        if (one > 0 && one == two) { /* it closes the section after all */
            a->section_end = a->call_end;
            a->call_end = SLICE("");
        }
    }
}

/* ---- The function's name ------------------------------------------------- */

/* Everything between the name and the arguments. */
static void find_name_suffix(struct analyzer *z, struct slice behind)
{
    struct chat_analysis *a = z->a;
    struct slice parts[TAG_COUNT];
    struct peg *g = new_peg(z);
    if (!g)
        return;
    if (a->calls == CALLS_TAGGED_JSON) {
        peg_id no_json = CHOICE(g, marker(g),
                                SEQ(g, peg_not_ahead(g, peg_text(g, "{")),
                                    peg_not_ahead(g, peg_text(g, "[")), peg_any(g)));
        if (take_apart(
                z, g, SEQ(g, peg_tag(g, PRE, peg_any_number(g, no_json)), no_markers(g), marker(g)),
                behind, false, parts))
            a->name_suffix = join(z, a->name_suffix, parts[PRE]);
        return;
    }
    if (!take_apart(z, g, peg_tag(g, PRE, no_markers(g)), behind, false, parts))
        return;
    a->name_suffix = join(z, a->name_suffix, parts[PRE]);
    behind = slice_from(behind, parts[PRE].len);
    if (!(g = new_peg(z)))
        return;
    peg_id argument = SEQ(g, marker(g), peg_space(g),
                          CHOICE(g, peg_text(g, ARGUMENT_1), peg_text(g, ARGUMENT_2)));
    if (take_apart(
            z, g,
            SEQ(g,
                peg_tag(g, PRE, peg_any_number(g, SEQ(g, peg_not_ahead(g, argument), peg_any(g)))),
                argument),
            behind, false, parts))
        a->args_separator = chat_trim(parts[PRE]);
}

/* What stands between the last argument and the call's end. */
static void find_close(struct analyzer *z, struct slice behind)
{
    struct chat_analysis *a = z->a;
    struct slice parts[TAG_COUNT];
    struct peg *g = behind.len ? new_peg(z) : NULL;
    if (!g)
        return;
    peg_id last = SEQ(g, peg_until(g, "YYYY"), peg_text(g, "YYYY"));
    if (a->calls == CALLS_TAGGED) {
        if (take_apart(
                z, g,
                SEQ(g, last, peg_space(g), marker(g), peg_space(g), peg_tag(g, PRE, peg_rest(g))),
                behind, false, parts))
            a->close = parts[PRE];
    } else if (take_apart(z, g, SEQ(g, last, peg_tag(g, PRE, peg_rest(g))), behind, false, parts)) {
        struct slice post = parts[PRE];
        size_t end = post.len;
        while (end > 0 && post.data[end - 1] != '}' && post.data[end - 1] != ']')
            end--;
        if (end > 0 && end < post.len)
            a->close = slice_from(post, end);
    }
    a->close = trim_left(a->close);
}

static void find_function_markers(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison c, none;
    struct slice parts[TAG_COUNT];
    if (!compare_calls(z, AFTER_ASKED(CALLING(CALL_1)), AFTER_ASKED(CALLING(CALL_2)), &c) ||
        !has(c.diff.left, FUNCTION_1) || !has(c.diff.right, FUNCTION_2))
        return;
    struct slice start = a->call_start.len ? a->call_start : a->section_start;
    size_t at = start.len ? slice_find_last(c.diff.prefix, start) : SLICE_NOT_FOUND;
    if (at != SLICE_NOT_FOUND)
        a->name_prefix = slice_from(c.diff.prefix, at + start.len);
    struct peg *g = new_peg(z);
    if (g && take_apart(z, g,
                        SEQ(g, peg_tag(g, PRE, peg_until(g, FUNCTION_1)), peg_text(g, FUNCTION_1),
                            peg_tag(g, POST, no_markers(g))),
                        c.diff.left, false, parts)) {
        a->name_prefix = join(z, a->name_prefix, parts[PRE]);
        a->name_suffix = parts[POST];
    }
    find_name_suffix(z, c.diff.suffix);
    struct slice end = a->call_end.len ? a->call_end : a->section_end;
    struct slice behind = SLICE("");
    if (end.len) {
        behind = upto(c.diff.suffix, slice_find(c.diff.suffix, 0, end));
    } else if (compare_calls(z, AFTER_ASKED(CALLING(CALL_1)), AFTER_ASKED(ANSWERED), &none)) {
        at = slice_find(none.diff.left, 0, SLICE("YYYY"));
        behind = slice_from(none.diff.left, at == SLICE_NOT_FOUND ? 3 : at + 4);
    }
    find_close(z, behind);
}

/* ---- Arguments ----------------------------------------------------------- */

#define CALL_WITH(args) AFTER_ASKED(CALLING(CALL("call00001", FUNCTION_1, args)))

/* The last tag of text and what follows it; text itself when there is none. */
static struct slice last_marker_on(struct analyzer *z, struct slice text)
{
    struct slice parts[TAG_COUNT];
    struct peg *g = new_peg(z);
    if (!g)
        return text;
    peg_id last = SEQ(g, marker(g), no_markers(g), peg_end(g));
    return take_apart(z, g,
                      SEQ(g, peg_any_number(g, SEQ(g, peg_not_ahead(g, last), peg_any(g))),
                          peg_tag(g, PRE, last)),
                      text, false, parts)
               ? parts[PRE]
               : text;
}

/* name with what stands before it and behind it, up to a quote or the value. */
static bool around_name(struct analyzer *z, struct slice text, const char *name, const char *value,
                        struct slice *parts)
{
    const struct slice stops[] = {SLICE("\""), slice_of(value)};
    struct peg *g = new_peg(z);
    return g && take_apart(z, g,
                           SEQ(g, peg_tag(g, PRE, peg_until(g, name)), peg_text(g, name),
                               peg_tag(g, POST, peg_until_any(g, stops, 2))),
                           text, true, parts);
}

static void find_argument_names(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison c;
    struct slice left[TAG_COUNT], right[TAG_COUNT], parts[TAG_COUNT];
    if (!compare_calls(z, CALL_WITH(ARG(ARGUMENT_1, "XXXX")), CALL_WITH(ARG(ARGUMENT_2, "YYYY")),
                       &c) ||
        c.diff.left.len == 0 || c.diff.right.len == 0)
        return;
    bool both = around_name(z, c.diff.left, ARGUMENT_1, "X", left) &&
                around_name(z, c.diff.right, ARGUMENT_2, "Y", right);
    if (both && left[PRE].len && slice_equal(left[PRE], right[PRE]) &&
        slice_equal(left[POST], right[POST])) {
        a->arg_name_prefix = left[PRE];
        a->arg_name_suffix = left[POST];
        return;
    }
    if (!slice_starts_with(c.diff.left, SLICE(ARGUMENT_1)) ||
        !slice_starts_with(c.diff.right, SLICE(ARGUMENT_2)))
        return;
    a->arg_name_prefix = last_marker_on(z, c.diff.prefix);
    struct slice behind = join(z, slice_from(c.diff.left, sizeof ARGUMENT_1 - 1), c.diff.suffix);
    struct peg *g = new_peg(z);
    if (g && take_apart(z, g, peg_tag(g, POST, SEQ(g, no_markers(g), marker(g), peg_space(g))),
                        behind, true, parts))
        a->arg_name_suffix = parts[POST];
}

static void find_argument_values(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison c;
    if (!compare_calls(z, CALL_WITH(ARG(ARGUMENT_1, "XXXX")), CALL_WITH(ARG(ARGUMENT_1, "YYYY")),
                       &c) ||
        !slice_equal_text(c.diff.left, "XXXX") || !slice_equal_text(c.diff.right, "YYYY"))
        return;
    struct slice name = join(z, SLICE(ARGUMENT_1), a->arg_name_suffix);
    struct slice prefix = c.diff.prefix;
    size_t at = slice_find_last(prefix, name);
    if (at != SLICE_NOT_FOUND)
        prefix = slice_from(prefix, at + name.len);
    if (prefix.len)
        a->arg_value_prefix = last_marker_on(z, prefix);
    struct slice suffix = c.diff.suffix;
    struct slice end = a->close.len ? a->close : a->call_end.len ? a->call_end : a->section_end;
    if (end.len)
        suffix = upto(suffix, slice_find(suffix, 0, end));
    if (chat_trim(suffix).len)
        a->arg_value_suffix = suffix;
}

static void find_argument_separator(struct analyzer *z)
{
    struct comparison c;
    if (compare_calls(z, CALL_WITH(ARG(ARGUMENT_1, "XXXX")), CALL_WITH(BOTH_ARGS), &c) &&
        c.diff.right.len)
        z->a->arg_separator =
            chat_until_common_prefix(c.diff.right, SLICE(ARGUMENT_1), SLICE(ARGUMENT_2));
}

/* ---- Call ids ------------------------------------------------------------ */

static struct slice last_marker(struct analyzer *z, struct slice text)
{
    struct slice parts[TAG_COUNT];
    struct peg *g = new_peg(z);
    if (!g)
        return SLICE("");
    peg_id last = SEQ(g, marker(g), no_markers(g), peg_end(g));
    take_apart(z, g,
               SEQ(g, peg_any_number(g, SEQ(g, peg_not_ahead(g, last), peg_any(g))),
                   peg_tag(g, PRE, marker(g))),
               text, true, parts);
    return parts[PRE];
}

/* An id between the name and the arguments is read; elsewhere it is not. */
static void find_call_id(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison c;
    struct slice parts[TAG_COUNT];
    if (!compare_calls(z, AFTER_ASKED(CALLING(CALL_1)),
                       AFTER_ASKED(CALLING(CALL("call99999", FUNCTION_1, BOTH_ARGS))), &c) ||
        (c.diff.left.len == 0 && c.diff.right.len == 0))
        return;
    size_t name = slice_find_last(c.diff.prefix, SLICE(FUNCTION_1));
    bool anywhere = true;
    if (name != SLICE_NOT_FOUND && !has(c.diff.suffix, FUNCTION_1)) {
        bool args_before = slice_find(c.diff.prefix, name, SLICE("{")) != SLICE_NOT_FOUND;
        if (!args_before && has(c.diff.suffix, "{")) {
            a->id_between_name_and_args = true;
            struct slice behind = slice_from(c.diff.prefix, name + sizeof FUNCTION_1 - 1);
            struct peg *g = new_peg(z);
            if (g && take_apart(z, g,
                                SEQ(g, peg_tag(g, PRE, marker(g)),
                                    peg_any_number(g, SEQ(g, peg_not_ahead(g, marker(g)),
                                                          peg_not_ahead(g, peg_text(g, "call")),
                                                          peg_any(g))),
                                    peg_text(g, "call")),
                                behind, true, parts))
                a->id_prefix = parts[PRE];
            else
                a->id_prefix = last_marker(z, behind);
            if ((g = new_peg(z)) &&
                take_apart(
                    z, g,
                    SEQ(g,
                        peg_any_number(g, SEQ(g, peg_not_ahead(g, marker(g)),
                                              peg_not_ahead(g, peg_text(g, "{")), peg_any(g))),
                        peg_tag(g, POST, marker(g))),
                    c.diff.suffix, true, parts))
                a->id_suffix = parts[POST];
        } else if (!args_before) {
            anywhere = false;
        } else {
            struct peg *g = new_peg(z);
            if (g && take_apart(z, g, peg_tag(g, POST, marker(g)), c.diff.suffix, true, parts))
                a->id_suffix = parts[POST];
        }
    } else if (name == SLICE_NOT_FOUND && has(c.diff.suffix, FUNCTION_1)) {
        struct peg *g = new_peg(z);
        if (g && take_apart(z, g, peg_tag(g, POST, marker(g)), before(c.diff.suffix, FUNCTION_1),
                            true, parts))
            a->id_suffix = parts[POST];
    } else {
        anywhere = false;
    }
    /* the end found before was this tag and what follows it */
    if (anywhere && a->id_suffix.len && slice_starts_with(a->call_end, a->id_suffix))
        a->call_end = SLICE("");
}

/* ---- Calls together ------------------------------------------------------ */

/* Is needle a JSON key or value: after a brace or colon, in quotes? */
static bool in_json(struct analyzer *z, struct slice text, const char *needle)
{
    struct slice parts[TAG_COUNT];
    struct peg *g = new_peg(z);
    return g && take_apart(z, g,
                           SEQ(g, CHOICE(g, peg_text(g, "{"), peg_text(g, ":")), peg_space(g),
                               peg_text(g, "\""), peg_text(g, needle), peg_text(g, "\"")),
                           text, true, parts);
}

static struct slice without(struct analyzer *z, struct slice text, struct slice what)
{
    size_t at = what.len ? slice_find(text, 0, what) : SLICE_NOT_FOUND;
    return at == SLICE_NOT_FOUND ? text : join(z, upto(text, at), slice_from(text, at + what.len));
}

static void find_calls(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison c;
    bool parallel = z->t->caps.supports_parallel_tool_calls;
    if (!compare_calls(z, AFTER_ASKED(ANSWERED), AFTER_ASKED(CALLING(CALL_1)), &c) ||
        c.diff.right.len == 0)
        return;
    a->calls = in_json(z, c.diff.right, FUNCTION_1)   ? CALLS_JSON
               : in_json(z, c.diff.right, ARGUMENT_1) ? CALLS_TAGGED_JSON
                                                      : CALLS_TAGGED;
    struct slice clean = without(z, without(z, c.diff.right, a->reasoning_start), a->reasoning_end);
    if (a->calls == CALLS_JSON) {
        find_json_calls(z, clean);
        if (a->calls == CALLS_JSON && parallel)
            find_json_parallel(z);
    } else {
        find_tagged_calls(z, clean);
    }
    a->section_end = chat_trim(a->section_end);
    a->call_end = chat_trim(a->call_end);
    if (a->calls == CALLS_NONE || a->calls == CALLS_JSON)
        return;
    if (parallel)
        find_per_call_markers(z);
    find_function_markers(z);
    if (a->calls == CALLS_TAGGED) {
        find_argument_names(z);
        find_argument_values(z);
    }
    find_argument_separator(z);
    find_call_id(z);
}

/* ---- Where messages start ------------------------------------------------ */

static void find_assistant_start(struct analyzer *z)
{
    struct chat_analysis *a = z->a;
    struct comparison c;
    if (!compare(z, (struct variant){.messages = "[" ASKED "]"},
                 (struct variant){.messages = AFTER_ASKED(ANSWERED)}, &c))
        return;
    struct slice start = before(c.diff.right, ANSWER);
    const struct slice tags[] = {chat_trim(a->reasoning_start), chat_trim(a->reasoning_end)};
    for (int i = 0; i < 2; i++)
        if (tags[i].len)
            start = upto(start, slice_find(start, 0, tags[i]));
    a->assistant_start = chat_trim(start);
}

static bool holds_word(struct slice text, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= text.len; i++) {
        size_t k = 0;
        while (k < n && tolower((unsigned char)text.data[i + k]) == word[k])
            k++;
        if (k == n)
            return true;
    }
    return false;
}

static void find_user_start(struct analyzer *z)
{
    struct comparison c;
    if (!compare(z, (struct variant){.messages = "[]"}, (struct variant){.messages = "[" ASKED "]"},
                 &c) &&
        !compare(z, (struct variant){.messages = "[" SAY("user", USER_2) "," ANSWERED "]"},
                 (struct variant){.messages = "[" SAY("user", USER_2) "," ANSWERED "," ASKED "]"},
                 &c))
        return;
    struct slice text = c.diff.right;
    size_t at = slice_find(text, 0, SLICE(ANSWER));
    if (at != SLICE_NOT_FOUND)
        text = slice_from(text, at + sizeof ANSWER - 1);
    struct text_pieces pieces = {0};
    struct str start = {0};
    if (!chat_split_markers(before(text, USER_1), false, &pieces))
        z->out_of_memory = true;
    bool begun = false;
    for (size_t i = 0; i < pieces.n; i++) {
        struct slice piece = pieces.data[i].text;
        bool is_marker = pieces.data[i].is_marker;
        /* what closes the message before is not this one's start */
        if (!begun && is_marker && (holds_word(piece, "end") || holds_word(piece, "close")))
            continue;
        if (!begun && !is_marker && chat_trim(piece).len == 0)
            continue;
        begun = begun || is_marker;
        str_append_slice(&start, piece);
    }
    z->a->user_start = keep(z, chat_trim(str_slice(&start)));
    str_free(&start);
    VEC_FREE(&pieces);
}

/* ---- All ----------------------------------------------------------------- */

void chat_analysis_preserve(struct chat_analysis *a, struct slice token)
{
    token = chat_trim(token);
    for (size_t i = 0; i < a->n_preserved; i++)
        if (slice_equal(a->preserved[i], token))
            return;
    if (token.len && a->n_preserved < CHAT_TOKENS_MAX)
        a->preserved[a->n_preserved++] = token;
}

static void preserve_all(struct chat_analysis *a)
{
    const struct slice tokens[] = {
        a->reasoning_start,  a->reasoning_end,   a->content_start,  a->content_end,
        a->section_start,    a->section_end,     a->call_start,     a->call_end,
        a->name_prefix,      a->name_suffix,     a->args_separator, a->close,
        a->arg_name_prefix,  a->arg_name_suffix, a->arg_separator,  a->arg_value_prefix,
        a->arg_value_suffix, a->id_prefix,       a->id_suffix};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        chat_analysis_preserve(a, tokens[i]);
}

struct chat_analysis *chat_analyze(const struct chat_template *t, struct chat_probing *probing,
                                   struct error *err)
{
    struct chat_analysis *a = calloc(1, sizeof *a);
    if (!a) {
        error_memory(err);
        return NULL;
    }
    a->function_field = SLICE("function");
    a->name_field = SLICE("name");
    a->args_field = SLICE("arguments");
    struct analyzer z = {.t = t, .a = a, .probing = probing};
    bool calls = t->caps.supports_tool_calls;
    find_shown_reasoning(&z);
    find_reasoning_switch(&z);
    if (calls)
        find_reasoning_scope(&z);
    find_content(&z);
    if (calls)
        find_calls(&z);
    find_assistant_start(&z);
    find_user_start(&z);
    preserve_all(a);
    chat_analysis_patch(t, a);
    if (z.out_of_memory) {
        chat_analysis_free(a);
        error_memory(err);
        return NULL;
    }
    return a;
}

void chat_analysis_free(struct chat_analysis *a)
{
    if (!a)
        return;
    arena_free(&a->arena);
    free(a);
}
