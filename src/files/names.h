/* names.h - from a name to its place in an array: a hash table of indices. */
#ifndef MLXCEL_FILES_NAMES_H
#define MLXCEL_FILES_NAMES_H

#include "base/slice.h"

#include <stdint.h>

struct name_index {
    struct name_entry {
        struct slice name; /* borrowed; data NULL: free */
        size_t place;
    } * entries;        /* owned */
    size_t n, capacity; /* capacity: 0 or a power of two */
};

enum name_added { NAME_ADDED, NAME_THERE_ALREADY, NAME_NO_MEMORY };

/* The name's bytes must outlive the index. */
enum name_added name_index_add(struct name_index *index, struct slice name, size_t place);
/* SIZE_MAX when there is none. */
size_t name_index_find(const struct name_index *index, struct slice name);
void name_index_free(struct name_index *index);

#endif
