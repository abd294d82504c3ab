// tier: check
/* Paths outside the workspace that outlive a sleep, as a configuration has them. */
#include "base/err.h"
#include "base/persist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_taken(void **state)
{
	static const char *const rows[] = {"",
					   " ",
					   "/opt/venv",
					   "/var/lib/app, /home/agent ,/opt",
					   "/tmp/cache",
					   "/run/app.d/x+y@1",
					   "/var/lib/a,/var/lib/ab"};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(persist_check(rows[i], NULL), 0);
}

static void test_refused(void **state)
{
	static const char *const rows[] = {"opt",
					   "/",
					   "/opt/",
					   "/opt//x",
					   "/opt/./x",
					   "/opt/../etc",
					   "/opt/..",
					   "/opt/.",
					   "/usr/local",
					   "/etc",
					   "/workspace/x",
					   "/tmp",
					   "/var",
					   "/var/tmp",
					   "/home",
					   "/run",
					   "/run/lock",
					   "/var/run/x",
					   "/proc/1",
					   "/dev/shm",
					   "/.muxlet",
					   "/opt/a b",
					   "/opt/\"x\"",
					   "/opt/a,/opt/a/b",
					   "/opt/a/b, /opt/a",
					   "/opt/a,/opt/a",
					   "/opt/a:/opt/b"};
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(persist_check(rows[i], &e), ERR_CONFIG);
		assert_true(e.message[0]);
	}
	assert_int_equal(persist_check("/opt/1,/opt/2,/opt/3,/opt/4,/opt/5,/opt/6,/opt/7,/opt/8,/opt/9,/opt/10,/opt/11,"
				       "/opt/12,/opt/13,/opt/14,/opt/15,/opt/16,/opt/17",
				       &e),
			 ERR_CONFIG);
}

static void test_walked(void **state)
{
	char path[32];
	size_t at = 0;

	(void)state;
	assert_string_equal(persist_next("/opt/a , /srv", &at, path, sizeof(path)), "/opt/a");
	assert_string_equal(persist_next("/opt/a , /srv", &at, path, sizeof(path)), "/srv");
	assert_null(persist_next("/opt/a , /srv", &at, path, sizeof(path)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_taken),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_walked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
