/* text.h - text to tokens and back.
 *
 * A tokenizer is immutable once loaded and may be used from any thread at
 * once. It is built from a GGUF file's metadata, or from a Hugging Face
 * folder's tokenizer.json or tokenizer.model (SentencePiece).
 * Depends on: base, files, pcre2, utf8proc. */
#ifndef MLXCEL_TEXT_TEXT_H
#define MLXCEL_TEXT_TEXT_H

#include "base/budget.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"
#include "base/vec.h"
#include "files/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* The kinds of vocabulary; the numbers are what /v1/models reports as
 * meta.vocab_type. */
enum vocab_type {
    VOCAB_NONE = 0,          /* no vocabulary in the file */
    VOCAB_SENTENCEPIECE = 1, /* SentencePiece BPE, "llama" */
    VOCAB_BPE = 2,           /* byte-level BPE, "gpt2" */
    VOCAB_WORDPIECE = 3,     /* "bert" */
    VOCAB_UNIGRAM = 4,       /* "t5" */
    VOCAB_RWKV = 5,          /* greedy longest match, "rwkv" */
    VOCAB_PLAMO2 = 6         /* "plamo2" */
};

/* What a token is; a token may be several of these. */
enum token_attr {
    TOKEN_UNKNOWN = 1 << 0,
    TOKEN_UNUSED = 1 << 1,
    TOKEN_NORMAL = 1 << 2,
    TOKEN_CONTROL = 1 << 3,      /* found in text only with TEXT_PARSE_SPECIAL */
    TOKEN_USER_DEFINED = 1 << 4, /* always found in text, always printed */
    TOKEN_BYTE = 1 << 5,         /* "<0x0A>": one byte */
    TOKEN_NORMALIZED = 1 << 6,
    TOKEN_LSTRIP = 1 << 7, /* swallows the spaces before it */
    TOKEN_RSTRIP = 1 << 8, /* swallows the spaces after it */
    TOKEN_SINGLE_WORD = 1 << 9
};

/* Ids of the tokens with a role; -1 where the model has none. */
struct special_tokens {
    int32_t bos, eos, eot, eom, unk, sep, pad, mask, nl;
    int32_t fim_pre, fim_suf, fim_mid, fim_pad, fim_rep, fim_sep;
    bool add_bos, add_eos, add_sep; /* what TEXT_ADD_SPECIAL adds */
    bool add_space_prefix;          /* text gets a space put in front */
};

enum text_flags {
    TEXT_ADD_SPECIAL = 1 << 0,   /* encode: put bos/eos/sep as the model wants them */
    TEXT_PARSE_SPECIAL = 1 << 1, /* encode: read "<|im_end|>" and its kind as one token */
    TEXT_SHOW_SPECIAL = 1 << 2,  /* decode: print control tokens, not nothing */
    TEXT_REMOVE_SPECIAL = 1 << 3 /* decode: drop the bos/eos that encode adds */
};

/* Build the tokenizer of an opened model. A file without a vocabulary gives a
 * tokenizer of type VOCAB_NONE whose encode fails and says so. Fails
 * (ERR_UNSUPPORTED) naming a kind of vocabulary, pre-tokenizer, normalizer
 * etc. that is not known, or (ERR_FORMAT) what is wrong in the file. The
 * tokenizer keeps nothing of the file, which may be closed. */
bool tokenizer_load(const struct model_file *file, struct tokenizer **out, struct error *err);

/* The same from a path, weights or not: a GGUF file, a Hugging Face folder, or
 * a tokenizer.json or tokenizer.model (the files beside it count). */
bool tokenizer_open(const char *path, struct tokenizer **out, struct error *err);

void tokenizer_free(struct tokenizer *tok);

/* Encode text; bytes that are no UTF-8 are read as U+FFFD.
 *   flags  TEXT_ADD_SPECIAL, TEXT_PARSE_SPECIAL
 *   out    receives token ids at its end; grows, owned by the caller
 * Fails when out of memory or the tokenizer has no vocabulary, with ERR_LIMIT
 * when its normalizers make more than 64 bytes of each or its patterns need more
 * steps than they are given; *out then holds what it held.
 * Cost: O(n log n) in the text's length, whatever the text.
 * Source: Sennrich et al. 2016 (BPE); Kudo 2018 (unigram, SentencePiece). */
bool text_encode(const struct tokenizer *tok, struct slice text, unsigned flags,
                 struct token_vec *out, struct error *err);

/* A run of a text's bytes. */
struct text_range {
    size_t begin, end;
};

/* The same, for a text of which some runs came from users: no control token is
 * read where one of its bytes lies in a plain range, TEXT_PARSE_SPECIAL or
 * not. Nothing else depends on the ranges: user-defined tokens are found
 * there, and what merges across a border merges.
 *   plain  n_plain ranges, ascending, not overlapping; borders lie between
 *          characters; what is past the text's end counts for nothing */
bool text_encode_ranges(const struct tokenizer *tok, struct slice text, unsigned flags,
                        const struct text_range *plain, size_t n_plain, struct token_vec *out,
                        struct error *err);

/* The same within a budget (NULL: none), which says whether anybody still waits for
 * a text that is long: ERR_CANCELLED when nobody does. */
bool text_encode_within(const struct tokenizer *tok, struct slice text, unsigned flags,
                        const struct text_range *plain, size_t n_plain, struct budget *budget,
                        struct token_vec *out, struct error *err);

/* The bytes one token stands for, as they come in a stream: possibly not whole
 * characters. Control tokens give nothing unless special. Ids outside the
 * vocabulary give nothing. Borrowed from the tokenizer. */
struct slice text_piece(const struct tokenizer *tok, int32_t id, bool special);

/* Append the text of n tokens to out: the pieces, without the space that
 * encoding put in front, with clean-up of spaces before punctuation where the
 * model wants it. flags: TEXT_SHOW_SPECIAL, TEXT_REMOVE_SPECIAL. The bytes are
 * those the tokens stand for, UTF-8 or not. Fails when out of memory, or with
 * ERR_LIMIT where they are more than a thousand for each token and a million. */
bool text_decode(const struct tokenizer *tok, const int32_t *ids, size_t n, unsigned flags,
                 struct str *out, struct error *err);

/* Text as it is generated, token by token: whole characters only. */
struct detokenizer {
    const struct tokenizer *tok;
    bool special;    /* print control tokens */
    struct str held; /* the bytes of a character not yet complete */
};

/* tok must outlive it. Nothing is allocated before the first token. */
void detokenizer_init(struct detokenizer *d, const struct tokenizer *tok, bool special);
/* Append to out what the token completes: well-formed UTF-8, U+FFFD for bytes
 * that can no longer become a character. False when out of memory. */
bool detokenizer_add(struct detokenizer *d, int32_t id, struct str *out);
/* Append what is held back, as U+FFFD, and start afresh. */
bool detokenizer_finish(struct detokenizer *d, struct str *out);
void detokenizer_free(struct detokenizer *d);

int32_t tokenizer_n_vocab(const struct tokenizer *tok);
enum vocab_type tokenizer_vocab_type(const struct tokenizer *tok);
const struct special_tokens *tokenizer_special(const struct tokenizer *tok);

/* End of generation: eos, eot, and whatever else ends a turn. */
bool tokenizer_is_eog(const struct tokenizer *tok, int32_t id);
bool tokenizer_is_control(const struct tokenizer *tok, int32_t id);
/* A set of enum token_attr; 0 for an id outside the vocabulary. */
unsigned tokenizer_attr(const struct tokenizer *tok, int32_t id);
/* The entry as the vocabulary spells it ("Ġthe", "▁the", "<0x0A>"). */
struct slice tokenizer_text(const struct tokenizer *tok, int32_t id);
/* Tokens never to be generated, by the model's own word. */
const int32_t *tokenizer_suppressed(const struct tokenizer *tok, size_t *n);

/* The token whose vocabulary spelling is text, or -1. */
int32_t text_find(const struct tokenizer *tok, struct slice text);

/* All ids ordered by the bytes of text_piece(id, special = true), equal pieces
 * by id; n = tokenizer_n_vocab. For whoever builds a trie over the
 * vocabulary. Owned by the tokenizer. */
const int32_t *tokenizer_sorted(const struct tokenizer *tok);

#endif
