/*
 * service_ends.h - which services of an agent are done, so that a daemon that comes after this one does not begin them
 * again in the same sandbox.
 *
 * One row for each agent and service in control.db: of the last one that is done, by its sandbox and its definition.
 * They go with the wipe of the agent's workspace.
 */
#ifndef CONTROL_SERVERS_SERVICE_ENDS_H
#define CONTROL_SERVERS_SERVICE_ENDS_H

#include <stddef.h>

struct err;
struct id;
struct store;

struct service_end {
	const char *agent, *service, *definition;
	const struct id *sandbox;
};
/* Written in the order of the calls; texts are copied. why: how it ended. A failure is in the log alone. */
void service_ends_put(struct store *s, const struct service_end *at, const char *why);
/* The service is begun again, and so it is not done. */
void service_ends_forget(struct store *s, const struct service_end *at);
/* 0, with how it ended; ERR_NOT_FOUND: it is not known to be done there; or the store's error. */
int service_ends_get(struct store *s, const struct service_end *at, char *out_why, size_t size, struct err *e);

#endif
