/* helpers.h - making model files by hand, and scratch folders to put them in. */
#ifndef MLXCEL_TESTS_FILES_HELPERS_H
#define MLXCEL_TESTS_FILES_HELPERS_H

#include "base/str.h"
#include "files/files.h"

/* A new scratch folder; the path is freed with free after scratch_remove. */
char *scratch_make(void);
void scratch_remove(char *folder);

/* Write bytes to folder/name; returns the path, to be freed. */
char *scratch_write(const char *folder, const char *name, struct slice bytes);

/* Little-endian pieces of a GGUF file. */
void put_u32(struct str *out, uint32_t value);
void put_u64(struct str *out, uint64_t value);
void put_text(struct str *out, const char *text); /* length and bytes */
void put_header(struct str *out, uint32_t version, uint64_t n_tensors, uint64_t n_metas);
void put_meta_u32(struct str *out, const char *key, uint32_t value);
void put_meta_text(struct str *out, const char *key, const char *value);
/* A row of the tensor table: two dimensions. */
void put_tensor(struct str *out, const char *name, uint64_t d0, uint64_t d1, uint32_t type,
                uint64_t offset);
void put_padding(struct str *out, size_t alignment);

/* A safetensors file: the header's length, the header, n data bytes. */
void put_safetensors(struct str *out, const char *header, size_t n_data);

/* Opening must fail, naming the path and with every word of words (separated by
 * '|') in the message. */
void assert_refused(const char *path, const char *words);

/* Call fn for every regular file of the suffix below folder. */
void each_file(const char *folder, const char *suffix, void (*fn)(const char *path, void *arg),
               void *arg);

#endif
