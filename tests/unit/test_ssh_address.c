/* What the SSH door remembers of addresses: connections counted, failures forgotten, memory bounded. */
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/doors/ssh/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define T0 (1000 * NS_PER_SEC)

static struct sockaddr_storage addr(const char *text)
{
	struct sockaddr_storage ss = {0};

	if (strchr(text, ':')) {
		struct sockaddr_in6 *a = (struct sockaddr_in6 *)&ss;

		a->sin6_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, text, &a->sin6_addr), 1);
	} else {
		struct sockaddr_in *a = (struct sockaddr_in *)&ss;

		a->sin_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, text, &a->sin_addr), 1);
	}
	return ss;
}

static int enter(struct ssh_address_table *t, const char *text, uint32_t max, uint64_t now, struct ssh_address **out)
{
	struct sockaddr_storage ss = addr(text);
	bool first;

	return ssh_address_enter(t, (struct sockaddr *)&ss, max, UINT32_MAX, now, out, &first);
}

static void an_address_has_its_share(void **state)
{
	struct ssh_address_table *t;
	struct ssh_address *a, *b, *c;

	(void)state;
	assert_int_equal(ssh_address_table_create(&t), 0);
	assert_int_equal(enter(t, "10.0.0.1", 2, T0, &a), 0);
	assert_int_equal(enter(t, "10.0.0.1", 2, T0, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(enter(t, "10.0.0.1", 2, T0, &c), ERR_LIMIT);
	assert_int_equal(enter(t, "10.0.0.2", 2, T0, &c), 0);
	assert_ptr_not_equal(a, c);
	ssh_address_leave(a, T0);
	assert_int_equal(enter(t, "10.0.0.1", 2, T0, &a), 0);
	ssh_address_table_destroy(t);
}

/* Who is not in yet has a smaller share than who is. */
static void log_ins_have_a_share_of_their_own(void **state)
{
	struct sockaddr_storage one = addr("10.0.0.1"), other = addr("10.0.0.2");
	struct ssh_address_table *t;
	struct ssh_address *a, *b;
	bool first;

	(void)state;
	assert_int_equal(ssh_address_table_create(&t), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&one, 9, 2, T0, &a, &first), 0);
	assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&one, 9, 2, T0, &b, &first), ERR_LIMIT);
	assert_true(first);
	assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&other, 9, 2, T0, &b, &first), 0);
	ssh_address_settled(a);
	assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&one, 9, 2, T0, &a, &first), 0);
	assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&one, 9, 2, T0, &b, &first), ERR_LIMIT);
	assert_true(first);
	ssh_address_settled(a);
	ssh_address_leave(a, T0);
	assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&one, 9, 2, T0, &a, &first), 0);
	ssh_address_table_destroy(t);
}

static void what_counts_as_one_address(void **state)
{
	struct ssh_address_table *t;
	struct ssh_address *a, *b;

	(void)state;
	assert_int_equal(ssh_address_table_create(&t), 0);
	assert_int_equal(enter(t, "2001:db8:1:2::1", 9, T0, &a), 0);
	assert_int_equal(enter(t, "2001:db8:1:2:ffff::9", 9, T0, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(enter(t, "2001:db8:1:3::1", 9, T0, &b), 0);
	assert_ptr_not_equal(a, b);
	assert_int_equal(enter(t, "::ffff:10.0.0.1", 9, T0, &a), 0);
	assert_int_equal(enter(t, "10.0.0.1", 9, T0, &b), 0);
	assert_ptr_equal(a, b);
	ssh_address_table_destroy(t);
}

static void failures_cost_time_and_are_forgotten(void **state)
{
	struct ssh_address_table *t;
	struct ssh_address *a;
	uint64_t later;

	(void)state;
	assert_int_equal(ssh_address_table_create(&t), 0);
	assert_int_equal(enter(t, "10.0.0.1", 9, T0, &a), 0);
	for (int i = 0; i < SSH_ADDRESS_PATIENCE - 1; i++)
		ssh_address_failed(a, T0);
	assert_int_equal(ssh_address_delay_ns(a, T0), 0);
	ssh_address_failed(a, T0);
	assert_int_equal(ssh_address_delay_ns(a, T0), NS_PER_SEC);
	ssh_address_failed(a, T0);
	assert_int_equal(ssh_address_delay_ns(a, T0), 2 * NS_PER_SEC);
	later = T0 + 2 * SSH_ADDRESS_FORGET_NS;
	assert_int_equal(ssh_address_delay_ns(a, later), 0);
	for (int i = 0; i < 100; i++)
		ssh_address_failed(a, later);
	assert_int_equal(ssh_address_delay_ns(a, later), 8 * NS_PER_SEC);
	ssh_address_table_destroy(t);
}

static void too_many_failures_shut_the_address_out_for_a_while(void **state)
{
	struct ssh_address_table *t;
	struct ssh_address *a;
	struct sockaddr_storage ss = addr("10.0.0.1");
	bool first;

	(void)state;
	assert_int_equal(ssh_address_table_create(&t), 0);
	assert_int_equal(enter(t, "10.0.0.1", 9, T0, &a), 0);
	for (int i = 0; i < SSH_ADDRESS_REFUSE; i++)
		ssh_address_failed(a, T0);
	assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&ss, 9, 9, T0, &a, &first), ERR_RATE_LIMITED);
	assert_true(first);
	assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&ss, 9, 9, T0, &a, &first), ERR_RATE_LIMITED);
	assert_false(first); /* one line in the audit, not one a connection */
	assert_int_equal(ssh_address_enter(t, (struct sockaddr *)&ss, 9, 9, T0 + SSH_ADDRESS_FORGET_NS, &a, &first), 0);
	ssh_address_table_destroy(t);
}

static void a_flood_of_addresses_fits(void **state)
{
	struct ssh_address_table *t;
	struct ssh_address *kept, *a;
	char text[32];

	(void)state;
	assert_int_equal(ssh_address_table_create(&t), 0);
	assert_int_equal(enter(t, "10.0.0.1", 1, T0, &kept), 0);
	for (int i = 0; i < 3 * SSH_ADDRESS_MAX; i++) {
		snprintf(text, sizeof(text), "11.%d.%d.1", i / 250, i % 250);
		assert_int_equal(enter(t, text, 1, T0, &a), 0);
		ssh_address_leave(a, T0);
	}
	/* The one with a connection was not given up. */
	assert_int_equal(enter(t, "10.0.0.1", 1, T0, &a), ERR_LIMIT);
	ssh_address_table_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_address_has_its_share),
	    cmocka_unit_test(log_ins_have_a_share_of_their_own),
	    cmocka_unit_test(what_counts_as_one_address),
	    cmocka_unit_test(failures_cost_time_and_are_forgotten),
	    cmocka_unit_test(too_many_failures_shut_the_address_out_for_a_while),
	    cmocka_unit_test(a_flood_of_addresses_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
