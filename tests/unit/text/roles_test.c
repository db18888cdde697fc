/* roles_test.c - tokens with a role, tokens to text, and tokenizer.model. */
#include "unit/text/helpers.h"

#include "base/utf8.h"
#include "text/tokenizer_json.h"

#define SPACE "\xE2\x96\x81"

static const char *const no_merges[] = {"q q"};

static struct tokenizer *bpe(const struct entry *tokens, size_t n)
{
    return make_vocabulary(
        &(struct vocabulary){"gpt2", "gpt-2", .tokens = tokens, .n_tokens = n, MERGES(no_merges)});
}

/* ---- Roles ---- */

static void a_role_is_found_by_its_spelling(void **state)
{
    (void)state;
    static const struct entry tokens[] = {
        {"a", 0, 1},
        {"<|im_end|>", 0, 1},
        {"<|fim_prefix|>", 0, 3},
        {"<fim_suffix>", 0, 3},
        {"<|fim_middle|>", 0, 3},
        {"<|file_sep|>", 0, 3},
        {"<unused7>", 0, 3},
        {"<|eom_id|>", 0, 3},
    };
    struct tokenizer *tok = bpe(tokens, 8);
    const struct special_tokens *s = tokenizer_special(tok);
    assert_int_equal(s->eot, 1);
    assert_int_equal(s->fim_pre, 2);
    assert_int_equal(s->fim_suf, 3);
    assert_int_equal(s->fim_mid, 4);
    assert_int_equal(s->fim_sep, 5);
    assert_int_equal(s->eom, 7);
    assert_int_equal(s->fim_pad, -1);
    /* The kind's default bos lies outside this vocabulary. */
    assert_int_equal(s->bos, -1);
    /* A token that ends a turn is a control token, whatever the file says. */
    assert_true(tokenizer_is_control(tok, 1));
    assert_true(tokenizer_is_eog(tok, 1));
    assert_true(tokenizer_is_eog(tok, 5));
    assert_true(tokenizer_is_eog(tok, 7));
    assert_false(tokenizer_is_eog(tok, 0));
    assert_false(tokenizer_is_eog(tok, -1));
    assert_false(tokenizer_is_eog(tok, 8));
    assert_true(tokenizer_attr(tok, 6) & TOKEN_UNUSED);
    tokenizer_free(tok);
}

static void harmony_marks_are_shown_and_end_is_no_end(void **state)
{
    (void)state;
    static const struct entry tokens[] = {
        {"<|return|>", 0, 3}, {"<|call|>", 0, 3}, {"<|end|>", 0, 3}, {"<|channel|>", 0, 3}};
    struct tokenizer *tok = bpe(tokens, 4);
    assert_true(tokenizer_is_eog(tok, 0));
    assert_true(tokenizer_is_eog(tok, 1));
    assert_false(tokenizer_is_eog(tok, 2));
    assert_int_equal(tokenizer_attr(tok, 2), TOKEN_USER_DEFINED);
    assert_true(slice_equal_text(text_piece(tok, 3, false), "<|channel|>"));
    assert_int_equal(text_piece(tok, 0, false).len, 0);
    tokenizer_free(tok);
}

static void gemma4_does_not_end_at_an_old_token(void **state)
{
    (void)state;
    static const struct entry tokens[] = {{"</s>", 0, 3}, {"<|tool_response>", 0, 3}};
    struct tokenizer *tok = bpe(tokens, 2);
    assert_false(tokenizer_is_eog(tok, 0));
    assert_true(tokenizer_is_eog(tok, 1));
    tokenizer_free(tok);
}

static void the_files_beside_a_tokenizer_json_give_roles(void **state)
{
    (void)state;
    struct error err = {0};
    json_t *root = json_parse(
        SLICE("{\"added_tokens\": [{\"id\": 1, \"content\": \"<b>\", \"special\": true}, "
              "{\"id\": 2, \"content\": \"<e>\", \"special\": true}, {\"id\": 3, \"content\": "
              "\"<|x|>\", \"special\": false}, {\"id\": 5, \"content\": \"<think>\"}],"
              "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}"),
        &err);
    json_t *config = json_parse(SLICE("{\"bos_token\": {\"content\": \"<b>\"}, \"eos_token\": "
                                      "\"<e>\", \"add_bos_token\": true}"),
                                &err);
    json_t *generation = json_parse(SLICE("{\"eos_token_id\": [2, 3, 99]}"), &err);
    json_t *model = json_parse(SLICE("{\"vocab_size\": 8}"), &err);
    struct tokenizer_files files = {config, NULL, model, generation};
    struct tokenizer *tok = tokenizer_new();
    assert_true(tokenizer_from_json(root, &files, tok, &err));
    assert_int_equal(tokenizer_special(tok)->bos, 1);
    assert_int_equal(tokenizer_special(tok)->eos, 2);
    assert_true(tokenizer_special(tok)->add_bos);
    assert_true(tokenizer_is_eog(tok, 2));
    assert_true(tokenizer_is_eog(tok, 3));
    assert_tokens(tok, "a", TEXT_ADD_SPECIAL, "<b>|a|");
    /* Rows without a text still have a token. */
    assert_int_equal(tokenizer_n_vocab(tok), 8);
    assert_true(slice_equal_text(tokenizer_text(tok, 4), "[PAD4]"));
    /* What looks like a control token is one; what does not is shown. */
    assert_true(tokenizer_is_control(tok, 3));
    assert_true(slice_equal_text(text_piece(tok, 5, false), "<think>"));
    tokenizer_free(tok);
    json_decref(root);
    json_decref(config);
    json_decref(generation);
    json_decref(model);
}

static void a_template_says_what_stands_around_a_text(void **state)
{
    (void)state;
    struct tokenizer *tok = make_json(
        "{\"added_tokens\": [{\"id\": 1, \"content\": \"<b>\", \"special\": true}, {\"id\": 2, "
        "\"content\": \"<e>\", \"special\": true}], \"post_processor\": {\"type\": \"Sequence\", "
        "\"processors\": [{\"type\": \"ByteLevel\"}, {\"type\": \"TemplateProcessing\", "
        "\"single\": [{\"SpecialToken\": {\"id\": \"B\"}}, {\"Sequence\": {\"id\": \"A\"}}, "
        "{\"SpecialToken\": {\"id\": \"E\"}}], \"special_tokens\": {\"B\": {\"ids\": [1, 1]}, "
        "\"E\": {\"ids\": [2]}}}]}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, "
        "\"merges\": []}}");
    assert_tokens(tok, "a", TEXT_ADD_SPECIAL, "<b>|<b>|a|<e>|");
    assert_tokens(tok, "a", 0, "a|");
    tokenizer_free(tok);
}

/* ---- Decoding ---- */

static const struct entry spm_tokens[] = {
    {"<unk>", 0, 2},  {"<s>", 0, 3},          {"</s>", 0, 3},   {"<0xF0>", 0, 6},
    {"<0x9F>", 0, 6}, {"<0x99>", 0, 6},       {"<0x82>", 0, 6}, {SPACE "hi", -1, 1},
    {"!", -1, 1},     {SPACE "there", -1, 1},
};

static void decoding_drops_the_space_that_encoding_put_in_front(void **state)
{
    (void)state;
    struct tokenizer *tok = make_vocabulary(&(struct vocabulary){"llama", TOKENS(spm_tokens)});
    static const int32_t ids[] = {1, 7, 9, 8, 2};
    struct str text = {0};
    assert_true(text_decode(tok, ids + 1, 3, 0, &text, NULL));
    assert_string_equal(str_text(&text), "hi there!");
    str_clear(&text);
    assert_true(text_decode(tok, ids, 5, TEXT_SHOW_SPECIAL, &text, NULL));
    assert_string_equal(str_text(&text), "<s> hi there!</s>");
    str_clear(&text);
    assert_true(text_decode(tok, ids, 5, TEXT_REMOVE_SPECIAL, &text, NULL));
    assert_string_equal(str_text(&text), " hi there!");
    str_free(&text);
    tokenizer_free(tok);
}

static void spaces_before_punctuation_are_cleaned_up(void **state)
{
    (void)state;
    static const struct entry tokens[] = {{"\xC4\xA0", 0, 1}, {"a", 0, 1},  {".", 0, 1},
                                          {"?", 0, 1},        {"'", 0, 1},  {"s", 0, 1},
                                          {"t", 0, 1},        {"re", 0, 1}, {"x", 0, 1}};
    static const struct {
        int32_t ids[6];
        const char *text;
    } cases[] = {
        {{1, 0, 2, -1}, "a."},     {{1, 0, 0, 3, -1}, "a ?"},  {{1, 0, 4, 0, 1, -1}, "a'a"},
        {{1, 0, 4, 5, -1}, "a's"}, {{1, 0, 4, 6, -1}, "a 't"}, {{1, 0, 4, 7, -1}, "a're"},
        {{1, 0, 8, -1}, "a x"},    {{0, 2, -1}, "."},
    };
    struct tokenizer *tok = bpe(tokens, 9);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str text = {0};
        size_t n = 0;
        while (cases[i].ids[n] >= 0)
            n++;
        assert_true(text_decode(tok, cases[i].ids, n, 0, &text, NULL));
        assert_string_equal(str_text(&text), cases[i].text);
        str_free(&text);
    }
    tokenizer_free(tok);
}

static void a_stream_holds_back_half_a_character(void **state)
{
    (void)state;
    struct tokenizer *tok = make_vocabulary(&(struct vocabulary){"llama", TOKENS(spm_tokens)});
    struct detokenizer d;
    struct str out = {0};
    detokenizer_init(&d, tok, false);
    for (int32_t id = 3; id <= 5; id++)
        assert_true(detokenizer_add(&d, id, &out));
    assert_int_equal(out.len, 0);
    assert_true(detokenizer_add(&d, 6, &out));
    assert_string_equal(str_text(&out), "\xF0\x9F\x99\x82");
    /* What can no longer become a character is replaced, at once or at the end. */
    str_clear(&out);
    assert_true(detokenizer_add(&d, 3, &out) && detokenizer_add(&d, 8, &out));
    assert_string_equal(str_text(&out), "\xEF\xBF\xBD!");
    assert_true(detokenizer_add(&d, 3, &out) && detokenizer_finish(&d, &out));
    assert_string_equal(str_text(&out), "\xEF\xBF\xBD!\xEF\xBF\xBD");
    detokenizer_free(&d);
    str_free(&out);
    tokenizer_free(tok);
}

static void bytes_that_are_no_utf8_are_read_as_replacements(void **state)
{
    (void)state;
    static const struct entry tokens[] = {
        {"\xC3\xAF", 0, 1}, {"\xC2\xBF", 0, 1}, {"\xC2\xBD", 0, 1}, {"a", 0, 1}};
    struct tokenizer *tok = bpe(tokens, 4);
    static const int32_t ids[] = {3, 0, 1, 2, 3};
    assert_encodes(tok,
                   SLICE("a\xFF"
                         "a"),
                   0, ids, 5, "gpt2");
    tokenizer_free(tok);
}

/* The order in which a trie over the vocabulary is built. */
static void the_vocabulary_can_be_read_in_order_and_by_spelling(void **state)
{
    (void)state;
    static const struct entry tokens[] = {
        {"b", 0, 1}, {"ab", 0, 1}, {"a", 0, 1}, {"<x>", 0, 3}, {"\xC3\xA9", 0, 1}};
    struct tokenizer *tok = bpe(tokens, 5);
    static const int32_t order[] = {3, 2, 1, 0, 4};
    assert_memory_equal(tokenizer_sorted(tok), order, sizeof order);
    assert_int_equal(text_find(tok, SLICE("ab")), 1);
    assert_int_equal(text_find(tok, SLICE("abc")), -1);
    assert_int_equal(text_find(tok, SLICE("")), -1);
    tokenizer_free(tok);
}

/* ---- tokenizer.model ---- */

static void put_field(struct str *out, unsigned number, struct slice bytes)
{
    str_append_char(out, (char)(number << 3 | 2));
    str_append_char(out, (char)bytes.len);
    str_append_slice(out, bytes);
}

static void put_piece(struct str *out, const char *text, float score, char type)
{
    struct str piece = {0};
    put_field(&piece, 1, slice_of(text));
    str_append_char(&piece, 2 << 3 | 5);
    str_append(&piece, &score, 4);
    str_append_char(&piece, 3 << 3 | 0);
    str_append_char(&piece, type);
    put_field(out, 1, str_slice(&piece));
    str_free(&piece);
}

static struct str sentencepiece_model(char model_type)
{
    struct str model = {0};
    put_piece(&model, "<unk>", 0, 2);
    put_piece(&model, "<s>", 0, 3);
    put_piece(&model, "</s>", 0, 3);
    put_piece(&model, SPACE "h", -1, 1);
    put_piece(&model, "h", -3, 1);
    put_piece(&model, "i", -2, 1);
    put_piece(&model, "hi", -1.5f, 1);
    put_piece(&model, SPACE, -4, 1);
    char trainer[] = {3 << 3, model_type};
    put_field(&model, 2, (struct slice){trainer, 2});
    return model;
}

static void a_sentencepiece_model_is_read(void **state)
{
    (void)state;
    struct error err = {0};
    json_t *config = json_parse(SLICE("{\"added_tokens_decoder\": {\"9\": {\"content\": \"<|9|>\", "
                                      "\"special\": true}, \"2\": {\"content\": \"</s>\", "
                                      "\"special\": true}}}"),
                                &err);
    struct tokenizer_files files = {.tokenizer_config = config};
    struct str model = sentencepiece_model(2);
    struct tokenizer *tok = tokenizer_new();
    assert_true(tokenizer_from_sentencepiece(str_slice(&model), &files, tok, &err));
    assert_int_equal(tokenizer_vocab_type(tok), VOCAB_SENTENCEPIECE);
    assert_int_equal(tokenizer_n_vocab(tok), 10);
    assert_tokens(tok, "hi<|9|>", TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL, "<s>|" SPACE "h|i|<|9|>|");
    assert_int_equal(tokenizer_special(tok)->eos, 2);
    tokenizer_free(tok);
    str_free(&model);
    json_decref(config);
    files.tokenizer_config = NULL;
    model = sentencepiece_model(1);
    tok = tokenizer_new();
    assert_true(tokenizer_from_sentencepiece(str_slice(&model), &files, tok, &err));
    assert_int_equal(tokenizer_vocab_type(tok), VOCAB_UNIGRAM);
    assert_tokens(tok, " hi  hi ", TEXT_ADD_SPECIAL, SPACE "h|i|" SPACE "h|i|</s>|");
    tokenizer_free(tok);
    str_free(&model);
}

/* Cut off anywhere, or of another kind: refused, or a shorter vocabulary. */
static void a_damaged_sentencepiece_model_is_refused_or_shorter(void **state)
{
    (void)state;
    struct str model = sentencepiece_model(2);
    struct tokenizer_files files = {0};
    size_t n_refused = 0;
    for (size_t n = 0; n < model.len; n++) {
        struct error err = {0};
        struct tokenizer *tok = tokenizer_new();
        if (!tokenizer_from_sentencepiece((struct slice){model.data, n}, &files, tok, &err)) {
            assert_int_equal(err.code, ERR_FORMAT);
            n_refused++;
        }
        tokenizer_free(tok);
    }
    assert_true(n_refused > model.len / 2);
    str_free(&model);
    struct error err = {0};
    struct tokenizer *tok = tokenizer_new();
    model = sentencepiece_model(3);
    assert_false(tokenizer_from_sentencepiece(str_slice(&model), &files, tok, &err));
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    tokenizer_free(tok);
    str_free(&model);
}

/* The same model as GGUF, tokenizer.json and tokenizer.model. */
static void three_forms_of_one_tokenizer_agree(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared)
    static const char *const files[] = {"models/stories260k/stories260K.gguf",
                                        "models/stories260k/hf/tokenizer.json",
                                        "models/stories260k/hf/tokenizer.model"};
    static const char *const texts[] = {"Once upon a time, there was a \xC3\xA9t\xC3\xA9.", "",
                                        "  two  spaces\n\n\t", "<s>x</s>", "\xF0\x9F\x99\x82"};
    struct token_vec first = {0}, other = {0};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t i = 0; i < 3; i++) {
            char path[1024];
            struct tokenizer *tok;
            struct error err = {0};
            struct token_vec *ids = i ? &other : &first;
            snprintf(path, sizeof path, "%s/%s", shared, files[i]);
            if (!tokenizer_open(path, &tok, &err))
                fail_msg("%s", err.message);
            ids->n = 0;
            assert_true(text_encode(tok, slice_of(texts[t]), TEXT_ADD_SPECIAL, ids, &err));
            if (i)
                assert_encodes(tok, slice_of(texts[t]), TEXT_ADD_SPECIAL, first.data, first.n,
                               files[i]);
            tokenizer_free(tok);
        }
    VEC_FREE(&first);
    VEC_FREE(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_role_is_found_by_its_spelling),
        cmocka_unit_test(harmony_marks_are_shown_and_end_is_no_end),
        cmocka_unit_test(gemma4_does_not_end_at_an_old_token),
        cmocka_unit_test(the_files_beside_a_tokenizer_json_give_roles),
        cmocka_unit_test(a_template_says_what_stands_around_a_text),
        cmocka_unit_test(decoding_drops_the_space_that_encoding_put_in_front),
        cmocka_unit_test(spaces_before_punctuation_are_cleaned_up),
        cmocka_unit_test(a_stream_holds_back_half_a_character),
        cmocka_unit_test(bytes_that_are_no_utf8_are_read_as_replacements),
        cmocka_unit_test(the_vocabulary_can_be_read_in_order_and_by_spelling),
        cmocka_unit_test(a_sentencepiece_model_is_read),
        cmocka_unit_test(a_damaged_sentencepiece_model_is_refused_or_shorter),
        cmocka_unit_test(three_forms_of_one_tokenizer_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
