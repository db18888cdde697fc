/* mailbox.c - events from the scheduler to whoever asked, in order. */
#include "engine/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct engine_mailbox {
    atomic_int references;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct engine_event *first, **end;
    struct engine_event *spare; /* for the first event that finds no memory; NULL: sent */
    bool closed;
    void (*notify)(void *arg);
    void *notify_arg;
};

struct engine_mailbox *engine_mailbox_create(void (*notify)(void *arg), void *arg)
{
    struct engine_mailbox *mailbox = calloc(1, sizeof *mailbox);
    struct engine_event *spare = calloc(1, sizeof *spare);
    if (!mailbox || !spare) {
        free(mailbox);
        free(spare);
        return NULL;
    }
    spare->kind = ENGINE_EVENT_ERROR;
    spare->id_slot = -1;
    spare->error.code = ERR_MEMORY; /* error_memory would say that it ran out now */
    strcpy(spare->error.message, "out of memory");
    mailbox->spare = spare;
    atomic_init(&mailbox->references, 1);
    pthread_mutex_init(&mailbox->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&mailbox->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    mailbox->end = &mailbox->first;
    mailbox->notify = notify;
    mailbox->notify_arg = arg;
    return mailbox;
}

struct engine_mailbox *mailbox_retain(struct engine_mailbox *mailbox)
{
    atomic_fetch_add(&mailbox->references, 1);
    return mailbox;
}

void mailbox_release(struct engine_mailbox *mailbox)
{
    if (!mailbox || atomic_fetch_sub(&mailbox->references, 1) != 1)
        return;
    while (mailbox->first) {
        struct engine_event *next = mailbox->first->next;
        engine_event_free(mailbox->first);
        mailbox->first = next;
    }
    engine_event_free(mailbox->spare);
    pthread_cond_destroy(&mailbox->filled);
    pthread_mutex_destroy(&mailbox->lock);
    free(mailbox);
}

void mailbox_put(struct engine_mailbox *mailbox, struct engine_event *event)
{
    pthread_mutex_lock(&mailbox->lock);
    if (!event) {
        event = mailbox->spare;
        mailbox->spare = NULL;
    }
    if (!event || mailbox->closed) {
        pthread_mutex_unlock(&mailbox->lock);
        engine_event_free(event);
        return;
    }
    bool was_empty = mailbox->first == NULL;
    event->next = NULL;
    *mailbox->end = event;
    mailbox->end = &event->next;
    pthread_cond_signal(&mailbox->filled);
    /* Under the lock, so that no notice comes after engine_mailbox_free. */
    if (was_empty && mailbox->notify)
        mailbox->notify(mailbox->notify_arg);
    pthread_mutex_unlock(&mailbox->lock);
}

/* Wait for an event until the deadline; with the lock held. */
static void wait_filled(struct engine_mailbox *mailbox, int timeout_ms)
{
    if (timeout_ms < 0) {
        while (!mailbox->first)
            pthread_cond_wait(&mailbox->filled, &mailbox->lock);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!mailbox->first)
        if (pthread_cond_timedwait(&mailbox->filled, &mailbox->lock, &until) == ETIMEDOUT)
            return;
}

struct engine_event *engine_mailbox_take(struct engine_mailbox *mailbox, int timeout_ms)
{
    pthread_mutex_lock(&mailbox->lock);
    if (!mailbox->first && timeout_ms != 0)
        wait_filled(mailbox, timeout_ms);
    struct engine_event *event = mailbox->first;
    if (event) {
        mailbox->first = event->next;
        if (!mailbox->first)
            mailbox->end = &mailbox->first;
        event->next = NULL;
    }
    pthread_mutex_unlock(&mailbox->lock);
    return event;
}

void engine_mailbox_free(struct engine_mailbox *mailbox)
{
    if (!mailbox)
        return;
    pthread_mutex_lock(&mailbox->lock);
    mailbox->closed = true;
    pthread_mutex_unlock(&mailbox->lock);
    mailbox_release(mailbox);
}
