/*
 * router_fields.h - which fields of an answer from a sandbox would act on the daemon's own origin.
 *
 * What a server in a sandbox answers comes from the daemon's host and port. To a browser that is one origin with the
 * daemon's pages, and some fields are not about the answer that they stand in but about that origin: these stay
 * here. The table has the reason of each. Fields about the answer itself (its type, caching, policies of its
 * document) pass.
 *
 * Pure; it keeps nothing.
 */
#ifndef MUXD_DOORS_HTTPS_ROUTER_ROUTER_FIELDS_H
#define MUXD_DOORS_HTTPS_ROUTER_ROUTER_FIELDS_H

#include "base/http1.h"

#define ROUTER_COOKIES_MAX      16 /* of one answer */
#define ROUTER_COOKIE_MAX       4096
#define ROUTER_COOKIE_BYTES_MAX 8192 /* of all of them */

/* Why it may not pass, for people; NULL: it may. */
const char *router_field_stays(struct http1_text name);

struct router_cookies {
	size_t n, bytes; /* that passed; 0 at first */
};

/* The value of a Set-Cookie. False: of a name of ours, without a name, for more hosts than this one, or too many. */
bool router_cookie_passes(struct router_cookies *c, struct http1_text value);
/* Does a pair of a Cookie or Set-Cookie field have a name of ours? */
bool router_cookie_is_ours(struct http1_text pair);

/* Does the request come from a page of the daemon's own origin? Browsers say so. */
bool router_from_own_page(const struct http1_head *h);

#endif
