/* slot.c - a slot's life: launched with a job, released from it. */
#include "engine/internal.h"

#include "base/log.h"

#include "base/clock.h"

#include <stdlib.h>

bool slot_is_busy(const struct slot *slot)
{
    return slot->state != SLOT_IDLE;
}

size_t tokens_common_prefix(const struct token_vec *a, const struct token_vec *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    size_t i = 0;
    while (i < n && a->data[i] == b->data[i])
        i++;
    return i;
}

/* What belongs to a job and not to the cache. */
static void reset_generation(struct slot *slot)
{
    slot->batch_index = -1;
    str_clear(&slot->generated);
    slot->n_sent = 0;
    slot->last_newline = 0;
    slot->tokens.n = 0;
    slot->ids.n = 0;
    arena_free(&slot->token_arena);
    slot->has_next_token = true;
    slot->has_new_line = false;
    slot->truncated = false;
    slot->no_memory = false;
    slot->stop = ENGINE_STOP_NONE;
    slot->stopping_word = (struct slice){0};
    slot->timings = (struct engine_timings){0};
}

void slot_launch(struct engine *engine, struct slot *slot, struct engine_job *job)
{
    reset_generation(slot);
    slot->job = job_retain(job);
    engine_job_release(slot->last_job);
    slot->last_job = job_retain(job);
    slot->sampler = job->sampler;
    job->sampler = NULL;
    int32_t limit = job->request->n_predict;
    slot->n_predict_max = limit != -1 ? limit : engine->settings.n_predict;
    slot->state = job->id_parent >= 0 ? SLOT_WAIT_PARENT : SLOT_STARTED;
    slot->t_sampling_us = 0;
    log_debug("slot %d: task %d launched", slot->id, job->id_task);
}

void slot_forget_cache(struct engine *engine, struct slot *slot)
{
    if (engine->context)
        kv_seq_remove(engine->context, slot->id, -1, -1);
    slot->cache.n = 0;
    slot->n_exact = SIZE_MAX;
    checkpoints_free(&slot->checkpoints);
}

void slot_trim_to_context(struct engine *engine, struct slot *slot)
{
    int32_t last = kv_seq_pos_max(engine->context, slot->id);
    if (slot->cache.n > (size_t)(last + 1))
        slot->cache.n = (size_t)(last + 1);
}

void slot_release(struct engine *engine, struct slot *slot)
{
    if (!slot_is_busy(slot))
        return;
    bool is_child = slot->job->id_parent >= 0;
    slot->state = SLOT_IDLE;
    slot->batch_index = -1;
    slot->t_last_used_us = clock_monotonic_us();
    sampler_free(slot->sampler);
    slot->sampler = NULL;
    engine_job_release(slot->job);
    slot->job = NULL;
    /* The parent's cache is enough to start from. */
    if (is_child)
        slot_forget_cache(engine, slot);
}

void slot_free(struct slot *slot)
{
    sampler_free(slot->sampler);
    engine_job_release(slot->job);
    engine_job_release(slot->last_job);
    VEC_FREE(&slot->cache);
    checkpoints_free(&slot->checkpoints);
    VEC_FREE(&slot->tokens);
    VEC_FREE(&slot->ids);
    arena_free(&slot->token_arena);
    str_free(&slot->generated);
}

bool slot_embeds(const struct slot *slot)
{
    return slot->job->request->task != ENGINE_COMPLETION;
}

void slot_end_job(struct engine *engine, struct slot *slot)
{
    engine_count_finished(engine, slot);
    slot_release(engine, slot);
}

bool engine_free_idle_slot(struct engine *engine)
{
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot_is_busy(slot) || slot->cache.n == 0)
            continue;
        prompt_cache_keep(engine, slot);
        slot_forget_cache(engine, slot);
        return true;
    }
    return false;
}
