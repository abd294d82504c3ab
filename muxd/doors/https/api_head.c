#include "muxd/doors/https/api_head.h"

#include "base/err.h"
#include "base/hex.h"
#include "muxd/doors/https/router/router_head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static int api_head_refuse(struct api_head *out, int status, int rc)
{
	out->status = status;
	return rc;
}

/* The byte at t.p[*at], or the one that an escape there stands for; *at goes behind it. -1: no escape, -2: the target
 * ends inside it. */
static int next_byte(struct http1_text t, size_t *at)
{
	size_t i = *at;
	int byte = (unsigned char)t.p[i];

	*at = i + 1;
	if (byte != '%')
		return byte;
	if (t.n - i <= 2)
		return -2;
	*at = i + 3;
	return hex_value(t.p[i + 1]) >= 0 && hex_value(t.p[i + 2]) >= 0
		   ? hex_value(t.p[i + 1]) << 4 | hex_value(t.p[i + 2])
		   : -1;
}

/* Escapes that libwebsockets decodes before it has the line's end, and its places for parameters. more: the
 * target goes on. */
static int check_bytes(struct http1_text t, bool more, struct err *e)
{
	size_t args = 0;

	for (size_t i = 0; i < t.n;) {
		bool plain = t.p[i] != '%';
		int byte = next_byte(t, &i);

		args += plain && (byte == '&' || byte == ';');
		if (byte == -2 && more)
			return 0;
		if (byte < 0)
			return err_set(e, ERR_INVAL, "the target holds a %% without two hexadecimal digits");
		if (byte == 0 || byte == '\r' || byte == '\n')
			return err_set(
			    e, ERR_INVAL,
			    "the target holds a line end or a NUL character: for file names use path_base64");
	}
	return args > API_ARGS_MAX ? err_set(e, ERR_INVAL, "the query has more than %d parameters", API_ARGS_MAX) : 0;
}

/* A step of a path, as far as it came. */
struct step {
	size_t n;
	bool dots; /* nothing else in it */
};

static int check_step(struct step s, bool of_file, struct err *e)
{
	if (of_file && s.n == 1 && s.dots)
		return 0; /* where it is taken out nothing else is meant */
	if (s.n && s.n <= 2 && s.dots)
		return err_set(e, ERR_INVAL,
			       "the path has a step \"%.*s\", plain or percent-encoded: no name here is . or .., "
			       "write the path that is meant",
			       (int)s.n, "..");
	return s.n == 0 ? err_set(e, ERR_INVAL, "the path has an empty step (//): write the path that is meant") : 0;
}

/* Where the first step begins that is looked at. A sandbox's runtime (runtime.h) has files named behind these, and
 * slashes in front of a name mean nothing there. */
static size_t file_at(struct http1_text t)
{
	static const char *const before[] = {"/download/", "/list/", "/exists/"};

	for (size_t k = 0; k < sizeof(before) / sizeof(before[0]); k++) {
		size_t at = strlen(before[k]), next = at;

		if (t.n < at || memcmp(t.p, before[k], at) != 0)
			continue;
		while (next < t.n && next_byte(t, &next) == '/')
			at = next;
		return at;
	}
	return 1;
}

/*
 * libwebsockets resolves dots and takes empty steps out, after decoding, and so hands on another path than the
 * client's: DELETE .../snapshots/.. would be the sandbox's. It takes an encoded ? behind two dots for the path's end, a
 * plain + for a blank, and a plain & or ; for the end of something. All of that is refused: the path that is routed is
 * the one that was sent. more: the target goes on, and its last step perhaps, too.
 */
static int api_head_check_path(struct http1_text t, bool more, struct err *e)
{
	struct step s = {.dots = true};
	size_t from = file_at(t);
	bool of_file = from > 1;
	int rc = 0;

	for (size_t i = from; i < t.n && t.p[i] != '?' && rc == 0;) {
		char plain = t.p[i];
		int byte = next_byte(t, &i);

		if (byte < 0)
			return 0;
		if (plain == '+' || plain == '&' || plain == ';')
			return err_set(e, ERR_INVAL, "the path holds a plain %c: write it as %%%02X", plain, plain);
		if (byte == '/' || (byte == '?' && s.n == 2 && s.dots)) {
			rc = check_step(s, of_file, e);
			s = (struct step){.dots = true};
			continue;
		}
		s.n++;
		s.dots = s.dots && byte == '.';
	}
	if (rc || (more && !memchr(t.p, '?', t.n)))
		return rc;
	return s.n ? check_step(s, of_file, e) : 0;
}

static int check_target(struct http1_text t, bool more, struct err *e)
{
	int rc = check_bytes(t, more, e);

	return rc ? rc : api_head_check_path(t, more, e);
}

/* begun: there is more to come of it. */
static bool is_known_method(struct http1_text t, bool begun)
{
	static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", NULL};

	for (size_t i = 0; known[i]; i++)
		if (http1_is(t, known[i]) || (begun && t.n < strlen(known[i]) && memcmp(t.p, known[i], t.n) == 0))
			return true;
	return false;
}

/* Is what there is of a request line, or all of it, something that libwebsockets waits for more of? */
static bool is_fit_line(const char *p, size_t n)
{
	const char *end = p + n, *a = memchr(p, ' ', n), *b;
	struct http1_text method = {.p = p, .n = a ? (size_t)(a - p) : n}, target;

	if (!is_known_method(method, !a))
		return false;
	if (!a)
		return true;
	b = memchr(a + 1, ' ', (size_t)(end - a - 1));
	target = (struct http1_text){.p = a + 1, .n = (size_t)((b ? b : end) - a - 1)};
	for (size_t i = 0; i < target.n; i++)
		if (target.p[i] <= ' ' || target.p[i] > '~')
			return false;
	return (target.n ? *target.p == '/' : !b) && check_target(target, !b, NULL) == 0 &&
	       (!b || strncmp(b + 1, "HTTP/1.1", (size_t)(end - b - 1) < 7 ? (size_t)(end - b - 1) : 7) == 0);
}

/* Fields of which one reader takes the first, another the last, and libwebsockets all of them in one. */
static int check_single(const struct http1_head *h, struct err *e)
{
	static const char *const once[] = {"Authorization",
					   "Origin",
					   "Sec-Fetch-Site",
					   "Sec-WebSocket-Key",
					   "Upgrade",
					   "Sec-WebSocket-Version",
					   "Sec-WebSocket-Protocol",
					   "Expect",
					   "X-Request-Id",
					   NULL};

	for (size_t i = 0; once[i]; i++) {
		const struct http1_field *f = http1_find(h, once[i], NULL);

		if (f && http1_find(h, once[i], f))
			return err_set(e, ERR_INVAL, "the request has two %s fields", once[i]);
	}
	/* an old name of Origin, which libwebsockets takes for it */
	return http1_find(h, "Sec-WebSocket-Origin", NULL)
		   ? err_set(e, ERR_INVAL, "Sec-WebSocket-Origin is not known: send Origin")
		   : 0;
}

/* n: bytes of the head and behind it. */
static int check_upgrade(const struct http1_head *h, size_t n, struct api_head *out, struct err *e)
{
	const struct http1_field *f = http1_find(h, "Upgrade", NULL);

	if (!f)
		return 0;
	if (!http1_is_like(f->value, "websocket"))
		return api_head_refuse(out, 501,
				       err_set(e, ERR_UNSUPPORTED, "the only protocol to change to here is websocket"));
	if (h->minor == 0 || !http1_is(h->method, "GET") || !http1_lists(h, "Connection", "upgrade"))
		return err_set(e, ERR_INVAL, "a WebSocket begins with GET, HTTP/1.1 and Connection: Upgrade");
	if (!out->body.done || n > h->len)
		return err_set(e, ERR_INVAL, "a WebSocket's request has no body, and waits for its answer");
	return 0;
}

static int check_api(const struct http1_head *h, size_t n, struct api_head *out, struct err *e)
{
	int rc;

	if (h->len > API_HEAD_MAX || h->nfields > API_FIELDS_MAX)
		return api_head_refuse(out, 431,
				       err_set(e, ERR_TOO_LARGE,
					       "the head of a request has at most %d bytes and %d fields", API_HEAD_MAX,
					       API_FIELDS_MAX));
	if (!is_known_method(h->method, false))
		return api_head_refuse(out, 405, err_set(e, ERR_INVAL, "no such method here"));
	if (*h->target.p != '/')
		return err_set(e, ERR_INVAL, "the target of a request begins with / here, without http://HOST");
	rc = check_target(h->target, false, e);
	if (rc == 0)
		rc = check_single(h, e);
	return rc ? rc : check_upgrade(h, n, out, e);
}

/* A head whose end is still to come; nfields: that are whole. */
static int check_begun(const char *p, size_t n, size_t nfields, const char *serves, struct api_head *out, struct err *e)
{
	const char *nl = memrchr(p, '\n', n), *last = nl ? nl + 1 : p, *first = memchr(p, '\r', n);

	if (!http1_line_begins(last, n - (size_t)(last - p)))
		return err_set(e, ERR_INVAL, "the head of the request is malformed (RFC 9112)");
	out->routed = !serves && router_asked(p, n);
	out->unfit = n > API_HEAD_MAX || nfields > API_FIELDS_MAX || !is_fit_line(p, first ? (size_t)(first - p) : n);
	return 0;
}

/* One port at most is named, and it is that one: their router's default is the runtime's, too. */
static bool is_served(const struct http1_head *h, const char *serves)
{
	const struct http1_field *port = http1_find(h, "X-Sandbox-Port", NULL);

	return serves && (!port || (http1_is(port->value, serves) && !http1_find(h, "X-Sandbox-Port", port)));
}

/* The bytes at p that are c, as it is or encoded; 0: it is something else. */
static size_t spells(const char *p, const char *end, char c)
{
	char code[4];

	snprintf(code, sizeof(code), "%%%02X", (unsigned)c);
	return p < end && *p == c ? 1 : end - p >= 3 && strncasecmp(p, code, 3) == 0 ? 3 : 0;
}

/* libwebsockets takes /a/../b for /b, encoded or not: a file's path would become another call. */
static bool climbs(struct http1_text target)
{
	const char *end = memchr(target.p, '?', target.n);

	end = end ? end : target.p + target.n;
	for (const char *p = target.p; p < end; p++) {
		size_t slash = spells(p, end, '/'), first = slash ? spells(p + slash, end, '.') : 0;
		size_t second = first ? spells(p + slash + first, end, '.') : 0;
		const char *behind = p + slash + first + second;

		if (second && (behind == end || spells(behind, end, '/')))
			return true;
	}
	return false;
}

int api_head_read(const void *p, size_t n, size_t seen, const char *serves, struct api_head *out, struct err *e)
{
	struct http1_head h;
	int rc = 0;

	*out = (struct api_head){.status = 400};
	h.nfields = 0;
	if (memchr((const char *)p + seen, '\n', n - seen)) /* else nothing came that ends a line */
		rc = http1_request(p, n, &h, e);
	if (rc == ERR_TOO_LARGE)
		return api_head_refuse(out, 431, rc);
	if (rc == 0)
		return check_begun(p, n, h.nfields, serves, out, e);
	if (rc == 1)
		rc = http1_request_check(&h, e);
	if (rc < 0)
		return rc;
	out->len = h.len;
	out->routed = http1_find(&h, "X-Sandbox-ID", NULL) != NULL;
	out->served = out->routed && is_served(&h, serves);
	out->routed = out->routed && !out->served;
	if (out->served && climbs(h.target))
		return api_head_refuse(out, 403, err_set(e, ERR_PATH_OUTSIDE, "the path leads out of the workspace"));
	rc = http1_request_body(&h, &out->body, e);
	if (rc == 0 && !out->routed)
		rc = check_api(&h, n, out, e);
	return rc ? rc : 1;
}
