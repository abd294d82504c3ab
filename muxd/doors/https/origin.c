#include "muxd/doors/https/origin.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool given(const char *s)
{
	return s && *s;
}

int web_origin_check(const struct web_origin *o, bool required, struct err *e)
{
	static const char scheme[] = "https://";

	/* "none": typed by the person or from a bookmark */
	if (given(o->fetch_site) && strcmp(o->fetch_site, "same-origin") != 0 &&
	    (required || strcmp(o->fetch_site, "none") != 0))
		return err_set(e, ERR_FORBIDDEN, "the request comes from a page of another site");
	if (!given(o->origin))
		return required ? err_set(e, ERR_FORBIDDEN, "a request with a cookie needs an Origin header") : 0;
	if (!given(o->host) || strncasecmp(o->origin, scheme, sizeof(scheme) - 1) != 0 ||
	    strcasecmp(o->origin + sizeof(scheme) - 1, o->host) != 0)
		return err_set(e, ERR_FORBIDDEN, "the request comes from a page of another origin");
	return 0;
}

size_t web_cookie_token(const char *header, char *out, size_t size)
{
	static const char name[] = WEB_COOKIE "=";
	const char *p = header ? header : "";

	while (*p) {
		size_t n;

		p += strspn(p, " \t;");
		n = strcspn(p, ";");
		if (strncmp(p, name, sizeof(name) - 1) == 0) {
			p += sizeof(name) - 1;
			n -= sizeof(name) - 1;
			while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
				n--;
			if (n == 0 || n >= size)
				return 0;
			memcpy(out, p, n);
			out[n] = '\0';
			return n;
		}
		p += n;
	}
	return 0;
}

/* "~" stands in no token. */
static int web_cookie_mark(const uint8_t key[WEB_COOKIE_KEY_LEN], const char *token, size_t len,
			   char out[WEB_MARK_SIZE])
{
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	char *text = HMAC(EVP_sha256(), key, WEB_COOKIE_KEY_LEN, (const uint8_t *)token, len, mac, &n)
			 ? base64_encode(mac, n, true)
			 : NULL;

	if (!text || strlen(text) != WEB_MARK_SIZE - 2) {
		free(text);
		return ERR_NOMEM;
	}
	out[0] = '~';
	memcpy(out + 1, text, WEB_MARK_SIZE - 1);
	free(text);
	return 0;
}

bool web_cookie_unmark(const uint8_t key[WEB_COOKIE_KEY_LEN], char *value)
{
	char mark[WEB_MARK_SIZE], *given_mark = strchr(value, '~');
	bool good = given_mark && strlen(given_mark) == WEB_MARK_SIZE - 1 &&
		    web_cookie_mark(key, value, (size_t)(given_mark - value), mark) == 0 &&
		    CRYPTO_memcmp(mark, given_mark, WEB_MARK_SIZE - 1) == 0;

	if (given_mark)
		*given_mark = '\0';
	return good;
}

int web_cookie_header(const uint8_t key[WEB_COOKIE_KEY_LEN], const char *token, int64_t max_age_s, struct buf *out)
{
	char mark[WEB_MARK_SIZE] = "";
	int rc = token ? web_cookie_mark(key, token, strlen(token), mark) : 0;

	return rc ? rc
		  : buf_printf(out,
			       "Set-Cookie: " WEB_COOKIE "=%s%s; Path=/; Max-Age=%lld; Secure; HttpOnly; "
			       "SameSite=Strict\r\n",
			       token ? token : "", mark, token ? (long long)max_age_s : 0LL);
}
