/* The index compared with the recordings while the cutter has nothing else to do, and made anew when it was lost. */
#define LOG_SUBSYS "index"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/index/index_rebuild.h"
#include "recorder/write/cutter_state.h"

#include <stdlib.h>
#include <time.h>

#define COMPARE_STEP     500 /* entries or rows, under the turn */
#define COMPARE_AGAIN_NS (60 * NS_PER_SEC)

static void cutter_index_on_found(void *arg, const struct index_finding *f)
{
	static const char *const words[] = {"changed", "added", "missing"};
	struct cutter *c = arg;

	log_error(NULL, "audit.db: %s %s: %s%s%s", f->table, f->key, words[f->what], f->column ? " in " : "",
		  f->column ? f->column : "");
	if (!c->compare_first[0])
		text_format(c->compare_first, sizeof(c->compare_first), "%s %s: %s%s%s", f->table, f->key,
			    words[f->what], f->column ? " in " : "", f->column ? f->column : "");
}

static void cutter_index_tell(struct cutter *c, const uint64_t n[INDEX_DIFFERENCES])
{
	json_t *o =
	    json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "event", "index.differs", "outcome", "error", "principal",
		      "recorder", "changed", (json_int_t)n[INDEX_CHANGED], "added", (json_int_t)n[INDEX_ADDED],
		      "missing", (json_int_t)n[INDEX_MISSING], "detail", c->compare_first);

	if (drain_audit(c->p.drain, NULL, o))
		log_error(NULL, "that audit.db had other rows than the record could not be audited");
}

static int compare_step(struct cutter *c, bool *out_more, struct err *e)
{
	struct index_compare_params p = {
	    .dir = c->dir, .index = c->index, .mend = true, .found = cutter_index_on_found, .arg = c};
	struct index_cursor at;
	uint64_t n[INDEX_DIFFERENCES];
	int rc = index_begin(c->index, e);

	if (rc == 0 && !c->compare) {
		atomic_store(&c->compare_wanted, false);
		c->compare_first[0] = '\0';
		follower_cursor(c->follower, &at);
		p.durable_lsn = at.lsn;
		rc = index_compare_begin(&p, &c->compare, e);
	}
	if (rc == 0)
		rc = index_compare_step(c->compare, COMPARE_STEP, e);
	*out_more = rc == 1;
	if (rc < 0)
		return rc;
	if ((rc = index_commit(c->index, false, e)) != 0 || *out_more)
		return rc;
	index_compare_counts(c->compare, n);
	index_compare_end(c->compare);
	c->compare = NULL;
	(void)index_take_unsound(c->index);
	if (n[INDEX_CHANGED] || n[INDEX_ADDED] || n[INDEX_MISSING]) {
		cutter_index_tell(c, n);
		/* What is in force was read from rows. */
		rc = cut_policy_load(c, e);
	}
	pthread_mutex_lock(&c->lock);
	c->compared++;
	pthread_cond_broadcast(&c->moved);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

bool cut_compare_wanted(struct cutter *c)
{
	if (index_written_by_others(c->index) || index_take_unsound(c->index))
		atomic_store(&c->compare_wanted, true);
	return c->compare || atomic_load(&c->compare_wanted);
}

void cut_compare(struct cutter *c, bool *out_more)
{
	struct err e = {0};

	if (!cut_compare_wanted(c) || clock_boot_ns() < c->compare_ns || compare_step(c, out_more, &e) >= 0)
		return;
	/* Cutting does not wait for it. */
	log_warn(NULL, "audit.db could not be compared with the record, that is tried again: %s", e.message);
	index_rollback(c->index);
	index_compare_end(c->compare);
	c->compare = NULL;
	c->compare_ns = clock_boot_ns() + COMPARE_AGAIN_NS;
	atomic_store(&c->compare_wanted, true);
	*out_more = false;
}

void cutter_index_lost(struct cutter *c)
{
	struct err e = {0};

	if (atomic_exchange(&c->index_lost, true))
		return;
	log_error(NULL, "audit.db is damaged: the recorder starts again and makes it again from the record");
	if (index_condemn(c->dir, &e))
		log_error(NULL, "%s: the next start finds the damage by its check alone", e.message);
}

bool cutter_lost_index(const struct cutter *c)
{
	return atomic_load(&c->index_lost);
}

int cutter_compare(struct cutter *c, bool suspect, uint64_t timeout_ns)
{
	uint64_t until = clock_boot_ns() + timeout_ns, at;
	int rc = 0;

	pthread_mutex_lock(&c->turn);
	if (suspect)
		atomic_store(&c->compare_wanted, true);
	bool wanted = cut_compare_wanted(c);
	/* One that runs may be past the row in question. */
	at = c->compared + 1 + (suspect && c->compare);
	pthread_mutex_unlock(&c->turn);
	if (!wanted)
		return 0;
	cut_wait_begin(c);
	pthread_mutex_lock(&c->lock);
	while (c->compared < at && clock_boot_ns() < until && !atomic_load(&c->stopping)) {
		struct timespec ts;
		clock_gettime(CLOCK_MONOTONIC, &ts);
		ts.tv_nsec += 50 * 1000 * 1000;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&c->moved, &c->lock, &ts);
	}
	rc = c->compared < at ? ERR_TIMEOUT : 0;
	pthread_mutex_unlock(&c->lock);
	cut_wait_end(c);
	return rc;
}
