#define _GNU_SOURCE /* CPU sets */
/* pool_test.c - the worker pool's promises. */
#include "unit/unit.h"

#include "kernels/kernels.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static struct worker_pool *make_pool(int32_t n_threads, int32_t poll)
{
    struct worker_settings settings = {.n_threads = n_threads, .poll = poll};
    struct error err;
    struct worker_pool *pool = worker_pool_create(&settings, &err);
    assert_non_null(pool);
    assert_int_equal(worker_pool_n_threads(pool), n_threads);
    return pool;
}

struct count {
    atomic_int calls[16];
    int32_t n_threads;
    pthread_t first;
    bool caller_was_first;
};

static void count_call(void *arg, int32_t thread, int32_t n_threads)
{
    struct count *c = arg;
    atomic_fetch_add(&c->calls[thread], 1);
    if (thread == 0) {
        c->n_threads = n_threads;
        c->caller_was_first = pthread_equal(pthread_self(), c->first) != 0;
    }
}

/* Runs follow each other at once and after pauses in which workers park. */
static void a_run_calls_every_thread_once(void **state)
{
    (void)state;
    for (int32_t poll = 0; poll <= 100; poll += 50) {
        struct worker_pool *pool = make_pool(4, poll);
        for (int run = 0; run < 300; run++) {
            struct count c = {.first = pthread_self()};
            worker_pool_run(pool, count_call, &c);
            for (int i = 0; i < 4; i++)
                assert_int_equal(atomic_load(&c.calls[i]), 1);
            assert_int_equal(c.n_threads, 4);
            assert_true(c.caller_was_first);
            if (run % 100 == 99)
                for (int i = 0; i < 50; i++)
                    sched_yield();
        }
        worker_pool_free(pool);
    }
}

static void no_pool_is_a_pool_of_one(void **state)
{
    (void)state;
    struct count c = {.first = pthread_self()};
    worker_pool_run(NULL, count_call, &c);
    assert_int_equal(atomic_load(&c.calls[0]), 1);
    assert_int_equal(c.n_threads, 1);
    assert_int_equal(worker_pool_n_threads(NULL), 1);
    worker_pool_barrier(NULL);
    worker_pool_free(NULL);
}

struct items {
    atomic_int seen[1000];
    size_t n, grain;
};

static void see_items(void *arg, size_t begin, size_t end, int32_t thread)
{
    struct items *items = arg;
    assert_true(thread >= 0 && thread < 3);
    assert_true(begin < end && end <= items->n && end - begin <= items->grain);
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&items->seen[i], 1);
}

static void each_item_is_handed_out_once(void **state)
{
    (void)state;
    struct worker_pool *pool = make_pool(3, 50);
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, 999, 1000};
    static const size_t grains[] = {1, 2, 7, 64, 2000};
    for (size_t i = 0; i < 8 * 5; i++) {
        static struct items items;
        memset(&items, 0, sizeof items);
        items.n = sizes[i / 5];
        items.grain = grains[i % 5];
        worker_pool_each(i % 2 ? pool : NULL, items.n, items.grain, see_items, &items);
        for (size_t k = 0; k < 1000; k++)
            assert_int_equal(atomic_load(&items.seen[k]), k < items.n ? 1 : 0);
    }
    worker_pool_free(pool);
}

struct phases {
    struct worker_pool *pool;
    int plain[3]; /* each thread writes its own, and reads all after the barrier */
    atomic_int wrong;
};

static void write_then_read(void *arg, int32_t thread, int32_t n_threads)
{
    struct phases *p = arg;
    for (int round = 1; round <= 100; round++) {
        p->plain[thread] = round;
        worker_pool_barrier(p->pool);
        for (int32_t i = 0; i < n_threads; i++) {
            if (p->plain[i] != round)
                atomic_fetch_add(&p->wrong, 1);
        }
        worker_pool_barrier(p->pool);
    }
}

static void a_barrier_makes_writes_visible(void **state)
{
    (void)state;
    struct phases p = {.pool = make_pool(3, 50)};
    worker_pool_run(p.pool, write_then_read, &p);
    assert_int_equal(atomic_load(&p.wrong), 0);
    worker_pool_free(p.pool);
}

/* A pool may serve one thread after another. */
static void *run_once(void *arg)
{
    struct count c = {.first = pthread_self()};
    worker_pool_run(arg, count_call, &c);
    return (void *)(size_t)atomic_load(&c.calls[1]);
}

static void threads_may_take_turns(void **state)
{
    (void)state;
    struct worker_pool *pool = make_pool(2, 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *calls;
        assert_int_equal(pthread_create(&thread, NULL, run_once, pool), 0);
        assert_int_equal(pthread_join(thread, &calls), 0);
        assert_int_equal((size_t)calls, 1);
    }
    worker_pool_free(pool);
}

static bool runs_on_all(const cpu_set_t *all)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_EQUAL(&set, all);
}

static void a_thread_that_enters_a_pool_runs_where_its_first_thread_does(void **state)
{
    (void)state;
    cpu_set_t all, one;
    struct error err;
    CPU_ZERO(&all);
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_SET(cpu, &one);
    struct worker_settings anywhere = {.n_threads = 1}, settings = {.n_threads = 1};
    settings.cpu_mask[cpu / 64] = (uint64_t)1 << cpu % 64;
    struct worker_pool *free_pool = worker_pool_create(&anywhere, &err),
                       *pinned = worker_pool_create(&settings, &err);
    assert_true(free_pool && pinned);
    worker_pool_enter(NULL);
    worker_pool_enter(pinned);
    assert_true(runs_on_all(&one));
    worker_pool_enter(free_pool);
    assert_true(runs_on_all(&all));
    worker_pool_free(free_pool);
    worker_pool_free(pinned);
}

static void read_affinity(void *arg, int32_t thread, int32_t n_threads)
{
    (void)n_threads;
    cpu_set_t *sets = arg;
    sched_getaffinity(0, sizeof *sets, &sets[thread]);
}

static void strict_workers_sit_on_their_cpu(void **state)
{
    (void)state;
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    struct worker_settings settings = {.n_threads = 3, .strict = true, .priority = 1};
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, &all))
        cpu++;
    settings.cpu_mask[cpu / 64] = (uint64_t)1 << cpu % 64;
    struct error err;
    struct worker_pool *pool = worker_pool_create(&settings, &err);
    assert_non_null(pool);
    cpu_set_t sets[3];
    worker_pool_run(pool, read_affinity, sets);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(CPU_COUNT(&sets[i]), 1);
        assert_true(CPU_ISSET((size_t)cpu, &sets[i]));
    }
    worker_pool_free(pool);
}

enum { N_UNEVEN = 100 };

struct uneven {
    atomic_int n_done;
    atomic_bool helped;
};

/* The first item takes as long as all others together, wherever they are. */
static void do_uneven(void *arg, size_t begin, size_t end, int32_t thread)
{
    struct uneven *u = arg;
    (void)thread;
    if (begin == 0) {
        for (int i = 0; i < 60000 && atomic_load(&u->n_done) < N_UNEVEN - 1; i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        atomic_store(&u->helped, atomic_load(&u->n_done) == N_UNEVEN - 1);
    }
    atomic_fetch_add(&u->n_done, (int)(end - begin));
}

/* A thread that is held up loses the rest of its stretch to the others. */
static void threads_help_each_other(void **state)
{
    (void)state;
    for (int32_t n_threads = 2; n_threads <= 5; n_threads++) {
        struct worker_pool *pool = make_pool(n_threads, 50);
        struct uneven u = {0};
        worker_pool_each(pool, N_UNEVEN, 1, do_uneven, &u);
        assert_true(atomic_load(&u.helped));
        assert_int_equal(atomic_load(&u.n_done), N_UNEVEN);
        worker_pool_free(pool);
    }
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    struct error err;
    struct worker_settings settings = {.n_threads = 0};
    assert_null(worker_pool_create(&settings, &err));
    assert_int_equal(err.code, ERR_INVALID);
    settings.n_threads = WORKER_MAX_THREADS + 1;
    assert_null(worker_pool_create(&settings, &err));
    struct worker_pool *pool = make_pool(1, 0);
    assert_false(worker_pool_reserve(pool, SIZE_MAX, &err));
    assert_int_equal(err.code, ERR_MEMORY);
    assert_true(worker_pool_reserve(pool, 1000, &err));
    worker_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_calls_every_thread_once),
        cmocka_unit_test(no_pool_is_a_pool_of_one),
        cmocka_unit_test(each_item_is_handed_out_once),
        cmocka_unit_test(a_barrier_makes_writes_visible),
        cmocka_unit_test(threads_may_take_turns),
        cmocka_unit_test(strict_workers_sit_on_their_cpu),
        cmocka_unit_test(a_thread_that_enters_a_pool_runs_where_its_first_thread_does),
        cmocka_unit_test(threads_help_each_other),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
