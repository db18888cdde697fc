/* budget_test.c - what hostile schemas, grammars, patterns, templates and texts
 * may cost: each ends within the steps and bytes of its row, counted, not timed. */
#include "unit/chat/helpers.h"

#include "chat/jinja.h"
#include "sample/sample.h"
#include "text/text.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* ---- What the rows are made of ---- */

static void repeat(struct str *out, const char *text, int n)
{
    for (int i = 0; i < n; i++)
        str_append_text(out, text);
}

/* {"$defs":{"d0":..,"d1":..},"allOf":[..]}: definition i is the format, in which
 * every %d is i + 1, so that each refers to the next. */
static void chain(struct str *out, int n, const char *format)
{
    str_append_text(out, "{\"$defs\":{");
    for (int i = 0; i < n; i++) {
        str_append_format(out, "\"d%d\":", i);
        for (const char *at = format; *at; at++) {
            if (at[0] == '%' && at[1] == 'd') {
                str_append_format(out, "%d", i + 1);
                at++;
            } else {
                str_append_char(out, *at);
            }
        }
        str_append_char(out, ',');
    }
    str_append_format(out, "\"d%d\":{\"title\":\"end\"}},\"allOf\":[{\"$ref\":\"#/$defs/d0\"}]}",
                      n);
}

#define NEXT "{\"$ref\":\"#/$defs/d%d\"}"

static void all_of_twice(struct str *out)
{
    chain(out, 30, "{\"allOf\":[" NEXT "," NEXT "]}");
}

static void all_of_twice_with_properties(struct str *out)
{
    chain(out, 30,
          "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"p%d\":{\"type\":\"string\"}}},"
          "{\"required\":[\"q%d\"]}," NEXT "," NEXT "]}");
}

static void all_of_in_two_properties(struct str *out)
{
    chain(out, 30,
          "{\"type\":\"object\",\"properties\":{\"a\":{\"allOf\":[" NEXT
          ",{\"title\":\"x\"}]},\"b\":{\"allOf\":[" NEXT ",{\"title\":\"y\"}]}}}");
}

static void any_of_beside_properties(struct str *out)
{
    chain(out, 30,
          "{\"type\":\"object\",\"properties\":{\"a%d\":{}},\"anyOf\":[" NEXT "," NEXT "]}");
}

static void references_crosswise(struct str *out)
{
    str_append_text(out, "{\"$defs\":{");
    for (int i = 0; i < 40; i++)
        str_append_format(out,
                          "\"l%d\":{\"allOf\":[{\"$ref\":\"#/$defs/l%d\"},{\"$ref\":\"#/$defs/"
                          "r%d\"}]},\"r%d\":{\"allOf\":[{\"$ref\":\"#/$defs/r%d\"},{\"$ref\":"
                          "\"#/$defs/l%d\"}]},",
                          i, i + 1, i + 1, i, i + 1, i + 1);
    str_append_text(out, "\"l40\":{\"type\":\"string\"},\"r40\":{\"maxLength\":3}},"
                         "\"allOf\":[{\"$ref\":\"#/$defs/l0\"}]}");
}

static void itself_combined(struct str *out)
{
    str_append_text(out, "{\"type\":\"object\",\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}");
}

static void words(struct str *out, int n)
{
    str_append_text(out, "{\"enum\":[");
    for (int i = 0; i < n; i++)
        str_append_format(out, "%s\"item %d of %d\"", i ? "," : "", i * 7919 % n, n);
    str_append_text(out, "]}");
}

static void enum_of_40000(struct str *out)
{
    words(out, 40000);
}

static void enum_of_80000(struct str *out)
{
    words(out, 80000);
}

static void enum_of_objects(struct str *out)
{
    str_append_text(out, "{\"enum\":[");
    for (int i = 0; i < 5000; i++)
        str_append_format(out, "%s{\"a\":[%d,{\"b\":%d.5}]}", i ? "," : "", i, i);
    str_append_text(out, "]}");
}

static void two_enums(struct str *out)
{
    str_append_text(out, "{\"allOf\":[");
    words(out, 20000);
    str_append_char(out, ',');
    words(out, 20000);
    str_append_text(out, "]}");
}

static void one_of_many_tags(struct str *out)
{
    str_append_text(out, "{\"oneOf\":[");
    for (int i = 0; i < 3000; i++)
        str_append_format(out,
                          "%s{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"v%d\"}},"
                          "\"required\":[\"k\"]}",
                          i ? "," : "", i);
    str_append_text(out, "]}");
}

static void the_same_type_again(struct str *out)
{
    str_append_text(out, "{\"properties\":{");
    for (int i = 0; i < 3000; i++)
        str_append_format(out, "%s\"p%d\":{}", i ? "," : "", i);
    str_append_text(out, "},\"type\":[\"object\"");
    repeat(out, ",\"object\"", 3000);
    str_append_text(out, "]}");
}

static void many_required(struct str *out)
{
    str_append_text(out, "{\"type\":\"object\",\"required\":[\"x\"");
    for (int i = 0; i < 10000; i++)
        str_append_format(out, ",\"r%d\"", i);
    str_append_text(out, "],\"properties\":{\"x\":{}");
    for (int i = 0; i < 10000; i++)
        str_append_format(out, ",\"r%d\":{\"type\":\"integer\"}", 10000 - i - 1);
    str_append_text(out, "}}");
}

static void many_references(struct str *out)
{
    str_append_text(out, "{\"$defs\":{\"z\":{}");
    for (int i = 0; i < 10000; i++)
        str_append_format(out, ",\"x%d\":{\"type\":\"string\",\"maxLength\":%d}", i, i % 50 + 1);
    str_append_text(out, "},\"type\":\"object\",\"properties\":{\"z\":{}");
    for (int i = 0; i < 10000; i++)
        str_append_format(out, ",\"p%d\":{\"$ref\":\"#/$defs/x%d\"}", i, i);
    str_append_text(out, "}}");
}

static void other_keys_than_many(struct str *out)
{
    str_append_text(out, "{\"type\":\"object\",\"additionalProperties\":true,\"properties\":{");
    for (int i = 0; i < 300; i++)
        str_append_format(out, "%s\"key-%d\":{}", i ? "," : "", i);
    str_append_text(out, "}}");
}

static void names_all_alike(struct str *out)
{
    str_append_text(out, "{\"type\":\"object\",\"properties\":{\"a\":{}");
    for (int i = 0; i < 20000; i++) {
        str_append_text(out, ",\"");
        str_append_codepoint(out, 0x4E00 + (uint32_t)i);
        str_append_text(out, "\":{\"type\":\"string\"}");
    }
    str_append_text(out, "}}");
}

static void a_long_name_above_many(struct str *out)
{
    str_append_text(out, "{\"type\":\"object\",\"properties\":{\"");
    repeat(out, "kkkkkkkkkk", 2000);
    str_append_text(out, "\":{\"type\":\"object\",\"properties\":{\"a\":{}");
    for (int i = 0; i < 3000; i++)
        str_append_format(out, ",\"p%d\":{\"type\":\"object\",\"properties\":{\"z\":{}}}", i);
    str_append_text(out, "}}}}");
}

static void references_to_nothing(struct str *out)
{
    str_append_text(out, "{\"oneOf\":[{\"$ref\":\"#/nowhere\"}");
    for (int i = 0; i < 2000; i++)
        str_append_format(out, ",{\"$ref\":\"#/nowhere/%d\"}", i);
    str_append_text(out, "]}");
}

static void pattern_of_many_parts(struct str *out)
{
    str_append_text(out, "{\"type\":\"string\",\"pattern\":\"^");
    for (int i = 0; i < 4000; i++)
        str_append_format(out, "([a-c]%d[x]){2}", i);
    str_append_text(out, "$\"}");
}

static void pattern_of_groups_without_end(struct str *out)
{
    str_append_text(out, "{\"type\":\"string\",\"pattern\":\"^");
    for (int i = 0; i < 20000; i++)
        str_append_format(out, "(([a-c]%d[x]){2}|y)", i);
    str_append_text(out, "$\"}");
}

static void pattern_repeating_repetitions(struct str *out)
{
    str_append_text(out,
                    "{\"type\":\"string\",\"pattern\":\"^((((a{0,1999}b){0,1999}c){0,1999}d){0,"
                    "1999})$\"}");
}

static void pattern_of_large_classes(struct str *out)
{
    str_append_text(out, "{\"type\":\"string\",\"pattern\":\"^");
    for (int i = 0; i < 2000; i++) {
        str_append_text(out, "[^");
        for (int c = 0; c < 100; c++)
            str_append_codepoint(out, 0x4E00 + (uint32_t)(2 * (100 - c)));
        str_append_text(out, "]");
    }
    str_append_text(out, "$\"}");
}

static void grammar_of_words(struct str *out)
{
    str_append_text(out, "root ::= \"\"");
    for (int i = 0; i < 40000; i++)
        str_append_format(out, " | \"word %d\"", i * 7919 % 40000);
}

static void grammar_of_beginnings(struct str *out)
{
    str_append_text(out, "root ::= \"a\"");
    for (int i = 1; i < 3000; i++) {
        str_append_text(out, " | \"");
        repeat(out, "a", i);
        str_append_char(out, '"');
    }
}

static void grammar_repeating_repetitions(struct str *out)
{
    for (int i = 0; i < 60; i++)
        str_append_format(out, "r%d ::= \"aaaaaaaaaaaaaaaaaaaaaaaaa\"{1999}\n", i);
    str_append_text(out, "root ::= r0");
}

static void grammar_of_one_class(struct str *out)
{
    str_append_text(out, "root ::= [");
    for (int i = 0; i < 200000; i++)
        str_append_codepoint(out, 0x100 + (uint32_t)(200000 - i) % 50000);
    str_append_char(out, ']');
}

static void grammar_of_groups(struct str *out)
{
    str_append_text(out, "root ::= ");
    repeat(out, "()", 3000000);
}

static void template_that_loops(struct str *out)
{
    str_append_text(out, "{% for i in range(100000) %}{% for j in range(100000) %}{{ i * j }}"
                         "{% endfor %}{% endfor %}");
}

static void template_that_doubles(struct str *out)
{
    str_append_text(out, "{% set ns = namespace(x='abcdefgh') %}{% for i in range(60) %}"
                         "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}");
}

static void template_that_fills_lists(struct str *out)
{
    str_append_text(out, "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
                         "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}");
}

static void template_that_calls_itself(struct str *out)
{
    str_append_text(out, "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}"
                         "{% endmacro %}{{ f(60) }}");
}

static void template_that_repeats(struct str *out)
{
    str_append_text(out, "{{ ('x' * 1000000) * 1000000 }}");
}

/* ---- Running a row ---- */

static bool run_schema(struct slice text, struct budget *budget, struct error *err)
{
    struct str out = {0};
    json_t *schema = json_parse(text, err);
    assert_non_null(schema);
    bool ok = schema_to_grammar(schema, budget, &out, NULL, err);
    json_decref(schema);
    str_free(&out);
    return ok;
}

static bool run_tool(struct slice text, struct budget *budget, struct error *err)
{
    struct str out = {0};
    json_t *schema = json_parse(text, err);
    struct grammar_builder *b = grammar_builder_create(budget, err);
    assert_non_null(schema);
    bool ok = b && grammar_builder_schema(b, "tool", schema, SCHEMA_LENIENT, err) &&
              grammar_builder_text(b, &out, err);
    grammar_builder_free(b);
    json_decref(schema);
    str_free(&out);
    return ok;
}

static bool run_grammar(struct slice text, struct budget *budget, struct error *err)
{
    return grammar_check(NULL, text, budget, err);
}

static bool run_template(struct slice text, struct budget *budget, struct error *err)
{
    struct jinja_template *t;
    struct jinja_output out = {0};
    assert_true(jinja_parse(text, &t, err));
    struct jinja_run *run = jinja_run_create(t, 0, false, NULL, budget);
    bool ok = run && jinja_render(run, &out, err);
    jinja_run_free(run);
    jinja_output_free(&out);
    jinja_template_free(t);
    return ok;
}

/* As the start of a server looks at one. */
static bool run_probing(struct slice text, struct budget *budget, struct error *err)
{
    struct chat_templates *templates;
    (void)budget;
    if (!chat_templates_load(&(struct chat_template_settings){.source = text, .use_jinja = true},
                             &templates, err))
        return false;
    chat_templates_free(templates);
    return true;
}

struct row {
    const char *name;
    bool (*run)(struct slice text, struct budget *budget, struct error *err);
    void (*make)(struct str *out);
    enum error_code code; /* how it ends; ERR_NONE: well */
    uint64_t steps, kib;  /* it takes at most; what it leaves is the request's */
};

enum { MILLION = 1000000 };

static const struct row rows[] = {
    {"allOf of twice the same", run_schema, all_of_twice, ERR_NONE, 100000, 64},
    {"the same for a tool", run_tool, all_of_twice, ERR_NONE, 100000, 64},
    {"the same with properties", run_schema, all_of_twice_with_properties, ERR_NONE, MILLION, 1024},
    {"allOf in two properties", run_schema, all_of_in_two_properties, ERR_LIMIT, 20 * MILLION,
     64 << 10},
    {"anyOf beside properties", run_schema, any_of_beside_properties, ERR_LIMIT, 20 * MILLION,
     64 << 10},
    {"references crosswise", run_schema, references_crosswise, ERR_NONE, 100000, 64},
    {"itself combined", run_schema, itself_combined, ERR_INVALID, 100000, 64},
    {"an enum of 40,000", run_schema, enum_of_40000, ERR_NONE, 6 * MILLION, 32 << 10},
    {"an enum of 80,000", run_schema, enum_of_80000, ERR_NONE, 12 * MILLION, 64 << 10},
    {"an enum of objects", run_schema, enum_of_objects, ERR_NONE, 4 * MILLION, 4 << 10},
    {"two enums combined", run_schema, two_enums, ERR_NONE, 6 * MILLION, 32 << 10},
    {"oneOf of 3,000 tags", run_schema, one_of_many_tags, ERR_LIMIT, 20 * MILLION, 8 << 10},
    {"a type 3,000 times", run_schema, the_same_type_again, ERR_LIMIT, 20 * MILLION, 64 << 10},
    {"10,000 required", run_schema, many_required, ERR_NONE, 20 * MILLION, 16 << 10},
    {"10,000 references", run_schema, many_references, ERR_NONE, 20 * MILLION, 128 << 10},
    {"other keys than 300", run_schema, other_keys_than_many, ERR_NONE, 8 * MILLION, 8 << 10},
    {"20,000 names alike", run_schema, names_all_alike, ERR_LIMIT, 20 * MILLION, 16 << 10},
    {"a long name above many", run_schema, a_long_name_above_many, ERR_LIMIT, 20 * MILLION,
     64 << 10},
    {"references to nothing", run_schema, references_to_nothing, ERR_INVALID, MILLION, 1024},
    {"a pattern of many parts", run_schema, pattern_of_many_parts, ERR_NONE, 40 * MILLION,
     16 << 10},
    {"a pattern of groups", run_schema, pattern_of_groups_without_end, ERR_INVALID, 20 * MILLION,
     64 << 10},
    {"a pattern that repeats repetitions", run_schema, pattern_repeating_repetitions, ERR_LIMIT,
     MILLION, 1024},
    {"a pattern of large classes", run_schema, pattern_of_large_classes, ERR_NONE, 20 * MILLION,
     16 << 10},
    {"a grammar of 40,000 words", run_grammar, grammar_of_words, ERR_NONE, 4 * MILLION, 8 << 10},
    {"a grammar of beginnings", run_grammar, grammar_of_beginnings, ERR_NONE, 40 * MILLION,
     128 << 10},
    {"a grammar that repeats", run_grammar, grammar_repeating_repetitions, ERR_LIMIT, 8 * MILLION,
     64 << 10},
    {"a class of 200,000", run_grammar, grammar_of_one_class, ERR_NONE, 4 * MILLION, 8 << 10},
    {"a grammar of empty groups", run_grammar, grammar_of_groups, ERR_LIMIT, 20 * MILLION,
     64 << 10},
    {"a template that loops", run_template, template_that_loops, ERR_LIMIT, 20 * MILLION, 64 << 10},
    {"a template that doubles", run_template, template_that_doubles, ERR_LIMIT, 20 * MILLION,
     64 << 10},
    {"a template that fills lists", run_template, template_that_fills_lists, ERR_LIMIT,
     20 * MILLION, 64 << 10},
    {"a template that calls itself", run_template, template_that_calls_itself, ERR_LIMIT,
     20 * MILLION, 64 << 10},
    {"a template that repeats", run_template, template_that_repeats, ERR_LIMIT, 20 * MILLION,
     64 << 10},
    {"a start with a template that loops", run_probing, template_that_loops, ERR_NONE, 0, 0},
    {"a start with one that doubles", run_probing, template_that_doubles, ERR_NONE, 0, 0},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

/* False, said, where it ends otherwise. */
static bool run_row(const struct row *row)
{
    struct budget budget = {.steps = row->steps, .bytes = row->kib << 10};
    struct error err = {ERR_NONE, ""};
    struct str text = {0};
    row->make(&text);
    assert_false(text.failed);
    bool ok = row->run(str_slice(&text), &budget, &err);
    enum error_code code = ok ? ERR_NONE : err.code;
    if (code != row->code)
        print_error("%s: error %d instead of %d after %" PRIu64 " steps: %s\n", row->name,
                    (int)code, (int)row->code, row->steps - budget.steps, err.message);
    str_free(&text);
    return code == row->code;
}

static void every_hostile_input_ends_within_its_steps_and_bytes(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < N_ROWS; i++)
        wrong += !run_row(&rows[i]);
    printf("step limits: %d cases\n", (int)N_ROWS);
    assert_int_equal(wrong, 0);
}

/* ---- Texts ---- */

/* A tokenizer.json with these steps; of its tokens one is long. */
static void tokenizer_json(struct str *out, const char *normalizer, const char *pre)
{
    str_append_format(out,
                      "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":%s,"
                      "\"pre_tokenizer\":%s,\"decoder\":null,\"model\":{\"type\":\"BPE\","
                      "\"unk_token\":null,\"vocab\":{\"a\":0,\"b\":1,\"o\":2,\"",
                      normalizer, pre);
    repeat(out, "ooooooooooooooooooooooooo", 4000);
    str_append_text(out, "\":3},\"merges\":[]}}");
}

/* A hundred letters for one, so many times. */
static void growing(struct str *out, int n)
{
    str_append_text(out, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < n; i++) {
        str_append_format(out,
                          "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"o\"},\"content\":\"",
                          i ? "," : "");
        repeat(out, "oooooooooo", 10);
        str_append_text(out, "\"}");
    }
    str_append_text(out, "]}");
}

static void grows_a_hundredfold(struct str *out)
{
    growing(out, 1);
}

static void grows_without_end(struct str *out)
{
    growing(out, 4);
}

static void puts_much_in_front(struct str *out)
{
    str_append_text(out, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 10; i++) {
        str_append_format(out, "%s{\"type\":\"Prepend\",\"prepend\":\"", i ? "," : "");
        repeat(out, "oooooooooo", 1000);
        str_append_text(out, "\"}");
    }
    str_append_text(out, "]}");
}

static void decomposes(struct str *out)
{
    str_append_text(out, "{\"type\":\"NFKD\"}");
}

static void marks_spaces_at_length(struct str *out)
{
    str_append_text(out,
                    "{\"type\":\"Metaspace\",\"prepend_scheme\":\"always\",\"replacement\":\"");
    repeat(out, "oooooooooo", 100);
    str_append_text(out, "\"}");
}

static void backtracks(struct str *out)
{
    str_append_text(out, "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a|aa|aaa)+$\"},"
                         "\"behavior\":\"Isolated\",\"invert\":false}");
}

static void backtracks_everywhere(struct str *out)
{
    str_append_text(out, "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a|aa){12,17}c|.\"},"
                         "\"behavior\":\"Isolated\",\"invert\":false}");
}

static void nothing(struct str *out)
{
    str_append_text(out, "null");
}

static const struct text_row {
    const char *name;
    void (*normalizer)(struct str *out), (*pre)(struct str *out);
    const char *text;
    int times;
    enum error_code load, encode;
} text_rows[] = {
    {"a letter becomes a hundred", grows_a_hundredfold, nothing, "oo", 1, ERR_NONE, ERR_NONE},
    {"many letters become a hundred each", grows_a_hundredfold, nothing, "oo", 50000, ERR_NONE,
     ERR_LIMIT},
    {"a letter becomes a hundred million", grows_without_end, nothing, "o", 1, ERR_NONE, ERR_LIMIT},
    {"none of those letters", grows_without_end, nothing, "ab", 50000, ERR_NONE, ERR_NONE},
    {"much before any text", puts_much_in_front, nothing, "a", 1, ERR_LIMIT, ERR_NONE},
    {"the longest decompositions", decomposes, nothing, "\xEF\xB7\xBA", 20000, ERR_NONE, ERR_NONE},
    {"spaces that are long", nothing, marks_spaces_at_length, " ", 50000, ERR_NONE, ERR_LIMIT},
    {"a pattern that backtracks", nothing, backtracks, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 1,
     ERR_NONE, ERR_LIMIT},
    {"one that does so everywhere", nothing, backtracks_everywhere, "aaaaaaaaaaaaaaaaaaaaaaaaaaaab",
     20000, ERR_NONE, ERR_LIMIT},
};

enum { N_TEXT_ROWS = sizeof text_rows / sizeof *text_rows };

static struct tokenizer *open_tokenizer(const struct text_row *row, struct error *err)
{
    struct str json = {0}, normalizer = {0}, pre = {0};
    char folder[] = "/tmp/mlxcel-tokenizer-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    row->normalizer(&normalizer);
    row->pre(&pre);
    tokenizer_json(&json, str_text(&normalizer), str_text(&pre));
    assert_int_equal(fwrite(json.data, 1, json.len, file), json.len);
    fclose(file);
    struct tokenizer *tok = NULL;
    if (!tokenizer_open(path, &tok, err))
        tok = NULL;
    unlink(path);
    rmdir(folder);
    str_free(&json);
    str_free(&normalizer);
    str_free(&pre);
    return tok;
}

static bool run_text_row(const struct text_row *row)
{
    struct error err = {ERR_NONE, ""};
    struct token_vec ids = {0};
    struct str text = {0};
    struct tokenizer *tok = open_tokenizer(row, &err);
    enum error_code load = tok ? ERR_NONE : err.code, encode = ERR_NONE;
    repeat(&text, row->text, row->times);
    if (tok && !text_encode(tok, str_slice(&text), 0, &ids, &err))
        encode = err.code;
    tokenizer_free(tok);
    VEC_FREE(&ids);
    str_free(&text);
    bool as_wanted = load == row->load && encode == row->encode;
    if (!as_wanted)
        print_error("%s: errors %d, %d instead of %d, %d: %s\n", row->name, (int)load, (int)encode,
                    (int)row->load, (int)row->encode, err.message);
    return as_wanted;
}

static void no_tokenizer_makes_much_of_little(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < N_TEXT_ROWS; i++)
        wrong += !run_text_row(&text_rows[i]);
    printf("growing texts: %d cases\n", (int)N_TEXT_ROWS);
    assert_int_equal(wrong, 0);
}

/* A token of a hundred thousand letters is no reason to refuse one; a thousand
 * of them are too many. */
static void tokens_to_text_has_a_limit(void **state)
{
    (void)state;
    const struct text_row plain = {.normalizer = nothing, .pre = nothing};
    struct error err = {ERR_NONE, ""};
    struct tokenizer *tok = open_tokenizer(&plain, &err);
    int32_t ids[1000];
    struct str out = {0};
    for (size_t i = 0; i < 1000; i++)
        ids[i] = 3;
    assert_non_null(tok);
    assert_true(text_decode(tok, ids, 5, 0, &out, &err));
    assert_int_equal(out.len, 500000);
    assert_false(text_decode(tok, ids, 1000, 0, &out, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    tokenizer_free(tok);
    str_free(&out);
}

/* ---- Stopping ---- */

static bool is_gone(void *arg)
{
    return --*(int *)arg < 0;
}

/* Whoever works for a client that is gone is told soon, wherever that is. */
static void every_kind_of_work_stops_when_nobody_waits(void **state)
{
    (void)state;
    static const char *const names[] = {"allOf in two properties", "a type 3,000 times",
                                        "a grammar of beginnings", "a class of 200,000",
                                        "a template that calls itself"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct row *row = rows;
        while (strcmp(row->name, names[i]) != 0)
            row++;
        int questions = 3;
        struct budget budget = {
            .steps = UINT64_MAX, .bytes = UINT64_MAX, .stopped = is_gone, .arg = &questions};
        struct error err = {ERR_NONE, ""};
        struct str text = {0};
        row->make(&text);
        if (row->run(str_slice(&text), &budget, &err) || err.code != ERR_CANCELLED)
            fail_msg("%s: %s", names[i], err.message);
        str_free(&text);
    }
}

/* ---- The automaton ---- */

static struct slice piece(const void *context, int32_t token)
{
    (void)context;
    static const char *const pieces[] = {"\"", "item ", "1", "2", "3",         "4", "5", "6",
                                         "7",  "8",     "9", "0", " of 40000", "x", ""};
    return slice_of(pieces[token]);
}

static bool is_eog(const void *context, int32_t token)
{
    (void)context;
    return token == 14;
}

/* A long list of words is usable, not only converted. */
static void a_long_enum_can_be_sampled_from(void **state)
{
    (void)state;
    struct str text = {0}, gbnf = {0};
    struct error err = {ERR_NONE, ""};
    struct vocab_source source = {
        .n_tokens = 15, .eot = -1, .eos = 14, .piece = piece, .is_eog = is_eog};
    struct vocab *vocab = vocab_create(&source, &err);
    words(&text, 40000);
    json_t *schema = json_parse(str_slice(&text), &err);
    assert_true(schema_to_grammar(schema, NULL, &gbnf, NULL, &err));
    struct budget budget = {.steps = 10 * MILLION, .bytes = UINT64_C(64) << 20};
    struct sampler_settings settings = sampler_settings_defaults();
    settings.grammar = str_slice(&gbnf);
    settings.budget = &budget;
    settings.temperature = 0;
    struct sampler *s = sampler_create(vocab, &settings, 64, &err);
    if (!s)
        fail_msg("%s", err.message);
    /* "x" is wanted most and never admitted; then digits, one after the other. */
    float logits[15] = {0, 0, 1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 0, 9, 0};
    struct str said = {0};
    int32_t token = -1;
    for (int i = 0; i < 20 && token != 14; i++) {
        assert_true(sampler_sample(s, logits, &token, &err));
        assert_true(sampler_accept(s, token, true, &err));
        str_append_slice(&said, piece(NULL, token));
    }
    assert_string_equal(str_text(&said), "\"item 33333 of 40000\"");
    sampler_free(s);
    vocab_free(vocab);
    json_decref(schema);
    str_free(&said);
    str_free(&text);
    str_free(&gbnf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hostile_input_ends_within_its_steps_and_bytes),
        cmocka_unit_test(no_tokenizer_makes_much_of_little),
        cmocka_unit_test(tokens_to_text_has_a_limit),
        cmocka_unit_test(every_kind_of_work_stops_when_nobody_waits),
        cmocka_unit_test(a_long_enum_can_be_sampled_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
