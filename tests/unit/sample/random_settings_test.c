/* random_settings_test.c - no value of any setting crashes, hangs or leaves the
 * result undefined. */
#include "unit/sample/helpers.h"
#include "unit/unit.h"

#include "base/random.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { N = 300, ROUNDS = 3000 };

static struct random dice;

static float odd_float(void)
{
    static const float odd[] = {0,     -0.0f,    1,         -1,       0.5f,     1e-40f,    FLT_MIN,
                                1e30f, -1e30f,   FLT_MAX,   -FLT_MAX, INFINITY, -INFINITY, NAN,
                                0.1f,  0.99999f, 1.000001f, 1e-30f,   2,        100};
    if (random_u32(&dice) % 3 == 0)
        return (float)random_double(&dice) * 2;
    return odd[random_u32(&dice) % (sizeof odd / sizeof *odd)];
}

static int32_t odd_int(void)
{
    static const int32_t odd[] = {0, 1, -1, 2, 5, 40, 64, N - 1, N, N + 1, INT32_MAX, INT32_MIN};
    return odd[random_u32(&dice) % (sizeof odd / sizeof *odd)];
}

static struct sampler_settings odd_settings(void)
{
    struct sampler_settings set = sampler_settings_defaults();
    float *const floats[] = {&set.top_p,
                             &set.min_p,
                             &set.typical_p,
                             &set.top_n_sigma,
                             &set.xtc_probability,
                             &set.xtc_threshold,
                             &set.temperature,
                             &set.dynatemp_range,
                             &set.dynatemp_exponent,
                             &set.repeat_penalty,
                             &set.frequency_penalty,
                             &set.presence_penalty,
                             &set.dry_multiplier,
                             &set.dry_base,
                             &set.mirostat_tau,
                             &set.mirostat_eta,
                             &set.adaptive_target,
                             &set.adaptive_decay};
    int32_t *const ints[] = {&set.min_keep, &set.top_k, &set.repeat_last_n, &set.dry_allowed_length,
                             &set.dry_penalty_last_n};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (random_u32(&dice) % 2)
            *floats[i] = odd_float();
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (random_u32(&dice) % 2)
            *ints[i] = odd_int();
    set.seed = random_u32(&dice);
    if (random_u32(&dice) % 4 == 0)
        set.mirostat = (int32_t)(random_u32(&dice) % 3);
    if (random_u32(&dice) % 2) {
        set.n_samplers = random_u32(&dice) % 20;
        for (size_t i = 0; i < set.n_samplers; i++)
            set.samplers[i] = (enum sampler_kind)(random_u32(&dice) % SAMPLER_KIND_COUNT);
    }
    return set;
}

static void odd_logits(float *logits)
{
    uint32_t kind = random_u32(&dice) % 6;
    for (int i = 0; i < N; i++) {
        logits[i] = (float)(random_double(&dice) * 20 - 10);
        if (kind == 1 && random_u32(&dice) % 3 == 0)
            logits[i] = odd_float();
        else if (kind == 2)
            logits[i] = -INFINITY;
        else if (kind == 3)
            logits[i] = NAN;
        else if (kind == 4)
            logits[i] = 7;
        else if (kind == 5 && i % 50)
            logits[i] = -INFINITY;
    }
}

static void any_setting_gives_a_token_or_a_reason(void **state)
{
    (void)state;
    struct vocab *vocab = numbered_vocab(N);
    float logits[N];
    int refused = 0;
    random_seed(&dice, 20260815);
    for (int round = 0; round < ROUNDS; round++) {
        struct sampler_settings set = odd_settings();
        struct logit_bias biases[] = {{odd_int(), odd_float()}, {3, odd_float()}, {7, -INFINITY}};
        set.logit_bias = biases;
        set.n_logit_bias = random_u32(&dice) % 4;
        struct error err = {0};
        struct sampler *s = sampler_create(vocab, &set, 64, &err);
        if (!s) {
            assert_true(err.message[0]);
            refused++;
            continue;
        }
        for (int step = 0; step < 12; step++) {
            int32_t token = -1;
            odd_logits(logits);
            assert_true(sampler_sample(s, logits, &token, &err));
            assert_true(token >= 0 && token < N);
            size_t n, selected;
            const struct candidate *left = sampler_candidates(s, &n, &selected);
            assert_true(n >= 1 && selected < n && left[selected].token == token);
            assert_true(left[selected].logit > -INFINITY);
            for (size_t i = 0; i < n; i++)
                assert_true(left[i].logit == left[i].logit);
            assert_true(left[selected].p >= 0 && left[selected].p <= 1.0001f);
            assert_true(sampler_accept(s, token, true, &err));
            if (step == 6) {
                struct sampler *copy = sampler_clone(s, &err);
                assert_non_null(copy);
                sampler_free(s);
                s = copy;
            }
        }
        sampler_free(s);
    }
    assert_true(refused > 0 && refused < ROUNDS - ROUNDS / 20);
    numbered_free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_setting_gives_a_token_or_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
