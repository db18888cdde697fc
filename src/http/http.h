/* http.h - the HTTP server: connections in, exchanges to handlers, bytes out.
 *
 * An exchange is one request and its answer. A few threads move the bytes of all
 * connections and never wait; handlers run on workers, so that one of them may
 * parse, render and tokenize without holding up the others' sockets. A handler
 * that has to wait for something returns, and is stepped again after http_wake: a
 * thousand waiting exchanges cost no thread.
 *
 *   handler(x) -> http_reply(x, ...)                    answered at once, or
 *              -> http_continue(x, step, state, free)   answered by later steps
 *   step(x)    -> http_reply | http_stream_begin, http_write..., http_stream_end
 *
 * One exchange is never handled by two workers at once. Unless said otherwise a
 * function of an exchange belongs in its handler or step.
 * Depends on: base, gnutls. */
#ifndef MLXCEL_HTTP_HTTP_H
#define MLXCEL_HTTP_HTTP_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_server;
struct http_exchange;

/* ---- routes ------------------------------------------------------------- */

enum http_method { HTTP_GET, HTTP_POST, HTTP_DELETE, HTTP_OPTIONS, HTTP_OTHER };

typedef void http_handler(struct http_exchange *x, void *context);

/* What a handler may cost. Work of one kind never keeps all threads from the kinds
 * before it, so that a server that is busy with long requests still says that it
 * lives. Steps count as brief, whatever the handler was. */
enum http_cost {
    HTTP_LONG,   /* in the size of what a client sent: JSON, templates, grammars, tokens */
    HTTP_BRIEF,  /* in what the server holds; may wait for a lock for a moment */
    HTTP_INSTANT /* some kilobytes written, and no lock that is held for long */
};

/* HEAD is answered by the GET route. A segment ":name" of a path matches any
 * one segment, see http_param. */
struct http_route {
    enum http_method method;
    const char *path; /* without the prefix */
    http_handler *handler;
    bool is_public; /* needs no key */
    enum http_cost cost;
};

/* The body of an error as the API of a path (without the prefix) writes it, appended to
 * *body. False: as every other path, {"error":{"code","message","type"}}. Any thread. */
typedef bool http_error_shape(struct slice path, int status, const char *message, struct str *body);

/* ---- the server ---------------------------------------------------------- */

struct http_settings {
    const char *host; /* name or address; ending in ".sock": a Unix socket */
    int32_t port;     /* 0: any free one */
    bool reuse_port;
    int32_t n_workers;  /* threads for handlers of any cost, at least 1; a few more are
                         * reserved for what is brief */
    int32_t timeout_s;  /* a head, a body, or a peer that does not read; 0: none */
    size_t max_body;    /* bytes; 0: 1 GiB */
    const char *prefix; /* in front of every route; "" or NULL: none */

    const char *tls_key_file, *tls_cert_file; /* both or neither; PEM */

    const char *const *keys; /* n_keys API keys; none: no key is asked for */
    size_t n_keys;

    const char *cors_origins; /* "*", "localhost", or a list with commas */
    const char *cors_methods, *cors_headers;
    bool cors_credentials;

    const char *static_folder; /* served before the routes; NULL: none */

    const struct http_route *routes;
    size_t n_routes;
    void *context;                 /* handed to handlers */
    http_error_shape *shape_error; /* NULL: all errors alike */
};

/* Bind, listen and start answering: every route with 503 "Loading model" until
 * http_server_ready. Settings are copied. Fails naming the address, the file or
 * the folder that is to blame. */
bool http_server_start(const struct http_settings *settings, struct http_server **out,
                       struct error *err);
/* From now on the routes answer. */
void http_server_ready(struct http_server *server);
/* "http://127.0.0.1:8080", "unix:///tmp/x.sock"; lives as long as the server. */
const char *http_server_address(const struct http_server *server);
/* The port that was bound; 0 for a Unix socket. */
int32_t http_server_port(const struct http_server *server);
/* Exchanges that were begun and have not ended. */
size_t http_server_n_exchanges(struct http_server *server);
size_t http_server_n_connections(struct http_server *server); /* open ones */
/* Refuse new connections, tell every step through http_is_stopping, wait until
 * the exchanges ended and their answers are written, at most grace_ms, then
 * close what is left and free the server. */
void http_server_stop(struct http_server *server, uint32_t grace_ms);

/* ---- reading the request ------------------------------------------------- */

/* Slices live as long as the exchange. */
enum http_method http_method(const struct http_exchange *x);
struct slice http_body(const struct http_exchange *x);
/* By name without regard to case; data is NULL when absent. */
struct slice http_header(const struct http_exchange *x, const char *name);
/* Of the query; decoded; data is NULL when absent. */
struct slice http_query(const struct http_exchange *x, const char *name);
/* What the route's ":name" segment matched; decoded; data is NULL when absent. */
struct slice http_param(const struct http_exchange *x, const char *name);

/* One part of a multipart/form-data body. */
struct http_part {
    struct slice name, filename, content_type, data; /* filename.data NULL: a field */
};
/* The parts, in order, in the exchange's arena; *n is 0 and the result NULL when
 * the body is no form. False for a form that is malformed. */
bool http_form(struct http_exchange *x, const struct http_part **parts, size_t *n,
               struct error *err);
bool http_is_form(const struct http_exchange *x);

/* ---- what the log says of a request ----------------------------------------
 *
 * A line for each, at its end: method, path, status, time and client, the message of an
 * error, and what handlers add here: name is a literal ("model"). No text of prompts or
 * answers. On the worker that runs the exchange. */
void http_note_text(struct http_exchange *x, const char *name, struct slice value);
void http_note_number(struct http_exchange *x, const char *name, double value);

/* ---- answering ------------------------------------------------------------ */

#define HTTP_JSON "application/json; charset=utf-8"

/* A further header of the answer; before http_reply or http_stream_begin. */
void http_answer_header(struct http_exchange *x, const char *name, const char *value);
/* The whole answer; ends the exchange. The body is copied. */
void http_reply(struct http_exchange *x, int status, const char *content_type, struct slice body);
/* The same, taking the string's memory over (*body is empty again). */
void http_reply_str(struct http_exchange *x, int status, const char *content_type,
                    struct str *body);
/* {"error":{"code","message","type"}}, or as the settings' shape_error has it; ends the
 * exchange. */
void http_reply_error(struct http_exchange *x, int status, const char *type, const char *message);

/* Step the exchange after every http_wake, when the client goes and when the
 * server stops, and once right after the handler. release is called once, after
 * the exchange ended and no step runs any more. */
typedef void http_step(struct http_exchange *x, void *state);
void http_continue(struct http_exchange *x, http_step *step, void *state,
                   void (*release)(void *state));
/* Make the step run soon. From any thread, any number of times, quick. The
 * caller must know that the exchange lives: until release. arg is the exchange
 * (so that it can be handed to others as a callback). */
void http_wake(void *arg);

/* Begin a streamed answer. ping_s > 0: a comment line is sent after that many
 * seconds of silence. */
void http_stream_begin(struct http_exchange *x, int status, const char *content_type,
                       int32_t ping_s);
void http_write(struct http_exchange *x, struct slice bytes);
/* "data: " TEXT, with "event: NAME" before it where name is not NULL. */
void http_write_event(struct http_exchange *x, const char *name, struct slice text);
void http_stream_end(struct http_exchange *x);

/* The client hung up: nothing written arrives any more. A step that then does
 * not http_abandon the exchange goes on being stepped. */
bool http_client_gone(const struct http_exchange *x);
/* End the exchange without an answer; the connection is closed. */
void http_abandon(struct http_exchange *x);
bool http_is_stopping(const struct http_exchange *x);
/* Nobody waits for the answer any more: the client is gone, or the server stops.
 * For a handler at long work, to be asked between its steps; any thread, quick.
 * exchange is the struct http_exchange (so that it can be handed on as a callback). */
bool http_is_unwanted(void *exchange);

/* ---- exchanges within an exchange -------------------------------------------- */

/* Run a route's handler with a body of the caller's, without a connection;
 * headers and query are the outer one's. done is called once it ended, on a
 * worker, with its status and body, which live for the call only; it must be
 * quick; the outer exchange lives until it returns. The inner one sees the outer's client go as its
 * own. streamed: it tried to stream, body is empty then. False: no such route, or out of memory. */
bool http_inner(struct http_exchange *outer, enum http_method method, const char *path,
                struct slice body,
                void (*done)(void *arg, int status, bool streamed, struct slice body), void *arg);

#endif
