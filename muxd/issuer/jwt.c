#include "muxd/issuer/jwt.h"

#include "base/err.h"
#include "base/ids.h"

#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ES256_BYTES   64
#define SUBJECT_MAX   255
#define CLAIM_MAX     1024
#define CLAIM_ENTRIES 64
#define SECONDS_MAX   (INT64_MAX / 1000000000 / 4)

static int malformed(struct err *e, const char *what)
{
	return err_set(e, ERR_TOKEN_MALFORMED, "the issuer's token is not well formed: %s", what);
}

/* One part of a token as an object. */
static int part_object(const char *s, size_t n, const char *what, json_t **out, struct err *e)
{
	uint8_t *p = NULL;
	size_t len = 0;
	json_t *o = NULL;
	struct err why = {0};
	int rc = n ? base64_decode(s, n, true, &p, &len) : ERR_INVAL;

	if (rc == 0)
		rc = json_parse(p, len, JWT_MAX, &o, &why);
	free(p);
	if (rc == 0 && !json_is_object(o))
		rc = ERR_INVAL;
	if (rc) {
		json_decref(o);
		return rc == ERR_NOMEM ? err_set(e, rc, "no memory to read a token")
				       : err_set(e, ERR_TOKEN_MALFORMED,
						 "the issuer's token is not well formed: its %s is no JSON object (%s)",
						 what, why.message[0] ? why.message : "base64url is wanted");
	}
	*out = o;
	return 0;
}

/* RFC 7515, 4.1.9: "application/" may be left out, and case does not count. */
static bool is_type(const char *is, const char *wanted)
{
	static const char prefix[] = "application/";

	if (strncasecmp(is, prefix, sizeof(prefix) - 1) == 0)
		is += sizeof(prefix) - 1;
	return strcasecmp(is, wanted) == 0;
}

static int header_take(const json_t *o, const char *typ, struct jwt *j, struct err *e)
{
	/* Where to look for a key, a key itself, what must be understood, and other encodings. */
	static const char *const refused[] = {"crit", "jku", "jwk", "x5u", "x5c", "b64", "zip", "enc"};
	const char *alg = NULL, *kid = NULL, *is = NULL;

	if (json_need_str(o, "alg", &alg, NULL) || json_opt_str(o, "kid", &kid, NULL) ||
	    json_opt_str(o, "typ", &is, NULL))
		return malformed(e, "alg, kid and typ of its header are texts");
	if (!jwk_alg_parse(alg, &j->alg))
		return err_set(e, ERR_TOKEN_ALGORITHM,
			       "the issuer's token is signed by \"%.20s\": RS256, ES256 and EdDSA count", alg);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (json_object_get(o, refused[i]))
			return err_set(e, ERR_TOKEN_ALGORITHM,
				       "the header of the issuer's token has \"%s\", which is not followed",
				       refused[i]);
	if ((!is && typ) || (is && !is_type(is, typ ? typ : "JWT")))
		return err_set(e, ERR_TOKEN_ALGORITHM, "the issuer's token is of type \"%.40s\", and not \"%.40s\"",
			       is ? is : "", typ ? typ : "JWT");
	if (!kid || !*kid || strlen(kid) > JWK_KID_MAX)
		return err_set(e, ERR_TOKEN_KEY,
			       "the issuer's token names no key: its header has no kid, or one too long");
	memcpy(j->kid, kid, strlen(kid) + 1);
	return 0;
}

int jwt_parse(const char *token, size_t len, const char *typ, struct jwt *out, struct err *e)
{
	struct jwt j = {.signed_text = token};
	const char *dot1, *dot2;
	json_t *header = NULL;
	int rc;

	if (len == 0 || len > JWT_MAX)
		return malformed(e, len ? "it is longer than 8 KiB" : "it is empty");
	dot1 = memchr(token, '.', len);
	dot2 = dot1 ? memchr(dot1 + 1, '.', len - (size_t)(dot1 + 1 - token)) : NULL;
	if (!dot2)
		return malformed(e, "three parts with dots between them are wanted");
	j.signed_len = (size_t)(dot2 - token);
	rc = part_object(token, (size_t)(dot1 - token), "header", &header, e);
	if (rc == 0)
		rc = header_take(header, typ, &j, e);
	if (rc == 0)
		rc = part_object(dot1 + 1, (size_t)(dot2 - dot1 - 1), "payload", &j.claims, e);
	if (rc == 0 && base64_decode(dot2 + 1, len - j.signed_len - 1, true, &j.signature, &j.signature_len))
		rc = malformed(e, "its signature is no base64url");
	json_decref(header);
	if (rc)
		jwt_finish(&j);
	else
		*out = j;
	return rc;
}

/* r and s, 32 bytes each (RFC 7518, 3.4), as OpenSSL wants them. NULL: they are not. */
static uint8_t *ecdsa_der(const struct jwt *j, int *out_len)
{
	ECDSA_SIG *sig = j->signature_len == ES256_BYTES ? ECDSA_SIG_new() : NULL;
	BIGNUM *r = sig ? BN_bin2bn(j->signature, ES256_BYTES / 2, NULL) : NULL;
	BIGNUM *s = sig ? BN_bin2bn(j->signature + ES256_BYTES / 2, ES256_BYTES / 2, NULL) : NULL;
	uint8_t *der = NULL;

	if (r && s && ECDSA_SIG_set0(sig, r, s) == 1)
		*out_len = i2d_ECDSA_SIG(sig, &der);
	else
		BN_free(r), BN_free(s);
	ECDSA_SIG_free(sig);
	return *out_len > 0 ? der : NULL;
}

static bool is_signed(const struct jwt *j, EVP_PKEY *key, const uint8_t *signature, size_t len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const EVP_MD *md = j->alg == JWK_EDDSA ? NULL : EVP_sha256();
	bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, md, NULL, key) == 1 &&
		    EVP_DigestVerify(ctx, signature, len, (const uint8_t *)j->signed_text, j->signed_len) == 1;

	EVP_MD_CTX_free(ctx);
	return good;
}

int jwt_verify(const struct jwt *j, const struct jwk *key, struct err *e)
{
	uint8_t *der = NULL;
	int der_len = 0;
	bool good;

	if (key->alg != j->alg || !key->key)
		return err_set(e, ERR_TOKEN_ALGORITHM, "the issuer's token is signed by %s, and its key is for %s",
			       jwk_alg_name(j->alg), jwk_alg_name(key->alg));
	if (j->alg == JWK_ES256)
		der = ecdsa_der(j, &der_len);
	good = j->alg == JWK_ES256 ? der && is_signed(j, key->key, der, (size_t)der_len)
				   : is_signed(j, key->key, j->signature, j->signature_len);
	OPENSSL_free(der);
	return good ? 0
		    : err_set(e, ERR_TOKEN_FORGED, "the issuer's token was not signed by the issuer's key of its kid");
}

static bool is_for(const json_t *aud, const char *wanted)
{
	const json_t *one = json_is_array(aud) && json_array_size(aud) == 1 ? json_array_get(aud, 0) : aud;

	return json_is_string(one) && strcmp(json_string_value(one), wanted) == 0;
}

int jwt_of(const struct jwt *j, const struct jwt_wanted *w, struct err *e)
{
	const json_t *aud = json_object_get(j->claims, "aud");

	if (strcmp(json_get_text(j->claims, "iss"), w->issuer) != 0)
		return err_set(e, ERR_TOKEN_FOREIGN, "the token's iss is \"%.100s\", and not %.100s",
			       json_get_text(j->claims, "iss"), w->issuer);
	if (json_is_array(aud) && json_array_size(aud) > 1)
		return err_set(e, ERR_TOKEN_FOREIGN,
			       "the token is for %zu audiences: one alone counts, since each of them could use it here",
			       json_array_size(aud));
	return is_for(aud, w->audience)
		   ? 0
		   : err_set(e, ERR_TOKEN_FOREIGN, "the token's audience is \"%.100s\", and not %.100s",
			     json_is_string(aud) ? json_string_value(aud) : "", w->audience);
}

static int times_check(const json_t *claims, const struct jwt_wanted *w, struct err *e)
{
	int64_t exp = 0, iat = 0, nbf = 0;

	if (json_need_int(claims, "exp", 1, SECONDS_MAX, &exp, NULL) ||
	    json_need_int(claims, "iat", 1, SECONDS_MAX, &iat, NULL) ||
	    json_opt_int(claims, "nbf", 0, SECONDS_MAX, &nbf, NULL))
		return malformed(e, "exp and iat have to be there, and with nbf are whole seconds since 1970");
	/* No skew here: nothing lasts longer than its token. */
	if (w->now >= exp)
		return err_set(e, ERR_TOKEN_EXPIRED, "the issuer's token has expired %lld s ago",
			       (long long)(w->now - exp));
	if (iat > w->now + w->skew || nbf > w->now + w->skew)
		return err_set(e, ERR_TOKEN_NOT_YET, "the issuer's token begins in %lld s",
			       (long long)((iat > nbf ? iat : nbf) - w->now));
	if (exp - iat > w->lifetime || exp <= iat)
		return err_set(e, ERR_TOKEN_CLAIMS, "the issuer's token lasts %lld s, and %lld s are the most",
			       (long long)(exp - iat), (long long)w->lifetime);
	return 0;
}

int jwt_claims(const struct jwt *j, const struct jwt_wanted *w, struct err *e)
{
	const json_t *sub = json_object_get(j->claims, "sub"), *jti = json_object_get(j->claims, "jti");
	int rc = jwt_of(j, w, e);

	if (rc)
		return rc;
	if (!json_is_string(sub) || !*json_string_value(sub) || strlen(json_string_value(sub)) > SUBJECT_MAX)
		return malformed(e, "sub has to be there, a text of up to 255 bytes");
	if (jti && (!json_is_string(jti) || !*json_string_value(jti) || strlen(json_string_value(jti)) > SUBJECT_MAX))
		return malformed(e, "jti is no text of up to 255 bytes");
	return times_check(j->claims, w, e);
}

/* NULL: it is nothing that has a place in a text. */
static json_t *value_text(const json_t *v)
{
	char number[32];

	if (json_is_string(v))
		return json_string_length(v) <= CLAIM_MAX ? json_string(json_string_value(v)) : NULL;
	if (json_is_boolean(v))
		return json_string(json_is_true(v) ? "true" : "false");
	if (!json_is_integer(v))
		return NULL;
	snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
	return json_string(number);
}

static json_t *value_of(const json_t *v)
{
	json_t *list, *one;
	const json_t *o;
	size_t i;

	if (!json_is_array(v))
		return value_text(v);
	list = json_array();
	json_array_foreach(v, i, o)
	{
		one = i < CLAIM_ENTRIES ? value_text(o) : NULL;
		if (one)
			json_array_append_new(list, one);
	}
	return list;
}

static void seen_of(const struct jwt *j, const char *issuer, char out[ID_STR_LEN])
{
	const char *jti = json_get_text(j->claims, "jti");
	uint8_t digest[EVP_MAX_MD_SIZE] = {0};
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	struct id id = {0};
	unsigned n = 0;

	/* Both NULs: no jti makes what another issuer's does, nor what signed bytes do. */
	if (ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 &&
	    EVP_DigestUpdate(ctx, issuer, strlen(issuer) + 1) == 1 &&
	    EVP_DigestUpdate(ctx, jti, strlen(jti) + 1) == 1 &&
	    (*jti || EVP_DigestUpdate(ctx, j->signed_text, j->signed_len) == 1) &&
	    EVP_DigestFinal_ex(ctx, digest, &n) == 1)
		memcpy(id.b, digest, sizeof(id.b));
	EVP_MD_CTX_free(ctx);
	id_format(&id, out);
}

json_t *jwt_answer(const struct jwt *j, const char *issuer, const json_t *names)
{
	char seen[ID_STR_LEN];
	json_t *claims = json_object(), *one, *value;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)names, name, value)
	{
		one = value_of(json_object_get(j->claims, name));
		if (one)
			json_object_set_new(claims, name, one);
	}
	seen_of(j, issuer, seen);
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:o}", "kid", j->kid, "alg", jwk_alg_name(j->alg), "subject",
			 json_get_text(j->claims, "sub"), "jti", json_get_text(j->claims, "jti"), "seen", seen,
			 "issued", (json_int_t)json_integer_value(json_object_get(j->claims, "iat")), "expires",
			 (json_int_t)json_integer_value(json_object_get(j->claims, "exp")), "claims", claims);
}

void jwt_finish(struct jwt *j)
{
	json_decref(j->claims);
	free(j->signature);
	*j = (struct jwt){0};
}
