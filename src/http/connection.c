/* connection.c - a connection from accept to close: heads and bodies in, one
 * exchange at a time, its answer out, and the next.
 *
 * Nothing here waits. A connection goes as far as it can; then its thread sleeps
 * until the socket has more, takes more, or the exchange wrote something. While
 * an exchange works nothing is read, so that a client that sends on fills its own
 * socket and not our memory; only its end is looked for. */
#include "http/internal.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

enum { TURNS = 16 }; /* steps of one connection before others have theirs */

/* The peer's address, for the log. */
static void name_client(int fd, char *name)
{
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    const void *address = NULL;
    if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0) {
        if (peer.ss_family == AF_INET)
            address = &((const struct sockaddr_in *)&peer)->sin_addr;
        else if (peer.ss_family == AF_INET6)
            address = &((const struct sockaddr_in6 *)&peer)->sin6_addr;
    }
    if (!address || !inet_ntop(peer.ss_family, address, name, CLIENT_NAME_SIZE))
        snprintf(name, CLIENT_NAME_SIZE, "unix");
}

struct connection *connection_create(struct io *io, int fd)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        transport_close(&(struct transport){.fd = fd});
        return NULL;
    }
    c->server = io->server;
    c->io = io;
    name_client(fd, c->client);
    c->since_us = clock_monotonic_us();
    c->interest = EPOLLIN | EPOLLRDHUP;
    struct epoll_event event = {.events = c->interest, .data.ptr = c};
    if (!transport_open(&c->transport, fd, &io->server->tls) ||
        epoll_ctl(io->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        transport_close(&c->transport);
        free(c);
        return NULL;
    }
    c->state = c->transport.tls ? CONNECTION_HANDSHAKE : CONNECTION_HEAD;
    c->next = io->connections;
    if (c->next)
        c->next->previous = c;
    io->connections = c;
    return c;
}

/* The exchange goes its own way: it may still work, but not for this client. */
static void part_from_exchange(struct connection *c)
{
    struct http_exchange *x = c->x;
    if (!x)
        return;
    c->x = NULL;
    pthread_mutex_lock(&x->lock);
    x->connection = NULL;
    pthread_mutex_unlock(&x->lock);
    exchange_client_gone(x);
    exchange_drop(x);
}

/* A socket that is closed with bytes unread resets the connection, and the peer
 * may lose the answer that it has not read yet. */
static void empty_socket(struct connection *c)
{
    for (int i = 0; i < TURNS; i++)
        if (transport_discard(&c->transport, c->io->block, HTTP_BLOCK) <= 0)
            return;
}

void connection_close(struct connection *c)
{
    part_from_exchange(c);
    io_forget(c);
    if (c->previous)
        c->previous->next = c->next;
    else
        c->io->connections = c->next;
    if (c->next)
        c->next->previous = c->previous;
    if (c->state == CONNECTION_LINGER)
        empty_socket(c);
    transport_close(&c->transport);
    atomic_fetch_sub(&c->server->n_connections, 1);
    str_free(&c->in);
    str_free(&c->out);
    head_clear(&c->head);
    free(c);
}

static void enter(struct connection *c, enum connection_state state)
{
    c->state = state;
    c->since_us = clock_monotonic_us();
}

/* ---- from the head to the exchange --------------------------------------------------- */

static bool begin_exchange(struct connection *c)
{
    struct http_exchange *x = exchange_create(c->server);
    if (!x) {
        c->finished = true;
        return false;
    }
    c->x = x;
    pthread_mutex_lock(&x->lock);
    x->connection = c;
    memcpy(x->client, c->client, sizeof x->client);
    pthread_mutex_unlock(&x->lock);
    return true;
}

static void begin_answer(struct connection *c)
{
    enter(c, CONNECTION_ANSWER);
    answer_begin(c);
}

/* What follows on the connection is not known to be a request. */
static void refuse_framing(struct connection *c, int status, const char *reason)
{
    if (!c->x && !begin_exchange(c))
        return;
    c->keep = false;
    c->x->route = NULL;
    http_reply_error(c->x, status, status < 500 ? "invalid_request_error" : "server_error", reason);
    begin_answer(c);
}

static void hand_to_workers(struct connection *c)
{
    struct http_exchange *x = c->x;
    enter(c, CONNECTION_WORK);
    pthread_mutex_lock(&x->lock);
    x->with_workers = true;
    exchange_hold(x); /* the handler's */
    pthread_mutex_unlock(&x->lock);
    crew_run(&c->server->crew, x);
    if (c->hung_up)
        exchange_client_gone(x);
}

/* ---- the request comes in ------------------------------------------------------------- */

static void complete_request(struct connection *c)
{
    if (c->x->route)
        hand_to_workers(c);
    else
        begin_answer(c);
}

/* has_more: bytes of the body are here already. */
static void admit(struct connection *c, bool has_more)
{
    const struct head *head = &c->head;
    if (!begin_exchange(c))
        return;
    c->keep = head_keeps_alive(head);
    c->n_swallowed = 0;
    body_begin(&c->body, head);
    admit_head(c->x, head);
    bool waits = head->expects_continue && head->minor > 0;
    bool is_long = head->has_length && head->length > HTTP_SWALLOW;
    if (c->body.state == BODY_DONE) {
        complete_request(c);
    } else if (!c->x->route && (waits || is_long)) {
        /* A refusal of a long body, or one that waits for a 100, is said at once;
         * a short body is read first, so that the client is not cut off while it
         * still writes. */
        c->keep = false;
        begin_answer(c);
    } else {
        enter(c, CONNECTION_BODY);
        if (waits && !has_more)
            str_append_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
}

/* Memory grows with what came, not with what was announced, and not past that. */
static bool keep_content(struct connection *c, struct slice content)
{
    struct str *body = &c->x->body;
    size_t want = body->len + content.len + 1;
    if (want > body->capacity && c->head.has_length) {
        size_t capacity = want > body->capacity * 2 ? want : body->capacity * 2;
        if (capacity > c->head.length + 1)
            capacity = (size_t)c->head.length + 1;
        char *data = realloc(body->data, capacity);
        if (!data)
            return false;
        body->data = data;
        body->capacity = capacity;
    }
    return str_append_slice(body, content);
}

static void take_content(struct connection *c, struct slice content)
{
    struct http_exchange *x = c->x;
    if (x->route && content.len > c->server->max_body - x->body.len) {
        admit_refuse_size(x);
    } else if (x->route && !keep_content(c, content)) {
        x->route = NULL;
        http_reply_error(x, 500, "server_error", "out of memory for the request's body");
    }
    if (x->route)
        return;
    str_free(&x->body);
    c->n_swallowed += content.len;
    if (c->n_swallowed > HTTP_SWALLOW) { /* too much to be polite about */
        c->keep = false;
        begin_answer(c);
    }
}

static size_t consume_head(struct connection *c, struct slice bytes)
{
    size_t n;
    switch (head_feed(&c->head, bytes, &n)) {
    case FRAMING_MORE:
        break;
    case FRAMING_DONE:
        admit(c, n < bytes.len);
        break;
    case FRAMING_BAD:
        refuse_framing(c, c->head.status, c->head.reason);
        break;
    }
    return n;
}

static size_t consume_body(struct connection *c, struct slice bytes)
{
    size_t n;
    struct slice content;
    enum framing result = body_feed(&c->body, bytes, &n, &content);
    if (content.len > 0)
        take_content(c, content);
    if (c->state != CONNECTION_BODY)
        return n;
    if (result == FRAMING_DONE)
        complete_request(c);
    else if (result == FRAMING_BAD)
        refuse_framing(c, 400, c->body.reason);
    return n;
}

/* As much as belongs to one request; what is left waits for its answer. */
static size_t consume(struct connection *c, struct slice bytes)
{
    size_t n = 0;
    while (!c->finished && n < bytes.len) {
        if (c->state == CONNECTION_HEAD)
            n += consume_head(c, slice_from(bytes, n));
        else if (c->state == CONNECTION_BODY)
            n += consume_body(c, slice_from(bytes, n));
        else
            break;
    }
    return n;
}

/* What came together with an earlier request. */
static void consume_kept(struct connection *c)
{
    c->in_begin += consume(c, slice_from(str_slice(&c->in), c->in_begin));
    if (c->in_begin == c->in.len) {
        str_free(&c->in);
        c->in_begin = 0;
    }
}

/* True: there may be more to do at once. */
static bool receive(struct connection *c)
{
    if (c->in.len > 0) {
        consume_kept(c);
        return true;
    }
    if (!c->may_read)
        return false;
    ssize_t n = transport_read(&c->transport, c->io->block, HTTP_BLOCK);
    if (n == TRANSPORT_AGAIN) {
        c->may_read = false;
        return false;
    }
    if (n <= 0) {
        c->finished = true;
        return false;
    }
    /* A socket that gave less has no more for now; a TLS session may. */
    if (n < HTTP_BLOCK && !c->transport.tls)
        c->may_read = false;
    size_t taken = consume(c, (struct slice){c->io->block, (size_t)n});
    if (taken < (size_t)n && !str_append(&c->in, c->io->block + taken, (size_t)n - taken))
        c->finished = true;
    return true;
}

/* ---- the answer goes out ---------------------------------------------------------------- */

/* True: nothing is left in out. */
static bool flush(struct connection *c)
{
    if (c->wants_write)
        return false;
    while (c->out_begin < c->out.len) {
        ssize_t n =
            transport_write(&c->transport, c->out.data + c->out_begin, c->out.len - c->out_begin);
        if (n < 0) {
            c->wants_write = n == TRANSPORT_AGAIN;
            c->finished = n != TRANSPORT_AGAIN;
            return false;
        }
        c->out_begin += (size_t)n;
        c->since_us = clock_monotonic_us();
    }
    str_clear(&c->out);
    c->out_begin = 0;
    return true;
}

static bool look_for_answer(struct connection *c)
{
    struct http_exchange *x = c->x;
    pthread_mutex_lock(&x->lock);
    bool is_lost = x->streaming ? c->hung_up : x->abandoned;
    bool is_ready = x->answered && !is_lost;
    bool is_over = x->ended || (x->answered && is_lost);
    pthread_mutex_unlock(&x->lock);
    if (is_ready)
        begin_answer(c);
    else if (is_over)
        c->finished = true;
    return is_ready;
}

static void end_answer(struct connection *c)
{
    c->x->delivered = true;
    part_from_exchange(c);
    str_free(&c->out);
    c->out_begin = 0;
    head_clear(&c->head);
    if (c->keep) {
        enter(c, CONNECTION_HEAD);
        return;
    }
    transport_finish(&c->transport);
    str_free(&c->in);
    c->n_swallowed = 0;
    c->may_read = true;
    enter(c, CONNECTION_LINGER);
}

/* Its reader is too far behind, or the server cuts it off. */
static bool is_given_up(struct http_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool given_up = x->streaming && x->gone;
    pthread_mutex_unlock(&x->lock);
    return given_up;
}

static bool write_answer(struct connection *c)
{
    enum answer result = ANSWER_MORE;
    if (is_given_up(c->x) || c->out.failed) {
        c->finished = true;
        return false;
    }
    if (c->out_begin == 0 && !c->wants_write)
        while (c->out.len < HTTP_STREAM_BLOCK && result == ANSWER_MORE)
            result = answer_fill(c);
    bool is_empty = flush(c);
    if (result == ANSWER_FAILED)
        c->finished = true;
    if (!is_empty || c->finished || result == ANSWER_WAIT)
        return false;
    if (result == ANSWER_END)
        end_answer(c);
    return true;
}

/* The answer is written; the client may still be at its request. */
static bool linger(struct connection *c)
{
    if (!c->may_read)
        return false;
    ssize_t n = transport_discard(&c->transport, c->io->block, HTTP_BLOCK);
    if (n == TRANSPORT_AGAIN) {
        c->may_read = false;
        return false;
    }
    if (n > 0)
        c->n_swallowed += (uint64_t)n;
    c->finished = n <= 0 || c->n_swallowed > HTTP_SWALLOW;
    return true;
}

/* ---- turns ---------------------------------------------------------------------------------- */

static bool shake_hands(struct connection *c)
{
    c->wants_write = false;
    int result = transport_handshake(&c->transport, &c->wants_write);
    if (result == TRANSPORT_FAILED)
        c->finished = true;
    if (result != 0)
        return false;
    c->wants_write = false;
    c->may_read = true; /* the session may hold more than the handshake */
    enter(c, CONNECTION_HEAD);
    return true;
}

static bool advance(struct connection *c)
{
    switch (c->state) {
    case CONNECTION_HANDSHAKE:
        return shake_hands(c);
    case CONNECTION_HEAD:
        return receive(c);
    case CONNECTION_BODY:
        flush(c); /* a 100 Continue */
        return !c->finished && receive(c);
    case CONNECTION_WORK:
        return look_for_answer(c);
    case CONNECTION_ANSWER:
        return write_answer(c);
    case CONNECTION_LINGER:
        return linger(c);
    }
    return false;
}

/* The peer sends no more. For one whose request is answered piece by piece that
 * is its leaving; a short answer is still tried. */
static void note_hang_up(struct connection *c)
{
    c->hung_up = true;
    if (c->state == CONNECTION_WORK)
        exchange_client_gone(c->x);
    else if (c->state == CONNECTION_ANSWER && c->x->streaming)
        c->finished = true;
}

static void ask_for_events(struct connection *c)
{
    bool reads = c->state != CONNECTION_WORK && c->state != CONNECTION_ANSWER;
    /* Where nothing is read, asking stays as it was until something comes: most
     * clients send nothing before they have the answer. */
    uint32_t wanted = reads ? EPOLLIN : c->interest & EPOLLIN;
    if (!reads && c->may_read)
        wanted = 0;
    if (!c->hung_up)
        wanted |= EPOLLRDHUP;
    if (c->wants_write)
        wanted |= EPOLLOUT;
    if (wanted == c->interest)
        return;
    struct epoll_event event = {.events = wanted, .data.ptr = c};
    epoll_ctl(c->io->epoll, EPOLL_CTL_MOD, c->transport.fd, &event);
    c->interest = wanted;
}

void connection_turn(struct connection *c, uint32_t events)
{
    if (events & EPOLLIN)
        c->may_read = true;
    if (events & EPOLLOUT)
        c->wants_write = false;
    if ((events & EPOLLRDHUP) && !c->hung_up)
        note_hang_up(c);
    if ((events & (EPOLLERR | EPOLLHUP)) || (c->x && atomic_load(&c->server->closing)))
        c->finished = true;
    c->n_turns = TURNS;
    while (!c->finished && c->n_turns > 0 && advance(c))
        c->n_turns--;
    if (c->finished) {
        connection_close(c);
        return;
    }
    if (c->n_turns == 0)
        io_wake(c);
    ask_for_events(c);
}

void connection_look(struct connection *c, uint64_t now_us)
{
    uint64_t patience_us = c->server->timeout_s > 0 ? (uint64_t)c->server->timeout_s * 1000000u : 0;
    bool waits = c->state != CONNECTION_WORK && (c->state != CONNECTION_ANSWER || c->wants_write);
    if (c->state == CONNECTION_LINGER)
        patience_us = HTTP_LINGER_MS * 1000u;
    if (waits && patience_us > 0 && now_us > c->since_us && now_us - c->since_us > patience_us)
        connection_close(c);
}
