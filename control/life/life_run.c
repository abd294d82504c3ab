/* A run goes from step to step, and ends. */
#define LOG_SUBSYS "life"
#include "control/life/life_run.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_NS       (1 * NS_PER_SEC)
#define RETRY_MAX_NS   (64 * NS_PER_SEC)
#define REFUSED_MAX_NS (8 * NS_PER_SEC)

struct life_run *life_run_begin(struct life_agent *a, const struct run_kind *kind, const char *cause)
{
	struct life_run *r = calloc(1, sizeof(*r));
	struct err e = {0};

	if (!r) {
		err_set(&e, ERR_NOMEM, "no memory");
		a->retry_at = clock_boot_ns() + RETRY_NS;
		life_answer_wants(a, ~0u, e.code, &e);
		return NULL;
	}
	r->kind = kind;
	r->id = ++a->life->next_run;
	r->began = r->step_began = clock_boot_ns();
	r->fd = -1;
	r->before = r->next = a->row;
	text_put(r->cause, sizeof(r->cause), cause);
	a->run = r;
	return r;
}

/* ---- what its programs were told */

void life_hold(struct life_agent *a)
{
	a->run->held = true;
	if (a->life->host.hold)
		a->life->host.hold(a->life->host.ctx, a->name, true);
}

static void unfreeze(struct life_agent *a)
{
	if (!a->run->frozen)
		return;
	a->run->frozen = false;
	if (a->life->host.thaw)
		a->life->host.thaw(a->life->host.ctx, a->name);
}

void life_thaw(struct life_agent *a)
{
	if (a->run->course == RUN_NO_WAY_BACK || a->life->dying)
		return;
	unfreeze(a);
	if (!a->run->held)
		return;
	a->run->held = false;
	if (a->life->host.hold)
		a->life->host.hold(a->life->host.ctx, a->name, false);
}

/* ---- its end */

void life_run_free(struct life_run *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	explicit_bzero(r->info.secret, sizeof(r->info.secret));
	free(r->list);
	free(r->own_template);
	free(r);
}

int life_run_end(struct life_agent *a)
{
	life_thaw(a);
	life_run_free(a->run);
	a->run = NULL;
	life_due(a);
	return RUN_OVER;
}

int life_run_break(struct life_agent *a, int rc, const struct err *e)
{
	struct err here = {0};

	if (!e || !e->message[0])
		err_set(&here, rc, "%s: %s", a->name, err_name(rc)), e = &here;
	log_error(&(struct log_ids){.agent = a->name}, "%s, cannot go on: %s", life_state_name(a->row.state),
		  e->message);
	a->retry_at = clock_boot_ns() + backoff(++a->tries, RETRY_NS, RETRY_MAX_NS);
	life_count_failure(a->life, rc);
	life_answer_wants(a, ~0u, rc, e);
	return life_run_end(a);
}

int life_run_over(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	return life_run_end(a);
}

/* ---- a question that is out */

struct life_call *life_call(struct life_agent *a, struct err *e)
{
	struct life_call *c = calloc(1, sizeof(*c));

	if (!c) {
		err_set(e, ERR_NOMEM, "no memory");
		return NULL;
	}
	c->life = a->life;
	text_put(c->agent, sizeof(c->agent), a->name);
	c->run = a->run ? a->run->id : 0;
	LIST_INSERT_HEAD(&a->life->calls, c, entry);
	return c;
}

struct life_agent *life_called(struct life_call *c)
{
	struct life *l = c->life;
	struct life_agent *a = l ? life_known(l, c->agent) : NULL;

	if (a && (!a->run || a->run->id != c->run))
		a = NULL;
	if (l)
		LIST_REMOVE(c, entry);
	free(c);
	return l && l->dying ? NULL : a;
}

/* ---- from step to step */

static int run_heard(struct life_agent *a, int rc, const struct err *e)
{
	const struct run_step *s = &a->run->kind->steps[a->run->step];

	if (rc == ERR_CANCELLED || (rc < 0 && s->writes == WRITES_ROW))
		return life_run_break(a, rc, e);
	return s->answered ? s->answered(a, rc, e) : s->then;
}

void life_run_go(struct life_agent *a, int step)
{
	struct life_run *r;
	struct err e;
	int rc;

	while (step != RUN_OVER) {
		r = a->run;
		r->unasked = r->again_at != 0;
		r->again_at = 0;
		r->refused = 0;
		if (r->kind->steps[step].undo && r->kind->turned(a))
			step = r->kind->steps[step].undo;
		log_debug(&(struct log_ids){.agent = a->name}, "%s: %s", r->kind->name, r->kind->steps[step].name);
		r->from = r->step;
		r->step = step;
		r->step_began = clock_boot_ns();
		e = (struct err){0};
		rc = r->kind->steps[step].ask(a, &e);
		step = rc == RUN_ASKED ? RUN_OVER : run_heard(a, rc, &e);
	}
}

void life_run_answer(struct life_agent *a, int rc, const struct err *e)
{
	life_run_go(a, run_heard(a, rc, e));
}

/* ---- a provider that has no place for the question */

void life_run_provided(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (rc != ERR_AGAIN) {
		life_run_answer(a, rc, e);
		return;
	}
	r->again_at = clock_boot_ns() + backoff(++r->refused, RETRY_NS, REFUSED_MAX_NS);
	log_warn(&(struct log_ids){.agent = a->name}, "%s: %s: is asked again: %s", r->kind->name,
		 r->kind->steps[r->step].name, e && e->message[0] ? e->message : err_name(rc));
}

void life_run_put_again(struct life_agent *a, uint64_t now)
{
	struct life_run *r = a->run;
	const struct run_step *s = &r->kind->steps[r->step];
	struct err e = {0};
	int rc;

	if (now < r->again_at)
		return;
	if (s->undo && r->kind->turned(a)) {
		life_run_go(a, s->undo);
		return;
	}
	r->again_at = 0;
	rc = s->ask(a, &e);
	if (rc != RUN_ASKED)
		life_run_answer(a, rc, &e);
}
