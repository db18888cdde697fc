/* stage_truncate.c - the stages that drop candidates: top-k, top-p, min-p,
 * locally typical, top-n-sigma, XTC. */
#include "sample/stage.h"

struct truncate_state {
    float p; /* the probability, or n for top-n-sigma */
    float threshold;
    size_t min_keep;
    int32_t k;
    struct random random;
};

static bool make(struct stage *out, const struct stage_kind *kind, struct truncate_state state)
{
    struct truncate_state *s = stage_new(out, kind);
    if (s)
        *s = state;
    return s;
}

static size_t min_keep_of(const struct stage_inputs *in)
{
    return in->settings->min_keep > 0 ? (size_t)in->settings->min_keep : 0;
}

/* ---- top-k ---- */

static void top_k_apply(void *state, struct candidates *c)
{
    candidates_keep_top(c, ((struct truncate_state *)state)->k);
}

static const struct stage_kind top_k_kind = {
    .name = "top_k", .size = sizeof(struct truncate_state), .apply = top_k_apply};

bool stage_top_k(const struct stage_inputs *in, struct stage *out)
{
    if (in->settings->top_k <= 0)
        return true;
    return make(out, &top_k_kind, (struct truncate_state){.k = in->settings->top_k});
}

/* ---- top-p: the fewest most probable tokens whose sum reaches p (Holtzman et
 * al. 2020, the nucleus) ---- */

/* Sort as much of the front as the nucleus needs, by growing steps; a full
 * sort only for a flat distribution. Returns how many are kept. */
static size_t nucleus(struct candidates *c, float p, size_t min_keep)
{
    float sum = 0.0f;
    size_t done = 0;
    for (size_t step = c->sorted || c->n <= 1024 ? c->n : 256;; step *= 16) {
        if (step > c->n)
            step = c->n;
        const struct candidate *best = c->data;
        if (!c->sorted) {
            if (step <= 1024 && step < c->n) {
                candidates_best(c->data, c->n, step, c->spare);
                best = c->spare;
            } else {
                candidates_sort(c);
                best = c->data;
                step = c->n;
            }
        }
        for (; done < step; done++) {
            sum += best[done].p;
            if (sum >= p && done + 1 >= min_keep) {
                if (best != c->data)
                    memcpy(c->data, best, (done + 1) * sizeof *c->data);
                c->sorted = true;
                return done + 1;
            }
        }
        if (step == c->n)
            return c->n;
    }
}

static void top_p_apply(void *state, struct candidates *c)
{
    struct truncate_state *s = state;
    if (c->n == 0)
        return;
    candidates_softmax(c, false);
    c->n = nucleus(c, s->p, s->min_keep);
}

static const struct stage_kind top_p_kind = {
    .name = "top_p", .size = sizeof(struct truncate_state), .apply = top_p_apply};

bool stage_top_p(const struct stage_inputs *in, struct stage *out)
{
    if (in->settings->top_p >= 1.0f)
        return true;
    return make(out, &top_p_kind,
                (struct truncate_state){.p = in->settings->top_p, .min_keep = min_keep_of(in)});
}

/* ---- min-p: tokens at least p times as probable as the best (Nguyen et al.
 * 2024) ---- */

static void min_p_apply(void *state, struct candidates *c)
{
    struct truncate_state *s = state;
    if (c->n == 0)
        return;
    if (!c->sorted) {
        float max = -FLT_MAX;
        for (size_t i = 0; i < c->n; i++)
            max = c->data[i].logit > max ? c->data[i].logit : max;
        float least = max + logf(s->p);
        size_t kept = 0;
        for (size_t i = 0; i < c->n; i++)
            kept += c->data[i].logit >= least;
        if (kept && kept >= s->min_keep) {
            kept = 0;
            for (size_t i = 0; i < c->n; i++)
                if (c->data[i].logit >= least)
                    c->data[kept++] = c->data[i];
            c->n = kept;
            return;
        }
        candidates_sort(c);
    }
    float least = c->data[0].logit + logf(s->p);
    size_t kept = 1;
    while (kept < c->n && !(c->data[kept].logit < least && kept >= s->min_keep))
        kept++;
    c->n = kept;
}

static const struct stage_kind min_p_kind = {
    .name = "min_p", .size = sizeof(struct truncate_state), .apply = min_p_apply};

bool stage_min_p(const struct stage_inputs *in, struct stage *out)
{
    if (!(in->settings->min_p > 0.0f))
        return true;
    return make(out, &min_p_kind,
                (struct truncate_state){.p = in->settings->min_p, .min_keep = min_keep_of(in)});
}

/* ---- locally typical: tokens whose information is nearest the entropy
 * (Meister et al. 2023) ---- */

static void typical_apply(void *state, struct candidates *c)
{
    struct truncate_state *s = state;
    if (c->n == 0)
        return;
    candidates_softmax(c, true);
    float entropy = 0.0f;
    for (size_t i = 0; i < c->n; i++)
        if (c->data[i].p > 0.0f)
            entropy += -c->data[i].p * logf(c->data[i].p);
    /* Sorted by distance, smallest first, the more probable first on ties:
     * token holds the index while sorting. */
    for (size_t i = 0; i < c->n; i++) {
        float distance = fabsf(-logf(c->data[i].p) - entropy);
        c->spare[i] = (struct candidate){(int32_t)i, -distance, c->data[i].p};
    }
    candidates_sort_array(c->spare, c->n, c->scratch);
    float sum = 0.0f;
    size_t kept = c->n;
    for (size_t i = 0; i < c->n; i++) {
        sum += c->spare[i].p;
        if (sum > s->p && i + 1 >= s->min_keep) {
            kept = i + 1;
            break;
        }
    }
    for (size_t i = 0; i < kept; i++)
        c->scratch[i] = c->data[c->spare[i].token];
    memcpy(c->data, c->scratch, kept * sizeof *c->data);
    c->n = kept;
    c->sorted = false;
}

static const struct stage_kind typical_kind = {
    .name = "typ_p", .size = sizeof(struct truncate_state), .apply = typical_apply};

bool stage_typical_p(const struct stage_inputs *in, struct stage *out)
{
    if (in->settings->typical_p >= 1.0f)
        return true;
    return make(out, &typical_kind,
                (struct truncate_state){.p = in->settings->typical_p, .min_keep = min_keep_of(in)});
}

/* ---- top-n-sigma: logits within n standard deviations of the best (Tang et
 * al. 2024) ---- */

static void sigma_apply(void *state, struct candidates *c)
{
    struct truncate_state *s = state;
    if (c->n <= 1)
        return;
    float max = c->data[0].logit, sum = 0.0f;
    size_t valid = 0;
    for (size_t i = 0; i < c->n; i++) {
        float logit = c->data[i].logit;
        if (logit == -INFINITY)
            continue;
        max = logit > max ? logit : max;
        sum += logit;
        valid++;
    }
    float mean = valid ? sum / (float)valid : 0.0f;
    float squares = 0.0f;
    for (size_t i = 0; i < c->n; i++) {
        if (c->data[i].logit == -INFINITY)
            continue;
        double difference = (double)(c->data[i].logit - mean);
        squares = (float)((double)squares + difference * difference);
    }
    float deviation = valid ? sqrtf(squares / (float)valid) : 0.0f;
    float least = max - s->p * deviation;
    for (size_t i = 0; i < c->n; i++)
        if (c->data[i].logit < least)
            c->data[i].logit = -INFINITY;
}

static const struct stage_kind sigma_kind = {
    .name = "top_n_sigma", .size = sizeof(struct truncate_state), .apply = sigma_apply};

bool stage_top_n_sigma(const struct stage_inputs *in, struct stage *out)
{
    if (!(in->settings->top_n_sigma > 0.0f))
        return true;
    return make(out, &sigma_kind, (struct truncate_state){.p = in->settings->top_n_sigma});
}

/* ---- XTC, "exclude top choices": with a chance, all tokens above a threshold
 * but the least probable of them go (p-e-w, text-generation-webui pull request
 * 6335) ---- */

static void xtc_apply(void *state, struct candidates *c)
{
    struct truncate_state *s = state;
    if (c->n < 2 || random_float(&s->random) > s->p)
        return;
    candidates_softmax(c, true);
    size_t last = 0;
    for (size_t i = 0; i < c->n && c->data[i].p >= s->threshold; i++)
        last = i;
    if (last > 0 && c->n - last >= s->min_keep) {
        c->data += last;
        c->n -= last;
    }
}

static const struct stage_kind xtc_kind = {
    .name = "xtc", .size = sizeof(struct truncate_state), .apply = xtc_apply};

bool stage_xtc(const struct stage_inputs *in, struct stage *out)
{
    const struct sampler_settings *set = in->settings;
    if (!(set->xtc_probability > 0.0f) || set->xtc_threshold > 0.5f)
        return true;
    if (!make(out, &xtc_kind,
              (struct truncate_state){.p = set->xtc_probability,
                                      .threshold = set->xtc_threshold,
                                      .min_keep = min_keep_of(in)}))
        return false;
    random_seed(&((struct truncate_state *)out->state)->random, in->seed);
    return true;
}
