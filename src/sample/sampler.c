/* sampler.c - the chain: reasoning budget, grammar, stages, in their order. */
#include "sample/dry_breakers.h"
#include "sample/grammar.h"
#include "sample/reasoning.h"
#include "sample/stage.h"

#include <stdlib.h>

struct sampler {
    const struct vocab *vocab;
    struct candidates candidates;
    struct stage *stages; /* [n_stages], owned */
    size_t n_stages;
    uint32_t seed;
    struct matcher *matcher;       /* NULL: no grammar */
    struct reasoning *reasoning;   /* NULL: no budget */
    struct dry_breakers *breakers; /* a reference; NULL: DRY is off */
    bool grammar_lazy;
};

static stage_maker *const makers[SAMPLER_KIND_COUNT] = {
    [SAMPLER_PENALTIES] = stage_penalties,
    [SAMPLER_DRY] = stage_dry,
    [SAMPLER_TOP_N_SIGMA] = stage_top_n_sigma,
    [SAMPLER_TOP_K] = stage_top_k,
    [SAMPLER_TYPICAL_P] = stage_typical_p,
    [SAMPLER_TOP_P] = stage_top_p,
    [SAMPLER_MIN_P] = stage_min_p,
    [SAMPLER_XTC] = stage_xtc,
    [SAMPLER_TEMPERATURE] = stage_temperature,
    [SAMPLER_INFILL] = stage_infill,
};

static bool check_length(const char *name, size_t n, size_t most, struct error *err)
{
    return n <= most ||
           error_set(err, ERR_LIMIT, "%s: there are %zu, more than %zu", name, n, most);
}

static size_t count_tokens(const struct token_run *runs, size_t n)
{
    size_t sum = n; /* an empty one is looked at, too */
    for (size_t i = 0; i < n; i++)
        sum += runs[i].n;
    return sum;
}

/* What is looked through for every token has a limit. */
static bool check_lengths(const struct vocab *vocab, const struct sampler_settings *set,
                          struct error *err)
{
    size_t n_ends = count_tokens(set->reasoning_ends, set->n_reasoning_ends);
    const struct {
        const char *name;
        size_t n, most;
    } rows[] = {
        {"samplers", set->n_samplers, SAMPLER_ORDER_MAX},
        {"logit_bias", set->n_logit_bias, 2 * (size_t)vocab->n_tokens + 4096},
        {"dry_sequence_breakers", set->n_dry_sequence_breakers, DRY_BREAKERS_MAX},
        {"tokens of reasoning_budget_start_tag", set->reasoning_start.n,
         SAMPLER_REASONING_TOKENS_MAX},
        {"tokens of reasoning_budget_end_tags", n_ends, SAMPLER_REASONING_TOKENS_MAX},
        {"tokens of reasoning_budget_message", set->reasoning_forced.n,
         SAMPLER_REASONING_TOKENS_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!check_length(rows[i].name, rows[i].n, rows[i].most, err))
            return false;
    return true;
}

static bool check_settings(const struct sampler_settings *set, struct error *err)
{
    float repeat = set->repeat_penalty;
    if (!isfinite(repeat) || repeat <= 0.0f || !isfinite(1.0f / repeat))
        return error_set(err, ERR_INVALID, "penalty_repeat must be finite and greater than 0");
    if (!isfinite(set->frequency_penalty))
        return error_set(err, ERR_INVALID, "penalty_freq must be finite");
    if (!isfinite(set->presence_penalty))
        return error_set(err, ERR_INVALID, "penalty_present must be finite");
    if (set->mirostat < 0 || set->mirostat > 2)
        return error_set(err, ERR_INVALID, "mirostat must be 0, 1 or 2");
    const struct {
        const char *name;
        float value;
    } numbers[] = {
        {"top_p", set->top_p},
        {"min_p", set->min_p},
        {"typical_p", set->typical_p},
        {"top_n_sigma", set->top_n_sigma},
        {"xtc_probability", set->xtc_probability},
        {"xtc_threshold", set->xtc_threshold},
        {"temperature", set->temperature},
        {"dynatemp_range", set->dynatemp_range},
        {"dynatemp_exponent", set->dynatemp_exponent},
        {"dry_multiplier", set->dry_multiplier},
        {"dry_base", set->dry_base},
        {"mirostat_tau", set->mirostat_tau},
        {"mirostat_eta", set->mirostat_eta},
        {"adaptive_target", set->adaptive_target},
        {"adaptive_decay", set->adaptive_decay},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (isnan(numbers[i].value))
            return error_set(err, ERR_INVALID, "%s must be a number", numbers[i].name);
    return true;
}

static bool add_stage(struct sampler *s, stage_maker *make, const struct stage_inputs *in)
{
    struct stage *stage = &s->stages[s->n_stages];
    bool ok = make(in, stage);
    if (stage->kind)
        s->n_stages++;
    return ok;
}

static bool add_stages(struct sampler *s, const struct stage_inputs *in)
{
    const struct sampler_settings *set = in->settings;
    if (!add_stage(s, stage_logit_bias, in))
        return false;
    if (set->mirostat)
        return add_stage(s, stage_plain_temperature, in) &&
               add_stage(s, set->mirostat == 1 ? stage_mirostat_1 : stage_mirostat_2, in);
    stage_maker *last = stage_distribution;
    for (size_t i = 0; i < set->n_samplers; i++) {
        enum sampler_kind kind = set->samplers[i];
        if (kind == SAMPLER_ADAPTIVE_P)
            last = stage_adaptive_p; /* it picks the token, wherever it is named */
        else if (kind >= 0 && kind < SAMPLER_KIND_COUNT && !add_stage(s, makers[kind], in))
            return false;
    }
    return add_stage(s, last, in);
}

static struct sampler *allocate(const struct vocab *vocab, size_t n_stages)
{
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->vocab = vocab;
    s->stages = calloc(n_stages, sizeof *s->stages);
    if (!s->stages || !candidates_init(&s->candidates, (size_t)vocab->n_tokens)) {
        sampler_free(s);
        return NULL;
    }
    return s;
}

/* A sampler with its stages. Takes the reference to the breakers. */
static struct sampler *with_stages(const struct vocab *vocab, const struct sampler_settings *set,
                                   int32_t n_ctx, struct dry_breakers *breakers, struct error *err)
{
    struct sampler *s = allocate(vocab, SAMPLER_ORDER_MAX + 3);
    if (!s) {
        dry_breakers_drop(breakers);
        error_memory(err);
        return NULL;
    }
    s->breakers = breakers;
    s->seed = set->seed == SAMPLER_SEED_RANDOM ? random_fresh_seed() : set->seed;
    s->grammar_lazy = set->grammar_lazy;
    struct stage_inputs in = {vocab, set, s->seed, n_ctx, breakers};
    if (add_stages(s, &in))
        return s;
    error_memory(err);
    sampler_free(s);
    return NULL;
}

struct sampler *sampler_create(const struct vocab *vocab, const struct sampler_settings *set,
                               int32_t n_ctx, struct error *err)
{
    struct dry_breakers *breakers = NULL;
    if (vocab->n_tokens <= 0) {
        error_set(err, ERR_STATE, "the model has no vocabulary to sample from");
        return NULL;
    }
    if (!check_settings(set, err) || !check_lengths(vocab, set, err) ||
        (dry_is_on(set, n_ctx) && !(breakers = dry_breakers_create(vocab, set, err))))
        return NULL;
    struct sampler *s = with_stages(vocab, set, n_ctx, breakers, err);
    if (s && matcher_create(vocab, set, &s->matcher, err) &&
        reasoning_create(vocab, set, &s->reasoning, err))
        return s;
    sampler_free(s);
    return NULL;
}

struct sampler *sampler_create_sibling(const struct sampler *first,
                                       const struct sampler_settings *set, int32_t n_ctx,
                                       struct error *err)
{
    struct dry_breakers *breakers = first->breakers ? dry_breakers_hold(first->breakers) : NULL;
    struct sampler *s = with_stages(first->vocab, set, n_ctx, breakers, err);
    if (!s)
        return NULL;
    if ((!first->matcher || (s->matcher = matcher_clone(first->matcher))) &&
        (!first->reasoning || (s->reasoning = reasoning_clone(first->reasoning))))
        return s;
    sampler_free(s);
    error_memory(err);
    return NULL;
}

static void free_stage(struct stage *stage)
{
    if (stage->kind && stage->kind->free)
        stage->kind->free(stage->state);
    free(stage->state);
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->stages && i < s->n_stages; i++)
        free_stage(&s->stages[i]);
    free(s->stages);
    dry_breakers_drop(s->breakers);
    candidates_free(&s->candidates);
    matcher_free(s->matcher);
    reasoning_free(s->reasoning);
    free(s);
}

struct sampler *sampler_clone(const struct sampler *from, struct error *err)
{
    struct sampler *s = allocate(from->vocab, from->n_stages);
    if (!s)
        goto memory;
    s->seed = from->seed;
    s->grammar_lazy = from->grammar_lazy;
    s->breakers = from->breakers ? dry_breakers_hold(from->breakers) : NULL;
    for (size_t i = 0; i < from->n_stages; i++) {
        const struct stage_kind *kind = from->stages[i].kind;
        void *state = stage_new(&s->stages[i], kind);
        if (!state)
            goto memory;
        memcpy(state, from->stages[i].state, kind->size);
        s->n_stages++;
        if (kind->clone && !kind->clone(state, from->stages[i].state))
            goto memory;
    }
    if (from->matcher && !(s->matcher = matcher_clone(from->matcher)))
        goto memory;
    if (from->reasoning && !(s->reasoning = reasoning_clone(from->reasoning)))
        goto memory;
    const struct candidates *had = &from->candidates;
    if (had->selected != CANDIDATE_NONE) {
        memcpy(s->candidates.data, had->data, had->n * sizeof *had->data);
        s->candidates.n = had->n;
        s->candidates.selected = had->selected;
        s->candidates.sorted = had->sorted;
    }
    return s;
memory:
    sampler_free(s);
    error_memory(err);
    return NULL;
}

uint32_t sampler_seed(const struct sampler *s)
{
    return s->seed;
}

/* While the model thinks, a lazy grammar does not look. */
static bool grammar_applies(const struct sampler *s)
{
    if (!s->matcher)
        return false;
    return !s->reasoning || !s->grammar_lazy || !reasoning_active(s->reasoning);
}

static void run_stages(struct sampler *s)
{
    struct candidates *c = &s->candidates;
    for (size_t i = 0; i < s->n_stages; i++)
        s->stages[i].kind->apply(s->stages[i].state, c);
    /* Nothing that may be picked: end, rather than emit a banned token. */
    if (c->n == 0 || c->selected >= c->n || c->data[c->selected].logit == -INFINITY) {
        c->data = c->buffer;
        c->data[0] = (struct candidate){s->vocab->fallback, 0.0f, 1.0f};
        c->n = 1;
        c->selected = 0;
        c->sorted = true;
    }
}

bool sampler_sample(struct sampler *s, const float *logits, int32_t *token, struct error *err)
{
    struct candidates *c = &s->candidates;
    candidates_fill(c, logits);
    if (s->reasoning)
        reasoning_apply(s->reasoning, c);
    run_stages(s);
    *token = c->data[c->selected].token;
    if (!grammar_applies(s))
        return true;

    bool admits;
    if (!matcher_admits(s->matcher, *token, &admits, err))
        return false;
    if (admits)
        return true;
    const uint64_t *admitted = matcher_mask(s->matcher, err);
    if (!admitted)
        return false;
    candidates_fill_admitted(c, logits, admitted);
    if (s->reasoning)
        reasoning_apply(s->reasoning, c);
    run_stages(s);
    *token = c->data[c->selected].token;
    return true;
}

bool sampler_accept(struct sampler *s, int32_t token, bool is_generated, struct error *err)
{
    bool ok = true;
    bool to_grammar = is_generated && grammar_applies(s);
    if (s->reasoning && is_generated) {
        reasoning_accept(s->reasoning, token);
        /* The end of a thought may hold the trigger of the grammar. */
        if (s->matcher && !to_grammar) {
            struct token_run end = reasoning_end_match(s->reasoning);
            for (size_t i = 0; ok && i < end.n; i++)
                ok = matcher_accept(s->matcher, end.tokens[i], err);
        }
    }
    if (to_grammar)
        ok = matcher_accept(s->matcher, token, err) && ok;
    for (size_t i = 0; i < s->n_stages; i++)
        if (s->stages[i].kind->accept)
            s->stages[i].kind->accept(s->stages[i].state, token);
    return ok;
}

/* By p, the best first; the order of the stages stays where it says so. */
const struct candidate *sampler_candidates(struct sampler *s, size_t *n, size_t *selected)
{
    struct candidates *c = &s->candidates;
    if (!c->sorted && c->n && c->selected != CANDIDATE_NONE) {
        int32_t token = c->data[c->selected].token;
        for (size_t i = 0; i < c->n; i++)
            c->spare[i] = (struct candidate){(int32_t)i, c->data[i].p, 0.0f};
        candidates_sort_array(c->spare, c->n, c->scratch);
        for (size_t i = 0; i < c->n; i++)
            c->scratch[i] = c->data[c->spare[i].token];
        memcpy(c->data, c->scratch, c->n * sizeof *c->data);
        for (size_t i = 0; i < c->n; i++)
            if (c->data[i].token == token)
                c->selected = i;
        c->sorted = true;
    }
    *n = c->selected == CANDIDATE_NONE ? 0 : c->n;
    *selected = c->selected == CANDIDATE_NONE ? 0 : c->selected;
    return c->data;
}

bool sampler_force_reasoning_end(struct sampler *s)
{
    return s->reasoning && reasoning_force(s->reasoning);
}

bool sampler_grammar_done(const struct sampler *s)
{
    return s->matcher && matcher_done(s->matcher);
}
