// tier: check
/* Keyframes of a recording: what was put in is found again by its moment; what is damaged is said to be. */
#include "recorder/draw/keyframes.h"

#include "base/err.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define N 5

struct world {
	char dir[64], recording[128], path[FILE_PATH_MAX];
	struct id session;
	uint8_t leaf[DIGEST_LEN];
	struct keyframes_digest digest;
};

static void frame(unsigned i, struct keyframe *k, char data[32])
{
	int n = snprintf(data, 32, "screen %u", i);

	*k = (struct keyframe){
	    .ns = 1000 * (i + 1), .seq = 10 * i, .offset = 7 * i, .cols = 80, .rows = 24, .len = (uint32_t)n};
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct keyframes_writer f;
	struct err e = {0};
	struct keyframe k;
	char data[32];

	snprintf(w->dir, sizeof(w->dir), "/tmp/muxd-keyframes.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->recording, sizeof(w->recording), "%s/x.mrec", w->dir);
	close(open(w->recording, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(keyframes_path(w->recording, w->path, &e), 0);
	assert_int_equal(id_new(&w->session), 0);
	assert_int_equal(keyframes_begin(&f, w->recording, &w->session, w->leaf, &e), 0);
	for (unsigned i = 0; i < N; i++) {
		frame(i, &k, data);
		assert_int_equal(keyframes_add(&f, &k, (uint8_t *)data, &e), 0);
	}
	assert_int_not_equal(access(w->path, F_OK), 0); /* it has no name before it is whole */
	assert_int_equal(keyframes_end(&f, &w->digest, &e), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	(void)unlink(w->path);
	(void)unlink(w->recording);
	(void)rmdir(w->dir);
	free(w);
	return 0;
}

/* The number of the frame that is found; -1: none so early; else the error. */
static int find(struct world *w, uint64_t ns)
{
	struct keyframe k, want;
	struct err e = {0};
	struct buf data;
	char text[32];
	int rc, i = -1;

	buf_init(&data, KEYFRAME_DATA_MAX);
	rc = keyframes_find(w->recording, &w->session, w->digest.root, ns, &k, &data, &e);
	if (rc == 1) {
		i = (int)(k.ns / 1000) - 1;
		frame((unsigned)i, &want, text);
		assert_int_equal(k.seq, want.seq);
		assert_int_equal(k.offset, want.offset);
		assert_int_equal(k.cols, 80);
		assert_int_equal(buf_len(&data), want.len);
		assert_memory_equal(buf_ptr(&data), text, want.len);
	}
	buf_finish(&data);
	return rc < 0 ? rc : i;
}

static void test_the_last_one_before_a_moment(void **state)
{
	static const struct {
		uint64_t ns;
		int found;
	} cases[] = {{0, -1},   {999, -1}, {1000, 0}, {1001, 0},      {1999, 0},
		     {2000, 1}, {4999, 3}, {5000, 4}, {UINT64_MAX, 4}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(find(*state, cases[i].ns), cases[i].found);
}

static void test_no_file_and_another_session(void **state)
{
	struct world *w = *state;
	struct id own = w->session;

	assert_int_equal(id_new(&w->session), 0);
	assert_int_equal(find(w, 5000), ERR_CORRUPT);
	w->session = own;
	assert_int_equal(unlink(w->path), 0);
	assert_int_equal(find(w, 5000), ERR_NOT_FOUND);
}

/* Every bit and every length: never more than an error, and never a screen that was not put in (find() compares). */
static void test_damage(void **state)
{
	struct world *w = *state;
	uint8_t whole[4096];
	int fd = open(w->path, O_RDWR | O_CLOEXEC);
	ssize_t n = read(fd, whole, sizeof(whole));

	assert_true(n > 100);
	for (ssize_t i = 0; i < n * 8; i++) {
		uint8_t c = whole[i / 8] ^ (uint8_t)(1 << i % 8);

		assert_int_equal(pwrite(fd, &c, 1, i / 8), 1);
		int rc = find(w, UINT64_MAX);
		assert_true(rc == ERR_CORRUPT || (rc >= 0 && rc < N));
		assert_int_equal(pwrite(fd, &whole[i / 8], 1, i / 8), 1);
	}
	for (ssize_t i = n - 1; i >= 0; i--) {
		assert_int_equal(ftruncate(fd, i), 0);
		int rc = find(w, UINT64_MAX);
		assert_int_equal(rc, ERR_CORRUPT);
	}
	close(fd);
}

static void rename_file(const struct world *from, const struct world *to)
{
	assert_int_equal(rename(from->path, to->path), 0);
}

/* All checksums right, and other screens: as somebody who can run the same code writes it. */
static void test_a_forged_file_is_not_shown(void **state)
{
	struct world *w = *state, other = *w;
	struct keyframes_writer f;
	struct keyframe k;
	struct err e = {0};
	char data[32];

	assert_int_equal(keyframes_begin(&f, w->recording, &w->session, w->leaf, &e), 0);
	for (unsigned i = 0; i < N; i++) {
		frame(i, &k, data);
		data[0] = 'S';
		assert_int_equal(keyframes_add(&f, &k, (uint8_t *)data, &e), 0);
	}
	assert_int_equal(keyframes_end(&f, &other.digest, &e), 0);
	assert_memory_not_equal(other.digest.root, w->digest.root, DIGEST_LEN);
	for (unsigned i = 0; i <= N; i++)
		assert_int_equal(find(w, 1000 * i), ERR_CORRUPT);
	/* The same screens of another recording: its leaf is another. */
	snprintf(other.recording, sizeof(other.recording), "%s/y.mrec", w->dir);
	close(open(other.recording, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(keyframes_path(other.recording, other.path, &e), 0);
	other.leaf[3] = 7;
	assert_int_equal(keyframes_begin(&f, other.recording, &other.session, other.leaf, &e), 0);
	for (unsigned i = 0; i < N; i++) {
		frame(i, &k, data);
		assert_int_equal(keyframes_add(&f, &k, (uint8_t *)data, &e), 0);
	}
	assert_int_equal(keyframes_end(&f, &other.digest, &e), 0);
	assert_int_equal(find(&other, 5000), N - 1);
	rename_file(&other, w);
	assert_int_equal(find(w, 5000), ERR_CORRUPT);
	assert_int_equal(unlink(other.recording), 0);
	/* Nothing but a file is waited for. */
	assert_int_equal(unlink(w->path), 0);
	assert_int_equal(mkfifo(w->path, 0600), 0);
	assert_int_equal(find(w, 5000), ERR_CORRUPT);
}

static void test_one_that_is_not_ended_leaves_nothing(void **state)
{
	struct world *w = *state;
	struct keyframes_writer f;
	struct err e = {0};

	assert_int_equal(unlink(w->path), 0);
	assert_int_equal(keyframes_begin(&f, w->recording, &w->session, w->leaf, &e), 0);
	keyframes_abandon(&f);
	keyframes_abandon(&f);
	assert_int_equal(find(w, 0), ERR_NOT_FOUND);
	assert_int_equal(unlink(w->recording), 0);
	assert_int_equal(rmdir(w->dir), 0);
	assert_int_equal(keyframes_begin(&f, "x", &w->session, w->leaf, &e), ERR_INVAL);
}

/* One after the other, as they were put in; nothing behind the last, and nothing at all of a file with another root. */
static void they_are_read_one_after_the_other(void **state)
{
	struct world *w = *state;
	uint8_t other[DIGEST_LEN] = {1};
	struct keyframes_reader r;
	struct keyframe k, want;
	char data[32];
	struct buf text;

	buf_init(&text, KEYFRAME_DATA_MAX);
	assert_int_equal(keyframes_open(&r, w->recording, &w->session, w->digest.root, NULL), 0);
	assert_int_equal(r.n, N);
	for (unsigned i = 0; i < N; i++) {
		frame(i, &want, data);
		buf_clear(&text);
		assert_int_equal(keyframes_get(&r, i, &k, &text, NULL), 1);
		assert_memory_equal(&k, &want, sizeof(k));
		assert_int_equal(buf_len(&text), want.len);
		assert_memory_equal(buf_ptr(&text), data, want.len);
	}
	assert_int_equal(keyframes_get(&r, N, &k, &text, NULL), 0);
	keyframes_close(&r);
	keyframes_close(&r);
	assert_int_equal(keyframes_open(&r, w->recording, &w->session, other, NULL), ERR_CORRUPT);
	assert_int_equal(keyframes_open(&r, "/nowhere/x.mrec", &w->session, other, NULL), ERR_NOT_FOUND);
	buf_finish(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_the_last_one_before_a_moment, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_no_file_and_another_session, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_forged_file_is_not_shown, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
	    cmocka_unit_test_setup_teardown(they_are_read_one_after_the_other, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_one_that_is_not_ended_leaves_nothing, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
