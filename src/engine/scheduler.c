/* scheduler.c - the scheduler thread: who gets a slot, when to step, when to
 * sleep. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <time.h>

/* ---- choosing a slot ---- */

/* The idle slot that holds most of this prompt, if that is more than the
 * configured similarity. */
static struct slot *most_similar_slot(struct engine *engine, const struct token_vec *prompt,
                                      int32_t id_slot, size_t *common)
{
    struct slot *best = NULL;
    float best_similarity = engine->settings.slot_prompt_similarity;
    if (best_similarity == 0.0f || prompt->n == 0)
        return NULL;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot_is_busy(slot) || slot->cache.n == 0 || (id_slot != -1 && slot->id != id_slot))
            continue;
        size_t n = tokens_common_prefix(&slot->cache, prompt);
        float similarity = (float)n / (float)prompt->n;
        if (similarity <= best_similarity)
            continue;
        best = slot;
        best_similarity = similarity;
        *common = n;
    }
    return best;
}

/* The idle slot unused for longest; among equals the last. */
static struct slot *least_recent_slot(struct engine *engine)
{
    struct slot *best = NULL;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (!slot_is_busy(slot) && (!best || slot->t_last_used_us <= best->t_last_used_us))
            best = slot;
    }
    return best;
}

static struct slot *first_idle_slot(struct engine *engine)
{
    for (int32_t i = 0; i < engine->n_slots; i++)
        if (!slot_is_busy(&engine->slots[i]))
            return &engine->slots[i];
    return NULL;
}

/* The slot for a request, its cache exchanged with the prompt cache where that
 * helps; NULL when none is free. */
static struct slot *choose_slot(struct engine *engine, const struct engine_request *request)
{
    size_t common = 0;
    bool exchange = false;
    if (request->task != ENGINE_COMPLETION) /* their slots keep nothing */
        return first_idle_slot(engine);
    struct slot *slot = most_similar_slot(engine, &request->prompt, request->id_slot, &common);
    if (slot) {
        /* About to lose most of what the slot holds. */
        exchange = (float)common < 0.5f * (float)slot->cache.n;
    } else if (request->id_slot != -1) {
        slot = &engine->slots[request->id_slot];
        if (slot_is_busy(slot))
            return NULL;
        exchange = slot->cache.n > 0; /* an erased slot starts from nothing */
    } else {
        slot = least_recent_slot(engine);
        exchange = true;
    }
    if (slot && exchange && engine->prompts.enabled) {
        prompt_cache_save(engine, slot);
        prompt_cache_load(engine, slot, &request->prompt);
        prompt_cache_limit(&engine->prompts);
    }
    return slot;
}

static int32_t count_idle(const struct engine *engine)
{
    int32_t n = 0;
    for (int32_t i = 0; i < engine->n_slots; i++)
        n += !slot_is_busy(&engine->slots[i]);
    return n;
}

static void launch_children(struct engine *engine, struct engine_job *parent)
{
    for (int32_t i = 0; i < parent->n_children; i++) {
        struct slot *slot = least_recent_slot(engine);
        if (slot)
            slot_launch(engine, slot, parent->children[i]);
    }
}

/* Copies of what idle slots hold go to the prompt cache; with one budget for
 * all slots their cells are freed. */
static void publish_idle_slots(struct engine *engine)
{
    if (!engine->settings.cache_idle_slots || !engine->prompts.enabled)
        return;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot_is_busy(slot) || slot->cache.n == 0)
            continue;
        prompt_cache_keep(engine, slot);
        if (engine->settings.context.kv_unified)
            slot_forget_cache(engine, slot);
    }
}

/* Try to place one job; false when it must wait. */
static bool place_job(struct engine *engine, struct engine_job *job)
{
    if (job->n_children > 0 && count_idle(engine) < job->n_children + 1)
        return false;
    struct slot *slot = choose_slot(engine, job->request);
    if (!slot)
        return false;
    slot_launch(engine, slot, job);
    launch_children(engine, job);
    publish_idle_slots(engine);
    return true;
}

/* First come, first served; only a job bound to one slot may be overtaken. */
static void place_queued_jobs(struct engine *engine)
{
    struct engine_job **link = &engine->queue;
    bool blocked = false;
    while (*link) {
        struct engine_job *job = *link;
        bool cancelled = atomic_load(&job->cancelled);
        bool bound = job->request->id_slot != -1;
        bool placed = !cancelled && (bound || !blocked) && place_job(engine, job);
        if (!cancelled && !placed) {
            if (!job->told_to_wait)
                log_debug("task %d waits: %s", job->id_task,
                          bound ? "the slot it asks for is busy" : "all slots are busy");
            job->told_to_wait = true;
            blocked = blocked || !bound;
            link = &job->next;
            continue;
        }
        *link = job->next;
        engine->n_queued--;
        engine_job_release(job);
    }
    engine->queue_end = link;
}

/* ---- commands ---- */

static void force_reasoning_end(struct engine *engine, const struct command *command)
{
    struct engine_event *event = event_create(ENGINE_EVENT_CONTROL, NULL, NULL);
    if (!event) {
        mailbox_put(command->mailbox, NULL);
        return;
    }
    event->index = command->index;
    error_set(&event->error, ERR_NOT_FOUND, "no active completion for this id");
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        const char *id = slot->job ? slot->job->request->completion_id : NULL;
        if (!id || strcmp(id, command->text) != 0)
            continue;
        event->success = slot->job->request->sampling.reasoning_control;
        if (event->success)
            sampler_force_reasoning_end(slot->sampler);
        else
            error_set(&event->error, ERR_INVALID,
                      "reasoning control not enabled for this completion");
        break;
    }
    mailbox_put(command->mailbox, event);
}

/* A busy slot's commands wait, and saving waits until the copy of the last slot that
 * was saved is written: any number of requests keeps one copy in memory. */
static bool must_wait(struct engine *engine, const struct command *command)
{
    if (command->kind != COMMAND_SLOT)
        return false;
    return slot_is_busy(&engine->slots[command->id_slot]) ||
           (command->action == ENGINE_SLOT_SAVE && atomic_load(&engine->n_saving) > 0);
}

/* Run what can be run now. */
static void run_commands(struct engine *engine)
{
    struct command **link = &engine->commands;
    while (*link) {
        struct command *command = *link;
        if (must_wait(engine, command)) {
            link = &command->next;
            continue;
        }
        if (command->kind == COMMAND_SLOT)
            slot_run_command(engine, &engine->slots[command->id_slot], command);
        else
            force_reasoning_end(engine, command);
        *link = command->next;
        command_free(command);
    }
    engine->commands_end = link;
}

void command_free(struct command *command)
{
    mailbox_release(command->mailbox);
    slot_file_free(&command->file);
    free(command->text);
    free(command);
}

/* ---- the loop ---- */

void engine_refuse_all(struct engine *engine, const struct error *why)
{
    while (engine->queue) {
        struct engine_job *job = engine->queue;
        engine->queue = job->next;
        job_send_error(job, why, 0);
        for (int32_t i = 0; i < job->n_children; i++)
            job_send_error(job->children[i], why, 0);
        engine_job_release(job);
    }
    engine->queue_end = &engine->queue;
    engine->n_queued = 0;
    while (engine->commands) {
        struct command *command = engine->commands;
        engine->commands = command->next;
        struct engine_event *event = event_create(ENGINE_EVENT_ERROR, NULL, NULL);
        if (event) {
            event->index = command->index;
            event->error = *why;
        }
        mailbox_put(command->mailbox, event);
        command_free(command);
    }
    engine->commands_end = &engine->commands;
}

static void release_cancelled(struct engine *engine)
{
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (!slot_is_busy(slot) || !atomic_load(&slot->job->cancelled))
            continue;
        engine_count_finished(engine, slot);
        slot_release(engine, slot);
        slot_trim_to_context(engine, slot);
    }
}

static void end_running(struct engine *engine, const struct error *why)
{
    for (int32_t i = 0; engine->slots && i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (!slot_is_busy(slot))
            continue;
        job_send_error(slot->job, why, 0);
        slot_release(engine, slot);
    }
}

/* A child whose parent ended before its prompt was done would wait for ever. */
static void release_orphans(struct engine *engine)
{
    for (int32_t i = 0; i < engine->n_slots; i++) {
        struct slot *slot = &engine->slots[i];
        if (slot->state != SLOT_WAIT_PARENT)
            continue;
        bool alive = false;
        for (int32_t k = 0; k < engine->n_slots; k++)
            alive |= slot_is_busy(&engine->slots[k]) &&
                     engine->slots[k].job->id_task == slot->job->id_parent;
        if (alive)
            continue;
        slot_send_error(slot, ERR_CANCELLED, 0, "the completion it belongs to has ended");
        slot_release(engine, slot);
    }
}

/* With lock held and every slot idle. */
static bool has_work(struct engine *engine)
{
    bool runnable = false;
    for (const struct command *c = engine->commands; c && !runnable; c = c->next)
        runnable = engine->state == ENGINE_SLEEPING || !must_wait(engine, c);
    return engine->stopping || engine->queue || runnable;
}

/* Wait until the time (NULL: for ever) or a signal. Nobody signals that a copy has been
 * written: with a command that waits for that it is looked at now and then. Returns
 * whether the time is over. */
static bool wait_a_while(struct engine *engine, const struct timespec *until)
{
    enum { LOOK_AGAIN_NS = 5000000, SECOND_NS = 1000000000 };
    struct timespec soon;
    clock_gettime(CLOCK_MONOTONIC, &soon);
    bool over = until && (soon.tv_sec > until->tv_sec ||
                          (soon.tv_sec == until->tv_sec && soon.tv_nsec >= until->tv_nsec));
    if (over)
        return true;
    soon.tv_nsec += LOOK_AGAIN_NS;
    if (soon.tv_nsec >= SECOND_NS) {
        soon.tv_sec++;
        soon.tv_nsec -= SECOND_NS;
    }
    if (engine->commands)
        pthread_cond_timedwait(&engine->wake, &engine->lock, &soon);
    else if (until)
        pthread_cond_timedwait(&engine->wake, &engine->lock, until);
    else
        pthread_cond_wait(&engine->wake, &engine->lock);
    return false;
}

/* With lock held: wait for something to do. Returns false when the time to
 * fall asleep has come. */
static bool wait_for_work(struct engine *engine)
{
    int32_t idle_seconds = engine->settings.sleep_idle_seconds;
    bool sleeps = idle_seconds >= 0 && engine->state != ENGINE_SLEEPING;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += sleeps ? idle_seconds : 0;
    while (!has_work(engine))
        if (wait_a_while(engine, sleeps ? &until : NULL))
            return has_work(engine);
    return true;
}

static void set_state(struct engine *engine, enum engine_state state)
{
    engine->state = state;
    engine->was_ready |= state == ENGINE_READY;
    pthread_cond_broadcast(&engine->changed);
}

/* Leave a sleep: the weights come back. With lock held, given up meanwhile. */
static bool wake_up(struct engine *engine)
{
    struct error err;
    log_info("waking up: loading the model again");
    set_state(engine, ENGINE_LOADING);
    pthread_mutex_unlock(&engine->lock);
    pthread_mutex_lock(&engine->slots_lock);
    bool ok = engine_load(engine, &err);
    pthread_mutex_unlock(&engine->slots_lock);
    pthread_mutex_lock(&engine->lock);
    if (!ok) {
        log_error("%s", err.message);
        engine->load_error = err;
        set_state(engine, ENGINE_FAILED);
        return false;
    }
    set_state(engine, ENGINE_READY);
    return true;
}

static void fall_asleep(struct engine *engine)
{
    log_info("idle for %d s: unloading the model until the next request",
             (int)engine->settings.sleep_idle_seconds);
    set_state(engine, ENGINE_SLEEPING);
    pthread_mutex_unlock(&engine->lock);
    pthread_mutex_lock(&engine->slots_lock);
    engine_unload(engine);
    pthread_mutex_unlock(&engine->slots_lock);
    pthread_mutex_lock(&engine->lock);
}

static bool any_busy(const struct engine *engine)
{
    return count_idle(engine) < engine->n_slots;
}

static void run_until_stopped(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    while (!engine->stopping) {
        if (!any_busy(engine) && !wait_for_work(engine)) {
            fall_asleep(engine);
            continue;
        }
        if (engine->stopping)
            break;
        if (engine->state == ENGINE_SLEEPING && !wake_up(engine))
            return; /* with lock held, as below */
        pthread_mutex_lock(&engine->slots_lock);
        release_cancelled(engine);
        release_orphans(engine);
        run_commands(engine);
        place_queued_jobs(engine);
        pthread_mutex_unlock(&engine->lock);
        if (any_busy(engine))
            engine_step(engine);
        pthread_mutex_unlock(&engine->slots_lock);
        pthread_mutex_lock(&engine->lock);
    }
}

static bool open_and_load(struct engine *engine, struct error *err)
{
    if (!engine_open(engine, err))
        return false;
    pthread_mutex_lock(&engine->slots_lock);
    bool ok = engine_load(engine, err);
    pthread_mutex_unlock(&engine->slots_lock);
    return ok;
}

void *engine_run(void *arg)
{
    struct engine *engine = arg;
    struct error err;
    bool ok = open_and_load(engine, &err);
    pthread_mutex_lock(&engine->lock);
    if (ok) {
        set_state(engine, ENGINE_READY);
        pthread_mutex_unlock(&engine->lock);
        run_until_stopped(engine); /* comes back with lock held */
        error_set(&err, ERR_CANCELLED, "the server is shutting down");
    } else {
        engine->load_error = err;
    }
    bool failed = !ok || engine->state == ENGINE_FAILED;
    if (engine->state == ENGINE_FAILED)
        err = engine->load_error;
    pthread_mutex_lock(&engine->slots_lock);
    end_running(engine, &err);
    pthread_mutex_unlock(&engine->slots_lock);
    engine->stopping = true;
    engine_refuse_all(engine, &err);
    set_state(engine, failed ? ENGINE_FAILED : ENGINE_STOPPED);
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}
