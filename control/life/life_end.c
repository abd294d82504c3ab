/*
 * The end of a sandbox: leave (its sessions hear of it), end, drop (of what is in a snapshot); then it is stopped, or
 * in error with what went wrong. A stop comes here with its snapshot, RUN_END without one: running, error -> stopping.
 */
#define LOG_SUBSYS "life"
#include "base/text.h"
#include "control/life/life_state.h"

#include <string.h>

#define STEP_DROP "drop" /* it has ended, the workspace goes: what is left of it does not count */

static void on_over(struct life_agent *a, int rc, const struct err *e)
{
	struct life_run *r = a->run;

	if (life_run_broke(a, rc, e))
		return;
	life_time(a->life, TIME_STOP, r->began);
	if (r->failed.code)
		life_answer_wants(a, WANTS(WANT_STOP) | WANTS(WANT_END) | WANTS(WANT_RESTORE), r->failed.code,
				  &r->failed);
	life_drop_outdated(a);
	life_keep(a);
	life_run_end(a);
}

static void over(struct life_agent *a, bool workspace)
{
	struct life_run *r = a->run;
	struct life_row next = a->row;

	next.state = r->failed.code ? LIFE_ERROR : LIFE_STOPPED;
	next.step[0] = '\0';
	next.sandbox = (struct id){0};
	next.workspace = workspace;
	if (r->failed.code)
		text_format(next.detail, sizeof(next.detail), "%.250s", r->failed.message);
	life_commit(a, &next, NULL, on_over);
}

static void on_dropped(struct life_agent *a, int rc, const struct err *e)
{
	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (rc)
		text_format(a->row.detail, sizeof(a->row.detail), "its workspace could not be removed: %.200s",
			    e && e->message[0] ? e->message : err_name(rc));
	over(a, false); /* what may be left of it is half of it: the next start restores */
}

/* What is in the workspace is in the row's snapshot. */
static bool copied(const struct life_agent *a)
{
	const struct life_run *r = a->run;

	return r->snap.status == SNAP_READY || (r->no_copy && !id_is_nil(&a->row.snapshot));
}

bool life_end_drops(const struct life_agent *a)
{
	return strcmp(a->row.step, STEP_DROP) == 0;
}

static void drop(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c = p->ops->drop_workspace ? life_call(a, on_dropped) : NULL;

	if (c)
		p->ops->drop_workspace(p, a->name, life_on_sandbox, c);
	else if (!p->ops->drop_workspace)
		over(a, false);
}

static void on_drop_noted(struct life_agent *a, int rc, const struct err *e)
{
	if (!life_run_broke(a, rc, e))
		drop(a);
}

static void drop_it(struct life_agent *a)
{
	struct life_row next = a->row;

	snprintf(next.step, sizeof(next.step), STEP_DROP);
	life_commit(a, &next, NULL, on_drop_noted);
}

static void on_ended(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_run *r = a->run;
	struct life_wish wish;

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	if (rc && rc != ERR_NOT_FOUND) {
		err_set(&r->failed, rc, "it could not be ended: %.300s",
			e && e->message[0] ? e->message : err_name(rc));
		life_count_failure(a->life, rc);
	}
	life_wish(&a->life->policy, a->name, a->row.idle_ttl_ns, &wish);
	if (life_end_drops(a) && !r->failed.code)
		drop(a);
	else if (life_end_drops(a) || !r->has_workspace)
		over(a, false);
	else if (r->failed.code || !copied(a) || r->kind != RUN_STOP || !wish.at_rest_drop || !p->ops->drop_workspace)
		over(a, true);
	else
		drop_it(a);
}

static void on_left(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c;

	if (rc == ERR_CANCELLED) {
		life_run_break(a, rc, e);
		return;
	}
	c = life_call(a, on_ended);
	if (c)
		p->ops->destroy_sandbox(p, a->name, a->row.cause, life_on_sandbox, c);
}

void life_leave(struct life_agent *a)
{
	struct life_call *c;
	char why[256];

	a->run->left = true;
	if (!a->life->host.leave) {
		on_left(a, 0, NULL);
		return;
	}
	text_format(why, sizeof(why), "its sandbox was stopped: %.200s", a->row.cause);
	c = life_call(a, on_left);
	if (c)
		a->life->host.leave(a->life->host.ctx, a->name, why, life_on_host, c);
}

void life_end_again(struct life_agent *a)
{
	on_left(a, 0, NULL);
}

/* ---- as it is, without a snapshot */

static void on_end_looked(struct life_agent *a, int rc, const struct err *e)
{
	if (rc && rc != ERR_NOT_FOUND) {
		life_run_break(a, rc, e);
		return;
	}
	a->run->has_workspace = !rc && a->run->info.has_workspace;
	life_leave(a);
}

static void end_look(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c = life_call(a, on_end_looked);

	if (c)
		p->ops->stat(p, a->name, life_on_sandbox, c);
}

static void on_stopping_now(struct life_agent *a, int rc, const struct err *e)
{
	if (!life_run_broke(a, rc, e))
		end_look(a);
}

void life_end_run(struct life_agent *a, const char *cause)
{
	struct life_row next = a->row;

	if (!life_run_begin(a, RUN_END, cause))
		return;
	if (a->row.state == LIFE_STOPPING) {
		end_look(a);
		return;
	}
	next.state = LIFE_STOPPING;
	next.step[0] = '\0';
	text_format(next.cause, sizeof(next.cause), "%.190s", cause);
	next.detail[0] = '\0';
	life_commit(a, &next, NULL, on_stopping_now);
}
