#include "muxd/issuer/jwk.h"

#include "base/err.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdlib.h>
#include <string.h>

#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192
#define P256_BYTES   32
#define ED_BYTES     32

static const char *const alg_names[] = {[JWK_RS256] = "RS256", [JWK_ES256] = "ES256", [JWK_EDDSA] = "EdDSA"};

bool jwk_alg_parse(const char *name, enum jwk_alg *out)
{
	for (size_t i = 0; i < sizeof(alg_names) / sizeof(alg_names[0]); i++) {
		if (strcmp(alg_names[i], name) == 0) {
			*out = (enum jwk_alg)i;
			return true;
		}
	}
	return false;
}

const char *jwk_alg_name(enum jwk_alg alg)
{
	return alg_names[alg];
}

/* A member of base64url. NULL: it is missing, or none. */
static uint8_t *jwk_member(const json_t *o, const char *name, size_t *out_n)
{
	const char *text = json_get_text(o, name);
	uint8_t *p = NULL;

	return *text && base64_decode(text, strlen(text), true, &p, out_n) == 0 ? p : NULL;
}

static EVP_PKEY *build(const char *type, OSSL_PARAM_BLD *bld)
{
	OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(bld);
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *key = NULL;

	if (!params || !ctx || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	OSSL_PARAM_free(params);
	return key;
}

static EVP_PKEY *rsa_key(const json_t *o, const char **why)
{
	size_t n_len = 0, e_len = 0;
	uint8_t *n = jwk_member(o, "n", &n_len), *e = jwk_member(o, "e", &e_len);
	BIGNUM *bn = n ? BN_bin2bn(n, (int)n_len, NULL) : NULL, *be = e ? BN_bin2bn(e, (int)e_len, NULL) : NULL;
	OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
	EVP_PKEY *key = NULL;

	*why = "its n and e are no RSA key";
	if (!bn || !be || !bld)
		goto out;
	*why = "RSA of less than 2048 bits, or more than 8192";
	if (BN_num_bits(bn) < RSA_BITS_MIN || BN_num_bits(bn) > RSA_BITS_MAX)
		goto out;
	*why = "RSA with an exponent that is even, 1 or longer than 64 bits, or an even modulus";
	if (!BN_is_odd(bn) || !BN_is_odd(be) || BN_is_one(be) || BN_num_bits(be) > 64)
		goto out;
	if (OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_N, bn) &&
	    OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_E, be))
		key = build("RSA", bld);
out:
	OSSL_PARAM_BLD_free(bld);
	BN_free(bn);
	BN_free(be);
	free(n);
	free(e);
	return key;
}

static EVP_PKEY *ec_key(const json_t *o, const char **why)
{
	uint8_t point[1 + 2 * P256_BYTES] = {4} /* uncompressed: SEC 1, 2.3.3 */;
	size_t x_len = 0, y_len = 0;
	uint8_t *x = NULL, *y = NULL;
	OSSL_PARAM_BLD *bld = NULL;
	EVP_PKEY *key = NULL;

	*why = "of its curves P-256 alone counts";
	if (strcmp(json_get_text(o, "crv"), "P-256") != 0)
		return NULL;
	x = jwk_member(o, "x", &x_len);
	y = jwk_member(o, "y", &y_len);
	bld = OSSL_PARAM_BLD_new();
	*why = "its x and y are no point of P-256";
	if (x && y && bld && x_len == P256_BYTES && y_len == P256_BYTES) {
		memcpy(point + 1, x, P256_BYTES);
		memcpy(point + 1 + P256_BYTES, y, P256_BYTES);
		if (OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) &&
		    OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)))
			key = build("EC", bld);
	}
	OSSL_PARAM_BLD_free(bld);
	free(x);
	free(y);
	return key;
}

static EVP_PKEY *ed_key(const json_t *o, const char **why)
{
	size_t len = 0;
	uint8_t *x = NULL;
	EVP_PKEY *key = NULL;

	*why = "of its curves Ed25519 alone counts";
	if (strcmp(json_get_text(o, "crv"), "Ed25519") != 0)
		return NULL;
	*why = "its x is no key of Ed25519";
	x = jwk_member(o, "x", &len);
	if (x && len == ED_BYTES)
		key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x, len);
	free(x);
	return key;
}

static const struct type {
	const char *kty;
	enum jwk_alg alg;
	EVP_PKEY *(*make)(const json_t *o, const char **why);
} types[] = {{"RSA", JWK_RS256, rsa_key}, {"EC", JWK_ES256, ec_key}, {"OKP", JWK_EDDSA, ed_key}};

/* Is it for what it is used for here? key_ops: a list with "verify" in it, where it is there. */
static const char *purpose(const json_t *o, const struct type *t)
{
	const json_t *ops = json_object_get(o, "key_ops"), *use = json_object_get(o, "use"),
		     *alg = json_object_get(o, "alg"), *op;
	size_t i;

	if (json_object_get(o, "d") || json_object_get(o, "k"))
		return "its secret half stands beside it";
	if (use && strcmp(json_get_text(o, "use"), "sig") != 0)
		return "its use is not sig";
	if (alg && strcmp(json_get_text(o, "alg"), jwk_alg_name(t->alg)) != 0)
		return "its alg is none that counts for its type";
	if (!ops)
		return NULL;
	json_array_foreach(ops, i,
			   op) if (json_is_string(op) && strcmp(json_string_value(op), "verify") == 0) return NULL;
	return "its key_ops do not hold verify";
}

/* false: it has no kid that a token could name. */
static bool key_parse(const json_t *o, struct jwk *out)
{
	const char *kid = json_get_text(o, "kid"), *kty = json_get_text(o, "kty");
	struct jwk k = {.why = "its kty is none of RSA, EC and OKP"};

	if (!json_is_object(o) || !*kid || strlen(kid) > JWK_KID_MAX)
		return false;
	memcpy(k.kid, kid, strlen(kid) + 1);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(types[i].kty, kty) != 0)
			continue;
		k.alg = types[i].alg;
		k.why = purpose(o, &types[i]);
		if (!k.why)
			k.key = types[i].make(o, &k.why);
	}
	*out = k;
	return true;
}

/* Two keys of one name: which one signed would be a matter of luck. */
static void drop_twins(struct jwk_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		bool twin = false;

		for (size_t k = i + 1; k < s->n; k++) {
			if (strcmp(s->keys[i].kid, s->keys[k].kid) != 0)
				continue;
			EVP_PKEY_free(s->keys[k].key);
			s->keys[k].key = NULL;
			s->keys[k].why = "two keys have its kid";
			twin = true;
		}
		if (twin) {
			EVP_PKEY_free(s->keys[i].key);
			s->keys[i].key = NULL;
			s->keys[i].why = "two keys have its kid";
		}
	}
}

int jwk_set_parse(const void *p, size_t len, struct jwk_set *out, struct err *e)
{
	struct jwk_set s = {0};
	struct err why = {0};
	json_t *doc = NULL;
	const json_t *list, *o;
	size_t i;
	int rc = json_parse(p, len, JWK_SET_MAX, &doc, &why);

	list = rc ? NULL : json_object_get(doc, "keys");
	if (!json_is_array(list)) {
		rc = err_set(e, ERR_ISSUER, "what it shows is no set of keys (%s)",
			     rc ? why.message : "no list \"keys\"");
		goto out;
	}
	if (json_array_size(list) > JWK_KEYS_MAX) {
		rc = err_set(e, ERR_ISSUER, "it shows more than %d keys", JWK_KEYS_MAX);
		goto out;
	}
	s.keys = calloc(json_array_size(list) + 1, sizeof(*s.keys));
	if (!s.keys) {
		rc = err_set(e, ERR_NOMEM, "no memory for an issuer's keys");
		goto out;
	}
	json_array_foreach(list, i, o) s.n += key_parse(o, &s.keys[s.n]);
	drop_twins(&s);
	for (i = 0; i < s.n; i++)
		s.usable += s.keys[i].key != NULL;
	if (!s.usable) {
		rc = err_set(e, ERR_ISSUER, "none of the %zu keys that it shows counts%s%s", json_array_size(list),
			     s.n ? ": " : "", s.n ? s.keys[0].why : "");
		goto out;
	}
	*out = s;
	s = (struct jwk_set){0};
out:
	jwk_set_finish(&s);
	json_decref(doc);
	return rc;
}

void jwk_set_finish(struct jwk_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		EVP_PKEY_free(s->keys[i].key);
	free(s->keys);
	*s = (struct jwk_set){0};
}

const struct jwk *jwk_find(const struct jwk_set *s, const char *kid)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->keys[i].kid, kid) == 0)
			return &s->keys[i];
	return NULL;
}
