/* The terminal of a round: its size, and what it shows. What is typed is its stdin (broker_round.c). */
#define LOG_SUBSYS "broker"
#include "base/err.h"
#include "muxd/hub/agent.h"
#include "muxd/hub/audit.h"
#include "muxd/hub/broker_check.h"
#include "muxd/hub/hub_state.h"
#include "muxd/hub/screen.h"
#include "muxd/hub/session_state.h"
#include "muxd/hub/wake.h"

#include <stdlib.h>
#include <string.h>

static int find_pty(struct hub *h, const struct request *rq, const struct id *round, uint32_t scope, const char *what,
		    struct session **out, struct err *e)
{
	struct session *s = NULL;
	int rc = broker_find_round(h, rq, round, scope, what, &s, e);

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
	int rc = find_pty(h, rq, round, SCOPE_ROUNDS, "resize", &s, e);

	if (rc)
		return rc;
	rc = session_resize(s, NULL, cols, rows, 0, 0);
	hub_flush(h);
	return rc ? err_set(e, rc, "the terminal did not take its new size") : 0;
}

int broker_round_typable(struct hub *h, const struct request *rq, const struct id *round, struct err *e)
{
	struct session *s;

	return find_pty(h, rq, round, SCOPE_ROUNDS, "keys", &s, e);
}

struct look_job {
	broker_screen_done *done;
	void *arg;
};

static void broker_pty_on_look(void *arg, int rc, uint64_t offset, bool exact, const struct picture *pic)
{
	struct look_job *j = arg;
	struct err e = {0};

	if (rc)
		err_set(&e, rc,
			rc == ERR_TIMEOUT     ? "the screen was not drawn in time"
			: rc == ERR_TOO_LARGE ? "the screen is larger than can be told"
					      : "there is no screen to be had");
	j->done(j->arg, rc, rc ? &e : NULL, offset, exact, pic);
	free(j);
}

/* What is told from memory no recorder tells of. */
static int audit_look(const struct session *s, const struct request *rq, struct err *e)
{
	int rc = audit_event(s->hub, "round.screen", rq, s->agent->name, "ok",
			     json_pack("{s:s,s:s}", "session", s->id_text, "task", s->launch.task));

	return rc ? err_set(e, ERR_RECORD_UNAVAILABLE, "the record takes nothing now") : 0;
}

void broker_round_screen(struct hub *h, const struct request *rq, const struct id *round, broker_screen_done *done,
			 void *arg)
{
	struct look_job *j = calloc(1, sizeof(*j));
	struct session *s = NULL;
	struct err e = {0};
	int rc = j ? find_pty(h, rq, round, 0, "screen", &s, &e) : err_set(&e, ERR_NOMEM, "no memory");

	if (rc == 0 && strcmp(rq->grant.principal, s->grant.principal) != 0)
		rc = audit_look(s, rq, &e);
	if (rc == 0) {
		*j = (struct look_job){.done = done, .arg = arg};
		rc = screen_look(s, rq, broker_pty_on_look, j);
		if (rc)
			err_set(&e, rc, "there is no screen to be had");
	}
	if (rc) {
		free(j);
		done(arg, rc, &e, 0, false, NULL);
	}
}
