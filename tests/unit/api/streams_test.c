/* streams_test.c - kept streams stay within their limits and go when their time is over. */
#include "unit/unit.h"

#include "api/streams.h"
#include "base/clock.h"

#include <string.h>

static const struct stream_limits limits = {
    .n_sessions = 8, .bytes_each = 4000, .bytes_all = 20000, .ttl_ms = 60 * 1000};

static size_t count(struct streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    size_t n = streams->n_sessions;
    pthread_mutex_unlock(&streams->lock);
    return n;
}

static size_t bytes(struct streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    size_t n = streams->n_bytes;
    pthread_mutex_unlock(&streams->lock);
    return n;
}

static bool is_kept(struct streams *streams, const char *id)
{
    pthread_mutex_lock(&streams->lock);
    bool found = stream_find(streams, slice_of(id)) != NULL;
    pthread_mutex_unlock(&streams->lock);
    return found;
}

static struct stream_session *begin(struct streams *streams, const char *id, int n_events)
{
    struct stream_session *s = streams_begin(streams, slice_of(id));
    assert_non_null(s);
    for (int i = 0; i < n_events; i++)
        stream_session_write(s, SLICE("data: 0123456789012345678901234567890123456789\n\n"));
    return s;
}

static void all_sessions_together_have_a_limit(void **state)
{
    (void)state;
    struct streams *streams = streams_create_with(&limits);
    struct stream_session *running[6];
    char id[16];
    assert_non_null(streams);
    /* Finished ones: the oldest go. */
    for (int i = 0; i < 50; i++) {
        snprintf(id, sizeof id, "done-%d", i);
        stream_session_end(streams, begin(streams, id, 70), false);
        assert_true(bytes(streams) <= limits.bytes_all);
        assert_true(count(streams) <= limits.n_sessions);
    }
    assert_true(is_kept(streams, "done-49"));
    assert_false(is_kept(streams, "done-0"));
    /* Running ones stay, and lose their beginnings. */
    for (int i = 0; i < 6; i++) {
        snprintf(id, sizeof id, "runs-%d", i);
        running[i] = begin(streams, id, 200);
        assert_true(bytes(streams) <= limits.bytes_all);
    }
    for (int i = 0; i < 6; i++) {
        const struct str *kept = &running[i]->bytes;
        assert_true(kept->len <= limits.bytes_each + limits.bytes_each / 8);
        assert_int_equal(kept->len % 48, 0); /* whole events */
        assert_int_equal(running[i]->n_dropped + kept->len, 200 * 48);
        stream_session_end(streams, running[i], false);
    }
    streams_free(streams);
}

static void an_ended_stream_keeps_no_memory_it_does_not_need(void **state)
{
    (void)state;
    struct streams *streams = streams_create_with(&limits);
    struct stream_session *s = begin(streams, "a", 43);
    size_t running = bytes(streams);
    s->references++; /* so that it can be looked at */
    stream_session_end(streams, s, false);
    assert_true(bytes(streams) <= running);
    assert_true(s->bytes.capacity <= s->bytes.len + 64);
    pthread_mutex_lock(&streams->lock);
    stream_drop(s);
    pthread_mutex_unlock(&streams->lock);
    streams_free(streams);
}

/* No request comes, and still they go. */
static void sessions_expire_by_themselves(void **state)
{
    (void)state;
    struct stream_limits soon = limits;
    soon.ttl_ms = 20;
    struct streams *streams = streams_create_with(&soon);
    struct stream_session *runs = begin(streams, "runs", 1);
    stream_session_end(streams, begin(streams, "a", 10), false);
    stream_session_end(streams, begin(streams, "b", 10), false);
    for (int tries = 0; tries < 10000 && count(streams) > 1; tries++)
        clock_sleep_ms(1);
    assert_int_equal(count(streams), 1);
    assert_true(is_kept(streams, "runs"));
    stream_session_end(streams, runs, false);
    for (int tries = 0; tries < 10000 && count(streams) > 0; tries++)
        clock_sleep_ms(1);
    assert_int_equal(count(streams), 0);
    assert_int_equal(bytes(streams), 0);
    streams_free(streams);
}

static void long_ids_that_differ_late_are_two(void **state)
{
    (void)state;
    struct streams *streams = streams_create_with(&limits);
    char first[3000], second[3000];
    memset(first, 'x', sizeof first);
    first[sizeof first - 1] = 0;
    memcpy(second, first, sizeof first);
    second[sizeof second - 2] = 'y';
    struct stream_session *a = begin(streams, first, 1), *b = begin(streams, second, 1);
    assert_false(stream_session_cancelled(a));
    assert_int_equal(count(streams), 2);
    struct stream_session *again = begin(streams, first, 1);
    assert_true(stream_session_cancelled(a));
    assert_false(stream_session_cancelled(b));
    assert_int_equal(count(streams), 2);
    stream_session_end(streams, a, true);
    stream_session_end(streams, b, false);
    stream_session_end(streams, again, true);
    assert_true(is_kept(streams, second));
    assert_false(is_kept(streams, first));
    streams_free(streams);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sessions_together_have_a_limit),
        cmocka_unit_test(an_ended_stream_keeps_no_memory_it_does_not_need),
        cmocka_unit_test(sessions_expire_by_themselves),
        cmocka_unit_test(long_ids_that_differ_late_are_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
