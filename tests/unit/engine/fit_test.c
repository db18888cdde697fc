/* The context is as large as memory has room for, and no smaller than asked. */
#include "unit/unit.h"

#include "engine/fit.h"

static void what_fits_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(fit_n_ctx(4096, 1 << 20, 1 << 20, 512), 4096);
    assert_int_equal(fit_n_ctx(131072, 1, INT64_MAX, INT32_MAX), 131072);
}

static void what_does_not_fit_shrinks_to_a_multiple_of_256(void **state)
{
    (void)state;
    assert_int_equal(fit_n_ctx(8192, 1000, 500, 512), 4096);
    assert_int_equal(fit_n_ctx(8192, 1000, 499, 512), 3840);
}

static void no_context_is_smaller_than_the_least(void **state)
{
    (void)state;
    assert_int_equal(fit_n_ctx(8192, 1000, 10, 2048), 2048);
    assert_int_equal(fit_n_ctx(8192, 1000, -5, 2048), 2048);
    assert_int_equal(fit_n_ctx(1024, 1000, 0, 4096), 1024);
    /* -c 0: all of it, whatever that costs. */
    assert_int_equal(fit_n_ctx(8192, 1000, 10, INT32_MAX), 8192);
}

static void this_machine_tells_its_memory(void **state)
{
    (void)state;
    assert_true(memory_available() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_left_alone),
        cmocka_unit_test(what_does_not_fit_shrinks_to_a_multiple_of_256),
        cmocka_unit_test(no_context_is_smaller_than_the_least),
        cmocka_unit_test(this_machine_tells_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
