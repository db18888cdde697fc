/* merge.h - joining neighbours, the best pair first: the loop that byte-pair
 * encoding and SentencePiece have in common. */
#ifndef MLXCEL_TEXT_MERGE_H
#define MLXCEL_TEXT_MERGE_H

#include "base/vec.h"

#include <stdint.h>

/* A run of the word's bytes. The chain of symbols left after merging is read
 * from symbol 0 along next. */
struct symbol {
    int32_t id;          /* what it is, in the caller's numbering; -1 unknown */
    uint32_t begin, len; /* bytes in the text; len 0: merged into another */
    int32_t prev, next;  /* -1 at the ends */
};

struct merge_candidate {
    uint64_t key; /* priority, then position: the smallest goes first */
    int32_t right;
    uint32_t len;
    int32_t id;
};

/* What one encoding reuses from word to word. Start with {0}. */
struct merge_scratch {
    VEC(struct symbol) symbols;
    VEC(struct merge_candidate) heap;
};

/* Whether two neighbours may be joined; if so the priority (smaller first) and
 * the id of what they make. */
typedef bool merge_rule(const void *model, const struct symbol *left, const struct symbol *right,
                        uint32_t *priority, int32_t *id);

/* Join neighbours among scratch->symbols until no rule applies, always the
 * pair of the smallest priority, the leftmost first among equals. The caller
 * has set id, begin and len of each; the links are set here. False when out of
 * memory. Cost: O(n log n). */
bool merge_run(struct merge_scratch *scratch, merge_rule *rule, const void *model);

void merge_scratch_free(struct merge_scratch *scratch);

#endif
