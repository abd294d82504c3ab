/*
 * life.h - the life of agents' sandboxes: one state machine for each, in control.db.
 *
 *                     resume                    ready
 *   (none), stopped ---------> starting --------------------> running
 *      ^   ^   error --resume--^  |                            |  |
 *      |   |     ^                +-- failed --> error         |  |
 *      |   |     +------------------- failed ------------------+  |
 *      |   +-- idle_stopping <------- idle, stop -----------------+
 *      |          | resume: cancelled while the snapshot is not ready, else awaited
 *      +-- stopping <-- terminate without a snapshot; destroying: the workspace, too, then no row
 *
 * Every change is a compare-and-swap on the row's generation, durable before the next step
 * begins, and an audit event with its cause and how long the state before lasted. Steps
 * (life_run.h) are idempotent: who finds a row in a transient state after a crash does its step again.
 * The reconciler compares rows with what the provider has, at start, each minute and at each
 * `gone`; nothing is guessed, what has no row and is ours becomes a row.
 *
 * It is a provider itself: the hub asks life_provider() as it would ask the backend's, and gets
 * sandboxes that were restored, started and are watched. Names with a slash (pods of others) go through untouched.
 *
 * Owned by net_main(), made before the hub's recovery, destroyed after the hub. One loop.
 */
#ifndef CONTROL_LIFE_LIFE_H
#define CONTROL_LIFE_LIFE_H

#include "base/json.h"
#include "base/resources.h"
#include "control/sandbox.h"

struct conf;
struct life;
struct store;
struct uv_loop_s;

enum life_state {
	LIFE_STOPPED,
	LIFE_STARTING,
	LIFE_RUNNING,
	LIFE_IDLE_STOPPING,
	LIFE_STOPPING,
	LIFE_DESTROYING,
	LIFE_ERROR
};
const char *life_state_name(enum life_state s);

/* What the hub knows of an agent when it is asked whether it may sleep (requirement A3). */
struct life_activity {
	uint64_t last_boot_ns; /* CLOCK_BOOTTIME of any activity; 0: none since the hub began */
	uint64_t exit_boot_ns; /* when the hub heard of the last end of anything that ran in it; 0: of none */
	unsigned holding;      /* running rounds, transfers, forwarded connections: the timer stands still */
	unsigned attached;     /* clients on its terminals */
};

/* Questions of life to the hub. done of settle, quiesce and leave: once, from the loop. */
#define LIFE_FROZEN 1
typedef void life_host_done(void *arg, int rc, const struct err *e);
typedef void life_logged_done(void *arg, int rc, const struct err *e, const char *digest);
struct life_host {
	void *ctx;
	void (*activity)(void *ctx, const char *agent, struct life_activity *out);
	void (*warn)(void *ctx, const char *agent, const char *text); /* on every screen attached to it */
	/* Ahead of its end: what runs for as long as the sandbox is awake (services) ends in order. rc says nothing. */
	void (*settle)(void *ctx, const char *agent, life_host_done *done, void *arg);
	/*
	 * Behind settle, ahead of quiesce: the files go to the owner's store. ERR_UNSUPPORTED: there is none, or none
	 * of this agent's.
	 */
	void (*push)(void *ctx, const char *agent, const char *cause, life_host_done *done, void *arg);
	/*
	 * What programs inside have written reaches the disk. LIFE_FROZEN: and they stand still from then on, until
	 * thaw, or for hold_ns at most. ERR_TIMEOUT, ERR_UNSUPPORTED: the snapshot is crash-consistent then.
	 */
	void (*quiesce)(void *ctx, const char *agent, uint64_t timeout_ns, uint64_t hold_ns, life_host_done *done,
			void *arg);
	bool (*frozen)(void *ctx, const char *agent); /* have they stood still until now? */
	/*
	 * A stop is under way: nothing begins in it any more, as what it wrote would be in no snapshot. Who comes
	 * waits, until hold(false) where the stop was taken back, or until leave, and then for the sandbox to be awake
	 * again.
	 */
	void (*hold)(void *ctx, const char *agent, bool on);
	/* The agent's programs go on, also where a daemon before this one has frozen them. Nothing frozen is fine. */
	void (*thaw)(void *ctx, const char *agent);
	/*
	 * How many recordings say that this snapshot was the workspace before them: rc of done. ERR_BAD_STATE: it must
	 * not go, *e says why (a legal hold on a session that began with it, or with the one before it);
	 * ERR_UNAVAILABLE: that is not known now, and it must not go before it is.
	 */
	void (*refers)(void *ctx, const char *agent, const struct id *snapshot, const struct id *previous,
		       life_host_done *done, void *arg);
	/*
	 * What the record's log says the file of that snapshot was: SHA-256 in hex, "" where it says nothing. NULL:
	 * nobody records.
	 */
	void (*logged)(void *ctx, const char *agent, const struct id *snapshot, life_logged_done *done, void *arg);
	/* The agent's sessions end with that cause, its link is closed: the sandbox is about to stop. */
	void (*leave)(void *ctx, const char *agent, const char *why, life_host_done *done, void *arg);
	/* One audit event: {"event","agent","outcome","detail"}; stolen. An error stops the transition (no record, no
	 * change). */
	int (*audit)(void *ctx, json_t *record);
	/* The wall clock is not believed: nothing goes by its age. NULL: it always is. */
	bool (*removals_wait)(void *ctx);
	/* The end of what was audited, and up to where the record is durable: positions of the journal. */
	uint64_t (*journal)(void *ctx, uint64_t *out_durable);
};

struct life_params {
	struct uv_loop_s *loop;
	struct store *store;            /* outlives it */
	struct sandbox_provider *inner; /* becomes life's */
	const struct conf *conf;        /* lifecycle.*; copied */
};
int life_create(const struct life_params *p, struct life **out, struct err *e);
void life_destroy(struct life *l); /* every waiter hears ERR_CANCELLED; rows stay as they are */
void life_set_host(struct life *l, const struct life_host *h); /* once, before life_begin() */
void life_set_conf(struct life *l, const struct conf *c);
/* More of the record is durable. NULL-safe. */
void life_recorded(struct life *l);
/* Reconciles, then times. Doors may open before it is through: a call about an agent waits for that agent. */
void life_begin(struct life *l);
struct sandbox_provider *life_provider(struct life *l); /* life's */
#define LIFE_SINCE_UNKNOWN (-1)
/* The snapshot that is current for what is opened in its sandbox now; "" where there is none. */
struct life_current {
	char snapshot[ID_STR_LEN];
	int64_t since_wall_ns; /* when this life of the agent began, by which it is told from others: 0: it has none,
				* LIFE_SINCE_UNKNOWN: that could not be read, or it is a pod of others */
	uint64_t changes;      /* store_changes() when it was read; 0: nobody did */
};
/* *c is of an earlier call for the same agent, or zeros: the database is read only when it has changed since. */
void life_current(struct life *l, const char *agent, struct life_current *c);

/*
 * Calls. Everything is answered once, from the loop; result is the answer's, borrowed. Concurrent calls that want
 * the same share one transition; each has its own deadline (timeout_ns; 0: lifecycle.*_timeout), after which it hears
 * ERR_SANDBOX_TIMEOUT while the transition goes on. ERR_BAD_STATE names the states that would do. The result of those
 * about one agent is life_show()'s object.
 */
typedef void life_done(void *arg, int rc, const struct err *e, json_t *result);

struct life_options {         /* of an agent's sandbox; a field that is UINT64_MAX is left as it is */
	uint64_t idle_ttl_ns; /* 0: never */
	uint64_t ttl_ns;      /* from now on; 0: never, whatever is configured. Attaching never shortens it */
	/*
	 * Of a start or a fork: the pod template of its own from now on, JSON as life_template_check() took it; "":
	 * none any more, NULL: as it is. One that runs keeps its pod: ERR_BAD_STATE where that would be another one.
	 */
	const char *pod_template;
	/* Of a start or a fork: its image from its next start on, of sandbox.images; "": none any more. */
	bool sets_image;
	char image[SANDBOX_IMAGE_MAX + 1];
	/* The same: what its next start asks for, instead of what it asked for so far. */
	bool sets_resources;
	struct resources resources;
	/*
	 * Of a start or a fork: the app that it belongs to from now on, a DNS label; "": none any more. Told and listed
	 * at once, a pod has it from its next start on. A fork has that of its source only where it is given.
	 */
	bool sets_app;
	char app_id[DNS_LABEL_MAX + 1];
};
/* A template as the backend sees it, before anything is changed: ERR_INVAL with the pointer of what may not be,
 * ERR_UNSUPPORTED, ERR_TOO_LARGE. */
int life_template_check(struct life *l, const char *agent, const char *own, struct err *e);
void life_template_digest(const char *text, char out[SANDBOX_DIGEST_LEN]); /* SHA-256, hex; "" of "" */
void life_resume(struct life *l, const char *agent, const struct life_options *o, uint64_t timeout_ns, life_done *done,
		 void *arg);
/* Whether such a resume would be refused as things are: ERR_BAD_STATE (another pod template while it runs),
 * ERR_NOT_FOUND (a name that only forks have). For those who write something ahead of it. */
int life_resume_check(struct life *l, const char *agent, const struct life_options *o, struct err *e);
/* Somebody's work waits for it while it is being stopped: awake again, after an idle stop that is taken back, or after
 * the end of one that was asked for. o: as of a resume; NULL: its options stay. */
void life_need(struct life *l, const char *agent, const struct life_options *o, life_done *done, void *arg);
/* Snapshot, then stop. */
void life_stop(struct life *l, const char *agent, const char *reason, uint64_t timeout_ns, life_done *done, void *arg);
/* BY_REASON: lifecycle.terminate, .snapshot_reasons and .keep_reasons decide between SNAPSHOT and KEEP. WIPE: the
 * workspace and its snapshots go as well, and result is {"agent", "state": "absent"}. */
enum life_end { LIFE_END_SNAPSHOT, LIFE_END_KEEP, LIFE_END_WIPE, LIFE_END_BY_REASON };
void life_terminate(struct life *l, const char *agent, const char *reason, enum life_end how, uint64_t timeout_ns,
		    life_done *done, void *arg);
/* result: {"snapshot": {...}}. */
void life_snapshot(struct life *l, const char *agent, uint64_t timeout_ns, life_done *done, void *arg);
/* The workspace as it was in that snapshot of its own; it is stopped for it (with a snapshot) when it runs. */
void life_restore(struct life *l, const char *agent, const struct id *snapshot, uint64_t timeout_ns, life_done *done,
		  void *arg);
struct life_fork {
	struct id snapshot; /* nil: `agent`'s current one at `at_wall_ns`, or its newest before that */
	const char *agent;  /* whose, with at_wall_ns: the session's agent and time */
	int64_t at_wall_ns;
	const char *as; /* the new agent's name; NULL: made from the first one's (agent_make_name()) */
	bool writable;
	bool passing; /* goes with its caller: where that dies with the daemon, the next start wipes it */
	bool empty;   /* of no snapshot: its workspace begins with nothing; `as` is given, and it is a passing one */
	/*
	 * What the snapshot was made of, for this agent alone, and the digest of that: shown as began_with, and the
	 * agent keeps the snapshot for as long as it is its current one. NULL: the snapshot is another agent's.
	 */
	const char *began, *began_sha256;
	struct life_options options;
};
void life_fork(struct life *l, const struct life_fork *f, uint64_t timeout_ns, life_done *done, void *arg);
/* The agent of a snapshot that is there. ERR_NOT_FOUND. */
int life_snapshot_of(struct life *l, const struct id *snapshot, char out[AGENT_NAME_MAX + 1], struct err *e);
/* The snapshot that such a fork is made of. */
int life_fork_of(struct life *l, const struct life_fork *f, struct id *out, struct err *e);
/*
 * Is a snapshot what the record's log says it was? Its file is read whole for that. what: "checked", "not_hashed_yet"
 * (the log has no digest of it), "cannot_be_hashed" (the cluster's own), "differs" with ERR_SNAPSHOT_DIFFERS; NULL:
 * that is not known. In the audit log (snapshot.check).
 */
typedef void life_check_done(void *arg, int rc, const struct err *e, const char *what);
void life_check(struct life *l, const struct id *snapshot, life_check_done *done, void *arg);
void life_snapshot_drop(struct life *l, const char *agent, const struct id *snapshot, life_done *done, void *arg);

/* From the store, at once. Objects of requirement A6; list: {"agents": [...], "more": bool} by name. */
struct life_filter {
	const char *state, *prefix, *after, *app_id; /* NULL: any */
	size_t limit;
	bool (*wanted)(void *arg, const char *agent); /* NULL: every one */
	void *arg;
};
int life_show(struct life *l, const char *agent, json_t **out, struct err *e); /* ERR_NOT_FOUND */
/* The agent whose sandbox that is, out "" where there is none: one look at an index. */
int life_find(struct life *l, const struct id *sandbox, char out[AGENT_NAME_MAX + 1], struct err *e);
int life_list(struct life *l, const struct life_filter *f, json_t **out, struct err *e);
int life_snapshots(struct life *l, const char *agent, json_t **out,
		   struct err *e); /* {"snapshots": [...]}, newest first */

/*
 * Numbers for /metrics, as families of base/metric.h: muxd_sandbox_start_seconds, _snapshot_seconds,
 * _restore_seconds, _stop_seconds, muxd_filespace_sync_seconds (histograms), muxd_agents{state} (gauge),
 * muxd_lifecycle_transitions_total{to}, muxd_lifecycle_failures_total{reason: err_name()} (counters).
 */
/* A sync of files, in either direction, has ended that began then. */
void life_sync_took(struct life *l, uint64_t began_boot_ns);
json_t *life_metrics(struct life *l);

#endif
