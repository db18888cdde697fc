/* str.h - a growing byte string.
 *
 * Start with {0}; the bytes are always followed by a NUL. An append that finds
 * no memory returns false and marks the string failed; later appends then do
 * nothing, so a run of appends may be checked once, at its end. */
#ifndef MLXCEL_BASE_STR_H
#define MLXCEL_BASE_STR_H

#include "base/slice.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
    char *data; /* NULL while empty and never grown; owned */
    size_t len; /* bytes, without the NUL */
    size_t capacity;
    bool failed; /* an append found no memory */
};

bool str_reserve(struct str *s, size_t extra);
bool str_append(struct str *s, const void *data, size_t len);
bool str_append_slice(struct str *s, struct slice text);
bool str_append_text(struct str *s, const char *text);
bool str_append_char(struct str *s, char c);
/* Append a Unicode code point as UTF-8 (invalid ones as U+FFFD). */
bool str_append_codepoint(struct str *s, uint32_t codepoint);
bool str_append_format(struct str *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Drop the bytes after len. */
void str_truncate(struct str *s, size_t len);
/* Remove n bytes from the front. */
void str_drop_front(struct str *s, size_t n);
/* Give back the memory past the end, as far as the allocator can. */
void str_shrink(struct str *s);
/* Empty it, keep the memory, forget a failure. */
void str_clear(struct str *s);
void str_free(struct str *s);
/* Hand the NUL-terminated bytes to the caller, who frees them; *s is empty
 * again. NULL when an append failed; "" when nothing was appended. */
char *str_detach(struct str *s);

static inline struct slice str_slice(const struct str *s)
{
    return (struct slice){s->data ? s->data : "", s->len};
}

/* The bytes as a C string; never NULL. */
static inline const char *str_text(const struct str *s)
{
    return s->data ? s->data : "";
}

/* A malloc'd NUL-terminated copy of a slice; NULL when out of memory. */
char *slice_duplicate(struct slice text);
/* A malloc'd formatted string; NULL when out of memory. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
