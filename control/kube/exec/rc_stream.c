#define LOG_SUBSYS "kube"
#include "control/kube/exec/rc_stream.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "control/kube/client/status.h"

#include <stdio.h>
#include <string.h>

#define HELD_MAX  (8 * RC_READ) /* what reads bring that the window does not let out, with marks */
#define HELD_MARK 5             /* stream, length */

const char *rc_state_name(enum rc_state s)
{
	static const char *const names[] = {"connecting", "open", "draining", "ended"};

	return (size_t)s < sizeof(names) / sizeof(names[0]) ? names[s] : "?";
}

static void set_state(struct rc_stream *s, enum rc_state to)
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
void rc_stream_give_up(struct rc_stream *s, int error, const char *why)
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

static void hold(struct rc_stream *s, int stream, const uint8_t *p, size_t n)
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
		hold(s, stream, p + now, n - now);
	if (!s->closed)
		pause_or_read(s);
}

/* What the window lets out now. The first record may be cut: its mark is written anew in front of the rest. */
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

static void on_open(void *arg, const char *protocol)
{
	struct rc_stream *s = arg;

	s->version = rc_protocol_version(protocol);
	s->heard_ns = s->tick_ns = clock_boot_ns();
	s->paused = false;
	set_state(s, RC_OPEN);
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

static void on_message(void *arg, const uint8_t *p, size_t n, bool last)
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

static void on_pong(void *arg, const uint8_t *p, size_t n)
{
	struct rc_stream *s = arg;

	s->heard_ns = clock_boot_ns();
	if (n == 8 && get_u64(p) <= s->pings && get_u64(p) > s->pongs)
		s->pongs = get_u64(p);
}

/* --- how it ended */

static void refused(struct rc_stream *s, const struct rc_ws_end *end)
{
	struct rc_exit *x = &s->exit;
	json_t *o = NULL;
	bool words = json_parse(end->body, end->body_len, KUBE_STATUS_BODY_MAX, &o, NULL) == 0 && kube_status_is(o);
	char what[sizeof(s->what) + 64];
	int not_begun;

	text_format(what, sizeof(what), "%s%s", s->what,
		    end->status == 403 ? " (needs the right to get and to create pods/exec)" : "");
	(void)kube_status_error(end->status, end->body, end->body_len, what, &x->err);
	not_begun = end->status >= 500 ? rc_status_not_begun(x->err.message) : 0;
	x->http_status = end->status;
	/* a gateway that had no answer in time does not say that there was nothing to answer; a kubelet may, without
	 * Status */
	x->cause = end->status >= 500 && !words && !not_begun ? RC_UNKNOWN : RC_NOT_STARTED;
	x->err.code = not_begun ? not_begun : x->err.code;
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

static void on_end(void *arg, const struct rc_ws_end *end)
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
		refused(s, end);
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

void rc_stream_tell_exit(struct rc_stream *s)
{
	set_state(s, RC_ENDED);
	rc_ws_close(s->ws);
	s->ws = NULL;
	(void)uv_timer_stop(&s->timer);
	rc_stream_finish_in(s);
	buf_finish(&s->input);
	if (s->ops->exited)
		s->ops->exited(s->arg, &s->exit);
}

void rc_stream_turn(void *arg)
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
		set_state(s, RC_DRAINING);
}

const struct rc_ws_ops rc_stream_ws_ops = {
    .open = on_open, .message = on_message, .pong = on_pong, .writable = rc_stream_writable, .end = on_end};

void rc_stream_init_in(struct rc_stream *s)
{
	buf_init(&s->held, HELD_MAX);
	buf_init(&s->status, RC_STATUS_MAX);
}

void rc_stream_finish_in(struct rc_stream *s)
{
	buf_finish(&s->held);
	buf_finish(&s->status);
}
