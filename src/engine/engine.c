/* engine.c - the engine from outside: starting, submitting, asking. */
#include "engine/internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

/* ---- starting and stopping ---- */

static void init_locks(struct engine *engine)
{
    pthread_mutex_init(&engine->lock, NULL);
    pthread_mutex_init(&engine->slots_lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->wake, &monotonic);
    pthread_cond_init(&engine->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool engine_create(const struct engine_settings *settings, struct engine **out, struct error *err)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return error_memory(err);
    engine->settings = *settings;
    if (engine->settings.n_parallel < 1)
        engine->settings.n_parallel = 1;
    engine->settings.model_path = slice_duplicate(slice_of(settings->model_path));
    init_locks(engine);
    engine->queue_end = &engine->queue;
    engine->commands_end = &engine->commands;
    if (!engine->settings.model_path) {
        engine_free(engine);
        return error_memory(err);
    }
    if (pthread_create(&engine->thread, NULL, engine_run, engine) != 0) {
        engine_free(engine);
        return error_set(err, ERR_MEMORY, "cannot start the scheduler thread");
    }
    engine->has_thread = true;
    *out = engine;
    return true;
}

void engine_stop(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->stopping = true;
    atomic_store(&engine->abort_step, true);
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    if (engine->has_thread) {
        engine_stop(engine);
        pthread_join(engine->thread, NULL);
    }
    engine_close(engine);
    pthread_cond_destroy(&engine->wake);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->slots_lock);
    free((char *)(uintptr_t)engine->settings.model_path);
    free(engine);
}

/* ---- asking ---- */

enum engine_state engine_state(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    enum engine_state state = engine->state;
    pthread_mutex_unlock(&engine->lock);
    return state;
}

enum engine_state engine_wait_loaded(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->state == ENGINE_LOADING)
        pthread_cond_wait(&engine->changed, &engine->lock);
    enum engine_state state = engine->state;
    pthread_mutex_unlock(&engine->lock);
    return state;
}

int engine_load_progress(struct engine *engine)
{
    return atomic_load(&engine->load_progress);
}

void engine_load_error(struct engine *engine, struct error *out)
{
    pthread_mutex_lock(&engine->lock);
    *out = engine->load_error;
    pthread_mutex_unlock(&engine->lock);
}

const struct tokenizer *engine_tokenizer(const struct engine *engine)
{
    return engine->tokenizer;
}

const struct model_info *engine_model_info(const struct engine *engine)
{
    return &engine->info;
}

const struct model_file *engine_model_file(const struct engine *engine)
{
    return engine->file;
}

int32_t engine_slot_n_ctx(const struct engine *engine)
{
    return engine->n_ctx_slot;
}

int32_t engine_n_ubatch(const struct engine *engine)
{
    return engine->n_ubatch;
}

enum pooling engine_pooling(const struct engine *engine)
{
    return engine->pooling;
}

int32_t engine_n_slots(const struct engine *engine)
{
    return engine->settings.n_parallel;
}

/* ---- submitting ---- */

static bool check_size(const struct engine *engine, size_t n, struct error *err)
{
    if (n > (size_t)engine->n_ubatch)
        return error_set(err, ERR_INVALID,
                         "input (%zu tokens) is too large to process. increase the physical "
                         "batch size (current batch size: %d)",
                         n, (int)engine->n_ubatch);
    if (n > (size_t)engine->n_ctx_slot)
        return error_set(err, ERR_LIMIT,
                         "input (%zu tokens) is larger than the max context size (%d tokens). "
                         "skipping",
                         n, (int)engine->n_ctx_slot);
    return n > 0 || error_set(err, ERR_INVALID, "Input content cannot be empty");
}

static bool check_task(const struct engine *engine, const struct engine_request *request,
                       struct error *err)
{
    bool embeds = engine_embeds(engine), ranks = engine->pooling == POOLING_RANK;
    if (request->task == ENGINE_COMPLETION)
        return !embeds ||
               error_set(err, ERR_UNSUPPORTED, "This server computes %s and generates no text",
                         ranks ? "scores" : "embeddings");
    if (!embeds || ranks != (request->task == ENGINE_RERANK))
        return error_set(err, ERR_UNSUPPORTED, "This server computes no %s",
                         request->task == ENGINE_RERANK ? "scores" : "embeddings");
    return check_size(engine, request->prompt.n, err);
}

static bool check_stops(const struct engine_request *request, struct error *err)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < request->n_stop; i++)
        n_bytes += request->stop[i].len;
    if (request->n_stop > ENGINE_STOPS_MAX)
        return error_set(err, ERR_INVALID, "stop: there are %zu stop strings, more than %d",
                         request->n_stop, ENGINE_STOPS_MAX);
    return n_bytes <= ENGINE_STOP_BYTES_MAX ||
           error_set(err, ERR_INVALID,
                     "stop: the stop strings have %zu bytes together, more than %d", n_bytes,
                     ENGINE_STOP_BYTES_MAX);
}

/* What is wrong with a request can be said before it waits. */
static bool check_request(const struct engine *engine, const struct engine_request *request,
                          struct error *err)
{
    if (request->id_slot < -1 || request->id_slot >= engine->settings.n_parallel)
        return error_set(err, ERR_INVALID, "id_slot %d: this server has slots 0 to %d",
                         (int)request->id_slot, (int)engine->settings.n_parallel - 1);
    if (request->n_completions < 1 || request->n_completions > engine->settings.n_parallel)
        return error_set(err, ERR_INVALID,
                         "%d completions of one prompt need as many slots; this server has %d",
                         (int)request->n_completions, (int)engine->settings.n_parallel);
    for (size_t i = 0; i < request->prompt.n; i++)
        if (request->prompt.data[i] < 0 || request->prompt.data[i] >= engine->info.n_vocab)
            return error_set(err, ERR_INVALID, "Prompt contains invalid tokens");
    return check_stops(request, err) && check_task(engine, request, err);
}

/* With lock held: is the engine one that takes work? */
static bool takes_work(const struct engine *engine, struct error *err)
{
    if (engine->state == ENGINE_FAILED)
        return error_set(err, ERR_STATE, "the model failed to load");
    if (engine->stopping || engine->state == ENGINE_STOPPED)
        return error_set(err, ERR_STATE, "the server is shutting down");
    if (!engine->was_ready)
        return error_set(err, ERR_STATE, "Loading model");
    return true;
}

static bool ready_for(struct engine *engine, struct error *err)
{
    pthread_mutex_lock(&engine->lock);
    bool ok = takes_work(engine, err);
    pthread_mutex_unlock(&engine->lock);
    return ok;
}

/* With lock held. */
static void enqueue(struct engine *engine, struct engine_job *job)
{
    job->next = NULL;
    *engine->queue_end = job;
    engine->queue_end = &job->next;
    engine->n_queued++;
}

/* Jobs of all requests, which are taken over whatever the result; none made when
 * one fails. */
static bool make_jobs(struct engine *engine, struct engine_request **requests, size_t n,
                      struct engine_mailbox *mailbox, struct engine_job **jobs, struct error *err)
{
    /* A request that lacks a part would be answered as if it had been asked so. */
    bool ok = (!memory_failed() || error_memory(err)) && ready_for(engine, err);
    for (size_t i = 0; ok && i < n; i++)
        ok = check_request(engine, requests[i], err);
    for (size_t i = 0; i < n; i++) {
        if (!ok)
            engine_request_free(requests[i]);
        else if (!(jobs[i] = job_create(engine, requests[i], mailbox, err)))
            ok = false;
    }
    for (size_t i = 0; i < n && !ok; i++)
        engine_job_release(jobs[i]);
    return ok;
}

bool engine_submit_all(struct engine *engine, struct engine_request **requests, size_t n,
                       struct engine_mailbox *mailbox, struct engine_job **out, struct error *err)
{
    struct engine_job **jobs = calloc(n ? n : 1, sizeof(struct engine_job *));
    if (!jobs) {
        for (size_t i = 0; i < n; i++)
            engine_request_free(requests[i]);
        return error_memory(err);
    }
    if (!make_jobs(engine, requests, n, mailbox, jobs, err)) {
        free(jobs);
        return false;
    }
    pthread_mutex_lock(&engine->lock);
    bool ok = takes_work(engine, err);
    for (size_t i = 0; i < n; i++) {
        if (ok && out)
            out[i] = job_retain(jobs[i]);
        if (ok)
            enqueue(engine, jobs[i]);
        else
            engine_job_release(jobs[i]);
    }
    if (ok)
        pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
    free(jobs);
    return ok;
}

bool engine_submit(struct engine *engine, struct engine_request *request,
                   struct engine_mailbox *mailbox, struct engine_job **out, struct error *err)
{
    return engine_submit_all(engine, &request, 1, mailbox, out, err);
}

/* With lock held: one file at a time waits for a slot, for it is in memory. */
static bool has_turn(const struct engine *engine, const struct command *command, struct error *err)
{
    for (const struct command *c = engine->commands; c && command->file.bytes; c = c->next)
        if (c->file.bytes && c->id_slot == command->id_slot)
            return error_set(err, ERR_STATE,
                             "another file waits to be restored into slot %d; try again when the "
                             "slot is idle",
                             (int)command->id_slot);
    return true;
}

/* Takes over the file that is to be restored, whatever the result. */
static bool submit_command(struct engine *engine, const struct command *wanted,
                           struct engine_mailbox *mailbox, const char *text, struct error *err)
{
    struct command *command = memory_failed() ? NULL : malloc(sizeof *command);
    if (!command) {
        struct slot_file file = wanted->file;
        slot_file_free(&file);
        return error_memory(err);
    }
    *command = *wanted;
    command->mailbox = mailbox_retain(mailbox);
    command->text = text ? slice_duplicate(slice_of(text)) : NULL;
    if (text && !command->text) {
        command_free(command);
        return error_memory(err);
    }
    pthread_mutex_lock(&engine->lock);
    bool ok = takes_work(engine, err) && has_turn(engine, command, err);
    if (ok) {
        *engine->commands_end = command;
        engine->commands_end = &command->next;
        pthread_cond_signal(&engine->wake);
    }
    pthread_mutex_unlock(&engine->lock);
    if (!ok)
        command_free(command);
    return ok;
}

bool engine_submit_slot_action(struct engine *engine, enum engine_slot_action action,
                               int32_t id_slot, const char *path, int32_t index,
                               struct engine_mailbox *mailbox, struct error *err)
{
    if (id_slot < 0 || id_slot >= engine->settings.n_parallel)
        return error_set(err, ERR_INVALID, "Invalid slot ID");
    struct command command = {
        .kind = COMMAND_SLOT, .action = action, .id_slot = id_slot, .index = index};
    if (action == ENGINE_SLOT_RESTORE) {
        uint64_t begin = clock_monotonic_us();
        if (!ready_for(engine, err))
            return false;
        if (!slot_file_read(&engine->file_limits, path, &command.file, err))
            return error_prefix(err, "Unable to restore slot");
        command.t_read_us = clock_monotonic_us() - begin;
    }
    return submit_command(engine, &command, mailbox, path, err);
}

bool engine_submit_reasoning_end(struct engine *engine, const char *completion_id,
                                 struct engine_mailbox *mailbox, struct error *err)
{
    struct command command = {.kind = COMMAND_REASONING_END};
    return submit_command(engine, &command, mailbox, completion_id, err);
}
