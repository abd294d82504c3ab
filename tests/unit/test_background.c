// tier: check
/* A thread in the background gives way, and still gets on: its class is that of the others. */
#include "base/background.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

static void *works(void *arg)
{
	int *nice = arg;

	background_enter();
	nice[0] = getpriority(PRIO_PROCESS, (id_t)gettid());
	nice[1] = sched_getscheduler(0);
	return NULL;
}

static void one_thread_alone_gives_way(void **state)
{
	int before = getpriority(PRIO_PROCESS, 0), in[2];
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, works, in), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(in[0], before > 15 ? before : 15);
	assert_int_equal(in[1], SCHED_OTHER);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_thread_alone_gives_way)};

	return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
