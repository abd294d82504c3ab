/*
 * admin.h - admin.sock: the operator's door to the monitor (packets, docs/architecture.md).
 *
 * Callers are known by SO_PEERCRED: root, the daemon's uid, or its owner. Answers
 * may come late and in another order; a "tag" in the question comes back.
 */
#ifndef MUXD_MONITOR_ADMIN_H
#define MUXD_MONITOR_ADMIN_H

struct monitor;
struct admin;

#define ADMIN_CLIENTS_MAX 64

/* Listens on m->listeners.admin, which stays the listeners'. */
int admin_create(struct monitor *m, struct admin **out);
void admin_destroy(struct admin *a); /* NULL-safe; clients see end-of-file */

#endif
