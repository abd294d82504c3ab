/*
 * state.h - what control/work/ holds in memory; control.db is the truth, this follows it.
 *
 * A job is one transaction and what follows it. What a job found is applied in its `after`, in the order of the
 * transactions. Entries, leases and runs belong to the work; a run is freed when it is over and no step of it is out.
 */
#ifndef CONTROL_WORK_STATE_H
#define CONTROL_WORK_STATE_H

#include "base/err.h"
#include "control/work/body.h"
#include "control/work/db.h"
#include "control/work/demand.h"
#include "control/work/work.h"

#include <sys/queue.h>
#include <uthash.h>
#include <uv.h>

struct work_conf {
	uint32_t pool_size, pool_max, leases_max, fill;
	uint64_t wait_ns, retain_ns;
	uint64_t memory_max;
	struct work_limits limits;
};

enum pool_state { POOL_FILLING, POOL_READY, POOL_CLAIMED, POOL_LEASED, POOL_DISCARDING };

struct pool_entry {
	UT_hash_handle hh;
	struct work *w;
	char name[WORK_SANDBOX_MAX];
	enum pool_state state;
	struct work_ids ids;
	char principal[WORK_NAME_MAX + 1]; /* of the lease */
	char why[200];                     /* discarding */
	bool out;                          /* the host works on it */
	bool logged;                       /* its log is with its run, or cannot be had */
	bool gone;                         /* so is its row; known until the list that is out has come */
	uint64_t retry_at, backoff_ns;     /* discarding: boot ns */
};

struct run {
	TAILQ_ENTRY(run) entry;
	struct work *w;
	struct run_row row;
	char sandbox[WORK_SANDBOX_MAX];
	json_t *definition, *results, *artifacts;
	size_t step;
	size_t taking;           /* which of the step's artifacts */
	struct work_result last; /* of the step whose artifacts are being taken */
	int last_rc;
	struct err last_e;
	void *auth;
	char *token;
	size_t token_len;
	uint64_t begun, deadline; /* boot ns */
	bool over, ending, out;
};

struct lease {
	UT_hash_handle hh;
	struct lease_row row;
	uint64_t deadline; /* boot ns */
	struct run *run;   /* NULL: none yet */
	unsigned beats;    /* heartbeats on their way to the store: its time is not over before they are there */
	bool ending;
	bool unseen;       /* read by a start, which has not seen yet whether its sandbox runs */
	unsigned failures; /* of its end to be stored */
	uint64_t retry_at; /* boot ns; 0: no try failed */
};

/* Somebody waits for a sandbox. */
struct wish {
	TAILQ_ENTRY(wish) entry;
	struct lease_row row;
	work_done *done;
	void *arg;
	uint64_t asked, until; /* boot ns */
};

struct job {
	LIST_ENTRY(job) entry;
	struct work *w;
	work_done *done;
	void *arg;
	int64_t now_ns; /* when it was written: the pool asks no clock of the hub's */
	int (*in_db)(struct sqlite3 *db, struct job *j, struct err *e);
	void (*after)(struct job *j, int rc, const struct err *e);
	void (*drop)(struct job *j); /* what it holds; NULL: nothing */
};

struct work {
	struct uv_loop_s *loop;
	struct store *store;
	struct work_conf conf;
	struct work_host host;
	uv_timer_t *timer;
	bool begun, ready, stopped;
	bool listing; /* recover.c: a list of sandboxes was asked for, and has not come */
	struct {
		unsigned failures;
		int code;    /* of the last one */
		uint64_t at; /* boot ns: tried again */
	} mend;              /* recover.c, while it is not ready */
	/* outbox.c: up to which row; keeping: durable once the journal is up to keeping_at; forgetting 0: nothing is
	 * being deleted */
	int64_t told, keeping, kept, forgetting, forgotten;
	uint64_t keeping_at, forget_at; /* forget_at: boot ns; the last deletion failed */
	int forget_code;
	uint64_t tell_at; /* boot ns; the audit log refused */
	uint64_t looked;  /* store_changes() up to which all was told */
	struct {
		int code;       /* why no end of a lease could be stored; 0: they can */
		unsigned count; /* tries that failed since it was said last */
		uint64_t told_at;
	} unstored; /* lease.c */
	struct pool_entry *pool;
	struct lease *leases;
	TAILQ_HEAD(, run) runs;
	TAILQ_HEAD(wishes, wish) wishes;
	LIST_HEAD(, job) jobs;
	struct demand demand;
	uint64_t fill_at, fill_backoff_ns, purge_at, list_at; /* boot ns; list_at 0: known */
	struct work_numbers n;
};

/* job.c */
/* size: of the struct that begins with a job. NULL: no memory, and the caller has heard it. */
void *job_create(struct work *w, size_t size, work_done *done, void *arg);
void job_write(struct job *j, int (*in_db)(struct sqlite3 *, struct job *, struct err *),
	       void (*after)(struct job *, int, const struct err *));
void job_answer(struct job *j, int rc, const struct err *e, json_t *result); /* result is stolen */
void answer(work_done *done, void *arg, int rc, const struct err *e, json_t *result);
int64_t now_wall(const struct work *w);
/*
 * Lists for people, of the caller's own or, for who sees all, of everybody's; *out {name: [...]}. The body may say
 * `limit`, and `key` (NULL: nothing else), which becomes by. in_db gets the listing.
 */
struct listing {
	const char *principal, *by; /* NULL: all */
	int64_t limit;
	json_t *list;
};
int job_list(struct work *w, const struct work_caller *c, const json_t *body, const char *key,
	     int (*in_db)(struct sqlite3 *db, void *listing, struct err *e), const char *name, json_t **out,
	     struct err *e);
void audit(struct work *w, const char *event, const char *sandbox, const char *outcome, json_t *detail);
/* The caller's own, or all for an administrator; another's answers as one that was never there (ERR_NOT_FOUND). */
int may_touch(const struct work_caller *c, const char *principal, const char *what, const char *id, struct err *e);
int may_act_for(const struct work_caller *c, const char *user, struct err *e);

/* metrics.c: ns is one more time, in the bucket that bucket() says, in ms. */
void count_time(uint64_t buckets[WORK_BUCKETS + 1], uint64_t (*bucket)(unsigned), uint64_t ns);

/* outbox.c */
void outbox_tell(struct work *w); /* what is there; from the timer, too, so that what was refused is told later */

/* pool.c */
struct pool_entry *pool_add(struct work *w, const char *name, enum pool_state s);
void pool_forget(struct work *w); /* all of them, in memory: nothing is under way with any */
void pool_forget_gone(struct work *w);
struct pool_entry *pool_find(const struct work *w, const char *name);
void pool_set_state(struct pool_entry *p, enum pool_state s);
void pool_discard(struct pool_entry *p, const char *why); /* its row says so already */
void pool_give_up(struct pool_entry *p, const char *why); /* and this makes the row say so */
unsigned pool_count(const struct work *w, enum pool_state s);
unsigned pool_waiting(const struct work *w); /* who waits for one of them */
json_t *pool_json(struct work *w);
uint64_t pool_back_off(uint64_t ns); /* the next wait after one of ns */
/* A job about one entry, which is found again by its name. NULL: no memory. */
struct pool_job {
	struct job j;
	char name[WORK_SANDBOX_MAX];
	char why[200];
};
struct pool_job *pool_job_create(struct pool_entry *p);

/* fill.c */
void fill_prepare(struct pool_entry *p);
void fill_tick(struct work *w, uint64_t now);

/* wish.c */
void wish_create(struct work *w, const struct work_caller *c, const json_t *body, work_done *done, void *arg);
void wishes_pump(struct work *w); /* who waits meets what is ready */
void wishes_fail_first(struct work *w, int rc, const struct err *e);
void wishes_tick(struct work *w, uint64_t now);

/* lease.c */
void lease_heartbeat(struct work *w, const struct work_caller *c, const char *id, work_done *done, void *arg);
void lease_release(struct work *w, const struct work_caller *c, const char *id, work_done *done, void *arg);
int lease_show(struct work *w, const struct work_caller *c, const char *id, json_t **out, struct err *e);
int lease_list(struct work *w, const struct work_caller *c, const json_t *body, json_t **out, struct err *e);
int lease_add(struct work *w, const struct lease_row *row); /* one that is stored, into memory; ERR_NOMEM */
void leases_forget(struct work *w);                         /* all of them, in memory */
struct log_ids lease_ids(const struct lease_row *l);        /* also of one that is not in memory */
void lease_tick(struct work *w, uint64_t now);
struct lease_end {
	const char *state, *cause;
	const char *run_state, *run_reason, *run_message; /* of a run that is cut by it */
};
void lease_end(struct work *w, struct lease *l, const struct lease_end *x);
struct lease *lease_find(const struct work *w, const char *id);

/* run.c */
void run_forget_secret(struct run *r);                               /* its token: no step begins any more */
void run_forget_token(struct run *r);                                /* and what came with its call */
void run_over(struct run *r, const char *state, const char *reason); /* its lease has ended with it */
void run_free(struct run *r);

/* run_steps.c */
void run_start(struct work *w, const struct work_caller *c, json_t *body, work_done *done, void *arg);
void runs_tick(struct work *w, uint64_t now);

/* run_look.c */
int run_show(struct work *w, const struct work_caller *c, const char *id, const json_t *body, json_t **out,
	     struct err *e);
int run_list(struct work *w, const struct work_caller *c, const json_t *body, json_t **out, struct err *e);

/* stored.c */
void workflow_put(struct work *w, const struct work_caller *c, const json_t *body, work_done *done, void *arg);
int workflow_show(struct work *w, const struct work_caller *c, const char *id, json_t **out, struct err *e);
int workflow_list(struct work *w, const struct work_caller *c, const json_t *body, json_t **out, struct err *e);
/* The definition that a workflowId means now; *out_row's body is the caller's. ERR_NOT_FOUND. */
int workflow_find(struct sqlite3 *db, const struct work_caller *c, const char *id, struct workflow_row *out,
		  struct err *e);

/* recover.c */
void recover_begin(struct work *w); /* w->ready follows, sooner or later */
void recover_tick(struct work *w, uint64_t now);

#endif
