/* file_test.c - what names lead to: regular files alone, whole or not at all. */
#include "unit/unit.h"

#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/mlxcel-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void bind_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

/* Opening any of these for reading would wait, or read something that has no end. */
static void only_regular_files_are_opened(void **state)
{
    (void)state;
    static const struct {
        const char *name, *says;
    } cases[] = {{"pipe", "is a pipe"},
                 {"link", "is a pipe"},
                 {"socket", "is a socket"},
                 {"folder", "is a folder"},
                 {"/dev/zero", "is a device"}};
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(symlink("pipe", in_folder("link")), 0);
    assert_int_equal(mkdir(in_folder("folder"), 0700), 0);
    bind_socket(in_folder("socket"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = cases[i].name[0] == '/' ? cases[i].name : in_folder(cases[i].name);
        static const int flags[] = {O_RDONLY, O_WRONLY | O_APPEND | O_CREAT};
        for (size_t k = 0; k < 2; k++) {
            int fd;
            struct error err = {0};
            assert_false(file_open_regular(path, flags[k], FILE_ANY_SIZE, &fd, NULL, &err));
            assert_int_equal(fd, -1);
            assert_int_equal(err.code, ERR_INVALID);
            assert_non_null(strstr(err.message, cases[i].says));
            assert_ptr_equal(strstr(err.message, path), err.message);
        }
        struct error err = {0};
        assert_false(file_replace(path, SLICE("x"), 0600, &err));
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void an_absent_file_is_named(void **state)
{
    (void)state;
    struct error err = {0};
    struct str text = {0};
    assert_false(file_read_whole(in_folder("none"), 10, &text, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, in_folder("none")));
    str_free(&text);
}

/* The size is looked at first: of a terabyte nothing is read or allocated. */
static void the_limit_holds_before_anything_is_read(void **state)
{
    (void)state;
    struct error err = {0};
    struct str text = {0};
    make("large", "12345");
    str_append_text(&text, "before ");
    assert_true(file_read_whole(in_folder("large"), 5, &text, &err));
    assert_string_equal(str_text(&text), "before 12345");
    assert_false(file_read_whole(in_folder("large"), 4, &text, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(str_text(&text), "before 12345");
    assert_int_equal(truncate(in_folder("large"), (off_t)1 << 40), 0);
    size_t capacity = text.capacity;
    assert_false(file_read_whole(in_folder("large"), 1 << 20, &text, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(text.capacity, capacity);
    str_free(&text);
    unlink(in_folder("large"));
}

/* Files of /proc have content and no size. */
static void a_file_that_claims_to_be_empty_is_read_to_its_end(void **state)
{
    (void)state;
    struct error err = {0};
    struct str text = {0};
    assert_true(file_read_whole("/proc/self/status", 1 << 20, &text, &err));
    assert_non_null(strstr(str_text(&text), "VmRSS"));
    str_truncate(&text, 0);
    assert_false(file_read_whole("/proc/self/status", 16, &text, &err));
    assert_int_equal(err.code, ERR_LIMIT);
    str_free(&text);
}

static void bytes_at_an_offset_are_all_there_or_an_error(void **state)
{
    (void)state;
    struct error err = {0};
    char got[4] = "";
    int fd;
    make("short", "abcdef");
    assert_true(file_open_regular(in_folder("short"), O_RDONLY, 6, &fd, NULL, &err));
    assert_true(file_read_at(fd, "short", got, 3, 2, &err));
    assert_string_equal(got, "cde");
    assert_false(file_read_at(fd, "short", got, 3, 4, &err));
    assert_non_null(strstr(err.message, "byte 6"));
    close(fd);
    unlink(in_folder("short"));
}

static int count_entries(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(dir);
    return n;
}

static void expect_content(const char *name, const char *content)
{
    struct error err = {0};
    struct str text = {0};
    assert_true(file_read_whole(in_folder(name), 1 << 24, &text, &err));
    assert_string_equal(str_text(&text), content);
    str_free(&text);
}

static void a_file_is_made_and_replaced(void **state)
{
    (void)state;
    struct error err = {0};
    struct stat info;
    int before = count_entries();
    assert_true(file_replace(in_folder("new"), SLICE("one"), 0600, &err));
    expect_content("new", "one");
    assert_true(file_replace(in_folder("new"), SLICE("two, longer"), 0600, &err));
    expect_content("new", "two, longer");
    assert_int_equal(stat(in_folder("new"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(count_entries(), before + 1);
    assert_false(file_replace(in_folder("none/new"), SLICE("x"), 0600, &err));
    assert_int_equal(err.code, ERR_IO);
    unlink(in_folder("new"));
}

/* Whenever it is killed: the file is an old one or a new one, whole, and nothing else
 * has been left that the next start would not remove. */
static void a_killed_writer_leaves_whole_files(void **state)
{
    (void)state;
    enum { SIZE = 4 << 20, N_KILLS = 20 };
    char *data = malloc(SIZE);
    assert_non_null(data);
    int before = count_entries();
    for (int i = 0; i < N_KILLS; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (char fill = 'a';; fill = fill == 'z' ? 'a' : (char)(fill + 1)) {
                memset(data, fill, SIZE);
                file_replace(in_folder("killed"), (struct slice){data, SIZE}, 0600, NULL);
            }
        }
        usleep((useconds_t)(7000 + 1777 * i));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct stat info;
        if (stat(in_folder("killed"), &info) != 0)
            continue; /* not even the first was whole */
        struct str text = {0};
        struct error err;
        assert_true(file_read_whole(in_folder("killed"), SIZE, &text, &err));
        assert_int_equal(text.len, SIZE);
        for (size_t k = 1; k < text.len; k++)
            assert_int_equal(text.data[k], text.data[0]);
        str_free(&text);
    }
    file_remove_left_behind(folder);
    unlink(in_folder("killed"));
    assert_int_equal(count_entries(), before);
    free(data);
}

/* What another process is just writing is locked, and stays. */
static void only_what_nobody_writes_is_removed(void **state)
{
    (void)state;
    make(".mlxcel..1.1.tmp", "left behind");
    make(".mlxcel..1.2.tmp", "being written");
    make("x.1.tmp", "somebody's own");
    int fd = open(in_folder(".mlxcel..1.2.tmp"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(file_remove_left_behind(folder), 1);
    expect_content(".mlxcel..1.2.tmp", "being written");
    expect_content("x.1.tmp", "somebody's own");
    close(fd);
    assert_int_equal(file_remove_left_behind(folder), 1);
    assert_int_equal(file_remove_left_behind(in_folder("none")), 0);
    unlink(in_folder("x.1.tmp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(an_absent_file_is_named),
        cmocka_unit_test(the_limit_holds_before_anything_is_read),
        cmocka_unit_test(a_file_that_claims_to_be_empty_is_read_to_its_end),
        cmocka_unit_test(bytes_at_an_offset_are_all_there_or_an_error),
        cmocka_unit_test(a_file_is_made_and_replaced),
        cmocka_unit_test(a_killed_writer_leaves_whole_files),
        cmocka_unit_test(only_what_nobody_writes_is_removed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
