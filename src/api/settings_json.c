/* settings_json.c - a request's settings as answers show them. */
#include "api/internal.h"

#include <math.h>

static bool put_real(json_t *o, const char *name, float value)
{
    /* JSON has no infinities; null is what clients know. */
    return put(o, name, isfinite(value) ? json_real((double)value) : json_null());
}

static bool put_int(json_t *o, const char *name, int64_t value)
{
    return put(o, name, json_integer(value));
}

static bool put_text(json_t *o, const char *name, struct slice text)
{
    return put(o, name, json_string_from(text));
}

static json_t *texts(const struct slice *data, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        push(list, json_string_from(data[i]));
    return list;
}

static json_t *biases(const struct sampler_settings *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_logit_bias; i++) {
        json_t *entry = json_object();
        put_real(entry, "bias", s->logit_bias[i].bias);
        put_int(entry, "token", s->logit_bias[i].token);
        push(list, entry);
    }
    return list;
}

static json_t *triggers(const struct sampler_settings *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_grammar_triggers; i++) {
        const struct grammar_trigger *t = &s->grammar_triggers[i];
        json_t *entry = json_object();
        put_int(entry, "type", t->kind);
        put_text(entry, "value", t->text);
        if (t->kind == TRIGGER_TOKEN)
            put_int(entry, "token", t->token);
        push(list, entry);
    }
    return list;
}

static json_t *samplers(const struct sampler_settings *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_samplers; i++)
        push(list, json_string(sampler_kind_name(s->samplers[i])));
    return list;
}

static json_t *ids(const int32_t *data, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        push(list, json_integer(data[i]));
    return list;
}

static json_t *loras(const struct generation *g)
{
    json_t *list = json_array();
    for (size_t i = 0; i < g->n_lora; i++) {
        json_t *entry = json_object();
        put_int(entry, "id", g->lora[i].id);
        put_real(entry, "scale", g->lora[i].scale);
        push(list, entry);
    }
    return list;
}

json_t *generation_to_json(const struct generation *g, bool brief)
{
    const struct sampler_settings *s = &g->sampling;
    json_t *o = json_object();
    if (!o)
        return NULL;
    put_int(o, "seed", s->seed);
    put_real(o, "temperature", s->temperature);
    put_real(o, "dynatemp_range", s->dynatemp_range);
    put_real(o, "dynatemp_exponent", s->dynatemp_exponent);
    put_int(o, "top_k", s->top_k);
    put_real(o, "top_p", s->top_p);
    put_real(o, "min_p", s->min_p);
    put_real(o, "top_n_sigma", s->top_n_sigma);
    put_real(o, "xtc_probability", s->xtc_probability);
    put_real(o, "xtc_threshold", s->xtc_threshold);
    put_real(o, "typical_p", s->typical_p);
    put_int(o, "repeat_last_n", s->repeat_last_n);
    put_real(o, "repeat_penalty", s->repeat_penalty);
    put_real(o, "presence_penalty", s->presence_penalty);
    put_real(o, "frequency_penalty", s->frequency_penalty);
    put_real(o, "dry_multiplier", s->dry_multiplier);
    put_real(o, "dry_base", s->dry_base);
    put_int(o, "dry_allowed_length", s->dry_allowed_length);
    put_int(o, "dry_penalty_last_n", s->dry_penalty_last_n);
    if (!brief)
        put(o, "dry_sequence_breakers",
            texts(s->dry_sequence_breakers, s->n_dry_sequence_breakers));
    put_int(o, "mirostat", s->mirostat);
    put_real(o, "mirostat_tau", s->mirostat_tau);
    put_real(o, "mirostat_eta", s->mirostat_eta);
    put_real(o, "adaptive_target", s->adaptive_target);
    put_real(o, "adaptive_decay", s->adaptive_decay);
    if (!brief)
        put(o, "stop", texts(g->stop, g->n_stop));
    put_int(o, "max_tokens", g->n_predict);
    put_int(o, "n_predict", g->n_predict);
    put_int(o, "n_keep", g->n_keep);
    put_int(o, "n_discard", g->n_discard);
    put(o, "ignore_eos", json_boolean(g->ignore_eos));
    put(o, "stream", json_boolean(g->stream));
    if (!brief)
        put(o, "logit_bias", biases(s));
    put_int(o, "n_probs", s->n_probs);
    put_int(o, "min_keep", s->min_keep);
    if (!brief) {
        put_text(o, "grammar", s->grammar);
        put(o, "grammar_lazy", json_boolean(s->grammar_lazy));
        put(o, "grammar_triggers", triggers(s));
        put(o, "preserved_tokens", ids(g->preserved_tokens, g->n_preserved_tokens));
    }
    put(o, "chat_format", json_string(chat_format_name((enum chat_format)g->chat_format)));
    put(o, "reasoning_format", json_string(chat_reasoning_format_name(g->reasoning_format)));
    put(o, "reasoning_in_content", json_boolean(g->reasoning_in_content));
    put_text(o, "generation_prompt", g->generation_prompt);
    put(o, "samplers", samplers(s));
    put(o, "speculative.types", json_string("none"));
    put(o, "timings_per_token", json_boolean(g->timings_per_token));
    put(o, "post_sampling_probs", json_boolean(g->post_sampling_probs));
    put(o, "backend_sampling", json_boolean(g->backend_sampling));
    put(o, "lora", loras(g));
    return o;
}

json_t *generation_defaults_to_json(const struct api *api)
{
    const struct generation g = {.sampling = api->sampling,
                                 .ignore_eos = api->ignore_eos,
                                 .n_predict = -1,
                                 .backend_sampling = api->options->sampling.backend_sampling,
                                 .reasoning_format = CHAT_REASONING_NONE};
    return generation_to_json(&g, true);
}
