/* json.c - parsing and printing through jansson. */
#include "base/json.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "base/vec.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOAD_FLAGS = JSON_DECODE_ANY | JSON_ALLOW_NUL, FILE_MAX_BYTES = 256 << 20 };

/* ---- memory --------------------------------------------------------------------------
 *
 * The library's scanner ignores that a token finds no memory: bytes are lost, and an
 * assertion ends the process, or the text means something else. So while a text is
 * loaded an allocation either succeeds or leaves the library for good (longjmp), and
 * all that was allocated since is freed here. */

struct blocks {
    void **data;
    size_t n, capacity;
};

struct loading {
    jmp_buf out;
    struct blocks made, dropped; /* what is freed meanwhile stays until the end: an
                                  * address stands in made once */
};

static _Thread_local struct loading *loading;

static bool remember(struct blocks *blocks, void *memory)
{
    return VEC_PUSH(blocks, memory);
}

static void free_blocks(struct blocks *blocks)
{
    for (size_t i = 0; i < blocks->n; i++)
        free(blocks->data[i]);
}

static void *allocate(size_t size)
{
    void *memory = malloc(size);
    bool ok = memory && (!loading || remember(&loading->made, memory));
    if (ok)
        return memory;
    memory_note_failure();
    if (loading) {
        free(memory);
        longjmp(loading->out, 1);
    }
    return NULL;
}

static void release(void *memory)
{
    if (!loading)
        free(memory);
    else if (memory && !remember(&loading->dropped, memory))
        longjmp(loading->out, 1);
}

__attribute__((constructor)) static void allocate_here(void)
{
    json_set_alloc_funcs(allocate, release);
}

/* NULL with line -1: out of memory. */
static json_t *load_into(struct loading *here, struct slice text, json_error_t *why)
{
    loading = here;
    if (setjmp(here->out) != 0) {
        loading = NULL;
        free_blocks(&here->made);
        why->line = -1;
        return NULL;
    }
    json_t *value = json_loadb(text.data ? text.data : "", text.len, LOAD_FLAGS, why);
    loading = NULL;
    free_blocks(&here->dropped);
    return value;
}

static json_t *load(struct slice text, json_error_t *why)
{
    struct loading here = {.made = {0}};
    json_t *value = load_into(&here, text, why);
    VEC_FREE(&here.made);
    VEC_FREE(&here.dropped);
    return value;
}

/* Write integers that no 64 bits hold as reals ("1e30" written out is common in
 * tokenizer_config.json); the library would refuse them. */
static bool widen_integers(struct slice text, struct str *out)
{
    bool in_string = false;
    for (size_t i = 0; i < text.len;) {
        char c = text.data[i];
        size_t digits = 0;
        while (!in_string && i + digits < text.len && text.data[i + digits] >= '0' &&
               text.data[i + digits] <= '9')
            digits++;
        size_t n = digits ? digits : 1;
        if (in_string && c == '\\' && i + 1 < text.len)
            n = 2;
        if (c == '"')
            in_string = !in_string;
        str_append(out, text.data + i, n);
        i += n;
        char before = i > n ? text.data[i - n - 1] : ' ', after = i < text.len ? text.data[i] : ' ';
        bool is_integer = !strchr(".eE+", before) && !strchr(".eE", after);
        if (digits > 18 && is_integer)
            str_append_text(out, ".0");
    }
    return !out->failed;
}

json_t *json_parse(struct slice text, struct error *err)
{
    json_error_t why;
    json_t *value = load(text, &why);
    if (!value && why.line >= 0 && json_error_code(&why) == json_error_numeric_overflow) {
        struct str wider = {0};
        if (widen_integers(text, &wider))
            value = load(str_slice(&wider), &why);
        else
            why.line = -1;
        str_free(&wider);
    }
    if (!value && why.line < 0)
        error_memory(err);
    else if (!value)
        error_set(err, ERR_FORMAT, "not valid JSON: %s (line %d, column %d)", why.text, why.line,
                  why.column);
    return value;
}

/* How long a string is that begins here, with its quotes. */
static size_t string_bytes(struct slice text, size_t begin)
{
    size_t i = begin + 1;
    while (i < text.len && text.data[i] != '"')
        i += text.data[i] == '\\' ? 2 : 1;
    return (i < text.len ? i + 1 : text.len) - begin;
}

/* Write the numbers that only Python knows as JSON has them. */
static bool replace_constants(struct slice text, struct str *out)
{
    static const struct {
        struct slice python, json;
    } constants[] = {{{"-Infinity", 9}, {"-1.7976931348623157e308", 23}},
                     {{"Infinity", 8}, {"1.7976931348623157e308", 22}},
                     {{"NaN", 3}, {"null", 4}}};
    for (size_t i = 0; i < text.len;) {
        size_t n = text.data[i] == '"' ? string_bytes(text, i) : 1;
        struct slice shown = {text.data + i, n};
        for (size_t k = 0; k < sizeof constants / sizeof *constants; k++)
            if (slice_starts_with(slice_from(text, i), constants[k].python)) {
                shown = constants[k].json;
                n = constants[k].python.len;
                break;
            }
        str_append(out, shown.data, shown.len);
        i += n;
    }
    return !out->failed;
}

json_t *json_parse_python(struct slice text, struct error *err)
{
    struct error why = {0};
    if (slice_starts_with(text, SLICE("\xEF\xBB\xBF"))) /* a byte order mark, of some editors */
        text = slice_from(text, 3);
    json_t *value = json_parse(text, &why);
    if (!value && why.code == ERR_FORMAT) {
        struct str plain = {0};
        struct error second = {0};
        if (replace_constants(text, &plain))
            value = json_parse(str_slice(&plain), &second);
        else
            error_memory(&why);
        str_free(&plain);
    }
    if (!value && err)
        *err = why;
    return value;
}

json_t *json_parse_file(const char *path, struct error *err)
{
    struct str text = {0};
    json_t *value = NULL;
    if (file_read_whole(path, FILE_MAX_BYTES, &text, err) &&
        !(value = json_parse_python(str_slice(&text), err)))
        error_prefix(err, "%s", path);
    str_free(&text);
    return value;
}

/* The shortest of 15, 16 or 17 digits that reads back equal. */
static bool append_real(struct str *out, double value)
{
    char text[40];
    if (!isfinite(value))
        return str_append_text(out, "null");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    return str_append_text(out, text);
}

static bool append_string(struct str *out, struct slice text)
{
    static const char hex[] = "0123456789abcdef";
    str_append_char(out, '"');
    size_t start = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F)
            continue;
        str_append(out, text.data + start, i - start);
        start = i + 1;
        switch (c) {
        case '"':
            str_append_text(out, "\\\"");
            break;
        case '\\':
            str_append_text(out, "\\\\");
            break;
        case '\n':
            str_append_text(out, "\\n");
            break;
        case '\r':
            str_append_text(out, "\\r");
            break;
        case '\t':
            str_append_text(out, "\\t");
            break;
        case '\b':
            str_append_text(out, "\\b");
            break;
        case '\f':
            str_append_text(out, "\\f");
            break;
        default: {
            char escape[7] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], 0};
            str_append_text(out, escape);
        }
        }
    }
    str_append(out, text.data + start, text.len - start);
    return str_append_char(out, '"');
}

bool json_append(struct str *out, const json_t *value)
{
    if (!value) {
        out->failed = true;
        return false;
    }
    switch (json_typeof(value)) {
    case JSON_NULL:
        return str_append_text(out, "null");
    case JSON_TRUE:
        return str_append_text(out, "true");
    case JSON_FALSE:
        return str_append_text(out, "false");
    case JSON_INTEGER:
        return str_append_format(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    case JSON_REAL:
        return append_real(out, json_real_value(value));
    case JSON_STRING:
        return append_string(out, json_slice(value));
    case JSON_ARRAY: {
        str_append_char(out, '[');
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (i)
                str_append_char(out, ',');
            json_append(out, json_array_get(value, i));
        }
        return str_append_char(out, ']');
    }
    case JSON_OBJECT: {
        str_append_char(out, '{');
        bool first = true;
        /* jansson's iterator takes a mutable object but does not change it. */
        json_t *object = (json_t *)(uintptr_t)value;
        for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
            if (!first)
                str_append_char(out, ',');
            first = false;
            append_string(out, slice_of(json_object_iter_key(it)));
            str_append_char(out, ':');
            json_append(out, json_object_iter_value(it));
        }
        return str_append_char(out, '}');
    }
    }
    return false;
}

json_t *json_string_from(struct slice text)
{
    json_t *value = json_stringn(text.data ? text.data : "", text.len);
    if (value)
        return value;
    struct str clean = {0};
    utf8_append_sanitized(&clean, text);
    value = clean.failed ? NULL : json_stringn(str_text(&clean), clean.len);
    str_free(&clean);
    return value;
}

struct slice json_slice(const json_t *value)
{
    if (!json_is_string(value))
        return (struct slice){"", 0};
    return (struct slice){json_string_value(value), json_string_length(value)};
}
