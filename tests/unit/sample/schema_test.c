/* schema_test.c - the texts of grammars that responses show, and the promises of
 * the builder. What the grammars admit is tested in tests/clients/schemas. */
#include "unit/unit.h"

#include "sample/sample.h"

#include <string.h>

static char *convert(const char *schema, struct error *err)
{
    json_t *value = json_parse(slice_of(schema), err);
    assert_non_null(value);
    struct str text = {0};
    bool ok = schema_to_grammar(value, NULL, &text, NULL, err);
    json_decref(value);
    if (ok)
        return str_detach(&text);
    str_free(&text);
    return NULL;
}

#define SPACE "space ::= | \" \" | \"\\n\"{1,2} [ \\t]{0,20}\n"

static void the_grammar_of_a_schema_reads_as_the_reference_writes_it(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *grammar;
    } cases[] = {
        {"{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"},\"n\":{\"type\":"
         "\"integer\",\"minimum\":3,\"maximum\":12}},\"required\":[\"ok\",\"n\"]}",
         "boolean ::= (\"true\" | \"false\")\n"
         "n ::= ([3-9] | \"1\" [0-2])\n"
         "n-kv ::= \"\\\"n\\\"\" space \":\" space n\n"
         "ok-kv ::= \"\\\"ok\\\"\" space \":\" space boolean\n"
         "root ::= \"{\" space ok-kv \",\" space n-kv space \"}\"\n" SPACE},
        {"{\"enum\":[\"red\",\"green\"]}",
         "root ::= (\"\\\"red\\\"\" | \"\\\"green\\\"\")\n" SPACE},
        {"{\"type\":\"string\",\"pattern\":\"^[ab]{2,4}$\"}",
         "root ::= \"\\\"\" (root-1{2,4}) \"\\\"\"\nroot-1 ::= [ab]\n" SPACE},
        {"{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":2,\"maxItems\":3}",
         "null ::= \"null\"\n"
         "root ::= \"[\" space null (\",\" space null){1,2} space \"]\"\n" SPACE},
        {"{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"null\"}]}",
         "boolean ::= (\"true\" | \"false\")\nnull ::= \"null\"\nroot ::= boolean | null\n" SPACE},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}}"
         "}",
         "a-kv ::= \"\\\"a\\\"\" space \":\" space null\n"
         "a-rest ::= ( \",\" space b-kv )?\n"
         "b-kv ::= \"\\\"b\\\"\" space \":\" space null\n"
         "null ::= \"null\"\n"
         "root ::= \"{\" space  (a-kv a-rest | b-kv )? space \"}\"\n" SPACE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        char *text = convert(cases[i].schema, &err);
        if (!text)
            fail_msg("%s: %s", cases[i].schema, err.message);
        assert_string_equal(text, cases[i].grammar);
        free(text);
    }
}

static void what_cannot_be_honoured_is_refused_in_the_recorded_words(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *says;
    } cases[] = {
        {"{\"type\":\"nonsense\"}",
         "JSON schema conversion failed:\nUnrecognized schema: {\"type\":\"nonsense\"}"},
        {"{\"$ref\":\"#/nope\"}", "JSON schema conversion failed:\nError resolving ref #/nope: "
                                  "nope not in {\"$ref\":\"#/nope\"}"},
        {"5", "JSON schema conversion failed:\nUnrecognized schema: 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        assert_null(convert(cases[i].schema, &err));
        assert_string_equal(err.message, cases[i].says);
    }
}

static void schemas_that_explode_are_refused(void **state)
{
    (void)state;
    struct error err = {0};
    struct str text = {0};
    for (int i = 0; i < 1000; i++)
        str_append_text(&text, "{\"items\":");
    str_append_text(&text, "{}");
    for (int i = 0; i < 1000; i++)
        str_append_char(&text, '}');
    assert_null(convert(str_text(&text), &err));
    /* Every level twice the one below. */
    str_clear(&text);
    str_append_text(&text, "{\"$ref\":\"#/$defs/d30\",\"$defs\":{\"d0\":{\"type\":\"null\"}");
    for (int i = 1; i <= 30; i++)
        str_append_format(&text,
                          ",\"d%d\":{\"allOf\":[{\"anyOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":"
                          "\"#/$defs/d%d\"}]},{\"title\":\"x\"}]}",
                          i, i - 1, i - 1);
    str_append_text(&text, "}}");
    char *ok = convert(str_text(&text), &err);
    free(ok); /* small or refused, but soon */
    /* A schema that contains itself while it is being combined. */
    assert_null(
        convert("{\"allOf\":[{\"properties\":{\"x\":{\"allOf\":[{\"$ref\":\"#\"},{\"title\":"
                "\"t\"}]}}}],\"required\":[\"x\"]}",
                &err));
    str_free(&text);
}

static void the_builder_puts_rules_and_schemas_together(void **state)
{
    (void)state;
    struct error err = {0};
    struct grammar_builder *b = grammar_builder_create(NULL, &err);
    json_t *schema = json_parse(
        SLICE(
            "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"multipleOf\":3}}}"),
        &err);
    assert_null(grammar_builder_schema(b, "args", schema, SCHEMA_STRICT, &err));
    assert_non_null(strstr(err.message, "multipleOf"));
    const char *rule = grammar_builder_schema(b, "args", schema, SCHEMA_LENIENT, &err);
    assert_non_null(rule);
    assert_string_equal(rule, "args");
    assert_string_equal(grammar_builder_rule(b, "a b", "\"x\""), "a-b");
    assert_string_equal(grammar_builder_rule(b, "a b", "\"x\""), "a-b");
    assert_string_equal(grammar_builder_rule(b, "a b", "\"y\""), "a-b0");
    assert_string_equal(grammar_builder_rule(b, "root", "args a-b"), "root");
    struct str text = {0};
    assert_true(grammar_builder_text(b, &text, &err));
    assert_true(grammar_check(NULL, str_slice(&text), NULL, &err));
    str_free(&text);
    json_decref(schema);
    grammar_builder_free(b);
}

static void literals_are_escaped(void **state)
{
    (void)state;
    struct str text = {0};
    assert_true(grammar_append_literal(&text, SLICE("a\"b\\c\r\nd-]")));
    assert_string_equal(str_text(&text), "\"a\\\"b\\\\c\\r\\nd-]\"");
    str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_grammar_of_a_schema_reads_as_the_reference_writes_it),
        cmocka_unit_test(what_cannot_be_honoured_is_refused_in_the_recorded_words),
        cmocka_unit_test(schemas_that_explode_are_refused),
        cmocka_unit_test(the_builder_puts_rules_and_schemas_together),
        cmocka_unit_test(literals_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
