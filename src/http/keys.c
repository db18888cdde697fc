/* keys.c - API keys, compared in a time that tells nothing of them. */
#include "http/internal.h"

/* Looks at every byte of what the client sent, whatever matches. */
static bool equal_in_constant_time(struct slice key, struct slice given)
{
    volatile unsigned char difference = key.len == given.len ? 0 : 1;
    for (size_t i = 0; i < given.len; i++) {
        unsigned char expected = key.len ? (unsigned char)key.data[i % key.len] : 0;
        difference = (unsigned char)(difference | (expected ^ (unsigned char)given.data[i]));
    }
    return difference == 0;
}

bool key_is_valid(const struct front *front, struct http_exchange *x)
{
    if (front->n_keys == 0)
        return true;
    struct slice given = field_find(&x->headers, "Authorization", true);
    if (given.len == 0)
        given = field_find(&x->headers, "X-Api-Key", true);
    if (slice_starts_with(given, SLICE("Bearer ")))
        given = slice_from(given, 7);
    bool valid = false;
    for (size_t i = 0; i < front->n_keys; i++)
        valid = equal_in_constant_time(front->keys[i], given) || valid;
    return valid;
}
