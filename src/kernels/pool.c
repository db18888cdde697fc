/* pool.c - the worker pool.
 *
 * A run is announced by one atomic counter, the epoch; workers spin on it for a
 * while and then park on a condition variable. The last worker to finish is
 * seen by the caller through a second counter. No lock is taken while workers
 * are awake. */
#define _GNU_SOURCE
#include "kernels/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_LINE 64

/* The caller is worker 0, and has no thread here. */
struct worker {
    /* What is left of the thread's share of items: the first in the low half, the
     * end in the high one. */
    _Alignas(CACHE_LINE) atomic_uint_least64_t share;
    struct worker_pool *pool;
    int32_t index;
    pthread_t thread;
};

struct worker_pool {
    struct worker_settings settings;
    int32_t n_threads;
    uint32_t n_spins; /* looks at the epoch before parking */
#ifdef __linux__
    cpu_set_t anywhere; /* where its maker might run */
#endif

    /* What is run: written by the caller before the epoch, which publishes it. */
    worker_fn fn;
    void *arg;

    _Alignas(CACHE_LINE) atomic_uint epoch; /* one more with every run */
    atomic_bool stop;
    _Alignas(CACHE_LINE) atomic_int n_running; /* workers not yet through */
    _Alignas(CACHE_LINE) atomic_int n_arrived; /* at the barrier */
    atomic_uint barrier_epoch;
    _Alignas(CACHE_LINE) pthread_mutex_t lock; /* only to park and to wake */
    pthread_cond_t wake;
    atomic_int n_parked;

    void *scratch; /* the room's own, see pool_scratch */
    size_t scratch_size;
    struct worker workers[];
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The i-th CPU of the mask, counting round; -1 when the mask is empty. */
static int cpu_of(const struct worker_settings *s, int32_t i)
{
    int n = 0;
    for (int cpu = 0; cpu < WORKER_MAX_CPUS; cpu++)
        n += s->cpu_mask[cpu / 64] >> cpu % 64 & 1 ? 1 : 0;
    if (n == 0)
        return -1;
    int wanted = i % n;
    for (int cpu = 0;; cpu++) {
        if ((s->cpu_mask[cpu / 64] >> cpu % 64 & 1) && wanted-- == 0)
            return cpu;
    }
}

static void set_affinity(const struct worker_pool *pool, int32_t index)
{
#ifdef __linux__
    const struct worker_settings *s = &pool->settings;
    int own = cpu_of(s, index);
    if (own < 0) {
        (void)sched_setaffinity(0, sizeof pool->anywhere, &pool->anywhere);
        return;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = 0; cpu < WORKER_MAX_CPUS && cpu < CPU_SETSIZE; cpu++) {
        if (s->strict ? cpu == own : (s->cpu_mask[cpu / 64] >> cpu % 64 & 1) != 0)
            CPU_SET((size_t)cpu, &set);
    }
    (void)sched_setaffinity(0, sizeof set, &set);
#else
    (void)pool;
    (void)index;
#endif
}

/* A system that refuses (no privilege) leaves things as they are. */
static void set_priority(int32_t priority)
{
    if (priority == 0)
        return;
#ifdef __linux__
    static const int nice_of[] = {10, 0, -5, -10}; /* low, normal, medium, high */
    if (priority >= 3) {
        struct sched_param param = {.sched_priority = 1};
        (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
        return;
    }
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice_of[priority + 1]);
#endif
}

static void park(struct worker_pool *pool, unsigned seen)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_parked, 1);
    while (atomic_load(&pool->epoch) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->n_parked, 1);
    pthread_mutex_unlock(&pool->lock);
}

static unsigned wait_for_epoch(struct worker_pool *pool, unsigned seen)
{
    for (uint32_t i = 0; i < pool->n_spins; i++) {
        if (atomic_load_explicit(&pool->epoch, memory_order_acquire) != seen)
            break;
        relax();
    }
    if (atomic_load_explicit(&pool->epoch, memory_order_acquire) == seen)
        park(pool, seen);
    return atomic_load_explicit(&pool->epoch, memory_order_acquire);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct worker_pool *pool = worker->pool;
    set_affinity(pool, worker->index);
    set_priority(pool->settings.priority);
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_epoch(pool, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_relaxed))
            return NULL;
        pool->fn(pool->arg, worker->index, pool->n_threads);
        atomic_fetch_sub_explicit(&pool->n_running, 1, memory_order_release);
    }
}

void worker_pool_enter(const struct worker_pool *pool)
{
    if (!pool)
        return;
    set_affinity(pool, 0);
    set_priority(pool->settings.priority);
}

/* The epoch is moved before the parked are counted, and a parking worker counts
 * itself before it looks at the epoch (both sequentially consistent): one of
 * the two sees the other. */
static void announce(struct worker_pool *pool)
{
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->n_parked) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
}

void worker_pool_run(struct worker_pool *pool, worker_fn fn, void *arg)
{
    if (!pool || pool->n_threads == 1) {
        fn(arg, 0, 1);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    atomic_store_explicit(&pool->n_running, pool->n_threads - 1, memory_order_relaxed);
    announce(pool);
    fn(arg, 0, pool->n_threads);
    for (uint32_t spins = 0; atomic_load_explicit(&pool->n_running, memory_order_acquire) > 0;
         spins++) {
        relax();
        if (spins > 1u << 9) /* the others are without a core: let them have this one */
            sched_yield();
    }
}

void worker_pool_barrier(struct worker_pool *pool)
{
    if (!pool || pool->n_threads == 1)
        return;
    unsigned epoch = atomic_load_explicit(&pool->barrier_epoch, memory_order_acquire);
    int arrived = atomic_fetch_add_explicit(&pool->n_arrived, 1, memory_order_acq_rel) + 1;
    if (arrived == pool->n_threads) {
        atomic_store_explicit(&pool->n_arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&pool->barrier_epoch, 1, memory_order_release);
        return;
    }
    for (uint32_t spins = 0;
         atomic_load_explicit(&pool->barrier_epoch, memory_order_acquire) == epoch; spins++) {
        relax();
        if (spins > 1u << 9)
            sched_yield();
    }
}

static uint64_t share_of(uint64_t first, uint64_t end)
{
    return end << 32 | first;
}

/* Each thread gets a stretch of the items to itself: weights that lie one after
 * another reach a core as one stream, which memory delivers a fifth faster than
 * pieces dealt out by turns. */
void pool_items_start(struct worker_pool *pool, size_t n_items)
{
    uint64_t n = (uint64_t)pool->n_threads;
    for (uint64_t t = 0; t < n; t++)
        atomic_store_explicit(&pool->workers[t].share,
                              share_of(n_items * t / n, n_items * (t + 1) / n),
                              memory_order_relaxed);
}

/* One item from the front of a share, or from its back. */
static bool take_of(struct worker *worker, bool front, size_t *item)
{
    uint64_t share = atomic_load_explicit(&worker->share, memory_order_relaxed), rest;
    do {
        uint64_t first = share & UINT32_MAX, end = share >> 32;
        if (first >= end)
            return false;
        *item = (size_t)(front ? first : end - 1);
        rest = front ? share_of(first + 1, end) : share_of(first, end - 1);
    } while (!atomic_compare_exchange_weak_explicit(&worker->share, &share, rest,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* The worker that has most left; NULL when none has any. */
static struct worker *richest(struct worker_pool *pool)
{
    struct worker *best = NULL;
    uint64_t most = 0;
    for (int32_t t = 0; t < pool->n_threads; t++) {
        uint64_t share = atomic_load_explicit(&pool->workers[t].share, memory_order_relaxed);
        uint64_t first = share & UINT32_MAX, end = share >> 32;
        if (end > first && end - first > most) {
            most = end - first;
            best = &pool->workers[t];
        }
    }
    return best;
}

bool pool_items_take(struct worker_pool *pool, int32_t thread, size_t *item)
{
    if (take_of(&pool->workers[thread], true, item))
        return true;
    for (struct worker *other = richest(pool); other; other = richest(pool)) {
        if (take_of(other, false, item))
            return true;
    }
    return false;
}

struct each_run {
    struct worker_pool *pool;
    size_t n_items, grain;
    worker_items_fn fn;
    void *arg;
};

static void run_each(void *arg, int32_t thread, int32_t n_threads)
{
    struct each_run *each = arg;
    (void)n_threads;
    size_t piece;
    while (pool_items_take(each->pool, thread, &piece)) {
        size_t begin = piece * each->grain;
        size_t end = each->n_items - begin > each->grain ? begin + each->grain : each->n_items;
        each->fn(each->arg, begin, end, thread);
    }
}

void worker_pool_each(struct worker_pool *pool, size_t n_items, size_t grain, worker_items_fn fn,
                      void *arg)
{
    if (grain == 0)
        grain = 1;
    if (n_items == 0)
        return;
    if (!pool || pool->n_threads == 1 || n_items <= grain) {
        for (size_t begin = 0; begin < n_items; begin += grain)
            fn(arg, begin, n_items - begin > grain ? begin + grain : n_items, 0);
        return;
    }
    if (n_items / grain >= UINT32_MAX)
        grain = n_items / (UINT32_MAX / 2);
    struct each_run each = {pool, n_items, grain, fn, arg};
    pool_items_start(pool, n_items / grain + (n_items % grain != 0));
    worker_pool_run(pool, run_each, &each);
}

int32_t worker_pool_n_threads(const struct worker_pool *pool)
{
    return pool ? pool->n_threads : 1;
}

void *pool_scratch(struct worker_pool *pool, size_t bytes)
{
    if (bytes <= pool->scratch_size)
        return pool->scratch;
    if (bytes > SIZE_MAX - CACHE_LINE)
        return NULL;
    bytes = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    void *fresh = aligned_alloc(CACHE_LINE, bytes);
    if (!fresh)
        return NULL;
    free(pool->scratch); /* nothing in it outlives a call */
    pool->scratch = fresh;
    pool->scratch_size = bytes;
    return fresh;
}

bool worker_pool_reserve(struct worker_pool *pool, size_t bytes, struct error *err)
{
    return pool_scratch(pool, bytes) || error_memory(err);
}

static void stop_workers(struct worker_pool *pool, int32_t n_started)
{
    atomic_store_explicit(&pool->stop, true, memory_order_relaxed);
    announce(pool);
    for (int32_t i = 1; i <= n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

static void destroy(struct worker_pool *pool)
{
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->scratch);
    free(pool);
}

struct worker_pool *worker_pool_create(const struct worker_settings *settings, struct error *err)
{
    if (settings->n_threads < 1 || settings->n_threads > WORKER_MAX_THREADS) {
        error_set(err, ERR_INVALID, "%d threads: a worker pool has 1 to %d", settings->n_threads,
                  WORKER_MAX_THREADS);
        return NULL;
    }
    size_t size = sizeof(struct worker_pool) + (size_t)settings->n_threads * sizeof(struct worker);
    struct worker_pool *pool = aligned_alloc(CACHE_LINE, size);
    if (!pool) {
        error_memory(err);
        return NULL;
    }
    memset(pool, 0, size);
    pool->settings = *settings;
    if (pool->settings.priority < -1)
        pool->settings.priority = -1;
    pool->n_threads = settings->n_threads;
#ifdef __linux__
    if (sched_getaffinity(0, sizeof pool->anywhere, &pool->anywhere) != 0)
        CPU_ZERO(&pool->anywhere); /* which the system then refuses to set */
#endif
    int32_t poll = settings->poll < 0 ? 0 : settings->poll > 100 ? 100 : settings->poll;
    pool->n_spins = (uint32_t)poll * 4096;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (int32_t i = 1; i < pool->n_threads; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        int rc = pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]);
        if (rc != 0) {
            error_set(err, ERR_IO, "cannot start thread %d of %d: %s; ask for fewer threads", i + 1,
                      settings->n_threads, strerror(rc));
            stop_workers(pool, i - 1);
            destroy(pool);
            return NULL;
        }
    }
    return pool;
}

void worker_pool_free(struct worker_pool *pool)
{
    if (!pool)
        return;
    stop_workers(pool, pool->n_threads - 1);
    destroy(pool);
}
