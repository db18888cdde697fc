/* bench_embeddings.c - how fast texts become vectors. */
#include "cmd/bench_embeddings.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A batch of whole texts. */
struct texts {
    struct model_context *ctx;
    int32_t n_tokens, n_vocab; /* of each; of the model */
    int32_t *token, *pos, *seq;
    bool *want;
};

static void put_text(struct texts *t, int32_t number, int32_t seq)
{
    for (int32_t k = 0; k < t->n_tokens; k++) {
        int32_t row = seq * t->n_tokens + k;
        uint32_t mixed = (uint32_t)(number * 977 + k * 131) * 2654435761u;
        t->token[row] = (int32_t)(mixed % (uint32_t)t->n_vocab);
        t->pos[row] = k;
        t->seq[row] = seq;
        t->want[row] = true;
    }
}

static bool embed_all(struct texts *t, int32_t n_texts, int32_t n_together, struct error *err)
{
    for (int32_t done = 0; done < n_texts; done += n_together) {
        int32_t n = n_texts - done < n_together ? n_texts - done : n_together;
        for (int32_t i = 0; i < n; i++)
            put_text(t, done + i, i);
        kv_seq_remove(t->ctx, -1, -1, -1);
        struct batch batch = {n * t->n_tokens, t->token, t->pos, t->seq, t->want, NULL, NULL};
        if (!model_decode(t->ctx, &batch, err))
            return false;
    }
    return true;
}

static bool measure(struct texts *t, int32_t n_texts, int32_t n_together, int32_t n_reps,
                    struct embedding_speed *out, struct error *err)
{
    double sum = 0.0, squares = 0.0;
    for (int32_t r = 0; r < n_reps; r++) {
        uint64_t start = clock_monotonic_us();
        if (!embed_all(t, n_texts, n_together, err))
            return false;
        double speed = n_texts / ((double)(clock_monotonic_us() - start) / 1e6);
        sum += speed;
        squares += speed * speed;
    }
    out->texts = sum / n_reps;
    out->tokens = out->texts * t->n_tokens;
    double variance = squares / n_reps - out->texts * out->texts;
    out->deviation = variance > 0.0 ? sqrt(variance) : 0.0;
    return true;
}

bool bench_embeddings(const struct model *model, struct worker_pool *pool, int32_t n_texts,
                      int32_t n_tokens, int32_t n_ubatch, int32_t n_reps,
                      struct embedding_speed *out, struct error *err)
{
    struct context_settings s = context_settings_default();
    const struct model_info *info = model_info(model);
    int32_t n_together = (n_ubatch ? n_ubatch : 512) / n_tokens;
    if (n_together < 1 || n_tokens > info->n_ctx_train)
        return error_set(
            err, ERR_INVALID,
            "a text of %d tokens needs a physical batch (-ub) and a model's context of "
            "as many",
            (int)n_tokens);
    if (n_together > MODEL_SEQ_MAX)
        n_together = MODEL_SEQ_MAX;
    size_t n = (size_t)n_together * (size_t)n_tokens;
    s.n_seq_max = n_together;
    s.n_ctx = (int32_t)n;
    s.kv_unified = true;
    s.n_batch = s.n_ubatch = (int32_t)n;
    s.embeddings = true;
    if (info->pooling == POOLING_NONE)
        s.pooling = POOLING_MEAN;
    s.pool = pool;
    struct texts t = {.n_tokens = n_tokens, .n_vocab = info->n_vocab};
    t.token = malloc(n * sizeof *t.token);
    t.pos = malloc(n * sizeof *t.pos);
    t.seq = malloc(n * sizeof *t.seq);
    t.want = malloc(n * sizeof *t.want);
    bool ok = t.token && t.pos && t.seq && t.want ? true : error_memory(err);
    ok = ok && context_create(model, &s, &t.ctx, err) && model_warmup(t.ctx, err) &&
         measure(&t, n_texts, n_together, n_reps, out, err);
    context_free(t.ctx);
    free(t.token);
    free(t.pos);
    free(t.seq);
    free(t.want);
    return ok;
}
