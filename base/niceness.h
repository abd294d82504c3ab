/*
 * niceness.h - how much processor time a process asks for beside the others of the machine.
 *
 * Where the kernel groups tasks by session (sched(7), "The autogroup feature"; Debian's does), a nice value counts
 * among the tasks of that session alone, and the session has one of its own beside other sessions. In a cgroup of its
 * own for processor time neither of them counts beyond the group.
 */
#ifndef BASE_NICENESS_H
#define BASE_NICENESS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The calling process, which leads a session of its own, and that session. Best effort: below 0 it needs root or
 * CAP_SYS_NICE. Safe between fork and exec.
 */
void niceness_set(int nice);
/*
 * The first thread of pid has its turn ahead of ordinary programs from now on (SCHED_RR, priority 1, sched(7)), or no
 * longer: then its niceness holds again. The first needs root or CAP_SYS_NICE, the second nothing where it is the
 * caller's own. 0 or -errno; no pid is -EINVAL. Safe in a signal handler.
 */
int niceness_ahead(pid_t pid, bool on);
bool niceness_is_ahead(pid_t pid);

#endif
