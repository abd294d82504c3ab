#include "control/local/spawn.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "control/local/spawn_child.h"
#include "control/local/tool.h"
#define LOG_SUBSYS "sandbox"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FD_HIGH       64 /* sources of descriptors lie above every target */
#define INFO_MAX      4096
#define LAST_WORDS_NS (500 * NS_PER_MS)

static const char *const stage_texts[] = {
#define TEXT_(name, text) text,
    SPAWN_STAGES(TEXT_)
#undef TEXT_
};
static const char *const state_names[] = {"none", "started", "ready"};

static void spawn_set_state(struct spawn *s, const char *agent, enum spawn_state to)
{
	log_debug(&(struct log_ids){.agent = agent}, "start %s -> %s", state_names[s->state], state_names[to]);
	s->state = to;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int spawn_staging(const char **out, struct err *e)
{
	static const char *const dirs[] = {"/mnt", "/tmp", "/media", "/run", "/srv", "/home"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		struct stat st;

		if (lstat(dirs[i], &st) == 0 && S_ISDIR(st.st_mode)) {
			*out = dirs[i];
			return 0;
		}
	}
	return err_set(e, ERR_MISSING, "none of the directories /mnt, /tmp, /run exists");
}

/* What the parent and the child each hold of the pipes between them. */
struct ends {
	int status, info, errors, secret;                         /* parent's */
	int child_status, child_info, child_errors, child_secret; /* child's */
};

static int high(int fd)
{
	int up = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
	int saved = errno;

	close(fd);
	errno = saved;
	return up;
}

static int make_pipe(int *read_end, int *write_end)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) != 0)
		return -1;
	*read_end = high(p[0]);
	*write_end = high(p[1]);
	return *read_end < 0 || *write_end < 0 ? -1 : 0;
}

static void ends_close_child(struct ends *n)
{
	close_fd(&n->child_status);
	close_fd(&n->child_info);
	close_fd(&n->child_errors);
	close_fd(&n->child_secret);
}

static void ends_close(struct ends *n)
{
	ends_close_child(n);
	close_fd(&n->status);
	close_fd(&n->info);
	close_fd(&n->errors);
	close_fd(&n->secret);
}

/*
 * bwrap reports before it lets its child go on. Should we be dead by then, it
 * must not die of that (EPIPE) and leave the child waiting for ever: the end
 * it writes to reads as well.
 */
static int make_info(struct ends *n)
{
	char path[40];
	int fd;

	if (make_pipe(&n->info, &n->child_info) != 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", n->child_info);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	close(n->child_info);
	n->child_info = high(fd);
	return n->child_info < 0 ? -1 : 0;
}

static int ends_open(struct ends *n, struct err *e)
{
	int pair[2];

	*n = (struct ends){-1, -1, -1, -1, -1, -1, -1, -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		n->status = high(pair[0]);
		n->child_status = high(pair[1]);
	}
	if (n->status < 0 || n->child_status < 0 || make_info(n) != 0 || make_pipe(&n->errors, &n->child_errors) != 0 ||
	    make_pipe(&n->child_secret, &n->secret) != 0 || fcntl(n->errors, F_SETFL, O_NONBLOCK) != 0 ||
	    fcntl(n->info, F_SETFL, O_NONBLOCK) != 0) {
		int rc = err_sys(e, errno, "cannot make the pipes to a sandbox");

		ends_close(n);
		return rc;
	}
	return 0;
}

/* What stands at descriptors 0 up to the last memory file, all duplicated above FD_HIGH. */
static int child_fds(struct spawn_child *c, const struct ends *n, struct err *e)
{
	const struct cmdline *cl = c->p->cmdline;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int from[CMDLINE_FD_DATA + CMDLINE_DATA_MAX] = {null,
							null,
							n->child_errors,
							c->p->listen_fd,
							n->child_secret,
							n->child_info,
							c->p->seccomp_fd,
							c->p->programs_fd < 0 ? null : c->p->programs_fd};
	int rc = 0;

	if (null < 0)
		return err_sys(e, errno, "cannot open /dev/null");
	c->nfds = CMDLINE_FD_DATA + (int)cl->ndata;
	for (size_t i = 0; i < cl->ndata; i++)
		from[(size_t)CMDLINE_FD_DATA + i] = cl->data[i];
	for (int i = 0; i < c->nfds; i++) {
		c->fds[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_HIGH);
		if (c->fds[i] < 0 && rc == 0)
			rc = err_sys(e, errno, "cannot duplicate a descriptor for a sandbox");
	}
	close(null);
	return rc;
}

static void child_close(struct spawn_child *c)
{
	for (int i = 0; i < c->nfds; i++)
		close_fd(&c->fds[i]);
}

static int child_prepare(struct spawn_child *c, const struct spawn_params *p, const struct ends *n, struct err *e)
{
	*c = (struct spawn_child){.p = p, .status = n->child_status};
	if (p->root) {
		snprintf(c->workspace, sizeof(c->workspace), "%s/" SPAWN_WORKSPACE, p->staging);
		snprintf(c->muxlet, sizeof(c->muxlet), "%s/" SPAWN_MUXLET, p->staging);
		snprintf(c->image, sizeof(c->image), "%s/" SPAWN_IMAGE, p->staging);
		snprintf(c->owner, sizeof(c->owner), "%u:%u", (unsigned)p->uid, (unsigned)p->gid);
	}
	return child_fds(c, n, e);
}

/* The child in between ends at once, so the grandchild is the system's; a parent that ignores SIGCHLD is fine, too. */
static int fork_twice(const struct spawn_child *c, struct err *e)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			spawn_child_run(c);
		_exit(pid < 0 ? errno & 0x7f : 0);
	}
	if (pid < 0)
		return err_sys(e, errno, "cannot fork");
	while (waitpid(pid, &status, 0) < 0) {
		if (errno == ECHILD)
			return 0;
		if (errno != EINTR)
			return err_sys(e, errno, "cannot wait for a process of ours");
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_sys(e, WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN, "cannot fork");
}

/* Reads what is there of bwrap's errors and keeps the last of it. Returns false at the end of the pipe. */
static bool tail_read(struct spawn *s)
{
	char chunk[1024];
	ssize_t n;

	while ((n = read(s->stderr_fd, chunk, sizeof(chunk))) > 0) {
		size_t got = (size_t)n;
		size_t drop = s->tail_len + got > SPAWN_TAIL_MAX ? s->tail_len + got - SPAWN_TAIL_MAX : 0;

		memmove(s->tail, s->tail + drop, s->tail_len - drop);
		s->tail_len -= drop;
		memcpy(s->tail + s->tail_len, chunk, got);
		s->tail_len += got;
		s->tail[s->tail_len] = '\0';
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* The pipe ends with the last process that has it; give them a moment to say why they ended. */
static void tail_drain(struct spawn *s)
{
	uint64_t until = clock_boot_ns() + LAST_WORDS_NS;

	while (s->stderr_fd >= 0 && tail_read(s) && deadline_ms(until) > 0) {
		struct pollfd p = {.fd = s->stderr_fd, .events = POLLIN};

		poll(&p, 1, deadline_ms(until));
	}
}

static int fail_with_tail(struct spawn *s, const char *what, struct err *e)
{
	char text[SPAWN_TAIL_MAX + 1];

	tail_drain(s);
	memcpy(text, s->tail, s->tail_len + 1);
	tool_text_clean(text);
	return err_set(e, ERR_SANDBOX_CREATE, "%s: %.300s", what, text[0] ? text : "it said nothing");
}

static int report_fail(const struct spawn_report *r, struct err *e)
{
	const char *what = r->stage >= 0 && r->stage < STAGE_END ? stage_texts[r->stage] : "start";

	return err_set(e, ERR_SANDBOX_CREATE, "cannot %s: %s", what, strerror(r->error));
}

/* First report: the pid. Only when it is held by a pidfd does the process get the word to go on. */
static int meet(struct spawn *s, int status, uint64_t deadline, struct err *e)
{
	struct pollfd p = {.fd = status, .events = POLLIN};
	struct spawn_report r;
	int n;

	do
		n = poll(&p, 1, deadline_ms(deadline));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return err_set(e, ERR_SANDBOX_TIMEOUT, "a new process did not report in time");
	if (recv(status, &r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return err_set(e, ERR_SANDBOX_CREATE, "a new process ended at once");
	if (r.stage != STAGE_END)
		return report_fail(&r, e);
	if (found_take(r.pid, &s->outer) != 0 || found_open(&s->outer, &s->outer_fd) != 0)
		return err_set(e, ERR_SANDBOX_CREATE, "a new process ended at once");
	if (send(status, "g", 1, MSG_NOSIGNAL) != 1)
		return err_sys(e, errno, "cannot talk to a new process");
	return 0;
}

/* 1: something was read and there may be more; 0: end. */
static int info_read(int fd, char *text, size_t *len, struct err *e)
{
	ssize_t n = read(fd, text + *len, INFO_MAX - 1 - *len);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (n < 0)
		return err_sys(e, errno, "cannot read what bwrap reports");
	*len += (size_t)n;
	text[*len] = '\0';
	return n > 0 && *len < INFO_MAX - 1;
}

static int info_parse(struct spawn *s, const char *text, size_t len, struct err *e)
{
	int64_t pid = 0;
	json_t *o = NULL;
	int rc;

	if (len == 0)
		return fail_with_tail(s, "bwrap did not start the sandbox", e);
	rc = json_parse(text, len, INFO_MAX, &o, e);
	rc = rc ? rc : json_need_int(o, "child-pid", 2, INT32_MAX, &pid, e);
	json_decref(o);
	if (rc)
		return err_set(e, ERR_SANDBOX_CREATE, "bwrap reports in a form that is not known here");
	if (found_take((pid_t)pid, &s->init) != 0 || found_open(&s->init, &s->init_fd) != 0)
		return fail_with_tail(s, "bwrap ended before the sandbox stood", e);
	return 0;
}

/* Until bwrap closed its report. The status socket ends with the exec; a packet on it is a failure before that. */
static int await_info(struct spawn *s, struct ends *n, uint64_t deadline, struct err *e)
{
	char text[INFO_MAX];
	size_t len = 0;
	int more = 1;

	while (more > 0) {
		struct pollfd p[3] = {{.fd = n->status, .events = POLLIN},
				      {.fd = n->info, .events = POLLIN},
				      {.fd = s->stderr_fd, .events = POLLIN}};
		struct spawn_report r;
		int got = poll(p, 3, deadline_ms(deadline));

		if (got < 0 && errno != EINTR)
			return err_sys(e, errno, "cannot wait for bwrap");
		if (got == 0)
			return err_set(e, ERR_SANDBOX_TIMEOUT, "bwrap did not set up the sandbox in time");
		if (got < 0)
			continue;
		if (p[0].revents && recv(n->status, &r, sizeof(r), 0) == (ssize_t)sizeof(r))
			return report_fail(&r, e);
		if (p[0].revents)
			close_fd(&n->status);
		if (p[2].revents && !tail_read(s))
			close_fd(&s->stderr_fd);
		if (p[1].revents)
			more = info_read(n->info, text, &len, e);
	}
	return more < 0 ? more : info_parse(s, text, len, e);
}

int spawn_start(const struct spawn_params *p, uint64_t deadline_ns, struct spawn *out, struct err *e)
{
	struct spawn_child c = {0};
	struct ends n;
	int rc;

	*out = (struct spawn){.outer_fd = -1, .init_fd = -1, .secret_fd = -1, .secret_read_fd = -1, .stderr_fd = -1};
	rc = ends_open(&n, e);
	if (rc)
		return rc;
	rc = child_prepare(&c, p, &n, e);
	rc = rc ? rc : fork_twice(&c, e);
	child_close(&c);
	out->stderr_fd = n.errors;
	out->secret_fd = n.secret;
	out->secret_read_fd = n.child_secret;
	n.errors = n.secret = n.child_secret = -1;
	ends_close_child(&n);
	rc = rc ? rc : meet(out, n.status, deadline_ns, e);
	rc = rc ? rc : await_info(out, &n, deadline_ns, e);
	ends_close(&n);
	if (rc)
		spawn_abort(out, p->agent);
	else
		spawn_set_state(out, p->agent, SPAWN_STARTED);
	return rc;
}

/* 1 when the reader has taken everything. */
static int secret_taken(const struct spawn *s)
{
	int left = 1;

	return ioctl(s->secret_fd, FIONREAD, &left) == 0 && left == 0;
}

int spawn_finish_start(struct spawn *s, const char *agent, const uint8_t secret[SPAWN_SECRET_LEN], uint64_t deadline_ns,
		       struct err *e)
{
	if (fcntl(s->secret_fd, F_SETFL, O_NONBLOCK) != 0 ||
	    write(s->secret_fd, secret, SPAWN_SECRET_LEN) != SPAWN_SECRET_LEN)
		return fail_with_tail(s, "the sandbox ended at its start", e);
	close_fd(&s->secret_read_fd);
	for (;;) {
		struct pollfd p[3] = {{.fd = s->init_fd, .events = POLLIN},
				      {.fd = s->secret_fd, .events = 0}, /* error: nobody can read it any more */
				      {.fd = s->stderr_fd, .events = POLLIN}};
		int ms = deadline_ms(deadline_ns);

		/* In steps: a muxlet that reads its secret and keeps the descriptor open is seen by the empty pipe
		 * only. */
		if (poll(p, 3, ms > 2 ? 2 : ms) < 0 && errno != EINTR)
			return err_sys(e, errno, "cannot wait for muxlet");
		if (p[2].revents && !tail_read(s))
			close_fd(&s->stderr_fd);
		if ((p[0].revents & POLLIN) || ((p[1].revents & POLLERR) && !secret_taken(s)))
			return fail_with_tail(s, "the sandbox ended at its start", e);
		if (secret_taken(s))
			break;
		if (ms == 0)
			return err_set(e, ERR_SANDBOX_TIMEOUT, "muxlet did not take its secret in time");
	}
	spawn_set_state(s, agent, SPAWN_READY);
	return 0;
}

void spawn_abort(struct spawn *s, const char *agent)
{
	uint64_t until = clock_boot_ns() + 5 * NS_PER_SEC;

	if (s->init.pid)
		found_kill_world(&s->init, until);
	if (s->outer.pid)
		found_kill(&s->outer, until);
	tail_drain(s);
	if (s->state != SPAWN_NONE)
		spawn_set_state(s, agent, SPAWN_NONE);
	spawn_close(s);
}

void spawn_close(struct spawn *s)
{
	close_fd(&s->outer_fd);
	close_fd(&s->init_fd);
	close_fd(&s->secret_fd);
	close_fd(&s->secret_read_fd);
	close_fd(&s->stderr_fd);
}
