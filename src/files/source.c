/* source.c - from where a model comes to a path that can be opened. */
#include "files/hub.h"

#include "base/log.h"
#include "files/download.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Hugging Face ----------------------------------------------------- */

static bool not_cached(const char *repo, const char *folder, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND,
                     "%s: is not in the cache (%s) and --offline forbids downloading; run once "
                     "without --offline",
                     repo, folder);
}

/* The hub's list of files, or the cache's when the hub may not or cannot be
 * asked. *remote says which. */
static bool list_files(const struct model_source *source, const char *repo, const char *folder,
                       struct hub_files *files, bool *remote, struct error *err)
{
    *remote = false;
    if (!source->offline) {
        if (hub_remote_files(repo, hub_token(source), files, err)) {
            *remote = true;
            return true;
        }
        hub_files_free(files);
    }
    struct error why;
    if (!hub_cached_files(folder, files, &why)) {
        if (err)
            *err = why;
        return false;
    }
    if (files->n == 0)
        return source->offline ? not_cached(repo, folder, err) : false;
    if (!source->offline)
        log_warn("%s; using what the cache has of %s", err ? err->message : "no network", repo);
    return true;
}

/* The ref is written last: it never names a snapshot that is not whole. */
static bool write_ref(const char *folder, const char *commit, struct error *err)
{
    char *path = text_format("%s/refs/main", folder);
    bool ok = path ? path_write_whole(path, slice_of(commit), err) : error_memory(err);
    free(path);
    return ok;
}

static bool fetch_chosen(const struct model_source *source, const char *repo, const char *folder,
                         const struct hub_files *files, const struct hub_choice *choice,
                         bool remote, char **path, struct error *err)
{
    for (size_t i = 0; remote && i < choice->n; i++)
        if (!hub_download(repo, files, choice->items[i], source, err))
            return false;
    if (remote && !write_ref(folder, files->commit, err))
        return false;
    const char *primary = choice->is_folder ? "" : files->items[choice->primary].path;
    *path = hub_snapshot_path(folder, files->commit, primary);
    return *path != NULL || error_memory(err);
}

static bool fetch_repo(const struct model_source *source, const char *repo, const char *quant,
                       char **path, struct error *err)
{
    struct hub_files files = {0};
    struct hub_choice choice = {0};
    struct error own = {0};
    bool remote = false;
    char *folder = hub_repo_folder(repo, err);
    if (!err)
        err = &own;
    bool ok = folder && list_files(source, repo, folder, &files, &remote, err);
    if (ok && !hub_choose(&files, repo, quant, source->hf_file, &choice, err)) {
        if (!remote && source->offline)
            error_prefix(err, "in the cache (--offline)");
        ok = false;
    }
    ok = ok && fetch_chosen(source, repo, folder, &files, &choice, remote, path, err);
    hub_choice_free(&choice);
    hub_files_free(&files);
    free(folder);
    return ok;
}

static bool fetch_hub(const struct model_source *source, char **path, struct error *err)
{
    char *repo, *quant;
    if (!hub_split_name(source->hf_repo, &repo, &quant, err))
        return false;
    bool ok = fetch_repo(source, repo, quant, path, err);
    free(repo);
    free(quant);
    return ok;
}

/* ---- Plain URLs ------------------------------------------------------- */

/* The name at the end of a URL; owned by the caller. */
static char *name_of_url(const char *url, struct error *err)
{
    const char *end = url + strcspn(url, "?#"), *begin = end;
    while (begin > url && begin[-1] != '/')
        begin--;
    if (begin == end || *begin == '.') {
        error_set(err, ERR_INVALID, "%s: names no file; give the URL of a GGUF file", url);
        return NULL;
    }
    char *name = slice_duplicate((struct slice){begin, (size_t)(end - begin)});
    if (!name)
        error_memory(err);
    return name;
}

/* Beside the path that was given, or in the cache. A single file takes exactly
 * the path that was given. */
static char *place_of_url(const struct model_source *source, const char *url, bool single,
                          struct error *err)
{
    if (source->path && single)
        return slice_duplicate(slice_of(source->path));
    char *name = name_of_url(url, err);
    if (!name)
        return NULL;
    char *place = NULL;
    if (source->path) {
        const char *slash = strrchr(source->path, '/');
        place =
            text_format("%.*s%s", slash ? (int)(slash - source->path + 1) : 0, source->path, name);
    } else {
        place = plain_cache_path(name, err);
    }
    free(name);
    return place;
}

static bool fetch_one(const struct model_source *source, const char *url, const char *place,
                      struct error *err)
{
    if (source->offline)
        return path_exists(place) ||
               error_set(err, ERR_NOT_FOUND,
                         "%s: is not on disk (%s) and --offline forbids downloading; run once "
                         "without --offline",
                         url, place);
    struct download download = {
        .url = url, .path = place, .token = hub_token(source), .quiet = source->quiet};
    return path_make_parents(place, err) && download_file(&download, err);
}

static bool fetch_url(const struct model_source *source, char **path, struct error *err)
{
    struct gguf_name name = gguf_name_of(source->url);
    int n = name.count > 1 ? name.count : 1;
    if (strncmp(source->url, "http://", 7) != 0 && strncmp(source->url, "https://", 8) != 0)
        return error_set(err, ERR_INVALID, "%s: is not an http(s) URL", source->url);
    bool ok = true;
    for (int i = 1; ok && i <= n; i++) {
        char *url =
            n == 1 ? slice_duplicate(slice_of(source->url))
                   : text_format("%.*s-%05d-of-%05d.gguf", (int)name.n_prefix, source->url, i, n);
        char *place = url ? place_of_url(source, url, n == 1, err) : NULL;
        if (!url)
            error_memory(err);
        ok = place && fetch_one(source, url, place, err);
        if (ok && i == 1)
            *path = place;
        else
            free(place);
        free(url);
    }
    if (!ok) {
        free(*path);
        *path = NULL;
    }
    return ok;
}

bool model_source_fetch(const struct model_source *source, char **path, struct error *err)
{
    *path = NULL;
    if (source->hf_token && *source->hf_token && !hub_token(source))
        log_warn("the Hugging Face token has not the form hf_..., so it is not sent");
    if (source->hf_repo)
        return fetch_hub(source, path, err);
    if (source->docker_repo)
        return docker_fetch(&docker_hub, source, path, err);
    if (source->url)
        return fetch_url(source, path, err);
    if (!source->path)
        return error_set(err, ERR_INVALID,
                         "no model was given; use -m FILE, -hf ORG/NAME or -mu URL");
    *path = slice_duplicate(slice_of(source->path));
    return *path != NULL || error_memory(err);
}
