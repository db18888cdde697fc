/* gbnf.h - a parsed grammar: rules as runs of elements. */
#ifndef MLXCEL_SAMPLE_GBNF_H
#define MLXCEL_SAMPLE_GBNF_H

#include "base/budget.h"
#include "sample/vocab.h"

enum element_type {
    ELEMENT_END,       /* of the rule */
    ELEMENT_ALT,       /* of this alternative; the next begins after it */
    ELEMENT_RULE,      /* value: index of the rule */
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

struct grammar {
    struct element *elements;
    uint32_t n_elements;
    uint32_t *rules; /* first element of each rule */
    uint32_t n_rules;
    struct char_class *classes;
    struct char_range *ranges;
    uint32_t root;
};

static inline bool element_ends(const struct grammar *g, uint32_t at)
{
    return g->elements[at].type == ELEMENT_END || g->elements[at].type == ELEMENT_ALT;
}

/* Parse and check. ERR_FORMAT with line, column and what was expected;
 * ERR_LIMIT for what is too large. vocab reads "<token>" and may be NULL where
 * the grammar has none. The caller frees it with grammar_free. Of the budget's
 * bytes those of the grammar stay taken. */
struct grammar *grammar_parse(const struct vocab *vocab, struct slice text, struct budget *budget,
                              struct error *err);
void grammar_free(struct grammar *g);

/* Refuse rules that would be entered without end before a character is read;
 * names[rule] is for the message. */
bool grammar_check_recursion(const struct grammar *g, const struct slice *names, struct error *err);

#endif
