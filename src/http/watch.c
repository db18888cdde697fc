/* watch.c - the thread that notices what waits too long and who hung up.
 *
 * libmicrohttpd does not look at a suspended connection's socket, and ours are
 * suspended exactly while the model works for them. Besides, its edge-triggered
 * set misses an end that comes together with the last bytes of half a head. So
 * each socket stands in an epoll set of our own as well, which asks for nothing
 * but the peer's end. */
#include "http/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 64 };

void watch_add(struct http_server *server, struct connection *place)
{
    if (place->fd < 0)
        return;
    size_t fd = (size_t)place->fd;
    if (fd >= server->n_by_fd) {
        size_t n = fd + 256;
        struct connection **grown = realloc(server->by_fd, n * sizeof(struct connection *));
        if (!grown)
            return; /* its hang-up is then noticed by the next write */
        memset(grown + server->n_by_fd, 0, (n - server->n_by_fd) * sizeof(struct connection *));
        server->by_fd = grown;
        server->n_by_fd = n;
    }
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.fd = place->fd};
    if (epoll_ctl(server->watch.epoll, EPOLL_CTL_ADD, place->fd, &event) != 0)
        return;
    server->by_fd[fd] = place;
}

void watch_remove(struct http_server *server, struct connection *place)
{
    if (place->fd < 0 || (size_t)place->fd >= server->n_by_fd || server->by_fd[place->fd] != place)
        return;
    epoll_ctl(server->watch.epoll, EPOLL_CTL_DEL, place->fd, NULL);
    server->by_fd[place->fd] = NULL;
}

/* An event may be older than the socket that has its number now: ask again. */
static bool has_hung_up(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLRDHUP};
    return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void tell_of_hang_up(struct http_server *server, int fd)
{
    struct http_exchange *x = NULL;
    pthread_mutex_lock(&server->lock);
    struct connection *place = (size_t)fd < server->n_by_fd ? server->by_fd[fd] : NULL;
    if (place) {
        if (has_hung_up(fd)) {
            place->hung_up = true;
            x = place->working;
            if (x)
                exchange_hold(x);
        } else {
            struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.fd = fd};
            epoll_ctl(server->watch.epoll, EPOLL_CTL_MOD, fd, &event);
        }
    }
    pthread_mutex_unlock(&server->lock);
    if (!x)
        return;
    exchange_client_gone(x);
    exchange_drop(x);
}

static void look_at_clock(struct http_server *server)
{
    uint64_t now = clock_monotonic_us();
    pthread_mutex_lock(&server->lock);
    for (struct http_exchange *x = server->exchanges; x; x = x->next)
        exchange_ping(x, now);
    for (struct connection *place = server->connections; place; place = place->next) {
        if (!place->receiving || place->fd < 0)
            continue;
        /* libmicrohttpd's own timeout starts anew with every byte; a client that
         * trickles is caught here. */
        bool too_slow =
            server->timeout_s > 0 && now - place->since_us > (uint64_t)server->timeout_s * 1000000u;
        /* At each look until it is closed: libmicrohttpd gives up an event that a
         * TLS handshake did not end on, and each shutdown makes a new one. */
        if (too_slow || place->hung_up)
            shutdown(place->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&server->lock);
}

static void *watch(void *arg)
{
    struct http_server *server = arg;
    uint64_t next_look = clock_monotonic_us();
    while (!atomic_load(&server->watch.stop)) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int n = epoll_wait(server->watch.epoll, events, EVENTS_AT_ONCE, HTTP_WATCH_MS);
        for (int i = 0; i < n; i++)
            if (events[i].data.fd != server->watch.wake)
                tell_of_hang_up(server, events[i].data.fd);
        uint64_t now = clock_monotonic_us();
        if (now >= next_look) {
            look_at_clock(server);
            next_look = now + HTTP_WATCH_MS * 1000u;
        }
    }
    return NULL;
}

bool watch_start(struct http_server *server, struct error *err)
{
    struct watch *w = &server->watch;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = w->wake};
    if (w->epoll < 0 || w->wake < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &event) != 0 ||
        pthread_create(&w->thread, NULL, watch, server) != 0)
        return error_set(err, ERR_IO, "the thread that watches connections cannot start: %s",
                         strerror(errno));
    w->running = true;
    return true;
}

void watch_stop(struct http_server *server)
{
    struct watch *w = &server->watch;
    if (w->running) {
        uint64_t one = 1;
        atomic_store(&w->stop, true);
        ssize_t written = write(w->wake, &one, sizeof one);
        (void)written; /* a full counter wakes it just as well */
        pthread_join(w->thread, NULL);
        w->running = false;
    }
    if (w->epoll >= 0)
        close(w->epoll);
    if (w->wake >= 0)
        close(w->wake);
    w->epoll = w->wake = -1;
}
