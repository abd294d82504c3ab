/*
 * https_client.h - a bare TLS client for tests of the HTTPS door: it writes what
 * it is told, whether that is HTTP or not, and reads one answer at a time.
 *
 * Static functions, for inclusion by one test. Reads time out after 10 s.
 */
#ifndef TESTS_LIB_HTTPS_CLIENT_H
#define TESTS_LIB_HTTPS_CLIENT_H

#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

struct client {
	int fd;
	SSL_CTX *ctx;
	SSL *ssl;
	char *in; /* bytes read, not yet used */
	size_t len, cap;
};

struct answer {
	int status; /* 0: the connection ended instead */
	char head[4096];
	char *body; /* to be freed */
	size_t len;
};

/* A new key and a certificate of its own, as PEM in memory files. */
static inline void make_certificate(int *out_cert_fd, int *out_key_fd)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_NAME *name = X509_get_subject_name(x);
	FILE *f;

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1, 0);
	X509_set_issuer_name(x, name);
	X509_sign(x, key, EVP_sha256());
	*out_cert_fd = memfd_create("cert", MFD_CLOEXEC);
	*out_key_fd = memfd_create("key", MFD_CLOEXEC);
	f = fdopen(dup(*out_cert_fd), "w");
	PEM_write_X509(f, x);
	fclose(f);
	f = fdopen(dup(*out_key_fd), "w");
	PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
	fclose(f);
	X509_free(x);
	EVP_PKEY_free(key);
}

static inline int client_tcp(int port, int rcvbuf)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct timeval tv = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (rcvbuf)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline bool client_open(struct client *c, int port, int rcvbuf)
{
	static const unsigned char alpn[] = {2, 'h', '2', 8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

	memset(c, 0, sizeof(*c));
	c->fd = client_tcp(port, rcvbuf);
	if (c->fd < 0)
		return false;
	c->ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_alpn_protos(c->ctx, alpn, sizeof(alpn));
	c->ssl = SSL_new(c->ctx);
	SSL_set_fd(c->ssl, c->fd);
	return SSL_connect(c->ssl) == 1;
}

static inline void client_close(struct client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	if (c->fd >= 0)
		close(c->fd);
	free(c->in);
	memset(c, 0, sizeof(*c));
	c->fd = -1;
}

static inline bool client_write(struct client *c, const void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		int w = SSL_write(c->ssl, (const char *)p + done, (int)(n - done));

		if (w <= 0)
			return false;
		done += (size_t)w;
	}
	return true;
}

static inline bool client_send(struct client *c, const char *s)
{
	return client_write(c, s, strlen(s));
}

static inline bool client_fill(struct client *c)
{
	int n;

	if (c->cap - c->len < 65536) {
		c->cap += 1 << 20;
		c->in = realloc(c->in, c->cap + 1);
	}
	n = SSL_read(c->ssl, c->in + c->len, 65536);
	if (n <= 0)
		return false;
	c->len += (size_t)n;
	c->in[c->len] = '\0';
	return true;
}

static inline void client_drop(struct client *c, size_t n)
{
	memmove(c->in, c->in + n, c->len - n + 1);
	c->len -= n;
}

/* The next answer; has_body false for HEAD and for 100. */
static inline void client_answer(struct client *c, bool has_body, struct answer *a)
{
	char *end, *length;
	size_t n, want = 0;

	memset(a, 0, sizeof(*a));
	while (!c->in || !(end = strstr(c->in, "\r\n\r\n")))
		if (!client_fill(c))
			return;
	n = (size_t)(end - c->in) + 4;
	snprintf(a->head, sizeof(a->head), "%.*s", (int)n, c->in);
	length = strstr(a->head, "Content-Length: ");
	if (has_body && length)
		want = strtoul(length + 16, NULL, 10);
	while (c->len < n + want)
		if (!client_fill(c))
			return;
	a->body = malloc(want + 1);
	memcpy(a->body, c->in + n, want);
	a->body[want] = '\0';
	a->len = want;
	client_drop(c, n + want);
	a->status = atoi(a->head + 9);
}

/* True when the server ended the connection. */
static inline bool client_ended(struct client *c)
{
	while (client_fill(c))
		c->len = 0;
	return SSL_get_error(c->ssl, 0) != SSL_ERROR_WANT_READ;
}

#endif
