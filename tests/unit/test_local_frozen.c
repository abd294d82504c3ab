// tier: check
/* Who held the freeze of a workspace was killed: with the daemon, and alone. Nothing stays frozen. */
#include "tests/lib/local_box.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>

#define LONG_NS (60 * NS_PER_SEC)

/* A freeze whose holder was killed with the daemon is lifted by the next start. */
static void test_left_frozen(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char command[256], path[4300], text[ID_STR_LEN];
	struct id id = fresh_id();
	int fd;

	(void)state;
	box_open(&b, "frozen");
	ask(&b, "demo", "true");
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	if (!info.cap_enforced) {
		print_message("SKIP: %s\n", info.detail);
		box_wipe(&b);
		return;
	}
	snprintf(path, sizeof(path), "%s/sandboxes/demo/snapshots", b.dir);
	assert_int_equal(mkdir(path, 0700), 0);
	id_format(&id, text);
	snprintf(path, sizeof(path), "%s/sandboxes/demo/snapshots/%s.new", b.dir, text);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "fsfreeze -f /proc/%d/root/workspace", info.pid);
	assert_int_equal(system(command), 0);
	local_destroy(b.l);
	b.l = box_local(&b, true);
	assert_string_equal(ask(&b, "demo", "echo thawed > f; cat f"), "thawed\n");
	assert_int_equal(files(&b, "demo", "snapshots"), 0);
	box_wipe(&b);
	assert_nothing_left();
}

struct killer {
	dev_t workspace;
	bool over;
	useconds_t after;
};

/* Is one of its descriptors in that file system? */
static bool has_open(const char *pid, dev_t dev)
{
	char path[300];
	bool yes = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	d = opendir(path);
	for (struct dirent *de; !yes && d && (de = readdir(d));) {
		struct stat st;

		snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", pid, de->d_name);
		yes = stat(path, &st) == 0 && st.st_dev == dev;
	}
	if (d)
		closedir(d);
	return yes;
}

static bool is_holder(const char *pid, dev_t dev)
{
	char path[64], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	f = fopen(path, "r");
	if (f && !fgets(name, sizeof(name), f))
		name[0] = '\0';
	if (f)
		fclose(f);
	return strcmp(name, "muxd-freeze\n") == 0 && has_open(pid, dev);
}

/* As the kernel does it for want of memory. */
static void *kill_holder(void *arg)
{
	struct killer *k = arg;

	while (!__atomic_load_n(&k->over, __ATOMIC_ACQUIRE)) {
		DIR *proc = opendir("/proc");

		for (struct dirent *de; proc && (de = readdir(proc));)
			if (de->d_name[0] >= '1' && de->d_name[0] <= '9' && is_holder(de->d_name, k->workspace)) {
				usleep(k->after);
				kill((pid_t)strtol(de->d_name, NULL, 10), SIGKILL);
			}
		if (proc)
			closedir(proc);
	}
	return NULL;
}

/* True: it was killed after the workspace had been frozen. */
static bool take_and_kill(struct box *b, dev_t workspace, useconds_t after, pid_t init)
{
	struct killer k = {.workspace = workspace, .after = after};
	struct id id = fresh_id();
	struct sandbox_snapshot s;
	struct err e = {0};
	char command[128];
	pthread_t t;
	int rc;

	assert_int_equal(pthread_create(&t, NULL, kill_holder, &k), 0);
	rc = local_snapshot_take(b->l, "demo", &id, LONG_NS, &s, &e);
	__atomic_store_n(&k.over, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	/* Succeeds where it is frozen, and thaws it. */
	snprintf(command, sizeof(command), "fsfreeze -u /proc/%d/root/workspace 2>/dev/null", init);
	if (system(command) == 0)
		fail_msg("left frozen: %s", e.message);
	return rc == ERR_SNAPSHOT && strstr(e.message, "thawed: its holder has died");
}

/* Who holds the freeze is killed, and the daemon lives on. */
static void test_holder_killed(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct stat st;
	struct box b;
	char path[64];
	bool hit = false;

	(void)state;
	box_open(&b, "holder");
	ask(&b, "demo", "head -c 12M /dev/urandom > f");
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	if (!info.cap_enforced) {
		print_message("SKIP: %s\n", info.detail);
		box_wipe(&b);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/root/workspace", info.pid);
	assert_int_equal(stat(path, &st), 0);
	for (int i = 0; i < 200 && !hit; i++)
		hit = take_and_kill(&b, st.st_dev, (useconds_t)(i % 20 * 500), info.pid);
	assert_true(hit);
	assert_string_equal(ask(&b, "demo", "echo thawed > g; cat g"), "thawed\n");
	box_wipe(&b);
	assert_nothing_left();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_left_frozen, box_leftover),
	    cmocka_unit_test_teardown(test_holder_killed, box_leftover),
	};
	int rc;

	if (!box_begin(argc, argv, &rc))
		return rc;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return box_end(rc);
}
