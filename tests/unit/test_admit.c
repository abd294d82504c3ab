// tier: check
/* Who is let in at a door and who goes when it is full, with times and addresses as the test gives them. */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/doors/admit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define T0 (1000 * NS_PER_SEC)

static const struct admit_rules usual = {
    .max = 1000, .per_address = 200, .rate = 200, .gateways = "10.9.9.9", .gateway_max = 600, .tells = true};

struct client {
	struct admit_place *place;
	bool gone;
};

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage s = {0};
	struct sockaddr_in *v4 = (void *)&s;
	struct sockaddr_in6 *v6 = (void *)&s;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		s.ss_family = AF_INET;
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
		s.ss_family = AF_INET6;
	}
	return s;
}

/* As a door does: who has to go goes at once. */
static int come(struct admit *a, const struct admit_rules *r, const char *from, uint64_t now, struct client *c)
{
	struct sockaddr_storage s = address(from);
	void *out = NULL;
	int rc;

	c->place = NULL;
	c->gone = true;
	rc = admit_enter(a, r, (struct sockaddr *)&s, now, &c->place, &out);
	if (rc)
		return rc;
	admit_own(c->place, c);
	c->gone = false;
	if (out) {
		struct client *v = out;

		assert_ptr_not_equal(v, c);
		assert_int_equal(admit_state(v->place), ADMIT_ENDING);
		admit_leave(v->place);
		v->gone = true;
	}
	return 0;
}

static void leave_all(struct client *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!c[i].gone)
			admit_leave(c[i].place);
}

static size_t strangers(const struct admit *a)
{
	return admit_count(a, ADMIT_SILENT) + admit_count(a, ADMIT_SPOKE);
}

/* n addresses, each of them 200 times, in turn, a hundredth of a second apart from round to round. */
static void flood(struct admit *a, const struct admit_rules *r, unsigned n, bool spoken, struct client *c)
{
	char from[32];

	for (unsigned i = 0; i < 200; i++)
		for (unsigned k = 0; k < n; k++) {
			struct client *one = &c[i * n + k];

			snprintf(from, sizeof(from), "10.%u.%u.%u", 1 + k / 2500, k / 50 % 50, 1 + k % 50);
			if (come(a, r, from, T0 + i * NS_PER_SEC / 100, one) == 0 && spoken)
				admit_spoke(one->place, T0 + i * NS_PER_SEC / 100);
		}
}

static void a_person_comes_in(struct admit *a, const struct admit_rules *r, const char *from, uint64_t now)
{
	struct client person[6];

	for (int i = 0; i < 6; i++) {
		assert_int_equal(come(a, r, from, now + (uint64_t)i, &person[i]), 0);
		if (admit_state(person[i].place) == ADMIT_SILENT)
			admit_spoke(person[i].place, now + (uint64_t)i);
		assert_true(admit_in(person[i].place, r, false, now));
	}
	for (int i = 0; i < 6; i++) {
		assert_false(person[i].gone);
		assert_int_equal(admit_state(person[i].place), ADMIT_IN);
		admit_leave(person[i].place);
	}
}

/* One to 3,000 addresses of connections that are idle or half open: the door stays open for a person. */
static void strangers_do_not_close_a_door(void **state)
{
	static const unsigned crowds[] = {1, 2, 5, 50, 200, 749, 3000};
	static struct client c[200 * 3000];
	static const struct admit_rules ssh = {.max = 500, .per_address = 400, .rate = 200, .failures_max = 30};

	(void)state;
	for (size_t n = 0; n < sizeof(crowds) / sizeof(crowds[0]); n++)
		for (int kind = 0; kind < 4; kind++) {
			const struct admit_rules *r = kind & 2 ? &ssh : &usual;
			struct admit *a;

			assert_int_equal(admit_create(&a), 0);
			flood(a, r, crowds[n], kind & 1, c);
			assert_true(strangers(a) <= r->max * 3 / 4);
			assert_true(strangers(a) + admit_count(a, ADMIT_OVER) >= (crowds[n] < 5 ? 100 : r->max / 4));
			a_person_comes_in(a, r, "192.0.2.1", T0 + 3 * NS_PER_SEC);
			/* a neighbour of the flood, and one behind its first address once it has been silent a while */
			a_person_comes_in(a, r, "10.1.0.200", T0 + 3 * NS_PER_SEC);
			if (!(kind & 1))
				a_person_comes_in(a, r, "10.1.0.1", T0 + 10 * NS_PER_SEC);
			leave_all(c, 200 * (size_t)crowds[n]);
			admit_destroy(a);
		}
}

/* Who is in is never told to go, whatever comes. */
static void who_is_in_stays(void **state)
{
	static struct client c[200 * 50], in[900];
	struct admit *a;
	char from[32];

	(void)state;
	assert_int_equal(admit_create(&a), 0);
	for (unsigned i = 0; i < 900; i++) {
		snprintf(from, sizeof(from), "172.16.%u.%u", i / 100, i % 100);
		assert_int_equal(come(a, &usual, from, T0, &in[i]), 0);
		assert_true(admit_in(in[i].place, &usual, false, T0));
	}
	flood(a, &usual, 50, true, c);
	assert_true(strangers(a) <= 100);
	for (unsigned i = 0; i < 900; i++)
		assert_false(in[i].gone);
	a_person_comes_in(a, &usual, "192.0.2.1", T0 + 3 * NS_PER_SEC);
	leave_all(c, 200 * 50);
	leave_all(in, 900);
	assert_int_equal(
	    admit_count(a, ADMIT_IN) + strangers(a) + admit_count(a, ADMIT_OVER) + admit_count(a, ADMIT_ENDING), 0);
	admit_destroy(a);
}

/* Agents with valid tokens leave a sixteenth to staff, who get in where no stranger fits any more. */
static void staff_has_a_reserve(void **state)
{
	static struct client in[1000];
	struct client staff, agent;
	struct admit *a;
	unsigned n = 0;
	char from[32];

	(void)state;
	assert_int_equal(admit_create(&a), 0);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(from, sizeof(from), "172.16.%u.%u", i / 100, i % 100);
		if (come(a, &usual, from, T0, &in[i]) == 0 && admit_in(in[i].place, &usual, false, T0))
			n++;
		else if (!in[i].gone)
			admit_leave(in[i].place), in[i].gone = true;
	}
	assert_int_equal(n, 1000 - 1000 / 16);
	for (unsigned i = 0; i < 1000 / 16; i++) {
		snprintf(from, sizeof(from), "192.0.2.%u", i);
		assert_int_equal(come(a, &usual, from, T0, &staff), 0);
		assert_true(admit_in(staff.place, &usual, true, T0));
	}
	for (unsigned i = 0; i < n; i++) /* who is in has no need of a place */
		assert_true(in[i].gone || admit_in(in[i].place, &usual, false, T0));
	assert_int_equal(come(a, &usual, "198.51.100.1", T0, &agent), 0);
	assert_int_equal(admit_state(agent.place), ADMIT_OVER);
	assert_false(admit_in(agent.place, &usual, true, T0));
	admit_leave(agent.place);
	admit_leave(in[0].place);
	assert_int_equal(come(a, &usual, "198.51.100.1", T0, &agent), 0);
	assert_true(admit_in(agent.place, &usual, true, T0));
	admit_destroy(a);
}

/* Of the address that holds most, the one that never spoke, then the one that was quiet longest. */
static void who_goes(void **state)
{
	const struct admit_rules r = {.max = 12, .per_address = 12, .rate = 1000};
	static const char *const from[] = {"10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3",
					   "10.0.0.3", "10.0.1.1", "10.0.1.1", "10.0.1.2"};
	struct client c[9], x[4];
	struct admit *a;

	(void)state;
	assert_int_equal(admit_create(&a), 0);
	for (int i = 0; i < 9; i++)
		assert_int_equal(come(a, &r, from[i], T0 + (uint64_t)i, &c[i]), 0);
	admit_spoke(c[1].place, T0 + 20);
	admit_spoke(c[3].place, T0 + 21);
	assert_int_equal(come(a, &r, "192.0.2.1", T0 + 30, &x[0]), 0);
	assert_true(c[2].gone); /* 10.0.0.0/24 holds six, 10.0.0.2 three, and this one never spoke */
	assert_int_equal(come(a, &r, "192.0.2.2", T0 + 31, &x[1]), 0);
	assert_true(c[4].gone); /* two addresses hold two: who never spoke there, and came first */
	assert_int_equal(come(a, &r, "192.0.2.3", T0 + 32, &x[2]), 0);
	assert_true(c[1].gone); /* 10.0.0.2 again holds most, of whom both spoke: the quieter one */
	assert_int_equal(come(a, &r, "192.0.2.4", T0 + 33, &x[3]), 0);
	assert_true(x[0].gone || c[6].gone || c[0].gone);
	assert_ptr_not_equal(admit_victim(a), NULL);
	admit_destroy(a);
}

/* A thousand /64 of one /48 weigh as one crowd against a person elsewhere, and are as fast as four addresses. */
static void v6_counts_by_64_and_wider(void **state)
{
	static struct client c[4000];
	struct client same[3], person;
	struct admit *a;
	char from[64];
	unsigned taken = 0;

	(void)state;
	assert_int_equal(admit_create(&a), 0);
	for (int i = 0; i < 3; i++) {
		snprintf(from, sizeof(from), "2001:db8:7:7::%d", i + 1);
		assert_int_equal(come(a, &usual, from, T0, &same[i]), 0);
	}
	assert_int_equal(admit_addresses(a), 1);
	leave_all(same, 3);
	assert_int_equal(come(a, &usual, "2001:db8:ffff::1", T0, &person), 0);
	for (unsigned i = 0; i < 4000; i++) {
		snprintf(from, sizeof(from), "2001:db8:1:%x::1", i);
		if (come(a, &usual, from, T0 + 1, &c[i]) == 0)
			taken++;
	}
	assert_true(taken < 2000);
	assert_false(person.gone); /* the oldest, alone in its /48 */
	assert_true(strangers(a) <= 750);
	admit_destroy(a);
}

/* A burst is given two seconds to speak before it pays for what comes behind it. */
static void a_burst_has_time_to_speak(void **state)
{
	const struct admit_rules r = {.max = 100, .per_address = 100, .rate = 1000};
	struct client c[37], late, later;
	struct admit *a;

	(void)state;
	assert_int_equal(admit_create(&a), 0);
	for (unsigned i = 0; i < 37; i++)
		assert_int_equal(come(a, &r, "192.0.2.1", T0 + i, &c[i]), 0);
	assert_int_equal(come(a, &r, "192.0.2.1", T0 + ADMIT_SILENT_NS - 1, &late), 0);
	assert_int_equal(admit_state(late.place), ADMIT_OVER);
	admit_spoke(c[0].place, T0);
	assert_int_equal(come(a, &r, "192.0.2.1", T0 + ADMIT_SILENT_NS + 1, &later), 0);
	assert_int_equal(admit_state(later.place), ADMIT_SILENT);
	for (unsigned i = 0; i < 37; i++)
		assert_int_equal(c[i].gone, i == 1);
	admit_destroy(a);
}

/* Over its share an address is told, a few at a time, and a credential still counts. */
static void over_the_share_a_few_are_told(void **state)
{
	static struct client c[260];
	struct admit_rules quiet = usual;
	unsigned in = 0, over = 0, shut = 0;
	struct admit *a;

	(void)state;
	assert_int_equal(admit_create(&a), 0);
	for (unsigned i = 0; i < 260; i++) {
		if (come(a, &usual, "10.0.0.1", T0, &c[i]))
			shut++;
		else if (admit_state(c[i].place) == ADMIT_OVER)
			over++;
		else if (admit_in(c[i].place, &usual, false, T0))
			in++;
	}
	assert_int_equal(in, 200);
	assert_int_equal(over, 8);
	assert_int_equal(shut, 52);
	for (unsigned i = 200; i < 208; i++)
		assert_false(admit_in(c[i].place, &usual, false, T0));
	admit_leave(c[0].place);
	assert_true(admit_in(c[207].place, &usual, false, T0));
	quiet.tells = false;
	assert_int_equal(come(a, &quiet, "10.0.0.1", T0, &c[0]), 0); /* it may be staff */
	assert_int_equal(admit_state(c[0].place), ADMIT_OVER);
	assert_int_equal(come(a, &quiet, "10.0.0.1", T0, &c[1]), ERR_LIMIT);
	admit_destroy(a);
}

/* Behind a NAT agents hold all of its share: as many of staff get in there as a door keeps for them, and no more. */
static void staff_gets_in_behind_a_full_address(void **state)
{
	static struct client c[200], s[63];
	uint64_t now = T0;

	(void)state;
	for (int tells = 0; tells < 2; tells++) {
		struct admit_rules r = usual;
		struct client agent;
		struct admit *a;

		r.tells = tells, r.rate = 1000;
		assert_int_equal(admit_create(&a), 0);
		for (unsigned i = 0; i < 200; i++) {
			assert_int_equal(come(a, &r, "10.0.0.1", now, &c[i]), 0);
			assert_true(admit_in(c[i].place, &r, false, now));
		}
		for (unsigned i = 0; i < 62; i++) {
			assert_int_equal(come(a, &r, "10.0.0.1", now, &agent), 0);
			assert_false(admit_in(agent.place, &r, false, now));
			admit_leave(agent.place);
			assert_int_equal(come(a, &r, "10.0.0.1", now, &s[i]), 0);
			assert_true(admit_in(s[i].place, &r, true, now));
		}
		if (come(a, &r, "10.0.0.1", now, &s[62]) == 0)
			assert_false(admit_in(s[62].place, &r, true, now));
		admit_destroy(a);
	}
}

static void a_gateway_has_a_larger_share(void **state)
{
	static struct client c[800], d[1000];
	struct admit *a;
	unsigned in = 0;

	(void)state;
	assert_int_equal(admit_create(&a), 0);
	for (unsigned i = 0; i < 800; i++)
		if (come(a, &usual, "10.9.9.9", T0, &c[i]) == 0 && admit_in(c[i].place, &usual, false, T0))
			in++;
	assert_int_equal(in, 600);
	for (unsigned i = 0; i < 800; i++)
		if (!c[i].gone)
			admit_leave(c[i].place), c[i].gone = true;
	/* what comes through it is not what goes first, where all others come alone */
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(come(a, &usual, "10.9.9.9", T0 + 20 * NS_PER_SEC, &c[i]), 0);
	for (unsigned i = 0; i < 1000; i++) {
		char from[32];

		snprintf(from, sizeof(from), "%u.%u.0.1", 20 + i / 200, i % 200);
		assert_int_equal(come(a, &usual, from, T0 + 21 * NS_PER_SEC + i, &d[i]), 0);
	}
	for (unsigned i = 0; i < 12; i++)
		assert_false(c[i].gone);
	assert_int_equal(strangers(a), 750);
	admit_destroy(a);
}

static void the_rate_has_a_burst_and_shrinks(void **state)
{
	static struct client c[1000], d[200 * 50];
	unsigned taken = 0, later = 0, crowded = 0;
	struct admit_rules r = usual;
	struct admit *a;

	(void)state;
	r.tells = false;
	r.rate = 20;
	assert_int_equal(admit_create(&a), 0);
	for (unsigned i = 0; i < 100; i++)
		if (come(a, &r, "192.0.2.1", T0, &c[i]) == 0)
			taken++;
	assert_int_equal(taken, 40);
	for (unsigned i = 0; i < 100; i++)
		if (come(a, &r, "192.0.2.1", T0 + NS_PER_SEC, &c[100 + i]) == 0)
			later++;
	assert_int_equal(later, 20);
	r.rate = 200;
	flood(a, &r, 50, true, d);
	for (unsigned i = 0; i < 100; i++)
		if (come(a, &r, "192.0.2.9", T0 + 5 * NS_PER_SEC, &c[200 + i]) == 0)
			crowded++;
	assert_in_range(crowded, ADMIT_SHARE_MIN, 40);
	admit_destroy(a);
}

static void failures_are_forgotten_one_by_one(void **state)
{
	struct admit_rules r = usual;
	struct client c, d;
	struct admit *a;

	(void)state;
	r.failures_max = 30;
	assert_int_equal(admit_create(&a), 0);
	assert_int_equal(come(a, &r, "2001:db8::1", T0, &c), 0);
	for (uint32_t i = 1; i <= 30; i++)
		assert_int_equal(admit_failed(c.place, T0), i);
	assert_int_equal(come(a, &r, "2001:db8::2", T0, &d), ERR_RATE_LIMITED);
	assert_int_equal(come(a, &r, "2001:db8:0:1::2", T0, &d), 0);
	admit_leave(c.place);
	admit_prune(a, T0 + 5 * NS_PER_SEC);
	assert_int_equal(come(a, &r, "2001:db8::2", T0 + ADMIT_FORGET_NS, &c), 0);
	assert_int_equal(admit_failures(c.place, T0 + ADMIT_FORGET_NS), 29);
	assert_int_equal(admit_failures(c.place, T0 + 30 * ADMIT_FORGET_NS), 0);
	admit_leave(c.place);
	admit_leave(d.place);
	admit_prune(a, T0 + 31 * ADMIT_FORGET_NS);
	assert_int_equal(admit_addresses(a), 0);
	admit_destroy(a);
}

/* One of the many behind a gateway cannot have all of them turned away, or wait. */
static void failures_behind_a_gateway_are_many_peoples(void **state)
{
	struct admit_rules r = usual;
	struct client c, d;
	struct admit *a;

	(void)state;
	r.failures_max = 30;
	assert_int_equal(admit_create(&a), 0);
	assert_int_equal(come(a, &r, "10.9.9.9", T0, &c), 0);
	for (uint32_t i = 1; i <= 100; i++)
		assert_int_equal(admit_failed(c.place, T0), i / 16);
	assert_int_equal(come(a, &r, "10.9.9.9", T0, &d), 0);
	for (uint32_t i = 101; i <= 480; i++)
		assert_int_equal(admit_failed(d.place, T0), i / 16);
	admit_leave(c.place);
	assert_int_equal(come(a, &r, "10.9.9.9", T0, &c), ERR_RATE_LIMITED);
	assert_int_equal(admit_failures(d.place, T0 + ADMIT_FORGET_NS), 29);
	assert_int_equal(admit_failures(d.place, T0 + 30 * ADMIT_FORGET_NS), 0);
	admit_leave(d.place);
	admit_destroy(a);
}

static void what_is_remembered_is_bounded(void **state)
{
	struct client kept, c;
	struct admit *a;
	char from[64];

	(void)state;
	assert_int_equal(admit_create(&a), 0);
	assert_int_equal(come(a, &usual, "192.0.2.1", T0, &kept), 0);
	(void)admit_failed(kept.place, T0);
	for (unsigned i = 0; i < 3 * ADMIT_ADDRESSES_MAX; i++) {
		snprintf(from, sizeof(from), "10.%u.%u.1", i / 250, i % 250);
		assert_int_equal(come(a, &usual, from, T0, &c), 0);
		(void)admit_failed(c.place, T0);
		admit_leave(c.place);
	}
	assert_in_range(admit_addresses(a), ADMIT_ADDRESSES_MAX, ADMIT_ADDRESSES_MAX + 1);
	assert_int_equal(admit_failures(kept.place, T0), 1);
	for (unsigned i = 0; i < 3 * ADMIT_ADDRESSES_MAX; i++) { /* who is refused is forgotten like anybody */
		struct admit_rules shut = usual;

		shut.max = 0;
		snprintf(from, sizeof(from), "11.%u.%u.1", i / 250, i % 250);
		(void)come(a, &shut, from, T0, &c);
	}
	assert_in_range(admit_addresses(a), ADMIT_ADDRESSES_MAX, ADMIT_ADDRESSES_MAX + 9);
	admit_leave(kept.place);
	admit_destroy(a);
}

/* Anything in any order: the counts are those of the places, and nobody who is in goes. */
static void anything_in_any_order(void **state)
{
	enum { N = 300 };
	static struct client c[N];
	struct admit_rules r = {.max = 60, .per_address = 20, .rate = 50, .gateways = "10.0.0.0/30", .gateway_max = 40};
	uint64_t now = T0;
	struct admit *a;
	char from[64];

	(void)state;
	srandom(7);
	assert_int_equal(admit_create(&a), 0);
	memset(c, 0, sizeof(c));
	for (int i = 0; i < N; i++)
		c[i].gone = true;
	for (int step = 0; step < 200000; step++) {
		struct client *one = &c[random() % N];
		size_t count[ADMIT_STATES] = {0}, all = 0;
		bool was_in = !one->gone && admit_state(one->place) == ADMIT_IN;

		r.tells = random() % 2;
		now += (uint64_t)(random() % 20000000);
		if (one->gone) {
			if (random() % 2)
				snprintf(from, sizeof(from), "10.0.%ld.%ld", random() % 3, random() % 12);
			else
				snprintf(from, sizeof(from), "2001:db8:%lx:%lx::1", random() % 3, random() % 9);
			(void)come(a, &r, from, now, one);
		} else if (random() % 3 == 0) {
			admit_spoke(one->place, now);
			assert_int_equal(was_in, admit_state(one->place) == ADMIT_IN);
		} else if (random() % 3 == 0) {
			(void)admit_in(one->place, &r, random() % 2, now);
		} else if (random() % 4 == 0) {
			admit_out(one->place, now);
		} else {
			admit_leave(one->place);
			one->gone = true;
		}
		if (random() % 500 == 0)
			admit_prune(a, now);
		for (int i = 0; i < N && step % 16 == 0; i++)
			if (!c[i].gone)
				count[admit_state(c[i].place)]++, all++;
		for (int s = 0; s < ADMIT_STATES && step % 16 == 0; s++)
			assert_int_equal(count[s], admit_count(a, (enum admit_state)s));
		assert_true(count[ADMIT_IN] <= r.max);
		assert_true(all <= r.max + 60 / 4 * 3 + 8);
	}
	leave_all(c, N);
	admit_prune(a, now + 60 * NS_PER_SEC);
	assert_int_equal(admit_addresses(a), 0);
	admit_destroy(a);
	admit_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(strangers_do_not_close_a_door),
	    cmocka_unit_test(who_is_in_stays),
	    cmocka_unit_test(staff_has_a_reserve),
	    cmocka_unit_test(who_goes),
	    cmocka_unit_test(v6_counts_by_64_and_wider),
	    cmocka_unit_test(a_burst_has_time_to_speak),
	    cmocka_unit_test(over_the_share_a_few_are_told),
	    cmocka_unit_test(staff_gets_in_behind_a_full_address),
	    cmocka_unit_test(a_gateway_has_a_larger_share),
	    cmocka_unit_test(the_rate_has_a_burst_and_shrinks),
	    cmocka_unit_test(failures_are_forgotten_one_by_one),
	    cmocka_unit_test(failures_behind_a_gateway_are_many_peoples),
	    cmocka_unit_test(what_is_remembered_is_bounded),
	    cmocka_unit_test(anything_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
