/* json_test.c - the JSON door, beyond what the library does. */
#include "unit/unit.h"

#include "base/json.h"

/* An integer of any length is a number, as other parsers have it. */
static void an_integer_too_big_for_64_bits_is_read_as_a_real(void **state)
{
    (void)state;
    struct error err;
    json_t *value = json_parse(SLICE("{\"n\": 1000000000000000019884624838656, \"m\": "
                                     "-99999999999999999999, \"s\": \"12345678901234567890\\\"1\","
                                     " \"r\": 0.12345678901234567890, \"i\": 7}"),
                               &err);
    assert_non_null(value);
    assert_true(json_real_value(json_object_get(value, "n")) == 1e30);
    assert_true(json_real_value(json_object_get(value, "m")) == -1e20);
    assert_string_equal(json_string_value(json_object_get(value, "s")), "12345678901234567890\"1");
    assert_true(json_real_value(json_object_get(value, "r")) == 0.1234567890123456789);
    assert_int_equal(json_integer_value(json_object_get(value, "i")), 7);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_integer_too_big_for_64_bits_is_read_as_a_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
