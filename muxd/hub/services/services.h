/*
 * services.h - the services of agents: programs that run inside a sandbox for as long as it is awake.
 *
 * A service is a round without an end in time, begun by the hub through the link as soon as that is up: after a
 * sandbox was made, woken, or begun anew, and after a restart of the daemon, which finds the ones that run by the
 * record and begins none twice. It is the agent's, as its list says (control/servers/service_def.h): it runs under
 * nobody's grant, and what it does is no activity. Its output is in the record as any round's; the end of it is its
 * log. Whether it is healthy muxlet looks at, inside (muxlet --probe), in no session.
 *
 * Who asks for a port of a service that is not healthy waits for it (service_wait.h). A stop ends services one after
 * the other, the last of the list first, by TERM, ahead of its snapshot.
 *
 * States: the table in service_state.c. ABSENT -> STARTING (its round begins) -> WARMING (it runs, and is not healthy
 * yet)
 * -> HEALTHY <-> UNHEALTHY. Whatever ends by itself goes to BACKING_OFF, longer each time, and then begins anew; after
 * so many deaths in a row it is HELD, until somebody says otherwise or its sandbox begins anew. DONE: it ended, and its
 * list says that this is well. ENDING: it was told to.
 *
 * Owned by the hub: one for each agent and name.
 */
#ifndef MUXD_HUB_SERVICES_SERVICES_H
#define MUXD_HUB_SERVICES_SERVICES_H

#include "base/json.h"
#include "control/life/life.h"

#include <stdbool.h>
#include <stddef.h>

struct agent;
struct err;
struct hub;
struct services;

#define SERVICE_LOG_MAX (64 * 1024) /* bytes of a service's log */

/* Its list is that now (lists_get()): what is not in it as it is ends, what is new begins where the sandbox is awake.
 */
void services_configured(struct hub *h, const char *agent, const json_t *list);
/* An entry of its list, with {state, why, program, healthy, failures, restarts, retry_in_ms, since_ms}. Stolen. */
json_t *service_show(struct hub *h, const char *agent, json_t *entry);
/* The last bytes of what it said to stdout and stderr; "" where nothing of it is in memory. NULL: no memory. */
json_t *service_log(struct hub *h, const char *agent, const char *name, size_t most);
/* [{service, state, data}] of those of an agent that are in memory. NULL: there is none, or no memory. */
json_t *services_log(struct hub *h, const char *agent, size_t most);
/* Begun anew now, and held no more. ERR_NOT_FOUND, ERR_BAD_STATE: its sandbox is not awake. */
int service_restart(struct hub *h, const char *agent, const char *name, const char *by, struct err *e);
int service_check_awake(struct hub *h, const char *agent, const char *name, struct err *e); /* ERR_BAD_STATE */

/* Ahead of a snapshot with which its sandbox ends: they are ended, one after the other. done: once, when none runs. */
void services_settle(struct hub *h, const char *agent, life_host_done *done, void *arg);

int services_create(struct hub *h, struct services **out); /* ERR_NOMEM */
void services_tick(struct hub *h);
bool services_rest(const struct hub *h); /* nothing is waited for */
void services_leave(struct hub *h);      /* the hub goes: programs are let go of, ahead of its sessions */
void services_destroy(struct hub *h);    /* and who waits hears ERR_CANCELLED */

#endif
