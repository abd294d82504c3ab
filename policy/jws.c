#include "policy/jws.h"

#include "base/err.h"
#include "base/json.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX    128
#define HEADER_FORMAT "{\"alg\":\"EdDSA\",\"typ\":\"%s\",\"kid\":\"%.16s\"}"

static int malformed(struct err *e)
{
	return err_set(e, ERR_TOKEN_MALFORMED, "the token is not well formed");
}

static int forged(struct err *e)
{
	return err_set(e, ERR_TOKEN_FORGED, "the token was not signed by this daemon");
}

static bool kid_valid(const char *kid, size_t len)
{
	return len == JWS_KID_LEN && strspn(kid, "0123456789abcdef") >= JWS_KID_LEN;
}

static int header_write(const char *typ, const char *kid, char out[HEADER_MAX])
{
	int n = snprintf(out, HEADER_MAX, HEADER_FORMAT, typ, kid);
	return n < 0 || n >= HEADER_MAX ? ERR_INVAL : n;
}

/* Decodes only what base64_encode() would have written: no padding, no stray bits in the last digit. */
static int decode_canonical(const char *s, size_t len, uint8_t **out, size_t *out_len)
{
	uint8_t *p = NULL;
	size_t n = 0;
	char *again = NULL;
	int rc = ERR_TOKEN_MALFORMED;

	if (len == 0 || base64_decode(s, len, true, &p, &n) != 0)
		return ERR_TOKEN_MALFORMED;
	again = base64_encode(p, n, true);
	if (!again) {
		rc = ERR_NOMEM;
		goto out;
	}
	if (strlen(again) != len || memcmp(again, s, len) != 0)
		goto out;
	*out = p;
	*out_len = n;
	p = NULL;
	rc = 0;
out:
	if (again)
		OPENSSL_cleanse(again, strlen(again));
	free(again);
	if (p)
		OPENSSL_cleanse(p, n);
	free(p);
	return rc;
}

static int sign_bytes(const uint8_t seed[JWS_KEY_LEN], const char *text, size_t len, uint8_t out[JWS_SIGNATURE_LEN],
		      struct err *e)
{
	int rc = err_set(e, ERR_INTERNAL, "libcrypto could not make an Ed25519 signature");
	size_t out_len = JWS_SIGNATURE_LEN;
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, JWS_KEY_LEN);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	if (key && ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
	    EVP_DigestSign(ctx, out, &out_len, (const uint8_t *)text, len) == 1 && out_len == JWS_SIGNATURE_LEN)
		rc = 0;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	return rc;
}

/* header "." payload "." signature, once the three are encoded. */
static int jws_join(const char *header, const char *body, const char *signature, size_t max, char **out, struct err *e)
{
	size_t need = strlen(header) + strlen(body) + strlen(signature) + 3;
	char *token;

	if (need - 1 > max)
		return err_set(e, ERR_TOO_LARGE,
			       "the token would be %zu bytes long, the limit is %zu: shorten the reason", need - 1,
			       max);
	token = malloc(need);
	if (!token)
		return err_set(e, ERR_NOMEM, "no memory for a token");
	snprintf(token, need, "%s.%s.%s", header, body, signature);
	*out = token;
	return 0;
}

static void free_secret(char *s)
{
	if (s)
		OPENSSL_cleanse(s, strlen(s));
	free(s);
}

int jws_sign(const char *typ, const char *kid, const uint8_t seed[JWS_KEY_LEN], const void *payload, size_t len,
	     size_t max, char **out_token, struct err *e)
{
	char header[HEADER_MAX];
	uint8_t signature[JWS_SIGNATURE_LEN];
	char *parts[3] = {NULL, NULL, NULL}, *text = NULL;
	size_t text_size;
	int n, rc;

	if (!kid_valid(kid, strlen(kid)))
		return err_set(e, ERR_INVAL, "a key id is 16 hexadecimal digits");
	n = header_write(typ, kid, header);
	if (n < 0)
		return err_set(e, ERR_INVAL, "the token type is too long");
	rc = ERR_NOMEM;
	parts[0] = base64_encode(header, (size_t)n, true);
	parts[1] = base64_encode(payload, len, true);
	if (!parts[0] || !parts[1])
		goto out;
	text_size = strlen(parts[0]) + strlen(parts[1]) + 2;
	text = malloc(text_size);
	if (!text)
		goto out;
	snprintf(text, text_size, "%s.%s", parts[0], parts[1]);
	rc = sign_bytes(seed, text, text_size - 1, signature, e);
	if (rc)
		goto out;
	rc = ERR_NOMEM;
	parts[2] = base64_encode(signature, sizeof signature, true);
	if (parts[2])
		rc = jws_join(parts[0], parts[1], parts[2], max, out_token, e);
out:
	if (rc == ERR_NOMEM)
		err_set(e, rc, "no memory for a token");
	free_secret(text);
	for (size_t i = 0; i < 3; i++)
		free_secret(parts[i]);
	return rc;
}

static int header_parse(const char *s, size_t len, const char *typ, char out_kid[JWS_KID_LEN + 1])
{
	char want[HEADER_MAX];
	uint8_t *p = NULL;
	size_t n = 0;
	int want_len, rc = decode_canonical(s, len, &p, &n);

	if (rc)
		return rc;
	rc = ERR_TOKEN_MALFORMED;
	if (n < JWS_KID_LEN + 2 || !kid_valid((const char *)p + n - JWS_KID_LEN - 2, JWS_KID_LEN))
		goto out;
	memcpy(out_kid, p + n - JWS_KID_LEN - 2, JWS_KID_LEN);
	out_kid[JWS_KID_LEN] = '\0';
	want_len = header_write(typ, out_kid, want);
	if (want_len >= 0 && (size_t)want_len == n && memcmp(want, p, n) == 0)
		rc = 0;
out:
	free(p);
	return rc;
}

static int signature_parse(const char *s, size_t len, uint8_t out[JWS_SIGNATURE_LEN])
{
	uint8_t *p = NULL;
	size_t n = 0;
	int rc = decode_canonical(s, len, &p, &n);

	if (rc)
		return rc;
	if (n == JWS_SIGNATURE_LEN)
		memcpy(out, p, n);
	else
		rc = ERR_TOKEN_MALFORMED;
	free(p);
	return rc;
}

int jws_parse(const char *token, size_t len, size_t max, const char *typ, struct jws *out, struct err *e)
{
	struct jws j = {.signed_text = token};
	const char *dot1, *dot2;
	int rc = ERR_TOKEN_MALFORMED;

	if (len == 0 || len > max)
		return malformed(e);
	dot1 = memchr(token, '.', len);
	dot2 = dot1 ? memchr(dot1 + 1, '.', len - (size_t)(dot1 + 1 - token)) : NULL;
	if (!dot2)
		return malformed(e);
	j.signed_len = (size_t)(dot2 - token);
	rc = header_parse(token, (size_t)(dot1 - token), typ, j.kid);
	if (rc == 0)
		rc = signature_parse(dot2 + 1, len - j.signed_len - 1, j.signature);
	if (rc == 0)
		rc = decode_canonical(dot1 + 1, (size_t)(dot2 - dot1 - 1), &j.payload, &j.payload_len);
	if (rc == ERR_NOMEM)
		return err_set(e, rc, "no memory to read a token");
	if (rc)
		return malformed(e);
	*out = j;
	return 0;
}

int jws_verify(const struct jws *j, const uint8_t public_key[JWS_KEY_LEN], struct err *e)
{
	EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, JWS_KEY_LEN);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int rc = ERR_TOKEN_FORGED;

	if (!ctx)
		rc = err_set(e, ERR_NOMEM, "no memory to verify a token");
	else if (key && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
		 EVP_DigestVerify(ctx, j->signature, sizeof j->signature, (const uint8_t *)j->signed_text,
				  j->signed_len) == 1)
		rc = 0;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	return rc == ERR_TOKEN_FORGED ? forged(e) : rc;
}

void jws_finish(struct jws *j)
{
	if (!j)
		return;
	if (j->payload)
		OPENSSL_cleanse(j->payload, j->payload_len);
	free(j->payload);
	memset(j, 0, sizeof *j);
}
