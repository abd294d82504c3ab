#include "control/store/store_sql.h"

#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/statvfs.h>

#define ROOM_LEAST (128 * 1024) /* of the WAL's index alone a reader needs 32 KiB */

/*
 * Only a write that runs out of room is SQLITE_FULL. The index of the WAL that a reader needs, a journal, a file that
 * is opened: without room each is an I/O error, and sometimes errno says which.
 */
static bool no_room(sqlite3 *db, int rc)
{
	const char *path = db ? sqlite3_db_filename(db, "main") : NULL;
	struct statvfs st;
	int en;

	if ((rc & 0xff) == SQLITE_FULL)
		return true;
	if (!db || ((rc & 0xff) != SQLITE_IOERR && (rc & 0xff) != SQLITE_CANTOPEN))
		return false;
	en = sqlite3_system_errno(db);
	if (en == ENOSPC || en == EDQUOT)
		return true;
	return path && *path && statvfs(path, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize < ROOM_LEAST;
}

int store_error(sqlite3 *db, int rc, const char *what, struct err *e)
{
	const char *words = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);

	if (no_room(db, rc))
		return err_set(e, ERR_DISK_FULL, "control.db: %s: the disk is full (%s)", what, words);
	switch (rc & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_set(e, ERR_CORRUPT, "control.db: %s: %s", what, words);
	case SQLITE_NOMEM:
		return err_set(e, ERR_NOMEM, "control.db: %s: %s", what, words);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(e, ERR_AGAIN, "control.db: %s: %s", what, words);
	case SQLITE_CONSTRAINT:
		return err_set(e, ERR_CONFLICT, "control.db: %s: %s", what, words);
	default:
		return err_set(e, ERR_SYS, "control.db: %s: %s", what, words);
	}
}

int store_exec(sqlite3 *db, const char *sql, struct err *e)
{
	int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : store_error(db, rc, "a statement failed", e);
}

static int bind_id(sqlite3_stmt *st, int i, const struct id *id)
{
	char text[ID_STR_LEN];

	if (!id || id_is_nil(id))
		return sqlite3_bind_null(st, i);
	id_format(id, text);
	return sqlite3_bind_text(st, i, text, -1, SQLITE_TRANSIENT);
}

static int store_sql_prepare(sqlite3 *db, sqlite3_stmt **out, struct err *e, const char *sql, const char *types,
			     va_list ap)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	for (int i = 1; rc == SQLITE_OK && types[i - 1]; i++) {
		switch (types[i - 1]) {
		case 't':
			rc = sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
			break;
		case 'i':
			rc = sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
			break;
		case 'd':
			rc = bind_id(st, i, va_arg(ap, const struct id *));
			break;
		default:
			rc = sqlite3_bind_null(st, i);
		}
	}
	if (rc != SQLITE_OK) {
		rc = store_error(db, rc, sql, e);
		sqlite3_finalize(st);
		return rc;
	}
	*out = st;
	return 0;
}

int store_prepare(sqlite3 *db, sqlite3_stmt **out, struct err *e, const char *sql, const char *types, ...)
{
	va_list ap;
	int rc;

	va_start(ap, types);
	rc = store_sql_prepare(db, out, e, sql, types, ap);
	va_end(ap);
	return rc;
}

int store_step(sqlite3 *db, sqlite3_stmt *st, struct err *e)
{
	int rc = sqlite3_step(st);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : store_error(db, rc, "a statement failed", e);
}

int store_run(sqlite3 *db, int *out_changed, struct err *e, const char *sql, const char *types, ...)
{
	sqlite3_stmt *st = NULL;
	va_list ap;
	int rc;

	va_start(ap, types);
	rc = store_sql_prepare(db, &st, e, sql, types, ap);
	va_end(ap);
	if (rc)
		return rc;
	while ((rc = store_step(db, st, e)) > 0)
		;
	sqlite3_finalize(st);
	if (!rc && out_changed)
		*out_changed = sqlite3_changes(db);
	return rc;
}

int store_each(sqlite3 *db, int *out_rows, store_row *each, void *arg, struct err *e, const char *sql,
	       const char *types, ...)
{
	sqlite3_stmt *st = NULL;
	int rc, n = 0;
	va_list ap;

	va_start(ap, types);
	rc = store_sql_prepare(db, &st, e, sql, types, ap);
	va_end(ap);
	while (!rc && (rc = store_step(db, st, e)) > 0) {
		n++;
		rc = each ? each(arg, st) : 0;
		if (rc < 0)
			err_set(e, rc, "no memory for what control.db holds");
	}
	sqlite3_finalize(st);
	if (rc >= 0 && out_rows)
		*out_rows = n;
	return rc < 0 ? rc : 0;
}

const char *store_text(sqlite3_stmt *st, int column)
{
	const unsigned char *s = sqlite3_column_text(st, column);

	return s ? (const char *)s : "";
}

struct id store_id(sqlite3_stmt *st, int column)
{
	struct id id = {0};

	if (id_parse(store_text(st, column), &id))
		return (struct id){0};
	return id;
}
