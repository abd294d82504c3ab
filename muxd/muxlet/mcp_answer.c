#include "muxd/muxlet/mcp_answer.h"

#include "base/err.h"
#include "base/json_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HEAD_MAX (64 * 1024)

void mcp_answer_init(struct mcp_answer *a)
{
	memset(a, 0, sizeof(*a));
	buf_init(&a->head, HEAD_MAX);
	buf_init(&a->content, MCP_MESSAGE_MAX);
	events_init(&a->events, MCP_MESSAGE_MAX);
}

void mcp_answer_finish(struct mcp_answer *a)
{
	buf_finish(&a->head);
	buf_finish(&a->content);
	events_finish(&a->events);
}

__attribute__((format(printf, 2, 3))) static int answer_broken(struct mcp_answer *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->why, sizeof(a->why), fmt, ap); /* own: words of ours and numbers */
	va_end(ap);
	a->state = ANSWER_BROKEN;
	return ERR_PROTOCOL;
}

/* ---- its head */

/* "application/json; charset=utf-8" is application/json. */
static bool is_type(const struct http1_field *f, const char *type)
{
	struct http1_text t = f ? f->value : (struct http1_text){"", 0};
	const char *end = memchr(t.p, ';', t.n);

	return http1_is_like(http1_trim((struct http1_text){t.p, end ? (size_t)(end - t.p) : t.n}), type);
}

static int take_session(struct mcp_answer *a, const struct http1_head *h)
{
	const struct http1_field *f = http1_find(h, "Mcp-Session-Id", NULL);

	if (!f)
		return 0;
	if (!f->value.n || f->value.n >= sizeof(a->session) || http1_find(h, "Mcp-Session-Id", f))
		return answer_broken(a, "names a session of no byte, of more than %d, or two", MCP_SESSION_MAX - 1);
	for (size_t i = 0; i < f->value.n; i++)
		if (f->value.p[i] <= ' ' || f->value.p[i] > '~')
			return answer_broken(a, "names a session by other characters than visible ASCII");
	memcpy(a->session, f->value.p, f->value.n);
	a->session[f->value.n] = '\0';
	return 0;
}

static int take_kind(struct mcp_answer *a, const struct http1_head *h)
{
	const struct http1_field *f = http1_find(h, "Content-Type", NULL);

	if (f && http1_find(h, "Content-Type", f))
		return answer_broken(a, "sends two types of content");
	if (is_type(f, "application/json"))
		a->state = ANSWER_JSON;
	else if (is_type(f, "text/event-stream") && h->status == 200)
		a->state = ANSWER_EVENTS;
	else if (h->status != 200)
		a->state = ANSWER_SKIPPED;
	else
		return answer_broken(a, "answers with neither application/json nor text/event-stream");
	if (h->status > 200 && h->status < 300)
		a->state = ANSWER_SKIPPED;
	a->streams = a->state == ANSWER_EVENTS;
	return 0;
}

static int take_final_head(struct mcp_answer *a, const struct http1_head *h)
{
	const struct http1_field *f = http1_find(h, "Content-Encoding", NULL);
	int rc;

	if (h->status >= 300 && h->status < 400)
		return answer_broken(a, "redirects (HTTP status %d), and no redirect is followed", h->status);
	if (f && !http1_is_like(f->value, "identity"))
		return answer_broken(a, "sends its content encoded, which it was not asked for");
	if (http1_answer_body(h, false, &a->body, NULL))
		return answer_broken(a, "tells the length of its content in no way, or in two");
	rc = take_session(a, h);
	rc = rc ? rc : take_kind(a, h);
	if (!rc)
		a->status = h->status;
	return rc;
}

/* From p on; *out_used: how many of the bytes were the head's. Heads that announce another (1xx) are passed over. */
static int take_head(struct mcp_answer *a, const uint8_t *p, size_t n, size_t *out_used)
{
	struct http1_head h;
	size_t had = buf_len(&a->head), room = HEAD_MAX - had, add = n < room ? n : room;
	int rc;

	if (buf_append(&a->head, p, add))
		return answer_broken(a, "needs more memory than there is");
	*out_used = add;
	while ((rc = http1_answer(buf_ptr(&a->head), buf_len(&a->head), &h, NULL)) == 1 && h.status < 200)
		buf_consume(&a->head, h.len);
	if (rc < 0)
		return answer_broken(a, "does not answer by HTTP/1.1, or with a head that is malformed");
	if (rc == 0)
		return add < n || add == room
			   ? answer_broken(a, "answers with a head of more than %d KiB", HEAD_MAX / 1024)
			   : 0;
	rc = take_final_head(a, &h);
	*out_used = add - (buf_len(&a->head) - h.len);
	buf_finish(&a->head);
	return rc;
}

/* ---- its content */

/* The bytes are ours, and no line end is left in them. */
static int mcp_answer_tell(char *p, size_t n, mcp_message_fn *fn, void *arg)
{
	bool blank = true;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' || p[i] == '\r')
			p[i] = ' ';
		blank = blank && (p[i] == ' ' || p[i] == '\t');
	}
	return blank ? 0 : fn(arg, p, n);
}

struct telling {
	mcp_message_fn *fn;
	void *arg;
};

static int on_event(void *arg, char *data, size_t n)
{
	const struct telling *t = arg;

	return mcp_answer_tell(data, n, t->fn, t->arg);
}

static int take_content(struct mcp_answer *a, const char *p, size_t n, const struct telling *t)
{
	int rc = 0;

	if (a->state == ANSWER_EVENTS)
		rc = events_feed(&a->events, p, n, on_event, (void *)(uintptr_t)t);
	else if (a->state == ANSWER_JSON)
		rc = buf_append(&a->content, p, n);
	if (rc == ERR_TOO_LARGE)
		return answer_broken(a, "sends a message of more than %u MiB", MCP_MESSAGE_MAX >> 20);
	return rc == ERR_NOMEM ? answer_broken(a, "needs more memory than there is") : rc;
}

static int answer_over(struct mcp_answer *a, const struct telling *t)
{
	bool json = a->state == ANSWER_JSON;
	int rc;

	a->state = ANSWER_WHOLE;
	rc = json && buf_len(&a->content)
		 ? mcp_answer_tell((char *)a->content.data + a->content.off, buf_len(&a->content), t->fn, t->arg)
		 : 0;
	buf_finish(&a->content);
	return rc ? rc : 1;
}

int mcp_answer_feed(struct mcp_answer *a, const void *bytes, size_t n, mcp_message_fn *fn, void *arg)
{
	const struct telling t = {fn, arg};
	const uint8_t *p = bytes;
	size_t at = 0;
	int rc = 0;

	if (a->state == ANSWER_HEAD && n) {
		rc = take_head(a, p, n, &at);
		if (rc || a->state == ANSWER_HEAD)
			return rc;
	}
	while (rc == 0 && at < n && !a->body.done && a->state < ANSWER_WHOLE) {
		struct http1_text run;
		ssize_t took = http1_body_next(&a->body, p + at, n - at, &run);

		if (took < 0)
			return answer_broken(a, "sends its content in chunks that are none");
		rc = take_content(a, run.p, run.n, &t);
		at += (size_t)took;
	}
	if (rc || a->state >= ANSWER_WHOLE)
		return rc ? rc : a->state == ANSWER_WHOLE ? 1 : ERR_PROTOCOL;
	return a->body.done ? answer_over(a, &t) : 0;
}

int mcp_answer_end(struct mcp_answer *a, mcp_message_fn *fn, void *arg)
{
	const struct telling t = {fn, arg};

	if (a->state >= ANSWER_WHOLE)
		return a->state == ANSWER_WHOLE ? 1 : ERR_PROTOCOL;
	if (a->state == ANSWER_HEAD)
		return answer_broken(a, "closed the connection before it had answered");
	if (a->body.kind == HTTP1_TO_THE_END || a->state == ANSWER_EVENTS || a->state == ANSWER_SKIPPED)
		return answer_over(a, &t);
	return answer_broken(a, "closed the connection in the middle of an answer");
}

/* ---- its messages */

bool mcp_message_answers(const char *p, size_t n, const char *id)
{
	struct json_scan_span v, other;

	return json_scan_member(p, n, "id", &v) && v.n == strlen(id) && memcmp(v.p, id, v.n) == 0 &&
	       !json_scan_member(p, n, "method", &other) &&
	       json_scan_member(p, n, "result", &other) != json_scan_member(p, n, "error", &other);
}

bool mcp_message_version(const char *p, size_t n, char out[MCP_VERSION_MAX])
{
	struct json_scan_span result, v;

	if (!json_scan_member(p, n, "result", &result) ||
	    !json_scan_member(result.p, result.n, "protocolVersion", &v) || v.n < 3 || v.n - 2 >= MCP_VERSION_MAX)
		return false;
	for (size_t i = 1; i + 1 < v.n; i++)
		if (!strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_", v.p[i]) || !v.p[i])
			return false;
	memcpy(out, v.p + 1, v.n - 2);
	out[v.n - 2] = '\0';
	return v.p[0] == '"';
}
