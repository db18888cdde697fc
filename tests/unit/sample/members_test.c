/* members_test.c - the members of JSON objects may stand in any order, each once, and
 * the required ones must be there. */
#include "unit/sample/helpers.h"
#include "unit/unit.h"

#include "base/random.h"
#include "sample/grammar.h"

#include <stdlib.h>
#include <string.h>

enum { N_ASCII = 128 };

/* A token for each character, and one that ends. */
static struct vocab *character_vocab(void)
{
    static char text[N_ASCII][2];
    static const char *pieces[N_ASCII + 1];
    static struct toy toy;
    for (int i = 0; i < N_ASCII; i++) {
        text[i][0] = (char)(i ? i : ' ');
        pieces[i] = text[i];
    }
    pieces[N_ASCII] = "</s>";
    toy_create(&toy, pieces, N_ASCII + 1, 1);
    return toy.vocab;
}

struct made {
    struct str gbnf, objects;
};

static struct made convert(const char *schema)
{
    struct error err = {0};
    struct made made = {0};
    json_t *value = json_parse(slice_of(schema), &err);
    if (!value || !schema_to_grammar(value, NULL, &made.gbnf, &made.objects, &err))
        fail_msg("%s: %s", schema, err.message);
    json_decref(value);
    return made;
}

static void made_free(struct made *made)
{
    str_free(&made->gbnf);
    str_free(&made->objects);
}

static struct matcher *begin(const struct vocab *vocab, const struct made *made)
{
    struct error err = {0};
    struct sampler_settings set = plain_settings();
    struct matcher *m;
    set.grammar = str_slice(&made->gbnf);
    set.grammar_objects = str_slice(&made->objects);
    if (!matcher_create(vocab, &set, &m, &err))
        fail_msg("%s", err.message);
    return m;
}

/* Whether the grammar takes the text and may end behind it. The mask must agree with what
 * is admitted at every place. */
static bool takes(const struct vocab *vocab, const struct made *made, const char *text)
{
    struct error err = {0};
    struct matcher *m = begin(vocab, made);
    bool admits = true;
    for (const char *c = text; admits && *c; c++) {
        const uint64_t *mask = matcher_mask(m, &err);
        assert_non_null(mask);
        bool in_mask = mask[*c / 64] >> *c % 64 & 1;
        assert_true(matcher_admits(m, *c, &admits, &err));
        assert_int_equal(admits, in_mask);
        if (admits)
            assert_true(matcher_accept(m, *c, &err));
    }
    if (admits)
        assert_true(matcher_admits(m, N_ASCII, &admits, &err));
    matcher_free(m);
    return admits;
}

#define TYPED "\"a\":{\"type\":\"integer\"},\"b\":{\"enum\":[\"x\"]},\"c\":{\"type\":\"null\"}"
#define SCHEMA(more)                                                                               \
    "{\"type\":\"object\",\"properties\":{" TYPED "},\"required\":[\"b\",\"a\"]" more "}"

static void members_stand_in_any_order(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *text;
        bool valid;
    } cases[] = {
        {SCHEMA(""), "{\"a\":1,\"b\":\"x\"}", true},
        {SCHEMA(""), "{\"b\":\"x\",\"a\":1}", true},
        {SCHEMA(""), "{ \"c\": null, \"b\": \"x\", \"a\": 17 }", true},
        {SCHEMA(""), "{\"b\":\"x\",\"c\":null,\"a\":1}", true},
        {SCHEMA(""), "{\"b\":\"x\"}", false},
        {SCHEMA(""), "{}", false},
        {SCHEMA(""), "{\"b\":\"x\",\"c\":null}", false},
        {SCHEMA(""), "{\"a\":1,\"b\":\"x\",}", false},
        {SCHEMA(""), "{,\"a\":1,\"b\":\"x\"}", false},
        {SCHEMA(""), "{\"a\":1,\"b\":\"x\",\"a\":1}", false},
        {SCHEMA(""), "{\"a\":1,\"b\":\"x\",\"d\":1}", false},
        {SCHEMA(""), "{\"a\":\"x\",\"b\":\"x\"}", false},
        {SCHEMA(",\"additionalProperties\":true"), "{\"d\":1,\"b\":\"x\",\"e\":{},\"a\":1}", true},
        {SCHEMA(",\"additionalProperties\":true"), "{\"d\":1,\"b\":\"x\",\"b\":\"x\",\"a\":1}",
         false},
        {SCHEMA(",\"additionalProperties\":{\"type\":\"null\"}"), "{\"d\":1,\"b\":\"x\",\"a\":1}",
         false},
        {"{\"properties\":{\"p\":{\"type\":\"null\"},\"q\":{\"type\":\"null\"}}}", "{}", true},
        {"{\"properties\":{\"p\":{\"type\":\"null\"},\"q\":{\"type\":\"null\"}}}", "{\"q\":null}",
         true},
        {"{\"properties\":{\"p\":{\"type\":\"null\"},\"q\":{\"type\":\"null\"}}}",
         "{\"q\":null,\"p\":null}", true},
        /* within each other, and by reference */
        {"{\"type\":\"array\",\"items\":" SCHEMA("") "}",
         "[{\"a\":1,\"b\":\"x\"}, {\"b\":\"x\",\"a\":1}, {\"c\":null,\"a\":1,\"b\":\"x\"}]", true},
        {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
         "\"k\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"v\"]}},\"$ref\":\"#/$defs/n\"}",
         "{\"k\":{\"v\":1,\"k\":{\"k\":{\"v\":4},\"v\":3}},\"v\":0}", true},
        {"{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
         "\"k\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"v\"]}},\"$ref\":\"#/$defs/n\"}",
         "{\"k\":{\"v\":1,\"k\":{\"k\":{},\"v\":3}},\"v\":0}", false},
        /* two keys that begin alike */
        {"{\"properties\":{\"file\":{\"type\":\"null\"},\"filePath\":{\"type\":\"null\"}},"
         "\"required\":[\"file\",\"filePath\"]}",
         "{\"filePath\":null,\"file\":null}", true},
    };
    struct vocab *vocab = character_vocab();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made made = convert(cases[i].schema);
        if (takes(vocab, &made, cases[i].text) != cases[i].valid)
            fail_msg("%s should be %s by %s", cases[i].text, cases[i].valid ? "taken" : "refused",
                     cases[i].schema);
        made_free(&made);
    }
    vocab_free(vocab);
}

/* Without what is said beside it a grammar is what its text says: clients that send the
 * text they were shown get that. */
static void the_text_alone_keeps_its_order(void **state)
{
    (void)state;
    struct vocab *vocab = character_vocab();
    struct made made = convert(SCHEMA(""));
    str_clear(&made.objects);
    assert_true(takes(vocab, &made, "{\"a\":1,\"b\":\"x\"}"));
    assert_false(takes(vocab, &made, "{\"b\":\"x\",\"a\":1}"));
    made_free(&made);
    vocab_free(vocab);
}

enum { N_PROPERTIES = 5, N_DOCUMENTS = 3000 };

/* A random document over five named members and one that is not, and whether it is valid:
 * every named member at most once, the first n_required there. */
static bool random_document(struct random *rng, uint32_t n_required, bool more, struct str *text)
{
    bool seen[N_PROPERTIES] = {false}, valid = true;
    uint32_t n = random_u32(rng) % 7;
    str_append_char(text, '{');
    for (uint32_t i = 0; i < n; i++) {
        uint32_t which = random_u32(rng) % (N_PROPERTIES + (random_u32(rng) % 4 ? 0U : 1U));
        if (which == N_PROPERTIES)
            valid = valid && more;
        else
            valid = valid && !seen[which];
        if (which < N_PROPERTIES)
            seen[which] = true;
        str_append_format(text, "%s\"p%u\":null", i ? "," : "", which);
    }
    str_append_char(text, '}');
    for (uint32_t i = 0; i < n_required; i++)
        valid = valid && seen[i];
    return valid;
}

static void random_documents_are_judged_rightly(void **state)
{
    (void)state;
    struct vocab *vocab = character_vocab();
    struct random rng;
    random_seed(&rng, 25);
    size_t n_valid = 0;
    for (uint32_t required = 0; required <= 3; required++)
        for (int more = 0; more < 2; more++) {
            struct str schema = {0};
            str_append_text(&schema, "{\"properties\":{");
            for (int i = N_PROPERTIES; i-- > 0;) /* not the order of "required" */
                str_append_format(&schema, "\"p%d\":{\"type\":\"null\"}%s", i, i ? "," : "");
            str_append_text(&schema, "},\"required\":[");
            for (uint32_t i = 0; i < required; i++)
                str_append_format(&schema, "%s\"p%u\"", i ? "," : "", i);
            str_append_format(&schema, "],\"additionalProperties\":%s}", more ? "true" : "false");
            struct made made = convert(str_text(&schema));
            for (int i = 0; i < N_DOCUMENTS / 8; i++) {
                struct str text = {0};
                bool valid = random_document(&rng, required, more, &text);
                n_valid += valid;
                if (takes(vocab, &made, str_text(&text)) != valid)
                    fail_msg("%s should be %s by %s", str_text(&text), valid ? "taken" : "refused",
                             str_text(&schema));
                str_free(&text);
            }
            made_free(&made);
            str_free(&schema);
        }
    assert_true(n_valid > N_DOCUMENTS / 20);
    vocab_free(vocab);
}

/* More sets of members than could be written down beforehand: 2^200. */
static void many_members_cost_what_is_met(void **state)
{
    (void)state;
    enum { N = 200 };
    struct vocab *vocab = character_vocab();
    struct str schema = {0}, forward = {0}, backward = {0};
    str_append_text(&schema, "{\"properties\":{");
    for (int i = 0; i < N; i++) {
        str_append_format(&schema, "%s\"m%d\":{\"type\":\"null\"}", i ? "," : "", i);
        str_append_format(&forward, "%s\"m%d\":null", i ? "," : "{", i);
        str_append_format(&backward, "%s\"m%d\":null", i ? "," : "{", N - 1 - i);
    }
    str_append_text(&schema, "}}");
    str_append_char(&forward, '}');
    str_append_char(&backward, '}');
    struct made made = convert(str_text(&schema));
    assert_true(takes(vocab, &made, str_text(&forward)));
    assert_true(takes(vocab, &made, str_text(&backward)));
    made_free(&made);
    str_free(&schema);
    str_free(&forward);
    str_free(&backward);
    vocab_free(vocab);
}

/* What is said of rules that the grammar does not have is left out. */
static void lines_about_other_grammars_do_nothing(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "\n",
                                        "root\n",
                                        "root 1\n",
                                        "root 0 .\n",
                                        "nope 0 . a-kv b-kv\n",
                                        "root 9 . a-kv\n",
                                        "root x . a-kv\n",
                                        "root 0 nope a-kv\n",
                                        "root 0 . nope\n",
                                        "root 0 . a-kv",
                                        "root 4294967296 . a-kv\n",
                                        "  \n"};
    struct vocab *vocab = character_vocab();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct made made = convert(SCHEMA(""));
        str_clear(&made.objects);
        str_append_text(&made.objects, lines[i]);
        if (strcmp(lines[i], "root 0 .\n") != 0)
            assert_true(takes(vocab, &made, "{\"a\":1,\"b\":\"x\"}"));
        else
            assert_true(takes(vocab, &made, "{}"));
        made_free(&made);
    }
    vocab_free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_stand_in_any_order),
        cmocka_unit_test(the_text_alone_keeps_its_order),
        cmocka_unit_test(random_documents_are_judged_rightly),
        cmocka_unit_test(many_members_cost_what_is_met),
        cmocka_unit_test(lines_about_other_grammars_do_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
