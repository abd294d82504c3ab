#include "base/http1.h"

#include "base/err.h"
#include "base/hex.h"

#include <string.h>
#include <strings.h>

#define LINE_MAX_BYTES (32 * 1024)

bool http1_is(struct http1_text t, const char *s)
{
	return t.n == strlen(s) && memcmp(t.p, s, t.n) == 0;
}

bool http1_is_like(struct http1_text t, const char *s)
{
	return t.n == strlen(s) && strncasecmp(t.p, s, t.n) == 0;
}

/* RFC 9110, 5.6.2 */
static bool is_token(struct http1_text t)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < t.n; i++) {
		char c = t.p[i], low = (char)(c | 0x20);

		if (!(c >= '0' && c <= '9') && !(low >= 'a' && low <= 'z') && (!c || !strchr(others, c)))
			return false;
	}
	return t.n > 0;
}

static bool is_printable(struct http1_text t)
{
	for (size_t i = 0; i < t.n; i++)
		if (((unsigned char)t.p[i] < 0x20 && t.p[i] != '\t') || t.p[i] == 0x7f)
			return false;
	return true;
}

/*
 * The line at p, without its end, and where the next begins. 1; 0: it is not whole; ERR_INVAL, ERR_TOO_LARGE: it never
 * will be.
 */
static int http1_take_line(const char **p, const char *end, bool lf, struct http1_text *out)
{
	const char *nl = memchr(*p, '\n', (size_t)(end - *p));

	if (!nl)
		return end - *p > LINE_MAX_BYTES ? ERR_TOO_LARGE : 0;
	*out = (struct http1_text){.p = *p, .n = (size_t)(nl - *p)};
	*p = nl + 1;
	if (out->n && out->p[out->n - 1] == '\r')
		out->n--;
	else if (!lf)
		return ERR_INVAL;
	return memchr(out->p, '\r', out->n) ? ERR_INVAL : 1;
}

struct http1_text http1_trim(struct http1_text t)
{
	while (t.n && (*t.p == ' ' || *t.p == '\t'))
		t.p++, t.n--;
	while (t.n && (t.p[t.n - 1] == ' ' || t.p[t.n - 1] == '\t'))
		t.n--;
	return t;
}

static int take_field(struct http1_text line, struct http1_head *h)
{
	const char *colon = memchr(line.p, ':', line.n);
	struct http1_field *f = &h->field[h->nfields];

	if (!colon || h->nfields == HTTP1_FIELDS_MAX)
		return colon ? ERR_TOO_LARGE : ERR_INVAL;
	f->name = (struct http1_text){.p = line.p, .n = (size_t)(colon - line.p)};
	f->value = http1_trim((struct http1_text){.p = colon + 1, .n = line.n - f->name.n - 1});
	h->nfields++;
	return is_token(f->name) && is_printable(f->value) ? 0 : ERR_INVAL;
}

/* The fields from p on. */
static int take_fields(const char *text, const char *p, const char *end, bool lf, struct http1_head *h)
{
	struct http1_text line;
	int rc;

	h->nfields = 0;
	while ((rc = http1_take_line(&p, end, lf, &line)) == 1) {
		if (!line.n) {
			h->len = (size_t)(p - text);
			return 1;
		}
		rc = take_field(line, h);
		if (rc)
			return rc;
	}
	return rc;
}

static bool take_version(const char *p, size_t n, struct http1_head *h)
{
	if (n != 8 || memcmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1'))
		return false;
	h->minor = (unsigned)(p[7] - '0');
	return true;
}

static bool take_request_line(struct http1_text line, struct http1_head *h)
{
	const char *a = memchr(line.p, ' ', line.n), *b = memrchr(line.p, ' ', line.n);

	if (!a || a == b)
		return false;
	h->method = (struct http1_text){.p = line.p, .n = (size_t)(a - line.p)};
	h->target = (struct http1_text){.p = a + 1, .n = (size_t)(b - a - 1)};
	return is_token(h->method) && h->target.n && is_printable(h->target) &&
	       !memchr(h->target.p, ' ', h->target.n) && !memchr(h->target.p, '\t', h->target.n) &&
	       take_version(b + 1, line.n - (size_t)(b + 1 - line.p), h);
}

static bool take_status_line(struct http1_text line, struct http1_head *h)
{
	const char *p = line.p;

	if (line.n < 12 || !take_version(p, 8, h) || p[8] != ' ' || (line.n > 12 && p[12] != ' '))
		return false;
	h->status = 0;
	for (int i = 9; i < 12; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		h->status = h->status * 10 + (p[i] - '0');
	}
	h->reason =
	    line.n > 13 ? (struct http1_text){.p = p + 13, .n = line.n - 13} : (struct http1_text){.p = "", .n = 0};
	return h->status >= 100 && is_printable(h->reason);
}

static int http1_parse(const char *text, size_t n, bool answer, struct http1_head *h)
{
	const char *p = text, *end = text + n;
	struct http1_text line;
	int rc = http1_take_line(&p, end, answer, &line);

	if (rc != 1)
		return rc;
	memset(&h->method, 0, sizeof(h->method));
	memset(&h->target, 0, sizeof(h->target));
	if (!(answer ? take_status_line(line, h) : take_request_line(line, h)))
		return ERR_INVAL;
	return take_fields(text, p, end, answer, h);
}

int http1_request(const void *p, size_t n, struct http1_head *out, struct err *e)
{
	int rc = http1_parse(p, n, false, out);

	if (rc == ERR_TOO_LARGE)
		return err_set(e, rc, "the head of the request has more than %d fields, or a line that is too long",
			       HTTP1_FIELDS_MAX);
	return rc < 0 ? err_set(e, ERR_INVAL, "the head of the request is malformed (RFC 9112)") : rc;
}

bool http1_line_begins(const void *p, size_t n)
{
	struct http1_text t = {.p = p, .n = n};

	if (n && t.p[n - 1] == '\r') /* its end may follow */
		t.n--;
	return is_printable(t);
}

/* RFC 3986, 3.2.2: what a host and a port are made of; several, separated by commas, are none. */
static bool is_host(struct http1_text t)
{
	static const char others[] = "-._~%!$&'()*+;=:[]";

	for (size_t i = 0; i < t.n; i++) {
		char c = t.p[i], low = (char)(c | 0x20);

		if (!(c >= '0' && c <= '9') && !(low >= 'a' && low <= 'z') && (!c || !strchr(others, c)))
			return false;
	}
	return t.n > 0;
}

static int check_host(const struct http1_head *h, struct err *e)
{
	const struct http1_field *f = http1_find(h, "Host", NULL);

	if (!f)
		return h->minor == 0 ? 0 : err_set(e, ERR_INVAL, "the request has no Host field");
	if (http1_find(h, "Host", f))
		return err_set(e, ERR_INVAL, "the request has two Host fields");
	return is_host(f->value) ? 0 : err_set(e, ERR_INVAL, "the Host field names no host");
}

static bool skip(struct http1_text *t, const char *start)
{
	size_t n = strlen(start);

	if (t->n < n || strncasecmp(t->p, start, n) != 0)
		return false;
	t->p += n;
	t->n -= n;
	return true;
}

static bool http1_is_same(struct http1_text a, struct http1_text b)
{
	return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

int http1_request_path(const struct http1_head *h, struct http1_text *out, struct err *e)
{
	const struct http1_field *host = http1_find(h, "Host", NULL);
	struct http1_text t = h->target, authority;

	if (*t.p == '/' || (http1_is(t, "*") && http1_is(h->method, "OPTIONS"))) {
		*out = t;
		return 0;
	}
	if (!skip(&t, "https://") && !skip(&t, "http://"))
		return err_set(e, ERR_INVAL, "the target of a request begins with / here");
	authority = (struct http1_text){.p = t.p};
	while (authority.n < t.n && !strchr("/?#", t.p[authority.n]))
		authority.n++;
	if (!authority.n || (host && !http1_is_same(authority, host->value)))
		return err_set(e, ERR_INVAL, "the target of the request is on another host than its Host field names");
	*out = (struct http1_text){.p = t.p + authority.n, .n = t.n - authority.n};
	return out->n && *out->p == '#' ? err_set(e, ERR_INVAL, "the target of the request has a fragment") : 0;
}

static int check_target(const struct http1_head *h, struct err *e)
{
	struct http1_text path;

	for (size_t i = 0; i < h->target.n; i++)
		if ((unsigned char)h->target.p[i] >= 0x80)
			return err_set(e, ERR_INVAL, "the target holds a byte that is not ASCII: encode it (%%C3%%A9)");
	return http1_request_path(h, &path, e);
}

int http1_request_check(const struct http1_head *h, struct err *e)
{
	struct http1_body body;
	int rc = check_target(h, e);

	if (rc == 0)
		rc = check_host(h, e);
	return rc ? rc : http1_request_body(h, &body, e);
}

int http1_answer(const void *p, size_t n, struct http1_head *out, struct err *e)
{
	int rc = http1_parse(p, n, true, out);

	if (rc == 0 && n >= 7 && memcmp(p, "HTTP/1.", 7) != 0)
		rc = ERR_PROTOCOL;
	return rc < 0 ? err_set(e, ERR_PROTOCOL, "the head of the answer is malformed (RFC 9112)") : rc;
}

const struct http1_field *http1_find(const struct http1_head *h, const char *name, const struct http1_field *after)
{
	for (size_t i = after ? (size_t)(after - h->field) + 1 : 0; i < h->nfields; i++)
		if (http1_is_like(h->field[i].name, name))
			return &h->field[i];
	return NULL;
}

static bool text_lists(struct http1_text t, const char *word)
{
	while (t.n) {
		const char *comma = memchr(t.p, ',', t.n);
		size_t n = comma ? (size_t)(comma - t.p) : t.n;

		if (http1_is_like(http1_trim((struct http1_text){.p = t.p, .n = n}), word))
			return true;
		t.p += n + (comma != NULL);
		t.n -= n + (comma != NULL);
	}
	return false;
}

bool http1_lists(const struct http1_head *h, const char *name, const char *word)
{
	for (const struct http1_field *f = http1_find(h, name, NULL); f; f = http1_find(h, name, f))
		if (text_lists(f->value, word))
			return true;
	return false;
}

/* ---- bodies */

enum {
	AT_SIZE,
	AT_BLANK,
	AT_EXTENSION,
	AT_SIZE_LF,
	AT_DATA,
	AT_DATA_CR,
	AT_DATA_LF,
	AT_TRAILER,
	AT_TRAILER_LINE,
	AT_TRAILER_LF,
	AT_LAST_LF
};
#define EXTRA_MAX (16 * 1024)

static bool take_length(struct http1_text t, uint64_t *out)
{
	*out = 0;
	if (!t.n || t.n > 18)
		return false;
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] < '0' || t.p[i] > '9')
			return false;
		*out = *out * 10 + (uint64_t)(t.p[i] - '0');
	}
	return true;
}

static int framing(const struct http1_head *h, enum http1_kind otherwise, struct http1_body *b)
{
	const struct http1_field *te = http1_find(h, "Transfer-Encoding", NULL),
				 *cl = http1_find(h, "Content-Length", NULL);

	memset(b, 0, sizeof(*b));
	b->kind = otherwise;
	if (te) {
		b->kind = HTTP1_CHUNKED;
		return cl || h->minor == 0 || !http1_is_like(te->value, "chunked") ||
			       http1_find(h, "Transfer-Encoding", te)
			   ? ERR_INVAL
			   : 0;
	}
	if (cl) {
		b->kind = HTTP1_LENGTH;
		if (!take_length(cl->value, &b->left) || http1_find(h, "Content-Length", cl))
			return ERR_INVAL;
	}
	b->done = b->kind == HTTP1_NONE || (b->kind == HTTP1_LENGTH && !b->left);
	return 0;
}

int http1_request_body(const struct http1_head *h, struct http1_body *out, struct err *e)
{
	return framing(h, HTTP1_NONE, out)
		   ? err_set(e, ERR_INVAL, "the body needs one Content-Length, or Transfer-Encoding: chunked")
		   : 0;
}

int http1_answer_body(const struct http1_head *h, bool head_request, struct http1_body *out, struct err *e)
{
	if (framing(h, HTTP1_TO_THE_END, out))
		return err_set(e, ERR_PROTOCOL, "the length of the answer is told in no way, or in two");
	if (head_request || h->status < 200 || h->status == 204 || h->status == 304) {
		memset(out, 0, sizeof(*out));
		out->kind = HTTP1_NONE;
		out->done = true;
	}
	return 0;
}

/* RFC 9112, 7.1: blanks only before an extension; some servers pad the size with them. */
static int behind_size(struct http1_body *b, uint8_t c)
{
	if (c != '\r' && c != ';' && c != ' ' && c != '\t')
		return ERR_INVAL;
	b->state = c == '\r' ? AT_SIZE_LF : c == ';' ? AT_EXTENSION : AT_BLANK;
	return b->state == AT_BLANK && ++b->extra > EXTRA_MAX ? ERR_INVAL : 0;
}

static int at_size(struct http1_body *b, uint8_t c)
{
	if (hex_value(c) >= 0 && b->digits < 15) {
		b->left = b->left << 4 | (uint64_t)hex_value(c);
		b->digits++;
		return 0;
	}
	return b->digits ? behind_size(b, c) : ERR_INVAL;
}

/* Extensions and trailers go on as they came: nothing in them may be a line's end to somebody else. */
static int in_extra(struct http1_body *b, uint8_t c, unsigned stay, unsigned at_cr)
{
	b->state = c == '\r' ? at_cr : stay;
	return ++b->extra > EXTRA_MAX || (c < 0x20 && c != '\t' && c != '\r') || c == 0x7f ? ERR_INVAL : 0;
}

/* A byte of the framing. */
static int chunk_byte(struct http1_body *b, uint8_t c)
{
	switch (b->state) {
	case AT_SIZE:
		return at_size(b, c);
	case AT_BLANK:
		return behind_size(b, c);
	case AT_EXTENSION:
		return in_extra(b, c, AT_EXTENSION, AT_SIZE_LF);
	case AT_SIZE_LF:
		b->state = b->left ? AT_DATA : AT_TRAILER;
		return c == '\n' ? 0 : ERR_INVAL;
	case AT_DATA_CR:
		b->state = AT_DATA_LF;
		return c == '\r' ? 0 : ERR_INVAL;
	case AT_DATA_LF:
		b->state = AT_SIZE;
		b->digits = 0;
		b->left = 0;
		return c == '\n' ? 0 : ERR_INVAL;
	case AT_TRAILER:
		return in_extra(b, c, AT_TRAILER_LINE, AT_LAST_LF);
	case AT_TRAILER_LINE:
		return in_extra(b, c, AT_TRAILER_LINE, AT_TRAILER_LF);
	case AT_TRAILER_LF:
		b->state = AT_TRAILER;
		return c == '\n' ? 0 : ERR_INVAL;
	default:
		b->done = true;
		return c == '\n' ? 0 : ERR_INVAL;
	}
}

/* Framing, then content, up to where that ends. */
static ssize_t chunk_next(struct http1_body *b, const uint8_t *p, size_t n, struct http1_text *out)
{
	size_t i = 0, take;

	*out = (struct http1_text){0};
	while (i < n && !b->done && b->state != AT_DATA)
		if (chunk_byte(b, p[i++]))
			return ERR_INVAL;
	if (i == n || b->done)
		return (ssize_t)i;
	take = n - i < b->left ? n - i : (size_t)b->left;
	*out = (struct http1_text){(const char *)p + i, take};
	b->left -= take;
	if (!b->left)
		b->state = AT_DATA_CR;
	return (ssize_t)(i + take);
}

ssize_t http1_body_next(struct http1_body *b, const uint8_t *p, size_t n, struct http1_text *out)
{
	*out = (struct http1_text){0};
	if (b->done)
		return 0;
	if (b->kind == HTTP1_CHUNKED)
		return chunk_next(b, p, n, out);
	if (b->kind == HTTP1_LENGTH) {
		n = n < b->left ? n : (size_t)b->left;
		b->left -= n;
		b->done = !b->left;
	}
	*out = (struct http1_text){(const char *)p, n};
	return (ssize_t)n;
}

ssize_t http1_body_feed(struct http1_body *b, const uint8_t *p, size_t n)
{
	struct http1_text content;
	size_t i = 0;

	while (i < n && !b->done) {
		ssize_t took = http1_body_next(b, p + i, n - i, &content);

		if (took < 0)
			return took;
		i += (size_t)took;
	}
	return (ssize_t)i;
}

static bool in_trailer(const struct http1_body *b, uint8_t c)
{
	return b->kind == HTTP1_CHUNKED &&
	       (b->state == AT_TRAILER_LINE || b->state == AT_TRAILER_LF || (b->state == AT_TRAILER && c != '\r'));
}

ssize_t http1_body_run(struct http1_body *b, const uint8_t *p, size_t n, bool *out_trailer)
{
	struct http1_text content;
	size_t i = 0;

	*out_trailer = n && !b->done && in_trailer(b, *p);
	while (i < n && !b->done && in_trailer(b, p[i]) == *out_trailer) {
		bool framing = b->kind == HTTP1_CHUNKED && b->state != AT_DATA;
		ssize_t took = http1_body_next(b, p + i, framing ? 1 : n - i, &content);

		if (took < 0)
			return took;
		i += (size_t)took;
	}
	return (ssize_t)i;
}
