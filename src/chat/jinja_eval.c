/* jinja_eval.c - running a template.
 *
 * A tree walk over arena values. Statements write into the innermost builder;
 * a macro, a block set and a filter block put their own builder there first.
 * Every node costs a step, every nesting a level of depth, so that no template
 * can run away with the server. */
#include "chat/jinja_builtin.h"
#include "chat/jinja_lex.h"
#include "chat/jinja_value.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "base/vec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAILED };

enum {
    CLOCK_EVERY = 1024,
    STEPS_PER_NODE = 4, /* of a budget */
};

static struct jinja_value *eval(struct jinja_run *run, const struct jinja_node *node);
static enum flow exec_all(struct jinja_run *run, const struct jinja_nodes *nodes);

/* ---- Limits and errors --------------------------------------------------- */

bool jinja_pay(struct jinja_run *run, size_t bytes)
{
    uint64_t steps = (run->steps - run->paid) * STEPS_PER_NODE;
    if (run->failed)
        return false;
    run->paid = run->steps;
    run->failed = !budget_step(run->budget, steps, &run->error) ||
                  !budget_bytes(run->budget, bytes, &run->error);
    return !run->failed;
}

bool jinja_check(struct jinja_run *run)
{
    if (!jinja_pay(run, 0))
        return false;
    if (run->steps > run->limits.steps) {
        jinja_fail(run, "the template takes too many steps");
        return false;
    }
    if (clock_monotonic_us() > run->deadline_us) {
        jinja_fail(run, "the template takes too long");
        return false;
    }
    uint64_t next = run->steps + CLOCK_EVERY;
    run->check_at = next < run->limits.steps ? next : run->limits.steps + 1;
    return !run->failed;
}

static bool too_deep(struct jinja_run *run)
{
    return jinja_fail(run, "the template nests or recurses too deeply") != NULL;
}

static bool enter(struct jinja_run *run)
{
    if (++run->depth > run->limits.depth) /* the caller counts down again */
        return too_deep(run);
    return jinja_step(run, 1);
}

/* The innermost node that fails says where. */
static void locate(struct jinja_run *run, const struct jinja_node *node)
{
    if (!run->failed || run->located)
        return;
    run->located = true;
    char what[64], reason[ERROR_MESSAGE_MAX];
    enum error_code code = run->error.code;
    snprintf(what, sizeof what, "executing %s", jinja_node_name(node));
    snprintf(reason, sizeof reason, "%s", run->error.message);
    jinja_error_at(&run->error, run->t->source, node->pos, what, reason);
    run->error.code = code;
}

/* ---- Variables ----------------------------------------------------------- */

static struct jinja_value *lookup(struct jinja_run *run, int32_t symbol)
{
    for (struct jinja_scope *scope = run->scope; scope; scope = scope->parent)
        for (size_t i = 0; i < scope->n; i++)
            if (scope->bindings[i].symbol == symbol)
                return scope->bindings[i].value;
    return run->globals[symbol];
}

static bool assign(struct jinja_run *run, struct jinja_scope *scope, int32_t symbol,
                   struct jinja_value *value)
{
    if (!value)
        return false;
    if (!scope) {
        run->globals[symbol] = value;
        return true;
    }
    for (size_t i = 0; i < scope->n; i++)
        if (scope->bindings[i].symbol == symbol) {
            scope->bindings[i].value = value;
            return true;
        }
    if (scope->n == scope->capacity) {
        size_t capacity = scope->capacity ? scope->capacity * 2 : 8;
        struct jinja_binding *grown = jinja_alloc(run, capacity * sizeof *grown);
        if (!grown)
            return false;
        if (scope->n)
            memcpy(grown, scope->bindings, scope->n * sizeof *grown);
        scope->bindings = grown;
        scope->capacity = capacity;
    }
    scope->bindings[scope->n++] = (struct jinja_binding){symbol, value};
    return true;
}

static struct jinja_scope *push_scope(struct jinja_run *run, struct jinja_scope *parent)
{
    struct jinja_scope *scope = jinja_alloc(run, sizeof *scope);
    if (scope) {
        scope->parent = parent;
        run->scope = scope;
    }
    return scope;
}

/* ---- Attributes and items ------------------------------------------------ */

static struct jinja_value *loop_attribute(struct jinja_run *run, struct jinja_value *v,
                                          struct slice name)
{
    const struct jinja_loop *loop = v->as.loop;
    size_t i = loop->i, n = loop->items.n;
    const struct {
        const char *name;
        size_t value;
    } numbers[] = {{"index", i + 1},         {"index0", i}, {"revindex", n - i},
                   {"revindex0", n - i - 1}, {"length", n}, {"depth", loop->depth + 1},
                   {"depth0", loop->depth}};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (slice_equal_text(name, numbers[k].name))
            return jinja_integer(run, (int64_t)numbers[k].value);
    if (slice_equal_text(name, "first"))
        return jinja_bool(run, i == 0);
    if (slice_equal_text(name, "last"))
        return jinja_bool(run, i + 1 == n);
    if (slice_equal_text(name, "previtem") && i > 0)
        return loop->items.data[i - 1];
    if (slice_equal_text(name, "nextitem") && i + 1 < n)
        return loop->items.data[i + 1];
    struct jinja_value *method = jinja_bind_method(run, jinja_method_of(name), v, name);
    return method || run->failed ? method : jinja_undefined(run, name);
}

bool jinja_shadows_keys(struct slice name)
{
    return slice_equal_text(name, "get") || slice_equal_text(name, "items") ||
           slice_equal_text(name, "keys") || slice_equal_text(name, "values");
}

static struct jinja_value *attribute(struct jinja_run *run, struct jinja_value *v,
                                     const struct jinja_value *key, const void *method_row,
                                     bool shadows)
{
    struct slice name = jinja_bytes(key);
    if (v->type == JINJA_LOOP)
        return loop_attribute(run, v, name);
    struct jinja_value *found = NULL;
    if (v->type == JINJA_DICT && (!shadows || v->as.dict->is_namespace)) {
        struct jinja_entry *entry = jinja_dict_find(v->as.dict, key);
        found = entry ? entry->value : NULL;
    }
    if (!found && method_row)
        found = jinja_bind_method(run, method_row, v, name);
    if (found || run->failed)
        return found;
    return run->watch ? jinja_undefined(run, name) : run->undefined;
}

struct jinja_value *jinja_attribute(struct jinja_run *run, struct jinja_value *v, struct slice name)
{
    struct jinja_value key = {.type = JINJA_STRING,
                              .as.string = {name.data, name.len, NULL, false}};
    return attribute(run, v, &key, jinja_method_of(name), jinja_shadows_keys(name));
}

/* The byte offset of code point i, or SIZE_MAX past the end. */
static size_t offset_of(struct slice text, int64_t i)
{
    size_t at = 0;
    for (; i > 0 && at < text.len; i--)
        at += utf8_decode(text.data + at, text.len - at, &(uint32_t){0}, NULL);
    return i > 0 || at >= text.len ? SIZE_MAX : at;
}

static struct jinja_value *character_at(struct jinja_run *run, struct jinja_value *v, int64_t i)
{
    struct slice text = jinja_bytes(v);
    if (i < 0)
        i += (int64_t)utf8_length(text);
    size_t at = i < 0 ? SIZE_MAX : offset_of(text, i);
    if (at == SIZE_MAX)
        return jinja_undefined(run, SLICE("object_property"));
    size_t len = utf8_decode(text.data + at, text.len - at, &(uint32_t){0}, NULL);
    return jinja_substring(run, v, at, at + len);
}

struct jinja_value *jinja_subscript(struct jinja_run *run, struct jinja_value *v,
                                    struct jinja_value *key)
{
    if (key->type == JINJA_UNDEFINED)
        return jinja_undefined(run, SLICE("object_property"));
    if (!jinja_hashable(key))
        return jinja_fail(run, "Type: %s is not allowed as object key", jinja_type_name(key));
    if (v->type == JINJA_DICT) {
        struct jinja_entry *entry = jinja_dict_find(v->as.dict, key);
        if (entry)
            return entry->value;
        return jinja_undefined(run, key->type == JINJA_STRING ? jinja_bytes(key)
                                                              : SLICE("object_property"));
    }
    bool number = key->type == JINJA_INTEGER || key->type == JINJA_BOOL;
    if (jinja_is_sequence(v) && number) {
        int64_t i = jinja_as_integer(key), n = (int64_t)v->as.items.n;
        if (i < 0)
            i += n;
        return i >= 0 && i < n ? v->as.items.data[i]
                               : jinja_undefined(run, SLICE("object_property"));
    }
    if (v->type == JINJA_STRING && number)
        return character_at(run, v, jinja_as_integer(key));
    if (key->type == JINJA_STRING)
        return jinja_attribute(run, v, jinja_bytes(key));
    if (v->type == JINJA_UNDEFINED)
        return jinja_undefined(run, SLICE("object_property"));
    return jinja_fail(run, "Cannot access property with non-string: got %s", jinja_type_name(key));
}

static struct jinja_value *eval_index(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *object = eval(run, node->a);
    struct jinja_value *key = object ? eval(run, node->b) : NULL;
    struct jinja_value *value = key ? jinja_subscript(run, object, key) : NULL;
    if (value && run->watch) {
        value->used = object->used = key->used = true;
        if (key->type == JINJA_INTEGER)
            object->used_as_list = true;
    }
    return value;
}

static struct jinja_value *member_of(struct jinja_run *run, const struct jinja_node *node,
                                     struct jinja_value *object)
{
    struct jinja_value *value = attribute(run, object, node->constant, node->method, node->flag);
    if (value && run->watch)
        value->used = object->used = true;
    return value;
}

static struct jinja_value *eval_member(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *object = eval(run, node->a);
    return object ? member_of(run, node, object) : NULL;
}

/* Python's slice rules for one bound. */
static int64_t slice_bound(const struct jinja_value *v, int64_t n, int64_t step, bool stop)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    if (!v || v->type == JINJA_NONE)
        return (step < 0) == stop ? low : high;
    int64_t i = jinja_as_integer(v);
    if (i < 0)
        i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

static struct jinja_value *slice_items(struct jinja_run *run, struct jinja_value *object,
                                       int64_t start, int64_t stop, int64_t step)
{
    struct jinja_value *out = jinja_new(run, object->type);
    if (step == 1 && out && start < stop) {
        size_t n = (size_t)(stop - start);
        out->as.items = (struct jinja_items){object->as.items.data + start, n, n};
        return out;
    }
    for (int64_t i = start; out && (step > 0 ? i < stop : i > stop); i += step)
        if (!jinja_step(run, 1) || !jinja_items_add(run, &out->as.items, object->as.items.data[i]))
            return NULL;
    return out;
}

static struct jinja_value *slice_text(struct jinja_run *run, struct jinja_value *object,
                                      int64_t start, int64_t stop, int64_t step)
{
    struct slice text = jinja_bytes(object);
    if (step == 1) {
        size_t begin = offset_of(text, start), end = offset_of(text, stop);
        begin = begin == SIZE_MAX ? text.len : begin;
        end = end == SIZE_MAX ? text.len : end;
        return jinja_substring(run, object, begin, end > begin ? end : begin);
    }
    size_t n = utf8_length(text);
    size_t *offsets = jinja_alloc(run, (n + 1) * sizeof *offsets);
    if (!offsets)
        return NULL;
    for (size_t i = 0, at = 0; i <= n; i++) {
        offsets[i] = at;
        if (at < text.len)
            at += utf8_decode(text.data + at, text.len - at, &(uint32_t){0}, NULL);
    }
    struct jinja_builder b = {0};
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
        if (!jinja_step(run, 1) || !jinja_put_string(run, &b, object, offsets[i], offsets[i + 1]))
            return NULL;
    return jinja_built(run, &b);
}

static struct jinja_value *eval_slice(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *object = eval(run, node->a), *bounds[3] = {0};
    const struct jinja_node *parts[] = {node->b, node->c, node->d};
    if (!object)
        return NULL;
    jinja_mark_used(run, object, false);
    for (int i = 0; i < 3; i++) {
        if (parts[i] && !(bounds[i] = eval(run, parts[i])))
            return NULL;
        if (bounds[i] && bounds[i]->type != JINJA_INTEGER && bounds[i]->type != JINJA_NONE &&
            bounds[i]->type != JINJA_BOOL)
            return jinja_fail(run, "a slice takes integers, not %s", jinja_type_name(bounds[i]));
    }
    bool sequence = jinja_is_sequence(object);
    if (!sequence && object->type != JINJA_STRING) {
        if (object->type == JINJA_UNDEFINED)
            return jinja_list(run);
        return jinja_fail(run, "Unknown (built-in) filter 'slice' for type %s",
                          jinja_type_name(object));
    }
    int64_t step = bounds[2] && bounds[2]->type != JINJA_NONE ? jinja_as_integer(bounds[2]) : 1;
    if (step == 0)
        return jinja_fail(run, "slice step cannot be zero");
    int64_t n = sequence ? (int64_t)object->as.items.n : (int64_t)utf8_length(jinja_bytes(object));
    step = step > n + 1 ? n + 1 : step < -n - 1 ? -n - 1 : step;
    int64_t start = slice_bound(bounds[0], n, step, false);
    int64_t stop = slice_bound(bounds[1], n, step, true);
    return sequence ? slice_items(run, object, start, stop, step)
                    : slice_text(run, object, start, stop, step);
}

/* ---- Operators ----------------------------------------------------------- */

static const char *const operator_texts[] = {
    [OP_ADD] = "+",         [OP_SUBTRACT] = "-",       [OP_MULTIPLY] = "*",
    [OP_DIVIDE] = "/",      [OP_FLOOR_DIVIDE] = "//",  [OP_MODULO] = "%",
    [OP_POWER] = "**",      [OP_CONCAT] = "~",         [OP_EQUAL] = "==",
    [OP_NOT_EQUAL] = "!=",  [OP_LESS] = "<",           [OP_LESS_EQUAL] = "<=",
    [OP_GREATER] = ">",     [OP_GREATER_EQUAL] = ">=", [OP_IN] = "in",
    [OP_NOT_IN] = "not in",
};

static struct jinja_value *too_large(struct jinja_run *run)
{
    return jinja_fail(run, "the result does not fit in 64 bits");
}

static struct jinja_value *integer_power(struct jinja_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result))
            return too_large(run);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return too_large(run);
    }
    return jinja_integer(run, result);
}

static struct jinja_value *integer_arithmetic(struct jinja_run *run, enum jinja_operator op,
                                              int64_t x, int64_t y)
{
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
    case OP_ADD:
        overflow = __builtin_add_overflow(x, y, &result);
        break;
    case OP_SUBTRACT:
        overflow = __builtin_sub_overflow(x, y, &result);
        break;
    case OP_MULTIPLY:
        overflow = __builtin_mul_overflow(x, y, &result);
        break;
    case OP_FLOOR_DIVIDE:
    case OP_MODULO: {
        if (y == 0)
            return jinja_fail(run, "integer division or modulo by zero");
        if (y == -1) { /* also INT64_MIN, which the processor cannot divide */
            overflow = op == OP_FLOOR_DIVIDE && __builtin_sub_overflow((int64_t)0, x, &result);
            break;
        }
        int64_t quotient = x / y, rest = x % y;
        if (rest && (rest < 0) != (y < 0)) { /* Python rounds down */
            quotient--;
            rest += y;
        }
        result = op == OP_MODULO ? rest : quotient;
        break;
    }
    default:
        break;
    }
    return overflow ? too_large(run) : jinja_integer(run, result);
}

static struct jinja_value *arithmetic(struct jinja_run *run, enum jinja_operator op,
                                      const struct jinja_value *a, const struct jinja_value *b)
{
    bool real = a->type == JINJA_FLOAT || b->type == JINJA_FLOAT;
    double x = jinja_as_double(a), y = jinja_as_double(b);
    if (op == OP_DIVIDE)
        return y == 0 ? jinja_fail(run, "division by zero") : jinja_float(run, x / y);
    if (op == OP_POWER)
        return real || y < 0 ? jinja_float(run, pow(x, y))
                             : integer_power(run, jinja_as_integer(a), jinja_as_integer(b));
    if (!real)
        return integer_arithmetic(run, op, jinja_as_integer(a), jinja_as_integer(b));
    switch (op) {
    case OP_ADD:
        return jinja_float(run, x + y);
    case OP_SUBTRACT:
        return jinja_float(run, x - y);
    case OP_MULTIPLY:
        return jinja_float(run, x * y);
    default:
        if (y == 0)
            return jinja_fail(run, "float modulo by zero");
        return jinja_float(run, op == OP_MODULO ? x - floor(x / y) * y : floor(x / y));
    }
}

/* What v adds to a text. */
static struct jinja_value *as_text(struct jinja_run *run, struct jinja_value *v)
{
    if (v->type == JINJA_NONE || v->type == JINJA_UNDEFINED)
        return jinja_new(run, JINJA_STRING);
    return jinja_to_string(run, v);
}

static struct jinja_value *concatenate(struct jinja_run *run, struct jinja_value *a,
                                       struct jinja_value *b)
{
    struct jinja_value *x = as_text(run, a), *y = x ? as_text(run, b) : NULL;
    return y ? jinja_join(run, x, y) : NULL;
}

static struct jinja_value *repeat(struct jinja_run *run, const struct jinja_value *v, int64_t times)
{
    if (v->type == JINJA_STRING) {
        struct jinja_builder b = {0};
        for (int64_t i = 0; i < times && v->as.string.len; i++)
            if (!jinja_step(run, 1) || !jinja_put_string(run, &b, v, 0, v->as.string.len))
                return NULL;
        return jinja_built(run, &b);
    }
    struct jinja_value *out = jinja_new(run, v->type);
    for (int64_t i = 0; i < times && v->as.items.n; i++)
        for (size_t k = 0; out && k < v->as.items.n; k++)
            if (!jinja_step(run, 1) || !jinja_items_add(run, &out->as.items, v->as.items.data[k]))
                return NULL;
    return out;
}

/* needle in haystack: 1, 0, or -1 when failed */
static int contains(struct jinja_run *run, const struct jinja_value *needle,
                    const struct jinja_value *haystack)
{
    if (haystack->type == JINJA_UNDEFINED)
        return 0;
    if (jinja_is_sequence(haystack)) {
        for (size_t i = 0; i < haystack->as.items.n; i++) {
            if (!jinja_step(run, 1))
                return -1;
            if (jinja_equal(needle, haystack->as.items.data[i], 0))
                return 1;
        }
        return 0;
    }
    if (haystack->type == JINJA_DICT && jinja_hashable(needle))
        return jinja_dict_find(haystack->as.dict, needle) != NULL;
    if (haystack->type == JINJA_STRING && needle->type == JINJA_STRING) {
        return slice_find(jinja_bytes(haystack), 0, jinja_bytes(needle)) != SLICE_NOT_FOUND;
    }
    jinja_fail(run, "Unknown operator \"in\" between %s and %s", jinja_type_name(needle),
               jinja_type_name(haystack));
    return -1;
}

/* Arithmetic and concatenation on what is not a number. */
static struct jinja_value *combine(struct jinja_run *run, enum jinja_operator op,
                                   struct jinja_value *a, struct jinja_value *b)
{
    bool a_text = a->type == JINJA_STRING, b_text = b->type == JINJA_STRING;
    if (op == OP_CONCAT && a->type != JINJA_UNDEFINED && b->type != JINJA_UNDEFINED)
        return concatenate(run, a, b);
    if ((op == OP_ADD || op == OP_CONCAT) && (a_text || b_text))
        return concatenate(run, a, b);
    if (a->type == JINJA_UNDEFINED || b->type == JINJA_UNDEFINED)
        return jinja_fail(run, "Cannot perform operation %s on undefined values",
                          operator_texts[op]);
    if (op == OP_MODULO && a_text) {
        struct jinja_arguments args = {.name = "format", .self = a};
        const struct jinja_items *items = &b->as.items;
        for (size_t i = 0; i < (b->type == JINJA_TUPLE ? items->n : 1); i++)
            if (!jinja_items_add(run, &args.positional,
                                 b->type == JINJA_TUPLE ? items->data[i] : b))
                return NULL;
        return jinja_apply_filter(run, jinja_filter_of(SLICE("format")), SLICE("format"), &args);
    }
    if (a->type == JINJA_NONE || b->type == JINJA_NONE)
        return jinja_fail(run, "Cannot perform operation on null values");
    if (op == OP_ADD && jinja_is_sequence(a) && jinja_is_sequence(b)) {
        struct jinja_value *out = jinja_new(run, a->type);
        const struct jinja_items *x = &a->as.items, *y = &b->as.items;
        if (!out || !jinja_step(run, 1 + (x->n + y->n) / 16) ||
            !jinja_items_reserve(run, &out->as.items, x->n + y->n))
            return NULL;
        if (x->n)
            memcpy(out->as.items.data, x->data, x->n * sizeof *x->data);
        if (y->n)
            memcpy(out->as.items.data + x->n, y->data, y->n * sizeof *y->data);
        out->as.items.n = x->n + y->n;
        return out;
    }
    if (op == OP_MULTIPLY && (a_text || jinja_is_sequence(a)) && jinja_is_number(b) &&
        b->type != JINJA_FLOAT)
        return repeat(run, a, jinja_as_integer(b));
    if (op == OP_MULTIPLY && (b_text || jinja_is_sequence(b)) && jinja_is_number(a) &&
        a->type != JINJA_FLOAT)
        return repeat(run, b, jinja_as_integer(a));
    return jinja_fail(run, "Unknown operator \"%s\" between %s and %s", operator_texts[op],
                      jinja_type_name(a), jinja_type_name(b));
}

static struct jinja_value *compare(struct jinja_run *run, enum jinja_operator op,
                                   struct jinja_value *a, struct jinja_value *b)
{
    int order = jinja_order(a, b, 0);
    if (order == 2) {
        if (a->type == JINJA_UNDEFINED || b->type == JINJA_UNDEFINED)
            return jinja_fail(run, "Cannot perform operation %s on undefined values",
                              operator_texts[op]);
        return jinja_fail(run, "Unknown operator \"%s\" between %s and %s", operator_texts[op],
                          jinja_type_name(a), jinja_type_name(b));
    }
    return jinja_bool(run, op == OP_LESS         ? order < 0
                           : op == OP_LESS_EQUAL ? order <= 0
                           : op == OP_GREATER    ? order > 0
                                                 : order >= 0);
}

static struct jinja_value *eval_binary(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *a = eval(run, node->a);
    struct jinja_value *b = a ? eval(run, node->b) : NULL;
    if (!b)
        return NULL;
    switch (node->op) {
    case OP_EQUAL:
        return jinja_bool(run, jinja_equal(a, b, 0));
    case OP_NOT_EQUAL:
        return jinja_bool(run, !jinja_equal(a, b, 0));
    case OP_IN:
    case OP_NOT_IN: {
        if (a->type == JINJA_UNDEFINED && b->type == JINJA_STRING)
            return jinja_fail(run, "Cannot perform operation %s on undefined values",
                              operator_texts[node->op]);
        int found = contains(run, a, b);
        return found < 0 ? NULL : jinja_bool(run, (node->op == OP_IN) == (found == 1));
    }
    case OP_LESS:
    case OP_LESS_EQUAL:
    case OP_GREATER:
    case OP_GREATER_EQUAL:
        return compare(run, node->op, a, b);
    default:
        if (node->op != OP_CONCAT && jinja_is_number(a) && jinja_is_number(b))
            return arithmetic(run, node->op, a, b);
        return combine(run, node->op, a, b);
    }
}

static struct jinja_value *eval_sign(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *v = eval(run, node->a);
    if (!v)
        return NULL;
    if (!jinja_is_number(v))
        return jinja_fail(run, "Unary - operator requires numeric operand");
    bool negate = node->kind == NODE_NEGATE;
    if (v->type == JINJA_FLOAT)
        return jinja_float(run, negate ? -v->as.real : v->as.real);
    int64_t x = jinja_as_integer(v), result = x;
    if (negate && __builtin_sub_overflow((int64_t)0, x, &result))
        return too_large(run);
    return jinja_integer(run, result);
}

/* ---- Calls --------------------------------------------------------------- */

static bool add_keyword(struct jinja_run *run, struct jinja_arguments *args, struct slice name,
                        struct jinja_value *value)
{
    if (!value)
        return false;
    if (args->n_keywords == args->keywords_capacity) {
        size_t capacity = args->keywords_capacity ? args->keywords_capacity * 2 : 4;
        struct jinja_keyword *grown = jinja_alloc(run, capacity * sizeof *grown);
        if (!grown)
            return false;
        if (args->n_keywords)
            memcpy(grown, args->keywords, args->n_keywords * sizeof *grown);
        args->keywords = grown;
        args->keywords_capacity = capacity;
    }
    args->keywords[args->n_keywords++] = (struct jinja_keyword){name, value};
    return true;
}

static bool spread(struct jinja_run *run, const struct jinja_value *v, bool keywords,
                   struct jinja_arguments *args)
{
    if (keywords && v->type == JINJA_DICT) {
        for (size_t i = 0; i < v->as.dict->n; i++) {
            const struct jinja_entry *entry = &v->as.dict->entries[i];
            if (entry->key->type == JINJA_STRING &&
                !add_keyword(run, args, jinja_bytes(entry->key), entry->value))
                return false;
        }
        return true;
    }
    if (keywords || !jinja_is_sequence(v))
        return jinja_fail(run, "cannot unpack %s as arguments", jinja_type_name(v)) != NULL;
    for (size_t i = 0; i < v->as.items.n; i++)
        if (!jinja_items_add(run, &args->positional, v->as.items.data[i]))
            return false;
    return true;
}

static bool eval_arguments(struct jinja_run *run, const struct jinja_nodes *nodes,
                           struct jinja_arguments *args)
{
    for (size_t i = 0; i < nodes->n; i++) {
        const struct jinja_node *node = nodes->data[i];
        bool wrapped = node->kind == NODE_KEYWORD || node->kind == NODE_SPREAD ||
                       node->kind == NODE_SPREAD_KEYWORDS;
        struct jinja_value *v = eval(run, wrapped ? node->a : node);
        bool ok = v != NULL;
        if (ok && node->kind == NODE_KEYWORD)
            ok = add_keyword(run, args, node->text, v);
        else if (ok && wrapped)
            ok = spread(run, v, node->kind == NODE_SPREAD_KEYWORDS, args);
        else if (ok)
            ok = jinja_items_add(run, &args->positional, v);
        if (!ok)
            return false;
    }
    return true;
}

static struct jinja_value *keyword_value(const struct jinja_arguments *args, struct slice name)
{
    for (size_t i = 0; i < args->n_keywords; i++)
        if (slice_equal(args->keywords[i].name, name))
            return args->keywords[i].value;
    return NULL;
}

/* Give a macro's or call block's parameters their values, in scope. */
static bool bind(struct jinja_run *run, const char *name, const struct jinja_nodes *parameters,
                 const struct jinja_arguments *args, struct jinja_scope *scope)
{
    for (size_t i = 0; i < parameters->n; i++) {
        const struct jinja_node *parameter = parameters->data[i];
        struct jinja_value *v = keyword_value(args, parameter->text);
        if (!v && i < args->positional.n)
            v = args->positional.data[i];
        if (!v && parameter->kind == NODE_KEYWORD) {
            v = eval(run, parameter->a);
            if (!v)
                return false;
        }
        if (!v)
            return jinja_fail(run, "Not enough arguments provided to '%s'", name) != NULL;
        if (!assign(run, scope, parameter->symbol, v))
            return false;
    }
    return true;
}

/* Run nodes into a builder of their own. */
static struct jinja_value *capture(struct jinja_run *run, const struct jinja_nodes *nodes)
{
    struct jinja_builder own = {0}, *outer = run->out;
    run->out = &own;
    enum flow flow = exec_all(run, nodes);
    run->out = outer;
    if (flow == FLOW_FAILED)
        return NULL;
    if (flow != FLOW_ON)
        return jinja_fail(run, "break or continue outside of a loop");
    return jinja_built(run, &own);
}

static struct jinja_value *call_body(struct jinja_run *run, const struct jinja_callable_data *f,
                                     const struct jinja_arguments *args)
{
    struct jinja_scope *outer = run->scope;
    struct jinja_scope *parent = f->kind == CALL_CALLER ? f->scope : outer;
    struct jinja_scope *scope = push_scope(run, parent);
    struct jinja_value *result = NULL;
    if (scope && bind(run, f->name, &f->node->other, args, scope))
        result = capture(run, &f->node->list);
    run->scope = outer;
    return result;
}

static struct jinja_value *run_loop(struct jinja_run *run, const struct jinja_node *node,
                                    struct jinja_value *iterable, uint32_t depth);

struct jinja_value *jinja_call(struct jinja_run *run, struct jinja_value *callee,
                               struct jinja_arguments *args)
{
    if (callee->type == JINJA_LOOP) { /* loop(children) in a recursive loop */
        if (args->positional.n != 1)
            return jinja_fail(run, "loop() takes one argument");
        return run_loop(run, callee->as.loop->node, args->positional.data[0],
                        callee->as.loop->depth + 1);
    }
    if (callee->type != JINJA_FUNCTION)
        return jinja_fail(run, "Callee is not a function: got %s%s%.*s%s", jinja_type_name(callee),
                          callee->type == JINJA_UNDEFINED ? " (hint: '" : "",
                          callee->type == JINJA_UNDEFINED && callee->as.string.len < 100
                              ? (int)callee->as.string.len
                              : 0,
                          callee->type == JINJA_UNDEFINED ? callee->as.string.data : "",
                          callee->type == JINJA_UNDEFINED ? "')" : "");
    struct jinja_callable_data *f = callee->as.callable;
    if (f->kind == CALL_MACRO || f->kind == CALL_CALLER)
        return call_body(run, f, args);
    args->name = f->name;
    args->self = f->self ? f->self : callee;
    return f->function(run, args);
}

/* object.method(arguments), without making the bound method. NULL without
 * failing when there is no such method. */
static struct jinja_value *call_method(struct jinja_run *run, const struct jinja_node *member,
                                       struct jinja_value *object, struct jinja_arguments *args)
{
    const struct jinja_builtin_row *row = member->method;
    if (!row || object->type == JINJA_LOOP)
        return NULL;
    if (object->type == JINJA_DICT && (!member->flag || object->as.dict->is_namespace) &&
        jinja_dict_find(object->as.dict, member->constant))
        return NULL;
    row = jinja_method_row(row, object, member->text);
    if (!row)
        return NULL;
    if (run->watch)
        object->used = true;
    args->name = row->name;
    args->self = object;
    return row->function(run, args);
}

/* Room for the usual few arguments; nobody keeps it. */
enum { FEW = 4 };

static struct jinja_value *eval_call(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *few[FEW];
    struct jinja_arguments args = {.positional = {few, 0, FEW}};
    if (!eval_arguments(run, &node->list, &args))
        return NULL;
    if (node->a->kind != NODE_MEMBER) {
        struct jinja_value *callee = eval(run, node->a);
        return callee ? jinja_call(run, callee, &args) : NULL;
    }
    struct jinja_value *object = eval(run, node->a->a);
    struct jinja_value *result = object ? call_method(run, node->a, object, &args) : NULL;
    if (result || run->failed)
        return result;
    struct jinja_value *callee = member_of(run, node->a, object);
    return callee ? jinja_call(run, callee, &args) : NULL;
}

static struct jinja_value *apply_filter(struct jinja_run *run, const struct jinja_node *node,
                                        struct jinja_value *input)
{
    struct jinja_value *few[FEW];
    struct jinja_arguments args = {.self = input, .positional = {few, 0, FEW}};
    return eval_arguments(run, &node->list, &args)
               ? jinja_apply_filter(run, node->method, node->text, &args)
               : NULL;
}

static struct jinja_value *eval_test(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *few[FEW];
    struct jinja_arguments args = {.self = eval(run, node->a), .positional = {few, 0, FEW}};
    bool result = false;
    if (!args.self || !eval_arguments(run, &node->list, &args) ||
        !jinja_apply_test(run, node->method, node->text, &args, &result))
        return NULL;
    return jinja_bool(run, result != node->flag);
}

/* ---- Expressions --------------------------------------------------------- */

static struct jinja_value *eval_name(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *v = lookup(run, node->symbol);
    if (v && v->type != JINJA_UNDEFINED) {
        jinja_mark_used(run, v, false);
        return v;
    }
    struct jinja_value *global = jinja_global_value(run, node->method);
    return global || run->failed ? global : jinja_undefined(run, node->text);
}

static struct jinja_value *eval_items(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *out = jinja_new(run, node->kind == NODE_LIST ? JINJA_LIST : JINJA_TUPLE);
    if (!out || !jinja_items_reserve(run, &out->as.items, node->list.n))
        return NULL;
    for (size_t i = 0; i < node->list.n; i++)
        if (!jinja_items_add(run, &out->as.items, eval(run, node->list.data[i])))
            return NULL;
    return out;
}

static struct jinja_value *eval_dict(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *out = jinja_dict(run);
    for (size_t i = 0; out && i + 1 < node->list.n; i += 2) {
        struct jinja_value *key = eval(run, node->list.data[i]);
        struct jinja_value *value = key ? eval(run, node->list.data[i + 1]) : NULL;
        if (!value || !jinja_dict_set(run, out, key, value))
            return NULL;
    }
    return out;
}

static struct jinja_value *eval_string(struct jinja_run *run, const struct jinja_node *node)
{
    if (!run->watch)
        return (struct jinja_value *)node->constant;
    struct jinja_value *v = jinja_new(run, JINJA_STRING);
    if (v)
        v->as.string = (struct jinja_string){node->text.data, node->text.len, NULL, false};
    return v;
}

static struct jinja_value *eval_choice(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *test = eval(run, node->a);
    if (!test)
        return NULL;
    switch (node->kind) {
    case NODE_AND:
        return jinja_truth(test) ? eval(run, node->b) : test;
    case NODE_OR:
        return jinja_truth(test) ? test : eval(run, node->b);
    case NODE_NOT:
        return jinja_bool(run, !jinja_truth(test));
    default:
        if (jinja_truth(test))
            return eval(run, node->b);
        return node->c ? eval(run, node->c) : run->undefined;
    }
}

static struct jinja_value *eval_one(struct jinja_run *run, const struct jinja_node *node)
{
    switch (node->kind) {
    case NODE_NAME:
        return eval_name(run, node);
    case NODE_STRING:
        return eval_string(run, node);
    case NODE_INTEGER:
        return jinja_integer(run, node->integer);
    case NODE_FLOAT:
        return jinja_float(run, node->real);
    case NODE_TRUE:
    case NODE_FALSE:
        return jinja_bool(run, node->kind == NODE_TRUE);
    case NODE_NONE:
        return run->none;
    case NODE_LIST:
    case NODE_TUPLE:
        return eval_items(run, node);
    case NODE_DICT:
        return eval_dict(run, node);
    case NODE_AND:
    case NODE_OR:
    case NODE_NOT:
    case NODE_CONDITION:
        return eval_choice(run, node);
    case NODE_NEGATE:
    case NODE_PLUS:
        return eval_sign(run, node);
    case NODE_BINARY:
        return eval_binary(run, node);
    case NODE_MEMBER:
        return eval_member(run, node);
    case NODE_INDEX:
        return eval_index(run, node);
    case NODE_SLICE:
        return eval_slice(run, node);
    case NODE_CALL:
        return eval_call(run, node);
    case NODE_TEST:
        return eval_test(run, node);
    case NODE_FILTER: {
        struct jinja_value *input = eval(run, node->a);
        return input ? apply_filter(run, node, input) : NULL;
    }
    default:
        return jinja_fail(run, "this cannot stand in an expression");
    }
}

static struct jinja_value *eval(struct jinja_run *run, const struct jinja_node *node)
{
    if (!run->watch) { /* leaves need no place in the depth */
        if (node->kind == NODE_STRING)
            return (struct jinja_value *)node->constant;
        struct jinja_value *found = node->kind == NODE_NAME ? lookup(run, node->symbol) : NULL;
        if (found && found->type != JINJA_UNDEFINED)
            return found;
    }
    struct jinja_value *v = enter(run) ? eval_one(run, node) : NULL;
    run->depth--;
    if (!v) {
        if (!run->failed)
            jinja_fail(run, "no value");
        locate(run, node);
    }
    return v;
}

/* ---- Statements ---------------------------------------------------------- */

static bool unpack(struct jinja_run *run, const struct jinja_node *target,
                   struct jinja_value *value, struct jinja_scope *scope)
{
    if (target->kind == NODE_NAME)
        return assign(run, scope, target->symbol, value);
    if (target->kind == NODE_MEMBER) {
        struct jinja_value *object = eval(run, target->a);
        if (!object)
            return false;
        if (object->type != JINJA_DICT)
            return jinja_fail(run, "Cannot assign to member of non-object") != NULL;
        struct jinja_value *key = run->watch ? jinja_text(run, target->text, false)
                                             : (struct jinja_value *)target->constant;
        run->mutations++;
        return jinja_dict_set(run, object, key, value);
    }
    if (target->kind != NODE_TUPLE && target->kind != NODE_LIST)
        return jinja_fail(run, "cannot assign to %s", jinja_node_name(target)) != NULL;
    if (!jinja_is_sequence(value))
        return jinja_fail(run, "Cannot unpack non-iterable type: %s", jinja_type_name(value)) !=
               NULL;
    if (value->as.items.n != target->list.n)
        return jinja_fail(run, "Too %s items to unpack",
                          value->as.items.n < target->list.n ? "few" : "many") != NULL;
    for (size_t i = 0; i < target->list.n; i++)
        if (!unpack(run, target->list.data[i], value->as.items.data[i], scope))
            return false;
    return true;
}

/* What a loop goes over: a list's items; a mapping's keys, or with several
 * targets its pairs. */
static bool loop_items(struct jinja_run *run, const struct jinja_node *target,
                       struct jinja_value *iterable, struct jinja_items *out)
{
    if (run->watch)
        iterable->used = iterable->used_as_list = true;
    if (iterable->type == JINJA_UNDEFINED)
        return true;
    if (jinja_is_sequence(iterable)) { /* as it is now, whatever the body appends */
        *out = (struct jinja_items){iterable->as.items.data, iterable->as.items.n, 0};
        return true;
    }
    if (iterable->type != JINJA_DICT)
        return jinja_fail(run, "Expected iterable or object type in for loop: got %s",
                          jinja_type_name(iterable)) != NULL;
    if (!jinja_items_reserve(run, out, iterable->as.dict->n))
        return false;
    for (size_t i = 0; i < iterable->as.dict->n; i++) {
        const struct jinja_entry *entry = &iterable->as.dict->entries[i];
        struct jinja_value *item = entry->key;
        if (target->kind == NODE_TUPLE) {
            item = jinja_new(run, JINJA_TUPLE);
            if (!item || !jinja_items_add(run, &item->as.items, entry->key) ||
                !jinja_items_add(run, &item->as.items, entry->value))
                return false;
        }
        if (!jinja_items_add(run, out, item))
            return false;
    }
    return true;
}

static bool filter_items(struct jinja_run *run, const struct jinja_node *node,
                         struct jinja_items *items)
{
    struct jinja_scope *outer = run->scope, *scope = push_scope(run, outer);
    size_t kept = 0;
    if (!jinja_items_own(run, items))
        return false;
    for (size_t i = 0; scope && i < items->n; i++) {
        struct jinja_value *keep =
            unpack(run, node->a, items->data[i], scope) ? eval(run, node->c) : NULL;
        if (!keep) {
            scope = NULL;
            break;
        }
        if (jinja_truth(keep))
            items->data[kept++] = items->data[i];
    }
    run->scope = outer;
    items->n = kept;
    return scope != NULL;
}

static enum flow loop_over(struct jinja_run *run, const struct jinja_node *node,
                           struct jinja_value *iterable, uint32_t depth)
{
    struct jinja_value *loop = jinja_new(run, JINJA_LOOP);
    if (!loop || !(loop->as.loop = jinja_alloc(run, sizeof *loop->as.loop)))
        return FLOW_FAILED;
    struct jinja_loop *state = loop->as.loop;
    state->node = node;
    state->depth = depth;
    if (!loop_items(run, node->a, iterable, &state->items) ||
        (node->c && !filter_items(run, node, &state->items)))
        return FLOW_FAILED;
    if (state->items.n == 0)
        return exec_all(run, &node->other);
    struct jinja_scope *outer = run->scope, *scope = push_scope(run, outer);
    int32_t loop_symbol = run->t->loop_symbol;
    enum flow flow = scope ? FLOW_ON : FLOW_FAILED;
    if (scope && loop_symbol >= 0 && !assign(run, scope, loop_symbol, loop))
        flow = FLOW_FAILED;
    for (size_t i = 0; i < state->items.n && flow != FLOW_FAILED; i++) {
        state->i = i;
        if (!unpack(run, node->a, state->items.data[i], scope)) {
            flow = FLOW_FAILED;
            break;
        }
        flow = exec_all(run, &node->list);
        if (flow == FLOW_BREAK)
            break;
    }
    run->scope = outer;
    return flow == FLOW_FAILED ? flow : FLOW_ON;
}

static struct jinja_value *run_loop(struct jinja_run *run, const struct jinja_node *node,
                                    struct jinja_value *iterable, uint32_t depth)
{
    if (!node->flag)
        return jinja_fail(run, "loop() needs 'recursive'");
    struct jinja_builder own = {0}, *outer = run->out;
    run->out = &own;
    enum flow flow = enter(run) ? loop_over(run, node, iterable, depth) : FLOW_FAILED;
    run->depth--;
    run->out = outer;
    return flow == FLOW_FAILED ? NULL : jinja_built(run, &own);
}

static enum flow exec_for(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *iterable = eval(run, node->b);
    return iterable ? loop_over(run, node, iterable, 0) : FLOW_FAILED;
}

static enum flow exec_if(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *test = eval(run, node->a);
    return !test ? FLOW_FAILED : exec_all(run, jinja_truth(test) ? &node->list : &node->other);
}

/* The filters around a captured text, the innermost first. */
static struct jinja_value *filter_chain(struct jinja_run *run, const struct jinja_node *filter,
                                        struct jinja_value *text)
{
    if (!filter || !text)
        return text;
    struct jinja_value *input = filter_chain(run, filter->a, text);
    struct jinja_value *out = input ? apply_filter(run, filter, input) : NULL;
    if (!out)
        locate(run, filter);
    return out;
}

static enum flow exec_set(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value *v =
        node->b ? eval(run, node->b) : filter_chain(run, node->c, capture(run, &node->list));
    return v && unpack(run, node->a, v, run->scope) ? FLOW_ON : FLOW_FAILED;
}

static struct jinja_value *callable(struct jinja_run *run, enum jinja_callable kind,
                                    const char *name, const struct jinja_node *node)
{
    struct jinja_value *v = jinja_builtin(run, name, NULL, NULL);
    if (v) {
        v->as.callable->kind = kind;
        v->as.callable->node = node;
        v->as.callable->scope = run->scope;
    }
    return v;
}

static enum flow exec_macro(struct jinja_run *run, const struct jinja_node *node)
{
    char *name = jinja_copy_text(run, node->text);
    struct jinja_value *macro = name ? callable(run, CALL_MACRO, name, node) : NULL;
    return macro && assign(run, run->scope, node->symbol, macro) ? FLOW_ON : FLOW_FAILED;
}

static enum flow exec_call_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *outer = run->scope;
    struct jinja_arguments args = {0};
    struct jinja_value *callee = eval(run, node->a->a);
    if (!callee || !eval_arguments(run, &node->a->list, &args))
        return FLOW_FAILED;
    struct jinja_value *caller = callable(run, CALL_CALLER, "caller", node);
    struct jinja_scope *scope = caller ? push_scope(run, outer) : NULL;
    int32_t symbol = run->t->caller_symbol;
    struct jinja_value *result = NULL;
    if (scope && (symbol < 0 || assign(run, scope, symbol, caller)))
        result = jinja_call(run, callee, &args);
    run->scope = outer;
    return result && jinja_put_output(run, run->out, result, 0) ? FLOW_ON : FLOW_FAILED;
}

static enum flow exec_with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *outer = run->scope, *scope = push_scope(run, outer);
    enum flow flow = scope ? FLOW_ON : FLOW_FAILED;
    for (size_t i = 0; flow == FLOW_ON && i < node->other.n; i++) {
        const struct jinja_node *one = node->other.data[i];
        if (!assign(run, scope, one->symbol, eval(run, one->a)))
            flow = FLOW_FAILED;
    }
    if (flow == FLOW_ON)
        flow = exec_all(run, &node->list);
    run->scope = outer;
    return flow;
}

static enum flow exec_output(struct jinja_run *run, struct jinja_value *v)
{
    return v && jinja_put_output(run, run->out, v, 0) ? FLOW_ON : FLOW_FAILED;
}

static enum flow exec_one(struct jinja_run *run, const struct jinja_node *node)
{
    switch (node->kind) {
    case NODE_TEXT:
        return jinja_put(run, run->out, node->text, false) ? FLOW_ON : FLOW_FAILED;
    case NODE_OUTPUT:
        return exec_output(run, eval(run, node->a));
    case NODE_IF:
        return exec_if(run, node);
    case NODE_FOR:
        return exec_for(run, node);
    case NODE_SET:
        return exec_set(run, node);
    case NODE_MACRO:
        return exec_macro(run, node);
    case NODE_CALL_BLOCK:
        return exec_call_block(run, node);
    case NODE_FILTER_BLOCK:
        return exec_output(run, filter_chain(run, node->a, capture(run, &node->list)));
    case NODE_WITH:
        return exec_with(run, node);
    case NODE_BLOCK:
        return exec_all(run, &node->list);
    case NODE_DO:
        return eval(run, node->a) ? FLOW_ON : FLOW_FAILED;
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        jinja_fail(run, "this is not a statement");
        return FLOW_FAILED;
    }
}

static enum flow exec_all(struct jinja_run *run, const struct jinja_nodes *nodes)
{
    enum flow flow = FLOW_ON;
    run->depth++;
    for (size_t i = 0; flow == FLOW_ON && i < nodes->n; i++) {
        const struct jinja_node *node = nodes->data[i];
        flow = FLOW_FAILED;
        if (run->depth > run->limits.depth)
            too_deep(run);
        else if (jinja_step(run, 1))
            flow = exec_one(run, node);
        if (flow == FLOW_FAILED)
            locate(run, node);
    }
    run->depth--;
    return flow;
}

bool jinja_exec_body(struct jinja_run *run, size_t from, size_t to)
{
    struct jinja_nodes part = {run->t->body.data + from, to - from, 0};
    enum flow flow = run->failed ? FLOW_FAILED : exec_all(run, &part);
    if (flow == FLOW_BREAK || flow == FLOW_CONTINUE)
        jinja_fail(run, "break or continue outside of a loop");
    return !run->failed && flow == FLOW_ON;
}
