/* names.c - from a name to its place: open addressing with linear probing. */
#include "files/names.h"

#include <stdlib.h>

/* FNV-1a, 64 bits. */
static size_t hash_of(struct slice name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * 0x100000001b3u;
    return (size_t)(hash ^ (hash >> 32));
}

/* The entry of that name, or the free one where it belongs. */
static struct name_entry *probe(const struct name_index *index, struct slice name)
{
    size_t at = hash_of(name) & (index->capacity - 1);
    while (index->entries[at].name.data && !slice_equal(index->entries[at].name, name))
        at = (at + 1) & (index->capacity - 1);
    return &index->entries[at];
}

static bool grow(struct name_index *index)
{
    struct name_index larger = {.capacity = index->capacity ? index->capacity * 2 : 64};
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (!larger.entries)
        return false;
    larger.n = index->n;
    for (size_t i = 0; i < index->capacity; i++)
        if (index->entries[i].name.data)
            *probe(&larger, index->entries[i].name) = index->entries[i];
    free(index->entries);
    *index = larger;
    return true;
}

enum name_added name_index_add(struct name_index *index, struct slice name, size_t place)
{
    if (index->n >= index->capacity / 2 && !grow(index))
        return NAME_NO_MEMORY;
    struct name_entry *entry = probe(index, name);
    if (entry->name.data)
        return NAME_THERE_ALREADY;
    *entry = (struct name_entry){name, place};
    index->n++;
    return NAME_ADDED;
}

size_t name_index_find(const struct name_index *index, struct slice name)
{
    if (index->n == 0)
        return SIZE_MAX;
    const struct name_entry *entry = probe(index, name);
    return entry->name.data ? entry->place : SIZE_MAX;
}

void name_index_free(struct name_index *index)
{
    free(index->entries);
    *index = (struct name_index){0};
}
