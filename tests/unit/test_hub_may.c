// tier: check
/*
 * Grants that type on a round and those that may not, input that nobody reads or has room for, events that are shown
 * before they are in the record, and what is still asked for when the hub goes.
 */
#include "tests/lib/hub_rig.h"

#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/policy.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/broker_context.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/session/session_json.h"
#include "muxd/hub/session/transfer.h"
#include "muxd/hub/setup.h"
#include "policy/profile.h"

#define FRESH(r) struct hub_rig *r = hub_rig_create(NULL)

static struct request may(uint32_t scopes)
{
	struct request rq = hub_request();

	rq.grant.scopes = scopes;
	return rq;
}

/* sh -c command as a round, with what else spec says. */
static void start(struct hub_rig *r, struct hub_client *c, const char *command, struct exec_spec spec)
{
	struct request rq = hub_request();

	r->hub->conf->round_pty = true;
	spec.kind = SESSION_ROUND;
	spec.agent = "box";
	spec.command = command;
	spec.cols = 80, spec.rows = 24;
	spec.head = spec.tail = UINT64_MAX;
	memset(c, 0, sizeof(*c));
	broker_open(r->hub, &rq, &spec, NULL, NULL, client_opened, c);
	assert_true(hub_until(r, c->opened));
}

static int join(struct hub_rig *r, const struct request *rq, const struct session *s, enum attachment_role role)
{
	struct hub_client c = {0};
	struct err e = {0};
	int rc = broker_attach(r->hub, rq, NULL, s->id_text, role, &client_ops, &c, &c.a, &e);

	if (!rc)
		attachment_detach(c.a);
	return rc;
}

/* A round's terminal is typed on with the scope that opened it, by calls and by an attachment. */
static void rounds_alone_drive_no_terminal(void **state)
{
	struct request rounds = may(SCOPE_ROUNDS), both = may(SCOPE_ROUNDS | SCOPE_TERMINAL);
	struct hub_client c, plain;
	FRESH(r);

	(void)state;
	start(r, &c, "sleep 60", (struct exec_spec){.pty = true, .stdin_open = true});
	assert_int_equal(join(r, &rounds, c.s, ROLE_DRIVER), ERR_FORBIDDEN);
	assert_int_equal(join(r, &rounds, c.s, ROLE_OBSERVER), 0);
	assert_int_equal(broker_attach_role(r->hub, &rounds, &c.s->id), ROLE_OBSERVER);
	assert_int_equal(join(r, &both, c.s, ROLE_DRIVER), 0);
	assert_int_equal(broker_attach_role(r->hub, &both, &c.s->id), ROLE_DRIVER);
	start(r, &plain, "sleep 60", (struct exec_spec){.stdin_open = true});
	assert_int_equal(join(r, &rounds, plain.s, ROLE_DRIVER), 0);
	assert_int_equal(broker_attach_role(r->hub, &rounds, &plain.s->id), ROLE_DRIVER);
	hub_rig_destroy(r);
}

/* A run's step is its task's: another task's grant of the same principal neither drives nor ends it. */
static void a_run_is_its_tasks(void **state)
{
	struct request other = may(SCOPE_ROUNDS | SCOPE_OBSERVE), own = other;
	struct hub_client c;
	struct err e = {0};
	FRESH(r);

	(void)state;
	start(r, &c, "sleep 60", (struct exec_spec){.stdin_open = true});
	assert_int_equal(launch_leased(&c.s->launch, &(struct work_ids){.lease = "l-1", .run = "run-1"}), 0);
	snprintf(other.grant.task, sizeof(other.grant.task), "weekly");
	assert_int_equal(join(r, &other, c.s, ROLE_DRIVER), ERR_FORBIDDEN);
	assert_int_equal(broker_attach_role(r->hub, &other, &c.s->id), ROLE_OBSERVER);
	assert_int_equal(join(r, &other, c.s, ROLE_OBSERVER), 0);
	assert_int_equal(broker_terminate(r->hub, &other, &c.s->id, "because", &e), ERR_FORBIDDEN);
	assert_int_equal(join(r, &own, c.s, ROLE_DRIVER), 0);
	assert_int_equal(broker_terminate(r->hub, &own, &c.s->id, "because", &e), 0);
	hub_rig_destroy(r);
}

/* The record claims no input that no program got. */
static void what_nobody_reads_is_refused(void **state)
{
	struct hub_client c, driver;
	FRESH(r);

	(void)state;
	start(r, &c, "sleep 60", (struct exec_spec){0});
	hub_join(r, &driver, c.s, ROLE_DRIVER);
	assert_int_equal(attachment_input(driver.a, "lost", 4), ERR_BAD_STATE);
	assert_int_equal(attachment_input_eof(driver.a), 0);
	hub_turns(r, 50);
	assert_int_equal(buf_len(&r->input), 0);
	assert_int_equal(c.s->in_offset, 0);
	attachment_detach(driver.a);
	/* Input that comes with the call goes, and so does its end. */
	start(r, &c, "cat", (struct exec_spec){.stdin_data = "given", .stdin_len = 5});
	assert_true(hub_until(r, c.s->end == END_TOLD));
	assert_true(hub_holds(&r->output, "given"));
	hub_rig_destroy(r);
}

static void all_is_typed_or_nothing(void **state)
{
	static char much[60001];
	struct request rq = hub_request();
	struct hub_client c;
	struct err e = {0};
	uint64_t typed = 0;
	int rc = 0;
	FRESH(r);

	(void)state;
	memset(much, 'x', sizeof(much));
	start(r, &c, "sleep 60", (struct exec_spec){.stdin_open = true});
	for (int i = 0; i < 40 && !(rc = broker_round_type(r->hub, &rq, &c.s->id, much, sizeof(much), &e)); i++)
		typed += sizeof(much);
	assert_int_equal(rc, ERR_AGAIN);
	assert_true(typed > 0);
	assert_int_equal(c.s->in_offset + buf_len(&c.s->in_queue), typed);
	hub_rig_destroy(r);
}

struct look {
	int n, rc;
};

static void on_look(void *arg, int rc, const struct err *e, uint64_t offset, bool exact, const struct picture *pic)
{
	struct look *l = arg;

	(void)e, (void)offset, (void)exact, (void)pic;
	l->n++;
	l->rc = rc;
}

/* A grant that types needs no leave to look, and nothing is told of a look that shows nobody anything. */
static void keys_ask_for_the_mode_alone(void **state)
{
	struct request drive = may(SCOPE_DRIVE);
	struct look mode = {0}, screen = {0};
	struct hub_client c;
	FRESH(r);

	(void)state;
	snprintf(drive.grant.principal, sizeof(drive.grant.principal), "boss");
	start(r, &c, "sleep 60", (struct exec_spec){.pty = true, .stdin_open = true});
	broker_round_screen(r->hub, &drive, &c.s->id, NULL, on_look, &screen);
	assert_true(hub_until(r, screen.n));
	assert_int_equal(screen.rc, ERR_FORBIDDEN);
	broker_round_mode(r->hub, &drive, &c.s->id, on_look, &mode);
	assert_true(hub_until(r, mode.n));
	assert_int_equal(mode.rc, ERR_UNAVAILABLE); /* no screens here: keys go as a terminal begins */
	hub_turns(r, 50);
	assert_int_equal(hub_audited(r, "round.screen"), 0);
	hub_rig_destroy(r);
}

static void a_look_ends_with_the_hub(void **state)
{
	struct request rq = hub_request();
	struct round_wait wait = {.wait_ns = 60 * NS_PER_SEC};
	struct look screen = {0};
	struct hub_client c;
	FRESH(r);

	(void)state;
	start(r, &c, "sleep 60", (struct exec_spec){.pty = true, .stdin_open = true});
	broker_round_screen(r->hub, &rq, &c.s->id, &wait, on_look, &screen);
	hub_turns(r, 50);
	assert_int_equal(screen.n, 0);
	hub_rig_destroy(r);
	assert_int_equal(screen.n, 1);
	assert_int_equal(screen.rc, ERR_CANCELLED);
}

static void on_page(void *arg, int rc, const struct err *e, const struct round_page *page)
{
	struct look *l = arg;

	(void)e, (void)page;
	l->n++;
	l->rc = rc;
}

/* The recorder's client may go after the hub: what is taken back then looks into nothing. */
static void a_page_that_is_taken_back_needs_no_hub(void **state)
{
	struct request rq = hub_request();
	struct round_read how = {.stream = STREAM_OUTPUT, .limit = 100};
	struct recorder_client *mute = NULL;
	struct look page = {0};
	struct hub_client c;
	int pair[2];
	FRESH(r);

	(void)state;
	start(r, &c, "sleep 60", (struct exec_spec){0});
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(recorder_client_create(&r->loop, pair[0], NULL, NULL, &mute), 0);
	hub_set_recorder(r->hub, mute);
	broker_round_read(r->hub, &rq, &c.s->id, &how, on_page, &page);
	hub_turns(r, 50);
	assert_int_equal(page.n, 0);
	hub_rig_again(r);
	recorder_client_destroy(mute);
	assert_int_equal(page.n, 1);
	assert_int_equal(page.rc, ERR_CANCELLED);
	hub_turns(r, 20);
	close(pair[1]);
	hub_rig_destroy(r);
}

/* An event that a listener is shown is in the record. */
struct shown {
	struct hub_rig *rig;
	struct round_listener listener;
	unsigned recorded; /* cuts that the recorder had as one was shown */
	bool named;
};

static void on_moved(void *arg)
{
	(void)arg;
}

static void on_event(void *arg, const char *event, const json_t *detail)
{
	struct shown *s = arg;

	if (strcmp(event, "cut") != 0)
		return;
	hub_record(s->rig);
	s->recorded = s->rig->cuts;
	s->named = json_object_get(detail, "why") && !json_object_get(detail, "event");
}

static void nothing_is_shown_before_it_is_journaled(void **state)
{
	struct shown shown = {.listener = {.moved = on_moved, .event = on_event}};
	struct hub_client c, driver;
	FRESH(r);

	(void)state;
	shown.rig = r;
	shown.listener.arg = &shown;
	start(r, &c, "sleep 60", (struct exec_spec){.stdin_open = true});
	hub_join(r, &driver, c.s, ROLE_DRIVER);
	round_listen(r->hub, &c.s->id, &shown.listener);
	attachment_cut(driver.a, CUT_TERMINATED, "a test");
	assert_int_equal(shown.recorded, 1);
	assert_true(shown.named);
	assert_true(hub_until(r, driver.cuts == 1));
	round_unlisten(&shown.listener);
	hub_rig_destroy(r);
}

/* A program for one sandbox alone makes, wakes and holds none. */
static void no_sandbox_is_woken_for_what_belongs_to_another(void **state)
{
	struct id gone;
	struct hub_client c;
	FRESH(r);

	(void)state;
	assert_int_equal(id_new(&gone), 0);
	start(r, &c, "true", (struct exec_spec){.only_in = &r->info.sandbox_id}); /* that one, not awake */
	assert_int_equal(c.rc, ERR_LINK_LOST);
	assert_int_equal(r->asked, 0);
	start(r, &c, "true", (struct exec_spec){0});
	assert_int_equal(c.rc, 0);
	start(r, &c, "true", (struct exec_spec){.only_in = &gone});
	assert_int_equal(c.rc, ERR_LINK_LOST);
	start(r, &c, "true", (struct exec_spec){.only_in = &r->info.sandbox_id});
	assert_int_equal(c.rc, 0);
	agent_find(r->hub, "box")->stopping = true;
	start(r, &c, "true", (struct exec_spec){.only_in = &r->info.sandbox_id});
	assert_int_equal(c.rc, ERR_LINK_LOST);
	agent_find(r->hub, "box")->stopping = false;
	assert_int_equal(r->asked, 1);
	hub_rig_destroy(r);
}

/* ---- a pod of others by its short name */

static void on_whole_name(void *arg, int rc, const struct err *e, const char *name)
{
	(void)e;
	assert_int_equal(rc, 0);
	snprintf(arg, AGENT_NAME_MAX + 1, "%s", name);
}

static void judge_pods(struct hub_rig *r)
{
	static const char text[] =
	    "policy: 1\notherwise: deny\nprofiles:\n"
	    "- name: short\n  match: {agent: w/pod}\n  allow: [round.start, file.*]\n"
	    "- name: app\n  match: {agent: w/pod/app}\n  allow:\n  - round.start\n  - file.read\n"
	    "  - file.write: {paths: ['src/**']}\n  limits: {round_time: 10s}\n";
	json_t *by = json_object();
	struct policy *p = NULL;
	struct err e = {0};

	if (policy_parse(text, sizeof(text) - 1, "p", &p, &e))
		fail_msg("%s", e.message);
	hub_set_policy(r->hub, p, by);
	json_decref(by);
}

/* A profile is of a container: what is narrowed for that is narrowed whichever name the call has. */
static void a_pod_is_judged_by_its_whole_name(void **state)
{
	struct request rq = hub_request();
	json_t *patch = json_pack("{s:b}", "dry_run", 1);
	const struct file_spec file = {.op = FILE_PATCH, .path = ".", .request = patch, .mode = -1, .size = UINT64_MAX};
	struct exec_spec spec = {.kind = SESSION_FILE, .agent = "w/pod", .file = &file, .head = 1, .tail = 1};
	char whole[AGENT_NAME_MAX + 1];
	struct hub_client c = {0};
	FRESH(r);

	(void)state;
	judge_pods(r);
	broker_whole_name(r->hub, &rq, "w/pod", on_whole_name, whole);
	assert_string_equal(whole, "w/pod/app");
	broker_whole_name(r->hub, &rq, "box", on_whole_name, whole);
	assert_string_equal(whole, "box");
	broker_open(r->hub, &rq, &spec, NULL, NULL, client_opened, &c);
	assert_true(hub_until(r, c.opened));
	if (c.rc)
		fail_msg("%s", c.why);
	assert_string_equal(c.s->agent->name, "w/pod/app");
	assert_non_null(strstr(c.s->launch.transfer->request, "src/**"));
	assert_true(c.s->launch.transfer->limited);
	memset(&c, 0, sizeof(c));
	spec = (struct exec_spec){.kind = SESSION_ROUND, .agent = "w/pod", .command = "true", .head = 1, .tail = 1};
	broker_open(r->hub, &rq, &spec, NULL, NULL, client_opened, &c);
	assert_true(hub_until(r, c.opened));
	assert_int_equal(c.rc, 0);
	assert_int_equal(c.s->launch.timeout_ns, 10 * NS_PER_SEC);
	snprintf(rq.grant.agent, sizeof(rq.grant.agent), "other");
	broker_whole_name(r->hub, &rq, "w/pod", on_whole_name, whole);
	assert_string_equal(whole, "w/pod"); /* which are there is not told to whom it is not for */
	json_decref(patch);
	hub_rig_destroy(r);
}

/* ---- a first policy that the record has no room for */

static void policy_without_room(struct hub_rig *r, const char *text, size_t n)
{
	struct policy *p = NULL;
	struct err e = {0};

	if (policy_parse(text, n, "p", &p, &e))
		fail_msg("%s", e.message);
	r->stalled = true;
	while (journal_bytes(r->hub->journal, RING_CLOCK, NULL, "x", 1) == 0)
		;
	hub_set_policy(r->hub, p, NULL);
	assert_true(hub_policy_waits(r->hub));
}

static void on_refused(void *arg, int rc, const struct err *e, json_t *o)
{
	(void)e, (void)o;
	*(int *)arg = rc;
}

/* An end protects: the policy that waits decides it, as the record has none before it. Nothing begins. */
static void an_end_waits_for_no_record(void **state)
{
	static const char text[] = "policy: 1\notherwise: deny\nprofiles:\n"
				   "- name: all\n  match: {principal: tester}\n  allow: ['*']\n";
	struct request own = hub_request(), others = hub_request();
	const struct context_wish wish = {.agent = "box", .id = {.b = {1}}};
	struct hub_client c;
	struct err e = {0};
	size_t taken = 0;
	int deleted = 1, reset = 1;
	FRESH(r);

	(void)state;
	snprintf(others.grant.principal, sizeof(others.grant.principal), "other");
	others.grant.scopes |= SCOPE_ADMIN | SCOPE_DRIVE | SCOPE_OBSERVE;
	start(r, &c, "trap 'echo got' USR1; while :; do sleep 0.1; done", (struct exec_spec){.stdin_open = true});
	policy_without_room(r, text, sizeof(text) - 1);
	assert_int_equal(broker_round_stdin(r->hub, &own, &c.s->id, UINT64_MAX, "x", 1, false, &taken, &e),
			 ERR_RECORD_UNAVAILABLE);
	broker_context_reset(r->hub, &own, &wish, on_refused, &reset);
	assert_int_equal(reset, ERR_RECORD_UNAVAILABLE);
	broker_context_delete(r->hub, &own, &wish, on_refused, &deleted);
	assert_int_equal(deleted, ERR_NOT_FOUND);
	assert_int_equal(broker_terminate(r->hub, &others, &c.s->id, "because", &e), ERR_POLICY_DENIED);
	assert_int_equal(broker_round_signal(r->hub, &own, &c.s->id, SIGUSR1, &e), 0);
	assert_int_equal(broker_terminate(r->hub, &own, &c.s->id, "because", &e), 0);
	r->stalled = false;
	assert_true(hub_until(r, c.s->end == END_TOLD));
	hub_rig_destroy(r);
}

/* ---- a grant that ends while its holder waits */

struct waited {
	int n, rc;
	bool told; /* what the round is */
};

static void on_waited(void *arg, int rc, const struct err *e, json_t *o)
{
	struct waited *w = arg;

	(void)e;
	w->n++;
	w->rc = rc;
	w->told = o != NULL;
}

/* Its own round is ended with it, another's goes on: neither is shown to a grant that was revoked meanwhile. */
static void a_revoked_grant_waits_in_vain(void **state)
{
	struct request rows[] = {hub_request(), may(SCOPE_OBSERVE), may(SCOPE_OBSERVE)};
	FRESH(r);
	struct waited w[3] = {0};
	struct hub_client c;
	size_t taken = 0;

	(void)state;
	snprintf(rows[1].grant.principal, sizeof(rows[1].grant.principal), "other");
	snprintf(rows[2].grant.principal, sizeof(rows[2].grant.principal), "third");
	start(r, &c, "read x; echo secret", (struct exec_spec){.stdin_open = true});
	for (int i = 0; i < 3; i++)
		broker_round_wait(r->hub, &rows[i], &c.s->id, 60 * NS_PER_SEC, on_waited, &w[i]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(hub_revoke(r->hub, &rows[i].grant.id, INT64_MAX), 0);
	assert_int_equal(broker_round_stdin(r->hub, &(struct request){.grant = hub_request().grant, .door = "test"},
					    &c.s->id, UINT64_MAX, "\n", 1, true, &taken, NULL),
			 0);
	assert_true(hub_until(r, w[0].n && w[1].n && w[2].n));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w[i].rc, ERR_TOKEN_REVOKED);
		assert_false(w[i].told);
	}
	assert_int_equal(w[2].rc, 0);
	assert_true(w[2].told);
	hub_rig_destroy(r);
}

/* A client that left keeps nothing: only that wait is over, and the round goes on. */
static void who_left_waits_no_longer(void **state)
{
	struct request rq = hub_request();
	FRESH(r);
	struct waited w[3] = {0};
	struct hub_client c;
	size_t taken = 0;

	(void)state;
	start(r, &c, "read x", (struct exec_spec){.stdin_open = true});
	for (int i = 0; i < 3; i++)
		broker_round_wait(r->hub, &rq, &c.s->id, 3600 * NS_PER_SEC, on_waited, &w[i]);
	broker_round_left(r->hub, &c.s->id, &w[1]);
	assert_int_equal(w[1].n, 1);
	assert_int_equal(w[1].rc, ERR_CANCELLED);
	broker_round_left(r->hub, &c.s->id, &w[1]); /* nobody does */
	broker_round_left(r->hub, &rq.grant.id, &w[0]);
	assert_int_equal(w[0].n + w[1].n + w[2].n, 1);
	assert_int_equal(broker_round_stdin(r->hub, &rq, &c.s->id, UINT64_MAX, "\n", 1, true, &taken, NULL), 0);
	assert_true(hub_until(r, w[0].n && w[2].n));
	assert_true(w[0].told && w[2].told && !w[1].told);
	assert_int_equal(w[1].n, 1);
	hub_rig_destroy(r);
}

/* ---- what is left alone */

static void a_round_that_is_refused_is_not_handed_out(void **state)
{
	struct request allowed = hub_request(), refused = may(SCOPE_OBSERVE), revoked = hub_request();
	struct session *out = NULL;
	struct hub_client c;
	struct err e = {0};
	FRESH(r);

	(void)state;
	start(r, &c, "sleep 60", (struct exec_spec){.pty = true, .stdin_open = true});
	assert_int_equal(hub_revoke(r->hub, &revoked.grant.id, INT64_MAX), 0);
	assert_int_equal(broker_find_round(r->hub, &allowed, &c.s->id, SCOPE_ROUNDS, "round", &out, &e), 0);
	assert_ptr_equal(out, c.s);
	assert_int_equal(e.code, 0); /* written on failure alone */
	out = NULL;
	assert_int_equal(broker_find_round(r->hub, &refused, &c.s->id, SCOPE_ROUNDS, "round", &out, &e), ERR_FORBIDDEN);
	assert_int_equal(broker_find_round(r->hub, &revoked, &c.s->id, 0, "round", &out, &e), ERR_TOKEN_REVOKED);
	assert_int_equal(broker_find_typed(r->hub, &refused, &c.s->id, "keys", &out, &e), ERR_FORBIDDEN);
	refused.grant.scopes = SCOPE_ROUNDS; /* not terminal */
	assert_int_equal(broker_find_typed(r->hub, &refused, &c.s->id, "keys", &out, &e), ERR_FORBIDDEN);
	assert_null(out);
	hub_rig_destroy(r);
}

/* A round of one's own is read with a scope that reads, as the recorder asks once the round has left memory. */
static void reading_ones_own_takes_a_scope(void **state)
{
	static const struct {
		uint32_t scope;
		int rc;
	} rows[] = {{SCOPE_ROUNDS, 0},
		    {SCOPE_TERMINAL, 0},
		    {SCOPE_OBSERVE, 0},
		    {SCOPE_REPLAY, 0},
		    {SCOPE_FILES, ERR_FORBIDDEN},
		    {SCOPE_PORTS, ERR_FORBIDDEN},
		    {SCOPE_DRIVE, ERR_FORBIDDEN},
		    {SCOPE_LIFECYCLE, ERR_FORBIDDEN},
		    {SCOPE_GRANT, ERR_FORBIDDEN},
		    {SCOPE_ADMIN, ERR_FORBIDDEN}};
	struct hub_client runs, ended;
	FRESH(r);

	(void)state;
	start(r, &runs, "sleep 60", (struct exec_spec){.pty = true});
	start(r, &ended, "true", (struct exec_spec){0});
	assert_true(hub_until(r, ended.s->end == END_TOLD));
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		const struct session *s = i % 2 ? ended.s : runs.s;
		struct request rq = may(rows[i / 2].scope);
		struct session *out = NULL;
		struct waited w = {0};
		struct err e = {0};

		assert_int_equal(broker_find_look(r->hub, &rq, &s->id, "screen", &out, NULL, &e), rows[i / 2].rc);
		assert_int_equal(broker_find_round(r->hub, &rq, &s->id, 0, "output", &out, &e), rows[i / 2].rc);
		broker_round_wait(r->hub, &rq, &s->id, 0, on_waited, &w);
		assert_int_equal(w.rc, rows[i / 2].rc);
		assert_true(w.told == !w.rc);
	}
	hub_rig_destroy(r);
}

/* ---- input by offset, of several writers */

static int give(struct hub_rig *r, const struct session *s, uint64_t offset, const char *text, size_t *taken)
{
	struct request rq = hub_request();

	*taken = 99;
	return broker_round_stdin(r->hub, &rq, &s->id, offset, text, strlen(text), false, taken, NULL);
}

static void another_writers_input_is_no_repeat(void **state)
{
	struct request rq = hub_request();
	uint64_t end = 0;
	struct hub_client c;
	size_t taken;
	FRESH(r);

	(void)state;
	start(r, &c, "cat", (struct exec_spec){.stdin_open = true});
	assert_int_equal(give(r, c.s, 0, "one\n", &taken), 0); /* its answer is lost */
	assert_int_equal(give(r, c.s, UINT64_MAX, "two\n", &taken), 0);
	assert_int_equal(give(r, c.s, 0, "one\nmore\n", &taken), 0); /* so far it is a repeat */
	assert_int_equal(taken, 4);
	assert_int_equal(give(r, c.s, 4, "more\n", &taken), ERR_CONFLICT);
	assert_int_equal(taken, 99);
	assert_int_equal(broker_round_stdin_end(r->hub, &rq, &c.s->id, &end, NULL), 0);
	assert_int_equal(end, 8);
	assert_int_equal(give(r, c.s, end, "more\n", &taken), 0);
	assert_int_equal(give(r, c.s, 8, "more\nand more\n", &taken), 0); /* a repeat, and what follows it */
	assert_int_equal(taken, 14);
	assert_int_equal(give(r, c.s, 0, "0ne\n", &taken), ERR_CONFLICT); /* the same place, other bytes */
	assert_int_equal(give(r, c.s, 100, "x", &taken), ERR_INVAL);
	assert_true(hub_until(r, buf_len(&r->output) == 22));
	assert_memory_equal(buf_ptr(&r->output), "one\ntwo\nmore\nand more\n", 22);
	hub_rig_destroy(r);
}

/* Behind so many calls that the first may have been forgotten, nothing is said of it that is not known. */
static void what_is_forgotten_is_not_guessed(void **state)
{
	struct hub_client c;
	size_t taken;
	FRESH(r);

	(void)state;
	start(r, &c, "cat", (struct exec_spec){.stdin_open = true});
	for (uint64_t i = 0; i <= GIVEN_KEPT; i++)
		assert_int_equal(give(r, c.s, 2 * i, "x\n", &taken), 0);
	assert_int_equal(give(r, c.s, 0, "x\n", &taken), ERR_BAD_STATE);
	assert_int_equal(give(r, c.s, 2, "x\n", &taken), 0);
	assert_int_equal(taken, 2);
	hub_rig_destroy(r);
}

static struct session *restored(struct hub_rig *r, const struct session *s)
{
	json_t *entry =
	    json_pack("{s:s,s:o,s:[i,i,i]}", "session", s->id_text, "open", session_open_json(s), "offsets", 0, 0, 0);
	struct id id = s->id;
	struct err e = {0};

	hub_rig_again(r);
	assert_int_equal(session_restore(r->hub, entry, &e), 0);
	json_decref(entry);
	return hub_session_find(r->hub, &id);
}

/* A grant's task opens what others put there: after a restart it is the grant's only where it was. */
static void a_calls_task_does_not_become_the_grants(void **state)
{
	struct hub_client c;
	struct session *s;
	struct grant g;
	FRESH(r);

	(void)state;
	start(r, &c, "sleep 60", (struct exec_spec){0});
	s = restored(r, c.s);
	assert_string_equal(s->grant->task, "test");
	g = *s->grant;
	g.task[0] = '\0';
	hub_regrant(r, &s->grant, &g);
	s = restored(r, s);
	assert_string_equal(s->grant->task, "");
	assert_string_equal(s->launch.task, "test");
	hub_rig_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rounds_alone_drive_no_terminal),
	    cmocka_unit_test(a_run_is_its_tasks),
	    cmocka_unit_test(what_nobody_reads_is_refused),
	    cmocka_unit_test(all_is_typed_or_nothing),
	    cmocka_unit_test(keys_ask_for_the_mode_alone),
	    cmocka_unit_test(a_look_ends_with_the_hub),
	    cmocka_unit_test(a_page_that_is_taken_back_needs_no_hub),
	    cmocka_unit_test(nothing_is_shown_before_it_is_journaled),
	    cmocka_unit_test(no_sandbox_is_woken_for_what_belongs_to_another),
	    cmocka_unit_test(a_pod_is_judged_by_its_whole_name),
	    cmocka_unit_test(an_end_waits_for_no_record),
	    cmocka_unit_test(a_calls_task_does_not_become_the_grants),
	    cmocka_unit_test(a_revoked_grant_waits_in_vain),
	    cmocka_unit_test(who_left_waits_no_longer),
	    cmocka_unit_test(a_round_that_is_refused_is_not_handed_out),
	    cmocka_unit_test(reading_ones_own_takes_a_scope),
	    cmocka_unit_test(another_writers_input_is_no_repeat),
	    cmocka_unit_test(what_is_forgotten_is_not_guessed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
