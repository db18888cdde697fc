/* reasoning.c - the reasoning budget: a start sequence begins counting, an end
 * sequence stops it, and when the budget is spent a fixed sequence is forced. */
#include "sample/reasoning.h"

#include "base/utf8.h"

#include <stdlib.h>

enum reasoning_state { IDLE, COUNTING, WAITING_UTF8, FORCING, DONE };

/* Token sequences looked for in a stream. The last tokens are kept, as many as
 * the longest sequence has, and compared from the end: sequences are short. */
struct sequences {
    struct token_run *runs;
    size_t n, longest;
    int32_t *recent; /* [longest] */
    size_t n_recent;
};

struct reasoning {
    const struct vocab *vocab;
    struct sequences start, end;
    struct token_run forced;
    int32_t budget, remaining;
    enum reasoning_state state;
    size_t forced_at;
    size_t end_match; /* which of end, or SIZE_MAX */
};

static bool copy_run(struct token_run *to, struct token_run from)
{
    int32_t *tokens = malloc((from.n + 1) * sizeof *tokens);
    if (!tokens)
        return false;
    if (from.n)
        memcpy(tokens, from.tokens, from.n * sizeof *tokens);
    *to = (struct token_run){tokens, from.n};
    return true;
}

static void free_run(struct token_run *run)
{
    free((void *)(uintptr_t)run->tokens);
}

static bool sequences_init(struct sequences *s, const struct token_run *runs, size_t n)
{
    *s = (struct sequences){.runs = calloc(n + 1, sizeof *s->runs)};
    if (!s->runs)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (runs[i].n == 0)
            continue;
        if (!copy_run(&s->runs[s->n], runs[i]))
            return false;
        s->n++;
        s->longest = runs[i].n > s->longest ? runs[i].n : s->longest;
    }
    s->recent = malloc((s->longest + 1) * sizeof *s->recent);
    return s->recent;
}

static void sequences_free(struct sequences *s)
{
    for (size_t i = 0; i < s->n; i++)
        free_run(&s->runs[i]);
    free(s->runs);
    free(s->recent);
}

/* The index of the longest sequence that ends with this token, or SIZE_MAX. */
static size_t sequences_advance(struct sequences *s, int32_t token)
{
    if (s->longest == 0)
        return SIZE_MAX;
    if (s->n_recent == s->longest) {
        memmove(s->recent, s->recent + 1, (s->longest - 1) * sizeof *s->recent);
        s->n_recent--;
    }
    s->recent[s->n_recent++] = token;
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < s->n; i++) {
        size_t n = s->runs[i].n;
        if (n > s->n_recent || (found != SIZE_MAX && n <= s->runs[found].n))
            continue;
        if (memcmp(s->recent + (s->n_recent - n), s->runs[i].tokens, n * sizeof(int32_t)) == 0)
            found = i;
    }
    if (found != SIZE_MAX)
        s->n_recent = 0;
    return found;
}

static struct reasoning *make(const struct vocab *vocab, const struct token_run *starts,
                              size_t n_starts, const struct token_run *ends, size_t n_ends,
                              struct token_run forced, int32_t budget)
{
    struct reasoning *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->vocab = vocab;
    r->budget = r->remaining = budget;
    r->end_match = SIZE_MAX;
    if (!sequences_init(&r->start, starts, n_starts) || !sequences_init(&r->end, ends, n_ends) ||
        !copy_run(&r->forced, forced)) {
        reasoning_free(r);
        return NULL;
    }
    return r;
}

bool reasoning_create(const struct vocab *vocab, const struct sampler_settings *set,
                      struct reasoning **out, struct error *err)
{
    *out = NULL;
    if (set->reasoning_start.n == 0 || set->n_reasoning_ends == 0 ||
        !(set->grammar_lazy || set->reasoning_budget_tokens >= 0 || set->reasoning_control))
        return true;
    int32_t budget = set->reasoning_budget_tokens < 0 ? INT32_MAX : set->reasoning_budget_tokens;
    struct reasoning *r = make(vocab, &set->reasoning_start, 1, set->reasoning_ends,
                               set->n_reasoning_ends, set->reasoning_forced, budget);
    if (!r)
        return error_memory(err);
    for (size_t i = 0; i < set->prefill.n; i++)
        reasoning_accept(r, set->prefill.tokens[i]);
    *out = r;
    return true;
}

static void copy_recent(struct sequences *to, const struct sequences *from)
{
    memcpy(to->recent, from->recent, from->n_recent * sizeof *to->recent);
    to->n_recent = from->n_recent;
}

struct reasoning *reasoning_clone(const struct reasoning *from)
{
    struct reasoning *r = make(from->vocab, from->start.runs, from->start.n, from->end.runs,
                               from->end.n, from->forced, from->budget);
    if (!r)
        return NULL;
    copy_recent(&r->start, &from->start);
    copy_recent(&r->end, &from->end);
    r->remaining = from->remaining;
    r->state = from->state;
    r->forced_at = from->forced_at;
    r->end_match = from->end_match;
    return r;
}

void reasoning_free(struct reasoning *r)
{
    if (!r)
        return;
    sequences_free(&r->start);
    sequences_free(&r->end);
    free_run(&r->forced);
    free(r);
}

void reasoning_apply(const struct reasoning *r, struct candidates *c)
{
    if (r->state != FORCING || r->forced_at >= r->forced.n)
        return;
    int32_t forced = r->forced.tokens[r->forced_at];
    for (size_t i = 0; i < c->n; i++)
        if (c->data[i].token != forced)
            c->data[i].logit = -INFINITY;
}

static void start_forcing(struct reasoning *r)
{
    r->state = FORCING;
    r->forced_at = 0;
}

static void start_counting(struct reasoning *r)
{
    r->remaining = r->budget;
    r->state = COUNTING;
    if (r->remaining <= 0)
        start_forcing(r);
}

static void count(struct reasoning *r, int32_t token)
{
    size_t match = sequences_advance(&r->end, token);
    if (match != SIZE_MAX) {
        r->state = DONE;
        r->end_match = match;
        return;
    }
    /* Forcing in the middle of a character would leave half of it behind. */
    struct slice piece = vocab_piece(r->vocab, token);
    bool whole = utf8_incomplete_tail(piece) == 0;
    if (r->state == COUNTING && --r->remaining > 0)
        return;
    r->end.n_recent = r->state == COUNTING || whole ? 0 : r->end.n_recent;
    if (whole)
        start_forcing(r);
    else
        r->state = WAITING_UTF8;
}

void reasoning_accept(struct reasoning *r, int32_t token)
{
    switch (r->state) {
    case IDLE:
        if (sequences_advance(&r->start, token) != SIZE_MAX)
            start_counting(r);
        break;
    case COUNTING:
    case WAITING_UTF8:
        count(r, token);
        break;
    case FORCING: {
        size_t match = sequences_advance(&r->end, token);
        if (++r->forced_at >= r->forced.n) {
            r->state = DONE;
            r->end_match = match;
        }
        break;
    }
    case DONE:
        /* Some models think several times; each gets the whole budget. */
        if (sequences_advance(&r->start, token) != SIZE_MAX) {
            r->end.n_recent = 0;
            r->end_match = SIZE_MAX;
            start_counting(r);
        }
        break;
    }
}

bool reasoning_active(const struct reasoning *r)
{
    return r->state != IDLE && r->state != DONE;
}

struct token_run reasoning_end_match(const struct reasoning *r)
{
    if (r->state != DONE || r->end_match == SIZE_MAX)
        return (struct token_run){NULL, 0};
    return r->end.runs[r->end_match];
}

bool reasoning_force(struct reasoning *r)
{
    if (r->state != COUNTING)
        return false;
    r->end.n_recent = 0;
    start_forcing(r);
    return true;
}
