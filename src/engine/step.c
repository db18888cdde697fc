/* step.c - one step of everybody: a batch is built from all slots, the model
 * runs it, each slot that has logits gets its next token.
 *
 * Called with slots_lock held; it is given up while the model computes and
 * while tokens are sampled. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

/* One row of the batch; the arrays that model_decode wants are beside it. */
struct step_batch {
    int32_t n, n_max;
    int32_t n_generating; /* the first rows: tokens of those that generate */
    int32_t *token, *pos, *seq;
    bool *want_logits;
};

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
    if (!batch->token || !batch->pos || !batch->seq || !batch->want_logits) {
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
    free(batch);
}

/* Put a token at the end of a slot's cache and into the batch. */
static bool add_token(struct step_batch *batch, struct slot *slot, int32_t token, bool want_logits)
{
    if (batch->n >= batch->n_max || !VEC_PUSH(&slot->cache, token))
        return false;
    batch->token[batch->n] = token;
    batch->pos[batch->n] = (int32_t)slot->cache.n - 1;
    batch->seq[batch->n] = slot->id;
    batch->want_logits[batch->n] = want_logits;
    batch->n++;
    return true;
}

static bool is_embedding_task(const struct slot *slot)
{
    return slot->job->request->task != ENGINE_COMPLETION;
}

/* The slot's job is over, whatever its last event was. */
static void end_job(struct engine *engine, struct slot *slot)
{
    engine_count_finished(engine, slot);
    slot_release(engine, slot);
}

/* ---- before the batch: context shift ---- */

/* The tokens from here on have been moved, or what they saw has. */
static void slot_moved_from(struct slot *slot, size_t first)
{
    if (first < slot->n_exact)
        slot->n_exact = first;
}

/* An idle slot's cells are given up. False when there is none. */
static bool free_idle_slot(struct engine *engine)
{
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot_is_busy(slot) || slot->cache.n == 0)
            continue;
        if (prompt_cache_save(engine, slot))
            prompt_cache_limit(&engine->prompts);
        slot_forget_cache(engine, slot);
        return true;
    }
    return false;
}

/* The context is full: forget n_discard tokens behind the first n_keep and move
 * the rest down. */
static void shift_context(struct engine *engine, struct slot *slot)
{
    const struct engine_request *request = slot->job->request;
    if (request->n_completions > 1) {
        slot_send_error(slot, ERR_INTERNAL, 0, "context shift cannot be used for shared prompt");
        end_job(engine, slot);
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
    while (!ok && kv_can_shift(engine->context) && free_idle_slot(engine));
    if (!ok) {
        slot_send_error(slot, ERR_INTERNAL, 0, "this model's cache cannot be shifted");
        end_job(engine, slot);
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
    if (!is_embedding_task(slot) && n_prompt >= n_ctx) {
        slot_send_error(slot, ERR_LIMIT, n_ctx,
                        "request (%d tokens) exceeds the available context size (%d tokens), try "
                        "increasing it",
                        n_prompt, n_ctx);
        return false;
    }
    return true;
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
        end_job(engine, slot);
        return false;
    }
    if (!check_prompt_size(engine, slot)) {
        end_job(engine, slot);
        return false;
    }
    size_t n_past = 0;
    if (request->cache_prompt && !is_embedding_task(slot)) {
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
    if (!is_embedding_task(slot))
        slot->timings.n_prompt_processed = (int32_t)slot_share_prefix(engine, slot);
    return true;
}

/* The prompt is in this step's batch to its end: the sampler hears it. */
static void end_prompt(struct slot *slot, int32_t last_row)
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

/* Add as much of a prompt as the budget allows. */
static void add_prompt(struct engine *engine, struct slot *slot, int32_t n_budget)
{
    struct step_batch *batch = engine->batch;
    const struct token_vec *prompt = &slot->job->request->prompt;
    bool embedding = is_embedding_task(slot);
    /* A text to embed must be whole within one step. */
    if (embedding && n_budget - batch->n < (int32_t)prompt->n)
        return;
    if (slot->state == SLOT_STARTED && !start_prompt(engine, slot))
        return;
    if (embedding && !VEC_RESERVE(&slot->cache, prompt->n)) {
        slot_send_error(slot, ERR_MEMORY, 0, "out of memory");
        end_job(engine, slot);
        return;
    }
    if (batch->n_generating > 0) {
        int32_t n_most = batch->n_generating + n_tokens_in_company(engine, slot);
        n_budget = n_budget < n_most ? n_budget : n_most;
    }
    bool checkpoints = checkpoints_wanted(engine, slot);
    size_t n_before = slot->cache.n;
    while (slot->cache.n < prompt->n && batch->n < n_budget) {
        bool last = slot->cache.n + 1 == prompt->n;
        if (!add_token(batch, slot, prompt->data[slot->cache.n], embedding || last))
            return;
        slot->timings.n_prompt_processed++;
        if (checkpoints && checkpoints_break(engine, slot))
            break;
    }
    if (checkpoints && slot->cache.n > n_before)
        checkpoints_take(engine, slot, slot->cache.n - n_before);
    if (slot->cache.n == prompt->n)
        end_prompt(slot, batch->n - 1);
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

static void build_batch(struct engine *engine)
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
        add_token(batch, slot, slot->sampled, true);
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

/* ---- running it ---- */

/* Children of this parent start from the prompt it has just computed. */
static void start_children(struct engine *engine, struct slot *parent)
{
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot->state != SLOT_WAIT_PARENT || slot->job->id_parent != parent->job->id_task)
            continue;
        kv_seq_remove(engine->context, slot->id, -1, -1);
        kv_seq_copy(engine->context, parent->id, slot->id, -1, -1);
        slot->cache.n = 0;
        for (size_t k = 0; k < parent->cache.n; k++)
            (void)VEC_PUSH(&slot->cache, parent->cache.data[k]);
        slot->n_exact = parent->n_exact;
        slot->timings = parent->timings;
        end_prompt(slot, parent->batch_index);
    }
}

/* What sampling a slot's next token needs and gives. */
struct sampling {
    struct slot *slot;
    float *logits; /* [n_vocab] */
    int32_t token;
    float prob;
    struct candidate *top; /* room for n_probs */
    size_t n_top;
    bool ok;
    struct error error;
};

static void fill_probs(const struct engine *engine, struct sampling *s)
{
    const struct engine_request *request = s->slot->job->request;
    s->prob = 1.0f;
    s->n_top = 0;
    if (!s->top)
        return;
    size_t wanted = (size_t)request->sampling.n_probs;
    if (!request->post_sampling_probs) {
        s->n_top =
            logits_top_probs(s->logits, engine->info.n_vocab, s->token, &s->prob, s->top, wanted);
        return;
    }
    size_t n, selected;
    const struct candidate *left = sampler_candidates(s->slot->sampler, &n, &selected);
    if (n)
        s->prob = left[selected].p;
    for (size_t i = 0; i < n && i < wanted && left[i].p > 0.0f; i++)
        s->top[s->n_top++] = left[i];
}

struct sampling_round {
    struct engine *engine;
    struct sampling *items;
};

static void sample_items(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    struct sampling_round *round = arg;
    for (size_t i = begin; i < end; i++) {
        struct sampling *s = &round->items[i];
        s->ok = sampler_sample(s->slot->sampler, s->logits, &s->token, &s->error) &&
                sampler_accept(s->slot->sampler, s->token, true, &s->error);
        if (s->ok)
            fill_probs(round->engine, s);
    }
}

/* The slots whose logits the rows [begin, end) hold. */
static size_t collect_samplings(struct engine *engine, int32_t begin, int32_t end,
                                struct sampling *items)
{
    size_t n = 0;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        bool ready = slot->state == SLOT_DONE_PROMPT || slot->state == SLOT_GENERATING;
        if (!ready || slot->batch_index < begin || slot->batch_index >= end || !slot->sampler)
            continue;
        struct sampling *s = &items[n++];
        *s = (struct sampling){.slot = slot,
                               .logits = model_logits(engine->context, slot->batch_index - begin)};
        int32_t n_probs = slot->job->request->sampling.n_probs;
        if (n_probs > engine->info.n_vocab)
            n_probs = engine->info.n_vocab;
        if (n_probs > 0)
            s->top = calloc((size_t)n_probs, sizeof *s->top);
    }
    return n;
}

/* The sampled token becomes text, an event, perhaps the end. */
static void take_sampled(struct engine *engine, struct sampling *s)
{
    struct slot *slot = s->slot;
    if (!s->ok) {
        slot_send_error(slot, s->error.code, 0, "%s", s->error.message);
        end_job(engine, slot);
        return;
    }
    slot->state = SLOT_GENERATING;
    slot->batch_index = -1;
    uint64_t now = clock_monotonic_us();
    if (slot->timings.n_generated++ == 0)
        slot->timings.t_prompt_end_us = now;
    slot->timings.t_last_token_us = now;

    struct engine_token token = {
        .token = s->token,
        .text =
            text_piece(engine->tokenizer, s->token, engine_shows_special(engine, slot, s->token)),
        .prob = s->prob,
        .n_top = s->n_top,
    };
    if (s->n_top) {
        token.top = calloc(s->n_top, sizeof *token.top);
        for (size_t i = 0; token.top && i < s->n_top; i++)
            token.top[i] = (struct engine_token_prob){s->top[i].token, s->top[i].p};
        if (!token.top)
            token.n_top = 0;
    }
    bool goes_on = slot_take_token(engine, slot, &token);
    free(token.top);
    if (!goes_on) {
        engine_count_finished(engine, slot);
        slot_send_done(engine, slot);
        slot_release(engine, slot);
    }
}

static void sample_rows(struct engine *engine, int32_t begin, int32_t end)
{
    struct sampling *items = calloc((size_t)engine->n_slots, sizeof *items);
    if (!items)
        return;
    size_t n = collect_samplings(engine, begin, end, items);
    struct sampling_round round = {engine, items};
    pthread_mutex_unlock(&engine->slots_lock);
    if (n == 1)
        sample_items(&round, 0, 1, 0);
    else if (n > 1)
        worker_pool_each(engine->pool, n, 1, sample_items, &round);
    pthread_mutex_lock(&engine->slots_lock);
    for (size_t i = 0; i < n; i++) {
        take_sampled(engine, &items[i]);
        free(items[i].top);
    }
    free(items);
}

/* ---- embeddings ---- */

static void send_vectors(struct engine *engine, struct slot *slot, int32_t begin)
{
    const struct engine_request *request = slot->job->request;
    bool rank = request->task == ENGINE_RERANK;
    struct engine_event *event =
        event_create(rank ? ENGINE_EVENT_RERANK : ENGINE_EVENT_EMBEDDING, slot->job, slot);
    if (!event)
        return;
    bool each_token = context_pooling(engine->context) == POOLING_NONE;
    int32_t n_prompt = (int32_t)request->prompt.n;
    event->n_embd = rank ? 1 : engine->info.n_embd_out;
    event->n_vectors = each_token ? n_prompt : 1;
    size_t row = (size_t)event->n_embd;
    event->vectors =
        arena_alloc_array(&event->arena, (size_t)event->n_vectors * row, sizeof(float));
    int32_t first = slot->batch_index - begin - (n_prompt - 1);
    for (int32_t i = 0; event->vectors && i < event->n_vectors; i++) {
        const float *vector = each_token ? model_embedding(engine->context, first + i)
                                         : model_embedding_seq(engine->context, slot->id);
        if (vector)
            memcpy(event->vectors + (size_t)i * row, vector, row * sizeof(float));
    }
    mailbox_put(slot->job->mailbox, event);
}

static void finish_embeddings(struct engine *engine, int32_t begin, int32_t end)
{
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot->state != SLOT_DONE_PROMPT || !is_embedding_task(slot) ||
            slot->batch_index < begin || slot->batch_index >= end)
            continue;
        slot->timings.t_prompt_end_us = clock_monotonic_us();
        engine_count_finished(engine, slot);
        send_vectors(engine, slot, begin);
        slot_release(engine, slot);
        slot_forget_cache(engine, slot);
    }
}

/* ---- when the cache is full ---- */

/* Make room: first an idle slot's cache, else the running slot that holds most
 * gives up. Returns false when nothing could be freed. */
static bool free_cells(struct engine *engine)
{
    struct slot *largest = NULL;
    if (free_idle_slot(engine))
        return true;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot_is_busy(slot) && (!largest || slot->cache.n > largest->cache.n))
            largest = slot;
    }
    if (!largest)
        return false;
    slot_send_error(largest, ERR_INTERNAL, 0, "Context size has been exceeded.");
    end_job(engine, largest);
    slot_forget_cache(engine, largest);
    return true;
}

/* The slots with rows from begin on have tokens in their caches that were never
 * computed; their jobs fail. A step that was called off is no failure: its jobs
 * were cancelled, or the engine is stopping and says so itself. */
static void abandon_rows(struct engine *engine, int32_t begin, const struct error *why)
{
    struct step_batch *batch = engine->batch;
    for (int32_t row = begin; row < batch->n; row++) {
        struct slot *slot = &engine->slots[batch->seq[row]];
        if (slot_is_busy(slot) && why->code != ERR_CANCELLED) {
            job_send_error(slot->job, why, 0);
            end_job(engine, slot);
        }
        slot_trim_to_context(engine, slot);
    }
}

/* Rows of slots that ended in the meantime are taken out. */
static void drop_dead_rows(struct engine *engine, int32_t begin)
{
    struct step_batch *batch = engine->batch;
    int32_t kept = begin;
    for (int32_t row = begin; row < batch->n; row++) {
        struct slot *slot = &engine->slots[batch->seq[row]];
        if (!slot_is_busy(slot))
            continue;
        if (slot->batch_index == row)
            slot->batch_index = kept;
        batch->token[kept] = batch->token[row];
        batch->pos[kept] = batch->pos[row];
        batch->seq[kept] = batch->seq[row];
        batch->want_logits[kept] = batch->want_logits[row];
        kept++;
    }
    batch->n = kept;
}

static bool decode_rows(struct engine *engine, int32_t begin, int32_t n, struct error *err)
{
    const struct step_batch *batch = engine->batch;
    struct batch view = {.n_tokens = n,
                         .token = batch->token + begin,
                         .pos = batch->pos + begin,
                         .seq = batch->seq + begin,
                         .want_logits = batch->want_logits + begin};
    pthread_mutex_unlock(&engine->slots_lock);
    bool ok = model_decode(engine->context, &view, err);
    pthread_mutex_lock(&engine->slots_lock);
    return ok;
}

static void after_decode(struct engine *engine, int32_t begin, int32_t end)
{
    engine_count_decode(engine);
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        bool prompt = slot->state == SLOT_PROMPT || slot->state == SLOT_DONE_PROMPT;
        if (prompt && slot->job->request->stream && slot->job->request->return_progress)
            slot_send_progress(slot);
        if (slot->state == SLOT_DONE_PROMPT && slot->job->n_children > 0 &&
            slot->batch_index >= begin && slot->batch_index < end)
            start_children(engine, slot);
    }
    finish_embeddings(engine, begin, end);
    sample_rows(engine, begin, end);
}

void engine_step(struct engine *engine)
{
    struct step_batch *batch = engine->batch;
    /* A step takes a task number, as the reference's does: /slots shows them. */
    atomic_fetch_add(&engine->next_id_task, 1);
    (engine_embeds(engine) ? build_embedding_batch : build_batch)(engine);
    int32_t n_most = context_n_batch(engine->context);
    for (int32_t begin = 0; begin < batch->n;) {
        struct error err;
        int32_t n = batch->n - begin < n_most ? batch->n - begin : n_most;
        if (decode_rows(engine, begin, n, &err)) {
            after_decode(engine, begin, begin + n);
            begin += n;
            n_most = context_n_batch(engine->context);
            continue;
        }
        if (err.code != ERR_LIMIT) {
            if (err.code != ERR_CANCELLED)
                log_error("the model could not run a batch: %s", err.message);
            abandon_rows(engine, begin, &err);
            return;
        }
        /* No free cell: a smaller batch may still fit, then somebody must go. A
         * text to embed is not cut. */
        if (n > 1 && !engine_embeds(engine)) {
            n_most = n / 2;
            continue;
        }
        if (!free_cells(engine))
            abandon_rows(engine, begin, &err);
        drop_dead_rows(engine, begin);
        n_most = context_n_batch(engine->context);
    }
}
