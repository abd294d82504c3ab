// tier: check, slice KILLS=4 MIBS=64
/* Whatever happens to the file of an open recording: it is cut anew as it was, or what is lost is told truly. */
#include "tests/lib/cutter_rig.h"

#include "base/crc.h"
#include "recorder/format/part.h"
#include "recorder/index/hole.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* What a recording says, event by event. */
struct seen {
	struct event {
		uint8_t type, stream;
		uint32_t len, crc;
		uint64_t seq, ns, offset;
	} * list;
	size_t n, cap;
};

static void take(struct seen *s, const struct ring_record *rec)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 256;
		s->list = realloc(s->list, s->cap * sizeof(*s->list));
		assert_non_null(s->list);
	}
	struct event *e = memset(&s->list[s->n++], 0, sizeof(*e)); /* compared as bytes */
	e->type = rec->type;
	e->stream = rec->stream;
	e->len = rec->len;
	e->crc = crc32_add(0, rec->payload, rec->len);
	e->seq = rec->seq;
	e->ns = rec->boot_ns;
	e->offset = rec->offset;
}

/* As it was sent: from the segments, which hold all of it in these tests. */
static void as_sent(struct place *p, const struct id *id, struct seen *out)
{
	static const struct index_cursor oldest;
	struct segment_tail until;
	struct segment_record sr;
	struct follower *f;

	*out = (struct seen){0};
	assert_int_equal(follower_create(p->segments_fd, &oldest, &f, NULL), 0);
	drain_durable(p->drain, &until);
	while (follower_read(f, &until, &sr, NULL) == 1) {
		sr.rec.seq = sr.lsn;
		if (id_equal(&sr.rec.session, id) && sr.rec.type != RING_AUDIT)
			take(out, &sr.rec);
	}
	follower_destroy(f);
}

static struct recording *sealed(struct place *p, const struct id *id)
{
	char path[256];
	struct recording *r = NULL;
	struct err e = {0};

	if (recording_find(p->dir, id, path, sizeof(path), &e) || recording_open(path, &r, &e))
		fail_msg("%s", e.message);
	assert_true(recording_info(r)->sealed);
	return r;
}

static void as_recorded(struct place *p, const struct id *id, struct seen *out)
{
	struct recording *r = sealed(p, id);
	struct ring_record rec;

	*out = (struct seen){0};
	while (recording_next(r, &rec, NULL) == 1)
		if (rec.type != RING_CLOCK)
			take(out, &rec);
	recording_close(r);
}

static void same_events(const struct seen *a, const struct seen *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++)
		assert_memory_equal(&a->list[i], &b->list[i], sizeof(a->list[i]));
}

static void open_path(const struct place *p, const struct id *id, const char *end, char out[256])
{
	char name[ID_STR_LEN];

	id_format(id, name);
	snprintf(out, 256, "%s/open/%s.%s", p->dir, name, end);
}

static off_t size_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void flip(const char *path, off_t at)
{
	uint8_t byte;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void is_gone(const char *path)
{
	assert_int_equal(unlink(path), 0);
}
static void is_empty(const char *path)
{
	assert_int_equal(truncate(path, 0), 0);
}
static void has_half_a_header(const char *path)
{
	assert_int_equal(truncate(path, 40), 0);
}
static void is_shorter(const char *path)
{
	assert_int_equal(truncate(path, size_of(path) - 1), 0);
}
static void has_a_changed_header(const char *path)
{
	flip(path, 90);
}
static void has_a_changed_block(const char *path)
{
	flip(path, size_of(path) / 2);
}
static void has_a_changed_end(const char *path)
{
	flip(path, size_of(path) - 1);
}
static void is_another_file(const char *path)
{
	char cmd[600];
	snprintf(cmd, sizeof(cmd), "cp %s %s.copy && mv %s.copy %s", path, path, path, path);
	assert_int_equal(system(cmd), 0);
	has_a_changed_block(path);
}
static void is_a_link(const char *path)
{
	is_gone(path);
	assert_int_equal(symlink("/dev/zero", path), 0);
}
static void is_a_pipe(const char *path)
{
	is_gone(path);
	assert_int_equal(mkfifo(path, 0600), 0);
}
static void is_a_folder(const char *path)
{
	is_gone(path);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void (*const damages[])(const char *path) = {
    is_gone,           is_empty,        has_half_a_header, is_shorter, has_a_changed_header, has_a_changed_block,
    has_a_changed_end, is_another_file, is_a_link,         is_a_pipe,  is_a_folder,
};
#define DAMAGES (sizeof(damages) / sizeof(damages[0]))

struct last {
	unsigned n;
	json_t *record;
};

static int last_row(void *arg, json_t *o)
{
	struct last *l = arg;

	l->n++;
	json_decref(l->record);
	l->record = json_incref(json_object_get(o, "record"));
	return 0;
}

/* What the audit log says of it: one event, to be freed. */
static json_t *told(struct place *p, const struct id *id, unsigned times)
{
	char name[ID_STR_LEN];
	struct last l = {0};
	struct index_filter f = {.event = "record.recut", .session = name, .limit = 100};

	id_format(id, name);
	consumed(p, NULL);
	consumed(p, NULL); /* what was queued a moment ago */
	assert_int_equal(index_audit(p->reader, &f, last_row, &l, NULL), 0);
	assert_int_equal(l.n, times);
	return l.record;
}

static void some_session(struct place *p, struct id *id, uint64_t *at)
{
	uint16_t size[4] = {100, 30, 0, 0};

	session_open(p, id);
	append(p, RING_RESIZE, 0, id, 0, size, sizeof(size));
	append(p, RING_DATA, STREAM_INPUT, id, 0, "ls -l\r", 6);
	send_bytes(p, id, at, 300000);
	text(p, RING_EVENT, id, "{\"event\":\"attach\"}");
	send_bytes(p, id, at, 1000);
}

/* Its OPEN is in the segments: nothing is lost, whatever became of the file, and whenever. */
static void lost_file_loses_nothing(struct place *p, void (*damage)(const char *), bool stopped)
{
	struct id id, other;
	struct seen want, got;
	uint64_t at = 0, other_at = 0;
	char path[256];

	start(p);
	some_session(p, &id, &at);
	some_session(p, &other, &other_at);
	consumed(p, NULL);
	stop(p); /* a checkpoint */
	if (!stopped)
		start(p);
	open_path(p, &id, "mrec", path);
	damage(path);
	if (stopped)
		start(p);
	send_bytes(p, &id, &at, 2000);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	text(p, RING_EXIT, &other, "{\"cause\":\"exit\",\"code\":0}");
	wait_state(p, &id, "sealed");
	wait_state(p, &other, "sealed");
	verify(p, &id, true);
	verify(p, &other, true);
	as_sent(p, &id, &want);
	as_recorded(p, &id, &got);
	same_events(&want, &got);
	free(want.list);
	free(got.list);
	json_t *o = told(p, &id, 1);
	assert_string_equal(json_string_value(json_object_get(o, "outcome")), "ok");
	assert_int_equal(json_integer_value(json_array_get(json_object_get(o, "lost"), STREAM_OUTPUT)), 0);
	json_decref(o);
	assert_null(told(p, &other, 0));
	stop(p);
}

static void a_lost_open_file_loses_nothing(void **state)
{
	for (size_t i = 0; i < DAMAGES; i++)
		lost_file_loses_nothing(*state, damages[i], true);
}

static void a_file_lost_under_the_recorder_loses_nothing(void **state)
{
	for (size_t i = 0; i < DAMAGES; i++)
		lost_file_loses_nothing(*state, damages[i], false);
}

static void send_end(struct place *p, const struct id *id)
{
	text(p, RING_EXIT, id, "{\"cause\":\"exit\",\"code\":0}");
	wait_state(p, id, "sealed");
}

static uint64_t recorded_bytes(struct place *p, const struct id *id)
{
	struct source *s = source_of(p, id);
	uint64_t n = read_bytes(s, 0, UINT64_MAX);

	source_destroy(s);
	return n;
}

/* Output of a session that segments up to `until` hold. */
static uint64_t bytes_in_segments(struct place *p, const struct id *id, const struct segment_tail *until)
{
	static const struct index_cursor oldest;
	struct segment_record sr;
	struct follower *f;
	uint64_t n = 0;

	assert_int_equal(follower_create(p->segments_fd, &oldest, &f, NULL), 0);
	while (follower_read(f, until, &sr, NULL) == 1)
		if (id_equal(&sr.rec.session, id) && sr.rec.type == RING_DATA && sr.rec.stream == STREAM_OUTPUT)
			n += sr.rec.len;
	follower_destroy(f);
	return n;
}

/* A session whose first segments are gone, and a little behind. The daemon is stopped. Returns what is left of it. */
static uint64_t long_session(struct place *p, struct id *id, uint64_t *at, int64_t *out_opened)
{
	struct segment_tail until;

	start(p);
	*out_opened = clock_wall_ns();
	some_session(p, id, at);
	let_segments_go(p, id, at);
	send_bytes(p, id, at, MIB);
	consumed(p, NULL);
	drain_durable(p->drain, &until);
	stop(p); /* lets segments go as well */
	return bytes_in_segments(p, id, &until);
}

static int64_t wall_of(const json_t *o, const char *key)
{
	int64_t ns = 0;
	const char *text = json_string_value(json_object_get(o, key));

	assert_non_null(text);
	assert_int_equal(clock_parse_utc(text, &ns), 0);
	return ns;
}

/* What is really gone is told where it is, how much, and between which times; the rest is there. */
static void loss_is_true(struct place *p, const struct id *id, uint64_t at, uint64_t left, int64_t opened,
			 uint64_t first_seen_ns)
{
	struct recording *r = sealed(p, id);
	const struct recording_info *info = recording_info(r);
	struct ring_record rec;
	uint64_t missing = 0, data = 0, last = first_seen_ns;
	int64_t now = clock_wall_ns();

	assert_true(info->wall_ns >= opened && info->wall_ns < opened + (int64_t)(5 * NS_PER_SEC));
	while (recording_next(r, &rec, NULL) == 1) {
		assert_true(rec.boot_ns >= last && rec.boot_ns <= clock_boot_ns());
		last = rec.boot_ns;
		if (rec.stream != STREAM_OUTPUT)
			continue;
		missing += rec.type == EVENT_MISSING ? event_extent(&rec) : 0;
		data += rec.type == RING_DATA ? rec.len : 0;
		for (uint32_t i = 0; rec.type == RING_DATA && i < rec.len; i++)
			assert_int_equal(rec.payload[i], byte_at(rec.offset + i));
	}
	assert_int_equal(missing + data, at);
	assert_true(missing > 0);
	assert_int_equal(data, left); /* what segments hold is cut */
	recording_close(r);
	verify(p, id, false);
	json_t *o = told(p, id, 1);
	assert_string_equal(json_string_value(json_object_get(o, "outcome")), "error");
	assert_int_equal(json_integer_value(json_array_get(json_object_get(o, "lost"), STREAM_OUTPUT)), missing);
	assert_true(wall_of(o, "lost_from") >= opened - (int64_t)NS_PER_SEC);
	assert_true(wall_of(o, "lost_until") >= wall_of(o, "lost_from") && wall_of(o, "lost_until") <= now);
	json_decref(o);
}

static void remove_index(const struct place *p)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/audit.db", p->dir);
	assert_int_equal(unlink(path), 0);
}

enum { ITS_FILE = 1, THE_INDEX = 2 };

static void losses_are_told(struct place *p, unsigned what)
{
	struct id id;
	uint64_t at = 0, left, before = clock_boot_ns();
	int64_t opened;
	char path[256];

	left = long_session(p, &id, &at, &opened);
	open_path(p, &id, "mrec", path);
	if (what & ITS_FILE)
		is_gone(path);
	if (what & THE_INDEX)
		remove_index(p);
	start(p);
	send_bytes(p, &id, &at, 5000);
	send_end(p, &id);
	if (what & ITS_FILE) {
		loss_is_true(p, &id, at, left + 5000, opened, before);
	} else {
		verify(p, &id, true);
		assert_int_equal(recorded_bytes(p, &id), at);
	}
	stop(p);
}

static void what_is_really_gone_is_told_truly(void **state)
{
	losses_are_told(*state, ITS_FILE);
	losses_are_told(*state, ITS_FILE | THE_INDEX);
}

static void a_lost_index_loses_nothing_of_an_open_recording(void **state)
{
	losses_are_told(*state, THE_INDEX);
}

/* An index of an earlier day, or without its -wal, stands before what segments hold: it cuts no file back. */
/* Entries that say that the log was found too short; the last one's words into text. */
static unsigned holes(const struct place *p, char text[HOLE_TEXT])
{
	struct chain_reader *r;
	struct chain_entry en;
	unsigned n = 0;

	assert_int_equal(chain_reader_create(p->dir, 0, &r, NULL), 0);
	while (chain_reader_next(r, &en, NULL) == 1)
		if (en.type == CHAIN_HOLE) {
			hole_describe(&en, text);
			n++;
		}
	chain_reader_destroy(r);
	return n;
}

static void an_index_that_is_set_back_loses_nothing(void **state)
{
	struct place *p = *state;
	struct id id, between;
	uint64_t at = 0, n = 0;
	char cmd[300];
	struct index_filter f = {.event = "test.between", .limit = 10};

	start(p);
	some_session(p, &id, &at);
	consumed(p, NULL);
	stop(p);
	snprintf(cmd, sizeof(cmd), "cp %s/audit.db %s/earlier", p->dir, p->dir);
	assert_int_equal(system(cmd), 0);
	start(p);
	session_open(p, &between);
	send_bytes(p, &between, &n, 1000);
	text(p, RING_AUDIT, &between, "{\"event\":\"test.between\"}");
	send_end(p, &between);
	send_bytes(p, &id, &at, 36 * MIB);
	consumed(p, NULL);
	stop(p);
	snprintf(cmd, sizeof(cmd), "rm -f %s/audit.db-* && mv %s/earlier %s/audit.db", p->dir, p->dir, p->dir);
	assert_int_equal(system(cmd), 0);
	start(p);
	send_end(p, &id);
	verify(p, &id, true);
	assert_int_equal(recorded_bytes(p, &id), at);
	assert_int_equal(recorded_bytes(p, &between), n);
	unsigned events = 0;
	assert_int_equal(index_audit(p->reader, &f, count_row, &events, NULL), 0);
	assert_int_equal(events, 1);
	stop(p);
	assert_int_equal(holes(p, (char[HOLE_TEXT]){0}), 0);
}

/* All of record/ but the segments, as from an old backup: what is left of the journal tells that there was more. */
static void a_record_that_is_set_back_says_so(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	char cmd[300], text[HOLE_TEXT] = "";

	start(p);
	some_session(p, &id, &at);
	send_end(p, &id);
	consumed(p, NULL);
	stop(p);
	snprintf(cmd, sizeof(cmd), "cd %s && mkdir earlier && cp -r chain sealed audit.db earlier", p->dir);
	assert_int_equal(system(cmd), 0);
	start(p);
	at = 0;
	session_open(p, &id);
	send_bytes(p, &id, &at, 40 * MIB);
	send_end(p, &id);
	consumed(p, NULL);
	stop(p);
	snprintf(cmd, sizeof(cmd), "cd %s && rm -r chain sealed audit.db* && mv earlier/* . && rmdir earlier", p->dir);
	assert_int_equal(system(cmd), 0);
	start(p);
	stop(p);
	assert_int_equal(holes(p, text), 1);
	assert_non_null(strstr(text, "too short"));
	assert_non_null(strstr(text, "but segments knew journal record"));
}

/* KILLS=n: while it cuts anew it is killed at any moment, again and again. What comes out is the same. */
static void killed_over_it_nothing_is_lost(void **state)
{
	struct place *p = *state;
	const char *kills = getenv("KILLS");
	unsigned seed = 99, n = kills ? (unsigned)strtoul(kills, NULL, 10) : 12;
	uint64_t at[3] = {0};
	struct id id[3];
	char path[256];

	start(p);
	for (int i = 0; i < 3; i++)
		some_session(p, &id[i], &at[i]);
	send_bytes(p, &id[0], &at[0], 40 * MIB);
	consumed(p, NULL);
	for (int i = 1; i < 3; i++)
		send_bytes(p, &id[i], &at[i], 2000);
	consumed(p, NULL);
	stop(p);
	remove_index(p); /* all three: from their files, and from the log's word */
	for (unsigned k = 0; k < n; k++) {
		pid_t pid = fork();
		if (pid == 0) {
			start(p);
			pause();
		}
		usleep(rand_r(&seed) % 400000);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		/* Between two kills there is damage of another kind, behind what the log vouches for. */
		open_path(p, &id[k % 3], "mrec", path);
		if (k % 4 == 3 && access(path, F_OK) == 0) {
			int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
			assert_int_equal(write(fd, "torn", 4), 4);
			close(fd);
		}
	}
	start(p);
	for (int i = 0; i < 3; i++) {
		send_end(p, &id[i]);
		verify(p, &id[i], true);
		assert_int_equal(recorded_bytes(p, &id[i]), at[i]);
	}
	stop(p);
}

/* Another ring, as after a power cut that took this one: what comes is in a segment of its own. */
static void lose_ring(struct place *p)
{
	char ring[96];

	ring_writer_destroy(p->w);
	close(p->ring_fd);
	snprintf(ring, sizeof(ring), "%s/ring", p->dir);
	assert_int_equal(unlink(ring), 0);
	assert_int_equal(ring_file_prepare(ring, 4 * MIB, NULL), 0);
	p->ring_fd = open(ring, O_RDWR | O_CLOEXEC);
	assert_int_equal(ring_writer_create(p->ring_fd, p->cursor_fd, &p->w, NULL), 0);
}

static uint64_t newest_segment(const struct place *p)
{
	uint64_t *list;
	size_t n;

	assert_int_equal(segment_list(p->segments_fd, &list, &n, NULL), 0);
	uint64_t newest = n ? list[n - 1] : 0;
	free(list);
	return newest;
}

static void lose_segments(const struct place *p, uint64_t above)
{
	char name[32];

	assert_true(newest_segment(p) > above);
	for (uint64_t last; (last = newest_segment(p)) > above;) {
		snprintf(name, sizeof(name), "%016llu.seg", (unsigned long long)last);
		assert_int_equal(unlinkat(p->segments_fd, name, 0), 0);
	}
}

/* Three sessions; of each a segment had something that the index heard of, and no checkpoint has. */
struct across {
	struct id ended, goes_on, opened; /* its EXIT, bytes in the middle, its OPEN */
	uint64_t at[3];
};

static void rename_in(const struct place *p, const char *from, const char *to)
{
	char a[96], b[96];

	snprintf(a, sizeof(a), "%s/%s", p->dir, from);
	snprintf(b, sizeof(b), "%s/%s", p->dir, to);
	assert_int_equal(rename(a, b), 0);
}

/* Nothing can be sealed while a file stands where sealed recordings go. */
static void put_file_for_sealed(const struct place *p)
{
	char path[96];

	rename_in(p, "sealed", "away");
	snprintf(path, sizeof(path), "%s/sealed", p->dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void put_sealed_back(const struct place *p)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/sealed", p->dir);
	assert_int_equal(unlink(path), 0);
	rename_in(p, "away", "sealed");
}

static void run_and_die(struct place *p, struct across *a)
{
	start(p);
	put_file_for_sealed(p);
	send_bytes(p, &a->ended, &a->at[0], 1000);
	text(p, RING_EXIT, &a->ended, "{\"cause\":\"exit\",\"code\":0}");
	send_bytes(p, &a->goes_on, &a->at[1], 1000);
	session_open(p, &a->opened);
	send_bytes(p, &a->opened, &a->at[2], 1000);
	wait_state(p, &a->opened, "open");
	_exit(0);
}

static struct across *lose_what_lies_between(struct place *p)
{
	struct across *a = mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(a != MAP_FAILED);
	start(p);
	some_session(p, &a->ended, &a->at[0]);
	some_session(p, &a->goes_on, &a->at[1]);
	consumed(p, NULL);
	stop(p);
	uint64_t kept = newest_segment(p);
	lose_ring(p);
	pid_t pid = fork();
	if (pid == 0)
		run_and_die(p, a);
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	put_sealed_back(p);
	lose_ring(p);
	lose_segments(p, kept);
	return a;
}

/* A gap in the journal holds up nobody: a session whose EXIT went with it is sealed, and a reader gets over it. */
static void a_gap_in_the_journal_is_got_over(void **state)
{
	struct place *p = *state;
	struct across *a = lose_what_lies_between(p);
	struct index_filter f = {.event = "journal.damaged", .limit = 10};
	unsigned told_of = 0;

	start(p);
	send_bytes(p, &a->goes_on, &a->at[1], 2000);
	consumed(p, NULL);
	/* From the log, which has its OPEN still, while it is open. */
	struct source *s = source_of(p, &a->goes_on);
	struct ring_record rec;
	uint64_t read = 0;
	while (source_next(s, &rec, NULL) == 1)
		read += rec.type == RING_DATA && rec.stream == STREAM_OUTPUT ? rec.len : 0;
	source_destroy(s);
	assert_int_equal(read, a->at[1] - 1000);
	wait_state(p, &a->ended, "sealed");
	verify(p, &a->ended, false);
	send_end(p, &a->goes_on);
	verify(p, &a->goes_on, false);
	send_end(p, &a->opened);
	verify(p, &a->opened, false);
	consumed(p, NULL);
	assert_int_equal(index_audit(p->reader, &f, count_row, &told_of, NULL), 0);
	assert_int_equal(told_of, 1);
	stop(p);
	munmap(a, sizeof(*a));
}

/* The EXIT comes behind a checkpoint that reaches further than the log will: the session's row alone tells of it. */
static void end_behind_a_checkpoint_and_die(struct place *p, const struct id *id, uint64_t *at)
{
	start(p);
	put_file_for_sealed(p);
	let_segments_go(p, id, at);
	text(p, RING_EXIT, id, "{\"cause\":\"exit\",\"code\":0}");
	wait_state(p, id, "ended");
	_exit(0);
}

/* Numbers that only a session's row remembers are not given again, or nobody would notice that its EXIT is lost. */
static void an_exit_lost_behind_a_checkpoint_is_missed(void **state)
{
	struct place *p = *state;
	struct id id, later;
	uint64_t at = 0;
	int status = -1;

	start(p);
	some_session(p, &id, &at);
	consumed(p, NULL);
	stop(p);
	uint64_t kept = newest_segment(p);
	lose_ring(p);
	pid_t pid = fork();
	if (pid == 0)
		end_behind_a_checkpoint_and_die(p, &id, &at);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	put_sealed_back(p);
	lose_ring(p);
	lose_segments(p, kept);
	start(p);
	session_open(p, &later);
	wait_state(p, &id, "sealed");
	verify(p, &id, false);
	send_end(p, &later);
	verify(p, &later, true);
	stop(p);
}

static off_t vouched_size(struct place *p, const struct id *id)
{
	struct parts parts;

	assert_int_equal(parts_read(&parts, p->dir, NULL), 0);
	const struct part *part = parts_find(&parts, id);
	assert_non_null(part);
	off_t size = (off_t)part->size;
	parts_finish(&parts);
	return size;
}

/* The log vouches for a file up to several places: what stands in front of the damage is not lost with it. */
static void a_file_is_good_as_far_as_the_log_vouches(void **state)
{
	static void (*const ends[])(const char *) = {is_shorter, has_a_changed_end};
	struct place *p = *state;
	struct id id;
	int64_t opened;
	char path[256];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		uint64_t at = 0;
		(void)long_session(p, &id, &at, &opened);
		open_path(p, &id, "mrec", path);
		do { /* until what comes last lets no segment go, and so is not in the log */
			start(p);
			send_bytes(p, &id, &at, 5000);
			consumed(p, NULL);
			stop(p);
		} while (size_of(path) == vouched_size(p, &id));
		ends[i](path);
		start(p);
		send_end(p, &id);
		verify(p, &id, true);
		assert_int_equal(recorded_bytes(p, &id), at);
		stop(p);
	}
}

/* A segment goes when what it holds was read back, and not before. */
static void a_changed_file_holds_its_segments(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	char path[256];

	start(p);
	session_open(p, &id);
	send_bytes(p, &id, &at, 2 * MIB);
	consumed(p, NULL);
	open_path(p, &id, "mrec", path);
	has_a_changed_block(path);
	send_bytes(p, &id, &at, 36 * MIB);
	consumed(p, NULL);
	send_end(p, &id);
	verify(p, &id, true);
	assert_int_equal(recorded_bytes(p, &id), at);
	json_decref(told(p, &id, 1));
	stop(p);
}

/* Of every open session that stands in a segment which is gone, the log says how far its file has it. */
static void the_log_knows_before_a_segment_goes(void **state)
{
	struct place *p = *state;
	struct id id[20];
	uint64_t at[20] = {0}, first;
	struct parts parts;
	struct segment_reader *r;
	struct err e = {0};

	start(p);
	for (int i = 0; i < 20; i++) {
		session_open(p, &id[i]);
		send_bytes(p, &id[i], &at[i], 3000);
	}
	for (int round = 0; round < 3; round++)
		send_bytes(p, &id[0], &at[0], 36 * MIB);
	consumed(p, NULL);
	(void)segments(p, &first);
	assert_int_equal(segment_reader_create(p->segments_fd, first, &r, NULL), 0);
	if (parts_read(&parts, p->dir, &e))
		fail_msg("%s", e.message);
	for (int i = 0; i < 20; i++) {
		const struct part *part = parts_find(&parts, &id[i]);
		assert_non_null(part);
		assert_true(part->offsets[STREAM_OUTPUT] >= (i ? 3000 : 72 * (uint64_t)MIB));
		assert_true(part->lsn + 1 >= segment_reader_lsn(r) || i);
		assert_true(part->open_ns && part->last_ns >= part->open_ns && part->last_ns <= clock_boot_ns());
		assert_true(part->last_wall_ns >= part->open_wall_ns && part->last_wall_ns <= clock_wall_ns());
	}
	segment_reader_destroy(r);
	parts_finish(&parts);
	stop(p);
	start(p);
	for (int i = 0; i < 20; i++)
		send_end(p, &id[i]);
	for (int i = 0; i < 20; i++)
		verify(p, &id[i], true);
	if (parts_read(&parts, p->dir, &e))
		fail_msg("%s", e.message);
	assert_int_equal(parts.n, 0);
	parts_finish(&parts);
	stop(p);
}

/* MIBS=5120: what goes through one open session does not stay in segments. */
static void an_open_session_holds_no_segments(void **state)
{
	struct place *p = *state;
	struct id id;
	const char *mibs = getenv("MIBS");
	uint64_t at = 0, all = (uint64_t)(mibs ? strtoul(mibs, NULL, 10) : 96) * MIB, first;
	size_t most = 0;

	start(p);
	session_open(p, &id);
	while (at < all) {
		send_bytes(p, &id, &at, 4 * MIB);
		consumed(p, NULL);
		size_t n = segments(p, &first);
		most = n > most ? n : most;
	}
	consumed(p, NULL);
	print_message("%llu MiB through one session: at most %zu segments of 1 MiB\n", (unsigned long long)(all / MIB),
		      most);
	/* A checkpoint each 32 MiB, the last four, what the ring and the cutter had in work. */
	assert_true(most < 32 + CUTTER_KEEP + 12);
	send_end(p, &id);
	verify(p, &id, true);
	stop(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CUTTER_TEST(a_lost_open_file_loses_nothing),
	    CUTTER_TEST(a_file_lost_under_the_recorder_loses_nothing),
	    CUTTER_TEST(what_is_really_gone_is_told_truly),
	    CUTTER_TEST(a_lost_index_loses_nothing_of_an_open_recording),
	    CUTTER_TEST(an_index_that_is_set_back_loses_nothing),
	    CUTTER_TEST(a_record_that_is_set_back_says_so),
	    CUTTER_TEST(killed_over_it_nothing_is_lost),
	    CUTTER_TEST(a_gap_in_the_journal_is_got_over),
	    CUTTER_TEST(an_exit_lost_behind_a_checkpoint_is_missed),
	    CUTTER_TEST(a_file_is_good_as_far_as_the_log_vouches),
	    CUTTER_TEST(a_changed_file_holds_its_segments),
	    CUTTER_TEST(the_log_knows_before_a_segment_goes),
	    CUTTER_TEST(an_open_session_holds_no_segments),
	};
	return cmocka_run_group_tests_name("recorder_recut", tests, quiet, NULL);
}
