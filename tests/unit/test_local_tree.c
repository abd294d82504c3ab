// tier: check, slice SEEDS=1 FLIPS=6
/*
 * Archives of plain workspaces: generated trees that are hard to copy come back as they were; an archive that is
 * damaged, while it is made or later, costs nobody his workspace. SEEDS=n: that many trees; FLIPS=n: so many damages.
 */
#include "control/local/archive.h"
#include "tests/lib/local_box.h"

#include <fcntl.h>
#include <sys/wait.h>

#define LONG_NS (60 * NS_PER_SEC)
#define TREE    "tests/lib/hostile_tree.py"

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text ? atoi(text) : otherwise;
}

static void __attribute__((format(printf, 1, 2))) host(const char *fmt, ...)
{
	char command[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

static void make_plain(struct box *b, const char *agent)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/sandboxes/%s", b->dir, agent);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/sandboxes/%s/workspace", b->dir, agent);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void stop(struct box *b, const char *agent)
{
	struct err e = {0};

	if (local_destroy_sandbox(b->l, agent, false, &e) != 0)
		fail_msg("stop: %s", e.message);
}

static int take(struct box *b, const char *agent, const struct id *id, struct err *e)
{
	struct sandbox_snapshot s;
	int rc = local_snapshot_take(b->l, agent, id, LONG_NS, &s, e);

	/* What goes into the log with it. */
	if (rc == 0 && strcmp(s.how, "tar+zstd") == 0)
		assert_int_equal(strlen(s.digest), 64);
	return rc;
}

static int restore(struct box *b, const char *agent, const char *from, const struct id *id, struct err *e)
{
	struct sandbox_info info;

	return local_restore(b->l, agent, from, id, false, LONG_NS, &info, e);
}

/* Of a workspace, in a file beside the sandboxes. */
static void list(struct box *b, const char *agent, const char *name)
{
	host("python3 " TREE " list %s/sandboxes/%s/workspace >%s/%s", b->dir, agent, b->dir, name);
}

static void there_and_back(struct box *b, int seed)
{
	struct id id = fresh_id();
	struct sandbox_info info;
	struct err e = {0};

	make_plain(b, "demo");
	ask(b, "demo", "true"); /* its uid */
	host("python3 " TREE " make %d %s/sandboxes/demo/workspace", seed, b->dir);
	list(b, "demo", "before");
	stop(b, "demo");
	if (take(b, "demo", &id, &e) != 0)
		fail_msg("seed %d: take: %s", seed, e.message);
	assert_int_equal(local_drop_workspace(b->l, "demo", &info, &e), 0);
	assert_false(info.has_workspace);
	if (restore(b, "demo", "demo", &id, &e) != 0)
		fail_msg("seed %d: restore: %s", seed, e.message);
	list(b, "demo", "after");
	host("cmp %s/before %s/after", b->dir, b->dir);
	assert_string_equal(ask(b, "demo", "cat 'at the top'"), "and at the bottom");
	if (restore(b, "other", "demo", &id, &e) != 0)
		fail_msg("seed %d: fork: %s", seed, e.message);
	assert_string_equal(ask(b, "other", "cat 'at the top'"), "and at the bottom");
	/* A tree that is that deep can be removed, too. */
	assert_int_equal(local_snapshot_drop(b->l, "demo", &id, &e), 0);
	assert_int_equal(local_destroy_sandbox(b->l, "demo", true, &e), 0);
	assert_int_equal(local_destroy_sandbox(b->l, "other", true, &e), 0);
}

static void test_trees(void **state)
{
	int seeds = number("SEEDS", 2), from = number("SEED", 1);
	struct box b;

	(void)state;
	box_open(&b, "trees");
	for (int i = 0; i < seeds; i++)
		there_and_back(&b, from + i);
	box_wipe(&b);
	assert_nothing_left();
}

/* The daemon without root, as another uid. */
static void test_user_mode(void **state)
{
	struct box b = {0};
	int status;
	pid_t pid;

	(void)state;
	assert_true(asprintf(&b.dir, "%s/user", top) > 0);
	assert_int_equal(mkdir(b.dir, 0711), 0);
	assert_int_equal(chown(b.dir, 65534, 65534), 0);
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(2);
		box_conf(&b.c);
		b.l = box_local(&b, false);
		/* Directories that their owner has closed to himself nobody here could list: such trees are for
		 * test_trees(). */
		make_plain(&b, "demo");
		ask(&b, "demo", "true");
		host("TREE_FILES=0 python3 " TREE " make 1 %s/sandboxes/demo/workspace", b.dir);
		struct id id = fresh_id();
		struct sandbox_info info;
		struct err e = {0};

		stop(&b, "demo");
		list(&b, "demo", "before");
		assert_int_equal(take(&b, "demo", &id, &e), 0);
		assert_int_equal(local_drop_workspace(b.l, "demo", &info, &e), 0);
		assert_int_equal(restore(&b, "demo", "demo", &id, &e), 0);
		list(&b, "demo", "after");
		host("cmp %s/before %s/after", b.dir, b.dir);
		box_wipe(&b);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	free(b.dir);
}

/* ---- damage */

static uint8_t *slurp_file(const char *path, size_t *out_n)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	uint8_t *p;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	p = malloc((size_t)st.st_size);
	assert_true(read(fd, p, (size_t)st.st_size) == st.st_size);
	close(fd);
	*out_n = (size_t)st.st_size;
	return p;
}

static void put_file(const char *path, const uint8_t *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_true(write(fd, p, n) == (ssize_t)n);
	close(fd);
}

/* Either it is refused and what was there is as it was, or what comes out is what went in: a byte that nobody reads. */
static void one_damage(struct box *b, const struct id *id, const char *what)
{
	struct err e = {0};
	int rc = restore(b, "copy", "demo", id, &e);

	if (rc == 0) {
		list(b, "copy", "copy.after");
		host("cmp %s/demo.list %s/copy.after", b->dir, b->dir);
		print_message("%s: nobody reads it\n", what);
		assert_int_equal(local_destroy_sandbox(b->l, "copy", true, &e), 0);
		make_plain(b, "copy");
		ask(b, "copy", "echo mine > f");
		stop(b, "copy");
	} else if (rc != ERR_CORRUPT) {
		fail_msg("%s: %s: %s", what, err_name(rc), e.message);
	}
	host("[ \"$(ls -A %s/sandboxes/copy/workspace)\" = f ] && grep -q mine %s/sandboxes/copy/workspace/f", b->dir,
	     b->dir);
}

static void test_damage_later(void **state)
{
	int flips = number("FLIPS", 12);
	struct id id = fresh_id();
	struct err e = {0};
	char path[4300], text[ID_STR_LEN], what[80];
	struct box b;
	uint8_t *good, *bad;
	size_t n;

	(void)state;
	box_open(&b, "later");
	make_plain(&b, "demo");
	make_plain(&b, "copy");
	ask(&b, "demo", "true");
	host("TREE_DEPTH=20 TREE_SMALL=20 TREE_FILES=20 python3 " TREE " make 7 %s/sandboxes/demo/workspace", b.dir);
	list(&b, "demo", "demo.list");
	ask(&b, "copy", "echo mine > f");
	stop(&b, "copy");
	stop(&b, "demo");
	assert_int_equal(take(&b, "demo", &id, &e), 0);
	id_format(&id, text);
	snprintf(path, sizeof(path), "%s/sandboxes/demo/snapshots/%s.tar.zst", b.dir, text);
	good = slurp_file(path, &n);
	bad = malloc(n);
	srandom((unsigned)number("SEED", 1));
	for (int i = 0; i < flips; i++) {
		size_t at = (size_t)random() % n;

		memcpy(bad, good, n);
		bad[at] ^= (uint8_t)(1u << (random() % 8));
		put_file(path, bad, n);
		snprintf(what, sizeof(what), "bit of byte %zu of %zu", at, n);
		one_damage(&b, &id, what);
	}
	for (int i = 0; i < flips / 3; i++) {
		size_t at = (size_t)random() % n;

		put_file(path, good, at);
		snprintf(what, sizeof(what), "cut at %zu of %zu", at, n);
		one_damage(&b, &id, what);
	}
	put_file(path, good, n);
	assert_int_equal(restore(&b, "copy", "demo", &id, &e), 0);
	free(good);
	free(bad);
	box_wipe(&b);
	assert_nothing_left();
}

/* In the cage instead of the archiver: it carries that one behind its text, and damages what that one packed. */
static const char damager[] =
    "#!/bin/sh\n"
    "exec python3 -c '\n"
    "import os, subprocess, sys\n"
    "real = os.memfd_create(\"real\")\n"
    "os.write(real, open(sys.argv[1], \"rb\").read().split(b\"\\n# the real\" + b\" one\\n\", 1)[1])\n"
    "p = \"/proc/%%d/fd/%%d\" %% (os.getpid(), real)\n"
    "if sys.argv[2] != \"pack\":\n"
    "    os.execv(p, [\"muxd-archive\"] + sys.argv[2:])\n"
    "done = subprocess.run([p] + sys.argv[2:], stdout=subprocess.PIPE)\n"
    "out = bytearray(done.stdout)\n"
    "at = int(%f * len(out))\n"
    "if %d:\n"
    "    del out[at:]\n"
    "else:\n"
    "    out[at] ^= 1 << (at %% 8)\n"
    "os.write(1, out)\n"
    "sys.exit(done.returncode)\n"
    "' \"$0\" \"$@\"\n"
    "# the real one\n";

static void put_damager(const uint8_t *real, size_t n, double where, bool cut)
{
	char text[2048];
	int len = snprintf(text, sizeof(text), damager, where, cut);
	FILE *f = fopen(archiver_path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, (size_t)len, f), len);
	assert_int_equal(fwrite(real, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* The first copy of a workspace is damaged on its way to the disk: no snapshot comes of it, the workspace is kept. */
static void test_damage_while_made(void **state)
{
	int tries = number("FLIPS", 12) / 3, refused = 0;
	struct box b;
	uint8_t *real;
	size_t n;

	(void)state;
	real = slurp_file(archiver_path, &n);
	box_open(&b, "made");
	make_plain(&b, "demo");
	ask(&b, "demo", "echo only copy > f; seq 100000 > g");
	stop(&b, "demo");
	list(&b, "demo", "before");
	srandom((unsigned)number("SEED", 1));
	for (int i = 0; i < tries; i++) {
		struct id id = fresh_id();
		struct err e = {0};

		put_damager(real, n, (double)(random() % 1000) / 1000, i % 2 == 0);
		if (take(&b, "demo", &id, &e) == 0)
			continue; /* a bit that nobody reads: the digest is that of what was packed */
		refused++;
		assert_int_equal(e.code, ERR_SNAPSHOT);
		assert_true(has(e.message, "cannot be read back"));
	}
	print_message("%d of %d refused\n", refused, tries);
	assert_true(refused >= tries * 2 / 3);
	assert_int_equal(files(&b, "demo", "snapshots"), 2 * (tries - refused));
	list(&b, "demo", "after");
	host("cmp %s/before %s/after", b.dir, b.dir);
	put_file(archiver_path, real, n);
	assert_string_equal(ask(&b, "demo", "cat f"), "only copy\n");
	free(real);
	box_wipe(&b);
	assert_nothing_left();
}

/* ---- of earlier versions, and far apart */

/* Packed as the version before proofs did it. Every name comes back as the bytes it was, composed or not. */
static void test_old_archive(void **state)
{
	struct id id = fresh_id();
	char text[ID_STR_LEN];
	struct err e = {0};
	struct box b;

	(void)state;
	box_open(&b, "old");
	make_plain(&b, "demo");
	ask(&b, "demo",
	    "e=$(printf 'e\\314\\201'); c=$(printf '\\303\\251'); x=$(printf '\\377\\376'); echo e >$e; echo c >$c; "
	    "echo x >$x; "
	    "mkdir -m 500 a; echo a >A; ln A B; ln -s $e l; ln $e z; truncate -s 1M h; echo h >>h; mkfifo p; chmod "
	    "4711 A");
	assert_string_equal(ask(&b, "demo", "ls | wc -l"), "10\n");
	stop(&b, "demo");
	list(&b, "demo", "before");
	assert_int_equal(take(&b, "demo", &id, &e), 0);
	id_format(&id, text);
	host("cd %s/sandboxes/demo && tar -c -f snapshots/%s.tar.zst -C workspace --format=pax --sparse --owner=0 "
	     "--group=0 "
	     "--numeric-owner --xattrs '--xattrs-include=user.*' '--use-compress-program=zstd -q -1' .",
	     b.dir, text);
	host("cd %s/sandboxes/demo/snapshots && jq -c 'del(.digest, .entries, .bytes, .stored)' %s.json >new && mv new "
	     "%s.json",
	     b.dir, text, text);
	if (restore(&b, "demo", "demo", &id, &e) != 0)
		fail_msg("restore: %s", e.message);
	list(&b, "demo", "after");
	host("cmp %s/before %s/after", b.dir, b.dir);
	box_wipe(&b);
	assert_nothing_left();
}

static void make_links(struct box *b, const char *agent, int deep, int links, int sources)
{
	make_plain(b, agent);
	ask(b, agent, "true"); /* its uid */
	stop(b, agent);
	host("python3 - %s/sandboxes/%s/workspace %d %d %d <<'END'\n"
	     "import os, sys\n"
	     "deep, links, sources = map(int, sys.argv[2:])\n"
	     "st = os.stat(sys.argv[1])\n"
	     "top = at = os.open(sys.argv[1], os.O_RDONLY)\n"
	     "def own(name, d): os.chown(name, st.st_uid, st.st_gid, dir_fd=d)\n"
	     "def file(name, d): os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=d)); own(name, d)\n"
	     "file('0', top)\n"
	     "for i in range(deep):\n"
	     "    os.mkdir('d', dir_fd=at); own('d', at)\n"
	     "    at = os.open('d', os.O_RDONLY, dir_fd=at)\n"
	     "    if i %% 500 == 499: os.closerange(top + 1, at)\n"
	     "file('1', at)\n"
	     "for i in range(links):\n"
	     "    k = i %% sources\n"
	     "    os.link(str(k), 'h%%06d' %% i, src_dir_fd=at if k else top, dst_dir_fd=at)\n"
	     "END",
	     b->dir, agent, deep, links, sources);
}

/* A tree that is packed in a moment must not take an hour to restore: the way to a first name is not gone again and
 * again. */
static void test_far_links(void **state)
{
	struct id id = fresh_id(), other = fresh_id();
	struct sandbox_info info;
	struct err e = {0};
	struct box b;

	(void)state;
	box_open(&b, "links");
	make_links(&b, "demo", 3000, 5000, 1);
	assert_int_equal(take(&b, "demo", &id, &e), 0);
	if (local_restore(b.l, "demo", "demo", &id, false, 300 * NS_PER_SEC, &info, &e) != 0)
		fail_msg("restore: %s", e.message);
	make_links(&b, "far", 3000, 8000, 2);
	assert_int_equal(take(&b, "far", &other, &e), ERR_SNAPSHOT);
	assert_true(has(e.message, "too far from each other"));
	assert_int_equal(files(&b, "far", "workspace"), 2);
	box_wipe(&b);
	assert_nothing_left();
}

/* A program in the archiver's place, of no root's daemon: it finds nothing to write to but what it was given. */
static void test_the_cage_is_read_only(void **state)
{
	char program[200], tree[200];
	const struct archive_sum made = {0};
	struct archive_params p = {.bwrap = "/usr/bin/bwrap", .program = program, .timeout_ns = LONG_NS};
	struct err e = {0};

	(void)state;
	snprintf(program, sizeof(program), "%s/archiver", top);
	snprintf(tree, sizeof(tree), "%s/tree", top);
	host("mkdir -m 777 %s && printf '#!/bin/sh\nfor f in /x /dev/x /usr/x /workspace/x; do (: >$f) 2>/dev/null && "
	     "echo wrote $f; done\nexit 3\n' >%s && chmod 755 %s",
	     tree, program, program);
	p.file = open(program, O_RDONLY | O_CLOEXEC);
	assert_true(p.file >= 0);
	assert_int_equal(archive_check(&p, &made, &e), ERR_SNAPSHOT);
	assert_string_equal(e.message, "cannot check the workspace: the archiver gave 3: ");
	p.tree = tree;
	assert_int_equal(archive_extract(&p, &made, &e), ERR_SNAPSHOT);
	assert_string_equal(e.message, "cannot unpack-old the workspace: the archiver gave 3: wrote /workspace/x");
	close(p.file);
	host("rm -rf %s %s", tree, program);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_trees, box_leftover),
	    cmocka_unit_test_teardown(test_user_mode, box_leftover),
	    cmocka_unit_test_teardown(test_damage_later, box_leftover),
	    cmocka_unit_test_teardown(test_damage_while_made, box_leftover),
	    cmocka_unit_test_teardown(test_old_archive, box_leftover),
	    cmocka_unit_test_teardown(test_far_links, box_leftover),
	    cmocka_unit_test_teardown(test_the_cage_is_read_only, box_leftover),
	};
	int rc;

	if (!box_begin(argc, argv, &rc))
		return rc;
	return box_end(cmocka_run_group_tests(tests, NULL, NULL));
}
