/* files.h - model files as they are on disk: GGUF and Hugging Face folders.
 *
 * A model file is immutable once open and may be read from any thread. Weights
 * stay in the file's mapping; whatever is handed out here lives until
 * model_file_close. Every size, count and offset was checked on opening, so a
 * reader of tensors and metadata need not check them again.
 * Depends on: base, kernels.
 *
 * Models that are not on disk yet are fetched into the cache that the Hugging
 * Face tools share.
 *
 * Sections: opening, tensors, GGUF metadata, Hugging Face folders, fetching,
 * the cache. */
#ifndef MLXCEL_FILES_FILES_H
#define MLXCEL_FILES_FILES_H

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/str.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Opening --------------------------------------------------------- */

struct model_file;

enum model_file_kind {
    MODEL_FILE_GGUF,  /* one file or its shards; has metadata */
    MODEL_FILE_FOLDER /* config.json and safetensors; has JSON */
};

enum file_loading {
    FILE_MMAP,  /* pages come from the file as they are touched */
    FILE_READ,  /* read whole into anonymous memory */
    FILE_DIRECT /* the same past the page cache, where the file system can */
};

/* One --override-kv KEY=TYPE:VALUE. */
enum meta_override_type {
    META_OVERRIDE_INT,
    META_OVERRIDE_FLOAT,
    META_OVERRIDE_BOOL,
    META_OVERRIDE_TEXT
};

enum { META_OVERRIDE_MAX = 128 }; /* bytes of key and of text, NUL included */

struct meta_override {
    char key[META_OVERRIDE_MAX];
    enum meta_override_type type;
    int64_t integer; /* INT */
    double real;     /* FLOAT */
    bool boolean;    /* BOOL */
    char text[META_OVERRIDE_MAX];
};

/* Read "KEY=TYPE:VALUE", TYPE one of int, float, bool, str. */
bool meta_override_parse(const char *text, struct meta_override *out, struct error *err);

struct model_file_settings {
    enum file_loading loading;
    bool lock;        /* keep the weights in memory (mlock); a refusal is logged */
    bool no_prefetch; /* do not ask the system to read the mapping ahead */
    const struct meta_override *overrides; /* for GGUF; a folder refuses them */
    size_t n_overrides;
};

/* Open a GGUF file (any shard of a split one), a Hugging Face folder, or a file
 * inside such a folder (config.json, a .safetensors, an index).
 *   settings  NULL for a plain mapping
 *   file      receives the open file; the caller closes it
 * Fails with the path, what is wrong and what to do.
 * Source: the GGUF specification (ggml docs/gguf.md), versions 2 and 3; the
 * safetensors format description. */
bool model_file_open(const char *path, const struct model_file_settings *settings,
                     struct model_file **file, struct error *err);

/* NULL is fine. Whatever the file handed out is gone then. */
void model_file_close(struct model_file *file);

enum model_file_kind model_file_kind(const struct model_file *file);
/* The path as it was opened: the first shard, or the folder. */
const char *model_file_path(const struct model_file *file);
/* Bytes on disk, all shards together. */
uint64_t model_file_n_bytes(const struct model_file *file);

/* True when the path can be opened as GGUF or as a folder of safetensors, by
 * its first bytes and names alone. */
bool model_file_looks_like_one(const char *path);

/* ---- Tensors --------------------------------------------------------- */

enum { TENSOR_MAX_DIMS = 4 };

struct tensor_view {
    const char *name;
    enum dtype dtype;
    int32_t n_dims; /* 0 (a scalar) .. 4 */
    /* Fastest-varying first, as GGUF has them; safetensors shapes are turned
     * round. Unused ones are 1. A safetensors shape of more than four has its
     * slowest ones multiplied together. */
    int64_t dims[TENSOR_MAX_DIMS];
    const void *data; /* in the mapping; aligned for GGUF's alignment or for the dtype's
                         element at the least, NULL for an empty tensor */
    size_t n_bytes;
};

size_t model_file_n_tensors(const struct model_file *file);
/* In the order of the file; i below model_file_n_tensors. */
const struct tensor_view *model_file_tensor_at(const struct model_file *file, size_t i);
/* NULL when there is none of that name. O(1). */
const struct tensor_view *model_file_find_tensor(const struct model_file *file, const char *name);

/* The tensor's bytes were copied elsewhere and its pages may leave memory; they
 * still read right, at the price of a page fault. No effect without mmap. */
void model_file_release(const struct model_file *file, const struct tensor_view *tensor);

/* ---- GGUF metadata --------------------------------------------------- */

/* The numbers are the format's. */
enum meta_type {
    META_U8 = 0,
    META_I8 = 1,
    META_U16 = 2,
    META_I16 = 3,
    META_U32 = 4,
    META_I32 = 5,
    META_F32 = 6,
    META_BOOL = 7,
    META_TEXT = 8,
    META_ARRAY = 9,
    META_U64 = 10,
    META_I64 = 11,
    META_F64 = 12
};

struct meta_value {
    const char *key;
    enum meta_type type;       /* META_ARRAY for an array */
    enum meta_type item_type;  /* of an array's items; else the same as type */
    size_t n;                  /* items; 1 where it is no array */
    const unsigned char *data; /* as in the file; read through the functions below */
    const uint64_t *index;     /* where every 16th text of an array begins; else NULL */
};

/* The specification's word for a type: "u32", "str", ... */
const char *meta_type_name(enum meta_type type);

size_t model_file_n_meta(const struct model_file *file);
const struct meta_value *model_file_meta_at(const struct model_file *file, size_t i);
/* NULL when the key is absent (always so for a folder). Overrides stand in for
 * what the file says. O(1). */
const struct meta_value *meta_find(const struct model_file *file, const char *key);

/* Scalars, for facts that may be missing: fallback when the key is absent, is
 * of another kind, or does not fit. Integers of any width are one kind; so are
 * F32 and F64; a real is no integer, nor the other way round. */
uint32_t meta_u32(const struct model_file *file, const char *key, uint32_t fallback);
int32_t meta_i32(const struct model_file *file, const char *key, int32_t fallback);
int64_t meta_i64(const struct model_file *file, const char *key, int64_t fallback);
float meta_f32(const struct model_file *file, const char *key, float fallback);
bool meta_bool(const struct model_file *file, const char *key, bool fallback);
/* {NULL, 0} when absent or no text. Not NUL-terminated. */
struct slice meta_text(const struct model_file *file, const char *key);

/* Scalars that matter: a value of another kind or out of range is an error that
 * names file and key. An absent key is an error when required, and otherwise
 * leaves *out as it was. */
enum meta_need { META_OPTIONAL, META_REQUIRED };
bool meta_get_u32(const struct model_file *file, const char *key, enum meta_need need,
                  uint32_t *out, struct error *err);
bool meta_get_i32(const struct model_file *file, const char *key, enum meta_need need, int32_t *out,
                  struct error *err);
bool meta_get_f32(const struct model_file *file, const char *key, enum meta_need need, float *out,
                  struct error *err);
bool meta_get_bool(const struct model_file *file, const char *key, enum meta_need need, bool *out,
                   struct error *err);
bool meta_get_text(const struct model_file *file, const char *key, enum meta_need need,
                   struct slice *out, struct error *err);

/* Arrays. The value may be NULL or no array: the length is 0 then. An index
 * must be below the length. */
size_t meta_array_len(const struct meta_value *value);
/* True when the value is an array of: texts; integers or booleans; reals. */
bool meta_is_text_array(const struct meta_value *value);
bool meta_is_integer_array(const struct meta_value *value);
bool meta_is_real_array(const struct meta_value *value);
/* Empty when the items are no texts. O(1). */
struct slice meta_array_text(const struct meta_value *value, size_t i);
/* 0 when the items are no numbers. U64 past INT64_MAX gives INT64_MAX; a real
 * is cut to an integer. */
int64_t meta_array_i64(const struct meta_value *value, size_t i);
double meta_array_f64(const struct meta_value *value, size_t i);
/* The same for a scalar. */
struct slice meta_value_text(const struct meta_value *value);
int64_t meta_value_i64(const struct meta_value *value);
double meta_value_f64(const struct meta_value *value);

/* ---- Hugging Face folders -------------------------------------------- */

/* config.json; NULL for GGUF. Borrowed. */
const json_t *model_file_config(const struct model_file *file);

/* Another JSON file beside it (tokenizer.json, tokenizer_config.json,
 * generation_config.json, special_tokens_map.json, added_tokens.json,
 * modules.json, 1_Pooling/config.json), parsed at the first call and kept.
 * NULL with err->code ERR_NONE when there is no such file (always for GGUF);
 * NULL with another code when it cannot be read or is no JSON. err must not be
 * NULL. Borrowed. Any thread. */
const json_t *model_file_json(const struct model_file *file, const char *name, struct error *err);

/* The bytes of a file beside it (tokenizer.model, chat_template.jinja),
 * appended to out. The same rule for a file that is absent: false with
 * ERR_NONE. */
bool model_file_sidecar(const struct model_file *file, const char *name, struct str *out,
                        struct error *err);

/* ---- Fetching --------------------------------------------------------- */

/* Where a model comes from; at most one of path alone, url, docker_repo and
 * hf_repo (path with url says where to put it). NULL: not given. */
struct model_source {
    const char *path;
    const char *url;         /* http(s); of a split GGUF any shard */
    const char *docker_repo; /* [NAMESPACE/]NAME[:TAG] on Docker Hub; namespace ai by default */
    const char *hf_repo;     /* ORG/NAME[:QUANT] */
    const char *hf_file;     /* a file of hf_repo, instead of choosing by QUANT */
    const char *hf_token;    /* for private and gated repositories */
    bool offline;            /* only what the cache has */
    bool quiet;              /* no progress bar on a terminal */
};

/* Make the model be on disk and say where: *path (owned by the caller) is what
 * model_file_open takes. Downloads what is missing, goes on with what was
 * interrupted, checks sizes and checksums; a file appears under its name only
 * when it is whole. Other processes that fetch the same wait for each other.
 * Blocks; any thread.
 * hf_repo: QUANT picks the first GGUF file whose name has it, without it
 * Q4_K_M, then Q8_0, then the first; a repository without GGUF files gives its
 * safetensors folder. Without a network what the cache has is taken.
 * Environment: MODEL_ENDPOINT or HF_ENDPOINT instead of https://huggingface.co;
 * the cache's folder as under "the cache". */
bool model_source_fetch(const struct model_source *source, char **path, struct error *err);

/* ---- The cache -------------------------------------------------------- */

/* The folder of models--ORG--NAME/{blobs,refs,snapshots}: LLAMA_CACHE,
 * HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
 * XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub, the first that is
 * set. The caller frees it. */
char *cache_folder(struct error *err);

struct cached_models {
    char **names; /* "ORG/NAME:QUANT", or "ORG/NAME" for safetensors; sorted; owned */
    size_t n;
};

/* What the cache holds, by what -hf takes. An absent cache is an empty one. */
bool cache_list(struct cached_models *models, struct error *err);
void cached_models_free(struct cached_models *models);

#endif
