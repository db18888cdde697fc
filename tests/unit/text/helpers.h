/* helpers.h - what the tokenizer tests share. */
#ifndef MLXCEL_TESTS_UNIT_TEXT_HELPERS_H
#define MLXCEL_TESTS_UNIT_TEXT_HELPERS_H

#include "unit/unit.h"

#include "text/text.h"

/* The tokenizer of a file of the reference data. Fails the test when it cannot
 * be loaded. */
struct tokenizer *load_tokenizer(const char *folder, const char *name);

/* A vocabulary made by hand, as a GGUF file has it. */
struct vocabulary {
    const char *model, *pre; /* tokenizer.ggml.model and .pre; NULL: not there */
    const char *name;        /* general.name; NULL: not there */
    const struct entry {
        const char *text;
        float score;
        int32_t type; /* 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte */
    } * tokens;
    size_t n_tokens;
    const char *const *merges;
    size_t n_merges;
    const struct {
        const char *key; /* below "tokenizer.ggml." */
        uint32_t value;
    } ids[8];
    const struct {
        const char *key;
        bool value;
    } flags[8];
};

#define TOKENS(array) .tokens = (array), .n_tokens = sizeof(array) / sizeof *(array)
#define MERGES(array) .merges = (array), .n_merges = sizeof(array) / sizeof *(array)

/* Write it to a file and load it; NULL with *err when it is refused. */
struct tokenizer *try_vocabulary(const struct vocabulary *v, struct error *err);
/* The same, failing the test. */
struct tokenizer *make_vocabulary(const struct vocabulary *v);

/* The tokenizer of a tokenizer.json's text; NULL with *err when refused. */
struct tokenizer *try_json(const char *text, struct error *err);
struct tokenizer *make_json(const char *text);

/* Fails the test, showing both, unless the text encodes to exactly these ids. */
void assert_encodes(const struct tokenizer *tok, struct slice text, unsigned flags,
                    const int32_t *ids, size_t n, const char *what);

/* The same with the tokens' spellings, each followed by a '|': "he|llo|". */
void assert_tokens(const struct tokenizer *tok, const char *text, unsigned flags,
                   const char *tokens);

/* The same where the brackets "[[" and "]]" in the text, which are taken out,
 * enclose what no control token may touch; control tokens are sought. */
void assert_marked_tokens(const struct tokenizer *tok, const char *text, const char *tokens);

#endif
