/* folder.c - a Hugging Face folder: config.json, safetensors, and the JSON and
 * other files beside them. */
#include "files/folder.h"
#include "files/model_file.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDECAR_MAX_BYTES = 256 << 20 };

char *folder_path(const char *folder, const char *name)
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

bool folder_has(const char *folder, const char *name)
{
    char *path = folder_path(folder, name);
    bool there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

bool folder_holds(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

/* The hub's cache keeps a repository as FOLDER/snapshots/COMMIT; NULL: this is none. */
static char *find_snapshot(const char *folder)
{
    char *snapshots = folder_path(folder, "snapshots");
    DIR *dir = snapshots ? opendir(snapshots) : NULL;
    char *found = NULL;
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
        if (folder_holds(entry->d_name))
            found = folder_path(snapshots, entry->d_name);
    if (dir)
        closedir(dir);
    free(snapshots);
    return found;
}

/* Without config.json: what else it may be. */
static bool refuse_without_config(const char *folder, struct error *err)
{
    char *snapshot = find_snapshot(folder);
    if (snapshot)
        error_set(
            err, ERR_INVALID,
            "%s: is a repository in the hub's cache, not a model; give the snapshot in it: -m "
            "%s",
            folder, snapshot);
    else if (folder_has(folder, "adapter_config.json"))
        error_set(err, ERR_UNSUPPORTED,
                  "%s: is a PEFT adapter, not a model; give the model it was made for with -m, and "
                  "merge the adapter into it first",
                  folder);
    else
        error_set(err, ERR_NOT_FOUND,
                  "%s: is a folder without config.json, so not a Hugging Face model; give a "
                  "GGUF file or a folder with config.json and safetensors",
                  folder);
    free(snapshot);
    return false;
}

bool folder_refuse(const char *folder, struct error *err)
{
    char found[256];
    if (access(folder, R_OK | X_OK) != 0)
        return error_set(err, ERR_IO, "%s: cannot be read: %s; change its permissions", folder,
                         strerror(errno));
    if (find_by_suffix(folder, ".gguf", found))
        return error_set(err, ERR_INVALID,
                         "%s: is a folder with GGUF files; name one of them, e.g. -m %s/%s", folder,
                         folder, found);
    if (!folder_has(folder, "config.json"))
        return refuse_without_config(folder, err);
    if (find_by_suffix(folder, ".bin", found) || find_by_suffix(folder, ".pth", found) ||
        find_by_suffix(folder, ".pt", found))
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: has its weights in %s, which is not safe to read; get or make "
                         "safetensors or GGUF",
                         folder, found);
    return error_set(err, ERR_NOT_FOUND,
                     "%s: has config.json but neither model.safetensors nor "
                     "any other *.safetensors of a model; the download is probably incomplete",
                     folder);
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
        if (!folder || !folder_holds(folder) || strlen(folder) > FOLDER_MAX)
            continue;
        snprintf(prefix, sizeof prefix, "%s/", folder);
        snprintf(name, sizeof name, "%smodel.safetensors", prefix);
        if (folder_has(file->path, name) &&
            !folder_add_safetensors(file, prefix, "model.safetensors", settings, err))
            return false;
    }
    return true;
}

static bool load_config(struct model_file *file, struct error *err)
{
    if (!folder_has(file->path, "config.json"))
        return folder_refuse(file->path, err);
    const json_t *config = model_file_json(file, "config.json", err);
    if (!config)
        return false;
    if (!json_is_object(config))
        return error_set(err, ERR_FORMAT, "%s/config.json: is not a JSON object", file->path);
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
    if (!load_config(opened, err) || !folder_add_weights(opened, settings, err) ||
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
    char *path = folder_path(file->path, name);
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
    if (model_file_sidecar(file, name, &text, &sidecar->error) &&
        !is_lfs_pointer(file->path, text.data, text.len, &sidecar->error)) {
        sidecar->value = json_parse_python(str_slice(&text), &sidecar->error);
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
