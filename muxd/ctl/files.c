#include "muxd/ctl/files.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/content.h"
#include "policy/grant.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (32 * 1024)

/* One transfer under way. */
struct moving {
	struct ctl *c;
	struct api_socket socket;
	struct content *sink; /* where a get's content goes; NULL: a put */
	json_t *file;
	struct err *e; /* its code: what ended it */
};

static json_t *files_question(const struct file_wish *w, const char *op)
{
	json_t *file = json_pack("{s:s,s:o}", "op", op, "path", json_text_or_base64(w->path));
	json_t *o = json_pack("{s:o,s:s*}", "file", file, "task_id", w->task);

	if (o && w->timeout_ns)
		json_object_set_new(o, "timeout_ms",
				    json_integer((json_int_t)((w->timeout_ns + NS_PER_MS - 1) / NS_PER_MS)));
	if (!o || strcmp(op, "put") != 0)
		return o;
	if (w->mode >= 0)
		json_object_set_new(file, "mode", json_integer(w->mode));
	if (w->size >= 0)
		json_object_set_new(file, "size", json_integer(w->size));
	json_object_set_new(file, "parents", json_boolean(w->parents));
	return o;
}

static int files_begin(struct moving *m, const struct file_wish *w, const char *op, struct err *e)
{
	struct ctl_wish grant = {.kind = "staff",
				 .agent = w->agent,
				 .scopes = "files",
				 .task = w->task,
				 .reason = w->reason,
				 .ttl_ns = w->ttl,
				 .work_ns = w->timeout_ns};
	json_t *q = files_question(w, op);
	char *token = NULL;
	int rc = ctl_token(m->c, &grant, &token, e);

	if (rc == 0)
		rc = api_socket_open(m->c, token, &(struct api_call){.path = "/v1/agents/*/exec", .names = {w->agent}},
				     &m->socket, e);
	if (rc == 0 && api_socket_put_json(&m->socket, WIRE_START, q))
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	grant_token_free(token);
	json_decref(q);
	return rc;
}

/* For the person; what is written stays silent about it otherwise. */
static void files_say_notice(const json_t *o)
{
	const char *text = json_string_value(json_object_get(o, "text"));
	char *clean = text ? ctl_clean(text) : NULL;

	if (clean)
		fprintf(stderr, "muxctl: %s\n", clean);
	free(clean);
}

static void open_window(struct moving *m)
{
	uint8_t p[9] = {1};

	put_u64(p + 1, INT64_MAX);
	(void)api_socket_put(&m->socket, WIRE_WINDOW, p, sizeof(p));
}

static void take_file(struct moving *m, json_t *o)
{
	json_t *file = json_object_get(o, "file");

	if (!json_is_object(file)) {
		err_set(m->e, ERR_PROTOCOL, "the daemon's answer tells of no file");
		return;
	}
	json_object_set(file, "duration_ms", json_object_get(o, "duration_ms"));
	m->file = json_incref(file);
}

static void files_on_message(void *arg, enum web_type type, const uint8_t *p, size_t n)
{
	struct moving *m = arg;
	json_t *o = NULL;

	if (type == WIRE_OUTPUT && n >= WIRE_OUTPUT_HEAD && m->sink && !m->e->code) {
		(void)content_write(m->sink, p + WIRE_OUTPUT_HEAD - 1, n - WIRE_OUTPUT_HEAD + 1, m->e);
	} else if (type == WIRE_OPENED) {
		open_window(m);
	} else if (type == WIRE_ERROR && !m->e->code) {
		api_socket_error(m->c, p, n, m->e);
	} else if ((type == WIRE_NOTICE || type == WIRE_FILE) && json_parse(p, n, MSG_MAX, &o, NULL)) {
		err_set(m->e, ERR_PROTOCOL, "the daemon's answer is not JSON");
	} else if (type == WIRE_NOTICE) {
		files_say_notice(o);
	} else if (type == WIRE_FILE) {
		take_file(m, o);
	}
	json_decref(o);
}

/* More of what is to be put, or its end. False: there is no more. */
static bool take_content(struct moving *m, int fd)
{
	uint8_t chunk[CHUNK];
	ssize_t n = read(fd, chunk, sizeof(chunk));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (n < 0)
		err_sys(m->e, errno, "read");
	else if (n ? api_socket_put(&m->socket, WIRE_INPUT, chunk, (size_t)n)
		   : api_socket_put(&m->socket, WIRE_EOF, "", 0))
		err_set(m->e, ERR_NOMEM, "no memory for the content");
	return n > 0;
}

/* Until the daemon says how it ended. source: what is put, -1: nothing. A source may be silent for hours. */
static int files_move(struct moving *m, int source)
{
	while (!m->file && !m->e->code) {
		bool room = buf_len(&m->socket.out) < API_OUT_MAX / 4;
		struct pollfd p[] = {
		    {.fd = m->socket.fd, .events = (short)(POLLIN | (buf_len(&m->socket.out) ? POLLOUT : 0))},
		    {.fd = room ? source : -1, .events = POLLIN}};
		bool more = buf_len(&m->socket.in); /* came with the answer to the upgrade */
		int rc = 0;

		if (poll(p, 2, more ? 0 : -1) < 0 && errno != EINTR)
			return err_sys(m->e, errno, "wait for the daemon");
		if (more || p[0].revents & ~POLLOUT)
			rc = api_socket_read(&m->socket, files_on_message, m, m->e);
		if (p[1].revents && !take_content(m, source))
			source = -1;
		if (rc >= 0)
			(void)api_socket_write(&m->socket); /* the reading side tells what happened */
		else if (rc == ERR_EOF && !m->file && !m->e->code)
			err_set(m->e, ERR_UNAVAILABLE,
				"the daemon closed the connection before the transfer was complete");
	}
	return m->e->code;
}

static int files_transfer(struct ctl *c, const struct file_wish *w, const char *op, int source, struct content *sink,
			  json_t **out, struct err *e)
{
	struct moving m = {.c = c, .socket = {.fd = -1}, .sink = sink, .e = e};
	int rc = files_begin(&m, w, op, e);

	if (rc == 0)
		rc = files_move(&m, source);
	api_socket_close(&m.socket);
	if (rc == 0)
		*out = m.file;
	else
		json_decref(m.file);
	return rc;
}

int files_put(struct ctl *c, const struct file_wish *w, int fd, json_t **out, struct err *e)
{
	return files_transfer(c, w, "put", fd, NULL, out, e);
}

int files_get(struct ctl *c, const struct file_wish *w, int fd, json_t **out, struct err *e)
{
	struct content to;
	int rc;

	content_open(&to, fd, w->raw);
	rc = files_transfer(c, w, "get", -1, &to, out, e);
	content_close(&to);
	return rc;
}
