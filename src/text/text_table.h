/* text_table.h - texts numbered 0, 1, 2, ... and found by their bytes.
 *
 * The vocabulary and what BPE merges need beside it live in one. Reading is
 * safe from any thread once nothing is added any more. */
#ifndef MLXCEL_TEXT_TEXT_TABLE_H
#define MLXCEL_TEXT_TEXT_TABLE_H

#include "base/slice.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdint.h>

struct text_span {
    size_t begin, len;
};

struct text_slot {
    uint32_t hash;
    int32_t index; /* -1: free */
};

struct text_table {
    struct str bytes; /* all texts, one after the other */
    VEC(struct text_span) spans;
    struct text_slot *slots; /* a power of two, at most half full */
    size_t n_slots;
};

/* Add a text under the next number; false when out of memory. A text that is
 * there already is found under its newer number from now on. */
bool text_table_add(struct text_table *t, struct slice text);

/* The number of a text, or -1. */
int32_t text_table_find(const struct text_table *t, struct slice text);

/* Find or add; -1 when out of memory. */
int32_t text_table_intern(struct text_table *t, struct slice text);

/* The text of a number below spans.n. */
static inline struct slice text_table_at(const struct text_table *t, size_t i)
{
    return (struct slice){t->bytes.data + t->spans.data[i].begin, t->spans.data[i].len};
}

void text_table_free(struct text_table *t);

#endif
