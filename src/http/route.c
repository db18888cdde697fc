/* route.c - from a request target to its route. */
#include "http/internal.h"

#include <strings.h>

bool url_decode(struct arena *arena, struct slice text, bool plus, struct slice *out)
{
    char *decoded = arena_alloc(arena, text.len + 1);
    if (!decoded)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '%' && i + 2 < text.len) {
            int high = framing_hex_value(text.data[i + 1]),
                low = framing_hex_value(text.data[i + 2]);
            if (high >= 0 && low >= 0) {
                c = (char)(high * 16 + low);
                i += 2;
            }
        } else if (c == '+' && plus) {
            c = ' ';
        }
        decoded[n++] = c;
    }
    decoded[n] = 0;
    *out = (struct slice){decoded, n};
    return true;
}

static bool parse_query(struct http_exchange *x, struct slice query)
{
    while (query.len > 0) {
        const char *end = memchr(query.data, '&', query.len);
        struct slice pair = {query.data, end ? (size_t)(end - query.data) : query.len};
        query = slice_from(query, pair.len + 1);
        if (pair.len == 0)
            continue;
        const char *equals = memchr(pair.data, '=', pair.len);
        struct slice name = {pair.data, equals ? (size_t)(equals - pair.data) : pair.len};
        struct slice value = slice_from(pair, name.len + 1);
        if (!url_decode(&x->arena, name, true, &name) ||
            !url_decode(&x->arena, value, true, &value) ||
            !exchange_add_field(x, &x->query, name, value))
            return false;
    }
    return true;
}

bool target_parse(struct http_exchange *x, struct slice target)
{
    /* The absolute form a proxy sends: the authority says nothing to us. */
    if (slice_starts_with(target, SLICE("http://")) ||
        slice_starts_with(target, SLICE("https://"))) {
        struct slice rest = slice_from(target, target.data[4] == 's' ? 8 : 7);
        size_t n = 0;
        while (n < rest.len && rest.data[n] != '/' && rest.data[n] != '?')
            n++;
        target = slice_from(rest, n);
    }
    const char *mark = memchr(target.data, '?', target.len);
    struct slice path = {target.data, mark ? (size_t)(mark - target.data) : target.len};
    const char *hash = memchr(path.data, '#', path.len);
    if (hash)
        path.len = (size_t)(hash - path.data);
    return url_decode(&x->arena, path.len ? path : SLICE("/"), false, &x->path) &&
           (!mark || parse_query(x, slice_from(target, path.len + 1)));
}

/* Match segment by segment; params receives what the ":name" ones matched. */
static bool match(struct http_exchange *x, const char *pattern, struct slice path,
                  struct fields *params)
{
    struct slice rest = slice_of(pattern);
    while (rest.len > 0 && path.len > 0) {
        if (rest.data[0] == ':') {
            const char *name_end = memchr(rest.data, '/', rest.len);
            const char *end = memchr(path.data, '/', path.len);
            struct slice name = {rest.data + 1,
                                 (name_end ? (size_t)(name_end - rest.data) : rest.len) - 1};
            struct slice value = {path.data, end ? (size_t)(end - path.data) : path.len};
            if (value.len == 0 || !exchange_add_field(x, params, name, value))
                return false;
            rest = slice_from(rest, name.len + 1);
            path = slice_from(path, value.len);
            continue;
        }
        if (rest.data[0] != path.data[0])
            return false;
        rest = slice_from(rest, 1);
        path = slice_from(path, 1);
    }
    return rest.len == 0 && path.len == 0;
}

const struct http_route *route_find(const struct http_server *server, struct http_exchange *x,
                                    enum http_method method, struct slice path)
{
    if (path.data && memchr(path.data, 0, path.len))
        return NULL;
    for (size_t i = 0; i < server->n_routes; i++) {
        const struct http_route *route = &server->routes[i];
        struct fields params = {0};
        if (route->method == method && match(x, route->path, path, &params)) {
            x->params = params;
            return route;
        }
    }
    return NULL;
}
