// tier: check
/* muxlet --survey, run as the sandbox runs it: what changed between two looks, told once, and never not at all. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "muxd/muxlet/manifest.c"
#include "muxd/muxlet/survey.h"

#define ANSWER_MAX (1024 * 1024)
#define SHA_OF_1   "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"

static char root[64], muxlet[4096];
static int manifest = -1;
static uint64_t number;
static json_t *answer; /* of the last look; NULL: it was none */

static int64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* A change less than this ago is told again by the next look. */
static void settle(void)
{
	struct timespec t = {0, 40000000};

	nanosleep(&t, NULL);
}

/* One look; its exit code. */
static int look_with(uint64_t have)
{
	static char text[ANSWER_MAX];
	char no[24], had[24];
	size_t n = 0;
	ssize_t got;
	int out[2], status;
	pid_t pid;

	snprintf(no, sizeof(no), "%llu", (unsigned long long)++number);
	snprintf(had, sizeof(had), "%llu", (unsigned long long)have);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		dup2(fcntl(manifest, F_DUPFD, 100), SURVEY_FD); /* without its close-on-exec, whatever its number */
		if (chdir(root) == 0)
			execl(muxlet, "muxlet", "--survey", no, "--have", had, NULL);
		_exit(111);
	}
	close(out[1]);
	while ((got = read(out[0], text + n, sizeof(text) - n)) > 0)
		n += (size_t)got;
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	json_decref(answer);
	answer = NULL;
	(void)json_parse(text, n, sizeof(text), &answer, NULL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void look(void)
{
	settle();
	assert_int_equal(look_with(number), 0);
	assert_non_null(answer);
}

static json_int_t number_of(const char *key)
{
	return json_integer_value(json_object_get(answer, key));
}

static size_t told(void)
{
	return json_array_size(json_object_get(answer, "entries"));
}

static const json_t *entry(const char *path)
{
	const json_t *e;
	size_t i;

	json_array_foreach(json_object_get(answer, "entries"), i,
			   e) if (strcmp(json_get_text(e, "path"), path) == 0) return e;
	return NULL;
}

static void assert_told(const char *how, const char *path)
{
	assert_non_null(entry(path));
	assert_string_equal(json_get_text(entry(path), "how"), how);
}

static const char *at(const char *name)
{
	static char path[4][1024];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", root, name);
	return p;
}

static void make(const char *name, const char *content)
{
	FILE *f = fopen(at(name), "w");

	assert_non_null(f);
	fputs(content, f);
	assert_int_equal(fclose(f), 0);
}

static int begin(void **state)
{
	(void)state;
	strcpy(root, "/tmp/muxlet-survey.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	number = 0;
	manifest = manifest_make(wall_ns());
	return manifest < 0;
}

static int end(void **state)
{
	char command[128];

	(void)state;
	close(manifest);
	json_decref(answer);
	answer = NULL;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void each_kind_of_change_is_told_once(void **state)
{
	(void)state;
	look();
	assert_true(json_is_true(json_object_get(answer, "baseline")));
	assert_int_equal(mkdir(at("d"), 0755), 0);
	make("d/one", "1");
	make("d.x", "1");
	assert_int_equal(symlink("/etc", at("out")), 0);
	look();
	assert_false(json_is_true(json_object_get(answer, "baseline")));
	assert_int_equal(number_of("created"), 4);
	assert_told("created", "d");
	assert_told("created", "d/one");
	assert_string_equal(json_get_text(entry("d/one"), "sha256"), SHA_OF_1);
	assert_string_equal(json_get_text(entry("out"), "target"), "/etc"); /* told, and not followed */
	assert_int_equal(number_of("files"), 4);
	look();
	assert_int_equal(told(), 0);
	make("d.x", "2");
	assert_int_equal(chmod(at("d"), 0700), 0);
	assert_int_equal(unlink(at("d/one")), 0);
	look();
	assert_int_equal(told(), 3);
	assert_told("changed", "d");
	assert_told("changed", "d.x");
	assert_told("deleted", "d/one");
	assert_int_equal(rmdir(at("d")), 0);
	make("d", "a file now");
	look();
	assert_told("changed", "d");
	assert_string_equal(json_get_text(entry("d"), "type"), "file");
}

static void the_same_size_and_mtime_hide_nothing(void **state)
{
	struct timespec times[2];
	struct stat st;

	(void)state;
	make("f", "1");
	look();
	assert_int_equal(stat(at("f"), &st), 0);
	make("f", "2");
	times[0] = st.st_atim, times[1] = st.st_mtim;
	assert_int_equal(utimensat(AT_FDCWD, at("f"), times, 0), 0);
	look();
	assert_told("changed", "f");
	make("g", "2");
	assert_int_equal(rename(at("g"), at("f")), 0); /* another file of that name */
	look();
	assert_told("changed", "f");
	assert_int_equal(told(), 1);
}

static void names_are_bytes(void **state)
{
	(void)state;
	look();
	make("a\nb", "1");
	make("\xff\xfe", "1");
	make(" ", "1");
	look();
	assert_told("created", "a\nb");
	assert_told("created", " ");
	assert_int_equal(number_of("created"), 3);
	assert_int_equal(unlink(at("\xff\xfe")), 0);
	look();
	assert_int_equal(told(), 1);
	assert_string_equal(
	    json_get_text(json_object_get(json_array_get(json_object_get(answer, "entries"), 0), "path"), "base64"),
	    "//4=");
}

/* The hub has no word of look 2: look 3 tells what it told. */
static void a_lost_answer_is_told_again(void **state)
{
	(void)state;
	look();
	make("f", "1");
	settle();
	assert_int_equal(look_with(1), 0);
	assert_told("created", "f");
	make("g", "1");
	settle();
	assert_int_equal(look_with(1), 0);
	assert_told("created", "f");
	assert_told("created", "g");
	settle();
	assert_int_equal(look_with(0), 0); /* a hub that knows nothing: against the older of the two that there are */
	assert_told("created", "f");
	assert_int_equal(look_with(number), 0);
	assert_int_equal(told(), 0);
}

/* Before the first look: by the time at which programs could begin. */
static void the_first_look_tells_what_was_changed_since_the_beginning(void **state)
{
	(void)state;
	close(manifest);
	make("before", "1");
	settle();
	manifest = manifest_make(wall_ns());
	make("since", "1");
	look();
	assert_true(json_is_true(json_object_get(answer, "baseline")));
	assert_int_equal(told(), 1);
	assert_non_null(entry("since"));
	look();
	assert_int_equal(told(), 0);
}

static void past_its_bounds_the_rest_is_counted(void **state)
{
	char name[40];

	(void)state;
	look();
	for (int i = 0; i < SURVEY_NAMES + 234; i++) {
		snprintf(name, sizeof(name), "many.%d", i);
		make(name, "");
	}
	assert_int_equal(truncate(at("many.0"), (off_t)300 * 1024 * 1024), 0); /* over the budget of digests */
	look();
	assert_int_equal(number_of("created"), SURVEY_NAMES + 234);
	assert_int_equal(told(), SURVEY_NAMES);
	assert_int_equal(number_of("left_out"), 234);
	assert_int_equal(number_of("unhashed"), 1);
	look();
	assert_int_equal(told(), 0);
}

/* A directory that nobody can look into is not told to be gone. */
static void what_cannot_be_read_is_not_told_to_be_gone(void **state)
{
	char path[2048] = "";

	(void)state;
	for (int i = 0; i < 255; i++) {
		strcat(path, i ? "/d" : "d");
		assert_int_equal(mkdir(at(path), 0755), 0);
	}
	strcat(path, "/f");
	make(path, "1");
	look();
	assert_int_equal(number_of("unreadable"), 0);
	assert_int_equal(rename(at("d"), at("e")), 0);
	assert_int_equal(mkdir(at("d"), 0755), 0);
	assert_int_equal(rename(at("e"), at("d/d")), 0); /* one deeper: its end is out of reach */
	look();
	assert_int_equal(number_of("unreadable"), 1);
	look();
	assert_int_equal(told(), 0);
	assert_int_equal(number_of("unreadable"), 1);
}

static void what_is_no_manifest_ends_the_look_and_no_more(void **state)
{
	uint8_t junk[64];

	(void)state;
	make("f", "1");
	look();
	memset(junk, 0xee, sizeof(junk));
	assert_int_equal(pwrite(manifest, junk, sizeof(junk), 4096), sizeof(junk)); /* the first entry of look 1 */
	assert_int_equal(look_with(1), EBADMSG);
	assert_int_equal(ftruncate(manifest, 0), 0);
	assert_int_equal(look_with(1), EBADMSG);
}

/* The wall clock was set back: what was changed before that is told once, not behind each round for an hour. */
static void what_lies_ahead_of_the_clock_is_sure(void **state)
{
	const int64_t now = wall_ns(), s = INT64_C(1000000000);

	(void)state;
	assert_true(manifest_unsure(now, now));
	assert_true(manifest_unsure(now - s / 100, now));
	assert_false(manifest_unsure(now - s, now));
	assert_false(manifest_unsure(now + s, now));
	assert_false(manifest_unsure(now + 3600 * s, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(each_kind_of_change_is_told_once, begin, end),
	    cmocka_unit_test_setup_teardown(the_same_size_and_mtime_hide_nothing, begin, end),
	    cmocka_unit_test_setup_teardown(names_are_bytes, begin, end),
	    cmocka_unit_test_setup_teardown(a_lost_answer_is_told_again, begin, end),
	    cmocka_unit_test_setup_teardown(the_first_look_tells_what_was_changed_since_the_beginning, begin, end),
	    cmocka_unit_test_setup_teardown(past_its_bounds_the_rest_is_counted, begin, end),
	    cmocka_unit_test_setup_teardown(what_cannot_be_read_is_not_told_to_be_gone, begin, end),
	    cmocka_unit_test(what_lies_ahead_of_the_clock_is_sure),
	    cmocka_unit_test_setup_teardown(what_is_no_manifest_ends_the_look_and_no_more, begin, end),
	};

	if (!realpath(BUILD_DIR "/muxlet", muxlet))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
