/* listen.c - the socket a server listens on. */
#include "http/internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

/* What to do about it. */
static const char *advice(int number)
{
    switch (number) {
    case EADDRINUSE:
        return "; another server is running there: stop it, or use another --port";
    case EACCES:
    case EPERM:
        return "; ports below 1024 need root: use --port 8080 or another one above";
    case EADDRNOTAVAIL:
        return "; this machine does not have the address: use --host 127.0.0.1, or 0.0.0.0 for all";
    default:
        return "";
    }
}

static int fail(int fd, struct error *err, const char *what, const char *host, int32_t port)
{
    int number = errno;
    error_set(err, ERR_IO, "couldn't bind HTTP server socket, hostname: %s, port: %d: %s: %s%s",
              host, (int)port, what, strerror(number), advice(number));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int listen_unix(const char *path, char **address, struct error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof name.sun_path) {
        error_set(err, ERR_INVALID,
                  "couldn't bind HTTP server socket %s: the path of a Unix socket has at most %zu "
                  "bytes",
                  path, sizeof name.sun_path - 1);
        return -1;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(fd, err, "socket", path, 0);
    /* A socket nobody listens on is left over from a server that died. */
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISSOCK(info.st_mode)) {
        int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_dead = probe >= 0 && connect(probe, (struct sockaddr *)&name, sizeof name) != 0 &&
                       errno == ECONNREFUSED;
        if (probe >= 0)
            close(probe);
        if (is_dead)
            unlink(path);
    }
    if (bind(fd, (struct sockaddr *)&name, sizeof name) != 0)
        return fail(fd, err, "bind", path, 0);
    if (listen(fd, BACKLOG) != 0)
        return fail(fd, err, "listen", path, 0);
    *address = text_format("unix://%s", path);
    return fd;
}

static int bind_to(const struct addrinfo *info, bool reuse_port)
{
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    info->ai_protocol);
    if (fd < 0)
        return -1;
    int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (reuse_port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (info->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static int32_t bound_port(int fd)
{
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &len) != 0)
        return 0;
    if (name.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&name)->sin6_port);
    return ntohs(((struct sockaddr_in *)&name)->sin_port);
}

int listen_open(const struct http_settings *settings, int32_t *port, char **address,
                struct error *err)
{
    const char *host = settings->host && *settings->host ? settings->host : "127.0.0.1";
    *port = 0;
    if (slice_ends_with(slice_of(host), SLICE(".sock")))
        return listen_unix(host, address, err);
    if (settings->port < 0 || settings->port > 65535) {
        error_set(err, ERR_INVALID, "port %d is none: 0..65535", (int)settings->port);
        return -1;
    }
    char service[16];
    snprintf(service, sizeof service, "%d", (int)settings->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int code = getaddrinfo(host, service, &hints, &list);
    if (code != 0) {
        error_set(err, ERR_IO, "couldn't bind HTTP server socket, hostname: %s, port: %d: %s", host,
                  (int)settings->port, gai_strerror(code));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
        fd = bind_to(info, settings->reuse_port);
    freeaddrinfo(list);
    if (fd < 0)
        return fail(fd, err, "bind", host, settings->port);
    *port = bound_port(fd);
    bool is_tls = settings->tls_key_file && *settings->tls_key_file;
    *address = text_format(strchr(host, ':') ? "%s://[%s]:%d" : "%s://%s:%d",
                           is_tls ? "https" : "http", host, (int)*port);
    return fd;
}
