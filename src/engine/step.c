/* step.c - one step of everybody: the model runs the batch, each slot that has
 * logits gets its next token.
 *
 * Called with slots_lock held; it is given up while the model computes and
 * while tokens are sampled. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

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
        if (!VEC_RESERVE(&slot->cache, parent->cache.n)) {
            slot_send_error(slot, ERR_MEMORY, 0, "out of memory");
            slot_end_job(engine, slot);
            continue;
        }
        memcpy(slot->cache.data, parent->cache.data, parent->cache.n * sizeof(int32_t));
        slot->cache.n = parent->cache.n;
        slot->n_exact = parent->n_exact;
        slot->timings = parent->timings;
        slot_end_prompt(slot, parent->batch_index);
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
        uint64_t begin_us = clock_monotonic_us();
        s->ok = sampler_sample(s->slot->sampler, s->logits, &s->token, &s->error) &&
                sampler_accept(s->slot->sampler, s->token, true, &s->error);
        s->slot->t_sampling_us += clock_monotonic_us() - begin_us;
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
        if (n_probs > 0 && !(s->top = calloc((size_t)n_probs, sizeof *s->top)))
            s->slot->no_memory = true;
    }
    return n;
}

/* The sampled token becomes text, an event, perhaps the end. */
static void take_sampled(struct engine *engine, struct sampling *s)
{
    struct slot *slot = s->slot;
    if (!s->ok) {
        slot_send_error(slot, s->error.code, 0, "%s", s->error.message);
        slot_end_job(engine, slot);
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
        if (!token.top) {
            token.n_top = 0;
            slot->no_memory = true;
        }
    }
    bool goes_on = slot_take_token(engine, slot, &token);
    free(token.top);
    if (slot->no_memory) {
        slot_send_error(slot, ERR_MEMORY, 0, "out of memory");
        slot_end_job(engine, slot);
    } else if (!goes_on) {
        engine_count_finished(engine, slot);
        slot_send_done(engine, slot);
        slot_release(engine, slot);
    }
}

/* The slots that wait for a token of these rows get none: no memory. */
static void end_rows(struct engine *engine, int32_t begin, int32_t end)
{
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        bool ready = slot->state == SLOT_DONE_PROMPT || slot->state == SLOT_GENERATING;
        if (!ready || slot->batch_index < begin || slot->batch_index >= end)
            continue;
        slot_send_error(slot, ERR_MEMORY, 0, "out of memory");
        slot_end_job(engine, slot);
    }
}

static void sample_rows(struct engine *engine, int32_t begin, int32_t end)
{
    struct sampling *items = calloc((size_t)engine->n_slots, sizeof *items);
    if (!items) {
        end_rows(engine, begin, end);
        return;
    }
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
    if (!event) {
        mailbox_put(slot->job->mailbox, NULL);
        return;
    }
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
        if (slot->state != SLOT_DONE_PROMPT || !slot_embeds(slot) || slot->batch_index < begin ||
            slot->batch_index >= end)
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
    if (engine_free_idle_slot(engine))
        return true;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot_is_busy(slot) && (!largest || slot->cache.n > largest->cache.n))
            largest = slot;
    }
    if (!largest)
        return false;
    slot_send_error(largest, ERR_INTERNAL, 0, "Context size has been exceeded.");
    slot_end_job(engine, largest);
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
            slot_end_job(engine, slot);
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
        batch->wide[kept] = batch->wide[row];
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
                         .want_logits = batch->want_logits + begin,
                         .wide = batch->wide + begin};
    pthread_mutex_unlock(&engine->slots_lock);
    bool ok = model_decode(engine->context, &view, err);
    pthread_mutex_lock(&engine->slots_lock);
    return ok;
}

/* The prompts that had rows in [begin, end) are computed so far. */
static void note_prompt_times(struct engine *engine, int32_t begin, int32_t end)
{
    const struct step_batch *batch = engine->batch;
    uint64_t now = clock_monotonic_us();
    for (int32_t row = begin; row < end; row++) {
        struct slot *slot = &engine->slots[batch->seq[row]];
        if (slot->state == SLOT_PROMPT || slot->state == SLOT_DONE_PROMPT)
            slot->timings.t_prompt_end_us = now;
    }
}

static void after_decode(struct engine *engine, int32_t begin, int32_t end)
{
    engine_count_decode(engine);
    note_prompt_times(engine, begin, end);
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
    step_batch_build(engine);
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
