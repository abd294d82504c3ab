/*
 * operation.h - the operations that a policy may name: one table, which every door's calls, the loader of policy files,
 * the docs and the tests share.
 *
 * Broker calls name their row by its constant; a call of the API, a tool of MCP or a channel of SSH is as many of these
 * as it needs. A new operation of the product adds one row here, or is one of those.
 */
#ifndef POLICY_OPERATION_H
#define POLICY_OPERATION_H

#include <stddef.h>

/* Options that an operation may have in a profile. */
enum policy_option {
	POLICY_PATHS = 1,      /* paths: patterns below the workspace */
	POLICY_PORTS = 2,      /* ports: numbers and ranges */
	POLICY_SERVERS = 4,    /* servers: MCP servers, each with the patterns of its tools */
	POLICY_PRINCIPALS = 8, /* principals: who may */
};

/* X(NAME, "name", options, what it is) */
#define POLICY_OPERATIONS(X)                                                                                           \
	X(TERMINAL_OPEN, "terminal.open", 0, "A terminal (PTY): a login shell, or that of a program or a round.")      \
	X(EXEC_OPEN, "exec.open", 0, "A program over SSH.")                                                            \
	X(ROUND_START, "round.start", 0, "A round: a program with its output and exit code.")                          \
	X(ROUND_READ, "round.read", 0, "State, output, events and screen of one's own rounds.")                        \
	X(ROUND_INPUT, "round.input", 0, "Input, keys, size and signals of one's own rounds, and the end of a shell.") \
	X(SESSION_LIST, "session.list", 0, "The list of sessions.")                                                    \
	X(SESSION_WATCH, "session.watch", POLICY_PRINCIPALS, "Another's session or round, looked at.")                 \
	X(SESSION_DRIVE, "session.drive", POLICY_PRINCIPALS, "Another's session or round, typed on.")                  \
	X(SESSION_END, "session.end", 0, "A session ended, one's own or another's.")                                   \
	X(FILE_READ, "file.read", POLICY_PATHS, "Files and directories read, listed, searched and watched.")           \
	X(FILE_WRITE, "file.write", POLICY_PATHS, "Files written, moved, patched and deleted.")                        \
	X(FILE_LOCK, "file.lock", 0, "Locks on files taken, renewed, released and listed.")                            \
	X(ARTIFACT_READ, "artifact.read", 0, "Artifacts of the task read and listed.")                                 \
	X(ARTIFACT_WRITE, "artifact.write", 0, "Artifacts of the task made, replaced and deleted.")                    \
	X(CONTEXT_CREATE, "context.create", 0, "A code context made.")                                                 \
	X(CONTEXT_EXECUTE, "context.execute", 0, "Code run in a context, interrupted, and the context reset.")         \
	X(CONTEXT_READ, "context.read", 0, "Code contexts shown and listed.")                                          \
	X(CONTEXT_DELETE, "context.delete", 0, "A code context ended.")                                                \
	X(PYTHON_EXECUTE, "python.execute", 0, "Python code run once.")                                                \
	X(PORT_OPEN, "port.open", POLICY_PORTS, "A connection to a port in the sandbox.")                              \
	X(SANDBOX_READ, "sandbox.read", 0, "Sandboxes, their snapshots and their logs shown and listed.")              \
	X(SANDBOX_WAKE, "sandbox.wake", 0, "A sandbox made or woken by a call for that.")                              \
	X(SANDBOX_STOP, "sandbox.stop", 0, "A sandbox stopped, or all in it killed.")                                  \
	X(SANDBOX_DESTROY, "sandbox.destroy", 0, "A sandbox ended for good.")                                          \
	X(SANDBOX_SHAPE, "sandbox.shape", 0, "An image or resources chosen, or a pod template of the caller's own.")   \
	X(SNAPSHOT_TAKE, "snapshot.take", 0, "A snapshot of a workspace taken.")                                       \
	X(SNAPSHOT_RESTORE, "snapshot.restore", 0, "A workspace put back to a snapshot.")                              \
	X(SNAPSHOT_DROP, "snapshot.drop", 0, "A snapshot deleted.")                                                    \
	X(SNAPSHOT_FORK, "snapshot.fork", 0, "A new sandbox made of a snapshot.")                                      \
	X(MCP_CALL, "mcp.call", POLICY_SERVERS, "A tool of an MCP server called.")                                     \
	X(MCP_ASK, "mcp.ask", POLICY_SERVERS, "A question of an MCP server put to its caller.")                        \
	X(MCP_READ, "mcp.read", 0, "The MCP servers of an agent shown, with their tools.")                             \
	X(MCP_SET, "mcp.set", 0, "The MCP servers of an agent set, and their tools approved.")                         \
	X(SERVICE_READ, "service.read", 0, "The services of an agent shown, with their logs.")                         \
	X(SERVICE_SET, "service.set", 0, "The services of an agent set.")                                              \
	X(SERVICE_RESTART, "service.restart", 0, "A service of an agent begun anew.")                                  \
	X(FILESPACE_READ, "filespace.read", 0, "How the syncs of an agent's files went.")                              \
	X(FILESPACE_SYNC, "filespace.sync", 0, "An agent's files brought in step with the owner's store.")             \
	X(GRANT_MAKE, "grant.make", 0, "A narrower grant made from one's own.")                                        \
	X(GRANT_RENEW, "grant.renew", 0, "One's own grant renewed.")                                                   \
	X(GRANT_REVOKE, "grant.revoke", 0, "A grant revoked, one's own or one made from it.")                          \
	X(GRANT_LIST, "grant.list", 0, "Grants listed.")                                                               \
	X(EDGE_MINT, "edge.mint", 0, "A lease for an edge minted from one's own grant.")                               \
	X(LEASE_HOLD, "lease.hold", 0, "A lease taken, kept and released.")                                            \
	X(LEASE_READ, "lease.read", 0, "Leases and the pool shown and listed.")                                        \
	X(RUN_START, "run.start", 0, "A run of a stored workflow.")                                                    \
	X(RUN_READ, "run.read", 0, "Runs shown and listed.")                                                           \
	X(WORKFLOW_WRITE, "workflow.write", 0, "A workflow stored.")                                                   \
	X(WORKFLOW_READ, "workflow.read", 0, "Workflows shown and listed.")                                            \
	X(RECORD_READ, "record.read", 0, "Recordings, the audit log, retention and holds read.")                       \
	X(RECORD_KEEP, "record.keep", 0, "Legal holds set and released, retention applied.")                           \
	X(POLICY_READ, "policy.read", 0, "The policy in force read.")

enum policy_op {
#define POLICY_OP_ENUM_(name, text, options, help) POLICY_##name,
	POLICY_OPERATIONS(POLICY_OP_ENUM_)
#undef POLICY_OP_ENUM_
	    POLICY_OPS
};

const char *policy_op_name(enum policy_op op);
const char *policy_op_help(enum policy_op op);
/* The kind of session that it begins, as recordings name it; NULL: none. */
const char *policy_op_session(enum policy_op op);
unsigned policy_op_options(enum policy_op op); /* enum policy_option */
/* POLICY_OPS when there is none of that name. */
enum policy_op policy_op_find(const char *name);
/* The name that was likely meant; NULL: none is near. */
const char *policy_op_nearest(const char *name);

#endif
