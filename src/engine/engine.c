/* engine.c - the engine from outside: starting, submitting, asking. */
#include "engine/internal.h"

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

int32_t engine_n_slots(const struct engine *engine)
{
    return engine->settings.n_parallel;
}

/* ---- submitting ---- */

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
    return true;
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

bool engine_submit(struct engine *engine, struct engine_request *request,
                   struct engine_mailbox *mailbox, struct engine_job **out, struct error *err)
{
    if (!ready_for(engine, err) || !check_request(engine, request, err)) {
        engine_request_free(request);
        return false;
    }
    struct engine_job *job = job_create(engine, request, mailbox, err);
    if (!job)
        return false;
    pthread_mutex_lock(&engine->lock);
    if (!takes_work(engine, err)) {
        pthread_mutex_unlock(&engine->lock);
        engine_job_release(job);
        return false;
    }
    if (out)
        *out = job_retain(job);
    job->next = NULL;
    *engine->queue_end = job;
    engine->queue_end = &job->next;
    engine->n_queued++;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
    return true;
}

static bool submit_command(struct engine *engine, const struct command *wanted,
                           struct engine_mailbox *mailbox, const char *text, struct error *err)
{
    struct command *command = malloc(sizeof *command);
    if (!command)
        return error_memory(err);
    *command = *wanted;
    command->mailbox = mailbox_retain(mailbox);
    command->text = text ? slice_duplicate(slice_of(text)) : NULL;
    if (text && !command->text) {
        command_free(command);
        return error_memory(err);
    }
    pthread_mutex_lock(&engine->lock);
    bool ok = takes_work(engine, err);
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
    return submit_command(engine, &command, mailbox, path, err);
}

bool engine_submit_reasoning_end(struct engine *engine, const char *completion_id,
                                 struct engine_mailbox *mailbox, struct error *err)
{
    struct command command = {.kind = COMMAND_REASONING_END};
    return submit_command(engine, &command, mailbox, completion_id, err);
}
