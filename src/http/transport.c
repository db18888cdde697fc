/* transport.c - bytes over a non-blocking socket, with TLS or without. */
#include "http/internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

bool transport_open(struct transport *t, int fd, const struct tls *tls)
{
    *t = (struct transport){.fd = fd};
    if (!tls->credentials)
        return true;
    if (gnutls_init(&t->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) == 0 &&
        gnutls_priority_set(t->tls, tls->priorities) == 0 &&
        gnutls_credentials_set(t->tls, GNUTLS_CRD_CERTIFICATE, tls->credentials) == 0) {
        gnutls_transport_set_int(t->tls, fd);
        return true;
    }
    transport_close(t);
    return false;
}

static int socket_result(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? TRANSPORT_AGAIN
                                                                     : TRANSPORT_FAILED;
}

static int tls_result(ssize_t code)
{
    return gnutls_error_is_fatal((int)code) || code == GNUTLS_E_REHANDSHAKE ? TRANSPORT_FAILED
                                                                            : TRANSPORT_AGAIN;
}

int transport_handshake(struct transport *t, bool *wants_write)
{
    int code = 0;
    if (t->tls)
        code = gnutls_handshake(t->tls);
    /* A warning of the peer's is no reason to wait for the socket. */
    for (int i = 0; i < 4 && code != 0 && code != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(code);
         i++)
        code = gnutls_handshake(t->tls);
    if (code == 0)
        return 0;
    *wants_write = gnutls_record_get_direction(t->tls) == 1;
    return code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED ? TRANSPORT_AGAIN
                                                                  : TRANSPORT_FAILED;
}

ssize_t transport_read(struct transport *t, void *out, size_t size)
{
    ssize_t n;
    if (!t->tls) {
        n = recv(t->fd, out, size, 0);
        return n < 0 ? socket_result() : n;
    }
    int n_warnings = 0;
    do
        n = gnutls_record_recv(t->tls, out, size);
    while (n == GNUTLS_E_WARNING_ALERT_RECEIVED && n_warnings++ < 4);
    if (n == GNUTLS_E_PREMATURE_TERMINATION)
        return 0;
    return n < 0 ? tls_result(n) : n;
}

ssize_t transport_write(struct transport *t, const void *data, size_t len)
{
    ssize_t n;
    if (!t->tls) {
        n = send(t->fd, data, len, MSG_NOSIGNAL);
        return n < 0 ? socket_result() : n;
    }
    n = t->resumes ? gnutls_record_send(t->tls, NULL, 0) : gnutls_record_send(t->tls, data, len);
    t->resumes = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED;
    return n < 0 ? tls_result(n) : n;
}

void transport_finish(struct transport *t)
{
    if (t->tls && !t->resumes)
        gnutls_bye(t->tls, GNUTLS_SHUT_WR);
    shutdown(t->fd, SHUT_WR);
}

ssize_t transport_discard(struct transport *t, void *scratch, size_t size)
{
    ssize_t n = recv(t->fd, scratch, size, MSG_DONTWAIT);
    return n < 0 ? socket_result() : n;
}

void transport_close(struct transport *t)
{
    if (t->tls)
        gnutls_deinit(t->tls);
    t->tls = NULL;
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
}
