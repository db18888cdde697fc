/* jinja_value.c - making, comparing and hashing values. */
#include "chat/jinja_value.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMPARE_DEPTH = 100, DICT_LINEAR = 8 };

struct jinja_value *jinja_fail(struct jinja_run *run, const char *format, ...)
{
    if (!run->failed) {
        va_list args;
        va_start(args, format);
        error_set_va(&run->error, ERR_INVALID, format, args);
        va_end(args);
        run->failed = true;
    }
    return NULL;
}

/* ---- Making -------------------------------------------------------------- */

struct jinja_value *jinja_new(struct jinja_run *run, enum jinja_type type)
{
    struct jinja_value *v = jinja_alloc_raw(run, sizeof *v);
    if (!v)
        return NULL;
    *v = (struct jinja_value){.type = (uint8_t)type};
    if (type == JINJA_STRING)
        v->as.string.data = "";
    return v;
}

struct jinja_value *jinja_bool(struct jinja_run *run, bool value)
{
    if (!run->watch && run->yes)
        return value ? run->yes : run->no;
    struct jinja_value *v = jinja_new(run, JINJA_BOOL);
    if (v)
        v->as.boolean = value;
    return v;
}

struct jinja_value *jinja_integer(struct jinja_run *run, int64_t value)
{
    bool small = !run->watch && value >= 0 && value < JINJA_SMALL;
    if (small && run->small[value])
        return run->small[value];
    struct jinja_value *v = jinja_new(run, JINJA_INTEGER);
    if (v)
        v->as.integer = value;
    if (small)
        run->small[value] = v;
    return v;
}

struct jinja_value *jinja_float(struct jinja_run *run, double value)
{
    struct jinja_value *v = jinja_new(run, JINJA_FLOAT);
    if (v)
        v->as.real = value;
    return v;
}

struct jinja_value *jinja_text(struct jinja_run *run, struct slice text, bool marked)
{
    struct jinja_value *v = jinja_new(run, JINJA_STRING);
    char *copy = v ? jinja_copy_text(run, text) : NULL;
    if (!copy)
        return NULL;
    v->as.string = (struct jinja_string){copy, text.len, NULL, marked};
    return v;
}

struct jinja_value *jinja_undefined(struct jinja_run *run, struct slice name)
{
    struct jinja_value *v = jinja_new(run, JINJA_UNDEFINED);
    if (v)
        v->as.string = (struct jinja_string){name.data, name.len, NULL, false};
    return v;
}

struct jinja_value *jinja_list(struct jinja_run *run)
{
    return jinja_new(run, JINJA_LIST);
}

struct jinja_value *jinja_dict(struct jinja_run *run)
{
    struct jinja_value *v = jinja_new(run, JINJA_DICT);
    return v && (v->as.dict = jinja_alloc(run, sizeof *v->as.dict)) ? v : NULL;
}

struct jinja_value *jinja_builtin(struct jinja_run *run, const char *name, jinja_function *function,
                                  struct jinja_value *self)
{
    struct jinja_value *v = jinja_new(run, JINJA_FUNCTION);
    if (!v || !(v->as.callable = jinja_alloc(run, sizeof *v->as.callable)))
        return NULL;
    *v->as.callable = (struct jinja_callable_data){
        .kind = CALL_BUILTIN, .name = name, .function = function, .self = self};
    return v;
}

/* An arena array grows by moving; the old one is lost until the run ends. */
static bool grow(struct jinja_run *run, void **data, size_t *capacity, size_t n, size_t size)
{
    if (n < *capacity)
        return true;
    size_t wanted = *capacity ? *capacity * 2 : 4;
    void *grown = jinja_alloc_raw(run, wanted * size);
    if (!grown)
        return false;
    if (n)
        memcpy(grown, *data, n * size);
    *data = grown;
    *capacity = wanted;
    return true;
}

bool jinja_items_reserve(struct jinja_run *run, struct jinja_items *items, size_t n)
{
    if (n <= items->capacity)
        return true;
    struct jinja_value **grown = n > SIZE_MAX / sizeof *grown
                                     ? (void *)jinja_fail(run, "the list is too long")
                                     : jinja_alloc_raw(run, n * sizeof *grown);
    if (!grown)
        return false;
    if (items->n)
        memcpy(grown, items->data, items->n * sizeof *grown);
    items->data = grown;
    items->capacity = n;
    return true;
}

bool jinja_items_own(struct jinja_run *run, struct jinja_items *items)
{
    struct jinja_items copy = {.data = items->data, .n = items->n};
    if (copy.n && !jinja_items_reserve(run, &copy, copy.n))
        return false;
    *items = copy;
    return true;
}

bool jinja_items_add(struct jinja_run *run, struct jinja_items *items, struct jinja_value *item)
{
    if (!item || !grow(run, (void **)&items->data, &items->capacity, items->n, sizeof *items->data))
        return false;
    items->data[items->n++] = item;
    return true;
}

bool jinja_list_add(struct jinja_run *run, struct jinja_value *list, struct jinja_value *item)
{
    return jinja_items_add(run, &list->as.items, item);
}

struct jinja_value *jinja_substring(struct jinja_run *run, const struct jinja_value *text,
                                    size_t begin, size_t end)
{
    struct jinja_value *v = jinja_new(run, JINJA_STRING);
    if (!v)
        return NULL;
    v->as.string = text->as.string;
    v->as.string.data += begin;
    v->as.string.len = end - begin;
    if (v->as.string.marks)
        v->as.string.marks += begin;
    return v;
}

/* A text that lies elsewhere, and stays there as long as the run. */
static struct jinja_value *borrowed(struct jinja_run *run, struct slice text, bool marked)
{
    struct jinja_value *v = jinja_new(run, JINJA_STRING);
    if (v)
        v->as.string = (struct jinja_string){text.data, text.len, NULL, marked};
    return v;
}

static struct jinja_value *from_json(struct jinja_run *run, const json_t *json, bool marked)
{
    switch (json_typeof(json)) {
    case JSON_NULL:
        return jinja_new(run, JINJA_NONE);
    case JSON_TRUE:
    case JSON_FALSE:
        return jinja_bool(run, json_is_true(json));
    case JSON_INTEGER:
        return jinja_integer(run, json_integer_value(json));
    case JSON_REAL:
        return jinja_float(run, json_real_value(json));
    case JSON_STRING:
        return borrowed(run, json_slice(json), marked);
    case JSON_ARRAY: {
        struct jinja_value *list = jinja_list(run);
        if (!list || !jinja_items_reserve(run, &list->as.items, json_array_size(json)))
            return NULL;
        for (size_t i = 0; i < json_array_size(json); i++)
            if (!jinja_list_add(run, list, from_json(run, json_array_get(json, i), marked)))
                return NULL;
        return list;
    }
    case JSON_OBJECT: {
        struct jinja_value *dict = jinja_dict(run);
        const char *key;
        json_t *value;
        if (!dict)
            return NULL;
        json_object_foreach((json_t *)json, key, value)
        {
            struct jinja_value *name = borrowed(run, slice_of(key), marked);
            struct jinja_value *item = name ? from_json(run, value, marked) : NULL;
            if (!item || !jinja_dict_set(run, dict, name, item))
                return NULL;
        }
        return dict;
    }
    }
    return jinja_new(run, JINJA_NONE);
}

struct jinja_value *jinja_from_json(struct jinja_run *run, const json_t *json, bool marked)
{
    struct jinja_kept *kept = jinja_alloc(run, sizeof *kept);
    if (!kept)
        return NULL;
    *kept = (struct jinja_kept){run->kept, json_incref((json_t *)json)};
    run->kept = kept;
    return from_json(run, json, marked);
}

/* ---- Asking -------------------------------------------------------------- */

const char *jinja_type_name(const struct jinja_value *v)
{
    static const char *const names[] = {
        [JINJA_UNDEFINED] = "Undefined", [JINJA_NONE] = "None",   [JINJA_BOOL] = "Boolean",
        [JINJA_INTEGER] = "Integer",     [JINJA_FLOAT] = "Float", [JINJA_STRING] = "String",
        [JINJA_LIST] = "Array",          [JINJA_TUPLE] = "Tuple", [JINJA_DICT] = "Object",
        [JINJA_FUNCTION] = "Function",   [JINJA_LOOP] = "Object",
    };
    return names[v->type];
}

bool jinja_is_sequence(const struct jinja_value *v)
{
    return v->type == JINJA_LIST || v->type == JINJA_TUPLE;
}

bool jinja_is_number(const struct jinja_value *v)
{
    return v->type == JINJA_BOOL || v->type == JINJA_INTEGER || v->type == JINJA_FLOAT;
}

double jinja_as_double(const struct jinja_value *v)
{
    return v->type == JINJA_FLOAT  ? v->as.real
           : v->type == JINJA_BOOL ? (double)v->as.boolean
                                   : (double)v->as.integer;
}

int64_t jinja_as_integer(const struct jinja_value *v)
{
    if (v->type == JINJA_FLOAT) {
        double d = v->as.real;
        return d >= -9.2e18 && d <= 9.2e18 ? (int64_t)d : 0;
    }
    return v->type == JINJA_BOOL ? v->as.boolean : v->as.integer;
}

struct slice jinja_bytes(const struct jinja_value *v)
{
    return (struct slice){v->as.string.data, v->as.string.len};
}

bool jinja_truth(const struct jinja_value *v)
{
    switch (v->type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v->as.boolean;
    case JINJA_INTEGER:
        return v->as.integer != 0;
    case JINJA_FLOAT:
        return v->as.real != 0;
    case JINJA_STRING:
        return v->as.string.len != 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return v->as.items.n != 0;
    case JINJA_DICT:
        return v->as.dict->n != 0;
    default:
        return true;
    }
}

static bool equal_numbers(const struct jinja_value *a, const struct jinja_value *b)
{
    if (a->type == JINJA_FLOAT || b->type == JINJA_FLOAT)
        return jinja_as_double(a) == jinja_as_double(b);
    return jinja_as_integer(a) == jinja_as_integer(b);
}

bool jinja_equal(const struct jinja_value *a, const struct jinja_value *b, unsigned depth)
{
    if (a == b && a->type != JINJA_FLOAT)
        return true;
    if (jinja_is_number(a) && jinja_is_number(b))
        return equal_numbers(a, b);
    if (a->type != b->type || depth > COMPARE_DEPTH)
        return false;
    switch (a->type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_STRING:
        return slice_equal(jinja_bytes(a), jinja_bytes(b));
    case JINJA_LIST:
    case JINJA_TUPLE:
        if (a->as.items.n != b->as.items.n)
            return false;
        for (size_t i = 0; i < a->as.items.n; i++)
            if (!jinja_equal(a->as.items.data[i], b->as.items.data[i], depth + 1))
                return false;
        return true;
    case JINJA_DICT:
        if (a->as.dict->n != b->as.dict->n)
            return false;
        for (size_t i = 0; i < a->as.dict->n; i++) {
            const struct jinja_entry *entry =
                jinja_dict_find(b->as.dict, a->as.dict->entries[i].key);
            if (!entry || !jinja_equal(a->as.dict->entries[i].value, entry->value, depth + 1))
                return false;
        }
        return true;
    default:
        return false;
    }
}

static int sign_of(int difference)
{
    return (difference > 0) - (difference < 0);
}

int jinja_order(const struct jinja_value *a, const struct jinja_value *b, unsigned depth)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a->type == JINJA_FLOAT || b->type == JINJA_FLOAT) {
            double x = jinja_as_double(a), y = jinja_as_double(b);
            return (x > y) - (x < y);
        }
        int64_t x = jinja_as_integer(a), y = jinja_as_integer(b);
        return (x > y) - (x < y);
    }
    if (a->type == JINJA_STRING && b->type == JINJA_STRING) {
        struct slice x = jinja_bytes(a), y = jinja_bytes(b);
        size_t n = x.len < y.len ? x.len : y.len;
        int order = n ? memcmp(x.data, y.data, n) : 0;
        return order ? sign_of(order) : (x.len > y.len) - (x.len < y.len);
    }
    if (!jinja_is_sequence(a) || a->type != b->type || depth > COMPARE_DEPTH)
        return 2;
    for (size_t i = 0; i < a->as.items.n && i < b->as.items.n; i++) {
        int order = jinja_order(a->as.items.data[i], b->as.items.data[i], depth + 1);
        if (order)
            return order;
    }
    return (a->as.items.n > b->as.items.n) - (a->as.items.n < b->as.items.n);
}

/* ---- Dictionaries -------------------------------------------------------- */

bool jinja_hashable(const struct jinja_value *v)
{
    if (v->type == JINJA_TUPLE) {
        for (size_t i = 0; i < v->as.items.n; i++)
            if (!jinja_hashable(v->as.items.data[i]))
                return false;
        return true;
    }
    return v->type != JINJA_LIST && v->type != JINJA_DICT && v->type != JINJA_UNDEFINED;
}

static uint32_t hash_bytes(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    uint32_t folded = (uint32_t)(hash ^ hash >> 32);
    return folded ? folded : 1;
}

uint32_t jinja_hash_text(struct slice text)
{
    return hash_bytes(text.data, text.len);
}

/* Equal values hash alike: 1, 1.0 and true too. */
static uint32_t hash_of(const struct jinja_value *v)
{
    if (v->type == JINJA_STRING)
        return v->hash ? v->hash : hash_bytes(v->as.string.data, v->as.string.len);
    if (jinja_is_number(v)) {
        double d = jinja_as_double(v);
        return hash_bytes(&d, sizeof d);
    }
    return v->type; /* rare as keys: a chain is good enough */
}

static inline bool same_key(const struct jinja_value *a, const struct jinja_value *b)
{
    if (a->type == JINJA_STRING && b->type == JINJA_STRING)
        return slice_equal(jinja_bytes(a), jinja_bytes(b));
    return jinja_equal(a, b, 0);
}

static struct jinja_entry *find_hashed(const struct jinja_dict *dict, const struct jinja_value *key,
                                       uint32_t hash)
{
    if (!dict->n_slots) {
        for (size_t i = 0; i < dict->n; i++)
            if (dict->entries[i].hash == hash && same_key(dict->entries[i].key, key))
                return &dict->entries[i];
        return NULL;
    }
    for (size_t slot = hash & (dict->n_slots - 1); dict->slots[slot];
         slot = (slot + 1) & (dict->n_slots - 1)) {
        struct jinja_entry *entry = &dict->entries[dict->slots[slot] - 1];
        if (entry->hash == hash && same_key(entry->key, key))
            return entry;
    }
    return NULL;
}

struct jinja_entry *jinja_dict_find(const struct jinja_dict *dict, const struct jinja_value *key)
{
    return find_hashed(dict, key, hash_of(key));
}

struct jinja_value *jinja_dict_get(const struct jinja_dict *dict, struct slice key)
{
    struct jinja_value name = {.type = JINJA_STRING, .as.string = {key.data, key.len, NULL, false}};
    struct jinja_entry *entry = jinja_dict_find(dict, &name);
    return entry ? entry->value : NULL;
}

static void index_entry(struct jinja_dict *dict, size_t i)
{
    size_t slot = dict->entries[i].hash & (dict->n_slots - 1);
    while (dict->slots[slot])
        slot = (slot + 1) & (dict->n_slots - 1);
    dict->slots[slot] = (uint32_t)(i + 1);
}

static bool reindex(struct jinja_run *run, struct jinja_dict *dict)
{
    size_t n_slots = dict->n_slots ? dict->n_slots : 32;
    while (n_slots < dict->n * 2 + 2)
        n_slots *= 2;
    if (n_slots != dict->n_slots) {
        dict->slots = jinja_alloc(run, n_slots * sizeof *dict->slots);
        if (!dict->slots)
            return false;
        dict->n_slots = n_slots;
    } else {
        memset(dict->slots, 0, n_slots * sizeof *dict->slots);
    }
    for (size_t i = 0; i < dict->n; i++)
        index_entry(dict, i);
    return true;
}

bool jinja_dict_set(struct jinja_run *run, struct jinja_value *value_of, struct jinja_value *key,
                    struct jinja_value *value)
{
    struct jinja_dict *dict = value_of->as.dict;
    if (!key || !value)
        return false;
    if (!jinja_hashable(key)) {
        jinja_fail(run, "Type: %s is not allowed as object key", jinja_type_name(key));
        return false;
    }
    uint32_t hash = hash_of(key);
    struct jinja_entry *entry = find_hashed(dict, key, hash);
    if (entry) {
        entry->value = value;
        return true;
    }
    if (dict->n >= UINT32_MAX - 1 ||
        !grow(run, (void **)&dict->entries, &dict->capacity, dict->n, sizeof *dict->entries))
        return false;
    if (key->type == JINJA_STRING && !key->hash)
        key->hash = hash;
    dict->entries[dict->n++] = (struct jinja_entry){key, value, hash};
    if (dict->n_slots && dict->n * 2 <= dict->n_slots)
        index_entry(dict, dict->n - 1);
    else if (dict->n > DICT_LINEAR)
        return reindex(run, dict);
    return true;
}

bool jinja_dict_remove(struct jinja_run *run, struct jinja_dict *dict,
                       const struct jinja_value *key)
{
    struct jinja_entry *entry = jinja_dict_find(dict, key);
    if (!entry)
        return true;
    size_t i = (size_t)(entry - dict->entries);
    memmove(entry, entry + 1, (dict->n - i - 1) * sizeof *entry);
    dict->n--;
    return !dict->n_slots || reindex(run, dict);
}

/* ---- Probing ------------------------------------------------------------- */

static void mark_used(struct jinja_value *v, bool deep, unsigned depth)
{
    v->used = true;
    if (!deep || depth > COMPARE_DEPTH)
        return;
    if (jinja_is_sequence(v))
        for (size_t i = 0; i < v->as.items.n; i++)
            mark_used(v->as.items.data[i], true, depth + 1);
    if (v->type == JINJA_DICT)
        for (size_t i = 0; i < v->as.dict->n; i++)
            mark_used(v->as.dict->entries[i].value, true, depth + 1);
}

void jinja_mark_used(struct jinja_run *run, struct jinja_value *v, bool deep)
{
    if (run->watch)
        mark_used(v, deep, 0);
}

const struct jinja_value *jinja_key(const struct jinja_value *object, const char *key)
{
    return object && object->type == JINJA_DICT ? jinja_dict_get(object->as.dict, slice_of(key))
                                                : NULL;
}

const struct jinja_value *jinja_item(const struct jinja_value *list, size_t index)
{
    return list && jinja_is_sequence(list) && index < list->as.items.n ? list->as.items.data[index]
                                                                       : NULL;
}

bool jinja_was_used(const struct jinja_value *value)
{
    return value && value->used;
}

bool jinja_was_used_as_list(const struct jinja_value *value)
{
    return value && value->used_as_list;
}
