/* gbnf.h - a parsed grammar: rules as runs of elements. */
#ifndef MLXCEL_SAMPLE_GBNF_H
#define MLXCEL_SAMPLE_GBNF_H

#include "base/budget.h"
#include "sample/vocab.h"

enum element_type {
    ELEMENT_END,       /* of the rule */
    ELEMENT_ALT,       /* of this alternative; the next begins after it */
    ELEMENT_RULE,      /* value: index of the rule */
    ELEMENT_MEMBERS,   /* of a JSON object, in any order; value: which are still to come, for
                        * the automaton; here the object, with all of them to come */
    ELEMENT_CHAR,      /* value: code point */
    ELEMENT_CLASS,     /* value: index of the class */
    ELEMENT_ANY,       /* any character */
    ELEMENT_TOKEN,     /* value: token id */
    ELEMENT_TOKEN_NOT, /* any token but this */
};

struct element {
    enum element_type type;
    uint32_t value;
};

struct char_range {
    uint32_t low, high; /* inclusive */
};

struct char_class {
    uint32_t first_range, n_ranges; /* ascending and apart */
    bool negated;
    uint32_t ascii[4]; /* bit c set: the class holds c (negation applied) */
};

/* A JSON object whose members may stand in any order. */
struct grammar_object {
    uint32_t first_member, n_members; /* in grammar.members; the required ones first */
    uint32_t n_required;
    uint32_t more;  /* the rule of members that are not named; GRAMMAR_NONE: there are none */
    uint32_t space; /* the rule between tokens of JSON */
};

#define GRAMMAR_NONE UINT32_MAX

struct grammar {
    struct element *elements;
    uint32_t n_elements;
    uint32_t *rules; /* first element of each rule */
    uint32_t n_rules;
    struct char_class *classes;
    struct char_range *ranges;
    uint32_t root;
    struct grammar_object *objects;
    uint32_t n_objects;
    uint32_t *members; /* of all objects: rules */
};

static inline bool element_ends(const struct grammar *g, uint32_t at)
{
    return g->elements[at].type == ELEMENT_END || g->elements[at].type == ELEMENT_ALT;
}

/* Parse and check. ERR_FORMAT with line, column and what was expected;
 * ERR_LIMIT for what is too large. vocab reads "<token>" and may be NULL where
 * the grammar has none. objects: which of its rules are objects whose members may
 * stand in any order, as grammar_builder_objects has it; may be empty. The caller frees
 * it with grammar_free. Of the budget's bytes those of the grammar stay taken. */
struct grammar *grammar_parse(const struct vocab *vocab, struct slice text, struct slice objects,
                              struct budget *budget, struct error *err);
void grammar_free(struct grammar *g);

/* Refuse rules that would be entered without end before a character is read;
 * names[rule] is for the message. */
bool grammar_check_recursion(const struct grammar *g, const struct slice *names, struct error *err);

#endif
