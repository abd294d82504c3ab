#define LOG_SUBSYS "rest"
#include "muxd/doors/https/scraper.h"

#include "base/err.h"
#include "base/log.h"
#include "base/slurp.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
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
	struct err e = {0};
	char *text = NULL;
	size_t n = 0;
	bool found;

	if (!*path || strlen(token) < SCRAPER_TOKEN_MIN || strlen(token) > SCRAPER_TOKEN_MAX)
		return false;
	if (slurp_file(path, 0, FILE_MAX, &text, &n, &e)) {
		log_warn(NULL, "metrics.token_file: %s", e.message);
		return false;
	}
	found = lines_have(text, token);
	slurp_free(text, n);
	return found;
}
