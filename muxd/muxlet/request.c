/* What the hub asks for: one function per frame. */
#include "muxd/muxlet/child.h"
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/start.h"
#include "muxd/muxlet/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void say_error(struct muxlet *m, uint32_t channel, uint16_t code, const char *text)
{
	stream_put(m->stream, &(struct frame){.type = FRAME_ERROR,
					      .channel = channel,
					      .p = (const uint8_t *)text,
					      .n = strlen(text),
					      .u.opened.code = code});
}

static void list_one(struct muxlet *m, struct channel *c)
{
	struct frame f = {.type = FRAME_LIST, .channel = c->number};
	struct frame_list *l = &f.u.list;

	memcpy(l->session, c->session, sizeof(l->session));
	l->flags = (uint8_t)((c->pty ? LIST_PTY : 0) | (c->state == CHANNEL_ENDED ? LIST_EXITED : 0));
	l->consumed = c->consumed;
	for (int i = 0; i < 2; i++) {
		l->kept_from[i + 1] = c->out[i].spool.base;
		l->produced[i + 1] = c->out[i].spool.end;
	}
	l->kept_from[0] = l->produced[0] = c->consumed;
	if (c->state == CHANNEL_ENDED)
		l->exit = c->exit;
	c->resumed = false;
	c->frozen = c->state != CHANNEL_ENDED;
	c->reported = c->consumed;
	c->listed = true;
	c->opened_pending = c->begun_pending = false; /* LIST says it; RESUME asks for it */
	stream_put(m->stream, &f);
}

void request_list(struct muxlet *m)
{
	struct channel *c;
	uint64_t n = 0;

	TAILQ_FOREACH(c, &m->ended, place)
	if (!c->forgotten) {
		list_one(m, c);
		n++;
	}
	TAILQ_FOREACH(c, &m->alive, place)
	if (!c->forgotten) {
		list_one(m, c);
		n++;
	}
	stream_put(m->stream, &(struct frame){
				  .type = FRAME_LISTED, .offset = n, .u.listed = {.life = m->life, .opens = m->opens}});
}

static void request_on_resume(struct muxlet *m, struct channel *c, const struct frame *f)
{
	if (c->resumed) {
		say_error(m, c->number, CODE_STATE, "resumed already");
		return;
	}
	for (int i = 0; i < 2; i++)
		if (f->u.resume.have[i + 1] < c->out[i].spool.base || f->u.resume.have[i + 1] > c->out[i].spool.end) {
			say_error(m, c->number, CODE_STATE, "the spool does not reach that offset");
			return;
		}
	for (int i = 0; i < 2; i++) {
		uint64_t have = f->u.resume.have[i + 1];

		(void)spool_seek(&c->out[i].spool, have);
		c->out[i].window = f->u.resume.window > UINT64_MAX - have ? UINT64_MAX : have + f->u.resume.window;
	}
	c->resumed = true;
	c->frozen = false;
	c->echo_sent =
	    ECHO_UNSAID; /* the hub remembers what was before the break, and goes on with that until it hears */
	channel_input_drop(c, f->u.resume.have[0]);
	if (c->pty && c->out[0].src.fd >= 0)
		channel_check_echo(c);
	if (c->state == CHANNEL_ENDED)
		c->exit_pending = true;
	stream_put_begun(m->stream, c);
	output_update(&c->out[0]);
	output_update(&c->out[1]);
	muxlet_want_send(c);
}

static int request_on_ack(struct muxlet *m, struct channel *c, const struct frame *f, const char **why)
{
	struct spool *s = &c->out[f->stream - 1].spool;
	bool full = m->pool.used >= SPOOL_POOL_MAX / SPOOL_CHUNK;

	if (f->offset > s->sent - stream_on_the_way(m->stream, &c->out[f->stream - 1]) || spool_ack(s, f->offset)) {
		*why = "ACK of bytes that were not sent";
		return -1;
	}
	if (full && m->pool.used < SPOOL_POOL_MAX / SPOOL_CHUNK)
		muxlet_room(m);
	else
		output_update(&c->out[f->stream - 1]);
	return 0;
}

static void request_on_window(struct channel *c, const struct frame *f)
{
	struct output *o = &c->out[f->stream - 1];

	if (f->offset <= o->window)
		return;
	o->window = f->offset;
	output_update(o);
	muxlet_want_send(c);
}

static void request_on_signal(struct muxlet *m, struct channel *c, int signum)
{
	if (c->state == CHANNEL_ENDED || c->state == CHANNEL_DRAINING)
		say_error(m, c->number, CODE_STATE, "a signal to an ended program");
	else
		channel_signal(c, signum);
}

static void request_on_resize(struct muxlet *m, struct channel *c, const struct frame *f)
{
	struct terminal_size size = {f->u.resize.cols, f->u.resize.rows, f->u.resize.xpixel, f->u.resize.ypixel};

	if (!c->pty)
		say_error(m, c->number, CODE_INVALID, "a new size for a program without a terminal");
	else if (c->out[0].src.fd >= 0)
		(void)terminal_resize(c->out[0].src.fd, &size);
}

static void request_on_forget(struct muxlet *m, struct channel *c)
{
	c->forgotten = true;
	channel_kill(c, CAUSE_KILLED);
	if (c->queued) {
		TAILQ_REMOVE(c->queued, c, to_send);
		c->queued = NULL;
	}
	c->resumed = false; /* what it still says is read and kept from nobody */
	m->doomed = true;
}

void secrets_wipe(struct muxlet *m, uint32_t channel)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->nsecrets; i++) {
		if (channel && m->secrets[i].channel != channel)
			m->secrets[kept++] = m->secrets[i];
		else if (m->secrets[i].memfd >= 0) /* else a program that is being made has it */
			close(m->secrets[i].memfd);
	}
	m->nsecrets = kept;
}

static int secret_memfd(const uint8_t *p, size_t n)
{
	int fd = memfd_create("secret", MFD_CLOEXEC | MFD_ALLOW_SEALING), high = -1;

	if (fd < 0)
		return -1;
	if (write(fd, p, n) == (ssize_t)n && lseek(fd, 0, SEEK_SET) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
		high = fcntl(fd, F_DUPFD_CLOEXEC, CHILD_SECRET_LAST + 1);
	close(fd);
	return high;
}

static void request_on_secret(struct muxlet *m, const struct frame *f)
{
	int fd;

	if (f->u.fd < CHILD_SECRET_FIRST || f->u.fd > CHILD_SECRET_LAST || muxlet_find(m, f->channel)) {
		say_error(m, f->channel, CODE_INVALID, "a secret for a descriptor that is none, or too late");
		return;
	}
	if (m->nsecrets == SECRETS_MAX) {
		say_error(m, f->channel, CODE_LIMIT, "too many secrets wait");
		return;
	}
	fd = secret_memfd(f->p, f->n);
	explicit_bzero((void *)(uintptr_t)f->p, f->n); /* out of the stream's buffer */
	if (fd < 0) {
		say_error(m, f->channel, CODE_SYSTEM, strerror(errno));
		return;
	}
	m->secrets[m->nsecrets++] = (struct waiting_secret){f->channel, f->u.fd, fd};
}

static int request_on_channel(struct muxlet *m, struct channel *c, const struct frame *f, const char **why)
{
	switch (f->type) {
	case FRAME_DATA:
		return channel_input(c, f->offset, f->p, f->n, why);
	case FRAME_EOF:
		return channel_input_eof(c, f->offset, why);
	case FRAME_WINDOW:
		request_on_window(c, f);
		return 0;
	case FRAME_ACK:
		return request_on_ack(m, c, f, why);
	case FRAME_RESIZE:
		request_on_resize(m, c, f);
		return 0;
	case FRAME_SIGNAL:
		request_on_signal(m, c, f->u.number);
		return 0;
	case FRAME_KILL:
		channel_kill(c, f->u.number);
		return 0;
	case FRAME_RESUME:
		request_on_resume(m, c, f);
		return 0;
	case FRAME_FORGET:
		request_on_forget(m, c);
		return 0;
	default:
		*why = "a frame that has no place here";
		return -1;
	}
}

int request_handle(struct muxlet *m, const struct frame *f, uint16_t *code, const char **why)
{
	bool input = f->type == FRAME_DATA || f->type == FRAME_EOF,
	     mark = f->type == FRAME_WINDOW || f->type == FRAME_ACK;
	struct channel *c;

	*code = CODE_PROTOCOL;
	switch (f->type) {
	case 0: /* unknown, not critical */
	case FRAME_PONG:
		return 0;
	case FRAME_PING:
		stream_put(m->stream, &(struct frame){.type = FRAME_PONG, .offset = f->offset});
		return 0;
	case FRAME_GOODBYE:
		*why = "the hub said goodbye";
		*code = CODE_OK;
		return -1;
	case FRAME_OPEN:
		start_channel(m, f);
		return 0;
	case FRAME_CLEAR:
		clear_begin(m, f->offset);
		return 0;
	case FRAME_SECRET:
		request_on_secret(m, f);
		return 0;
	case FRAME_HELLO:
	case FRAME_PROOF:
		*why = "a second handshake";
		return -1;
	default:
		break;
	}
	if ((input && f->stream != 0) || (mark && f->stream == 0)) {
		*why = "a stream of the other direction";
		return -1;
	}
	c = muxlet_find(m, f->channel);
	if (!c) {
		say_error(m, f->channel, CODE_NOT_FOUND, "no such channel");
		return 0;
	}
	return request_on_channel(m, c, f, why);
}
