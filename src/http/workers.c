/* workers.c - the threads that run handlers and steps.
 *
 * Each exchange is an actor: however often it is woken, one worker at a time
 * runs it, and a wake that comes meanwhile makes it run once more.
 *
 * Most threads run anything. A few take only what is brief: however many long
 * handlers there are, answers under way go on, and the server says that it lives. */
#include "http/internal.h"

#include <stdlib.h>

/* Threads that run nothing of a higher cost. */
static const int32_t n_reserved[N_LANES] = {[LANE_INSTANT] = 1, [LANE_BRIEF] = 2};

static enum lane lane_of(const struct http_exchange *x)
{
    static const enum lane lanes[] = {
        [HTTP_LONG] = LANE_LONG, [HTTP_BRIEF] = LANE_BRIEF, [HTTP_INSTANT] = LANE_INSTANT};
    return x->handled ? LANE_BRIEF : lanes[x->route->cost];
}

/* Wake the thread that can do the least besides. */
static void call_for(struct crew *crew, enum lane lane)
{
    for (int k = (int)lane; k < N_LANES; k++) {
        struct gang *gang = &crew->gangs[k];
        if (gang->n_idle == 0)
            continue;
        gang->n_idle--;
        gang->n_called++;
        pthread_cond_signal(&gang->work);
        return;
    }
}

static void enqueue(struct crew *crew, struct http_exchange *x)
{
    enum lane lane = lane_of(x);
    struct run_queue *queue = &crew->queues[lane];
    x->run = RUN_QUEUED;
    x->queue_next = NULL;
    if (queue->last)
        queue->last->queue_next = x;
    else
        queue->first = x;
    queue->last = x;
    call_for(crew, lane);
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

static struct http_exchange *dequeue(struct crew *crew, enum lane last)
{
    for (int k = 0; k <= (int)last; k++) {
        struct run_queue *queue = &crew->queues[k];
        struct http_exchange *x = queue->first;
        if (!x)
            continue;
        queue->first = x->queue_next;
        if (!queue->first)
            queue->last = NULL;
        return x;
    }
    return NULL;
}

/* The next to run, or NULL when the crew stops and nothing is left. */
static struct http_exchange *next_to_run(struct gang *gang)
{
    struct crew *crew = gang->crew;
    struct http_exchange *x;
    while (!(x = dequeue(crew, gang->lane)) && !crew->stop) {
        gang->n_idle++;
        while (gang->n_called == 0 && !crew->stop)
            pthread_cond_wait(&gang->work, &crew->lock);
        if (gang->n_called > 0)
            gang->n_called--;
    }
    return x;
}

static void *work(void *arg)
{
    struct gang *gang = arg;
    struct crew *crew = gang->crew;
    struct http_exchange *x;
    pthread_mutex_lock(&crew->lock);
    while ((x = next_to_run(gang))) {
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

static void start_threads(struct crew *crew, struct gang *gang, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (pthread_create(&crew->threads[crew->n_threads], NULL, work, gang) == 0)
            crew->n_threads++;
}

bool crew_start(struct crew *crew, int32_t n_threads, struct error *err)
{
    int32_t n_all = n_threads > 1 ? n_threads : 1;
    pthread_mutex_init(&crew->lock, NULL);
    for (int k = 0; k < N_LANES; k++) {
        crew->gangs[k] = (struct gang){.crew = crew, .lane = (enum lane)k};
        pthread_cond_init(&crew->gangs[k].work, NULL);
        n_all += n_reserved[k];
    }
    crew->threads = calloc((size_t)n_all, sizeof *crew->threads);
    if (!crew->threads)
        return error_memory(err);
    start_threads(crew, &crew->gangs[LANE_LONG], n_threads > 1 ? n_threads : 1);
    if (crew->n_threads == 0)
        return error_set(err, ERR_IO, "no thread could be started for HTTP requests");
    for (int k = 0; k < LANE_LONG; k++)
        start_threads(crew, &crew->gangs[k], n_reserved[k]);
    return true;
}

/* What is queued still runs. */
void crew_stop(struct crew *crew)
{
    if (!crew->threads)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->stop = true;
    for (int k = 0; k < N_LANES; k++)
        pthread_cond_broadcast(&crew->gangs[k].work);
    pthread_mutex_unlock(&crew->lock);
    for (int32_t i = 0; i < crew->n_threads; i++)
        pthread_join(crew->threads[i], NULL);
    free(crew->threads);
    crew->threads = NULL;
    for (int k = 0; k < N_LANES; k++)
        pthread_cond_destroy(&crew->gangs[k].work);
    pthread_mutex_destroy(&crew->lock);
}
