/*
 * niceness.h - how much processor time a process asks for beside the others of the machine.
 *
 * Where the kernel groups tasks by session (sched(7), "The autogroup feature"; Debian's does), a nice value counts
 * among the tasks of that session alone, and the session has one of its own beside other sessions. In a cgroup of its
 * own for processor time neither of them counts beyond the group.
 */
#ifndef BASE_NICENESS_H
#define BASE_NICENESS_H

/*
 * The calling process, which leads a session of its own, and that session. Best effort: below 0 it needs root or
 * CAP_SYS_NICE. Safe between fork and exec.
 */
void niceness_set(int nice);

#endif
