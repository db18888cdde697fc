/* utf8_test.c - UTF-8 by table 3-7 of the Unicode Standard. */
#include "unit/unit.h"

#include "base/utf8.h"

/* Every code point survives encoding and decoding; surrogates do not exist. */
static void every_code_point_round_trips(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char bytes[4];
        size_t n = utf8_encode(cp, bytes);
        uint32_t back;
        bool valid;
        assert_int_equal(utf8_decode(bytes, n, &back, &valid), n);
        assert_true(valid);
        assert_int_equal(back, cp >= 0xD800 && cp <= 0xDFFF ? UTF8_REPLACEMENT : cp);
    }
}

/* A malformed sequence costs one replacement per maximal ill-formed prefix. */
static void malformed_bytes_become_replacements(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a\x80z", "a\xEF\xBF\xBDz"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE2\x82", "\xEF\xBF\xBD"},
        {"\xE2\x82z", "\xEF\xBF\xBDz"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str out = {0};
        assert_true(utf8_append_sanitized(&out, slice_of(cases[i].in)));
        assert_string_equal(str_text(&out), cases[i].out);
        str_free(&out);
    }
}

/* A stream holds back exactly the bytes that may still become a character. */
static void an_incomplete_tail_is_found(void **state)
{
    (void)state;
    assert_int_equal(utf8_incomplete_tail(SLICE("abc")), 0);
    assert_int_equal(utf8_incomplete_tail(SLICE("a\xC3")), 1);
    assert_int_equal(utf8_incomplete_tail(SLICE("a\xE2\x82")), 2);
    assert_int_equal(utf8_incomplete_tail(SLICE("a\xF0\x9F\x98")), 3);
    assert_int_equal(utf8_incomplete_tail(SLICE("a\xF0\x9F\x98\x80")), 0);
    assert_int_equal(utf8_incomplete_tail(SLICE("a\xED\xA0")), 0);
    assert_int_equal(utf8_incomplete_tail(SLICE("\x80\x80\x80\x80")), 0);
    assert_int_equal(utf8_incomplete_tail(SLICE("")), 0);
}

/* A lead byte waits for as many bytes as it announces, good ones or not. */
static void an_open_tail_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } cases[] = {{"", 0},
                 {"abc", 0},
                 {"a\xC3", 1},
                 {"a\xC3"
                  "b",
                  0},
                 {"a\xE2\x82", 2},
                 {"a\xE2"
                  "b",
                  2},
                 {"a\xE2"
                  "bc",
                  0},
                 {"\xE4"
                  "b\xC3",
                  1},
                 {"\x80\x80", 0},
                 {"\xF0\x9F\x98", 3},
                 {"\xF0\x9F\x98\x80", 0},
                 {"\xFF", 0},
                 {"\xED\xA0", 2},
                 {"\xF0"
                  "abc",
                  0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slice text = slice_of(cases[i].text);
        assert_int_equal(utf8_open_tail(text), cases[i].n);
        assert_true(utf8_open_tail(text) >= utf8_incomplete_tail(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_round_trips),
        cmocka_unit_test(malformed_bytes_become_replacements),
        cmocka_unit_test(an_incomplete_tail_is_found),
        cmocka_unit_test(an_open_tail_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
