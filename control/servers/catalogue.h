/*
 * catalogue.h - the tools that a server inside says it has, and whether they are those that somebody saw. Pure.
 *
 * A catalogue is JSON: {protocolVersion, serverInfo, capabilities, instructions, tools}. A tool's fingerprint is the
 * SHA-256 of what a model is told of it: name, title, description, inputSchema, outputSchema, annotations; nothing else
 * of it is kept. What the server says of itself (instructions, serverInfo, capabilities) has one as well. Approved
 * are the fingerprints of the first catalogue of a server as it is configured, until somebody approves others. A tool
 * that is another than the approved one, or is new, is a change: the server is held until somebody looks. A tool that
 * went away is none.
 */
#ifndef CONTROL_SERVERS_CATALOGUE_H
#define CONTROL_SERVERS_CATALOGUE_H

#include "base/json.h"

struct err;

#define CATALOGUE_MAX       (2 * 1024 * 1024) /* bytes of it */
#define CATALOGUE_TOOLS_MAX 1000
#define CATALOGUE_SELF      "the answer to initialize" /* in place of a tool's name among changes */

/* {name: fingerprint} of the tools. ERR_INVAL: a tool has no name, or two have the same; ERR_TOO_LARGE, ERR_NOMEM. */
int catalogue_fingerprints(const json_t *tools, json_t **out, struct err *e);
/* Adds that of the answer to initialize. ERR_NOMEM. */
int catalogue_add_self(json_t *seen, const json_t *hello);
/* The same tools with nothing but what their fingerprints cover. NULL: no memory. */
json_t *catalogue_tools(const json_t *tools);
/* [{tool, change: "new" or "changed"}] of what was seen and is not what was approved. NULL: no memory. */
json_t *catalogue_changes(const json_t *approved, const json_t *seen);

#endif
