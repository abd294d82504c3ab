// tier: check
/*
 * Who wins in a filespace: 10,000 random histories of two sides, with syncs that die in the middle, against a model
 * that knows every write and when it truly was, and no rule. Then each case by name.
 */
#include "control/filespace/rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HISTORIES 10000
#define EVENTS    40

static uint64_t seed;

static unsigned random_below(unsigned n)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return (unsigned)(seed % n);
}

static void key_of(unsigned content, char out[FILESPACE_KEY_LEN + 1])
{
	if (!content)
		out[0] = '\0';
	else
		snprintf(out, FILESPACE_KEY_LEN + 1, "%064u-", content);
}

/* ---- the world: contents are numbers, 0 is none */

struct world {
	int64_t now;
	unsigned here, there, agreed; /* contents */
	int64_t here_at, there_at, agreed_at;
	bool tombstone, agreed_gone;
	int64_t here_lies; /* added to what the workspace says of its time */
	/* The model keeps it, and the rule never sees it: who has written since the last agreement, and when. */
	bool here_wrote, there_wrote;
	unsigned next;
	/* A snapshot of the workspace, and what the model knows of it. */
	struct {
		bool taken, here_wrote, stale; /* stale: something was agreed on behind it */
		unsigned here;
		int64_t at;
	} snap;
	int64_t synced_at;
	bool restored; /* and not agreed on since: each ctime is that of the unpacking */
};

static void write_here(struct world *w, unsigned content)
{
	w->here = content;
	w->here_at = w->now;
	w->here_wrote = true;
}

static void write_there(struct world *w, unsigned content)
{
	w->there = content;
	w->there_at = w->now;
	w->tombstone = !content;
	w->there_wrote = true;
}

/*
 * The model, from requirement A13 alone: a side that did not write has nothing to say; of two that did, the later
 * writer wins; a deletion whose time nobody kept is never the later one, and one that is not kept at all is none.
 */
static unsigned model_winner(const struct world *w)
{
	bool here = w->here_wrote && w->here != w->agreed;
	bool there = w->there_wrote && (w->there ? w->there != w->agreed : w->tombstone); /* else lost, not deleted */

	if (here && there) {
		if (w->here == w->there)
			return w->here;
		if (!w->here)
			return w->there;
		return w->here_at > w->there_at ? w->here : w->there;
	}
	return there ? w->there : w->here;
}

static enum filespace_verdict ask(const struct world *w, bool *conflict)
{
	struct filespace_side here = {.at_ms = w->here_at + w->here_lies};
	struct filespace_side there = {.at_ms = w->there_at, .deleted = w->tombstone && !w->there};
	struct filespace_side last = {.at_ms = w->agreed_at, .deleted = w->agreed_gone};

	key_of(w->here, here.key);
	key_of(w->there, there.key);
	key_of(w->agreed, last.key);
	if (w->restored)
		return filespace_rule_restored(
		    &here, &there, &last, &(struct filespace_restored){w->snap.at, w->synced_at}, w->now, conflict);
	return filespace_rule(&here, &there, &last, w->now, conflict);
}

static void agree(struct world *w)
{
	w->agreed = w->here;
	w->agreed_at = w->there_at;
	w->agreed_gone = !w->here && w->tombstone;
	w->here_wrote = w->there_wrote = false;
	w->restored = false;
	w->synced_at = w->now;
	w->snap.stale = true;
}

/* One direction; dies: the copy was made, and nobody could write down that it was. */
static void run_sync(struct world *w, bool pull, bool dies)
{
	bool conflict;

	w->now++;
	switch (ask(w, &conflict)) {
	case FILESPACE_NOTHING:
		return;
	case FILESPACE_AGREE:
		break;
	case FILESPACE_FORGET:
		break;
	case FILESPACE_COPY_DOWN:
		if (!pull)
			return;
		w->here = w->there;
		w->here_at = w->now;
		break;
	case FILESPACE_DELETE_HERE:
		if (!pull)
			return;
		w->here = 0;
		break;
	case FILESPACE_COPY_UP:
		if (pull)
			return;
		w->there = w->here;
		w->there_at = w->now;
		w->tombstone = false;
		break;
	case FILESPACE_DELETE_THERE:
		if (pull)
			return;
		w->there = 0;
		w->there_at = w->now;
		w->tombstone = true;
		break;
	}
	if (!dies)
		agree(w);
}

static void one_event(struct world *w)
{
	w->now += 1 + random_below(1000);
	switch (random_below(10)) {
	case 0:
	case 1:
	case 2:
		write_here(w, ++w->next);
		break;
	case 3:
	case 4:
	case 5:
		write_there(w, ++w->next);
		break;
	case 6:
		write_here(w, 0);
		break;
	case 7:
		if (w->there)
			write_there(w, 0);
		break;
	case 8: /* the same content comes to both by another way */
		if (w->there)
			write_here(w, w->there);
		break;
	default: /* the store loses it, and keeps no deletion */
		if (w->there && !random_below(4)) {
			w->there = 0;
			w->tombstone = false;
			w->there_wrote = true;
		}
	}
}

static void test_histories(void **state)
{
	unsigned conflicts = 0, told = 0;

	(void)state;
	for (unsigned h = 0; h < HISTORIES; h++) {
		struct world w = {.now = 1000};

		seed = h * UINT64_C(2654435761) + 1;
		for (int i = 0; i < EVENTS; i++) {
			bool conflict = false;
			unsigned expect;

			one_event(&w);
			if (random_below(3))
				continue;
			expect = model_winner(&w);
			(void)ask(&w, &conflict);
			told += conflict;
			conflicts += w.here_wrote && w.there_wrote && w.here != w.there && w.here != w.agreed &&
				     w.there != w.agreed && (w.there || w.tombstone);
			if (!random_below(3)) /* kill -9 in the middle of either; the next one finds what there is */
				run_sync(&w, random_below(2), true);
			run_sync(&w, true, false);
			run_sync(&w, false, false);
			if (w.here != expect || w.there != expect)
				fail_msg("history %u, event %d: %u here, %u there, the model says %u", h, i, w.here,
					 w.there, expect);
			run_sync(&w, true, false); /* whatever the model says, twice is as once */
			run_sync(&w, false, false);
			assert_int_equal(w.here, expect);
			assert_int_equal(w.there, expect);
			agree(&w);
		}
	}
	assert_true(conflicts > 1000);
	assert_true(told >= conflicts);
}

/* A workspace's clock lies by up to years: where one side alone has written that changes nothing. */
static void test_lying_clocks(void **state)
{
	(void)state;
	for (unsigned h = 0; h < HISTORIES; h++) {
		struct world w = {.now = 1000};

		seed = h * UINT64_C(40503) + 7;
		for (int i = 0; i < EVENTS; i++) {
			bool alone;
			unsigned expect;

			w.here_lies = (int64_t)random_below(1000000000) - 500000000;
			one_event(&w);
			alone = !w.here_wrote || !w.there_wrote;
			expect = model_winner(&w);
			run_sync(&w, true, false);
			run_sync(&w, false, false);
			if (alone)
				assert_int_equal(w.here, expect);
			assert_int_equal(w.here, w.there);
			agree(&w);
		}
	}
}

static void take_snapshot(struct world *w)
{
	w->snap.taken = true;
	w->snap.here_wrote = w->here_wrote && w->here != w->agreed;
	w->snap.stale = false;
	w->snap.here = w->here;
	w->snap.at = ++w->now;
}

/* An archive is unpacked: each of its files has the unpacking's ctime. Who is to win then: */
static unsigned restore_snapshot(struct world *w)
{
	bool lost = !w->there && !w->tombstone;

	w->now += 1 + random_below(1000);
	w->here = w->snap.here;
	w->here_at = w->now;
	w->restored = true;
	if (!w->here || w->here == w->there)
		return w->there; /* what is not in a snapshot was not deleted */
	if (lost)
		return w->here;
	/* The snapshot has a say only where nobody had heard of its file, and nobody has written or agreed since. */
	return w->snap.here_wrote && !w->snap.stale && w->there_at <= w->snap.at ? w->here : w->there;
}

/* The workspace is restored again and again: what was changed or deleted since the snapshot stays so. */
static void test_restored(void **state)
{
	unsigned old = 0;

	(void)state;
	for (unsigned h = 0; h < HISTORIES; h++) {
		struct world w = {.now = 1000};

		seed = h * UINT64_C(2246822519) + 3;
		for (int i = 0; i < EVENTS; i++) {
			unsigned expect;

			one_event(&w);
			if (!random_below(3))
				take_snapshot(&w);
			if (!random_below(2)) {
				run_sync(&w, true, false);
				run_sync(&w, false, false);
				agree(&w);
			}
			if (!w.snap.taken || random_below(3))
				continue;
			expect = restore_snapshot(&w);
			old += expect != w.here;
			run_sync(&w, true, false);
			run_sync(&w, false, false);
			if (w.here != expect || w.there != expect)
				fail_msg("history %u, event %d: %u here, %u there, the model says %u", h, i, w.here,
					 w.there, expect);
			agree(&w);
			w.snap.taken = false;
		}
	}
	assert_true(old > 1000);
}

struct named {
	const char *name;
	unsigned here, there, last;
	int64_t here_at, there_at, last_at;
	bool deleted, conflict;
	enum filespace_verdict verdict;
};

static void test_cases(void **state)
{
	static const struct named cases[] = {
	    {"new here", 1, 0, 0, 5, 0, 0, false, false, FILESPACE_COPY_UP},
	    {"new there", 0, 1, 0, 0, 5, 0, false, false, FILESPACE_COPY_DOWN},
	    {"neither", 0, 0, 0, 0, 5, 0, true, false, FILESPACE_NOTHING},
	    {"agreed", 1, 1, 1, 5, 6, 6, false, false, FILESPACE_NOTHING},
	    {"the same, touched there", 1, 1, 1, 5, 9, 6, false, false, FILESPACE_AGREE},
	    {"both made the same", 2, 2, 1, 9, 8, 6, false, false, FILESPACE_AGREE},
	    {"changed there", 1, 2, 1, 5, 9, 6, false, false, FILESPACE_COPY_DOWN},
	    {"changed there, with an older time", 1, 2, 1, 5, 3, 6, false, false, FILESPACE_COPY_DOWN},
	    {"changed here, with an older time", 2, 1, 1, 1, 6, 6, false, false, FILESPACE_COPY_UP},
	    {"both, here later", 2, 3, 1, 9, 8, 6, false, true, FILESPACE_COPY_UP},
	    {"both, there later", 2, 3, 1, 8, 9, 6, false, true, FILESPACE_COPY_DOWN},
	    {"both at once: the store's", 2, 3, 1, 9, 9, 6, false, true, FILESPACE_COPY_DOWN},
	    {"both, here in the far future: now is as far as it counts", 2, 3, 1, 99999, 100, 6, false, true,
	     FILESPACE_COPY_DOWN},
	    {"both, the store in the far future, too", 2, 3, 1, 99, 99999, 6, false, true, FILESPACE_COPY_DOWN},
	    {"deleted there, newer", 1, 0, 1, 5, 9, 6, true, false, FILESPACE_DELETE_HERE},
	    {"deleted there, older", 1, 0, 1, 5, 6, 6, true, false, FILESPACE_COPY_UP},
	    {"deleted there, changed here later", 2, 0, 1, 10, 9, 6, true, true, FILESPACE_COPY_UP},
	    {"deleted there later than changed here", 2, 0, 1, 8, 9, 6, true, true, FILESPACE_DELETE_HERE},
	    {"lost there", 1, 0, 1, 5, 0, 6, false, false, FILESPACE_COPY_UP},
	    {"deleted here", 0, 1, 1, 0, 6, 6, false, false, FILESPACE_DELETE_THERE},
	    {"deleted here, changed there", 0, 2, 1, 0, 9, 6, false, true, FILESPACE_COPY_DOWN},
	    {"deleted on both", 0, 0, 1, 0, 9, 6, true, false, FILESPACE_FORGET},
	    {"nothing agreed, both there: by time", 1, 2, 0, 9, 8, 0, false, true, FILESPACE_COPY_UP},
	    {"nothing agreed, deleted later", 1, 0, 0, 5, 9, 0, true, true, FILESPACE_DELETE_HERE},
	    {"nothing agreed, deleted before", 1, 0, 0, 9, 5, 0, true, true, FILESPACE_COPY_UP},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct named *c = &cases[i];
		struct filespace_side here = {.at_ms = c->here_at}, last = {.at_ms = c->last_at};
		struct filespace_side there = {.at_ms = c->there_at, .deleted = c->deleted};
		enum filespace_verdict v;
		bool conflict = false;

		key_of(c->here, here.key);
		key_of(c->there, there.key);
		key_of(c->last, last.key);
		v = filespace_rule(&here, &there, &last, 100, &conflict);
		if (v != c->verdict || conflict != c->conflict)
			fail_msg("%s: %s%s", c->name, filespace_verdict_name(v), conflict ? ", a conflict" : "");
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cases),
	    cmocka_unit_test(test_histories),
	    cmocka_unit_test(test_lying_clocks),
	    cmocka_unit_test(test_restored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
