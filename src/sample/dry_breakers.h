/* dry_breakers.h - where DRY's repetitions end: the sequence breakers of a request,
 * as tokens. */
#ifndef MLXCEL_SAMPLE_DRY_BREAKERS_H
#define MLXCEL_SAMPLE_DRY_BREAKERS_H

#include "sample/stage.h"

#include <stdatomic.h>

enum {
    DRY_TAIL_MAX = 20,              /* tokens after the head */
    DRY_BREAKER_BYTES_MAX = 40,     /* of a text; what is longer is cut */
    DRY_BREAKERS_MAX = 1024,        /* texts */
    DRY_BREAKER_HEADS_MAX = 1 << 20 /* tokens that begin one of them, counted for each */
};

/* A token that begins a breaker, and the rest of it. */
struct breaker {
    int32_t head;
    uint32_t tail, n_tail; /* in tails */
};

/* Immutable, shared by the samplers of a request's completions. */
struct dry_breakers {
    atomic_int references;
    int32_t n_tokens;     /* of the vocabulary */
    uint64_t *alone;      /* bitset: tokens that hold a whole breaker */
    struct breaker *list; /* n, by head; of those that need a tail */
    size_t n, capacity;
    struct token_vec tails;
};

/* Read the settings' breakers. A text breaks at every token that contains it, and at
 * those that end with its beginning when the rest, tokenized by itself, follows.
 * Tokens count as they read at the beginning of a text, without the space that
 * SentencePiece puts there. NULL with *err: ERR_LIMIT past the limits above or the
 * settings' budget, ERR_CANCELLED. */
struct dry_breakers *dry_breakers_create(const struct vocab *vocab,
                                         const struct sampler_settings *settings,
                                         struct error *err);
struct dry_breakers *dry_breakers_hold(struct dry_breakers *b);
void dry_breakers_drop(struct dry_breakers *b);

/* Whether the token holds a whole breaker. */
static inline bool dry_breaks_alone(const struct dry_breakers *b, int32_t token)
{
    return token >= 0 && token < b->n_tokens && b->alone[token / 64] >> token % 64 & 1;
}

/* How many tokens after the i-th most recent one belong to the longest breaker that
 * begins there and is whole; -1: none. */
int32_t dry_breaker_at(const struct dry_breakers *b, const struct window *window, size_t i);

#endif
