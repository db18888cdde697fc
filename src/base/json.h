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
 * none, ERR_MEMORY when memory runs out. The caller owns the reference. */
json_t *json_parse(struct slice text, struct error *err);

/* The same for files: a byte order mark in front is skipped, and NaN, Infinity and -Infinity,
 * which are numbers to Python's json module, become null and the largest doubles. */
json_t *json_parse_python(struct slice text, struct error *err);

/* ---- limits ------------------------------------------------------------------
 *
 * A value costs the library many times its bytes ("{}," is 3 of a body and 200 of
 * memory), so whatever comes from a client is counted before it is made. */

/* What a tree takes, without the bytes of its texts. */
struct json_cost {
    size_t bytes;        /* of memory, about */
    size_t n_containers; /* lists and objects */
};

/* The most that a member of the outermost object may cost, key and value. */
struct json_budget {
    const char *name;
    size_t bytes, n_containers;
};

struct json_limits {
    struct json_budget total;         /* of everything; its name is not used */
    struct json_budget other;         /* of each member that fields does not name (name NULL), and
                                       * of a value that is no object */
    const struct json_budget *fields; /* n_fields */
    size_t n_fields;
};

/* Add to *cost what the text would cost as a tree. False with ERR_LIMIT as soon
 * as a limit is passed; what *cost held before counts against the total. O(n),
 * allocates nothing. Says nothing about syntax. */
bool json_scan(struct slice text, const struct json_limits *limits, struct json_cost *cost,
               struct error *err);
/* json_parse for what a client sent: refused before a tree is made. */
json_t *json_parse_within(struct slice text, const struct json_limits *limits,
                          struct json_cost *cost, struct error *err);

/* Parse a regular file of at most 256 MiB, as json_parse_python; the message names it. */
json_t *json_parse_file(const char *path, struct error *err);

/* Append the value to out, compact, UTF-8, keys in order; reals print as the
 * shortest text that reads back equal. NULL, a value that found no memory, makes
 * out fail. */
bool json_append(struct str *out, const json_t *value);

/* A string value from bytes; ill-formed UTF-8 becomes U+FFFD. NULL when out of
 * memory. */
json_t *json_string_from(struct slice text);

/* The string's bytes; empty for NULL or another type. */
struct slice json_slice(const json_t *value);

#endif
