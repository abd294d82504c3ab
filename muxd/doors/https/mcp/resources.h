/*
 * resources.h - what can be read by its address: files of a workspace, artifacts, and the output of rounds. An address
 * is a call of the API; listed are the artifacts of the grant's task.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_RESOURCES_H
#define MUXD_DOORS_HTTPS_MCP_RESOURCES_H

#include "muxd/doors/https/mcp/question.h"

/* Answers q, both. cursor "": from the first. */
void mcp_resources_list(struct mcp_question *q, const char *cursor);
void mcp_resource_read(struct mcp_question *q, const char *uri);
/* The templates that the grant's scopes can read. NULL: no memory. */
json_t *mcp_resource_templates(const struct grant *g);

/* The parts of an address, decoded (RFC 3986). ERR_INVAL: it is none of ours. For the fuzz target, too. */
enum mcp_resource_kind { RESOURCE_FILE, RESOURCE_ARTIFACT, RESOURCE_OUTPUT };
struct mcp_uri {
	enum mcp_resource_kind kind;
	char first[256];       /* a sandbox, a task, a round */
	char rest[4096];       /* a path, a name, a stream */
	int64_t offset, limit; /* output; -1: not said */
};
int mcp_uri_parse(const char *uri, struct mcp_uri *out);

#endif
