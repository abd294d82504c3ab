/* The nursery's own side: a small process with two descriptors, no secret of muxlet's, and one order at a time. */
#include "muxd/muxlet/guard.h"
#include "muxd/muxlet/nursery.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#define SOCK      3
#define PAGE      4
#define EXIT_BENT 3
#define STACK     (64 * 1024) /* of a child until its exec */

/* What programs inherit and others inside could change. */
struct shape {
	struct rlimit limits[RLIM_NLIMITS];
	int nice, policy;
	cpu_set_t cpus;
};

static void shape_take(struct shape *s)
{
	memset(s, 0, sizeof(*s));
	for (int i = 0; i < RLIM_NLIMITS; i++)
		(void)getrlimit((__rlimit_resource_t)i, &s->limits[i]);
	s->limits[RLIMIT_NPROC].rlim_cur = 0; /* set for each order */
	s->nice = getpriority(PRIO_PROCESS, 0);
	s->policy = sched_getscheduler(0);
	(void)sched_getaffinity(0, sizeof(s->cpus), &s->cpus);
}

struct making {
	const struct child *child;
	struct nursery_page *page;
};

static int nursery_serve_make(void *arg)
{
	const struct making *k = arg;

	child_become(k->child, &k->page->failure);
}

/*
 * As vfork, but the program is muxlet's child. Its pid is in the page before it runs, so that it can end, or we, and
 * muxlet knows.
 */
static void nursery_serve_start(struct child *c, struct nursery_page *page, struct nursery_answer *out)
{
	_Alignas(64) uint8_t stack[STACK];
	struct making k = {c, page};
	struct rlimit own;
	pid_t pid;

	c->place = &page->place;
	/* The kernel looks at the maker's limit of processes. */
	if (getrlimit(RLIMIT_NPROC, &own) == 0) {
		own.rlim_cur = c->procs.rlim_max < own.rlim_max ? c->procs.rlim_max : own.rlim_max;
		(void)setrlimit(RLIMIT_NPROC, &own);
	}
	pid = clone(nursery_serve_make, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD, &k, &page->pid);
#ifdef __SANITIZE_ADDRESS__
	/* The child left its frames by exec, still marked as frames are. */
	__asan_unpoison_memory_region(stack, sizeof(stack));
#endif
	if (pid < 0)
		out->failure = (struct child_failure){errno, CHILD_AT_SPAWN};
	else
		out->failure = (struct child_failure){page->failure.error, page->failure.at};
	out->pid = pid;
}

int nursery_serve(void)
{
	static struct order_box box;
	static struct guard guard;
	struct nursery_page *page =
	    mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, PAGE, 0);
	struct nursery_answer answer;
	struct shape first, now;
	struct child c;
	int rc;

	child_ends_first();
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)prctl(PR_SET_NAME, "muxlet-nursery");
	if (page == MAP_FAILED)
		return errno;
	(void)mlock(page, sizeof(*page)); /* it is there, and there is no swap for it: a wish */
	close(PAGE);
	guard_make(&guard, getppid(), getpgid(getppid())); /* laid where the order says so */
	shape_take(&first);
	while ((rc = order_receive(SOCK, &box, &guard, &c, &answer.number)) == 0) {
		shape_take(&now);
		if (memcmp(&first, &now, sizeof(now)) != 0)
			return EXIT_BENT;
		nursery_serve_start(&c, page, &answer);
		order_close(&box);
		if (send(SOCK, &answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer))
			break;
	}
	return rc > 0 ? rc : 0;
}
