/* schema_merge.c - the conjunction of schemas, for allOf and for keywords that
 * stand beside $ref, anyOf and oneOf. */
#include "sample/schema.h"

#include <stdlib.h>

enum { MERGE_DEPTH = 32, CHOICES_MAX = 64 };

/* One conjunction under way. */
struct merge {
    struct grammar_builder *b;
    json_t *into;
    /* Schemas that are in it already: a second time they say nothing new, and
     * without this allOf of twice the same doubles the work at every level. */
    struct value_set done;
};

/* ---- references ---- */

static bool decode_step(struct str *out, struct slice step)
{
    for (size_t i = 0; i < step.len; i++) {
        char c = step.data[i];
        char next = i + 1 < step.len ? step.data[i + 1] : 0;
        if (c == '~' && (next == '0' || next == '1')) {
            str_append_char(out, next == '0' ? '~' : '/');
            i++;
        } else {
            str_append_char(out, c);
        }
    }
    return !out->failed;
}

/* One step of a JSON pointer (RFC 6901). */
static const json_t *take_step(const json_t *from, struct slice step)
{
    struct str name = {0};
    const json_t *found = NULL;
    if (!decode_step(&name, step))
        return NULL;
    if (json_is_object(from)) {
        found = json_object_get(from, str_text(&name));
    } else if (json_is_array(from) && name.len && name.len < 10 &&
               strspn(str_text(&name), "0123456789") == name.len) {
        found = json_array_get(from, (size_t)strtoul(str_text(&name), NULL, 10));
    }
    str_free(&name);
    return found;
}

/* Follow a pointer; where it leads nowhere give NULL, the step that was not
 * found and the value it was looked for in. */
static const json_t *follow(struct grammar_builder *b, struct slice ref, struct slice *step,
                            const json_t **at)
{
    *at = b->root;
    *step = (struct slice){NULL, 0};
    if (!schema_step(b, 4 + ref.len))
        return NULL;
    for (size_t i = 1; i < ref.len;) {
        size_t end = i + 1;
        while (end < ref.len && ref.data[end] != '/')
            end++;
        *step = (struct slice){ref.data + i + 1, end - i - 1};
        const json_t *next = take_step(*at, *step);
        if (!next)
            return NULL;
        *at = next;
        i = end;
    }
    return *at;
}

static bool is_pointer(struct slice ref)
{
    return slice_equal_text(ref, "#") || slice_starts_with(ref, SLICE("#/"));
}

const json_t *schema_look_up(struct grammar_builder *b, struct slice ref)
{
    struct slice step;
    const json_t *at;
    return is_pointer(ref) ? follow(b, ref, &step, &at) : NULL;
}

const json_t *schema_resolve(struct grammar_builder *b, struct slice ref)
{
    struct slice step;
    const json_t *at;
    if (!is_pointer(ref))
        return schema_fail(b, "Unsupported ref: %.*s", (int)(ref.len < 300 ? ref.len : 300),
                           ref.data);
    const json_t *found = follow(b, ref, &step, &at);
    if (found || b->spent)
        return found;
    struct str shown = {0};
    json_append(&shown, at);
    schema_fail(b, "Error resolving ref %.*s: %.*s not in %.500s",
                (int)(ref.len < 200 ? ref.len : 200), ref.data,
                (int)(step.len < 100 ? step.len : 100), step.data, str_text(&shown));
    str_free(&shown);
    return NULL;
}

/* ---- keywords ---- */

enum keyword_kind {
    KEY_LARGER,  /* the larger number holds both */
    KEY_SMALLER, /* the smaller */
    KEY_UNION,   /* of two lists */
    KEY_SCHEMA,  /* both schemas must hold */
    KEY_SAME,    /* two different ones cannot be said at once */
    KEY_SPECIAL,
};

static const struct {
    const char *key;
    enum keyword_kind kind;
} keywords[] = {
    {"type", KEY_SPECIAL},
    {"nullable", KEY_SPECIAL},
    {"enum", KEY_SPECIAL},
    {"const", KEY_SPECIAL},
    {"properties", KEY_SPECIAL},
    {"additionalProperties", KEY_SPECIAL},
    {"anyOf", KEY_SPECIAL},
    {"oneOf", KEY_SAME},
    {"allOf", KEY_SPECIAL},
    {"$ref", KEY_SPECIAL},
    {"required", KEY_UNION},
    {"items", KEY_SCHEMA},
    {"propertyNames", KEY_SCHEMA},
    {"minimum", KEY_LARGER},
    {"exclusiveMinimum", KEY_LARGER},
    {"minLength", KEY_LARGER},
    {"minItems", KEY_LARGER},
    {"minProperties", KEY_LARGER},
    {"maximum", KEY_SMALLER},
    {"exclusiveMaximum", KEY_SMALLER},
    {"maxLength", KEY_SMALLER},
    {"maxItems", KEY_SMALLER},
    {"maxProperties", KEY_SMALLER},
    {"prefixItems", KEY_SAME},
    {"additionalItems", KEY_SAME},
    {"uniqueItems", KEY_SAME},
    {"contains", KEY_SAME},
    {"minContains", KEY_SAME},
    {"maxContains", KEY_SAME},
    {"pattern", KEY_SAME},
    {"format", KEY_SAME},
    {"multipleOf", KEY_SAME},
    {"patternProperties", KEY_SAME},
    {"dependentRequired", KEY_SAME},
    {"dependentSchemas", KEY_SAME},
    {"dependencies", KEY_SAME},
    {"not", KEY_SAME},
    {"if", KEY_SAME},
    {"then", KEY_SAME},
    {"else", KEY_SAME},
    {"$dynamicRef", KEY_SAME},
    {"$recursiveRef", KEY_SAME},
};

enum { N_KEYWORDS = sizeof keywords / sizeof *keywords };

bool schema_is_assertion(const char *key)
{
    for (int i = 0; i < N_KEYWORDS; i++)
        if (strcmp(keywords[i].key, key) == 0)
            return true;
    return false;
}

static enum merge_result failed(void)
{
    return MERGE_ERROR;
}

static enum merge_result set(struct grammar_builder *b, json_t *into, const char *key,
                             const json_t *value)
{
    if (!schema_bytes(b, MEMBER_BYTES))
        return MERGE_ERROR;
    /* jansson counts references in the value itself. */
    if (json_object_set(into, key, (json_t *)(uintptr_t)value) == 0)
        return MERGE_OK;
    error_memory(b->err);
    return MERGE_ERROR;
}

/* Takes the reference of value. */
static enum merge_result set_new(struct grammar_builder *b, json_t *into, const char *key,
                                 json_t *value)
{
    if (!schema_bytes(b, MEMBER_BYTES)) {
        json_decref(value);
        return MERGE_ERROR;
    }
    if (value && json_object_set_new(into, key, value) == 0)
        return MERGE_OK;
    error_memory(b->err);
    return MERGE_ERROR;
}

static json_t *both(const json_t *x, const json_t *y)
{
    return json_pack("{s:[O,O]}", "allOf", (json_t *)(uintptr_t)x, (json_t *)(uintptr_t)y);
}

/* ---- each kind ---- */

static json_t *as_list(const json_t *value)
{
    if (json_is_array(value))
        return json_copy((json_t *)(uintptr_t)value);
    return json_pack("[O]", (json_t *)(uintptr_t)value);
}

static enum merge_result merge_type(struct grammar_builder *b, json_t *into, const json_t *in)
{
    const json_t *had = json_object_get(into, "type");
    size_t n = json_array_size(json_object_get(in, "type")) + 1;
    if (!schema_step(b, n * (json_array_size(had) + 1)) || !schema_bytes(b, n * 32))
        return MERGE_ERROR;
    json_t *theirs = as_list(json_object_get(in, "type"));
    if (theirs && json_is_true(json_object_get(in, "nullable")))
        json_array_append_new(theirs, json_string("null"));
    json_t *common = json_array();
    if (!theirs || !common) {
        json_decref(theirs);
        json_decref(common);
        error_memory(b->err);
        return MERGE_ERROR;
    }
    if (!had) {
        json_decref(common);
        return set_new(b, into, "type", theirs);
    }
    json_t *ours = as_list(had);
    for (size_t i = 0; i < json_array_size(ours); i++) {
        for (size_t j = 0; j < json_array_size(theirs); j++) {
            const char *x = json_string_value(json_array_get(ours, i));
            const char *y = json_string_value(json_array_get(theirs, j));
            if (!x || !y)
                continue;
            /* Of integer and number both want the integer. */
            if (strcmp(x, y) == 0 || (strcmp(x, "integer") == 0 && strcmp(y, "number") == 0))
                json_array_append_new(common, json_string(x));
            else if (strcmp(x, "number") == 0 && strcmp(y, "integer") == 0)
                json_array_append_new(common, json_string(y));
        }
    }
    json_decref(ours);
    json_decref(theirs);
    if (json_array_size(common) == 0) {
        json_decref(common);
        return MERGE_NOTHING;
    }
    if (json_array_size(common) == 1) {
        json_t *one = json_incref(json_array_get(common, 0));
        json_decref(common);
        common = one;
    }
    return set_new(b, into, "type", common);
}

static enum merge_result merge_values(struct grammar_builder *b, json_t *into, const json_t *list)
{
    const json_t *had = json_object_get(into, "enum");
    if (!had)
        return set(b, into, "enum", list);
    struct value_set theirs = {0};
    bool ok = schema_bytes(b, json_array_size(had) * 32) &&
              value_set_add_list(&theirs, list, b->budget, b->err);
    json_t *common = ok ? json_array() : NULL;
    for (size_t i = 0; ok && i < json_array_size(had); i++) {
        bool listed;
        ok = value_set_find(&theirs, json_array_get(had, i), b->budget, &listed, b->err);
        if (ok && listed)
            json_array_append(common, json_array_get(had, i));
    }
    value_set_free(&theirs);
    if (!ok) {
        json_decref(common);
        return MERGE_ERROR;
    }
    if (common && json_array_size(common) == 0) {
        json_decref(common);
        return MERGE_NOTHING;
    }
    return set_new(b, into, "enum", common);
}

static enum merge_result merge_required(struct grammar_builder *b, json_t *into, const json_t *list)
{
    const json_t *had = json_object_get(into, "required");
    size_t n = json_array_size(had) + json_array_size(list);
    struct value_set names = {0};
    bool ok = schema_bytes(b, n * 32) && value_set_add_list(&names, had, b->budget, b->err);
    json_t *all = NULL;
    if (ok)
        all = json_is_array(had) ? json_copy((json_t *)(uintptr_t)had) : json_array();
    for (size_t i = 0; ok && i < json_array_size(list); i++) {
        bool added;
        ok = value_set_add(&names, json_array_get(list, i), b->budget, &added, b->err);
        if (ok && added)
            json_array_append(all, json_array_get(list, i));
    }
    value_set_free(&names);
    if (ok)
        return set_new(b, into, "required", all);
    json_decref(all);
    return MERGE_ERROR;
}

/* The schema that one side has for a property it does not name; NULL: any. */
static const json_t *of_the_rest(const json_t *more)
{
    return json_is_object(more) || json_is_false(more) ? more : NULL;
}

static enum merge_result merge_properties(struct grammar_builder *b, json_t *into, const json_t *in)
{
    const json_t *had = json_object_get(into, "properties");
    const json_t *more = json_object_get(in, "properties");
    const json_t *had_rest = of_the_rest(json_object_get(into, "additionalProperties"));
    const json_t *more_rest = of_the_rest(json_object_get(in, "additionalProperties"));
    size_t n = json_object_size(had) + json_object_size(more);
    if (!schema_step(b, 2 * STEPS_MEMBER * n) || !schema_bytes(b, 4 * MEMBER_BYTES * n))
        return MERGE_ERROR;
    json_t *all = json_object();
    if (!all) {
        error_memory(b->err);
        return MERGE_ERROR;
    }
    const char *name;
    json_t *schema;
    json_object_foreach((json_t *)(uintptr_t)had, name, schema)
    {
        const json_t *other = json_object_get(more, name);
        if (!other)
            other = more_rest;
        json_object_set_new(all, name, other ? both(schema, other) : json_incref(schema));
    }
    json_object_foreach((json_t *)(uintptr_t)more, name, schema)
    {
        if (json_object_get(had, name))
            continue;
        json_object_set_new(all, name, had_rest ? both(had_rest, schema) : json_incref(schema));
    }
    json_t *rest = NULL;
    if (had_rest && more_rest)
        rest = json_is_false(had_rest) || json_is_false(more_rest) ? json_false()
                                                                   : both(had_rest, more_rest);
    else if (had_rest || more_rest)
        rest = json_incref((json_t *)(uintptr_t)(had_rest ? had_rest : more_rest));
    enum merge_result result = MERGE_OK;
    if (had || more)
        result = set_new(b, into, "properties", all);
    else
        json_decref(all);
    if (rest && result == MERGE_OK)
        result = set_new(b, into, "additionalProperties", rest);
    return result;
}

/* (a or b) and (c or d): every pair. */
static enum merge_result merge_choices(struct grammar_builder *b, json_t *into, const json_t *list)
{
    const json_t *had = json_object_get(into, "anyOf");
    if (!had)
        return set(b, into, "anyOf", list);
    if (json_array_size(had) * json_array_size(list) > CHOICES_MAX) {
        schema_fail(b, "\"anyOf\" combined with \"anyOf\" makes more than %d choices", CHOICES_MAX);
        return MERGE_ERROR;
    }
    if (!schema_bytes(b, json_array_size(had) * json_array_size(list) * 4 * MEMBER_BYTES))
        return MERGE_ERROR;
    json_t *pairs = json_array();
    for (size_t i = 0; i < json_array_size(had); i++)
        for (size_t j = 0; j < json_array_size(list); j++)
            json_array_append_new(pairs, both(json_array_get(had, i), json_array_get(list, j)));
    return set_new(b, into, "anyOf", pairs);
}

static enum merge_result merge_plain(struct grammar_builder *b, json_t *into, const char *key,
                                     const json_t *value, enum keyword_kind kind)
{
    const json_t *had = json_object_get(into, key);
    if (!had)
        return set(b, into, key, value);
    if (!schema_step(b, value_weight(value)))
        return MERGE_ERROR;
    if (json_equal(had, value))
        return MERGE_OK;
    switch (kind) {
    case KEY_LARGER:
    case KEY_SMALLER:
        if (json_is_number(had) && json_is_number(value)) {
            bool larger = json_number_value(value) > json_number_value(had);
            return larger == (kind == KEY_LARGER) ? set(b, into, key, value) : MERGE_OK;
        }
        break;
    case KEY_UNION:
        return merge_required(b, into, value);
    case KEY_SCHEMA:
        return set_new(b, into, key, both(had, value));
    default:
        break;
    }
    return schema_leave_out(b, key, "twice, with different values, cannot be merged") ? MERGE_OK
                                                                                      : MERGE_ERROR;
}

static enum merge_result merge_one(struct grammar_builder *b, json_t *into, const json_t *in,
                                   const char *key, const json_t *value)
{
    for (int i = 0; i < N_KEYWORDS; i++)
        if (strcmp(keywords[i].key, key) == 0 && keywords[i].kind != KEY_SPECIAL)
            return merge_plain(b, into, key, value, keywords[i].kind);
    if (strcmp(key, "type") == 0)
        return merge_type(b, into, in);
    if (strcmp(key, "enum") == 0)
        return merge_values(b, into, value);
    if (strcmp(key, "const") == 0) {
        json_t *list = json_pack("[O]", (json_t *)(uintptr_t)value);
        enum merge_result result = list ? merge_values(b, into, list) : failed();
        json_decref(list);
        return result;
    }
    if (strcmp(key, "anyOf") == 0)
        return merge_choices(b, into, value);
    return MERGE_OK; /* no assertion, or looked at elsewhere */
}

static enum merge_result merge(struct merge *m, const json_t *in);

/* Of items and prefixItems each says what the other leaves. */
static bool items_can_merge(struct grammar_builder *b, const json_t *into, const json_t *in)
{
    bool tuples = json_object_get(into, "prefixItems") || json_object_get(in, "prefixItems");
    bool ours = json_object_get(into, "items") || json_object_get(into, "prefixItems");
    bool theirs = json_object_get(in, "items") || json_object_get(in, "prefixItems");
    return !tuples || !ours || !theirs ||
           schema_leave_out(b, "prefixItems", "cannot be merged with other items");
}

static enum merge_result merge_reference(struct merge *m, const json_t *ref)
{
    const json_t *target = schema_resolve(m->b, json_slice(ref));
    return target ? merge(m, target) : MERGE_ERROR;
}

static enum merge_result merge_keywords(struct merge *m, const json_t *in)
{
    struct grammar_builder *b = m->b;
    enum merge_result result = MERGE_OK;
    const json_t *ref = json_object_get(in, "$ref");
    if (ref)
        result = merge_reference(m, ref);
    if (result == MERGE_OK && !items_can_merge(b, m->into, in))
        result = MERGE_ERROR;
    if (result == MERGE_OK &&
        (json_object_get(in, "properties") || json_object_get(in, "additionalProperties")))
        result = merge_properties(b, m->into, in);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)in, key, value)
    {
        if (result == MERGE_OK)
            result =
                schema_step(b, STEPS_MEMBER) ? merge_one(b, m->into, in, key, value) : MERGE_ERROR;
    }
    const json_t *all = json_object_get(in, "allOf");
    for (size_t i = 0; result == MERGE_OK && i < json_array_size(all); i++)
        result = merge(m, json_array_get(all, i));
    return result;
}

static enum merge_result merge(struct merge *m, const json_t *in)
{
    struct grammar_builder *b = m->b;
    bool known, added;
    if (!schema_step(b, STEPS_SCHEMA))
        return MERGE_ERROR;
    if (json_is_false(in))
        return MERGE_NOTHING;
    if (!json_is_object(in))
        return MERGE_OK;
    if (!value_set_find(&m->done, in, b->budget, &known, b->err))
        return MERGE_ERROR;
    if (known)
        return MERGE_OK;
    if (b->depth >= MERGE_DEPTH * 8) {
        schema_fail(b, "the schema is nested too deeply");
        return MERGE_ERROR;
    }
    b->depth++;
    enum merge_result result = merge_keywords(m, in);
    b->depth--;
    /* Only now: a schema that refers to itself on the way has no end. */
    if (result == MERGE_OK && !value_set_add(&m->done, in, b->budget, &added, b->err))
        result = MERGE_ERROR;
    return result;
}

enum merge_result schema_merge(struct grammar_builder *b, json_t *into, const json_t *in)
{
    struct merge m = {.b = b, .into = into, .done = {.identity = true}};
    enum merge_result result = merge(&m, in);
    value_set_free(&m.done);
    return result;
}
