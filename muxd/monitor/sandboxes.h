/*
 * sandboxes.h - control/local from the monitor's loop: one job at a time on a worker thread.
 *
 * local.h blocks for milliseconds, so its calls leave the loop; they leave one
 * after the other, so that it needs no lock. At most SANDBOX_JOBS_MAX wait.
 */
#ifndef MUXD_MONITOR_SANDBOXES_H
#define MUXD_MONITOR_SANDBOXES_H

#include "control/local/local.h"
#include "muxd/base/err.h"
#include "muxd/base/json.h"

#include <uv.h>

struct sandboxes;

#define SANDBOX_JOBS_MAX 1024

enum sandbox_job { JOB_ENSURE, JOB_CONNECT, JOB_STAT, JOB_DESTROY, JOB_WIPE, JOB_LIST, JOB_DESTROY_ALL };

struct sandbox_answer {
	int rc;
	struct err err;
	struct sandbox_info info;  /* ensure, connect, stat */
	int fd;                    /* ensure, connect: closed after the callback; -1 otherwise */
	struct sandbox_info *list; /* list */
	size_t n;
};
/* Called once for each job that was taken, from the loop. a is borrowed. */
typedef void sandbox_answered(void *arg, const struct sandbox_answer *a);

/* local becomes its own; NULL: this machine runs none. */
int sandboxes_create(uv_loop_t *loop, struct local *local, struct sandboxes **out);
void sandboxes_destroy(struct sandboxes *s); /* no job may be left: see sandboxes_idle() */
/* agent: NULL for list and destroy_all. ERR_LIMIT, ERR_NOMEM. */
int sandboxes_ask(struct sandboxes *s, enum sandbox_job job, const char *agent, sandbox_answered *done, void *arg);
bool sandboxes_idle(const struct sandboxes *s);

/* The fields of struct sandbox_info by name; with_secret for net alone. NULL when out of memory. */
json_t *sandbox_info_json(const struct sandbox_info *i, bool with_secret);

#endif
