/* models_test.c - each kind of vocabulary, on a few tokens made by hand. */
#include "unit/text/helpers.h"

#define SPACE "\xE2\x96\x81"

/* ---- Byte-pair encoding ---- */

static void the_pair_of_the_lowest_rank_is_joined_first(void **state)
{
    (void)state;
    struct tokenizer *tok = make_json(
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"bc\": 3, "
        "\"ab\": 4, \"abc\": 5}, \"merges\": [\"b c\", [\"a\", \"b\"], \"a bc\"]}}");
    assert_tokens(tok, "abc", 0, "abc|");
    assert_tokens(tok, "ab", 0, "ab|");
    assert_tokens(tok, "aabcab", 0, "a|abc|ab|");
    tokenizer_free(tok);
    tok = make_json("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, "
                    "\"bc\": 3, \"ab\": 4}, \"merges\": [\"b c\", \"a b\"]}}");
    assert_tokens(tok, "abc", 0, "a|bc|");
    tokenizer_free(tok);
}

static void equal_pairs_are_joined_from_the_left(void **state)
{
    (void)state;
    struct tokenizer *tok =
        make_json("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"aa\": 1, \"aaaa\": 2}, "
                  "\"merges\": [\"a a\", \"aa aa\"]}}");
    assert_tokens(tok, "aaaaaaa", 0, "aaaa|aa|a|");
    tokenizer_free(tok);
}

static void a_merge_may_go_through_texts_that_are_no_tokens(void **state)
{
    (void)state;
    static const struct entry tokens[] = {{"a", 0, 1}, {"b", 0, 1}, {"abab", 0, 1}};
    static const char *const merges[] = {"a b", "ab ab"};
    struct tokenizer *tok =
        make_vocabulary(&(struct vocabulary){"gpt2", "gpt-2", TOKENS(tokens), MERGES(merges)});
    assert_tokens(tok, "abab", 0, "abab|");
    /* "ab" is none, so its bytes stand for it. */
    assert_tokens(tok, "ab", 0, "a|b|");
    tokenizer_free(tok);
}

static void ignoring_merges_takes_a_piece_that_is_a_token(void **state)
{
    (void)state;
    struct tokenizer *tok = make_json(
        "{\"model\": {\"type\": \"BPE\", \"ignore_merges\": true, \"vocab\": {\"a\": 0, \"b\": 1, "
        "\"ab\": 2}, \"merges\": []}}");
    assert_tokens(tok, "ab", 0, "ab|");
    assert_tokens(tok, "aba", 0, "a|b|a|");
    tokenizer_free(tok);
}

static void an_unknown_character_becomes_bytes_or_unk(void **state)
{
    (void)state;
    struct tokenizer *tok = make_json(
        "{\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"fuse_unk\": true, "
        "\"byte_fallback\": true, \"vocab\": {\"?\": 0, \"a\": 1, \"<0xC3>\": 2, \"<0xA9>\": 3}, "
        "\"merges\": []}}");
    assert_tokens(tok, "a\xC3\xA9zza", 0, "a|<0xC3>|<0xA9>|?|a|");
    tokenizer_free(tok);
    tok = make_json("{\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, "
                    "\"a\": 1}, \"merges\": []}}");
    assert_tokens(tok, "azza", 0, "a|?|?|a|");
    tokenizer_free(tok);
    tok = make_json("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 1}, \"merges\": []}}");
    assert_tokens(tok, "azza", 0, "a|a|");
    tokenizer_free(tok);
}

static void a_word_suffix_and_an_inner_prefix_are_part_of_the_spelling(void **state)
{
    (void)state;
    struct tokenizer *tok = make_json(
        "{\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"decoder\": {\"type\": "
        "\"BPEDecoder\"}, \"model\": {\"type\": \"BPE\", \"end_of_word_suffix\": \"</w>\", "
        "\"vocab\": {\"h\": 0, \"i\": 1, \"i</w>\": 2, \"hi</w>\": 3}, \"merges\": [\"h "
        "i</w>\"]}}");
    assert_tokens(tok, "hi hih", 0, "hi</w>|h|i|");
    struct slice piece = text_piece(tok, 3, false);
    assert_true(slice_equal_text(piece, "hi "));
    tokenizer_free(tok);
    tok = make_json("{\"model\": {\"type\": \"BPE\", \"continuing_subword_prefix\": \"##\", "
                    "\"vocab\": {\"h\": 0, \"##u\": 1, \"##g\": 2, \"hug\": 3, \"##ug\": 4}, "
                    "\"merges\": [\"##u ##g\", \"h ##ug\"]}}");
    assert_tokens(tok, "hug", 0, "hug|");
    assert_tokens(tok, "hugug", 0, "hug|##ug|");
    tokenizer_free(tok);
}

/* Merging by a heap gives what merging by looking for the best pair, again and
 * again, gives. */
static void merging_agrees_with_the_obvious_way(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 60; round++) {
        struct str json = {0}, vocab = {0}, merges = {0};
        const char *texts[24];
        char store[24][40];
        size_t n = 3, n_merges = 0;
        struct {
            const char *left, *right;
        } pairs[24];
        for (size_t i = 0; i < 3; i++) {
            snprintf(store[i], sizeof store[i], "%c", (char)('a' + i));
            texts[i] = store[i];
        }
        while (n < 24) {
            const char *left = texts[(size_t)rand() % n], *right = texts[(size_t)rand() % n];
            if (strlen(left) + strlen(right) > 8)
                break;
            snprintf(store[n], sizeof store[n], "%.16s%.16s", left, right);
            bool known = false;
            for (size_t i = 0; i < n; i++)
                known |= strcmp(texts[i], store[n]) == 0;
            pairs[n_merges].left = left;
            pairs[n_merges].right = right;
            str_append_format(&merges, "%s\"%s %s\"", n_merges ? "," : "", left, right);
            n_merges++;
            if (known)
                continue;
            texts[n] = store[n];
            n++;
            if (n_merges == 24)
                break;
        }
        for (size_t i = 0; i < n; i++)
            str_append_format(&vocab, "%s\"%s\": %zu", i ? "," : "", texts[i], i);
        str_append_format(&json,
                          "{\"model\": {\"type\": \"BPE\", \"vocab\": {%s}, \"merges\": [%s]}}",
                          str_text(&vocab), str_text(&merges));
        struct tokenizer *tok = make_json(str_text(&json));
        for (int k = 0; k < 20; k++) {
            char text[64], parts[64][48], joined[96];
            size_t len = 1 + (size_t)rand() % 40, n_parts = len;
            for (size_t i = 0; i < len; i++) {
                text[i] = (char)('a' + rand() % 3);
                snprintf(parts[i], sizeof parts[i], "%c", text[i]);
            }
            text[len] = '\0';
            for (size_t m = 0; m < n_merges;) {
                size_t at = 0;
                while (at + 1 < n_parts && (strcmp(parts[at], pairs[m].left) != 0 ||
                                            strcmp(parts[at + 1], pairs[m].right) != 0))
                    at++;
                if (at + 1 >= n_parts) {
                    m++;
                    continue;
                }
                snprintf(joined, sizeof joined, "%s%s", parts[at], parts[at + 1]);
                memcpy(parts[at], joined, sizeof parts[at]);
                memmove(parts[at + 1], parts[at + 2], (n_parts - at - 2) * sizeof *parts);
                n_parts--;
                m = 0;
            }
            struct str wanted = {0};
            for (size_t i = 0; i < n_parts; i++)
                str_append_format(&wanted, "%s|", parts[i]);
            assert_tokens(tok, text, 0, str_text(&wanted));
            str_free(&wanted);
        }
        tokenizer_free(tok);
        str_free(&json);
        str_free(&vocab);
        str_free(&merges);
    }
}

/* ---- SentencePiece ---- */

static const struct entry spm_tokens[] = {
    {"<unk>", 0, 2},      {"<s>", 0, 3},    {"</s>", 0, 3},     {"<0x0A>", 0, 6},
    {"<0xC3>", 0, 6},     {"<0xA9>", 0, 6}, {SPACE, -9, 1},     {"h", -8, 1},
    {"i", -7, 1},         {"hi", -2, 1},    {SPACE "h", -1, 1}, {SPACE "hi", -3, 1},
    {"<|im_end|>", 0, 3}, {"<tool>", 0, 4},
};

static struct tokenizer *spm(void)
{
    return make_vocabulary(&(struct vocabulary){"llama", TOKENS(spm_tokens)});
}

static void the_best_score_is_joined_first(void **state)
{
    (void)state;
    struct tokenizer *tok = spm();
    assert_tokens(tok, "hi", 0, SPACE "hi|");
    assert_tokens(tok, "hih", 0, SPACE "hi|h|");
    assert_tokens(tok, "\xC3\xA9\n", 0, SPACE "|<0xC3>|<0xA9>|<0x0A>|");
    assert_tokens(tok, "z", 0, SPACE "|<unk>|");
    tokenizer_free(tok);
}

static void a_space_goes_in_front_of_text_after_special_tokens(void **state)
{
    (void)state;
    struct tokenizer *tok = spm();
    assert_tokens(tok, "", TEXT_ADD_SPECIAL, "<s>|");
    assert_tokens(tok, "hi<|im_end|>hi", TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL,
                  "<s>|" SPACE "hi|<|im_end|>|" SPACE "hi|");
    assert_int_equal(tokenizer_special(tok)->bos, 1);
    assert_int_equal(tokenizer_special(tok)->nl, 3);
    assert_int_equal(tokenizer_vocab_type(tok), VOCAB_SENTENCEPIECE);
    tokenizer_free(tok);
    tok = make_vocabulary(
        &(struct vocabulary){"llama", TOKENS(spm_tokens),
                             .flags = {{"add_space_prefix", false}, {"add_bos_token", false}}});
    assert_tokens(tok, "hi", TEXT_ADD_SPECIAL, "hi|");
    tokenizer_free(tok);
}

/* ---- WordPiece ---- */

static void wordpiece_takes_the_longest_token_again_and_again(void **state)
{
    (void)state;
    static const struct entry tokens[] = {
        {"[UNK]", 0, 2},    {"[CLS]", 0, 3},   {"[SEP]", 0, 3},
        {SPACE "un", 0, 1}, {"aff", 0, 1},     {"able", 0, 1},
        {SPACE "e", 0, 1},  {SPACE "!", 0, 1}, {SPACE "\xE6\x97\xA5", 0, 1},
    };
    struct tokenizer *tok = make_vocabulary(&(struct vocabulary){
        "bert", TOKENS(tokens),
        .ids = {{"bos_token_id", 1}, {"seperator_token_id", 2}, {"unknown_token_id", 0}}});
    assert_tokens(tok, "UNaffable!", TEXT_ADD_SPECIAL,
                  "[CLS]|" SPACE "un|aff|able|" SPACE "!|[SEP]|");
    assert_tokens(tok, "\xC3\x89 unz un", 0, SPACE "e|[UNK]|" SPACE "un|");
    assert_tokens(tok, "un\xE6\x97\xA5un", 0, SPACE "un|" SPACE "\xE6\x97\xA5|" SPACE "un|");
    tokenizer_free(tok);
    tok = make_json("{\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"normalizer\": "
                    "{\"type\": \"BertNormalizer\"}, \"decoder\": {\"type\": \"WordPiece\", "
                    "\"prefix\": \"##\", \"cleanup\": true}, \"model\": {\"type\": \"WordPiece\", "
                    "\"unk_token\": \"[UNK]\", \"max_input_chars_per_word\": 9, \"vocab\": "
                    "{\"[UNK]\": 0, \"un\": 1, \"##aff\": 2, \"##able\": 3, \"!\": 4}}}");
    assert_tokens(tok,
                  "Un\xC3\xA1"
                  "ffable!",
                  0, "un|##aff|##able|!|");
    assert_tokens(tok, "unaffableable", 0, "[UNK]|");
    static const int32_t ids[] = {1, 2, 3, 4, 1};
    struct str text = {0};
    assert_true(text_decode(tok, ids, 5, 0, &text, NULL));
    assert_string_equal(str_text(&text), "unaffable! un");
    str_free(&text);
    tokenizer_free(tok);
}

/* ---- Unigram ---- */

static void unigram_takes_the_greatest_sum_of_scores(void **state)
{
    (void)state;
    static const struct entry tokens[] = {
        {"<pad>", 0, 3}, {"</s>", 0, 3},   {"<unk>", 0, 2},   {SPACE, -3, 1},     {"a", -2, 1},
        {"b", -2, 1},    {"ab", -3.5f, 1}, {"aba", -6.5f, 1}, {SPACE "a", -4, 1}, {"<x>", -50, 4},
    };
    struct tokenizer *tok = make_vocabulary(
        &(struct vocabulary){"t5", TOKENS(tokens), .flags = {{"add_space_prefix", true}}});
    assert_tokens(tok, "ab", TEXT_ADD_SPECIAL, SPACE "a|b|</s>|");
    assert_tokens(tok, "bab", 0, SPACE "|b|ab|");
    assert_tokens(tok, "baba", 0, SPACE "|b|ab|a|");
    /* Unknown neighbours are one; a user's token is always taken. */
    assert_tokens(tok,
                  "azz\xC3\xA9"
                  "b",
                  0, SPACE "a|<unk>|b|");
    assert_tokens(tok, "a<x>b", 0, SPACE "a|<x>|" SPACE "|b|");
    tokenizer_free(tok);
    tok = make_json("{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"" SPACE
                    "\", \"prepend_scheme\": \"always\"}, \"model\": {\"type\": \"Unigram\", "
                    "\"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"" SPACE
                    "a\", -1], [\"b\", -2], [\"" SPACE "\", -3]]}}");
    assert_tokens(tok, "ab  b", 0, SPACE "a|b|" SPACE "|" SPACE "|b|");
    assert_tokens(tok, "azz", 0, SPACE "a|<unk>|");
    tokenizer_free(tok);
}

/* ---- The others ---- */

static void rwkv_takes_the_longest_token_and_knows_escapes(void **state)
{
    (void)state;
    static const struct entry tokens[] = {
        {"<s>", 0, 1}, {"a", 0, 1},          {"ab", 0, 1},
        {"\\n", 0, 1}, {"\\xc3\\xa9", 0, 1}, {"\\\\", 0, 1},
    };
    struct tokenizer *tok = make_vocabulary(&(struct vocabulary){"rwkv", TOKENS(tokens)});
    static const int32_t ids[] = {2, 1, 3, 4, 5};
    assert_encodes(tok, SLICE("aba\n\xC3\xA9\\"), 0, ids, 5, "rwkv");
    assert_true(slice_equal_text(text_piece(tok, 4, false), "\xC3\xA9"));
    assert_int_equal(tokenizer_special(tok)->nl, 3);
    tokenizer_free(tok);
}

static void plamo2_pays_least_and_falls_back_to_bytes(void **state)
{
    (void)state;
    static struct entry tokens[256 + 6];
    static char bytes[256][8];
    static const struct entry others[] = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"a", -1, 1},
                                          {"b", -1, 1},    {"ab", -2, 1}, {"ba", -0.5f, 1}};
    memcpy(tokens, others, sizeof others);
    for (unsigned i = 0; i < 256; i++) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", i);
        tokens[6 + i] = (struct entry){bytes[i], 0, 6};
    }
    struct tokenizer *tok = make_vocabulary(&(struct vocabulary){"plamo2", TOKENS(tokens)});
    assert_tokens(tok, "ab", 0, "ab|");
    assert_tokens(tok, "aba", 0, "a|ba|");
    assert_tokens(tok, "a\xC3\xA9", 0, "a|<0xC3>|<0xA9>|");
    assert_true(slice_equal_text(text_piece(tok, 6 + 65, false), "A"));
    tokenizer_free(tok);
}

static void a_vocabulary_of_an_unknown_kind_is_refused_by_name(void **state)
{
    (void)state;
    struct error err = {0};
    static const struct entry tokens[] = {{"a", 0, 1}};
    static const char *const merges[] = {"a a"};
    assert_null(try_vocabulary(&(struct vocabulary){"klingon", TOKENS(tokens)}, &err));
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "unknown tokenizer: 'klingon'"));
    assert_null(try_vocabulary(
        &(struct vocabulary){"gpt2", "klingon-v2", TOKENS(tokens), MERGES(merges)}, &err));
    assert_non_null(strstr(err.message, "unknown pre-tokenizer type: 'klingon-v2'"));
    assert_null(try_vocabulary(&(struct vocabulary){"gpt2", "gpt-2", TOKENS(tokens)}, &err));
    assert_non_null(strstr(err.message, "merges"));
}

static void a_model_without_vocabulary_encodes_nothing_and_says_so(void **state)
{
    (void)state;
    static const struct entry tokens[] = {{"a", 0, 1}};
    struct tokenizer *tok = make_vocabulary(&(struct vocabulary){"none", TOKENS(tokens)});
    struct token_vec ids = {0};
    struct error err = {0};
    assert_int_equal(tokenizer_vocab_type(tok), VOCAB_NONE);
    assert_false(text_encode(tok, SLICE("a"), 0, &ids, &err));
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_int_equal(text_piece(tok, 0, true).len, 0);
    tokenizer_free(tok);
}

/* A megabyte costs well below a second; anything quadratic would take hours. */
static void a_megabyte_of_one_word_is_no_problem(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    static const char *const models[] = {
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"aa\": 1, \"aaaa\": 2}, "
        "\"merges\": "
        "[\"a a\", \"aa aa\"]}}",
        "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"u\", 0], [\"a\", -1], "
        "[\"aaaa\", -2]]}}",
        "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"u\", \"max_input_chars_per_word\": "
        "2000000, \"vocab\": {\"u\": 0, \"aaaa\": 1, \"##aaaa\": 2}}}",
        /* Every place begins a special token, every one but the first overlaps. */
        "{\"added_tokens\": [{\"id\": 1, \"content\": \"aaaa\", \"special\": true}], \"model\": "
        "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct tokenizer *tok = make_json(models[i]);
        struct token_vec ids = {0};
        assert_true(text_encode(tok, (struct slice){text, N}, TEXT_PARSE_SPECIAL, &ids, NULL));
        assert_int_equal(ids.n, N / 4);
        VEC_FREE(&ids);
        tokenizer_free(tok);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pair_of_the_lowest_rank_is_joined_first),
        cmocka_unit_test(equal_pairs_are_joined_from_the_left),
        cmocka_unit_test(a_merge_may_go_through_texts_that_are_no_tokens),
        cmocka_unit_test(ignoring_merges_takes_a_piece_that_is_a_token),
        cmocka_unit_test(an_unknown_character_becomes_bytes_or_unk),
        cmocka_unit_test(a_word_suffix_and_an_inner_prefix_are_part_of_the_spelling),
        cmocka_unit_test(merging_agrees_with_the_obvious_way),
        cmocka_unit_test(the_best_score_is_joined_first),
        cmocka_unit_test(a_space_goes_in_front_of_text_after_special_tokens),
        cmocka_unit_test(wordpiece_takes_the_longest_token_again_and_again),
        cmocka_unit_test(unigram_takes_the_greatest_sum_of_scores),
        cmocka_unit_test(rwkv_takes_the_longest_token_and_knows_escapes),
        cmocka_unit_test(plamo2_pays_least_and_falls_back_to_bytes),
        cmocka_unit_test(a_vocabulary_of_an_unknown_kind_is_refused_by_name),
        cmocka_unit_test(a_model_without_vocabulary_encodes_nothing_and_says_so),
        cmocka_unit_test(a_megabyte_of_one_word_is_no_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
