/* hub.c - asking a Hugging Face hub, and filling the shared cache.
 *
 * Source: the hub's API (api/models/REPO/refs and /tree/COMMIT) and the layout
 * of its cache (huggingface.co/docs/hub/local-cache). */
#include "files/hub.h"

#include "base/log.h"
#include "files/checksum.h"
#include "files/download.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGES_MAX = 200, FILES_MAX = 100000 };

/* Where the hub is, with a slash at the end; owned by the caller. */
static char *endpoint(void)
{
    static const char *const variables[] = {"MODEL_ENDPOINT", "HF_ENDPOINT"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value && *value)
            return text_format("%s%s", value,
                               slice_ends_with(slice_of(value), SLICE("/")) ? "" : "/");
    }
    return slice_duplicate(SLICE("https://huggingface.co/"));
}

const char *hub_token(const struct model_source *source)
{
    const char *token = source->hf_token;
    if (!token || !*token)
        return NULL;
    size_t len = strlen(token);
    bool ok = len >= 37 && len <= 256 && strncmp(token, "hf_", 3) == 0;
    for (size_t i = 3; ok && i < len; i++)
        ok = isalnum((unsigned char)token[i]) && !((unsigned char)token[i] & 0x80);
    return ok ? token : NULL;
}

/* ---- The files of a repository ---------------------------------------- */

/* The commit of the branch main, else of the first one. */
static bool find_commit(const json_t *refs, char commit[41])
{
    const json_t *branches = json_object_get(refs, "branches");
    bool found = false;
    for (size_t i = 0; i < json_array_size(branches); i++) {
        const json_t *branch = json_array_get(branches, i);
        const char *name = json_string_value(json_object_get(branch, "name"));
        const char *target = json_string_value(json_object_get(branch, "targetCommit"));
        if (!name || !target || !is_hexadecimal(target, 40))
            continue;
        if (!found || strcmp(name, "main") == 0)
            strcpy(commit, target);
        found = true;
        if (strcmp(name, "main") == 0)
            break;
    }
    return found;
}

static bool add_entry(const json_t *entry, struct hub_files *files, struct error *err)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    const json_t *lfs = json_object_get(entry, "lfs");
    const char *digest =
        json_string_value(json_object_get(json_is_object(lfs) ? lfs : entry, "oid"));
    if (!type || strcmp(type, "file") != 0 || !path)
        return true;
    /* A name that leads elsewhere, or a digest that is none, is not ours to
     * write. */
    if (!path_is_below(path) ||
        (digest && !is_hexadecimal(digest, 40) && !is_hexadecimal(digest, 64))) {
        log_warn("the repository's file '%s' is left out: its name or checksum is malformed", path);
        return true;
    }
    if (files->n >= FILES_MAX)
        return error_set(err, ERR_LIMIT, "the repository has more than %d files", FILES_MAX);
    return hub_files_add(files, path, digest) || error_memory(err);
}

/* The listing comes in pages. */
static bool read_tree(const char *base, const char *repo, const char *token,
                      struct hub_files *files, struct error *err)
{
    char *url = text_format("%sapi/models/%s/tree/%s?recursive=true", base, repo, files->commit);
    bool ok = url != NULL || error_memory(err);
    for (int page = 0; ok && url && page < PAGES_MAX; page++) {
        char *next = NULL;
        json_t *tree = download_json(url, token, NULL, &next, err);
        ok = json_is_array(tree) ||
             (tree ? error_set(err, ERR_FORMAT, "%s: is not a list of files", url) : false);
        for (size_t i = 0; ok && i < json_array_size(tree); i++)
            ok = add_entry(json_array_get(tree, i), files, err);
        json_decref(tree);
        free(url);
        url = next;
    }
    free(url);
    return ok;
}

/* People know a repository by its page. The hub answers 401 for what is not there, too. */
static void explain_absent(const char *base, const char *repo, const char *token, struct error *err)
{
    error_set(
        err, ERR_NOT_FOUND,
        "%s%s: there is no such model%s; check the name (user/model), or give %s with -hft or "
        "HF_TOKEN",
        base, repo,
        token && *token ? ", or the token has no access to it" : " that anybody may read",
        token && *token ? "another token" : "a token");
}

bool hub_remote_files(const char *repo, const char *token, struct hub_files *files,
                      struct error *err)
{
    char *base = endpoint();
    char *url = base ? text_format("%sapi/models/%s/refs", base, repo) : NULL;
    json_t *refs = url ? download_json(url, token, NULL, NULL, err) : NULL;
    if (url && !refs && err && err->code == ERR_NOT_FOUND)
        explain_absent(base, repo, token, err);
    bool ok = false;
    if (!url)
        error_memory(err);
    else if (refs && !find_commit(refs, files->commit))
        error_set(err, ERR_FORMAT, "%s: names no branch with a commit", url);
    else if (refs)
        ok = read_tree(base, repo, token, files, err);
    json_decref(refs);
    free(url);
    free(base);
    return ok;
}

/* ---- Downloading ------------------------------------------------------ */

/* Bytes of a path that a URL cannot hold as they are. */
static void append_url_path(struct str *out, const char *path)
{
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        if ((c < 0x80 && isalnum(c)) || strchr("-._~/", c))
            str_append_char(out, (char)c);
        else
            str_append_format(out, "%%%02X", c);
    }
}

static char *resolve_url(const char *repo, const char *commit, const char *path)
{
    struct str url = {0};
    char *base = endpoint();
    if (base)
        str_append_format(&url, "%s%s/resolve/%s/", base, repo, commit);
    append_url_path(&url, path);
    free(base);
    return base ? str_detach(&url) : (str_free(&url), NULL);
}

/* snapshots/COMMIT/PATH -> ../../blobs/DIGEST, one ../ for each folder. */
static bool link_snapshot(const char *place, const char *path, const char *digest,
                          struct error *err)
{
    struct str target = {0};
    str_append_text(&target, "../../");
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++)
        str_append_text(&target, "../");
    str_append_format(&target, "blobs/%s", digest);
    if (target.failed)
        return error_memory(err);
    bool ok = path_make_parents(place, err);
    if (ok && symlink(str_text(&target), place) != 0) {
        /* A link whose blob had gone stands there, or another process was
         * quicker. */
        if (errno == EEXIST && !path_exists(place))
            unlink(place);
        if (!path_exists(place) && symlink(str_text(&target), place) != 0)
            ok = error_set(err, ERR_IO, "%s: cannot be linked: %s", place, strerror(errno));
    }
    str_free(&target);
    return ok;
}

bool hub_download(const char *repo, const struct hub_files *files, size_t i,
                  const struct model_source *source, struct error *err)
{
    const struct hub_file *file = &files->items[i];
    char *folder = hub_repo_folder(repo, err);
    char *place = folder ? hub_snapshot_path(folder, files->commit, file->path) : NULL;
    char *blob = folder && file->digest ? text_format("%s/blobs/%s", folder, file->digest) : NULL;
    char *url = resolve_url(repo, files->commit, file->path);
    bool ok = false;
    if (folder && (!place || !url || (file->digest && !blob))) {
        error_memory(err);
    } else if (folder && path_exists(place)) {
        ok = true;
    } else if (folder) {
        struct download download = {.url = url,
                                    .path = blob ? blob : place,
                                    .token = hub_token(source),
                                    .digest = file->digest,
                                    .immutable = true,
                                    .quiet = source->quiet};
        ok = download_file(&download, err) &&
             (!blob || link_snapshot(place, file->path, file->digest, err));
    }
    free(folder);
    free(place);
    free(blob);
    free(url);
    return ok;
}
