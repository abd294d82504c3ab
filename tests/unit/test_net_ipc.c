// tier: check
/* Net's questions to the monitor when that dies: each is answered once, at the end of the conversation and not before.
 */
#include "base/err.h"
#include "muxd/net/ipc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct answers {
	unsigned n, closed;
	int rc;
};

static void answered(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct answers *a = arg;

	(void)e, (void)json, (void)fd;
	a->n++;
	a->rc = rc;
}

static void closed(void *arg)
{
	struct answers *a = arg;

	a->closed++;
}

static void a_question_behind_the_monitors_death_waits_for_the_end(void **state)
{
	static const struct ipc_ops ops = {.closed = closed};
	struct answers all = {0};
	struct ipc *c = NULL;
	uv_loop_t loop;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(ipc_create(&loop, fds[0], &ops, &all, &c), 0);

	ipc_ask(c, json_pack("{s:s}", "op", "ahead"), answered, &all);
	close(fds[1]);
	ipc_ask(c, json_pack("{s:s}", "op", "behind"), answered, &all);
	assert_int_equal(all.n, 0); /* who is told now takes the daemon for one that goes on */
	while (!all.closed)
		uv_run(&loop, UV_RUN_ONCE);
	ipc_ask(c, json_pack("{s:s}", "op", "late"), answered, &all);
	assert_int_equal(all.n, 0);

	ipc_destroy(c);
	assert_int_equal(all.n, 3);
	assert_int_equal(all.rc, ERR_CANCELLED);
	assert_int_equal(all.closed, 1);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_question_behind_the_monitors_death_waits_for_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
