/*
 * muxctl mcp: the daemon's MCP on standard input and output, for local clients: each line is a message, and becomes a
 * request at /mcp of api.sock; what comes back is a line again. The daemon is the server (docs/mcp.md); nothing is
 * decided here.
 *
 * A request in flight has a connection of its own. Of the new era it ends when the connection does, so a cancelled one
 * is closed here; of the old era the daemon is told.
 */
#include "base/clock.h"
#include "base/http1.h"
#include "base/slurp.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/nouns.h"
#include "policy/grant.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLIGHTS       64
#define LINE_MAX_IN   (16u * 1024 * 1024)
#define ANSWER_MAX    (64u * 1024 * 1024)
#define ANSWER_VALUES 4000000
#define PIECE         (64 * 1024)
#define TOKEN_NS      (5 * 60 * NS_PER_SEC) /* a grant of ours is asked for anew behind it, or at half of its --ttl */
#define META          "io.modelcontextprotocol/protocolVersion"

/* A request whose answer is to come. */
struct flight {
	int fd; /* -1: free */
	json_t *id;
	bool new_era, begins, headed, stream, told; /* begins: initialize, which gives the others their session */
	int status;
	struct http1_body body;
	struct buf in, content; /* content: a line of events, or all of a JSON answer */
};

struct bridge {
	struct ctl *c;
	struct ctl_wish wish;
	const char *token_file;
	char *token;
	uint64_t token_ns;
	char session[128];
	struct flight flights[FLIGHTS];
	struct buf in;
	bool over; /* of standard input */
};

/* ---- lines out */

static int mcp_say(const char *text, size_t n)
{
	if (n == 0)
		return 0;
	/* content: lines of JSON for the program that runs this */
	return fwrite(text, 1, n, stdout) == n && putchar('\n') != EOF && fflush(stdout) == 0 ? 0 : ERR_SYS;
}

static int say_error(const json_t *id, const char *code, const char *message)
{
	json_t *o = json_pack("{s:s,s:O?,s:{s:i,s:s%}}", "jsonrpc", "2.0", "id", (json_t *)(uintptr_t)id, "error",
			      "code", -32603, "message", message, strlen(message));
	char *text = NULL;
	int rc;

	if (o && *code)
		json_object_set_new(json_object_get(o, "error"), "data", json_pack("{s:s}", "code", code));
	text = o ? json_text(o) : NULL;
	rc = text ? mcp_say(text, strlen(text)) : ERR_NOMEM;
	free(text);
	json_decref(o);
	return rc;
}

/* ---- a request in flight */

static void flight_end(struct flight *f)
{
	if (f->fd >= 0)
		close(f->fd);
	json_decref(f->id);
	buf_finish(&f->in);
	buf_finish(&f->content);
	*f = (struct flight){.fd = -1};
}

/* The daemon's own refusal is no message of JSON-RPC. */
static int flight_tell(struct flight *f, const char *text, size_t n)
{
	json_t *o = NULL;
	const json_t *error;
	int rc;

	if (f->told || n == 0)
		return 0;
	if (f->status < 400)
		return mcp_say(text, n);
	f->told = true;
	(void)json_parse_values(text, n, ANSWER_MAX, ANSWER_VALUES, &o, NULL);
	error = json_object_get(o, "error");
	if (json_object_get(o, "jsonrpc"))
		rc = mcp_say(text, n);
	else
		rc = f->id ? say_error(f->id, json_get_text(error, "code"), json_get_text(error, "message")) : 0;
	json_decref(o);
	return rc;
}

/* A message of a stream. Its last is the answer, and then the stream may break off before its own end. */
static int flight_say(struct flight *f, const char *text, size_t n)
{
	json_t *o = NULL;

	(void)json_parse_values(text, n, ANSWER_MAX, ANSWER_VALUES, &o, NULL);
	f->told = f->told || json_object_get(o, "result") || json_object_get(o, "error");
	json_decref(o);
	return mcp_say(text, n);
}

/* Lines of events: data is a message, the others are for those who come back. */
static int take_events(struct flight *f)
{
	const uint8_t *nl;
	int rc = 0;

	while (rc == 0 && buf_len(&f->content) && (nl = memchr(buf_ptr(&f->content), '\n', buf_len(&f->content)))) {
		const char *line = (const char *)buf_ptr(&f->content);
		size_t n = (size_t)(nl - buf_ptr(&f->content));

		if (n > 6 && strncmp(line, "data: ", 6) == 0)
			rc = flight_say(f, line + 6, n - 6);
		buf_consume(&f->content, n + 1);
	}
	return rc;
}

static int take_head(struct bridge *b, struct flight *f)
{
	struct http1_head head;
	const struct http1_field *field;
	struct err e = {0};
	int rc = http1_answer(buf_ptr(&f->in), buf_len(&f->in), &head, &e);

	if (rc <= 0)
		return rc;
	if (http1_answer_body(&head, false, &f->body, &e))
		return ERR_PROTOCOL;
	f->headed = true;
	f->status = head.status;
	field = http1_find(&head, "Content-Type", NULL);
	f->stream = field && http1_is_like(field->value, "text/event-stream");
	field = http1_find(&head, "Mcp-Session-Id", NULL);
	if (field && field->value.n < sizeof(b->session)) {
		memcpy(b->session, field->value.p, field->value.n);
		b->session[field->value.n] = '\0';
	}
	buf_consume(&f->in, head.len);
	return 1;
}

static int take_body(struct flight *f)
{
	while (!f->body.done && buf_len(&f->in)) {
		struct http1_text content;
		ssize_t took = http1_body_next(&f->body, buf_ptr(&f->in), buf_len(&f->in), &content);

		if (took < 0 || buf_append(&f->content, content.p, content.n))
			return ERR_PROTOCOL;
		buf_consume(&f->in, (size_t)took);
		if (f->stream && take_events(f))
			return ERR_SYS;
	}
	return 0;
}

/* More of an answer. 1: it is whole; below 0: it never will be. */
static int flight_read(struct bridge *b, struct flight *f)
{
	uint8_t *to;
	ssize_t n;
	int rc;

	if (buf_reserve(&f->in, PIECE, &to))
		return ERR_TOO_LARGE;
	n = recv(f->fd, to, PIECE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return ERR_EOF;
	buf_commit(&f->in, (size_t)n);
	rc = f->headed ? 1 : take_head(b, f);
	if (rc <= 0)
		return rc;
	rc = take_body(f);
	if (rc || !f->body.done)
		return rc;
	rc = f->stream ? 0
		       : flight_tell(f, (const char *)buf_ptr(&f->content),
				     buf_len(&f->content) - (buf_len(&f->content) > 0)); /* without its line end */
	return rc ? rc : 1;
}

static int flight_go_on(struct bridge *b, struct flight *f)
{
	int rc = flight_read(b, f);

	if (rc == 0)
		return 0;
	if (rc < 0 && rc != ERR_SYS && f->id && !f->told)
		rc = say_error(
		    f->id, "unavailable",
		    "the daemon went away before it had answered. What was asked for may be done, and a program "
		    "may still run: look at it before you ask again, or ask with the same exec_id, which runs "
		    "nothing twice");
	flight_end(f);
	return rc == ERR_SYS ? ERR_SYS : 0;
}

/* ---- lines in */

static int token_get(struct bridge *b, struct err *e)
{
	uint64_t now = clock_boot_ns(), lasts = b->wish.ttl_ns ? b->wish.ttl_ns / 2 : TOKEN_NS;
	char *text = NULL;
	size_t len = 0;
	int rc;

	if (b->token && (b->token_file || now < b->token_ns + lasts))
		return 0;
	grant_token_free(b->token);
	b->token = NULL;
	b->token_ns = now;
	if (!b->token_file)
		return ctl_token(b->c, &b->wish, &b->token, e);
	rc = slurp_operand(b->token_file, GRANT_TOKEN_MAX + 16, &text, &len, e);
	if (rc)
		return rc;
	b->token = strndup(text, strcspn(text, "\r\n"));
	slurp_free(text, len);
	return b->token ? 0 : err_set(e, ERR_NOMEM, "no memory for the token");
}

/* A name that cannot stand in a field as it is goes in base64. */
static int put_name(struct buf *out, const char *name)
{
	bool plain = *name && *name != ' ' && name[strlen(name) - 1] != ' ';
	char *coded;
	int rc;

	for (const char *p = name; *p && plain; p++)
		plain = *p >= ' ' && *p < 0x7f;
	if (plain && strncmp(name, "=?", 2) != 0)
		return buf_printf(out, "Mcp-Name: %s\r\n", name);
	coded = base64_encode(name, strlen(name), false);
	rc = coded ? buf_printf(out, "Mcp-Name: =?base64?%s?=\r\n", coded) : ERR_NOMEM;
	free(coded);
	return rc;
}

static int put_fields(const struct bridge *b, struct buf *out, const json_t *m, const char *version)
{
	static const char *const names[] = {"taskId", "uri", "name"};
	const json_t *params = json_object_get(m, "params");
	const char *method = json_get_text(m, "method");
	int rc;

	if (!version)
		return b->session[0] && strcmp(method, "initialize") != 0
			   ? buf_printf(out, "Mcp-Session-Id: %s\r\n", b->session)
			   : 0;
	if (strpbrk(version, "\r\n") || strpbrk(method, "\r\n"))
		return ERR_INVAL;
	rc = buf_printf(out, "MCP-Protocol-Version: %s\r\nMcp-Method: %s\r\n", version, method);
	for (size_t i = 0; rc == 0 && i < sizeof(names) / sizeof(names[0]); i++)
		if (json_is_string(json_object_get(params, names[i])))
			return put_name(out, json_get_text(params, names[i]));
	return rc;
}

static int flight_send(struct bridge *b, struct flight *f, const json_t *m, const char *version, const char *line,
		       size_t n, struct err *e)
{
	struct buf out;
	int rc = token_get(b, e);

	buf_init(&out, LINE_MAX_IN + PIECE);
	if (rc == 0)
		rc = buf_printf(&out,
				"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
				"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
				"Content-Length: %zu\r\n",
				b->token, n);
	if (rc == 0)
		rc = put_fields(b, &out, m, version);
	if (rc == 0)
		rc = buf_append_str(&out, "\r\n");
	if (rc == 0)
		rc = buf_append(&out, line, n);
	if (rc == 0)
		rc = ctl_connect(b->c, "api.sock", SOCK_STREAM, &f->fd, e);
	while (rc == 0 && buf_len(&out)) {
		ssize_t sent = send(f->fd, buf_ptr(&out), buf_len(&out), MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			break; /* what it said before it closed is still to be read */
		buf_consume(&out, sent < 0 ? 0 : (size_t)sent);
	}
	buf_finish_secret(&out);
	return rc;
}

/* NULL: there is no room, or the session is not known yet. */
static struct flight *flight_free(struct bridge *b)
{
	for (size_t i = 0; i < FLIGHTS; i++)
		if (b->flights[i].begins)
			return NULL;
	for (size_t i = 0; i < FLIGHTS; i++)
		if (b->flights[i].fd < 0)
			return &b->flights[i];
	return NULL;
}

/* Of the new era there is no such message: the connection is the call. True: it was one of these. */
static bool cancel_here(struct bridge *b, const json_t *m)
{
	const json_t *id = json_object_get(json_object_get(m, "params"), "requestId");

	if (strcmp(json_get_text(m, "method"), "notifications/cancelled") != 0 || !id)
		return false;
	for (size_t i = 0; i < FLIGHTS; i++) {
		struct flight *f = &b->flights[i];

		if (f->fd < 0 || !f->new_era || !f->id || !json_equal(f->id, id))
			continue;
		flight_end(f);
		return true;
	}
	return false;
}

static int line_take(struct bridge *b, const char *line, size_t n)
{
	struct flight *f = flight_free(b);
	json_t *m = NULL, *id;
	const char *version;
	struct err e = {0};
	int rc = 0;

	while (n && (line[n - 1] == '\r' || line[n - 1] == ' '))
		n--;
	if (n == 0)
		return 0;
	(void)json_parse(line, n, LINE_MAX_IN, &m, NULL); /* one that is none the daemon refuses */
	if (cancel_here(b, m))
		goto out;
	id = json_object_get(m, "method") ? json_object_get(m, "id") : NULL;
	version = json_string_value(json_object_get(json_object_get(json_object_get(m, "params"), "_meta"), META));
	f->id = id ? json_incref(id) : NULL;
	f->new_era = version != NULL;
	f->begins = !version && strcmp(json_get_text(m, "method"), "initialize") == 0;
	buf_init(&f->in, ANSWER_MAX);
	buf_init(&f->content, ANSWER_MAX);
	if (flight_send(b, f, m, version, line, n, &e)) {
		rc = id ? say_error(id, err_name(e.code ? e.code : ERR_INVAL), e.message) : 0;
		flight_end(f);
	}
out:
	json_decref(m);
	return rc;
}

static int input_read(struct bridge *b)
{
	uint8_t *to;
	ssize_t n;

	if (buf_reserve(&b->in, PIECE, &to))
		return ERR_TOO_LARGE;
	n = read(STDIN_FILENO, to, PIECE);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	b->over = n <= 0;
	if (n > 0)
		buf_commit(&b->in, (size_t)n);
	return 0;
}

/* Whole lines, as long as there is room for requests. */
static int lines_take(struct bridge *b)
{
	const uint8_t *nl;
	int rc = 0;

	while (rc == 0 && flight_free(b) && buf_len(&b->in) && (nl = memchr(buf_ptr(&b->in), '\n', buf_len(&b->in)))) {
		size_t n = (size_t)(nl - buf_ptr(&b->in));

		rc = line_take(b, (const char *)buf_ptr(&b->in), n);
		buf_consume(&b->in, n + 1);
	}
	return rc;
}

static int bridge_turn(struct bridge *b)
{
	struct pollfd p[FLIGHTS + 1] = {{.fd = !b->over && flight_free(b) ? STDIN_FILENO : -1, .events = POLLIN}};
	bool waits = !b->over;
	int rc = 0;

	for (size_t i = 0; i < FLIGHTS; i++) {
		p[i + 1] = (struct pollfd){.fd = b->flights[i].fd, .events = POLLIN};
		waits = waits || b->flights[i].fd >= 0;
	}
	if (!waits)
		return 1;
	if (poll(p, FLIGHTS + 1, -1) < 0)
		return errno == EINTR ? 0 : ERR_SYS;
	for (size_t i = 0; rc == 0 && i < FLIGHTS; i++)
		if (p[i + 1].fd >= 0 && p[i + 1].revents)
			rc = flight_go_on(b, &b->flights[i]);
	if (rc == 0 && p[0].revents)
		rc = input_read(b);
	return rc ? rc : lines_take(b);
}

static int mcp_run(struct ctl *c, const struct ctl_args *a)
{
	struct bridge b = {.c = c,
			   .token_file = args_get(a, "token-file"),
			   .wish = {.kind = strchr(a->operands[0], '*') ? "service" : "agent",
				    .agent = a->operands[0],
				    .scopes = args_get_or(a, "scopes", "rounds,files"),
				    .task = args_get(a, "task"),
				    .reason = args_get_or(a, "reason", "muxctl mcp")}};
	struct err e = {0};
	int rc = args_duration(a, "ttl", &b.wish.ttl_ns, &e);

	buf_init(&b.in, LINE_MAX_IN + PIECE);
	for (size_t i = 0; i < FLIGHTS; i++)
		b.flights[i].fd = -1;
	if (rc == 0)
		rc = token_get(&b, &e); /* what cannot work is said at once */
	if (rc == 0)
		while ((rc = bridge_turn(&b)) == 0)
			;
	for (size_t i = 0; i < FLIGHTS; i++)
		flight_end(&b.flights[i]);
	grant_token_free(b.token);
	buf_finish(&b.in);
	if (rc == ERR_SYS && !e.code)
		err_sys(&e, errno, "write to the client");
	else if (rc < 0 && !e.code)
		err_set(&e, rc, "a line is longer than %u MiB", LINE_MAX_IN >> 20);
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

static const struct ctl_option mcp_options[] = {
    {"task", 0, "ID", "The task that the grant names; without it each call names its own."},
    {"scopes", 0, "LIST", "Scopes of the grant (default: rounds,files)."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl mcp)."},
    {"ttl", 0, "DURATION",
     "How long each grant holds (default: the daemon's). A program ends with the grant that it was begun under; a new "
     "one is asked for at half of this."},
    {"token-file", 0, "FILE", "A grant from this file, in place of one of your own."},
    {NULL, 0, NULL, NULL},
};

const struct ctl_command mcp_commands[] = {
    {"mcp", "AGENT", 1, 1, "Serve MCP on standard input and output, for a local client.", mcp_options, mcp_run,
     "AGENT is the sandbox that the client works in (its session_id), \"*\" for any. The client starts this program; "
     "docs/mcp.md shows how it is configured.",
     false, false},
    {NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, false},
};
