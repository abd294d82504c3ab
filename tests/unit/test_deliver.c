// tier: check
/* The two scripts that find or put muxlet in a container, run by every shell of this machine. */
#include "control/kube/pods/deliver.h"
#include "control/kube/pods/program.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const shells[][3] = {{"/bin/dash", NULL}, {"/bin/bash", NULL}, {"/bin/busybox", "sh", NULL}};

#define FOR_SHELLS(i)                                                                                                  \
	for (size_t i = 0; i < 3; i++)                                                                                 \
		if (access(shells[i][0], X_OK) == 0)

struct program program;
static char top[64];

struct answer {
	char text[4096];
	size_t n;
	int status;
};

static void run_command(const char *fmt, ...)
{
	char command[500];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	assert_int_equal(system(command), 0);
}

/* argv[0] of the script's call becomes the shell; stdin is fed and, as with v4, never ends before the program does. */
static struct answer run_by(const char *const *shell, const char *const *argv, const void *in, size_t n)
{
	const char *all[DELIVER_ARGS + 4];
	struct answer a = {.n = 0};
	int to[2], from[2];
	size_t k = 0;
	pid_t pid;

	for (; shell[k]; k++)
		all[k] = shell[k];
	for (size_t i = 1; argv[i - 1]; i++)
		all[k++] = argv[i];
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		execv(all[0], (char *const *)(uintptr_t)all);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	signal(SIGPIPE, SIG_IGN);
	for (size_t at = 0; at < n;) {
		ssize_t done = write(to[1], (const char *)in + at, n - at);

		if (done <= 0)
			break;
		at += (size_t)done;
	}
	for (ssize_t got; (got = read(from[0], a.text + a.n, sizeof(a.text) - 1 - a.n)) > 0;)
		a.n += (size_t)got;
	waitpid(pid, &a.status, 0);
	close(to[1]);
	close(from[0]);
	return a;
}

static struct answer look_for(const struct program *p, const char *const *shell, const char *image, const char *dir1,
			      const char *dir2)
{
	const char *argv[DELIVER_ARGS];
	char tag[17];

	deliver_look(image, p, 0, tag, argv);
	argv[7] = dir1;
	argv[8] = dir2;
	argv[9] = NULL;
	return run_by(shell, argv, "", 0);
}

static struct answer look_in(const char *const *shell, const char *image, const char *dir1, const char *dir2)
{
	return look_for(&program, shell, image, dir1, dir2);
}

static struct answer send_of(const struct program *p, const char *const *shell, const char *dir, const void *bytes,
			     size_t n)
{
	const char *argv[DELIVER_ARGS];
	char size[24];

	deliver_send(dir, p, size, argv);
	return run_by(shell, argv, bytes, n);
}

static struct answer send_to(const char *const *shell, const char *dir, const void *bytes, size_t n)
{
	return send_of(&program, shell, dir, bytes, n);
}

static struct deliver_answer said(const struct answer *a)
{
	struct deliver_answer d;

	if (deliver_parse(a->text, a->n, &d))
		fail_msg("no answer in: %.*s", (int)a->n, a->text);
	assert_true(d.machine[0]);
	return d;
}

static char *under(const char *rest)
{
	static char paths[4][200];
	static int at;

	at = (at + 1) % 4;
	snprintf(paths[at], sizeof(paths[at]), "%s/%s", top, rest);
	return paths[at];
}

static void it_is_put_and_found_again(void **state)
{
	char want[200];

	(void)state;
	FOR_SHELLS(i)
	{
		struct deliver_answer d;
		struct answer a;

		run_command("rm -rf %s/a && mkdir -p '%s/a/with space'", top, top);
		a = look_in(shells[i], "", under("none"), under("a/with space"));
		d = said(&a);
		assert_int_equal(d.kind, DELIVER_DIR);
		snprintf(want, sizeof(want), "%s/a/with space/.muxd-%.16s", top, program.sha256);
		assert_string_equal(d.path, want);
		mkdir(under("a/with space/.muxd-0123456789abcdef"), 0700); /* of an older version */
		a = send_to(shells[i], d.path, program.bytes, program.len);
		assert_int_equal(a.status, 0);
		run_command("cmp " BUILD_DIR "/muxlet '%s/muxlet' && test \"$(ls '%s')\" = muxlet", d.path, d.path);
		run_command("test ! -e '%s/a/with space/.muxd-0123456789abcdef'", top);
		a = look_in(shells[i], "", under("none"), under("a/with space"));
		d = said(&a);
		assert_int_equal(d.kind, DELIVER_FOUND_STREAM);
		snprintf(want, sizeof(want), "%s/a/with space/.muxd-%.16s/muxlet", top, program.sha256);
		assert_string_equal(d.path, want);
	}
}

/* More bytes than the size says belong to nobody; fewer, or others, never get the name. */
static void only_the_right_bytes_get_the_name(void **state)
{
	uint8_t *other = malloc(program.len);

	(void)state;
	memcpy(other, program.bytes, program.len);
	other[program.len - 1] ^= 1;
	FOR_SHELLS(i)
	{
		struct answer a;

		run_command("rm -rf %s/b && mkdir -p %s/b", top, top);
		a = send_to(shells[i], under("b"), other, program.len);
		assert_int_not_equal(a.status, 0);
		run_command("test -z \"$(ls -A %s/b)\"", top);
	}
	free(other);
}

static void the_image_comes_first(void **state)
{
	(void)state;
	FOR_SHELLS(i)
	{
		struct answer a = look_in(shells[i], BUILD_DIR "/muxlet", under("none"), "/tmp");
		struct deliver_answer d = said(&a);

		assert_int_equal(d.kind, DELIVER_FOUND_IMAGE);
		assert_string_equal(d.path, BUILD_DIR "/muxlet");
		a = look_in(shells[i], "/no/such/muxlet", "/no/such", "/neither");
		d = said(&a);
		assert_int_equal(d.kind, DELIVER_NONE);
	}
}

/* Somebody else's directory, or a link to one, is no place for a program of ours. */
static void places_of_others_are_left_alone(void **state)
{
	char path[200];

	(void)state;
	if (getuid() != 0)
		skip();
	FOR_SHELLS(i)
	{
		struct deliver_answer d;
		struct answer a;

		run_command("rm -rf %s/c && mkdir -p %s/c/theirs %s/c/linked %s/c/target", top, top, top, top);
		snprintf(path, sizeof(path), "%s/c/theirs/.muxd-%.16s", top, program.sha256);
		mkdir(path, 0777);
		assert_int_equal(chown(path, 65534, 65534), 0);
		run_command("cp " BUILD_DIR "/muxlet %s/muxlet", path);
		snprintf(path, sizeof(path), "%s/c/linked/.muxd-%.16s", top, program.sha256);
		assert_int_equal(symlink("../target", path), 0);
		a = look_in(shells[i], "", under("c/theirs"), under("c/linked"));
		d = said(&a);
		assert_int_equal(d.kind, DELIVER_NONE);
		run_command("test -z \"$(ls -A %s/c/target)\"", top);
	}
}

static void a_noexec_mount_is_no_place(void **state)
{
	(void)state;
	if (getuid() != 0)
		skip();
	run_command("mkdir -p %s/noexec %s/good", top, top);
	if (mount("none", under("noexec"), "tmpfs", MS_NOEXEC, "size=4m"))
		skip();
	FOR_SHELLS(i)
	{
		struct answer a = look_in(shells[i], "", under("noexec"), under("good"));
		struct deliver_answer d = said(&a);

		assert_int_equal(d.kind, DELIVER_DIR);
		assert_non_null(strstr(d.path, "/good/.muxd-"));
		run_command("test -z \"$(ls -A %s/noexec)\"", top); /* nothing is left where it did not go */
	}
	umount2(under("noexec"), MNT_DETACH);
}

static void a_full_disk_leaves_nothing(void **state)
{
	(void)state;
	if (getuid() != 0)
		skip();
	run_command("mkdir -p %s/full", top);
	if (mount("none", under("full"), "tmpfs", 0, "size=64k"))
		skip();
	FOR_SHELLS(i)
	{
		struct answer a = send_to(shells[i], under("full"), program.bytes, program.len);

		assert_int_not_equal(a.status, 0);
		run_command("test -z \"$(ls -A %s/full)\"", top);
	}
	umount2(under("full"), MNT_DETACH);
}

/* A script fits into it, and runs: only the program itself finds out. The place is named, and then passed over. */
static void a_directory_that_is_too_small(void **state)
{
	(void)state;
	if (getuid() != 0)
		skip();
	run_command("mkdir -p %s/small %s/roomy", top, top);
	if (mount("none", under("small"), "tmpfs", 0, "size=64k"))
		skip();
	FOR_SHELLS(i)
	{
		struct answer a = look_in(shells[i], "", under("small"), under("roomy"));
		struct deliver_answer d = said(&a);

		assert_int_equal(d.kind, DELIVER_DIR);
		assert_int_equal(d.place, 0);
		a = send_to(shells[i], d.path, program.bytes, program.len);
		assert_int_not_equal(a.status, 0);
		run_command("test -z \"$(ls -A %s/small)\"", top);
		a = look_in(shells[i], "", "", under("roomy"));
		d = said(&a);
		assert_int_equal(d.place, 1);
		a = send_to(shells[i], d.path, program.bytes, program.len);
		assert_int_equal(a.status, 0);
		a = look_in(shells[i], "", under("small"), under("roomy"));
		d = said(&a);
		assert_int_equal(d.kind, DELIVER_FOUND_STREAM);
		assert_int_equal(d.place, 1);
		run_command("rm -rf %s/roomy/.muxd-*", top);
	}
	umount2(under("small"), MNT_DETACH);
}

/*
 * As in gVisor: the same directory runs scripts and kills the program. What stands for the program here is a script
 * that ends itself by a signal there, since no kernel of this machine does so to a real one.
 */
static void a_directory_that_kills_programs(void **state)
{
	static const char text[] = "#!/bin/sh\n"
				   "case $0 in */deadly/*) kill -SEGV $$;; esac\n"
				   "[ \"$1\" = --check ] && [ \"$2\" = good ]\n";
	struct program p = {.bytes = (uint8_t *)(uintptr_t)text, .len = sizeof(text) - 1, .sha256 = "good"};

	(void)state;
	FOR_SHELLS(i)
	{
		struct answer a;
		struct deliver_answer d;

		run_command("mkdir -p %s/deadly %s/alive", top, top);
		a = look_for(&p, shells[i], "", under("deadly"), under("alive"));
		d = said(&a);
		assert_int_equal(d.place, 0);
		a = send_of(&p, shells[i], d.path, p.bytes, p.len);
		assert_true(WIFEXITED(a.status) && WEXITSTATUS(a.status) == 128 + SIGSEGV);
		/* One that another daemon left there is not taken for one that runs. */
		run_command("mkdir -m 700 %s/deadly/.muxd-good && cp /bin/false %s/deadly/.muxd-good/muxlet", top, top);
		a = look_for(&p, shells[i], "", under("deadly"), "");
		d = said(&a);
		assert_int_equal(d.kind, DELIVER_DIR);
		a = look_for(&p, shells[i], "", "", under("alive"));
		d = said(&a);
		assert_int_equal(d.place, 1);
		a = send_of(&p, shells[i], d.path, p.bytes, p.len);
		assert_int_equal(a.status, 0);
		a = look_for(&p, shells[i], "", under("deadly"), under("alive"));
		d = said(&a);
		assert_int_equal(d.kind, DELIVER_FOUND_STREAM);
		assert_int_equal(d.place, 1);
		run_command("rm -rf %s/alive %s/deadly", top, top);
	}
}

static void answers_are_hostile(void **state)
{
	static const struct {
		const char *text;
		int rc, kind;
		const char *path;
	} table[] = {
	    {"machine x86_64\ndir /tmp/.muxd-1\n", 0, DELIVER_DIR, "/tmp/.muxd-1"},
	    {"welcome to this shell\nmachine x86_64\nnone\n", 0, DELIVER_NONE, ""},
	    {"dir \nnone\n", 0, DELIVER_NONE, ""},
	    {"dir /a\tb\nnone\n", 0, DELIVER_NONE, ""},
	    {"dir /a", ERR_INVAL, 0, ""}, /* cut */
	    {"", ERR_INVAL, 0, ""},
	    {"machine \n\n\n", ERR_INVAL, 0, ""},
	    {"stream /x/muxlet\ndir /y\n", 0, DELIVER_FOUND_STREAM, "/x/muxlet"},
	    {"place 6\nplace -\nplace 11\nplace \ndir /y\n", 0, DELIVER_DIR, "/y"},
	};
	char big[5000];
	struct deliver_answer d;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		memset(&d, 0, sizeof(d));
		assert_int_equal(deliver_parse(table[i].text, strlen(table[i].text), &d), table[i].rc);
		if (table[i].rc)
			continue;
		assert_int_equal(d.kind, table[i].kind);
		assert_int_equal(d.place, -1);
		assert_string_equal(d.path, table[i].path);
	}
	memset(big, 'a', sizeof(big));
	memcpy(big, "dir /", 5);
	big[sizeof(big) - 1] = '\n';
	assert_int_equal(deliver_parse(big, sizeof(big), &d), ERR_INVAL); /* a path of 5,000 characters */
}

static void what_is_no_program_is_refused(void **state)
{
	struct program p;
	struct err e = {0};
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(program_read(fd, &p, &e), ERR_INVAL);
	close(fd);
	assert_int_equal(strlen(program.sha256), 64);
	assert_true(program.machine[0]);
}

static int begin(void **state)
{
	int fd = open(BUILD_DIR "/muxlet", O_RDONLY | O_CLOEXEC);
	struct err e = {0};

	(void)state;
	if (getuid() == 0 && !unshare(CLONE_NEWNS)) /* what is mounted here goes with this process */
		(void)mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
	snprintf(top, sizeof(top), "/tmp/muxd-deliver-XXXXXX");
	return !mkdtemp(top) || program_read(fd, &program, &e) || close(fd);
}

static int end(void **state)
{
	char command[100];

	(void)state;
	program_finish(&program);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	return system(command);
}

/* What muxlet says of itself is hostile input: each word by itself, none that is not there. */
static void what_a_joined_one_says(void **state)
{
	static const char plain[] = "muxlet join=1 version=1 daemon=running uid=1 machine=x workspace_size=7",
			  refused[] =
			      "muxlet join=1 version=1 daemon=started uid=1 machine=x workspace_size=7 guard=refused",
			  other[] = "muxlet join=1 version=1 guard=refusedly";
	struct deliver_joined j;

	(void)state;
	assert_int_equal(deliver_joined(plain, sizeof(plain) - 1, &j), 0);
	assert_false(j.unguarded || j.started);
	assert_int_equal(deliver_joined(refused, sizeof(refused) - 1, &j), 0);
	assert_true(j.unguarded && j.started && j.workspace_size == 7);
	assert_int_equal(deliver_joined(other, sizeof(other) - 1, &j), 0);
	assert_false(j.unguarded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_put_and_found_again),     cmocka_unit_test(only_the_right_bytes_get_the_name),
	    cmocka_unit_test(the_image_comes_first),         cmocka_unit_test(places_of_others_are_left_alone),
	    cmocka_unit_test(a_noexec_mount_is_no_place),    cmocka_unit_test(a_full_disk_leaves_nothing),
	    cmocka_unit_test(a_directory_that_is_too_small), cmocka_unit_test(a_directory_that_kills_programs),
	    cmocka_unit_test(answers_are_hostile),           cmocka_unit_test(what_is_no_program_is_refused),
	    cmocka_unit_test(what_a_joined_one_says),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
