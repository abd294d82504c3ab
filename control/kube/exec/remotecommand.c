/* One exec stream: the window of what comes, what goes, its time, its end, and what its owner calls. */
#define LOG_SUBSYS "kube"
#include "control/kube/exec/remotecommand.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/client/status.h"
#include "control/kube/exec/rc_client.h"
#include "control/kube/exec/rc_frame.h"
#include "control/kube/exec/rc_target.h"
#include "control/kube/exec/rc_ws.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX    (8 * RC_READ) /* what reads bring that the window does not let out, with marks */
#define HELD_MARK   5             /* stream, length */
#define INPUT_PIECE (32 * 1024)   /* of stdin in one message */
#define KEEP_MEMORY (64 * 1024)   /* an empty buffer bigger than that is given back */

#define RC_LINGER_MS 2000 /* from the status to the close that follows it: what comes behind it is taken, too */

struct rc_stream {
	struct rc_client *client;
	LIST_ENTRY(rc_stream) entry;
	const struct rc_ops *ops;
	void *arg;
	enum rc_state state;
	bool closed; /* by its owner: nothing is told any more */
	bool listed; /* among its client's */
	struct rc_ws *ws;
	int version;
	bool in, tty, only_v4;
	char *what; /* "exec in ns/pod", for messages */

	/* from the server */
	struct rc_decoder decoder;
	struct buf held; /* {stream u8, length u32, bytes}* */
	uint64_t let_out, until;
	struct buf status;
	bool exit_known; /* by a status */
	bool over;       /* nothing more comes */
	struct rc_exit exit;

	/* to the server */
	struct buf input;
	bool eof_asked, eof_sent, resize_due, ping_due, nudge_due, starved;
	uint16_t cols, rows;

	/* time (clock_boot_ns) */
	uv_timer_t timer;
	uint64_t keepalive_ns, dead_ns;
	uint64_t heard_ns, tick_ns, linger_ns;
	uint64_t pings, pongs; /* number of the last one sent, of the last one answered */
	uint64_t input_at;     /* pings when input went out last */
	bool input_sent;
	bool paused; /* we do not read */
	struct rc_task task;
};

static void rc_stream_start_ticking(struct rc_stream *s);
/* RC_LOST, with an end of our own making; what was held is still let out. */
static void rc_stream_give_up(struct rc_stream *s, int error, const char *why);

static void rc_stream_finish_in(struct rc_stream *s)
{
	buf_finish(&s->held);
	buf_finish(&s->status);
}

/* --- to the server */

static void send_ping(struct rc_stream *s)
{
	uint8_t number[8];

	put_u64(number, ++s->pings);
	s->ping_due = false;
	rc_ws_send(s->ws, WSFRAME_OP_PING, -1, number, sizeof(number));
}

static void send_resize(struct rc_stream *s)
{
	uint8_t text[RC_RESIZE_MAX];
	size_t n = rc_encode_resize(s->cols, s->rows, text);

	s->resize_due = false;
	if (n)
		rc_ws_send(s->ws, WSFRAME_OP_BINARY, -1, text, n);
}

static void send_input(struct rc_stream *s)
{
	size_t n = buf_len(&s->input) < INPUT_PIECE ? buf_len(&s->input) : INPUT_PIECE;

	rc_ws_send(s->ws, WSFRAME_OP_BINARY, RC_CH_STDIN, buf_ptr(&s->input), n);
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
static void rc_stream_writable(void *arg)
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
		rc_ws_send(s->ws, WSFRAME_OP_BINARY, -1, end, sizeof(end));
	} else if (s->nudge_due) {
		s->nudge_due = false;
		rc_ws_send(s->ws, WSFRAME_OP_BINARY, -1, NULL, 0);
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

static void remotecommand_on_tick(uv_timer_t *t)
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

static void rc_stream_start_ticking(struct rc_stream *s)
{
	uint64_t ms = s->keepalive_ns / NS_PER_MS;

	if (s->exit_known && ms > RC_LINGER_MS)
		ms = RC_LINGER_MS;
	(void)uv_timer_start(&s->timer, remotecommand_on_tick, ms, ms);
}

const char *rc_state_name(enum rc_state s)
{
	static const char *const names[] = {"connecting", "open", "draining", "ended"};

	return (size_t)s < sizeof(names) / sizeof(names[0]) ? names[s] : "?";
}

static void remotecommand_set_state(struct rc_stream *s, enum rc_state to)
{
	if (s->state == to)
		return;
	log_debug(NULL, "%s: %s to %s", s->what, rc_state_name(s->state), rc_state_name(to));
	s->state = to;
}

/* --- the window */

static void pause_or_read(struct rc_stream *s)
{
	bool pause = s->let_out >= s->until || buf_len(&s->held) > 0;

	if (s->state != RC_OPEN || pause == s->paused)
		return;
	s->paused = pause;
	if (!pause)
		s->heard_ns = clock_boot_ns(); /* while we did not listen nothing could be heard */
	rc_ws_read(s->ws, !pause);
}

static void let_out(struct rc_stream *s, int stream, const uint8_t *p, size_t n)
{
	s->let_out += n;
	if (!s->closed && s->ops->data)
		s->ops->data(s->arg, stream, p, n);
}

/* An end of our own making: out of memory, or a server that breaks the protocol. */
static void rc_stream_give_up(struct rc_stream *s, int error, const char *why)
{
	if (s->over)
		return;
	if (!s->exit_known) {
		s->exit = (struct rc_exit){.cause = RC_LOST, .code = -1};
		err_set(&s->exit.err, error, "%s: %s", s->what, why);
	}
	s->over = true;
	rc_task_queue(s->client, &s->task);
}

static void remotecommand_hold(struct rc_stream *s, int stream, const uint8_t *p, size_t n)
{
	uint8_t mark[HELD_MARK] = {(uint8_t)stream};

	put_u32(mark + 1, (uint32_t)n);
	if (buf_append(&s->held, mark, sizeof(mark)) || buf_append(&s->held, p, n))
		rc_stream_give_up(s, ERR_NOMEM, "there is no room for what the server sends");
}

static void output(struct rc_stream *s, int stream, const uint8_t *p, size_t n)
{
	uint64_t room = s->until > s->let_out ? s->until - s->let_out : 0;
	size_t now = buf_len(&s->held) ? 0 : n < room ? n : (size_t)room;

	if (now)
		let_out(s, stream, p, now);
	if (now < n && !s->closed && !s->over)
		remotecommand_hold(s, stream, p + now, n - now);
	if (!s->closed)
		pause_or_read(s);
}

/* Lets out as much as the window takes. The first record may be cut: its mark is written anew in front of the rest. */
static void let_out_held(struct rc_stream *s)
{
	while (!s->closed && buf_len(&s->held) > 0 && s->until > s->let_out) {
		uint8_t *mark = s->held.data + s->held.off;
		int stream = mark[0];
		uint64_t room = s->until - s->let_out;
		size_t n = get_u32(mark + 1), now = n < room ? n : (size_t)room;

		let_out(s, stream, mark + HELD_MARK, now);
		if (now < n) {
			buf_consume(&s->held, now);
			mark = s->held.data + s->held.off;
			mark[0] = (uint8_t)stream;
			put_u32(mark + 1, (uint32_t)(n - now));
		} else {
			buf_consume(&s->held, HELD_MARK + n);
		}
	}
	if (!buf_len(&s->held))
		buf_finish(&s->held);
}

/* --- from the server */

static void remotecommand_on_open(void *arg, const char *protocol)
{
	struct rc_stream *s = arg;

	s->version = rc_protocol_version(protocol);
	s->heard_ns = s->tick_ns = clock_boot_ns();
	s->paused = false;
	remotecommand_set_state(s, RC_OPEN);
	if (s->version == 4)
		s->eof_asked = false;
	rc_stream_start_ticking(s);
	if (s->resize_due || buf_len(&s->input) || s->eof_asked)
		rc_ws_want_write(s->ws);
	if (s->ops->opened)
		s->ops->opened(s->arg, s->version);
	if (!s->closed)
		pause_or_read(s);
}

static void status(struct rc_stream *s, const struct rc_piece *p)
{
	struct err e = {0};

	if (s->exit_known)
		return;
	if (p->n && buf_append(&s->status, p->p, p->n)) {
		rc_stream_give_up(s, ERR_PROTOCOL, "the server's status has no end");
		return;
	}
	/* one message is one Status; should a server cut it into several, the last completes it */
	if (!p->end ||
	    rc_status_parse(buf_ptr(&s->status), buf_len(&s->status), s->let_out || buf_len(&s->held), &s->exit, &e))
		return;
	s->exit_known = true;
	s->linger_ns = clock_boot_ns() + RC_LINGER_MS * NS_PER_MS;
	rc_stream_start_ticking(s);
}

static void remotecommand_on_message(void *arg, const uint8_t *p, size_t n, bool last)
{
	struct rc_stream *s = arg;
	struct rc_piece piece;

	s->heard_ns = clock_boot_ns();
	if (s->over || !rc_decode(&s->decoder, p, n, last, &piece))
		return;
	if (piece.channel == RC_CH_STATUS)
		status(s, &piece);
	else if (piece.n && (piece.channel == RC_CH_STDOUT || piece.channel == RC_CH_STDERR))
		output(s, piece.channel, piece.p, piece.n);
}

static void remotecommand_on_pong(void *arg, const uint8_t *p, size_t n)
{
	struct rc_stream *s = arg;

	s->heard_ns = clock_boot_ns();
	if (n == 8 && get_u64(p) <= s->pings && get_u64(p) > s->pongs)
		s->pongs = get_u64(p);
}

/* --- how it ended */

static void remotecommand_refused(struct rc_stream *s, const struct rc_ws_end *end)
{
	struct rc_exit *x = &s->exit;
	json_t *o = NULL;
	bool words = json_parse(end->body, end->body_len, KUBE_STATUS_BODY_MAX, &o, NULL) == 0 && kube_status_is(o);
	char what[sizeof(s->what) + 64];
	enum rc_cause cause = RC_UNKNOWN;

	text_format(what, sizeof(what), "%s%s", s->what,
		    end->status == 403 ? " (needs the right to get and to create pods/exec)" : "");
	(void)kube_status_error(end->status, end->body, end->body_len, what, &x->err);
	if (end->status >= 500)
		cause = rc_status_words(x->err.message, &x->err.code);
	x->http_status = end->status;
	/* a gateway that had no answer in time does not say that there was nothing to answer; a kubelet may, without
	 * Status */
	x->cause = end->status >= 500 && !words ? cause : RC_NOT_STARTED;
	if (words)
		text_put(x->reason, sizeof(x->reason), kube_status_reason(o));
	json_decref(o);
}

static void closed_without_status(struct rc_stream *s, const struct rc_ws_end *end)
{
	struct err e = {0};

	s->exit.cause = RC_UNKNOWN;
	if (buf_len(&s->status) && rc_status_parse(buf_ptr(&s->status), buf_len(&s->status), true, &s->exit, &e))
		err_set(&s->exit.err, ERR_PROTOCOL, "%s: the server's status: %s", s->what, e.message);
	else
		err_set(&s->exit.err, ERR_EOF, "%s: closed (%d%s%s) without a status", s->what, end->close_code,
			*end->close_reason ? " " : "", end->close_reason);
}

static void remotecommand_on_end(void *arg, const struct rc_ws_end *end)
{
	struct rc_stream *s = arg;
	bool known = s->exit_known || s->over;

	s->over = true;
	rc_task_queue(s->client, &s->task);
	if (known)
		return;
	s->exit = (struct rc_exit){.code = -1};
	switch (end->how) {
	case RC_WS_END_REFUSED:
		remotecommand_refused(s, end);
		return;
	case RC_WS_END_CLOSED:
		closed_without_status(s, end);
		return;
	case RC_WS_END_FAILED:
		s->exit.cause = end->asked ? RC_UNKNOWN : RC_NOT_STARTED;
		break;
	case RC_WS_END_LOST:
		s->exit.cause = RC_LOST;
		break;
	}
	err_set(&s->exit.err, end->err.code, "%s: %s", s->what, end->err.message);
}

static void rc_stream_tell_exit(struct rc_stream *s)
{
	remotecommand_set_state(s, RC_ENDED);
	rc_ws_close(s->ws);
	s->ws = NULL;
	(void)uv_timer_stop(&s->timer);
	rc_stream_finish_in(s);
	buf_finish(&s->input);
	if (s->ops->exited)
		s->ops->exited(s->arg, &s->exit);
}

static void rc_stream_turn(void *arg)
{
	struct rc_stream *s = arg;

	let_out_held(s);
	if (s->closed || s->state == RC_ENDED)
		return;
	if (!s->over)
		pause_or_read(s);
	else if (!buf_len(&s->held))
		rc_stream_tell_exit(s);
	else
		remotecommand_set_state(s, RC_DRAINING);
}

static const struct rc_ws_ops rc_stream_ws_ops = {.open = remotecommand_on_open,
						  .message = remotecommand_on_message,
						  .pong = remotecommand_on_pong,
						  .writable = rc_stream_writable,
						  .end = remotecommand_on_end};

static void rc_stream_init_in(struct rc_stream *s)
{
	buf_init(&s->held, HELD_MAX);
	buf_init(&s->status, RC_STATUS_MAX);
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

static void remotecommand_on_timer_closed(uv_handle_t *h)
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

static int remotecommand_describe(struct rc_stream *s, const struct rc_params *p)
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
	if (rc == 0 && (!buf_cstr(&target) || !(s = new_stream(c, p, ops, arg)) || remotecommand_describe(s, p)))
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

static void rc_stream_cancel(struct rc_stream *s)
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
	uv_close((uv_handle_t *)&s->timer, remotecommand_on_timer_closed);
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

void rc_client_destroy(struct rc_client *c)
{
	if (!c || c->closing)
		return;
	while (!LIST_EMPTY(&c->streams))
		rc_stream_cancel(LIST_FIRST(&c->streams));
	rc_client_close(c);
}
