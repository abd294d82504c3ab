/* The hub is made and ended, room by room; its tick passes, and what becomes of the record reaches everybody. */
#define LOG_SUBSYS "hub"
#include "muxd/hub/setup.h"

#include "base/clock.h"
#include "base/err.h"
#include "control/store/store.h"
#include "muxd/hub/access/gate.h"
#include "muxd/hub/access/policy.h"
#include "muxd/hub/broker/begin_tree.h"
#include "muxd/hub/broker/broker_lock.h"
#include "muxd/hub/broker/broker_shown.h"
#include "muxd/hub/broker/broker_state.h"
#include "muxd/hub/broker/executions.h"
#include "muxd/hub/broker/round_artifacts.h"
#include "muxd/hub/broker/round_wishes.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/core/later.h"
#include "muxd/hub/core/pulse.h"
#include "muxd/hub/core/removals.h"
#include "muxd/hub/core/shelf.h"
#include "muxd/hub/filespace/filespace.h"
#include "muxd/hub/inside/inside.h"
#include "muxd/hub/inside/inside_discovery.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/parts.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/record/share.h"
#include "muxd/hub/record/witnesses.h"
#include "muxd/hub/services/services.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/screen.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_input.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>

static void setup_on_moved(void *arg, uint64_t durable)
{
	struct hub *h = arg;
	struct session *s;

	(void)durable;
	TAILQ_FOREACH(s, hub_sessions(h), order)
	session_pump(s);
	work_recorded(h->p.work);
	life_recorded(h->p.life);
	hub_flush(h);
}

/* No record, no session: running ones stand still and are told, new ones are refused by hub_writable(). */
static void setup_on_record_state(void *arg, enum hub_record_state now, enum hub_record_state before)
{
	struct hub *h = arg;
	struct attachment *a;

	(void)before;
	hub_stir(h);
	pause_set_record(h, now);
	recovery_check(h);
	gate_tick(h);
	if (now == RECORD_OK) {
		TAILQ_FOREACH(a, hub_attachments(h), of_hub)
		{
			a->armed = true;
			attachment_wake(a, WAKE_READABLE | (a->input_blocked ? WAKE_WRITABLE : 0u));
		}
		setup_on_moved(h, 0);
	}
	hub_flush(h);
}

static const struct journal_ops journal_callbacks = {.moved = setup_on_moved, .state = setup_on_record_state};

/* Of what is left without any of these, nothing needs to be looked after more than once a second. */
static bool setup_rests(const struct hub *h)
{
	const struct session *s;
	const struct agent *a, *next;

	if (!h->recovered || h->pause->on || !gate_rests(h) || !laters_rest(h) || !wishes_rest(h) || !insides_rest(h) ||
	    !services_rest(h) || !TAILQ_EMPTY(hub_attachments(h)) || !screens_rest(h) || !begin_trees_rest(h))
		return false;
	TAILQ_FOREACH(s, hub_sessions(h), order)
	if (s->state != SESSION_ENDED || s->end != END_TOLD)
		return false;
	HASH_ITER(hh, h->agents->by_name, a, next)
	if (!agent_rests(a) || !filespace_rests(a))
		return false;
	return true;
}

static void setup_on_tick(void *arg)
{
	struct hub *h = arg;
	uint64_t now = clock_boot_ns();
	struct session *s, *next;
	struct agent *a, *an;

	pulse_rest(h->pulse, setup_rests(h));
	grants_tick(h);
	gate_tick(h);
	later_tick(h);
	pause_tick(h);
	for (s = TAILQ_FIRST(hub_sessions(h)); s; s = next) {
		next = TAILQ_NEXT(s, order);
		session_tick(s, now);
	}
	sessions_trim(h); /* here alone: whoever is told of an end may begin the next session */
	HASH_ITER(hh, h->agents->by_name, a, an)
	{
		agent_tick(a, now);
		filespace_tick(a, now);
	}
	exec_ids_expire(h->exec_ids, now);
	round_artifacts_tick(h);
	broker_locks_tick(h);
	insides_tick(h);
	services_tick(h);
	begin_trees_tick(h, now);
	store_probe(h->p.store);
	shares_sweep(h->shares, now);
	shelf_give_back(h, now);
	if (h->recovered)
		audit_repeats_tick(h, false);
	(void)hub_policy_settle(h, NULL);
	hub_witnesses_tick(h);
	hub_flush(h);
}

static bool round_runs(void *arg, const struct id *id)
{
	const struct session *s = hub_session_find(arg, id);

	return s && s->state != SESSION_ENDED;
}

static void setup_on_wait(void *arg)
{
	(void)audit_event(
	    arg, "removals.wait", NULL, NULL, "error",
	    json_pack("{s:s, s:I}", "detail", "the wall clock ran ahead", "at_ns", (json_int_t)clock_wall_ns()));
}

/* Rooms whose state is memory alone. ERR_NOMEM. */
static int setup_rooms(struct hub *h)
{
	bool made = (h->exec_ids = exec_ids_create(round_runs, h)) && (h->laters = laters_create()) &&
		    (h->readers = readers_create()) && (h->shares = shares_create()) &&
		    (h->witnesses = witness_words_create()) && (h->agents = agents_create()) &&
		    (h->contexts = contexts_create()) && (h->screens = screen_list_create()) &&
		    (h->shelf = shelf_create()) && (h->shells = shells_create()) && (h->gate = gate_create()) &&
		    (h->policies = policies_create()) && (h->begin_trees = begin_trees_create()) &&
		    (h->broker = broker_state_create()) && (h->executions = executions_create(h->loop)) &&
		    (h->wishes = wishes_create()) && (h->pause = pause_create());

	return made ? 0 : ERR_NOMEM;
}

/* Rooms with timers, and those that put themselves into the agents. ERR_NOMEM. */
static int setup_loops(struct hub *h)
{
	int rc = pulse_create(h->loop, setup_on_tick, h, &h->pulse);

	if (!rc)
		rc = clients_create(h, &h->clients);
	if (!rc)
		rc = aheads_create(h, &h->aheads);
	if (!rc)
		rc = insides_create(h, &h->insides);
	if (!rc)
		rc = services_create(h, &h->services);
	if (!rc)
		rc = filespaces_create(h, &h->filespaces);
	return rc;
}

static int setup_record(struct hub *h, const struct hub_params *p, struct err *e)
{
	int rc = journal_create(h->loop, &(struct journal_fds){p->ring_fd, p->cursor_fd, p->bell_fd, p->moved_fd},
				&journal_callbacks, h, &h->journal, e);

	if (!rc)
		rc = audit_repeats_create(h, p->repeats_path, &h->repeats, e);
	if (!rc)
		rc = removals_create(p->removals_path, setup_on_wait, h, &h->removals);
	return rc;
}

/* First those that tell others as they go: who waits for them hears so while all else is there. */
static void setup_end_askers(struct hub *h)
{
	executions_destroy(h->executions);
	h->executions = NULL;
	if (h->insides)
		inside_discoveries_leave(h);
	if (h->begin_trees)
		begin_trees_leave(h);
	insides_destroy(h);
	h->insides = NULL;
	services_destroy(h);
	h->services = NULL;
}

/* The rest asks for nothing as it goes; as far as it was made. */
static void setup_end_rooms(struct hub *h)
{
	wishes_destroy(h->wishes);
	begin_trees_destroy(h->begin_trees);
	exec_ids_destroy(h->exec_ids);
	shares_destroy(h->shares);
	shells_destroy(h->shells);
	contexts_destroy(h->contexts);
	readers_destroy(h->readers);
	witness_words_destroy(h->witnesses);
	pause_destroy(h->pause);
	json_decref(h->alarms);
	policies_destroy(h->policies);
	gate_destroy(h->gate);
	laters_destroy(h->laters);
	screen_list_destroy(h->screens);
	filespaces_destroy(h->filespaces);
	agents_destroy(h->agents);
	shelf_destroy(h->shelf);
	pulse_destroy(h->pulse);
	clients_destroy(h->clients);
	aheads_destroy(h->aheads);
	audit_repeats_destroy(h->repeats);
	removals_destroy(h->removals);
	journal_destroy(h->journal);
	if (h->broker)
		broker_shown_finish(h);
	broker_state_destroy(h->broker);
	hub_grants_destroy(h->grants);
}

int hub_create(const struct hub_params *p, struct hub **out, struct err *e)
{
	struct hub *h = calloc(1, sizeof(*h));
	int rc = ERR_NOMEM;

	if (!h)
		return err_set(e, rc, "no memory for the hub");
	h->p = *p;
	h->p.repeats_path = h->p.removals_path = NULL;
	h->loop = p->loop;
	h->conf = p->conf;
	rc = hub_grants_create(p->floor_ns, &h->grants);
	if (!rc)
		rc = setup_rooms(h);
	if (!rc)
		rc = setup_loops(h);
	if (!rc)
		rc = setup_record(h, p, e);
	if (rc) {
		setup_end_askers(h);
		setup_end_rooms(h);
		free(h);
		return rc;
	}
	if (p->provider) {
		p->provider->gone = agent_gone;
		p->provider->gone_arg = h;
	}
	lifecycle_begin(h);
	*out = h;
	return 0;
}

void hub_stop(struct hub *h)
{
	struct attachment *a;

	h->stopping = true;
	gate_close(h);
	aheads_flush(h);
	TAILQ_FOREACH(a, hub_attachments(h), of_hub)
	attachment_cut(a, CUT_SHUTDOWN, "the daemon is stopping; the sandbox and its programs stay");
	filespaces_stop(h);
	hub_flush(h);
	audit_repeats_tick(h, true);
	(void)audit_event(h, "hub.stop", NULL, NULL, "ok", NULL);
}

void hub_destroy(struct hub *h)
{
	struct session_waiter *w;
	struct session *s;
	struct agent *a, *next;

	if (!h)
		return;
	gate_close(h);
	insides_leave(h);
	services_leave(h);
	filespaces_leave(h);
	if (h->p.provider)
		h->p.provider->gone = NULL;
	HASH_ITER(hh, h->agents->by_name, a, next)
	{
		link_destroy(a->link);
		a->link = NULL;
		agent_cancel(
		    a); /* while all that may have asked for it is there: services, insides, waiters of ports */
	}
	while ((s = TAILQ_FIRST(hub_sessions(h)))) {
		session_opened(s, ERR_CANCELLED, "the daemon is stopping");
		while ((w = LIST_FIRST(&s->waiters))) {
			LIST_REMOVE(w, entry);
			w->fn(w->arg, s);
		}
		session_free(s);
	}
	setup_end_askers(h);
	HASH_ITER(hh, h->agents->by_name, a, next)
	agent_destroy(a);
	setup_end_rooms(h);
	conf_destroy(h->conf);
	free(h);
}
