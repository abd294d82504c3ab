// tier: check
/* A spare's word that it took its order, against its end and its time: what was begun is not begun again. */
#include "muxd/muxlet/child.c"
#include "muxd/muxlet/loop.c"
#include "muxd/muxlet/order.c"
#include "muxd/muxlet/spare.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cmocka.h>

#define WAIT_NS (5000 * MS_NS)

static struct muxlet m;
static struct channel channel;
static struct {
	unsigned times;
	pid_t pid;
} settled;
static char ran[] = "/tmp/test_muxlet_spare.XXXXXX"; /* a byte for each time */

void birth_settle(struct muxlet *mux, struct birth *b, pid_t pid, int err, const char *at)
{
	(void)mux, (void)b, (void)err, (void)at;
	settled.times++;
	settled.pid = pid;
}

void muxlet_note(const struct muxlet *mux, const char *fmt, ...)
{
	(void)mux, (void)fmt;
}

void guard_make(struct guard *g, pid_t self, pid_t group)
{
	(void)g, (void)self, (void)group;
}

int guard_lay(const struct guard *g)
{
	(void)g;
	return 0;
}

static unsigned idle(void)
{
	unsigned n = 0;

	for (int i = 0; i < SPARES; i++)
		n += m.spares.v[i].state == SPARE_IDLE;
	return n;
}

static long times_run(void)
{
	struct stat st;

	return stat(ran, &st) ? -1 : (long)st.st_size;
}

static void turn_until_full(void)
{
	for (uint64_t until = monotonic_ns() + WAIT_NS; idle() < SPARES && monotonic_ns() < until;)
		assert_int_equal(loop_turn(&m.loop), 0);
	assert_int_equal(idle(), SPARES);
}

/* A program that is over at once goes to the first spare. */
static pid_t order_one(struct birth *b)
{
	static char script[128], sh[] = "sh", flag[] = "-c";
	char *words[] = {NULL, sh, flag, script, NULL}, *envp[] = {NULL};
	struct child c = {.file = "/bin/sh",
			  .path = "/bin",
			  .cwd = "/",
			  .argv = words + 1,
			  .envp = envp,
			  .fd = {m.null_fd, m.null_fd, m.null_fd},
			  .files = {99, 99},
			  .procs = {RLIM_INFINITY, RLIM_INFINITY}};
	pid_t pid = m.spares.v[0].pid;

	(void)snprintf(script, sizeof(script), "printf x >> %s", ran);
	b->channel = &channel;
	settled.times = 0;
	assert_int_equal(truncate(ran, 0), 0);
	assert_int_equal(order_make(&c, 1, &b->order), 0);
	spares_add(&m, b);
	assert_int_equal(m.spares.v[0].state, SPARE_ORDERED);
	return pid;
}

static void check_begun_once(struct birth *b, pid_t pid)
{
	const char *at;

	assert_int_equal(times_run(), 1);
	assert_int_equal(settled.times, 1);
	assert_int_equal(settled.pid, pid);
	assert_int_equal(spares_failure(&channel, &at), 0);
	order_finish(&b->order);
}

static void reaped_before_its_word_is_heard(void **state)
{
	struct birth b = {0};
	pid_t pid;

	(void)state;
	turn_until_full();
	pid = order_one(&b);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	spares_reaped(&m, pid);
	for (uint64_t until = monotonic_ns() + WAIT_NS; !settled.times && monotonic_ns() < until;)
		assert_int_equal(loop_turn(&m.loop), 0);
	check_begun_once(&b, pid);
}

static void too_slow_before_its_word_is_heard(void **state)
{
	struct birth b = {0};
	siginfo_t si;
	pid_t pid;

	(void)state;
	turn_until_full();
	pid = order_one(&b);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	timer_cancel(&m.loop, &m.spares.v[0].timer);
	spare_slow(&m.spares.v[0].timer); /* as in a turn whose events took long */
	check_begun_once(&b, pid);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	spares_reaped(&m, pid);
}

static void told_to_end_before_its_word_is_heard(void **state)
{
	struct birth b = {0};
	siginfo_t si;
	pid_t pid;

	(void)state;
	turn_until_full();
	pid = order_one(&b);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	assert_true(spares_end(&m, &b)); /* settled with its pid: who asked ends it as a program */
	check_begun_once(&b, pid);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	spares_reaped(&m, pid);
}

static void all_are_closed_before_its_word_is_heard(void **state)
{
	struct birth b = {0};
	siginfo_t si;
	pid_t pid;

	(void)state;
	turn_until_full();
	pid = order_one(&b);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	spares_close(&m);
	check_begun_once(&b, pid);
	for (int i = 0; i < SPARES; i++)
		assert_true(wait(NULL) > 0);
	spares_open(&m);
}

static pid_t stop_spare(int i)
{
	pid_t pid = m.spares.v[i].pid;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	m.spares.v[i].pid = getpid(); /* whom SIGCONT goes to */
	return pid;
}

static void told_to_end_before_it_began(void **state)
{
	struct birth b = {0};
	pid_t pid;

	(void)state;
	turn_until_full();
	pid = stop_spare(0);
	(void)order_one(&b);
	m.spares.v[0].pid = pid;
	assert_false(spares_end(&m, &b));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	spares_reaped(&m, pid);
	assert_int_equal(settled.times, 0);
	assert_int_equal(times_run(), 0);
	order_finish(&b.order);
}

/* Whichever it was, it ran once; none of those that gave no word did. */
static void check_another_ran(struct birth *b)
{
	for (uint64_t until = monotonic_ns() + WAIT_NS; !settled.times && monotonic_ns() < until;)
		assert_int_equal(loop_turn(&m.loop), 0);
	assert_int_equal(settled.times, 1);
	assert_true(settled.pid > 0);
	assert_int_equal(waitpid(settled.pid, NULL, 0), settled.pid);
	assert_int_equal(times_run(), 1);
	(void)spares_failure(&channel, &(const char *){NULL});
	order_finish(&b->order);
}

/* Without its word it can give none any more: another one has the order, on a slow machine not always the next. */
static void ended_without_a_word(void **state)
{
	struct birth b = {0};

	(void)state;
	turn_until_full();
	pid_t pid = stop_spare(0);
	(void)order_one(&b);
	m.spares.v[0].pid = pid;
	timer_cancel(&m.loop, &m.spares.v[0].timer);
	spare_slow(&m.spares.v[0].timer);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	spares_reaped(&m, pid);
	check_another_ran(&b);
	assert_int_not_equal(settled.pid, pid);
}

/* The next one has its own time to take the order, and when that is over so has the one behind it. */
static void two_end_without_a_word(void **state)
{
	struct birth b = {0};

	(void)state;
	turn_until_full();
	pid_t pid = stop_spare(0), next = stop_spare(1);
	(void)order_one(&b);
	m.spares.v[0].pid = pid;
	timer_cancel(&m.loop, &m.spares.v[0].timer);
	spare_slow(&m.spares.v[0].timer);
	assert_int_equal(m.spares.v[1].state, SPARE_ORDERED);
	m.spares.v[1].pid = next;
	check_another_ran(&b);
	assert_true(settled.pid != pid && settled.pid != next);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(waitpid(next, NULL, 0), next);
}

static int begin_all(void **state)
{
	int fd = mkstemp(ran);

	(void)state;
	if (fd < 0 || close(fd))
		return -1;
	m.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (m.null_fd < 0 || loop_init(&m.loop) || timer_reserve(&m.loop, TIMERS_OWN))
		return -1;
	spares_open(&m);
	return 0;
}

static int end_all(void **state)
{
	(void)state;
	spares_close(&m);
	while (waitpid(-1, NULL, 0) > 0)
		;
	close(m.null_fd);
	loop_finish(&m.loop);
	return unlink(ran);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reaped_before_its_word_is_heard),
	    cmocka_unit_test(too_slow_before_its_word_is_heard),
	    cmocka_unit_test(told_to_end_before_its_word_is_heard),
	    cmocka_unit_test(all_are_closed_before_its_word_is_heard),
	    cmocka_unit_test(told_to_end_before_it_began),
	    cmocka_unit_test(ended_without_a_word),
	    cmocka_unit_test(two_end_without_a_word),
	};

	if (argc == 2 && strcmp(argv[1], "--spare") == 0)
		return spare_run();
	return cmocka_run_group_tests(tests, begin_all, end_all);
}
