/* chunks.c - where a request's body ends: by its length, or chunk by chunk
 * (RFC 9112, 7.1). */
#include "http/framing.h"

static enum framing refuse(struct body *body, const char *reason)
{
    body->reason = reason;
    return FRAMING_BAD;
}

void body_begin(struct body *body, const struct head *head)
{
    *body = (struct body){.is_chunked = head->is_chunked};
    if (head->is_chunked)
        return;
    body->n_left = head->has_length ? head->length : 0;
    body->state = body->n_left > 0 ? BODY_DATA : BODY_DONE;
}

int framing_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static enum framing take_size(struct body *body, char c)
{
    int digit = framing_hex_value(c);
    if (digit >= 0) {
        if (body->n_left > UINT64_MAX >> 4)
            return refuse(body, "a chunk's size is too large a number");
        body->n_left = body->n_left << 4 | (uint64_t)digit;
        body->n_digits++;
        return FRAMING_MORE;
    }
    if (body->n_digits == 0 || (c != '\r' && c != ';' && c != ' ' && c != '\t'))
        return refuse(body, "a chunk's size is not a hexadecimal number");
    body->blank = c == ' ' || c == '\t';
    body->state = c == '\r' ? BODY_SIZE_LF : BODY_EXTENSIONS;
    return FRAMING_MORE;
}

/* Extensions mean nothing to us and are passed over. */
static enum framing take_extension(struct body *body, char c)
{
    if (c == '\r' && !body->blank)
        body->state = BODY_SIZE_LF;
    else if (!framing_is_text(c) || (body->blank && c != ' ' && c != '\t' && c != ';'))
        return refuse(body, "what follows a chunk's size is not an extension");
    if (c == ';')
        body->blank = false;
    return FRAMING_MORE;
}

static enum framing take_trailer(struct body *body, char c)
{
    bool is_name = body->n_name != SIZE_MAX;
    if (c == '\r') {
        if (is_name && body->n_name > 0)
            return refuse(body, "a line after the last chunk is not \"Name: value\"");
        body->state = BODY_TRAILER_LF;
    } else if (is_name && c == ':' && body->n_name > 0) {
        body->n_name = SIZE_MAX;
    } else if (is_name ? !framing_is_token(c) : !framing_is_text(c)) {
        return refuse(body, "a line after the last chunk is not \"Name: value\"");
    } else if (is_name) {
        body->n_name++;
    }
    return FRAMING_MORE;
}

/* A chunk's line is read. */
static void begin_chunk(struct body *body)
{
    body->state = body->n_left > 0 ? BODY_DATA : BODY_TRAILER;
    body->n_digits = 0;
    body->n_line = 0;
    body->n_name = 0;
}

/* A byte of what stands between the data. */
static enum framing take_byte(struct body *body, char c)
{
    bool in_trailers = body->state == BODY_TRAILER || body->state == BODY_TRAILER_LF;
    if (body->n_line++ == (in_trailers ? FRAMING_MAX_TRAILERS : FRAMING_MAX_CHUNK_LINE))
        return refuse(body, "a chunk's line or what follows the last one is too long");
    switch (body->state) {
    case BODY_SIZE:
        return take_size(body, c);
    case BODY_EXTENSIONS:
        return take_extension(body, c);
    case BODY_TRAILER:
        return take_trailer(body, c);
    case BODY_DATA_CR:
        body->state = BODY_DATA_LF;
        return c == '\r' ? FRAMING_MORE : refuse(body, "a chunk is longer than its size says");
    case BODY_SIZE_LF:
    case BODY_DATA_LF:
    case BODY_TRAILER_LF:
        if (c != '\n')
            return refuse(body, "a CR in the frame of a chunk is not part of CRLF");
        break;
    case BODY_DATA:
    case BODY_DONE:
        break;
    }
    if (body->state == BODY_SIZE_LF) {
        begin_chunk(body);
    } else if (body->state == BODY_DATA_LF) {
        body->state = BODY_SIZE;
        body->n_line = 0;
    } else {
        body->state = body->n_name == SIZE_MAX ? BODY_TRAILER : BODY_DONE;
        body->n_name = 0;
    }
    return FRAMING_MORE;
}

enum framing body_feed(struct body *body, struct slice bytes, size_t *n_taken,
                       struct slice *content)
{
    size_t i = 0;
    *content = SLICE("");
    enum framing result = body->reason ? FRAMING_BAD : FRAMING_MORE;
    while (result == FRAMING_MORE && body->state != BODY_DONE && body->state != BODY_DATA &&
           i < bytes.len)
        result = take_byte(body, bytes.data[i++]);
    if (result == FRAMING_MORE && body->state == BODY_DATA && i < bytes.len) {
        size_t n = bytes.len - i;
        if (n > body->n_left)
            n = (size_t)body->n_left;
        *content = (struct slice){bytes.data + i, n};
        body->n_left -= n;
        i += n;
        if (body->n_left == 0)
            body->state = body->is_chunked ? BODY_DATA_CR : BODY_DONE;
    }
    *n_taken = i;
    if (result == FRAMING_MORE && body->state == BODY_DONE)
        return FRAMING_DONE;
    return result;
}
