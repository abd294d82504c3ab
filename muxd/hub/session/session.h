/*
 * session.h - one recorded terminal, exec channel or round in a sandbox.
 *
 * Owned by the hub; it outlives its attachments, the link's stream and, in the
 * sandbox, the daemon. Its id is the id of its recording and, for a round, the
 * round's id. Doors hold attachments or ids, never a session across turns of
 * the loop (look it up again).
 *
 * States (session_state): OPENING (intent journaled, OPEN sent) -> RUNNING ->
 * ENDING (told to end) -> ENDED (EXIT journaled; kept at hand for a while, see
 * rounds.keep). SUSPENDED: the link is down, programs may live; back to RUNNING.
 */
#ifndef MUXD_HUB_SESSION_SESSION_H
#define MUXD_HUB_SESSION_SESSION_H

#include "base/err.h"
#include "base/ids.h"
#include "base/json.h"
#include "muxd/link/link.h"

#include <stdbool.h>
#include <stdint.h>

struct session;
struct hub;
struct buf;
struct err;

/* MCP: one request to a server inside, in the record alone (inside_record.h). */
enum session_kind { SESSION_TERMINAL, SESSION_EXEC, SESSION_ROUND, SESSION_FILE, SESSION_PORT, SESSION_MCP };
#define SESSION_KINDS 6
enum session_state { SESSION_OPENING, SESSION_RUNNING, SESSION_SUSPENDED, SESSION_ENDING, SESSION_ENDED };

/* How it ended. Digests and totals are over everything, computed outside the sandbox. */
struct session_result {
	enum exit_cause cause;
	int code;          /* -1 when none */
	int signal;        /* 0 when none */
	char message[200]; /* why it did not start, who ended it */
	uint64_t total[3];
	char sha256[3][65]; /* lower-case hex; of rounds, without [0] */
	int refused;        /* EXIT_NOT_STARTED: ERR_*, and message says why; 0: not known, or it started */
	int failed;         /* of a transfer or a connection to a port: ERR_*, and message says it; 0: it went well */
	struct err_policy policy; /* failed, since a profile denies it; version "": no verdict */
	struct err_share share;   /* refused, since a limit inside the sandbox is reached; limit "": none is */
	uint64_t duration_ns;
};

/* `failed` as an error, with its verdict. */
int session_result_failed(const struct session_result *r, struct err *e);
/* Of a transfer whose input was refused as ERR_TOO_LARGE: why. */
int session_file_over(const struct session *s, struct err *e);

const char *session_kind_name(enum session_kind k);
const char *session_state_name(enum session_state s);
/* "INT", "SIGINT" or 2; ERR_INVAL names what is known. */
int signal_parse(const char *s, int *out, struct err *e);
const char *signal_name(int signum); /* "INT" */

const struct id *session_id(const struct session *s);
enum session_kind session_kind(const struct session *s);
enum session_state session_state(const struct session *s);
const char *session_agent(const struct session *s);
const char *session_principal(const struct session *s);
const struct session_result *session_result(const struct session *s);               /* NULL before the end */
void session_size(const struct session *s, unsigned *out_cols, unsigned *out_rows); /* 0 without a terminal */

/* The object of GET /v1/sessions: id, kind, state, agent, principal, task, reason, opened_at, attachments ... */
json_t *session_describe(const struct session *s);
/* The object of GET /v1/rounds/{id} (issue's shape: round_id, exec_id, task_id, state, exit, stdout, stderr,
 * duration_ms). */
json_t *session_round_json(const struct session *s);
/* The same without the output: of stdout and stderr total_bytes and sha256. */
json_t *session_round_brief(const struct session *s);

/* How it ended, as EXIT of the browser door has it (docs/protocol.md). NULL: no memory. */
json_t *session_farewell(const struct session_result *r);

/* A file transfer: {op, path, size, mode, mtime, sha256}, of the file alone. NULL: it is none, or no memory. */
json_t *session_file_json(const struct session *s);
/* The answer of an operation on files, once: an object, the caller's then. NULL: nothing. */
json_t *session_file_take_reply(struct session *s);
/* As text, where it is at hand so, without its last brace (hub/session/transfer.h). */
bool session_file_take_text(struct session *s, struct buf *out, bool *out_more);

struct session *hub_session_find(struct hub *h, const struct id *id);

#endif
