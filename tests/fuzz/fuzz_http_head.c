/* fuzz_http_head.c - whatever a client sends, the parsers of heads and bodies take
 * it or refuse it, and it makes no difference how the bytes are cut.
 *
 * The first byte says how: each piece is that long, and the last pass is byte by
 * byte. What was taken must be what was sent: a head that was put together again
 * from its parts reads the same. */
#include "http/framing.h"

#include <stdio.h>
#include <stdlib.h>

struct outcome {
    struct str text; /* all requests, in one form */
    int n_requests, status;
};

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void append_head(struct str *out, const struct head *head)
{
    size_t at = 0;
    struct slice name, value;
    str_append_slice(out, head_method(head));
    str_append_char(out, ' ');
    str_append_slice(out, head_target(head));
    str_append_format(out, " HTTP/1.%d\r\n", head->minor);
    while (head_next_field(head, &at, &name, &value)) {
        check(name.len > 0 && !memchr(value.data, 0, value.len) &&
                  !memchr(value.data, '\r', value.len) && !memchr(value.data, '\n', value.len),
              "a field with a control character");
        str_append_slice(out, name);
        str_append_text(out, ": ");
        str_append_slice(out, value);
        str_append_text(out, "\r\n");
    }
    str_append_text(out, "\r\n");
}

/* The promises a head that is done makes to those who use it. */
static void check_head(const struct head *head)
{
    struct str again = {0};
    struct head second = {0};
    size_t n_taken;
    append_head(&again, head);
    check(!(head->has_length && head->is_chunked), "two framings");
    check(head->minor == 0 || head->n_hosts == 1, "no host");
    if (again.len <= FRAMING_MAX_HEAD) {
        check(head_feed(&second, str_slice(&again), &n_taken) == FRAMING_DONE &&
                  n_taken == again.len,
              "a head that is not one when it is written again");
        check(second.has_length == head->has_length && second.length == head->length &&
                  second.is_chunked == head->is_chunked &&
                  head_keeps_alive(&second) == head_keeps_alive(head),
              "a head that says something else when it is written again");
    }
    head_clear(&second);
    str_free(&again);
}

static struct outcome parse(struct slice bytes, size_t piece)
{
    struct outcome o = {0};
    struct head head = {0};
    struct body body = {0};
    bool in_body = false;
    size_t begin = 0;
    while (o.status == 0 && (begin < bytes.len || in_body)) {
        struct slice rest = slice_from(bytes, begin), content = {0};
        if (rest.len > piece)
            rest.len = piece;
        size_t n = 0;
        enum framing result =
            in_body ? body_feed(&body, rest, &n, &content) : head_feed(&head, rest, &n);
        check(n <= rest.len && content.len <= n, "more was taken than given");
        begin += n;
        str_append_slice(&o.text, content);
        if (result == FRAMING_BAD) {
            o.status = in_body ? 400 : head.status;
            check((in_body ? body.reason : head.reason) != NULL, "refused without a reason");
        } else if (result == FRAMING_DONE && in_body) {
            in_body = false;
            o.n_requests++;
            str_append_text(&o.text, "\n--\n");
            head_clear(&head);
        } else if (result == FRAMING_DONE) {
            check_head(&head);
            append_head(&o.text, &head);
            body_begin(&body, &head);
            in_body = true;
        } else if (begin == bytes.len) {
            break;
        } else {
            check(n > 0, "no progress");
        }
    }
    head_clear(&head);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct slice bytes = {(const char *)data + 1, size - 1};
    const size_t pieces[] = {size, (size_t)data[0] + 1, 1};
    struct outcome whole = parse(bytes, pieces[0]);
    for (size_t i = 1; i < sizeof pieces / sizeof *pieces; i++) {
        struct outcome cut = parse(bytes, pieces[i]);
        check(cut.n_requests == whole.n_requests && cut.status == whole.status &&
                  slice_equal(str_slice(&cut.text), str_slice(&whole.text)),
              "cut otherwise it is read otherwise");
        str_free(&cut.text);
    }
    str_free(&whole.text);
    return 0;
}
