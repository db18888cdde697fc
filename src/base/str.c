/* str.c - the growing byte string. */
#include "base/str.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>

bool str_reserve(struct str *s, size_t extra)
{
    if (s->failed)
        return false;
    if (extra >= SIZE_MAX / 2 - s->len) {
        s->failed = true;
        return false;
    }
    size_t want = s->len + extra + 1;
    if (want <= s->capacity)
        return true;
    size_t capacity = s->capacity ? s->capacity : 32;
    while (capacity < want)
        capacity *= 2;
    char *data = realloc(s->data, capacity);
    if (!data) {
        memory_note_failure();
        s->failed = true;
        return false;
    }
    s->data = data;
    s->capacity = capacity;
    s->data[s->len] = '\0';
    return true;
}

void str_shrink(struct str *s)
{
    char *data = s->len + 1 < s->capacity ? realloc(s->data, s->len + 1) : NULL;
    if (!data)
        return;
    s->data = data;
    s->capacity = s->len + 1;
}

bool str_append(struct str *s, const void *data, size_t len)
{
    if (!str_reserve(s, len))
        return false;
    if (len)
        memcpy(s->data + s->len, data, len);
    s->len += len;
    s->data[s->len] = '\0';
    return true;
}

bool str_append_slice(struct str *s, struct slice text)
{
    return str_append(s, text.data, text.len);
}

bool str_append_text(struct str *s, const char *text)
{
    return str_append(s, text, strlen(text));
}

bool str_append_char(struct str *s, char c)
{
    return str_append(s, &c, 1);
}

bool str_append_codepoint(struct str *s, uint32_t codepoint)
{
    char bytes[4];
    return str_append(s, bytes, utf8_encode(codepoint, bytes));
}

bool str_append_format(struct str *s, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    /* Most fit what is free; what does not is formatted again. */
    bool ok = str_reserve(s, 0);
    size_t room = ok ? s->capacity - s->len : 0;
    int n = ok ? vsnprintf(s->data + s->len, room, format, args) : -1;
    va_end(args);
    if (ok && n >= 0 && (size_t)n >= room) {
        s->data[s->len] = '\0';
        ok = str_reserve(s, (size_t)n);
        if (ok)
            vsnprintf(s->data + s->len, (size_t)n + 1, format, again);
    }
    va_end(again);
    if (ok && n > 0)
        s->len += (size_t)n;
    return ok && n >= 0;
}

void str_truncate(struct str *s, size_t len)
{
    if (len < s->len) {
        s->len = len;
        s->data[len] = '\0';
    }
}

void str_drop_front(struct str *s, size_t n)
{
    if (n >= s->len) {
        str_truncate(s, 0);
        return;
    }
    memmove(s->data, s->data + n, s->len - n + 1);
    s->len -= n;
}

void str_clear(struct str *s)
{
    s->failed = false;
    str_truncate(s, 0);
}

void str_free(struct str *s)
{
    free(s->data);
    *s = (struct str){0};
}

char *str_detach(struct str *s)
{
    char *data = s->data;
    if (s->failed) {
        str_free(s);
        return NULL;
    }
    *s = (struct str){0};
    return data ? data : calloc(1, 1);
}

char *slice_duplicate(struct slice text)
{
    char *copy = malloc(text.len + 1);
    if (!copy)
        return NULL;
    if (text.len)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return copy;
}

char *text_format(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}
