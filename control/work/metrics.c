/* Numbers of leases, runs and the pool; also in Prometheus' text format, 0.0.4. */
#include "base/buf.h"
#include "base/clock.h"
#include "control/work/state.h"

#include <string.h>

static const uint64_t run_ms[WORK_BUCKETS] = {100, 500, 1000, 5000, 15000, 30000, 60000, 300000, 900000, 3600000};
static const uint64_t claim_ms[WORK_BUCKETS] = {1, 2, 5, 10, 25, 50, 100, 500, 2500, 10000};

uint64_t work_run_bucket_ms(unsigned i)
{
	return run_ms[i];
}

uint64_t work_claim_bucket_ms(unsigned i)
{
	return claim_ms[i];
}

const char *work_reason_name(unsigned i)
{
	static const char *const names[WORK_REASONS] = {"timeout", "crash", "error", "released", "expired", "lost"};

	return names[i];
}

void count_time(uint64_t buckets[WORK_BUCKETS + 1], uint64_t (*bucket)(unsigned), uint64_t ns)
{
	unsigned i = 0;

	while (i < WORK_BUCKETS && ns > bucket(i) * NS_PER_MS)
		i++;
	buckets[i]++;
}

void work_numbers(const struct work *w, struct work_numbers *out)
{
	if (!w) {
		memset(out, 0, sizeof(*out));
		return;
	}
	*out = w->n;
	out->leases_active = HASH_COUNT(w->leases);
	out->pool_ready = pool_count(w, POOL_READY);
	out->pool_filling = pool_count(w, POOL_FILLING);
	out->pool_discarding = pool_count(w, POOL_DISCARDING);
}

/* ---- as text */

static int head(struct buf *out, const char *name, const char *type, const char *help)
{
	return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int metrics_one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
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
	int rc = metrics_one(out, "muxd_leases_active", "gauge", "Leases that live now.", n->leases_active);

	if (!rc)
		rc = metrics_one(out, "muxd_leases_granted_total", "counter", "Leases granted.", n->leases_granted);
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
		rc = metrics_one(out, "muxd_pool_target", "gauge",
				 "Sandboxes that the pool wants ready, by recent demand.", n->pool_target);
	return rc ? rc
		  : metrics_one(out, "muxd_pool_fill_failures_total", "counter",
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
		rc = metrics_one(out, "muxd_runs", "gauge", "Runs of workflows under way.", n.runs_live);
	if (!rc)
		rc = metrics_one(out, "muxd_runs_succeeded_total", "counter", "Runs that succeeded.", n.runs_succeeded);
	if (!rc)
		rc = head(out, "muxd_runs_failed_total", "counter", "Runs that failed, by reason.");
	for (unsigned i = 0; !rc && i < WORK_REASONS; i++)
		rc = buf_printf(out, "muxd_runs_failed_total{reason=\"%s\"} %llu\n", work_reason_name(i),
				(unsigned long long)n.runs_failed[i]);
	return rc ? rc
		  : histogram(out, "muxd_run_duration_seconds", "Time from the start of a run to its end.",
			      n.run_buckets, work_run_bucket_ms, n.run_duration_ns);
}
