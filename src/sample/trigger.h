/* trigger.h - what wakes a lazy grammar. */
#ifndef MLXCEL_SAMPLE_TRIGGER_H
#define MLXCEL_SAMPLE_TRIGGER_H

#include "sample/sample.h"

struct triggers;

/* Immutable; fails with ERR_INVALID for a pattern that is no regular
 * expression. */
struct triggers *triggers_create(const struct grammar_trigger *list, size_t n, struct error *err);
void triggers_free(struct triggers *t);
bool triggers_on_token(const struct triggers *t, int32_t token);
/* Where in text the grammar is to begin: the first group of the match that is
 * not empty, or the match. False when nothing matches. */
bool triggers_on_text(const struct triggers *t, struct slice text, size_t *begin);

#endif
