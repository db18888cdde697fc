/* conform_compare.c - comparing answers with recordings, difference by
 * difference. */
#include "cmd/conform_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 200 }; /* bytes of a value in a message */

void differ(struct comparison *c, const char *format, ...)
{
    va_list args;
    char text[1024];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    str_append_format(&c->lines, "%s: %s\n", c->path.len ? str_text(&c->path) : "$", text);
    c->n++;
}

void comparison_free(struct comparison *c)
{
    str_free(&c->path);
    str_free(&c->lines);
}

/* The value as JSON, shortened. */
static void show(const json_t *value, char out[SHOWN_MAX + 8])
{
    struct str text = {0};
    if (value)
        json_append(&text, value);
    else
        str_append_text(&text, "nothing");
    snprintf(out, SHOWN_MAX + 8, "%.*s%s", SHOWN_MAX, str_text(&text),
             text.len > SHOWN_MAX ? "..." : "");
    str_free(&text);
}

static void differ_values(struct comparison *c, const json_t *expected, const json_t *got)
{
    char want[SHOWN_MAX + 8], have[SHOWN_MAX + 8];
    show(expected, want);
    show(got, have);
    differ(c, "expected %s, got %s", want, have);
}

/* ---- Text ------------------------------------------------------------- */

/* What stands before a quotation of somebody else's wording. */
static struct slice own_words(struct slice text, bool *quotes)
{
    static const char *const marks[] = {"[json.exception", ": stoi", ": stof"};
    *quotes = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t at = slice_find(text, 0, slice_of(marks[i]));
        if (at != SLICE_NOT_FOUND) {
            *quotes = true;
            text.len = at;
        }
    }
    return text;
}

static bool same_text(struct slice expected, struct slice got)
{
    bool quotes;
    struct slice own = own_words(expected, &quotes);
    return quotes ? slice_starts_with(got, own) : slice_equal(expected, got);
}

/* Show where texts part, not both whole: they may be long. */
void compare_text(struct comparison *c, struct slice expected, struct slice got)
{
    if (same_text(expected, got))
        return;
    size_t same = 0;
    while (same < expected.len && same < got.len && expected.data[same] == got.data[same])
        same++;
    size_t from = same > 40 ? same - 40 : 0;
    json_t *w = json_string_from(slice_from(expected, from));
    json_t *h = json_string_from(slice_from(got, from));
    char shown_w[SHOWN_MAX + 8], shown_h[SHOWN_MAX + 8];
    show(w, shown_w);
    show(h, shown_h);
    if (from)
        differ(c, "text differs at byte %zu: expected ...%s, got ...%s", same, shown_w, shown_h);
    else
        differ(c, "expected %s, got %s", shown_w, shown_h);
    json_decref(w);
    json_decref(h);
}

/* In a recorded text of metrics "N" stands for any number at a line's end. */
static bool next_line(struct slice *text, struct slice *line)
{
    if (text->len == 0)
        return false;
    const char *end = memchr(text->data, '\n', text->len);
    *line = (struct slice){text->data, end ? (size_t)(end - text->data) : text->len};
    *text = slice_from(*text, line->len + (end != NULL));
    return true;
}

static bool is_number_after(struct slice line, size_t prefix)
{
    char number[64], *end;
    struct slice rest = slice_from(line, prefix);
    if (rest.len == 0 || rest.len >= sizeof number)
        return false;
    memcpy(number, rest.data, rest.len);
    number[rest.len] = '\0';
    strtod(number, &end);
    return *end == '\0';
}

static void compare_metrics(struct comparison *c, struct slice expected, struct slice got)
{
    struct slice want, have = {"", 0};
    while (next_line(&expected, &want)) {
        bool there = next_line(&got, &have);
        bool any = slice_ends_with(want, SLICE(" N"));
        struct slice fixed = {want.data, any ? want.len - 1 : want.len};
        bool same = any ? slice_starts_with(have, fixed) && is_number_after(have, fixed.len)
                        : slice_equal(want, have);
        if (!there || !same)
            differ(c, "expected the line '%.*s', got '%.*s'", (int)want.len, want.data,
                   there ? (int)have.len : 0, have.data);
    }
    if (got.len)
        differ(c, "has %zu bytes more than expected", got.len);
}

/* ---- Numbers ---------------------------------------------------------- */

static bool close_enough(double expected, double got)
{
    return fabs(expected - got) <= 0.03 + 0.01 * fabs(expected);
}

static const double VECTOR_WITHIN = 2e-3;

/* What the components of an embedding may differ by; 0: the array is none. The
 * rounding errors of a vector are those of its largest component: scaled to
 * 32760, what is small in it is no more exact than the rest. */
static double vector_within(const json_t *array)
{
    enum { VECTOR_MIN = 8 };
    double largest = 1;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *item = json_array_get(array, i);
        if (!json_is_real(item))
            return 0;
        largest = fmax(largest, fabs(json_real_value(item)));
    }
    return json_array_size(array) >= VECTOR_MIN ? VECTOR_WITHIN * largest : 0;
}

static bool same_number(const struct comparison *c, const json_t *expected, const json_t *got)
{
    if (json_is_integer(expected) && json_is_integer(got))
        return json_integer_value(expected) == json_integer_value(got);
    double want = json_number_value(expected), have = json_number_value(got);
    return json_is_number(got) &&
           (c->within > 0 ? fabs(want - have) <= c->within : close_enough(want, have));
}

/* ---- Embeddings in base64 --------------------------------------------- */

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Little-endian floats; false when it is no base64 of whole floats. */
static bool decode_floats(struct slice text, struct str *out)
{
    uint32_t bits = 0;
    int n_bits = 0;
    while (text.len && text.data[text.len - 1] == '=')
        text.len--;
    for (size_t i = 0; i < text.len; i++) {
        int digit = base64_digit(text.data[i]);
        if (digit < 0)
            return false;
        bits = (bits << 6) | (uint32_t)digit;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            str_append_char(out, (char)(bits >> n_bits));
        }
    }
    return out->len > 0 && out->len % 4 == 0;
}

/* True when the pair was an embedding in base64 and has been compared. */
static bool compare_base64_embedding(struct comparison *c, struct slice expected, struct slice got)
{
    struct str want = {0}, have = {0};
    bool is_one = expected.len > 20 && decode_floats(expected, &want);
    if (is_one && (!decode_floats(got, &have) || have.len != want.len))
        differ(c, "expected base64 of %zu floats, got %zu bytes", want.len / 4, have.len);
    else if (is_one)
        for (size_t i = 0; i + 4 <= want.len; i += 4) {
            float w, h;
            memcpy(&w, want.data + i, 4);
            memcpy(&h, have.data + i, 4);
            if (!(fabs((double)w - (double)h) <= VECTOR_WITHIN))
                differ(c, "float %zu: expected %g, got %g", i / 4, (double)w, (double)h);
        }
    str_free(&want);
    str_free(&have);
    return is_one;
}

/* ---- Values ----------------------------------------------------------- */

static bool matches_any(const char *type, const json_t *got)
{
    if (strcmp(type, "number") == 0)
        return json_is_number(got);
    return strcmp(type, "string") == 0 && json_is_string(got);
}

/* With requests sent at once, which slot serves one, and so what the slot's
 * cache already has of its prompt, is chance: how long the prompt is, is not. */
static bool depends_on_slot(const char *key)
{
    static const char *const keys[] = {"id_slot", "cache_n", "prompt_n"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static void compare_prompt_length(struct comparison *c, const json_t *expected, const json_t *got)
{
    static const char *const parts[] = {"cache_n", "prompt_n"};
    json_int_t want = 0, have = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *part = json_object_get(expected, parts[i]);
        if (!json_is_integer(part))
            return;
        want += json_integer_value(part);
        have += json_integer_value(json_object_get(got, parts[i]));
    }
    if (want != have)
        differ(c, "expected cache_n and prompt_n to be %lld together, got %lld", (long long)want,
               (long long)have);
}

static void compare_member(struct comparison *c, const char *key, const json_t *expected,
                           const json_t *got)
{
    size_t len = c->path.len;
    if (len == 0)
        str_append_char(&c->path, '$');
    str_append_format(&c->path, ".%s", key);
    if (!got)
        differ_values(c, expected, NULL);
    else if (c->ignore_slots && depends_on_slot(key) && json_typeof(expected) == json_typeof(got))
        ;
    else if (strcmp(key, "embedding") == 0 && json_is_string(expected) && json_is_string(got) &&
             compare_base64_embedding(c, json_slice(expected), json_slice(got)))
        ;
    else
        compare_json(c, expected, got);
    str_truncate(&c->path, len);
}

static void compare_object(struct comparison *c, const json_t *expected, const json_t *got)
{
    json_t *want = (json_t *)(uintptr_t)expected, *have = (json_t *)(uintptr_t)got;
    const char *key;
    json_t *value;
    json_object_foreach(want, key, value) compare_member(c, key, value, json_object_get(got, key));
    if (c->ignore_slots)
        compare_prompt_length(c, expected, got);
    json_object_foreach(have, key, value)
    {
        if (json_object_get(expected, key))
            continue;
        char shown[SHOWN_MAX + 8];
        show(value, shown);
        differ(c, "has '%s' (%s), which was not expected", key, shown);
    }
}

static void compare_array(struct comparison *c, const json_t *expected, const json_t *got)
{
    size_t n_expected = json_array_size(expected), n_got = json_array_size(got);
    if (n_expected != n_got)
        differ(c, "expected %zu items, got %zu", n_expected, n_got);
    c->within = vector_within(expected);
    for (size_t i = 0; i < n_expected && i < n_got; i++) {
        size_t len = c->path.len;
        str_append_format(&c->path, "%s[%zu]", len ? "" : "$", i);
        compare_json(c, json_array_get(expected, i), json_array_get(got, i));
        str_truncate(&c->path, len);
    }
    c->within = 0;
}

void compare_json(struct comparison *c, const json_t *expected, const json_t *got)
{
    const json_t *any = json_object_get(expected, "$any");
    if (any && json_object_size(expected) == 1) {
        if (!matches_any(json_string_value(any), got))
            differ_values(c, expected, got);
    } else if (json_is_object(expected) && json_is_object(got)) {
        compare_object(c, expected, got);
    } else if (json_is_array(expected) && json_is_array(got)) {
        compare_array(c, expected, got);
    } else if (json_is_string(expected) && json_is_string(got)) {
        compare_text(c, json_slice(expected), json_slice(got));
    } else if (json_is_number(expected)) {
        if (!same_number(c, expected, got))
            differ_values(c, expected, got);
    } else if (json_typeof(expected) != json_typeof(got)) {
        differ_values(c, expected, got);
    }
}

/* ---- Responses -------------------------------------------------------- */

static void compare_headers(struct comparison *c, const json_t *expected, const json_t *got)
{
    json_t *want = (json_t *)(uintptr_t)expected, *have = (json_t *)(uintptr_t)got;
    const char *key;
    json_t *value;
    json_object_foreach(want, key, value)
    {
        const json_t *theirs = json_object_get(got, key);
        /* Recorders write an empty text both for an empty header and none. */
        struct slice text = theirs ? json_slice(theirs) : SLICE("");
        str_clear(&c->path);
        str_append_format(&c->path, "header %s", key);
        compare_text(c, json_slice(value), text);
    }
    json_object_foreach(have, key, value)
    {
        if (strncmp(key, "access-control-", 15) != 0 || json_object_get(expected, key))
            continue;
        str_clear(&c->path);
        str_append_format(&c->path, "header %s", key);
        differ(c, "was not expected, got '%s'", json_string_value(value));
    }
    str_clear(&c->path);
}

static void compare_body(struct comparison *c, const char *kind, const json_t *expected,
                         const json_t *got)
{
    const json_t *theirs = json_object_get(got, kind);
    if (!theirs) {
        char shown[SHOWN_MAX + 8];
        const json_t *text = json_object_get(got, "text");
        const json_t *json = json_object_get(got, "json");
        show(text ? text : json ? json : json_object_get(got, "events"), shown);
        differ(c, "expected a body of %s, got %s", kind, shown);
    } else if (c->numerics != NUMERICS_NONE &&
               json_object_get(expected, "completion_probabilities")) {
        compare_numerics(c, expected, theirs);
    } else if (json_is_string(expected) && json_is_string(theirs) &&
               slice_starts_with(json_slice(expected), SLICE("# HELP"))) {
        compare_metrics(c, json_slice(expected), json_slice(theirs));
    } else {
        compare_json(c, expected, theirs);
    }
}

/* A part of a recording that is not understood is not compared, and so must not
 * pass. */
static void refuse_unknown_parts(struct comparison *c, const json_t *expected)
{
    static const char *const known[] = {"status", "headers", "json", "text", "events"};
    json_t *parts = (json_t *)(uintptr_t)expected;
    const char *key;
    json_t *value;
    json_object_foreach(parts, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || strcmp(key, known[i]) == 0;
        if (!found)
            differ(c, "the recorded response has '%s', which cannot be compared", key);
    }
}

void compare_response(struct comparison *c, const json_t *expected, const json_t *got)
{
    static const char *const bodies[] = {"json", "text", "events"};
    refuse_unknown_parts(c, expected);
    json_int_t want = json_integer_value(json_object_get(expected, "status"));
    json_int_t have = json_integer_value(json_object_get(got, "status"));
    if (want != have) {
        str_append_text(&c->path, "status");
        differ(c, "expected %d, got %d", (int)want, (int)have);
        str_clear(&c->path);
    }
    const json_t *headers = json_object_get(expected, "headers");
    if (headers)
        compare_headers(c, headers, json_object_get(got, "headers"));
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        const json_t *body = json_object_get(expected, bodies[i]);
        if (body)
            compare_body(c, bodies[i], body, got);
    }
}
