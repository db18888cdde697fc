/* chain_test.c - each sampler on logits made by hand, against values worked out
 * from its definition. */
#include "unit/sample/helpers.h"
#include "unit/unit.h"

#include <math.h>
#include <string.h>

enum { N = 8 };

static void expect_near(double got, double want)
{
    if (fabs(got - want) > 1e-5)
        fail_msg("%.7f, by definition %.7f", got, want);
}

/* Probabilities to logits: the softmax gives them back. */
static void logits_of(const double *p, float *logits, int n)
{
    for (int i = 0; i < n; i++)
        logits[i] = p[i] > 0 ? (float)log(p[i]) : -INFINITY;
}

struct outcome {
    struct sampler *sampler;
    const struct candidate *left;
    size_t n, selected;
    int32_t token;
};

static struct outcome sample_once(const struct vocab *vocab, const struct sampler_settings *set,
                                  const float *logits)
{
    struct error err = {0};
    struct outcome o = {.sampler = sampler_create(vocab, set, 128, &err)};
    if (!o.sampler)
        fail_msg("%s", err.message);
    assert_true(sampler_sample(o.sampler, logits, &o.token, &err));
    o.left = sampler_candidates(o.sampler, &o.n, &o.selected);
    assert_int_equal(o.left[o.selected].token, o.token);
    return o;
}

/* What is left after one sampler, by token, with the probabilities. */
static void expect_left(struct sampler_settings set, const float *logits, const double *want)
{
    struct vocab *vocab = numbered_vocab(N);
    struct outcome o = sample_once(vocab, &set, logits);
    double got[N] = {0};
    for (size_t i = 0; i < o.n; i++)
        got[o.left[i].token] = (double)o.left[i].p;
    for (int i = 0; i < N; i++)
        if (fabs(got[i] - want[i]) > 1e-5)
            fail_msg("token %d: probability %.7f, by definition %.7f", i, got[i], want[i]);
    sampler_free(o.sampler);
    numbered_free(vocab);
}

static struct sampler_settings only(enum sampler_kind kind)
{
    struct sampler_settings set = plain_settings();
    set.samplers[0] = kind;
    set.n_samplers = 1;
    return set;
}

static const double spread[N] = {0.05, 0.30, 0.02, 0.20, 0.25, 0.10, 0.05, 0.03};

static void greedy_takes_the_largest_and_the_lowest_id_of_equals(void **state)
{
    (void)state;
    struct vocab *vocab = numbered_vocab(N);
    float logits[N] = {1, 3, 2, 7, 7, 7, 0, -1};
    struct sampler_settings set = sampler_settings_defaults();
    set.temperature = 0;
    struct outcome o = sample_once(vocab, &set, logits);
    assert_int_equal(o.token, 3);
    sampler_free(o.sampler);
    set.temperature = -1;
    set.n_samplers = 1;
    set.samplers[0] = SAMPLER_TEMPERATURE;
    o = sample_once(vocab, &set, logits);
    assert_int_equal(o.token, 3);
    sampler_free(o.sampler);
    numbered_free(vocab);
}

static void top_k_keeps_the_k_most_probable(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = only(SAMPLER_TOP_K);
    set.top_k = 3;
    /* {1: .30, 4: .25, 3: .20} over .75 */
    expect_left(set, logits, (double[N]){[1] = 0.4, [4] = 0.25 / 0.75, [3] = 0.2 / 0.75});
    set.top_k = 0;
    expect_left(set, logits, spread);
    set.top_k = INT32_MAX;
    expect_left(set, logits, spread);
}

/* Holtzman et al. 2020: the smallest set whose probability reaches p. */
static void top_p_keeps_the_nucleus(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = only(SAMPLER_TOP_P);
    set.top_p = 0.6f; /* .30 + .25 = .55 < .6 <= .75 */
    expect_left(set, logits, (double[N]){[1] = 0.4, [4] = 0.25 / 0.75, [3] = 0.2 / 0.75});
    set.top_p = 0.0f;
    expect_left(set, logits, (double[N]){[1] = 1});
    set.min_keep = 2;
    expect_left(set, logits, (double[N]){[1] = 0.3 / 0.55, [4] = 0.25 / 0.55});
    set.top_p = 1.0f;
    expect_left(set, logits, spread);
}

/* Nguyen et al. 2024: p_i >= min_p * p_max. */
static void min_p_keeps_what_is_near_the_best(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = only(SAMPLER_MIN_P);
    set.min_p = 0.5f; /* at least .15 */
    expect_left(set, logits, (double[N]){[1] = 0.4, [4] = 0.25 / 0.75, [3] = 0.2 / 0.75});
    set.min_keep = 4;
    expect_left(
        set, logits,
        (double[N]){[1] = 0.3 / 0.85, [4] = 0.25 / 0.85, [3] = 0.2 / 0.85, [5] = 0.1 / 0.85});
}

/* Meister et al. 2023: the smallest set of tokens with -log p nearest the
 * entropy whose probability exceeds p. */
static void typical_keeps_what_is_as_surprising_as_expected(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    double entropy = 0;
    for (int i = 0; i < N; i++)
        entropy -= spread[i] * log(spread[i]);
    double want[N] = {0}, sum = 0;
    while (sum <= 0.5) {
        int nearest = -1;
        for (int i = 0; i < N; i++)
            if (want[i] == 0 && (nearest < 0 || fabs(-log(spread[i]) - entropy) <
                                                    fabs(-log(spread[nearest]) - entropy)))
                nearest = i;
        want[nearest] = spread[nearest];
        sum += spread[nearest];
    }
    for (int i = 0; i < N; i++)
        want[i] /= sum;
    struct sampler_settings set = only(SAMPLER_TYPICAL_P);
    set.typical_p = 0.5f;
    expect_left(set, logits, want);
}

/* Tang et al. 2024: logits at least max - n * standard deviation. */
static void top_n_sigma_measures_from_the_best_logit(void **state)
{
    (void)state;
    /* Mean 4, deviation 2: (9 + 1 + 1 + 1 + 0 + 0 + 4 + 16) / 8 = 4. */
    float logits[N] = {1, 3, 3, 3, 4, 4, 6, 8};
    struct sampler_settings set = only(SAMPLER_TOP_N_SIGMA);
    set.top_n_sigma = 1.0f; /* at least 6 */
    double e = exp(-2);
    expect_left(set, logits, (double[N]){[6] = e / (1 + e), [7] = 1 / (1 + e)});
}

static void temperature_divides_the_logits(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = only(SAMPLER_TEMPERATURE);
    set.temperature = 0.5f; /* squares the probabilities */
    double want[N], sum = 0;
    for (int i = 0; i < N; i++)
        sum += want[i] = spread[i] * spread[i];
    for (int i = 0; i < N; i++)
        want[i] /= sum;
    expect_left(set, logits, want);
}

/* T = low + (high - low) * (H / log n) ^ exponent, with H the entropy. */
static void dynamic_temperature_follows_the_entropy(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = only(SAMPLER_TEMPERATURE);
    set.temperature = 1.0f;
    set.dynatemp_range = 0.5f;
    set.dynatemp_exponent = 2.0f;
    double entropy = 0;
    for (int i = 0; i < N; i++)
        entropy -= spread[i] * log(spread[i]);
    double temperature = 0.5 + (1.5 - 0.5) * pow(entropy / log(N), 2);
    double want[N], sum = 0;
    for (int i = 0; i < N; i++)
        sum += want[i] = pow(spread[i], 1 / temperature);
    for (int i = 0; i < N; i++)
        want[i] /= sum;
    expect_left(set, logits, want);
}

/* All but the least probable of those above the threshold go. */
static void xtc_removes_the_top_choices(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = only(SAMPLER_XTC);
    set.xtc_probability = 1.0f;
    set.xtc_threshold = 0.15f; /* 1, 4 and 3 are above; 3 stays */
    double left = 1 - 0.30 - 0.25;
    double want[N];
    for (int i = 0; i < N; i++)
        want[i] = i == 1 || i == 4 ? 0 : spread[i] / left;
    expect_left(set, logits, want);
    set.xtc_threshold = 0.29f; /* only one is above: nothing happens */
    expect_left(set, logits, spread);
    set.xtc_threshold = 0.6f; /* more than a half: off */
    expect_left(set, logits, spread);
}

static void expect_after(struct sampler_settings set, const float *logits, const int32_t *history,
                         size_t n_history, const float *want_logits)
{
    struct vocab *vocab = numbered_vocab(N);
    struct error err = {0};
    struct sampler *s = sampler_create(vocab, &set, 128, &err);
    assert_non_null(s);
    for (size_t i = 0; i < n_history; i++)
        assert_true(sampler_accept(s, history[i], false, &err));
    int32_t token;
    for (int round = 0; round < 2; round++) { /* nothing may be left over */
        assert_true(sampler_sample(s, logits, &token, &err));
        size_t n, selected;
        const struct candidate *left = sampler_candidates(s, &n, &selected);
        assert_int_equal(n, N);
        for (size_t i = 0; i < n; i++)
            if (fabsf(left[i].logit - want_logits[left[i].token]) > 1e-5f)
                fail_msg("token %d: logit %f, by definition %f", (int)left[i].token,
                         (double)left[i].logit, (double)want_logits[left[i].token]);
    }
    sampler_free(s);
    numbered_free(vocab);
}

/* Keskar et al. 2019 with negative logits multiplied; OpenAI: minus count *
 * frequency, minus presence once. */
static void penalties_count_the_window(void **state)
{
    (void)state;
    float logits[N] = {2, -2, 1, 0, 3, 4, 5, 6};
    struct sampler_settings set = only(SAMPLER_PENALTIES);
    set.repeat_penalty = 2;
    set.frequency_penalty = 0.25f;
    set.presence_penalty = 0.5f;
    set.repeat_last_n = 4;
    int32_t history[] = {7, 7, 0, 1, 0, 0}; /* the window is 0 1 0 0 */
    float want[N] = {2 / 2.f - 3 * 0.25f - 0.5f, -2 * 2.f - 0.25f - 0.5f, 1, 0, 3, 4, 5, 6};
    expect_after(set, logits, history, 6, want);
    set.repeat_last_n = -1; /* the context: everything */
    want[7] = 6 / 2.f - 2 * 0.25f - 0.5f;
    expect_after(set, logits, history, 6, want);
    set.repeat_last_n = 0;
    expect_after(set, logits, history, 6, logits);
}

static void penalties_after_another_stage_find_their_tokens(void **state)
{
    (void)state;
    float logits[N] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct sampler_settings set = plain_settings();
    set.samplers[0] = SAMPLER_TOP_K;
    set.samplers[1] = SAMPLER_PENALTIES;
    set.n_samplers = 2;
    set.top_k = N;
    set.presence_penalty = 10;
    float want[N] = {1, 2, 3, 4, 5, 6, -3, 8};
    expect_after(set, logits, (int32_t[]){6, 6}, 2, want);
}

/* multiplier * base ^ (length - allowed_length) for the token that would make
 * the repetition longer. */
static void dry_punishes_the_token_that_would_repeat(void **state)
{
    (void)state;
    float logits[N] = {0};
    struct sampler_settings set = only(SAMPLER_DRY);
    set.dry_multiplier = 0.8f;
    set.dry_base = 2;
    set.dry_allowed_length = 2;
    set.dry_penalty_last_n = -1;
    set.n_dry_sequence_breakers = 0;
    /* "1 2 3 4 ... 1 2 3" would go on with 4: length 3. */
    float want[N] = {[4] = -0.8f * 2};
    expect_after(set, logits, (int32_t[]){1, 2, 3, 4, 5, 1, 2, 3}, 8, want);
    /* 2 2 2 2 repeats itself: length 3 so far. */
    float again[N] = {[2] = -0.8f * 2};
    expect_after(set, logits, (int32_t[]){2, 2, 2, 2}, 4, again);
    /* Too short. */
    float none[N] = {0};
    expect_after(set, logits, (int32_t[]){1, 2, 3, 1}, 4, none);
}

static void a_breaker_cuts_the_repetition(void **state)
{
    (void)state;
    float logits[N] = {0};
    struct sampler_settings set = only(SAMPLER_DRY);
    set.dry_multiplier = 1;
    set.dry_base = 2;
    set.dry_allowed_length = 1;
    set.dry_penalty_last_n = 64;
    struct slice breaker = SLICE("t2");
    set.dry_sequence_breakers = &breaker;
    set.n_dry_sequence_breakers = 1;
    /* Of "1 2 3" only the 3 after the breaker counts: length 1. */
    float want[N] = {[4] = -1};
    expect_after(set, logits, (int32_t[]){1, 2, 3, 4, 5, 1, 2, 3}, 8, want);
    /* A breaker itself is never punished. */
    float none[N] = {0};
    expect_after(set, logits, (int32_t[]){1, 2, 5, 1}, 4, none);
}

static void logit_bias_adds_and_bans(void **state)
{
    (void)state;
    float logits[N] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct sampler_settings set = plain_settings();
    struct logit_bias biases[] = {{7, -INFINITY}, {1, 2.5f}, {1, 1.0f},
                                  {6, -INFINITY}, {99, 1},   {-1, 1}};
    set.logit_bias = biases;
    set.n_logit_bias = 6;
    float want[N] = {0, 4.5f, 2, 3, 4, 5, -INFINITY, -INFINITY};
    struct vocab *vocab = numbered_vocab(N);
    struct outcome o = sample_once(vocab, &set, logits);
    for (size_t i = 0; i < o.n; i++)
        assert_true(o.left[i].logit == want[o.left[i].token]);
    sampler_free(o.sampler);
    numbered_free(vocab);
}

/* Basu et al. 2021, algorithm 2 with mu = 2 tau: keep surprise <= mu, sample,
 * mu -= eta * (surprise - tau). */
static void mirostat_2_cuts_at_mu_and_learns(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct vocab *vocab = numbered_vocab(N);
    struct sampler_settings set = plain_settings();
    set.mirostat = 2;
    set.temperature = 1;
    set.mirostat_tau = 1.1f; /* mu = 2.2 bits: p >= 2^-2.2 = 0.2176 */
    set.mirostat_eta = 1.0f;
    struct outcome o = sample_once(vocab, &set, logits);
    assert_int_equal(o.n, 2);
    expect_near((double)o.left[0].p, 0.3 / 0.55);
    double surprise = -log2((double)o.left[o.selected].p);
    double mu = 2.2 - (surprise - (double)1.1f);
    size_t want = 0;
    for (int i = 0; i < N; i++)
        want += -log2(spread[i]) <= mu;
    int32_t token;
    assert_true(sampler_sample(o.sampler, logits, &token, NULL));
    size_t n, selected;
    sampler_candidates(o.sampler, &n, &selected);
    assert_int_equal(n, want);
    sampler_free(o.sampler);
    numbered_free(vocab);
}

/* Algorithm 1: k from the Zipf exponent estimated over the best tokens. */
static void mirostat_1_keeps_k_by_zipf(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct vocab *vocab = numbered_vocab(N);
    struct sampler_settings set = plain_settings();
    set.mirostat = 1;
    set.temperature = 1;
    set.mirostat_tau = 1.0f;
    double sorted[N] = {0.30, 0.25, 0.20, 0.10, 0.05, 0.05, 0.03, 0.02}, tb = 0, tt = 0;
    for (int i = 0; i + 1 < N; i++) {
        double t = log((i + 2.0) / (i + 1.0)), b = log(sorted[i] / sorted[i + 1]);
        tb += t * b;
        tt += t * t;
    }
    double s = tb / tt, epsilon = s - 1;
    double k = pow(epsilon * pow(2, 2.0) / (1 - pow(N, -epsilon)), 1 / s);
    struct outcome o = sample_once(vocab, &set, logits);
    assert_int_equal(o.n, (size_t)(k < 1 ? 1 : k > N ? N : k));
    sampler_free(o.sampler);
    numbered_free(vocab);
}

/* llama.cpp pull request 17927: logit = 5 - 10 d^2 / (1 + d), d = |p - target| /
 * 0.3; the history starts as if it had always met the target. */
static void adaptive_p_prefers_probabilities_near_the_target(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = only(SAMPLER_ADAPTIVE_P);
    set.adaptive_target = 0.2f;
    double want[N], sum = 0;
    for (int i = 0; i < N; i++) {
        double d = fabs(spread[i] - 0.2) / 0.3;
        sum += want[i] = exp(5 - 10 * d * d / (1 + d));
    }
    for (int i = 0; i < N; i++)
        want[i] /= sum;
    expect_left(set, logits, want);
    set.adaptive_target = -1; /* off */
    expect_left(set, logits, spread);
}

static void infill_ends_when_ending_is_likely(void **state)
{
    (void)state;
    struct vocab *vocab = numbered_vocab(N); /* token 7 ends */
    struct sampler_settings set = only(SAMPLER_INFILL);
    float logits[N];
    /* 3 * p_end * n = 3 * .05 * 8 = 1.2 > .95 */
    logits_of((double[N]){0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.15, 0.05}, logits, N);
    struct outcome o = sample_once(vocab, &set, logits);
    assert_int_equal(o.token, 7);
    assert_int_equal(o.n, 1);
    sampler_free(o.sampler);
    /* Unlikely to end; of the others only those above .2 stay, then above
     * 1 / (2 + 1) of the rest. */
    logits_of((double[N]){0.4, 0.35, 0.05, 0.05, 0.05, 0.05, 0.049, 0.001}, logits, N);
    o = sample_once(vocab, &set, logits);
    for (size_t i = 0; i < o.n; i++)
        assert_true(o.left[i].token == 0 || o.left[i].token == 1 || o.left[i].token == 7);
    sampler_free(o.sampler);
    numbered_free(vocab);
}

static void infill_adds_up_tokens_with_a_common_beginning(void **state)
{
    (void)state;
    const char *pieces[] = {"re", "return", "x", "y", "z", "</s>"};
    struct toy toy;
    toy_create(&toy, pieces, 6, 1);
    struct sampler_settings set = only(SAMPLER_INFILL);
    float logits[6];
    /* "re" and "return" have .36 together; alone neither reaches .2. */
    logits_of((double[6]){0.19, 0.17, 0.24, 0.23, 0.169, 0.001}, logits, 6);
    struct outcome o = sample_once(toy.vocab, &set, logits);
    bool found = false;
    for (size_t i = 0; i < o.n; i++) {
        found = found || o.left[i].token == 0;
        assert_int_not_equal(o.left[i].token, 1);
    }
    assert_true(found);
    sampler_free(o.sampler);
    toy_free(&toy);
}

static void the_same_seed_gives_the_same_tokens(void **state)
{
    (void)state;
    struct vocab *vocab = numbered_vocab(N);
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = plain_settings();
    set.seed = 1234;
    struct sampler *a = sampler_create(vocab, &set, 0, NULL);
    struct sampler *b = sampler_create(vocab, &set, 0, NULL);
    set.seed = 1235;
    struct sampler *other = sampler_create(vocab, &set, 0, NULL);
    assert_int_equal(sampler_seed(a), 1234);
    int differ = 0;
    int32_t x, y, z;
    for (int i = 0; i < 200; i++) {
        assert_true(sampler_sample(a, logits, &x, NULL));
        assert_true(sampler_sample(b, logits, &y, NULL));
        assert_true(sampler_sample(other, logits, &z, NULL));
        assert_int_equal(x, y);
        differ += x != z;
    }
    assert_true(differ > 20);
    /* A clone goes on where the original stands. */
    struct sampler *c = sampler_clone(a, NULL);
    assert_non_null(c);
    for (int i = 0; i < 50; i++) {
        assert_true(sampler_sample(a, logits, &x, NULL));
        assert_true(sampler_sample(c, logits, &y, NULL));
        assert_int_equal(x, y);
    }
    sampler_free(a);
    sampler_free(b);
    sampler_free(c);
    sampler_free(other);
    set.seed = SAMPLER_SEED_RANDOM;
    a = sampler_create(vocab, &set, 0, NULL);
    b = sampler_create(vocab, &set, 0, NULL);
    assert_int_not_equal(sampler_seed(a), sampler_seed(b));
    sampler_free(a);
    sampler_free(b);
    numbered_free(vocab);
}

/* Pearson's statistic over 7 degrees of freedom stays below 24.32, the 0.1 %
 * point, for a fixed seed. */
static void the_distribution_is_the_softmax(void **state)
{
    (void)state;
    struct vocab *vocab = numbered_vocab(N);
    float logits[N];
    logits_of(spread, logits, N);
    struct sampler_settings set = plain_settings();
    struct sampler *s = sampler_create(vocab, &set, 0, NULL);
    enum { DRAWS = 20000 };
    int counts[N] = {0};
    for (int i = 0; i < DRAWS; i++) {
        int32_t token;
        assert_true(sampler_sample(s, logits, &token, NULL));
        counts[token]++;
    }
    double statistic = 0;
    for (int i = 0; i < N; i++) {
        double want = spread[i] * DRAWS;
        statistic += (counts[i] - want) * (counts[i] - want) / want;
    }
    if (statistic > 24.32)
        fail_msg("chi-square %.2f", statistic);
    sampler_free(s);
    numbered_free(vocab);
}

static void probabilities_before_sampling_are_the_softmax_of_all(void **state)
{
    (void)state;
    float logits[N];
    logits_of(spread, logits, N);
    struct candidate top[N + 2];
    float p;
    assert_int_equal(logits_top_probs(logits, N, 5, &p, top, 3), 3);
    expect_near((double)p, 0.10);
    int want[] = {1, 4, 3};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(top[i].token, want[i]);
        expect_near((double)top[i].p, spread[want[i]]);
    }
    /* Of equals (0 and 6) the lower id stands first. */
    assert_int_equal(logits_top_probs(logits, N, 5, NULL, top, N + 2), N);
    assert_int_equal(top[4].token, 0);
    assert_int_equal(top[5].token, 6);
    assert_int_equal(logits_top_probs(logits, N, 1, &p, NULL, 0), 0);
    expect_near((double)p, 0.30);
}

static void with_everything_banned_the_text_ends(void **state)
{
    (void)state;
    struct vocab *vocab = numbered_vocab(N);
    float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = i % 2 ? NAN : -INFINITY;
    struct sampler_settings set = sampler_settings_defaults();
    struct outcome o = sample_once(vocab, &set, logits);
    assert_int_equal(o.token, N - 1);
    sampler_free(o.sampler);
    numbered_free(vocab);
}

static void settings_that_make_no_sense_are_refused_by_name(void **state)
{
    (void)state;
    struct vocab *vocab = numbered_vocab(N);
    struct error err = {0};
    struct sampler_settings set = sampler_settings_defaults();
    set.repeat_penalty = 0;
    assert_null(sampler_create(vocab, &set, 0, &err));
    assert_string_equal(err.message, "penalty_repeat must be finite and greater than 0");
    set = sampler_settings_defaults();
    set.presence_penalty = INFINITY;
    assert_null(sampler_create(vocab, &set, 0, &err));
    assert_string_equal(err.message, "penalty_present must be finite");
    set = sampler_settings_defaults();
    set.temperature = NAN;
    assert_null(sampler_create(vocab, &set, 0, &err));
    assert_non_null(strstr(err.message, "temperature"));
    numbered_free(vocab);
}

static void names_letters_and_aliases_mean_their_sampler(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum sampler_kind kind;
    } good[] = {{"top_k", SAMPLER_TOP_K},
                {"top-k", SAMPLER_TOP_K},
                {"TopK", SAMPLER_TOP_K},
                {"nucleus", SAMPLER_TOP_P},
                {"temp", SAMPLER_TEMPERATURE},
                {"typ", SAMPLER_TYPICAL_P},
                {"typ-p", SAMPLER_TYPICAL_P},
                {"top-n-sigma", SAMPLER_TOP_N_SIGMA},
                {"adaptive-p", SAMPLER_ADAPTIVE_P},
                {"penalties", SAMPLER_PENALTIES}};
    enum sampler_kind kind;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(sampler_kind_from_name(slice_of(good[i].name), &kind));
        assert_int_equal(kind, good[i].kind);
    }
    assert_false(sampler_kind_from_name(SLICE("top"), &kind));
    assert_false(sampler_kind_from_name(SLICE(""), &kind));
    const char *letters = "edskypmxtia";
    for (int i = 0; letters[i]; i++) {
        assert_true(sampler_kind_from_letter(letters[i], &kind));
        assert_int_equal(kind, i);
        assert_int_equal(sampler_kind_letter(kind), letters[i]);
    }
    assert_false(sampler_kind_from_letter('q', &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_the_lowest_id_of_equals),
        cmocka_unit_test(top_k_keeps_the_k_most_probable),
        cmocka_unit_test(top_p_keeps_the_nucleus),
        cmocka_unit_test(min_p_keeps_what_is_near_the_best),
        cmocka_unit_test(typical_keeps_what_is_as_surprising_as_expected),
        cmocka_unit_test(top_n_sigma_measures_from_the_best_logit),
        cmocka_unit_test(temperature_divides_the_logits),
        cmocka_unit_test(dynamic_temperature_follows_the_entropy),
        cmocka_unit_test(xtc_removes_the_top_choices),
        cmocka_unit_test(penalties_count_the_window),
        cmocka_unit_test(penalties_after_another_stage_find_their_tokens),
        cmocka_unit_test(dry_punishes_the_token_that_would_repeat),
        cmocka_unit_test(a_breaker_cuts_the_repetition),
        cmocka_unit_test(logit_bias_adds_and_bans),
        cmocka_unit_test(mirostat_2_cuts_at_mu_and_learns),
        cmocka_unit_test(mirostat_1_keeps_k_by_zipf),
        cmocka_unit_test(adaptive_p_prefers_probabilities_near_the_target),
        cmocka_unit_test(infill_ends_when_ending_is_likely),
        cmocka_unit_test(infill_adds_up_tokens_with_a_common_beginning),
        cmocka_unit_test(the_same_seed_gives_the_same_tokens),
        cmocka_unit_test(the_distribution_is_the_softmax),
        cmocka_unit_test(probabilities_before_sampling_are_the_softmax_of_all),
        cmocka_unit_test(with_everything_banned_the_text_ends),
        cmocka_unit_test(settings_that_make_no_sense_are_refused_by_name),
        cmocka_unit_test(names_letters_and_aliases_mean_their_sampler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
