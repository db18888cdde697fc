/* internal.h - what the files of this room share.
 *
 * Locks, in the order they may be taken: server->lock, exchange->lock, then
 * libmicrohttpd's own; crew->lock is a leaf and never held while calling out.
 *
 * References of an exchange: one of its connection, one of its handler (until it
 * ended), one while queued or run, one of each inner exchange. */
#ifndef MLXCEL_HTTP_INTERNAL_H
#define MLXCEL_HTTP_INTERNAL_H

#include "http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_MAX_HEAD = 16 << 10,     /* request line and headers; past it: 431 */
    HTTP_POOL = 48 << 10,         /* libmicrohttpd's memory for one connection */
    HTTP_STREAM_BLOCK = 16 << 10, /* most bytes of a stream in one chunk */
    HTTP_MAX_UNREAD = 32 << 20,   /* a reader that far behind is given up */
    HTTP_SWALLOW = 8 << 20,       /* of a refused body, so that the answer arrives */
    HTTP_WATCH_MS = 200,          /* the watcher's period */
    HTTP_MAX_CONNECTIONS = 32 << 10
};

struct field {
    const char *name, *value;
    struct field *next;
};

/* ---- workers.c: the threads that run handlers and steps -------------------- */

enum run_state { RUN_IDLE, RUN_QUEUED, RUN_RUNNING, RUN_AGAIN };

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t *threads;
    int32_t n_threads;
    struct http_exchange *first, *last; /* queued */
    bool stop;
};

bool crew_start(struct crew *crew, int32_t n_threads, struct error *err);
void crew_stop(struct crew *crew);
/* Queue the exchange unless it is; takes a reference while queued. */
void crew_run(struct crew *crew, struct http_exchange *x);

/* ---- exchange.c -------------------------------------------------------------- */

enum phase {
    PHASE_HEAD, /* the head is not judged yet */
    PHASE_BODY, /* receiving, or swallowing a refused body */
    PHASE_WORK, /* with the workers */
    PHASE_SENT  /* the answer is libmicrohttpd's */
};

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
    struct field *headers, *query, *params;
    struct str body;
    bool oversized;
    uint64_t n_swallowed;
    const struct http_route *route;

    /* Only the thread that runs the connection, then only the workers. */
    enum phase phase;
    struct connection *place;

    /* The actor; run belongs to crew->lock, the rest to the running worker. */
    enum run_state run;
    struct http_exchange *queue_next;
    bool handled, finished;
    http_step *step;
    void *state;
    void (*release)(void *state);

    pthread_mutex_t lock;              /* guards what follows */
    struct MHD_Connection *connection; /* NULL once it is done with us */
    bool suspended;
    bool with_workers; /* from PHASE_WORK on, if it got there */
    bool gone;         /* nobody reads any more */
    bool ended;        /* the handler's side is done */
    bool abandoned;    /* ended without a whole answer */
    bool answered;     /* status and headers are settled */
    bool streaming;
    bool dirty; /* the connection has something new to look at */
    int status;
    char content_type[96];
    struct field *answer_headers;
    struct str out; /* bytes not handed over yet start at out_begin */
    size_t out_begin;
    size_t n_answer; /* bytes of an answer given at once */
    int file_fd; /* a static file's answer; -1: none */
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
bool exchange_add_field(struct http_exchange *x, struct field **list, struct slice name,
                        struct slice value);
/* A comment line if the stream was silent for long enough. */
void exchange_ping(struct http_exchange *x, uint64_t now_us);
struct slice field_find(const struct field *list, const char *name, bool fold_case);

/* ---- connection.c: libmicrohttpd's callbacks ------------------------------------ */

/* A connection, from accept to close. Under server->lock. */
struct connection {
    struct connection *previous, *next;
    int fd;
    uint64_t since_us;             /* since when it waits for what it waits for */
    bool receiving;                /* waiting for a head or a body */
    bool hung_up;                  /* the peer sends no more */
    struct http_exchange *working; /* the one with the workers; told of a hang-up */
};

void *connection_target(void *cls, const char *target, struct MHD_Connection *connection);
enum MHD_Result connection_access(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **con_cls);
void connection_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                          enum MHD_RequestTerminationCode code);
void connection_notify(void *cls, struct MHD_Connection *connection, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);
/* Leave percent escapes alone: we decode ourselves, NUL and all. */
size_t connection_keep_escapes(void *cls, struct MHD_Connection *connection, char *text);

/* ---- route.c ----------------------------------------------------------------------- */

/* Decode %XX (and + as a space where plus) into the arena. False: out of memory. */
bool url_decode(struct arena *arena, struct slice text, bool plus, struct slice *out);
/* Split "path?query" and decode both. False: out of memory. */
bool target_parse(struct http_exchange *x, struct slice target);
/* The route of x->method and path, filling x->params; NULL: none. */
const struct http_route *route_find(const struct http_server *server, struct http_exchange *x,
                                    enum http_method method, struct slice path);

/* ---- cors.c, keys.c, statics.c, listen.c, tls.c -------------------------------------- */

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

/* The PEM texts, checked to be a key and the certificate that belongs to it. */
bool tls_load(const char *key_file, const char *cert_file, struct str *key, struct str *cert,
              struct error *err);

/* ---- watch.c: hang-ups, pings, slow clients ---------------------------------------------- */

struct watch {
    int epoll, wake;
    pthread_t thread;
    bool running;
    atomic_bool stop;
};

bool watch_start(struct http_server *server, struct error *err);
void watch_stop(struct http_server *server);
/* Notice when the peer of place hangs up; under server->lock. */
void watch_add(struct http_server *server, struct connection *place);
void watch_remove(struct http_server *server, struct connection *place);

/* ---- accept.c: the thread that takes new connections ------------------------------------- */

struct acceptor {
    int wake;
    pthread_t thread;
    bool running;
    atomic_bool stop;
};

/* Hand what arrives at server->listen_fd to the daemon, which must run. */
bool accept_start(struct http_server *server, struct error *err);
/* From here on new connections are refused; those handed over go on. */
void accept_stop(struct http_server *server);

/* ---- server.c ------------------------------------------------------------------------------ */

struct http_server {
    struct front front;
    const struct http_route *routes;
    size_t n_routes;
    void *context;
    size_t max_body;
    int32_t timeout_s;

    int listen_fd;
    unsigned max_connections;
    int32_t port;
    char *address;
    char *socket_path; /* to unlink; NULL: none */
    struct MHD_Daemon *daemon;
    atomic_bool ready, stopping, closing;

    struct crew crew;
    struct watch watch;
    struct acceptor acceptor;
    atomic_size_t n_connections;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    struct connection *connections;
    struct connection **by_fd;
    size_t n_by_fd;
    struct http_exchange *exchanges;
    size_t n_exchanges;
};

#endif
