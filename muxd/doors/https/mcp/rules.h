/*
 * rules.h - what a request of MCP has to be before anything is done for it: one table, whose first row that is broken
 * is the answer. Pure. It stands beside the specification ("Streamable HTTP", each version); docs/mcp.md shows it.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_RULES_H
#define MUXD_DOORS_HTTPS_MCP_RULES_H

#include "muxd/doors/https/mcp/message.h"

enum mcp_verb { MCP_POST = 1, MCP_GET = 2, MCP_DELETE = 4 };

/* JSON-RPC's codes, and MCP's. */
enum mcp_code {
	MCP_PARSE = -32700,
	MCP_INVALID = -32600,
	MCP_NO_METHOD = -32601,
	MCP_PARAMS = -32602,
	MCP_INTERNAL = -32603,
	MCP_REFUSED = -32000,
	MCP_NO_SESSION = -32001,
	MCP_NO_RESOURCE = -32002, /* of the old era; later it is MCP_PARAMS */
	MCP_HEAD_DIFFERS = -32020,
	MCP_CAPABILITY = -32021,
	MCP_VERSION = -32022,
};

/* A request, as the rules look at it. */
struct mcp_view {
	enum mcp_verb verb;
	const struct mcp_head *head;
	const struct mcp_message *message; /* of a POST; else one without anything */
	bool new_era;
	bool session_known;                     /* the head names a session that is this caller's */
	bool (*has_method)(const char *method); /* of the new era */
};

struct mcp_fault {
	int status;
	enum mcp_code code;
	const char *text; /* static */
	json_t *data;     /* owned; NULL: none */
};

/* False: nothing is broken. */
bool mcp_rules_look(const struct mcp_view *v, struct mcp_fault *out);
/* Does params._meta declare this extension of the client's? */
bool mcp_declares(const struct mcp_message *m, const char *extension);

#endif
