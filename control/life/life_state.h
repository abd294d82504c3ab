/*
 * life_state.h - the structs of lifecycle, for control/life/ alone.
 *
 * An agent is in memory while somebody waits for it or something is done for it; its truth is its row. At most
 * one run works on it at a time, a chain of continuations: each asks one question (of the provider, the hub or the
 * store), and its answer calls the next. An answer that comes when its run is over finds nobody and is dropped (a
 * snapshot that became ready is still noted). Rows change through life_commit() alone.
 */
#ifndef CONTROL_LIFE_LIFE_STATE_H
#define CONTROL_LIFE_LIFE_STATE_H

#include "base/err.h"
#include "base/metric.h"
#include "control/life/life.h"
#include "control/life/life_clock.h"
#include "control/life/life_policy.h"
#include "control/life/life_row.h"

#include <sys/queue.h>
#include <uthash.h>
#include <uv.h>

#define LIFE_CAUSE_IDLE     "idle"
#define LIFE_CAUSE_TTL      "its time is over"
#define LIFE_DETAIL_KEPT    "kept: " /* begins the detail of a snapshot whose data would stay (ERR_DATA_KEPT) */
#define LIFE_CAUSE_OUTDATED "outdated: work ended while it was made"

enum life_want {
	WANT_ENSURE,
	WANT_CONNECT,
	WANT_RESUME,
	WANT_STOP,
	WANT_END,
	WANT_SNAPSHOT,
	WANT_RESTORE,
	WANT_DROP,  /* of a snapshot */
	WANT_CHECK, /* compare with the provider */
	WANT_TAKEN, /* a snapshot whose run was over when it became ready */
	WANT_IDLE,  /* the timer: look whether it is due */
};

struct life_waiter {
	TAILQ_ENTRY(life_waiter) entry;
	enum life_want want;
	uint64_t deadline; /* boot ns */
	struct life_options options;
	enum life_end end;
	struct id snapshot;
	char reason[160];
	struct sandbox_snapshot copy; /* that became ready late */
	sandbox_done *stream;         /* one of these, or none */
	life_done *done;
	void *arg;
	bool implied; /* work that needs it, nobody's word: life_stop_asked() */
	bool heard;   /* by a stop that was on its way when it came */
	bool tried;   /* a check was made for it; of a restore: a snapshot of what it overwrites was begun */
};
TAILQ_HEAD(life_waiters, life_waiter);

struct life_agent;
typedef void life_next(struct life_agent *a, int rc, const struct err *e);

enum run_kind { RUN_START, RUN_STOP, RUN_END, RUN_WIPE, RUN_SNAPSHOT, RUN_RESTORE, RUN_CHECK, RUN_DROP, RUN_NOTE };

struct life_run {
	enum run_kind kind;
	uint64_t id;
	char cause[160];
	uint64_t began, step_began;  /* boot ns */
	char *own_template;          /* of a start: from now on, "": none; NULL: as it is */
	bool idle;                   /* nobody asked: the timer did */
	bool may_cancel, cancel;     /* a resume takes it back */
	bool writing, taking;        /* the store, the provider has something of it */
	bool strict;                 /* a snapshot that fails ends it, the sandbox runs on */
	bool no_copy;                /* nothing to take: what is there is the snapshot it came from */
	bool left;                   /* its sessions were told: no way back */
	bool frozen;                 /* its programs may stand still for it */
	bool held;                   /* nothing begins in it */
	bool has_workspace, running; /* as the provider said */
	size_t at;
	int refers;           /* recordings that name the snapshot which goes; negative: not known */
	enum snap_status was; /* of that snapshot, before it was to go */
	struct err failed;    /* what went wrong on the way, for the row's detail */
	struct life_snap snap;
	uint64_t looked; /* boot ns: what ended before is in the copy */
	struct id *list; /* snapshots that go with it; of a stop: outdated copies */
	size_t nlist;
	struct sandbox_info info; /* of the last answer */
	struct sandbox_snapshot copy;
	int fd;
	struct life_row before; /* to be gone back to */
};

struct life_agent {
	struct life *life;
	UT_hash_handle hh;
	TAILQ_ENTRY(life_agent) of_due;
	bool due; /* for its turn */
	char name[AGENT_NAME_MAX + 1];
	struct life_row row;
	struct life_run *run;
	struct life_waiters waiters;
	char *own_template; /* that its next start is to have; NULL: as it is */
	uint64_t retry_at;  /* boot ns; a transient state is gone on with then */
	unsigned tries;
	unsigned taking; /* snapshots whose run was over before they were */
	bool warned;
	char gone[200]; /* why the provider says it ended */
};

/* One question that is out. */
struct life_call {
	LIST_ENTRY(life_call) entry;
	struct life *life; /* NULL: gone */
	char agent[AGENT_NAME_MAX + 1];
	uint64_t run;
	life_next *next;
	bool take; /* ... of this snapshot */
	struct id snapshot;
	struct life_waiter *w; /* of a connect: its own */
};

enum life_timing { TIME_START, TIME_SNAPSHOT, TIME_RESTORE, TIME_STOP, TIME_SYNC, TIMINGS };

struct life_failure {
	UT_hash_handle hh;
	uint64_t n;
	int code;
};

/* A named step with nothing in it yet; tests put something there. */
struct life_step {
	const char *name;
	int (*run)(void *ctx, const char *agent, struct err *e); /* NULL: nothing is configured */
	void *ctx;
};
enum life_step_no { STEP_PULL, STEP_PUSH, STEP_MCP, STEP_ARTIFACTS, STEPS };

struct life {
	struct sandbox_provider base;
	struct uv_loop_s *loop;
	struct store *store;
	struct sandbox_provider *inner;
	struct life_policy policy;
	struct life_host host;
	struct life_clock clock;
	struct life_agent *agents;
	LIST_HEAD(, life_call) calls;
	LIST_HEAD(, fork_job) forks;
	LIST_HEAD(, life_check) checks;
	struct life_hashing *hashing; /* one at a time; NULL: nothing is being hashed */
	struct id hashed_to;          /* looked at up to this one */
	struct life_step steps[STEPS];
	uv_timer_t *tick;
	uv_prepare_t *prepare; /* takes the due */
	TAILQ_HEAD(, life_agent) due;
	uint64_t next_run, reconcile_at, keep_at, left_at;
	char keep_after[AGENT_NAME_MAX + 1]; /* life_keep_some() goes on behind it */
	int64_t began_ns;                    /* lifecycle's clock at life_begin() */
	bool begun, dying, reconciling, compared;
	struct metric_times timing[TIMINGS];
	struct life_failure *failures;
	uint64_t transitions[LIFE_ERROR + 1]; /* by the new state */
};

/* life_agent.c */
struct life_agent *life_agent(struct life *l, const char *name, struct err *e); /* loaded; NULL with e */
struct life_agent *life_known(struct life *l, const char *name);                /* in memory already, or NULL */
void life_forget(struct life_agent *a);
void life_sweep(struct life *l);     /* forgets those that nobody waits for; from the timer alone */
void life_due(struct life_agent *a); /* before the loop sleeps, what is next for it begins, if it can */
/* w: copied. The waiter is answered once, in a later turn of the loop; now where it cannot be taken. */
void life_want(struct life *l, const char *agent, const struct life_waiter *w);
void life_want_nobody(struct life_agent *a, enum life_want want, const struct id *snapshot, const char *reason);
void life_answer(struct life_agent *a, struct life_waiter *w, int rc, const struct err *e); /* removed and freed */
/* Answers the callers that wait for one of these wants (a mask of bits), or all. */
void life_answer_wants(struct life_agent *a, unsigned wants, int rc, const struct err *e);
#define WANTS(w) (1u << (w))
struct life_waiter *life_first(struct life_agent *a, unsigned wants);
struct id life_fresh_id(void);
static inline int64_t life_now(const struct life *l)
{
	return life_clock_now(&l->clock);
}

/* life.c */
void life_tick(struct life *l); /* what the timer does */

/* life_api.c */
void life_forks_let_go(struct life *l);

/* life_run.c */
struct life_run *life_run_begin(struct life_agent *a, enum run_kind kind, const char *cause);
void life_run_end(struct life_agent *a);       /* the agent is due */
void life_drop_outdated(struct life_agent *a); /* copies that go with the run, which is about to be over */
/* Every way of failing that leaves the row as it is: a second later somebody tries again. */
void life_run_break(struct life_agent *a, int rc, const struct err *e);
bool life_run_broke(struct life_agent *a, int rc,
		    const struct err *e);                           /* ... where there was one: then the run is over */
struct life_call *life_call(struct life_agent *a, life_next *next); /* NULL: no memory, next was called */
struct life_agent *life_called(struct life_call *c, life_next **out_next); /* freed; NULL: its run is over */
void life_on_sandbox(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd);
void life_on_snapshots(void *arg, int rc, const struct err *e, const struct sandbox_snapshot *list, size_t n);
void life_on_host(void *arg, int rc, const struct err *e);
/* Swaps the row (a->row.generation) for *next, and puts snap beside it; told in the audit log where the state changes.
 */
void life_commit(struct life_agent *a, const struct life_row *next, const struct life_snap *snap, life_next *done);
void life_commit_delete(struct life_agent *a, life_next *done);
void life_commit_snap(struct life_agent *a, const struct life_snap *snap, life_next *done); /* the row stays */
/* Durable before anything goes: nobody restores from it any more. ERR_BAD_STATE: a fork needs it, it stays as it is. */
void life_commit_dropping(struct life_agent *a, struct life_snap *snap, life_next *done);
/* Asks how many recordings name it, for life_tell_drop(); next() hears of it whatever comes. */
/* Of the run's snapshot. */
void life_ask_refers(struct life_agent *a, life_next *next);
/* The answer to it: stays the snapshot for now? One that failed holds nothing. */
bool life_must_stay(const struct life_agent *a, int rc);
/* snapshot.drop, in the audit log. failed: NULL or the error. */
void life_tell_drop(struct life_agent *a, const struct id *snapshot, const char *cause, const struct err *failed);
void life_put_snap(struct life *l, const struct life_snap *s); /* beside any run */
int life_step_run(struct life_agent *a, enum life_step_no n, struct err *e);
/*
 * Asks the hub for it; next() takes its answer with life_quiesced(). False: there is nobody to ask. Whatever was frozen
 * goes on at life_thaw(), at the latest at the run's end; but where its sandbox is about to be ended.
 */
bool life_quiesce(struct life_agent *a, uint64_t hold_ns, life_next *next);
void life_hold(struct life_agent *a); /* nothing begins in it, until life_thaw() or its end */
void life_quiesced(struct life_agent *a, int rc);
void life_frozen_until_now(struct life_agent *a); /* else the snapshot is synced, and no more */
void life_thaw(struct life_agent *a);
void life_count_failure(struct life *l, int code);
void life_time(struct life *l, enum life_timing t, uint64_t began_boot_ns);

/* The runs. */
void life_start(struct life_agent *a, const char *cause);
void life_stop_run(struct life_agent *a, const char *cause, bool idle, bool may_cancel, bool strict);
/*
 * Somebody wants the sandbox while it is being stopped: an idle stop is taken back for anybody, one that was asked for
 * is taken back for a resume, and for work once its snapshot is late.
 */
void life_stop_asked(struct life_agent *a, const struct life_waiter *w);
void life_stop_again(struct life_agent *a); /* found in idle_stopping */
void life_end_run(struct life_agent *a, const char *cause);
void life_leave(struct life_agent *a);     /* no way back: sessions, sandbox, and the workspace where that is to go */
void life_end_again(struct life_agent *a); /* of one that was left before a crash */
bool life_end_drops(const struct life_agent *a); /* ... and its workspace is going */
void life_wipe_run(struct life_agent *a, const char *cause);
void life_snapshot_run(struct life_agent *a, const struct id *again, const char *cause);
void life_restore_run(struct life_agent *a, struct life_waiter *w); /* does not run; copied first where it is kept */
bool life_restore_again(struct life_agent *a); /* found stopped, and not restored to the end; else false */
void life_drop_run(struct life_agent *a, const struct id *snapshot, const char *cause);
void life_check_run(struct life_agent *a);
void life_taken(struct life_agent *a, const struct id *snapshot);

/* life_connect.c: its waiter (ENSURE, CONNECT) gets a stream, or hears why not. */
void life_connect(struct life_agent *a, struct life_waiter *w);

/* life_when.c; times are lifecycle's own, 0: none */
#define LIFE_KEEP_CLOCK_NS (5 * NS_PER_SEC)
void life_set_due(struct life_agent *a, struct life_row *r); /* when somebody has to look at it next */
/* Of the hub or the row, whichever is later; *act: what the hub says. */
int64_t life_last_activity(struct life_agent *a, struct life_activity *act);
void life_verdict(struct life_agent *a, struct life_verdict *v);
bool life_is_idle(struct life_agent *a); /* now, by the one function of life_policy.h */
int64_t life_earlier(int64_t a, int64_t b);
/* When to look because of the absolute time: for the warning first. */
int64_t life_expiry_look(const struct life_row *r, const struct life_wish *w, int64_t now);
/* The backend's own end of it, for when nobody is there to end it in time. runs: of one that runs already. */
void life_tell_end(struct life_agent *a, int64_t expires_ns, bool runs);
int64_t life_expires(const struct life *l, uint64_t ttl_ns); /* for expires_ns, of a TTL as a caller gives it */

/* life_idle.c */
void life_idle_look(struct life_agent *a, struct life_waiter *w);
void life_idle_due(struct life *l);   /* those whose time has come are looked at */
void life_reckon(struct life *l);     /* what runs, by the configuration of now */
void life_keep_clock(struct life *l); /* what a restart goes on from */

/* life_template.c */
/* Ahead of each ensure and restore: what its pod is to be made from. An error is the start's. */
int life_template_tell(struct life_agent *a, struct err *e);
void life_template_show(struct life *l, const struct life_row *r, json_t *o);

/* life_facts.c */
int life_snap_load(struct life *l, const struct id *id, struct life_snap *out, struct err *e); /* ERR_NOT_FOUND */
/* ERR_RECORD_UNAVAILABLE: nothing may change. */
int life_audit(struct life *l, const char *event, const char *agent, const char *outcome, json_t *detail);

/* life_digest.c */
#define LIFE_HOW_VOLUME "VolumeSnapshot" /* nobody here can read one */
/* The log has its digest: so has the row from now on. */
void life_digest_told(struct life *l, const struct id *snapshot, const char *digest);
const char *life_digest_state(const struct life_snap *s); /* "hashed", "not_hashed_yet", "cannot_be_hashed", "" */
void life_hash(struct life *l);                           /* goes on with what is not hashed yet */
void life_hash_all(struct life *l);                       /* ... from the first one */
void life_digests_let_go(struct life *l);

/* life_left.c: what has outlived its snapshot; from the reconciler */
void life_left(struct life *l);

/* life_reconcile.c, life_keep.c, life_provider.c, life_show.c */
void life_reconcile(struct life *l);
void life_keep(struct life_agent *a); /* retention, of an agent that just got a snapshot */
void life_keep_some(struct life *l);  /* of some more of all agents; from the reconciler */
/* Somebody waits to go back to it. */
bool life_keep_restores(const struct life_agent *a, const struct id *snapshot);
extern const struct sandbox_provider_ops life_provider_ops;
void life_on_gone(void *arg, const char *agent, const struct id *sandbox, const char *why);
void life_overlay(struct life *l, const struct life_row *r, struct sandbox_info *info);

/* life_json.c; NULL: no memory */
json_t *life_describe(struct life *l, const struct life_row *r);
json_t *life_describe_snap(const struct life_snap *s);
/* Why each idle stop of an agent with this wish would fail; "": it can succeed. */
const char *life_cannot_sleep(const struct life *l, const struct life_wish *w);

#endif
