/* connection_test.c - what a connection does while its client is slow, early,
 * half gone, or much. */
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include "base/clock.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BIG = 5 << 20, PATIENCE_MS = 20000, UNREAD = 32 << 20, SOCKET_BUFFERS = 16 << 20 };

#define CLOSE "Connection: close\r\n"

/* What nobody reads is kept up to a limit; then the stream is told to end. */
static void a_reader_that_takes_nothing_is_given_up(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    int fd = client_connect(server);
    client_send(fd, "GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 0; i < 30000 && atomic_load(&house.n_gone) == 0; i++)
        clock_sleep_ms(1);
    assert_int_equal(house.n_gone, 1);
    assert_true(atomic_load(&house.n_blocks) <= (UNREAD + SOCKET_BUFFERS) / FLOOD_BLOCK);
    assert_true(comes_to(&house.n_released, 1));
    for (int i = 0; i < 300 && http_server_n_connections(server) > 0; i++)
        clock_sleep_ms(10);
    assert_int_equal(http_server_n_connections(server), 0);
    close(fd);
    http_server_stop(server, 1000);
}

static void a_client_that_only_listens_on_is_answered(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    for (int i = 0; i < 50; i++) {
        int fd = client_connect(server);
        client_send(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
        shutdown(fd, SHUT_WR);
        char *answer = client_read(fd, PATIENCE_MS);
        if (!strstr(answer, "HTTP/1.1 200 ") || !strstr(answer, "\r\n\r\nhi"))
            fail_msg("no answer: %s", answer);
        free(answer);
        close(fd);
    }
    http_server_stop(server, 1000);
}

/* Bytes that wait in the socket do not hide that their sender is gone. */
static void a_hang_up_behind_early_bytes_is_noticed(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 1000, 30000};
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    for (int i = 0; i < 3; i++) {
        int fd = client_connect(server);
        client_send(fd, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_true(comes_to(&house.n_begun, i + 1));
        char *early = calloc(1, sizes[i]);
        send(fd, early, sizes[i], MSG_NOSIGNAL);
        free(early);
        clock_sleep_ms(20);
        assert_int_equal(house.n_gone, i);
        close(fd);
        assert_true(comes_to(&house.n_gone, i + 1));
    }
    http_server_stop(server, 1000);
}

/* ---- much ------------------------------------------------------------------------- */

static char *make_bytes(size_t n)
{
    char *bytes = malloc(n + 1);
    assert_non_null(bytes);
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (char)('a' + (seed >> 24) % 26);
    }
    bytes[n] = 0;
    return bytes;
}

struct upload {
    struct client *client;
    const char *bytes;
    bool chunked;
};

static void send_upload(const struct upload *u)
{
    char text[200];
    snprintf(text, sizeof text, "POST /echo HTTP/1.1\r\nHost: a\r\n" CLOSE "%s\r\n\r\n",
             u->chunked ? "Transfer-Encoding: chunked" : "Content-Length: 5242880");
    client_write(u->client, slice_of(text));
    struct slice rest = {u->bytes, BIG};
    for (size_t i = 0; rest.len > 0; i++) {
        size_t n = u->chunked ? 1 + i * 7919 % 60000 : 100000;
        if (n > rest.len)
            n = rest.len;
        snprintf(text, sizeof text, "%zx\r\n", n);
        if (u->chunked)
            client_write(u->client, slice_of(text));
        client_write(u->client, (struct slice){rest.data, n});
        if (u->chunked)
            client_write(u->client, SLICE("\r\n"));
        rest = slice_from(rest, n);
    }
    if (u->chunked)
        client_write(u->client, SLICE("0\r\n\r\n"));
}

static void assert_body(struct client *client, const char *bytes)
{
    bool closed;
    char *answer = client_read_all(client, PATIENCE_MS, &closed);
    const char *body = strstr(answer, "\r\n\r\n");
    assert_true(closed);
    assert_non_null(body);
    if (strlen(body + 4) != BIG || memcmp(body + 4, bytes, BIG) != 0)
        fail_msg("%zu bytes of %d came back, or others", strlen(body + 4), (int)BIG);
    free(answer);
}

static void echo_much(struct http_server *server, gnutls_certificate_credentials_t trust)
{
    char *bytes = make_bytes(BIG);
    for (int chunked = 0; chunked < 2; chunked++) {
        struct client client;
        client_open(&client, server, trust);
        send_upload(&(struct upload){&client, bytes, chunked == 1});
        assert_body(&client, bytes);
        client_drop(&client, false);
    }
    free(bytes);
}

static void much_comes_back_as_it_went(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    echo_much(server, NULL);
    http_server_stop(server, 1000);
}

static void much_comes_back_over_tls_as_it_went(void **state)
{
    (void)state;
    struct tls_house t;
    gnutls_certificate_credentials_t trust;
    tls_house_open(&t);
    assert_int_equal(gnutls_certificate_allocate_credentials(&trust), 0);
    echo_much(t.server, trust);
    gnutls_certificate_free_credentials(trust);
    http_server_stop(t.server, 1000);
}

static void a_large_file_is_sent_whole(void **state)
{
    (void)state;
    char folder[] = "/tmp/mlxcel-large-XXXXXX", path[64];
    char *bytes = make_bytes(BIG);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/large.txt", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, BIG, file), BIG);
    fclose(file);
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    settings.static_folder = folder;
    struct http_server *server = house_open(&house, &settings);
    struct client client;
    client_open(&client, server, NULL);
    client_write(&client, SLICE("GET /large.txt HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n"));
    clock_sleep_ms(50); /* its socket is full by now */
    assert_body(&client, bytes);
    client_drop(&client, false);
    http_server_stop(server, 1000);
    unlink(path);
    rmdir(folder);
    free(bytes);
}

/* Handshakes that stand still hold up nobody. */
static void unfinished_handshakes_do_not_disturb_others(void **state)
{
    (void)state;
    enum { N = 40 };
    static const char *const beginnings[] = {"", "\x16", "\x16\x03\x01\x02", "GET / HTTP/1.1\r\n"};
    struct tls_house t;
    gnutls_certificate_credentials_t trust;
    int idle[N];
    tls_house_open(&t);
    assert_int_equal(gnutls_certificate_allocate_credentials(&trust), 0);
    for (int i = 0; i < N; i++) {
        idle[i] = client_connect(t.server);
        client_send(idle[i], beginnings[i % 4]);
    }
    for (int i = 0; i < 20; i++) {
        struct client client;
        bool closed;
        client_open(&client, t.server, trust);
        client_write(&client, SLICE("GET /health HTTP/1.1\r\nHost: a\r\n" CLOSE "\r\n"));
        char *answer = client_read_all(&client, PATIENCE_MS, &closed);
        assert_non_null(strstr(answer, "{\"status\":\"ok\"}"));
        assert_true(closed);
        free(answer);
        client_drop(&client, false);
    }
    for (int i = 0; i < N; i++)
        close(idle[i]);
    gnutls_certificate_free_credentials(trust);
    http_server_stop(t.server, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_that_takes_nothing_is_given_up),
        cmocka_unit_test(a_client_that_only_listens_on_is_answered),
        cmocka_unit_test(a_hang_up_behind_early_bytes_is_noticed),
        cmocka_unit_test(much_comes_back_as_it_went),
        cmocka_unit_test(much_comes_back_over_tls_as_it_went),
        cmocka_unit_test(a_large_file_is_sent_whole),
        cmocka_unit_test(unfinished_handshakes_do_not_disturb_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
