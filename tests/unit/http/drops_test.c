/* drops_test.c - clients that vanish at any moment leave no descriptor behind. */
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include "base/clock.h"

#include <dirent.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { N_DROPS = 240, N_AT_ONCE = 24, GRACE_MS = 3000 };

static size_t n_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t n = 0;
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* What is said before going. */
static const char *const sayings[] = {
    "",
    "GET /hea",
    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf",
    "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /stream?n=100000 HTTP/1.1\r\nHost: a\r\n\r\n",
};
enum { N_SAYINGS = sizeof sayings / sizeof *sayings };

static void assert_descriptors_come_back(struct http_server *server, size_t n_before)
{
    size_t n = 0, n_connections = 0, n_exchanges = 0;
    /* Nobody talks to the server meanwhile: a connection that it merely forgot
     * would be found by chance when it wakes for another. */
    for (int waited = 0; waited < GRACE_MS; waited += 20) {
        n = n_descriptors();
        n_connections = http_server_n_connections(server);
        n_exchanges = http_server_n_exchanges(server);
        if (n <= n_before && n_connections == 0 && n_exchanges == 0)
            return;
        clock_sleep_ms(20);
    }
    fail_msg("%zu descriptors before, %zu after; %zu connections, %zu exchanges", n_before, n,
             n_connections, n_exchanges);
}

static void drop_clients(struct http_server *server, gnutls_certificate_credentials_t trust)
{
    struct client clients[N_AT_ONCE];
    size_t n_before = n_descriptors();
    for (int first = 0; first < N_DROPS; first += N_AT_ONCE) {
        for (int i = 0; i < N_AT_ONCE; i++) {
            client_open(&clients[i], server, trust);
            client_write(&clients[i], slice_of(sayings[i % N_SAYINGS]));
        }
        for (int i = 0; i < N_AT_ONCE; i++) {
            if (i % 5 == 0)
                clock_sleep_ms(3);
            client_drop(&clients[i], (i / N_SAYINGS) % 2);
        }
    }
    assert_descriptors_come_back(server, n_before);
}

/* One alone, so that nothing else wakes its thread. */
static void drop_within_a_stream(struct http_server *server, struct house *house,
                                 gnutls_certificate_credentials_t trust)
{
    size_t n_before = n_descriptors();
    for (int i = 1; i <= 4; i++) {
        struct client client;
        char block[64];
        client_open(&client, server, trust);
        client_write(&client, SLICE("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n"));
        if (client.tls)
            assert_true(gnutls_record_recv(client.tls, block, sizeof block) > 0);
        else
            assert_true(recv(client.fd, block, sizeof block, 0) > 0);
        clock_sleep_ms(50); /* nothing is to be written by now */
        client_drop(&client, i % 2);
        assert_true(comes_to(&house->n_gone, i));
        assert_descriptors_come_back(server, n_before);
    }
}

static void plain_connections_dropped_at_any_moment_are_closed(void **state)
{
    (void)state;
    struct house house = {0};
    struct http_settings settings = house_settings(&house);
    struct http_server *server = house_open(&house, &settings);
    drop_within_a_stream(server, &house, NULL);
    drop_clients(server, NULL);
    http_server_stop(server, 1000);
}

static void tls_connections_dropped_at_any_moment_are_closed(void **state)
{
    (void)state;
    struct tls_house t;
    gnutls_certificate_credentials_t trust;
    tls_house_open(&t);
    assert_int_equal(gnutls_certificate_allocate_credentials(&trust), 0);
    drop_within_a_stream(t.server, &t.house, trust);
    drop_clients(t.server, trust);
    gnutls_certificate_free_credentials(trust);
    http_server_stop(t.server, 1000);
}

static void tls_connections_dropped_within_the_handshake_are_closed(void **state)
{
    (void)state;
    /* Nothing, the beginning of the record of a greeting, and no TLS at all. */
    static const char *const beginnings[] = {"", "\x16", "\x16\x03\x01\x02", "GET / HTTP/1.1\r\n"};
    struct tls_house t;
    tls_house_open(&t);
    size_t n_before = n_descriptors();
    int fds[N_AT_ONCE];
    for (int first = 0; first < N_DROPS; first += N_AT_ONCE) {
        for (int i = 0; i < N_AT_ONCE; i++) {
            fds[i] = client_connect(t.server);
            client_send(fds[i], beginnings[i % 4]);
        }
        for (int i = 0; i < N_AT_ONCE; i++) {
            if (i % 5 == 0)
                clock_sleep_ms(3);
            client_drop(&(struct client){.fd = fds[i]}, (i / 4) % 2);
        }
    }
    assert_descriptors_come_back(t.server, n_before);
    http_server_stop(t.server, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_connections_dropped_at_any_moment_are_closed),
        cmocka_unit_test(tls_connections_dropped_at_any_moment_are_closed),
        cmocka_unit_test(tls_connections_dropped_within_the_handshake_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
