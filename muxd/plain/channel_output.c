/* Output of a channel: the script's line, then the program's bytes, as far as the hub's window and the peer let them.
 */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/plain/peer.h"

#include <string.h>

void channel_begun(struct plain_channel *c)
{
	if (c->state == CHANNEL_RUNNING || c->told)
		return;
	channel_set_state(c, CHANNEL_RUNNING);
	if (!c->forgotten)
		wire_put(c->peer, &(struct frame){.type = FRAME_OPENED,
						  .channel = c->number,
						  .u.opened = {CODE_OK, (uint32_t)c->leader.pid}});
	if ((c->open.flags & OPEN_PTY) &&
	    !c->forgotten) /* how its terminal stands cannot be seen: all input is masked */
		wire_put(c->peer,
			 &(struct frame){.type = FRAME_ECHO, .channel = c->number, .u.number = ECHO_CANONICAL});
	if (c->exec && (c->open.flags & OPEN_PTY) && c->open.cols && c->open.rows)
		plain_exec_resize(c->exec, c->open.cols, c->open.rows); /* what came meanwhile */
	c->deadline_ns = c->open.timeout_ms && !c->over ? clock_boot_ns() + c->open.timeout_ms * NS_PER_MS : 0;
	peer_timer(c->peer);
	if (c->ending == ENDING_ASKED)
		channel_end_step(c);
}

/* Bytes that went; who was forgotten is not listened to. */
static size_t channel_output_put_data(struct plain_channel *c, int stream, const uint8_t *p, size_t n)
{
	size_t done = 0;

	if (c->forgotten || c->told)
		return n;
	if (c->state != CHANNEL_RUNNING)
		return 0;
	while (done < n && c->sent[stream] < c->window[stream] && buf_len(&c->peer->out) < PLAIN_OUT_HIGH) {
		uint64_t credit = c->window[stream] - c->sent[stream];
		struct frame f = {.type = FRAME_DATA, .channel = c->number, .stream = (uint8_t)stream};

		f.offset = c->sent[stream];
		f.p = p + done;
		f.n = n - done < FRAME_DATA_MAX ? n - done : FRAME_DATA_MAX;
		f.n = credit < f.n ? (size_t)credit : f.n;
		wire_put(c->peer, &f);
		c->sent[stream] += f.n;
		done += f.n;
	}
	return done;
}

/* The exec may send as much as there is room to hold: what of it goes on at once makes room for more. */
static void grant(struct plain_channel *c)
{
	size_t held = buf_len(&c->held[1]) + buf_len(&c->held[2]);

	if (c->exec && held < PLAIN_HELD)
		plain_exec_window(c->exec, c->got + PLAIN_HELD - held);
}

void channel_pump(struct plain_channel *c)
{
	for (int i = 1; i < 3; i++) {
		struct buf *b = &c->held[i];

		if (!buf_len(b) || (c->scripted && !c->answered && !c->over))
			continue;
		buf_consume(b, channel_output_put_data(c, i, buf_ptr(b), buf_len(b)));
		if (!buf_len(b)) {
			buf_finish(b);
			buf_init(b, (size_t)2 * PLAIN_HELD);
		}
	}
	grant(c);
}

/* Bytes that nobody can take end the exec: better an end that is told than a hole. */
static void channel_output_give_up(struct plain_channel *c, const char *why)
{
	c->over = true;
	c->end = (struct rc_exit){.cause = RC_UNKNOWN, .code = -1};
	err_set(&c->end.err, ERR_SANDBOX_CREATE, "left_running: %s", why);
	channel_release(c);
	channel_drop_input(c);
}

static void channel_output_read_answer(struct plain_channel *c)
{
	size_t used = 0;

	switch (answer_start(buf_ptr(&c->held[1]), buf_len(&c->held[1]), &c->leader, &used)) {
	case ANSWER_MORE:
		break;
	case ANSWER_STARTED:
		buf_consume(&c->held[1], used);
		c->answered = true;
		channel_begun(c);
		channel_feed(c);
		break;
	case ANSWER_REFUSED:
		channel_refuse(c, c->leader.at, c->leader.error, strerror(c->leader.error));
		break;
	case ANSWER_NONE:
		buf_clear(&c->held[1]);
		buf_clear(&c->held[2]);
		channel_output_give_up(c, "the shell in the container did not answer as asked");
		break;
	}
}

void channel_data(void *arg, int stream, const uint8_t *p, size_t n)
{
	struct plain_channel *c = arg;
	struct buf *b;
	size_t done = 0;

	if (stream < 1 || stream > 2)
		return;
	b = &c->held[stream];
	c->got += n;
	if (!c->scripted)
		channel_begun(c);
	if (!buf_len(b) && (c->answered || !c->scripted))
		done = channel_output_put_data(c, stream, p, n);
	if (done < n && buf_append(b, p + done, n - done))
		channel_output_give_up(c, "its output could not be held");
	else if (c->scripted && !c->answered && stream == 1)
		channel_output_read_answer(c);
	if (c->exec)
		grant(c);
	peer_kick(c->peer);
}
