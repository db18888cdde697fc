/* limits_test.c - what a request can make the sampler do for every token has an end. */
#include "unit/sample/helpers.h"
#include "unit/unit.h"

#include "sample/dry_breakers.h"
#include "sample/trigger.h"

#include <string.h>

/* ---- triggers ---- */

static struct triggers *try_triggers(enum grammar_trigger_kind kind, const char *text, size_t n,
                                     struct error *err)
{
    struct grammar_trigger *list = calloc(n, sizeof *list);
    for (size_t i = 0; i < n; i++)
        list[i] = (struct grammar_trigger){kind, slice_of(text), 0};
    struct triggers *t = triggers_create(list, n, err);
    free(list);
    return t;
}

static void too_many_triggers_or_too_long_ones_are_refused(void **state)
{
    (void)state;
    char *pattern = malloc(TRIGGER_PATTERN_BYTES_MAX + 2);
    memset(pattern, 'a', TRIGGER_PATTERN_BYTES_MAX + 1);
    pattern[TRIGGER_PATTERN_BYTES_MAX + 1] = 0;
    const struct {
        enum grammar_trigger_kind kind;
        const char *text;
        size_t n_good, n_bad;
        const char *limit;
    } rows[] = {
        {TRIGGER_PATTERN, "a+b", TRIGGER_PATTERNS_MAX, TRIGGER_PATTERNS_MAX + 1, "64"},
        {TRIGGER_PATTERN_FULL, "a+b", TRIGGER_PATTERNS_MAX, TRIGGER_PATTERNS_MAX + 1, "64"},
        {TRIGGER_WORD, "ab", TRIGGERS_MAX, TRIGGERS_MAX + 1, "4096"},
        {TRIGGER_TOKEN, "", TRIGGERS_MAX, TRIGGERS_MAX + 1, "4096"},
        {TRIGGER_PATTERN, pattern + 1, 1, 0, ""},
        {TRIGGER_PATTERN, pattern, 0, 1, "4096 bytes"},
        {TRIGGER_WORD, pattern, 63, 64, "262144 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err = {0};
        struct triggers *t = NULL;
        if (rows[i].n_good) {
            t = try_triggers(rows[i].kind, rows[i].text, rows[i].n_good, &err);
            assert_non_null(t);
            triggers_free(t);
        }
        if (!rows[i].n_bad)
            continue;
        assert_null(try_triggers(rows[i].kind, rows[i].text, rows[i].n_bad, &err));
        assert_int_equal(err.code, ERR_LIMIT);
        assert_non_null(strstr(err.message, "grammar_triggers"));
        assert_non_null(strstr(err.message, rows[i].limit));
    }
    free(pattern);
}

/* Whatever the pattern: it ends, by an answer or by the limit. Those that need more
 * than the limit say so. */
static void the_steps_of_patterns_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        enum trigger_result expected;
    } rows[] = {
        {"<call>", "the <b>x|y</b> and ", TRIGGER_NONE},
        {"\\s*<call>", "the <b>x|y</b> and ", TRIGGER_NONE},
        {"[\\s\\S]*?<call>", "the <b>x|y</b> >", TRIGGER_NONE},
        {"^[\\s\\S]*?(<call>|<tool>)", "the <b>x|y</b> >", TRIGGER_NONE},
        {"(x+x+)+y", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx y", TRIGGER_FAILED},
        {"(?:a?){40}a{40}b<", "aaaaaaaaaaaaaaaaaaaa b<", TRIGGER_FAILED},
        {"[^<]{9000,}x", "abcdefghijklmno xy", TRIGGER_FOUND},
        {"[^x]{9000,}x", "abcdefghijklmno xy", TRIGGER_FAILED},
        {"x[\\s\\S]*(x[\\s\\S]*)*x[\\s\\S]*z!", "xyz !", TRIGGER_FAILED},
    };
    char text[16000];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err = {0};
        struct triggers *t = try_triggers(TRIGGER_PATTERN, rows[i].pattern, 1, &err);
        size_t begin, len = strlen(rows[i].text);
        if (!t)
            fail_msg("%s: %s", rows[i].pattern, err.message);
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = rows[i].text[k % len];
        enum trigger_result result =
            triggers_on_text(t, (struct slice){text, sizeof text}, 4, &begin, &err);
        if (result != rows[i].expected)
            fail_msg("%s: %d", rows[i].pattern, (int)result);
        if (result == TRIGGER_FAILED)
            assert_int_equal(err.code, ERR_LIMIT);
        triggers_free(t);
    }
}

/* The limit is that of all patterns together. */
static void many_patterns_have_no_more_steps_than_one(void **state)
{
    (void)state;
    char text[4000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '>';
    struct slice whole = {text, sizeof text};
    struct error err = {0};
    size_t begin;
    struct triggers *one = try_triggers(TRIGGER_PATTERN, "^[\\s\\S]*?(<|!)>", 1, &err);
    struct triggers *many = try_triggers(TRIGGER_PATTERN, "^[\\s\\S]*?(<|!)>", 60, &err);
    assert_int_equal(triggers_on_text(one, whole, 1, &begin, &err), TRIGGER_NONE);
    assert_int_equal(triggers_on_text(many, whole, 1, &begin, &err), TRIGGER_FAILED);
    assert_int_equal(err.code, ERR_LIMIT);
    triggers_free(one);
    triggers_free(many);
}

/* Words are looked for only where they can be new. */
static void a_word_is_found_when_its_last_bytes_come(void **state)
{
    (void)state;
    const char *text = "say <tool_call> now";
    struct error err = {0};
    for (size_t step = 1; step < 8; step++) {
        struct triggers *t = try_triggers(TRIGGER_WORD, "<tool_call>", 1, &err);
        size_t at = 0, begin = 0;
        enum trigger_result result = TRIGGER_NONE;
        while (at < strlen(text) && result == TRIGGER_NONE) {
            size_t n = strlen(text) - at < step ? strlen(text) - at : step;
            at += n;
            result = triggers_on_text(t, (struct slice){text, at}, n, &begin, &err);
        }
        assert_int_equal(result, TRIGGER_FOUND);
        assert_int_equal(begin, 4);
        assert_true(at >= 15 && at < 15 + step);
        triggers_free(t);
    }
}

/* ---- DRY ---- */

enum { N_VOCAB = 60 };

static struct sampler_settings dry_settings(const struct slice *breakers, size_t n)
{
    struct sampler_settings set = plain_settings();
    set.samplers[0] = SAMPLER_DRY;
    set.n_samplers = 1;
    set.dry_multiplier = 1;
    set.dry_base = 1.5f;
    set.dry_allowed_length = 1;
    set.dry_penalty_last_n = 100;
    set.dry_sequence_breakers = breakers;
    set.n_dry_sequence_breakers = n;
    return set;
}

/* The longest repetition that the token would extend, by the definition. */
static size_t longest_repeat(const struct dry_breakers *b, const struct window *w, int32_t token)
{
    size_t n = window_size(w), limit = n, best = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t length = dry_breaker_at(b, w, i);
        if (length >= 0) {
            limit = i - (size_t)length;
            break;
        }
    }
    for (size_t k = 1; k < n; k++) {
        size_t length = 0;
        if (window_at(w, k - 1) != token)
            continue;
        while (k + length < n && length < limit && window_at(w, length) == window_at(w, k + length))
            length++;
        best = length > best ? length : best;
    }
    return best;
}

static void dry_agrees_with_its_definition_however_long_the_text(void **state)
{
    (void)state;
    const struct slice breakers[] = {SLICE("t7"), SLICE("t1t2t3"), SLICE("t22t23t24t2")};
    struct vocab *vocab = numbered_vocab(N_VOCAB);
    struct sampler_settings set = dry_settings(breakers, 3);
    struct error err = {0};
    struct sampler *s = sampler_create(vocab, &set, 512, &err);
    struct dry_breakers *b = dry_breakers_create(vocab, &set, &err);
    struct window w = {.n_max = 100};
    float logits[N_VOCAB] = {0};
    uint32_t random = 1;
    size_t n_penalties = 0;
    assert_non_null(s);
    assert_non_null(b);
    for (int step = 0; step < 3000; step++) {
        random = random * 1664525u + 1013904223u;
        /* Few tokens, now and then what breakers are made of. */
        int32_t token = (int32_t)(random >> 28) % 3 + 30 + (step % 211 == 0 ? -23 : 0);
        assert_true(sampler_accept(s, token, true, &err));
        window_push(&w, token);
        int32_t picked;
        assert_true(sampler_sample(s, logits, &picked, &err));
        size_t n, selected;
        const struct candidate *left = sampler_candidates(s, &n, &selected);
        for (size_t i = 0; i < n; i++) {
            size_t length = longest_repeat(b, &w, left[i].token);
            float penalty = 0;
            if (length >= 1 && !dry_breaks_alone(b, left[i].token))
                penalty = (float)pow(1.5, (double)(length - 1));
            n_penalties += penalty > 0;
            if (fabsf(left[i].logit + penalty) > 1e-3f * (1 + penalty))
                fail_msg("step %d, token %d: %g, not %g", step, left[i].token,
                         (double)left[i].logit, (double)-penalty);
        }
    }
    assert_true(n_penalties > 3000);
    VEC_FREE(&w.tokens);
    dry_breakers_drop(b);
    sampler_free(s);
    numbered_free(vocab);
}

static void completions_of_a_request_share_the_breakers(void **state)
{
    (void)state;
    enum { N = 900 };
    static char texts[N][16];
    struct slice breakers[N];
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "%d.%d", i % 10, i);
        breakers[i] = slice_of(texts[i]);
    }
    struct vocab *vocab = numbered_vocab(20000);
    struct sampler_settings set = dry_settings(breakers, N);
    struct budget budget = {.steps = 1 << 30, .bytes = 1 << 30};
    struct error err = {0};
    set.budget = &budget;
    set.seed = 5;
    struct sampler *first = sampler_create(vocab, &set, 512, &err);
    assert_non_null(first);
    uint64_t n_left = budget.steps;
    assert_true(n_left < (1 << 30) - 20000);
    for (uint32_t k = 1; k < 4; k++) {
        set.seed = 5 + k;
        struct sampler *sibling = sampler_create_sibling(first, &set, 512, &err);
        assert_non_null(sibling);
        assert_int_equal(sampler_seed(sibling), 5 + k);
        assert_int_equal(budget.steps, n_left); /* nothing was read again */
        sampler_free(sibling);
    }
    sampler_free(first);
    numbered_free(vocab);
}

static bool never(void *arg)
{
    (void)arg;
    return true;
}

static void breakers_end_with_their_request(void **state)
{
    (void)state;
    const struct slice breaker = SLICE("1");
    struct vocab *vocab = numbered_vocab(20000);
    struct sampler_settings set = dry_settings(&breaker, 1);
    struct budget budgets[] = {{.steps = 1000, .bytes = 1 << 30},
                               {.steps = 1 << 30, .bytes = 1 << 30, .stopped = never}};
    const enum error_code codes[] = {ERR_LIMIT, ERR_CANCELLED};
    for (size_t i = 0; i < 2; i++) {
        struct error err = {0};
        set.budget = &budgets[i];
        assert_null(sampler_create(vocab, &set, 512, &err));
        assert_int_equal(err.code, codes[i]);
    }
    numbered_free(vocab);
}

/* ---- the others ---- */

static void lists_past_their_limits_are_refused(void **state)
{
    (void)state;
    enum { N = 50000 };
    struct vocab *vocab = numbered_vocab(N_VOCAB);
    struct logit_bias *biases = calloc(N, sizeof *biases);
    struct slice *texts = calloc(N, sizeof *texts);
    int32_t *tokens = calloc(N, sizeof *tokens);
    const struct token_run long_run = {tokens, 5000},
                           runs[3] = {{tokens, 2000}, {tokens, 2000}, {tokens, 200}};
    for (size_t i = 0; i < N; i++)
        texts[i] = SLICE("x");
    const struct {
        const char *name, *limit;
    } rows[] = {{"logit_bias", "4216"},
                {"dry_sequence_breakers", "1024"},
                {"reasoning_budget_start_tag", "4096"},
                {"reasoning_budget_end_tags", "4096"},
                {"reasoning_budget_message", "4096"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sampler_settings set = plain_settings();
        struct error err = {0};
        set.logit_bias = biases;
        set.n_logit_bias = i == 0 ? 4217 : 4216;
        set.dry_sequence_breakers = texts;
        set.n_dry_sequence_breakers = i == 1 ? 1025 : 1024;
        set.reasoning_start = (struct token_run){tokens, i == 2 ? 4097 : 4096};
        set.reasoning_ends = i == 3 ? runs : &runs[2];
        set.n_reasoning_ends = i == 3 ? 3 : 1;
        set.reasoning_forced = i == 4 ? long_run : runs[0];
        assert_null(sampler_create(vocab, &set, 512, &err));
        assert_int_equal(err.code, ERR_LIMIT);
        assert_non_null(strstr(err.message, rows[i].name));
        assert_non_null(strstr(err.message, rows[i].limit));
    }
    free(biases);
    free(texts);
    free(tokens);
    numbered_free(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_many_triggers_or_too_long_ones_are_refused),
        cmocka_unit_test(the_steps_of_patterns_are_counted),
        cmocka_unit_test(many_patterns_have_no_more_steps_than_one),
        cmocka_unit_test(a_word_is_found_when_its_last_bytes_come),
        cmocka_unit_test(dry_agrees_with_its_definition_however_long_the_text),
        cmocka_unit_test(completions_of_a_request_share_the_breakers),
        cmocka_unit_test(breakers_end_with_their_request),
        cmocka_unit_test(lists_past_their_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
