/* helpers.h - a small server under test and a client that speaks bytes. */
#ifndef MLXCEL_TESTS_HTTP_HELPERS_H
#define MLXCEL_TESTS_HTTP_HELPERS_H

#include "http/http.h"

#include <stdatomic.h>

/* What the test routes count. */
struct house {
    atomic_int n_gone;     /* steps that saw their client go */
    atomic_int n_released; /* states freed */
    atomic_int n_begun;    /* waits and streams begun */
};

/* GET /health (public), POST /echo, GET /wait (until the client goes), GET
 * /stream?n=N (N events "0".."N-1", one a wake), GET /silent (a stream that
 * says nothing), POST /form, POST /outer (three inner echoes), GET
 * /item/:id?x=. */
struct http_settings house_settings(struct house *house);
struct http_server *house_open(struct house *house, const struct http_settings *settings);

int client_connect(const struct http_server *server);
void client_send(int fd, const char *text);
/* Read until the peer closes or timeout_ms are over; malloc'd. */
char *client_read(int fd, int timeout_ms);
/* Connect, send, read to the end, close. */
char *client_ask(const struct http_server *server, const char *text);
/* Wait until *counter reaches n, at most 3 s; true when it did. */
bool comes_to(atomic_int *counter, int n);

#endif
