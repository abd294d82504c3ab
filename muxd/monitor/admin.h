/*
 * admin.h - admin.sock: the operator's door to the monitor (packets, docs/conversations.md).
 *
 * Callers are known by SO_PEERCRED: root, the daemon's uid, or its owner. Answers
 * may come late and in another order; a "tag" in the question comes back. What cannot be done before the daemon has
 * started waits for that, 5 s at most.
 *
 * The operations are handed in as a table. Each call is answered exactly once, now or later; the caller may be gone by
 * then.
 */
#ifndef MUXD_MONITOR_ADMIN_H
#define MUXD_MONITOR_ADMIN_H

#include "base/err.h"
#include "muxd/monitor/request.h"

#include <sys/queue.h>
#include <sys/types.h>

struct monitor;
struct admin;
struct client;

#define ADMIN_CLIENTS_MAX 64

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
	struct err but; /* what is in force is not kept; code 0: it is */
};

#define ADMIN_LATER 1
struct admin_op {
	const char *name;
	/* 0 and *out, which is stolen (NULL: no memory); ERR_*; ADMIN_LATER: admin_answer() follows, or was there. */
	int (*run)(struct admin_call *call, const json_t *msg, json_t **out, struct err *e);
	bool always; /* also while the daemon starts or ends */
};
/* adminops.c: everything that can be asked; the last has no name. */
extern const struct admin_op admin_ops[];

/* Listens on m->listeners.admin, which stays the listeners'. ops: for as long as it lives. */
int admin_create(struct monitor *m, const struct admin_op *ops, struct admin **out);
void admin_destroy(struct admin *a); /* NULL-safe; clients see end-of-file */
void admin_started(struct admin *a); /* NULL-safe; the daemon has started, or ends: nobody waits for that any more */
/* o is stolen; NULL answers "out of memory". Frees the call. */
void admin_answer(struct admin_call *call, json_t *o);

#endif
