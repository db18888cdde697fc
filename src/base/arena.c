/* arena.c - bump allocation in growing blocks. */
#include "base/arena.h"

#include "base/memory.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

struct arena_block {
    struct arena_block *next;
    alignas(max_align_t) char data[];
};

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

static bool add_block(struct arena *arena, size_t at_least)
{
    size_t size = arena->size ? arena->size * 2 : FIRST_BLOCK;
    if (size > LARGEST_BLOCK)
        size = LARGEST_BLOCK;
    if (size < at_least)
        size = at_least;
    struct arena_block *block = malloc(sizeof *block + size);
    if (!block) {
        memory_note_failure();
        return false;
    }
    block->next = arena->blocks;
    arena->blocks = block;
    arena->size = size;
    arena->used = 0;
    return true;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > SIZE_MAX / 4)
        return NULL;
    size = (size + align - 1) / align * align;
    if (arena->limit && (size > arena->limit || arena->total > arena->limit - size))
        return NULL;
    if (!arena->blocks || size > arena->size - arena->used)
        if (!add_block(arena, size))
            return NULL;
    void *memory = arena->blocks->data + arena->used;
    arena->used += size;
    arena->total += size;
    memset(memory, 0, size);
    return memory;
}

void *arena_alloc_array(struct arena *arena, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    return arena_alloc(arena, count * size);
}

char *arena_duplicate(struct arena *arena, struct slice text)
{
    char *copy = arena_alloc(arena, text.len + 1);
    if (copy && text.len)
        memcpy(copy, text.data, text.len);
    return copy;
}

void arena_free(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    *arena = (struct arena){.limit = arena->limit};
}
