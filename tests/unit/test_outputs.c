// tier: check
/* The whole output of rounds: every byte at every offset, over kills at any moment; and what goes past a limit. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/ring.h"
#include "recorder/output/outputs.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB             ((size_t)1024)
#define MIB             (1024 * KIB)
#define OUTPUTS_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)

static const struct outputs_limits plenty = {
    .age_ns = 3600 * NS_PER_SEC, .count = 1000, .agent = 1024 * MIB, .stream = 256 * MIB, .total = 1024 * MIB};

struct place {
	char dir[64];
	int fd;
	struct outputs *o;
	struct id held;
};

static void begin(struct place *p, const struct outputs_limits *l);

static int place_make(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	snprintf(p->dir, sizeof(p->dir), "/tmp/test-outputs-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	begin(p, &plenty);
	*state = p;
	return 0;
}

static int place_remove(void **state)
{
	struct place *p = *state;
	char command[128];

	outputs_destroy(p->o);
	close(p->fd);
	snprintf(command, sizeof(command), "rm -rf %s", p->dir);
	assert_int_equal(system(command), 0);
	free(p);
	return 0;
}

static bool held(void *arg, const struct chunk_of *of, int64_t ended_ns)
{
	const struct place *p = arg;

	(void)ended_ns;
	return id_equal(&p->held, &of->round);
}

/* Another process: what was not written is gone. */
static void begin(struct place *p, const struct outputs_limits *l)
{
	struct err e = {0};

	outputs_destroy(p->o);
	assert_int_equal(outputs_create(p->fd, l, held, p, &p->o), 0);
	if (outputs_load(p->o, &e))
		fail_msg("%s", e.message);
}

static struct chunk_of round_of(unsigned n, const char *agent, int64_t opened_s)
{
	struct chunk_of of = {.opened_ns = opened_s * (int64_t)NS_PER_SEC};

	of.round.b[0] = 1;
	of.round.b[15] = (uint8_t)n;
	of.round.b[14] = (uint8_t)(n >> 8);
	snprintf(of.agent, sizeof(of.agent), "%s", agent);
	snprintf(of.principal, sizeof(of.principal), "build-bot");
	return of;
}

static void open_round(struct place *p, const struct chunk_of *of)
{
	struct err e = {0};

	assert_int_equal(outputs_open(p->o, of, &e), 0);
}

static void feed(struct place *p, const struct chunk_of *of, unsigned stream, uint64_t offset, const void *bytes,
		 size_t n)
{
	struct err e = {0};

	assert_int_equal(outputs_data(p->o, &of->round, stream, offset, bytes, n, &e), 0);
}

/* Like a build's output: compresses somewhat, and no two places are alike. */
static uint8_t *text_of(size_t n)
{
	uint8_t *p = malloc(n + 64);
	size_t at = 0;

	assert_non_null(p);
	for (unsigned i = 0; at < n; i++)
		at += (size_t)snprintf((char *)p + at, 64, "line %u of the build: %u warnings\n", i, i * 7919 % 1000);
	return p;
}

static size_t read_at(struct place *p, struct outputs_reader *r, const struct chunk_of *of, unsigned stream,
		      uint64_t offset, size_t most, struct buf *to, struct outputs_read *at)
{
	struct err e = {0};

	buf_clear(to);
	if (outputs_read(p->o, r, &of->round, stream, offset, to, most, at, &e))
		fail_msg("%s", e.message);
	return buf_len(to);
}

/* From the beginning to the end, in pages of some size. */
static void assert_whole(struct place *p, const struct chunk_of *of, unsigned stream, const uint8_t *want, size_t n,
			 size_t page)
{
	struct outputs_reader r = {0};
	struct outputs_read at;
	struct buf b;
	size_t got, done = 0;

	buf_init(&b, page);
	while ((got = read_at(p, &r, of, stream, done, page, &b, &at)) > 0) {
		assert_int_equal(at.offset, done);
		assert_true(done + got <= n);
		assert_memory_equal(buf_ptr(&b), want + done, got);
		done += got;
	}
	assert_int_equal(done, n);
	assert_int_equal(at.total, n);
	buf_finish(&b);
	outputs_reader_finish(&r);
}

static void any_offset_is_found_while_it_runs_and_behind_its_end(void **state)
{
	struct place *p = *state;
	struct chunk_of of = round_of(1, "demo", 10);
	size_t n = 20 * MIB + 4711;
	uint8_t *text = text_of(n);
	struct outputs_reader r = {0};
	struct outputs_read at;
	struct buf b;

	buf_init(&b, MIB);
	open_round(p, &of);
	for (size_t i = 0; i < n; i += 60000)
		feed(p, &of, STREAM_OUTPUT, i, text + i, n - i < 60000 ? n - i : 60000);
	feed(p, &of, STREAM_STDERR, 0, "warning\n", 8);
	for (int twice = 0; twice < 2; twice++) {
		assert_whole(p, &of, STREAM_OUTPUT, text, n, MIB);
		assert_whole(p, &of, STREAM_OUTPUT, text, n, 77777);
		assert_whole(p, &of, STREAM_STDERR, (const uint8_t *)"warning\n", 8, MIB);
		for (uint64_t i = n - 1; i > 100000; i -= 99991) { /* backwards */
			assert_true(read_at(p, &r, &of, STREAM_OUTPUT, i, 1000, &b, &at) > 0);
			assert_memory_equal(buf_ptr(&b), text + i, buf_len(&b));
			assert_int_equal(at.ended, twice);
		}
		outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
	}
	assert_int_equal(read_at(p, &r, &of, STREAM_OUTPUT, n + 5, 1000, &b, &at), 0);
	buf_finish(&b);
	outputs_reader_finish(&r);
	free(text);
}

/* The log is read again from the last place that was stored, or from the begin. */
static void feed_all(struct place *p, const struct chunk_of *of, const uint8_t *text, size_t n, size_t until)
{
	for (size_t i = 0; i < n && i < until; i += 5000) {
		feed(p, of, STREAM_OUTPUT, i, text + i, n - i < 5000 ? n - i : 5000);
		feed(p, of, STREAM_STDERR, i / 10, text + i / 10, (n - i < 5000 ? n - i : 5000) / 10);
	}
}

static void a_kill_at_any_record_loses_and_doubles_nothing(void **state)
{
	struct place *p = *state;
	size_t n = MIB, tenth = n / 10 / 500 * 500;
	uint8_t *text = text_of(n);
	struct err e = {0};

	for (size_t kill = 0; kill <= n; kill += 5000 * 7) {
		struct chunk_of of = round_of((unsigned)(kill / 5000) + 1, "demo", 10);

		open_round(p, &of);
		feed_all(p, &of, text, n, kill + 5000 * 7 > n ? n : kill);
		if (kill % 2)
			assert_int_equal(outputs_checkpoint(p->o, &e), 0);
		if (kill + 5000 * 7 > n)
			outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
		begin(p, &plenty);
		open_round(p, &of);
		feed_all(p, &of, text, n, n);
		assert_whole(p, &of, STREAM_OUTPUT, text, n, MIB);
		outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
		begin(p, &plenty);
		assert_whole(p, &of, STREAM_OUTPUT, text, n, MIB);
		assert_whole(p, &of, STREAM_STDERR, text, tenth + (n % 5000) / 10, 999);
	}
	free(text);
}

static void a_file_torn_at_any_byte_is_mended(void **state)
{
	struct place *p = *state;
	size_t n = 3000;
	uint8_t *text = text_of(n);
	char path[256], name[CHUNK_NAME_MAX];
	struct chunk_of of = round_of(1, "demo", 10);
	struct stat st;
	struct err e = {0};

	open_round(p, &of);
	feed(p, &of, STREAM_OUTPUT, 0, text, 1000);
	assert_int_equal(outputs_checkpoint(p->o, &e), 0);
	feed(p, &of, STREAM_OUTPUT, 1000, text + 1000, 2000);
	outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
	chunk_name(&of.round, STREAM_OUTPUT, 0, name);
	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	assert_int_equal(stat(path, &st), 0);
	for (off_t size = st.st_size - 1; size >= 0; size--) {
		assert_int_equal(truncate(path, size), 0);
		begin(p, &plenty);
		open_round(p, &of);
		feed(p, &of, STREAM_OUTPUT, 0, text, n);
		outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
		assert_whole(p, &of, STREAM_OUTPUT, text, n, MIB);
	}
	free(text);
}

/* A power cut may leave zeros where the last block should be. */
static void bytes_that_never_came_to_the_disk_are_read_from_the_log_again(void **state)
{
	struct place *p = *state;
	size_t n = 5000;
	uint8_t *text = text_of(n), zeros[64] = {0};
	char path[256], name[CHUNK_NAME_MAX];
	struct chunk_of of = round_of(1, "demo", 10);
	int fd;

	open_round(p, &of);
	feed(p, &of, STREAM_OUTPUT, 0, text, n);
	outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
	chunk_name(&of.round, STREAM_OUTPUT, 0, name);
	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, zeros, sizeof(zeros), CHUNK_HEADER + CHUNK_BLOCK + 10), sizeof(zeros));
	close(fd);
	begin(p, &plenty);
	open_round(p, &of);
	feed(p, &of, STREAM_OUTPUT, 0, text, n);
	assert_whole(p, &of, STREAM_OUTPUT, text, n, MIB);
	free(text);
}

static void past_its_cap_the_oldest_middle_goes_and_is_named(void **state)
{
	struct place *p = *state;
	struct outputs_limits small = plenty;
	struct chunk_of of = round_of(1, "demo", 10);
	size_t n = 40 * MIB;
	uint8_t *text = malloc(n);
	struct outputs_range missing[4];
	struct outputs_reader r = {0};
	struct outputs_read at;
	struct buf b;
	size_t n_missing = 0;

	assert_non_null(text);
	srandom(7);
	for (size_t i = 0; i < n; i++) /* does not compress */
		text[i] = (uint8_t)random();
	small.stream = 4 * MIB;
	begin(p, &small);
	open_round(p, &of);
	for (size_t i = 0; i < n; i += MIB)
		feed(p, &of, STREAM_OUTPUT, i, text + i, MIB);
	outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
	buf_init(&b, n);
	for (int twice = 0; twice < 2; twice++) {
		assert_int_equal(outputs_missing(p->o, &of.round, STREAM_OUTPUT, missing, 4, &n_missing, &at), 0);
		assert_int_equal(n_missing, 1);
		assert_int_equal(at.total, n);
		assert_in_range(missing[0].from, 512 * KIB, MIB);
		assert_in_range(n - missing[0].until, 3 * MIB - 512 * KIB, 4 * MIB);
		/* up to the hole, then on behind it */
		assert_int_equal(read_at(p, &r, &of, STREAM_OUTPUT, 0, n, &b, &at), missing[0].from);
		assert_memory_equal(buf_ptr(&b), text, missing[0].from);
		assert_int_equal(read_at(p, &r, &of, STREAM_OUTPUT, missing[0].from, n, &b, &at), n - missing[0].until);
		assert_int_equal(at.offset, missing[0].until);
		assert_memory_equal(buf_ptr(&b), text + missing[0].until, buf_len(&b));
		begin(p, &small);
	}
	buf_finish(&b);
	outputs_reader_finish(&r);
	free(text);
}

static void a_hole_in_the_journal_is_a_hole_here(void **state)
{
	struct place *p = *state;
	struct chunk_of of = round_of(1, "demo", 10);
	struct outputs_range missing[4];
	struct outputs_read at;
	size_t n = 0;

	open_round(p, &of);
	feed(p, &of, STREAM_OUTPUT, 0, "abc", 3);
	feed(p, &of, STREAM_OUTPUT, 10, "xyz", 3);
	for (int twice = 0; twice < 2; twice++) {
		assert_int_equal(outputs_missing(p->o, &of.round, STREAM_OUTPUT, missing, 4, &n, &at), 0);
		assert_int_equal(n, 1);
		assert_int_equal(missing[0].from, 3);
		assert_int_equal(missing[0].until, 10);
		assert_int_equal(at.total, 13);
		outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
		begin(p, &plenty);
	}
}

static bool is_there(struct place *p, const struct chunk_of *of)
{
	struct outputs_range missing[1];
	struct outputs_read at;
	size_t n;

	return outputs_missing(p->o, &of->round, STREAM_OUTPUT, missing, 1, &n, &at) == 0;
}

static void age_count_and_bytes_take_the_oldest_that_has_ended(void **state)
{
	struct place *p = *state;
	struct outputs_limits l = plenty;
	struct chunk_of of[6];
	struct outputs_status st;

	for (unsigned i = 0; i < 6; i++) {
		of[i] = round_of(i + 1, i < 5 ? "demo" : "other", 10 + i);
		open_round(p, &of[i]);
		feed(p, &of[i], STREAM_OUTPUT, 0, "x\n", 2);
		if (i != 0) /* the first one runs on */
			outputs_end(p->o, &of[i].round, (100 + i) * (int64_t)NS_PER_SEC, NULL);
	}
	l.count = 3;
	p->held = of[1].round;
	outputs_configure(p->o, &l);
	outputs_sweep(p->o, 110 * (int64_t)NS_PER_SEC, true);
	assert_true(is_there(p, &of[0]) && is_there(p, &of[1]) && !is_there(p, &of[2]) && !is_there(p, &of[3]));
	assert_true(is_there(p, &of[4]) && is_there(p, &of[5]));
	memset(&p->held, 0, sizeof(p->held));
	l.age_ns = 60 * NS_PER_SEC;
	outputs_configure(p->o, &l);
	outputs_sweep(p->o, 1000000 * (int64_t)NS_PER_SEC, false); /* a clock that is not believed */
	assert_true(is_there(p, &of[1]) && is_there(p, &of[4]));
	outputs_sweep(p->o, 162 * (int64_t)NS_PER_SEC, true);
	assert_true(!is_there(p, &of[1]) && is_there(p, &of[4]));
	l.agent = 1;
	outputs_configure(p->o, &l);
	outputs_sweep(p->o, 162 * (int64_t)NS_PER_SEC, true);
	assert_true(is_there(p, &of[0]) && !is_there(p, &of[4]) && !is_there(p, &of[5]));
	outputs_end(p->o, &of[0].round, 163 * (int64_t)NS_PER_SEC, NULL);
	outputs_sweep(p->o, 164 * (int64_t)NS_PER_SEC, true);
	outputs_status(p->o, &st);
	assert_int_equal(st.rounds, 0);
	assert_int_equal(st.bytes, 0);
	assert_int_equal(st.pending, 0);
	begin(p, &plenty);
	assert_false(is_there(p, &of[5]));
}

/* By limits that are no ages it goes at any time, and with rounds.output_keep: 0. */
static void what_goes_while_the_clock_is_not_believed(void **state)
{
	static const struct {
		uint64_t age_ns;
		uint32_t count;
		bool there;
	} rows[] = {{60 * NS_PER_SEC, 1000, true}, {60 * NS_PER_SEC, 0, false}, {0, 1000, false}};
	struct place *p = *state;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct outputs_limits l = plenty;
		struct chunk_of of = round_of(i + 1, "demo", 10);

		open_round(p, &of);
		feed(p, &of, STREAM_OUTPUT, 0, "x\n", 2);
		outputs_end(p->o, &of.round, 100 * (int64_t)NS_PER_SEC, NULL);
		l.age_ns = rows[i].age_ns;
		l.count = rows[i].count;
		outputs_configure(p->o, &l);
		outputs_sweep(p->o, 1000000 * (int64_t)NS_PER_SEC, false);
		assert_int_equal(is_there(p, &of), rows[i].there);
	}
}

static void a_disk_that_takes_nothing_leaves_a_hole_and_stops_nothing(void **state)
{
	struct place *p = *state;
	struct chunk_of of = round_of(1, "demo", 10);
	struct rlimit was, none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
	struct outputs_range missing[4];
	struct outputs_read at;
	struct outputs_status st;
	size_t n = 0;
	struct err e = {0};

	open_round(p, &of);
	feed(p, &of, STREAM_OUTPUT, 0, "abc", 3);
	assert_int_equal(outputs_checkpoint(p->o, &e), 0);
	feed(p, &of, STREAM_OUTPUT, 3, "def", 3);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(outputs_checkpoint(p->o, &e), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	feed(p, &of, STREAM_OUTPUT, 6, "ghi", 3);
	outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
	outputs_status(p->o, &st);
	assert_int_equal(st.lost, 3);
	assert_int_equal(outputs_missing(p->o, &of.round, STREAM_OUTPUT, missing, 4, &n, &at), 0);
	assert_int_equal(n, 1);
	assert_int_equal(missing[0].from, 3);
	assert_int_equal(missing[0].until, 6);
}

static void disk_takes(bool takes)
{
	struct rlimit l;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
	l.rlim_cur = takes ? l.rlim_max : 0;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static bool has_ended(struct place *p, const struct chunk_of *of, unsigned stream, uint64_t *out_total)
{
	struct outputs_range missing[1];
	struct outputs_read at = {0};
	size_t n;

	assert_int_equal(outputs_missing(p->o, &of->round, stream, missing, 1, &n, &at), 0);
	*out_total = at.total;
	return at.ended;
}

/* The place in the log waits for it, so that a start finds it there again; and it goes by its age at any rate. */
static void an_end_that_no_disk_took_is_written_later(void **state)
{
	struct place *p = *state;
	struct chunk_of of[2] = {round_of(1, "demo", 10), round_of(2, "demo", 10)};
	struct outputs_limits l = plenty;
	struct outputs_status st;
	uint64_t total = 0;
	struct err e = {0};

	for (int i = 0; i < 2; i++) {
		open_round(p, &of[i]);
		feed(p, &of[i], STREAM_OUTPUT, 0, "abc", 3);
		feed(p, &of[i], STREAM_STDERR, 0, "de", 2);
	}
	assert_int_equal(outputs_checkpoint(p->o, &e), 0);
	disk_takes(false);
	for (int i = 0; i < 2; i++)
		outputs_end(p->o, &of[i].round, (20 + i) * (int64_t)NS_PER_SEC, NULL);
	assert_true(outputs_checkpoint(p->o, &e) < 0);
	assert_true(has_ended(p, &of[0], STREAM_OUTPUT, &total));
	l.count = 1; /* also while it cannot be written */
	outputs_configure(p->o, &l);
	outputs_sweep(p->o, 30 * NS_PER_SEC, true);
	disk_takes(true);
	assert_int_equal(outputs_checkpoint(p->o, &e), 0);
	begin(p, &plenty);
	assert_false(is_there(p, &of[0]));
	assert_true(has_ended(p, &of[1], STREAM_OUTPUT, &total));
	l.age_ns = NS_PER_SEC;
	outputs_configure(p->o, &l);
	outputs_sweep(p->o, 30 * NS_PER_SEC, true);
	outputs_status(p->o, &st);
	assert_int_equal(st.rounds, 0);
}

static void remember_found(void *arg, const struct chunk_of *of, const struct outputs_found *found)
{
	struct outputs_found *out = arg;

	(void)of;
	*out = found ? *found : (struct outputs_found){.ended_ns = -1};
}

/* The files of one stream say what the round's end was, those of the other were cut at any byte, or are not there. */
static void an_end_that_one_stream_alone_has_is_none(void **state)
{
	struct place *p = *state;
	struct chunk_of of = round_of(1, "demo", 10);
	char path[256], name[CHUNK_NAME_MAX];
	struct outputs_found found;
	uint64_t total;
	struct stat st;
	struct err e = {0};

	for (int i = 0; i < 4; i++) {
		unsigned whole = i % 2 ? STREAM_STDERR : STREAM_OUTPUT, torn = i % 2 ? STREAM_OUTPUT : STREAM_STDERR;

		for (int k = 0; k < 2; k++) {
			open_round(p, &of);
			feed(p, &of, STREAM_OUTPUT, 0, "output\n", 7);
			feed(p, &of, STREAM_STDERR, 0, "error\n", 6);
			outputs_end(p->o, &of.round, 20 * NS_PER_SEC, NULL);
			assert_int_equal(outputs_checkpoint(p->o, &e), 0);
			if (k == 1)
				break;
			chunk_name(&of.round, torn, 0, name);
			snprintf(path, sizeof(path), "%s/%s", p->dir, name);
			assert_int_equal(stat(path, &st), 0);
			assert_int_equal(i / 2 ? unlink(path) : truncate(path, st.st_size - CHUNK_END_SIZE - 1), 0);
			begin(p, &plenty);
			memset(&found, 0, sizeof(found));
			outputs_unended(p->o, remember_found, &found);
			assert_int_equal(found.ended_ns, 20 * NS_PER_SEC);
			assert_int_equal(found.totals[1], 6);
			assert_false(has_ended(p, &of, whole, &total)); /* the log has both once more */
		}
		begin(p, &plenty);
		assert_true(has_ended(p, &of, whole, &total));
		assert_whole(p, &of, STREAM_OUTPUT, (const uint8_t *)"output\n", 7, 100);
		assert_whole(p, &of, STREAM_STDERR, (const uint8_t *)"error\n", 6, 100);
	}
}

/* An end that comes from the record says how many bytes there were. */
static void an_end_from_elsewhere_names_what_is_missing(void **state)
{
	struct place *p = *state;
	struct chunk_of of = round_of(1, "demo", 10);
	struct outputs_found found = {0};
	struct outputs_range missing[2];
	struct outputs_read at;
	size_t n = 0;
	struct err e = {0};

	open_round(p, &of);
	feed(p, &of, STREAM_OUTPUT, 0, "abc", 3);
	assert_int_equal(outputs_checkpoint(p->o, &e), 0);
	begin(p, &plenty);
	outputs_unended(p->o, remember_found, &found);
	assert_int_equal(found.ended_ns, -1);
	outputs_end(p->o, &of.round, 20 * NS_PER_SEC, (const uint64_t[]){10, 5});
	for (int twice = 0; twice < 2; twice++) {
		assert_int_equal(outputs_missing(p->o, &of.round, STREAM_OUTPUT, missing, 2, &n, &at), 0);
		assert_true(n == 1 && missing[0].from == 3 && missing[0].until == 10 && at.total == 10);
		assert_true(at.ended);
		if (twice)
			break;
		assert_int_equal(outputs_missing(p->o, &of.round, STREAM_STDERR, missing, 2, &n, &at), 0);
		assert_true(n == 1 && missing[0].from == 0 && missing[0].until == 5);
	}
}

/* One file that is not to be read, or to be removed: the others are kept. */
static void a_file_that_cannot_be_opened_is_passed_over(void **state)
{
	struct place *p = *state;
	struct chunk_of of[3];
	char path[256], name[CHUNK_NAME_MAX];
	uint64_t total;
	struct err e = {0};

	assert_int_equal(chmod(p->dir, 0777), 0);
	for (unsigned i = 0; i < 3; i++) {
		of[i] = round_of(i + 1, "demo", 10);
		if (i < 2) {
			open_round(p, &of[i]);
			feed(p, &of[i], STREAM_OUTPUT, 0, "abc", 3);
			outputs_end(p->o, &of[i].round, 20 * NS_PER_SEC, NULL);
		}
		assert_int_equal(outputs_checkpoint(p->o, &e), 0);
		chunk_name(&of[i].round, STREAM_OUTPUT, 0, name);
		snprintf(path, sizeof(path), "%s/%s", p->dir, name);
		assert_int_equal(i == 2 ? mkdir(path, 0700) : chmod(path, i ? 0 : 0666), 0);
	}
	(void)setfsuid(65534);
	begin(p, &plenty);
	(void)setfsuid(geteuid());
	assert_true(has_ended(p, &of[0], STREAM_OUTPUT, &total));
	assert_false(is_there(p, &of[1]));
}

static void memory_is_bounded_whatever_many_rounds_print(void **state)
{
	struct place *p = *state;
	uint8_t *text = text_of(200 * KIB);
	struct outputs_status st;

	for (unsigned i = 0; i < 600; i++) {
		struct chunk_of of = round_of(i + 1, "demo", 10);

		open_round(p, &of);
		feed(p, &of, STREAM_OUTPUT, 0, text, 200 * KIB);
		outputs_status(p->o, &st);
		assert_true(st.pending <= OUTPUTS_PENDING_MAX);
	}
	assert_int_equal(st.rounds, 600);
	free(text);
}

static void names_of_files_are_read_back(void **state)
{
	struct chunk_of of = round_of(7, "demo", 1);
	char name[CHUNK_NAME_MAX];
	uint32_t number;
	unsigned stream;
	struct id id;

	(void)state;
	chunk_name(&of.round, STREAM_STDERR, 0xabcdef, name);
	assert_int_equal(chunk_name_parse(name, &id, &stream, &number), 0);
	assert_true(id_equal(&id, &of.round));
	assert_int_equal(stream, STREAM_STDERR);
	assert_int_equal(number, 0xabcdef);
	assert_int_equal(chunk_name_parse("cursor", &id, &stream, &number), ERR_INVAL);
	name[37] = '3';
	assert_int_equal(chunk_name_parse(name, &id, &stream, &number), ERR_INVAL);
	name[37] = '2';
	name[strlen(name) - 1] = 'F'; /* only the one form */
	assert_int_equal(chunk_name_parse(name, &id, &stream, &number), ERR_INVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    OUTPUTS_TEST(any_offset_is_found_while_it_runs_and_behind_its_end),
	    OUTPUTS_TEST(a_kill_at_any_record_loses_and_doubles_nothing),
	    OUTPUTS_TEST(a_file_torn_at_any_byte_is_mended),
	    OUTPUTS_TEST(bytes_that_never_came_to_the_disk_are_read_from_the_log_again),
	    OUTPUTS_TEST(past_its_cap_the_oldest_middle_goes_and_is_named),
	    OUTPUTS_TEST(a_hole_in_the_journal_is_a_hole_here),
	    OUTPUTS_TEST(age_count_and_bytes_take_the_oldest_that_has_ended),
	    OUTPUTS_TEST(what_goes_while_the_clock_is_not_believed),
	    OUTPUTS_TEST(a_disk_that_takes_nothing_leaves_a_hole_and_stops_nothing),
	    OUTPUTS_TEST(an_end_that_no_disk_took_is_written_later),
	    OUTPUTS_TEST(an_end_that_one_stream_alone_has_is_none),
	    OUTPUTS_TEST(an_end_from_elsewhere_names_what_is_missing),
	    OUTPUTS_TEST(a_file_that_cannot_be_opened_is_passed_over),
	    OUTPUTS_TEST(memory_is_bounded_whatever_many_rounds_print),
	    cmocka_unit_test(names_of_files_are_read_back),
	};

	log_setup("test", "error", LOG_TEXT, 2, NULL); /* torn files are warned of */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
