#include "muxd/hub/broker/executions.h"

#include "base/err.h"
#include "muxd/hub/broker/context_answer.h"

#include <stdlib.h>
#include <sys/queue.h>
#include <uv.h>

#define KEPT 32

struct kept {
	struct id round;
	json_t *answer; /* NULL: the place is free */
	size_t held;
	uint64_t asked; /* the number of its last question */
};

struct reading {
	TAILQ_ENTRY(reading) entry;
	struct executions *of;
	struct id round;
	bool ended;
	struct buf lines;
	json_t *answer;
	executions_done *done; /* NULL: it heard that the daemon ends */
	void *arg;
	uv_work_t work;
};

struct executions {
	uv_loop_t *loop;
	struct kept kept[KEPT];
	size_t held, waiting; /* bytes */
	uint64_t asked;
	TAILQ_HEAD(, reading) readings;
	bool busy; /* the first of them is in the worker's hands */
};

/* ---- kept */

static void kept_forget(struct executions *x, struct kept *k)
{
	x->held -= k->held;
	json_decref(k->answer);
	*k = (struct kept){0};
}

/* A free place, or that whose answer was not asked for the longest. */
static struct kept *kept_oldest(struct executions *x)
{
	struct kept *oldest = &x->kept[0];

	for (size_t i = 1; i < KEPT; i++)
		if (x->kept[i].asked < oldest->asked)
			oldest = &x->kept[i];
	return oldest;
}

/* The oldest that is there. */
static struct kept *kept_next(struct executions *x)
{
	struct kept *oldest = NULL;

	for (size_t i = 0; i < KEPT; i++)
		if (x->kept[i].answer && (!oldest || x->kept[i].asked < oldest->asked))
			oldest = &x->kept[i];
	return oldest;
}

static void kept_put(struct executions *x, const struct id *round, json_t *answer)
{
	size_t held = context_answer_held(answer);
	struct kept *k;

	if (held > EXECUTIONS_KEPT_MAX)
		return;
	while (x->held + held > EXECUTIONS_KEPT_MAX && (k = kept_next(x)))
		kept_forget(x, k);
	k = kept_oldest(x);
	kept_forget(x, k);
	*k = (struct kept){.round = *round, .answer = json_incref(answer), .held = held, .asked = ++x->asked};
	x->held += held;
}

json_t *executions_kept(struct executions *x, const struct id *round)
{
	for (size_t i = 0; i < KEPT; i++)
		if (x->kept[i].answer && id_equal(&x->kept[i].round, round)) {
			x->kept[i].asked = ++x->asked;
			return json_copy(x->kept[i].answer);
		}
	return NULL;
}

/* ---- read */

static void reading_free(struct reading *r)
{
	buf_finish(&r->lines);
	json_decref(r->answer);
	free(r);
}

static void reading_tell(struct reading *r, int rc, const char *message)
{
	executions_done *done = r->done;
	json_t *answer = r->answer;
	struct err e = {0};

	r->done = NULL;
	r->answer = NULL;
	if (!rc && !answer)
		rc = ERR_NOMEM;
	if (rc)
		err_set(&e, rc, "%s", rc == ERR_NOMEM ? "no memory for the answer" : message);
	if (done)
		done(r->arg, rc, rc ? &e : NULL, answer);
}

static void executions_begin(struct executions *x);

static void executions_on_work(uv_work_t *w)
{
	struct reading *r = w->data;

	r->answer = context_answer(buf_ptr(&r->lines), buf_len(&r->lines));
}

static void executions_on_worked(uv_work_t *w, int status)
{
	struct reading *r = w->data;
	struct executions *x = r->of;

	(void)status;
	if (!r->done) { /* its owner is gone */
		reading_free(r);
		return;
	}
	x->busy = false;
	TAILQ_REMOVE(&x->readings, r, entry);
	x->waiting -= buf_len(&r->lines);
	if (r->ended && r->answer) {
		json_t *own = json_copy(r->answer);

		kept_put(x, &r->round, r->answer);
		json_decref(r->answer);
		r->answer = own;
	}
	executions_begin(x);
	reading_tell(r, 0, NULL);
	reading_free(r);
}

/* The first in the row, where nobody is read. What somebody else had read meanwhile is not read again. */
static void executions_begin(struct executions *x)
{
	struct reading *r;

	while (!x->busy && (r = TAILQ_FIRST(&x->readings))) {
		r->work.data = r;
		r->answer = r->ended ? executions_kept(x, &r->round) : NULL;
		x->busy = !r->answer && uv_queue_work(x->loop, &r->work, executions_on_work, executions_on_worked) == 0;
		if (x->busy)
			return;
		TAILQ_REMOVE(&x->readings, r, entry);
		x->waiting -= buf_len(&r->lines);
		reading_tell(r, 0, NULL);
		reading_free(r);
	}
}

void executions_read(struct executions *x, const struct id *round, bool ended, struct buf *lines, executions_done *done,
		     void *arg)
{
	size_t n = buf_len(lines);
	struct reading *r;
	struct err e = {0};

	if (n <= EXECUTIONS_SHORT) {
		json_t *answer = context_answer(buf_ptr(lines), n);

		buf_finish(lines);
		done(arg, answer ? 0 : err_set(&e, ERR_NOMEM, "no memory for the answer"), answer ? NULL : &e, answer);
		return;
	}
	r = x->waiting + n <= EXECUTIONS_WAIT_MAX ? calloc(1, sizeof(*r)) : NULL;
	if (!r) {
		buf_finish(lines);
		done(arg, err_set(&e, ERR_UNAVAILABLE, "the output of other executions is being read: ask again"), &e,
		     NULL);
		return;
	}
	*r = (struct reading){.of = x, .round = *round, .ended = ended, .lines = *lines, .done = done, .arg = arg};
	buf_init(lines, lines->max);
	x->waiting += n;
	TAILQ_INSERT_TAIL(&x->readings, r, entry);
	executions_begin(x);
}

/* ---- all of them */

struct executions *executions_create(struct uv_loop_s *loop)
{
	struct executions *x = calloc(1, sizeof(*x));

	if (x) {
		x->loop = loop;
		TAILQ_INIT(&x->readings);
	}
	return x;
}

/* The first is the worker's until that is done with it, and goes then. */
void executions_destroy(struct executions *x)
{
	struct reading *r;
	bool busy;

	if (!x)
		return;
	busy = x->busy;
	while ((r = TAILQ_FIRST(&x->readings))) {
		TAILQ_REMOVE(&x->readings, r, entry);
		if (busy) {
			executions_done *done = r->done;
			struct err e = {0};

			r->done = NULL;
			done(r->arg, err_set(&e, ERR_CANCELLED, "the daemon is stopping"), &e, NULL);
		} else {
			reading_tell(r, ERR_CANCELLED, "the daemon is stopping");
			reading_free(r);
		}
		busy = false;
	}
	for (size_t i = 0; i < KEPT; i++)
		kept_forget(x, &x->kept[i]);
	free(x);
}
