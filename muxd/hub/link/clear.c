/*
 * Everything inside a sandbox ends: for who was let in, however full it is.
 *
 * WAITING (for a link) -> ASKED (muxlet ends all but itself) -> answered. A muxlet that does not answer in time is
 * ENDED with its sandbox, from outside, where the workspace outlives that.
 */
#define LOG_SUBSYS "clear"
#include "muxd/hub/link/clear.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/session/session_end.h"

#include <stdlib.h>
#include <string.h>

enum clear_state { CLEAR_WAITING, CLEAR_ASKED, CLEAR_ENDED };

struct clearing {
	struct agent *agent; /* NULL: gone */
	enum clear_state state;
	char why[200];
	uint64_t deadline;
	unsigned ended;
	clear_done *done;
	void *arg;
};

void clear_answer(struct agent *a, int rc, const struct err *e)
{
	struct clearing *k = a->clearing;

	a->clearing = NULL;
	k->done(k->arg, rc, e, k->ended);
	free(k);
}

static void clear_set_state(struct clearing *k, enum clear_state s)
{
	static const char *const names[] = {"waiting", "asked", "ended"};

	log_debug(&(struct log_ids){.agent = k->agent->name}, "clear %s -> %s", names[k->state], names[s]);
	k->state = s;
}

/* Exits come by the link, or from LIST when that comes back; here is why. */
static void condemn_all(struct agent *a)
{
	struct session *s, *next;

	HASH_ITER(hh_channel, a->channels, s, next)
	if (s->state != SESSION_ENDED) {
		a->clearing->ended += !s->killing;
		(void)session_condemn(s, EXIT_KILLED, a->clearing->why);
	}
}

static const char *clear_ask(struct agent *a)
{
	int rc = link_clear(a->link);

	if (rc == ERR_UNSUPPORTED)
		return "cannot do that";
	if (!rc)
		clear_set_state(a->clearing, CLEAR_ASKED);
	return NULL;
}

const char *clear_link_up(struct agent *a)
{
	bool waits = a->clearing && a->clearing->state == CLEAR_WAITING;

	return waits && a->state == AGENT_UP ? clear_ask(a) : NULL;
}

const char *clear_begin(struct agent *a, const char *why, uint64_t timeout_ns, clear_done *done, void *arg)
{
	struct clearing *k = a->clearing ? NULL : calloc(1, sizeof(*k));
	struct err e = {0};

	if (!k) {
		int rc = a->clearing ? ERR_CONFLICT : ERR_NOMEM;

		err_set(&e, rc, "%s", a->clearing ? "everything inside is being ended already" : "no memory");
		done(arg, rc, &e, 0);
		return NULL;
	}
	k->agent = a;
	text_put(k->why, sizeof(k->why), why);
	k->deadline = clock_boot_ns() + timeout_ns;
	k->done = done;
	k->arg = arg;
	a->clearing = k;
	hub_stir(a->hub);
	condemn_all(a);
	return clear_link_up(a);
}

void clear_link_down(struct agent *a)
{
	if (a->clearing && a->clearing->state == CLEAR_ASKED)
		clear_set_state(a->clearing, CLEAR_WAITING);
}

void clear_gone(struct agent *a)
{
	if (a->clearing && a->clearing->state != CLEAR_ENDED)
		clear_answer(a, 0, NULL);
}

const char *clear_answered(struct agent *a, int rc)
{
	if (!a->clearing || a->clearing->state != CLEAR_ASKED)
		return NULL;
	if (rc)
		return "could not end all of it";
	clear_answer(a, 0, NULL);
	return NULL;
}

const char *clear_tick(const struct agent *a, uint64_t now)
{
	bool late = a->clearing && a->clearing->state != CLEAR_ENDED && now >= a->clearing->deadline;

	return late ? "does not answer" : NULL;
}

struct clearing *clear_outside(struct agent *a)
{
	clear_set_state(a->clearing, CLEAR_ENDED);
	return a->clearing;
}

struct agent *clear_ended(struct clearing *k)
{
	struct agent *a = k->agent;

	if (!a)
		free(k);
	return a;
}

const char *clear_why(const struct agent *a)
{
	return a->clearing->why;
}

void clear_cancel(struct agent *a)
{
	struct clearing *k = a->clearing;
	struct err e = {0};

	if (!k)
		return;
	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	a->clearing = NULL;
	k->agent = NULL;
	k->done(k->arg, e.code, &e, k->ended);
	if (k->state != CLEAR_ENDED) /* else the provider answers yet */
		free(k);
}
