/* A sync of the disk: muxlet is asked for it, and to freeze programs meanwhile. */
#include "muxd/hub/agent/quiesce.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/agent/survey.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>

#define SYNC_PATH "/workspace"

/*
 * (WAITING, for a link ->) ASKED -> (its answer) -> nothing more, or HELD: its programs are frozen for as long as the
 * channel lives, and quiesce_exited() says when it has ended by itself.
 */
struct quiesce {
	uint32_t channel; /* 0: WAITING */
	uint64_t timeout_ns, hold_ns;
	bool held;
	uint64_t deadline; /* of the answer */
	life_host_done *done;
	void *arg;
};

/* Programs that stood still could say nothing: what counts from their last word counts from here. */
static void quiesce_let_speak(struct agent *a)
{
	for (struct session *s = a->channels; s; s = s->hh_channel.next)
		s->heard_ns = clock_boot_ns();
}

static void quiesced(struct agent *a, int rc, const char *why)
{
	struct quiesce *q = a->quiesce;
	struct err e = {0};

	a->quiesce = NULL;
	if (q->channel)
		quiesce_let_speak(a);
	if (rc)
		err_set(&e, rc, "%s", why);
	if (!q->held)
		q->done(q->arg, rc, rc ? &e : NULL);
	free(q);
}

bool quiesce_said(struct agent *a, uint32_t channel, const uint8_t *p, size_t n)
{
	struct quiesce *q = a->quiesce;

	if (q->channel != channel)
		return false;
	if (!q->held && n && *p == 'f') { /* "frozen", else "synced" and an exit */
		q->held = true;
		q->done(q->arg, LIFE_FROZEN, NULL);
	}
	return true;
}

bool quiesce_exited(struct agent *a, uint32_t channel, const struct link_exit *x)
{
	char why[96];

	if (a->quiesce->channel != channel)
		return false;
	(void)link_forget(a->link, channel);
	text_format(why, sizeof(why), "the sync ended with %s %d", exit_cause_name(x->cause), x->code);
	if (x->cause == EXIT_EXITED && x->code == 0)
		quiesced(a, 0, NULL);
	else
		quiesced(a, x->cause == EXIT_TIMEOUT ? ERR_TIMEOUT : ERR_SYS, why);
	return true;
}

void quiesce_link_down(struct agent *a)
{
	if (a->quiesce)
		quiesced(a, hub_stopping(a->hub) ? ERR_CANCELLED : ERR_LINK_LOST, "the link went away");
}

void quiesce_tick(struct agent *a, uint64_t now)
{
	struct quiesce *q = a->quiesce;

	if (q && !q->channel && a->state == AGENT_UP)
		quiesce_link_up(a); /* what it waited for takes too long */
	q = a->quiesce;
	if (!q || q->held || now < q->deadline)
		return;
	if (q->channel)
		(void)link_forget(a->link, q->channel);
	quiesced(a, ERR_TIMEOUT, q->channel ? "the sync did not end in time" : "no link came in time");
}

/* hold_ns: at most so long frozen, whatever becomes of us: muxlet's own clock ends it. */
static int open_sync(struct agent *a, uint64_t timeout_ns, uint64_t hold_ns, uint32_t *out_channel, struct err *e)
{
	bool freeze = hold_ns && link_has_freeze(a->link);
	const char *const argv[] = {"muxlet", freeze ? "--freeze" : "--sync", SYNC_PATH, NULL};
	static const char *const env[] = {NULL};
	struct link_open o = {.argv = argv,
			      .env = env,
			      .cwd = "/",
			      .timeout_ms = (timeout_ns + (freeze ? hold_ns : 0)) / NS_PER_MS,
			      .grace_ms = freeze ? 5000 : 100,
			      .self = true,
			      .reserve = true,
			      .window = 4096};

	if (!link_has_sync(a->link))
		return err_set(e, ERR_UNSUPPORTED, "nothing in the sandbox of %s can be asked to sync", a->name);
	if (id_new(&o.session))
		return err_set(e, ERR_SYS, "no random bytes");
	o.channel = *out_channel = agent_new_channel(a);
	return link_open(a->link, &o, e);
}

void quiesce_link_up(struct agent *a)
{
	struct quiesce *q = a->quiesce;
	struct err e = {0};

	if (!q || q->channel || survey_hurry(a, clock_boot_ns()))
		return;
	if (open_sync(a, q->timeout_ns, q->hold_ns, &q->channel, &e))
		quiesced(a, e.code, e.message);
}

int quiesce_begin(struct agent *a, uint64_t timeout_ns, uint64_t hold_ns, life_host_done *done, void *arg)
{
	struct quiesce *q = a->quiesce || a->cut ? NULL : calloc(1, sizeof(*q));

	if (!q)
		return ERR_UNSUPPORTED;
	*q = (struct quiesce){.timeout_ns = timeout_ns,
			      .hold_ns = hold_ns,
			      .deadline = clock_boot_ns() + timeout_ns,
			      .done = done,
			      .arg = arg};
	a->quiesce = q;
	hub_stir(a->hub);
	if (a->state == AGENT_UP)
		quiesce_link_up(a);
	return 0;
}

bool quiesce_stills(const struct agent *a)
{
	return a->quiesce && a->quiesce->channel;
}

bool quiesce_holds(const struct agent *a)
{
	return a->quiesce && a->quiesce->held;
}

bool quiesce_end(struct agent *a)
{
	if (!a->quiesce)
		return false;
	if (a->quiesce->channel)
		(void)link_forget(a->link, a->quiesce->channel);
	quiesced(a, ERR_CANCELLED, "nobody waits for it any more");
	return true;
}
