/* pieces.h - a text cut into pieces, and what cuts it further.
 *
 * Pre-tokenizing is a list of steps, each of which cuts every piece on its own
 * and may rewrite the text. */
#ifndef MLXCEL_TEXT_PIECES_H
#define MLXCEL_TEXT_PIECES_H

#include "base/str.h"
#include "base/vec.h"
#include "text/pattern.h"

struct piece {
    size_t begin, end; /* in pieces.text */
};

struct pieces {
    struct str text;
    VEC(struct piece) list; /* ordered; none is empty */
};

/* What becomes of a match when cutting. */
enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS /* matches side by side are one piece */
};

enum step_kind {
    STEP_SPLIT,
    STEP_PREFIX_SPACE,      /* a space before every piece that has none */
    STEP_BYTE_LEVEL,        /* every byte becomes the character GPT-2 gave it */
    STEP_METASPACE,         /* spaces become text, words begin with it */
    STEP_DIGIT_GROUPS,      /* runs of \p{N} in threes from the right; what stands
                               before the first group stays with it */
    STEP_ASCII_DIGIT_GROUPS /* runs of [0-9] in threes from the right */
};

enum prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct step {
    enum step_kind kind;
    struct pattern *pattern;      /* SPLIT; owned */
    enum split_behavior behavior; /* SPLIT */
    bool invert;                  /* SPLIT: what lies between matches is the match */
    bool split;                   /* METASPACE: cut before each text */
    enum prepend prepend;         /* METASPACE */
    struct str text;              /* METASPACE; owned */
};

struct steps {
    struct step *data; /* owned */
    size_t n, capacity;
};

/* Run the steps over the pieces, whose text grows to limit bytes at most.
 * is_first: nothing of the user's text stands before it. Fails when out of
 * memory, past the limit or when a pattern gives up. */
bool pieces_run(struct pieces *pieces, const struct steps *steps, bool is_first, size_t limit,
                struct pattern_scratch *scratch, struct error *err);

void pieces_free(struct pieces *pieces);
void steps_free(struct steps *steps);

/* Append text with each byte as GPT-2's character for it. */
bool byte_level_append(struct str *out, struct slice text);
/* The byte a character stands for in GPT-2's alphabet, or -1. */
int byte_level_byte(uint32_t codepoint);

#endif
