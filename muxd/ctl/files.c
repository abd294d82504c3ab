#include "muxd/ctl/files.h"

#include "base/clock.h"
#include "base/sock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

static json_t *files_question(const struct file_wish *w, const char *op, const char *token)
{
	json_t *o = json_pack("{s:s,s:s,s:s,s:o}", "op", op, "agent", w->agent, "token", token, "path",
			      json_text_or_base64(w->path));

	if (!o)
		return NULL;
	if (w->task)
		json_object_set_new(o, "task", json_string(w->task));
	if (w->timeout_ns)
		json_object_set_new(o, "timeout_ms",
				    json_integer((json_int_t)((w->timeout_ns + NS_PER_MS - 1) / NS_PER_MS)));
	if (strcmp(op, "put") != 0)
		return o;
	if (w->mode >= 0)
		json_object_set_new(o, "mode", json_integer(w->mode));
	if (w->size >= 0)
		json_object_set_new(o, "size", json_integer(w->size));
	json_object_set_new(o, "parents", json_boolean(w->parents));
	return o;
}

/* Connected, asked, and told that it has begun. */
static int files_begin(struct ctl *c, const struct file_wish *w, const char *op, struct ctl_peer *p, struct err *e)
{
	struct ctl_wish grant = {.kind = "staff",
				 .agent = w->agent,
				 .scopes = "files",
				 .task = w->task,
				 .reason = w->reason,
				 .ttl_ns = w->ttl,
				 .work_ns = w->timeout_ns};
	char *token = NULL;
	json_t *q = NULL, *opened = NULL;
	int rc;

	rc = ctl_token(c, &grant, &token, e);
	if (rc == 0)
		rc = ctl_peer_open(c, "hub.sock", p, e);
	if (rc == 0 && !(q = files_question(w, op, token)))
		rc = err_set(e, ERR_NOMEM, "no memory for the question");
	if (rc == 0)
		rc = msg_send_json(p->fd, q, e);
	if (rc == 0)
		rc = ctl_peer_json(c, p, &opened, e);
	json_decref(opened);
	json_decref(q);
	ctl_token_free(token);
	return rc;
}

static int lost(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "the daemon closed the connection before the transfer was complete");
}

/* For the person; what is written stays silent about it otherwise. */
static void say_notice(const json_t *o)
{
	const char *text = json_string_value(json_object_get(o, "text"));
	char *clean = text ? ctl_clean(text) : NULL;

	if (clean)
		fprintf(stderr, "muxctl: %s\n", clean);
	free(clean);
}

/* One message of the daemon's: *out when it is the end with its numbers; an error is one; a notice is passed on. */
static int take_word(struct ctl *c, const struct msg *m, json_t **out, struct err *e)
{
	json_t *o = NULL, *file;
	int rc = 0;

	if (m->kind != 'J' || json_parse(m->payload, m->len, MSG_MAX, &o, e) < 0)
		return err_set(e, ERR_PROTOCOL, "the daemon's answer is not JSON");
	file = json_object_get(o, "file");
	if (json_is_object(json_object_get(o, "error"))) {
		rc = ctl_remote_error(c, json_object_get(o, "error"), e);
	} else if (json_is_object(file)) {
		json_object_set(file, "duration_ms", json_object_get(o, "duration_ms"));
		*out = json_incref(file);
	} else {
		say_notice(o);
	}
	json_decref(o);
	return rc;
}

/* The end of it: its numbers, or why not. */
static int take_end(struct ctl *c, struct ctl_peer *p, json_t **out, struct err *e)
{
	while (!*out) {
		struct msg m;
		int rc = ctl_peer_next(p, &m, e);

		if (rc < 0)
			return rc == ERR_EOF ? lost(e) : rc;
		if ((rc = take_word(c, &m, out, e)) < 0)
			return rc;
	}
	return 0;
}

/* What the daemon says while the content goes: 1 when that may go on, 0 after the end, or when nothing more will come.
 */
static int hear(struct ctl *c, struct ctl_peer *p, json_t **out, struct err *e)
{
	struct msg m;
	size_t size;
	uint8_t *at;

	buf_consume(&p->in, p->taken);
	p->taken = 0;
	if (buf_reserve(&p->in, CHUNK, &at))
		return err_set(e, ERR_NOMEM, "no memory for what the daemon says");
	ssize_t n = recv(p->fd, at, CHUNK, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (n <= 0)
		return 0; /* take_end() names it */
	buf_commit(&p->in, (size_t)n);
	for (int rc; (rc = msg_next(&p->in, &m, &size)) != 0; buf_consume(&p->in, size))
		if (rc < 0 || (rc = take_word(c, &m, out, e)) < 0)
			return rc;
	return *out ? 0 : 1;
}

/* 1: written; 0: the daemon ended it before all was written. */
static int push(struct ctl *c, struct ctl_peer *p, struct buf *b, json_t **out, struct err *e)
{
	int rc = 1;

	while (rc == 1 && buf_len(b)) {
		struct pollfd w = {.fd = p->fd, .events = POLLIN | POLLOUT};
		ssize_t n;

		if (poll(&w, 1, -1) < 0 && errno != EINTR)
			return err_sys(e, errno, "wait for the daemon");
		if (w.revents & (POLLIN | POLLHUP | POLLERR))
			rc = hear(c, p, out, e);
		if (rc != 1 || !(w.revents & POLLOUT))
			continue;
		n = send(p->fd, buf_ptr(b), buf_len(b), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return 0; /* what it said before it closed is still to be read */
		buf_consume(b, n > 0 ? (size_t)n : 0);
	}
	return rc;
}

/* 1: there is something to read, or its end; 0: the daemon ended it. A source may be silent for hours. */
static int await_content(struct ctl *c, struct ctl_peer *p, int fd, json_t **out, struct err *e)
{
	struct pollfd w[] = {{.fd = fd, .events = POLLIN}, {.fd = p->fd, .events = POLLIN}};
	int rc = 1;

	while (rc == 1) {
		if (poll(w, 2, -1) < 0) {
			if (errno != EINTR)
				return err_sys(e, errno, "wait for what is to be put");
			continue;
		}
		if (w[1].revents)
			rc = hear(c, p, out, e);
		else
			break;
	}
	return rc;
}

/* 1: all of it went, the end too; 0: the daemon ended it. */
static int push_content(struct ctl *c, struct ctl_peer *p, int fd, json_t **out, struct err *e)
{
	json_t *eof = json_pack("{s:s}", "op", "eof");
	uint8_t *chunk = malloc(CHUNK);
	struct buf b;
	int rc = 1;

	buf_init(&b, 2 * CHUNK);
	if (!eof || !chunk)
		rc = err_set(e, ERR_NOMEM, "no memory for the content");
	while (rc == 1 && (rc = await_content(c, p, fd, out, e)) == 1) {
		ssize_t n = read(fd, chunk, CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = err_sys(e, errno, "read");
		else if (n > 0 ? msg_put_bytes(&b, 0, chunk, (size_t)n) : msg_put_json(&b, eof))
			rc = err_set(e, ERR_NOMEM, "no memory for the content");
		else
			rc = push(c, p, &b, out, e);
		if (n <= 0)
			break;
	}
	buf_finish(&b);
	free(chunk);
	json_decref(eof);
	return rc;
}

int files_put(struct ctl *c, const struct file_wish *w, int fd, json_t **out, struct err *e)
{
	struct ctl_peer p = {.fd = -1};
	json_t *o = NULL;
	int rc = files_begin(c, w, "put", &p, e);

	if (rc == 0)
		rc = push_content(c, &p, fd, &o, e);
	if (rc >= 0)
		rc = take_end(c, &p, &o, e);
	ctl_peer_close(&p);
	if (rc == 0)
		*out = o;
	else
		json_decref(o);
	return rc;
}

static int files_write_all(int fd, const uint8_t *p, size_t n, struct err *e)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return err_sys(e, errno, "write");
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

/* Bytes until the first message that is none: that one is parsed as the end. */
static int take_content(struct ctl *c, struct ctl_peer *p, int fd, json_t **out, struct err *e)
{
	for (;;) {
		struct msg m;
		int rc = ctl_peer_next(p, &m, e);

		if (rc < 0)
			return rc == ERR_EOF ? lost(e) : rc;
		if (m.kind == 'B')
			rc = m.len > 1 && m.payload[0] == 1 ? files_write_all(fd, m.payload + 1, m.len - 1, e) : 0;
		else
			rc = take_word(c, &m, out, e);
		if (rc < 0 || *out)
			return rc;
	}
}

int files_get(struct ctl *c, const struct file_wish *w, int fd, json_t **out, struct err *e)
{
	struct ctl_peer p = {.fd = -1};
	json_t *o = NULL;
	int rc = files_begin(c, w, "get", &p, e);

	if (rc == 0)
		rc = take_content(c, &p, fd, &o, e);
	ctl_peer_close(&p);
	if (rc == 0)
		*out = o;
	return rc;
}
