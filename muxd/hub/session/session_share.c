#include "muxd/hub/session/session_share.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/err_json.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/record/record_share.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"
#include "policy/grant_narrow.h"
#include "policy/verdict.h"
#include "recorder/format/trunc.h"

#include <string.h>

#define BESIDE_BURST (32 * 1024 * 1024) /* bytes */

/* ---- what a session is */

static void uses_of(enum session_kind kind, const struct launch *l, bool out[CONF_SHARES])
{
	bool interprets = l->context.role == CONTEXT_INTERPRETER;

	out[CONF_SHARE_ROUNDS] = kind == SESSION_ROUND && !interprets;
	out[CONF_SHARE_CONTEXTS] = kind == SESSION_ROUND && interprets;
	out[CONF_SHARE_SESSIONS] = kind == SESSION_TERMINAL || kind == SESSION_EXEC || kind == SESSION_PORT ||
				   (kind == SESSION_ROUND && l->pty);
}

static bool stands_apart(const struct grant *g, const struct launch *l)
{
	return share_stands_apart(g) || launch_is_inside(l);
}

static unsigned own_in_sandbox(const struct agent *a, const struct grant *g)
{
	const struct session *s;
	unsigned n = 0;

	for (s = a->channels; s; s = s->hh_channel.next)
		n += s->state != SESSION_ENDED && !s->share_aside && grant_same_root(s->grant->principal, g->principal);
	return n;
}

static int session_share_question(const struct agent *a, const struct grant *g, enum session_kind kind,
				  const struct launch *l, bool elsewhere, struct err *e)
{
	struct hub *h = a->hub;
	char root[GRANT_NAME_MAX + 1];

	grant_root(g->principal, root);
	struct share_load load = {.staff = share_is_staff(g),
				  .apart = stands_apart(g, l),
				  .agent = a->name,
				  .principal = root,
				  .of = {share_find(hub_shares(h), CONF_SHARE_PRINCIPAL, root),
					 share_find(hub_shares(h), CONF_SHARE_TASK, l->task),
					 elsewhere ? NULL : share_find(hub_shares(h), CONF_SHARE_AGENT, a->name)}};

	for (int k = 0; k < SESSION_KINDS; k++)
		load.all += (unsigned)hub_counters(h)->sessions_live[k];
	if (load.staff && !elsewhere)
		load.mine_here = own_in_sandbox(a, g);
	uses_of(kind, l, load.uses);
	return share_ask(hub_conf(h), &load, e);
}

int session_share_ask(const struct agent *a, const struct grant *g, enum session_kind kind, const struct launch *l,
		      struct err *e)
{
	const struct hub *h = a->hub;
	int rc = session_share_question(a, g, kind, l, false, e);

	return rc || stands_apart(g, l) ? rc : record_share_ask_work(h, a->name, g, e);
}

int session_share_ask_elsewhere(const struct agent *a, const struct grant *g, enum session_kind kind,
				const struct launch *l, struct err *e)
{
	return session_share_question(a, g, kind, l, true, e);
}

void session_share_count(const struct hub *h, struct policy_question *q)
{
	const struct share *s = share_find(hub_shares(h), CONF_SHARE_TASK, q->task);

	if (!s)
		return;
	q->rounds = s->live[CONF_SHARE_ROUNDS];
	q->sessions = s->live[CONF_SHARE_SESSIONS];
	q->contexts = s->live[CONF_SHARE_CONTEXTS];
	q->requests = (unsigned)share_minute_sum(&s->requests, clock_boot_ns());
}

/* ---- its beginning and its end */

/* The most that the record keeps of one of its streams. */
static uint64_t record_most(const struct session *s)
{
	const struct conf *c = hub_conf(s->hub);
	struct trunc_rule r;

	trunc_rule_choose(c->rules, c->nrules, grant_kind_name(s->grant->kind), session_kind_name(s->kind),
			  s->launch.pty, s->launch.record, &r);
	if (r.kind == RULE_METADATA)
		return 0;
	return r.kind == RULE_FULL || r.burst ? UINT64_MAX : r.head + r.tail;
}

static void count(struct session *s, int by)
{
	bool uses[CONF_SHARES];

	uses_of(s->kind, &s->launch, uses);
	for (int of = 0; of < CONF_SHARE_OFS; of++) {
		struct share *x = s->shares[of];

		if (!x)
			continue;
		x->sessions += (unsigned)by;
		for (int i = 0; i < CONF_SHARES; i++) {
			x->live[i] += uses[i] ? (unsigned)by : 0;
			x->counted[i] += uses[i] && !s->share_apart ? (unsigned)by : 0;
		}
	}
}

void session_share_take(struct session *s)
{
	struct shares *x = hub_shares(s->hub);
	char root[GRANT_NAME_MAX + 1];

	if (s->shared)
		return;
	grant_root(s->grant->principal, root);
	s->shared = true;
	s->share_apart = stands_apart(s->grant, &s->launch);
	s->record_most = record_most(s);
	s->shares[CONF_SHARE_PRINCIPAL] = share_get(x, CONF_SHARE_PRINCIPAL, root);
	s->shares[CONF_SHARE_TASK] = share_get(x, CONF_SHARE_TASK, s->launch.task);
	s->shares[CONF_SHARE_AGENT] = share_get(x, CONF_SHARE_AGENT, s->agent->name);
	if (!s->share_apart && s->shares[CONF_SHARE_AGENT])
		s->share_also = &s->shares[CONF_SHARE_AGENT]->ring;
	count(s, 1);
	if (s->state == SESSION_OPENING) /* one that is found after a restart was recorded before */
		record_share_add(s, RECORD_SHARE_COST);
	if (!s->share_apart && s->shares[CONF_SHARE_AGENT])
		share_runs(x, s->shares[CONF_SHARE_AGENT], clock_boot_ns());
}

void session_share_give(struct session *s)
{
	if (!s->shared)
		return;
	s->shared = false;
	s->share_also = NULL;
	count(s, -1);
	for (int of = 0; of < CONF_SHARE_OFS; of++)
		s->shares[of] = NULL;
}

void session_share_set_aside(struct session *s, bool aside)
{
	int by = aside ? -1 : 1;

	if (!s->shared || s->share_aside == aside)
		return;
	s->share_aside = aside;
	hub_counters(s->hub)->sessions_live[s->kind] += (unsigned)by;
	count(s, by);
}

/* ---- what holds it */

static bool is_held_beside(const struct session *s, uint64_t now)
{
	bool program = s->kind == SESSION_TERMINAL || s->kind == SESSION_EXEC || s->kind == SESSION_ROUND;

	return program && now < hub_shares(s->hub)->beside_until_ns;
}

static uint64_t beside_rate(const struct session *s)
{
	const struct conf *c = hub_conf(s->hub);

	return c->share_beside_rate * conf_weight(c->share_weights, s->agent->name) / CONF_WEIGHT;
}

static uint64_t burst_of(uint64_t rate)
{
	return rate > SESSION_WINDOW ? rate : SESSION_WINDOW;
}

static bool rates_let(const struct session *s, enum share_way way, uint64_t now)
{
	const struct conf *c = hub_conf(s->hub);
	const uint64_t *rates = way == SHARE_IN ? c->share_input_rate : c->share_output_rate;

	for (int of = 0; of < CONF_SHARE_OFS; of++)
		if (s->shares[of] && !share_rate_may(&s->shares[of]->rate[way], rates[of], burst_of(rates[of]), now))
			return false;
	return true;
}

/*
 * A session that is ended, or whose timeout is over, gives its sandbox a few seconds to send what is left and how it
 * ended: held back, both would be lost. What comes is bounded by what the sandbox holds of it and by rounds.kill_grace.
 */
static bool is_ended(const struct session *s, uint64_t now)
{
	return s->state == SESSION_ENDING || (s->launch.timeout_ns && now - s->opened_boot_ns >= s->launch.timeout_ns);
}

bool session_share_lets_out(struct session *s)
{
	struct share *a = s->shares[CONF_SHARE_AGENT];
	uint64_t now = clock_boot_ns();

	if (s->share_apart || !a || is_ended(s, now))
		return true;
	if (s->record_held || !rates_let(s, SHARE_OUT, now))
		return false;
	return !is_held_beside(s, now) || share_rate_may(&a->beside, beside_rate(s), BESIDE_BURST, now);
}

bool session_share_lets_in(struct session *s)
{
	return s->share_apart || !s->shared || s->launch.pty ||
	       (!s->record_held && rates_let(s, SHARE_IN, clock_boot_ns()));
}

void session_share_opened(struct session *s, uint64_t n)
{
	if (s->share_apart)
		return;
	for (int of = 0; of < CONF_SHARE_OFS; of++)
		if (s->shares[of])
			share_rate_promise(&s->shares[of]->rate[SHARE_OUT], n);
	if (s->shares[CONF_SHARE_AGENT])
		share_rate_promise(&s->shares[CONF_SHARE_AGENT]->beside, n);
}

static uint64_t kept_of(const struct session *s, uint64_t end)
{
	return end < s->record_most ? end : s->record_most;
}

void session_share_moved(struct session *s, int stream, uint64_t end, size_t n)
{
	enum share_way way = stream == STREAM_INPUT ? SHARE_IN : SHARE_OUT;

	for (int of = 0; of < CONF_SHARE_OFS; of++)
		if (s->shares[of])
			share_rate_took(&s->shares[of]->rate[way], n);
	if (way == SHARE_OUT && s->shares[CONF_SHARE_AGENT])
		share_rate_took(&s->shares[CONF_SHARE_AGENT]->beside, n);
	record_share_add(s, kept_of(s, end) - kept_of(s, end - n));
}

/* ---- told */

json_t *session_share_json(const struct session *s)
{
	struct err e = {0};

	return s->record_held && s->shared &&
		       record_share_lets(s->hub, s->shares[CONF_SHARE_AGENT], clock_boot_ns(), &e)
		   ? err_share_json(&e.share)
		   : NULL;
}

static void session_share_hold(struct session *s, const struct err *e)
{
	struct attachment *a;
	char text[256];

	if (s->record_held)
		text_format(text, sizeof(text),
			    "held: its agent's share of the record is used up (%s); nothing is lost, it goes on when "
			    "there is room",
			    e->share.limit);
	else if (is_ended(s, clock_boot_ns()))
		text_put(text, sizeof(text), "the session is ended: what is left of its output comes");
	else
		text_put(text, sizeof(text), "its agent's share of the record has room again: the session goes on");
	session_event(s, s->record_held ? "held" : "held_over", s->record_held ? err_share_json(&e->share) : NULL);
	TAILQ_FOREACH(a, &s->attachments, of_session)
	attachment_notice(a, text, !s->record_held);
}

void session_share_tick(struct session *s, uint64_t now)
{
	struct err e = {0};
	bool held;

	if (s->share_apart || !s->shared)
		return;
	held =
	    s->record_most && !is_ended(s, now) && record_share_lets(s->hub, s->shares[CONF_SHARE_AGENT], now, &e) != 0;
	if (held == s->record_held)
		return;
	s->record_held = held;
	session_share_hold(s, &e);
}
