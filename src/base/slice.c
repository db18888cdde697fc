/* slice.c - searching in bytes. */
#define _GNU_SOURCE /* memmem: linear, whatever the text */
#include "base/slice.h"

size_t slice_find(struct slice text, size_t from, struct slice part)
{
    if (from > text.len)
        return SLICE_NOT_FOUND;
    if (part.len == 0)
        return from;
    if (part.len > text.len - from)
        return SLICE_NOT_FOUND;
    const char *found = memmem(text.data + from, text.len - from, part.data, part.len);
    return found ? (size_t)(found - text.data) : SLICE_NOT_FOUND;
}

size_t slice_find_last(struct slice text, struct slice part)
{
    if (part.len > text.len)
        return SLICE_NOT_FOUND;
    for (size_t i = text.len - part.len + 1; i-- > 0;)
        if (part.len == 0 || memcmp(text.data + i, part.data, part.len) == 0)
            return i;
    return SLICE_NOT_FOUND;
}
