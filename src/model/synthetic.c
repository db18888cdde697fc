/* synthetic.c - models made up from a description: sizes, types, mixes. */
#include "model/synthetic.h"

#include "model/context.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- tables ------------------------------------------------------------------------ */

static const struct {
    const char *family, *name;
    int32_t n_layers, n_embd, n_heads, n_kv_heads, n_ff, n_vocab, n_ctx;
} sizes[] = {
    {"llama", "10m", 4, 256, 4, 2, 1024, 4096, 131072},
    {"llama", "100m", 12, 768, 12, 4, 2048, 32768, 131072},
    {"llama", "500m", 16, 1280, 20, 4, 5120, 32768, 131072},
    {"llama", "1b", 16, 2048, 32, 8, 8192, 32768, 131072},
    {"llama", "3b", 28, 3072, 24, 8, 8192, 32768, 131072},
    {"llama", "8b", 32, 4096, 32, 8, 14336, 32768, 131072},
    {"gemma2", "10m", 4, 256, 4, 2, 1024, 4096, 131072},
    {"gemma2", "100m", 12, 768, 12, 4, 2048, 32768, 131072},
    {"bert", "bge-micro", 3, 384, 12, 12, 1536, 30522, 512},
    {"bert", "bge-small", 12, 384, 12, 12, 1536, 30522, 512},
    {"bert", "bge-base", 12, 768, 12, 12, 3072, 30522, 512},
    {"bert", "bge-large", 24, 1024, 16, 16, 4096, 30522, 512},
};

/* Which types a mix has: of most matrices, of v and down in the layers that
 * matter most, and of the output. A format's own is made from its row (uniform_mix). */
struct mix {
    const char *name;
    enum dtype base, more, output;
    uint32_t ftype;
};

static const struct mix mixes[] = {
    {"q2_k", DTYPE_Q2_K, DTYPE_Q3_K, DTYPE_Q6_K, 10},
    {"q3_k_s", DTYPE_Q3_K, DTYPE_Q3_K, DTYPE_Q6_K, 11},
    {"q3_k_m", DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q6_K, 12},
    {"q4_k_s", DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, 14},
    {"q4_k_m", DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q6_K, 15},
    {"q4_k", DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q6_K, 15},
    {"q5_k_s", DTYPE_Q5_K, DTYPE_Q5_K, DTYPE_Q6_K, 16},
    {"q5_k_m", DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_Q6_K, 17},
    {"q5_k", DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_Q6_K, 17},
    {"q6_k", DTYPE_Q6_K, DTYPE_Q6_K, DTYPE_Q6_K, 18},
};

enum { N_MIXES = sizeof mixes / sizeof *mixes };

static const struct {
    const char *name;
    int32_t bits;
} mlx_types[] = {{"mlx2", 2}, {"mlx3", 3}, {"mlx4", 4}, {"mlx5", 5}, {"mlx6", 6}, {"mlx8", 8}};

enum { MLX_GROUP = 64 };

const char *model_synthetic_sizes(void)
{
    return "llama: 10m, 100m, 500m, 1b, 3b, 8b; gemma2: 10m, 100m; "
           "bert: bge-micro, bge-small, bge-base, bge-large";
}

/* ---- the description ------------------------------------------------------------------ */

static bool take(const char **at, char *out, size_t size)
{
    size_t n = strcspn(*at, ":");
    if (n == 0 || n >= size)
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower((unsigned char)(*at)[i]);
    out[n] = '\0';
    *at += n + ((*at)[n] == ':');
    return true;
}

static bool set_key(struct synthetic *s, char *text, struct error *err)
{
    const struct {
        const char *name;
        int32_t *field;
        int32_t max;
    } keys[] = {{"layers", &s->n_layers, 1024},  {"embd", &s->n_embd, 1 << 16},
                {"heads", &s->n_heads, 1 << 10}, {"kv_heads", &s->n_kv_heads, 1 << 10},
                {"ff", &s->n_ff, 1 << 18},       {"vocab", &s->n_vocab, 1 << 20},
                {"ctx", &s->n_ctx, 1 << 24},     {"window", &s->n_window, 1 << 24}};
    char *value = strchr(text, '=');
    for (size_t i = 0; value && i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i].name) != (size_t)(value - text) ||
            strncmp(keys[i].name, text, (size_t)(value - text)) != 0)
            continue;
        char *end;
        long n = strtol(value + 1, &end, 10);
        if (*end || n < 1 || n > keys[i].max)
            return error_set(err, ERR_INVALID, "synthetic model: '%s' must be 1 to %d",
                             keys[i].name, keys[i].max);
        *keys[i].field = (int32_t)n;
        return true;
    }
    return error_set(err, ERR_INVALID,
                     "synthetic model: '%s' is not KEY=VALUE with one of the keys layers, embd, "
                     "heads, kv_heads, ff, vocab, ctx, window",
                     text);
}

bool synthetic_is_bert(const struct synthetic *s)
{
    return strcmp(s->family, "bert") == 0;
}

bool synthetic_is_gemma(const struct synthetic *s)
{
    return strcmp(s->family, "gemma2") == 0;
}

static bool find_size(struct synthetic *s, const char *family, const char *name, struct error *err)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(sizes[i].family, family) != 0 || strcmp(sizes[i].name, name) != 0)
            continue;
        s->family = sizes[i].family;
        s->size = sizes[i].name;
        s->n_layers = sizes[i].n_layers;
        s->n_embd = sizes[i].n_embd;
        s->n_heads = sizes[i].n_heads;
        s->n_kv_heads = sizes[i].n_kv_heads;
        s->n_ff = sizes[i].n_ff;
        s->n_vocab = sizes[i].n_vocab;
        s->n_ctx = sizes[i].n_ctx;
        return true;
    }
    return error_set(err, ERR_INVALID, "synthetic model: there is no size '%s' of %s; there are %s",
                     name, family, model_synthetic_sizes());
}

/* The output of a format that has fewer bits than Q6_K is Q6_K. */
static struct mix uniform_mix(enum dtype dtype)
{
    const struct dtype_info *info = dtype_info(dtype), *least = dtype_info(DTYPE_Q6_K);
    bool is_fine = info->block_bytes * least->block_len >= least->block_bytes * info->block_len;
    return (struct mix){info->name, dtype, dtype, is_fine ? dtype : DTYPE_Q6_K,
                        (uint32_t)info->file_type};
}

/* Mix i: those of the table, then the formats that whole files are made of. */
static bool mix_at(size_t i, struct mix *mix)
{
    if (i < N_MIXES) {
        *mix = mixes[i];
        return true;
    }
    i -= N_MIXES;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (dtype_info((enum dtype)d)->file_type >= 0 && i-- == 0) {
            *mix = uniform_mix((enum dtype)d);
            return true;
        }
    }
    return false;
}

const char *model_synthetic_type(size_t i)
{
    struct mix mix;
    return mix_at(i, &mix) ? mix.name : NULL;
}

static bool find_mix(struct synthetic *s, const char *name, struct mix *mix, struct error *err)
{
    for (size_t i = 0; mix_at(i, mix); i++)
        if (strcmp(mix->name, name) == 0) {
            s->type = mix->name;
            s->ftype = mix->ftype;
            return true;
        }
    for (size_t i = 0; i < sizeof mlx_types / sizeof *mlx_types; i++)
        if (strcmp(mlx_types[i].name, name) == 0) {
            s->type = mlx_types[i].name;
            s->mlx_bits = mlx_types[i].bits;
            *mix = mixes[0];
            return true;
        }
    struct str names = {0};
    for (size_t i = 0; mix_at(i, mix); i++)
        str_append_format(&names, "%s, ", mix->name);
    for (size_t i = 0; i < sizeof mlx_types / sizeof *mlx_types; i++)
        str_append_format(&names, "%s%s", i ? ", " : "", mlx_types[i].name);
    error_set(err, ERR_INVALID, "synthetic model: there is no type '%s'; there are %s", name,
              str_text(&names));
    str_free(&names);
    return false;
}

/* ---- tensors ---------------------------------------------------------------------------- */

static void add(struct synthetic *s, const char *name, enum dtype dtype, int64_t cols, int64_t rows,
                float amplitude)
{
    struct synthetic_tensor *t = &s->tensors[s->n_tensors++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->amplitude = amplitude;
    t->view = (struct tensor_view){
        .name = t->name, .dtype = dtype, .n_dims = rows > 1 ? 2 : 1, .dims = {cols, rows, 1, 1}};
    dtype_bytes(dtype, (uint64_t)(cols * rows), &t->view.n_bytes);
    t->offset = s->n_bytes;
    s->n_bytes += (t->view.n_bytes + 63) / 64 * 64;
}

static void add_matrix(struct synthetic *s, const char *name, enum dtype dtype, int64_t cols,
                       int64_t rows)
{
    char full[SYNTHETIC_NAME_MAX];
    /* So that a layer keeps the scale of what goes through it. */
    float amplitude = sqrtf(3.0f / (float)cols);
    snprintf(full, sizeof full, "%s.weight", name);
    if (!s->mlx_bits) {
        add(s, full, dtype, cols, rows, amplitude);
        return;
    }
    add(s, full, DTYPE_U32, cols * s->mlx_bits / 32, rows, 1.0f);
    snprintf(full, sizeof full, "%s.scales", name);
    add(s, full, DTYPE_F16, cols / MLX_GROUP, rows,
        2.0f * amplitude / (float)((1 << s->mlx_bits) - 1));
    snprintf(full, sizeof full, "%s.biases", name);
    add(s, full, DTYPE_F16, cols / MLX_GROUP, rows, amplitude);
}

static void add_norm(struct synthetic *s, const char *name)
{
    add(s, name, DTYPE_F32, s->n_embd, 1, 0.0f);
}

/* The layers whose v and down get more bits: the first and last eighth, and
 * every third of the others. */
static bool wants_more(int32_t i, int32_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static void lay_out(struct synthetic *s, const struct mix *mix)
{
    int64_t embd = s->n_embd, kv = (int64_t)s->n_embd / s->n_heads * s->n_kv_heads;
    bool mlx = s->mlx_bits != 0;
    add_matrix(s, mlx ? "model.embed_tokens" : "token_embd", mix->base, embd, s->n_vocab);
    for (int32_t i = 0; i < s->n_layers; i++) {
        enum dtype more = wants_more(i, s->n_layers) ? mix->more : mix->base;
        const struct {
            const char *gguf, *hf;
            enum dtype dtype;
            int64_t cols, rows;
        } matrices[] = {
            {"attn_q", "self_attn.q_proj", mix->base, embd, embd},
            {"attn_k", "self_attn.k_proj", mix->base, embd, kv},
            {"attn_v", "self_attn.v_proj", more, embd, kv},
            {"attn_output", "self_attn.o_proj", mix->base, embd, embd},
            {"ffn_gate", "mlp.gate_proj", mix->base, embd, s->n_ff},
            {"ffn_up", "mlp.up_proj", mix->base, embd, s->n_ff},
            {"ffn_down", "mlp.down_proj", more, s->n_ff, embd},
        };
        char name[SYNTHETIC_NAME_MAX];
        snprintf(name, sizeof name,
                 mlx ? "model.layers.%d.input_layernorm.weight" : "blk.%d.attn_norm.weight", i);
        add_norm(s, name);
        snprintf(name, sizeof name,
                 mlx ? "model.layers.%d.post_attention_layernorm.weight" : "blk.%d.ffn_norm.weight",
                 i);
        add_norm(s, name);
        static const char *const post[] = {"attention", "ffw"};
        for (size_t k = 0; synthetic_is_gemma(s) && k < 2; k++) {
            snprintf(name, sizeof name, "blk.%d.post_%s_norm.weight", i, post[k]);
            add_norm(s, name);
        }
        for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++) {
            snprintf(name, sizeof name, "%s%d.%s", mlx ? "model.layers." : "blk.", i,
                     mlx ? matrices[k].hf : matrices[k].gguf);
            add_matrix(s, name, matrices[k].dtype, matrices[k].cols, matrices[k].rows);
        }
    }
    add_norm(s, mlx ? "model.norm.weight" : "output_norm.weight");
    if (!synthetic_is_gemma(s)) /* it ties its output to the embedding */
        add_matrix(s, mlx ? "lm_head" : "output", mix->output, embd, s->n_vocab);
}

static void add_vector(struct synthetic *s, const char *name, int64_t n, float amplitude)
{
    add(s, name, DTYPE_F32, n, 1, amplitude);
}

static void lay_out_bert(struct synthetic *s, const struct mix *mix)
{
    int64_t embd = s->n_embd, ff = s->n_ff;
    add_matrix(s, "token_embd", mix->base, embd, s->n_vocab);
    add_matrix(s, "token_types", DTYPE_F32, embd, 2);
    add_matrix(s, "position_embd", DTYPE_F32, embd, s->n_ctx);
    add_norm(s, "token_embd_norm.weight");
    add_vector(s, "token_embd_norm.bias", embd, 0.1f);
    for (int32_t i = 0; i < s->n_layers; i++) {
        const struct {
            const char *name;
            int64_t cols, rows;
        } matrices[] = {{"attn_q", embd, embd}, {"attn_k", embd, embd},
                        {"attn_v", embd, embd}, {"attn_output", embd, embd},
                        {"ffn_up", embd, ff},   {"ffn_down", ff, embd}};
        static const char *const norms[] = {"attn_output_norm", "layer_output_norm"};
        char name[SYNTHETIC_NAME_MAX];
        for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++) {
            snprintf(name, sizeof name, "blk.%d.%s", i, matrices[k].name);
            add_matrix(s, name, mix->base, matrices[k].cols, matrices[k].rows);
            snprintf(name, sizeof name, "blk.%d.%s.bias", i, matrices[k].name);
            add_vector(s, name, matrices[k].rows, 0.1f);
        }
        for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", i, norms[k]);
            add_norm(s, name);
            snprintf(name, sizeof name, "blk.%d.%s.bias", i, norms[k]);
            add_vector(s, name, embd, 0.1f);
        }
    }
}

static bool check(const struct synthetic *s, const struct mix *mix, struct error *err)
{
    int32_t block = s->mlx_bits ? MLX_GROUP : 1;
    enum dtype types[] = {mix->base, mix->more, mix->output};
    for (size_t i = 0; i < 3 && !s->mlx_bits; i++)
        if (dtype_info(types[i])->block_len > block)
            block = dtype_info(types[i])->block_len;
    if (s->n_heads % s->n_kv_heads || s->n_embd % s->n_heads || s->n_embd / s->n_heads % 2)
        return error_set(err, ERR_INVALID,
                         "synthetic model: %d heads, %d KV heads and a width of %d do not go "
                         "together",
                         s->n_heads, s->n_kv_heads, s->n_embd);
    if (synthetic_is_bert(s) && (s->mlx_bits || s->n_kv_heads != s->n_heads))
        return error_set(err, ERR_INVALID,
                         "synthetic model: a bert has GGUF's types, and as many KV heads as heads");
    if (synthetic_is_gemma(s) ? s->mlx_bits != 0 : s->n_window != SYNTHETIC_WINDOW)
        return error_set(err, ERR_INVALID,
                         "synthetic model: only a gemma2 has a window, and it has GGUF's types");
    if (s->n_embd % block || s->n_ff % block)
        return error_set(err, ERR_INVALID,
                         "synthetic model: widths must be multiples of %d for type %s", block,
                         s->type);
    return true;
}

bool synthetic_parse(const char *spec, struct synthetic *s, struct error *err)
{
    char part[64], family[64];
    const char *at = spec;
    *s = (struct synthetic){.n_window = SYNTHETIC_WINDOW};
    if (!take(&at, family, sizeof family) ||
        (strcmp(family, "llama") != 0 && strcmp(family, "gemma2") != 0 &&
         strcmp(family, "bert") != 0))
        return error_set(err, ERR_INVALID,
                         "synthetic model '%s': it must be llama:SIZE:TYPE, like llama:1b:q4_k_m, "
                         "gemma2:SIZE:TYPE or bert:SIZE:TYPE, like bert:bge-small:f16",
                         spec);
    if (!take(&at, part, sizeof part))
        part[0] = '\0';
    if (!find_size(s, family, part, err))
        return false;
    if (!take(&at, part, sizeof part))
        part[0] = '\0';
    struct mix mix;
    if (!find_mix(s, part, &mix, err))
        return false;
    while (*at)
        if (!take(&at, part, sizeof part) || !set_key(s, part, err))
            return false;
    if (!check(s, &mix, err))
        return false;
    s->tensors = calloc((size_t)s->n_layers * 23 + 8, sizeof *s->tensors);
    if (!s->tensors)
        return error_memory(err);
    (synthetic_is_bert(s) ? lay_out_bert : lay_out)(s, &mix);
    return true;
}

void synthetic_free(struct synthetic *s)
{
    free(s->tensors);
    *s = (struct synthetic){0};
}

/* ---- weights ------------------------------------------------------------------------------ */

/* As many elements are made as a processor's caches hold, and repeated: what
 * matters to speed is their place, not their value. */
enum { PATTERN = 1 << 18 };

static void fill_one(struct synthetic_tensor *t, size_t number, unsigned char *data)
{
    const struct dtype_info *info = dtype_info(t->view.dtype);
    size_t n = t->view.n_bytes / info->block_bytes * info->block_len;
    uint64_t state = 0x9E3779B97F4A7C15u * (number + 1);
    t->view.data = data;
    if (t->amplitude == 0.0f) {
        for (size_t i = 0; i < n; i++)
            memcpy(data + i * sizeof(float), &(float){1.0f}, sizeof(float));
        return;
    }
    size_t made = n < PATTERN ? n : PATTERN;
    dtype_fill_random(t->view.dtype, data, made, t->amplitude, &state);
    size_t bytes = made / info->block_len * info->block_bytes;
    for (size_t at = bytes; at < t->view.n_bytes; at += bytes) {
        size_t left = t->view.n_bytes - at;
        memcpy(data + at, data, left < bytes ? left : bytes);
    }
}

struct fill_arg {
    struct synthetic *s;
    unsigned char *memory;
};

static void fill_some(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct fill_arg *a = arg;
    for (size_t i = begin; i < end; i++)
        fill_one(&a->s->tensors[i], i, a->memory + a->s->tensors[i].offset);
}

void synthetic_fill(struct synthetic *s, unsigned char *memory, struct worker_pool *pool)
{
    struct fill_arg a = {s, memory};
    worker_pool_each(pool, s->n_tensors, 1, fill_some, &a);
}

/* ---- the model ------------------------------------------------------------------------------ */

static const struct tensor_view *find_tensor(const void *arg, const char *name)
{
    const struct synthetic *s = arg;
    for (size_t i = 0; i < s->n_tensors; i++)
        if (strcmp(s->tensors[i].name, name) == 0)
            return &s->tensors[i].view;
    return NULL;
}

static bool make_hparams(const struct synthetic *s, struct arena *arena, struct hparams *h,
                         struct error *err)
{
    hparams_defaults(h, arch_by_name(s->family, strlen(s->family)));
    if (synthetic_is_bert(s)) {
        h->pooling = POOLING_CLS;
        h->norm_eps = SYNTHETIC_BERT_EPS;
    }
    if (synthetic_is_gemma(s)) {
        h->norm_eps = SYNTHETIC_EPS;
        h->n_swa = s->n_window;
        h->attn_soft_cap = SYNTHETIC_ATTN_CAP;
        h->final_soft_cap = SYNTHETIC_FINAL_CAP;
    }
    h->is_hf = s->mlx_bits != 0;
    h->n_ctx_train = s->n_ctx;
    h->n_embd = s->n_embd;
    h->n_layers = s->n_layers;
    h->n_heads = s->n_heads;
    h->n_kv_heads = s->n_kv_heads;
    h->n_ff = s->n_ff;
    h->layers = arena_alloc_array(arena, (size_t)s->n_layers, sizeof *h->layers);
    if (!h->layers)
        return error_memory(err);
    for (int32_t i = 0; i < s->n_layers; i++)
        h->layers[i] = (struct layer_hparams){
            .n_heads = s->n_heads, .n_kv_heads = s->n_kv_heads, .n_ff = s->n_ff, .use_rope = true};
    return hparams_finish(h, err);
}

static bool build(struct model *m, struct synthetic *s, const struct model_settings *settings,
                  struct worker_pool *pool, struct error *err)
{
    void *memory =
        mmap(NULL, s->n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(err, ERR_MEMORY, "no memory for a synthetic model of %zu MiB",
                         s->n_bytes >> 20);
    m->owned = memory;
    m->owned_bytes = s->n_bytes;
    synthetic_fill(s, memory, pool);
    json_t *config = s->mlx_bits ? json_pack("{s:{s:i,s:i}}", "quantization", "bits",
                                             (int)s->mlx_bits, "group_size", (int)MLX_GROUP)
                                 : NULL;
    struct tensor_source source = {find_tensor, s, "synthetic model", NULL, config};
    bool ok = make_hparams(s, &m->arena, &m->h, err) &&
              weights_bind(&source, &m->h, &m->arena, &m->w, err) &&
              (!settings || !settings->repack ||
               weights_prepare(&m->w, &m->h, NULL, pool, settings->progress, err));
    json_decref(config);
    if (!ok)
        return false;
    for (size_t i = 0; i < s->n_tensors; i++) {
        const struct tensor_view *t = &s->tensors[i].view;
        bool packed = t->dtype == DTYPE_U32, aside = s->mlx_bits && t->dtype == DTYPE_F16;
        m->info.n_bytes += t->n_bytes;
        if (!aside)
            m->info.n_params +=
                (uint64_t)(t->dims[0] * t->dims[1]) * (packed ? 32u / (uint32_t)s->mlx_bits : 1u);
    }
    char *size = arena_duplicate(&m->arena, slice_of(s->size));
    char *type = arena_duplicate(&m->arena, slice_of(s->type));
    if (!size || !type)
        return error_memory(err);
    model_describe(m, "synthetic", size, type);
    return true;
}

bool model_synthetic(const char *spec, const struct model_settings *settings,
                     struct worker_pool *pool, struct model **out, struct error *err)
{
    struct synthetic s;
    *out = NULL;
    if (!synthetic_parse(spec, &s, err))
        return false;
    struct model *m = calloc(1, sizeof *m);
    bool ok = m ? build(m, &s, settings, pool, err) : error_memory(err);
    synthetic_free(&s);
    if (!ok) {
        model_free(m);
        return false;
    }
    *out = m;
    return true;
}
