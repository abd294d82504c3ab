#include "control/local/holder.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "36 35 7:2 / /workspace rw,noatime - ext4 /dev/loop2 rw" */
static bool has_mounted(int proc_dir, const char *device)
{
	char needle[128], *line = NULL;
	size_t cap = 0;
	bool yes = false;
	int fd = openat(proc_dir, "mountinfo", O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (!f) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	snprintf(needle, sizeof(needle), " - ext4 %s ", device);
	while (!yes && getline(&line, &cap, f) > 0)
		yes = strstr(line, needle) != NULL;
	free(line);
	fclose(f);
	return yes;
}

/* From status: the owner of the directory is root where a process is not dumpable. */
static bool has_uid(int proc_dir, uid_t first, uid_t count)
{
	char text[2048];
	int fd = openat(proc_dir, "status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *uid;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	uid = strstr(text, "\nUid:\t");
	return uid && (uid_t)strtoul(uid + 6, NULL, 10) - first < count;
}

/* The pidfd first: what is read afterwards is of the process that it holds, or of none. */
static bool kill_if_holder(int proc, const char *name, const char *device, uid_t first, uid_t count)
{
	int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)strtol(name, NULL, 10), 0);
	int dir = pidfd < 0 ? -1 : openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool killed = dir >= 0 && has_uid(dir, first, count) && has_mounted(dir, device) &&
		      syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;

	if (dir >= 0)
		close(dir);
	if (pidfd >= 0)
		close(pidfd);
	return killed;
}

size_t holder_kill(const char *device, uid_t first, uid_t count)
{
	DIR *proc = opendir("/proc");
	size_t n = 0;

	if (!proc)
		return 0;
	for (struct dirent *de; (de = readdir(proc));)
		if (de->d_name[0] >= '1' && de->d_name[0] <= '9')
			n += kill_if_holder(dirfd(proc), de->d_name, device, first, count);
	closedir(proc);
	return n;
}
