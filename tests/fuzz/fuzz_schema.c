/* fuzz_schema.c - any JSON as a schema: refused, or a grammar that parses, within
 * a budget of steps and bytes. What is no JSON says how to make a schema of
 * definitions that refer to each other, as deep and as crosswise as bytes can. */
#include "sample/sample.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small against a request's, so that a run that counts too little shows as slow
 * or large. */
#define STEPS UINT64_C(5000000)
#define BYTES (UINT64_C(32) << 20)

/* ---- Schemas from bytes ---- */

enum { N_DEFINITIONS = 12, DEPTH_MAX = 6 };

struct source {
    const uint8_t *at, *end;
};

static unsigned take(struct source *s, unsigned below)
{
    return s->at < s->end ? *s->at++ % below : 0;
}

static json_t *reference(struct source *s)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/$defs/d%u", take(s, N_DEFINITIONS + 1)));
}

static json_t *make(struct source *s, int depth);

static json_t *list(struct source *s, int depth)
{
    json_t *items = json_array();
    for (unsigned i = 1 + take(s, 4); i > 0; i--)
        json_array_append_new(items, make(s, depth + 1));
    return items;
}

static json_t *values(struct source *s)
{
    json_t *items = json_array();
    for (unsigned i = 1 + take(s, 40); i > 0; i--)
        json_array_append_new(items, take(s, 2) ? json_integer(take(s, 5))
                                                : json_sprintf("v%u", take(s, 5)));
    return items;
}

static json_t *properties(struct source *s, int depth)
{
    json_t *members = json_object();
    for (unsigned i = 1 + take(s, 4); i > 0; i--) {
        char name[8];
        snprintf(name, sizeof name, "p%u", take(s, 6));
        json_object_set_new(members, name, make(s, depth + 1));
    }
    return members;
}

/* One keyword more. */
static void add(struct source *s, json_t *schema, int depth)
{
    static const char *const types[] = {"object", "array",   "string", "integer",
                                        "number", "boolean", "null"};
    static const char *const lists[] = {"allOf", "allOf", "anyOf", "oneOf", "prefixItems"};
    static const char *const bounds[] = {"minimum",  "maximum",  "minLength",     "maxLength",
                                         "minItems", "maxItems", "minProperties", "maxProperties"};
    static const char *const patterns[] = {"^a{0,9}$", "^(ab|c)+$", "^[a-f]{2,40}x*$", "^.*$"};
    switch (take(s, 9)) {
    case 0:
        json_object_set_new(schema, lists[take(s, 5)], list(s, depth));
        break;
    case 1:
        json_object_set_new(schema, "type", json_string(types[take(s, 7)]));
        break;
    case 2:
        json_object_set_new(schema, "properties", properties(s, depth));
        break;
    case 3:
        json_object_set_new(schema, take(s, 2) ? "items" : "additionalProperties",
                            make(s, depth + 1));
        break;
    case 4:
        json_object_set_new(schema, "enum", values(s));
        break;
    case 5:
        json_object_set_new(schema, bounds[take(s, 8)], json_integer(take(s, 60)));
        break;
    case 6:
        json_object_set_new(schema, "required", json_pack("[s,s]", "p0", "p5"));
        break;
    case 7:
        json_object_set_new(schema, "pattern", json_string(patterns[take(s, 4)]));
        break;
    default:
        json_object_update_new(schema, reference(s));
    }
}

static json_t *make(struct source *s, int depth)
{
    if (depth >= DEPTH_MAX || take(s, 3) == 0)
        return reference(s);
    json_t *schema = json_object();
    for (unsigned i = 1 + take(s, 3); i > 0; i--)
        add(s, schema, depth);
    return schema;
}

static json_t *schema_of_bytes(const uint8_t *data, size_t size)
{
    struct source s = {data, data + size};
    json_t *definitions = json_object(), *schema = make(&s, 0);
    for (int i = 0; i < N_DEFINITIONS; i++) {
        char name[8];
        snprintf(name, sizeof name, "d%d", i);
        json_object_set_new(definitions, name, make(&s, 1));
    }
    json_object_set_new(schema, "$defs", definitions);
    return schema;
}

/* ---- What must hold ---- */

static struct budget whole_budget(void)
{
    return (struct budget){.steps = STEPS, .bytes = BYTES};
}

/* A failure says why, and work that the budget ended never counts as done. */
static void check(bool ok, const struct budget *budget, const struct error *err)
{
    if (budget->steps > STEPS || budget->bytes > BYTES)
        abort();
    if (ok ? budget->steps == 0 : err->code == ERR_NONE || !err->message[0])
        abort();
}

static void convert(const json_t *schema)
{
    struct error err = {0};
    struct str text = {0};
    struct budget budget = whole_budget(), for_check = whole_budget();
    bool ok = schema_to_grammar(schema, &budget, &text, NULL, &err);
    check(ok, &budget, &err);
    if (ok && !grammar_check(NULL, str_slice(&text), &for_check, &err))
        abort();
    str_free(&text);
}

static void convert_for_tool(const json_t *schema)
{
    struct error err = {0};
    struct str text = {0};
    struct budget budget = whole_budget();
    struct grammar_builder *b = grammar_builder_create(&budget, &err);
    bool ok = b && grammar_builder_schema(b, "tool", schema, SCHEMA_LENIENT, &err) &&
              grammar_builder_text(b, &text, &err);
    check(ok, &budget, &err);
    grammar_builder_free(b);
    str_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    json_t *schema = json_parse((struct slice){(const char *)data, size}, &err);
    if (!schema)
        schema = schema_of_bytes(data, size);
    convert(schema);
    convert_for_tool(schema);
    json_decref(schema);
    return 0;
}
