// tier: check
/* Snapshots of local sandboxes: taken while programs write, restored, forked to another uid, cut short, refused. */
#include "tests/lib/local_box.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LONG_NS (60 * NS_PER_SEC)

static struct sandbox_snapshot take(struct box *b, const char *agent, const struct id *id)
{
	struct sandbox_snapshot s;
	struct err e = {0};

	if (local_snapshot_take(b->l, agent, id, LONG_NS, &s, &e) != 0)
		fail_msg("take: %s: %s", err_name(e.code), e.message);
	assert_true(s.ready);
	assert_true(id_equal(&s.id, id));
	return s;
}

static void stop(struct box *b, const char *agent)
{
	struct err e = {0};

	if (local_destroy_sandbox(b->l, agent, false, &e) != 0)
		fail_msg("stop: %s", e.message);
}

static void restore(struct box *b, const char *agent, const char *from, const struct id *id, bool read_only)
{
	struct sandbox_info info;
	struct err e = {0};

	if (local_restore(b->l, agent, from, id, read_only, LONG_NS, &info, &e) != 0)
		fail_msg("restore: %s: %s", err_name(e.code), e.message);
	assert_true(info.has_workspace);
}

static size_t count(struct box *b, const char *agent)
{
	struct sandbox_snapshot *list;
	struct err e = {0};
	size_t n;
	bool more;

	assert_int_equal(local_snapshot_list(b->l, agent, NULL, 100, &list, &n, &more, &e), 0);
	assert_false(more);
	free(list);
	return n;
}

/* Before there is a first workspace: the agent's is a plain directory, as on a machine without loop devices. */
static void make_plain(struct box *b, const char *agent)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/sandboxes/%s", b->dir, agent);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/sandboxes/%s/workspace", b->dir, agent);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void there_and_back(struct box *b)
{
	struct id first = fresh_id(), second = fresh_id();
	struct sandbox_info info;
	struct sandbox_snapshot s;
	struct err e = {0};

	ask(b, "demo",
	    "mkdir -p d/e; echo one > d/e/f; chmod 0700 d; chmod 4711 d/e/f; ln -s /etc/shadow d/link; truncate -s 3M "
	    "hole");
	s = take(b, "demo", &first); /* it runs */
	assert_true(s.size > 0 && s.size < 16 * MIB);
	assert_string_equal(s.agent, "demo");
	assert_string_equal(ask(b, "demo", "echo two > d/e/f; cat d/e/f"), "two\n"); /* and goes on */
	stop(b, "demo");
	take(b, "demo", &second); /* it does not run */
	assert_int_equal(count(b, "demo"), 2);

	restore(b, "demo", "demo", &first, false);
	assert_string_equal(ask(b, "demo",
				"cat d/e/f; stat -c '%a %U' d d/e/f; readlink d/link; stat -c %s hole; ls -A; "
				"echo three >> d/e/f; cat d/e/f"),
			    "one\n700 agent\n4711 agent\n/etc/shadow\n3145728\nd\nhole\none\nthree\n");
	/* Asked again after an answer that nobody heard: nothing is lost of what was written since. */
	restore(b, "demo", "demo", &first, false);
	assert_string_equal(ask(b, "demo", "tail -n 1 d/e/f"), "three\n");
	assert_int_equal(local_restore(b->l, "demo", "demo", &second, false, LONG_NS, &info, &e), ERR_BAD_STATE);
	stop(b, "demo");
	/* Wanted back, and not asked again: what was written goes. */
	restore(b, "demo", "demo", &first, false);
	assert_string_equal(ask(b, "demo", "cat d/e/f"), "one\n");
	stop(b, "demo");
	restore(b, "demo", "demo", &second, false);
	assert_string_equal(ask(b, "demo", "cat d/e/f"), "two\n");
}

static void test_image(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;

	(void)state;
	box_open(&b, "image");
	ask(&b, "demo", "true");
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	if (info.cap_enforced)
		there_and_back(&b);
	else
		print_message("SKIP: %s\n", info.detail);
	box_wipe(&b);
	assert_nothing_left();
}

static void test_plain(void **state)
{
	struct box b;

	(void)state;
	box_open(&b, "plain");
	make_plain(&b, "demo");
	there_and_back(&b);
	box_wipe(&b);
	assert_nothing_left();
}

/* The daemon without root; as another uid, in a process of its own. What its owner closed to himself comes along. */
static int user_part(const char *dir)
{
	struct box b = {.dir = (char *)dir};
	struct id id;

	box_conf(&b.c);
	b.l = box_local(&b, false);
	there_and_back(&b);
	stop(&b, "demo");
	ask(&b, "closed", "echo secret > f; mkdir d; echo deep > d/g; chmod 000 f d");
	id = fresh_id();
	take(&b, "closed", &id);
	restore(&b, "other", "closed", &id, false);
	assert_string_equal(ask(&b, "other", "stat -c %a f d; chmod 700 f d; cat f d/g"), "0\n0\nsecret\ndeep\n");
	box_wipe(&b);
	return 0;
}

static void test_user_mode(void **state)
{
	char dir[512];
	int status;
	pid_t pid;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/user", top);
	assert_int_equal(mkdir(dir, 0711), 0);
	assert_int_equal(chown(dir, 65534, 65534), 0);
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(2);
		_exit(user_part(strdup(dir)));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* What is written while a snapshot is taken is in it whole or not at all, in order: no file system is copied while it
 * moves. */
static void test_under_writes(void **state)
{
	struct box b;
	struct id ids[3];
	struct sandbox_info info;
	struct err e = {0};

	(void)state;
	box_open(&b, "writes");
	ask(&b, "demo",
	    "(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i > n.new; mv n.new n; echo $i >> all; done) "
	    ">/dev/null 2>&1 &");
	for (int i = 0; i < 3; i++) {
		ids[i] = fresh_id();
		take(&b, "demo", &ids[i]);
	}
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	assert_int_equal(info.state, SANDBOX_RUNNING);
	/* Thawed: it still writes. */
	assert_string_equal(
	    ask(&b, "demo", "a=$(cat n); while [ \"$(cat n)\" = \"$a\" ]; do sleep 0.05; done; echo moved"), "moved\n");
	stop(&b, "demo");
	for (int i = 0; i < 3; i++) {
		char name[24], command[4500], text[ID_STR_LEN];

		/* Frozen, it has no journal to replay and no fault: nothing waits for luck. */
		id_format(&ids[i], text);
		snprintf(command, sizeof(command), "e2fsck -fn %s/sandboxes/demo/snapshots/%s.img 2>&1", b.dir, text);
		if (info.cap_enforced && system(command) != 0)
			fail_msg("snapshot %d is not clean", i);
		snprintf(name, sizeof(name), "copy-%d", i);
		restore(&b, name, "demo", &ids[i], false);
		/* Each number is in `all` before the next is in `n`. */
		assert_string_equal(ask(&b, name,
					"n=$(cat n 2>/dev/null || echo 0); l=$(tail -n 1 all 2>/dev/null || echo 0); "
					"[ $l -eq $n ] || [ $((l+1)) -eq $n ] && echo whole || echo n=$n l=$l"),
				    "whole\n");
	}
	box_wipe(&b);
	assert_nothing_left();
}

/* Another agent has another uid outside; inside nothing shows it. */
static void test_fork(void **state)
{
	struct box b;
	struct id id = fresh_id(), again = fresh_id();

	(void)state;
	box_open(&b, "fork");
	ask(&b, "demo", "mkdir d; echo mine > d/f; chmod 600 d/f");
	take(&b, "demo", &id);
	restore(&b, "copy", "demo", &id, false);
	assert_string_equal(
	    ask(&b, "copy", "stat -c '%U %G' . d d/f; echo more >> d/f; echo new > g; stat -c %U g; cat d/f"),
	    "agent agent\nagent agent\nagent agent\nagent\nmine\nmore\n");
	assert_string_equal(ask(&b, "demo", "cat d/f; ls"), "mine\nd\n");
	/* A copy of the copy, and after a stop. */
	take(&b, "copy", &again);
	restore(&b, "third", "copy", &again, false);
	assert_string_equal(ask(&b, "third", "cat d/f g; stat -c %U d/f g"), "mine\nmore\nnew\nagent\nagent\n");
	stop(&b, "copy");
	assert_string_equal(ask(&b, "copy", "echo last >> d/f && tail -n 1 d/f"), "last\n");
	box_wipe(&b);
	assert_nothing_left();
}

static void read_only_part(struct box *b, const char *agent, const char *copy)
{
	struct id id = fresh_id();

	ask(b, agent, "echo text > f");
	take(b, agent, &id);
	restore(b, copy, agent, &id, true);
	assert_string_equal(ask(b, copy,
				"cat f; touch g 2>&1; echo x 2>&1 >> f; rm f 2>&1; mount -o remount,rw /workspace "
				"2>/dev/null || echo no"),
			    "text\ntouch: cannot touch 'g': Read-only file system\n"
			    "sh: 1: cannot create f: Read-only file system\n"
			    "rm: cannot remove 'f': Read-only file system\nno\n");
	stop(b, copy);
	assert_true(has(ask(b, copy, "touch g 2>&1"), "Read-only file system")); /* it stays so */
	stop(b, copy);
	restore(b, copy, agent, &id, false);
	assert_string_equal(ask(b, copy, "touch g && echo written"), "written\n");
}

static void test_read_only(void **state)
{
	struct box b;

	(void)state;
	box_open(&b, "readonly");
	read_only_part(&b, "demo", "still");
	make_plain(&b, "plain");
	read_only_part(&b, "plain", "still-plain");
	box_wipe(&b);
	assert_nothing_left();
}

/* Fails what sandbox.json is replaced by, or where the workspace is named, as a full or broken disk would. */
enum { FAIL_NONE, FAIL_INTENT, FAIL_NAME, FAIL_NOTE };
static int failing, named;

static bool is_workspace(const char *name)
{
	return strcmp(name, "workspace.img") == 0 || strcmp(name, "workspace") == 0;
}

static int named_or_not(const char *to)
{
	if (is_workspace(to))
		named++;
	if ((is_workspace(to) && failing == FAIL_NAME) ||
	    (strcmp(to, "sandbox.json") == 0 && failing == (named ? FAIL_NOTE : FAIL_INTENT))) {
		errno = EIO;
		return -1;
	}
	return 0;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return named_or_not(to) ? -1 : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	return named_or_not(to) ? -1 : (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static void fails(struct box *b, const struct id *id, bool read_only, int where, int wanted)
{
	struct sandbox_info info;
	struct err e = {0};

	failing = where;
	named = 0;
	assert_int_equal(local_restore(b->l, "demo", "demo", id, read_only, LONG_NS, &info, &e), wanted);
	failing = FAIL_NONE;
}

/*
 * A restore that fails says whether the workspace is still the one of before: up to its name that is so, behind it
 * never, however often it fails then, whatever becomes of the snapshot, and whoever dies meanwhile.
 */
static void each_write_fails(struct box *b)
{
	struct id id = fresh_id();
	struct err e = {0};

	ask(b, "demo", "echo one > f");
	take(b, "demo", &id);
	for (int where = FAIL_INTENT; where <= FAIL_NOTE; where++) {
		ask(b, "demo", "echo two > f");
		stop(b, "demo");
		fails(b, &id, false, where, where == FAIL_NOTE ? ERR_CANCELLED : ERR_SNAPSHOT);
		if (where == FAIL_NOTE) /* the next try is not told that nothing was changed, either */
			fails(b, &id, false, FAIL_INTENT, ERR_CANCELLED);
		else
			assert_string_equal(ask(b, "demo", "cat f"), "two\n");
		if (where != FAIL_NOTE)
			stop(b, "demo");
		restore(b, "demo", "demo", &id, false);
		assert_string_equal(ask(b, "demo", "cat f; echo x > g && echo writes"), "one\nwrites\n");
	}
	/* To be read only, and cut short ahead of its name: the old one can be written to; behind it, the new cannot.
	 */
	stop(b, "demo");
	fails(b, &id, true, FAIL_NAME, ERR_SNAPSHOT);
	assert_string_equal(ask(b, "demo", "echo y > g && echo writes"), "writes\n");
	stop(b, "demo");
	fails(b, &id, true, FAIL_NOTE, ERR_CANCELLED);
	assert_int_equal(local_snapshot_drop(b->l, "demo", &id, &e), 0);
	local_destroy(b->l); /* and a monitor that starts then */
	b->l = box_local(b, true);
	restore(b, "demo", "demo", &id, true);
	assert_string_equal(ask(b, "demo", "cat f; (echo y > f) 2>/dev/null || echo read-only"), "one\nread-only\n");
	stop(b, "demo");
	fails(b, &id, false, FAIL_NONE, ERR_NOT_FOUND); /* it is not that snapshot's any more, and that is gone */
}

static void test_each_write_fails(void **state)
{
	struct box b;

	(void)state;
	box_open(&b, "fails");
	each_write_fails(&b);
	box_wipe(&b);
	box_open(&b, "fails-plain");
	make_plain(&b, "demo");
	each_write_fails(&b);
	box_wipe(&b);
	assert_nothing_left();
}

static void test_idempotent(void **state)
{
	struct sandbox_snapshot first, second, *list;
	struct sandbox_info info;
	struct id id = fresh_id(), other = fresh_id();
	struct err e = {0};
	struct box b;
	char after[300], text[ID_STR_LEN];
	size_t n;
	bool more;

	(void)state;
	box_open(&b, "again");
	ask(&b, "demo", "echo one > f");
	first = take(&b, "demo", &id);
	ask(&b, "demo", "echo two > f");
	second = take(&b, "demo", &id); /* that one, not another */
	assert_true(first.created_wall_ns == second.created_wall_ns);
	take(&b, "demo", &other);
	ask(&b, "next", "true");
	take(&b, "next", &other);

	assert_int_equal(local_snapshot_list(b.l, NULL, NULL, 2, &list, &n, &more, &e), 0);
	assert_int_equal(n, 2);
	assert_true(more);
	id_format(&list[1].id, text);
	snprintf(after, sizeof(after), "%s/%s", list[1].agent, text);
	free(list);
	assert_int_equal(local_snapshot_list(b.l, NULL, after, 2, &list, &n, &more, &e), 0);
	assert_int_equal(n, 1);
	assert_false(more);
	assert_string_equal(list[0].agent, "next");
	free(list);

	assert_int_equal(local_snapshot_drop(b.l, "demo", &id, &e), 0);
	assert_int_equal(local_snapshot_drop(b.l, "demo", &id, &e), 0);
	assert_int_equal(local_snapshot_drop(b.l, "nobody", &id, &e), 0);
	assert_int_equal(count(&b, "demo"), 1);
	assert_int_equal(local_drop_workspace(b.l, "demo", &info, &e), ERR_BAD_STATE);
	stop(&b, "demo");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(local_drop_workspace(b.l, "demo", &info, &e), 0);
		assert_false(info.has_workspace);
	}
	assert_int_equal(local_drop_workspace(b.l, "nobody", &info, &e), 0);
	restore(&b, "demo", "demo", &other, false);
	assert_string_equal(ask(&b, "demo", "cat f"), "two\n");
	box_wipe(&b);
	assert_nothing_left();
}

static void test_refused(void **state)
{
	struct sandbox_snapshot s;
	struct sandbox_info info;
	struct id id = fresh_id(), other = fresh_id();
	struct err e = {0};
	struct box b;
	char path[4300];

	(void)state;
	box_open(&b, "refused");
	assert_int_equal(local_snapshot_take(b.l, "nobody", &id, LONG_NS, &s, &e), ERR_NOT_FOUND);
	ask(&b, "demo", "echo here > f");
	take(&b, "demo", &id);
	assert_int_equal(local_restore(b.l, "fresh", "demo", &other, false, LONG_NS, &info, &e), ERR_NOT_FOUND);
	assert_true(has(e.message, "demo has no snapshot"));
	assert_int_equal(local_restore(b.l, "fresh", "nobody", &id, false, LONG_NS, &info, &e), ERR_NOT_FOUND);
	assert_int_equal(local_restore(b.l, "fresh", "fresh", &id, false, LONG_NS, &info, &e), ERR_NOT_FOUND);
	snprintf(path, sizeof(path), "%s/sandboxes/fresh", b.dir);
	assert_int_equal(access(path, F_OK), -1); /* a refusal makes nothing */
	/* No time: nothing of it is left, and the sandbox is not frozen. */
	assert_int_equal(local_snapshot_take(b.l, "demo", &other, 1, &s, &e), ERR_TIMEOUT);
	assert_int_equal(files(&b, "demo", "snapshots"), 2);
	assert_string_equal(ask(&b, "demo", "echo more >> f; cat f"), "here\nmore\n");
	stop(&b, "demo");
	assert_int_equal(local_restore(b.l, "demo", "demo", &id, true, 1, &info, &e), ERR_TIMEOUT);
	assert_string_equal(ask(&b, "demo", "echo third >> f; cat f"),
			    "here\nmore\nthird\n"); /* as it was, and writable */
	box_wipe(&b);
	assert_nothing_left();
}

/* The host's disk is full: a small file system of the test's own holds the state directory. */
static void full_part(const char *agent, bool plain)
{
	struct sandbox_snapshot s;
	struct sandbox_info info;
	struct id id = fresh_id(), other = fresh_id();
	struct err e = {0};
	struct box b;
	char path[300];
	int rc;

	snprintf(path, sizeof(path), "%s/full-%s", top, agent);
	assert_int_equal(mkdir(path, 0711), 0);
	assert_int_equal(mount("full", path, "tmpfs", 0, "size=18m,mode=0711"), 0);
	memset(&b, 0, sizeof(b));
	b.dir = strdup(path);
	snprintf(left_dir, sizeof(left_dir), "%s", path);
	current = true;
	box_conf(&b.c);
	b.l = box_local(&b, true);
	if (plain)
		make_plain(&b, agent);
	ask(&b, agent, "head -c 5M /dev/urandom > f; md5sum < f > sum; sync");
	take(&b, agent, &id);
	ask(&b, agent, "head -c 7M /dev/urandom > f; md5sum < f > sum; sync");
	rc = local_snapshot_take(b.l, agent, &other, LONG_NS, &s, &e);
	if (rc != ERR_DISK_FULL)
		fail_msg("take: %s: %s", err_name(rc), e.message);
	assert_int_equal(files(&b, agent, "snapshots"), 2);
	assert_string_equal(ask(&b, agent, "md5sum < f | cmp - sum && echo same"), "same\n");
	stop(&b, agent);
	rc = local_restore(b.l, agent, agent, &id, false, LONG_NS, &info, &e);
	if (rc == 0) { /* the image that was there may have shrunk enough */
		assert_string_equal(ask(&b, agent, "md5sum < f | cmp - sum && echo same"), "same\n");
		stop(&b, agent);
	} else if (rc != ERR_DISK_FULL) {
		fail_msg("restore: %s: %s", err_name(rc), e.message);
	}
	rc = 0;
	for (int i = 0; i < 4 && rc == 0; i++) {
		char name[24];

		snprintf(name, sizeof(name), "fresh-%d", i);
		rc = local_restore(b.l, name, agent, &id, false, LONG_NS, &info, &e);
		snprintf(path, sizeof(path), "%s/sandboxes/%s", b.dir, name);
		assert_int_equal(access(path, F_OK), rc ? -1 : 0);
	}
	if (rc != ERR_DISK_FULL)
		fail_msg("forks: %s: %s", err_name(rc), e.message);
	assert_string_equal(ask(&b, agent, "md5sum < f | cmp - sum && echo same"), "same\n");
	snprintf(path, sizeof(path), "%s", b.dir);
	box_wipe(&b);
	assert_int_equal(umount2(path, MNT_DETACH), 0);
}

static void test_disk_full(void **state)
{
	(void)state;
	full_part("image", false);
	full_part("plain", true);
	assert_nothing_left();
}

/* The daemon is killed with a snapshot or a restore under way; the next start finds nothing half made, and nothing
 * frozen. */
static void *take_for_ever(void *arg)
{
	struct box *b = arg;

	for (;;) {
		struct sandbox_snapshot s;
		struct id id = fresh_id();

		if (local_snapshot_take(b->l, "demo", &id, LONG_NS, &s, NULL) != 0)
			_exit(3);
		local_snapshot_drop(b->l, "demo", &id, NULL);
	}
	return NULL;
}

static void test_killed(void **state)
{
	struct id kept = fresh_id();
	struct err e = {0};
	struct box b;
	int status;

	(void)state;
	box_open(&b, "killed");
	ask(&b, "demo", "head -c 6M /dev/urandom > f; md5sum < f > sum");
	take(&b, "demo", &kept);
	for (int i = 0; i < 12; i++) {
		pid_t pid;

		local_destroy(b.l);
		pid = fork();
		if (pid == 0) {
			b.l = box_local(&b, true);
			take_for_ever(&b);
		}
		usleep((useconds_t)(5000 + i * 7000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		b.l = box_local(&b, true);
		/* Only what is ready is there: data and description. */
		assert_int_equal(files(&b, "demo", "snapshots"), 2 * (int)count(&b, "demo"));
		assert_string_equal(ask(&b, "demo", "echo x > g; rm g; md5sum < f | cmp - sum && echo same"), "same\n");
	}
	stop(&b, "demo");
	restore(&b, "demo", "demo", &kept, false);
	assert_string_equal(ask(&b, "demo", "md5sum < f | cmp - sum && echo same"), "same\n");
	(void)e;
	box_wipe(&b);
	assert_nothing_left();
}

/* One agent's copy and another's start at the same time; and the first one's sandbox answers meanwhile. */
static void *one_take(void *arg)
{
	struct id id = fresh_id();

	take(arg, "demo", &id);
	return NULL;
}

static void test_beside(void **state)
{
	struct box b;
	pthread_t t;

	(void)state;
	box_open(&b, "beside");
	ask(&b, "demo", "head -c 12M /dev/urandom > f");
	assert_int_equal(pthread_create(&t, NULL, one_take, &b), 0);
	assert_string_equal(ask(&b, "demo", "echo here"), "here\n");
	assert_string_equal(ask(&b, "next", "echo there"), "there\n");
	pthread_join(t, NULL);
	box_wipe(&b);
	assert_nothing_left();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_image, box_leftover),
	    cmocka_unit_test_teardown(test_plain, box_leftover),
	    cmocka_unit_test_teardown(test_user_mode, box_leftover),
	    cmocka_unit_test_teardown(test_under_writes, box_leftover),
	    cmocka_unit_test_teardown(test_fork, box_leftover),
	    cmocka_unit_test_teardown(test_read_only, box_leftover),
	    cmocka_unit_test_teardown(test_each_write_fails, box_leftover),
	    cmocka_unit_test_teardown(test_idempotent, box_leftover),
	    cmocka_unit_test_teardown(test_refused, box_leftover),
	    cmocka_unit_test_teardown(test_disk_full, box_leftover),
	    cmocka_unit_test_teardown(test_killed, box_leftover),
	    cmocka_unit_test_teardown(test_beside, box_leftover),
	};
	int rc;

	if (!box_begin(argc, argv, &rc))
		return rc;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return box_end(rc);
}
