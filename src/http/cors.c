/* cors.c - which origins a browser may let read our answers. */
#include "http/internal.h"

#include <strings.h>

static void answer(struct http_exchange *x, const char *name, struct slice value)
{
    exchange_add_field(x, &x->answer_headers, slice_of(name), value);
}

bool origin_is_localhost(struct slice origin)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]", "::1"};
    struct slice rest;
    if (slice_starts_with(origin, SLICE("http://")))
        rest = slice_from(origin, 7);
    else if (slice_starts_with(origin, SLICE("https://")))
        rest = slice_from(origin, 8);
    else
        return false;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct slice host = slice_of(hosts[i]);
        if (!slice_starts_with(rest, host))
            continue;
        struct slice tail = slice_from(rest, host.len);
        if (tail.len == 0)
            return true;
        if (tail.data[0] != ':' || tail.len < 2)
            continue;
        size_t n = 1;
        while (n < tail.len && tail.data[n] >= '0' && tail.data[n] <= '9')
            n++;
        if (n == tail.len)
            return true;
    }
    return false;
}

static bool listed(const char *list, struct slice origin)
{
    struct slice rest = slice_of(list);
    while (rest.len > 0) {
        const char *comma = memchr(rest.data, ',', rest.len);
        struct slice entry = {rest.data, comma ? (size_t)(comma - rest.data) : rest.len};
        rest = slice_from(rest, entry.len + 1);
        while (entry.len > 0 && entry.data[0] == ' ')
            entry = slice_from(entry, 1);
        while (entry.len > 0 && entry.data[entry.len - 1] == ' ')
            entry.len--;
        if (entry.len == origin.len && strncasecmp(entry.data, origin.data, origin.len) == 0)
            return true;
    }
    return false;
}

void cors_headers(struct http_exchange *x, const struct front *front, bool preflight)
{
    static const char allow_origin[] = "Access-Control-Allow-Origin";
    const char *origins = front->cors_origins;
    struct slice origin = field_find(&x->headers, "Origin", true);
    bool reflects = true; /* the answer depends on who asks: caches must know */
    if (strcmp(origins, "*") == 0 && front->cors_credentials) {
        answer(x, allow_origin, origin);
    } else if (strcmp(origins, "localhost") == 0) {
        if (origin.len > 0 && origin_is_localhost(origin))
            answer(x, allow_origin, origin);
    } else if (strchr(origins, ',')) {
        /* Browsers accept no list: the one that matches, or none. */
        if (origin.len > 0 && listed(origins, origin))
            answer(x, allow_origin, origin);
    } else {
        answer(x, allow_origin, slice_of(origins));
        reflects = false;
    }
    if (reflects)
        answer(x, "Vary", SLICE("Origin"));
    if (!preflight)
        return;
    answer(x, "Access-Control-Allow-Credentials",
           slice_of(front->cors_credentials ? "true" : "false"));
    answer(x, "Access-Control-Allow-Methods", slice_of(front->cors_methods));
    answer(x, "Access-Control-Allow-Headers", slice_of(front->cors_headers));
}
