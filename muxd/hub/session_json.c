/* A session as JSON: for the record, for lists, and as a round's answer. */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/attachment_state.h"
#include "muxd/hub/hub_state.h"
#include "muxd/hub/launch.h"
#include "muxd/hub/port.h"
#include "muxd/hub/session_end.h"
#include "muxd/hub/session_run.h"
#include "muxd/hub/session_state.h"

#include <stdlib.h>
#include <string.h>

#define ARGV_SHOWN 4096

/* An argument need not be UTF-8: then it stands as {"base64": ...}. What `room` bytes do not hold is left out. */
static json_t *argv_json(char *const *argv, size_t room, bool *out_cut)
{
	json_t *a = json_array();

	for (; a && argv && *argv && strlen(*argv) <= room; argv++) {
		room -= strlen(*argv);
		json_array_append_new(a, json_text_or_base64(*argv));
	}
	*out_cut = argv && *argv;
	return a;
}

/* The arguments as lists show them: their rows are many, and the whole of it is in the record. */
static void set_argv(json_t *o, char *const *argv)
{
	bool cut;

	json_object_set_new(o, "argv", argv_json(argv, ARGV_SHOWN, &cut));
	if (cut)
		json_object_set_new(o, "argv_truncated", json_true());
}

/* Environment by name only: values may be secrets, and a journal is for ever. */
static json_t *env_names(char *const *env)
{
	json_t *a = json_array();

	for (; a && env && *env; env++) {
		const char *eq = strchr(*env, '=');

		json_array_append_new(a, json_stringn(*env, eq ? (size_t)(eq - *env) : strlen(*env)));
	}
	return a;
}

static void set_str(json_t *o, const char *key, const char *value)
{
	if (value && *value)
		json_object_set_new(o, key, json_string(value));
}

/* Where two containers have a part in one sandbox: whose root the program, or the file, is in. */
static void set_root(json_t *o, const struct session *s)
{
	if (s->agent->info.visitor[0])
		set_str(o, "root", "target");
}

json_t *session_open_json(const struct session *s)
{
	const struct launch *l = &s->launch;
	const struct grant *g = &s->grant;
	char grant_id[ID_STR_LEN], sandbox_id[ID_STR_LEN];
	bool cut;
	json_t *o;

	id_format(&g->id, grant_id);
	id_format(&s->agent->info.sandbox_id, sandbox_id);
	o = json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:s,s:s,s:s,s:b,s:i,s:i,s:I,s:I,s:I,s:s}", "v", 1, "kind",
		      session_kind_name(s->kind), "agent", s->agent->name, "sandbox_id", sandbox_id, "principal",
		      g->principal, "principal_kind", grant_kind_name(g->kind), "grant_id", grant_id,
		      "grant_expires_ns", (json_int_t)g->expires_ns, "reason", g->reason, "task", l->task, "door",
		      s->door, "pty", l->pty, "cols", (int)l->cols, "rows", (int)l->rows, "timeout_ms",
		      (json_int_t)(l->timeout_ns / NS_PER_MS), "channel", (json_int_t)s->channel, "wall_ns",
		      (json_int_t)s->opened_wall_ns, "boot_id", clock_boot_id());
	if (!o)
		return NULL;
	json_object_set_new(o, "argv", argv_json(l->argv, SIZE_MAX, &cut));
	json_object_set_new(o, "env_names", env_names(l->env));
	json_object_set_new(o, "command", json_boolean(l->command != NULL));
	json_object_set_new(o, "head", json_integer((json_int_t)l->head));
	json_object_set_new(o, "tail", json_integer((json_int_t)l->tail));
	if (l->transfer)
		json_object_set_new(o, "file", transfer_json(l->transfer));
	if (l->port)
		json_object_set_new(o, "port", port_json(l));
	set_str(o, "cwd", l->cwd);
	set_str(o, "lease_id", l->lease);
	set_str(o, "run_id", l->run);
	if (l->secret_len)
		json_object_set_new(o, "secret_bytes", json_integer((json_int_t)l->secret_len));
	if (l->stdin_open)
		json_object_set_new(o, "stdin_open", json_true());
	if (l->stdin_len)
		json_object_set_new(o, "stdin_bytes", json_integer((json_int_t)l->stdin_len));
	set_str(o, "exec_id", l->exec_id);
	set_str(o, "digest", l->digest);
	set_str(o, "peer", s->peer);
	set_str(o, "snapshot_id", s->snapshot_id);
	set_root(o, s);
	return o;
}

static void session_json_set_time(json_t *o, const char *key, int64_t wall_ns)
{
	char text[40];

	if (!wall_ns)
		return;
	clock_format_utc(wall_ns, text, sizeof(text));
	json_object_set_new(o, key, json_string(text));
}

static void set_waits(json_t *o, const struct session *s)
{
	if (s->state == SESSION_OPENING)
		set_str(o, "waits", s->waits);
}

static json_t *exit_json(const struct session_result *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "cause", json_string(exit_cause_name(r->cause)));
	json_object_set_new(o, "code", r->code >= 0 ? json_integer(r->code) : json_null());
	json_object_set_new(o, "signal", r->signal ? json_string(signal_name(r->signal)) : json_null());
	set_str(o, "message", r->message);
	return o;
}

json_t *session_describe(const struct session *s)
{
	const struct attachment *a;
	char grant_id[ID_STR_LEN];
	json_t *o, *list = json_array();

	id_format(&s->grant.id, grant_id);
	o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:o}", "id", s->id_text, "kind", session_kind_name(s->kind),
		      "state", session_state_name(s->state), "agent", s->agent->name, "principal", s->grant.principal,
		      "principal_kind", grant_kind_name(s->grant.kind), "grant_id", grant_id, "reason", s->grant.reason,
		      "task", s->launch.task, "attachments", list);
	if (!o)
		return NULL;
	TAILQ_FOREACH(a, &s->attachments, of_session)
	json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", "principal", a->principal, "role",
					      attachment_role_name(a->role), "door", a->door, "peer", a->peer));
	set_argv(o, s->launch.argv);
	if (s->launch.transfer)
		json_object_set_new(o, "file", transfer_json(s->launch.transfer));
	if (s->launch.port)
		json_object_set_new(o, "port", port_json(&s->launch));
	set_str(o, "exec_id", s->launch.exec_id);
	set_str(o, "door", s->door);
	set_waits(o, s);
	set_root(o, s);
	session_json_set_time(o, "opened_at", s->opened_wall_ns);
	session_json_set_time(o, "ended_at", s->ended_wall_ns);
	session_set_begun(s, o);
	if (s->launch.pty) {
		json_object_set_new(o, "cols", json_integer(s->launch.cols));
		json_object_set_new(o, "rows", json_integer(s->launch.rows));
	}
	json_object_set_new(o, "input_bytes", json_integer((json_int_t)s->in_offset));
	json_object_set_new(o, "output_bytes", json_integer((json_int_t)s->stream[STREAM_OUTPUT].end));
	json_object_set_new(o, "stderr_bytes", json_integer((json_int_t)s->stream[STREAM_STDERR].end));
	if (s->end == END_TOLD)
		json_object_set_new(o, "exit", exit_json(&s->result));
	return o;
}

json_t *session_file_json(const struct session *s)
{
	return s->launch.transfer ? transfer_json(s->launch.transfer) : NULL;
}

void session_size(const struct session *s, unsigned *out_cols, unsigned *out_rows)
{
	*out_cols = s->launch.pty ? s->launch.cols : 0;
	*out_rows = s->launch.pty ? s->launch.rows : 0;
}

static json_t *round_json(const struct session *s, json_t *(*stream)(const struct keep *k))
{
	bool done = s->end == END_TOLD;
	uint64_t ns = done ? s->result.duration_ns : clock_boot_ns() - s->opened_boot_ns;
	json_t *o = json_object();

	if (!o)
		return NULL;
	json_object_set_new(o, "round_id", json_string(s->id_text));
	json_object_set_new(o, "exec_id", s->launch.exec_id ? json_string(s->launch.exec_id) : json_null());
	json_object_set_new(o, "task_id", json_string(s->launch.task));
	json_object_set_new(o, "agent", json_string(s->agent->name));
	json_object_set_new(o, "state",
			    json_string(done                        ? "finished"
					: s->state == SESSION_ENDED ? "ending"
								    : session_state_name(s->state)));
	set_waits(o, s);
	set_root(o, s);
	json_object_set_new(o, "exit", done ? exit_json(&s->result) : json_null());
	json_object_set_new(o, "stdout", stream(&s->keep[STREAM_OUTPUT]));
	json_object_set_new(o, "stderr", stream(&s->keep[STREAM_STDERR]));
	json_object_set_new(o, "duration_ms", json_integer((json_int_t)(ns / NS_PER_MS)));
	session_json_set_time(o, "started_at", s->opened_wall_ns);
	session_set_begun(s, o);
	set_str(o, "snapshot_id", s->snapshot_id);
	return o;
}

json_t *session_round_json(const struct session *s)
{
	return round_json(s, keep_json);
}

json_t *session_round_brief(const struct session *s)
{
	return round_json(s, keep_brief);
}
