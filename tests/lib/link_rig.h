/*
 * link_rig.h - a real muxlet process and a link to it, for tests of both.
 *
 * The rig plays the hub: it keeps what each channel said, grants windows and
 * acknowledges unless told not to. Everything static: a test is one file.
 */
#ifndef TESTS_LIB_LINK_RIG_H
#define TESTS_LIB_LINK_RIG_H

#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/sock.h"
#include "muxd/link/link.h"
#include "tests/lib/patience.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define RIG_CHANNELS 2048
#define RIG_WINDOW   (1024 * 1024)
#define RIG_UNUSED   __attribute__((unused))

struct rig_channel {
	int opened; /* times */
	int opened_rc;
	char opened_why[300];
	uint8_t *text[3]; /* what came, NUL-terminated */
	size_t len[3], cap[3];
	uint64_t next[3];
	uint64_t consumed;
	int echo_off, echo_on; /* changes seen */
	size_t len_at_echo_off;
	bool exited;
	struct link_exit exit;
	unsigned waits; /* words about its turn */
	char waiting[300];
};

struct rig {
	uv_loop_t loop;
	struct link *link;
	pid_t pid; /* muxlet */
	char dir[64], path[100];
	uint8_t secret[LINK_SECRET_LEN];
	uint64_t epoch;
	bool no_grant, no_ack, no_keep; /* how the rig plays the hub */
	int ups, downs, down_rc;
	char down_why[256];
	struct link_channel_info *list;
	size_t nlist;
	uint64_t rtt;
	int cleared, cleared_rc;
	struct rig_channel ch[RIG_CHANNELS];
	bool ticked;
	uv_timer_t timer;
};

static void rig_up(void *arg, const struct link_channel_info *list, size_t n)
{
	struct rig *r = arg;

	r->ups++;
	free(r->list);
	r->list = calloc(n + 1, sizeof(*list));
	assert_non_null(r->list);
	if (n)
		memcpy(r->list, list, n * sizeof(*list));
	r->nlist = n;
}

static void rig_down(void *arg, int rc, const char *why)
{
	struct rig *r = arg;

	r->downs++;
	r->down_rc = rc;
	snprintf(r->down_why, sizeof(r->down_why), "%s", why);
}

static void rig_opened(void *arg, uint32_t channel, int rc, const char *why)
{
	struct rig_channel *c = &((struct rig *)arg)->ch[channel % RIG_CHANNELS];

	c->opened++;
	c->opened_rc = rc;
	snprintf(c->opened_why, sizeof(c->opened_why), "%s", why);
}

static void rig_data(void *arg, uint32_t channel, int s, uint64_t offset, const uint8_t *p, size_t n)
{
	struct rig *r = arg;
	struct rig_channel *c = &r->ch[channel % RIG_CHANNELS];

	assert_int_equal(offset, c->next[s]);
	assert_false(c->exited);
	c->next[s] += n;
	if (!r->no_keep) {
		if (c->len[s] + n + 1 > c->cap[s]) {
			c->cap[s] = 2 * (c->len[s] + n + 1);
			c->text[s] = realloc(c->text[s], c->cap[s]);
			assert_non_null(c->text[s]);
		}
		memcpy(c->text[s] + c->len[s], p, n);
		c->len[s] += n;
		c->text[s][c->len[s]] = 0;
	}
	if (!r->no_grant)
		assert_int_equal(link_window(r->link, channel, s, c->next[s] + RIG_WINDOW), 0);
	if (!r->no_ack)
		assert_int_equal(link_ack(r->link, channel, s, c->next[s]), 0);
}

static void rig_consumed(void *arg, uint32_t channel, uint64_t offset)
{
	((struct rig *)arg)->ch[channel % RIG_CHANNELS].consumed = offset;
}

static void rig_echo(void *arg, uint32_t channel, enum link_echo mode)
{
	struct rig_channel *c = &((struct rig *)arg)->ch[channel % RIG_CHANNELS];

	if (mode != LINK_ECHO_OFF)
		c->echo_on++;
	else
		c->echo_off++, c->len_at_echo_off = c->len[1];
}

static void rig_exited(void *arg, uint32_t channel, const struct link_exit *x)
{
	struct rig_channel *c = &((struct rig *)arg)->ch[channel % RIG_CHANNELS];

	assert_false(c->exited);
	c->exited = true;
	c->exit = *x;
}

static void rig_pong(void *arg, uint64_t rtt)
{
	((struct rig *)arg)->rtt = rtt;
}

static void rig_cleared(void *arg, int rc)
{
	struct rig *r = arg;

	r->cleared++;
	r->cleared_rc = rc;
}

static void rig_waits(void *arg, uint32_t channel, const char *why)
{
	struct rig_channel *c = &((struct rig *)arg)->ch[channel % RIG_CHANNELS];

	assert_false(c->opened || c->exited);
	c->waits++;
	snprintf(c->waiting, sizeof(c->waiting), "%s", why);
}

static const struct link_ops rig_ops = {.up = rig_up,
					.down = rig_down,
					.opened = rig_opened,
					.data = rig_data,
					.input_consumed = rig_consumed,
					.echo = rig_echo,
					.exited = rig_exited,
					.pong = rig_pong,
					.cleared = rig_cleared,
					.waits = rig_waits};

static void rig_tick(uv_timer_t *t)
{
	((struct rig *)t->data)->ticked = true;
}

/* Turns of the loop until the condition holds; false after ms. */
#define rig_until(r, ms, condition)                                                                                    \
	({                                                                                                             \
		/* A long wait is a limit for what will come, a short one a pause. */                                  \
		uint64_t until_ = clock_boot_ns() + (uint64_t)(ms)*NS_PER_MS;                                          \
		struct patience left_ = patience_of((ms) >= 2000 ? (uint64_t)(ms)*4 * NS_PER_MS : 1);                  \
		while (!(condition) && (clock_boot_ns() < until_ || !patience_over(&left_))) {                         \
			uv_timer_start(&(r)->timer, rig_tick, 20, 20);                                                 \
			uv_run(&(r)->loop, UV_RUN_ONCE);                                                               \
		}                                                                                                      \
		!!(condition);                                                                                         \
	})

RIG_UNUSED static void rig_sleep(struct rig *r, unsigned ms)
{
	assert_false(rig_until(r, ms, false));
}

static int rig_secret_pipe(const uint8_t *secret)
{
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(write(p[1], secret, LINK_SECRET_LEN), LINK_SECRET_LEN);
	close(p[1]);
	return p[0];
}

/* fds 3 and 4 in the child whatever they are here; 5 takes a word, as a control group's list of processes does. */
RIG_UNUSED static pid_t rig_spawn(const char *const *argv, int fd3, int fd4)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		int a = fcntl(fd3, F_DUPFD, 20), b = fcntl(fd4, F_DUPFD, 20), null = open("/dev/null", O_WRONLY);

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing of a test outlives it */
		if (dup2(a, 3) < 0 || dup2(b, 4) < 0 || dup2(null, 5) < 0 || close_range(6, ~0U, 0))
			_exit(126);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	return pid;
}

/* argv NULL: muxlet as it is; its descriptors are 3 and 4 either way. */
static void rig_start_muxlet(struct rig *r, const char *const *argv)
{
	/* RIG_NURSERY: programs are made by the nursery, without a group of their own. */
	bool nursery = getenv("RIG_NURSERY");
	const char *const plain[] = {BUILD_DIR "/muxlet",
				     "--listen-fd",
				     "3",
				     "--secret-fd",
				     "4",
				     "--workdir",
				     "/tmp",
				     "--shell",
				     "/bin/sh",
				     nursery                 ? "--programs-fd"
				     : getenv("RIG_VERBOSE") ? "--verbose"
							     : NULL,
				     nursery ? "5" : NULL,
				     getenv("RIG_VERBOSE") ? "--verbose" : NULL,
				     NULL};
	struct err e = {0};
	int listener, secret;

	snprintf(r->dir, sizeof(r->dir), "/tmp/muxd-link-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->path, sizeof(r->path), "%s/link", r->dir);
	assert_int_equal(sock_listen_unix(r->path, SOCK_STREAM, 0600, &listener, &e), 0);
	assert_int_equal(random_bytes(r->secret, sizeof(r->secret)), 0);
	secret = rig_secret_pipe(r->secret);
	r->pid = rig_spawn(argv ? argv : plain, listener, secret);
	close(listener);
	close(secret);
}

static void rig_new_link(struct rig *r)
{
	struct link_params p = {.name = "test"};

	memcpy(p.secret, r->secret, sizeof(p.secret));
	assert_int_equal(link_create(&r->loop, &p, &rig_ops, r, &r->link), 0);
}

static int rig_dial(struct rig *r)
{
	struct err e = {0};
	int fd = -1;

	assert_int_equal(sock_connect_unix(r->path, SOCK_STREAM, &fd, &e), 0);
	return fd;
}

static void rig_attach(struct rig *r)
{
	int ups = r->ups;

	assert_int_equal(link_attach(r->link, rig_dial(r), ++r->epoch), 0);
	assert_true(rig_until(r, 5000, r->ups > ups || r->downs));
	assert_int_equal(r->downs, 0);
	assert_int_equal(link_state(r->link), LINK_UP);
}

RIG_UNUSED static struct rig *rig_create_as(const char *const *argv)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	assert_int_equal(uv_loop_init(&r->loop), 0);
	uv_timer_init(&r->loop, &r->timer);
	r->timer.data = r;
	rig_start_muxlet(r, argv);
	rig_new_link(r);
	rig_attach(r);
	return r;
}

RIG_UNUSED static struct rig *rig_create(void)
{
	return rig_create_as(NULL);
}

static void rig_forget_texts(struct rig *r)
{
	for (int i = 0; i < RIG_CHANNELS; i++)
		for (int s = 0; s < 3; s++)
			free(r->ch[i].text[s]);
	memset(r->ch, 0, sizeof(r->ch));
}

/* TERM ends muxlet cleanly: exit 0, whatever ran. */
RIG_UNUSED static void rig_destroy(struct rig *r)
{
	int status = 0;

	if (r->pid > 0) {
		assert_int_equal(kill(r->pid, SIGTERM), 0);
		assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	link_destroy(r->link);
	uv_close((uv_handle_t *)&r->timer, NULL);
	while (uv_run(&r->loop, UV_RUN_DEFAULT))
		;
	assert_int_equal(uv_loop_close(&r->loop), 0);
	rig_forget_texts(r);
	free(r->list);
	unlink(r->path);
	rmdir(r->dir);
	free(r);
}

/* The stream breaks, as when the hub dies; the next rig_attach() is a new one. */
RIG_UNUSED static void rig_break(struct rig *r)
{
	link_destroy(r->link);
	uv_run(&r->loop, UV_RUN_NOWAIT);
	rig_new_link(r);
}

struct rig_call {
	const char *cwd;
	const char *const *env;
	uint64_t timeout_ms, idle_ms, grace_ms, window;
	bool pty, with_stdin, login, reserve;
	bool self; /* muxlet itself */
};

static int rig_open_argv(struct rig *r, uint32_t channel, const char *const *argv, const struct rig_call *k)
{
	struct link_open o = {.channel = channel,
			      .self = k->self,
			      .pty = k->pty,
			      .cols = 80,
			      .rows = 24,
			      .argv = argv,
			      .env = k->env,
			      .cwd = k->cwd,
			      .timeout_ms = k->timeout_ms,
			      .idle_ms = k->idle_ms,
			      .grace_ms = k->grace_ms ? k->grace_ms : 1000,
			      .stdin_open = k->with_stdin || k->pty,
			      .login_shell = k->login,
			      .reserve = k->reserve,
			      .window = k->window ? k->window : RIG_WINDOW};
	struct err e = {0};

	assert_int_equal(id_new(&o.session), 0);
	return link_open(r->link, &o, &e);
}

/* sh -c script on a channel. */
RIG_UNUSED static void rig_open(struct rig *r, uint32_t channel, const char *script, struct rig_call k)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};

	assert_int_equal(rig_open_argv(r, channel, argv, &k), 0);
}

#define rig_wait_exit(r, n) assert_true(rig_until(r, 20000, (r)->ch[n].exited || (r)->downs))

RIG_UNUSED static const char *rig_text(struct rig *r, uint32_t channel, int stream)
{
	return r->ch[channel].text[stream] ? (const char *)r->ch[channel].text[stream] : "";
}

/* Input from offset on, as fast as it is taken. */
RIG_UNUSED static uint64_t rig_type(struct rig *r, uint32_t channel, uint64_t offset, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n) {
		ssize_t took = link_input(r->link, channel, offset, at, n);

		assert_true(took >= 0);
		at += took;
		n -= (size_t)took;
		offset += (uint64_t)took;
		if (n)
			assert_true(rig_until(r, 10000,
					      link_input_room(r->link, channel, offset) > 0 || r->ch[channel].exited));
		if (r->ch[channel].exited)
			break;
	}
	return offset;
}

#endif
