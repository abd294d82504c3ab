/* Filespaces: what workspace and store last agreed on (control/filespace/rows.h). */
#include "control/store/store_schema.h"

/* key '': a deletion was agreed on. A row of an agent goes with it. */
const char store_schema_filespace_1[] =
    "CREATE TABLE filespaces(agent TEXT PRIMARY KEY, marker TEXT NOT NULL, sandbox_id TEXT NOT NULL,"
    " synced_wall_ns INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE filespace_files(agent TEXT NOT NULL, path TEXT NOT NULL, key TEXT NOT NULL, updated_ms INTEGER NOT"
    " NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,"
    " PRIMARY KEY(agent, path)) WITHOUT ROWID;"
    "CREATE TRIGGER filespace_gone AFTER DELETE ON agents BEGIN"
    " DELETE FROM filespaces WHERE agent = old.agent; DELETE FROM filespace_files WHERE agent = old.agent; END;";
