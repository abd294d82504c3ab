#include "recorder/index/index_row.h"

/* A pod's name (one slash in it) stands for its containers too; an agent's name has no slash and stands for itself. */
#define OF_AGENT                                                                                                       \
	"(:agent IS NULL OR agent = :agent OR (instr(:agent, '/') > 0 AND agent > :agent || '/'"                       \
	" AND agent < :agent || '0'))"

#define PLAIN_ID "typeof(id) = 'text' AND length(CAST(id AS BLOB)) = 36"

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
		  " AND (:event IS NULL OR event = :event) AND (:session IS NULL OR session = :session)"
		  " ORDER BY lsn LIMIT :limit",
    [SQL_AUDIT_START] = "SELECT coalesce(min(lsn), 1) - 1 FROM (SELECT lsn FROM audit"
			" WHERE " OF_AGENT " AND (:principal IS NULL OR principal = :principal)"
			" AND (:event IS NULL OR event = :event) AND (:session IS NULL OR session = :session)"
			" ORDER BY lsn DESC LIMIT :limit)",
    [SQL_RECENT] = "SELECT " ROW_SESSION_COLUMNS ", code FROM sessions WHERE exec_id IS NOT NULL AND ended_ns >= :since"
		   " ORDER BY id",
    [SQL_REFERS] = "SELECT count(*) FROM sessions WHERE agent = :agent AND state <> 'expired' AND json_valid(open)"
		   " AND json_extract(open, '$.snapshot_id') = :snapshot",
    [SQL_UNSEALED] = "SELECT s.id, s.open, c.state, s.input, s.output, s.stderr, s.state,"
		     " s.open_lsn, s.opened_ns, s.exit, s.end_lsn, s.ended_ns,"
		     " s.open_segment FROM sessions s"
		     " LEFT JOIN checkpoints c ON c.id = s.id WHERE s.state IN ('open', 'ended') ORDER BY s.id",
    [SQL_PUT_WAIT] = "INSERT INTO meta(key, a, b) VALUES('retention_wait', :boot, :until)"
		     " ON CONFLICT(key) DO UPDATE SET a = :boot, b = :until",
    [SQL_GET_WAIT] = "SELECT a, b FROM meta WHERE key = 'retention_wait'",
    /* The last event, not the latest: one day of a wrong clock is not to stand for the newest thing for ever. */
    [SQL_NEWEST] = "SELECT coalesce((SELECT wall_ns FROM audit ORDER BY lsn DESC LIMIT 1),"
		   " (SELECT max(ended_ns) FROM sessions WHERE state = 'sealed'), 0)",
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

const char *index_sql_text(enum index_sql which)
{
	return texts[which];
}

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
