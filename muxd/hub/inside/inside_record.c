#define LOG_SUBSYS "mcp"
#include "muxd/hub/inside/inside_record.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/record_rule.h"
#include "base/text.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/agent/filespace_due.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/inside/inside_state.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/record_share.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An end that waits for room in the journal, and what the audit log is to say of it. */
struct inside_due {
	STAILQ_ENTRY(inside_due) entry;
	struct id id;
	json_t *exit, *event; /* NULL: it is written, or there was no memory for it */
};

static void digest_text(const char *text, char out[65])
{
	uint8_t sum[32];

	out[0] = '\0';
	if (EVP_Digest(text, strlen(text), sum, NULL, EVP_sha256(), NULL) == 1)
		for (size_t i = 0; i < sizeof(sum); i++)
			snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

/* The server, the method and the tool, as OPEN and events have them. */
static json_t *facts_json(const struct inside_facts *f, const struct inside_record *r)
{
	char program[ID_STR_LEN] = "";

	if (f->program)
		id_format(f->program, program);
	return json_pack("{s:s,s:s,s:s*,s:s*,s:s,s:I}", "server", f->server, "method", f->method, "tool", f->tool,
			 "program", *program ? program : NULL, "params_sha256", r->params_sha256, "params_bytes",
			 (json_int_t)strlen(f->params));
}

static json_t *inside_open_json(struct hub *h, const struct inside_facts *f, const struct inside_record *r)
{
	const struct grant *g = &f->rq->grant;
	const struct id none = {0};
	struct record_rule record;
	char grant_id[ID_STR_LEN], sandbox_id[ID_STR_LEN];
	json_t *argv = json_pack("[s,s]", f->server, f->method), *o;

	id_format(&g->id, grant_id);
	/* Of an agent that is not up it is that of a sandbox that was. */
	id_format(f->agent->state == AGENT_UP ? &f->agent->info.sandbox_id : &none, sandbox_id);
	if (argv && f->tool)
		json_array_append_new(argv, json_string(f->tool));
	o = json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:s,s:s,s:s,s:s*,s:s*,s:s*,s:b,s:o,s:o,s:I,s:s}", "v", 1,
		      "kind", session_kind_name(SESSION_MCP), "agent", f->agent->name, "sandbox_id", sandbox_id,
		      "principal", g->principal, "principal_kind", grant_kind_name(g->kind), "grant_id", grant_id,
		      "grant_expires_ns", (json_int_t)g->expires_ns, "reason", g->reason, "task", f->task, "door",
		      f->rq->door, "peer", f->rq->peer[0] ? f->rq->peer : NULL, "exec_id", f->exec_id, "digest",
		      f->digest, "pty", 0, "argv", argv, "mcp", facts_json(f, r), "wall_ns",
		      (json_int_t)hub_now_wall(h), "boot_id", clock_boot_id());
	if (o && g->task[0])
		json_object_set_new(o, "grant_task", json_true());
	if (o && f->exec_id && agent_life(h, f->agent->name) > 0)
		json_object_set_new(o, "agent_since_ns", json_integer(agent_life(h, f->agent->name)));
	if (o)
		audit_set_lease(o, &f->rq->work);
	broker_policy_record(h, f->rq, f->agent->name, f->task, SESSION_MCP, &record);
	if (o && record.given)
		json_object_set_new(o, "record", record_rule_json(&record));
	return o;
}

/* A body that the journal has no room for is left out: its digest and its length are there. */
static void put_body(struct hub *h, struct inside_record *r, int stream, const char *text, uint64_t *out_n)
{
	struct journal_data d = {.session = r->id, .stream = stream};
	size_t n = text_cut(text, strlen(text), INSIDE_BODY_MAX);

	if (n && journal_data(hub_journal(h), &d, &r->share, text, n) == 0)
		*out_n = n;
}

/* As a profile's limit reads it. */
static void count_request(struct hub *h, const char *task, uint64_t now)
{
	struct share *s = share_get(hub_shares(h), CONF_SHARE_TASK, task);

	if (s)
		share_minute_add(&s->requests, 1, now);
}

int inside_record_begin(struct hub *h, const struct inside_facts *f, struct inside_record *out, struct err *e)
{
	const struct grant *g = &f->rq->grant;
	json_t *o, *d;
	int rc = record_share_ask_work(h, f->agent->name, g, e);

	if (rc)
		return rc;
	if (!journal_takes_end(hub_journal(h))) /* OPEN and event: what runs stands in both */
		return err_set(e, ERR_RECORD_UNAVAILABLE, "the request cannot be journaled: the record has no room");
	rc = id_new(&out->id);
	out->begun_ns = clock_boot_ns();
	digest_text(f->params, out->params_sha256);
	o = rc ? NULL : inside_open_json(h, f, out);
	rc = o ? journal_json(hub_journal(h), RING_OPEN, &out->id, o) : ERR_NOMEM;
	json_decref(o);
	if (rc)
		return err_set(e, rc == ERR_AGAIN ? ERR_RECORD_UNAVAILABLE : rc, "the request cannot be journaled: %s",
			       err_name(rc));
	id_format(&out->id, out->text);
	hub_counters(h)->sessions_opened[SESSION_MCP]++;
	count_request(h, f->task, out->begun_ns);
	put_body(h, out, STREAM_INPUT, f->params, &out->in);
	record_share_add_work(h, f->agent->name, g, RECORD_SHARE_COST + out->in);
	d = facts_json(f, out);
	if (d) {
		json_object_set_new(d, "session", json_string(out->text));
		json_object_set_new(d, "task", json_string(f->task));
		if (f->exec_id)
			json_object_set_new(d, "exec_id", json_string(f->exec_id));
	}
	(void)audit_event(h, "mcp.request", f->rq, f->agent->name, "allowed", d);
	return 0;
}

static enum exit_cause cause_of(const struct inside_end *end)
{
	if (!end->rc)
		return EXIT_EXITED;
	return end->rc == ERR_TIMEOUT     ? EXIT_TIMEOUT
	       : end->rc == ERR_CANCELLED ? EXIT_KILLED
	       : end->rc == ERR_LINK_LOST ? EXIT_LOST
					  : EXIT_UNKNOWN;
}

static const char *outcome_of(const struct inside_end *end)
{
	return end->rc ? err_name(end->rc) : end->is_error ? "error" : "ok";
}

static json_t *inside_exit_json(const struct inside_facts *f, const struct inside_record *r,
				const struct inside_end *end, uint64_t duration_ns)
{
	char sum[65] = "", program[ID_STR_LEN] = "", sandbox[ID_STR_LEN] = "";
	bool sent = f->sandbox && f->program;

	if (sent) {
		id_format(f->program, program);
		id_format(f->sandbox, sandbox);
	}

	if (end->answer)
		digest_text(end->answer, sum);
	return json_pack("{s:s,s:i,s:i,s:s,s:[I,I,I],s:I,s:b,s:{s:s,s:I,s:s*,s:s*,s:s*,s:s*}}", "cause",
			 exit_cause_name(cause_of(end)), "code", end->rc ? -1 : end->is_error, "signal", 0, "message",
			 end->rc && end->message ? end->message : "", "totals", (json_int_t)r->in, (json_int_t)r->out,
			 (json_int_t)0, "duration_ns", (json_int_t)duration_ns, "reported", !end->rc, "mcp", "outcome",
			 outcome_of(end), "answer_bytes", (json_int_t)(end->answer ? strlen(end->answer) : 0),
			 "answer_sha256", *sum ? sum : NULL, "program", sent ? program : NULL, "sandbox_id",
			 sent ? sandbox : NULL, "sent_sha256", sent ? f->sent_digest : NULL);
}

static void due_free(struct inside_due *d)
{
	json_decref(d->exit);
	json_decref(d->event);
	free(d);
}

/* False: there is no room for it. */
static bool due_write(struct hub *h, struct inside_due *d)
{
	int rc, told = 0;

	if (d->exit && !journal_takes_end(hub_journal(h)))
		return false;
	journal_hold(hub_journal(h)); /* a kill between the two would leave an end that the audit log never told */
	rc = d->exit ? journal_json(hub_journal(h), RING_EXIT, &d->id, d->exit) : 0;
	if (rc != ERR_AGAIN && d->event)
		told = audit_journal(h, d->event);
	if (rc == ERR_AGAIN || told == ERR_AGAIN) {
		journal_let(hub_journal(h), false);
		return false;
	}
	journal_let(hub_journal(h), true);
	if (rc)
		log_error(NULL, "the end of an MCP request is not journaled: %s", err_name(rc));
	if (told)
		log_error(NULL, "the end of an MCP request is not in the audit log: %s", err_name(told));
	return true;
}

/* Both stolen. Without memory for it the next start of the daemon ends the round. */
static void put_end(struct hub *h, const struct id *id, json_t *exit, json_t *event)
{
	struct inside_due *d = malloc(sizeof(*d));

	if (!d) {
		log_error(NULL, "the end of an MCP request is not journaled: no memory");
		json_decref(exit);
		json_decref(event);
		return;
	}
	*d = (struct inside_due){.id = *id, .exit = exit, .event = event};
	STAILQ_INSERT_TAIL(&hub_insides(h)->due, d, entry); /* behind those that wait */
	inside_record_tick(h);
	if (!STAILQ_EMPTY(&hub_insides(h)->due))
		hub_stir(h);
}

void inside_record_end(struct hub *h, const struct inside_facts *f, struct inside_record *r,
		       const struct inside_end *end)
{
	uint64_t duration = clock_boot_ns() - r->begun_ns;
	json_t *d;

	if (!r->text[0])
		return;
	metric_times_add(&hub_insides(h)->times, duration);
	if (end->answer)
		put_body(h, r, STREAM_OUTPUT, end->answer, &r->out);
	/* The streams of its server, which stands apart, have both bodies again, and whole. */
	record_share_add_work(h, f->agent->name, &f->rq->grant,
			      r->out + (f->sandbox ? strlen(f->params) : 0) +
				  (f->sandbox && end->answer ? strlen(end->answer) : 0));
	d = facts_json(f, r);
	if (d) {
		json_object_set_new(d, "session", json_string(r->text));
		json_object_set_new(d, "task", json_string(f->task));
		json_object_set_new(d, "duration_ms", json_integer((json_int_t)(duration / NS_PER_MS)));
		json_object_set_new(d, "answer_bytes",
				    json_integer((json_int_t)(end->answer ? strlen(end->answer) : 0)));
		if (end->rc && end->message)
			json_object_set_new(d, "message", json_string(end->message));
	}
	put_end(h, &r->id, inside_exit_json(f, r, end, duration),
		audit_event_json(h, "mcp.answer", f->rq, f->agent->name, outcome_of(end), d));
	if (f->program) /* a server inside had it */
		filespace_caused(agent_find(h, f->agent->name), "mcp", r->text, f->rq->grant.principal, f->task);
	r->text[0] = '\0';
}

/* Digest, length and beginning of what was said, under members that begin so. */
static void put_words(json_t *o, const char *what, const char *text)
{
	char sum[65], name[32];

	if (!text)
		return;
	digest_text(text, sum);
	text_format(name, sizeof(name), "%s_sha256", what);
	json_object_set_new(o, name, json_string(sum));
	text_format(name, sizeof(name), "%s_bytes", what);
	json_object_set_new(o, name, json_integer((json_int_t)strlen(text)));
	json_object_set_new(o, what, json_stringn(text, text_cut(text, strlen(text), INSIDE_WORDS_MAX)));
}

void inside_record_question(struct hub *h, const struct request *rq, const char *agent, const char *server,
			    const struct inside_record *r, const struct inside_told *t)
{
	json_t *o = json_pack("{s:s,s:s,s:s,s:s*,s:s*}", "event", "mcp_question", "kind", t->kind, "outcome",
			      t->outcome, "key", t->key, "message", t->message);

	if (o && t->number)
		json_object_set_new(o, "question", json_integer((json_int_t)t->number));
	if (o) {
		put_words(o, "params", t->params);
		put_words(o, "answer", t->answer);
		if (journal_json(hub_journal(h), RING_EVENT, &r->id, o))
			log_warn(NULL, "a question of an MCP server is not in its round: the ring is full");
		else
			record_share_add_work(h, agent, &rq->grant, json_dumpb(o, NULL, 0, JSON_COMPACT));
	}
	json_decref(o);
	(void)audit_event(h, "mcp.ask", rq, agent, t->outcome,
			  json_pack("{s:s,s:s,s:s,s:s*,s:s*}", "server", server, "kind", t->kind, "session", r->text,
				    "key", t->key, "message", t->message));
}

void inside_record_tick(struct hub *h)
{
	struct inside_due *due;

	while ((due = STAILQ_FIRST(&hub_insides(h)->due)) && due_write(h, due)) {
		STAILQ_REMOVE_HEAD(&hub_insides(h)->due, entry);
		due_free(due);
	}
}

void inside_record_close(struct hub *h)
{
	struct inside_due *due;

	inside_record_tick(h);
	while ((due = STAILQ_FIRST(&hub_insides(h)->due))) {
		STAILQ_REMOVE_HEAD(&hub_insides(h)->due, entry);
		due_free(due);
	}
}
