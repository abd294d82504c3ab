// tier: check
/*
 * The workspace image: made, attached to a loop device, mounted, checked after a power cut.
 * Needs root and loop devices; says so when it has none.
 */
#include "base/clock.h"
#include "base/err.h"
#include "control/local/dir.h"
#include "control/local/image.h"
#include "control/local/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static char top[64];
static int base;

static int open_dir(const char *name)
{
	struct err e = {0};
	int dir;

	if (dir_open_locked(base, name, true, &dir, &e) != 0)
		fail_msg("%s", e.message);
	return dir;
}

static void make(int dir, uint64_t size)
{
	struct err e = {0};

	if (image_make(dir, size, 64900, 64900, &e) != 0)
		fail_msg("%s", e.message);
}

static void test_make(void **state)
{
	int dir = open_dir("make");
	struct err e = {0};
	bool repaired = true;
	struct stat st;

	(void)state;
	assert_false(image_exists(dir));
	make(dir, 1024 * MIB);
	assert_true(image_exists(dir));
	assert_int_equal(fstatat(dir, IMAGE_NAME, &st, 0), 0);
	assert_int_equal(st.st_size, 1024 * MIB);
	assert_int_equal(st.st_mode & 07777, 0600);
	/* Sparse: the cap is not taken from the disk at once. */
	assert_true((uint64_t)st.st_blocks * 512 < 8 * MIB);
	assert_int_equal(image_check(dir, &repaired, &e), 0);
	assert_false(repaired);
	assert_int_equal(image_make(dir, MIB, 0, 0, &e), ERR_CONFIG);
	assert_true(strstr(e.message, "workspace_size") != NULL);
	assert_true(image_exists(dir));
	dir_close(dir);
}

/* In a mount namespace of its own, like a sandbox; the device goes with it. */
static int mounted(const char *device, uint64_t cap)
{
	static char block[65536];
	uint64_t written = 0;
	struct stat st;
	ssize_t n = 0;
	int fd;

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount(device, top, "ext4", MS_NOSUID | MS_NODEV, "discard") != 0)
		return 10;
	if (stat(top, &st) != 0 || st.st_uid != 64900 || st.st_gid != 64900)
		return 11;
	if (chdir(top) != 0 || (fd = open("fill", O_WRONLY | O_CREAT, 0600)) < 0)
		return 12;
	while ((n = write(fd, block, sizeof(block))) > 0)
		written += (uint64_t)n;
	if (errno != ENOSPC)
		return 13;
	return written > cap / 2 && written < cap ? 0 : 14;
}

static void test_attach_mount_vanish(void **state)
{
	int dir = open_dir("attach"), loop, status;
	char device[IMAGE_LOOP_MAX], busy[IMAGE_LOOP_MAX], again[IMAGE_LOOP_MAX];
	bool repaired;
	struct err e = {0};
	pid_t pid;

	(void)state;
	make(dir, 16 * MIB);
	assert_false(image_in_use(dir, NULL));
	if (image_attach(dir, device, &loop, &e) != 0)
		fail_msg("%s", e.message);
	assert_true(image_in_use(dir, busy));
	assert_string_equal(busy, device);
	/* Never twice, and never repaired while in use. */
	assert_int_equal(image_attach(dir, again, &loop, &e), ERR_SANDBOX_CREATE);
	assert_true(strstr(e.message, device) != NULL);
	assert_int_equal(image_check(dir, &repaired, &e), ERR_SANDBOX_CREATE);
	assert_int_equal(image_wait_free(dir, clock_boot_ns() + 20 * NS_PER_MS, &e), ERR_TIMEOUT);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) /* holds the device until the mount does */
		_exit(mounted(device, 16 * MIB));
	close(loop);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(image_wait_free(dir, clock_boot_ns() + 5 * NS_PER_SEC, &e), 0);
	assert_int_equal(image_check(dir, &repaired, &e), 0);
	assert_false(repaired); /* the namespace's end unmounted it cleanly */
	dir_close(dir);
}

static void poke(int dir, off_t at, const void *p, size_t n)
{
	int fd = openat(dir, IMAGE_NAME, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, p, n, at), (ssize_t)n);
	close(fd);
}

/* The state word says "not cleanly unmounted" (the checksum is then wrong as well): e2fsck puts it right. */
static void test_repair(void **state)
{
	int dir = open_dir("repair");
	struct err e = {0};
	bool repaired = false;

	(void)state;
	make(dir, 16 * MIB);
	{
		char command[256];

		snprintf(command, sizeof(command),
			 "cd %s/sandboxes/repair && debugfs -w -R 'ssv state 0' " IMAGE_NAME " >/dev/null 2>&1", top);
		assert_int_equal(system(command), 0);
	}
	if (image_check(dir, &repaired, &e) != 0)
		fail_msg("%s", e.message);
	assert_true(repaired);
	assert_int_equal(image_check(dir, &repaired, &e), 0);
	assert_false(repaired);
	dir_close(dir);
}

/* A slow repair whose daemon is killed: until it has ended nobody repairs beside it, and nobody mounts. */
static void test_repair_outlives_its_daemon(void **state)
{
	static const char *const slow[] = {"/bin/sh", "-c", "echo $$ > pid.new; mv pid.new pid; exec sleep 600", NULL};
	int dir = open_dir("slow"), lock, code, loop, fd, tries = 0;
	char said[100], device[IMAGE_LOOP_MAX], text[32] = "";
	struct err e = {0};
	bool repaired;
	pid_t pid;

	(void)state;
	make(dir, 16 * MIB);
	if ((pid = fork()) == 0) {
		if (image_lock(dir, &lock, &e) == 0)
			(void)tool_run_held(dir, slow, lock, 600 * NS_PER_SEC, &code, said, sizeof(said), &e);
		_exit(1);
	}
	while ((fd = openat(dir, "pid", O_RDONLY)) < 0 && tries++ < 3000)
		usleep(10000);
	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	code = image_check(dir, &repaired, &e);
	loop = -1;
	fd = image_attach(dir, device, &loop, &e);
	if (loop >= 0)
		close(loop);
	kill((pid_t)atoi(text), SIGKILL);
	assert_int_equal(code, ERR_SANDBOX_CREATE);
	assert_int_equal(fd, ERR_SANDBOX_CREATE);
	assert_non_null(strstr(e.message, "repaired"));
	if (image_check(dir, &repaired, &e) != 0) /* waits for what is left of it */
		fail_msg("%s", e.message);
	dir_close(dir);
}

static void test_beyond_repair(void **state)
{
	static const uint8_t zero[65536];
	int dir = open_dir("beyond");
	struct err e = {0};
	bool repaired = false;

	(void)state;
	make(dir, 16 * MIB);
	poke(dir, 0, zero, sizeof(zero));
	assert_int_equal(image_check(dir, &repaired, &e), ERR_CORRUPT);
	assert_true(strstr(e.message, "e2fsck") != NULL && strstr(e.message, IMAGE_NAME) != NULL);
	assert_true(image_exists(dir));
	dir_close(dir);
}

static void test_half_made(void **state)
{
	int dir = open_dir("half");
	int fd = openat(dir, IMAGE_NAME ".new", O_WRONLY | O_CREAT, 0600);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_false(image_exists(dir));
	make(dir, 16 * MIB);
	assert_true(image_exists(dir));
	assert_int_equal(faccessat(dir, IMAGE_NAME ".new", F_OK, 0), -1);
	dir_close(dir);
}

/* A tool that nobody waits for any more ends, long before its time. */
static void test_given_up(void **state)
{
	const char *const slow[] = {"/bin/sleep", "600", NULL};
	const atomic_bool given_up = true;
	struct err e = {0};
	char said[100];
	int code;

	(void)state;
	assert_int_equal(tool_run_io(slow, &(struct tool_io){.in = -1, .out = -1, .given_up = &given_up},
				     600 * NS_PER_SEC, &code, said, sizeof(said), &e),
			 ERR_CANCELLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_make),      cmocka_unit_test(test_attach_mount_vanish),
	    cmocka_unit_test(test_repair),    cmocka_unit_test(test_repair_outlives_its_daemon),
	    cmocka_unit_test(test_given_up),  cmocka_unit_test(test_beyond_repair),
	    cmocka_unit_test(test_half_made),
	};
	struct err e = {0};
	char command[128];
	int rc;

	if (geteuid() != 0) {
		printf("SKIP test_image: needs root (loop devices, mounts)\n");
		return 0;
	}
	if (image_loops_check(&e) != 0) {
		printf("SKIP test_image: %s\n", e.message);
		return 0;
	}
	snprintf(top, sizeof(top), "/tmp/test-image.XXXXXX");
	if (!mkdtemp(top) || dir_open_base(top, &base, &e) != 0)
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	close(base);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command) != 0 ? 1 : rc;
}
