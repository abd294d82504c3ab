/*
 * index_db.h - the connection behind struct index and its statements. Private to index*.c.
 */
#ifndef RECORDER_INDEX_INDEX_DB_H
#define RECORDER_INDEX_INDEX_DB_H

#include "recorder/chain/digest.h"
#include "recorder/index/index.h"

#include <sqlite3.h>
#include <stdbool.h>

enum index_sql {
	SQL_PUT_OPEN,
	SQL_PUT_OFFSETS,
	SQL_PUT_END,
	SQL_PUT_SESSION,
	SQL_PUT_KEYFRAMES,
	SQL_PUT_CODE,
	SQL_SESSION_ROW,
	SQL_SESSION_NEXT,
	SQL_SESSION_DROP,
	SQL_SESSION_BAD,
	SQL_SESSION_DROP_BAD,
	SQL_HAS_CHECKPOINT,
	SQL_AUDIT_MAX,
	SQL_AUDIT_NEWEST,
	SQL_AUDIT_ROW,
	SQL_AUDIT_BETWEEN,
	SQL_AUDIT_DROP,
	SQL_PUT_KEY,
	SQL_GET_KEY,
	SQL_VERSION,
	SQL_DROP_CHECKPOINT,
	SQL_PUT_EXPIRED,
	SQL_PUT_KEPT,
	SQL_PUT_GONE,
	SQL_EXPIRED,
	SQL_PUT_AUDIT,
	SQL_PUT_CURSOR,
	SQL_PUT_CHECKPOINT,
	SQL_GET_CURSOR,
	SQL_STATE,
	SQL_SESSIONS,
	SQL_AUDIT,
	SQL_AUDIT_START,
	SQL_RECENT,
	SQL_REFERS,
	SQL_UNSEALED,
	SQL_SESSIONS_ABOVE,
	SQL_PUT_WAIT,
	SQL_GET_WAIT,
	SQL_NEWEST,
	SQL_RAN_AHEAD,
	SQL_PUT_HOLD,
	SQL_PUT_RELEASE,
	SQL_HOLDS,
	SQL_HOLD_ROWS,
	SQL_HOLDS_CLEAR,
	SQL_POLICY,
	SQL_PIECES,
	SQL_FRESH,
	SQL_NAMED_BY,
	INDEX_SQL_COUNT,
};

struct index {
	sqlite3 *db;
	sqlite3_stmt *stmts[INDEX_SQL_COUNT];
	bool complete, damaged;
	bool keyed, key_is_new;     /* new: no row has its code yet, or all of them another */
	struct digest inner, outer; /* HMAC-SHA-256 behind its pads */
	uint64_t unsound;           /* rows met whose code does not fit */
	int64_t version;            /* of the file's content, as the writer saw it last */
};

/* Prepared once, reset and without bindings. */
int index_stmt(struct index *ix, enum index_sql which, sqlite3_stmt **out, struct err *e);
/* Run to the end and reset. */
int index_step_done(struct index *ix, sqlite3_stmt *s, struct err *e);
/* 1 with a row in s, which is to be reset; 0: there is none. */
int index_step_row(struct index *ix, sqlite3_stmt *s, struct err *e);
/* ERR_* for a result code of SQLite, with its message. */
int index_error(struct index *ix, int rc, struct err *e);
/* Text, or NULL for NULL. */
void index_bind(sqlite3_stmt *s, const char *name, const char *text);
void index_bind_u64(sqlite3_stmt *s, const char *name, uint64_t v);

#endif
