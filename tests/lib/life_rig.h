/*
 * life_rig.h - lifecycle on a fake world (fake_world.h), a real control.db, a clock that stands still until the test
 * moves it, and a fake hub that counts what it was told. A daemon can be dropped at any moment and made again.
 */
#ifndef TESTS_LIFE_RIG_H
#define TESTS_LIFE_RIG_H

#include "base/clock.h"
#include "base/conf.h"
#include "control/life/life_state.h"
#include "control/store/store.h"
#include "tests/lib/asks.h"
#include "tests/lib/fake_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#define SECOND ((int64_t)NS_PER_SEC)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

struct rig {
	char dir[64], path[96];
	uv_loop_t loop;
	struct conf *conf;
	struct store *store;
	struct life *life;
	struct world world;
	uint64_t boot;
	int64_t wall;
	/* the fake hub */
	struct life_activity act;
	unsigned warned, left, quiesced, thawed, pushes;
	bool frozen, held, freed_frozen;
	unsigned referred;
	int refers_rc;
	int quiesce_rc, audit_rc, push_fails;
	char last_warning[200], last_leave[300];
	json_t *audit;
	bool disk_full; /* of the record: events go into the journal, and no further than `durable` */
	uint64_t durable;
	bool removals_wait; /* the clock is not believed */
	/* what calls answered */
	unsigned answers;
	int rc;
	char message[ERR_MESSAGE_MAX];
	json_t *result;
};

static inline void rig_clock(struct rig *r, int64_t ns)
{
	r->boot += (uint64_t)ns;
	r->wall += ns;
	clock_test_set(r->boot, r->wall);
}

static inline void fh_activity(void *ctx, const char *agent, struct life_activity *out)
{
	(void)agent;
	*out = ((struct rig *)ctx)->act;
}
static inline void fh_warn(void *ctx, const char *agent, const char *text)
{
	struct rig *r = ctx;

	(void)agent;
	r->warned++;
	snprintf(r->last_warning, sizeof(r->last_warning), "%s", text);
}
static inline void fh_quiesce(void *ctx, const char *agent, uint64_t timeout, uint64_t hold, life_host_done *done,
			      void *arg)
{
	struct rig *r = ctx;

	(void)agent, (void)timeout, (void)hold;
	r->quiesced++;
	r->frozen = r->quiesce_rc == LIFE_FROZEN;
	done(arg, r->quiesce_rc, NULL);
}
static inline bool fh_frozen(void *ctx, const char *agent)
{
	(void)agent;
	return ((struct rig *)ctx)->frozen;
}
static inline void fh_thaw(void *ctx, const char *agent)
{
	struct rig *r = ctx;

	(void)agent;
	r->frozen = false;
	r->thawed++;
}
static inline void fh_hold(void *ctx, const char *agent, bool on)
{
	struct rig *r = ctx;

	(void)agent;
	r->held = on;
	r->freed_frozen |= !on && r->frozen;
}
static inline void fh_refers(void *ctx, const char *agent, const struct id *snapshot, const struct id *previous,
			     life_host_done *done, void *arg)
{
	struct rig *r = ctx;

	(void)agent, (void)snapshot, (void)previous;
	r->referred++;
	done(arg, r->refers_rc, NULL);
}
static inline void fh_leave(void *ctx, const char *agent, const char *why, life_host_done *done, void *arg)
{
	struct rig *r = ctx;

	(void)agent;
	r->left++;
	snprintf(r->last_leave, sizeof(r->last_leave), "%s", why);
	done(arg, 0, NULL);
}
static inline int fh_audit(void *ctx, json_t *record)
{
	struct rig *r = ctx;

	if (r->audit_rc)
		json_decref(record);
	else
		json_array_append_new(r->audit, record);
	return r->audit_rc;
}

/* A position is a number of events; what is beyond `durable` would not outlive the machine. */
static inline uint64_t fh_journal(void *ctx, uint64_t *out_durable)
{
	const struct rig *r = ctx;
	uint64_t head = json_array_size(r->audit);

	*out_durable = r->disk_full && r->durable < head ? r->durable : head;
	return head;
}

static inline bool fh_removals_wait(void *ctx)
{
	return ((struct rig *)ctx)->removals_wait;
}

static inline void rig_up(struct rig *r)
{
	struct life_host h = {.ctx = r,
			      .activity = fh_activity,
			      .warn = fh_warn,
			      .quiesce = fh_quiesce,
			      .frozen = fh_frozen,
			      .thaw = fh_thaw,
			      .hold = fh_hold,
			      .refers = fh_refers,
			      .leave = fh_leave,
			      .audit = fh_audit,
			      .removals_wait = fh_removals_wait,
			      .journal = fh_journal};
	struct life_params p = {.loop = &r->loop, .conf = r->conf};
	struct err e = {0};

	if (store_open(&r->loop, r->path, &r->store, &e))
		fail_msg("%s", e.message);
	p.store = r->store;
	p.inner = world_provider(&r->world);
	if (life_create(&p, &r->life, &e))
		fail_msg("%s", e.message);
	life_set_host(r->life, &h);
	life_begin(r->life);
}

static inline void rig_down(struct rig *r)
{
	life_destroy(r->life);
	store_close(r->store);
	r->life = NULL;
	r->store = NULL;
	for (int i = 0; i < 5; i++)
		uv_run(&r->loop, UV_RUN_NOWAIT);
}

/* The store has something of it that nobody holds back. */
static inline bool rig_writing(const struct rig *r)
{
	const struct life_agent *a;

	for (a = r->life->agents; a; a = a->hh.next)
		if (a->run && life_run_writes(a->run))
			return true;
	return !LIST_EMPTY(&r->life->forks);
}

/* One thing happens: an answer of the world, or what the store has finished. */
static inline void rig_step(struct rig *r)
{
	uv_run(&r->loop, UV_RUN_NOWAIT);
	if (!world_step(&r->world))
		usleep(200);
}

/* Until nothing is left to do, or what is left is held by the test. */
static inline void rig_settle(struct rig *r)
{
	for (int quiet = 0, i = 0; quiet < 3 && i < 100000; i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		if (world_step(&r->world))
			quiet = 0;
		else if (rig_writing(r))
			usleep(300);
		else
			quiet++;
	}
}

/* The clock moves in steps, and the timer looks at each. */
static inline void rig_pass(struct rig *r, int64_t ns, int64_t step)
{
	for (int64_t t = 0; t < ns; t += step) {
		rig_clock(r, step);
		life_tick(r->life);
		rig_settle(r);
	}
}

static inline void rig_answer(void *arg, int rc, const struct err *e, json_t *result)
{
	struct rig *r = arg;

	r->answers++;
	r->rc = rc;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	json_decref(r->result);
	r->result = result ? json_incref(result) : NULL;
}
static inline void rig_stream(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	int fd = got->fd;
	int rc = got->rc;
	struct rig *r = arg;

	r->answers++;
	r->rc = rc;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	if (fd >= 0)
		close(fd);
}

static inline void rig_ensure(struct rig *r, const char *agent)
{
	struct sandbox_provider *p = life_provider(r->life);

	ASK(p, rig_stream, r, .op = SANDBOX_ENSURE, .agent = agent);
}
static inline void rig_resume(struct rig *r, const char *agent)
{
	life_resume(r->life, agent, NULL, 0, rig_answer, r);
}
static inline void rig_run(struct rig *r, const char *agent) /* it runs */
{
	rig_resume(r, agent);
	rig_settle(r);
	if (r->rc)
		fail_msg("%s", r->message);
}
static inline void rig_stop(struct rig *r, const char *agent)
{
	life_stop(r->life, agent, "the test wants it", 0, rig_answer, r);
}

static inline struct life_row rig_row(struct rig *r, const char *agent)
{
	struct life_agent *a = life_agent(r->life, agent, NULL);

	assert_non_null(a);
	return a->row;
}
#define assert_state(r, agent, s)                                                                                      \
	assert_string_equal(                                                                                           \
	    life_state_name(rig_row((r), (agent)).generation ? rig_row((r), (agent)).state : LIFE_ERROR),              \
	    life_state_name(s))

static inline unsigned rig_audited(const struct rig *r, const char *event, const char *outcome)
{
	unsigned n = 0;
	json_t *o;
	size_t i;

	json_array_foreach(r->audit, i, o) n += strcmp(json_string_value(json_object_get(o, "event")), event) == 0 &&
						strcmp(json_string_value(json_object_get(o, "outcome")), outcome) == 0;
	return n;
}

static inline int rig_setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	snprintf(r->dir, sizeof(r->dir), "/tmp/test-life.XXXXXX");
	if (!mkdtemp(r->dir) || uv_loop_init(&r->loop) || conf_create(&r->conf))
		return -1;
	snprintf(r->path, sizeof(r->path), "%s/control.db", r->dir);
	TAILQ_INIT(&r->world.queue);
	r->audit = json_array();
	r->boot = 1000 * (uint64_t)SECOND;
	r->wall = INT64_C(1800000000) * SECOND;
	clock_test_set(r->boot, r->wall);
	rig_up(r);
	rig_settle(r);
	*state = r;
	return 0;
}

static inline int rig_teardown(void **state)
{
	struct rig *r = *state;
	char cmd[128];
	unsigned violations = r->world.violations;

	rig_down(r);
	clock_test_reset();
	uv_run(&r->loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&r->loop))
		return -1;
	conf_destroy(r->conf);
	json_decref(r->audit);
	json_decref(r->result);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", r->dir);
	(void)!system(cmd);
	free(r);
	return violations ? -1 : 0;
}

#endif
