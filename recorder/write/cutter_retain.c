/* The cutter's part in retention: the clock that removals go by, which follows the log and waits when the wall
 * clock jumps.
 */
#define LOG_SUBSYS "cutter"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/write/cutter_state.h"

#include <stdio.h>

static void tell_wait(struct cutter *c)
{
	static const struct id nobody;
	const struct retention_policy *p = &c->policy;
	char json[256];

	if (p->retain.now == RETENTION_FOREVER && !p->retain.waits)
		return;
	snprintf(json, sizeof(json),
		 "{\"event\":\"" RETENTION_CLOCK_EVENT "\",\"outcome\":\"error\",\"principal\":\"recorder\","
		 "\"detail\":\"the wall clock ran ahead\",\"at_ns\":%lld}",
		 (long long)clock_wall_ns());
	log_warn(NULL, "the wall clock ran ahead: record.retain removes nothing for 24 h of uptime");
	if (drain_append_own(c->p.drain, RING_AUDIT, &nobody, json))
		log_error(NULL, "that retention waits could not be audited");
}

int cut_retain_start(struct cutter *c, struct err *e)
{
	bool jumped = false;
	int rc = index_begin(c->index, e);

	if (rc == 0)
		rc = retention_guard_start(&c->guard, c->index, &jumped, e);
	if (rc == 0)
		rc = index_fresh(c->index, &c->fresh, e);
	if (rc == 0)
		rc = index_commit(c->index, false, e);
	if (rc)
		index_rollback(c->index);
	else if (jumped)
		tell_wait(c);
	if (rc == 0)
		atomic_store(&c->clock_waits, clock_guard_waits(&c->guard));
	return rc;
}

/* The uptime of now counts for the wait, also when the next start is of another boot. */
int cut_retain_end(struct cutter *c, struct err *e)
{
	return c->retains && clock_guard_waits(&c->guard) ? retention_guard_keep(&c->guard, c->index, e) : 0;
}

bool cutter_clock_waits(void *cutter)
{
	const struct cutter *c = cutter;

	return atomic_load(&c->clock_waits);
}

/*
 * By the wall clock, and by the log alone: of a clock that went back nothing stays. Whoever verifies the record later
 * knows the moment of a removal, and not that it had been later before.
 */
static int advance(struct cutter *c, int64_t wall_ns, struct err *e)
{
	uint64_t before = c->policy.retain.now;
	int rc = wall_ns < c->advanced_ns ? cut_policy_load(c, e) : 0;

	if (rc)
		return rc;
	c->advanced_ns = wall_ns;
	retention_policy_advance(&c->policy, wall_ns);
	if (c->policy.retain.now != before)
		c->retention_ns = 0;
	return 0;
}

int cut_retain_due(struct cutter *c, struct err *e)
{
	struct retention_job job = {.dir = c->dir,
				    .index = c->index,
				    .chain = c->chain,
				    .policy = &c->policy,
				    .holds = &c->holds,
				    .now_ns = clock_wall_ns()};
	uint64_t now = clock_boot_ns();
	bool jumped = false;
	size_t n = 0;
	int rc = retention_guard_check(&c->guard, c->index, &jumped, e);

	atomic_store(&c->clock_waits, clock_guard_waits(&c->guard));
	/* Behind the word that the clock ran ahead, not before: nothing is to be counted by that clock. */
	if (jumped)
		tell_wait(c);
	if (rc == 0)
		rc = cut_config_due(c, e);
	/* What is in force and what is held stands in rows: nothing goes before those are known to be the record's. */
	if (rc || clock_guard_waits(&c->guard) || cut_compare_wanted(c))
		return rc;
	rc = advance(c, job.now_ns, e);
	if (rc || now < c->retention_ns)
		return rc;
	rc = retention_run(&job, &n, e);
	/* A full batch: more of them wait. What failed is not to fail the cutter's next step too. */
	if (rc || n < RETENTION_BATCH)
		c->retention_ns = now + RETENTION_NS;
	return rc;
}
