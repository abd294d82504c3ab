#define LOG_SUBSYS "kube"
#include "control/kube/exec/remotecommand.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/exec/rc_stream.h"
#include "control/kube/exec/rc_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_PIECE (32 * 1024) /* of stdin in one message */
#define KEEP_MEMORY (64 * 1024) /* an empty buffer bigger than that is given back */

/* --- to the server */

static void send_ping(struct rc_stream *s)
{
	uint8_t number[8];

	put_u64(number, ++s->pings);
	s->ping_due = false;
	rc_ws_send(s->ws, RC_OP_PING, -1, number, sizeof(number));
}

static void send_resize(struct rc_stream *s)
{
	uint8_t text[RC_RESIZE_MAX];
	size_t n = rc_encode_resize(s->cols, s->rows, text);

	s->resize_due = false;
	if (n)
		rc_ws_send(s->ws, RC_OP_BINARY, -1, text, n);
}

static void send_input(struct rc_stream *s)
{
	size_t n = buf_len(&s->input) < INPUT_PIECE ? buf_len(&s->input) : INPUT_PIECE;

	rc_ws_send(s->ws, RC_OP_BINARY, RC_CH_STDIN, buf_ptr(&s->input), n);
	buf_consume(&s->input, n);
	s->input_sent = true;
	s->input_at = s->pings;
	if (!buf_len(&s->input) && s->input.cap > KEEP_MEMORY)
		buf_finish(&s->input);
	if (s->starved && buf_room(&s->input) >= RC_INPUT_MAX / 2) {
		s->starved = false;
		if (s->ops->writable)
			s->ops->writable(s->arg, buf_room(&s->input));
	}
}

static bool eof_due(const struct rc_stream *s)
{
	return s->eof_asked && !s->eof_sent && s->version == 5 && !buf_len(&s->input);
}

/* One message a call: what keeps the connection comes first, so that bulk cannot hold it up. */
void rc_stream_writable(void *arg)
{
	struct rc_stream *s = arg;
	uint8_t end[RC_CLOSE_LEN];

	if (s->ping_due) {
		send_ping(s);
	} else if (s->resize_due) {
		send_resize(s);
	} else if (buf_len(&s->input)) {
		send_input(s);
	} else if (eof_due(s)) {
		s->eof_sent = true;
		rc_encode_close(RC_CH_STDIN, end);
		rc_ws_send(s->ws, RC_OP_BINARY, -1, end, sizeof(end));
	} else if (s->nudge_due) {
		s->nudge_due = false;
		rc_ws_send(s->ws, RC_OP_BINARY, -1, NULL, 0);
	}
	if (!s->closed && (s->ping_due || s->resize_due || s->nudge_due || buf_len(&s->input) || eof_due(s)))
		rc_ws_want_write(s->ws);
}

/* --- time */

/* Nobody home. Not while we do not listen; and pongs wait behind input that the program does not read. */
static bool dead(const struct rc_stream *s, uint64_t now)
{
	bool stalled = buf_len(&s->input) || (s->input_sent && s->pongs <= s->input_at);

	if (s->paused || now - s->heard_ns <= s->dead_ns)
		return false;
	return !stalled || rc_ws_silent_ms(s->ws) * NS_PER_MS > s->dead_ns;
}

static void on_tick(uv_timer_t *t)
{
	struct rc_stream *s = t->data;
	uint64_t now = clock_boot_ns();
	char why[64];

	if (s->over || s->state != RC_OPEN)
		return;
	/* we stood still ourselves: what came meanwhile lies in the socket */
	if (now - s->tick_ns > 2 * s->keepalive_ns)
		s->heard_ns = now;
	s->tick_ns = now;
	if (s->exit_known && !s->paused && now >= s->linger_ns) {
		s->over = true;
		rc_task_queue(s->client, &s->task);
	} else if (dead(s, now)) {
		snprintf(why, sizeof(why), "nothing was heard for %llu s",
			 (unsigned long long)((now - s->heard_ns) / NS_PER_SEC));
		rc_stream_give_up(s, ERR_TIMEOUT, why);
	} else {
		s->ping_due = s->nudge_due = true;
		rc_ws_want_write(s->ws);
	}
}

void rc_stream_start_ticking(struct rc_stream *s)
{
	uint64_t ms = s->keepalive_ns / NS_PER_MS;

	if (s->exit_known && ms > RC_LINGER_MS)
		ms = RC_LINGER_MS;
	(void)uv_timer_start(&s->timer, on_tick, ms, ms);
}

/* --- what owners call */

static void free_stream(struct rc_stream *s)
{
	rc_stream_finish_in(s);
	buf_finish(&s->input);
	free(s->what);
	rc_client_unref(s->client);
	free(s);
}

static void on_timer_closed(uv_handle_t *h)
{
	free_stream(h->data);
}

static struct rc_stream *new_stream(struct rc_client *c, const struct rc_params *p, const struct rc_ops *ops, void *arg)
{
	struct rc_stream *s = calloc(1, sizeof(*s));
	uint64_t keep = p->keepalive_ms ? p->keepalive_ms : RC_KEEPALIVE_MS;

	if (!s)
		return NULL;
	*s = (struct rc_stream){.client = c, .ops = ops, .arg = arg, .in = p->in, .tty = p->tty, .until = p->window};
	s->only_v4 = p->only_v4;
	s->cols = p->cols;
	s->rows = p->rows;
	s->resize_due = p->tty && p->cols && p->rows;
	s->keepalive_ns = keep * NS_PER_MS;
	s->dead_ns = (p->dead_ms ? p->dead_ms : 3 * keep) * NS_PER_MS;
	s->task = (struct rc_task){.run = rc_stream_turn, .arg = s};
	rc_stream_init_in(s);
	buf_init(&s->input, RC_INPUT_MAX);
	rc_client_ref(c);
	return s;
}

static int describe(struct rc_stream *s, const struct rc_params *p)
{
	struct buf b;
	int rc;

	buf_init(&b, 1024);
	rc = buf_printf(&b, "exec in %s/%s%s%s", p->ns, p->pod, p->container ? "/" : "",
			p->container ? p->container : "");
	if (rc == 0 && buf_cstr(&b))
		s->what = strdup(buf_cstr(&b));
	buf_finish(&b);
	return s->what ? 0 : ERR_NOMEM;
}

int rc_open(struct rc_client *c, const struct kube_endpoint *ep, const struct rc_params *p, const struct rc_ops *ops,
	    void *arg, struct rc_stream **out, struct err *e)
{
	const char *offer = p->only_v4 ? RC_PROTOCOL_V4 : RC_PROTOCOL_V5 ", " RC_PROTOCOL_V4;
	uint32_t connect_ms = p->connect_ms ? p->connect_ms : RC_CONNECT_MS;
	struct rc_stream *s = NULL;
	struct buf target;
	int rc;

	buf_init(&target, RC_TARGET_MAX);
	rc = rc_target(ep->base_path, p, &target, e);
	if (rc == 0 && (!buf_cstr(&target) || !(s = new_stream(c, p, ops, arg)) || describe(s, p)))
		rc = err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0)
		rc = rc_ws_open(c, ep, buf_cstr(&target), offer, connect_ms, &rc_stream_ws_ops, s, &s->ws, e);
	buf_finish(&target);
	if (rc) {
		if (s)
			free_stream(s);
		return rc;
	}
	(void)uv_timer_init(c->loop, &s->timer); /* cannot fail */
	s->timer.data = s;
	LIST_INSERT_HEAD(&c->streams, s, entry);
	s->listed = true;
	c->n_streams++;
	*out = s;
	return 0;
}

static void leave_client(struct rc_stream *s)
{
	if (!s->listed)
		return;
	s->listed = false;
	LIST_REMOVE(s, entry);
	s->client->n_streams--;
}

void rc_stream_cancel(struct rc_stream *s)
{
	leave_client(s);
	rc_task_cancel(s->client, &s->task);
	if (s->state == RC_ENDED)
		return;
	if (!s->exit_known) {
		s->exit = (struct rc_exit){.cause = s->state == RC_CONNECTING ? RC_NOT_STARTED : RC_LOST, .code = -1};
		err_set(&s->exit.err, ERR_CANCELLED, "%s: the client is going away", s->what);
	}
	rc_stream_tell_exit(s);
}

void rc_close(struct rc_stream *s)
{
	if (!s || s->closed)
		return;
	s->closed = true;
	leave_client(s);
	rc_task_cancel(s->client, &s->task);
	rc_ws_close(s->ws);
	s->ws = NULL;
	(void)uv_timer_stop(&s->timer);
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

enum rc_state rc_state(const struct rc_stream *s)
{
	return s->state;
}

int rc_version(const struct rc_stream *s)
{
	return s->version;
}

void rc_window(struct rc_stream *s, uint64_t until)
{
	if (until <= s->until || s->closed)
		return;
	s->until = until;
	if (s->state != RC_ENDED)
		rc_task_queue(s->client, &s->task);
}

/* Something waits to be said. Before it is open, opening asks for it. */
static void ask_to_write(struct rc_stream *s)
{
	if (s->state == RC_OPEN && s->ws)
		rc_ws_want_write(s->ws);
}

ssize_t rc_input(struct rc_stream *s, const void *p, size_t n)
{
	size_t room = buf_room(&s->input), take = n < room ? n : room;

	if (s->over || s->closed || s->state == RC_ENDED)
		return ERR_ENDED;
	if (!s->in || s->eof_asked)
		return ERR_BAD_STATE;
	if (take && buf_append(&s->input, p, take))
		return ERR_NOMEM;
	s->starved = s->starved || take < n;
	if (take)
		ask_to_write(s);
	return (ssize_t)take;
}

size_t rc_input_room(const struct rc_stream *s)
{
	return buf_room(&s->input);
}

size_t rc_input_queued(const struct rc_stream *s)
{
	return buf_len(&s->input);
}

int rc_input_eof(struct rc_stream *s)
{
	if (s->over || s->closed || s->state == RC_ENDED)
		return ERR_ENDED;
	if (!s->in)
		return ERR_BAD_STATE;
	if (s->version == 4 || s->only_v4)
		return ERR_UNSUPPORTED;
	s->eof_asked = true;
	ask_to_write(s);
	return 0;
}

int rc_resize(struct rc_stream *s, uint16_t cols, uint16_t rows)
{
	if (s->over || s->closed || s->state == RC_ENDED)
		return ERR_ENDED;
	if (!s->tty || !cols || !rows)
		return ERR_INVAL;
	s->cols = cols;
	s->rows = rows;
	s->resize_due = true;
	ask_to_write(s);
	return 0;
}
