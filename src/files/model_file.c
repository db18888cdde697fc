/* model_file.c - opening, looking up and closing, whatever the format. */
#include "files/model_file.h"

#include "base/file.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct model_file *model_file_new(enum model_file_kind kind, const char *path, struct error *err)
{
    struct model_file *file = calloc(1, sizeof *file);
    char *copy = slice_duplicate(slice_of(path));
    if (!file || !copy || pthread_mutex_init(&file->lock, NULL) != 0) {
        free(file);
        free(copy);
        error_memory(err);
        return NULL;
    }
    file->kind = kind;
    file->path = copy;
    return file;
}

void model_file_close(struct model_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->sidecars.n; i++) {
        json_decref(file->sidecars.data[i]->value);
        free(file->sidecars.data[i]->name);
        free(file->sidecars.data[i]);
    }
    VEC_FREE(&file->sidecars);
    json_decref(file->config);
    meta_table_free(&file->meta);
    name_index_free(&file->tensor_names);
    VEC_FREE(&file->tensors);
    for (size_t i = 0; i < file->blobs.n; i++)
        blob_close(&file->blobs.data[i]);
    VEC_FREE(&file->blobs);
    arena_free(&file->arena);
    pthread_mutex_destroy(&file->lock);
    free(file->path);
    free(file);
}

const struct blob *model_file_add_blob(struct model_file *file, struct blob blob, struct error *err)
{
    if (!VEC_PUSH(&file->blobs, blob)) {
        blob_close(&blob);
        error_memory(err);
        return NULL;
    }
    file->n_bytes += blob.size;
    return &file->blobs.data[file->blobs.n - 1];
}

/* Whether a tensor that was added before is the same, shape, type and bytes. */
static bool is_copy(const struct model_file *file, const struct tensor_view *t)
{
    const struct tensor_view *there = model_file_find_tensor(file, t->name);
    return there && there->dtype == t->dtype && there->n_bytes == t->n_bytes &&
           memcmp(there->dims, t->dims, sizeof t->dims) == 0 &&
           (t->n_bytes == 0 || memcmp(there->data, t->data, t->n_bytes) == 0);
}

bool model_file_add_tensor(struct model_file *file, const char *path, struct tensor_view tensor,
                           struct error *err)
{
    switch (name_index_add(&file->tensor_names, slice_of(tensor.name), file->tensors.n)) {
    case NAME_ADDED:
        return VEC_PUSH(&file->tensors, tensor) || error_memory(err);
    case NAME_THERE_ALREADY:
        if (file->kind == MODEL_FILE_FOLDER && is_copy(file, &tensor))
            return true; /* shared weights that a program saved in two shards */
        return error_set(err, ERR_FORMAT,
                         "%s: tensor '%s' is there twice; the file is damaged or was put together "
                         "wrongly",
                         path, tensor.name);
    default:
        return error_memory(err);
    }
}

/* ---- What kind of file is this? -------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool ends_with(const char *path, const char *suffix)
{
    return slice_ends_with(slice_of(path), slice_of(suffix));
}

/* A file that stands for the folder it is in. */
static bool stands_for_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, "config.json") == 0 ||
           ends_with(path, ".safetensors") || ends_with(path, ".safetensors.index.json");
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return slice_duplicate(SLICE("."));
    return slice_duplicate((struct slice){path, slash == path ? 1 : (size_t)(slash - path)});
}

bool is_lfs_pointer(const char *path, const void *data, size_t size, struct error *err)
{
    static const char begins[] = "version https://git-lfs";
    if (size < sizeof begins - 1 || memcmp(data, begins, sizeof begins - 1) != 0)
        return false;
    error_set(err, ERR_FORMAT,
              "%s: is a Git LFS pointer, not the file itself; run 'git lfs pull' in its folder",
              path);
    return true;
}

/* The first bytes of files people mistake for models, and what to tell them. */
static const struct {
    const char *magic, *advice;
} foreign[] = {
    {"ggml", "is a GGML file of 2023; convert the original model to GGUF"},
    {"fmgg", "is a GGML file of 2023; convert the original model to GGUF"},
    {"lmgg", "is a GGML file of 2023; convert the original model to GGUF"},
    {"tjgg", "is a GGJT file of 2023; convert the original model to GGUF"},
    {"algg", "is a LoRA adapter of 2023; convert the original adapter to GGUF"},
    {"FUGG", "is a GGUF file in big-endian byte order; use the little-endian one"},
    {"PK\x03\x04", "is a PyTorch or zip archive; use the GGUF or safetensors files of the model"},
    {"version", "is a Git LFS pointer, not the file itself; run 'git lfs pull' in its folder"},
    {"<!", "is a web page, not a model; the download has probably failed"},
    {"<html", "is a web page, not a model; the download has probably failed"},
    {"{", "is JSON, not a model; give the folder of a Hugging Face model or a GGUF file"},
};

/* Read the beginning; *n receives how much there is. */
static bool read_start(const char *path, char *start, size_t size, size_t *n, struct error *err)
{
    int fd;
    struct stat info;
    if (!file_open_regular(path, O_RDONLY, FILE_ANY_SIZE, &fd, &info, err))
        return false;
    *n = (uint64_t)info.st_size < size ? (size_t)info.st_size : size;
    bool ok = file_read_at(fd, path, start, *n, 0, err);
    close(fd);
    return ok;
}

static bool refuse_foreign(const char *path, const char *start, size_t n, struct error *err)
{
    if (n == 0)
        return error_set(err, ERR_FORMAT, "%s: is empty; the download has probably failed", path);
    if (n < 4)
        return error_set(err, ERR_FORMAT,
                         "%s: is only %zu bytes long and not a model; the download has probably "
                         "failed",
                         path, n);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (slice_starts_with((struct slice){start, n}, slice_of(foreign[i].magic)))
            return error_set(err, ERR_FORMAT, "%s: %s", path, foreign[i].advice);
    char shown[5] = {0};
    for (size_t i = 0; i < 4; i++)
        shown[i] =
            isprint((unsigned char)start[i]) && !((unsigned char)start[i] & 0x80) ? start[i] : '?';
    return error_set(err, ERR_FORMAT,
                     "%s: begins with '%s' where a GGUF file has 'GGUF'; give a GGUF file or the "
                     "folder of a Hugging Face model",
                     path, shown);
}

bool model_file_open(const char *path, const struct model_file_settings *settings,
                     struct model_file **file, struct error *err)
{
    *file = NULL;
    if (is_folder(path))
        return folder_open(path, settings, file, err);
    char start[16];
    size_t n = 0;
    if (!read_start(path, start, sizeof start, &n, err))
        return false;
    if (n >= 4 && memcmp(start, "GGUF", 4) == 0)
        return gguf_open(path, settings, file, err);
    if (!stands_for_folder(path))
        return refuse_foreign(path, start, n, err);
    char *folder = folder_of(path);
    if (!folder)
        return error_memory(err);
    bool ok = folder_open(folder, settings, file, err);
    free(folder);
    return ok;
}

bool model_file_looks_like_one(const char *path)
{
    if (is_folder(path)) {
        char *config = text_format("%s/config.json", path);
        bool there = config && access(config, R_OK) == 0;
        free(config);
        return there;
    }
    char start[4];
    size_t n = 0;
    if (!read_start(path, start, sizeof start, &n, NULL))
        return false;
    return (n == 4 && memcmp(start, "GGUF", 4) == 0) || stands_for_folder(path);
}

/* ---- Lookups ---------------------------------------------------------- */

enum model_file_kind model_file_kind(const struct model_file *file)
{
    return file->kind;
}

const char *model_file_path(const struct model_file *file)
{
    return file->path;
}

uint64_t model_file_n_bytes(const struct model_file *file)
{
    return file->n_bytes;
}

size_t model_file_n_tensors(const struct model_file *file)
{
    return file->tensors.n;
}

const struct tensor_view *model_file_tensor_at(const struct model_file *file, size_t i)
{
    return &file->tensors.data[i];
}

const struct tensor_view *model_file_find_tensor(const struct model_file *file, const char *name)
{
    size_t place = name_index_find(&file->tensor_names, slice_of(name));
    return place == SIZE_MAX ? NULL : &file->tensors.data[place];
}

void model_file_release(const struct model_file *file, const struct tensor_view *tensor)
{
    if (tensor->n_bytes == 0)
        return;
    for (size_t i = 0; i < file->blobs.n; i++) {
        const struct blob *blob = &file->blobs.data[i];
        const unsigned char *begin = tensor->data;
        if (!blob->is_file || begin < blob->data || begin >= blob->data + blob->size)
            continue;
        /* Whole pages only: the neighbours' bytes stay. */
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t first = ((size_t)(begin - blob->data) + page - 1) / page * page;
        size_t last = ((size_t)(begin - blob->data) + tensor->n_bytes) / page * page;
        if (first < last)
            madvise((void *)(uintptr_t)(blob->data + first), last - first, MADV_DONTNEED);
        return;
    }
}

size_t model_file_n_meta(const struct model_file *file)
{
    return file->meta.values.n;
}

const struct meta_value *model_file_meta_at(const struct model_file *file, size_t i)
{
    return &file->meta.values.data[i];
}

const struct meta_value *meta_find(const struct model_file *file, const char *key)
{
    size_t place = name_index_find(&file->meta.names, slice_of(key));
    return place == SIZE_MAX ? NULL : &file->meta.values.data[place];
}

const json_t *model_file_config(const struct model_file *file)
{
    return file->config;
}
