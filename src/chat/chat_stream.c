/* chat_stream.c - an answer piece by piece: what each piece adds. */
#include "base/random.h"
#include "base/vec.h"
#include "chat/chat_internal.h"

#include <stdlib.h>

/* ---- Differences --------------------------------------------------------- */

static void delta_free(struct chat_delta *delta)
{
    str_free(&delta->text);
    str_free(&delta->id);
    str_free(&delta->name);
}

void chat_deltas_free(struct chat_deltas *deltas)
{
    for (size_t i = 0; i < deltas->n; i++)
        delta_free(&deltas->data[i]);
    free(deltas->data);
    *deltas = (struct chat_deltas){0};
}

/* Takes the delta over. */
static bool add(struct chat_deltas *out, struct chat_delta *delta)
{
    bool ok =
        !delta->text.failed && !delta->id.failed && !delta->name.failed && VEC_PUSH(out, *delta);
    if (!ok)
        delta_free(delta);
    return ok;
}

/* What after adds to before. A text may also take back its end: a stop word
 * that was shown in part; nothing is added then. */
static bool added(const struct str *before, const struct str *after, struct slice *out)
{
    struct slice a = str_slice(before), b = str_slice(after);
    *out = SLICE("");
    if (slice_starts_with(b, a)) {
        *out = slice_from(b, a.len);
        return true;
    }
    return slice_starts_with(a, b);
}

static bool diff_text(enum chat_delta_kind kind, const struct str *before, const struct str *after,
                      struct chat_deltas *out, struct error *err)
{
    struct slice more;
    if (!added(before, after, &more))
        return error_set(err, ERR_INTERNAL, "the answer so far changed while it was streamed");
    if (slice_equal(str_slice(before), str_slice(after)))
        return true;
    struct chat_delta delta = {.kind = kind};
    str_append_slice(&delta.text, more);
    return add(out, &delta) || error_memory(err);
}

/* The last call both have may have grown. */
static bool diff_call(const struct chat_tool_call *before, const struct chat_tool_call *after,
                      size_t index, struct chat_deltas *out, struct error *err)
{
    struct slice more;
    bool renamed = !slice_equal(str_slice(&before->name), str_slice(&after->name)) ||
                   !slice_equal(str_slice(&before->id), str_slice(&after->id));
    if (!slice_starts_with(str_slice(&after->name), str_slice(&before->name)) ||
        !added(&before->arguments, &after->arguments, &more))
        return error_set(err, ERR_INTERNAL, "a tool call changed while it was streamed");
    if (more.len == 0 && !renamed)
        return true;
    struct chat_delta delta = {.kind = CHAT_DELTA_TOOL_CALL, .tool_index = index};
    str_append_slice(&delta.text, more);
    if (renamed) {
        str_append_slice(&delta.id, str_slice(&after->id));
        str_append_slice(&delta.name, str_slice(&after->name));
    }
    return add(out, &delta) || error_memory(err);
}

bool chat_message_diff(const struct chat_message *before, const struct chat_message *after,
                       struct chat_deltas *out, struct error *err)
{
    if (!diff_text(CHAT_DELTA_REASONING, &before->reasoning_content, &after->reasoning_content, out,
                   err) ||
        !diff_text(CHAT_DELTA_CONTENT, &before->content, &after->content, out, err))
        return false;
    size_t n = before->n_tool_calls;
    if (after->n_tool_calls < n)
        return error_set(err, ERR_INTERNAL, "a tool call was taken back while it was streamed");
    if (n > 0 && !diff_call(&before->tool_calls[n - 1], &after->tool_calls[n - 1], n - 1, out, err))
        return false;
    for (size_t i = n; i < after->n_tool_calls; i++) {
        const struct chat_tool_call *call = &after->tool_calls[i];
        struct chat_delta delta = {.kind = CHAT_DELTA_TOOL_CALL, .tool_index = i};
        str_append_slice(&delta.text, str_slice(&call->arguments));
        str_append_slice(&delta.id, str_slice(&call->id));
        str_append_slice(&delta.name, str_slice(&call->name));
        if (!add(out, &delta))
            return error_memory(err);
    }
    return true;
}

void chat_random_id(char out[33])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char bytes[32];
    random_bytes(bytes, sizeof bytes);
    for (int i = 0; i < 32; i++)
        out[i] = letters[bytes[i] % (sizeof letters - 1)];
    out[32] = '\0';
}

/* ---- Streams ------------------------------------------------------------- */

struct call_state {
    char id[33];
    bool announced; /* its name and id were given */
};

struct chat_stream {
    struct chat_parser *parser;
    struct chat_stream_settings settings;
    struct str text; /* generated so far */
    struct chat_message message;
    struct call_state *calls;
    size_t n_calls, calls_capacity;
};

struct chat_stream *chat_stream_create(struct chat_parser *parser,
                                       const struct chat_stream_settings *settings)
{
    struct chat_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->parser = chat_parser_keep(parser);
    stream->settings = *settings;
    /* What the prompt holds of the answer was not generated. */
    if (settings->is_continuation && !settings->echo)
        chat_parse(parser, SLICE(""), true, &stream->message, NULL);
    return stream;
}

void chat_stream_free(struct chat_stream *stream)
{
    if (!stream)
        return;
    chat_parser_release(stream->parser);
    str_free(&stream->text);
    chat_message_free(&stream->message);
    free(stream->calls);
    free(stream);
}

const struct chat_message *chat_stream_message(const struct chat_stream *stream)
{
    return &stream->message;
}

/* A call keeps the id it first had, its own or a random one. */
static bool set_ids(struct chat_stream *stream, struct chat_message *message)
{
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        struct str *id = &message->tool_calls[i].id;
        if (i >= stream->n_calls) {
            struct call_state state = {.announced = false};
            if (id->len == 0)
                chat_random_id(state.id);
            if (!vec_reserve((void **)&stream->calls, &stream->calls_capacity, stream->n_calls, 1,
                             sizeof *stream->calls))
                return false;
            stream->calls[stream->n_calls++] = state;
        }
        if (stream->calls[i].id[0]) {
            str_clear(id);
            if (!str_append_text(id, stream->calls[i].id))
                return false;
        }
    }
    return true;
}

static bool announce(struct chat_stream *stream, size_t i, struct chat_deltas *out)
{
    const struct chat_tool_call *call = &stream->message.tool_calls[i];
    struct chat_delta delta = {.kind = CHAT_DELTA_TOOL_CALL, .tool_index = i};
    str_append_slice(&delta.id, str_slice(&call->id));
    str_append_slice(&delta.name, str_slice(&call->name));
    stream->calls[i].announced = true;
    return add(out, &delta);
}

/* The calls that have a name but were not shown yet, except one. */
static bool announce_others(struct chat_stream *stream, size_t except, struct chat_deltas *out)
{
    for (size_t i = 0; i < stream->message.n_tool_calls; i++)
        if (i != except && !stream->calls[i].announced && stream->message.tool_calls[i].name.len &&
            !announce(stream, i, out))
            return false;
    return true;
}

/* A call's name and id come with its first arguments, or when something else
 * follows: until then the name may still grow. */
static bool merge_headers(struct chat_stream *stream, struct chat_deltas *all, bool last,
                          struct chat_deltas *out)
{
    for (size_t k = 0; k < all->n; k++) {
        struct chat_delta delta = all->data[k];
        all->data[k] = (struct chat_delta){0};
        bool is_call = delta.kind == CHAT_DELTA_TOOL_CALL;
        size_t except = is_call && delta.text.len == 0 ? delta.tool_index
                        : is_call                      ? delta.tool_index
                                                       : SIZE_MAX;
        if (!announce_others(stream, except, out)) {
            delta_free(&delta);
            return false;
        }
        if (is_call) {
            struct call_state *state = &stream->calls[delta.tool_index];
            const struct chat_tool_call *call = &stream->message.tool_calls[delta.tool_index];
            bool show = delta.text.len > 0 || (last && !state->announced);
            str_clear(&delta.id);
            str_clear(&delta.name);
            if (show && !state->announced) {
                str_append_slice(&delta.id, str_slice(&call->id));
                str_append_slice(&delta.name, str_slice(&call->name));
                state->announced = true;
            }
            if (!show) {
                delta_free(&delta);
                continue;
            }
        }
        if (!add(out, &delta))
            return false;
    }
    return !last || announce_others(stream, SIZE_MAX, out);
}

/* A text that was shown longer than it turned out stays as it was shown. */
static void keep_longer(struct str *next, struct str *shown)
{
    if (shown->len <= next->len)
        return;
    struct str swap = *next;
    *next = *shown;
    *shown = swap;
}

static bool is_empty(const struct chat_message *message)
{
    return message->content.len == 0 && message->reasoning_content.len == 0 &&
           message->n_tool_calls == 0;
}

bool chat_stream_add(struct chat_stream *stream, struct slice text, bool last,
                     struct chat_deltas *deltas, struct error *err)
{
    struct chat_message next = {0};
    struct chat_deltas found = {0};
    if (!str_append_slice(&stream->text, text))
        return error_memory(err);
    if (!chat_parse(stream->parser, str_slice(&stream->text), !last, &next, err)) {
        chat_message_free(&next);
        return false;
    }
    if (is_empty(&next)) {
        chat_message_free(&next);
        return true;
    }
    struct error reason = {0};
    bool ok = set_ids(stream, &next) || error_memory(&reason);
    ok = ok && chat_message_diff(&stream->message, &next, &found, &reason);
    if (!ok) {
        chat_message_free(&next);
        chat_deltas_free(&found);
        /* What was sent cannot be taken back: a call that turned out to be none
         * stays as it was shown, and the answer goes on from there. */
        if (reason.code == ERR_INTERNAL)
            return true;
        if (err)
            *err = reason;
        return false;
    }
    keep_longer(&next.content, &stream->message.content);
    keep_longer(&next.reasoning_content, &stream->message.reasoning_content);
    for (size_t i = 0; i < next.n_tool_calls && i < stream->message.n_tool_calls; i++)
        keep_longer(&next.tool_calls[i].arguments, &stream->message.tool_calls[i].arguments);
    chat_message_free(&stream->message);
    stream->message = next;
    if (stream->settings.merge_tool_headers)
        ok = merge_headers(stream, &found, last, deltas);
    for (size_t i = 0; !stream->settings.merge_tool_headers && ok && i < found.n; i++) {
        struct chat_delta delta = found.data[i];
        found.data[i] = (struct chat_delta){0};
        ok = add(deltas, &delta);
    }
    chat_deltas_free(&found);
    return ok || error_memory(err);
}
