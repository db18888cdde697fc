/* stage_dry.c - DRY, "don't repeat yourself": a token that would extend a
 * repetition of at least allowed_length tokens loses
 * multiplier * base ^ (length - allowed_length).
 * Source: p-e-w, text-generation-webui pull request 5677; pi6am's rules for
 * sequence breakers. */
#include "sample/dry_breakers.h"

#include <stdlib.h>

struct dry_state {
    float multiplier, base;
    size_t allowed_length;
    struct window window;
    struct dry_breakers *breakers; /* a reference */
    /* The latest breaker among the tokens with DRY_TAIL_MAX behind them, for which
     * nothing changes any more: so each token is looked up some times and not with
     * every later one. */
    uint64_t n_accepted, break_at; /* the token's number, from 1; 0: none */
    size_t break_length;           /* tokens behind it that belong to it */
    int32_t n_tokens;
    uint32_t *longest; /* [n_tokens] scratch, one more than the length; owned */
    size_t *prefix;    /* [room] of the Z algorithm; owned */
    size_t room;       /* as long as the window was at most */
};

static void dry_accept(void *state, int32_t token)
{
    struct dry_state *s = state;
    window_push(&s->window, token);
    s->n_accepted++;
    if (s->window.tokens.n <= DRY_TAIL_MAX)
        return;
    int32_t length = dry_breaker_at(s->breakers, &s->window, DRY_TAIL_MAX);
    if (length >= 0) {
        s->break_at = s->n_accepted - DRY_TAIL_MAX;
        s->break_length = (size_t)length;
    }
}

/* How far back a repetition may reach: to the nearest whole breaker. */
static size_t repeat_limit(const struct dry_state *s, size_t n)
{
    for (size_t i = 0; i < n && i < DRY_TAIL_MAX; i++) {
        int32_t length = dry_breaker_at(s->breakers, &s->window, i);
        if (length >= 0)
            return i - (size_t)length;
    }
    size_t i = (size_t)(s->n_accepted - s->break_at); /* 0: at none */
    return s->break_at && i < n ? i - s->break_length : n;
}

/* prefix[k] = how many of the last tokens also stand k tokens earlier (the Z
 * function of the window read backwards; Gusfield 1997). Linear. */
static void count_repeats(struct dry_state *s, size_t n)
{
    size_t left = 0, right = 0; /* the match that reaches furthest: [left, right) */
    s->prefix[0] = n;
    for (size_t k = 1; k < n; k++) {
        size_t length = 0;
        if (k < right) {
            length = s->prefix[k - left];
            if (length > right - k)
                length = right - k;
        }
        while (k + length < n && window_at(&s->window, length) == window_at(&s->window, k + length))
            length++;
        s->prefix[k] = length;
        if (k + length > right) {
            left = k;
            right = k + length;
        }
    }
}

static bool make_room(struct dry_state *s, size_t n)
{
    if (n <= s->room)
        return true;
    void *prefix = realloc(s->prefix, 2 * n * sizeof *s->prefix);
    if (!prefix)
        return false;
    s->prefix = prefix;
    s->room = 2 * n;
    return true;
}

static float dry_penalty(const struct dry_state *s, size_t length)
{
    const float log_float_max = 88.7228391f;
    size_t exponent = length - s->allowed_length;
    if (s->base > 1.000001f) {
        float most = log_float_max / logf(s->base);
        if (most >= 1.0f && (float)exponent > floorf(most))
            exponent = (size_t)most;
    }
    return (float)((double)s->multiplier * pow((double)s->base, (double)exponent));
}

/* Of each token that would extend a repetition, the longest it would. */
static void note_repeats(struct dry_state *s, size_t n, size_t limit)
{
    for (size_t k = 1; k < n; k++) {
        size_t length = s->prefix[k] < limit ? s->prefix[k] : limit;
        /* The token after the earlier occurrence would make it one longer. */
        int32_t token = window_at(&s->window, k - 1);
        if (length < s->allowed_length || token < 0 || token >= s->n_tokens)
            continue;
        if ((uint32_t)length + 1 > s->longest[token])
            s->longest[token] = (uint32_t)length + 1;
    }
}

static void penalize(const struct dry_state *s, struct candidate *c)
{
    uint32_t longest = s->longest[c->token];
    if (longest && !dry_breaks_alone(s->breakers, c->token))
        c->logit = logit_tamed(c->logit - dry_penalty(s, longest - 1));
}

/* While the candidates stand by id the repeated ones are found at once, otherwise
 * by one pass. longest is zero between calls. */
static void penalize_repeats(struct dry_state *s, struct candidates *c, size_t n)
{
    bool by_id = c->n == (size_t)s->n_tokens;
    for (size_t i = 0; i < n && by_id; i++) {
        int32_t token = window_at(&s->window, i);
        if (token >= 0 && token < s->n_tokens)
            by_id = c->data[token].token == token;
    }
    for (size_t i = 0; i < c->n && !by_id; i++)
        penalize(s, &c->data[i]);
    for (size_t i = 0; i < n; i++) {
        int32_t token = window_at(&s->window, i);
        if (token < 0 || token >= s->n_tokens)
            continue;
        if (by_id)
            penalize(s, &c->data[token]);
        s->longest[token] = 0;
    }
}

static void dry_apply(void *state, struct candidates *c)
{
    struct dry_state *s = state;
    size_t n = window_size(&s->window);
    if (n <= s->allowed_length || !make_room(s, n))
        return;
    size_t limit = repeat_limit(s, n);
    if (limit < s->allowed_length)
        return;
    count_repeats(s, n);
    note_repeats(s, n, limit);
    penalize_repeats(s, c, n);
    c->sorted = false;
}

static bool dry_clone(void *to, const void *from)
{
    struct dry_state *t = to;
    const struct dry_state *f = from;
    t->prefix = NULL;
    t->room = 0;
    dry_breakers_hold(t->breakers);
    t->longest = calloc((size_t)f->n_tokens + 1, sizeof *t->longest);
    return window_clone(&t->window, &f->window) && t->longest;
}

static void dry_free(void *state)
{
    struct dry_state *s = state;
    VEC_FREE(&s->window.tokens);
    dry_breakers_drop(s->breakers);
    free(s->longest);
    free(s->prefix);
}

static const struct stage_kind dry_kind = {.name = "dry",
                                           .size = sizeof(struct dry_state),
                                           .apply = dry_apply,
                                           .accept = dry_accept,
                                           .clone = dry_clone,
                                           .free = dry_free};

bool dry_is_on(const struct sampler_settings *set, int32_t n_ctx)
{
    bool listed = false;
    for (size_t i = 0; i < set->n_samplers; i++)
        listed = listed || set->samplers[i] == SAMPLER_DRY;
    return listed && !set->mirostat && set->dry_multiplier != 0.0f && set->dry_base >= 1.0f &&
           window_length(set->dry_penalty_last_n, n_ctx) > 0;
}

bool stage_dry(const struct stage_inputs *in, struct stage *out)
{
    const struct sampler_settings *set = in->settings;
    if (!in->breakers)
        return true;
    struct dry_state *s = stage_new(out, &dry_kind);
    if (!s)
        return false;
    s->multiplier = set->dry_multiplier;
    s->base = set->dry_base;
    s->allowed_length = set->dry_allowed_length > 0 ? (size_t)set->dry_allowed_length : 0;
    s->window.n_max = window_length(set->dry_penalty_last_n, in->n_ctx);
    s->breakers = dry_breakers_hold(in->breakers);
    s->n_tokens = in->vocab->n_tokens;
    s->longest = calloc((size_t)s->n_tokens + 1, sizeof *s->longest);
    return s->longest;
}
