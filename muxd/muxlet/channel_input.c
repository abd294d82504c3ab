/* Input on its way to a program, and what the terminal does with it. */
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ECHO_SOON_NS   (2 * MS_NS)
#define ECHO_TICK_NS   (100 * MS_NS)
#define ECHO_TYPING_NS (2000 * MS_NS)
#define REPORT_STEP    (INPUT_WINDOW / 4)

static int input_fd(const struct channel *c)
{
	return c->pty ? c->out[0].src.fd : c->in.fd;
}

/* Consumed bytes may be reported late, but not so late that the hub stands still. */
static void consumed(struct channel *c, size_t n, bool accepted)
{
	c->consumed += n;
	if (accepted)
		c->accepted += n;
	muxlet_lazy(c, c->consumed - c->reported >= REPORT_STEP ? 0 : STREAM_CONSUMED_MS);
}

/* Bytes that a thread was at are no part of the queue any more: whatever became of them, the next may go. */
static void input_forgotten(struct pipe_job *j)
{
	struct channel *c = j->arg;

	c->in_job = NULL;
	channel_input_flush(c);
}

static void queue_free(struct channel *c)
{
	if (c->in_job)
		c->in_job->done = input_forgotten;
	free(c->queue);
	c->queue = NULL;
	c->queue_at = c->queue_len = 0;
}

/* Its stdin is gone: whatever is still to come is thrown away, and the hub must not wait for it. */
static void swallow(struct channel *c)
{
	consumed(c, (size_t)(c->received - c->consumed), false);
	queue_free(c);
}

void channel_input_let_go(struct channel *c)
{
	int fd = c->in.fd;

	if (fd < 0)
		return;
	source_remove(&c->m->loop, &c->in);
	c->in.fd = -1;
	pipes_close(&c->m->pipes, channel_lane(c), c, c->in_job, fd);
	c->in_job = NULL;
}

void channel_input_close(struct channel *c)
{
	if (!c->pty)
		channel_input_let_go(c);
	c->in_closed = true;
	c->eof_pending = false;
	swallow(c);
}

static void watch_input(struct channel *c)
{
	if (c->pty)
		output_update(&c->out[0]);
	else if (c->in.fd >= 0 &&
		 source_watch(&c->m->loop, &c->in, c->queue_len && !c->frozen && !c->in_job ? EPOLLOUT : 0))
		channel_input_close(c);
}

static bool by_threads(const struct channel *c)
{
	return !c->pty && c->m->pipes.threads;
}

/* Bytes written, 0 when it would block, -1 when nobody will ever read. */
static ssize_t write_some(struct channel *c, const uint8_t *p, size_t n)
{
	ssize_t done;

	do
		done = write(input_fd(c), p, n);
	while (done < 0 && errno == EINTR);
	if (done > 0)
		c->last_byte = p[done - 1];
	if (done < 0)
		return errno == EAGAIN ? 0 : -1;
	return done;
}

/* A line that was begun is sent by the first, ended by the second. False: the terminal takes nothing now. */
static bool type_eof(struct channel *c)
{
	int ch = terminal_eof_char(input_fd(c));
	uint8_t text[2] = {(uint8_t)ch, (uint8_t)ch};
	bool begun = c->last_byte != 0 && c->last_byte != '\n' && c->last_byte != '\r';

	if (ch >= 0 && write(input_fd(c), text, begun ? 2 : 1) < 0 && errno == EAGAIN)
		return false;
	c->last_byte = 0;
	return true;
}

static void settle_eof(struct channel *c)
{
	if (!c->eof_pending || c->queue_len)
		return;
	if (!c->pty)
		channel_input_close(c);
	else if (type_eof(c))
		c->eof_pending = false;
}

/* How many bytes of the queue lie together, from its first. */
static size_t queue_piece(const struct channel *c)
{
	return INPUT_WINDOW - c->queue_at < c->queue_len ? INPUT_WINDOW - c->queue_at : c->queue_len;
}

static void queue_taken(struct channel *c, size_t n)
{
	c->queue_at = (c->queue_at + n) % INPUT_WINDOW;
	c->queue_len -= n;
	consumed(c, n, true);
}

static void input_written(struct pipe_job *j)
{
	struct channel *c = j->arg;

	c->in_job = NULL;
	if (j->n > 0)
		queue_taken(c, (size_t)j->n);
	if (c->state >= CHANNEL_DRAINING || (j->n < 0 && j->error != EAGAIN))
		channel_input_close(c);
	else if (j->n < 0)
		watch_input(c);
	else
		channel_input_flush(c);
	if (channel_is_drained(c))
		channel_finish(c);
}

static void ask_threads(struct channel *c)
{
	if (c->in_job)
		return;
	c->in_job = pipes_write(&c->m->pipes, channel_lane(c), c->in.fd, c->queue + c->queue_at, queue_piece(c),
				input_written, c);
	if (!c->in_job)
		channel_input_close(c); /* no memory: better an end than silence */
}

void channel_input_flush(struct channel *c)
{
	while (c->queue_len && !c->frozen && !c->in_closed) {
		ssize_t done;

		if (by_threads(c)) {
			ask_threads(c);
			break;
		}
		done = write_some(c, c->queue + c->queue_at, queue_piece(c));
		if (done < 0) {
			channel_input_close(c);
			return;
		}
		if (done == 0)
			break;
		queue_taken(c, (size_t)done);
	}
	if (!c->queue_len)
		queue_free(c);
	if (!c->frozen && !c->in_closed)
		settle_eof(c);
	watch_input(c);
}

void channel_input_ready(struct source *s, uint32_t events)
{
	struct channel *c = container_of(s, struct channel, in);

	(void)events; /* a hang-up shows itself as EPIPE */
	channel_input_flush(c);
}

static int queue_add(struct channel *c, const uint8_t *p, size_t n)
{
	if (!c->queue) {
		c->queue = malloc(INPUT_WINDOW);
		if (!c->queue)
			return -1;
		c->queue_at = 0;
	}
	while (n) {
		size_t at = (c->queue_at + c->queue_len) % INPUT_WINDOW;
		size_t take = INPUT_WINDOW - at < n ? INPUT_WINDOW - at : n;

		memcpy(c->queue + at, p, take);
		c->queue_len += take;
		p += take;
		n -= take;
	}
	return 0;
}

/* Often at first, for what a command does to its terminal most do at once: each time after an eighth of what has
 * passed.
 */
static void look_again(struct channel *c)
{
	uint64_t now = c->m->loop.now_ns, step = (now - c->echo_moved_ns) / 8;

	step = step < ECHO_SOON_NS ? ECHO_SOON_NS : step > ECHO_TICK_NS ? ECHO_TICK_NS : step;
	if (now < c->echo_until_ns && (!c->echo_timer.at || c->echo_timer.due_ns > now + step))
		timer_arm(&c->m->loop, &c->echo_timer, now + step);
}

static void watch_echo(struct channel *c, uint8_t last)
{
	if (!c->pty || c->out[0].src.fd < 0)
		return;
	channel_check_echo(c);
	c->echo_until_ns = c->m->loop.now_ns + ECHO_TYPING_NS;
	if (last == '\r' || last == '\n')
		c->echo_moved_ns = c->m->loop.now_ns;
	look_again(c);
}

static int deliver(struct channel *c, const uint8_t *p, size_t n)
{
	ssize_t done = 0;

	c->received += n;
	if (c->state == CHANNEL_DRAINING && c->in_job)
		return 0; /* what the program took is settled first */
	if (c->in_closed || input_fd(c) < 0 || c->state >= CHANNEL_DRAINING) {
		swallow(c);
		return 0;
	}
	if (!c->queue_len && !c->frozen && !by_threads(c)) {
		done = write_some(c, p, n);
		if (done < 0) {
			channel_input_close(c);
			return 0;
		}
		if (done)
			consumed(c, (size_t)done, true);
	}
	if ((size_t)done < n) {
		if (queue_add(c, p + done, n - (size_t)done))
			return -1;
		channel_input_flush(c);
	}
	watch_echo(c, p[n - 1]);
	return 0;
}

int channel_input(struct channel *c, uint64_t offset, const uint8_t *p, size_t n, const char **why)
{
	size_t skip;

	if (offset > c->received || offset + n > c->consumed + INPUT_WINDOW) {
		*why = offset > c->received ? "a gap in input" : "more input than its window";
		return -1;
	}
	if (offset + n <= c->received)
		return 0; /* said before */
	skip = (size_t)(c->received - offset);
	if (deliver(c, p + skip, n - skip)) {
		*why = "out of memory for input";
		return -1;
	}
	return 0;
}

int channel_input_eof(struct channel *c, uint64_t offset, const char **why)
{
	if (offset > c->received) {
		*why = "end of input after a gap";
		return -1;
	}
	if (c->in_closed || c->state >= CHANNEL_DRAINING)
		return 0;
	c->eof_pending = true;
	channel_input_flush(c);
	return 0;
}

void channel_input_drop(struct channel *c, uint64_t go_on_at)
{
	size_t under_way =
	    c->in_job && c->in_job->done == input_written && go_on_at <= c->consumed ? c->in_job->want : 0;

	c->eof_pending = false;
	if (under_way)
		c->queue_len = under_way; /* the hub says them once more, and they were said before */
	else
		queue_free(c);
	if (go_on_at > c->consumed)
		c->consumed = go_on_at;
	if (go_on_at > c->reported)
		c->reported = go_on_at;
	c->received = c->consumed + under_way;
	consumed(c, 0, false); /* it may have grown since LIST */
}

void channel_check_echo(struct channel *c)
{
	uint8_t now = terminal_echo(c->out[0].src.fd);

	if (now == c->echo_sent || !c->resumed || !c->m->stream)
		return;
	c->echo_sent = now;
	c->echo_moved_ns = c->m->loop.now_ns; /* what changes it may do so again */
	c->echo_until_ns = c->echo_moved_ns + ECHO_TYPING_NS;
	look_again(c);
	stream_put(c->m->stream, &(struct frame){.type = FRAME_ECHO, .channel = c->number, .u.number = now});
}

void channel_echo_tick(struct timer *t)
{
	struct channel *c = container_of(t, struct channel, echo_timer);

	if (c->out[0].src.fd < 0)
		return;
	channel_check_echo(c);
	look_again(c);
}
