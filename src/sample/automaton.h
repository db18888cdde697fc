/* automaton.h - a grammar as a machine that reads bytes.
 *
 * A stack says what must still come: its top is the element to match next,
 * below it where to go on. Equal stacks are one node (hash-consing), a set of
 * stacks is one number, and so is a set together with a half-read character:
 * a state. What a byte does to a state is computed once and kept in a table,
 * so reading a token costs one load a byte.
 *
 * The tables are a cache: when they are full they are emptied, and numbers of
 * states from before mean nothing any more (see generation). Not safe for
 * several threads at once. */
#ifndef MLXCEL_SAMPLE_AUTOMATON_H
#define MLXCEL_SAMPLE_AUTOMATON_H

#include "sample/gbnf.h"

struct automaton;

/* Stacks, sets and states that always exist. */
enum {
    NODE_END = 0,  /* the empty stack: the grammar is complete */
    NODE_OPEN = 1, /* the part of a stack that a search leaves open */
    STATE_DEAD = 0
};

/* Takes the grammar, even when it fails. NULL when out of memory. */
struct automaton *automaton_create(const struct vocab *vocab, struct grammar *g);
void automaton_free(struct automaton *a);
/* Counts how often the tables were emptied. */
uint64_t automaton_generation(const struct automaton *a);
/* All work done so far, about a nanosecond a unit. */
uint64_t automaton_work(const struct automaton *a);
void automaton_empty(struct automaton *a);

/* The functions below give STATE_DEAD for "no way on", and fail (false) when
 * the tables are full or memory is out: then empty them and begin again. */

/* The state in which the root rule begins. */
bool automaton_start(struct automaton *a, uint32_t *state);
/* After one byte. */
bool automaton_step(struct automaton *a, uint32_t state, uint8_t byte, uint32_t *next);
/* After a token: elements that match a token are taken with the others. text is
 * what of its bytes counts. */
bool automaton_token(struct automaton *a, uint32_t state, int32_t token, struct slice text,
                     uint32_t *next);

/* May a token end here: the character that is half read, if any, can still
 * become one that is admitted. */
bool automaton_may_pause(const struct automaton *a, uint32_t state);
/* The grammar is complete here; and nothing more can follow. */
bool automaton_complete(const struct automaton *a, uint32_t state);
bool automaton_only_complete(const struct automaton *a, uint32_t state);

/* A state independent of the tables: per stack its length and its elements,
 * the top first; before them the half-read character. */
bool automaton_save(const struct automaton *a, uint32_t state, struct token_vec *out);
bool automaton_load(struct automaton *a, const struct token_vec *saved, uint32_t *state);

/* Admit, in a bitset of the vocabulary, the tokens that may come in this
 * state. */
bool automaton_mask(struct automaton *a, uint32_t state, uint64_t *admitted);

#endif
