/* automaton_tables.h - the tables of the automaton, for its own two files. */
#ifndef MLXCEL_SAMPLE_AUTOMATON_TABLES_H
#define MLXCEL_SAMPLE_AUTOMATON_TABLES_H

#include "sample/automaton.h"

struct stack_node {
    uint32_t element; /* to match next */
    uint32_t parent;  /* the rest of the stack */
};

struct stack_set {
    uint32_t first, n; /* its nodes in set_nodes, ascending */
};

struct machine_state {
    uint32_t set;
    uint32_t partial;  /* bits of the half-read character */
    uint8_t n_missing; /* bytes it lacks; 0: none is half read */
    bool may_pause;
    bool open, only_open; /* holds NODE_OPEN; nothing else */
    uint32_t *row;        /* [256], NULL until a byte was read; ROW_UNKNOWN or a state */
};

#define ROW_UNKNOWN UINT32_MAX

/* An open hash table of indices into one of the arrays. */
struct index_table {
    uint32_t *slots; /* index + 1, 0 free */
    size_t capacity, n;
};

/* What may follow one stack of which only the upper part was looked at. */
struct local_mask {
    uint32_t node;      /* the stack, cut off by NODE_OPEN */
    uint64_t *admitted; /* bitset */
    uint32_t *exits;    /* nodes of the trie at which the upper part is done */
    uint32_t n_exits;
};

/* Members of an object that are still to come (automaton_members.c). */
struct member_set {
    uint32_t object;
    uint32_t first_word; /* in member_words: a bitset of the object's members */
    bool begins;         /* no member was read: no comma stands before the next */
    bool owes;           /* a comma was read: a member must follow */
    uint32_t elements;   /* the first of its rule; GRAMMAR_NONE: not written yet */
};

struct automaton {
    const struct vocab *vocab;
    struct grammar *grammar; /* owned */
    uint64_t generation;
    VEC(struct stack_node) nodes;
    VEC(uint32_t) seen; /* by node: the closure that met it last */
    uint32_t closure;   /* number of the closure under way */
    VEC(uint32_t) todo, found;
    uint64_t work;     /* done for the call under way */
    uint64_t all_work; /* for those before it */
    VEC(struct stack_set) sets;
    VEC(uint32_t) set_nodes;
    VEC(struct machine_state) states;
    struct index_table node_index, set_index, state_index, mask_index;
    size_t n_rows;
    VEC(struct local_mask) masks;
    size_t mask_words; /* of a bitset */
    /* These stay when the tables are emptied: positions refer to their rules. */
    VEC(struct member_set) member_sets;
    VEC(uint64_t) member_words;
    struct index_table member_index;
};

uint64_t index_mix(uint64_t x);
void index_put(struct index_table *t, uint64_t hash, uint32_t index);
/* Make room for one more; false when out of memory. */
bool index_grow(const struct automaton *a, struct index_table *t,
                uint64_t (*hash)(const struct automaton *, uint32_t));

/* Work one call may do, about a nanosecond each: past it a grammar is refused,
 * because every other request waits meanwhile. */
enum { WORK_MAX = 1 << 28, WORK_STACK = 32, WORK_NODE = 4 };

static inline void work_begin(struct automaton *a)
{
    a->all_work += a->work;
    a->work = 0;
}

static inline bool work_left(struct automaton *a, uint64_t amount)
{
    a->work += amount;
    return a->work <= WORK_MAX;
}

/* Begin a set, add a stack and all it expands to, finish it. */
void closure_begin(struct automaton *a);
bool closure_add(struct automaton *a, uint32_t node);
bool closure_finish(struct automaton *a, uint32_t *set);

bool node_intern(struct automaton *a, uint32_t element, uint32_t parent, uint32_t *node);
bool state_intern(struct automaton *a, uint32_t set, uint32_t partial, uint8_t n_missing,
                  uint32_t *state);

/* The sets that the grammar's objects begin with. */
bool members_begin(struct automaton *a);
/* The first element of the rule that a set of members stands for, written when it is
 * asked for the first time. False when out of memory or room. */
bool members_rule(struct automaton *a, uint32_t set, uint32_t *first);

/* The stack after its top element was matched. */
bool node_after(struct automaton *a, uint32_t node, uint32_t *after);

#endif
