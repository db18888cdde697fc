/* blob.h - a whole file as one run of bytes in memory. */
#ifndef MLXCEL_FILES_BLOB_H
#define MLXCEL_FILES_BLOB_H

#include "files/files.h"

struct blob {
    const unsigned char *data; /* page-aligned; NULL for an empty file */
    size_t size;               /* bytes of the file */
    size_t mapped;             /* bytes to unmap; 0 when the memory is another's */
    bool is_file;              /* the pages are the file's own */
};

/* Bring the file in as the settings (may be NULL) say. Fails naming the path;
 * folders and what else is no regular file are refused. */
bool blob_open(const char *path, const struct model_file_settings *settings, struct blob *blob,
               struct error *err);
void blob_close(struct blob *blob);

#endif
