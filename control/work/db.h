/*
 * db.h - the tables of leases, runs, workflows and the pool, and every statement on them.
 *
 * Functions run inside a transaction that the store has begun (store.h), or read. They return 0 or ERR_*; a condition
 * that did not hold (another state by now) is ERR_BAD_STATE, and the transaction is to be rolled back then.
 */
#ifndef CONTROL_WORK_DB_H
#define CONTROL_WORK_DB_H

#include "control/work/work.h"

struct sqlite3;

struct lease_row {
	char id[ID_STR_LEN], sandbox[WORK_SANDBOX_MAX], state[12], call[ID_STR_LEN];
	char principal[WORK_NAME_MAX + 1], user[WORK_NAME_MAX + 1], request[WORK_NAME_MAX + 1];
	char workflow[WORK_NAME_MAX + 1], cause[200], run[WORK_NAME_MAX + 1];
	int64_t ttl_s, asked_ttl_s; /* asked 0: none was named */
	int64_t created_ns, expires_ns, ended_ns;
};

/* Leases. *out_found false: there is none. */
int db_lease_get(struct sqlite3 *db, const char *id, struct lease_row *out, bool *out_found, struct err *e);
int db_lease_by_key(struct sqlite3 *db, const struct lease_row *key, struct lease_row *out, bool *out_found,
		    struct err *e);
/* The lease, and its sandbox from ready to leased: ERR_BAD_STATE when that is not ready any more. */
int db_lease_claim(struct sqlite3 *db, const struct lease_row *l, struct err *e);
int db_lease_extend(struct sqlite3 *db, const char *id, int64_t expires_ns, struct err *e);

struct run_row {
	char id[ID_STR_LEN], lease[ID_STR_LEN], run[WORK_NAME_MAX + 1], call[ID_STR_LEN];
	char principal[WORK_NAME_MAX + 1], user[WORK_NAME_MAX + 1], workflow[WORK_NAME_MAX + 1];
	int64_t version, timeout_s, asked_timeout_s; /* asked 0: none was named */
	char state[12], reason[12], message[200];
	int64_t created_ns, ended_ns;
};
int db_run_insert(struct sqlite3 *db, const struct run_row *r, struct err *e);
int db_run_by_key(struct sqlite3 *db, const char *lease, const char *run, struct run_row *out, bool *out_found,
		  struct err *e);
/* JSON text; the first one stays. NULL: none could be made. */
int db_run_log(struct sqlite3 *db, const char *lease, const char *log, struct err *e);
/* JSON texts. */
int db_run_steps(struct sqlite3 *db, const char *id, const char *steps, const char *artifacts, struct err *e);

/* The end of a lease, of its run and of its sandbox: ERR_BAD_STATE when the lease is not ACTIVE. */
struct db_end {
	const char *lease, *state, *cause;
	const char *run_state, *run_reason, *run_message; /* of the run that is RUNNING, if there is one */
	const char *steps, *artifacts;                    /* JSON texts; NULL: as they are */
	int64_t now_ns;
};
int db_lease_end(struct sqlite3 *db, const struct db_end *x, struct err *e);

/* The pool. */
int db_pool_insert(struct sqlite3 *db, const char *sandbox, const char *state, int64_t now_ns, struct err *e);
int db_pool_ready(struct sqlite3 *db, const char *sandbox, struct err *e);                    /* ERR_BAD_STATE */
int db_pool_discard(struct sqlite3 *db, const char *sandbox, const char *why, struct err *e); /* from any state */
int db_pool_remove(struct sqlite3 *db, const char *sandbox, struct err *e);

/* After a start: what a crash left half done, in one transaction; then what there is. */
struct db_mended {
	int runs, leases, sandboxes;
};
int db_mend(struct sqlite3 *db, int64_t now_ns, struct db_mended *out, struct err *e);
typedef int db_lease_fn(void *arg, const struct lease_row *l);
typedef int db_pool_fn(void *arg, const char *sandbox, const char *state, const struct work_ids *ids);
int db_leases_active(struct sqlite3 *db, db_lease_fn *fn, void *arg, struct err *e);
int db_pool_all(struct sqlite3 *db, db_pool_fn *fn, void *arg, struct err *e);
/* Ended leases and their runs that ended before that; bounded, *out_more: there may be more of them. */
int db_purge(struct sqlite3 *db, int64_t before_ns, bool *out_more, struct err *e);

/* Workflows. */
struct workflow_row {
	char name[64], owner[WORK_NAME_MAX + 1], principal[WORK_NAME_MAX + 1];
	int64_t version, created_ns;
	char *body; /* JSON text; owned by whoever got it */
};
/* version 0: the newest. */
int db_workflow_get(struct sqlite3 *db, const char *name, int64_t version, struct workflow_row *out, bool *out_found,
		    struct err *e);
int db_workflow_insert(struct sqlite3 *db, const struct workflow_row *r, struct err *e);

/* Lists for people: newest first, `limit` at most; principal NULL: everybody's. As GET shows them. */
int db_leases_json(struct sqlite3 *db, const char *principal, const char *state, size_t limit, json_t *list,
		   struct err *e);
/* log: with that of the sandbox, null until that is wiped. */
int db_runs_json(struct sqlite3 *db, const char *principal, const char *run, const char *lease, size_t limit, bool log,
		 json_t *list, struct err *e);
int db_workflows_json(struct sqlite3 *db, const char *principal, size_t limit, json_t *list, struct err *e);
json_t *lease_row_json(const struct lease_row *l);

#endif
