/* One agent compared with what its provider has: what differs becomes its row. */
#define LOG_SUBSYS "life"
#include "base/log.h"
#include "base/text.h"
#include "control/life/life_state.h"

#include <string.h>

enum check_step { CHECK_LOOK, CHECK_BECOME, CHECK_ORPHAN };

static int check_over(struct life_agent *a)
{
	a->gone[0] = '\0';
	life_answer(a, life_first(a, WANTS(WANT_CHECK)), 0, NULL);
	return life_run_end(a);
}

static int becomes(struct life_agent *a, enum life_state state, const char *cause, const char *detail, bool workspace)
{
	const struct sandbox_info *i = &a->run->info;
	struct life_row *next = &a->run->next;

	*next = a->row;
	next->state = state;
	next->step[0] = '\0';
	next->sandbox = state == LIFE_RUNNING ? i->sandbox_id : (struct id){0};
	next->workspace = workspace;
	text_format(next->cause, sizeof(next->cause), "%.190s", cause);
	text_format(next->detail, sizeof(next->detail), "%.250s", detail);
	if (!a->row.generation) { /* the row is lost, and what it was made with is not */
		text_put(next->image, sizeof(next->image), i->image);
		next->resources = i->asked;
	}
	if (state == LIFE_RUNNING)
		next->active_ns = life_now(a->life);
	return CHECK_BECOME;
}

/* The sandbox ended, and not by us. */
static int life_check_ended(struct life_agent *a)
{
	const struct sandbox_info *i = &a->run->info;
	struct life_waiter *w = life_first(a, WANTS(WANT_CHECK));
	const char *why = a->gone[0] ? a->gone : i->detail[0] ? i->detail : w && w->reason[0] ? w->reason : "it ended";
	bool bad = a->gone[0] || i->state == SANDBOX_ERROR || !i->has_workspace;
	char detail[256] = "", id[ID_STR_LEN];

	if (!i->has_workspace && id_is_nil(&a->row.snapshot)) {
		snprintf(detail, sizeof(detail), "its workspace is gone and there is no snapshot of it");
	} else if (!i->has_workspace) {
		id_format(&a->row.snapshot, id);
		text_format(detail, sizeof(detail),
			    "its workspace is gone; the last good snapshot is %s, what was written after it "
			    "is lost",
			    id);
	} else if (bad) {
		snprintf(detail, sizeof(detail), "its workspace is there");
	}
	if (bad)
		life_count_failure(a->life, ERR_LINK_LOST);
	return becomes(a, bad ? LIFE_ERROR : LIFE_STOPPED, why, detail, i->has_workspace);
}

/* The sandbox runs though its row says that nothing does. Where its workspace is not the one of its snapshot it is
 * ended: nobody may work in it. */
static int found_running(struct life_agent *a)
{
	if (!a->row.generation || a->row.workspace || id_is_nil(&a->row.snapshot))
		return becomes(a, LIFE_RUNNING, "found running", "", true);
	return CHECK_ORPHAN;
}

static int ask_look(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_STAT, NULL, e);
}

static int life_check_on_looked(struct life_agent *a, int rc, const struct err *e)
{
	struct sandbox_info *i = &a->run->info;
	bool row = a->row.generation != 0;

	if (rc == ERR_NOT_FOUND) {
		memset(i, 0, sizeof(*i));
	} else if (rc) { /* it cannot be asked: nothing is guessed */
		log_info(&(struct log_ids){.agent = a->name}, "not compared: %s",
			 e && e->message[0] ? e->message : err_name(rc));
		return check_over(a);
	}
	if (row && a->row.state == LIFE_RUNNING) {
		if (i->state != SANDBOX_RUNNING)
			return life_check_ended(a);
		if (!id_equal(&i->sandbox_id, &a->row.sandbox) && !id_is_nil(&i->sandbox_id))
			return becomes(a, LIFE_RUNNING, "another incarnation was found", "", true);
	} else if (i->state == SANDBOX_RUNNING) {
		return found_running(a);
	} else if (!row && i->state != SANDBOX_ABSENT) {
		return becomes(a, i->state == SANDBOX_ERROR ? LIFE_ERROR : LIFE_STOPPED, "found", i->detail,
			       i->has_workspace);
	}
	return check_over(a);
}

static int life_check_on_become(struct life_agent *a, int rc, const struct err *e)
{
	(void)rc, (void)e;
	return check_over(a);
}

static int life_check_ask_end(struct life_agent *a, struct err *e)
{
	return life_ask(a, SANDBOX_DESTROY, "it should be stopped", e);
}

static int life_check_on_orphan_ended(struct life_agent *a, int rc, const struct err *e)
{
	(void)e;
	(void)life_audit(a->life, "sandbox.orphan", a->name, rc ? err_name(rc) : "ended",
			 json_pack("{s:s}", "why", "it ran though it should be stopped"));
	return check_over(a);
}

static const struct run_step steps[] = {
    [CHECK_LOOK] = {"look", ask_look, life_check_on_looked},
    [CHECK_BECOME] = {"become", life_commit_next, life_check_on_become, .writes = WRITES_ROW},
    [CHECK_ORPHAN] = {"orphan", life_check_ask_end, life_check_on_orphan_ended},
};
const struct run_kind life_check_kind = {"check", steps, NULL, NULL, NULL, NULL};

void life_check_run(struct life_agent *a)
{
	if (life_run_begin(a, &life_check_kind, "compared"))
		life_run_go(a, CHECK_LOOK);
}
