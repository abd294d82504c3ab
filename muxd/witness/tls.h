/*
 * tls.h - some bytes to a server over TLS, which is then left. Blocking.
 *
 * TLS 1.2 at least; the certificate must hang on the given ones and bear the name. What was written counts as taken
 * when the server has ended the connection after this side did: a server that closes with bytes unread, or goes, makes
 * an error of it. Nothing is kept between two calls.
 */
#ifndef MUXD_WITNESS_TLS_H
#define MUXD_WITNESS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct tls_call {
	const char *address;                       /* HOST:PORT, [HOST]:PORT */
	const char *name;                          /* in its certificate; NULL: the host */
	const char *ca;                            /* PEM text */
	const char *certificate, *certificate_key; /* PEM text; NULL: none */
	uint64_t timeout_ns;                       /* of all of it but the look-up of the name */
};

/*
 * *out_notified: its end was said by TLS, which nobody between can forge; else the connection just ended.
 * ERR_TIMEOUT, ERR_UNAVAILABLE, ERR_CONFIG (certificates that are none).
 */
int tls_deliver(const struct tls_call *c, const void *p, size_t n, bool *out_notified, struct err *e);

#endif
