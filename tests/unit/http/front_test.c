/* front_test.c - static files, TLS, origins, limits of the front. */
#include "http/internal.h"
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSE "Connection: close\r\n"

static char root[] = "/tmp/mlxcel-front-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
}

static int make_folder(void **state)
{
    char path[256], target[256];
    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(path, sizeof path, "%s/www", root);
    if (mkdir(path, 0700) != 0)
        return -1;
    write_file("secret", "no");
    write_file("www/index.html", "<h1>hi</h1>");
    write_file("www/a.txt", "0123456789");
    snprintf(target, sizeof target, "%s/secret", root);
    snprintf(path, sizeof path, "%s/www/link", root);
    return symlink(target, path);
}

static int drop_folder(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void assert_get(const struct http_server *server, const char *path, const char *headers,
                       const char *part, const char *absent)
{
    char request[512];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n" CLOSE "%s\r\n", path,
             headers);
    char *answer = client_ask(server, request);
    if (!strstr(answer, part) || (absent && strstr(answer, absent)))
        fail_msg("GET %s gave:\n%s", path, answer);
    free(answer);
}

static void files_are_served_with_types_ranges_and_tags(void **state)
{
    (void)state;
    struct house house = {0};
    char folder[256];
    snprintf(folder, sizeof folder, "%s/www", root);
    struct http_settings settings = house_settings(&house);
    settings.static_folder = folder;
    struct http_server *server = house_open(&house, &settings);
    assert_get(server, "/", "", "Content-Type: text/html", NULL);
    assert_get(server, "/", "", "<h1>hi</h1>", NULL);
    assert_get(server, "/a.txt", "", "\r\n\r\n0123456789", NULL);
    assert_get(server, "/a.txt", "Range: bytes=2-4\r\n", "\r\n\r\n234", "\r\n\r\n2345");
    assert_get(server, "/a.txt", "Range: bytes=2-4\r\n", "Content-Range: bytes 2-4/10", NULL);
    assert_get(server, "/a.txt", "Range: bytes=-3\r\n", "\r\n\r\n789", NULL);
    assert_get(server, "/a.txt", "Range: bytes=99-\r\n", " 416 ", NULL);
    assert_get(server, "/a.txt", "If-None-Match: *\r\n", " 304 ", NULL);
    assert_get(server, "/health", "", "ok", NULL);
    http_server_stop(server, 500);
}

static void no_path_leaves_the_folder(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "/../secret",  "/%2e%2e/secret",    "/..%2fsecret",     "/a/../../secret",    "/link",
        "//../secret", "/www/../../secret", "/%2e%2e%2fsecret", "/a.txt%00/../secret"};
    struct house house = {0};
    char folder[256];
    snprintf(folder, sizeof folder, "%s/www", root);
    struct http_settings settings = house_settings(&house);
    settings.static_folder = folder;
    struct http_server *server = house_open(&house, &settings);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_get(server, paths[i], "", " 404 ", "\r\n\r\nno");
    http_server_stop(server, 500);
}

static void only_local_origins_are_local(void **state)
{
    (void)state;
    static const char *const local[] = {"http://localhost", "https://localhost",
                                        "http://localhost:3000", "http://127.0.0.1:99",
                                        "http://[::1]:8080"};
    static const char *const foreign[] = {"null",
                                          "http://localhost.evil.example",
                                          "http://evil.example",
                                          "http://localhost:evil",
                                          "ftp://localhost",
                                          "http://127.0.0.1.evil.example",
                                          "localhost",
                                          ""};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        assert_true(origin_is_localhost(slice_of(local[i])));
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        assert_false(origin_is_localhost(slice_of(foreign[i])));
}

static void tls_files_that_are_no_key_are_named(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_server *server = NULL;
    struct error err;
    char path[256];
    struct http_settings settings = house_settings(&house);
    snprintf(path, sizeof path, "%s/secret", root);
    settings.tls_key_file = path;
    settings.tls_cert_file = path;
    assert_false(http_server_start(&settings, &server, &err));
    assert_non_null(strstr(err.message, path));
    settings.tls_cert_file = NULL;
    assert_false(http_server_start(&settings, &server, &err));
    assert_non_null(strstr(err.message, path));
}

static void a_prefix_stands_before_every_route(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    settings.prefix = "/llm";
    struct http_server *server = house_open(&house, &settings);
    assert_get(server, "/llm/health", "", " 200 ", NULL);
    assert_get(server, "/health", "", " 404 ", NULL);
    assert_get(server, "/llmx/health", "", " 404 ", NULL);
    http_server_stop(server, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_served_with_types_ranges_and_tags),
        cmocka_unit_test(no_path_leaves_the_folder),
        cmocka_unit_test(only_local_origins_are_local),
        cmocka_unit_test(tls_files_that_are_no_key_are_named),
        cmocka_unit_test(a_prefix_stands_before_every_route),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
