/*
 * Two connections: the writer's, used by one job of the pool at a time (or by store_close()), and the reader's, used in
 * the loop. What is queued when the writer becomes free goes into one transaction, each closure in a savepoint of its
 * own: one wait for the disk, and one that fails takes nothing else with it.
 */
#define LOG_SUBSYS "store"
#include "control/store/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "control/store/store_schema.h"
#include "control/store/store_sql.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#define BATCH_MAX 256
#define PROBE_NS  (2 * NS_PER_SEC)
#define SAID_NS   (60 * NS_PER_SEC)

struct store_job {
	STAILQ_ENTRY(store_job) entry;
	store_fn *fn;
	store_done *done;
	void *job;
	int rc;
	struct err e;
};
STAILQ_HEAD(store_jobs, store_job);

/* One turn of the pool. It may outlive the store: the loop frees it. */
struct store_turn {
	uv_work_t work;
	struct store *store; /* NULL: closed meanwhile */
	struct store_jobs jobs;
	sqlite3 *db;
	struct err e; /* of the disk, if any */
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool over;
};

struct store {
	struct uv_loop_s *loop;
	sqlite3 *writer, *reader;
	struct store_jobs queue;
	struct store_turn *turn; /* in the pool */
	int lock_fd;
	uint64_t changes;
	enum store_state state;
	bool probing;
	uint64_t probe_at; /* boot ns */
	bool said;         /* the log has that it is not STORE_OK */
	uint64_t said_at;  /* a disk on the brink of full is told of once a minute */
};

/* ---- running jobs: in the pool, or at the end in the loop */

static void run_one(sqlite3 *db, struct store_job *j)
{
	j->rc = store_exec(db, "SAVEPOINT one", &j->e);
	if (j->rc)
		return;
	j->rc = j->fn(db, j->job, &j->e);
	if (j->rc && !j->e.message[0])
		err_set(&j->e, j->rc, "%s", err_name(j->rc));
	if (j->rc)
		(void)store_exec(db, "ROLLBACK TO one", NULL);
	(void)store_exec(db, "RELEASE one", NULL);
}

static void fail_all(struct store_jobs *jobs, const struct err *e)
{
	struct store_job *j;

	STAILQ_FOREACH(j, jobs, entry)
	{
		j->rc = e->code == ERR_DISK_FULL ? ERR_DISK_FULL : ERR_RECORD_UNAVAILABLE;
		err_set(&j->e, j->rc, "%s", e->message);
	}
}

static int run_batch(sqlite3 *db, struct store_jobs *jobs, struct err *e)
{
	struct store_job *j;
	int rc = store_exec(db, "BEGIN IMMEDIATE", e);

	if (rc)
		return rc;
	STAILQ_FOREACH(j, jobs, entry)
	{
		run_one(db, j);
		/* A full disk or an I/O error may undo all of it at once; what came after would be a transaction of
		 * its own. */
		if (sqlite3_get_autocommit(db))
			return err_set(e, j->rc ? j->rc : ERR_SYS, "%s",
				       j->e.message[0] ? j->e.message : "control.db: the transaction was undone");
	}
	return store_exec(db, "COMMIT", e);
}

/* *e: why the transaction, or one of them, failed for want of the disk; else as it was. */
static void run_jobs(sqlite3 *db, struct store_jobs *jobs, struct err *e)
{
	struct store_job *j;

	if (run_batch(db, jobs, e)) {
		if (!sqlite3_get_autocommit(db))
			(void)store_exec(db, "ROLLBACK", NULL);
		fail_all(jobs, e);
		return;
	}
	STAILQ_FOREACH(j, jobs, entry)
	if (j->rc == ERR_DISK_FULL)
		*e = j->e;
}

static void store_answer(struct store_jobs *jobs)
{
	struct store_job *j;

	while ((j = STAILQ_FIRST(jobs))) {
		STAILQ_REMOVE_HEAD(jobs, entry);
		if (j->done)
			j->done(j->job, j->rc, j->rc ? &j->e : NULL);
		free(j);
	}
}

static void store_on_work(uv_work_t *w)
{
	struct store_turn *t = w->data;

	run_jobs(t->db, &t->jobs, &t->e);
	pthread_mutex_lock(&t->lock);
	t->over = true;
	pthread_cond_signal(&t->ended);
	pthread_mutex_unlock(&t->lock);
}

static void turn_free(struct store_turn *t)
{
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->ended);
	free(t);
}

static void begin_turn(struct store *s);

static void store_set_state(struct store *s, const struct err *e)
{
	enum store_state to = STORE_OK;
	uint64_t now = clock_boot_ns();

	if (e->code == ERR_DISK_FULL)
		to = STORE_DISK_FULL;
	else if (e->code == ERR_SYS || e->code == ERR_CORRUPT)
		to = STORE_FAILED;
	else if (e->code)
		return; /* of memory, or of who copies the database: says nothing of the disk */
	if (to == s->state)
		return;
	s->state = to;
	s->probe_at = now + PROBE_NS;
	if (to == STORE_OK) {
		if (s->said)
			log_info(NULL, "changes of sandboxes, leases and artifacts are stored again");
		s->said = false;
	} else if (!s->said && (!s->said_at || now >= s->said_at + SAID_NS)) {
		log_error(NULL, "changes of sandboxes, leases and artifacts cannot be stored: %s", e->message);
		s->said = true;
		s->said_at = now;
	}
}

enum store_state store_state(const struct store *s)
{
	return s ? s->state : STORE_OK;
}

/* The version is written as it is: a page of the database, and so a write like any other. */
static int probe_in_db(struct sqlite3 *db, void *job, struct err *e)
{
	char text[64];

	(void)job;
	snprintf(text, sizeof(text), "PRAGMA user_version = %d", store_schema_version());
	return store_exec(db, text, e);
}

static void store_on_probed(void *job, int rc, const struct err *e)
{
	struct store *s = job;

	(void)rc, (void)e;
	s->probing = false;
	s->probe_at = clock_boot_ns() + PROBE_NS;
}

void store_probe(struct store *s)
{
	if (!s || s->state == STORE_OK || s->probing || clock_boot_ns() < s->probe_at)
		return;
	s->probing = true;
	store_write(s, probe_in_db, store_on_probed, s);
}

static void store_on_worked(uv_work_t *w, int status)
{
	struct store_turn *t = w->data;
	struct store *s = t->store;
	struct store_jobs jobs = STAILQ_HEAD_INITIALIZER(jobs);

	(void)status;
	STAILQ_CONCAT(&jobs, &t->jobs);
	if (s)
		store_set_state(s, &t->e);
	turn_free(t);
	if (!s)
		return;
	s->turn = NULL;
	s->changes++;
	begin_turn(s); /* the next runs while these are told; order of the answers stays */
	store_answer(&jobs);
}

static struct store_turn *turn_create(struct store *s)
{
	struct store_turn *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->work.data = t;
	t->store = s;
	t->db = s->writer;
	STAILQ_INIT(&t->jobs);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->ended, NULL);
	return t;
}

static void begin_turn(struct store *s)
{
	struct store_turn *t;
	struct store_job *j;

	if (s->turn || STAILQ_EMPTY(&s->queue))
		return;
	t = turn_create(s);
	if (!t)
		return; /* the next write tries again; the close runs what is left */
	for (int i = 0; i < BATCH_MAX && (j = STAILQ_FIRST(&s->queue)); i++) {
		STAILQ_REMOVE_HEAD(&s->queue, entry);
		STAILQ_INSERT_TAIL(&t->jobs, j, entry);
	}
	s->turn = t;
	if (uv_queue_work(s->loop, &t->work, store_on_work, store_on_worked)) {
		STAILQ_CONCAT(&t->jobs, &s->queue);
		STAILQ_CONCAT(&s->queue, &t->jobs);
		s->turn = NULL;
		turn_free(t);
	}
}

void store_write(struct store *s, store_fn *fn, store_done *done, void *job)
{
	struct store_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		err_set(&e, ERR_NOMEM, "no memory for a change of the control database");
		done(job, e.code, &e);
		return;
	}
	*j = (struct store_job){.fn = fn, .done = done, .job = job};
	STAILQ_INSERT_TAIL(&s->queue, j, entry);
	begin_turn(s);
}

uint64_t store_changes(const struct store *s)
{
	return s->changes;
}

int store_read(struct store *s, store_fn *fn, void *job, struct err *e)
{
	return fn(s->reader, job, e);
}

/* ---- opening */

static int store_open_file(const char *path, int flags, sqlite3 **out, struct err *e)
{
	sqlite3 *db = NULL;
	int rc = sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(db, 5000);
	if (rc != SQLITE_OK) {
		rc = store_error(db, rc, path, e);
		sqlite3_close(db);
		return rc;
	}
	*out = db;
	return 0;
}

/* A file beside it, so that looking at the database never drops SQLite's own locks. */
static int take_lock(struct store *s, const char *path, struct err *e)
{
	char name[PATH_MAX];

	if (snprintf(name, sizeof(name), "%s.lock", path) >= (int)sizeof(name))
		return err_set(e, ERR_INVAL, "the path of the control database is too long");
	s->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return err_sys(e, errno, "open %s", name);
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK
			   ? err_set(e, ERR_CONFLICT, "another process works on %s: end it first", path)
			   : err_sys(e, errno, "lock %s", name);
	return 0;
}

/* What is there, looked at without writing. *out_version 0: nothing yet. */
static int store_look(const char *path, int *out_version, struct err *e)
{
	sqlite3 *db = NULL;
	struct stat st;
	int rc;

	*out_version = 0;
	if (stat(path, &st) || st.st_size == 0)
		return 0;
	rc = store_open_file(path, SQLITE_OPEN_READONLY, &db, e);
	if (!rc)
		rc = store_schema_check(db, path, out_version, e);
	sqlite3_close(db);
	return rc;
}

static int prepare_writer(struct store *s, const char *path, int version, struct err *e)
{
	int rc = store_open_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &s->writer, e);

	if (!rc)
		rc = store_exec(s->writer,
				"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
				"PRAGMA wal_autocheckpoint = 1000; PRAGMA journal_size_limit = 16777216",
				e);
	return rc ? rc : store_schema_apply(s->writer, version, e);
}

int store_open(struct uv_loop_s *loop, const char *path, struct store **out, struct err *e)
{
	struct store *s = calloc(1, sizeof(*s));
	int version = 0, rc;

	if (!s)
		return err_set(e, ERR_NOMEM, "no memory for the control database");
	s->loop = loop;
	s->lock_fd = -1;
	s->changes = 1;
	STAILQ_INIT(&s->queue);
	rc = take_lock(s, path, e);
	if (!rc)
		rc = store_look(path, &version, e);
	if (!rc)
		rc = prepare_writer(s, path, version, e);
	if (!rc)
		rc = store_open_file(path, SQLITE_OPEN_READONLY, &s->reader, e);
	if (rc) {
		store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

static void finish_turn(struct store *s)
{
	struct store_turn *t = s->turn;
	struct store_jobs jobs = STAILQ_HEAD_INITIALIZER(jobs);

	pthread_mutex_lock(&t->lock);
	while (!t->over)
		pthread_cond_wait(&t->ended, &t->lock);
	pthread_mutex_unlock(&t->lock);
	t->store = NULL;
	s->turn = NULL;
	STAILQ_CONCAT(&jobs, &t->jobs);
	store_answer(&jobs);
}

void store_close(struct store *s)
{
	if (!s)
		return;
	while (s->turn || !STAILQ_EMPTY(&s->queue)) {
		struct store_jobs jobs = STAILQ_HEAD_INITIALIZER(jobs);
		struct err e = {0};

		if (s->turn) {
			finish_turn(s);
			continue;
		}
		STAILQ_CONCAT(&jobs, &s->queue);
		run_jobs(s->writer, &jobs, &e);
		store_answer(&jobs);
	}
	sqlite3_close(s->reader);
	sqlite3_close(s->writer);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	free(s);
}
