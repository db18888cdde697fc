/* answer.c - how an answer is written: its head, then its body as one piece, in
 * chunks, or from a file. */
#include "http/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static const char *date_of(struct io *io)
{
    int64_t now = clock_unix_seconds();
    if (now == io->date_at)
        return io->date;
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)now;
    struct tm t = {0};
    gmtime_r(&seconds, &t);
    snprintf(io->date, sizeof io->date, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[t.tm_wday],
             t.tm_mday, months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    io->date_at = now;
    return io->date;
}

/* Whatever a handler puts into a header, it stays one header. */
static void append_header(struct str *out, const char *name, const char *value)
{
    for (const char *p = value; *p; p++) {
        if (framing_is_text(*p))
            continue;
        log_debug("http: header %s could not be sent", name);
        return;
    }
    str_append_text(out, name);
    str_append_text(out, ": ");
    str_append_text(out, value);
    str_append_text(out, "\r\n");
}

static bool has_body(const struct http_exchange *x)
{
    return !x->is_head && x->status >= 200 && x->status != 204 && x->status != 304;
}

/* How the client finds the end of the answer (RFC 9112, 6.3). */
static void append_framing(struct connection *c, const struct http_exchange *x)
{
    c->is_chunked = x->streaming && c->head.minor > 0;
    if (x->streaming && !c->is_chunked)
        c->keep = false;
    if (c->is_chunked)
        str_append_text(&c->out, "Transfer-Encoding: chunked\r\n");
    else if (!x->streaming && x->status != 204 && x->status != 304)
        str_append_format(&c->out, "Content-Length: %llu\r\n",
                          (unsigned long long)(x->file_fd >= 0 ? x->file_len : x->out.len));
}

void answer_begin(struct connection *c)
{
    struct http_exchange *x = c->x;
    struct str *out = &c->out;
    size_t before = out->len;
    if (atomic_load(&c->server->stopping))
        c->keep = false;
    str_append_format(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nServer: mlxcel\r\n", x->status,
                      reason_of(x->status), date_of(c->io));
    if (x->content_type[0])
        append_header(out, "Content-Type", x->content_type);
    for (const struct field *f = x->answer_headers.first; f; f = f->next)
        append_header(out, f->name, f->value);
    append_framing(c, x);
    if (!c->keep)
        str_append_text(out, "Connection: close\r\n");
    else if (c->head.minor == 0)
        str_append_text(out, "Connection: keep-alive\r\n");
    str_append_text(out, "\r\n");
    if (out->failed) /* half a head would be another answer */
        str_truncate(out, before);
    c->is_whole = !has_body(x);
}

static enum answer fill_from_file(struct connection *c, struct http_exchange *x)
{
    size_t n = x->file_len < HTTP_BLOCK ? (size_t)x->file_len : HTTP_BLOCK;
    if (n == 0)
        return ANSWER_END;
    ssize_t got = pread(x->file_fd, c->io->block, n, (off_t)x->file_begin);
    if (got <= 0 || !str_append(&c->out, c->io->block, (size_t)got))
        return ANSWER_FAILED; /* the file became shorter meanwhile */
    x->file_begin += (uint64_t)got;
    x->file_len -= (uint64_t)got;
    return ANSWER_MORE;
}

/* Under x->lock. */
static void take_block(struct connection *c, struct http_exchange *x, size_t most)
{
    size_t n = x->out.len - x->out_begin;
    if (n > most)
        n = most;
    if (c->is_chunked)
        str_append_format(&c->out, "%zx\r\n", n);
    str_append(&c->out, x->out.data + x->out_begin, n);
    if (c->is_chunked)
        str_append_text(&c->out, "\r\n");
    x->out_begin += n;
    if (x->out_begin == x->out.len) {
        str_clear(&x->out);
        x->out_begin = 0;
    }
}

static enum answer fill_from_stream(struct connection *c, struct http_exchange *x)
{
    enum answer result = ANSWER_MORE;
    pthread_mutex_lock(&x->lock);
    bool is_empty = x->out_begin == x->out.len;
    if (x->out.failed || (is_empty && x->abandoned)) {
        result = ANSWER_FAILED;
    } else if (!is_empty) {
        take_block(c, x, HTTP_STREAM_BLOCK);
    } else if (!x->ended) {
        result = ANSWER_WAIT;
    } else if (!c->is_chunked) {
        result = ANSWER_END;
    } else {
        str_append_text(&c->out, "0\r\n\r\n");
        c->is_whole = true;
    }
    pthread_mutex_unlock(&x->lock);
    return result;
}

static enum answer fill_from_reply(struct connection *c, struct http_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool is_empty = x->out_begin == x->out.len;
    if (!is_empty)
        take_block(c, x, HTTP_BLOCK);
    pthread_mutex_unlock(&x->lock);
    return is_empty ? ANSWER_END : ANSWER_MORE;
}

enum answer answer_fill(struct connection *c)
{
    struct http_exchange *x = c->x;
    enum answer result;
    if (c->out.failed)
        return ANSWER_FAILED;
    if (c->is_whole)
        return ANSWER_END;
    if (x->file_fd >= 0)
        result = fill_from_file(c, x);
    else if (x->streaming)
        result = fill_from_stream(c, x);
    else
        result = fill_from_reply(c, x);
    return c->out.failed ? ANSWER_FAILED : result;
}
