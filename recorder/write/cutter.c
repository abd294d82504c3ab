#define LOG_SUBSYS "cutter"
#include "recorder/write/cutter.h"

#include "base/background.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/index/hole.h"
#include "recorder/write/cutter_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define IDLE_WAIT_NS   (2 * NS_PER_SEC) /* checkpoints, heads, retention, rows that somebody else wrote */
#define FAILED_WAIT_NS (100 * NS_PER_MS)
#define LAST_NS        (2 * NS_PER_SEC) /* of an end; a longer debt is the next start's */

static int copy_rules(struct cutter *c, const struct conf *conf, struct err *e)
{
	struct conf_rule *rules = calloc(conf->nrules ? conf->nrules : 1, sizeof(*rules));
	int rc = rules ? 0 : ERR_NOMEM;
	for (size_t i = 0; rc == 0 && i < conf->nrules; i++) {
		rules[i] = conf->rules[i];
		rules[i].kind = strdup(conf->rules[i].kind);
		rules[i].session = strdup(conf->rules[i].session);
		if (!rules[i].kind || !rules[i].session)
			rc = ERR_NOMEM;
	}
	/* Readers (cutter_rule) hold `lock`, the cutter itself `turn`: writing needs both. */
	struct conf_rule *old = rc ? rules : c->rules;
	size_t n = rc ? conf->nrules : c->nrules;
	pthread_mutex_lock(&c->lock);
	if (rc == 0) {
		c->segment_size = conf->record_segment_size;
		c->rules = rules;
		c->nrules = conf->nrules;
	}
	pthread_mutex_unlock(&c->lock);
	for (size_t i = 0; old && i < n; i++) {
		free(old[i].kind);
		free(old[i].session);
	}
	free(old);
	return rc ? err_set(e, rc, "out of memory") : 0;
}

static int take_load(struct cutter *c, const struct conf *conf, const json_t *loaded, struct err *e)
{
	struct config_load *l;
	int rc = config_load_create(conf, loaded, &l, e);

	if (rc)
		return rc;
	config_loads_add(&c->load, l);
	return 0;
}

/* There is something to do that no record tells of. */
static void cutter_hurry(struct cutter *c)
{
	atomic_store(&c->hurry, true);
	drain_nudge(c->p.drain);
}

int cutter_configure(struct cutter *c, const struct conf *conf, const json_t *loaded, struct err *e)
{
	pthread_mutex_lock(&c->turn);
	int rc = copy_rules(c, conf, e);
	if (rc == 0)
		rc = take_load(c, conf, loaded, e);
	pthread_mutex_unlock(&c->turn);
	cutter_hurry(c);
	return rc;
}

/* A full disk keeps no door shut: the cutter tries again, and cuts nothing meanwhile. */
static int restore(struct cutter *c, struct err *e)
{
	int rc = cut_restore(c, e);

	if (rc || c->retains)
		return rc;
	rc = cut_retain_start(c, e);
	c->retains = rc == 0;
	return rc;
}

static uint64_t recoveries(const struct cutter *c)
{
	struct drain_status s;

	drain_status(c->p.drain, &s);
	return s.recoveries;
}

static void step_failed(struct cutter *c, const struct err *e)
{
	bool suspects = c->suspects.n && !c->failed, first = !c->retry.failures && !c->retry.hurried;

	index_rollback(c->index);
	/* Recordings that are to be cut anew do not wait, when that is all that is wrong; each may be found to be one.
	 */
	retry_failed(&c->retry, clock_boot_ns(), suspects ? (unsigned)c->n + 1 : 0);
	c->failed = true;
	c->recoveries = recoveries(c);
	pthread_mutex_lock(&c->lock);
	if (first) /* what the next tries say the status has */
		log_warn(NULL, "cutting waits: %s", e->message);
	else if (strcmp(c->seen.message, e->message) != 0)
		log_debug(NULL, "cutting still waits: %s", e->message);
	c->seen.state = "waiting";
	c->seen.failures = c->retry.failures;
	text_put(c->seen.message, sizeof(c->seen.message), e->message);
	pthread_mutex_unlock(&c->lock);
}

int cutter_create(const struct cutter_params *p, struct cutter **out, struct err *e)
{
	uint64_t cut = 0;
	struct cutter *c = calloc(1, sizeof(*c));
	if (!c) {
		index_close(p->index);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	c->p = *p;
	c->index = p->index;
	atomic_init(&c->clock_waits, true);
	pthread_mutex_init(&c->turn, NULL);
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->moved, &attr);
	pthread_cond_init(&c->help, &attr);
	pthread_condattr_destroy(&attr);
	c->seen.state = "idle";
	open_files_init(&c->files, p->open_max ? p->open_max : open_files_most());
	c->dir = strdup(p->dir);
	int rc = c->dir ? copy_rules(c, p->conf, e) : err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0)
		rc = take_load(c, p->conf, p->loaded, e);
	if (rc == 0)
		rc = chain_open(c->dir, p->signer, &c->chain, &cut, e);
	if (rc == 0 && cut)
		log_warn(NULL, "the chain log's torn tail was cut off: %llu bytes", (unsigned long long)cut);
	if (rc == 0)
		rc = hole_find(c->dir, c->p.segments_fd, c->chain, c->index, &c->hole, e);
	if (rc == 0) {
		rc = restore(c, e);
		c->failed = rc == ERR_DISK_FULL;
	}
	if (c->failed) {
		step_failed(c, e);
		rc = 0;
	}
	if (rc) {
		if (index_damaged(c->index))
			cutter_index_lost(c);
		cutter_destroy(c);
		return rc;
	}
	c->consumed = c->stored.lsn;
	atomic_store(&c->compare_wanted, true);
	c->checkpoint_ns = c->head_ns = clock_boot_ns();
	*out = c;
	return 0;
}

static uint64_t debt_of(const struct segment_tail *durable, const struct index_cursor *at, uint64_t segment_size)
{
	if (at->segment > durable->number)
		return 0;
	if (at->segment == durable->number)
		return durable->offset > at->offset ? durable->offset - at->offset : 0;
	return (durable->number - at->segment) * segment_size + durable->offset;
}

static void tell_progress(struct cutter *c, const char *state)
{
	struct segment_tail durable;
	struct index_cursor at;

	drain_durable(c->p.drain, &durable);
	follower_cursor(c->follower, &at);
	pthread_mutex_lock(&c->lock);
	if (strcmp(c->seen.state, state) != 0)
		log_debug(NULL, "state %s -> %s", c->seen.state, state);
	c->seen.state = state;
	c->seen.open = c->n;
	c->seen.failures = c->retry.failures;
	if (!c->seen.failures)
		c->seen.message[0] = 0;
	/* A log that is empty, or ends before the place where one goes on, is consumed as well. */
	c->consumed = durable.number && at.segment <= durable.number ? at.lsn : durable.lsn;
	c->debt = debt_of(&durable, &at, c->segment_size);
	pthread_cond_broadcast(&c->moved);
	if (c->debt > CUTTER_DEBT_MAX)
		pthread_cond_signal(&c->help);
	pthread_mutex_unlock(&c->lock);
}

static int damaged_place(struct cutter *c, const struct segment_tail *until, const struct err *why)
{
	static const struct id nobody;
	struct index_cursor at;
	char json[256];

	follower_cursor(c->follower, &at);
	log_error(NULL, "the segment log is damaged: %s", why->message);
	snprintf(json, sizeof(json),
		 "{\"event\":\"journal.damaged\",\"outcome\":\"error\",\"principal\":\"recorder\",\"segment\":%llu,"
		 "\"offset\":%llu}",
		 (unsigned long long)at.segment, (unsigned long long)at.offset);
	follower_skip(c->follower, until);
	return drain_append_own(c->p.drain, RING_AUDIT, &nobody, json);
}

static int consume(struct cutter *c, bool *out_more, struct err *e)
{
	struct segment_tail until;
	struct segment_record sr;
	size_t bytes = 0;
	int rc = 0, n = 0;

	drain_durable(c->p.drain, &until);
	while (bytes < STEP_BYTES && n < STEP_RECORDS) {
		rc = follower_read(c->follower, &until, &sr, e);
		if (rc == ERR_CORRUPT) {
			rc = damaged_place(c, &until, e);
			if (rc)
				return rc;
			continue;
		}
		if (rc != 1)
			break;
		if (c->next_lsn && sr.lsn > c->next_lsn && (rc = cut_gap(c, sr.lsn, e)) != 0)
			return rc;
		c->next_lsn = sr.lsn + 1;
		if ((rc = cut_record(c, &sr, e)) != 0)
			return rc;
		bytes += sr.raw_len;
		n++;
	}
	c->bytes += bytes;
	*out_more = rc == 1 || bytes >= STEP_BYTES || n >= STEP_RECORDS;
	return rc < 0 ? rc : 0;
}

static int store_offsets(struct cutter *c, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		struct cut_session *s = c->sessions[i];
		if (!s->touched)
			continue;
		rc = index_put_offsets(c->index, &s->id, s->offsets, e);
		s->touched = false;
	}
	return rc;
}

static bool checkpoint_due(const struct cutter *c)
{
	uint64_t now = clock_boot_ns();
	return c->bytes >= CHECKPOINT_BYTES || (c->bytes && now >= c->checkpoint_ns + CHECKPOINT_NS) ||
	       (c->bytes && c->stopping);
}

static int sign_due(struct cutter *c, struct err *e)
{
	struct chain_head head;
	uint64_t fresh, now = clock_boot_ns();
	int rc;

	if (!c->sign_now && now < c->head_ns + HEAD_NS)
		return 0;
	chain_head(c->chain, &head, &fresh);
	if (fresh && (rc = chain_sign_head(c->chain, clock_wall_ns(), e)) != 0)
		return rc;
	c->sign_now = false;
	c->head_ns = now;
	return 0;
}

static int step_inside(struct cutter *c, bool *out_more, struct err *e)
{
	int rc = index_begin(c->index, e);
	if (rc == 0)
		rc = consume(c, out_more, e);
	if (rc == 0)
		rc = store_offsets(c, e);
	if (rc == 0)
		rc = cut_seal_due(c, atomic_load(&c->waiters) ? UINT64_MAX : clock_boot_ns(), e);
	if (rc == 0)
		rc = sign_due(c, e);
	if (rc == 0 && !*out_more)
		rc = cut_retain_due(c, e);
	if (rc)
		return rc;
	if (checkpoint_due(c))
		return cut_checkpoint(c, e);
	return index_commit(c->index, false, e);
}

/* When the journal found room again, most likely there is room for this, too. */
static bool retry_now(struct cutter *c)
{
	return c->recoveries != recoveries(c) || retry_due(&c->retry, clock_boot_ns(), atomic_load(&c->waiters));
}

static void step_worked(struct cutter *c, bool more)
{
	unsigned failures = c->retry.failures;

	if (retry_worked(&c->retry, clock_boot_ns(), !more && cut_seal_next(c) == UINT64_MAX))
		log_info(NULL, "cutting goes on after %u tries that failed", failures);
}

/* How long the idle thread may sleep: a seal may come due before anything new arrives. */
static uint64_t pause_of(const struct cutter *c)
{
	uint64_t now = clock_boot_ns(), next = cut_seal_next(c);
	if (next <= now)
		return 1;
	uint64_t idle = clock_to_tick_ns(IDLE_WAIT_NS);

	return next - now < idle ? next - now : idle;
}

/* One bounded piece of work. Returns how long there will be nothing to do, unless more than *out_consumed is there;
 * 0 = go on. */
static uint64_t cutter_step(struct cutter *c, uint64_t *out_consumed)
{
	struct err e = {0};
	bool more = false;
	uint64_t pause = FAILED_WAIT_NS;
	int rc = 0;

	pthread_mutex_lock(&c->turn);
	if (c->failed) {
		if (!retry_now(c) || atomic_load(&c->index_lost))
			goto out;
		rc = restore(c, &e);
		c->failed = rc != 0;
	}
	if (rc == 0)
		rc = step_inside(c, &more, &e);
	if (rc) {
		step_failed(c, &e);
		if (index_damaged(c->index))
			cutter_index_lost(c);
		goto out;
	}
	step_worked(c, more);
	if (!more)
		cut_compare(c, &more);
	if (index_damaged(c->index))
		cutter_index_lost(c);
	tell_progress(c, more ? "busy" : "idle");
	live_forget_ended(c->p.live, c->consumed);
	pause = more ? 0 : pause_of(c);
	if (!more && memory_due(&c->rest, clock_boot_ns()))
		memory_give();
out:
	*out_consumed = c->failed ? UINT64_MAX : c->consumed; /* there is more than that, and it is no reason to wake */
	pthread_mutex_unlock(&c->turn);
	return pause;
}

static void *idle_main(void *arg)
{
	struct cutter *c = arg;
	uint64_t consumed, pause;
	if (c->p.background)
		background_enter();
	while (!atomic_load(&c->stopping)) {
		atomic_store(&c->hurry, false);
		pause = cutter_step(c, &consumed);
		if (pause && !atomic_load(&c->stopping))
			(void)drain_wait(c->p.drain, consumed, pause, &c->hurry);
	}
	return NULL;
}

/* Until somebody waits, or the debt is too large: idle time alone does not do it. */
static void wait_for_work(struct cutter *c)
{
	pthread_mutex_lock(&c->lock);
	while (!atomic_load(&c->stopping) && !atomic_load(&c->waiters) && c->debt <= CUTTER_DEBT_MAX)
		pthread_cond_wait(&c->help, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

static void *helper_main(void *arg)
{
	struct cutter *c = arg;
	uint64_t consumed;
	for (;;) {
		wait_for_work(c);
		if (atomic_load(&c->stopping))
			break;
		if (cutter_step(c, &consumed)) {
			struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
			nanosleep(&pause, NULL);
		}
	}
	return NULL;
}

int cutter_start(struct cutter *c, struct err *e)
{
	int en = pthread_create(&c->idle, NULL, idle_main, c);
	c->idle_runs = en == 0;
	if (en == 0) {
		en = pthread_create(&c->helper, NULL, helper_main, c);
		c->helper_runs = en == 0;
	}
	return en ? err_sys(e, en, "cannot start a thread") : 0;
}

/* The drain stored its last records just now: an end without a kill leaves none of them out of the index and unsigned.
 */
static void catch_up(struct cutter *c)
{
	uint64_t until = clock_boot_ns() + LAST_NS, consumed;

	while (!c->failed && cutter_step(c, &consumed) == 0 && clock_boot_ns() < until) {
		/* one bounded piece each */
	}
}

static void last_checkpoint(struct cutter *c)
{
	struct err e = {0};

	if (index_begin(c->index, &e) || cut_retain_end(c, &e) || cut_checkpoint(c, &e) ||
	    chain_sign_head(c->chain, clock_wall_ns(), &e)) {
		index_rollback(c->index);
		log_warn(NULL, "the last checkpoint could not be stored, the next start reads more again: %s",
			 e.message);
	}
}

void cutter_settle(struct cutter *c)
{
	uint64_t lsn;

	if (c->idle_runs && drain_flush(c->p.drain, LAST_NS, &lsn) == 0)
		(void)cutter_wait(c, lsn, NULL, LAST_NS, NULL);
}

void cutter_stop(struct cutter *c)
{
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->stopping, true);
	pthread_cond_broadcast(&c->help);
	pthread_mutex_unlock(&c->lock);
	if (c->idle_runs)
		cutter_hurry(c);
	if (c->idle_runs)
		pthread_join(c->idle, NULL);
	if (c->helper_runs)
		pthread_join(c->helper, NULL);
	bool ran = c->idle_runs;
	c->idle_runs = c->helper_runs = false;
	if (ran && c->follower)
		catch_up(c);
	/* Whoever draws keyframes or looks for commands still asks, over the same connection. */
	pthread_mutex_lock(&c->turn);
	if (ran && !c->failed && c->follower && !atomic_load(&c->index_lost))
		last_checkpoint(c);
	pthread_mutex_unlock(&c->turn);
}

void cutter_destroy(struct cutter *c)
{
	if (!c)
		return;
	cutter_stop(c);
	cut_clear(c);
	free(c->sessions);
	while (c->load)
		config_loads_pop(&c->load);
	holds_finish(&c->holds);
	free(c->suspects.list);
	follower_destroy(c->follower);
	index_compare_end(c->compare);
	chain_close(c->chain);
	index_close(c->index);
	for (size_t i = 0; i < c->nrules; i++) {
		free(c->rules[i].kind);
		free(c->rules[i].session);
	}
	free(c->rules);
	pthread_cond_destroy(&c->moved);
	pthread_cond_destroy(&c->help);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->turn);
	free(c->dir);
	free(c);
}

void cutter_rule(struct cutter *c, const char *open, struct trunc_rule *out)
{
	struct builder_options options;
	pthread_mutex_lock(&c->lock);
	cut_options(c, open, strlen(open), &options);
	pthread_mutex_unlock(&c->lock);
	*out = options.rule;
}

void cutter_status(struct cutter *c, struct cutter_status *out)
{
	pthread_mutex_lock(&c->lock);
	*out = c->seen;
	out->consumed = c->consumed;
	out->debt = c->debt;
	pthread_mutex_unlock(&c->lock);
}

uint64_t cutter_foreign(struct cutter *c, char out_before[17])
{
	return chain_foreign(c->chain, out_before);
}

int cutter_name_key(struct cutter *c, const struct grant_public_key *next, struct err *e)
{
	return chain_name_key(c->chain, next, clock_wall_ns(), e);
}

int cutter_use_key(struct cutter *c, const struct signer *s, struct err *e)
{
	int rc;

	pthread_mutex_lock(&c->turn); /* recordings are sealed with it too */
	rc = chain_use_key(c->chain, s, clock_wall_ns(), e);
	c->p.signer = s;
	pthread_mutex_unlock(&c->turn);
	return rc;
}

int cutter_head(struct cutter *c, struct chain_head *out, struct err *e)
{
	struct chain_head head;
	uint64_t fresh;
	int rc = 0;

	pthread_mutex_lock(&c->turn);
	chain_head(c->chain, &head, &fresh);
	if (fresh)
		rc = chain_sign_head(c->chain, clock_wall_ns(), e);
	if (rc == 0)
		chain_head(c->chain, out, &fresh);
	pthread_mutex_unlock(&c->turn);
	return rc;
}

struct chain *cutter_chain(struct cutter *c)
{
	return c->chain;
}

bool cutter_hole(const struct cutter *c)
{
	return c->hole;
}

uint64_t cutter_staff_seal(struct cutter *c)
{
	return atomic_load(&c->staff_seal);
}

uint64_t cutter_wait_consumed(struct cutter *c, uint64_t lsn, uint64_t timeout_ns)
{
	uint64_t until = clock_boot_ns() + timeout_ns;
	pthread_mutex_lock(&c->lock);
	while (c->consumed < lsn && clock_boot_ns() < until) {
		struct timespec ts;
		clock_gettime(CLOCK_MONOTONIC, &ts);
		ts.tv_nsec += 50 * 1000 * 1000;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&c->moved, &c->lock, &ts);
	}
	uint64_t consumed = c->consumed;
	pthread_mutex_unlock(&c->lock);
	return consumed;
}

static bool waits_for_seal(struct cutter *c, const struct id *session)
{
	if (!session)
		return false;
	pthread_mutex_lock(&c->turn);
	const struct cut_session *s = cut_find(c, session);
	bool waits = s && s->seal_ns;
	pthread_mutex_unlock(&c->turn);
	return waits;
}

int cutter_wait(struct cutter *c, uint64_t lsn, const struct id *session, uint64_t timeout_ns, struct err *e)
{
	uint64_t until = clock_boot_ns() + timeout_ns;
	int rc = 0;

	cut_wait_begin(c);
	if (cutter_wait_consumed(c, lsn, timeout_ns) < lsn)
		rc = err_set(e, ERR_TIMEOUT, "the recorder did not get there in time");
	while (rc == 0 && waits_for_seal(c, session)) {
		struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
		nanosleep(&pause, NULL);
		if (clock_boot_ns() >= until)
			rc = err_set(e, ERR_TIMEOUT, "the session was not sealed in time");
	}
	cut_wait_end(c);
	return rc;
}
