/* split.c - opening a GGUF file together with its shards.
 *
 * Shards are named NAME-00001-of-00003.gguf; the first has the metadata, each
 * its own table of tensors. */
#include "files/model_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT_COUNT_MAX = 99999 };

/* The length of the path before "-00001-of-00003.gguf"; 0 when it has no such
 * end. */
static size_t split_stem(const char *path, int32_t *no, int32_t *count)
{
    static const char shape[] = "-ddddd-of-ddddd.gguf";
    size_t len = strlen(path), n_shape = sizeof shape - 1;
    if (len <= n_shape)
        return 0;
    const char *end = path + len - n_shape;
    for (size_t i = 0; i < n_shape; i++)
        if (shape[i] == 'd' ? !isdigit((unsigned char)end[i]) : end[i] != shape[i])
            return 0;
    *no = (int32_t)strtol(end + 1, NULL, 10) - 1;
    *count = (int32_t)strtol(end + 10, NULL, 10);
    return len - n_shape;
}

static char *split_path(const char *path, size_t stem, int32_t no, int32_t count)
{
    return text_format("%.*s-%05" PRId32 "-of-%05" PRId32 ".gguf", (int)stem, path, no + 1, count);
}

static bool add_gguf(struct model_file *file, const char *path,
                     const struct model_file_settings *settings, struct gguf_split *split,
                     struct error *err)
{
    struct blob blob;
    if (!blob_open(path, settings, &blob, err))
        return false;
    const struct blob *kept = model_file_add_blob(file, blob, err);
    return kept && gguf_parse(file, path, kept->data, kept->size, split, err);
}

/* Shard no (not the first): its metadata is only its place and is dropped. */
static bool add_shard(struct model_file *file, const char *path, int32_t no, int32_t count,
                      const struct model_file_settings *settings, struct error *err)
{
    struct meta_table first = file->meta;
    file->meta = (struct meta_table){0};
    struct gguf_split split;
    bool ok = add_gguf(file, path, settings, &split, err);
    meta_table_free(&file->meta);
    file->meta = first;
    if (!ok)
        return err && err->code == ERR_NOT_FOUND
                   ? error_prefix(err, "shard %" PRId32 " of %" PRId32 " is missing", no + 1, count)
                   : false;
    if (split.no != no || split.count != count)
        return error_set(err, ERR_FORMAT,
                         "%s: says it is shard %" PRId32 " of %" PRId32
                         "; it was renamed or belongs to another model",
                         path, split.no + 1, split.count);
    return true;
}

static bool add_shards(struct model_file *file, size_t stem, const struct gguf_split *first,
                       const struct model_file_settings *settings, struct error *err)
{
    for (int32_t no = 1; no < first->count; no++) {
        char *path = split_path(file->path, stem, no, first->count);
        if (!path)
            return error_memory(err);
        bool ok = add_shard(file, path, no, first->count, settings, err);
        free(path);
        if (!ok)
            return false;
    }
    if (first->n_tensors >= 0 && (uint64_t)first->n_tensors != file->tensors.n)
        return error_set(err, ERR_FORMAT,
                         "%s: promises %" PRId64 " tensors and its %" PRId32
                         " shards have %zu; a shard belongs to another model",
                         file->path, first->n_tensors, first->count, file->tensors.n);
    return true;
}

static bool open_all(struct model_file *file, const struct model_file_settings *settings,
                     struct error *err)
{
    struct gguf_split split;
    if (!add_gguf(file, file->path, settings, &split, err))
        return false;
    int32_t no = 0, count = 1;
    size_t stem = split_stem(file->path, &no, &count);
    if (split.count > 1 && split.count <= SPLIT_COUNT_MAX) {
        if (stem == 0 || count != split.count || split.no != 0)
            return error_set(err, ERR_FORMAT,
                             "%s: is shard %" PRId32 " of %" PRId32
                             " of a split model but is not named so; give the shards their names "
                             "NAME-00001-of-%05" PRId32 ".gguf back",
                             file->path, split.no + 1, split.count, split.count);
        if (!add_shards(file, stem, &split, settings, err))
            return false;
    } else if (split.count > SPLIT_COUNT_MAX || split.count < 0) {
        return error_set(err, ERR_FORMAT, "%s: claims %" PRId32 " shards; the file is damaged",
                         file->path, split.count);
    }
    return meta_apply_overrides(file, settings, err);
}

/* Any shard stands for all: the first one is where to begin. */
static char *first_shard(const char *path)
{
    int32_t no, count;
    size_t stem = split_stem(path, &no, &count);
    if (stem == 0 || no <= 0 || no >= count)
        return slice_duplicate(slice_of(path));
    return split_path(path, stem, 0, count);
}

bool gguf_open(const char *path, const struct model_file_settings *settings,
               struct model_file **file, struct error *err)
{
    char *first = first_shard(path);
    struct model_file *opened = first ? model_file_new(MODEL_FILE_GGUF, first, err) : NULL;
    if (!first)
        error_memory(err);
    free(first);
    if (!opened)
        return false;
    if (!open_all(opened, settings, err)) {
        model_file_close(opened);
        return false;
    }
    *file = opened;
    return true;
}
