// tier: check
/* Addresses and how much of them counts: what is one customer, what covers what, lists as people write them. */
#include "base/err.h"
#include "base/prefix.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void peer_is(const char *peer, const char *whole, const char *host)
{
	char text[PREFIX_STR_LEN];
	struct prefix p, h;

	prefix_of_peer(peer, &p);
	prefix_format(&p, text);
	assert_string_equal(text, whole);
	h = prefix_host(&p);
	prefix_format(&h, text);
	assert_string_equal(text, host);
}

static void test_peers(void **state)
{
	(void)state;
	peer_is("192.0.2.7:40123", "192.0.2.7", "192.0.2.7");
	peer_is("[2001:db8:1:2:3::4]:443", "2001:db8:1:2:3::4", "2001:db8:1:2::/64");
	peer_is("[::ffff:192.0.2.7]:1", "192.0.2.7", "192.0.2.7");
	peer_is("uid 1000", "", "");
	peer_is("unix", "", "");
	peer_is("", "", "");
	peer_is(":", "", "");
	peer_is("[", "", "");
	peer_is("[::1", "", "");
	peer_is("[::1]", "", "");
	peer_is("999.1.1.1:5", "", "");
	peer_is("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:1", "", "");
}

static void test_sockets_say_the_same(void **state)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr unix_one = {.sa_family = AF_UNIX};
	struct prefix a, b;

	(void)state;
	inet_pton(AF_INET, "192.0.2.7", &v4.sin_addr);
	inet_pton(AF_INET6, "::ffff:192.0.2.7", &v6.sin6_addr);
	prefix_of((struct sockaddr *)&v4, &a);
	prefix_of((struct sockaddr *)&v6, &b);
	assert_true(prefix_equal(&a, &b));
	prefix_of(&unix_one, &a);
	assert_int_equal(a.family, 0);
}

/* Against bits taken one by one, for random addresses. */
static void test_wider_is_the_first_bits(void **state)
{
	(void)state;
	srandom(11);
	for (int i = 0; i < 20000; i++) {
		struct prefix p = {.family = i & 1 ? 6 : 4, .bits = i & 1 ? 128 : 32}, w;
		unsigned bits = (unsigned)random() % (p.bits + 1u);

		for (int k = 0; k < p.bits / 8; k++)
			p.b[k] = (uint8_t)random();
		w = prefix_wide(&p, bits);
		assert_int_equal(w.bits, bits);
		for (unsigned k = 0; k < 128; k++) {
			unsigned was = p.b[k / 8] >> (7 - k % 8) & 1, is = w.b[k / 8] >> (7 - k % 8) & 1;

			assert_int_equal(is, k < bits ? was : 0);
		}
		assert_true(prefix_covers(&w, &p));
		assert_true(prefix_covers(&p, &w) == (bits == p.bits));
	}
}

static void covers(const char *list, const char *peer, bool yes)
{
	struct prefix p;
	struct err e;

	assert_int_equal(prefix_list_check(list, &e), 0);
	prefix_of_peer(peer, &p);
	assert_int_equal(prefix_list_covers(list, &p), yes);
}

static void test_lists(void **state)
{
	static const char *const bad[] = {"x",           "10.0.0.0/33",
					  "10.0.0.1/8",  "10.0.0.1,",
					  ",10.0.0.1",   "10.0.0.1 10.0.0.2",
					  "10.0.0.1/",   "::/129",
					  "10.0.0.1/-1", "10.0.0.1,,10.0.0.2",
					  "[::1]:5",     "2001:db8::1/64",
					  "10.0.0.1/a",  "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb/128"};
	struct err e;

	(void)state;
	covers("", "10.0.0.1:1", false);
	covers("  ", "10.0.0.1:1", false);
	covers("10.0.0.1", "10.0.0.1:1", true);
	covers("10.0.0.1", "10.0.0.2:1", false);
	covers("10.0.0.0/8 , 2001:db8::/48", "10.200.3.4:1", true);
	covers("10.0.0.0/8 , 2001:db8::/48", "[2001:db8:0:7::1]:1", true);
	covers("10.0.0.0/8 , 2001:db8::/48", "[2001:db8:1:7::1]:1", false);
	covers("2001:db8::5", "[2001:db8::5]:1", true);
	covers("2001:db8::5", "[2001:db8::6]:1", false);
	covers("0.0.0.0/0", "[::1]:1", false);
	covers("::/0", "[::1]:1", true);
	covers("0.0.0.0/0", "uid 0", false);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(prefix_list_check(bad[i], &e), ERR_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_peers),
	    cmocka_unit_test(test_sockets_say_the_same),
	    cmocka_unit_test(test_wider_is_the_first_bits),
	    cmocka_unit_test(test_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
