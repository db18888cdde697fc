/* bench_embeddings.h - how fast texts become vectors. */
#ifndef MLXCEL_CMD_BENCH_EMBEDDINGS_H
#define MLXCEL_CMD_BENCH_EMBEDDINGS_H

#include "base/error.h"
#include "base/json.h"
#include "model/model.h"

struct embedding_speed {
    double texts, tokens, deviation; /* per second; the deviation that of texts */
};

/* Embed n_texts of n_tokens each n_reps times, as many in a batch as a physical
 * batch holds. The pool is the caller's. */
bool bench_embeddings(const struct model *model, struct worker_pool *pool, int32_t n_texts,
                      int32_t n_tokens, int32_t n_ubatch, int32_t n_reps,
                      struct embedding_speed *out, struct error *err);

#endif
