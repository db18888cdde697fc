/* schema.h - from JSON schema to rules: what its files share. */
#ifndef MLXCEL_SAMPLE_SCHEMA_H
#define MLXCEL_SAMPLE_SCHEMA_H

#include "sample/sample.h"

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

struct grammar_builder {
    VEC(struct rule) rules;
    uint32_t *index; /* hash table: rule + 1 */
    size_t index_capacity;
    VEC(struct schema_ref) refs;
    VEC(json_t *) owned; /* schemas made on the way */
    /* While a schema is converted: */
    const json_t *root;
    enum schema_mode mode;
    int depth;
    size_t n_visits;
    struct error *err;
};

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
/* Whether a value satisfies a schema, as far as one looks: certain is cleared
 * where a keyword was not looked at. */
bool schema_admits(const json_t *schema, const json_t *value, bool *certain);
/* Whether nothing that the grammar of a makes satisfies other. */
bool schema_excludes(struct grammar_builder *b, const json_t *a, const json_t *other, int depth);

/* ---- errors ---- */

/* Set the error; returns NULL. */
void *schema_fail(struct grammar_builder *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Refuse a keyword in strict mode. True: go on without it. */
bool schema_leave_out(struct grammar_builder *b, const char *keyword, const char *why);

#endif
