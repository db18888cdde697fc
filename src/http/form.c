/* form.c - multipart/form-data (RFC 7578). */
#include "http/internal.h"

#include <strings.h>

enum { FORM_MAX_PARTS = 1024, FORM_MAX_PART_HEAD = 8192 };

bool http_is_form(const struct http_exchange *x)
{
    struct slice type = http_header(x, "Content-Type");
    return type.len >= 19 && strncasecmp(type.data, "multipart/form-data", 19) == 0;
}

/* A parameter of a header: name=token or name="quoted". */
static bool parameter(struct arena *arena, struct slice header, const char *name, struct slice *out)
{
    size_t name_len = strlen(name);
    for (size_t i = 0; i + name_len + 1 < header.len; i++) {
        bool at_start = header.data[i] == ';';
        if (!at_start)
            continue;
        size_t j = i + 1;
        while (j < header.len && (header.data[j] == ' ' || header.data[j] == '\t'))
            j++;
        if (header.len - j <= name_len || strncasecmp(header.data + j, name, name_len) != 0 ||
            header.data[j + name_len] != '=')
            continue;
        struct slice rest = slice_from(header, j + name_len + 1);
        char *value = arena_alloc(arena, rest.len + 1);
        size_t n = 0;
        if (!value)
            return false;
        if (rest.len > 0 && rest.data[0] == '"') {
            for (size_t k = 1; k < rest.len && rest.data[k] != '"'; k++) {
                if (rest.data[k] == '\\' && k + 1 < rest.len &&
                    (rest.data[k + 1] == '"' || rest.data[k + 1] == '\\'))
                    k++;
                value[n++] = rest.data[k];
            }
        } else {
            while (n < rest.len && rest.data[n] != ';' && rest.data[n] != ' ' &&
                   rest.data[n] != '\r') {
                value[n] = rest.data[n];
                n++;
            }
        }
        *out = (struct slice){value, n};
        return true;
    }
    return false;
}

/* The headers of a part, one to a line. */
static bool part_head(struct arena *arena, struct slice head, struct http_part *part)
{
    while (head.len > 0) {
        size_t end = slice_find(head, 0, SLICE("\r\n"));
        struct slice line = {head.data, end != SLICE_NOT_FOUND ? end : head.len};
        head = slice_from(head, line.len + 2);
        static const char disposition[] = "Content-Disposition:", type[] = "Content-Type:";
        if (line.len >= sizeof disposition - 1 &&
            strncasecmp(line.data, disposition, sizeof disposition - 1) == 0) {
            parameter(arena, line, "name", &part->name);
            parameter(arena, line, "filename", &part->filename);
        } else if (line.len >= sizeof type - 1 &&
                   strncasecmp(line.data, type, sizeof type - 1) == 0) {
            struct slice value = slice_from(line, sizeof type - 1);
            while (value.len > 0 && value.data[0] == ' ')
                value = slice_from(value, 1);
            part->content_type = value;
        }
    }
    return part->name.data != NULL;
}

bool http_form(struct http_exchange *x, const struct http_part **out, size_t *n, struct error *err)
{
    *out = NULL;
    *n = 0;
    if (!http_is_form(x))
        return true;
    struct slice boundary = {0};
    if (!parameter(&x->arena, http_header(x, "Content-Type"), "boundary", &boundary) ||
        boundary.len == 0 || boundary.len > 200)
        return error_set(err, ERR_FORMAT, "the form's Content-Type has no boundary");
    char *mark = arena_alloc(&x->arena, boundary.len + 5);
    struct http_part *parts = arena_alloc_array(&x->arena, FORM_MAX_PARTS, sizeof *parts);
    if (!mark || !parts)
        return error_memory(err);
    memcpy(mark, "\r\n--", 4);
    memcpy(mark + 4, boundary.data, boundary.len);
    struct slice delimiter = {mark, boundary.len + 4};

    struct slice rest = str_slice(&x->body);
    /* The first delimiter may stand at the very start, without its line break. */
    struct slice first = slice_from(delimiter, 2);
    if (slice_starts_with(rest, first)) {
        rest = slice_from(rest, first.len);
    } else {
        size_t at = slice_find(rest, 0, delimiter);
        if (at == SLICE_NOT_FOUND)
            return error_set(err, ERR_FORMAT, "the form's boundary does not occur in the body");
        rest = slice_from(rest, at + delimiter.len);
    }
    while (!slice_starts_with(rest, SLICE("--"))) {
        size_t line_end = slice_find(rest, 0, SLICE("\r\n"));
        if (line_end == SLICE_NOT_FOUND)
            return error_set(err, ERR_FORMAT, "the form ends within a boundary");
        rest = slice_from(rest, line_end);
        size_t head_end = slice_find(rest, 0, SLICE("\r\n\r\n"));
        size_t end = slice_find(rest, 0, delimiter);
        if (head_end == SLICE_NOT_FOUND || end == SLICE_NOT_FOUND || end < head_end ||
            head_end > FORM_MAX_PART_HEAD)
            return error_set(err, ERR_FORMAT, "part %zu of the form is not complete", *n + 1);
        if (*n == FORM_MAX_PARTS)
            return error_set(err, ERR_LIMIT, "the form has more than %d parts", FORM_MAX_PARTS);
        struct http_part *part = &parts[*n];
        struct slice head = {rest.data + 2, head_end - 2};
        if (head_end == 0)
            head.len = 0;
        part->data =
            (struct slice){rest.data + head_end + 4, end > head_end + 4 ? end - head_end - 4 : 0};
        if (!part_head(&x->arena, head, part))
            return error_set(err, ERR_FORMAT, "part %zu of the form has no name", *n + 1);
        (*n)++;
        rest = slice_from(rest, end + delimiter.len);
    }
    *out = parts;
    return true;
}
