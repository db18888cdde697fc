/* conform_compare.h - is an answer the one that was recorded?
 *
 * The rules: {"$any": "number"} and {"$any": "string"} match any value of that
 * type; integers agree exactly, other numbers within 0.03 + 1 %, the components
 * of an embedding (8 and more reals in a list) within 2e-3 of its largest, or of
 * one; text agrees exactly, but of an error message that quotes a JSON library or a number
 * parser only what stands before the quotation counts; the order of keys does
 * not matter. */
#ifndef MLXCEL_CMD_CONFORM_COMPARE_H
#define MLXCEL_CMD_CONFORM_COMPARE_H

#include "base/json.h"
#include "base/str.h"

enum numerics_rule {
    NUMERICS_NONE,      /* completion probabilities are JSON like any other */
    NUMERICS_EXACT,     /* same tokens, log-probabilities above -12 within 0.02 */
    NUMERICS_QUANTIZED, /* the first token's top five within 0.15, in order where
                           they differ by more than that */
    /* By every rule the tokens' texts and bytes agree exactly. */
};

struct comparison {
    /* set by the caller */
    bool ignore_slots; /* requests ran at once: any slot may have served them, so
                         that cache_n and prompt_n agree in their sum only */
    enum numerics_rule numerics;
    /* grown by comparing; the caller frees both */
    struct str path;  /* where we are, as $.a[3].b */
    struct str lines; /* one line per difference: PATH: expected X, got Y */
    size_t n;         /* differences */
    double within;    /* what an embedding's components may differ by; 0: not in one */
};

/* Note a difference at the present path. */
void differ(struct comparison *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

void compare_json(struct comparison *c, const json_t *expected, const json_t *got);
void compare_text(struct comparison *c, struct slice expected, struct slice got);

/* A whole response: {"status", "headers", "json" | "text" | "events"}. What the
 * expected one leaves out is not compared, except CORS headers: unrecorded ones
 * must be absent. Another member of the expected one is a difference. */
void compare_response(struct comparison *c, const json_t *expected, const json_t *got);

/* The log-probabilities of a completion, by the rule in c->numerics. */
void compare_numerics(struct comparison *c, const json_t *expected, const json_t *got);

void comparison_free(struct comparison *c);

#endif
