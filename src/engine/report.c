/* report.c - events: what a slot tells whoever asked. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"

#include <stdlib.h>

void engine_event_free(struct engine_event *event)
{
    if (!event)
        return;
    arena_free(&event->arena);
    slot_save_release(event);
    free(event->slot_path);
    free(event);
}

struct engine_event *event_create(enum engine_event_kind kind, const struct engine_job *job,
                                  const struct slot *slot)
{
    struct engine_event *event = calloc(1, sizeof *event);
    if (!event)
        return NULL;
    event->kind = kind;
    event->id_slot = slot ? slot->id : -1;
    if (job) {
        event->index = job->index;
        event->id_task = job->id_task;
        event->n_prompt = (int32_t)job->request->prompt.n;
    }
    if (slot)
        event->timings = slot->timings;
    event->timings.t_now_us = clock_monotonic_us();
    return event;
}

/* A valid UTF-8 copy in the event's arena: ill-formed bytes become U+FFFD. */
static bool keep_text(struct engine_event *event, struct slice text, struct slice *kept)
{
    struct str clean = {0};
    if (!utf8_is_valid(text)) {
        utf8_append_sanitized(&clean, text);
        text = str_slice(&clean);
    }
    const char *copy = clean.failed ? NULL : arena_duplicate(&event->arena, text);
    *kept = (struct slice){copy ? copy : "", copy ? text.len : 0};
    str_free(&clean);
    return copy != NULL;
}

/* A deep copy of n sampled tokens. */
static bool keep_tokens(struct engine_event *event, const struct engine_token *tokens, size_t n)
{
    event->tokens = arena_alloc_array(&event->arena, n, sizeof *tokens);
    if (!event->tokens)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct engine_token *copy = &event->tokens[i];
        *copy = tokens[i];
        copy->text.data = arena_duplicate(&event->arena, tokens[i].text);
        copy->top = arena_alloc_array(&event->arena, tokens[i].n_top, sizeof *copy->top);
        if (!copy->text.data || !copy->top)
            return false;
        if (copy->n_top)
            memcpy(copy->top, tokens[i].top, copy->n_top * sizeof *copy->top);
    }
    event->n_tokens = n;
    return true;
}

/* An event that could not be filled is as good as none. */
static void deliver(struct slot *slot, struct engine_event *event, bool is_whole)
{
    if (!is_whole)
        engine_event_free(event);
    mailbox_put(slot->job->mailbox, is_whole ? event : NULL);
}

static bool keep_ids(struct engine_event *event, const int32_t *ids, size_t n)
{
    event->ids = arena_alloc_array(&event->arena, n + 1, sizeof *ids);
    if (!event->ids)
        return false;
    if (n)
        memcpy(event->ids, ids, n * sizeof *ids);
    event->n_ids = n;
    return true;
}

void slot_send_begin(struct slot *slot)
{
    mailbox_put(slot->job->mailbox, event_create(ENGINE_EVENT_BEGIN, slot->job, slot));
}

void slot_send_progress(struct slot *slot)
{
    struct engine_event *event = event_create(ENGINE_EVENT_PROGRESS, slot->job, slot);
    if (event)
        event->n_processed = (int32_t)slot->cache.n;
    mailbox_put(slot->job->mailbox, event);
}

void slot_send_token(struct slot *slot, const struct engine_token *token)
{
    struct engine_event *event = event_create(ENGINE_EVENT_TOKEN, slot->job, slot);
    if (event)
        event->stop = slot->stop;
    bool probs = slot->job->request->sampling.n_probs > 0;
    deliver(slot, event,
            event && keep_text(event, token->text, &event->text) &&
                keep_ids(event, &token->token, 1) && (!probs || keep_tokens(event, token, 1)));
}

/* The tokens whose probabilities DONE reports: those that spell the stopping word
 * are left out, like the word itself. */
static size_t count_reported_tokens(struct engine *engine, const struct slot *slot)
{
    size_t n = slot->tokens.n;
    if (slot->stop != ENGINE_STOP_WORD || n == 0)
        return n;
    struct token_vec word = {0};
    if (text_encode(engine->tokenizer, slot->stopping_word, 0, &word, NULL))
        n -= word.n < n ? word.n : n;
    VEC_FREE(&word);
    return n;
}

void slot_send_done(struct engine *engine, struct slot *slot)
{
    struct engine_event *event = event_create(ENGINE_EVENT_DONE, slot->job, slot);
    if (!event) {
        mailbox_put(slot->job->mailbox, NULL);
        return;
    }
    log_debug("slot %d: task %d: %d tokens, %.1f ms of it to pick them, grammars included",
              slot->id, slot->job->id_task, slot->timings.n_generated,
              (double)slot->t_sampling_us / 1000);
    bool stream = slot->job->request->stream;
    struct slice whole = str_slice(&slot->generated);
    bool ok = keep_text(event, whole, &event->whole_text) &&
              keep_text(event, slot->stopping_word, &event->stopping_word);
    event->text = event->whole_text;
    if (ok && stream)
        ok = keep_text(event, slice_from(whole, slot->n_sent), &event->text);
    else if (ok)
        ok = keep_tokens(event, slot->tokens.data, count_reported_tokens(engine, slot)) &&
             keep_ids(event, slot->ids.data, slot->ids.n);
    event->stop = slot->stop;
    event->truncated = slot->truncated;
    event->has_new_line = slot->has_new_line;
    event->n_tokens_cached = (int32_t)slot->cache.n;
    event->seed = slot->sampler ? sampler_seed(slot->sampler) : 0;
    event->n_ctx = engine->n_ctx_slot;
    deliver(slot, event, ok);
}

void job_send_error(struct engine_job *job, const struct error *error, int32_t n_ctx)
{
    struct engine_event *event = event_create(ENGINE_EVENT_ERROR, job, NULL);
    if (event) {
        event->error = *error;
        event->n_ctx = n_ctx;
    }
    mailbox_put(job->mailbox, event);
}

void slot_send_error(struct slot *slot, enum error_code code, int32_t n_ctx, const char *format,
                     ...)
{
    struct error error;
    va_list args;
    va_start(args, format);
    error_set_va(&error, code, format, args);
    va_end(args);
    job_send_error(slot->job, &error, n_ctx);
}
