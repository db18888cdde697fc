/* stops_test.c - stop strings: how much of them is looked for, and what is held back. */
#include "unit/engine/helpers.h"

#include <string.h>

static void add_stops(struct engine_request *request, const struct slice *words, size_t n)
{
    request->n_stop = n;
    request->stop = arena_alloc_array(&request->arena, n, sizeof *request->stop);
    assert_non_null(request->stop);
    for (size_t i = 0; i < n; i++)
        request->stop[i] = (struct slice){arena_duplicate(&request->arena, words[i]), words[i].len};
}

static void too_many_stop_strings_or_bytes_are_refused(void **state)
{
    enum { N = ENGINE_STOPS_MAX + 1, LONG = ENGINE_STOP_BYTES_MAX + 1 };
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct slice *words = calloc(N, sizeof *words);
    char *text = malloc(LONG);
    memset(text, '~', LONG);
    for (size_t i = 0; i < N; i++)
        words[i] = (struct slice){text, 1};
    const struct {
        size_t n, len;
        const char *limit; /* NULL: taken */
    } rows[] = {
        {ENGINE_STOPS_MAX, 1, NULL}, {N, 1, "1024"}, {1, LONG - 1, NULL}, {1, LONG, "65536"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct engine_request *request = test_request(10, 4, 4);
        struct error err = {0};
        words[0].len = rows[i].len;
        add_stops(request, words, rows[i].n);
        bool taken = engine_submit(*state, request, mailbox, NULL, &err);
        assert_int_equal(taken, rows[i].limit == NULL);
        if (taken) {
            engine_event_free(test_wait(mailbox));
            continue;
        }
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.message, rows[i].limit));
    }
    free(words);
    free(text);
    engine_mailbox_free(mailbox);
}

static bool ends_in_beginning(struct slice text, struct slice word)
{
    for (size_t n = 1; n <= word.len && n <= text.len; n++)
        if (memcmp(text.data + text.len - n, word.data, n) == 0)
            return true;
    return false;
}

/* Stream an answer with stop strings that it never completes: nothing is shown that
 * may still become one, and in the end everything is. Returns how often something was
 * held back. */
static int stream_with(struct engine *engine, const struct slice *words, size_t n)
{
    struct engine_request *request = test_request(70, 5, 40);
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    struct str shown = {0};
    int n_held = 0;
    request->stream = true;
    add_stops(request, words, n);
    assert_true(engine_submit(engine, request, mailbox, NULL, &err));
    for (bool done = false; !done;) {
        struct engine_event *event = engine_mailbox_take(mailbox, 30000);
        assert_non_null(event);
        str_append_slice(&shown, event->text);
        done = event->kind == ENGINE_EVENT_DONE;
        if (done)
            assert_true(slice_equal(str_slice(&shown), event->whole_text));
        if (event->kind == ENGINE_EVENT_TOKEN && event->text.len == 0)
            n_held++;
        for (size_t i = 0; i < n && event->kind == ENGINE_EVENT_TOKEN && event->text.len > 0; i++)
            assert_false(ends_in_beginning(str_slice(&shown), words[i]));
        engine_event_free(event);
    }
    str_free(&shown);
    engine_mailbox_free(mailbox);
    return n_held;
}

static void what_may_become_a_stop_string_is_held_back(void **state)
{
    struct engine_event *whole = test_run(*state, test_request(70, 5, 40));
    struct slice text = whole->whole_text;
    int n_tried = 0, n_held = 0;
    for (size_t at = 1; at + 12 < text.len; at += 2) {
        struct str word = {0};
        /* A piece of the text, some of them with a border of their own. */
        str_append(&word, text.data + at, 2 + at % 7);
        if (at % 3 == 0)
            str_append(&word, text.data + at, 1 + at % 4);
        str_append_text(&word, "~never");
        const struct slice words[] = {str_slice(&word), SLICE("aaaaaaaaaaaaaaab~")};
        bool plain = true;
        for (size_t i = 0; i < word.len; i++)
            plain = plain && !(word.data[i] & 0x80);
        if (plain) {
            n_tried++;
            n_held += stream_with(*state, words, 2);
        }
        str_free(&word);
    }
    assert_true(n_tried > 3);
    assert_true(n_held > n_tried / 2);
    engine_event_free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_many_stop_strings_or_bytes_are_refused),
        cmocka_unit_test(what_may_become_a_stop_string_is_held_back),
    };
    return cmocka_run_group_tests(tests, test_start, test_stop);
}
