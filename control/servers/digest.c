#include "control/servers/digest.h"

#include "base/err.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int digest_bytes(const void *p, size_t n, char out[DIGEST_SZ])
{
	uint8_t sum[32];

	if (EVP_Digest(p, n, sum, NULL, EVP_sha256(), NULL) != 1)
		return ERR_NOMEM;
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
	return 0;
}

int digest_json(const json_t *v, char out[DIGEST_SZ])
{
	char *text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	int rc = text ? digest_bytes(text, strlen(text), out) : ERR_NOMEM;

	free(text);
	return rc;
}
