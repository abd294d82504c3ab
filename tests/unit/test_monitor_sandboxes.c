// tier: check
/* The monitor's queue of sandbox jobs, on real sandboxes: one agent's in order, several agents' beside each other. */
#include "tests/lib/local_box.h"

#include "muxd/monitor/sandboxes.h"

#include <fcntl.h>
#include <sys/file.h>

#define AGENTS 6

struct seen {
	struct sandboxes *s;
	int order;  /* of answers, over all */
	int failed; /* the first that did not give what it had to */
	struct err e;
};

struct step {
	struct seen *seen;
	enum sandbox_job job;
	int wanted; /* rc */
	int place;  /* in which it was answered; -1: not yet */
	enum sandbox_state state;
};

static void on_step(void *arg, const struct sandboxes_answer *a)
{
	struct step *p = arg;

	p->place = p->seen->order++;
	p->state = a->info.state;
	if (a->rc != p->wanted && !p->seen->failed) {
		p->seen->failed = 1;
		p->seen->e = a->err;
		print_message("job %d: %s: %s\n", (int)p->job, err_name(a->rc), a->err.message);
	}
}

static void put(struct step *p, struct seen *seen, struct sandbox_question q, int wanted)
{
	*p = (struct step){.seen = seen, .job = q.job, .wanted = wanted, .place = -1};
	assert_int_equal(sandboxes_ask(seen->s, &q, on_step, p), 0);
}

/* The queue took the box's sandboxes with it. */
static void box_local_again(struct box *b, struct sandboxes *s)
{
	sandboxes_destroy(s);
	b->l = box_local(b, true);
}

static void test_order(void **state)
{
	enum { STEPS = 7 };
	struct step steps[AGENTS][STEPS], last, after;
	struct seen seen = {0};
	struct id ids[AGENTS];
	struct box b;
	uv_loop_t loop;

	(void)state;
	box_open(&b, "queue");
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(sandboxes_create(&loop, b.l, &seen.s), 0);
	for (int i = 0; i < AGENTS; i++) {
		char name[24];
		struct sandbox_question q = {.agent = name, .from = name, .timeout_ns = 60 * NS_PER_SEC};
		struct step *p = steps[i];
		/* Any two of these the other way round, and one of them fails. */
		static const enum sandbox_job jobs[STEPS] = {JOB_ENSURE,  JOB_SNAPSHOT, JOB_DESTROY, JOB_DROP_WORKSPACE,
							     JOB_RESTORE, JOB_ENSURE,   JOB_DESTROY};

		snprintf(name, sizeof(name), "agent-%d", i);
		assert_int_equal(id_new(&ids[i]), 0);
		q.snapshot = ids[i];
		for (int k = 0; k < STEPS; k++) {
			q.job = jobs[k];
			put(&p[k], &seen, q, 0);
		}
	}
	put(&last, &seen, (struct sandbox_question){.job = JOB_NOTHING}, 0);
	put(&after, &seen, (struct sandbox_question){.job = JOB_STAT, .agent = "agent-0"}, 0);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);

	assert_false(seen.failed);
	assert_true(sandboxes_idle(seen.s));
	for (int i = 0; i < AGENTS; i++)
		for (int k = 1; k < STEPS; k++)
			assert_true(steps[i][k].place > steps[i][k - 1].place);
	assert_int_equal(last.place, AGENTS * STEPS); /* after all that came before */
	assert_int_equal(after.place, AGENTS * STEPS + 1);
	assert_int_equal(after.state, SANDBOX_STOPPED);
	box_local_again(&b, seen.s);
	assert_int_equal(uv_loop_close(&loop), 0);
	box_wipe(&b);
	assert_nothing_left();
}

/* Copies take two workers at the most; a start asked for after ten of them is not the last to be answered. */
static void test_copies_leave_room(void **state)
{
	enum { COPIES = 10 };
	struct step copies[COPIES], start;
	struct seen seen = {0};
	struct id id;
	struct box b;
	uv_loop_t loop;

	(void)state;
	box_open(&b, "room");
	for (int i = 0; i < COPIES; i++) {
		char name[24];

		snprintf(name, sizeof(name), "agent-%d", i);
		ask(&b, name, "head -c 10M /dev/urandom > f");
	}
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(sandboxes_create(&loop, b.l, &seen.s), 0);
	assert_int_equal(id_new(&id), 0);
	for (int i = 0; i < COPIES; i++) {
		char name[24];

		snprintf(name, sizeof(name), "agent-%d", i);
		put(&copies[i], &seen,
		    (struct sandbox_question){
			.job = JOB_SNAPSHOT, .agent = name, .snapshot = id, .timeout_ns = 60 * NS_PER_SEC},
		    0);
	}
	/* Of the last one, whose copy waits: a question about it does not. */
	put(&start, &seen, (struct sandbox_question){.job = JOB_CONNECT, .agent = "agent-9"}, 0);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_false(seen.failed);
	assert_true(start.place < COPIES);
	box_local_again(&b, seen.s);
	assert_int_equal(uv_loop_close(&loop), 0);
	box_wipe(&b);
	assert_nothing_left();
}

struct held {
	struct step step;
	int fd; /* of the image's directory, whose lock an unpacking has for as long as it takes */
};

static void on_started(void *arg, const struct sandboxes_answer *a)
{
	struct held *h = arg;

	on_step(&h->step, a);
	assert_int_equal(flock(h->fd, LOCK_UN), 0);
}

/* However many starts wait for one image to be unpacked, one that needs none does not. */
static void test_unpackings_leave_room(void **state)
{
	enum { STARTS = SANDBOX_WORKERS + 2 };
	static const char hex[] = "1111111111111111111111111111111111111111111111111111111111111111";
	char name_of[] = "slow", archive[] = "/nowhere.tar", digest[80], path[300];
	struct conf_image image = {.name = name_of, .archive = archive, .digest = digest};
	struct sandbox_question q = {.job = JOB_ENSURE, .image = &image, .image_size = 1 << 20};
	struct step starts[STARTS];
	struct seen seen = {0};
	struct held other;
	struct box b;
	uv_loop_t loop;

	(void)state;
	box_open(&b, "unpack");
	snprintf(digest, sizeof(digest), "sha256:%s", hex);
	snprintf(path, sizeof(path), "%s/images/%s", b.dir, hex);
	assert_int_equal(mkdir(path, 0700), 0);
	other = (struct held){{.seen = &seen, .job = JOB_ENSURE, .place = -1}, open(path, O_RDONLY | O_CLOEXEC)};
	assert_int_equal(flock(other.fd, LOCK_EX), 0);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(sandboxes_create(&loop, b.l, &seen.s), 0);
	for (int i = 0; i < STARTS; i++) {
		char name[24];

		snprintf(name, sizeof(name), "agent-%d", i);
		q.agent = name;
		put(&starts[i], &seen, q, ERR_IMAGE);
	}
	assert_int_equal(
	    sandboxes_ask(seen.s, &(struct sandbox_question){.job = JOB_ENSURE, .agent = "other"}, on_started, &other),
	    0);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_false(seen.failed);
	assert_int_equal(other.step.place, 0);
	close(other.fd);
	box_local_again(&b, seen.s);
	assert_int_equal(uv_loop_close(&loop), 0);
	box_wipe(&b);
	assert_nothing_left();
}

static void on_counted(void *arg, const struct sandboxes_answer *a)
{
	(void)a;
	++*(int *)arg;
}

/* A caller that asks much about one agent, or about many, keeps nobody else's sandbox from its start or its end. */
static void test_full(void **state)
{
	static const enum sandbox_job own[] = {JOB_LIST, JOB_DESTROY_ALL, JOB_NOTHING};
	struct sandbox_question stat = {.job = JOB_STAT, .agent = "demo"}, run = {.job = JOB_DESTROY, .run = true};
	const int most = SANDBOX_JOBS_OF_ONE - SANDBOX_KEPT_OF_ONE, all = SANDBOX_JOBS_MAX - SANDBOX_JOBS_KEPT;
	struct sandboxes *s;
	char name[24];
	uv_loop_t loop;
	int answered = 0, asked = 0;

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(sandboxes_create(&loop, NULL, &s), 0);
	/* Nothing is answered before the loop runs; the first ones are with the workers. */
	while (sandboxes_ask(s, &stat, on_counted, &answered) == 0)
		asked++;
	assert_int_equal(asked, most + SANDBOX_WORKERS);
	run.agent = "demo";
	for (int i = 0; i < SANDBOX_KEPT_OF_ONE; i++, asked++)
		assert_int_equal(sandboxes_ask(s, &run, on_counted, &answered), 0);
	assert_int_equal(sandboxes_ask(s, &run, on_counted, &answered), ERR_AGAIN);

	stat.agent = run.agent = name;
	for (; asked < all; asked++) {
		snprintf(name, sizeof(name), "agent-%d", asked);
		assert_int_equal(sandboxes_ask(s, &stat, on_counted, &answered), 0);
	}
	snprintf(name, sizeof(name), "another");
	assert_int_equal(sandboxes_ask(s, &stat, on_counted, &answered), ERR_AGAIN);
	assert_int_equal(sandboxes_ask(s, &(struct sandbox_question){.job = JOB_LIST}, on_counted, &answered),
			 ERR_AGAIN); /* net's */
	for (; asked < SANDBOX_JOBS_MAX; asked++) {
		snprintf(name, sizeof(name), "run-%d", asked);
		assert_int_equal(sandboxes_ask(s, &run, on_counted, &answered), 0);
	}
	assert_int_equal(sandboxes_ask(s, &run, on_counted, &answered), ERR_AGAIN);
	for (int i = 0; i < 3; i++) {
		struct sandbox_question q = {.job = own[i], .urgent = true};

		assert_int_equal(sandboxes_ask(s, &q, on_counted, &answered), 0);
	}
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(answered, SANDBOX_JOBS_MAX + 3);
	assert_true(sandboxes_idle(s));
	sandboxes_destroy(s);
	assert_int_equal(uv_loop_close(&loop), 0);
}

/*
 * Behind a restore and a start of its own agent waits what lifecycle's run looks at, which goes by it; not what
 * anybody else asks.
 */
static void test_questions_do_not_wait(void **state)
{
	enum { STEPS = 5 };
	static const enum sandbox_job jobs[STEPS] = {JOB_ENSURE, JOB_SNAPSHOT, JOB_DESTROY, JOB_RESTORE, JOB_DESTROY};
	struct sandbox_question q = {.agent = "demo", .from = "demo", .timeout_ns = 60 * NS_PER_SEC, .run = true};
	struct step steps[STEPS], looked, seen_by_all, log;
	struct seen seen = {0};
	struct box b;
	uv_loop_t loop;

	(void)state;
	box_open(&b, "look");
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(sandboxes_create(&loop, b.l, &seen.s), 0);
	assert_int_equal(id_new(&q.snapshot), 0);
	for (int i = 0; i < STEPS; i++) {
		q.job = jobs[i];
		put(&steps[i], &seen, q, 0);
	}
	q.job = JOB_STAT;
	put(&looked, &seen, q, 0);
	put(&seen_by_all, &seen, (struct sandbox_question){.job = JOB_STAT, .agent = "demo"}, 0);
	put(&log, &seen, (struct sandbox_question){.job = JOB_LOG, .agent = "demo", .max = 1000}, ERR_NOT_FOUND);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_false(seen.failed);
	assert_true(seen_by_all.place < steps[1].place);
	assert_true(log.place < steps[1].place);
	assert_int_equal(looked.place, STEPS + 2);
	assert_int_equal(looked.state, SANDBOX_STOPPED);
	box_local_again(&b, seen.s);
	assert_int_equal(uv_loop_close(&loop), 0);
	box_wipe(&b);
	assert_nothing_left();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_full),
	    cmocka_unit_test_teardown(test_order, box_leftover),
	    cmocka_unit_test_teardown(test_copies_leave_room, box_leftover),
	    cmocka_unit_test_teardown(test_unpackings_leave_room, box_leftover),
	    cmocka_unit_test_teardown(test_questions_do_not_wait, box_leftover),
	};
	int rc;

	if (!box_begin(argc, argv, &rc))
		return rc;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	return box_end(rc);
}
