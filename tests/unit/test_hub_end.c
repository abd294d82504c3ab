// tier: check
/* Every session ends in the record and in the audit log: whatever text is about it, and whoever does not answer. */
#include "base/utf8.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/link/agent_link.h"
#include "tests/lib/hub_rig.h"

#define FRESH(name) struct hub_rig *name = hub_rig_create(NULL)
#define E5          "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
#define E60         E5 E5 E5 E5 E5 E5 E5 E5 E5 E5 E5 E5
#define E150        E60 E60 E5 E5 E5 E5 E5 E5

static const char *text_of(const json_t *list, size_t i, const char *key)
{
	const char *s = json_string_value(json_object_get(json_array_get(list, i), key));

	return s ? s : "";
}

/* ---- text */

static void a_reason_that_is_cut_ends_the_session(void **state)
{
	FRESH(r);
	struct request rq = hub_request();
	struct hub_client c;
	struct err e = {0};

	(void)state;
	for (unsigned before = 0; before < 4; before++) { /* so that the cut comes at each byte of a character */
		char reason[200] = "";
		snprintf(reason, sizeof(reason), "%.*s%s", (int)before, "abc", E60);
		hub_open(r, &c, SESSION_EXEC, "read x");
		assert_int_equal(broker_terminate(r->hub, &rq, &c.s->id, reason, &e), 0);
		assert_true(hub_until(r, c.ends));
		assert_true(hub_until(r, hub_audited(r, "session.end") == before + 1));
		assert_int_equal(json_array_size(r->exits), before + 1);
		assert_non_null(strstr(text_of(r->exits, before, "message"), E5));
		buf_finish(&c.got);
	}
	hub_rig_destroy(r);
}

static void a_program_of_any_name_that_is_not_there_is_answered(void **state)
{
	FRESH(r);
	static const char *const argv[] = {E150, "a" E150, "ab" E150, "\xff\xfe" E150, "\xe2\x82", NULL};

	(void)state;
	for (size_t i = 0; argv[i]; i++) {
		struct exec_spec spec = {.kind = SESSION_ROUND,
					 .agent = "box",
					 .argv = (const char *const[]){argv[i], NULL},
					 .head = UINT64_MAX,
					 .tail = UINT64_MAX};
		struct request rq = hub_request();
		struct hub_client c;
		memset(&c, 0, sizeof(c));
		broker_open(r->hub, &rq, &spec, NULL, NULL, client_opened, &c);
		assert_true(hub_until(r, c.opened));
		assert_true(c.rc == ERR_NO_PROGRAM || c.rc == ERR_INVAL); /* a name too long for the kernel */
		assert_true(utf8_valid((const uint8_t *)c.why, strlen(c.why)));
		assert_true(hub_until(r, json_array_size(r->exits) == i + 1));
		assert_true(hub_until(r, hub_audited(r, "round.end") == i + 1));
	}
	hub_rig_destroy(r);
}

/* ---- memory */

static void *no_memory(size_t n)
{
	(void)n;
	return NULL;
}

static void an_end_that_cannot_be_told_in_full_is_told_in_brief(void **state)
{
	FRESH(r);
	struct hub_client c;

	(void)state;
	hub_open(r, &c, SESSION_EXEC, "read x; exit 7");
	assert_true(hub_until(r, hub_audited(r, "session.open") == 1));
	assert_int_equal(attachment_input(c.a, "\n", 1), 1);
	json_set_alloc_funcs(no_memory, free);
	r->stalled = true; /* the recorder of the test has no memory either */
	assert_true(hub_until(r, c.ends));
	json_set_alloc_funcs(malloc, free);
	r->stalled = false;
	assert_true(hub_until(r, hub_audited(r, "session.end") == 1)); /* it was not given up */
	assert_int_equal(json_array_size(r->exits), 1);
	assert_string_equal(text_of(r->exits, 0, "cause"), "exit");
	assert_string_equal(text_of(r->exits, 0, "message"), "");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(r->exits, 0), "code")), 7);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* ---- nobody answers */

static void never(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	if (q->op == SANDBOX_STAT)
		free(arg);
	else
		hub_provider_ask(p, q, done, arg);
}

static void an_exit_does_not_wait_for_an_answer_that_never_comes(void **state)
{
	struct sandbox_provider_ops ops = hub_provider_ops;
	FRESH(r);
	struct hub_client c;

	(void)state;
	ops.ask = never;
	r->provider.ops = &ops;
	hub_open(r, &c, SESSION_EXEC, "kill -9 $$");
	assert_true(hub_until(r, c.s->end == END_ASKED));
	hub_turns(r, 600);
	assert_int_equal(c.ends, 0); /* an answer may still come */
	c.s->end_asked = 1;          /* as if it had come long ago */
	assert_true(hub_until(r, c.ends));
	assert_int_equal(c.cause, EXIT_EXITED);
	assert_true(hub_until(r, hub_audited(r, "session.end") == 1));
	assert_int_equal(hub_audited(r, "session.sweep"), 1);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* Its exit was reported: that its sandbox goes before the question about memory is answered takes nothing of it back.
 */
static void a_reported_exit_outlives_its_sandbox(void **state)
{
	struct sandbox_provider_ops ops = hub_provider_ops;
	FRESH(r);
	struct hub_client c;
	struct agent *a;

	(void)state;
	ops.ask = never;
	r->provider.ops = &ops;
	hub_open(r, &c, SESSION_EXEC, "kill -9 $$");
	assert_true(hub_until(r, c.s->end == END_ASKED));
	a = c.s->agent;
	agent_gone(r->hub, a->name, &a->linked, "node lost");
	assert_true(hub_until(r, c.ends));
	assert_int_equal(c.cause, EXIT_EXITED);
	assert_true(hub_until(r, hub_audited(r, "session.end") == 1));
	assert_string_equal(text_of(r->exits, 0, "cause"), "exit");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(r->exits, 0), "signal")), 9);
	assert_string_equal(text_of(r->exits, 0, "message"), "");
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* ---- who was it that sent a KILL: the kernel, for want of memory, or somebody */

/* Ends by KILL when it is told to, once the kernel has counted so many kills in all. */
static void ends_by_kill(struct hub_rig *r, struct hub_client *c, uint32_t kills, enum exit_cause cause)
{
	r->info.oom_kills = kills;
	assert_int_equal(attachment_input(c->a, "\n", 1), 1);
	assert_true(hub_until(r, c->ends));
	assert_int_equal(c->cause, cause);
	buf_finish(&c->got);
}

static void a_kill_for_want_of_memory_counts_once_and_for_who_ran_then(void **state)
{
	static const char command[] = "read x; kill -9 $$";
	FRESH(r);
	struct hub_client before, other, c;
	unsigned stats;

	(void)state;
	r->info.memory_enforced = true;
	hub_open(r, &before, SESSION_TERMINAL, command);
	hub_open(r, &other, SESSION_TERMINAL, command);
	r->info.oom_kills = 1;             /* a child's, whose parent goes on: nobody's end accounts for it */
	before.s->agent->oom_heard_ns = 1; /* as if that was some seconds ago */
	stats = r->stats;
	hub_open(r, &c, SESSION_TERMINAL, command);
	assert_true(hub_until(r, before.s->agent->oom.count == 1));
	assert_int_equal(r->stats, stats + 1);
	ends_by_kill(r, &c, 1, EXIT_EXITED);
	hub_open(r, &c, SESSION_TERMINAL, command);
	ends_by_kill(r, &c, 2, EXIT_OOM);
	hub_open(r, &c, SESSION_TERMINAL, command);
	ends_by_kill(r, &c, 2, EXIT_EXITED);
	ends_by_kill(r, &before, 2, EXIT_OOM); /* the first may have been its */
	ends_by_kill(r, &other, 2, EXIT_EXITED);
	hub_rig_destroy(r);
}

static void a_kill_that_somebody_here_sent_is_no_question(void **state)
{
	FRESH(r);
	struct hub_client c;
	unsigned stats;

	(void)state;
	r->info.memory_enforced = true;
	hub_open(r, &c, SESSION_TERMINAL, "exec sleep 1000");
	stats = r->stats;
	r->info.oom_kills = 5;
	assert_int_equal(attachment_signal(c.a, SIGKILL), 0);
	assert_true(hub_until(r, c.ends));
	assert_int_equal(c.cause, EXIT_EXITED);
	assert_int_equal(r->stats, stats);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

static void old_kills_are_not_told_apart(void **state)
{
	struct kill_tally t = {.count = 3};

	(void)state;
	assert_false(kill_tally_take(&t, 3));
	kill_tally_heard(&t, 5);
	assert_true(kill_tally_take(&t, 3) && kill_tally_take(&t, 4) && !kill_tally_take(&t, 3));
	kill_tally_heard(&t, 4); /* an answer that came late */
	assert_int_equal(t.count, 5);
	kill_tally_heard(&t, 100000);
	for (unsigned i = 0; i < KILLS_KNOWN; i++)
		assert_true(kill_tally_take(&t, 0));
	assert_false(kill_tally_take(&t, 0));
	kill_tally_heard(&t, UINT64_MAX);
	assert_int_equal(t.count, UINT64_MAX);
	assert_true(kill_tally_take(&t, UINT64_MAX - 1));
	assert_false(kill_tally_take(&t, UINT64_MAX));
}

/* ---- held by its agent's share of the record */

#define MORE (SESSION_WINDOW + 60000) /* than goes out before it is held; a pipe has room for the rest */

/* A round of an agent that printed more than its share of the record lets out, and ended; its sandbox has the rest. */
static void hub_hold(struct hub_rig *r, struct hub_client *c)
{
	struct request rq = hub_request();
	char command[300], gate[100];
	FILE *f;

	rq.grant.kind = GRANT_AGENT;
	snprintf(gate, sizeof(gate), "%s/gate", r->dir);
	snprintf(command, sizeof(command),
		 "trap '' TERM; until [ -e %s ]; do sleep 0.02; done; head -c %d /dev/zero; rm %s; exit 3", gate, MORE,
		 gate);
	hub_ask(r, c, SESSION_ROUND, command, &rq);
	assert_true(hub_until(r, c->opened));
	assert_int_equal(c->rc, 0);
	r->hub->conf->share_record = 1;
	assert_true(hub_until(r, c->s->record_held));
	f = fopen(gate, "w");
	assert_non_null(f);
	fclose(f);
	assert_true(hub_until(r, c->s->stream[STREAM_OUTPUT].end == SESSION_WINDOW));
	assert_true(hub_until(r, access(gate, F_OK)));
	hub_turns(r, 600);
	assert_int_equal(c->s->stream[STREAM_OUTPUT].end, SESSION_WINDOW);
	assert_int_equal(json_array_size(r->exits), 0);
}

static void ends_whole(struct hub_rig *r, const char *cause)
{
	const json_t *x;

	assert_true(hub_until(r, json_array_size(r->exits) == 1));
	x = json_array_get(r->exits, 0);
	assert_string_equal(text_of(r->exits, 0, "cause"), cause);
	assert_int_equal(json_integer_value(json_object_get(x, "code")), 3);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(x, "totals"), STREAM_OUTPUT)), MORE);
	assert_int_equal(buf_len(&r->output), MORE);
}

static void a_held_round_that_is_ended_loses_nothing(void **state)
{
	FRESH(r);
	struct hub_client c;

	(void)state;
	hub_hold(r, &c);
	session_kill(c.s, EXIT_KILLED, "test");
	ends_whole(r, exit_cause_name(EXIT_KILLED));
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

static void a_held_round_whose_timeout_is_over_loses_nothing(void **state)
{
	FRESH(r);
	struct hub_client c;

	(void)state;
	hub_hold(r, &c);
	c.s->launch.timeout_ns = 1;
	ends_whole(r, exit_cause_name(EXIT_EXITED)); /* it had ended before */
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* A session whose stream is gone, and of which nobody remembers to look for it. */
static struct hub_rig *adrift(struct hub_client *c, int refuses, enum agent_state as)
{
	FRESH(r);

	hub_open(r, c, SESSION_TERMINAL, "read x; echo \"got $x\"");
	r->refuses = refuses;
	hub_break(r, c->s);
	assert_true(hub_until(r, !c->s->agent->ask && c->s->agent->state != AGENT_UP));
	c->s->agent->retry_at = 0;
	c->s->agent->state = as;
	hub_turns(r, 600);
	assert_int_equal(c->ends, 0);
	assert_int_equal(hub_audited(r, "sandbox.sweep"), 0); /* it has time */
	c->s->agent->adrift_since = 1;                        /* as if it had passed */
	return r;
}

static const enum agent_state lost[] = {AGENT_COLD, AGENT_WAKING, AGENT_LOST};

static void what_nobody_looks_after_ends_where_its_sandbox_is_gone(void **state)
{
	struct hub_client c;

	(void)state;
	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		struct hub_rig *r = adrift(&c, ERR_K8S_UNREACHABLE, lost[i]);
		r->refuses = ERR_NOT_FOUND;
		assert_true(hub_until(r, c.ends));
		assert_int_equal(c.cause, EXIT_LOST);
		assert_true(hub_until(r, hub_audited(r, "session.end") == 1));
		assert_true(hub_audited(r, "sandbox.sweep") >= 1);
		assert_int_equal(json_array_size(r->exits), 1);
		buf_finish(&c.got);
		hub_rig_destroy(r);
	}
}

static void what_nobody_looks_after_goes_on_where_its_sandbox_lives(void **state)
{
	struct hub_client c;

	(void)state;
	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		struct hub_rig *r = adrift(&c, ERR_K8S_UNREACHABLE, lost[i]);
		r->refuses = 0;
		assert_true(hub_until(r, c.s->state == SESSION_RUNNING && !c.s->echo_due));
		assert_int_equal(attachment_input(c.a, "1\n", 2), 2);
		assert_true(hub_until(r, c.ends));
		assert_int_equal(c.cause, EXIT_EXITED);
		assert_true(hub_shows(&c, "got 1"));
		buf_finish(&c.got);
		hub_rig_destroy(r);
	}
}

/* The API server, the kubelet, net: down for however long, they end nothing. */
static void a_link_that_is_down_ends_nothing(void **state)
{
	static const int down[] = {ERR_K8S_UNREACHABLE, ERR_UNAVAILABLE, ERR_SANDBOX_TIMEOUT, ERR_K8S_FORBIDDEN,
				   ERR_CORRUPT};
	struct hub_client c;

	(void)state;
	for (size_t i = 0; i < sizeof(down) / sizeof(down[0]); i++) {
		struct hub_rig *r = adrift(&c, down[i], AGENT_COLD);
		unsigned asked = r->asked;
		assert_true(hub_until(r, r->asked > asked + 2));
		for (int again = 0; again < 3; again++) { /* a day later as well */
			c.s->agent->adrift_since = 1;
			c.s->opened_boot_ns = 1;
			hub_turns(r, 300);
		}
		assert_int_equal(c.ends, 0);
		assert_int_equal(json_array_size(r->exits), 0);
		assert_int_equal(hub_audited(r, "session.end"), 0);
		r->refuses = 0;
		assert_true(hub_until(r, c.s->state == SESSION_RUNNING));
		buf_finish(&c.got);
		client_leaves(&c);
		hub_rig_destroy(r);
	}
}

/* After a restart: the record knows of a session that cannot be one again. It does not stay open in there. */
static void what_cannot_be_taken_up_ends_in_the_record(void **state)
{
	static const char *const opens[] = {
	    "{\"v\":1,\"kind\":\"exec\",\"agent\":\"unknown\",\"open_lost\":true}",
	    "{\"v\":1,\"kind\":\"sung\",\"agent\":\"box\",\"channel\":4}",
	    "{\"v\":1,\"kind\":\"exec\",\"agent\":\"box\",\"channel\":0}",
	    "{}",
	    "null",
	};
	FRESH(r);
	bool taken = true;

	(void)state;
	for (size_t i = 0; i < sizeof(opens) / sizeof(opens[0]); i++) {
		struct id id;
		char text[ID_STR_LEN];
		assert_int_equal(id_new(&id), 0);
		id_format(&id, text);
		json_t *open = json_loads(opens[i], JSON_DECODE_ANY, NULL);
		json_t *entry = json_pack("{s:s,s:o,s:[I,I,I],s:b}", "session", text, "open", open, "offsets",
					  (json_int_t)1, (json_int_t)2, (json_int_t)3, "ended", 0);
		session_restore_or_end(r->hub, entry, &taken);
		assert_false(taken);
		hub_record(r);
		assert_int_equal(json_array_size(r->exits), i + 1);
		assert_string_equal(text_of(r->exits, i, "cause"), "unknown");
		assert_string_not_equal(text_of(r->exits, i, "message"), "");
		assert_int_equal(hub_audited(r, "session.end"), i + 1);
		json_object_set_new(entry, "ended", json_true());
		session_restore_or_end(r->hub, entry, &taken);
		hub_record(r);
		assert_int_equal(json_array_size(r->exits), i + 1);
		json_decref(entry);
	}
	hub_rig_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_reason_that_is_cut_ends_the_session),
	    cmocka_unit_test(a_program_of_any_name_that_is_not_there_is_answered),
	    cmocka_unit_test(an_end_that_cannot_be_told_in_full_is_told_in_brief),
	    cmocka_unit_test(an_exit_does_not_wait_for_an_answer_that_never_comes),
	    cmocka_unit_test(a_reported_exit_outlives_its_sandbox),
	    cmocka_unit_test(a_kill_for_want_of_memory_counts_once_and_for_who_ran_then),
	    cmocka_unit_test(a_kill_that_somebody_here_sent_is_no_question),
	    cmocka_unit_test(old_kills_are_not_told_apart),
	    cmocka_unit_test(a_held_round_that_is_ended_loses_nothing),
	    cmocka_unit_test(a_held_round_whose_timeout_is_over_loses_nothing),
	    cmocka_unit_test(what_nobody_looks_after_ends_where_its_sandbox_is_gone),
	    cmocka_unit_test(what_nobody_looks_after_goes_on_where_its_sandbox_lives),
	    cmocka_unit_test(a_link_that_is_down_ends_nothing),
	    cmocka_unit_test(what_cannot_be_taken_up_ends_in_the_record),
	};
	return cmocka_run_group_tests_name("hub_end", tests, NULL, NULL);
}
