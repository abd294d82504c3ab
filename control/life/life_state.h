/*
 * life_state.h - the structs of lifecycle, for control/life/ alone.
 *
 * An agent is in memory while somebody waits for it or something is done for it; its truth is its row. At most
 * one run (life_run.h) works on it at a time. Rows change through life_commit.h alone.
 */
#ifndef CONTROL_LIFE_LIFE_STATE_H
#define CONTROL_LIFE_LIFE_STATE_H

#include "base/err.h"
#include "base/metric.h"
#include "control/life/life.h"
#include "control/life/life_ask.h"
#include "control/life/life_clock.h"
#include "control/life/life_commit.h"
#include "control/life/life_policy.h"
#include "control/life/life_row.h"
#include "control/life/life_run.h"

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

enum life_timing { TIME_START, TIME_SNAPSHOT, TIME_RESTORE, TIME_STOP, TIME_SYNC, TIMINGS };

struct life_failure {
	UT_hash_handle hh;
	uint64_t n;
	int code;
};

/* A named step with nothing in it; tests put something there. The push of a stop is asked of the hub where it can be
 * (life_ask_push()). */
struct life_step {
	const char *name;
	int (*run)(void *ctx, const char *agent, struct err *e); /* NULL: nothing is configured */
	void *ctx;
};
enum life_step_no { STEP_PULL, STEP_PUSH, STEP_MCP, STEPS };

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
	LIST_HEAD(, question) questions; /* stat and list, that are out (life_provider.c) */
	LIST_HEAD(, fork_job) forks;
	LIST_HEAD(, life_check) checks;
	struct life_hashing *hashing; /* one at a time; NULL: nothing is being hashed */
	struct id hashed_to;          /* looked at up to this one */
	struct life_step steps[STEPS];
	uv_timer_t *tick;
	uv_prepare_t *prepare; /* takes the due */
	TAILQ_HEAD(, life_agent) due;
	uint64_t due_looked; /* store_changes() when nobody was due */
	int64_t due_next;    /* who is due first, then */
	uint64_t next_run, reconcile_at, keep_at, left_at;
	char keep_after[AGENT_NAME_MAX + 1]; /* life_keep_some() goes on behind it */
	int64_t began_ns;                    /* lifecycle's clock at life_begin() */
	bool begun, dying, reconciling, compared;
	struct metric_times timing[TIMINGS];
	struct life_failure *failures;
	uint64_t transitions[LIFE_ERROR + 1]; /* by the new state */
	STAILQ_HEAD(, life_told) told;        /* outcomes in the journal that are not durable yet */
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
/* Whether options change the agent's row; a pod template is not in it. */
bool life_options_set(const struct life_options *o);
static inline int64_t life_now(const struct life *l)
{
	return life_clock_now(&l->clock);
}

/* life.c */
void life_tick(struct life *l); /* what the timer does */

/* life_api.c */
void life_forks_let_go(struct life *l);

/* life_steps.c: a named step, and its event in the audit log */
int life_step_run(struct life_agent *a, enum life_step_no n, struct err *e);

/* life_metrics.c */
void life_count_failure(struct life *l, int code);
void life_time(struct life *l, enum life_timing t, uint64_t began_boot_ns);

/* The runs. Each begins one, of an agent that has none. */
void life_start(struct life_agent *a, const char *cause);
void life_stop_run(struct life_agent *a, const char *cause, enum stop_for why); /* of one that runs */
void life_end_run(struct life_agent *a, const char *cause);                     /* as it is, without a snapshot */
void life_wipe_run(struct life_agent *a, const char *cause);
/* again: one that a crash interrupted, NULL: a new one. */
void life_snapshot_run(struct life_agent *a, const struct id *again, const char *cause);
void life_taken(struct life_agent *a, const struct id *snapshot);   /* ready since its run was over */
void life_restore_run(struct life_agent *a, struct life_waiter *w); /* of one that does not run */
void life_drop_run(struct life_agent *a, const struct id *snapshot, const char *cause);
void life_check_run(struct life_agent *a);

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
struct id life_fresh_id(void);
/* The run's snapshot is one that is to be made now; *next names it. */
void life_snap_new(struct life_agent *a, struct life_row *next, const char *cause);
void life_snap_whole(struct life_snap *s, const struct sandbox_snapshot *copy); /* it is ready, as the provider said */
int life_snap_load(struct life *l, const struct id *id, struct life_snap *out, struct err *e); /* ERR_NOT_FOUND */
/* ERR_RECORD_UNAVAILABLE: nothing may change. */
int life_audit(struct life *l, const char *event, const char *agent, const char *outcome, json_t *detail);

/* life_digest.c */
#define LIFE_HOW_VOLUME "VolumeSnapshot" /* nobody here can read one */
/* The log has its digest: so has the row from now on. */
void life_digest_told(struct life *l, const struct id *snapshot, const char *digest);
const char *life_digest_state(const struct life_snap *s); /* "hashed", "not_hashed_yet", "cannot_be_hashed", "" */
void life_hash(struct life *l);                           /* goes on with what is not hashed yet */
void life_hash_all(struct life *l);                       /* begins anew with the first one */
void life_digests_let_go(struct life *l);

/* life_left.c: what has outlived its snapshot; from the reconciler */
void life_left(struct life *l);

/* life_reconcile.c, life_keep.c, life_provider.c, life_show.c */
void life_reconcile(struct life *l);
void life_keep(struct life_agent *a); /* retention, of an agent that just got a snapshot */
void life_keep_some(struct life *l);  /* of some more of all agents; from the reconciler */
/* Somebody waits to go back to it. */
bool life_removals_wait(const struct life *l);
bool life_keep_restores(const struct life_agent *a, const struct id *snapshot);
extern const struct sandbox_provider_ops life_provider_ops;
#define LIFE_PROVIDER_CAN                                                                                              \
	(SANDBOX_CAN(SANDBOX_ENSURE) | SANDBOX_CAN(SANDBOX_CONNECT) | SANDBOX_CAN(SANDBOX_STAT) |                      \
	 SANDBOX_CAN(SANDBOX_DESTROY) | SANDBOX_CAN(SANDBOX_WIPE) | SANDBOX_CAN(SANDBOX_LIST) |                        \
	 SANDBOX_CAN(SANDBOX_RESOLVE) | SANDBOX_CAN(SANDBOX_LOG))
void life_on_gone(void *arg, const char *agent, const struct id *sandbox, const char *why);
void life_overlay(struct life *l, const struct life_row *r, struct sandbox_info *info);

/* life_json.c; NULL: no memory */
json_t *life_describe(struct life *l, const struct life_row *r);
json_t *life_describe_snap(const struct life_snap *s);
/* Why each idle stop of an agent with this wish would fail; "": it can succeed. */
const char *life_cannot_sleep(const struct life *l, const struct life_wish *w);

#endif
