/* hparams_modules.c - what a folder says about embedding: modules.json and the
 * pooling's config.json, as sentence-transformers writes them, and what
 * encoders' config.json has of its own. */
#include "model/hparams.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- modules.json ----------------------------------------------------------- */

static bool pooling_of(const json_t *config, enum pooling *out)
{
    static const struct {
        const char *flag, *mode;
        enum pooling pooling;
    } modes[] = {{"pooling_mode_mean_tokens", "mean", POOLING_MEAN},
                 {"pooling_mode_cls_token", "cls", POOLING_CLS},
                 {"pooling_mode_lasttoken", "lasttoken", POOLING_LAST}};
    struct slice mode = json_slice(json_object_get(config, "pooling_mode"));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (!json_is_true(json_object_get(config, modes[i].flag)) &&
            !slice_equal_text(mode, modes[i].mode))
            continue;
        *out = modes[i].pooling;
        return true;
    }
    return false;
}

static bool read_pooling(const struct model_file *file, const json_t *module, struct hparams *h,
                         struct error *err)
{
    const char *folder = json_string_value(json_object_get(module, "path"));
    char name[128];
    enum pooling pooling;
    if (!folder || !*folder || *folder == '.' || strchr(folder, '/') || strlen(folder) > 64)
        return error_set(err, ERR_FORMAT,
                         "modules.json: the pooling's 'path' is not a folder beside");
    snprintf(name, sizeof name, "%s/config.json", folder);
    const json_t *config = model_file_json(file, name, err);
    if (!config)
        return err->code == ERR_NONE && error_set(err, ERR_NOT_FOUND, "%s is missing", name);
    if (!pooling_of(config, &pooling))
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: only the modes mean, cls and lasttoken are supported", name);
    h->pooling = (int32_t)pooling;
    return true;
}

/* A layer behind pooling; where its weights are, the architecture's names say. */
static bool read_dense(const struct model_file *file, const json_t *module, struct hparams *h,
                       struct error *err)
{
    static const char *const folders[] = {"2_Dense", "3_Dense"};
    struct slice folder = json_slice(json_object_get(module, "path"));
    bool allowed = (h->arch->may & WEIGHT_BIT(WEIGHT_DENSE_1)) != 0;
    for (size_t i = 0; i < 2 && allowed; i++) {
        char name[32];
        if (!slice_equal_text(folder, folders[i]))
            continue;
        snprintf(name, sizeof name, "%s/config.json", folders[i]);
        const json_t *config = model_file_json(file, name, err);
        if (!config)
            return err->code == ERR_NONE && error_set(err, ERR_NOT_FOUND, "%s is missing", name);
        struct slice function = json_slice(json_object_get(config, "activation_function"));
        json_int_t n = json_integer_value(json_object_get(config, "out_features"));
        if (function.len > 0 && !slice_ends_with(function, SLICE("Identity")))
            return error_set(err, ERR_UNSUPPORTED, "%s: no activation but Identity is supported",
                             name);
        if (n < 1 || n > 1 << 24)
            return error_set(err, ERR_FORMAT, "%s: 'out_features' must be between 1 and 16777216",
                             name);
        h->n_dense[i] = (int32_t)n;
        return true;
    }
    return error_set(err, ERR_UNSUPPORTED,
                     "modules.json: a dense layer in '%.*s' is not supported for this architecture",
                     (int)(folder.len < 64 ? folder.len : 64), folder.len ? folder.data : "");
}

/* The steps from text to vector. Scaling is the server's business; a layer that
 * is not known must not be left out. */
static bool read_modules(const struct model_file *file, struct hparams *h, struct error *err)
{
    const json_t *modules = model_file_json(file, "modules.json", err);
    size_t i;
    json_t *module;
    if (!modules)
        return err->code == ERR_NONE;
    json_array_foreach(modules, i, module)
    {
        struct slice type = json_slice(json_object_get(module, "type"));
        if (slice_ends_with(type, SLICE("Pooling"))) {
            if (!read_pooling(file, module, h, err))
                return false;
        } else if (slice_ends_with(type, SLICE("Dense"))) {
            if (!read_dense(file, module, h, err))
                return false;
        } else if (!slice_ends_with(type, SLICE("Transformer")) &&
                   !slice_ends_with(type, SLICE("Normalize"))) {
            return error_set(err, ERR_UNSUPPORTED,
                             "modules.json: a step of type '%.*s' is not supported; Transformer, "
                             "Pooling, Dense and Normalize are",
                             (int)(type.len < 80 ? type.len : 80), type.len ? type.data : "");
        }
    }
    return true;
}

/* ---- config.json -------------------------------------------------------------- */

static int32_t whole(const json_t *config, const char *name, int32_t fallback)
{
    const json_t *value = json_object_get(config, name);
    json_int_t n = json_integer_value(value);
    return json_is_integer(value) && n >= 0 && n <= 1 << 24 ? (int32_t)n : fallback;
}

/* RoBERTa counts positions from behind the padding token's id. */
static bool read_positions(const json_t *config, struct hparams *h, struct error *err)
{
    struct slice type = json_slice(json_object_get(config, "model_type"));
    bool counts_on =
        slice_ends_with(type, SLICE("roberta")) || slice_equal(type, SLICE("camembert"));
    if (counts_on)
        h->n_pos_offset = whole(config, "pad_token_id", 1) + 1;
    if (h->n_pos_offset >= h->n_ctx_train)
        return error_set(err, ERR_FORMAT,
                         "config.json: 'pad_token_id' leaves nothing of max_position_embeddings");
    h->n_ctx_train -= h->n_pos_offset;
    int32_t trained = whole(config, "max_trained_positions", 0);
    if (trained > 0 && trained < h->n_ctx_train)
        h->n_ctx_train = trained;
    return true;
}

static bool read_activation(const json_t *config, struct hparams *h, struct error *err)
{
    static const char *const names[] = {"hidden_activation", "hidden_act", "activation_function"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct slice name = json_slice(json_object_get(config, names[i]));
        if (name.len > 0 && !hparams_activation(name, &h->act))
            return error_set(err, ERR_UNSUPPORTED,
                             "config.json: '%s' is \"%.*s\", which is not "
                             "supported",
                             names[i], (int)(name.len < 40 ? name.len : 40), name.data);
        if (name.len > 0)
            return true;
    }
    return true;
}

static bool read_cuts(const json_t *config, struct hparams *h, struct arena *arena,
                      struct error *err)
{
    const json_t *list = json_object_get(config, "matryoshka_dimensions");
    size_t n = json_array_size(list);
    if (n == 0 || n > 4096)
        return true;
    int32_t *dims = arena_alloc_array(arena, n, sizeof *dims);
    if (!dims)
        return error_memory(err);
    for (size_t i = 0; i < n; i++) {
        json_int_t width = json_integer_value(json_array_get(list, i));
        dims[i] = width > 0 && width <= h->n_embd ? (int32_t)width : h->n_embd;
    }
    h->is_matryoshka = true;
    h->dims = dims;
    h->n_dims = n;
    return true;
}

/* ---- rankers by what they would say ---------------------------------------------- */

static bool mentions(struct slice text, struct slice name)
{
    for (size_t i = 0; i + name.len <= text.len; i++) {
        size_t n = 0;
        while (n < name.len && tolower((unsigned char)text.data[i + n]) == name.data[n])
            n++;
        if (n == name.len)
            return true;
    }
    return false;
}

/* Nothing in config.json tells Qwen3's reranker from a generator: its name does. */
static bool is_reranker(const struct model_file *file, const json_t *config)
{
    struct str readme = {0};
    struct error ignored;
    const struct slice name = SLICE("qwen3-reranker");
    struct slice path = slice_of(model_file_path(file));
    for (size_t i = path.len; i-- > 0;)
        if (path.data[i] == '/') {
            path = slice_from(path, i + 1);
            break;
        }
    bool found = mentions(path, name) ||
                 mentions(json_slice(json_object_get(config, "_name_or_path")), name) ||
                 (model_file_sidecar(file, "README.md", &readme, &ignored) &&
                  mentions(str_slice(&readme), SLICE("# qwen3-reranker")));
    str_free(&readme);
    return found;
}

/* The ids of "yes" and "no": their logits are the scores. */
static bool read_yes_no(const struct model_file *file, const json_t *config, struct hparams *h,
                        struct error *err)
{
    static const char *const labels[] = {"yes", "no"};
    if (strcmp(h->arch->name, "qwen3") != 0 || !is_reranker(file, config))
        return true;
    const json_t *tokenizer = model_file_json(file, "tokenizer.json", err);
    if (!tokenizer)
        return err->code == ERR_NONE;
    const json_t *vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    for (size_t i = 0; i < 2; i++) {
        const json_t *id = json_object_get(vocab, labels[i]);
        json_int_t n = json_integer_value(id);
        if (!json_is_integer(id) || n < 0 || n > INT32_MAX)
            return error_set(err, ERR_FORMAT,
                             "tokenizer.json: a reranker's vocabulary must have '%s'", labels[i]);
        h->yes_no[i] = (int32_t)n;
    }
    h->labels = labels;
    h->n_labels = 2;
    h->pooling = (int32_t)POOLING_RANK;
    return true;
}

bool hparams_read_modules(const struct model_file *file, const json_t *config, struct arena *arena,
                          struct hparams *h, struct error *err)
{
    if (!read_modules(file, h, err) || !read_cuts(config, h, arena, err) ||
        !read_yes_no(file, config, h, err))
        return false;
    if (!(h->arch->traits & ARCH_ENCODER))
        return true;
    h->swa_period = whole(config, "global_attn_every_n_layers", h->swa_period);
    struct slice classified = json_slice(json_object_get(config, "classifier_pooling"));
    if (classified.len > 0)
        h->classifies_mean = slice_equal(classified, SLICE("mean"));
    return read_positions(config, h, err) && read_activation(config, h, err);
}
