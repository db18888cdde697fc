/* A response format holds on every template: the grammar takes nothing else, and
 * what it takes is read as the format's JSON. */
#include "unit/chat/helpers.h"

#include <string.h>

static const char prose[] = "Here is a story";

struct format {
    const char *name, *response_format;
    const char *good; /* an answer that fits */
};

static const struct format formats[] = {
    {"json_object", "{\"type\":\"json_object\"}", "{\"a\": [1, {\"b\": null}], \"c\": \"\\\"\"}"},
    {"json_object with a schema",
     "{\"type\":\"json_object\",\"schema\":{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":"
     "\"boolean\"}},\"required\":[\"ok\"]}}",
     "{\"ok\": true}"},
    {"json_schema",
     "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{\"type\":\"object\","
     "\"properties\":{\"it-em\":{\"enum\":[\"a-]b\",\"^\"]}},\"required\":[\"it-em\"],"
     "\"additionalProperties\":false}}}",
     "{\"it-em\": \"a-]b\"}"},
    {"json_schema of a list",
     "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"type\":\"array\",\"items\":{"
     "\"type\":\"integer\"},\"minItems\":1}}}",
     "[1, 2]"},
    {"json_schema without a schema", "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\"}}",
     "{\"a\": [1]}"},
};

#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":{\"type\":\"object\","  \
    "\"properties\":{\"x\":{\"type\":\"string\"}}}}}]"

static const struct {
    const char *name, *more; /* laid over the body */
} kinds[] = {
    {"alone", "{}"},
    {"no thinking", "{\"chat_template_kwargs\":{\"enable_thinking\":false}}"},
    {"thoughts as content", "{\"reasoning_format\":\"none\"}"},
    {"beside tools", "{\"tools\":" TOOLS "}"},
    {"beside tools that must not be called", "{\"tool_choice\":\"none\",\"tools\":" TOOLS "}"},
    {"beside tools that must be called", "{\"tool_choice\":\"required\",\"tools\":" TOOLS "}"},
};

struct run {
    const struct vocab *vocab;
    const char *name, *kind, *format;
    const char *good;
    bool thoughts_shown, thoughts_dropped; /* as content, not at all */
    int n_checked, n_thoughts, n_failed;
};

static void failed(struct run *r, const char *what, const char *text)
{
    print_error("%s, %s, %s: %s: %s\n", r->name, r->format, r->kind, what, text);
    r->n_failed++;
}

/* What the parser reads of an answer, as JSON; NULL when that is none. Where
 * thoughts are content, JSON is looked for at the end. */
static json_t *read_answer(const struct run *r, const struct chat_prompt *prompt,
                           struct slice answer, struct str *thought)
{
    struct chat_message message = {0};
    struct error err = {0};
    assert_true(chat_parse(prompt->parser, answer, false, &message, &err));
    json_t *value = message.n_tool_calls ? NULL : json_parse(str_slice(&message.content), NULL);
    struct slice content = str_slice(&message.content);
    for (size_t i = 0; r->thoughts_shown && !value && i < content.len; i++)
        value = json_parse(slice_from(content, i), NULL);
    str_append_slice(thought, str_slice(&message.reasoning_content));
    chat_message_free(&message);
    return value;
}

/* After begin the grammar admits more, so that it may end, and the answer that
 * makes is JSON. *answer: without the generation prompt. */
static bool ends_as_json(struct run *r, const struct chat_prompt *prompt, struct slice begin,
                         struct str *answer, struct str *thought)
{
    struct machine *m = machine_open(r->vocab, str_slice(&prompt->grammar));
    struct slice opening = str_slice(&prompt->generation_prompt);
    str_clear(answer);
    str_append_slice(answer, begin);
    bool good = m && machine_feed(m, opening) == opening.len &&
                machine_feed(m, begin) == begin.len && machine_finish(m, answer);
    json_t *value = good ? read_answer(r, prompt, str_slice(answer), thought) : NULL;
    json_decref(value);
    machine_close(m);
    return value != NULL;
}

/* The answer with its JSON (it is the least there is) put as good instead. */
static bool takes(struct run *r, const struct chat_prompt *prompt, const struct str *answer)
{
    struct slice text = str_slice(answer);
    size_t begin = 0, end = text.len;
    json_t *value = NULL;
    for (begin = 0; !value && begin < text.len; begin++)
        for (end = text.len;
             !value && end > begin && strchr("{[\"0123456789tfn-", text.data[begin]); end--)
            value = json_parse((struct slice){text.data + begin, end - begin}, NULL);
    assert_non_null(value);
    json_decref(value);
    begin--;
    end++;
    struct str whole = {0}, thought = {0};
    str_append(&whole, text.data, begin);
    str_append_text(&whole, r->good);
    str_append_slice(&whole, slice_from(text, end));
    struct machine *m = machine_open(r->vocab, str_slice(&prompt->grammar));
    struct slice opening = str_slice(&prompt->generation_prompt);
    bool good = machine_feed(m, opening) == opening.len &&
                machine_feed(m, str_slice(&whole)) == whole.len && machine_complete(m);
    json_t *read = read_answer(r, prompt, str_slice(&whole), &thought),
           *expected = json_parse(slice_of(r->good), NULL);
    good = good && read && json_equal(read, expected);
    if (!good)
        failed(r, "not taken", str_text(&whole));
    json_decref(read);
    json_decref(expected);
    machine_close(m);
    str_free(&whole);
    str_free(&thought);
    return good;
}

static void check_prompt(struct run *r, const struct chat_prompt *prompt)
{
    struct str answer = {0}, thought = {0}, begin = {0};
    struct machine *m = machine_open(r->vocab, str_slice(&prompt->grammar));
    struct slice opening = str_slice(&prompt->generation_prompt);
    if (prompt->grammar.len == 0 || prompt->grammar_lazy || !m ||
        machine_feed(m, opening) < opening.len) {
        failed(r, "no grammar that begins with the prompt's end", str_text(&prompt->grammar));
        machine_close(m);
        return;
    }
    size_t n = machine_feed(m, slice_of(prose));
    if (machine_complete(m))
        failed(r, "prose is taken", prose);
    machine_close(m);
    if (!ends_as_json(r, prompt, SLICE(""), &answer, &thought))
        failed(r, "no JSON", str_text(&answer));
    else
        takes(r, prompt, &answer);
    /* Prose is the beginning of a thought, or there is none yet. */
    str_clear(&thought);
    if (n == strlen(prose))
        str_append_text(&begin, prose);
    else if (prompt->supports_thinking && prompt->thinking_start.len > 0)
        str_append_format(&begin, "%s%s", str_text(&prompt->thinking_start), prose);
    if (begin.len > 0) {
        m = machine_open(r->vocab, str_slice(&prompt->grammar));
        machine_feed(m, opening);
        bool may_think = machine_feed(m, str_slice(&begin)) == begin.len;
        machine_close(m);
        if (may_think && !ends_as_json(r, prompt, str_slice(&begin), &answer, &thought))
            failed(r, "no JSON after a thought", str_text(&answer));
        else if (may_think && !r->thoughts_dropped && !strstr(str_text(&thought), prose))
            failed(r, "the thought is lost", str_text(&answer));
        r->n_thoughts += may_think;
    }
    r->n_checked++;
    str_free(&answer);
    str_free(&thought);
    str_free(&begin);
}

static void check_template(const struct chat_templates *t, const char *name, void *arg)
{
    struct run *r = arg;
    r->name = name;
    int thoughts = r->n_thoughts;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            json_t *body = json_pack("{s:[{s:s,s:s}],s:o}", "messages", "role", "user", "content",
                                     "Hi", "response_format",
                                     json_parse(slice_of(formats[i].response_format), NULL));
            json_t *more = json_parse(slice_of(kinds[k].more), NULL);
            json_object_update(body, more);
            json_decref(more);
            r->format = formats[i].name;
            r->good = formats[i].good;
            r->kind = kinds[k].name;
            r->thoughts_shown = k == 2;
            r->thoughts_dropped = k == 1 || k == 2;
            struct chat_prompt prompt = {0};
            struct error err = {0};
            if (apply_body(t, body, &prompt, &err))
                check_prompt(r, &prompt);
            else
                failed(r, "refused", err.message);
            chat_prompt_free(&prompt);
            json_decref(body);
        }
    if (chat_templates_support_thinking(t) && r->n_thoughts == thoughts)
        printf("%s: no thought before JSON\n", name);
}

static void a_response_format_holds_on_every_template(void **state)
{
    (void)state;
    struct vocab *vocab = byte_vocab();
    struct run r = {.vocab = vocab};
    size_t n = for_each_template(check_template, &r);
    printf("%zu templates, %d grammars, %d with thoughts\n", n, r.n_checked, r.n_thoughts);
    vocab_free(vocab);
    assert_int_equal(r.n_failed, 0);
    assert_true(r.n_checked >= (int)(n * 30));
}

/* --skip-chat-parsing reads everything as content; the format holds all the same. */
static void a_response_format_holds_without_chat_parsing(void **state)
{
    (void)state;
    struct vocab *vocab = byte_vocab();
    struct run r = {.vocab = vocab, .kind = "no parsing", .thoughts_dropped = true};
    static const char *const sources[] = {"chatml", "{{ messages[0].content }}<think>"};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
            struct chat_templates *t = load_source(sources[k]);
            json_t *body = json_pack("{s:[{s:s,s:s}],s:o}", "messages", "role", "user", "content",
                                     "Hi", "response_format",
                                     json_parse(slice_of(formats[i].response_format), NULL));
            const struct chat_defaults defaults = {.force_pure_content = true};
            struct chat_request request;
            struct chat_prompt prompt = {0};
            r.name = sources[k];
            r.format = formats[i].name;
            r.good = formats[i].good;
            assert_true(chat_request_parse(body, t, &defaults, &request, NULL));
            assert_true(chat_apply(t, &request, &prompt, NULL));
            check_prompt(&r, &prompt);
            chat_request_free(&request);
            chat_prompt_free(&prompt);
            chat_templates_free(t);
            json_decref(body);
        }
    vocab_free(vocab);
    assert_int_equal(r.n_failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_format_holds_without_chat_parsing),
        cmocka_unit_test(a_response_format_holds_on_every_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
