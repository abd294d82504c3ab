#include "muxd/doors/https/router/router_fields.h"

#include <string.h>
#include <strings.h>

/* A name that ends with a dash stands for all that begin so. */
static const struct {
	const char *name, *why;
} stays[] = {
    {"Strict-Transport-Security", "rules by which scheme browsers ask this host for anything"},
    {"Public-Key-Pins", "rules which keys this host may have"},
    {"Public-Key-Pins-Report-Only", "has reports of this host's connections sent away"},
    {"Expect-CT", "rules which certificates this host may have"},
    {"Clear-Site-Data", "ends every log-in at this origin, and what its pages keep"},
    {"Set-Login", "tells the browser whether people are logged in at this origin"},
    {"Alt-Svc", "sends later requests to this origin to another address"},
    {"Service-Worker-Allowed", "lets a script answer for more of this origin's paths than its own"},
    {"Access-Control-", "lets pages of other origins read what this one answers"},
    {"Timing-Allow-Origin", "lets pages of other origins measure this one"},
    {"Origin-Agent-Cluster", "rules how the browser keeps this origin's pages apart"},
    {"Report-To", "has reports about this origin sent away"},
    {"Reporting-Endpoints", "has reports about this origin's pages sent away"},
    {"NEL", "has a report of each request to this origin sent away"},
    {"Accept-CH", "has browsers tell this origin more about themselves"},
    {"Accept-CH-Lifetime", "the same, for how long"},
    {"Critical-CH", "the same, with each request sent anew"},
    {"Use-As-Dictionary", "has later answers of this origin unpacked with what a sandbox wrote"},
    {"No-Vary-Search", "has the browser's cache give this answer for other addresses of this origin"},
    {"Sec-Session-", "binds this origin's cookies to a key"},
    {"Secure-Session-", "binds this origin's cookies to a key"},
    {"Attribution-Reporting-", "registers events in this origin's name"},
    {"WWW-Authenticate", "has people asked for a password in this origin's name; Authorization never passes"},
    {"X-Muxd-", "a word of the daemon"},
    {"X-Sandbox-", "a word of the daemon"},
};

const char *router_field_stays(struct http1_text name)
{
	for (size_t i = 0; i < sizeof(stays) / sizeof(stays[0]); i++) {
		size_t n = strlen(stays[i].name);
		bool all = stays[i].name[n - 1] == '-';

		if ((all ? name.n >= n : name.n == n) && strncasecmp(name.p, stays[i].name, n) == 0)
			return stays[i].why;
	}
	return NULL;
}

/* ---- cookies */

/* t up to c, and what is behind that; all of it and nothing where there is none. */
static struct http1_text cut(struct http1_text *t, char c)
{
	const char *at = memchr(t->p, c, t->n);
	struct http1_text head = {.p = t->p, .n = at ? (size_t)(at - t->p) : t->n};

	t->p += head.n + (at != NULL);
	t->n -= head.n + (at != NULL);
	return head;
}

bool router_cookie_is_ours(struct http1_text pair)
{
	static const char *const ours[] = {"muxd", "__Host-muxd", "__Secure-muxd"};

	pair = http1_trim(pair);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (pair.n >= strlen(ours[i]) && strncasecmp(pair.p, ours[i], strlen(ours[i])) == 0)
			return true;
	return false;
}

/* Without a name the value is all that a browser sends back, and may look like one of ours. */
static bool router_fields_has_name(struct http1_text pair)
{
	const char *equals = memchr(pair.p, '=', pair.n);

	return equals && http1_trim((struct http1_text){.p = pair.p, .n = (size_t)(equals - pair.p)}).n > 0;
}

bool router_cookie_passes(struct router_cookies *c, struct http1_text value)
{
	struct http1_text rest = value, pair = cut(&rest, ';');

	if (!router_fields_has_name(pair) || router_cookie_is_ours(pair) || value.n > ROUTER_COOKIE_MAX ||
	    c->n >= ROUTER_COOKIES_MAX || c->bytes + value.n > ROUTER_COOKIE_BYTES_MAX)
		return false;
	while (rest.n) {
		struct http1_text attribute = cut(&rest, ';');

		if (http1_is_like(http1_trim(cut(&attribute, '=')), "Domain"))
			return false;
	}
	c->n++;
	c->bytes += value.n;
	return true;
}

/* ---- who asks */

/* Sec-Fetch fields cannot be set by scripts; an Origin neither. */
bool router_from_own_page(const struct http1_head *h)
{
	static const char scheme[] = "https://";
	const struct http1_field *host = http1_find(h, "Host", NULL);

	if (http1_lists(h, "Sec-Fetch-Site", "same-origin"))
		return true;
	for (const struct http1_field *f = http1_find(h, "Origin", NULL); f && host; f = http1_find(h, "Origin", f))
		if (f->value.n == host->value.n + strlen(scheme) &&
		    strncasecmp(f->value.p, scheme, strlen(scheme)) == 0 &&
		    strncasecmp(f->value.p + strlen(scheme), host->value.p, host->value.n) == 0)
			return true;
	return false;
}
