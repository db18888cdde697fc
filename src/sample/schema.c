/* schema.c - JSON schema to GBNF: which rule stands for which schema.
 *
 * Rules, their names and their texts are those of the reference wherever those
 * admit only valid documents, because responses show the grammar. */
#include "sample/schema.h"

#include "base/utf8.h"

#include <stdlib.h>

enum {
    DEPTH_MAX = 200,
    REPEAT_MAX = 1999,        /* of one repetition in GBNF */
    OBJECT_MEMBERS_MAX = 256, /* in any order; more keep to the schema's */
};

static const char *visit(struct grammar_builder *b, const json_t *schema, const char *name);

void *schema_fail(struct grammar_builder *b, const char *format, ...)
{
    va_list args;
    if (b->spent) /* that is the reason, whatever is found now */
        return NULL;
    va_start(args, format);
    error_set_va(b->err, ERR_INVALID, format, args);
    va_end(args);
    return NULL;
}

bool schema_leave_out(struct grammar_builder *b, const char *keyword, const char *why)
{
    if (b->mode == SCHEMA_LENIENT)
        return true;
    schema_fail(b, "the keyword \"%s\" %s", keyword, why);
    return false;
}

static const char *nothing(struct grammar_builder *b, const char *what)
{
    return schema_fail(b, "the schema admits no value: %s", what);
}

/* Keep a value that was made, with so many members. */
static json_t *own(struct grammar_builder *b, json_t *made, size_t n_members)
{
    if (!schema_step(b, n_members * STEPS_MEMBER) ||
        !schema_bytes(b, (n_members + 1) * MEMBER_BYTES)) {
        json_decref(made);
        return NULL;
    }
    if (made && VEC_PUSH(&b->owned, made))
        return made;
    json_decref(made);
    error_memory(b->err);
    return NULL;
}

/* "a-b", or "b" where a is empty. */
static char *sub_name(const char *a, const char *b)
{
    return text_format("%s%s%s", a, *a ? "-" : "", b);
}

/* visit under a made name, which is freed. */
static const char *visit_as(struct grammar_builder *b, const json_t *schema, char *name)
{
    const char *rule = NULL;
    if (name)
        rule = visit(b, schema, name);
    else
        error_memory(b->err);
    free(name);
    return rule;
}

static const char *get_text(const json_t *schema, const char *key)
{
    const char *text = json_string_value(json_object_get(schema, key));
    return text ? text : "";
}

/* ---- references ---- */

static struct schema_ref *known_ref(struct grammar_builder *b, struct slice ref, uint64_t hash)
{
    size_t cursor = 0;
    uint32_t at;
    while ((at = hash_index_next(&b->by_pointer, hash, &cursor)) != HASH_INDEX_NONE) {
        struct schema_ref *known = &b->refs.data[at];
        if (known->root == b->root && slice_equal_text(ref, known->pointer))
            return known;
    }
    return NULL;
}

static bool ref_name_is_taken(const struct grammar_builder *b, const char *name)
{
    size_t cursor = 0;
    uint64_t hash = hash_text(slice_of(name));
    uint32_t at;
    while ((at = hash_index_next(&b->by_ref_name, hash, &cursor)) != HASH_INDEX_NONE)
        if (strcmp(b->refs.data[at].name, name) == 0)
            return true;
    return rules_have(b, name);
}

/* "ref-a-b" for "#/a/b", with a number where that is taken: names apart what is
 * spelled alike. NULL with the error set. */
static char *ref_name(struct grammar_builder *b, struct slice ref)
{
    struct str name = {0};
    str_append_text(&name, "ref");
    bool odd = false;
    for (size_t i = 1; i < ref.len; i++) {
        char c = ref.data[i];
        bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
        if (plain || !odd)
            str_append_char(&name, plain ? c : '-');
        odd = !plain;
    }
    size_t length = name.len;
    for (int i = 0; !name.failed && ref_name_is_taken(b, str_text(&name)); i++) {
        if (!schema_step(b, 16)) {
            str_free(&name);
            return NULL;
        }
        str_truncate(&name, length);
        str_append_format(&name, "%d", i);
    }
    char *made = str_detach(&name);
    if (!made)
        error_memory(b->err);
    return made;
}

/* Remember a reference, with its name and no rule yet. */
static bool add_ref(struct grammar_builder *b, struct slice ref, uint64_t hash)
{
    struct schema_ref made = {.root = b->root, .name = ref_name(b, ref)};
    if (!made.name)
        return false;
    made.pointer = slice_duplicate(ref);
    if (!schema_bytes(b, sizeof made + 2 * ref.len) || !made.pointer || !VEC_PUSH(&b->refs, made)) {
        free(made.pointer);
        free(made.name);
        return b->spent ? false : error_memory(b->err);
    }
    uint32_t index = (uint32_t)b->refs.n - 1;
    return (hash_index_add(&b->by_pointer, hash, index) &&
            hash_index_add(&b->by_ref_name, hash_text(slice_of(made.name)), index)) ||
           error_memory(b->err);
}

static const char *visit_ref(struct grammar_builder *b, struct slice ref)
{
    uint64_t hash = hash_text(ref);
    struct schema_ref *known = known_ref(b, ref, hash);
    if (known && known->result)
        return known->result;
    if (known) {
        known->used_inside = true;
        return known->name;
    }
    const json_t *target = schema_resolve(b, ref);
    if (!target || !add_ref(b, ref, hash))
        return NULL;
    size_t index = b->refs.n - 1;
    const char *rule = visit(b, target, b->refs.data[index].name);
    if (!rule)
        return NULL;
    /* Whoever referred to it while it was made expects this name. */
    const struct schema_ref *made = &b->refs.data[index];
    if (made->used_inside && strcmp(rule, made->name) != 0)
        rule = rules_add(b, made->name, rule);
    b->refs.data[index].result = rule;
    return rule;
}

/* ---- alternatives ---- */

static const char *add_union(struct grammar_builder *b, const char *rule_name, struct str *body,
                             bool any)
{
    if (!any) {
        str_free(body);
        return nothing(b, "none of its alternatives does");
    }
    return rules_add_str(b, rule_name, body);
}

static char *alternative_name(const char *name, size_t i)
{
    return text_format("%s%s%zu", name, *name ? "-" : "alternative-", i);
}

/* Each alternative, together with what stands beside the list; false for one
 * that admits nothing. NULL with the error set. */
static json_t *merged_choices(struct grammar_builder *b, const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, key);
    size_t n = json_array_size(list);
    json_t *beside = own(b, json_object(), json_object_size(schema));
    json_t *choices = beside ? own(b, json_array(), n) : NULL;
    if (!choices)
        return NULL;
    const char *other;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, other, value)
    {
        if (strcmp(other, key) != 0 && schema_is_assertion(other))
            json_object_set(beside, other, value);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *choice = json_array_get(list, i);
        if (json_object_size(beside) == 0) {
            json_array_append(choices, (json_t *)(uintptr_t)choice);
            continue;
        }
        json_t *merged = json_object();
        enum merge_result result = schema_merge(b, merged, beside);
        if (result == MERGE_OK)
            result = schema_merge(b, merged, choice);
        if (result != MERGE_OK) {
            json_decref(merged);
            if (result == MERGE_ERROR)
                return NULL;
            merged = json_false();
        }
        json_array_append_new(choices, merged);
    }
    return choices;
}

/* That no value can satisfy two alternatives of "oneOf". */
static bool check_exclusion(struct grammar_builder *b, const json_t *choices, const json_t *list)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (i != j && !json_is_false(json_array_get(choices, i)) &&
                !schema_excludes(b, json_array_get(choices, i), json_array_get(list, j), 0)) {
                schema_fail(b,
                            "a value could satisfy both alternatives %zu and %zu of "
                            "\"oneOf\"; use \"anyOf\", or make them exclude each other",
                            i, j);
                return false;
            }
    return !b->spent;
}

static const char *visit_choices(struct grammar_builder *b, const json_t *schema, const char *key,
                                 const char *name, const char *rule_name)
{
    const json_t *list = json_object_get(schema, key);
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0)
        return schema_fail(b, "\"%s\" must be a list of schemas", key);
    const json_t *choices = merged_choices(b, schema, key);
    bool exactly_one = strcmp(key, "oneOf") == 0 && b->mode == SCHEMA_STRICT;
    if (!choices || (exactly_one && !check_exclusion(b, choices, list)))
        return NULL;
    struct str body = {0};
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *choice = json_array_get(choices, i);
        if (json_is_false(choice))
            continue;
        const char *rule = visit_as(b, choice, alternative_name(name, i));
        if (!rule) {
            str_free(&body);
            return NULL;
        }
        str_append_text(&body, any ? " | " : "");
        str_append_text(&body, rule);
        any = true;
    }
    return add_union(b, rule_name, &body, any);
}

static const char *visit_types(struct grammar_builder *b, const json_t *schema, const json_t *types,
                               const char *name, const char *rule_name)
{
    struct str body = {0};
    size_t n = json_array_size(types);
    for (size_t i = 0; i < n; i++) {
        json_t *copy = own(b, json_copy((json_t *)(uintptr_t)schema), json_object_size(schema));
        const char *rule = NULL;
        if (copy && json_object_set(copy, "type", json_array_get(types, i)) == 0) {
            json_object_del(copy, "nullable");
            rule = visit_as(b, copy, alternative_name(name, i));
        }
        if (!rule) {
            str_free(&body);
            return NULL;
        }
        str_append_format(&body, "%s%s", i ? " | " : "", rule);
    }
    return add_union(b, rule_name, &body, n > 0);
}

/* ---- values ---- */

static void append_value(struct str *out, const json_t *value)
{
    struct str text = {0};
    json_append(&text, value);
    grammar_append_literal(out, str_slice(&text));
    out->failed = out->failed || text.failed;
    str_free(&text);
}

static const char *visit_values(struct grammar_builder *b, const json_t *schema,
                                const char *rule_name)
{
    const json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    if (!one && !json_is_array(list))
        return schema_fail(b, "\"enum\" must be a list of values");
    bool certain = true;
    if (one) {
        if (!schema_admits(b, schema, one, false, &certain))
            return nothing(b, "what stands beside \"const\" excludes it");
        if (!certain && !schema_leave_out(b, "const", "cannot be checked against those beside it"))
            return NULL;
        struct str body = {0};
        append_value(&body, one);
        return rules_add_str(b, rule_name, &body);
    }
    struct str body = {0};
    bool any = false;
    str_append_char(&body, '(');
    for (size_t i = 0; i < json_array_size(list) && !b->spent; i++) {
        size_t before = body.len;
        if (!schema_admits(b, schema, json_array_get(list, i), true, &certain))
            continue;
        if (any)
            str_append_text(&body, " | ");
        append_value(&body, json_array_get(list, i));
        any = schema_step(b, (body.len - before) / 16) && schema_bytes(b, body.len - before);
    }
    str_append_char(&body, ')');
    if (!certain && !schema_leave_out(b, "enum", "cannot be checked against those beside it")) {
        str_free(&body);
        return NULL;
    }
    return add_union(b, rule_name, &body, any);
}

/* ---- objects ---- */

struct property {
    const char *name;
    const json_t *schema;
    const char *rule; /* of key and value */
    bool required;
};

/* Keys other than some names, as a trie over their characters: along a name the
 * key must go on or differ. Characters that JSON would escape cannot be said
 * without admitting other spellings of a name: keys never have them here. */
struct key_names {
    const char **data; /* ascending, so that equal beginnings stand together */
    size_t n;
};

enum { KEY_DEPTH = 100 };

static size_t char_at(const char *name, size_t at, uint32_t *c)
{
    size_t n = strlen(name + at);
    return n ? utf8_decode(name + at, n, c, NULL) : 0;
}

static bool plain_key_char(uint32_t c)
{
    return c >= 0x20 && c != '"' && c != '\\' && c != 0x7F;
}

/* The names from the i-th on that have the same character at that byte; *c is
 * the character and *length its bytes, 0 where a name ends. */
static size_t same_char(const struct key_names *names, size_t i, size_t at, uint32_t *c,
                        size_t *length)
{
    size_t end = i + 1;
    *length = char_at(names->data[i], at, c);
    while (end < names->n && *length &&
           memcmp(names->data[end] + at, names->data[i] + at, *length) == 0)
        end++;
    return end;
}

/* The keys below a beginning of at bytes that all these names have. */
static void append_other_keys(struct grammar_builder *b, struct str *out,
                              const struct key_names *names, size_t at, int depth)
{
    uint32_t c;
    size_t length;
    bool first = true;
    if (!schema_step(b, names->n))
        return;
    for (size_t i = 0, end; i < names->n; i = end) {
        end = same_char(names, i, at, &c, &length);
        if (!length || !plain_key_char(c))
            continue;
        struct key_names below = {names->data + i, end - i};
        str_append_text(out, first ? "[" : " | [");
        grammar_append_class_char(out, c);
        str_append_char(out, ']');
        if (names->data[end - 1][at + length] && depth < KEY_DEPTH) {
            str_append_text(out, " (");
            append_other_keys(b, out, &below, at + length, depth + 1);
            str_append_char(out, ')');
        } else if (!names->data[i][at + length]) {
            str_append_text(out, " char+");
        } else {
            str_append_text(out, " \"\\x00\""); /* too deep: no such keys */
        }
        first = false;
    }
    str_append_text(out, first ? "[^\"\\\\\\x7F\\x00-\\x1F" : " | [^\"\\\\\\x7F\\x00-\\x1F");
    for (size_t i = 0, end; i < names->n; i = end) {
        end = same_char(names, i, at, &c, &length);
        if (length && plain_key_char(c))
            grammar_append_class_char(out, c);
    }
    str_append_text(out, "] char*");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *other_keys(struct grammar_builder *b, const struct property *properties,
                              size_t n, const char *rule_name)
{
    struct str body = {0};
    if (!schema_step(b, n * 8) || !rules_add_primitive(b, NULL, "char"))
        return NULL;
    struct key_names names = {calloc(n, sizeof *names.data), n};
    if (!names.data) {
        error_memory(b->err);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        names.data[i] = properties[i].name;
    qsort(names.data, n, sizeof *names.data, compare_names);
    str_append_text(&body, "[\"] ( ");
    append_other_keys(b, &body, &names, 0, 0);
    str_append_format(&body, " )%s [\"]", names.data[0][0] ? "?" : "");
    free(names.data);
    return rules_add_str(b, rule_name, &body);
}

struct object {
    VEC(struct property) properties;
    size_t n_required;
    const char *more_rule; /* of keys and values not named; NULL: none */
    bool rest_wrong;
};

static bool add_property(struct grammar_builder *b, struct object *o, const char *name,
                         const json_t *schema, bool required)
{
    if (json_is_false(schema)) {
        if (!required)
            return true; /* never there */
        schema_fail(b, "the schema admits no value: \"%s\" is required and not allowed", name);
        return false;
    }
    o->n_required += required;
    if (!schema_step(b, STEPS_MEMBER) || !schema_bytes(b, sizeof(struct property)))
        return false;
    if (VEC_PUSH(&o->properties, (struct property){name, schema, NULL, required}))
        return true;
    error_memory(b->err);
    return false;
}

/* What is required but not described is described by what is said of
 * additional properties. */
static bool collect_undescribed(struct grammar_builder *b, const json_t *schema,
                                const json_t *required, struct object *o)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *more = json_object_get(schema, "additionalProperties");
    const char *name;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)required, name, unused)
    {
        if (json_object_get(properties, name))
            continue;
        json_t *anything = own(b, json_true(), 0);
        if (!anything || !add_property(b, o, name, more ? more : anything, true))
            return false;
    }
    return true;
}

/* The names of a list as the keys of an object, which keeps their order. */
static json_t *names_of_list(struct grammar_builder *b, const json_t *list)
{
    json_t *names = own(b, json_object(), json_array_size(list));
    for (size_t i = 0; names && i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && json_object_set_new(names, name, json_true()) != 0) {
            error_memory(b->err);
            return NULL;
        }
    }
    return names;
}

static bool collect_properties(struct grammar_builder *b, const json_t *schema, struct object *o)
{
    const json_t *properties = json_object_get(schema, "properties");
    if (properties && !json_is_object(properties)) {
        schema_fail(b, "\"properties\" must be an object");
        return false;
    }
    const json_t *required = names_of_list(b, json_object_get(schema, "required"));
    if (!required)
        return false;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)properties, name, value)
    {
        if (!add_property(b, o, name, value, json_object_get(required, name)))
            return false;
    }
    return collect_undescribed(b, schema, required, o);
}

/* minProperties and maxProperties, where they follow from what is required. */
static bool check_counts(struct grammar_builder *b, const json_t *schema, struct object *o,
                         bool *more)
{
    int64_t min, max;
    if (!schema_count(b, schema, "minProperties", 0, &min) ||
        !schema_count(b, schema, "maxProperties", INT64_MAX, &max))
        return false;
    if (max < (int64_t)o->n_required || min > max) {
        nothing(b, "it requires more properties than maxProperties allows");
        return false;
    }
    if (max < INT64_MAX && (*more || max < (int64_t)o->properties.n)) {
        if (max == (int64_t)o->n_required) { /* then just those */
            size_t kept = 0;
            for (size_t i = 0; i < o->properties.n; i++)
                if (o->properties.data[i].required)
                    o->properties.data[kept++] = o->properties.data[i];
            o->properties.n = kept;
            *more = false;
        } else if (!schema_leave_out(b, "maxProperties", "cannot be said in a grammar here")) {
            return false;
        }
    }
    return min <= (int64_t)o->n_required ||
           schema_leave_out(b, "minProperties",
                            "cannot be said in a grammar, unless as many are required");
}

static bool check_object_keywords(struct grammar_builder *b, const json_t *schema)
{
    static const char *const keys[] = {"patternProperties", "propertyNames", "dependentRequired",
                                       "dependentSchemas",  "dependencies",  NULL};
    for (int i = 0; keys[i]; i++)
        if (json_object_get(schema, keys[i]) &&
            !schema_leave_out(b, keys[i], "cannot be said in a grammar"))
            return false;
    return true;
}

static bool make_property_rules(struct grammar_builder *b, struct object *o, const char *name)
{
    for (size_t i = 0; i < o->properties.n; i++) {
        struct property *p = &o->properties.data[i];
        char *kv_name = text_format("%s%s%s-kv", name, *name ? "-" : "", p->name);
        const char *rule = visit_as(b, p->schema, sub_name(name, p->name));
        struct str key = {0}, body = {0};
        json_t *text = rule ? json_string(p->name) : NULL;
        if (text) {
            json_append(&key, text);
            grammar_append_literal(&body, str_slice(&key));
            str_append_format(&body, " space \":\" space %s", rule);
            body.failed = body.failed || key.failed;
            p->rule = rules_add_str(b, kv_name, &body);
        }
        json_decref(text);
        str_free(&key);
        free(kv_name);
        if (!p->rule)
            return false;
    }
    return true;
}

static bool make_more_rule(struct grammar_builder *b, struct object *o, const json_t *more,
                           const char *name)
{
    char *base = sub_name(name, "additional");
    if (!base)
        return error_memory(b->err);
    char *key_name = text_format("%s-k", base), *kv_name = text_format("%s-kv", base);
    const char *value = json_is_object(more) ? visit_as(b, more, text_format("%s-value", base))
                                             : rules_add_primitive(b, NULL, "value");
    const char *key = NULL;
    if (value && key_name)
        key = o->properties.n ? other_keys(b, o->properties.data, o->properties.n, key_name)
                              : rules_add_primitive(b, NULL, "string");
    if (key) {
        struct str body = {0};
        str_append_format(&body, "%s \":\" space %s", key, value);
        o->more_rule = rules_add_str(b, kv_name, &body);
    }
    free(base);
    free(key_name);
    free(kv_name);
    return o->more_rule;
}

/* The optional properties from the i-th on, any of them, in their order. rest[i]
 * is the rule for those that may follow it. */
static bool append_optional(struct grammar_builder *b, struct str *out,
                            const struct property *optional, size_t n, const char *name)
{
    const char **rest = calloc(n + 1, sizeof *rest);
    bool ok = rest;
    for (size_t i = n; ok && i-- > 1;) {
        /* Of the i-th and those after it, behind the one before. */
        struct str body = {0};
        bool star = !optional[i].name;
        str_append_format(&body, "( \",\" space %s )%c", optional[i].rule, star ? '*' : '?');
        if (rest[i])
            str_append_format(&body, " %s", rest[i]);
        const char *before = optional[i - 1].name;
        char *rest_name = text_format("%s%s%s-rest", name, *name ? "-" : "", before ? before : "*");
        rest[i - 1] = rest_name ? rules_add_str(b, rest_name, &body) : NULL;
        free(rest_name);
        ok = rest[i - 1];
    }
    for (size_t i = 0; ok && i < n; i++) {
        str_append_format(out, "%s%s", i ? " | " : "", optional[i].rule);
        if (!optional[i].name)
            str_append_format(out, " ( \",\" space %s )*", optional[i].rule);
        if (rest[i])
            str_append_format(out, " %s", rest[i]);
    }
    free(rest);
    return ok;
}

/* Note that the members of a rule's object may stand in any order: "RULE N_REQUIRED MORE
 * MEMBER...", the required members first, "." where there are no others. */
static bool note_object(struct grammar_builder *b, const struct object *o, const char *rule)
{
    size_t n = o->properties.n, before = b->objects.len;
    if (n + (o->more_rule != NULL) < 2 || n > OBJECT_MEMBERS_MAX)
        return true;
    str_append_format(&b->objects, "%s %zu %s", rule, o->n_required,
                      o->more_rule ? o->more_rule : ".");
    for (int required = 1; required >= 0; required--)
        for (size_t i = 0; i < n; i++)
            if (o->properties.data[i].required == required)
                str_append_format(&b->objects, " %s", o->properties.data[i].rule);
    str_append_char(&b->objects, '\n');
    return schema_step(b, n) && schema_bytes(b, b->objects.len - before);
}

static const char *object_rule(struct grammar_builder *b, struct object *o, const char *name,
                               const char *rule_name)
{
    struct str body = {0};
    struct property *optional = calloc(o->properties.n + 1, sizeof *optional);
    size_t n_optional = 0;
    bool first = true, ok = optional;
    str_append_text(&body, "\"{\" space ");
    for (size_t i = 0; ok && i < o->properties.n; i++) {
        const struct property *p = &o->properties.data[i];
        if (p->required) {
            str_append_format(&body, "%s%s", first ? "" : " \",\" space ", p->rule);
            first = false;
        } else {
            optional[n_optional++] = *p;
        }
    }
    if (ok && o->more_rule)
        optional[n_optional++] = (struct property){.rule = o->more_rule};
    if (ok && n_optional) {
        str_append_text(&body, first ? " (" : " ( \",\" space ( ");
        ok = append_optional(b, &body, optional, n_optional, name);
        str_append_text(&body, first ? " )?" : " ) )?");
    }
    str_append_text(&body, " space \"}\"");
    free(optional);
    if (!ok) {
        str_free(&body);
        return NULL;
    }
    const char *rule = rules_add_str(b, rule_name, &body);
    return rule && note_object(b, o, rule) ? rule : NULL;
}

static const char *visit_object(struct grammar_builder *b, const json_t *schema, const char *name,
                                const char *rule_name)
{
    const json_t *more = json_object_get(schema, "additionalProperties");
    bool makes_more = json_is_true(more) || json_is_object(more);
    struct object o = {0};
    const char *rule = NULL;
    if (check_object_keywords(b, schema) && collect_properties(b, schema, &o) &&
        check_counts(b, schema, &o, &makes_more) && make_property_rules(b, &o, name) &&
        (!makes_more || make_more_rule(b, &o, more, name)))
        rule = object_rule(b, &o, name, rule_name);
    VEC_FREE(&o.properties);
    return rule;
}

/* ---- arrays ---- */

static bool check_array_keywords(struct grammar_builder *b, const json_t *schema, int64_t max)
{
    if (json_is_true(json_object_get(schema, "uniqueItems")) && max > 1 &&
        !schema_leave_out(b, "uniqueItems", "cannot be said in a grammar"))
        return false;
    return !json_object_get(schema, "contains") ||
           schema_leave_out(b, "contains", "cannot be said in a grammar");
}

/* Tuple items of the list that a document has, then more of a rule. */
static const char *tuple_rule(struct grammar_builder *b, const json_t *list, size_t n,
                              const char *more, int64_t min_more, int64_t max_more,
                              const char *name, const char *rule_name)
{
    struct str body = {0};
    str_append_text(&body, "\"[\" space ");
    for (size_t i = 0; i < n; i++) {
        const char *rule = visit_as(b, json_array_get(list, i),
                                    text_format("%s%stuple-%zu", name, *name ? "-" : "", i));
        if (!rule) {
            str_free(&body);
            return NULL;
        }
        str_append_format(&body, "%s%s", i ? " \",\" space " : "", rule);
    }
    if (more && max_more != 0) {
        struct str item = {0};
        if (n == 0) {
            append_repetition(&body, more, min_more, max_more, "\",\" space");
        } else {
            str_append_format(&item, "(\",\" space %s)", more);
            str_append_char(&body, ' ');
            append_repetition(&body, str_text(&item), min_more, max_more, NULL);
        }
        body.failed = body.failed || item.failed;
        str_free(&item);
    }
    str_append_text(&body, " space \"]\"");
    return rules_add_str(b, rule_name, &body);
}

static const char *visit_array(struct grammar_builder *b, const json_t *schema, const char *name,
                               const char *rule_name)
{
    const json_t *items = json_object_get(schema, "items");
    const json_t *tuple = json_object_get(schema, "prefixItems");
    int64_t min, max;
    if (!schema_count(b, schema, "minItems", 0, &min) ||
        !schema_count(b, schema, "maxItems", -1, &max) ||
        !check_array_keywords(b, schema, max < 0 ? 2 : max))
        return NULL;
    if (max >= 0 && min > max)
        return nothing(b, "minItems is larger than maxItems");
    if (json_is_array(items)) { /* the form before 2020 */
        tuple = items;
        items = json_object_get(schema, "additionalItems");
    }
    if (tuple && !json_is_array(tuple))
        return schema_fail(b, "\"prefixItems\" must be a list of schemas");
    size_t n = json_array_size(tuple);
    if (max >= 0 && (int64_t)n > max)
        n = (size_t)max;
    for (size_t i = 0; i < n; i++) {
        if (!json_is_false(json_array_get(tuple, i)))
            continue;
        n = i; /* nothing may stand here, so nothing after it */
        max = (int64_t)i;
    }
    if (json_is_false(items))
        max = max < 0 || max > (int64_t)n ? (int64_t)n : max;
    if (max >= 0 && min > max)
        return nothing(b, "no item may stand where minItems expects one");
    int64_t min_more = min > (int64_t)n ? min - (int64_t)n : 0;
    int64_t max_more = max < 0 ? -1 : max - (int64_t)n;
    if (tuple && !items && min_more == 0)
        max_more = 0; /* the tuple alone, as the reference has it */
    if (min_more > REPEAT_MAX)
        return schema_fail(b, "\"minItems\" may be at most %d", REPEAT_MAX);
    if (max_more > REPEAT_MAX)
        max_more = REPEAT_MAX;
    const char *more = NULL;
    if (max_more != 0) {
        json_t *anything = items ? NULL : own(b, json_true(), 0);
        more = visit_as(b, items ? items : anything, sub_name(name, "item"));
        if (!more)
            return NULL;
    }
    return tuple_rule(b, tuple, n, more, min_more, max_more, name, rule_name);
}

/* ---- strings and numbers ---- */

static const char *visit_string(struct grammar_builder *b, const json_t *schema,
                                const char *rule_name)
{
    const char *format = get_text(schema, "format");
    const json_t *pattern = json_object_get(schema, "pattern");
    bool counted = json_object_get(schema, "minLength") || json_object_get(schema, "maxLength");
    bool uuid = strncmp(format, "uuid", 4) == 0 &&
                (!format[4] || (format[4] >= '1' && format[4] <= '5' && !format[5]));
    bool timed = strcmp(format, "date") == 0 || strcmp(format, "time") == 0 ||
                 strcmp(format, "date-time") == 0;
    if (pattern) {
        if ((counted && !schema_leave_out(b, "pattern", "cannot be combined with a length")) ||
            ((uuid || timed) &&
             !schema_leave_out(b, "pattern", "cannot be combined with this format")))
            return NULL;
        if (!json_is_string(pattern))
            return schema_fail(b, "\"pattern\" must be a string");
        return pattern_rule(b, json_slice(pattern), rule_name);
    }
    if ((uuid || timed) && counted &&
        !schema_leave_out(b, "format", "cannot be combined with a length"))
        return NULL;
    if (uuid)
        return rules_add_primitive(b, strcmp(rule_name, "root") == 0 ? "root" : format, "uuid");
    if (timed) {
        struct str name = {0};
        str_append_format(&name, "%s-string", format);
        const char *rule = rules_add_primitive(b, NULL, str_text(&name));
        str_free(&name);
        return rule ? rules_add(b, rule_name, rule) : NULL;
    }
    if (!counted)
        return rules_add_primitive(b, strcmp(rule_name, "root") == 0 ? "root" : NULL, "string");
    int64_t min, max;
    if (!schema_count(b, schema, "minLength", 0, &min) ||
        !schema_count(b, schema, "maxLength", -1, &max) || !rules_add_primitive(b, NULL, "char"))
        return NULL;
    if (max >= 0 && min > max)
        return nothing(b, "minLength is larger than maxLength");
    if (min > REPEAT_MAX)
        return schema_fail(b, "\"minLength\" may be at most %d", REPEAT_MAX);
    if (max > REPEAT_MAX)
        max = REPEAT_MAX;
    struct str body = {0};
    str_append_text(&body, "\"\\\"\" ");
    append_repetition(&body, "char", min, max, NULL);
    str_append_text(&body, " \"\\\"\"");
    return rules_add_str(b, rule_name, &body);
}

static const char *visit_number(struct grammar_builder *b, const json_t *schema, bool integer,
                                const char *rule_name)
{
    const json_t *multiple = json_object_get(schema, "multipleOf");
    struct bounds bounds;
    if (multiple && !(integer && json_number_value(multiple) == 1.0) &&
        !schema_leave_out(b, "multipleOf", "cannot be said in a grammar"))
        return NULL;
    if (!schema_bounds(b, schema, &bounds))
        return NULL;
    if (!bounds.has_min && !bounds.has_max)
        return rules_add_primitive(b, strcmp(rule_name, "root") == 0 ? "root" : NULL,
                                   integer ? "integer" : "number");
    struct str body = {0};
    str_append_char(&body, '(');
    bool any = integer ? append_integers(&body, &bounds) : append_numbers(&body, &bounds);
    str_append_char(&body, ')');
    if (any)
        return rules_add_str(b, rule_name, &body);
    str_free(&body);
    return schema_fail(b, "no %s lies within the bounds, or none that a grammar can tell",
                       integer ? "integer" : "number");
}

/* ---- everything ---- */

static bool has_siblings(const json_t *schema, const char *key)
{
    const char *other;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, other, value)
    {
        if (strcmp(other, key) != 0 && schema_is_assertion(other))
            return true;
    }
    return false;
}

static const char *visit_merged(struct grammar_builder *b, const json_t *schema, const char *name)
{
    json_t *merged = own(b, json_object(), 0);
    if (!merged)
        return NULL;
    switch (schema_merge(b, merged, schema)) {
    case MERGE_OK:
        return visit(b, merged, name);
    case MERGE_NOTHING:
        return nothing(b, "its parts contradict each other");
    default:
        return NULL;
    }
}

static const char *unrecognized(struct grammar_builder *b, const json_t *schema)
{
    struct str shown = {0};
    json_append(&shown, schema);
    schema_fail(b, "Unrecognized schema: %.800s", str_text(&shown));
    str_free(&shown);
    return NULL;
}

static bool is_true_schema(const json_t *more)
{
    return !more || json_is_true(more);
}

static const char *visit_typed(struct grammar_builder *b, const json_t *schema, const char *name,
                               const char *rule_name)
{
    const json_t *type = json_object_get(schema, "type");
    int types = type ? schema_type_of_name(json_string_value(type)) : schema_types(schema);
    if (type && !types)
        return unrecognized(b, schema);
    switch (types) {
    case TYPE_OBJECT:
        if (json_object_get(schema, "properties") || json_object_get(schema, "required") ||
            !is_true_schema(json_object_get(schema, "additionalProperties")) ||
            json_object_get(schema, "minProperties") || json_object_get(schema, "maxProperties"))
            return visit_object(b, schema, name, rule_name);
        if (!check_object_keywords(b, schema))
            return NULL;
        break;
    case TYPE_ARRAY:
        if (json_object_get(schema, "items") || json_object_get(schema, "prefixItems") ||
            json_object_get(schema, "minItems") || json_object_get(schema, "maxItems"))
            return visit_array(b, schema, name, rule_name);
        if (!check_array_keywords(b, schema, 2))
            return NULL;
        return rules_add_primitive(b, strcmp(rule_name, "root") == 0 ? "root" : NULL, "array");
    case TYPE_STRING:
        return visit_string(b, schema, rule_name);
    case TYPE_INTEGER:
        return visit_number(b, schema, true, rule_name);
    case TYPE_INTEGER | TYPE_NUMBER:
        return visit_number(b, schema, false, rule_name);
    case TYPE_BOOLEAN:
    case TYPE_NULL:
        return rules_add_primitive(b, strcmp(rule_name, "root") == 0 ? "root" : NULL,
                                   types == TYPE_NULL ? "null" : "boolean");
    default:
        break;
    }
    if (types == TYPE_OBJECT || json_object_size(schema) == 0) {
        const char *rule = rules_add_primitive(b, NULL, "object");
        return rule ? rules_add(b, rule_name, rule) : NULL;
    }
    const char *rule = rules_add_primitive(b, NULL, "value");
    return rule ? rules_add(b, rule_name, rule) : NULL;
}

static const char *visit_schema(struct grammar_builder *b, const json_t *schema, const char *name,
                                const char *rule_name)
{
    static const char *const never[] = {"not", "if", "$dynamicRef", "$recursiveRef", NULL};
    const json_t *type = json_object_get(schema, "type");
    for (int i = 0; never[i]; i++)
        if (json_object_get(schema, never[i]) &&
            !schema_leave_out(b, never[i], "cannot be said in a grammar"))
            return NULL;
    const json_t *ref = json_object_get(schema, "$ref");
    if (ref && !has_siblings(schema, "$ref")) {
        if (!json_is_string(ref))
            return schema_fail(b, "\"$ref\" must be a string");
        const char *rule = visit_ref(b, json_slice(ref));
        return rule ? rules_add(b, rule_name, rule) : NULL;
    }
    if (ref || json_object_get(schema, "allOf"))
        return visit_merged(b, schema, name);
    if (json_object_get(schema, "oneOf"))
        return visit_choices(b, schema, "oneOf", name, rule_name);
    if (json_object_get(schema, "anyOf"))
        return visit_choices(b, schema, "anyOf", name, rule_name);
    if (json_object_get(schema, "const") || json_object_get(schema, "enum"))
        return visit_values(b, schema, rule_name);
    if (json_is_array(type))
        return visit_types(b, schema, type, name, rule_name);
    if (type && json_is_true(json_object_get(schema, "nullable")) && json_is_string(type) &&
        strcmp(json_string_value(type), "null") != 0) {
        json_t *types = own(b, json_pack("[O,s]", type, "null"), 2);
        return types ? visit_types(b, schema, types, name, rule_name) : NULL;
    }
    if (type && !json_is_string(type))
        return unrecognized(b, schema);
    return visit_typed(b, schema, name, rule_name);
}

static const char *visit(struct grammar_builder *b, const json_t *schema, const char *name)
{
    if (!schema_step(b, STEPS_SCHEMA + strlen(name)))
        return NULL;
    if (b->depth >= DEPTH_MAX)
        return schema_fail(b,
                           "the schema is nested deeper than %d, or refers to itself while it is "
                           "being combined with others",
                           DEPTH_MAX);
    if (json_is_false(schema))
        return nothing(b, "it is false");
    char *made = rules_is_reserved(name) ? text_format("%s-", name)
                                         : slice_duplicate(slice_of(*name ? name : "root"));
    if (!made) {
        error_memory(b->err);
        return NULL;
    }
    const char *rule = NULL;
    b->depth++;
    if (json_is_object(schema)) {
        rule = visit_schema(b, schema, name, made);
    } else if (json_is_true(schema)) {
        rule = rules_add_primitive(b, NULL, "value");
        rule = rule ? rules_add(b, made, rule) : NULL;
    } else if (json_is_null(schema)) {
        rule = rules_add_primitive(b, NULL, "object");
        rule = rule ? rules_add(b, made, rule) : NULL;
    } else {
        unrecognized(b, schema);
    }
    b->depth--;
    free(made);
    return rule;
}

const char *grammar_builder_schema(struct grammar_builder *b, const char *name,
                                   const json_t *schema, enum schema_mode mode, struct error *err)
{
    struct error ignored;
    b->err = err ? err : &ignored;
    *b->err = (struct error){0};
    b->root = schema;
    b->mode = mode;
    b->depth = 0;
    b->spent = false;
    /* The rules may outlive the caller's document in later references. */
    const char *rule = NULL;
    if (own(b, json_incref((json_t *)(uintptr_t)schema), 0))
        rule = visit(b, schema, strcmp(name, "root") == 0 ? "" : name);
    if (b->spent)
        rule = NULL;
    if (!rule && b->err->code == ERR_NONE) { /* only memory fails without a word */
        error_memory(b->err);
    } else if (!rule) {
        struct error why = *b->err;
        error_set(b->err, why.code, "JSON schema conversion failed:\n%s", why.message);
    }
    b->err = NULL;
    return rule;
}

/* Whether the grammar can be used; err as schema_to_grammar has it. */
static bool check_grammar(struct slice text, struct budget *budget, struct error *err)
{
    struct error why = {0};
    if (grammar_check(NULL, text, budget, &why))
        return true;
    bool ours = why.code == ERR_FORMAT || why.code == ERR_INVALID;
    return error_set(
        err, ours ? ERR_INVALID : why.code,
        "JSON schema conversion failed:\nthe schema makes a grammar that cannot be used: %s",
        why.message);
}

bool schema_to_grammar(const json_t *schema, struct budget *budget, struct str *out,
                       struct str *objects, struct error *err)
{
    struct grammar_builder *b = grammar_builder_create(budget, err);
    if (!b)
        return false;
    struct str text = {0};
    json_t *anything = json_null();
    bool ok = grammar_builder_schema(b, "", schema ? schema : anything, SCHEMA_STRICT, err) &&
              grammar_builder_text(b, &text, err);
    if (ok && objects && !grammar_builder_objects(b, objects))
        ok = error_memory(err);
    grammar_builder_free(b);
    ok = ok && check_grammar(str_slice(&text), budget, err) &&
         (str_append_slice(out, str_slice(&text)) || error_memory(err));
    str_free(&text);
    return ok;
}
