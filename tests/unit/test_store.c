// tier: check
/* control.db: what is written is there after a crash, and what cannot be trusted is left alone. */
#include "base/clock.h"
#include "base/err.h"
#include "control/store/store.h"
#include "control/store/store_schema.h"
#include "control/store/store_sql.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

struct box {
	char dir[64], path[96];
	uv_loop_t loop;
	struct store *s;
};

static int setup(void **state)
{
	struct box *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	snprintf(b->dir, sizeof(b->dir), "/tmp/test-store.XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	snprintf(b->path, sizeof(b->path), "%s/control.db", b->dir);
	assert_int_equal(uv_loop_init(&b->loop), 0);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct box *b = *state;
	char cmd[128];

	store_close(b->s);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&b->loop), 0);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", b->dir);
	assert_int_equal(system(cmd), 0);
	free(b);
	return 0;
}

static void open_it(struct box *b)
{
	struct err e = {0};

	if (store_open(&b->loop, b->path, &b->s, &e))
		fail_msg("%s", e.message);
}

static void close_it(struct box *b)
{
	store_close(b->s);
	b->s = NULL;
}

/* A note: one agent's row is enough. */
struct note {
	const char *name;
	int fail; /* what the closure returns after it has written */
	int rc, order;
	char message[ERR_MESSAGE_MAX];
	int *counter;
};

static int put(sqlite3 *db, void *job, struct err *e)
{
	struct note *n = job;
	int rc =
	    store_run(db, NULL, e,
		      "INSERT INTO agents(agent, state, generation, since_wall_ns, created_wall_ns, updated_wall_ns)"
		      " VALUES(?, 0, 1, 0, 0, 0)",
		      "t", n->name);

	return rc ? rc : n->fail ? err_set(e, n->fail, "told to fail") : 0;
}

static void noted(void *job, int rc, const struct err *e)
{
	struct note *n = job;

	n->rc = rc;
	n->order = ++*n->counter;
	snprintf(n->message, sizeof(n->message), "%s", e ? e->message : "");
}

static int count(sqlite3 *db, void *job, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, &st, e, "SELECT count(*) FROM agents", "");

	if (!rc && (rc = store_step(db, st, e)) == 1)
		*(int *)job = sqlite3_column_int(st, 0), rc = 0;
	sqlite3_finalize(st);
	return rc;
}

static int rows(struct box *b)
{
	struct err e = {0};
	int n = -1;

	assert_int_equal(store_read(b->s, count, &n, &e), 0);
	return n;
}

static void answers_come_in_order_and_readers_see_them(void **state)
{
	struct box *b = *state;
	struct note n[5] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "e"}};
	int counter = 0;

	open_it(b);
	assert_int_equal(rows(b), 0);
	for (int i = 0; i < 5; i++) {
		n[i].counter = &counter;
		n[i].rc = 99;
		store_write(b->s, put, noted, &n[i]);
	}
	assert_int_equal(counter, 0); /* never from inside the call */
	uv_run(&b->loop, UV_RUN_DEFAULT);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(n[i].rc, 0);
		assert_int_equal(n[i].order, i + 1);
	}
	assert_int_equal(rows(b), 5);
}

static void one_that_fails_takes_nothing_else_with_it(void **state)
{
	struct box *b = *state;
	struct note n[4] = {{.name = "a"}, {.name = "b", .fail = ERR_BAD_STATE}, {.name = "a"}, {.name = "c"}};
	int counter = 0;

	open_it(b);
	for (int i = 0; i < 4; i++) {
		n[i].counter = &counter;
		store_write(b->s, put, noted, &n[i]);
	}
	uv_run(&b->loop, UV_RUN_DEFAULT);
	assert_int_equal(n[0].rc, 0);
	assert_int_equal(n[1].rc, ERR_BAD_STATE);
	assert_string_equal(n[1].message, "told to fail");
	assert_int_equal(n[2].rc, ERR_CONFLICT); /* the same name twice */
	assert_int_equal(n[3].rc, 0);
	assert_int_equal(rows(b), 2);
}

/* As SQLite does it by itself when the disk is full or an I/O error comes: all of the transaction is undone. */
static int undo_all(sqlite3 *db, void *job, struct err *e)
{
	(void)job;
	return store_exec(db, "ROLLBACK", e) ? ERR_INTERNAL : err_set(e, ERR_DISK_FULL, "the disk is full");
}

static void what_is_told_as_failed_is_not_there(void **state)
{
	struct box *b = *state;
	struct note n[4] = {{.name = "first"}, {.name = "a"}, {.name = "full"}, {.name = "b"}};
	int counter = 0;

	open_it(b);
	for (int i = 0; i < 4; i++) {
		n[i].counter = &counter;
		store_write(b->s, i == 2 ? undo_all : put, noted, &n[i]); /* "first" has a turn of its own */
	}
	uv_run(&b->loop, UV_RUN_DEFAULT);
	assert_int_equal(n[0].rc, 0);
	for (int i = 1; i < 4; i++) {
		assert_int_equal(n[i].rc, ERR_DISK_FULL);
		assert_non_null(strstr(n[i].message, "the disk is full"));
	}
	assert_int_equal(rows(b), 1);
	n[3].rc = 99;
	store_write(b->s, put, noted, &n[3]); /* the next turn is as any other */
	uv_run(&b->loop, UV_RUN_DEFAULT);
	assert_int_equal(n[3].rc, 0);
	assert_int_equal(rows(b), 2);
}

/* A change that failed for want of room is known as a state; a change that is stored ends it, be it only a probe. */
static void the_state_follows_what_is_stored(void **state)
{
	struct box *b = *state;
	struct note n[3] = {{.name = "a"}, {.name = "full"}, {.name = "b", .fail = ERR_BAD_STATE}};
	int counter = 0;

	open_it(b);
	for (int i = 0; i < 3; i++)
		n[i].counter = &counter;
	store_write(b->s, put, noted, &n[0]);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	assert_int_equal(store_state(b->s), STORE_OK);
	store_write(b->s, undo_all, noted, &n[1]);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	assert_int_equal(store_state(b->s), STORE_DISK_FULL);
	store_probe(b->s); /* not at once */
	assert_false(uv_run(&b->loop, UV_RUN_NOWAIT));
	assert_int_equal(store_state(b->s), STORE_DISK_FULL);
	clock_test_set(clock_boot_ns() + 3 * NS_PER_SEC, clock_wall_ns());
	store_probe(b->s);
	store_probe(b->s);
	uv_run(&b->loop, UV_RUN_DEFAULT);
	assert_int_equal(store_state(b->s), STORE_OK);
	store_write(b->s, put, noted, &n[2]); /* refused for a reason of its own */
	uv_run(&b->loop, UV_RUN_DEFAULT);
	assert_int_equal(n[2].rc, ERR_BAD_STATE);
	assert_int_equal(store_state(b->s), STORE_OK);
	assert_int_equal(store_state(NULL), STORE_OK);
	clock_test_reset();
}

static void a_close_finishes_what_was_asked(void **state)
{
	struct box *b = *state;
	struct note n[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
	int counter = 0;

	open_it(b);
	for (int i = 0; i < 3; i++) {
		n[i].counter = &counter;
		n[i].rc = 99;
		store_write(b->s, put, noted, &n[i]);
	}
	close_it(b);
	assert_int_equal(counter, 3);
	assert_int_equal(n[2].rc, 0);
	open_it(b);
	assert_int_equal(rows(b), 3);
}

/* A child that is killed with no chance to close: what was answered is there. */
static void a_kill_loses_nothing_that_was_answered(void **state)
{
	struct box *b = *state;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct note n = {.name = "kept"};
		int counter = 0;
		uv_loop_t loop;
		struct store *s = NULL;

		n.counter = &counter;
		if (uv_loop_init(&loop) || store_open(&loop, b->path, &s, NULL))
			_exit(1);
		store_write(s, put, noted, &n);
		while (!counter)
			uv_run(&loop, UV_RUN_ONCE);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	open_it(b);
	assert_int_equal(rows(b), 1);
}

static void a_second_process_is_refused(void **state)
{
	struct box *b = *state;
	struct store *second = NULL;
	struct err e = {0};

	open_it(b);
	assert_int_equal(store_open(&b->loop, b->path, &second, &e), ERR_CONFLICT);
	assert_non_null(strstr(e.message, "another process"));
	assert_null(second);
}

/* The bytes of a file, to see that nobody touched it. */
static char *bytes_of(const char *path, size_t *out_n)
{
	FILE *f = fopen(path, "re");
	char *p = malloc(1 << 22);

	assert_non_null(f);
	assert_non_null(p);
	*out_n = fread(p, 1, 1 << 22, f);
	fclose(f);
	return p;
}

static void assert_refused(struct box *b, int code, const char *words)
{
	size_t n = 0, m = 0;
	char *before = bytes_of(b->path, &n), *after;
	struct err e = {0};

	assert_int_equal(store_open(&b->loop, b->path, &b->s, &e), code);
	if (!strstr(e.message, words) || !strstr(e.message, "not touched"))
		fail_msg("%s", e.message);
	assert_null(b->s);
	after = bytes_of(b->path, &m);
	assert_int_equal(n, m);
	assert_memory_equal(before, after, n);
	free(before);
	free(after);
}

static void sql(const char *path, const char *text)
{
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void a_newer_database_is_left_alone(void **state)
{
	struct box *b = *state;

	open_it(b);
	close_it(b);
	sql(b->path, "PRAGMA user_version = 4711");
	assert_refused(b, ERR_UNSUPPORTED, "version 4711");
}

static void a_damaged_database_is_left_alone(void **state)
{
	struct box *b = *state;
	struct note n[200];
	char names[200][24];
	int counter = 0;
	FILE *f;

	open_it(b);
	for (int i = 0; i < 200; i++) {
		snprintf(names[i], sizeof(names[i]), "agent-%d", i);
		n[i] = (struct note){.name = names[i], .counter = &counter};
		store_write(b->s, put, noted, &n[i]);
	}
	close_it(b);
	f = fopen(b->path, "r+e");
	assert_non_null(f);
	for (long at = 4096; at < 4096 * 8; at += 4096) {
		assert_int_equal(fseek(f, at, SEEK_SET), 0);
		for (int i = 0; i < 64; i++)
			fputc(0xa5, f);
	}
	fclose(f);
	assert_refused(b, ERR_CORRUPT, "damaged");
}

static void what_is_no_control_database_is_left_alone(void **state)
{
	struct box *b = *state;
	FILE *f = fopen(b->path, "we");

	assert_non_null(f);
	for (int i = 0; i < 1000; i++)
		fputs("these are somebody's notes\n", f);
	fclose(f);
	assert_refused(b, ERR_CORRUPT, "cannot be read");
	unlink(b->path);
	sql(b->path, "CREATE TABLE other(x)");
	assert_refused(b, ERR_CORRUPT, "no control database");
}

static void an_older_database_gets_the_steps_it_lacks(void **state)
{
	struct box *b = *state;
	struct err e = {0};
	sqlite3 *db = NULL;
	int version = 0;

	sql(b->path, store_schema_life_1);
	sql(b->path, "PRAGMA application_id = 1836415075; PRAGMA user_version = 1");
	open_it(b);
	close_it(b);
	assert_int_equal(sqlite3_open(b->path, &db), SQLITE_OK);
	assert_int_equal(store_schema_check(db, b->path, &version, &e), 0);
	assert_int_equal(version, store_schema_version());
	sqlite3_close(db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(answers_come_in_order_and_readers_see_them, setup, teardown),
	    cmocka_unit_test_setup_teardown(one_that_fails_takes_nothing_else_with_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_told_as_failed_is_not_there, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_state_follows_what_is_stored, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_close_finishes_what_was_asked, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_kill_loses_nothing_that_was_answered, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_second_process_is_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_newer_database_is_left_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_damaged_database_is_left_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_no_control_database_is_left_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_older_database_gets_the_steps_it_lacks, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
