/* model_file.h - what an open model file consists of; private to the room. */
#ifndef MLXCEL_FILES_MODEL_FILE_H
#define MLXCEL_FILES_MODEL_FILE_H

#include "base/arena.h"
#include "base/vec.h"
#include "files/blob.h"
#include "files/files.h"
#include "files/names.h"

#include <pthread.h>

/* A JSON file beside config.json, once somebody asked for it. */
struct sidecar {
    char *name;         /* owned */
    json_t *value;      /* NULL: absent or unreadable, as error says */
    struct error error; /* ERR_NONE: absent */
};

struct meta_table {
    VEC(struct meta_value) values;
    struct name_index names; /* key -> place in values */
};

struct model_file {
    enum model_file_kind kind;
    char *path;         /* owned */
    struct arena arena; /* names, override values, text indices */
    uint64_t n_bytes;
    VEC(struct blob) blobs;
    VEC(struct tensor_view) tensors;
    struct name_index tensor_names;
    struct meta_table meta;
    json_t *config;
    pthread_mutex_t lock; /* of sidecars */
    VEC(struct sidecar *) sidecars;
};

/* An empty file of that kind. */
struct model_file *model_file_new(enum model_file_kind kind, const char *path, struct error *err);

/* Take the blob over (closed with the file) and return it; NULL on failure, the
 * blob is closed then. */
const struct blob *model_file_add_blob(struct model_file *file, struct blob blob,
                                       struct error *err);

/* Add a tensor whose name is in the arena; a second one of a name is refused.
 * path is the shard it stands in. */
bool model_file_add_tensor(struct model_file *file, const char *path, struct tensor_view tensor,
                           struct error *err);

void meta_table_free(struct meta_table *table);

/* What a GGUF file says of its place among its shards. */
struct gguf_split {
    int32_t no, count; /* 0, 1: a file of its own */
    int64_t n_tensors; /* of all shards; -1: not said */
};

/* Read one GGUF file's header out of bytes: its tensors and metadata are added
 * to the file's. */
bool gguf_parse(struct model_file *file, const char *path, const unsigned char *data, size_t size,
                struct gguf_split *split, struct error *err);

/* The same for safetensors, every tensor's name behind a prefix. */
bool safetensors_parse_as(struct model_file *file, const char *path, const char *prefix,
                          const unsigned char *data, size_t size, struct error *err);
/* Read one safetensors file's header out of bytes; all tensors go to the file. */
bool safetensors_parse(struct model_file *file, const char *path, const unsigned char *data,
                       size_t size, struct error *err);

/* Open a GGUF file with its shards; a folder of safetensors. */
bool gguf_open(const char *path, const struct model_file_settings *settings,
               struct model_file **file, struct error *err);
bool folder_open(const char *path, const struct model_file_settings *settings,
                 struct model_file **file, struct error *err);

/* Put the overrides into the metadata. */
bool meta_apply_overrides(struct model_file *file, const struct model_file_settings *settings,
                          struct error *err);
/* Bytes of one item; 0 for texts and arrays. */
size_t meta_type_size(enum meta_type type);
/* Texts between two entries of meta_value.index. */
enum { META_INDEX_STEP = 16 };

/* Whether a file's beginning is that of a Git LFS pointer, which stands for a file that was
 * not fetched; then the error, which names the path, is set. */
bool is_lfs_pointer(const char *path, const void *data, size_t size, struct error *err);

#endif
