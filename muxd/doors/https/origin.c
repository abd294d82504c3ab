#include "muxd/doors/https/origin.h"

#include "base/buf.h"
#include "base/err.h"

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

int web_cookie_header(const char *token, int64_t max_age_s, struct buf *out)
{
	return buf_printf(out,
			  "Set-Cookie: " WEB_COOKIE "=%s; Path=/; Max-Age=%lld; Secure; HttpOnly; SameSite=Strict\r\n",
			  token ? token : "", token ? (long long)max_age_s : 0LL);
}
