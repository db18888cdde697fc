/* result_native.c - the native completion's answers. */
#include "api/internal.h"

static const char *stop_name(enum engine_stop stop)
{
    static const char *const names[] = {[ENGINE_STOP_NONE] = "none",
                                        [ENGINE_STOP_EOS] = "eos",
                                        [ENGINE_STOP_WORD] = "word",
                                        [ENGINE_STOP_LIMIT] = "limit"};
    return names[stop];
}

static json_t *token_ids(const struct engine_event *event)
{
    json_t *list = json_array();
    for (size_t i = 0; i < event->n_ids; i++)
        push(list, json_integer(event->ids[i]));
    return list;
}

/* "a/b" is b inside a; what is not there is left out. */
static json_t *project(const struct generation *g, json_t *whole)
{
    if (g->n_response_fields == 0 || !whole)
        return whole;
    json_t *picked = json_object();
    for (size_t i = 0; i < g->n_response_fields; i++) {
        struct slice path = g->response_fields[i], rest = path;
        json_t *at = whole;
        while (at && rest.data) {
            const char *slash = memchr(rest.data, '/', rest.len);
            size_t len = slash ? (size_t)(slash - rest.data) : rest.len;
            at = json_is_object(at) ? json_object_getn(at, rest.data, len) : NULL;
            rest = slash ? slice_from(rest, len + 1) : (struct slice){NULL, 0};
        }
        if (at)
            json_object_setn(picked, path.data, path.len, at);
    }
    json_decref(whole);
    return picked;
}

/* The k-th completion of a prompt has the k-th seed from the one asked for. */
static json_t *settings_of(const struct result *r)
{
    json_t *o = generation_to_json(r->g, false);
    uint32_t seed = r->g->sampling.seed;
    if (seed != SAMPLER_SEED_RANDOM)
        put(o, "seed", json_integer(seed + (uint32_t)(r->index % r->g->n_cmpl)));
    return o;
}

static json_t *final_object(struct result *r)
{
    const struct engine_event *e = r->event;
    const struct generation *g = r->g;
    json_t *o = json_object();
    put(o, "index", json_integer(r->index));
    put(o, "content", json_string_from(e->text));
    put(o, "tokens", g->return_tokens && !g->stream ? token_ids(e) : json_array());
    put(o, "id_slot", json_integer(e->id_slot));
    put(o, "stop", json_true());
    put(o, "model", json_string_from(slice_of(r->api->model_name)));
    put(o, "tokens_predicted", json_integer(e->timings.n_generated));
    put(o, "tokens_evaluated", json_integer(e->n_prompt));
    put(o, "generation_settings", settings_of(r));
    put(o, "prompt", json_string_from(r->prompt_text));
    put(o, "has_new_line", json_boolean(e->has_new_line));
    put(o, "truncated", json_boolean(e->truncated));
    put(o, "stop_type", json_string(stop_name(e->stop)));
    put(o, "stopping_word", json_string_from(e->stopping_word));
    put(o, "tokens_cached", json_integer(e->n_tokens_cached));
    put(o, "timings", timings_to_json(&e->timings));
    if (!g->stream && event_has_probs(r))
        put(o, "completion_probabilities", probs_to_json(r));
    return project(g, o);
}

json_t *native_whole(struct result *r)
{
    return final_object(r);
}

bool native_final(struct result *r, json_t *events)
{
    return event_push(events, NULL, final_object(r));
}

json_t *native_part(struct result *r)
{
    const struct engine_event *e = r->event;
    bool is_progress = e->kind == ENGINE_EVENT_PROGRESS;
    json_t *o = json_object();
    put(o, "index", json_integer(r->index));
    put(o, "content", json_string_from(e->text));
    put(o, "tokens", is_progress ? json_pack("[i]", 0) : token_ids(e));
    put(o, "stop", json_false());
    put(o, "id_slot", json_integer(-1)); /* known to the last event only */
    put(o, "tokens_predicted", json_integer(e->timings.n_generated));
    put(o, "tokens_evaluated", json_integer(e->n_prompt));
    put_extras(r, o);
    if (event_has_probs(r))
        put(o, "completion_probabilities", probs_to_json(r));
    return o;
}

bool native_partial(struct result *r, json_t *events)
{
    return event_push(events, NULL, native_part(r));
}
