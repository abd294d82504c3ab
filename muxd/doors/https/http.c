#include "muxd/doors/https/http.h"
#include "base/clock.h"
#include "base/err_json.h"
#include "base/text.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define HEADERS_MAX 3072

int http_exchange_create(struct hub *hub, size_t body_max, struct http_exchange **out)
{
	struct http_exchange *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return ERR_NOMEM;
	rc = id_new(&x->id);
	if (rc) {
		free(x);
		return rc;
	}
	id_format(&x->id, x->id_text);
	x->hub = hub;
	x->started_ns = clock_boot_ns();
	buf_init(&x->body, body_max);
	buf_init(&x->out, HTTP_RESPONSE_MAX);
	buf_init(&x->headers, HEADERS_MAX);
	*out = x;
	return 0;
}

void http_exchange_destroy(struct http_exchange *x)
{
	if (!x)
		return;
	if (x->flow)
		x->flow->drop(x);
	if (x->dialect)
		x->dialect->drop(x);
	free(x->file_path);
	free(x->mcp_head);
	buf_finish_secret(&x->body);
	buf_finish(&x->out);
	buf_finish_secret(&x->headers);
	request_finish(&x->rq);
	grant_token_free(x->token);
	free(x);
}

/* Its handler answers it, to nobody; who only waits for a round waits no longer. */
static void http_leave(struct http_exchange *x)
{
	struct id round = x->waits;

	x->gone = true;
	if (!id_is_nil(&round))
		broker_round_left(x->hub, &round, x); /* x is freed with its answer */
}

void http_exchange_abandon(struct http_exchange *x)
{
	if (!x)
		return;
	x->done = NULL;
	x->done_arg = NULL;
	x->wake = NULL;
	if (x->flow && !x->answered) {
		/* nobody is left who would send or take the rest */
		x->flow->drop(x);
		x->answered = true;
	}
	if (x->answered)
		http_exchange_destroy(x);
	else
		http_leave(x);
}

struct origin http_origin(struct http_exchange *x, const char *door)
{
	if (x->routed)
		snprintf(x->endpoint, sizeof(x->endpoint), "port");
	else if (x->route)
		text_format(x->endpoint, sizeof(x->endpoint), "%s %s", http_method_name(x->route->method),
			    x->route->pattern);
	return (struct origin){.door = x->local ? "local" : door, .peer = x->peer, .endpoint = x->endpoint};
}

void http_exchange_set_id(struct http_exchange *x, const char *text)
{
	struct id id;

	if (id_parse(text, &id) || id_is_nil(&id))
		return;
	x->id = id;
	id_format(&id, x->id_text);
}

/* n bytes at p, which may be anything. */
static int set_path(struct http_exchange *x, const void *p, size_t n, struct err *e)
{
	if (x->file_path)
		return err_set(e, ERR_INVAL, "query parameter path is given twice");
	if (n > HTTP_FILE_PATH_MAX)
		return err_set(e, ERR_INVAL, "query parameter path has more than %d bytes", HTTP_FILE_PATH_MAX);
	if (memchr(p, 0, n))
		return err_set(e, ERR_INVAL, "query parameter path holds a NUL character");
	x->file_path = strndup(p, n);
	return x->file_path ? 0 : err_set(e, ERR_NOMEM, "out of memory");
}

/* Either alphabet: a query is easier written with the one for URLs. */
static int set_path_base64(struct http_exchange *x, const char *value, struct err *e)
{
	uint8_t *p = NULL;
	size_t n = 0;
	int rc;

	if (base64_decode(value, strlen(value), true, &p, &n) && base64_decode(value, strlen(value), false, &p, &n))
		return err_set(e, ERR_INVAL, "query parameter path_base64 is not base64");
	rc = set_path(x, p, n, e);
	free(p);
	return rc;
}

int http_query_add(struct http_exchange *x, const char *arg, struct err *e)
{
	const char *eq = strchr(arg, '=');
	size_t klen = eq ? (size_t)(eq - arg) : strlen(arg);
	const char *value = eq ? eq + 1 : "";
	struct http_query *q;

	if (!*arg)
		return 0;
	if (x->nquery == HTTP_QUERY_MAX)
		return err_set(e, ERR_INVAL, "the query has more than %d parameters", HTTP_QUERY_MAX);
	q = &x->query[x->nquery];
	if (klen == 4 && memcmp(arg, "path", 4) == 0)
		return set_path(x, value, strlen(value), e);
	if (klen == 11 && memcmp(arg, "path_base64", 11) == 0)
		return set_path_base64(x, value, e);
	if (klen == 0 || klen >= sizeof(q->key))
		return err_set(e, ERR_INVAL, "a query parameter has no name, or one that is too long");
	if (strlen(value) >= sizeof(q->value))
		return err_set(e, ERR_INVAL, "query parameter %.*s has more than %zu bytes", (int)klen, arg,
			       sizeof(q->value) - 1);
	memcpy(q->key, arg, klen);
	q->key[klen] = '\0';
	if (http_query_str(x, q->key))
		return err_set(e, ERR_INVAL, "query parameter %s is given twice", q->key);
	/* bytes: a path may be given so, and what is too long was refused */
	snprintf(q->value, sizeof(q->value), "%s", value);
	x->nquery++;
	return 0;
}

static bool is_one_of(const char *key, const char *keys)
{
	size_t n = strlen(key);

	for (const char *p = keys; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, key, n) == 0 && (p[n] == ',' || !p[n]))
			return true;
	return false;
}

int http_query_only(const struct http_exchange *x, const char *keys, struct err *e)
{
	if (x->file_path && !is_one_of("path", keys))
		return err_set(e, ERR_INVAL, "unknown query parameter path");
	for (size_t i = 0; i < x->nquery; i++)
		if (!is_one_of(x->query[i].key, keys))
			return err_set(e, ERR_INVAL, "unknown query parameter %s", x->query[i].key);
	return 0;
}

int http_query_bool(const struct http_exchange *x, const char *key, bool *out, struct err *e)
{
	const char *s = http_query_str(x, key);

	if (s && strcmp(s, "true") != 0 && strcmp(s, "false") != 0)
		return err_set(e, ERR_INVAL, "query parameter %s must be true or false", key);
	*out = s ? *s == 't' : *out;
	return 0;
}

const char *http_query_str(const struct http_exchange *x, const char *key)
{
	for (size_t i = 0; i < x->nquery; i++)
		if (strcmp(x->query[i].key, key) == 0)
			return x->query[i].value;
	return NULL;
}

int http_query_int(const struct http_exchange *x, const char *key, int64_t min, int64_t max, int64_t *out,
		   struct err *e)
{
	const char *s = http_query_str(x, key);
	char *end;
	long long v;

	if (!s)
		return 0;
	errno = 0;
	v = strtoll(s, &end, 10);
	if (errno || *end || end == s || (*s != '-' && (*s < '0' || *s > '9')) || v < min || v > max)
		return err_set(e, ERR_INVAL, "query parameter %s must be a number from %lld to %lld", key,
			       (long long)min, (long long)max);
	*out = v;
	return 0;
}

static void http_answer(struct http_exchange *x, int status, const char *content_type)
{
	x->status = status;
	x->content_type = content_type;
	x->answered = true;
	buf_finish_secret(&x->body);
	buf_init(&x->body, 0);
	if (x->gone)
		http_exchange_destroy(x);
	else if (x->done)
		x->done(x->done_arg, x);
}

void http_reply_json(struct http_exchange *x, int status, const json_t *result)
{
	if (x->dialect)
		x->dialect->result(x, status, result);
	else
		http_reply_json_as(x, status, result);
}

void http_reply_json_as(struct http_exchange *x, int status, const json_t *result)
{
	int rc = json_append(&x->out, result);

	if (rc == 0)
		rc = buf_append_str(&x->out, "\n");
	if (rc) {
		struct err e = {0};

		buf_finish(&x->out);
		buf_init(&x->out, HTTP_RESPONSE_MAX);
		err_set(&e, rc,
			rc == ERR_TOO_LARGE ? "the answer is over 48 MiB: ask for less (limits), or read /output"
					    : "the answer could not be built");
		http_reply_error(x, e.code, &e);
		return;
	}
	http_answer(x, status, "application/json");
}

void http_reply_text(struct http_exchange *x, int status, const char *content_type, const char *text, size_t len)
{
	if (buf_append(&x->out, text, len)) {
		http_reply_error(x, ERR_NOMEM, NULL);
		return;
	}
	http_answer(x, status, content_type);
}

void http_reply_stream(struct http_exchange *x, int status, const char *content_type, uint64_t n)
{
	x->streams = true;
	x->stream_len = x->stream_left = n;
	http_answer(x, status, content_type);
}

void http_reply_chunked(struct http_exchange *x, int status, const char *content_type)
{
	x->chunked = true;
	http_reply_stream(x, status, content_type, UINT64_MAX);
}

static void reply_result(struct http_exchange *x, int status, int rc, const struct err *e, const json_t *result)
{
	if (rc || !result)
		http_reply_error(x, rc ? rc : ERR_NOMEM, e);
	else
		http_reply_json(x, status, result);
}

void http_reply_result(void *arg, int rc, const struct err *e, json_t *result)
{
	reply_result(arg, 200, rc, e, result);
}

void http_reply_created(void *arg, int rc, const struct err *e, json_t *result)
{
	reply_result(arg, 201, rc, e, result);
}

void http_reply_accepted(void *arg, int rc, const struct err *e, json_t *result)
{
	reply_result(arg, 202, rc, e, result);
}

void http_reply_error(struct http_exchange *x, int rc, const struct err *e)
{
	http_reply_status(x, err_http_status(rc), rc, e);
}

/* Written by hand into the buffer: it must work when there is no memory for JSON objects. */
static void error_minimal(struct http_exchange *x, int rc)
{
	buf_clear(&x->out);
	(void)buf_printf(&x->out,
			 "{\"error\":{\"code\":\"%s\",\"message\":\"\",\"hint\":\"\",\"request_id\":\"%s\"}}\n",
			 err_name(rc), x->id_text);
}

static void reply_error(struct http_exchange *x, int status, int rc, const struct err *e, json_t *details)
{
	const char *message = e && e->code && e->message[0] ? e->message : err_name(rc);
	json_t *said = err_details_json(e), *o;

	if (!said)
		said = json_incref(details); /* NULL: there are none */
	else if (details)
		(void)json_object_update_missing(said, details);
	x->error = rc;
	x->begun = e ? e->begun : (struct err_begun){0};
	o = x->dialect ? x->dialect->error(x, rc, message, &status)
		       : json_pack("{s:{s:s,s:s,s:s,s:s,s:O*}}", "error", "code", err_name(rc), "message", message,
				   "hint", err_hint(rc), "request_id", x->id_text, "details", said);
	if (status == 401)
		x->challenge = true;
	if (e && e->share.retry_s)
		x->retry_after_s = e->share.retry_s;
	if ((status == 429 || status == 503) && !x->retry_after_s)
		x->retry_after_s = 1;
	buf_clear(&x->out);
	buf_clear(&x->headers);
	x->cache = NULL;
	if (!o || json_append(&x->out, o) || buf_append_str(&x->out, "\n"))
		error_minimal(x, rc);
	json_decref(said);
	json_decref(o);
	http_answer(x, status, "application/json");
}

/* A caller that is still here has cancelled nothing: the daemon goes, and the call may be made again. */
static bool reply_farewell(struct http_exchange *x, int rc)
{
	struct err e = {0};

	if (rc != ERR_CANCELLED || !x->done || !x->hub || !hub_stopping(x->hub))
		return false;
	err_set(&e, ERR_UNAVAILABLE, HTTP_FAREWELL);
	reply_error(x, err_http_status(e.code), e.code, &e, NULL);
	return true;
}

void http_reply_status(struct http_exchange *x, int status, int rc, const struct err *e)
{
	if (!reply_farewell(x, rc))
		reply_error(x, status, rc, e, NULL);
}

void http_reply_error_with(struct http_exchange *x, int rc, const struct err *e, json_t *details)
{
	if (!reply_farewell(x, rc))
		reply_error(x, err_http_status(rc), rc, e, details);
}

const char *http_method_name(enum http_method m)
{
	static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"};

	return m <= HTTP_OTHER ? names[m] : "other";
}

const char *http_reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} table[] = {
	    {200, "OK"},
	    {201, "Created"},
	    {202, "Accepted"},
	    {204, "No Content"},
	    {206, "Partial Content"},
	    {304, "Not Modified"},
	    {400, "Bad Request"},
	    {401, "Unauthorized"},
	    {403, "Forbidden"},
	    {404, "Not Found"},
	    {405, "Method Not Allowed"},
	    {406, "Not Acceptable"},
	    {408, "Request Timeout"},
	    {409, "Conflict"},
	    {411, "Length Required"},
	    {412, "Precondition Failed"},
	    {413, "Content Too Large"},
	    {415, "Unsupported Media Type"},
	    {416, "Range Not Satisfiable"},
	    {417, "Expectation Failed"},
	    {423, "Locked"},
	    {426, "Upgrade Required"},
	    {429, "Too Many Requests"},
	    {431, "Request Header Fields Too Large"},
	    {499, "Client Closed Request"},
	    {500, "Internal Server Error"},
	    {501, "Not Implemented"},
	    {502, "Bad Gateway"},
	    {503, "Service Unavailable"},
	    {504, "Gateway Timeout"},
	    {507, "Insufficient Storage"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].status == status)
			return table[i].text;
	return "Status";
}

static int head_date(struct buf *out)
{
	time_t now = (time_t)(clock_wall_ns() / (int64_t)NS_PER_SEC);
	char text[40];
	struct tm tm;

	if (!gmtime_r(&now, &tm) || !strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm))
		return 0;
	return buf_printf(out, "Date: %s\r\n", text);
}

/* RFC 6750, 3; RFC 9728, 5.1. */
static int head_challenge(const struct http_exchange *x, struct buf *out)
{
	int rc = buf_append_str(out, "WWW-Authenticate: Bearer realm=\"muxd\"");

	if (rc == 0 && x->own_url[0] && x->error != ERR_UNAUTHENTICATED)
		rc = buf_append_str(out, ", error=\"invalid_token\"");
	if (rc == 0 && x->own_url[0])
		rc = buf_printf(out, ", resource_metadata=\"%s%s/mcp\"", x->own_url, HTTP_PROTECTED_RESOURCE);
	return rc ? rc : buf_append_str(out, "\r\n");
}

int http_head(const struct http_exchange *x, bool keep_alive, struct buf *out)
{
	int rc = buf_printf(out,
			    "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n"
			    "Cache-Control: %s\r\nX-Content-Type-Options: nosniff\r\n"
			    "Strict-Transport-Security: max-age=31536000\r\nX-Request-Id: %s\r\n",
			    x->status, http_reason(x->status), x->content_type, x->cache ? x->cache : "no-store",
			    x->id_text);

	if (rc == 0 && x->chunked)
		rc = buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	else if (rc == 0 && x->status != 204) /* RFC 9110, 8.6 */
		rc = buf_printf(out, "Content-Length: %zu\r\n", x->streams ? (size_t)x->stream_len : buf_len(&x->out));
	if (rc == 0 && x->status == 416 && x->complete_known) /* RFC 9110, 15.5.17 */
		rc = buf_printf(out, "Content-Range: bytes */%llu\r\n", (unsigned long long)x->complete);
	if (rc == 0)
		rc = head_date(out);
	if (rc == 0 && buf_len(&x->headers))
		rc = buf_append(out, buf_ptr(&x->headers), buf_len(&x->headers));
	if (rc == 0 && x->status == 426) /* RFC 9110, 15.5.22 */
		rc = buf_append_str(out, "Upgrade: websocket\r\n");
	if (rc == 0 && x->allow[0])
		rc = buf_printf(out, "Allow: %s\r\n", x->allow);
	if (rc == 0 && x->file_mode[0])
		rc = buf_printf(out, "X-File-Mode: %s\r\n", x->file_mode);
	if (rc == 0 && x->location[0])
		rc = buf_printf(out, "Location: %s\r\n", x->location);
	if (rc == 0 && x->challenge)
		rc = head_challenge(x, out);
	if (rc == 0 && x->retry_after_s)
		rc = buf_printf(out, "Retry-After: %u\r\n", x->retry_after_s);
	if (rc == 0)
		rc = buf_append_str(out, keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
	return rc;
}
