/*
 * The link into an agent's sandbox: asked for, made, lost and asked for again; what comes over it goes to the sessions,
 * and who waits for the sandbox hears how it went.
 */
#define LOG_SUBSYS "agent"
#include "muxd/hub/link/agent_link.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life.h"
#include "control/work/work.h"
#include "muxd/hub/agent/quiesce.h"
#include "muxd/hub/agent/survey.h"
#include "muxd/hub/agent/workspace_ask.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/link/clear.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_input.h"
#include "muxd/hub/session/session_output.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_MAX_MS 5000
#define UNABLE_NS    (20 * NS_PER_SEC) /* without a link, though it was given streams: so long, */
#define UNABLE_TRIES 2                 /* and so many of them */
#define ADRIFT_NS    (20 * NS_PER_SEC)

static void answer_waiters(struct agent *a, int rc, const struct err *e)
{
	struct agent_waiter *w;

	while ((w = STAILQ_FIRST(&a->waiters))) {
		STAILQ_REMOVE_HEAD(&a->waiters, entry);
		w->fn(w->arg, rc, e);
		free(w);
	}
}

static void end_sessions(struct agent *a, enum exit_cause cause, const char *why)
{
	struct session *s, *next;

	HASH_ITER(hh_channel, a->channels, s, next)
	if (s->state != SESSION_ENDED)
		session_finish(s, cause, -1, 0, why);
}

/* ---- everything inside ends (clear.c); because: why its muxlet is not who ends it, NULL: it is */

static void agent_link_on_outside_ended(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct agent *a = clear_ended(arg);

	if (!a)
		return;
	if (!rc && a->state != AGENT_WAKING) {
		agent_leave(a, EXIT_KILLED, clear_why(a));
		agent_set_cold(a, clear_why(a));
	}
	clear_answer(a, rc, e);
	hub_flush(a->hub);
}

static int without_muxlet(const struct agent *a, struct err *e)
{
	return agent_plain(a, "not all programs can be ended at once in",
			   "end its sessions (muxctl session terminate) or the sandbox (muxctl sandbox terminate)", e);
}

static void end_from_outside(struct agent *a, const char *because)
{
	struct sandbox_provider *p = hub_provider(a->hub);
	struct err e = {0};

	if (!because)
		return;
	if (a->info.backend == SANDBOX_PLAIN) {
		clear_answer(a, without_muxlet(a, &e), &e);
		return;
	}
	if (!agent_may_end(a)) {
		err_set(&e, ERR_TIMEOUT,
			"the muxlet of %s %s: muxctl sandbox terminate ends the sandbox itself, muxctl sandbox show "
			"says what "
			"would be lost",
			a->name, because);
		clear_answer(a, e.code, &e);
		return;
	}
	log_warn(&(struct log_ids){.agent = a->name}, "its muxlet %s: the sandbox is ended from outside", because);
	sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_DESTROY, .agent = a->name, .reason = clear_why(a)},
		    agent_link_on_outside_ended, clear_outside(a));
}

void agent_clear(struct agent *a, const char *why, uint64_t timeout_ns, clear_done *done, void *arg)
{
	bool waits = a->state != AGENT_UP && !a->clearing;
	struct err e = {0};

	if (a->state == AGENT_UP && a->info.backend == SANDBOX_PLAIN) { /* ahead of any session's end */
		done(arg, without_muxlet(a, &e), &e, 0);
		return;
	}
	end_from_outside(a, clear_begin(a, why, timeout_ns, done, arg));
	if (waits && a->clearing)
		agent_reconnect(a);
}

/* ---- the link's callbacks */

static const struct link_channel_info *find_info(const struct link_channel_info *list, size_t n, uint32_t channel)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].channel == channel)
			return &list[i];
	return NULL;
}

/* Programs may begin. */
static void agent_open(struct agent *a)
{
	a->pulling = false;
	survey_link_up(a); /* ahead of the first program, which does not wait for it */
	if (hub_agents(a->hub)->watch)
		hub_agents(a->hub)->watch->up(a);
	if (!a->stopping)
		answer_waiters(a, 0, NULL);
}

static void link_is_up(struct agent *a)
{
	end_from_outside(a, clear_link_up(a));
	quiesce_link_up(a);
	if (hub_agents(a->hub)->ahead && !a->stopping) {
		a->pulling = true; /* from here on: it may be over before it has said that it goes ahead */
		if (hub_agents(a->hub)->ahead->up(a))
			return;
	}
	agent_open(a);
}

void agent_ahead_over(struct agent *a, int rc, const struct err *e)
{
	if (!a->pulling || a->state != AGENT_UP)
		return;
	if (!rc)
		agent_open(a);
	else
		answer_waiters(a, rc, e);
}

/* What the sandbox still runs meets what the record says is open; neither is guessed. */
static void agent_link_on_up(void *arg, const struct link_channel_info *list, size_t n)
{
	struct agent *a = arg;
	struct session *s, *next;

	agent_set_state(a, AGENT_UP);
	a->retry_ms = AGENT_RETRY_MIN_MS;
	if (a->silent_since)
		a->unable[0] = '\0'; /* it answers: what it cannot do is told by the next start that fails */
	a->silent_since = 0;
	hub_counters(a->hub)->sandboxes_up++;
	for (size_t i = 0; i < n; i++) {
		HASH_FIND(hh_channel, a->channels, &list[i].channel, sizeof(list[i].channel), s);
		if (list[i].channel > a->next_channel)
			a->next_channel = list[i].channel;
		if (s && s->state != SESSION_ENDED && id_equal(&s->id, &list[i].session))
			continue;
		if (!list[i].exited && !s)
			(void)link_kill(a->link, list[i].channel, EXIT_KILLED); /* not ours: it was never journaled */
		(void)link_forget(a->link, list[i].channel);
	}
	HASH_ITER(hh_channel, a->channels, s, next)
	{
		const struct link_channel_info *info = find_info(list, n, s->channel);

		if (s->state == SESSION_ENDED)
			continue;
		if (!info || !id_equal(&info->session, &s->id))
			session_unlisted(s);
		else
			session_resume(s, info);
	}
	link_is_up(a);
	hub_flush(a->hub);
}

static void suspend_all(struct agent *a)
{
	struct session *s, *next;

	HASH_ITER(hh_channel, a->channels, s, next)
	session_suspend(s);
}

static void cut_done(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct agent *a = arg;

	if (rc == ERR_CANCELLED)
		return;
	if (rc)
		log_error(&(struct log_ids){.agent = a->name}, "cut off, but its sandbox could not be ended: %s",
			  e ? e->message : err_name(rc));
	a->cut = false;
	agent_set_state(a, AGENT_COLD);
	memset(&a->linked, 0, sizeof(a->linked));
	answer_waiters(a, ERR_LINK_LOST, NULL);
	hub_flush(a->hub);
}

/* A sandbox that breaks the protocol is not trusted with another word: it is ended, the others go on. */
static void cut_off(struct agent *a, const char *why)
{
	struct sandbox_provider *p = hub_provider(a->hub);
	char text[160];

	text_format(text, sizeof(text), "its sandbox broke the protocol and was cut off: %s", why);
	log_error(&(struct log_ids){.agent = a->name}, "%s", text);
	(void)audit_event(a->hub, "sandbox.cut", NULL, a->name, "error", json_pack("{s:s}", "why", why));
	a->cut = true;
	agent_set_state(a, AGENT_WAKING);
	suspend_all(a); /* an end that has to wait for the journal must not look for the link */
	end_sessions(a, EXIT_LOST, text);
	survey_gone(a, text);
	sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_DESTROY, .agent = a->name, .reason = "protocol error"},
		    cut_done, a);
}

static void agent_link_ask(struct agent *a, bool make);

static void healed(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	struct agent *a = arg;

	if (rc == ERR_CANCELLED)
		return;
	a->cut = false;
	agent_set_state(a, AGENT_COLD);
	if (rc) {
		answer_waiters(a, rc, e);
	} else {
		a->unable[0] = '\0';
		if (!STAILQ_EMPTY(&a->waiters) && !a->stopping)
			agent_link_ask(a, true);
	}
	hub_flush(a->hub);
}

/* Ended from outside for who waits; the next one begins when it is gone. */
static void heal(struct agent *a)
{
	struct sandbox_provider *p = hub_provider(a->hub);
	char text[200];

	text_format(text, sizeof(text), "its sandbox could not serve and was begun anew: %s", a->unable);
	log_warn(&(struct log_ids){.agent = a->name}, "%s", text);
	(void)audit_event(a->hub, "sandbox.healed", NULL, a->name, "ok", json_pack("{s:s}", "why", a->unable));
	agent_leave(a, EXIT_LOST, text);
	a->cut = true;
	a->retry_at = a->silent_since = 0;
	agent_set_state(a, AGENT_WAKING);
	sandbox_ask(p,
		    &(struct sandbox_ask){.op = SANDBOX_DESTROY, .agent = a->name, .reason = "its muxlet cannot serve"},
		    healed, a);
}

/* There is a sandbox, and it does not answer. Who waits for one hears that in time; what runs in it may come back. */
static void answer_in_time(struct agent *a, const char *why)
{
	uint64_t silent = a->silent_since ? clock_boot_ns() - a->silent_since : 0;
	struct err e = {0};
	char text[160];

	a->silent_tries += a->silent_since != 0;
	if (silent >= UNABLE_NS && a->silent_tries >= UNABLE_TRIES) {
		text_format(text, sizeof(text), "its muxlet does not answer: %s", why);
		agent_unable(a, text);
	}
	if (a->unable[0] && agent_may_end(a) && !STAILQ_EMPTY(&a->waiters) && !a->stopping) {
		heal(a);
		return;
	}
	if (!a->silent_since || silent < agent_patience(a))
		return;
	err_set(&e, ERR_LINK_LOST, "the sandbox of %s does not answer: %s", a->name, why);
	answer_waiters(a, e.code, &e);
}

static void agent_link_on_down(void *arg, int rc, const char *why)
{
	struct agent *a = arg;

	log_info(&(struct log_ids){.agent = a->name}, "link down: %s", why);
	if (a->state == AGENT_UP)
		hub_counters(a->hub)->sandboxes_up--;
	else
		a->retry_ms = (unsigned)backoff_after(a->retry_ms, AGENT_RETRY_MIN_MS, RETRY_MAX_MS);
	hub_counters(a->hub)->links_down++;
	quiesce_link_down(a);
	a->pulling = false;
	workspace_ask_link_down(a);
	survey_link_down(a);
	clear_link_down(a);
	if (hub_agents(a->hub)->watch)
		hub_agents(a->hub)->watch->down(a);
	if (rc == ERR_PROTOCOL) {
		cut_off(a, why);
	} else {
		suspend_all(a);
		agent_set_state(a, AGENT_LOST);
		a->retry_at = clock_boot_ns() + a->retry_ms * NS_PER_MS;
		answer_in_time(a, why);
	}
	hub_flush(a->hub);
}

static struct session *on_channel(struct agent *a, uint32_t channel)
{
	struct session *s = NULL;

	HASH_FIND(hh_channel, a->channels, &channel, sizeof(channel), s);
	return s;
}

static struct session *by_channel(struct agent *a, uint32_t channel)
{
	struct session *s = on_channel(a, channel);

	return s && s->state != SESSION_ENDED ? s : NULL;
}

static void agent_link_on_opened(void *arg, uint32_t channel, int rc, const char *why)
{
	struct session *s = by_channel(arg, channel);

	if (s)
		session_on_opened(s, rc, why);
	hub_flush(((struct agent *)arg)->hub);
}

static void agent_link_on_begun(void *arg, uint32_t channel, const char *cwd, const char *program)
{
	struct session *s = by_channel(arg, channel);

	if (s)
		session_on_begun(s, cwd, program);
}

static void agent_link_on_waits(void *arg, uint32_t channel, const char *why)
{
	struct session *s = by_channel(arg, channel);

	if (s)
		session_on_waits(s, why);
	hub_flush(((struct agent *)arg)->hub);
}

/* Output of a program that the hub runs for itself. */
static void agent_link_on_errand(struct agent *a, uint32_t channel, int stream, uint64_t offset, const uint8_t *p,
				 size_t n)
{
	if (!workspace_ask_said(a, channel, stream, offset, p, n) && !(a->quiesce && quiesce_said(a, channel, p, n)) &&
	    !survey_said(a, channel, p, n) && hub_agents(a->hub)->watch)
		(void)hub_agents(a->hub)->watch->said(a, channel, p, n);
}

static void agent_link_on_data(void *arg, uint32_t channel, int stream, uint64_t offset, const uint8_t *p, size_t n)
{
	struct session *s = by_channel(arg, channel);
	struct agent *a = arg;

	if (s)
		session_output(s, stream, offset, p, n);
	else
		agent_link_on_errand(a, channel, stream, offset, p, n);
	if (s && s->doom)
		session_settle(s);
	hub_flush(a->hub);
}

static void agent_link_on_consumed(void *arg, uint32_t channel, uint64_t offset)
{
	struct session *s = by_channel(arg, channel);

	if (s)
		session_on_consumed(s, offset);
	else
		(void)workspace_ask_consumed(arg, channel);
	hub_flush(((struct agent *)arg)->hub);
}

static void agent_link_on_echo(void *arg, uint32_t channel, enum link_echo mode)
{
	struct session *s = by_channel(arg, channel);

	if (s)
		session_on_echo(s, mode);
	hub_flush(((struct agent *)arg)->hub);
}

static void agent_link_on_exited(void *arg, uint32_t channel, const struct link_exit *x)
{
	struct session *s = by_channel(arg, channel);
	struct agent *a = arg;

	if (survey_exited(a, channel, x))
		quiesce_link_up(a); /* it may have waited for that */
	else if (!workspace_ask_exited(a, channel, x) && !(a->quiesce && quiesce_exited(a, channel, x)) &&
		 !(hub_agents(a->hub)->watch && hub_agents(a->hub)->watch->exited(a, channel, x))) {
		if (s)
			session_on_exit(s, x);
		else if (!on_channel(a, channel)) /* whoever opened it has let go of it: muxlet keeps it for nobody */
			(void)link_forget(a->link, channel);
	}
	hub_flush(a->hub);
}

static void agent_link_on_cleared(void *arg, int rc)
{
	struct agent *a = arg;

	end_from_outside(a, clear_answered(a, rc));
	hub_flush(a->hub);
}

static const struct link_ops link_callbacks = {.up = agent_link_on_up,
					       .down = agent_link_on_down,
					       .opened = agent_link_on_opened,
					       .begun = agent_link_on_begun,
					       .waits = agent_link_on_waits,
					       .data = agent_link_on_data,
					       .input_consumed = agent_link_on_consumed,
					       .echo = agent_link_on_echo,
					       .cleared = agent_link_on_cleared,
					       .exited = agent_link_on_exited};

/* ---- asking the provider */

static void tell_visitors(struct agent *a, const struct sandbox_info *info)
{
	char name[sizeof(info->visitors_added)];
	size_t len;

	for (const char *at = info->visitors_added; *at; at += len) {
		at += strspn(at, " ");
		len = strcspn(at, " ");
		text_format(name, sizeof(name), "%.*s", (int)len, at);
		(void)audit_event(a->hub, "sandbox.visitor", NULL, a->name, "ok",
				  json_pack("{s:s,s:s,s:s,s:s}", "namespace", info->ns, "pod", info->pod, "container",
					    name, "why", info->why));
	}
}

static int take_stream(struct agent *a, const struct sandbox_info *info, int fd)
{
	struct link_params p = {.epoch = info->epoch, .name = a->name};
	bool fresh = !a->link || !id_equal(&a->linked, &info->sandbox_id);

	if (fresh) { /* a new incarnation: whatever ran in the one before is gone with it */
		if (!id_is_nil(&a->linked)) {
			end_sessions(a, EXIT_LOST, "its sandbox ended");
			survey_gone(a, "its sandbox ended");
		}
		link_destroy(a->link);
		a->link = NULL;
		memcpy(p.secret, info->secret, sizeof(p.secret));
		if (link_create(hub_loop(a->hub), &p, &link_callbacks, a, &a->link)) {
			explicit_bzero(&p, sizeof(p));
			return ERR_NOMEM;
		}
		explicit_bzero(&p, sizeof(p));
	}
	if (fresh)
		a->unable[0] = '\0';
	if (fresh || !a->silent_since) {
		a->silent_since = clock_boot_ns();
		a->silent_tries = 0;
	}
	a->info = *info;
	tell_visitors(a, info);
	a->linked = info->sandbox_id;
	if (fresh)
		a->oom = (struct kill_tally){.count = info->oom_kills};
	kill_tally_heard(&a->oom, info->oom_kills);
	return link_attach(a->link, fd, info->epoch);
}

/* One question to the provider, which may answer it when the agent is gone. */
struct agent_ask {
	struct agent *agent; /* NULL: gone */
	bool make;
};

static struct agent *ask_done(struct agent_ask *k)
{
	struct agent *a = k->agent;

	if (a)
		a->ask = NULL;
	free(k);
	return a;
}

/* The same of a question to lifecycle. */
struct agent_want {
	struct agent *agent;
};

static void agent_link_ask(struct agent *a, bool make);

static void agent_link_on_stream(void *arg, const struct sandbox_answer *r)
{
	const struct err *e = r->e;
	int rc = r->rc;
	bool made = ((struct agent_ask *)arg)->make;
	struct agent *a = ask_done(arg);
	struct err here = {0};

	if (!a) {
		if (r->fd >= 0)
			close(r->fd);
		return;
	}
	if (rc == 0) {
		rc = take_stream(a, r->info, r->fd);
		if (!rc)
			return; /* WAKING until `up` or `down` */
		err_set(&here, rc, "no link to the sandbox of %s: %s", a->name, err_name(rc));
		e = &here;
	}
	if (rc == ERR_CANCELLED) {
		answer_waiters(a, rc, e);
		return;
	}
	log_info(&(struct log_ids){.agent = a->name}, "sandbox: %s", e && e->message[0] ? e->message : err_name(rc));
	quiesce_link_down(a);
	if (rc == ERR_NOT_FOUND) {
		end_sessions(a, EXIT_LOST, e && e->message[0] ? e->message : "its sandbox ended");
		survey_gone(a, e && e->message[0] ? e->message : "its sandbox ended");
		memset(&a->linked, 0, sizeof(a->linked));
		agent_set_state(a, AGENT_COLD);
		work_sandbox_gone(hub_work(a->hub), a->name, e && e->message[0] ? e->message : "it is not there");
		clear_gone(a);
		/* Callers who came while the old stream was looked for want a sandbox, not that one. */
		if (!made && !STAILQ_EMPTY(&a->waiters)) {
			agent_link_ask(a, true);
			hub_flush(a->hub);
			return;
		}
	} else {
		agent_set_state(a, AGENT_LOST);
		a->retry_ms = (unsigned)backoff_after(a->retry_ms, AGENT_RETRY_MIN_MS, RETRY_MAX_MS);
		a->retry_at = HASH_CNT(hh_channel, a->channels) ? clock_boot_ns() + a->retry_ms * NS_PER_MS : 0;
		if (rc == ERR_UNAVAILABLE && a->silent_since) { /* it runs, and its listener is full */
			answer_in_time(a, e && e->message[0] ? e->message : err_name(rc));
			if (a->state != AGENT_LOST) {
				hub_flush(a->hub);
				return;
			}
		}
	}
	answer_waiters(a, rc, e);
	hub_flush(a->hub);
}

static void agent_link_ask(struct agent *a, bool make)
{
	struct sandbox_provider *p = hub_provider(a->hub);
	struct agent_ask *k = malloc(sizeof(*k));

	agent_set_state(a, AGENT_WAKING);
	a->retry_at = 0;
	if (!k) {
		agent_set_state(a, AGENT_LOST);
		a->retry_at = clock_boot_ns() + RETRY_MAX_MS * NS_PER_MS;
		answer_waiters(a, ERR_NOMEM, NULL);
		return;
	}
	*k = (struct agent_ask){.agent = a, .make = make};
	a->ask = k;
	sandbox_ask(p, &(struct sandbox_ask){.op = make ? SANDBOX_ENSURE : SANDBOX_CONNECT, .agent = a->name},
		    agent_link_on_stream, k);
}

void agent_leave(struct agent *a, enum exit_cause cause, const char *why)
{
	quiesce_link_down(a);
	a->pulling = false;
	workspace_ask_link_down(a);
	clear_gone(a);
	if (hub_agents(a->hub)->watch)
		hub_agents(a->hub)->watch->down(a);
	hub_counters(a->hub)->sandboxes_up -= a->state == AGENT_UP;
	suspend_all(a); /* an end that the journal has no room for yet must not look for the link */
	end_sessions(a, cause, why);
	survey_gone(a, why);
	link_destroy(a->link);
	a->link = NULL;
	memset(&a->linked, 0, sizeof(a->linked));
}

void agent_set_cold(struct agent *a, const char *why)
{
	struct err e = {0};

	if (a->ask || a->cut) /* the answer that is on its way decides */
		return;
	agent_set_state(a, AGENT_COLD);
	if (a->stopping) /* who waits for its end waits for the next one */
		return;
	err_set(&e, ERR_LINK_LOST, "the sandbox of %s ended: %s", a->name, why);
	answer_waiters(a, e.code, &e);
}

/* The provider has seen the end before the stream told: nobody waits for a socket. */
void agent_gone(void *arg, const char *name, const struct id *sandbox, const char *why)
{
	struct hub *h = arg;
	struct agent *a = agent_find(h, name);

	if (!a || id_equal(&a->linked, sandbox))
		work_sandbox_gone(hub_work(h), name, why);
	if (!a || a->cut || !id_equal(&a->linked, sandbox))
		return;
	log_info(&(struct log_ids){.agent = a->name}, "its sandbox ended: %s", why);
	agent_leave(a, EXIT_LOST, why);
	agent_set_cold(a, why);
	hub_flush(h);
}

void agent_reconnect(struct agent *a)
{
	if (a->state == AGENT_COLD || a->state == AGENT_LOST)
		agent_link_ask(a, false);
}

/* Taken back, or stopped and awake again: hold() and the link answer then. */
static void agent_link_on_wanted(void *arg, int rc, const struct err *e, json_t *result)
{
	struct agent *a = ((struct agent_want *)arg)->agent;

	(void)result;
	free(arg);
	if (!a)
		return;
	a->want = NULL;
	if (rc && a->stopping)
		answer_waiters(a, rc, e);
}

/* A caller who comes during a stop wants the agent awake: that takes the stop back, or follows it. */
static void want_it(struct agent *a)
{
	if (a->want)
		return;
	a->want = malloc(sizeof(*a->want));
	if (!a->want) {
		answer_waiters(a, ERR_NOMEM, NULL);
		return;
	}
	a->want->agent = a;
	life_need(hub_life(a->hub), a->name, NULL, agent_link_on_wanted, a->want);
}

void agent_stopping(struct agent *a, bool on)
{
	a->stopping = on;
	if (on)
		return;
	if (a->pulling && a->state == AGENT_UP)
		link_is_up(a); /* what went ahead may have failed: it begins anew */
	else if (a->state == AGENT_UP && hub_agents(a->hub)->watch)
		hub_agents(a->hub)->watch->stays(a);
	if (a->state == AGENT_UP && !a->pulling)
		answer_waiters(a, 0, NULL);
	else if (!STAILQ_EMPTY(&a->waiters) && a->state != AGENT_WAKING)
		agent_link_ask(a, true);
}

void agent_need(struct agent *a, agent_ready_fn *fn, void *arg)
{
	struct agent_waiter *w;

	bool heals = a->unable[0] && agent_may_end(a) && !a->stopping && !a->ask &&
		     (a->state == AGENT_UP || a->state == AGENT_LOST);

	if (agent_is_awake(a) && !a->pulling && !heals) {
		fn(arg, 0, NULL);
		return;
	}
	w = malloc(sizeof(*w));
	if (!w) {
		fn(arg, ERR_NOMEM, NULL);
		return;
	}
	w->fn = fn;
	w->arg = arg;
	STAILQ_INSERT_TAIL(&a->waiters, w, entry);
	if (heals)
		heal(a);
	else if (a->stopping)
		want_it(a);
	else if (a->pulling && a->state == AGENT_UP && !hub_agents(a->hub)->ahead->up(a))
		agent_open(a);
	else if (a->state != AGENT_WAKING && a->state != AGENT_UP)
		agent_link_ask(a, true);
}

/* ---- with options of its start */

struct agent_start {
	LIST_ENTRY(agent_start) entry;
	struct agent *agent; /* NULL: the hub has gone, and its waiter was told so */
	agent_ready_fn *fn;
	void *arg;
};

static void agent_link_on_started(void *arg, int rc, const struct err *e, json_t *result)
{
	struct agent_start k = *(struct agent_start *)arg;

	(void)result;
	if (k.agent)
		LIST_REMOVE((struct agent_start *)arg, entry);
	free(arg);
	if (k.agent && rc)
		k.fn(k.arg, rc, e);
	else if (k.agent)
		agent_need(k.agent, k.fn, k.arg);
}

void agent_need_with(struct agent *a, const struct life_options *o, agent_ready_fn *fn, void *arg)
{
	struct agent_start *k = malloc(sizeof(*k));

	if (!k) {
		fn(arg, ERR_NOMEM, NULL);
		return;
	}
	*k = (struct agent_start){.agent = a, .fn = fn, .arg = arg};
	LIST_INSERT_HEAD(&a->starts, k, entry);
	life_need(hub_life(a->hub), a->name, o, agent_link_on_started, k);
}

static void cancel_starts(struct agent *a, const struct err *e)
{
	struct agent_start *k;

	while ((k = LIST_FIRST(&a->starts))) {
		LIST_REMOVE(k, entry);
		k->agent = NULL;
		k->fn(k->arg, e->code, e);
	}
}

static bool has_live_session(const struct agent *a)
{
	const struct session *s, *next;

	HASH_ITER(hh_channel, a->channels, s, next)
	if (s->state != SESSION_ENDED && s->end < END_KNOWN)
		return true;
	return false;
}

/* The sandbox's stream is there, or somebody looks for it. */
static bool looked_after(const struct agent *a)
{
	switch (a->state) {
	case AGENT_UP:
		return true;
	case AGENT_LOST:
		return a->retry_at != 0;
	case AGENT_WAKING:
		return a->ask || a->cut || (a->link && link_state(a->link) != LINK_IDLE);
	default:
		return false;
	}
}

/*
 * Sessions that nobody looks after would be open for ever. The provider is asked: it knows whether there still is a
 * sandbox. Where there is none they end; a stream that cannot be had now ends nothing.
 */
static void sweep(struct agent *a, uint64_t now)
{
	if (!hub_is_recovered(a->hub) || hub_stopping(a->hub) || a->stopping || looked_after(a) ||
	    !has_live_session(a)) {
		a->adrift_since = 0;
		return;
	}
	if (!a->adrift_since)
		a->adrift_since = now;
	if (now - a->adrift_since < ADRIFT_NS)
		return;
	a->adrift_since = 0;
	log_warn(&(struct log_ids){.agent = a->name},
		 "sessions are open, and nobody looks for its sandbox: it is asked for");
	(void)audit_event(a->hub, "sandbox.sweep", NULL, a->name, "ok",
			  json_pack("{s:s}", "state", agent_state_name(a->state)));
	agent_link_ask(a, !STAILQ_EMPTY(&a->waiters));
}

void agent_tick(struct agent *a, uint64_t now)
{
	end_from_outside(a, clear_tick(a, now));
	survey_tick(a, now);
	quiesce_tick(a, now);
	sweep(a, now);
	if (a->state == AGENT_LOST && a->retry_at && now >= a->retry_at)
		agent_link_ask(a, !STAILQ_EMPTY(&a->waiters));
}

bool agent_rests(const struct agent *a)
{
	return !a->retry_at && !a->clearing && !a->quiesce && STAILQ_EMPTY(&a->waiters) && survey_rests(a);
}

void agent_cancel(struct agent *a)
{
	struct err e = {0};

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	cancel_starts(a, &e);
	answer_waiters(a, ERR_CANCELLED, &e);
}

void agent_destroy(struct agent *a)
{
	agent_cancel(a);
	if (hub_agents(a->hub)->ahead)
		hub_agents(a->hub)->ahead->gone(a);
	quiesce_link_down(a);
	survey_destroy(a);
	clear_cancel(a);
	if (a->ask)
		a->ask->agent = NULL;
	if (a->want)
		a->want->agent = NULL;
	link_destroy(a->link);
	explicit_bzero(a->info.secret, sizeof(a->info.secret));
	json_decref(a->settings);
	HASH_DEL(hub_agents(a->hub)->by_name, a);
	free(a);
}

void hub_resolve(struct hub *h, const char *name, sandbox_done *done, void *arg)
{
	const char *slash = strchr(name, '/');

	if (!slash || strchr(slash + 1, '/'))
		done(arg, &(struct sandbox_answer){.name = name, .fd = -1});
	else
		sandbox_ask(hub_provider(h), &(struct sandbox_ask){.op = SANDBOX_RESOLVE, .agent = name}, done, arg);
}
