// tier: check
/* The recorder as a process that is killed, restarted, and asked by an asynchronous client. */
#include "tests/lib/recorder_rig.h"

#include "base/bytes.h"
#include "recorder/index/index_rebuild.h"

#include <sys/mount.h>

static void damage(const struct place *p)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/audit.db", p->record);
	int db = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(db, "garbage garbage", 15, 0), 15);
	close(db);
}

/* arg: how often it is let pass. */
static int count(void *arg, uint64_t done, struct err *e)
{
	uint64_t *left = arg;

	assert_true(done > 0);
	return *left == 0 ? err_set(e, ERR_CANCELLED, "nobody waits") : (--*left, 0);
}

static void making_it_again_tells_how_far_it_is(const struct place *p, uint64_t least)
{
	uint64_t left = 1, all = 1000;
	struct index_progress one = {count, &left}, every = {count, &all};
	struct index *ix = NULL;
	struct err e = {0};

	damage(p);
	assert_int_equal(index_open_or_rebuild(p->record, NULL, &one, &ix, &e), ERR_CANCELLED);
	assert_null(ix);
	assert_int_equal(index_open_or_rebuild(p->record, NULL, &every, &ix, &e), 0); /* from the beginning */
	assert_true(1000 - all >= least);
	index_close(ix);
}

static void damaged_database_is_made_again(void **state)
{
	struct place *p = *state;
	struct id id[3];
	struct answer a;
	recorder_start(p);
	int fd = ask_fd(p);
	for (int i = 0; i < 3; i++) {
		uint64_t at = 0;
		session_open(p, &id[i], "pat", "staff");
		send_pattern(p, &id[i], &at, 10000);
		session_exit(p, &id[i]);
		text(p, RING_AUDIT, &id[i], "{\"event\":\"round.end\",\"principal\":\"pat\"}");
		flush(fd, &id[i]);
	}
	close(fd);
	assert_int_equal(recorder_end(p, 0), 0);
	making_it_again_tells_how_far_it_is(p, 3 + 3);
	damage(p);
	assert_true(recorder_start(p) > 0); /* who waits for it hears that it gets on */
	fd = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	ask(fd, question("sessions", token, NULL), &a);
	assert_int_equal(json_array_size(a.json), 4);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(json_string_value(json_object_get(nth(&a, i), "state")), "sealed");
	answer_finish(&a);
	json_t *q = question("audit", token, NULL);
	json_object_set_new(q, "event", json_string("round.end"));
	ask(fd, q, &a);
	assert_int_equal(json_array_size(a.json), 4);
	answer_finish(&a);
	check_output(fd, token, &id[1], 10000, MIB);
	grant_token_free(token);
	close(fd);
}

#define PAGE 4096

/* Pages of audit.db that hold rows of the audit log: meta: its first page takes the place of the page of table meta. */
static void wrong_pages(const struct place *p, bool meta)
{
	char path[160], page[PAGE];
	static const char nothing[PAGE];
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/audit.db", p->record);
	int db = open(path, O_RDWR | O_CLOEXEC);
	for (off_t at = PAGE; pread(db, page, PAGE, at) == PAGE; at += PAGE) {
		if (page[0] != 0x0d)
			continue;
		n++;
		assert_int_equal(pwrite(db, meta ? page : nothing, PAGE, meta ? PAGE : at), PAGE);
		if (meta)
			break;
	}
	close(db);
	assert_true(n > 0);
}

static size_t rounds(struct place *p, int fd, struct answer *a)
{
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	json_t *q = question("audit", token, NULL);

	json_object_set_new(q, "event", json_string("round.end"));
	ask(fd, q, a);
	grant_token_free(token);
	return json_array_size(a->json) - 1;
}

/* A page that is another one, found by the start; pages that are nothing, found by somebody who asks: made again. */
static void wrong_page_is_found_and_made_again(void **state)
{
	static const struct id nobody;
	struct place *p = *state;
	struct answer a;
	char path[160];
	int status;

	recorder_start(p);
	int fd = ask_fd(p);
	for (int i = 0; i < 200; i++)
		text(p, RING_AUDIT, &nobody, "{\"event\":\"round.end\",\"principal\":\"pat\",\"agent\":\"demo\"}");
	flush(fd, NULL);
	close(fd);
	assert_int_equal(recorder_end(p, 0), 0);
	wrong_pages(p, true);
	recorder_start(p);
	fd = ask_fd(p);
	assert_int_equal(rounds(p, fd, &a), 200);
	answer_finish(&a);
	close(fd);
	assert_int_equal(recorder_end(p, 0), 0);
	recorder_start(p);
	wrong_pages(p, false);
	fd = ask_fd(p);
	(void)rounds(p, fd, &a);
	answer_finish(&a);
	close(fd);
	for (int i = 0; waitpid(p->pid, &status, WNOHANG) == 0; i++) {
		assert_true(i < 2000);
		usleep(5000);
	}
	close(p->ipc);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	snprintf(path, sizeof(path), "%s/audit.db.damaged", p->record);
	assert_int_equal(access(path, F_OK), 0);
	recorder_start(p);
	assert_int_equal(access(path, F_OK), -1);
	fd = ask_fd(p);
	assert_int_equal(rounds(p, fd, &a), 200);
	answer_finish(&a);
	close(fd);
}

static void database_that_was_not_finished_is_made_again(void **state)
{
	struct place *p = *state;
	struct id id[3], open_id;
	uint64_t at = 0;
	char path[160], open_dir[160], away[160], name[ID_STR_LEN];
	struct index *ix;
	struct stat st;
	struct answer a;
	recorder_start(p);
	int fd = ask_fd(p);
	for (int i = 0; i < 3; i++) {
		session_open(p, &id[i], "pat", "staff");
		session_exit(p, &id[i]);
		flush(fd, &id[i]);
	}
	session_open(p, &open_id, "pat", "staff");
	send_pattern(p, &open_id, &at, 10000);
	flush(fd, NULL);
	close(fd);
	assert_int_equal(recorder_end(p, 0), 0);
	snprintf(path, sizeof(path), "%s/audit.db", p->record);
	assert_int_equal(unlink(path), 0);
	/* The last thing that it does fails once. */
	snprintf(open_dir, sizeof(open_dir), "%s/open", p->record);
	snprintf(away, sizeof(away), "%s/away", p->record);
	assert_int_equal(rename(open_dir, away), 0);
	close(open(open_dir, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_true(index_open_or_rebuild(p->record, NULL, NULL, &ix, NULL) < 0);
	assert_int_equal(unlink(open_dir), 0);
	assert_int_equal(rename(away, open_dir), 0);
	recorder_start(p);
	fd = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	json_t *q = question("sessions", token, NULL);
	json_object_set_new(q, "state", json_string("sealed"));
	ask(fd, q, &a);
	assert_int_equal(json_array_size(a.json), 4);
	answer_finish(&a);
	id_format(&open_id, name);
	snprintf(path, sizeof(path), "%s/open/%s.damaged", p->record, name);
	assert_int_equal(stat(path, &st), 0);
	session_exit(p, &open_id);
	flush(fd, &open_id);
	check_output(fd, token, &open_id, at, MIB);
	grant_token_free(token);
	close(fd);
}

/* Killed at random while sessions come and go: nothing missing, nothing twice, every recording verifies. */
static void killed_recorders_seal_everything_once(void **state)
{
	struct place *p = *state;
	enum { SESSIONS = 40 };
	struct id id[SESSIONS];
	uint64_t at[SESSIONS] = {0};
	unsigned seed = 4242, kills = 0;
	recorder_start(p);
	unsigned until_kill = 5;
	for (int i = 0; i < SESSIONS; i++) {
		session_open(p, &id[i], "pat", "staff");
		for (int k = 0; k < 8; k++) {
			int j = i - (int)(rand_r(&seed) % 4);
			if (j < 0)
				j = 0;
			if (j > i - 4)
				send_pattern(p, &id[j], &at[j], rand_r(&seed) % 60000);
			text(p, RING_AUDIT, &id[i], "{\"event\":\"test.audit\",\"principal\":\"pat\"}");
			if (--until_kill)
				continue;
			usleep(rand_r(&seed) % 60000);
			recorder_end(p, SIGKILL);
			kills++;
			recorder_start(p);
			until_kill = 1 + rand_r(&seed) % 30;
		}
		if (i >= 4)
			session_exit(p, &id[i - 4]);
	}
	for (int i = SESSIONS - 4; i < SESSIONS; i++)
		session_exit(p, &id[i]);
	int fd = ask_fd(p);
	flush(fd, &id[SESSIONS - 1]);
	for (int i = 0; i < SESSIONS; i++)
		flush(fd, &id[i]);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	for (int i = 0; i < SESSIONS; i++)
		check_output(fd, token, &id[i], at[i], MIB);
	struct answer a;
	json_t *q = question("audit", token, NULL);
	json_object_set_new(q, "since_seq", json_integer(0));
	json_object_set_new(q, "event", json_string("test.audit"));
	ask(fd, q, &a);
	assert_int_equal(json_array_size(a.json) - 1, SESSIONS * 8);
	answer_finish(&a);
	grant_token_free(token);
	close(fd);
	assert_int_equal(recorder_end(p, 0), 0);
	assert_true(kills > 10);

	struct verify_summary s;
	struct err e = {0};
	struct grant_keyset keys = {&p->record_key, 1};
	if (verify_all(&(struct verify_ask){.dir = p->record, .keys = &keys, .sink = print_finding}, &s, &e))
		fail_msg("%s", e.message);
	assert_true(s.intact);
	assert_true(s.complete);
	assert_int_equal(s.recordings, SESSIONS);
	assert_int_equal(s.open, 0);
}

static void clients_that_do_not_read_hold_up_nobody(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	int stuck[8];
	recorder_start(p);
	int fd = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	session_open(p, &id, "pat", "staff");
	send_pattern(p, &id, &at, 4 * MIB);
	flush(fd, NULL);
	for (size_t i = 0; i < 8; i++) {
		stuck[i] = ask_fd(p);
		json_t *q = question(i % 2 ? "events" : "output", token, &id);
		json_object_set_new(q, "follow", json_true());
		assert_int_equal(msg_send_json(stuck[i], q, NULL), 0);
		json_decref(q);
	}
	uint64_t before = clock_boot_ns();
	send_pattern(p, &id, &at, 20 * MIB);
	session_exit(p, &id);
	flush(fd, &id);
	assert_true(clock_boot_ns() - before < 10 * NS_PER_SEC);
	check_output(fd, token, &id, at, MIB);
	/* And none of them can keep it from ending. */
	assert_int_equal(recorder_end(p, SIGTERM), 0);
	for (size_t i = 0; i < 8; i++)
		close(stuck[i]);
	close(fd);
	grant_token_free(token);
}

static const char *status_state(int fd, char out[16])
{
	struct answer a;
	ask(fd, json_pack("{s:s}", "op", "status"), &a);
	snprintf(out, 16, "%s", json_string_value(json_object_get(nth(&a, 0), "state")));
	answer_finish(&a);
	return out;
}

static void wait_status(int fd, const char *want)
{
	char state[16];
	for (int i = 0; strcmp(status_state(fd, state), want) != 0; i++) {
		if (i > 1000)
			fail_msg("the state is %s, not %s", state, want);
		usleep(10000);
	}
}

/* A file system of 24 MiB of its own; needs root. */
static void full_file_system_loses_nothing(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	char ballast[128];
	if (mount("tmpfs", p->record, "tmpfs", 0, "size=24m,mode=0700") < 0)
		skip();
	recorder_start(p);
	int fd = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	session_open(p, &id, "pat", "staff");
	send_pattern(p, &id, &at, 2 * MIB);
	flush(fd, NULL);
	snprintf(ballast, sizeof(ballast), "%s/ballast", p->record);
	int big = open(ballast, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(big >= 0);
	while (posix_fallocate(big, lseek(big, 0, SEEK_END), 65536) == 0)
		;
	close(big);
	wait_status(fd, "disk_full");
	send_pattern(p, &id, &at, 2 * MIB);
	/* Killed on a full disk as well. */
	recorder_end(p, SIGKILL);
	close(fd);
	send_pattern(p, &id, &at, MIB / 4);
	unlink(ballast);
	recorder_start(p);
	fd = ask_fd(p);
	wait_status(fd, "ok");
	session_exit(p, &id);
	flush(fd, &id);
	check_output(fd, token, &id, at, MIB);
	close(fd);
	grant_token_free(token);
	assert_int_equal(recorder_end(p, 0), 0);
	assert_int_equal(umount2(p->record, MNT_DETACH), 0);
}

struct uv_answer {
	unsigned json, ends;
	int rc;
	struct recorder_client *destroy;
};

static void on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n, bool end)
{
	struct uv_answer *a = arg;
	(void)e, (void)p, (void)n;
	a->json += json != NULL;
	a->ends += end;
	a->rc = rc;
	if (end && a->destroy)
		recorder_client_destroy(a->destroy);
}

static void asynchronous_client_answers_in_order(void **state)
{
	struct place *p = *state;
	struct uv_answer a = {0}, b = {0}, c = {0}, d = {0};
	struct recorder_client *client;
	uv_loop_t loop;
	recorder_start(p);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(recorder_client_create(&loop, ask_fd(p), NULL, NULL, &client), 0);
	json_t *status = json_pack("{s:s}", "op", "status"), *bad = json_pack("{s:s}", "op", "nonsense");
	json_t *recover = json_pack("{s:s}", "op", "recover");
	c.destroy = client;
	assert_int_equal(recorder_client_ask(client, status, on_answer, &a), 0);
	assert_int_equal(recorder_client_ask(client, bad, on_answer, &b), 0);
	assert_int_equal(recorder_client_ask(client, recover, on_answer, &c), 0);
	assert_int_equal(recorder_client_ask(client, status, on_answer, &d), 0);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(a.ends, 1);
	assert_int_equal(a.rc, 0);
	assert_int_equal(b.ends, 1);
	assert_int_equal(b.rc, ERR_INVAL);
	assert_int_equal(c.ends, 1);
	assert_int_equal(d.ends, 1);
	assert_int_equal(d.rc, ERR_CANCELLED); /* destroyed by the one before */
	json_decref(status);
	json_decref(bad);
	json_decref(recover);
	assert_int_equal(uv_loop_close(&loop), 0);
}

/* A stranger has a say in some questions: however long one is, those behind it are answered. */
static void a_long_question_ends_no_conversation(void **state)
{
	static const struct {
		size_t bytes;
		int asked, answered;
	} cases[] = {{100, 0, ERR_INVAL},
		     {64 * 1024, 0, ERR_INVAL},
		     {RECORDER_QUESTION_MAX - 100, 0, ERR_INVAL},
		     {RECORDER_QUESTION_MAX, ERR_TOO_LARGE, 0},
		     {2 * RECORDER_QUESTION_MAX, ERR_TOO_LARGE, 0}};
	struct place *p = *state;
	struct recorder_client *client;
	json_t *status = json_pack("{s:s}", "op", "status");
	uv_loop_t loop;

	recorder_start(p);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(recorder_client_create(&loop, ask_fd(p), NULL, NULL, &client), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct uv_answer long_one = {0}, next = {0};
		char *text = calloc(1, cases[i].bytes + 1);
		memset(text, 'x', cases[i].bytes);
		json_t *q = json_pack("{s:s, s:{s:s}}", "op", "keep", "question", "entries", text);
		assert_int_equal(recorder_client_ask(client, q, on_answer, &long_one), cases[i].asked);
		assert_int_equal(recorder_client_ask(client, status, on_answer, &next), 0);
		while (!next.ends)
			uv_run(&loop, UV_RUN_ONCE);
		assert_int_equal(long_one.rc, cases[i].answered);
		assert_int_equal(next.rc, 0);
		json_decref(q);
		free(text);
	}
	json_decref(status);
	recorder_client_destroy(client);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static void on_lost(void *arg)
{
	++*(int *)arg;
}

/* A message of an answer with so many lists in each other. */
static void say(int fd, unsigned lists, bool end)
{
	char text[512] = "{\"a\":", *p = text + strlen(text);
	uint8_t head[MSG_HEADER];

	memset(p, '[', lists);
	memset(p + lists, ']', lists);
	sprintf(p + 2 * lists, ",\"end\":%s}", end ? "true" : "false");
	put_u32(head, (uint32_t)strlen(text) + 1);
	head[4] = 'J';
	assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* One answer that cannot be read is one question that fails: the others have their own answers, none another's. */
static void an_answer_that_cannot_be_read_fails_alone(void **state)
{
	static const unsigned parts[][3] = {{1}, {100, 100, 1}, {50, 60}, {1, 100}, {2, 3}, {100}};
	static const int told[] = {0, ERR_PROTOCOL, 0, ERR_PROTOCOL, 0, ERR_PROTOCOL};
	struct uv_answer answers[6] = {0};
	json_t *status = json_pack("{s:s}", "op", "status");
	struct recorder_client *client;
	uv_loop_t loop;
	int pair[2], lost = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(recorder_client_create(&loop, pair[0], on_lost, &lost, &client), 0);
	answers[5].destroy = client;
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(recorder_client_ask(client, status, on_answer, &answers[i]), 0);
		for (size_t k = 0; k < 3 && parts[i][k]; k++)
			say(pair[1], parts[i][k], k == 2 || !parts[i][k + 1]);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	assert_int_equal(lost, 0);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(answers[i].ends, 1);
		assert_int_equal(answers[i].rc, told[i]);
	}
	assert_int_equal(answers[2].json, 2);
	assert_int_equal(answers[4].json, 2);
	close(pair[1]);
	json_decref(status);
}

/* A recorder that comes again may be known before the end of its old stream is seen: nobody's question is taken back.
 */
static void a_client_that_is_replaced_lets_ask_again(void **state)
{
	static void (*const ends[])(struct recorder_client *) = {recorder_client_replace, recorder_client_destroy};
	static const int told[] = {ERR_UNAVAILABLE, ERR_CANCELLED};
	struct place *p = *state;
	json_t *status = json_pack("{s:s}", "op", "status");
	uv_loop_t loop;

	recorder_start(p);
	assert_int_equal(uv_loop_init(&loop), 0);
	for (size_t i = 0; i < 2; i++) {
		struct uv_answer a = {0};
		struct recorder_client *client;
		int lost = 0;

		assert_int_equal(recorder_client_create(&loop, ask_fd(p), on_lost, &lost, &client), 0);
		assert_int_equal(recorder_client_ask(client, status, on_answer, &a), 0);
		ends[i](client);
		assert_int_equal(a.ends, 1);
		assert_int_equal(a.rc, told[i]);
		uv_run(&loop, UV_RUN_DEFAULT);
		assert_int_equal(lost, 0);
	}
	json_decref(status);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static void client_tells_when_the_recorder_dies(void **state)
{
	struct place *p = *state;
	struct uv_answer a = {0}, first = {0};
	int lost = 0;
	struct recorder_client *client;
	uv_loop_t loop;
	struct id id;
	recorder_start(p);
	session_open(p, &id, "pat", "staff");
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(recorder_client_create(&loop, ask_fd(p), on_lost, &lost, &client), 0);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	json_t *q = question("audit", token, NULL);
	json_object_set_new(q, "follow", json_true());
	json_t *status = json_pack("{s:s}", "op", "status");
	assert_int_equal(recorder_client_ask(client, status, on_answer, &first), 0);
	assert_int_equal(recorder_client_ask(client, q, on_answer, &a), 0);
	while (!first.ends)
		uv_run(&loop, UV_RUN_ONCE);
	json_decref(status);
	recorder_end(p, SIGKILL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(a.ends, 1);
	assert_int_equal(a.rc, ERR_UNAVAILABLE);
	assert_int_equal(lost, 1);
	assert_int_equal(recorder_client_ask(client, q, on_answer, &a), ERR_UNAVAILABLE);
	recorder_client_destroy(client);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(lost, 1);
	json_decref(q);
	grant_token_free(token);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
#define RECORDER_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)
	const struct CMUnitTest tests[] = {
	    RECORDER_TEST(damaged_database_is_made_again),
	    RECORDER_TEST(wrong_page_is_found_and_made_again),
	    RECORDER_TEST(database_that_was_not_finished_is_made_again),
	    RECORDER_TEST(killed_recorders_seal_everything_once),
	    RECORDER_TEST(clients_that_do_not_read_hold_up_nobody),
	    RECORDER_TEST(full_file_system_loses_nothing),
	    RECORDER_TEST(asynchronous_client_answers_in_order),
	    RECORDER_TEST(a_long_question_ends_no_conversation),
	    cmocka_unit_test(an_answer_that_cannot_be_read_fails_alone),
	    RECORDER_TEST(a_client_that_is_replaced_lets_ask_again),
	    RECORDER_TEST(client_tells_when_the_recorder_dies),
	};
	return cmocka_run_group_tests_name("recorder_process", tests, NULL, NULL);
}
