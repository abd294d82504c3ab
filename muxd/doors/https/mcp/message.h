/*
 * message.h - what a client of MCP sent: the fields of its head, and one JSON-RPC 2.0 message. Pure.
 *
 * Three versions of the protocol are spoken. Those of the old era (2025-06-18, 2025-11-25) begin with `initialize` and
 * have a session; of the new one (2026-07-28) each request says in params._meta what it needs. The body decides: who
 * claims a version in _meta is of the new era, and so is who names that version in the head.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_MESSAGE_H
#define MUXD_DOORS_HTTPS_MCP_MESSAGE_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

struct err;

enum mcp_version { MCP_NONE, MCP_2025_06_18, MCP_2025_11_25, MCP_2026_07_28, MCP_VERSIONS };
#define MCP_OLD_NEWEST MCP_2025_11_25

const char *mcp_version_name(enum mcp_version v);
enum mcp_version mcp_version_find(const char *name); /* MCP_NONE: none that is spoken here */

#define MCP_FIELD_MAX 255
#define MCP_NAME_MAX  8191 /* Mcp-Name: a resource's URI, encoded */

/* One field of the head. */
struct mcp_field {
	bool given;
	char text[MCP_FIELD_MAX + 1]; /* "?": too long to be anything */
};

struct mcp_head {
	struct mcp_field accept, type, session, version, method, last_event;
	bool name_given;
	char name[MCP_NAME_MAX + 1]; /* decoded where it is =?base64?...?= */
	bool host_foreign, origin_foreign;
};

/* A field as it came, without the blanks around it. */
void mcp_field_put(struct mcp_field *f, const char *raw);
/* The same of Mcp-Name, into head->name. What is no base64 stays as it is. */
void mcp_head_name(struct mcp_head *h, const char *raw);
/* "https://host:port", "host:port" or "[::1]:port": the name in it, without brackets; false: there is none. */
bool mcp_host_name(const char *text, char *out, size_t size);
/* Does a list of media types (RFC 9110, 12.5.1) take this one? Weights are not looked at. */
bool mcp_accepts(const char *accept, const char *type);
bool mcp_is_json(const char *content_type);

enum mcp_kind { MCP_REQUEST, MCP_NOTIFICATION, MCP_RESPONSE };
enum mcp_shape { MCP_GOOD, MCP_NO_JSON, MCP_BATCH, MCP_NO_MESSAGE };

struct mcp_message {
	json_t *root; /* owned */
	enum mcp_shape shape;
	enum mcp_kind kind;
	const json_t *id; /* a text or an integer; NULL: none */
	const char *method;
	const json_t *params, *meta; /* NULL: none */
	const json_t *claim;         /* _meta's protocolVersion, of any type; NULL: none */
};

#define MCP_META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_LOG_LEVEL    "io.modelcontextprotocol/logLevel"
#define MCP_META_SERVER       "io.modelcontextprotocol/serverInfo"
#define MCP_EXTENSION_TASKS   "io.modelcontextprotocol/tasks"

/* Never fails: the shape says what it is. */
void mcp_message_read(const void *p, size_t n, size_t max, struct mcp_message *out);
void mcp_message_finish(struct mcp_message *m); /* NULL-safe */
bool mcp_is_new_era(const struct mcp_head *h, const struct mcp_message *m);
/* The value of Mcp-Name that a request of the new era has to have; NULL: its method has none. "" where it is missing.
 */
const char *mcp_message_name(const struct mcp_message *m);

/* params.inputResponses: are these answers to questions, {key: {...}}? */
bool mcp_answers_fit(const json_t *responses);

/* {jsonrpc, id, result} and {jsonrpc, id, error}; result and data are stolen. NULL: no memory. */
json_t *mcp_result(const json_t *id, json_t *result);
json_t *mcp_error(const json_t *id, int code, const char *message, json_t *data);
/* A result with what those of the new era have beside their own members. Stolen and given back. */
json_t *mcp_new_era(json_t *result);
json_t *mcp_cached(json_t *result, unsigned ttl_ms); /* the same of what a client may keep, for itself */

#endif
