/*
 * work.h - leases of sandboxes, runs of stored workflows, and the warm pool that they come from.
 *
 *	sandbox of the pool   filling -> ready -> leased -> discarding -> (gone)
 *	lease                 ACTIVE -> EXPIRED | RELEASED
 *	run                   RUNNING -> SUCCEEDED | FAILED (timeout, crash, error, released, expired, lost)
 *
 * Every step is one durable transaction of control.db before its effect is seen: a lease and the claim of its
 * sandbox are one, the end of a run, of its lease and of the sandbox are one; an index lets no sandbox have two live
 * leases. A sandbox serves one lease and is wiped after it. After a crash a run that was under way has FAILED for
 * `crash` (its token was in memory alone) and nothing of it is run again; a lease without a run goes on.
 *
 * Sandboxes of the pool are agents named pool-<uuid>, made and wiped through the host; nobody enters one but who
 * leased it (work_may_enter). Times of leases are kept on the boot clock while the daemon runs.
 *
 * Owned by net_main(); one loop. Made before the hub, begun once the hub has recovered; work_stop() after the doors,
 * before the hub; work_destroy() after the store.
 */
#ifndef CONTROL_WORK_WORK_H
#define CONTROL_WORK_WORK_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct conf;
struct err;
struct log_ids;
struct store;
struct uv_loop_s;
struct work;

#define WORK_TOKEN_MAX   (16 * 1024)
#define WORK_NAME_MAX    128
#define WORK_LOG_MAX     ((size_t)64 * 1024) /* of a sandbox's log, kept with its run */
#define WORK_SANDBOX_MAX (sizeof("pool-") + ID_STR_LEN)
#define WORK_POOL_PREFIX "pool-"

/* For which lease something is done, and which run and request of its client's: in each log line and event of it. "":
 * none. */
struct work_ids {
	char lease[ID_STR_LEN], run[WORK_NAME_MAX + 1], request[WORK_NAME_MAX + 1];
};

/* One step of a run, as a round. Borrowed for the call. */
struct work_exec {
	const char *sandbox, *run;
	const char *const *argv; /* or */
	const char *command;
	const char *const *env; /* "K=V", NULL-ended; NULL */
	const char *cwd;
	const void *input;
	size_t input_len;
	const char *token; /* becomes a sealed memfd of its program, at the descriptor that MUXD_TOKEN_FD names */
	size_t token_len;
	uint64_t timeout_ns;
};

struct work_result {
	char round[ID_STR_LEN]; /* "": it never became one */
	struct id sandbox_id;   /* it ran in */
	char cause[16];         /* exit, timeout, killed, oom, lost, unknown, not_started, idle_timeout */
	int code, signal;       /* -1, 0: none */
	char message[200];
	uint64_t duration_ns;
	struct work_stream {
		uint64_t bytes;  /* all that it printed */
		char sha256[65]; /* of them; "": not known */
	} out, err;
};

/* A file of the sandbox, or the output of a round in it, is to become an artifact. Borrowed for the call. */
struct work_take {
	const char *sandbox, *lease, *run;
	const char *round;    /* the step's */
	struct id sandbox_id; /* which ran in that one; no other is made or woken for a path */
	const char *name;
	const char *path; /* NULL: the round's output */
	bool is_stderr;
	uint64_t timeout_ns;
};
/* row: of the artifact (control/artifacts/artifacts.h); borrowed. */
typedef void work_take_done(void *arg, int rc, const struct err *e, const json_t *row);

typedef void work_host_done(void *arg, int rc, const struct err *e);
typedef void work_exec_done(void *arg, int rc, const struct err *e, const struct work_result *r);
struct work_seen {
	const char *name;
	bool running;
};
typedef void work_list_done(void *arg, int rc, const struct err *e, const struct work_seen *list, size_t n);

typedef void work_log_done(void *arg, int rc, const struct err *e, const uint8_t *p, size_t n);

/* What the hub does for it. done: once each, from the loop, also when the hub is destroyed. */
struct work_host {
	void *ctx;
	int64_t (*now)(void *ctx); /* the guarded wall clock */
	/* The wall clock is not believed: nothing goes by its age. NULL: it always is. */
	bool (*removals_wait)(void *ctx);
	/* The sandbox runs and can be reached at once. Its idle timer stands still. */
	void (*prepare)(void *ctx, const char *sandbox, work_host_done *done, void *arg);
	/* The sandbox ends, its workspace too, and every fork of it; gone already is fine. */
	void (*discard)(void *ctx, const char *sandbox, const char *why, work_host_done *done, void *arg);
	/* Sandboxes of the pool that there are, and forks of them, running or not, whoever made them. */
	void (*list)(void *ctx, work_list_done *done, void *arg);
	/* The last WORK_LOG_MAX bytes of what the sandbox's own process wrote. */
	void (*log)(void *ctx, const char *sandbox, work_log_done *done, void *arg);
	/* auth: what came with the call that began the run. */
	void (*exec)(void *ctx, void *auth, const struct work_exec *x, work_exec_done *done, void *arg);
	void (*release)(void *ctx, void *auth);
	/* Nothing of the run will be read from the record in the caller's name: what auth has for that is not needed.
	 */
	void (*reads_nothing)(void *ctx, void *auth);
	int (*audit)(void *ctx, json_t *record); /* {"event","agent","outcome","detail"}; stolen */
	/* The end of what was audited, and up to where the record is durable: positions of the journal. */
	uint64_t (*journal)(void *ctx, uint64_t *out_durable);
	void (*take)(void *ctx, void *auth, const struct work_take *t, work_take_done *done, void *arg);
};

struct work_params {
	struct uv_loop_s *loop;
	struct store *store;
	const struct conf *conf; /* pool.*, leases.*; copied */
};

int work_create(const struct work_params *p, struct work **out, struct err *e);
void work_set_conf(struct work *w, const struct conf *c);
/* More of the record is durable. NULL-safe. */
void work_recorded(struct work *w);
/* Puts the store in order, then fills the pool. Calls before it is through wait. */
void work_begin(struct work *w, const struct work_host *h);
/* Before WORK_READY calls are refused (ERR_UNAVAILABLE). WORK_FAILING: putting in order failed, and is tried again.
 * NULL: ready. */
enum work_state { WORK_READY, WORK_STARTING, WORK_FAILING };
enum work_state work_state(const struct work *w);
void work_stop(struct work *w); /* everybody hears ERR_CANCELLED; nothing begins any more. NULL-safe */
void work_destroy(struct work *w);

enum work_call {
	WORK_LEASE_CREATE,
	WORK_LEASE_LIST,
	WORK_LEASE_SHOW,
	WORK_LEASE_HEARTBEAT,
	WORK_LEASE_RELEASE,
	WORK_RUN_START,
	WORK_RUN_LIST,
	WORK_RUN_SHOW,
	WORK_WORKFLOW_PUT,
	WORK_WORKFLOW_LIST,
	WORK_WORKFLOW_SHOW,
	WORK_POOL_SHOW,
	WORK_CALLS
};
const char *work_call_name(enum work_call c); /* "lease.create"; also in the audit log */
int work_call_parse(const char *name, enum work_call *out);
bool work_call_changes(enum work_call c);

/* Who asks. Strings are borrowed for the call. */
struct work_caller {
	const char *principal;
	const char *request; /* request id of the call */
	bool acts_for_all;   /* a service, or an administrator: may name any userId */
	bool sees_all;       /* an administrator */
	int64_t expires_ns;  /* of its grant, renewals counted: no run is asked for longer than that */
	void *auth;          /* of WORK_RUN_START: taken when the call is accepted (*auth_taken) */
	bool *auth_taken;
};

/*
 * Answered once, from the loop; result is borrowed. id: of a lease, a run or a workflow (NAME, NAME@VERSION); NULL.
 * body: the call's object, NULL for none; its strings may be wiped (tokens are).
 * ERR_NOT_FOUND, ERR_INVAL, ERR_CONFLICT (with the first one's id), ERR_BAD_STATE, ERR_FORBIDDEN, ERR_LIMIT,
 * ERR_SANDBOX_TIMEOUT (no sandbox within leases.wait), or what the sandbox's making says.
 */
typedef void work_done(void *arg, int rc, const struct err *e, json_t *result);
void work_ask(struct work *w, enum work_call call, const struct work_caller *c, const char *id, json_t *body,
	      work_done *done, void *arg);

/* Is it a name of the pool's kind? Such a sandbox is entered by who leased it, and looked at by staff. */
bool work_is_pool_name(const char *agent);
/* A fork is its sandbox's lease's, too. ERR_UNAVAILABLE until what is stored has been read. */
int work_may_enter(const struct work *w, const char *agent, const char *principal, bool only_looks, struct err *e);
/* Of the lease that has the sandbox, until it is wiped; NULL: none has, or w is NULL. Valid until the loop goes on. */
const struct work_ids *work_ids_of(const struct work *w, const char *agent);
/* The same by the lease's own id, as long as it is in force. */
const struct work_ids *work_ids_of_lease(const struct work *w, const char *lease);
void work_log_ids(const struct work_ids *i, struct log_ids *out); /* i NULL: they stay */
/* The sandbox ended by itself, or by somebody else's hand. */
void work_sandbox_gone(struct work *w, const char *agent, const char *why);

#define WORK_REASONS 6
#define WORK_BUCKETS 10
struct work_numbers {
	uint64_t leases_active, leases_granted, leases_expired, leases_released;
	uint64_t pool_ready, pool_filling, pool_discarding, pool_target, pool_fill_failed;
	uint64_t runs_live, runs_succeeded, runs_failed[WORK_REASONS];
	uint64_t run_buckets[WORK_BUCKETS + 1], run_duration_ns;
	uint64_t claim_buckets[WORK_BUCKETS + 1], claim_duration_ns; /* from the call to the answer */
};
void work_numbers(const struct work *w, struct work_numbers *out); /* w NULL: zeros */
const char *work_reason_name(unsigned i);                          /* timeout crash error released expired lost */
uint64_t work_run_bucket_ms(unsigned i);
uint64_t work_claim_bucket_ms(unsigned i);
/* The same in Prometheus' text format. ERR_TOO_LARGE, ERR_NOMEM. */
int work_metrics(const struct work *w, struct buf *out);

#endif
