/* The grammars made for tools admit the calls that the parsers read. */
#include "unit/chat/family_templates.h"
#include "unit/chat/helpers.h"

#include "sample/sample.h"

#include <string.h>

/* How many bytes of text the grammar admits from its start. */
static size_t admitted(const struct vocab *vocab, struct slice grammar, struct slice text)
{
    struct sampler_settings settings = sampler_settings_defaults();
    struct error err = {0};
    settings.grammar = grammar;
    struct sampler *sampler = sampler_create(vocab, &settings, 1024, &err);
    if (!sampler)
        fail_msg("%s\n%.*s", err.message, (int)grammar.len, grammar.data);
    size_t n = 0;
    while (n < text.len && sampler_accept(sampler, (unsigned char)text.data[n], true, &err))
        n++;
    sampler_free(sampler);
    return n;
}

static const struct {
    const char *family, *call;
} calls[] = {
    {"hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"P\"}}\n</tool_call>"},
    {"tagged json", "<call><function=get_weather>{\"city\": \"P\"}</function></call>"},
    {"tagged",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>P</arg_value>\n</tool_call>"},
    {"Ministral 3", "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"P\"}"},
    {"gpt-oss", "<|channel|>commentary to=functions.get_weather<|message|>{\"city\": \"P\"}"},
    {"Functionary v3.2", "get_weather\n{\"city\": \"P\"}"},
    {"Kimi K2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
                "<|tool_call_argument_begin|>{\"city\": \"P\"}<|tool_call_end|>"},
    {"LFM2", "<|tool_call_start|>[get_weather(city=\"P\")]<|tool_call_end|>"},
    {"GigaChat 3", "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", "
                   "\"arguments\": {\"city\": \"P\"}}"},
    {"Gemma 4", "<|tool_call>call:get_weather{city:<|\"|>P<|\"|>}<tool_call|>"},
    {"Qwen3-Coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nP\n</parameter>\n"
                    "</function>\n</tool_call>"},
};

static bool prompt_of(const char *family, enum chat_tool_choice choice, struct chat_prompt *prompt)
{
    const char *source = NULL;
    for (int i = 0; i < N_FAMILY_TEMPLATES; i++)
        if (strcmp(family_templates[i].name, family) == 0)
            source = family_templates[i].source;
    assert_non_null(source);
    struct chat_templates *templates = load_source(source);
    struct chat_request request = {
        .messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "Hi"),
        .tools = json_parse(slice_of(family_tools), NULL),
        .kwargs = json_object(),
        .tool_choice = choice,
        .reasoning_format = CHAT_REASONING_AUTO,
        .add_generation_prompt = true,
        .parallel_tool_calls = true,
        .enable_thinking = true,
    };
    struct error err = {0};
    bool ok = chat_apply(templates, &request, prompt, &err);
    if (!ok)
        print_error("%s: %s\n", family, err.message);
    chat_request_free(&request);
    chat_templates_free(templates);
    return ok;
}

static void a_required_call_is_admitted(void **state)
{
    (void)state;
    struct vocab *vocab = byte_vocab();
    int failed = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct chat_prompt prompt = {0};
        struct str text = {0};
        assert_true(prompt_of(calls[i].family, CHAT_TOOLS_REQUIRED, &prompt));
        assert_false(prompt.grammar_lazy);
        str_append_slice(&text, str_slice(&prompt.generation_prompt));
        str_append_text(&text, calls[i].call);
        size_t n = admitted(vocab, str_slice(&prompt.grammar), str_slice(&text));
        if (n < text.len) {
            print_error("%s: stops before: %s\n", calls[i].family, str_text(&text) + n);
            failed++;
        }
        str_free(&text);
        chat_prompt_free(&prompt);
    }
    vocab_free(vocab);
    assert_int_equal(failed, 0);
}

static void a_lazy_grammar_waits_for_a_trigger_and_takes_the_call(void **state)
{
    (void)state;
    struct vocab *vocab = byte_vocab();
    struct chat_prompt prompt = {0};
    assert_true(prompt_of("hermes", CHAT_TOOLS_AUTO, &prompt));
    assert_true(prompt.grammar_lazy);
    assert_int_equal(prompt.n_triggers, 1);
    assert_string_equal(prompt.triggers[0].value, "<tool_call>\n");
    struct slice call = slice_of(calls[0].call);
    assert_int_equal(admitted(vocab, str_slice(&prompt.grammar), call), call.len);
    /* a name nobody offered is refused where it differs */
    struct slice wrong = SLICE("<tool_call>\n{\"name\": \"bad\"");
    assert_true(admitted(vocab, str_slice(&prompt.grammar), wrong) < wrong.len - 3);
    chat_prompt_free(&prompt);
    vocab_free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_required_call_is_admitted),
        cmocka_unit_test(a_lazy_grammar_waits_for_a_trigger_and_takes_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
