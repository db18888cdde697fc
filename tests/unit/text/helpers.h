/* helpers.h - what the tokenizer tests share. */
#ifndef MLXCEL_TESTS_UNIT_TEXT_HELPERS_H
#define MLXCEL_TESTS_UNIT_TEXT_HELPERS_H

#include "unit/unit.h"

#include "text/text.h"

/* The tokenizer of a file of the reference data. Fails the test when it cannot
 * be loaded. */
struct tokenizer *load_tokenizer(const char *folder, const char *name);

/* Fails the test, showing both, unless the text encodes to exactly these ids. */
void assert_encodes(const struct tokenizer *tok, struct slice text, unsigned flags,
                    const int32_t *ids, size_t n, const char *what);

#endif
