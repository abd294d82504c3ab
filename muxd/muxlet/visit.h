/*
 * visit.h - the root of another container, as muxlet in an ephemeral container beside it sees it: by /proc/PID/root.
 *
 * Such a container shares the processes of its target, whose first has a number that is known, and runs as the same
 * user; nothing is mounted, entered or traced. Paths are resolved inside that root by the kernel: a symbolic link,
 * absolute or with "..", leads nowhere else.
 */
#ifndef MUXD_MUXLET_VISIT_H
#define MUXD_MUXLET_VISIT_H

#include <stddef.h>
#include <sys/types.h>

/*
 * A descriptor of that root in *out_fd. 0, or an errno: EACCES where the user or its capabilities differ, EXDEV when
 * that root is our own, so that no other container's processes are here.
 */
int visit_open(int pid, int *out_fd);
/* path as a program of that container would mean it: a relative one begins where its first process is. 0 or errno. */
int visit_path(int pid, const char *path, char *out, size_t size);
/* open() below root (negative: our own). -1 with errno. */
int visit_open_in(int root, const char *path, int flags);
/* mkdir() likewise. -1 with errno. */
int visit_mkdir_in(int root, const char *path, mode_t mode);
/* Is that root there to be read? The exit code: 0, or the errno, with a sentence on stderr. */
int visit_check(int pid);

#endif
