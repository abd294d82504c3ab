/*
 * artifact_state.h - what control/artifacts/ holds in memory, and what its files know of each other.
 */
#ifndef CONTROL_ARTIFACTS_ARTIFACT_STATE_H
#define CONTROL_ARTIFACTS_ARTIFACT_STATE_H

#include "control/artifacts/artifacts.h"

#include "base/conf.h"
#include "base/err.h"

#include <stdio.h>
#include <sys/queue.h>
#include <uv.h>

#define BLOB_NAME_SZ (ARTIFACT_SHA256_SZ + ID_STR_LEN) /* <sha256>.<id> */

struct artifact_conf {
	uint64_t keep_ns, size, size_max, task_size, free_min;
	uint32_t task_max;
	uint32_t share_max[CONF_SHARE_OFS]; /* of a principal, an agent; 0: no limit */
	uint64_t share_size[CONF_SHARE_OFS];
};

struct artifacts {
	struct uv_loop_s *loop;
	struct store *store;
	struct artifact_conf conf;
	int dir_fd;
	struct artifacts_clock clock;
	uv_timer_t *timer;
	bool expiring, stopped;
	unsigned expire_failures;
	int expire_code;
	uint64_t expire_at;              /* boot ns; the last expiry could not be stored */
	uint64_t looked;                 /* store_changes() when the next end was read */
	int64_t next_ns;                 /* that end */
	struct artifacts_numbers stored; /* as the last transaction left it */
	uint64_t in_flight;              /* bytes that writers have taken and no row has yet */
	LIST_HEAD(, artifact_writer) writers;
	LIST_HEAD(, artifact_reader) readers;
};

/* A row, owned by value. Empty texts: none. */
struct artifact_row {
	char task[ARTIFACT_TEXT_MAX], name[ARTIFACT_NAME_MAX + 1], principal[ARTIFACT_TEXT_MAX];
	char agent[ARTIFACT_TEXT_MAX + 1], round[ID_STR_LEN], run[ARTIFACT_TEXT_MAX];
	char base[ARTIFACT_BASE_MAX + 1];
	char media_type[ARTIFACT_TYPE_MAX + 1];
	char sha256[ARTIFACT_SHA256_SZ], blob[ID_STR_LEN];
	uint64_t size;
	int64_t created_ns, expires_ns; /* expires_ns 0: never */
	bool apart;                     /* as of struct artifact_spec; not read */
};

static inline int64_t artifacts_now(const struct artifacts *a)
{
	return a->clock.now ? a->clock.now(a->clock.ctx) : 0;
}

static inline bool artifacts_wait(const struct artifacts *a)
{
	return a->clock.waits && a->clock.waits(a->clock.ctx);
}

/* The time up to which ends have passed. */
static inline int64_t artifacts_over(const struct artifacts *a)
{
	return artifacts_wait(a) ? INT64_MIN : artifacts_now(a);
}

/* artifact_row.c: rows in control.db; within a store_fn. */
struct sqlite3;
/* Files of blobs whose rows went, to be removed once the transaction is committed. */
struct blob_names {
	char (*names)[BLOB_NAME_SZ];
	size_t n;
};
int row_find(struct sqlite3 *db, const char *task, const char *name, int64_t now_ns, struct artifact_row *out,
	     bool *out_found, struct err *e);
json_t *row_json(const struct artifact_row *r); /* NULL: no memory */
int rows_json(struct sqlite3 *db, const struct artifact_filter *f, int64_t now_ns, json_t *list, struct err *e);
/* Of r's task what that principal (grant_root()) and those that it made grants for put, but r's name. */
int row_task(struct sqlite3 *db, const char *root, const struct artifact_row *r, struct artifacts_numbers *out,
	     struct err *e);
/* Of r's agent, or of its principal with those that it made grants for (name: grant_root()), in all tasks, but the
 * artifact r and those that stand apart. */
int row_share(struct sqlite3 *db, enum conf_share_of of, const char *name, const struct artifact_row *r,
	      struct artifacts_numbers *out, struct err *e);
int row_all(struct sqlite3 *db, struct artifacts_numbers *out, struct err *e);
/* *out_blob "": no file has that content. */
int row_blob(struct sqlite3 *db, const char *sha256, char out_blob[ID_STR_LEN], struct err *e);
/* In place of what has the name; blob_is_new: its row is made too. */
int row_put(struct sqlite3 *db, const struct artifact_row *r, bool blob_is_new, struct blob_names *gone,
	    bool *out_replaced, struct err *e);
int row_drop(struct sqlite3 *db, const struct artifact_row *r, struct blob_names *gone, struct err *e);
int rows_expired(struct sqlite3 *db, int64_t now_ns, struct artifact_row *rows, size_t max, size_t *out_n,
		 struct err *e);
/* The audit log hears of it after the commit (control/work/outbox.c). call: NULL, nobody's. */
int row_tell(struct sqlite3 *db, const char *event, const struct artifact_row *r, const json_t *call, struct err *e);
/* Does a row name the file? */
int row_names_file(struct sqlite3 *db, const char *file, bool *out, struct err *e);

/* artifact_writer.c, artifact_reader.c: whoever waits is told, nobody is called any more. */
void writers_stop(struct artifacts *a);
void readers_stop(struct artifacts *a);

static inline void blob_name(const char *sha256, const char *id, char out[BLOB_NAME_SZ])
{
	(void)snprintf(out, BLOB_NAME_SZ, "%s.%s", sha256, id);
}
/* blob.c: files. */
int blob_dir_open(const char *path, int *out_fd, struct err *e);
/* Removes files that no row names: in the loop, before anybody writes. */
int blobs_sweep(struct artifacts *a, struct err *e);
/* In the pool; names are taken over. */
void blobs_remove(struct artifacts *a, struct blob_names *gone);

#endif
