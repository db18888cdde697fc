/* shape.c - pieces of answers that several surfaces share. */
#include "api/internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

bool event_push(json_t *events, const char *name, json_t *data)
{
    json_t *event = json_object();
    if (name)
        put(event, "event", json_string(name));
    if (!put(event, "data", data)) {
        json_decref(event);
        return false;
    }
    return push(events, event);
}

bool event_push_typed(json_t *events, const char *name, json_t *data)
{
    json_t *o = json_pack("{s:s}", "type", name);
    json_object_update(o, data);
    json_decref(data);
    return event_push(events, name, o);
}

static double per(double amount, double by)
{
    return by > 0 ? amount / by : 0.0;
}

json_t *timings_to_json(const struct engine_timings *t)
{
    double prompt_ms = 0, predicted_ms = 0;
    if (t->t_prompt_end_us > t->t_start_us)
        prompt_ms = (double)(t->t_prompt_end_us - t->t_start_us) / 1000.0;
    if (t->t_last_token_us) {
        /* The first token may fall into the microsecond the prompt ended in. */
        uint64_t us =
            t->t_last_token_us > t->t_prompt_end_us ? t->t_last_token_us - t->t_prompt_end_us : 1;
        predicted_ms = (double)us / 1000.0;
    }
    int32_t n_steps = engine_timings_steps(t);
    json_t *o = json_object();
    put(o, "cache_n", json_integer(t->n_prompt_cached));
    put(o, "prompt_n", json_integer(t->n_prompt_processed));
    put(o, "prompt_ms", json_real(prompt_ms));
    put(o, "prompt_per_token_ms", json_real(per(prompt_ms, t->n_prompt_processed)));
    put(o, "prompt_per_second", json_real(per(1000.0 * t->n_prompt_processed, prompt_ms)));
    put(o, "predicted_n", json_integer(t->n_generated));
    put(o, "predicted_ms", json_real(predicted_ms));
    put(o, "predicted_per_token_ms", json_real(per(predicted_ms, n_steps)));
    put(o, "predicted_per_second", json_real(per(1000.0 * n_steps, predicted_ms)));
    return o;
}

json_t *progress_to_json(const struct engine_event *event)
{
    const struct engine_timings *t = &event->timings;
    json_t *o = json_object();
    put(o, "total", json_integer(event->n_prompt));
    put(o, "cache", json_integer(t->n_prompt_cached));
    put(o, "processed", json_integer(event->n_processed));
    put(o, "time_ms",
        json_integer(t->t_now_us > t->t_start_us ? (int64_t)(t->t_now_us - t->t_start_us) / 1000
                                                 : 0));
    return o;
}

/* The text of a token: without a character that is cut off at its end. */
static json_t *token_text(struct slice bytes)
{
    bytes.len -= utf8_open_tail(bytes);
    return json_string_from(bytes);
}

static json_t *prob_to_json(int32_t token, struct slice text, float prob, bool post_sampling)
{
    json_t *bytes = json_array();
    for (size_t i = 0; i < text.len; i++)
        push(bytes, json_integer((unsigned char)text.data[i]));
    json_t *o = json_object();
    put(o, "id", json_integer(token));
    put(o, "token", token_text(text));
    put(o, "bytes", bytes);
    if (post_sampling)
        put(o, "prob", json_real((double)prob));
    else
        put(o, "logprob", json_real(prob > 0.0f ? (double)logf(prob) : -(double)FLT_MAX));
    return o;
}

json_t *probs_to_json(const struct result *r)
{
    const struct tokenizer *tok = engine_tokenizer(r->api->engine);
    bool post_sampling = r->g->post_sampling_probs, special = r->api->options->generation.special;
    json_t *list = json_array();
    for (size_t i = 0; i < r->event->n_tokens; i++) {
        const struct engine_token *token = &r->event->tokens[i];
        json_t *top = json_array();
        for (size_t k = 0; k < token->n_top; k++) {
            int32_t rival = token->top[k].token;
            push(top, prob_to_json(rival, text_piece(tok, rival, special), token->top[k].prob,
                                   post_sampling));
        }
        json_t *o = prob_to_json(token->token, token->text, token->prob, post_sampling);
        put(o, post_sampling ? "top_probs" : "top_logprobs", top);
        push(list, o);
    }
    return list;
}

bool event_has_probs(const struct result *r)
{
    return r->event->n_tokens > 0;
}

bool finished_by_itself(const struct engine_event *event)
{
    return event->stop == ENGINE_STOP_EOS || event->stop == ENGINE_STOP_WORD;
}

bool put_extras(struct result *r, json_t *object)
{
    bool ok = true;
    /* A stop string ends the numbers with the event that held it. */
    if (r->g->timings_per_token ||
        (r->event->kind == ENGINE_EVENT_TOKEN && r->event->stop == ENGINE_STOP_WORD))
        ok = put(object, "timings", timings_to_json(&r->event->timings));
    if (r->event->kind == ENGINE_EVENT_PROGRESS)
        ok = ok && put(object, "prompt_progress", progress_to_json(r->event));
    return ok;
}

json_t *model_name_to_json(const struct api *api, const json_t *body)
{
    json_t *named = json_object_get(body, "model");
    return json_is_string(named) ? json_incref(named) : json_string_from(slice_of(api->model_name));
}

void random_id(const char *prefix, char *out, size_t size)
{
    char id[33];
    chat_random_id(id);
    snprintf(out, size, "%s%s", prefix, id);
}
