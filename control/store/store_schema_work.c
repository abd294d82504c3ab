/* Leases of sandboxes, runs of stored workflows, and the pool (control/work/). */
#include "control/store/store_schema.h"

/* clang-format off */
const char store_schema_work_1[] =
    "CREATE TABLE workflows("
    " name TEXT NOT NULL, version INTEGER NOT NULL, owner TEXT NOT NULL, principal TEXT NOT NULL,"
    " body TEXT NOT NULL, created_ns INTEGER NOT NULL, PRIMARY KEY(name, version)) WITHOUT ROWID;"
    "CREATE TABLE pool("
    " sandbox TEXT PRIMARY KEY, state TEXT NOT NULL CHECK(state IN ('filling','ready','leased','discarding')),"
    " lease TEXT UNIQUE, why TEXT, created_ns INTEGER NOT NULL,"
    " CHECK((state = 'leased') <= (lease IS NOT NULL))) WITHOUT ROWID;"
    "CREATE TABLE leases("
    " id TEXT PRIMARY KEY, principal TEXT NOT NULL, user TEXT NOT NULL, workflow TEXT NOT NULL,"
    " request TEXT NOT NULL, ttl_s INTEGER NOT NULL, asked_ttl_s INTEGER NOT NULL, sandbox TEXT NOT NULL,"
    " state TEXT NOT NULL CHECK(state IN ('ACTIVE','EXPIRED','RELEASED')), cause TEXT, call TEXT NOT NULL,"
    " created_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL, ended_ns INTEGER,"
    " UNIQUE(principal, user, workflow, request)) WITHOUT ROWID;"
    "CREATE UNIQUE INDEX leases_live ON leases(sandbox) WHERE state = 'ACTIVE';"
    "CREATE INDEX leases_ended ON leases(ended_ns) WHERE state <> 'ACTIVE';"
    "CREATE TABLE runs("
    " id TEXT PRIMARY KEY, lease TEXT NOT NULL, run TEXT NOT NULL, principal TEXT NOT NULL, user TEXT NOT NULL,"
    " workflow TEXT NOT NULL, version INTEGER NOT NULL, timeout_s INTEGER NOT NULL,"
    " asked_timeout_s INTEGER NOT NULL,"
    " state TEXT NOT NULL CHECK(state IN ('RUNNING','SUCCEEDED','FAILED')), reason TEXT, message TEXT,"
    " steps TEXT NOT NULL DEFAULT '[]', artifacts TEXT NOT NULL DEFAULT '[]', call TEXT NOT NULL,"
    " created_ns INTEGER NOT NULL, ended_ns INTEGER, UNIQUE(lease, run)) WITHOUT ROWID;"
    "CREATE INDEX runs_run ON runs(run);"
    "CREATE INDEX runs_live ON runs(lease) WHERE state = 'RUNNING';";
/* The end of the sandbox's own log, as JSON; NULL: it is not wiped yet. */
const char store_schema_work_2[] = "ALTER TABLE runs ADD COLUMN log TEXT;";
/* clang-format on */
