/*
 * store_sql.h - what files with SQL share: statements that end themselves, and errors of SQLite in words.
 *
 * For control/ alone, inside a store_fn. A statement is prepared where it is used; whoever
 * has a `struct stmt` finishes it, on every way out.
 */
#ifndef CONTROL_STORE_STORE_SQL_H
#define CONTROL_STORE_STORE_SQL_H

#include "base/ids.h"

#include <sqlite3.h>
#include <stdint.h>

struct err;

/*
 * ERR_* for a result code of SQLite: DISK_FULL (also of an I/O error where there is no room), CORRUPT, NOMEM, AGAIN,
 * SYS; with its words and `what`.
 */
int store_error(sqlite3 *db, int rc, const char *what, struct err *e);
/* One or more statements without rows. */
int store_exec(sqlite3 *db, const char *sql, struct err *e);

/*
 * store_prepare(db, &st, sql, "tin", text, i64, NULL...): binds in order. t: const char * (NULL: NULL),
 * i: int64_t, n: NULL (no argument), d: const struct id * as text (NULL or nil: NULL).
 */
int store_prepare(sqlite3 *db, sqlite3_stmt **out, struct err *e, const char *sql, const char *types, ...);
/* 1: a row, 0: no more, else ERR_*. */
int store_step(sqlite3 *db, sqlite3_stmt *st, struct err *e);
/* Prepared, run to its end, finished. Rows changed in *out_changed (may be NULL). */
int store_run(sqlite3 *db, int *out_changed, struct err *e, const char *sql, const char *types, ...);
/*
 * The same, with each row of it, or NULL: each() returns 0, STORE_ENOUGH where it needs no more rows, or ERR_*, which
 * ends it as "no memory". How many there were in *out_rows (may be NULL).
 */
#define STORE_ENOUGH 1
typedef int store_row(void *arg, sqlite3_stmt *st);
int store_each(sqlite3 *db, int *out_rows, store_row *each, void *arg, struct err *e, const char *sql,
	       const char *types, ...);
/* Text of a column, "" for NULL; as long as the row. */
const char *store_text(sqlite3_stmt *st, int column);
/* An id of a column; nil for NULL or what is none. */
struct id store_id(sqlite3_stmt *st, int column);

#endif
