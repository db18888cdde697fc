/* stage_dry.c - DRY, "don't repeat yourself": a token that would extend a
 * repetition of at least allowed_length tokens loses
 * multiplier * base ^ (length - allowed_length).
 * Source: p-e-w, text-generation-webui pull request 5677; pi6am's rules for
 * sequence breakers. */
#include "sample/stage.h"

#include <stdlib.h>

enum { BREAKER_BYTES_MAX = 40, BREAKER_TAIL_MAX = 20 };

/* A token that contains a breaker, or begins one that the tail completes. */
struct breaker {
    int32_t head;
    uint32_t n_tail;
    int32_t tail[BREAKER_TAIL_MAX];
};

struct dry_state {
    float multiplier, base;
    size_t allowed_length;
    struct window window;
    struct breaker *breakers; /* by head; owned */
    size_t n_breakers, breakers_capacity;
    /* Scratch, as long as the window was at most. */
    struct repeat {
        int32_t token;
        uint32_t length;
    } * repeats;
    size_t *prefix; /* [n] of the Z algorithm */
    size_t room;
};

static void dry_accept(void *state, int32_t token)
{
    window_push(&((struct dry_state *)state)->window, token);
}

/* The breakers of a head: [*first, end). */
static size_t breakers_of(const struct dry_state *s, int32_t head, size_t *first)
{
    size_t low = 0, high = s->n_breakers;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->breakers[middle].head < head)
            low = middle + 1;
        else
            high = middle;
    }
    *first = low;
    while (low < s->n_breakers && s->breakers[low].head == head)
        low++;
    return low;
}

/* How far back a repetition may reach: to the nearest whole breaker. */
static size_t repeat_limit(const struct dry_state *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t first, end = breakers_of(s, window_at(&s->window, i), &first);
        bool found = false;
        size_t longest = 0;
        for (size_t b = first; b < end; b++) {
            const struct breaker *breaker = &s->breakers[b];
            size_t length = breaker->n_tail;
            if ((found && length <= longest) || length > i)
                continue;
            size_t same = 0;
            while (same < length && breaker->tail[same] == window_at(&s->window, i - same - 1))
                same++;
            if (same == length) {
                found = true;
                longest = length;
            }
        }
        if (found)
            return i - longest;
    }
    return n;
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

static int compare_repeats(const void *a, const void *b)
{
    const struct repeat *x = a, *y = b;
    if (x->token != y->token)
        return x->token < y->token ? -1 : 1;
    return x->length > y->length ? -1 : x->length < y->length;
}

static bool make_room(struct dry_state *s, size_t n)
{
    if (n <= s->room)
        return true;
    void *repeats = realloc(s->repeats, 2 * n * sizeof *s->repeats);
    if (repeats)
        s->repeats = repeats;
    void *prefix = realloc(s->prefix, 2 * n * sizeof *s->prefix);
    if (prefix)
        s->prefix = prefix;
    if (!repeats || !prefix)
        return false;
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

static bool breaks_alone(const struct dry_state *s, int32_t token)
{
    size_t first, end = breakers_of(s, token, &first);
    for (size_t b = first; b < end; b++)
        if (s->breakers[b].n_tail == 0)
            return true;
    return false;
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
    size_t n_repeats = 0;
    for (size_t k = 1; k < n; k++) {
        size_t length = s->prefix[k] < limit ? s->prefix[k] : limit;
        /* The token after the earlier occurrence would make it one longer. */
        if (length >= s->allowed_length)
            s->repeats[n_repeats++] =
                (struct repeat){window_at(&s->window, k - 1), (uint32_t)length};
    }
    if (n_repeats > 1)
        qsort(s->repeats, n_repeats, sizeof *s->repeats, compare_repeats);
    for (size_t i = 0; i < n_repeats; i++) {
        if (i && s->repeats[i].token == s->repeats[i - 1].token)
            continue; /* the longest stands first */
        if (breaks_alone(s, s->repeats[i].token))
            continue;
        struct candidate *hit = candidates_find(c, s->repeats[i].token);
        if (hit)
            hit->logit = logit_tamed(hit->logit - dry_penalty(s, s->repeats[i].length));
    }
    c->sorted = false;
}

/* ---- sequence breakers ---- */

static bool add_breaker(struct dry_state *s, int32_t head, const int32_t *tail, size_t n_tail)
{
    if (n_tail > BREAKER_TAIL_MAX)
        n_tail = BREAKER_TAIL_MAX;
    for (size_t i = s->n_breakers; i-- > 0 && s->breakers[i].head == head;)
        if (s->breakers[i].n_tail == n_tail && n_tail &&
            memcmp(s->breakers[i].tail, tail, n_tail * sizeof *tail) == 0)
            return true;
    if (!vec_reserve((void **)&s->breakers, &s->breakers_capacity, s->n_breakers, 1,
                     sizeof *s->breakers))
        return false;
    struct breaker *b = &s->breakers[s->n_breakers++];
    *b = (struct breaker){.head = head, .n_tail = (uint32_t)n_tail};
    if (n_tail)
        memcpy(b->tail, tail, n_tail * sizeof *tail);
    return true;
}

/* Whether text stands at data (both inside a piece), and how much of it the
 * piece still holds. */
static size_t overlap(struct slice piece, size_t at, struct slice text)
{
    size_t n = piece.len - at < text.len ? piece.len - at : text.len;
    return memcmp(piece.data + at, text.data, n) == 0 ? n : 0;
}

static bool add_breaker_heads(struct dry_state *s, const struct vocab *vocab, struct slice text)
{
    /* The tails are what is left of the text after its first i bytes: each is
     * tokenized once, when a token wants it. */
    struct token_vec tails[BREAKER_BYTES_MAX + 1] = {{0}};
    bool known[BREAKER_BYTES_MAX + 1] = {false};
    bool ok = true;
    for (int32_t token = 0; ok && token < vocab->n_tokens; token++) {
        struct slice piece = vocab->pieces[token];
        bool whole = false;
        for (size_t at = 0; !whole && at + text.len <= piece.len; at++)
            whole = overlap(piece, at, text) == text.len;
        if (whole) {
            ok = add_breaker(s, token, NULL, 0);
            continue;
        }
        size_t from = piece.len > text.len ? piece.len - text.len : 0;
        for (size_t at = from; ok && at < piece.len; at++) {
            size_t n = overlap(piece, at, text);
            if (n == 0 || n >= text.len)
                continue;
            if (!known[n]) {
                known[n] = true;
                vocab_encode(vocab, slice_from(text, n), false, &tails[n]);
            }
            ok = add_breaker(s, token, tails[n].data, tails[n].n);
        }
    }
    for (size_t i = 0; i <= BREAKER_BYTES_MAX; i++)
        VEC_FREE(&tails[i]);
    return ok;
}

static int compare_breakers(const void *a, const void *b)
{
    const struct breaker *x = a, *y = b;
    return x->head < y->head ? -1 : x->head > y->head;
}

static bool dry_clone(void *to, const void *from)
{
    struct dry_state *t = to;
    const struct dry_state *f = from;
    t->repeats = NULL;
    t->prefix = NULL;
    t->room = 0;
    t->breakers = calloc(f->n_breakers + 1, sizeof *t->breakers);
    t->breakers_capacity = f->n_breakers + 1;
    if (t->breakers && f->n_breakers)
        memcpy(t->breakers, f->breakers, f->n_breakers * sizeof *t->breakers);
    return window_clone(&t->window, &f->window) && t->breakers;
}

static void dry_free(void *state)
{
    struct dry_state *s = state;
    VEC_FREE(&s->window.tokens);
    free(s->breakers);
    free(s->repeats);
    free(s->prefix);
}

static const struct stage_kind dry_kind = {.name = "dry",
                                           .size = sizeof(struct dry_state),
                                           .apply = dry_apply,
                                           .accept = dry_accept,
                                           .clone = dry_clone,
                                           .free = dry_free};

bool stage_dry(const struct stage_inputs *in, struct stage *out)
{
    const struct sampler_settings *set = in->settings;
    int32_t last_n = set->dry_penalty_last_n < 0 ? in->n_ctx : set->dry_penalty_last_n;
    if (set->dry_multiplier == 0.0f || !(set->dry_base >= 1.0f) || last_n <= 0)
        return true;
    struct dry_state *s = stage_new(out, &dry_kind);
    if (!s)
        return false;
    s->multiplier = set->dry_multiplier;
    s->base = set->dry_base;
    s->allowed_length = set->dry_allowed_length > 0 ? (size_t)set->dry_allowed_length : 0;
    s->window.n_max = (size_t)last_n;
    for (size_t i = 0; i < set->n_dry_sequence_breakers; i++) {
        struct slice text = set->dry_sequence_breakers[i];
        if (text.len > BREAKER_BYTES_MAX)
            text.len = BREAKER_BYTES_MAX;
        if (text.len && !add_breaker_heads(s, in->vocab, text))
            return false;
    }
    if (s->n_breakers > 1)
        qsort(s->breakers, s->n_breakers, sizeof *s->breakers, compare_breakers);
    return true;
}
