/* manifest.h - the claims about compatibility, and what proves them.
 *
 * compat/llama-server/b10621/ holds pin.json (the reference and its counts) and
 * shards: JSON files {"entries": [...]} with one entry for each option,
 * variable, route and request field of the pinned release, for each member that
 * other bodies have, and for each behaviour that differs on purpose and belongs
 * to none of them. schema.json says what an entry looks like. */
#ifndef MLXCEL_CMD_MANIFEST_H
#define MLXCEL_CMD_MANIFEST_H

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"

#include <stdbool.h>
#include <stddef.h>

struct manifest {
    json_t *pin;
    json_t *entries; /* all shards' entries, in order; each has "shard" added */
};

/* Where the claims stand below the project's root. */
#define MANIFEST_FOLDER "compat/llama-server/" REFERENCE_RELEASE

/* Read pin and shards. Fails naming the file. The caller frees *out. */
bool manifest_load(const char *folder, struct manifest *out, struct error *err);
void manifest_free(struct manifest *manifest);

/* Names of the tests that ctest would run: {name: true}, of a disabled one
 * false; read from the CTestTestfile.cmake files of a build. */
json_t *manifest_tests(const char *build, struct error *err);

/* Compare the claims with each other and with what is there.
 *   surface  the programs' own tables, as --dump-surface prints them
 *   tests    see above
 *   report   receives a line for each finding
 * Returns the number of findings. */
size_t manifest_check(const struct manifest *manifest, const json_t *surface, const json_t *tests,
                      struct str *report);

/* The states an entry may be in, in the order of summaries; NULL past the end. */
const char *manifest_state(size_t i);
/* How many entries of a kind (NULL: all) are in a state (NULL: all). */
size_t manifest_count(const struct manifest *manifest, const char *kind, const char *state);

/* Append a summary by state, and the document for people. */
bool manifest_summary(const struct manifest *manifest, struct str *out);
bool manifest_markdown(const struct manifest *manifest, struct str *out);

#endif
