/* convert_test.c - bodies of other surfaces as OpenAI chat bodies. */
#include "api/internal.h"
#include "unit/unit.h"

#include <stdlib.h>

static json_t *body(const char *text)
{
    struct error err;
    json_t *value = json_parse(slice_of(text), &err);
    if (!value)
        fail_msg("%s", err.message);
    return value;
}

static void assert_converts(json_t *(*convert)(const json_t *, struct error *), const char *from,
                            const char *to)
{
    struct error err;
    json_t *given = body(from), *expected = body(to);
    json_t *got = convert(given, &err);
    if (!got)
        fail_msg("%s", err.message);
    if (!json_equal(got, expected)) {
        char *text = json_dumps(got, 0);
        fail_msg("expected %s\ngot %s", to, text);
    }
    json_decref(got);
    json_decref(given);
    json_decref(expected);
}

static void assert_refused(json_t *(*convert)(const json_t *, struct error *), const char *from,
                           const char *message)
{
    struct error err = {0};
    json_t *given = body(from);
    assert_null(convert(given, &err));
    assert_string_equal(err.message, message);
    assert_int_equal(err.code, ERR_INVALID);
    json_decref(given);
}

static void anthropic_blocks_become_messages_calls_and_tool_answers(void **state)
{
    (void)state;
    assert_converts(
        convert_anthropic,
        "{\"max_tokens\":5,\"system\":[{\"type\":\"text\",\"text\":\"Be \"},"
        "{\"type\":\"text\",\"text\":\"brief\"}],\"messages\":["
        "{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},"
        "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{\"a\":1}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\","
        "\"content\":[{\"type\":\"text\",\"text\":\"4\"},{\"type\":\"text\",\"text\":\"2\"}]}]}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief\"},"
        "{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"t1\","
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}],"
        "\"reasoning_content\":\"hm\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"t1\",\"content\":\"42\"}],\"max_tokens\":5}");
}

static void anthropic_tools_choice_and_thinking_are_renamed(void **state)
{
    (void)state;
    assert_converts(
        convert_anthropic,
        "{\"messages\":[],\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],"
        "\"tool_choice\":{\"type\":\"any\"},\"stop_sequences\":[\"x\"],"
        "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":9},\"metadata\":{}}",
        "{\"messages\":[],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"description\":\"\",\"parameters\":{}}}],\"tool_choice\":\"required\","
        "\"stop\":[\"x\"],\"max_tokens\":4096,\"thinking_budget_tokens\":9}");
    assert_refused(convert_anthropic, "{}", "'messages' is required");
}

static void a_billing_stamp_does_not_spoil_the_prompt_cache(void **state)
{
    (void)state;
    assert_converts(
        convert_anthropic,
        "{\"messages\":[],\"max_tokens\":1,"
        "\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: v=1; cch=a5145;\"},"
        "{\"type\":\"text\",\"text\":\"You are\"}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"You are\"}],\"max_tokens\":1}");
    assert_converts(
        convert_anthropic,
        "{\"messages\":[],\"max_tokens\":1,"
        "\"system\":\"x-anthropic-billing-header: v=1; cch=a5145;\\nYou are\"}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"You are\"}],\"max_tokens\":1}");
}

static void responses_items_become_messages(void **state)
{
    (void)state;
    assert_converts(
        convert_responses,
        "{\"instructions\":\"S\",\"max_output_tokens\":3,\"reasoning\":{\"effort\":\"low\"},"
        "\"input\":[{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"text\":\"hm\"}]},"
        "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"42\"}],"
        "\"tools\":[{\"type\":\"function\",\"name\":\"f\"},{\"type\":\"web_search\"}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]},"
        "{\"role\":\"assistant\",\"content\":[],\"reasoning_content\":\"hm\","
        "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"42\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}],"
        "\"max_tokens\":3,\"reasoning_effort\":\"low\"}");
}

static void responses_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    assert_refused(convert_responses, "{}", "'input' is required");
    assert_refused(convert_responses, "{\"input\":5}",
                   "'input' must be a string or array of objects");
    assert_refused(convert_responses, "{\"input\":[{\"type\":\"nonsense\"}]}",
                   "Cannot determine type of 'item'");
    assert_refused(convert_responses, "{\"input\":[5]}", "Cannot determine type of 'item'");
    assert_refused(convert_responses, "{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}",
                   "llama.cpp does not support 'previous_response_id'.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anthropic_blocks_become_messages_calls_and_tool_answers),
        cmocka_unit_test(anthropic_tools_choice_and_thinking_are_renamed),
        cmocka_unit_test(a_billing_stamp_does_not_spoil_the_prompt_cache),
        cmocka_unit_test(responses_items_become_messages),
        cmocka_unit_test(responses_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
