/* utf8.h - UTF-8 by the Unicode Standard, table 3-7 (well-formed sequences). */
#ifndef MLXCEL_BASE_UTF8_H
#define MLXCEL_BASE_UTF8_H

#include "base/slice.h"
#include "base/str.h"

#include <stdint.h>

#define UTF8_REPLACEMENT 0xFFFDu

/* Decode the code point at text[0..len). Returns its length in bytes (1..4)
 * and sets *codepoint. At a malformed sequence returns 1..3, the length of its
 * maximal ill-formed prefix, and sets UTF8_REPLACEMENT and *valid = false.
 * valid may be NULL. len must be at least 1. */
size_t utf8_decode(const char *text, size_t len, uint32_t *codepoint, bool *valid);

/* Encode a code point into out[4]; returns the length. Surrogates and values
 * past U+10FFFF become U+FFFD. */
size_t utf8_encode(uint32_t codepoint, char out[4]);

/* True when every sequence is well-formed. */
bool utf8_is_valid(struct slice text);

/* The number of bytes at the end of text that begin a sequence which is well
 * formed so far but not complete (0..3): what a stream must hold back. */
size_t utf8_incomplete_tail(struct slice text);

/* The bytes from the last lead byte on, where fewer follow it than it announces,
 * whatever they are; else 0 (at most 3). Coarser than the above, which is never
 * more: how the reference decides where a text may be cut. */
size_t utf8_open_tail(struct slice text);

/* Append text with every ill-formed prefix replaced by U+FFFD. */
bool utf8_append_sanitized(struct str *out, struct slice text);

/* The number of code points, malformed prefixes counting one each. */
size_t utf8_length(struct slice text);

#endif
