#include "muxd/doors/https/router/router_head.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/doors/https/router/router_fields.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HEADER_ID        "X-Sandbox-ID"
#define HEADER_PORT      "X-Sandbox-Port"
#define HEADER_NAMESPACE "X-Sandbox-Namespace"
#define OURS             "X-Sandbox-"
#define PSEUDONYM        "muxd"

static bool starts(struct http1_text t, const char *s)
{
	return t.n >= strlen(s) && strncasecmp(t.p, s, strlen(s)) == 0;
}

bool router_asked(const void *p, size_t n)
{
	const char *at = p, *end = at + n, *nl;

	while ((nl = memchr(at, '\n', (size_t)(end - at)))) {
		at = nl + 1;
		if (at < end && (*at == '\r' || *at == '\n'))
			return false; /* the head's end */
		if ((size_t)(end - at) > strlen(HEADER_ID) && strncasecmp(at, HEADER_ID, strlen(HEADER_ID)) == 0 &&
		    strchr(": \t", at[strlen(HEADER_ID)]))
			return true;
	}
	return false;
}

/* ---- what it asks for */

/* Exactly one, or none. */
static int only(const struct http1_head *h, const char *name, struct http1_text *out, struct err *e)
{
	const struct http1_field *f = http1_find(h, name, NULL);

	*out = (struct http1_text){.p = NULL, .n = 0};
	if (f && http1_find(h, name, f))
		return err_set(e, ERR_INVAL, "%s is given twice", name);
	if (f && !f->value.n)
		return err_set(e, ERR_INVAL, "%s is empty", name);
	if (f)
		*out = f->value;
	return 0;
}

static int router_head_copy(const char *name, struct http1_text t, char *out, size_t size, struct err *e)
{
	if (t.n >= size || (t.p && memchr(t.p, ',', t.n)))
		return err_set(e, ERR_INVAL, "%s is too long, or several", name);
	memcpy(out, t.p ? t.p : "", t.n);
	out[t.n] = '\0';
	return 0;
}

static int read_port(const struct http1_head *h, uint16_t *out, struct err *e)
{
	struct http1_text t;
	unsigned port = 0;
	int rc = only(h, HEADER_PORT, &t, e);

	if (rc)
		return rc;
	if (!t.p)
		return err_set(e, ERR_INVAL, HEADER_PORT " is missing: which port in the sandbox?");
	for (size_t i = 0; i < t.n && port <= UINT16_MAX; i++)
		port = t.p[i] >= '0' && t.p[i] <= '9' ? port * 10 + (unsigned)(t.p[i] - '0') : UINT16_MAX + 1u;
	if (port < 1 || port > UINT16_MAX)
		return err_set(e, ERR_INVAL, HEADER_PORT " must be a number from 1 to 65535");
	*out = (uint16_t)port;
	return 0;
}

/* RFC 1123 label, as Kubernetes names namespaces. */
static bool is_label(const char *s)
{
	size_t n = strlen(s);

	return n && n <= 63 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n && s[0] != '-' &&
	       s[n - 1] != '-';
}

static int read_names(const struct http1_head *h, struct router_head *out, struct err *e)
{
	struct http1_text id, space;
	int rc = only(h, HEADER_ID, &id, e);

	if (rc == 0)
		rc = only(h, HEADER_NAMESPACE, &space, e);
	if (rc == 0)
		rc = router_head_copy(HEADER_ID, id, out->id, sizeof(out->id), e);
	if (rc == 0)
		rc = router_head_copy(HEADER_NAMESPACE, space, out->space, sizeof(out->space), e);
	if (rc == 0 && *out->space && !is_label(out->space))
		rc = err_set(e, ERR_INVAL, HEADER_NAMESPACE " is no name of a namespace");
	return rc;
}

/* RFC 6750, 2.1 */
static int router_head_read_token(const struct http1_head *h, struct http1_text *out, struct err *e)
{
	struct http1_text t;
	int rc = only(h, "Authorization", &t, e);

	*out = t;
	if (rc || !t.p)
		return rc;
	if (t.n < 8 || t.n > ROUTER_TOKEN_MAX || strncasecmp(t.p, "Bearer ", 7) != 0)
		return err_set(e, ERR_TOKEN_MALFORMED, "Authorization must be: Bearer TOKEN");
	for (t.p += 7, t.n -= 7; t.n && *t.p == ' '; t.p++)
		t.n--;
	*out = t;
	return 0;
}

static void read_use(const struct http1_head *h, struct router_head *out)
{
	const char *query = memchr(out->target.p, '?', out->target.n);
	size_t n = query ? (size_t)(query - out->target.p) : out->target.n;

	text_format(out->use, sizeof(out->use), "%.*s %s%.*s", (int)(h->method.n < 32 ? h->method.n : 32), h->method.p,
		    out->rootless ? "/" : "", (int)(n < 200 ? n : 200), out->target.p);
	for (char *p = out->use; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
}

int router_head_read(const struct http1_head *h, struct router_head *out, struct err *e)
{
	int rc;

	memset(out, 0, sizeof(*out));
	out->head = http1_is(h->method, "HEAD");
	out->minor = h->minor;
	out->keep_alive = h->minor == 1 && !http1_lists(h, "Connection", "close");
	out->target = h->target;
	if (http1_is(h->method, "CONNECT"))
		return err_set(e, ERR_INVAL, "CONNECT is not routed: X-Sandbox-Port names the port");
	rc = http1_request_path(h, &out->target, e);
	if (rc)
		return rc;
	out->rootless = !out->target.n || *out->target.p == '?';
	read_use(h, out);
	rc = http1_request_body(h, &out->body, e);
	/* With a body it is a plain request (RFC 9110, 7.8: an Upgrade may be ignored): nobody could tell its end from
	 * the other protocol's beginning. */
	out->upgrade = rc == 0 && out->body.done && h->minor == 1 && http1_lists(h, "Connection", "upgrade") &&
		       http1_find(h, "Upgrade", NULL);
	if (rc == 0)
		rc = read_names(h, out, e);
	if (rc == 0)
		rc = read_port(h, &out->port, e);
	return rc ? rc : router_head_read_token(h, &out->token, e);
}

/* ---- what is passed on */

/* RFC 9110, 7.6.1: what Connection names, and what was for one hop before Connection had to name it. */
static bool is_hop(const struct http1_head *h, struct http1_text name)
{
	static const char *const fields[] = {"Connection",
					     "Proxy-Connection",
					     "Keep-Alive",
					     "TE",
					     "Trailer",
					     "Transfer-Encoding",
					     "Upgrade",
					     "HTTP2-Settings",
					     "Proxy-Authenticate",
					     "Proxy-Authorization",
					     NULL};
	char word[128];

	for (size_t i = 0; fields[i]; i++)
		if (http1_is_like(name, fields[i]))
			return true;
	/* without the length both sides would not agree on where the body ends */
	if (name.n >= sizeof(word) || http1_is_like(name, "Content-Length") || http1_is_like(name, "Host"))
		return false;
	memcpy(word, name.p, name.n);
	word[name.n] = '\0';
	return http1_lists(h, "Connection", word);
}

static int router_head_field(struct buf *out, struct http1_text name, struct http1_text value)
{
	int rc = buf_append(out, name.p, name.n);

	if (rc == 0)
		rc = buf_append(out, ": ", 2);
	if (rc == 0)
		rc = buf_append(out, value.p, value.n);
	return rc ? rc : buf_append(out, "\r\n", 2);
}

/* The pairs of a Cookie field that are not ours. */
static int cookies(struct buf *out, struct http1_text v)
{
	bool first = true;
	int rc = 0;

	while (v.n && rc == 0) {
		const char *semi = memchr(v.p, ';', v.n);
		struct http1_text pair = {.p = v.p, .n = semi ? (size_t)(semi - v.p) : v.n};

		v.n -= pair.n + (semi != NULL);
		v.p += pair.n + (semi != NULL);
		if (router_cookie_is_ours(pair))
			continue;
		rc = buf_append_str(out, first ? "Cookie: " : ";");
		if (rc == 0)
			rc = buf_append(out, pair.p, pair.n);
		first = false;
	}
	return rc || first ? rc : buf_append(out, "\r\n", 2);
}

/* The address alone: "[::1]:1234" and "127.0.0.1:1234" have a port. */
static struct http1_text address_of(const char *peer)
{
	const char *colon = strrchr(peer, ':');
	struct http1_text t = {.p = peer, .n = colon ? (size_t)(colon - peer) : strlen(peer)};

	if (t.n > 2 && t.p[0] == '[' && t.p[t.n - 1] == ']')
		t.p++, t.n -= 2;
	return t;
}

/* A list goes on with its new end. */
static int list_field(const struct http1_head *h, struct buf *out, const char *name, struct http1_text last)
{
	int rc = buf_printf(out, "%s: ", name);

	for (const struct http1_field *f = http1_find(h, name, NULL); f && rc == 0; f = http1_find(h, name, f)) {
		if (!f->value.n)
			continue;
		rc = buf_append(out, f->value.p, f->value.n);
		if (rc == 0)
			rc = buf_append(out, ", ", 2);
	}
	if (rc == 0)
		rc = buf_append(out, last.p, last.n);
	return rc ? rc : buf_append(out, "\r\n", 2);
}

static bool is_replaced(struct http1_text name)
{
	static const char *const fields[] = {"Authorization", "X-Forwarded-For", "X-Forwarded-Proto", "Via", NULL};

	for (size_t i = 0; fields[i]; i++)
		if (http1_is_like(name, fields[i]))
			return true;
	return starts(name, OURS);
}

static int request_fields(const struct http1_head *h, struct buf *out)
{
	int rc = 0;

	for (size_t i = 0; i < h->nfields && rc == 0; i++) {
		const struct http1_field *f = &h->field[i];

		if (is_replaced(f->name) || is_hop(h, f->name))
			continue;
		rc = http1_is_like(f->name, "Cookie") ? cookies(out, f->value)
						      : router_head_field(out, f->name, f->value);
	}
	return rc;
}

static int upgrade_fields(const struct http1_head *h, struct buf *out)
{
	int rc = buf_append_str(out, "Connection: Upgrade\r\n");

	for (const struct http1_field *f = http1_find(h, "Upgrade", NULL); f && rc == 0;
	     f = http1_find(h, "Upgrade", f))
		rc = router_head_field(out, f->name, f->value);
	return rc;
}

static struct http1_text via(unsigned minor)
{
	return (struct http1_text){.p = minor ? "1.1 " PSEUDONYM : "1.0 " PSEUDONYM, .n = 4 + strlen(PSEUDONYM)};
}

/* To a client of HTTP/1.0 the server must answer as to one: it knows no chunks. */
int router_head_request(const struct http1_head *h, const struct router_head *r, const char *peer, struct buf *out)
{
	int rc = buf_printf(out, "%.*s %s%.*s HTTP/1.%u\r\n", (int)h->method.n, h->method.p, r->rootless ? "/" : "",
			    (int)r->target.n, r->target.p, h->minor);

	if (rc == 0)
		rc = request_fields(h, out);
	if (rc == 0 && r->body.kind == HTTP1_CHUNKED)
		rc = buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	if (rc == 0)
		rc = list_field(h, out, "X-Forwarded-For", address_of(peer));
	if (rc == 0)
		rc = buf_append_str(out, "X-Forwarded-Proto: https\r\n");
	if (rc == 0)
		rc = list_field(h, out, "Via", via(h->minor));
	if (rc == 0)
		rc = r->upgrade ? upgrade_fields(h, out) : buf_append_str(out, "Connection: close\r\n");
	return rc ? rc : buf_append(out, "\r\n", 2);
}

/* What has no body has no length either (RFC 9110, 8.6): a client that believed one would read on into our answers. */
static int answer_fields(const struct http1_head *h, struct buf *out)
{
	bool no_body = h->status < 200 || h->status == 204;
	struct router_cookies passed = {0, 0};
	int rc = 0;

	for (size_t i = 0; i < h->nfields && rc == 0; i++) {
		const struct http1_field *f = &h->field[i];

		if (is_hop(h, f->name) || http1_is_like(f->name, "Via") || router_field_stays(f->name) ||
		    (no_body && http1_is_like(f->name, "Content-Length")) ||
		    (http1_is_like(f->name, "Set-Cookie") && !router_cookie_passes(&passed, f->value)))
			continue;
		rc = router_head_field(out, f->name, f->value);
	}
	return rc;
}

int router_head_answer(const struct http1_head *h, const struct http1_body *body, bool upgraded, bool keep_alive,
		       const char *request_id, struct buf *out)
{
	int rc = buf_printf(out, "HTTP/1.1 %d %.*s\r\n", h->status, (int)h->reason.n, h->reason.p);

	if (rc == 0)
		rc = answer_fields(h, out);
	if (rc == 0 && body->kind == HTTP1_CHUNKED)
		rc = buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	if (rc == 0)
		rc = list_field(h, out, "Via", via(h->minor));
	if (rc == 0 && h->status >= 200) /* no cache may give it for the page of ours that has the same path */
		rc = buf_printf(out,
				"Vary: X-Sandbox-ID, X-Sandbox-Port, X-Sandbox-Namespace\r\nX-Muxd-Request-Id: %s\r\n",
				request_id);
	if (rc == 0 && upgraded)
		rc = upgrade_fields(h, out);
	else if (rc == 0 && h->status >= 200)
		rc = buf_append_str(out, keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n");
	return rc ? rc : buf_append(out, "\r\n", 2);
}
