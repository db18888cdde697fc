/* hub_choice.c - which files of a repository are the model that was meant. */
#include "files/hub.h"

#include "base/vec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void hub_files_free(struct hub_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        free(files->items[i].path);
        free(files->items[i].digest);
    }
    free(files->items);
    *files = (struct hub_files){0};
}

bool hub_files_add(struct hub_files *files, const char *path, const char *digest)
{
    struct hub_file file = {slice_duplicate(slice_of(path)),
                            digest ? slice_duplicate(slice_of(digest)) : NULL};
    if (file.path && (file.digest || !digest) &&
        vec_reserve((void **)&files->items, &files->capacity, files->n, 1, sizeof file)) {
        files->items[files->n++] = file;
        return true;
    }
    free(file.path);
    free(file.digest);
    return false;
}

void hub_choice_free(struct hub_choice *choice)
{
    free(choice->items);
    *choice = (struct hub_choice){0};
}

/* ---- Names ------------------------------------------------------------ */

/* Letters, digits and _ anywhere; . and - between them; one slash. */
static bool is_repo(const char *text)
{
    int n_slashes = 0;
    bool after_sign = true;
    if (strlen(text) > 256)
        return false;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool sign = c == '/' || c == '.' || c == '-';
        if (c >= 0x80 || !(isalnum(c) || c == '_' || sign) || (sign && after_sign))
            return false;
        n_slashes += c == '/';
        after_sign = sign;
    }
    return n_slashes == 1 && !after_sign;
}

bool hub_split_name(const char *text, char **repo, char **quant, struct error *err)
{
    const char *colon = strchr(text, ':');
    *repo = slice_duplicate((struct slice){text, colon ? (size_t)(colon - text) : strlen(text)});
    *quant = slice_duplicate(slice_of(colon ? colon + 1 : ""));
    if (!*repo || !*quant)
        error_memory(err);
    else if (!is_repo(*repo))
        error_set(err, ERR_INVALID, "'%s' names no repository; write ORG/NAME or ORG/NAME:QUANT",
                  text);
    else
        return true;
    free(*repo);
    free(*quant);
    *repo = *quant = NULL;
    return false;
}

static bool five_digits(const char *text)
{
    for (int i = 0; i < 5; i++)
        if (!isdigit((unsigned char)text[i]))
            return false;
    return true;
}

struct gguf_name gguf_name_of(const char *path)
{
    static const char ending[] = ".gguf", split[] = "-00001-of-00003";
    struct gguf_name name = {.index = 1, .count = 1};
    size_t len = strlen(path), n_split = sizeof split - 1;
    if (!slice_ends_with(slice_of(path), slice_of(ending)))
        return (struct gguf_name){0};
    len -= sizeof ending - 1;
    const char *tail = path + len - (len > n_split ? n_split : len);
    if (len > n_split && tail[0] == '-' && five_digits(tail + 1) &&
        strncasecmp(tail + 6, "-of-", 4) == 0 && five_digits(tail + 10)) {
        name.index = (int)strtol(tail + 1, NULL, 10);
        name.count = (int)strtol(tail + 10, NULL, 10);
        len -= n_split;
    }
    name.n_prefix = len;
    size_t begin = len;
    while (begin > 0 && (isalnum((unsigned char)path[begin - 1]) || path[begin - 1] == '_'))
        begin--;
    if (begin == 0 || begin == len || (path[begin - 1] != '-' && path[begin - 1] != '.') ||
        len - begin >= sizeof name.quant)
        return name;
    for (size_t i = begin; i < len; i++)
        name.quant[i - begin] = (char)toupper((unsigned char)path[i]);
    return name;
}

bool gguf_name_is_model(const char *path)
{
    /* Companions of models: projectors, draft heads, importance matrices. */
    static const char *const others[] = {"mmproj",  "imatrix", "mtp-",
                                         "eagle3-", "dflash-", "dspark-"};
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    if (!slice_ends_with(slice_of(path), SLICE(".gguf")))
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(base, others[i]))
            return false;
    return true;
}

/* ---- The choice ------------------------------------------------------- */

static bool take(struct hub_choice *choice, size_t i, struct error *err)
{
    if (!vec_reserve((void **)&choice->items, &choice->capacity, choice->n, 1,
                     sizeof *choice->items))
        return error_memory(err);
    choice->items[choice->n++] = i;
    return true;
}

/* True when quant stands in the path, in either case, with . or - behind it. */
static bool has_quant(const char *path, const char *quant)
{
    size_t len = strlen(quant);
    for (; *path; path++)
        if (strncasecmp(path, quant, len) == 0 && (path[len] == '.' || path[len] == '-'))
            return true;
    return false;
}

/* The first model of that quantization ("" for any); SIZE_MAX: none. */
static size_t first_model(const struct hub_files *files, const char *quant)
{
    for (size_t i = 0; i < files->n; i++)
        if (gguf_name_is_model(files->items[i].path) &&
            gguf_name_of(files->items[i].path).index == 1 &&
            (!*quant || has_quant(files->items[i].path, quant)))
            return i;
    return SIZE_MAX;
}

static size_t best_model(const struct hub_files *files, const char *quant)
{
    static const char *const preferred[] = {"Q4_K_M", "Q8_0", ""};
    if (*quant)
        return first_model(files, quant);
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < sizeof preferred / sizeof *preferred && found == SIZE_MAX; i++)
        found = first_model(files, preferred[i]);
    return found;
}

/* The file and, of a split one, its other shards. */
static bool take_with_shards(const struct hub_files *files, size_t primary,
                             struct hub_choice *choice, struct error *err)
{
    const char *path = files->items[primary].path;
    struct gguf_name name = gguf_name_of(path);
    choice->primary = primary;
    if (name.count <= 1)
        return take(choice, primary, err);
    int n = 0;
    for (size_t i = 0; i < files->n; i++) {
        const char *other = files->items[i].path;
        struct gguf_name its = gguf_name_of(other);
        if (its.count != name.count || its.n_prefix != name.n_prefix ||
            strncmp(other, path, name.n_prefix) != 0)
            continue;
        if (!take(choice, i, err))
            return false;
        n++;
    }
    if (n != name.count)
        return error_set(err, ERR_NOT_FOUND, "%s: the repository has %d of its %d shards", path, n,
                         name.count);
    return true;
}

/* What a folder of safetensors consists of, for us. */
static bool belongs_to_folder(const char *path)
{
    static const char *const endings[] = {".json", ".safetensors", ".model", ".jinja", ".txt"};
    static const char *const modules[] = {"1_Pooling/config.json", "2_Dense/config.json",
                                          "2_Dense/model.safetensors", "3_Dense/config.json",
                                          "3_Dense/model.safetensors"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(path, modules[i]) == 0)
            return true;
    if (strchr(path, '/'))
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (slice_ends_with(slice_of(path), slice_of(endings[i])))
            return true;
    return false;
}

static bool take_folder(const struct hub_files *files, struct hub_choice *choice, bool *found,
                        struct error *err)
{
    bool config = false, weights = false;
    for (size_t i = 0; i < files->n; i++) {
        const char *path = files->items[i].path;
        config = config || strcmp(path, "config.json") == 0;
        weights = weights || strcmp(path, "model.safetensors") == 0 ||
                  strcmp(path, "model.safetensors.index.json") == 0;
    }
    *found = config && weights;
    choice->is_folder = *found;
    for (size_t i = 0; *found && i < files->n; i++)
        if (belongs_to_folder(files->items[i].path) && !take(choice, i, err))
            return false;
    return true;
}

/* Say what there would be to choose from. */
static bool nothing_fits(const struct hub_files *files, const char *repo, const char *what,
                         struct error *err)
{
    struct str list = {0};
    for (size_t i = 0; i < files->n; i++)
        if (gguf_name_is_model(files->items[i].path) && list.len < 600)
            str_append_format(&list, "%s%s", list.len ? ", " : "", files->items[i].path);
    error_set(err, ERR_NOT_FOUND, "%s: has no %s; %s%s", repo, what,
              list.len ? "its GGUF files are " : "it has neither GGUF files nor safetensors",
              str_text(&list));
    str_free(&list);
    return false;
}

static size_t find_path(const struct hub_files *files, const char *path)
{
    for (size_t i = 0; i < files->n; i++)
        if (strcmp(files->items[i].path, path) == 0)
            return i;
    return SIZE_MAX;
}

bool hub_choose(const struct hub_files *files, const char *repo, const char *quant,
                const char *file, struct hub_choice *choice, struct error *err)
{
    bool found = false;
    size_t primary = file ? find_path(files, file) : best_model(files, quant);
    *choice = (struct hub_choice){0};
    if (primary != SIZE_MAX)
        return take_with_shards(files, primary, choice, err);
    if (file) {
        char *what = text_format("file '%s'", file);
        nothing_fits(files, repo, what ? what : "such file", err);
        free(what);
        return false;
    }
    bool has_gguf = first_model(files, "") != SIZE_MAX;
    if (!has_gguf && !take_folder(files, choice, &found, err))
        return false;
    if (found && *quant)
        return error_set(err, ERR_INVALID,
                         "%s: holds safetensors, which have no quantizations to choose from; "
                         "leave ':%s' away",
                         repo, quant);
    if (found)
        return true;
    if (find_path(files, "preset.ini") != SIZE_MAX)
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: is a collection of presets (preset.ini), not a model; download the "
                         "file and give it to --models-preset",
                         repo);
    char *what = text_format("quantization '%s'", quant);
    nothing_fits(files, repo, *quant && what ? what : "model", err);
    free(what);
    return false;
}
