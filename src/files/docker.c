/* docker.c - models from Docker Hub: an anonymous token, the manifest, and in it
 * the layer that is a GGUF file. */
#include "files/hub.h"

#include "files/checksum.h"
#include "files/download.h"

#include <stdlib.h>
#include <string.h>

const struct docker_hosts docker_hub = {"https://auth.docker.io", "https://registry-1.docker.io"};

/* Letters, digits, ".", "_", "-", and "/" in the repository. */
static bool is_plain(const char *text)
{
    return *text && *text != '.' && *text != '/' && !strstr(text, "..") &&
           text[strspn(
               text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/")] == '\0';
}

static char *get_token(const struct docker_hosts *hosts, const char *repo, struct error *err)
{
    char *url = text_format("%s/token?service=registry.docker.io&scope=repository:%s:pull",
                            hosts->auth, repo);
    json_t *json = url ? download_json(url, NULL, NULL, NULL, err) : NULL;
    struct slice token = json_slice(json_object_get(json, "token"));
    char *copy = NULL;
    if (!url)
        error_memory(err);
    else if (json && token.len == 0)
        error_set(err, ERR_FORMAT, "%s: gave no token", url);
    else if (json && !(copy = slice_duplicate(token)))
        error_memory(err);
    json_decref(json);
    free(url);
    return copy;
}

/* The SHA-256 of the first layer of a GGUF media type; owned by the caller. */
static char *find_layer(const json_t *manifest, const char *url, struct error *err)
{
    const json_t *layers = json_object_get(manifest, "layers");
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        if (!type || !strstr(type, "gguf"))
            continue;
        if (!digest || strncmp(digest, "sha256:", 7) != 0 || !is_hexadecimal(digest + 7, 64)) {
            error_set(err, ERR_FORMAT, "%s: the GGUF layer has no SHA-256", url);
            return NULL;
        }
        return slice_duplicate(slice_of(digest + 7));
    }
    error_set(err, ERR_NOT_FOUND, "%s: has no GGUF layer, so it is not a model", url);
    return NULL;
}

static bool fetch_layer(const struct docker_hosts *hosts, const struct model_source *source,
                        const char *repo, const char *tag, const char *place, struct error *err)
{
    static const char accept[] = "application/vnd.docker.distribution.manifest.v2+json,"
                                 "application/vnd.oci.image.manifest.v1+json";
    char *token = get_token(hosts, repo, err);
    char *url = token ? text_format("%s/v2/%s/manifests/%s", hosts->registry, repo, tag) : NULL;
    json_t *manifest = url ? download_json(url, token, accept, NULL, err) : NULL;
    char *digest = manifest ? find_layer(manifest, url, err) : NULL;
    char *blob =
        digest ? text_format("%s/v2/%s/blobs/sha256:%s", hosts->registry, repo, digest) : NULL;
    /* What is there may be an older version under the same tag. */
    bool fresh = blob && path_exists(place) && checksum_verify(place, digest, NULL);
    struct download download = {
        .url = blob, .path = place, .token = token, .digest = digest, .quiet = source->quiet};
    bool ok = blob && (fresh || (path_make_parents(place, err) && download_file(&download, err)));
    json_decref(manifest);
    free(token);
    free(url);
    free(digest);
    free(blob);
    return ok;
}

bool docker_fetch(const struct docker_hosts *hosts, const struct model_source *source, char **path,
                  struct error *err)
{
    const char *text = source->docker_repo, *colon = strchr(text, ':');
    const char *slash = memchr(text, '/', colon ? (size_t)(colon - text) : strlen(text));
    char *repo = text_format("%s%.*s", slash ? "" : "ai/",
                             colon ? (int)(colon - text) : (int)strlen(text), text);
    const char *tag = colon ? colon + 1 : "latest";
    if (!repo)
        return error_memory(err);
    bool ok = is_plain(repo) && is_plain(tag) && !strchr(tag, '/');
    if (!ok)
        error_set(err, ERR_INVALID, "'%s' names no Docker model; write [NAMESPACE/]NAME[:TAG]",
                  text);
    char *name = ok ? text_format("%s_%s.gguf", repo, tag) : NULL;
    for (char *p = name; p && (p = strchr(p, '/'));)
        *p = '_';
    char *place = name ? plain_cache_path(name, err) : NULL;
    if (ok && place && source->offline)
        ok = path_exists(place) ||
             error_set(err, ERR_NOT_FOUND,
                       "%s: is not in the cache (%s) and --offline forbids downloading; run once "
                       "without --offline",
                       text, place);
    else
        ok = place && fetch_layer(hosts, source, repo, tag, place, err);
    if (ok)
        *path = place;
    else
        free(place);
    free(name);
    free(repo);
    return ok;
}
