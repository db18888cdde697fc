/* log_test.c - what is logged is one line, whatever it holds. */
#include "unit/unit.h"

#include "base/log.h"
#include "base/printable.h"

#include <string.h>
#include <unistd.h>

static const struct {
    const char *text, *shown;
} cases[] = {
    {"plain, with\ta tab", "plain, with\ta tab"},
    {"na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80",
     "na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80"},
    {"llama\nE forged", "llama\\nE forged"},
    {"a\r\nb\r", "a\\r\\nb\\r"},
    {"\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"},
    {"\x7f\x08\x0b\x0c", "\\x7f\\x08\\x0b\\x0c"},
    {"\xc2\x9b"
     "31m \xc2\x85",
     "\\u009b31m \\u0085"},
    {"\xe2\x80\xa8 \xe2\x80\xae \xe2\x81\xa6 \xd8\x9c", "\\u2028 \\u202e \\u2066 \\u061c"},
    {"bad \xff\xc3( \xed\xa0\x80 \xe2\x82",
     "bad \xef\xbf\xbd\xef\xbf\xbd( \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd"},
    {"", ""},
};

static void control_characters_are_shown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str out = {0};
        assert_true(printable_append(&out, slice_of(cases[i].text)));
        assert_string_equal(str_text(&out), cases[i].shown);
        str_free(&out);
    }
}

static char path[] = "/tmp/mlxcel-log-XXXXXX", moved[64];

static void read_file(const char *from, char *text, size_t size)
{
    FILE *file = fopen(from, "rb");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static struct log_settings to_file(void)
{
    return (struct log_settings){.verbosity = LOG_ERROR, .file = path};
}

static void no_text_makes_a_second_line(void **state)
{
    (void)state;
    char text[4096], want[4096] = "";
    struct error err;
    struct log_settings settings = to_file();
    assert_true(log_configure(&settings, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        log_error("%s", cases[i].text);
        strcat(strcat(want, cases[i].shown), "\n");
    }
    read_file(path, text, sizeof text);
    assert_string_equal(text, want);
    log_close();
}

/* As what rotates logs does it: rename, then ask. */
static void the_file_is_opened_anew(void **state)
{
    (void)state;
    char text[4096];
    bool has_file;
    struct error err;
    struct log_settings settings = to_file();
    assert_int_equal(truncate(path, 0), 0);
    assert_true(log_configure(&settings, &err));
    log_error("one");
    assert_int_equal(rename(path, moved), 0);
    log_error("two");
    assert_true(log_reopen(&has_file, &err));
    assert_true(has_file);
    log_error("three");
    read_file(moved, text, sizeof text);
    assert_string_equal(text, "one\ntwo\n");
    read_file(path, text, sizeof text);
    assert_string_equal(text, "three\n");

    /* Where it cannot be, the old one goes on. */
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(log_reopen(&has_file, &err));
    assert_non_null(strstr(err.message, path));
    log_error("four");
    assert_int_equal(rmdir(path), 0);
    log_close();
    assert_true(log_reopen(&has_file, &err));
    assert_false(has_file);
}

static int begin(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    close(fd);
    snprintf(moved, sizeof moved, "%s.1", path);
    return fd < 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    unlink(moved);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_shown),
        cmocka_unit_test(no_text_makes_a_second_line),
        cmocka_unit_test(the_file_is_opened_anew),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
