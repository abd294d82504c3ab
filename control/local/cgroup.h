/*
 * cgroup.h - limits of memory, processes and CPU, on version 1, 2 or both at once.
 *
 * A layout says where groups may be made, per controller: below the daemon's
 * own group where that can be written, else below the root of the hierarchy.
 * A sandbox's groups are <there>/muxd-<instance>/<agent>, one per hierarchy.
 * What cannot be written is left out and has an empty path: not enforced.
 *
 * The group of memory has two leaves: "keep" with muxlet and the terminals of staff, "programs" with all else. The
 * limit is the group's, and the programs' is less by a reserve: however they fill theirs, those in keep find memory
 * at once; the rest is anybody's. Where no leaf can be made all are in the group itself, as in sandboxes of before.
 * On version 2 a group with processes of its own cannot hand controllers down,
 * so the daemon's own group serves only where it was delegated for that.
 */
#ifndef CONTROL_LOCAL_CGROUP_H
#define CONTROL_LOCAL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* The last one limits nothing: version 1 counts there what a group uses; version 2 counts it with CGROUP_CPU. */
enum cgroup_kind { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_ACCOUNT, CGROUP_KINDS };

#define CGROUP_PATH_MAX 768
#define CGROUP_PLACES   3

struct cgroup_place { /* candidates in order of preference, "" ends them */
	char dir[CGROUP_PLACES][CGROUP_PATH_MAX];
};
struct cgroup_layout {
	struct cgroup_place v1[CGROUP_KINDS];
	struct cgroup_place v2;
};
struct cgroup_limits {
	uint64_t memory_max; /* bytes; 0 = no limit */
	uint32_t pids_max, cpu_milli;
	uint32_t weight; /* of 100, for processor time; 0: the kernel's default, which is the same */
};
struct cgroup {
	char path[CGROUP_KINDS][CGROUP_PATH_MAX]; /* "" = not enforced; on version 2 the same path each time */
	bool v2[CGROUP_KINDS];
};

const char *cgroup_kind_name(enum cgroup_kind k);
/* From the texts of /proc/self/mountinfo and /proc/self/cgroup. */
void cgroup_layout_parse(const char *mountinfo, const char *self, struct cgroup_layout *out);
void cgroup_layout_read(struct cgroup_layout *out);

/* Never fails: what could not be made or limited has an empty path in *out. */
void cgroup_make(const struct cgroup_layout *l, const char *instance, const char *agent,
		 const struct cgroup_limits *lim, struct cgroup *out);
/* Groups of this name that are there already, e.g. of a start that was cut short. */
void cgroup_find(const struct cgroup_layout *l, const char *instance, const char *agent, struct cgroup *out);
/* Descriptors of cgroup.procs for muxlet to write "0" into, one per hierarchy; returns how many. ERR_SYS. */
int cgroup_open_procs(const struct cgroup *g, int out_fds[CGROUP_KINDS], struct err *e);
/* The same of the leaf for programs; -1: there is none. */
int cgroup_open_programs(const struct cgroup *g);
/* What of that much memory programs alone do not get. */
uint64_t cgroup_reserve(uint64_t memory_max);
/* Kills by the kernel for want of memory since the group was made. */
uint32_t cgroup_oom_kills(const struct cgroup *g);
/* Processor time that it has used since it was made. -ENOENT: nobody counts it. */
int cgroup_used(const struct cgroup *g, uint64_t *out_ns);
/*
 * Behind (cpu.idle, Linux 5.15): a group beside it that wakes has the processor at once, and it has what they leave.
 * Else it has its weight again. 0 or a negative errno; -ENOENT: the kernel does not know it.
 */
int cgroup_set_behind(const struct cgroup *g, bool behind, uint32_t weight);
bool cgroup_is_behind(const struct cgroup *g);
/* Calls each for every agent that has a group for its processor time. */
void cgroup_each(const struct cgroup_layout *l, const char *instance, void (*each)(void *arg, const char *agent),
		 void *arg);
/* Kills whatever is in it and removes it, with the instance's group when that is empty. ERR_TIMEOUT. */
int cgroup_remove(const struct cgroup *g, uint64_t deadline_ns, struct err *e);
/* The instance's own groups, where they are empty: who was killed between one group and the other left them. */
void cgroup_tidy(const struct cgroup_layout *l, const char *instance);

#endif
