/* Artifacts of tasks, and the files that hold their bytes (control/artifacts/). */
#include "control/store/store_schema.h"

/*
 * artifact_blobs: one row for each file, whose name is <sha256>.<id>. An id is never used again, so a file may go once
 * the transaction is committed that took its row. artifacts.expires_ns NULL: never. Times are wall clock.
 */
const char store_schema_artifacts_1[] =
    "CREATE TABLE artifact_blobs(id TEXT PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, size INTEGER NOT NULL) WITHOUT "
    "ROWID;"
    "CREATE TABLE artifacts(task TEXT NOT NULL, name TEXT NOT NULL, blob TEXT NOT NULL REFERENCES artifact_blobs(id),"
    " size INTEGER NOT NULL, principal TEXT NOT NULL, agent TEXT, round TEXT, run TEXT, base TEXT, media_type TEXT,"
    " created_ns INTEGER NOT NULL, expires_ns INTEGER, PRIMARY KEY(task, name)) WITHOUT ROWID;"
    "CREATE INDEX artifacts_blob ON artifacts(blob);"
    "CREATE INDEX artifacts_expires ON artifacts(expires_ns) WHERE expires_ns IS NOT NULL;";
/* Shares of agents and principals (shares.*); apart: counted in none. Rows of before count. */
const char store_schema_artifacts_2[] =
    "ALTER TABLE artifacts ADD COLUMN apart INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX artifacts_agent ON artifacts(agent, size) WHERE apart = 0;"
    "CREATE INDEX artifacts_principal ON artifacts(principal, size) WHERE apart = 0;";
