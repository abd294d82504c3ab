#define LOG_SUBSYS "audit"
#include "muxd/hub/record/audit.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/record/repeats.h"
#include "muxd/hub/record/repeats_file.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <unistd.h>

/* Counts of what repeats, of each kind. */
struct audit_repeats {
	struct hub *hub;
	struct repeats *of[REPEATS_KINDS];
	int fd; /* repeats_file.h; -1: none */
};

void audit_set_lease(json_t *o, const struct work_ids *i)
{
	static const struct work_ids none;
	const struct work_ids *it = i ? i : &none;
	const char *const ids[][2] = {{"lease_id", it->lease}, {"run_id", it->run}, {"client_request_id", it->request}};

	for (size_t k = 0; k < sizeof(ids) / sizeof(ids[0]); k++)
		if (*ids[k][1])
			json_object_set_new(o, ids[k][0], json_string(ids[k][1]));
}

/* By the session that it tells of, else by the sandbox, while that is leased. */
static void set_lease_of(struct hub *h, json_t *record)
{
	const char *agent = json_string_value(json_object_get(record, "agent")),
		   *text = json_string_value(json_object_get(json_object_get(record, "detail"), "session"));
	const struct work_ids *i = agent ? work_ids_of(hub_work(h), agent) : NULL;
	const struct session *s = NULL;
	struct id id;

	if (text && id_parse(text, &id) == 0)
		s = hub_session_find(h, &id);
	if (s)
		i = s->launch.work;
	if (i)
		audit_set_lease(record, i);
}

int audit_journal(struct hub *h, json_t *record)
{
	if (!json_object_get(record, "lease_id"))
		set_lease_of(h, record);
	return journal_json(hub_journal(h), RING_AUDIT, NULL, record);
}

/* {rule, version, also?: [rule]}: the verdict that let the call through, and those of its parts. */
static json_t *mark_json(const struct policy_mark *m)
{
	json_t *also = m->also[0][0] ? json_array() : NULL;

	for (size_t i = 0; also && i < POLICY_PARTS_MAX && m->also[i][0]; i++)
		json_array_append_new(also, json_string(m->also[i]));
	return json_pack("{s:s,s:s,s:o*}", "rule", m->rule, "version", m->version, "also", also);
}

static void set_request(json_t *o, const struct request *rq)
{
	char text[ID_STR_LEN];

	json_object_set_new(o, "door", json_string(rq->door));
	json_object_set_new(o, "peer", json_string(rq->peer));
	if (rq->endpoint[0])
		json_object_set_new(o, "endpoint", json_string(rq->endpoint));
	id_format(&rq->id, text);
	json_object_set_new(o, "request_id", json_string(text));
	audit_set_lease(o, &rq->work);
	if (rq->policy.version[0])
		json_object_set_new(o, "policy", mark_json(&rq->policy));
	if (id_is_nil(&rq->grant.id))
		return;
	id_format(&rq->grant.id, text);
	json_object_set_new(o, "grant_id", json_string(text));
	json_object_set_new(o, "principal", json_string(rq->grant.principal));
	json_object_set_new(o, "principal_kind", json_string(grant_kind_name(rq->grant.kind)));
	json_object_set_new(o, "reason", json_string(rq->grant.reason));
}

json_t *audit_request_json(const struct request *rq)
{
	json_t *o = json_object();

	if (o)
		set_request(o, rq);
	return o;
}

/* All but what it is about. NULL: no memory. */
static json_t *event_json(struct hub *h, const char *event, const char *agent, const char *outcome, json_t *detail)
{
	json_t *o = json_object();

	if (!o)
		return NULL;
	json_object_set_new(o, "event", json_string(event));
	json_object_set_new(o, "wall_ns", json_integer((json_int_t)hub_now_wall(h)));
	json_object_set_new(o, "outcome", json_string(outcome));
	if (agent)
		json_object_set_new(o, "agent", json_string(agent));
	if (detail)
		json_object_set(o, "detail", detail);
	return o;
}

/* Both are stolen. */
static int event_write(struct hub *h, const char *event, json_t *o, json_t *detail)
{
	int rc = o ? audit_journal(h, o) : ERR_NOMEM;

	if (o && rc)
		log_error(NULL, "audit event %s not journaled: %s", event, err_name(rc));
	json_decref(detail);
	json_decref(o);
	return rc;
}

json_t *audit_event_json(struct hub *h, const char *event, const struct request *rq, const char *agent,
			 const char *outcome, json_t *detail)
{
	json_t *o = event_json(h, event, agent, outcome, detail);

	if (o && rq)
		set_request(o, rq);
	json_decref(detail);
	return o;
}

int audit_event(struct hub *h, const char *event, const struct request *rq, const char *agent, const char *outcome,
		json_t *detail)
{
	return event_write(h, event, audit_event_json(h, event, rq, agent, outcome, detail), NULL);
}

int audit_session_event(struct hub *h, const char *event, const char *session, const char *agent, const char *outcome,
			json_t *detail)
{
	json_t *o = event_json(h, event, agent, outcome, detail);

	if (o && session)
		json_object_set_new(o, "session", json_string(session));
	return event_write(h, event, o, detail);
}

int hub_audit(struct hub *h, const json_t *record)
{
	json_t *o = json_copy((json_t *)(uintptr_t)record);
	int rc = o ? audit_journal(h, o) : ERR_NOMEM;

	json_decref(o);
	return rc;
}

/* ---- what repeats */

static int write_counted(void *arg, const json_t *event)
{
	return hub_audit(((struct audit_repeats *)arg)->hub, event);
}

static void keep_counted(void *arg, enum repeats_of of, size_t slot, const char *text, size_t n)
{
	const struct audit_repeats *r = arg;

	if (r->fd >= 0 && repeats_file_put(r->fd, of * (size_t)REPEATS_SLOTS + slot, text, n))
		log_warn(NULL, "the count of what repeats could not be kept: a kill would lose it");
}

static void audit_repeats_recover(struct audit_repeats *r, const char *path)
{
	struct err why = {0};
	size_t found = 0;

	if (repeats_file_open(path, &r->fd, &why))
		log_warn(NULL, "counts of what repeats do not outlive this process: %s", why.message);
	for (enum repeats_of of = 0; of < REPEATS_KINDS; of++)
		found += repeats_file_recover(r->fd, of * (size_t)REPEATS_SLOTS, r->of[of]);
	if (found)
		log_info(NULL, "what was counted before: %zu events to be written", found);
}

int audit_repeats_create(struct hub *h, const char *path, struct audit_repeats **out, struct err *e)
{
	static const struct repeats_ops ops = {.write = write_counted, .keep = keep_counted};
	struct audit_repeats *r = calloc(1, sizeof(*r));
	bool made = r;

	if (r)
		*r = (struct audit_repeats){.hub = h, .fd = -1};
	for (enum repeats_of of = 0; made && of < REPEATS_KINDS; of++)
		made = repeats_create(of, &ops, r, &r->of[of]) == 0;
	if (!made) {
		audit_repeats_destroy(r);
		return err_set(e, ERR_NOMEM, "no memory");
	}
	if (path)
		audit_repeats_recover(r, path);
	*out = r;
	return 0;
}

void audit_failure(struct hub *h, const struct request *rq, const char *what, const struct err *e)
{
	const char *outcome = err_name(e ? e->code : ERR_UNAUTHENTICATED), *message = e ? e->message : "";
	struct repeat it = {.door = rq->door,
			    .what = what,
			    .outcome = outcome,
			    .endpoint = rq->endpoint,
			    .peer = rq->peer,
			    .message = message,
			    .who = &rq->grant,
			    .request = &rq->id};
	uint64_t boot = clock_boot_ns();
	int64_t wall = hub_now_wall(h);

	if (!repeats_note(hub_repeats(h)->of[REPEATS_LOGINS], &it, boot, wall))
		return;
	if (audit_event(h, "auth.fail", rq, NULL, outcome, json_pack("{s:s,s:s}", "what", what, "message", message)))
		/* Without room it is counted, and written later. */
		(void)repeats_note(hub_repeats(h)->of[REPEATS_LOGINS], &it, boot, wall);
}

static const char *detail_text(const json_t *detail, const char *key)
{
	const char *text = json_string_value(json_object_get(detail, key));

	return text ? text : "";
}

/* A verdict on a valid grant. */
static void audit_counted(struct hub *h, enum repeats_of kind, const char *event, const struct request *rq,
			  const char *agent, const char *outcome, json_t *detail)
{
	struct repeat it = {.door = rq->door ? rq->door : "",
			    .what = detail_text(detail, "what"),
			    .outcome = outcome,
			    .endpoint = rq->endpoint,
			    .peer = rq->peer,
			    .message = detail_text(detail, "message"),
			    .agent = agent,
			    .who = &rq->grant,
			    .request = &rq->id};
	uint64_t boot = clock_boot_ns();
	int64_t wall = hub_now_wall(h);
	struct repeats *of = hub_repeats(h)->of[kind];

	if (kind != REPEATS_VERDICTS) {
		it.operation = detail_text(detail, "operation");
		it.rule = rq->policy.version[0] ? rq->policy.rule : detail_text(detail, "rule");
		it.version = rq->policy.version[0] ? rq->policy.version : detail_text(detail, "version");
	}
	if (id_is_nil(&rq->grant.id) || repeats_note(of, &it, boot, wall)) {
		if (audit_event(h, event, rq, agent, outcome, json_incref(detail)) && !id_is_nil(&rq->grant.id))
			(void)repeats_note(of, &it, boot, wall); /* counted, and written later */
	}
	json_decref(detail);
}

void audit_verdict(struct hub *h, const struct request *rq, const char *agent, const char *outcome, json_t *detail)
{
	audit_counted(h, REPEATS_VERDICTS, "verdict", rq, agent, outcome, detail);
}

void audit_denial(struct hub *h, const struct request *rq, const char *agent, json_t *detail)
{
	audit_counted(h, REPEATS_DENIALS, "policy.deny", rq, agent, err_name(ERR_POLICY_DENIED), detail);
}

void audit_allowance(struct hub *h, const struct request *rq, const char *agent, json_t *detail)
{
	audit_counted(h, REPEATS_ALLOWANCES, "policy.allow", rq, agent, "ok", detail);
}

void audit_repeats_tick(struct hub *h, bool all)
{
	for (enum repeats_of of = 0; of < REPEATS_KINDS; of++)
		repeats_tick(hub_repeats(h)->of[of], clock_boot_ns(), hub_now_wall(h), all);
}

void audit_repeats_destroy(struct audit_repeats *r)
{
	if (!r)
		return;
	for (enum repeats_of of = 0; of < REPEATS_KINDS; of++)
		repeats_destroy(r->of[of]);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}
