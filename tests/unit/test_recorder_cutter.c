// tier: check
/* Cutting: recordings whatever happens to segments, disk and journal meanwhile; reading them at any time. */
#include "recorder/draw/commander.h"
#include "recorder/write/cutter_state.h"
#include "tests/lib/cutter_rig.h"

#include <dirent.h>

static void long_session_outlives_its_segments(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	start(p);
	session_open(p, &id);
	consumed(p, NULL);
	struct source *slow = source_of(p, &id);
	send_bytes(p, &id, &at, 100000);
	consumed(p, NULL);
	uint64_t read = read_bytes(slow, 0, 50000);
	let_segments_go(p, &id, &at);
	send_bytes(p, &id, &at, 12345);
	consumed(p, NULL);
	/* Somebody new sees it all: first from the recording, then from the log. */
	struct source *s = source_of(p, &id);
	assert_int_equal(read_bytes(s, 0, UINT64_MAX), at);
	assert_false(source_info(s)->ended);
	source_destroy(s);
	/* Who was slow goes on where they were. */
	assert_int_equal(read_bytes(slow, read, UINT64_MAX), at);
	/* And both see what comes, and the end. */
	read = at;
	send_bytes(p, &id, &at, 777);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	assert_int_equal(read_bytes(slow, read, UINT64_MAX), at);
	assert_true(source_info(slow)->ended);
	source_destroy(slow);
	verify(p, &id, true);
}

static void restart_goes_on_with_open_recordings(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	start(p);
	session_open(p, &id);
	for (int i = 0; i < 5; i++) {
		send_bytes(p, &id, &at, 3 * MIB / 2);
		consumed(p, NULL);
		stop(p);
		send_bytes(p, &id, &at, 4000);
		start(p);
	}
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	struct source *s = source_of(p, &id);
	assert_true(source_info(s)->sealed);
	assert_int_equal(read_bytes(s, 0, UINT64_MAX), at);
	source_destroy(s);
	verify(p, &id, true);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* Who fails for hours does not do so with all its might, nor say it again and again. */
static void waits_quietly(struct place *p, const char *log)
{
	uint64_t begun = cpu_ns(), until = clock_boot_ns() + 1500 * NS_PER_MS;
	char line[512];
	unsigned said = 0;
	FILE *f;

	while (clock_boot_ns() < until)
		usleep(20000);
	begun = cpu_ns() - begun;
	assert_string_equal(state_of(p), "waiting");
	assert_in_range(begun, 0, 400 * NS_PER_MS); /* a loop that spins takes nearly all of it */
	f = fopen(log, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		said += strstr(line, "cutting waits") != NULL;
	fclose(f);
	assert_int_equal(said, 1);
}

static void what_cannot_be_written_is_cut_later(void **state)
{
	struct place *p = *state;
	struct id id, other;
	uint64_t at = 0;
	char open_dir[96], away[96], log[96];
	int to;

	snprintf(log, sizeof(log), "%s/log", p->dir);
	to = open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	assert_true(to >= 0 && log_setup("test", "warn", LOG_TEXT, to, NULL) == 0);
	start(p);
	session_open(p, &other);
	session_open(p, &id);
	send_bytes(p, &id, &at, 5000);
	consumed(p, NULL);
	/* A folder that is gone fails like a disk that is full: no new recording can be begun. */
	snprintf(open_dir, sizeof(open_dir), "%s/open", p->dir);
	snprintf(away, sizeof(away), "%s/away", p->dir);
	assert_int_equal(rename(open_dir, away), 0);
	int file = open(open_dir, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(file);
	struct id third;
	uint64_t third_at = 0;
	session_open(p, &third);
	send_bytes(p, &third, &third_at, 5000);
	for (int i = 0; strcmp(state_of(p), "waiting") != 0; i++) {
		if (i > 1000)
			fail_msg("the cutter does not say that it waits");
		usleep(5000);
	}
	waits_quietly(p, log);
	/* The live path does not care. */
	struct drain_status d;
	uint64_t lsn;
	assert_int_equal(drain_flush(p->drain, 5 * NS_PER_SEC, &lsn), 0);
	drain_status(p->drain, &d);
	assert_int_equal(d.state, RING_READER_OK);
	unlink(open_dir);
	assert_int_equal(rename(away, open_dir), 0);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	text(p, RING_EXIT, &third, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	consumed(p, &third);
	verify(p, &id, true);
	verify(p, &third, true);
	struct source *s = source_of(p, &third);
	assert_int_equal(read_bytes(s, 0, UINT64_MAX), third_at);
	source_destroy(s);
	assert_int_equal(quiet(NULL), 0);
	close(to);
}

static void session_without_its_open_is_kept(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 100;
	start(p);
	assert_int_equal(id_new(&id), 0);
	text(p, RING_EVENT, &id, "{\"event\":\"attach\"}"); /* of no use without a session */
	send_bytes(p, &id, &at, 1000);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	verify(p, &id, false);
	struct source *s = source_of(p, &id);
	assert_non_null(strstr(source_info(s)->open, "open_lost"));
	struct ring_record rec;
	assert_int_equal(source_next(s, &rec, NULL), 1);
	assert_int_equal(rec.type, RING_OPEN);
	assert_int_equal(source_next(s, &rec, NULL), 1);
	assert_int_equal(rec.type, EVENT_MISSING);
	source_destroy(s);
}

static void records_after_the_seal_open_nothing(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	unsigned n = 0;
	start(p);
	session_open(p, &id);
	send_bytes(p, &id, &at, 10);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	text(p, RING_EVENT, &id, "{\"event\":\"detach\"}"); /* in time: part of the recording */
	consumed(p, &id);
	text(p, RING_EVENT, &id, "{\"event\":\"detach\"}");
	send_bytes(p, &id, &at, 10);
	text(p, RING_OPEN, &id, "{\"v\":1}");
	consumed(p, &id);
	struct index_filter f = {.limit = 10};
	assert_int_equal(index_sessions(p->reader, &f, count_row, &n, NULL), 0);
	assert_int_equal(n, 1);
	verify(p, &id, true);
	struct cutter_status s;
	cutter_status(p->cutter, &s);
	assert_int_equal(s.open, 0);
}

static void session_open_with(struct place *p, struct id *out, const char *record)
{
	char json[400];
	assert_int_equal(id_new(out), 0);
	snprintf(json, sizeof(json),
		 "{\"v\":1,\"kind\":\"round\",\"agent\":\"demo\",\"principal\":\"pat\",\"principal_kind\":\"agent\","
		 "\"wall_ns\":%lld,\"boot_id\":\"%s\"%s%s}",
		 (long long)clock_wall_ns(), clock_boot_id(), *record ? ",\"record\":" : "", record);
	text(p, RING_OPEN, out, json);
}

/* Of a profile, in OPEN; below a floor of the configuration nobody goes, and what cannot be read counts as not said. */
static void the_rule_of_an_open_is_taken(void **state)
{
	static const struct {
		bool floor;
		const char *record, *bad;
		enum conf_rule_kind kind;
		uint64_t head, tail;
	} rows[] = {
	    {false, "", NULL, RULE_FULL, 0, 0},
	    {false, "{\"rule\":\"metadata\",\"by\":\"a/record\"}", NULL, RULE_METADATA, 0, 0},
	    {false, "{\"rule\":\"truncated\",\"head\":100,\"tail\":200}", NULL, RULE_TRUNCATED, 100, 200},
	    {true, "{\"rule\":\"metadata\"}", NULL, RULE_FULL, 0, 0},
	    {true, "{\"rule\":\"truncated\",\"head\":100,\"tail\":200}", NULL, RULE_FULL, 0, 0},
	    {false, "{\"rule\":\"nothing\"}", "not one of", RULE_FULL, 0, 0},
	    {false, "\"metadata\"", "is no object", RULE_FULL, 0, 0},
	};
	struct place *p = *state;

	start(p);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct recording *r;
		char path[160];
		uint64_t at = 0, out = 0;
		struct id id;

		p->conf->rules[0].floor = rows[i].floor;
		assert_int_equal(cutter_configure(p->cutter, p->conf, NULL, NULL), 0);
		if (rows[i].bad)
			(void)quiet(NULL);
		session_open_with(p, &id, rows[i].record);
		send_bytes(p, &id, &at, 50000);
		text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
		consumed(p, &id);
		verify(p, &id, true);
		assert_int_equal(recording_find(p->dir, &id, path, sizeof(path), NULL), 0);
		assert_int_equal(recording_open(path, &r, NULL), 0);
		assert_int_equal(recording_info(r)->rule.kind, rows[i].kind);
		if (rows[i].kind == RULE_TRUNCATED) {
			assert_int_equal(recording_info(r)->rule.head, rows[i].head);
			assert_int_equal(recording_info(r)->rule.tail, rows[i].tail);
		}
		recording_close(r);
		struct source *s = source_of(p, &id);
		struct ring_record rec;
		while (source_next(s, &rec, NULL) == 1)
			out += rec.type == RING_DATA ? rec.len : 0;
		source_destroy(s);
		assert_int_equal(out, rows[i].kind == RULE_FULL ? at : rows[i].head + rows[i].tail);
	}
}

static void damaged_open_recording_is_kept_and_cut_anew(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	char name[ID_STR_LEN], path[160], kept[176];
	struct stat st;
	start(p);
	session_open(p, &id);
	send_bytes(p, &id, &at, 100000);
	consumed(p, NULL);
	stop(p);
	id_format(&id, name);
	snprintf(path, sizeof(path), "%s/open/%s.mrec", p->dir, name);
	snprintf(kept, sizeof(kept), "%s/open/%s.damaged", p->dir, name);
	assert_int_equal(truncate(path, 100), 0);
	/* Killed before its first checkpoint, the next start finds what this one began. */
	start_cutter(p, false);
	stop(p);
	start(p);
	send_bytes(p, &id, &at, 1000);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	assert_int_equal(stat(kept, &st), 0);
	assert_int_equal(st.st_size, 100);
	verify(p, &id, true);
	struct source *s = source_of(p, &id);
	assert_int_equal(read_bytes(s, 0, UINT64_MAX), at);
	/* The second start found it whole, and lost nothing more. */
	snprintf(kept, sizeof(kept), "%s/open/%s.damaged.2", p->dir, name);
	assert_int_equal(stat(kept, &st), -1);
	source_destroy(s);
	unsigned n = 0;
	struct index_filter f = {.event = "record.recut", .limit = 10};
	consumed(p, NULL);
	assert_int_equal(index_audit(p->reader, &f, count_row, &n, NULL), 0);
	assert_int_equal(n, 1);
}

static void sessions_of_a_lost_hub_are_ended(void **state)
{
	struct place *p = *state;
	struct id id[3];
	uint64_t at = 0;
	char text_state[8];
	struct lost lost;
	start(p);
	for (int i = 0; i < 3; i++)
		session_open(p, &id[i]);
	send_bytes(p, &id[1], &at, 500);
	consumed(p, NULL);
	lost_init(&lost, p->drain, p->live, NULL);
	lost.after_ns = 3600 * NS_PER_SEC;
	assert_int_equal(lost_check(&lost), 0);
	/* A ring that moves is a sign of life; while the disk takes nothing, the hub cannot give one. */
	for (int full = 0; full < 2; full++) {
		struct drain_status d = {.state = RING_READER_OK};
		uint64_t before = clock_boot_ns();
		if (full)
			drain_configure(p->drain, UINT64_MAX, 0);
		for (int i = 0; full && d.state != RING_READER_DISK_FULL; i++) {
			if (i > 4000)
				fail_msg("the disk does not fill");
			usleep(5000);
			drain_status(p->drain, &d);
		}
		lost.since_ns = 0;
		lost.head -= !full;
		assert_int_equal(lost_check(&lost), 0);
		assert_true(lost.since_ns >= before);
		drain_configure(p->drain, 0, 0);
	}
	struct drain_status again = {.state = RING_READER_DISK_FULL};
	for (int i = 0; again.state != RING_READER_OK; i++) {
		assert_true(i < 4000);
		usleep(5000);
		drain_status(p->drain, &again);
	}
	lost.after_ns = 0;
	assert_int_equal(lost_check(&lost), 3);
	assert_int_equal(lost_check(&lost), 0);
	for (int i = 0; i < 3; i++) {
		consumed(p, &id[i]);
		assert_int_equal(index_session_state(p->reader, &id[i], text_state, NULL), 0);
		assert_string_equal(text_state, "sealed");
		verify(p, &id[i], true);
	}
	struct source *s = source_of(p, &id[1]);
	struct ring_record rec, last = {0};
	char exit[256] = "";
	while (source_next(s, &rec, NULL) == 1) {
		last = rec;
		if (rec.type == RING_EXIT)
			snprintf(exit, sizeof(exit), "%.*s", (int)rec.len, (const char *)rec.payload);
	}
	assert_int_equal(last.type, RING_EXIT);
	assert_non_null(strstr(exit, "\"daemon lost\""));
	assert_non_null(strstr(exit, "[0,500,0]"));
	source_destroy(s);
}

static const struct id some = {{1}};

/* A clean end: whoever looks into the index before the next start finds what was journaled last. */
static void the_last_records_are_in_the_index_at_the_end(void **state)
{
	struct place *p = *state;
	struct index_filter f = {.event = "test.last", .limit = 10000};
	unsigned told = 0;

	for (int round = 1; round <= 10; round++) {
		unsigned n = 0;

		start(p);
		consumed(p, NULL);
		for (int i = 0; i < 20; i++, told++)
			text(p, RING_AUDIT, &some, "{\"event\":\"test.last\"}");
		stop(p);
		assert_int_equal(index_open_reader(p->path, &p->reader, NULL), 0);
		assert_int_equal(index_audit(p->reader, &f, count_row, &n, NULL), 0);
		index_close(p->reader);
		p->reader = NULL;
		assert_int_equal(n, told);
	}
}

/* The cutter itself tells of an EXIT that came just before the end. */
static void an_end_before_the_end_is_told(void **state)
{
	struct place *p = *state;
	struct index_filter f = {.event = "session.streams", .limit = 100};
	struct id id;
	unsigned told = 0;

	for (int round = 0; round < 5; round++) {
		uint64_t at = 0;

		start(p);
		session_open(p, &id);
		send_bytes(p, &id, &at, 1000);
		consumed(p, NULL);
		text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
		stop(p);
	}
	assert_int_equal(index_open_reader(p->path, &p->reader, NULL), 0);
	assert_int_equal(index_audit(p->reader, &f, count_row, &told, NULL), 0);
	index_close(p->reader);
	p->reader = NULL;
	assert_int_equal(told, 5);
}

static void old_recordings_leave_a_tombstone(void **state)
{
	struct place *p = *state;
	struct id old, open;
	uint64_t at = 0;
	char now[8] = "", path[160];
	start(p);
	session_open(p, &old);
	send_bytes(p, &old, &at, 1000);
	text(p, RING_EXIT, &old, "{\"cause\":\"exit\",\"code\":0}");
	session_open(p, &open);
	consumed(p, &old);
	assert_int_equal(recording_find(p->dir, &old, path, sizeof(path), NULL), 0);
	p->conf->record_retain_ns = 1;
	assert_int_equal(cutter_configure(p->cutter, p->conf, NULL, NULL), 0);
	for (int i = 0; strcmp(now, "expired") != 0; i++) {
		if (i > 1000)
			fail_msg("it is still %s", now);
		usleep(5000);
		assert_int_equal(index_session_state(p->reader, &old, now, NULL), 0);
	}
	assert_int_equal(access(path, F_OK), -1);
	struct source_place sp = {
	    .dir = p->dir, .segments_fd = p->segments_fd, .drain = p->drain, .live = p->live, .index = p->reader};
	struct source *s;
	struct err e = {0};
	assert_int_equal(source_create(&sp, &old, &s, &e), ERR_NOT_FOUND);
	assert_int_equal(index_session_state(p->reader, &open, now, NULL), 0);
	assert_string_equal(now, "open");
	/* Late records do not bring it back. */
	text(p, RING_EXIT, &old, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &old);
	stop(p);
	/* Nor does an index that is made anew. */
	snprintf(path, sizeof(path), "%s/audit.db", p->dir);
	assert_int_equal(unlink(path), 0);
	start(p);
	consumed(p, NULL);
	assert_int_equal(index_session_state(p->reader, &old, now, NULL), 0);
	assert_string_equal(now, "expired");
	stop(p);
	struct verify_summary sum;
	struct grant_public_key key = *signer_public(p->signer);
	struct grant_keyset keys = {&key, 1};
	assert_int_equal(verify_all(&(struct verify_ask){.dir = p->dir, .keys = &keys}, &sum, &e), 0);
	assert_true(sum.intact);
	assert_int_equal(sum.tombstones, 1);
	assert_int_equal(sum.missing, 0);
}

/* ---- whoever uses the cutter's connection to audit.db has its turn: SQLite is told that nobody else does */

static void ask_stop(struct place *p)
{
	cutter_stop(p->cutter);
}

static void ask_told(struct place *p)
{
	struct commander_told told;

	(void)cutter_commands_told(p->cutter, &some, &told, NULL);
}

static void ask_due(struct place *p)
{
	struct id due[4];

	(void)cutter_commands_due(p->cutter, due, 4);
}

static void ask_keyframes(struct place *p)
{
	(void)cutter_keyframes(p->cutter, &some, &(struct keyframes_digest){.n = 1}, NULL);
}

static void ask_root(struct place *p)
{
	char root[65];

	(void)cutter_keyframes_root(p->cutter, &some, root, NULL);
}

static void ask_compare(struct place *p)
{
	(void)cutter_compare(p->cutter, true, 0);
}

static void ask_configure(struct place *p)
{
	(void)cutter_configure(p->cutter, p->conf, NULL, NULL);
}

static void ask_retention(struct place *p)
{
	json_decref(cutter_retention(p->cutter));
}

static void ask_head(struct place *p)
{
	struct chain_head head;

	(void)cutter_head(p->cutter, &head, NULL);
}

struct asking {
	struct place *p;
	void (*ask)(struct place *p);
	atomic_bool done;
};

static void *asking_main(void *arg)
{
	struct asking *a = arg;

	a->ask(a->p);
	atomic_store(&a->done, true);
	return NULL;
}

static unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(d);
	for (const struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* Asked from another thread while this one has the turn: the answer comes behind it, and not before. */
static void assert_waits(struct place *p, void (*ask)(struct place *p))
{
	struct asking a = {.p = p, .ask = ask};
	pthread_t thread;

	pthread_mutex_lock(&p->cutter->turn);
	assert_int_equal(pthread_create(&thread, NULL, asking_main, &a), 0);
	usleep(100 * 1000);
	bool early = atomic_load(&a.done);
	pthread_mutex_unlock(&p->cutter->turn);
	pthread_join(thread, NULL);
	assert_false(early);
}

static void the_index_is_used_by_one_at_a_time(void **state)
{
	static void (*const asks[])(struct place * p) = {ask_told,    ask_due,       ask_keyframes, ask_root,
							 ask_compare, ask_configure, ask_retention, ask_head};
	struct place *p = *state;
	unsigned before;

	start(p);
	consumed(p, NULL);
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
		assert_waits(p, asks[i]);
	/* Its own threads end first: what is left of the stop is the last checkpoint. */
	before = threads();
	pthread_mutex_lock(&p->cutter->lock);
	atomic_store(&p->cutter->stopping, true);
	pthread_cond_broadcast(&p->cutter->help);
	pthread_mutex_unlock(&p->cutter->lock);
	for (int i = 0; threads() > before - 2; i++) {
		assert_true(i < 4000);
		usleep(5000);
	}
	assert_waits(p, ask_stop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CUTTER_TEST(long_session_outlives_its_segments),
	    CUTTER_TEST(restart_goes_on_with_open_recordings),
	    CUTTER_TEST(what_cannot_be_written_is_cut_later),
	    CUTTER_TEST(session_without_its_open_is_kept),
	    CUTTER_TEST(the_rule_of_an_open_is_taken),
	    CUTTER_TEST(records_after_the_seal_open_nothing),
	    CUTTER_TEST(damaged_open_recording_is_kept_and_cut_anew),
	    CUTTER_TEST(sessions_of_a_lost_hub_are_ended),
	    CUTTER_TEST(the_last_records_are_in_the_index_at_the_end),
	    CUTTER_TEST(an_end_before_the_end_is_told),
	    CUTTER_TEST(old_recordings_leave_a_tombstone),
	    CUTTER_TEST(the_index_is_used_by_one_at_a_time),
	};
	return cmocka_run_group_tests_name("recorder_cutter", tests, quiet, NULL);
}
