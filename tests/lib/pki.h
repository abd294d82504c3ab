/*
 * pki.h - certificates for tests: an authority, and what it signs, as PEM files. P-256, SHA-256.
 */
#ifndef TESTS_LIB_PKI_H
#define TESTS_LIB_PKI_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define PKI_UNUSED __attribute__((unused))

/* NULL parts: none. */
struct pki {
	X509 *cert;
	EVP_PKEY *key;
};

static void pki_extend(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(ext);
	assert_int_equal(X509_add_ext(x, ext, -1), 1);
	X509_EXTENSION_free(ext);
}

/* by NULL: an authority that signs itself. san: "DNS:localhost,IP:127.0.0.1", NULL for a client. From days ago to days
 * from now. */
static PKI_UNUSED struct pki pki_make(const struct pki *by, const char *cn, const char *san, int from_days, int to_days)
{
	static long serial = 1;
	struct pki p = {.cert = X509_new(), .key = EVP_EC_gen("P-256")};

	assert_non_null(p.cert);
	assert_non_null(p.key);
	if (!by)
		by = &p;
	X509_set_version(p.cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(p.cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(p.cert), (long)from_days * 86400);
	X509_gmtime_adj(X509_getm_notAfter(p.cert), (long)to_days * 86400);
	X509_set_pubkey(p.cert, p.key);
	X509_NAME *name = X509_get_subject_name(p.cert);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1, 0);
	X509_set_issuer_name(p.cert, X509_get_subject_name(by->cert));
	pki_extend(p.cert, by->cert, NID_basic_constraints, by == &p ? "critical,CA:TRUE" : "CA:FALSE");
	if (san)
		pki_extend(p.cert, by->cert, NID_subject_alt_name, san);
	assert_true(X509_sign(p.cert, by->key, EVP_sha256()) > 0);
	return p;
}

static PKI_UNUSED void pki_write(const struct pki *p, const char *cert_path, const char *key_path)
{
	FILE *f = fopen(cert_path, "w");

	assert_non_null(f);
	assert_int_equal(PEM_write_X509(f, p->cert), 1);
	assert_int_equal(fclose(f), 0);
	if (!key_path)
		return;
	f = fopen(key_path, "w");
	assert_non_null(f);
	assert_int_equal(PEM_write_PrivateKey(f, p->key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(fclose(f), 0);
}

static PKI_UNUSED void pki_free(struct pki *p)
{
	X509_free(p->cert);
	EVP_PKEY_free(p->key);
	*p = (struct pki){0};
}

#endif
