/* fuzz_encode.c - any bytes as a text, to every kind of small vocabulary with
 * every pre-tokenizer: ids are in range, and whole characters come back. The
 * first byte picks the tokenizer, the second the flags. */
#include "base/utf8.h"
#include "text/tokenizer_json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One of each expression; tests/unit/text has all names. */
static const char *const pre_names[] = {
    "default",
    "llama3",
    "jais-2",
    "deepseek-llm",
    "deepseek-v3",
    "youtu",
    "falcon",
    "starcoder",
    "gpt-2",
    "qwen2",
    "qwen35",
    "bloom",
    "viking",
    "tekken",
    "chameleon",
    "gpt-4o",
    "tiny_aya",
    "kimi-k2",
    "superbpe",
    "bailingmoe",
    "seed-coder",
    "afmoe",
    "laguna",
    "exaone-moe",
    "gemma4",
    "minicpm5",
    "whitespace",
    "deepseek-coder",
    "granite-embed-multi-97m",
};
static const char *const documents[] = {
    "{\"normalizer\": {\"type\": \"BertNormalizer\"}, \"pre_tokenizer\": {\"type\": "
    "\"BertPreTokenizer\"}, \"decoder\": {\"type\": \"WordPiece\"}, \"model\": {\"type\": "
    "\"WordPiece\", \"unk_token\": \"u\", \"vocab\": {\"u\": 0, \"a\": 1, \"##a\": 2, \"ab\": 3}}}",
    "{\"pre_tokenizer\": {\"type\": \"Metaspace\"}, \"model\": {\"type\": \"Unigram\", \"unk_id\": "
    "0, \"vocab\": [[\"u\", 0], [\"a\", -1], [\"ab\", -1.5], [\"\\u2581\", -2]]}}",
    "{\"normalizer\": {\"type\": \"NFKC\"}, \"added_tokens\": [{\"id\": 5, \"content\": \"<s>\", "
    "\"lstrip\": true, \"rstrip\": true}, {\"id\": 6, \"content\": \"ab\", \"single_word\": "
    "true}], "
    "\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"unk_token\": \"u\", \"fuse_unk\": "
    "true, \"vocab\": {\"u\": 0, \"a\": 1, \"b\": 2, \"aa\": 3, \"<0xC3>\": 4}, \"merges\": [\"a "
    "a\"]}}",
};
enum {
    N_PRE = sizeof pre_names / sizeof *pre_names,
    N_DOCUMENTS = sizeof documents / sizeof *documents,
    N_TOKENIZERS = N_PRE + N_DOCUMENTS
};

static struct tokenizer *make_bpe(const char *name)
{
    struct tokenizer *tok = tokenizer_new();
    struct error err;
    if (!tok || !pre_tokenizer_set(tok, slice_of(name), &err))
        abort();
    tok->type = VOCAB_BPE;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8], one = (char)byte;
        struct str mapped = {0};
        snprintf(text, sizeof text, "<0x%02X>", byte);
        byte_level_append(&mapped, (struct slice){&one, 1});
        if (tok->bpe.byte_tokens ? !vocab_add(tok, slice_of(text), 0, TOKEN_BYTE, &err)
                                 : !vocab_add(tok, str_slice(&mapped), 0, TOKEN_NORMAL, &err))
            abort();
        str_free(&mapped);
    }
    static const char *const pairs[][2] = {{"a", "a"}, {"aa", "a"}, {"b", "c"}, {"aa", "bc"}};
    vocab_add(tok, SLICE("aa"), 0, TOKEN_NORMAL, &err);
    vocab_add(tok, SLICE("bc"), 0, TOKEN_NORMAL, &err);
    vocab_add(tok, SLICE("<s>"), 0, TOKEN_CONTROL, &err);
    vocab_add(tok, SLICE("  "), 0, TOKEN_USER_DEFINED, &err);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        bpe_add_merge(tok, slice_of(pairs[i][0]), slice_of(pairs[i][1]), &err);
    if (!tokenizer_finish(tok, &err))
        abort();
    return tok;
}

static struct tokenizer *make_document(const char *text)
{
    struct error err;
    struct tokenizer_files files = {0};
    json_t *root = json_parse(slice_of(text), &err);
    struct tokenizer *tok = tokenizer_new();
    if (!root || !tok || !tokenizer_from_json(root, &files, tok, &err))
        abort();
    json_decref(root);
    return tok;
}

static const struct tokenizer *tokenizer_at(size_t i)
{
    static struct tokenizer *made[N_TOKENIZERS];
    if (!made[i])
        made[i] = i < N_PRE ? make_bpe(pre_names[i]) : make_document(documents[i - N_PRE]);
    return made[i];
}

/* Piece by piece no sequence is ever broken. */
static void stream(const struct tokenizer *tok, const struct token_vec *ids)
{
    struct detokenizer d;
    struct str out = {0};
    detokenizer_init(&d, tok, true);
    for (size_t i = 0; i < ids->n; i++) {
        detokenizer_add(&d, ids->data[i], &out);
        if (!utf8_is_valid(str_slice(&out)))
            abort();
        str_clear(&out);
    }
    detokenizer_finish(&d, &out);
    if (!utf8_is_valid(str_slice(&out)))
        abort();
    detokenizer_free(&d);
    str_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct tokenizer *tok = tokenizer_at(data[0] % N_TOKENIZERS);
    struct slice text = {(const char *)data + 2, size - 2};
    struct token_vec ids = {0};
    struct error err = {0};
    if (!text_encode(tok, text, data[1] & 3u, &ids, &err))
        abort();
    for (size_t i = 0; i < ids.n; i++)
        if (ids.data[i] < 0 || ids.data[i] >= tokenizer_n_vocab(tok))
            abort();
    stream(tok, &ids);
    /* A vocabulary of all bytes loses nothing. */
    bool lossless =
        data[0] % N_TOKENIZERS < N_PRE && utf8_is_valid(text) && tok->bpe.byte_tokens == false;
    if (lossless) {
        struct str back = {0};
        for (size_t i = 0; i < ids.n; i++)
            str_append_slice(&back, text_piece(tok, ids.data[i], true));
        if (!slice_equal(str_slice(&back), text))
            abort();
        str_free(&back);
    }
    VEC_FREE(&ids);
    return 0;
}
