// tier: check
/* Numbers that fit a limit of open files: for every limit no more than there is, nothing is cut without need, and it is
 * said.
 */
#include "base/conf.h"
#include "base/descriptors.h"
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct conf usual(void)
{
	return (struct conf){.api_max_connections = 1000, .ssh_max_connections = 500, .sessions_max_per_agent = 500};
}

static void every_limit(void **state)
{
	(void)state;
	for (uint64_t have = DESCRIPTORS_LEAST; have < 70000; have += have < 5000 ? 1 : 997) {
		struct conf c = usual(), was = c;

		descriptors_fit(&c, have);
		assert_true(c.api_max_connections >= 1 && c.ssh_max_connections >= 1 && c.sessions_max_per_agent >= 1);
		assert_true(c.api_max_connections + c.ssh_max_connections + have / 8 < have);
		assert_true(have >= DESCRIPTORS_SANDBOX || 3 * (c.sessions_max_per_agent + 24) + 32 <= have ||
			    c.sessions_max_per_agent == 1);
		assert_int_equal(c.descriptors[0] != 0, c.api_max_connections != was.api_max_connections ||
							    c.ssh_max_connections != was.ssh_max_connections ||
							    c.sessions_max_per_agent != was.sessions_max_per_agent);
		if (have >= 2048)
			assert_int_equal(c.descriptors[0], 0);
		assert_int_equal(strstr(c.descriptors, "api.max_connections") != NULL,
				 c.api_max_connections != was.api_max_connections);
	}
}

static void the_words(void **state)
{
	struct conf c = usual();

	(void)state;
	descriptors_fit(&c, 256);
	assert_string_equal(c.descriptors,
			    "the limit of open files is 256: api.max_connections is 96 instead of 1000, "
			    "ssh.max_connections is 48 instead of 500, sessions.max_per_agent is 50 instead of 500");
}

static int raised_under(rlim_t soft, rlim_t hard)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		struct rlimit r = {soft, hard};
		struct err e = {0};
		uint64_t have = 0;
		int rc = setrlimit(RLIMIT_NOFILE, &r) ? 99 : descriptors_raise(&have, &e);

		if (!rc && (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur != hard || have != hard))
			_exit(98);
		_exit(rc == ERR_LIMIT && strstr(e.message, "ulimit -Hn") ? 1 : rc ? 97 : 0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static void soft_becomes_hard(void **state)
{
	(void)state;
	assert_int_equal(raised_under(64, 256), 0);
	assert_int_equal(raised_under(256, 256), 0);
	assert_int_equal(raised_under(64, DESCRIPTORS_LEAST), 0);
	assert_int_equal(raised_under(64, DESCRIPTORS_LEAST - 1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_limit),
	    cmocka_unit_test(the_words),
	    cmocka_unit_test(soft_becomes_hard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
