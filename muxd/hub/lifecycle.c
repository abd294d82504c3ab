/* The hub as lifecycle sees it: who works in a sandbox, their screens, its link, the audit log. */
#define LOG_SUBSYS "lifecycle"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life.h"
#include "muxd/hub/agent/quiesce.h"
#include "muxd/hub/agent/service_wait.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/filespace/filespace.h"
#include "muxd/hub/inside/inside.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/parts.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/services/services.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"
#include "recorder/serve/client.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is activity, and what holds (requirement A3) */

/*
 * A round, a transfer and a command over SSH hold the timer while they run: each is a call that somebody waits for. Who
 * watches files waits for others, and holds nothing; nor does the interpreter of a context, which its executions hold,
 * nor an MCP server or a service, which requests to it hold.
 * A terminal does not either, however busy what runs in it; who is
 * at it is known by what is typed.
 */
static bool holds(const struct session *s)
{
	return s->state != SESSION_ENDED && s->kind != SESSION_TERMINAL &&
	       !(s->launch.transfer && s->launch.transfer->row->lasts) &&
	       s->launch.context.role != CONTEXT_INTERPRETER && !launch_is_inside(&s->launch);
}

static void activity(void *ctx, const char *name, struct life_activity *out)
{
	struct agent *a = agent_find(ctx, name);
	const struct session *s;
	const struct attachment *t;

	memset(out, 0, sizeof(*out));
	if (!a)
		return;
	out->last_boot_ns = a->last_activity_boot_ns;
	out->exit_boot_ns = a->last_exit_boot_ns;
	out->holding = insides_flight(ctx, name) + service_waiting(ctx, name);
	for (s = a->channels; s; s = s->hh_channel.next) {
		out->holding += holds(s);
		if (s->kind == SESSION_TERMINAL && s->state != SESSION_ENDED)
			TAILQ_FOREACH(t, &s->attachments, of_session)
		out->attached += !t->over;
	}
}

static void warn(void *ctx, const char *name, const char *text)
{
	struct agent *a = agent_find(ctx, name);
	struct session *s;
	struct attachment *t;

	for (s = a ? a->channels : NULL; s; s = s->hh_channel.next)
		TAILQ_FOREACH(t, &s->attachments, of_session)
	attachment_notice(t, text, false);
	hub_flush(ctx);
}

/* ---- programs that run for as long as it is awake end in order */

static void settle(void *ctx, const char *name, life_host_done *done, void *arg)
{
	services_settle(ctx, name, done, arg);
}

/* ---- its files go to the owner's store */

struct pushing {
	struct hub *hub;
	char agent[AGENT_NAME_MAX + 1];
	life_host_done *done;
	void *arg;
};

static void lifecycle_on_pushed(void *arg, int rc, const struct err *e, const json_t *detail)
{
	struct pushing p = *(struct pushing *)arg;
	struct err why = {0};

	(void)detail;
	free(arg);
	if (!rc)
		rc = filespace_unpulled(p.hub, p.agent, &why), e = &why;
	p.done(p.arg, rc, e);
}

static void push(void *ctx, const char *name, const char *cause, life_host_done *done, void *arg)
{
	struct pushing *p = malloc(sizeof(*p));
	struct err e = {0};

	if (!p) {
		done(arg, err_set(&e, ERR_NOMEM, "no memory for a push"), &e);
		return;
	}
	*p = (struct pushing){.hub = ctx, .done = done, .arg = arg};
	text_put(p->agent, sizeof(p->agent), name);
	filespace_want(ctx, name, FILESPACE_PUSH, json_pack("{s:s,s:s}", "kind", "stop", "cause", cause),
		       lifecycle_on_pushed, p);
}

/* ---- what programs wrote reaches the disk */

/* After a restart the link may be on its way yet, and what runs inside with it: it is waited for. */
static void quiesce(void *ctx, const char *name, uint64_t timeout_ns, uint64_t hold_ns, life_host_done *done, void *arg)
{
	struct hub *h = ctx;
	struct agent *a = hub_stopping(h) ? NULL : agent_get(h, name);
	struct err e = {0};

	if (!a || quiesce_begin(a, timeout_ns, hold_ns, done, arg)) {
		err_set(&e, ERR_UNSUPPORTED, "nothing in the sandbox of %s can be asked to sync now", name);
		done(arg, e.code, &e);
	} else if (a->state != AGENT_UP) {
		agent_reconnect(a);
	}
}

static bool frozen(void *ctx, const char *name)
{
	struct agent *a = agent_find(ctx, name);

	return a && quiesce_holds(a);
}

/* Without a link an earlier daemon may have left a channel that freezes: a link ends it. */
static void thaw(void *ctx, const char *name)
{
	struct hub *h = ctx;
	struct agent *a = hub_stopping(h) ? NULL : agent_get(h, name);

	if (a && !quiesce_end(a) && a->state == AGENT_COLD)
		agent_reconnect(a);
}

static void lifecycle_hold(void *ctx, const char *name, bool on)
{
	struct hub *h = ctx;
	struct agent *a = hub_stopping(h) ? NULL : agent_get(h, name);

	if (a)
		agent_stopping(a, on);
	hub_flush(h);
}

/* ---- the end */

static void leave(void *ctx, const char *name, const char *why, life_host_done *done, void *arg)
{
	struct hub *h = ctx;
	struct agent *a = agent_find(h, name);

	if (a) {
		agent_leave(a, EXIT_KILLED, why);
		agent_set_cold(a, why);
		agent_stopping(a, false);
		hub_flush(h);
	}
	done(arg, 0, NULL);
}

/* ---- who still names a snapshot that goes */

struct referring {
	struct hub *hub;
	life_host_done *done;
	void *arg;
	int n;
	struct err why;
};

static void lifecycle_on_refers(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
				bool end)
{
	struct referring *r = arg;
	json_int_t count = json_integer_value(json_object_get(json, "recordings"));
	const char *held = json_string_value(json_object_get(json, "held"));

	(void)p, (void)n;
	if (!rc && json_object_get(json, "recordings"))
		r->n = count < INT_MAX ? (int)count : INT_MAX;
	if (!rc && held)
		r->n = err_set(&r->why, ERR_BAD_STATE, "legal hold %.40s keeps it", held);
	(void)e;
	if (!rc && !end)
		return;
	r->done(r->arg, !rc ? r->n : hub_stopping(r->hub) ? ERR_CANCELLED : ERR_UNAVAILABLE, &r->why);
	free(r);
}

static void refers(void *ctx, const char *name, const struct id *snapshot, const struct id *previous,
		   life_host_done *done, void *arg)
{
	struct hub *h = ctx;
	struct referring *r = calloc(1, sizeof(*r));
	char id[ID_STR_LEN], before[ID_STR_LEN] = "";
	json_t *q;
	int rc = ERR_UNAVAILABLE;

	id_format(snapshot, id);
	if (!id_is_nil(previous))
		id_format(previous, before);
	q = json_pack("{s:s,s:s,s:s,s:s}", "op", "refers", "agent", name, "snapshot", id, "previous", before);
	if (r && q && hub_recorder(h)) {
		*r = (struct referring){.hub = h, .done = done, .arg = arg, .n = ERR_UNAVAILABLE};
		rc = recorder_client_ask(hub_recorder(h), q, lifecycle_on_refers, r);
	}
	json_decref(q);
	if (!rc)
		return;
	free(r);
	done(arg, rc, NULL);
}

/* ---- what the record's log says a snapshot was */

struct asking {
	life_logged_done *done;
	void *arg;
	char digest[65];
	bool known;
};

static void lifecycle_on_logged(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
				bool end)
{
	struct asking *a = arg;
	const char *digest = json_string_value(json_object_get(json, "digest"));

	(void)p, (void)n;
	if (!rc && digest) {
		text_put(a->digest, sizeof(a->digest), digest);
		a->known = true;
	}
	if (!rc && !end)
		return;
	a->done(a->arg, rc ? rc : a->known ? 0 : ERR_UNAVAILABLE, e, a->digest);
	free(a);
}

static void logged(void *ctx, const char *name, const struct id *snapshot, life_logged_done *done, void *arg)
{
	struct hub *h = ctx;
	struct asking *a = calloc(1, sizeof(*a));
	char id[ID_STR_LEN];
	json_t *q;
	int rc = ERR_UNAVAILABLE;

	id_format(snapshot, id);
	q = json_pack("{s:s,s:s,s:s}", "op", "snapshot", "agent", name, "snapshot", id);
	if (a && q && hub_recorder(h)) {
		*a = (struct asking){.done = done, .arg = arg};
		rc = recorder_client_ask(hub_recorder(h), q, lifecycle_on_logged, a);
	}
	json_decref(q);
	if (!rc)
		return;
	free(a);
	done(arg, rc, NULL, "");
}

static int lifecycle_audit(void *ctx, json_t *record)
{
	const char *event = json_string_value(json_object_get(record, "event"));
	const char *agent = json_string_value(json_object_get(record, "agent"));
	const char *outcome = json_string_value(json_object_get(record, "outcome"));
	json_t *detail = json_object_get(record, "detail");
	int rc = ERR_INVAL;

	if (event && agent && outcome)
		rc = audit_event(ctx, event, NULL, agent, outcome, detail ? json_incref(detail) : NULL);
	json_decref(record);
	return rc;
}

static uint64_t lifecycle_journal(void *ctx, uint64_t *out_durable)
{
	const struct hub *h = ctx;

	*out_durable = journal_durable(hub_journal(h));
	return journal_position(hub_journal(h));
}

void lifecycle_begin(struct hub *h)
{
	struct life_host host = {.ctx = h,
				 .activity = activity,
				 .warn = warn,
				 .settle = settle,
				 .push = push,
				 .quiesce = quiesce,
				 .frozen = frozen,
				 .thaw = thaw,
				 .hold = lifecycle_hold,
				 .refers = refers,
				 .logged = logged,
				 .leave = leave,
				 .audit = lifecycle_audit,
				 .removals_wait = hub_removals_wait,
				 .journal = lifecycle_journal};

	if (hub_life(h))
		life_set_host(hub_life(h), &host);
}
