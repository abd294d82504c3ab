// tier: check
/* The workspace of a local sandbox: its cap, and what it outlives: lost state, damage, a power cut. */
#include "tests/lib/local_box.h"

#include "control/local/found.h"

#include <fcntl.h>
#include <sys/stat.h>

static void test_workspace_cap(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char *o;
	int fd;

	(void)state;
	box_open(&b, "cap");
	assert_int_equal(local_ensure(b.l, "demo", &info, &fd, &e), 0);
	close(fd);
	if (!info.cap_enforced) {
		print_message("SKIP: %s\n", info.detail);
		box_wipe(&b);
		return;
	}
	assert_null(strstr(info.detail, "cap"));
	o = ask(&b, "demo", "head -c 8M /dev/zero > a && echo eight; head -c 16M /dev/zero > b; stat -c %s b");
	assert_true(has(o, "eight\n"));
	assert_true(has(o, "No space left on device"));
	/* Room again after deleting, and the sparse file gives it back to the host. */
	o = ask(&b, "demo", "rm a b; head -c 8M /dev/zero > a && echo again; ls -A");
	assert_string_equal(o, "again\na\n");
	box_wipe(&b);
	assert_nothing_left();
}

/* The file is lost with a power cut: a new one with another uid, and the files are its own again. */
static void test_lost_state_file(void **state)
{
	struct sandbox_info info;
	struct found old;
	struct err e = {0};
	struct box b;
	char path[4200];
	int fd;

	(void)state;
	box_open(&b, "lost");
	ask(&b, "demo", "mkdir -p d/e; echo mine > d/e/f; chmod 700 d");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	snprintf(path, sizeof(path), "%s/sandboxes/demo/sandbox.json", b.dir);
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	close(fd);
	assert_string_equal(ask(&b, "demo", "echo more >> d/e/f; cat d/e/f; stat -c %U d/e/f"), "mine\nmore\nagent\n");
	/* Lost while it runs: its groups lead to it, or who has the image mounted. It is never mounted twice. */
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	close(fd);
	assert_string_equal(ask(&b, "demo", "cat d/e/f"), "mine\nmore\n");
	assert_int_equal(found_take(info.pid, &old), ERR_NOT_FOUND);
	box_wipe(&b);
	assert_nothing_left();
}

static void test_damaged_image(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char path[4200], zero[8192] = {0};
	struct stat before, after;
	int fd, out;

	(void)state;
	box_open(&b, "damage");
	ask(&b, "demo", "true");
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	if (!info.cap_enforced) {
		print_message("SKIP: %s\n", info.detail);
		box_wipe(&b);
		return;
	}
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	snprintf(path, sizeof(path), "%s/sandboxes/demo/workspace.img", b.dir);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, zero, sizeof(zero), 0), sizeof(zero));
	close(fd);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(local_ensure(b.l, "demo", &info, &out, &e), ERR_CORRUPT);
	assert_true(has(e.message, "e2fsck"));
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	assert_int_equal(info.state, SANDBOX_ERROR);
	assert_true(has(info.detail, "e2fsck"));
	box_wipe(&b);
	assert_nothing_left();
}

/* As a power cut leaves it: journal not replayed, marked as mounted. It is repaired and goes on. */
static void test_unclean_image(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char command[9000];

	(void)state;
	box_open(&b, "unclean");
	ask(&b, "demo", "echo text > file; sync");
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	if (info.cap_enforced) {
		snprintf(command, sizeof(command), "cp --sparse=always %s/sandboxes/demo/workspace.img %s/copy", b.dir,
			 b.dir);
		assert_int_equal(system(command), 0);
		assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
		snprintf(command, sizeof(command), "mv %s/copy %s/sandboxes/demo/workspace.img", b.dir, b.dir);
		assert_int_equal(system(command), 0);
		assert_string_equal(ask(&b, "demo", "cat file"), "text\n");
	}
	box_wipe(&b);
}

/* A workspace nested deeper than any path is removed, in a plain directory, too. */
static void test_deep_tree(void **state)
{
	struct err e = {0};
	struct box b;

	(void)state;
	box_open(&b, "deep");
	ask(&b, "demo", "true");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	/* Make it a plain one by hand: what is there decides. */
	{
		char path[4200];

		snprintf(path, sizeof(path), "%s/sandboxes/demo", b.dir);
		assert_int_equal(mkdir(path, 0700), 0);
		snprintf(path, sizeof(path), "%s/sandboxes/demo/workspace", b.dir);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	/* Ten times 200 levels around what is there; names like those that removal makes itself; a link outwards. */
	assert_string_equal(
	    ask(&b, "demo",
		"p=d; for i in $(seq 200); do p=$p/dddddddddddddd; done; mkdir inner; ln -s /etc inner/l; "
		"for i in $(seq 10); do mkdir -p $p .removed.$i/x; touch $p/f; mv inner $p/ && mv d inner; done; "
		"chmod 0 .removed.3; echo done"),
	    "done\n");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	box_wipe(&b);
}

static size_t listed(struct box *b)
{
	struct sandbox_info *list;
	struct err e = {0};
	size_t n;
	bool more;

	assert_int_equal(local_list(b->l, NULL, SIZE_MAX, &list, &n, &more, &e), 0);
	free(list);
	return n;
}

/* A fork may still have to be made of a snapshot when its agent is wiped: each goes by its own drop, the last one with
 * all that was left. */
static void test_wiped_with_snapshots(void **state)
{
	struct sandbox_snapshot s;
	struct sandbox_info info;
	struct id id[2];
	struct err e = {0};
	struct box b;
	char path[4200];

	(void)state;
	box_open(&b, "wiped");
	ask(&b, "demo", "echo kept > f");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(id_new(&id[i]), 0);
		assert_int_equal(local_snapshot_take(b.l, "demo", &id[i], 60 * NS_PER_SEC, &s, &e), 0);
	}
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	local_destroy(b.l);
	b.l = box_local(&b, true); /* and the next daemon does not take it for one that is there */
	assert_int_equal(local_destroy_all(b.l, &e), 0);
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	assert_int_equal(info.state, SANDBOX_ABSENT);
	assert_false(info.has_workspace);
	assert_int_equal(listed(&b), 0);
	assert_int_equal(local_snapshot_drop(b.l, "demo", &id[1], &e), 0);
	if (local_restore(b.l, "look", "demo", &id[0], false, 60 * NS_PER_SEC, &info, &e) != 0)
		fail_msg("restore: %s", e.message);
	assert_string_equal(ask(&b, "look", "cat f"), "kept\n");
	assert_string_equal(ask(&b, "demo", "ls -A"), ""); /* another of that name begins empty */
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	snprintf(path, sizeof(path), "%s/sandboxes/demo", b.dir);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(local_snapshot_drop(b.l, "demo", &id[0], &e), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	box_wipe(&b);
	assert_nothing_left();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_workspace_cap, box_leftover),
	    cmocka_unit_test_teardown(test_lost_state_file, box_leftover),
	    cmocka_unit_test_teardown(test_damaged_image, box_leftover),
	    cmocka_unit_test_teardown(test_unclean_image, box_leftover),
	    cmocka_unit_test_teardown(test_deep_tree, box_leftover),
	    cmocka_unit_test_teardown(test_wiped_with_snapshots, box_leftover),
	};
	int rc;

	if (!box_begin(argc, argv, &rc))
		return rc;
	return box_end(cmocka_run_group_tests(tests, NULL, NULL));
}
