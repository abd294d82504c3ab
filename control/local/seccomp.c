/* The filter of system calls for a local sandbox, made once by libseccomp and handed to bubblewrap as bytes. */
#include "control/local/seccomp_filter.h"

#include "base/err.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILTER_MAX (64 * 1024)

/* Newer than the headers of Debian 12's libseccomp knows by name: resolved at run time, skipped when unknown. */
static const char *const refused[] = {
    /* keys of the kernel belong to uids, not to sandboxes */
    "add_key", "keyctl", "request_key",
    /* kernel programming and inspection */
    "bpf", "perf_event_open", "lookup_dcookie", "kcmp", "syslog", "fanotify_init",
    /* page faults handled by the program: the favourite tool for winning kernel races */
    "userfaultfd",
    /* modules, other kernels, reboot, accounting, swap, quota, clocks, raw ports */
    "init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module", "kexec_load",
    "kexec_file_load", "reboot", "acct", "swapon", "swapoff", "quotactl", "quotactl_fd", "nfsservctl", "settimeofday",
    "clock_settime", "clock_adjtime", "adjtimex", "stime", "iopl", "ioperm", "vhangup", "vm86", "vm86old", "uselib",
    "sethostname", "setdomainname",
    /* mounts and namespaces */
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "setns", "open_by_handle_at",
    /* memory of other nodes, binding of other processes' pages */
    "move_pages", "migrate_pages"};

/* Programs ask for these and go on without when the kernel seems not to have them. */
static const char *const absent[] = {"io_uring_setup", "io_uring_enter", "io_uring_register", "clone3"};

static int add_names(scmp_filter_ctx ctx, const char *const *names, size_t n, int errnum)
{
	for (size_t i = 0; i < n; i++) {
		int nr = seccomp_syscall_resolve_name(names[i]);
		int rc;

		if (nr == __NR_SCMP_ERROR)
			continue;
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(errnum), nr, 0);
		if (rc && rc != -EDOM) /* not a call of this architecture */
			return rc;
	}
	return 0;
}

/* clone3 hides its flags behind a pointer and is absent above; the C library then takes clone. */
static int add_namespaces(scmp_filter_ctx ctx)
{
	static const uint64_t flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
					 CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(flags) / sizeof(flags[0]); i++) {
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
		if (rc == 0)
			rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1,
					      SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));
	}
	/* CLONE_NEWTIME shares its bit with clone's exit signal, so it is named for unshare alone. */
	return rc ? rc
		  : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWTIME, CLONE_NEWTIME));
}

#define LOW    UINT64_C(0xffffffff) /* all the kernel looks at of a pid: comparing 64 bits would be walked around */
#define MUXLET 1

/* Numbers by their upper bits: 1, then 2 and 3, 4 to 7, 8 to 15, which are muxlet and its threads
 * (muxd/muxlet/pipes.h). */
#define NUMBERS    4
#define NUMBER(i)  (UINT64_C(1) << (i))
#define SAME_AS(i) (LOW & ~(NUMBER(i) - 1))

static int add_one(scmp_filter_ctx ctx, int nr, unsigned arg, uint64_t mask, uint64_t value)
{
	struct scmp_arg_cmp cmp = {.arg = arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
	int rc = seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO(EPERM), nr, 1, &cmp);

	return rc == -EDOM ? 0 : rc;
}

static int add_two(scmp_filter_ctx ctx, int nr, uint64_t which, uint64_t mask, uint64_t who)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), nr, 2, SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, which),
				SCMP_A1(SCMP_CMP_MASKED_EQ, mask, who));
}

/*
 * What would change muxlet, which is process 1 and of the same user, by the number of any of its threads. What reads
 * or writes its memory is refused by the kernel, for it is not dumpable. A set of all processes of a user has muxlet in
 * it, whoever is named: there is one user. muxd/muxlet/guard.c has the same for pods.
 */
static int add_muxlet(scmp_filter_ctx ctx)
{
	static const int by_pid[] = {SCMP_SYS(prlimit64),
				     SCMP_SYS(sched_setaffinity),
				     SCMP_SYS(sched_setscheduler),
				     SCMP_SYS(sched_setparam),
				     SCMP_SYS(sched_setattr),
				     SCMP_SYS(kill),
				     SCMP_SYS(tkill),
				     SCMP_SYS(tgkill),
				     SCMP_SYS(rt_sigqueueinfo),
				     SCMP_SYS(rt_tgsigqueueinfo),
				     SCMP_SYS(pidfd_open)};
	int rc = 0;

	for (unsigned n = 0; rc == 0 && n < NUMBERS; n++) {
		uint64_t id = NUMBER(n), mask = SAME_AS(n);

		for (size_t i = 0; rc == 0 && i < sizeof(by_pid) / sizeof(by_pid[0]); i++)
			rc = add_one(ctx, by_pid[i], 0, mask, id);
		rc = rc ? rc : add_one(ctx, SCMP_SYS(tgkill), 1, mask, id);
		rc = rc ? rc : add_one(ctx, SCMP_SYS(rt_tgsigqueueinfo), 1, mask, id);
		rc = rc ? rc : add_two(ctx, SCMP_SYS(setpriority), PRIO_PROCESS, mask, id);
		rc = rc ? rc : add_two(ctx, SCMP_SYS(ioprio_set), IOPRIO_WHO_PROCESS, mask, id);
	}
	rc = rc ? rc : add_two(ctx, SCMP_SYS(setpriority), PRIO_PGRP, LOW, MUXLET);
	rc = rc ? rc : add_one(ctx, SCMP_SYS(setpriority), 0, LOW, PRIO_USER);
	rc = rc ? rc : add_two(ctx, SCMP_SYS(ioprio_set), IOPRIO_WHO_PGRP, LOW, MUXLET);
	return rc ? rc : add_one(ctx, SCMP_SYS(ioprio_set), 0, LOW, IOPRIO_WHO_USER);
}

/* Unix, IPv4, IPv6 and netlink's routes stay. AF_VSOCK in particular is not bound to a network namespace. */
static int add_families(scmp_filter_ctx ctx)
{
	int rc = 0;

	for (uint64_t family = 0; rc == 0 && family < AF_NETLINK; family++)
		if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
			rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
					      SCMP_A0(SCMP_CMP_EQ, family));
	rc = rc ? rc
		: seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
				   SCMP_A0(SCMP_CMP_GT, AF_NETLINK));
	/* A pair of another family is none, but the kernel loads that family's module before it says so; TIPC has
	 * pairs. */
	rc = rc ? rc
		: seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socketpair), 1,
				   SCMP_A0(SCMP_CMP_NE, AF_UNIX));
	/* Interfaces and addresses are asked for by C libraries. XFRM, netfilter, generic and the rest by nobody here.
	 */
	return rc ? rc
		  : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
				     SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE));
}

/* The kernel looks at 32 bits of the request; comparing all 64 would be walked around with a high bit. */
static int add_ioctls(scmp_filter_ctx ctx)
{
	static const uint64_t requests[] = {TIOCSTI, TIOCLINUX};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(requests) / sizeof(requests[0]); i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
				      SCMP_A1(SCMP_CMP_MASKED_EQ, UINT64_C(0xffffffff), requests[i]));
	return rc;
}

static int filter_fill(scmp_filter_ctx ctx)
{
	int rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));

	/* As a binary tree: a list would cost every call a comparison with each of the refused. */
	rc = rc ? rc : seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	rc = rc ? rc : add_names(ctx, refused, sizeof(refused) / sizeof(refused[0]), EPERM);
	rc = rc ? rc : add_names(ctx, absent, sizeof(absent) / sizeof(absent[0]), ENOSYS);
	rc = rc ? rc : add_namespaces(ctx);
	rc = rc ? rc : add_muxlet(ctx);
	rc = rc ? rc : add_families(ctx);
	return rc ? rc : add_ioctls(ctx);
}

static int filter_export(scmp_filter_ctx ctx, void **out, size_t *out_size)
{
	int fd = memfd_create("seccomp", MFD_CLOEXEC);
	struct stat st;
	void *bytes = NULL;
	int rc = fd < 0 ? -errno : seccomp_export_bpf(ctx, fd);

	if (rc == 0 && (fstat(fd, &st) != 0 || st.st_size <= 0 || st.st_size > FILTER_MAX))
		rc = -EIO;
	if (rc == 0 && !(bytes = malloc((size_t)st.st_size)))
		rc = -ENOMEM;
	if (rc == 0 && pread(fd, bytes, (size_t)st.st_size, 0) != (ssize_t)st.st_size)
		rc = -EIO;
	if (fd >= 0)
		close(fd);
	if (rc) {
		free(bytes);
		return rc;
	}
	*out = bytes;
	*out_size = (size_t)st.st_size;
	return 0;
}

int seccomp_filter_make(void **out, size_t *out_size, struct err *e)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int rc = ctx ? filter_fill(ctx) : -ENOMEM;

	rc = rc ? rc : filter_export(ctx, out, out_size);
	seccomp_release(ctx);
	return rc ? err_sys(e, -rc, "cannot make the filter of system calls") : 0;
}
