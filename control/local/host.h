/*
 * host.h - what is inside struct local: the host's abilities, the configured sizes, the slots.
 *
 * Found out once by local_create(). Afterwards only the slots and the last
 * epoch change, under the lock; everything else may be read by any thread.
 */
#ifndef CONTROL_LOCAL_HOST_H
#define CONTROL_LOCAL_HOST_H

#include "control/local/cgroup.h"
#include "control/local/local.h"
#include "control/local/state.h"

#include <pthread.h>

struct local {
	char *state_dir; /* absolute */
	char *muxlet;
	char *archiver;
	char *shell, *persist, *weights;
	char instance[ID_STR_LEN];
	bool root;
	int base, images; /* DIR/sandboxes, DIR/images */
	char bwrap[64];
	const char *staging; /* root */
	bool loops;
	char loops_why[128]; /* when not */
	struct cgroup_layout layout;
	void *filter;
	size_t filter_size;
	uint64_t workspace_size, create_timeout_ns;
	struct cgroup_limits limits; /* of programs */
	struct hogs *hogs;
	bool counts_by_sandbox; /* a resource limit of processes counts those of one sandbox alone */
	uint32_t uid_base, slots_max;
	uint32_t slots_low; /* so many of them have uids from uid_base on, the others from SLOT_UID_HIGH on */

	pthread_mutex_t lock; /* of what follows */
	uint8_t *slots;       /* one byte each: taken */
	uint64_t last_epoch;
};

/* bwrap, user namespaces, loop devices, control groups. ERR_MISSING names what is not there. */
int host_probe(struct local *l, struct err *e);

#define SLOT_UID_HIGH 65536
/* Processes and threads that a sandbox may have beyond its limit: for staff (48, muxd/muxlet/muxlet.h) and for muxlet
 * (14 at pipes, muxd/muxlet/pipes.h). */
#define PIDS_KEPT 80

/* How many slots there are, and which uids they have. root must be set. */
void slots_range(struct local *l, uint32_t uid_base);
/* How many uids from SLOT_UID_HIGH on sandboxes may have now. Others of them may be people's. */
uint32_t slots_high(struct local *l);
/* The outside uid of a slot; without root everybody's. */
uint32_t slot_uid(const struct local *l, uint32_t slot);
/* ERR_LIMIT: all are taken. */
int slot_take(struct local *l, uint32_t *out, struct err *e);
void slot_mark(struct local *l, uint32_t slot);
void slot_release(struct local *l, uint32_t slot);
/* Higher than any handed out before to any sandbox of this boot. */
uint64_t epoch_next(struct local *l);

#define WORKSPACE_NAME "workspace" /* a plain one; image.h has the other */
#define LOG_NAME       "log"
/* A restore makes these, which then take their names. */
#define IMAGE_NEW     IMAGE_NAME ".new"
#define WORKSPACE_NEW WORKSPACE_NAME ".new"

/* local.c: an agent's name; a pod's is ERR_UNSUPPORTED. */
int local_check_agent(const char *agent, struct err *e);
/* The state of a locked directory, begun when there is none, with a slot of its own. */
int local_state_get(struct local *l, int dir, const char *agent, struct state *s, struct err *e);
/* All but its snapshots; the locked directory too, where there are none. slot: its state's. */
int local_wipe(struct local *l, int dir, const char *agent, uint32_t slot, struct err *e);
/* There is no more than snapshots, if that. */
bool local_is_wiped(int dir);
void local_info(const struct state *s, int dir, const char *agent, struct sandbox_info *out);
/* workspace.c */
/* An image or a directory. */
bool workspace_exists(int dir);
/* A restore that was cut short, or whose end could not be noted: what is there is found out, and s says it. */
void workspace_settle(int dir, struct state *s);
/* Both, and what a cut restore has left. */
int workspace_remove(int dir, struct err *e);
/* Removes what a death in mid-restore or mid-snapshot left of this agent. */
void local_clean(struct local *l, int dir, const char *agent, const struct state *s);

/* start.c: dir is locked, s its loaded state. */
/* Starts one that does not run, with nothing left of an earlier one; s is saved, *out_fd a first stream to it. */
int start_sandbox(struct local *l, int dir, const char *agent, struct state *s, const struct local_shape *shape,
		  int *out_fd, struct err *e);
/* Another stream. ERR_NOT_FOUND: nobody listens; ERR_UNAVAILABLE: muxlet does not take streams. */
int start_connect(int dir, const char *agent, int *out_fd, struct err *e);
/* The sandbox lives and has no socket: a monitor died in the middle of its start, or of its end. */
bool start_cut_short(int dir, const struct state *s);
/* Ends what runs and clears away what it leaves: processes, loop device, groups, socket. Bounded (5 s). */
int end_sandbox(struct local *l, int dir, const char *agent, struct state *s, struct err *e);

#endif
