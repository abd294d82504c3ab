// tier: check
/* Readings are counted while the recorder's queue is full: what was counted is told later, or was refused. */
#include "recorder/write/drain.h"

static int fake_audit(struct drain *d, const struct id *session, json_t *event);
static int fake_flush(struct drain *d, uint64_t timeout_ns, uint64_t *out_lsn);
#define drain_audit fake_audit
#define drain_flush fake_flush
#include "recorder/serve/ledger.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct {
	bool full;
	uint64_t events, readings, bytes;
} queue;

static int fake_audit(struct drain *d, const struct id *session, json_t *event)
{
	json_t *output;

	(void)d, (void)session;
	assert_non_null(event);
	if (!queue.full) {
		output = json_object_get(json_object_get(event, "streams"), "output");
		queue.events++;
		queue.readings += (uint64_t)json_integer_value(json_object_get(event, "count"));
		queue.bytes += (uint64_t)json_integer_value(json_object_get(output, "bytes"));
	}
	json_decref(event);
	return queue.full ? ERR_LIMIT : 0;
}

static int fake_flush(struct drain *d, uint64_t timeout_ns, uint64_t *out_lsn)
{
	(void)d, (void)timeout_ns, (void)out_lsn;
	return 0;
}

static struct reader reader(uint64_t n)
{
	struct reader who = {.conn = 1 + n};

	strcpy(who.door, "recorder");
	strcpy(who.grant.principal, "anna");
	memcpy(who.grant.id.b, &who.conn, sizeof(who.conn));
	return who;
}

static const struct reading_of list = {.op = READ_SESSIONS, .outcome = "ok"};
static const struct reading_of some = {.op = READ_OUTPUT, .outcome = "ok", .sent[1] = {.offset = 7, .bytes = 100}};

/* More readers than accounts, each twice, with a queue that is full in between: each is told of, or was refused. */
static void what_was_counted_is_told(void **state)
{
	uint64_t allowed = 0, sent = 0;
	struct ledger *l = NULL;
	struct err e;

	(void)state;
	memset(&queue, 0, sizeof(queue));
	assert_int_equal(ledger_create(NULL, 3600 * NS_PER_SEC, &l), 0);
	for (uint64_t n = 0; n < 3 * LEDGER_MAX; n++) {
		struct reader who = reader(n % (LEDGER_MAX + 50));

		queue.full = n % 10 >= 5;
		for (int i = 0; i < 2; i++) {
			if (ledger_read(l, &who, &list, &e))
				continue;
			allowed++;
			ledger_sent(l, &who, &some);
			sent += 100;
		}
		if (n % 7 == 0)
			ledger_client_gone(l, &who);
	}
	queue.full = false;
	ledger_destroy(l);
	assert_true(allowed > LEDGER_MAX);
	assert_int_equal(queue.readings, allowed);
	assert_int_equal(queue.bytes, sent);
}

/* One that is due when its place is wanted stays until there is room; who comes is refused, and gets in then. */
static void the_oldest_is_not_given_up(void **state)
{
	struct reader first = reader(0), late = reader(LEDGER_MAX);
	struct ledger *l = NULL;
	struct err e;

	(void)state;
	memset(&queue, 0, sizeof(queue));
	assert_int_equal(ledger_create(NULL, 3600 * NS_PER_SEC, &l), 0);
	for (uint64_t n = 0; n < LEDGER_MAX; n++) {
		struct reader who = reader(n);

		assert_int_equal(ledger_read(l, &who, &list, &e), 0);
	}
	ledger_sent(l, &first, &some);
	queue.full = true;
	assert_int_equal(ledger_read(l, &late, &list, &e), ERR_RECORD_UNAVAILABLE);
	ledger_client_gone(l, &first);
	assert_int_equal(queue.bytes, 0);
	queue.full = false;
	assert_int_equal(ledger_read(l, &late, &list, &e), 0);
	assert_int_equal(queue.bytes, 100);
	ledger_destroy(l);
	assert_int_equal(queue.readings, LEDGER_MAX + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_was_counted_is_told),
	    cmocka_unit_test(the_oldest_is_not_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
