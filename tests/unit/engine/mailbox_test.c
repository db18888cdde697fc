/* mailbox_test.c - events arrive in order and wake whoever waits. */
#include "unit/unit.h"

#include "engine/internal.h"

static struct engine_event *numbered(int32_t number)
{
    struct engine_event *event = calloc(1, sizeof *event);
    assert_non_null(event);
    event->index = number;
    return event;
}

static void count_call(void *arg)
{
    ++*(int *)arg;
}

static void events_come_out_in_the_order_they_went_in(void **state)
{
    (void)state;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    for (int32_t i = 0; i < 10; i++)
        mailbox_put(mailbox, numbered(i));
    for (int32_t i = 0; i < 10; i++) {
        struct engine_event *event = engine_mailbox_take(mailbox, 0);
        assert_int_equal(event->index, i);
        engine_event_free(event);
    }
    assert_null(engine_mailbox_take(mailbox, 0));
    assert_null(engine_mailbox_take(mailbox, 5));
    engine_mailbox_free(mailbox);
}

static void the_owner_is_notified_once_until_it_has_emptied_the_box(void **state)
{
    (void)state;
    int calls = 0;
    struct engine_mailbox *mailbox = engine_mailbox_create(count_call, &calls);
    mailbox_put(mailbox, numbered(1));
    mailbox_put(mailbox, numbered(2));
    assert_int_equal(calls, 1);
    engine_event_free(engine_mailbox_take(mailbox, 0));
    engine_event_free(engine_mailbox_take(mailbox, 0));
    mailbox_put(mailbox, numbered(3));
    assert_int_equal(calls, 2);
    engine_mailbox_free(mailbox);
}

static void nothing_is_delivered_to_an_owner_who_has_gone(void **state)
{
    (void)state;
    int calls = 0;
    struct engine_mailbox *mailbox = engine_mailbox_create(count_call, &calls);
    struct engine_mailbox *held = mailbox_retain(mailbox);
    engine_mailbox_free(mailbox);
    mailbox_put(held, numbered(1));
    assert_int_equal(calls, 0);
    mailbox_release(held);
}

static void *put_later(void *arg)
{
    mailbox_put(arg, numbered(7));
    return NULL;
}

static void a_waiting_reader_wakes_up(void **state)
{
    (void)state;
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, put_later, mailbox), 0);
    struct engine_event *event = engine_mailbox_take(mailbox, -1);
    assert_int_equal(event->index, 7);
    engine_event_free(event);
    pthread_join(thread, NULL);
    engine_mailbox_free(mailbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_out_in_the_order_they_went_in),
        cmocka_unit_test(the_owner_is_notified_once_until_it_has_emptied_the_box),
        cmocka_unit_test(nothing_is_delivered_to_an_owner_who_has_gone),
        cmocka_unit_test(a_waiting_reader_wakes_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
