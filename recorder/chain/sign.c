#include "recorder/chain/sign.h"

#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "base/slurp.h"
#include "recorder/chain/digest.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MESSAGE_MAX  1024
#define KEY_FILE_MAX 256

struct signer {
	struct grant_public_key public;
	EVP_PKEY *key;
};

int signer_create(const uint8_t seed[GRANT_KEY_LEN], struct signer **out, struct err *e)
{
	struct signer *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return err_set(e, ERR_NOMEM, "no memory for the record-signing key");
	rc = grant_key_public(seed, &s->public);
	if (!rc) {
		s->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, GRANT_KEY_LEN);
		if (!s->key)
			rc = ERR_INTERNAL;
	}
	if (rc) {
		signer_destroy(s);
		return err_set(e, rc, "libcrypto does not take the record-signing key");
	}
	*out = s;
	return 0;
}

void signer_destroy(struct signer *s)
{
	if (!s)
		return;
	EVP_PKEY_free(s->key);
	free(s);
}

const struct grant_public_key *signer_public(const struct signer *s)
{
	return &s->public;
}

static int sign_join(const char *purpose, const void *p, size_t n, uint8_t out[MESSAGE_MAX], size_t *out_len)
{
	size_t front = strlen(purpose) + 1;

	if (front > MESSAGE_MAX || n > MESSAGE_MAX - front)
		return ERR_TOO_LARGE;
	memcpy(out, purpose, front);
	memcpy(out + front, p, n);
	*out_len = front + n;
	return 0;
}

int signer_sign(const struct signer *s, const char *purpose, const void *p, size_t n, uint8_t out[SIGN_LEN],
		struct err *e)
{
	uint8_t message[MESSAGE_MAX], signature[SIGN_LEN];
	size_t len = 0, out_len = SIGN_LEN;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int rc = sign_join(purpose, p, n, message, &len);

	if (!rc && !(ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, s->key) == 1 &&
		     EVP_DigestSign(ctx, signature, &out_len, message, len) == 1 && out_len == SIGN_LEN))
		rc = ERR_INTERNAL;
	EVP_MD_CTX_free(ctx);
	if (rc)
		return err_set(e, rc, "libcrypto could not sign for the record");
	memcpy(out, signature, SIGN_LEN);
	return 0;
}

/* Ed25519 signs one message in one way, and no other than the holder of the seed knows that signature. */
int signer_derive(const struct signer *s, const char *purpose, uint8_t out[32], struct err *e)
{
	uint8_t signature[SIGN_LEN];
	struct digest d;
	int rc = signer_sign(s, purpose, "", 0, signature, e);

	if (rc)
		return rc;
	digest_init(&d);
	digest_update(&d, signature, sizeof signature);
	digest_peek(&d, out);
	OPENSSL_cleanse(signature, sizeof signature);
	OPENSSL_cleanse(&d, sizeof d);
	return 0;
}

int sign_verify(const uint8_t key[GRANT_KEY_LEN], const char *purpose, const void *p, size_t n,
		const uint8_t signature[SIGN_LEN])
{
	uint8_t message[MESSAGE_MAX];
	size_t len = 0;
	EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, GRANT_KEY_LEN);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int rc = sign_join(purpose, p, n, message, &len);

	if (!rc && !ctx)
		rc = ERR_NOMEM;
	if (!rc && !(pkey && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
		     EVP_DigestVerify(ctx, signature, SIGN_LEN, message, len) == 1))
		rc = ERR_TOKEN_FORGED;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(pkey);
	return rc;
}

const struct grant_public_key *keyset_find(const struct grant_keyset *keys, const char kid[16])
{
	for (size_t i = 0; keys && i < keys->n; i++)
		if (memcmp(keys->keys[i].kid, kid, 16) == 0)
			return &keys->keys[i];
	return NULL;
}

static int key_from_bytes(const uint8_t *p, size_t n, struct grant_public_key *out)
{
	char name[17];
	uint8_t *raw = NULL;
	size_t raw_len = 0;
	int rc = 0;

	if (n != GRANT_KEY_LEN) {
		while (n && (p[n - 1] == '\n' || p[n - 1] == '\r' || p[n - 1] == ' '))
			n--;
		rc = base64_decode((const char *)p, n, true, &raw, &raw_len);
		if (!rc && raw_len != GRANT_KEY_LEN)
			rc = ERR_INVAL;
		p = raw;
	}
	if (!rc)
		rc = grant_key_id(p, name);
	if (!rc) {
		memcpy(out->kid, name, sizeof name);
		memcpy(out->key, p, GRANT_KEY_LEN);
	}
	free(raw);
	return rc;
}

/* named: on a command line, where it may be a pipe. */
static int keyset_add_file(const char *path, bool named, struct grant_keyset *set, struct err *e)
{
	struct grant_public_key key;
	struct err why = {0};
	char *text = NULL;
	size_t n = 0;
	int rc = named ? slurp_operand(path, KEY_FILE_MAX, &text, &n, &why)
		       : slurp_file(path, 0, KEY_FILE_MAX, &text, &n, &why);

	if (rc && rc != ERR_TOO_LARGE)
		return err_again(e, rc, &why, "cannot read a public key");
	rc = rc ? ERR_INVAL : key_from_bytes((const uint8_t *)text, n, &key);
	slurp_free(text, n);
	if (rc)
		return err_set(e, rc, "%s is not an Ed25519 public key (32 bytes, or base64url of them)", path);
	if (set->n >= RECORD_KEYS_MAX)
		return err_set(e, ERR_TOO_LARGE, "more than %d public keys", RECORD_KEYS_MAX);
	return list_append(&set->keys, &set->n, &key, sizeof key) ? err_set(e, ERR_NOMEM, "no memory for public keys")
								  : 0;
}

static int keyset_add_folder(const char *path, struct grant_keyset *set, struct err *e)
{
	char name[4096];
	struct dirent *de;
	DIR *d = opendir(path);
	int rc = 0;

	if (!d)
		return err_sys(e, errno, "cannot read the folder %s", path);
	while (!rc && (de = readdir(d))) {
		size_t n = strlen(de->d_name);
		if (n < 5 || strcmp(de->d_name + n - 4, ".pub") != 0)
			continue;
		if ((size_t)snprintf(name, sizeof name, "%s/%s", path, de->d_name) >= sizeof name)
			rc = err_set(e, ERR_TOO_LARGE, "the path %s is too long", path);
		else
			rc = keyset_add_file(name, false, set, e);
	}
	closedir(d);
	if (!rc && !set->n)
		rc = err_set(e, ERR_NOT_FOUND, "no public key (*.pub) in %s", path);
	return rc;
}

int keyset_load(const char *path, struct grant_keyset *out, struct err *e)
{
	struct grant_keyset set = {NULL, 0};
	struct stat st;
	int rc;

	if (stat(path, &st) != 0)
		return err_sys(e, errno, "cannot find the public keys %s", path);
	rc = S_ISDIR(st.st_mode) ? keyset_add_folder(path, &set, e) : keyset_add_file(path, true, &set, e);
	if (rc) {
		free(set.keys);
		return rc;
	}
	*out = set;
	return 0;
}
