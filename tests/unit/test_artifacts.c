// tier: check
/* Artifacts below the hub: names, wishes, a put from its first byte to its row, what a start sweeps. */
#include "base/conf.h"
#include "base/err.h"
#include "control/artifacts/artifact_wish.h"
#include "control/artifacts/artifacts.h"
#include "control/store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define DAY_NS INT64_C(86400000000000)

struct rig {
	uv_loop_t loop;
	struct store *store;
	struct artifacts *a;
	struct conf *conf;
	char dir[64], files[96], db[96];
	int64_t now;
	bool waits; /* the clock is not believed */
	int rc;     /* of the last answer; 1: none yet */
	json_t *row;
};

static int64_t rig_now(void *ctx)
{
	return ((struct rig *)ctx)->now;
}

static bool rig_waits(void *ctx)
{
	return ((struct rig *)ctx)->waits;
}

static void rig_open(struct rig *r)
{
	const struct artifacts_clock clock = {.now = rig_now, .waits = rig_waits, .ctx = r};
	struct artifacts_params p = {.loop = &r->loop, .dir = r->files, .conf = r->conf};
	struct err e = {0};

	if (store_open(&r->loop, r->db, &r->store, &e))
		fail_msg("%s", e.message);
	p.store = r->store;
	if (artifacts_create(&p, &r->a, &e))
		fail_msg("%s", e.message);
	artifacts_begin(r->a, &clock);
}

static void rig_close(struct rig *r)
{
	artifacts_stop(r->a);
	store_close(r->store);
	artifacts_destroy(r->a);
	for (int i = 0; i < 200 && uv_run(&r->loop, UV_RUN_NOWAIT); i++)
		usleep(1000);
}

static int setup(void **state)
{
	static const char text[] = "artifacts: {size_max: 1MiB, task_size: 2MiB, task_max: 3, keep: 1h}\n";
	struct rig *r = calloc(1, sizeof(*r));
	struct err e = {0};

	assert_non_null(r);
	assert_int_equal(uv_loop_init(&r->loop), 0);
	snprintf(r->dir, sizeof(r->dir), "/tmp/muxd-artifacts.XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(r->files, sizeof(r->files), "%s/artifacts", r->dir);
	snprintf(r->db, sizeof(r->db), "%s/control.db", r->dir);
	if (conf_parse(text, strlen(text), "muxd.yaml", &r->conf, &e))
		fail_msg("%s", e.message);
	r->now = DAY_NS;
	rig_open(r);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;
	char command[128];

	rig_close(r);
	json_decref(r->row);
	conf_destroy(r->conf);
	assert_int_equal(uv_loop_close(&r->loop), 0);
	snprintf(command, sizeof(command), "rm -rf %s", r->dir);
	assert_int_equal(system(command), 0);
	free(r);
	return 0;
}

/* Names of the directory; part: those that are no whole file. */
static unsigned files_of(const struct rig *r, bool part)
{
	DIR *d = opendir(r->files);
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *o; (o = readdir(d));)
		n += o->d_name[0] != '.' && (strstr(o->d_name, ".part") != NULL) == part;
	closedir(d);
	return n;
}

static void touch(const struct rig *r, const char *name)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", r->files, name);
	fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
	assert_true(fd >= 0);
	close(fd);
}

/* ---- putting */

static void on_ready(void *arg)
{
	(void)arg;
}

static void on_done(void *arg, int rc, const struct err *e, const json_t *row)
{
	struct rig *r = arg;

	(void)e;
	r->rc = rc;
	json_decref(r->row);
	r->row = row ? json_deep_copy(row) : NULL;
}

static const struct artifact_writer_ops ops = {.ready = on_ready, .done = on_done};

static int begin_spec(struct rig *r, const struct artifact_spec *spec, struct artifact_writer **out)
{
	struct err e = {0};

	r->rc = 1;
	return artifact_write(r->a, spec, &ops, r, out, &e);
}

static int begin(struct rig *r, const char *name, uint64_t size, struct artifact_writer **out)
{
	struct artifact_spec spec = {.task = "t", .name = name, .principal = "p", .size = size, .any_owner = true};

	return begin_spec(r, &spec, out);
}

static int feed(struct rig *r, struct artifact_writer *w, size_t n, char with)
{
	uint8_t piece[4096];
	struct err e = {0};

	memset(piece, with, sizeof(piece));
	while (n) {
		ssize_t took = artifact_writer_take(w, piece, n < sizeof(piece) ? n : sizeof(piece), &e);

		if (took < 0)
			return (int)took;
		n -= (size_t)took;
		if (!took)
			uv_run(&r->loop, UV_RUN_ONCE);
	}
	return 0;
}

static int put_spec(struct rig *r, const struct artifact_spec *spec, size_t n, char with)
{
	struct artifact_writer *w = NULL;
	int rc = begin_spec(r, spec, &w);

	if (rc)
		return rc;
	rc = feed(r, w, n, with);
	if (rc) {
		artifact_writer_abort(w);
		return rc;
	}
	artifact_writer_finish(w);
	while (r->rc == 1)
		uv_run(&r->loop, UV_RUN_ONCE);
	return r->rc;
}

static int put(struct rig *r, const char *name, size_t n, char with)
{
	struct artifact_spec spec = {
	    .task = "t", .name = name, .principal = "p", .size = UINT64_MAX, .any_owner = true};

	return put_spec(r, &spec, n, with);
}

/* A file that was replaced, or whose content is there already, is removed behind the answer. */
static void settle(struct rig *r, unsigned files)
{
	for (int i = 0; i < 3000 && (files_of(r, true) || files_of(r, false) != files); i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	assert_int_equal(files_of(r, true), 0);
	assert_int_equal(files_of(r, false), files);
}

static void test_put(void **state)
{
	struct rig *r = *state;

	assert_int_equal(put(r, "a", 700000, 'x'), 0);
	assert_int_equal(json_integer_value(json_object_get(r->row, "size")), 700000);
	assert_int_equal(put(r, "b", 700000, 'x'), 0);
	settle(r, 1); /* the same content */
	assert_int_equal(put(r, "a", 10, 'y'), 0);
	assert_true(json_is_true(json_object_get(r->row, "replaced")));
	settle(r, 2);
}

static void test_caps(void **state)
{
	struct artifact_writer *w = NULL;
	struct rig *r = *state;

	assert_int_equal(begin(r, "a", 2 * 1024 * 1024, &w), ERR_TOO_LARGE);
	assert_int_equal(put(r, "a", 1024 * 1024 + 1, 'x'), ERR_TOO_LARGE);
	assert_int_equal(put(r, "a", 900000, 'x'), 0);
	assert_int_equal(put(r, "b", 900000, 'y'), 0);
	assert_int_equal(put(r, "c", 900000, 'z'), ERR_ARTIFACTS_FULL);
	assert_int_equal(put(r, "c", 0, 'z'), 0);
	assert_int_equal(put(r, "d", 0, 'z'), ERR_LIMIT); /* a count */
	assert_int_equal(put(r, "c", 1, 'z'), 0);         /* in its own place there is one */
	settle(r, 3);
}

/* By that principal, of the agent "art", in a task of its own; who is called staff stands apart. */
static int put_share(struct rig *r, const char *principal, const char *name)
{
	struct artifact_spec spec = {.task = name,
				     .name = name,
				     .principal = principal,
				     .agent = "art",
				     .size = UINT64_MAX,
				     .apart = strncmp(principal, "staff", 5) == 0};

	return put_spec(r, &spec, 10, *name);
}

/* An agent that keeps files leaves staff their artifacts of it, and what they keep leaves the agent its share. */
static void test_staff_stand_apart(void **state)
{
	struct rig *r = *state;

	r->conf->share_artifacts[CONF_SHARE_AGENT] = 1;
	artifacts_set_conf(r->a, r->conf);
	assert_int_equal(put_share(r, "staff.olga", "s1"), 0);
	assert_int_equal(put_share(r, "bot", "a1"), 0);
	assert_int_equal(put_share(r, "bot", "a2"), ERR_LIMIT);
	assert_int_equal(put_share(r, "other", "a3"), ERR_LIMIT);
	assert_int_equal(put_share(r, "bot", "a1"), 0); /* in its own place */
	assert_int_equal(put_share(r, "staff.olga", "s2"), 0);
	r->conf->share_artifacts[CONF_SHARE_AGENT] = 0;
	r->conf->share_artifact_size[CONF_SHARE_AGENT] = 15;
	artifacts_set_conf(r->a, r->conf);
	assert_int_equal(put_share(r, "bot", "a2"), ERR_ARTIFACTS_FULL);
	assert_int_equal(put_share(r, "staff.piet", "s3"), 0);
}

/* A principal and those that it made grants for have one share; who is merely called alike has another. */
static void test_children_share(void **state)
{
	struct rig *r = *state;

	r->conf->share_artifacts[CONF_SHARE_PRINCIPAL] = 2;
	artifacts_set_conf(r->a, r->conf);
	assert_int_equal(put_share(r, "bot/1", "a1"), 0);
	assert_int_equal(put_share(r, "bot/2", "a2"), 0);
	assert_int_equal(put_share(r, "bot/3", "a3"), ERR_LIMIT);
	assert_int_equal(put_share(r, "bot", "a4"), ERR_LIMIT);
	assert_int_equal(put_share(r, "bot/1", "a1"), 0); /* in its own place */
	assert_int_equal(put_share(r, "bot2", "a5"), 0);
	assert_int_equal(put_share(r, "bot.1", "a6"), 0);
	assert_int_equal(put_share(r, "bo", "a7"), 0);
}

static void test_abort_and_stop(void **state)
{
	struct artifact_writer *w = NULL, *v = NULL;
	struct rig *r = *state;

	assert_int_equal(begin(r, "a", UINT64_MAX, &w), 0);
	assert_int_equal(feed(r, w, 600000, 'x'), 0);
	artifact_writer_abort(w);
	settle(r, 0);
	assert_int_equal(begin(r, "b", UINT64_MAX, &w), 0);
	assert_int_equal(feed(r, w, 300000, 'x'), 0);
	assert_int_equal(begin(r, "c", UINT64_MAX, &v), 0);
	assert_int_equal(feed(r, v, 300000, 'x'), 0);
	artifact_writer_finish(v);
	artifacts_stop(r->a);
	assert_int_equal(r->rc, ERR_CANCELLED);
	assert_int_equal(feed(r, w, 1, 'x'), ERR_CANCELLED);
	artifact_writer_abort(w);
	rig_close(r);
	rig_open(r);
	assert_int_equal(files_of(r, true) + files_of(r, false), 0);
}

static void test_sweep(void **state)
{
	struct rig *r = *state;

	/* control.db names nothing at all: whole files stay, beginnings go. */
	touch(r, "0193aaaa-0000-7000-8000-000000000001.part");
	touch(r,
	      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.0193aaaa-0000-7000-8000-000000000001");
	rig_close(r);
	rig_open(r);
	assert_int_equal(files_of(r, true), 0);
	assert_int_equal(files_of(r, false), 1);
	assert_int_equal(put(r, "a", 5, 'x'), 0);
	rig_close(r);
	rig_open(r);
	assert_int_equal(files_of(r, false), 1); /* the artifact's own */
}

static void test_expiry(void **state)
{
	struct rig *r = *state;
	json_t *row = NULL;
	struct err e = {0};

	assert_int_equal(put(r, "a", 5, 'x'), 0);
	assert_int_equal(artifact_show(r->a, "t", "a", NULL, &row, &e), 0);
	json_decref(row);
	assert_int_equal(artifact_show(r->a, "t", "a", "somebody", &row, &e), ERR_NOT_FOUND);
	r->now += DAY_NS;
	r->waits = true; /* of a clock that ran ahead: it is there, is shown, and is there again once that is right */
	for (int i = 0; i < 250; i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(10000);
	}
	assert_int_equal(files_of(r, false), 1);
	assert_int_equal(artifact_show(r->a, "t", "a", NULL, &row, &e), 0);
	json_decref(row);
	r->now -= DAY_NS;
	r->waits = false;
	assert_int_equal(artifact_show(r->a, "t", "a", NULL, &row, &e), 0);
	json_decref(row);
	r->now += DAY_NS;
	assert_int_equal(artifact_show(r->a, "t", "a", NULL, &row, &e), ERR_NOT_FOUND);
	for (int i = 0; i < 300 && files_of(r, false); i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(10000);
	}
	assert_int_equal(files_of(r, false), 0);
}

/* ---- reading */

struct reading {
	struct artifact_reader *r;
	size_t got;
	int rc; /* of what failed */
};

static void on_readable(void *arg)
{
	struct reading *g = arg;
	const uint8_t *p;
	size_t n;

	while ((n = artifact_reader_peek(g->r, &p))) {
		g->got += n;
		artifact_reader_consume(g->r, n);
	}
}

static void on_failed(void *arg, int rc, const struct err *e)
{
	(void)e;
	((struct reading *)arg)->rc = rc;
}

static const struct artifact_reader_ops reading_ops = {.readable = on_readable, .failed = on_failed};

static int read_begin(struct rig *r, const char *name, struct reading *g)
{
	json_t *row = NULL;
	struct err e = {0};
	int rc = artifact_show(r->a, "t", name, NULL, &row, &e);

	*g = (struct reading){0};
	if (!rc)
		rc = artifact_read(r->a, row, 0, (uint64_t)json_integer_value(json_object_get(row, "size")),
				   &reading_ops, g, &g->r, &e);
	json_decref(row);
	return rc;
}

static void read_end(struct rig *r, struct reading *g, size_t size)
{
	for (int i = 0; i < 3000 && !g->rc && g->got < size; i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	assert_int_equal(g->rc, 0);
	assert_int_equal(g->got, size);
	artifact_reader_end(g->r);
}

#define POOL 64 /* more than the pool has threads */

struct plug {
	uv_work_t work[POOL];
	uv_sem_t go;
	int over;
};

static void plug_on_work(uv_work_t *w)
{
	uv_sem_wait(&((struct plug *)w->data)->go);
}

static void plug_on_worked(uv_work_t *w, int status)
{
	(void)status;
	((struct plug *)w->data)->over++;
}

static void remove_files(const struct rig *r)
{
	char command[160];

	snprintf(command, sizeof(command), "rm -f %s/*", r->files);
	assert_int_equal(system(command), 0);
}

/* The pool is busy, so whoever reads comes to its first byte long after the file's name went: as with a put of the same
 * name, a deletion or an expiry that comes between. */
static void test_read_while_it_goes(void **state)
{
	static struct plug plug;
	struct rig *r = *state;
	struct reading g, replaced;

	assert_int_equal(put(r, "a", 600000, 'x'), 0);
	assert_int_equal(uv_sem_init(&plug.go, 0), 0);
	for (int i = 0; i < POOL; i++) {
		plug.work[i].data = &plug;
		assert_int_equal(uv_queue_work(&r->loop, &plug.work[i], plug_on_work, plug_on_worked), 0);
	}
	assert_int_equal(read_begin(r, "a", &g), 0);
	remove_files(r);
	for (int i = 0; i < POOL; i++)
		uv_sem_post(&plug.go);
	while (plug.over < POOL)
		uv_run(&r->loop, UV_RUN_ONCE);
	uv_sem_destroy(&plug.go);
	read_end(r, &g, 600000);

	/* Somebody else's hand: told before anything is answered, not in the middle. */
	assert_int_equal(read_begin(r, "a", &g), ERR_CORRUPT);

	assert_int_equal(put(r, "b", 700000, 'y'), 0);
	assert_int_equal(read_begin(r, "b", &replaced), 0);
	assert_int_equal(put(r, "b", 5, 'z'), 0);
	settle(r, 1);
	read_end(r, &replaced, 700000);
}

/* ---- pure */

static void test_names(void **state)
{
	static const char *const good[] = {"a", "a.tar.gz", "Bericht \xc3\xa4", "...", "-"};
	static const char *const bad[] = {"",   ".",    "..",   "a/b",           "a\\b",   " a",
					  "a ", "a\nb", "\xff", "a\xe2\x80\xae", "\x1b[0m"};
	char longest[ARTIFACT_NAME_MAX + 2];
	struct err e = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(artifact_name_check(good[i], &e), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(artifact_name_check(bad[i], &e), ERR_INVAL);
	memset(longest, 'n', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(artifact_name_check(longest, &e), ERR_INVAL);
	longest[ARTIFACT_NAME_MAX] = '\0';
	assert_int_equal(artifact_name_check(longest, &e), 0);
}

static int check_wishes(const char *text, struct err *e)
{
	struct schema s = {.e = e};
	struct schema_at at = {.key = "artifacts"};
	json_t *list = json_loads(text, 0, NULL);
	int rc = artifact_wishes_check(&s, &at, list);

	json_decref(list);
	return rc;
}

static void test_wishes(void **state)
{
	static const char *const bad[] = {
	    "[7]",
	    "[{}]",
	    "[{\"name\": \"a\"}]",
	    "[{\"name\": \"a\", \"path\": \"p\", \"stream\": \"stdout\"}]",
	    "[{\"name\": \"a\", \"stream\": \"stdin\"}]",
	    "[{\"name\": \"a/b\", \"path\": \"p\"}]",
	    "[{\"name\": \"a\", \"path\": \"p\"}, {\"name\": \"a\", \"path\": \"q\"}]",
	    "[{\"name\": \"a\", \"path\": \"p\", \"more\": 1}]",
	};
	struct err e = {0};

	(void)state;
	assert_int_equal(
	    check_wishes("[{\"name\": \"a\", \"path\": \"p\"}, {\"name\": \"b\", \"stream\": \"stderr\"}]", &e), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(check_wishes(bad[i], &e), ERR_INVAL);
		assert_int_equal(strncmp(e.message, "/artifacts/", 11), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_wishes),
	    cmocka_unit_test_setup_teardown(test_put, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_caps, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_staff_stand_apart, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_children_share, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_abort_and_stop, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_expiry, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_read_while_it_goes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
