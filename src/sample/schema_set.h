/* schema_set.h - hash tables for the schema converter: indices of an array by the
 * hash of what stands there, and sets of JSON values. */
#ifndef MLXCEL_SAMPLE_SCHEMA_SET_H
#define MLXCEL_SAMPLE_SCHEMA_SET_H

#include "base/budget.h"
#include "base/json.h"

/* Indices of an array, found by the hashes of its elements. Start with {0}. */
struct hash_index {
    struct hash_slot *slots;
    size_t capacity, n;
};

#define HASH_INDEX_NONE UINT32_MAX

uint64_t hash_text(struct slice text);
/* False when out of memory. */
bool hash_index_add(struct hash_index *index, uint64_t hash, uint32_t at);
/* The next element with that hash, HASH_INDEX_NONE after the last. *cursor is 0
 * at first. The caller compares, and takes a step for each. */
uint32_t hash_index_next(const struct hash_index *index, uint64_t hash, size_t *cursor);
void hash_index_free(struct hash_index *index);

/* An open hash table of borrowed values. Start with {0}, or with .identity true
 * where a value is only equal to itself. */
struct value_set {
    struct value_slot *slots;
    size_t capacity, n;
    bool identity;
};

/* Equal as JSON Schema has it: numbers by their value. */
bool values_are_equal(const json_t *a, const json_t *b);
/* Steps that looking at all of a value is worth. */
uint64_t value_weight(const json_t *value);

/* Add a value; *added is false where an equal one is there. Fails when out of
 * memory or budget. */
bool value_set_add(struct value_set *set, const json_t *value, struct budget *budget, bool *added,
                   struct error *err);
/* All values of a list. */
bool value_set_add_list(struct value_set *set, const json_t *list, struct budget *budget,
                        struct error *err);
/* *found: whether an equal value is there. Fails when out of budget. */
bool value_set_find(const struct value_set *set, const json_t *value, struct budget *budget,
                    bool *found, struct error *err);
void value_set_free(struct value_set *set);

#endif
