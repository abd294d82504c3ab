/*
 * index_row.h - rows of audit.db as cells: derived, written, keyed, compared. Private to index*.c.
 *
 * Every row that is shown to somebody (audit, sessions) carries a code keyed with a secret of the recorder's own
 * (signer_derive()) over its cells. The recorder writes it where it derived the row from the journal, a recording or
 * the chain log; a row whose code does not fit was written by somebody else. It is no evidence: verify derives rows
 * again.
 *
 * Bytes counted of a session that has not ended (input, output, stderr) move all the time and are not covered; they
 * are told from memory.
 */
#ifndef RECORDER_INDEX_INDEX_ROW_H
#define RECORDER_INDEX_INDEX_ROW_H

#include "recorder/index/index_db.h"

#define ROW_CODE 16
#define ROW_MAX  24

enum row_table { ROW_AUDIT, ROW_SESSIONS, ROW_TABLES };

/* Where an audit row has its event, as ROW_AUDIT_COLUMNS names them. */
#define A_JSON 3
/* Cells of a session, as ROW_SESSION_COLUMNS names them. */
enum session_cell {
	S_ID,
	S_KIND,
	S_AGENT,
	S_PRINCIPAL,
	S_PRINCIPAL_KIND,
	S_TASK,
	S_EXEC_ID,
	S_REASON,
	S_OPENED,
	S_ENDED,
	S_STATE,
	S_OPEN,
	S_EXIT,
	S_INPUT,
	S_OUTPUT,
	S_STDERR,
	S_DIGEST,
	S_CAUSE,
	S_OPEN_LSN,
	S_OPEN_SEGMENT,
	S_END_LSN,
	S_PATH,
	S_KEYFRAMES,
	SESSION_CELLS,
};

struct cell {
	int type; /* SQLITE_NULL, SQLITE_INTEGER, SQLITE_TEXT; others only in rows that somebody else wrote */
	int64_t i;
	const char *s;
	size_t n;
};

struct row {
	enum row_table table;
	size_t n;
	struct cell cells[ROW_MAX];
};

/* Columns in the order of cells, separated by ", "; the statements select and insert them so, the code behind them. */
#define ROW_AUDIT_COLUMNS "lsn, wall_ns, session, json, event, principal, agent, grant_id, outcome"
#define ROW_SESSION_COLUMNS                                                                                            \
	"id, kind, agent, principal, principal_kind, task, exec_id, reason, opened_ns, ended_ns, state, open, exit,"   \
	" input, output, stderr, digest, cause, open_lsn, open_segment, end_lsn, path, keyframes"

/* Borrowed from the statement: good until it moves. */
void row_read(sqlite3_stmt *s, enum row_table table, struct row *out);
/* Cells to ?1 and so on, then the code. */
void row_bind(const struct index *ix, sqlite3_stmt *s, const struct row *r);
void row_code(const struct index *ix, const struct row *r, uint8_t out[ROW_CODE]);
/* Does the code that stands behind the cells fit? Without a key nothing is known: yes. */
bool row_sound(const struct index *ix, sqlite3_stmt *s, enum row_table table);
/* The first column in which they differ, NULL: none. */
const char *row_differs(const struct row *a, const struct row *b);

struct cell cell_string(const char *s); /* NULL: null */
struct cell cell_int(int64_t i);
struct cell cell_null(void);

/* What an audit entry is in the index; *parsed keeps the texts alive and is to be let go. json: NUL-terminated. */
void row_of_audit(struct row *out, uint64_t lsn, int64_t wall_ns, const char session[ID_STR_LEN], const char *json,
		  json_t **parsed);
/* What a session is in the index while it goes on; at its end row_of_recording() takes its place. */
void row_of_open(struct row *out, const struct index_session *in, const char id[ID_STR_LEN], json_t **parsed);
/* parsed: two objects. */
void row_of_recording(struct row *out, const struct index_recording *in, const char id[ID_STR_LEN], json_t *parsed[2]);

#endif
