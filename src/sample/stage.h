/* stage.h - one step of the sampler chain: a table of functions and a state. */
#ifndef MLXCEL_SAMPLE_STAGE_H
#define MLXCEL_SAMPLE_STAGE_H

#include "sample/candidates.h"
#include "sample/vocab.h"

struct stage_kind {
    const char *name;
    size_t size; /* of the state */
    void (*apply)(void *state, struct candidates *c);
    /* The rest may be NULL. */
    void (*accept)(void *state, int32_t token);
    /* to is a bytewise copy of from: replace what it must not share. */
    bool (*clone)(void *to, const void *from);
    void (*free)(void *state); /* what the state owns, not itself */
};

struct stage {
    const struct stage_kind *kind;
    void *state; /* owned */
};

struct sampler_settings;
struct dry_breakers;

/* What the constructors share. */
struct stage_inputs {
    const struct vocab *vocab;
    const struct sampler_settings *settings;
    uint32_t seed;                 /* the one really used */
    int32_t n_ctx;                 /* what -1 means for the last_n settings */
    struct dry_breakers *breakers; /* NULL where DRY is off */
};

/* Whether the settings make a stage of DRY, which needs its breakers. */
bool dry_is_on(const struct sampler_settings *settings, int32_t n_ctx);

/* Each makes its stage, or leaves kind NULL where the settings turn it off;
 * false when out of memory. */
typedef bool stage_maker(const struct stage_inputs *in, struct stage *out);
stage_maker stage_logit_bias, stage_penalties, stage_dry, stage_top_n_sigma, stage_top_k,
    stage_typical_p, stage_top_p, stage_min_p, stage_xtc, stage_temperature, stage_infill,
    stage_adaptive_p, stage_distribution, stage_plain_temperature, stage_mirostat_1,
    stage_mirostat_2;

/* Allocate the zeroed state of a stage. NULL when out of memory. */
void *stage_new(struct stage *out, const struct stage_kind *kind);

/* Divide by a temperature; at 0 or less only the best (the first of equals)
 * stays. */
void scale_by_temperature(struct candidates *c, float temperature);

/* The last n tokens of a sequence; the memory grows with what was pushed, not
 * with n, which a request may set to anything. */
struct window {
    struct token_vec tokens; /* the last n_max of them count */
    size_t n_max;
};

static inline size_t window_size(const struct window *w)
{
    return w->tokens.n < w->n_max ? w->tokens.n : w->n_max;
}

/* The i-th most recent, 0 the last. */
static inline int32_t window_at(const struct window *w, size_t i)
{
    return w->tokens.data[w->tokens.n - 1 - i];
}

/* What is looked through for every token is as long as the context, or this long where
 * that is shorter: what a context that is shifted has seen has no end. */
enum { WINDOW_MAX = 1 << 16 };

/* n_max for a setting of the last n tokens; < 0: the context. */
size_t window_length(int32_t last_n, int32_t n_ctx);
void window_push(struct window *w, int32_t token);
bool window_clone(struct window *to, const struct window *from);

#endif
