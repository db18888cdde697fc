/* streams.c - streams that outlive their connection: kept by conversation, read
 * again from any event on.
 *
 * A conversation has one session at most; it holds the last STREAM_BYTES of its
 * stream, from the beginning of an event on, and is forgotten some minutes after
 * the stream's end. */
#include "api/internal.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
    STREAM_BYTES = 4 << 20,
    STREAM_TTL_S = 300,
    STREAM_MAX_SESSIONS = 1024,
    STREAM_ID_MAX = 1024
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
    int references;
    char *id;
    int64_t started_at, ended_at; /* unix seconds; ended_at 0 while it runs */
    struct str bytes;
    uint64_t n_dropped; /* bytes before the first kept one, always whole events */
    bool cancelled;
    struct streams *streams;
    struct http_exchange *producer;
    struct stream_reader *readers;
};

struct streams {
    pthread_mutex_t lock; /* guards all sessions */
    struct stream_session *sessions;
    size_t n_sessions;
};

struct streams *streams_create(void)
{
    struct streams *streams = calloc(1, sizeof *streams);
    if (streams)
        pthread_mutex_init(&streams->lock, NULL);
    return streams;
}

/* ---- under the lock ---------------------------------------------------------------- */

static void drop(struct stream_session *s)
{
    if (--s->references > 0)
        return;
    free(s->id);
    str_free(&s->bytes);
    free(s);
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
    if (!s->ended_at)
        s->ended_at = clock_unix_seconds();
    wake_all(s);
}

/* Take it out of the list, and end it. */
static void forget(struct streams *streams, struct stream_session *s, bool cancel)
{
    struct stream_session **at = &streams->sessions;
    while (*at && *at != s)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = s->next;
    streams->n_sessions--;
    finish(s, cancel);
    drop(s);
}

static void forget_old(struct streams *streams)
{
    int64_t now = clock_unix_seconds();
    struct stream_session *oldest = NULL;
    for (struct stream_session *s = streams->sessions, *next; s; s = next) {
        next = s->next;
        if (s->ended_at && s->ended_at + STREAM_TTL_S <= now)
            forget(streams, s, false);
        else if (s->ended_at && (!oldest || s->ended_at <= oldest->ended_at))
            oldest = s;
    }
    if (oldest && streams->n_sessions >= STREAM_MAX_SESSIONS)
        forget(streams, oldest, false);
}

static struct stream_session *find(struct streams *streams, struct slice id)
{
    for (struct stream_session *s = streams->sessions; s; s = s->next)
        if (slice_equal_text(id, s->id))
            return s;
    return NULL;
}

/* Where the first event at or after offset begins: *out, within bytes. False
 * when its beginning has not arrived yet. */
static bool align(const struct stream_session *s, uint64_t offset, size_t *out)
{
    if (offset <= s->n_dropped) {
        *out = 0;
        return true;
    }
    if (offset - s->n_dropped > s->bytes.len)
        return false;
    for (size_t at = (size_t)(offset - s->n_dropped); at <= s->bytes.len; at++) {
        if (at >= 2 && s->bytes.data[at - 1] == '\n' && s->bytes.data[at - 2] == '\n') {
            *out = at;
            return true;
        }
    }
    return false;
}

/* ---- the producer's side ---------------------------------------------------------------- */

void streams_free(struct streams *streams)
{
    if (!streams)
        return;
    pthread_mutex_lock(&streams->lock);
    while (streams->sessions)
        forget(streams, streams->sessions, true);
    pthread_mutex_unlock(&streams->lock);
    pthread_mutex_destroy(&streams->lock);
    free(streams);
}

struct stream_session *streams_begin(struct streams *streams, struct slice id)
{
    if (id.len > STREAM_ID_MAX)
        id.len = STREAM_ID_MAX;
    struct stream_session *s = calloc(1, sizeof *s);
    if (!s || !(s->id = slice_duplicate(id))) {
        free(s);
        return NULL;
    }
    s->references = 2; /* the list's and the producer's */
    s->started_at = clock_unix_seconds();
    s->streams = streams;
    pthread_mutex_lock(&streams->lock);
    forget_old(streams);
    struct stream_session *earlier = find(streams, id);
    if (earlier)
        forget(streams, earlier, true);
    s->next = streams->sessions;
    streams->sessions = s;
    streams->n_sessions++;
    pthread_mutex_unlock(&streams->lock);
    return s;
}

void stream_session_write(struct stream_session *s, struct slice bytes)
{
    pthread_mutex_lock(&s->streams->lock);
    if (!s->ended_at && str_append_slice(&s->bytes, bytes)) {
        if (s->bytes.len > STREAM_BYTES) {
            size_t cut = s->bytes.len - STREAM_BYTES;
            while (cut < s->bytes.len &&
                   !(s->bytes.data[cut - 1] == '\n' && cut >= 2 && s->bytes.data[cut - 2] == '\n'))
                cut++;
            str_drop_front(&s->bytes, cut);
            s->n_dropped += cut;
        }
        wake_all(s);
    }
    pthread_mutex_unlock(&s->streams->lock);
}

void stream_session_end(struct streams *streams, struct stream_session *s, bool evict)
{
    pthread_mutex_lock(&streams->lock);
    finish(s, false);
    if (evict)
        forget(streams, s, false);
    drop(s);
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

/* ---- GET /v1/stream ------------------------------------------------------------------------ */

static void reader_step(struct http_exchange *x, void *state)
{
    struct stream_reader *r = state;
    struct stream_session *s = r->session;
    struct str piece = {0};
    if (http_client_gone(x)) {
        http_abandon(x);
        return;
    }
    if (!r->begun)
        http_stream_begin(x, 200, "text/event-stream", -1);
    r->begun = true;
    pthread_mutex_lock(&r->streams->lock);
    size_t begin;
    bool lost = r->aligned && r->offset < s->n_dropped;
    if (!r->aligned && align(s, r->offset, &begin)) {
        r->offset = s->n_dropped + begin;
        r->aligned = true;
    }
    if (r->aligned && !lost) {
        str_append_slice(&piece,
                         slice_from(str_slice(&s->bytes), (size_t)(r->offset - s->n_dropped)));
        r->offset = s->n_dropped + s->bytes.len;
    }
    bool ended = s->ended_at != 0;
    pthread_mutex_unlock(&r->streams->lock);
    if (piece.failed) {
        http_abandon(x); /* no memory: not the stream's end */
        return;
    }
    if (piece.len > 0)
        http_write(x, str_slice(&piece));
    str_free(&piece);
    if (ended || lost || http_is_stopping(x))
        http_stream_end(x);
}

static void reader_release(void *state)
{
    struct stream_reader *r = state;
    pthread_mutex_lock(&r->streams->lock);
    struct stream_reader **at = &r->session->readers;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    drop(r->session);
    pthread_mutex_unlock(&r->streams->lock);
    free(r);
}

static bool read_offset(struct slice text, uint64_t *out)
{
    char *end;
    *out = 0;
    if (text.len == 0)
        return true;
    if (text.data[0] < '0' || text.data[0] > '9')
        return false;
    *out = strtoull(text.data, &end, 10);
    return true;
}

void handle_stream_read(struct http_exchange *x, void *context)
{
    struct streams *streams = ((struct api *)context)->streams;
    struct slice id = http_query(x, "conv_id");
    uint64_t from;
    if (id.len == 0) {
        reply_failure(x, FAIL_INVALID, "Missing conversation id in path");
        return;
    }
    if (!read_offset(http_query(x, "from"), &from)) {
        reply_failure(x, FAIL_INVALID, "Invalid 'from' offset");
        return;
    }
    struct stream_reader *r = calloc(1, sizeof *r);
    if (!r) {
        reply_failure(x, FAIL_SERVER, "out of memory");
        return;
    }
    pthread_mutex_lock(&streams->lock);
    forget_old(streams);
    struct stream_session *s = find(streams, id);
    bool lost = s && from < s->n_dropped;
    if (s && !lost) {
        *r = (struct stream_reader){.x = x, .session = s, .streams = streams, .offset = from};
        r->next = s->readers;
        s->readers = r;
        s->references++;
        http_continue(x, reader_step, r, reader_release);
    }
    pthread_mutex_unlock(&streams->lock);
    if (s && !lost)
        return;
    free(r);
    if (lost)
        reply_failure(x, FAIL_INVALID, "Stream offset lost, please restart");
    else
        reply_failure(x, FAIL_NOT_FOUND, "File Not Found");
}

void handle_stream_delete(struct http_exchange *x, void *context)
{
    struct streams *streams = ((struct api *)context)->streams;
    struct slice id = http_query(x, "conv_id");
    if (id.len == 0) {
        reply_failure(x, FAIL_INVALID, "Missing conversation id in path");
        return;
    }
    pthread_mutex_lock(&streams->lock);
    struct stream_session *s = find(streams, id);
    if (s)
        forget(streams, s, true);
    pthread_mutex_unlock(&streams->lock);
    http_reply(x, 204, "application/json", SLICE(""));
}

/* ---- POST /v1/streams/lookup ------------------------------------------------------------------
 */

/* The id itself, or the id and "::" with a model behind it. */
static bool belongs(const struct stream_session *s, struct slice id)
{
    struct slice own = slice_of(s->id), rest = slice_from(own, id.len);
    return slice_starts_with(own, id) && (rest.len == 0 || slice_starts_with(rest, SLICE("::")));
}

static json_t *session_to_json(const struct stream_session *s)
{
    json_t *o = json_object();
    put(o, "conversation_id", json_string_from(slice_of(s->id)));
    put(o, "is_done", json_boolean(s->ended_at != 0));
    put(o, "total_bytes", json_integer((json_int_t)(s->n_dropped + s->bytes.len)));
    put(o, "started_at", json_integer(s->started_at));
    put(o, "completed_at", json_integer(s->ended_at));
    return o;
}

void handle_streams_lookup(struct http_exchange *x, void *context)
{
    struct streams *streams = ((struct api *)context)->streams;
    json_t *body = body_object(x), *found, *id;
    size_t i;
    if (!body)
        return;
    found = json_array();
    pthread_mutex_lock(&streams->lock);
    forget_old(streams);
    json_array_foreach(json_object_get(body, "conversation_ids"), i, id)
    {
        struct slice text = json_slice(id);
        for (struct stream_session *s = streams->sessions; s && text.len > 0; s = s->next)
            if (belongs(s, text))
                push(found, session_to_json(s));
    }
    pthread_mutex_unlock(&streams->lock);
    json_decref(body);
    reply_json(x, found);
}
