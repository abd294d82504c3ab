/*
 * broker_life.h - lifecycle through the broker: one table of verbs, the same steps for each.
 *
 * Grant in force and wide enough, the reason where one is needed, the record writable,
 * "asked" in the audit log, then life (control/life/life.h), then its outcome in the audit log. A pod of
 * others (namespace/pod) has no life here: ERR_UNSUPPORTED, but for resume. Whatever is refused leaves the
 * sandbox as it was.
 */
#ifndef MUXD_HUB_BROKER_BROKER_LIFE_H
#define MUXD_HUB_BROKER_BROKER_LIFE_H

#include "control/life/life.h"
#include "muxd/hub/broker/workspace_from.h"
#include "muxd/hub/core/place.h"
#include "muxd/hub/core/request.h"

enum life_verb {
	/*
	 * terminal, rounds or lifecycle; with options: lifecycle or admin, and with a snapshot on whose it is, too;
	 * with an artifact or a bundle: what reading that takes. One that is there goes on where it began with that,
	 * else it is ERR_CONFLICT.
	 */
	VERB_RESUME,
	VERB_STOP,      /* lifecycle or admin, as all that follow; reason */
	VERB_TERMINATE, /* reason */
	VERB_SNAPSHOT,
	VERB_RESTORE, /* snapshot; reason */
	VERB_FORK,    /* of the source agent; of `as` too, when that is given */
	VERB_DROP,    /* snapshot; reason */
	VERB_KILL, /* everything inside ends, the sandbox runs on: drive, lifecycle or admin; reason; pods of others too
		    */
	VERB_COUNT
};
const char *life_verb_name(enum life_verb v); /* "resume", "stop", "terminate", ..., "drop" */
bool life_verb_needs_reason(enum life_verb v);

/* What a call may say. All strings are copied; begin with life_call_init(). */
struct life_call {
	const char *agent;  /* NULL: the session's (fork) */
	const char *reason; /* "" where none is needed: the grant's stands in the record */
	uint64_t timeout_ns;
	struct life_options options; /* resume, fork; their pod_template is the broker's */
	/*
	 * Resume, fork: the pod template of the agent's own from now on, an object, or JSON's null: none any more;
	 * NULL: as it is. Borrowed until broker_life() returns. Takes the scope of kubernetes.pod_template_per_create.
	 */
	const json_t *pod_template;
	/*
	 * Resume: an object with some of workdir, env, labels and timeouts, a change of the agent's settings
	 * (control/servers/settings_def.h); NULL: none. Borrowed likewise.
	 */
	const json_t *settings;
	enum life_end how;  /* terminate */
	struct id snapshot; /* restore, drop; fork: nil for the one of a moment; resume: a new one begins with it */
	struct place place; /* resume: where it is to be; a place that is not served is refused */
	struct workspace_from from; /* resume: a new one begins with that artifact or bundle; else none */
	struct id session;          /* fork: of the sandbox as it was in that session; nil: none */
	int64_t at_ns;  /* fork: since the session's beginning, or else the wall clock; 0: its beginning, or now */
	const char *as; /* fork; NULL: made from the agent's */
	bool writable;  /* fork */
	bool check;     /* fork, restore: the snapshot's file is read and compared with the record's log first */
	bool any;       /* a snapshot that differs from its digest will do */
};
void life_call_init(struct life_call *c);

/*
 * The result is the agent as broker_agent() shows it (fork: the new one); {"agent", "state": "absent"} after a wipe;
 * and of a kill, with "sessions_ended"; {"snapshot": {...}} of a snapshot; {"agent", "snapshot_id", "state": "removed"}
 * of a drop.
 */
void broker_life(struct hub *h, const struct request *rq, enum life_verb v, const struct life_call *c,
		 broker_json_done *done, void *arg);
/*
 * {"snapshot_id", "next_snapshot_id"} (null: none) of what was opened at wall_ns with that snapshot ("": none). Any
 * scope on the agent.
 */
int broker_moment(struct hub *h, const struct request *rq, const char *agent, int64_t wall_ns, const char *snapshot,
		  json_t **out, struct err *e);
/* {"snapshots": [...]}, newest first. Any scope on the agent. */
void broker_snapshots(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg);
/*
 * {"agent", "data", "encoding", "bytes", "services": [{"service", "state", "data"}]}: the last `max` bytes
 * (BROKER_LOG_MAX at most) of what the sandbox's outer program or container said. Scope: observe, lifecycle or admin.
 */
#define BROKER_LOG_MAX (256 * 1024)
void broker_log(struct hub *h, const struct request *rq, const char *agent, size_t max, broker_json_done *done,
		void *arg);

#endif
