/* load_folder.c - the tokenizer of a Hugging Face folder: tokenizer.json where
 * there is one, else tokenizer.model. */
#include "text/tokenizer_json.h"

#include "base/file.h"

#include <sys/stat.h>
#include <unistd.h>

bool tokenizer_from_json(const json_t *root, const struct tokenizer_files *files,
                         struct tokenizer *tok, struct error *err)
{
    tok->from_json = true;
    tok->partition.leftmost = true;
    if (!json_is_object(root))
        return error_set(err, ERR_FORMAT, "is not a JSON object");
    return json_read_model(root, files, tok, err) &&
           json_read_normalizer(json_object_get(root, "normalizer"), &tok->normalizer, err) &&
           json_read_pre_tokenizer(json_object_get(root, "pre_tokenizer"), &tok->steps, err) &&
           json_read_post_processor(json_object_get(root, "post_processor"), tok, err) &&
           json_read_decoder(json_object_get(root, "decoder"), tok, err) &&
           json_read_roles(files, tok, err) && tokenizer_finish(tok, err);
}

/* A file beside the weights that may be absent, but not broken. */
static bool read_beside(const struct model_file *file, const char *name, const json_t **out,
                        struct error *err)
{
    *out = model_file_json(file, name, err);
    return *out || err->code == ERR_NONE;
}

bool load_folder(const struct model_file *file, struct tokenizer *tok, struct error *err)
{
    struct error own; /* model_file_json wants one */
    if (!err)
        err = &own;
    struct tokenizer_files files = {.config = model_file_config(file)};
    const json_t *root;
    if (!read_beside(file, "tokenizer.json", &root, err) ||
        !read_beside(file, "tokenizer_config.json", &files.tokenizer_config, err) ||
        !read_beside(file, "special_tokens_map.json", &files.special_tokens_map, err) ||
        !read_beside(file, "generation_config.json", &files.generation_config, err))
        return false;
    if (root)
        return tokenizer_from_json(root, &files, tok, err) || error_prefix(err, "tokenizer.json");
    struct str model = {0};
    bool ok = model_file_sidecar(file, "tokenizer.model", &model, err);
    if (ok)
        ok = tokenizer_from_sentencepiece(str_slice(&model), &files, tok, err) ||
             error_prefix(err, "tokenizer.model");
    else if (err->code == ERR_NONE)
        error_set(err, ERR_NOT_FOUND,
                  "has neither tokenizer.json nor tokenizer.model; the download is probably "
                  "incomplete");
    str_free(&model);
    return ok;
}

/* ---- Without weights ---- */

enum { MODEL_MAX_BYTES = 256 << 20 };

static bool exists(const char *path)
{
    return path && access(path, F_OK) == 0;
}

/* A JSON file of the folder; NULL in *out when there is none. */
static bool parse_beside(struct slice folder, const char *name, json_t **out, struct error *err)
{
    char *path = text_format("%.*s/%s", (int)folder.len, folder.data, name);
    *out = exists(path) ? json_parse_file(path, err) : NULL;
    bool ok = path && (*out || !exists(path));
    free(path);
    return ok;
}

/* Build from the tokenizer.json or tokenizer.model at path. */
static bool load_file(const char *path, struct slice folder, struct tokenizer *tok,
                      struct error *err)
{
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json",
                                        "config.json", "generation_config.json"};
    json_t *beside[4] = {NULL}, *root = NULL;
    struct str model = {0};
    bool ok = true, json = slice_ends_with(slice_of(path), SLICE(".json"));
    for (size_t i = 0; ok && i < 4; i++)
        ok = parse_beside(folder, names[i], &beside[i], err);
    struct tokenizer_files files = {beside[0], beside[1], beside[2], beside[3]};
    if (ok && json) {
        root = json_parse_file(path, err);
        ok = root && (tokenizer_from_json(root, &files, tok, err) || error_prefix(err, "%s", path));
    } else if (ok) {
        ok = file_read_whole(path, MODEL_MAX_BYTES, &model, err) &&
             (tokenizer_from_sentencepiece(str_slice(&model), &files, tok, err) ||
              error_prefix(err, "%s", path));
    }
    for (size_t i = 0; i < 4; i++)
        json_decref(beside[i]);
    json_decref(root);
    str_free(&model);
    return ok;
}

bool tokenizer_open(const char *path, struct tokenizer **out, struct error *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    *out = NULL;
    struct stat info;
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    for (size_t i = 0; i < 2; i++) {
        struct slice folder = slice_of(path), name = slice_of(names[i]);
        char *file = is_folder ? text_format("%s/%s", path, names[i]) : slice_duplicate(folder);
        if (!is_folder && slice_ends_with(folder, name))
            folder.len -= name.len;
        bool found = exists(file) && slice_ends_with(slice_of(file), name);
        struct tokenizer *tok = found ? tokenizer_new() : NULL;
        if (!folder.len)
            folder = SLICE(".");
        bool ok = tok && load_file(file, folder, tok, err);
        free(file);
        if (ok)
            *out = tok;
        else
            tokenizer_free(tok);
        if (found)
            return ok || (!tok && error_memory(err));
    }
    struct model_file *file;
    if (!model_file_open(path, NULL, &file, err))
        return false;
    bool ok = tokenizer_load(file, out, err);
    model_file_close(file);
    return ok;
}
