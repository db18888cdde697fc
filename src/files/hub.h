/* hub.h - repositories of models: their files, the choice among them, and their
 * place in the shared cache. */
#ifndef MLXCEL_FILES_HUB_H
#define MLXCEL_FILES_HUB_H

#include "files/files.h"
#include "files/paths.h"

/* A file of a repository. */
struct hub_file {
    char *path;   /* in the repository */
    char *digest; /* SHA-256 or Git blob id; NULL: not known */
};

struct hub_files {
    struct hub_file *items; /* owned, with their texts; in the order of the repository */
    size_t n, capacity;
    char commit[41]; /* "" when not known */
};

void hub_files_free(struct hub_files *files);
bool hub_files_add(struct hub_files *files, const char *path, const char *digest);

/* ---- Names ------------------------------------------------------------ */

/* "ORG/NAME[:QUANT]" taken apart; both are the caller's. */
bool hub_split_name(const char *text, char **repo, char **quant, struct error *err);

/* A GGUF file's name taken apart: NAME-QUANT[-00001-of-00003].gguf. */
struct gguf_name {
    size_t n_prefix;  /* bytes of the path before "-00001-of-" or ".gguf" */
    char quant[64];   /* in upper case; "" when it has none */
    int index, count; /* 1, 1: not split; count 0: no GGUF file */
};
struct gguf_name gguf_name_of(const char *path);
/* True for a file that holds a model by itself, no projector, draft or matrix. */
bool gguf_name_is_model(const char *path);

/* ---- The choice ------------------------------------------------------- */

/* Indices into files of what to download. */
struct hub_choice {
    size_t *items; /* owned */
    size_t n, capacity;
    size_t primary; /* the file to open; unused for a folder */
    bool is_folder; /* open the snapshot's folder */
};
bool hub_choose(const struct hub_files *files, const char *repo, const char *quant,
                const char *file, struct hub_choice *choice, struct error *err);
void hub_choice_free(struct hub_choice *choice);

/* ---- Places ----------------------------------------------------------- */

/* CACHE/models--ORG--NAME; owned by the caller. */
char *hub_repo_folder(const char *repo, struct error *err);
/* The files of the commit that refs/main (or another ref) names; n is 0 when
 * there are none. */
bool hub_cached_files(const char *repo_folder, struct hub_files *files, struct error *err);

/* Ask the hub for the files of the repository's main branch. */
bool hub_remote_files(const char *repo, const char *token, struct hub_files *files,
                      struct error *err);
/* Download one file to its blob and link it into the snapshot. */
bool hub_download(const char *repo, const struct hub_files *files, size_t i,
                  const struct model_source *source, struct error *err);
/* A file of the snapshot; owned by the caller. */
char *hub_snapshot_path(const char *repo_folder, const char *commit, const char *path);

/* The bearer token to use, NULL for none. One that is no Hugging Face token is
 * not sent anywhere. */
const char *hub_token(const struct model_source *source);

/* ---- Docker Hub ------------------------------------------------------- */

struct docker_hosts {
    const char *auth, *registry; /* without a slash at the end */
};
extern const struct docker_hosts docker_hub;
bool docker_fetch(const struct docker_hosts *hosts, const struct model_source *source, char **path,
                  struct error *err);
/* The folder for files of plain URLs and of Docker Hub: LLAMA_CACHE, or
 * llama.cpp under XDG_CACHE_HOME or ~/.cache. */
char *plain_cache_path(const char *name, struct error *err);

#endif
