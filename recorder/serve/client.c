#define LOG_SUBSYS "recorder"
#include "recorder/serve/client.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/err_json.h"
#include "base/json_scan.h"
#include "base/log.h"
#include "base/msg.h"
#include "base/sock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define READ_STEP (64 * 1024)

/* A question that waits for its answer, or for the rest of it. */
struct pending {
	recorder_answer *cb; /* NULL: it has failed, and what else comes of its answer is passed over */
	void *arg;
	struct pending *next;
};

struct sending {
	uv_write_t req;
	struct buf bytes;
};

struct recorder_client {
	uv_pipe_t pipe;
	struct buf in;
	struct pending *first, **last;
	bool broken; /* the stream has ended: nothing more is asked */
	recorder_lost *lost;
	void *arg;
	bool destroyed; /* no callbacks any more; freed when the handle is closed and no callback runs */
	bool closed;
	unsigned depth; /* callbacks that run */
};

static void client_free_when_done(struct recorder_client *c)
{
	if (!c->closed || c->depth)
		return;
	buf_finish_secret(&c->in);
	free(c);
}

static void client_on_closed(uv_handle_t *h)
{
	struct recorder_client *c = h->data;
	c->closed = true;
	client_free_when_done(c);
}

static void client_tell(struct recorder_client *c, struct pending *p, int rc, const struct err *e, const json_t *json,
			const uint8_t *bytes, size_t n, bool end)
{
	if (!p->cb)
		return;
	c->depth++;
	p->cb(p->arg, rc, e, json, bytes, n, end);
	c->depth--;
}

static struct pending *client_take(struct recorder_client *c)
{
	struct pending *p = c->first;
	c->first = p->next;
	if (!c->first)
		c->last = &c->first;
	return p;
}

/* Everybody who waits hears the same. */
static void client_fail(struct recorder_client *c, int rc, const char *why)
{
	struct err e = {0};
	err_set(&e, rc, "%s", why);
	bool news = !c->broken && !c->destroyed;
	c->broken = true;
	while (c->first) {
		struct pending *p = client_take(c);
		client_tell(c, p, rc, &e, NULL, NULL, 0, true);
		free(p);
	}
	if (news && c->lost && !c->destroyed)
		c->lost(c->arg);
}

static void client_error(struct recorder_client *c, const json_t *error)
{
	const char *code = "internal", *message = "";
	struct err e = {0};
	struct pending *p = client_take(c);
	(void)json_opt_str(error, "code", &code, NULL);
	(void)json_opt_str(error, "message", &message, NULL);
	int rc = err_by_name(code);
	err_set(&e, rc ? rc : ERR_INTERNAL, "%s", message);
	err_share_take(error, &e);
	client_tell(c, p, e.code, &e, NULL, NULL, 0, true);
	free(p);
}

/*
 * A message that is whole, and cannot be read: its question fails, and those behind it are answered. ERR_PROTOCOL: it
 * is not to be told whether the answer ends there, so that the next one could be taken for a part of it.
 */
static int client_unreadable(struct recorder_client *c, const struct msg *m, int rc, const struct err *why)
{
	struct pending told = *c->first;
	struct err e = {0};
	bool end = false;

	if (json_scan_true(m->payload, m->len, "end", &end))
		return ERR_PROTOCOL;
	if (told.cb)
		log_error(NULL, "an answer of the recorder (%zu bytes) cannot be read: %s", m->len, why->message);
	err_set(&e, rc == ERR_NOMEM ? rc : ERR_PROTOCOL, "an answer of the recorder cannot be read: %s", why->message);
	c->first->cb = NULL;
	if (end)
		free(client_take(c));
	client_tell(c, &told, e.code, &e, NULL, NULL, 0, true);
	return 0;
}

/* ERR_PROTOCOL when the recorder talks out of turn. */
static int client_message(struct recorder_client *c, const struct msg *m)
{
	json_t *o = NULL;
	struct err why = {0};
	bool end = false;

	if (!c->first)
		return ERR_PROTOCOL;
	if (m->kind == 'B') {
		if (m->len < 1)
			return ERR_PROTOCOL;
		client_tell(c, c->first, 0, NULL, NULL, m->payload + 1, m->len - 1, false);
		return 0;
	}
	int rc = json_parse_nested(m->payload, m->len, MSG_MAX, &o, &why);
	if (rc)
		return client_unreadable(c, m, rc, &why);
	(void)json_opt_bool(o, "end", &end, NULL);
	const json_t *error = json_object_get(o, "error");
	if (json_is_object(error) && end) {
		client_error(c, error);
	} else if (end) {
		struct pending *p = client_take(c);
		client_tell(c, p, 0, NULL, o, NULL, 0, true);
		free(p);
	} else {
		client_tell(c, c->first, 0, NULL, o, NULL, 0, false);
	}
	json_decref(o);
	return 0;
}

static void client_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *out)
{
	struct recorder_client *c = h->data;
	uint8_t *p = NULL;
	size_t n = buf_room(&c->in) < READ_STEP ? buf_room(&c->in) : READ_STEP;
	(void)hint;
	if (n == 0 || buf_reserve(&c->in, n, &p))
		n = 0;
	*out = uv_buf_init((char *)p, (unsigned)n);
}

static void client_consume(struct recorder_client *c)
{
	struct msg m;
	size_t size;
	int rc = 0;

	c->depth++;
	while (!c->destroyed && !c->broken && (rc = msg_next(&c->in, &m, &size)) == 1) {
		if ((rc = client_message(c, &m)) != 0)
			break;
		buf_consume(&c->in, size);
	}
	if (rc < 0 && !c->destroyed)
		client_fail(c, ERR_PROTOCOL, "the recorder's answer makes no sense");
	c->depth--;
}

static void client_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
	struct recorder_client *c = stream->data;
	(void)b;
	if (n > 0) {
		buf_commit(&c->in, (size_t)n);
		client_consume(c);
	} else if (n < 0) {
		uv_read_stop(stream);
		client_fail(c, ERR_UNAVAILABLE, "the recorder has gone");
	}
	if (c->closed)
		client_free_when_done(c);
}

int recorder_client_create(struct uv_loop_s *loop, int fd, recorder_lost *lost, void *arg, struct recorder_client **out)
{
	struct recorder_client *c = calloc(1, sizeof(*c));
	if (!c || uv_pipe_init(loop, &c->pipe, 0)) {
		free(c);
		close(fd);
		return ERR_NOMEM;
	}
	c->pipe.data = c;
	c->lost = lost;
	c->arg = arg;
	c->last = &c->first;
	buf_init(&c->in, MSG_MAX + MSG_HEADER);
	if (uv_pipe_open(&c->pipe, fd)) {
		close(fd);
		recorder_client_destroy(c);
		return ERR_SYS;
	}
	if (uv_read_start((uv_stream_t *)&c->pipe, client_on_alloc, client_on_read)) {
		recorder_client_destroy(c);
		return ERR_SYS;
	}
	*out = c;
	return 0;
}

static void client_end(struct recorder_client *c, int rc, const char *why)
{
	if (!c || c->destroyed)
		return;
	c->destroyed = true;
	client_fail(c, rc, why);
	uv_close((uv_handle_t *)&c->pipe, client_on_closed);
}

void recorder_client_destroy(struct recorder_client *c)
{
	client_end(c, ERR_CANCELLED, "the question was taken back");
}

void recorder_client_replace(struct recorder_client *c)
{
	client_end(c, ERR_UNAVAILABLE, "the recorder has gone");
}

static void client_on_sent(uv_write_t *req, int status)
{
	struct sending *s = (struct sending *)req;
	struct recorder_client *c = req->handle->data;
	/* A broken stream is told by the reading side, but only if it is still read. */
	if (status < 0 && status != UV_ECANCELED && !c->destroyed)
		client_fail(c, ERR_UNAVAILABLE, "the recorder has gone");
	buf_finish_secret(&s->bytes);
	free(s);
}

int recorder_client_ask(struct recorder_client *c, const json_t *request, recorder_answer *cb, void *arg)
{
	if (c->broken || c->destroyed)
		return ERR_UNAVAILABLE;
	struct sending *s = calloc(1, sizeof(*s));
	struct pending *p = calloc(1, sizeof(*p));
	int rc = ERR_NOMEM;
	if (!s || !p)
		goto fail;
	buf_init(&s->bytes, RECORDER_QUESTION_MAX);
	if ((rc = msg_put_json(&s->bytes, request)) != 0)
		goto fail;
	rc = ERR_NOMEM;
	uv_buf_t b = uv_buf_init((char *)(uintptr_t)buf_ptr(&s->bytes), (unsigned)buf_len(&s->bytes));
	if (uv_write(&s->req, (uv_stream_t *)&c->pipe, &b, 1, client_on_sent))
		goto fail;
	*p = (struct pending){.cb = cb, .arg = arg};
	*c->last = p;
	c->last = &p->next;
	return 0;
fail:
	if (s)
		buf_finish_secret(&s->bytes);
	free(s);
	free(p);
	return rc;
}

int recorder_connect(const char *state_dir, int *out_fd, struct err *e)
{
	char path[4096];
	if ((size_t)snprintf(path, sizeof(path), "%s/recorder.sock", state_dir) >= sizeof(path))
		return err_set(e, ERR_INVAL, "the state directory's path is too long");
	return sock_connect_unix(path, SOCK_STREAM, out_fd, e);
}
