// tier: check
/* More open sessions than descriptors: each has its whole recording, over restarts, and few files are open at once. */
#include "recorder/format/open_files.h"
#include "tests/lib/cutter_rig.h"

#include <dirent.h>
#include <sys/resource.h>

#define SESSIONS    300
#define DESCRIPTORS 64

static unsigned open_now(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3; /* . and .. and the folder itself */
}

static struct rlimit few(void)
{
	struct rlimit was, less;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	less = was;
	less.rlim_cur = DESCRIPTORS;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	return was;
}

static void more_sessions_than_descriptors(void **state)
{
	struct place *p = *state;
	struct rlimit was = few();
	static struct id id[SESSIONS];
	static uint64_t at[SESSIONS];

	start(p);
	for (size_t i = 0; i < SESSIONS; i++)
		session_open(p, &id[i]);
	for (size_t turn = 0; turn < 3; turn++) {
		for (size_t i = 0; i < SESSIONS; i++)
			send_bytes(p, &id[i], &at[i], 1000 + 7 * i);
		consumed(p, NULL);
		assert_true(open_now() < DESCRIPTORS);
		stop(p); /* each is stored, and begun again */
		start(p);
	}
	for (size_t i = 0; i < SESSIONS; i++)
		text(p, RING_EXIT, &id[i], "{\"cause\":\"exit\",\"code\":0}");
	for (size_t i = 0; i < SESSIONS; i++) {
		struct source *s;

		consumed(p, &id[i]);
		s = source_of(p, &id[i]);
		assert_true(source_info(s)->sealed);
		assert_int_equal(read_bytes(s, 0, UINT64_MAX), at[i]);
		source_destroy(s);
		verify(p, &id[i], true);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

static void path_of(const struct place *p, unsigned i, char out[96])
{
	snprintf(out, 96, "%s/%u", p->dir, i);
}

static void the_oldest_one_is_closed(void **state)
{
	struct place *p = *state;
	struct open_files fs;
	struct open_file f[8];
	char path[8][96];
	struct err e = {0};

	open_files_init(&fs, 3);
	for (unsigned i = 0; i < 8; i++) {
		open_file_init(&f[i]);
		path_of(p, i, path[i]);
		assert_int_equal(open_file_use(&fs, &f[i], path[i], O_CREAT, &e), 0);
		assert_int_equal(write(f[i].fd, "x", 1), 1);
		f[i].unsynced = true;
		assert_true(fs.n <= 3);
		assert_int_equal(open_file_use(&fs, &f[0], path[0], 0, &e), 0); /* so this one stays */
	}
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(f[i].fd >= 0, i == 0 || i >= 6);
		assert_int_equal(f[i].unsynced, f[i].fd >= 0); /* what was closed is on the disk */
	}
	assert_int_equal(unlink(path[1]), 0);
	assert_int_not_equal(open_file_use(&fs, &f[1], path[1], 0, &e), 0); /* nothing is made anew */
	f[0].failed = ERR_DISK_FULL;
	assert_int_equal(open_file_use(&fs, &f[0], path[0], 0, &e), ERR_DISK_FULL);
	assert_int_equal(open_file_sync(&fs, &f[0], &e), ERR_DISK_FULL);
	for (unsigned i = 0; i < 8; i++)
		open_file_close(&fs, &f[i]);
	assert_int_equal(fs.n, 0);
}

/* The limit may be reached by others' descriptors: then one of ours makes room. */
static void others_may_have_them_all(void **state)
{
	struct place *p = *state;
	struct rlimit was = few();
	struct open_files fs;
	struct open_file f[2];
	char path[2][96];
	struct err e = {0};
	int others[DESCRIPTORS], n = 0;

	open_files_init(&fs, 1000);
	for (unsigned i = 0; i < 2; i++) {
		open_file_init(&f[i]);
		path_of(p, i, path[i]);
	}
	assert_int_equal(open_file_use(&fs, &f[0], path[0], O_CREAT, &e), 0);
	while ((others[n] = dup(f[0].fd)) >= 0)
		n++;
	assert_int_equal(open_file_use(&fs, &f[1], path[1], O_CREAT, &e), 0);
	assert_true(f[0].fd < 0 && f[1].fd >= 0);
	while (n)
		close(others[--n]);
	open_file_close(&fs, &f[1]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CUTTER_TEST(more_sessions_than_descriptors),
	    CUTTER_TEST(the_oldest_one_is_closed),
	    CUTTER_TEST(others_may_have_them_all),
	};

	return cmocka_run_group_tests(tests, quiet, NULL);
}
