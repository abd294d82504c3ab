// tier: check
/* Where muxctl puts what it gets: whole under its name, or nothing, and no other name is left. */
#include "base/err.h"
#include "muxd/ctl/sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static const char *at(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static unsigned names(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

static void assert_file(const char *name, const char *content, mode_t mode)
{
	char got[64] = "";
	struct stat st;
	int fd = open(at(name), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, got, sizeof(got) - 1) >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	assert_string_equal(got, content);
	assert_int_equal(st.st_mode & 07777, mode);
}

static void put(const char *name, const char *content, long mode)
{
	struct err e = {0};
	struct sink s;

	assert_int_equal(sink_open(at(name), &s, &e), 0);
	assert_int_equal(write(s.fd, content, strlen(content)), strlen(content));
	assert_int_equal(sink_settle(&s, mode, &e), 0);
	sink_close(&s);
}

static void a_file_comes_whole_and_is_replaced_whole(void **state)
{
	(void)state;
	put("a", "one", 0640);
	assert_file("a", "one", 0640);
	put("a", "two", -1);
	assert_file("a", "two", 0640);
	assert_int_equal(names(), 1);
	assert_int_equal(unlink(at("a")), 0);
}

static void an_unfinished_one_is_not_there(void **state)
{
	struct err e = {0};
	struct sink s;

	(void)state;
	put("b", "old", 0600);
	assert_int_equal(sink_open(at("b"), &s, &e), 0);
	assert_int_equal(write(s.fd, "half", 4), 4);
	assert_int_equal(names(), s.unnamed ? 1 : 2);
	sink_close(&s);
	assert_file("b", "old", 0600);
	assert_int_equal(unlink(at("b")), 0);
}

static void no_signal_leaves_one(void **state)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
	struct err why = {0};
	struct sink probe;
	bool unnamed;

	(void)state;
	assert_int_equal(sink_open(at("c"), &probe, &why), 0);
	unnamed = probe.unnamed;
	sink_close(&probe);
	if (!unnamed) /* no file system for it */
		skip();
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct err e = {0};
		struct sink s;
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			(void)signal(signals[i], SIG_DFL); /* a shell's background job has SIGINT ignored */
			if (sink_open(at("c"), &s, &e) == 0 && write(s.fd, "half", 4) == 4)
				(void)raise(signals[i]);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
		assert_int_equal(names(), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_comes_whole_and_is_replaced_whole),
	    cmocka_unit_test(an_unfinished_one_is_not_there),
	    cmocka_unit_test(no_signal_leaves_one),
	};
	int rc;

	umask(022);
	snprintf(dir, sizeof(dir), "/tmp/muxd-sink-XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return rc;
}
