/*
 * index_db.h - the connection behind struct index and its statements. Private to index*.c.
 */
#ifndef RECORDER_INDEX_DB_H
#define RECORDER_INDEX_DB_H

#include "recorder/index.h"

#include <sqlite3.h>
#include <stdbool.h>

enum index_sql {
	SQL_PUT_OPEN,
	SQL_PUT_OFFSETS,
	SQL_PUT_END,
	SQL_PUT_SEALED,
	SQL_DROP_CHECKPOINT,
	SQL_PUT_EXPIRED,
	SQL_PUT_KEPT,
	SQL_PUT_GONE,
	SQL_EXPIRED,
	SQL_PUT_AUDIT,
	SQL_PUT_CURSOR,
	SQL_PUT_CHECKPOINT,
	SQL_GET_CURSOR,
	SQL_LAST_LSN,
	SQL_STATE,
	SQL_SESSIONS,
	SQL_AUDIT,
	SQL_AUDIT_START,
	SQL_RECENT,
	SQL_REFERS,
	SQL_UNSEALED,
	SQL_PUT_WAIT,
	SQL_GET_WAIT,
	SQL_NEWEST,
	SQL_PUT_HOLD,
	SQL_PUT_RELEASE,
	SQL_HOLDS,
	SQL_POLICY,
	SQL_PIECES,
	SQL_FRESH,
	INDEX_SQL_COUNT,
};

struct index {
	sqlite3 *db;
	sqlite3_stmt *stmts[INDEX_SQL_COUNT];
	bool complete;
};

const char *index_sql_text(enum index_sql which);
/* Prepared once, reset and without bindings. */
int index_stmt(struct index *ix, enum index_sql which, sqlite3_stmt **out, struct err *e);
/* Run to the end and reset. */
int index_step_done(struct index *ix, sqlite3_stmt *s, struct err *e);
/* ERR_* for a result code of SQLite, with its message. */
int index_error(struct index *ix, int rc, struct err *e);
/* Text, or NULL for NULL. */
void index_bind(sqlite3_stmt *s, const char *name, const char *text);
void index_bind_u64(sqlite3_stmt *s, const char *name, uint64_t v);

#endif
