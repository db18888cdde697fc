/* jinja_filters_text.c - filters and methods on text and numbers. */
#include "chat/jinja_builtin.h"

#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

typedef struct jinja_value value;
typedef struct jinja_arguments arguments;

/* The text of an argument, or fallback. */
static struct slice text_argument(const arguments *args, size_t i, const char *name,
                                  struct slice fallback)
{
    const value *v = jinja_argument(args, i, name);
    return v && v->type == JINJA_STRING ? jinja_bytes(v) : fallback;
}

static int64_t integer_argument(const arguments *args, size_t i, const char *name, int64_t fallback)
{
    const value *v = jinja_argument(args, i, name);
    return v && jinja_is_number(v) ? jinja_as_integer(v) : fallback;
}

static bool truth_argument(const arguments *args, size_t i, const char *name, bool fallback)
{
    const value *v = jinja_argument(args, i, name);
    return v ? jinja_truth(v) : fallback;
}

static bool is_space(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The same for one byte of text that is not looked at as characters. */
static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= 9 && c <= 13);
}

/* ---- Case ---------------------------------------------------------------- */

enum letter_case { CASE_UPPER, CASE_LOWER, CASE_CAPITALIZE, CASE_TITLE };

static value *change_case(struct jinja_run *run, const value *v, enum letter_case how)
{
    struct slice text = jinja_bytes(v);
    struct jinja_builder b = {0};
    bool inside = false; /* a word */
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        bool valid = true;
        size_t n = utf8_decode(text.data + i, text.len - i, &c, &valid);
        bool upper = how == CASE_UPPER || (how == CASE_CAPITALIZE && i == 0) ||
                     (how == CASE_TITLE && !inside);
        inside = how == CASE_TITLE && !is_space(c) && c != '-' && c != '(' && c != '[' &&
                 c != '{' && c != '<';
        utf8proc_int32_t changed =
            upper ? utf8proc_toupper((utf8proc_int32_t)c) : utf8proc_tolower((utf8proc_int32_t)c);
        bool marked = v->as.string.marks ? v->as.string.marks[i] : v->as.string.marked;
        char encoded[4];
        size_t len = n;
        memcpy(encoded, text.data + i, n);
        if (valid)
            len = utf8_encode((uint32_t)changed, encoded);
        if (!jinja_put(run, &b, (struct slice){encoded, len}, marked))
            return NULL;
        i += n;
    }
    return jinja_step(run, 1 + text.len / 16) ? jinja_built(run, &b) : NULL;
}

static value *filter_upper(struct jinja_run *run, arguments *args)
{
    return change_case(run, args->self, CASE_UPPER);
}

static value *filter_lower(struct jinja_run *run, arguments *args)
{
    return change_case(run, args->self, CASE_LOWER);
}

static value *filter_capitalize(struct jinja_run *run, arguments *args)
{
    return change_case(run, args->self, CASE_CAPITALIZE);
}

static value *filter_title(struct jinja_run *run, arguments *args)
{
    return change_case(run, args->self, CASE_TITLE);
}

/* ---- Stripping and splitting --------------------------------------------- */

static bool strips(struct slice text, size_t at, size_t len, const value *characters)
{
    if (!characters || characters->type != JINJA_STRING) {
        uint32_t c;
        utf8_decode(text.data + at, len, &c, NULL);
        return is_space(c);
    }
    struct slice set = jinja_bytes(characters);
    for (size_t i = 0; i + len <= set.len; i++)
        if (memcmp(set.data + i, text.data + at, len) == 0)
            return true;
    return false;
}

static value *strip(struct jinja_run *run, const value *v, const value *characters, bool left,
                    bool right)
{
    struct slice text = jinja_bytes(v);
    size_t begin = 0, end = text.len;
    while (left && begin < end) {
        size_t n = utf8_decode(text.data + begin, end - begin, &(uint32_t){0}, NULL);
        if (!strips(text, begin, n, characters))
            break;
        begin += n;
    }
    while (right && end > begin) {
        size_t n = 1;
        while (n < 4 && n < end - begin && ((unsigned char)text.data[end - n] & 0xc0) == 0x80)
            n++;
        if (!strips(text, end - n, n, characters))
            break;
        end -= n;
    }
    return jinja_substring(run, v, begin, end);
}

static value *filter_trim(struct jinja_run *run, arguments *args)
{
    return strip(run, args->self, jinja_argument(args, 0, "chars"), true, true);
}

static value *method_lstrip(struct jinja_run *run, arguments *args)
{
    return strip(run, args->self, jinja_argument(args, 0, "chars"), true, false);
}

static value *method_rstrip(struct jinja_run *run, arguments *args)
{
    return strip(run, args->self, jinja_argument(args, 0, "chars"), false, true);
}

/* On runs of blanks. */
static value *split_blanks(struct jinja_run *run, const value *v, int64_t most)
{
    struct slice text = jinja_bytes(v);
    value *out = jinja_list(run);
    size_t at = 0;
    while (out) {
        while (at < text.len && is_blank((unsigned char)text.data[at]))
            at++;
        if (at >= text.len)
            break;
        size_t end = at;
        if (most == 0) {
            end = text.len;
            while (end > at && is_blank((unsigned char)text.data[end - 1]))
                end--;
        } else {
            while (end < text.len && !is_blank((unsigned char)text.data[end]))
                end++;
        }
        if (!jinja_step(run, 1) || !jinja_list_add(run, out, jinja_substring(run, v, at, end)))
            return NULL;
        at = most == 0 ? text.len : end;
        most--;
    }
    return out;
}

static value *method_split(struct jinja_run *run, arguments *args)
{
    const value *separator = jinja_argument(args, 0, "sep");
    int64_t most = integer_argument(args, 1, "maxsplit", -1);
    struct slice text = jinja_bytes(args->self);
    if (!separator || separator->type != JINJA_STRING)
        return split_blanks(run, args->self, most);
    struct slice part = jinja_bytes(separator);
    if (part.len == 0)
        return jinja_fail(run, "empty separator");
    value *out = jinja_list(run);
    size_t at = 0;
    for (size_t found; out && most != 0 && (found = slice_find(text, at, part)) != SLICE_NOT_FOUND;
         most--) {
        if (!jinja_step(run, 1) ||
            !jinja_list_add(run, out, jinja_substring(run, args->self, at, found)))
            return NULL;
        at = found + part.len;
    }
    return out && jinja_list_add(run, out, jinja_substring(run, args->self, at, text.len)) ? out
                                                                                           : NULL;
}

static void reverse(struct jinja_items *items)
{
    for (size_t i = 0; i < items->n / 2; i++) {
        value *swap = items->data[i];
        items->data[i] = items->data[items->n - 1 - i];
        items->data[items->n - 1 - i] = swap;
    }
}

static value *method_rsplit(struct jinja_run *run, arguments *args)
{
    const value *separator = jinja_argument(args, 0, "sep");
    int64_t most = integer_argument(args, 1, "maxsplit", -1);
    struct slice text = jinja_bytes(args->self);
    if (!separator || separator->type != JINJA_STRING)
        return split_blanks(run, args->self, -1);
    struct slice part = jinja_bytes(separator);
    if (part.len == 0)
        return jinja_fail(run, "empty separator");
    value *out = jinja_list(run);
    for (size_t found; out && most != 0 && (found = slice_find_last(text, part)) != SLICE_NOT_FOUND;
         most--) {
        if (!jinja_step(run, 1 + (text.len - found) / 64) ||
            !jinja_list_add(run, out, jinja_substring(run, args->self, found + part.len, text.len)))
            return NULL;
        text.len = found;
    }
    if (!out || !jinja_list_add(run, out, jinja_substring(run, args->self, 0, text.len)))
        return NULL;
    reverse(&out->as.items);
    return out;
}

static value *method_splitlines(struct jinja_run *run, arguments *args)
{
    struct slice text = jinja_bytes(args->self);
    bool keep = truth_argument(args, 0, "keepends", false);
    value *out = jinja_list(run);
    for (size_t at = 0; out && at < text.len;) {
        size_t end = at;
        while (end < text.len && text.data[end] != '\n' && text.data[end] != '\r')
            end++;
        size_t next = end < text.len ? end + 1 : end;
        if (end + 1 < text.len && text.data[end] == '\r' && text.data[end + 1] == '\n')
            next++;
        if (!jinja_step(run, 1) ||
            !jinja_list_add(run, out, jinja_substring(run, args->self, at, keep ? next : end)))
            return NULL;
        at = next;
    }
    return out;
}

static value *partition(struct jinja_run *run, arguments *args, bool last)
{
    struct slice text = jinja_bytes(args->self), part = text_argument(args, 0, "sep", SLICE(""));
    if (part.len == 0)
        return jinja_fail(run, "empty separator");
    size_t found = last ? slice_find_last(text, part) : slice_find(text, 0, part);
    size_t cut[4] = {0, found, found + part.len, text.len};
    if (found == SIZE_MAX) {
        cut[1] = cut[2] = last ? 0 : text.len;
    }
    value *out = jinja_new(run, JINJA_TUPLE);
    for (int i = 0; out && i < 3; i++)
        if (!jinja_items_add(run, &out->as.items,
                             jinja_substring(run, args->self, cut[i], cut[i + 1])))
            return NULL;
    return out;
}

static value *method_partition(struct jinja_run *run, arguments *args)
{
    return partition(run, args, false);
}

static value *method_rpartition(struct jinja_run *run, arguments *args)
{
    return partition(run, args, true);
}

/* ---- Finding and replacing ----------------------------------------------- */

static value *affix(struct jinja_run *run, arguments *args, bool prefix)
{
    const value *what = jinja_argument(args, 0, prefix ? "prefix" : "suffix");
    struct slice text = jinja_bytes(args->self);
    if (what && what->type == JINJA_TUPLE) {
        bool any = false;
        for (size_t i = 0; i < what->as.items.n; i++) {
            const value *one = what->as.items.data[i];
            any = any ||
                  (one->type == JINJA_STRING && (prefix ? slice_starts_with(text, jinja_bytes(one))
                                                        : slice_ends_with(text, jinja_bytes(one))));
        }
        return jinja_bool(run, any);
    }
    if (!what || what->type != JINJA_STRING)
        return jinja_fail(run, "Function '%s' expected value of type String, got %s", args->name,
                          what ? jinja_type_name(what) : "nothing");
    return jinja_bool(run, prefix ? slice_starts_with(text, jinja_bytes(what))
                                  : slice_ends_with(text, jinja_bytes(what)));
}

static value *method_startswith(struct jinja_run *run, arguments *args)
{
    return affix(run, args, true);
}

static value *method_endswith(struct jinja_run *run, arguments *args)
{
    return affix(run, args, false);
}

static value *remove_affix(struct jinja_run *run, arguments *args, bool prefix)
{
    struct slice text = jinja_bytes(args->self), part = text_argument(args, 0, NULL, SLICE(""));
    bool has = prefix ? slice_starts_with(text, part) : slice_ends_with(text, part);
    return jinja_substring(run, args->self, has && prefix ? part.len : 0,
                           has && !prefix ? text.len - part.len : text.len);
}

static value *method_removeprefix(struct jinja_run *run, arguments *args)
{
    return remove_affix(run, args, true);
}

static value *method_removesuffix(struct jinja_run *run, arguments *args)
{
    return remove_affix(run, args, false);
}

static value *position(struct jinja_run *run, arguments *args, size_t found, bool must)
{
    if (found == SIZE_MAX)
        return must ? jinja_fail(run, "substring not found") : jinja_integer(run, -1);
    return jinja_integer(run,
                         (int64_t)utf8_length((struct slice){args->self->as.string.data, found}));
}

static value *method_find(struct jinja_run *run, arguments *args)
{
    return position(run, args,
                    slice_find(jinja_bytes(args->self), 0, text_argument(args, 0, NULL, SLICE(""))),
                    false);
}

static value *method_rfind(struct jinja_run *run, arguments *args)
{
    return position(
        run, args,
        slice_find_last(jinja_bytes(args->self), text_argument(args, 0, NULL, SLICE(""))), false);
}

static value *method_index(struct jinja_run *run, arguments *args)
{
    return position(run, args,
                    slice_find(jinja_bytes(args->self), 0, text_argument(args, 0, NULL, SLICE(""))),
                    true);
}

static value *method_count(struct jinja_run *run, arguments *args)
{
    struct slice text = jinja_bytes(args->self), part = text_argument(args, 0, NULL, SLICE(""));
    int64_t n = 0;
    for (size_t at = 0; part.len && (at = slice_find(text, at, part)) != SLICE_NOT_FOUND;
         at += part.len)
        n++;
    return jinja_integer(run, part.len ? n : (int64_t)utf8_length(text) + 1);
}

static value *filter_replace(struct jinja_run *run, arguments *args)
{
    value *old = jinja_to_string(run, jinja_argument(args, 0, "old"));
    value *new = old ? jinja_to_string(run, jinja_argument(args, 1, "new")) : NULL;
    if (!new)
        return jinja_fail(run, "replace() takes the old and the new text");
    int64_t most = integer_argument(args, 2, "count", -1);
    struct slice text = jinja_bytes(args->self), part = jinja_bytes(old);
    struct jinja_builder b = {0};
    size_t at = 0;
    while (most != 0) {
        size_t found = slice_find(text, at, part), skip = part.len;
        if (found == SIZE_MAX)
            break;
        if (!jinja_step(run, 1) || !jinja_put_string(run, &b, args->self, at, found) ||
            !jinja_put_string(run, &b, new, 0, new->as.string.len))
            return NULL;
        at = found + skip;
        most--;
        if (skip == 0) { /* "" stands before every character and at the end */
            if (at >= text.len)
                break;
            size_t n = utf8_decode(text.data + at, text.len - at, &(uint32_t){0}, NULL);
            if (!jinja_put_string(run, &b, args->self, at, at + n))
                return NULL;
            at += n;
        }
    }
    return jinja_put_string(run, &b, args->self, at, text.len) ? jinja_built(run, &b) : NULL;
}

/* ---- Formatting ---------------------------------------------------------- */

/* One "%..." conversion; *at stands behind the "%". */
static bool percent_item(struct jinja_run *run, arguments *args, struct jinja_builder *b,
                         struct slice format, size_t *at, size_t *used)
{
    char spec[32] = "%", out[512];
    size_t n = 1;
    value *v = NULL;
    if (*at < format.len && format.data[*at] == '(') { /* %(name)s */
        size_t close = slice_find(format, *at, SLICE(")"));
        if (close == SIZE_MAX)
            return jinja_fail(run, "incomplete format key") != NULL;
        struct slice name = {format.data + *at + 1, close - *at - 1};
        for (size_t i = 0; i < args->n_keywords; i++)
            if (slice_equal(args->keywords[i].name, name))
                v = args->keywords[i].value;
        const value *map = args->positional.n ? args->positional.data[0] : NULL;
        if (!v && map && map->type == JINJA_DICT)
            v = jinja_dict_get(map->as.dict, name);
        *at = close + 1;
    }
    while (*at < format.len && strchr("-+ #0123456789.", format.data[*at]) && n < 12)
        spec[n++] = format.data[(*at)++];
    char kind = *at < format.len ? format.data[(*at)++] : '\0';
    if (kind == '%')
        return jinja_put(run, b, SLICE("%"), false);
    if (!v && *used < args->positional.n)
        v = args->positional.data[(*used)++];
    if (!v)
        return jinja_fail(run, "not enough arguments for format string") != NULL;
    if (kind == 's' || kind == 'r') {
        struct jinja_builder own = {0};
        if (!(kind == 's' ? jinja_put_str(run, &own, v) : jinja_put_repr(run, &own, v, 0)))
            return false;
        value *text = jinja_built(run, &own);
        long width = strtol(spec + (spec[1] == '-' ? 2 : 1), NULL, 10);
        long pad = width - (text ? (long)utf8_length(jinja_bytes(text)) : 0);
        bool ok = text != NULL && width < 10000;
        for (long i = 0; ok && spec[1] != '-' && i < pad; i++)
            ok = jinja_put(run, b, SLICE(" "), false);
        ok = ok && jinja_put_string(run, b, text, 0, text->as.string.len);
        for (long i = 0; ok && spec[1] == '-' && i < pad; i++)
            ok = jinja_put(run, b, SLICE(" "), false);
        return ok;
    }
    if (!jinja_is_number(v) || !strchr("diuxXofFeEgGc", kind))
        return jinja_fail(run, "unsupported format character or argument") != NULL;
    if (strchr("diuxXo", kind)) {
        snprintf(spec + n, sizeof spec - n, "ll%c", kind == 'i' || kind == 'u' ? 'd' : kind);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(out, sizeof out, spec, (long long)jinja_as_integer(v));
    } else if (kind == 'c') {
        out[utf8_encode((uint32_t)jinja_as_integer(v), out)] = '\0';
    } else {
        snprintf(spec + n, sizeof spec - n, "%c", kind);
        snprintf(out, sizeof out, spec, jinja_as_double(v));
#pragma GCC diagnostic pop
    }
    return jinja_put(run, b, slice_of(out), false);
}

/* "..."|format(...): percent style */
static value *filter_format(struct jinja_run *run, arguments *args)
{
    struct slice format = jinja_bytes(args->self);
    struct jinja_builder b = {0};
    size_t used = 0;
    for (size_t at = 0; at < format.len;) {
        size_t percent = slice_find(format, at, SLICE("%"));
        size_t end = percent == SIZE_MAX ? format.len : percent;
        if (!jinja_step(run, 1) || !jinja_put_string(run, &b, args->self, at, end))
            return NULL;
        at = end + 1;
        if (percent != SIZE_MAX && !percent_item(run, args, &b, format, &at, &used))
            return NULL;
    }
    return jinja_built(run, &b);
}

/* "...".format(...): {}, {0}, {name} */
static value *method_format(struct jinja_run *run, arguments *args)
{
    struct slice format = jinja_bytes(args->self);
    struct jinja_builder b = {0};
    size_t used = 0;
    for (size_t at = 0; at < format.len;) {
        char c = format.data[at];
        if (c != '{' && c != '}') {
            size_t end = at;
            while (end < format.len && format.data[end] != '{' && format.data[end] != '}')
                end++;
            if (!jinja_put_string(run, &b, args->self, at, end))
                return NULL;
            at = end;
            continue;
        }
        if (at + 1 < format.len && format.data[at + 1] == c) {
            if (!jinja_put(run, &b, (struct slice){&c, 1}, false))
                return NULL;
            at += 2;
            continue;
        }
        size_t close = c == '{' ? slice_find(format, at, SLICE("}")) : SIZE_MAX;
        if (close == SIZE_MAX)
            return jinja_fail(run, "format() has an unbalanced brace");
        struct slice name = {format.data + at + 1, close - at - 1};
        value *v = NULL;
        if (name.len == 0 || (name.data[0] >= '0' && name.data[0] <= '9')) {
            size_t i = name.len ? strtoul(name.data, NULL, 10) : used++;
            v = i < args->positional.n ? args->positional.data[i] : NULL;
        }
        for (size_t i = 0; !v && i < args->n_keywords; i++)
            if (slice_equal(args->keywords[i].name, name))
                v = args->keywords[i].value;
        if (!v)
            return jinja_fail(run, "format() has no argument for '{%.*s}'",
                              name.len < 40 ? (int)name.len : 40, name.data);
        if (!jinja_step(run, 1) || !jinja_put_str(run, &b, v))
            return NULL;
        at = close + 1;
    }
    return jinja_built(run, &b);
}

static value *filter_indent(struct jinja_run *run, arguments *args)
{
    const value *width = jinja_argument(args, 0, "width");
    bool first = truth_argument(args, 1, "first", false);
    bool blank = truth_argument(args, 2, "blank", false);
    struct slice text = jinja_bytes(args->self), prefix = SLICE("    ");
    struct jinja_builder b = {0};
    if (width && width->type == JINJA_STRING) {
        prefix = jinja_bytes(width);
    } else if (width && jinja_is_number(width)) {
        int64_t n = jinja_as_integer(width);
        n = n < 0 ? 0 : n;
        char *spaces = n < 65536 ? jinja_alloc(run, (size_t)n + 1) : NULL;
        if (!spaces)
            return jinja_fail(run, "indent() is too wide");
        memset(spaces, ' ', (size_t)n);
        prefix = (struct slice){spaces, (size_t)n};
    }
    for (size_t at = 0; at <= text.len;) {
        size_t end = slice_find(text, at, SLICE("\n"));
        bool last = end == SIZE_MAX;
        if (last)
            end = text.len;
        bool wanted = at == 0 ? first : end > at || blank;
        if (!jinja_step(run, 1) || (wanted && !jinja_put(run, &b, prefix, false)) ||
            !jinja_put_string(run, &b, args->self, at, last ? end : end + 1))
            return NULL;
        at = end + 1;
    }
    return jinja_built(run, &b);
}

static value *pad(struct jinja_run *run, arguments *args, int64_t width, bool left, bool right,
                  struct slice fill)
{
    int64_t missing = width - (int64_t)utf8_length(jinja_bytes(args->self));
    int64_t before = left && right ? missing / 2 : left ? missing : 0;
    struct jinja_builder b = {0};
    for (int64_t i = 0; i < before; i++)
        if (!jinja_step(run, 1) || !jinja_put(run, &b, fill, false))
            return NULL;
    if (!jinja_put_string(run, &b, args->self, 0, args->self->as.string.len))
        return NULL;
    for (int64_t i = 0; right && i < missing - before; i++)
        if (!jinja_step(run, 1) || !jinja_put(run, &b, fill, false))
            return NULL;
    return jinja_built(run, &b);
}

static value *filter_center(struct jinja_run *run, arguments *args)
{
    return pad(run, args, integer_argument(args, 0, "width", 80), true, true, SLICE(" "));
}

static value *method_ljust(struct jinja_run *run, arguments *args)
{
    return pad(run, args, integer_argument(args, 0, NULL, 0), false, true,
               text_argument(args, 1, NULL, SLICE(" ")));
}

static value *method_rjust(struct jinja_run *run, arguments *args)
{
    return pad(run, args, integer_argument(args, 0, NULL, 0), true, false,
               text_argument(args, 1, NULL, SLICE(" ")));
}

static value *method_zfill(struct jinja_run *run, arguments *args)
{
    return pad(run, args, integer_argument(args, 0, NULL, 0), true, false, SLICE("0"));
}

static value *filter_escape(struct jinja_run *run, arguments *args)
{
    static const struct {
        char c;
        const char *text;
    } table[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
    struct slice text = jinja_bytes(args->self);
    struct jinja_builder b = {0};
    for (size_t i = 0; i < text.len; i++) {
        const char *found = NULL;
        for (size_t k = 0; k < sizeof table / sizeof *table; k++)
            if (table[k].c == text.data[i])
                found = table[k].text;
        bool ok = found ? jinja_put(run, &b, slice_of(found), false)
                        : jinja_put_string(run, &b, args->self, i, i + 1);
        if (!ok)
            return NULL;
    }
    return jinja_built(run, &b);
}

static value *filter_urlencode(struct jinja_run *run, arguments *args)
{
    struct slice text = jinja_bytes(args->self);
    struct jinja_builder b = {0};
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                     c == '_' || c == '.' || c == '-' || c == '~' || c == '/';
        char out[4];
        snprintf(out, sizeof out, plain ? "%c" : "%%%02X", c);
        if (!jinja_put(run, &b, slice_of(out), false))
            return NULL;
    }
    return jinja_built(run, &b);
}

static value *filter_truncate(struct jinja_run *run, arguments *args)
{
    int64_t length = integer_argument(args, 0, "length", 255);
    bool kill_words = truth_argument(args, 1, "killwords", false);
    struct slice end = text_argument(args, 2, "end", SLICE("..."));
    int64_t leeway = integer_argument(args, 3, "leeway", 5);
    struct slice text = jinja_bytes(args->self);
    int64_t n = (int64_t)utf8_length(text);
    if (n <= length || n - length <= leeway)
        return args->self;
    int64_t keep = length - (int64_t)utf8_length(end);
    size_t at = 0;
    for (; keep > 0 && at < text.len; keep--)
        at += utf8_decode(text.data + at, text.len - at, &(uint32_t){0}, NULL);
    if (!kill_words) {
        size_t space = slice_find_last((struct slice){text.data, at}, SLICE(" "));
        at = space == SIZE_MAX ? at : space;
    }
    struct jinja_builder b = {0};
    return jinja_put_string(run, &b, args->self, 0, at) && jinja_put(run, &b, end, false)
               ? jinja_built(run, &b)
               : NULL;
}

static value *filter_wordcount(struct jinja_run *run, arguments *args)
{
    struct slice text = jinja_bytes(args->self);
    int64_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += !is_blank((unsigned char)text.data[i]) &&
             (i == 0 || is_blank((unsigned char)text.data[i - 1]));
    return jinja_integer(run, n);
}

static value *filter_safe(struct jinja_run *run, arguments *args)
{
    return jinja_to_string(run, args->self);
}

static value *filter_string(struct jinja_run *run, arguments *args)
{
    if (args->self->type != JINJA_STRING)
        jinja_mark_used(run, args->self, true);
    return jinja_to_string(run, args->self);
}

/* ---- Numbers ------------------------------------------------------------- */

static value *filter_int(struct jinja_run *run, arguments *args)
{
    value *fallback = jinja_argument(args, 0, "default");
    int64_t base = integer_argument(args, 1, "base", 10);
    if (jinja_is_number(args->self))
        return jinja_integer(run, jinja_as_integer(args->self));
    if (args->self->type == JINJA_STRING) {
        value *trimmed = strip(run, args->self, NULL, true, true);
        char *text = trimmed ? jinja_copy_text(run, jinja_bytes(trimmed)) : NULL;
        if (!text)
            return NULL;
        if (base != 0 && (base < 2 || base > 36))
            return jinja_fail(run, "int() base must be 0 or between 2 and 36");
        char *end;
        errno = 0;
        long long parsed = strtoll(text, &end, (int)base);
        if (*text && *end == '\0' && errno == 0)
            return jinja_integer(run, parsed);
        double real = strtod(text, &end);
        if (base == 10 && *text && *end == '\0' && fabs(real) < 9e18)
            return jinja_integer(run, (int64_t)real);
    }
    return fallback ? fallback : jinja_integer(run, 0);
}

static value *filter_float(struct jinja_run *run, arguments *args)
{
    value *fallback = jinja_argument(args, 0, "default");
    if (jinja_is_number(args->self))
        return jinja_float(run, jinja_as_double(args->self));
    if (args->self->type == JINJA_STRING) {
        value *trimmed = strip(run, args->self, NULL, true, true);
        char *text = trimmed ? jinja_copy_text(run, jinja_bytes(trimmed)) : NULL;
        if (!text)
            return NULL;
        char *end;
        double real = strtod(text, &end);
        if (*text && *end == '\0')
            return jinja_float(run, real);
    }
    return fallback ? fallback : jinja_float(run, 0);
}

static value *filter_abs(struct jinja_run *run, arguments *args)
{
    if (args->self->type == JINJA_FLOAT)
        return jinja_float(run, fabs(args->self->as.real));
    int64_t x = jinja_as_integer(args->self);
    return x == INT64_MIN ? jinja_fail(run, "the result does not fit in 64 bits")
                          : jinja_integer(run, x < 0 ? -x : x);
}

static value *filter_round(struct jinja_run *run, arguments *args)
{
    int64_t digits = integer_argument(args, 0, "precision", 0);
    struct slice how = text_argument(args, 1, "method", SLICE("common"));
    if (digits > 15 || digits < -15)
        return args->self;
    double scale = pow(10, (double)digits), x = jinja_as_double(args->self) * scale;
    double rounded = slice_equal_text(how, "ceil")    ? ceil(x)
                     : slice_equal_text(how, "floor") ? floor(x)
                                                      : nearbyint(x);
    return jinja_float(run, rounded / scale);
}

static value *is_class(struct jinja_run *run, arguments *args, bool (*holds)(unsigned char))
{
    struct slice text = jinja_bytes(args->self);
    bool all = text.len > 0;
    for (size_t i = 0; i < text.len; i++)
        all = all && holds((unsigned char)text.data[i]);
    return jinja_bool(run, all);
}

static bool digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool letter(unsigned char c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c >= 0x80;
}

static bool letter_or_digit(unsigned char c)
{
    return digit(c) || letter(c);
}

static bool blank(unsigned char c)
{
    return is_blank(c);
}

static value *method_isdigit(struct jinja_run *run, arguments *args)
{
    return is_class(run, args, digit);
}

static value *method_isalpha(struct jinja_run *run, arguments *args)
{
    return is_class(run, args, letter);
}

static value *method_isalnum(struct jinja_run *run, arguments *args)
{
    return is_class(run, args, letter_or_digit);
}

static value *method_isspace(struct jinja_run *run, arguments *args)
{
    return is_class(run, args, blank);
}

static value *all_case(struct jinja_run *run, arguments *args, bool upper)
{
    value *changed = change_case(run, args->self, upper ? CASE_UPPER : CASE_LOWER);
    value *other = change_case(run, args->self, upper ? CASE_LOWER : CASE_UPPER);
    return changed && other ? jinja_bool(run, jinja_equal(changed, args->self, 0) &&
                                                  !jinja_equal(other, args->self, 0))
                            : NULL;
}

static value *method_isupper(struct jinja_run *run, arguments *args)
{
    return all_case(run, args, true);
}

static value *method_islower(struct jinja_run *run, arguments *args)
{
    return all_case(run, args, false);
}

static value *method_join(struct jinja_run *run, arguments *args)
{
    const value *items = jinja_argument(args, 0, NULL);
    struct jinja_builder b = {0};
    if (!items || !jinja_is_sequence(items))
        return jinja_fail(run, "join() takes a list");
    for (size_t i = 0; i < items->as.items.n; i++)
        if (!jinja_step(run, 1) ||
            (i && !jinja_put_string(run, &b, args->self, 0, args->self->as.string.len)) ||
            !jinja_put_str(run, &b, items->as.items.data[i]))
            return NULL;
    return jinja_built(run, &b);
}

/* Filters that turn their input into text first say so. */
#define EMPTY_TEXT .empty_on = ON_UNDEFINED, .empty = JINJA_STRING

const struct jinja_builtin_row jinja_text_filters[] = {
    {.name = "upper", .function = filter_upper, .on = ON_ANY, .as_text = true, EMPTY_TEXT},
    {.name = "lower", .function = filter_lower, .on = ON_ANY, .as_text = true, EMPTY_TEXT},
    {.name = "capitalize",
     .function = filter_capitalize,
     .on = ON_ANY,
     .as_text = true,
     EMPTY_TEXT},
    {.name = "title", .function = filter_title, .on = ON_ANY, .as_text = true, EMPTY_TEXT},
    {.name = "trim", .function = filter_trim, .on = ON_ANY, .as_text = true, EMPTY_TEXT},
    {.name = "strip", .function = filter_trim, .on = ON_ANY, .as_text = true, EMPTY_TEXT},
    {.name = "lstrip", .function = method_lstrip, .on = ON_STRING},
    {.name = "rstrip", .function = method_rstrip, .on = ON_STRING},
    {.name = "startswith", .function = method_startswith, .on = ON_STRING},
    {.name = "endswith", .function = method_endswith, .on = ON_STRING},
    {.name = "split", .function = method_split, .on = ON_STRING},
    {.name = "rsplit", .function = method_rsplit, .on = ON_STRING},
    {.name = "replace", .function = filter_replace, .on = ON_ANY, .as_text = true, EMPTY_TEXT},
    {.name = "format", .function = filter_format, .on = ON_STRING},
    {.name = "indent", .function = filter_indent, .on = ON_STRING},
    {.name = "center", .function = filter_center, .on = ON_ANY, .as_text = true},
    {.name = "escape", .function = filter_escape, .on = ON_ANY, .as_text = true},
    {.name = "e", .function = filter_escape, .on = ON_ANY, .as_text = true},
    {.name = "urlencode", .function = filter_urlencode, .on = ON_ANY, .as_text = true},
    {.name = "truncate", .function = filter_truncate, .on = ON_ANY, .as_text = true, EMPTY_TEXT},
    {.name = "wordcount",
     .function = filter_wordcount,
     .on = ON_ANY,
     .as_text = true,
     .empty_on = ON_UNDEFINED,
     .empty = JINJA_INTEGER},
    {.name = "safe", .function = filter_safe, .on = ON_ANY, EMPTY_TEXT},
    {.name = "string", .function = filter_string, .on = ON_ANY, EMPTY_TEXT},
    {.name = "int", .function = filter_int, .on = ON_ANY},
    {.name = "float", .function = filter_float, .on = ON_ANY},
    {.name = "abs", .function = filter_abs, .on = ON_NUMBER},
    {.name = "round", .function = filter_round, .on = ON_NUMBER},
    {0},
};

const struct jinja_builtin_row jinja_text_methods[] = {
    {.name = "upper", .function = filter_upper, .on = ON_STRING},
    {.name = "lower", .function = filter_lower, .on = ON_STRING},
    {.name = "capitalize", .function = filter_capitalize, .on = ON_STRING},
    {.name = "title", .function = filter_title, .on = ON_STRING},
    {.name = "strip", .function = filter_trim, .on = ON_STRING},
    {.name = "lstrip", .function = method_lstrip, .on = ON_STRING},
    {.name = "rstrip", .function = method_rstrip, .on = ON_STRING},
    {.name = "split", .function = method_split, .on = ON_STRING},
    {.name = "rsplit", .function = method_rsplit, .on = ON_STRING},
    {.name = "splitlines", .function = method_splitlines, .on = ON_STRING},
    {.name = "partition", .function = method_partition, .on = ON_STRING},
    {.name = "rpartition", .function = method_rpartition, .on = ON_STRING},
    {.name = "startswith", .function = method_startswith, .on = ON_STRING},
    {.name = "endswith", .function = method_endswith, .on = ON_STRING},
    {.name = "removeprefix", .function = method_removeprefix, .on = ON_STRING},
    {.name = "removesuffix", .function = method_removesuffix, .on = ON_STRING},
    {.name = "replace", .function = filter_replace, .on = ON_STRING},
    {.name = "find", .function = method_find, .on = ON_STRING},
    {.name = "rfind", .function = method_rfind, .on = ON_STRING},
    {.name = "index", .function = method_index, .on = ON_STRING},
    {.name = "count", .function = method_count, .on = ON_STRING},
    {.name = "format", .function = method_format, .on = ON_STRING},
    {.name = "center", .function = filter_center, .on = ON_STRING},
    {.name = "ljust", .function = method_ljust, .on = ON_STRING},
    {.name = "rjust", .function = method_rjust, .on = ON_STRING},
    {.name = "zfill", .function = method_zfill, .on = ON_STRING},
    {.name = "isdigit", .function = method_isdigit, .on = ON_STRING},
    {.name = "isnumeric", .function = method_isdigit, .on = ON_STRING},
    {.name = "isdecimal", .function = method_isdigit, .on = ON_STRING},
    {.name = "isalpha", .function = method_isalpha, .on = ON_STRING},
    {.name = "isalnum", .function = method_isalnum, .on = ON_STRING},
    {.name = "isspace", .function = method_isspace, .on = ON_STRING},
    {.name = "isupper", .function = method_isupper, .on = ON_STRING},
    {.name = "islower", .function = method_islower, .on = ON_STRING},
    {.name = "join", .function = method_join, .on = ON_STRING},
    {0},
};
