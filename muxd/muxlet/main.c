/* muxlet - see docs/man/muxlet.8. */
#include "muxd/muxlet/dial.h"
#include "muxd/muxlet/errand.h"
#include "muxd/muxlet/file.h"
#include "muxd/muxlet/framed.h"
#include "muxd/muxlet/freeze.h"
#include "muxd/muxlet/fs.h"
#include "muxd/muxlet/join.h"
#include "muxd/muxlet/mcp.h"
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/persist.h"
#include "muxd/muxlet/probe.h"
#include "muxd/muxlet/start.h"
#include "muxd/muxlet/survey.h"
#include "muxd/muxlet/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAST_WORDS_MS 1000
#define HURRY_NICE    -10 /* given where it counts among the sandbox's own programs alone */

struct options {
	int listen_fd, secret_fd, programs_fd, pids, leave_s, dial, probe, canary, within_ms;
	bool pause, nursery, spare, framed, verbose, version;
	const char *shell, *workdir, *join, *check, *install, *get, *fs, *sync, *freeze, *path, *persist, *mcp;
	struct file_put put; /* its visit is everybody's */
	long survey, have;
};

static int usage(void)
{
	fputs("usage: muxlet --listen-fd N --secret-fd N [--shell PATH] [--workdir PATH] [--pids N]\n"
	      "              [--programs-fd N] [--persist PATHS] [--verbose]\n"
	      "       muxlet --join NAME [--leave SECONDS] [--shell PATH] [--workdir PATH]\n"
	      "       muxlet --put PATH [--mode OCTAL] [--size BYTES] [--parents] [--beneath] [--most BYTES]\n"
	      "       muxlet --get PATH [--beneath] [--most BYTES] | --fs REQUEST\n"
	      "       muxlet --dial PORT | --probe PORT [--path PATH] | --sync PATH | --freeze PATH | --survey NUMBER "
	      "[--have NUMBER]\n"
	      "       muxlet --mcp URL [--within MS]\n"
	      "       muxlet --visit PID --pause | [--framed] --put ... | --get PATH | --fs REQUEST\n"
	      "       muxlet --pause | --nursery | --spare | --canary BYTES | --install PATH | --check SHA256 | "
	      "--version\n",
	      stderr);
	return 64;
}

enum option_kind { FLAG, TEXT, NUMBER, LONG };

static const struct row {
	const char *name;
	enum option_kind kind; /* bool, const char *, int, long */
	size_t at;             /* in struct options */
	long least, most;
	int base;
} rows[] = {
    {"listen-fd", NUMBER, offsetof(struct options, listen_fd), 0, INT_MAX, 10},
    {"secret-fd", NUMBER, offsetof(struct options, secret_fd), 0, INT_MAX, 10},
    {"programs-fd", NUMBER, offsetof(struct options, programs_fd), 0, INT_MAX, 10},
    {"pids", NUMBER, offsetof(struct options, pids), 1, INT_MAX, 10},
    {"shell", TEXT, offsetof(struct options, shell), 0, 0, 0},
    {"workdir", TEXT, offsetof(struct options, workdir), 0, 0, 0},
    {"verbose", FLAG, offsetof(struct options, verbose), 0, 0, 0},
    {"persist", TEXT, offsetof(struct options, persist), 0, 0, 0},
    {"version", FLAG, offsetof(struct options, version), 0, 0, 0},
    {"join", TEXT, offsetof(struct options, join), 0, 0, 0},
    {"leave", NUMBER, offsetof(struct options, leave_s), 0, INT_MAX, 10},
    {"pause", FLAG, offsetof(struct options, pause), 0, 0, 0},
    {"nursery", FLAG, offsetof(struct options, nursery), 0, 0, 0},
    {"spare", FLAG, offsetof(struct options, spare), 0, 0, 0},
    {"canary", NUMBER, offsetof(struct options, canary), 1, INT_MAX, 10},
    {"check", TEXT, offsetof(struct options, check), 0, 0, 0},
    {"install", TEXT, offsetof(struct options, install), 0, 0, 0},
    {"sync", TEXT, offsetof(struct options, sync), 0, 0, 0},
    {"freeze", TEXT, offsetof(struct options, freeze), 0, 0, 0},
    {"dial", NUMBER, offsetof(struct options, dial), 1, UINT16_MAX, 10},
    {"probe", NUMBER, offsetof(struct options, probe), 1, UINT16_MAX, 10},
    {"path", TEXT, offsetof(struct options, path), 0, 0, 0},
    {"mcp", TEXT, offsetof(struct options, mcp), 0, 0, 0},
    {"within", NUMBER, offsetof(struct options, within_ms), 0, INT_MAX, 10},
    {"get", TEXT, offsetof(struct options, get), 0, 0, 0},
    {"fs", TEXT, offsetof(struct options, fs), 0, 0, 0},
    {"put", TEXT, offsetof(struct options, put.path), 0, 0, 0},
    {"mode", LONG, offsetof(struct options, put.mode), 0, LONG_MAX, 8},
    {"size", LONG, offsetof(struct options, put.size), 0, LONG_MAX, 10},
    {"parents", FLAG, offsetof(struct options, put.parents), 0, 0, 0},
    {"beneath", FLAG, offsetof(struct options, put.beneath), 0, 0, 0},
    {"most", LONG, offsetof(struct options, put.most), 0, LONG_MAX, 10},
    {"survey", LONG, offsetof(struct options, survey), 1, LONG_MAX, 10},
    {"have", LONG, offsetof(struct options, have), 0, LONG_MAX, 10},
    {"visit", NUMBER, offsetof(struct options, put.visit), 1, INT_MAX, 10},
    {"framed", FLAG, offsetof(struct options, framed), 0, 0, 0},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static int main_take_number(const struct row *r, const char *s, void *to)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(s, &end, r->base);
	if (*end || end == s || errno || v < r->least || v > r->most)
		return -1;
	if (r->kind == LONG)
		*(long *)to = v;
	else
		*(int *)to = (int)v;
	return 0;
}

static int take_option(const struct row *r, const char *s, struct options *o)
{
	void *to = (char *)o + r->at;

	if (r->kind == FLAG)
		*(bool *)to = true;
	else if (r->kind == TEXT)
		*(const char **)to = s;
	else
		return main_take_number(r, s, to);
	return 0;
}

static int main_parse(int argc, char **argv, struct options *o)
{
	struct option longs[ROWS + 1] = {0};
	int c, modes;

	_Static_assert(ROWS <= '?', "a row's number is no error of getopt_long()");
	/* Each its own number: of those that share one, getopt_long() takes the first for an ambiguous beginning. */
	for (size_t k = 0; k < ROWS; k++)
		longs[k] =
		    (struct option){rows[k].name, rows[k].kind == FLAG ? no_argument : required_argument, NULL, (int)k};
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c >= (int)ROWS || take_option(&rows[c], optarg, o))
			return -1;
		if (o->version) {
			puts("muxlet " MUXD_VERSION);
			exit(0);
		}
	}
	if (optind != argc)
		return -1;
	modes = o->pause + o->spare + !!o->check + !!o->join + !!o->install + !!o->put.path + !!o->get + !!o->fs +
		!!o->sync + !!o->freeze + !!o->dial + !!o->probe + o->nursery + !!o->canary + !!o->survey + !!o->mcp;
	if (o->put.visit && !o->pause && !o->get && !o->put.path && !o->fs && !o->dial)
		return -1;
	if (modes)
		return modes == 1 && o->listen_fd < 0 && o->secret_fd < 0 ? 0 : -1;
	return o->listen_fd >= 0 && o->secret_fd >= 0 ? 0 : -1;
}

/* From a pipe, or from a memfd that is emptied afterwards. */
static int read_secret(struct muxlet *m, int fd)
{
	static const uint8_t zero[SECRET_LEN];
	bool file = lseek(fd, 0, SEEK_SET) == 0;
	size_t n = 0;

	while (n < SECRET_LEN) {
		ssize_t got = read(fd, m->secret + n, SECRET_LEN - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		n += (size_t)got;
	}
	if (file)
		(void)!pwrite(fd, zero, sizeof(zero), 0); /* a sealed or read-only one is its owner's to wipe */
	close(fd);
	return 0;
}

/* 0, 1 and 2 are never given to anything else. */
static int hold_standard_fds(struct muxlet *m)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < 3);
	if (fd < 0)
		return -1;
	m->null_fd = fd;
	return 0;
}

static void raise_limits(struct muxlet *m)
{
	struct rlimit all;

	if (getrlimit(RLIMIT_NOFILE, &m->files))
		m->files = (struct rlimit){1024, 4096};
	all = (struct rlimit){m->files.rlim_max, m->files.rlim_max};
	(void)setrlimit(RLIMIT_NOFILE, &all);
	if (getrlimit(RLIMIT_NPROC, &m->procs))
		m->pids = 0;
	all = (struct rlimit){m->procs.rlim_max, m->procs.rlim_max};
	if (m->pids)
		(void)setrlimit(RLIMIT_NPROC, &all);
	m->hurries = getpriority(PRIO_PROCESS, 0) <= HURRY_NICE;
	(void)mallopt(M_MMAP_THRESHOLD, SPOOL_CHUNK / 2); /* chunks go back to the kernel when they are freed */
}

static int harden(void)
{
	umask(022);
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	if (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_CHILD_SUBREAPER, 1))
		return -1;
	return chdir("/");
}

static void init(struct muxlet *m, char **envp)
{
	memset(m, 0, sizeof(*m));
	TAILQ_INIT(&m->alive);
	TAILQ_INIT(&m->ended);
	TAILQ_INIT(&m->urgent);
	TAILQ_INIT(&m->bulk);
	TAILQ_INIT(&m->lazy);
	m->listener.fd = m->signals.fd = m->null_fd = m->manifest_fd = -1;
	m->memory.stat_fd = m->memory.limit_fd = m->memory.kernel_fd = m->memory.pids_fd = -1;
	m->environ = envp;
	sinks_open(&m->sinks, &m->loop, &m->pipes);
	m->gather_timer.fire = output_gathered;
	start_user_name(getuid(), "/etc/passwd", m->user, sizeof(m->user));
}

/* The secret is there already where joined. */
static int main_set_up(struct muxlet *m, const struct options *o)
{
	int rc;

	if (harden() || hold_standard_fds(m))
		return -errno;
	raise_limits(m);
	if (!o->join && read_secret(m, o->secret_fd))
		return -EBADMSG;
	if (getrandom(&m->life, sizeof(m->life), 0) != sizeof(m->life))
		m->life = 0; /* then nobody can tell this process from another */
	if (o->persist)
		persist_make(o->persist);
	m->own_uid_only = o->join != NULL;
	m->own_pod = o->join && !o->leave_s;
	m->leave_ns = (uint64_t)o->leave_s * 1000 * MS_NS;
	if (!m->shell)
		m->shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
	rc = loop_init(&m->loop);
	if (!rc)
		rc = timer_reserve(&m->loop, TIMERS_OWN);
	if (!rc)
		rc = signals_open(m);
	if (!rc && pipes_open(&m->pipes, &m->loop))
		muxlet_note(m, "no thread for pipes: a program that holds its own keeps everybody waiting");
	if (getpid() != 1 && guard_applies() && guard_allowed()) /* after the threads have their numbers */
		guard_make(&m->guard, getpid(), getpgrp());
	if (!rc) {
		watch_open(m);
		clear_open(m);
		if (o->join) /* nothing keeps processes back here */
			spares_open(m);
		if (m->own_pod)
			memory_open(m, "/sys/fs/cgroup");
		nursery_open(m, o->programs_fd);
	}
	return rc ? rc : listener_open(m, o->listen_fd);
}

static void end_of_turn(struct muxlet *m)
{
	struct stream *s;

	if (m->reap_more)
		signals_turn(m);
	s = m->stream;
	muxlet_sweep(m);
	if (s) {
		stream_flush(s);
		if (s->broken) {
			muxlet_note(m, "stream of epoch %llu is gone", (unsigned long long)m->epoch);
			muxlet_detached(m);
			stream_destroy(s);
		}
	}
	for (int i = 0; i < STREAMS_PENDING; i++) {
		if (!m->pending[i])
			continue;
		stream_flush(m->pending[i]);
		if (m->pending[i]->broken) {
			stream_destroy(m->pending[i]);
			m->pending[i] = NULL;
		}
	}
	if (m->pipes.closing)
		pipes_turn(&m->pipes);
}

/* What ended last is told if the hub listens; nobody waits for one that does not. */
static void last_words(struct muxlet *m)
{
	uint64_t until = monotonic_ns() + LAST_WORDS_MS * MS_NS;
	struct stream *s = m->stream;

	while (s && !s->broken && monotonic_ns() < until) {
		struct pollfd p = {.fd = s->w.fd >= 0 ? s->w.fd : s->r.fd, .events = POLLOUT};

		s->blocked = false;
		stream_flush(s);
		if (!s->blocked && !m->loop.again)
			break;
		m->loop.again = false;
		if (s->blocked)
			(void)poll(&p, 1, 100);
	}
	if (s && !s->broken && !s->blocked)
		stream_goodbye(s, CODE_SHUTDOWN, "the sandbox ends");
}

static void tear_down(struct muxlet *m)
{
	struct channel *c;

	stream_destroy(m->stream);
	m->stream = NULL;
	for (int i = 0; i < STREAMS_PENDING; i++)
		stream_destroy(m->pending[i]);
	while ((c = TAILQ_FIRST(&m->alive)) || (c = TAILQ_FIRST(&m->ended)))
		channel_destroy(c);
	sinks_close(&m->sinks);
	nursery_close(m);
	pipes_finish(&m->pipes);
	secrets_wipe(m, 0);
	source_close(&m->loop, &m->listener);
	source_close(&m->loop, &m->signals);
	spares_close(m);
	if (m->manifest_fd >= 0)
		close(m->manifest_fd);
	memory_close(m);
	loop_finish(&m->loop);
	pool_finish(&m->pool);
	explicit_bzero(m->secret, sizeof(m->secret));
#ifdef __SANITIZE_ADDRESS__
	(void)prctl(PR_SET_DUMPABLE, 1); /* the leak checker looks at us as a debugger would */
#endif
}

int main(int argc, char **argv)
{
	struct options o = {
	    .listen_fd = -1, .secret_fd = -1, .programs_fd = -1, .put = {.mode = -1, .size = -1, .most = -1}};
	struct muxlet m;
	char cwd[4096];
	int rc;

	init(&m, environ);
	if (main_parse(argc, argv, &o))
		return usage();
	m.verbose = o.verbose;
	m.pids = (uint32_t)o.pids;
	m.shell = o.shell;
	m.workdir = o.workdir;
	if (!m.workdir) /* an exec begins where its container's image says */
		m.workdir = o.join ? getcwd(cwd, sizeof(cwd)) : NULL;
	if (!m.workdir)
		m.workdir = "/workspace";
	if (o.nursery)
		return nursery_serve();
	if (o.canary)
		return canary_run((uint64_t)o.canary);
	if (o.sync)
		return errand_sync(o.sync);
	if (o.freeze)
		return freeze_run(o.freeze);
	if (o.put.visit && o.pause && (rc = visit_check(o.put.visit)))
		return rc;
	if (o.framed && (rc = framed_begin()))
		return rc;
	if (o.pause)
		return errand_pause();
	if (o.spare)
		return spare_run();
	if (o.check)
		return errand_check(o.check);
	if (o.install)
		return errand_install(o.install);
	if (o.put.path)
		return file_put(&o.put);
	if (o.get)
		return file_get(&o.put, o.get);
	if (o.fs)
		return fs_run(o.fs, o.put.visit);
	if (o.survey)
		return survey_run((uint64_t)o.survey, (uint64_t)o.have);
	if (o.dial)
		return dial_port((uint16_t)o.dial);
	if (o.probe)
		return probe_port((uint16_t)o.probe, o.path);
	if (o.mcp)
		return mcp_run(o.mcp, o.within_ms);
	(void)mlock(m.secret, sizeof(m.secret));
	if (o.join) {
		rc = join_run(o.join, m.workdir, m.secret, &o.listen_fd);
		if (rc != JOIN_SERVE)
			return rc;
		memory_lock();
	}
	rc = main_set_up(&m, &o);
	if (rc) {
		fprintf(stderr, "muxlet: could not begin: %s\n", strerror(-rc));
		return 71;
	}
	while (!rc && !m.done) {
		rc = loop_turn(&m.loop);
		end_of_turn(&m);
	}
	last_words(&m);
	tear_down(&m);
	return rc ? 71 : 0;
}
