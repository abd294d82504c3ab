/*
 * admin.h - admin.sock: the operator's door to the monitor (packets, docs/architecture.md).
 *
 * Callers are known by SO_PEERCRED: root, the daemon's uid, or its owner. Answers
 * may come late and in another order; a "tag" in the question comes back. What cannot be done before the daemon has
 * started waits for that, 5 s at most.
 */
#ifndef MUXD_MONITOR_ADMIN_H
#define MUXD_MONITOR_ADMIN_H

struct monitor;
struct admin;

#define ADMIN_CLIENTS_MAX 64

/* Listens on m->listeners.admin, which stays the listeners'. */
int admin_create(struct monitor *m, struct admin **out);
void admin_destroy(struct admin *a); /* NULL-safe; clients see end-of-file */

void admin_started(struct admin *a); /* NULL-safe; the daemon has started, or ends: nobody waits for that any more */

#endif
