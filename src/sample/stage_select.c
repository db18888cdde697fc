/* stage_select.c - the stages that pick the token: the plain distribution,
 * Mirostat 1 and 2, adaptive-p. */
#include "sample/stage.h"

#include <stdlib.h>

struct select_state {
    struct random random;
    /* Mirostat */
    float tau, eta, mu;
    int32_t n_tokens;
    /* adaptive-p */
    float target, decay;
    float weighted_sum, total_weight; /* of the probabilities picked so far */
    int32_t pending;                  /* picked, not yet accepted; -1 none */
    float pending_p;
};

static struct select_state *make(const struct stage_inputs *in, struct stage *out,
                                 const struct stage_kind *kind)
{
    struct select_state *s = stage_new(out, kind);
    if (!s)
        return NULL;
    s->tau = in->settings->mirostat_tau;
    s->eta = in->settings->mirostat_eta;
    s->n_tokens = in->vocab->n_tokens;
    s->target = in->settings->adaptive_target;
    float decay = in->settings->adaptive_decay;
    s->decay = decay > 0.0f ? decay < 0.99f ? decay : 0.99f : 0.0f;
    random_seed(&s->random, in->seed);
    s->mu = 2.0f * s->tau;
    s->weighted_sum = s->target / (1.0f - s->decay);
    s->total_weight = 1.0f / (1.0f - s->decay);
    s->pending = -1;
    return s;
}

/* ---- the distribution ---- */

static void distribution_apply(void *state, struct candidates *c)
{
    struct select_state *s = state;
    c->selected = CANDIDATE_NONE;
    if (c->n == 0)
        return;
    /* One number a token, needed or not: the sequence of numbers then does not
     * depend on how many candidates earlier tokens had. */
    double number = random_double(&s->random);
    c->selected = 0;
    if (c->n == 1) {
        c->data[0].p = 1.0f;
        return;
    }
    float max = c->data[0].logit;
    if (!c->sorted)
        for (size_t i = 1; i < c->n; i++)
            max = c->data[i].logit > max ? c->data[i].logit : max;
    double sum = 0.0;
    for (size_t i = 0; i < c->n; i++) {
        c->data[i].p = max == -INFINITY ? 1.0f : expf(c->data[i].logit - max);
        sum += (double)c->data[i].p;
    }
    double run = 0.0, target = sum * number;
    bool found = false;
    for (size_t i = 0; i < c->n; i++) {
        if (!found) {
            run += (double)c->data[i].p;
            /* A number of exactly 0 must not pick a banned token. */
            if (run >= target && c->data[i].p > 0.0f) {
                c->selected = i;
                found = true;
            }
        }
        c->data[i].p = (float)((double)c->data[i].p / sum);
    }
    if (!found)
        c->selected = c->n - 1;
}

static const struct stage_kind distribution_kind = {
    .name = "dist", .size = sizeof(struct select_state), .apply = distribution_apply};

bool stage_distribution(const struct stage_inputs *in, struct stage *out)
{
    return make(in, out, &distribution_kind);
}

/* ---- Mirostat (Basu et al. 2021): keeps the surprise near tau ---- */

enum { MIROSTAT_M = 100 }; /* tokens the Zipf exponent is estimated from */

static void mirostat_learn(struct select_state *s, struct candidates *c)
{
    c->selected = candidates_draw(c, &s->random);
    float surprise = -log2f(c->data[c->selected].p);
    float mu = s->mu - s->eta * (surprise - s->tau);
    s->mu = isnan(mu) ? 2.0f * s->tau : mu;
}

static void mirostat_1_apply(void *state, struct candidates *c)
{
    struct select_state *s = state;
    c->selected = CANDIDATE_NONE;
    if (c->n == 0)
        return;
    candidates_softmax(c, true);
    float sum_tb = 0.0f, sum_tt = 0.0f;
    for (size_t i = 0; i < MIROSTAT_M - 1 && i + 1 < c->n; i++) {
        float t = logf((float)(i + 2) / (float)(i + 1));
        float b = logf(c->data[i].p / c->data[i + 1].p);
        sum_tb += t * b;
        sum_tt += t * t;
    }
    float s_hat = sum_tb / sum_tt;
    float epsilon = s_hat - 1.0f;
    float k = powf((epsilon * powf(2.0f, s->mu)) / (1.0f - powf((float)s->n_tokens, -epsilon)),
                   1.0f / s_hat);
    candidates_keep_top(c, k >= 1.0f && k < 2147483648.0f ? (int32_t)k : 1);
    candidates_softmax(c, true);
    mirostat_learn(s, c);
}

static void mirostat_2_apply(void *state, struct candidates *c)
{
    struct select_state *s = state;
    c->selected = CANDIDATE_NONE;
    if (c->n == 0)
        return;
    candidates_softmax(c, true);
    size_t kept = 0;
    while (kept < c->n && !(-log2f(c->data[kept].p) > s->mu))
        kept++;
    c->n = kept ? kept : 1;
    candidates_softmax(c, true);
    mirostat_learn(s, c);
}

static const struct stage_kind mirostat_1_kind = {
    .name = "mirostat", .size = sizeof(struct select_state), .apply = mirostat_1_apply};
static const struct stage_kind mirostat_2_kind = {
    .name = "mirostat_v2", .size = sizeof(struct select_state), .apply = mirostat_2_apply};

bool stage_mirostat_1(const struct stage_inputs *in, struct stage *out)
{
    return make(in, out, &mirostat_1_kind);
}

bool stage_mirostat_2(const struct stage_inputs *in, struct stage *out)
{
    return make(in, out, &mirostat_2_kind);
}

/* ---- adaptive-p (llama.cpp pull request 17927): prefers tokens whose
 * probability is near a target, which moves against what was picked lately.
 * The new logit falls quadratically near the target and linearly far off. ---- */

static const float adaptive_width = 0.3f, adaptive_peak = 5.0f, adaptive_sharpness = 10.0f;

static float clamp01(float x)
{
    return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f;
}

static void adaptive_apply(void *state, struct candidates *c)
{
    struct select_state *s = state;
    c->selected = CANDIDATE_NONE;
    if (c->n == 0)
        return;
    candidates_softmax(c, false);
    if (!(s->target >= 0.0f)) {
        c->selected = candidates_draw(c, &s->random);
        return;
    }
    for (size_t i = 0; i < c->n; i++)
        c->spare[i].p = c->data[i].p;
    float target = clamp01(s->target);
    if (s->total_weight != 0.0f)
        target = clamp01(2.0f * target - s->weighted_sum / s->total_weight);
    const float inverse_width = 1.0f / adaptive_width;
    for (size_t i = 0; i < c->n; i++) {
        if (c->data[i].logit == -INFINITY)
            continue;
        float far = fabsf((c->data[i].p - target) * inverse_width);
        c->data[i].logit = adaptive_peak - adaptive_sharpness * far * far / (1.0f + far);
    }
    candidates_softmax(c, false);
    c->selected = candidates_draw(c, &s->random);
    s->pending = c->data[c->selected].token;
    s->pending_p = c->spare[c->selected].p;
}

static void adaptive_accept(void *state, int32_t token)
{
    struct select_state *s = state;
    if (s->pending >= 0 && s->pending == token) {
        s->weighted_sum = s->pending_p + s->decay * s->weighted_sum;
        s->total_weight = 1.0f + s->decay * s->total_weight;
    }
    s->pending = -1;
}

static const struct stage_kind adaptive_kind = {.name = "adaptive_p",
                                                .size = sizeof(struct select_state),
                                                .apply = adaptive_apply,
                                                .accept = adaptive_accept};

bool stage_adaptive_p(const struct stage_inputs *in, struct stage *out)
{
    return make(in, out, &adaptive_kind);
}
