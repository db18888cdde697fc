/* conform_numerics.c - comparing log-probabilities: looser than JSON where
 * arithmetic may differ. What a token is called is no arithmetic, and exact. */
#include "cmd/conform_compare.h"

#include <math.h>

static const double EXACT_WITHIN = 0.02, QUANTIZED_WITHIN = 0.15;
static const double TOO_UNLIKELY = -12; /* below it, nothing is compared */

static double logprob_of(const json_t *entry)
{
    return json_number_value(json_object_get(entry, "logprob"));
}

static json_int_t id_of(const json_t *entry)
{
    return json_integer_value(json_object_get(entry, "id"));
}

static const json_t *find_id(const json_t *top, json_int_t id)
{
    for (size_t i = 0; i < json_array_size(top); i++)
        if (id_of(json_array_get(top, i)) == id)
            return json_array_get(top, i);
    return NULL;
}

/* The least likely of a list: what is missing from it is less likely still. */
static double least_of(const json_t *top)
{
    double least = 0;
    for (size_t i = 0; i < json_array_size(top); i++)
        least = fmin(least, logprob_of(json_array_get(top, i)));
    return least;
}

/* What an entry says of its token beside numbers: "token", "bytes". */
static void compare_token(struct comparison *c, const json_t *expected, const json_t *got)
{
    static const char *const numbers[] = {"logprob", "top_logprobs"};
    size_t len = c->path.len;
    json_t *want = json_copy((json_t *)(uintptr_t)expected);
    json_t *have = json_copy((json_t *)(uintptr_t)got);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_object_del(want, numbers[i]);
        json_object_del(have, numbers[i]);
    }
    str_append_format(&c->path, "{%d}", (int)id_of(expected));
    compare_json(c, want, have);
    str_truncate(&c->path, len);
    json_decref(want);
    json_decref(have);
}

/* Entries are paired by id: two that are nearly equal may stand the other way
 * round, and the last may have lost its place to its neighbour. */
static void compare_top(struct comparison *c, const json_t *expected, const json_t *got,
                        double within)
{
    if (json_array_size(expected) != json_array_size(got))
        differ(c, "expected %zu candidates, got %zu", json_array_size(expected),
               json_array_size(got));
    double least = least_of(got);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        const json_t *want = json_array_get(expected, i);
        const json_t *have = find_id(got, id_of(want));
        if (have)
            compare_token(c, want, have);
        double logprob = logprob_of(want);
        if (logprob < TOO_UNLIKELY)
            continue;
        double theirs = have ? logprob_of(have) : least;
        if (fabs(logprob - theirs) > within)
            differ(c, "candidate %d: expected logprob %g, got %s%g", (int)id_of(want), logprob,
                   have ? "" : "at most ", theirs);
    }
}

/* Where the recording has two candidates further apart than the tolerance,
 * ours stand in the same order. */
static void compare_order(struct comparison *c, const json_t *expected, const json_t *got)
{
    for (size_t i = 0; i < json_array_size(expected); i++)
        for (size_t k = i + 1; k < json_array_size(expected); k++) {
            const json_t *a = json_array_get(expected, i), *b = json_array_get(expected, k);
            const json_t *x = find_id(got, id_of(a)), *y = find_id(got, id_of(b));
            if (logprob_of(a) - logprob_of(b) <= QUANTIZED_WITHIN || !x || !y)
                continue;
            if (logprob_of(x) <= logprob_of(y))
                differ(c, "candidate %d should stand before %d", (int)id_of(a), (int)id_of(b));
        }
}

static void compare_quantized(struct comparison *c, const json_t *expected, const json_t *got)
{
    const json_t *first = json_array_get(expected, 0), *ours = json_array_get(got, 0);
    const json_t *want = json_object_get(first, "top_logprobs");
    const json_t *have = json_object_get(ours, "top_logprobs");
    str_append_text(&c->path, "$.completion_probabilities[0]");
    if (id_of(first) == id_of(ours))
        compare_token(c, first, ours);
    str_append_text(&c->path, ".top_logprobs");
    compare_top(c, want, have, QUANTIZED_WITHIN);
    compare_order(c, want, have);
    str_clear(&c->path);
}

static void compare_exact(struct comparison *c, const json_t *expected, const json_t *got)
{
    for (size_t i = 0; i < json_array_size(expected); i++) {
        const json_t *want = json_array_get(expected, i), *have = json_array_get(got, i);
        str_append_format(&c->path, "$.completion_probabilities[%zu]", i);
        if (!have || id_of(want) != id_of(have)) {
            differ(c, "expected token %d, got %d", (int)id_of(want), have ? (int)id_of(have) : -1);
            str_clear(&c->path);
            return; /* whatever follows another token is another text */
        }
        compare_token(c, want, have);
        if (logprob_of(want) > TOO_UNLIKELY &&
            fabs(logprob_of(want) - logprob_of(have)) > EXACT_WITHIN)
            differ(c, "expected logprob %g, got %g", logprob_of(want), logprob_of(have));
        compare_top(c, json_object_get(want, "top_logprobs"), json_object_get(have, "top_logprobs"),
                    EXACT_WITHIN);
        str_clear(&c->path);
    }
}

void compare_numerics(struct comparison *c, const json_t *expected, const json_t *got)
{
    const json_t *want = json_object_get(expected, "completion_probabilities");
    const json_t *have = json_object_get(got, "completion_probabilities");
    if (!json_is_array(have) || json_array_size(have) == 0) {
        differ(c, "has no completion_probabilities");
        return;
    }
    if (c->numerics == NUMERICS_QUANTIZED) {
        compare_quantized(c, want, have);
        return;
    }
    /* The rest of the answer (content, tokens, counts) is exact. */
    json_t *rest_want = json_copy((json_t *)(uintptr_t)expected);
    json_t *rest_have = json_copy((json_t *)(uintptr_t)got);
    json_object_del(rest_want, "completion_probabilities");
    json_object_del(rest_have, "completion_probabilities");
    compare_json(c, rest_want, rest_have);
    json_decref(rest_want);
    json_decref(rest_have);
    compare_exact(c, want, have);
}
