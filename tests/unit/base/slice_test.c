/* slice_test.c - finding bytes in bytes. */
#include "unit/unit.h"

#include "base/slice.h"

static void the_first_place_at_or_after_is_found(void **state)
{
    (void)state;
    assert_int_equal(slice_find(SLICE("abcabc"), 0, SLICE("bc")), 1);
    assert_int_equal(slice_find(SLICE("abcabc"), 1, SLICE("bc")), 1);
    assert_int_equal(slice_find(SLICE("abcabc"), 2, SLICE("bc")), 4);
    assert_int_equal(slice_find(SLICE("abcabc"), 5, SLICE("bc")), SLICE_NOT_FOUND);
    assert_int_equal(slice_find(SLICE("a\0b"), 0, SLICE("\0b")), 1);
}

static void the_last_place_is_found(void **state)
{
    (void)state;
    assert_int_equal(slice_find_last(SLICE("abcabc"), SLICE("bc")), 4);
    assert_int_equal(slice_find_last(SLICE("abc"), SLICE("abcd")), SLICE_NOT_FOUND);
    assert_int_equal(slice_find_last(SLICE("abc"), SLICE("x")), SLICE_NOT_FOUND);
}

/* Nothing stands everywhere, also in nothing. */
static void an_empty_part_is_found_where_the_search_begins(void **state)
{
    (void)state;
    struct slice nothing = {NULL, 0};
    assert_int_equal(slice_find(SLICE("abc"), 2, nothing), 2);
    assert_int_equal(slice_find(SLICE("abc"), 3, nothing), 3);
    assert_int_equal(slice_find(SLICE("abc"), 4, nothing), SLICE_NOT_FOUND);
    assert_int_equal(slice_find(nothing, 0, nothing), 0);
    assert_int_equal(slice_find(nothing, 0, SLICE("a")), SLICE_NOT_FOUND);
    assert_int_equal(slice_find_last(SLICE("abc"), nothing), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_place_at_or_after_is_found),
        cmocka_unit_test(the_last_place_is_found),
        cmocka_unit_test(an_empty_part_is_found_where_the_search_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
