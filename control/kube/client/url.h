/*
 * url.h - addresses taken apart (RFC 3986, by libcurl's parser) and put together. Values; no state.
 */
#ifndef CONTROL_KUBE_CLIENT_URL_H
#define CONTROL_KUBE_CLIENT_URL_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct buf;

struct kube_url {
	char scheme[16];
	char *host; /* without brackets */
	uint16_t port;
	char *path;       /* "" or "/base", no '/' at its end */
	bool credentials; /* it holds a user or a password */
};

/*
 * schemes: those allowed, "https|http"; a text without any gets the first. Ports by default: http 80, https 443,
 * others 1080. A query or a fragment is refused. ERR_INVAL says what is wrong, and quotes nothing: there may be a
 * password in it.
 */
int kube_url_parse(const char *text, const char *schemes, struct kube_url *out, struct err *e);
void kube_url_finish(struct kube_url *u); /* NULL-safe; wiped */

/* Appends s percent-encoded: all but unreserved characters (RFC 3986 2.3). */
int kube_url_escape(struct buf *b, const char *s);

/* "SCHEME[HOST]:PORT" with the two paths behind it; brackets where host is an IPv6 address. Caller frees; NULL: no
 * memory. */
char *kube_url_format(const char *scheme, const char *host, uint16_t port, const char *base, const char *path);

#endif
