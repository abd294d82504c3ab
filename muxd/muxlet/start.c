#include "muxd/muxlet/start.h"

#include "muxd/muxlet/child.h"
#include "muxd/muxlet/manifest.h"
#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/survey.h"
#include "muxd/muxlet/terminal.h"
#include "muxd/muxlet/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GRACE_MAX_MS   60000
#define TIMEOUT_MAX_MS (UINT64_C(366) * 86400 * 1000)
#define PATH_DEFAULT   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* What a start needs for as long as it takes. */
struct start {
	struct muxlet *m;
	const struct frame_open *o;
	struct channel *c;
	char **words; /* two free slots, argv, NULL, envp, NULL */
	char **argv, **envp;
	const char *path, *shell;
	char *login_name;
	char mark[TREE_MARK_LEN + 1], user[80], shell_var[272];
	bool surveys; /* it gets the manifest */
	struct child_fd more[SECRETS_MAX];
	size_t nmore;
	int fd[3];           /* the child's ends */
	struct birth *birth; /* when it is not made here */
	bool by_spare;       /* the program is made by a spare process that is there already */
	struct child_place place;
};

static bool env_is(const char *entry, const char *name, size_t len)
{
	return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

static const char *env_find(char *const *env, size_t n, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (env_is(env[i], name, len))
			return env[i] + len + 1;
	return NULL;
}

/* Adds an entry unless one of that name is there. */
static void env_add(struct start *s, size_t *n, const char *entry)
{
	size_t len = (size_t)(strchrnul(entry, '=') - entry);

	for (size_t i = 0; i < *n; i++)
		if (env_is(s->envp[i], entry, len))
			return;
	s->envp[(*n)++] = (char *)(uintptr_t)entry;
}

/* The mark, what OPEN says, what the sandbox has, and defaults: the first of a name wins. */
static void build_env(struct start *s, const char *const open_env)
{
	const char *entry = open_env;
	size_t n = 0;

	env_add(s, &n, s->mark);
	for (uint32_t i = 0; i < s->o->envc; i++, entry += strlen(entry) + 1)
		if (!env_is(entry, "MUXD_CHANNEL", 12))
			s->envp[n++] = (char *)(uintptr_t)entry; /* said by the hub: duplicates are its own affair */
	for (char **e = s->m->environ; *e; e++)
		if (!env_is(*e, "MUXD_CHANNEL", 12) && (!env_is(*e, "TERM", 4) || !s->c->pty))
			env_add(s, &n, *e);
	env_add(s, &n, "PATH=" PATH_DEFAULT);
	env_add(s, &n, "HOME=/workspace");
	env_add(s, &n, s->user);
	env_add(s, &n, s->shell_var);
	env_add(s, &n, "LANG=C.UTF-8");
	if (s->c->pty)
		env_add(s, &n, "TERM=xterm-256color");
	s->envp[n] = NULL;
	s->path = env_find(s->envp, n, "PATH");
}

static size_t start_count(char **v)
{
	size_t n = 0;

	while (v[n])
		n++;
	return n;
}

static int build_words(struct start *s)
{
	const char *at = s->o->strings;
	size_t own = start_count(s->m->environ);

	s->words = calloc(s->o->argc + s->o->envc + own + 16, sizeof(char *));
	if (!s->words)
		return ENOMEM;
	s->argv = s->words + 2;
	s->envp = s->argv + s->o->argc + 1;
	for (uint32_t i = 0; i < s->o->argc; i++, at += strlen(at) + 1)
		s->argv[i] = (char *)(uintptr_t)at;
	snprintf(s->user, sizeof(s->user), "USER=%s", s->m->user);
	snprintf(s->shell_var, sizeof(s->shell_var), "SHELL=%s", s->shell);
	tree_mark(s->o->session, s->mark);
	build_env(s, at);
	return 0;
}

/* What argv[0] names, and how the program sees itself called. */
static int name_program(struct start *s, const char **out_file)
{
	const char *base;

	/* The child's own link to what it runs still: us, wherever we lie and whatever PATH says. */
	if (s->o->flags & OPEN_SELF) {
		*out_file = "/proc/self/exe";
		s->c->freezes = s->o->argc > 1 && strcmp(s->argv[1], "--freeze") == 0;
		s->surveys = s->o->argc > 1 && strcmp(s->argv[1], "--survey") == 0;
		return 0;
	}
	*out_file = *s->argv[0] ? s->argv[0] : s->shell;
	if (!*s->argv[0])
		s->argv[0] = (char *)(uintptr_t)s->shell;
	if (!(s->o->flags & OPEN_LOGIN))
		return 0;
	base = strrchr(*out_file, '/');
	base = base ? base + 1 : *out_file;
	s->login_name = malloc(strlen(base) + 2);
	if (!s->login_name)
		return ENOMEM;
	s->login_name[0] = '-';
	memcpy(s->login_name + 1, base, strlen(base) + 1);
	s->argv[0] = s->login_name;
	return 0;
}

static int open_tty(struct start *s)
{
	struct terminal_size size = {s->o->cols, s->o->rows, s->o->xpixel, s->o->ypixel};
	int slave, err = terminal_open(&size, &s->c->out[0].src.fd, &slave);

	if (err)
		return err;
	s->fd[0] = s->fd[1] = s->fd[2] = slave;
	return 0;
}

/* Ours is non-blocking; the child's stays as programs expect it. */
static int open_pipe(int *ours, int *childs, bool child_reads)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		return errno;
	*ours = p[child_reads];
	*childs = p[!child_reads];
	return fcntl(*ours, F_SETFL, O_NONBLOCK | (child_reads ? O_WRONLY : 0)) ? errno : 0;
}

static int open_pipes(struct start *s)
{
	int err = 0;

	if (s->o->flags & OPEN_STDIN)
		err = open_pipe(&s->c->in.fd, &s->fd[0], true);
	else
		s->fd[0] = s->m->null_fd;
	for (int i = 0; i < 2 && !err; i++)
		err = open_pipe(&s->c->out[i].src.fd, &s->fd[i + 1], false);
	return err;
}

static void close_childs(struct start *s)
{
	int fds[3];
	size_t n = 0;

	for (int i = 0; i < 3; i++)
		if (s->fd[i] >= 0 && s->fd[i] != s->m->null_fd && (i == 0 || s->fd[i] != s->fd[0]))
			fds[n++] = s->fd[i];
	channel_give_up(s->c, fds, n);
}

static int by_target(const void *a, const void *b)
{
	return ((const struct child_fd *)a)->to - ((const struct child_fd *)b)->to;
}

/* The same descriptor twice: the later secret is the one that is meant. */
static void collect_secrets(struct start *s)
{
	for (size_t i = 0; i < s->m->nsecrets; i++) {
		const struct waiting_secret *w = &s->m->secrets[i];
		size_t at = 0;

		if (w->channel != s->c->number)
			continue;
		while (at < s->nmore && s->more[at].to != w->target)
			at++;
		s->more[at] = (struct child_fd){w->memfd, w->target};
		s->nmore += at == s->nmore;
	}
	qsort(s->more, s->nmore, sizeof(s->more[0]), by_target);
}

/* Made for the first who asks, and kept: it knows when the first program of this stream may have begun. */
static int give_manifest(struct start *s)
{
	struct muxlet *m = s->m;
	int low;

	if (s->nmore) /* the number is its own */
		return EINVAL;
	if (m->manifest_fd < 0) {
		low = manifest_make(m->first_wall_ns);
		m->manifest_fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, CHILD_SECRET_LAST + 1);
		if (low >= 0)
			close(low);
	}
	if (m->manifest_fd < 0)
		return errno;
	s->more[s->nmore++] = (struct child_fd){m->manifest_fd, SURVEY_FD};
	return 0;
}

/*
 * How many processes there may be when this one is made, and for all that comes of it: who has no right to the reserve
 * gets EAGAIN from fork while there is still room for muxlet and for who has.
 */
static struct rlimit procs_of(const struct start *s)
{
	struct rlimit r = s->m->procs;
	rlim_t most = s->m->pids + s->m->pipes.threads + (s->o->flags & OPEN_RESERVE ? PIDS_RESERVE : 0);

	if (s->m->pids && (r.rlim_max == RLIM_INFINITY || r.rlim_max > most))
		r.rlim_cur = r.rlim_max = most;
	return r;
}

/* Under the child's own limit of processes: the soft one of ours, which we may raise again, is what the kernel looks
 * at. */
static int spawn(struct start *s, struct child *child, const char **at)
{
	struct rlimit own = {s->m->procs.rlim_max, s->m->procs.rlim_max};
	int err;

	child->procs = procs_of(s);
	if (!s->m->pids)
		return child_spawn(child, &s->c->pid, at);
	(void)setrlimit(RLIMIT_NPROC, &(struct rlimit){child->procs.rlim_max, own.rlim_max});
	err = child_spawn(child, &s->c->pid, at);
	(void)setrlimit(RLIMIT_NPROC, &own);
	return err;
}

/* All that is open for it goes along; a later start finds none of its secrets. */
static void give_fds(struct start *s, struct birth *b)
{
	for (int i = 0; i < 3; i++)
		if (s->fd[i] != s->m->null_fd && (i == 0 || s->fd[i] != s->fd[0]))
			b->close[b->nclose++] = s->fd[i];
	for (int i = 0; i < 3; i++)
		s->fd[i] = -1;
	for (size_t i = 0; i < s->m->nsecrets; i++) {
		struct waiting_secret *w = &s->m->secrets[i];

		for (size_t k = 0; k < s->nmore; k++)
			if (w->memfd == s->more[k].from) {
				b->close[b->nclose++] = w->memfd;
				w->memfd = -1;
			}
	}
}

static int start_give(struct start *s, struct child *child)
{
	struct birth *b = calloc(1, sizeof(*b));
	int err = b ? 0 : ENOMEM;

	child->procs = procs_of(s);
	if (b) {
		b->number = nursery_number(s->m);
		err = order_make(child, b->number, &b->order);
	}
	if (err) {
		free(b);
		return err;
	}
	b->channel = s->c;
	give_fds(s, b);
	s->birth = b;
	return 0;
}

/* No process can be made: one that was made ahead may become it, where a person waits for a terminal. */
static int spawn_or_spare(struct start *s, struct child *child, const char **at)
{
	int err = spawn(s, child, at);

	if (err != EAGAIN || strcmp(*at, "spawn") != 0 || !(s->o->flags & OPEN_RESERVE) || !(s->o->flags & OPEN_PTY) ||
	    !spares_ready(s->m))
		return err;
	s->by_spare = true;
	return start_give(s, child);
}

static int launch(struct start *s, const char **at)
{
	bool staff = s->o->flags & OPEN_RESERVE && s->o->flags & (OPEN_PTY | OPEN_SELF);
	struct child child = {.cwd = *s->o->cwd ? s->o->cwd : s->m->workdir,
			      .cwd_optional = !*s->o->cwd,
			      .tty = s->c->pty,
			      .place = &s->place};
	int err;

	*at = "spawn";
	err = build_words(s);
	if (!err)
		err = name_program(s, &child.file);
	if (err)
		return err;
	*at = s->c->pty ? "pty" : "pipe";
	if (!s->c->pty && pipes_held(&s->m->pipes, channel_lane(s->c)))
		return EDEADLK;
	err = s->c->pty ? open_tty(s) : open_pipes(s);
	if (err)
		return err;
	collect_secrets(s);
	if (s->surveys && (err = give_manifest(s)))
		return err;
	child.argv = s->argv;
	child.envp = s->envp;
	child.path = s->path ? s->path : PATH_DEFAULT;
	memcpy(child.fd, s->fd, sizeof(child.fd));
	child.more = s->more;
	child.nmore = s->nmore;
	child.files = s->m->files;
	child.guard = s->m->guard.n && !(s->o->flags & OPEN_SELF) ? &s->m->guard : NULL;
	child.first = s->m->hurries && staff;
	child.nice = s->m->hurries || staff ? 0 : s->m->own_pod ? CHILD_NICE_POD : CHILD_NICE_WORK;
	if (s->m->nursery.state == NURSERY_OFF || staff || s->c->freezes)
		return spawn_or_spare(s, &child, at);
	*at = "spawn";
	return start_give(s, &child);
}

static struct channel *new_channel(struct muxlet *m, const struct frame *f)
{
	const struct frame_open *o = &f->u.open;
	struct channel *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->m = m;
	c->number = f->channel;
	memcpy(c->session, o->session, sizeof(c->session));
	c->pty = o->flags & OPEN_PTY;
	c->staff = o->flags & OPEN_RESERVE;
	c->whole = o->flags & OPEN_TREE;
	c->resumed = true;
	c->in.fd = -1;
	c->in.ready = channel_input_ready;
	c->echo_sent = ECHO_ON | ECHO_CANONICAL;
	c->end_timer.fire = channel_end_tick;
	c->echo_timer.fire = channel_echo_tick;
	c->grace_ns = (o->grace_ms < GRACE_MAX_MS ? o->grace_ms : GRACE_MAX_MS) * MS_NS;
	c->exit.code = -1;
	c->oom_base = watch_oom_count(m);
	for (int i = 0; i < 2; i++) {
		c->out[i].src.fd = -1;
		c->out[i].src.ready = output_ready;
		c->out[i].channel = c;
		c->out[i].stream = (uint8_t)(i + 1);
		c->out[i].window = o->window;
		spool_init(&c->out[i].spool, &m->pool);
	}
	return c;
}

/* Whether it is there yet or not: input may come, and its time runs. */
static void start_begin(struct channel *c, const struct frame_open *o)
{
	c->in_closed = !c->pty && c->in.fd < 0;
	channel_limit(c, o->timeout_ms < TIMEOUT_MAX_MS ? o->timeout_ms * MS_NS : 0,
		      o->flags & OPEN_IDLE && o->idle_ms < TIMEOUT_MAX_MS ? o->idle_ms * MS_NS : 0);
}

static void say_opened(struct channel *c, unsigned ms)
{
	c->opened_pending = !c->listed;
	muxlet_lazy(c, ms);
}

static void started(struct channel *c)
{
	struct muxlet *m = c->m;

	channel_set_state(c, CHANNEL_RUNNING);
	channel_limit_begin(c);
	c->session_pid = c->pid;
	LIST_INSERT_HEAD(&m->by_pid[(unsigned)c->pid % BUCKETS], c, by_pid);
	say_opened(c, STREAM_OPENED_MS);
	output_update(&c->out[0]);
	output_update(&c->out[1]);
}

static void without_program(struct channel *c)
{
	for (int i = 0; i < 2; i++)
		output_let_go(&c->out[i]);
	say_opened(c, 0);
	channel_finish(c);
}

static void not_started(struct channel *c, int err, const char *at)
{
	c->exit.cause = CAUSE_NOT_STARTED;
	c->exit.error = err;
	snprintf(c->exit.at, sizeof(c->exit.at), "%s", at);
	c->opened_code = CODE_SYSTEM;
	without_program(c);
}

/* Bounded whoever wrote it. Without memory the hub is not told. */
static void note_place(struct channel *c, const struct child_place *p)
{
	size_t cwd = strnlen(p->cwd, CHILD_PATH_MAX - 1), program = strnlen(p->program, CHILD_PATH_MAX - 1);

	c->begun = malloc(cwd + program + 1);
	if (!c->begun)
		return;
	memcpy(c->begun, p->cwd, cwd);
	c->begun[cwd] = '\0';
	memcpy(c->begun + cwd + 1, p->program, program);
	c->begun_len = cwd + program + 1;
	c->begun_pending = true;
}

void birth_place(struct birth *b, const struct child_place *place)
{
	note_place(b->channel, place);
}

void birth_settle(struct muxlet *m, struct birth *b, pid_t pid, int err, const char *at)
{
	struct channel *c = b->channel;
	uint64_t signals = b->signals;
	bool ended = b->ended;
	uint8_t cause = b->cause;

	c->birth = NULL;
	birth_free(m, b);
	if (!pid && ended) { /* nothing of it ran, as it was told */
		c->exit.cause = cause;
		without_program(c);
		return;
	}
	if (!pid) {
		not_started(c, err, at);
		return;
	}
	c->pid = pid;
	started(c);
	for (int s = 1; s < 64; s++)
		if (signals & UINT64_C(1) << s)
			channel_signal(c, s);
	if (ended && (m->stopping || m->clearing))
		channel_stop(c);
	else if (ended)
		channel_kill(c, cause);
}

static void start_refuse(struct muxlet *m, uint32_t channel, uint16_t code, const char *text)
{
	stream_put(m->stream, &(struct frame){.type = FRAME_OPENED,
					      .channel = channel,
					      .p = (const uint8_t *)text,
					      .n = strlen(text),
					      .u.opened.code = code});
}

/* Refused without a channel: nothing was begun, so nothing is listed later; the EXIT follows at once. */
static void refuse_new(struct muxlet *m, uint32_t channel, uint16_t code, int err, const char *at, const char *text)
{
	struct frame f = {.type = FRAME_EXIT, .channel = channel};

	start_refuse(m, channel, code, text);
	f.u.exit = (struct frame_exit){.cause = CAUSE_NOT_STARTED, .code = -1, .error = err};
	snprintf(f.u.exit.at, sizeof(f.u.exit.at), "%s", at);
	stream_put(m->stream, &f);
}

static bool session_known(struct muxlet *m, const uint8_t session[16])
{
	struct channel *c;

	TAILQ_FOREACH(c, &m->alive, place)
	if (memcmp(c->session, session, sizeof(c->session)) == 0)
		return true;
	TAILQ_FOREACH(c, &m->ended, place)
	if (memcmp(c->session, session, sizeof(c->session)) == 0)
		return true;
	return false;
}

static bool may_start(struct muxlet *m, const struct frame *f)
{
	if (muxlet_find(m, f->channel)) {
		start_refuse(m, f->channel, CODE_CONFLICT, "the channel is in use");
		return false;
	}
	if (session_known(m, f->u.open.session)) {
		refuse_new(m, f->channel, CODE_CONFLICT, EEXIST, "limit", "the session runs or ran on another channel");
		return false;
	}
	if (m->stopping) {
		refuse_new(m, f->channel, CODE_SHUTDOWN, ESHUTDOWN, "limit", "the sandbox is ending");
		return false;
	}
	if (m->clearing) {
		refuse_new(m, f->channel, CODE_STATE, EAGAIN, "limit", "everything inside is being ended");
		return false;
	}
	if (m->living >= CHANNELS_MAX) {
		refuse_new(m, f->channel, CODE_LIMIT, EAGAIN, "programs", "1024 programs run in this sandbox already");
		return false;
	}
	return true;
}

static int64_t wall_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void start_channel(struct muxlet *m, const struct frame *f)
{
	struct start s = {.m = m, .o = &f->u.open, .shell = m->shell, .fd = {-1, -1, -1}};
	const char *at = "spawn";
	int err;

	m->opens++;
	if (!may_start(m, f))
		goto out;
	s.c = timer_reserve(&m->loop, 2 * (m->living + m->finished + 1) + TIMERS_OWN) ? NULL : new_channel(m, f);
	if (!s.c) {
		refuse_new(m, f->channel, CODE_SYSTEM, ENOMEM, "spawn", "out of memory");
		goto out;
	}
	if (!m->first_wall_ns)
		m->first_wall_ns = wall_ns();
	muxlet_adopt(m, s.c);
	err = launch(&s, &at);
	close_childs(&s);
	if (!err)
		start_begin(s.c, s.o);
	if (err) {
		not_started(s.c, err, at);
	} else if (s.birth) {
		s.c->birth = s.birth;
		if (s.by_spare)
			spares_add(m, s.birth);
		else
			nursery_add(m, s.birth);
	} else {
		note_place(s.c, &s.place);
		started(s.c);
	}
out:
	free(s.words);
	free(s.login_name);
	secrets_wipe(m, f->channel);
}

void start_user_name(unsigned uid, const char *passwd_path, char *out, unsigned long size)
{
	char line[512], name[64];
	unsigned found;
	FILE *f = fopen(passwd_path, "re");

	snprintf(out, size, "sandbox");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%63[^:]:%*[^:]:%u:", name, &found) == 2 && found == uid) {
			snprintf(out, size, "%s", name);
			break;
		}
	if (f)
		fclose(f);
}
