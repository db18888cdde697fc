/* framing.h - requests as RFC 9112 frames them: where a head ends, what it says,
 * and where the body ends.
 *
 * Push parsers: they take bytes in pieces of any size and give the same result
 * however the bytes are cut. They know nothing of sockets, routes and answers.
 * Only what the standard's grammar allows is taken, with none of the repairs that
 * it permits: what two programs could read differently is refused, because a
 * request that hides in another's body lives from exactly that.
 *
 * Not safe for several threads at once. Source: RFC 9112 and RFC 9110, sections as
 * noted. */
#ifndef MLXCEL_HTTP_FRAMING_H
#define MLXCEL_HTTP_FRAMING_H

#include "base/slice.h"
#include "base/str.h"

enum {
    FRAMING_MAX_HEAD = 16 << 10,      /* bytes of request line and fields; past it: 431 */
    FRAMING_MAX_CHUNK_LINE = 1 << 10, /* bytes of a chunk's size and extensions */
    FRAMING_MAX_TRAILERS = 8 << 10    /* bytes of fields after the last chunk */
};

enum framing {
    FRAMING_MORE, /* not complete yet */
    FRAMING_DONE,
    FRAMING_BAD /* refused: status and reason say how */
};

/* A character of a name, and one of a value: no control characters but the tab. */
bool framing_is_token(char c);
bool framing_is_text(char c);

/* ---- heads -------------------------------------------------------------------- */

/* Start with {0}; head_clear makes it ready for the next request. */
struct head {
    struct str text;        /* the lines so far, each with its CRLF; owned */
    size_t line_begin;      /* of the line that is being read, in text */
    size_t n_bytes;         /* taken, blank lines before the request line too */
    bool after_cr, started; /* started: the request line was read */

    /* Known once done, the request line as soon as it was read. */
    size_t method_len, target_begin, target_len; /* in text */
    size_t fields_begin;                         /* in text */
    int minor;                                   /* HTTP/1.minor: 0 or 1 */
    bool has_length, is_chunked;
    uint64_t length; /* bytes of the body, where has_length */
    bool expects_continue;
    bool says_close, says_keep_alive;

    int n_hosts; /* fields seen */
    bool has_encoding;

    int status; /* where refused: 400, 431, or 500 without memory */
    const char *reason;
};

/* Take bytes up to the end of the head, *n_taken of them. */
enum framing head_feed(struct head *head, struct slice bytes, size_t *n_taken);
/* Of a head that is done; the slices live until head_clear. */
struct slice head_method(const struct head *head);
struct slice head_target(const struct head *head);
/* Step through the fields: *at starts as 0; false after the last. The value is
 * without blanks around it. */
bool head_next_field(const struct head *head, size_t *at, struct slice *name, struct slice *value);
/* The client will read another answer on this connection. */
bool head_keeps_alive(const struct head *head);
void head_clear(struct head *head);

/* 0..15; -1 for what is not a hexadecimal digit. */
int framing_hex_value(char c);

/* ---- bodies ------------------------------------------------------------------- */

enum body_state {
    BODY_SIZE,       /* digits of a chunk's size */
    BODY_EXTENSIONS, /* the rest of that line */
    BODY_SIZE_LF,
    BODY_DATA,
    BODY_DATA_CR,
    BODY_DATA_LF,
    BODY_TRAILER, /* a line after the last chunk */
    BODY_TRAILER_LF,
    BODY_DONE
};

struct body {
    enum body_state state;
    bool is_chunked;
    uint64_t n_left; /* of the body, or of the chunk */
    int n_digits;
    size_t n_line; /* bytes of the chunk's line, or of all trailers */
    size_t n_name; /* of the trailer that is being read; SIZE_MAX past its colon */
    bool blank;    /* a blank was read, and only an extension may follow it */
    const char *reason;
};

void body_begin(struct body *body, const struct head *head);
/* Take bytes until content was found or all are taken, *n_taken of them; *content
 * is what of them belongs to the content, perhaps nothing. To be called until it
 * says something else than FRAMING_MORE or the bytes are used up. */
enum framing body_feed(struct body *body, struct slice bytes, size_t *n_taken,
                       struct slice *content);

#endif
