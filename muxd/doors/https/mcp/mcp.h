/*
 * mcp.h - /mcp: the daemon as a server of the Model Context Protocol, over Streamable HTTP.
 *
 * Versions 2025-06-18 and 2025-11-25 (with sessions) and 2026-07-28 (without) on one address. What is refused stands in
 * rules.h, what can be called in tools.h; a tool is a call of the API. docs/mcp.md is for those who use it.
 *
 * One per door, made before its connections and closed before they are let go. Handlers: handlers.h.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_MCP_H
#define MUXD_DOORS_HTTPS_MCP_MCP_H

#include "muxd/doors/https/http.h"
#include "muxd/doors/https/mcp/message.h"

struct mcp;

#define MCP_PATH "/mcp"

int mcp_create(struct hub *hub, struct rest_metrics *metrics, struct mcp **out);
void mcp_close(struct mcp *m); /* NULL-safe; rounds go on */

#endif
