/*
 * session_json.h - a session as JSON: for the record, and how it ended, whether memory or the record tells that.
 */
#ifndef MUXD_HUB_SESSION_SESSION_JSON_H
#define MUXD_HUB_SESSION_SESSION_JSON_H

#include "base/json.h"
#include "muxd/hub/session/session.h"
#include "muxd/link/link.h"

/* Of a round, from memory or the record. NULL: null in the answer; "absent": left out. */
struct round_told {
	const char *id, *exec_id, *task, *agent, *state, *started_at, *cwd, *program;
	const char *waits, *root, *snapshot_id, *service; /* absent */
	const struct session_result *result;              /* NULL: it has not ended */
	uint64_t duration_ns;
	json_t *out, *err, *shell, *context, *mcp; /* stolen; absent */
};

struct shell_use;
json_t *round_shell_json(const struct shell_use *u); /* {name, fresh}; NULL: it is in none, or no memory */
json_t *session_open_json(const struct session *s);
/* The one renderer of GET /v1/rounds/{id}. NULL: no memory. */
json_t *round_told_json(const struct round_told *t);
/* Where the start stands in its muxlet's life, as OPEN has it; life 0: it does not say. */
void session_json_read_mark(const json_t *open, struct link_mark *out);
/* EXIT of the recording, as exit_record() writes it (session_end.c). */
const char *session_result_error(const struct session_result *r); /* a stable code; NULL: no failure of muxd's */
void session_result_read(const json_t *exit, struct session_result *out);
/* Nothing of it ran, for a reason that passes (a limit, a start that was lost): the same call may run it yet. */
bool session_result_passes(const struct session_result *r);

#endif
