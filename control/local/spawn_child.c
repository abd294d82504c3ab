#include "control/local/spawn_child.h"

#include "base/descriptors.h"
#include "base/niceness.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FD_PATH_MAX 32

static void report(int status, enum spawn_stage stage, int errnum)
{
	struct spawn_report r = {.pid = getpid(), .stage = (int32_t)stage, .error = errnum};

	(void)!send(status, &r, sizeof(r), MSG_NOSIGNAL);
}

static void spawn_child_fail(const struct spawn_child *c, enum spawn_stage stage) __attribute__((noreturn));
static void spawn_child_fail(const struct spawn_child *c, enum spawn_stage stage)
{
	report(c->status, stage, errno);
	_exit(127);
}

#define KEEP_MAX (CMDLINE_FD_DATA + CMDLINE_DATA_MAX + CGROUP_KINDS + 2)

static void spawn_child_keep(int *list, int *n, int fd)
{
	int i = *n;

	if (fd < 0)
		return;
	for (; i > 0 && list[i - 1] > fd; i--)
		list[i] = list[i - 1];
	list[i] = fd;
	(*n)++;
}

/*
 * Before anything that waits: among what the fork copied are the other ends of
 * our own sockets, and those of starts in other threads. Held here, they would
 * keep their peers from ever seeing the parent's death.
 */
static void close_others(const struct spawn_child *c)
{
	int list[KEEP_MAX];
	int n = 0, next = 0;

	spawn_child_keep(list, &n, c->status);
	spawn_child_keep(list, &n, c->p->workspace_fd);
	for (int i = 0; i < c->nfds; i++)
		spawn_child_keep(list, &n, c->fds[i]);
	for (int i = 0; i < c->p->ncgroup_fds; i++)
		spawn_child_keep(list, &n, c->p->cgroup_fds[i]);
	for (int i = 0; i < n; next = list[i++] + 1)
		if (list[i] > next && close_range((unsigned)next, (unsigned)list[i] - 1, 0) != 0)
			spawn_child_fail(c, STAGE_DESCRIPTORS);
	if (close_range((unsigned)next, ~0U, 0) != 0)
		spawn_child_fail(c, STAGE_DESCRIPTORS);
}

/* Says its pid and waits for the word to go on; the parent's death is a no. */
static void introduce(const struct spawn_child *c)
{
	char word;
	ssize_t n;

	report(c->status, STAGE_END, 0);
	do
		n = recv(c->status, &word, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(126);
}

static void reset_signals(void)
{
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP)
			signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * As root in the sandbox's own mount namespace, where nobody else looks. Rare: a kernel without mapped mounts, or a
 * plain directory whose sandbox.json was lost. A directory's owner changes after all in it, so a walk that was cut is
 * done again.
 */
static int chown_tree(const struct spawn_child *c)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	const char *argv[] = {"chown", "-Rh", "--", c->owner, c->workspace, NULL};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execve("/usr/bin/chown", (char *const *)argv, (char *const *)env);
		execve("/bin/chown", (char *const *)argv, (char *const *)env);
		_exit(127);
	}
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	errno = EPERM;
	return -1;
}

/* Decimal, without stdio; returns behind it. */
static char *spawn_child_put_number(char *to, unsigned long v)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	while (n > 0)
		*to++ = digits[--n];
	*to = '\0';
	return to;
}

/* "/proc/<pid>/<name>" */
static int proc_open(pid_t pid, const char *name, int flags)
{
	char path[64] = "/proc/";
	char *p = spawn_child_put_number(path + strlen(path), (unsigned long)pid);

	*p++ = '/';
	strcpy(p, name);
	return open(path, flags | O_CLOEXEC);
}

/* One id on the disk is one id here. */
static int map_write(pid_t pid, const char *name, unsigned long on_disk, unsigned long here)
{
	char line[64];
	int fd = proc_open(pid, name, O_WRONLY);
	char *p = spawn_child_put_number(line, on_disk);
	ssize_t n;

	if (fd < 0)
		return -1;
	*p++ = ' ';
	p = spawn_child_put_number(p, here);
	strcpy(p, " 1\n");
	n = write(fd, line, strlen(line));
	close(fd);
	return n == (ssize_t)strlen(line) ? 0 : -1;
}

/* A user namespace with just these two mappings; it lives as long as the descriptor. */
static int map_namespace(const struct spawn_child *c, const struct stat *st)
{
	int fd = -1, ready[2], hold[2];
	char word;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) != 0)
		return -1;
	if (pipe2(hold, O_CLOEXEC) != 0 || (pid = fork()) < 0)
		return -1;
	if (pid == 0) {
		close(hold[1]);
		if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "", 1) == 1)
			(void)!read(hold[0], &word, 1); /* until the other end closes */
		_exit(0);
	}
	close(ready[1]);
	close(hold[0]);
	if (read(ready[0], &word, 1) == 1 && map_write(pid, "uid_map", st->st_uid, c->p->uid) == 0 &&
	    map_write(pid, "gid_map", st->st_gid, c->p->gid) == 0)
		fd = proc_open(pid, "ns/user", O_RDONLY);
	close(hold[1]);
	close(ready[0]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return fd;
}

/*
 * A file system that was made for another uid (the copy of another agent's workspace) is mounted once more, over
 * itself, with its uid mapped to ours: nothing in it is written, however many files it holds. Linux 5.12.
 */
static int map_owner(const struct spawn_child *c, const struct stat *st)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	int ns, tree, rc = -1;

	if (!c->p->loop || st->st_uid == 0)
		return -1;
	ns = map_namespace(c, st);
	tree = ns < 0 ? -1 : open_tree(AT_FDCWD, c->workspace, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree >= 0) {
		attr.userns_fd = (__u64)ns;
		rc = mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	}
	if (rc == 0)
		rc = move_mount(tree, "", AT_FDCWD, c->workspace, MOVE_MOUNT_F_EMPTY_PATH);
	if (tree >= 0)
		close(tree);
	if (ns >= 0)
		close(ns);
	return rc;
}

static void give_workspace(const struct spawn_child *c)
{
	char lost[sizeof(c->workspace) + 16];
	struct stat st;

	if (c->p->fresh) {
		strcpy(lost, c->workspace);
		strcat(lost, "/lost+found");
		rmdir(lost); /* e2fsck makes it again should it need it */
	}
	if (stat(c->workspace, &st) != 0)
		spawn_child_fail(c, STAGE_OWNER);
	if ((st.st_uid != c->p->uid || st.st_gid != c->p->gid) && map_owner(c, &st) != 0 && chown_tree(c) != 0)
		spawn_child_fail(c, STAGE_OWNER);
	/* Its owner may have taken his own rights away, and the sandbox could never start again. */
	if ((st.st_mode & 0700) != 0700 && chmod(c->workspace, (st.st_mode & 07777) | 0700) != 0)
		spawn_child_fail(c, STAGE_OWNER);
}

/* "/proc/self/fd/<n>", without stdio. */
static void fd_path(char out[FD_PATH_MAX], int fd)
{
	strcpy(out, "/proc/self/fd/");
	spawn_child_put_number(out + strlen(out), (unsigned long)fd);
}

/*
 * What is to be bound must be opened within the new namespace: the kernel
 * refuses mounts of another one. The working directory moves along, so the
 * plain workspace is entered before.
 */
static void enter_namespace(const struct spawn_child *c, char workspace[FD_PATH_MAX], char muxlet[FD_PATH_MAX])
{
	int fd;

	if (!c->p->loop && fchdir(c->p->workspace_fd) != 0)
		spawn_child_fail(c, STAGE_WORKSPACE);
	if (unshare(CLONE_NEWNS) != 0)
		spawn_child_fail(c, STAGE_NAMESPACE);
	/* Slave, not private: what the host unmounts later goes away here, too. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
		spawn_child_fail(c, STAGE_PRIVATE);
	fd = open(c->p->muxlet, O_PATH | O_CLOEXEC);
	if (fd < 0)
		spawn_child_fail(c, STAGE_MUXLET);
	fd_path(muxlet, fd);
	fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || chdir("/") != 0)
		spawn_child_fail(c, STAGE_WORKSPACE);
	fd_path(workspace, fd);
}

/* The root of its image; -1: it has none. To be opened within the namespace, before anything is covered. */
static int open_image(const struct spawn_child *c)
{
	int fd = c->p->image ? open(c->p->image, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;

	if (c->p->image && fd < 0)
		spawn_child_fail(c, STAGE_IMAGE);
	return fd;
}

static void bind_image(const struct spawn_child *c, int root)
{
	char path[FD_PATH_MAX];

	if (root < 0)
		return;
	fd_path(path, root);
	if (mkdir(c->image, 0755) != 0 || mount(path, c->image, NULL, MS_BIND, NULL) != 0 ||
	    mount(NULL, c->image, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) != 0)
		spawn_child_fail(c, STAGE_IMAGE);
	close(root);
}

/*
 * The staging directory is covered by a small tmpfs that the sandbox's uid can
 * reach, whatever the rights on the way to the state directory.
 */
static void make_mounts(const struct spawn_child *c)
{
	char workspace[FD_PATH_MAX], muxlet[FD_PATH_MAX];
	int file, image;

	enter_namespace(c, workspace, muxlet);
	image = open_image(c);
	if (mount("muxd", c->p->staging, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k,nr_inodes=16") != 0 ||
	    mkdir(c->workspace, 0700) != 0)
		spawn_child_fail(c, STAGE_STAGING);
	file = open(c->muxlet, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	if (file < 0)
		spawn_child_fail(c, STAGE_STAGING);
	close(file);
	if (c->p->loop ? mount(c->p->loop, c->workspace, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME,
			       "discard,errors=remount-ro") != 0
		       : mount(workspace, c->workspace, NULL, MS_BIND, NULL) != 0)
		spawn_child_fail(c, STAGE_WORKSPACE);
	give_workspace(c);
	if (mount(muxlet, c->muxlet, NULL, MS_BIND, NULL) != 0)
		spawn_child_fail(c, STAGE_MUXLET);
	bind_image(c, image);
}

static void join_groups(const struct spawn_child *c)
{
	for (int i = 0; i < c->p->ncgroup_fds; i++)
		if (write(c->p->cgroup_fds[i], "0", 1) != 1)
			spawn_child_fail(c, STAGE_CGROUP);
}

static void set_limit(const struct spawn_child *c, int what, rlim_t value)
{
	struct rlimit now, want = {.rlim_cur = value, .rlim_max = value};

	if (setrlimit(what, &want) == 0)
		return;
	if (getrlimit(what, &now) != 0)
		spawn_child_fail(c, STAGE_LIMITS);
	if (want.rlim_max > now.rlim_max) /* not every root may raise what was given */
		want.rlim_cur = want.rlim_max = now.rlim_max;
	if (setrlimit(what, &want) != 0)
		spawn_child_fail(c, STAGE_LIMITS);
}

static void set_limits(const struct spawn_child *c)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* When the host runs out of memory, sandboxes go before services. A wish, not a promise. */
	if (fd >= 0) {
		(void)!write(fd, "300", 3);
		close(fd);
	}
	set_limit(c, RLIMIT_CORE, 0);
	set_limit(c, RLIMIT_NOFILE, DESCRIPTORS_SANDBOX);
	if (c->p->root && c->p->nproc_max)
		set_limit(c, RLIMIT_NPROC, c->p->nproc_max);
}

static void take_ids(const struct spawn_child *c)
{
	/*
	 * muxlet passes on everybody's keys: beside a busy program it must not wait for its turn. What it starts begins
	 * at 0, but for the terminals of staff, where others than this sandbox's own programs do not feel that.
	 */
	niceness_set(c->p->own_cpu ? -15 : -5);
	if (setgroups(0, NULL) != 0 || setresgid(c->p->gid, c->p->gid, c->p->gid) != 0 ||
	    setresuid(c->p->uid, c->p->uid, c->p->uid) != 0)
		spawn_child_fail(c, STAGE_IDS);
}

static void place_descriptors(const struct spawn_child *c)
{
	for (int i = 0; i < c->nfds; i++)
		if (dup2(c->fds[i], i) != i)
			spawn_child_fail(c, STAGE_DESCRIPTORS);
	/* All others close with the exec: the status socket's end tells the parent that it worked. */
	if (close_range((unsigned)c->nfds, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
		spawn_child_fail(c, STAGE_DESCRIPTORS);
}

void spawn_child_run(const struct spawn_child *c)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", "LC_ALL=C", NULL};

	close_others(c);
	introduce(c);
	setsid();
	reset_signals();
	umask(022);
	if (c->p->root)
		make_mounts(c);
	else if (chdir("/") != 0)
		spawn_child_fail(c, STAGE_NAMESPACE);
	join_groups(c);
	set_limits(c);
	if (c->p->root)
		take_ids(c);
	place_descriptors(c);
	execve(c->p->cmdline->argv[0], c->p->cmdline->argv, (char *const *)env);
	spawn_child_fail(c, STAGE_EXEC);
}
