/* streams.h - what streams.c keeps and stream_routes.c answers; theirs alone. */
#ifndef MLXCEL_API_STREAMS_H
#define MLXCEL_API_STREAMS_H

#include "api/internal.h"

struct stream_limits {
    size_t n_sessions; /* finished ones go beyond it */
    size_t bytes_each; /* of a stream that are kept, from an event's beginning on */
    size_t bytes_all;  /* memory of all sessions; past it the oldest finished ones go,
                        * then the beginnings of those that run */
    uint32_t ttl_ms;   /* a finished one is kept that long */
};

struct stream_reader {
    struct http_exchange *x;
    struct stream_session *session;
    struct streams *streams;
    uint64_t offset;
    bool aligned, begun;
    struct stream_reader *next;
};

struct stream_session {
    struct stream_session *next; /* in the list, while found by its id */
    bool listed;
    int references;
    char *id; /* id_len bytes, any; owned */
    size_t id_len;
    int64_t started_at, ended_at; /* unix seconds; ended_at 0 while it runs */
    uint64_t ended_us;            /* on the monotonic clock */
    struct str bytes;
    uint64_t n_dropped; /* bytes before the first kept one, always whole events */
    size_t n_counted;   /* of its memory, in streams->n_bytes */
    bool cancelled;
    struct streams *streams;
    struct http_exchange *producer;
    struct stream_reader *readers;
};

struct streams {
    struct stream_limits limits;
    pthread_mutex_t lock; /* guards what follows, and all sessions */
    pthread_cond_t wake;  /* the janitor: a session ended, or all end */
    pthread_t janitor;    /* forgets sessions whose time is over */
    bool has_janitor, stopping;
    struct stream_session *sessions;
    size_t n_sessions, n_bytes;
};

/* NULL: out of memory, or no thread. */
struct streams *streams_create_with(const struct stream_limits *limits);

/* The rest: with the lock held. */
struct stream_session *stream_find(struct streams *streams, struct slice id);
/* Take it out of the list, and end it; cancel: its producer is told. */
void stream_forget(struct streams *streams, struct stream_session *s, bool cancel);
void stream_drop(struct stream_session *s);
/* Where the first event at or after offset begins: *out, within bytes. False when its
 * beginning has not arrived yet. */
bool stream_align(const struct stream_session *s, uint64_t offset, size_t *out);

#endif
