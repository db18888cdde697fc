/* normalize.h - what happens to a text before it is cut into pieces. */
#ifndef MLXCEL_TEXT_NORMALIZE_H
#define MLXCEL_TEXT_NORMALIZE_H

#include "base/str.h"
#include "base/vec.h"
#include "text/pattern.h"

#include <stdint.h>

enum normalize_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP, /* white space at the ends */
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_REPLACE,   /* every match becomes text */
    NORMALIZE_PREPEND,   /* text, before anything that is not empty */
    NORMALIZE_CLEAN,     /* BERT: controls go, white space becomes a space */
    NORMALIZE_SPACE_HAN, /* BERT: a space on either side of an ideograph */
    NORMALIZE_NMT,       /* SentencePiece's clean-up */
    NORMALIZE_CHARSMAP,  /* SentencePiece's compiled replacements */
    NORMALIZE_BYTE_LEVEL
};

struct normalize_step {
    enum normalize_kind kind;
    struct pattern *pattern; /* REPLACE; owned */
    struct str text;         /* REPLACE, PREPEND; CHARSMAP: the compiled table; owned */
    bool left, right;        /* STRIP */
};

struct normalizer {
    struct normalize_step *data; /* owned */
    size_t n, capacity;
};

/* Add a step without parameters; one that replaces a literal. */
bool normalizer_add(struct normalizer *n, enum normalize_kind kind, struct error *err);
bool normalizer_add_replace(struct normalizer *n, struct slice wanted, struct slice text,
                            struct error *err);

/* What may become of a text of len bytes, normalizing and cutting together: far
 * more than Unicode's longest decompositions (11 times) in GPT-2's alphabet
 * (twice) take, and never more than offsets can say. */
size_t text_room(size_t len);
/* ERR_LIMIT: a text became larger than that. Returns false. */
bool text_grows_too_much(struct error *err);

/* Replace *text by its normal form, of at most limit bytes. other is scratch.
 * Fails when out of memory, past the limit or when a pattern gives up. */
bool normalizer_run(const struct normalizer *n, size_t limit, struct str *text, struct str *other,
                    struct pattern_scratch *scratch, struct error *err);
/* The same for a part of a text: what is done to a text's ends is done only
 * where the part is the first or the last. */
bool normalizer_run_part(const struct normalizer *n, bool is_first, bool is_last, size_t limit,
                         struct str *text, struct str *other, struct pattern_scratch *scratch,
                         struct error *err);
void normalizer_free(struct normalizer *n);

/* Whether a SentencePiece charsmap holds together; the error says how not. */
bool charsmap_check(struct slice map, struct error *err);
/* The longest prefix of text that the map replaces: its length, and by what;
 * 0 when none. Source: SentencePiece's normalizer; Kanda 2018 (XOR-compressed
 * double arrays, as darts-clone writes them). */
size_t charsmap_match(struct slice map, struct slice text, struct slice *replacement);

/* The White_Space property. */
bool codepoint_is_space(uint32_t codepoint);
bool codepoint_is_punctuation(uint32_t codepoint);
/* What BERT calls a Chinese character. */
bool codepoint_is_han(uint32_t codepoint);
bool codepoint_is_mark(uint32_t codepoint);
bool codepoint_is_control(uint32_t codepoint);
uint32_t codepoint_lower(uint32_t codepoint);
/* The first code point of the canonical decomposition. */
uint32_t codepoint_base(uint32_t codepoint);

#endif
