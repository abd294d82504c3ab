// tier: check
/* A file read whole, or refused. */
#include "base/err.h"
#include "base/slurp.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
#define ADDRESS_SANITIZER true
#else
#define ADDRESS_SANITIZER false
#endif

/* A file with these bytes, by a path. */
static int file_of(const char *text, size_t len, char path[64])
{
	int fd = memfd_create("text", 0);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static void it_comes_whole_up_to_the_limit(void **state)
{
	char path[64], *data = NULL;
	struct err e = {0};
	size_t len = 0;
	int fd = file_of("one\0two", 7, path);

	(void)state;
	assert_int_equal(slurp_file(path, 0, 7, &data, &len, &e), 0);
	assert_int_equal(len, 7);
	assert_memory_equal(data, "one\0two", 8); /* and a NUL behind it */
	slurp_free(data, len);
	slurp_free(NULL, 0);
	close(fd);
}

/* More than the first room, from a pipe that does not tell: it grows, and every byte is there. */
static void what_does_not_tell_its_size_grows(void **state)
{
	static char text[40000], path[64];
	char *data = NULL;
	struct err e = {0};
	size_t len = 0;
	int fds[2];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7 % 251);
	for (size_t size = 4094; size < sizeof(text); size += size < 4100 ? 1 : 7177) {
		assert_int_equal(pipe(fds), 0);
		assert_int_equal(write(fds[1], text, size), size);
		close(fds[1]);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
		assert_int_equal(slurp_fd(fds[0], path, size, &data, &len, &e), 0);
		assert_int_equal(len, size);
		assert_memory_equal(data, text, size);
		slurp_free(data, len);
		close(fds[0]);
	}
}

/* A log may be large; where it is small, no more is taken than it needs. */
static void memory_is_taken_for_what_is_there(void **state)
{
	struct rlimit was, little;
	char path[64], *data = NULL;
	struct err e = {0};
	size_t len = 0;
	int rc, fd = file_of("one two", 7, path);

	(void)state;
	if (ADDRESS_SANITIZER) /* has terabytes of addresses itself */
		skip();
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	little = (struct rlimit){256 << 20, was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
	rc = slurp_file(path, 0, (size_t)1 << 30, &data, &len, &e);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	if (rc)
		fail_msg("%s", e.message);
	assert_string_equal(data, "one two");
	slurp_free(data, len);
	close(fd);
}

static void what_is_larger_is_refused(void **state)
{
	char path[64], *data = NULL;
	struct err e = {0};
	size_t len = 99;
	int fd = file_of("one two", 7, path);

	(void)state;
	assert_int_equal(slurp_file(path, 0, 6, &data, &len, &e), ERR_TOO_LARGE);
	assert_non_null(strstr(e.message, path));
	assert_null(data);
	assert_int_equal(len, 99);
	close(fd);
}

static void what_cannot_be_read_is_named(void **state)
{
	char *data = NULL;
	struct err e = {0};
	size_t len;

	(void)state;
	assert_true(slurp_file("/no/such/file", 0, 10, &data, &len, &e) < 0);
	assert_non_null(strstr(e.message, "/no/such/file"));
	assert_true(slurp_file("/", 0, 10, &data, &len, &e) < 0);
	assert_string_equal(e.message, "/ is a directory, not a regular file");
	assert_null(data);
}

/* No writer comes: whoever opened it as it is would wait for ever. A link to it is no way round that. */
static void what_is_no_file_is_refused_without_waiting(void **state)
{
	char dir[] = "/tmp/muxd-test-slurp-XXXXXX", fifo[64], sock[64], link[64], *data = NULL;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct err e = {0};
	int fd = -1, s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	snprintf(sock, sizeof(sock), "%s/sock", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", sock);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(symlink(fifo, link), 0);
	assert_int_equal(slurp_file(fifo, 0, 10, &data, &len, &e), ERR_NOT_A_FILE);
	assert_non_null(strstr(e.message, "fifo is a FIFO, not a regular file"));
	assert_int_equal(slurp_file(link, 0, 10, &data, &len, &e), ERR_NOT_A_FILE);
	assert_non_null(strstr(e.message, "link is a FIFO"));
	assert_int_equal(slurp_file(link, O_NOFOLLOW, 10, &data, &len, &e), ERR_NOT_A_FILE);
	assert_non_null(strstr(e.message, "link is a symbolic link"));
	assert_int_equal(slurp_file(sock, 0, 10, &data, &len, &e), ERR_NOT_A_FILE);
	assert_non_null(strstr(e.message, "sock is a socket"));
	assert_int_equal(slurp_file("/dev/zero", 0, 10, &data, &len, &e), ERR_NOT_A_FILE);
	assert_non_null(strstr(e.message, "/dev/zero is a device"));
	assert_int_equal(slurp_open(fifo, O_WRONLY, &fd, &e), ERR_NOT_A_FILE);
	assert_int_equal(fd, -1);
	assert_null(data);
	close(s);
	unlink(fifo);
	unlink(sock);
	unlink(link);
	rmdir(dir);
}

/* A file of a configuration may be a link, and what a command line names a pipe. */
static void links_and_operands_are_read(void **state)
{
	char path[64], link[] = "/tmp/muxd-test-slurp-XXXXXX", *data = NULL;
	struct err e = {0};
	size_t len = 0;
	int fd = file_of("abc", 3, path), fds[2], made = mkstemp(link);

	(void)state;
	assert_true(made >= 0);
	close(made);
	unlink(link);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(slurp_file(link, 0, 10, &data, &len, &e), 0);
	assert_string_equal(data, "abc");
	slurp_free(data, len);
	unlink(link);
	close(fd);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "def", 3), 3);
	close(fds[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	assert_int_equal(slurp_operand(path, 10, &data, &len, &e), 0);
	assert_string_equal(data, "def");
	slurp_free(data, len);
	close(fds[0]);
}

static void a_pipe_is_read_to_its_end(void **state)
{
	char *data = NULL;
	struct err e = {0};
	size_t len = 0;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "abc", 3), 3);
	close(fds[1]);
	assert_int_equal(slurp_fd(fds[0], "a pipe", 10, &data, &len, &e), 0);
	assert_string_equal(data, "abc");
	slurp_free(data, len);
	close(fds[0]);
}

/* A pipe takes 4 KiB at a time here: what does not go at once goes on with what is left. */
static void all_is_written_in_pieces(void **state)
{
	(void)state;
	static char sent[64 * 1024], got[sizeof sent];
	size_t have = 0;
	int p[2], status;

	memset(sent, 'x', sizeof sent);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_true(fcntl(p[1], F_SETPIPE_SZ, 4096) > 0);
	pid_t child = fork();
	if (child == 0)
		_exit(spill_fd(p[1], sent, sizeof sent) == 0 ? 0 : 1);
	close(p[1]);
	for (ssize_t n; (n = read(p[0], got + have, sizeof got - have)) > 0;)
		have += (size_t)n;
	close(p[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(have, sizeof sent);
	assert_memory_equal(got, sent, sizeof sent);
	assert_int_equal(spill_fd(-1, "x", 1), -1);
	assert_int_equal(errno, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_comes_whole_up_to_the_limit),
	    cmocka_unit_test(what_does_not_tell_its_size_grows),
	    cmocka_unit_test(memory_is_taken_for_what_is_there),
	    cmocka_unit_test(what_is_larger_is_refused),
	    cmocka_unit_test(what_cannot_be_read_is_named),
	    cmocka_unit_test(what_is_no_file_is_refused_without_waiting),
	    cmocka_unit_test(links_and_operands_are_read),
	    cmocka_unit_test(a_pipe_is_read_to_its_end),
	    cmocka_unit_test(all_is_written_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
