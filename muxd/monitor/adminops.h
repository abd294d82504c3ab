/*
 * adminops.h - what can be asked on admin.sock.
 *
 * One table of operations in adminops.c. Each call is answered exactly once with
 * admin_answer(), now or later; the caller may be gone by then.
 */
#ifndef MUXD_MONITOR_ADMINOPS_H
#define MUXD_MONITOR_ADMINOPS_H

#include "muxd/monitor/request.h"

#include <sys/queue.h>
#include <sys/types.h>

struct monitor;
struct client;

struct admin_call {
	struct monitor *m;
	struct client *client; /* admin.c's */
	json_t *tag;           /* NULL or the asker's */
	char by[48];           /* "uid 1000" */
	uid_t uid;
	pid_t pid;
	STAILQ_ENTRY(admin_call) entry; /* admin.c's, while it waits for the start */
	json_t *msg;
	uint64_t until_ns;
};

/* Is it something that can only be done once the daemon has started, which it has not yet? */
bool adminops_too_early(const struct admin_call *call, const json_t *msg);
void adminops_run(struct admin_call *call, const json_t *msg);
/* admin.c: o is stolen; NULL answers "out of memory". Frees the call. */
void admin_answer(struct admin_call *call, json_t *o);

#endif
