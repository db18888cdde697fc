#include "unit/model/helpers.h"

#include <math.h>

const int32_t short_prompt[5] = {1, 403, 407, 261, 378};
const int32_t long_prompt[42] = {1,   403, 407, 261, 378, 432, 383, 286, 261, 376, 298,
                                 315, 421, 395, 317, 426, 338, 401, 396, 267, 337, 410,
                                 408, 419, 292, 411, 322, 265, 282, 295, 433, 335, 311,
                                 352, 266, 268, 388, 269, 311, 400, 428, 426};

struct loaded load_file(const char *path, const struct context_settings *s, int32_t n_threads)
{
    struct loaded l = {0};
    struct error err = {0};
    struct worker_settings pool = {.n_threads = n_threads};
    l.pool = worker_pool_create(&pool, &err);
    assert_non_null(l.pool);
    if (!model_file_open(path, NULL, &l.file, &err) ||
        !model_load(l.file, NULL, l.pool, &l.model, &err))
        fail_msg("%s", err.message);
    struct context_settings settings = s ? *s : context_settings_default();
    if (!s)
        settings.n_ctx = 512;
    settings.pool = l.pool;
    if (!context_create(l.model, &settings, &l.ctx, &err))
        fail_msg("%s", err.message);
    return l;
}

struct loaded load_model(const char *folder, const char *path, const struct context_settings *s,
                         int32_t n_threads)
{
    char full[512];
    snprintf(full, sizeof full, "%s/models/%s", folder, path);
    return load_file(full, s, n_threads);
}

void unload(struct loaded *l)
{
    context_free(l->ctx);
    model_free(l->model);
    model_file_close(l->file);
    worker_pool_free(l->pool);
}

const float *run_as(struct model_context *ctx, int32_t seq, int32_t pos, const int32_t *tokens,
                    int32_t n, bool wide)
{
    struct error err = {0};
    int32_t *positions = calloc((size_t)n, sizeof *positions);
    int32_t *seqs = calloc((size_t)n, sizeof *seqs);
    bool *flags = calloc((size_t)n, sizeof *flags);
    for (int32_t i = 0; i < n; i++) {
        positions[i] = pos + i;
        seqs[i] = seq;
        flags[i] = wide;
    }
    struct batch b = {.n_tokens = n, .token = tokens, .pos = positions, .seq = seqs, .wide = flags};
    if (!model_decode(ctx, &b, &err))
        fail_msg("%s", err.message);
    free(positions);
    free(seqs);
    free(flags);
    return model_logits(ctx, -1);
}

const float *run_tokens(struct model_context *ctx, int32_t seq, int32_t pos, const int32_t *tokens,
                        int32_t n)
{
    return run_as(ctx, seq, pos, tokens, n, false);
}

double log_prob(const float *logits, int32_t n, int32_t token)
{
    double max = logits[0], sum = 0.0;
    for (int32_t i = 1; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (int32_t i = 0; i < n; i++)
        sum += exp(logits[i] - max);
    return logits[token] - max - log(sum);
}

int32_t arg_max(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}
