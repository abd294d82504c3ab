/* What the HTTPS door remembers of addresses: how many connections, and refused tokens of late. */
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/doors/rest/peers.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

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

static int enter(struct peers *p, const char *text, struct peer **out)
{
	struct sockaddr_storage s = address(text);

	return peers_enter(p, (struct sockaddr *)&s, 2, 100, 0, out);
}

static void test_limit(void **state)
{
	struct peers *p;
	struct peer *a, *b, *c;

	(void)state;
	assert_int_equal(peers_create(&p), 0);
	assert_int_equal(enter(p, "192.0.2.1", &a), 0);
	assert_int_equal(enter(p, "192.0.2.1", &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(enter(p, "192.0.2.1", &c), ERR_LIMIT);
	assert_int_equal(enter(p, "192.0.2.2", &c), 0);
	peers_leave(p, a, 0);
	assert_int_equal(enter(p, "192.0.2.1", &a), 0);
	peers_leave(p, a, 0);
	peers_leave(p, a, 0);
	peers_leave(p, c, 0);
	peers_prune(p, 3 * NS_PER_SEC);
	assert_int_equal(peers_count(p), 0);
	peers_destroy(p);
	peers_destroy(NULL);
}

static void test_v6_counts_by_64(void **state)
{
	struct peers *p;
	struct peer *a;

	(void)state;
	assert_int_equal(peers_create(&p), 0);
	assert_int_equal(enter(p, "2001:db8:1:2::1", &a), 0);
	assert_int_equal(enter(p, "2001:db8:1:2:ffff::1", &a), 0);
	assert_int_equal(enter(p, "2001:db8:1:2::3", &a), ERR_LIMIT);
	assert_int_equal(enter(p, "2001:db8:1:3::3", &a), 0);
	/* mapped addresses are hosts, not one network */
	assert_int_equal(enter(p, "::ffff:192.0.2.1", &a), 0);
	assert_int_equal(enter(p, "::ffff:192.0.2.1", &a), 0);
	assert_int_equal(enter(p, "::ffff:192.0.2.2", &a), 0);
	peers_destroy(p);
}

static void test_failures(void **state)
{
	uint64_t t = 1000 * NS_PER_SEC;
	struct peers *p;
	struct peer *a;

	(void)state;
	assert_int_equal(peers_create(&p), 0);
	assert_int_equal(enter(p, "192.0.2.1", &a), 0);
	for (int i = 0; i < 10; i++)
		assert_false(peers_failed(a, t));
	assert_true(peers_failed(a, t + 59 * NS_PER_SEC));
	assert_false(peers_failed(a, t + 61 * NS_PER_SEC));
	/* remembered over the connection's end, for a minute */
	peers_leave(p, a, t + 62 * NS_PER_SEC);
	assert_int_equal(peers_count(p), 1);
	peers_prune(p, t + 120 * NS_PER_SEC);
	assert_int_equal(peers_count(p), 1);
	peers_prune(p, t + 122 * NS_PER_SEC);
	assert_int_equal(peers_count(p), 0);
	peers_destroy(p);
}

static void test_rate(void **state)
{
	struct sockaddr_storage s = address("192.0.2.1"), other = address("192.0.2.2");
	uint64_t now = 1000 * NS_PER_SEC;
	struct peer *a;
	struct peers *p;
	int in = 0;

	(void)state;
	assert_int_equal(peers_create(&p), 0);
	for (int i = 0; i < 1000; i++) {
		int rc = peers_enter(p, (struct sockaddr *)&s, 10, 100, now, &a);

		if (rc == 0)
			peers_leave(p, a, now);
		else
			assert_int_equal(rc, ERR_RATE_LIMITED);
		in += rc == 0;
	}
	assert_int_equal(in, 200);
	assert_int_equal(peers_enter(p, (struct sockaddr *)&other, 10, 100, now, &a), 0);
	peers_leave(p, a, now);
	assert_int_equal(peers_enter(p, (struct sockaddr *)&s, 10, 100, now + NS_PER_SEC / 10, &a), 0);
	peers_leave(p, a, now);
	peers_prune(p, now + 10 * NS_PER_SEC);
	assert_int_equal(peers_count(p), 0);
	peers_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_limit),
	    cmocka_unit_test(test_v6_counts_by_64),
	    cmocka_unit_test(test_failures),
	    cmocka_unit_test(test_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
