/* Whatever tools and their parameters are called, the grammar of their calls
 * compiles, admits a call of each, and the parser reads it. */
#include "unit/chat/helpers.h"

#include <string.h>

enum { N_TOOLS = 4, ROUNDS = 3 };

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* What OpenAI allows in a name. */
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
/* And what else may stand there: what means something in grammars, and other
 * alphabets. */
static const char *const odd[] = {"]", "[",   "^",   "-",  "\\", "\"", "'", "|", "*", "+",
                                  "?", "(",   ")",   "{",  "}",  ".",  "$", "#", "/", ":",
                                  " ", "::=", "\\n", "%s", "&",  "<",  ">", "@", "~"};
/* One for each tool: halves of characters are states, of which the search has so many. */
static const char *const alphabets[] = {"é", "日", "😀"};
static const char *alphabet = "é";

/* Two of a round differ only in what a rule's name does not show. */
static void make_name(char out[64], uint32_t *seed, bool with_odd, size_t i)
{
    size_t n = 0, len = 1 + next_random(seed) % 12;
    out[n++] = "wxyz"[i];
    out[n++] = '_';
    for (size_t k = 0; k < len && n < 40; k++) {
        if (with_odd && next_random(seed) % 3 == 0) {
            size_t which = next_random(seed) % (sizeof odd / sizeof *odd + 2);
            const char *piece = which < sizeof odd / sizeof *odd ? odd[which] : alphabet;
            memcpy(out + n, piece, strlen(piece));
            n += strlen(piece);
        } else {
            out[n++] = plain[next_random(seed) % (sizeof plain - 1)];
        }
    }
    out[n] = '\0';
}

static json_t *make_tool(const char *name, uint32_t *seed, bool with_odd)
{
    json_t *properties = json_object(), *required = json_array();
    static const char *const schemas[] = {"{\"type\":\"string\"}", "{\"type\":\"integer\"}",
                                          "{\"enum\":[\"a-b\",\"c]\",\"^d\\\"\"]}"};
    for (size_t i = 0; i < 3; i++) {
        char key[64];
        make_name(key, seed, with_odd, i);
        json_object_set_new(properties, key, json_loads(schemas[i], 0, NULL));
        if (i != 1)
            json_array_append_new(required, json_string(key));
    }
    return json_pack("{s:s,s:{s:s,s:s,s:{s:s,s:o,s:o}}}", "type", "function", "function", "name",
                     name, "description", "d", "parameters", "type", "object", "properties",
                     properties, "required", required);
}

struct round {
    const struct vocab *vocab;
    bool with_odd;
    int n_grammars, n_calls, n_failed;
    uint32_t seed;
};

static json_t *body_of(json_t *tools, const char *named)
{
    json_t *body = json_pack("{s:[{s:s,s:s}],s:O,s:s}", "messages", "role", "user", "content", "Hi",
                             "tools", tools, "tool_choice", "required");
    if (named)
        json_object_set_new(
            body, "tool_choice",
            json_pack("{s:s,s:{s:s}}", "type", "function", "function", "name", named));
    return body;
}

static bool is_call_of(const struct chat_prompt *prompt, struct slice text, const json_t *tool)
{
    struct chat_message message = {0};
    struct error err = {0};
    bool good =
        chat_parse(prompt->parser, text, false, &message, &err) && message.n_tool_calls == 1;
    const json_t *function = json_object_get(tool, "function");
    if (good) {
        const struct chat_tool_call *call = &message.tool_calls[0];
        json_t *args = json_parse(str_slice(&call->arguments), NULL), *value;
        const json_t *properties =
            json_object_get(json_object_get(function, "parameters"), "properties");
        const char *key;
        good = slice_equal(str_slice(&call->name), json_slice(json_object_get(function, "name"))) &&
               json_is_object(args);
        json_object_foreach(args, key, value)
        {
            good = good && json_object_get(properties, key);
        }
        if (!good)
            print_error("read as %s(%s)\n", str_text(&call->name), str_text(&call->arguments));
        json_decref(args);
    }
    chat_message_free(&message);
    return good;
}

/* A call of one tool, by the grammar for it alone; into *call with the
 * generation prompt in front. False: there is no such grammar. */
static bool call_of(struct round *r, const struct chat_templates *t, const char *name,
                    json_t *tools, size_t i, struct str *call)
{
    const char *named = json_string_value(
        json_object_get(json_object_get(json_array_get(tools, i), "function"), "name"));
    json_t *body = body_of(tools, named);
    struct chat_prompt prompt = {0};
    struct error err = {0};
    bool ok = apply_body(t, body, &prompt, &err);
    json_decref(body);
    bool has = ok && prompt.grammar.len > 0;
    if (!ok) {
        print_error("%s: %s: %s\n", name, named, err.message);
        r->n_failed++;
    } else if (has) {
        r->n_grammars++;
        struct machine *m = machine_open(r->vocab, str_slice(&prompt.grammar));
        struct slice begin = str_slice(&prompt.generation_prompt);
        str_append_slice(call, begin);
        bool good =
            m && machine_feed(m, begin) == begin.len && machine_finish(m, call) &&
            is_call_of(&prompt, slice_from(str_slice(call), begin.len), json_array_get(tools, i));
        if (!good) {
            print_error("%s: no call of \"%s\": %s\n", name, named, str_text(call));
            r->n_failed++;
        }
        machine_close(m);
    }
    chat_prompt_free(&prompt);
    return has;
}

/* The grammar for all tools admits the call of each. */
static void check_all(struct round *r, const struct chat_templates *t, const char *name,
                      json_t *tools, const struct str *calls)
{
    json_t *body = body_of(tools, NULL);
    struct chat_prompt prompt = {0};
    struct error err = {0};
    assert_true(apply_body(t, body, &prompt, &err));
    json_decref(body);
    for (size_t i = 0; i < N_TOOLS; i++) {
        struct machine *m = machine_open(r->vocab, str_slice(&prompt.grammar));
        struct slice call = str_slice(&calls[i]);
        size_t n = m ? machine_feed(m, call) : 0;
        r->n_calls++;
        if (!m || n < call.len || !machine_complete(m)) {
            print_error("%s: among all tools, stops before \"%s\" of %s\n", name,
                        str_text(&calls[i]) + n, str_text(&calls[i]));
            r->n_failed++;
        }
        machine_close(m);
    }
    chat_prompt_free(&prompt);
}

static void check_template(const struct chat_templates *t, const char *name, void *arg)
{
    struct round *r = arg;
    for (int round = 0; round < ROUNDS; round++) {
        json_t *tools = json_array();
        char tool_name[64];
        for (size_t i = 0; i < N_TOOLS; i++) {
            if (i % 2 == 0)
                alphabet = alphabets[next_random(&r->seed) % 3];
            if (i % 2 == 0)
                make_name(tool_name, &r->seed, r->with_odd, i);
            else /* in the name of a rule no different from the one before */
                tool_name[1] = '-';
            json_array_append_new(tools, make_tool(tool_name, &r->seed, r->with_odd));
        }
        struct str calls[N_TOOLS] = {0};
        bool all = true;
        for (size_t i = 0; i < N_TOOLS; i++)
            all = call_of(r, t, name, tools, i, &calls[i]) && all;
        if (all)
            check_all(r, t, name, tools, calls);
        for (size_t i = 0; i < N_TOOLS; i++)
            str_free(&calls[i]);
        json_decref(tools);
    }
}

static void check(bool with_odd)
{
    struct vocab *vocab = byte_vocab();
    struct round r = {.vocab = vocab, .with_odd = with_odd, .seed = 7};
    size_t n = for_each_template(check_template, &r);
    printf("%zu templates, %d grammars, %d calls among others\n", n, r.n_grammars, r.n_calls);
    vocab_free(vocab);
    assert_true(r.n_grammars > 100);
    assert_int_equal(r.n_failed, 0);
}

static void names_that_openai_allows_are_called(void **state)
{
    (void)state;
    check(false);
}

static void odd_names_are_called(void **state)
{
    (void)state;
    check(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_openai_allows_are_called),
        cmocka_unit_test(odd_names_are_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
