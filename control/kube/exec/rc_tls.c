#include "control/kube/exec/rc_tls.h"

#include "base/err.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#define READ_AHEAD (64 * 1024) /* several records a system call; who reads asks SSL_has_pending() */

struct rc_tls {
	X509_STORE *store;
	X509 *cert;
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
	char *name; /* SNI, and what the certificate must carry */
	bool insecure;
	long verify_error; /* of the certificate that failed first */
	char subject[128]; /* its name */
	int alert;         /* of the server, 0: none */
};

static int tls_err(struct err *e, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());
	int rc = err_set(e, ERR_K8S_TLS, "%s: %s", what, why ? why : "it cannot be read");

	ERR_clear_error();
	return rc;
}

/* A call-back that gives no passphrase: else OpenSSL would ask the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static BIO *memory(const char *p, size_t n)
{
	return n <= INT_MAX ? BIO_new_mem_buf(p, (int)n) : NULL;
}

/* PEM ends with "no start line", which is no error once something was read. */
static X509 *next_cert(BIO *b)
{
	X509 *x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL);

	if (!x && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
		ERR_clear_error();
	return x;
}

static int load_ca(struct rc_tls *t, const struct kube_endpoint *ep, struct err *e)
{
	BIO *b = memory(ep->ca_pem, ep->ca_pem_len);
	X509_STORE *store = X509_STORE_new();
	X509 *x;
	int n = 0, rc = 0;

	if (!b || !store)
		rc = err_set(e, ERR_NOMEM, "out of memory");
	ERR_clear_error();
	while (rc == 0 && (x = next_cert(b))) {
		if (X509_STORE_add_cert(store, x) != 1)
			rc = tls_err(e, "the cluster's certificate authority");
		X509_free(x);
		n++;
	}
	if (rc == 0 && (n == 0 || ERR_peek_last_error()))
		rc = tls_err(e, "the cluster's certificate authority");
	BIO_free(b);
	if (rc == 0)
		t->store = store;
	else
		X509_STORE_free(store);
	return rc;
}

static int load_cert(struct rc_tls *t, const struct kube_endpoint *ep, struct err *e)
{
	BIO *b = memory(ep->cert_pem, ep->cert_pem_len), *k = memory(ep->key_pem, ep->key_pem_len);
	X509 *x;
	int rc = 0;

	ERR_clear_error();
	t->chain = sk_X509_new_null();
	if (!b || !k || !t->chain)
		rc = err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0 && !(t->cert = next_cert(b)))
		rc = tls_err(e, "the client certificate");
	while (rc == 0 && (x = next_cert(b)))
		if (!sk_X509_push(t->chain, x)) {
			X509_free(x);
			rc = err_set(e, ERR_NOMEM, "out of memory");
		}
	if (rc == 0 && !(t->key = PEM_read_bio_PrivateKey(k, NULL, no_passphrase, NULL)))
		rc = tls_err(e, "the client certificate's key");
	if (rc == 0 && X509_check_private_key(t->cert, t->key) != 1)
		rc = tls_err(e, "the client certificate and its key do not belong together");
	BIO_free(b);
	BIO_free(k);
	return rc;
}

int rc_tls_create(const struct kube_endpoint *ep, X509_STORE *system, struct rc_tls **out, struct err *e)
{
	struct rc_tls *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (!t)
		return err_set(e, ERR_NOMEM, "out of memory");
	t->insecure = ep->insecure;
	t->name = strdup(ep->tls_server_name ? ep->tls_server_name : ep->host);
	if (!t->name)
		rc = err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0 && ep->ca_pem)
		rc = load_ca(t, ep, e);
	else if (rc == 0 && system && X509_STORE_up_ref(system))
		t->store = system;
	if (rc == 0 && ep->cert_pem)
		rc = load_cert(t, ep, e);
	if (rc == 0)
		*out = t;
	else
		rc_tls_destroy(t);
	return rc;
}

void rc_tls_destroy(struct rc_tls *t)
{
	if (!t)
		return;
	X509_STORE_free(t->store);
	X509_free(t->cert);
	sk_X509_pop_free(t->chain, X509_free);
	EVP_PKEY_free(t->key);
	free(t->name);
	free(t);
}

static int rc_tls_on_verify(int fine, X509_STORE_CTX *x)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(x, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct rc_tls *t = ssl ? SSL_get_app_data(ssl) : NULL;
	X509 *cert = X509_STORE_CTX_get_current_cert(x);

	if (fine || !t)
		return fine;
	if (t->insecure)
		return 1;
	if (t->verify_error == X509_V_OK) {
		t->verify_error = X509_STORE_CTX_get_error(x);
		if (cert)
			X509_NAME_oneline(X509_get_subject_name(cert), t->subject, sizeof(t->subject));
	}
	return 0;
}

static int apply_name(const struct rc_tls *t, SSL *ssl)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN); /* trust what is given, as Go and curl do */
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (X509_VERIFY_PARAM_set1_ip_asc(param, t->name)) {
		ERR_clear_error();
		return SSL_set_tlsext_host_name(ssl, NULL) == 1; /* RFC 6066: no addresses in SNI */
	}
	ERR_clear_error();
	return X509_VERIFY_PARAM_set1_host(param, t->name, 0) == 1 && SSL_set_tlsext_host_name(ssl, t->name) == 1;
}

int rc_tls_apply(struct rc_tls *t, SSL *ssl, struct err *e)
{
	bool ok = apply_name(t, ssl);

	t->verify_error = X509_V_OK;
	t->alert = 0;
	SSL_set_app_data(ssl, t);
	SSL_set_verify(ssl, SSL_VERIFY_PEER, rc_tls_on_verify);
	if (ok && t->store)
		ok = SSL_set1_verify_cert_store(ssl, t->store) == 1;
	if (ok && t->cert)
		ok = SSL_use_certificate(ssl, t->cert) == 1 && SSL_use_PrivateKey(ssl, t->key) == 1;
	for (int i = 0; ok && t->cert && i < sk_X509_num(t->chain); i++)
		ok = SSL_add1_chain_cert(ssl, sk_X509_value(t->chain, i)) == 1;
	return ok ? 0 : tls_err(e, "TLS");
}

/* close_notify is an end, not a complaint. */
static void rc_tls_on_info(const SSL *ssl, int where, int ret)
{
	struct rc_tls *t = SSL_get_app_data(ssl);

	if (t && where == SSL_CB_READ_ALERT && !t->alert && (ret & 0xff) != SSL_AD_CLOSE_NOTIFY)
		t->alert = ret;
}

SSL_CTX *rc_tls_context(void)
{
	static const unsigned char alpn[] = "\x08http/1.1";
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());

	if (!c || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_alpn_protos(c, alpn, sizeof(alpn) - 1) != 0) {
		SSL_CTX_free(c);
		return NULL;
	}
	SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(c, 1);
	SSL_CTX_set_default_read_buffer_len(c, READ_AHEAD);
	SSL_CTX_set_info_callback(c, rc_tls_on_info);
	return c;
}

bool rc_tls_refused(const struct rc_tls *t)
{
	return t->alert != 0;
}

const char *rc_tls_words(struct rc_tls *t, char *out, size_t size)
{
	if (t->verify_error != X509_V_OK)
		text_format(out, size, "%s (%s)", X509_verify_cert_error_string(t->verify_error), t->subject);
	else if ((t->alert & 0xff) == SSL_AD_CERTIFICATE_REQUIRED) /* OpenSSL 3.0 has no words for it */
		snprintf(out, size, "the server said: certificate required");
	else if (t->alert)
		text_format(out, size, "the server said: %s", SSL_alert_desc_string_long(t->alert));
	else
		snprintf(out, size, "the server does not speak TLS, or broke it off");
	return out;
}
