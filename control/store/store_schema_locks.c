/* Advisory locks on paths of workspaces (control/locks/). */
#include "control/store/store_schema.h"

/*
 * A lock that is over has no row. Times are wall clock; call: who asked for the last change, as members of the audit
 * event; cause: why it goes, set ahead of the deletion, which tells it. A path is relative, "." for the top.
 */
/* clang-format off */
#define TELL "INSERT INTO outbox(event_id, event, sandbox, outcome, detail) VALUES(lower(hex(randomblob(16))), "
#define LOCK(row) "'lock', " row ".id, 'path', " row ".path, 'holder', " row ".principal, 'task', " row ".task," \
	" 'label', " row ".label, 'expires_ns', " row ".expires_ns"
#define CALL(row) ", '" OUTBOX_CALL "', json(" row ".call)"
const char store_schema_locks_1[] =
    "CREATE TABLE locks(id TEXT PRIMARY KEY, agent TEXT NOT NULL, path TEXT NOT NULL, principal TEXT NOT NULL,"
    " task TEXT NOT NULL, label TEXT, taken_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL, call TEXT NOT NULL,"
    " cause TEXT NOT NULL DEFAULT 'expired') WITHOUT ROWID;"
    "CREATE INDEX locks_agent ON locks(agent, path);"
    "CREATE INDEX locks_expires ON locks(expires_ns);"
    "CREATE TRIGGER lock_taken AFTER INSERT ON locks BEGIN "
    TELL "'lock.take', new.agent, 'ok', json_object(" LOCK("new") CALL("new") ")); END;"
    "CREATE TRIGGER lock_renewed AFTER UPDATE OF expires_ns ON locks BEGIN "
    TELL "'lock.renew', new.agent, 'ok', json_object(" LOCK("new") CALL("new") ")); END;"
    "CREATE TRIGGER lock_released AFTER DELETE ON locks WHEN old.cause = 'released' BEGIN "
    TELL "'lock.release', old.agent, 'ok', json_object(" LOCK("old") CALL("old") ")); END;"
    "CREATE TRIGGER lock_expired AFTER DELETE ON locks WHEN old.cause <> 'released' BEGIN "
    TELL "'lock.expire', old.agent, 'ok', json_object(" LOCK("old") ", 'cause', old.cause)); END;"
    "CREATE TRIGGER lock_gone AFTER DELETE ON agents BEGIN "
    "UPDATE locks SET cause = 'its workspace was wiped' WHERE agent = old.agent;"
    "DELETE FROM locks WHERE agent = old.agent; END;";
/* clang-format on */
