/* budget_test.c - the limits on the work that one request may cause. */
#include "unit/unit.h"

#include "base/budget.h"

#include <string.h>

static void what_is_there_can_be_taken_and_not_more(void **state)
{
    (void)state;
    struct budget b = {.steps = 10, .bytes = 100};
    struct error err = {ERR_NONE, ""};
    assert_true(budget_step(&b, 4, &err));
    assert_true(budget_step(&b, 6, &err));
    assert_true(budget_step(&b, 0, &err));
    assert_false(budget_step(&b, 1, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_non_null(strstr(err.message, "steps"));
    assert_true(budget_bytes(&b, 100, &err));
    assert_false(budget_bytes(&b, 1, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_non_null(strstr(err.message, "memory"));
}

/* Also code that looks at the answer late ends soon. */
static void what_was_refused_once_stays_refused(void **state)
{
    (void)state;
    struct budget b = {.steps = 10, .bytes = 10};
    struct error err;
    assert_false(budget_step(&b, UINT64_MAX, &err));
    assert_false(budget_step(&b, 1, &err));
    assert_false(budget_bytes(&b, UINT64_MAX, &err));
    assert_false(budget_bytes(&b, 1, &err));
}

static void bytes_that_are_free_again_can_be_taken_again(void **state)
{
    (void)state;
    struct budget b = {.bytes = 10};
    struct error err;
    assert_true(budget_bytes(&b, 10, &err));
    budget_return(&b, 4);
    assert_false(budget_bytes(&b, 5, &err));
    budget_return(NULL, 4);
}

static void no_budget_is_no_limit(void **state)
{
    (void)state;
    struct error err;
    assert_true(budget_step(NULL, UINT64_MAX, &err));
    assert_true(budget_bytes(NULL, UINT64_MAX, &err));
}

struct client {
    unsigned asked;
    unsigned gone_after; /* questions */
};

static bool is_gone(void *arg)
{
    struct client *client = arg;
    return client->asked++ >= client->gone_after;
}

static void whoever_may_stop_the_work_is_asked_every_few_thousand_steps(void **state)
{
    (void)state;
    struct client client = {.gone_after = 10};
    struct budget b = {.steps = 1000000, .stopped = is_gone, .arg = &client};
    struct error err = {ERR_NONE, ""};
    uint64_t done = 0;
    while (done < 1000000 && budget_step(&b, 1, &err))
        done++;
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_int_equal(client.asked, 11);
    assert_in_range(done, 10 * 1000, 10 * 10000);
    assert_false(budget_step(&b, 1, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
}

/* Many steps at once are no way around the question. */
static void large_steps_ask_too(void **state)
{
    (void)state;
    struct client client = {.gone_after = 2};
    struct budget b = {.steps = UINT64_MAX, .stopped = is_gone, .arg = &client};
    struct error err = {ERR_NONE, ""};
    assert_true(budget_step(&b, UINT32_MAX, &err));
    assert_true(budget_step(&b, UINT64_C(1) << 40, &err));
    assert_false(budget_step(&b, 1 << 20, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_can_be_taken_and_not_more),
        cmocka_unit_test(what_was_refused_once_stays_refused),
        cmocka_unit_test(bytes_that_are_free_again_can_be_taken_again),
        cmocka_unit_test(no_budget_is_no_limit),
        cmocka_unit_test(whoever_may_stop_the_work_is_asked_every_few_thousand_steps),
        cmocka_unit_test(large_steps_ask_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
