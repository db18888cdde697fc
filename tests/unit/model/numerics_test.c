/* The recordings' numbers: tokens and log probabilities of every miniature. */
#include "base/json.h"
#include "unit/model/helpers.h"

#include <math.h>
#include <string.h>

/* Which prompt a recorded request has. */
static int32_t prompt_of(const json_t *request, int32_t *out)
{
    const json_t *prompt = json_object_get(request, "prompt");
    if (json_is_array(prompt)) {
        int32_t n = (int32_t)json_array_size(prompt);
        for (int32_t i = 0; i < n; i++)
            out[i] = (int32_t)json_integer_value(json_array_get(prompt, (size_t)i));
        return n;
    }
    if (json_string_length(prompt) < 20) {
        memcpy(out, short_prompt, sizeof short_prompt);
        return 5;
    }
    memcpy(out, long_prompt, sizeof long_prompt);
    return 42;
}

static void forbid(const json_t *request, bool *forbidden)
{
    const json_t *bias = json_object_get(request, "logit_bias");
    for (size_t i = 0; i < json_array_size(bias); i++) {
        const json_t *pair = json_array_get(bias, i);
        if (json_is_false(json_array_get(pair, 1)))
            forbidden[json_integer_value(json_array_get(pair, 0))] = true;
    }
    forbidden[2] = true; /* ignore_eos */
}

static const json_t *number_at(const json_t *object, const char *key)
{
    return json_object_get(object, key);
}

static double worst_exact, worst_loose;

/* One recorded completion. exact: all tokens and probabilities; else the first
 * token's top five. */
static void replay(struct loaded *l, const char *name, const json_t *step, bool exact)
{
    const json_t *request = json_object_get(json_object_get(step, "request"), "json");
    const json_t *answer = json_object_get(json_object_get(step, "response"), "json");
    const json_t *probs = json_object_get(answer, "completion_probabilities");
    int32_t prompt[64], n_vocab = model_info(l->model)->n_vocab;
    bool forbidden[1024] = {false};
    assert_true(n_vocab <= 1024);
    int32_t n = prompt_of(request, prompt);
    forbid(request, forbidden);
    kv_seq_remove(l->ctx, -1, -1, -1);
    const float *logits = run_tokens(l->ctx, 0, 0, prompt, n);
    size_t n_steps = exact ? json_array_size(probs) : 1;
    for (size_t i = 0; i < n_steps; i++) {
        const json_t *top = json_object_get(json_array_get(probs, i), "top_logprobs");
        for (size_t k = 0; k < json_array_size(top); k++) {
            const json_t *entry = json_array_get(top, k);
            int32_t id = (int32_t)json_integer_value(number_at(entry, "id"));
            double want = json_number_value(number_at(entry, "logprob"));
            double got = log_prob(logits, n_vocab, id);
            double *worst = exact ? &worst_exact : &worst_loose;
            if (fabs(got - want) > *worst)
                *worst = fabs(got - want);
            if (want > -12.0 && !(fabs(got - want) < (exact ? 0.02 : 0.15)))
                fail_msg("%s: step %zu, token %d: log probability %.4f, recorded %.4f", name, i, id,
                         got, want);
        }
        if (!exact)
            return;
        int32_t token = -1;
        for (int32_t t = 0; t < n_vocab; t++)
            if (!forbidden[t] && (token < 0 || logits[t] > logits[token]))
                token = t;
        int32_t want =
            (int32_t)json_integer_value(json_array_get(json_object_get(answer, "tokens"), i));
        if (token != want)
            fail_msg("%s: step %zu: token %d, recorded %d", name, i, token, want);
        if (i + 1 < n_steps)
            logits = run_tokens(l->ctx, 0, n + (int32_t)i, &token, 1);
    }
}

static const char *argument(const json_t *scenario, const char *option)
{
    const json_t *args = json_object_get(scenario, "args");
    for (size_t i = 0; i + 1 < json_array_size(args); i++)
        if (strcmp(json_string_value(json_array_get(args, i)), option) == 0)
            return json_string_value(json_array_get(args, i + 1));
    return NULL;
}

static void replay_scenario(const char *folder, const json_t *scenario)
{
    const char *name = json_string_value(json_object_get(scenario, "name"));
    struct context_settings s = context_settings_default();
    s.n_ctx = 512;
    const char *type_k = argument(scenario, "-ctk"), *type_v = argument(scenario, "-ctv");
    if (type_k)
        assert_true(dtype_from_name(type_k, &s.type_k));
    if (type_v)
        assert_true(dtype_from_name(type_v, &s.type_v));
    const char *path = argument(scenario, "-m") + strlen("{M}/");
    bool exact = strncmp(name, "tiny-", 5) == 0 || strncmp(name, "stories-stories", 15) == 0 ||
                 strcmp(name, "quant-F32") == 0 || strcmp(name, "stories-kv-f32") == 0;
    struct loaded l = load_model(folder, path, &s, 2);
    const json_t *steps = json_object_get(scenario, "steps");
    for (size_t i = 0; i < json_array_size(steps); i++)
        replay(&l, name, json_array_get(steps, i), exact);
    unload(&l);
}

static void replay_all(const char *prefix)
{
    REQUIRE_SHARED(folder);
    struct error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/conformance/numerics.json", folder);
    json_t *scenarios = json_parse_file(path, &err);
    if (!scenarios)
        fail_msg("%s", err.message);
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(scenarios); i++) {
        const json_t *scenario = json_array_get(scenarios, i);
        const char *name = json_string_value(json_object_get(scenario, "name"));
        if (strncmp(name, prefix, strlen(prefix)) == 0 && ++n)
            replay_scenario(folder, scenario);
    }
    json_decref(scenarios);
    assert_true(n > 0);
    printf("%s*: %zu scenarios, largest difference %.5f (full precision), %.5f (quantized)\n",
           prefix, n, worst_exact, worst_loose);
}

static void every_architecture_answers_as_recorded(void **state)
{
    (void)state;
    replay_all("tiny-");
}

static void the_story_model_and_every_cache_type_answer_as_recorded(void **state)
{
    (void)state;
    replay_all("stories-");
}

static void every_quantization_answers_as_recorded(void **state)
{
    (void)state;
    replay_all("quant-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_answers_as_recorded),
        cmocka_unit_test(the_story_model_and_every_cache_type_answer_as_recorded),
        cmocka_unit_test(every_quantization_answers_as_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
