#include "muxd/ctl/api.h"

#include "base/ids.h"
#include "base/slurp.h"
#include "policy/grant.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_MAX    (64u * 1024 * 1024)
#define ANSWER_VALUES 4000000 /* of it: a list of the daemon's may be long */
#define REQUEST_MAX   (2u * 1024 * 1024)
#define PIECE         (128 * 1024)
#define MESSAGE_MAX   (8u * 1024 * 1024)

/* ---- a connection */

static int send_all(int fd, struct buf *b, struct err *e)
{
	while (buf_len(b)) {
		ssize_t n = send(fd, buf_ptr(b), buf_len(b), MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) /* what the daemon said before it closed is still to be read */
			return errno == EPIPE || errno == ECONNRESET ? 0 : err_sys(e, errno, "ask the daemon");
		buf_consume(b, (size_t)n);
	}
	return 0;
}

/* More of an answer. ERR_UNAVAILABLE: nothing more comes. */
static int api_receive(int fd, struct buf *in, struct err *e)
{
	size_t room = buf_room(in) < PIECE ? buf_room(in) : PIECE;
	uint8_t *p;
	ssize_t n;

	if (!room || buf_reserve(in, room, &p))
		return err_set(e, ERR_TOO_LARGE, "the daemon's answer is over %u MiB", ANSWER_MAX >> 20);
	do
		n = recv(fd, p, room, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return err_set(e, ERR_UNAVAILABLE, "the daemon does not answer");
	if (n <= 0)
		return err_set(e, ERR_UNAVAILABLE, "the daemon closed the connection without an answer");
	buf_commit(in, (size_t)n);
	return 0;
}

/* The head of the answer to what was sent; it is taken off `in`, and its fields point into it. */
static int receive_head(int fd, struct buf *in, struct http1_head *head, struct err *e)
{
	int rc;

	do {
		if ((rc = api_receive(fd, in, e)))
			return rc;
		rc = http1_answer(buf_ptr(in), buf_len(in), head, e);
	} while (rc == 0);
	if (rc < 0)
		return rc;
	buf_consume(in, head->len);
	return 0;
}

/* The body as JSON; a status of 400 and above is the error that it tells. */
static int receive_body(struct ctl *c, int fd, struct buf *in, const struct http1_head *head, json_t **out,
			struct err *e)
{
	struct http1_body body;
	int status = head->status, rc = http1_answer_body(head, false, &body, e);
	json_t *o = NULL, *error;

	if (rc == 0 && body.kind != HTTP1_LENGTH)
		rc = err_set(e, ERR_PROTOCOL, "the daemon's answer has no length");
	while (rc == 0 && buf_len(in) < body.left)
		rc = api_receive(fd, in, e);
	if (rc)
		return rc;
	if (json_parse_values(buf_ptr(in), (size_t)body.left, ANSWER_MAX, ANSWER_VALUES, &o, NULL))
		return err_set(e, ERR_PROTOCOL, "the daemon's answer (status %d) is not JSON", status);
	error = json_object_get(o, "error");
	if (status >= 400 && json_is_object(error))
		rc = ctl_remote_error(c, error, e);
	else if (status >= 300 || status < 200)
		rc = err_set(e, ERR_PROTOCOL, "the daemon answered with status %d", status);
	if (rc)
		json_decref(o);
	else
		*out = o;
	return rc;
}

/* ---- what a request says */

static int put_escaped(struct buf *b, const char *s, const char *kept)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	int rc = 0;

	for (; *s && rc == 0; s++)
		rc = strchr(plain, *s) || strchr(kept, *s) ? buf_append(b, s, 1)
							   : buf_printf(b, "%%%02X", (unsigned)(unsigned char)*s);
	return rc;
}

/* Agents of others and tasks have slashes in their names. */
static bool has_slashes(const char *path, const char *star)
{
	static const char *const before[] = {"/agents/", "/tasks/"};

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		size_t n = strlen(before[i]);

		if ((size_t)(star - path) >= n && memcmp(star - n, before[i], n) == 0)
			return true;
	}
	return false;
}

/* The steps of a name. One that is empty, or dots alone, would make the path another one's on its way. */
static bool is_straight(const char *name)
{
	for (const char *p = name;; p++) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n <= 2 && strspn(p, ".") >= n))
			return false;
		p += n;
		if (!*p)
			return true;
	}
}

static int check_names(const struct api_call *call, struct err *e)
{
	const char *const *name = call->names;

	for (const char *p = call->path; (p = strchr(p, '*')); p++, name++)
		if (!is_straight(*name) || (strchr(*name, '/') && !has_slashes(call->path, p)))
			return err_set(
			    e, ERR_INVAL,
			    "\"%s\" names nothing: a name is not empty, holds no / (those of agents and tasks: no "
			    "empty step), and is neither . nor ..",
			    *name);
	return 0;
}

static int put_target(struct buf *b, const struct api_call *call)
{
	const char *const *name = call->names, *key;
	const char *sign = "?";
	json_t *value;
	int rc = 0;

	for (const char *p = call->path; *p && rc == 0; p++)
		rc = *p == '*' ? put_escaped(b, *name++, "/") : buf_append(b, p, 1);
	json_object_foreach(call->query, key, value)
	{
		if (rc == 0)
			rc = buf_printf(b, "%s%s=", sign, key);
		if (rc == 0)
			rc = put_escaped(b, json_string_value(value), "");
		sign = "&";
	}
	return rc;
}

static void call_free(const struct api_call *call)
{
	json_decref(call->query);
	json_decref(call->body);
}

/* ---- a question */

static int put_request(struct buf *b, const struct api_call *call, const char *token, const struct api_bytes *bytes)
{
	char *body = call->body ? json_dumps(call->body, JSON_COMPACT) : strdup("");
	int rc = body ? buf_printf(b, "%s ", call->method) : ERR_NOMEM;

	if (rc == 0)
		rc = put_target(b, call);
	if (rc == 0)
		rc = buf_printf(b,
				" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
				"Content-Type: application/json\r\nContent-Length: %zu\r\n",
				token, strlen(body));
	if (rc == 0 && bytes)
		rc = buf_append_str(b, "Accept: application/octet-stream\r\n");
	if (rc == 0 && bytes && bytes->range)
		rc = buf_printf(b, "Range: %s\r\n", bytes->range);
	if (rc == 0)
		rc = buf_append_str(b, "\r\n");
	if (rc == 0)
		rc = buf_append_str(b, body);
	grant_token_free(body); /* it may hold a token, too */
	return rc;
}

/* As they come; of what came with the head first. */
static int receive_bytes(int fd, struct buf *in, struct http1_body *body, const struct api_bytes *b, struct err *e)
{
	int rc = 0;

	while (rc == 0 && !body->done) {
		struct http1_text content;
		ssize_t took;

		if (!buf_len(in)) {
			struct err why = {0};

			if (api_receive(fd, in, &why))
				return err_set(e, ERR_UNAVAILABLE, "the answer was cut short: %s", why.message);
		}
		took = http1_body_next(body, buf_ptr(in), buf_len(in), &content);
		if (took < 0)
			return err_set(e, ERR_PROTOCOL, "the daemon's answer has broken chunks");
		rc = content.n ? b->take(b->arg, content.p, content.n, e) : 0;
		buf_consume(in, (size_t)took);
	}
	return rc;
}

static int receive_answer(struct ctl *c, int fd, struct buf *in, const struct api_bytes *b, json_t **out, struct err *e)
{
	struct http1_head head;
	struct http1_body body;
	int rc = receive_head(fd, in, &head, e);

	if (rc)
		return rc;
	if (!b || head.status < 200 || head.status >= 300)
		return receive_body(c, fd, in, &head, out, e);
	rc = http1_answer_body(&head, false, &body, e);
	if (rc == 0 && body.kind == HTTP1_TO_THE_END)
		rc = err_set(e, ERR_PROTOCOL, "the daemon's answer has no length");
	if (rc == 0 && b->head)
		b->head(b->arg, &head);
	return rc ? rc : receive_bytes(fd, in, &body, b, e);
}

/* *out or b: what the answer is. */
static int api_question(struct ctl *c, const struct ctl_wish *w, const struct api_call *call, const struct api_bytes *b,
			json_t **out, struct err *e)
{
	struct buf request, in;
	char *token = NULL;
	int fd = -1, rc = check_names(call, e);

	buf_init(&request, REQUEST_MAX);
	buf_init(&in, ANSWER_MAX);
	if (rc == 0)
		rc = ctl_token(c, w, &token, e);
	if (rc == 0 && (rc = put_request(&request, call, token, b)))
		err_set(e, rc, "the question is longer than %u MiB", REQUEST_MAX >> 20);
	if (rc == 0)
		rc = ctl_connect(c, "api.sock", SOCK_STREAM, &fd, e);
	if (rc == 0)
		rc = send_all(fd, &request, e);
	if (rc == 0)
		rc = receive_answer(c, fd, &in, b, out, e);
	if (fd >= 0)
		close(fd);
	grant_token_free(token);
	buf_finish_secret(&request);
	buf_finish_secret(&in);
	call_free(call);
	return rc;
}

int api_ask(struct ctl *c, const struct ctl_wish *w, const struct api_call *call, json_t **out, struct err *e)
{
	return api_question(c, w, call, NULL, out, e);
}

int api_read(struct ctl *c, const struct ctl_wish *w, const struct api_call *call, const struct api_bytes *b,
	     struct err *e)
{
	json_t *none = NULL;
	int rc = api_question(c, w, call, b, &none, e);

	json_decref(none);
	return rc;
}

/* ---- content */

static int api_put_head(struct buf *b, const struct api_call *call, const char *token, const char *type, long long size)
{
	int rc = buf_printf(b, "%s ", call->method);

	if (rc == 0)
		rc = put_target(b, call);
	if (rc == 0)
		rc = buf_printf(b, " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n", token);
	if (rc == 0 && type)
		rc = buf_printf(b, "Content-Type: %s\r\n", type);
	if (rc == 0)
		rc = size < 0 ? buf_append_str(b, "Transfer-Encoding: chunked\r\n\r\n")
			      : buf_printf(b, "Content-Length: %lld\r\n\r\n", size);
	return rc;
}

/* A daemon that has answered already reads no more of it. */
static bool has_answered(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && p.revents;
}

/* One piece of the source. 0: that was its end. */
static ssize_t take_piece(int from, uint8_t *piece, size_t max, struct err *e)
{
	ssize_t n;

	do
		n = read(from, piece, max);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_sys(e, errno, "read what is to be put") : n;
}

static int send_content(int fd, int from, long long size, struct err *e)
{
	uint8_t piece[PIECE];
	long long left = size;
	struct buf out;
	ssize_t n = 1;
	int rc = 0;

	buf_init(&out, PIECE + 32);
	while (rc == 0 && n > 0 && left && !has_answered(fd)) {
		size_t max = left >= 0 && left < PIECE ? (size_t)left : PIECE;

		n = take_piece(from, piece, max, e);
		if (n < 0)
			rc = (int)n;
		else if (n == 0 && left > 0)
			rc = err_set(e, ERR_EOF, "what is to be put became shorter meanwhile");
		else if (left >= 0)
			left -= n;
		if (rc == 0 && size < 0)
			rc = buf_printf(&out, "%zx\r\n", (size_t)n);
		if (rc == 0 && n)
			rc = buf_append(&out, piece, (size_t)n);
		if (rc == 0 && size < 0)
			rc = buf_append_str(&out, "\r\n");
		if (rc == 0)
			rc = send_all(fd, &out, e);
		buf_clear(&out);
	}
	buf_finish(&out);
	return rc;
}

/* -1: not known. */
static long long content_size(int fd)
{
	struct stat st;
	off_t at;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (at = lseek(fd, 0, SEEK_CUR)) < 0 || at > st.st_size)
		return -1;
	return st.st_size - at;
}

/* From a question to the head of its answer. *out_fd: the caller's, -1: there is none. */
static int api_begin(struct ctl *c, const struct ctl_wish *w, const struct api_call *call, const struct api_flow *flow,
		     struct buf *in, struct http1_head *head, int *out_fd, struct err *e)
{
	long long size = content_size(flow->in_fd);
	struct buf request;
	char *token = NULL;
	int rc = check_names(call, e);

	buf_init(&request, REQUEST_MAX);
	if (rc == 0)
		rc = ctl_token(c, w, &token, e);
	if (rc == 0 && (rc = api_put_head(&request, call, token, flow->type, size)))
		err_set(e, rc, "no memory for the question");
	if (rc == 0)
		rc = ctl_connect(c, "api.sock", SOCK_STREAM, out_fd, e);
	if (rc == 0)
		rc = send_all(*out_fd, &request, e);
	if (rc == 0 && flow->in_fd >= 0)
		rc = send_content(*out_fd, flow->in_fd, size, e);
	if (rc == 0)
		rc = receive_head(*out_fd, in, head, e);
	grant_token_free(token);
	buf_finish_secret(&request);
	call_free(call);
	return rc;
}

static int receive_stream(struct ctl *c, int fd, struct buf *in, const struct http1_head *head,
			  const struct api_flow *flow, json_t **out, struct err *e)
{
	struct http1_body body;
	json_t *o = NULL;
	int rc;

	if (!flow->take || head->status != 200)
		return receive_body(c, fd, in, head, flow->take ? &o : out, e);
	rc = http1_answer_body(head, false, &body, e);
	if (rc == 0 && body.kind == HTTP1_TO_THE_END)
		rc = err_set(e, ERR_PROTOCOL, "the daemon's answer has no length");
	if (rc == 0)
		rc = receive_bytes(fd, in, &body, &(struct api_bytes){.take = flow->take, .arg = flow->arg}, e);
	if (rc == ERR_UNAVAILABLE)
		return err_set(e, ERR_EOF, "the answer broke off; why stands in the audit log");
	return rc;
}

int api_stream(struct ctl *c, const struct ctl_wish *w, const struct api_call *call, const struct api_flow *flow,
	       json_t **out, struct err *e)
{
	struct http1_head head;
	struct buf in;
	int fd = -1, rc;

	buf_init(&in, ANSWER_MAX);
	rc = api_begin(c, w, call, flow, &in, &head, &fd, e);
	if (rc == 0)
		rc = receive_stream(c, fd, &in, &head, flow, out, e);
	if (fd >= 0)
		close(fd);
	buf_finish(&in);
	return rc;
}

/* ---- a socket */

static int put_frame(struct buf *out, enum wsframe_opcode op, const uint8_t *type, const void *p, size_t n)
{
	uint8_t head[WSFRAME_HEAD_MAX], mask[4], *to;
	size_t len = n + (type != NULL), hlen;

	if (random_bytes(mask, sizeof(mask)))
		return ERR_SYS;
	hlen = wsframe_head(op, len, mask, head);
	if (buf_reserve(out, hlen + len, &to))
		return ERR_TOO_LARGE;
	memcpy(to, head, hlen);
	if (type)
		wsframe_mask(type, to + hlen, 1, mask, 0);
	wsframe_mask(p, to + hlen + (type != NULL), n, mask, type != NULL);
	buf_commit(out, hlen + len);
	return 0;
}

static int read_upgrade(struct ctl *c, struct api_socket *s, const char *key, struct err *e)
{
	char accept[WSFRAME_ACCEPT_LEN + 1];
	const struct http1_field *f;
	struct http1_head head;
	json_t *o = NULL;
	int rc = receive_head(s->fd, &s->in, &head, e);

	if (rc)
		return rc;
	wsframe_accept(key, accept);
	f = http1_find(&head, "Sec-WebSocket-Accept", NULL);
	if (head.status == 101 && f && http1_is(f->value, accept))
		return 0;
	rc = receive_body(c, s->fd, &s->in, &head, &o, e);
	json_decref(o);
	return rc ? rc : err_set(e, ERR_PROTOCOL, "the daemon answered with status %d", head.status);
}

static int socket_upgrade(struct ctl *c, struct api_socket *s, const char *token, const struct api_call *call,
			  struct err *e)
{
	char key[WSFRAME_KEY_LEN + 1];
	int rc = wsframe_key(key) || buf_append_str(&s->out, "GET ") || put_target(&s->out, call) ||
		 buf_printf(&s->out,
			    " HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n"
			    "Sec-WebSocket-Protocol: " WIRE_SUBPROTOCOL "\r\nAuthorization: Bearer %s\r\n\r\n",
			    key, token);

	if (rc)
		return err_set(e, ERR_NOMEM, "no memory for a request");
	rc = send_all(s->fd, &s->out, e);
	return rc ? rc : read_upgrade(c, s, key, e);
}

int api_socket_open(struct ctl *c, const char *token, const struct api_call *call, struct api_socket *out,
		    struct err *e)
{
	struct api_socket s = {.fd = -1};
	int rc = check_names(call, e);

	buf_init(&s.in, MESSAGE_MAX);
	buf_init(&s.message, MESSAGE_MAX);
	buf_init(&s.out, API_OUT_MAX);
	if (rc == 0)
		rc = ctl_connect(c, "api.sock", SOCK_STREAM, &s.fd, e);
	if (rc == 0 && call->patience_s &&
	    setsockopt(s.fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = call->patience_s},
		       sizeof(struct timeval)))
		rc = err_sys(e, errno, "set a timeout");
	if (rc == 0)
		rc = socket_upgrade(c, &s, token, call, e);
	call_free(call);
	if (rc)
		api_socket_close(&s);
	else
		*out = s;
	return rc;
}

void api_socket_close(struct api_socket *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	buf_finish_secret(&s->out);
	buf_finish(&s->in);
	buf_finish(&s->message);
}

int api_socket_put(struct api_socket *s, enum web_type type, const void *p, size_t n)
{
	uint8_t t = (uint8_t)type;

	return put_frame(&s->out, WSFRAME_OP_BINARY, &t, p, n);
}

int api_socket_put_json(struct api_socket *s, enum web_type type, const json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	int rc = text ? api_socket_put(s, type, text, strlen(text)) : ERR_NOMEM;

	free(text);
	return rc;
}

void api_socket_leave(struct api_socket *s)
{
	static const uint8_t normal[] = {1000 >> 8, 1000 & 0xff};

	(void)put_frame(&s->out, WSFRAME_OP_CLOSE, NULL, normal, sizeof(normal));
}

int api_socket_write(struct api_socket *s)
{
	while (s->fd >= 0 && buf_len(&s->out)) {
		ssize_t n = send(s->fd, buf_ptr(&s->out), buf_len(&s->out), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : ERR_EOF;
		buf_consume(&s->out, (size_t)n);
	}
	return s->fd >= 0 ? 0 : ERR_EOF;
}

/* One event of a frame. 0, ERR_EOF: good-bye was said, ERR_NOMEM. */
static int take_event(struct api_socket *s, const struct wsframe_event *ev, api_message *told, void *arg)
{
	if (ev->kind == WSFRAME_CLOSE)
		return ERR_EOF;
	if (ev->kind == WSFRAME_PING)
		return put_frame(&s->out, WSFRAME_OP_PONG, NULL, ev->p, ev->n);
	if (ev->kind != WSFRAME_DATA)
		return 0;
	if (buf_len(&s->message) == 0 && ev->last) { /* whole: not kept */
		if (ev->n)
			told(arg, (enum web_type)ev->p[0], ev->p + 1, ev->n - 1);
		return 0;
	}
	if (buf_append(&s->message, ev->p, ev->n))
		return ERR_NOMEM;
	if (ev->last) {
		told(arg, (enum web_type)buf_ptr(&s->message)[0], buf_ptr(&s->message) + 1, buf_len(&s->message) - 1);
		buf_clear(&s->message);
	}
	return 0;
}

/* What came, into s->in. 1, 0: nothing is here now, ERR_EOF. */
static int fill(struct api_socket *s)
{
	uint8_t *p;
	ssize_t n;

	if (s->fd < 0 || buf_reserve(&s->in, PIECE, &p))
		return ERR_EOF;
	n = recv(s->fd, p, PIECE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return ERR_EOF;
	buf_commit(&s->in, (size_t)n);
	return 1;
}

int api_socket_read(struct api_socket *s, api_message *told, void *arg, struct err *e)
{
	int rc = buf_len(&s->in) ? 1 : fill(s);
	struct wsframe_event ev;

	while (rc == 1 && s->fd >= 0 && buf_len(&s->in)) {
		ssize_t took = wsframe_decode(&s->frame, s->in.data + s->in.off, buf_len(&s->in), &ev, e);

		if (took < 0)
			return (int)took;
		rc = take_event(s, &ev, told, arg);
		rc = rc ? rc : 1;
		if (s->fd >= 0) /* nobody closed it meanwhile */
			buf_consume(&s->in, (size_t)took);
	}
	return rc;
}

int api_socket_error(struct ctl *c, const uint8_t *p, size_t n, struct err *e)
{
	json_t *o = NULL;
	int rc;

	if (json_parse(p, n, MESSAGE_MAX, &o, NULL))
		return err_set(e, ERR_PROTOCOL, "the daemon's error is not JSON");
	rc = ctl_remote_error(c, o, e);
	json_decref(o);
	return rc;
}
