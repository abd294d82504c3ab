/*
 * stopped, error, none -> starting -> running.
 * Looked at first: what runs already is taken up; a workspace that is not there is restored from the current snapshot.
 */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_WANTS (WANTS(WANT_ENSURE) | WANTS(WANT_RESUME) | WANTS(WANT_CONNECT))

static void failed(struct life_agent *a, int rc, const struct err *e);

/* ---- ready */

static void hand_out(struct life_agent *a)
{
	struct life_waiter *w = life_first(a, WANTS(WANT_ENSURE));
	struct sandbox_info info = a->run->info;
	int fd = a->run->fd;

	if (!w)
		return; /* the run closes the stream: whoever comes later asks for one */
	a->run->fd = -1;
	life_overlay(a->life, &a->row, &info);
	TAILQ_REMOVE(&a->waiters, w, entry);
	w->stream(w->arg, 0, NULL, &info, fd);
	explicit_bzero(&info, sizeof(info));
	free(w);
}

static void on_running(struct life_agent *a, int rc, const struct err *e)
{
	if (life_run_broke(a, rc, e))
		return;
	life_time(a->life, TIME_START, a->run->began);
	hand_out(a);
	life_run_end(a);
}

static void on_started(struct life_agent *a, int rc, const struct err *e)
{
	struct life_row next = a->row;
	struct life_wish wish;
	struct err why = {0};
	int64_t now = life_now(a->life);

	if (rc) {
		failed(a, rc, e);
		return;
	}
	(void)life_step_run(a, STEP_MCP, &why);
	life_wish(&a->life->policy, a->name, next.idle_ttl_ns, &wish);
	next.state = LIFE_RUNNING;
	next.step[0] = '\0';
	next.sandbox = a->run->info.sandbox_id;
	next.workspace = true;
	next.active_ns = now;
	if (next.expires_ns <= now)
		next.expires_ns = wish.ttl_ns ? now + (int64_t)wish.ttl_ns : 0;
	a->warned = false;
	if (why.message[0])
		text_format(next.detail, sizeof(next.detail), "%.250s", why.message);
	life_commit(a, &next, NULL, on_running);
}

/* The agent's end as on_started() will set it, which is no later than this. */
static int64_t end_to_come(const struct life_agent *a)
{
	const struct life_policy *p = &a->life->policy;
	int64_t now = life_now(a->life);
	struct life_wish wish;

	life_wish(p, a->name, a->row.idle_ttl_ns, &wish);
	if (a->row.expires_ns > now)
		return a->row.expires_ns;
	return wish.ttl_ns ? now + (int64_t)(wish.ttl_ns + p->start_timeout_ns) : 0;
}

static void go(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct err why = {0};
	struct life_call *c;

	if (a->run->info.state != SANDBOX_RUNNING && life_step_run(a, STEP_PULL, &why)) {
		failed(a, why.code, &why);
		return;
	}
	life_tell_end(a, end_to_come(a), false);
	if (life_template_tell(a, &why)) {
		failed(a, why.code, &why);
		return;
	}
	c = life_call(a, on_started);
	if (c)
		p->ops->ensure(p, a->name, life_on_sandbox, c);
}

/* ---- the workspace */

static void on_restore_noted(struct life_agent *a, int rc, const struct err *e)
{
	if (!life_run_broke(a, rc, e))
		go(a);
}

static void on_restored(struct life_agent *a, int rc, const struct err *e)
{
	struct life_row next = a->row;
	char id[ID_STR_LEN];
	json_t *d;

	id_format(&a->row.snapshot, id);
	d = json_pack("{s:s,s:s,s:I,s:s*}", "id", id, "from", a->run->snap.agent, "duration_ms",
		      (json_int_t)((clock_boot_ns() - a->run->step_began) / NS_PER_MS), "message",
		      rc ? e && e->message[0] ? e->message : err_name(rc) : NULL);
	if (rc != ERR_CANCELLED)
		(void)life_audit(a->life, "snapshot.restore", a->name, rc ? err_name(rc) : "ok", d);
	else
		json_decref(d);
	if (rc) {
		failed(a, rc, e);
		return;
	}
	life_time(a->life, TIME_RESTORE, a->run->step_began);
	next.workspace = true;
	snprintf(next.step, sizeof(next.step), "start");
	life_commit(a, &next, NULL, on_restore_noted);
}

static void restore(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_snap s = {0};
	struct err e = {0};
	struct life_call *c;
	int rc = life_snap_load(a->life, &a->row.snapshot, &s, &e);

	if (!rc && s.status != SNAP_READY)
		rc = err_set(&e, ERR_SNAPSHOT, "the snapshot that %s needs is %s%s%s", a->name,
			     snap_status_name(s.status), s.detail[0] ? ": " : "", s.detail);
	if (!rc && !p->ops->restore)
		rc = err_set(&e, ERR_UNSUPPORTED, "this backend cannot restore snapshots");
	if (!rc)
		rc = life_template_tell(a, &e);
	if (rc) {
		failed(a, rc, &e);
		return;
	}
	a->run->snap = s;
	a->run->step_began = clock_boot_ns();
	c = life_call(a, on_restored);
	if (c)
		p->ops->restore(p, a->name, s.agent, &s.id, a->row.read_only, a->life->policy.restore_timeout_ns,
				life_on_sandbox, c);
}

/* What was there is gone: said, with what is left of it. */
static void lost(struct life_agent *a, struct life_row *next)
{
	char id[ID_STR_LEN];

	if (id_is_nil(&a->row.snapshot)) {
		snprintf(next->detail, sizeof(next->detail),
			 "the workspace is gone and there is no snapshot of it: it begins "
			 "empty");
	} else {
		id_format(&a->row.snapshot, id);
		text_format(next->detail, sizeof(next->detail),
			    "the workspace is gone: restored from snapshot %s, what was written after it is lost", id);
	}
	log_warn(&(struct log_ids){.agent = a->name}, "%s", next->detail);
	(void)life_audit(a->life, "workspace.lost", a->name, "ok", json_pack("{s:s}", "message", next->detail));
}

static void on_looked(struct life_agent *a, int rc, const struct err *e)
{
	const struct sandbox_info *i = &a->run->info;
	struct life_row next = a->row;

	if (rc && rc != ERR_NOT_FOUND) {
		failed(a, rc, e);
		return;
	}
	if (!rc && i->state == SANDBOX_RUNNING) {
		go(a); /* a start that nobody could note, before a crash */
		return;
	}
	if (a->row.workspace && !i->has_workspace) {
		lost(a, &next);
		next.workspace = false;
	}
	if (id_is_nil(&next.snapshot)) {
		if (next.workspace || !next.detail[0]) {
			go(a);
			return;
		}
		life_commit(a, &next, NULL, on_restore_noted);
		return;
	}
	if (!next.workspace) {
		memcpy(a->row.detail, next.detail, sizeof(next.detail));
		restore(a);
		return;
	}
	go(a);
}

static void look(struct life_agent *a)
{
	struct sandbox_provider *p = a->life->inner;
	struct life_call *c = life_call(a, on_looked);

	if (c)
		p->ops->stat(p, a->name, life_on_sandbox, c);
}

static void on_starting(struct life_agent *a, int rc, const struct err *e)
{
	if (!life_run_broke(a, rc, e))
		look(a);
}

void life_start(struct life_agent *a, const char *cause)
{
	struct life_row next = a->row;

	if (!life_run_begin(a, RUN_START, cause))
		return;
	if (a->row.state == LIFE_STARTING && a->row.generation) { /* found so after a crash */
		look(a);
		return;
	}
	next.state = LIFE_STARTING;
	snprintf(next.step, sizeof(next.step), LIFE_STEP_RESTORE);
	text_format(next.cause, sizeof(next.cause), "%.190s", cause);
	next.detail[0] = '\0';
	a->run->own_template = a->own_template;
	a->own_template = NULL;
	if (a->run->own_template)
		life_template_digest(a->run->own_template, next.pod_template);
	life_commit(a, &next, NULL, on_starting);
}

/* ---- failed */

static void on_failed(struct life_agent *a, int rc, const struct err *e)
{
	if (life_run_broke(a, rc, e))
		return;
	life_answer_wants(a, START_WANTS, a->run->failed.code, &a->run->failed);
	life_run_end(a);
}

static void failed(struct life_agent *a, int rc, const struct err *e)
{
	struct life_row next = a->row;

	if (rc == ERR_CANCELLED) { /* the daemon ends: the row says where to go on */
		life_run_break(a, rc, e);
		return;
	}
	err_set(&a->run->failed, rc, "%s", e && e->message[0] ? e->message : err_name(rc));
	life_count_failure(a->life, rc);
	next.state = LIFE_ERROR;
	next.step[0] = '\0';
	text_format(next.cause, sizeof(next.cause), "the start failed: %s", err_name(rc));
	text_format(next.detail, sizeof(next.detail), "%.250s", a->run->failed.message);
	next.sandbox = (struct id){0};
	life_commit(a, &next, NULL, on_failed);
}
