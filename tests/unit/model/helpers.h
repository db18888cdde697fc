/* helpers.h - what the model room's tests share. */
#ifndef MLXCEL_TESTS_MODEL_HELPERS_H
#define MLXCEL_TESTS_MODEL_HELPERS_H

#include "model/model.h"
#include "unit/unit.h"

/* An open file, its model and a context of one pool. */
struct loaded {
    struct model_file *file;
    struct model *model;
    struct worker_pool *pool;
    struct model_context *ctx;
};

/* Load folder/path; the test fails with the reason when it cannot. */
struct loaded load_model(const char *folder, const char *path, const struct context_settings *s,
                         int32_t n_threads);
struct loaded load_file(const char *path, const struct context_settings *s, int32_t n_threads);
void unload(struct loaded *l);

/* Run n tokens of one sequence from position pos; logits of the last one. */
const float *run_tokens(struct model_context *ctx, int32_t seq, int32_t pos, const int32_t *tokens,
                        int32_t n);
/* The same, as tokens of a long prompt (struct batch's wide) or not. */
const float *run_as(struct model_context *ctx, int32_t seq, int32_t pos, const int32_t *tokens,
                    int32_t n, bool wide);
/* log softmax of one entry. */
double log_prob(const float *logits, int32_t n, int32_t token);
int32_t arg_max(const float *x, int32_t n);

/* "Once upon a time" and the longer prompt of the recordings, as the
 * miniatures' vocabulary has them. */
extern const int32_t short_prompt[5];
extern const int32_t long_prompt[42];

#endif
