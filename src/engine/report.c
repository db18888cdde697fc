/* report.c - events: what a slot tells whoever asked. */
#include "engine/internal.h"

#include "base/clock.h"
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
static struct slice keep_text(struct engine_event *event, struct slice text)
{
    if (utf8_is_valid(text)) {
        char *copy = arena_duplicate(&event->arena, text);
        return (struct slice){copy ? copy : "", copy ? text.len : 0};
    }
    struct str clean = {0};
    utf8_append_sanitized(&clean, text);
    char *copy = arena_duplicate(&event->arena, str_slice(&clean));
    struct slice kept = {copy ? copy : "", copy ? clean.len : 0};
    str_free(&clean);
    return kept;
}

/* A deep copy of n sampled tokens. */
static void keep_tokens(struct engine_event *event, const struct engine_token *tokens, size_t n)
{
    event->tokens = arena_alloc_array(&event->arena, n, sizeof *tokens);
    if (!event->tokens)
        return;
    for (size_t i = 0; i < n; i++) {
        struct engine_token *copy = &event->tokens[i];
        *copy = tokens[i];
        copy->text.data = arena_duplicate(&event->arena, tokens[i].text);
        copy->top = arena_alloc_array(&event->arena, tokens[i].n_top, sizeof *copy->top);
        if (!copy->text.data || !copy->top) {
            copy->text.len = copy->text.data ? copy->text.len : 0;
            copy->n_top = 0;
            continue;
        }
        if (copy->n_top)
            memcpy(copy->top, tokens[i].top, copy->n_top * sizeof *copy->top);
    }
    event->n_tokens = n;
}

static void keep_ids(struct engine_event *event, const int32_t *ids, size_t n)
{
    event->ids = arena_alloc_array(&event->arena, n + 1, sizeof *ids);
    if (!event->ids)
        return;
    if (n)
        memcpy(event->ids, ids, n * sizeof *ids);
    event->n_ids = n;
}

void slot_send_begin(struct slot *slot)
{
    mailbox_put(slot->job->mailbox, event_create(ENGINE_EVENT_BEGIN, slot->job, slot));
}

void slot_send_progress(struct slot *slot)
{
    struct engine_event *event = event_create(ENGINE_EVENT_PROGRESS, slot->job, slot);
    if (!event)
        return;
    event->n_processed = (int32_t)slot->cache.n;
    mailbox_put(slot->job->mailbox, event);
}

void slot_send_token(struct slot *slot, const struct engine_token *token)
{
    struct engine_event *event = event_create(ENGINE_EVENT_TOKEN, slot->job, slot);
    if (!event)
        return;
    event->text = keep_text(event, token->text);
    keep_ids(event, &token->token, 1);
    if (slot->job->request->sampling.n_probs > 0)
        keep_tokens(event, token, 1);
    event->stop = slot->stop;
    mailbox_put(slot->job->mailbox, event);
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
    if (!event)
        return;
    bool stream = slot->job->request->stream;
    struct slice whole = str_slice(&slot->generated);
    event->whole_text = keep_text(event, whole);
    event->text = stream ? keep_text(event, slice_from(whole, slot->n_sent)) : event->whole_text;
    if (!stream) {
        keep_tokens(event, slot->tokens.data, count_reported_tokens(engine, slot));
        keep_ids(event, slot->ids.data, slot->ids.n);
    }
    event->stop = slot->stop;
    event->stopping_word = keep_text(event, slot->stopping_word);
    event->truncated = slot->truncated;
    event->has_new_line = slot->has_new_line;
    event->n_tokens_cached = (int32_t)slot->cache.n;
    event->seed = slot->sampler ? sampler_seed(slot->sampler) : 0;
    event->n_ctx = engine->n_ctx_slot;
    mailbox_put(slot->job->mailbox, event);
}

void job_send_error(struct engine_job *job, const struct error *error, int32_t n_ctx)
{
    struct engine_event *event = event_create(ENGINE_EVENT_ERROR, job, NULL);
    if (!event)
        return;
    event->error = *error;
    event->n_ctx = n_ctx;
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
