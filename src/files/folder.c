/* folder.c - a Hugging Face folder: config.json, safetensors, and the JSON and
 * other files beside them. */
#include "files/model_file.h"

#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDECAR_MAX_BYTES = 256 << 20 };

static char *path_in(const char *folder, const char *name)
{
    return text_format("%s%s%s", folder, slice_ends_with(slice_of(folder), SLICE("/")) ? "" : "/",
                       name);
}

/* ---- What the folder holds -------------------------------------------- */

static bool has_suffix(const char *name, const char *suffix)
{
    return slice_ends_with(slice_of(name), slice_of(suffix));
}

/* The alphabetically first entry with that suffix; false when there is none. */
static bool find_by_suffix(const char *folder, const char *suffix, char found[256])
{
    DIR *dir = opendir(folder);
    bool any = false;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!has_suffix(entry->d_name, suffix) || (any && strcmp(entry->d_name, found) >= 0))
            continue;
        snprintf(found, 256, "%s", entry->d_name);
        any = true;
    }
    if (dir)
        closedir(dir);
    return any;
}

static bool exists_in(const char *folder, const char *name)
{
    char *path = path_in(folder, name);
    bool there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

/* Why this folder is no model, as helpfully as can be. */
static bool refuse_folder(const char *folder, struct error *err)
{
    char found[256];
    if (find_by_suffix(folder, ".gguf", found))
        return error_set(err, ERR_INVALID,
                         "%s: is a folder with GGUF files; name one of them, e.g. -m %s/%s", folder,
                         folder, found);
    if (!exists_in(folder, "config.json"))
        return error_set(err, ERR_NOT_FOUND,
                         "%s: is a folder without config.json, so no Hugging Face model; give a "
                         "GGUF file or a folder with config.json and safetensors",
                         folder);
    if (find_by_suffix(folder, ".bin", found) || find_by_suffix(folder, ".pth", found) ||
        find_by_suffix(folder, ".pt", found))
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: has its weights in %s, which is not safe to read; get or make "
                         "safetensors or GGUF",
                         folder, found);
    return error_set(err, ERR_NOT_FOUND,
                     "%s: has config.json but neither model.safetensors nor "
                     "model.safetensors.index.json; the download is probably incomplete",
                     folder);
}

/* ---- Weights ---------------------------------------------------------- */

static bool add_safetensors(struct model_file *file, const char *prefix, const char *name,
                            const struct model_file_settings *settings, struct error *err)
{
    char beside[128];
    if (*prefix) {
        snprintf(beside, sizeof beside, "%s%s", prefix, name);
        name = beside;
    }
    char *path = path_in(file->path, name);
    if (!path)
        return error_memory(err);
    struct blob blob;
    bool ok = blob_open(path, settings, &blob, err);
    if (ok) {
        const struct blob *kept = model_file_add_blob(file, blob, err);
        ok = kept && safetensors_parse_as(file, path, prefix, kept->data, kept->size, err);
    }
    free(path);
    return ok;
}

/* A shard is a plain name: an index must not lead out of its folder. */
static bool is_plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

/* Open every shard the index names, each once. */
static bool add_indexed(struct model_file *file, const char *index_path, const json_t *weight_map,
                        const struct model_file_settings *settings, struct error *err)
{
    struct name_index shards = {0};
    bool ok = true;
    json_t *map = (json_t *)(uintptr_t)weight_map; /* jansson iterates mutable objects */
    for (void *it = json_object_iter(map); ok && it; it = json_object_iter_next(map, it)) {
        const json_t *value = json_object_iter_value(it);
        const char *shard = json_string_value(value);
        if (!shard || strlen(shard) != json_string_length(value) || !is_plain_name(shard)) {
            ok = error_set(err, ERR_FORMAT, "%s: tensor '%s' is in no file that could be a shard",
                           index_path, json_object_iter_key(it));
            break;
        }
        enum name_added added = name_index_add(&shards, slice_of(shard), 0);
        if (added == NAME_NO_MEMORY)
            ok = error_memory(err);
        else if (added == NAME_ADDED)
            ok = add_safetensors(file, "", shard, settings, err);
    }
    name_index_free(&shards);
    return ok;
}

static bool check_indexed(const struct model_file *file, const char *index_path,
                          const json_t *weight_map, struct error *err)
{
    json_t *map = (json_t *)(uintptr_t)weight_map;
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it))
        if (!model_file_find_tensor(file, json_object_iter_key(it)))
            return error_set(err, ERR_FORMAT,
                             "%s: tensor '%s' is not in %s, where the index puts it; a file "
                             "belongs to another model",
                             index_path, json_object_iter_key(it),
                             json_string_value(json_object_iter_value(it)));
    return true;
}

static bool add_by_index(struct model_file *file, const char *name,
                         const struct model_file_settings *settings, struct error *err)
{
    char *path = path_in(file->path, name);
    json_t *index = path ? json_parse_file(path, err) : NULL;
    bool ok = false;
    if (!path)
        error_memory(err);
    if (index) {
        const json_t *map = json_object_get(index, "weight_map");
        if (!json_is_object(map) || json_object_size(map) == 0)
            error_set(err, ERR_FORMAT, "%s: has no weight_map, so no list of shards", path);
        else
            ok = add_indexed(file, path, map, settings, err) && check_indexed(file, path, map, err);
    }
    json_decref(index);
    free(path);
    return ok;
}

static bool add_weights(struct model_file *file, const struct model_file_settings *settings,
                        struct error *err)
{
    static const char index_name[] = "model.safetensors.index.json";
    if (exists_in(file->path, index_name))
        return add_by_index(file, index_name, settings, err);
    if (exists_in(file->path, "model.safetensors"))
        return add_safetensors(file, "", "model.safetensors", settings, err);
    return refuse_folder(file->path, err);
}

/* Layers behind the model that modules.json names, each in a folder of its own:
 * their tensors are called FOLDER/NAME. */
static bool add_modules(struct model_file *file, const struct model_file_settings *settings,
                        struct error *err)
{
    enum { FOLDER_MAX = 64 };
    const json_t *modules = model_file_json(file, "modules.json", err);
    size_t i;
    json_t *module;
    if (!modules)
        return err->code == ERR_NONE;
    json_array_foreach(modules, i, module)
    {
        const char *folder = json_string_value(json_object_get(module, "path"));
        char prefix[FOLDER_MAX + 2], name[FOLDER_MAX + 32];
        if (!folder || !is_plain_name(folder) || strlen(folder) > FOLDER_MAX)
            continue;
        snprintf(prefix, sizeof prefix, "%s/", folder);
        snprintf(name, sizeof name, "%smodel.safetensors", prefix);
        if (exists_in(file->path, name) &&
            !add_safetensors(file, prefix, "model.safetensors", settings, err))
            return false;
    }
    return true;
}

static bool load_config(struct model_file *file, struct error *err)
{
    if (!exists_in(file->path, "config.json"))
        return refuse_folder(file->path, err);
    const json_t *config = model_file_json(file, "config.json", err);
    if (!config)
        return false;
    if (!json_is_object(config))
        return error_set(err, ERR_FORMAT, "%s/config.json: is no JSON object", file->path);
    file->config = json_incref((json_t *)(uintptr_t)config);
    return true;
}

bool folder_open(const char *path, const struct model_file_settings *settings,
                 struct model_file **file, struct error *err)
{
    struct error own; /* model_file_json wants one */
    if (!err)
        err = &own;
    if (settings && settings->n_overrides > 0)
        return error_set(err, ERR_INVALID,
                         "%s: is a Hugging Face folder, which has no GGUF metadata to override "
                         "('%s'); change its config.json instead",
                         path, settings->overrides[0].key);
    struct model_file *opened = model_file_new(MODEL_FILE_FOLDER, path, err);
    if (!opened)
        return false;
    size_t len = strlen(opened->path);
    while (len > 1 && opened->path[len - 1] == '/')
        opened->path[--len] = '\0';
    if (!load_config(opened, err) || !add_weights(opened, settings, err) ||
        !add_modules(opened, settings, err)) {
        model_file_close(opened);
        return false;
    }
    *file = opened;
    return true;
}

/* ---- Sidecars --------------------------------------------------------- */

bool model_file_sidecar(const struct model_file *file, const char *name, struct str *out,
                        struct error *err)
{
    *err = (struct error){0};
    if (file->kind != MODEL_FILE_FOLDER)
        return false;
    char *path = path_in(file->path, name);
    if (!path)
        return error_memory(err);
    bool ok = file_read_whole(path, SIDECAR_MAX_BYTES, out, err);
    if (!ok && err->code == ERR_NOT_FOUND)
        *err = (struct error){0};
    free(path);
    return ok;
}

static struct sidecar *load_sidecar(const struct model_file *file, const char *name)
{
    struct sidecar *sidecar = calloc(1, sizeof *sidecar);
    if (!sidecar || !(sidecar->name = slice_duplicate(slice_of(name)))) {
        free(sidecar);
        return NULL;
    }
    struct str text = {0};
    if (model_file_sidecar(file, name, &text, &sidecar->error)) {
        sidecar->value = json_parse(str_slice(&text), &sidecar->error);
        if (!sidecar->value)
            error_prefix(&sidecar->error, "%s/%s", file->path, name);
    }
    str_free(&text);
    return sidecar;
}

/* The file is immutable to its readers; the list of what was parsed so far is
 * behind its own lock. */
static struct sidecar *find_sidecar(struct model_file *file, const char *name)
{
    for (size_t i = 0; i < file->sidecars.n; i++)
        if (strcmp(file->sidecars.data[i]->name, name) == 0)
            return file->sidecars.data[i];
    struct sidecar *sidecar = load_sidecar(file, name);
    if (sidecar && !VEC_PUSH(&file->sidecars, sidecar)) {
        json_decref(sidecar->value);
        free(sidecar->name);
        free(sidecar);
        return NULL;
    }
    return sidecar;
}

const json_t *model_file_json(const struct model_file *file, const char *name, struct error *err)
{
    *err = (struct error){0};
    if (file->kind != MODEL_FILE_FOLDER)
        return NULL;
    struct model_file *mutable = (struct model_file *)(uintptr_t)file;
    pthread_mutex_lock(&mutable->lock);
    const struct sidecar *sidecar = find_sidecar(mutable, name);
    pthread_mutex_unlock(&mutable->lock);
    if (!sidecar) {
        error_memory(err);
        return NULL;
    }
    *err = sidecar->error;
    return sidecar->value;
}
