/* helpers.h - a small server under test and a client that speaks bytes. */
#ifndef MLXCEL_TESTS_HTTP_HELPERS_H
#define MLXCEL_TESTS_HTTP_HELPERS_H

#include "http/http.h"

#include <gnutls/gnutls.h>
#include <stdatomic.h>

enum { FLOOD_BLOCK = 256 << 10 };

/* What the test routes count. */
struct house {
    atomic_int n_gone;     /* steps that saw their client go */
    atomic_int n_released; /* states freed */
    atomic_int n_begun;    /* waits and streams begun */
    atomic_int n_blocks;   /* of FLOOD_BLOCK bytes, written by /flood */
};

/* GET /health (public), POST /echo, GET /wait (until the client goes), GET
 * /stream?n=N (N events "0".."N-1", one a wake), GET /silent (a stream that
 * says nothing), GET /flood (a stream as fast as it goes, until the client is
 * gone), POST /form, POST /outer (three inner echoes), GET /item/:id?x=. */
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

/* A server with TLS, its key and certificate made for it. */
struct tls_house {
    struct house house;
    char folder[64], key[80], cert[80];
    struct http_server *server;
};

void tls_house_open(struct tls_house *t);

/* A client, with TLS or without. */
struct client {
    int fd;
    gnutls_session_t tls; /* NULL: none */
};

/* trust NULL: without TLS. */
void client_open(struct client *client, const struct http_server *server,
                 gnutls_certificate_credentials_t trust);
void client_write(struct client *client, struct slice bytes);
/* Read until the peer closes; *closed is false when timeout_ms were over first.
 * malloc'd. */
char *client_read_all(struct client *client, int timeout_ms, bool *closed);
/* Go without a word; with a reset where abruptly. */
void client_drop(struct client *client, bool abruptly);

#endif
