#include "muxd/doors/https/tls.h"
#include "base/err.h"
#include "base/slurp.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <string.h>
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
	char *text = NULL;
	BIO *bio = NULL;
	size_t len = 0;
	int rc = lseek(fd, 0, SEEK_SET) < 0 ? err_sys(e, errno, "read %s", what)
					    : slurp_fd(fd, what, PEM_MAX, &text, &len, e);

	if (rc == 0) {
		bio = BIO_new_mem_buf(text, (int)len);
		rc = bio ? use(ctx, bio, e) : err_set(e, ERR_NOMEM, "out of memory");
	}
	BIO_free(bio);
	slurp_free(text, len);
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
		rc = use_file(ctx, cert_fd, "the TLS certificate", use_chain, e);
	return rc ? rc : use_file(ctx, key_fd, "the TLS key", use_key, e);
}

int tls_secret(const SSL_CTX *ctx, const char *label, uint8_t out[32], struct err *e)
{
	uint8_t *der = NULL, mac[EVP_MAX_MD_SIZE];
	EVP_PKEY *key = SSL_CTX_get0_privatekey(ctx);
	int len = key ? i2d_PrivateKey(key, &der) : -1, rc = 0;
	unsigned n = 0;

	if (len <= 0 || !HMAC(EVP_sha256(), der, len, (const uint8_t *)label, strlen(label), mac, &n) || n != 32)
		rc = ssl_fail(e, "a secret of the key");
	else
		memcpy(out, mac, 32);
	OPENSSL_cleanse(mac, sizeof(mac));
	if (len > 0)
		OPENSSL_clear_free(der, (size_t)len);
	return rc;
}
