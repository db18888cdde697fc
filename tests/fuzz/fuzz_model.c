/* fuzz_model.c - a folder's config.json, a NUL, and its safetensors, any bytes
 * at all: the model is refused with a reason, or it computes. */
#include "files/model_file.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compute(struct model *model, struct worker_pool *pool)
{
    struct context_settings s = context_settings_default();
    struct model_context *ctx;
    struct error err = {0};
    s.n_ctx = 256;
    s.n_batch = s.n_ubatch = 4;
    s.pool = pool;
    if (model_info(model)->n_embd > 4096 || !context_create(model, &s, &ctx, &err))
        return;
    int32_t token[] = {0, 1, 0}, pos[] = {0, 1, 7}, seq[] = {0, 0, 0};
    struct batch b = {model_info(model)->n_vocab > 1 ? 3 : 1, token, pos, seq, NULL, NULL, NULL};
    if (!model_decode(ctx, &b, &err) && !err.message[0])
        abort();
    context_free(ctx);
}

static bool fill(struct model_file *file, const uint8_t *data, size_t size, struct error *err)
{
    const uint8_t *nul = memchr(data, 0, size);
    size_t n = nul ? (size_t)(nul - data) : size;
    file->config = json_parse((struct slice){(const char *)data, n}, err);
    return file->config && json_is_object(file->config) && nul &&
           safetensors_parse(file, "fuzz/model.safetensors", nul + 1, size - n - 1, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct worker_pool *pool;
    struct error err = {0};
    struct worker_settings one = {.n_threads = 1};
    if (!pool && !(pool = worker_pool_create(&one, &err)))
        abort();
    /* Tensors must be aligned as in a file's mapping, whatever the config's length. */
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t shift = nul ? 64 - (size_t)(nul + 1 - data) % 64 : 0;
    uint8_t *copy = aligned_alloc(64, (size + shift + 63) / 64 * 64 + 64);
    struct model_file *file = model_file_new(MODEL_FILE_FOLDER, "fuzz", &err);
    if (!copy || !file)
        abort();
    memcpy(copy + shift, data, size);
    struct model *model;
    if (fill(file, copy + shift, size, &err)) {
        if (model_load(file, NULL, pool, &model, &err)) {
            compute(model, pool);
            model_free(model);
        } else if (err.code == ERR_NONE || !err.message[0]) {
            abort(); /* a refusal says why */
        }
    }
    model_file_close(file);
    free(copy);
    return 0;
}
