// tier: check
/* Output that programs in the background print when their round is over: thrown away, at a pace that costs no
 * processor. */
#include "muxd/muxlet/loop.c"
#include "muxd/muxlet/pipes.c"
#include "muxd/muxlet/sink.c"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LOOKS_NS (300 * MS_NS)

static struct loop l; /* threads may end behind the test */
static struct pipes p;
static struct sinks ss;

static int sinks_set_up(void **state)
{
	(void)state;
	if (loop_init(&l) || timer_reserve(&l, 1) || pipes_open(&p, &l))
		return -1;
	sinks_open(&ss, &l, &p);
	return 0;
}

static int sinks_tear_down(void **state)
{
	(void)state;
	sinks_close(&ss);
	pipes_finish(&p);
	away_close(&p);
	source_close(&l, &p.src);
	loop_finish(&l);
	return 0;
}

static void turn(void)
{
	assert_int_equal(loop_turn(&l), 0);
	pipes_turn(&p);
}

/* The end at which a program writes. */
static int sunk(void)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(sink_add(&ss, PIPES_LANE_COMMON, fds[0], NULL), 0);
	return fds[1];
}

static size_t filled(int fd)
{
	static const uint8_t bytes[PIPE_USUAL];
	size_t total = 0;
	ssize_t n;

	while ((n = write(fd, bytes, sizeof(bytes))) > 0)
		total += (size_t)n;
	assert_int_equal(errno, EAGAIN);
	return total;
}

static void sinks_gone(void)
{
	while (ss.n)
		turn();
}

/* Bytes that writers get rid of, who write all they can, beyond what their pipes hold. */
static void flood(size_t writers, size_t at_once)
{
	int fds[32];
	size_t total = 0, most, held = 0;
	uint64_t began = monotonic_ns(), took;

	for (size_t i = 0; i < writers; i++)
		fds[i] = sunk();
	for (size_t i = 0; i < writers; i++)
		held += filled(fds[i]);
	while (monotonic_ns() - began < LOOKS_NS || total < writers * SINK_READ) {
		turn();
		for (size_t i = 0; i < writers; i++)
			total += filled(fds[i]);
	}
	took = monotonic_ns() - began;
	/* Each pipe was read once at the start, and its rest may be over at either end of that time. */
	most = (size_t)(took / (SINK_REST_MS * MS_NS) + 2) * at_once * SINK_READ + writers * SINK_READ;
	if (total > most)
		fail_msg("%zu bytes of %zu writers in %llu ms, no more than %zu are due", total, writers,
			 (unsigned long long)(took / MS_NS), most);
	assert_true(held >= writers * SINK_READ);
	for (size_t i = 0; i < writers; i++)
		close(fds[i]);
	sinks_gone();
}

static void who_writes_all_it_can_is_read_at_a_pace(void **state)
{
	(void)state;
	flood(1, 1);
}

static void many_share_the_pace(void **state)
{
	(void)state;
	flood(32, SINKS_AT_ONCE);
}

static void who_writes_little_never_waits(void **state)
{
	int fd = sunk();

	(void)state;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(write(fd, "a line\n", 7), 7);
		do
			turn();
		while (TAILQ_FIRST(&ss.all)->state != SINK_LISTENS);
	}
	assert_int_equal(ss.rested.at, 0); /* nobody rests: no timer is due */
	close(fd);
	sinks_gone();
}

static void the_oldest_of_too_many_goes(void **state)
{
	int fds[SINKS_MAX + 1];
	struct pollfd end = {.events = 0};

	(void)state;
	for (int i = 0; i < SINKS_MAX + 1; i++)
		fds[i] = sunk();
	assert_int_equal(ss.n, SINKS_MAX);
	end.fd = fds[0];
	pipes_turn(&p);
	assert_int_equal(poll(&end, 1, 10000), 1); /* a thread has closed the other end */
	assert_true(end.revents & POLLERR);
	assert_int_equal(write(fds[1], "x", 1), 1);
	for (int i = 0; i < SINKS_MAX + 1; i++)
		close(fds[i]);
	sinks_gone();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_writes_all_it_can_is_read_at_a_pace),
	    cmocka_unit_test(many_share_the_pace),
	    cmocka_unit_test(who_writes_little_never_waits),
	    cmocka_unit_test(the_oldest_of_too_many_goes),
	};

	return cmocka_run_group_tests(tests, sinks_set_up, sinks_tear_down);
}
