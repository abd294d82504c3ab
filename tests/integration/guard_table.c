/*
 * Run inside a sandbox, by muxlet: every call by which a program could change muxlet, with every way to name a process,
 * and what must come of it. A static program, so that it runs in any image. Prints one line per surprise; exit 1 then.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH(pid) ((long)((uint64_t)(uint32_t)(pid) | UINT64_C(0x5ead000000000000)))

enum who {
	MUXLET,
	MUXLET_HIGH,
	THREAD,
	THREAD_HIGH,
	GROUP,
	EVERYBODY,
	USER,
	OWN_USER,
	ZERO,
	OWN,
	CHILD,
	CHILD_HIGH,
	NOBODY,
	WHOS
};
static const char *const who_names[] = {"muxlet",
					"muxlet with high bits",
					"muxlet's thread",
					"its thread with high bits",
					"muxlet's group",
					"everybody",
					"the user",
					"one's own user",
					"0",
					"oneself",
					"a child",
					"a child with high bits",
					"nobody"};

static long ids[WHOS];
static int tried, surprises;
static pid_t muxlet, child;

/* `which` counts in calls that take two; the others are given it and do not look. */
typedef long call_fn(long which, long who);

static struct rlimit limit;
static cpu_set_t cpus;
static struct sched_param normal;
static struct {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t a, b, c;
} attr = {48, SCHED_OTHER, 0, 0, 0, 0, 0, 0};
static siginfo_t info = {.si_code = SI_QUEUE};

static long do_prlimit(long which, long who)
{
	return syscall(SYS_prlimit64, who, RLIMIT_NOFILE, &limit, NULL);
}
static long do_affinity(long which, long who)
{
	return syscall(SYS_sched_setaffinity, who, sizeof(cpus), &cpus);
}
static long do_scheduler(long which, long who)
{
	return syscall(SYS_sched_setscheduler, who, SCHED_OTHER, &normal);
}
static long do_param(long which, long who)
{
	return syscall(SYS_sched_setparam, who, &normal);
}
static long do_attr(long which, long who)
{
	return syscall(SYS_sched_setattr, who, &attr, 0);
}
static long do_priority(long which, long who)
{
	return syscall(SYS_setpriority, which, who, 19);
}
static long do_ioprio(long which, long who)
{
	return syscall(SYS_ioprio_set, which, who, (2 << 13) | 7);
}
static long do_kill(long which, long who)
{
	return syscall(SYS_kill, who, 0);
}
static long do_tkill(long which, long who)
{
	return syscall(SYS_tkill, who, 0);
}
static long do_tgkill(long which, long who)
{
	return syscall(SYS_tgkill, who, who, 0);
}
static long do_queue(long which, long who)
{
	return syscall(SYS_rt_sigqueueinfo, who, 0, &info);
}
static long do_tgqueue(long which, long who)
{
	return syscall(SYS_rt_tgsigqueueinfo, who, who, 0, &info);
}
static long do_pidfd(long which, long who)
{
	long fd = syscall(SYS_pidfd_open, who, 0);

	if (fd >= 0)
		close((int)fd);
	return fd < 0 ? -1 : 0;
}

/* which: of PRIO_* and IOPRIO_WHO_*, which differ by one; -1: the call has none. users: it can name all of a user. */
static const struct call {
	const char *name;
	call_fn *fn;
	int process, group, user;
	bool zero_is_own; /* 0 means the caller; else it is a group or an error, and harmless */
} calls[] = {
    {"prlimit64", do_prlimit, -1, -1, -1, true},
    {"sched_setaffinity", do_affinity, -1, -1, -1, true},
    {"sched_setscheduler", do_scheduler, -1, -1, -1, true},
    {"sched_setparam", do_param, -1, -1, -1, true},
    {"sched_setattr", do_attr, -1, -1, -1, true},
    {"setpriority", do_priority, PRIO_PROCESS, PRIO_PGRP, PRIO_USER, true},
    {"ioprio_set", do_ioprio, IOPRIO_WHO_PROCESS, IOPRIO_WHO_PGRP, IOPRIO_WHO_USER, true},
    {"kill", do_kill, -1, -1, -1, true},
    {"tkill", do_tkill, -1, -1, -1, false},
    {"tgkill", do_tgkill, -1, -1, -1, false},
    {"rt_sigqueueinfo", do_queue, -1, -1, -1, false},
    {"rt_tgsigqueueinfo", do_tgqueue, -1, -1, -1, false},
    {"pidfd_open", do_pidfd, -1, -1, -1, false},
};

static void expect(const char *name, const char *on, long got, int error, int want)
{
	tried++;
	if (got < 0 ? error == want : want == 0)
		return;
	surprises++;
	printf("%s of %s: %s, expected %s\n", name, on, got < 0 ? strerror(error) : "done",
	       want ? strerror(want) : "done");
}

/* By its owner or by who may trace it: either word will do. */
static void expect_refusal(const char *path, int fd)
{
	expect(path, "muxlet", fd, errno == EPERM ? EACCES : errno, EACCES);
}

static void try_one(const struct call *c, enum who w)
{
	bool of_group = w == GROUP, of_user = w == USER || w == OWN_USER;
	long which = of_group ? c->group : of_user ? c->user : c->process, who = ids[w];
	int want = EPERM;

	if ((of_group || of_user) && which < 0)
		return;
	if (w == EVERYBODY && (c->fn != do_kill || muxlet == 1)) /* process 1 is not among everybody */
		return;
	if (w == ZERO && !c->zero_is_own)
		return;
	if ((w == THREAD || w == THREAD_HIGH) && !who)
		return;
	if (w == ZERO || w == OWN || w == CHILD || w == CHILD_HIGH)
		want = 0;
	if (w == NOBODY)
		want = ESRCH;
	errno = 0;
	long got = c->fn(which, who);
	expect(c->name, who_names[w], got, errno, want);
}

/* Ways that no number names, and those that the kernel refuses of a process that is not dumpable. */
static void try_others(void)
{
	char path[64], byte = 0;
	struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)4096, 1};
	long got;
	int fd;

	got = ptrace(PTRACE_SEIZE, muxlet, NULL, NULL);
	expect("ptrace", "muxlet", got, errno, EPERM);
	got = process_vm_writev(muxlet, &here, 1, &there, 1, 0);
	expect("process_vm_writev", "muxlet", got, errno, EPERM);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)muxlet);
	expect_refusal(path, open(path, O_RDWR));
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)muxlet);
	expect_refusal(path, open(path, O_WRONLY));
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)muxlet);
	expect_refusal(path, open(path, O_RDONLY | O_DIRECTORY));
	/* The process goes on, whatever it is sent by the ways that name no number. */
	snprintf(path, sizeof(path), "/proc/%d", (int)muxlet);
	fd = open(path, O_RDONLY | O_DIRECTORY);
	for (int s = 1; s < 32; s++)
		(void)syscall(SYS_pidfd_send_signal, fd, s, NULL, 0);
	close(fd);
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
		for (int s = 1; s < 32; s++) {
			pid_t owner = muxlet;
			struct f_owner_ex ex = {F_OWNER_PID, muxlet};

			(void)fcntl(pair[0], F_SETSIG, s);
			if (fcntl(pair[0], F_SETOWN, muxlet) && fcntl(pair[0], F_SETOWN_EX, &ex) &&
			    ioctl(pair[0], FIOSETOWN, &owner))
				continue;
			(void)fcntl(pair[0], F_SETFL, O_ASYNC);
			(void)!write(pair[1], "x", 1);
		}
	}
	usleep(200000);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)muxlet);
	expect("living on", "muxlet", access(path, F_OK), errno, 0);
	/* netlink: addresses are asked for by C libraries, the rest by nobody here */
	for (int p = 0; p <= 22; p++) {
		char name[24];

		snprintf(name, sizeof(name), "netlink %d", p);
		got = socket(AF_NETLINK, SOCK_RAW, p);
		expect(name, "socket", got, errno,
		       p == NETLINK_ROUTE || geteuid() == 0 ? got < 0 ? errno : 0 : EPROTONOSUPPORT);
		if (got >= 0)
			close((int)got);
	}
}

/* Every thread but the first; a local muxlet's are those of its pipes, by numbers that are known (muxd/muxlet/pipes.h).
 */
static void try_threads(void)
{
	char path[64];
	struct dirent *e;
	DIR *d;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)muxlet);
	d = opendir(path);
	expect(path, "muxlet", d ? 0 : -1, errno, 0);
	while (d && (e = readdir(d))) {
		long id = atoi(e->d_name);

		if (id <= 0 || id == muxlet)
			continue;
		n++;
		if (muxlet == 1)
			expect("a number that no filter knows", e->d_name, id < 16 ? 0 : -1, EDOM, 0);
		ids[THREAD] = id;
		ids[THREAD_HIGH] = HIGH(id);
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
			try_one(&calls[i], THREAD);
			try_one(&calls[i], THREAD_HIGH);
		}
	}
	if (d)
		closedir(d);
	ids[THREAD] = ids[THREAD_HIGH] = 0;
	expect("the threads that muxlet has", "muxlet", n > 1 ? 0 : -1, ENOENT, 0);
}

int main(void)
{
	muxlet = getppid();
	child = fork();
	if (child == 0) {
		alarm(30);
		for (;;)
			pause();
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	attr.nice = getpriority(PRIO_PROCESS, 0);
	ids[MUXLET] = muxlet, ids[MUXLET_HIGH] = HIGH(muxlet);
	ids[GROUP] = getpgid(muxlet) > 0 ? getpgid(muxlet) : muxlet;
	ids[EVERYBODY] = -1;
	ids[USER] = (long)getuid(), ids[OWN_USER] = 0;
	ids[OWN] = getpid(), ids[CHILD] = child, ids[CHILD_HIGH] = HIGH(child);
	ids[NOBODY] = 0x3ffff0;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (int w = 0; w < WHOS; w++)
			try_one(&calls[i], (enum who)w);
	try_threads();
	try_others();
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("%d tried, %d surprises\n", tried, surprises);
	return surprises != 0;
}
