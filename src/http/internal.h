/* internal.h - what the files of this room share.
 *
 * Locks, in the order they may be taken: server->lock, exchange->lock, then
 * io->lock and crew->lock, which are leaves and never held while calling out.
 *
 * References of an exchange: one of its connection, one of its handler (until it
 * ended), one while queued or run, one of each inner exchange. */
#ifndef MLXCEL_HTTP_INTERNAL_H
#define MLXCEL_HTTP_INTERNAL_H

#include "http/framing.h"
#include "http/http.h"

#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum {
    HTTP_BLOCK = 64 << 10,        /* bytes read, or taken from a file, at once */
    HTTP_STREAM_BLOCK = 16 << 10, /* most bytes of a stream in one chunk */
    HTTP_MAX_UNREAD = 32 << 20,   /* a reader that far behind is given up */
    HTTP_SWALLOW = 8 << 20,       /* of a refused body, so that the answer arrives */
    HTTP_LINGER_MS = 2000,        /* for the client to take the last answer */
    HTTP_LOOK_MS = 200,           /* how often clocks are looked at */
    HTTP_MAX_CONNECTIONS = 32 << 10
};

struct field {
    const char *name, *value;
    struct field *next;
};

struct fields {
    struct field *first, *last;
};

/* ---- workers.c: the threads that run handlers and steps -------------------- */

enum run_state { RUN_IDLE, RUN_QUEUED, RUN_RUNNING, RUN_AGAIN };

/* What is queued, by its cost; see enum http_cost. */
enum lane { LANE_INSTANT, LANE_BRIEF, LANE_LONG, N_LANES };

struct run_queue {
    struct http_exchange *first, *last;
};

/* Threads that take what is queued in the lanes up to theirs, the cheapest first. */
struct gang {
    struct crew *crew;
    enum lane lane;
    pthread_cond_t work;
    int32_t n_idle;   /* waiting, and not called */
    int32_t n_called; /* told to look, and not awake yet */
};

struct crew {
    pthread_mutex_t lock;
    struct run_queue queues[N_LANES];
    struct gang gangs[N_LANES];
    pthread_t *threads;
    int32_t n_threads;
    bool stop;
};

/* n_threads for any work, and the reserved ones. */
bool crew_start(struct crew *crew, int32_t n_threads, struct error *err);
void crew_stop(struct crew *crew);
/* Queue the exchange unless it is; takes a reference while queued. */
void crew_run(struct crew *crew, struct http_exchange *x);

/* ---- exchange.c -------------------------------------------------------------- */

/* What a handler has to say of a request in the log. */
struct note {
    const char *name; /* a literal */
    struct slice value;
    bool is_text;
    struct note *next;
};

enum { CLIENT_NAME_SIZE = 48 };

struct http_exchange {
    struct http_server *server;
    atomic_int references;
    struct http_exchange *previous, *next; /* in server->exchanges */

    /* The request; fixed once the workers have it. */
    struct arena arena;
    enum http_method method;
    bool is_head;
    struct slice raw_target; /* as sent */
    struct slice path, route_path;
    struct fields headers, query, params;
    struct str body;
    const struct http_route *route; /* NULL: answered by what the head says */
    const char *method_text;        /* as sent, for the log */
    char client[CLIENT_NAME_SIZE];  /* its address */
    uint64_t t_begin_us;            /* when its head was read; 0: it was not */
    struct note *notes;

    /* The actor; run belongs to crew->lock, the rest to the running worker. */
    enum run_state run;
    struct http_exchange *queue_next;
    bool handled, finished;
    http_step *step;
    void *state;
    void (*release)(void *state);

    pthread_mutex_t lock;          /* guards what follows */
    struct connection *connection; /* NULL once it is done with us */
    bool with_workers;             /* from when the workers have it */
    bool gone;                     /* nobody reads any more */
    bool delivered;                /* all of the answer was handed to the connection */
    bool ended;                    /* the handler's side is done */
    bool abandoned;                /* ended without a whole answer */
    bool answered;                 /* status and headers are settled */
    bool streaming;
    bool dirty; /* the connection has something new to look at */
    int status;
    char content_type[96];
    struct fields answer_headers;
    struct str out; /* bytes not handed over yet start at out_begin */
    size_t out_begin;
    size_t n_answer; /* bytes of an answer given at once */
    int file_fd;     /* a static file's answer; -1: none */
    uint64_t file_begin, file_len;
    int32_t ping_s;
    uint64_t last_write_us;

    /* An inner exchange. */
    struct http_exchange *outer;
    struct http_exchange *inners, *inner_next; /* of the outer, under its lock */
    void (*done)(void *arg, int status, bool streamed, struct slice body);
    void *done_arg;
};

struct http_exchange *exchange_create(struct http_server *server);
void exchange_hold(struct http_exchange *x);
void exchange_drop(struct http_exchange *x);
/* Run the handler or the next step; a worker calls it. */
void exchange_run(struct http_exchange *x);
/* The client hung up. */
void exchange_client_gone(struct http_exchange *x);
/* Something was written: let the connection look. Under x->lock. */
void exchange_resume(struct http_exchange *x);
bool exchange_add_field(struct http_exchange *x, struct fields *list, struct slice name,
                        struct slice value);
/* A comment line if the stream was silent for long enough. */
void exchange_ping(struct http_exchange *x, uint64_t now_us);
struct slice field_find(const struct fields *list, const char *name, bool fold_case);

/* ---- request_log.c ---- */

/* Say in the log how the exchange went, at its end. */
void request_log(const struct http_exchange *x);

/* ---- admit.c: what a request's head decides ------------------------------------ */

/* Read the head into the exchange; then x->route is set, or x is answered. */
void admit_head(struct http_exchange *x, const struct head *head);
/* Answer that the body is too large. */
void admit_refuse_size(struct http_exchange *x);

/* ---- tls.c: the key and the certificate ------------------------------------------- */

struct tls {
    gnutls_certificate_credentials_t credentials; /* NULL: no TLS */
    gnutls_priority_t priorities;
};

/* Read both files, checked to be a key and the certificate that belongs to it. */
bool tls_open(struct tls *tls, const char *key_file, const char *cert_file, struct error *err);
void tls_close(struct tls *tls);

/* ---- transport.c: bytes over a socket, with TLS or without ------------------------- */

struct transport {
    int fd;
    gnutls_session_t tls; /* NULL: none */
    bool resumes;         /* a record waits in the session to be sent on */
};

/* Instead of a number of bytes. */
enum { TRANSPORT_AGAIN = -1, TRANSPORT_FAILED = -2 };

/* Takes fd over, also when it fails. */
bool transport_open(struct transport *t, int fd, const struct tls *tls);
/* 0: done. TRANSPORT_AGAIN: *wants_write says for what it waits. */
int transport_handshake(struct transport *t, bool *wants_write);
/* Bytes read, 0 at the end. */
ssize_t transport_read(struct transport *t, void *out, size_t size);
/* Bytes written. After TRANSPORT_AGAIN the next call must begin with the same. */
ssize_t transport_write(struct transport *t, const void *data, size_t len);
/* Say that nothing more is written. */
void transport_finish(struct transport *t);
/* Read what the peer still sends and forget it; bytes, 0 at the end. */
ssize_t transport_discard(struct transport *t, void *scratch, size_t size);
void transport_close(struct transport *t);

/* ---- connection.c: from accept to close ----------------------------------------------- */

enum connection_state {
    CONNECTION_HANDSHAKE,
    CONNECTION_HEAD,   /* waiting for a head, or in the middle of one */
    CONNECTION_BODY,   /* receiving, or swallowing a refused body */
    CONNECTION_WORK,   /* the exchange is with the workers */
    CONNECTION_ANSWER, /* writing */
    CONNECTION_LINGER  /* nothing more is said; what the client says is forgotten */
};

/* Belongs to the thread of its io, but for woken and woken_next, which belong to
 * io->lock. */
struct connection {
    struct http_server *server;
    char client[CLIENT_NAME_SIZE]; /* the peer's address */
    struct io *io;
    struct connection *previous, *next; /* in io->connections */
    struct transport transport;
    enum connection_state state;
    uint64_t since_us; /* since when it waits for what it waits for */
    uint32_t interest; /* the events that epoll is asked for */
    int n_turns;       /* left before others have theirs */
    bool may_read;     /* the socket has bytes, or may have some */
    bool wants_write;  /* it takes no more for now */
    bool hung_up;      /* the peer sends no more */
    bool keep;         /* another request may follow this one */
    bool finished;     /* to be closed */

    struct str in; /* read, not parsed yet; starts at in_begin */
    size_t in_begin;
    struct head head;
    struct body body;
    uint64_t n_swallowed;
    struct http_exchange *x; /* from the end of its head to the end of its answer */
    struct str out;          /* to be written; starts at out_begin */
    size_t out_begin;
    bool is_chunked, is_whole; /* the answer: framed in chunks; all of it is in out */

    bool woken;
    struct connection *woken_next;
};

/* Takes fd over. NULL: out of memory, and fd is closed. */
struct connection *connection_create(struct io *io, int fd);
/* Go as far as it goes; frees the connection when it is over. */
void connection_turn(struct connection *c, uint32_t events);
/* Close it if it has waited for too long. */
void connection_look(struct connection *c, uint64_t now_us);
void connection_close(struct connection *c);

/* ---- answer.c: how an answer is written -------------------------------------------------- */

enum answer { ANSWER_MORE, ANSWER_WAIT, ANSWER_END, ANSWER_FAILED };

/* Put the head of the settled answer into c->out. */
void answer_begin(struct connection *c);
/* Put more of the answer into c->out, which is empty. ANSWER_WAIT: its exchange
 * has to write first. ANSWER_FAILED: there is no more, and it is not whole. */
enum answer answer_fill(struct connection *c);

/* ---- io.c: the threads that move bytes ----------------------------------------------------- */

struct io {
    struct http_server *server;
    int epoll, wake;
    pthread_t thread;
    bool running;
    atomic_bool stop;
    char *block;     /* HTTP_BLOCK bytes of scratch */
    int64_t date_at; /* date is the text of that second */
    char date[40];
    struct connection *connections;

    pthread_mutex_t lock; /* guards what follows; a leaf */
    int *arrivals;        /* n_arrivals accepted sockets */
    size_t n_arrivals, arrivals_capacity;
    struct connection *first_woken, *last_woken;
    size_t n_woken;
};

bool io_start(struct http_server *server, unsigned n, struct error *err);
/* Close every connection and end the threads. */
void io_stop(struct http_server *server);
/* Hand an accepted socket over; server->n_connections counts it already. */
void io_add(struct io *io, int fd);
/* Make the connection's thread look at it. From any thread that knows that the
 * connection lives: under the lock of its exchange, or its own thread. */
void io_wake(struct connection *c);
/* Forget that it was woken. */
void io_forget(struct connection *c);

/* ---- route.c ----------------------------------------------------------------------- */

/* Decode %XX (and + as a space where plus) into the arena. False: out of memory. */
bool url_decode(struct arena *arena, struct slice text, bool plus, struct slice *out);
/* Split "path?query" and decode both. False: out of memory. */
bool target_parse(struct http_exchange *x, struct slice target);
/* The route of x->method and path, filling x->params; NULL: none. */
const struct http_route *route_find(const struct http_server *server, struct http_exchange *x,
                                    enum http_method method, struct slice path);

/* ---- cors.c, keys.c, statics.c, listen.c -------------------------------------- */

/* Settings of the front, copied. */
struct front {
    struct arena arena;
    const char *prefix;
    struct slice *keys;
    size_t n_keys;
    const char *cors_origins, *cors_methods, *cors_headers;
    bool cors_credentials;
    char *static_root; /* canonical, without a slash at its end; NULL: none; malloc'd */
};

/* Add the headers of every answer, and those of a preflight. */
void cors_headers(struct http_exchange *x, const struct front *front, bool preflight);
bool origin_is_localhost(struct slice origin);

bool key_is_valid(const struct front *front, struct http_exchange *x);

bool statics_open(struct front *front, const char *folder, struct error *err);
/* Answer with the file of x->route_path, if there is one. */
bool statics_answer(const struct front *front, struct http_exchange *x);

/* A listening, non-blocking socket. *address receives a malloc'd description. */
int listen_open(const struct http_settings *settings, int32_t *port, char **address,
                struct error *err);

/* ---- accept.c: the thread that takes new connections ------------------------------------- */

struct acceptor {
    int wake;
    pthread_t thread;
    bool running;
    atomic_bool stop;
};

/* Hand what arrives at server->listen_fd to the threads of io.c, which must run. */
bool accept_start(struct http_server *server, struct error *err);
/* From here on new connections are refused; those handed over go on. */
void accept_stop(struct http_server *server);

/* ---- server.c ------------------------------------------------------------------------------ */

struct http_server {
    struct front front;
    const struct http_route *routes;
    size_t n_routes;
    http_error_shape *shape_error;
    void *context;
    size_t max_body;
    int32_t timeout_s;

    int listen_fd;
    unsigned max_connections;
    int32_t port;
    char *address;
    char *socket_path; /* to unlink; NULL: none */
    struct tls tls;
    atomic_bool ready, stopping, closing;

    struct crew crew;
    struct io *ios;
    unsigned n_ios;
    struct acceptor acceptor;
    atomic_size_t n_connections;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    struct http_exchange *exchanges;
    size_t n_exchanges;
};

#endif
