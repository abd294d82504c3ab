/*
 * tree.h - every process that belongs to a channel, found in /proc.
 *
 * A process belongs when it is in the leader's session, is a descendant of one
 * that belongs, or is an orphan (muxlet's own child by now) that carries the
 * channel's mark in its environment. Zombies do not count. Signals go through pidfds and check the start time again, so
 * that a number that was given to somebody else meanwhile is never hit.
 */
#ifndef MUXD_MUXLET_TREE_H
#define MUXD_MUXLET_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define TREE_MARK     "MUXD_CHANNEL="
#define TREE_MARK_LEN (13 + 36)

/* "MUXD_CHANNEL=xxxxxxxx-xxxx-...", NUL-terminated. */
void tree_mark(const unsigned char session[16], char out[TREE_MARK_LEN + 1]);
struct tree {
	pid_t session;     /* the leader's pid */
	bool leader_alive; /* not reaped yet */
	const char *mark;
	/* Leaders of other channels, whose environment need not be read. */
	bool (*is_leader)(void *arg, pid_t pid);
	void *arg;
};

/*
 * Sends each signal of the 0-ended list to every process of the tree, returns how many live
 * (before the signal took effect); -1 when /proc cannot be read. An empty list only counts.
 */
int tree_signal(const struct tree *t, const int *signals);
/* The same for everything that descends from this process. */
int tree_signal_all(const int *signals);
/* Stops those of them that do not stand still yet; how many these were, -1 as above. */
int tree_stop_all(void);

struct tree_proc {
	pid_t pid, ppid, session;
	unsigned long long started;  /* with the pid: exactly this one */
	unsigned long long resident; /* bytes in memory */
	bool zombie, ours, stopped;
};
/* What descends from that process, by pid, without us; *out is malloc'd. -1 when /proc cannot be read. */
int tree_descendants(pid_t root, struct tree_proc **out, size_t *out_n);
/* Does pid descend from root? One that is gone, or has more ancestors than anybody needs, is taken for one that does;
 * where there is no /proc nobody does. */
bool tree_descends(pid_t pid, pid_t root);
/* To exactly that one, if it is there still. */
void tree_tell(const struct tree_proc *p, int signum);

#endif
