#include "muxd/doors/https/tls.h"
#include "base/err.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <unistd.h>

#define PEM_MAX (64 * 1024)

/* OpenSSL's reason for the last failure; the queue is emptied. */
static int ssl_fail(struct err *e, const char *what)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return err_set(e, ERR_CONFIG, "TLS: %s: %s", what, reason ? reason : "not usable");
}

/* The whole file, wherever its offset stands. */
static int read_pem(int fd, const char *what, uint8_t *p, size_t *out_len, struct err *e)
{
	size_t len = 0;

	while (len < PEM_MAX) {
		ssize_t n = pread(fd, p + len, PEM_MAX - len, (off_t)len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "reading the TLS %s", what);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len == 0 || len == PEM_MAX)
		return err_set(e, ERR_CONFIG, "TLS: the %s is empty or too large", what);
	*out_len = len;
	return 0;
}

static int use_chain(SSL_CTX *ctx, BIO *bio, struct err *e)
{
	X509 *x = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);
	int ok;

	if (!x)
		return ssl_fail(e, "no certificate in PEM");
	ok = SSL_CTX_use_certificate(ctx, x);
	X509_free(x);
	if (ok != 1)
		return ssl_fail(e, "the certificate");
	while ((x = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		if (SSL_CTX_add0_chain_cert(ctx, x) != 1) {
			X509_free(x);
			return ssl_fail(e, "the certificate's chain");
		}
	}
	ERR_clear_error(); /* the end of the file is an error to OpenSSL */
	return 0;
}

static int use_key(SSL_CTX *ctx, BIO *bio, struct err *e)
{
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	int ok;

	if (!key)
		return ssl_fail(e, "no private key in PEM");
	ok = SSL_CTX_use_PrivateKey(ctx, key);
	EVP_PKEY_free(key);
	if (ok != 1 || SSL_CTX_check_private_key(ctx) != 1)
		return ssl_fail(e, "the private key does not fit the certificate");
	return 0;
}

static int use_file(SSL_CTX *ctx, int fd, const char *what, int (*use)(SSL_CTX *, BIO *, struct err *), struct err *e)
{
	uint8_t *p = OPENSSL_zalloc(PEM_MAX);
	BIO *bio = NULL;
	size_t len = 0;
	int rc;

	if (!p)
		return err_set(e, ERR_NOMEM, "out of memory");
	rc = read_pem(fd, what, p, &len, e);
	if (rc == 0) {
		bio = BIO_new_mem_buf(p, (int)len);
		rc = bio ? use(ctx, bio, e) : err_set(e, ERR_NOMEM, "out of memory");
	}
	BIO_free(bio);
	OPENSSL_clear_free(p, PEM_MAX);
	return rc;
}

static int use_rules(SSL_CTX *ctx, struct err *e)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
	    SSL_CTX_set1_groups_list(ctx, "X25519:P-256") != 1)
		return ssl_fail(e, "the protocol rules");
	return 0;
}

int tls_setup(SSL_CTX *ctx, int cert_fd, int key_fd, struct err *e)
{
	int rc = use_rules(ctx, e);

	if (rc == 0)
		rc = use_file(ctx, cert_fd, "certificate", use_chain, e);
	return rc ? rc : use_file(ctx, key_fd, "key", use_key, e);
}
