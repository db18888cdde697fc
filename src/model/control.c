/* control.c - control vectors: directions that layers add to what they pass on.
 *
 * A file is GGUF with a tensor "direction.N", F32 [n_embd], for layers N from 1.
 * Layer 0 never has one. */
#include "model/context.h"

#include <limits.h>
#include <stdlib.h>

/* N of "direction.N", or -1. */
static int32_t layer_of(const char *name)
{
    static const char prefix[] = "direction.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return -1;
    const char *digits = name + sizeof prefix - 1;
    char *end;
    long n = strtol(digits, &end, 10);
    return end == digits || n < 0 || n > INT32_MAX ? -1 : (int32_t)n;
}

static bool check_tensor(const char *path, const struct tensor_view *tensor, int32_t n_embd,
                         struct error *err)
{
    int32_t layer = layer_of(tensor->name);
    if (layer <= 0)
        return error_set(
            err, ERR_FORMAT,
            "%s: tensor '%s' is not a direction of a layer from 1 ('direction.1', ...)", path,
            tensor->name);
    if (tensor->dtype != DTYPE_F32 || tensor->n_dims != 1)
        return error_set(err, ERR_FORMAT, "%s: tensor '%s' must be one row of F32", path,
                         tensor->name);
    if (tensor->dims[0] != n_embd)
        return error_set(err, ERR_FORMAT,
                         "%s: tensor '%s' has %lld components, the model's layers %d", path,
                         tensor->name, (long long)tensor->dims[0], (int)n_embd);
    return true;
}

/* rows[layer] += scale * direction; layers that the model lacks are left out. */
static bool add_file(const struct hparams *h, const struct control_source *source, float *rows,
                     struct error *err)
{
    struct model_file *file;
    const struct model_file_settings settings = {.loading = FILE_READ};
    if (!model_file_open(source->path, &settings, &file, err))
        return false;
    size_t n = model_file_n_tensors(file);
    bool ok = n > 0 || error_set(err, ERR_FORMAT, "%s: holds no directions", source->path);
    for (size_t i = 0; ok && i < n; i++) {
        const struct tensor_view *tensor = model_file_tensor_at(file, i);
        ok = check_tensor(source->path, tensor, h->n_embd, err);
        int32_t layer = ok ? layer_of(tensor->name) : 0;
        if (ok && layer < h->n_layers)
            vec_add_scaled(rows + (size_t)layer * (size_t)h->n_embd, tensor->data, source->scale,
                           (size_t)h->n_embd);
    }
    model_file_close(file);
    return ok;
}

bool context_set_control(struct model_context *ctx, const struct control_source *sources, size_t n,
                         int32_t first, int32_t last, struct error *err)
{
    const struct hparams *h = &ctx->model->h;
    float *rows = n ? calloc((size_t)h->n_layers * (size_t)h->n_embd, sizeof *rows) : NULL;
    if (n && !rows)
        return error_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (!add_file(h, &sources[i], rows, err)) {
            free(rows);
            return false;
        }
    }
    free(ctx->control.rows);
    ctx->control.rows = rows;
    ctx->control.first = first > 0 ? first : 1;
    ctx->control.last = last > 0 ? last : h->n_layers;
    return true;
}
