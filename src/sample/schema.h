/* schema.h - from JSON schema to rules: what its files share. */
#ifndef MLXCEL_SAMPLE_SCHEMA_H
#define MLXCEL_SAMPLE_SCHEMA_H

#include "sample/sample.h"
#include "sample/schema_set.h"

struct rule {
    char *name, *body; /* owned */
};

/* A $ref met in a schema. */
struct schema_ref {
    const json_t *root; /* the document it points into */
    char *pointer;      /* "#/$defs/x", owned */
    char *name;         /* of its rule, owned */
    const char *result; /* the rule that stands for it; NULL while it is made */
    bool used_inside;   /* by itself */
};

/* The values of a long list, once it was searched. */
struct listed_values {
    json_t *list; /* owned */
    struct value_set set;
};

struct grammar_builder {
    struct budget *budget;
    VEC(struct rule) rules;
    struct hash_index by_name; /* of rules */
    VEC(struct schema_ref) refs;
    struct hash_index by_pointer, by_ref_name; /* of refs */
    VEC(json_t *) owned;                       /* schemas made on the way */
    VEC(struct listed_values) lists;
    struct hash_index by_list; /* of lists */
    struct str objects;        /* those whose members may stand in any order */
    /* While a schema is converted: */
    const json_t *root;
    enum schema_mode mode;
    int depth;
    uint64_t bytes; /* taken of the budget */
    bool spent;     /* the budget: what is found after that counts for nothing */
    struct error *err;
};

/* ---- work ---- */

/* Steps of things that cost more than looking at a value: about 10 ns each. */
enum {
    STEPS_MEMBER = 16, /* setting a member of an object */
    STEPS_RULE = 32,   /* and what its text costs */
    STEPS_SCHEMA = 64, /* looking at a schema, its keywords by name */
};

/* Bytes that a member of an object and a list or object made here cost. */
enum { MEMBER_BYTES = 128 };

/* Take steps, or bytes, of the budget; false with the error set, which later
 * ones then leave as it is. */
static inline bool schema_step(struct grammar_builder *b, uint64_t n)
{
    b->spent = b->spent || !budget_step(b->budget, n, b->err);
    return !b->spent;
}

static inline bool schema_bytes(struct grammar_builder *b, uint64_t n)
{
    b->spent = b->spent || !budget_bytes(b->budget, n, b->err);
    b->bytes += b->spent ? 0 : n;
    return !b->spent;
}

/* ---- rules (schema_rules.c) ---- */

/* The name of the rule with that body: name, or name and a number. NULL with
 * the error set when out of memory or past the limit. */
const char *rules_add(struct grammar_builder *b, const char *name, const char *body);
/* The same with what a struct str holds, which is freed. */
const char *rules_add_str(struct grammar_builder *b, const char *name, struct str *body);
bool rules_have(const struct grammar_builder *b, const char *name);
/* Add a rule of the table of primitives and those it needs, under a name (its
 * own where that is NULL). */
const char *rules_add_primitive(struct grammar_builder *b, const char *name, const char *primitive);
/* A name that would collide with a primitive or "root". */
bool rules_is_reserved(const char *name);

/* item{min,max}, with max < 0 for no limit, or its short form; items are apart
 * by separator where that is not NULL. */
void append_repetition(struct str *out, const char *item, int64_t min, int64_t max,
                       const char *separator);

/* ---- numbers (schema_number.c) ---- */

struct bounds {
    bool has_min, has_max;
    double min, max;
    bool min_exclusive, max_exclusive;
};

/* The alternatives for an integer or a number; false where none exists. */
bool append_integers(struct str *out, const struct bounds *bounds);
bool append_numbers(struct str *out, const struct bounds *bounds);

/* ---- patterns (schema_pattern.c) ---- */

/* The rule of a string that matches an anchored regular expression. */
const char *pattern_rule(struct grammar_builder *b, struct slice pattern, const char *name);

/* ---- merging (schema_merge.c) ---- */

enum merge_result { MERGE_OK, MERGE_NOTHING /* no value satisfies both */, MERGE_ERROR };

/* Conjunction of schemas: into is an object that the caller owns, in is merged
 * into it with $ref and allOf resolved. */
enum merge_result schema_merge(struct grammar_builder *b, json_t *into, const json_t *in);
/* What a $ref points to; NULL with the error set. */
const json_t *schema_resolve(struct grammar_builder *b, struct slice ref);
/* The same, without an error. */
const json_t *schema_look_up(struct grammar_builder *b, struct slice ref);
/* Whether a key constrains values at all. */
bool schema_is_assertion(const char *key);

/* ---- values (schema_value.c) ---- */

enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_NUMBER = 8, /* that is no integer */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127
};

/* The types a schema admits (by type, const and enum), and that its other
 * keywords suggest where it says nothing. */
int schema_types(const json_t *schema);
int schema_type_of_name(const char *name); /* 0: no such type */
int schema_type_of_value(const json_t *value);
bool schema_bounds(struct grammar_builder *b, const json_t *schema, struct bounds *out);
/* An integer keyword; fallback where it is absent. */
bool schema_count(struct grammar_builder *b, const json_t *schema, const char *key,
                  int64_t fallback, int64_t *out);
/* Whether a value satisfies a schema, as far as one looks: certain, which may
 * be NULL, is cleared where a keyword was not looked at. listed: the value is of
 * its "enum". */
bool schema_admits(struct grammar_builder *b, const json_t *schema, const json_t *value,
                   bool listed, bool *certain);
/* Whether nothing that the grammar of a makes satisfies other. */
bool schema_excludes(struct grammar_builder *b, const json_t *a, const json_t *other, int depth);

/* ---- errors ---- */

/* Set the error; returns NULL. */
void *schema_fail(struct grammar_builder *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Refuse a keyword in strict mode. True: go on without it. */
bool schema_leave_out(struct grammar_builder *b, const char *keyword, const char *why);

#endif
