/* jinja_builtin.c - tests, global functions, and looking up by name. */
#include "chat/jinja_builtin.h"

#include <stdio.h>
#include <time.h>

typedef struct jinja_value value;
typedef struct jinja_arguments arguments;

struct jinja_value *jinja_argument(const struct jinja_arguments *args, size_t i, const char *name)
{
    for (size_t k = 0; name && k < args->n_keywords; k++)
        if (slice_equal_text(args->keywords[k].name, name))
            return args->keywords[k].value;
    return i < args->positional.n ? args->positional.data[i] : NULL;
}

/* ---- Tests --------------------------------------------------------------- */

enum { JINJA_RANGE_MAX = 10000000 };

static value *test_type(struct jinja_run *run, const arguments *args, unsigned types)
{
    return jinja_bool(run, (types >> args->self->type & 1u) != 0);
}

#define TYPE_TEST(name, types)                                                                     \
    static value *test_##name(struct jinja_run *run, arguments *args)                              \
    {                                                                                              \
        return test_type(run, args, (types));                                                      \
    }

TYPE_TEST(undefined, ON_UNDEFINED)
TYPE_TEST(defined, ON_ANY & ~ON_UNDEFINED)
TYPE_TEST(none, ON_NONE)
TYPE_TEST(boolean, ON_BOOL)
TYPE_TEST(integer, ON_INTEGER)
TYPE_TEST(float, ON_FLOAT)
TYPE_TEST(number, ON_NUMBER)
TYPE_TEST(string, ON_STRING)
TYPE_TEST(mapping, ON_DICT)
TYPE_TEST(iterable, ON_SEQUENCE | ON_DICT | ON_STRING | ON_UNDEFINED | 1 << JINJA_LOOP)
TYPE_TEST(sequence, ON_SEQUENCE | ON_DICT | ON_STRING | ON_UNDEFINED)
TYPE_TEST(callable, 1 << JINJA_FUNCTION)

static value *test_true(struct jinja_run *run, arguments *args)
{
    return jinja_bool(run, args->self->type == JINJA_BOOL && args->self->as.boolean);
}

static value *test_false(struct jinja_run *run, arguments *args)
{
    return jinja_bool(run, args->self->type == JINJA_BOOL && !args->self->as.boolean);
}

static value *divisible(struct jinja_run *run, arguments *args, int64_t by, int64_t rest)
{
    if (args->self->type != JINJA_INTEGER || by == 0)
        return jinja_fail(run, "Function '%s' takes integers", args->name);
    if (by == -1)
        by = 1;
    int64_t r = args->self->as.integer % by;
    return jinja_bool(run, (r < 0 ? -r : r) == rest);
}

static value *test_odd(struct jinja_run *run, arguments *args)
{
    return divisible(run, args, 2, 1);
}

static value *test_even(struct jinja_run *run, arguments *args)
{
    return divisible(run, args, 2, 0);
}

static value *test_divisibleby(struct jinja_run *run, arguments *args)
{
    const value *by = jinja_argument(args, 0, "num");
    return divisible(run, args, by && jinja_is_number(by) ? jinja_as_integer(by) : 0, 0);
}

/* The tested value against the argument. */
static value *test_order(struct jinja_run *run, arguments *args, bool less, bool equal,
                         bool greater)
{
    const value *other = jinja_argument(args, 0, NULL);
    if (!other)
        return jinja_fail(run, "Function '%s' expected an argument", args->name);
    if (less == greater)
        return jinja_bool(run, jinja_equal(args->self, other, 0) == equal);
    int order = jinja_order(args->self, other, 0);
    return jinja_bool(run,
                      (order == -1 && less) || (order == 0 && equal) || (order == 1 && greater));
}

static value *test_eq(struct jinja_run *run, arguments *args)
{
    return test_order(run, args, false, true, false);
}

static value *test_ne(struct jinja_run *run, arguments *args)
{
    return test_order(run, args, true, false, true);
}

static value *test_lt(struct jinja_run *run, arguments *args)
{
    return test_order(run, args, true, false, false);
}

static value *test_le(struct jinja_run *run, arguments *args)
{
    return test_order(run, args, true, true, false);
}

static value *test_gt(struct jinja_run *run, arguments *args)
{
    return test_order(run, args, false, false, true);
}

static value *test_ge(struct jinja_run *run, arguments *args)
{
    return test_order(run, args, false, true, true);
}

static value *test_in(struct jinja_run *run, arguments *args)
{
    const value *all = jinja_argument(args, 0, NULL);
    if (!all || all->type == JINJA_UNDEFINED)
        return jinja_bool(run, false);
    if (jinja_is_sequence(all)) {
        for (size_t i = 0; i < all->as.items.n; i++)
            if (jinja_equal(args->self, all->as.items.data[i], 0))
                return jinja_bool(run, true);
        return jinja_bool(run, false);
    }
    if (all->type == JINJA_DICT)
        return jinja_bool(run,
                          jinja_hashable(args->self) && jinja_dict_find(all->as.dict, args->self));
    if (all->type != JINJA_STRING || args->self->type != JINJA_STRING)
        return jinja_fail(run, "'in' test expects iterable as first argument, got %s",
                          jinja_type_name(all));
    arguments find = {.self = (value *)all};
    const struct jinja_builtin_row *row = jinja_text_methods;
    while (strcmp(row->name, "find") != 0)
        row++;
    value *at =
        jinja_items_add(run, &find.positional, args->self) ? row->function(run, &find) : NULL;
    return at ? jinja_bool(run, at->as.integer >= 0) : NULL;
}

static value *test_sameas(struct jinja_run *run, arguments *args)
{
    const value *other = jinja_argument(args, 0, NULL);
    bool simple = other && other->type == args->self->type &&
                  (jinja_is_number(other) || other->type == JINJA_NONE);
    return jinja_bool(run, other == args->self || (simple && jinja_equal(args->self, other, 0)));
}

static value *test_case(struct jinja_run *run, arguments *args, const char *method)
{
    const struct jinja_builtin_row *row = jinja_text_methods;
    if (args->self->type != JINJA_STRING)
        return jinja_fail(run, "Function '%s' expected value of type String, got %s", args->name,
                          jinja_type_name(args->self));
    while (strcmp(row->name, method) != 0)
        row++;
    return row->function(run, args);
}

static value *test_lower(struct jinja_run *run, arguments *args)
{
    return test_case(run, args, "islower");
}

static value *test_upper(struct jinja_run *run, arguments *args)
{
    return test_case(run, args, "isupper");
}

static value *test_filter(struct jinja_run *run, arguments *args)
{
    return jinja_bool(run, args->self->type == JINJA_STRING &&
                               jinja_filter_of(jinja_bytes(args->self)) != NULL);
}

static value *test_test(struct jinja_run *run, arguments *args)
{
    return jinja_bool(run, args->self->type == JINJA_STRING &&
                               jinja_test_of(jinja_bytes(args->self)) != NULL);
}

static value *test_escaped(struct jinja_run *run, arguments *args)
{
    (void)args;
    return jinja_bool(run, false);
}

const struct jinja_builtin_row jinja_tests[] = {
    {.name = "undefined", .function = test_undefined},
    {.name = "defined", .function = test_defined},
    {.name = "none", .function = test_none},
    {.name = "boolean", .function = test_boolean},
    {.name = "integer", .function = test_integer},
    {.name = "float", .function = test_float},
    {.name = "number", .function = test_number},
    {.name = "string", .function = test_string},
    {.name = "mapping", .function = test_mapping},
    {.name = "iterable", .function = test_iterable},
    {.name = "sequence", .function = test_sequence},
    {.name = "callable", .function = test_callable},
    {.name = "true", .function = test_true},
    {.name = "false", .function = test_false},
    {.name = "odd", .function = test_odd},
    {.name = "even", .function = test_even},
    {.name = "divisibleby", .function = test_divisibleby},
    {.name = "eq", .function = test_eq},
    {.name = "equalto", .function = test_eq},
    {.name = "ne", .function = test_ne},
    {.name = "lt", .function = test_lt},
    {.name = "lessthan", .function = test_lt},
    {.name = "le", .function = test_le},
    {.name = "gt", .function = test_gt},
    {.name = "greaterthan", .function = test_gt},
    {.name = "ge", .function = test_ge},
    {.name = "in", .function = test_in},
    {.name = "sameas", .function = test_sameas},
    {.name = "lower", .function = test_lower},
    {.name = "upper", .function = test_upper},
    {.name = "filter", .function = test_filter},
    {.name = "test", .function = test_test},
    {.name = "escaped", .function = test_escaped},
    {0},
};

/* ---- Global functions ---------------------------------------------------- */

static value *global_raise_exception(struct jinja_run *run, arguments *args)
{
    value *message = args->positional.n ? jinja_to_string(run, args->positional.data[0]) : NULL;
    struct slice text = message ? jinja_bytes(message) : SLICE("");
    return jinja_fail(run, "Jinja Exception: %.*s", text.len < 500 ? (int)text.len : 500,
                      text.data);
}

static value *keywords_dict(struct jinja_run *run, arguments *args, bool is_namespace)
{
    value *out = jinja_dict(run);
    if (!out)
        return NULL;
    out->as.dict->is_namespace = is_namespace;
    if (args->positional.n) {
        const value *first = args->positional.data[0];
        for (size_t i = 0; first->type == JINJA_DICT && i < first->as.dict->n; i++)
            if (!jinja_dict_set(run, out, first->as.dict->entries[i].key,
                                first->as.dict->entries[i].value))
                return NULL;
        for (size_t i = 0; jinja_is_sequence(first) && i < first->as.items.n; i++) {
            const value *pair = first->as.items.data[i];
            if (!jinja_is_sequence(pair) || pair->as.items.n != 2)
                return jinja_fail(run, "dict() takes pairs");
            if (!jinja_dict_set(run, out, pair->as.items.data[0], pair->as.items.data[1]))
                return NULL;
        }
    }
    for (size_t i = 0; i < args->n_keywords; i++)
        if (!jinja_dict_set(run, out, jinja_text(run, args->keywords[i].name, false),
                            args->keywords[i].value))
            return NULL;
    return out;
}

static value *global_namespace(struct jinja_run *run, arguments *args)
{
    return keywords_dict(run, args, true);
}

static value *global_dict(struct jinja_run *run, arguments *args)
{
    return keywords_dict(run, args, false);
}

static value *global_range(struct jinja_run *run, arguments *args)
{
    int64_t bounds[3] = {0, 0, 1};
    size_t n = args->positional.n;
    if (n < 1 || n > 3)
        return jinja_fail(run, "range() takes one to three integers");
    for (size_t i = 0; i < n; i++) {
        const value *v = args->positional.data[i];
        if (v->type != JINJA_INTEGER && v->type != JINJA_BOOL)
            return jinja_fail(run, "range() takes integers, not %s", jinja_type_name(v));
        bounds[n == 1 ? 1 : i] = jinja_as_integer(v);
    }
    int64_t start = bounds[0], stop = bounds[1], step = bounds[2];
    if (step == 0)
        return jinja_fail(run, "range() step argument must not be zero");
    value *out = jinja_list(run);
    uint64_t width = step > 0 ? (uint64_t)step : -(uint64_t)step;
    uint64_t span =
        (step > 0 ? stop > start : stop < start)
            ? (step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop)
            : 0;
    uint64_t count = span / width + (span % width != 0);
    if (!out || !jinja_items_reserve(run, &out->as.items,
                                     count < JINJA_RANGE_MAX ? (size_t)count : JINJA_RANGE_MAX))
        return NULL;
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
        if (out->as.items.n >= JINJA_RANGE_MAX)
            return jinja_fail(run, "range() is too long");
        if (!jinja_step(run, 1) || !jinja_list_add(run, out, jinja_integer(run, i)))
            return NULL;
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return out;
}

static value *global_strftime_now(struct jinja_run *run, arguments *args)
{
    const value *format = jinja_argument(args, 0, NULL);
    if (!format || format->type != JINJA_STRING)
        return jinja_fail(run, "strftime_now() takes a format");
    char *pattern = jinja_copy_text(run, jinja_bytes(format));
    time_t now = (time_t)run->now;
    struct tm parts;
    char out[256];
    if (!pattern || !localtime_r(&now, &parts))
        return jinja_fail(run, "strftime_now: failed to format time");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t n = strftime(out, sizeof out, pattern, &parts);
#pragma GCC diagnostic pop
    if (n == 0 && *pattern)
        return jinja_fail(run, "strftime_now: failed to format time");
    return jinja_text(run, (struct slice){out, n}, false);
}

static value *global_tojson(struct jinja_run *run, arguments *args)
{
    if (args->positional.n == 0)
        return jinja_fail(run, "tojson() takes a value");
    arguments inner = *args;
    inner.self = inner.positional.data[0];
    inner.positional.data++;
    inner.positional.n--;
    return jinja_apply_filter(run, jinja_filter_of(SLICE("tojson")), SLICE("tojson"), &inner);
}

static bool set_named(struct jinja_run *run, value *dict, const char *name, value *v)
{
    return jinja_dict_set(run, dict, jinja_text(run, slice_of(name), false), v);
}

/* A cycler is a namespace: its items under "_items", the place under "_at". */
static value *cycler_move(struct jinja_run *run, value *state, bool reset)
{
    const value *items = jinja_dict_get(state->as.dict, SLICE("_items"));
    const value *at = jinja_dict_get(state->as.dict, SLICE("_at"));
    if (!items || !at || items->as.items.n == 0)
        return jinja_fail(run, "cycler() takes at least one item");
    run->mutations++;
    size_t n = items->as.items.n, i = (size_t)at->as.integer % n;
    size_t next = reset ? 0 : (i + 1) % n;
    return set_named(run, state, "_at", jinja_integer(run, (int64_t)next)) &&
                   set_named(run, state, "current", items->as.items.data[next])
               ? items->as.items.data[i]
               : NULL;
}

static value *cycler_next(struct jinja_run *run, arguments *args)
{
    return cycler_move(run, args->self, false);
}

static value *cycler_reset(struct jinja_run *run, arguments *args)
{
    return cycler_move(run, args->self, true);
}

static value *global_cycler(struct jinja_run *run, arguments *args)
{
    value *state = jinja_dict(run), *items = jinja_list(run);
    if (!state || !items)
        return NULL;
    state->as.dict->is_namespace = true;
    for (size_t i = 0; i < args->positional.n; i++)
        if (!jinja_list_add(run, items, args->positional.data[i]))
            return NULL;
    return set_named(run, state, "_items", items) &&
                   set_named(run, state, "_at", jinja_integer(run, 0)) &&
                   set_named(run, state, "next", jinja_builtin(run, "next", cycler_next, state)) &&
                   set_named(run, state, "reset",
                             jinja_builtin(run, "reset", cycler_reset, state)) &&
                   cycler_move(run, state, true)
               ? state
               : NULL;
}

static value *joiner_call(struct jinja_run *run, arguments *args)
{
    const value *used = jinja_dict_get(args->self->as.dict, SLICE("used"));
    value *separator = jinja_dict_get(args->self->as.dict, SLICE("separator"));
    if (used)
        return separator;
    run->mutations++;
    return set_named(run, args->self, "used", jinja_bool(run, true))
               ? jinja_text(run, SLICE(""), false)
               : NULL;
}

static value *global_joiner(struct jinja_run *run, arguments *args)
{
    value *separator = jinja_argument(args, 0, "sep"), *state = jinja_dict(run);
    if (!separator)
        separator = jinja_text(run, SLICE(", "), false);
    return state && set_named(run, state, "separator", separator)
               ? jinja_builtin(run, "joiner", joiner_call, state)
               : NULL;
}

static const struct global {
    const char *name;
    jinja_function *function;
} globals[] = {
    {"raise_exception", global_raise_exception},
    {"namespace", global_namespace},
    {"range", global_range},
    {"strftime_now", global_strftime_now},
    {"dict", global_dict},
    {"tojson", global_tojson},
    {"cycler", global_cycler},
    {"joiner", global_joiner},
};

const void *jinja_global_of(struct slice name)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (slice_equal_text(name, globals[i].name))
            return &globals[i];
    return NULL;
}

struct jinja_value *jinja_global_value(struct jinja_run *run, const void *row)
{
    const struct global *global = row;
    return global ? jinja_builtin(run, global->name, global->function, NULL) : NULL;
}

/* ---- By name ------------------------------------------------------------- */

static const struct jinja_builtin_row *row_of(const struct jinja_builtin_row *rows,
                                              struct slice name)
{
    for (; rows->name; rows++)
        if (slice_equal_text(name, rows->name))
            return rows;
    return NULL;
}

const void *jinja_filter_of(struct slice name)
{
    const struct jinja_builtin_row *row = row_of(jinja_text_filters, name);
    return row ? row : row_of(jinja_list_filters, name);
}

const void *jinja_test_of(struct slice name)
{
    return row_of(jinja_tests, name);
}

/* A name may be a method of several types: the text's row, else a container's;
 * binding looks again. */
const void *jinja_method_of(struct slice name)
{
    const struct jinja_builtin_row *row = row_of(jinja_text_methods, name);
    return row ? row : row_of(jinja_container_methods, name);
}

const struct jinja_builtin_row *jinja_method_row(const void *name_row, const struct jinja_value *v,
                                                 struct slice name)
{
    const struct jinja_builtin_row *row = name_row;
    if (row && !(row->on >> v->type & 1u))
        row = row_of(jinja_container_methods, name);
    return row && (row->on >> v->type & 1u) ? row : NULL;
}

struct jinja_value *jinja_bind_method(struct jinja_run *run, const void *name_row,
                                      struct jinja_value *v, struct slice name)
{
    const struct jinja_builtin_row *row = jinja_method_row(name_row, v, name);
    return row ? jinja_builtin(run, row->name, row->function, v) : NULL;
}

struct jinja_value *jinja_apply_filter(struct jinja_run *run, const struct jinja_builtin_row *row,
                                       struct slice name, struct jinja_arguments *args)
{
    value *v = args->self;
    if (run->watch) {
        v->used = true;
        if (slice_equal_text(name, "selectattr"))
            v->used_as_list = true;
    }
    if (row && row->empty_on >> v->type & 1u)
        return row->empty == JINJA_UNDEFINED ? run->undefined : jinja_new(run, row->empty);
    if (!row || !(row->on >> v->type & 1u))
        return jinja_fail(run, "Unknown (built-in) filter '%.*s' for type %s",
                          name.len < 60 ? (int)name.len : 60, name.data, jinja_type_name(v));
    args->name = row->name;
    if (row->as_text && !(args->self = jinja_to_string(run, v)))
        return NULL;
    return row->function(run, args);
}

bool jinja_apply_test(struct jinja_run *run, const struct jinja_builtin_row *row, struct slice name,
                      struct jinja_arguments *args, bool *result)
{
    if (!row)
        return jinja_fail(run, "Unknown test '%.*s'", name.len < 60 ? (int)name.len : 60,
                          name.data) != NULL;
    args->name = row->name;
    value *v = row->function(run, args);
    *result = v && jinja_truth(v);
    return v != NULL;
}
