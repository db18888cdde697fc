/* pattern.h - what to look for in a text: a regular expression or a literal.
 *
 * Expressions are PCRE2's, over Unicode. "\s" and "\S" mean the White_Space
 * property as in the tokenizers' own engines (PCRE2 counts U+180E too), groups
 * do not capture, and "$" is the very end.
 * A pattern may be used from any thread, each with its own scratch. */
#ifndef MLXCEL_TEXT_PATTERN_H
#define MLXCEL_TEXT_PATTERN_H

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pattern;

/* Compile an expression; the error shows it and where it is wrong. */
struct pattern *pattern_compile(struct slice expression, struct error *err);
/* The text itself; not empty. NULL when out of memory. */
struct pattern *pattern_literal(struct slice text);
void pattern_free(struct pattern *p);

/* What matching needs besides the pattern. Start with {0}; one per encoding,
 * because what all its matches may cost together is counted here. */
struct pattern_scratch {
    void *match, *context, *stack; /* PCRE2's */
    uint64_t backtracked;          /* steps of matches that were costly */
};

enum pattern_result { PATTERN_NONE, PATTERN_FOUND, PATTERN_FAILED };

/* The first match in text at or after start, as text[*begin..*end). A match
 * may be empty unless it would be at start and not_empty is set. Fails when
 * out of memory or, with ERR_LIMIT, when the expression needs more steps or memory
 * than we give it, for one match or for all with this scratch: a text is never
 * cut otherwise than its pattern says. text must be UTF-8. */
enum pattern_result pattern_find(const struct pattern *p, struct pattern_scratch *scratch,
                                 struct slice text, size_t start, bool not_empty, size_t *begin,
                                 size_t *end, struct error *err);

void pattern_scratch_free(struct pattern_scratch *scratch);

#endif
