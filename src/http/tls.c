/* tls.c - the key and the certificate, checked before anything listens. */
#include "http/internal.h"

#include "base/file.h"

#include <gnutls/x509.h>

enum { PEM_LIMIT = 1 << 20 };

static bool read_pem(const char *what, const char *path, struct str *out, struct error *err)
{
    if (!file_read_whole(path, PEM_LIMIT, out, err))
        return error_prefix(err, "TLS %s", what);
    return out->len > 0 || error_set(err, ERR_FORMAT, "TLS %s %s is empty", what, path);
}

static gnutls_datum_t datum(const struct str *text)
{
    return (gnutls_datum_t){(unsigned char *)text->data, (unsigned)text->len};
}

/* What the two files hold, and whether they belong together. */
static bool take_pair(struct tls *tls, const char *key_file, const char *cert_file,
                      const struct str *key, const struct str *cert, struct error *err)
{
    gnutls_datum_t key_pem = datum(key), cert_pem = datum(cert);
    gnutls_x509_privkey_t parsed_key = NULL;
    gnutls_x509_crt_t *chain = NULL;
    unsigned n_chain = 0;
    bool ok = false;

    int code = gnutls_x509_privkey_init(&parsed_key);
    if (code == 0)
        code = gnutls_x509_privkey_import2(parsed_key, &key_pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code != 0) {
        error_set(err, ERR_FORMAT, "TLS key %s is not a private key in PEM without a password: %s",
                  key_file, gnutls_strerror(code));
        goto out;
    }
    code = gnutls_x509_crt_list_import2(&chain, &n_chain, &cert_pem, GNUTLS_X509_FMT_PEM, 0);
    if (code < 0 || n_chain == 0) {
        error_set(err, ERR_FORMAT, "TLS certificate %s is not a certificate in PEM: %s", cert_file,
                  gnutls_strerror(code));
        goto out;
    }
    code = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (code == 0)
        code = gnutls_certificate_set_x509_key_mem(tls->credentials, &cert_pem, &key_pem,
                                                   GNUTLS_X509_FMT_PEM);
    if (code < 0) {
        error_set(err, ERR_FORMAT, "TLS key %s does not belong to certificate %s: %s", key_file,
                  cert_file, gnutls_strerror(code));
        goto out;
    }
    ok = true;
out:
    for (unsigned i = 0; i < n_chain; i++)
        gnutls_x509_crt_deinit(chain[i]);
    gnutls_free(chain);
    if (parsed_key)
        gnutls_x509_privkey_deinit(parsed_key);
    return ok;
}

bool tls_open(struct tls *tls, const char *key_file, const char *cert_file, struct error *err)
{
    struct str key = {0}, cert = {0};
    *tls = (struct tls){0};
    bool ok = read_pem("key", key_file, &key, err) &&
              read_pem("certificate", cert_file, &cert, err) &&
              take_pair(tls, key_file, cert_file, &key, &cert, err);
    str_free(&key);
    str_free(&cert);
    if (!ok)
        return false;
    int code =
        gnutls_priority_init(&tls->priorities, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL);
    if (code < 0)
        return error_set(err, ERR_IO, "TLS cannot be set up: %s", gnutls_strerror(code));
    return true;
}

void tls_close(struct tls *tls)
{
    if (tls->credentials)
        gnutls_certificate_free_credentials(tls->credentials);
    if (tls->priorities)
        gnutls_priority_deinit(tls->priorities);
    *tls = (struct tls){0};
}
