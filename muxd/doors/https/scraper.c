#define LOG_SUBSYS "rest"
#include "muxd/doors/https/scraper.h"

#include "base/log.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX (16 * 1024)

static bool digest(const char *p, size_t n, unsigned char out[EVP_MAX_MD_SIZE])
{
	return EVP_Digest(p, n, out, NULL, EVP_sha256(), NULL) == 1;
}

/* Every line is compared, and by digest: how long it takes tells nothing. */
static bool lines_have(const char *text, const char *token)
{
	unsigned char want[EVP_MAX_MD_SIZE] = {0}, got[EVP_MAX_MD_SIZE] = {0};
	bool found = false;

	if (!digest(token, strlen(token), want))
		return false;
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		const char *line = p + strspn(p, " \t\r");
		size_t n = strcspn(line, " \t\r\n");

		if (n >= SCRAPER_TOKEN_MIN && n <= SCRAPER_TOKEN_MAX && *line != '#' && digest(line, n, got))
			found |= CRYPTO_memcmp(want, got, 32) == 0;
	}
	return found;
}

bool scraper_knows(const char *path, const char *token)
{
	char text[FILE_MAX + 1];
	size_t n;
	bool found;
	FILE *f;

	if (!*path || strlen(token) < SCRAPER_TOKEN_MIN || strlen(token) > SCRAPER_TOKEN_MAX)
		return false;
	f = fopen(path, "re");
	if (!f) {
		log_warn(NULL, "metrics.token_file %s: %s", path, strerror(errno));
		return false;
	}
	n = fread(text, 1, FILE_MAX, f);
	fclose(f);
	text[n] = '\0';
	found = lines_have(text, token);
	OPENSSL_cleanse(text, sizeof(text));
	return found;
}
