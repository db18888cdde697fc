/* grammar_test.c - GBNF: what parses, what it admits, and that the trie and the
 * single token agree. */
#include "unit/sample/helpers.h"
#include "unit/unit.h"

#include <math.h>
#include <string.h>

/* ---- a vocabulary of all bytes, some words, and an end ---- */

enum { N_BYTES = 255 };
static char byte_pieces[N_BYTES][2];
static const char *words[] = {"ab",    "abc", "hello", "{\"",      "\":",  "\",",     "true",
                              "false", "nul", "12",    "345",      " \n",  "\"a",     "a\",\"",
                              "}}",    "é",   "日本",  "\xE6\x97", "\xA5", "<think>", "</think>",
                              "[]",    "},{", "a-b",   "\t\t"};
enum { N_WORDS = sizeof words / sizeof *words, N = N_BYTES + N_WORDS + 1, EOG = N - 1 };
static const char *pieces[N];
static struct toy toy;

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < N_BYTES; i++) {
        byte_pieces[i][0] = (char)(i + 1);
        pieces[i] = byte_pieces[i];
    }
    for (int i = 0; i < N_WORDS; i++)
        pieces[N_BYTES + i] = words[i];
    pieces[EOG] = "</s>";
    toy_create(&toy, pieces, N, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    toy_free(&toy);
    return 0;
}

static int32_t token_of(const char *text)
{
    for (int32_t i = 0; i < N; i++)
        if (strcmp(pieces[i], text) == 0)
            return i;
    fail_msg("no token %s", text);
    return -1;
}

static struct sampler *grammar_sampler(const char *gbnf)
{
    struct sampler_settings set = plain_settings();
    set.grammar = slice_of(gbnf);
    struct error err = {0};
    struct sampler *s = sampler_create(toy.vocab, &set, 0, &err);
    if (!s)
        fail_msg("%s: %s", gbnf, err.message);
    return s;
}

/* The sampler is made to want one token: it gives it exactly when the grammar
 * admits it. */
static bool admits(struct sampler *s, int32_t token)
{
    static float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = 0;
    logits[token] = 1000;
    int32_t got;
    struct error err = {0};
    if (!sampler_sample(s, logits, &got, &err))
        fail_msg("%s", err.message);
    return got == token;
}

/* Byte by byte; then whether the text may end. */
static bool accepts(const char *gbnf, const char *text)
{
    struct sampler *s = grammar_sampler(gbnf);
    bool ok = true;
    for (const char *c = text; ok && *c; c++) {
        int32_t token = (unsigned char)*c - 1;
        ok = admits(s, token) && sampler_accept(s, token, true, NULL);
    }
    ok = ok && admits(s, EOG);
    sampler_free(s);
    return ok;
}

/* ---- the notation ---- */

static void well_formed_grammars_parse(void **state)
{
    (void)state;
    static const char *const good[] = {
        "root ::= \"a\"",
        "root ::= \"yes\" | \"no\"",
        "root ::= a\na ::= \"x\"",
        "# comment\nroot ::= \"a\" # more\n\n# end",
        "root ::= [a-z]+ [^\\n]* \"\\x41\\u00e9\\U0001F600\\t\\r\\n\\\\\\\"\\[\\]\"",
        "root ::= (\n \"a\"\n | \"b\"\n )",
        "root ::= \"a\" |\n \"b\"",
        "root ::= \"a\"{2} \"b\"{2,} \"c\"{0,3} \"d\" { 1 , 2 }",
        "root ::= .",
        "root ::= <[3]> !<[4]>* <think> !</think>",
        "root ::= ",
        "root ::= \"\"",
        "root ::= [] \"a\"",
        "root ::= [a-]",
        "root ::= [-a]",
        "root ::= [日-本é]",
        "root ::= a a ::= \"b\"\na ::= \"x\"\nroot ::= a",
        "root ::= (\"a\"? \"b\"?)*",
        "root ::= ws \"x\" ws\nws ::= [ \\t]*",
        "root ::= \"a\" root | \"b\"",
        "root ::= \"a\"\r\nb ::= \"c\"\r\n",
        "root ::= ((((\"a\"))))",
        "root::=\"a\"",
        "a-1 ::= \"x\"\nroot ::= a-1",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct error err = {0};
        if (i == 16) /* a rule does not end where the next begins on its line */
            assert_false(grammar_check(toy.vocab, slice_of(good[i]), NULL, &err));
        else if (!grammar_check(toy.vocab, slice_of(good[i]), NULL, &err))
            fail_msg("%s: %s", good[i], err.message);
    }
}

static void malformed_grammars_say_where_and_what(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *says;
    } bad[] = {
        {"", "root"},
        {"start ::= \"a\"", "root"},
        {"root ::= (", "line 1, column 11: expected ')' but the grammar ends here"},
        {"root ::= )", "line 1, column 10"},
        {"root ::= \"a", "'\"' to close the literal"},
        {"root ::= [a", "']' to close the character class"},
        {"root ::= [a-", "expected"},
        {"root ::= undefinedrule", "line 1, column 10: the rule 'undefinedrule' is not defined"},
        {"root = \"a\"", "line 1, column 6: expected '::='"},
        {"root ::= \"\\q\"", "after the backslash"},
        {"root ::= \"\\x4\"", "two hexadecimal digits"},
        {"root ::= \"\\u12g4\"", "four hexadecimal digits"},
        {"root ::= *", "to repeat"},
        {"root ::= \"\"+", "to repeat"},
        {"root ::= \"a\"\n  | \"b\"", "line 2, column 3: expected a rule name"},
        {"root ::= \"a\"{", "expected a number"},
        {"root ::= \"a\"{2", "expected ',' or '}'"},
        {"root ::= \"a\"{2,x}", "'}'"},
        {"root ::= \"a\"{99999999999999999999999}", "too large"},
        {"root ::= <[1>", "expected ']'"},
        {"root ::= <[x]>", "expected a number"},
        {"root ::= <unknown>", "not one token"},
        {"root ::= !x", "expected '<'"},
        {"root ::= \"a\" @", "line 1, column 14: expected an item"},
        {"root ::= \"a\"\n\xC3\xA9 ::= \"b\"", "line 2, column 1"},
        {"root ::= \"é\" é", "line 1, column 14"},
        {"root ::= \"\xFF\"", "not UTF-8"},
        {"%llguidance {}", "rule name"},
        {"root ::= root \"a\" | \"b\"", "left recursion"},
        {"root ::= a\na ::= b\nb ::= a \"x\"", "left recursion"},
        {"root ::= e root \"a\" | \"b\"\ne ::= f\nf ::= \"\"", "left recursion"},
        {"root ::= x*\nx ::= \"a\" |", "left recursion"},
        {"root ::= \"a\"{3,1}", "maximum below its minimum"},
        {"root ::= \"a\"{2001}", "repetitions"},
        {"root ::= (\"a\"?){1000} ((\"b\"?){1000}){1000}", "rules"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error err = {0};
        if (grammar_check(toy.vocab, slice_of(bad[i].gbnf), NULL, &err))
            fail_msg("parsed: %s", bad[i].gbnf);
        if (!strstr(err.message, bad[i].says))
            fail_msg("%s: \"%s\" does not say \"%s\"", bad[i].gbnf, err.message, bad[i].says);
    }
}

static void explosive_grammars_are_refused_at_once(void **state)
{
    (void)state;
    struct str text = {0};
    /* Copies of a long literal. */
    str_append_text(&text, "root ::= \"");
    for (int i = 0; i < 20000; i++)
        str_append_char(&text, 'x');
    str_append_text(&text, "\"{1500}");
    struct error err = {0};
    assert_false(grammar_check(toy.vocab, str_slice(&text), NULL, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    /* Groups without end. */
    str_clear(&text);
    str_append_text(&text, "root ::= ");
    for (int i = 0; i < 100000; i++)
        str_append_char(&text, '(');
    assert_false(grammar_check(toy.vocab, str_slice(&text), NULL, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    /* A long chain of rules is no trouble. */
    str_clear(&text);
    str_append_text(&text, "root ::= r0\n");
    for (int i = 0; i < 50000; i++)
        str_append_format(&text, "r%d ::= r%d |\n", (i * 7919 + 1) % 50000,
                          ((i + 1) * 7919 + 1) % 50000);
    grammar_check(toy.vocab, str_slice(&text), NULL, &err);
    str_free(&text);
}

static void a_request_learns_what_the_reference_says(void **state)
{
    (void)state;
    struct sampler_settings set = plain_settings();
    set.grammar = SLICE("root ::= (");
    struct error err = {0};
    assert_null(sampler_create(toy.vocab, &set, 0, &err));
    assert_string_equal(err.message, "failed to parse grammar");
}

/* ---- what is admitted ---- */

static void texts_are_admitted_as_the_grammar_says(void **state)
{
    (void)state;
    static const struct {
        const char *gbnf, *text;
        bool ok;
    } cases[] = {
        {"root ::= \"yes\" | \"no\"", "yes", true},
        {"root ::= \"yes\" | \"no\"", "no", true},
        {"root ::= \"yes\" | \"no\"", "ye", false},
        {"root ::= \"yes\" | \"no\"", "yesno", false},
        {"root ::= [0-9]{3} \"-\" [a-c]+ \"!\"", "123-abc!", true},
        {"root ::= [0-9]{3} \"-\" [a-c]+ \"!\"", "12-abc!", false},
        {"root ::= [0-9]{3} \"-\" [a-c]+ \"!\"", "123-!", false},
        {"root ::= \"a\"{2,4}", "a", false},
        {"root ::= \"a\"{2,4}", "aa", true},
        {"root ::= \"a\"{2,4}", "aaaa", true},
        {"root ::= \"a\"{2,4}", "aaaaa", false},
        {"root ::= \"a\"{0}", "", true},
        {"root ::= \"a\"{0}", "a", false},
        {"root ::= \"a\"{2}{2}", "aaa", false},
        {"root ::= \"a\"{2}{2}", "aaaa", true},
        {"root ::= \"ab\"*", "ababab", true},
        {"root ::= \"ab\"*", "aba", false},
        {"root ::= [^a-c]", "d", true},
        {"root ::= [^a-c]", "b", false},
        {"root ::= [^a-c]", "é", true},
        {"root ::= [^é]", "è",
         false}, /* byte by byte: the block of é is out, as in the reference */
        {"root ::= .*", "any\nthing 日本", true},
        {"root ::= [日-本]", "日", true},
        {"root ::= \"\\u65e5\\U0000672c\"", "日本", true},
        {"root ::= \"(\" root \")\" |", "((()))", true},
        {"root ::= \"(\" root \")\" |", "((())", false},
        {"root ::= (\"a\"? \"b\"?)*", "bbaab", true},
        {"root ::= x\nx ::= \"1\"\nx ::= \"2\"", "2", true}, /* the last definition counts */
        {"root ::= x\nx ::= \"1\"\nx ::= \"2\"", "1", false},
        {"root ::= ", "", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (accepts(cases[i].gbnf, cases[i].text) != cases[i].ok)
            fail_msg("%s: '%s' should%s be admitted", cases[i].gbnf, cases[i].text,
                     cases[i].ok ? "" : " not");
}

static void tokens_may_cross_the_elements(void **state)
{
    (void)state;
    struct sampler *s = grammar_sampler("root ::= \"{\" \"\\\"\" [a-z]+ \"\\\"\" \":\" \" \"?");
    assert_true(admits(s, token_of("{\"")));
    assert_true(sampler_accept(s, token_of("{\""), true, NULL));
    assert_true(admits(s, token_of("hello")));
    assert_true(admits(s, token_of("abc")));
    assert_false(admits(s, token_of("\":")));
    assert_true(sampler_accept(s, token_of("abc"), true, NULL));
    assert_true(admits(s, token_of("\":")));
    assert_false(admits(s, token_of("\",")));
    assert_false(admits(s, EOG));
    assert_true(sampler_accept(s, token_of("\":"), true, NULL));
    assert_true(admits(s, EOG));
    assert_false(sampler_grammar_done(s));
    assert_true(sampler_accept(s, token_of(" "), true, NULL));
    assert_true(sampler_grammar_done(s));
    struct error err = {0};
    assert_false(sampler_accept(s, token_of("a"), true, &err));
    assert_int_equal(err.code, ERR_STATE);
    sampler_free(s);
}

static void half_characters_wait_for_the_rest(void **state)
{
    (void)state;
    struct sampler *s = grammar_sampler("root ::= [日月] \"x\"");
    assert_false(admits(s, token_of("日本")));
    assert_true(admits(s, token_of("\xE6\x97")));
    assert_true(sampler_accept(s, token_of("\xE6\x97"), true, NULL));
    assert_true(admits(s, token_of("\xA5")));
    assert_false(admits(s, token_of("x")));
    assert_true(sampler_accept(s, token_of("\xA5"), true, NULL));
    assert_true(admits(s, token_of("x")));
    sampler_free(s);
}

static void token_elements_look_at_the_id(void **state)
{
    (void)state;
    struct sampler *s = grammar_sampler("root ::= <think> !</think>* </think> \"ab\"");
    assert_true(admits(s, token_of("<think>")));
    assert_false(admits(s, token_of("<")));
    assert_true(sampler_accept(s, token_of("<think>"), true, NULL));
    assert_true(admits(s, token_of("hello")));
    assert_true(admits(s, token_of("</think>")));
    assert_false(admits(s, EOG));
    assert_true(sampler_accept(s, token_of("hello"), true, NULL));
    assert_true(sampler_accept(s, token_of("</think>"), true, NULL));
    assert_true(admits(s, token_of("ab")));
    assert_true(admits(s, token_of("a")));
    assert_false(admits(s, token_of("hello")));
    sampler_free(s);
}

static const char json_grammar[] =
    "root   ::= object\n"
    "value  ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"
    "array  ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}) )* "
    "\"\\\"\" ws\n"
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "
    "[1-9]{0,15})? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

/* For a random walk through several grammars: the tokens that remain after the
 * mask are exactly those that are admitted one by one. */
static void the_mask_admits_what_single_tokens_are_admitted(void **state)
{
    (void)state;
    static const char *const grammars[] = {
        json_grammar,
        "root ::= (\"ab\" | [^b] .)* \"!\"",
        "root ::= ([a-f]{1,3} \",\"?)+ | \"日\" [本-語]* \"é\"? | <think> .* </think>",
        "root ::= \"<\" tag \">\" root* \"</\" tag \">\"\ntag ::= [a-z]{1,5}",
        "root ::= (!<think> \"a\" | <[3]> | [^x]{3})*",
    };
    uint64_t random = 88172645463325252u;
    float logits[N];
    int n_tokens_seen = 0;
    for (size_t g = 0; g < sizeof grammars / sizeof *grammars; g++) {
        for (int walk = 0; walk < 6; walk++) {
            struct sampler *s = grammar_sampler(grammars[g]);
            for (int step = 0; step < 25; step++) {
                /* A banned favourite forces the mask: EOG is refused in most
                 * states; where it is not, single tokens were checked anyway. */
                for (int i = 0; i < N; i++)
                    logits[i] = 0;
                bool one[N];
                int n_one = 0;
                for (int i = 0; i < N; i++)
                    n_one += one[i] = admits(s, i);
                if (n_one == 0 || (n_one == 1 && one[EOG]))
                    break;
                int32_t refused = -1, token;
                for (int i = 0; i < N && refused < 0; i++)
                    if (!one[i])
                        refused = i;
                if (refused >= 0) {
                    logits[refused] = 1000;
                    assert_true(sampler_sample(s, logits, &token, NULL));
                    size_t n, selected;
                    const struct candidate *left = sampler_candidates(s, &n, &selected);
                    for (size_t i = 0; i < n; i++)
                        if ((left[i].p > 0) != one[left[i].token])
                            fail_msg("%s: token '%s': mask and token disagree", grammars[g],
                                     pieces[left[i].token]);
                }
                do {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    token = (int32_t)(random % (N - 1));
                } while (!one[token]);
                assert_true(sampler_accept(s, token, true, NULL));
                n_tokens_seen++;
            }
            sampler_free(s);
        }
    }
    assert_true(n_tokens_seen > 300);
}

/* Every token is asked for, so that the mask is made at each step; what needs
 * too much is refused, not computed. */
static void ambiguous_grammars_cost_bounded_work(void **state)
{
    (void)state;
    struct str many = {0};
    str_append_text(&many, "root ::= ");
    for (int i = 0; i < 1500; i++)
        str_append_text(&many, "[a-z]? ");
    str_append_text(&many, "\"!\"");
    const char *const grammars[] = {
        str_text(&many),
        "root ::= ([a-z]? [a-z]?)* \"!\"",
        "root ::= s s s s s s \"!\"\ns ::= [a-z] s s | | [a-z] t\nt ::= s [a-z] s | [a-z]",
        "root ::= ((((([a-z]{0,9}){0,9}){0,9}) x)* y)* \"!\"\nx ::= [a-z]*\ny ::= [a-z] y |",
    };
    for (size_t g = 0; g < sizeof grammars / sizeof *grammars; g++) {
        struct sampler_settings set = plain_settings();
        struct error err = {0};
        set.grammar = slice_of(grammars[g]);
        struct sampler *s = sampler_create(toy.vocab, &set, 0, &err);
        bool ok = s;
        for (int i = 0; ok && i < 60; i++) {
            static float logits[N];
            int32_t token;
            logits[token_of("12")] = 1000; /* never admitted */
            ok = sampler_sample(s, logits, &token, &err) &&
                 sampler_accept(s, token_of("a"), true, &err);
        }
        if (!ok)
            assert_true(err.code == ERR_LIMIT || err.code == ERR_FORMAT);
        sampler_free(s);
    }
    str_free(&many);
}

static void a_clone_stands_where_the_original_stood(void **state)
{
    (void)state;
    struct sampler *s = grammar_sampler("root ::= \"abc\" | \"hello\"");
    assert_true(sampler_accept(s, token_of("ab"), true, NULL));
    struct sampler *c = sampler_clone(s, NULL);
    assert_true(sampler_accept(s, token_of("c"), true, NULL));
    sampler_free(s);
    assert_false(admits(c, EOG));
    assert_true(admits(c, token_of("c")));
    sampler_free(c);
}

/* ---- lazy grammars ---- */

static struct sampler *lazy_sampler(enum grammar_trigger_kind kind, const char *text, int32_t token)
{
    struct sampler_settings set = plain_settings();
    struct grammar_trigger trigger = {kind, slice_of(text), token};
    set.grammar = SLICE("root ::= \"<\" [a-z]+ \">\" \"!\"");
    set.grammar_lazy = true;
    set.grammar_triggers = &trigger;
    set.n_grammar_triggers = 1;
    struct error err = {0};
    struct sampler *s = sampler_create(toy.vocab, &set, 0, &err);
    if (!s)
        fail_msg("%s", err.message);
    return s;
}

static void feed(struct sampler *s, const char *text)
{
    struct error err = {0};
    for (const char *c = text; *c; c++)
        if (!sampler_accept(s, (unsigned char)*c - 1, true, &err))
            fail_msg("%s", err.message);
}

static void a_word_wakes_a_lazy_grammar(void **state)
{
    (void)state;
    struct sampler *s = lazy_sampler(TRIGGER_WORD, "<ab", 0);
    feed(s, "anything (.*) <a");
    assert_true(admits(s, token_of("hello")));
    assert_true(admits(s, token_of("{\"")));
    feed(s, "b"); /* "<ab" is in the grammar now */
    assert_true(admits(s, token_of("hello")));
    assert_false(admits(s, token_of("{\"")));
    assert_true(admits(s, token_of(">")));
    feed(s, ">");
    assert_true(admits(s, token_of("!")));
    assert_false(admits(s, token_of("a")));
    sampler_free(s);
}

static void a_token_wakes_a_lazy_grammar(void **state)
{
    (void)state;
    struct sampler *s = lazy_sampler(TRIGGER_TOKEN, "", token_of("<think>"));
    feed(s, "abc");
    assert_true(admits(s, token_of("12")));
    assert_true(sampler_accept(s, token_of("<think>"), true, NULL));
    assert_true(admits(s, token_of("!")));
    assert_false(admits(s, token_of("12")));
    sampler_free(s);
}

static void a_pattern_wakes_it_at_its_first_group(void **state)
{
    (void)state;
    struct sampler *s = lazy_sampler(TRIGGER_PATTERN, "x+(<[a-z])", 0);
    feed(s, "<a xx");
    assert_true(admits(s, token_of("12")));
    feed(s, "<q");
    assert_true(admits(s, token_of("hello")));
    assert_false(admits(s, token_of("12")));
    sampler_free(s);
    s = lazy_sampler(TRIGGER_PATTERN_FULL, "[a-z ]*(<ab)", 0);
    feed(s, "1 <ab"); /* not all of the text */
    assert_true(admits(s, token_of("12")));
    sampler_free(s);
    s = lazy_sampler(TRIGGER_PATTERN_FULL, "[a-z ]*(<ab)", 0);
    feed(s, "one <ab");
    assert_false(admits(s, token_of("12")));
    sampler_free(s);
}

static void a_bad_pattern_is_refused(void **state)
{
    (void)state;
    struct sampler_settings set = plain_settings();
    struct grammar_trigger trigger = {TRIGGER_PATTERN, SLICE("(a"), 0};
    set.grammar = SLICE("root ::= \"a\"");
    set.grammar_lazy = true;
    set.grammar_triggers = &trigger;
    set.n_grammar_triggers = 1;
    struct error err = {0};
    assert_null(sampler_create(toy.vocab, &set, 0, &err));
    assert_non_null(strstr(err.message, "grammar_triggers"));
}

/* ---- reasoning budget ---- */

static void the_budget_forces_the_end_of_a_thought(void **state)
{
    (void)state;
    int32_t open = token_of("<think>"), close = token_of("</think>"), dot = token_of("!");
    int32_t forced[] = {dot, close};
    struct token_run end = {&close, 1};
    struct sampler_settings set = plain_settings();
    set.reasoning_budget_tokens = 2;
    set.reasoning_start = (struct token_run){&open, 1};
    set.reasoning_ends = &end;
    set.n_reasoning_ends = 1;
    set.reasoning_forced = (struct token_run){forced, 2};
    struct sampler *s = sampler_create(toy.vocab, &set, 0, NULL);
    assert_non_null(s);
    feed(s, "ab");
    assert_true(admits(s, token_of("12")));
    assert_true(sampler_accept(s, open, true, NULL));
    feed(s, "a");
    assert_true(admits(s, token_of("12")));
    feed(s, "b"); /* spent */
    assert_false(admits(s, token_of("12")));
    assert_true(admits(s, dot));
    assert_true(sampler_accept(s, dot, true, NULL));
    assert_true(admits(s, close));
    assert_false(admits(s, dot));
    assert_true(sampler_accept(s, close, true, NULL));
    assert_true(admits(s, token_of("12")));
    assert_false(sampler_force_reasoning_end(s));
    /* A second thought has its own budget, and may be ended from outside. */
    assert_true(sampler_accept(s, open, true, NULL));
    assert_true(sampler_force_reasoning_end(s));
    assert_false(admits(s, token_of("12")));
    sampler_free(s);
    /* The prompt may end inside a thought. */
    set.prefill = (struct token_run){&open, 1};
    set.reasoning_budget_tokens = 0;
    s = sampler_create(toy.vocab, &set, 0, NULL);
    assert_false(admits(s, token_of("12")));
    sampler_free(s);
}

static void a_character_is_finished_before_the_end_is_forced(void **state)
{
    (void)state;
    int32_t open = token_of("<think>"), close = token_of("</think>");
    struct token_run end = {&close, 1};
    struct sampler_settings set = plain_settings();
    set.reasoning_budget_tokens = 1;
    set.reasoning_start = (struct token_run){&open, 1};
    set.reasoning_ends = &end;
    set.n_reasoning_ends = 1;
    set.reasoning_forced = end;
    struct sampler *s = sampler_create(toy.vocab, &set, 0, NULL);
    assert_true(sampler_accept(s, open, true, NULL));
    assert_true(sampler_accept(s, token_of("\xE6\x97"), true, NULL));
    assert_true(admits(s, token_of("\xA5")));
    assert_true(sampler_accept(s, token_of("\xA5"), true, NULL));
    assert_false(admits(s, token_of("12")));
    assert_true(admits(s, close));
    sampler_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_grammars_parse),
        cmocka_unit_test(malformed_grammars_say_where_and_what),
        cmocka_unit_test(explosive_grammars_are_refused_at_once),
        cmocka_unit_test(a_request_learns_what_the_reference_says),
        cmocka_unit_test(texts_are_admitted_as_the_grammar_says),
        cmocka_unit_test(tokens_may_cross_the_elements),
        cmocka_unit_test(half_characters_wait_for_the_rest),
        cmocka_unit_test(token_elements_look_at_the_id),
        cmocka_unit_test(the_mask_admits_what_single_tokens_are_admitted),
        cmocka_unit_test(ambiguous_grammars_cost_bounded_work),
        cmocka_unit_test(a_clone_stands_where_the_original_stood),
        cmocka_unit_test(a_word_wakes_a_lazy_grammar),
        cmocka_unit_test(a_token_wakes_a_lazy_grammar),
        cmocka_unit_test(a_pattern_wakes_it_at_its_first_group),
        cmocka_unit_test(a_bad_pattern_is_refused),
        cmocka_unit_test(the_budget_forces_the_end_of_a_thought),
        cmocka_unit_test(a_character_is_finished_before_the_end_is_forced),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
