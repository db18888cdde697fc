/* status.c - numbers and snapshots for those who ask while work goes on. */
#include "engine/internal.h"

#include "base/clock.h"

#include <stdlib.h>

void engine_count_finished(struct engine *engine, struct slot *slot)
{
    struct engine_metrics *metrics = &engine->metrics;
    const struct engine_timings *t = &slot->timings;
    bool is_child = slot->job->id_parent >= 0;
    /* The prompt of several completions was computed once. */
    if (!is_child) {
        metrics->n_prompt_tokens += (uint64_t)t->n_prompt_processed;
        metrics->n_prompt_cached += (uint64_t)t->n_prompt_cached;
        if (t->t_prompt_end_us > t->t_start_us)
            metrics->t_prompt_us += t->t_prompt_end_us - t->t_start_us;
    }
    metrics->n_generated += (uint64_t)t->n_generated;
    metrics->n_generation_steps += (uint64_t)engine_timings_steps(t);
    if (t->t_last_token_us > t->t_prompt_end_us)
        metrics->t_generation_us += t->t_last_token_us - t->t_prompt_end_us;
}

void engine_count_decode(struct engine *engine)
{
    struct engine_metrics *metrics = &engine->metrics;
    metrics->n_decode_calls++;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        const struct slot *slot = &engine->slots[i];
        metrics->n_busy_slots += slot_is_busy(slot);
        if (slot->cache.n > metrics->n_tokens_max)
            metrics->n_tokens_max = slot->cache.n;
    }
}

static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

bool engine_shows_special(const struct engine *engine, const struct slot *slot, int32_t token)
{
    const struct engine_request *request = slot->job->request;
    if (engine->settings.print_special)
        return true;
    return request->n_preserved_tokens > 0 &&
           bsearch(&token, request->preserved_tokens, request->n_preserved_tokens, sizeof token,
                   by_id) != NULL;
}

bool engine_embeds(const struct engine *engine)
{
    return engine->settings.context.embeddings || engine->info.is_encoder;
}

bool engine_step_is_cancelled(struct engine *engine)
{
    /* Called by the scheduler's own thread while it computes; nobody else
     * changes slots or their jobs then. */
    bool any = false;
    for (int32_t i = 0; engine->slots && i < engine->n_slots; i++) {
        const struct slot *slot = &engine->slots[i];
        if (!slot_is_busy(slot))
            continue;
        if (!atomic_load(&slot->job->cancelled))
            return false;
        any = true;
    }
    return any;
}

void engine_metrics(struct engine *engine, struct engine_metrics *out)
{
    pthread_mutex_lock(&engine->slots_lock);
    *out = engine->metrics;
    out->n_processing = out->n_idle = 0;
    for (int32_t i = 0; engine->slots && i < engine->n_slots; i++) {
        bool busy = slot_is_busy(&engine->slots[i]);
        out->n_processing += busy;
        out->n_idle += !busy && i < engine->settings.n_parallel;
    }
    pthread_mutex_unlock(&engine->slots_lock);
    pthread_mutex_lock(&engine->lock);
    out->n_deferred = engine->n_queued;
    pthread_mutex_unlock(&engine->lock);
}

static int32_t n_remaining(const struct slot *slot)
{
    if (slot->n_predict_max == -1)
        return -1;
    return slot->n_predict_max - slot->timings.n_generated;
}

static void fill_status(const struct engine *engine, const struct slot *slot,
                        struct engine_slot_status *out)
{
    *out = (struct engine_slot_status){
        .id = slot->id,
        .n_ctx = engine->n_ctx_slot,
        .is_processing = slot_is_busy(slot),
        .id_task = -1,
        .n_prompt_tokens = (int32_t)slot->cache.n,
        .timings = slot->timings,
        .has_next_token = slot->has_next_token,
        .has_new_line = slot->has_new_line,
        .n_remaining = n_remaining(slot),
    };
    out->timings.t_now_us = clock_monotonic_us();
    if (!slot->last_job)
        return;
    out->job = job_retain(slot->last_job);
    out->request = out->job->request;
    out->id_task = out->job->id_task;
    str_append_slice(&out->generated, str_slice(&slot->generated));
}

struct engine_slot_status *engine_slot_statuses(struct engine *engine, int32_t *n)
{
    *n = engine->settings.n_parallel;
    struct engine_slot_status *statuses = calloc((size_t)*n, sizeof *statuses);
    if (!statuses)
        return NULL;
    pthread_mutex_lock(&engine->slots_lock);
    bool loaded = engine->slots != NULL;
    for (int32_t i = 0; loaded && i < *n; i++)
        fill_status(engine, &engine->slots[i], &statuses[i]);
    pthread_mutex_unlock(&engine->slots_lock);
    if (loaded)
        return statuses;
    free(statuses);
    return NULL;
}

void engine_slot_statuses_free(struct engine_slot_status *statuses, int32_t n)
{
    if (!statuses)
        return;
    for (int32_t i = 0; i < n; i++) {
        str_free(&statuses[i].generated);
        engine_job_release(statuses[i].job);
    }
    free(statuses);
}
