/* Rounds by id: their state, waiting for them, their output from the record, their stdin and signals. */
#define LOG_SUBSYS "broker"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/internal.h"
#include "muxd/hub/reader.h"

#include <stdlib.h>
#include <string.h>

#define OUTPUT_LIMIT_MAX (1024 * 1024)

/* Another's: while it runs with observe or replay, once it has ended with replay, as the recorder has it. */
static int check_look(struct hub *h, const struct request *rq, const struct session *s, const char *what, struct err *e)
{
	uint32_t any = s->state == SESSION_ENDED ? SCOPE_REPLAY : SCOPE_OBSERVE | SCOPE_REPLAY;

	return broker_check_any(h, rq, s->agent->name, any, what, e);
}

/* scope: what its own principal needs to act on it, 0: to look at it. Another's is acted on with drive. */
static int find_round(struct hub *h, const struct request *rq, const struct id *round, uint32_t scope, const char *what,
		      struct session **out, struct err *e)
{
	struct session *s = hub_session_find(h, round);
	bool owner;

	err_set(e, ERR_NOT_FOUND, "no such round");
	if (!s || s->kind != SESSION_ROUND)
		return ERR_NOT_FOUND;
	if (!broker_may_see(rq, s)) {
		broker_hide(h, rq, s, what);
		return ERR_NOT_FOUND;
	}
	owner = strcmp(rq->grant.principal, s->grant.principal) == 0;
	*out = s;
	if (!owner && !scope)
		return check_look(h, rq, s, what, e);
	return broker_check(h, rq, s->agent->name, owner ? scope : SCOPE_DRIVE, what, e);
}

int broker_round(struct hub *h, const struct request *rq, const struct id *round, json_t **out, struct err *e)
{
	struct session *s;
	int rc = find_round(h, rq, round, 0, "round", &s, e);

	if (rc)
		return rc;
	*out = session_round_json(s);
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the answer");
}

/* ---- waiting */

struct wait_job {
	struct session_waiter waiter;
	uv_timer_t timer;
	struct session *session;
	broker_json_done *done;
	void *arg;
	bool over;
};

static void free_wait(uv_handle_t *t)
{
	free(t->data);
}

static void answer_wait(struct wait_job *w, struct session *s)
{
	json_t *o = session_round_json(s);
	struct err e = {0};

	if (w->over) {
		json_decref(o);
		return;
	}
	w->over = true;
	w->done(w->arg, o ? 0 : err_set(&e, ERR_NOMEM, "no memory for the answer"), o ? NULL : &e, o);
	json_decref(o);
	uv_close((uv_handle_t *)&w->timer, free_wait);
}

static void on_round_end(void *arg, struct session *s)
{
	answer_wait(arg, s);
}

static void on_wait_over(uv_timer_t *t)
{
	struct wait_job *w = t->data;

	LIST_REMOVE(&w->waiter, entry);
	answer_wait(w, w->session);
}

void broker_round_wait(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
		       broker_json_done *done, void *arg)
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
	rc = find_round(h, rq, round, 0, "round", &s, &e);
	if (!rc && (s->result_ready || wait_ns < NS_PER_MS)) {
		o = session_round_json(s);
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
	w->done = done;
	w->arg = arg;
	uv_timer_init(h->loop, &w->timer);
	w->timer.data = w;
	uv_timer_start(&w->timer, on_wait_over, wait_ns / NS_PER_MS, 0);
	session_wait(s, &w->waiter, on_round_end, w);
}

/* ---- output from the record */

struct output_job {
	broker_json_done *done; /* one of the two */
	broker_bytes_done *bytes_done;
	void *arg;
	json_t *head;
	struct buf bytes;
	uint64_t offset, limit;
	bool live; /* of a round that runs: who may look was checked here */
};

static void output_finish(struct output_job *j, int rc, const struct err *e)
{
	int64_t total = 0, offset = (int64_t)j->offset;
	struct err here = {0};

	if (!rc && !j->head)
		rc = err_set(&here, ERR_INTERNAL, "the recorder's answer has no head"), e = &here;
	if (!rc) {
		(void)json_opt_int(j->head, "total", 0, INT64_MAX, &total, NULL);
		(void)json_opt_int(j->head, "offset", 0, INT64_MAX, &offset, NULL);
	}
	if (j->bytes_done) {
		j->bytes_done(j->arg, rc, rc ? e : NULL, (uint64_t)offset, buf_ptr(&j->bytes), buf_len(&j->bytes));
		goto out;
	}
	if (!rc) {
		json_object_del(j->head, "total");
		json_object_set_new(j->head, "total_bytes", json_integer(total));
		json_object_set_new(j->head, "offset", json_integer(offset));
		json_object_set_new(j->head, "next_offset", json_integer(offset + (int64_t)buf_len(&j->bytes)));
		rc = json_set_bytes(j->head, "data", "encoding",
				    buf_ptr(&j->bytes) ? buf_ptr(&j->bytes) : (const uint8_t *)"", buf_len(&j->bytes));
	}
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : j->head);
out:
	json_decref(j->head);
	buf_finish(&j->bytes);
	free(j);
}

static void on_output(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n, bool end)
{
	struct output_job *j = arg;
	struct err here = {0};

	if (rc == ERR_NOT_FOUND) /* or kept from this grant */
		rc = err_set(&here, ERR_NOT_FOUND, j->bytes_done ? "no such session" : "no such round"), e = &here;
	if (rc) {
		output_finish(j, rc, e);
		return;
	}
	if (p && buf_append(&j->bytes, p, n))
		log_warn(NULL, "the recorder sent more than was asked for: cut");
	if (json && !j->head && json_object_get(json, "offset"))
		j->head = json_deep_copy(json);
	if (end)
		output_finish(j, 0, &here);
}

static int ask_output(struct hub *h, const struct request *rq, const struct id *session, int stream, uint64_t offset,
		      uint64_t limit, const struct output_job *how)
{
	static const char *const names[] = {"input", "stdout", "stderr"};
	struct output_job *j = malloc(sizeof(*j));
	char id[ID_STR_LEN];
	json_t *q;
	int rc;

	if (!j)
		return ERR_NOMEM;
	id_format(session, id);
	*j = *how;
	j->offset = offset;
	j->limit = limit && limit < OUTPUT_LIMIT_MAX ? limit : OUTPUT_LIMIT_MAX;
	buf_init(&j->bytes, OUTPUT_LIMIT_MAX);
	q = json_pack("{s:s,s:s,s:s,s:I,s:I,s:b}", "op", "output", "session", id, "stream", names[stream], "offset",
		      (json_int_t)offset, "limit", (json_int_t)j->limit, "live", j->live);
	rc = reader_ask(h, rq, q, on_output, j);
	if (rc)
		free(j);
	return rc;
}

void broker_round_output(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			 uint64_t limit, broker_json_done *done, void *arg)
{
	struct output_job how = {.done = done, .arg = arg};
	struct session *s = hub_session_find(h, round);
	struct err e = {0};
	int rc = s && s->kind == SESSION_ROUND ? find_round(h, rq, round, 0, "output", &s, &e) : 0;

	how.live = s && !rc && s->kind == SESSION_ROUND && s->state != SESSION_ENDED;
	if (!rc && ask_output(h, rq, round, stream, offset, limit, &how))
		rc = err_set(&e, ERR_UNAVAILABLE, "the recorder could not be asked");
	if (rc)
		done(arg, rc, &e, NULL);
}

void broker_output_bytes(struct hub *h, const struct request *rq, const struct id *session, int stream, uint64_t offset,
			 uint64_t limit, broker_bytes_done *done, void *arg)
{
	struct output_job how = {.bytes_done = done, .arg = arg};
	struct err e = {0};

	if (ask_output(h, rq, session, stream, offset, limit, &how)) {
		err_set(&e, ERR_UNAVAILABLE, "the recorder could not be asked");
		done(arg, e.code, &e, offset, NULL, 0);
	}
}

/* ---- stdin and signals */

int broker_round_stdin(struct hub *h, const struct request *rq, const struct id *round, uint64_t offset, const void *p,
		       size_t n, bool eof, size_t *out_taken, struct err *e)
{
	struct session *s;
	uint64_t at, skip = 0;
	size_t taken = 0;
	int rc = find_round(h, rq, round, SCOPE_ROUNDS, "stdin", &s, e);

	if (rc)
		return rc;
	if (!s->launch.stdin_open)
		return err_set(e, ERR_BAD_STATE, "the round was started without stdin_open");
	at = s->in_offset + buf_len(&s->in_queue);
	if (offset != UINT64_MAX && offset > at)
		return err_set(e, ERR_INVAL, "offset %llu is past the input's end at %llu", (unsigned long long)offset,
			       (unsigned long long)at);
	if (offset != UINT64_MAX)
		skip = at - offset < n ? at - offset : n; /* a repeat after a lost answer */
	if (n > skip)
		rc = session_queue_input(s, (const uint8_t *)p + skip, n - skip, &taken);
	if (!rc && eof && taken == n - skip)
		rc = session_input_eof(s);
	if (rc)
		return err_set(e, rc, rc == ERR_ENDED ? "the round's input is closed" : "the input was not taken");
	*out_taken = taken + (size_t)skip;
	hub_flush(h);
	return 0;
}

int broker_round_signal(struct hub *h, const struct request *rq, const struct id *round, int signum, struct err *e)
{
	struct session *s;
	int rc = find_round(h, rq, round, SCOPE_ROUNDS, "signal", &s, e);

	if (rc)
		return rc;
	if (s->state == SESSION_ENDED || s->exit_known)
		return err_set(e, ERR_ENDED, "the round has ended: there is nothing to signal");
	if (s->state != SESSION_RUNNING)
		return err_set(e, ERR_AGAIN, "the round is %s: try again", session_state_name(s->state));
	session_event(s, "signal",
		      json_pack("{s:s,s:s}", "signal", signal_name(signum), "principal", rq->grant.principal));
	rc = link_signal(s->agent->link, s->channel, signum);
	return rc ? err_set(e, rc, "the signal was not sent") : 0;
}
