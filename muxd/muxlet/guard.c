#include "muxd/muxlet/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define X32  0x40000000u /* calls of another numbering, which the kernel takes for this machine's */
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* The value that an argument is compared with; of pids the kernel looks at 32 bits, and so do we. */
enum operand { NONE, VALUE, NOT_VALUE, SELF, GROUP, MINUS_GROUP, ALL };

struct condition {
	unsigned arg;
	enum operand is;
	uint32_t value;
};

static const struct rule {
	unsigned nr;
	int error;
	struct condition c[2];
} rules[] = {
    /* limits, processors, the way it is scheduled */
    {SYS_prlimit64, EPERM, {{0, SELF, 0}}},
    {SYS_sched_setaffinity, EPERM, {{0, SELF, 0}}},
    {SYS_sched_setscheduler, EPERM, {{0, SELF, 0}}},
    {SYS_sched_setparam, EPERM, {{0, SELF, 0}}},
    {SYS_sched_setattr, EPERM, {{0, SELF, 0}}},
    {SYS_setpriority, EPERM, {{0, VALUE, PRIO_PROCESS}, {1, SELF, 0}}},
    {SYS_setpriority, EPERM, {{0, VALUE, PRIO_PGRP}, {1, GROUP, 0}}},
    {SYS_setpriority, EPERM, {{0, VALUE, PRIO_USER}}}, /* of any user: there is one */
    {SYS_ioprio_set, EPERM, {{0, VALUE, IOPRIO_WHO_PROCESS}, {1, SELF, 0}}},
    {SYS_ioprio_set, EPERM, {{0, VALUE, IOPRIO_WHO_PGRP}, {1, GROUP, 0}}},
    {SYS_ioprio_set, EPERM, {{0, VALUE, IOPRIO_WHO_USER}}},
    /* signals: to it, its group, everybody; by what names a process without its number; by a descriptor's owner */
    {SYS_kill, EPERM, {{0, SELF, 0}}},
    {SYS_kill, EPERM, {{0, MINUS_GROUP, 0}}},
    {SYS_kill, EPERM, {{0, ALL, 0}}},
    {SYS_tkill, EPERM, {{0, SELF, 0}}},
    {SYS_tgkill, EPERM, {{0, SELF, 0}}},
    {SYS_tgkill, EPERM, {{1, SELF, 0}}},
    {SYS_rt_sigqueueinfo, EPERM, {{0, SELF, 0}}},
    {SYS_rt_tgsigqueueinfo, EPERM, {{0, SELF, 0}}},
    {SYS_rt_tgsigqueueinfo, EPERM, {{1, SELF, 0}}},
    {SYS_pidfd_open, EPERM, {{0, SELF, 0}}},
    {SYS_pidfd_send_signal, ENOSYS, {{0, NONE, 0}}}, /* a directory of /proc will do as its descriptor */
    {SYS_fcntl, EPERM, {{1, VALUE, F_SETOWN}, {2, SELF, 0}}},
    {SYS_fcntl, EPERM, {{1, VALUE, F_SETOWN}, {2, MINUS_GROUP, 0}}},
    {SYS_fcntl, EPERM, {{1, VALUE, F_SETOWN_EX}}}, /* the owner is behind a pointer */
    {SYS_ioctl, EPERM, {{1, VALUE, FIOSETOWN}}},
    {SYS_ioctl, EPERM, {{1, VALUE, SIOCSPGRP}}},
    /* parts of the kernel that nothing here needs */
    {SYS_socket, EPROTONOSUPPORT, {{0, VALUE, AF_NETLINK}, {2, NOT_VALUE, NETLINK_ROUTE}}},
};

static void guard_add(struct guard *g, struct sock_filter one)
{
	if (g->n < GUARD_MAX)
		g->code[g->n++] = one;
}

static struct sock_filter guard_load(size_t at)
{
	return (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)at);
}

/* Whom the calls are kept from: a process, its threads from the first number to the last, and its group. */
struct guarded {
	pid_t self, first, last, group;
};

static uint32_t guard_value_of(const struct condition *c, const struct guarded *who)
{
	switch (c->is) {
	case SELF:
		return (uint32_t)who->self;
	case GROUP:
		return (uint32_t)who->group;
	case MINUS_GROUP:
		return (uint32_t)-who->group;
	case ALL:
		return UINT32_MAX;
	case NONE:
	case VALUE:
	case NOT_VALUE:
		break;
	}
	return c->value;
}

static size_t condition_size(const struct condition *c)
{
	return c->is == SELF ? 4 : 2;
}

/* Little-endian: an argument's low half comes first. `past`: instructions behind the condition, to where it fails. */
static void add_condition(struct guard *g, const struct condition *c, const struct guarded *who, size_t past)
{
	uint8_t no = c->is == NOT_VALUE ? 0 : (uint8_t)past, yes = c->is == NOT_VALUE ? (uint8_t)past : 0;

	guard_add(g, guard_load(offsetof(struct seccomp_data, args) + 8 * (size_t)c->arg));
	if (c->is == SELF) {
		guard_add(g, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)who->first, 0, 1));
		guard_add(g, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)who->last, 0, 1));
	}
	guard_add(g, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, guard_value_of(c, who), yes, no));
}

static void add_rule(struct guard *g, const struct rule *r, const struct guarded *who)
{
	size_t n = 0, left = 1; /* the answer */

	for (; n < 2 && r->c[n].is != NONE; n++)
		left += condition_size(&r->c[n]);
	guard_add(g, guard_load(offsetof(struct seccomp_data, nr)));
	guard_add(g, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0, (uint8_t)left));
	for (size_t i = 0; i < n; i++) {
		left -= condition_size(&r->c[i]);
		add_condition(g, &r->c[i], who, left);
	}
	guard_add(g, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)r->error));
}

/* The threads of pipes (pipes.h), begun before any program is; without one it is the process's own number. */
static void threads_find(struct guarded *who)
{
	char path[32];
	struct dirent *e;
	DIR *d;

	who->first = who->last = who->self;
	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)who->self);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		pid_t id = (pid_t)strtol(e->d_name, NULL, 10);

		if (id <= 0 || id == who->self)
			continue;
		if (who->first == who->self || id < who->first)
			who->first = id;
		if (who->last == who->self || id > who->last)
			who->last = id;
	}
	if (d)
		closedir(d);
}

void guard_make(struct guard *g, pid_t self, pid_t group)
{
	struct guarded who = {.self = self, .group = group};
	static const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
					refuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);

	g->n = 0;
	threads_find(&who);
#ifdef ARCH
	guard_add(g, guard_load(offsetof(struct seccomp_data, arch)));
	guard_add(g, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
	guard_add(g, refuse); /* programs of another machine, whose numbers mean other calls */
#ifdef X32
	guard_add(g, guard_load(offsetof(struct seccomp_data, nr)));
	guard_add(g, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1));
	guard_add(g, refuse);
#endif
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].nr != SYS_socket || geteuid() != 0) /* who may configure a network has use for it */
			add_rule(g, &rules[i], &who);
	guard_add(g, allow);
#else
	(void)who, (void)allow, (void)refuse;
#endif
}

bool guard_applies(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

/* Without a program to lay: who would take one complains of that alone. */
bool guard_allowed(void)
{
	return (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) < 0 && errno == EFAULT) ||
	       (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0 && errno == EFAULT);
}

int guard_lay(const struct guard *g)
{
	struct sock_fprog p = {.len = g->n, .filter = (struct sock_filter *)(uintptr_t)g->code};

	/* Without the speculation bit kernels before 5.16 make every program slower; it is for who runs others' code.
	 */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &p) == 0)
		return 0;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) == 0)
		return 0;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0);
}
