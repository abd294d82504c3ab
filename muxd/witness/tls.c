#include "muxd/witness/tls.h"

#include "base/clock.h"
#include "base/err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST_MAX    256
#define CHATTER_MAX (64 * 1024) /* bytes that a server may say before it ends; none are expected */

struct tls {
	const struct tls_call *call;
	uint64_t deadline_ns;
	char host[HOST_MAX], port[8];
	int fd;
	SSL_CTX *ctx;
	SSL *ssl;
};

static int failed(const struct tls *t, const char *what, struct err *e)
{
	long verdict = t->ssl ? SSL_get_verify_result(t->ssl) : X509_V_OK;
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	int en = errno;

	if (verdict != X509_V_OK)
		reason = X509_verify_cert_error_string(verdict);
	ERR_clear_error();
	return err_set(e, ERR_UNAVAILABLE, "%s: %s: %s", t->call->address, what,
		       reason ? reason
		       : en   ? strerror(en)
			      : "the connection ended");
}

static int tls_wait_for(struct tls *t, short events, struct err *e)
{
	struct pollfd pfd = {.fd = t->fd, .events = events};
	uint64_t now;
	int n = 0;

	while (n <= 0) {
		now = clock_boot_ns();
		if (now >= t->deadline_ns)
			return err_set(e, ERR_TIMEOUT, "%s: no answer in time", t->call->address);
		n = poll(&pfd, 1, (int)((t->deadline_ns - now) / NS_PER_MS) + 1);
		if (n < 0 && errno != EINTR)
			return err_sys(e, errno, "wait for %s", t->call->address);
	}
	return 0;
}

/* ---- the connection */

static int tls_split(struct tls *t, struct err *e)
{
	const char *a = t->call->address, *colon = strrchr(a, ':');
	bool bracket = a[0] == '[';
	size_t n = colon ? (size_t)(colon - a) - 2 * bracket : 0;

	if (!colon || n == 0 || n >= sizeof t->host || strlen(colon + 1) >= sizeof t->port)
		return err_set(e, ERR_CONFIG, "%s is no HOST:PORT", a);
	memcpy(t->host, a + bracket, n);
	snprintf(t->port, sizeof t->port, "%s", colon + 1);
	return 0;
}

static int connect_one(struct tls *t, const struct addrinfo *a, struct err *e)
{
	int en = 0, rc = 0;
	socklen_t size = sizeof en;

	t->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return err_sys(e, errno, "a socket");
	if (connect(t->fd, a->ai_addr, a->ai_addrlen) < 0)
		en = errno;
	if (en == EINPROGRESS && (rc = tls_wait_for(t, POLLOUT, e)) == 0 &&
	    getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &en, &size) < 0)
		en = errno;
	if (rc == 0 && en)
		rc = err_set(e, ERR_UNAVAILABLE, "%s: %s", t->call->address, strerror(en));
	if (rc) {
		close(t->fd);
		t->fd = -1;
	}
	return rc;
}

static int connect_any(struct tls *t, struct err *e)
{
	const struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	int rc = ERR_UNAVAILABLE, answer = getaddrinfo(t->host, t->port, &want, &list);

	if (answer)
		return err_set(e, ERR_UNAVAILABLE, "%s: %s", t->call->address, gai_strerror(answer));
	for (const struct addrinfo *a = list; a && rc && rc != ERR_TIMEOUT; a = a->ai_next)
		rc = connect_one(t, a, e);
	freeaddrinfo(list);
	return rc;
}

/* ---- certificates */

static int no_password(char *buf, int size, int rwflag, void *arg)
{
	(void)buf, (void)size, (void)rwflag, (void)arg;
	return -1;
}

static int trust(const struct tls *t, struct err *e)
{
	BIO *bio = BIO_new_mem_buf(t->call->ca, -1);
	X509_STORE *store = SSL_CTX_get_cert_store(t->ctx);
	X509 *x;
	int n = 0;

	while (bio && (x = PEM_read_bio_X509(bio, NULL, no_password, NULL)) != NULL) {
		n += X509_STORE_add_cert(store, x);
		X509_free(x);
	}
	ERR_clear_error();
	BIO_free(bio);
	return n ? 0 : err_set(e, ERR_CONFIG, "%s: its ca holds no certificate", t->call->address);
}

static int show_self(const struct tls *t, struct err *e)
{
	BIO *bio = BIO_new_mem_buf(t->call->certificate, -1), *kbio = BIO_new_mem_buf(t->call->certificate_key, -1);
	X509 *x = bio ? PEM_read_bio_X509(bio, NULL, no_password, NULL) : NULL, *more;
	EVP_PKEY *key = kbio ? PEM_read_bio_PrivateKey(kbio, NULL, no_password, NULL) : NULL;
	bool good = x && key && SSL_CTX_use_certificate(t->ctx, x) == 1 && SSL_CTX_use_PrivateKey(t->ctx, key) == 1;

	while (good && (more = PEM_read_bio_X509(bio, NULL, no_password, NULL)) != NULL)
		if (SSL_CTX_add0_chain_cert(t->ctx, more) != 1) {
			X509_free(more);
			good = false;
		}
	ERR_clear_error();
	X509_free(x);
	EVP_PKEY_free(key);
	BIO_free(bio);
	BIO_free(kbio);
	return good ? 0 : err_set(e, ERR_CONFIG, "%s: certificate and certificate_key are no pair", t->call->address);
}

/* The name that was configured, or the host; both may be a number. */
static bool expect_name(const struct tls *t)
{
	const char *name = t->call->name ? t->call->name : t->host;
	uint8_t number[16];

	if (inet_pton(AF_INET, name, number) == 1 || inet_pton(AF_INET6, name, number) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), name) == 1;
	return SSL_set1_host(t->ssl, name) == 1 && SSL_set_tlsext_host_name(t->ssl, name) == 1;
}

static int tls_set_up(struct tls *t, struct err *e)
{
	int rc;

	t->ctx = SSL_CTX_new(TLS_client_method());
	if (!t->ctx || SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION) != 1)
		return err_set(e, ERR_NOMEM, "no memory for a connection");
	SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
	rc = trust(t, e);
	if (rc == 0 && t->call->certificate)
		rc = show_self(t, e);
	if (rc)
		return rc;
	t->ssl = SSL_new(t->ctx);
	if (!t->ssl || SSL_set_fd(t->ssl, t->fd) != 1 || !expect_name(t))
		return err_set(e, ERR_NOMEM, "no memory for a connection");
	return 0;
}

/* ---- the exchange */

/* After a call that returned n <= 0: 0 when it can go on, 1: TLS said the end, 2: the connection ended. */
static int tls_go_on(struct tls *t, int n, const char *what, struct err *e)
{
	switch (SSL_get_error(t->ssl, n)) {
	case SSL_ERROR_WANT_READ:
		return tls_wait_for(t, POLLIN, e);
	case SSL_ERROR_WANT_WRITE:
		return tls_wait_for(t, POLLOUT, e);
	case SSL_ERROR_ZERO_RETURN:
		return 1;
	case SSL_ERROR_SSL:
		if (ERR_GET_REASON(ERR_peek_last_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING)
			return failed(t, what, e);
		ERR_clear_error();
		return 2;
	default:
		return failed(t, what, e);
	}
}

static int ended_early(const struct tls *t, const char *what, int rc, struct err *e)
{
	return rc > 0 ? err_set(e, ERR_UNAVAILABLE, "%s: %s: the server ended the connection", t->call->address, what)
		      : rc;
}

static int shake_hands(struct tls *t, struct err *e)
{
	int n, rc = 0;

	while (rc == 0 && (n = SSL_connect(t->ssl)) != 1)
		rc = tls_go_on(t, n, "TLS", e);
	return ended_early(t, "TLS", rc, e);
}

static int tls_write_all(struct tls *t, const void *p, size_t n, struct err *e)
{
	size_t put = 0;
	int rc = 0;

	ERR_clear_error();
	while (rc == 0 && SSL_write_ex(t->ssl, p, n, &put) != 1)
		rc = tls_go_on(t, 0, "write", e);
	return ended_early(t, "write", rc, e);
}

/* Both sides end; what the server says until then is passed over. */
static int tls_end(struct tls *t, bool *out_notified, struct err *e)
{
	char scrap[1024];
	size_t said = 0, n;
	int rc = 0, done;

	ERR_clear_error();
	while (rc == 0 && (done = SSL_shutdown(t->ssl)) < 0)
		rc = tls_go_on(t, done, "close", e);
	if (rc == 0 && shutdown(t->fd, SHUT_WR) < 0)
		rc = err_set(e, ERR_UNAVAILABLE, "%s: close: %s", t->call->address, strerror(errno));
	while (rc == 0) {
		ERR_clear_error();
		errno = 0;
		if (SSL_read_ex(t->ssl, scrap, sizeof scrap, &n) != 1)
			rc = tls_go_on(t, 0, "the server's end", e);
		else if ((said += n) > CHATTER_MAX)
			rc = err_set(e, ERR_PROTOCOL, "%s: it talks without end", t->call->address);
	}
	*out_notified = rc == 1;
	return rc > 0 ? 0 : rc;
}

int tls_deliver(const struct tls_call *c, const void *p, size_t n, bool *out_notified, struct err *e)
{
	struct tls t = {.call = c, .deadline_ns = clock_boot_ns() + c->timeout_ns, .fd = -1};
	int rc = tls_split(&t, e);

	ERR_clear_error();
	if (rc == 0)
		rc = connect_any(&t, e);
	if (rc == 0)
		rc = tls_set_up(&t, e);
	if (rc == 0)
		rc = shake_hands(&t, e);
	if (rc == 0)
		rc = tls_write_all(&t, p, n, e);
	if (rc == 0)
		rc = tls_end(&t, out_notified, e);
	SSL_free(t.ssl);
	SSL_CTX_free(t.ctx);
	if (t.fd >= 0)
		close(t.fd);
	return rc;
}
