/* json_scan.c - what a JSON text costs as a tree, known before the tree is made.
 *
 * One pass over the bytes counts lists, objects, texts and numbers, and at which
 * member of the outermost object they stand. It judges no syntax: what is not
 * JSON is found by the parser, after the same few bytes. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* Bytes that the library allocates for a value, its place in a list and malloc's
 * own header included. Object members are a key and a value. */
enum { COST_OBJECT = 240, COST_LIST = 136, COST_TEXT = 104, COST_NUMBER = 48, COST_WORD = 16 };

struct scan {
    const struct json_limits *limits;
    struct slice text;
    size_t at, depth;
    bool outer_is_object, key_follows;
    const struct json_budget *field; /* what the values here are counted for */
    struct slice key;                /* the field's name; no data outside of one */
    struct json_cost here;           /* since the field began */
    struct json_cost *all;
};

static const struct json_budget *budget_of(const struct json_limits *limits, struct slice key)
{
    for (size_t i = 0; i < limits->n_fields; i++)
        if (slice_equal_text(key, limits->fields[i].name))
            return &limits->fields[i];
    return &limits->other;
}

static bool exceeds(const struct json_cost *cost, const struct json_budget *budget)
{
    return cost->bytes > budget->bytes || cost->n_containers > budget->n_containers;
}

/* Say behind the message's beginning what the limit is. */
static bool add_limit(struct error *err, const struct json_budget *budget)
{
    if (!err)
        return false;
    const char *subject = err->message;
    char whole[ERROR_MESSAGE_MAX];
    snprintf(whole, sizeof whole,
             "%.100s too many values: at most %zu lists and objects are taken, and %zu MiB of "
             "memory for all values; send fewer",
             subject, budget->n_containers, budget->bytes >> 20);
    return error_set(err, ERR_LIMIT, "%s", whole);
}

/* Count a value of so many bytes. */
static bool spend(struct scan *s, size_t bytes, size_t n_containers, struct error *err)
{
    struct json_cost *costs[] = {&s->here, s->all};
    for (size_t i = 0; i < 2; i++) {
        costs[i]->bytes += bytes;
        costs[i]->n_containers += n_containers;
    }
    bool field_is_full = exceeds(&s->here, s->field);
    const struct json_budget *full = field_is_full ? s->field : &s->limits->total;
    if (!field_is_full && !exceeds(s->all, full))
        return true;
    if (field_is_full && s->key.data)
        error_set(err, ERR_LIMIT, "Field '%.*s' holds", (int)(s->key.len < 64 ? s->key.len : 64),
                  s->key.data);
    else
        error_set(err, ERR_LIMIT, "the JSON text holds");
    return add_limit(err, full);
}

/* The end of the text that begins with the quote at s->at: behind its last quote,
 * or the end of everything. */
static size_t text_end(const struct scan *s)
{
    const char *data = s->text.data;
    size_t i = s->at + 1;
    while (i < s->text.len && data[i] != '"')
        i += data[i] == '\\' ? 2 : 1;
    return i < s->text.len ? i + 1 : s->text.len;
}

static bool take_text(struct scan *s, struct error *err)
{
    size_t begin = s->at, end = text_end(s);
    s->at = end;
    if (s->depth == 1 && s->outer_is_object && s->key_follows) {
        struct slice key = {s->text.data + begin + 1, end > begin + 1 ? end - begin - 2 : 0};
        s->field = budget_of(s->limits, key);
        s->key = key;
        s->here = (struct json_cost){0};
        s->key_follows = false;
    }
    return spend(s, COST_TEXT, 0, err);
}

static bool take_open(struct scan *s, bool is_object, struct error *err)
{
    if (s->depth++ == 0) {
        s->outer_is_object = is_object;
        s->key_follows = is_object;
    }
    s->at++;
    return spend(s, is_object ? COST_OBJECT : COST_LIST, 1, err);
}

/* A number, true, false, null; or whatever else stands there. */
static bool take_scalar(struct scan *s, struct error *err)
{
    static const char ends[256] = {
        [' '] = 1, ['\t'] = 1, ['\r'] = 1, ['\n'] = 1, [','] = 1, [':'] = 1,
        ['"'] = 1, ['['] = 1,  [']'] = 1,  ['{'] = 1,  ['}'] = 1};
    char first = s->text.data[s->at];
    do
        s->at++;
    while (s->at < s->text.len && !ends[(unsigned char)s->text.data[s->at]]);
    return spend(s, first >= 'a' && first <= 'z' ? COST_WORD : COST_NUMBER, 0, err);
}

static bool take(struct scan *s, struct error *err)
{
    char c = s->text.data[s->at];
    switch (c) {
    case '"':
        return take_text(s, err);
    case '{':
    case '[':
        return take_open(s, c == '{', err);
    case '}':
    case ']':
        s->depth -= s->depth > 0;
        break;
    case ',':
        s->key_follows = s->depth == 1;
        break;
    case ' ':
    case '\t':
    case '\r':
    case '\n':
    case ':':
        break;
    default:
        return take_scalar(s, err);
    }
    s->at++;
    return true;
}

bool json_scan(struct slice text, const struct json_limits *limits, struct json_cost *cost,
               struct error *err)
{
    struct scan s = {.limits = limits, .text = text, .field = &limits->other, .all = cost};
    while (s.at < text.len)
        if (!take(&s, err))
            return false;
    return true;
}

json_t *json_parse_within(struct slice text, const struct json_limits *limits,
                          struct json_cost *cost, struct error *err)
{
    return json_scan(text, limits, cost, err) ? json_parse(text, err) : NULL;
}
