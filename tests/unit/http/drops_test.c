/* drops_test.c - clients that vanish at any moment leave no descriptor behind. */
#include "unit/http/helpers.h"
#include "unit/unit.h"

#include "base/clock.h"

#include <dirent.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { N_DROPS = 240, N_AT_ONCE = 24, GRACE_MS = 3000 };

static void write_text(const char *path, gnutls_datum_t text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    fclose(file);
    gnutls_free(text.data);
}

/* A key and a certificate that it signed itself. */
static void write_pair(const char *key_path, const char *cert_path)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t text;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    assert_int_equal(gnutls_x509_crt_set_version(cert, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(cert, "\1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_dn(cert, "CN=localhost", NULL), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(cert, time(NULL) - 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_key(cert, key), 0);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), 0);
    write_text(key_path, text);
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &text), 0);
    write_text(cert_path, text);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

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

/* A client, with TLS or without. */
struct client {
    int fd;
    gnutls_session_t tls; /* NULL: none */
};

static void client_open(struct client *client, const struct http_server *server,
                        gnutls_certificate_credentials_t trust)
{
    struct timeval patience = {.tv_sec = 5};
    *client = (struct client){.fd = client_connect(server)};
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!trust)
        return;
    assert_int_equal(gnutls_init(&client->tls, GNUTLS_CLIENT), 0);
    gnutls_set_default_priority(client->tls);
    gnutls_credentials_set(client->tls, GNUTLS_CRD_CERTIFICATE, trust);
    gnutls_transport_set_int(client->tls, client->fd);
    int code;
    do
        code = gnutls_handshake(client->tls);
    while (code < 0 && !gnutls_error_is_fatal(code));
    assert_int_equal(code, 0);
}

static void client_say(struct client *client, const char *text)
{
    if (client->tls)
        gnutls_record_send(client->tls, text, strlen(text));
    else
        client_send(client->fd, text);
}

/* Go without a word; with a reset where abruptly. */
static void client_drop(struct client *client, bool abruptly)
{
    struct linger none = {.l_onoff = 1};
    if (abruptly)
        setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(client->fd);
    if (client->tls)
        gnutls_deinit(client->tls);
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
            client_say(&clients[i], sayings[i % N_SAYINGS]);
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
        client_say(&client, "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
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

struct tls_house {
    struct house house;
    char folder[64], key[80], cert[80];
    struct http_server *server;
};

static void tls_house_open(struct tls_house *t)
{
    memset(t, 0, sizeof *t);
    snprintf(t->folder, sizeof t->folder, "/tmp/mlxcel-drops-XXXXXX");
    assert_non_null(mkdtemp(t->folder));
    snprintf(t->key, sizeof t->key, "%s/key.pem", t->folder);
    snprintf(t->cert, sizeof t->cert, "%s/cert.pem", t->folder);
    write_pair(t->key, t->cert);
    struct http_settings settings = house_settings(&t->house);
    settings.tls_key_file = t->key;
    settings.tls_cert_file = t->cert;
    t->server = house_open(&t->house, &settings);
    unlink(t->key);
    unlink(t->cert);
    rmdir(t->folder);
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
