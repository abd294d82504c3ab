/*
 * rc_tls.h - what an endpoint asks of TLS, put on one connection before its handshake. OpenSSL 3.
 *
 * Made per connection from the endpoint of that moment, so a rotated certificate needs nothing more.
 */
#ifndef CONTROL_KUBE_EXEC_RC_TLS_H
#define CONTROL_KUBE_EXEC_RC_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct kube_endpoint;
struct rc_tls;

/* TLS 1.2 and later, http/1.1 (an exec cannot be asked for over HTTP/2). NULL when out of memory. */
SSL_CTX *rc_tls_context(void);
/* system: trusted where the endpoint names no CA; a reference is taken. ERR_K8S_TLS: what does not parse, and why. */
int rc_tls_create(const struct kube_endpoint *ep, X509_STORE *system, struct rc_tls **out, struct err *e);
void rc_tls_destroy(struct rc_tls *t); /* NULL-safe */
/* Between SSL_new() of a context of ours and the first flight. t must outlive ssl. ERR_K8S_TLS. */
int rc_tls_apply(struct rc_tls *t, SSL *ssl, struct err *e);
/* The server sent an alert. */
bool rc_tls_refused(const struct rc_tls *t);
/* After a failed handshake: why, "certificate has expired (CN=api)", "the server said: bad certificate". Never NULL. */
const char *rc_tls_words(struct rc_tls *t, char *out, size_t size);

#endif
