/* Rounds by id: their state, waiting for them, their stdin and signals. */
#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_round.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/recall.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_input.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* ---- waiting */

struct wait_job {
	struct session_waiter waiter;
	uv_timer_t timer;
	struct session *session;
	struct request rq; /* its grant may be revoked meanwhile */
	broker_json_done *done;
	void *arg;
	json_t *(*told)(const struct session *s);
	const void *asker; /* broker_round_left() */
	bool over;
};

static void free_wait(uv_handle_t *t)
{
	struct wait_job *w = t->data;

	request_finish(&w->rq);
	free(w);
}

static void wait_end(struct wait_job *w, int rc, const struct err *e, json_t *o)
{
	w->over = true;
	w->done(w->arg, rc, e, o);
	uv_close((uv_handle_t *)&w->timer, free_wait);
}

/* The grant is looked at when its holder is answered, too: the wait may have been longer than the grant. */
static void answer_wait(struct wait_job *w, struct session *s)
{
	struct err e = {0};
	json_t *o = NULL;
	int rc;

	if (w->over)
		return;
	rc = broker_in_force(s->hub, &w->rq, "round", &e);
	if (!rc && !(o = w->told(s)))
		rc = err_set(&e, ERR_NOMEM, "no memory for the answer");
	if (rc)
		err_set_begun(&e, s->id_text, true);
	wait_end(w, rc, rc ? &e : NULL, o);
	json_decref(o);
}

static void broker_round_on_round_end(void *arg, struct session *s)
{
	answer_wait(arg, s);
}

static void broker_round_on_wait_over(uv_timer_t *t)
{
	struct wait_job *w = t->data;

	LIST_REMOVE(&w->waiter, entry);
	answer_wait(w, w->session);
}

void broker_round_left(struct hub *h, const struct id *round, const void *asker)
{
	struct session *s = hub_session_find(h, round);
	struct session_waiter *at = s ? LIST_FIRST(&s->waiters) : NULL;
	struct err e = {0};

	while (at && (at->fn != broker_round_on_round_end || ((struct wait_job *)at->arg)->asker != asker))
		at = LIST_NEXT(at, entry);
	if (!at)
		return;
	LIST_REMOVE(at, entry);
	err_set(&e, ERR_CANCELLED, "nobody waits for this any more");
	wait_end(at->arg, e.code, &e, NULL);
}

static void round_wait(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
		       json_t *(*told)(const struct session *s), broker_json_done *done, void *arg, const void *asker)
{
	struct wait_job *w = NULL;
	struct err e = {0};
	struct session *s;
	json_t *o;
	int rc;

	if (!hub_session_find(h, round)) {
		round_recall(h, rq, round, done, arg);
		return;
	}
	rc = broker_find_round(h, rq, round, 0, "round", &s, &e);
	if (!rc && (s->end == END_TOLD || wait_ns < NS_PER_MS)) {
		o = told(s);
		done(arg, 0, NULL, o);
		json_decref(o);
		return;
	}
	if (!rc && !(w = calloc(1, sizeof(*w))))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	if (rc) {
		done(arg, rc, &e, NULL);
		return;
	}
	w->session = s;
	w->told = told;
	w->rq = *rq;
	w->done = done;
	w->arg = arg;
	w->asker = asker;
	uv_timer_init(hub_loop(h), &w->timer);
	w->timer.data = w;
	uv_timer_start(&w->timer, broker_round_on_wait_over, wait_ns / NS_PER_MS, 0);
	session_wait(s, &w->waiter, broker_round_on_round_end, w);
}

void broker_round_wait(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
		       broker_json_done *done, void *arg)
{
	round_wait(h, rq, round, wait_ns, session_round_json, done, arg, arg);
}

void broker_round_wait_brief(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
			     broker_json_done *done, void *arg, const void *asker)
{
	round_wait(h, rq, round, wait_ns, session_round_brief, done, arg, asker);
}

/* ---- stdin and signals */

static int give_input(struct session *s, const struct request *rq, const void *p, size_t n, size_t *out_taken)
{
	*out_taken = 0;
	return n && session_input_by(s, rq->grant.principal) ? session_queue_input(s, p, n, out_taken) : 0;
}

static int tell_input(struct session *s, int rc, struct err *e)
{
	session_settle(s);
	hub_flush(s->hub);
	return rc ? err_set(e, rc, rc == ERR_ENDED ? "the round's input is closed" : "the input was not taken") : 0;
}

int broker_round_type(struct hub *h, const struct request *rq, const struct id *round, const void *p, size_t n,
		      struct err *e)
{
	struct session *s;
	size_t taken = 0;
	int rc = broker_find_typed(h, rq, round, "keys", &s, e);

	if (rc)
		return rc;
	rc = session_queue_fits(s, n) ? tell_input(s, give_input(s, rq, p, n, &taken), e) : 0;
	if (!rc && taken < n)
		rc = err_set(e, ERR_AGAIN, "the program takes no input now: none of the %zu bytes were typed", n);
	return rc;
}

static uint64_t input_end(const struct session *s)
{
	return s->in_offset + buf_len(&s->in_queue);
}

/* Of what is sent at an offset before the end: how many bytes are a repeat. Else another writer's stand there. */
static int repeated_input(const struct session *s, uint64_t offset, const uint8_t *p, size_t n, size_t *out,
			  struct err *e)
{
	uint64_t before = offset < s->given_from ? s->given_from - offset : 0;
	size_t known = before < n ? (size_t)before : n;

	known += given_repeats(s->given, offset + known, p + known, n - known);
	if (n && !known && !given_knows(s->given, offset))
		return err_set(
		    e, ERR_BAD_STATE,
		    "others have written so much behind offset %llu that it is not known whether this was taken before",
		    (unsigned long long)offset);
	if (n && !known)
		return err_set(
		    e, ERR_CONFLICT,
		    "another writer's input stands at offset %llu: none of this was taken, and the input ends at %llu",
		    (unsigned long long)offset, (unsigned long long)input_end(s));
	*out = known;
	return 0;
}

int broker_round_stdin(struct hub *h, const struct request *rq, const struct id *round, uint64_t offset, const void *p,
		       size_t n, bool eof, size_t *out_taken, struct err *e)
{
	struct session *s;
	uint64_t at;
	size_t taken = 0, skip = 0;
	int rc = broker_find_typed(h, rq, round, "stdin", &s, e);

	if (rc)
		return rc;
	if (!s->launch.stdin_open)
		return err_set(e, ERR_BAD_STATE, "the round was started without stdin_open");
	at = input_end(s);
	if (offset != UINT64_MAX && offset > at)
		return err_set(e, ERR_INVAL, "offset %llu is past the input's end at %llu", (unsigned long long)offset,
			       (unsigned long long)at);
	if (offset < at && (rc = repeated_input(s, offset, p, n, &skip, e)))
		return rc;
	if (offset == UINT64_MAX || offset + skip == at) /* else others have written behind the repeat */
		rc = give_input(s, rq, (const uint8_t *)p + skip, n - skip, &taken);
	if (!rc && offset != UINT64_MAX)
		(void)given_note(&s->given, at, (const uint8_t *)p + skip, taken);
	if (!rc && eof && taken == n - skip)
		rc = session_input_eof(s);
	rc = tell_input(s, rc, e);
	if (!rc)
		*out_taken = taken + skip;
	return rc;
}

int broker_round_stdin_end(struct hub *h, const struct request *rq, const struct id *round, uint64_t *out,
			   struct err *e)
{
	struct session *s;
	int rc = broker_find_typed(h, rq, round, "stdin", &s, e);

	if (!rc)
		*out = input_end(s);
	return rc;
}

int broker_round_signal(struct hub *h, const struct request *rq, const struct id *round, int signum, struct err *e)
{
	struct session *s;
	int rc = broker_find_signalled(h, rq, round, &s, e);

	if (rc)
		return rc;
	if (s->state == SESSION_ENDED || s->end >= END_KNOWN)
		return err_set(e, ERR_ENDED, "the round has ended: there is nothing to signal");
	if (s->state != SESSION_RUNNING)
		return err_set(e, ERR_AGAIN, "the round is %s: try again", session_state_name(s->state));
	session_event(s, "signal",
		      json_pack("{s:s,s:s}", "signal", signal_name(signum), "principal", rq->grant.principal));
	s->kill_sent = s->kill_sent || signum == SIGKILL;
	rc = link_signal(s->agent->link, s->channel, signum);
	return rc ? err_set(e, rc, "the signal was not sent") : 0;
}
