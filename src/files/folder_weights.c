/* folder_weights.c - which safetensors of a folder are the model's weights.
 *
 * The usual places are model.safetensors, and shards that model.safetensors.index.json
 * names. Folders of older programs and incomplete uploads have others: an index that
 * stayed behind when the shards were merged, shards without one, weights.safetensors. */
#include "files/folder.h"

#include "base/log.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char index_name[] = "model.safetensors.index.json";

bool folder_add_safetensors(struct model_file *file, const char *prefix, const char *name,
                            const struct model_file_settings *settings, struct error *err)
{
    char beside[128];
    if (*prefix) {
        snprintf(beside, sizeof beside, "%s%s", prefix, name);
        name = beside;
    }
    char *path = folder_path(file->path, name);
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

/* ---- a list of file names, each once --------------------------------------------- */

struct name_list {
    VEC(char *) names;
};

static void list_free(struct name_list *list)
{
    for (size_t i = 0; i < list->names.n; i++)
        free(list->names.data[i]);
    VEC_FREE(&list->names);
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static bool list_add(struct name_list *list, const char *name, struct error *err)
{
    char *copy = slice_duplicate(slice_of(name));
    if (copy && VEC_PUSH(&list->names, copy))
        return true;
    free(copy);
    return error_memory(err);
}

static void list_sort(struct name_list *list)
{
    size_t kept = 0;
    if (list->names.n)
        qsort(list->names.data, list->names.n, sizeof *list->names.data, by_text);
    for (size_t i = 0; i < list->names.n; i++) {
        if (kept && strcmp(list->names.data[i], list->names.data[kept - 1]) == 0)
            free(list->names.data[i]);
        else
            list->names.data[kept++] = list->names.data[i];
    }
    list->names.n = kept;
}

static bool add_all(struct model_file *file, const struct name_list *list,
                    const struct model_file_settings *settings, struct error *err)
{
    for (size_t i = 0; i < list->names.n; i++)
        if (!folder_add_safetensors(file, "", list->names.data[i], settings, err))
            return false;
    return true;
}

/* ---- the index ----------------------------------------------------------------------- */

/* The shards that the index names. */
static bool read_index(const char *path, const json_t *index, struct name_list *shards,
                       struct error *err)
{
    json_t *map = json_object_get(index, "weight_map"), *value;
    const char *tensor;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return error_set(err, ERR_FORMAT, "%s: has no weight_map, so no list of shards", path);
    json_object_foreach(map, tensor, value)
    {
        const char *shard = json_string_value(value);
        if (!shard || strlen(shard) != json_string_length(value) || !folder_holds(shard))
            return error_set(err, ERR_FORMAT, "%s: tensor '%s' is in no file that could be a shard",
                             path, tensor);
        if (!list_add(shards, shard, err))
            return false;
    }
    list_sort(shards);
    return true;
}

static bool load_index(const char *folder, struct name_list *shards, struct error *err)
{
    char *path = folder_path(folder, index_name);
    json_t *index = path ? json_parse_file(path, err) : NULL;
    bool ok = index ? read_index(path, index, shards, err) : path ? false : error_memory(err);
    json_decref(index);
    free(path);
    return ok;
}

/* A tensor that the index names and its shard does not have may be one that nobody needs;
 * whoever binds tensors says which one is missing. */
static void compare_with_index(const struct model_file *file)
{
    char *path = folder_path(file->path, index_name);
    json_t *index = path ? json_parse_file(path, NULL) : NULL, *value;
    json_t *map = json_object_get(index, "weight_map");
    const char *tensor;
    json_object_foreach(map, tensor, value)
    {
        if (model_file_find_tensor(file, tensor))
            continue;
        log_warn("%s: tensor '%s' is not in %s, where the index puts it; one of the files may "
                 "belong to another model",
                 path, tensor, json_string_value(value));
        break;
    }
    json_decref(index);
    free(path);
}

/* The first of the list that is not there; NULL: all are. */
static const char *first_missing(const char *folder, const struct name_list *list)
{
    for (size_t i = 0; i < list->names.n; i++)
        if (!folder_has(folder, list->names.data[i]))
            return list->names.data[i];
    return NULL;
}

/* ---- folders without an index ------------------------------------------------------------ */

/* Not the model's: adapters, the state of a training, another program's copy. */
static bool is_other(struct slice name)
{
    static const char *const others[] = {"adapter",  "optimizer", "consolidated",
                                         "training", "scheduler", "random_states"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (slice_starts_with(name, slice_of(others[i])))
            return true;
    return false;
}

static bool list_safetensors(const char *folder, struct name_list *list, struct error *err)
{
    DIR *dir = opendir(folder);
    bool ok = true;
    for (struct dirent *entry; ok && dir && (entry = readdir(dir));) {
        struct slice name = slice_of(entry->d_name);
        if (slice_ends_with(name, SLICE(".safetensors")) && folder_holds(entry->d_name) &&
            !is_other(name))
            ok = list_add(list, entry->d_name, err);
    }
    if (dir)
        closedir(dir);
    list_sort(list);
    return ok;
}

/* "NAME-00001-of-00003.safetensors": which of how many; 0 for another name. */
static size_t shard_number(const char *name, size_t *count)
{
    const char *of = strstr(name, "-of-");
    if (!of)
        return 0;
    const char *digits = of;
    while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    *count = (size_t)strtoul(of + 4, NULL, 10);
    return digits < of ? (size_t)strtoul(digits, NULL, 10) : 0;
}

/* Shards say how many they are: a gap is better told before tensors are missed. */
static bool check_shards(const char *folder, const struct name_list *list, struct error *err)
{
    size_t n = 0, count = 0;
    for (size_t i = 0; i < list->names.n; i++)
        n += shard_number(list->names.data[i], &count) > 0;
    return n == 0 || n >= count ||
           error_set(err, ERR_NOT_FOUND,
                     "%s: has %zu of %zu shards (NAME-0000N-of-%05zu.safetensors); the download "
                     "is probably incomplete",
                     folder, n, count, count);
}

static bool add_found(struct model_file *file, const struct model_file_settings *settings,
                      struct error *err)
{
    struct name_list found = {0};
    bool ok = list_safetensors(file->path, &found, err);
    if (ok && found.names.n == 0)
        ok = folder_refuse(file->path, err);
    ok = ok && check_shards(file->path, &found, err);
    if (ok)
        log_warn("%s: has neither model.safetensors nor %s; its weights are taken from %s%s",
                 file->path, index_name, found.names.data[0],
                 found.names.n > 1 ? " and the other *.safetensors" : "");
    ok = ok && add_all(file, &found, settings, err);
    list_free(&found);
    return ok;
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool folder_add_weights(struct model_file *file, const struct model_file_settings *settings,
                        struct error *err)
{
    bool whole = folder_has(file->path, "model.safetensors");
    if (!folder_has(file->path, index_name))
        return whole ? folder_add_safetensors(file, "", "model.safetensors", settings, err)
                     : add_found(file, settings, err);
    struct name_list shards = {0};
    bool ok = load_index(file->path, &shards, err);
    const char *missing = ok ? first_missing(file->path, &shards) : NULL;
    if (ok && missing && !whole)
        ok = error_set(err, ERR_NOT_FOUND,
                       "%s: the shard %s is missing; the download is probably incomplete",
                       file->path, missing);
    else if (ok && missing) {
        log_warn("%s: %s names %s, which is not there; the weights are taken from "
                 "model.safetensors",
                 file->path, index_name, missing);
        ok = folder_add_safetensors(file, "", "model.safetensors", settings, err);
    } else if (ok && (ok = add_all(file, &shards, settings, err)))
        compare_with_index(file);
    list_free(&shards);
    return ok;
}
