/* stage_penalties.c - logit bias, and the penalties on tokens seen lately:
 * repetition (Keskar et al. 2019, CTRL, with the negative logits multiplied
 * instead of divided), frequency and presence (OpenAI's definition). */
#include "sample/stage.h"

#include <stdlib.h>

/* ---- logit bias ---- */

struct bias_state {
    struct logit_bias *biases; /* owned */
    size_t n;
};

static void bias_apply(void *state, struct candidates *c)
{
    struct bias_state *s = state;
    for (size_t i = 0; i < s->n; i++) {
        struct candidate *hit = candidates_find(c, s->biases[i].token);
        if (hit)
            hit->logit = logit_tamed(hit->logit + s->biases[i].bias);
    }
}

static bool bias_clone(void *to, const void *from)
{
    struct bias_state *t = to;
    const struct bias_state *f = from;
    t->biases = malloc(f->n * sizeof *t->biases);
    if (t->biases)
        memcpy(t->biases, f->biases, f->n * sizeof *t->biases);
    return t->biases;
}

static void bias_free(void *state)
{
    free(((struct bias_state *)state)->biases);
}

static const struct stage_kind bias_kind = {.name = "logit_bias",
                                            .size = sizeof(struct bias_state),
                                            .apply = bias_apply,
                                            .clone = bias_clone,
                                            .free = bias_free};

bool stage_logit_bias(const struct stage_inputs *in, struct stage *out)
{
    size_t n_user = in->settings->n_logit_bias, n_own = in->vocab->n_suppressed;
    if (n_user + n_own == 0)
        return true;
    struct bias_state *s = stage_new(out, &bias_kind);
    if (!s)
        return false;
    s->biases = calloc(n_user + n_own, sizeof *s->biases);
    if (!s->biases)
        return false;
    for (size_t i = 0; i < n_user; i++)
        s->biases[s->n++] = in->settings->logit_bias[i];
    for (size_t i = 0; i < n_own; i++)
        s->biases[s->n++] = (struct logit_bias){in->vocab->suppressed[i], -INFINITY};
    return true;
}

/* ---- penalties ---- */

struct penalty_state {
    float repeat, frequency, presence;
    struct window window;
    int32_t *counts; /* [n_tokens]; owned */
    int32_t n_tokens;
};

static void penalty_accept(void *state, int32_t token)
{
    struct penalty_state *s = state;
    window_push(&s->window, token);
}

static void penalize(const struct penalty_state *s, struct candidate *c, int32_t count)
{
    float logit = c->logit;
    logit = logit <= 0 ? logit * s->repeat : logit / s->repeat;
    logit -= (float)count * s->frequency + s->presence;
    c->logit = logit_tamed(logit);
}

static bool counted(const struct penalty_state *s, int32_t token)
{
    return token >= 0 && token < s->n_tokens;
}

/* The counts are zero between calls: a pass over the window sets them, so the
 * cost is that of the window and not of the vocabulary. */
static void penalty_apply(void *state, struct candidates *c)
{
    struct penalty_state *s = state;
    size_t n = window_size(&s->window);
    bool by_id = c->n == (size_t)s->n_tokens;
    for (size_t i = 0; i < n; i++) {
        int32_t token = window_at(&s->window, i);
        if (!counted(s, token))
            continue;
        s->counts[token]++;
        by_id = by_id && c->data[token].token == token;
    }
    if (by_id) {
        for (size_t i = 0; i < n; i++) {
            int32_t token = window_at(&s->window, i);
            if (!counted(s, token) || s->counts[token] == 0)
                continue;
            penalize(s, &c->data[token], s->counts[token]);
            s->counts[token] = 0;
        }
    } else {
        for (size_t i = 0; i < c->n; i++)
            if (counted(s, c->data[i].token) && s->counts[c->data[i].token])
                penalize(s, &c->data[i], s->counts[c->data[i].token]);
        for (size_t i = 0; i < n; i++)
            if (counted(s, window_at(&s->window, i)))
                s->counts[window_at(&s->window, i)] = 0;
    }
    c->sorted = false;
}

static bool penalty_clone(void *to, const void *from)
{
    struct penalty_state *t = to;
    const struct penalty_state *f = from;
    t->counts = calloc((size_t)f->n_tokens + 1, sizeof *t->counts);
    return window_clone(&t->window, &f->window) && t->counts;
}

static void penalty_free(void *state)
{
    struct penalty_state *s = state;
    VEC_FREE(&s->window.tokens);
    free(s->counts);
}

static const struct stage_kind penalty_kind = {.name = "penalties",
                                               .size = sizeof(struct penalty_state),
                                               .apply = penalty_apply,
                                               .accept = penalty_accept,
                                               .clone = penalty_clone,
                                               .free = penalty_free};

bool stage_penalties(const struct stage_inputs *in, struct stage *out)
{
    const struct sampler_settings *set = in->settings;
    size_t last_n = window_length(set->repeat_last_n, in->n_ctx);
    if (last_n == 0 || (set->repeat_penalty == 1.0f && set->frequency_penalty == 0.0f &&
                        set->presence_penalty == 0.0f))
        return true;
    struct penalty_state *s = stage_new(out, &penalty_kind);
    if (!s)
        return false;
    s->repeat = set->repeat_penalty;
    s->frequency = set->frequency_penalty;
    s->presence = set->presence_penalty;
    s->window.n_max = last_n;
    s->n_tokens = in->vocab->n_tokens;
    s->counts = calloc((size_t)s->n_tokens + 1, sizeof *s->counts);
    return s->counts;
}
