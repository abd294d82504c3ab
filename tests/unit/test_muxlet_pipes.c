// tier: check
/* The threads at the pipes of programs: of a program that writes much, much is read at a time, and the memory for that
 * goes when it is over. */
#include "muxd/muxlet/loop.c"
#include "muxd/muxlet/pipes.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct {
	ssize_t n;
	int done;
} told;

static void on_read(struct pipe_job *j)
{
	told.n = j->n;
	told.done++;
}

static ssize_t read_of(struct pipes *p, int fd)
{
	int before = told.done;

	assert_non_null(pipes_read(p, PIPES_LANE_COMMON, fd, SIZE_MAX, on_read, NULL));
	while (told.done == before)
		assert_int_equal(loop_turn(p->loop), 0);
	return told.n;
}

static void fill(int fd, size_t n)
{
	static const uint8_t bytes[PIPE_BULK];

	assert_true(n <= sizeof(bytes));
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
}

static void a_flood_is_read_in_large_pieces(void **state)
{
	static struct loop l; /* threads may end behind the test */
	static struct pipes p;
	int fds[2];

	(void)state;
	assert_int_equal(loop_init(&l), 0);
	assert_int_equal(pipes_open(&p, &l), 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	fill(fds[1], PIPE_USUAL);
	assert_int_equal(read_of(&p, fds[0]), PIPE_USUAL);
	assert_int_equal(fcntl(fds[0], F_GETPIPE_SZ), PIPE_BULK);
	fill(fds[1], PIPES_BULK);
	assert_int_equal(read_of(&p, fds[0]), PIPES_BULK);
	assert_non_null(p.spare);
	assert_true(p.spare->room >= PIPES_BULK);
	fill(fds[1], 1);
	assert_int_equal(read_of(&p, fds[0]), 1);
	assert_true(!p.spare || p.spare->room < PIPES_BULK);
	close(fds[1]);
	assert_int_equal(read_of(&p, fds[0]), 0);
	assert_true(!p.spare || p.spare->room < PIPES_BULK);
	close(fds[0]);
	pipes_finish(&p);
	away_close(&p);
	source_close(&l, &p.src);
	loop_finish(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_flood_is_read_in_large_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
