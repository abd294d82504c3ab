/*
 * state.h - sandbox.json: what must be known about a sandbox after the monitor was started again.
 *
 * Written whole and synced before a sandbox gets its secret, so a sandbox that
 * runs is always in it. It holds the secret of the link and therefore stays
 * 0600 in a 0700 directory. Contents are trusted (only the monitor can write
 * them) but checked: a file cut by a crash is ERR_CORRUPT, never half believed.
 *
 * States: STOPPED -> RUNNING -> STOPPED | ERROR -> RUNNING. RUNNING in the file
 * means "was started"; whether it lives is asked of the kernel (found.h).
 */
#ifndef CONTROL_LOCAL_STATE_H
#define CONTROL_LOCAL_STATE_H

#include "base/clock.h"
#include "control/local/cgroup.h"
#include "control/local/found.h"
#include "control/sandbox.h"

#define STATE_NAME "sandbox.json"

/* Written before the new workspace takes the name: which of both is there is asked of the directory (by inode). */
struct state_restoring {
	struct id id; /* nil: none was begun */
	uint64_t inode;
	bool read_only, was_read_only;
};

struct state {
	enum sandbox_state state;
	struct id sandbox_id;
	uint32_t slot;      /* outside uid = base + slot (root) */
	uint32_t uid;       /* the outside uid itself */
	struct found init;  /* process 1 of the sandbox, seen from outside */
	struct found outer; /* bwrap, which waits for it */
	char boot_id[CLOCK_BOOT_ID_LEN];
	int64_t created_wall_ns;
	uint64_t epoch; /* highest handed out when this was written */
	uint8_t secret[SANDBOX_SECRET_LEN];
	struct cgroup cgroup;
	bool cap_enforced, memory_enforced, pids_enforced, cpu_enforced;
	bool read_only;     /* programs inside may not write to the workspace */
	struct id restored; /* the snapshot that the workspace is, until the sandbox that was started on it ends; nil */
	char image[SANDBOX_IMAGE_MAX + 1], image_digest[SANDBOX_IMAGE_DIGEST_LEN]; /* of its last start; "": none */
	struct resources asked, limits; /* of its last start; zeros in files of before */
	struct state_restoring restoring;
	char detail[256]; /* what this mode does not promise */
	char error[256];  /* why state is ERROR */
};

void state_init(struct state *s);
void state_finish(struct state *s); /* wipes the secret */
/* ERR_NOT_FOUND, ERR_CORRUPT. */
int state_load(int dir, struct state *out, struct err *e);
int state_save(int dir, const struct state *s, struct err *e);
/* Every change of state goes through here and into the log at debug. */
void state_set(struct state *s, const char *agent, enum sandbox_state to);
/* Does it run, in this boot, as exactly the process that was started? */
bool state_alive(const struct state *s);
void state_info(const struct state *s, const char *agent, struct sandbox_info *out);

#endif
