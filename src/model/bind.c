/* bind.c - finding one tensor by its weight_id and making a matrix or a vector of it. */
#include "model/bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct tensor_view *find_in_file(const void *arg, const char *name)
{
    return model_file_find_tensor(arg, name);
}

struct tensor_source source_of_file(const struct model_file *file)
{
    return (struct tensor_source){find_in_file, file, model_file_path(file), file,
                                  model_file_config(file)};
}

static const struct tensor_view *look_up(const struct binder *b, const char *name)
{
    return b->source->find(b->source->arg, name);
}

/* ---- names -------------------------------------------------------------------- */

/* Append text[0..len) with "{e}" replaced; false when name is full. */
static bool put(char *name, size_t *n, const char *text, size_t len, int32_t expert)
{
    for (size_t i = 0; i < len; i++) {
        char number[16];
        const char *from = text + i;
        size_t count = 1;
        if (len - i >= 3 && memcmp(text + i, "{e}", 3) == 0) {
            count = (size_t)snprintf(number, sizeof number, "%d", expert);
            from = number;
            i += 2;
        }
        if (*n + count >= BIND_NAME_MAX)
            return false;
        memcpy(name + *n, from, count);
        *n += count;
    }
    name[*n] = '\0';
    return true;
}

static bool put_text(char *name, size_t *n, const char *text)
{
    return put(name, n, text, strlen(text), 0);
}

/* How much of the root a head has in its name: it stands beside the body. */
static size_t head_root_len(const char *root)
{
    size_t n = strlen(root);
    if (n >= 6 && strcmp(root + n - 6, "model.") == 0)
        return n - 6;
    return 0;
}

/* A weight's name by one of its alternatives, without a suffix. */
static bool base_name(const struct binder *b, size_t root_len, int32_t layer, int32_t expert,
                      const char *alternative, size_t len, char *name)
{
    char number[24];
    size_t n = 0;
    name[0] = '\0';
    bool has_expert = false;
    for (size_t i = 0; i + 3 <= len; i++)
        has_expert |= memcmp(alternative + i, "{e}", 3) == 0;
    if (has_expert != (expert != BIND_STACKED))
        return false;
    if (b->h->is_hf && !put(name, &n, b->root, root_len, 0))
        return false;
    if (layer != BIND_GLOBAL) {
        snprintf(number, sizeof number, "%d.", layer);
        const char *layers = !b->h->is_hf            ? "blk."
                             : b->h->arch->hf_layers ? b->h->arch->hf_layers
                                                     : "layers.";
        if (!put_text(name, &n, layers) || !put_text(name, &n, number))
            return false;
    }
    return put(name, &n, alternative, len, expert);
}

/* The tensor of one alternative; first [BIND_NAME_MAX] keeps the name it would
 * have where nothing stands there yet. */
static const struct tensor_view *find_as(const struct binder *b, size_t root_len, int32_t layer,
                                         int32_t expert, struct slice alternative,
                                         const char *suffix, char *name, char *first)
{
    if (!base_name(b, root_len, layer, expert, alternative.data, alternative.len, name))
        return NULL;
    size_t n = strlen(name);
    const struct tensor_view *bare = strcmp(suffix, ".weight") == 0 ? look_up(b, name) : NULL;
    if (!put_text(name, &n, suffix))
        return NULL;
    const struct tensor_view *t = look_up(b, name);
    if (t)
        return t;
    if (!first[0])
        memcpy(first, name, BIND_NAME_MAX);
    if (bare)
        name[n - strlen(suffix)] = '\0';
    return bare;
}

const struct tensor_view *bind_find(const struct binder *b, enum weight_id id, int32_t layer,
                                    int32_t expert, const char *suffix, char *name)
{
    const struct weight_name *names = arch_weight_name(b->h->arch, id);
    const char *all = b->h->is_hf ? names->hf : names->gguf;
    const uint64_t heads = WEIGHT_BIT(WEIGHT_OUTPUT) | WEIGHT_BIT(WEIGHT_CLS) |
                           WEIGHT_BIT(WEIGHT_CLS_NORM) | WEIGHT_BIT(WEIGHT_CLS_OUT) |
                           WEIGHT_BIT(WEIGHT_DENSE_1) | WEIGHT_BIT(WEIGHT_DENSE_2);
    size_t root_len = b->h->is_hf ? strlen(b->root) : 0;
    size_t beside = WEIGHT_BIT(id) & heads ? head_root_len(b->h->is_hf ? b->root : "") : root_len;
    char first[BIND_NAME_MAX] = "";
    while (all && *all) {
        struct slice alternative = {all, strcspn(all, "|")};
        const struct tensor_view *t =
            find_as(b, beside, layer, expert, alternative, suffix, name, first);
        if (!t && beside != root_len)
            t = find_as(b, root_len, layer, expert, alternative, suffix, name, first);
        if (t)
            return t;
        all += alternative.len + (all[alternative.len] == '|');
    }
    memcpy(name, first, sizeof first);
    return NULL;
}

bool bind_has(const struct binder *b, enum weight_id id, int32_t layer, int32_t expert)
{
    char name[BIND_NAME_MAX];
    return bind_find(b, id, layer, expert, ".weight", name) != NULL;
}

void binder_find_root(struct binder *b)
{
    static const char *const roots[] = {"model.",
                                        "language_model.model.",
                                        "model.language_model.",
                                        "bert.",
                                        "roberta.",
                                        "transformer.",
                                        ""};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        b->root = roots[i];
        if (bind_has(b, WEIGHT_TOKEN_EMBD, BIND_GLOBAL, BIND_STACKED))
            return;
    }
    b->root = roots[0];
}

/* ---- vectors ------------------------------------------------------------------- */

static int64_t n_elements(const struct tensor_view *t)
{
    int64_t n = 1;
    for (int i = 0; i < TENSOR_MAX_DIMS; i++)
        if (__builtin_mul_overflow(n, t->dims[i], &n))
            return -1;
    return n;
}

static bool is_missing(const struct binder *b, const char *name)
{
    return error_set(b->err, ERR_NOT_FOUND, "%s: missing tensor '%s'", b->source->path, name);
}

static bool has_shape(const struct binder *b, const struct tensor_view *t, int64_t d0, int64_t d1,
                      int64_t d2)
{
    if (t->dims[0] == d0 && t->dims[1] == d1 && t->dims[2] == d2 && t->dims[3] == 1)
        return true;
    return error_set(
        b->err, ERR_FORMAT,
        "%s: tensor '%s' has the shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
        "] where the model's hyperparameters call for [%" PRId64 ", %" PRId64 ", %" PRId64 ", 1]",
        b->source->path, t->name, t->dims[0], t->dims[1], t->dims[2], t->dims[3], d0, d1, d2);
}

static bool is_norm(enum weight_id id)
{
    return WEIGHT_BIT(id) & (WEIGHT_BIT(WEIGHT_OUTPUT_NORM) | WEIGHT_BIT(WEIGHT_ATTN_NORM) |
                             WEIGHT_BIT(WEIGHT_FFN_NORM) | WEIGHT_BIT(WEIGHT_ATTN_Q_NORM) |
                             WEIGHT_BIT(WEIGHT_ATTN_K_NORM) | WEIGHT_BIT(WEIGHT_ATTN_POST_NORM) |
                             WEIGHT_BIT(WEIGHT_FFN_POST_NORM));
}

bool bind_vector(const struct binder *b, enum weight_id id, int32_t layer, const char *suffix,
                 int64_t n, bool required, const float **out)
{
    char name[BIND_NAME_MAX];
    *out = NULL;
    const struct tensor_view *t = bind_find(b, id, layer, BIND_STACKED, suffix, name);
    if (!t && b->h->is_hf && strcmp(suffix, ".bias") == 0)
        t = bind_find(b, id, layer, BIND_STACKED, "_bias", name);
    if (!t)
        return !required || is_missing(b, name);
    if (n_elements(t) != n)
        return error_set(b->err, ERR_FORMAT,
                         "%s: tensor '%s' holds %" PRId64
                         " numbers where the model's hyperparameters call for %" PRId64,
                         b->source->path, t->name, n_elements(t), n);
    bool plus_one = b->h->is_hf && b->h->arch->traits & ARCH_NORM_PLUS_ONE && is_norm(id) &&
                    strcmp(suffix, ".weight") == 0;
    if (t->dtype == DTYPE_F32 && !plus_one) {
        *out = t->data;
        return true;
    }
    if (!dtype_info(t->dtype)->can_decode || n % dtype_info(t->dtype)->block_len)
        return error_set(b->err, ERR_UNSUPPORTED,
                         "%s: tensor '%s' is of type %s; it is not supported for vectors",
                         b->source->path, t->name, dtype_info(t->dtype)->name);
    float *values = arena_alloc_array(b->arena, (size_t)n, sizeof *values);
    if (!values)
        return error_memory(b->err);
    dtype_decode(t->dtype, t->data, values, (size_t)n);
    for (int64_t i = 0; plus_one && i < n; i++)
        values[i] += 1.0f;
    *out = values;
    return true;
}

/* ---- matrices ------------------------------------------------------------------- */

static bool bind_bias(const struct binder *b, enum weight_id id, int32_t layer, int32_t expert,
                      int64_t n, struct linear *out)
{
    char name[BIND_NAME_MAX];
    if (expert == BIND_STACKED)
        return bind_vector(b, id, layer, ".bias", n, false, &out->bias);
    if (bind_find(b, id, layer, expert, ".bias", name))
        return error_set(b->err, ERR_UNSUPPORTED,
                         "%s: tensor '%s': biases of single experts are "
                         "not supported",
                         b->source->path, name);
    return true;
}

/* Matrices that may have a factor beside them: GGUF's NAME.scale. The reference
 * multiplies the bias of the dense FFN by it, too. */
static bool bind_scale(const struct binder *b, enum weight_id id, int32_t layer, int32_t n_experts,
                       struct linear *out)
{
    const uint64_t ffn = WEIGHT_BIT(WEIGHT_FFN_GATE) | WEIGHT_BIT(WEIGHT_FFN_UP) |
                         WEIGHT_BIT(WEIGHT_FFN_GATE_UP) | WEIGHT_BIT(WEIGHT_FFN_DOWN) |
                         WEIGHT_BIT(WEIGHT_GATE_SHARED) | WEIGHT_BIT(WEIGHT_UP_SHARED) |
                         WEIGHT_BIT(WEIGHT_DOWN_SHARED);
    const uint64_t others =
        WEIGHT_BIT(WEIGHT_ATTN_Q) | WEIGHT_BIT(WEIGHT_ATTN_K) | WEIGHT_BIT(WEIGHT_ATTN_V) |
        WEIGHT_BIT(WEIGHT_ATTN_QKV) | WEIGHT_BIT(WEIGHT_ATTN_OUT) | WEIGHT_BIT(WEIGHT_GATE_EXPS) |
        WEIGHT_BIT(WEIGHT_UP_EXPS) | WEIGHT_BIT(WEIGHT_DOWN_EXPS) | WEIGHT_BIT(WEIGHT_OUTPUT);
    if (b->h->is_hf || !(WEIGHT_BIT(id) & (ffn | others)))
        return true;
    if (!bind_vector(b, id, layer, ".scale", n_experts, false, &out->scale))
        return false;
    if (!out->scale || !out->bias || !(WEIGHT_BIT(id) & ffn))
        return true;
    size_t n = (size_t)out->matrix.n_rows;
    float *scaled = arena_alloc_array(b->arena, n, sizeof *scaled);
    if (!scaled)
        return error_memory(b->err);
    vec_scale(out->bias, *out->scale, n, scaled);
    out->bias = scaled;
    return true;
}

/* gpt-oss's unquantized experts lie as [expert][column][row]: a copy that is turned
 * round. Only its own names, without ".weight", are so. */
static bool turn_experts(const struct binder *b, struct tensor_view *t, int64_t n_rows,
                         int64_t n_cols, int32_t n_experts)
{
    size_t item = dtype_info(t->dtype)->block_bytes;
    size_t rows = (size_t)n_rows, cols = (size_t)n_cols;
    if (dtype_info(t->dtype)->block_len != 1 || !has_shape(b, t, n_rows, n_cols, n_experts))
        return has_shape(b, t, n_rows, n_cols, n_experts);
    char *turned = arena_alloc_array(b->arena, t->n_bytes, 1);
    if (!turned)
        return error_memory(b->err);
    for (size_t e = 0; e < (size_t)n_experts; e++) {
        const char *from = (const char *)t->data + e * rows * cols * item;
        char *to = turned + e * rows * cols * item;
        for (size_t c = 0; c < cols; c++)
            for (size_t r = 0; r < rows; r++)
                memcpy(to + (r * cols + c) * item, from + (c * rows + r) * item, item);
    }
    t->data = turned;
    t->dims[0] = n_cols;
    t->dims[1] = n_rows;
    return true;
}

static bool are_turned(const struct binder *b, const struct tensor_view *t, int32_t n_experts)
{
    return b->h->is_hf && n_experts > 1 && b->h->arch->traits & ARCH_TURNED_EXPERTS &&
           !slice_ends_with(slice_of(t->name), SLICE(".weight"));
}

bool bind_linear(const struct binder *b, enum weight_id id, int32_t layer, int32_t expert,
                 int64_t n_rows, int64_t n_cols, int32_t n_experts, bool required,
                 struct linear *out)
{
    char name[BIND_NAME_MAX];
    *out = (struct linear){0};
    const struct tensor_view *t = bind_find(b, id, layer, expert, ".weight", name);
    bool is_quantized = false;
    if (b->h->is_hf) {
        char base[BIND_NAME_MAX];
        const char *suffix = ".weight";
        const struct tensor_view *packed = t;
        memcpy(base, name, sizeof base);
        if (!t) {
            packed = bind_find(b, id, layer, expert, "_blocks", base);
            suffix = "_blocks";
        }
        size_t n = strlen(base), cut = strlen(suffix);
        if (n > cut && strcmp(base + n - cut, suffix) == 0)
            base[n - cut] = '\0';
        if (packed && !bind_quantized(b, base, packed, n_rows, n_cols, n_experts, &out->matrix,
                                      &is_quantized))
            return false;
    }
    if (!t && !is_quantized)
        return !required || is_missing(b, name);
    if (!is_quantized) {
        struct tensor_view own = *t;
        if (are_turned(b, t, n_experts) && !turn_experts(b, &own, n_rows, n_cols, n_experts))
            return false;
        if (!has_shape(b, &own, n_cols, n_rows, n_experts))
            return false;
        if (!matrix_plain(&out->matrix, own.dtype, (int32_t)n_rows, (int32_t)n_cols, n_experts,
                          own.data, own.n_bytes, b->err))
            return error_prefix(b->err, "%s: tensor '%s'", b->source->path, t->name);
    }
    return bind_bias(b, id, layer, expert, n_rows * n_experts, out) &&
           (expert != BIND_STACKED || bind_scale(b, id, layer, n_experts, out));
}
