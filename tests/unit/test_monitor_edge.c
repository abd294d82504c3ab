// tier: check
/*
 * Revocations, as an edge knows them: the centre's newest word, which nobody plays an old one for, and its own, which
 * is on the disk before it is answered. Both outlive a restart and make no time young; what cannot be read refuses the
 * start.
 */
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "muxd/monitor/monitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define WALL   (INT64_C(1800000000) * SECOND)
#define CENTRE "01890a5d-ac96-774b-bcce-b302099a8057"
#define EDGE   "01890a5d-ac96-774b-bcce-b302099a8058"
#define OTHER  "01890a5d-ac96-774b-bcce-b302099a8059"

static const struct proc_ops ops = {.name = "net"};

struct fixture {
	struct monitor m;
	char dir[64];
	uint8_t seed[GRANT_KEY_LEN];
	struct grant_public_key key; /* the centre's */
};

static void write_file(const struct fixture *f, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", f->dir, name);
	assert_int_equal(file_publish(path, text, strlen(text), 0600, FILE_OWNER_SELF, true, NULL), 0);
}

static void start(struct fixture *f)
{
	struct err e = {0};

	time_floor_init(&f->m.floor, 0, clock_wall_ns(), clock_boot_ns());
	if (edge_open(&f->m, &e))
		fail_msg("%s", e.message);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct monitor *m = &f->m;
	char text[256], path[128], *key;

	clock_test_set(1000 * (uint64_t)SECOND, WALL);
	strcpy(f->dir, "/dev/shm/muxd-edge.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(path, sizeof path, "%s/keys", f->dir);
	assert_int_equal(file_mkdir(path, 0755, FILE_OWNER_SELF, NULL), 0);
	assert_int_equal(grant_key_create(f->seed, &f->key), 0);
	key = base64_encode(f->key.key, GRANT_KEY_LEN, true);
	snprintf(text, sizeof text, "{\"centre\":\"" CENTRE "\",\"keys\":[\"%s\"]}", key);
	free(key);
	write_file(f, "centre.json", text);
	snprintf(text, sizeof text, "edge: {centre: \"https://127.0.0.1:1\", centre_keys: %s/centre.json, ca: /none}\n",
		 f->dir);
	assert_int_equal(conf_parse(text, strlen(text), "test", &m->conf, NULL), 0);
	snprintf(m->layout.dir, sizeof m->layout.dir, "%s", f->dir);
	strcpy(m->layout.instance, EDGE);
	m->who.net = m->who.recorder = FILE_OWNER_SELF;
	m->options.edge = true;
	assert_int_equal(uv_loop_init(&m->loop), 0);
	assert_int_equal(proc_init(&m->net, &m->loop, &ops, f), 0);
	assert_int_equal(proc_init(&m->recorder, &m->loop, &ops, f), 0);
	assert_int_equal(audit_create(&m->loop, &m->net, &m->audit), 0);
	start(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	edge_finish(&f->m.edge);
	free(f->m.keys.set.keys);
	audit_destroy(f->m.audit);
	proc_finish(&f->m.net);
	proc_finish(&f->m.recorder);
	uv_run(&f->m.loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&f->m.loop);
	conf_destroy(f->m.conf);
	snprintf(command, sizeof command, "rm -rf %s", f->dir);
	assert_int_equal(system(command), 0);
	clock_test_reset();
	free(f);
	return 0;
}

static void restart(struct fixture *f)
{
	edge_finish(&f->m.edge);
	start(f);
}

/* The centre's word at that time on n leases, the ids of which go on from `first`. */
static int say(struct fixture *f, const char *edge, int64_t at_ns, uint8_t first, size_t n)
{
	struct edge_revoked list[8] = {0};
	struct edge_state s = {.centre = CENTRE, .at_ns = at_ns, .revoked = list, .n = n};
	char *token = NULL;
	struct err e = {0};
	int rc;

	strcpy(s.edge, edge);
	for (size_t i = 0; i < n; i++) {
		list[i].id.b[0] = (uint8_t)(first + i);
		list[i].until_ns = WALL + 600 * SECOND;
	}
	assert_int_equal(edge_state_sign(&s, f->key.kid, f->seed, &token, NULL), 0);
	rc = edge_take_state(&f->m, token, &e);
	grant_token_free(token);
	return rc;
}

static int count_one(void *arg, const struct id *id, int64_t expires_ns)
{
	(void)id, (void)expires_ns;
	(*(int *)arg)++;
	return 0;
}

static int revoked(const struct fixture *f)
{
	int n = 0;

	assert_int_equal(edge_each_revoked(&f->m.edge, count_one, &n), 0);
	return n;
}

static void nothing_is_known_before_the_centre_spoke(void **state)
{
	struct fixture *f = *state;

	assert_true(f->m.edge.state.at_ns == 0);
	assert_int_equal(revoked(f), 0);
}

static void the_newest_word_counts_and_no_older_one(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(say(f, EDGE, WALL, 1, 1), 0);
	assert_int_equal(revoked(f), 1);
	assert_int_equal(say(f, EDGE, WALL + SECOND, 1, 3), 0);
	assert_int_equal(revoked(f), 3);
	assert_int_equal(say(f, EDGE, WALL, 1, 1), ERR_CONFLICT);
	assert_int_equal(say(f, EDGE, WALL + SECOND, 1, 0), ERR_CONFLICT);
	assert_int_equal(say(f, OTHER, WALL + 2 * SECOND, 1, 0), ERR_TOKEN_FOREIGN);
	assert_int_equal(revoked(f), 3);
	assert_int_equal(edge_take_state(&f->m, "nonsense", NULL), ERR_TOKEN_MALFORMED);
	f->seed[0] ^= 1;
	assert_int_equal(say(f, EDGE, WALL + 3 * SECOND, 1, 0), ERR_TOKEN_FORGED);
	assert_int_equal(revoked(f), 3);
}

static void what_takes_something_back_outlives_a_kill(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(say(f, EDGE, WALL, 1, 0), 0);
	assert_int_equal(say(f, EDGE, WALL + SECOND, 1, 2), 0); /* news */
	assert_int_equal(say(f, EDGE, WALL + 2 * SECOND, 1, 2), 0);
	restart(f);
	assert_int_equal(revoked(f), 2);
	assert_true(f->m.edge.state.at_ns == WALL + SECOND); /* no younger than what is on the disk */
	assert_int_equal(say(f, EDGE, WALL + SECOND, 1, 0), ERR_CONFLICT);
	assert_int_equal(say(f, EDGE, WALL + SECOND + EDGE_KEEP_NS, 1, 2), 0);
	restart(f);
	assert_true(f->m.edge.state.at_ns == WALL + SECOND + EDGE_KEEP_NS);
}

static void the_centres_time_is_a_floor_over_a_restart(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(say(f, EDGE, WALL + 50 * SECOND, 1, 1), 0);
	assert_true(floor_now(&f->m.floor) == WALL + 50 * SECOND);
	clock_test_set(1001 * (uint64_t)SECOND, WALL - 3600 * SECOND); /* turned back */
	assert_true(floor_now(&f->m.floor) == WALL + 51 * SECOND);
	restart(f);
	assert_true(floor_now(&f->m.floor) == WALL + 50 * SECOND);
}

static void its_own_revocation_is_on_the_disk_before_the_answer(void **state)
{
	struct fixture *f = *state;
	struct grants_revoked what;
	const struct id lease = {{9, 9}};

	assert_int_equal(edge_revoke(&f->m, &lease, &what, NULL), 0);
	assert_true(id_equal(&what.id, &lease) && what.until_ns > WALL + 24 * 3600 * SECOND);
	assert_int_equal(edge_revoke(&f->m, &lease, &what, NULL), 0); /* again is no error, and no second one */
	assert_int_equal(revoked(f), 1);
	restart(f);
	assert_int_equal(revoked(f), 1);
	assert_int_equal(say(f, EDGE, WALL + SECOND, 1, 2), 0); /* what the centre says leaves it alone */
	assert_int_equal(revoked(f), 3);
}

/* A centre whose clock is wrong, or that is taken over, ends no edge for good. */
static void the_centres_word_moves_time_by_a_minute_at_most(void **state)
{
	struct fixture *f = *state;
	int64_t now = floor_now(&f->m.floor);

	assert_int_equal(say(f, EDGE, now + 3600 * SECOND, 1, 1), ERR_TOKEN_NOT_YET);
	assert_int_equal(revoked(f), 0);
	assert_true(floor_now(&f->m.floor) < now + 60 * SECOND);
	assert_int_equal(say(f, EDGE, now + 30 * SECOND, 1, 1), 0);
	assert_true(floor_now(&f->m.floor) >= now + 30 * SECOND);
}

/* A full disk keeps no lease alive. Until it is kept, whoever asks again is told that a restart would forget it. */
static void one_that_cannot_be_kept_is_in_force(void **state)
{
	struct fixture *f = *state;
	struct grants_revoked what;
	const struct id lease = {{9}};
	size_t n = strlen(f->m.layout.dir);

	strcat(f->m.layout.dir, "/none");
	for (int i = 0; i < 2; i++) {
		assert_true(edge_revoke(&f->m, &lease, &what, NULL) < 0);
		assert_true(what.until_ns > 0);
		assert_int_equal(revoked(f), 1);
	}
	f->m.layout.dir[n] = '\0';
	assert_int_equal(edge_revoke(&f->m, &lease, &what, NULL), 0);
	restart(f);
	assert_int_equal(revoked(f), 1);
}

/* One that the disk had no room for is kept with the centre's next word, though that brings nothing new. */
static void what_was_not_kept_is_with_the_next_word(void **state)
{
	struct fixture *f = *state;
	struct grants_revoked what;
	const struct id lease = {{9}};
	size_t n = strlen(f->m.layout.dir);

	assert_int_equal(say(f, EDGE, WALL + SECOND, 1, 1), 0);
	strcat(f->m.layout.dir, "/none");
	assert_true(edge_revoke(&f->m, &lease, &what, NULL) < 0);
	f->m.layout.dir[n] = '\0';
	assert_int_equal(say(f, EDGE, WALL + 2 * SECOND, 1, 1), 0);
	restart(f);
	assert_int_equal(revoked(f), 2);
}

static void a_file_that_cannot_be_read_refuses_the_start(void **state)
{
	static const char *const texts[] = {"", "{", "[]", "{\"revoked\":1}", "{\"revoked\":[[\"x\",1]]}"};
	struct fixture *f = *state;
	struct err e = {0};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		edge_finish(&f->m.edge);
		write_file(f, "edge.json", texts[i]);
		assert_int_equal(edge_open(&f->m, &e), ERR_CORRUPT);
	}
}

/* After a rotation at the centre: its old word is nobody's any more. Own revocations stay. */
static void a_state_of_a_key_that_is_gone_is_none(void **state)
{
	struct fixture *f = *state;
	struct grants_revoked what;
	const struct id lease = {{9}};
	char text[256], *key;

	assert_int_equal(say(f, EDGE, WALL, 1, 2), 0);
	assert_int_equal(edge_revoke(&f->m, &lease, &what, NULL), 0);
	assert_int_equal(grant_key_create(f->seed, &f->key), 0);
	key = base64_encode(f->key.key, GRANT_KEY_LEN, true);
	snprintf(text, sizeof text, "{\"centre\":\"" CENTRE "\",\"keys\":[\"%s\"]}", key);
	free(key);
	write_file(f, "centre.json", text);
	restart(f);
	assert_true(f->m.edge.state.at_ns == 0);
	assert_int_equal(revoked(f), 1);
}

static void a_file_of_keys_says_what_is_wrong(void **state)
{
	static const char *const texts[] = {"{}", "{\"centre\":\"x\",\"keys\":[]}",
					    "{\"centre\":\"" CENTRE "\",\"keys\":[]}",
					    "{\"centre\":\"" CENTRE "\",\"keys\":[\"x\"]}"};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct err e = {0};

		edge_finish(&f->m.edge);
		write_file(f, "centre.json", texts[i]);
		assert_int_equal(edge_open(&f->m, &e), ERR_CONFIG);
		assert_non_null(strstr(e.message, "edge.centre_keys"));
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(nothing_is_known_before_the_centre_spoke),
	    TEST(the_newest_word_counts_and_no_older_one),
	    TEST(what_takes_something_back_outlives_a_kill),
	    TEST(the_centres_time_is_a_floor_over_a_restart),
	    TEST(its_own_revocation_is_on_the_disk_before_the_answer),
	    TEST(the_centres_word_moves_time_by_a_minute_at_most),
	    TEST(one_that_cannot_be_kept_is_in_force),
	    TEST(what_was_not_kept_is_with_the_next_word),
	    TEST(a_file_that_cannot_be_read_refuses_the_start),
	    TEST(a_state_of_a_key_that_is_gone_is_none),
	    TEST(a_file_of_keys_says_what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
