/*
 * launch.h - what a client asked to have started, checked and owned.
 *
 * Owner: the session that comes of it (session.launch), until launch_finish(). Secrets are wiped once OPEN has gone.
 */
#ifndef MUXD_HUB_SESSION_LAUNCH_H
#define MUXD_HUB_SESSION_LAUNCH_H

#include "base/ids.h"
#include "control/work/work.h"
#include "muxd/hub/session/contexts.h"
#include "muxd/hub/session/exec_spec.h"
#include "muxd/hub/session/shells.h"
#include "muxd/hub/session/transfer.h"
#include "policy/grant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hub;
struct record_rule;

/* What the client asked for, owned. */
struct launch {
	char **argv, **env; /* NULL-ended */
	char *command, *cwd, *exec_id;
	struct transfer *transfer; /* SESSION_FILE, but for one from before a restart */
	uint16_t port;             /* SESSION_PORT: inside, on the loopback */
	uint16_t serves;           /* rounds: of an MCP server that listens there, with which muxlet speaks; 0 */
	char *port_use;            /* SESSION_PORT: what the connection is for; NULL */
	char task[GRANT_NAME_MAX + 1];
	char digest[65];
	struct shell_use shell;     /* rounds; its name "": none */
	struct context_use context; /* rounds; its role NONE: of none */
	char server[65];            /* rounds: the MCP server that it is; "": none */
	char service[65];           /* rounds: the service that it is (services.h); "": none */
	char definition[65];        /* of that: the SHA-256 of its entry in the list */
	bool pty, stdin_open, login;
	unsigned cols, rows, xpixel, ypixel;
	uint8_t *stdin_data;
	size_t stdin_len;
	uint8_t *secret; /* until OPEN is sent; wiped */
	size_t secret_len;
	json_t *artifacts;                        /* rounds: NULL, or control/artifacts/artifact_wish.h */
	struct work_ids *work;                    /* of the sandbox, when it was opened; NULL: it was not leased */
	uint64_t timeout_ns, idle_ns, head, tail; /* timeouts 0: none */
	uint64_t judged_ns;                       /* of a context's round, what a profile limits of timeout_ns */
	struct record_rule *record; /* of its recording, by the profile of its task; NULL: as configured */
};

int launch_from_spec(struct hub *h, const struct grant *g, const struct exec_spec *spec, struct launch *out,
		     struct err *e);
/* The round has its place in its shell now: argv becomes bash and what it needs. ERR_NOMEM. */
/* A program that muxd keeps running inside, for all who use it: nobody's own, and no activity. */
static inline bool launch_is_inside(const struct launch *l)
{
	return l->server[0] || l->service[0];
}
/* The rule of its recording; one that is not given: as configured. ERR_NOMEM. */
int launch_record_by(struct launch *l, const struct record_rule *r);
int launch_enter_shell(struct launch *l);
/* Whose lease its sandbox is; NULL, or without a lease: nobody's. ERR_NOMEM. */
int launch_leased(struct launch *l, const struct work_ids *ids);
void launch_finish(struct launch *l);
void launch_forget_secret(struct launch *l); /* its length stays */

#endif
