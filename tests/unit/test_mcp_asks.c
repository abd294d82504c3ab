// tier: check
/*
 * Questions of a server inside to its caller, and what is kept of them at the door: which questions are none, what a
 * client declares, the name of a session that says it, who watches what, and from which severity on log messages are
 * heard.
 */
#include "base/err.h"
#include "muxd/doors/https/mcp/asking.h"
#include "muxd/doors/https/mcp/log_level.h"
#include "muxd/doors/https/mcp/message.h"
#include "muxd/doors/https/mcp/watch.h"
#include "muxd/hub/inside/inside_ghosts.h"
#include "muxd/hub/inside/inside_question.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *json(const char *text)
{
	json_t *o = NULL;

	assert_int_equal(json_parse(text, strlen(text), 1 << 21, &o, NULL), 0);
	return o;
}

static unsigned declared(const char *text)
{
	json_t *o = json(text);
	unsigned bits = question_declared(o);

	json_decref(o);
	return bits;
}

static void a_client_is_asked_what_it_declares(void **state)
{
	(void)state;
	assert_int_equal(declared("{}"), 0);
	assert_int_equal(declared("{\"elicitation\":{}}"), QUESTION_ELICITATION);
	assert_int_equal(declared("{\"elicitation\":{\"form\":{},\"url\":{}}}"), QUESTION_ELICITATION);
	assert_int_equal(declared("{\"elicitation\":{\"url\":{}}}"), 0); /* no forms */
	assert_int_equal(declared("{\"sampling\":true,\"roots\":{\"listChanged\":true}}"), QUESTION_ROOTS);
}

/* NULL: it is a question. */
static const char *fault(enum question_kind k, const char *params)
{
	json_t *o = json(params), *id = json_integer(1);
	const char *why = NULL;
	struct inside_question *q = question_read(k, id, o, &why);

	json_decref(o);
	json_decref(id);
	question_free(q);
	return q ? NULL : why;
}

static void forms_and_plain_words_are_asked_for(void **state)
{
	(void)state;
	assert_null(fault(QUESTION_ELICITATION, "{\"message\":\"?\"}"));
	assert_null(fault(QUESTION_ELICITATION, "{\"mode\":\"form\"}"));
	assert_non_null(fault(QUESTION_ELICITATION, "{\"mode\":\"url\",\"url\":\"https://x/\"}"));
	assert_non_null(fault(QUESTION_ELICITATION, "{\"mode\":1}"));
	assert_null(fault(QUESTION_SAMPLING, "{\"messages\":[]}"));
	assert_non_null(fault(QUESTION_SAMPLING, "{\"messages\":[],\"tools\":[]}"));
	assert_int_equal(question_kind_of("tools/list"), 0);
}

static void a_key_is_a_word(void **state)
{
	static const struct {
		const char *params, *key;
	} rows[] = {{"{\"_meta\":{\"muxd/key\":\"user_name\"}}", "user_name"},
		    {"{\"_meta\":{\"muxd/key\":\"user name\"}}", ""},
		    {"{\"_meta\":{\"muxd/key\":\"\"}}", ""},
		    {"{\"_meta\":{\"muxd/key\":7}}", ""},
		    {"{}", ""}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = json(rows[i].params), *id = json_string("a");
		const char *why;
		struct inside_question *q = question_read(QUESTION_ROOTS, id, o, &why);

		assert_string_equal(q->key, rows[i].key);
		assert_string_equal(q->params, "{}"); /* without _meta */
		question_free(q);
		json_decref(o);
		json_decref(id);
	}
}

/* A question is held for minutes, so what it needs is in proportion to its bytes. */
static void a_question_holds_little(void **state)
{
	char *text = malloc(QUESTION_BYTES_MAX);
	struct inside_question *q;
	json_t *o, *id = json_string("a");
	const char *why = NULL;
	size_t n = 0;

	(void)state;
	n += (size_t)sprintf(text, "{\"p\":[{}");
	for (int i = 0; i < 48000; i++)
		n += (size_t)sprintf(text + n, ",{}");
	sprintf(text + n, "]}");
	assert_string_equal(fault(QUESTION_ELICITATION, text), "it has more than 2000 values");
	o = json_pack("{s:s,s:{s:s}}", "message", "who?", "_meta", "x", "y");
	q = question_read(QUESTION_ELICITATION, id, o, &why);
	assert_string_equal(q->params, "{\"message\":\"who?\"}");
	assert_true(q->bytes >= strlen(q->params) && q->bytes < 1024);
	json_decref(o);
	o = question_params(q);
	assert_string_equal(json_get_text(o, "message"), "who?");
	json_decref(o);
	json_decref(id);
	question_free(q);
	free(text);
}

static void answers_have_a_form(void **state)
{
	static const struct {
		const char *text;
		bool fits;
	} rows[] = {{"{\"result\":{}}", true},
		    {"{\"result\":7}", false},
		    {"{}", false},
		    {"{\"error\":{\"code\":-1,\"message\":\"no\"}}", true},
		    {"{\"error\":{\"code\":-1}}", false},
		    {"{\"error\":{\"code\":-1,\"message\":\"no\"},\"result\":{}}", false}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = json(rows[i].text);

		assert_int_equal(question_answer_fits(o), rows[i].fits);
		json_decref(o);
	}
}

static const struct grant whose = {.kind = GRANT_AGENT, .scopes = SCOPE_ROUNDS, .principal = "one", .agent = "box"};

/* Nobody makes his client one that can be asked by another name for its session. */
static void a_session_says_what_its_client_declared(void **state)
{
	char name[MCP_SESSION_SZ], other[MCP_SESSION_SZ];
	struct mcp_session s, again;

	(void)state;
	for (unsigned asked = 0; asked <= QUESTION_KINDS; asked++) {
		assert_int_equal(mcp_session_new(MCP_2025_11_25, asked, &whose, &s), 0);
		mcp_session_format(&s, name);
		assert_int_equal(mcp_session_parse(name, &whose, &again), 0);
		assert_int_equal(again.asked, asked);
		assert_true(mcp_session_equal(&s, &again));
		again.asked = asked ^ 1;
		mcp_session_format(&again, other);
		assert_int_equal(mcp_session_parse(other, &whose, &again), ERR_NOT_FOUND);
	}
	memcpy(name + ID_STR_LEN, "28", 2);
	assert_int_equal(mcp_session_parse(name, &whose, &again), ERR_NOT_FOUND);
}

static struct mcp_holder holder(const char *principal)
{
	struct grant g = {.kind = GRANT_AGENT, .scopes = SCOPE_ROUNDS, .agent = "box"};
	struct mcp_session s;

	snprintf(g.principal, sizeof(g.principal), "%s", principal);
	assert_int_equal(mcp_session_new(MCP_2025_11_25, 0, &g, &s), 0);
	return mcp_holder_of(&s, &g);
}

static void a_session_hears_of_what_it_watches(void **state)
{
	struct mcp_holder a = holder("one"), b = holder("one");
	struct mcp_watches *w;
	char uri[MCP_WATCH_URI + 2];
	size_t at = 0;

	(void)state;
	assert_int_equal(mcp_watches_create(&w), 0);
	assert_int_equal(mcp_watch_may(w, &a, "box/s", "x://1"), 0);
	assert_null(mcp_watch_next(w, "box/s", "x://1", &at)); /* to ask makes no row */
	assert_int_equal(mcp_watch_add(w, &a, "box/s", "x://1"), 0);
	assert_int_equal(mcp_watch_add(w, &a, "box/s", "x://1"), 0); /* the same once more */
	assert_int_equal(mcp_watch_add(w, &b, "box/s", "x://1"), 0);
	at = 0;
	assert_true(mcp_session_equal(&mcp_watch_next(w, "box/s", "x://1", &at)->session, &a.session));
	assert_true(mcp_session_equal(&mcp_watch_next(w, "box/s", "x://1", &at)->session, &b.session));
	assert_null(mcp_watch_next(w, "box/s", "x://1", &at));
	at = 0;
	assert_null(mcp_watch_next(w, "box/t", "x://1", &at));
	assert_false(mcp_watch_remove(w, &a.session, "box/s", "x://1")); /* b watches it still */
	assert_false(mcp_watch_remove(w, &a.session, "box/s", "x://1")); /* nor is it a's to end */
	assert_true(mcp_watch_remove(w, &b.session, "box/s", "x://1"));
	memset(uri, 'x', sizeof(uri) - 1);
	uri[sizeof(uri) - 1] = '\0';
	assert_int_equal(mcp_watch_add(w, &a, "box/s", uri), ERR_TOO_LARGE);
	for (int i = 0; i < MCP_WATCHES_OWN; i++) {
		snprintf(uri, sizeof(uri), "x://%d", i);
		assert_int_equal(mcp_watch_add(w, &a, "box/s", uri), 0);
	}
	assert_int_equal(mcp_watch_add(w, &a, "box/s", "x://more"), ERR_LIMIT);
	mcp_watch_forget(w, &a.session);
	assert_int_equal(mcp_watch_add(w, &a, "box/s", "x://more"), 0);
	mcp_watches_free(w);
}

/* One principal's sessions, with rows in sessions of 64. */
static void watch_much(struct mcp_watches *w, const char *principal)
{
	for (int n = 0; n < MCP_WATCHES_MAX + 64; n += 64) {
		struct mcp_holder x = holder(principal);
		char uri[32];

		for (int i = 0; i < 64; i++) {
			snprintf(uri, sizeof(uri), "%s://%d", principal, n + i);
			assert_int_equal(mcp_watch_add(w, &x, "box/s", uri), 0);
		}
	}
}

static bool is_watched(const struct mcp_watches *w, const char *uri)
{
	size_t at = 0;

	return mcp_watch_next(w, "box/s", uri, &at) != NULL;
}

static bool is_not_ann(void *arg, const struct mcp_holder *who)
{
	(void)arg;
	return strcmp(who->principal, "ann") != 0;
}

/* A principal that watches much loses rows of its own, under whichever of its names, and never another's. */
static void nobody_takes_anothers_watch(void **state)
{
	struct mcp_holder bob = holder("bob"), cy = holder("cy");
	struct mcp_watches *w;

	(void)state;
	assert_int_equal(mcp_watches_create(&w), 0);
	assert_int_equal(mcp_watch_add(w, &bob, "box/s", "x://bob"), 0);
	watch_much(w, "eve");
	assert_true(is_watched(w, "x://bob"));
	assert_false(is_watched(w, "eve://0"));
	watch_much(w, "eve/worker");
	assert_false(is_watched(w, "eve://1087"));
	for (int i = 0; i < MCP_WATCHES_SHARE - 1; i += 64)
		watch_much(w, "ann");
	assert_true(is_watched(w, "x://bob"));
	assert_int_equal(mcp_watch_may(w, &cy, "box/s", "x://cy"), ERR_UNAVAILABLE);
	assert_int_equal(mcp_watch_may(w, &bob, "box/s", "x://bob2"), 0); /* in place of the first */
	mcp_watches_sweep(w, is_not_ann, NULL);                           /* whose grant has ended */
	assert_int_equal(mcp_watch_add(w, &cy, "box/s", "x://cy"), 0);
	assert_true(is_watched(w, "x://bob"));
	mcp_watches_free(w);
}

static void log_levels_are_of_a_session(void **state)
{
	struct mcp_levels *l = calloc(1, sizeof(*l));
	struct mcp_holder bob = holder("bob"), cy = holder("cy"), first = holder("eve"), last = first;
	int rc = 0;

	(void)state;
	assert_int_equal(mcp_levels_get(l, &bob.session), MCP_LOG_NONE);
	assert_int_equal(mcp_levels_set(l, &bob, mcp_log_level("error")), 0);
	assert_int_equal(mcp_levels_set(l, &first, mcp_log_level("info")), 0);
	for (size_t i = 0; i < MCP_LEVELS_MAX; i++) {
		last = holder(i % 2 ? "eve" : "eve/worker");
		assert_int_equal(mcp_levels_set(l, &last, mcp_log_level("error")), 0);
	}
	assert_int_equal(mcp_levels_get(l, &first.session), MCP_LOG_NONE); /* its own oldest gave way */
	assert_int_equal(mcp_levels_get(l, &last.session), mcp_log_level("error"));
	assert_int_equal(mcp_levels_get(l, &bob.session), mcp_log_level("error"));
	mcp_levels_set(l, &bob, mcp_log_level("debug"));
	assert_int_equal(mcp_levels_get(l, &bob.session), 0);
	for (size_t i = 0; i < MCP_LEVELS_SHARE; i++) {
		last = holder("ann");
		assert_int_equal(mcp_levels_set(l, &last, 3), 0);
	}
	rc = mcp_levels_set(l, &cy, 3);
	assert_int_equal(rc, ERR_LIMIT);
	mcp_levels_sweep(l, is_not_ann, NULL);
	assert_int_equal(mcp_levels_set(l, &cy, 3), 0);
	mcp_levels_forget(l, &bob.session);
	assert_int_equal(mcp_levels_get(l, &bob.session), MCP_LOG_NONE);
	assert_int_equal(mcp_log_level("loud"), MCP_LOG_NONE);
	free(l);
}

/* The job of a call as this test plays it: it is done when the test says so. */
static struct {
	struct inside_ops ops;
	void *arg;
} job;

void broker_inside_pass(struct inside_job *j, const struct inside_ops *ops, void *arg)
{
	(void)j;
	job.ops = *ops;
	job.arg = arg;
}

void broker_inside_abandon(struct inside_job *j)
{
	(void)j;
}

/* A call ends while nobody is there; the asking under its state, for who may have it. */
static struct mcp_asking *ended(struct mcp_askings *all, const struct inside_request *w, const char *text, int rc)
{
	struct inside_questions questions = TAILQ_HEAD_INITIALIZER(questions);
	struct mcp_asking *a;
	json_t *out = NULL, *answer = json(text);
	const char *state;

	assert_int_equal(mcp_asking_create(&whose, w, &a), 0);
	assert_int_equal(mcp_asking_wait(all, a, (struct inside_job *)&job, &questions, &out, NULL), 0);
	state = json_get_text(out, "requestState");
	a = mcp_asking_find(all, state, &whose, w);
	assert_non_null(mcp_asking_job(a));
	assert_false(mcp_asking_ended(a, NULL, NULL, NULL));
	job.ops.done(job.arg, rc, NULL, rc ? NULL : answer, "round-7");
	a = mcp_asking_find(all, state, &whose, w);
	json_decref(answer);
	json_decref(out);
	return a;
}

/* Nobody is told to do again what is done. */
static void a_call_that_ends_unheard_keeps_its_answer(void **state)
{
	const struct inside_request w = {.agent = "box", .server = "s", .method = "tools/call"};
	char *text = malloc(MCP_ASKINGS_KEPT_ONE + 64);
	struct mcp_askings *all;
	struct mcp_asking *a;
	json_t *answer = NULL;
	struct err e = {0};
	int rc = -1;

	(void)state;
	assert_int_equal(mcp_askings_create(&all), 0);
	a = ended(all, &w, "{\"result\":{\"effect\":1}}", 0);
	assert_non_null(a);
	assert_null(mcp_asking_job(a));
	for (int i = 0; i < 2; i++) { /* as often as he comes */
		assert_true(mcp_asking_ended(a, &rc, &e, &answer));
		assert_int_equal(rc, 0);
		assert_int_equal(json_integer_value(json_object_get(json_object_get(answer, "result"), "effect")), 1);
		json_decref(answer);
		answer = NULL;
	}
	assert_true(mcp_asking_ended(ended(all, &w, "{}", ERR_TIMEOUT), &rc, &e, &answer));
	assert_int_equal(rc, ERR_TIMEOUT);
	assert_non_null(strstr(e.message, "round-7"));
	strcpy(text, "{\"result\":{\"t\":\"");
	memset(text + strlen(text), 'x', MCP_ASKINGS_KEPT_ONE);
	strcpy(text + 16 + MCP_ASKINGS_KEPT_ONE, "\"}}");
	assert_true(mcp_asking_ended(ended(all, &w, text, 0), &rc, &e, &answer));
	assert_int_equal(rc, ERR_TOO_LARGE);
	assert_null(answer);
	assert_non_null(strstr(e.message, "round-7"));
	for (int i = 0; i < 2 * MCP_ASKINGS_OWN; i++) /* what has ended gives way */
		assert_non_null(ended(all, &w, "{\"result\":{}}", 0));
	mcp_askings_close(all);
	free(text);
}

/* One call more that waits, of that principal. */
static int wait_one(struct mcp_askings *all, const char *principal)
{
	const struct inside_request w = {.agent = "box", .server = "s", .method = "tools/call"};
	struct inside_questions questions = TAILQ_HEAD_INITIALIZER(questions);
	struct mcp_holder who = holder(principal);
	struct grant g = whose;
	struct mcp_asking *a;
	struct err e = {0};
	json_t *out = NULL;
	int rc;

	snprintf(g.principal, sizeof(g.principal), "%s", who.principal);
	assert_int_equal(mcp_asking_create(&g, &w, &a), 0);
	rc = mcp_asking_wait(all, a, (struct inside_job *)&job, &questions, &out, &e);
	if (rc) {
		mcp_asking_free(a);
		assert_string_equal(e.share.limit, "fixed.mcp_askings");
		assert_string_equal(e.share.of, "principal");
		assert_int_equal(e.share.value, MCP_ASKINGS_OWN);
	}
	json_decref(out);
	return rc;
}

/* Grants that a principal makes below its own name give it no more calls that wait. */
static void names_under_one_root_wait_together(void **state)
{
	struct mcp_askings *all;
	char name[32];

	(void)state;
	assert_int_equal(mcp_askings_create(&all), 0);
	for (int i = 0; i < MCP_ASKINGS_OWN; i++) {
		snprintf(name, sizeof(name), "eve/%d", i);
		assert_int_equal(wait_one(all, name), 0);
	}
	assert_int_equal(wait_one(all, "eve/again"), ERR_LIMIT);
	assert_int_equal(wait_one(all, "eve"), ERR_LIMIT);
	assert_int_equal(wait_one(all, "bob"), 0);
	job.ops.done(job.arg, ERR_TIMEOUT, NULL, NULL, "round-7"); /* bob's */
	assert_int_equal(wait_one(all, "eve"), ERR_LIMIT);
	mcp_askings_close(all);
}

/* A request that was given up may go on in the server: nobody else hears what it says until it is over. */
static void what_was_given_up_is_heard_by_nobody_else(void **state)
{
	const struct grant other = {.kind = GRANT_AGENT, .principal = "two", .agent = "box"};
	struct inside_ghosts *g = calloc(1, sizeof(*g));

	(void)state;
	assert_true(inside_ghosts_are_of(g, &other, "T"));
	inside_ghosts_add(g, 7, &whose, "T", 1000);
	assert_true(inside_ghosts_are_of(g, &whose, "T"));
	assert_false(inside_ghosts_are_of(g, &whose, "U"));
	assert_false(inside_ghosts_are_of(g, &other, "T"));
	assert_false(inside_ghosts_are_due(g, 1000 + INSIDE_GHOST_NS - 1));
	assert_true(inside_ghosts_are_due(g, 1000 + INSIDE_GHOST_NS));
	inside_ghosts_answered(g, 8);
	assert_false(inside_ghosts_are_of(g, &other, "T"));
	inside_ghosts_answered(g, 7);
	assert_true(inside_ghosts_are_of(g, &other, "T"));
	for (int i = 0; i <= INSIDE_GHOSTS_MAX; i++)
		inside_ghosts_add(g, 10 + i, &whose, "T", 1000);
	for (int i = 0; i <= INSIDE_GHOSTS_MAX; i++)
		inside_ghosts_answered(g, 10 + i);
	assert_false(inside_ghosts_are_of(g, &whose, "T")); /* one more than is known by number */
	assert_true(inside_ghosts_are_due(g, 1000));
	inside_ghosts_clear(g);
	assert_true(inside_ghosts_are_of(g, &other, "T"));
	free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_client_is_asked_what_it_declares),
	    cmocka_unit_test(forms_and_plain_words_are_asked_for),
	    cmocka_unit_test(a_key_is_a_word),
	    cmocka_unit_test(a_question_holds_little),
	    cmocka_unit_test(answers_have_a_form),
	    cmocka_unit_test(a_session_says_what_its_client_declared),
	    cmocka_unit_test(a_session_hears_of_what_it_watches),
	    cmocka_unit_test(nobody_takes_anothers_watch),
	    cmocka_unit_test(log_levels_are_of_a_session),
	    cmocka_unit_test(a_call_that_ends_unheard_keeps_its_answer),
	    cmocka_unit_test(names_under_one_root_wait_together),
	    cmocka_unit_test(what_was_given_up_is_heard_by_nobody_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
