/* A session as JSON: for the record, for lists, and as a round's answer. */
#include "muxd/hub/session/session_json.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/record_rule.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/port.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_share.h"
#include "muxd/hub/session/session_state.h"

#include <inttypes.h>
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

/* All 64 bits of a life do not fit a number of JSON. */
static void set_mark(json_t *o, const struct link_mark *m)
{
	char life[17];

	if (!m->life)
		return;
	snprintf(life, sizeof(life), "%016" PRIx64, m->life);
	json_object_set_new(o, "start", json_pack("{s:s,s:I}", "life", life, "opens", (json_int_t)m->opens));
}

void session_json_read_mark(const json_t *open, struct link_mark *out)
{
	const json_t *o = json_object_get(open, "start");
	const char *life = "";
	int64_t opens = 0;
	char *end;

	*out = (struct link_mark){0};
	if (json_opt_str(o, "life", &life, NULL) || strlen(life) != 16 ||
	    json_opt_int(o, "opens", 1, INT64_MAX, &opens, NULL))
		return;
	out->life = strtoull(life, &end, 16);
	out->opens = (uint64_t)opens;
	if (*end || !opens)
		*out = (struct link_mark){0};
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
	const struct grant *g = s->grant;
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
	json_object_set_new(o, "boot_ns", json_integer((json_int_t)s->opened_boot_ns));
	json_object_set_new(o, "argv", argv_json(l->argv, SIZE_MAX, &cut));
	if (g->kin.depth || !id_is_nil(&g->kin.first) || g->kin.task_asked) {
		json_t *line = json_object();

		if (line && grant_kin_put(line, &g->kin) == 0)
			json_object_set(o, "grant_line", line);
		json_decref(line);
	}
	if (g->kid[0])
		json_object_set_new(o, "grant_key", json_string(g->kid));
	if (g->task[0]) /* the task is the grant's, not the call's alone */
		json_object_set_new(o, "grant_task", json_true());
	json_object_set_new(o, "env_names", env_names(l->env));
	json_object_set_new(o, "command", json_boolean(l->command != NULL));
	json_object_set_new(o, "head", json_integer((json_int_t)l->head));
	json_object_set_new(o, "tail", json_integer((json_int_t)l->tail));
	if (l->transfer)
		json_object_set_new(o, "file", transfer_json(l->transfer));
	if (l->port)
		json_object_set_new(o, "port", port_json(l));
	if (l->idle_ns)
		json_object_set_new(o, "idle_timeout_ms", json_integer((json_int_t)(l->idle_ns / NS_PER_MS)));
	set_str(o, "cwd", l->cwd);
	audit_set_lease(o, l->work);
	if (l->artifacts)
		json_object_set(o, "artifacts", l->artifacts);
	if (l->secret_len)
		json_object_set_new(o, "secret_bytes", json_integer((json_int_t)l->secret_len));
	if (l->stdin_open)
		json_object_set_new(o, "stdin_open", json_true());
	if (l->stdin_len)
		json_object_set_new(o, "stdin_bytes", json_integer((json_int_t)l->stdin_len));
	set_str(o, "exec_id", l->exec_id);
	if (l->exec_id && s->life > 0)
		json_object_set_new(o, "agent_since_ns", json_integer(s->life));
	set_str(o, "digest", l->digest);
	if (l->shell.name[0])
		json_object_set_new(o, "shell", shell_use_json(&l->shell));
	if (l->context.role)
		json_object_set_new(o, "context", context_use_json(&l->context));
	if (l->server[0])
		json_object_set_new(o, "mcp", json_pack("{s:s,s:s}", "role", "server", "server", l->server));
	if (l->service[0])
		json_object_set_new(o, "service",
				    json_pack("{s:s,s:s}", "name", l->service, "definition", l->definition));
	if (l->record)
		json_object_set_new(o, "record", record_rule_json(l->record));
	set_str(o, "peer", s->peer);
	set_str(o, "snapshot_id", s->snapshot_id);
	set_mark(o, &s->mark);
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

/* ---- how it ended */

bool session_result_passes(const struct session_result *r)
{
	static const int passing[] = {ERR_DID_NOT_RUN, ERR_LIMIT, ERR_UNAVAILABLE, ERR_NOMEM};

	for (size_t i = 0; r->cause == EXIT_NOT_STARTED && i < sizeof(passing) / sizeof(passing[0]); i++)
		if (r->refused == passing[i])
			return true;
	return false;
}

void session_result_read(const json_t *exit, struct session_result *out)
{
	const json_t *totals = json_object_get(exit, "totals"), *sums = json_object_get(exit, "sha256");
	static const char *const streams[] = {"stdin", "stdout", "stderr"};
	const char *cause = json_string_value(json_object_get(exit, "cause"));

	*out = (struct session_result){.cause = EXIT_UNKNOWN};
	(void)exit_cause_parse(cause ? cause : "", &out->cause);
	out->code = (int)json_integer_value(json_object_get(exit, "code"));
	out->signal = (int)json_integer_value(json_object_get(exit, "signal"));
	out->duration_ns = (uint64_t)json_integer_value(json_object_get(exit, "duration_ns"));
	text_put(out->message, sizeof(out->message), json_string_value(json_object_get(exit, "message")) ?: "");
	out->refused = err_by_name(json_string_value(json_object_get(exit, "refused")) ?: "");
	for (size_t i = 0; i < STREAM_COUNT; i++) {
		const char *sum = json_string_value(json_object_get(sums, streams[i]));

		out->total[i] = (uint64_t)json_integer_value(json_array_get(totals, i));
		text_put(out->sha256[i], sizeof(out->sha256[i]), sum ? sum : "");
	}
}

const char *session_result_error(const struct session_result *r)
{
	return r->refused ? err_name(r->refused) : exit_cause_error(r->cause);
}

static json_t *exit_json(const struct session_result *r)
{
	return json_pack("{s:s,s:o,s:s?,s:s*,s:s*}", "cause", exit_cause_name(r->cause), "code",
			 r->code >= 0 ? json_integer(r->code) : json_null(), "signal",
			 r->signal ? signal_name(r->signal) : NULL, "error", session_result_error(r), "message",
			 r->message[0] ? r->message : NULL);
}

static json_t *farewell_stream(const struct session_result *r, int stream)
{
	return json_pack("{s:I,s:s}", "total_bytes", (json_int_t)r->total[stream], "sha256", r->sha256[stream]);
}

json_t *session_farewell(const struct session_result *r)
{
	return json_pack("{s:{s:s,s:i,s:s,s:s*,s:s},s:o,s:o,s:I}", "exit", "cause", exit_cause_name(r->cause), "code",
			 r->code, "signal", r->signal ? signal_name(r->signal) : "", "error", session_result_error(r),
			 "message", r->message, "stdout", farewell_stream(r, STREAM_OUTPUT), "stderr",
			 farewell_stream(r, STREAM_STDERR), "duration_ms", (json_int_t)(r->duration_ns / NS_PER_MS));
}

json_t *round_shell_json(const struct shell_use *u)
{
	return u->name[0] ? json_pack("{s:s,s:b}", "name", u->name, "fresh", u->fresh) : NULL;
}

json_t *round_told_json(const struct round_told *t)
{
	return json_pack("{s:s,s:s?,s:s?,s:s?,s:s,s:s*,s:s*,s:o,s:o*,s:o*,s:I,s:s?,s:s?,s:s?,s:s*,s:s*,s:o*,s:o*,s:o*}",
			 "round_id", t->id, "exec_id", t->exec_id, "task_id", t->task, "agent", t->agent, "state",
			 t->state, "waits", t->waits, "root", t->root, "exit",
			 t->result ? exit_json(t->result) : json_null(), "stdout", t->out, "stderr", t->err,
			 "duration_ms", (json_int_t)(t->duration_ns / NS_PER_MS), "started_at", t->started_at, "cwd",
			 t->cwd, "program", t->program, "snapshot_id", t->snapshot_id, "service", t->service, "shell",
			 t->shell, "context", t->context, "mcp", t->mcp);
}

/* ---- in lists, and as a round */

static void set_held(json_t *o, const struct session *s)
{
	json_t *held = session_share_json(s);

	if (held)
		json_object_set_new(o, "held", held);
}

json_t *session_describe(const struct session *s)
{
	const struct attachment *a;
	char grant_id[ID_STR_LEN];
	json_t *o, *list = json_array();

	id_format(&s->grant->id, grant_id);
	o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:o}", "id", s->id_text, "kind", session_kind_name(s->kind),
		      "state", session_state_name(s->state), "agent", s->agent->name, "principal", s->grant->principal,
		      "principal_kind", grant_kind_name(s->grant->kind), "grant_id", grant_id, "reason",
		      s->grant->reason, "task", s->launch.task, "attachments", list);
	if (!o)
		return NULL;
	TAILQ_FOREACH(a, &s->attachments, of_session)
	json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", "principal", a->grant->principal, "role",
					      attachment_role_name(a->role), "door", a->door, "peer", a->peer));
	set_argv(o, s->launch.argv);
	if (s->launch.transfer)
		json_object_set_new(o, "file", transfer_json(s->launch.transfer));
	if (s->launch.port)
		json_object_set_new(o, "port", port_json(&s->launch));
	set_str(o, "exec_id", s->launch.exec_id);
	set_str(o, "shell", s->launch.shell.name);
	if (s->launch.context.role)
		json_object_set_new(o, "context", context_use_json(&s->launch.context));
	set_str(o, "mcp_server", s->launch.server);
	set_str(o, "service", s->launch.service);
	set_str(o, "door", s->door);
	if (s->state == SESSION_OPENING)
		set_str(o, "waits", s->waits);
	set_root(o, s);
	session_json_set_time(o, "opened_at", s->opened_wall_ns);
	session_json_set_time(o, "ended_at", s->ended_wall_ns);
	session_set_begun(s, o);
	if (s->launch.pty) {
		json_object_set_new(o, "cols", json_integer(s->launch.cols));
		json_object_set_new(o, "rows", json_integer(s->launch.rows));
	}
	if (s->paced && s->state == SESSION_RUNNING)
		json_object_set_new(o, "paced", json_true());
	set_held(o, s);
	json_object_set_new(o, "input_bytes", json_integer((json_int_t)s->in_offset));
	json_object_set_new(o, "output_bytes", json_integer((json_int_t)s->stream[STREAM_OUTPUT].end));
	json_object_set_new(o, "stderr_bytes", json_integer((json_int_t)s->stream[STREAM_STDERR].end));
	if (s->end == END_TOLD)
		json_object_set_new(o, "exit", exit_json(s->result));
	return o;
}

json_t *session_file_take_reply(struct session *s)
{
	return s->launch.transfer ? transfer_take_reply(s->launch.transfer) : NULL;
}

bool session_file_take_text(struct session *s, struct buf *out, bool *out_more)
{
	return s->launch.transfer && transfer_take_text(s->launch.transfer, out, out_more);
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

static const char *or_absent(const char *text)
{
	return text && *text ? text : NULL;
}

static json_t *round_json(const struct session *s, json_t *(*stream)(const struct keep *k))
{
	bool done = s->end == END_TOLD;
	char started[40];
	json_t *o;
	struct round_told t = {
	    .id = s->id_text,
	    .exec_id = s->launch.exec_id,
	    .task = s->launch.task,
	    .agent = s->agent->name,
	    .state = done                        ? "finished"
		     : s->state == SESSION_ENDED ? "ending"
						 : session_state_name(s->state),
	    .started_at = started,
	    .cwd = or_absent(s->begun_cwd),
	    .program = or_absent(s->begun_program),
	    .waits = s->state == SESSION_OPENING ? s->waits : NULL,
	    .root = s->agent->info.visitor[0] ? "target" : NULL,
	    .snapshot_id = or_absent(s->snapshot_id),
	    .service = or_absent(s->launch.service),
	    .shell = round_shell_json(&s->launch.shell),
	    .context = s->launch.context.role ? context_use_json(&s->launch.context) : NULL,
	    .mcp = s->launch.server[0] ? json_pack("{s:s,s:s}", "role", "server", "server", s->launch.server) : NULL,
	    .result = done ? s->result : NULL,
	    .duration_ns = done ? s->result->duration_ns : clock_boot_ns() - s->opened_boot_ns,
	    .out = stream(&s->keep[STREAM_OUTPUT]),
	    .err = stream(&s->keep[STREAM_STDERR])};

	clock_format_utc(s->opened_wall_ns, started, sizeof(started));
	o = round_told_json(&t);
	if (o)
		set_held(o, s);
	if (o && s->artifacts)
		json_object_set_new(o, "artifacts", json_deep_copy(s->artifacts));
	return o;
}

json_t *session_round_json(const struct session *s)
{
	return round_json(s, s->end == END_TOLD ? keep_json : keep_so_far);
}

json_t *session_round_brief(const struct session *s)
{
	return round_json(s, keep_brief);
}
