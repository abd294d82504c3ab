#include "control/local/host.h"

#include "base/err.h"
#include "base/text.h"
#include "control/local/image.h"
#include "control/local/seccomp_filter.h"
#include "control/local/spawn.h"
#include "control/local/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS_MAX    60000
#define UID_RESERVED 65520  /* from here to 65535: nobody, and -1 of 16 bits */
#define UID_SUBIDS   100000 /* from here on uids are often given to users of their own sandboxes */

/* Since 5.14 processes are counted by user and user namespace; before, by user: ours are the daemon's, without root. */
static bool counts_by_sandbox(bool root)
{
	struct utsname u;
	unsigned major, minor;

	if (root)
		return true;
	return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 14));
}

/* -1 when there is no such file. */
static long sysctl_number(const char *path)
{
	char text[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return strtol(text, NULL, 10);
}

static int userns_missing(int errnum, struct err *e)
{
	if (sysctl_number("/proc/sys/user/max_user_namespaces") == 0)
		return err_set(e, ERR_MISSING,
			       "user namespaces are switched off: sysctl user.max_user_namespaces is 0");
	if (sysctl_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		return err_set(e, ERR_MISSING,
			       "user namespaces are switched off: sysctl kernel.unprivileged_userns_clone is 0");
	if (sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		return err_set(e, ERR_MISSING,
			       "user namespaces are refused: sysctl kernel.apparmor_restrict_unprivileged_userns is 1");
	return err_set(e, ERR_MISSING, "user namespaces are refused to users here: %s", strerror(errnum));
}

/* Tried, not concluded from settings: as the first sandbox's uid, in a process of its own. */
static int userns_probe(const struct local *l, struct err *e)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		uid_t uid = l->uid_base;

		if (l->root &&
		    (setgroups(0, NULL) != 0 || setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0))
			_exit(0);
		_exit(unshare(CLONE_NEWUSER) == 0 ? 0 : errno & 0x7f);
	}
	if (pid < 0)
		return err_sys(e, errno, "cannot fork");
	while (waitpid(pid, &status, 0) < 0) {
		if (errno == ECHILD) /* somebody reaps for us: then bwrap itself will tell */
			return 0;
		if (errno != EINTR)
			return err_sys(e, errno, "cannot wait for a process of ours");
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return userns_missing(WIFEXITED(status) ? WEXITSTATUS(status) : EPERM, e);
}

static int muxlet_check(const struct local *l, struct err *e)
{
	if (access(l->muxlet, X_OK) != 0)
		return err_set(e, ERR_MISSING, "the program muxlet is not at %s: %s", l->muxlet, strerror(errno));
	return 0;
}

int host_probe(struct local *l, struct err *e)
{
	struct err why = {0};
	int rc = tool_find("bwrap", l->bwrap, sizeof(l->bwrap), NULL);

	if (rc)
		return err_set(e, ERR_MISSING, "bwrap is not installed (package bubblewrap)");
	rc = muxlet_check(l, e);
	rc = rc ? rc : userns_probe(l, e);
	rc = rc ? rc : seccomp_filter_make(&l->filter, &l->filter_size, e);
	if (rc == 0 && l->root)
		rc = spawn_staging(&l->staging, e);
	if (rc)
		return rc;
	cgroup_layout_read(&l->layout);
	l->counts_by_sandbox = counts_by_sandbox(l->root);
	if (!l->root)
		snprintf(l->loops_why, sizeof(l->loops_why), "muxd does not run as root");
	else if (image_loops_check(&why) == 0)
		l->loops = true;
	else
		text_format(l->loops_why, sizeof(l->loops_why), "%.120s", why.message);
	return 0;
}

/*
 * A directory keeps its slot for as long as it is there, asleep or not. From a base below 65520 the uids skip those up
 * to 65535, which mean something else everywhere, and end where the ranges of /etc/subuid begin.
 */
void slots_range(struct local *l, uint32_t uid_base)
{
	l->uid_base = uid_base;
	l->slots_low = l->slots_max = SLOTS_MAX;
	if (!l->root || uid_base >= UID_RESERVED)
		return;
	if (l->slots_low > UID_RESERVED - uid_base)
		l->slots_low = UID_RESERVED - uid_base;
	if (l->slots_max > l->slots_low + (UID_SUBIDS - SLOT_UID_HIGH))
		l->slots_max = l->slots_low + (UID_SUBIDS - SLOT_UID_HIGH);
}

uint32_t slots_high(struct local *l)
{
	uint32_t top = l->slots_max;

	pthread_mutex_lock(&l->lock);
	while (top > l->slots_low && !l->slots[top - 1])
		top--;
	pthread_mutex_unlock(&l->lock);
	return top > l->slots_low ? top - l->slots_low : 0;
}

uint32_t slot_uid(const struct local *l, uint32_t slot)
{
	if (!l->root)
		return geteuid();
	return slot < l->slots_low ? l->uid_base + slot : SLOT_UID_HIGH + (slot - l->slots_low);
}

int slot_take(struct local *l, uint32_t *out, struct err *e)
{
	uint32_t i = 0;

	pthread_mutex_lock(&l->lock);
	while (i < l->slots_max && l->slots[i])
		i++;
	if (i < l->slots_max)
		l->slots[i] = 1;
	pthread_mutex_unlock(&l->lock);
	if (i == l->slots_max)
		return err_limit(e, ERR_LIMIT, &(struct err_share){"fixed.sandboxes", "daemon", i, i, 60},
				 "no room for another sandbox: all of the %u that there may be from this "
				 "privsep.sandbox_uid_base on have a directory",
				 i);
	*out = i;
	return 0;
}

void slot_mark(struct local *l, uint32_t slot)
{
	pthread_mutex_lock(&l->lock);
	if (slot < l->slots_max)
		l->slots[slot] = 1;
	pthread_mutex_unlock(&l->lock);
}

void slot_release(struct local *l, uint32_t slot)
{
	pthread_mutex_lock(&l->lock);
	if (slot < l->slots_max)
		l->slots[slot] = 0;
	pthread_mutex_unlock(&l->lock);
}

/*
 * The boot clock never steps back within a boot, and a muxlet never outlives
 * one: so it orders streams over restarts of the monitor without a write to
 * disk for each connection. Two in one nanosecond are told apart here.
 */
uint64_t epoch_next(struct local *l)
{
	uint64_t now = clock_boot_ns();

	pthread_mutex_lock(&l->lock);
	if (now <= l->last_epoch)
		now = l->last_epoch + 1;
	l->last_epoch = now;
	pthread_mutex_unlock(&l->lock);
	return now;
}
