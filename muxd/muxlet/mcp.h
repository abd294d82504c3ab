/*
 * mcp.h - an MCP server that listens on the sandbox's loopback, spoken to by lines: what muxlet does when OPEN asks for
 * itself with --mcp.
 *
 * A whole run, in a process of its own that was executed from /proc/self/exe, for as long as the server is used. A line
 * of stdin is a message and becomes a POST of Streamable HTTP (2025-06-18, 2025-11-25), each by a connection of its
 * own; messages that come back, in answers, in streams of events and in the stream that is kept open for what belongs
 * to no request, are lines of stdout. Session and version of the protocol are kept here. Nothing is decided here, and
 * whatever the server does against the protocol of HTTP ends the run with a sentence on stderr: the hub begins it anew,
 * as a server whose program died.
 */
#ifndef MUXD_MUXLET_MCP_H
#define MUXD_MUXLET_MCP_H

#define MCP_FAILED 76 /* exit code: stderr says what the server did */

/* url: base/loopback.h. For so many ms the first message waits for somebody to listen. Returns the exit code. */
int mcp_run(const char *url, int within_ms);

#endif
