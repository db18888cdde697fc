/* framing_test.c - a request is what RFC 9112 says, or one 400 and the end.
 *
 * A table of raw bytes with what must come of them. Each row goes to a server as
 * one piece and byte by byte, over TCP, and as one piece over TLS; to the parsers
 * cut in two at every place. */
#include "http/framing.h"
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a refused request's body would do if it were read as a request. */
#define HIDDEN  "GET /item/hidden HTTP/1.1\r\nHost: a\r\n\r\n"
#define GET     "GET /health HTTP/1.1\r\n"
#define POST    "POST /echo HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define END     "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

struct row {
    const char *name;
    const char *bytes;
    size_t len;
    int status;       /* of the first answer */
    int n_answers;    /* then the connection is closed */
    const char *part; /* of what is answered; NULL: nothing particular */
};

#define ROW(name, bytes, status)                                                                   \
    {                                                                                              \
        name, bytes, sizeof(bytes) - 1, status, 1, NULL                                            \
    }
#define TAKEN(name, bytes, n, part)                                                                \
    {                                                                                              \
        name, bytes END, sizeof(bytes END) - 1, 200, (n) + 1, part                                 \
    }
#define BAD(name, bytes) ROW(name, bytes, 400)
#define BAD_AFTER(name, bytes, n)                                                                  \
    {                                                                                              \
        name, bytes, sizeof(bytes) - 1, 200, (n) + 1, NULL                                         \
    }

static const struct row rows[] = {
    /* The length of the body. */
    BAD("two lengths", POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    BAD("two equal lengths", POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    BAD("a list of lengths", POST "Content-Length: 5, 6\r\n\r\nhello!"),
    BAD("a list of equal lengths", POST "Content-Length: 5, 5\r\n\r\nhello"),
    BAD("no number as length", POST "Content-Length: five\r\n\r\nhello"),
    BAD("an empty length", POST "Content-Length:\r\n\r\n"),
    BAD("a signed length", POST "Content-Length: +5\r\n\r\nhello"),
    BAD("a negative length", POST "Content-Length: -5\r\n\r\nhello"),
    BAD("a hexadecimal length", POST "Content-Length: 0x5\r\n\r\nhello"),
    BAD("a length with a fraction", POST "Content-Length: 5.0\r\n\r\nhello"),
    BAD("a length with a blank inside", POST "Content-Length: 1 0\r\n\r\nhello"),
    BAD("a length of 2^64", POST "Content-Length: 18446744073709551616\r\n\r\nhello"),
    BAD("a length of many digits", POST "Content-Length: 99999999999999999999999999\r\n\r\nhello"),
    ROW("a length past the limit", POST "Content-Length: 18446744073709551615\r\n\r\nhello", 413),
    TAKEN("a length with zeros before", POST "Content-Length: 005\r\n\r\nhello", 1, "hello"),
    TAKEN("a length of nothing", POST "Content-Length: 0\r\n\r\n", 1, NULL),
    TAKEN("no length is no body", POST "\r\n", 1, NULL),
    TAKEN("a length in blanks", POST "Content-Length: \t 5 \t\r\n\r\nhello", 1, "hello"),

    /* Transfer codings. */
    BAD("length and chunks", POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                                  "0\r\n\r\n" HIDDEN),
    BAD("chunks and length", POST "Transfer-Encoding: chunked\r\nContent-Length: 43\r\n\r\n"
                                  "0\r\n\r\n" HIDDEN),
    BAD("a blank before the colon", POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    BAD("a tab before the colon", POST "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    BAD("an unknown coding", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    BAD("identity", POST "Transfer-Encoding: identity\r\n\r\n"),
    BAD("gzip, then chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    BAD("chunked not last", POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    BAD("chunked twice", POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    BAD("chunked in two fields", POST "Transfer-Encoding: chunked\r\n"
                                      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    BAD("chunked in quotes", POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    BAD("chunked with a parameter", POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    BAD("an empty coding", POST "Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
    BAD("a comma before chunked", POST "Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n"),
    BAD("a vertical tab before chunked", POST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n"),
    BAD("chunks in HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "0\r\n\r\n"),
    TAKEN("chunked in capitals", POST "transfer-encoding: CHUNKED\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 1,
          "\r\n\r\nabc"),

    /* Chunks. */
    TAKEN("two chunks", CHUNKED "3\r\nabc\r\n00A\r\ndefghijklm\r\n000\r\n\r\n", 1, "abcdefghijklm"),
    TAKEN("no chunk but the last", CHUNKED "0\r\n\r\n", 1, NULL),
    TAKEN("extensions", CHUNKED "3;a=b;c=\"d e\"\r\nabc\r\n0 ;x\r\n\r\n", 1, "\r\n\r\nabc"),
    TAKEN("trailers", CHUNKED "3\r\nabc\r\n0\r\nX: y\r\nContent-Length: 9\r\n\r\n", 1, "abc"),
    BAD("no size", CHUNKED "\r\nabc\r\n0\r\n\r\n"),
    BAD("no number as size", CHUNKED "xyz\r\nabc\r\n0\r\n\r\n"),
    BAD("a signed size", CHUNKED "+3\r\nabc\r\n0\r\n\r\n"),
    BAD("a negative size", CHUNKED "-3\r\nabc\r\n0\r\n\r\n"),
    BAD("a size with 0x", CHUNKED "0x3\r\nabc\r\n0\r\n\r\n"),
    BAD("a size with a blank before", CHUNKED " 3\r\nabc\r\n0\r\n\r\n"),
    BAD("a size with a blank after", CHUNKED "3 \r\nabc\r\n0\r\n\r\n"),
    BAD("a size with a blank inside", CHUNKED "1 0\r\nabc\r\n0\r\n\r\n"),
    BAD("a size of 2^64", CHUNKED "10000000000000000\r\nabc\r\n0\r\n\r\n"),
    BAD("a size that wraps around", CHUNKED "fffffffffffffffff3\r\nabc\r\n0\r\n\r\n"),
    BAD("a size that ends in LF", CHUNKED "3\nabc\r\n0\r\n\r\n"),
    BAD("a size with CR and no LF", CHUNKED "3\rabc\r\n0\r\n\r\n"),
    BAD("a chunk that is too long", CHUNKED "3\r\nabcd\r\n0\r\n\r\n"),
    BAD("a chunk that is too short", CHUNKED "5\r\nabc\r\n0\r\n\r\n" HIDDEN),
    BAD("a chunk that ends in LF", CHUNKED "3\r\nabc\n0\r\n\r\n"),
    BAD("NUL in an extension", CHUNKED "3;a=\0b\r\nabc\r\n0\r\n\r\n"),
    BAD("LF in an extension", CHUNKED "3;a\nb\r\nabc\r\n0\r\n\r\n" HIDDEN),
    BAD("a trailer without a colon", CHUNKED "0\r\n" HIDDEN),
    BAD("a trailer with a blank in its name", CHUNKED "0\r\nX : y\r\n\r\n"),
    BAD("a trailer that goes on", CHUNKED "0\r\nX: y\r\n z\r\n\r\n"),
    BAD("NUL in a trailer", CHUNKED "0\r\nX: \0\r\n\r\n"),

    /* Host. */
    BAD("no host", GET "\r\n"),
    BAD("two hosts", GET "Host: a\r\nHost: b\r\n\r\n"),
    BAD("two equal hosts", GET "Host: a\r\nhost: a\r\n\r\n"),
    BAD("a host with a blank", GET "Host: a b\r\n\r\n"),
    BAD("a host with a path", GET "Host: a/b\r\n\r\n"),
    BAD("a host with a user", GET "Host: c@a\r\n\r\n"),
    BAD("no host, the absolute form", "GET http://a/health HTTP/1.1\r\n\r\n"),
    BAD("two hosts in HTTP/1.0", "GET /health HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
    ROW("no host in HTTP/1.0", "GET /health HTTP/1.0\r\n\r\n", 200),
    TAKEN("an empty host", GET "Host:\r\n\r\n", 1, NULL),
    TAKEN("a host with a port", GET "Host: [::1]:8080\r\n\r\n", 1, NULL),

    /* The request line. */
    BAD("no version", "GET /health\r\nHost: a\r\n\r\n"),
    BAD("no target", "GET HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("no method", " /health HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a method alone", "GET\r\nHost: a\r\n\r\n"),
    BAD("two blanks before the target", "GET  /health HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("two blanks before the version", "GET /health  HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a blank after the version", "GET /health HTTP/1.1 \r\nHost: a\r\n\r\n"),
    BAD("a tab before the target", "GET\t/health HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a blank in the target", "GET /he alth HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a relative target", "GET health HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a star and GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("the absolute form without a host", "GET http:///health HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("the absolute form with a user", "GET http://b@a/health HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
    BAD("a byte that is not ASCII in the target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("no token as method", "G(T /health HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("HTTP/2.0's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    BAD("HTTP/2.0", "GET /health HTTP/2.0\r\nHost: a\r\n\r\n"),
    BAD("HTTP/0.9", "GET /health HTTP/0.9\r\nHost: a\r\n\r\n"),
    BAD("HTTP/11", "GET /health HTTP/11\r\nHost: a\r\n\r\n"),
    BAD("HTTP/1.10", "GET /health HTTP/1.10\r\nHost: a\r\n\r\n"),
    BAD("http in small letters", "GET /health http/1.1\r\nHost: a\r\n\r\n"),
    BAD("another protocol", "GET /health SIP/1.1\r\nHost: a\r\n\r\n"),
    BAD("a greeting of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    TAKEN("a blank line before", "\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n", 1, NULL),
    TAKEN("the absolute form", "GET http://b/health HTTP/1.1\r\nHost: a\r\n\r\n", 1, NULL),
    TAKEN("the absolute form with a query",
          "GET http://b:80/item/c?x=http://d/e HTTP/1.1\r\nHost: a\r\n\r\n", 1,
          "\r\n\r\nc|http://d/e"),
    TAKEN("the absolute form without a path", "OPTIONS http://b?x=/y HTTP/1.1\r\nHost: a\r\n\r\n",
          1, NULL),
    TAKEN("a star and OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 1, NULL),
    TAKEN("a later HTTP/1", "GET /health HTTP/1.9\r\nHost: a\r\n\r\n", 1, NULL),
    ROW("a method that nobody knows", "BREW /pot HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        404),
    ROW("HTTP/2 is offered",
        GET "Host: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
            "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        200),

    /* Fields. */
    BAD("a line that goes on", GET "Host: a\r\nX: y\r\n z\r\n\r\n"),
    BAD("a first line that goes on", GET " X: y\r\nHost: a\r\n\r\n"),
    BAD("a line without a colon", GET "Host: a\r\nX\r\n\r\n"),
    BAD("a field without a name", GET "Host: a\r\n: y\r\n\r\n"),
    BAD("a blank in a name", GET "Host: a\r\nX Y: z\r\n\r\n"),
    BAD("NUL in a value", GET "Host: a\r\nX: y\0z\r\n\r\n"),
    BAD("NUL in a key", GET "Host: a\r\nAuthorization: Bearer c\0junk\r\n\r\n"),
    BAD("NUL in a name", GET "Host: a\r\nX\0: y\r\n\r\n"),
    BAD("NUL in the target", "GET /he\0alth HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD("CR in a value", GET "Host: a\r\nX: y\rz\r\n\r\n"),
    BAD("CR instead of CRLF", GET "Host: a\rX: y\r\n\r\n"),
    BAD("two CR", GET "Host: a\r\r\n\r\n"),
    BAD("LF instead of CRLF", GET "Host: a\nX: y\r\n\r\n"),
    BAD("LF alone everywhere", "GET /health HTTP/1.1\nHost: a\n\n"),
    BAD("LF ends the head", GET "Host: a\r\n\n"),
    BAD("ESC in a value", GET "Host: a\r\nX: \033[0m\r\n\r\n"),
    BAD("DEL in a value", GET "Host: a\r\nX: \177\r\n\r\n"),
    TAKEN("a tab in a value", GET "Host: a\r\nX: y\tz\r\n\r\n", 1, NULL),
    TAKEN("bytes that are not ASCII in a value", GET "Host: a\r\nX: \xc3\xa9\xff\r\n\r\n", 1, NULL),
    TAKEN("an empty value", GET "Host: a\r\nX:\r\n\r\n", 1, NULL),
    TAKEN("a key with blanks around it", POST "Authorization: \t Bearer c \t \r\n\r\n", 1, NULL),
    TAKEN("a key in the other field", POST "X-Api-Key:c  \r\n\r\n", 1, NULL),

    /* One connection, several requests. */
    TAKEN("requests one after another are answered in their order",
          "GET /item/one HTTP/1.1\r\nHost: a\r\n\r\n" POST "Content-Length: 3\r\n\r\ntwo" CHUNKED
          "5\r\nthree\r\n0\r\n\r\n"
          "HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n",
          4, "one|"),
    BAD_AFTER("a good request and a bad one", POST "Content-Length: 3\r\n\r\nabc" GET "\r\n" HIDDEN,
              1),
    BAD_AFTER("a body that is longer than it says", POST "Content-Length: 3\r\n\r\nabcdef\r\n", 1),
    TAKEN("a request within a body stays there", POST "Content-Length: 38\r\n\r\n" HIDDEN, 1, NULL),
    ROW("nothing follows a close", POST "Connection: close\r\nContent-Length: 2\r\n\r\nhi" HIDDEN,
        200),
    ROW("HTTP/1.0 is closed", "GET /health HTTP/1.0\r\n\r\n" HIDDEN, 200),
    TAKEN("HTTP/1.0 that is kept", "GET /health HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 1,
          "Connection: keep-alive"),
    ROW("a stream for HTTP/1.0", "GET /stream?n=3 HTTP/1.0\r\n\r\n" HIDDEN, 200),
    TAKEN("a stream and then another request", "GET /stream?n=3 HTTP/1.1\r\nHost: a\r\n\r\n", 1,
          "data: 2\n\n\r\n0\r\n\r\n"),
    TAKEN("a stream's head alone", "HEAD /stream?n=3 HTTP/1.1\r\nHost: a\r\n\r\n", 1, NULL),
};
enum { N_ROWS = sizeof rows / sizeof *rows, PATIENCE_MS = 10000 };

static struct http_settings framing_settings(struct house *house)
{
    struct http_settings settings = house_settings(house);
    settings.max_body = 1000;
    return settings;
}

/* ---- over sockets -------------------------------------------------------------------- */

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        n++;
    return n;
}

/* The refusals look like every other error of the server's. */
static void assert_error_shape(const struct row *row, const char *answer, int status)
{
    char begin[64];
    snprintf(begin, sizeof begin, "\r\n\r\n{\"error\":{\"code\":%d,\"message\":\"", status);
    const char *last = answer;
    for (const char *at = answer; (at = strstr(at, "HTTP/1.1 4")); at++)
        last = at;
    if (!strstr(last, begin) || !strstr(last, "\",\"type\":\"invalid_request_error\"}}") ||
        !strstr(last, "\r\nContent-Type: application/json; charset=utf-8\r\n") ||
        !strstr(last, "\r\nConnection: close\r\n"))
        fail_msg("%s: the refusal is\n%s", row->name, last);
}

static void assert_row(const struct row *row, const char *answer, bool closed, const char *how)
{
    char expected[32];
    snprintf(expected, sizeof expected, "HTTP/1.1 %d ", row->status);
    if (!closed)
        fail_msg("%s, %s: the connection stays open after\n%s", row->name, how, answer);
    if (strncmp(answer, expected, strlen(expected)) != 0 ||
        count(answer, "\r\nDate: ") != row->n_answers || strstr(answer, "hidden|"))
        fail_msg("%s, %s: %d answers expected, the first %d; got\n%s", row->name, how,
                 row->n_answers, row->status, answer);
    if (row->part && !strstr(answer, row->part))
        fail_msg("%s, %s: no '%s' in\n%s", row->name, how, row->part, answer);
    bool is_refused = row->status == 400 || row->status == 413;
    if (is_refused)
        assert_error_shape(row, answer, row->status);
    else if (strstr(answer, "HTTP/1.1 400 "))
        assert_error_shape(row, answer, 400);
}

/* Send the pieces between the cuts, each as a packet of its own if it can be. */
static void try_row(const struct http_server *server, gnutls_certificate_credentials_t trust,
                    const struct row *row, size_t first, size_t step, const char *how)
{
    struct client client;
    bool closed;
    int on = 1;
    client_open(&client, server, trust);
    setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct slice bytes = {row->bytes, row->len};
    for (size_t at = 0, n = first; at < bytes.len; at += n, n = step) {
        if (n > bytes.len - at)
            n = bytes.len - at;
        client_write(&client, (struct slice){bytes.data + at, n});
    }
    char *answer = client_read_all(&client, PATIENCE_MS, &closed);
    assert_row(row, answer, closed, how);
    free(answer);
    client_drop(&client, false);
}

static void every_row_is_answered_as_one_piece(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = framing_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    for (size_t i = 0; i < N_ROWS; i++)
        try_row(server, NULL, &rows[i], rows[i].len, rows[i].len, "in one piece");
    http_server_stop(server, 1000);
}

static void every_row_is_answered_byte_by_byte(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = framing_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    for (size_t i = 0; i < N_ROWS; i++)
        try_row(server, NULL, &rows[i], 1, 1, "byte by byte");
    http_server_stop(server, 1000);
}

static void rows_cut_anywhere_are_answered_alike(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = framing_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    for (size_t i = 0; i < N_ROWS; i += 9)
        for (size_t cut = 1; cut < rows[i].len; cut++)
            try_row(server, NULL, &rows[i], cut, rows[i].len, "in two pieces");
    http_server_stop(server, 1000);
}

static void every_row_is_answered_over_tls(void **state)
{
    (void)state;
    struct tls_house t;
    gnutls_certificate_credentials_t trust;
    tls_house_open(&t);
    assert_int_equal(gnutls_certificate_allocate_credentials(&trust), 0);
    for (size_t i = 0; i < N_ROWS; i++)
        try_row(t.server, trust, &rows[i], rows[i].len, rows[i].len, "over TLS");
    for (size_t i = 0; i < N_ROWS; i += 9)
        try_row(t.server, trust, &rows[i], 1, 1, "byte by byte over TLS");
    gnutls_certificate_free_credentials(trust);
    http_server_stop(t.server, 1000);
}

/* ---- the parsers alone ------------------------------------------------------------------ */

/* What becomes of bytes: how many requests, all they say, and the refusal. */
struct outcome {
    int n_requests;
    struct str text;
    int status; /* of the refusal; 0: none */
    struct head head;
    struct body body;
    bool in_body;
};

static void note_head(struct outcome *o)
{
    size_t at = 0;
    struct slice name, value;
    str_append_slice(&o->text, head_method(&o->head));
    str_append_char(&o->text, ' ');
    str_append_slice(&o->text, head_target(&o->head));
    str_append_char(&o->text, '\n');
    while (head_next_field(&o->head, &at, &name, &value)) {
        str_append_slice(&o->text, name);
        str_append_char(&o->text, '=');
        str_append_slice(&o->text, value);
        str_append_char(&o->text, '\n');
    }
    body_begin(&o->body, &o->head);
    o->in_body = true;
}

static void feed(struct outcome *o, struct slice bytes)
{
    while (o->status == 0 && (bytes.len > 0 || o->in_body)) {
        size_t n = 0;
        struct slice content = {0};
        enum framing result =
            o->in_body ? body_feed(&o->body, bytes, &n, &content) : head_feed(&o->head, bytes, &n);
        bytes = slice_from(bytes, n);
        str_append_slice(&o->text, content);
        if (result == FRAMING_BAD) {
            o->status = o->in_body ? 400 : o->head.status;
        } else if (result == FRAMING_DONE && o->in_body) {
            o->n_requests++;
            o->in_body = false;
            head_clear(&o->head);
        } else if (result == FRAMING_DONE) {
            note_head(o);
        } else if (bytes.len == 0) {
            return;
        }
    }
}

static void outcome_free(struct outcome *o)
{
    str_free(&o->text);
    head_clear(&o->head);
}

static void cuts_make_no_difference_to_the_parsers(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        struct outcome whole = {0};
        struct slice bytes = {rows[i].bytes, rows[i].len};
        feed(&whole, bytes);
        if (rows[i].status == 400)
            assert_int_equal(whole.status, 400);
        for (size_t cut = 0; cut <= bytes.len; cut++) {
            struct outcome two = {0};
            feed(&two, (struct slice){bytes.data, cut});
            feed(&two, slice_from(bytes, cut));
            if (two.n_requests != whole.n_requests || two.status != whole.status ||
                !slice_equal(str_slice(&two.text), str_slice(&whole.text)))
                fail_msg("%s, cut at %zu: %d requests and %d, not %d and %d", rows[i].name, cut,
                         two.n_requests, two.status, whole.n_requests, whole.status);
            outcome_free(&two);
        }
        outcome_free(&whole);
    }
}

/* ---- sizes ------------------------------------------------------------------------------- */

static void assert_first_line(const struct http_server *server, struct slice request,
                              const char *expected, const char *part)
{
    struct client client;
    bool closed;
    client_open(&client, server, NULL);
    client_write(&client, request);
    char *answer = client_read_all(&client, PATIENCE_MS, &closed);
    if (strncmp(answer, expected, strlen(expected)) != 0 || !strstr(answer, part) ||
        count(answer, "\r\nDate: ") != 1 || !closed)
        fail_msg("%s expected, with %s; got\n%s", expected, part, answer);
    free(answer);
    client_drop(&client, false);
}

static void a_query_of_744_parameters_is_answered(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = framing_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    struct str request = {0};
    str_append_text(&request, "GET /item/a?");
    for (int i = 0; i < 743; i++)
        str_append_format(&request, "p%d=%d&", i, i);
    str_append_text(&request, "x=last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_first_line(server, str_slice(&request), "HTTP/1.1 200 ", "\r\n\r\na|last");
    str_free(&request);
    http_server_stop(server, 1000);
}

/* Just below the limit it is answered; past it, however far, it is a 431 as JSON. */
static void a_head_past_the_limit_is_a_431_as_json(void **state)
{
    (void)state;
    static const size_t sizes[] = {FRAMING_MAX_HEAD + 1, 20000, 50000, 200000, 3000000};
    static const char begin[] = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: ";
    struct house house = {0};
    struct http_settings settings = framing_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    for (size_t i = 0; i <= sizeof sizes / sizeof *sizes; i++) {
        size_t size = i > 0 ? sizes[i - 1] : FRAMING_MAX_HEAD;
        struct str request = {0};
        str_append_text(&request, begin);
        while (request.len < size - 4)
            str_append_char(&request, 'x');
        str_append_text(&request, "\r\n\r\n");
        assert_first_line(server, str_slice(&request), i ? "HTTP/1.1 431 " : "HTTP/1.1 200 ",
                          i ? "{\"error\":{\"code\":431,\"message\":\"" : "ok");
        str_free(&request);
    }
    /* Many short fields, and a line that never ends. */
    struct str request = {0};
    str_append_text(&request, GET "Host: a\r\n");
    for (int i = 0; i < 10000; i++)
        str_append_text(&request, "A:\r\n");
    assert_first_line(server, str_slice(&request), "HTTP/1.1 431 ", "invalid_request_error");
    str_clear(&request);
    for (int i = 0; i < 20000; i++)
        str_append_char(&request, 'A');
    assert_first_line(server, str_slice(&request), "HTTP/1.1 431 ", "invalid_request_error");
    str_free(&request);
    http_server_stop(server, 1000);
}

static size_t virtual_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A length that is announced is not memory that is taken. */
static void an_announced_body_takes_no_memory(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    size_t before = virtual_bytes();
    char block[256];
    int fd = client_connect(server);
    client_send(fd, POST "Content-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n");
    assert_true(recv(fd, block, sizeof block, 0) > 0);
    client_send(fd, "the beginning");
    /* Another request on the same threads: the beginning has been read by then. */
    for (int i = 0; i < 8; i++)
        assert_first_line(server, SLICE(END), "HTTP/1.1 200 ", "ok");
    assert_true(virtual_bytes() - before < (size_t)768 << 20);
    close(fd);
    http_server_stop(server, 1000);
}

/* ---- answers before the body ---------------------------------------------------------------- */

static void a_refused_size_is_answered_without_the_body(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = framing_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    /* Who waits for a 100 gets the refusal instead; so does who has much to send. */
    assert_first_line(server, SLICE(POST "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n"),
                      "HTTP/1.1 413 ", "limit of 1000 bytes");
    assert_first_line(server, SLICE(POST "Content-Length: 999999999\r\n\r\n"), "HTTP/1.1 413 ",
                      "limit of 1000 bytes");
    assert_first_line(server,
                      SLICE("POST /nope HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
                            "Expect: 100-Continue\r\n\r\n"),
                      "HTTP/1.1 404 ", "File Not Found");
    http_server_stop(server, 1000);
}

static void blanks_around_a_key_do_not_count(void **state)
{
    (void)state;
    static const char *const keys[] = {"c"};
    static const struct {
        const char *field;
        size_t len;
        const char *expected, *part;
    } cases[] = {
#define KEY(field, expected, part) {field "\r\n", sizeof(field "\r\n") - 1, expected, part}
        KEY("Authorization: Bearer c ", "HTTP/1.1 200 ", "\r\n\r\nhi"),
        KEY("Authorization:\t Bearer c\t\t", "HTTP/1.1 200 ", "\r\n\r\nhi"),
        KEY("Authorization:Bearer c", "HTTP/1.1 200 ", "\r\n\r\nhi"),
        KEY("X-Api-Key:   c   ", "HTTP/1.1 200 ", "\r\n\r\nhi"),
        KEY("Authorization: Bearer  c", "HTTP/1.1 401 ", "Invalid API Key"),
        KEY("Authorization: Bearer c\0junk", "HTTP/1.1 400 ", "control character"),
        KEY("X-Api-Key: c\0", "HTTP/1.1 400 ", "control character"),
#undef KEY
    };
    struct house house = {0};
    struct http_settings settings = framing_settings(&house);
    settings.keys = keys;
    settings.n_keys = 1;
    struct http_server *server = house_open(&house, &settings);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str request = {0};
        str_append_text(&request, POST "Connection: close\r\nContent-Length: 2\r\n");
        str_append(&request, cases[i].field, cases[i].len);
        str_append_text(&request, "\r\nhi");
        assert_first_line(server, str_slice(&request), cases[i].expected, cases[i].part);
        str_free(&request);
    }
    http_server_stop(server, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_answered_as_one_piece),
        cmocka_unit_test(every_row_is_answered_byte_by_byte),
        cmocka_unit_test(rows_cut_anywhere_are_answered_alike),
        cmocka_unit_test(every_row_is_answered_over_tls),
        cmocka_unit_test(cuts_make_no_difference_to_the_parsers),
        cmocka_unit_test(a_query_of_744_parameters_is_answered),
        cmocka_unit_test(a_head_past_the_limit_is_a_431_as_json),
        cmocka_unit_test(an_announced_body_takes_no_memory),
        cmocka_unit_test(a_refused_size_is_answered_without_the_body),
        cmocka_unit_test(blanks_around_a_key_do_not_count),
    };
    printf("framing: %d rows of raw bytes\n", (int)N_ROWS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
