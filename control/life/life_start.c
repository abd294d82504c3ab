/*
 * stopped, error, none -> starting -> running.
 * Looked at first: what runs already is taken up; a workspace that is not there is restored from the current snapshot.
 */
#define LOG_SUBSYS "life"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"

#include <stdlib.h>
#include <string.h>

#define START_WANTS (WANTS(WANT_ENSURE) | WANTS(WANT_RESUME) | WANTS(WANT_CONNECT))

enum start_step {
	START_BEGIN,
	START_LOOK,
	START_LOST,
	START_RESTORE,
	START_RESTORED,
	START_ENSURE,
	START_RUNNING,
	START_FAILED,
};

/* The row says what went wrong, and whoever waits for the sandbox hears it. */
static int start_failed(struct life_agent *a, int rc, const struct err *e)
{
	err_again(&a->run->failed, rc, e, NULL);
	life_count_failure(a->life, rc);
	return START_FAILED;
}

/* ---- what is there */

/* The workspace that was there is gone: said, with what is left of it. An error: the record does not have it. */
static int lost(struct life_agent *a, struct life_row *next)
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
	return life_audit(a->life, "workspace.lost", a->name, "ok", json_pack("{s:s}", "message", next->detail));
}

/* The snapshot that the workspace is made from, if it can be. */
static int find_snapshot(struct life_agent *a)
{
	struct life_snap *s = &a->run->snap;
	struct err e = {0};
	int rc = life_snap_load(a->life, &a->row.snapshot, s, &e);

	if (!rc && s->status != SNAP_READY)
		rc = err_set(&e, ERR_SNAPSHOT, "the snapshot that %s needs is %s%s%s", a->name,
			     snap_status_name(s->status), s->detail[0] ? ": " : "", s->detail);
	if (!rc && !sandbox_can(a->life->inner, SANDBOX_RESTORE))
		rc = err_set(&e, ERR_UNSUPPORTED, "this backend cannot restore snapshots");
	if (!rc)
		rc = life_template_tell(a, &e);
	return rc ? start_failed(a, rc, &e) : START_RESTORE;
}

static int ask_look(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_STAT, NULL, e);
}

/* Of a loss that a row does not know of there is nothing to restore from, and it is told by each start until another
 * workspace has followed. */
static bool is_lost(const struct life_agent *a)
{
	const struct sandbox_info *i = &a->run->info;

	return !i->has_workspace && (a->row.workspace || (i->workspace_lost && id_is_nil(&a->row.snapshot)));
}

static int life_start_on_looked(struct life_agent *a, int rc, const struct err *e)
{
	const struct sandbox_info *i = &a->run->info;
	struct life_row *next = &a->run->next;

	if (rc && rc != ERR_NOT_FOUND)
		return start_failed(a, rc, e);
	if (!rc && i->state == SANDBOX_RUNNING)
		return START_ENSURE; /* a start that nobody could note, before a crash */
	*next = a->row;
	if (is_lost(a)) {
		a->run->empty = !lost(a, next) && id_is_nil(&next->snapshot);
		next->workspace = false;
	}
	if (next->workspace)
		return START_ENSURE;
	if (id_is_nil(&next->snapshot))
		return next->detail[0] ? START_LOST : START_ENSURE;
	memcpy(a->row.detail, next->detail, sizeof(next->detail));
	return find_snapshot(a);
}

/* ---- the workspace */

static int ask_restore(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_RESTORE, NULL, e);
}

static int life_start_on_restored(struct life_agent *a, int rc, const struct err *e)
{
	char id[ID_STR_LEN];

	id_format(&a->row.snapshot, id);
	(void)life_audit(a->life, "snapshot.restore", a->name, rc ? err_name(rc) : "ok",
			 json_pack("{s:s,s:s,s:I,s:s*}", "id", id, "from", a->run->snap.agent, "duration_ms",
				   (json_int_t)((clock_boot_ns() - a->run->step_began) / NS_PER_MS), "message",
				   rc ? e && e->message[0] ? e->message : err_name(rc) : NULL));
	if (rc)
		return start_failed(a, rc, e);
	life_time(a->life, TIME_RESTORE, a->run->step_began);
	a->run->next = a->row;
	a->run->next.workspace = true;
	snprintf(a->run->next.step, sizeof(a->run->next.step), "start");
	return START_RESTORED;
}

/* ---- the sandbox */

/* The agent's end as ask_running() will set it, which is no later than this. */
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

static int ask_ensure(struct life_agent *a, struct err *e)
{
	int rc = 0;

	if (a->run->info.state != SANDBOX_RUNNING)
		rc = life_step_run(a, STEP_PULL, e);
	if (rc)
		return rc;
	life_tell_end(a, end_to_come(a), false);
	rc = life_template_tell(a, e);
	return rc ? rc : life_ask(a, SANDBOX_ENSURE, NULL, e);
}

static int life_start_on_ensured(struct life_agent *a, int rc, const struct err *e)
{
	return rc ? start_failed(a, rc, e) : START_RUNNING;
}

static int ask_running(struct life_agent *a, struct err *e)
{
	struct life_row next = a->row;
	struct life_wish wish;
	struct err why = {0};
	int64_t now = life_now(a->life);

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
	return life_commit(a, &next, NULL, e);
}

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
	sandbox_answer(w->stream, w->arg, 0, NULL, &info, fd);
	explicit_bzero(&info, sizeof(info));
	free(w);
}

static int life_start_on_running(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	life_time(a->life, TIME_START, a->run->began);
	hand_out(a);
	return life_run_end(a);
}

/* ---- failed */

static int ask_failed(struct life_agent *a, struct err *e)
{
	struct life_row next = a->row;

	next.state = LIFE_ERROR;
	next.step[0] = '\0';
	text_format(next.cause, sizeof(next.cause), "the start failed: %s", err_name(a->run->failed.code));
	text_format(next.detail, sizeof(next.detail), "%.250s", a->run->failed.message);
	next.sandbox = (struct id){0};
	return life_commit(a, &next, NULL, e);
}

static int life_start_on_failed(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	life_answer_wants(a, START_WANTS, a->run->failed.code, &a->run->failed);
	return life_run_end(a);
}

static const struct run_step steps[] = {
    [START_BEGIN] = {"starting", life_commit_next, .then = START_LOOK, .writes = WRITES_ROW},
    [START_LOOK] = {"look", ask_look, life_start_on_looked},
    [START_LOST] = {"lost", life_commit_next, .then = START_ENSURE, .writes = WRITES_ROW},
    [START_RESTORE] = {"restore", ask_restore, life_start_on_restored},
    [START_RESTORED] = {"restored", life_commit_next, .then = START_ENSURE, .writes = WRITES_ROW},
    [START_ENSURE] = {"ensure", ask_ensure, life_start_on_ensured},
    [START_RUNNING] = {"running", ask_running, life_start_on_running, .writes = WRITES_ROW},
    [START_FAILED] = {"failed", ask_failed, life_start_on_failed, .writes = WRITES_ROW},
};

void life_start(struct life_agent *a, const char *cause)
{
	struct life_run *r = life_run_begin(a, &life_start_kind, cause);

	if (!r)
		return;
	r->next.state = LIFE_STARTING;
	snprintf(r->next.step, sizeof(r->next.step), LIFE_STEP_RESTORE);
	text_format(r->next.cause, sizeof(r->next.cause), "%.190s", cause);
	r->next.detail[0] = '\0';
	r->own_template = a->own_template;
	a->own_template = NULL;
	if (r->own_template)
		life_template_digest(r->own_template, r->next.pod_template);
	life_run_go(a, START_BEGIN);
}

/* Found so after a crash. */
static bool start_again(struct life_agent *a)
{
	if (life_run_begin(a, &life_start_kind, a->row.cause))
		life_run_go(a, START_LOOK);
	return true;
}

const struct run_kind life_start_kind = {"start", steps, start_again, NULL, NULL, NULL};
