/* model.c - loading a model and telling what it is. */
#include "model/model.h"

#include "model/context.h"
#include "model/synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- which architecture ----------------------------------------------------------- */

bool model_supported_architectures(struct str *out)
{
    for (size_t i = 0; i < arch_count(); i++)
        str_append_format(out, "%s%s", i ? ", " : "", arch_at(i)->name);
    return !out->failed;
}

static bool unknown(const struct model_file *file, struct slice name, struct error *err)
{
    struct str names = {0};
    model_supported_architectures(&names);
    error_set(err, ERR_UNSUPPORTED, "%s: unknown model architecture '%.*s'; supported are %s",
              model_file_path(file), (int)(name.len < 64 ? name.len : 64),
              name.data ? name.data : "", str_text(&names));
    str_free(&names);
    return false;
}

/* GGUF files that go with a model. */
static bool is_not_a_model(const struct model_file *file, struct slice arch, struct error *err)
{
    struct slice type = {NULL, 0};
    struct error ignored;
    meta_get_text(file, "general.type", META_OPTIONAL, &type, &ignored);
    const char *what = NULL;
    if (slice_equal_text(type, "adapter"))
        what = "is a LoRA adapter, not a model; give the model it was made for with -m";
    else if (slice_equal_text(type, "mmproj") || slice_equal_text(arch, "clip"))
        what =
            "is a projector for images or sound, not a model; give the language model it belongs "
            "to with -m";
    else if (slice_equal_text(type, "imatrix") || slice_equal_text(arch, "controlvector"))
        what = "is not a model: it was made from one; give that one with -m";
    return what && (error_set(err, ERR_UNSUPPORTED, "%s: %s", model_file_path(file), what), true);
}

static const struct arch *find_arch(const struct model_file *file, struct error *err)
{
    struct slice name = {NULL, 0};
    const struct arch *arch = NULL;
    if (model_file_kind(file) == MODEL_FILE_GGUF) {
        if (!meta_get_text(file, "general.architecture", META_REQUIRED, &name, err))
            return NULL;
        if (is_not_a_model(file, name, err))
            return NULL;
        arch = arch_by_name(name.data, name.len);
    } else {
        const json_t *config = model_file_config(file);
        const json_t *names = json_object_get(config, "architectures");
        for (size_t i = 0; i < json_array_size(names) && !arch; i++) {
            name = json_slice(json_array_get(names, i));
            arch = arch_by_hf(name.data, name.len);
        }
        struct slice type = json_slice(json_object_get(config, "model_type"));
        if (json_array_size(names) == 0 && type.len == 0) {
            error_set(err, ERR_FORMAT,
                      "%s: config.json names neither 'architectures' nor a 'model_type'",
                      model_file_path(file));
            return NULL;
        }
        if (json_array_size(names) == 0) {
            name = type;
            arch = arch_by_model_type(type);
        }
    }
    if (!arch)
        unknown(file, name, err);
    return arch;
}

/* ---- what the model is called ------------------------------------------------------- */

static const char *ftype_of_number(uint32_t ftype)
{
    static const struct {
        uint32_t number;
        const char *name;
    } names[] = {
        {0, "all F32"},
        {1, "F16"},
        {2, "Q4_0"},
        {3, "Q4_1"},
        {7, "Q8_0"},
        {8, "Q5_0"},
        {9, "Q5_1"},
        {10, "Q2_K - Medium"},
        {11, "Q3_K - Small"},
        {12, "Q3_K - Medium"},
        {13, "Q3_K - Large"},
        {14, "Q4_K - Small"},
        {15, "Q4_K - Medium"},
        {16, "Q5_K - Small"},
        {17, "Q5_K - Medium"},
        {18, "Q6_K"},
        {19, "IQ2_XXS - 2.0625 bpw"},
        {20, "IQ2_XS - 2.3125 bpw"},
        {21, "Q2_K - Small"},
        {22, "IQ3_XS - 3.3 bpw"},
        {23, "IQ3_XXS - 3.0625 bpw"},
        {24, "IQ1_S - 1.5625 bpw"},
        {25, "IQ4_NL - 4.5 bpw"},
        {26, "IQ3_S - 3.4375 bpw"},
        {27, "IQ3_S mix - 3.66 bpw"},
        {28, "IQ2_S - 2.5 bpw"},
        {29, "IQ2_M - 2.7 bpw"},
        {30, "IQ4_XS - 4.25 bpw"},
        {31, "IQ1_M - 1.75 bpw"},
        {32, "BF16"},
        {36, "TQ1_0 - 1.69 bpw ternary"},
        {37, "TQ2_0 - 2.06 bpw ternary"},
        {38, "MXFP4 MoE"},
        {39, "NVFP4"},
        {40, "Q1_0"},
        {41, "Q2_0"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == ftype)
            return names[i].name;
    return "unknown, may not work";
}

/* A folder's type: what quantization it has, or the dtype of its weights. */
static const char *ftype_of_folder(const struct model *m, const json_t *config, struct arena *arena)
{
    char text[64];
    const json_t *q = json_object_get(config, "quantization");
    struct slice mode = json_slice(json_object_get(q, "mode"));
    if (json_is_object(q)) {
        int bits = (int)json_integer_value(json_object_get(q, "bits"));
        int group = (int)json_integer_value(json_object_get(q, "group_size"));
        snprintf(text, sizeof text, "MLX %.*s %d-bit, groups of %d",
                 mode.len ? (int)(mode.len < 16 ? mode.len : 16) : 6,
                 mode.len ? mode.data : "affine", bits, group);
        return arena_duplicate(arena, slice_of(text));
    }
    const struct layer *l = &m->w.layers[0];
    const struct matrix *w = &l->out.matrix;
    const struct dtype_info *info = dtype_info(w->dtype);
    if (info->is_scaled)
        info = dtype_info(info->stored);
    return w->dtype == DTYPE_F32 ? "all F32" : info->safetensors;
}

static const char *count_label(uint64_t n, struct arena *arena)
{
    char text[32];
    if (n >= 1000000000)
        snprintf(text, sizeof text, "%.1fB", (double)n / 1e9);
    else if (n >= 1000000)
        snprintf(text, sizeof text, "%.0fM", (double)n / 1e6);
    else
        snprintf(text, sizeof text, "%.0fK", (double)n / 1e3);
    return arena_duplicate(arena, slice_of(text));
}

/* Values that words of packed weights stand for count as that many. */
static uint64_t n_params_of(const struct tensor_view *t, const struct model_file *file)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= (uint64_t)t->dims[i];
    size_t len = strlen(t->name);
    bool aside = (len > 7 && strcmp(t->name + len - 7, ".scales") == 0) ||
                 (len > 7 && strcmp(t->name + len - 7, ".biases") == 0);
    if (model_file_kind(file) == MODEL_FILE_GGUF)
        return n;
    if (aside)
        return 0;
    if (t->dtype != DTYPE_U32)
        return n;
    const json_t *q = json_object_get(model_file_config(file), "quantization");
    const json_t *own = NULL;
    char name[256];
    if (len > 7 && len - 7 < sizeof name) {
        memcpy(name, t->name, len - 7);
        name[len - 7] = '\0';
        own = json_object_get(q, name);
    }
    json_int_t bits = json_integer_value(json_object_get(json_is_object(own) ? own : q, "bits"));
    return bits > 0 && bits <= 32 ? n * 32 / (uint64_t)bits : n;
}

void model_describe(struct model *m, const char *name, const char *size_label, const char *ftype)
{
    struct model_info *info = &m->info;
    const struct hparams *h = &m->h;
    info->arch = h->arch->name;
    info->name = name ? name : "";
    info->ftype = ftype ? ftype : "";
    info->size_label = size_label ? size_label : "";
    info->n_vocab = m->w.n_vocab;
    info->n_ctx_train = h->n_ctx_train;
    info->n_embd = info->n_embd_out = h->n_embd;
    info->n_layers = h->n_layers;
    info->n_heads = h->layers[0].n_heads;
    info->n_kv_heads = h->layers[0].n_kv_heads;
    info->n_experts = h->n_experts;
    info->n_experts_used = h->n_experts_used;
    info->n_swa = h->n_swa;
    info->is_encoder = is_encoder(m);
    info->has_decoder = !info->is_encoder;
    info->pooling =
        h->pooling == (int32_t)POOLING_UNSPECIFIED ? POOLING_NONE : (enum pooling)h->pooling;
    info->n_labels = is_bound(&m->w.cls_out) ? m->w.cls_out.matrix.n_rows : 0;
    info->labels = info->n_labels == h->n_labels ? h->labels : NULL;
    info->is_matryoshka = h->is_matryoshka;
    info->dims = h->dims;
    info->n_dims = h->n_dims;
    info->rope_freq_base = h->rope.freq_base;
    info->rope_freq_scale = h->rope.freq_scale;
    char text[256];
    snprintf(text, sizeof text, "%s %s %s", info->arch, info->size_label, info->ftype);
    info->description = arena_duplicate(&m->arena, slice_of(text));
    if (!info->description)
        info->description = info->arch;
}

static bool describe_file(struct model *m, const struct model_file *file, struct error *err)
{
    for (size_t i = 0; i < model_file_n_tensors(file); i++) {
        const struct tensor_view *t = model_file_tensor_at(file, i);
        m->info.n_bytes += t->n_bytes;
        m->info.n_params += n_params_of(t, file);
    }
    const char *ftype, *name, *label = NULL;
    if (model_file_kind(file) == MODEL_FILE_GGUF) {
        ftype = ftype_of_number(meta_u32(file, "general.file_type", 1000));
        name = arena_duplicate(&m->arena, meta_text(file, "general.name"));
        struct slice size = meta_text(file, "general.size_label");
        if (size.len)
            label = arena_duplicate(&m->arena, size);
    } else {
        ftype = ftype_of_folder(m, model_file_config(file), &m->arena);
        name = arena_duplicate(
            &m->arena, json_slice(json_object_get(model_file_config(file), "_name_or_path")));
    }
    if (!label)
        label = count_label(m->info.n_params, &m->arena);
    if (!name || !ftype || !label)
        return error_memory(err);
    model_describe(m, name, label, ftype);
    return true;
}

/* ---- loading --------------------------------------------------------------------------- */

bool model_load(const struct model_file *file, const struct model_settings *settings,
                struct worker_pool *pool, struct model **out, struct error *err)
{
    *out = NULL;
    const struct arch *arch = find_arch(file, err);
    if (!arch)
        return false;
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return error_memory(err);
    struct tensor_source source = source_of_file(file);
    bool ok = hparams_read(file, arch, &m->arena, &m->h, err) &&
              weights_bind(&source, &m->h, &m->arena, &m->w, err) &&
              (!settings || !settings->check_tensors || weights_check_finite(file, err)) &&
              (!settings || !settings->repack ||
               weights_prepare(&m->w, &m->h, file, pool, settings->progress, err)) &&
              describe_file(m, file, err);
    if (!ok) {
        model_free(m);
        return false;
    }
    *out = m;
    return true;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    weights_release(&m->w, &m->h);
    if (m->owned)
        munmap(m->owned, m->owned_bytes);
    arena_free(&m->arena);
    free(m);
}

const struct model_info *model_info(const struct model *m)
{
    return &m->info;
}
