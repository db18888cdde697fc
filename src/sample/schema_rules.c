/* schema_rules.c - the named rules of a grammar under construction, and those
 * that every schema may need. */
#include "sample/schema.h"

#include <stdlib.h>

/* What JSON is made of. Names and bodies are those of the reference, because
 * responses show the grammar; the dates are ours: they have as many days as
 * their months. */
static const struct {
    const char *name, *body;
    const char *needs[6];
    bool format; /* a format of strings, not a type */
} primitives[] = {
    {"boolean", "(\"true\" | \"false\")", {0}, false},
    {"decimal-part", "[0-9]{1,16}", {0}, false},
    {"integral-part", "[0] | [1-9] [0-9]{0,15}", {0}, false},
    {"number",
     "(\"-\"? integral-part) (\".\" decimal-part)? ([eE] [-+]? integral-part)?",
     {"integral-part", "decimal-part"},
     false},
    {"integer", "(\"-\"? integral-part)", {"integral-part"}, false},
    {"value",
     "object | array | string | number | boolean | null",
     {"object", "array", "string", "number", "boolean", "null"},
     false},
    {"object",
     "\"{\" space ( string \":\" space value (\",\" space string \":\" space value)* )? space "
     "\"}\"",
     {"string", "value"},
     false},
    {"array", "\"[\" space ( value (\",\" space value)* )? space \"]\"", {"value"}, false},
    {"uuid",
     "\"\\\"\" [0-9a-fA-F]{8} \"-\" [0-9a-fA-F]{4} \"-\" [0-9a-fA-F]{4} \"-\" [0-9a-fA-F]{4} \"-\" "
     "[0-9a-fA-F]{12} \"\\\"\"",
     {0},
     false},
    {"char",
     "[^\"\\\\\\x7F\\x00-\\x1F] | [\\\\] ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4})",
     {0},
     false},
    {"string", "\"\\\"\" char* \"\\\"\"", {"char"}, false},
    {"null", "\"null\"", {0}, false},
    {"date",
     "[0-9]{4} \"-\" ( ( \"0\" [1-9] | \"1\" [0-2] ) \"-\" ( \"0\" [1-9] | \"1\" [0-9] | \"2\" "
     "[0-8] ) | ( \"0\" [13-9] | \"1\" [0-2] ) \"-\" ( \"29\" | \"30\" ) | ( \"0\" [13578] | \"1\" "
     "[02] ) \"-31\" )",
     {0},
     true},
    {"time",
     "([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] ( \".\" [0-9]{3} )? ( \"Z\" | "
     "( \"+\" | \"-\" ) ( [01] [0-9] | \"2\" [0-3] ) \":\" [0-5] [0-9] )",
     {0},
     true},
    {"date-time", "date \"T\" time", {"date", "time"}, true},
    {"date-string", "\"\\\"\" date \"\\\"\"", {"date"}, true},
    {"time-string", "\"\\\"\" time \"\\\"\"", {"time"}, true},
    {"date-time-string", "\"\\\"\" date-time \"\\\"\"", {"date-time"}, true},
};

enum { N_PRIMITIVES = sizeof primitives / sizeof *primitives };

static int find_primitive(const char *name)
{
    for (int i = 0; i < N_PRIMITIVES; i++)
        if (strcmp(primitives[i].name, name) == 0)
            return i;
    return -1;
}

bool rules_is_reserved(const char *name)
{
    return strcmp(name, "root") == 0 || find_primitive(name) >= 0;
}

/* ---- the table ---- */

static struct rule *find_rule(const struct grammar_builder *b, const char *name)
{
    size_t cursor = 0;
    uint64_t hash = hash_text(slice_of(name));
    uint32_t at;
    while ((at = hash_index_next(&b->by_name, hash, &cursor)) != HASH_INDEX_NONE)
        if (strcmp(b->rules.data[at].name, name) == 0)
            return &b->rules.data[at];
    return NULL;
}

bool rules_have(const struct grammar_builder *b, const char *name)
{
    return find_rule(b, name);
}

static const char *insert_rule(struct grammar_builder *b, const char *name, const char *body)
{
    size_t bytes = strlen(name) + strlen(body) + sizeof(struct rule);
    if (b->rules.n >= UINT32_MAX - 1)
        return schema_fail(b, "the schema needs too many rules");
    if (!schema_bytes(b, bytes))
        return NULL;
    struct rule rule = {slice_duplicate(slice_of(name)), slice_duplicate(slice_of(body))};
    if (!rule.name || !rule.body || !VEC_PUSH(&b->rules, rule)) {
        free(rule.name);
        free(rule.body);
        error_memory(b->err);
        return NULL;
    }
    if (!hash_index_add(&b->by_name, hash_text(slice_of(name)), (uint32_t)b->rules.n - 1)) {
        error_memory(b->err);
        return NULL;
    }
    return rule.name;
}

/* Letters, digits and '-' stay; a run of others becomes one '-'. */
static void clean_name(struct str *out, const char *name)
{
    for (bool odd = false; *name; name++) {
        char c = *name;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-') {
            str_append_char(out, c);
            odd = false;
        } else if (!odd) {
            str_append_char(out, '-');
            odd = true;
        }
    }
}

const char *rules_add(struct grammar_builder *b, const char *name, const char *body)
{
    struct str clean = {0};
    const char *result = NULL;
    if (!name || !body)
        return NULL;
    if (!schema_step(b, STEPS_RULE + strlen(name) + strlen(body) / 8))
        return NULL;
    clean_name(&clean, name);
    size_t length = clean.len;
    for (int i = -1; !clean.failed; i++) {
        if (!schema_step(b, 16))
            break;
        if (i >= 0) {
            str_truncate(&clean, length);
            str_append_format(&clean, "%d", i);
        }
        const struct rule *known = find_rule(b, str_text(&clean));
        if (known && strcmp(known->body, body) != 0)
            continue;
        result = known ? known->name : insert_rule(b, str_text(&clean), body);
        break;
    }
    if (clean.failed)
        error_memory(b->err);
    str_free(&clean);
    return result;
}

const char *rules_add_str(struct grammar_builder *b, const char *name, struct str *body)
{
    const char *result = NULL;
    if (body->failed)
        error_memory(b->err);
    else
        result = rules_add(b, name, str_text(body));
    str_free(body);
    return result;
}

const char *rules_add_primitive(struct grammar_builder *b, const char *name, const char *primitive)
{
    int i = find_primitive(primitive);
    if (i < 0)
        return schema_fail(b, "Rule %s not known", primitive);
    const char *result = rules_add(b, name ? name : primitive, primitives[i].body);
    for (int j = 0; result && j < 6 && primitives[i].needs[j]; j++)
        if (!rules_have(b, primitives[i].needs[j]) &&
            !rules_add_primitive(b, NULL, primitives[i].needs[j]))
            return NULL;
    return result;
}

void append_repetition(struct str *out, const char *item, int64_t min, int64_t max,
                       const char *separator)
{
    if (max == 0)
        return;
    if (min == 0 && max == 1) {
        str_append_format(out, "%s?", item);
        return;
    }
    if (!separator) {
        if (max < 0 && min <= 1)
            str_append_format(out, "%s%c", item, min == 1 ? '+' : '*');
        else if (max < 0)
            str_append_format(out, "%s{%lld,}", item, (long long)min);
        else
            str_append_format(out, "%s{%lld,%lld}", item, (long long)min, (long long)max);
        return;
    }
    struct str more = {0};
    str_append_format(&more, "(%s %s)", separator, item);
    str_append_format(out, "%s%s ", min == 0 ? "(" : "", item);
    append_repetition(out, str_text(&more), min == 0 ? 0 : min - 1, max < 0 ? -1 : max - 1, NULL);
    if (min == 0)
        str_append_text(out, ")?");
    out->failed = out->failed || more.failed;
    str_free(&more);
}

/* ---- the door ---- */

struct grammar_builder *grammar_builder_create(struct budget *budget, struct error *err)
{
    struct grammar_builder *b = calloc(1, sizeof *b);
    if (!b) {
        error_memory(err);
        return NULL;
    }
    b->budget = budget;
    b->err = err;
    const char *space = rules_add(b, "space", "| \" \" | \"\\n\"{1,2} [ \\t]{0,20}");
    b->err = NULL;
    if (space)
        return b;
    grammar_builder_free(b);
    return NULL;
}

void grammar_builder_free(struct grammar_builder *b)
{
    if (!b)
        return;
    if (!b->spent)
        budget_return(b->budget, b->bytes);
    for (size_t i = 0; i < b->rules.n; i++) {
        free(b->rules.data[i].name);
        free(b->rules.data[i].body);
    }
    for (size_t i = 0; i < b->refs.n; i++) {
        free(b->refs.data[i].pointer);
        free(b->refs.data[i].name);
    }
    for (size_t i = 0; i < b->lists.n; i++) {
        value_set_free(&b->lists.data[i].set);
        json_decref(b->lists.data[i].list);
    }
    for (size_t i = 0; i < b->owned.n; i++)
        json_decref(b->owned.data[i]);
    VEC_FREE(&b->rules);
    VEC_FREE(&b->refs);
    VEC_FREE(&b->owned);
    VEC_FREE(&b->lists);
    hash_index_free(&b->by_name);
    hash_index_free(&b->by_pointer);
    hash_index_free(&b->by_ref_name);
    hash_index_free(&b->by_list);
    str_free(&b->objects);
    free(b);
}

const char *grammar_builder_rule(struct grammar_builder *b, const char *name, const char *body)
{
    b->err = NULL;
    return rules_add(b, name, body);
}

bool grammar_builder_objects(const struct grammar_builder *b, struct str *out)
{
    return !b->objects.failed && str_append_slice(out, str_slice(&b->objects));
}

static int compare_rules(const void *a, const void *b)
{
    return strcmp(((const struct rule *)a)->name, ((const struct rule *)b)->name);
}

bool grammar_builder_text(struct grammar_builder *b, struct str *out, struct error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < b->rules.n; i++)
        bytes += strlen(b->rules.data[i].name) + strlen(b->rules.data[i].body) + 6;
    if (!budget_step(b->budget, bytes / 16 + b->rules.n * 16, err) ||
        !budget_bytes(b->budget, bytes, err))
        return false;
    if (!str_reserve(out, bytes))
        return error_memory(err);
    struct rule *sorted = malloc((b->rules.n + 1) * sizeof *sorted);
    if (!sorted)
        return error_memory(err);
    memcpy(sorted, b->rules.data, b->rules.n * sizeof *sorted);
    qsort(sorted, b->rules.n, sizeof *sorted, compare_rules);
    for (size_t i = 0; i < b->rules.n; i++) {
        str_append_text(out, sorted[i].name);
        str_append_text(out, " ::= ");
        str_append_text(out, sorted[i].body);
        str_append_char(out, '\n');
    }
    free(sorted);
    if (out->failed)
        return error_memory(err);
    return true;
}

bool grammar_append_literal(struct str *out, struct slice text)
{
    str_append_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '\r')
            str_append_text(out, "\\r");
        else if (c == '\n')
            str_append_text(out, "\\n");
        else if (c == '"' || c == '\\')
            str_append(out, c == '"' ? "\\\"" : "\\\\", 2);
        else
            str_append_char(out, c);
    }
    return str_append_char(out, '"');
}

bool grammar_append_class_char(struct str *out, uint32_t c)
{
    /* "\-" and "\^" are not escapes of GBNF */
    if (c < 0x20 || c == 0x7F || c == '"' || c == '-' || c == '^')
        return str_append_format(out, "\\x%02X", (unsigned)c);
    if (c == '\\' || c == '[' || c == ']')
        return str_append_format(out, "\\%c", (int)c);
    return str_append_codepoint(out, c);
}
