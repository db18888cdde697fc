/* cutting_test.c - where a text is cut: special tokens, patterns, normal forms. */
#include "unit/text/helpers.h"

#include "text/tokenizer.h"

/* The pieces that steps make of a text, each followed by '|'. */
static void assert_pieces(const struct steps *steps, const char *text, const char *wanted)
{
    struct pieces pieces = {0};
    struct pattern_scratch scratch = {0};
    struct error err = {0};
    assert_true(str_append_text(&pieces.text, text));
    if (*text)
        assert_true(VEC_PUSH(&pieces.list, (struct piece){0, strlen(text)}));
    if (!pieces_run(&pieces, steps, true, SIZE_MAX, &scratch, &err))
        fail_msg("%s", err.message);
    struct str got = {0};
    for (size_t i = 0; i < pieces.list.n; i++) {
        struct piece p = pieces.list.data[i];
        assert_true(p.begin < p.end);
        str_append(&got, pieces.text.data + p.begin, p.end - p.begin);
        str_append_char(&got, '|');
    }
    assert_string_equal(str_text(&got), wanted);
    str_free(&got);
    pieces_free(&pieces);
    pattern_scratch_free(&scratch);
}

/* ---- Patterns ---- */

static void a_split_keeps_drops_or_joins_its_matches(void **state)
{
    (void)state;
    static const struct {
        enum split_behavior behavior;
        bool invert;
        const char *wanted;
    } cases[] = {
        {SPLIT_REMOVED, false, "the|final|countdown|"},
        {SPLIT_ISOLATED, false, "the|-|final|-|-|countdown|"},
        {SPLIT_MERGED_WITH_PREVIOUS, false, "the-|final-|-|countdown|"},
        {SPLIT_MERGED_WITH_NEXT, false, "the|-final|-|-countdown|"},
        {SPLIT_CONTIGUOUS, false, "the|-|final|--|countdown|"},
        {SPLIT_REMOVED, true, "-|-|-|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steps steps = {0};
        assert_true(steps_add_split(&steps, SLICE("-"), cases[i].behavior, cases[i].invert, NULL));
        assert_pieces(&steps, "the-final--countdown", cases[i].wanted);
        steps_free(&steps);
    }
}

static void an_empty_match_cuts_without_taking_anything(void **state)
{
    (void)state;
    struct steps steps = {0};
    assert_true(steps_add_split(&steps, SLICE("(?=b)|x"), SPLIT_ISOLATED, false, NULL));
    assert_pieces(&steps, "abbxb", "a|b|b|x|b|");
    steps_free(&steps);
}

static void white_space_is_the_property_and_nothing_else(void **state)
{
    (void)state;
    struct steps steps = {0};
    assert_true(steps_add_split(&steps, SLICE("\\s+"), SPLIT_REMOVED, false, NULL));
    assert_pieces(&steps,
                  "a\xC2\x85"
                  "b\xE3\x80\x80"
                  "c\xE1\xA0\x8E"
                  "d\xE2\x80\x8B"
                  "e\x1C"
                  "f",
                  "a|b|c\xE1\xA0\x8E"
                  "d\xE2\x80\x8B"
                  "e\x1C"
                  "f|");
    steps_free(&steps);
    assert_true(steps_add_split(&steps, SLICE("[^\\s,]+|\\S"), SPLIT_REMOVED, true, NULL));
    assert_pieces(&steps,
                  "ab, \xC2\xA0"
                  "cd",
                  "ab|,|cd|");
    steps_free(&steps);
}

static void digits_are_grouped_from_the_right(void **state)
{
    (void)state;
    struct steps steps = {0};
    assert_true(VEC_PUSH(&steps, (struct step){.kind = STEP_DIGIT_GROUPS}));
    assert_pieces(&steps, "ab1234567 12x123", "ab1|234|567| 12|x123|");
    steps_free(&steps);
    assert_true(VEC_PUSH(&steps, (struct step){.kind = STEP_ASCII_DIGIT_GROUPS}));
    assert_pieces(&steps, "ab1234567 12x123", "ab1|234|567 12x|123|");
    steps_free(&steps);
}

static void a_pattern_that_cannot_be_compiled_is_shown(void **state)
{
    (void)state;
    struct error err = {0};
    assert_null(pattern_compile(SLICE("(a"), &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"(a\""));
}

/* A pattern that would take for ever is given up, with an error. */
static void a_pattern_cannot_hang(void **state)
{
    (void)state;
    struct steps steps = {0};
    struct pieces pieces = {0};
    struct pattern_scratch scratch = {0};
    struct error err = {0};
    assert_true(steps_add_split(&steps, SLICE("(?:a|aa|aaa)+$"), SPLIT_ISOLATED, false, NULL));
    for (int i = 0; i < 60; i++)
        str_append_char(&pieces.text, 'a');
    str_append_char(&pieces.text, 'b');
    assert_true(VEC_PUSH(&pieces.list, (struct piece){0, 61}));
    assert_false(pieces_run(&pieces, &steps, true, SIZE_MAX, &scratch, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    pieces_free(&pieces);
    steps_free(&steps);
    pattern_scratch_free(&scratch);
}

/* ---- The names of tokenizer.ggml.pre ---- */

static const char *const pre_names[] = {
    "default",
    "minicpm5",
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "youtu",
    "falcon",
    "mpt",
    "starcoder",
    "gpt-2",
    "phi-2",
    "jina-es",
    "jina-de",
    "gigachat",
    "jina-v2-es",
    "jina-v2-de",
    "a.x-4.0",
    "mellum",
    "modern-bert",
    "jais-2",
    "gemma4",
    "granite-embed-multi-311m",
    "sarvam-moe",
    "jina-v1-en",
    "jina-v2-code",
    "roberta-bpe",
    "whitespace",
    "refact",
    "command-r",
    "qwen2",
    "deepseek-r1-qwen",
    "kormo",
    "f2llmv2",
    "qwen35",
    "stablelm2",
    "olmo",
    "dbrx",
    "smaug-bpe",
    "poro-chat",
    "glm4",
    "chatglm-bpe",
    "viking",
    "jais",
    "tekken",
    "smollm",
    "codeshell",
    "bloom",
    "gpt3-finnish",
    "exaone",
    "exaone4",
    "exaone-moe",
    "chameleon",
    "minerva-7b",
    "megrez",
    "gpt-4o",
    "llama4",
    "kanana2",
    "talkie",
    "granite-embed-multi-97m",
    "tiny_aya",
    "cohere2moe",
    "superbpe",
    "trillion",
    "granite-docling",
    "bailingmoe",
    "bailingmoe2",
    "llada-moe",
    "seed-coder",
    "hunyuan",
    "hunyuan-dense",
    "joyai-llm",
    "kimi-k2",
    "grok-2",
    "afmoe",
    "laguna",
    "minimax-m2",
    "solar-open",
    "mellum2",
};

static struct steps steps_of(const char *name)
{
    struct tokenizer *tok = tokenizer_new();
    struct error err = {0};
    assert_non_null(tok);
    if (!pre_tokenizer_set(tok, slice_of(name), &err))
        fail_msg("%s: %s", name, err.message);
    struct steps steps = tok->steps;
    tok->steps = (struct steps){0};
    /* Pieces are compared as text. */
    if (steps.n && steps.data[steps.n - 1].kind == STEP_BYTE_LEVEL)
        steps.n--;
    tokenizer_free(tok);
    return steps;
}

static void every_pre_tokenizer_cuts_as_it_should(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *wanted;
    } cases[] = {
        {"gpt-2", "I'm 12345  ok!\n\n", "I|'m| 12345| | ok|!|\n\n|"},
        {"llama-bpe", "I'M 12345  ok!\n\nx", "I|'M| |123|45| | ok|!\n\n|x|"},
        {"qwen2", "a 12", "a| |1|2|"},
        {"qwen35", "a\xCC\x81 b", "a\xCC\x81| b|"},
        {"starcoder", "ab 12", "ab| |1|2|"},
        {"falcon", "a$b 1234", "a|$|b| |123|4|"},
        {"gpt-4o", "HelloWorld's x/\n", "Hello|World's| x|/\n|"},
        {"tekken", "HelloWORLD 12", "Hello|WORLD| |1|2|"},
        {"deepseek-v3", "~\xC3\xA9!~ x\xE6\x97\xA5", "~\xC3\xA9|!|~| x|\xE6\x97\xA5|"},
        {"deepseek-llm", "a  ", "a|  |"},
        {"bloom", "a, b", "a|,| b|"},
        {"superbpe", "a b 1234", "a b |1|234|"},
        {"afmoe", "ab 12345", "ab| |12|345|"},
        {"kimi-k2",
         "ab\xE6\x97\xA5"
         "cd's 1234",
         "ab|\xE6\x97\xA5|cd's| |123|4|"},
        {"gemma4", "a b\n\nc", "a b|\n\n|c|"},
        {"laguna", "a\nb 1", "a|\n|b| |1|"},
        {"jais-2", "a      b", "a|    | | b|"},
        {"exaone-moe", "ab cd 1", "ab cd| |1|"},
        {"chameleon", "IMGIMGABZ x<sentinel:7>", "IMGIMGABZ| x|<|sentinel|:|7|>|"},
        {"seed-coder", "a!\n", "a|!|\n|"},
        {"bailingmoe", "a\n\n b", "a|\n\n| b|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steps steps = steps_of(cases[i].name);
        assert_pieces(&steps, cases[i].text, cases[i].wanted);
        steps_free(&steps);
    }
}

/* No name loses or reorders text, and a long stretch of anything is cut in
 * little time. */
static void no_pre_tokenizer_loses_text_or_time(void **state)
{
    (void)state;
    static const char *const units[] = {"a",  "A",       " ", "\n", " \n",          "7",
                                        "!",  "'",       "~", "aA", "\xE6\x97\xA5", "a\xCC\x81",
                                        "a ", "\xC2\xA0"};
    for (size_t i = 0; i < sizeof pre_names / sizeof *pre_names; i++) {
        struct steps steps = steps_of(pre_names[i]);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
            struct pieces pieces = {0};
            struct pattern_scratch scratch = {0};
            struct error err = {0};
            while (pieces.text.len < 60000)
                str_append_text(&pieces.text, units[k]);
            str_append_text(&pieces.text, "x");
            assert_true(VEC_PUSH(&pieces.list, (struct piece){0, pieces.text.len}));
            if (!pieces_run(&pieces, &steps, true, SIZE_MAX, &scratch, &err))
                fail_msg("%s: \"%s\"...: %s", pre_names[i], units[k], err.message);
            size_t at = 0;
            for (size_t j = 0; j < pieces.list.n; j++) {
                assert_int_equal(pieces.list.data[j].begin, at);
                at = pieces.list.data[j].end;
            }
            assert_int_equal(at, pieces.text.len);
            pieces_free(&pieces);
            pattern_scratch_free(&scratch);
        }
        steps_free(&steps);
    }
}

/* ---- Special tokens ---- */

static const struct entry special_tokens[] = {
    {"<unk>", 0, 2}, {"a", 0, 1},  {"b", 0, 1},    {"c", 0, 1},   {"d", 0, 1},
    {"x", 0, 1},     {" ", 0, 1},  {"abcd", 0, 4}, {"xab", 0, 4}, {"<|im_end|>", 0, 3},
    {"<|", 0, 4},    {"\n", 0, 1}, {"bc", 0, 3},
};
static const char *const no_merges[] = {"q q"};

static void the_longest_special_token_of_the_text_goes_first(void **state)
{
    (void)state;
    struct tokenizer *tok = make_vocabulary(
        &(struct vocabulary){"gpt2", "gpt-2", TOKENS(special_tokens), MERGES(no_merges)});
    assert_tokens(tok, "xabcd", 0, "x|abcd|");
    assert_tokens(tok, "xabxabcdab", 0, "xab|x|abcd|a|b|");
    assert_tokens(tok, "a<|im_end|>bc", TEXT_PARSE_SPECIAL, "a|<|im_end|>|bc|");
    assert_tokens(tok, "a<|bc", 0, "a|<||b|c|");
    tokenizer_free(tok);
}

static void phi3_swallows_white_space_after_special_tokens(void **state)
{
    (void)state;
    struct tokenizer *tok = make_vocabulary(&(struct vocabulary){
        "gpt2", "gpt-2", "Phi-3-mini", TOKENS(special_tokens), MERGES(no_merges)});
    assert_tokens(tok, "a<|im_end|> \n b", TEXT_PARSE_SPECIAL, "a|<|im_end|>|b|");
    assert_true(tokenizer_attr(tok, 9) & TOKEN_RSTRIP);
    tokenizer_free(tok);
}

/* The same cuts as by seeking each token in turn in what is left. */
static void partition_agrees_with_the_obvious_way(void **state)
{
    (void)state;
    static const char *const specials[] = {"aab", "aba", "bb", "ba", "abab", "aaaa", "b"};
    enum { N_SPECIALS = sizeof specials / sizeof *specials };
    struct entry tokens[N_SPECIALS + 2] = {{"a", 0, 1}, {"q", 0, 1}};
    for (size_t i = 0; i < N_SPECIALS; i++)
        tokens[i + 2] = (struct entry){specials[i], 0, 4};
    struct tokenizer *tok =
        make_vocabulary(&(struct vocabulary){"gpt2", "gpt-2", TOKENS(tokens), MERGES(no_merges)});
    /* Longest first; equally long ones do not overlap differently by order,
     * for the one further left is taken. */
    static const size_t lengths[] = {4, 3, 2, 1};
    srand(3);
    for (int round = 0; round < 400; round++) {
        char text[41];
        int owner[41] = {0};
        size_t n = 1 + (size_t)rand() % 40;
        for (size_t i = 0; i < n; i++)
            text[i] = rand() % 2 ? 'a' : 'b';
        text[n] = '\0';
        for (size_t l = 0; l < 4; l++)
            for (size_t at = 0; at + lengths[l] <= n; at++)
                for (size_t k = 0; k < N_SPECIALS; k++) {
                    bool fits = strlen(specials[k]) == lengths[l] &&
                                memcmp(text + at, specials[k], lengths[l]) == 0;
                    for (size_t i = 0; i < lengths[l]; i++)
                        fits = fits && !owner[at + i];
                    for (size_t i = 0; fits && i < lengths[l]; i++)
                        owner[at + i] = i ? -1 : (int)k + 1;
                }
        struct str wanted = {0};
        for (size_t i = 0; i < n; i++)
            if (owner[i] > 0)
                str_append_format(&wanted, "%s|", specials[owner[i] - 1]);
            else if (!owner[i])
                str_append_format(&wanted, "%c|", text[i]);
        assert_tokens(tok, text, 0, str_text(&wanted));
        str_free(&wanted);
    }
    tokenizer_free(tok);
}

static void a_tokenizer_json_seeks_its_added_tokens_from_the_left(void **state)
{
    (void)state;
    struct tokenizer *tok = make_json(
        "{\"normalizer\": {\"type\": \"Lowercase\"}, \"added_tokens\": ["
        "{\"id\": 3, \"content\": \"<S>\", \"special\": true, \"normalized\": false},"
        "{\"id\": 4, \"content\": \"ab\", \"single_word\": true, \"normalized\": false},"
        "{\"id\": 5, \"content\": \"<m>\", \"lstrip\": true, \"rstrip\": true, \"normalized\": "
        "false}, {\"id\": 6, \"content\": \"XY\", \"normalized\": true}],"
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \" \": 2, \"<\": 7, \"s\": "
        "8, \">\": 9}, \"merges\": []}}");
    assert_tokens(tok, "A<S>b", TEXT_PARSE_SPECIAL, "a|<S>|b|");
    assert_tokens(tok, "A<S>b", 0, "a|<|s|>|b|");
    assert_tokens(tok, "ab aba ab", 0, "ab| |a|b|a| |ab|");
    assert_tokens(tok, "a <m>  b", 0, "a|<m>|b|");
    assert_tokens(tok, "axYb", 0, "a|XY|b|");
    tokenizer_free(tok);
}

/* ---- Ranges ---- */

static const struct entry range_tokens[] = {
    {"<unk>", 0, 2},    {"a", 0, 1},  {"b", 0, 1},   {"<", 0, 1},     {">", 0, 1},  {"e", 0, 1},
    {"\xC4\x8A", 0, 1}, {"ab", 0, 1}, {"<e>", 0, 3}, {"<e>\n", 0, 3}, {"e>", 0, 4},
};
static const char *const range_merges[] = {"a b"};

static void no_control_token_is_read_where_a_user_wrote(void **state)
{
    (void)state;
    struct tokenizer *tok = make_vocabulary(
        &(struct vocabulary){"gpt2", "gpt-2", TOKENS(range_tokens), MERGES(range_merges)});
    assert_marked_tokens(tok, "a<e>b", "a|<e>|b|");
    assert_marked_tokens(tok, "[[a]]<e>[[b]]", "a|<e>|b|");
    assert_marked_tokens(tok, "[[a<e>b]]<e>", "a|<|e>|b|<e>|");
    /* Not either where one byte of it is the user's, at either end. */
    assert_marked_tokens(tok, "a[[<]]e>b", "a|<|e>|b|");
    assert_marked_tokens(tok, "a<e[[>]]b", "a|<|e>|b|");
    assert_marked_tokens(tok, "[[<]][[e>]]", "<|e>|");
    /* An empty range is nobody's. */
    assert_marked_tokens(tok, "<[[]]e>", "<e>|");
    tokenizer_free(tok);
}

static void outside_of_ranges_a_shorter_control_token_is_still_read(void **state)
{
    (void)state;
    struct tokenizer *tok = make_vocabulary(
        &(struct vocabulary){"gpt2", "gpt-2", TOKENS(range_tokens), MERGES(range_merges)});
    assert_tokens(tok, "<e>\nb", TEXT_PARSE_SPECIAL, "<e>\n|b|");
    assert_marked_tokens(tok, "<e>[[\n]]b", "<e>|\xC4\x8A|b|");
    tokenizer_free(tok);
}

static void borders_of_ranges_change_no_merge(void **state)
{
    (void)state;
    struct tokenizer *tok = make_vocabulary(
        &(struct vocabulary){"gpt2", "gpt-2", TOKENS(range_tokens), MERGES(range_merges)});
    assert_marked_tokens(tok, "a[[b]]<e>", "ab|<e>|");
    assert_marked_tokens(tok, "[[a]]b[[a]][[b]]", "ab|ab|");
    tokenizer_free(tok);
}

/* Ranges follow the text when ill-formed bytes become longer. */
static void ranges_hold_in_text_that_is_mended(void **state)
{
    (void)state;
    struct tokenizer *tok = make_json(
        "{\"added_tokens\": [{\"id\": 3, \"content\": \"<S>\", \"special\": true, "
        "\"normalized\": false}],\"model\": {\"type\": \"BPE\", \"vocab\": {\"<\": 0, \"S\": 1, "
        "\">\": 2}, \"merges\": []}}");
    assert_marked_tokens(tok, "\xFF\xFF<S>[[<S>\xFF]]<S>[[<S>]]", "<S>|<|S|>|<S>|<|S|>|");
    tokenizer_free(tok);
}

/* A tokenizer.json may seek control tokens in the normalized text. */
static void ranges_hold_in_normalized_text(void **state)
{
    (void)state;
    static const char model[] =
        "\"added_tokens\": [{\"id\": 9, \"content\": \"<S>\", \"special\": true, \"normalized\": "
        "true}], \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"_\": 1, \"<\": 2, \"s\": "
        "3, \">\": 4, \"ae\": 5, \"e\": 6, \"\xC3\xA9\": 7}, \"merges\": []}}";
    char json[1024];
    snprintf(json, sizeof json,
             "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Strip\", "
             "\"strip_left\": true, \"strip_right\": true}, {\"type\": \"Lowercase\"}, {\"type\": "
             "\"Replace\", \"pattern\": {\"String\": \"aa\"}, \"content\": \"\"}]}, %s",
             model);
    struct tokenizer *tok = make_json(json);
    assert_tokens(tok, " aA<S><s>a ", TEXT_PARSE_SPECIAL, "<S>|<S>|a|");
    assert_marked_tokens(tok, " [[aA<S>]]<S>[[a]]<s>a[[<s>]] ", "<|s|>|<S>|a|<S>|a|<|s|>|");
    tokenizer_free(tok);
    /* Where the normal form joins both sides, all of it counts as the user's. */
    snprintf(json, sizeof json, "{\"normalizer\": {\"type\": \"NFC\"}, %s", model);
    tok = make_json(json);
    assert_marked_tokens(tok, "[[e\xCC\x81]]<S>", "\xC3\xA9|<S>|");
    assert_marked_tokens(tok, "e[[\xCC\x81]]<S>", "\xC3\xA9|<|>|");
    tokenizer_free(tok);
}

/* ---- Normal forms ---- */

static void a_normalizer_does_what_its_name_says(void **state)
{
    (void)state;
    static const struct {
        const char *json, *in, *out;
    } cases[] = {
        {"{\"type\": \"NFC\"}", "e\xCC\x81", "\xC3\xA9"},
        {"{\"type\": \"NFD\"}", "\xC3\xA9", "e\xCC\x81"},
        {"{\"type\": \"NFKC\"}", "\xEF\xAC\x81", "fi"},
        {"{\"type\": \"NFKD\"}", "\xC2\xBD",
         "1\xE2\x81\x84"
         "2"},
        {"{\"type\": \"Lowercase\"}",
         "\xC3\x89"
         "A\xC4\xB0",
         "\xC3\xA9"
         "ai\xCC\x87"},
        {"{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": false}", " a ", "a "},
        {"{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}", "  ", ""},
        {"{\"type\": \"StripAccents\"}", "e\xCC\x81", "e"},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"ab\"}, \"content\": \"x\"}", "aabab",
         "axx"},
        {"{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": \" \"}",
         "a   b", "a b"},
        {"{\"type\": \"Prepend\", \"prepend\": \"_\"}", "a", "_a"},
        {"{\"type\": \"Prepend\", \"prepend\": \"_\"}", "", ""},
        {"{\"type\": \"Nmt\"}",
         "a\x01"
         "b\tc",
         "ab c"},
        {"{\"type\": \"BertNormalizer\"}", "\xC3\x89\tx\xE6\x97\xA5\x01", "e x \xE6\x97\xA5 "},
        {"{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFD\"}, {\"type\": "
         "\"StripAccents\"}]}",
         "\xC3\xA9", "e"},
        {"{\"type\": \"ByteLevel\"}", " a",
         "\xC4\xA0"
         "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        struct error err = {0};
        struct str text = {0}, other = {0};
        struct pattern_scratch scratch = {0};
        snprintf(json, sizeof json,
                 "{\"normalizer\": %s, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, "
                 "\"merges\": []}}",
                 cases[i].json);
        struct tokenizer *tok = make_json(json);
        assert_true(str_append_text(&text, cases[i].in));
        assert_true(normalizer_run(&tok->normalizer, SIZE_MAX, &text, &other, &scratch, &err));
        assert_string_equal(str_text(&text), cases[i].out);
        str_free(&text);
        str_free(&other);
        pattern_scratch_free(&scratch);
        tokenizer_free(tok);
    }
}

/* A double array of one entry: "\xC2\xBD" becomes "1/2". */
static void a_charsmap_replaces_the_longest_prefix(void **state)
{
    (void)state;
    /* Units: 0 is the root, whose base is 1 << 8; a child stands at base ^ byte.
     * The units' bits are those of darts-clone: label 0..7, leaf 8, base 10... */
    enum { BASE_ROOT = 0x100, BASE_C2 = 0x200, BASE_LEAF = 0x300, N_UNITS = 0x400 };
    static uint32_t units[N_UNITS];
    units[0] = BASE_ROOT << 10;
    units[BASE_ROOT ^ 0xC2] = (uint32_t)((BASE_ROOT ^ 0xC2) ^ BASE_C2) << 10 | 0xC2;
    units[BASE_C2 ^ 0xBD] = (uint32_t)((BASE_C2 ^ 0xBD) ^ BASE_LEAF) << 10 | 0x100 | 0xBD;
    units[BASE_LEAF] = 1u << 31 | 2;
    struct str map = {0};
    uint32_t n_bytes = sizeof units;
    struct slice replacement;
    str_append(&map, &n_bytes, 4);
    str_append(&map, units, sizeof units);
    str_append(&map,
               "?\0"
               "1/2\0",
               6);
    assert_true(charsmap_check(str_slice(&map), NULL));
    assert_int_equal(charsmap_match(str_slice(&map), SLICE("\xC2\xBD!"), &replacement), 2);
    assert_true(slice_equal_text(replacement, "1/2"));
    assert_int_equal(charsmap_match(str_slice(&map), SLICE("\xC2\xBC"), &replacement), 0);
    struct error err = {0};
    assert_false(charsmap_check((struct slice){map.data, 8}, &err));
    assert_int_equal(err.code, ERR_FORMAT);
    str_free(&map);
}

static void an_unknown_part_of_a_tokenizer_json_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *json, *named;
    } cases[] = {
        {"{\"model\": {\"type\": \"Klingon\", \"vocab\": {\"a\": 0}}}", "Klingon"},
        {"{\"normalizer\": {\"type\": \"Klingon\"}, \"model\": {\"type\": \"BPE\", \"vocab\": "
         "{\"a\": 0}, \"merges\": []}}",
         "normalizer of type 'Klingon'"},
        {"{\"pre_tokenizer\": {\"type\": \"Klingon\"}, \"model\": {\"type\": \"BPE\", \"vocab\": "
         "{\"a\": 0}, \"merges\": []}}",
         "pre-tokenizer of type 'Klingon'"},
        {"{\"post_processor\": {\"type\": \"Klingon\"}, \"model\": {\"type\": \"BPE\", \"vocab\": "
         "{\"a\": 0}, \"merges\": []}}",
         "post-processor of type 'Klingon'"},
        {"{\"decoder\": {\"type\": \"Klingon\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": "
         "0}, \"merges\": []}}",
         "decoder of type 'Klingon'"},
        {"{\"model\": {\"type\": \"BPE\", \"merges\": []}}", "model.vocab"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}", "model.merges"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}",
         "impossible id"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 3000000}, \"merges\": []}}",
         "only 2 tokens"},
        {"[]", "not a JSON object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error err = {0};
        assert_null(try_json(cases[i].json, &err));
        if (!strstr(err.message, cases[i].named))
            fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].named);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_split_keeps_drops_or_joins_its_matches),
        cmocka_unit_test(an_empty_match_cuts_without_taking_anything),
        cmocka_unit_test(white_space_is_the_property_and_nothing_else),
        cmocka_unit_test(digits_are_grouped_from_the_right),
        cmocka_unit_test(a_pattern_that_cannot_be_compiled_is_shown),
        cmocka_unit_test(a_pattern_cannot_hang),
        cmocka_unit_test(every_pre_tokenizer_cuts_as_it_should),
        cmocka_unit_test(no_pre_tokenizer_loses_text_or_time),
        cmocka_unit_test(the_longest_special_token_of_the_text_goes_first),
        cmocka_unit_test(phi3_swallows_white_space_after_special_tokens),
        cmocka_unit_test(partition_agrees_with_the_obvious_way),
        cmocka_unit_test(a_tokenizer_json_seeks_its_added_tokens_from_the_left),
        cmocka_unit_test(no_control_token_is_read_where_a_user_wrote),
        cmocka_unit_test(outside_of_ranges_a_shorter_control_token_is_still_read),
        cmocka_unit_test(borders_of_ranges_change_no_merge),
        cmocka_unit_test(ranges_hold_in_text_that_is_mended),
        cmocka_unit_test(ranges_hold_in_normalized_text),
        cmocka_unit_test(a_normalizer_does_what_its_name_says),
        cmocka_unit_test(a_charsmap_replaces_the_longest_prefix),
        cmocka_unit_test(an_unknown_part_of_a_tokenizer_json_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
