#define LOG_SUBSYS "index"
#include "recorder/index/index.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/index/index_db.h"
#include "recorder/index/index_row.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

/* A pod's name (one slash in it) stands for its containers too; an agent's name has no slash and stands for itself. */
/* Few events have a field of a lease, so it is looked for in the JSON and has no index. */
#define OF_FIELD(name, field)                                                                                          \
	" AND (:" name " IS NULL OR (json_valid(json) AND json_extract(json, '$." field "') = :" name "))"
#define OF_LEASE OF_FIELD("lease", "lease_id") OF_FIELD("run", "run_id") OF_FIELD("client_request", "client_request_id")
#define OF_AGENT                                                                                                       \
	"(:agent IS NULL OR agent = :agent OR (instr(:agent, '/') > 0 AND agent > :agent || '/'"                       \
	" AND agent < :agent || '0'))"

/* As many as the writer's cache holds, and some for a reader; SQLite's own size of a page. */
#define PAGES     64
#define PAGE_SIZE 4096

#define PLAIN_ID "typeof(id) = 'text' AND length(CAST(id AS BLOB)) = 36"

/* The statements. */
static const char *const texts[INDEX_SQL_COUNT] = {
    [SQL_PUT_OPEN] = "INSERT INTO sessions(" ROW_SESSION_COLUMNS ", code) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
		     " ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)"
		     " ON CONFLICT(id) DO NOTHING",
    [SQL_PUT_SESSION] =
	"REPLACE INTO sessions(" ROW_SESSION_COLUMNS ", code) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
	" ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)",
    [SQL_PUT_CODE] = "UPDATE sessions SET code = :code WHERE id = :id",
    [SQL_PUT_KEYFRAMES] = "UPDATE sessions SET keyframes = :keyframes WHERE id = :id AND state IN ('sealed', 'kept')",
    [SQL_SESSION_ROW] = "SELECT " ROW_SESSION_COLUMNS ", code FROM sessions WHERE id = :id",
    [SQL_SESSION_NEXT] =
	"SELECT " ROW_SESSION_COLUMNS ", code FROM sessions WHERE " PLAIN_ID " AND id > :id ORDER BY id LIMIT 1",
    [SQL_SESSION_BAD] = "SELECT CAST(id AS TEXT) FROM sessions WHERE NOT (" PLAIN_ID ") LIMIT 1000",
    [SQL_SESSION_DROP_BAD] = "DELETE FROM sessions WHERE NOT (" PLAIN_ID ")",
    [SQL_HAS_CHECKPOINT] = "SELECT 1 FROM checkpoints WHERE id = :id",
    [SQL_AUDIT_MAX] = "SELECT max(lsn) FROM audit",
    [SQL_AUDIT_NEWEST] = "SELECT " ROW_AUDIT_COLUMNS ", code FROM audit ORDER BY lsn DESC",
    [SQL_SESSION_DROP] = "DELETE FROM sessions WHERE id = :id",
    [SQL_AUDIT_ROW] = "SELECT " ROW_AUDIT_COLUMNS ", code FROM audit WHERE lsn = :lsn",
    [SQL_AUDIT_BETWEEN] = "SELECT lsn FROM audit WHERE lsn > :after AND lsn < :before ORDER BY lsn LIMIT 1",
    [SQL_AUDIT_DROP] = "DELETE FROM audit WHERE lsn = :lsn",
    [SQL_PUT_KEY] = "INSERT INTO meta(key, a) VALUES('key', :a) ON CONFLICT(key) DO UPDATE SET a = :a",
    [SQL_GET_KEY] = "SELECT a FROM meta WHERE key = 'key'",
    [SQL_VERSION] = "PRAGMA data_version",
    [SQL_PUT_OFFSETS] = "UPDATE sessions SET input = max(input, :in), output = max(output, :out),"
			" stderr = max(stderr, :err) WHERE id = :id AND state IN ('open', 'ended')",
    [SQL_PUT_END] = "UPDATE sessions SET ended_ns = :ended, exit = :exit, cause = :cause, end_lsn = :lsn,"
		    " state = 'ended' WHERE id = :id AND state IN ('open', 'ended')",
    [SQL_DROP_CHECKPOINT] = "DELETE FROM checkpoints WHERE id = :id",
    [SQL_PUT_EXPIRED] = "UPDATE sessions SET state = 'expired', open = NULL, exit = NULL, reason = NULL,"
			" digest = NULL, exec_id = NULL, path = NULL, keyframes = NULL WHERE id = :id",
    [SQL_PUT_KEPT] = "UPDATE sessions SET state = 'kept' WHERE id = :id",
    [SQL_PUT_GONE] = "INSERT INTO sessions(id, state) VALUES(:id, :state) ON CONFLICT(id) DO NOTHING",
    [SQL_EXPIRED] = "SELECT " ROW_SESSION_COLUMNS ", code FROM sessions"
		    " WHERE state = 'sealed' AND ended_ns < :before ORDER BY ended_ns",
    [SQL_PUT_AUDIT] = "INSERT INTO audit(" ROW_AUDIT_COLUMNS ", code) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
		      " ON CONFLICT(lsn) DO NOTHING",
    [SQL_PUT_CURSOR] = "INSERT INTO meta(key, a, b, c) VALUES('cursor', :segment, :offset, :lsn)"
		       " ON CONFLICT(key) DO UPDATE SET a = :segment, b = :offset, c = :lsn",
    [SQL_PUT_CHECKPOINT] = "INSERT INTO checkpoints(id, state) VALUES(:id, :state)"
			   " ON CONFLICT(id) DO UPDATE SET state = :state",
    [SQL_GET_CURSOR] = "SELECT a, b, c FROM meta WHERE key = 'cursor'",
    [SQL_STATE] = "SELECT state, open_lsn, open_segment FROM sessions WHERE id = :id",
    [SQL_SESSIONS] = "SELECT " ROW_SESSION_COLUMNS ", code FROM sessions WHERE " OF_AGENT
		     " AND (:principal IS NULL OR principal = :principal) AND (:kind IS NULL OR kind = :kind)"
		     " AND (:state IS NULL OR state = :state) AND (:session IS NULL OR id = :session)"
		     " AND (:before IS NULL OR id < :before) ORDER BY id DESC LIMIT :limit",
    [SQL_AUDIT] = "SELECT " ROW_AUDIT_COLUMNS ", code FROM audit WHERE lsn > :since"
		  " AND " OF_AGENT " AND (:principal IS NULL OR principal = :principal)"
		  " AND (:event IS NULL OR event = :event) AND (:session IS NULL OR session = :session)" OF_LEASE
		  " ORDER BY lsn LIMIT :limit",
    [SQL_AUDIT_START] = "SELECT coalesce(min(lsn), 1) - 1 FROM (SELECT lsn FROM audit"
			" WHERE " OF_AGENT " AND (:principal IS NULL OR principal = :principal)"
			" AND (:event IS NULL OR event = :event) AND (:session IS NULL OR session = :session)" OF_LEASE
			" ORDER BY lsn DESC LIMIT :limit)",
    [SQL_RECENT] = "SELECT " ROW_SESSION_COLUMNS ", code FROM sessions WHERE exec_id IS NOT NULL AND ended_ns >= :since"
		   " ORDER BY id",
    [SQL_REFERS] = "SELECT count(*) FROM sessions WHERE agent = :agent AND state <> 'expired' AND json_valid(open)"
		   " AND json_extract(open, '$.snapshot_id') = :snapshot",
    [SQL_UNSEALED] = "SELECT s.id, s.open, c.state, s.input, s.output, s.stderr, s.state,"
		     " s.open_lsn, s.opened_ns, s.exit, s.end_lsn, s.ended_ns,"
		     " s.open_segment FROM sessions s"
		     " LEFT JOIN checkpoints c ON c.id = s.id WHERE s.state IN ('open', 'ended') ORDER BY s.id",
    [SQL_SESSIONS_ABOVE] =
	"SELECT " ROW_SESSION_COLUMNS ", code FROM sessions WHERE open_lsn > :since OR end_lsn > :since",
    [SQL_PUT_WAIT] = "INSERT INTO meta(key, a, b, c) VALUES('retention_wait', :boot, :until, :left)"
		     " ON CONFLICT(key) DO UPDATE SET a = :boot, b = :until, c = :left",
    [SQL_GET_WAIT] = "SELECT a, b, coalesce(c, 0) FROM meta WHERE key = 'retention_wait'",
    /* The last event, not the latest: one day of a wrong clock is not to stand for the newest thing for ever. */
    [SQL_NEWEST] = "SELECT coalesce((SELECT wall_ns FROM audit ORDER BY lsn DESC LIMIT 1),"
		   " (SELECT max(ended_ns) FROM sessions WHERE state = 'sealed'), 0)",
    [SQL_RAN_AHEAD] = "SELECT EXISTS(SELECT 1 FROM audit WHERE event IN ('retention.wait', 'removals.wait')"
		      " AND lsn > :since)",
    [SQL_PUT_HOLD] = "INSERT INTO holds(id, json) VALUES(:id, :json) ON CONFLICT(id) DO NOTHING",
    [SQL_PUT_RELEASE] = "UPDATE holds SET released = :json WHERE id = :id",
    [SQL_HOLDS] = "SELECT json, released FROM holds WHERE :all OR released IS NULL ORDER BY id",
    [SQL_HOLD_ROWS] = "SELECT id, json, released FROM holds ORDER BY id",
    [SQL_HOLDS_CLEAR] = "DELETE FROM holds",
    [SQL_POLICY] = "SELECT " ROW_AUDIT_COLUMNS
		   ", code FROM audit WHERE event IN ('config.loaded', 'retention.apply', 'retention.wait')"
		   " ORDER BY lsn",
    [SQL_PIECES] = "SELECT " ROW_AUDIT_COLUMNS ", code FROM (SELECT " ROW_AUDIT_COLUMNS
		   ", code FROM audit WHERE event = 'config.text' AND lsn < :lsn"
		   " ORDER BY lsn DESC LIMIT :limit) ORDER BY lsn",
    [SQL_NAMED_BY] = "SELECT " ROW_SESSION_COLUMNS ", code FROM sessions"
		     " WHERE agent = :agent AND state <> 'expired' AND json_valid(open)"
		     " AND coalesce(json_extract(open, '$.snapshot_id'), '') IN (:snapshot, :previous)",
    [SQL_FRESH] = "SELECT NOT EXISTS(SELECT 1 FROM sessions WHERE state NOT IN ('open', 'ended'))",
};

void index_bind(sqlite3_stmt *s, const char *name, const char *text)
{
	int at = sqlite3_bind_parameter_index(s, name);
	if (text)
		sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(s, at);
}

/* SQLite's integers are signed; nothing here comes near the last bit in 200 years. */
void index_bind_u64(sqlite3_stmt *s, const char *name, uint64_t v)
{
	sqlite3_bind_int64(s, sqlite3_bind_parameter_index(s, name), v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

#define INDEX_VERSION 2
#define CHECK_NS      (20 * NS_PER_SEC)
#define CHECK_STEPS   10000 /* of SQLite's machine, between two looks at the clock */

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS sessions(id TEXT PRIMARY KEY, kind TEXT, agent TEXT, principal TEXT,"
    " principal_kind TEXT, task TEXT, exec_id TEXT, digest TEXT, reason TEXT, opened_ns INTEGER, ended_ns INTEGER,"
    " state TEXT NOT NULL, cause TEXT, open TEXT, exit TEXT, input INTEGER NOT NULL DEFAULT 0,"
    " output INTEGER NOT NULL DEFAULT 0, stderr INTEGER NOT NULL DEFAULT 0, open_lsn INTEGER, open_segment INTEGER,"
    " end_lsn INTEGER, path TEXT, keyframes TEXT, code BLOB) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS sessions_agent ON sessions(agent, id);"
    "CREATE INDEX IF NOT EXISTS sessions_principal ON sessions(principal, id);"
    "CREATE INDEX IF NOT EXISTS sessions_unsealed ON sessions(state) WHERE state IN ('open', 'ended');"
    "CREATE INDEX IF NOT EXISTS sessions_exec ON sessions(ended_ns) WHERE exec_id IS NOT NULL;"
    "CREATE INDEX IF NOT EXISTS sessions_ended ON sessions(ended_ns) WHERE state = 'sealed';"
    "CREATE TABLE IF NOT EXISTS checkpoints(id TEXT PRIMARY KEY, state BLOB) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS holds(id TEXT PRIMARY KEY, json TEXT, released TEXT) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS audit(lsn INTEGER PRIMARY KEY, wall_ns INTEGER, event TEXT, principal TEXT, agent TEXT,"
    " grant_id TEXT, session TEXT, outcome TEXT, json TEXT, code BLOB);"
    "CREATE INDEX IF NOT EXISTS audit_principal ON audit(principal, lsn);"
    "CREATE INDEX IF NOT EXISTS audit_agent ON audit(agent, lsn);"
    "CREATE INDEX IF NOT EXISTS audit_session ON audit(session, lsn);"
    "CREATE INDEX IF NOT EXISTS audit_event ON audit(event, lsn);";

/* From version 1: rows have no code yet, and get theirs when they are compared. */
static const char since_2[] = "BEGIN IMMEDIATE; ALTER TABLE sessions ADD COLUMN keyframes TEXT;"
			      "ALTER TABLE sessions ADD COLUMN code BLOB; ALTER TABLE audit ADD COLUMN code BLOB;"
			      "PRAGMA user_version=2; COMMIT";

int index_error(struct index *ix, int rc, struct err *e)
{
	const char *what = ix && ix->db ? sqlite3_errmsg(ix->db) : sqlite3_errstr(rc);
	switch (rc & 0xff) {
	case SQLITE_FULL:
		return err_set(e, ERR_DISK_FULL, "audit.db: %s", what);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		if (ix)
			ix->damaged = true;
		return err_set(e, ERR_CORRUPT, "audit.db: %s", what);
	case SQLITE_NOMEM:
		return err_set(e, ERR_NOMEM, "audit.db: %s", what);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(e, ERR_AGAIN, "audit.db: %s", what);
	default:
		return err_set(e, ERR_SYS, "audit.db: %s", what);
	}
}

static int index_run(struct index *ix, const char *sql, struct err *e)
{
	int rc = sqlite3_exec(ix->db, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? 0 : index_error(ix, rc, e);
}

int index_stmt(struct index *ix, enum index_sql which, sqlite3_stmt **out, struct err *e)
{
	if (!ix->stmts[which]) {
		int rc =
		    sqlite3_prepare_v3(ix->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT, &ix->stmts[which], NULL);
		if (rc != SQLITE_OK)
			return index_error(ix, rc, e);
	}
	sqlite3_reset(ix->stmts[which]);
	sqlite3_clear_bindings(ix->stmts[which]);
	*out = ix->stmts[which];
	return 0;
}

int index_step_done(struct index *ix, sqlite3_stmt *s, struct err *e)
{
	int rc = sqlite3_step(s);
	sqlite3_reset(s);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : index_error(ix, rc, e);
}

int index_step_row(struct index *ix, sqlite3_stmt *s, struct err *e)
{
	int step = sqlite3_step(s);

	if (step == SQLITE_ROW)
		return 1;
	sqlite3_reset(s);
	return step == SQLITE_DONE ? 0 : index_error(ix, step, e);
}

static int open_db(const char *path, int flags, struct index **out, struct err *e)
{
	struct index *ix = calloc(1, sizeof(*ix));
	if (!ix)
		return err_set(e, ERR_NOMEM, "out of memory");
	int rc = sqlite3_open_v2(path, &ix->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(ix->db, 5000);
	if (rc != SQLITE_OK) {
		rc = index_error(ix, rc, e);
		index_close(ix);
		return rc;
	}
	*out = ix;
	return 0;
}

static int version_row(void *arg, int n, char **v, char **names)
{
	(void)names;
	if (n == 1 && v[0])
		*(int *)arg = atoi(v[0]);
	return 0;
}

static int check_version(struct index *ix, int *out, struct err *e)
{
	int version = -1;
	int rc = sqlite3_exec(ix->db, "PRAGMA user_version", version_row, &version, NULL);
	if (rc != SQLITE_OK)
		return index_error(ix, rc, e);
	if (version > INDEX_VERSION)
		return err_set(e, ERR_VERSION, "audit.db has version %d, this program writes %d", version,
			       INDEX_VERSION);
	*out = version;
	return 0;
}

static int open_checked(const char *path, int flags, const char *pragmas, int *out_version, struct index **out,
			struct err *e)
{
	struct index *ix = NULL;
	int rc = open_db(path, flags, &ix, e);

	if (rc || !ix)
		return rc;
	if (pragmas)
		rc = index_run(ix, pragmas, e);
	if (rc == 0)
		rc = check_version(ix, out_version, e);
	if (rc) {
		index_close(ix);
		return rc;
	}
	*out = ix;
	return 0;
}

void index_set_pages(void)
{
	int header = 0;
	void *pages;

	if (sqlite3_config(SQLITE_CONFIG_PCACHE_HDRSZ, &header) != SQLITE_OK)
		return;
	header = (header + 7) & ~7;
	pages = malloc((size_t)PAGES * (size_t)(PAGE_SIZE + header));
	if (pages && sqlite3_config(SQLITE_CONFIG_PAGECACHE, pages, PAGE_SIZE + header, PAGES) != SQLITE_OK)
		free(pages);
}

int index_open(const char *path, struct index **out, struct err *e)
{
	struct index *ix = NULL;
	int version = 0;
	/*
	 * NORMAL: a commit is a write; only the commits that let segments go are synced. Rows come in the order of
	 * time, so 256 KiB of pages are enough; with the default of 2 MiB each new session keeps some more of them in
	 * memory.
	 */
	int rc = open_checked(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
			      "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
			      " PRAGMA cache_size=-256",
			      &version, &ix, e);

	if (rc || !ix)
		return rc;
	if (version == 1)
		rc = index_run(ix, since_2, e);
	if (rc == 0)
		rc = index_run(ix, schema, e);
	ix->complete = version > 0;
	if (rc) {
		index_close(ix);
		return rc;
	}
	*out = ix;
	return 0;
}

bool index_damaged(const struct index *ix)
{
	return ix->damaged;
}

bool index_complete(const struct index *ix)
{
	return ix->complete;
}

int index_put_complete(struct index *ix, struct err *e)
{
	int rc = index_run(ix, "PRAGMA user_version=2", e);

	if (rc == 0)
		ix->complete = true;
	return rc;
}

int index_open_reader(const char *path, struct index **out, struct err *e)
{
	int version = 0;

	/* Reading a WAL database writes to its -shm file: read-only is a promise, not an open mode. */
	return open_checked(path, SQLITE_OPEN_READWRITE, "PRAGMA query_only=ON", &version, out, e);
}

int index_open_offline(const char *path, struct index **out, struct err *e)
{
	struct index *ix = NULL;
	int version = 0;
	int rc = open_checked(path, SQLITE_OPEN_READONLY, NULL, &version, &ix, e);

	if (rc || !ix)
		return rc;
	if (version < INDEX_VERSION) {
		index_close(ix);
		return err_set(e, ERR_VERSION, "audit.db has version %d, the recorder's next start mends that",
			       version);
	}
	*out = ix;
	return 0;
}

void index_use_key(struct index *ix, const uint8_t key[32])
{
	uint8_t pad[64];

	memset(pad, 0x36, sizeof(pad));
	for (int i = 0; i < 32; i++)
		pad[i] ^= key[i];
	digest_init(&ix->inner);
	digest_update(&ix->inner, pad, sizeof(pad));
	for (int i = 0; i < 64; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	digest_init(&ix->outer);
	digest_update(&ix->outer, pad, sizeof(pad));
	OPENSSL_cleanse(pad, sizeof(pad));
	ix->keyed = true;
}

/* Says which key it is and nothing else about it. */
static int64_t key_mark(const struct index *ix)
{
	struct digest d = ix->outer;
	uint8_t mark[DIGEST_LEN];

	digest_update(&d, "mark", 4);
	digest_peek(&d, mark);
	return (int64_t)(get_u64(mark) & INT64_MAX);
}

int index_key_is_new(struct index *ix, bool *out, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int step, rc = index_stmt(ix, SQL_GET_KEY, &s, e);

	if (rc)
		return rc;
	step = sqlite3_step(s);
	*out = ix->keyed && (step != SQLITE_ROW || sqlite3_column_int64(s, 0) != key_mark(ix));
	sqlite3_reset(s);
	return step == SQLITE_ROW || step == SQLITE_DONE ? 0 : index_error(ix, step, e);
}

int index_put_key(struct index *ix, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int rc = ix->keyed ? index_stmt(ix, SQL_PUT_KEY, &s, e) : 0;

	if (rc || !ix->keyed)
		return rc;
	index_bind_u64(s, ":a", (uint64_t)key_mark(ix));
	rc = index_step_done(ix, s, e);
	ix->key_is_new = ix->key_is_new && rc;
	return rc;
}

uint64_t index_take_unsound(struct index *ix)
{
	uint64_t n = ix->unsound;

	ix->unsound = 0;
	return n;
}

bool index_written_by_others(struct index *ix)
{
	sqlite3_stmt *s = NULL;
	int64_t was = ix->version;

	if (index_stmt(ix, SQL_VERSION, &s, NULL))
		return false;
	if (index_step_row(ix, s, NULL) == 1)
		ix->version = sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	return was && was != ix->version;
}

void index_close(struct index *ix)
{
	if (!ix)
		return;
	for (int i = 0; i < INDEX_SQL_COUNT; i++)
		sqlite3_finalize(ix->stmts[i]);
	sqlite3_close(ix->db);
	free(ix);
}

static int check_row(void *arg, int n, char **v, char **names)
{
	(void)names;
	if (n == 1 && v[0] && strcmp(v[0], "ok") != 0)
		*(bool *)arg = true;
	return 0;
}

static int check_time_over(void *arg)
{
	return clock_boot_ns() >= *(const uint64_t *)arg;
}

int index_check(struct index *ix, struct err *e)
{
	uint64_t until = clock_boot_ns() + CHECK_NS;
	bool damaged = false;
	/* The check reads all of a file that only grows, and somebody waits for this start. */
	sqlite3_progress_handler(ix->db, CHECK_STEPS, check_time_over, &until);
	int rc = sqlite3_exec(ix->db, "PRAGMA quick_check(1)", check_row, &damaged, NULL);
	sqlite3_progress_handler(ix->db, 0, NULL, NULL);
	if (rc == SQLITE_INTERRUPT) {
		log_info(NULL, "audit.db is large: the check at the start stopped after %u s",
			 (unsigned)(CHECK_NS / NS_PER_SEC));
		return 0;
	}
	if (rc != SQLITE_OK)
		return index_error(ix, rc, e);
	return damaged ? err_set(e, ERR_CORRUPT, "audit.db fails its check") : 0;
}

int index_begin(struct index *ix, struct err *e)
{
	return index_run(ix, "BEGIN IMMEDIATE", e);
}

int index_begin_read(struct index *ix, struct err *e)
{
	return index_run(ix, "BEGIN", e);
}

int index_commit(struct index *ix, bool durable, struct err *e)
{
	int rc = index_run(ix, "COMMIT", e);
	if (rc || !durable)
		return rc;
	/* A FULL commit syncs the log with everything before it. The cursor row is touched so that there is one. */
	rc = index_run(ix,
		       "PRAGMA synchronous=FULL; BEGIN IMMEDIATE;"
		       "INSERT INTO meta(key, a) VALUES('durable', 1) ON CONFLICT(key) DO UPDATE SET a = a + 1; COMMIT",
		       e);
	if (rc)
		index_rollback(ix);
	(void)index_run(ix, "PRAGMA synchronous=NORMAL", NULL);
	return rc;
}

void index_rollback(struct index *ix)
{
	if (!sqlite3_get_autocommit(ix->db))
		(void)index_run(ix, "ROLLBACK", NULL);
}
