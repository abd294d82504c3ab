/* The pages and their files over HTTPS, and the exchange of a link's token for the cookie. */
#include "muxd/doors/https/handlers.h"

#include "base/clock.h"
#include "muxd/doors/https/assets.h"
#include "muxd/doors/https/origin.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

/*
 * Nothing inline but what loads the page again when a part of it did not come; nothing from elsewhere, in nobody's
 * frame. wss: for browsers that do not count it as 'self'.
 */
static const char policy[] = "Content-Security-Policy: default-src 'none'; script-src 'self' '%s'; style-src 'self'; "
			     "img-src 'self' data:; font-src 'self'; connect-src 'self'%s%s; base-uri 'none'; "
			     "form-action 'none'; frame-ancestors 'none'\r\n"
			     "Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n"
			     "Cross-Origin-Resource-Policy: same-origin\r\nX-Frame-Options: DENY\r\n"
			     "Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n";

/* NULL: none. */
static const struct web_asset *web_asset_find(const char *name)
{
	for (size_t i = 0; i < web_assets_count; i++)
		if (strcmp(web_assets[i].name, name) == 0)
			return &web_assets[i];
	return NULL;
}

/* A Host that could end the header or the policy is left out of it. */
static bool plain_host(const char *host)
{
	return *host &&
	       strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") == strlen(host);
}

static int unzip(const struct web_asset *a, struct buf *out)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)a->gzip, .avail_in = (uInt)a->gzip_len};
	uint8_t *to;
	int rc = buf_reserve(out, a->len, &to);

	if (rc || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
		return ERR_NOMEM;
	z.next_out = to;
	z.avail_out = (uInt)a->len;
	rc = inflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : ERR_CORRUPT;
	inflateEnd(&z);
	if (!rc)
		buf_commit(out, a->len);
	return rc;
}

static void reply_asset(struct http_exchange *x, const struct web_asset *a)
{
	bool host = plain_host(x->host), same = strcmp(x->if_none_match, a->etag) == 0;
	int rc = buf_printf(&x->headers, policy, web_boot_digest, host ? " wss://" : "", host ? x->host : "");

	if (!rc)
		rc = buf_printf(&x->headers, "ETag: %s\r\nVary: Accept-Encoding\r\n", a->etag);
	if (!rc && !same && x->accepts_gzip)
		rc = buf_append_str(&x->headers, "Content-Encoding: gzip\r\n");
	x->cache = a->immutable ? "public, max-age=31536000, immutable" : "no-cache";
	if (!rc && !same)
		rc = x->accepts_gzip ? buf_append(&x->out, a->gzip, a->gzip_len) : unzip(a, &x->out);
	if (rc)
		http_reply_error(x, rc, NULL);
	else
		http_reply_text(x, same ? 304 : 200, a->type, "", 0);
}

/* One document for every page: its script looks at the address. */
void web_page(struct http_exchange *x)
{
	const struct web_asset *a = web_asset_find("index.html");

	if (a)
		reply_asset(x, a);
	else
		http_reply_error(x, ERR_NOT_FOUND, NULL);
}

void web_file(struct http_exchange *x)
{
	const struct web_asset *a = web_asset_find(x->params[0]);
	struct err e = {0};

	if (a) {
		reply_asset(x, a);
		return;
	}
	err_set(&e, ERR_NOT_FOUND, "no such file; after an upgrade of muxd the page has to be loaded anew");
	http_reply_error(x, e.code, &e);
}

/* --- who the page is */

static void reply_grant(struct http_exchange *x)
{
	const struct grant *g = &x->rq.grant;
	struct grant_line line = grant_line(g);
	int64_t until = hub_grant_ends(x->hub, &line), left = until - hub_now_wall(x->hub);
	char id[ID_STR_LEN], scopes[128], ends[40];
	json_t *o;

	id_format(&g->id, id);
	grant_scopes_format(g->scopes, scopes, sizeof(scopes));
	clock_format_utc(until, ends, sizeof(ends));
	o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:s}", "grant_id", id, "principal", g->principal, "kind",
		      grant_kind_name(g->kind), "agent", g->agent, "scopes", scopes, "task_id", g->task, "reason",
		      g->reason, "expires_at", ends, "expires_in_ms", (json_int_t)(left / (int64_t)NS_PER_MS),
		      "version", MUXD_VERSION);
	http_reply_result(x, 0, NULL, o);
	json_decref(o);
}

void web_session_show(struct http_exchange *x)
{
	reply_grant(x);
}

/*
 * How long the browser keeps it: until the grant's end, or as long as its holder may renew it. How long it is good is
 * asked with each request; but one that is gone cannot come back when its grant was renewed while the page was away.
 */
static int64_t cookie_age_s(const struct http_exchange *x)
{
	const struct grant *g = &x->rq.grant;
	struct grant_line line = grant_line(g);
	int64_t until = hub_grant_ends(x->hub, &line);
	int64_t renewed = (g->since_ns ? g->since_ns : g->issued_ns) + (int64_t)hub_conf(x->hub)->grant_renew_max_ns;

	return ((renewed > until ? renewed : until) - hub_now_wall(x->hub)) / (int64_t)NS_PER_SEC + 1;
}

/* By the cookie itself: the same one, kept until the end that its grant has by now. */
void web_session_create(struct http_exchange *x)
{
	if (web_cookie_header(x->cookie_key, x->rq.token, cookie_age_s(x), &x->headers))
		http_reply_error(x, ERR_NOMEM, NULL);
	else
		reply_grant(x);
}

void web_session_end(struct http_exchange *x)
{
	json_t *o = json_object();

	if (!o || web_cookie_header(x->cookie_key, NULL, 0, &x->headers))
		http_reply_error(x, ERR_NOMEM, NULL);
	else
		http_reply_json(x, 200, o);
	json_decref(o);
}
