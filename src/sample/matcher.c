/* matcher.c - a position in a grammar, asleep before its trigger where it is
 * lazy. Copies of a matcher share the automaton and what it has learned. */
#include "sample/grammar.h"

#include "base/budget.h"
#include "base/log.h"
#include "sample/automaton.h"
#include "sample/trigger.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    WORK_PER_STEP = 8, /* of the automaton's work, in a budget */
    /* While tokens are sampled everybody waits for the automaton. What it learns
     * it learns once: much at the beginning, little later. */
    WORK_PER_TOKEN = 1 << 24,
};

#define WORK_AT_FIRST (UINT64_C(1) << 31)

struct shared {
    pthread_mutex_t lock; /* the automaton learns while it is asked */
    size_t users;
    struct automaton *automaton;
    struct budget *budget;     /* while the first matcher is made */
    struct triggers *triggers; /* NULL: not lazy */
};

/* A token that came before the trigger, and its bytes in the buffer. */
struct held_token {
    int32_t token;
    size_t begin, end;
};

struct matcher {
    const struct vocab *vocab;
    struct shared *shared;
    uint32_t state;
    uint64_t generation;    /* of the tables that state belongs to */
    struct token_vec saved; /* the same position, whatever the tables */
    bool waiting;
    struct str buffer;
    VEC(struct held_token) held;
    uint64_t *admitted; /* bitset, for the mask */
    uint64_t allowance; /* work left until the next token */
    /* The last search for a trigger: in the buffer's first n bytes, of which the
     * last are the token's. Judging a token and accepting it search once. */
    struct {
        size_t n;
        int32_t token;
        enum trigger_result result;
        size_t begin;
    } search;
};

/* ---- the automaton, with its tables emptied where need be ---- */

static bool too_much(struct error *err)
{
    return error_set(err, ERR_LIMIT,
                     "the grammar is too ambiguous here: it can be read in more ways at once than "
                     "are kept apart");
}

static bool restore(struct matcher *m)
{
    struct automaton *a = m->shared->automaton;
    if (m->generation == automaton_generation(a))
        return true;
    if (m->saved.n && !automaton_load(a, &m->saved, &m->state))
        return false;
    m->generation = automaton_generation(a);
    return true;
}

static bool take(struct matcher *m, uint64_t work, struct error *err)
{
    if (work > m->allowance)
        return error_set(err, ERR_LIMIT,
                         "the grammar takes too much work for each token; make it simpler, with "
                         "fewer ways to read the same text");
    m->allowance -= work;
    return true;
}

typedef bool operation(struct matcher *m, void *arg);

/* Twice: full tables are emptied, and what does not fit then never will. */
static bool with_automaton(struct matcher *m, operation *run, void *arg, struct error *err)
{
    pthread_mutex_lock(&m->shared->lock);
    uint64_t before = automaton_work(m->shared->automaton);
    bool ok = restore(m) && run(m, arg);
    if (!ok) {
        automaton_empty(m->shared->automaton);
        ok = restore(m) && run(m, arg);
        if (!ok) {
            automaton_empty(m->shared->automaton);
            too_much(err);
        }
    }
    uint64_t work = automaton_work(m->shared->automaton) - before;
    ok = ok && budget_step(m->shared->budget, work / WORK_PER_STEP, err) && take(m, work, err);
    pthread_mutex_unlock(&m->shared->lock);
    return ok;
}

struct step {
    int32_t token;
    struct slice text;
    bool move;   /* go there, or only look */
    bool admits; /* the answer */
};

static bool take_step(struct matcher *m, void *arg)
{
    struct step *step = arg;
    struct automaton *a = m->shared->automaton;
    uint32_t next;
    if (!automaton_token(a, m->state, step->token, step->text, &next))
        return false;
    step->admits = next != STATE_DEAD;
    if (!step->move) {
        step->admits = automaton_may_pause(a, next);
    } else if (step->admits) {
        if (!automaton_save(a, next, &m->saved))
            return false;
        m->state = next;
    }
    return true;
}

static bool start(struct matcher *m, void *arg)
{
    (void)arg;
    return automaton_start(m->shared->automaton, &m->state) &&
           automaton_save(m->shared->automaton, m->state, &m->saved);
}

static bool fill_mask(struct matcher *m, void *arg)
{
    (void)arg;
    memset(m->admitted, 0, ((size_t)m->vocab->n_tokens + 63) / 64 * sizeof *m->admitted);
    if (!automaton_mask(m->shared->automaton, m->state, m->admitted))
        return false;
    if (automaton_complete(m->shared->automaton, m->state))
        for (size_t i = 0; i < m->vocab->n_eog; i++)
            m->admitted[m->vocab->eog[i] / 64] |= (uint64_t)1 << m->vocab->eog[i] % 64;
    return true;
}

static bool look_complete(struct matcher *m, void *arg)
{
    *(bool *)arg = automaton_complete(m->shared->automaton, m->state);
    return true;
}

static bool look_done(struct matcher *m, void *arg)
{
    *(bool *)arg = automaton_only_complete(m->shared->automaton, m->state);
    return true;
}

/* ---- life ---- */

static void release(struct shared *s)
{
    pthread_mutex_lock(&s->lock);
    bool last = --s->users == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&s->lock);
    automaton_free(s->automaton);
    triggers_free(s->triggers);
    free(s);
}

static struct matcher *matcher_new(const struct vocab *vocab, struct shared *shared)
{
    struct matcher *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->vocab = vocab;
    pthread_mutex_lock(&shared->lock);
    shared->users++;
    pthread_mutex_unlock(&shared->lock);
    m->shared = shared;
    m->generation = automaton_generation(shared->automaton);
    m->allowance = WORK_AT_FIRST;
    m->admitted = calloc(((size_t)vocab->n_tokens + 63) / 64, sizeof *m->admitted);
    if (!m->admitted) {
        matcher_free(m);
        return NULL;
    }
    return m;
}

static struct shared *shared_new(const struct vocab *vocab, const struct sampler_settings *set,
                                 struct error *err)
{
    struct grammar *g = grammar_parse(vocab, set->grammar, set->grammar_objects, set->budget, err);
    if (!g) {
        /* What the reference answers; the reason goes where its goes, to the
         * log, except where the reference would not have answered at all. */
        if (err && err->code == ERR_LIMIT) {
            error_prefix(err, "failed to parse grammar");
        } else if (err && err->code == ERR_FORMAT) {
            log_warn("the grammar of a request does not parse: %s", err->message);
            error_set(err, ERR_FORMAT, "failed to parse grammar");
        }
        return NULL;
    }
    struct shared *s = calloc(1, sizeof *s);
    if (!s) {
        grammar_free(g);
        error_memory(err);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->users = 1;
    s->automaton = automaton_create(vocab, g);
    if (!s->automaton)
        error_memory(err);
    else if (!set->grammar_lazy ||
             (s->triggers = triggers_create(set->grammar_triggers, set->n_grammar_triggers, err)))
        return s;
    release(s);
    return NULL;
}

/* What of the answer stands in the prompt. Where the grammar does not take it, no
 * answer can: the request asks for what excludes itself. */
static bool take_prefill(struct matcher *m, struct token_run prefill, struct error *err)
{
    for (size_t i = 0; i < prefill.n; i++) {
        if (matcher_accept(m, prefill.tokens[i], err))
            continue;
        struct slice text = vocab_piece(m->vocab, prefill.tokens[i]);
        if (err->code == ERR_STATE)
            error_set(err, ERR_INVALID,
                      "the beginning of the answer, which the request gives, does not fit its "
                      "grammar, response format or tools: \"%.*s\" cannot stand there; leave the "
                      "last assistant message out, or the format",
                      (int)(text.len < 60 ? text.len : 60), text.data);
        return false;
    }
    return true;
}

bool matcher_create(const struct vocab *vocab, const struct sampler_settings *set,
                    struct matcher **out, struct error *err)
{
    struct error ignored;
    *out = NULL;
    if (set->grammar.len == 0)
        return true;
    if (!err)
        err = &ignored;
    struct shared *shared = shared_new(vocab, set, err);
    if (!shared)
        return false;
    struct matcher *m = matcher_new(vocab, shared);
    release(shared);
    if (!m)
        return error_memory(err);
    m->waiting = set->grammar_lazy;
    shared->budget = set->budget;
    bool ok = with_automaton(m, start, NULL, err);
    if (ok && !set->grammar_lazy && set->grammar_prefilled)
        ok = take_prefill(m, set->prefill, err);
    shared->budget = NULL;
    if (!ok) {
        matcher_free(m);
        return false;
    }
    *out = m;
    return true;
}

struct matcher *matcher_clone(const struct matcher *from)
{
    struct matcher *m = matcher_new(from->vocab, from->shared);
    if (!m)
        return NULL;
    m->state = from->state;
    m->allowance = from->allowance;
    m->generation = from->generation;
    m->waiting = from->waiting;
    bool ok = VEC_RESERVE(&m->saved, from->saved.n) && VEC_RESERVE(&m->held, from->held.n) &&
              str_append_slice(&m->buffer, str_slice(&from->buffer));
    if (!ok) {
        matcher_free(m);
        return NULL;
    }
    for (size_t i = 0; i < from->saved.n; i++)
        m->saved.data[m->saved.n++] = from->saved.data[i];
    for (size_t i = 0; i < from->held.n; i++)
        m->held.data[m->held.n++] = from->held.data[i];
    return m;
}

void matcher_free(struct matcher *m)
{
    if (!m)
        return;
    release(m->shared);
    VEC_FREE(&m->saved);
    VEC_FREE(&m->held);
    str_free(&m->buffer);
    free(m->admitted);
    free(m);
}

/* ---- use ---- */

const uint64_t *matcher_mask(struct matcher *m, struct error *err)
{
    return with_automaton(m, fill_mask, NULL, err) ? m->admitted : NULL;
}

static bool move(struct matcher *m, int32_t token, struct slice text, struct error *err)
{
    struct step step = {token, text, true, false};
    if (!with_automaton(m, take_step, &step, err))
        return false;
    if (step.admits)
        return true;
    return error_set(err, ERR_STATE,
                     "Unexpected empty grammar stack after accepting piece: %.*s (%d)",
                     (int)(text.len < 200 ? text.len : 200), text.data, (int)token);
}

/* The trigger begins somewhere in what was held: the grammar takes it from
 * there, the first token perhaps only in part. */
static bool feed_held(struct matcher *m, size_t begin, struct error *err)
{
    bool ok = true;
    for (size_t i = 0; ok && i < m->held.n; i++) {
        struct held_token held = m->held.data[i];
        if (held.end <= begin)
            continue;
        size_t from = held.begin < begin ? begin : held.begin;
        ok = move(m, held.token, (struct slice){m->buffer.data + from, held.end - from}, err);
    }
    return ok;
}

static void forget_held(struct matcher *m)
{
    str_clear(&m->buffer);
    m->held.n = 0;
    m->search.n = 0;
}

/* What the model wrote is no error: where it does not go on as the grammar does,
 * it was no call but text, and the next trigger is waited for. */
static bool wake(struct matcher *m, size_t begin, struct error *err)
{
    struct error reason = {0};
    bool ok = feed_held(m, begin, &reason);
    forget_held(m);
    m->waiting = !ok;
    if (ok)
        return true;
    if (reason.code == ERR_STATE)
        return with_automaton(m, start, NULL, err);
    if (err)
        *err = reason;
    return false;
}

static bool hold(struct matcher *m, int32_t token, struct slice text, struct error *err)
{
    struct held_token held = {token, m->buffer.len, m->buffer.len + text.len};
    return (VEC_PUSH(&m->held, held) && str_append_slice(&m->buffer, text)) || error_memory(err);
}

/* Does the buffer, which n_new bytes of token end, hold a trigger? */
static enum trigger_result triggered(struct matcher *m, int32_t token, size_t n_new, size_t *begin,
                                     struct error *err)
{
    if (m->search.n == 0 || m->search.n != m->buffer.len || m->search.token != token) {
        m->search.token = token;
        m->search.result = triggers_on_text(m->shared->triggers, str_slice(&m->buffer), n_new,
                                            &m->search.begin, err);
        m->search.n = m->search.result == TRIGGER_FAILED ? 0 : m->buffer.len;
    }
    *begin = m->search.begin;
    return m->search.result;
}

/* Would token complete a trigger that began before it, and go on wrongly? Then the
 * grammar wakes with what was written so far, and the token is not admitted. */
static bool admits_waiting(struct matcher *m, int32_t token, bool *admits, struct error *err)
{
    struct slice text = vocab_piece(m->vocab, token);
    size_t n_held = m->held.n, n_text = m->buffer.len, begin;
    struct error reason = {0};
    *admits = true;
    if (n_text == 0 || triggers_on_token(m->shared->triggers, token))
        return true;
    if (!hold(m, token, text, err))
        return false;
    enum trigger_result result = triggered(m, token, text.len, &begin, err);
    bool found = result == TRIGGER_FOUND;
    bool wrong = found && begin < n_text && !feed_held(m, begin, &reason);
    m->held.n = n_held;
    str_truncate(&m->buffer, n_text);
    if (result == TRIGGER_FAILED)
        return false;
    if (found && !with_automaton(m, start, NULL, err))
        return false;
    if (!wrong || reason.code != ERR_STATE || !feed_held(m, begin, &reason))
        return !found || with_automaton(m, start, NULL, err);
    forget_held(m);
    m->waiting = *admits = false;
    return true;
}

bool matcher_admits(struct matcher *m, int32_t token, bool *admits, struct error *err)
{
    if (m->waiting)
        return admits_waiting(m, token, admits, err);
    *admits = true;
    if (vocab_is_eog(m->vocab, token))
        return with_automaton(m, look_complete, admits, err);
    struct step step = {token, vocab_piece(m->vocab, token), false, false};
    *admits = false;
    if (step.text.len == 0 || memchr(step.text.data, 0, step.text.len))
        return true;
    if (!with_automaton(m, take_step, &step, err))
        return false;
    *admits = step.admits;
    return true;
}

bool matcher_accept(struct matcher *m, int32_t token, struct error *err)
{
    m->allowance += WORK_PER_TOKEN;
    struct slice text = vocab_piece(m->vocab, token);
    if (m->waiting) {
        if (triggers_on_token(m->shared->triggers, token)) {
            forget_held(m);
            return hold(m, token, text, err) && wake(m, 0, err);
        }
        size_t begin;
        if (!hold(m, token, text, err))
            return false;
        switch (triggered(m, token, text.len, &begin, err)) {
        case TRIGGER_FOUND:
            return wake(m, begin, err);
        case TRIGGER_NONE:
            return true;
        case TRIGGER_FAILED:
            return false;
        }
    }
    if (vocab_is_eog(m->vocab, token))
        return true; /* the text ends, complete or not */
    return move(m, token, text, err);
}

bool matcher_done(const struct matcher *m)
{
    bool done = false;
    /* Looking may renew the number of the state, not the position. */
    struct matcher *self = (struct matcher *)(uintptr_t)m;
    return !m->waiting && with_automaton(self, look_done, &done, NULL) && done;
}
