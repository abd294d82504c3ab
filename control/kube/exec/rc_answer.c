#include "control/kube/exec/rc_answer.h"

#include "base/err.h"
#include "base/hex.h"
#include "base/wsframe.h"

#include <string.h>
#include <strings.h>

#define STATUS_LINE_MIN 12 /* "HTTP/1.1 403" */

static int rc_status_of(const uint8_t *p, size_t n)
{
	int status = 0;

	if (n < STATUS_LINE_MIN || memcmp(p, "HTTP/1.", 7) != 0 || p[8] != ' ')
		return ERR_PROTOCOL;
	for (size_t i = 9; i < STATUS_LINE_MIN; i++) {
		if (p[i] < '0' || p[i] > '9')
			return ERR_PROTOCOL;
		status = status * 10 + (p[i] - '0');
	}
	return status >= 100 ? status : ERR_PROTOCOL;
}

/* The value of a field in a head that ends with CR LF CR LF; NULL when it is not there. */
static const uint8_t *rc_answer_field(const uint8_t *head, size_t n, const char *name, size_t *out_len)
{
	size_t name_len = strlen(name);
	const uint8_t *at = head, *end = head + n, *line, *nl;

	while ((nl = memchr(at, '\n', (size_t)(end - at)))) {
		line = nl + 1;
		if ((size_t)(end - line) > name_len && strncasecmp((const char *)line, name, name_len) == 0 &&
		    line[name_len] == ':') {
			at = line + name_len + 1;
			while (at < end && (*at == ' ' || *at == '\t'))
				at++;
			nl = memchr(at, '\r', (size_t)(end - at));
			*out_len = nl ? (size_t)(nl - at) : 0;
			return at;
		}
		at = line;
	}
	return NULL;
}

static bool rc_answer_number(const uint8_t *p, size_t n, size_t *out)
{
	size_t v = 0;

	if (n == 0 || n > 12)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (size_t)(p[i] - '0');
	}
	*out = v;
	return true;
}

/* One chunk's size line at p: its length in *out_line, the size in *out_size. 0 when it is not whole. */
static int chunk_line(const uint8_t *p, size_t n, size_t *out_line, size_t *out_size)
{
	const uint8_t *nl = memchr(p, '\n', n);
	size_t size = 0, i = 0;

	if (!nl)
		return n > 64 ? ERR_PROTOCOL : 0;
	for (; i < 8 && hex_value(p[i]) >= 0; i++)
		size = size << 4 | (size_t)hex_value(p[i]);
	if (i == 0 || (p[i] != '\r' && p[i] != ';' && p[i] != ' '))
		return ERR_PROTOCOL;
	*out_line = (size_t)(nl - p) + 1;
	*out_size = size;
	return 1;
}

/* Takes the framing out, in place: *out is how much body there is. 1 when the last chunk was there. */
static int dechunk(uint8_t *p, size_t n, size_t *out)
{
	size_t from = 0, to = 0, line, size;
	int rc = 1;

	while ((rc = chunk_line(p + from, n - from, &line, &size)) == 1 && size > 0) {
		size_t have = n - from - line < size ? n - from - line : size;

		memmove(p + to, p + from + line, have);
		to += have;
		from += line + have;
		if (have < size || n - from < 2) {
			rc = 0;
			break;
		}
		if (p[from] != '\r' || p[from + 1] != '\n')
			return ERR_PROTOCOL;
		from += 2;
	}
	*out = to;
	return rc;
}

/* Is the last chunk there? Asked before anything is moved. */
static int chunks_whole(const uint8_t *p, size_t n)
{
	size_t from = 0, line, size;
	int rc;

	while ((rc = chunk_line(p + from, n - from, &line, &size)) == 1 && size > 0) {
		if (n - from - line < size + 2)
			return 0;
		from += line + size + 2;
	}
	return rc;
}

static int chunked_body(uint8_t *p, size_t n, bool all, struct rc_answer *out)
{
	int rc = chunks_whole(p, n);
	size_t len = 0;

	if (rc == 0 && !all)
		return 0;
	rc = dechunk(p, n, &len);
	if (rc < 0)
		return rc;
	out->body = p;
	out->body_len = len;
	return 1;
}

/* A body that ends by what the head says, or with the connection. */
static int take_body(uint8_t *p, bool all, struct rc_answer *r)
{
	const uint8_t *v;
	size_t len = 0, body = 0;
	bool bounded;

	v = rc_answer_field(p, r->head_len, "Transfer-Encoding", &len);
	if (v && len == 7 && strncasecmp((const char *)v, "chunked", len) == 0)
		return chunked_body(r->body, r->body_len, all, r);
	v = rc_answer_field(p, r->head_len, "Content-Length", &len);
	bounded = v && rc_answer_number(v, len, &body);
	if (bounded && r->body_len > body)
		r->body_len = body;
	return all || (bounded && r->body_len == body) ? 1 : 0;
}

int rc_answer_parse(uint8_t *p, size_t n, bool eof, bool connect, struct rc_answer *out)
{
	const uint8_t *end = n ? memmem(p, n, "\r\n\r\n", 4) : NULL;
	bool all = eof || n >= RC_ANSWER_MAX, no_body;
	struct rc_answer r = {.status = rc_status_of(p, n)};
	int rc = 1;

	if (r.status < 0)
		return n < STATUS_LINE_MIN && !all ? 0 : ERR_PROTOCOL;
	no_body = r.status == 101 || (connect && r.status / 100 == 2);
	if (!end && (!all || no_body))
		return all ? ERR_PROTOCOL : 0;
	r.head_len = end ? (size_t)(end - p) + 4 : n;
	r.body = p + r.head_len;
	r.body_len = no_body ? 0 : n - r.head_len;
	if (!no_body)
		rc = take_body(p, all, &r);
	if (rc == 1)
		*out = r;
	return rc;
}

/* --- a 101 */

/* Is word one of the comma-separated ones in s[0..n)? */
static bool lists(const char *s, size_t n, const char *word)
{
	const char *end = s + n, *from = s, *to;

	for (; from < end; from = to + 1) {
		to = memchr(from, ',', (size_t)(end - from));
		to = to ? to : end;
		while (from < to && (*from == ' ' || *from == '\t'))
			from++;
		if ((size_t)(to - from) >= strlen(word) && strncasecmp(from, word, strlen(word)) == 0 &&
		    strspn(from + strlen(word), " \t") >= (size_t)(to - from) - strlen(word))
			return true;
	}
	return false;
}

int rc_answer_check(const uint8_t *p, size_t n, const char *key, const char *offer, char *protocol, size_t size,
		    struct err *e)
{
	char want[WSFRAME_ACCEPT_LEN + 1];
	size_t len = 0;
	const uint8_t *v;

	wsframe_accept(key, want);
	v = rc_answer_field(p, n, "Upgrade", &len);
	if (!v || !lists((const char *)v, len, "websocket"))
		return err_set(e, ERR_PROTOCOL, "the server upgraded to something else than WebSocket");
	v = rc_answer_field(p, n, "Connection", &len);
	if (!v || !lists((const char *)v, len, "upgrade"))
		return err_set(e, ERR_PROTOCOL, "the server answered 101 without an upgrade");
	v = rc_answer_field(p, n, "Sec-WebSocket-Accept", &len);
	if (!v || len != WSFRAME_ACCEPT_LEN || memcmp(v, want, len) != 0)
		return err_set(e, ERR_PROTOCOL, "the server's Sec-WebSocket-Accept is wrong");
	if (rc_answer_field(p, n, "Sec-WebSocket-Extensions", &len))
		return err_set(e, ERR_PROTOCOL, "the server chose an extension that was not offered");
	v = rc_answer_field(p, n, "Sec-WebSocket-Protocol", &len);
	if (!v || len == 0 || len >= size)
		return err_set(e, ERR_PROTOCOL, "the server upgraded, but chose none of %s", offer);
	memcpy(protocol, v, len);
	protocol[len] = '\0';
	if (!lists(offer, strlen(offer), protocol))
		return err_set(e, ERR_PROTOCOL, "the server chose a protocol that is none of %s", offer);
	return 0;
}
