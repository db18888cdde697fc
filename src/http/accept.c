/* accept.c - the thread that takes new connections and deals them out. */
#include "http/internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPT_AT_ONCE = 64,
    ACCEPT_PAUSE_MS = 20 /* while no descriptor or no memory is left for one more */
};

static void deal_out(struct http_server *server, int fd, unsigned turn)
{
    /* What is written is a whole answer or what there is of a stream: nothing is
     * won by waiting for more. A Unix socket has no such option and no need. */
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    atomic_fetch_add(&server->n_connections, 1);
    io_add(&server->ios[turn % server->n_ios], fd);
}

/* Take what has arrived. False: there is no room, and the rest has to wait. */
static bool take_arrivals(struct http_server *server, unsigned *turn)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        if (atomic_load(&server->n_connections) >= server->max_connections)
            return false;
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            deal_out(server, fd, (*turn)++);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return true;
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return false;
        /* Anything else is one client's trouble: it gave up before we came. */
    }
    return true;
}

static void *accept_all(void *arg)
{
    struct http_server *server = arg;
    struct pollfd ready[2] = {{.fd = server->acceptor.wake, .events = POLLIN},
                              {.fd = server->listen_fd, .events = POLLIN}};
    bool has_room = true;
    unsigned turn = 0;
    while (!atomic_load(&server->acceptor.stop)) {
        if (has_room)
            poll(ready, 2, -1);
        else
            poll(ready, 1, ACCEPT_PAUSE_MS);
        has_room = take_arrivals(server, &turn);
    }
    return NULL;
}

bool accept_start(struct http_server *server, struct error *err)
{
    struct acceptor *a = &server->acceptor;
    a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->wake < 0 || pthread_create(&a->thread, NULL, accept_all, server) != 0)
        return error_set(err, ERR_IO, "the thread that accepts connections cannot start: %s",
                         strerror(errno));
    a->running = true;
    return true;
}

void accept_stop(struct http_server *server)
{
    struct acceptor *a = &server->acceptor;
    if (a->running) {
        uint64_t one = 1;
        atomic_store(&a->stop, true);
        ssize_t written = write(a->wake, &one, sizeof one);
        (void)written; /* a full counter wakes it just as well */
        pthread_join(a->thread, NULL);
        a->running = false;
    }
    if (a->wake >= 0)
        close(a->wake);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    a->wake = server->listen_fd = -1;
}
