#include "control/kube/client/url.h"

#include "base/buf.h"
#include "base/err.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int part(CURLU *u, CURLUPart which, unsigned flags, char **out)
{
	CURLUcode rc = curl_url_get(u, which, out, flags);

	if (rc == CURLUE_OK)
		return 0;
	*out = NULL;
	return rc == CURLUE_OUT_OF_MEMORY ? ERR_NOMEM : ERR_NOT_FOUND;
}

static bool url_has(CURLU *u, CURLUPart which)
{
	char *s = NULL;
	bool yes = part(u, which, 0, &s) == 0 && *s;

	if (s)
		explicit_bzero(s, strlen(s));
	curl_free(s);
	return yes;
}

static bool scheme_allowed(const char *schemes, const char *scheme)
{
	for (size_t len; *schemes; schemes += len + (schemes[len] == '|')) {
		len = strcspn(schemes, "|");
		if (strlen(scheme) == len && strncmp(schemes, scheme, len) == 0)
			return true;
	}
	return false;
}

static uint16_t port_of(CURLU *u, const char *scheme)
{
	char *text = NULL;
	unsigned long port = 0;

	if (part(u, CURLUPART_PORT, 0, &text) == 0)
		port = strtoul(text, NULL, 10);
	curl_free(text);
	if (port > 0 && port <= 65535)
		return (uint16_t)port;
	if (strcmp(scheme, "https") == 0)
		return 443;
	return strcmp(scheme, "http") == 0 ? 80 : 1080;
}

/* [::1] without its brackets. */
static char *bare_host(const char *host)
{
	size_t len = strlen(host);

	return host[0] == '[' && len > 2 ? strndup(host + 1, len - 2) : strdup(host);
}

static char *bare_path(const char *path)
{
	size_t len = strlen(path);

	while (len && path[len - 1] == '/')
		len--;
	return strndup(path, len);
}

static int url_take(CURLU *u, const char *schemes, struct kube_url *out, struct err *e)
{
	char *scheme = NULL, *host = NULL, *path = NULL;
	int rc = 0;

	if (part(u, CURLUPART_SCHEME, 0, &scheme) < 0 || !scheme_allowed(schemes, scheme) ||
	    strlen(scheme) >= sizeof(out->scheme))
		rc = err_set(e, ERR_INVAL, "it does not begin with one of %s, then ://", schemes);
	else if (part(u, CURLUPART_HOST, 0, &host) < 0 || !*host)
		rc = err_set(e, ERR_INVAL, "it names no host");
	else if (url_has(u, CURLUPART_QUERY) || url_has(u, CURLUPART_FRAGMENT))
		rc = err_set(e, ERR_INVAL, "a query or a fragment has no place in it");
	else if (part(u, CURLUPART_PATH, 0, &path) < 0)
		rc = err_set(e, ERR_INVAL, "its path cannot be read");
	if (rc < 0)
		goto out;
	strcpy(out->scheme, scheme);
	out->port = port_of(u, scheme);
	out->credentials = url_has(u, CURLUPART_USER) || url_has(u, CURLUPART_PASSWORD);
	out->host = bare_host(host);
	out->path = bare_path(path);
	if (!out->host || !out->path) {
		kube_url_finish(out);
		rc = err_set(e, ERR_NOMEM, "no memory for an address");
	}
out:
	curl_free(scheme);
	curl_free(host);
	curl_free(path);
	return rc;
}

/* Without a scheme libcurl would guess one from the host's name; ours is the first allowed. */
static CURLUcode set(CURLU *u, const char *text, const char *schemes)
{
	char *whole = NULL;

	if (strstr(text, "://"))
		return curl_url_set(u, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME);
	if (asprintf(&whole, "%.*s://%s", (int)strcspn(schemes, "|"), schemes, text) < 0)
		return CURLUE_OUT_OF_MEMORY;
	CURLUcode rc = curl_url_set(u, CURLUPART_URL, whole, CURLU_NON_SUPPORT_SCHEME);
	explicit_bzero(whole, strlen(whole));
	free(whole);
	return rc;
}

int kube_url_parse(const char *text, const char *schemes, struct kube_url *out, struct err *e)
{
	CURLU *u = curl_url();
	struct kube_url found = {0};
	int rc;

	CURLUcode code = u ? set(u, text, schemes) : CURLUE_OUT_OF_MEMORY;
	if (code == CURLUE_OUT_OF_MEMORY)
		rc = err_set(e, ERR_NOMEM, "no memory for an address");
	else if (code != CURLUE_OK)
		rc = err_set(e, ERR_INVAL, "it is not a URL: %s", curl_url_strerror(code));
	else
		rc = url_take(u, schemes, &found, e);
	curl_url_cleanup(u);
	if (rc == 0)
		*out = found;
	return rc;
}

void kube_url_finish(struct kube_url *u)
{
	if (!u)
		return;
	free(u->host);
	free(u->path);
	*u = (struct kube_url){0};
}

int kube_url_escape(struct buf *b, const char *s)
{
	int rc = 0;

	for (; *s && rc == 0; s++) {
		unsigned char c = (unsigned char)*s;
		bool plain = (c < 0x80 && isalnum(c)) || strchr("-._~", c);
		rc = plain ? buf_append(b, s, 1) : buf_printf(b, "%%%02X", c);
	}
	return rc;
}

char *kube_url_format(const char *scheme, const char *host, uint16_t port, const char *base, const char *path)
{
	bool v6 = strchr(host, ':') != NULL;
	char *out = NULL;

	if (asprintf(&out, "%s%s%s%s:%u%s%s", scheme, v6 ? "[" : "", host, v6 ? "]" : "", port, base, path) < 0)
		return NULL;
	return out;
}
