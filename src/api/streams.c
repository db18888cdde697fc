/* streams.c - streams that outlive their connection, kept by conversation.
 *
 * A conversation has one session at most; it holds the end of its stream, from the
 * beginning of an event on, and is forgotten some minutes after the stream's end. All
 * together have a limit in bytes. */
#include "api/streams.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static const struct stream_limits usual = {
    .n_sessions = 1024,
    .bytes_each = 4 << 20,
    .bytes_all = 64 << 20,
    .ttl_ms = 300 * 1000,
};

/* ---- under the lock ---------------------------------------------------------------- */

static void count_bytes(struct stream_session *s)
{
    size_t n = sizeof *s + s->id_len + s->bytes.capacity;
    s->streams->n_bytes += n - s->n_counted;
    s->n_counted = n;
}

static void drop_references(struct stream_session *s, int n)
{
    s->references -= n;
    if (s->references > 0)
        return;
    s->streams->n_bytes -= s->n_counted;
    free(s->id);
    str_free(&s->bytes);
    free(s);
}

void stream_drop(struct stream_session *s)
{
    drop_references(s, 1);
}

static void wake_all(struct stream_session *s)
{
    for (struct stream_reader *r = s->readers; r; r = r->next)
        http_wake(r->x);
}

static void finish(struct stream_session *s, bool cancel)
{
    if (cancel && !s->cancelled && !s->ended_at) {
        s->cancelled = true;
        if (s->producer)
            http_wake(s->producer);
    }
    if (!s->ended_at) {
        s->ended_at = clock_unix_seconds();
        s->ended_us = clock_monotonic_us();
        str_shrink(&s->bytes); /* nothing will be added */
        count_bytes(s);
        pthread_cond_signal(&s->streams->wake);
    }
    wake_all(s);
}

/* Out of the list, whose reference is the caller's now; false: it was not in it. */
static bool take_out(struct streams *streams, struct stream_session *s)
{
    if (!s->listed)
        return false;
    struct stream_session **at = &streams->sessions;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->listed = false;
    streams->n_sessions--;
    return true;
}

void stream_forget(struct streams *streams, struct stream_session *s, bool cancel)
{
    if (!take_out(streams, s))
        return;
    finish(s, cancel);
    stream_drop(s);
}

struct stream_session *stream_find(struct streams *streams, struct slice id)
{
    for (struct stream_session *s = streams->sessions; s; s = s->next)
        if (slice_equal(id, (struct slice){s->id, s->id_len}))
            return s;
    return NULL;
}

static bool begins_event(const struct str *bytes, size_t at)
{
    return at >= 2 && bytes->data[at - 1] == '\n' && bytes->data[at - 2] == '\n';
}

bool stream_align(const struct stream_session *s, uint64_t offset, size_t *out)
{
    if (offset <= s->n_dropped) {
        *out = 0;
        return true;
    }
    if (offset - s->n_dropped > s->bytes.len)
        return false;
    for (size_t at = (size_t)(offset - s->n_dropped); at <= s->bytes.len; at++) {
        if (begins_event(&s->bytes, at)) {
            *out = at;
            return true;
        }
    }
    return false;
}

/* Keep at most n bytes, from the beginning of an event on. */
static void drop_front(struct stream_session *s, size_t n)
{
    if (s->bytes.len <= n)
        return;
    size_t cut = s->bytes.len - n;
    while (cut < s->bytes.len && !begins_event(&s->bytes, cut))
        cut++;
    str_drop_front(&s->bytes, cut);
    s->n_dropped += cut;
}

/* ---- limits ------------------------------------------------------------------------ */

static struct stream_session *oldest_finished(const struct streams *streams)
{
    struct stream_session *oldest = NULL;
    for (struct stream_session *s = streams->sessions; s; s = s->next)
        if (s->ended_at && (!oldest || s->ended_us <= oldest->ended_us))
            oldest = s;
    return oldest;
}

static struct stream_session *largest(const struct streams *streams)
{
    struct stream_session *found = NULL;
    for (struct stream_session *s = streams->sessions; s; s = s->next)
        if (!found || s->bytes.capacity > found->bytes.capacity)
            found = s;
    return found;
}

/* Back within the limits, as far as that is possible. */
static void keep_limits(struct streams *streams)
{
    while (streams->n_sessions > streams->limits.n_sessions ||
           streams->n_bytes > streams->limits.bytes_all) {
        struct stream_session *s = oldest_finished(streams);
        if (s) {
            stream_forget(streams, s, false);
            continue;
        }
        s = largest(streams);
        if (streams->n_bytes <= streams->limits.bytes_all || !s || s->bytes.len == 0)
            return;
        size_t before = s->n_counted;
        drop_front(s, s->bytes.len / 2);
        str_shrink(&s->bytes);
        count_bytes(s);
        if (s->n_counted >= before)
            return;
        wake_all(s); /* who reads what is gone now must end */
    }
}

/* Forget those whose time is over; when the next one's will be, or 0: none. */
static uint64_t forget_expired(struct streams *streams)
{
    uint64_t ttl_us = (uint64_t)streams->limits.ttl_ms * 1000, now = clock_monotonic_us();
    struct stream_session *s;
    while ((s = oldest_finished(streams)) && s->ended_us + ttl_us <= now)
        stream_forget(streams, s, false);
    return s ? s->ended_us + ttl_us : 0;
}

static void *be_janitor(void *arg)
{
    struct streams *streams = arg;
    pthread_mutex_lock(&streams->lock);
    while (!streams->stopping) {
        uint64_t next_us = forget_expired(streams);
        struct timespec until = {.tv_sec = (time_t)(next_us / 1000000),
                                 .tv_nsec = (long)(next_us % 1000000) * 1000};
        if (next_us)
            pthread_cond_timedwait(&streams->wake, &streams->lock, &until);
        else
            pthread_cond_wait(&streams->wake, &streams->lock);
    }
    pthread_mutex_unlock(&streams->lock);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------- */

struct streams *streams_create(void)
{
    return streams_create_with(&usual);
}

struct streams *streams_create_with(const struct stream_limits *limits)
{
    struct streams *streams = calloc(1, sizeof *streams);
    if (!streams)
        return NULL;
    streams->limits = *limits;
    pthread_mutex_init(&streams->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&streams->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    streams->has_janitor = pthread_create(&streams->janitor, NULL, be_janitor, streams) == 0;
    if (streams->has_janitor)
        return streams;
    streams_free(streams);
    return NULL;
}

void streams_free(struct streams *streams)
{
    if (!streams)
        return;
    pthread_mutex_lock(&streams->lock);
    streams->stopping = true;
    pthread_cond_signal(&streams->wake);
    while (streams->sessions)
        stream_forget(streams, streams->sessions, true);
    pthread_mutex_unlock(&streams->lock);
    if (streams->has_janitor)
        pthread_join(streams->janitor, NULL);
    pthread_cond_destroy(&streams->wake);
    pthread_mutex_destroy(&streams->lock);
    free(streams);
}

/* ---- the producer's side ------------------------------------------------------------ */

struct stream_session *streams_begin(struct streams *streams, struct slice id)
{
    struct stream_session *s = calloc(1, sizeof *s);
    if (!s || !(s->id = slice_duplicate(id))) {
        free(s);
        return NULL;
    }
    s->id_len = id.len;
    s->references = 2; /* the list's and the producer's */
    s->started_at = clock_unix_seconds();
    s->streams = streams;
    pthread_mutex_lock(&streams->lock);
    struct stream_session *earlier = stream_find(streams, id);
    if (earlier)
        stream_forget(streams, earlier, true);
    s->next = streams->sessions;
    s->listed = true;
    streams->sessions = s;
    streams->n_sessions++;
    count_bytes(s);
    keep_limits(streams);
    pthread_mutex_unlock(&streams->lock);
    return s;
}

void stream_session_write(struct stream_session *s, struct slice bytes)
{
    struct streams *streams = s->streams;
    size_t limit = streams->limits.bytes_each;
    pthread_mutex_lock(&streams->lock);
    if (!s->ended_at && str_append_slice(&s->bytes, bytes)) {
        /* Some at once: what stays is moved. */
        if (s->bytes.len > limit + limit / 8)
            drop_front(s, limit);
        count_bytes(s);
        keep_limits(streams);
        wake_all(s);
    }
    pthread_mutex_unlock(&streams->lock);
}

void stream_session_end(struct streams *streams, struct stream_session *s, bool evict)
{
    pthread_mutex_lock(&streams->lock);
    finish(s, false);
    drop_references(s, 1 + (evict && take_out(streams, s)));
    pthread_mutex_unlock(&streams->lock);
}

bool stream_session_cancelled(struct stream_session *s)
{
    pthread_mutex_lock(&s->streams->lock);
    bool cancelled = s->cancelled;
    pthread_mutex_unlock(&s->streams->lock);
    return cancelled;
}

void stream_session_watch(struct stream_session *s, struct http_exchange *x)
{
    pthread_mutex_lock(&s->streams->lock);
    s->producer = x;
    pthread_mutex_unlock(&s->streams->lock);
}
