// tier: check
/*
 * Rows of audit.db that somebody else wrote: what is shown is the record's, and verify names each. Generated: every
 * column of every table that is shown, rows that go and rows that come.
 */
#include "recorder/index/index_compare.h"
#include "tests/lib/cutter_rig.h"

#include <openssl/sha.h>
#include <sqlite3.h>

#define ROWS_MAX 256

/* Everything that is shown, as text, newest last. */
struct shown {
	char *rows[ROWS_MAX];
	size_t n;
	size_t told; /* events that say of a difference are counted apart */
};

static int keep(void *arg, json_t *o)
{
	struct shown *s = arg;

	assert_true(s->n < ROWS_MAX);
	char *text = json_text(o);
	assert_non_null(text);
	/* A start says what configuration it has. */
	if (!strstr(text, "index.differs") && !strstr(text, "config.")) {
		s->rows[s->n++] = text;
		return 0;
	}
	s->told += strstr(text, "index.differs") != NULL;
	free(text);
	return 0;
}

static void forget(struct shown *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->rows[i]);
	*s = (struct shown){.n = 0};
}

/* What a listing hands out; strict: ends with an error where a row is not the recorder's. */
static int look(struct place *p, bool strict, struct shown *out)
{
	struct index_filter f = {.limit = ROWS_MAX, .pass_over = !strict};
	struct err e = {0};
	int rc = index_audit(p->reader, &f, keep, out, &e);

	return rc ? rc : index_sessions(p->reader, &f, keep, out, &e);
}

static void assert_same(const struct shown *a, const struct shown *b, const char *what)
{
	if (a->n != b->n)
		fail_msg("%s: %zu rows before, %zu after", what, a->n, b->n);
	for (size_t i = 0; i < a->n; i++)
		assert_string_equal(a->rows[i], b->rows[i]);
}

/* None of what is shown says other things than before. */
static void assert_among(const struct shown *some, const struct shown *all)
{
	for (size_t i = 0; i < some->n; i++) {
		bool known = false;
		for (size_t k = 0; !known && k < all->n; k++)
			known = strcmp(some->rows[i], all->rows[k]) == 0;
		if (!known)
			fail_msg("shown, and nobody wrote it: %s", some->rows[i]);
	}
}

struct findings {
	size_t rows, other;
	char first[256];
};

static void count(void *arg, const struct verify_finding *f)
{
	struct findings *n = arg;

	if (f->class == VERIFY_NOTE)
		return;
	if (strncmp(f->code, "row_", 4) == 0)
		n->rows++;
	else
		n->other++;
	if (!n->first[0])
		snprintf(n->first, sizeof(n->first), "%s: %s", f->code, f->message);
}

static struct findings verify_rows(struct place *p)
{
	struct grant_public_key key = *signer_public(p->signer);
	struct grant_keyset keys = {&key, 1};
	struct findings n = {0};
	struct verify_summary sum;
	struct err e = {0};
	struct verify_ask ask = {.dir = p->dir, .keys = &keys, .sink = count, .arg = &n};
	if (verify_all(&ask, &sum, &e))
		fail_msg("%s", e.message);
	assert_int_equal(sum.intact, n.rows == 0);
	return n;
}

/* As somebody with sqlite3 in his hands. */
static void edit(struct place *p, const char *sql)
{
	sqlite3 *db;
	char *why = NULL;

	assert_int_equal(sqlite3_open_v2(p->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	if (sqlite3_exec(db, sql, NULL, NULL, &why))
		fail_msg("%s: %s", sql, why);
	assert_true(sqlite3_changes(db) > 0);
	sqlite3_close(db);
}

struct columns {
	char names[40][32];
	int n;
};

static int column(void *arg, int n, char **v, char **names)
{
	struct columns *c = arg;

	(void)n;
	(void)names;
	snprintf(c->names[c->n++], 32, "%s", v[1]);
	return 0;
}

static struct columns columns_of(struct place *p, const char *table)
{
	struct columns c = {.n = 0};
	char sql[64];
	sqlite3 *db;

	snprintf(sql, sizeof(sql), "PRAGMA table_info(%s)", table);
	assert_int_equal(sqlite3_open_v2(p->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, column, &c, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_true(c.n > 8);
	return c;
}

/* Two sealed sessions, one that goes on, and events. */
static void fill(struct place *p)
{
	struct id id, nobody = {{0}};
	uint64_t at = 0;

	for (int i = 0; i < 2; i++) {
		at = 0;
		session_open(p, &id);
		send_bytes(p, &id, &at, 3000);
		text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
		text(p, RING_AUDIT, &nobody,
		     "{\"event\":\"round.end\",\"principal\":\"pat\",\"agent\":\"demo\",\"outcome\":\"ok\"}");
		text(p, RING_AUDIT, &id, "{\"event\":\"grant.create\",\"principal\":\"pat\",\"grant_id\":\"g\"}");
		consumed(p, &id);
	}
	at = 0;
	session_open(p, &id);
	send_bytes(p, &id, &at, 3000);
	consumed(p, NULL);
	assert_int_equal(cutter_compare(p->cutter, true, 10 * NS_PER_SEC), 0);
}

/* Until the index is as it was, but for the event that tells of it. */
static void mended(struct place *p, const struct shown *before, const char *what)
{
	struct shown now = {.n = 0};
	struct err e = {0};
	uint64_t lsn;

	assert_int_equal(cutter_compare(p->cutter, false, 10 * NS_PER_SEC), 0);
	assert_int_equal(drain_flush(p->drain, 10 * NS_PER_SEC, &lsn), 0);
	assert_int_equal(cutter_wait(p->cutter, lsn, NULL, 10 * NS_PER_SEC, &e), 0);
	if (look(p, true, &now))
		fail_msg("%s: it is not put right", what);
	if (now.told <= before->told)
		fail_msg("%s: no audit event tells of it", what);
	assert_same(before, &now, what);
	forget(&now);
}

/* Shows what it shows while that stands in the database, and what it shows afterwards. */
static void tamper(struct place *p, const char *sql)
{
	struct shown before = {.n = 0}, now = {.n = 0};

	assert_int_equal(look(p, true, &before), 0);
	edit(p, sql);
	(void)look(p, false, &now);
	assert_among(&now, &before);
	mended(p, &before, sql);
	forget(&now);
	forget(&before);
}

/* The first row of a table with another value in one column. */
static void change_column(const char *table, const char *name, char out[512])
{
	snprintf(
	    out, 512,
	    "UPDATE %s SET %s = CASE typeof(%s) WHEN 'integer' THEN %s + 1000 WHEN 'text' THEN 'x' || substr(%s, 2) "
	    "WHEN 'null' THEN 'x' ELSE zeroblob(16) END WHERE %s",
	    table, name, name, name, name,
	    strcmp(table, "audit") == 0 ? "lsn = (SELECT min(lsn) FROM audit)" : "id = (SELECT min(id) FROM sessions)");
}

static void shell(const char *fmt, const char *a, const char *b)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), fmt, a, b);
	assert_int_equal(system(cmd), 0);
}

static const char *const tables[] = {"audit", "sessions"};

static void a_changed_column_is_never_shown(void **state)
{
	struct place *p = *state;
	char sql[512];

	start(p);
	fill(p);
	for (int t = 0; t < 2; t++) {
		struct columns c = columns_of(p, tables[t]);

		for (int i = 0; i < c.n; i++) {
			change_column(tables[t], c.names[i], sql);
			tamper(p, sql);
		}
	}
}

static void verify_names(struct place *p, const char *sql)
{
	edit(p, sql);
	if (!verify_rows(p).rows)
		fail_msg("verify says nothing of %s", sql);
	shell("cp %s.good %s", p->path, p->path);
}

static void verify_names_a_changed_column(void **state)
{
	struct place *p = *state;
	char sql[512];

	start(p);
	fill(p);
	stop(p);
	struct findings n = verify_rows(p);
	if (n.rows)
		fail_msg("%s", n.first);
	shell("cp %s %s.good", p->path, p->path);
	for (int t = 0; t < 2; t++) {
		struct columns c = columns_of(p, tables[t]);

		for (int i = 0; i < c.n; i++) {
			change_column(tables[t], c.names[i], sql);
			/* The code is keyed: the recorder alone can tell, and shows no row where it does not fit. */
			if (strcmp(c.names[i], "code") != 0)
				verify_names(p, sql);
		}
	}
}

static const char *const others[] = {
    "DELETE FROM audit WHERE lsn = (SELECT min(lsn) FROM audit)",
    "DELETE FROM audit WHERE lsn = (SELECT max(lsn) FROM audit)",
    "DELETE FROM audit",
    "INSERT INTO audit(lsn, wall_ns, event, json) VALUES((SELECT min(open_lsn) FROM sessions), 1, 'grant.create', "
    "'{\"event\":\"grant.create\"}')",
    "INSERT INTO audit(lsn, wall_ns, event, json) VALUES(-5, 1, 'x', '{\"event\":\"x\"}')",
    "INSERT INTO audit(lsn, wall_ns, event, json) VALUES(9000000, 1, 'x', '{\"event\":\"x\"}')",
    "INSERT INTO audit SELECT max(lsn) + 1, wall_ns, event, principal, agent, grant_id, session, outcome, json, code"
    " FROM audit",
    "DELETE FROM sessions WHERE id = (SELECT min(id) FROM sessions)",
    "INSERT INTO sessions(id, state, agent) VALUES('01890000-0000-7000-8000-000000000001', 'sealed', 'demo')",
    "INSERT INTO sessions(id, state, agent) VALUES('01890000-0000-7000-8000-000000000001', 'expired', 'demo')",
    "INSERT INTO sessions(id, state, agent) VALUES('01890000-0000-7000-8000-000000000001', 'ended', 'demo')",
    "INSERT INTO sessions(id, state, agent) VALUES('', 'sealed', 'demo')",
    "INSERT INTO sessions(id, state, agent) VALUES(x'00ff', 'sealed', 'demo')",
    "UPDATE sessions SET state = 'expired' WHERE id = (SELECT min(id) FROM sessions)",
    "UPDATE audit SET json = (SELECT json FROM audit ORDER BY lsn DESC LIMIT 1), code = (SELECT code FROM audit ORDER"
    " BY lsn DESC LIMIT 1) WHERE lsn = (SELECT min(lsn) FROM audit)",
};

static void rows_that_go_and_come(void **state)
{
	struct place *p = *state;

	start(p);
	fill(p);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		tamper(p, others[i]);
	stop(p);
	struct findings n = verify_rows(p);
	if (n.rows)
		fail_msg("%s", n.first);
	shell("cp %s %s.good", p->path, p->path);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		verify_names(p, others[i]);
}

/* What was changed while no recorder ran is put right by the next, and told. */
static void changed_while_nobody_ran(void **state)
{
	struct place *p = *state;
	struct shown before = {.n = 0};

	start(p);
	fill(p);
	assert_int_equal(look(p, true, &before), 0);
	stop(p);
	edit(p, "UPDATE audit SET json = replace(json, 'pat', 'eve'), principal = 'eve' WHERE principal = 'pat'");
	edit(p, "UPDATE sessions SET principal = 'eve'");
	edit(p, "DELETE FROM audit WHERE lsn = (SELECT max(lsn) FROM audit)");
	edit(p, "UPDATE meta SET a = a + 1 WHERE key = 'key'"); /* whose code it is changes nothing */
	start(p);
	mended(p, &before, "while nobody ran");
	forget(&before);
}

/*
 * A database of the version before: rows get their codes, and nothing is said to differ. That version wrote when a
 * recorder read of the opening and the end, not when they were.
 */
static void version_1_is_taken_over(void **state)
{
	struct place *p = *state;
	struct shown before = {.n = 0}, after = {.n = 0};
	uint64_t lsn;

	start(p);
	fill(p);
	assert_int_equal(look(p, true, &before), 0);
	stop(p);
	edit(p, "UPDATE sessions SET opened_ns = opened_ns + 731, ended_ns = ended_ns + 1273, open_segment = 1; ALTER "
		"TABLE sessions "
		"DROP COLUMN code; ALTER TABLE "
		"sessions DROP COLUMN "
		"keyframes; ALTER TABLE audit DROP COLUMN code; DELETE FROM meta WHERE key = 'key'; UPDATE meta SET "
		"key = key; PRAGMA user_version = 1");
	start(p);
	assert_int_equal(cutter_compare(p->cutter, true, 60 * NS_PER_SEC), 0);
	assert_int_equal(drain_flush(p->drain, 60 * NS_PER_SEC, &lsn), 0);
	assert_int_equal(cutter_wait(p->cutter, lsn, NULL, 60 * NS_PER_SEC, NULL), 0);
	assert_int_equal(look(p, true, &after), 0);
	assert_int_equal(after.told, before.told);
	assert_same(&before, &after, "version 1");
	forget(&before);
	forget(&after);
}

struct wall {
	uint64_t lsn;
	int64_t log, row;
};

static int keep_wall(void *arg, int n, char **v, char **names)
{
	struct wall *w = arg;

	(void)n;
	(void)names;
	w->lsn = strtoull(v[0], NULL, 10);
	w->row = strtoll(v[1], NULL, 10);
	return 0;
}

static void read_wall(struct place *p, struct wall *out)
{
	static const char sql[] = "SELECT lsn, wall_ns FROM audit WHERE event = 'late'";
	struct chain_reader *r;
	struct chain_entry en;
	sqlite3 *db;

	*out = (struct wall){.lsn = 0};
	assert_int_equal(sqlite3_open_v2(p->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, keep_wall, out, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_true(out->lsn > 0);
	assert_int_equal(chain_reader_create(p->dir, 0, &r, NULL), 0);
	while (chain_reader_next(r, &en, NULL) == 1)
		if (en.type == CHAIN_AUDIT && en.journal_seq == out->lsn)
			out->log = en.wall_ns;
	chain_reader_destroy(r);
}

/*
 * The hub's clock record stands before the last checkpoint, an event behind it; the recorder is killed when the event
 * is in the log and its row is not in the database. The row comes again with the time that the log has.
 */
static void a_row_that_comes_again_has_its_time(void **state)
{
	static const struct id nobody;
	struct place *p = *state;
	struct wall w;
	char clock[64];
	unsigned told = 0;
	int64_t then = clock_wall_ns() - 3600 * (int64_t)NS_PER_SEC;

	start(p);
	consumed(p, NULL);
	stop(p);
	shell("cp %s %s.before", p->path, p->path);
	start(p);
	snprintf(clock, sizeof(clock), "{\"wall_ns\":%lld}", (long long)then);
	text(p, RING_CLOCK, &nobody, clock);
	text(p, RING_AUDIT, &nobody, "{\"event\":\"early\",\"principal\":\"pat\"}");
	consumed(p, NULL);
	stop(p);
	shell("mv %s %s.checkpoint", p->path, p->path);
	shell("mv %s.before %s", p->path, p->path); /* so that the clock record is read in one go with the event */
	start(p);
	text(p, RING_AUDIT, &nobody, "{\"event\":\"late\",\"principal\":\"pat\"}");
	consumed(p, NULL);
	stop(p);
	shell("mv %s.checkpoint %s", p->path, p->path);
	start(p);
	consumed(p, NULL);
	read_wall(p, &w);
	assert_true(w.log >= then && w.log < then + 600 * (int64_t)NS_PER_SEC);
	assert_int_equal(w.row, w.log);
	assert_int_equal(cutter_compare(p->cutter, true, 10 * NS_PER_SEC), 0);
	consumed(p, NULL);
	struct index_filter f = {.event = "index.differs", .limit = 1};
	assert_int_equal(index_audit(p->reader, &f, count_row, &told, NULL), 0);
	assert_int_equal(told, 0);
}

static void events_are_found_by_their_lease(void **state)
{
	static const struct id nobody;
	static const struct index_filter by[] = {
	    {.lease = "l-1", .limit = 10}, {.run = "run 1", .limit = 10}, {.client_request = "r\"1", .limit = 10}};
	struct place *p = *state;
	uint64_t since;

	start(p);
	text(p, RING_AUDIT, &nobody,
	     "{\"event\":\"a\",\"lease_id\":\"l-1\",\"run_id\":\"run 1\",\"client_request_id\":\"r\\\"1\"}");
	text(p, RING_AUDIT, &nobody, "{\"event\":\"b\",\"lease_id\":\"l-2\",\"run_id\":\"run 12\"}");
	text(p, RING_AUDIT, &nobody, "{\"event\":\"c\",\"detail\":{\"lease_id\":\"l-1\"}}");
	consumed(p, NULL);
	for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
		struct index_filter f = by[i];
		unsigned n = 0;

		assert_int_equal(index_audit(p->reader, &by[i], count_row, &n, NULL), 0);
		assert_int_equal(n, 1);
		assert_int_equal(index_audit_start(p->reader, &by[i], &since, NULL), 0);
		f.since = since, n = 0;
		assert_int_equal(index_audit(p->reader, &f, count_row, &n, NULL), 0);
		assert_int_equal(n, 1); /* the start is right before it */
		f.since = since + 1, n = 0;
		assert_int_equal(index_audit(p->reader, &f, count_row, &n, NULL), 0);
		assert_int_equal(n, 0);
	}
}

/* A table that is gone is no "none": how many recordings name a snapshot is then not known, and not 0. */
static void what_cannot_be_read_is_no_number(void **state)
{
	struct place *p = *state;
	struct index *ix = NULL;
	struct index_filter f = {.agent = "a", .limit = 1};
	uint64_t refers = 7, since = 7;
	sqlite3 *db;

	start(p);
	stop(p);
	assert_int_equal(index_open(p->path, &ix, NULL), 0);
	assert_int_equal(index_refers(ix, "a", "s", &refers, NULL), 0);
	assert_int_equal(refers, 0);
	assert_int_equal(index_audit_start(ix, &f, &since, NULL), 0);
	refers = since = 7;
	assert_int_equal(sqlite3_open_v2(p->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	if (sqlite3_exec(db, "DROP TABLE sessions; DROP TABLE audit", NULL, NULL, NULL))
		fail_msg("%s", sqlite3_errmsg(db));
	sqlite3_close(db);
	assert_true(index_refers(ix, "a", "s", &refers, NULL) < 0);
	assert_int_equal(refers, 7);
	assert_true(index_audit_start(ix, &f, &since, NULL) < 0);
	assert_int_equal(since, 7);
	index_close(ix);
}

/* ---- verify beside a recorder at work: what it writes meanwhile is no difference */

#define DRAWN 12 /* more than there is patience for rows that differ in the end */

struct drawn {
	struct place *p;
	struct id ids[DRAWN];
	size_t logged; /* sessions with keyframes that the reader knows of */
	bool done;
};

static void drawn_fill(struct drawn *d)
{
	for (int i = 0; i < DRAWN; i++) {
		uint64_t at = 0;

		session_open(d->p, &d->ids[i]);
		send_bytes(d->p, &d->ids[i], &at, 100);
		text(d->p, RING_EXIT, &d->ids[i], "{\"cause\":\"exit\",\"code\":0}");
		consumed(d->p, &d->ids[i]);
	}
}

/* As the keyframer does: the file first, then log and row. */
static void drawn_put(struct drawn *d, size_t i)
{
	struct keyframes_digest digest = {.size = 5, .n = 1, .root = {(uint8_t)(i + 1)}};
	char recording[FILE_PATH_MAX], path[FILE_PATH_MAX];
	struct err e = {0};

	assert_int_equal(recording_find(d->p->dir, &d->ids[i], recording, sizeof(recording), &e), 0);
	assert_int_equal(keyframes_path(recording, path, &e), 0);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fputs("drawn", f) >= 0 && fclose(f) == 0, 1);
	SHA256((const uint8_t *)"drawn", 5, digest.sha256);
	assert_int_equal(cutter_keyframes(d->p->cutter, &d->ids[i], &digest, &e), 0);
}

static void drawn_put_all(void *arg, const char *path, const struct verify_result *r)
{
	struct drawn *d = arg;

	(void)path;
	(void)r;
	for (size_t i = 0; !d->done && i < DRAWN; i++)
		drawn_put(d, i);
	d->done = true;
}

static void nothing_is_found(void *arg, const struct verify_finding *f)
{
	(void)arg;
	if (f->class != VERIFY_NOTE || strcmp(f->code, "keyframes_unlogged") == 0)
		fail_msg("%s: %s", f->code, f->message);
}

/* The log was read, recordings are being looked at, and the recorder draws the screens of all of them. */
static void screens_are_drawn_while_verify_reads(void **state)
{
	struct place *p = *state;
	struct drawn d = {.p = p};
	struct grant_public_key key;
	struct grant_keyset keys = {&key, 1};
	struct verify_summary sum;
	struct err e = {0};

	start(p);
	drawn_fill(&d);
	key = *signer_public(p->signer);
	struct verify_ask ask = {
	    .dir = p->dir, .keys = &keys, .sink = nothing_is_found, .each = drawn_put_all, .arg = &d};
	assert_int_equal(verify_all(&ask, &sum, &e), 0);
	assert_true(d.done);
	assert_true(sum.intact);
}

static bool drawn_logged(void *arg, const struct id *id, char out_root[65])
{
	struct drawn *d = arg;

	out_root[0] = '\0';
	for (size_t i = 0; i < DRAWN; i++)
		if (i < d->logged && memcmp(id, &d->ids[i], sizeof(*id)) == 0)
			snprintf(out_root, 65, "%02zx%062d", i + 1, 0);
	return true;
}

static void drawn_read_again(void *arg)
{
	struct drawn *d = arg;

	d->logged++;
}

static void drawn_differs(void *arg, const struct index_finding *f)
{
	(void)arg;
	fail_msg("row %s of %s: %s", f->key, f->table, f->column ? f->column : "");
}

/* The recorder is ahead of the reader's log at each row: each is looked at again behind a log that has it. */
static void a_log_that_is_read_before_its_rows(void **state)
{
	struct place *p = *state;
	struct drawn d = {.p = p};
	struct index_compare_params params = {.dir = p->dir,
					      .patient = true,
					      .found = drawn_differs,
					      .logged = drawn_logged,
					      .again = drawn_read_again,
					      .arg = &d};
	struct index_compare *c;
	struct err e = {0};
	int rc;

	start(p);
	drawn_fill(&d);
	for (size_t i = 0; i < DRAWN; i++)
		drawn_put(&d, i);
	assert_int_equal(index_open_offline(p->path, &params.index, &e), 0);
	assert_int_equal(index_compare_begin(&params, &c, &e), 0);
	while ((rc = index_compare_step(c, 1, &e)) == 1)
		;
	assert_int_equal(rc, 0);
	assert_int_equal(d.logged, DRAWN);
	index_compare_end(c);
	index_close(params.index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CUTTER_TEST(screens_are_drawn_while_verify_reads),
	    CUTTER_TEST(a_log_that_is_read_before_its_rows),
	    CUTTER_TEST(a_changed_column_is_never_shown),
	    CUTTER_TEST(verify_names_a_changed_column),
	    CUTTER_TEST(rows_that_go_and_come),
	    CUTTER_TEST(changed_while_nobody_ran),
	    CUTTER_TEST(version_1_is_taken_over),
	    CUTTER_TEST(events_are_found_by_their_lease),
	    CUTTER_TEST(a_row_that_comes_again_has_its_time),
	    CUTTER_TEST(what_cannot_be_read_is_no_number),
	};
	return cmocka_run_group_tests(tests, quiet, NULL);
}
