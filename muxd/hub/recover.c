/*
 * After a start: what the record says is open becomes sessions again, suspended
 * until the link into their sandbox is back and its LIST has been compared.
 */
#define LOG_SUBSYS "recover"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/record_rule.h"
#include "base/text.h"
#include "muxd/hub/broker/round_wishes.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/inside/inside_record.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/parts.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/screen.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_json.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_share.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/setup.h"
#include "recorder/serve/client.h"

#include <stdlib.h>
#include <string.h>

#define EXEC_RETURN_NS                                                                                                 \
	(20 * NS_PER_SEC) /* for so long the client of a command with a terminal may be on its way back */

struct recovery {
	struct hub *hub;
	hub_recovered *done;
	void *arg;
	unsigned open, ids;
};

static int parse_kind(const char *s, enum session_kind *out)
{
	for (int k = SESSION_TERMINAL; k < SESSION_KINDS; k++)
		if (strcmp(s, session_kind_name((enum session_kind)k)) == 0) {
			*out = (enum session_kind)k;
			return 0;
		}
	return ERR_INVAL;
}

static void restore_grant(struct grant *g, const json_t *open)
{
	const char *principal = "", *kind = "", *reason = "", *id = "", *task = "", *kid = "";
	int64_t expires = 0;
	bool own_task = false;

	(void)json_opt_str(open, "principal", &principal, NULL);
	(void)json_opt_str(open, "principal_kind", &kind, NULL);
	(void)json_opt_str(open, "reason", &reason, NULL);
	(void)json_opt_str(open, "grant_id", &id, NULL);
	(void)json_opt_int(open, "grant_expires_ns", 0, INT64_MAX, &expires, NULL);
	(void)json_opt_bool(open, "grant_task", &own_task, NULL);
	(void)json_opt_str(open, "task", &task, NULL);
	(void)json_opt_str(open, "grant_key", &kid, NULL);
	text_put(g->kid, sizeof(g->kid), kid);
	text_put(g->principal, sizeof(g->principal), principal);
	text_put(g->reason, sizeof(g->reason), reason);
	text_put(g->task, sizeof(g->task),
		 own_task ? task : ""); /* one of the call alone opens nobody else's artifacts */
	(void)grant_kind_parse(kind, &g->kind, NULL);
	(void)id_parse(id, &g->id);
	g->expires_ns = expires;
	(void)grant_kin_take(json_object_get(open, "grant_line"), &g->kin, NULL);
}

static int restore_launch(struct launch *l, const json_t *open)
{
	const json_t *argv = json_object_get(open, "argv");
	struct work_ids work = {.lease = ""};
	const char *task = "", *digest = "", *lease = "", *run = "", *client = "", *cwd = NULL, *exec_id = NULL;
	int64_t cols = 0, rows = 0, timeout = 0, idle = 0, head = 0, tail = 0;
	size_t n = json_array_size(argv);
	struct record_rule record;

	(void)json_opt_str(open, "task", &task, NULL);
	(void)json_opt_str(open, "digest", &digest, NULL);
	(void)json_opt_str(open, "lease_id", &lease, NULL);
	(void)json_opt_str(open, "run_id", &run, NULL);
	(void)json_opt_str(open, "client_request_id", &client, NULL);
	(void)json_opt_str(open, "cwd", &cwd, NULL);
	(void)json_opt_str(open, "exec_id", &exec_id, NULL);
	(void)json_opt_bool(open, "pty", &l->pty, NULL);
	(void)json_opt_bool(open, "stdin_open", &l->stdin_open, NULL);
	(void)json_opt_int(open, "cols", 0, 65535, &cols, NULL);
	(void)json_opt_int(open, "rows", 0, 65535, &rows, NULL);
	(void)json_opt_int(open, "timeout_ms", 0, INT64_MAX / 1000000, &timeout, NULL);
	(void)json_opt_int(open, "idle_timeout_ms", 0, INT64_MAX / 1000000, &idle, NULL);
	(void)json_opt_int(open, "head", 0, INT64_MAX, &head, NULL);
	(void)json_opt_int(open, "tail", 0, INT64_MAX, &tail, NULL);
	(void)record_rule_read(open, &record, NULL);                     /* the recorder tells of one that cannot be */
	(void)shell_use_read(json_object_get(open, "shell"), &l->shell); /* most are in none */
	(void)context_use_read(json_object_get(open, "context"), &l->context);
	text_put(l->server, sizeof(l->server), json_get_text(json_object_get(open, "mcp"), "server"));
	text_put(l->service, sizeof(l->service), json_get_text(json_object_get(open, "service"), "name"));
	text_put(l->definition, sizeof(l->definition), json_get_text(json_object_get(open, "service"), "definition"));
	l->cols = (unsigned)cols, l->rows = (unsigned)rows;
	l->timeout_ns = (uint64_t)timeout * NS_PER_MS;
	l->idle_ns = (uint64_t)idle * NS_PER_MS;
	l->head = (uint64_t)head, l->tail = (uint64_t)tail;
	text_put(l->task, sizeof(l->task), task);
	text_put(l->digest, sizeof(l->digest), digest);
	text_put(work.lease, sizeof(work.lease), lease);
	text_put(work.run, sizeof(work.run), run);
	text_put(work.request, sizeof(work.request), client);
	l->argv = calloc(n + 1, sizeof(*l->argv));
	if (json_is_array(json_object_get(open, "artifacts")))
		l->artifacts = json_incref(json_object_get(open, "artifacts"));
	if (launch_record_by(l, &record) || launch_leased(l, &work) || !l->argv || (cwd && !(l->cwd = strdup(cwd))) ||
	    (exec_id && !(l->exec_id = strdup(exec_id))))
		return ERR_NOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(argv, i));

		if (!(l->argv[i] = strdup(s ? s : "?")))
			return ERR_NOMEM;
	}
	return 0;
}

/* Of one that may run yet the exec_id is free, as it was before the restart. */
static void remember_exec_id(struct hub *h, const json_t *entry, const json_t *open, const struct id *id)
{
	const char *agent = NULL, *principal = NULL, *exec_id = NULL, *digest = "";
	struct exec_use u = {.session = *id};
	struct session_result how;

	session_result_read(json_object_get(entry, "exit"), &how);
	if (session_result_passes(&how))
		return;
	(void)json_opt_str(open, "agent", &agent, NULL);
	(void)json_opt_str(open, "principal", &principal, NULL);
	(void)json_opt_str(open, "exec_id", &exec_id, NULL);
	(void)json_opt_str(open, "digest", &digest, NULL);
	(void)json_opt_int(open, "agent_since_ns", 1, INT64_MAX, &u.life, NULL);
	text_put(u.digest, sizeof(u.digest), digest);
	if (agent && principal && exec_id && exec_ids_add(hub_exec_ids(h), agent, principal, exec_id, &u))
		log_error(NULL, "exec_id %s is not remembered: no memory", exec_id);
}

/* The shell that a round was or is in, as both of them know it. An older round's word counts no more. */
static void restore_shell(struct hub *h, const json_t *entry, const struct id *id, bool ended)
{
	const json_t *open = json_object_get(entry, "open");
	struct shell_owner o = {json_string_value(json_object_get(open, "agent")),
				json_string_value(json_object_get(open, "principal"))};
	struct session_result how;
	struct shell_use u;
	struct id sandbox;

	if (!o.agent || !o.principal || shell_use_read(json_object_get(open, "shell"), &u) ||
	    id_parse(json_string_value(json_object_get(open, "sandbox_id")) ?: "", &sandbox))
		return;
	if (shells_begin(hub_shells(h), &o, &sandbox, &u, id)) {
		log_error(NULL, "shell %s is not remembered: no memory", u.name);
		return;
	}
	if (!ended)
		return;
	session_result_read(json_object_get(entry, "exit"), &how);
	shells_settle(hub_shells(h), &o, u.name, id, how.cause == EXIT_EXITED && how.code >= 0);
}

/* The same of the context. Of an interpreter that has ended its reason is known; an execution that has ended tells of a
 * shell alone, as others have an interpreter to tell of them. */
static void restore_context(struct hub *h, const json_t *entry, const struct id *id, bool ended)
{
	const json_t *open = json_object_get(entry, "open");
	struct context_owner o = {json_string_value(json_object_get(open, "agent")),
				  json_string_value(json_object_get(open, "principal"))};
	struct context_begin b = {.session = *id,
				  .cwd = json_string_value(json_object_get(open, "cwd")),
				  .env_lost = json_array_size(json_object_get(open, "env_names")) > 1};
	struct session_result how;
	struct context_use u;

	if (!o.agent || !o.principal || context_use_read(json_object_get(open, "context"), &u) ||
	    id_parse(json_string_value(json_object_get(open, "sandbox_id")) ?: "", &b.sandbox) ||
	    (ended && u.role == CONTEXT_EXECUTION && u.language != CONTEXT_BASH))
		return;
	if (contexts_begin(hub_contexts(h), &o, &u, &b))
		log_error(NULL, "a context is not remembered: no memory");
	if (!ended)
		return;
	session_result_read(json_object_get(entry, "exit"), &how);
	contexts_settle(hub_contexts(h), &u, id, &how);
}

/*
 * Since when its time runs: by the clock that nobody sets, where this is the boot that it began in. Behind another one,
 * and where its OPEN is from before that was written, by the wall clock.
 */
static void restore_time(struct session *s, const json_t *open)
{
	int64_t wall = 0, boot = 0, age;

	(void)json_opt_int(open, "wall_ns", 0, INT64_MAX, &wall, NULL);
	(void)json_opt_int(open, "boot_ns", 0, INT64_MAX, &boot, NULL);
	s->opened_wall_ns = wall;
	age = clock_wall_ns() - wall;
	s->opened_boot_ns = clock_boot_ns();
	if (boot && (uint64_t)boot <= s->opened_boot_ns && strcmp(json_get_text(open, "boot_id"), clock_boot_id()) == 0)
		s->opened_boot_ns = (uint64_t)boot;
	else if (wall && age > 0 && (uint64_t)age < s->opened_boot_ns)
		s->opened_boot_ns -= (uint64_t)age;
}

/* Input that the daemon had accepted but not yet forwarded is lost. If all of it was forwarded, only the end of it
 * may be missing: it is said again. */
static void restore_input(struct session *s, const json_t *open)
{
	int64_t given = 0;

	(void)json_opt_int(open, "stdin_bytes", 0, INT64_MAX, &given, NULL);
	if (s->kind != SESSION_ROUND || !given)
		return;
	if (s->in_offset < (uint64_t)given)
		session_kill(s, EXIT_LOST, "the daemon was restarted, and a part of its input is lost");
	else if (!s->launch.stdin_open)
		s->in_eof = UINT64_MAX;
}

/* The digest of a round that was running is no longer known here: the record has it (keep.whole = false). */
static int restore_keeps(struct session *s)
{
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT && s->kind == SESSION_ROUND; i++) {
		int rc = keep_init(&s->keep[i], s->launch.head, s->launch.tail);

		if (rc)
			return rc;
		s->keep[i].whole = s->stream[i].end == 0;
		s->keep[i].total = s->stream[i].end;
		if (!s->keep[i].whole)
			s->keep[i].head_max = 0;
	}
	return 0;
}

/* Of the sandbox that it ran in; nil where OPEN has none. */
static int restore_wishes(struct session *s, const json_t *open)
{
	struct id sandbox = {0};

	(void)id_parse(json_string_value(json_object_get(open, "sandbox_id")) ?: "", &sandbox);
	return s->launch.artifacts ? round_wishes_restore(s, &sandbox) : 0;
}

static int restore_session(struct hub *h, const struct id *id, const json_t *open, const json_t *offsets, struct err *e)
{
	const char *agent, *kind_name;
	uint64_t at[STREAM_COUNT] = {0};
	enum session_kind kind;
	struct grant g = {0};
	int64_t channel;
	struct session *s;
	struct agent *a;
	int rc;

	if ((rc = json_need_str(open, "agent", &agent, e)) || (rc = json_need_str(open, "kind", &kind_name, e)) ||
	    (rc = json_need_int(open, "channel", 1, UINT32_MAX, &channel, e)))
		return rc;
	if (parse_kind(kind_name, &kind))
		return err_set(e, ERR_INVAL, "unknown kind %s", kind_name);
	for (size_t i = 0; i < STREAM_COUNT; i++)
		at[i] = (uint64_t)json_integer_value(json_array_get(offsets, i));
	restore_grant(&g, open);
	a = agent_get(h, agent);
	s = a ? session_restore_alloc(a, id, kind, (uint32_t)channel, at, &g) : NULL;
	if (!s)
		return err_set(e, ERR_NOMEM, "no memory");
	session_json_read_mark(open, &s->mark);
	restore_time(s, open);
	rc = restore_launch(&s->launch, open);
	session_share_take(s);
	if (!rc)
		rc = restore_keeps(s);
	restore_input(s, open);
	if (!rc)
		rc = restore_wishes(s, open);
	s->size_unsure = true;
	s->caller_changed = true; /* whose input the record has last is not known */
	if (!rc)
		session_note_size(s);
	if (kind == SESSION_TERMINAL) /* whoever was there may come back; else it ends as any terminal left alone */
		s->linger_at = clock_boot_ns() + hub_conf(h)->session_linger_ns;
	else if (kind == SESSION_EXEC && s->launch.pty) /* muxctl exec -t comes back by itself, and soon */
		s->linger_at = clock_boot_ns() + EXEC_RETURN_NS;
	else if (s->launch.server[0]) /* nobody speaks with it any more: the next request has it begun anew */
		session_kill(s, EXIT_KILLED,
			     "the daemon was restarted, and an MCP server is begun anew by the next request");
	else if (kind == SESSION_EXEC || kind == SESSION_FILE || kind == SESSION_PORT)
		session_kill(s, EXIT_KILLED, "the daemon was restarted and its client is gone");
	return rc;
}

/* An entry that cannot be a session again, as its beginning is lost, is nobody's: it ends there, and says why. */
static int end_in_record(struct hub *h, const json_t *entry, const char *why)
{
	const json_t *open = json_object_get(entry, "open"), *offsets = json_object_get(entry, "offsets");
	const char *text = "", *agent = NULL;
	json_int_t at[STREAM_COUNT];
	struct id id;
	json_t *o;
	int rc;

	(void)json_opt_str(entry, "session", &text, NULL);
	(void)json_opt_str(open, "agent", &agent, NULL);
	if (id_parse(text, &id))
		return ERR_INVAL;
	for (size_t i = 0; i < STREAM_COUNT; i++)
		at[i] = json_integer_value(json_array_get(offsets, i));
	o = json_pack("{s:s,s:i,s:i,s:s,s:[I,I,I],s:I,s:b}", "cause", exit_cause_name(EXIT_UNKNOWN), "code", -1,
		      "signal", 0, "message", why, "totals", at[0], at[1], at[2], "duration_ns", (json_int_t)0,
		      "reported", 0);
	journal_hold(hub_journal(h));
	rc = o ? journal_json(hub_journal(h), RING_EXIT, &id, o) : ERR_NOMEM;
	json_decref(o);
	if (!rc)
		rc = audit_event(h, "session.end", NULL, agent, exit_cause_name(EXIT_UNKNOWN),
				 json_pack("{s:s,s:s}", "session", text, "message", why));
	journal_let(hub_journal(h), !rc);
	return rc;
}

int session_restore(struct hub *h, const json_t *entry, struct err *e)
{
	const json_t *open = json_object_get(entry, "open"), *offsets = json_object_get(entry, "offsets");
	const char *id_text;
	bool ended = false;
	struct id id;
	int rc;

	if ((rc = json_need_str(entry, "session", &id_text, e)) || (rc = id_parse(id_text, &id)))
		return rc;
	(void)json_opt_bool(entry, "ended", &ended, NULL);
	remember_exec_id(h, entry, open, &id);
	if (strcmp(json_get_text(open, "kind"), session_kind_name(SESSION_MCP)) == 0)
		return ended ? 0 : end_in_record(h, entry, INSIDE_LOST);
	if (!ended && !hub_session_find(h, &id))
		rc = restore_session(h, &id, open, offsets, e);
	if (!rc)
		restore_shell(h, entry, &id, ended), restore_context(h, entry, &id, ended);
	return rc;
}

void session_restore_or_end(struct hub *h, const json_t *entry, bool *out_taken)
{
	struct err e = {0};
	bool ended = false;
	int rc = session_restore(h, entry, &e);

	*out_taken = rc == 0;
	if (!rc)
		return;
	log_error(NULL, "an open session of the record is not taken up: %s", e.message);
	(void)json_opt_bool(entry, "ended", &ended, NULL);
	if (rc != ERR_NOMEM && !ended && (rc = end_in_record(h, entry, e.message)))
		log_error(NULL, "nor is it ended there: %s", err_name(rc));
}

/* The sandbox of each open session is spoken to; where it is gone its sessions end as lost. */
static void reconnect_all(struct hub *h)
{
	struct agent *a, *next;

	HASH_ITER(hh, hub_agents(h)->by_name, a, next)
	if (a->channels)
		agent_reconnect(a);
}

/*
 * Known again, and the recorder has said how it is: doors may open. They do so when it cannot write, too, for somebody
 * has to tell: hub_writable() refuses what is new until it can.
 */
void recovery_check(struct hub *h)
{
	struct pause *p = hub_pause(h);
	struct recovery *r = p->recovery;
	enum hub_record_state record = journal_state(hub_journal(h));

	if (!r || record == RECORD_STARTING)
		return;
	p->recovery = NULL;
	hub_set_recovered(h);
	pause_begin(h, record);
	r->done(r->arg, 0, NULL);
	free(r);
}

static void recover_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			      bool end)
{
	struct recovery *r = arg;
	struct hub *h = r->hub;
	bool taken = false;

	(void)p, (void)n;
	if (rc) {
		r->done(r->arg, rc, e);
		free(r);
		return;
	}
	if (json && json_object_get(json, "session")) {
		session_restore_or_end(h, json, &taken);
		r->open += taken;
	}
	if (!end)
		return;
	log_info(NULL, "recovered: %u sessions or exec ids of the record", r->open);
	(void)audit_event(h, "hub.start", NULL, NULL, "ok", json_pack("{s:i}", "sessions", (int)r->open));
	reconnect_all(h);
	hub_pause(h)->recovery = r;
	journal_refresh(hub_journal(h)); /* may hear of the recorder: then r is gone already */
	recovery_check(h);
}

void hub_recover(struct hub *h, struct recorder_client *rc, hub_recovered *done, void *arg)
{
	struct recovery *r = calloc(1, sizeof(*r));
	json_t *q = json_pack("{s:s}", "op", "recover");
	struct err e = {0};
	int res = ERR_NOMEM;

	hub_keep_recorder(h, rc);
	if (!r || !q)
		goto fail;
	r->hub = h;
	r->done = done;
	r->arg = arg;
	res = recorder_client_ask(rc, q, recover_on_answer, r);
	json_decref(q);
	if (!res)
		return;
	q = NULL;
fail:
	json_decref(q);
	free(r);
	err_set(&e, res, "the recorder could not be asked: %s", err_name(res));
	done(arg, res, &e);
}

static void recover_on_known(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			     bool end)
{
	(void)arg, (void)json, (void)p, (void)n, (void)end;
	if (rc && rc != ERR_CANCELLED)
		log_warn(NULL, "the recorder did not hear that this is the hub: %s", e ? e->message : err_name(rc));
}

/* The first question says who asks: a recorder that came again has not heard `recover`. */
void hub_set_recorder(struct hub *h, struct recorder_client *rc)
{
	json_t *q = rc ? json_pack("{s:s}", "op", "hub") : NULL;

	hub_keep_recorder(h, rc);
	if (q && recorder_client_ask(rc, q, recover_on_known, NULL))
		log_warn(NULL, "the recorder could not be told that this is the hub");
	json_decref(q);
}
