/*
 * fake_kubelet.h - remotecommand.h and the credentials of endpoint.h, played inside a test program.
 *
 * A fake: no cluster, no WebSocket. An exec is a process of this machine, in a session of its own, with pipes or a
 * terminal, as a runtime would begin it; who links this gets these functions instead of control/kube's. It is there for
 * what a real cluster cannot be made to show at will: a lost connection, a missing status, v5 beside v4, a refusal, an
 * image without a shell. What programs and shells do is real.
 */
#ifndef TESTS_LIB_FAKE_KUBELET_H
#define TESTS_LIB_FAKE_KUBELET_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "control/kube/client/endpoint.h"
#include "control/kube/exec/remotecommand.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define KUBELET_TICK_MS 4

struct rc_stream {
	struct rc_client *client;
	LIST_ENTRY(rc_stream) entry;
	const struct rc_ops *ops;
	void *arg;
	char *argv[256];
	struct rc_params p;
	uv_timer_t tick;
	bool opened, told, closed, short_take, eof;
	pid_t pid;
	int status, exec_errno;
	bool reaped;
	uint64_t reaped_at;
	int in, out[3]; /* out[1], out[2]; a terminal's is both in and out[1] */
	struct buf input;
	uint64_t got, window;
};

struct rc_client {
	uv_loop_t *loop;
	LIST_HEAD(, rc_stream) streams;
	int version;             /* 4 or 5 */
	const char *absent[8];   /* programs that this image does not have */
	int http_status, refuse; /* ERR_*: every exec is refused so */
	const char *words;
	unsigned refuse_times; /* 0: always */
	unsigned stands;       /* execs at a time: one more is 500; 0: any number */
	unsigned busy;         /* that were refused so */
	bool no_status;        /* programs end, and nobody says how */
	unsigned running, most, opened_ever, asks;
	uint64_t generation;
};

/* ---- credentials */

struct kube_creds {
	struct rc_client *client;
	struct kube_endpoint ep;
	struct kube_asks asks;
	uv_timer_t timer;
};

static void kubelet_answer(uv_timer_t *t)
{
	struct kube_creds *c = t->data;
	struct kube_ask *a;

	while ((a = TAILQ_FIRST(&c->asks))) {
		TAILQ_REMOVE(&c->asks, a, entry);
		a->creds = NULL;
		a->done(a->arg, 0, NULL);
	}
}

void kube_creds_ask(struct kube_creds *c, struct kube_ask *a, uint64_t rejected, kube_creds_done *done, void *arg)
{
	c->client->asks++;
	if (rejected == c->ep.generation)
		c->ep.generation++;
	a->creds = c;
	a->done = done;
	a->arg = arg;
	TAILQ_INSERT_TAIL(&c->asks, a, entry);
	uv_timer_start(&c->timer, kubelet_answer, 0, 0);
}

void kube_ask_cancel(struct kube_ask *a)
{
	if (a->creds)
		TAILQ_REMOVE(&a->creds->asks, a, entry);
	a->creds = NULL;
}

const struct kube_endpoint *kube_creds_endpoint(const struct kube_creds *c)
{
	return &c->ep;
}

/* ---- streams */

static void kubelet_freed(uv_handle_t *h)
{
	struct rc_stream *s = h->data;

	for (int i = 0; s->argv[i]; i++)
		free(s->argv[i]);
	buf_finish(&s->input);
	free(s);
}

static void kubelet_close_fds(struct rc_stream *s)
{
	if (s->in >= 0 && s->in != s->out[1])
		close(s->in);
	for (int i = 1; i < 3; i++)
		if (s->out[i] >= 0)
			close(s->out[i]);
	s->in = s->out[1] = s->out[2] = -1;
}

void rc_close(struct rc_stream *s)
{
	if (!s || s->closed)
		return;
	s->closed = true;
	if (s->pid && !s->told)
		s->client->running--;
	/* as a runtime: the program lives on, its stdin ends (a terminal gets no hang-up: it is kept by a descriptor)
	 */
	if (s->p.tty && s->in >= 0)
		(void)!fcntl(s->in, F_DUPFD_CLOEXEC, 700);
	kubelet_close_fds(s);
	LIST_REMOVE(s, entry);
	uv_timer_stop(&s->tick);
	uv_close((uv_handle_t *)&s->tick, kubelet_freed);
}

static void kubelet_tell(struct rc_stream *s, enum rc_cause cause, int code, int error, const char *words)
{
	struct rc_exit x = {.cause = cause, .code = code};

	if (error)
		err_set(&x.err, error, "%s", words);
	if (s->pid)
		s->client->running--;
	x.http_status = cause == RC_NOT_STARTED ? s->client->http_status : 0;
	s->told = true;
	s->ops->exited(s->arg, &x);
}

static bool kubelet_refuses(struct rc_stream *s)
{
	struct rc_client *c = s->client;

	for (int i = 0; i < 8 && c->absent[i]; i++)
		if (strcmp(c->absent[i], s->argv[0]) == 0) {
			s->opened = true;
			s->ops->opened(s->arg, c->version);
			if (!s->closed)
				kubelet_tell(s, RC_NOT_STARTED, -1, ERR_NO_PROGRAM,
					     "executable file not found in $PATH");
			return true;
		}
	if (c->stands && c->running >= c->stands) {
		c->busy++;
		c->http_status = 500;
		kubelet_tell(s, RC_NOT_STARTED, -1, ERR_K8S, "error dialing backend: too many open streams");
		c->http_status = 0;
		return true;
	}
	if (!c->refuse)
		return false;
	kubelet_tell(s, RC_NOT_STARTED, -1, c->refuse, c->words);
	if (c->refuse_times && --c->refuse_times == 0)
		c->refuse = c->http_status = 0;
	return true;
}

static void kubelet_child(struct rc_stream *s, int in, int out, int err, int slave)
{
	sigset_t none;

	setsid();
	if (slave >= 0) {
		ioctl(slave, TIOCSCTTY, 0);
		in = out = err = slave;
	}
	dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	for (int i = 1; i < 32; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir("/"))
		_exit(126);
	unsetenv("MUXD_CHANNEL");
	execvp(s->argv[0], s->argv);
	_exit(127);
}

static void kubelet_spawn(struct rc_stream *s)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, slave = -1,
	    null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct winsize size = {.ws_col = s->p.cols, .ws_row = s->p.rows};

	if (s->p.tty) {
		(void)!openpty(&s->in, &slave, NULL, NULL, &size);
		s->out[1] = s->in;
	} else {
		(void)!pipe2(in, O_CLOEXEC);
		(void)!pipe2(out, O_CLOEXEC);
		(void)!pipe2(err, O_CLOEXEC);
		s->in = s->p.in ? in[1] : -1;
		s->out[1] = out[0];
		s->out[2] = err[0];
		if (!s->p.in)
			close(in[1]);
	}
	s->pid = fork();
	if (s->pid == 0)
		kubelet_child(s, s->p.in ? in[0] : null, out[1], err[1], slave);
	if (s->in >= 0)
		fcntl(s->in, F_SETFD, FD_CLOEXEC);
	for (int i = 0; i < 3; i++) {
		int fd = i ? s->out[i] : s->in;

		if (fd >= 0)
			fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	}
	for (int i = 0; i < 2; i++) {
		int *ends[] = {&in[0], &out[1], &err[1], &slave, &null};

		for (size_t k = 0; k < 5; k++)
			if (*ends[k] >= 0) {
				close(*ends[k]);
				*ends[k] = -1;
			}
	}
	s->client->running++;
	s->client->opened_ever++;
	if (s->client->running > s->client->most)
		s->client->most = s->client->running;
}

static void kubelet_read(struct rc_stream *s, int stream)
{
	uint8_t piece[32768];
	ssize_t n = 1;

	for (int i = 0; i < 16 && n > 0 && s->out[stream] >= 0 && !s->closed; i++) {
		size_t room = s->window > s->got ? (size_t)(s->window - s->got) : 0;

		if (!room)
			return;
		n = read(s->out[stream], piece, room < sizeof(piece) ? room : sizeof(piece));
		if (n > 0) {
			s->got += (uint64_t)n;
			s->ops->data(s->arg, stream, piece, (size_t)n);
		}
	}
	if (!s->closed && (n == 0 || (n < 0 && errno != EAGAIN)) && s->out[stream] >= 0) {
		if (!s->p.tty)
			close(s->out[stream]);
		else
			close(s->in), s->in = -1;
		s->out[stream] = -1;
	}
}

static void kubelet_write(struct rc_stream *s)
{
	while (buf_len(&s->input) && s->in >= 0) {
		ssize_t n = write(s->in, buf_ptr(&s->input), buf_len(&s->input));

		if (n < 0 && errno == EAGAIN)
			return;
		buf_consume(&s->input, n < 0 ? buf_len(&s->input) : (size_t)n);
	}
	if (s->eof && s->in >= 0 && !s->p.tty) {
		close(s->in);
		s->in = -1;
	}
	if (s->short_take && buf_room(&s->input)) {
		s->short_take = false;
		s->ops->writable(s->arg, buf_room(&s->input));
	}
}

static void kubelet_end(struct rc_stream *s)
{
	bool drained = s->out[1] < 0 && s->out[2] < 0;

	if (!s->reaped && waitpid(s->pid, &s->status, WNOHANG) == s->pid) {
		s->reaped = true;
		s->reaped_at = clock_boot_ns();
	}
	if (!s->reaped || (!drained && (s->window <= s->got || clock_boot_ns() < s->reaped_at + NS_PER_SEC)))
		return;
	if (s->client->no_status)
		kubelet_tell(s, RC_UNKNOWN, -1, ERR_K8S, "the server closed the stream without a status");
	else
		kubelet_tell(s, RC_EXITED, WIFEXITED(s->status) ? WEXITSTATUS(s->status) : 128 + WTERMSIG(s->status), 0,
			     "");
}

static void kubelet_tick(uv_timer_t *t)
{
	struct rc_stream *s = t->data;

	if (s->told)
		return;
	if (!s->opened) {
		if (kubelet_refuses(s))
			return;
		s->opened = true;
		kubelet_spawn(s);
		s->ops->opened(s->arg, s->client->version);
		return;
	}
	if (!s->closed)
		kubelet_write(s);
	for (int i = 1; i < 3 && !s->closed; i++)
		if (s->out[i] >= 0)
			kubelet_read(s, i);
	if (!s->closed)
		kubelet_end(s);
}

int rc_open(struct rc_client *c, const struct kube_endpoint *ep, const struct rc_params *p, const struct rc_ops *ops,
	    void *arg, struct rc_stream **out, struct err *e)
{
	struct rc_stream *s = calloc(1, sizeof(*s));

	(void)e;
	if (!s)
		return ERR_NOMEM;
	c->generation = ep->generation;
	s->client = c;
	s->p = *p;
	s->ops = ops;
	s->arg = arg;
	s->in = s->out[1] = s->out[2] = -1;
	s->window = p->window;
	for (int i = 0; p->argv[i] && i < 255; i++)
		s->argv[i] = strdup(p->argv[i]);
	buf_init(&s->input, RC_INPUT_MAX);
	uv_timer_init(c->loop, &s->tick);
	s->tick.data = s;
	uv_timer_start(&s->tick, kubelet_tick, KUBELET_TICK_MS, KUBELET_TICK_MS);
	LIST_INSERT_HEAD(&c->streams, s, entry);
	*out = s;
	return 0;
}

int rc_version(const struct rc_stream *s)
{
	return s->opened ? s->client->version : 0;
}

void rc_window(struct rc_stream *s, uint64_t until)
{
	s->window = until > s->window ? until : s->window;
}

size_t rc_input_room(const struct rc_stream *s)
{
	return buf_room(&s->input);
}

ssize_t rc_input(struct rc_stream *s, const void *p, size_t n)
{
	size_t room = buf_room(&s->input), take = n < room ? n : room;

	if (s->told || !s->p.in || s->eof)
		return s->told ? ERR_ENDED : ERR_BAD_STATE;
	s->short_take = take < n;
	return buf_append(&s->input, p, take) ? ERR_NOMEM : (ssize_t)take;
}

int rc_input_eof(struct rc_stream *s)
{
	if (s->client->version < 5)
		return ERR_UNSUPPORTED;
	s->eof = true;
	return 0;
}

int rc_resize(struct rc_stream *s, uint16_t cols, uint16_t rows)
{
	struct winsize size = {.ws_col = cols, .ws_row = rows};

	return s->in >= 0 && ioctl(s->in, TIOCSWINSZ, &size) ? ERR_SYS : 0;
}

/* ---- what a test does to it */

/* Every connection is cut; programs live on. */
__attribute__((unused)) static void kubelet_cut(struct rc_client *c)
{
	struct rc_stream *s, *next;

	for (s = LIST_FIRST(&c->streams); s; s = next) {
		next = LIST_NEXT(s, entry);
		if (s->opened && !s->told)
			kubelet_tell(s, RC_LOST, -1, ERR_K8S_UNREACHABLE, "the connection was reset");
	}
}

#endif
