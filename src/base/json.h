/* json.h - the JSON door: jansson, with what every room needs on top.
 *
 * Objects keep the order of their keys. Parsing is bounded in depth by the
 * library (JSON_PARSER_MAX_DEPTH, 2048) and refuses duplicates' surprise by
 * keeping the last. Depends on: jansson. */
#ifndef MLXCEL_BASE_JSON_H
#define MLXCEL_BASE_JSON_H

#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"

#include <jansson.h>

/* Parse text (any JSON value). NULL with *err (line, column, reason) when it is
 * none. The caller owns the reference. */
json_t *json_parse(struct slice text, struct error *err);

/* Parse a regular file of at most 256 MiB; the message names it. */
json_t *json_parse_file(const char *path, struct error *err);

/* Append the value to out, compact, UTF-8, keys in order; reals print as the
 * shortest text that reads back equal. */
bool json_append(struct str *out, const json_t *value);

/* A string value from bytes; ill-formed UTF-8 becomes U+FFFD. NULL when out of
 * memory. */
json_t *json_string_from(struct slice text);

/* The string's bytes; empty for NULL or another type. */
struct slice json_slice(const json_t *value);

#endif
