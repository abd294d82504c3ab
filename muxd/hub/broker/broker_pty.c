/* The terminal of a round: its size, and what it shows. What is typed is its stdin (broker_round.c). */
#define LOG_SUBSYS "broker"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/listener.h"
#include "muxd/hub/session/screen.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define SCREEN_STILL_NS (60 * NS_PER_MS) /* so long after its last output a program is taken to have drawn */

static int find_pty(struct hub *h, const struct request *rq, const struct id *round, bool types, const char *what,
		    struct session **out, struct policy_mark *out_mark, struct err *e)
{
	struct session *s = NULL;
	int rc = types ? broker_find_typed(h, rq, round, what, &s, e)
		       : broker_find_look(h, rq, round, what, &s, out_mark, e);

	if (rc)
		return rc;
	if (!s->launch.pty)
		return err_set(e, ERR_BAD_STATE, "the round has no terminal: it was started without pty");
	if (s->state == SESSION_ENDED || s->end >= END_KNOWN)
		return err_set(e, ERR_ENDED, "the round has ended, and its terminal with it");
	*out = s;
	return 0;
}

int broker_round_resize(struct hub *h, const struct request *rq, const struct id *round, unsigned cols, unsigned rows,
			struct err *e)
{
	struct session *s;
	int rc = find_pty(h, rq, round, true, "resize", &s, NULL, e);

	if (rc)
		return rc;
	rc = session_resize(s, NULL, cols, rows, 0, 0);
	hub_flush(h);
	return rc ? err_set(e, rc, "the terminal did not take its new size") : 0;
}

int broker_round_typable(struct hub *h, const struct request *rq, const struct id *round, uint64_t *out_offset,
			 struct err *e)
{
	struct session *s = NULL;
	int rc = find_pty(h, rq, round, true, "keys", &s, NULL, e);

	if (rc == 0)
		*out_offset = s->stream[STREAM_OUTPUT].end;
	return rc;
}

/* ---- the screen */

/*
 * One look at it, at once or once something has come and then nothing for SCREEN_STILL_NS. WAITING -> LOOKING (the
 * worker is asked) -> freed, with its timer closed.
 */
struct look_job {
	struct hub *hub;
	struct request rq;
	struct id round;
	bool types; /* for its keys alone: nobody is shown it */
	struct round_wait wait;
	struct round_listener listener;
	uv_timer_t timer;
	uint64_t until_ns; /* boot */
	broker_screen_done *done;
	void *arg;
};

static void broker_pty_on_closed(uv_handle_t *t)
{
	free(t->data);
}

static void look_end(struct look_job *j, int rc, const struct err *e, uint64_t offset, bool exact,
		     const struct picture *pic)
{
	j->done(j->arg, rc, rc ? e : NULL, offset, exact, pic);
	request_finish(&j->rq);
	uv_close((uv_handle_t *)&j->timer, broker_pty_on_closed);
}

static void broker_pty_on_look(void *arg, int rc, uint64_t offset, bool exact, const struct picture *pic)
{
	struct err e = {0};

	if (rc)
		err_set(&e, rc,
			rc == ERR_TIMEOUT     ? "the screen was not drawn in time"
			: rc == ERR_TOO_LARGE ? "the screen is larger than can be told"
					      : "there is no screen to be had");
	look_end(arg, rc, &e, offset, exact, pic);
}

/* The recorder does not know of a screen that is told from memory. */
static int audit_look(const struct session *s, const struct request *rq, struct err *e)
{
	int rc = audit_event(s->hub, "round.screen", rq, s->agent->name, "ok",
			     json_pack("{s:s,s:s}", "session", s->id_text, "task", s->launch.task));

	return rc ? err_set(e, ERR_RECORD_UNAVAILABLE, "the record takes nothing now") : 0;
}

static const char *look_name(bool types)
{
	return types ? "keys" : "screen";
}

/* The round is looked for again: it may have been waited for. */
static void look_now(struct look_job *j)
{
	struct session *s = NULL;
	struct err e = {0};
	int rc = find_pty(j->hub, &j->rq, &j->round, j->types, look_name(j->types), &s, &j->rq.policy, &e);

	round_unlisten(&j->listener);
	if (rc == 0 && !j->types && !broker_owns(&j->rq, s))
		rc = audit_look(s, &j->rq, &e);
	if (rc == 0 && (rc = screen_look(s, &j->rq, broker_pty_on_look, j)))
		err_set(&e, rc, "there is no screen to be had");
	if (rc)
		look_end(j, rc, &e, 0, false, NULL);
}

static void broker_pty_on_time(uv_timer_t *t)
{
	look_now(t->data);
}

/* Until it is still, or the time is over; an end is looked at in a turn of its own. */
static void look_wait(struct look_job *j)
{
	const struct session *s = hub_session_find(j->hub, &j->round);
	uint64_t now = clock_boot_ns(), ns = now < j->until_ns ? j->until_ns - now : 0;
	bool came = s && s->stream[STREAM_OUTPUT].end > j->wait.after;

	if (!s || s->end >= END_KNOWN)
		ns = 0;
	else if (came && ns > SCREEN_STILL_NS)
		ns = SCREEN_STILL_NS;
	uv_timer_start(&j->timer, broker_pty_on_time, ns / NS_PER_MS, 0);
}

/* Deaf: the round has left memory, which ends its looks; the hub that a timer would ask may be about to go as well. */
static void broker_pty_on_moved(void *arg)
{
	struct look_job *j = arg;
	struct err e = {0};

	if (j->listener.listens)
		look_wait(j);
	else
		look_end(j, err_set(&e, ERR_CANCELLED, "the round has gone, or the daemon is stopping"), &e, 0, false,
			 NULL);
}

static void broker_pty_on_event(void *arg, const char *event, const json_t *detail)
{
	(void)arg, (void)event, (void)detail;
}

static void look_begin(struct hub *h, const struct request *rq, const struct id *round, bool types,
		       const struct round_wait *wait, broker_screen_done *done, void *arg)
{
	struct look_job *j = calloc(1, sizeof(*j));
	struct session *s = NULL;
	struct err e = {0};
	int rc =
	    j ? find_pty(h, rq, round, types, look_name(types), &s, NULL, &e) : err_set(&e, ERR_NOMEM, "no memory");

	if (rc) {
		free(j);
		done(arg, rc, &e, 0, false, NULL);
		return;
	}
	j->hub = h;
	j->rq = *rq;
	j->round = *round;
	j->types = types;
	j->wait = wait ? *wait : (struct round_wait){0};
	j->until_ns = clock_boot_ns() + j->wait.wait_ns;
	j->listener = (struct round_listener){.moved = broker_pty_on_moved, .event = broker_pty_on_event, .arg = j};
	j->done = done;
	j->arg = arg;
	uv_timer_init(hub_loop(h), &j->timer);
	j->timer.data = j;
	if (!j->wait.wait_ns) {
		look_now(j);
		return;
	}
	round_listen(h, round, &j->listener);
	look_wait(j);
}

void broker_round_mode(struct hub *h, const struct request *rq, const struct id *round, broker_screen_done *done,
		       void *arg)
{
	look_begin(h, rq, round, true, NULL, done, arg);
}

void broker_round_screen(struct hub *h, const struct request *rq, const struct id *round, const struct round_wait *wait,
			 broker_screen_done *done, void *arg)
{
	look_begin(h, rq, round, false, wait, done, arg);
}
