/* MCP servers of agents, and what they were seen to offer (control/servers/). */
#include "control/store/store_schema.h"

/*
 * Times are wall clock; call: who asked, as members of the audit event. servers, catalogue: JSON; seen, approved: the
 * fingerprints of tools, by name. definition: the SHA-256 of the server as it is configured.
 */
/* clang-format off */
#define TELL "INSERT INTO outbox(event_id, event, sandbox, outcome, detail) VALUES(lower(hex(randomblob(16))), "
#define CALL ", '" OUTBOX_CALL "', json(new.call)"
const char store_schema_servers_1[] =
    "CREATE TABLE mcp_lists(agent TEXT NOT NULL, version INTEGER NOT NULL, servers TEXT NOT NULL,"
    " set_ns INTEGER NOT NULL, principal TEXT NOT NULL, call TEXT NOT NULL, PRIMARY KEY(agent, version)) WITHOUT ROWID;"
    "CREATE TABLE mcp_catalogues(agent TEXT NOT NULL, server TEXT NOT NULL, definition TEXT NOT NULL,"
    " catalogue TEXT NOT NULL, seen TEXT NOT NULL, seen_ns INTEGER NOT NULL, approved TEXT NOT NULL,"
    " approved_ns INTEGER NOT NULL, approved_by TEXT NOT NULL, call TEXT, PRIMARY KEY(agent, server));"
    "CREATE TRIGGER mcp_list_set AFTER INSERT ON mcp_lists BEGIN "
    TELL "'mcp.servers', new.agent, 'ok', json_object('version', new.version, 'servers', json(new.servers)" CALL ")); END;"
    "CREATE TRIGGER mcp_approved AFTER UPDATE OF approved_ns ON mcp_catalogues BEGIN "
    TELL "'mcp.approve', new.agent, 'ok', json_object('server', new.server, 'tools', json(new.approved)" CALL ")); END;"
    "CREATE TRIGGER mcp_gone AFTER DELETE ON agents BEGIN "
    "DELETE FROM mcp_lists WHERE agent = old.agent; DELETE FROM mcp_catalogues WHERE agent = old.agent; END;";
/* A map of tools may be longer than an event: its count and its SHA-256 (catalogue_get(), fingerprint) stand for it. */
#define APPROVED "'mcp.approve', new.agent, 'ok', json_object('server', new.server, 'by', new.approved_by, 'fingerprint'," \
		 " new.approved_sha256, 'tools', (SELECT count(*) FROM json_each(new.approved))"
const char store_schema_servers_2[] =
    "ALTER TABLE mcp_catalogues ADD COLUMN approved_sha256 TEXT NOT NULL DEFAULT '';"
    "DROP TRIGGER mcp_approved;"
    "CREATE TRIGGER mcp_approved AFTER UPDATE OF approved_ns ON mcp_catalogues BEGIN "
    TELL APPROVED CALL ")); END;"
    "CREATE TRIGGER mcp_seen_first AFTER INSERT ON mcp_catalogues BEGIN "
    TELL APPROVED ")); END;";
/* clang-format on */
