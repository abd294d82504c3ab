/*
 * sandboxes.h - control/local from the monitor's loop, on a few worker threads.
 *
 * local.h blocks: for milliseconds, or, where a workspace is copied, for as long as the copy takes. So its calls leave
 * the loop. Jobs about one agent run one after the other, in the order in which they were asked; a question about one
 * that runs does not wait behind a snapshot of it. A question that takes no lock (stat, connect, log) waits for nothing
 * of its agent, and holds nothing back, unless a run of lifecycle asks it. Of several agents' jobs SANDBOX_WORKERS run
 * at once, and no more than SANDBOX_COPIERS of those that copy (one of them an image that a start needs unpacked), so
 * that a start always finds a worker.
 *
 * At most SANDBOX_JOBS_MAX wait, SANDBOX_JOBS_OF_ONE of them about one agent, and what is urgent besides. Of either
 * some places are for what lifecycle's runs ask, which goes ahead of the rest: whoever asks much keeps no sandbox from
 * its start or its end. The end (destroy_all, nothing) cuts short what is being hashed or unpacked: ERR_CANCELLED.
 */
#ifndef MUXD_MONITOR_SANDBOXES_H
#define MUXD_MONITOR_SANDBOXES_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "control/local/local.h"

#include <uv.h>

struct conf_image;
struct sandboxes;

#define SANDBOX_JOBS_MAX    1024
#define SANDBOX_JOBS_KEPT   256 /* of them: for runs alone */
#define SANDBOX_JOBS_OF_ONE 16
#define SANDBOX_KEPT_OF_ONE 4 /* of them: for runs alone */

#define SANDBOX_WORKERS 4 /* libuv's pool has as many */
#define SANDBOX_COPIERS 2
#define SANDBOX_PAGE    100 /* entries of a list at once */

enum sandbox_job {
	JOB_ENSURE,
	JOB_CONNECT,
	JOB_STAT,
	JOB_DESTROY,
	JOB_WIPE,
	JOB_LIST,
	JOB_LOG,
	JOB_SNAPSHOT,
	JOB_SNAPSHOTS,
	JOB_SNAPSHOT_DROP,
	JOB_SNAPSHOT_HASH, /* idle: one at a time, on a thread of its own in the background (base/background.h), and
			      nothing waits for it */
	JOB_RESTORE,
	JOB_DROP_WORKSPACE,
	JOB_DESTROY_ALL, /* this and the next: when all before are done, and before all that come after */
	JOB_NOTHING
};

/* What is not needed for the job is 0 or NULL; texts are copied. */
struct sandbox_question {
	enum sandbox_job job;
	const char *agent; /* NULL for list, destroy_all, nothing; may be for snapshots */
	const char *from;  /* restore: whose snapshot */
	const char *after; /* list, snapshots: the last one of the page before */
	struct id snapshot;
	const struct conf_image *image; /* ensure; NULL: the host's programs */
	struct resources resources;     /* ensure: as asked */
	uint64_t image_size;            /* that it may unpack to */
	bool read_only;
	bool idle;   /* snapshot_hash */
	bool urgent; /* the daemon's own start or end waits for it: no bound holds */
	bool run;    /* a run of lifecycle asks: in the order of its agent, in one of the places kept for runs */
	uint64_t timeout_ns;
	size_t max; /* list, snapshots: entries; log: bytes; 0: SANDBOX_PAGE */
};

struct sandboxes_answer {
	int rc;
	struct err err;
	struct sandbox_info info;           /* ensure, connect, stat, restore, drop_workspace */
	int fd;                             /* ensure, connect: closed after the callback; -1 otherwise */
	struct sandbox_info *list;          /* list */
	struct sandbox_snapshot *snapshots; /* snapshot, snapshots, snapshot_hash */
	size_t n;                           /* of either */
	bool more;                          /* the list goes on after the last one */
	struct buf text;                    /* log */
};
/* Called once for each job that was taken, from the loop. a is borrowed. */
typedef void sandbox_answered(void *arg, const struct sandboxes_answer *a);

/* local becomes its own; NULL: this machine runs none. */
int sandboxes_create(uv_loop_t *loop, struct local *local, struct sandboxes **out);
void sandboxes_destroy(struct sandboxes *s); /* no job may be left: see sandboxes_idle() */
/* ERR_AGAIN: there is no place now (never for what is urgent); ERR_NOMEM. */
int sandboxes_ask(struct sandboxes *s, const struct sandbox_question *q, sandbox_answered *done, void *arg);
bool sandboxes_idle(const struct sandboxes *s);
/* local_look(); 0: this machine runs none. */
unsigned sandboxes_look(struct sandboxes *s);

/* The fields of struct sandbox_info by name; with_secret for net alone. NULL when out of memory. */
json_t *sandbox_info_json(const struct sandbox_info *i, bool with_secret);
json_t *sandbox_snapshot_json(const struct sandbox_snapshot *s);

#endif
