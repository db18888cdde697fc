/* automaton_members.c - the members of JSON objects, in any order.
 *
 * A set of members that are still to come stands for a rule. Behind a member:
 *     | "," space OWES                 (the first only where none is required any more)
 * and behind a comma, or at the beginning, one alternative for each member that is to
 * come, followed by the set without it, and one for members that are not named. There
 * are 2^n sets; the few that a text comes by get their rules when it does. */
#include "sample/automaton_tables.h"

#include <stdlib.h>

enum {
    /* Past this many elements members that are met for the first time come in the order of
     * the schema, and past the second nothing does. */
    ELEMENTS_ANY_ORDER = 1 << 22,
    ELEMENTS_MAX = 1 << 23,
    WORD_BITS = 64
};

static size_t words_of(const struct automaton *a, uint32_t object)
{
    return (a->grammar->objects[object].n_members + WORD_BITS - 1) / WORD_BITS;
}

static uint64_t hash_of(const struct member_set *s, const uint64_t *words, size_t n)
{
    uint64_t hash = index_mix(((uint64_t)s->object << 2 | (uint64_t)s->begins << 1 | s->owes) + 1);
    for (size_t i = 0; i < n; i++)
        hash = index_mix(hash * 31 + words[i]);
    return hash;
}

static uint64_t hash_known(const struct automaton *a, uint32_t i)
{
    const struct member_set *s = &a->member_sets.data[i];
    return hash_of(s, a->member_words.data + s->first_word, words_of(a, s->object));
}

/* The set like `set`, with these members to come; words must not lie in member_words. */
static bool intern(struct automaton *a, struct member_set set, const uint64_t *words,
                   uint32_t *index)
{
    size_t n = words_of(a, set.object);
    if (!index_grow(a, &a->member_index, hash_known))
        return false;
    uint64_t hash = hash_of(&set, words, n);
    const struct index_table *t = &a->member_index;
    for (size_t at = hash & (t->capacity - 1); t->slots[at]; at = (at + 1) & (t->capacity - 1)) {
        const struct member_set *known = &a->member_sets.data[t->slots[at] - 1];
        if (known->object == set.object && known->begins == set.begins && known->owes == set.owes &&
            (n == 0 ||
             memcmp(a->member_words.data + known->first_word, words, n * sizeof *words) == 0)) {
            *index = t->slots[at] - 1;
            return true;
        }
    }
    set.first_word = (uint32_t)a->member_words.n;
    set.elements = GRAMMAR_NONE;
    if (!VEC_RESERVE(&a->member_words, n) || !VEC_PUSH(&a->member_sets, set))
        return false;
    for (size_t i = 0; i < n; i++)
        a->member_words.data[a->member_words.n++] = words[i];
    *index = (uint32_t)a->member_sets.n - 1;
    index_put(&a->member_index, hash, *index);
    return true;
}

/* As many words as the largest object needs; the caller frees. */
static uint64_t *copy_words(const struct automaton *a, const struct member_set *s)
{
    size_t n = words_of(a, s->object);
    uint64_t *words = calloc(n + 1, sizeof *words);
    if (words && n)
        memcpy(words, a->member_words.data + s->first_word, n * sizeof *words);
    return words;
}

bool members_begin(struct automaton *a)
{
    for (uint32_t i = 0; i < a->grammar->n_objects; i++) {
        uint32_t n = a->grammar->objects[i].n_members, index;
        struct member_set first = {.object = i, .begins = true};
        uint64_t *words = calloc(words_of(a, i) + 1, sizeof *words);
        for (uint32_t k = 0; words && k < n; k++)
            words[k / WORD_BITS] |= UINT64_C(1) << k % WORD_BITS;
        bool ok = words && intern(a, first, words, &index);
        free(words);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- writing a rule ---- */

static bool reserve_elements(struct automaton *a, size_t n)
{
    struct grammar *g = a->grammar;
    if (g->n_elements + n > ELEMENTS_MAX || !work_left(a, n * WORK_NODE))
        return false;
    struct element *elements = realloc(g->elements, (g->n_elements + n) * sizeof *elements);
    if (!elements)
        return false;
    g->elements = elements;
    return true;
}

static void put(struct automaton *a, enum element_type type, uint32_t value)
{
    a->grammar->elements[a->grammar->n_elements++] = (struct element){type, value};
}

/* Behind a member: the end, where it may be, and a comma, where something may follow. */
static bool write_behind(struct automaton *a, const struct member_set *s, const uint64_t *words,
                         bool complete, bool any)
{
    struct member_set owes = {.object = s->object, .owes = true};
    uint32_t index;
    if (!intern(a, owes, words, &index))
        return false;
    if (complete && any)
        put(a, ELEMENT_ALT, 0);
    if (any) {
        put(a, ELEMENT_CHAR, ',');
        put(a, ELEMENT_RULE, a->grammar->objects[s->object].space);
        put(a, ELEMENT_MEMBERS, index);
    }
    put(a, ELEMENT_END, 0);
    return true;
}

/* RULE and the set behind it. */
static bool write_member(struct automaton *a, uint32_t object, uint32_t rule, const uint64_t *words,
                         bool first)
{
    struct member_set behind = {.object = object};
    uint32_t index;
    if (!intern(a, behind, words, &index))
        return false;
    if (!first)
        put(a, ELEMENT_ALT, 0);
    put(a, ELEMENT_RULE, rule);
    put(a, ELEMENT_MEMBERS, index);
    return true;
}

/* One of the members to come, or one that is not named; nothing, where none must be. */
static bool write_next(struct automaton *a, const struct member_set *s, uint64_t *words,
                       bool may_end)
{
    const struct grammar_object object = a->grammar->objects[s->object];
    bool first = !may_end, all = a->grammar->n_elements < ELEMENTS_ANY_ORDER;
    for (uint32_t i = 0, n = 0; i < object.n_members && (all || n == 0); i++) {
        uint64_t bit = UINT64_C(1) << i % WORD_BITS;
        if (!(words[i / WORD_BITS] & bit))
            continue;
        words[i / WORD_BITS] &= ~bit;
        bool ok =
            write_member(a, s->object, a->grammar->members[object.first_member + i], words, first);
        words[i / WORD_BITS] |= bit;
        if (!ok)
            return false;
        first = false;
        n++;
    }
    if (object.more != GRAMMAR_NONE && !write_member(a, s->object, object.more, words, first))
        return false;
    put(a, ELEMENT_END, 0);
    return true;
}

static bool write_rule(struct automaton *a, const struct member_set *s, uint64_t *words)
{
    const struct grammar_object *object = &a->grammar->objects[s->object];
    bool complete = true, any = object->more != GRAMMAR_NONE;
    for (uint32_t i = 0; i < object->n_members; i++) {
        bool to_come = words[i / WORD_BITS] >> i % WORD_BITS & 1;
        any = any || to_come;
        complete = complete && !(to_come && i < object->n_required);
    }
    if (!reserve_elements(a, 3 * ((size_t)object->n_members + 1) + 4))
        return false;
    if (s->begins || s->owes)
        return write_next(a, s, words, s->begins && complete);
    return write_behind(a, s, words, complete, any);
}

bool members_rule(struct automaton *a, uint32_t set, uint32_t *first)
{
    const struct member_set s = a->member_sets.data[set];
    if (s.elements == GRAMMAR_NONE) {
        uint32_t begin = a->grammar->n_elements;
        uint64_t *words = copy_words(a, &s);
        bool ok = words && write_rule(a, &s, words);
        free(words);
        if (!ok) {
            a->grammar->n_elements = begin;
            return false;
        }
        a->member_sets.data[set].elements = begin;
    }
    *first = a->member_sets.data[set].elements;
    return true;
}
