/* merge.h - joining neighbours, the best pair first: the loop that byte-pair
 * encoding and SentencePiece have in common. */
#ifndef MLXCEL_TEXT_MERGE_H
#define MLXCEL_TEXT_MERGE_H

#include "base/budget.h"
#include "base/vec.h"

#include <stdint.h>

/* A run of a word's bytes. It stands in an array at the place of its first
 * byte; the places of its other bytes have len 0. So the next symbol of the
 * one at i is at i + len. */
struct symbol {
    int32_t id;    /* what it is, in the caller's numbering; -1 unknown */
    uint32_t len;  /* bytes */
    uint32_t prev; /* where the symbol before it stands */
};

struct merge_candidate {
    uint64_t key; /* priority << 32 | place: the smallest goes first */
    uint32_t len; /* of the two together */
    int32_t id;   /* of what they make */
};

/* What one encoding reuses from word to word. Start with {0}. */
struct merge_scratch {
    VEC(struct symbol) symbols;
    VEC(struct merge_candidate) heap;
};

/* Add the next character of the word; false when out of memory. */
bool merge_add(struct merge_scratch *scratch, int32_t id, size_t len);

/* Whether the symbols left (which stands at begin) and right, side by side, may
 * be joined; if so the priority (smaller first) and the id of what they make. */
typedef bool merge_rule(const void *model, size_t begin, const struct symbol *left,
                        const struct symbol *right, uint32_t *priority, int32_t *id);

/* Join neighbours until no rule applies, always the pair of the smallest
 * priority, the leftmost first among equals. False with *err when out of memory or
 * when the budget (NULL: none) ends the work. Cost: O(n log n); a step of the budget
 * for some symbols. */
bool merge_run(struct merge_scratch *scratch, merge_rule *rule, const void *model,
               struct budget *budget, struct error *err);

void merge_scratch_free(struct merge_scratch *scratch);

#endif
