#include "muxd/monitor/cert.h"

#include "base/err.h"
#include "base/ids.h"
#include "base/slurp.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALID_S    (825L * 86400)
#define BACKDATE_S 3600L /* clients whose clocks are a little behind */
#define ISSUER     "muxd (self-signed)"
#define PEM_MAX    65536

static int crypto_error(struct err *e, const char *what)
{
	return err_set(e, ERR_INTERNAL, "libcrypto could not %s", what);
}

static bool is_address(const char *host)
{
	ASN1_OCTET_STRING *ip = a2i_IPADDRESS(host);

	ASN1_OCTET_STRING_free(ip);
	return ip != NULL;
}

static bool add_extension(X509 *x, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext && X509_add_ext(x, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

/* Names a client may use. Host names of the configuration are checked for the separators of this syntax. */
static void alternative_names(const char *host, char *out, size_t size)
{
	int n = snprintf(out, size, "DNS:localhost,IP:127.0.0.1,IP:::1");
	char name[256] = "";

	if (strpbrk(host, ",: \t") && !is_address(host))
		host = "";
	if (*host && strcmp(host, "localhost") != 0 && strcmp(host, "127.0.0.1") != 0 && strcmp(host, "::1") != 0)
		n += snprintf(out + n, size - (size_t)n, ",%s:%s", is_address(host) ? "IP" : "DNS", host);
	/* Listening on every address: the machine's own name is what others will type. */
	if ((strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) && gethostname(name, sizeof name - 1) == 0 &&
	    *name && !strpbrk(name, ",: \t"))
		snprintf(out + n, size - (size_t)n, ",DNS:%s", name);
}

static bool set_serial(X509 *x)
{
	uint8_t bytes[16];
	BIGNUM *n;
	bool ok;

	if (random_bytes(bytes, sizeof bytes))
		return false;
	bytes[0] &= 0x7f;
	n = BN_bin2bn(bytes, sizeof bytes, NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

static X509 *certificate_create(EVP_PKEY *key, const char *host, int64_t now_s)
{
	X509 *x = X509_new();
	X509_NAME *name = x ? X509_get_subject_name(x) : NULL;
	char names[512];

	if (!x)
		return NULL;
	alternative_names(host, names, sizeof names);
	if (X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
	    ASN1_TIME_set(X509_getm_notBefore(x), (time_t)now_s - BACKDATE_S) &&
	    ASN1_TIME_set(X509_getm_notAfter(x), (time_t)(now_s - BACKDATE_S) + VALID_S) &&
	    X509_set_pubkey(x, key) == 1 &&
	    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)ISSUER, -1, -1, 0) == 1 &&
	    X509_set_issuer_name(x, name) == 1 && add_extension(x, NID_subject_key_identifier, "hash") &&
	    add_extension(x, NID_basic_constraints, "critical,CA:FALSE") &&
	    add_extension(x, NID_key_usage, "critical,digitalSignature") &&
	    add_extension(x, NID_ext_key_usage, "serverAuth") && add_extension(x, NID_subject_alt_name, names) &&
	    X509_sign(x, key, EVP_sha256()) > 0)
		return x;
	X509_free(x);
	return NULL;
}

static int publish_bio(BIO *bio, const char *path, mode_t mode, struct file_owner owner, struct err *e)
{
	char *data = NULL;
	long len = BIO_get_mem_data(bio, &data);
	int rc;

	if (len <= 0)
		return crypto_error(e, "write a PEM file");
	rc = file_publish(path, data, (size_t)len, mode, owner, true, e);
	OPENSSL_cleanse(data, (size_t)len);
	return rc;
}

/* A PEM file in memory that is wiped when freed. given: by the operator, whose files are often links. */
static int open_pem(const char *path, bool given, BIO **out, struct err *e)
{
	BIO *bio = BIO_new(BIO_s_secmem());
	char *text = NULL;
	size_t len = 0;
	int rc = given ? file_read_given(path, PEM_MAX, &text, &len, e) : file_read(path, PEM_MAX, &text, &len, e);

	if (rc == 0 && (!bio || BIO_write(bio, text, (int)len) != (int)len))
		rc = crypto_error(e, "hold a PEM file");
	if (rc)
		BIO_free(bio);
	else
		*out = bio;
	slurp_free(text, len);
	return rc;
}

static int cert_load(const char *path, bool given, X509 **out, struct err *e)
{
	BIO *bio = NULL;
	int rc = open_pem(path, given, &bio, e);

	if (rc)
		return rc;
	*out = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	return *out ? 0 : err_set(e, ERR_CORRUPT, "%s holds no certificate", path);
}

static int load_key(const char *path, bool given, EVP_PKEY **out, struct err *e)
{
	BIO *bio = NULL;
	int rc = open_pem(path, given, &bio, e);

	if (rc)
		return rc;
	*out = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	BIO_free(bio);
	return *out ? 0 : err_set(e, ERR_CORRUPT, "%s holds no private key without a pass phrase", path);
}

static bool cert_is_ours(X509 *x)
{
	char name[64] = "";

	X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, name, sizeof name);
	return strcmp(name, ISSUER) == 0 && X509_NAME_cmp(X509_get_subject_name(x), X509_get_issuer_name(x)) == 0;
}

static int cert_describe(X509 *x, const char *host, struct cert_status *out, struct err *e)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	if (X509_digest(x, EVP_sha256(), digest, &len) != 1)
		return crypto_error(e, "take a certificate's fingerprint");
	for (unsigned i = 0; i < len; i++)
		snprintf(out->fingerprint_sha256 + 3 * i, 4, "%02X%s", digest[i], i + 1 < len ? ":" : "");
	out->covers_host =
	    is_address(host) ? X509_check_ip_asc(x, host, 0) == 1 : X509_check_host(x, host, 0, 0, NULL) == 1;
	if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
		out->covers_host = true;
	return 0;
}

static int make_key(const char *path, struct file_owner owner, EVP_PKEY **out, struct err *e)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	BIO *bio = BIO_new(BIO_s_secmem());
	int rc = ERR_INTERNAL;

	if (key && bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1)
		rc = publish_bio(bio, path, 0600, owner, e);
	else
		crypto_error(e, "make a TLS key");
	BIO_free(bio);
	if (rc)
		EVP_PKEY_free(key);
	else
		*out = key;
	return rc;
}

static int make_certificate(const char *path, EVP_PKEY *key, const char *host, int64_t now_s, struct file_owner owner,
			    X509 **out, struct err *e)
{
	X509 *x = certificate_create(key, host, now_s);
	BIO *bio = BIO_new(BIO_s_mem());
	int rc = ERR_INTERNAL;

	if (x && bio && PEM_write_bio_X509(bio, x) == 1)
		rc = publish_bio(bio, path, 0644, owner, e);
	else
		crypto_error(e, "make a TLS certificate");
	BIO_free(bio);
	if (rc)
		X509_free(x);
	else
		*out = x;
	return rc;
}

/* *out stays NULL when a certificate of ours is missing, expired or of another key, and is to be made. */
static int usable_certificate(const char *path, EVP_PKEY *key, time_t now, bool *out_expired, X509 **out, struct err *e)
{
	X509 *x = NULL;
	int rc = cert_load(path, false, &x, e);
	bool expired;

	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	expired = X509_cmp_time(X509_get0_notAfter(x), &now) <= 0;
	if (cert_is_ours(x) && (expired || !key || X509_check_private_key(x, key) != 1)) {
		X509_free(x);
		return 0;
	}
	if (!key || X509_check_private_key(x, key) != 1) {
		X509_free(x);
		return err_set(e, ERR_CONFIG, "the private key of certificate %s is not beside it", path);
	}
	*out_expired = expired;
	*out = x;
	return 0;
}

int cert_ensure(const char *key_path, const char *cert_path, const char *host, int64_t now_s, struct file_owner owner,
		struct cert_status *out, struct err *e)
{
	struct cert_status status = {0};
	EVP_PKEY *key = NULL;
	X509 *x = NULL;
	int rc = load_key(key_path, false, &key, e);

	if (rc && rc != ERR_NOT_FOUND)
		return rc;
	rc = usable_certificate(cert_path, key, (time_t)now_s, &status.expired, &x, e);
	if (rc == 0 && !key)
		rc = make_key(key_path, owner, &key, e);
	if (rc == 0 && !x) {
		status.made = true;
		rc = make_certificate(cert_path, key, host, now_s, owner, &x, e);
	}
	if (rc == 0)
		rc = cert_describe(x, host, &status, e);
	if (rc == 0)
		*out = status;
	X509_free(x);
	EVP_PKEY_free(key);
	return rc;
}

int cert_check(const char *key_path, const char *cert_path, const char *host, int64_t now_s, struct cert_status *out,
	       struct err *e)
{
	struct cert_status status = {0};
	time_t now = (time_t)now_s;
	EVP_PKEY *key = NULL;
	X509 *x = NULL;
	int rc = load_key(key_path, true, &key, e);

	if (rc == 0)
		rc = cert_load(cert_path, true, &x, e);
	if (rc == 0 && X509_check_private_key(x, key) != 1)
		rc = err_set(e, ERR_CONFIG, "%s is not the private key of certificate %s", key_path, cert_path);
	if (rc == 0)
		rc = cert_describe(x, host, &status, e);
	if (rc == 0) {
		status.expired = X509_cmp_time(X509_get0_notAfter(x), &now) <= 0;
		*out = status;
	}
	X509_free(x);
	EVP_PKEY_free(key);
	return rc;
}
