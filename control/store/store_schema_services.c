/* Services and settings of agents, in versions (control/servers/lists.h). */
#include "control/store/store_schema.h"

/* clang-format off */
#define TELL "INSERT INTO outbox(event_id, event, sandbox, outcome, detail) VALUES(lower(hex(randomblob(16))), "
#define CALL ", '" OUTBOX_CALL "', json(new.call)"
const char store_schema_services_1[] =
    "CREATE TABLE service_lists(agent TEXT NOT NULL, version INTEGER NOT NULL, services TEXT NOT NULL,"
    " set_ns INTEGER NOT NULL, principal TEXT NOT NULL, call TEXT NOT NULL, PRIMARY KEY(agent, version)) WITHOUT ROWID;"
    "CREATE TRIGGER service_list_set AFTER INSERT ON service_lists BEGIN "
    TELL "'services.set', new.agent, 'ok', json_object('version', new.version, 'services', json(new.services)" CALL ")); END;"
    "CREATE TABLE agent_settings(agent TEXT NOT NULL, version INTEGER NOT NULL, settings TEXT NOT NULL,"
    " set_ns INTEGER NOT NULL, principal TEXT NOT NULL, call TEXT NOT NULL, PRIMARY KEY(agent, version)) WITHOUT ROWID;"
    "CREATE TRIGGER agent_settings_set AFTER INSERT ON agent_settings BEGIN "
    TELL "'agent.settings', new.agent, 'ok', json_object('version', new.version, 'settings', json(new.settings)" CALL ")); END;"
    "CREATE TRIGGER service_lists_gone AFTER DELETE ON agents BEGIN "
    "DELETE FROM service_lists WHERE agent = old.agent; DELETE FROM agent_settings WHERE agent = old.agent; END;";
const char store_schema_services_2[] =
    "CREATE TABLE service_ends(agent TEXT NOT NULL, service TEXT NOT NULL, sandbox TEXT NOT NULL,"
    " definition TEXT NOT NULL, why TEXT NOT NULL, PRIMARY KEY(agent, service)) WITHOUT ROWID;"
    "CREATE TRIGGER service_ends_gone AFTER DELETE ON agents BEGIN DELETE FROM service_ends WHERE agent = old.agent; END;";
/* clang-format on */
