/* server_test.c - the server's promises to clients, kept over real sockets. */
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLOSE "Connection: close\r\n"

static void assert_has(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text ? text : "(nothing)");
}

static void assert_ask(const struct http_server *server, const char *request, const char *part)
{
    char *answer = client_ask(server, request);
    assert_has(answer, part);
    free(answer);
}

static void a_route_answers_and_an_unknown_one_is_not_found(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    assert_ask(server, "GET /health HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", "{\"status\":\"ok\"}");
    assert_ask(
        server, "GET /nope HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n",
        "{\"error\":{\"code\":404,\"message\":\"File Not Found\",\"type\":\"not_found_error\"}}");
    assert_ask(server, "POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n" CLOSE "\r\nhi",
               "404");
    assert_ask(server, "GET /item/a%2fb%20c?x=1+2%26 HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", "404");
    assert_ask(server, "GET /item/a%20c?y=0&x=1+2%26 HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n",
               "a c|1 2&");
    assert_ask(server, "GET /health%00 HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", "404");
    http_server_stop(server, 1000);
}

static void head_has_the_headers_of_get_and_no_body(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    char *answer = client_ask(server, "HEAD /health HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n");
    assert_has(answer, "200 OK");
    assert_has(answer, "Content-Length: 15");
    assert_null(strstr(answer, "status"));
    free(answer);
    http_server_stop(server, 1000);
}

static void one_connection_serves_request_after_request(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    int fd = client_connect(server);
    for (int i = 0; i < 20; i++) {
        client_send(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        char *answer = client_read(fd, 100);
        assert_has(answer, "\r\n\r\nhello");
        free(answer);
    }
    close(fd);
    http_server_stop(server, 1000);
}

static void a_chunked_body_and_one_after_100_continue_are_read(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    assert_ask(server,
               "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" CLOSE
               "\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
               "\r\n\r\nabcdefg");
    int fd = client_connect(server);
    client_send(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: "
                    "100-continue\r\n" CLOSE "\r\n");
    char *answer = client_read(fd, 200);
    assert_has(answer, "100 Continue");
    free(answer);
    client_send(fd, "hello");
    answer = client_read(fd, 2000);
    assert_has(answer, "\r\n\r\nhello");
    free(answer);
    close(fd);
    http_server_stop(server, 1000);
}

static void bodies_and_heads_have_limits(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    settings.max_body = 10;
    struct http_server *server = house_open(&house, &settings);
    assert_ask(server,
               "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n" CLOSE "\r\nhello world",
               "413");
    assert_ask(server,
               "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n" CLOSE "\r\n",
               "413");
    assert_ask(server,
               "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" CLOSE
               "\r\nb\r\nhello world\r\n0\r\n\r\n",
               "limit of 10 bytes");
    struct str request = {0};
    str_append_text(&request, "GET /health HTTP/1.1\r\nHost: a\r\n" CLOSE "X: ");
    for (int i = 0; i < 20000; i++)
        str_append_char(&request, 'x');
    str_append_text(&request, "\r\n\r\n");
    assert_ask(server, request.data, " 431 ");
    str_free(&request);
    http_server_stop(server, 1000);
}

static void a_key_opens_what_is_not_public(void **state)
{
    (void)state;
    static const char *const keys[] = {"one", "two"};
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    settings.keys = keys;
    settings.n_keys = 2;
    struct http_server *server = house_open(&house, &settings);
    static const struct {
        const char *header, *answer;
    } cases[] = {{"", " 401 "},
                 {"Authorization: Bearer one\r\n", " 200 "},
                 {"Authorization: Bearer two\r\n", " 200 "},
                 {"Authorization: two\r\n", " 200 "},
                 {"X-Api-Key: one\r\n", " 200 "},
                 {"Authorization: Bearer three\r\n", " 401 "},
                 {"Authorization: Bearer on\r\n", " 401 "},
                 {"Authorization: Bearer oneone\r\n", " 401 "},
                 {"Authorization: bearer one\r\n", " 401 "},
                 {"Authorization: Bearer \r\n", " 401 "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char request[256];
        snprintf(request, sizeof request,
                 "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n" CLOSE "%s\r\nhi",
                 cases[i].header);
        assert_ask(server, request, cases[i].answer);
    }
    assert_ask(server, "GET /health HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", " 200 ");
    assert_ask(server, "GET /nope HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", " 401 ");
    assert_ask(server, "OPTIONS /echo HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", " 200 ");
    http_server_stop(server, 1000);
}

static void until_ready_every_route_says_loading(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = NULL;
    struct error err;
    assert_true(http_server_start(&settings, &server, &err));
    assert_ask(server, "GET /health HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", "Loading model");
    assert_ask(server, "GET /health HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", " 503 ");
    http_server_ready(server);
    assert_ask(server, "GET /health HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n", " 200 ");
    http_server_stop(server, 1000);
}

static void a_stream_arrives_event_by_event_to_its_end(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    char *answer = client_ask(server, "GET /stream?n=50 HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n");
    assert_has(answer, "Content-Type: text/event-stream");
    assert_has(answer, "data: 0\n\n");
    assert_has(answer, "data: 49\n\n");
    assert_has(answer, "\r\n0\r\n\r\n");
    free(answer);
    assert_true(comes_to(&house.n_released, 1));
    assert_int_equal(house.n_gone, 0);
    http_server_stop(server, 1000);
}

static void a_silent_stream_is_kept_alive_with_comments(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    int fd = client_connect(server);
    client_send(fd, "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    char *answer = client_read(fd, 1500);
    (void)answer;
    assert_has(answer, ":\n\n");
    free(answer);
    close(fd);
    http_server_stop(server, 1000);
}

/* Waiting for a whole answer, within a stream, and with the server behind a
 * Unix socket. */
static void a_hang_up_is_noticed_within_a_second(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n", "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"};
    static const char *const hosts[] = {"127.0.0.1", "/tmp/mlxcel-http-test.sock"};
    for (size_t h = 0; h < 2; h++) {
        for (size_t i = 0; i < 3; i++) {
            struct house house = {0};
            struct http_settings settings = house_settings(&house);
            settings.host = hosts[h];
            struct http_server *server = house_open(&house, &settings);
            int fd = client_connect(server);
            client_send(fd, requests[i]);
            assert_true(comes_to(&house.n_begun, 1));
            clock_sleep_ms(50);
            assert_int_equal(house.n_gone, 0);
            uint64_t before = clock_monotonic_us();
            close(fd);
            assert_true(comes_to(&house.n_gone, 1));
            assert_true(comes_to(&house.n_released, 1));
            assert_true(clock_monotonic_us() - before < 1000000);
            http_server_stop(server, 1000);
        }
    }
}

static void a_reader_that_goes_in_the_middle_of_a_stream_ends_it(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    for (int i = 0; i < 20; i++) {
        int fd = client_connect(server);
        client_send(fd, "GET /stream?n=100000 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_true(comes_to(&house.n_begun, i + 1));
        clock_sleep_ms(5);
        close(fd);
    }
    assert_true(comes_to(&house.n_released, 20));
    http_server_stop(server, 1000);
}

/* In the middle of a head or a body, its last bytes and its end together. */
static void a_client_that_goes_before_its_request_is_whole_leaves_nothing(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    static const char *const begins[] = {"", "POST /echo HTTP",
                                         "POST /echo HTTP/1.1\r\nHost: a\r\n"
                                         "Content-Length: 99\r\n\r\nabc"};
    for (int i = 0; i < 300; i++) {
        int fd = client_connect(server);
        client_send(fd, begins[i % 3]);
        close(fd);
    }
    for (int i = 0; i < 300 && http_server_n_connections(server) > 0; i++)
        clock_sleep_ms(10);
    assert_int_equal(http_server_n_connections(server), 0);
    http_server_stop(server, 1000);
}

static void a_client_that_trickles_is_closed(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    settings.timeout_s = 1;
    struct http_server *server = house_open(&house, &settings);
    static const char *const begins[] = {"GET /health HTT",
                                         "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: "
                                         "1000\r\n\r\nabc"};
    for (size_t i = 0; i < 2; i++) {
        int fd = client_connect(server);
        client_send(fd, begins[i]);
        uint64_t before = clock_monotonic_us();
        bool closed = false;
        while (!closed && clock_monotonic_us() - before < 4000000) {
            char byte;
            client_send(fd, "x");
            clock_sleep_ms(100);
            ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
            closed = n == 0 || (n < 0 && errno == ECONNRESET);
        }
        assert_true(closed);
        close(fd);
    }
    http_server_stop(server, 1000);
}

static void a_form_is_taken_apart(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    static const char body[] = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n"
                               "--XX\r\nContent-Disposition: form-data; name=\"f\"; "
                               "filename=\"x.bin\"\r\nContent-Type: a/b\r\n\r\n\r\n--XY\r\n"
                               "--XX--\r\n";
    char request[1024];
    snprintf(request, sizeof request,
             "POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; "
             "boundary=XX\r\nContent-Length: %zu\r\n" CLOSE "\r\n%s",
             sizeof body - 1, body);
    assert_ask(server, request, "a=one;f=\r\n--XY@x.bin;");
    snprintf(request, sizeof request,
             "POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; "
             "boundary=XX\r\nContent-Length: %zu\r\n" CLOSE "\r\n%.40s",
             (size_t)40, body);
    assert_ask(server, request, " 400 ");
    http_server_stop(server, 1000);
}

static void an_inner_exchange_needs_no_connection(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    assert_ask(server, "POST /outer HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n" CLOSE "\r\nab",
               "\r\n\r\nababab");
    http_server_stop(server, 1000);
}

static void a_stop_ends_what_waits_and_what_streams(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    int waits = client_connect(server), silent = client_connect(server);
    client_send(waits, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    client_send(silent, "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(comes_to(&house.n_begun, 2));
    clock_sleep_ms(50);
    uint64_t before = clock_monotonic_us();
    http_server_stop(server, 3000);
    assert_true(clock_monotonic_us() - before < 2000000);
    char *answer = client_read(waits, 500);
    assert_has(answer, " 503 ");
    free(answer);
    answer = client_read(silent, 500);
    assert_has(answer, "event: error");
    free(answer);
    close(waits);
    close(silent);
    assert_int_equal(house.n_released, 2);
}

/* Its threads may be anywhere in their round when the word to stop comes. */
static void a_server_can_be_stopped_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct house house = {0};
        struct http_settings settings = house_settings(&house);
        struct http_server *server = house_open(&house, &settings);
        int fd = i % 2 ? client_connect(server) : -1;
        if (fd >= 0)
            client_send(fd, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        if (i % 4 == 3)
            clock_sleep_ms(1);
        http_server_stop(server, 1000);
        if (fd >= 0)
            close(fd);
    }
}

static void a_bad_address_file_or_folder_is_named(void **state)
{
    (void)state;
    struct house house = {0};
    struct error err;
    struct http_server *server = NULL;
    struct http_settings settings = house_settings(&house);
    settings.tls_key_file = "/nonexistent/key.pem";
    settings.tls_cert_file = "/nonexistent/cert.pem";
    assert_false(http_server_start(&settings, &server, &err));
    assert_has(err.message, "/nonexistent/key.pem");
    settings = house_settings(&house);
    settings.static_folder = "/nonexistent/www";
    assert_false(http_server_start(&settings, &server, &err));
    assert_has(err.message, "/nonexistent/www");
    settings = house_settings(&house);
    struct http_server *first = house_open(&house, &settings);
    settings.port = http_server_port(first);
    assert_false(http_server_start(&settings, &server, &err));
    assert_has(err.message, "127.0.0.1");
    http_server_stop(first, 100);
}

static void the_blank_origin_header_is_sent(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    assert_ask(server, "GET /health HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n",
               "Access-Control-Allow-Origin: ");
    assert_ask(server, "GET /health HTTP/1.1\r\nHost: a\r\nOrigin: http://b.c\r\n" CLOSE "\r\n",
               "Access-Control-Allow-Origin: http://b.c\r\n");
    http_server_stop(server, 1000);
}

static void of_several_origins_the_matching_one_is_echoed(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    settings.cors_origins = "http://a.example, http://b.example";
    settings.cors_credentials = false;
    struct http_server *server = house_open(&house, &settings);
    assert_ask(server,
               "GET /health HTTP/1.1\r\nHost: a\r\nOrigin: http://b.example\r\n" CLOSE "\r\n",
               "Access-Control-Allow-Origin: http://b.example\r\n");
    char *answer = client_ask(
        server, "GET /health HTTP/1.1\r\nHost: a\r\nOrigin: http://c.example\r\n" CLOSE "\r\n");
    assert_null(strstr(answer, "Access-Control-Allow-Origin"));
    assert_has(answer, "Vary: Origin");
    free(answer);
    http_server_stop(server, 1000);
}

/* Whatever depends on who asks says so, or a cache shows one's answer to another. */
static void a_reflected_origin_varies(void **state)
{
    (void)state;
    static const struct {
        const char *origins;
        bool credentials, varies;
    } cases[] = {{"*", true, true},
                 {"*", false, false},
                 {"localhost", true, true},
                 {"localhost", false, true},
                 {"http://a.example", true, false},
                 {"http://a.example,http://localhost", true, true}};
    static const char *const origins[] = {"", "Origin: http://localhost\r\n",
                                          "Origin: http://c.example\r\n"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct house house = {0};
        struct http_settings settings = house_settings(&house);
        settings.cors_origins = cases[i].origins;
        settings.cors_credentials = cases[i].credentials;
        struct http_server *server = house_open(&house, &settings);
        for (size_t k = 0; k < sizeof origins / sizeof *origins; k++) {
            char request[200];
            snprintf(request, sizeof request, "%s /health HTTP/1.1\r\nHost: a\r\n" CLOSE "%s\r\n",
                     i % 2 ? "OPTIONS" : "GET", origins[k]);
            char *answer = client_ask(server, request);
            assert_int_equal(strstr(answer, "\r\nVary: Origin\r\n") != NULL, cases[i].varies);
            free(answer);
        }
        http_server_stop(server, 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_route_answers_and_an_unknown_one_is_not_found),
        cmocka_unit_test(head_has_the_headers_of_get_and_no_body),
        cmocka_unit_test(one_connection_serves_request_after_request),
        cmocka_unit_test(a_chunked_body_and_one_after_100_continue_are_read),
        cmocka_unit_test(bodies_and_heads_have_limits),
        cmocka_unit_test(a_key_opens_what_is_not_public),
        cmocka_unit_test(until_ready_every_route_says_loading),
        cmocka_unit_test(a_stream_arrives_event_by_event_to_its_end),
        cmocka_unit_test(a_silent_stream_is_kept_alive_with_comments),
        cmocka_unit_test(a_hang_up_is_noticed_within_a_second),
        cmocka_unit_test(a_reader_that_goes_in_the_middle_of_a_stream_ends_it),
        cmocka_unit_test(a_client_that_goes_before_its_request_is_whole_leaves_nothing),
        cmocka_unit_test(a_client_that_trickles_is_closed),
        cmocka_unit_test(a_form_is_taken_apart),
        cmocka_unit_test(an_inner_exchange_needs_no_connection),
        cmocka_unit_test(a_stop_ends_what_waits_and_what_streams),
        cmocka_unit_test(a_server_can_be_stopped_at_any_moment),
        cmocka_unit_test(a_bad_address_file_or_folder_is_named),
        cmocka_unit_test(the_blank_origin_header_is_sent),
        cmocka_unit_test(of_several_origins_the_matching_one_is_echoed),
        cmocka_unit_test(a_reflected_origin_varies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
