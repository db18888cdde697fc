/* framing.c - the heads of requests, to the letter of RFC 9112. */
#include "http/framing.h"

#include <strings.h>

static enum framing refuse(struct head *head, int status, const char *reason)
{
    head->status = status;
    head->reason = reason;
    return FRAMING_BAD;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool framing_is_token(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != 0 && strchr("!#$%&'*+-.^_`|~", c));
}

bool framing_is_text(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

static struct slice trim(struct slice text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = slice_from(text, 1);
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static bool equal_folded(struct slice text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.data, word, text.len) == 0;
}

/* ---- the request line (RFC 9112, 3) --------------------------------------------- */

/* uri-host [":" port], or nothing (RFC 9110, 7.2). */
static bool is_authority(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~' || strchr("\"#/<>?@\\^`{|}", text.data[i]))
            return false;
    return true;
}

/* A path, with a scheme and a host before it as proxies are asked, or "*". */
static bool is_target(struct slice method, struct slice target)
{
    for (size_t i = 0; i < target.len; i++)
        if (target.data[i] <= ' ' || target.data[i] > '~')
            return false;
    if (slice_equal_text(target, "*"))
        return slice_equal_text(method, "OPTIONS");
    if (slice_starts_with(target, SLICE("/")))
        return true;
    size_t n = slice_starts_with(target, SLICE("http://"))    ? 7
               : slice_starts_with(target, SLICE("https://")) ? 8
                                                              : 0;
    struct slice host = slice_from(target, n);
    size_t len = 0;
    while (len < host.len && host.data[len] != '/' && host.data[len] != '?')
        len++;
    host.len = len;
    return n > 0 && host.len > 0 && is_authority(host);
}

static enum framing read_request_line(struct head *head, struct slice line)
{
    size_t first = 0;
    while (first < line.len && framing_is_token(line.data[first]))
        first++;
    if (first == 0 || first == line.len || line.data[first] != ' ')
        return refuse(head, 400, "the request line is not \"METHOD TARGET HTTP/1.1\"");
    struct slice method = {line.data, first};
    struct slice rest = slice_from(line, first + 1);
    const char *space = memchr(rest.data, ' ', rest.len);
    if (!space)
        return refuse(head, 400, "the request line has no HTTP version");
    struct slice target = {rest.data, (size_t)(space - rest.data)};
    struct slice version = slice_from(rest, target.len + 1);
    if (version.len != 8 || !slice_starts_with(version, SLICE("HTTP/")) ||
        !is_digit(version.data[5]) || version.data[6] != '.' || !is_digit(version.data[7]))
        return refuse(head, 400, "the request line does not end in an HTTP version");
    if (version.data[5] != '1')
        return refuse(head, 400, "this server speaks HTTP/1.1 and HTTP/1.0");
    if (!is_target(method, target))
        return refuse(head, 400, "the request's target is not a path that begins with '/'");
    head->method_len = method.len;
    head->target_begin = (size_t)(target.data - head->text.data);
    head->target_len = target.len;
    head->minor = version.data[7] == '0' ? 0 : 1;
    head->fields_begin = head->text.len;
    head->started = true;
    return FRAMING_MORE;
}

/* ---- fields (RFC 9112, 5) --------------------------------------------------------- */

static enum framing read_host(struct head *head, struct slice value)
{
    if (head->n_hosts++ > 0)
        return refuse(head, 400, "the request has more than one Host header");
    if (!is_authority(value))
        return refuse(head, 400, "the Host header is not a name with or without a port");
    return FRAMING_MORE;
}

/* One number, once. The standard lets equal ones be taken as one (RFC 9110, 8.6);
 * nobody who means well sends them. */
static enum framing read_length(struct head *head, struct slice value)
{
    if (head->has_length)
        return refuse(head, 400, "the request has more than one Content-Length header");
    uint64_t n = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (!is_digit(value.data[i]))
            return refuse(head, 400, "the Content-Length header is not one decimal number");
        uint64_t digit = (uint64_t)(value.data[i] - '0');
        if (n > (UINT64_MAX - digit) / 10)
            return refuse(head, 400, "the Content-Length header is too large a number");
        n = n * 10 + digit;
    }
    if (value.len == 0)
        return refuse(head, 400, "the Content-Length header is not one decimal number");
    head->has_length = true;
    head->length = n;
    return FRAMING_MORE;
}

/* "chunked" and nothing beside it: we decode no other coding, and a chunked that
 * is not the last one leaves the body without an end (RFC 9112, 6.1). */
static enum framing read_encoding(struct head *head, struct slice value)
{
    if (head->has_encoding)
        return refuse(head, 400, "the request has more than one Transfer-Encoding header");
    head->has_encoding = true;
    if (!equal_folded(value, "chunked"))
        return refuse(head, 400, "the only Transfer-Encoding that is understood is \"chunked\"");
    head->is_chunked = true;
    return FRAMING_MORE;
}

static enum framing read_connection(struct head *head, struct slice value)
{
    while (value.len > 0) {
        const char *comma = memchr(value.data, ',', value.len);
        struct slice option = {value.data, comma ? (size_t)(comma - value.data) : value.len};
        value = slice_from(value, option.len + 1);
        option = trim(option);
        if (equal_folded(option, "close"))
            head->says_close = true;
        else if (equal_folded(option, "keep-alive"))
            head->says_keep_alive = true;
    }
    return FRAMING_MORE;
}

static enum framing read_expectation(struct head *head, struct slice value)
{
    if (equal_folded(value, "100-continue"))
        head->expects_continue = true;
    return FRAMING_MORE;
}

/* The fields that say something of framing; the others are not looked at here. */
static const struct {
    const char *name;
    enum framing (*read)(struct head *head, struct slice value);
} framing_fields[] = {
    {"Host", read_host},
    {"Content-Length", read_length},
    {"Transfer-Encoding", read_encoding},
    {"Connection", read_connection},
    {"Expect", read_expectation},
};

static enum framing read_field(struct head *head, struct slice line)
{
    size_t n = 0;
    if (line.data[0] == ' ' || line.data[0] == '\t')
        return refuse(head, 400, "a header goes on in a second line, which is obsolete");
    while (n < line.len && framing_is_token(line.data[n]))
        n++;
    if (n == 0 || n == line.len || line.data[n] != ':')
        return refuse(head, 400, "a header is not \"Name: value\" without blanks in its name");
    struct slice name = {line.data, n};
    struct slice value = trim(slice_from(line, n + 1));
    for (size_t i = 0; i < sizeof framing_fields / sizeof *framing_fields; i++)
        if (equal_folded(name, framing_fields[i].name))
            return framing_fields[i].read(head, value);
    return FRAMING_MORE;
}

/* ---- the head as a whole ------------------------------------------------------------ */

/* RFC 9112, 3.2, 6.1 and 6.3. */
static enum framing finish(struct head *head)
{
    if (head->minor > 0 && head->n_hosts == 0)
        return refuse(head, 400, "the request has no Host header");
    if (head->has_encoding && head->has_length)
        return refuse(head, 400, "the request has both Content-Length and Transfer-Encoding");
    if (head->has_encoding && head->minor == 0)
        return refuse(head, 400, "HTTP/1.0 has no Transfer-Encoding");
    return FRAMING_DONE;
}

/* A line is complete: its CRLF stands at the end of text. */
static enum framing read_line(struct head *head)
{
    struct slice line = {head->text.data + head->line_begin, head->text.len - 2 - head->line_begin};
    head->line_begin = head->text.len;
    if (head->started)
        return line.len == 0 ? finish(head) : read_field(head, line);
    if (line.len > 0)
        return read_request_line(head, line);
    /* Blank lines before a request are for the sake of old clients (2.2). */
    str_clear(&head->text);
    head->line_begin = 0;
    return FRAMING_MORE;
}

/* FRAMING_DONE: c ends a line. */
static enum framing take_byte(struct head *head, char c)
{
    if (head->n_bytes == FRAMING_MAX_HEAD)
        return refuse(head, 431, "the request's headers are larger than 16 KiB");
    head->n_bytes++;
    if (head->after_cr) {
        head->after_cr = false;
        return c == '\n' ? FRAMING_DONE
                         : refuse(head, 400, "a CR in the request's head is not part of CRLF");
    }
    if (c == '\r')
        head->after_cr = true;
    else if (!framing_is_text(c))
        return refuse(head, 400,
                      c == '\n' ? "a line of the request's head does not end in CRLF"
                                : "the request's head has a control character");
    return FRAMING_MORE;
}

enum framing head_feed(struct head *head, struct slice bytes, size_t *n_taken)
{
    enum framing result = head->status ? FRAMING_BAD : FRAMING_MORE;
    size_t begin = 0, i = 0;
    while (i < bytes.len && result == FRAMING_MORE && !head->text.failed) {
        result = take_byte(head, bytes.data[i++]);
        if (result != FRAMING_DONE)
            continue;
        result = FRAMING_MORE;
        if (str_append(&head->text, bytes.data + begin, i - begin))
            result = read_line(head);
        begin = i;
    }
    if (result == FRAMING_MORE)
        str_append(&head->text, bytes.data + begin, i - begin);
    *n_taken = i;
    if (head->text.failed && !head->status)
        return refuse(head, 500, "out of memory");
    return result;
}

struct slice head_method(const struct head *head)
{
    return (struct slice){head->text.data, head->method_len};
}

struct slice head_target(const struct head *head)
{
    return (struct slice){head->text.data + head->target_begin, head->target_len};
}

bool head_next_field(const struct head *head, size_t *at, struct slice *name, struct slice *value)
{
    struct slice rest = slice_from(str_slice(&head->text), head->fields_begin + *at);
    size_t end = slice_find(rest, 0, SLICE("\r\n"));
    if (end == SLICE_NOT_FOUND || end == 0)
        return false;
    struct slice line = {rest.data, end};
    const char *colon = memchr(line.data, ':', line.len);
    *name = (struct slice){line.data, (size_t)(colon - line.data)};
    *value = trim(slice_from(line, name->len + 1));
    *at += end + 2;
    return true;
}

bool head_keeps_alive(const struct head *head)
{
    return !head->says_close && (head->minor > 0 || head->says_keep_alive);
}

void head_clear(struct head *head)
{
    str_free(&head->text);
    *head = (struct head){0};
}
