/* The named steps around a start and a stop. With nothing in them they tell the audit log that nothing is configured.
 */
#include "base/clock.h"
#include "control/life/life_state.h"

static int step_once(struct life *l, const struct life_step *s, const char *agent, struct err *e)
{
	uint64_t began = clock_boot_ns();
	int rc = s->run(s->ctx, agent, e);

	life_time(l, TIME_SYNC, began);
	(void)life_audit(l, s->name, agent, rc ? err_name(rc) : "ok",
			 rc && e->message[0] ? json_pack("{s:s}", "message", e->message) : NULL);
	return rc;
}

/* A failure gets one more try (requirement A8). */
int life_step_run(struct life_agent *a, enum life_step_no n, struct err *e)
{
	const struct life_step *s = &a->life->steps[n];
	int rc;

	if (!s->run)
		return life_audit(a->life, s->name, a->name, "skipped",
				  json_pack("{s:s}", "why", "nothing is configured"));
	rc = step_once(a->life, s, a->name, e);
	if (rc)
		rc = step_once(a->life, s, a->name, e);
	return rc;
}
