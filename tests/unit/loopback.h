/* loopback.h - a small HTTP server on loopback for tests: one thread accepts,
 * one per connection answers a single request through a function of the test. */
#ifndef MLXCEL_TESTS_LOOPBACK_H
#define MLXCEL_TESTS_LOOPBACK_H

#include "base/str.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What came: the whole head (request line and headers) and the body. The
 * answer is the raw bytes to send, head included; the connection is closed
 * after it, so a body shorter than its Content-Length is an interruption. */
typedef void (*loopback_answer)(void *arg, const char *head, struct slice body, struct str *out);

struct loopback {
    int listener;
    int port;
    char url[64];
    pthread_t thread;
    loopback_answer answer;
    void *arg;
};

struct loopback_connection {
    struct loopback *server;
    int fd;
};

static inline void *loopback_serve(void *arg)
{
    struct loopback_connection connection = *(struct loopback_connection *)arg;
    struct str in = {0}, out = {0};
    char chunk[4096];
    size_t want = 0;
    free(arg);
    for (;;) {
        ssize_t n = recv(connection.fd, chunk, sizeof chunk, 0);
        if (n <= 0)
            break;
        str_append(&in, chunk, (size_t)n);
        const char *end = strstr(str_text(&in), "\r\n\r\n");
        if (!end)
            continue;
        const char *length = strcasestr(str_text(&in), "\r\ncontent-length:");
        want = (size_t)(end - in.data) + 4 +
               (length && length < end ? (size_t)strtoul(length + 17, NULL, 10) : 0);
        if (in.len >= want)
            break;
    }
    char *end = in.len ? strstr(in.data, "\r\n\r\n") : NULL;
    if (end) {
        *end = '\0';
        struct slice body = {end + 4, in.len - (size_t)(end + 4 - in.data)};
        connection.server->answer(connection.server->arg, in.data, body, &out);
        for (size_t sent = 0; sent < out.len;) {
            ssize_t n = send(connection.fd, out.data + sent, out.len - sent, MSG_NOSIGNAL);
            if (n <= 0)
                break;
            sent += (size_t)n;
        }
    }
    shutdown(connection.fd, SHUT_WR);
    while (recv(connection.fd, chunk, sizeof chunk, 0) > 0)
        ;
    close(connection.fd);
    str_free(&in);
    str_free(&out);
    return NULL;
}

static inline void *loopback_accept(void *arg)
{
    struct loopback *server = arg;
    for (;;) {
        int fd = accept(server->listener, NULL, NULL);
        if (fd < 0)
            return NULL;
        struct loopback_connection *connection = malloc(sizeof *connection);
        pthread_t thread;
        *connection = (struct loopback_connection){server, fd};
        pthread_create(&thread, NULL, loopback_serve, connection);
        pthread_join(thread, NULL); /* one after another is enough, and simple */
    }
}

static inline void loopback_start(struct loopback *server, loopback_answer answer, void *arg)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    *server = (struct loopback){.answer = answer, .arg = arg};
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server->listener, (struct sockaddr *)&address, len) != 0 ||
        listen(server->listener, 16) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &len) != 0) {
        perror("loopback");
        abort();
    }
    server->port = ntohs(address.sin_port);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", server->port);
    pthread_create(&server->thread, NULL, loopback_accept, server);
}

static inline void loopback_stop(struct loopback *server)
{
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
}

#endif
