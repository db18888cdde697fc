/* hparams_hf.c - hyperparameters from a Hugging Face folder's config.json. */
#include "model/hparams.h"

#include <limits.h>
#include <math.h>
#include <string.h>

const json_t *hf_text_config(const json_t *config)
{
    const json_t *text = json_object_get(config, "text_config");
    return json_is_object(text) ? text : config;
}

/* The first of "a|b|c" that the object has and that is not null. */
static const json_t *find(const json_t *object, const char *names)
{
    char name[64];
    while (names && *names) {
        size_t n = strcspn(names, "|");
        if (n < sizeof name) {
            memcpy(name, names, n);
            name[n] = '\0';
            const json_t *value = json_object_get(object, name);
            if (value && !json_is_null(value))
                return value;
        }
        names += n + (names[n] == '|');
    }
    return NULL;
}

static bool to_int(const json_t *value, int32_t *out)
{
    if (json_is_integer(value)) {
        json_int_t i = json_integer_value(value);
        if (i < INT32_MIN || i > INT32_MAX)
            return false;
        *out = (int32_t)i;
        return true;
    }
    double d = json_number_value(value);
    if (!json_is_real(value) || !(fabs(d) <= INT32_MAX) || d != floor(d))
        return false;
    *out = (int32_t)d;
    return true;
}

static bool bad(const char *names, const char *what, struct error *err)
{
    return error_set(err, ERR_FORMAT, "config.json: '%.*s' must be %s", (int)strcspn(names, "|"),
                     names, what);
}

static bool get_int(const json_t *object, const char *names, int32_t *out, struct error *err)
{
    const json_t *value = find(object, names);
    return !value || to_int(value, out) || bad(names, "a whole number", err);
}

static bool get_real(const json_t *object, const char *names, float *out, struct error *err)
{
    const json_t *value = find(object, names);
    if (!value)
        return true;
    if (!json_is_number(value))
        return bad(names, "a number", err);
    *out = (float)json_number_value(value);
    return true;
}

static bool read_keys(const json_t *config, struct hparams *h, struct error *err)
{
    for (size_t i = 0; i < hparam_n_keys; i++) {
        const struct hparam_key *k = &hparam_keys[i];
        char *field = (char *)h + k->offset;
        const json_t *value = find(config, k->hf);
        if (!value) {
            if (k->required && k->hf)
                return error_set(err, ERR_FORMAT, "config.json has no '%.*s'",
                                 (int)strcspn(k->hf, "|"), k->hf);
            continue;
        }
        if (k->type == KEY_BOOL) {
            if (!json_is_boolean(value))
                return bad(k->hf, "true or false", err);
            *(bool *)field = json_is_true(value);
        } else if (k->type == KEY_INT) {
            if (!to_int(value, (int32_t *)(void *)field))
                return bad(k->hf, "a whole number", err);
        } else {
            if (!json_is_number(value))
                return bad(k->hf, "a number", err);
            *(float *)(void *)field = (float)json_number_value(value);
        }
    }
    return true;
}

/* ---- rope ---------------------------------------------------------------------- */

static bool factor_array(const json_t *value, const struct hparams *h, const char *name,
                         struct arena *arena, const float **out, struct error *err)
{
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n == 0 || n != (size_t)h->n_rot / 2)
        return error_set(err, ERR_FORMAT, "config.json: rope's '%s' must be %d numbers", name,
                         h->n_rot / 2);
    float *factors = arena_alloc_array(arena, n, sizeof *factors);
    if (!factors)
        return error_memory(err);
    for (size_t i = 0; i < n; i++)
        factors[i] = (float)json_number_value(json_array_get(value, i));
    *out = factors;
    return true;
}

/* Llama 3's stretching: long wavelengths by the factor, short ones not at all,
 * those between by a mix. Source: Llama 3.1's published reference. */
static bool llama3_factors(const json_t *rope, struct hparams *h, struct arena *arena,
                           struct error *err)
{
    float factor = 8.0f, low = 1.0f, high = 4.0f;
    int32_t n_orig = 8192;
    if (!get_real(rope, "factor", &factor, err) || !get_real(rope, "low_freq_factor", &low, err) ||
        !get_real(rope, "high_freq_factor", &high, err) ||
        !get_int(rope, "original_max_position_embeddings", &n_orig, err))
        return false;
    if (!(factor > 0.0f) || !(high > low) || !(low > 0.0f) || n_orig < 1)
        return error_set(err, ERR_FORMAT, "config.json: rope_scaling's factors make no sense");
    float *factors = arena_alloc_array(arena, (size_t)h->n_rot / 2, sizeof *factors);
    if (!factors)
        return error_memory(err);
    for (int32_t i = 0; i < h->n_rot / 2; i++) {
        float freq = 1.0f / powf(h->rope.freq_base, (float)(2 * i) / (float)h->n_rot);
        float wavelength = 2.0f * (float)M_PI / freq;
        float mix = ((float)n_orig / wavelength - low) / (high - low);
        if (wavelength < (float)n_orig / high)
            factors[i] = 1.0f;
        else if (wavelength > (float)n_orig / low)
            factors[i] = factor;
        else
            factors[i] = 1.0f / ((1.0f - mix) / factor + mix);
    }
    h->rope.factors = factors;
    return true;
}

/* How much a context of n_ctx_train is longer than the original one, or `factor` itself
 * where the file says it. */
static bool read_stretch(const json_t *rope, const struct hparams *h, float *factor,
                         struct error *err)
{
    *factor = (float)h->n_ctx_train / (float)(h->rope.n_ctx_orig > 0 ? h->rope.n_ctx_orig : 1);
    if (!get_real(rope, "factor", factor, err))
        return false;
    return (*factor > 0.0f && isfinite(*factor)) ||
           error_set(err, ERR_FORMAT, "config.json: rope_scaling's factor must be positive");
}

/* What YaRN multiplies queries and keys by, as transformers works it out. */
static float yarn_magnitude(float factor, float mscale, float mscale_all)
{
    float log_factor = factor > 1.0f ? 0.1f * logf(factor) : 0.0f;
    if (mscale == 0.0f || mscale_all == 0.0f)
        return log_factor + 1.0f;
    return (mscale * log_factor + 1.0f) / (mscale_all * log_factor + 1.0f);
}

static bool read_yarn(const json_t *rope, struct hparams *h, struct error *err)
{
    float factor, mscale = 0.0f, mscale_all = 0.0f;
    h->rope.scaling = ROPE_SCALING_YARN;
    if (!get_int(rope, "original_max_position_embeddings", &h->rope.n_ctx_orig, err) ||
        !read_stretch(rope, h, &factor, err) ||
        !get_real(rope, "beta_fast", &h->rope.beta_fast, err) ||
        !get_real(rope, "beta_slow", &h->rope.beta_slow, err) ||
        !get_real(rope, "extrapolation_factor", &h->rope.ext_factor, err) ||
        !get_real(rope, "mscale", &mscale, err) ||
        !get_real(rope, "mscale_all_dim", &mscale_all, err))
        return false;
    h->rope.freq_scale = 1.0f / factor;
    h->rope.yarn_magnitude = yarn_magnitude(factor, mscale, mscale_all);
    h->rope.yarn_fractions = json_is_false(json_object_get(rope, "truncate"));
    return get_real(rope, "attention_factor|attn_factor", &h->rope.yarn_magnitude, err);
}

static bool read_longrope(const json_t *rope, struct hparams *h, struct arena *arena,
                          struct error *err)
{
    float factor;
    h->rope.scaling = ROPE_SCALING_LONGROPE;
    if (!get_int(rope, "original_max_position_embeddings", &h->rope.n_ctx_orig, err) ||
        !factor_array(json_object_get(rope, "long_factor"), h, "long_factor", arena,
                      &h->rope.factors_long, err) ||
        !factor_array(json_object_get(rope, "short_factor"), h, "short_factor", arena,
                      &h->rope.factors_short, err) ||
        !read_stretch(rope, h, &factor, err))
        return false;
    if (h->rope.n_ctx_orig > 1 && factor > 1.0f)
        h->rope.attn_factor_long = sqrtf(1.0f + logf(factor) / logf((float)h->rope.n_ctx_orig));
    return get_real(rope, "attention_factor", &h->rope.attn_factor_long, err);
}

/* HunYuan's: the base grows with alpha instead of with the context's length. Source:
 * transformers' HunYuanDenseV1RotaryEmbedding. */
static bool read_dynamic(const json_t *rope, struct hparams *h, struct error *err)
{
    float alpha = 0.0f;
    h->rope.scaling = ROPE_SCALING_NONE;
    if (!get_real(rope, "alpha", &alpha, err))
        return false;
    if (alpha > 0.0f && h->n_rot > 2)
        h->rope.freq_base *= powf(alpha, (float)h->n_rot / (float)(h->n_rot - 2));
    return true;
}

static bool read_rope(const json_t *config, struct hparams *h, struct arena *arena,
                      struct error *err)
{
    const json_t *all = find(config, "rope_parameters|rope_scaling");
    const json_t *rope = all;
    if (json_is_object(json_object_get(all, "full_attention"))) {
        rope = json_object_get(all, "full_attention");
        if (!get_real(json_object_get(all, "sliding_attention"), "rope_theta",
                      &h->rope.freq_base_swa, err))
            return false;
    }
    float partial = 1.0f;
    if (!get_real(config, "partial_rotary_factor|rotary_pct|rope_pct", &partial, err) ||
        !get_real(rope, "partial_rotary_factor", &partial, err) ||
        !get_real(rope, "rope_theta", &h->rope.freq_base, err))
        return false;
    if (!(partial > 0.0f && partial <= 1.0f))
        return error_set(err, ERR_FORMAT, "config.json: 'partial_rotary_factor' must be in (0, 1]");
    if (!(h->rope.freq_base > 0.0f))
        return error_set(err, ERR_FORMAT, "config.json: 'rope_theta' must be positive");
    h->n_rot = (int32_t)(partial * (float)h->head_dim_k);
    struct slice kind = json_slice(find(rope, "rope_type|type"));
    if (slice_equal(kind, SLICE("dynamic")))
        return read_dynamic(rope, h, err);
    if (!kind.len || slice_equal(kind, SLICE("default")) || slice_equal(kind, SLICE("mrope"))) {
        h->rope.scaling = ROPE_SCALING_NONE;
        return true;
    }
    if (slice_equal(kind, SLICE("linear"))) {
        float factor = 1.0f;
        if (!get_real(rope, "factor", &factor, err))
            return false;
        if (!(factor > 0.0f))
            return error_set(err, ERR_FORMAT,
                             "config.json: rope_scaling's factor must be positive");
        h->rope.scaling = ROPE_SCALING_LINEAR;
        h->rope.freq_scale = 1.0f / factor;
        return true;
    }
    if (slice_equal(kind, SLICE("llama3")))
        return llama3_factors(rope, h, arena, err);
    if (slice_equal(kind, SLICE("yarn")))
        return read_yarn(rope, h, err);
    if (slice_equal(kind, SLICE("longrope")) || slice_equal(kind, SLICE("su")))
        return read_longrope(rope, h, arena, err);
    return error_set(err, ERR_UNSUPPORTED,
                     "config.json: rope type \"%.*s\" is not supported; default, linear, llama3, "
                     "yarn and longrope are",
                     (int)(kind.len < 40 ? kind.len : 40), kind.data);
}

/* ---- layers ---------------------------------------------------------------------- */

/* Which layers have a sliding window where no list says so, by config.json's model_type.
 * Families that are not here have a pattern of their own (arch). */
enum window_rule {
    WINDOW_EVERY_LAYER,
    WINDOW_UPPER_LAYERS, /* from max_window_layers on */
    WINDOW_EVEN_LAYERS   /* below max_window_layers */
};

static const struct {
    const char *model_type;
    enum window_rule rule;
} window_rules[] = {{"mistral", WINDOW_EVERY_LAYER},    {"mixtral", WINDOW_EVERY_LAYER},
                    {"starcoder2", WINDOW_EVERY_LAYER}, {"phi3", WINDOW_EVERY_LAYER},
                    {"qwen3_moe", WINDOW_EVERY_LAYER},  {"qwen2", WINDOW_UPPER_LAYERS},
                    {"qwen3", WINDOW_UPPER_LAYERS},     {"qwen2_moe", WINDOW_EVEN_LAYERS}};

static bool has_window(enum window_rule rule, int32_t layer, int32_t max_window_layers)
{
    switch (rule) {
    case WINDOW_UPPER_LAYERS:
        return layer >= max_window_layers;
    case WINDOW_EVEN_LAYERS:
        return layer % 2 == 0 && layer < max_window_layers;
    case WINDOW_EVERY_LAYER:
        break;
    }
    return true;
}

static bool read_windows(const json_t *config, struct hparams *h, struct error *err)
{
    const json_t *types = json_object_get(config, "layer_types");
    const json_t *pattern = find(config, "sliding_window_pattern|_sliding_window_pattern");
    int32_t max_window_layers = 0;
    /* A pattern as text ("LLLG") comes with layer_types. */
    if ((pattern && !json_is_string(pattern) && !to_int(pattern, &h->swa_period)) ||
        !get_int(config, "max_window_layers", &max_window_layers, err))
        return bad("sliding_window_pattern", "a whole number", err);
    if (json_is_array(types) && json_array_size(types) >= (size_t)h->n_layers) {
        h->layers_know_windows = true;
        for (int32_t i = 0; i < h->n_layers; i++)
            h->layers[i].is_swa = slice_equal(json_slice(json_array_get(types, (size_t)i)),
                                              SLICE("sliding_attention"));
    }
    struct slice type = json_slice(json_object_get(config, "model_type"));
    for (size_t k = 0; k < sizeof window_rules / sizeof *window_rules; k++) {
        if (h->layers_know_windows || !slice_equal(type, slice_of(window_rules[k].model_type)))
            continue;
        h->layers_know_windows = true;
        for (int32_t i = 0; i < h->n_layers; i++)
            h->layers[i].is_swa = has_window(window_rules[k].rule, i, max_window_layers);
    }
    if (json_is_false(json_object_get(config, "use_sliding_window")) ||
        json_is_null(json_object_get(config, "sliding_window")))
        h->n_swa = 0;
    return true;
}

static bool read_layers(const json_t *config, struct hparams *h, struct error *err)
{
    const json_t *with_rope = json_object_get(config, "no_rope_layers"); /* 1: has rope */
    int32_t interval = h->arch->no_rope_step;
    if (!get_int(config, "no_rope_layer_interval", &interval, err))
        return false;
    bool by_list = json_is_array(with_rope) && json_array_size(with_rope) >= (size_t)h->n_layers;
    for (int32_t i = 0; i < h->n_layers; i++) {
        struct layer_hparams *l = &h->layers[i];
        l->n_heads = h->n_heads;
        l->n_kv_heads = h->n_kv_heads;
        l->n_ff = h->n_ff;
        l->use_rope = true;
        if (by_list)
            l->use_rope = json_integer_value(json_array_get(with_rope, (size_t)i)) != 0;
        else if (interval > 0)
            l->use_rope = (i + 1) % interval != 0;
    }
    return read_windows(config, h, err);
}

static bool read_counts(const json_t *config, struct hparams *h, struct arena *arena,
                        struct error *err)
{
    h->n_kv_heads = -1;
    if (!get_int(config, "num_attention_heads|n_head|n_heads", &h->n_heads, err) ||
        !get_int(config, "num_key_value_heads|num_kv_heads|n_head_kv", &h->n_kv_heads, err) ||
        !get_int(config, "intermediate_size|n_inner|ffn_dim", &h->n_ff, err))
        return false;
    if (h->n_embd < 1 || h->n_heads < 1)
        return error_set(err, ERR_FORMAT, "config.json: '%s' must be positive",
                         h->n_embd < 1 ? "hidden_size" : "num_attention_heads");
    if (h->n_kv_heads < 0)
        h->n_kv_heads = h->n_heads;
    if (h->n_layers < 1 || h->n_layers > MODEL_MAX_LAYERS)
        return error_set(err, ERR_FORMAT, "config.json: %d layers; 1 to %d are possible",
                         h->n_layers, MODEL_MAX_LAYERS);
    if (h->head_dim_k == 0)
        h->head_dim_k = h->head_dim_v = h->n_embd / h->n_heads;
    if (h->head_dim_k < 1 || h->head_dim_k > 1 << 16)
        return error_set(err, ERR_FORMAT, "config.json: a head of %d makes no sense",
                         h->head_dim_k);
    h->layers = arena_alloc_array(arena, (size_t)h->n_layers, sizeof *h->layers);
    return h->layers || error_memory(err);
}

static bool read_classifier(const json_t *config, struct hparams *h, struct arena *arena,
                            struct error *err)
{
    const json_t *names = json_object_get(config, "id2label");
    size_t n = json_object_size(names);
    if (n == 0 || n > 4096)
        return true;
    const char **labels = arena_alloc_array(arena, n, sizeof *labels);
    if (!labels)
        return error_memory(err);
    char key[16];
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%zu", i);
        labels[i] = arena_duplicate(arena, json_slice(json_object_get(names, key)));
        if (!labels[i])
            return error_memory(err);
    }
    h->labels = labels;
    h->n_labels = (int32_t)n;
    return true;
}

bool hparams_read_hf(const struct model_file *file, struct arena *arena, struct hparams *h,
                     struct error *err)
{
    const json_t *top = model_file_config(file);
    const json_t *config = hf_text_config(top);
    if (!read_keys(config, h, err) || !read_counts(config, h, arena, err) ||
        !read_rope(config, h, arena, err) || !read_layers(config, h, err) ||
        !read_classifier(top, h, arena, err) || !hparams_read_modules(file, config, arena, h, err))
        return error_prefix(err, "%s", model_file_path(file));
    float scalar = 0.0f;
    if (h->arch->swa_window || h->arch->wide_query_layers) { /* gemma names the query's scale */
        if (!get_real(config, "query_pre_attn_scalar", &scalar, err))
            return error_prefix(err, "%s", model_file_path(file));
        if (scalar > 0.0f)
            h->attn_scale = 1.0f / sqrtf(scalar);
    }
    return true;
}
