// tier: check
/* record.retain: what goes, what is kept for good, and a clock that is not believed. */
#include "tests/lib/cutter_rig.h"

#include "recorder/draw/keyframes.h"
#include "recorder/write/retention.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define HOUR_NS (3600 * NS_PER_SEC)
#define DAY_NS  (24 * HOUR_NS)

static void sealed_session(struct place *p, struct id *out, char path[160])
{
	uint64_t at = 0;
	session_open(p, out);
	send_bytes(p, out, &at, 1000);
	text(p, RING_EXIT, out, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, out);
	assert_int_equal(recording_find(p->dir, out, path, 160, NULL), 0);
}

static void retain(struct place *p, uint64_t ns)
{
	p->conf->record_retain_ns = ns;
	assert_int_equal(cutter_configure(p->cutter, p->conf, NULL, NULL), 0);
}

static void what_cannot_be_read_is_kept_and_stops_nothing(void **state)
{
	struct place *p = *state;
	struct id cut, odd, good, later;
	char path[160];
	struct stat st;
	start(p);
	sealed_session(p, &cut, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 10), 0);
	/* No file that can be read, whoever reads. */
	sealed_session(p, &odd, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	sealed_session(p, &good, path);
	retain(p, 1);
	wait_state(p, &cut, "kept");
	wait_state(p, &odd, "kept");
	wait_state(p, &good, "expired");
	sealed_session(p, &later, path);
	verify(p, &later, true);
}

static void what_cannot_be_removed_is_kept_and_stops_nothing(void **state)
{
	struct place *p = *state;
	struct id stuck, later;
	char path[160], keyframes[176];
	start(p);
	sealed_session(p, &stuck, path);
	/* unlink() takes no folder. */
	snprintf(keyframes, sizeof(keyframes), "%.*s.mkey", (int)strlen(path) - 5, path);
	assert_int_equal(mkdir(keyframes, 0700), 0);
	retain(p, 1);
	wait_state(p, &stuck, "kept");
	assert_int_equal(access(path, F_OK), 0);
	sealed_session(p, &later, path);
	verify(p, &later, true);
}

static void screens_go_with_the_recording(void **state)
{
	struct place *p = *state;
	static const uint8_t leaf[DIGEST_LEN];
	struct keyframes_digest digest;
	struct keyframes_writer late;
	struct id old;
	char path[160], part[FILE_PATH_MAX];
	start(p);
	sealed_session(p, &old, path);
	assert_int_equal(keyframes_begin(&late, path, &old, leaf, NULL), 0);
	snprintf(part, sizeof(part), "%s", late.part);
	assert_int_equal(access(part, F_OK), 0);
	retain(p, 1);
	wait_state(p, &old, "expired");
	assert_int_equal(access(part, F_OK), -1);
	assert_true(keyframes_end(&late, &digest, NULL) < 0);
	/* One that comes to its end only now leaves nothing either. */
	assert_int_equal(keyframes_begin(&late, path, &old, leaf, NULL), 0);
	assert_int_equal(keyframes_end(&late, &digest, NULL), ERR_NOT_FOUND);
	assert_int_equal(access(late.part, F_OK), -1);
	assert_int_equal(access(late.path, F_OK), -1);
}

static void let_it_look(struct place *p);

static void audited(struct place *p)
{
	uint64_t lsn;

	assert_int_equal(drain_flush(p->drain, 10 * NS_PER_SEC, &lsn), 0);
	assert_int_equal(cutter_wait(p->cutter, lsn, NULL, 10 * NS_PER_SEC, NULL), 0);
}

/* A configuration is told behind what was there, and holds then. */
static void in_force(struct place *p, const char *retain)
{
	for (int i = 0; i < 2000; i++, usleep(5000)) {
		json_t *o = cutter_retention(p->cutter);
		const char *now = json_string_value(json_object_get(json_object_get(o, "retain"), "now"));
		bool there = now && strcmp(now, retain) == 0;
		json_decref(o);
		if (there)
			return;
	}
	fail_msg("record.retain %s does not come into force", retain);
}

/* A copy of a file beside it, and back: what a crash leaves of a step that was not committed. */
static void copy(const char *from, const char *to)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "cp -p '%s' '%s'", from, to);
	assert_int_equal(system(cmd), 0);
}

static unsigned tombstones(struct place *p, const struct id *id)
{
	struct chain_reader *r;
	struct chain_entry en;
	unsigned n = 0;

	assert_int_equal(chain_reader_create(p->dir, 0, &r, NULL), 0);
	while (chain_reader_next(r, &en, NULL) == 1)
		n += en.type == CHAIN_TOMBSTONE && id_equal(&en.session, id);
	chain_reader_destroy(r);
	return n;
}

static void told(void *arg, const struct verify_finding *f)
{
	(void)arg;
	if (f->class != VERIFY_NOTE)
		fprintf(stderr, "%s: %s\n", f->code, f->message);
}

static void verified(struct place *p)
{
	struct grant_keyset keys = {.keys = (struct grant_public_key *)(uintptr_t)signer_public(p->signer), .n = 1};
	struct verify_ask ask = {.dir = p->dir, .keys = &keys, .sink = told};
	struct verify_summary sum;

	assert_int_equal(verify_all(&ask, &sum, NULL), 0);
	assert_true(sum.intact);
	assert_true(sum.complete);
}

/* Killed behind the tombstone (keeps its file) or behind the removal, before the index was written. */
static void a_crash_in_a_removal(void **state)
{
	struct place *p = *state;
	char path[160], saved[200], db[128], dbs[160], chain[160];
	struct id old;

	for (int file_left = 0; file_left < 2; file_left++) {
		p->conf->record_retain_ns = 0;
		start(p);
		in_force(p, "0");
		sealed_session(p, &old, path);
		stop(p);
		snprintf(db, sizeof(db), "%s/audit.db", p->dir);
		snprintf(dbs, sizeof(dbs), "%s/audit.before", p->dir);
		snprintf(saved, sizeof(saved), "%s/recording.before", p->dir);
		copy(db, dbs);
		copy(path, saved);
		start(p);
		retain(p, 1);
		wait_state(p, &old, "expired");
		stop(p);
		/* The log and what is on disk are as they are; the index is that of before. */
		snprintf(chain, sizeof(chain), "%s-wal", db);
		unlink(chain);
		snprintf(chain, sizeof(chain), "%s-shm", db);
		unlink(chain);
		copy(dbs, db);
		if (file_left)
			copy(saved, path);
		start(p);
		retain(p, 1);
		wait_state(p, &old, "expired");
		assert_int_equal(access(path, F_OK), -1);
		assert_int_equal(tombstones(p, &old), file_left ? 2 : 1);
		verified(p);
		stop(p);
	}
}

static unsigned waits_told(struct place *p)
{
	struct index_filter f = {.event = "retention.wait", .limit = 10};
	unsigned n = 0;
	uint64_t lsn;
	assert_int_equal(drain_flush(p->drain, 10 * NS_PER_SEC, &lsn), 0);
	assert_int_equal(cutter_wait(p->cutter, lsn, NULL, 10 * NS_PER_SEC, NULL), 0);
	assert_int_equal(index_audit(p->reader, &f, count_row, &n, NULL), 0);
	return n;
}

static unsigned events(struct place *p, const char *name)
{
	struct index_filter f = {.event = name, .limit = 100};
	unsigned n = 0;

	audited(p);
	assert_int_equal(index_audit(p->reader, &f, count_row, &n, NULL), 0);
	return n;
}

/* Net writes the journal. A configuration, an admin's word, a hold or a terminal's commands from there are none. */
static void what_net_says_of_keeping_counts_for_nothing(void **state)
{
	static const char *const forged[] = {
	    "{\"event\":\"config.loaded\",\"at_ns\":5,\"retain_ns\":1,\"wait_ns\":0,\"digest\":\"x\",\"first\":true}",
	    "{\"event\":\"config\\u002eloaded\",\"at_ns\":5,\"retain_ns\":1,\"wait_ns\":0,\"digest\":\"x\"}",
	    "{\"event\":\"retention.apply\",\"at_ns\":5,\"digest\":\"x\"}",
	    "{\"event\":\"hold.release\",\"hold\":\"0193aaaa-0000-7000-8000-000000000001\",\"at_ns\":5}",
	    "{\"event\":\"session.commands\",\"detail\":{\"commands\":[],\"through\":9,\"final\":true}}",
	};
	struct place *p = *state;
	struct id old, nobody = {{0}};
	unsigned before;
	char path[160];

	start(p);
	sealed_session(p, &old, path);
	before = events(p, "config.loaded");
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++)
		text(p, RING_AUDIT, &nobody, forged[i]);
	assert_int_equal(events(p, "record.forged"), 5);
	assert_int_equal(events(p, "session.commands"), 0);
	assert_int_equal(events(p, "config.loaded"), before);
	let_it_look(p);
	assert_int_equal(access(path, F_OK), 0);
	verified(p);
}

/* As the service writes it: by the recorder, and the answer comes once it is consumed and signed. */
static void hold(struct place *p, const char *event, const char *held)
{
	static const struct id nobody;
	char json[512];
	struct chain_head head;

	snprintf(json, sizeof(json),
		 "{\"event\":\"%s\",\"hold\":\"0193aaaa-0000-7000-8000-000000000001\",\"held\":%s,\"at_ns\":5}", event,
		 held);
	assert_int_equal(drain_append_own(p->drain, RING_AUDIT, &nobody, json), 0);
	audited(p);
	assert_int_equal(cutter_head(p->cutter, &head, NULL), 0);
}

static void lose_the_index(struct place *p)
{
	char cmd[160];

	stop(p);
	snprintf(cmd, sizeof(cmd), "rm -f %s/audit.db*", p->dir);
	assert_int_equal(system(cmd), 0);
	start(p);
	audited(p); /* the cutter has looked at the clock */
}

static void what_is_held_stays_when_the_index_is_lost(void **state)
{
	struct place *p = *state;
	struct id held, loose;
	char path[160], other[160], json[128], id[ID_STR_LEN], now[8];

	start(p);
	sealed_session(p, &held, path);
	sealed_session(p, &loose, other);
	id_format(&held, id);
	snprintf(json, sizeof(json), "{\"session\":\"%s\"}", id);
	hold(p, "hold.add", json);
	lose_the_index(p);
	retain(p, 1);
	wait_state(p, &loose, "expired");
	let_it_look(p);
	assert_int_equal(index_session_state(p->reader, &held, now, NULL), 0);
	assert_string_equal(now, "sealed");
	assert_int_equal(access(path, F_OK), 0);
	verified(p);
	hold(p, "hold.release", json);
	retain(p, 2); /* it is looked at once when something else is in force */
	wait_state(p, &held, "expired");
	verified(p);
}

/* Enough turns of the cutter for retention to have had its chance. */
static void let_it_look(struct place *p)
{
	struct id other;
	char path[160];
	for (int i = 0; i < 2; i++)
		sealed_session(p, &other, path);
}

/* Clocks that run, ahead of the machine's own. */
static struct warp {
	pthread_t thread;
	atomic_bool ends;
	_Atomic uint64_t boot_add, wall_add;
} warp;

static uint64_t real_ns(clockid_t which)
{
	struct timespec ts;
	clock_gettime(which, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void *warp_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&warp.ends)) {
		clock_test_set(real_ns(CLOCK_BOOTTIME) + warp.boot_add,
			       (int64_t)(real_ns(CLOCK_REALTIME) + warp.wall_add));
		usleep(1000);
	}
	return NULL;
}

static void a_clock_that_jumps_ahead_erases_nothing(void **state)
{
	struct place *p = *state;
	struct id old;
	char path[160], now[8];
	p->conf->record_retain_ns = 30 * DAY_NS;
	start(p);
	sealed_session(p, &old, path);
	assert_int_equal(waits_told(p), 0);
	assert_int_equal(pthread_create(&warp.thread, NULL, warp_main, NULL), 0);
	/* Retention looks again each ten minutes. */
	warp.boot_add = 700 * NS_PER_SEC;
	warp.wall_add = 700 * NS_PER_SEC + 3650 * DAY_NS;
	for (int i = 0; waits_told(p) == 0; i++) {
		if (i > 1000)
			fail_msg("nobody says that retention waits");
		usleep(5000);
	}
	let_it_look(p);
	assert_int_equal(index_session_state(p->reader, &old, now, NULL), 0);
	assert_string_equal(now, "sealed");
	assert_int_equal(waits_told(p), 1);
	/* Nobody set it right for a day: then it is what the time is. */
	warp.boot_add = 25 * HOUR_NS; /* alone: two that are set one after the other could look like a jump again */
	wait_state(p, &old, "expired");
	stop(p); /* while time still goes forward: a wait that was begun would be a day long */
	atomic_store(&warp.ends, true);
	pthread_join(warp.thread, NULL);
	clock_test_reset();
}

/* Net's anchor: later events have their times by this clock. */
static void anchor(struct place *p)
{
	struct id nobody = {{0}};
	char json[64];

	snprintf(json, sizeof(json), "{\"wall_ns\":%lld}", (long long)clock_wall_ns());
	text(p, RING_CLOCK, &nobody, json);
}

/* Nothing but the log says by then that the clock ran ahead: all that it has seen since is of that clock. */
static void a_wait_outlives_the_index(void **state)
{
	struct place *p = *state;
	struct id old, other;
	char path[160], now[8];

	p->conf->record_retain_ns = 30 * DAY_NS;
	start(p);
	sealed_session(p, &old, path);
	lose_the_index(p);
	assert_false(cutter_clock_waits(p->cutter));
	atomic_store(&warp.ends, false);
	warp.boot_add = warp.wall_add = 700 * NS_PER_SEC;
	warp.wall_add += 3650 * DAY_NS;
	assert_int_equal(pthread_create(&warp.thread, NULL, warp_main, NULL), 0);
	usleep(20000); /* who waits for an answer is not to see its time go by */
	anchor(p);
	for (int i = 0; waits_told(p) == 0; i++) {
		if (i > 1000)
			fail_msg("nobody says that retention waits");
		usleep(5000);
	}
	let_it_look(p);
	for (unsigned i = 2; i < 4; i++) {
		lose_the_index(p);
		assert_true(cutter_clock_waits(p->cutter));
		assert_int_equal(waits_told(p), i);
		let_it_look(p);
		assert_int_equal(index_session_state(p->reader, &old, now, NULL), 0);
		assert_string_equal(now, "sealed");
	}
	/* A day later a removal says that it is over. */
	warp.boot_add = 25 * HOUR_NS;
	wait_state(p, &old, "expired");
	sealed_session(p, &other, path);
	lose_the_index(p);
	assert_false(cutter_clock_waits(p->cutter));
	stop(p);
	atomic_store(&warp.ends, true);
	pthread_join(warp.thread, NULL);
	clock_test_reset();
}

/* Where record.retain is not set the recorder audits no wait, and net does: whole output waits by it. */
static void the_word_of_net_is_enough_to_wait(void **state)
{
	static const char said[] = "{\"event\":\"removals.wait\",\"outcome\":\"error\",\"at_ns\":5}";
	struct id nobody = {{0}};
	struct place *p = *state;

	start(p);
	text(p, RING_AUDIT, &nobody, said);
	assert_int_equal(events(p, "removals.wait"), 1);
	assert_false(cutter_clock_waits(p->cutter));
	lose_the_index(p);
	assert_true(cutter_clock_waits(p->cutter));
	assert_int_equal(waits_told(p), 0);
}

static void a_clock_that_is_ahead_at_the_start_erases_nothing(void **state)
{
	struct place *p = *state;
	struct clock_guard g;
	struct index *ix;
	bool jumped = false;
	uint64_t boot = 1000 * NS_PER_SEC;
	int64_t wall = clock_wall_ns();
	struct id nobody = {{0}};
	char path[96];

	snprintf(path, sizeof(path), "%s/alone.db", p->dir);
	assert_int_equal(index_open(path, &ix, NULL), 0);
	clock_test_set(boot, wall);
	/* A record that is empty has nothing to lose. */
	assert_int_equal(retention_guard_start(&g, ix, &jumped, NULL), 0);
	assert_false(jumped || g.until_ns);
	assert_int_equal(index_put_audit(ix, 1, wall, &nobody, "{}", NULL), 0);
	clock_test_set(boot, wall + (int64_t)(23 * HOUR_NS));
	assert_int_equal(retention_guard_start(&g, ix, &jumped, NULL), 0);
	assert_false(jumped || g.until_ns);
	clock_test_set(boot, wall + (int64_t)(40 * DAY_NS));
	assert_int_equal(retention_guard_start(&g, ix, &jumped, NULL), 0);
	assert_true(jumped);
	assert_int_equal(g.until_ns, boot + CLOCK_GUARD_WAIT_NS);
	/* What is journaled under that clock makes it no better: the wait outlives a restart. */
	assert_int_equal(index_put_audit(ix, 2, wall + (int64_t)(40 * DAY_NS), &nobody, "{}", NULL), 0);
	assert_int_equal(retention_guard_start(&g, ix, &jumped, NULL), 0);
	assert_false(jumped);
	assert_int_equal(g.until_ns, boot + CLOCK_GUARD_WAIT_NS);
	/* Its end, and then it is over for good. */
	clock_test_set(boot + CLOCK_GUARD_WAIT_NS, wall + (int64_t)(41 * DAY_NS));
	assert_int_equal(retention_guard_check(&g, ix, &jumped, NULL), 0);
	assert_false(jumped || g.until_ns);
	assert_int_equal(retention_guard_start(&g, ix, &jumped, NULL), 0);
	assert_false(jumped || g.until_ns);
	index_close(ix);
	clock_test_reset();
}

/* The index has the wait of another boot: with what was left of it, or as an older recorder wrote it. */
static void another_boot_goes_on_with_what_is_left(void **state)
{
	struct place *p = *state;
	struct index_wait other = {7, 90 * HOUR_NS, 5 * HOUR_NS}, now;
	struct clock_guard g, again;
	struct index *ix;
	bool jumped = true;
	uint64_t boot = 1000 * NS_PER_SEC;
	int64_t wall = clock_wall_ns();
	char path[96];

	snprintf(path, sizeof(path), "%s/alone.db", p->dir);
	assert_int_equal(index_open(path, &ix, NULL), 0);
	clock_test_set(boot, wall);
	assert_int_equal(index_put_wait(ix, &other, NULL), 0);
	assert_int_equal(retention_guard_start(&g, ix, &jumped, NULL), 0);
	assert_false(jumped);
	assert_int_equal(g.until_ns, boot + 5 * HOUR_NS);
	/* From now on it is of this boot, and each hour is kept. */
	assert_int_equal(retention_guard_start(&again, ix, &jumped, NULL), 0);
	assert_int_equal(again.until_ns, g.until_ns);
	clock_test_set(boot + HOUR_NS, wall + (int64_t)HOUR_NS);
	assert_int_equal(retention_guard_check(&g, ix, &jumped, NULL), 0);
	assert_int_equal(index_wait(ix, &now, NULL), 0);
	assert_true(now.boot != other.boot && now.until_ns == g.until_ns && now.left_ns == 4 * HOUR_NS);
	/* A clean end. */
	clock_test_set(boot + HOUR_NS + HOUR_NS / 2, wall + (int64_t)HOUR_NS);
	assert_int_equal(retention_guard_keep(&g, ix, NULL), 0);
	assert_int_equal(index_wait(ix, &now, NULL), 0);
	assert_int_equal(now.left_ns, 7 * HOUR_NS / 2);
	other.left_ns = 0;
	assert_int_equal(index_put_wait(ix, &other, NULL), 0);
	clock_test_set(boot, wall);
	assert_int_equal(retention_guard_start(&g, ix, &jumped, NULL), 0);
	assert_true(jumped);
	assert_int_equal(g.until_ns, boot + CLOCK_GUARD_WAIT_NS);
	index_close(ix);
	clock_test_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CUTTER_TEST(what_cannot_be_read_is_kept_and_stops_nothing),
	    CUTTER_TEST(what_cannot_be_removed_is_kept_and_stops_nothing),
	    CUTTER_TEST(screens_go_with_the_recording),
	    CUTTER_TEST(a_crash_in_a_removal),
	    CUTTER_TEST(what_net_says_of_keeping_counts_for_nothing),
	    CUTTER_TEST(what_is_held_stays_when_the_index_is_lost),
	    CUTTER_TEST(a_clock_that_jumps_ahead_erases_nothing),
	    CUTTER_TEST(a_wait_outlives_the_index),
	    CUTTER_TEST(the_word_of_net_is_enough_to_wait),
	    CUTTER_TEST(a_clock_that_is_ahead_at_the_start_erases_nothing),
	    CUTTER_TEST(another_boot_goes_on_with_what_is_left),
	};
	return cmocka_run_group_tests_name("recorder_retention", tests, quiet, NULL);
}
