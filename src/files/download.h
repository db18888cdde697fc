/* download.h - files and JSON from the web, through libcurl. */
#ifndef MLXCEL_FILES_DOWNLOAD_H
#define MLXCEL_FILES_DOWNLOAD_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct download {
    const char *url;
    const char *path;   /* where the whole file goes */
    const char *token;  /* sent as bearer to the first host only; NULL: none */
    const char *digest; /* to verify, as checksum_verify takes it; NULL: none */
    /* The path is this content's own (a blob named by its digest): what is there
     * is it. Otherwise the server is asked whether it has changed. */
    bool immutable;
    bool quiet;
    uint32_t retry_ms; /* before another attempt, longer each time; 0: 2000 */
};

/* Fetch the file unless it is there. Interrupted bytes wait in
 * PATH.downloadInProgress and are gone on with, if it is still the same file.
 * A file that exists is kept when the server cannot be asked. */
bool download_file(const struct download *download, struct error *err);

/* Several files one after another would waste the wait; JSON answers are small
 * and fetched whole. *next (may be NULL) receives the URL of the next page, or
 * NULL; owned. accept: the Accept header, NULL for application/json. */
json_t *download_json(const char *url, const char *token, const char *accept, char **next,
                      struct error *err);

#endif
