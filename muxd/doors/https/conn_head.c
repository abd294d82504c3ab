/* The head of a request as libwebsockets tells it, up to what can be refused before the body; and its exchange. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "muxd/doors/https/conn_http.h"
#include "muxd/doors/https/mcp/mcp.h"
#include "muxd/doors/https/origin.h"
#include "muxd/doors/https/route.h"
#include "muxd/doors/https/runtime.h"
#include "muxd/hub/core/hub.h"

#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define AUTHORIZATION_MAX (8 * 1024)
#define COOKIE_MAX        (GRANT_TOKEN_MAX + WEB_MARK_SIZE + 1)

static enum http_method method_of(struct lws *wsi)
{
	static const struct {
		enum lws_token_indexes token;
		enum http_method method;
	} table[] = {
	    {WSI_TOKEN_GET_URI, HTTP_GET},         {WSI_TOKEN_POST_URI, HTTP_POST},
	    {WSI_TOKEN_HEAD_URI, HTTP_HEAD},       {WSI_TOKEN_PUT_URI, HTTP_PUT},
	    {WSI_TOKEN_PATCH_URI, HTTP_PATCH},     {WSI_TOKEN_DELETE_URI, HTTP_DELETE},
	    {WSI_TOKEN_OPTIONS_URI, HTTP_OPTIONS},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (lws_hdr_total_length(wsi, table[i].token) > 0)
			return table[i].method;
	return HTTP_OTHER;
}

int conn_read_query(struct conn *c, struct err *e)
{
	char arg[HTTP_ARGUMENT_MAX];

	if (lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_URI_ARGS) <= 0)
		return 0;
	for (int i = 0; lws_hdr_fragment_length(c->wsi, WSI_TOKEN_HTTP_URI_ARGS, i) > 0; i++) {
		int rc, n = lws_hdr_copy_fragment(c->wsi, arg, sizeof(arg), WSI_TOKEN_HTTP_URI_ARGS, i);

		if (n < 0)
			return err_set(e, ERR_INVAL, "a query parameter is too long");
		if (strlen(arg) != (size_t)n)
			return err_set(e, ERR_INVAL, "a query parameter holds a NUL character");
		if (i == 0 && strcmp(arg, "/") == 0) /* so libwebsockets 4.1.6 tells a "?" with nothing behind it */
			continue;
		rc = http_query_add(c->x, arg, e);
		if (rc)
			return rc;
	}
	return 0;
}

static void read_request_id(struct conn *c)
{
	static const char name[] = "x-request-id:";
	char text[ID_STR_LEN + 8];
	int n = lws_hdr_custom_length(c->wsi, name, (int)sizeof(name) - 1);

	if (n > 0 && n < (int)sizeof(text) &&
	    lws_hdr_custom_copy(c->wsi, text, sizeof(text), name, (int)sizeof(name) - 1) > 0)
		http_exchange_set_id(c->x, text);
}

/* The length of the body as the head tells it: strict, since libwebsockets reads "12abc" as 12. */
static int read_length(struct conn *c, bool *out_given, uint64_t *out_len, struct err *e)
{
	char text[24];
	int n = lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH);

	*out_given = n > 0;
	*out_len = 0;
	if (!*out_given)
		return 0;
	if (n > 18 || lws_hdr_copy(c->wsi, text, sizeof(text), WSI_TOKEN_HTTP_CONTENT_LENGTH) < 0 ||
	    strspn(text, "0123456789") != strlen(text))
		return err_set(e, ERR_INVAL, "Content-Length must be given once, as a plain number");
	*out_len = strtoull(text, NULL, 10);
	return 0;
}

static int read_coding(struct conn *c, bool length_given, struct err *e)
{
	char text[32] = "";
	int n = lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING);

	c->is_chunked = false;
	if (n <= 0)
		return 0;
	if (lws_hdr_copy(c->wsi, text, sizeof(text), WSI_TOKEN_HTTP_TRANSFER_ENCODING) < 0 ||
	    strcasecmp(text, "chunked") != 0)
		return err_set(e, ERR_INVAL, "the only Transfer-Encoding known is chunked");
	if (length_given)
		return err_set(e, ERR_INVAL, "Content-Length and Transfer-Encoding exclude each other");
	memset(&c->chunked, 0, sizeof(c->chunked));
	c->is_chunked = true;
	return 0;
}

/* Connection: as libwebsockets decides too, with lists taken into account. */
static bool wants_keep_alive(struct conn *c)
{
	char version[16] = "", text[128] = "";
	bool keep =
	    lws_hdr_copy(c->wsi, version, sizeof(version), WSI_TOKEN_HTTP) > 0 && strcmp(version, "HTTP/1.1") == 0;

	if (lws_hdr_total_length(c->wsi, WSI_TOKEN_CONNECTION) > 0) {
		if (lws_hdr_copy(c->wsi, text, sizeof(text), WSI_TOKEN_CONNECTION) <= 0 || strcasestr(text, "close"))
			return false;
		/* HTTP/1.0 with keep-alive is not worth its special cases */
	}
	return keep;
}

/* RFC 7617: the grant is the password, whoever the user is. text is freed. */
static int take_basic(char *text, size_t n, char **out, struct err *e)
{
	const char *p = text + 6 + strspn(text + 6, " ");
	uint8_t *pair = NULL;
	size_t len = 0;
	int rc = base64_decode(p, strlen(p), false, &pair, &len);
	const char *colon = rc == 0 ? memchr(pair, ':', len) : NULL;
	size_t before = colon ? (size_t)(colon + 1 - (const char *)pair) : 0;

	if (colon)
		*out = strndup(colon + 1, len - before);
	if (!colon)
		rc = err_set(e, ERR_TOKEN_MALFORMED, "Authorization must be: Basic, of USER:TOKEN in base64");
	else if (!*out)
		rc = err_set(e, ERR_NOMEM, "out of memory");
	if (pair)
		explicit_bzero(pair, len);
	free(pair);
	explicit_bzero(text, n);
	free(text);
	return rc;
}

int conn_bearer(struct conn *c, char **out, struct err *e)
{
	int n = lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_AUTHORIZATION);
	char *text, *p;

	*out = NULL;
	if (n <= 0)
		return 0;
	if (n > AUTHORIZATION_MAX)
		return err_set(e, ERR_TOKEN_MALFORMED, "the Authorization header is too long");
	text = malloc((size_t)n + 1);
	if (!text)
		return err_set(e, ERR_NOMEM, "out of memory");
	n = lws_hdr_copy(c->wsi, text, n + 1, WSI_TOKEN_HTTP_AUTHORIZATION);
	if (c->x && c->x->route && c->x->route->auth == ROUTE_BASIC && n > 6 && strncasecmp(text, "Basic ", 6) == 0)
		return take_basic(text, (size_t)n, out, e);
	if (n < 8 || strncasecmp(text, "Bearer ", 7) != 0) {
		explicit_bzero(text, n > 0 ? (size_t)n : 0);
		free(text);
		return err_set(e, ERR_TOKEN_MALFORMED, "Authorization must be: Bearer TOKEN");
	}
	p = text + 7 + strspn(text + 7, " ");
	memmove(text, p, strlen(p) + 1);
	*out = text;
	return 0;
}

static void read_header(struct conn *c, enum lws_token_indexes token, char *out, size_t size)
{
	out[0] = '\0';
	if (lws_hdr_total_length(c->wsi, token) > 0 && lws_hdr_copy(c->wsi, out, (int)size, token) < 0)
		out[0] = '\0';
}

int conn_origin(struct conn *c, bool cookie, struct err *e)
{
	static const char name[] = "sec-fetch-site:";
	char origin[300], host[300], site[32] = "";

	read_header(c, WSI_TOKEN_ORIGIN, origin, sizeof(origin));
	if (!origin[0] && lws_hdr_total_length(c->wsi, WSI_TOKEN_ORIGIN) > 0)
		snprintf(origin, sizeof(origin), "null"); /* too long to be ours */
	read_header(c, WSI_TOKEN_HOST, host, sizeof(host));
	if (lws_hdr_custom_length(c->wsi, name, (int)sizeof(name) - 1) > 0 &&
	    lws_hdr_custom_copy(c->wsi, site, sizeof(site), name, (int)sizeof(name) - 1) < 0)
		snprintf(site, sizeof(site), "?");
	return web_origin_check(&(struct web_origin){.origin = origin, .host = host, .fetch_site = site}, cookie, e);
}

void conn_cookie(struct conn *c, char **out)
{
	int n = lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_COOKIE);
	char *text;

	*out = NULL;
	if (n <= 0)
		return;
	text = malloc((size_t)n + 1);
	*out = malloc(COOKIE_MAX);
	if (!text || !*out || lws_hdr_copy(c->wsi, text, n + 1, WSI_TOKEN_HTTP_COOKIE) < 0 ||
	    !web_cookie_token(text, *out, COOKIE_MAX)) {
		free(*out);
		*out = NULL;
	} else {
		c->x->marked = web_cookie_unmark(c->door->cookie_key, *out);
	}
	if (text)
		explicit_bzero(text, (size_t)n);
	free(text);
}

/* A page's cookie stands for a bearer token. What changes something must come from a page of ours. */
static int read_cookie(struct conn *c, char **out, struct err *e)
{
	bool changes = c->x->method != HTTP_GET && c->x->method != HTTP_HEAD;

	conn_cookie(c, out);
	return *out ? conn_origin(c, changes, e) : 0;
}

static int authorize(struct conn *c, struct err *e)
{
	enum route_auth auth = c->x->route->auth;
	const char *what = "token";
	char *token = NULL;
	int rc = conn_bearer(c, &token, e);

	if (rc == 0 && !token && (auth == ROUTE_GRANT || auth == ROUTE_SHOWN || auth == ROUTE_METRICS)) {
		rc = read_cookie(c, &token, e);
		what = "origin";
	}
	if (rc == 0 || auth == ROUTE_OPEN) {
		rc = route_authorize(c->x, token, e);
	} else {
		struct origin from = http_origin(c->x, "rest");

		broker_refuse(c->door->hub, token, token ? strlen(token) : 0, &from, what, e);
	}
	grant_token_free(token);
	return rc;
}

/* "Expect: 100-continue": the client waits for leave to send. */
static int expect_continue(struct conn *c, struct err *e)
{
	static const char answer[] = "HTTP/1.1 100 Continue\r\n\r\n";
	char text[32];

	if (lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_EXPECT) <= 0)
		return 0;
	if (lws_hdr_copy(c->wsi, text, sizeof(text), WSI_TOKEN_HTTP_EXPECT) < 0 ||
	    strcasecmp(text, "100-continue") != 0)
		return err_set(e, ERR_INVAL, "the only expectation known is 100-continue");
	memcpy(c->door->piece + LWS_PRE, answer, sizeof(answer) - 1);
	return lws_write(c->wsi, c->door->piece + LWS_PRE, sizeof(answer) - 1, LWS_WRITE_HTTP) < 0 ? ERR_EOF : 0;
}

/*
 * libwebsockets 4.1.6 takes an encoded line end (%0a, %0d) in the request line for its end, and what follows for a
 * header. Then the version, which stands at the end, is missing; what is there of path and query is not the client's.
 */
static int check_line(struct conn *c, struct err *e)
{
	char version[16] = "";

	if (lws_hdr_copy(c->wsi, version, sizeof(version), WSI_TOKEN_HTTP) > 0 && strncmp(version, "HTTP/1.", 7) == 0)
		return 0;
	c->keep_alive = false;
	return err_set(e, ERR_INVAL, "the request line is broken, or holds a line end: for file names use path_base64");
}

/* A body may be refused by the head alone. A stranger's is not even read but by a few rows, and by these not much of
 * it.
 */
static int check_body(struct conn *c, bool given, bool comes, uint64_t len, struct err *e)
{
	const struct http_exchange *x = c->x;
	size_t max;
	int rc = route_body_max(x, &max, e);

	if (rc)
		return rc;
	if (x->route->body == BODY_STREAM)
		return given || c->is_chunked ? 0
					      : err_set(e, ERR_INVAL, "send a Content-Length, or the body in chunks");
	if (comes && x->route->body == BODY_NONE)
		return err_set(e, ERR_INVAL, "this call takes no body");
	c->x->body.max = max;
	if (len <= max)
		return 0;
	return err_set(e, ERR_TOO_LARGE, "the body has %llu bytes; %s allows %zu%s", (unsigned long long)len,
		       x->authenticated ? "api.max_body" : "this call without a grant", max, route_body_hint(x));
}

/* Everything that can be refused before the body. */
static int check_head(struct conn *c, uint64_t *out_len, bool *out_body, struct err *e)
{
	bool given;
	int rc = check_line(c, e);

	if (rc == 0)
		rc = read_length(c, &given, out_len, e);
	if (rc == 0)
		rc = read_coding(c, given, e);
	if (rc) {
		/* nobody knows where the next request begins */
		c->keep_alive = false;
		*out_body = true;
		return rc;
	}
	*out_body = c->is_chunked || *out_len > 0;
	/* libwebsockets takes a POST without a length for one of 100 MiB; only a new connection gets it out of that */
	if (!given && c->x->method != HTTP_GET && c->x->method != HTTP_HEAD)
		c->keep_alive = false;
	rc = route_find(c->x, e);
	if (rc == 0)
		rc = authorize(c, e);
	if (rc == 0)
		rc = conn_read_query(c, e);
	if (rc == 0)
		rc = check_body(c, given, *out_body, *out_len, e);
	return rc;
}

/* With a body on its way the connection ends after the answer; else it can go on. */
static void refuse_head(struct conn *c, int rc, const struct err *e)
{
	int status = rc == ERR_INVAL && c->x->allow[0] ? 405 : err_http_status(rc);

	c->keep_alive = c->keep_alive && !c->unread;
	conn_read_stop(c);
	http_reply_status(c->x, status, rc, e);
}

/* One that is too long for what may stand there is none that could be understood. */
static void read_range(struct conn *c)
{
	read_header(c, WSI_TOKEN_HTTP_RANGE, c->x->range, sizeof(c->x->range));
	if (!c->x->range[0] && lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_RANGE) > 0)
		snprintf(c->x->range, sizeof(c->x->range), "?");
}

/* libwebsockets has no number for it. */
static void read_last_event_id(struct conn *c)
{
	static const char name[] = "last-event-id:";
	int n = lws_hdr_custom_length(c->wsi, name, (int)sizeof(name) - 1);

	if (n <= 0)
		return;
	if (n >= (int)sizeof(c->x->last_event_id) ||
	    lws_hdr_custom_copy(c->wsi, c->x->last_event_id, (int)sizeof(c->x->last_event_id), name,
				(int)sizeof(name) - 1) < 0)
		snprintf(c->x->last_event_id, sizeof(c->x->last_event_id), "?");
}

int conn_exchange(struct conn *c, const char *path)
{
	struct rest_door *d = c->door;
	char encodings[128], accept[256];
	int rc = http_exchange_create(d->hub, hub_conf(d->hub)->api_max_body, &c->x);

	if (rc)
		return rc;
	c->x->metrics = &d->metrics;
	c->x->cookie_key = d->cookie_key;
	c->x->mcp = d->mcp;
	c->x->api = &route_api;
	c->x->local = c->listener->local;
	c->x->method = method_of(c->wsi);
	text_put(c->x->peer, sizeof(c->x->peer), c->peer);
	/* bytes: a path, whose length was looked at */
	snprintf(c->x->path, sizeof(c->x->path), "%s", path);
	read_request_id(c);
	read_header(c, WSI_TOKEN_HOST, c->x->host, sizeof(c->x->host));
	read_header(c, WSI_TOKEN_HTTP_IF_NONE_MATCH, c->x->if_none_match, sizeof(c->x->if_none_match));
	read_header(c, WSI_TOKEN_HTTP_IF_MATCH, c->x->if_match, sizeof(c->x->if_match));
	if (!c->x->if_match[0] && lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_IF_MATCH) > 0)
		text_put(c->x->if_match, sizeof(c->x->if_match), "?");
	read_header(c, WSI_TOKEN_HTTP_ACCEPT_ENCODING, encodings, sizeof(encodings));
	c->x->accepts_gzip = strstr(encodings, "gzip") != NULL;
	read_header(c, WSI_TOKEN_HTTP_ACCEPT, accept, sizeof(accept));
	c->x->accepts_bytes = strcasestr(accept, "application/octet-stream") != NULL;
	read_range(c);
	read_last_event_id(c);
	return 0;
}

static int conn_head_take_head(struct conn *c, const char *path, size_t len, uint64_t *out_len, struct err *e)
{
	bool body = true;
	int rc;

	c->keep_alive = wants_keep_alive(c) && (c->checked || !c->beyond);
	if (len >= HTTP_PATH_MAX || strlen(path) != len) {
		/* decoding hands %00 on as it is */
		c->keep_alive = false;
		rc = err_set(e, ERR_INVAL, "the path is too long, or holds a NUL character");
	} else {
		rc = check_head(c, out_len, &body, e);
	}
	rc = conn_judge(c, rc, e);
	if (admit_state(c->place) == ADMIT_OVER)
		c->keep_alive = false;
	if (rc == 0 && body)
		rc = expect_continue(c, e);
	c->unread = body;
	return rc;
}

/* A head that the strict reader has not taken, or not as one, is answered by nobody. */
bool conn_take_checked(struct conn *c)
{
	if (c->state != CONN_IDLE || !c->checked)
		return false;
	c->checked--;
	return true;
}

static void conn_head_on_answered(void *arg, struct http_exchange *x)
{
	struct conn *c = arg;
	uint64_t now = clock_boot_ns();

	conn_hold_answer(c);
	if (c->unread) /* refused before it was whole: nobody knows where the next request begins */
		c->keep_alive = false;
	conn_read_stop(c);
	if (x->status == 401 && conn_failed(c)) {
		c->deadline_ns = now + NS_PER_SEC;
		conn_set_state(c, CONN_DELAYED);
		return;
	}
	c->deadline_ns = 0;
	conn_set_state(c, CONN_READY);
	conn_queue(c);
}

static void read_custom(struct conn *c, const char *name, char *out, size_t size)
{
	out[0] = '\0';
	if (lws_hdr_custom_length(c->wsi, name, (int)strlen(name)) > 0 &&
	    lws_hdr_custom_copy(c->wsi, out, (int)size, name, (int)strlen(name)) < 0)
		snprintf(out, size, "?"); /* too long for what may stand there */
}

/* A request for the runtime: with X-Sandbox-ID, where the router did not take it. */
static int adopt_runtime(struct conn *c)
{
	static const char id[] = "x-sandbox-id:";
	struct runtime_fields f;

	if (!hub_conf(c->door->hub)->router_runtime || lws_hdr_custom_length(c->wsi, id, (int)sizeof(id) - 1) < 0)
		return 0;
	read_custom(c, id, f.id, sizeof(f.id));
	read_custom(c, "x-sandbox-namespace:", f.space, sizeof(f.space));
	read_custom(c, "x-sandbox-timeout:", f.timeout, sizeof(f.timeout));
	read_header(c, WSI_TOKEN_HTTP_CONTENT_TYPE, f.type, sizeof(f.type));
	return runtime_adopt(c->x, &f);
}

static void read_mcp_field(struct conn *c, const char *name, struct mcp_field *f)
{
	char text[MCP_FIELD_MAX + 1];

	if (lws_hdr_custom_length(c->wsi, name, (int)strlen(name)) < 0)
		return;
	read_custom(c, name, text, sizeof(text));
	mcp_field_put(f, text);
}

/* Is that a name by which clients may know this door? The loopback's, and those that its certificate is for. */
static bool is_own_name(struct conn *c, const char *name)
{
	SSL *ssl = lws_get_ssl(c->wsi);
	X509 *cert = ssl ? SSL_get_certificate(ssl) : NULL;

	if (strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0)
		return true;
	return cert && (X509_check_host(cert, name, 0, 0, NULL) == 1 || X509_check_ip_asc(cert, name, 0) == 1);
}

static bool is_foreign(struct conn *c, enum lws_token_indexes token)
{
	char text[300] = "", name[256];

	if (lws_hdr_total_length(c->wsi, token) <= 0)
		return false;
	read_header(c, token, text, sizeof(text));
	return !mcp_host_name(text, name, sizeof(name)) || !is_own_name(c, name);
}

/* Of Host, whose name was found to be one of the door's; what else there is but a port leaves it without. */
static void read_own_url(struct conn *c)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:[]";
	const char *host = c->x->host, *port = host + strcspn(host, *host == '[' ? "]" : ":");
	size_t digits;

	port += *port == ']';
	digits = *port == ':' ? strspn(port + 1, "0123456789") : 0;
	if (*host && !host[strspn(host, allowed)] && (!*port || (digits && digits < 6 && !port[1 + digits])))
		text_format(c->x->own_url, sizeof(c->x->own_url), "https://%s", host);
}

/* A request for MCP: what its head says beside what others have. */
static int adopt_mcp(struct conn *c)
{
	struct mcp_head *h;
	char name[MCP_NAME_MAX + 1];

	if (strcmp(c->x->path, MCP_PATH) != 0 && strncmp(c->x->path, MCP_PATH "/", sizeof(MCP_PATH)) != 0 &&
	    strncmp(c->x->path, HTTP_PROTECTED_RESOURCE, sizeof(HTTP_PROTECTED_RESOURCE) - 1) != 0)
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return ERR_NOMEM;
	c->x->mcp_head = h;
	read_header(c, WSI_TOKEN_HTTP_ACCEPT, h->accept.text, sizeof(h->accept.text));
	read_header(c, WSI_TOKEN_HTTP_CONTENT_TYPE, h->type.text, sizeof(h->type.text));
	read_mcp_field(c, "mcp-session-id:", &h->session);
	read_mcp_field(c, "mcp-protocol-version:", &h->version);
	read_mcp_field(c, "mcp-method:", &h->method);
	read_mcp_field(c, "last-event-id:", &h->last_event);
	if (lws_hdr_custom_length(c->wsi, "mcp-name:", 9) >= 0) {
		read_custom(c, "mcp-name:", name, sizeof(name));
		mcp_head_name(h, name);
	}
	h->host_foreign = !c->listener->local && is_foreign(c, WSI_TOKEN_HOST);
	h->origin_foreign = is_foreign(c, WSI_TOKEN_ORIGIN);
	if (!c->listener->local && !h->host_foreign && conf_issuer_shown(hub_conf(c->door->hub), NULL))
		read_own_url(c);
	return 0;
}

int conn_head(struct conn *c, const char *path, size_t len)
{
	struct err e = {0};
	uint64_t body_len = 0;
	int rc;

	if (!conn_take_checked(c) || c->x)
		return -1;
	lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);
	if (conn_exchange(c, path) || adopt_runtime(c) || adopt_mcp(c))
		return -1;
	c->x->done = conn_head_on_answered;
	c->x->wake = conn_wake;
	c->x->done_arg = c;
	rc = conn_head_take_head(c, path, len, &body_len, &e);
	if (rc == ERR_EOF)
		return -1;
	if (rc)
		refuse_head(c, rc, &e);
	else if (c->x->route->body == BODY_STREAM)
		conn_stream_begin(c, body_len);
	else if (c->unread)
		conn_body_begin(c, body_len);
	else
		conn_dispatch(c);
	return 0;
}
