// tier: check
/*
 * A round's output as it passes: a follower is given it from the journal, byte for byte, late or slow, holds nothing
 * back, is shown nothing before its time, and goes to the record for what the journal has lost.
 */
#include "tests/lib/hub_rig.h"

#include "base/ring_record.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/record/trail.h"
#include "muxd/hub/session/session_output.h"
#include "muxd/hub/setup.h"

#define FRESH(r) struct hub_rig *r = hub_rig_create(NULL)

/* A client that follows stdout from an offset on, a piece at a time. */
struct follower {
	struct hub_rig *rig;
	struct round_listener listener;
	struct request rq;
	struct id round;
	uint64_t at;
	struct buf got;
	unsigned moved;
	ssize_t last; /* what the last look answered */
};

static void follower_on_moved(void *arg)
{
	((struct follower *)arg)->moved++;
}

static void follower_on_event(void *arg, const char *event, const json_t *detail)
{
	(void)arg, (void)event, (void)detail;
}

static void follower_begin(struct follower *f, struct hub_rig *r, const struct session *s, uint64_t at)
{
	*f = (struct follower){.rig = r, .rq = hub_request(), .round = s->id, .at = at};
	f->listener = (struct round_listener){.moved = follower_on_moved, .event = follower_on_event, .arg = f};
	buf_init(&f->got, 64 << 20);
	round_listen(r->hub, &f->round, &f->listener);
}

static void follower_end(struct follower *f)
{
	round_unlisten(&f->listener);
	buf_finish(&f->got);
}

/* All that there is now, in pieces of that size. */
static ssize_t look(struct follower *f, size_t piece)
{
	uint8_t bytes[16384];

	while ((f->last = broker_round_live(f->rig->hub, &f->rq, &f->round, STREAM_OUTPUT, f->at, bytes, piece)) > 0) {
		assert_int_equal(buf_append(&f->got, bytes, (size_t)f->last), 0);
		f->at += (uint64_t)f->last;
	}
	return f->last;
}

static void assert_got(const struct follower *f, const struct buf *all, size_t from)
{
	assert_int_equal(buf_len(&f->got), buf_len(all) - from);
	if (buf_len(&f->got))
		assert_memory_equal(buf_ptr(&f->got), buf_ptr(all) + from, buf_len(&f->got));
}

static void follow_to_the_end(struct follower *f, size_t piece)
{
	assert_true(hub_until(f->rig, look(f, piece) == ERR_EOF));
}

static void who_follows_is_given_what_passes(void **state)
{
	struct follower first, odd, late;
	struct hub_client c;
	FRESH(r);

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "seq 1 60000; read go; seq 1 60000");
	follower_begin(&first, r, c.s, 0);
	follower_begin(&odd, r, c.s, 0);
	assert_true(hub_until(r, look(&first, 16384) == 0 && first.at == 348894));
	assert_true(first.moved > 0);
	follower_begin(&late, r, c.s, 300001);
	assert_int_equal(broker_round_type(r->hub, &first.rq, &first.round, "\n", 1, &(struct err){0}), 0);
	follow_to_the_end(&first, 16384);
	follow_to_the_end(&odd, 4099);
	follow_to_the_end(&late, 16384);
	assert_got(&first, &r->output, 0);
	assert_got(&odd, &r->output, 0);
	assert_got(&late, &r->output, 300001);
	follower_end(&first);
	follower_end(&odd);
	follower_end(&late);
	hub_rig_destroy(r);
}

/* A ring of 1 MiB: a program that prints more runs on, and the oldest bytes are the record's alone. */
static void who_is_too_far_behind_asks_the_record(void **state)
{
	struct follower slow, near;
	struct hub_client c;
	FRESH(r);

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "head -c 3000000 /dev/zero; read go");
	follower_begin(&slow, r, c.s, 0);
	assert_true(hub_until(r, c.s->stream[STREAM_OUTPUT].end == 3000000));
	assert_int_equal(look(&slow, 100), ERR_NOT_FOUND);
	assert_int_equal(slow.at, 0);
	follower_begin(&near, r, c.s, 2900000);
	assert_int_equal(look(&near, 16384), 0);
	assert_int_equal(near.at, 3000000);
	follower_end(&slow);
	follower_end(&near);
	hub_rig_destroy(r);
}

static void nothing_is_at_hand_for_others(void **state)
{
	struct hub_client c;
	struct follower f;
	FRESH(r);

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "echo hello; read go");
	follower_begin(&f, r, c.s, 0);
	assert_true(hub_until(r, c.s->stream[STREAM_OUTPUT].end == 6));
	f.rq.grant.scopes = SCOPE_FILES | SCOPE_REPLAY;
	assert_int_equal(look(&f, 100), ERR_NOT_FOUND); /* its own, and nothing that opened it */
	f.rq.grant.scopes = SCOPE_ROUNDS;
	snprintf(f.rq.grant.principal, sizeof(f.rq.grant.principal), "another");
	assert_int_equal(look(&f, 100), ERR_NOT_FOUND);
	f.rq.grant.scopes = SCOPE_REPLAY; /* an auditor sees what the recording keeps */
	assert_int_equal(look(&f, 100), ERR_NOT_FOUND);
	f.rq.grant.scopes = SCOPE_OBSERVE;
	snprintf(f.rq.grant.agent, sizeof(f.rq.grant.agent), "elsewhere");
	assert_int_equal(look(&f, 100), ERR_NOT_FOUND);
	snprintf(f.rq.grant.agent, sizeof(f.rq.grant.agent), "box");
	f.rq.grant.expires_ns = clock_wall_ns() - 1;
	assert_int_equal(look(&f, 100), ERR_NOT_FOUND);
	f.rq.grant.expires_ns = clock_wall_ns() + (int64_t)(60 * NS_PER_SEC);
	assert_int_equal(hub_revoke(r->hub, &f.rq.grant.id, f.rq.grant.expires_ns), 0);
	assert_int_equal(look(&f, 100), ERR_NOT_FOUND);
	assert_int_equal(id_new(&f.rq.grant.id), 0);
	assert_int_equal(look(&f, 100), 0); /* who may watch it */
	assert_int_equal(buf_len(&f.got), 6);
	follower_end(&f);
	hub_rig_destroy(r);
}

static void nothing_is_shown_before_its_time(void **state)
{
	struct hub_client c;
	struct follower f;
	unsigned moved;
	FRESH(r);

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "read go; echo hello; read go");
	r->hub->conf->release_durable = true;
	follower_begin(&f, r, c.s, 0);
	assert_int_equal(look(&f, 100), 0);
	r->stalled = true;
	assert_int_equal(broker_round_type(r->hub, &f.rq, &f.round, "\n", 1, &(struct err){0}), 0);
	assert_true(hub_until(r, c.s->stream[STREAM_OUTPUT].end == 6));
	assert_int_equal(look(&f, 100), ERR_AGAIN);
	moved = f.moved;
	r->stalled = false;
	assert_true(hub_until(r, f.moved > moved && look(&f, 100) == 0)); /* it is told that it is durable */
	assert_int_equal(buf_len(&f.got), 6);
	/* While the record cannot be written nothing is shown, whatever is durable. */
	r->failed = true;
	assert_true(hub_until(r, (f.at = 0, look(&f, 100)) == ERR_AGAIN));
	r->failed = false;
	assert_true(hub_until(r, look(&f, 100) == 0));
	assert_int_equal(f.at, 6);
	follower_end(&f);
	hub_rig_destroy(r);
}

static void a_new_hub_has_what_comes_from_then_on(void **state)
{
	struct hub_client c;
	struct follower f;
	struct session *s;
	struct id round;
	FRESH(r);

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "echo hello; read go; echo again; read go");
	round = c.s->id;
	assert_true(hub_until(r, c.s->stream[STREAM_OUTPUT].end == 6));
	follower_begin(&f, r, c.s, 0);
	hub_rig_again(r);
	assert_false(f.listener.listens);
	assert_int_equal(look(&f, 100), ERR_NOT_FOUND); /* what the recorder would tell it is not played here */
	s = hub_session_find(r->hub, &round);
	assert_true(!s || !s->trails);
	follower_end(&f);
	hub_rig_destroy(r);
}

/* A long trail is there while somebody follows the round. A short one stays: its events are asked for behind the end.
 */
static void the_trail_of_a_short_round_outlives_it(void **state)
{
	size_t most = 0;
	struct hub_client brief, alone, followed;
	struct follower f;
	FRESH(r);

	(void)state;
	hub_open(r, &brief, SESSION_ROUND, "echo hello");
	assert_true(hub_until(r, brief.s->end == END_TOLD));
	follower_begin(&f, r, brief.s, 0);
	assert_int_equal(look(&f, 100), ERR_EOF);
	assert_int_equal(buf_len(&f.got), 6);
	follower_end(&f);
	hub_open(r, &alone, SESSION_ROUND, "head -c 20000000 /dev/zero");
	assert_true(hub_until(r, (most = session_trail_held(alone.s) > most ? session_trail_held(alone.s) : most,
				  alone.s->end == END_TOLD)));
	assert_true(most > TRAIL_KEPT);
	assert_null(alone.s->trails);
	hub_open(r, &followed, SESSION_ROUND, "read go; echo hello");
	follower_begin(&f, r, followed.s, 0);
	assert_int_equal(broker_round_type(r->hub, &f.rq, &f.round, "\n", 1, &(struct err){0}), 0);
	assert_true(hub_until(r, followed.s->end == END_TOLD));
	assert_int_equal(session_trail_held(followed.s), 4 * sizeof(struct trail_mark));
	assert_int_equal(look(&f, 100), ERR_EOF);
	assert_int_equal(buf_len(&f.got), 6);
	follower_end(&f);
	hub_rig_destroy(r);
}

/* ---- the trail itself: 5,000 records of ten bytes, each byte its offset modulo 251 */

static void a_trail_keeps_the_newest(void **state)
{
	struct journal_share share = {0};
	struct journal_data d = {.stream = STREAM_OUTPUT};
	struct trail t = {0};
	struct id other;
	uint8_t bytes[1000];
	FRESH(r);

	(void)state;
	assert_int_equal(id_new(&d.session), 0);
	assert_int_equal(id_new(&other), 0);
	for (d.offset = 0; d.offset < 50000; d.offset += 10) {
		for (size_t i = 0; i < 10; i++)
			bytes[i] = (uint8_t)((d.offset + i) % 251);
		assert_true(hub_until(r, journal_data(r->hub->journal, &d, &share, bytes, 10) == 0));
		trail_add(&t, d.offset, journal_position(r->hub->journal) - ring_record_size(10));
	}
	for (uint64_t at = 50000 - TRAIL_MARKS * 10; at < 50000; at += 997) {
		ssize_t n =
		    trail_read(&t, r->hub->journal, &d.session, STREAM_OUTPUT, at, UINT64_MAX, bytes, sizeof(bytes));

		assert_int_equal(n, 50000 - at < sizeof(bytes) ? 50000 - at : sizeof(bytes));
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(bytes[i], (at + (uint64_t)i) % 251);
	}
	assert_int_equal(trail_read(&t, r->hub->journal, &d.session, STREAM_OUTPUT, 50000 - TRAIL_MARKS * 10 - 1,
				    UINT64_MAX, bytes, 10),
			 ERR_NOT_FOUND);
	assert_int_equal(trail_read(&t, r->hub->journal, &d.session, STREAM_OUTPUT, 49990, 0, bytes, 10), 0);
	/* A place that is somebody else's gives nothing. */
	assert_int_equal(trail_read(&t, r->hub->journal, &other, STREAM_OUTPUT, 49990, UINT64_MAX, bytes, 10),
			 ERR_NOT_FOUND);
	assert_int_equal(trail_read(&t, r->hub->journal, &d.session, STREAM_STDERR, 49990, UINT64_MAX, bytes, 10),
			 ERR_NOT_FOUND);
	assert_int_equal(trail_held(&t), TRAIL_MARKS * sizeof(struct trail_mark));
	trail_finish(&t);
	hub_rig_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_follows_is_given_what_passes),
	    cmocka_unit_test(who_is_too_far_behind_asks_the_record),
	    cmocka_unit_test(nothing_is_at_hand_for_others),
	    cmocka_unit_test(nothing_is_shown_before_its_time),
	    cmocka_unit_test(a_new_hub_has_what_comes_from_then_on),
	    cmocka_unit_test(the_trail_of_a_short_round_outlives_it),
	    cmocka_unit_test(a_trail_keeps_the_newest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
