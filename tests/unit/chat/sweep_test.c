/* No combination of what a chat request may ask for fails for a reason that is not
 * the client's, on any template: a sampler can be made and steps be taken. */
#include "unit/chat/helpers.h"

#include <string.h>

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get-it\",\"parameters\":{"         \
    "\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\"},\"n\":{\"type\":"             \
    "\"integer\"}},\"required\":[\"x\"]}}},{\"type\":\"function\",\"function\":{\"name\":\"now\"," \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"y\":{\"enum\":[1,\"a\"]}}}}}]"

#define SCHEMA                                                                                     \
    "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{\"type\":\"object\","   \
    "\"properties\":{\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"]}}}"

enum { PARTS = 8 };

/* One of each is laid over the body. */
static const char *const parts[][PARTS] = {
    {"{}", "{" TOOLS "}", "{" TOOLS ",\"tool_choice\":\"none\"}",
     "{" TOOLS ",\"tool_choice\":\"required\"}",
     "{" TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"get-it\"}}}"},
    {"{\"parallel_tool_calls\":true}", "{\"parallel_tool_calls\":false}"},
    {"{}", "{\"response_format\":{\"type\":\"json_object\"}}", "{\"response_format\":" SCHEMA "}"},
    {"{}", "{\"reasoning_format\":\"none\"}",
     "{\"chat_template_kwargs\":{\"enable_thinking\":false}}", "{\"thinking_budget\":0}",
     "{\"thinking_budget\":2}"},
};

#define USER "{\"role\":\"user\",\"content\":\"Hi\"}"

/* The messages, and how they end. */
static const char *const conversations[] = {
    "{\"messages\":[" USER "]}",
    "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"It is\"}]}",
    "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"{\"}]}",
    "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"I "
    "see\"}]}",
    "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"It\",\"reasoning_content\":\"I "
    "see\"}]}",
    "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"It is\"}],"
    "\"continue_final_message\":true,\"add_generation_prompt\":false}",
    "{\"messages\":[" USER ",{\"role\":\"assistant\",\"content\":\"It\",\"reasoning_content\":\"I "
    "see\"}],\"continue_final_message\":\"reasoning_content\",\"add_generation_prompt\":false}",
    "{\"messages\":[" USER "],\"add_generation_prompt\":false}",
};

struct sweep {
    struct vocab *vocab;
    const char *name;
    uint32_t seed;
    int n, n_refused, n_failed;
};

static struct token_run tokens_of(struct slice text, int32_t *room)
{
    for (size_t i = 0; i < text.len; i++)
        room[i] = (unsigned char)text.data[i];
    return (struct token_run){room, text.len};
}

enum { STEPS = 24, TRIGGERS = 64, ENDS = 8, TEXT = 4096 };

/* As the server makes it of the prompt. */
static struct sampler *make_sampler(const struct sweep *s, const struct chat_prompt *prompt,
                                    int32_t budget, struct error *err)
{
    static int32_t prefill[TEXT], start[TEXT], end[ENDS][TEXT];
    struct grammar_trigger triggers[TRIGGERS];
    struct token_run ends[ENDS];
    struct sampler_settings set = sampler_settings_defaults();
    set.seed = s->seed;
    set.grammar = str_slice(&prompt->grammar);
    set.grammar_lazy = prompt->grammar_lazy;
    set.grammar_prefilled = true;
    set.grammar_triggers = triggers;
    static const enum grammar_trigger_kind kinds[] = {[CHAT_TRIGGER_WORD] = TRIGGER_WORD,
                                                      [CHAT_TRIGGER_PATTERN] = TRIGGER_PATTERN,
                                                      [CHAT_TRIGGER_PATTERN_FULL] =
                                                          TRIGGER_PATTERN_FULL};
    for (; set.n_grammar_triggers < prompt->n_triggers; set.n_grammar_triggers++) {
        const struct chat_trigger *t = &prompt->triggers[set.n_grammar_triggers];
        triggers[set.n_grammar_triggers] =
            (struct grammar_trigger){kinds[t->kind], slice_of(t->value), 0};
    }
    set.prefill = tokens_of(str_slice(&prompt->generation_prompt), prefill);
    set.reasoning_budget_tokens = budget;
    set.reasoning_start = tokens_of(str_slice(&prompt->thinking_start), start);
    for (; set.n_reasoning_ends < prompt->thinking_end.n; set.n_reasoning_ends++)
        ends[set.n_reasoning_ends] = tokens_of(
            slice_of(prompt->thinking_end.data[set.n_reasoning_ends]), end[set.n_reasoning_ends]);
    set.reasoning_ends = ends;
    if (set.n_reasoning_ends)
        set.reasoning_forced = ends[0];
    return sampler_create(s->vocab, &set, 4096, err);
}

/* A model that writes at random, but likes what calls and JSON are made of. */
static bool take_steps(struct sweep *s, struct sampler *sampler, struct error *err)
{
    float logits[END_TOKEN + 1];
    for (int step = 0; step < STEPS; step++) {
        for (int c = 0; c <= END_TOKEN; c++) {
            s->seed = s->seed * 1664525u + 1013904223u;
            logits[c] = (float)(s->seed >> 24) / 64.0f + (c < 127 && c > 31 ? 3.0f : 0.0f);
        }
        int32_t token;
        if (!sampler_sample(sampler, logits, &token, err) ||
            !sampler_accept(sampler, token, true, err))
            return false;
        if (token == END_TOKEN)
            break;
    }
    return true;
}

static bool is_clients(const struct error *err)
{
    return err->code == ERR_INVALID || err->code == ERR_FORMAT || err->code == ERR_LIMIT ||
           err->code == ERR_UNSUPPORTED;
}

/* The answer's beginning is given and may not be how what is asked begins: prose
 * before JSON, text where only a call may stand. */
static bool excludes_itself(const json_t *body)
{
    const json_t *messages = json_object_get(body, "messages"),
                 *last = json_array_get(messages, json_array_size(messages) - 1),
                 *choice = json_object_get(body, "tool_choice");
    struct slice content = json_slice(json_object_get(last, "content"));
    bool prefilled = slice_equal(json_slice(json_object_get(last, "role")), SLICE("assistant"));
    bool format = json_object_get(body, "response_format"),
         required = json_is_object(choice) || slice_equal(json_slice(choice), SLICE("required"));
    return prefilled && content.len > 0 && (format ? !slice_equal(content, SLICE("{")) : required);
}

static void try_body(struct sweep *s, const struct chat_templates *t, const json_t *body)
{
    struct chat_prompt prompt = {0};
    struct error err = {0};
    const json_t *budget = json_object_get(body, "thinking_budget");
    bool applied = apply_body(t, body, &prompt, &err);
    struct sampler *sampler =
        applied ? make_sampler(s, &prompt, budget ? (int32_t)json_integer_value(budget) : -1, &err)
                : NULL;
    bool ok = sampler && take_steps(s, sampler, &err);
    s->n++;
    if (!ok && !sampler && is_clients(&err) && excludes_itself(body)) {
        s->n_refused++;
        if (getenv("SWEEP_SHOW"))
            printf("%s: %s\n", s->name, err.message);
    } else if (!ok) {
        char *text = json_dumps(body, 0);
        print_error("%s: %s\n   %s\n   prompt's end: %s\n", s->name, err.message, text,
                    str_text(&prompt.generation_prompt));
        free(text);
        s->n_failed++;
    }
    sampler_free(sampler);
    chat_prompt_free(&prompt);
}

/* Every choice of the parts from the i-th on. */
static void sweep_parts(struct sweep *s, const struct chat_templates *t, json_t *body, size_t i)
{
    if (i == sizeof parts / sizeof *parts) {
        try_body(s, t, body);
        return;
    }
    for (size_t k = 0; k < PARTS && parts[i][k]; k++) {
        json_t *more = json_parse(slice_of(parts[i][k]), NULL), *whole = json_copy(body);
        assert_non_null(more);
        assert_int_equal(json_object_update(whole, more), 0);
        sweep_parts(s, t, whole, i + 1);
        json_decref(more);
        json_decref(whole);
    }
}

static void sweep_template(const struct chat_templates *t, const char *name, void *arg)
{
    struct sweep *s = arg;
    s->name = name;
    for (size_t i = 0; i < sizeof conversations / sizeof *conversations; i++) {
        json_t *body = json_parse(slice_of(conversations[i]), NULL);
        assert_non_null(body);
        sweep_parts(s, t, body, 0);
        json_decref(body);
    }
}

static void no_combination_fails(void **state)
{
    (void)state;
    struct sweep s = {.vocab = byte_vocab(), .seed = 3};
    size_t n = for_each_template(sweep_template, &s);
    printf("%zu templates, %d combinations, %d of them refused\n", n, s.n, s.n_refused);
    vocab_free(s.vocab);
    assert_int_equal(s.n, (int)n * 8 * 5 * 2 * 3 * 5);
    assert_int_equal(s.n_failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_combination_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
