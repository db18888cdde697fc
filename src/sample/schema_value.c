/* schema_value.c - what a schema says of values: their types, whether one is
 * admitted, whether two schemas exclude each other. */
#include "sample/schema.h"

#include "base/utf8.h"

#include <math.h>

static const struct {
    const char *name;
    int types;
} type_names[] = {
    {"null", TYPE_NULL},       {"boolean", TYPE_BOOLEAN},
    {"integer", TYPE_INTEGER}, {"number", TYPE_INTEGER | TYPE_NUMBER},
    {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
    {"object", TYPE_OBJECT},
};

int schema_type_of_name(const char *name)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (name && strcmp(type_names[i].name, name) == 0)
            return type_names[i].types;
    return 0;
}

int schema_type_of_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL:
        return json_real_value(value) == floor(json_real_value(value)) ? TYPE_INTEGER : TYPE_NUMBER;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_OBJECT:
        return TYPE_OBJECT;
    }
    return 0;
}

static int declared_types(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    int types = 0;
    if (!type)
        return TYPE_ANY;
    if (json_is_array(type)) {
        for (size_t i = 0; i < json_array_size(type); i++)
            types |= schema_type_of_name(json_string_value(json_array_get(type, i)));
    } else {
        types = schema_type_of_name(json_string_value(type));
    }
    if (json_is_true(json_object_get(schema, "nullable")))
        types |= TYPE_NULL;
    return types;
}

/* Keywords that mean something for one type only, and so suggest it. */
static const struct {
    const char *key;
    int type;
} suggestions[] = {
    {"properties", TYPE_OBJECT},
    {"required", TYPE_OBJECT},
    {"additionalProperties", TYPE_OBJECT},
    {"patternProperties", TYPE_OBJECT},
    {"minProperties", TYPE_OBJECT},
    {"maxProperties", TYPE_OBJECT},
    {"propertyNames", TYPE_OBJECT},
    {"items", TYPE_ARRAY},
    {"prefixItems", TYPE_ARRAY},
    {"minItems", TYPE_ARRAY},
    {"maxItems", TYPE_ARRAY},
    {"uniqueItems", TYPE_ARRAY},
    {"contains", TYPE_ARRAY},
    {"pattern", TYPE_STRING},
    {"minLength", TYPE_STRING},
    {"maxLength", TYPE_STRING},
    {"minimum", TYPE_INTEGER | TYPE_NUMBER},
    {"maximum", TYPE_INTEGER | TYPE_NUMBER},
    {"exclusiveMinimum", TYPE_INTEGER | TYPE_NUMBER},
    {"exclusiveMaximum", TYPE_INTEGER | TYPE_NUMBER},
    {"multipleOf", TYPE_INTEGER | TYPE_NUMBER},
};

static int suggested_type(const json_t *schema)
{
    for (size_t i = 0; i < sizeof suggestions / sizeof *suggestions; i++) {
        const json_t *value = json_object_get(schema, suggestions[i].key);
        if (value && !(json_is_true(value) && suggestions[i].type == TYPE_OBJECT))
            return suggestions[i].type;
    }
    const char *format = json_string_value(json_object_get(schema, "format"));
    if (format && (strncmp(format, "uuid", 4) == 0 || strcmp(format, "date") == 0 ||
                   strcmp(format, "time") == 0 || strcmp(format, "date-time") == 0))
        return TYPE_STRING;
    return TYPE_ANY;
}

int schema_types(const json_t *schema)
{
    if (!json_is_object(schema))
        return json_is_false(schema) ? 0 : TYPE_ANY;
    int types = declared_types(schema);
    const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    if (one)
        return types & schema_type_of_value(one);
    if (json_is_array(list)) {
        int listed = 0;
        for (size_t i = 0; i < json_array_size(list); i++)
            listed |= schema_type_of_value(json_array_get(list, i));
        return types & listed;
    }
    return types == TYPE_ANY && !json_object_get(schema, "type") ? suggested_type(schema) : types;
}

/* ---- keywords with a number ---- */

bool schema_count(struct grammar_builder *b, const json_t *schema, const char *key,
                  int64_t fallback, int64_t *out)
{
    const json_t *value = json_object_get(schema, key);
    *out = fallback;
    if (!value)
        return true;
    double number = json_number_value(value);
    if (!json_is_number(value) || number < 0 || number != floor(number) || number > 1e15) {
        schema_fail(b, "\"%s\" must be a whole number, at least 0", key);
        return false;
    }
    *out = (int64_t)number;
    return true;
}

static void tighten(struct bounds *b, bool is_min, bool exclusive, double value)
{
    double *bound = is_min ? &b->min : &b->max;
    bool *has = is_min ? &b->has_min : &b->has_max;
    bool *out = is_min ? &b->min_exclusive : &b->max_exclusive;
    if (!*has || (is_min ? value > *bound : value < *bound)) {
        *bound = value;
        *out = exclusive;
    } else if (value == *bound) {
        *out = *out || exclusive;
    }
    *has = true;
}

bool schema_bounds(struct grammar_builder *b, const json_t *schema, struct bounds *out)
{
    static const struct {
        const char *key;
        bool is_min, exclusive;
    } keys[] = {{"minimum", true, false},
                {"maximum", false, false},
                {"exclusiveMinimum", true, true},
                {"exclusiveMaximum", false, true}};
    *out = (struct bounds){0};
    for (int i = 0; i < 4; i++) {
        const json_t *value = json_object_get(schema, keys[i].key);
        if (!value)
            continue;
        if (json_is_boolean(value)) { /* draft 4: an adverb of the other keyword */
            if (json_is_true(value) && (keys[i].is_min ? out->has_min : out->has_max))
                *(keys[i].is_min ? &out->min_exclusive : &out->max_exclusive) = true;
            continue;
        }
        if (!json_is_number(value)) {
            if (b)
                schema_fail(b, "\"%s\" must be a number", keys[i].key);
            return false;
        }
        tighten(out, keys[i].is_min, keys[i].exclusive, json_number_value(value));
    }
    return true;
}

static bool within(const struct bounds *b, double value)
{
    if (b->has_min && (value < b->min || (b->min_exclusive && value == b->min)))
        return false;
    return !(b->has_max && (value > b->max || (b->max_exclusive && value == b->max)));
}

/* ---- one value ---- */

static bool has_any(const json_t *schema, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_object_get(schema, *keys))
            return true;
    return false;
}

/* From so many values on a list is searched by a hash table, made once. */
enum { LONG_LIST = 16 };

static const struct value_set *values_of(struct grammar_builder *b, const json_t *list)
{
    size_t cursor = 0;
    uint64_t hash = hash_text((struct slice){(const char *)&list, sizeof list});
    uint32_t at;
    while ((at = hash_index_next(&b->by_list, hash, &cursor)) != HASH_INDEX_NONE)
        if (b->lists.data[at].list == list)
            return &b->lists.data[at].set;
    struct listed_values made = {json_incref((json_t *)(uintptr_t)list), {0}};
    bool ok = value_set_add_list(&made.set, list, b->budget, b->err);
    b->spent = b->spent || !ok;
    if (!ok || !VEC_PUSH(&b->lists, made)) {
        value_set_free(&made.set);
        json_decref(made.list);
        return NULL;
    }
    if (!hash_index_add(&b->by_list, hash, (uint32_t)b->lists.n - 1))
        error_memory(b->err);
    return &b->lists.data[b->lists.n - 1].set;
}

static bool is_listed(struct grammar_builder *b, const json_t *list, const json_t *value)
{
    bool found = false;
    if (json_array_size(list) >= LONG_LIST) {
        const struct value_set *set = values_of(b, list);
        if (set && !value_set_find(set, value, b->budget, &found, b->err))
            b->spent = true;
        return found;
    }
    for (size_t i = 0; !found && i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        found = schema_step(b, json_typeof(one) >= JSON_STRING ? 2 : value_weight(one)) &&
                values_are_equal(one, value);
    }
    return found;
}

bool schema_admits(struct grammar_builder *b, const json_t *schema, const json_t *value,
                   bool is_of_enum, bool *certain)
{
    static const char *const any[] = {"allOf", "anyOf", "oneOf", "not", "if", "$ref", NULL};
    static const char *const strings[] = {"pattern", "format", NULL};
    static const char *const objects[] = {"properties",           "required",
                                          "additionalProperties", "patternProperties",
                                          "propertyNames",        "minProperties",
                                          "maxProperties",        "dependentRequired",
                                          "dependentSchemas",     NULL};
    static const char *const arrays[] = {"items",    "prefixItems", "minItems", "maxItems",
                                         "contains", "uniqueItems", NULL};
    if (json_is_false(schema))
        return false;
    if (!json_is_object(schema))
        return true;
    int type = schema_type_of_value(value);
    if (!(declared_types(schema) & type))
        return false;
    const json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    if (!schema_step(b, (certain ? STEPS_SCHEMA : 16) +
                            json_array_size(json_object_get(schema, "type"))))
        return false;
    if (one && (!schema_step(b, value_weight(one)) || !values_are_equal(one, value)))
        return false;
    if (json_is_array(list) && !is_of_enum && !is_listed(b, list, value))
        return false;
    if (certain && (has_any(schema, any) || (type == TYPE_OBJECT && has_any(schema, objects)) ||
                    (type == TYPE_ARRAY && has_any(schema, arrays)) ||
                    (type == TYPE_STRING && has_any(schema, strings)) ||
                    json_object_get(schema, "multipleOf")))
        *certain = false;
    if (json_is_number(value)) {
        struct bounds bounds;
        return schema_bounds(NULL, schema, &bounds) && within(&bounds, json_number_value(value));
    }
    if (type == TYPE_STRING && schema_step(b, json_string_length(value) / 16)) {
        const json_t *min = json_object_get(schema, "minLength");
        const json_t *max = json_object_get(schema, "maxLength");
        double length = min || max ? (double)utf8_length(json_slice(value)) : 0;
        return !(json_is_number(min) && length < json_number_value(min)) &&
               !(json_is_number(max) && length > json_number_value(max));
    }
    return true;
}

/* ---- exclusion ---- */

static bool requires(struct grammar_builder *b, const json_t *schema, const char *name)
{
    const json_t *list = json_object_get(schema, "required");
    if (!schema_step(b, json_array_size(list)))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i))
                       ? json_string_value(json_array_get(list, i))
                       : "",
                   name) == 0)
            return true;
    return false;
}

static bool listed_values_fail(struct grammar_builder *b, const json_t *a, const json_t *other)
{
    const json_t *one = json_object_get(a, "const"), *list = json_object_get(a, "enum");
    if (one)
        return !schema_admits(b, other, one, false, NULL);
    if (!json_is_array(list))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (schema_admits(b, a, value, true, NULL) && schema_admits(b, other, value, false, NULL))
            return false;
    }
    return true;
}

/* Steps that finding the types of a schema takes. */
static uint64_t types_weight(const json_t *schema)
{
    return json_array_size(json_object_get(schema, "type")) +
           json_array_size(json_object_get(schema, "enum"));
}

static bool objects_exclude(struct grammar_builder *b, const json_t *a, const json_t *other,
                            int depth)
{
    const json_t *props = json_object_get(a, "properties");
    const json_t *more = json_object_get(a, "additionalProperties");
    const json_t *other_props = json_object_get(other, "properties");
    const json_t *required = json_object_get(other, "required");
    bool makes_more = json_is_true(more) || json_is_object(more);
    for (size_t i = 0; !makes_more && i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (name && !json_object_get(props, name) && !requires(b, a, name))
            return true;
    }
    if (!schema_step(b,
                     json_array_size(required) + json_array_size(json_object_get(a, "required"))))
        return false;
    required = json_object_get(a, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        const json_t *theirs = name ? json_object_get(other_props, name) : NULL;
        const json_t *ours = name ? json_object_get(props, name) : NULL;
        if (name && !theirs && json_is_false(json_object_get(other, "additionalProperties")))
            return true;
        if (theirs && ours && schema_excludes(b, ours, theirs, depth + 1))
            return true;
    }
    return false;
}

/* A schema that is nothing but a reference, followed. */
static const json_t *followed(struct grammar_builder *b, const json_t *schema)
{
    for (int i = 0; i < 8 && json_is_object(schema); i++) {
        const json_t *ref = json_object_get(schema, "$ref");
        if (!ref || json_object_size(schema) != 1)
            return schema;
        const json_t *target = schema_look_up(b, json_slice(ref));
        if (!target)
            return schema;
        schema = target;
    }
    return schema;
}

bool schema_excludes(struct grammar_builder *b, const json_t *a, const json_t *other, int depth)
{
    static const char *const opaque[] = {"allOf", "anyOf", "oneOf", "$ref", NULL};
    if (depth > 8 || !schema_step(b, STEPS_SCHEMA))
        return false;
    a = followed(b, a);
    other = followed(b, other);
    if (!schema_step(b, types_weight(a) + types_weight(other)))
        return false;
    int ours = schema_types(a), theirs = schema_types(other);
    /* Without a type the grammar keeps to the one suggested, a value need not. */
    if (json_is_object(other) && !json_object_get(other, "type") &&
        !json_object_get(other, "const") && !json_object_get(other, "enum"))
        theirs = TYPE_ANY;
    if (json_is_object(a) && has_any(a, opaque) && !json_object_get(a, "type"))
        ours = TYPE_ANY;
    if (!(ours & theirs))
        return true;
    if (!json_is_object(a) || !json_is_object(other))
        return false;
    if (listed_values_fail(b, a, other))
        return true;
    if (has_any(a, opaque))
        return false;
    if ((ours & ~(TYPE_INTEGER | TYPE_NUMBER)) == 0) {
        struct bounds x, y;
        if (schema_bounds(NULL, a, &x) && schema_bounds(NULL, other, &y))
            return (x.has_min && y.has_max && x.min > y.max) ||
                   (x.has_max && y.has_min && x.max < y.min);
    }
    return ours == TYPE_OBJECT && objects_exclude(b, a, other, depth);
}
