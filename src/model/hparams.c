/* hparams.c - hyperparameters: the table of keys, GGUF metadata, and the checks
 * that make everything after them safe to compute with. */
#include "model/hparams.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIELD(name) offsetof(struct hparams, name)

const struct hparam_key hparam_keys[] = {
    {"context_length", "max_position_embeddings|n_positions|max_sequence_length", KEY_INT, true,
     FIELD(n_ctx_train)},
    {"embedding_length", "hidden_size|n_embd|d_model", KEY_INT, true, FIELD(n_embd)},
    {"block_count", "num_hidden_layers|n_layer|num_layers|n_layers", KEY_INT, true,
     FIELD(n_layers)},
    {"attention.key_length", "head_dim", KEY_INT, false, FIELD(head_dim_k)},
    {"attention.value_length", "head_dim", KEY_INT, false, FIELD(head_dim_v)},
    {"rope.dimension_count", NULL, KEY_INT, false, FIELD(n_rot)},
    {"attention.layer_norm_rms_epsilon",
     "rms_norm_eps|norm_eps|layer_norm_eps|layer_norm_epsilon|norm_epsilon", KEY_REAL, false,
     FIELD(norm_eps)},
    {"attention.layer_norm_epsilon", NULL, KEY_REAL, false, FIELD(norm_eps)},
    {"expert_count", "num_experts|num_local_experts|n_routed_experts", KEY_INT, false,
     FIELD(n_experts)},
    {"expert_used_count", "num_experts_per_tok|num_experts_per_token|experts_per_token", KEY_INT,
     false, FIELD(n_experts_used)},
    {"expert_feed_forward_length", "moe_intermediate_size", KEY_INT, false, FIELD(n_ff_exp)},
    {"expert_shared_feed_forward_length",
     "shared_expert_intermediate_size|shared_intermediate_size", KEY_INT, false,
     FIELD(n_ff_shared)},
    {"expert_weights_scale", "routed_scaling_factor", KEY_REAL, false, FIELD(expert_scale)},
    {"expert_weights_norm", "norm_topk_prob", KEY_BOOL, false, FIELD(norm_topk)},
    {"expert_gating_func", NULL, KEY_INT, false, FIELD(gating_func)},
    {"attention.sliding_window", "sliding_window|local_attention", KEY_INT, false, FIELD(n_swa)},
    {"attention.clamp_kqv", "clip_qkv", KEY_REAL, false, FIELD(clamp_qkv)},
    {"attention.causal", NULL, KEY_BOOL, false, FIELD(causal)},
    {"attention.scale", "attention_multiplier", KEY_REAL, false, FIELD(attn_scale)},
    {"attn_logit_softcapping", "attn_logit_softcapping", KEY_REAL, false, FIELD(attn_soft_cap)},
    {"final_logit_softcapping", "final_logit_softcapping", KEY_REAL, false, FIELD(final_soft_cap)},
    {"embedding_scale", "embedding_multiplier", KEY_REAL, false, FIELD(embd_scale)},
    {"residual_scale", "residual_multiplier", KEY_REAL, false, FIELD(residual_scale)},
    {"logit_scale", "logit_scale|logits_scaling", KEY_REAL, false, FIELD(logit_scale)},
    {"pooling_type", NULL, KEY_INT, false, FIELD(pooling)},
    {"token_type_count", "type_vocab_size", KEY_INT, false, FIELD(n_token_types)},
    {"is_matryoshka", "is_matryoshka", KEY_BOOL, false, FIELD(is_matryoshka)},
    {"dense_2_feat_out", NULL, KEY_INT, false, FIELD(n_dense[0])},
    {"dense_3_feat_out", NULL, KEY_INT, false, FIELD(n_dense[1])},
    {"rope.freq_base", "global_rope_theta|rope_theta|rotary_emb_base", KEY_REAL, false,
     FIELD(rope.freq_base)},
    {"rope.freq_base_swa", "local_rope_theta|rope_local_base_freq", KEY_REAL, false,
     FIELD(rope.freq_base_swa)},
    {"rope.scaling.original_context_length", "original_max_position_embeddings", KEY_INT, false,
     FIELD(rope.n_ctx_orig)},
    {"rope.scaling.attn_factor", NULL, KEY_REAL, false, FIELD(rope.attn_factor_long)},
    {"rope.scaling.finetuned", NULL, KEY_BOOL, false, FIELD(rope_finetuned)},
    {"rope.scaling.yarn_log_multiplier", NULL, KEY_REAL, false, FIELD(rope.log_mul)},
    {"rope.scaling.yarn_ext_factor", NULL, KEY_REAL, false, FIELD(rope.ext_factor)},
    {"rope.scaling.yarn_attn_factor", NULL, KEY_REAL, false, FIELD(rope.attn_factor)},
    {"rope.scaling.yarn_beta_fast", NULL, KEY_REAL, false, FIELD(rope.beta_fast)},
    {"rope.scaling.yarn_beta_slow", NULL, KEY_REAL, false, FIELD(rope.beta_slow)},
};
const size_t hparam_n_keys = sizeof hparam_keys / sizeof *hparam_keys;

/* ---- GGUF ------------------------------------------------------------------ */

enum { KEY_MAX = 160 };

static void key_of(const struct hparams *h, const char *name, char out[KEY_MAX])
{
    snprintf(out, KEY_MAX, "%s.%s", h->arch->name, name);
}

static bool read_gguf_keys(const struct model_file *file, struct hparams *h, struct error *err)
{
    for (size_t i = 0; i < hparam_n_keys; i++) {
        const struct hparam_key *k = &hparam_keys[i];
        enum meta_need need = k->required ? META_REQUIRED : META_OPTIONAL;
        void *field = (char *)h + k->offset;
        char key[KEY_MAX];
        key_of(h, k->gguf, key);
        bool ok = k->type == KEY_INT    ? meta_get_i32(file, key, need, field, err)
                  : k->type == KEY_REAL ? meta_get_f32(file, key, need, field, err)
                                        : meta_get_bool(file, key, need, field, err);
        if (!ok)
            return false;
    }
    return true;
}

/* A count that is one number for all layers, or an array of one per layer. The
 * first layer's goes to *out; per_layer [n_layers] is filled for an array. */
static bool read_count(const struct model_file *file, const struct hparams *h, const char *name,
                       bool required, int32_t *out, size_t layer_offset, bool *is_array,
                       struct error *err)
{
    char key[KEY_MAX];
    key_of(h, name, key);
    const struct meta_value *v = meta_find(file, key);
    *is_array = v && v->type == META_ARRAY;
    if (!*is_array)
        return meta_get_i32(file, key, required ? META_REQUIRED : META_OPTIONAL, out, err);
    size_t n = meta_array_len(v);
    if (!meta_is_integer_array(v) || n < (size_t)h->n_layers)
        return error_set(err, ERR_FORMAT, "%s: '%s' must be a number or %d numbers, one per layer",
                         model_file_path(file), key, h->n_layers);
    for (int32_t i = 0; i < h->n_layers; i++) {
        int64_t count = meta_array_i64(v, (size_t)i);
        if (count < 0 || count > INT32_MAX)
            return error_set(err, ERR_FORMAT, "%s: '%s' has %" PRId64 " for layer %d",
                             model_file_path(file), key, count, i);
        memcpy((char *)&h->layers[i] + layer_offset, &(int32_t){(int32_t)count}, sizeof(int32_t));
    }
    *out = (int32_t)meta_array_i64(v, 0);
    return true;
}

static bool alloc_layers(const struct model_file *file, struct hparams *h, struct arena *arena,
                         struct error *err)
{
    if (h->n_layers < 1 || h->n_layers > MODEL_MAX_LAYERS)
        return error_set(err, ERR_FORMAT, "%s: %d layers; 1 to %d are possible",
                         model_file_path(file), h->n_layers, MODEL_MAX_LAYERS);
    h->layers = arena_alloc_array(arena, (size_t)h->n_layers, sizeof *h->layers);
    return h->layers || error_memory(err);
}

static bool read_counts(const struct model_file *file, struct hparams *h, struct error *err)
{
    bool heads_array, kv_array, ff_array;
    h->n_kv_heads = -1;
    if (!read_count(file, h, "attention.head_count", true, &h->n_heads,
                    offsetof(struct layer_hparams, n_heads), &heads_array, err) ||
        !read_count(file, h, "attention.head_count_kv", false, &h->n_kv_heads,
                    offsetof(struct layer_hparams, n_kv_heads), &kv_array, err) ||
        !read_count(file, h, "feed_forward_length", false, &h->n_ff,
                    offsetof(struct layer_hparams, n_ff), &ff_array, err))
        return false;
    for (int32_t i = 0; i < h->n_layers; i++) {
        struct layer_hparams *l = &h->layers[i];
        if (!heads_array)
            l->n_heads = h->n_heads;
        if (!kv_array)
            l->n_kv_heads = h->n_kv_heads < 0 ? l->n_heads : h->n_kv_heads;
        if (!ff_array)
            l->n_ff = h->n_ff;
    }
    if (h->n_kv_heads < 0)
        h->n_kv_heads = h->n_heads;
    return true;
}

static bool read_swa_pattern(const struct model_file *file, struct hparams *h, bool *is_array,
                             struct error *err)
{
    char key[KEY_MAX];
    key_of(h, "attention.sliding_window_pattern", key);
    const struct meta_value *v = meta_find(file, key);
    *is_array = v && v->type == META_ARRAY;
    if (!*is_array)
        return meta_get_i32(file, key, META_OPTIONAL, &h->swa_period, err);
    if (!meta_is_integer_array(v) || meta_array_len(v) < (size_t)h->n_layers)
        return error_set(err, ERR_FORMAT, "%s: '%s' must be a number or one truth per layer",
                         model_file_path(file), key);
    for (int32_t i = 0; i < h->n_layers; i++)
        h->layers[i].is_swa = meta_array_i64(v, (size_t)i) != 0;
    return true;
}

static bool read_gguf_rope(const struct model_file *file, struct hparams *h, struct error *err)
{
    static const struct {
        const char *name;
        enum rope_scaling scaling;
    } kinds[] = {{"none", ROPE_SCALING_NONE},
                 {"linear", ROPE_SCALING_LINEAR},
                 {"yarn", ROPE_SCALING_YARN},
                 {"longrope", ROPE_SCALING_LONGROPE}};
    char key[KEY_MAX];
    key_of(h, "rope.scaling.type", key);
    struct slice kind = {NULL, 0};
    if (!meta_get_text(file, key, META_OPTIONAL, &kind, err))
        return false;
    h->rope.scaling = kind.data ? ROPE_SCALING_UNSPECIFIED : ROPE_SCALING_LINEAR;
    for (size_t i = 0; kind.data && i < sizeof kinds / sizeof *kinds; i++)
        if (slice_equal_text(kind, kinds[i].name))
            h->rope.scaling = kinds[i].scaling;
    if (h->rope.scaling == ROPE_SCALING_UNSPECIFIED)
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: '%s' is \"%.*s\"; none, linear, yarn and longrope are supported",
                         model_file_path(file), key, (int)(kind.len < 40 ? kind.len : 40),
                         kind.data);
    float factor = 0.0f;
    key_of(h, "rope.scaling.factor", key);
    if (meta_find(file, key)) {
        if (!meta_get_f32(file, key, META_OPTIONAL, &factor, err))
            return false;
    } else {
        key_of(h, "rope.scale_linear", key);
        if (!meta_get_f32(file, key, META_OPTIONAL, &factor, err))
            return false;
    }
    h->rope.freq_scale = factor == 0.0f ? 1.0f : 1.0f / factor;
    return true;
}

static bool read_labels(const struct model_file *file, struct hparams *h, struct arena *arena,
                        struct error *err)
{
    char key[KEY_MAX];
    key_of(h, "classifier.output_labels", key);
    const struct meta_value *v = meta_find(file, key);
    size_t n = meta_array_len(v);
    if (n == 0 || !meta_is_text_array(v))
        return true;
    if (n > 4096)
        return error_set(err, ERR_LIMIT, "%s: '%s' has %zu labels; at most 4096 are possible",
                         model_file_path(file), key, n);
    const char **labels = arena_alloc_array(arena, n, sizeof *labels);
    if (!labels)
        return error_memory(err);
    for (size_t i = 0; i < n; i++)
        if (!(labels[i] = arena_duplicate(arena, meta_array_text(v, i))))
            return error_memory(err);
    h->labels = labels;
    h->n_labels = (int32_t)n;
    return true;
}

/* Families of which some members gate with another function say so. */
bool hparams_activation(struct slice name, enum activation *act)
{
    static const struct {
        const char *name;
        enum activation act;
    } known[] = {{"gelu", ACT_GELU},   {"gelu_new", ACT_GELU}, {"gelu_pytorch_tanh", ACT_GELU},
                 {"swiglu", ACT_SILU}, {"silu", ACT_SILU},     {"swish", ACT_SILU},
                 {"relu", ACT_RELU},   {"geglu", ACT_GELU}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!slice_equal_text(name, known[i].name))
            continue;
        *act = known[i].act;
        return true;
    }
    return false;
}

static bool read_activation(const struct model_file *file, struct hparams *h, struct error *err)
{
    char key[KEY_MAX];
    if (!(h->arch->traits & ARCH_ENCODER))
        return true;
    key_of(h, "hidden_activation", key);
    struct slice name = {NULL, 0};
    if (!meta_get_text(file, key, META_OPTIONAL, &name, err))
        return false;
    return !name.data || hparams_activation(name, &h->act) ||
           error_set(err, ERR_UNSUPPORTED, "%s: '%s' is \"%.*s\", which is not supported",
                     model_file_path(file), key, (int)(name.len < 40 ? name.len : 40), name.data);
}

static bool read_gguf(const struct model_file *file, struct arena *arena, struct hparams *h,
                      struct error *err)
{
    bool pattern_is_array = false;
    if (!read_gguf_keys(file, h, err) || !alloc_layers(file, h, arena, err) ||
        !read_counts(file, h, err) || !read_gguf_rope(file, h, err) ||
        !read_labels(file, h, arena, err) || !read_activation(file, h, err) ||
        !read_swa_pattern(file, h, &pattern_is_array, err))
        return false;
    if (pattern_is_array)
        h->swa_period = -1; /* the layers know */
    return true;
}

/* ---- both ------------------------------------------------------------------- */

void hparams_defaults(struct hparams *h, const struct arch *arch)
{
    *h = (struct hparams){.arch = arch,
                          .norm_eps = 1e-5f,
                          .expert_scale = 1.0f,
                          .embd_scale = 1.0f,
                          .residual_scale = 1.0f,
                          .causal = !(arch->traits & ARCH_ENCODER),
                          .rope_finetuned = true,
                          .pooling = POOLING_UNSPECIFIED,
                          .act = arch->act,
                          .yes_no = {-1, -1},
                          .is_matryoshka = (arch->traits & ARCH_MATRYOSHKA) != 0,
                          .classifies_mean = (arch->traits & ARCH_CLS_MEAN_GELU) != 0,
                          .n_labels = 1,
                          .swa_period = arch->swa_period};
    h->rope = (struct rope_hparams){.freq_base = 10000.0f,
                                    .freq_scale = 1.0f,
                                    .ext_factor = -1.0f,
                                    .attn_factor = 1.0f,
                                    .attn_factor_long = 1.0f,
                                    .beta_fast = 32.0f,
                                    .beta_slow = 1.0f};
    h->n_swa = arch->swa_window;
}

/* Slopes of attention by distance: a geometric sequence from 2^(-8/n), n the
 * largest power of two within the heads; the other heads lie between.
 * Source: Press et al. 2021 (ALiBi). */
static bool make_slopes(struct hparams *h, struct arena *arena, struct error *err)
{
    const float steepest = 8.0f;
    float *slopes = arena_alloc_array(arena, (size_t)h->n_heads, sizeof *slopes);
    if (!slopes)
        return error_memory(err);
    int32_t n = 1;
    while (n <= h->n_heads / 2)
        n *= 2;
    for (int32_t i = 0; i < h->n_heads; i++)
        slopes[i] = i < n ? powf(2.0f, -steepest * (float)(i + 1) / (float)n)
                          : powf(2.0f, -steepest / 2 * (float)(2 * (i - n) + 1) / (float)n);
    h->alibi = slopes;
    return true;
}

bool hparams_read(const struct model_file *file, const struct arch *arch, struct arena *arena,
                  struct hparams *h, struct error *err)
{
    hparams_defaults(h, arch);
    h->is_hf = model_file_kind(file) == MODEL_FILE_FOLDER;
    bool ok = h->is_hf ? hparams_read_hf(file, arena, h, err) : read_gguf(file, arena, h, err);
    return ok && ((hparams_finish(h, err) &&
                   (!(arch->traits & ARCH_ALIBI) || make_slopes(h, arena, err))) ||
                  error_prefix(err, "%s", model_file_path(file)));
}

static bool in_range(const char *what, int32_t value, int32_t min, int32_t max, struct error *err)
{
    return (value >= min && value <= max) ||
           error_set(err, ERR_FORMAT, "%s is %d; %d to %d are possible", what, value, min, max);
}

static bool is_sane(const char *what, float value, bool positive, struct error *err)
{
    return (isfinite(value) && (!positive || value > 0.0f)) ||
           error_set(err, ERR_FORMAT, "%s is %g, which makes no sense", what, (double)value);
}

/* The limits keep every product of two counts below 2^62 and every row below
 * 2^31, so that later arithmetic in size_t and int64_t cannot overflow. */
static bool check_ranges(const struct hparams *h, struct error *err)
{
    enum { WIDTH_MAX = 1 << 24 };
    if (!in_range("context_length", h->n_ctx_train, 1, INT32_MAX, err) ||
        !in_range("embedding_length", h->n_embd, 1, WIDTH_MAX, err) ||
        !in_range("attention.key_length", h->head_dim_k, 1, 1 << 16, err) ||
        !in_range("attention.value_length", h->head_dim_v, 1, 1 << 16, err) ||
        !in_range("rope.dimension_count", h->n_rot, 0, h->head_dim_k, err) ||
        !in_range("expert_count", h->n_experts, 0, MODEL_MAX_EXPERTS, err) ||
        !in_range("expert_used_count", h->n_experts_used, h->n_experts ? 1 : 0, h->n_experts,
                  err) ||
        !in_range("expert_feed_forward_length", h->n_ff_exp, 0, WIDTH_MAX, err) ||
        !in_range("expert_shared_feed_forward_length", h->n_ff_shared, 0, WIDTH_MAX, err) ||
        !in_range("attention.sliding_window", h->n_swa, 0, INT32_MAX, err) ||
        !in_range("classifier labels", h->n_labels, 1, h->n_embd, err) ||
        !in_range("dense_2_feat_out", h->n_dense[0], 0, WIDTH_MAX, err) ||
        !in_range("dense_3_feat_out", h->n_dense[1], 0, WIDTH_MAX, err) ||
        !in_range("pad_token_id", h->n_pos_offset, 0, 1 << 16, err) ||
        !in_range("pooling_type", h->pooling, POOLING_UNSPECIFIED, POOLING_RANK, err) ||
        !in_range("rope.scaling.original_context_length", h->rope.n_ctx_orig, 1, INT32_MAX, err))
        return false;
    if (h->n_rot % 2)
        return error_set(err, ERR_FORMAT, "rope.dimension_count is %d; it must be even", h->n_rot);
    for (int32_t i = 0; i < h->n_layers; i++) {
        const struct layer_hparams *l = &h->layers[i];
        if (!in_range("attention.head_count", l->n_heads, 1, 1 << 14, err) ||
            !in_range("attention.head_count_kv", l->n_kv_heads, 1, l->n_heads, err) ||
            !in_range("feed_forward_length", l->n_ff, 0, WIDTH_MAX, err))
            return error_prefix(err, "layer %d", i);
        if (l->n_heads % l->n_kv_heads)
            return error_set(err, ERR_FORMAT,
                             "attention.head_count %d is not a multiple of head_count_kv %d",
                             l->n_heads, l->n_kv_heads);
        if ((int64_t)l->n_heads * (h->head_dim_k > h->head_dim_v ? h->head_dim_k : h->head_dim_v) >
            WIDTH_MAX)
            return error_set(err, ERR_FORMAT, "%d heads of %d are too wide", l->n_heads,
                             h->head_dim_k);
    }
    return is_sane("layer_norm_epsilon", h->norm_eps, false, err) &&
           is_sane("rope.freq_base", h->rope.freq_base, true, err) &&
           is_sane("rope.freq_base_swa", h->rope.freq_base_swa, true, err) &&
           is_sane("rope.scaling.factor", h->rope.freq_scale, true, err) &&
           is_sane("attention.scale", h->attn_scale, false, err) &&
           is_sane("embedding_scale", h->embd_scale, false, err) &&
           is_sane("residual_scale", h->residual_scale, false, err) &&
           is_sane("logit_scale", h->logit_scale, false, err) &&
           is_sane("attn_logit_softcapping", h->attn_soft_cap, false, err) &&
           is_sane("final_logit_softcapping", h->final_soft_cap, false, err);
}

static void place_windows(struct hparams *h)
{
    const struct arch *arch = h->arch;
    bool other_size = arch->swa_layers != 0 && arch->swa_layers != h->n_layers;
    if (!h->layers_know_windows &&
        (arch->swa_period == 0 || arch->traits & ARCH_SWA_IGNORED || other_size))
        h->n_swa = 0;
    bool any = false;
    for (int32_t i = 0; i < h->n_layers; i++) {
        struct layer_hparams *l = &h->layers[i];
        if (h->n_swa == 0)
            l->is_swa = false;
        else if (!h->layers_know_windows && h->swa_period > 0)
            l->is_swa = arch->traits & ARCH_SWA_DENSE_FIRST ? i % h->swa_period != 0
                                                            : i % h->swa_period < h->swa_period - 1;
        else if (!h->layers_know_windows && h->swa_period == 0)
            l->is_swa = true;
        any |= l->is_swa;
        bool off = arch->traits & ARCH_NO_ROPE ||
                   (arch->traits & ARCH_ROPE_SWITCH && !h->rope_finetuned) ||
                   (arch->traits & ARCH_ROPE_ON_SWA_ONLY && h->n_swa && !l->is_swa);
        l->use_rope = !off && !(h->is_hf && !l->use_rope);
        if (!h->is_hf && arch->no_rope_step && (i + 1) % arch->no_rope_step == 0)
            l->use_rope = false;
    }
    if (!any)
        h->n_swa = 0;
}

static void derive(struct hparams *h)
{
    const struct arch *arch = h->arch;
    int32_t head = h->n_heads > 0 ? h->n_embd / h->n_heads : 0;
    if (h->head_dim_k == 0)
        h->head_dim_k = head;
    if (h->head_dim_v == 0)
        h->head_dim_v = head;
    if (h->n_rot == 0)
        h->n_rot = h->head_dim_k;
    if (arch->traits & ARCH_NO_ROPE)
        h->n_rot = 0;
    if (h->n_experts <= 0)
        h->n_experts = h->n_experts_used = 0;
    if (h->n_experts && h->n_ff_exp == 0)
        h->n_ff_exp = h->n_ff;
    if (h->rope.n_ctx_orig == 0)
        h->rope.n_ctx_orig = h->n_ctx_train;
    bool scaled_swa = !(arch->traits & ARCH_SWA_OWN_ROPE);
    if (h->rope.freq_base_swa == 0.0f)
        h->rope.freq_base_swa =
            arch->swa_freq_base > 0.0f ? arch->swa_freq_base : h->rope.freq_base;
    h->rope.freq_scale_swa = scaled_swa ? h->rope.freq_scale : 1.0f;
    if (h->attn_scale == 0.0f && h->head_dim_k > 0)
        h->attn_scale = 1.0f / sqrtf((float)h->head_dim_k);
    if (arch->traits & ARCH_EMBD_SCALE_SQRT)
        h->embd_scale = sqrtf((float)h->n_embd);
    if (h->embd_scale == 0.0f)
        h->embd_scale = 1.0f;
    if (h->residual_scale == 0.0f)
        h->residual_scale = 1.0f;
    if (h->logit_scale == 0.0f)
        h->logit_scale = 1.0f;
    else if (arch->traits & ARCH_LOGIT_SCALE_DIV)
        h->logit_scale = 1.0f / h->logit_scale;
    if (h->expert_scale == 0.0f)
        h->expert_scale = 1.0f;
    if (arch->traits & ARCH_NORM_TOPK && !(h->is_hf && arch->traits & ARCH_NORM_TOPK_HF))
        h->norm_topk = true;
    if (arch->wide_query_layers && h->n_layers == arch->wide_query_layers && h->n_heads > 0 &&
        h->n_embd >= h->n_heads)
        h->attn_scale = 1.0f / sqrtf((float)(h->n_embd / h->n_heads));
}

/* Nobody asks the architecture after this but who reads files. */
static void settle_traits(struct hparams *h)
{
    static const enum gating by_number[] = {GATING_NONE, GATING_SOFTMAX, GATING_SIGMOID,
                                            GATING_SOFTMAX_TOPK};
    const struct arch *arch = h->arch;
    h->norm = arch->norm;
    h->rope_kind = h->is_hf ? arch->rope_hf : arch->rope;
    h->gating = h->gating_func ? by_number[h->gating_func] : arch->gating;
    h->is_encoder = arch->traits & ARCH_ENCODER;
    h->parallel = arch->traits & ARCH_PARALLEL;
    h->norms_after = arch->traits & ARCH_NORM_AFTER;
    h->bare_norms = arch->traits & ARCH_BARE_NORM;
    h->qk_norm_late = arch->traits & ARCH_QK_NORM_LATE;
    h->no_gate = arch->traits & ARCH_NO_GATE;
    h->swiglu_oai = arch->traits & ARCH_SWIGLU_OAI;
    h->swa_symmetric = arch->traits & ARCH_SWA_SYMMETRIC;
    h->swa_own_rope = arch->traits & ARCH_SWA_OWN_ROPE;
}

bool hparams_finish(struct hparams *h, struct error *err)
{
    derive(h);
    if (!check_ranges(h, err))
        return false;
    place_windows(h);
    if (h->gating_func < 0 || h->gating_func > 3)
        return error_set(err, ERR_UNSUPPORTED, "expert_gating_func %d is not supported",
                         h->gating_func);
    settle_traits(h);
    return true;
}
