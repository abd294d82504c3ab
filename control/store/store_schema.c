#include "control/store/store_schema.h"

#include "base/err.h"
#include "control/store/store_sql.h"

#include <stdio.h>
#include <string.h>

static const char *const steps[] = {
    store_schema_life_1,      /* 1: agents, snapshots */
    store_schema_work_1,      /* 2: workflows, pool, leases, runs */
    store_schema_outbox_1,    /* 3: what the audit log has yet to hear */
    store_schema_life_2,      /* 4: agents by sandbox */
    store_schema_life_3,      /* 5: digests of snapshots */
    store_schema_life_4,      /* 6: ... those that have none yet */
    store_schema_life_5,      /* 7: pod templates of agents' own */
    store_schema_outbox_2,    /* 8: every event of a lease by its three ids */
    store_schema_work_2,      /* 9: logs of runs */
    store_schema_artifacts_1, /* 10: artifacts of tasks */
    store_schema_life_6,      /* 11: forks for as long as they are read */
    store_schema_locks_1,     /* 12: advisory locks */
    store_schema_servers_1,   /* 13: MCP servers inside */
    store_schema_servers_2,   /* 14: ... approvals by their digest, the first one too */
    store_schema_services_1,  /* services inside; settings of agents */
    store_schema_services_2,  /* services that are done */
    store_schema_filespace_1, /* files that workspaces and the owner's store agreed on */
    store_schema_artifacts_2, /* artifacts by agent and by principal */
    store_schema_life_7,      /* images of agents */
    store_schema_life_8,      /* snapshots that outlived their agents */
    store_schema_life_9,      /* memory, cpu_milli and pids of agents */
    store_schema_life_10,     /* what agents began with, that was no snapshot of another */
    store_schema_life_11,     /* apps of agents */
};
#define VERSION ((int)(sizeof(steps) / sizeof(steps[0])))

int store_schema_version(void)
{
	return VERSION;
}

static int number_of(sqlite3 *db, const char *sql, int64_t *out, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, &st, e, sql, "");

	if (!rc && (rc = store_step(db, st, e)) > 0) {
		*out = sqlite3_column_int64(st, 0);
		rc = 0;
	}
	sqlite3_finalize(st);
	return rc;
}

/* Why it cannot be read decides what helps: to put away a file that only has no room beside it would lose what is in
 * it.
 */
static int cannot_read(const char *path, const char *how, const struct err *why, struct err *e)
{
	if (why->code == ERR_DISK_FULL)
		return err_set(e, why->code,
			       "%s cannot be opened: its disk is full (%.300s). It was not touched. Make room there, "
			       "then start again",
			       path, why->message);
	if (why->code != ERR_CORRUPT)
		return err_set(e, why->code,
			       "%s cannot be read (%.300s). It was not touched, and nothing says that it is damaged: "
			       "look at its disk, then start again",
			       path, why->message);
	return err_set(e, ERR_CORRUPT,
		       "%s %s (%.300s). It was not touched. Put it aside and start again: what runs is found "
		       "and taken up; or restore a copy of it",
		       path, how, why->message);
}

/* The first complaint of SQLite about its own structures. */
static int whole(sqlite3 *db, const char *path, struct err *e)
{
	sqlite3_stmt *st = NULL;
	struct err why = {0};
	int rc = store_prepare(db, &st, &why, "PRAGMA quick_check(1)", "");

	if (!rc)
		rc = store_step(db, st, &why);
	if (rc > 0 && strcmp(store_text(st, 0), "ok") != 0)
		rc = err_set(&why, ERR_CORRUPT, "%s", store_text(st, 0));
	sqlite3_finalize(st);
	return rc < 0 ? cannot_read(path, "is damaged", &why, e) : 0;
}

int store_schema_check(sqlite3 *db, const char *path, int *out_version, struct err *e)
{
	int64_t version = 0, application = 0, tables = 0;
	struct err why = {0};

	if (number_of(db, "PRAGMA user_version", &version, &why) ||
	    number_of(db, "PRAGMA application_id", &application, &why) ||
	    number_of(db, "SELECT count(*) FROM sqlite_schema", &tables, &why))
		return cannot_read(path, "cannot be read", &why, e);
	if (!version && !application && !tables) {
		*out_version = 0;
		return 0;
	}
	if (application != STORE_APPLICATION_ID)
		return err_set(e, ERR_CORRUPT, "%s is no control database of muxd. It was not touched: put it aside",
			       path);
	if (version > VERSION)
		return err_set(
		    e, ERR_UNSUPPORTED,
		    "%s has version %lld, written by a newer muxd; this one knows up to %d. It was not touched: "
		    "start the newer program, or put the file aside",
		    path, (long long)version, VERSION);
	*out_version = (int)version;
	return whole(db, path, e);
}

/* All steps are one transaction: a daemon that dies in it leaves the version that it found, and one commit is one wait
 * for the disk, not one a step.
 */
int store_schema_apply(sqlite3 *db, int from, struct err *e)
{
	char note[96];
	int rc;

	if (from == VERSION)
		return 0;
	snprintf(note, sizeof(note), "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
		 STORE_APPLICATION_ID, VERSION);
	rc = store_exec(db, "BEGIN IMMEDIATE", e);
	for (int v = from; !rc && v < VERSION; v++)
		rc = store_exec(db, steps[v], e);
	if (!rc)
		rc = store_exec(db, note, e);
	if (rc)
		(void)store_exec(db, "ROLLBACK", NULL);
	return rc;
}
