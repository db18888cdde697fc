/* stream_routes.c - kept streams read again, deleted, looked up. */
#include "api/streams.h"

#include <stdlib.h>

/* Looked up at once: each is compared with every session. */
enum { IDS_MAX = 1024 };

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
    if (!r->aligned && stream_align(s, r->offset, &begin)) {
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
        str_free(&piece);
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
    stream_drop(r->session);
    pthread_mutex_unlock(&r->streams->lock);
    free(r);
}

/* Digits and nothing else; nothing at all is 0. */
static bool read_offset(struct slice text, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)(unsigned char)text.data[i] - '0';
        if (digit > 9 || *out > (UINT64_MAX - digit) / 10)
            return false;
        *out = *out * 10 + digit;
    }
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
    struct stream_session *s = stream_find(streams, id);
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
    struct stream_session *s = stream_find(streams, id);
    if (s)
        stream_forget(streams, s, true);
    pthread_mutex_unlock(&streams->lock);
    http_reply(x, 204, "application/json", SLICE(""));
}

/* ---- POST /v1/streams/lookup ------------------------------------------------------------------
 */

/* The id itself, or the id and "::" with a model behind it. */
static bool belongs(const struct stream_session *s, struct slice id)
{
    struct slice own = {s->id, s->id_len}, rest = slice_from(own, id.len);
    return slice_starts_with(own, id) && (rest.len == 0 || slice_starts_with(rest, SLICE("::")));
}

static json_t *session_to_json(const struct stream_session *s)
{
    json_t *o = json_object();
    put(o, "conversation_id", json_string_from((struct slice){s->id, s->id_len}));
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
    if (json_array_size(json_object_get(body, "conversation_ids")) > IDS_MAX) {
        reply_failure(x, FAIL_INVALID, "\"conversation_ids\" holds more than 1024 ids");
        json_decref(body);
        return;
    }
    found = json_array();
    pthread_mutex_lock(&streams->lock);
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
