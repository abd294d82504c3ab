/* The hub is made and ended; its second passes, and what becomes of the record reaches everybody. */
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
#include "muxd/hub/broker/executions.h"
#include "muxd/hub/broker/round_artifacts.h"
#include "muxd/hub/broker/round_wishes.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/core/later.h"
#include "muxd/hub/core/pulse.h"
#include "muxd/hub/core/removals.h"
#include "muxd/hub/filespace/filespace.h"
#include "muxd/hub/inside/inside.h"
#include "muxd/hub/inside/inside_discovery.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/services/services.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_input.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>

#define PAUSE_UNTOLD_NS (2 * NS_PER_SEC) /* a pause shorter than this is nobody's news */

static void setup_on_moved(void *arg, uint64_t durable)
{
	struct hub *h = arg;
	struct session *s;

	(void)durable;
	TAILQ_FOREACH(s, &h->order, order)
	session_pump(s);
	work_recorded(h->p.work);
	life_recorded(h->p.life);
	hub_flush(h);
}

static const char *record_text(enum hub_record_state s)
{
	switch (s) {
	case RECORD_OK:
		return "the record can be written again: the session goes on";
	case RECORD_DISK_FULL:
		return "paused: the disk of the record is full; nothing is lost, it goes on when there is room";
	case RECORD_SILENT:
		return "paused: the recorder does not answer; nothing is lost, it goes on when it is back";
	default:
		return "paused: the record cannot be written; nothing is lost";
	}
}

static void tell_all(struct hub *h, const char *text, bool over)
{
	struct attachment *a;

	TAILQ_FOREACH(a, &h->attachments, of_hub)
	attachment_notice(a, text, over);
}

/* A recorder that is started anew is back before anybody would have read a sentence about it. */
static void pause_tick(struct hub *h)
{
	if (!h->paused || h->pause_told || clock_boot_ns() - h->paused_at < PAUSE_UNTOLD_NS)
		return;
	h->pause_told = true;
	tell_all(h, record_text(journal_state(h->journal)), false);
}

/* No record, no session: running ones stand still and are told, new ones are refused by hub_writable(). */
static void setup_on_record_state(void *arg, enum hub_record_state now, enum hub_record_state before)
{
	struct hub *h = arg;
	struct attachment *a;

	(void)before;
	hub_stir(h);
	if (h->recovered && (now == RECORD_OK) == h->paused) {
		h->paused = now != RECORD_OK;
		h->paused_at = h->paused ? clock_boot_ns() : 0;
		if (!h->paused && h->pause_told)
			tell_all(h, record_text(now), true);
		h->pause_told = false;
		(void)audit_event(h, now == RECORD_OK ? "record.ok" : "record.unavailable", NULL, NULL,
				  hub_record_state_name(now), NULL);
	}
	recovery_check(h);
	gate_tick(h);
	if (now == RECORD_OK) {
		TAILQ_FOREACH(a, &h->attachments, of_hub)
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

	if (!h->recovered || h->paused || !TAILQ_EMPTY(&h->gate) || !TAILQ_EMPTY(&h->later) ||
	    !TAILQ_EMPTY(&h->wishes) || !insides_rest(h) || !services_rest(h) || !TAILQ_EMPTY(&h->attachments) ||
	    !TAILQ_EMPTY(&h->screens) || !TAILQ_EMPTY(&h->begin_trees))
		return false;
	TAILQ_FOREACH(s, &h->order, order)
	if (s->state != SESSION_ENDED || s->end != END_TOLD)
		return false;
	HASH_ITER(hh, h->agents, a, next)
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
	for (s = TAILQ_FIRST(&h->order); s; s = next) {
		next = TAILQ_NEXT(s, order);
		session_tick(s, now);
	}
	sessions_trim(h); /* here alone: whoever is told of an end may begin the next session */
	HASH_ITER(hh, h->agents, a, an)
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
	shares_sweep(&h->shares, now);
	if (memory_due(&h->rest, now))
		memory_give();
	if (h->recovered)
		audit_repeats_tick(h, false);
	(void)hub_policy_settle(h, NULL);
	hub_witnesses_tick(h);
	hub_flush(h);
}

static int start_timers(struct hub *h)
{
	h->idle = malloc(sizeof(*h->idle));
	if (!h->idle || pace_create(h) || ahead_create(h)) {
		free(h->idle);
		return ERR_NOMEM;
	}
	uv_idle_init(h->loop, h->idle);
	h->idle->data = h;
	return pulse_create(h->loop, setup_on_tick, h, &h->pulse);
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

int hub_create(const struct hub_params *p, struct hub **out, struct err *e)
{
	struct hub *h = calloc(1, sizeof(*h));
	int rc = ERR_NOMEM;

	if (!h)
		return err_set(e, rc, "no memory for the hub");
	h->p = *p;
	TAILQ_INIT(&h->gate);
	TAILQ_INIT(&h->later);
	h->loop = p->loop;
	h->conf = p->conf;
	TAILQ_INIT(&h->order);
	TAILQ_INIT(&h->ended);
	TAILQ_INIT(&h->attachments);
	TAILQ_INIT(&h->pending);
	TAILQ_INIT(&h->paced);
	TAILQ_INIT(&h->ahead);
	TAILQ_INIT(&h->screens);
	TAILQ_INIT(&h->wishes);
	TAILQ_INIT(&h->begin_trees);
	time_floor_init(&h->floor, p->floor_ns, clock_wall_ns(), clock_boot_ns());
	rc = id_times_create(&h->revoked);
	if (!rc)
		rc = id_times_create(&h->renewed);
	if (!rc && (!(h->exec_ids = exec_ids_create(round_runs, h)) || !(h->shells = shells_create()) ||
		    !(h->contexts = contexts_create()) || !(h->executions = executions_create(h->loop)) ||
		    insides_create(h) || services_create(h) || filespaces_create(h)))
		rc = ERR_NOMEM;
	if (!rc)
		rc = journal_create(h->loop, &(struct journal_fds){p->ring_fd, p->cursor_fd, p->bell_fd, p->moved_fd},
				    &journal_callbacks, h, &h->journal, e);
	if (!rc)
		rc = audit_repeats_create(h, p->repeats_path, &h->repeats, e);
	if (!rc)
		rc = removals_create(p->removals_path, setup_on_wait, h, &h->removals);
	h->p.repeats_path = h->p.removals_path = NULL;
	if (!rc)
		rc = start_timers(h);
	if (rc) {
		removals_destroy(h->removals);
		audit_repeats_destroy(h->repeats);
		journal_destroy(h->journal);
		id_times_destroy(h->revoked);
		id_times_destroy(h->renewed);
		exec_ids_destroy(h->exec_ids);
		shells_destroy(h->shells);
		contexts_destroy(h->contexts);
		executions_destroy(h->executions);
		insides_destroy(h);
		services_destroy(h);
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

static void setup_free_handle(uv_handle_t *t)
{
	free(t);
}

void hub_stop(struct hub *h)
{
	struct attachment *a;
	struct session *s;

	h->stopping = true;
	gate_close(h);
	while ((s = TAILQ_FIRST(&h->ahead)))
		session_ahead_flush(s);
	TAILQ_FOREACH(a, &h->attachments, of_hub)
	attachment_cut(a, CUT_SHUTDOWN, "the daemon is stopping; the sandbox and its programs stay");
	hub_flush(h);
	audit_repeats_tick(h, true);
	(void)audit_event(h, "hub.stop", NULL, NULL, "ok", NULL);
}

void hub_destroy(struct hub *h)
{
	struct session_waiter *w;
	struct round_wishes *k;
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
	HASH_ITER(hh, h->agents, a, next)
	{
		link_destroy(a->link);
		a->link = NULL;
		agent_cancel(
		    a); /* while all that may have asked for it is there: services, insides, waiters of ports */
	}
	while ((s = TAILQ_FIRST(&h->order))) {
		session_opened(s, ERR_CANCELLED, "the daemon is stopping");
		while ((w = LIST_FIRST(&s->waiters))) {
			LIST_REMOVE(w, entry);
			w->fn(w->arg, s);
		}
		session_free(s);
	}
	executions_destroy(h->executions);
	inside_discoveries_leave(h);
	begin_trees_leave(h);
	insides_destroy(h);
	services_destroy(h);
	HASH_ITER(hh, h->agents, a, next)
	agent_destroy(a);
	while ((k = TAILQ_FIRST(&h->wishes))) {
		TAILQ_REMOVE(&h->wishes, k, entry);
		round_wishes_free(k);
	}
	exec_ids_destroy(h->exec_ids);
	shares_finish(&h->shares);
	shells_destroy(h->shells);
	contexts_destroy(h->contexts);
	readers_destroy(h);
	json_decref(h->witnesses);
	free(h->recovery);
	json_decref(h->alarms);
	hub_policy_finish(h);
	pulse_destroy(h->pulse);
	uv_close((uv_handle_t *)h->idle, setup_free_handle);
	pace_destroy(h);
	ahead_destroy(h);
	audit_repeats_destroy(h->repeats);
	removals_destroy(h->removals);
	journal_destroy(h->journal);
	id_times_destroy(h->revoked);
	id_times_destroy(h->renewed);
	grants_forget_tokens(h, INT64_MAX);
	broker_shown_finish(h);
	conf_destroy(h->conf);
	grants_known_finish(&h->known);
	free(h->keys);
	free(h);
}
