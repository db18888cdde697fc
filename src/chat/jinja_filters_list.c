/* jinja_filters_list.c - filters and methods on lists and mappings, tojson. */
#include "chat/jinja_builtin.h"

#include "base/utf8.h"

#include <stdlib.h>

typedef struct jinja_value value;
typedef struct jinja_arguments arguments;

static bool truth_argument(const arguments *args, size_t i, const char *name, bool fallback)
{
    const value *v = jinja_argument(args, i, name);
    return v ? jinja_truth(v) : fallback;
}

/* A list's items, a mapping's keys, a text's characters; false when v has
 * none of these. */
static bool items_of(struct jinja_run *run, value *v, struct jinja_items *out)
{
    if (jinja_is_sequence(v)) {
        *out = v->as.items;
        out->capacity = out->n; /* adding must not write into v */
        return true;
    }
    if (v->type == JINJA_DICT) {
        for (size_t i = 0; i < v->as.dict->n; i++)
            if (!jinja_items_add(run, out, v->as.dict->entries[i].key))
                return false;
        return true;
    }
    if (v->type != JINJA_STRING)
        return jinja_fail(run, "%s is not iterable", jinja_type_name(v)) != NULL;
    struct slice text = jinja_bytes(v);
    for (size_t at = 0; at < text.len;) {
        size_t n = utf8_decode(text.data + at, text.len - at, &(uint32_t){0}, NULL);
        if (!jinja_step(run, 1) || !jinja_items_add(run, out, jinja_substring(run, v, at, at + n)))
            return false;
        at += n;
    }
    return true;
}

/* A list (or tuple, when like is one) of copied items. */
static value *list_of(struct jinja_run *run, const value *like, const struct jinja_items *items)
{
    value *out = jinja_new(run, like && like->type == JINJA_TUPLE ? JINJA_TUPLE : JINJA_LIST);
    for (size_t i = 0; out && i < items->n; i++)
        if (!jinja_step(run, 1) || !jinja_items_add(run, &out->as.items, items->data[i]))
            return NULL;
    return out;
}

static value *pair_of(struct jinja_run *run, value *a, value *b)
{
    value *pair = jinja_new(run, JINJA_TUPLE);
    return pair && jinja_items_add(run, &pair->as.items, a) &&
                   jinja_items_add(run, &pair->as.items, b)
               ? pair
               : NULL;
}

/* v.a.b for the path "a.b"; numbers index. */
static value *follow(struct jinja_run *run, value *v, const value *path)
{
    if (path->type == JINJA_INTEGER)
        return jinja_subscript(run, v, (value *)path);
    struct slice rest = path->type == JINJA_STRING ? jinja_bytes(path) : SLICE("");
    while (v && rest.len) {
        size_t n = 0;
        bool number = true;
        while (n < rest.len && rest.data[n] != '.') {
            number = number && rest.data[n] >= '0' && rest.data[n] <= '9';
            n++;
        }
        struct slice name = {rest.data, n};
        value *key = number && n < 10 ? jinja_integer(run, (int64_t)strtoul(rest.data, NULL, 10))
                                      : jinja_text(run, name, false);
        /* an item first: a mapping's key is meant, not its method */
        value *found = key && v->type != JINJA_STRING ? jinja_subscript(run, v, key) : key;
        if (found && v->type == JINJA_STRING)
            found = jinja_undefined(run, name);
        v = found;
        rest = slice_from(rest, n < rest.len ? n + 1 : n);
    }
    return v;
}

/* ---- Whole lists --------------------------------------------------------- */

static value *filter_length(struct jinja_run *run, arguments *args)
{
    const value *v = args->self;
    size_t n = v->type == JINJA_STRING ? utf8_length(jinja_bytes(v))
               : v->type == JINJA_DICT ? v->as.dict->n
                                       : v->as.items.n;
    return jinja_integer(run, (int64_t)n);
}

static value *filter_list(struct jinja_run *run, arguments *args)
{
    struct jinja_items items = {0};
    return items_of(run, args->self, &items) ? list_of(run, NULL, &items) : NULL;
}

static value *end_of(struct jinja_run *run, arguments *args, bool last)
{
    struct jinja_items items = {0};
    if (!items_of(run, args->self, &items))
        return NULL;
    return items.n ? items.data[last ? items.n - 1 : 0]
                   : jinja_undefined(run, SLICE("No items, sequence was empty."));
}

static value *filter_first(struct jinja_run *run, arguments *args)
{
    return end_of(run, args, false);
}

static value *filter_last(struct jinja_run *run, arguments *args)
{
    return end_of(run, args, true);
}

static value *filter_reverse(struct jinja_run *run, arguments *args)
{
    struct jinja_items items = {0};
    if (!items_of(run, args->self, &items))
        return NULL;
    if (args->self->type == JINJA_STRING) {
        struct jinja_builder b = {0};
        for (size_t i = items.n; i-- > 0;)
            if (!jinja_put_str(run, &b, items.data[i]))
                return NULL;
        return jinja_built(run, &b);
    }
    value *out = list_of(run, args->self, &items);
    for (size_t i = 0; out && i < items.n; i++)
        out->as.items.data[i] = items.data[items.n - 1 - i];
    return out;
}

static value *filter_join(struct jinja_run *run, arguments *args)
{
    value *separator = jinja_argument(args, 0, "d");
    const value *attribute = jinja_argument(args, 1, "attribute");
    struct jinja_items items = {0};
    struct jinja_builder b = {0};
    if (!items_of(run, args->self, &items))
        return NULL;
    if (separator && !(separator = jinja_to_string(run, separator)))
        return NULL;
    for (size_t i = 0; i < items.n; i++) {
        value *item = attribute ? follow(run, items.data[i], attribute) : items.data[i];
        if (!item || !jinja_step(run, 1))
            return NULL;
        if (i && separator && !jinja_put_string(run, &b, separator, 0, separator->as.string.len))
            return NULL;
        if (!jinja_put_str(run, &b, item))
            return NULL;
    }
    return jinja_built(run, &b);
}

static value *filter_sum(struct jinja_run *run, arguments *args)
{
    const value *attribute = jinja_argument(args, 0, "attribute");
    value *start = jinja_argument(args, 1, "start");
    struct jinja_items items = {0};
    if (!items_of(run, args->self, &items))
        return NULL;
    bool real = start && start->type == JINJA_FLOAT;
    double sum = start ? jinja_as_double(start) : 0;
    for (size_t i = 0; i < items.n; i++) {
        value *item = attribute ? follow(run, items.data[i], attribute) : items.data[i];
        if (!item)
            return NULL;
        if (!jinja_is_number(item))
            return jinja_fail(run, "sum() takes numbers, not %s", jinja_type_name(item));
        real = real || item->type == JINJA_FLOAT;
        sum += jinja_as_double(item);
    }
    return real ? jinja_float(run, sum) : jinja_integer(run, (int64_t)sum);
}

static value *batches(struct jinja_run *run, arguments *args, bool columns)
{
    const value *count = jinja_argument(args, 0, columns ? "slices" : "linecount");
    value *fill = jinja_argument(args, 1, "fill_with");
    struct jinja_items items = {0};
    if (!items_of(run, args->self, &items))
        return NULL;
    int64_t n = count && jinja_is_number(count) ? jinja_as_integer(count) : 0;
    if (n < 1 || n > 100000)
        return jinja_fail(run, "%s() takes a count from 1", columns ? "slice" : "batch");
    size_t per = (size_t)n, extra = 0, rows = 0;
    if (columns) {
        rows = (size_t)n;
        per = items.n / rows;
        extra = items.n % rows;
    } else {
        rows = (items.n + per - 1) / per;
    }
    value *out = jinja_list(run);
    for (size_t row = 0, at = 0; out && row < rows; row++) {
        value *line = jinja_list(run);
        size_t take = per + (columns && row < extra);
        for (size_t i = 0; line && i < take && at < items.n; i++)
            if (!jinja_list_add(run, line, items.data[at++]))
                return NULL;
        size_t full = columns ? per + (extra != 0) : per;
        while (line && fill && line->as.items.n < full)
            if (!jinja_list_add(run, line, fill))
                return NULL;
        if (!jinja_step(run, 1) || !jinja_list_add(run, out, line))
            return NULL;
    }
    return out;
}

static value *filter_batch(struct jinja_run *run, arguments *args)
{
    return batches(run, args, false);
}

static value *filter_slice(struct jinja_run *run, arguments *args)
{
    return batches(run, args, true);
}

/* ---- Choosing ------------------------------------------------------------ */

/* The arguments behind the first skip of args, for a filter or test on self. */
static arguments inner_arguments(const arguments *args, size_t skip, value *self)
{
    arguments inner = {.self = self};
    if (args->positional.n > skip) {
        inner.positional.data = args->positional.data + skip;
        inner.positional.n = inner.positional.capacity = args->positional.n - skip;
    }
    inner.keywords = args->keywords;
    inner.n_keywords = inner.keywords_capacity = args->n_keywords;
    return inner;
}

static value *choose(struct jinja_run *run, arguments *args, bool by_attribute, bool keep)
{
    const value *attribute = by_attribute ? jinja_argument(args, 0, NULL) : NULL;
    size_t skip = by_attribute ? 1 : 0;
    const value *test = jinja_argument(args, skip, NULL);
    struct jinja_items items = {0};
    value *out = jinja_list(run);
    if (!out || !items_of(run, args->self, &items))
        return NULL;
    if (by_attribute && !attribute)
        return jinja_fail(run, "selectattr: an attribute is missing");
    if (test && test->type != JINJA_STRING)
        return jinja_fail(run, "a test's name must be text");
    const void *row = test ? jinja_test_of(jinja_bytes(test)) : NULL;
    for (size_t i = 0; i < items.n; i++) {
        value *v = attribute ? follow(run, items.data[i], attribute) : items.data[i];
        if (!v || !jinja_step(run, 1))
            return NULL;
        bool chosen = jinja_truth(v);
        arguments inner = inner_arguments(args, skip + 1, v);
        if (test && !jinja_apply_test(run, row, jinja_bytes(test), &inner, &chosen))
            return NULL;
        if (chosen == keep && !jinja_list_add(run, out, items.data[i]))
            return NULL;
    }
    return out;
}

static value *filter_select(struct jinja_run *run, arguments *args)
{
    return choose(run, args, false, true);
}

static value *filter_reject(struct jinja_run *run, arguments *args)
{
    return choose(run, args, false, false);
}

static value *filter_selectattr(struct jinja_run *run, arguments *args)
{
    return choose(run, args, true, true);
}

static value *filter_rejectattr(struct jinja_run *run, arguments *args)
{
    return choose(run, args, true, false);
}

static value *filter_map(struct jinja_run *run, arguments *args)
{
    const value *attribute = jinja_argument(args, SIZE_MAX, "attribute");
    value *fallback = jinja_argument(args, SIZE_MAX, "default");
    const value *filter = jinja_argument(args, 0, NULL);
    struct jinja_items items = {0};
    value *out = jinja_new(run, args->self->type == JINJA_TUPLE ? JINJA_TUPLE : JINJA_LIST);
    if (!out || !items_of(run, args->self, &items))
        return NULL;
    if (!attribute && (!filter || filter->type != JINJA_STRING))
        return jinja_fail(run, "map: attribute must be string or integer");
    for (size_t i = 0; i < items.n; i++) {
        value *v;
        if (attribute) {
            v = follow(run, items.data[i], attribute);
            if (v && v->type == JINJA_UNDEFINED && fallback)
                v = fallback;
        } else {
            arguments inner = inner_arguments(args, 1, items.data[i]);
            v = jinja_apply_filter(run, jinja_filter_of(jinja_bytes(filter)), jinja_bytes(filter),
                                   &inner);
        }
        if (!jinja_step(run, 1) || !jinja_items_add(run, &out->as.items, v))
            return NULL;
    }
    return out;
}

static value *filter_unique(struct jinja_run *run, arguments *args)
{
    const value *attribute = jinja_argument(args, 1, "attribute");
    struct jinja_items items = {0};
    value *out = jinja_list(run), *seen = jinja_dict(run);
    if (!out || !seen || !items_of(run, args->self, &items))
        return NULL;
    for (size_t i = 0; i < items.n; i++) {
        value *key = attribute ? follow(run, items.data[i], attribute) : items.data[i];
        if (key && key->type == JINJA_STRING && !truth_argument(args, 0, "case_sensitive", false)) {
            arguments inner = {.self = key};
            key = jinja_apply_filter(run, jinja_filter_of(SLICE("lower")), SLICE("lower"), &inner);
        }
        if (!key || !jinja_step(run, 1))
            return NULL;
        if (jinja_hashable(key) && jinja_dict_find(seen->as.dict, key))
            continue;
        if (!jinja_dict_set(run, seen, key, key) || !jinja_list_add(run, out, items.data[i]))
            return NULL;
    }
    return out;
}

/* ---- Order --------------------------------------------------------------- */

struct sortable {
    value *key, *item;
};

/* Texts compare without case unless case_sensitive. */
static value *sort_key(struct jinja_run *run, value *v, bool case_sensitive)
{
    if (!v || v->type != JINJA_STRING || case_sensitive)
        return v;
    arguments inner = {.self = v};
    return jinja_apply_filter(run, jinja_filter_of(SLICE("lower")), SLICE("lower"), &inner);
}

/* A stable merge sort: comparing can fail, which qsort cannot say. */
static bool merge_sort(struct jinja_run *run, struct sortable *all, struct sortable *scratch,
                       size_t n, bool descending)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n;
            size_t end = middle + width < n ? middle + width : n;
            size_t i = begin, k = middle;
            for (size_t to = begin; to < end; to++) {
                int order = 0;
                if (i < middle && k < end) {
                    order = jinja_order(all[i].key, all[k].key, 0);
                    if (order == 2)
                        return jinja_fail(run, "cannot sort %s and %s", jinja_type_name(all[i].key),
                                          jinja_type_name(all[k].key)) != NULL;
                }
                bool left = k >= end || (i < middle && (descending ? order >= 0 : order <= 0));
                scratch[to] = left ? all[i++] : all[k++];
            }
        }
        memcpy(all, scratch, n * sizeof *all);
        if (!jinja_step(run, n))
            return false;
    }
    return true;
}

static value *sorted(struct jinja_run *run, struct sortable *all, size_t n, bool descending,
                     enum jinja_type type)
{
    struct sortable *scratch = jinja_alloc(run, (n + 1) * sizeof *scratch);
    if (!scratch || !merge_sort(run, all, scratch, n, descending))
        return NULL;
    value *out = jinja_new(run, type);
    for (size_t i = 0; out && i < n; i++)
        if (!jinja_items_add(run, &out->as.items, all[i].item))
            return NULL;
    return out;
}

static value *filter_sort(struct jinja_run *run, arguments *args)
{
    bool descending = truth_argument(args, 0, "reverse", false);
    bool exact = truth_argument(args, 1, "case_sensitive", false);
    const value *attribute = jinja_argument(args, 2, "attribute");
    struct jinja_items items = {0};
    if (!items_of(run, args->self, &items))
        return NULL;
    struct sortable *all = jinja_alloc(run, (items.n + 1) * sizeof *all);
    for (size_t i = 0; all && i < items.n; i++) {
        value *v = attribute ? follow(run, items.data[i], attribute) : items.data[i];
        all[i] = (struct sortable){sort_key(run, v, exact), items.data[i]};
        if (!all[i].key)
            return NULL;
    }
    return all ? sorted(run, all, items.n, descending,
                        args->self->type == JINJA_TUPLE ? JINJA_TUPLE : JINJA_LIST)
               : NULL;
}

static value *filter_dictsort(struct jinja_run *run, arguments *args)
{
    bool exact = truth_argument(args, 0, "case_sensitive", false);
    const value *by = jinja_argument(args, 1, "by");
    bool descending = truth_argument(args, 2, "reverse", false);
    bool by_value = by && by->type == JINJA_STRING && slice_equal_text(jinja_bytes(by), "value");
    const struct jinja_dict *dict = args->self->as.dict;
    struct sortable *all = jinja_alloc(run, (dict->n + 1) * sizeof *all);
    for (size_t i = 0; all && i < dict->n; i++) {
        struct jinja_entry *entry = &dict->entries[i];
        all[i].key = sort_key(run, by_value ? entry->value : entry->key, exact);
        all[i].item = pair_of(run, entry->key, entry->value);
        if (!all[i].key || !all[i].item)
            return NULL;
    }
    return all ? sorted(run, all, dict->n, descending, JINJA_LIST) : NULL;
}

static value *extreme(struct jinja_run *run, arguments *args, int wanted)
{
    bool exact = truth_argument(args, 0, "case_sensitive", false);
    const value *attribute = jinja_argument(args, 1, "attribute");
    struct jinja_items items = {0};
    if (!items_of(run, args->self, &items))
        return NULL;
    value *best = NULL, *best_key = NULL;
    for (size_t i = 0; i < items.n; i++) {
        value *v = attribute ? follow(run, items.data[i], attribute) : items.data[i];
        value *key = sort_key(run, v, exact);
        if (!key || !jinja_step(run, 1))
            return NULL;
        int order = best ? jinja_order(key, best_key, 0) : wanted;
        if (order == 2)
            return jinja_fail(run, "cannot compare %s and %s", jinja_type_name(key),
                              jinja_type_name(best_key));
        if (order == wanted) {
            best = items.data[i];
            best_key = key;
        }
    }
    return best ? best : jinja_undefined(run, SLICE("No items, sequence was empty."));
}

static value *filter_min(struct jinja_run *run, arguments *args)
{
    return extreme(run, args, -1);
}

static value *filter_max(struct jinja_run *run, arguments *args)
{
    return extreme(run, args, 1);
}

static value *filter_groupby(struct jinja_run *run, arguments *args)
{
    const value *attribute = jinja_argument(args, 0, "attribute");
    value *fallback = jinja_argument(args, 1, "default");
    struct jinja_items items = {0};
    if (!attribute)
        return jinja_fail(run, "groupby() takes an attribute");
    if (!items_of(run, args->self, &items))
        return NULL;
    struct sortable *all = jinja_alloc(run, (items.n + 1) * sizeof *all);
    for (size_t i = 0; all && i < items.n; i++) {
        value *key = follow(run, items.data[i], attribute);
        if (key && key->type == JINJA_UNDEFINED && fallback)
            key = fallback;
        if (!key)
            return NULL;
        all[i] = (struct sortable){key, pair_of(run, key, items.data[i])};
        if (!all[i].item)
            return NULL;
    }
    value *pairs = all ? sorted(run, all, items.n, false, JINJA_LIST) : NULL;
    value *out = pairs ? jinja_list(run) : NULL, *group = NULL, *last = NULL;
    for (size_t i = 0; out && i < items.n; i++) {
        value *const *pair = pairs->as.items.data[i]->as.items.data;
        if (!last || !jinja_equal(last, pair[0], 0)) {
            last = pair[0];
            group = jinja_list(run);
            value *tuple = group ? pair_of(run, last, group) : NULL;
            if (!tuple || !jinja_list_add(run, out, tuple))
                return NULL;
        }
        if (!group || !jinja_list_add(run, group, pair[1]))
            return NULL;
    }
    return out;
}

/* ---- Mappings, defaults, JSON -------------------------------------------- */

static value *filter_items(struct jinja_run *run, arguments *args)
{
    value *out = jinja_list(run);
    const struct jinja_dict *dict = args->self->as.dict;
    for (size_t i = 0; out && i < dict->n; i++)
        if (!jinja_step(run, 1) ||
            !jinja_list_add(run, out, pair_of(run, dict->entries[i].key, dict->entries[i].value)))
            return NULL;
    return out;
}

static value *filter_attr(struct jinja_run *run, arguments *args)
{
    const value *name = jinja_argument(args, 0, "name");
    if (!name || name->type != JINJA_STRING)
        return jinja_fail(run, "attr() takes a name");
    return jinja_attribute(run, args->self, jinja_bytes(name));
}

static value *filter_default(struct jinja_run *run, arguments *args)
{
    value *fallback = jinja_argument(args, 0, "default_value");
    bool check_truth = truth_argument(args, 1, "boolean", false);
    bool missing = check_truth
                       ? !jinja_truth(args->self)
                       : args->self->type == JINJA_UNDEFINED || args->self->type == JINJA_NONE;
    if (!missing)
        return args->self;
    return fallback ? fallback : jinja_text(run, SLICE(""), false);
}

static value *filter_tojson(struct jinja_run *run, arguments *args)
{
    const value *indent = jinja_argument(args, 1, "indent");
    const value *separators = jinja_argument(args, 2, "separators");
    struct jinja_json_style style = {.indent = -1, .key_separator = SLICE(": ")};
    struct jinja_builder b = {0};
    value *self = args->self;
    jinja_mark_used(run, self, true);
    style.ensure_ascii = truth_argument(args, 0, "ensure_ascii", false);
    style.sort_keys = truth_argument(args, 3, "sort_keys", false);
    if (indent && indent->type == JINJA_INTEGER) {
        if (indent->as.integer > 64)
            return jinja_fail(run, "tojson: the indent is too wide");
        style.indent = indent->as.integer < 0 ? 0 : (int)indent->as.integer;
    }
    style.item_separator = style.indent < 0 ? SLICE(", ") : SLICE(",");
    if (separators && jinja_is_sequence(separators) && separators->as.items.n == 2 &&
        separators->as.items.data[0]->type == JINJA_STRING &&
        separators->as.items.data[1]->type == JINJA_STRING) {
        style.item_separator = jinja_bytes(separators->as.items.data[0]);
        style.key_separator = jinja_bytes(separators->as.items.data[1]);
    }
    return jinja_put_json(run, &b, self, &style, 0) ? jinja_built(run, &b) : NULL;
}

/* ---- Methods ------------------------------------------------------------- */

static value *method_get(struct jinja_run *run, arguments *args)
{
    const value *key = jinja_argument(args, 0, "key");
    value *fallback = jinja_argument(args, 1, "default");
    struct jinja_entry *entry =
        key && jinja_hashable(key) ? jinja_dict_find(args->self->as.dict, key) : NULL;
    return entry ? entry->value : fallback ? fallback : run->none;
}

static value *method_keys(struct jinja_run *run, arguments *args)
{
    return filter_list(run, args);
}

static value *method_values(struct jinja_run *run, arguments *args)
{
    value *out = jinja_list(run);
    for (size_t i = 0; out && i < args->self->as.dict->n; i++)
        if (!jinja_list_add(run, out, args->self->as.dict->entries[i].value))
            return NULL;
    return out;
}

static value *method_pop(struct jinja_run *run, arguments *args)
{
    value *key = jinja_argument(args, 0, NULL), *fallback = jinja_argument(args, 1, NULL);
    if (args->self->type == JINJA_DICT) {
        struct jinja_entry *entry =
            key && jinja_hashable(key) ? jinja_dict_find(args->self->as.dict, key) : NULL;
        if (!entry)
            return fallback ? fallback : jinja_fail(run, "pop(): no such key");
        value *found = entry->value;
        run->mutations++;
        return jinja_dict_remove(run, args->self->as.dict, key) ? found : NULL;
    }
    struct jinja_items *items = &args->self->as.items;
    run->mutations++;
    int64_t i = key && jinja_is_number(key) ? jinja_as_integer(key) : -1;
    if (i < 0)
        i += (int64_t)items->n;
    if (i < 0 || i >= (int64_t)items->n)
        return jinja_fail(run, "pop(): the index is out of range");
    value *found = items->data[i];
    if (i + 1 < (int64_t)items->n && !jinja_items_own(run, items))
        return NULL;
    memmove(items->data + i, items->data + i + 1, (items->n - (size_t)i - 1) * sizeof *items->data);
    items->capacity = --items->n; /* others may still see what stood behind */
    return found;
}

static value *method_update(struct jinja_run *run, arguments *args)
{
    const value *other = jinja_argument(args, 0, NULL);
    run->mutations++;
    if (other && other->type == JINJA_DICT && other->as.dict != args->self->as.dict)
        for (size_t i = 0; i < other->as.dict->n; i++)
            if (!jinja_step(run, 1) ||
                !jinja_dict_set(run, args->self, other->as.dict->entries[i].key,
                                other->as.dict->entries[i].value))
                return NULL;
    for (size_t i = 0; i < args->n_keywords; i++)
        if (!jinja_dict_set(run, args->self, jinja_text(run, args->keywords[i].name, false),
                            args->keywords[i].value))
            return NULL;
    return run->none;
}

static value *method_setdefault(struct jinja_run *run, arguments *args)
{
    value *key = jinja_argument(args, 0, NULL), *fallback = jinja_argument(args, 1, NULL);
    struct jinja_entry *entry =
        key && jinja_hashable(key) ? jinja_dict_find(args->self->as.dict, key) : NULL;
    if (entry)
        return entry->value;
    fallback = fallback ? fallback : run->none;
    run->mutations++;
    return jinja_dict_set(run, args->self, key, fallback) ? fallback : NULL;
}

static value *method_copy(struct jinja_run *run, arguments *args)
{
    if (args->self->type != JINJA_DICT)
        return list_of(run, args->self, &args->self->as.items);
    value *out = jinja_dict(run);
    for (size_t i = 0; out && i < args->self->as.dict->n; i++)
        if (!jinja_step(run, 1) || !jinja_dict_set(run, out, args->self->as.dict->entries[i].key,
                                                   args->self->as.dict->entries[i].value))
            return NULL;
    return out;
}

static value *method_append(struct jinja_run *run, arguments *args)
{
    value *item = jinja_argument(args, 0, NULL);
    if (!item)
        return jinja_fail(run, "append() takes a value");
    run->mutations++;
    return jinja_list_add(run, args->self, item) ? run->none : NULL;
}

static value *method_extend(struct jinja_run *run, arguments *args)
{
    value *other = jinja_argument(args, 0, NULL);
    struct jinja_items items = {0};
    if (!other)
        return jinja_fail(run, "extend() takes a list");
    if (!items_of(run, other, &items))
        return NULL;
    run->mutations++;
    for (size_t i = 0; i < items.n; i++)
        if (!jinja_step(run, 1) || !jinja_list_add(run, args->self, items.data[i]))
            return NULL;
    return run->none;
}

static value *method_insert(struct jinja_run *run, arguments *args)
{
    const value *index = jinja_argument(args, 0, NULL);
    value *item = jinja_argument(args, 1, NULL);
    struct jinja_items *items = &args->self->as.items;
    if (!index || !jinja_is_number(index) || !item)
        return jinja_fail(run, "insert() takes an index and a value");
    int64_t i = jinja_as_integer(index), n = (int64_t)items->n;
    i = i < 0 ? (i + n < 0 ? 0 : i + n) : i > n ? n : i;
    run->mutations++;
    if (!jinja_items_own(run, items) || !jinja_items_add(run, items, item))
        return NULL;
    memmove(items->data + i + 1, items->data + i, (size_t)(n - i) * sizeof *items->data);
    items->data[i] = item;
    return run->none;
}

static value *method_index(struct jinja_run *run, arguments *args)
{
    const value *wanted = jinja_argument(args, 0, NULL);
    for (size_t i = 0; wanted && i < args->self->as.items.n; i++)
        if (jinja_equal(args->self->as.items.data[i], wanted, 0))
            return jinja_integer(run, (int64_t)i);
    return jinja_fail(run, "index(): the value is not in the list");
}

static value *method_count(struct jinja_run *run, arguments *args)
{
    const value *wanted = jinja_argument(args, 0, NULL);
    int64_t n = 0;
    for (size_t i = 0; wanted && i < args->self->as.items.n; i++)
        n += jinja_equal(args->self->as.items.data[i], wanted, 0);
    return jinja_integer(run, n);
}

static value *method_remove(struct jinja_run *run, arguments *args)
{
    value *at = method_index(run, args);
    if (!at)
        return NULL;
    arguments inner = {.self = args->self};
    return jinja_items_add(run, &inner.positional, at) && method_pop(run, &inner) ? run->none
                                                                                  : NULL;
}

static value *method_clear(struct jinja_run *run, arguments *args)
{
    run->mutations++;
    if (args->self->type == JINJA_DICT)
        *args->self->as.dict = (struct jinja_dict){0};
    else
        args->self->as.items = (struct jinja_items){0};
    return run->none;
}

static value *reorder(struct jinja_run *run, arguments *args, value *ordered)
{
    if (!ordered)
        return NULL;
    run->mutations++;
    args->self->as.items = ordered->as.items;
    return run->none;
}

static value *method_reverse(struct jinja_run *run, arguments *args)
{
    return reorder(run, args, filter_reverse(run, args));
}

static value *method_sort(struct jinja_run *run, arguments *args)
{
    return reorder(run, args, filter_sort(run, args));
}

static value *method_cycle(struct jinja_run *run, arguments *args)
{
    if (args->positional.n == 0)
        return jinja_fail(run, "no items for cycling given");
    return args->positional.data[args->self->as.loop->i % args->positional.n];
}

static value *method_changed(struct jinja_run *run, arguments *args)
{
    struct jinja_loop *loop = args->self->as.loop;
    value *now = list_of(run, NULL, &args->positional);
    if (!now)
        return NULL;
    run->mutations++;
    bool changed = !loop->changed || !jinja_equal(now, loop->changed, 0);
    loop->changed = now;
    return jinja_bool(run, changed);
}

#define EMPTY_LIST    .empty_on = ON_UNDEFINED | ON_NONE, .empty = JINJA_LIST
#define EMPTY_NOTHING .empty_on = ON_UNDEFINED, .empty = JINJA_UNDEFINED

enum { ON_ITERABLE = ON_SEQUENCE | ON_DICT, ON_SIZED = ON_SEQUENCE | ON_DICT | ON_STRING };

const struct jinja_builtin_row jinja_list_filters[] = {
    {"length", ON_SIZED, filter_length, false, ON_UNDEFINED, JINJA_INTEGER},
    {"count", ON_SIZED, filter_length, false, ON_UNDEFINED, JINJA_INTEGER},
    {"list", ON_SIZED, filter_list, false, ON_UNDEFINED, JINJA_LIST},
    {.name = "first", .on = ON_SIZED, .function = filter_first, EMPTY_NOTHING},
    {.name = "last", .on = ON_SIZED, .function = filter_last, EMPTY_NOTHING},
    {"reverse", ON_SEQUENCE | ON_STRING, filter_reverse, false, ON_UNDEFINED, JINJA_LIST},
    {"join", ON_ITERABLE, filter_join, false, ON_UNDEFINED, JINJA_STRING},
    {"sum", ON_SEQUENCE, filter_sum, false, ON_UNDEFINED, JINJA_INTEGER},
    {.name = "batch", .on = ON_SIZED, .function = filter_batch, EMPTY_LIST},
    {.name = "slice", .on = ON_SIZED, .function = filter_slice, EMPTY_LIST},
    {.name = "select", .on = ON_ITERABLE, .function = filter_select, EMPTY_LIST},
    {.name = "reject", .on = ON_ITERABLE, .function = filter_reject, EMPTY_LIST},
    {.name = "selectattr", .on = ON_ITERABLE, .function = filter_selectattr, EMPTY_LIST},
    {.name = "rejectattr", .on = ON_ITERABLE, .function = filter_rejectattr, EMPTY_LIST},
    {.name = "map", .on = ON_ITERABLE, .function = filter_map, EMPTY_LIST},
    {.name = "unique", .on = ON_ITERABLE, .function = filter_unique, EMPTY_LIST},
    {"sort", ON_ITERABLE, filter_sort, false, ON_UNDEFINED, JINJA_LIST},
    {.name = "min", .on = ON_ITERABLE, .function = filter_min, EMPTY_NOTHING},
    {.name = "max", .on = ON_ITERABLE, .function = filter_max, EMPTY_NOTHING},
    {.name = "groupby", .on = ON_SEQUENCE, .function = filter_groupby, EMPTY_LIST},
    {.name = "dictsort", .on = ON_DICT, .function = filter_dictsort},
    {.name = "items", .on = ON_DICT, .function = filter_items, EMPTY_LIST},
    {.name = "attr", .on = ON_ANY, .function = filter_attr},
    {.name = "default", .on = ON_ANY, .function = filter_default},
    {.name = "d", .on = ON_ANY, .function = filter_default},
    {.name = "tojson", .on = ON_ANY, .function = filter_tojson},
    {0},
};

const struct jinja_builtin_row jinja_container_methods[] = {
    {.name = "get", .on = ON_DICT, .function = method_get},
    {.name = "keys", .on = ON_DICT, .function = method_keys},
    {.name = "values", .on = ON_DICT, .function = method_values},
    {.name = "items", .on = ON_DICT, .function = filter_items},
    {.name = "update", .on = ON_DICT, .function = method_update},
    {.name = "setdefault", .on = ON_DICT, .function = method_setdefault},
    {.name = "pop", .on = ON_DICT | 1 << JINJA_LIST, .function = method_pop},
    {.name = "copy", .on = ON_DICT | ON_SEQUENCE, .function = method_copy},
    {.name = "clear", .on = ON_DICT | 1 << JINJA_LIST, .function = method_clear},
    {.name = "append", .on = 1 << JINJA_LIST, .function = method_append},
    {.name = "extend", .on = 1 << JINJA_LIST, .function = method_extend},
    {.name = "insert", .on = 1 << JINJA_LIST, .function = method_insert},
    {.name = "remove", .on = 1 << JINJA_LIST, .function = method_remove},
    {.name = "reverse", .on = 1 << JINJA_LIST, .function = method_reverse},
    {.name = "sort", .on = 1 << JINJA_LIST, .function = method_sort},
    {.name = "index", .on = ON_SEQUENCE, .function = method_index},
    {.name = "count", .on = ON_SEQUENCE, .function = method_count},
    {.name = "cycle", .on = 1 << JINJA_LOOP, .function = method_cycle},
    {.name = "changed", .on = 1 << JINJA_LOOP, .function = method_changed},
    {0},
};
