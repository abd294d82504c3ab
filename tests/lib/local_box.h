/*
 * local_box.h - local sandboxes for real: bubblewrap, a loop-mounted workspace, control groups.
 *
 * Needs root (for the parts that only root can do; the mode without root is
 * tried as another uid). The program is its own muxlet: bound into the sandbox
 * and started there with --listen-fd it runs one shell line per connection.
 * Each test has a box of its own, and box_leftover() as its teardown.
 *
 * Static functions, for inclusion by one test.
 */
#ifndef TESTS_LIB_LOCAL_BOX_H
#define TESTS_LIB_LOCAL_BOX_H

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "control/local/cmdline.h"
#include "control/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

/* --- the muxlet of these tests --- */

static inline void serve_one(int fd)
{
	char line[8192];
	size_t n = 0;

	while (n + 1 < sizeof(line) && read(fd, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	signal(SIGCHLD, SIG_DFL);
	dup2(fd, 1);
	dup2(fd, 2);
	close(fd);
	close(3);
	execl("/bin/sh", "sh", "-c", line, (char *)NULL);
	_exit(127);
}

static inline int agent_main(void)
{
	unsigned char secret[32];

	close(CMDLINE_FD_PROGRAMS);
	if (read(4, secret, sizeof(secret)) != (ssize_t)sizeof(secret))
		return 1;
	close(4);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept(3, NULL, NULL);

		if (fd < 0)
			continue;
		if (fork() == 0)
			serve_one(fd);
		close(fd);
	}
}

/* --- helpers --- */

static char self_path[4096], archiver_path[128];
static char top[64];
/* Of this run alone: other daemons of this host have sandboxes, too. */
static char instance[32];
static unsigned uid_base;
static uint32_t pids_max = 40;

struct box {
	struct local *l;
	struct conf c;
	char *dir;
};

/* One shell line in the sandbox behind fd; all it printed. */
static inline char *ask_fd(int fd, const char *line)
{
	static char out[1 << 16];
	size_t n = 0;
	ssize_t got;

	assert_true(write(fd, line, strlen(line)) == (ssize_t)strlen(line));
	assert_true(write(fd, "\n", 1) == 1);
	while (n + 1 < sizeof(out)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		assert_true(poll(&p, 1, 60000) == 1);
		got = read(fd, out + n, sizeof(out) - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	out[n] = '\0';
	close(fd);
	return out;
}

static inline char *ask(struct box *b, const char *agent, const char *line)
{
	struct sandbox_info info;
	struct err e = {0};
	int fd = -1;

	if (local_ensure(b->l, agent, &info, &fd, &e) != 0)
		fail_msg("ensure %s: %s", agent, e.message);
	assert_int_equal(info.state, SANDBOX_RUNNING);
	return ask_fd(fd, line);
}

static inline void box_conf(struct conf *c)
{
	static char none[] = "";

	memset(c, 0, sizeof(*c));
	c->workspace_size = 16 * MIB;
	c->memory_max = 96 * MIB;
	c->pids_max = pids_max;
	c->cpu_milli = 1500;
	c->sandbox_shell = none;
	c->sandbox_create_timeout_ns = 20 * NS_PER_SEC;
	c->sandbox_uid_base = uid_base;
}

static inline struct local *box_local(struct box *b, bool root)
{
	struct local_params p = {.state_dir = b->dir,
				 .muxlet_path = self_path,
				 .archiver_path = archiver_path,
				 .instance = instance,
				 .root = root};
	struct local *l = NULL;
	struct err e = {0};

	if (local_create(&p, &b->c, &l, &e) != 0)
		fail_msg("local_create: %s: %s", err_name(e.code), e.message);
	return l;
}

static char real_self[sizeof(self_path)];
static bool current; /* a test has sandboxes in left_dir */
static char left_dir[512];

static inline void box_open(struct box *b, const char *name)
{
	assert_true(asprintf(&b->dir, "%s/%s", top, name) > 0);
	assert_int_equal(mkdir(b->dir, 0711), 0);
	snprintf(left_dir, sizeof(left_dir), "%s", b->dir);
	current = true;
	box_conf(&b->c);
	b->l = box_local(b, true);
}

static inline void box_wipe(struct box *b)
{
	struct sandbox_info *list;
	struct err e = {0};
	size_t n;
	bool more;

	assert_int_equal(local_list(b->l, NULL, SIZE_MAX, &list, &n, &more, &e), 0);
	for (size_t i = 0; i < n; i++)
		if (local_destroy_sandbox(b->l, list[i].agent, true, &e) != 0)
			fail_msg("destroy %s: %s", list[i].agent, e.message);
	free(list);
	local_destroy(b->l);
	free(b->dir);
	current = false;
}

/* A test that failed leaves its sandboxes to this, not to the tests after it. */
static inline int box_leftover(void **state)
{
	struct local *l = NULL;
	struct err e = {0};

	(void)state;
	memcpy(self_path, real_self, sizeof(self_path));
	pids_max = 40;
	if (current) {
		struct box b = {.dir = left_dir};

		box_conf(&b.c);
		l = box_local(&b, true);
		if (local_destroy_all(l, &e) != 0)
			print_message("cannot clean up: %s\n", e.message);
		local_destroy(l);
		current = false;
	}
	return 0;
}

/* How many lines of a host command's output; for what must not be left. */
static inline int host_count(const char *command)
{
	char line[512];
	int n = 0;
	FILE *f = popen(command, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		print_message("left: %s", line);
		n++;
	}
	pclose(f);
	return n;
}

static inline void assert_nothing_left(void)
{
	char command[256];

	/* Backing files by path: other programs on this host have loop devices, too. */
	snprintf(command, sizeof(command), "cat /sys/block/loop*/loop/backing_file 2>/dev/null | grep -F '%s'", top);
	assert_int_equal(host_count(command), 0);
	snprintf(command, sizeof(command), "grep -F '%s' /proc/mounts", top);
	assert_int_equal(host_count(command), 0);
	snprintf(command, sizeof(command), "find /sys/fs/cgroup -type d -path '*muxd-%s*' 2>/dev/null", instance);
	assert_int_equal(host_count(command), 0);
	snprintf(command, sizeof(command), "ps -eo uid,pid,stat,comm | awk '$1 >= %u && $1 < %u && $3 !~ /Z/'",
		 uid_base, uid_base + 100);
	assert_int_equal(host_count(command), 0);
}

/* Files in DIR/sandboxes/<agent>/<sub>, as a test of what is left. */
static inline int files(struct box *b, const char *agent, const char *sub)
{
	char path[4200];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/sandboxes/%s/%s", b->dir, agent, sub);
	d = opendir(path);
	for (struct dirent *de; d && (de = readdir(d));)
		n += de->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static inline struct id fresh_id(void)
{
	struct id id;

	assert_int_equal(id_new(&id), 0);
	return id;
}

static inline bool has(const char *text, const char *part)
{
	if (strstr(text, part))
		return true;
	print_message("no '%s' in: %s\n", part, text);
	return false;
}

/* --- a program of such tests --- */

static inline void self_copy(void)
{
	char command[16384], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		exit(1);
	self[n] = '\0';
	snprintf(self_path, sizeof(self_path), "%s/muxlet", top);
	memcpy(real_self, self_path, sizeof(self_path));
	/* Both where a sandbox's uid, and a daemon without root, can read them. */
	snprintf(archiver_path, sizeof(archiver_path), "%s/muxd-archive", top);
	snprintf(command, sizeof(command), "cp '%s' '%s' && cp " BUILD_DIR "/muxd-archive %s && chmod 755 '%s' '%s'",
		 self, self_path, archiver_path, self_path, archiver_path);
	if (system(command) != 0)
		exit(1);
}

/* false: main() is to return *out_rc; it was the muxlet, or root is missing. */
static inline bool box_begin(int argc, char **argv, int *out_rc)
{
	*out_rc = 0;
	if (argc > 1 && strcmp(argv[1], "--listen-fd") == 0) {
		*out_rc = agent_main();
		return false;
	}
	if (geteuid() != 0) {
		printf("SKIP %s: needs root (loop devices, control groups, uids of sandboxes)\n",
		       program_invocation_short_name);
		return false;
	}
	signal(SIGPIPE, SIG_IGN);
	if (getenv("TEST_LOG"))
		log_setup("test", getenv("TEST_LOG"), LOG_TEXT, 2, NULL);
	snprintf(instance, sizeof(instance), "test-local-%d", (int)getpid());
	uid_base = 100000 + (unsigned)getpid() * 100; /* nobody else's: a pid has 22 bits */
	snprintf(top, sizeof(top), "%.40s/test-local.XXXXXX",
		 getenv("LOCAL_BOX_DIR") ? getenv("LOCAL_BOX_DIR") : "/tmp");
	if (!mkdtemp(top) || chmod(top, 0755) != 0) {
		*out_rc = 1;
		return false;
	}
	self_copy();
	return true;
}

/* What a failed test left stays, to be looked at. Returns what main() is to return. */
static inline int box_end(int rc)
{
	char command[128];

	if (rc == 0) {
		snprintf(command, sizeof(command), "rm -rf '%s'", top);
		rc = system(command) != 0;
	}
	return rc;
}

#endif
