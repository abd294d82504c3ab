#include "control/kube/client/material.h"

#include "base/err.h"
#include "base/slurp.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/kubeconfig.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

int kube_bytes_set(struct kube_bytes *b, const char *data, size_t n)
{
	char *copy = malloc(n + 1);

	if (!copy)
		return ERR_NOMEM;
	memcpy(copy, data, n);
	copy[n] = '\0';
	kube_bytes_finish(b);
	b->data = copy;
	b->len = n;
	return 0;
}

void kube_bytes_finish(struct kube_bytes *b)
{
	slurp_free(b->data, b->len);
	*b = (struct kube_bytes){0};
}

static bool bytes_equal(const struct kube_bytes *a, const struct kube_bytes *b)
{
	return a->len == b->len && !a->data == !b->data && (!a->data || memcmp(a->data, b->data, a->len) == 0);
}

bool kube_material_equal(const struct kube_material *a, const struct kube_material *b)
{
	return bytes_equal(&a->ca, &b->ca) && bytes_equal(&a->cert, &b->cert) && bytes_equal(&a->key, &b->key) &&
	       bytes_equal(&a->token, &b->token);
}

void kube_material_finish(struct kube_material *m)
{
	kube_bytes_finish(&m->ca);
	kube_bytes_finish(&m->cert);
	kube_bytes_finish(&m->key);
	kube_bytes_finish(&m->token);
}

/* --- PEM */

static X509 *first_cert(const char *pem)
{
	BIO *in = BIO_new_mem_buf(pem, -1);
	X509 *x = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;

	BIO_free(in);
	ERR_clear_error();
	return x;
}

/* No password is asked for, least of all on a terminal. */
static int no_password(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static EVP_PKEY *first_key(const char *pem)
{
	BIO *in = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, no_password, NULL) : NULL;

	BIO_free(in);
	ERR_clear_error();
	return key;
}

static int check_certs(const char *pem, const char *what, struct err *e)
{
	X509 *x = first_cert(pem);

	if (!x)
		return err_set(e, ERR_CONFIG, "%s is not a PEM certificate", what);
	X509_free(x);
	return 0;
}

int kube_material_check_pair(const char *cert, const char *key, const char *what, struct err *e)
{
	X509 *x = first_cert(cert);
	EVP_PKEY *k = first_key(key);
	int rc = 0;

	if (!x)
		rc = err_set(e, ERR_CONFIG, "client certificate of %s: not a PEM certificate", what);
	else if (!k)
		rc = err_set(e, ERR_CONFIG, "client key of %s: not a PEM key without a password", what);
	else if (X509_check_private_key(x, k) != 1)
		rc = err_set(e, ERR_CONFIG, "client certificate and client key of %s do not belong together", what);
	ERR_clear_error();
	X509_free(x);
	EVP_PKEY_free(k);
	return rc;
}

bool kube_material_expired(const char *cert_pem, char *out, size_t size)
{
	X509 *x = first_cert(cert_pem);
	bool expired = x && X509_cmp_current_time(X509_get0_notAfter(x)) < 0;
	BIO *text = expired ? BIO_new(BIO_s_mem()) : NULL;
	int n = 0;

	if (text && ASN1_TIME_print(text, X509_get0_notAfter(x)) == 1)
		n = BIO_read(text, out, (int)size - 1);
	out[n > 0 ? n : 0] = '\0';
	BIO_free(text);
	X509_free(x);
	ERR_clear_error();
	return expired;
}

int kube_material_check_token(const char *token, const char *what, struct err *e)
{
	size_t len = strlen(token);

	if (len == 0)
		return err_set(e, ERR_CONFIG, "%s is empty", what);
	if (len > KUBE_TOKEN_MAX)
		return err_set(e, ERR_CONFIG, "%s is longer than %d bytes", what, KUBE_TOKEN_MAX);
	for (const char *p = token; *p; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
			return err_set(e, ERR_CONFIG, "%s holds a character that no token has", what);
	return 0;
}

/* --- files */

static int material_load(const struct kube_source *s, size_t max, struct kube_bytes *out, struct err *e)
{
	if (s->path)
		return slurp_file(s->path, 0, max, &out->data, &out->len, e);
	if (s->data && kube_bytes_set(out, s->data, s->len) < 0)
		return err_set(e, ERR_NOMEM, "no memory for credentials");
	return 0;
}

static const char *named(const struct kube_source *s, const char *what)
{
	return s->path ? s->path : what;
}

/* Editors and secrets leave a line's end behind it. */
static void trim(struct kube_bytes *b)
{
	size_t end = b->len, start = 0;

	while (end > 0 && strchr(" \t\r\n", b->data[end - 1]))
		end--;
	while (start < end && strchr(" \t\r\n", b->data[start]))
		start++;
	memmove(b->data, b->data + start, end - start);
	explicit_bzero(b->data + (end - start), b->len - (end - start));
	b->len = end - start;
}

static int load_all(const struct kubeconfig *k, struct kube_material *m, struct err *e)
{
	int rc = material_load(&k->ca, KUBE_PEM_MAX, &m->ca, e);

	if (rc == 0)
		rc = material_load(&k->cert, KUBE_PEM_MAX, &m->cert, e);
	if (rc == 0)
		rc = material_load(&k->key, KUBE_PEM_MAX, &m->key, e);
	if (rc == 0)
		rc = material_load(&k->token, KUBE_TOKEN_MAX + 16, &m->token, e);
	if (rc == 0 && m->token.data)
		trim(&m->token);
	return rc;
}

static int check_all(const struct kubeconfig *k, const struct kube_material *m, struct err *e)
{
	int rc = m->ca.data ? check_certs(m->ca.data, named(&k->ca, "certificate-authority-data"), e) : 0;

	if (rc == 0 && m->cert.data)
		rc = kube_material_check_pair(m->cert.data, m->key.data, k->name, e);
	if (rc == 0 && m->token.data)
		rc = kube_material_check_token(m->token.data, named(&k->token, "token"), e);
	return rc;
}

int kube_material_load(const struct kubeconfig *k, struct kube_material *out, struct err *e)
{
	struct kube_material m = {0};
	int rc = load_all(k, &m, e);

	if (rc == 0)
		rc = check_all(k, &m, e);
	if (rc < 0)
		kube_material_finish(&m);
	else
		*out = m;
	return rc;
}
