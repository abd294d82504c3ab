#include "muxd/muxlet/memory.h"

#include "muxd/muxlet/muxlet.h"
#include "muxd/muxlet/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define MIB          (UINT64_C(1) << 20)
#define KEPT_LEAST   (4 * MIB)
#define KEPT_MOST    (128 * MIB)
#define KEPT_SHARE   8
#define LIMIT_NONE   (UINT64_C(1) << 50) /* version 1 has a number for "no limit" */
#define PROCESS_COST (128 * 1024)        /* of the kernel's, for a process that does nothing */
#define STAT_MAX     8192
#define FIRST_NS     (60 * MS_NS) /* an end takes time: between the first and the second look at which it was too much */
#define OVER_NS      (20 * MS_NS)
#define CROWD        256 /* processes and threads */
#define SHARE        4   /* between looks at least this many times what one costs */
#define PATIENCE     4   /* looks in a row after which staff's programs go as well */
#define AGAIN_MOST   12
#define CALM_NS      (10000 * MS_NS) /* after which canaries cost memory for nothing */
#define CANARY_LEAST (4 * MIB)       /* muxlet has as much itself */
#define CANARY_MOST  (16 * MIB)
#define LOOK_LEAST   (10 * MS_NS)
#define LOOK_MOST    (1000 * MS_NS)
#define POOL_SHARE   256 /* of the limit: what programs have printed and nobody has taken */
#define POOL_LEAST   MIB

#ifndef SHARED_MEMORY /* a test has one of its own */
#define SHARED_MEMORY "/dev/shm"
#endif

extern char __executable_start, _end; /* the linker's names */

/* The number behind "name ", at the start of a line; 0 where it is not. */
static uint64_t value(const char *text, const char *prefix, const char *name)
{
	char key[64];
	const char *at = text;
	size_t n = (size_t)snprintf(key, sizeof(key), "%s%s ", prefix, name);

	while ((at = strstr(at, key))) {
		if (at == text || at[-1] == '\n')
			return strtoull(at + n, NULL, 10);
		at += n;
	}
	return 0;
}

static uint64_t memory_number(const char *text)
{
	return text && *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : 0;
}

/* Memory of no file, of files in memory, and what is locked: nothing of it can go where there is no swap. */
static uint64_t pages_held(const char *stat, const char *prefix)
{
	return value(stat, prefix, "inactive_anon") + value(stat, prefix, "active_anon") +
	       value(stat, prefix, "unevictable");
}

int memory_read(bool v2, const char *stat, const char *limit, const char *kernel, const char *pids,
		struct memory_use *out)
{
	static const char *const kernels[] = {"kernel_stack", "pagetables", "sec_pagetables",
					      "percpu",       "sock",       "slab_unreclaimable"};
	struct memory_use u = {.limit = v2 ? memory_number(limit) : value(stat, "", "hierarchical_memory_limit"),
			       .processes = memory_number(pids)};

	if (!u.limit || u.limit >= LIMIT_NONE)
		return ERANGE;
	u.held = pages_held(stat, v2 ? "" : "total_");
	if (v2) {
		for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
			u.held += value(stat, "", kernels[i]);
	} else {
		uint64_t all = memory_number(kernel), least = u.processes * PROCESS_COST;

		u.held += all < least ? all : least;
	}
	*out = u;
	return 0;
}

uint64_t memory_kept(uint64_t limit)
{
	uint64_t kept = limit / KEPT_SHARE;

	return kept < KEPT_LEAST ? KEPT_LEAST : kept > KEPT_MOST ? KEPT_MOST : kept;
}

uint64_t memory_canary(uint64_t limit)
{
	uint64_t bytes = memory_kept(limit) * 3 / 4 / CANARIES;

	return bytes < CANARY_LEAST ? 0 : bytes > CANARY_MOST ? CANARY_MOST : bytes;
}

uint64_t memory_next_ns(uint64_t room)
{
	uint64_t ns = room * (1000 * MS_NS / MEMORY_RATE);

	return ns < LOOK_LEAST ? LOOK_LEAST : ns > LOOK_MOST ? LOOK_MOST : ns;
}

static int by_size(const void *a, const void *b)
{
	const struct tree_proc *x = a, *y = b;

	if (x->ours != y->ours)
		return x->ours ? 1 : -1;
	return (x->resident < y->resident) - (x->resident > y->resident);
}

size_t memory_choose(struct tree_proc *v, size_t n, uint64_t need, bool staff)
{
	uint64_t sum = 0;
	size_t i = 0;

	if (n)
		qsort(v, n, sizeof(*v), by_size);
	while (i < n && sum < need && (staff || !v[i].ours))
		sum += v[i++].resident;
	return i;
}

/* ---- whom it may take */

static bool is_staff(struct muxlet *m, const struct tree_proc *p)
{
	const struct channel *c = muxlet_find_pid(m, p->pid);

	if (!c)
		c = muxlet_find_pid(m, p->session);
	return c && c->staff;
}

static struct tree_proc *parent_of(struct tree_proc *v, size_t n, const struct tree_proc *p)
{
	for (size_t low = 0; low < n;) {
		size_t mid = (low + n) / 2;

		if (v[mid].pid == p->ppid)
			return &v[mid];
		if (v[mid].pid < p->ppid)
			low = mid + 1;
		else
			n = mid;
	}
	return NULL;
}

/* Of staff: what a person began, its session, and what descends from these. v is in the order of pids. */
static void mark_staff(struct muxlet *m, struct tree_proc *v, size_t n)
{
	bool more = true;

	for (size_t i = 0; i < n; i++)
		v[i].ours = is_staff(m, &v[i]);
	while (more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			const struct tree_proc *parent = v[i].ours ? NULL : parent_of(v, n, &v[i]);

			if (parent && parent->ours)
				v[i].ours = more = true;
		}
	}
}

static size_t without_helpers(const struct muxlet *m, struct tree_proc *v, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].pid != m->nursery.pid && !spares_have(m, v[i].pid) &&
		    !canaries_have(&m->memory.canaries, v[i].pid))
			v[kept++] = v[i];
	return kept;
}

static bool may_end(const struct channel *c)
{
	return c->pid && !c->staff;
}

/*
 * What a program left behind it is in its group still; the number is nobody else's as long as somebody is. A process of
 * that number is somebody else, whom it was given to when all had gone: the leader was reaped.
 */
static size_t end_left_behind(struct muxlet *m, size_t most)
{
	struct memory *mem = &m->memory;
	size_t n = 0;

	for (size_t i = 1; i <= MEMORY_PAST && n < most; i++) {
		pid_t *group = &mem->past[(mem->at + MEMORY_PAST - i) % MEMORY_PAST];

		n += *group && getsid(*group) < 0 && kill(-*group, SIGKILL) == 0;
		*group = 0;
	}
	return n;
}

/*
 * A crowd is not looked through one by one: each look at a process takes memory, and a crowd takes what is left
 * meanwhile. The newest first: all or half of them, and of what ended ones left behind. A signal to a group asks the
 * kernel for nothing. False: there was nobody.
 */
static bool end_newest(struct muxlet *m, bool all)
{
	size_t n = 0, left, behind = end_left_behind(m, all ? MEMORY_PAST : MEMORY_PAST / 4);
	struct channel *c;

	TAILQ_FOREACH(c, &m->alive, place)
	n += may_end(c);
	left = all ? n : behind ? 0 : (n + 1) / 2;
	TAILQ_FOREACH_REVERSE(c, &m->alive, channel_queue, place)
	if (left && may_end(c)) {
		left--;
		c->out_of_memory = true;
		(void)kill(-c->pid, SIGKILL);
	}
	return n + behind > 0;
}

void memory_past(struct muxlet *m, pid_t group)
{
	m->memory.past[m->memory.at++ % MEMORY_PAST] = group;
}

static void end_largest(struct muxlet *m, unsigned again, uint64_t need)
{
	struct tree_proc *v = NULL;
	size_t n = 0, chosen;

	if (tree_descendants(getpid(), &v, &n))
		return;
	mark_staff(m, v, n);
	n = without_helpers(m, v, n);
	chosen = memory_choose(v, n, need << (again < AGAIN_MOST ? again : AGAIN_MOST), again >= PATIENCE);
	for (size_t i = 0; i < chosen; i++) {
		struct channel *c = muxlet_find_pid(m, v[i].pid);

		if (c)
			c->out_of_memory = true;
		tree_tell(&v[i], SIGKILL);
	}
	muxlet_note(m, "short of memory: %zu of %zu programs are ended", chosen, n);
	free(v);
}

static void end_some(struct muxlet *m, uint64_t processes, uint64_t need)
{
	unsigned again = m->memory.again++;

	if (processes <= CROWD || again > 1 || !end_newest(m, again == 1))
		end_largest(m, again, need);
}

/* ---- the looks */

static uint64_t files_at(const char *path)
{
	struct statfs fs;

	if (statfs(path, &fs) || fs.f_type != TMPFS_MAGIC)
		return 0;
	return (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
}

/* Files in memory are nobody's program, and go with none. */
static uint64_t files_held(const struct muxlet *m)
{
	return files_at(m->workdir) + files_at(SHARED_MEMORY);
}

static bool read_text(int fd, char *out, size_t size)
{
	ssize_t n = fd < 0 ? -1 : pread(fd, out, size - 1, 0);

	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static int memory_look(const struct memory *mem, struct memory_use *out)
{
	char stat[STAT_MAX], limit[32], kernel[32], pids[32];

	if (!read_text(mem->stat_fd, stat, sizeof(stat)))
		return EIO;
	(void)read_text(mem->limit_fd, limit, sizeof(limit));
	(void)read_text(mem->kernel_fd, kernel, sizeof(kernel));
	(void)read_text(mem->pids_fd, pids, sizeof(pids));
	return memory_read(mem->v2, stat, limit, kernel, pids, out);
}

/* Canaries there are while memory is short, and for a while after. */
static void keep_canaries(struct muxlet *m, const struct memory_use *u)
{
	struct memory *mem = &m->memory;
	uint64_t now = m->loop.now_ns, bytes = memory_canary(u->limit);

	if (u->held > u->limit / 2 || u->processes > CROWD / 4)
		mem->calm_ns = 0;
	else if (!mem->calm_ns)
		mem->calm_ns = now;
	if (mem->calm_ns && now - mem->calm_ns >= CALM_NS)
		canaries_let_go(&mem->canaries);
	else if (!mem->calm_ns && bytes)
		canaries_keep(&mem->canaries, bytes, m->null_fd, now);
}

/* Programs are ended if they hold too much. How long until the next look. */
static uint64_t memory_judge(struct muxlet *m, const struct memory_use *u)
{
	struct memory *mem = &m->memory;
	uint64_t kept = memory_kept(u->limit), own = canaries_count(&mem->canaries) * memory_canary(u->limit),
		 held = u->held > own ? u->held - own : 0;

	if (held + kept <= u->limit || held <= files_held(m) + kept || m->stopping || m->clearing) {
		mem->again = 0;
		keep_canaries(m, u);
		return memory_next_ns(held + kept < u->limit ? u->limit - kept - held : 0);
	}
	if (!mem->again || held >= mem->held) /* else it is on its way back */
		end_some(m, u->processes, held + kept - u->limit + kept / 2);
	mem->held = held;
	return mem->again == 1 ? FIRST_NS : OVER_NS;
}

/* What a look costs is muxlet's own time: one that waited for a processor is no reason to look later. */
static uint64_t cpu_ns(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 * MS_NS + (uint64_t)t.tv_nsec;
}

static void memory_tick(struct timer *t)
{
	struct muxlet *m = container_of(t, struct muxlet, memory.timer);
	struct memory_use u;
	uint64_t begun = cpu_ns(), wait = LOOK_MOST, took;

	if (memory_look(&m->memory, &u) == 0)
		wait = memory_judge(m, &u);
	took = cpu_ns() - begun;
	timer_arm(&m->loop, t, monotonic_ns() + (wait > SHARE * took ? wait : SHARE * took));
}

/* A canary that had to go was the last warning: what is ended now is all there is of programs. */
void memory_reaped(struct muxlet *m, pid_t pid)
{
	struct memory *mem = &m->memory;

	if (!canaries_reaped(&mem->canaries, pid) || mem->calm_ns || mem->stat_fd < 0)
		return;
	muxlet_note(m, "a canary was ended: memory was full");
	(void)malloc_trim(0); /* what muxlet holds makes it the next */
	mem->again = mem->again ? mem->again : 1;
	mem->held = 0;
	memory_tick(&mem->timer);
}

static int open_in(const char *dir, const char *name)
{
	char path[256];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC);
}

void memory_open(struct muxlet *m, const char *dir)
{
	struct memory *mem = &m->memory;
	struct memory_use u;

	mem->limit_fd = open_in(dir, "memory.max");
	mem->v2 = mem->limit_fd >= 0;
	mem->stat_fd = open_in(dir, mem->v2 ? "memory.stat" : "memory/memory.stat");
	mem->pids_fd = open_in(dir, mem->v2 ? "pids.current" : "pids/pids.current");
	if (!mem->v2)
		mem->kernel_fd = open_in(dir, "memory/memory.kmem.usage_in_bytes");
	if (mem->stat_fd < 0 || memory_look(mem, &u) != 0) {
		memory_close(m);
		return;
	}
	pool_limit(&m->pool, u.limit / POOL_SHARE > POOL_LEAST ? u.limit / POOL_SHARE : POOL_LEAST);
	mem->timer.fire = memory_tick;
	timer_arm(&m->loop, &mem->timer, monotonic_ns() + LOOK_LEAST);
}

void memory_close(struct muxlet *m)
{
	int *fds[] = {&m->memory.stat_fd, &m->memory.limit_fd, &m->memory.kernel_fd, &m->memory.pids_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

void memory_lock(void)
{
	(void)mlock(&__executable_start, (size_t)(&_end - &__executable_start));
}
