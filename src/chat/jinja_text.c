/* jinja_text.c - values as text: output, str(), repr(), JSON. */
#include "chat/jinja_value.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_DEPTH = 100 };

static bool reserve(struct jinja_run *run, struct jinja_builder *b, size_t extra)
{
    if (extra <= b->capacity - b->len)
        return true;
    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity - b->len < extra) {
        if (capacity > SIZE_MAX / 2)
            return jinja_fail(run, "the text is too long") != NULL;
        capacity *= 2;
    }
    if (jinja_extend(&run->bytes, b->data, b->capacity, capacity)) {
        b->capacity = capacity;
        return true;
    }
    char *grown = jinja_alloc_bytes(run, capacity);
    if (!grown)
        return false;
    if (b->len)
        memcpy(grown, b->data, b->len);
    b->data = grown;
    b->capacity = capacity;
    return true;
}

static bool add_span(struct jinja_run *run, struct jinja_builder *b, size_t begin, size_t end)
{
    if (b->n_spans && b->spans[b->n_spans - 1].end == begin) {
        b->spans[b->n_spans - 1].end = end;
        return true;
    }
    if (b->n_spans == b->spans_capacity) {
        size_t capacity = b->spans_capacity ? b->spans_capacity * 2 : 8;
        struct jinja_span *grown = jinja_alloc(run, capacity * sizeof *grown);
        if (!grown)
            return false;
        if (b->n_spans)
            memcpy(grown, b->spans, b->n_spans * sizeof *grown);
        b->spans = grown;
        b->spans_capacity = capacity;
    }
    b->spans[b->n_spans++] = (struct jinja_span){begin, end};
    return true;
}

bool jinja_put(struct jinja_run *run, struct jinja_builder *b, struct slice text, bool marked)
{
    if (text.len == 0)
        return true;
    if (!reserve(run, b, text.len))
        return false;
    memcpy(b->data + b->len, text.data, text.len);
    size_t begin = b->len;
    b->len += text.len;
    return !marked || add_span(run, b, begin, b->len);
}

bool jinja_put_string(struct jinja_run *run, struct jinja_builder *b,
                      const struct jinja_value *text, size_t begin, size_t end)
{
    const struct jinja_string *s = &text->as.string;
    if (!s->marks)
        return jinja_put(run, b, (struct slice){s->data + begin, end - begin}, s->marked);
    while (begin < end) {
        size_t stop = begin;
        while (stop < end && s->marks[stop] == s->marks[begin])
            stop++;
        if (!jinja_put(run, b, (struct slice){s->data + begin, stop - begin}, s->marks[begin]))
            return false;
        begin = stop;
    }
    return true;
}

struct jinja_value *jinja_built(struct jinja_run *run, struct jinja_builder *b)
{
    struct jinja_value *v = jinja_new(run, JINJA_STRING);
    if (!v)
        return NULL;
    v->as.string.data = b->data ? b->data : "";
    v->as.string.len = b->len;
    if (b->len) /* give back what it did not need */
        jinja_extend(&run->bytes, b->data, b->capacity, b->len);
    if (b->n_spans == 0)
        return v;
    if (b->n_spans == 1 && b->spans[0].begin == 0 && b->spans[0].end == b->len) {
        v->as.string.marked = true;
        return v;
    }
    uint8_t *marks = jinja_alloc_marks(run, b->len);
    if (!marks)
        return NULL;
    memset(marks, 0, b->len);
    for (size_t i = 0; i < b->n_spans; i++)
        memset(marks + b->spans[i].begin, 1, b->spans[i].end - b->spans[i].begin);
    v->as.string.marks = marks;
    return v;
}

/* ---- Numbers ------------------------------------------------------------- */

/* As Python's repr: the shortest digits that read back the same, an exponent
 * below 1e-4 and from 1e16. */
static size_t format_float(double value, char out[64])
{
    if (isnan(value))
        return (size_t)snprintf(out, 64, "nan");
    if (isinf(value))
        return (size_t)snprintf(out, 64, value < 0 ? "-inf" : "inf");
    char digits[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    const char *e = strchr(digits, 'e');
    long exponent = e ? strtol(e + 1, NULL, 10) : 0;
    size_t mantissa = e ? (size_t)(e - digits) : strlen(digits);
    if (exponent < -4 || exponent >= 16)
        return (size_t)snprintf(out, 64, "%.*se%s%02ld", (int)mantissa, digits,
                                exponent < 0 ? "-" : "+", labs(exponent));
    size_t n_fraction = mantissa > 2 ? mantissa - (size_t)(strchr(digits, '.') - digits) - 1 : 0;
    long after = (long)n_fraction - exponent;
    return (size_t)snprintf(out, 64, "%.*f", after < 1 ? 1 : (int)after, value);
}

static bool put_number(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v)
{
    char text[64];
    size_t n = v->type == JINJA_FLOAT
                   ? format_float(v->as.real, text)
                   : (size_t)snprintf(text, sizeof text, "%lld", (long long)v->as.integer);
    return jinja_put(run, b, (struct slice){text, n}, false);
}

/* ---- str, repr, output --------------------------------------------------- */

static bool put_quoted(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v)
{
    struct slice text = jinja_bytes(v);
    bool single = text.len && memchr(text.data, '\'', text.len);
    bool both = single && memchr(text.data, '"', text.len);
    const char *quote = single && !both ? "\"" : "'";
    if (!jinja_put(run, b, slice_of(quote), false))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        static const char from[] = "\n\t\r\\", to[] = "ntr\\";
        char c = text.data[i], escaped[8];
        const char *found = c ? strchr(from, c) : NULL;
        bool ok;
        if (found || (c == '\'' && both)) {
            snprintf(escaped, sizeof escaped, "\\%c", found ? to[found - from] : c);
            ok = jinja_put(run, b, slice_of(escaped), false);
        } else if ((unsigned char)c < 0x20 || c == 0x7f) {
            snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)c);
            ok = jinja_put(run, b, slice_of(escaped), false);
        } else {
            size_t end = i + 1; /* a run of plain bytes in one go */
            while (end < text.len && (unsigned char)text.data[end] >= 0x20 &&
                   text.data[end] != 0x7f && text.data[end] != '\\' && text.data[end] != '\'')
                end++;
            ok = jinja_put_string(run, b, v, i, end);
            i = end - 1;
        }
        if (!ok)
            return false;
    }
    return jinja_put(run, b, slice_of(quote), false);
}

static bool put_items_repr(struct jinja_run *run, struct jinja_builder *b,
                           const struct jinja_value *v, unsigned depth)
{
    bool tuple = v->type == JINJA_TUPLE;
    bool ok = jinja_put(run, b, slice_of(tuple ? "(" : "["), false);
    for (size_t i = 0; ok && i < v->as.items.n; i++)
        ok = (i == 0 || jinja_put(run, b, SLICE(", "), false)) &&
             jinja_put_repr(run, b, v->as.items.data[i], depth + 1);
    if (ok && tuple && v->as.items.n == 1)
        ok = jinja_put(run, b, SLICE(","), false);
    return ok && jinja_put(run, b, slice_of(tuple ? ")" : "]"), false);
}

bool jinja_put_repr(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v,
                    unsigned depth)
{
    if (depth > TEXT_DEPTH)
        return jinja_fail(run, "nested too deeply to print") != NULL;
    if (!jinja_step(run, 1))
        return false;
    switch (v->type) {
    case JINJA_UNDEFINED:
        return true;
    case JINJA_NONE:
        return jinja_put(run, b, SLICE("None"), false);
    case JINJA_BOOL:
        return jinja_put(run, b, slice_of(v->as.boolean ? "True" : "False"), false);
    case JINJA_INTEGER:
    case JINJA_FLOAT:
        return put_number(run, b, v);
    case JINJA_STRING:
        return put_quoted(run, b, v);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return put_items_repr(run, b, v, depth);
    case JINJA_DICT: {
        bool ok = jinja_put(run, b, SLICE("{"), false);
        for (size_t i = 0; ok && i < v->as.dict->n; i++)
            ok = (i == 0 || jinja_put(run, b, SLICE(", "), false)) &&
                 jinja_put_repr(run, b, v->as.dict->entries[i].key, depth + 1) &&
                 jinja_put(run, b, SLICE(": "), false) &&
                 jinja_put_repr(run, b, v->as.dict->entries[i].value, depth + 1);
        return ok && jinja_put(run, b, SLICE("}"), false);
    }
    case JINJA_FUNCTION:
        return jinja_put(run, b, SLICE("<function "), false) &&
               jinja_put(run, b, slice_of(v->as.callable->name), false) &&
               jinja_put(run, b, SLICE(">"), false);
    default:
        return jinja_put(run, b, SLICE("<loop>"), false);
    }
}

bool jinja_put_str(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v)
{
    return v->type == JINJA_STRING ? jinja_put_string(run, b, v, 0, v->as.string.len)
                                   : jinja_put_repr(run, b, v, 0);
}

bool jinja_put_output(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v,
                      unsigned depth)
{
    if (v->type == JINJA_STRING)
        return jinja_put_string(run, b, v, 0, v->as.string.len);
    if (jinja_is_number(v))
        return jinja_put_repr(run, b, v, 0);
    if (!jinja_is_sequence(v))
        return true;
    if (depth > TEXT_DEPTH)
        return jinja_fail(run, "nested too deeply to print") != NULL;
    for (size_t i = 0; i < v->as.items.n; i++)
        if (!jinja_step(run, 1) || !jinja_put_output(run, b, v->as.items.data[i], depth + 1))
            return false;
    return true;
}

struct jinja_value *jinja_to_string(struct jinja_run *run, struct jinja_value *v)
{
    if (!v || v->type == JINJA_STRING)
        return v;
    struct jinja_builder b = {0};
    return jinja_put_str(run, &b, v) ? jinja_built(run, &b) : NULL;
}

/* ---- JSON ---------------------------------------------------------------- */

static bool put_ascii(struct jinja_run *run, struct jinja_builder *b, uint32_t codepoint,
                      bool marked)
{
    char text[16];
    if (codepoint > 0xffff) {
        codepoint -= 0x10000;
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + (codepoint >> 10),
                 0xdc00 + (codepoint & 0x3ff));
    } else {
        snprintf(text, sizeof text, "\\u%04x", codepoint);
    }
    return jinja_put(run, b, slice_of(text), marked);
}

static bool put_json_string(struct jinja_run *run, struct jinja_builder *b,
                            const struct jinja_value *v, bool ensure_ascii)
{
    struct slice text = jinja_bytes(v);
    const struct jinja_string *s = &v->as.string;
    if (!jinja_put(run, b, SLICE("\""), false))
        return false;
    for (size_t i = 0; i < text.len;) {
        static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
        char c = text.data[i], escaped[8];
        bool marked = s->marks ? s->marks[i] != 0 : s->marked, ok;
        const char *found = c ? strchr(from, c) : NULL;
        if (found) {
            snprintf(escaped, sizeof escaped, "\\%c", to[found - from]);
            ok = jinja_put(run, b, slice_of(escaped), marked);
            i++;
        } else if ((unsigned char)c < 0x20) {
            ok = put_ascii(run, b, (unsigned char)c, marked);
            i++;
        } else if (ensure_ascii && (unsigned char)c >= 0x80) {
            uint32_t codepoint;
            i += utf8_decode(text.data + i, text.len - i, &codepoint, NULL);
            ok = put_ascii(run, b, codepoint, marked);
        } else {
            size_t end = i + 1;
            while (end < text.len && (unsigned char)text.data[end] >= 0x20 &&
                   text.data[end] != '"' && text.data[end] != '\\' &&
                   !(ensure_ascii && (unsigned char)text.data[end] >= 0x80))
                end++;
            ok = jinja_put_string(run, b, v, i, end);
            i = end;
        }
        if (!ok)
            return false;
    }
    return jinja_put(run, b, SLICE("\""), false);
}

static bool put_line(struct jinja_run *run, struct jinja_builder *b,
                     const struct jinja_json_style *style, unsigned level)
{
    if (style->indent < 0)
        return true;
    bool ok = jinja_put(run, b, SLICE("\n"), false);
    for (unsigned i = 0; ok && i < level * (unsigned)style->indent; i++)
        ok = jinja_put(run, b, SLICE(" "), false);
    return ok;
}

static int by_key(const void *a, const void *b)
{
    int order = jinja_order((*(struct jinja_entry *const *)a)->key,
                            (*(struct jinja_entry *const *)b)->key, 0);
    return order == 2 ? 0 : order;
}

static bool put_json_dict(struct jinja_run *run, struct jinja_builder *b,
                          const struct jinja_dict *dict, const struct jinja_json_style *style,
                          unsigned level)
{
    struct jinja_entry **order = jinja_alloc(run, (dict->n + 1) * sizeof *order);
    if (!order)
        return false;
    for (size_t i = 0; i < dict->n; i++)
        order[i] = &dict->entries[i];
    if (style->sort_keys && dict->n > 1)
        qsort(order, dict->n, sizeof *order, by_key);
    bool ok = jinja_put(run, b, SLICE("{"), false);
    for (size_t i = 0; ok && i < dict->n; i++) {
        struct jinja_value *key = jinja_to_string(run, order[i]->key);
        ok = key && (i == 0 || jinja_put(run, b, style->item_separator, false)) &&
             put_line(run, b, style, level + 1) &&
             put_json_string(run, b, key, style->ensure_ascii) &&
             jinja_put(run, b, style->key_separator, false) &&
             jinja_put_json(run, b, order[i]->value, style, level + 1);
    }
    return ok && (dict->n == 0 || put_line(run, b, style, level)) &&
           jinja_put(run, b, SLICE("}"), false);
}

bool jinja_put_json(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v,
                    const struct jinja_json_style *style, unsigned level)
{
    if (level > TEXT_DEPTH)
        return jinja_fail(run, "nested too deeply for tojson") != NULL;
    if (!jinja_step(run, 1))
        return false;
    switch (v->type) {
    case JINJA_BOOL:
        return jinja_put(run, b, slice_of(v->as.boolean ? "true" : "false"), false);
    case JINJA_INTEGER:
        return put_number(run, b, v);
    case JINJA_FLOAT:
        if (!isfinite(v->as.real))
            return jinja_put(run, b,
                             slice_of(isnan(v->as.real)  ? "NaN"
                                      : v->as.real < 0.0 ? "-Infinity"
                                                         : "Infinity"),
                             false);
        return put_number(run, b, v);
    case JINJA_STRING:
        return put_json_string(run, b, v, style->ensure_ascii);
    case JINJA_LIST:
    case JINJA_TUPLE: {
        bool ok = jinja_put(run, b, SLICE("["), false);
        for (size_t i = 0; ok && i < v->as.items.n; i++)
            ok = (i == 0 || jinja_put(run, b, style->item_separator, false)) &&
                 put_line(run, b, style, level + 1) &&
                 jinja_put_json(run, b, v->as.items.data[i], style, level + 1);
        return ok && (v->as.items.n == 0 || put_line(run, b, style, level)) &&
               jinja_put(run, b, SLICE("]"), false);
    }
    case JINJA_DICT:
        return put_json_dict(run, b, v->as.dict, style, level);
    default:
        return jinja_put(run, b, SLICE("null"), false);
    }
}
