/* Numbers for /metrics: how long starts, snapshots, restores, stops and syncs took, what failed, who is in which state.
 */
#include "base/clock.h"
#include "control/life/life_state.h"
#include "control/store/store.h"

#include <stdlib.h>

void life_time(struct life *l, enum life_timing t, uint64_t began_boot_ns)
{
	metric_times_add(&l->timing[t], clock_boot_ns() - began_boot_ns);
}

void life_count_failure(struct life *l, int code)
{
	struct life_failure *f = NULL;

	if (code == ERR_CANCELLED)
		return;
	HASH_FIND_INT(l->failures, &code, f);
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f)
			return;
		f->code = code;
		HASH_ADD_INT(l->failures, code, f);
	}
	f->n++;
}

static int life_metrics_count(struct sqlite3 *db, void *job, struct err *e)
{
	return rows_count(db, job, e);
}

/* Returns how many run. */
static int64_t states(struct life *l, json_t *list)
{
	json_t *now = metric_family(list, "gauge", "muxd_agents", "Agents by the state of their sandbox.");
	json_t *to =
	    metric_family(list, "counter", "muxd_lifecycle_transitions_total", "Changes of state, by the new one.");
	int64_t n[LIFE_ERROR + 1] = {0};

	(void)store_read(l->store, life_metrics_count, n, NULL);
	for (int s = LIFE_STOPPED; s <= LIFE_ERROR; s++) {
		metric_value(now, "state", life_state_name((enum life_state)s), (double)n[s]);
		metric_value(to, "to", life_state_name((enum life_state)s), (double)l->transitions[s]);
	}
	return n[LIFE_RUNNING];
}

void life_sync_took(struct life *l, uint64_t began_boot_ns)
{
	life_time(l, TIME_SYNC, began_boot_ns);
}

json_t *life_metrics(struct life *l)
{
	static const struct {
		const char *name, *help;
	} shown[TIMINGS] = {{"muxd_sandbox_start_seconds", "From the wish to a running sandbox, a restore included."},
			    {"muxd_sandbox_snapshot_seconds", "Taking a snapshot, until it is ready."},
			    {"muxd_sandbox_restore_seconds", "Restoring a workspace from a snapshot."},
			    {"muxd_sandbox_stop_seconds", "From the wish to a stopped sandbox, the snapshot included."},
			    {"muxd_filespace_sync_seconds", "Filespace syncs in either direction."}};
	json_t *list = json_array(), *failed;
	struct life_failure *f, *next;
	double awake;

	for (int i = 0; i < TIMINGS; i++)
		metric_times_value(metric_family(list, "histogram", shown[i].name, shown[i].help), NULL, NULL,
				   &l->timing[i]);
	awake = (double)states(l, list);
	if (!*life_cannot_sleep(l, &(struct life_wish){.idle_ttl_ns = l->policy.idle_ttl_ns}))
		awake = 0;
	metric_value(metric_family(list, "gauge", "muxd_agents_cannot_sleep",
				   "Running sandboxes that no idle stop can end, for it would lose their workspace."),
		     NULL, NULL, awake);
	failed = metric_family(list, "counter", "muxd_lifecycle_failures_total",
			       "Starts, stops, snapshots and restores that failed, by the error's stable code.");
	HASH_ITER(hh, l->failures, f, next)
	metric_value(failed, "reason", err_name(f->code), (double)f->n);
	return list;
}
