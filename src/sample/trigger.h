/* trigger.h - what wakes a lazy grammar.
 *
 * Triggers are looked for after each token, while other requests wait for theirs:
 * their number, length and steps are limited. */
#ifndef MLXCEL_SAMPLE_TRIGGER_H
#define MLXCEL_SAMPLE_TRIGGER_H

#include "sample/sample.h"

enum {
    TRIGGERS_MAX = 4096,                 /* of all kinds */
    TRIGGER_PATTERNS_MAX = 64,           /* regular expressions among them */
    TRIGGER_PATTERN_BYTES_MAX = 4096,    /* of one */
    TRIGGER_WORDS_BYTES_MAX = 256 << 10, /* of all words together */
    /* Of all patterns after one token. A step is an item of a pattern tried, or 64
     * bytes of text that it ran over. */
    TRIGGER_STEPS_MAX = 100000
};

struct triggers;

/* Immutable. Fails with ERR_INVALID for a pattern that is no regular expression,
 * with ERR_LIMIT for too many or too long ones. */
struct triggers *triggers_create(const struct grammar_trigger *list, size_t n, struct error *err);
void triggers_free(struct triggers *t);
bool triggers_on_token(const struct triggers *t, int32_t token);

enum trigger_result { TRIGGER_NONE, TRIGGER_FOUND, TRIGGER_FAILED };

/* Look for a trigger in text, of which the last n_new bytes were added since
 * nothing was found in it. *begin: where the grammar is to begin, at the first
 * group of the match that is not empty, or at the match. TRIGGER_FAILED with *err:
 * out of memory, or ERR_LIMIT for patterns that need more than TRIGGER_STEPS_MAX. */
enum trigger_result triggers_on_text(const struct triggers *t, struct slice text, size_t n_new,
                                     size_t *begin, struct error *err);

#endif
