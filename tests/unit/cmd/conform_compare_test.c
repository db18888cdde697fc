/* conform_compare_test.c - the rules by which answers and recordings agree. */
#include "unit/unit.h"

#include "cmd/conform_compare.h"

#include <string.h>

static size_t differences(const char *expected, const char *got, struct comparison *c)
{
    json_t *want = json_parse(slice_of(expected), NULL), *have = json_parse(slice_of(got), NULL);
    assert_non_null(want);
    assert_non_null(have);
    compare_json(c, want, have);
    json_decref(want);
    json_decref(have);
    return c->n;
}

static void assert_agree(const char *expected, const char *got)
{
    struct comparison c = {0};
    if (differences(expected, got, &c) != 0)
        fail_msg("%s and %s should agree: %s", expected, got, str_text(&c.lines));
    comparison_free(&c);
}

/* They differ, and the line begins with the path. */
static void assert_differ(const char *expected, const char *got, const char *path)
{
    struct comparison c = {0};
    if (differences(expected, got, &c) == 0)
        fail_msg("%s and %s should differ", expected, got);
    if (strncmp(str_text(&c.lines), path, strlen(path)) != 0)
        fail_msg("'%s' does not begin with %s", str_text(&c.lines), path);
    comparison_free(&c);
}

static void integers_and_texts_agree_exactly(void **state)
{
    (void)state;
    assert_agree("5", "5");
    assert_differ("5", "6", "$: expected 5, got 6");
    assert_differ("\"a\"", "\"b\"", "$: ");
    assert_differ("5", "\"5\"", "$: ");
    assert_differ("true", "false", "$: ");
    assert_differ("null", "0", "$: ");
    assert_agree("true", "true");
    assert_agree("null", "null");
}

static void reals_agree_within_their_tolerance(void **state)
{
    (void)state;
    assert_agree("1.0", "1.039");
    assert_differ("1.0", "1.041", "$: ");
    assert_agree("1.0", "1");
    assert_agree("-200.0", "-202.0");
    assert_differ("-200.0", "-202.1", "$: ");
}

static void any_matches_its_type_alone(void **state)
{
    (void)state;
    assert_agree("{\"a\":{\"$any\":\"number\"}}", "{\"a\":7}");
    assert_agree("{\"a\":{\"$any\":\"string\"}}", "{\"a\":\"x\"}");
    assert_differ("{\"a\":{\"$any\":\"number\"}}", "{\"a\":\"7\"}", "$.a: ");
    assert_differ("{\"a\":{\"$any\":\"string\"}}", "{\"a\":null}", "$.a: ");
    assert_differ("{\"a\":{\"$any\":\"string\"}}", "{}", "$.a: ");
}

static void objects_agree_in_any_order_but_wholly(void **state)
{
    (void)state;
    assert_agree("{\"a\":1,\"b\":[2,{}]}", "{\"b\":[2,{}],\"a\":1}");
    assert_differ("{\"a\":1}", "{}", "$.a: expected 1, got nothing");
    assert_differ("{}", "{\"a\":1}", "$: has 'a'");
    assert_differ("{\"b\":[1,{\"c\":2}]}", "{\"b\":[1,{\"c\":3}]}", "$.b[1].c: expected 2, got 3");
    assert_differ("[1,2]", "[1]", "$: expected 2 items, got 1");
}

static void quoted_wording_of_a_library_does_not_count(void **state)
{
    (void)state;
    assert_agree("\"Field 'n': [json.exception.type_error.302] type must be number\"",
                 "\"Field 'n': wants a number\"");
    assert_differ("\"Field 'n': [json.exception.type_error.302] x\"", "\"Field 'm': y\"", "$: ");
    assert_agree("\"value: stoi\"", "\"value: no number\"");
}

static void base64_embeddings_are_compared_as_numbers(void **state)
{
    (void)state;
    /* sixteen times 1.0, and the last one 1.0000001 or 2.0 */
    static const char one[] = "{\"embedding\":\"AACAPwAAgD8AAIA/AACAPwAAgD8AAIA/\"}";
    static const char near[] = "{\"embedding\":\"AACAPwAAgD8AAIA/AACAPwAAgD8BAIA/\"}";
    static const char far[] = "{\"embedding\":\"AACAPwAAgD8AAIA/AACAPwAAgD8AAABA\"}";
    assert_agree(one, near);
    assert_differ(one, far, "$.embedding: float 5");
}

static void slots_do_not_count_where_requests_ran_at_once(void **state)
{
    (void)state;
    struct comparison c = {.ignore_slots = true};
    assert_int_equal(differences("{\"id_slot\":1,\"a\":1}", "{\"id_slot\":0,\"a\":1}", &c), 0);
    comparison_free(&c);
    assert_differ("{\"id_slot\":1}", "{\"id_slot\":0}", "$.id_slot");
}

static size_t differences_at_once(const char *expected, const char *got)
{
    struct comparison c = {.ignore_slots = true};
    size_t n = differences(expected, got, &c);
    comparison_free(&c);
    return n;
}

/* What the cache had of a prompt is chance then, the prompt's length is not. */
static void prompts_are_as_long_where_requests_ran_at_once(void **state)
{
    (void)state;
    assert_int_equal(
        differences_at_once("{\"cache_n\":0,\"prompt_n\":5}", "{\"cache_n\":1,\"prompt_n\":4}"), 0);
    assert_int_equal(
        differences_at_once("{\"cache_n\":0,\"prompt_n\":5}", "{\"cache_n\":1,\"prompt_n\":5}"), 1);
    assert_int_equal(differences_at_once("{\"id_slot\":0}", "{}"), 1);
    assert_int_equal(differences_at_once("{\"id_slot\":0}", "{\"id_slot\":\"0\"}"), 1);
}

static void assert_response(const char *expected, const char *got, size_t n)
{
    struct comparison c = {0};
    json_t *want = json_parse(slice_of(expected), NULL), *have = json_parse(slice_of(got), NULL);
    compare_response(&c, want, have);
    if (c.n != n)
        fail_msg("expected %zu differences, got %zu: %s", n, c.n, str_text(&c.lines));
    json_decref(want);
    json_decref(have);
    comparison_free(&c);
}

static void responses_agree_in_status_headers_and_body(void **state)
{
    (void)state;
    static const char one[] = "{\"status\":200,\"headers\":{\"content-type\":\"text/html\","
                              "\"access-control-allow-origin\":\"\"},\"text\":\"hi\"}";
    assert_response(one, one, 0);
    assert_response(one,
                    "{\"status\":200,\"headers\":{\"content-type\":\"text/html\"},"
                    "\"text\":\"hi\"}",
                    0);
    assert_response(one,
                    "{\"status\":404,\"headers\":{\"content-type\":\"text/plain\","
                    "\"access-control-allow-methods\":\"GET\"},\"text\":\"ho\"}",
                    4);
    assert_response(one,
                    "{\"status\":200,\"headers\":{\"content-type\":\"text/html\"},"
                    "\"json\":{}}",
                    1);
    assert_response("{\"status\":200}", "{\"status\":200,\"json\":[]}", 0);
    assert_response("{\"status\":200,\"events\":[{\"data\":{\"a\":1}},{\"data_text\":\"[DONE]\"}]}",
                    "{\"status\":200,\"events\":[{\"data\":{\"a\":2}}]}", 2);
    /* what cannot be compared does not pass */
    assert_response("{\"status\":200,\"closed_by_client\":true}", "{\"status\":200}", 1);
}

static void metrics_agree_but_for_their_numbers(void **state)
{
    (void)state;
    static const char want[] = "{\"status\":200,\"text\":\"# HELP a b\\na N\\nb 1\\n\"}";
    assert_response(want, "{\"status\":200,\"text\":\"# HELP a b\\na 17.5\\nb 1\\n\"}", 0);
    assert_response(want, "{\"status\":200,\"text\":\"# HELP a b\\na x\\nb 1\\n\"}", 1);
    assert_response(want, "{\"status\":200,\"text\":\"# HELP a b\\na 1\\n\"}", 1);
    assert_response(want, "{\"status\":200,\"text\":\"# HELP a b\\na 1\\nb 1\\nc 1\\n\"}", 1);
}

#define NAMED(id, lp, token, bytes, top)                                                           \
    "{\"id\":" #id ",\"logprob\":" #lp ",\"token\":\"" token "\",\"bytes\":[" bytes                \
    "],\"top_logprobs\":[" top "]}"
#define ENTRY(id, lp, top) "{\"id\":" #id ",\"logprob\":" #lp ",\"top_logprobs\":[" top "]}"
#define TOP(id, lp)        "{\"id\":" #id ",\"logprob\":" #lp "}"

static size_t numeric_differences(enum numerics_rule rule, const char *expected, const char *got)
{
    struct comparison c = {.numerics = rule};
    char want_text[1024], have_text[1024];
    static const char shape[] = "{\"content\":\"x\",\"completion_probabilities\":[%s]}";
    snprintf(want_text, sizeof want_text, shape, expected);
    snprintf(have_text, sizeof have_text, shape, got);
    json_t *want = json_parse(slice_of(want_text), NULL);
    json_t *have = json_parse(slice_of(have_text), NULL);
    assert_non_null(want);
    assert_non_null(have);
    compare_numerics(&c, want, have);
    size_t n = c.n;
    json_decref(want);
    json_decref(have);
    comparison_free(&c);
    return n;
}

static void exact_logprobs_agree_within_two_hundredths(void **state)
{
    (void)state;
    static const char want[] = ENTRY(5, -1.0, TOP(5, -1.0) "," TOP(6, -1.01) "," TOP(7, -13.0));
    assert_int_equal(numeric_differences(NUMERICS_EXACT, want, want), 0);
    /* neighbours may change places, the improbable may change at will */
    assert_int_equal(
        numeric_differences(NUMERICS_EXACT, want,
                            ENTRY(5, -1.01, TOP(6, -1.0) "," TOP(5, -1.01) "," TOP(8, -15.0))),
        0);
    assert_int_equal(
        numeric_differences(NUMERICS_EXACT, want,
                            ENTRY(5, -1.03, TOP(5, -1.0) "," TOP(6, -1.01) "," TOP(7, -13.0))),
        1);
    assert_int_equal(
        numeric_differences(NUMERICS_EXACT, want,
                            ENTRY(5, -1.0, TOP(5, -1.0) "," TOP(9, -1.5) "," TOP(7, -13.0))),
        1);
    assert_int_equal(
        numeric_differences(NUMERICS_EXACT, want,
                            ENTRY(6, -1.0, TOP(5, -1.0) "," TOP(6, -1.01) "," TOP(7, -13.0))),
        1);
}

static void quantized_logprobs_agree_in_the_first_token_only(void **state)
{
    (void)state;
    static const char want[] =
        ENTRY(5, -1.0, TOP(5, -1.0) "," TOP(6, -1.1) "," TOP(7, -1.2)) "," ENTRY(8, -1.0, "");
    /* neighbours within the tolerance may change places; the next token is free */
    assert_int_equal(
        numeric_differences(
            NUMERICS_QUANTIZED, want,
            ENTRY(6, -1.0, TOP(6, -1.0) "," TOP(5, -1.1) "," TOP(7, -1.2)) "," ENTRY(9, -3.0, "")),
        0);
    assert_int_equal(
        numeric_differences(NUMERICS_QUANTIZED, want,
                            ENTRY(5, -1.16, TOP(5, -1.16) "," TOP(6, -1.1) "," TOP(7, -1.3))),
        1);
    /* 5 and 7 are further apart than the tolerance, so their order counts */
    assert_int_equal(
        numeric_differences(NUMERICS_QUANTIZED, want,
                            ENTRY(5, -1.1, TOP(5, -1.1) "," TOP(6, -1.1) "," TOP(7, -1.12))),
        0);
    assert_int_equal(
        numeric_differences(NUMERICS_QUANTIZED, want,
                            ENTRY(5, -1.12, TOP(5, -1.12) "," TOP(6, -1.1) "," TOP(7, -1.1))),
        1);
}

/* A token's text and bytes are exact by every rule, its own and its rivals'. */
static void texts_of_tokens_agree_exactly(void **state)
{
    (void)state;
    static const char want[] = NAMED(5, -1.0, "a", "97", NAMED(6, -1.5, "\xEF\xBF\xBD", "128", ""));
    static const char *const others[] = {
        NAMED(5, -1.0, "b", "97", NAMED(6, -1.5, "\xEF\xBF\xBD", "128", "")),
        NAMED(5, -1.0, "a", "98", NAMED(6, -1.5, "\xEF\xBF\xBD", "128", "")),
        NAMED(5, -1.0, "a", "97", NAMED(6, -1.5, "", "128", "")),
        NAMED(5, -1.0, "a", "97", NAMED(6, -1.5, "\xEF\xBF\xBD", "", "")),
        NAMED(5, -1.0, "a", "97", ENTRY(6, -1.5, "")),
    };
    static const size_t n_expected[] = {1, 1, 1, 1, 2};
    static const enum numerics_rule rules[] = {NUMERICS_EXACT, NUMERICS_QUANTIZED};
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        assert_int_equal(numeric_differences(rules[k], want, want), 0);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            assert_int_equal(numeric_differences(rules[k], want, others[i]), n_expected[i]);
    }
    assert_differ(want, others[2], "$.top_logprobs[0].token: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_and_texts_agree_exactly),
        cmocka_unit_test(reals_agree_within_their_tolerance),
        cmocka_unit_test(any_matches_its_type_alone),
        cmocka_unit_test(objects_agree_in_any_order_but_wholly),
        cmocka_unit_test(quoted_wording_of_a_library_does_not_count),
        cmocka_unit_test(base64_embeddings_are_compared_as_numbers),
        cmocka_unit_test(slots_do_not_count_where_requests_ran_at_once),
        cmocka_unit_test(prompts_are_as_long_where_requests_ran_at_once),
        cmocka_unit_test(responses_agree_in_status_headers_and_body),
        cmocka_unit_test(metrics_agree_but_for_their_numbers),
        cmocka_unit_test(exact_logprobs_agree_within_two_hundredths),
        cmocka_unit_test(quantized_logprobs_agree_in_the_first_token_only),
        cmocka_unit_test(texts_of_tokens_agree_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
