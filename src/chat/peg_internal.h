/* peg_internal.h - how a parser's pieces are kept. */
#ifndef MLXCEL_CHAT_PEG_INTERNAL_H
#define MLXCEL_CHAT_PEG_INTERNAL_H

#include "base/vec.h"
#include "chat/peg.h"

enum peg_kind {
    PEG_EMPTY,
    PEG_END,
    PEG_LITERAL,
    PEG_SEQUENCE,
    PEG_CHOICE,
    PEG_REPEAT,
    PEG_AHEAD,
    PEG_NOT_AHEAD,
    PEG_ANY,
    PEG_SPACE,
    PEG_CHARS,
    PEG_STRING,
    PEG_UNTIL,
    PEG_SCHEMA,
    PEG_RULE,
    PEG_REF,
    PEG_ATOMIC,
    PEG_TAG,
    PEG_GRAMMAR,
    PEG_THROUGH
};

struct peg_range {
    uint32_t low, high;
};

struct peg_piece {
    enum peg_kind kind;
    peg_id child;
    struct slice text; /* LITERAL, CHARS pattern, RULE/REF/SCHEMA name, GRAMMAR */
    peg_id *children;  /* SEQUENCE, CHOICE */
    size_t n_children;
    int least, most;          /* REPEAT, CHARS */
    struct peg_range *ranges; /* CHARS */
    size_t n_ranges;
    bool negated;        /* CHARS */
    char delimiter;      /* STRING */
    struct slice *texts; /* UNTIL, THROUGH */
    size_t n_texts;
    bool firsts[256];     /* UNTIL: bytes some text starts with */
    const json_t *schema; /* SCHEMA; owned */
    enum schema_mode mode;
    bool trigger; /* RULE */
    enum peg_tag_name tag;
};

struct peg_rule_entry {
    struct slice name;
    peg_id rule;
};

struct peg {
    struct arena arena;
    struct peg_piece **pieces;
    size_t n, capacity;
    struct peg_rule_entry *rules;
    size_t n_rules, rules_capacity;
    peg_id root;
    bool failed;
};

const struct peg_rule_entry *peg_rule_of(const struct peg *g, struct slice name);

#endif
