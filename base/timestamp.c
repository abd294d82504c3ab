#include "base/timestamp.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ts.h>
#include <openssl/x509_vfy.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NONCE 16

static const char *reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	return text ? text : "malformed";
}

/* ---- the question */

static bool set_imprint(TS_REQ *req, const uint8_t hash[TIMESTAMP_HASH])
{
	TS_MSG_IMPRINT *m = TS_MSG_IMPRINT_new();
	X509_ALGOR *algo = X509_ALGOR_new();
	bool good = m && algo && X509_ALGOR_set0(algo, OBJ_nid2obj(NID_sha256), V_ASN1_NULL, NULL) == 1 &&
		    TS_MSG_IMPRINT_set_algo(m, algo) == 1 &&
		    TS_MSG_IMPRINT_set_msg(m, (uint8_t *)(uintptr_t)hash, TIMESTAMP_HASH) == 1 &&
		    TS_REQ_set_version(req, 1) == 1 && TS_REQ_set_msg_imprint(req, m) == 1;

	X509_ALGOR_free(algo);
	TS_MSG_IMPRINT_free(m);
	return good;
}

static bool set_nonce(TS_REQ *req)
{
	uint8_t bytes[NONCE];
	BIGNUM *number = RAND_bytes(bytes, sizeof bytes) == 1 ? BN_bin2bn(bytes, sizeof bytes, NULL) : NULL;
	ASN1_INTEGER *nonce = number ? BN_to_ASN1_INTEGER(number, NULL) : NULL;
	bool good = nonce && TS_REQ_set_nonce(req, nonce) == 1;

	ASN1_INTEGER_free(nonce);
	BN_free(number);
	return good;
}

int timestamp_ask(const uint8_t hash[TIMESTAMP_HASH], uint8_t **out, size_t *out_n, struct err *e)
{
	TS_REQ *req = TS_REQ_new();
	uint8_t *der = NULL;
	int n = req && set_imprint(req, hash) && set_nonce(req) && TS_REQ_set_cert_req(req, 1) == 1
		    ? i2d_TS_REQ(req, &der)
		    : -1;

	TS_REQ_free(req);
	ERR_clear_error();
	if (n <= 0 || !(*out = malloc((size_t)n))) {
		OPENSSL_free(der);
		return err_set(e, ERR_NOMEM, "no memory for a request");
	}
	memcpy(*out, der, (size_t)n);
	*out_n = (size_t)n;
	OPENSSL_free(der);
	return 0;
}

/* ---- the answer */

static int timestamp_read_answer(const uint8_t *p, size_t n, TS_RESP **out, struct err *e)
{
	const uint8_t *at = p;
	TS_RESP *resp = n && n <= TIMESTAMP_MAX ? d2i_TS_RESP(NULL, &at, (long)n) : NULL;

	ERR_clear_error();
	if (!resp || at != p + n) {
		TS_RESP_free(resp);
		return err_set(e, ERR_PROTOCOL, "that is no answer of an authority for timestamps");
	}
	*out = resp;
	return 0;
}

static int granted(TS_RESP *resp, struct err *e)
{
	TS_STATUS_INFO *status = TS_RESP_get_status_info(resp);
	int64_t number = -1;

	if (!ASN1_INTEGER_get_int64(&number, TS_STATUS_INFO_get0_status(status)))
		number = -1;
	ERR_clear_error();
	if (number != TS_STATUS_GRANTED && number != TS_STATUS_GRANTED_WITH_MODS)
		return err_set(e, ERR_UNAVAILABLE, "the authority refused: its status is %lld", (long long)number);
	return TS_RESP_get_token(resp) && TS_RESP_get_tst_info(resp)
		   ? 0
		   : err_set(e, ERR_PROTOCOL, "the answer holds no timestamp");
}

static int conflict(struct err *e)
{
	int number = ERR_GET_REASON(ERR_peek_last_error());
	const char *what = number == TS_R_NONCE_MISMATCH || number == TS_R_NONCE_NOT_RETURNED ? "with another nonce"
			   : number == TS_R_MESSAGE_IMPRINT_MISMATCH                          ? "of another hash"
											      : reason();

	err_set(e, ERR_CONFLICT, "the timestamp is not what was asked for: %s", what);
	ERR_clear_error();
	return e ? e->code : ERR_CONFLICT;
}

int timestamp_answers(const uint8_t *asked, size_t asked_n, const uint8_t *p, size_t n, struct err *e)
{
	TS_REQ *req = d2i_TS_REQ(NULL, &asked, (long)asked_n);
	TS_VERIFY_CTX *ctx = req ? TS_REQ_to_TS_VERIFY_CTX(req, NULL) : NULL;
	TS_RESP *resp = NULL;
	int rc = ctx ? timestamp_read_answer(p, n, &resp, e) : err_set(e, ERR_NOMEM, "no memory for a timestamp");

	if (rc == 0)
		rc = granted(resp, e);
	if (ctx)
		TS_VERIFY_CTX_set_flags(ctx, TS_VFY_VERSION | TS_VFY_IMPRINT | TS_VFY_NONCE);
	ERR_clear_error();
	if (rc == 0 && TS_RESP_verify_response(ctx, resp) != 1)
		rc = conflict(e);
	TS_RESP_free(resp);
	TS_VERIFY_CTX_free(ctx);
	TS_REQ_free(req);
	return rc;
}

/* ---- what it says */

static int64_t time_of(const TS_TST_INFO *info)
{
	struct tm tm;
	time_t t;

	if (!info || ASN1_TIME_to_tm(TS_TST_INFO_get_time(info), &tm) != 1)
		return -1;
	t = timegm(&tm);
	return t > 0 && t < INT64_MAX / (int64_t)NS_PER_SEC ? (int64_t)t * (int64_t)NS_PER_SEC : -1;
}

static void signer_of(TS_RESP *resp, char *out, size_t size)
{
	STACK_OF(X509) *signers = PKCS7_get0_signers(TS_RESP_get_token(resp), NULL, 0);
	X509 *x = sk_X509_num(signers) > 0 ? sk_X509_value(signers, 0) : NULL;
	BIO *bio = x ? BIO_new(BIO_s_mem()) : NULL;
	char *text = NULL;

	*out = '\0';
	/* RFC 2253 escapes all that is not printable ASCII. */
	if (bio && X509_NAME_print_ex(bio, X509_get_subject_name(x), 0, XN_FLAG_RFC2253) > 0 &&
	    BIO_write(bio, "", 1) == 1 && BIO_get_mem_data(bio, &text) > 0)
		text_put(out, size, text);
	BIO_free(bio);
	sk_X509_free(signers);
	ERR_clear_error();
}

static void serial_of(const TS_TST_INFO *info, char *out, size_t size)
{
	BIGNUM *number = ASN1_INTEGER_to_BN(TS_TST_INFO_get_serial(info), NULL);
	char *text = number ? BN_bn2hex(number) : NULL;

	text_put(out, size, text ? text : "");
	OPENSSL_free(text);
	BN_free(number);
	ERR_clear_error();
}

static int same_hash(TS_RESP *resp, const uint8_t hash[TIMESTAMP_HASH], struct err *e)
{
	TS_MSG_IMPRINT *m = TS_TST_INFO_get_msg_imprint(TS_RESP_get_tst_info(resp));
	const ASN1_OBJECT *algo = NULL;
	ASN1_OCTET_STRING *bytes = m ? TS_MSG_IMPRINT_get_msg(m) : NULL;

	if (m)
		X509_ALGOR_get0(&algo, NULL, NULL, TS_MSG_IMPRINT_get_algo(m));
	if (!bytes || !algo || OBJ_obj2nid(algo) != NID_sha256 || ASN1_STRING_length(bytes) != TIMESTAMP_HASH ||
	    memcmp(ASN1_STRING_get0_data(bytes), hash, TIMESTAMP_HASH) != 0)
		return err_set(e, ERR_CONFLICT, "the timestamp is of another hash");
	return 0;
}

/* ---- the signature */

static X509_STORE *store_of(const char *ca, int64_t at_ns, struct err *e)
{
	BIO *bio = BIO_new_mem_buf(ca, -1);
	X509_STORE *store = X509_STORE_new();
	X509 *x;
	int n = 0;

	while (bio && store && (x = PEM_read_bio_X509(bio, NULL, NULL, (void *)(uintptr_t) "")) != NULL) {
		n += X509_STORE_add_cert(store, x);
		X509_free(x);
	}
	ERR_clear_error();
	BIO_free(bio);
	if (!n) {
		X509_STORE_free(store);
		err_set(e, ERR_CONFIG, "the authority's certificates hold none");
		return NULL;
	}
	X509_VERIFY_PARAM_set_time(X509_STORE_get0_param(store), (time_t)(at_ns / (int64_t)NS_PER_SEC));
	X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
	return store;
}

static int check_signature(TS_RESP *resp, const char *ca, int64_t at_ns, struct err *e)
{
	TS_VERIFY_CTX *ctx = TS_VERIFY_CTX_new();
	X509_STORE *store = store_of(ca, at_ns, e);
	int rc = 0;

	if (!store || !ctx) {
		X509_STORE_free(store);
		TS_VERIFY_CTX_free(ctx);
		return store ? err_set(e, ERR_NOMEM, "no memory for a timestamp") : ERR_CONFIG;
	}
	TS_VERIFY_CTX_set_store(ctx, store); /* becomes its own */
	TS_VERIFY_CTX_set_flags(ctx, TS_VFY_SIGNATURE | TS_VFY_VERSION);
	ERR_clear_error();
	if (TS_RESP_verify_response(ctx, resp) != 1) {
		const char *data = NULL;
		int flags = 0;
		unsigned long code = ERR_peek_last_error_all(NULL, NULL, NULL, &data, &flags);
		const char *why = ERR_reason_error_string(code);

		rc = ERR_GET_REASON(code) == TS_R_CERTIFICATE_VERIFY_ERROR ? ERR_FORBIDDEN : ERR_TOKEN_FORGED;
		rc = err_set(e, rc, "the timestamp is not signed by who may: %s%s%.100s",
			     why ? why : "it does not verify", flags & ERR_TXT_STRING && data ? ": " : "",
			     flags & ERR_TXT_STRING && data ? data : "");
	}
	ERR_clear_error();
	TS_VERIFY_CTX_free(ctx);
	return rc;
}

int timestamp_check(const uint8_t *p, size_t n, const uint8_t hash[TIMESTAMP_HASH], const char *ca, int64_t now_ns,
		    struct timestamp *out, struct err *e)
{
	TS_RESP *resp = NULL;
	struct timestamp t = {0};
	int rc = timestamp_read_answer(p, n, &resp, e);

	if (rc == 0)
		rc = granted(resp, e);
	if (rc == 0)
		rc = same_hash(resp, hash, e);
	if (rc == 0 && (t.wall_ns = time_of(TS_RESP_get_tst_info(resp))) < 0)
		rc = err_set(e, ERR_PROTOCOL, "the timestamp's time is malformed");
	if (rc == 0 && ca)
		rc = check_signature(resp, ca, t.wall_ns, e);
	if (rc == 0 && ca && now_ns)
		rc = check_signature(resp, ca, now_ns, e);
	if (rc == 0 && out) {
		signer_of(resp, t.by, sizeof t.by);
		serial_of(TS_RESP_get_tst_info(resp), t.serial, sizeof t.serial);
		*out = t;
	}
	TS_RESP_free(resp);
	return rc;
}
