/* arena.h - memory that is freed all at once.
 *
 * For whatever lives as long as its owner: a parsed template, a request, the
 * strings of a loaded file. Not safe for several threads at once. */
#ifndef MLXCEL_BASE_ARENA_H
#define MLXCEL_BASE_ARENA_H

#include "base/slice.h"

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used, size;          /* of the newest block */
    size_t total;               /* bytes handed out */
    size_t limit;               /* 0: none; past it arena_alloc gives NULL */
};

/* size bytes, zeroed, aligned for anything. NULL when out of memory or past
 * the limit. */
void *arena_alloc(struct arena *arena, size_t size);
/* count * size bytes, zeroed, with the product checked. */
void *arena_alloc_array(struct arena *arena, size_t count, size_t size);
/* A NUL-terminated copy. */
char *arena_duplicate(struct arena *arena, struct slice text);
void arena_free(struct arena *arena);

#endif
