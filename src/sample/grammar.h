/* grammar.h - grammars inside the sample room.
 *
 * A grammar is immutable and shared; a matcher is a position in it. */
#ifndef MLXCEL_SAMPLE_GRAMMAR_H
#define MLXCEL_SAMPLE_GRAMMAR_H

#include "sample/candidates.h"
#include "sample/vocab.h"

struct matcher;

/* Parse the settings' grammar and its triggers and stand at its beginning, past
 * the prefill where there is one. *out stays NULL when there is no grammar. */
bool matcher_create(const struct vocab *vocab, const struct sampler_settings *settings,
                    struct matcher **out, struct error *err);
struct matcher *matcher_clone(const struct matcher *m);
void matcher_free(struct matcher *m);

/* Whether the grammar admits the token now. A waiting one wakes when the token would
 * complete its trigger and go on otherwise than the grammar does: then the token is
 * refused and the mask is that of what follows the trigger's beginning. */
bool matcher_admits(struct matcher *m, int32_t token, bool *admits, struct error *err);
/* The tokens that are admitted now: a bitset, valid until the next call.
 * NULL with *err when the limits are passed. Not for a waiting matcher. */
const uint64_t *matcher_mask(struct matcher *m, struct error *err);
bool matcher_accept(struct matcher *m, int32_t token, struct error *err);
/* Nothing more can follow. */
bool matcher_done(const struct matcher *m);

#endif
