// tier: check
/*
 * Nothing is said to be absent that may only not be in the record yet: every question by an id, of a recorder whose
 * index lags after a start, that has died, and of a round that the hub remembers by its exec_id.
 */
#include "base/msg.h"
#include "muxd/hub/broker/broker_record.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/setup.h"
#include "tests/lib/hub_rig.h"

#include <pthread.h>

#define FRESH(r) struct hub_rig *r = hub_rig_create(NULL)

/* Answers each question with not_found, until its stream ends. */
struct lagging {
	int fd;
	unsigned asked;
	pthread_t thread;
};

static void *lag(void *arg)
{
	struct lagging *l = arg;
	json_t *no =
	    json_pack("{s:b,s:{s:s,s:s}}", "end", 1, "error", "code", "not_found", "message", "no such session");
	struct buf in;
	struct msg m;
	size_t size;

	buf_init(&in, 1 << 20);
	while (msg_recv(l->fd, &in, &m, &size, NULL) == 0) {
		buf_consume(&in, size);
		__atomic_add_fetch(&l->asked, 1, __ATOMIC_RELAXED);
		if (msg_send_json(l->fd, no, NULL))
			break;
	}
	json_decref(no);
	buf_finish(&in);
	close(l->fd);
	return NULL;
}

static struct recorder_client *lag_begin(struct hub_rig *r, struct lagging *l)
{
	struct recorder_client *c = NULL;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	*l = (struct lagging){.fd = pair[1]};
	assert_int_equal(recorder_client_create(&r->loop, pair[0], NULL, NULL, &c), 0);
	assert_int_equal(pthread_create(&l->thread, NULL, lag, l), 0);
	hub_set_recorder(r->hub, c);
	return c;
}

/* The answer to each way of asking. */
struct answer {
	int n, rc;
	uint64_t at;
};

static void note(struct answer *a, int rc)
{
	a->n++;
	a->rc = rc;
	a->at = clock_boot_ns();
}

static void on_json(void *arg, int rc, const struct err *e, json_t *o)
{
	(void)e, (void)o;
	note(arg, rc);
}

static void on_bytes(void *arg, int rc, const struct err *e, uint64_t offset, const uint8_t *p, size_t n)
{
	(void)e, (void)offset, (void)p, (void)n;
	note(arg, rc);
}

static void on_page(void *arg, int rc, const struct err *e, const uint8_t *p, size_t n, const json_t *end)
{
	(void)e, (void)p, (void)n, (void)end;
	note(arg, rc);
}

enum way { WAIT, PAST, OUTPUT, BYTES, RECORDING, SCREEN, PAGE, WAYS };

static void ask(struct hub *h, enum way way, const struct request *rq, const struct id *id, struct answer *a)
{
	switch (way) {
	case WAIT:
		broker_round_wait(h, rq, id, 0, on_json, a);
		break;
	case PAST:
		broker_past(h, rq, id, -1, on_json, a);
		break;
	case OUTPUT:
		broker_round_output(h, rq, id, &(struct round_read){.stream = STREAM_OUTPUT, .limit = 100}, on_json, a);
		break;
	case BYTES:
		broker_output_bytes(h, rq, id, STREAM_OUTPUT, 0, 100, on_bytes, a);
		break;
	case RECORDING:
		broker_recording(h, rq, id, on_json, a);
		break;
	case SCREEN:
		broker_recording_screen(h, rq, id, 0, on_json, a);
		break;
	default:
		broker_recording_page(h, rq, id, 0, 0, 1000, on_page, a);
	}
}

static void ask_all(struct hub_rig *r, const struct id *id, struct answer answers[WAYS])
{
	struct request rq = hub_request();

	rq.grant.scopes = ~0u;
	memset(answers, 0, WAYS * sizeof(*answers));
	for (enum way w = 0; w < WAYS; w++)
		ask(r->hub, w, &rq, id, &answers[w]);
}

static bool all_answered(const struct answer answers[WAYS])
{
	for (enum way w = 0; w < WAYS; w++)
		if (!answers[w].n)
			return false;
	return true;
}

static void expect_all(struct hub_rig *r, const struct answer answers[WAYS], int rc, uint64_t not_before)
{
	struct patience left = patience_of(20 * NS_PER_SEC);

	while (!all_answered(answers) && !patience_over(&left))
		hub_turn(r);
	for (enum way w = 0; w < WAYS; w++) {
		if (answers[w].n != 1 || answers[w].rc != rc || answers[w].at < not_before)
			fail_msg("way %d: %d answers, %s, %lld ms early", (int)w, answers[w].n, err_name(answers[w].rc),
				 ((long long)not_before - (long long)answers[w].at) / 1000000);
	}
}

static void end(struct hub_rig *r, struct recorder_client *c, struct lagging *l)
{
	hub_set_recorder(r->hub, NULL);
	recorder_client_destroy(c);
	hub_turn(r);
	shutdown(l->fd, SHUT_RDWR);
	pthread_join(l->thread, NULL);
}

static void absent_is_said_after_the_start_alone(void **state)
{
	FRESH(r);
	struct answer answers[WAYS];
	struct lagging l;
	struct recorder_client *c = lag_begin(r, &l);
	struct id id;

	(void)state;
	assert_int_equal(id_new(&id), 0);
	r->hub->recovered_ns = clock_boot_ns();
	ask_all(r, &id, answers);
	expect_all(r, answers, ERR_NOT_FOUND, r->hub->recovered_ns + RECOVERING_NS);
	assert_true(l.asked > WAYS);
	/* Later it is said at once. */
	l.asked = 0;
	ask_all(r, &id, answers);
	expect_all(r, answers, ERR_NOT_FOUND, 0);
	assert_int_equal(l.asked, WAYS);
	end(r, c, &l);
	hub_rig_destroy(r);
}

static void what_is_remembered_is_not_absent(void **state)
{
	FRESH(r);
	struct answer answers[WAYS];
	struct lagging l;
	struct recorder_client *c = lag_begin(r, &l);
	struct id id;

	(void)state;
	assert_int_equal(id_new(&id), 0);
	assert_int_equal(exec_ids_add(r->hub->exec_ids, "demo", "tester", "once", &(struct exec_use){id, "digest", 0}),
			 0);
	ask_all(r, &id, answers);
	expect_all(r, answers, ERR_UNAVAILABLE, 0);
	/* To anybody else the record's word stands: more would tell that there is one. */
	assert_int_equal(id_new(&id), 0);
	assert_int_equal(
	    exec_ids_add(r->hub->exec_ids, "demo", "tester.two", "tester", &(struct exec_use){id, "digest", 0}), 0);
	l.asked = 0;
	ask_all(r, &id, answers);
	expect_all(r, answers, ERR_NOT_FOUND, 0);
	assert_int_equal(l.asked, WAYS);
	end(r, c, &l);
	hub_rig_destroy(r);
}

static void without_a_recorder_nothing_is_absent(void **state)
{
	FRESH(r);
	struct answer answers[WAYS];
	struct lagging l;
	struct recorder_client *c;
	struct id id;

	(void)state;
	assert_int_equal(id_new(&id), 0);
	ask_all(r, &id, answers); /* none yet */
	for (int i = 0; i < 20; i++)
		hub_turn(r);
	for (enum way w = 0; w < WAYS; w++)
		assert_int_equal(answers[w].n, 0);
	r->hub->recovered_ns = 0;
	c = lag_begin(r, &l); /* it comes: they are asked */
	expect_all(r, answers, ERR_NOT_FOUND, 0);
	end(r, c, &l);
	hub_rig_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(absent_is_said_after_the_start_alone),
	    cmocka_unit_test(what_is_remembered_is_not_absent),
	    cmocka_unit_test(without_a_recorder_nothing_is_absent),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
