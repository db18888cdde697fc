/* reasoning.h - the stage that limits how many tokens a model may think. */
#ifndef MLXCEL_SAMPLE_REASONING_H
#define MLXCEL_SAMPLE_REASONING_H

#include "sample/candidates.h"
#include "sample/vocab.h"

struct reasoning;

/* NULL with *err unset where the settings ask for none. */
bool reasoning_create(const struct vocab *vocab, const struct sampler_settings *settings,
                      struct reasoning **out, struct error *err);
struct reasoning *reasoning_clone(const struct reasoning *r);
void reasoning_free(struct reasoning *r);

void reasoning_apply(const struct reasoning *r, struct candidates *c);
void reasoning_accept(struct reasoning *r, int32_t token);
/* Between the start and the end of a thought. */
bool reasoning_active(const struct reasoning *r);
/* The sequence that ended the last thought; empty when it is not over. */
struct token_run reasoning_end_match(const struct reasoning *r);
/* End the thought by the forced tokens; false when none is being counted. */
bool reasoning_force(struct reasoning *r);

#endif
