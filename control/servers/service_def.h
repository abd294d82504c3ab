/*
 * service_def.h - one service of an agent, as its configuration names it, and the list of them. Pure.
 *
 * A service is a program that runs inside the sandbox for as long as that is awake. Health: whether its port takes a
 * connection, or answers GET of a path with a status of 200 to 399; without a port it is healthy as long as it runs. A
 * list is JSON that was checked here (program_def.h); views borrow from it.
 */
#ifndef CONTROL_SERVERS_SERVICE_DEF_H
#define CONTROL_SERVERS_SERVICE_DEF_H

#include "control/servers/program_def.h"

#include <stdint.h>

struct err;

#define SERVICE_NAME_MAX PROGRAM_NAME_MAX

enum service_restart { SERVICE_ALWAYS, SERVICE_ON_FAILURE, SERVICE_NEVER };

struct service_def {
	const char *name, *cwd;          /* cwd NULL: the workspace */
	const json_t *argv, *env;        /* texts; env NULL: none */
	int64_t port;                    /* on the loopback inside; 0: none */
	const char *path;                /* GET of it is its health; NULL: a connection is */
	int64_t interval_ms, timeout_ms; /* of health: between two looks, and of one */
	enum service_restart restart;
	int64_t backoff_ms, backoff_max_ms; /* before it is begun anew: at first, and at the most */
	int64_t attempts;                   /* so many deaths in a row, and it is held */
	int64_t start_timeout_ms;           /* until it has to be healthy; for so long a request waits for it */
	int64_t stop_timeout_ms;            /* from TERM to KILL */
};

/*
 * A list as a client sends it, [{name, argv, cwd, env, port, health: {path, interval_ms, timeout_ms}, restart: {policy,
 * backoff_ms, backoff_max_ms, attempts}, start_timeout_ms, stop_timeout_ms}]: *out is a copy with nothing but these,
 * and what was left out. ERR_INVAL, ERR_TOO_LARGE, ERR_CONFLICT (a name or a port twice), ERR_SECRET_REFUSED; the
 * message has the place.
 */
int service_list_check(const json_t *list, json_t **out, struct err *e);
/* An entry of a list that was checked. ERR_INVAL: it is none. */
int service_def_read(const json_t *entry, struct service_def *out, struct err *e);
const char *service_restart_name(enum service_restart r); /* "always", "on_failure", "never" */

#endif
