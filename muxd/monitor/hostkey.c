#include "muxd/monitor/hostkey.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/json.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_TYPE "ssh-ed25519"
#define BLOB_MAX 2048
#define LINE     70 /* of base64, as ssh-keygen writes it */

/* SSH's integers are big-endian (RFC 4251). */
static int hostkey_put_number(struct buf *b, uint32_t v)
{
	const uint8_t be[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
	return buf_append(b, be, sizeof be);
}

static int put_string(struct buf *b, const void *p, size_t n)
{
	int rc = hostkey_put_number(b, (uint32_t)n);
	return rc ? rc : buf_append(b, p, n);
}

static int put_public(struct buf *b, const uint8_t key[32])
{
	int rc = put_string(b, KEY_TYPE, strlen(KEY_TYPE));
	return rc ? rc : put_string(b, key, 32);
}

static int put_private(struct buf *b, const uint8_t seed[32], const uint8_t key[32], const char *comment)
{
	uint32_t check;
	int rc = random_bytes(&check, sizeof check);

	if (rc || (rc = hostkey_put_number(b, check)) || (rc = hostkey_put_number(b, check)) ||
	    (rc = put_public(b, key)) || (rc = hostkey_put_number(b, 64)) || (rc = buf_append(b, seed, 32)) ||
	    (rc = buf_append(b, key, 32)) || (rc = put_string(b, comment, strlen(comment))))
		return rc;
	for (uint8_t pad = 1; buf_len(b) % 8 && rc == 0; pad++)
		rc = buf_append(b, &pad, 1);
	return rc;
}

static int put_file(struct buf *b, const struct buf *public_blob, const struct buf *private_blob)
{
	static const char magic[] = "openssh-key-v1"; /* its NUL belongs to it */
	int rc;

	if ((rc = buf_append(b, magic, sizeof magic)) || (rc = put_string(b, "none", 4)) ||
	    (rc = put_string(b, "none", 4)) || (rc = put_string(b, "", 0)) || (rc = hostkey_put_number(b, 1)) ||
	    (rc = put_string(b, buf_ptr(public_blob), buf_len(public_blob))) ||
	    (rc = put_string(b, buf_ptr(private_blob), buf_len(private_blob))))
		return rc;
	return 0;
}

static char *standard_base64(const struct buf *b)
{
	return base64_encode(buf_ptr(b), buf_len(b), false);
}

static char *armored(const struct buf *blob)
{
	char *text = standard_base64(blob), *out = NULL;
	struct buf b;
	size_t len;
	int rc;

	if (!text)
		return NULL;
	len = strlen(text);
	buf_init(&b, BLOB_MAX * 2);
	rc = buf_append_str(&b, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
	for (size_t i = 0; i < len && rc == 0; i += LINE)
		rc = buf_printf(&b, "%.*s\n", LINE, text + i);
	if (rc == 0)
		rc = buf_append_str(&b, "-----END OPENSSH PRIVATE KEY-----\n");
	if (rc == 0)
		out = strdup(buf_cstr(&b));
	OPENSSL_cleanse(text, len);
	free(text);
	buf_finish_secret(&b);
	return out;
}

static char *public_line(const struct buf *blob, const char *comment)
{
	char *text = standard_base64(blob), *out = NULL;

	if (!text || asprintf(&out, "%s %s %s\n", KEY_TYPE, text, comment) < 0)
		out = NULL;
	free(text);
	return out;
}

int hostkey_encode(const uint8_t seed[32], const uint8_t public_key[32], const char *comment, char **out_private,
		   char **out_public, struct err *e)
{
	struct buf pub, priv, file;
	char *private_text = NULL, *public_text = NULL;
	int rc;

	buf_init(&pub, BLOB_MAX);
	buf_init(&priv, BLOB_MAX);
	buf_init(&file, BLOB_MAX);
	rc = put_public(&pub, public_key);
	if (rc == 0)
		rc = put_private(&priv, seed, public_key, comment);
	if (rc == 0)
		rc = put_file(&file, &pub, &priv);
	if (rc == 0) {
		private_text = armored(&file);
		public_text = public_line(&pub, comment);
		rc = private_text && public_text ? 0 : ERR_NOMEM;
	}
	if (rc == 0) {
		*out_private = private_text;
		*out_public = public_text;
	} else {
		if (private_text)
			OPENSSL_cleanse(private_text, strlen(private_text));
		free(private_text);
		free(public_text);
		err_set(e, rc, "the SSH host key could not be encoded");
	}
	buf_finish(&pub);
	buf_finish_secret(&priv);
	buf_finish_secret(&file);
	return rc;
}

int hostkey_fingerprint(const char *line, char out[HOSTKEY_FINGERPRINT_MAX], struct err *e)
{
	const char *text = strchr(line, ' ');
	uint8_t *blob = NULL, digest[EVP_MAX_MD_SIZE];
	size_t len = 0;
	char *encoded = NULL;
	int rc = ERR_CORRUPT;

	if (text && base64_decode(text + 1, strcspn(text + 1, " \n"), false, &blob, &len) == 0 &&
	    EVP_Digest(blob, len, digest, NULL, EVP_sha256(), NULL) == 1)
		encoded = base64_encode(digest, 32, false);
	if (encoded) {
		encoded[strcspn(encoded, "=")] = '\0';
		snprintf(out, HOSTKEY_FINGERPRINT_MAX, "SHA256:%s", encoded);
		rc = 0;
	}
	free(encoded);
	free(blob);
	return rc ? err_set(e, rc, "the SSH host key's public line is not readable") : 0;
}
