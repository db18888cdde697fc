/* cache.c - the folders that model files are kept in, and what is there. */
#include "files/hub.h"

#include "base/log.h"
#include "base/vec.h"
#include "files/checksum.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *home(void)
{
    const char *value = variable("HOME");
    const struct passwd *user = value ? NULL : getpwuid(getuid());
    return value ? value : user ? user->pw_dir : NULL;
}

static bool no_home(struct error *err)
{
    return error_set(err, ERR_NOT_FOUND,
                     "there is no folder for downloaded models: set LLAMA_CACHE or HOME");
}

char *cache_folder(struct error *err)
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"LLAMA_CACHE", ""},
        {"HF_HUB_CACHE", ""},
        {"HUGGINGFACE_HUB_CACHE", ""},
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"},
    };
    char *folder = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *base = variable(places[i].variable);
        if (!base)
            continue;
        folder = text_format("%s%s", base, places[i].below);
        if (!folder)
            error_memory(err);
        return folder;
    }
    if (!home()) {
        no_home(err);
        return NULL;
    }
    folder = text_format("%s/.cache/huggingface/hub", home());
    if (!folder)
        error_memory(err);
    return folder;
}

char *plain_cache_path(const char *name, struct error *err)
{
    const char *llama = variable("LLAMA_CACHE"), *xdg = variable("XDG_CACHE_HOME");
    char *path = NULL;
    if (llama)
        path = text_format("%s/%s", llama, name);
    else if (xdg)
        path = text_format("%s/llama.cpp/%s", xdg, name);
    else if (home())
        path = text_format("%s/.cache/llama.cpp/%s", home(), name);
    else
        no_home(err);
    if (!path && (llama || xdg || home()))
        error_memory(err);
    return path;
}

char *hub_repo_folder(const char *repo, struct error *err)
{
    char *cache = cache_folder(err);
    const char *slash = strchr(repo, '/');
    if (!cache)
        return NULL;
    char *folder = text_format("%s/models--%.*s--%s", cache, (int)(slash - repo), repo, slash + 1);
    free(cache);
    if (!folder)
        error_memory(err);
    return folder;
}

char *hub_snapshot_path(const char *repo_folder, const char *commit, const char *path)
{
    return text_format("%s/snapshots/%s/%s", repo_folder, commit, path);
}

/* ---- What is cached --------------------------------------------------- */

/* The commit of refs/main, else of the first ref. */
static bool cached_commit(const char *repo_folder, char commit[41])
{
    char *refs = text_format("%s/refs", repo_folder);
    struct path_list names = {0};
    bool found = false, is_main = false;
    if (refs && path_list_folder(refs, &names, NULL))
        for (size_t i = 0; i < names.n && !is_main; i++) {
            char *path = text_format("%s/%s", refs, names.items[i]);
            char *line = path ? path_first_line(path) : NULL;
            is_main = strcmp(names.items[i], "main") == 0;
            if (line && is_hexadecimal(line, 40) && (!found || is_main)) {
                strcpy(commit, line);
                found = true;
            }
            free(line);
            free(path);
        }
    path_list_free(&names);
    free(refs);
    return found;
}

/* Every file below folder, its path relative to the snapshot. */
static bool add_below(const char *folder, const char *relative, int depth, struct hub_files *files,
                      struct error *err)
{
    enum { DEPTH_MAX = 16 };
    struct path_list names = {0};
    bool ok = depth > DEPTH_MAX || path_list_folder(folder, &names, err);
    for (size_t i = 0; ok && i < names.n; i++) {
        char *path = text_format("%s/%s", folder, names.items[i]);
        char *below = text_format("%s%s%s", relative, *relative ? "/" : "", names.items[i]);
        if (!path || !below)
            ok = error_memory(err);
        else if (path_is_folder(path))
            ok = add_below(path, below, depth + 1, files, err);
        else if (path_exists(path)) /* a link whose blob is gone is no file */
            ok = hub_files_add(files, below, NULL) || error_memory(err);
        free(path);
        free(below);
    }
    path_list_free(&names);
    return ok;
}

bool hub_cached_files(const char *repo_folder, struct hub_files *files, struct error *err)
{
    if (!cached_commit(repo_folder, files->commit))
        return true;
    char *snapshot = text_format("%s/snapshots/%s", repo_folder, files->commit);
    if (!snapshot)
        return error_memory(err);
    bool ok = add_below(snapshot, "", 0, files, err);
    free(snapshot);
    return ok;
}

/* ---- The list --------------------------------------------------------- */

static bool add_name(struct path_list *list, char *owned)
{
    for (size_t i = 0; owned && i < list->n; i++)
        if (strcmp(list->items[i], owned) == 0) {
            free(owned);
            return true;
        }
    return path_list_push(list, owned);
}

/* "models--ORG--NAME" -> "ORG/NAME"; NULL for another folder. */
static char *repo_of_folder(const char *name)
{
    static const char prefix[] = "models--";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return NULL;
    const char *org = name + sizeof prefix - 1, *dashes = strstr(org, "--");
    if (!dashes || dashes == org || !dashes[2])
        return NULL;
    return text_format("%.*s/%s", (int)(dashes - org), org, dashes + 2);
}

static bool list_repo(const char *folder, const char *repo, struct path_list *list,
                      struct error *err)
{
    struct hub_files files = {0};
    bool ok = hub_cached_files(folder, &files, err), has_config = false, has_weights = false;
    for (size_t i = 0; ok && i < files.n; i++) {
        const char *path = files.items[i].path;
        struct gguf_name name = gguf_name_of(path);
        has_config = has_config || strcmp(path, "config.json") == 0;
        has_weights = has_weights || slice_ends_with(slice_of(path), SLICE(".safetensors"));
        if (gguf_name_is_model(path) && name.index == 1 && name.quant[0])
            ok = add_name(list, text_format("%s:%s", repo, name.quant)) || error_memory(err);
    }
    if (ok && has_config && has_weights)
        ok = add_name(list, slice_duplicate(slice_of(repo))) || error_memory(err);
    hub_files_free(&files);
    return ok;
}

bool cache_list(struct cached_models *models, struct error *err)
{
    struct path_list folders = {0}, list = {0};
    char *cache = cache_folder(err);
    bool ok = cache && path_list_folder(cache, &folders, err);
    for (size_t i = 0; ok && i < folders.n; i++) {
        char *repo = repo_of_folder(folders.items[i]);
        char *folder = text_format("%s/%s", cache, folders.items[i]);
        if (repo && folder)
            ok = list_repo(folder, repo, &list, err);
        free(repo);
        free(folder);
    }
    path_list_free(&folders);
    free(cache);
    *models = (struct cached_models){list.items, list.n};
    if (!ok)
        cached_models_free(models);
    return ok;
}

void cached_models_free(struct cached_models *models)
{
    for (size_t i = 0; i < models->n; i++)
        free(models->names[i]);
    free(models->names);
    *models = (struct cached_models){0};
}
