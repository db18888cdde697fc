/* batch.c - the batch of a step, put together from all slots: a token of each that
 * generates, and of prompts what there is room for. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

struct step_batch *step_batch_create(int32_t n_tokens_max)
{
    struct step_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    size_t n = (size_t)n_tokens_max;
    batch->n_max = n_tokens_max;
    batch->token = calloc(n, sizeof *batch->token);
    batch->pos = calloc(n, sizeof *batch->pos);
    batch->seq = calloc(n, sizeof *batch->seq);
    batch->want_logits = calloc(n, sizeof *batch->want_logits);
    batch->wide = calloc(n, sizeof *batch->wide);
    if (!batch->token || !batch->pos || !batch->seq || !batch->want_logits || !batch->wide) {
        step_batch_free(batch);
        return NULL;
    }
    return batch;
}

void step_batch_free(struct step_batch *batch)
{
    if (!batch)
        return;
    free(batch->token);
    free(batch->pos);
    free(batch->seq);
    free(batch->want_logits);
    free(batch->wide);
    free(batch);
}

/* Put a token at the end of a slot's cache and into the batch, which has room for
 * it. False when out of memory. */
static bool add_token(struct step_batch *batch, struct slot *slot, int32_t token, bool want_logits,
                      bool wide)
{
    if (batch->n >= batch->n_max || !VEC_PUSH(&slot->cache, token))
        return false;
    batch->token[batch->n] = token;
    batch->pos[batch->n] = (int32_t)slot->cache.n - 1;
    batch->seq[batch->n] = slot->id;
    batch->want_logits[batch->n] = want_logits;
    batch->wide[batch->n] = wide;
    batch->n++;
    return true;
}

/* No memory for a slot's next token. What it has in the batch already is computed, as
 * its cache says. */
static void end_for_memory(struct engine *engine, struct slot *slot)
{
    slot_send_error(slot, ERR_MEMORY, 0, "out of memory");
    slot_end_job(engine, slot);
}

/* ---- before the batch: context shift ---- */

/* The tokens from here on have been moved, or what they saw has. */
static void slot_moved_from(struct slot *slot, size_t first)
{
    if (first < slot->n_exact)
        slot->n_exact = first;
}

/* The context is full: forget n_discard tokens behind the first n_keep and move
 * the rest down. */
static void shift_context(struct engine *engine, struct slot *slot)
{
    const struct engine_request *request = slot->job->request;
    if (request->n_completions > 1) {
        slot_send_error(slot, ERR_INTERNAL, 0, "context shift cannot be used for shared prompt");
        slot_end_job(engine, slot);
        return;
    }
    int32_t n_tokens = (int32_t)slot->cache.n;
    int32_t n_keep = request->n_keep < 0 ? (int32_t)request->prompt.n : request->n_keep;
    if (tokenizer_special(engine->tokenizer)->add_bos && n_keep < INT32_MAX)
        n_keep++;
    if (n_keep > engine->n_ctx_slot - 4)
        n_keep = engine->n_ctx_slot - 4;
    int32_t n_left = n_tokens - n_keep;
    int32_t n_discard = request->n_discard ? request->n_discard : n_left / 2;
    if (n_discard > n_left - 1)
        n_discard = n_left - 1;
    if (n_discard < 1)
        n_discard = 1;
    log_info("slot %d: context shift: keeping %d tokens, dropping %d of %d", slot->id, n_keep,
             n_discard, n_left);
    kv_seq_remove(engine->context, slot->id, n_keep, n_keep + n_discard);
    bool ok;
    do /* cells that others share are copied first, for which room may be missing */
        ok = kv_seq_shift(engine->context, slot->id, n_keep + n_discard, n_tokens, -n_discard);
    while (!ok && kv_can_shift(engine->context) && engine_free_idle_slot(engine));
    if (!ok) {
        slot_send_error(slot, ERR_INTERNAL, 0, "this model's cache cannot be shifted");
        slot_end_job(engine, slot);
        slot_forget_cache(engine, slot);
        return;
    }
    memmove(slot->cache.data + n_keep, slot->cache.data + n_keep + n_discard,
            (size_t)(n_left - n_discard) * sizeof(int32_t));
    slot->cache.n -= (size_t)n_discard;
    slot_moved_from(slot, (size_t)n_keep);
    checkpoints_free(&slot->checkpoints);
    slot->truncated = true;
}

/* ---- building the batch ---- */

/* Reuse pieces of the old cache that stand elsewhere in the new prompt, by
 * moving their cells. Returns the tokens usable from the front. */
static size_t reuse_chunks(struct engine *engine, struct slot *slot, size_t n_past)
{
    const struct token_vec *prompt = &slot->job->request->prompt;
    size_t least = (size_t)slot->job->request->n_cache_reuse;
    size_t head_cache = n_past, head_prompt = n_past;
    while (head_cache < slot->cache.n && head_prompt < prompt->n) {
        size_t n_match = 0;
        while (head_cache + n_match < slot->cache.n && head_prompt + n_match < prompt->n &&
               slot->cache.data[head_cache + n_match] == prompt->data[head_prompt + n_match])
            n_match++;
        if (n_match < least) {
            head_cache++;
            continue;
        }
        int32_t from = (int32_t)head_cache, to = (int32_t)head_prompt;
        if (!kv_seq_remove(engine->context, slot->id, to, from) ||
            !kv_seq_shift(engine->context, slot->id, from, from + (int32_t)n_match, to - from))
            break;
        memmove(slot->cache.data + head_prompt, slot->cache.data + head_cache,
                n_match * sizeof(int32_t));
        slot_moved_from(slot, head_prompt);
        n_past += n_match;
        head_cache += n_match;
        head_prompt += n_match;
    }
    return n_past;
}

/* Refuse a prompt that cannot be run; returns false after an error event. What
 * cannot be embedded was refused when it was submitted. */
static bool check_prompt_size(struct engine *engine, struct slot *slot)
{
    int32_t n_prompt = (int32_t)slot->job->request->prompt.n;
    int32_t n_ctx = engine->n_ctx_slot;
    if (!slot_embeds(slot) && n_prompt >= n_ctx) {
        slot_send_error(slot, ERR_LIMIT, n_ctx,
                        "request (%d tokens) exceeds the available context size (%d tokens), try "
                        "increasing it",
                        n_prompt, n_ctx);
        return false;
    }
    return true;
}

/* Why a prompt starts where it does, for whoever wonders that it is slow. */
static void tell_reuse(const struct slot *slot, size_t n_held, size_t n_past)
{
    const struct engine_request *request = slot->job->request;
    const char *why = !request->cache_prompt            ? "cache_prompt is off"
                      : n_held == 0                     ? "the slot holds nothing"
                      : n_past + 1 >= request->prompt.n ? "all but the last"
                      : n_past == 0                     ? "the slot holds another text"
                                                        : "the slot's text differs from there on";
    log_debug(
        "slot %d: task %d: %zu of %zu prompt tokens are in the slot (%s), %d from other slots",
        slot->id, slot->job->id_task, n_past, request->prompt.n, why,
        slot->timings.n_prompt_processed);
}

/* The first step of a job: see what of its prompt the slot already holds.
 * Returns false when the job ended here. */
static bool start_prompt(struct engine *engine, struct slot *slot)
{
    const struct engine_request *request = slot->job->request;
    slot->timings.t_start_us = clock_monotonic_us();
    if (request->prompt.n == 0) {
        slot->has_next_token = false;
        slot_send_done(engine, slot);
        slot_end_job(engine, slot);
        return false;
    }
    if (!check_prompt_size(engine, slot)) {
        slot_end_job(engine, slot);
        return false;
    }
    size_t n_past = 0, n_held = slot->cache.n;
    if (request->cache_prompt && !slot_embeds(slot)) {
        n_past = tokens_common_prefix(&slot->cache, &request->prompt);
        if (request->n_cache_reuse > 0 && kv_can_shift(engine->context))
            n_past = reuse_chunks(engine, slot, n_past);
    }
    n_past = checkpoints_start(engine, slot, n_past);
    /* The last token is computed again: its logits are not kept. */
    if (n_past == request->prompt.n)
        n_past--;
    if (!kv_seq_remove(engine->context, slot->id, (int32_t)n_past, -1)) {
        n_past = 0;
        kv_seq_remove(engine->context, slot->id, -1, -1);
    }
    slot->cache.n = n_past;
    if (n_past <= slot->n_exact)
        slot->n_exact = SIZE_MAX;
    slot->timings.n_prompt_cached = (int32_t)n_past;
    slot->timings.n_prompt_processed = 0;
    slot->state = SLOT_PROMPT;
    if (request->stream)
        (request->return_progress ? slot_send_progress : slot_send_begin)(slot);
    if (!slot_embeds(slot))
        slot->timings.n_prompt_processed = (int32_t)slot_share_prefix(engine, slot);
    tell_reuse(slot, n_held, n_past);
    return true;
}

void slot_end_prompt(struct slot *slot, int32_t last_row)
{
    slot->state = SLOT_DONE_PROMPT;
    slot->batch_index = last_row;
    if (!slot->sampler)
        return;
    const struct token_vec *prompt = &slot->job->request->prompt;
    for (size_t i = 0; i < prompt->n; i++)
        sampler_accept(slot->sampler, prompt->data[i], false, NULL);
}

/* What a chunk of n_ubatch tokens costs at the beginning of a prompt buys fewer
 * where attention has much to read: a stream waits for that long, however long the
 * prompt. A token multiplies by n_params weights, and by 2 * n_layers * n_embd
 * numbers for each cell before it, each of which takes about four times as long. */
static int32_t n_tokens_in_company(const struct engine *engine, const struct slot *slot)
{
    enum { ATTENTION_COST = 4, LEAST = 32 };
    const struct model_info *info = &engine->info;
    int32_t n_ubatch = context_n_ubatch(engine->context);
    if (info->n_swa > 0) /* most layers read no more than their window */
        return n_ubatch;
    double weights = (double)info->n_params;
    if (info->n_experts > 0)
        weights *= (double)info->n_experts_used / (double)info->n_experts;
    double cells = 2.0 * ATTENTION_COST * (double)info->n_layers * (double)info->n_embd *
                   (double)slot->cache.n;
    int32_t n = (int32_t)((double)n_ubatch * weights / (weights + cells + 1.0));
    return n > LEAST ? n : n_ubatch < LEAST ? n_ubatch : LEAST;
}

/* Whether a prompt's attention is summed in F32: where the reference does so, which takes
 * its other path for fewer tokens in a physical batch than that. The whole prompt
 * decides, so that what was cached of it has the bits that computing it gives. */
static bool attends_wide(const struct engine *engine, const struct token_vec *prompt)
{
    int32_t n_batch = context_n_batch(engine->context),
            n_ubatch = context_n_ubatch(engine->context);
    return prompt->n >= MODEL_LONG_PROMPT && n_batch >= MODEL_LONG_PROMPT &&
           n_ubatch >= MODEL_LONG_PROMPT;
}

/* Add as much of a prompt as the budget allows. */
static void add_prompt(struct engine *engine, struct slot *slot, int32_t n_budget)
{
    struct step_batch *batch = engine->batch;
    const struct token_vec *prompt = &slot->job->request->prompt;
    bool embedding = slot_embeds(slot);
    /* A text to embed must be whole within one step. */
    if (embedding && n_budget - batch->n < (int32_t)prompt->n)
        return;
    if (slot->state == SLOT_STARTED && !start_prompt(engine, slot))
        return;
    if (embedding && !VEC_RESERVE(&slot->cache, prompt->n)) {
        end_for_memory(engine, slot);
        return;
    }
    if (batch->n_generating > 0) {
        int32_t n_most = batch->n_generating + n_tokens_in_company(engine, slot);
        n_budget = n_budget < n_most ? n_budget : n_most;
    }
    bool checkpoints = checkpoints_wanted(engine, slot);
    bool is_long = attends_wide(engine, prompt);
    size_t n_before = slot->cache.n;
    while (slot->cache.n < prompt->n && batch->n < n_budget) {
        bool last = slot->cache.n + 1 == prompt->n;
        if (!add_token(batch, slot, prompt->data[slot->cache.n], embedding || last, is_long)) {
            end_for_memory(engine, slot);
            return;
        }
        slot->timings.n_prompt_processed++;
        if (checkpoints && checkpoints_break(engine, slot))
            break;
    }
    if (checkpoints && slot->cache.n > n_before)
        checkpoints_take(engine, slot, slot->cache.n - n_before);
    if (slot->cache.n == prompt->n)
        slot_end_prompt(slot, batch->n - 1);
}

static int by_age(const void *a, const void *b)
{
    const struct slot *const *x = a, *const *y = b;
    int32_t i = (*x)->job->id_task, j = (*y)->job->id_task;
    return i < j ? -1 : i > j;
}

/* Whole texts, as many as have room, those that wait longest first: a shorter
 * one may pass a longer one within a step, but not for ever. */
static void build_embedding_batch(struct engine *engine)
{
    struct step_batch *batch = engine->batch;
    struct slot *waiting[MODEL_SEQ_MAX];
    size_t n_waiting = 0;
    int32_t n_budget = context_n_batch(engine->context), n_cells = context_n_ctx(engine->context);
    batch->n = 0;
    if (n_budget > batch->n_max)
        n_budget = batch->n_max;
    if (n_budget > n_cells)
        n_budget = n_cells;
    for (int32_t i = 0; i < engine->n_slots; i++)
        if (engine->slots[i].state == SLOT_STARTED)
            waiting[n_waiting++] = &engine->slots[i];
    qsort(waiting, n_waiting, sizeof(struct slot *), by_age);
    for (size_t i = 0; i < n_waiting && batch->n < n_budget; i++)
        add_prompt(engine, waiting[i], n_budget);
}

enum { LEAST_OF_A_PROMPT = 8 };

static void build_mixed_batch(struct engine *engine)
{
    struct step_batch *batch = engine->batch;
    int32_t n_slots = engine->n_slots;
    batch->n = 0;
    for (int32_t i = 0; i < n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot->state == SLOT_GENERATING && slot->cache.n + 1 >= (size_t)engine->n_ctx_slot)
            shift_context(engine, slot);
        if (slot->state != SLOT_GENERATING)
            continue;
        slot->batch_index = batch->n;
        if (!add_token(batch, slot, slot->sampled, true, false))
            end_for_memory(engine, slot);
    }
    batch->n_generating = batch->n;
    if (batch->n > 0 && !engine->settings.continuous_batching)
        return;
    /* While others generate, a prompt gets one physical batch a step, or less, so
     * that nobody waits for more than that; and a little of it always. */
    int32_t n_ubatch = context_n_ubatch(engine->context);
    int32_t n_least = n_ubatch < LEAST_OF_A_PROMPT ? n_ubatch : LEAST_OF_A_PROMPT;
    int32_t n_budget = batch->n > 0 ? n_ubatch : context_n_batch(engine->context);
    if (n_budget < batch->n + n_least)
        n_budget = batch->n + n_least;
    if (n_budget > batch->n_max)
        n_budget = batch->n_max;
    for (int32_t i = 0; i < n_slots && batch->n < n_budget; i++) {
        struct slot *slot = &engine->slots[i];
        bool starts = slot->state == SLOT_STARTED && !slot_waits_to_share(engine, slot);
        if (starts || slot->state == SLOT_PROMPT)
            add_prompt(engine, slot, n_budget);
    }
}

void step_batch_build(struct engine *engine)
{
    (engine_embeds(engine) ? build_embedding_batch : build_mixed_batch)(engine);
}
