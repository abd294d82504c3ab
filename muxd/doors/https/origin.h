/*
 * origin.h - what a browser says about where a request comes from, and the cookie that holds its grant.
 *
 * The cookie is the grant's token itself, verified anew with each request, and a mark
 * by which the door knows that it made the cookie while that grant was in force: so it
 * goes on under the grant's renewals, where a token alone, which may lie in a history
 * or a log, is over at its end. Nothing is stored. A cookie is sent by the browser whoever made the request, so one
 * that opens or changes something counts only with an Origin of our own (RFC 6454; Fetch Metadata where the browser has
 * it). Pure.
 */
#ifndef MUXD_DOORS_HTTPS_ORIGIN_H
#define MUXD_DOORS_HTTPS_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct buf;

#define WEB_COOKIE "__Host-muxd" /* the prefix binds it to this host, to TLS and to every path */

/* Headers as they came; NULL or "": absent. */
struct web_origin {
	const char *origin, *host, *fetch_site;
};

/* An Origin, where there is one, is https:// and the Host. ERR_FORBIDDEN. required: its absence is refused too. */
int web_origin_check(const struct web_origin *o, bool required, struct err *e);
#define WEB_COOKIE_KEY_LEN 32
#define WEB_MARK_SIZE      45 /* "~", 32 bytes in base64url, and its end */

/* The value in a Cookie header: copied to out, its length; 0 when there is none, or it does not fit. */
size_t web_cookie_token(const char *header, char *out, size_t size);
/* Leaves the token of a cookie's value. True: its mark is of this key; of another key (the door's changed), or without
 * one, it is a token like others. */
bool web_cookie_unmark(const uint8_t key[WEB_COOKIE_KEY_LEN], char *value);
/* The line Set-Cookie: for token, or with token NULL the one that ends it. max_age_s: how long the browser keeps it. */
int web_cookie_header(const uint8_t key[WEB_COOKIE_KEY_LEN], const char *token, int64_t max_age_s, struct buf *out);

#endif
