// tier: check, slice PART=6, whole TIMES=60
/* muxlet --fs, run as the sandbox runs it: what each operation does below its root, and that nothing leads outside.
 *
 * Over the length of a file: one root with a canary beside it, one way to run muxlet in it, and all that is told of
 * them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "files/tar.h"
#include "muxd/muxlet/fs_state.h"
#include "muxd/muxlet/fs_walk.h"

#define ANSWER_MAX (4 * 1024 * 1024)

static char dir[64], root[80], muxlet[4096];
static json_t *answer;        /* of the last run; NULL: it was none */
static char said[ANSWER_MAX]; /* all of its output */
static size_t said_n;
static bool plainly;     /* run as a user, for whom permissions count */
static rlim_t file_most; /* larger no file can be that it writes; 0: as large as the disk lets it */

static int number_given(const char *name)
{
	const char *text = getenv(name);

	return text && atoi(text) > 0 ? atoi(text) : 1;
}

/* How often something random is done: TIMES=n in the environment for a long proof, PART=n for a part of the usual. */
static int times(int usual)
{
	return usual * number_given("TIMES") / number_given("PART");
}

static unsigned seed_of_run(void)
{
	const char *given = getenv("SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)getpid();

	print_message("seed %u\n", seed);
	return seed;
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

static void feed_content(int fd, const void *p, size_t n)
{
	uint8_t trailer[40];

	feed(fd, p, n);
	for (int i = 0; i < 8; i++)
		trailer[i] = (uint8_t)((uint64_t)n >> (8 * i));
	assert_int_equal(EVP_Digest(p, n, trailer + 8, NULL, EVP_sha256(), NULL), 1);
	feed(fd, trailer, sizeof(trailer));
}

static pid_t start(const char *request, int *out_in, int *out_out)
{
	int in[2], out[2];
	pid_t pid;

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		for (int cap = 1; plainly && cap <= 2; cap++) /* DAC_OVERRIDE, DAC_READ_SEARCH */
			(void)prctl(PR_CAPBSET_DROP, cap);
		if (file_most && signal(SIGXFSZ, SIG_IGN) != SIG_ERR)
			(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){file_most, file_most});
		if (chdir(root) == 0)
			execl(muxlet, "muxlet", "--fs", request, NULL);
		_exit(111);
	}
	close(in[0]);
	close(out[1]);
	*out_in = in[1];
	*out_out = out[0];
	return pid;
}

static int finish(pid_t pid, int out)
{
	size_t n = 0;
	ssize_t got;
	int status;

	while ((got = read(out, said + n, sizeof(said) - n)) > 0)
		n += (size_t)got;
	said_n = n;
	close(out);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	json_decref(answer);
	answer = NULL;
	(void)json_parse(said, n, sizeof(said), &answer, NULL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* One operation with content; its exit code. */
static int put(const char *request, const void *p, size_t n)
{
	int in, out;
	pid_t pid = start(request, &in, &out);

	feed_content(in, p, n);
	close(in);
	return finish(pid, out);
}

static int fs(const char *request)
{
	return put(request, "", 0);
}

static const char *text_of(const char *key)
{
	const char *s = json_string_value(json_object_get(answer, key));

	return s ? s : "";
}

static json_int_t number_of(const char *key)
{
	return json_integer_value(json_object_get(answer, key));
}

/* A path outside the root: dir/name. */
static const char *outside(const char *name)
{
	static char path[4][512];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static const char *inside(const char *name)
{
	char under[300];

	snprintf(under, sizeof(under), "root/%s", name);
	return outside(under);
}

static void make(const char *path, const char *content)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(content, f);
	assert_int_equal(fclose(f), 0);
}

static void assert_content(const char *path, const char *content)
{
	char got[256] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	got[fread(got, 1, sizeof(got) - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(got, content);
}

static const char *digest(const char *content)
{
	static char hex[65];
	uint8_t sum[32];

	assert_int_equal(EVP_Digest(content, strlen(content), sum, NULL, EVP_sha256(), NULL), 1);
	for (int i = 0; i < 32; i++)
		snprintf(hex + (size_t)(2 * i), 3, "%02x", sum[i]);
	return hex;
}

/* The tree outside, as one digest: names, kinds, permissions, owners and contents. */
static void hash_outside(char out[65])
{
	char command[400];
	FILE *p;

	snprintf(command, sizeof(command),
		 "cd %s && { find canary -printf '%%p %%y %%m %%U %%s %%l\\n' | sort; find canary -type f | sort | "
		 "xargs cat; } | sha256sum",
		 dir);
	p = popen(command, "r");
	assert_non_null(p);
	assert_int_equal(fread(out, 1, 64, p), 64);
	out[64] = '\0';
	pclose(p);
}

/* ---- */

static void what_the_request_has_to_be(void **state)
{
	static const char *const bad[] = {
	    "",
	    "{}",
	    "[]",
	    "{\"op\":\"stat\"}",
	    "{\"op\":\"stat\",\"path\":\".\"",
	    "{\"op\":\"stat\",\"path\":\".\"} x",
	    "{\"op\":\"stat\",\"path\":\".\",\"path\":\".\"}",
	    "{\"op\":\"stat\",\"path\":\".\",\"colour\":1}",
	    "{\"op\":\"stat\",\"path\":\"a\\u0000b\"}",
	    "{\"op\":\"stat\",\"path\":\"\\ud800\"}",
	    "{\"op\":\"stat\",\"path\":{\"base64\":\"AA==\"}}",
	    "{\"op\":\"stat\",\"path\":{\"base64\":\"A\"}}",
	    "{\"op\":\"stat\",\"path\":\".\",\"follow\":1}",
	    "{\"op\":\"read\",\"path\":\".\",\"offset\":99999999999999999999}",
	    "{\"op\":\"chmod\",\"path\":\".\",\"mode\":4096}",
	    "{\"op\":\"chmod\",\"path\":\".\"}",
	    "{\"op\":\"move\",\"path\":\"a\"}",
	    "{\"op\":\"sing\",\"path\":\".\"}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fs(bad[i]), EINVAL);
		assert_string_not_equal(text_of("error"), "");
	}
	assert_int_equal(fs(" { \"op\" : \"stat\" , \"path\" : \"\\u002e\" } "), 0);
}

/* Any bytes but NUL are a name, and come back as they are. */
static void names_of_any_bytes(void **state)
{
	static const char *const names[] = {"with space",  "-dash", "line\nbreak", "\xff\xfe", "quo\"te",
					    "back\\slash", "\x01",  "ü",           "..a",      "a%2fb"};

	(void)state;
	assert_int_equal(mkdir(inside("names"), 0755), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[100], *request;
		json_t *o;

		snprintf(path, sizeof(path), "names/%s", names[i]);
		o = json_pack("{s:s,s:o}", "op", "write", "path", json_text_or_base64(path));
		request = json_text(o);
		assert_int_equal(put(request, "x", 1), 0);
		assert_content(inside(path), "x");
		assert_true(json_equal(json_object_get(answer, "path"), json_object_get(o, "path")));
		free(request);
		json_decref(o);
	}
	assert_int_equal(fs("{\"op\":\"list\",\"path\":\"names\"}"), 0);
	assert_int_equal(json_array_size(json_object_get(answer, "entries")), sizeof(names) / sizeof(names[0]));
}

static void pages_of_a_list(void **state)
{
	char request[400], name[40], *cursor = NULL;
	unsigned seen = 0, pages = 0;

	(void)state;
	assert_int_equal(mkdir(inside("many"), 0755) | mkdir(inside("many/b"), 0755) | mkdir(inside("many/b/c"), 0755),
			 0);
	for (int i = 0; i < 25; i++) {
		snprintf(name, sizeof(name), i % 2 ? "many/b/c/%d" : "many/a%d", i);
		make(inside(name), "");
	}
	make(inside("many/b.txt"), ""); /* between b and what is in it, were names compared as paths */
	do {
		snprintf(request, sizeof(request), "{\"op\":\"list\",\"path\":\"many\",\"depth\":5,\"limit\":3%s%s%s}",
			 cursor ? ",\"cursor\":\"" : "", cursor ? cursor : "", cursor ? "\"" : "");
		assert_int_equal(fs(request), 0);
		seen += (unsigned)json_array_size(json_object_get(answer, "entries"));
		free(cursor);
		cursor = *text_of("cursor") ? strdup(text_of("cursor")) : NULL;
		assert_in_range(++pages, 1, 10);
	} while (cursor);
	assert_int_equal(seen, 25 + 1 + 2);
	assert_int_equal(fs("{\"op\":\"list\",\"path\":\"many\",\"depth\":1}"), 0);
	assert_int_equal(json_array_size(json_object_get(answer, "entries")), 13 + 2);
	assert_int_equal(fs("{\"op\":\"list\",\"path\":\"many\",\"cursor\":\"elsewhere/x\"}"), EINVAL);
}

static void parts_of_a_file(void **state)
{
	(void)state;
	make(inside("text"), "eins\nzwei äöü\ndrei"); /* 5, 12 and 4 bytes */
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"text\",\"from_line\":2,\"to_line\":2}"), 0);
	assert_string_equal(text_of("data"), "zwei äöü\n");
	assert_int_equal(number_of("offset"), 5);
	assert_int_equal(number_of("total_lines"), 3);
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"text\",\"from_line\":3}"), 0);
	assert_string_equal(text_of("data"), "drei");
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"text\",\"from_line\":4}"), ERANGE);
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"text\",\"from_line\":3,\"to_line\":2}"), EINVAL);
	/* Eleven bytes from 5 on end inside a character: it is left for the next read. */
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"text\",\"offset\":5,\"length\":6}"), 0);
	assert_string_equal(text_of("data"), "zwei ");
	assert_true(json_is_true(json_object_get(answer, "truncated")));
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"text\",\"length\":8,\"from_line\":1}"), 0);
	assert_string_equal(text_of("data"), "eins\nzwe");
	assert_int_equal(number_of("to_line"), 2);
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"text\",\"offset\":11}"), 0); /* in the middle of one */
	assert_string_equal(text_of("encoding"), "base64");
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"text\",\"length\":2000000}"), EFBIG);
	assert_int_equal(mkfifo(inside("fifo"), 0600), 0);
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"fifo\"}"), ENODEV); /* and does not wait for a writer */
	assert_int_equal(fs("{\"op\":\"append\",\"path\":\"fifo\"}"), ENODEV);
}

static void what_is_not_whole_does_not_appear(void **state)
{
	int in, out;
	pid_t pid;

	(void)state;
	make(inside("kept"), "old");
	for (int how = 0; how < 4; how++) {
		pid = start(how % 2 ? "{\"op\":\"write\",\"path\":\"kept\"}" : "{\"op\":\"append\",\"path\":\"kept\"}",
			    &in, &out);
		feed(in, "a part of it, and no more", 25);
		if (how < 2) {
			close(in);
			assert_int_equal(finish(pid, out), EBADMSG);
		} else {
			assert_int_equal(kill(pid, SIGKILL), 0);
			assert_int_equal(finish(pid, out), -SIGKILL);
			close(in);
		}
		assert_content(inside("kept"), "old");
	}
}

/*
 * A kill between the two names of a new file leaves its content whole, size bytes of it: how many lay in a directory of
 * the root; they are taken away.
 */
static unsigned rests_taken(const char *where, long size)
{
	char path[300];
	unsigned n = 0;
	struct dirent *e;
	struct stat st;
	DIR *d = opendir(inside(where));

	assert_non_null(d);
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, ".muxd-put-", 10) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%.40s", where, e->d_name);
		assert_int_equal(stat(inside(path), &st), 0);
		assert_int_equal(st.st_size, size);
		assert_int_equal(unlink(inside(path)), 0);
		n++;
	}
	closedir(d);
	return n;
}

/* Killed at any moment of it: the one content or the other. A second name, where it was about to get its own, is whole.
 */
static void a_kill_leaves_one_or_the_other(void **state)
{
	static char big[300000], got[sizeof(big) + 1];
	unsigned seed = seed_of_run(), rests = 0;

	(void)state;
	for (int i = 0; i < times(24); i++) {
		int in, out;
		size_t n;
		pid_t pid;
		FILE *f;

		memset(big, 'a' + i % 26, sizeof(big));
		pid = start("{\"op\":\"write\",\"path\":\"killed\"}", &in, &out);
		feed_content(in, big, sizeof(big));
		close(in);
		usleep((useconds_t)(rand_r(&seed) % 4000));
		(void)kill(pid, SIGKILL);
		(void)finish(pid, out);
		rests += rests_taken(".", sizeof(big));
		f = fopen(inside("killed"), "r");
		if (!f)
			continue;
		n = fread(got, 1, sizeof(got), f);
		fclose(f);
		assert_int_equal(n, sizeof(big));
		for (size_t k = 1; k < n; k++)
			if (got[k] != got[0])
				fail_msg("byte %zu is of another content", k);
	}
	print_message("%u killed between two names\n", rests);
}

/* The same of what is appended to a file that nobody has open: all of it or nothing, behind what was there. */
static void a_kill_leaves_an_append_whole_or_absent(void **state)
{
	static char big[3000000], got[sizeof(big) + 16];
	unsigned seed = seed_of_run(), whole = 0, absent = 0, rests = 0;

	(void)state;
	memset(big, 'b', sizeof(big));
	for (int i = 0; i < times(24); i++) {
		int in, out;
		size_t n;
		pid_t pid;
		FILE *f;

		make(inside("killed"), "before\n");
		pid = start("{\"op\":\"append\",\"path\":\"killed\"}", &in, &out);
		feed_content(in, big, sizeof(big));
		close(in);
		usleep((useconds_t)(rand_r(&seed) % 20000));
		(void)kill(pid, SIGKILL);
		(void)finish(pid, out);
		rests += rests_taken(".", 7 + sizeof(big));
		f = fopen(inside("killed"), "r");
		assert_non_null(f);
		n = fread(got, 1, sizeof(got), f);
		fclose(f);
		assert_true(n == 7 || n == 7 + sizeof(big));
		assert_memory_equal(got, "before\n", 7);
		assert_int_equal(n > 7 ? memcmp(got + 7, big, sizeof(big)) : 0, 0);
		whole += n > 7;
		absent += n == 7;
	}
	print_message("%u whole, %u absent, %u killed between two names\n", whole, absent, rests);
}

static ino_t inode(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_ino;
}

/* A program that has the file open, or by another name, keeps it: the file itself grows. */
static void an_append_that_others_would_notice_is_in_place(void **state)
{
	static const struct {
		const char *name;
		int open; /* by somebody else; -1: by nobody */
		bool second_name, in_place;
	} rows[] = {
	    {"log-alone", -1, false, false},
	    {"log-followed", O_RDONLY, false, true},
	    {"log-written", O_WRONLY | O_APPEND, false, true},
	    {"log-of-two-names", -1, true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char request[120], path[120], second[128], got[16] = "";
		int fd = -1;
		ino_t was;

		snprintf(path, sizeof(path), "%s", inside(rows[i].name));
		snprintf(second, sizeof(second), "%s.2", path);
		make(path, "one\n");
		assert_int_equal(chmod(path, 0640), 0);
		was = inode(path);
		if (rows[i].open >= 0)
			fd = open(path, rows[i].open | O_CLOEXEC);
		if (rows[i].second_name)
			assert_int_equal(link(path, second), 0);
		snprintf(request, sizeof(request), "{\"op\":\"append\",\"path\":\"%s\"}", rows[i].name);
		assert_int_equal(put(request, "two\n", 4), 0);
		assert_int_equal(json_is_true(json_object_get(answer, "in_place")), rows[i].in_place);
		assert_content(path, "one\ntwo\n");
		assert_string_equal(text_of("mode"), "0640");
		assert_int_equal(inode(path) == was, rows[i].in_place);
		if (fd >= 0 && rows[i].open == O_RDONLY)
			assert_int_equal(pread(fd, got, sizeof(got), 4), 4); /* as tail -f does */
		if (rows[i].second_name)
			assert_content(second, "one\ntwo\n");
		if (fd >= 0)
			close(fd);
	}
}

#define FULL_AT ((8 << 20) + 2) /* two bytes of 8 MiB behind "one\n" lack room */

static off_t size_now(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = {0};

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	return info.si_pid == pid;
}

/* An append to log, held in its middle, where a program writes at that offset. False: it was over before that. */
static bool append_beside_a_program(const char *request, int log, off_t at)
{
	static char big[8 << 20];
	off_t was = size_now(log), grown;
	int in, out;
	pid_t pid = start(request, &in, &out);
	bool held;

	memset(big, 'b', sizeof(big));
	feed_content(in, big, sizeof(big));
	close(in);
	while (size_now(log) == was && !has_ended(pid))
		;
	(void)kill(pid, SIGSTOP);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WSTOPPED | WEXITED | WNOWAIT), 0);
	grown = size_now(log);
	held = grown > was && grown < FULL_AT;
	if (held && at >= 0)
		assert_int_equal(pwrite(log, "program\n", 8, at ? at : grown), 8);
	(void)kill(pid, SIGCONT);
	assert_int_equal(finish(pid, out), EFBIG);
	return held;
}

/* Without room for all of it nothing is added; what a program wrote meanwhile stays, wherever it did. */
static void an_append_without_room_takes_back_its_own(void **state)
{
	static const struct {
		const char *request;
		off_t at; /* where the program writes; 0: at the end, -1: nowhere */
	} rows[] = {{"{\"op\":\"append\",\"path\":\"full0\"}", -1},
		    {"{\"op\":\"append\",\"path\":\"full1\"}", 0},
		    {"{\"op\":\"append\",\"path\":\"full2\"}", 4}};
	static char got[FULL_AT];

	(void)state;
	file_most = FULL_AT;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char name[16];
		ssize_t n;
		int log;

		snprintf(name, sizeof(name), "full%zu", i);
		make(inside(name), "one\n");
		log = open(inside(name), O_RDWR | O_CLOEXEC);
		assert_true(log >= 0);
		for (int tries = 0; !append_beside_a_program(rows[i].request, log, rows[i].at); tries++)
			assert_true(tries < 100);
		n = pread(log, got, sizeof(got), 0);
		assert_true(n >= 4 && memcmp(got, "one\n", 4) == 0);
		assert_int_equal(memmem(got, (size_t)n, "program\n", 8) != NULL, rows[i].at >= 0);
		assert_int_equal(n > 4, rows[i].at >= 0);
		close(log);
		assert_int_equal(unlink(inside(name)), 0);
	}
	file_most = 0;
}

/* A link in the workspace is followed, and stays one. */
static void an_append_through_a_link(void **state)
{
	char path[120], to[16];

	(void)state;
	make(inside("linked"), "one\n");
	snprintf(path, sizeof(path), "%s", inside("link-to-it"));
	assert_int_equal(symlink("linked", path), 0);
	assert_int_equal(put("{\"op\":\"append\",\"path\":\"link-to-it\"}", "two\n", 4), 0);
	assert_true(json_is_true(json_object_get(answer, "in_place")));
	assert_content(inside("linked"), "one\ntwo\n");
	assert_int_equal(readlink(path, to, sizeof(to)), 6);
}

/* Of those who change the same known content at once, one wins. */
static void one_of_many_changes_it(void **state)
{
	char request[160];
	int out[8], won = 0;
	pid_t pid[8];

	(void)state;
	make(inside("counter"), "0");
	snprintf(request, sizeof(request), "{\"op\":\"write\",\"path\":\"counter\",\"if_match\":\"%s\"}", digest("0"));
	for (int i = 0; i < 8; i++) {
		int in;
		char own[16];

		snprintf(own, sizeof(own), "%d", i + 1);
		pid[i] = start(request, &in, &out[i]);
		feed_content(in, own, 1);
		close(in);
	}
	for (int i = 0; i < 8; i++) {
		int code = finish(pid[i], out[i]);

		assert_true(code == 0 || code == ECANCELED);
		won += code == 0;
	}
	assert_int_equal(won, 1);
	assert_int_equal(fs("{\"op\":\"write\",\"path\":\"nothing\",\"if_match\":\"00\"}"), ECANCELED);
	assert_int_equal(access(inside("nothing"), F_OK), -1);
}

/* A file without a digest to compare is refused for that, and not as changed; it stays as it is. */
static void if_match_of_what_has_no_digest(void **state)
{
	static const struct {
		const char *op, *path, *more;
		int code;
	} rows[] = {
	    {"write", "endless", "", EFBIG},      {"append", "endless", "", EFBIG},
	    {"delete", "endless", "", EFBIG},     {"move", "endless", ",\"to\":\"elsewhere\"", EFBIG},
	    {"write", "closed", "", EACCES},      {"append", "closed", "", EACCES},
	    {"delete", "closed", "", EACCES},     {"move", "closed", ",\"to\":\"elsewhere\"", EACCES},
	    {"delete", "no-file", "", ECANCELED},
	};

	(void)state;
	make(inside("endless"), "");
	make(inside("closed"), "closed");
	assert_int_equal(truncate(inside("endless"), (off_t)FS_HASH_MAX + 1) | chmod(inside("closed"), 0) |
			     mkdir(inside("no-file"), 0755),
			 0);
	plainly = true;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char request[300];

		snprintf(request, sizeof(request), "{\"op\":\"%s\",\"path\":\"%s\",\"if_match\":\"%s\"%s}", rows[i].op,
			 rows[i].path, digest("closed"), rows[i].more);
		assert_int_equal(fs(request), rows[i].code);
		assert_string_not_equal(text_of("error"), "");
		assert_int_equal(json_object_get(answer, "sha256") != NULL, rows[i].code == ECANCELED);
		assert_int_equal(access(inside(rows[i].path), F_OK), 0);
	}
	plainly = false;
	assert_int_equal(unlink(inside("endless")) | unlink(inside("closed")) | rmdir(inside("no-file")), 0);
}

static void links_are_names_of_their_own(void **state)
{
	(void)state;
	make(inside("target"), "target");
	assert_int_equal(symlink("target", inside("link")), 0);
	assert_int_equal(fs("{\"op\":\"read\",\"path\":\"link\"}"), 0);
	assert_string_equal(text_of("data"), "target");
	assert_int_equal(fs("{\"op\":\"copy\",\"path\":\"link\",\"to\":\"link2\"}"), 0);
	assert_int_equal(fs("{\"op\":\"delete\",\"path\":\"link2\",\"recursive\":true}"), 0);
	assert_int_equal(put("{\"op\":\"write\",\"path\":\"link\"}", "new", 3), 0);
	assert_content(inside("target"), "target");
	assert_content(inside("link"), "new");
}

static void trees_are_copied_whole_or_not(void **state)
{
	(void)state;
	assert_int_equal(mkdir(inside("tree"), 0755) | mkdir(inside("tree/closed"), 0755), 0);
	make(inside("tree/closed/f"), "f");
	assert_int_equal(chmod(inside("tree/closed"), 0555), 0);
	assert_int_equal(symlink("/etc", inside("tree/out")), 0);
	assert_int_equal(fs("{\"op\":\"copy\",\"path\":\"tree\",\"to\":\"tree2\",\"recursive\":true}"), 0);
	assert_content(inside("tree2/closed/f"), "f");
	assert_int_equal(mkfifo(inside("tree/pipe"), 0600), 0);
	assert_int_equal(fs("{\"op\":\"copy\",\"path\":\"tree\",\"to\":\"tree3\",\"recursive\":true}"), ENODEV);
	assert_int_equal(access(inside("tree3"), F_OK), -1);
	assert_null(json_object_get(answer, "changes"));
	assert_int_equal(system("! ls -A \"$FS_ROOT\" | grep -q muxd-copy"), 0);
	assert_int_equal(
	    fs("{\"op\":\"copy\",\"path\":\"tree\",\"to\":\"tree/in/it\",\"recursive\":true,\"parents\":true}"),
	    EINVAL);
	assert_int_equal(fs("{\"op\":\"copy\",\"path\":\".\",\"to\":\"tree/all\",\"recursive\":true}"), EINVAL);
}

/* Told to end in the middle, a copy of a tree takes away what it has; one that was whole by then stays. */
static void a_copy_that_is_told_to_end_leaves_nothing_half(void **state)
{
	(void)state;
	assert_int_equal(system("cd \"$FS_ROOT\" && mkdir forest && cd forest && seq 4000 | xargs touch"), 0);
	for (int i = 0; i < 2; i++) {
		siginfo_t end = {0};
		int in, out, is;
		pid_t pid =
		    start("{\"op\":\"copy\",\"path\":\"forest\",\"to\":\"copied\",\"recursive\":true}", &in, &out);

		close(in);
		while (system("ls -d \"$FS_ROOT\"/.muxd-copy-* >/dev/null 2>&1") &&
		       waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == 0)
			;
		(void)kill(pid, i ? SIGHUP : SIGTERM);
		is = finish(pid, out);
		assert_true(is == 0 || is == ECANCELED);
		assert_int_equal(access(inside("copied"), F_OK), is ? -1 : 0);
		assert_int_equal(system("! ls -A \"$FS_ROOT\" | grep -q muxd-copy"), 0);
		assert_int_equal(system("rm -rf \"$FS_ROOT/copied\""), 0);
	}
	assert_int_equal(system("rm -rf \"$FS_ROOT/forest\""), 0);
}

static void changes_are_told_with_their_digests(void **state)
{
	const json_t *change;

	(void)state;
	make(inside("told"), "before");
	assert_int_equal(put("{\"op\":\"write\",\"path\":\"told\"}", "after", 5), 0);
	change = json_array_get(json_object_get(answer, "changes"), 0);
	assert_string_equal(json_string_value(json_object_get(json_object_get(change, "before"), "sha256")),
			    digest("before"));
	assert_string_equal(json_string_value(json_object_get(json_object_get(change, "after"), "sha256")),
			    digest("after"));
	assert_int_equal(mkdir(inside("hundreds"), 0755), 0);
	for (int i = 0; i < 150; i++) {
		char name[40];

		snprintf(name, sizeof(name), "hundreds/%d", i);
		make(inside(name), "x");
	}
	assert_int_equal(fs("{\"op\":\"delete\",\"path\":\"hundreds\",\"recursive\":true}"), 0);
	assert_int_equal(number_of("deleted"), 151);
	assert_int_equal(json_array_size(json_object_get(answer, "changes")) + (size_t)number_of("changes_left_out"),
			 151);
	assert_int_equal(fs("{\"op\":\"delete\",\"path\":\".\",\"recursive\":true}"), EINVAL);
}

/* ---- patches and searches */

static int patch(const char *path, const char *text)
{
	char request[200];

	snprintf(request, sizeof(request), "{\"op\":\"patch\",\"path\":\"%s\"}", path);
	return put(request, text, strlen(text));
}

static const char *refused_for(const char *key)
{
	const char *s = json_string_value(json_object_get(json_object_get(answer, "refused"), key));

	return s ? s : "";
}

static void a_patch_is_applied_whole_or_not(void **state)
{
	(void)state;
	assert_int_equal(mkdir(inside("patch"), 0755), 0);
	make(inside("patch/a"), "1\n2\n3\n");
	make(inside("patch/b"), "x\n");
	assert_int_equal(chmod(inside("patch/a"), 0750), 0);
	assert_int_equal(patch("patch", "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n"
					"--- a/b\n+++ b/b\n@@ -1 +1 @@\n-no\n+y\n"),
			 ENOMSG);
	assert_string_equal(refused_for("path"), "patch/b");
	assert_string_equal(refused_for("reason"), "not_found");
	assert_content(inside("patch/a"), "1\n2\n3\n");
	assert_int_equal(patch("patch", "*** Begin Patch\n*** Update File: a\n*** Move to: new/dir/a\n@@\n-2\n+two\n"
					"*** Delete File: b\n*** Add File: c\n+see\n*** End Patch\n"),
			 0);
	assert_content(inside("patch/new/dir/a"), "1\ntwo\n3\n");
	assert_content(inside("patch/c"), "see\n");
	assert_int_equal(access(inside("patch/a"), F_OK) & access(inside("patch/b"), F_OK), -1);
	assert_int_equal(json_array_size(json_object_get(answer, "changes")), 4);
	assert_int_equal(patch("patch", "c\n<<<<<<< SEARCH\nsee\n=======\nseen\n>>>>>>> REPLACE\n"), 0);
	assert_content(inside("patch/c"), "seen\n");
	assert_int_equal(patch("patch", "nothing of a patch"), ENOMSG);
	assert_int_equal(patch("patch", "*** Begin Patch\n*** Delete File: none\n*** End Patch\n"), ENOENT);
	assert_int_equal(symlink("c", inside("patch/link")), 0);
	assert_int_equal(patch("patch", "link\n<<<<<<< SEARCH\nseen\n=======\nlost\n>>>>>>> REPLACE\n"), EINVAL);
	assert_content(inside("patch/c"), "seen\n");
}

/* Told to end once the first name is given: it goes on to the last one, and its answer has all of them. */
static void a_patch_that_is_told_to_end_is_all_or_nothing(void **state)
{
	enum { FILES = 300 };
	static char text[FILES * 64];
	size_t n = (size_t)snprintf(text, sizeof(text), "*** Begin Patch\n");
	int in, out, is, there = 0;
	siginfo_t end = {0};
	pid_t pid;

	(void)state;
	assert_int_equal(mkdir(inside("ending"), 0755), 0);
	for (int i = 0; i < FILES; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "*** Add File: ending/%d\n+new\n", i);
	n += (size_t)snprintf(text + n, sizeof(text) - n, "*** End Patch\n");
	pid = start("{\"op\":\"patch\",\"path\":\".\"}", &in, &out);
	feed_content(in, text, n);
	close(in);
	while (access(inside("ending/0"), F_OK) && waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       end.si_pid == 0)
		;
	(void)kill(pid, SIGTERM);
	is = finish(pid, out);
	for (int i = 0; i < FILES; i++) {
		char name[20];

		snprintf(name, sizeof(name), "ending/%d", i);
		there += access(inside(name), F_OK) == 0;
	}
	assert_int_equal(there, FILES);
	assert_int_equal(is, 0);
	assert_int_equal(json_array_size(json_object_get(answer, "changes")) +
			     (size_t)json_integer_value(json_object_get(answer, "changes_left_out")),
			 FILES);
}

/* Each file is the one or the other, whenever the patch is killed; beside them lies at most what is whole. */
static void a_killed_patch_leaves_whole_files(void **state)
{
	static const char text[] =
	    "*** Begin Patch\n*** Update File: 1\n@@\n-old\n+new\n*** Update File: 2\n@@\n-old\n+new\n"
	    "*** Add File: 3\n+new\n*** End Patch\n";
	static char got[300100];
	unsigned seed = seed_of_run();

	(void)state;
	assert_int_equal(mkdir(inside("killing"), 0755), 0);
	memset(got, 'x', 300000);
	strcpy(got + 300000, "\nold\n");
	for (int i = 0; i < times(16); i++) {
		int in, out;
		pid_t pid;

		make(inside("killing/1"), got);
		make(inside("killing/2"), got);
		(void)unlink(inside("killing/3"));
		pid = start("{\"op\":\"patch\",\"path\":\"killing\"}", &in, &out);
		feed_content(in, text, sizeof(text) - 1);
		close(in);
		usleep((useconds_t)(rand_r(&seed) % 8000));
		(void)kill(pid, SIGKILL);
		(void)finish(pid, out);
		(void)rests_taken("killing", 300005);
		for (int k = 1; k <= 2; k++) {
			char name[20], is[300100] = "";
			FILE *f;

			snprintf(name, sizeof(name), "killing/%d", k);
			f = fopen(inside(name), "r");
			assert_non_null(f);
			assert_int_equal(fread(is, 1, sizeof(is), f), 300005);
			fclose(f);
			assert_true(strcmp(is + 300000, "\nold\n") == 0 || strcmp(is + 300000, "\nnew\n") == 0);
		}
		if (access(inside("killing/3"), F_OK) == 0)
			assert_content(inside("killing/3"), "new\n");
	}
	assert_int_equal(system("test \"$(ls -A \"$FS_ROOT/killing\" | grep -v '^3$' | tr '\n' ' ')\" = '1 2 '"), 0);
}

static json_int_t matches(const char *more)
{
	char request[300];

	snprintf(request, sizeof(request), "{\"op\":\"search\",\"path\":\"find\",%s}", more);
	assert_int_equal(fs(request), 0);
	return number_of("matches");
}

static void what_a_search_finds(void **state)
{
	FILE *f;

	(void)state;
	assert_int_equal(mkdir(inside("find"), 0755) | mkdir(inside("find/sub"), 0755), 0);
	make(inside("find/a"), "Alpha\nbeta\ngamma\n");
	make(inside("find/sub/b"), "alpha beta");
	make(inside("find/sub/.gitignore"), "b\n");
	f = fopen(inside("find/long"), "w"); /* a line longer than any buffer, then the one that is looked for */
	assert_non_null(f);
	for (int i = 0; i < 1000000; i++)
		fputc('a', f);
	fputs("\nneedle\n", f);
	fclose(f);
	assert_int_equal(matches("\"pattern\":\"alpha\",\"ignore_case\":true,\"ignore\":[\"long\"]"), 2);
	assert_int_equal(matches("\"pattern\":\"alpha\",\"ignore_case\":true,\"gitignore\":true"), 1);
	assert_int_equal(matches("\"pattern\":\"^b.ta$\",\"regex\":true"), 1);
	assert_int_equal(matches("\"pattern\":\"needle\""), 1);
	assert_int_equal(matches("\"pattern\":\"(a|aa|a*)*b$\",\"regex\":true,\"ignore\":[\"/sub\"]"), 0);
	assert_int_equal(matches("\"pattern\":\"a\",\"limit\":1"), 1);
	assert_string_equal(text_of("stopped_by"), "limit");
	assert_int_equal(fs("{\"op\":\"search\",\"path\":\"find\",\"pattern\":\"(\",\"regex\":true}"), EINVAL);
	assert_int_equal(fs("{\"op\":\"glob\",\"path\":\"find\",\"pattern\":\"**/{b,long}\"}"), 0);
	assert_int_equal(json_array_size(json_object_get(answer, "entries")), 2);
}

/* ---- nothing leads outside */

static const char *const ops_of_a_path[] = {
    "{\"op\":\"stat\",\"path\":%s,\"follow\":true,\"sha256\":true}",
    "{\"op\":\"list\",\"path\":%s,\"depth\":3}",
    "{\"op\":\"read\",\"path\":%s}",
    "{\"op\":\"write\",\"path\":%s,\"parents\":true}",
    "{\"op\":\"append\",\"path\":%s,\"parents\":true}",
    "{\"op\":\"mkdir\",\"path\":%s,\"parents\":true}",
    "{\"op\":\"delete\",\"path\":%s,\"recursive\":true}",
    "{\"op\":\"chmod\",\"path\":%s,\"mode\":511}",
    "{\"op\":\"move\",\"path\":%s,\"to\":\"moved\",\"overwrite\":true}",
    "{\"op\":\"copy\",\"path\":%s,\"to\":\"copied\",\"overwrite\":true,\"recursive\":true}",
    "{\"op\":\"move\",\"path\":\"own\",\"to\":%s,\"overwrite\":true,\"parents\":true}",
    "{\"op\":\"copy\",\"path\":\"own\",\"to\":%s,\"overwrite\":true,\"parents\":true}",
    "{\"op\":\"search\",\"path\":%s,\"pattern\":\"secret\"}",
    "{\"op\":\"glob\",\"path\":%s,\"pattern\":\"**\"}",
    "{\"op\":\"patch\",\"path\":%s}",
    "{\"op\":\"tree_get\",\"path\":%s}",
    "{\"op\":\"tree_put\",\"path\":%s,\"parents\":true}",
    "{\"op\":\"tree_put\",\"path\":%s,\"merge\":true}",
    "{\"op\":\"tree_put\",\"path\":%s,\"overwrite\":true}",
    "{\"op\":\"changes\",\"path\":%s}",
};
/* Content for those that take some: also a patch, which adds a file. */
#define OVERWRITE     "*** Begin Patch\n*** Add File: added\n+overwritten\n*** End Patch\n"
#define OPS_OF_A_PATH (sizeof(ops_of_a_path) / sizeof(ops_of_a_path[0]))

static void assert_nothing_secret(void)
{
	assert_null(memmem(said, said_n, "canary's secret", 15));
}

static int op_on(size_t op, const char *path)
{
	json_t *name = json_text_or_base64(path);
	char *quoted = json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT), request[2000];
	int code;

	snprintf(request, sizeof(request), ops_of_a_path[op], quoted);
	free(quoted);
	json_decref(name);
	code = put(request, OVERWRITE, sizeof(OVERWRITE) - 1);
	assert_nothing_secret();
	return code;
}

static void make_canary(void)
{
	assert_int_equal(mkdir(outside("canary"), 0777) | mkdir(outside("canary/sub"), 0777), 0);
	/* A patch that gets there fits its first line; a refusal repeats the lines of the patch, never the second. */
	make(outside("canary/file"), "canary\ncanary's secret");
	make(outside("canary/sub/file"), "canary\ncanary's secret");
	assert_int_equal(chmod(outside("canary/file"), 0666), 0);
}

/* A file again, also where something random made a directory of it. */
static void own_again(void)
{
	if (unlink(inside("own")) && errno != ENOENT)
		(void)fs("{\"op\":\"delete\",\"path\":\"own\",\"recursive\":true}");
	make(inside("own"), "own");
}

static void ways_out_are_refused(void **state)
{
	static const char *const ways[] = {"../canary/file",
					   "sub/../../canary/file",
					   "abs/file",
					   "up/file",
					   "file_abs/x",
					   "abs/sub",
					   "sub/deep/file",
					   "./.././canary/sub/../file",
					   "proc/self/root/etc/passwd"};
	char before[65], after[65], absolute[128];
	size_t part = (size_t)number_given("PART");

	(void)state;
	hash_outside(before);
	assert_int_equal(mkdir(inside("sub"), 0755), 0);
	assert_int_equal(symlink(outside("canary"), inside("abs")) | symlink("../canary", inside("up")) |
			     symlink(outside("canary/file"), inside("file_abs")) |
			     symlink("../../canary", inside("sub/deep")) | symlink("/proc", inside("proc")),
			 0);
	snprintf(absolute, sizeof(absolute), "%s/canary/file", dir);
	for (size_t op = 0; op < OPS_OF_A_PATH; op++) {
		/* Of a part each operation has its own ways. */
		for (size_t i = op % part; i < sizeof(ways) / sizeof(ways[0]); i += part) {
			own_again();
			assert_int_not_equal(op_on(op, ways[i]), 0);
		}
		assert_int_equal(op_on(op, absolute), EXDEV);
		assert_int_equal(op_on(op, outside("root2/file")), EXDEV);
	}
	hash_outside(after);
	assert_string_equal(before, after);
}

/* Paths put together at random from what is there, out of it and odd. */
static void random_paths_stay_inside(void **state)
{
	static const char *const parts[] = {"..",  ".",        "canary", "file", "sub", "abs", "up", "deep", "",
					    "new", "file_abs", "proc",   "self", "cwd", "fd",  "0",  "root", "\xff"};
	char before[65], after[65];
	unsigned seed = seed_of_run();

	(void)state;
	hash_outside(before);
	for (int i = 0; i < times(60); i++) {
		char path[300] = "";

		if (rand_r(&seed) % 3 == 0)
			strcpy(path, rand_r(&seed) % 2 ? root : dir);
		for (int n = 1 + rand_r(&seed) % 5; n; n--) {
			if (*path)
				strcat(path, "/");
			strcat(path, parts[(size_t)rand_r(&seed) % (sizeof(parts) / sizeof(parts[0]))]);
		}
		if (strncmp(path, "..", 2) == 0 && rand_r(&seed) % 2)
			memmove(path, path + 2, strlen(path) - 1);
		(void)op_on((size_t)rand_r(&seed) % OPS_OF_A_PATH, path);
		if (i % 20 == 0) { /* what was deleted or moved comes back */
			(void)mkdir(inside("sub"), 0755);
			(void)!symlink(outside("canary"), inside("abs"));
			(void)!symlink("../canary", inside("up"));
			own_again();
		}
	}
	hash_outside(after);
	assert_string_equal(before, after);
}

/* Names in patches of each form, put together as above; on its own and where paths are listed. */
static void random_patches_stay_inside(void **state)
{
	static const char *const parts[] = {"..",  ".",        "canary", "file", "sub", "abs", "up",    "deep", "",
					    "new", "file_abs", "proc",   "self", "own", "/",   "\\303", "\"",   "\xff"};
	static const char *const forms[] = {
	    "--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-canary\n+changed\n",
	    "--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+%s\n",
	    "diff --git a/own b/%s\nrename from own\nrename to %s\n",
	    "diff --git a/%s b/copy\ncopy from %s\ncopy to copied\n",
	    "diff --git a/%s b/%s\nold mode 100644\nnew mode 100777\n",
	    "*** Begin Patch\n*** Add File: %s\n+%s\n*** End Patch\n",
	    "*** Begin Patch\n*** Delete File: %s\n*** Delete File: %s\n*** End Patch\n",
	    "*** Begin Patch\n*** Update File: own\n*** Move to: %s\n@@\n-own\n+%s\n*** End Patch\n",
	    "%s\n<<<<<<< SEARCH\n=======\n%s\n>>>>>>> REPLACE\n",
	};
	char before[65], after[65], text[1200];
	unsigned seed = seed_of_run();

	(void)state;
	hash_outside(before);
	for (int i = 0; i < times(60); i++) {
		char path[2][200] = {"", ""};

		for (int k = 0; k < 2; k++) {
			if (rand_r(&seed) % 4 == 0)
				strcpy(path[k], rand_r(&seed) % 2 ? root : dir);
			for (int n = 1 + rand_r(&seed) % 4; n; n--) {
				strcat(path[k], *path[k] ? "/" : "");
				strcat(path[k], parts[(size_t)rand_r(&seed) % (sizeof(parts) / sizeof(parts[0]))]);
			}
		}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(text, sizeof(text), forms[(size_t)rand_r(&seed) % (sizeof(forms) / sizeof(forms[0]))], path[0],
			 path[1]);
#pragma GCC diagnostic pop
		(void)put(rand_r(&seed) % 2
			      ? "{\"op\":\"patch\",\"path\":\".\"}"
			      : "{\"op\":\"patch\",\"path\":\".\",\"no_links\":true,\"only_write\":[\"**\"],"
				"\"only_read\":[\"**\"]}",
			  text, strlen(text));
		assert_nothing_secret();
		if (i % 20 == 0) {
			(void)mkdir(inside("sub"), 0755);
			(void)!symlink(outside("canary"), inside("abs"));
			(void)!symlink("../canary", inside("up"));
			own_again();
		}
	}
	hash_outside(after);
	assert_string_equal(before, after);
}

/* ---- trees as archives */

static size_t read_file(const char *path, uint8_t *to, size_t max)
{
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(to, 1, max, f);
	fclose(f);
	return n;
}

static void a_tree_comes_back_as_it_went(void **state)
{
	static char archive[ANSWER_MAX];
	char same[700];
	size_t n;

	(void)state;
	assert_int_equal(mkdir(inside("arc"), 0750) | mkdir(inside("arc/d"), 0755) | mkdir(inside("arc/ro"), 0755), 0);
	make(inside("arc/d/f"), "content");
	make(inside("arc/x\n\xff"), "");
	make(inside("arc/ro/f"), "1");
	assert_int_equal(
	    symlink("d/f", inside("arc/l")) | chmod(inside("arc/d/f"), 0755) | chmod(inside("arc/ro"), 0555), 0);
	assert_int_equal(fs("{\"op\":\"tree_get\",\"path\":\"arc\"}"), 0);
	memcpy(archive, said, n = said_n);
	assert_int_equal(put("{\"op\":\"tree_put\",\"path\":\"arc2\"}", archive, n), 0);
	assert_false(json_is_true(json_object_get(answer, "replaced")));
	snprintf(same, sizeof(same),
		 "cd %s && diff -r --no-dereference arc arc2 && stat -c %%a arc2 arc2/ro arc2/d/f | tr '\\n' ' ' | "
		 "grep -qx '750 555 755 ' && test \"$(stat -c %%Y arc/d/f)\" = \"$(stat -c %%Y arc2/d/f)\"",
		 root);
	assert_int_equal(system(same), 0);
	assert_int_equal(put("{\"op\":\"tree_put\",\"path\":\"arc2\"}", archive, n), EEXIST);
	assert_int_equal(unlink(inside("arc2/d/f")), 0);
	make(inside("arc2/mine"), "stays");
	assert_int_equal(put("{\"op\":\"tree_put\",\"path\":\"arc2\",\"merge\":true}", archive, n), 0);
	assert_content(inside("arc2/d/f"), "content");
	assert_content(inside("arc2/mine"), "stays");
	assert_int_equal(put("{\"op\":\"tree_put\",\"path\":\"arc2\",\"overwrite\":true}", archive, n), 0);
	assert_true(json_is_true(json_object_get(answer, "replaced")));
	assert_int_not_equal(access(inside("arc2/mine"), F_OK), 0);
	/* Where one thing cannot go, nothing goes. */
	assert_int_equal(unlink(inside("arc2/l")) | mkdir(inside("arc2/l"), 0755) | unlink(inside("arc2/d/f")), 0);
	assert_int_equal(put("{\"op\":\"tree_put\",\"path\":\"arc2\",\"merge\":true}", archive, n), EISDIR);
	assert_int_not_equal(access(inside("arc2/d/f"), F_OK), 0);
	/* Cut anywhere it leaves nothing. */
	for (size_t cut = 0; cut < n; cut += 1024) {
		int code = put("{\"op\":\"tree_put\",\"path\":\"arc3\"}", archive, cut);

		if (code == 0)
			assert_int_equal(system("rm -rf \"$FS_ROOT\"/arc3"), 0);
		else
			assert_int_equal(code, EINVAL);
	}
	assert_int_equal(put("{\"op\":\"tree_get\",\"path\":\"nosuch\"}", "", 0), ENOENT);
	assert_int_equal(system("cd \"$FS_ROOT\" && test -z \"$(find . -name '.muxd-*')\" && test ! -e arc3"), 0);
}

struct archive {
	size_t n;
	uint8_t p[1024 * 1024];
};

/* One entry more. what: the content of a file, where a link leads. */
static void add(struct archive *a, enum tar_type type, unsigned mode, const char *path, const char *what)
{
	static struct tar_entry e;
	size_t n = type == TAR_FILE ? strlen(what) : 0;

	memset(&e, 0, sizeof(e));
	e.type = (char)type;
	e.mode = mode;
	e.size = n;
	snprintf(e.path, sizeof(e.path), "%s", path);
	snprintf(e.target, sizeof(e.target), "%s", type == TAR_FILE ? "" : what);
	assert_true(a->n + TAR_HEAD_MAX + n + TAR_BLOCK < sizeof(a->p));
	a->n += tar_write(&e, a->p + a->n);
	memcpy(a->p + a->n, what, n);
	memset(a->p + a->n + n, 0, TAR_PAD(n));
	a->n += n + TAR_PAD(n);
}

static int put_archive(const char *request, struct archive *a)
{
	memset(a->p + a->n, 0, 2 * TAR_BLOCK);
	return put(request, a->p, a->n + 2 * TAR_BLOCK);
}

static const char *steps(unsigned n, const char *last)
{
	static char path[4096];
	size_t len = 0;

	while (n--)
		len += (size_t)snprintf(path + len, sizeof(path) - len, "d/");
	snprintf(path + len, sizeof(path) - len, "%s", last);
	return path;
}

static void assert_none_left(void)
{
	assert_int_equal(system("cd \"$FS_ROOT\" && test -z \"$(find . -name '.muxd-*' | head -c 200)\""), 0);
}

/* How deep a tree may be is said; one that programs made is taken away however deep it is. */
static void deep_trees_lose_nothing(void **state)
{
	static const char *const ways[] = {"{\"op\":\"tree_put\",\"path\":\"far\",\"merge\":true}",
					   "{\"op\":\"tree_put\",\"path\":\"far\",\"overwrite\":true}"};
	static struct archive a;

	(void)state;
	assert_int_equal(mkdir(inside("far"), 0755), 0);
	for (size_t i = 0; i < 2; i++) {
		a.n = 0;
		add(&a, TAR_FILE, 0644, "shallow", "s");
		add(&a, TAR_FILE, 0644, steps(FS_WALK_DEPTH - 1, "f"), "deep");
		assert_int_equal(put_archive(ways[i], &a), EFBIG);
		assert_non_null(strstr(text_of("error"), "at most 255 steps"));
		assert_int_not_equal(access(inside("far/shallow"), F_OK), 0);
		a.n = 0;
		add(&a, TAR_FILE, 0644, steps(FS_WALK_DEPTH - 2, "f"), "deep");
		add(&a, TAR_DIRECTORY, 0755, steps(FS_WALK_DEPTH - 2, "e"), "");
		assert_int_equal(put_archive(ways[i], &a), 0);
		assert_int_equal(json_array_size(json_object_get(answer, "changes")), 1);
		assert_int_equal(system("cd \"$FS_ROOT\" && test $(find far -type f | wc -l) = 1"), 0);
		assert_none_left();
	}
	assert_int_equal(system("cd \"$FS_ROOT\" && python3 -c \"import os\nfor n in ['x' * 200] * 12 + ['d'] * 300:\n"
				" os.mkdir(n); os.chdir(n)\" && mv xx* far/"),
			 0);
	a.n = 0;
	add(&a, TAR_FILE, 0644, "f", "");
	assert_int_equal(put_archive(ways[1], &a), 0);
	assert_null(json_object_get(answer, "left_behind"));
	assert_none_left();
	assert_int_equal(system("cd \"$FS_ROOT\" && test \"$(find far | sort | tr '\\n' ' ')\" = 'far far/f '"), 0);
}

/* A directory that its own user may not read hides no name of it. */
static void closed_directories_are_told(void **state)
{
	static struct archive a;
	json_t *changes;

	(void)state;
	plainly = true;
	add(&a, TAR_DIRECTORY, 0311, "./", "");
	add(&a, TAR_DIRECTORY, 0311, "secret", "");
	add(&a, TAR_FILE, 0000, "secret/f", "hidden");
	assert_int_equal(put_archive("{\"op\":\"tree_put\",\"path\":\"closed\"}", &a), 0);
	plainly = false;
	changes = json_object_get(answer, "changes");
	assert_int_equal(json_array_size(changes), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(changes, 0), "path")), "closed/secret/f");
	assert_null(json_object_get(answer, "changes_left_out"));
	assert_int_equal(system("test \"$(stat -c %a \"$FS_ROOT\"/closed/secret)\" = 311 && "
				"chmod 755 \"$FS_ROOT\"/closed"),
			 0);
	/* Nor does a search keep it quiet. */
	plainly = true;
	assert_int_equal(fs("{\"op\":\"search\",\"path\":\"closed\",\"pattern\":\"hidden\"}"), 0);
	plainly = false;
	assert_int_equal(number_of("matches"), 0);
	assert_int_equal(number_of("unreadable"), 1);
}

/* As tar has it: of several the last; a link to oneself is what is there. */
static void entries_that_come_twice(void **state)
{
	static struct archive a;

	(void)state;
	add(&a, TAR_DIRECTORY, 0755, "d", "");
	add(&a, TAR_DIRECTORY, 0711, "d/e", "");
	add(&a, TAR_DIRECTORY, 0700, "d", "");
	add(&a, TAR_DIRECTORY, 0555, "d-e", "");
	add(&a, TAR_DIRECTORY, 0750, "d/e", "");
	add(&a, TAR_FILE, 0644, "a", "content");
	add(&a, TAR_HARDLINK, 0644, "a", "a");
	add(&a, TAR_HARDLINK, 0644, "b", "a");
	add(&a, TAR_HARDLINK, 0644, "./a", "b");
	assert_int_equal(put_archive("{\"op\":\"tree_put\",\"path\":\"twice\"}", &a), 0);
	assert_content(inside("twice/a"), "content");
	assert_content(inside("twice/b"), "content");
	assert_int_equal(
	    system("cd \"$FS_ROOT\"/twice && test \"$(stat -c %a d d/e d-e | tr '\\n' ' ')\" = '700 750 555 '"), 0);
	a.n = 0;
	add(&a, TAR_HARDLINK, 0644, "none", "none");
	assert_int_equal(put_archive("{\"op\":\"tree_put\",\"path\":\"none\"}", &a), ENOENT);
	assert_none_left();
}

/* Directories are remembered until they have their permissions; not without end. */
static void names_of_directories_are_bounded(void **state)
{
	static struct archive a;
	static uint8_t many[32 * 1024 * 1024];
	char path[3900] = "";
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 15; i++)
		memset(path + strlen(path), i % 2 ? 'b' : 'a', 250), strcat(path, "/");
	add(&a, TAR_DIRECTORY, 0755, path, "");
	for (; n + a.n + 2 * TAR_BLOCK < sizeof(many); n += a.n)
		memcpy(many + n, a.p, a.n);
	assert_int_equal(put("{\"op\":\"tree_put\",\"path\":\"bounded\"}", many, n + 2 * TAR_BLOCK), EFBIG);
	assert_non_null(strstr(text_of("error"), "more than 16 MiB"));
	assert_none_left();
}

/* Told to end in the middle: what was unpacked goes. */
static void a_tree_that_is_broken_off_leaves_nothing(void **state)
{
	static uint8_t archive[16384];
	size_t n = read_file("tests/fuzz/corpus/tar/ustar", archive, sizeof(archive));
	int in, out;
	pid_t pid;

	(void)state;
	for (int i = 0; i < 2; i++) { /* told to; and its input ends without what proves it whole */
		pid = start("{\"op\":\"tree_put\",\"path\":\"off\"}", &in, &out);
		feed(in, archive, n);
		for (int tries = 0; tries < 2000 && system("ls -d \"$FS_ROOT\"/.muxd-tree-* >/dev/null 2>&1"); tries++)
			;
		if (i == 0)
			kill(pid, SIGTERM);
		else
			close(in);
		assert_int_equal(finish(pid, out), i == 0 ? ECANCELED : EBADMSG);
		if (i == 0)
			close(in);
		assert_int_equal(system("cd \"$FS_ROOT\" && test -z \"$(ls -d .muxd-* off 2>/dev/null)\""), 0);
	}
}

/* Archives of every kind, changed at random: whatever they are, nothing outside is touched. */
static void trees_of_strangers_stay_inside(void **state)
{
	static const char *const names[] = {"absolute", "dotdot", "gnu",   "hardout", "out",
					    "pax",      "setuid", "ustar", "device"};
	static const char *const kinds[] = {"{\"op\":\"tree_put\",\"path\":\"of\",\"overwrite\":true}",
					    "{\"op\":\"tree_put\",\"path\":\".\",\"merge\":true}",
					    "{\"op\":\"changes\",\"path\":\".\"}"};
	static uint8_t archive[32768];
	char before[65], after[65], path[128];
	unsigned seed = seed_of_run();

	(void)state;
	hash_outside(before);
	for (int i = 0; i < times(24); i++) {
		size_t n, changes = (size_t)rand_r(&seed) % 4;

		snprintf(path, sizeof(path), "tests/fuzz/corpus/tar/%s",
			 names[(size_t)rand_r(&seed) % (sizeof(names) / sizeof(names[0]))]);
		n = read_file(path, archive, sizeof(archive));
		for (size_t k = 0; k < changes; k++)
			archive[(size_t)rand_r(&seed) % n] = (uint8_t)("./0\0\xff"
								       "5721"[rand_r(&seed) % 9]);
		for (size_t at = 0; at + 512 <= n; at += 512) { /* a right checksum, so that it is looked at */
			unsigned sum = 0;

			if (memcmp(archive + at + 257, "ustar", 5) != 0 || rand_r(&seed) % 8 == 0)
				continue;
			memset(archive + at + 148, ' ', 8);
			for (size_t k = 0; k < 512; k++)
				sum += archive[at + k];
			snprintf((char *)archive + at + 148, 7, "%06o", sum);
		}
		(void)put(kinds[i % 3], archive, n);
		assert_nothing_secret();
	}
	hash_outside(after);
	assert_string_equal(before, after);
}

/* A program that changes a directory into a link to outside and back, all the time. */
static pid_t swap_for_ever(void)
{
	char real[512], link[512], place[512];
	pid_t pid;

	strcpy(real, inside("swap.dir"));
	strcpy(link, inside("swap.link"));
	strcpy(place, inside("swap"));
	assert_int_equal(mkdir(real, 0755) | mkdir(place, 0755) | symlink(outside("canary"), link), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)renameat2(AT_FDCWD, place, AT_FDCWD, link, RENAME_EXCHANGE);
	}
	return pid;
}

static void a_race_of_links_is_lost_by_nobody(void **state)
{
	static const char *const names[] = {"swap/file", "swap/sub", "swap/sub/file", "swap", "swap/new/file"};
	char before[65], after[65];
	pid_t pid;

	(void)state;
	hash_outside(before);
	pid = swap_for_ever();
	for (size_t i = 0; i < (size_t)times(90); i++) {
		own_again();
		(void)op_on(i % OPS_OF_A_PATH, names[i % (sizeof(names) / sizeof(names[0]))]);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	hash_outside(after);
	assert_string_equal(before, after);
}

/* ---- watches */

struct watcher {
	pid_t pid;
	int out;
	size_t n; /* of said: what it said since the last wait */
};

static void watch_hears(struct watcher *w, const char *text)
{
	struct pollfd p = {.fd = w->out, .events = POLLIN};

	while (!strstr(said, text)) {
		ssize_t n;

		if (poll(&p, 1, 20000) != 1)
			fail_msg("%s was not told, but: %.2000s", text, said);
		n = read(w->out, said + w->n, sizeof(said) - w->n - 1);
		if (n <= 0)
			fail_msg("%s was not told before the end, but: %.2000s", text, said);
		said[w->n += (size_t)n] = '\0';
	}
}

static void watch_forget(struct watcher *w)
{
	w->n = 0;
	said[0] = '\0';
}

static void watch_begin(struct watcher *w)
{
	int in;

	watch_forget(w);
	w->pid = start("{\"op\":\"watch\",\"path\":\"seen\",\"recursive\":true}", &in, &w->out);
	close(in);
	watch_hears(w, "\"ready\"");
}

static void watch_end(struct watcher *w)
{
	assert_int_equal(kill(w->pid, SIGTERM), 0);
	close(w->out);
	assert_int_equal(waitpid(w->pid, NULL, 0), w->pid);
	assert_int_equal(system("rm -r \"$FS_ROOT\"/seen"), 0);
}

/* Two directories that change places: what is made in them later is told, by the names that they have. */
static void a_watch_sees_through_an_exchange(void **state)
{
	struct watcher w;

	(void)state;
	assert_int_equal(system("cd \"$FS_ROOT\" && mkdir -p seen/p/q seen/r/s"), 0);
	watch_begin(&w);
	for (int i = 0; i < 3; i++) {
		watch_forget(&w);
		assert_int_equal(renameat2(AT_FDCWD, inside("seen/p"), AT_FDCWD, inside("seen/r"), RENAME_EXCHANGE), 0);
		make(inside("seen/z"), ""); /* the last of what it has to read */
		watch_hears(&w, "\"seen/z\"");
		watch_forget(&w);
		make(inside(i % 2 ? "seen/p/q/f1" : "seen/p/s/f1"), "");
		watch_hears(&w, i % 2 ? "seen/p/q/f1" : "seen/p/s/f1");
		make(inside("seen/r/f2"), "");
		watch_hears(&w, "seen/r/f2");
		assert_int_equal(unlink(inside("seen/z")), 0);
	}
	watch_end(&w);
}

/* A tree that is deeper than a watch goes: said before it is ready. */
static void a_watch_says_where_it_is_blind(void **state)
{
	struct watcher w;

	(void)state;
	assert_int_equal(
	    system("cd \"$FS_ROOT\" && mkdir seen && cd seen && python3 -c \"import os\nfor n in range(300):\n"
		   " os.mkdir('d'); os.chdir('d')\""),
	    0);
	watch_begin(&w);
	assert_non_null(strstr(said, "\"unwatched\",\"path\":\"seen\""));
	watch_end(&w);
}

/* Stopped, and more comes than the kernel keeps. False: that would be a million. */
static bool watch_floods(struct watcher *w)
{
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
	unsigned most = 0;
	int status;

	assert_int_equal(fscanf(f, "%u", &most), 1);
	fclose(f);
	if (most > 200000)
		return false;
	make(inside("seen/a"), "");
	assert_int_equal(kill(w->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(w->pid, &status, WUNTRACED), w->pid); /* until then it takes events out */
	assert_true(WIFSTOPPED(status));
	for (unsigned i = 0; i < most / 2 + 10; i++)
		assert_int_equal(rename(inside(i % 2 ? "seen/b" : "seen/a"), inside(i % 2 ? "seen/a" : "seen/b")), 0);
	return true;
}

/* A directory that came meanwhile is told, and watched by the name it has. */
static void a_watch_goes_on_behind_an_overflow(void **state)
{
	struct watcher w;

	(void)state;
	assert_int_equal(system("cd \"$FS_ROOT\" && mkdir -p seen/w/y"), 0);
	watch_begin(&w);
	if (watch_floods(&w)) {
		assert_int_equal(system("cd \"$FS_ROOT\" && mkdir -p seen/late/dir && mv seen/w seen/ww"), 0);
		assert_int_equal(kill(w.pid, SIGCONT), 0);
		watch_hears(&w, "\"overflow\"");
		watch_hears(&w, "seen/ww/y\"");
		watch_forget(&w);
		make(inside("seen/late/dir/f"), "");
		watch_hears(&w, "seen/late/dir/f");
		make(inside("seen/ww/y/f"), "");
		watch_hears(&w, "seen/ww/y/f");
		assert_null(strstr(said, "seen/w/"));
	}
	watch_end(&w);
}

/* Where the directory itself went that is said, also when the event of it is lost. */
static void a_watch_that_lost_its_top_ends(void **state)
{
	struct watcher w;
	bool stopped;
	int status;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(system("cd \"$FS_ROOT\" && mkdir seen"), 0);
		watch_begin(&w);
		stopped = i && watch_floods(&w);
		assert_int_equal(system("cd \"$FS_ROOT\" && mv seen was && mkdir seen"), 0);
		if (stopped) /* no other one is sent it: its leak check waits for that stop */
			assert_int_equal(kill(w.pid, SIGCONT), 0);
		watch_hears(&w, "\"gone\"");
		assert_int_equal(waitpid(w.pid, &status, 0), w.pid);
		assert_int_equal(status, 0);
		close(w.out);
		assert_int_equal(system("cd \"$FS_ROOT\" && rm -r was seen"), 0);
	}
}

static int setup(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	strcpy(dir, "/tmp/muxd-fs.XXXXXX");
	if (!realpath(BUILD_DIR "/muxlet", muxlet) || !mkdtemp(dir))
		return -1;
	snprintf(root, sizeof(root), "%s/root", dir);
	if (mkdir(root, 0755) || setenv("FS_ROOT", root, 1))
		return -1;
	make_canary();
	return 0;
}

static int teardown(void **state)
{
	char command[160];

	(void)state;
	json_decref(answer);
	snprintf(command, sizeof(command), "chmod -R u+w %s; rm -rf %s", dir, dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_the_request_has_to_be),
	    cmocka_unit_test(names_of_any_bytes),
	    cmocka_unit_test(pages_of_a_list),
	    cmocka_unit_test(parts_of_a_file),
	    cmocka_unit_test(what_is_not_whole_does_not_appear),
	    cmocka_unit_test(a_kill_leaves_one_or_the_other),
	    cmocka_unit_test(a_kill_leaves_an_append_whole_or_absent),
	    cmocka_unit_test(an_append_that_others_would_notice_is_in_place),
	    cmocka_unit_test(an_append_without_room_takes_back_its_own),
	    cmocka_unit_test(an_append_through_a_link),
	    cmocka_unit_test(one_of_many_changes_it),
	    cmocka_unit_test(if_match_of_what_has_no_digest),
	    cmocka_unit_test(links_are_names_of_their_own),
	    cmocka_unit_test(trees_are_copied_whole_or_not),
	    cmocka_unit_test(a_copy_that_is_told_to_end_leaves_nothing_half),
	    cmocka_unit_test(changes_are_told_with_their_digests),
	    cmocka_unit_test(a_patch_is_applied_whole_or_not),
	    cmocka_unit_test(a_patch_that_is_told_to_end_is_all_or_nothing),
	    cmocka_unit_test(a_killed_patch_leaves_whole_files),
	    cmocka_unit_test(what_a_search_finds),
	    cmocka_unit_test(ways_out_are_refused),
	    cmocka_unit_test(random_paths_stay_inside),
	    cmocka_unit_test(random_patches_stay_inside),
	    cmocka_unit_test(a_tree_comes_back_as_it_went),
	    cmocka_unit_test(deep_trees_lose_nothing),
	    cmocka_unit_test(closed_directories_are_told),
	    cmocka_unit_test(entries_that_come_twice),
	    cmocka_unit_test(names_of_directories_are_bounded),
	    cmocka_unit_test(a_tree_that_is_broken_off_leaves_nothing),
	    cmocka_unit_test(trees_of_strangers_stay_inside),
	    cmocka_unit_test(a_race_of_links_is_lost_by_nobody),
	    cmocka_unit_test(a_watch_sees_through_an_exchange),
	    cmocka_unit_test(a_watch_says_where_it_is_blind),
	    cmocka_unit_test(a_watch_goes_on_behind_an_overflow),
	    cmocka_unit_test(a_watch_that_lost_its_top_ends),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
