/*
 * broker.h - the only place with steps: authenticate, policy verdict, audit
 * event, sandbox awake, session or round created, idle timer touched.
 *
 * Every door comes through here with a `request`: a verified grant and where it
 * came from. Calls that may have to wait for a sandbox answer by callback,
 * exactly once, from the loop (also when the hub ends: ERR_CANCELLED).
 * Refusals are audited here, not in the doors.
 */
#ifndef MUXD_HUB_BROKER_BROKER_H
#define MUXD_HUB_BROKER_BROKER_H

#include "muxd/hub/access/broker_auth.h"
#include "muxd/hub/session/attachment.h"
#include "muxd/hub/session/exec_spec.h"

struct life_filter;

/*
 * Staff by public key: principal found in the configuration (conf_staff); the
 * monitor signs a grant with the configured scopes and TTL. Asynchronous.
 */
typedef void broker_grant_done(void *arg, int rc, const struct err *e, const struct request *rq);
void broker_issue_staff(struct hub *h, const char *principal, const char *agent, const char *reason,
			const struct origin *from, broker_grant_done *done, void *arg);
/*
 * Staff by a token of the cluster (kubernetes.staff): who may exec into the agent's pod there gets a grant, his name
 * the cluster's. TTL and scopes are bounded by kubernetes.staff_ttl and staff_scopes. Asynchronous. ERR_UNSUPPORTED
 * when it is not configured, ERR_UNAUTHENTICATED, ERR_FORBIDDEN, ERR_K8S*.
 */
struct staff_wish {
	const char *token;                 /* text of a token's characters */
	const char *agent, *reason, *task; /* task NULL: "console" */
	uint32_t scopes;                   /* 0: what is allowed */
	struct grant_files files;
	uint64_t ttl_ns; /* 0: grants.ttl */
};
void broker_issue_cluster(struct hub *h, const struct staff_wish *w, const struct origin *from, broker_grant_done *done,
			  void *arg);
/*
 * s and a are NULL on failure. With attachment ops: a is the caller's. seen: the round that had this exec_id and digest
 * before, NULL for a new one; when it has left memory s is NULL too and broker_round_wait() answers from the record.
 */
typedef void broker_open_done(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			      const struct id *seen);
/*
 * Terminals and exec channels (scope terminal), rounds (scope rounds), file transfers (scope files), connections to
 * ports (scope ports; router.ports has to allow it). ops NULL: nobody attaches (REST rounds).
 *
 * A connection to a port has ended well with cause exit and code 0; code is the errno of what broke it off (muxlet's
 * report: ECONNREFUSED, ECONNRESET); failed and message of its result are for its client.
 */
void broker_open(struct hub *h, const struct request *rq, const struct exec_spec *spec,
		 const struct attachment_ops *ops, void *ops_arg, broker_open_done *done, void *arg);
/*
 * The agent or pod (a target's name) that `id` in `space` means: id is an agent's name or a sandbox_id; space a
 * namespace of the cluster, "" or our own for agents. ERR_NOT_FOUND where no such sandbox runs or sleeps: nothing is
 * made. scope: what the caller is about to do asks for, one of these.
 */
typedef void broker_name_done(void *arg, int rc, const struct err *e, const char *name);
void broker_locate(struct hub *h, const struct request *rq, uint32_t scope, const char *id, const char *space,
		   broker_name_done *done, void *arg);
/*
 * A pod of others by its whole name, ns/pod/container, ahead of every question about it: policies have profiles of
 * containers, and locks and lists are kept of them. Any other name, and one that the grant does not cover, stays as it
 * is: the call itself is refused then.
 */
void broker_whole_name(struct hub *h, const struct request *rq, const char *name, broker_name_done *done, void *arg);
/*
 * Attach to a session that exists (scope drive or observe, or one's own). name:
 * session id, or "" for the newest terminal of that agent and principal.
 * Where ops has `screen`, the client of a terminal is shown the current screen first (attachment.h), else the recent
 * output (as much as the ring holds); then the live stream.
 */
int broker_attach(struct hub *h, const struct request *rq, const char *agent, const char *name,
		  enum attachment_role role, const struct attachment_ops *ops, void *ops_arg, struct attachment **out,
		  struct err *e);
/* End it: HUP, TERM, KILL. Own sessions: scope terminal/rounds; others': scope admin or drive. */
int broker_terminate(struct hub *h, const struct request *rq, const struct id *session, const char *reason,
		     struct err *e);

/* {version, sha256, otherwise, profiles, bytes, text} of the policy in force, or {version: null}. Scope: replay, admin.
 */
int broker_policy_show(struct hub *h, const struct request *rq, json_t **out, struct err *e);
/* {agent, state, backend, sandbox_id, last_activity_at ...} as it is now; scope: any on that agent. */
void broker_agent(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg);
/*
 * {agents: [...], more}: by name, what there is that the grant covers. f (control/life/life.h) is copied; NULL: all
 * there is room for. more: ask again with `after` the last one's name.
 */
#define BROKER_AGENTS_MAX 1000
void broker_agents(struct hub *h, const struct request *rq, const struct life_filter *f, broker_json_done *done,
		   void *arg);
/* deploy_or_resume: makes or finds the sandbox. Scope: terminal, rounds or lifecycle. */
void broker_resume(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg);
/*
 * Ends the sandbox and what runs in it, with wipe its workspace too; none there is no error. Scope: lifecycle or admin;
 * a reason is needed.
 */
void broker_destroy(struct hub *h, const struct request *rq, const char *agent, const char *reason, bool wipe,
		    broker_json_done *done, void *arg);

/* Sessions at hand that the grant may see, newest first. */
struct session_filter {
	const char *agent, *state, *kind; /* NULL = any */
	bool live;                        /* none that has ended */
	struct id only;                   /* this one; nil: any */
	size_t limit;
};
int broker_sessions(struct hub *h, const struct request *rq, const struct session_filter *f, json_t **out,
		    struct err *e);

/*
 * A session that has ended and left memory, for who comes back to it: {agent, kind, principal, cols, rows, exit}, exit
 * as EXIT of the browser door has it. role: enum attachment_role, -1: what the grant allows. ERR_NOT_FOUND: there is
 * none, or it is not for this grant.
 */
void broker_past(struct hub *h, const struct request *rq, const struct id *session, int role, broker_json_done *done,
		 void *arg);

/*
 * The lease that a call is about, for its line in the log: by an agent (NULL), by a session at hand (nil: none), or by
 * what of the lease out has already. What is not known stays.
 */
void broker_about(struct hub *h, const char *agent, const struct id *session, struct work_ids *out);

/*
 * Leases, runs, workflows, the pool (control/work/work.h). call: "lease.create", ... (work_call_name); id: of a
 * lease, a run or a workflow, or NULL; body: an object or NULL, whose secrets are wiped. Scope: lifecycle on every
 * agent ("*"), and rounds to begin a run.
 */
void broker_work(struct hub *h, const struct request *rq, const char *call, const char *id, json_t *body,
		 broker_json_done *done, void *arg);

/* Leases, runs and the pool begin, and artifacts to expire: once, after hub_recover(), before the doors. */
void broker_work_begin(struct hub *h);

#endif
