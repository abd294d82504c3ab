/* Agents and their snapshots (control/life/). */
#include "control/store/store_schema.h"

/*
 * agents.state: enum life_state. due_ns: when somebody has to look at it next, NULL: never. told: the generation whose
 * outcome is in the audit log. workspace 0: there is none, or what is there is not it: a start restores snapshot_id.
 * Times are of lifecycle's clock (life_clock.h) but for *_wall_ns.
 */
const char store_schema_life_1[] =
    "CREATE TABLE agents(agent TEXT PRIMARY KEY, state INTEGER NOT NULL, generation INTEGER NOT NULL,"
    " told INTEGER NOT NULL DEFAULT 0, step TEXT NOT NULL DEFAULT '', cause TEXT NOT NULL DEFAULT '',"
    " detail TEXT NOT NULL DEFAULT '', sandbox_id TEXT, workspace INTEGER NOT NULL DEFAULT 0, snapshot_id TEXT,"
    " next_snapshot_id TEXT, read_only INTEGER NOT NULL DEFAULT 0, fork_agent TEXT, fork_snapshot_id TEXT,"
    " idle_ttl_ns INTEGER, expires_ns INTEGER, active_ns INTEGER NOT NULL DEFAULT 0, due_ns INTEGER,"
    " since_wall_ns INTEGER NOT NULL, created_wall_ns INTEGER NOT NULL, updated_wall_ns INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX agents_due ON agents(due_ns) WHERE due_ns IS NOT NULL;"
    "CREATE INDEX agents_state ON agents(state, agent);"
    "CREATE INDEX agents_snapshot ON agents(snapshot_id) WHERE snapshot_id IS NOT NULL;"
    "CREATE INDEX agents_untold ON agents(agent) WHERE told <> generation;"
    "CREATE TABLE snapshots(id TEXT PRIMARY KEY, agent TEXT NOT NULL, name TEXT NOT NULL DEFAULT '',"
    " how TEXT NOT NULL DEFAULT '', size INTEGER NOT NULL DEFAULT 0, status INTEGER NOT NULL, detail TEXT NOT NULL"
    " DEFAULT '', previous_id TEXT, cause TEXT NOT NULL DEFAULT '', quiesced INTEGER NOT NULL DEFAULT 0,"
    " created_wall_ns INTEGER NOT NULL, ended_wall_ns INTEGER) WITHOUT ROWID;"
    "CREATE INDEX snapshots_agent ON snapshots(agent, created_wall_ns);"
    "CREATE INDEX snapshots_open ON snapshots(status) WHERE status IN (0, 3);"
    "CREATE TABLE life_clock(one INTEGER PRIMARY KEY CHECK (one = 1), life_ns INTEGER NOT NULL,"
    " boot_ns INTEGER NOT NULL, boot_id TEXT NOT NULL);";

/* Whose sandbox an id is (life_find()): asked by strangers to it, so it costs one look. */
const char store_schema_life_2[] = "CREATE INDEX agents_sandbox ON agents(sandbox_id) WHERE sandbox_id IS NOT NULL;";

/* What a snapshot was when it was made; empty: not hashed. */
const char store_schema_life_3[] = "ALTER TABLE snapshots ADD COLUMN digest TEXT NOT NULL DEFAULT '';";

/* One that is ready and not hashed yet is found at each start and after each snapshot (life_hash()). */
const char store_schema_life_4[] = "CREATE INDEX snapshots_unhashed ON snapshots(id) WHERE status = 1 AND digest = '';";

/*
 * Pod templates that agents have of their own, by the SHA-256 of their text: one of many agents is kept once, and goes
 * with the last of them. agents.pod_template '': none.
 */
const char store_schema_life_5[] = "CREATE TABLE pod_templates(digest TEXT PRIMARY KEY, template TEXT NOT NULL);"
				   "ALTER TABLE agents ADD COLUMN pod_template TEXT NOT NULL DEFAULT '';"
				   "CREATE INDEX agents_pod_template ON agents(pod_template) WHERE pod_template <> '';";

/* Forks that somebody made to read a snapshot, and that are nobody's after a crash: a start ends them. */
const char store_schema_life_6[] =
    "CREATE TABLE passing(agent TEXT PRIMARY KEY) WITHOUT ROWID;"
    "CREATE TRIGGER passing_gone AFTER DELETE ON agents BEGIN DELETE FROM passing WHERE agent = old.agent; END;";

/* The image of an agent's next start, by its name in the configuration; '': none. */
const char store_schema_life_7[] = "ALTER TABLE agents ADD COLUMN image TEXT NOT NULL DEFAULT '';";

/*
 * A snapshot that outlives its agent (a fork needs it, a legal hold keeps it) is nobody's: whoever makes an agent of
 * that name later has no part in it. Whichever statement the row goes by.
 */
const char store_schema_life_8[] = "ALTER TABLE snapshots ADD COLUMN orphan INTEGER NOT NULL DEFAULT 0;"
				   "UPDATE snapshots SET orphan = 1 WHERE agent NOT IN (SELECT agent FROM agents);"
				   "CREATE TRIGGER snapshots_orphaned AFTER DELETE ON agents BEGIN "
				   "UPDATE snapshots SET orphan = 1 WHERE agent = old.agent; END;";

/* Resources that an agent's next start asks for (base/resources.h); 0: the configured limit. */
const char store_schema_life_9[] = "ALTER TABLE agents ADD COLUMN memory INTEGER NOT NULL DEFAULT 0;"
				   "ALTER TABLE agents ADD COLUMN cpu_milli INTEGER NOT NULL DEFAULT 0;"
				   "ALTER TABLE agents ADD COLUMN pids INTEGER NOT NULL DEFAULT 0;";

/*
 * Agents that began with an artifact or a bundle: the words that said so, and the digest that it had. Such an agent
 * keeps the snapshot that was made of it (its fork_snapshot_id) for as long as that is its current one.
 */
const char store_schema_life_10[] =
    "CREATE TABLE beginnings(agent TEXT PRIMARY KEY, workspace TEXT NOT NULL, sha256 TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TRIGGER beginnings_gone AFTER DELETE ON agents BEGIN "
    "DELETE FROM beginnings WHERE agent = old.agent; END;";

/* The app that an agent belongs to, a DNS label; '': none. A list of one app's is a look at its own. */
const char store_schema_life_11[] = "ALTER TABLE agents ADD COLUMN app_id TEXT NOT NULL DEFAULT '';"
				    "CREATE INDEX agents_app ON agents(app_id, agent) WHERE app_id <> '';";
