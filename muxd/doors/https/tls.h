/*
 * tls.h - certificate, key and rules of the API's TLS.
 *
 * TLS 1.2 and 1.3, forward secrecy and AEAD alone. The key is read once from
 * its descriptor and wiped; OpenSSL holds it then.
 */
#ifndef MUXD_DOORS_HTTPS_TLS_H
#define MUXD_DOORS_HTTPS_TLS_H

#include <openssl/ssl.h>

struct err;

/* Of the key, for a purpose that label names: the same after a restart, and nothing that tells of the key. */
int tls_secret(const SSL_CTX *ctx, const char *label, uint8_t out[32], struct err *e);
/* PEM certificate (with its chain, if any) and key, read from the start; the descriptors stay the caller's. */
int tls_setup(SSL_CTX *ctx, int cert_fd, int key_fd, struct err *e);

#endif
