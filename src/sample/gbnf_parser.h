/* gbnf_parser.h - a grammar while it is read, for the files that read it. */
#ifndef MLXCEL_SAMPLE_GBNF_PARSER_H
#define MLXCEL_SAMPLE_GBNF_PARSER_H

#include "base/budget.h"
#include "sample/gbnf.h"

struct rule_body {
    struct element *data;
    size_t n, capacity;
};

struct symbol {
    struct slice name; /* into the text; empty for a rule made up here */
    uint32_t rule;
};

struct parser {
    const struct vocab *vocab;
    struct slice text;
    size_t pos;
    int depth;
    struct budget *budget;
    struct error *err;
    VEC(struct rule_body) rules; /* by symbol; data NULL: not defined */
    VEC(struct slice) names;     /* by rule */
    VEC(struct symbol) symbols;  /* a hash table of the named rules */
    size_t n_named;
    VEC(struct char_class) classes;
    VEC(struct char_range) ranges;
    size_t n_elements; /* ever made, and those that the budget has paid for */
    size_t n_paid;
    size_t n_copied;   /* of them by repetitions */
    size_t n_factored; /* rules made of what alternatives have in common */
};

/* A new rule, not yet defined. False with the error set. */
bool parser_new_rule(struct parser *p, struct slice name, uint32_t *rule);
/* Append an element. False with the error set. */
bool parser_add(struct parser *p, struct rule_body *body, enum element_type type, uint32_t value);

/* The rule of that name; false where there is none. */
bool parser_find_rule(const struct parser *p, struct slice name, uint32_t *rule);

/* Let the rules of objects (see grammar_builder_objects) take their members in any order
 * (gbnf_objects.c). A line about rules that the grammar does not have is left out. */
bool grammar_take_objects(struct parser *p, struct slice objects, struct grammar *g);

/* Alternatives of a rule that are literals: kept apart while the others are
 * read, because lists of a hundred thousand words are common. */
struct literal {
    uint32_t first, n; /* into chars */
};

struct literals {
    VEC(struct literal) list;
    VEC(uint32_t) chars;
};

/* Move an alternative there, if it is a literal, which empties it. */
bool literals_take(struct parser *p, struct literals *from, struct rule_body *alternative,
                   bool *taken);
/* Append the literals to a body (any: it has alternatives already): from many on
 * with what they have in common in front, once, and rules for how they go on.
 * A list of words is then not as many positions at once. */
bool literals_append(struct parser *p, struct literals *from, struct rule_body *body, bool any);
void literals_free(struct literals *from);

#endif
