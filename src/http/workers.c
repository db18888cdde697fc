/* workers.c - the threads that run handlers and steps.
 *
 * Each exchange is an actor: however often it is woken, one worker at a time
 * runs it, and a wake that comes meanwhile makes it run once more. */
#include "http/internal.h"

#include <stdlib.h>

static void enqueue(struct crew *crew, struct http_exchange *x)
{
    x->run = RUN_QUEUED;
    x->queue_next = NULL;
    if (crew->last)
        crew->last->queue_next = x;
    else
        crew->first = x;
    crew->last = x;
    pthread_cond_signal(&crew->work);
}

void crew_run(struct crew *crew, struct http_exchange *x)
{
    pthread_mutex_lock(&crew->lock);
    if (x->run == RUN_IDLE) {
        exchange_hold(x);
        enqueue(crew, x);
    } else if (x->run == RUN_RUNNING) {
        x->run = RUN_AGAIN;
    }
    pthread_mutex_unlock(&crew->lock);
}

static void *work(void *arg)
{
    struct crew *crew = arg;
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (!crew->first && !crew->stop)
            pthread_cond_wait(&crew->work, &crew->lock);
        struct http_exchange *x = crew->first;
        if (!x)
            break;
        crew->first = x->queue_next;
        if (!crew->first)
            crew->last = NULL;
        x->run = RUN_RUNNING;
        pthread_mutex_unlock(&crew->lock);

        exchange_run(x);

        pthread_mutex_lock(&crew->lock);
        if (x->run == RUN_AGAIN) {
            enqueue(crew, x);
            continue;
        }
        x->run = RUN_IDLE;
        pthread_mutex_unlock(&crew->lock);
        exchange_drop(x);
        pthread_mutex_lock(&crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

bool crew_start(struct crew *crew, int32_t n_threads, struct error *err)
{
    if (n_threads < 1)
        n_threads = 1;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->work, NULL);
    crew->threads = calloc((size_t)n_threads, sizeof *crew->threads);
    if (!crew->threads)
        return error_memory(err);
    for (; crew->n_threads < n_threads; crew->n_threads++)
        if (pthread_create(&crew->threads[crew->n_threads], NULL, work, crew) != 0)
            break;
    if (crew->n_threads == 0)
        return error_set(err, ERR_IO, "no thread could be started for HTTP requests");
    return true;
}

/* What is queued still runs. */
void crew_stop(struct crew *crew)
{
    if (!crew->threads)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->stop = true;
    pthread_cond_broadcast(&crew->work);
    pthread_mutex_unlock(&crew->lock);
    for (int32_t i = 0; i < crew->n_threads; i++)
        pthread_join(crew->threads[i], NULL);
    free(crew->threads);
    crew->threads = NULL;
    pthread_cond_destroy(&crew->work);
    pthread_mutex_destroy(&crew->lock);
}
