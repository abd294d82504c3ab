// tier: check
/* muxlet --put and --get, run as the sandbox runs them: whole files or none, and an exit code that says why. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], muxlet[4096];
static uint8_t content[3 * 1024 * 1024];

struct run {
	pid_t pid;
	int in, out, err;
};

static struct run start(const char *const *argv)
{
	int in[2], out[2], err[2];
	struct run r = {0};

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
	r.pid = fork();
	if (r.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		execv(muxlet, (char *const *)(uintptr_t)argv);
		_exit(111);
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);
	r.in = in[1];
	r.out = out[0];
	r.err = err[0];
	return r;
}

/* Its exit code, or -signal. */
static int finish(struct run *r, char *said, size_t size)
{
	int status;
	ssize_t n = read(r->err, said, size - 1);

	said[n > 0 ? n : 0] = '\0';
	close(r->in);
	close(r->out);
	close(r->err);
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The same, without ending its input first. */
static int finish_at_its_end(struct run *r)
{
	int status;

	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	close(r->in);
	close(r->out);
	close(r->err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void feed(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done <= 0)
			return;
		p = (const char *)p + done;
		n -= (size_t)done;
	}
}

static void feed_trailer(int fd, const uint8_t *p, size_t n)
{
	uint8_t trailer[40];

	for (int i = 0; i < 8; i++)
		trailer[i] = (uint8_t)((uint64_t)n >> (8 * i));
	assert_int_equal(EVP_Digest(p, n, trailer + 8, NULL, EVP_sha256(), NULL), 1);
	feed(fd, trailer, sizeof(trailer));
}

static const char *in_dir(const char *name)
{
	static char path[4][512];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static char said[512], shown[512];

/* put with n bytes of content; more: options behind the path, NULL-ended. */
static int put(const char *path, size_t n, const char *const *more)
{
	const char *argv[12] = {"muxlet", "--put", path};
	struct run r;

	for (size_t i = 0; more && more[i]; i++)
		argv[3 + i] = more[i];
	r = start(argv);
	feed(r.in, content, n);
	feed_trailer(r.in, content, n);
	close(r.in);
	r.in = -1;
	return finish(&r, said, sizeof(said));
}

static void assert_content(const char *path, size_t n)
{
	static uint8_t got[sizeof(content) + 1];
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	assert_int_equal(fread(got, 1, sizeof(got), f), n);
	assert_memory_equal(got, content, n);
	fclose(f);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

/* Nothing but what the tests put: no temporary name is left. */
static void assert_no_rest(void)
{
	char command[160];

	snprintf(command, sizeof(command), "! find %s -name '.muxd-put*' | grep -q .", dir);
	assert_int_equal(system(command), 0);
}

static void sizes(void **state)
{
	static const size_t n[] = {0, 1, 39, 40, 41, 65535, 65536, 65537, sizeof(content)};
	char size[24];
	const char *more[] = {"--size", size, NULL};

	(void)state;
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		snprintf(size, sizeof(size), "%zu", n[i]);
		assert_int_equal(put(in_dir("file"), n[i], i % 2 ? more : NULL), 0);
		assert_string_equal(said, "");
		assert_content(in_dir("file"), n[i]);
	}
	assert_int_equal(mode_of(in_dir("file")), 0644);
	assert_no_rest();
}

static void names(void **state)
{
	static const char *const list[] = {"with space", "-dash", "--get", "line\nbreak", "\xff\xfe", "'; rm -rf ~",
					   "$(x)",       "*",     ".muxd", "a%2fb",       "tab\t"};

	(void)state;
	assert_int_equal(chdir(dir), 0);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		assert_int_equal(put(list[i], 10, NULL), 0);
		assert_content(in_dir(list[i]), 10);
	}
}

static void modes_are_given_kept_or_plain(void **state)
{
	static const char *const given[] = {"--mode", "751", NULL};

	(void)state;
	assert_int_equal(put(in_dir("mode"), 1, given), 0);
	assert_int_equal(mode_of(in_dir("mode")), 0751);
	assert_int_equal(put(in_dir("mode"), 2, NULL), 0);
	assert_int_equal(mode_of(in_dir("mode")), 0751);
	assert_content(in_dir("mode"), 2);
	assert_int_equal(symlink("mode", in_dir("link")), 0);
	assert_int_equal(put(in_dir("link"), 3, NULL), 0); /* the link goes, what it pointed to stays */
	assert_int_equal(mode_of(in_dir("link")), 0644);
	assert_content(in_dir("mode"), 2);
}

static void what_is_in_the_way(void **state)
{
	static const char *const parents[] = {"--parents", NULL};

	(void)state;
	assert_int_equal(mkdir(in_dir("sub"), 0755), 0);
	assert_int_equal(put(in_dir("sub"), 1, NULL), EISDIR);
	assert_non_null(strstr(said, "sub: Is a directory"));
	assert_int_equal(put(in_dir("sub/"), 1, NULL), EISDIR);
	assert_int_equal(put(in_dir("sub/.."), 1, NULL), EISDIR);
	assert_int_equal(put(in_dir("file/x"), 1, NULL), ENOTDIR);
	assert_int_equal(put(in_dir("no/such/x"), 1, NULL), ENOENT);
	assert_int_equal(put(in_dir("no/such/x"), 1, parents), 0);
	assert_content(in_dir("no/such/x"), 1);
	assert_int_equal(put(in_dir("no/such/x/y"), 1, parents), ENOTDIR);
	assert_int_equal(put("", 1, NULL), ENOENT);
	assert_no_rest();
}

static void what_is_not_whole_does_not_appear(void **state)
{
	const char *const argv[] = {"muxlet", "--put", in_dir("cut"), NULL};
	uint8_t wrong[40] = {1};
	struct run r;

	(void)state;
	r = start(argv); /* nothing at all */
	close(r.in), r.in = -1;
	assert_int_equal(finish(&r, said, sizeof(said)), EBADMSG);
	r = start(argv); /* content without its end */
	feed(r.in, content, 100000);
	close(r.in), r.in = -1;
	assert_int_equal(finish(&r, said, sizeof(said)), EBADMSG);
	r = start(argv); /* one byte too many before it */
	feed(r.in, content, 1);
	feed_trailer(r.in, content, 0);
	close(r.in), r.in = -1;
	assert_int_equal(finish(&r, said, sizeof(said)), EBADMSG);
	r = start(argv); /* the right size, another digest */
	feed(r.in, content, 1);
	feed(r.in, wrong, sizeof(wrong));
	close(r.in), r.in = -1;
	assert_int_equal(finish(&r, said, sizeof(said)), EBADMSG);
	r = start(argv); /* told to end in the middle */
	feed(r.in, content, 200000);
	assert_int_equal(kill(r.pid, SIGTERM), 0);
	(void)finish(&r, said, sizeof(said));
	r = start(argv); /* killed in the middle */
	feed(r.in, content, 200000);
	assert_int_equal(kill(r.pid, SIGKILL), 0);
	assert_int_equal(finish(&r, said, sizeof(said)), -SIGKILL);
	assert_int_equal(access(in_dir("cut"), F_OK), -1);
	assert_no_rest();
}

static int get(const char *path, uint8_t *out, size_t size, size_t *out_n)
{
	const char *const argv[] = {"muxlet", "--get", path, NULL};
	struct run r = start(argv);
	ssize_t n;

	*out_n = 0;
	while ((n = read(r.out, out + *out_n, size - *out_n)) > 0)
		*out_n += (size_t)n;
	return finish(&r, said, sizeof(said));
}

static void get_gives_head_and_content(void **state)
{
	static const size_t sizes_of[] = {0, 1, 65536, sizeof(content)};
	static uint8_t got[sizeof(content) + 200];
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes_of) / sizeof(sizes_of[0]); i++) {
		unsigned long long size;
		unsigned mode;
		long long mtime;
		char *nl;

		assert_int_equal(put(in_dir("out"), sizes_of[i], NULL), 0);
		assert_int_equal(chmod(in_dir("out"), 0640), 0);
		assert_int_equal(get(in_dir("out"), got, sizeof(got), &n), 0);
		nl = memchr(got, '\n', n);
		assert_non_null(nl);
		assert_int_equal(sscanf((char *)got, "muxlet-file 1 %llu %o %lld\n", &size, &mode, &mtime), 3);
		assert_int_equal(size, sizes_of[i]);
		assert_int_equal(mode, 0640);
		assert_int_equal(n - (size_t)(nl + 1 - (char *)got), sizes_of[i]);
		assert_memory_equal(nl + 1, content, sizes_of[i]);
	}
}

static void get_says_what_is_no_file(void **state)
{
	uint8_t got[200];
	size_t n;

	(void)state;
	assert_int_equal(get(in_dir("nothing"), got, sizeof(got), &n), ENOENT);
	assert_non_null(strstr(said, "nothing: No such file or directory"));
	assert_int_equal(get(dir, got, sizeof(got), &n), EISDIR);
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	assert_int_equal(get(in_dir("fifo"), got, sizeof(got), &n), ENODEV); /* and does not wait for a writer */
	assert_int_equal(get("/dev/null", got, sizeof(got), &n), ENODEV);
	assert_int_equal(n, 0);
}

static void another_user_is_refused(void **state)
{
	const char *const argv[] = {"muxlet", "--put", in_dir("closed/x"), NULL};
	struct run r;
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(in_dir("closed"), 0755), 0);
	assert_int_equal(chmod(dir, 0755), 0);
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) || setuid(65534))
			_exit(99);
		r = start(argv);
		feed_trailer(r.in, content, 0);
		close(r.in), r.in = -1;
		_exit(finish(&r, said, sizeof(said)));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 111)
		skip(); /* the build directory is closed to others */
	assert_int_equal(WEXITSTATUS(status), EACCES);
}

/* ---- the root of another container */

/* A process with a root of its own, as the first of a container: its processes are seen from beside it. */
static pid_t container(const char *root)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWUSER) || chroot(root) || chdir("/work") || prctl(PR_SET_DUMPABLE, 1) ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static int visit_get(pid_t pid, const char *path)
{
	char number[16];
	const char *argv[] = {"muxlet", "--visit", number, "--get", path, NULL};
	struct run r;
	int code;
	size_t len = 0;
	ssize_t n;

	snprintf(number, sizeof(number), "%d", (int)pid);
	r = start(argv);
	while ((n = read(r.out, shown + len, sizeof(shown) - 1 - len)) > 0)
		len += (size_t)n;
	shown[len] = '\0';
	code = finish(&r, said, sizeof(said));
	return code;
}

/* Absolute links, and those with "..", lead to what the target would find; never to what is beside it. */
static void the_root_of_another_container(void **state)
{
	char number[16], first[16] = "1";
	const char *more[] = {"--visit", number, "--parents", NULL};
	const char *check[] = {"muxlet", "--visit", number, "--pause", NULL};
	struct run r;
	FILE *f;
	pid_t pid;

	(void)state;
	assert_int_equal(
	    mkdir(in_dir("root"), 0755) | mkdir(in_dir("root/work"), 0755) | mkdir(in_dir("root/etc"), 0755), 0);
	f = fopen(in_dir("root/etc/hostname"), "w");
	assert_non_null(f);
	fputs("the target's\n", f);
	fclose(f);
	assert_int_equal(symlink("/etc/hostname", in_dir("root/work/abs")) |
			     symlink("../../../../../../etc/hostname", in_dir("root/work/up")) |
			     symlink("/etc", in_dir("root/work/dir")),
			 0);
	pid = container(in_dir("root"));
	snprintf(number, sizeof(number), "%d", (int)pid);
	for (int i = 0; i < 4; i++) {
		static const char *const names[] = {"/etc/hostname", "/work/abs", "up", "/work/dir/../etc/hostname"};

		assert_int_equal(visit_get(pid, names[i]), 0);
		assert_non_null(strstr(shown, "the target's"));
	}
	assert_int_equal(visit_get(pid, "/nowhere"), ENOENT);
	assert_int_equal(put("/work/dir/new/deep", 10, more), 0);
	assert_content(in_dir("root/etc/new/deep"), 10);
	assert_int_equal(put("beside", 10, more), 0); /* where its first process is */
	assert_content(in_dir("root/work/beside"), 10);
	r = start(check);
	assert_int_equal(kill(r.pid, 0), 0);
	assert_int_equal(kill(r.pid, SIGKILL), 0);
	assert_int_equal(finish(&r, said, sizeof(said)), -SIGKILL);
	assert_string_equal(said, "");
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	check[2] = first; /* of this machine, whose root is ours; or of nobody that we may look at */
	snprintf(first, sizeof(first), "%d", (int)getpid());
	r = start(check);
	assert_int_equal(finish(&r, said, sizeof(said)), EXDEV);
	assert_non_null(strstr(said, "it is muxlet's own"));
	assert_no_rest();
}

/* Pieces with their lengths: their end is the end, and a stream that goes was let go of. */
static void input_in_pieces(void **state)
{
	static const char *const ends[] = {"0\n", "", "7x\n", "99999999999\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const char *argv[] = {"muxlet", "--framed", "--put", in_dir("pieces"), NULL};
		struct run r = start(argv);
		int code;

		feed(r.in, "6\n", 2);
		feed(r.in, content, 6);
		feed(r.in, "4\n", 2);
		feed(r.in, content + 6, 4);
		feed(r.in, "40\n", 3);
		feed_trailer(r.in, content, 10);
		feed(r.in, ends[i], strlen(ends[i]));
		if (!*ends[i])
			close(r.in), r.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		code = finish_at_its_end(&r);
		/* Ended before it had a file of its own to remove, or after. */
		assert_true(i ? code == 128 + SIGTERM || code == -SIGTERM : code == 0);
		if (!i)
			assert_content(in_dir("pieces"), 10);
		assert_int_equal(access(in_dir("pieces"), F_OK), i ? -1 : 0);
		(void)unlink(in_dir("pieces"));
	}
	assert_no_rest();
}

static int setup(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)(i * 2654435761u >> 13);
	strcpy(dir, "/tmp/muxd-file.XXXXXX");
	return realpath(BUILD_DIR "/muxlet", muxlet) && mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes),
	    cmocka_unit_test(modes_are_given_kept_or_plain),
	    cmocka_unit_test(what_is_in_the_way),
	    cmocka_unit_test(what_is_not_whole_does_not_appear),
	    cmocka_unit_test(get_gives_head_and_content),
	    cmocka_unit_test(get_says_what_is_no_file),
	    cmocka_unit_test(another_user_is_refused),
	    cmocka_unit_test(the_root_of_another_container),
	    cmocka_unit_test(input_in_pieces),
	    cmocka_unit_test(names), /* last: it changes the directory */
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
