/* weights.c - a model's tensors, bound to the places where they are used. */
#include "model/weights.h"

#include "model/bind.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool needs(const struct binder *b, enum weight_id id)
{
    return (b->h->arch->needs & WEIGHT_BIT(id)) != 0;
}

static bool allows(const struct binder *b, enum weight_id id)
{
    return ((b->h->arch->needs | b->h->arch->may) & WEIGHT_BIT(id)) != 0;
}

/* A norm of n weights; there is none where the architecture has none. */
static bool bind_norm(const struct binder *b, enum weight_id id, int32_t layer, int64_t n,
                      struct norm *out)
{
    *out = (struct norm){0};
    if (!allows(b, id))
        return true;
    return bind_vector(b, id, layer, ".weight", n, needs(b, id), &out->weight) &&
           bind_vector(b, id, layer, ".bias", n, false, &out->bias);
}

/* One norm of head_dim for each head, each a tensor of its own (NAME.norms.N). */
static bool bind_head_norms(const struct binder *b, enum weight_id id, int32_t layer,
                            int32_t n_heads, struct norm *out)
{
    size_t dim = (size_t)b->h->head_dim_k;
    float *all = arena_alloc_array(b->arena, (size_t)n_heads * dim, sizeof *all);
    if (!all)
        return error_memory(b->err);
    for (int32_t i = 0; i < n_heads; i++) {
        char suffix[32];
        const float *one;
        snprintf(suffix, sizeof suffix, ".norms.%d.weight", i);
        if (!bind_vector(b, id, layer, suffix, (int64_t)dim, true, &one))
            return false;
        memcpy(all + (size_t)i * dim, one, dim * sizeof *all);
    }
    *out = (struct norm){all, NULL};
    return true;
}

/* Which kind a q or k norm is, its size says. */
static bool bind_qk_norm(const struct binder *b, enum weight_id id, int32_t layer, int32_t n_heads,
                         struct norm *out, enum qk_norm_kind *kind)
{
    char name[BIND_NAME_MAX];
    *out = (struct norm){0};
    *kind = QK_NORM_NONE;
    if (!allows(b, id))
        return true;
    const struct tensor_view *t = bind_find(b, id, layer, BIND_STACKED, ".weight", name);
    int64_t dim = b->h->head_dim_k, n = dim;
    if (!t && b->h->is_hf && bind_find(b, id, layer, BIND_STACKED, ".norms.0.weight", name)) {
        *kind = QK_NORM_PER_HEAD;
        return bind_head_norms(b, id, layer, n_heads, out);
    }
    if (t && t->dims[1] > 1) {
        n = dim * n_heads;
        *kind = QK_NORM_PER_HEAD;
    } else if (t && t->dims[0] == dim * n_heads && n_heads > 1) {
        n = dim * n_heads;
        *kind = QK_NORM_WHOLE;
    } else if (t) {
        *kind = QK_NORM_SHARED;
    }
    return bind_norm(b, id, layer, n, out);
}

/* A matrix of a layer, to where the table of weights says. */
static bool bind_matrix(const struct binder *b, enum weight_id id, int32_t i, int64_t n_rows,
                        int64_t n_cols, int32_t n_experts, bool required, struct layer *l)
{
    return bind_linear(b, id, i, BIND_STACKED, n_rows, n_cols, n_experts, required,
                       weight_linear(l, id));
}

/* ---- attention --------------------------------------------------------------------- */

static bool bind_attention(const struct binder *b, int32_t i, const struct layer_hparams *lh,
                           struct layer *l)
{
    const struct hparams *h = b->h;
    int64_t n_q = (int64_t)lh->n_heads * h->head_dim_k;
    int64_t n_k = (int64_t)lh->n_kv_heads * h->head_dim_k;
    int64_t n_v = (int64_t)lh->n_kv_heads * h->head_dim_v;
    int64_t n_out = (int64_t)lh->n_heads * h->head_dim_v;
    bool fused = allows(b, WEIGHT_ATTN_QKV) && bind_has(b, WEIGHT_ATTN_QKV, i, BIND_STACKED);
    /* Where neither is there, the usual one is what is missing. */
    fused |= needs(b, WEIGHT_ATTN_QKV) && !bind_has(b, WEIGHT_ATTN_Q, i, BIND_STACKED);
    bool ok = fused ? bind_matrix(b, WEIGHT_ATTN_QKV, i, n_q + n_k + n_v, h->n_embd, 1, true, l)
                    : bind_matrix(b, WEIGHT_ATTN_Q, i, n_q, h->n_embd, 1, true, l) &&
                          bind_matrix(b, WEIGHT_ATTN_K, i, n_k, h->n_embd, 1, true, l) &&
                          bind_matrix(b, WEIGHT_ATTN_V, i, n_v, h->n_embd, 1, true, l);
    return ok && bind_matrix(b, WEIGHT_ATTN_OUT, i, h->n_embd, n_out, 1, true, l) &&
           bind_qk_norm(b, WEIGHT_ATTN_Q_NORM, i, lh->n_heads, &l->q_norm, &l->q_norm_kind) &&
           bind_qk_norm(b, WEIGHT_ATTN_K_NORM, i, lh->n_kv_heads, &l->k_norm, &l->k_norm_kind) &&
           (!allows(b, WEIGHT_ATTN_SINKS) ||
            bind_vector(b, WEIGHT_ATTN_SINKS, i, ".weight", lh->n_heads,
                        needs(b, WEIGHT_ATTN_SINKS), &l->sinks));
}

/* ---- feed-forward --------------------------------------------------------------------- */

static bool bind_ffn(const struct binder *b, int32_t i, int32_t n_ff, struct layer *l)
{
    const struct hparams *h = b->h;
    if (n_ff < 1)
        return error_set(b->err, ERR_FORMAT, "%s: layer %d: feed_forward_length is missing",
                         b->source->path, i);
    if (!bind_matrix(b, WEIGHT_FFN_DOWN, i, h->n_embd, n_ff, 1, true, l))
        return false;
    if (h->no_gate)
        return bind_matrix(b, WEIGHT_FFN_UP, i, n_ff, h->n_embd, 1, true, l);
    char name[BIND_NAME_MAX];
    const struct tensor_view *t =
        bind_find(b, WEIGHT_FFN_GATE_UP, i, BIND_STACKED, ".weight", name);
    bool has_gate = bind_has(b, WEIGHT_FFN_GATE, i, BIND_STACKED);
    bool fused = t ? t->dims[1] == 2 * (int64_t)n_ff : needs(b, WEIGHT_FFN_GATE_UP);
    if (fused && !has_gate)
        return bind_matrix(b, WEIGHT_FFN_GATE_UP, i, 2 * (int64_t)n_ff, h->n_embd, 1, true, l);
    return bind_matrix(b, WEIGHT_FFN_GATE, i, n_ff, h->n_embd, 1, true, l) &&
           bind_matrix(b, WEIGHT_FFN_UP, i, n_ff, h->n_embd, 1, true, l);
}

static bool bind_experts(const struct binder *b, enum weight_id id, int32_t i, int64_t n_rows,
                         int64_t n_cols, struct layer *l)
{
    int32_t n = b->h->n_experts;
    struct experts *out = weight_experts(l, id);
    *out = (struct experts){0};
    char name[BIND_NAME_MAX];
    bind_find(b, id, i, 0, ".weight", name);
    bool only_stacked = !name[0]; /* no name with an expert's number */
    if (!bind_linear(b, id, i, BIND_STACKED, n_rows, n_cols, n, only_stacked, &out->stacked))
        return false;
    if (is_bound(&out->stacked))
        return true;
    out->each = arena_alloc_array(b->arena, (size_t)n, sizeof *out->each);
    if (!out->each)
        return error_memory(b->err);
    for (int32_t e = 0; e < n; e++)
        if (!bind_linear(b, id, i, e, n_rows, n_cols, 1, true, &out->each[e]))
            return false;
    return true;
}

static bool bind_shared_expert(const struct binder *b, int32_t i, struct layer *l)
{
    const struct hparams *h = b->h;
    bool present = allows(b, WEIGHT_UP_SHARED) && bind_has(b, WEIGHT_UP_SHARED, i, BIND_STACKED);
    if (!present)
        return !needs(b, WEIGHT_UP_SHARED) ||
               error_set(b->err, ERR_NOT_FOUND, "%s: layer %d has no shared expert",
                         b->source->path, i);
    int32_t n_ff = h->n_ff_shared ? h->n_ff_shared : h->layers[i].n_ff;
    return bind_matrix(b, WEIGHT_GATE_SHARED, i, n_ff, h->n_embd, 1, true, l) &&
           bind_matrix(b, WEIGHT_UP_SHARED, i, n_ff, h->n_embd, 1, true, l) &&
           bind_matrix(b, WEIGHT_DOWN_SHARED, i, h->n_embd, n_ff, 1, true, l) &&
           (!allows(b, WEIGHT_SHARED_ROUTER) ||
            bind_matrix(b, WEIGHT_SHARED_ROUTER, i, 1, h->n_embd, 1, needs(b, WEIGHT_SHARED_ROUTER),
                        l));
}

static bool bind_moe(const struct binder *b, int32_t i, struct layer *l)
{
    const struct hparams *h = b->h;
    l->is_moe = true;
    if (h->n_experts < 1 || h->n_ff_exp < 1)
        return error_set(b->err, ERR_FORMAT,
                         "%s: layer %d has experts, but the hyperparameters know of none",
                         b->source->path, i);
    if (!bind_matrix(b, WEIGHT_ROUTER, i, h->n_experts, h->n_embd, 1, true, l) ||
        !bind_vector(b, WEIGHT_ROUTER_BIAS, i, ".bias", h->n_experts, false, &l->router_bias) ||
        !bind_experts(b, WEIGHT_DOWN_EXPS, i, h->n_embd, h->n_ff_exp, l))
        return false;
    char name[BIND_NAME_MAX];
    bool fused = bind_has(b, WEIGHT_GATE_UP_EXPS, i, BIND_STACKED) ||
                 (h->is_hf && bind_find(b, WEIGHT_GATE_UP_EXPS, i, BIND_STACKED, "_blocks", name));
    l->gate_up_interleaved = fused && h->swiglu_oai;
    bool gated = !h->no_gate;
    bool ok = fused
                  ? bind_experts(b, WEIGHT_GATE_UP_EXPS, i, 2 * (int64_t)h->n_ff_exp, h->n_embd, l)
                  : (!gated || bind_experts(b, WEIGHT_GATE_EXPS, i, h->n_ff_exp, h->n_embd, l)) &&
                        bind_experts(b, WEIGHT_UP_EXPS, i, h->n_ff_exp, h->n_embd, l);
    return ok && bind_shared_expert(b, i, l);
}

static bool bind_layer(const struct binder *b, int32_t i, struct layer *l)
{
    const struct hparams *h = b->h;
    const struct layer_hparams *lh = &h->layers[i];
    bool experts = allows(b, WEIGHT_ROUTER) && bind_has(b, WEIGHT_ROUTER, i, BIND_STACKED);
    bool dense = allows(b, WEIGHT_FFN_UP) &&
                 (h->n_experts == 0 || bind_has(b, WEIGHT_FFN_UP, i, BIND_STACKED) ||
                  bind_has(b, WEIGHT_FFN_GATE_UP, i, BIND_STACKED));
    if (!experts && !dense) {
        char name[BIND_NAME_MAX];
        bind_find(b, WEIGHT_ROUTER, i, BIND_STACKED, ".weight", name);
        return error_set(b->err, ERR_NOT_FOUND, "%s: missing tensor '%s'", b->source->path, name);
    }
    return bind_norm(b, WEIGHT_ATTN_NORM, i, h->n_embd, &l->attn_norm) &&
           bind_norm(b, WEIGHT_ATTN_POST_NORM, i, h->n_embd, &l->attn_post_norm) &&
           bind_norm(b, WEIGHT_ATTN_POST_NORM_2, i, h->n_embd, &l->attn_post_norm_2) &&
           bind_norm(b, WEIGHT_FFN_NORM, i, h->n_embd, &l->ffn_norm) &&
           bind_norm(b, WEIGHT_FFN_POST_NORM, i, h->n_embd, &l->ffn_post_norm) &&
           bind_attention(b, i, lh, l) &&
           (experts ? bind_moe(b, i, l) : bind_ffn(b, i, lh->n_ff, l));
}

/* ---- the whole -------------------------------------------------------------------------- */

static bool bind_optional(const struct binder *b, enum weight_id id, int64_t n_rows, int64_t n_cols,
                          struct weights *w)
{
    struct linear *out = weight_global(w, id);
    *out = (struct linear){0};
    return !allows(b, id) ||
           bind_linear(b, id, BIND_GLOBAL, BIND_STACKED, n_rows, n_cols, 1, needs(b, id), out);
}

/* The vocabulary is as large as the embedding has rows. */
static bool find_vocab(const struct binder *b, struct weights *w)
{
    char name[BIND_NAME_MAX];
    const struct tensor_view *t =
        bind_find(b, WEIGHT_TOKEN_EMBD, BIND_GLOBAL, BIND_STACKED, ".weight", name);
    if (!t)
        return error_set(b->err, ERR_NOT_FOUND, "%s: missing tensor '%s'", b->source->path, name);
    if (t->dims[1] < 1 || t->dims[1] > 1 << 26)
        return error_set(b->err, ERR_FORMAT,
                         "%s: tensor '%s' has %" PRId64 " rows, which no vocabulary has",
                         b->source->path, name, t->dims[1]);
    w->n_vocab = (int32_t)t->dims[1];
    return true;
}

static bool bind_output(const struct binder *b, struct weights *w)
{
    const struct hparams *h = b->h;
    if (h->is_encoder)
        return true;
    bool tie =
        h->arch->traits & ARCH_MUST_TIE ||
        (h->is_hf && json_is_true(json_object_get(b->source->config, "tie_word_embeddings")));
    if (!tie && !bind_linear(b, WEIGHT_OUTPUT, BIND_GLOBAL, BIND_STACKED, w->n_vocab, h->n_embd, 1,
                             needs(b, WEIGHT_OUTPUT) && !h->is_hf, weight_global(w, WEIGHT_OUTPUT)))
        return false;
    if (!is_bound(&w->output)) {
        w->output.matrix = w->token_embd.matrix;
        w->output_is_token_embd = true;
    }
    return true;
}

/* How many rows a global matrix has; 0: it is absent, or no matrix. */
static int64_t rows_of(const struct binder *b, enum weight_id id)
{
    char name[BIND_NAME_MAX];
    const struct tensor_view *t =
        allows(b, id) ? bind_find(b, id, BIND_GLOBAL, BIND_STACKED, ".weight", name) : NULL;
    return t ? t->dims[1] : 0;
}

/* A classifier out of two rows of the output layer. */
static bool bind_yes_no(const struct binder *b, struct weights *w)
{
    enum { N = 2 };
    size_t n_embd = (size_t)b->h->n_embd;
    float *rows = arena_alloc_array(b->arena, N * n_embd, sizeof *rows);
    if (!rows)
        return error_memory(b->err);
    for (size_t i = 0; i < N; i++) {
        int32_t id = b->h->yes_no[i];
        if (id < 0 || id >= w->n_vocab)
            return error_set(b->err, ERR_FORMAT, "%s: the vocabulary has no token %d to rank by",
                             b->source->path, id);
        matrix_row(&w->output.matrix, 0, id, rows + i * n_embd);
    }
    return matrix_plain(&w->cls_out.matrix, DTYPE_F32, N, (int32_t)n_embd, 1, rows,
                        N * n_embd * sizeof *rows, b->err);
}

/* What makes scores or other vectors of pooled ones. A folder's classifier has
 * as many labels as rows. */
static bool bind_heads(const struct binder *b, struct weights *w)
{
    const struct hparams *h = b->h;
    int64_t n_embd = h->n_embd, n_labels = h->is_hf ? rows_of(b, WEIGHT_CLS_OUT) : h->n_labels;
    int64_t n_cls = rows_of(b, WEIGHT_CLS) == 1 ? 1 : n_embd; /* a head of one score, no more */
    if (n_labels > n_embd)
        return error_set(b->err, ERR_FORMAT, "%s: a classifier of %" PRId64 " labels; at most %d",
                         b->source->path, n_labels, h->n_embd);
    if (!bind_optional(b, WEIGHT_CLS, n_cls, n_embd, w) ||
        !bind_norm(b, WEIGHT_CLS_NORM, BIND_GLOBAL, n_embd, &w->cls_norm) ||
        !bind_optional(b, WEIGHT_CLS_OUT, n_labels, n_embd, w))
        return false;
    if (h->yes_no[0] >= 0 && !bind_yes_no(b, w))
        return false;
    int64_t n_first = h->n_dense[0] ? h->n_dense[0] : n_embd;
    int64_t n_second = h->n_dense[1] ? h->n_dense[1] : n_embd;
    if (!bind_optional(b, WEIGHT_DENSE_1, n_first, n_embd, w) ||
        !bind_optional(b, WEIGHT_DENSE_2, n_second, is_bound(&w->dense[0]) ? n_first : n_embd, w))
        return false;
    for (int i = 0; i < 2; i++)
        if (h->is_hf && h->n_dense[i] && !is_bound(&w->dense[i]))
            return error_set(b->err, ERR_NOT_FOUND,
                             "%s: the weights of the dense layers in modules.json are missing",
                             b->source->path);
    int64_t n_out = is_bound(&w->dense[1]) ? n_second : is_bound(&w->dense[0]) ? n_first : n_embd;
    return n_out == n_embd ||
           error_set(b->err, ERR_UNSUPPORTED,
                     "%s: dense layers that make %" PRId64 " components of %d are not supported",
                     b->source->path, n_out, h->n_embd);
}

static bool bind_globals(const struct binder *b, struct weights *w)
{
    const struct hparams *h = b->h;
    int64_t n_freqs = h->n_rot / 2;
    if (!find_vocab(b, w) ||
        !bind_linear(b, WEIGHT_TOKEN_EMBD, BIND_GLOBAL, BIND_STACKED, w->n_vocab, h->n_embd, 1,
                     true, weight_global(w, WEIGHT_TOKEN_EMBD)) ||
        !bind_output(b, w) ||
        !bind_norm(b, WEIGHT_EMBD_NORM, BIND_GLOBAL, h->n_embd, &w->embd_norm) ||
        !bind_norm(b, WEIGHT_OUTPUT_NORM, BIND_GLOBAL, h->n_embd, &w->output_norm) ||
        !bind_optional(b, WEIGHT_POSITION_EMBD, (int64_t)h->n_ctx_train + h->n_pos_offset,
                       h->n_embd, w) ||
        !bind_heads(b, w))
        return false;
    if (allows(b, WEIGHT_TOKEN_TYPES)) {
        char name[BIND_NAME_MAX];
        const struct tensor_view *t =
            bind_find(b, WEIGHT_TOKEN_TYPES, BIND_GLOBAL, BIND_STACKED, ".weight", name);
        int64_t n = t && t->dims[1] > 0 && t->dims[1] < 1 << 16 ? t->dims[1] : 1;
        if (!bind_optional(b, WEIGHT_TOKEN_TYPES, n, h->n_embd, w))
            return false;
    }
    return (!allows(b, WEIGHT_ROPE_FREQS) ||
            bind_vector(b, WEIGHT_ROPE_FREQS, BIND_GLOBAL, ".weight", n_freqs, false,
                        &w->rope_freqs)) &&
           (!allows(b, WEIGHT_ROPE_LONG) ||
            (bind_vector(b, WEIGHT_ROPE_LONG, BIND_GLOBAL, ".weight", n_freqs, false,
                         &w->rope_long) &&
             bind_vector(b, WEIGHT_ROPE_SHORT, BIND_GLOBAL, ".weight", n_freqs, false,
                         &w->rope_short)));
}

bool weights_bind(const struct tensor_source *source, const struct hparams *h, struct arena *arena,
                  struct weights *w, struct error *err)
{
    struct binder b = {source, h, arena, err, ""};
    *w = (struct weights){0};
    if (h->is_hf)
        binder_find_root(&b);
    if (!bind_globals(&b, w))
        return false;
    if (h->rope.factors)
        w->rope_freqs = h->rope.factors;
    if (h->rope.factors_long) {
        w->rope_long = h->rope.factors_long;
        w->rope_short = h->rope.factors_short;
    }
    w->layers = arena_alloc_array(arena, (size_t)h->n_layers, sizeof *w->layers);
    if (!w->layers)
        return error_memory(err);
    for (int32_t i = 0; i < h->n_layers; i++)
        if (!bind_layer(&b, i, &w->layers[i]))
            return false;
    return true;
}

/* ---- --check-tensors ------------------------------------------------------------------------ */

bool weights_check_finite(const struct model_file *file, struct error *err)
{
    float values[1024];
    for (size_t i = 0; i < model_file_n_tensors(file); i++) {
        const struct tensor_view *t = model_file_tensor_at(file, i);
        const struct dtype_info *info = dtype_info(t->dtype);
        if (!info->can_decode)
            continue;
        size_t step = (size_t)(1024 / info->block_len) * info->block_len;
        size_t n = t->n_bytes / info->block_bytes * info->block_len;
        for (size_t k = 0; k < n; k += step) {
            size_t m = n - k < step ? n - k : step;
            dtype_decode(t->dtype, (const char *)t->data + k / info->block_len * info->block_bytes,
                         values, m);
            for (size_t j = 0; j < m; j++)
                if (!isfinite(values[j]))
                    return error_set(err, ERR_FORMAT,
                                     "%s: tensor '%s' has an invalid number at element %zu",
                                     model_file_path(file), t->name, k + j);
        }
    }
    return true;
}
