/* helpers.h - toy vocabularies for the tests of this room. */
#ifndef MLXCEL_TESTS_SAMPLE_HELPERS_H
#define MLXCEL_TESTS_SAMPLE_HELPERS_H

#include "sample/sample.h"

/* A vocabulary of the given pieces; the last n_eog of them end the generation.
 * pieces must outlive it. */
struct toy {
    const char *const *pieces;
    int32_t n, n_eog;
    struct vocab *vocab;
};

void toy_create(struct toy *toy, const char *const *pieces, int32_t n, int32_t n_eog);
void toy_free(struct toy *toy);

/* n tokens "t0", "t1", ...; the last one ends the generation. */
struct vocab *numbered_vocab(int32_t n);
void numbered_free(struct vocab *vocab);

/* Settings with every stage off: what is left is the distribution. */
struct sampler_settings plain_settings(void);

#endif
