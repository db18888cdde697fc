/* slice.h - a borrowed run of bytes with its length. Never owns. */
#ifndef MLXCEL_BASE_SLICE_H
#define MLXCEL_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *data; /* not necessarily NUL-terminated */
    size_t len;       /* bytes */
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, text ? strlen(text) : 0};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool slice_equal_text(struct slice a, const char *text)
{
    return slice_equal(a, slice_of(text));
}

static inline bool slice_starts_with(struct slice a, struct slice prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.data, prefix.data, prefix.len) == 0);
}

static inline bool slice_ends_with(struct slice a, struct slice suffix)
{
    return a.len >= suffix.len &&
           (suffix.len == 0 || memcmp(a.data + a.len - suffix.len, suffix.data, suffix.len) == 0);
}

/* The part from begin (clamped) to the end. */
static inline struct slice slice_from(struct slice a, size_t begin)
{
    if (begin > a.len)
        begin = a.len;
    return (struct slice){a.data + begin, a.len - begin};
}

#define SLICE_NOT_FOUND SIZE_MAX

/* Where part first stands in text at or after from; from itself for an empty
 * part. Linear in the text's length, whatever the text. */
size_t slice_find(struct slice text, size_t from, struct slice part);
/* Where it stands last; the end for an empty part. */
size_t slice_find_last(struct slice text, struct slice part);

#endif
