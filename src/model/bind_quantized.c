/* bind_quantized.c - matrices that consist of several tensors: the MLX way of
 * quantizing, 8-bit floats with block scales, and gpt-oss's published blocks.
 *
 * MLX: NAME.weight holds 32-bit words of packed values, NAME.scales and (affine)
 * NAME.biases one number per group of columns; config.json's "quantization" says
 * bits, group_size and mode, for all or for one layer by its name. */
#include "model/bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct tensor_view *part(const struct binder *b, const char *base, const char *suffix)
{
    char name[BIND_NAME_MAX + 32];
    snprintf(name, sizeof name, "%s%s", base, suffix);
    return b->source->find(b->source->arg, name);
}

static bool fails(const struct binder *b, const char *base, const char *what)
{
    return error_set(b->err, ERR_FORMAT, "%s: tensor '%s': %s", b->source->path, base, what);
}

/* The last word on a matrix that has been put together. */
static bool check_bound(const struct binder *b, const char *base, struct matrix *m,
                        const struct tensor_view *scales, size_t biases_bytes)
{
    return matrix_check(m, scales->n_bytes, biases_bytes, b->err) ||
           error_prefix(b->err, "%s: tensor '%s'", b->source->path, base);
}

/* The settings that hold for this tensor: its own, or the common ones. */
static const json_t *quantization_of(const struct binder *b, const char *base)
{
    const json_t *all = json_object_get(b->source->config, "quantization");
    if (!json_is_object(all))
        all = json_object_get(b->source->config, "quantization_config");
    const json_t *own = json_object_get(all, base);
    return json_is_object(own) ? own : all;
}

static bool int_setting(const json_t *settings, const char *key, int32_t fallback, int32_t *out)
{
    const json_t *value = json_object_get(settings, key);
    *out = fallback;
    if (!value)
        return true;
    json_int_t i = json_integer_value(value);
    if (!json_is_integer(value) || i < 1 || i > 4096)
        return false;
    *out = (int32_t)i;
    return true;
}

static bool scales_fit(const struct tensor_view *t, int64_t d0, int64_t d1, int64_t d2)
{
    return t->dims[0] == d0 && t->dims[1] == d1 && t->dims[2] == d2 && t->dims[3] == 1;
}

/* The format that config.json's "mode" names; without one, affine. */
static bool mlx_format(const struct binder *b, const char *base, struct slice mode,
                       enum dtype *dtype)
{
    struct str known = {0};
    *dtype = DTYPE_MLX_AFFINE;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const char *name = dtype_info((enum dtype)i)->mlx_mode;
        if (name && mode.len && slice_equal_text(mode, name))
            *dtype = (enum dtype)i;
        else if (name)
            str_append_format(&known, "%s%s", known.len ? ", " : "", name);
    }
    bool ok = !mode.len || slice_equal_text(mode, dtype_info(*dtype)->mlx_mode);
    if (!ok)
        error_set(b->err, ERR_UNSUPPORTED,
                  "%s: tensor '%s': quantization mode \"%.*s\" is not supported; these are: %s",
                  b->source->path, base, (int)(mode.len < 40 ? mode.len : 40), mode.data,
                  str_text(&known));
    str_free(&known);
    return ok;
}

static bool bind_mlx(const struct binder *b, const char *base, const struct tensor_view *weight,
                     const struct tensor_view *scales, int64_t n_rows, int64_t n_cols,
                     int32_t n_experts, struct matrix *m)
{
    const json_t *settings = quantization_of(b, base);
    enum dtype dtype;
    if (!mlx_format(b, base, json_slice(json_object_get(settings, "mode")), &dtype))
        return false;
    const struct dtype_info *info = dtype_info(dtype);
    *m = (struct matrix){.dtype = dtype,
                         .n_rows = (int32_t)n_rows,
                         .n_cols = (int32_t)n_cols,
                         .n_experts = n_experts,
                         .data = weight->data,
                         .n_bytes = weight->n_bytes,
                         .scale_dtype = scales->dtype,
                         .scales = scales->data};
    if (!int_setting(settings, "bits", info->bits, &m->bits) ||
        !int_setting(settings, "group_size", info->group_len, &m->group_size))
        return fails(b, base, "config.json's bits or group_size make no sense");
    if (n_cols % m->group_size || n_cols * m->bits % 32)
        return fails(b, base, "its columns do not divide into groups");
    if (!scales_fit(weight, n_cols * m->bits / 32, n_rows, n_experts) ||
        !scales_fit(scales, n_cols / m->group_size, n_rows, n_experts))
        return error_set(b->err, ERR_FORMAT,
                         "%s: tensor '%s' with %d bits in groups of %d does not have the shape "
                         "that %" PRId64 " x %" PRId64 " calls for",
                         b->source->path, base, m->bits, m->group_size, n_rows, n_cols);
    size_t biases_bytes = 0;
    if (info->has_biases) {
        const struct tensor_view *biases = part(b, base, ".biases");
        if (!biases)
            return fails(b, base, "its .biases are missing");
        if (biases->dtype != scales->dtype || biases->n_bytes != scales->n_bytes)
            return fails(b, base, "its .biases are not like its .scales");
        m->biases = biases->data;
        biases_bytes = biases->n_bytes;
    }
    return check_bound(b, base, m, scales, biases_bytes);
}

static bool bind_f8(const struct binder *b, const char *base, const struct tensor_view *weight,
                    const struct tensor_view *scales, int64_t n_rows, int64_t n_cols,
                    int32_t n_experts, struct matrix *m)
{
    int64_t block_rows = 128, block_cols = 128;
    const json_t *config = json_object_get(b->source->config, "quantization_config");
    const json_t *block = json_object_get(config, "weight_block_size");
    if (json_array_size(block) == 2) {
        block_rows = json_integer_value(json_array_get(block, 0));
        block_cols = json_integer_value(json_array_get(block, 1));
    }
    int64_t n_scales = 1;
    for (int i = 0; i < TENSOR_MAX_DIMS; i++)
        n_scales *= scales->dims[i] < 1 << 20 ? scales->dims[i] : 1 << 20;
    if (n_scales == n_experts) { /* one for the whole matrix */
        block_rows = n_rows;
        block_cols = n_cols;
    } else if (scales->dims[0] == 1 && scales->dims[1] == n_rows) { /* one per row */
        block_rows = 1;
        block_cols = n_cols;
    }
    if (block_rows < 1 || block_cols < 1 || block_rows > n_rows + 4096 ||
        block_cols > n_cols + 4096)
        return fails(b, base, "config.json's weight_block_size makes no sense");
    if (!scales_fit(weight, n_cols, n_rows, n_experts))
        return fails(b, base, "its shape does not fit the model's hyperparameters");
    *m = (struct matrix){.dtype = DTYPE_F8_SCALED,
                         .n_rows = (int32_t)n_rows,
                         .n_cols = (int32_t)n_cols,
                         .n_experts = n_experts,
                         .data = weight->data,
                         .n_bytes = weight->n_bytes,
                         .scale_dtype = scales->dtype,
                         .scales = scales->data,
                         .block_rows = (int32_t)block_rows,
                         .block_cols = (int32_t)block_cols};
    return check_bound(b, base, m, scales, 0);
}

/* NAME_blocks [experts][rows][cols / 32][16] and NAME_scales: the same bytes as
 * MLX's mxfp4. */
static bool bind_blocks(const struct binder *b, const char *base, const struct tensor_view *blocks,
                        const struct tensor_view *scales, int64_t n_rows, int64_t n_cols,
                        int32_t n_experts, struct matrix *m)
{
    bool fits = n_cols % 32 == 0 && blocks->dtype == DTYPE_U8 && blocks->dims[0] == 16 &&
                blocks->dims[1] == n_cols / 32 && blocks->dims[2] == n_rows &&
                blocks->dims[3] == n_experts && scales_fit(scales, n_cols / 32, n_rows, n_experts);
    if (!fits)
        return fails(b, base, "its blocks do not have the shape that the hyperparameters call for");
    *m = (struct matrix){.dtype = DTYPE_MLX_MXFP4,
                         .n_rows = (int32_t)n_rows,
                         .n_cols = (int32_t)n_cols,
                         .n_experts = n_experts,
                         .data = blocks->data,
                         .n_bytes = blocks->n_bytes,
                         .scale_dtype = scales->dtype,
                         .scales = scales->data,
                         .bits = 4,
                         .group_size = 32};
    return check_bound(b, base, m, scales, 0);
}

bool bind_quantized(const struct binder *b, const char *base, const struct tensor_view *weight,
                    int64_t n_rows, int64_t n_cols, int32_t n_experts, struct matrix *m,
                    bool *is_quantized)
{
    const struct tensor_view *scales;
    *is_quantized = true;
    if (weight->dtype == DTYPE_U8) {
        scales = part(b, base, "_scales");
        return scales ? bind_blocks(b, base, weight, scales, n_rows, n_cols, n_experts, m)
                      : fails(b, base, "its _scales are missing");
    }
    if (weight->dtype == dtype_info(DTYPE_MLX_AFFINE)->stored &&
        (scales = part(b, base, ".scales")))
        return bind_mlx(b, base, weight, scales, n_rows, n_cols, n_experts, m);
    bool is_f8 = weight->dtype == dtype_info(DTYPE_F8_SCALED)->stored;
    if (is_f8 && ((scales = part(b, base, ".weight_scale_inv")) ||
                  (scales = part(b, base, ".weight_scale"))))
        return bind_f8(b, base, weight, scales, n_rows, n_cols, n_experts, m);
    const json_t *config = json_object_get(b->source->config, "quantization_config");
    if (is_f8 && slice_equal(json_slice(json_object_get(config, "quant_method")), SLICE("fp8")))
        return error_set(b->err, ERR_NOT_FOUND, "%s: missing tensor '%s.weight_scale_inv'",
                         b->source->path, base);
    *is_quantized = false;
    return true;
}
