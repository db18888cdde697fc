/* apply.c - one use of an option becomes a value in struct options. */
#include "options/table.h"

#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_OPTION_FILE = 64 << 20 };

bool option_warn(struct option_parser *p, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return list_push(p->options, &p->options->warnings, slice_of(line));
}

bool bad_value(const struct option_use *use, struct error *err, const char *accepted)
{
    return error_set(err, ERR_INVALID, "%s: '%.200s' is not accepted; expected %s", use->source,
                     use->value ? use->value : "", accepted);
}

const char *options_text(struct options *o, struct slice text)
{
    return arena_duplicate(&o->arena, text);
}

/* Lists live in the arena like everything else, so growing one leaves the old
 * copy behind; they are short. */
bool list_push(struct options *o, struct option_list *list, struct slice text)
{
    const char *copy = options_text(o, text);
    if (!copy)
        return false;
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 8;
        const char **data = arena_alloc_array(&o->arena, capacity, sizeof *data);
        if (!data)
            return false;
        if (list->n)
            memcpy(data, list->data, list->n * sizeof *data);
        list->data = data;
        list->capacity = capacity;
    }
    list->data[list->n++] = copy;
    return true;
}

bool list_insert(struct options *o, struct option_list *list, struct slice text)
{
    if (!list_push(o, list, text))
        return false;
    const char *added = list->data[list->n - 1];
    size_t i = list->n - 1;
    while (i > 0 && strcmp(list->data[i - 1], added) > 0)
        i--;
    if (i > 0 && strcmp(list->data[i - 1], added) == 0) {
        list->n--;
        return true;
    }
    memmove(&list->data[i + 1], &list->data[i], (list->n - 1 - i) * sizeof *list->data);
    list->data[i] = added;
    return true;
}

bool text_is_true(const char *text)
{
    return !strcmp(text, "on") || !strcmp(text, "enabled") || !strcmp(text, "true") ||
           !strcmp(text, "1");
}

bool text_is_false(const char *text)
{
    return !strcmp(text, "off") || !strcmp(text, "disabled") || !strcmp(text, "false") ||
           !strcmp(text, "0");
}

bool text_is_auto(const char *text)
{
    return !strcmp(text, "auto") || !strcmp(text, "-1");
}

static bool only_blanks(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

bool read_int(const struct option_use *use, int64_t min, int64_t max, int64_t *out,
              struct error *err)
{
    errno = 0;
    char *end;
    long long value = strtoll(use->value, &end, 10);
    if (end == use->value || !only_blanks(end) || errno == ERANGE || value < min || value > max) {
        char accepted[96];
        if (min == INT32_MIN && max == INT32_MAX)
            snprintf(accepted, sizeof accepted, "a whole number");
        else if (max == INT32_MAX)
            snprintf(accepted, sizeof accepted, "a whole number, %" PRId64 " or more", min);
        else if (min == INT32_MIN)
            snprintf(accepted, sizeof accepted, "a whole number, at most %" PRId64, max);
        else
            snprintf(accepted, sizeof accepted, "a whole number, %" PRId64 " to %" PRId64, min,
                     max);
        return bad_value(use, err, accepted);
    }
    *out = value;
    return true;
}

bool read_tristate(const struct option_use *use, int *out, struct error *err)
{
    if (text_is_true(use->value))
        *out = OPTION_ON;
    else if (text_is_false(use->value))
        *out = OPTION_OFF;
    else if (text_is_auto(use->value))
        *out = OPTION_AUTO;
    else
        return bad_value(use, err, "on, off or auto");
    return true;
}

static bool read_float(const struct option_use *use, float *out, struct error *err)
{
    const struct option *o = use->option;
    char *end;
    float value = strtof(use->value, &end);
    bool ranged = o->min != 0 || o->max != 0;
    if (end == use->value || !only_blanks(end) || !isfinite(value) ||
        (ranged && ((double)value < o->min || (double)value > o->max)))
        return bad_value(use, err, ranged ? "a number in its range" : "a number");
    *out = value;
    return true;
}

static bool read_choice(const struct option_use *use, int *out, struct error *err)
{
    const char *rest = use->option->choices;
    struct slice word;
    struct str accepted = {0};
    while (next_word(&rest, &word)) {
        size_t len = word.len;
        while (len > 0 && word.data[len - 1] != '=')
            len--;
        struct slice name = {word.data, len ? len - 1 : 0};
        if (slice_equal_text(name, use->value)) {
            *out = atoi(word.data + len);
            str_free(&accepted);
            return true;
        }
        if (name.len) {
            str_append_text(&accepted, accepted.len ? ", " : "");
            str_append_slice(&accepted, name);
        }
    }
    bad_value(use, err, str_text(&accepted));
    str_free(&accepted);
    return false;
}

/* Remember the first refusal; parsing goes on, because an action that follows
 * (--version) makes it moot. */
static void refuse(struct option_parser *p, const struct option_use *use)
{
    if (p->refused.code != ERR_NONE)
        return;
    const struct option *o = use->option;
    error_set(&p->refused, ERR_UNSUPPORTED, "%s%s%.200s: %s", use->source, use->value ? " " : "",
              use->value ? use->value : "", o->note);
}

/* The same text, or the same number; a word '' stands for the empty text. */
static bool same_value(struct slice word, const char *value)
{
    if (slice_equal_text(word, "''"))
        return *value == '\0';
    if (slice_equal_text(word, value))
        return true;
    char text[32], *end, *value_end;
    if (word.len >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)word.len, word.data);
    double wanted = strtod(text, &end), given = strtod(value, &value_end);
    return end != text && !*end && value_end != value && only_blanks(value_end) && wanted == given;
}

/* Nothing would change: the value may pass. */
static bool is_inert(const struct option_use *use)
{
    const char *inert = use->option->inert;
    if (!inert)
        return false;
    if (!strcmp(inert, "*"))
        return true;
    if (!use->value)
        return !use->on && !strcmp(inert, "off");
    struct slice word;
    while (next_word(&inert, &word))
        if (same_value(word, use->value))
            return true;
    return false;
}

static bool apply_refused(struct option_parser *p, const struct option_use *use, struct error *err)
{
    const struct option *o = use->option;
    int64_t n;
    if (!is_inert(use))
        refuse(p, use);
    return !use->value || o->max == 0 || read_int(use, (int64_t)o->min, (int64_t)o->max, &n, err);
}

bool apply_tensor_placement(struct option_parser *p, const struct option_use *use,
                            struct error *err)
{
    for (const char *part = use->value; part;) {
        const char *comma = strchr(part, ',');
        struct slice item = {part, comma ? (size_t)(comma - part) : strlen(part)};
        const char *equals = memchr(item.data, '=', item.len);
        if (!equals)
            return bad_value(use, err, "PATTERN=BUFFER, several with commas");
        if (!slice_equal_text(slice_from(item, (size_t)(equals - item.data) + 1), "CPU")) {
            refuse(p, use);
            return true;
        }
        part = comma ? comma + 1 : NULL;
    }
    return true;
}

bool apply_spec_type(struct option_parser *p, const struct option_use *use, struct error *err)
{
    (void)p;
    for (const char *part = use->value; part;) {
        const char *comma = strchr(part, ',');
        struct slice item = {part, comma ? (size_t)(comma - part) : strlen(part)};
        const char *known = use->option->value;
        bool found = false;
        while (known && !found) {
            const char *next = strchr(known, ',');
            struct slice name = {known, next ? (size_t)(next - known) : strlen(known)};
            found = slice_equal(name, item);
            known = next ? next + 1 : NULL;
        }
        if (!found)
            return bad_value(use, err, use->option->value);
        part = comma ? comma + 1 : NULL;
    }
    return true;
}

static bool apply_expands(struct option_parser *p, const struct option_use *use, struct error *err)
{
    const char *rest = use->option->note;
    struct slice word;
    while (next_word(&rest, &word)) {
        char name[64], value[256];
        snprintf(name, sizeof name, "%.*s", (int)word.len, word.data);
        struct option_use inner = {.source = use->source};
        inner.option = option_find(name, &inner.on);
        if (!inner.option)
            return error_set(err, ERR_INTERNAL, "%s expands to the unknown %s", use->source, name);
        if (inner.option->value) {
            next_word(&rest, &word);
            snprintf(value, sizeof value, "%.*s", (int)word.len, word.data);
            inner.value = value;
        }
        if (!option_apply(p, &inner, err))
            return false;
    }
    return true;
}

static bool apply_action(struct option_parser *p, const struct option *o)
{
    p->options->action = (enum options_action)o->number;
    /* --help and --completion-bash wait until everything else was understood. */
    p->stop = o->number != ACTION_HELP && o->number != ACTION_COMPLETION_BASH;
    return true;
}

static bool apply_by_type(struct option_parser *p, const struct option_use *use, struct error *err)
{
    const struct option *o = use->option;
    void *field = (char *)p->options + o->field;
    switch (o->type) {
    case OPT_ACTION:
        return apply_action(p, o);
    case OPT_FLAG:
        *(bool *)field = true;
        return true;
    case OPT_SWITCH:
        *(bool *)field = use->on;
        return true;
    case OPT_SWITCH_AUTO:
        *(int *)field = use->on ? OPTION_ON : OPTION_OFF;
        return true;
    case OPT_INT: {
        bool ranged = o->min != 0 || o->max != 0;
        int64_t value;
        if (!read_int(use, ranged ? (int64_t)o->min : INT32_MIN,
                      ranged ? (int64_t)o->max : INT32_MAX, &value, err))
            return false;
        *(int32_t *)field = (int32_t)value;
        return true;
    }
    case OPT_FLOAT:
        return read_float(use, field, err);
    case OPT_TEXT:
        *(const char **)field = options_text(p->options, slice_of(use->value));
        return *(const char **)field || error_memory(err);
    case OPT_TRISTATE:
        return read_tristate(use, field, err);
    case OPT_CHOICE:
        return read_choice(use, field, err);
    case OPT_CUSTOM:
        return o->apply(p, use, err);
    case OPT_EXPANDS:
        return apply_expands(p, use, err);
    case OPT_REMOVED:
        return error_set(err, ERR_INVALID, "%s has been removed; %s", use->source, o->note);
    case OPT_REFUSED:
        return apply_refused(p, use, err);
    }
    return true;
}

/* What a deprecated option stands for: of two meanings the second is the negative's. */
static struct slice meaning(const struct option_use *use)
{
    struct slice note = slice_of(use->option->note);
    const char *comma = strstr(note.data, ", ");
    if (!use->option->names_off || !comma)
        return note;
    size_t n = (size_t)(comma - note.data);
    return use->on ? (struct slice){note.data, n} : slice_from(note, n + 2);
}

bool option_apply(struct option_parser *p, const struct option_use *use, struct error *err)
{
    const struct option *o = use->option;
    size_t index = option_index(o);
    p->given[index] = true;
    if (o->deprecated && !p->warned[index]) {
        p->warned[index] = true;
        struct slice instead = meaning(use);
        if (!option_warn(p, "%s is deprecated; use %.*s", use->source, (int)instead.len,
                         instead.data))
            return error_memory(err);
    }
    if (o->user_key &&
        !list_insert(p->options, &p->options->sampling.set_by_user, slice_of(o->user_key)))
        return error_memory(err);
    if (!apply_by_type(p, use, err))
        return false;
    /* Read, so that a bad value is told from a good one that is not served. */
    if (o->state == STATE_DEFERRED && o->type != OPT_REFUSED && !is_inert(use))
        refuse(p, use);
    return true;
}

bool apply_nothing(struct option_parser *p, const struct option_use *use, struct error *err)
{
    (void)p, (void)use, (void)err;
    return true;
}

bool csv_each(struct option_parser *p, const struct option_use *use,
              bool (*each)(struct option_parser *, const struct option_use *, struct slice,
                           struct error *),
              struct error *err)
{
    struct str field = {0};
    bool quoted = false, ok = true;
    for (const char *c = use->value; ok; c++) {
        if (*c == '"' && quoted && c[1] == '"') {
            str_append_char(&field, *c++);
        } else if (*c == '"' && (quoted || field.len == 0)) {
            quoted = !quoted;
        } else if (*c == '\0' || (*c == ',' && !quoted)) {
            ok = field.failed ? error_memory(err) : each(p, use, str_slice(&field), err);
            str_clear(&field);
            if (*c == '\0')
                break;
        } else {
            str_append_char(&field, *c);
        }
    }
    str_free(&field);
    return ok;
}

const char *read_text_file(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct str text = {0};
    const char *copy = NULL;
    if (!file_read_whole(use->value, MAX_OPTION_FILE, &text, err))
        error_prefix(err, "%s", use->source);
    else if (!(copy = options_text(p->options, str_slice(&text))))
        error_memory(err);
    str_free(&text);
    return copy;
}
