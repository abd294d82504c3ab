#define LOG_SUBSYS "cutter"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "recorder/cutter_state.h"

static void tell_wait(struct cutter *c)
{
	static const struct id nobody;
	static const char json[] = "{\"event\":\"retention.wait\",\"outcome\":\"error\",\"principal\":\"recorder\","
				   "\"detail\":\"the wall clock ran ahead\"}";

	if (!c->retain_ns)
		return;
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
		rc = index_commit(c->index, false, e);
	if (rc)
		index_rollback(c->index);
	else if (jumped)
		tell_wait(c);
	return rc;
}

int cut_retain_due(struct cutter *c, struct err *e)
{
	uint64_t now = clock_boot_ns();
	bool jumped = false;
	size_t n = 0;
	int rc = retention_guard_check(&c->guard, c->index, &jumped, e);
	if (jumped)
		tell_wait(c);
	if (rc || c->guard.until_ns || !c->retain_ns || now < c->retention_ns)
		return rc;
	int64_t before = clock_wall_ns() - (int64_t)c->retain_ns;
	rc = retention_run(c->dir, c->index, c->chain, before, &n, e);
	/* A full batch: more of them wait. What failed is not to fail the cutter's next step too. */
	if (rc || n < RETENTION_BATCH)
		c->retention_ns = now + RETENTION_NS;
	return rc;
}
