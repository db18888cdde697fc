/* vec.h - growing arrays.
 *
 *   VEC(int32_t) ids = {0};
 *   if (!VEC_PUSH(&ids, 7)) ... out of memory
 *   for (size_t i = 0; i < ids.n; i++) use(ids.data[i]);
 *   VEC_FREE(&ids);
 */
#ifndef MLXCEL_BASE_VEC_H
#define MLXCEL_BASE_VEC_H

#include "base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *data;                                                                                \
        size_t n, capacity;                                                                        \
    }

/* Token ids, the array that every room passes on. */
struct token_vec {
    int32_t *data; /* owned */
    size_t n, capacity;
};

/* Make room for extra more elements; false when out of memory. */
#define VEC_RESERVE(v, extra)                                                                      \
    vec_reserve((void **)&(v)->data, &(v)->capacity, (v)->n, (extra), sizeof *(v)->data)

/* Append one element; false when out of memory. */
#define VEC_PUSH(v, ...) (VEC_RESERVE(v, 1) ? ((v)->data[(v)->n++] = (__VA_ARGS__), true) : false)

#define VEC_FREE(v)                                                                                \
    do {                                                                                           \
        free((v)->data);                                                                           \
        (v)->data = NULL;                                                                          \
        (v)->n = (v)->capacity = 0;                                                                \
    } while (0)

static inline bool vec_reserve(void **data, size_t *capacity, size_t n, size_t extra, size_t size)
{
    if (extra > SIZE_MAX / size - n)
        return false;
    size_t want = n + extra;
    if (want <= *capacity)
        return true;
    size_t grown = *capacity ? *capacity : 8;
    while (grown < want)
        grown = grown > SIZE_MAX / 2 ? want : grown * 2;
    if (grown > SIZE_MAX / size)
        grown = want;
    void *moved = realloc(*data, grown * size);
    if (!moved) {
        memory_note_failure();
        return false;
    }
    *data = moved;
    *capacity = grown;
    return true;
}

#endif
