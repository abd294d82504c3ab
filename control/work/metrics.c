/* Numbers of leases, runs and the pool in Prometheus' text format, 0.0.4. */
#include "control/work/work.h"

#include "base/buf.h"
#include "base/clock.h"

static int head(struct buf *out, const char *name, const char *type, const char *help)
{
	return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
	int rc = head(out, name, type, help);

	return rc ? rc : buf_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

static int histogram(struct buf *out, const char *name, const char *help, const uint64_t *buckets,
		     uint64_t (*ms)(unsigned), uint64_t sum_ns)
{
	uint64_t count = 0;
	int rc = head(out, name, "histogram", help);

	for (unsigned i = 0; !rc && i <= WORK_BUCKETS; i++) {
		count += buckets[i];
		if (i < WORK_BUCKETS)
			rc = buf_printf(out, "%s_bucket{le=\"%llu.%03llu\"} %llu\n", name,
					(unsigned long long)(ms(i) / 1000), (unsigned long long)(ms(i) % 1000),
					(unsigned long long)count);
		else
			rc = buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)count);
	}
	if (!rc)
		rc = buf_printf(out, "%s_sum %llu.%09llu\n", name, (unsigned long long)(sum_ns / NS_PER_SEC),
				(unsigned long long)(sum_ns % NS_PER_SEC));
	return rc ? rc : buf_printf(out, "%s_count %llu\n", name, (unsigned long long)count);
}

static int leases(const struct work_numbers *n, struct buf *out)
{
	int rc = one(out, "muxd_leases_active", "gauge", "Leases that live now.", n->leases_active);

	if (!rc)
		rc = one(out, "muxd_leases_granted_total", "counter", "Leases granted.", n->leases_granted);
	if (!rc)
		rc = head(out, "muxd_leases_ended_total", "counter", "Leases that ended, by state.");
	if (!rc)
		rc = buf_printf(out, "muxd_leases_ended_total{state=\"EXPIRED\"} %llu\n",
				(unsigned long long)n->leases_expired);
	if (!rc)
		rc = buf_printf(out, "muxd_leases_ended_total{state=\"RELEASED\"} %llu\n",
				(unsigned long long)n->leases_released);
	return rc ? rc
		  : histogram(out, "muxd_lease_grant_seconds", "Time from a call for a lease to its grant.",
			      n->claim_buckets, work_claim_bucket_ms, n->claim_duration_ns);
}

static int pool(const struct work_numbers *n, struct buf *out)
{
	int rc = head(out, "muxd_pool_sandboxes", "gauge", "Sandboxes of the pool, by state.");

	if (!rc)
		rc = buf_printf(
		    out,
		    "muxd_pool_sandboxes{state=\"ready\"} %llu\nmuxd_pool_sandboxes{state=\"filling\"} %llu\n"
		    "muxd_pool_sandboxes{state=\"discarding\"} %llu\n",
		    (unsigned long long)n->pool_ready, (unsigned long long)n->pool_filling,
		    (unsigned long long)n->pool_discarding);
	if (!rc)
		rc = one(out, "muxd_pool_target", "gauge", "Sandboxes that the pool wants ready, by recent demand.",
			 n->pool_target);
	return rc ? rc
		  : one(out, "muxd_pool_fill_failures_total", "counter",
			"Sandboxes of the pool that could not be made.", n->pool_fill_failed);
}

int work_metrics(const struct work *w, struct buf *out)
{
	struct work_numbers n;
	int rc;

	work_numbers(w, &n);
	rc = leases(&n, out);
	if (!rc)
		rc = pool(&n, out);
	if (!rc)
		rc = one(out, "muxd_runs", "gauge", "Runs of workflows under way.", n.runs_live);
	if (!rc)
		rc = one(out, "muxd_runs_succeeded_total", "counter", "Runs that succeeded.", n.runs_succeeded);
	if (!rc)
		rc = head(out, "muxd_runs_failed_total", "counter", "Runs that failed, by reason.");
	for (unsigned i = 0; !rc && i < WORK_REASONS; i++)
		rc = buf_printf(out, "muxd_runs_failed_total{reason=\"%s\"} %llu\n", work_reason_name(i),
				(unsigned long long)n.runs_failed[i]);
	return rc ? rc
		  : histogram(out, "muxd_run_duration_seconds", "Time from the start of a run to its end.",
			      n.run_buckets, work_run_bucket_ms, n.run_duration_ns);
}
