/* io.c - the threads that move bytes: each has its connections and never waits
 * for one of them. */
#include "http/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 64 };

static void ring(struct io *io)
{
    uint64_t one = 1;
    ssize_t written = write(io->wake, &one, sizeof one);
    (void)written; /* a full counter wakes it just as well */
}

void io_add(struct io *io, int fd)
{
    bool added = false;
    pthread_mutex_lock(&io->lock);
    if (io->n_arrivals == io->arrivals_capacity) {
        size_t capacity = io->arrivals_capacity ? 2 * io->arrivals_capacity : 64;
        int *grown = realloc(io->arrivals, capacity * sizeof *grown);
        if (grown) {
            io->arrivals = grown;
            io->arrivals_capacity = capacity;
        }
    }
    if (io->n_arrivals < io->arrivals_capacity) {
        io->arrivals[io->n_arrivals++] = fd;
        added = true;
    }
    pthread_mutex_unlock(&io->lock);
    if (added) {
        ring(io);
        return;
    }
    close(fd);
    atomic_fetch_sub(&io->server->n_connections, 1);
}

void io_wake(struct connection *c)
{
    struct io *io = c->io;
    pthread_mutex_lock(&io->lock);
    bool is_first = !io->first_woken;
    if (!c->woken) {
        c->woken = true;
        c->woken_next = NULL;
        if (is_first)
            io->first_woken = c;
        else
            io->last_woken->woken_next = c;
        io->last_woken = c;
        io->n_woken++;
        if (is_first)
            ring(io);
    }
    pthread_mutex_unlock(&io->lock);
}

void io_forget(struct connection *c)
{
    struct io *io = c->io;
    pthread_mutex_lock(&io->lock);
    struct connection *before = NULL;
    struct connection *at = c->woken ? io->first_woken : NULL;
    for (; at && at != c; at = at->woken_next)
        before = at;
    if (at) {
        if (before)
            before->woken_next = c->woken_next;
        else
            io->first_woken = c->woken_next;
        if (io->last_woken == c)
            io->last_woken = before;
        io->n_woken--;
        c->woken = false;
    }
    pthread_mutex_unlock(&io->lock);
}

static void take_arrivals(struct io *io)
{
    for (;;) {
        pthread_mutex_lock(&io->lock);
        int fd = io->n_arrivals > 0 ? io->arrivals[--io->n_arrivals] : -1;
        pthread_mutex_unlock(&io->lock);
        if (fd < 0)
            return;
        if (!connection_create(io, fd))
            atomic_fetch_sub(&io->server->n_connections, 1);
    }
}

static struct connection *next_woken(struct io *io)
{
    pthread_mutex_lock(&io->lock);
    struct connection *c = io->first_woken;
    if (c) {
        io->first_woken = c->woken_next;
        if (!io->first_woken)
            io->last_woken = NULL;
        c->woken = false;
        io->n_woken--;
    }
    pthread_mutex_unlock(&io->lock);
    return c;
}

/* Those that are woken by now, once each. True: others were meanwhile. */
static bool turn_woken(struct io *io)
{
    pthread_mutex_lock(&io->lock);
    size_t n = io->n_woken;
    pthread_mutex_unlock(&io->lock);
    struct connection *c;
    while (n-- > 0 && (c = next_woken(io)))
        connection_turn(c, 0);
    pthread_mutex_lock(&io->lock);
    bool has_more = io->n_woken > 0;
    pthread_mutex_unlock(&io->lock);
    return has_more;
}

static void look_at_clock(struct io *io)
{
    struct http_server *server = io->server;
    uint64_t now = clock_monotonic_us();
    struct connection *next;
    for (struct connection *c = io->connections; c; c = next) {
        next = c->next;
        connection_look(c, now);
    }
    if (io != server->ios)
        return;
    pthread_mutex_lock(&server->lock);
    for (struct http_exchange *x = server->exchanges; x; x = x->next)
        exchange_ping(x, now);
    pthread_mutex_unlock(&server->lock);
}

static void *move_bytes(void *arg)
{
    struct io *io = arg;
    uint64_t next_look = clock_monotonic_us() + HTTP_LOOK_MS * 1000u;
    bool has_more = false;
    while (!atomic_load(&io->stop)) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int n = epoll_wait(io->epoll, events, EVENTS_AT_ONCE, has_more ? 0 : HTTP_LOOK_MS);
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (events[i].data.ptr)
                connection_turn(events[i].data.ptr, events[i].events);
            else if (read(io->wake, &count, sizeof count) > 0)
                take_arrivals(io);
        }
        has_more = turn_woken(io);
        uint64_t now = clock_monotonic_us();
        if (now >= next_look) {
            look_at_clock(io);
            next_look = now + HTTP_LOOK_MS * 1000u;
        }
    }
    return NULL;
}

static bool start_one(struct io *io, struct http_server *server)
{
    pthread_mutex_init(&io->lock, NULL);
    io->server = server;
    io->date_at = -1;
    io->epoll = epoll_create1(EPOLL_CLOEXEC);
    io->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    io->block = malloc(HTTP_BLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    io->running = io->block && io->epoll >= 0 && io->wake >= 0 &&
                  epoll_ctl(io->epoll, EPOLL_CTL_ADD, io->wake, &event) == 0 &&
                  pthread_create(&io->thread, NULL, move_bytes, io) == 0;
    return io->running;
}

bool io_start(struct http_server *server, unsigned n, struct error *err)
{
    server->ios = calloc(n, sizeof *server->ios);
    if (!server->ios)
        return error_memory(err);
    while (server->n_ios < n)
        if (!start_one(&server->ios[server->n_ios++], server))
            return error_set(err, ERR_IO, "a thread for HTTP connections cannot start: %s",
                             strerror(errno));
    return true;
}

static void stop_one(struct io *io)
{
    if (io->running) {
        atomic_store(&io->stop, true);
        ring(io);
        pthread_join(io->thread, NULL);
    }
    take_arrivals(io);
    while (io->connections)
        connection_close(io->connections);
    if (io->epoll >= 0)
        close(io->epoll);
    if (io->wake >= 0)
        close(io->wake);
    free(io->block);
    free(io->arrivals);
    pthread_mutex_destroy(&io->lock);
}

void io_stop(struct http_server *server)
{
    for (unsigned i = 0; i < server->n_ios; i++)
        stop_one(&server->ios[i]);
    free(server->ios);
    server->ios = NULL;
    server->n_ios = 0;
}
