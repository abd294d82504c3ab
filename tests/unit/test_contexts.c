// tier: check
/* Which contexts there are: one execution at a time, an end with its reason, generations, a restart, bounds; and what
 * an execution's lines become. */
#include "base/err.h"
#include "muxd/hub/broker/context_answer.h"
#include "muxd/hub/broker/executions.h"
#include "muxd/hub/session/context_call.h"
#include "muxd/hub/session/contexts.h"
#include "muxd/hub/session/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

static const struct context_owner me = {"agent", "p"}, other = {"agent", "q"};

static struct id number(unsigned n)
{
	return (struct id){{0, 0, 0, 0, 0, (uint8_t)(n >> 8), (uint8_t)n}};
}

static struct context_use use(unsigned id, enum context_role role, int64_t generation)
{
	return (struct context_use){.role = role, .id = number(id), .generation = generation};
}

static int begin(struct contexts *x, const struct context_use *u, unsigned session)
{
	return contexts_begin(x, &me, u, &(struct context_begin){.session = number(session), .sandbox = number(9)});
}

static void settle(struct contexts *x, const struct context_use *u, unsigned session, const char *message)
{
	struct session_result r = {.cause = EXIT_KILLED, .code = -1};
	struct id id = number(session);

	strcpy(r.message, message);
	contexts_settle(x, u, &id, &r);
}

static const char *state_of(struct contexts *x, const struct context_use *u, json_t **out)
{
	json_decref(*out);
	*out = contexts_show(x, NULL, NULL, &u->id);
	return json_get_text(*out, "state");
}

static void one_execution_at_a_time(void **state)
{
	struct contexts *x = contexts_create();
	struct context_use kernel = use(1, CONTEXT_INTERPRETER, 1), run = use(1, CONTEXT_EXECUTION, 1);
	struct context_view v;
	struct err e = {0};
	json_t *shown = NULL;

	(void)state;
	assert_int_equal(contexts_enter(x, &me, &run, &e), ERR_NOT_FOUND);
	assert_int_equal(begin(x, &kernel, 10), 0);
	assert_int_equal(contexts_enter(x, &other, &run, &e), ERR_NOT_FOUND);
	assert_int_equal(contexts_enter(x, &me, &run, &e), 0);
	assert_string_equal(state_of(x, &run, &shown), "idle");
	assert_int_equal(begin(x, &run, 11), 0);
	assert_string_equal(state_of(x, &run, &shown), "busy");
	assert_int_equal(contexts_enter(x, &me, &run, &e), ERR_CONTEXT_BUSY);
	assert_non_null(strstr(e.message, "execution 00000000-0000-0b00"));
	settle(x, &run, 12, ""); /* another's end */
	assert_string_equal(state_of(x, &run, &shown), "busy");
	settle(x, &run, 11, "");
	assert_int_equal(contexts_enter(x, &me, &run, &e), 0);
	assert_int_equal(contexts_find(x, &me, &kernel.id, &v, &e), 0);
	assert_true(id_is_nil(&v.busy) && !v.ended);
	json_decref(shown);
	contexts_destroy(x);
}

static void an_end_has_its_reason(void **state)
{
	struct contexts *x = contexts_create();
	struct context_use kernel = use(1, CONTEXT_INTERPRETER, 1), run = use(1, CONTEXT_EXECUTION, 1);
	struct err e = {0};
	json_t *shown = NULL;

	(void)state;
	assert_int_equal(begin(x, &kernel, 10), 0);
	settle(x, &kernel, 10, "the sandbox was stopped");
	assert_string_equal(state_of(x, &run, &shown), "ended");
	assert_string_equal(json_get_text(shown, "reason"), "the sandbox was stopped");
	assert_int_equal(contexts_enter(x, &me, &run, &e), ERR_CONTEXT_ENDED);
	assert_non_null(strstr(e.message, "stopped"));
	kernel.generation = 3;
	assert_int_equal(contexts_enter(x, &me, &kernel, &e), ERR_BAD_STATE); /* another reset came between */
	kernel.generation = 2;
	assert_int_equal(contexts_enter(x, &me, &kernel, &e), 0);
	assert_int_equal(begin(x, &kernel, 12), 0);
	assert_int_equal(contexts_enter(x, &me, &run, &e), ERR_CONTEXT_ENDED); /* of the one before */
	run.generation = 2;
	assert_int_equal(contexts_enter(x, &me, &run, &e), 0);
	settle(x, &kernel, 12, CONTEXT_DELETED);
	assert_int_equal(contexts_enter(x, &me, &run, &e), ERR_NOT_FOUND);
	json_decref(shown);
	contexts_destroy(x);
}

/* The record tells in any order. */
static void a_restart_tells_again(void **state)
{
	struct contexts *x = contexts_create();
	struct context_use first = use(1, CONTEXT_INTERPRETER, 1), second = use(1, CONTEXT_INTERPRETER, 2);
	struct context_use run = use(1, CONTEXT_EXECUTION, 2), back;
	json_t *shown = NULL, *o;

	(void)state;
	assert_int_equal(begin(x, &run, 13), 0);
	assert_int_equal(begin(x, &second, 12), 0);
	assert_int_equal(begin(x, &first, 10), 0);
	settle(x, &first, 10, "the context was reset");
	assert_string_equal(state_of(x, &run, &shown), "busy");
	assert_int_equal(json_integer_value(json_object_get(shown, "generation")), 2);
	run.code_bytes = 3;
	strcpy(run.code_sha256, "abc");
	o = context_use_json(&run);
	assert_int_equal(context_use_read(o, &back), 0);
	assert_memory_equal(&back, &run, sizeof(run));
	json_object_set_new(o, "role", json_string("none"));
	assert_int_equal(context_use_read(o, &back), ERR_INVAL);
	json_decref(o);
	json_decref(shown);
	contexts_destroy(x);
}

static void there_is_room_for_some(void **state)
{
	struct contexts *x = contexts_create();
	struct context_use u;
	struct err e = {0};
	json_t *list;

	(void)state;
	for (unsigned i = 1; i <= CONTEXTS_PER_OWNER; i++) {
		u = use(i, CONTEXT_INTERPRETER, 1);
		assert_int_equal(contexts_enter(x, &me, &u, &e), 0);
		assert_int_equal(begin(x, &u, 100 + i), 0);
	}
	u = use(99, CONTEXT_INTERPRETER, 1);
	assert_int_equal(contexts_enter(x, &me, &u, &e), ERR_LIMIT);
	assert_int_equal(contexts_enter(x, &other, &u, &e), 0);
	u = use(3, CONTEXT_INTERPRETER, 1);
	settle(x, &u, 103, "it ended"); /* one that has ended makes room */
	u = use(99, CONTEXT_INTERPRETER, 1);
	assert_int_equal(contexts_enter(x, &me, &u, &e), 0);
	list = contexts_list(x, NULL, NULL, &me);
	assert_int_equal(json_array_size(list), CONTEXTS_PER_OWNER - 1);
	json_decref(list);
	contexts_destroy(x);
}

static json_t *answer(const char *lines)
{
	return context_answer((const uint8_t *)lines, strlen(lines));
}

static void lines_become_an_answer(void **state)
{
	json_t *o =
	    answer("{\"type\":\"stdout\",\"text\":\"a\\n\"}\n{\"type\":\"stderr\",\"base64\":\"/w==\"}\n"
		   "{\"type\":\"result\",\"main\":true,\"data\":{\"text/plain\":\"1\",\"application/json\":\"[1]\","
		   "\"no media\":\"x\"}}\n{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\"}\nno line\n"
		   "{\"type\":\"end\",\"status\":\"interrupted\",\"count\":4,\"stdout_bytes\":7}\n"
		   "{\"type\":\"end\",\"cause\":\"timeout\",\"message\":\"m\"}\n{\"type\":\"end\",\"cause\":\"done\"}");
	const json_t *result = json_array_get(json_object_get(o, "results"), 0);

	(void)state;
	assert_string_equal(json_get_text(json_object_get(o, "stdout"), "data"), "a\n");
	assert_true(json_is_true(json_object_get(json_object_get(o, "stdout"), "truncated")));
	assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "stdout"), "total_bytes")), 7);
	assert_string_equal(json_get_text(json_object_get(o, "stderr"), "encoding"), "base64");
	assert_int_equal(json_object_size(json_object_get(result, "data")), 2);
	assert_int_equal(json_array_size(json_object_get(json_object_get(result, "data"), "application/json")), 1);
	assert_string_equal(json_get_text(json_object_get(o, "error"), "name"), "E");
	assert_string_equal(json_get_text(o, "cause"), "timeout"); /* the last line has not ended */
	assert_string_equal(json_get_text(o, "message"), "m");
	assert_int_equal(json_integer_value(json_object_get(o, "execution_count")), 4);
	json_decref(o);
}

/* 1 MB of both together, cut at a character; results past their room are named. */
static void an_answer_has_bounds(void **state)
{
	char *big = malloc(CONTEXT_SHOWN_MAX + 200), *line = malloc(CONTEXT_SHOWN_MAX + 400);
	json_t *o;

	(void)state;
	memset(big, 'x', CONTEXT_TEXT_MAX - 1);
	strcpy(big + CONTEXT_TEXT_MAX - 1, "\xc3\xa9");
	snprintf(line, CONTEXT_SHOWN_MAX + 400,
		 "{\"type\":\"stdout\",\"text\":\"%s\"}\n{\"type\":\"stderr\",\"text\":\"y\"}\n", big);
	o = answer(line);
	assert_int_equal(json_string_length(json_object_get(json_object_get(o, "stdout"), "data")),
			 CONTEXT_TEXT_MAX - 1);
	assert_true(json_is_true(json_object_get(json_object_get(o, "stdout"), "truncated")));
	assert_string_equal(json_get_text(json_object_get(o, "stderr"), "data"), "");
	assert_true(json_is_true(json_object_get(json_object_get(o, "stderr"), "truncated")));
	json_decref(o);
	memset(big, 'x', CONTEXT_SHOWN_MAX + 1);
	big[CONTEXT_SHOWN_MAX + 1] = '\0';
	snprintf(line, CONTEXT_SHOWN_MAX + 400,
		 "{\"type\":\"result\",\"data\":{\"image/png\":\"%s\",\"text/plain\":\"1\"}}\n", big);
	o = answer(line);
	const json_t *r = json_array_get(json_object_get(o, "results"), 0);
	assert_null(json_object_get(json_object_get(r, "data"), "image/png"));
	assert_int_equal(json_integer_value(json_object_get(json_object_get(r, "capped"), "image/png")),
			 CONTEXT_SHOWN_MAX + 1);
	json_decref(o);
	free(big);
	free(line);
}

static char *repeated(const char *head, const char *piece, size_t times, const char *rest)
{
	size_t n = strlen(piece), at = strlen(head);
	char *text = malloc(at + n * times + strlen(rest) + 1);

	memcpy(text, head, at);
	for (size_t i = 0; i < times; i++, at += n)
		memcpy(text + at, piece, n);
	strcpy(text + at, rest);
	return text;
}

/* Code that writes lines of its own: what they cost is bounded, how it ended is told all the same. */
static void lines_of_strangers_are_bounded(void **state)
{
	static const char end[] =
	    "{\"type\":\"error\",\"name\":\"E\"}\n{\"type\":\"end\",\"status\":\"error\",\"count\":3}\n";
	char *text = repeated("", "{\"type\":\"stdout\",\"text\":\"x\"}\n", CONTEXT_LINES_MAX + 50, end), *fat;
	json_t *o = answer(text);
	const json_t *out = json_object_get(o, "stdout"), *data;

	(void)state;
	assert_int_equal(json_string_length(json_object_get(out, "data")), CONTEXT_LINES_MAX);
	assert_true(json_is_true(json_object_get(out, "truncated")));
	assert_int_equal(json_integer_value(json_object_get(o, "lines_left_out")), 50);
	assert_string_equal(json_get_text(json_object_get(o, "error"), "name"), "E");
	assert_string_equal(json_get_text(o, "cause"), "error");
	json_decref(o);
	free(text);
	fat = repeated("{\"a\":[", "{},", 2 * CONTEXT_VALUES_MAX, "{}]}\n{\"type\":\"stdout\",\"text\":\"x\"}\n");
	o = answer(fat);
	assert_string_equal(json_get_text(json_object_get(o, "stdout"), "data"), "x");
	assert_int_equal(json_integer_value(json_object_get(o, "lines_left_out")), 1);
	assert_true(context_answer_held(o) < 10000);
	json_decref(o);
	free(fat);
	fat = repeated("{\"type\":\"result\",\"data\":{\"application/json\":\"[", "1,", 2 * CONTEXT_VALUES_MAX,
		       "1]\"}}\n");
	o = answer(fat);
	data = json_object_get(json_array_get(json_object_get(o, "results"), 0), "data");
	assert_true(json_is_string(json_object_get(data, "application/json")));
	json_decref(o);
	free(fat);
}

/* Results for which an answer has no place are counted, as lines that were not read are. */
static void results_past_the_last_are_counted(void **state)
{
	static const char end[] = "{\"type\":\"end\",\"status\":\"ok\",\"stdout_bytes\":0,\"stderr_bytes\":0}\n";
	static const size_t given[] = {CONTEXT_RESULTS_MAX, CONTEXT_RESULTS_MAX + 1, 300, CONTEXT_LINES_MAX + 50};

	(void)state;
	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		char *text = repeated("", "{\"type\":\"result\",\"data\":{\"text/plain\":\"1\"}}\n", given[i], end);
		json_t *o = answer(text);

		assert_int_equal(json_array_size(json_object_get(o, "results")), CONTEXT_RESULTS_MAX);
		assert_int_equal(json_integer_value(json_object_get(o, "lines_left_out")),
				 given[i] - CONTEXT_RESULTS_MAX);
		assert_string_equal(json_get_text(o, "cause"), "done");
		assert_false(json_is_true(json_object_get(json_object_get(o, "stdout"), "truncated")));
		json_decref(o);
		free(text);
	}
}

/* ---- read in a thread, and kept */

struct heard {
	int n, rc;
	json_t *answer;
};

static void on_read(void *arg, int rc, const struct err *e, json_t *said)
{
	struct heard *h = arg;

	(void)e;
	h->n++;
	h->rc = rc;
	json_decref(h->answer);
	h->answer = said;
}

static struct buf lines_of(char of, size_t n)
{
	char line[] = "{\"type\":\"stdout\",\"text\":\"x\"}\n";
	struct buf b;

	buf_init(&b, SIZE_MAX);
	line[sizeof(line) - 5] = of;
	for (size_t i = 0; i < n; i++)
		assert_int_equal(buf_append(&b, line, sizeof(line) - 1), 0);
	return b;
}

static const char *printed(const json_t *o)
{
	return json_get_text(json_object_get(o, "stdout"), "data");
}

static void long_output_waits_for_its_turn(void **state)
{
	struct heard h[3] = {0};
	struct executions *x;
	struct id id[3];
	struct buf b;
	uv_loop_t loop;

	(void)state;
	uv_loop_init(&loop);
	x = executions_create(&loop);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(id_new(&id[i]), 0);
	b = lines_of('s', 3); /* short: answered at once, and not kept */
	executions_read(x, &id[0], true, &b, on_read, &h[0]);
	assert_int_equal(h[0].n, 1);
	assert_string_equal(printed(h[0].answer), "sss");
	assert_null(executions_kept(x, &id[0]));
	for (size_t i = 0; i < 3; i++) {
		b = lines_of((char)('a' + i), 5000);
		executions_read(x, &id[i], i < 2, &b, on_read, &h[i]);
		assert_int_equal(buf_len(&b), 0);
		assert_int_equal(h[i].n, i == 0);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	for (size_t i = 0; i < 3; i++) {
		json_t *kept = executions_kept(x, &id[i]);

		assert_int_equal(h[i].rc, 0);
		assert_int_equal(strlen(printed(h[i].answer)), 5000);
		assert_int_equal(printed(h[i].answer)[0], 'a' + i);
		assert_true((kept != NULL) == (i < 2)); /* one that goes on will say more */
		assert_true(kept != h[i].answer);
		if (kept)
			assert_string_equal(printed(kept), printed(h[i].answer));
		json_decref(kept);
	}
	b = lines_of('z', 5000); /* what somebody had read meanwhile is not read again */
	executions_read(x, &id[0], true, &b, on_read, &h[0]);
	assert_int_equal(printed(h[0].answer)[0], 'a');
	for (size_t i = 0; i < 3; i++) {
		b = lines_of('q', 5000);
		executions_read(x, &id[2], false, &b, on_read, &h[i]);
	}
	executions_destroy(x); /* one in the thread's hands, two that wait */
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(h[i].rc, ERR_CANCELLED);
		json_decref(h[i].answer);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

/* Those that were asked for last stay, within their bound. */
static void what_is_kept_is_bounded(void **state)
{
	struct heard h = {0};
	struct executions *x;
	struct id id[40];
	uv_loop_t loop;
	size_t there = 0;

	(void)state;
	uv_loop_init(&loop);
	x = executions_create(&loop);
	for (size_t i = 0; i < 40; i++) {
		struct buf b = lines_of('x', 3000);

		assert_int_equal(id_new(&id[i]), 0);
		executions_read(x, &id[i], true, &b, on_read, &h);
		uv_run(&loop, UV_RUN_DEFAULT);
		json_decref(executions_kept(x, &id[0]));
	}
	for (size_t i = 0; i < 40; i++) {
		json_t *kept = executions_kept(x, &id[i]);

		there += kept != NULL;
		assert_true((i > 0 && i < 9) || kept); /* the first was asked for again and again */
		json_decref(kept);
	}
	assert_int_equal(there, 32);
	json_decref(h.answer);
	executions_destroy(x);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static void programs_are_called(void **state)
{
	struct context_use u = {.role = CONTEXT_EXECUTION, .generation = 2, .code_bytes = 5};
	struct context_call c;
	size_t n = 0;

	(void)state;
	context_call(&u, 1500, &c);
	while (c.argv[n])
		n++;
	assert_int_equal(n, 10);
	assert_string_equal(c.argv[0], "python3");
	assert_string_equal(c.argv[5], "/tmp/.muxd-context-00000000-0000-0000-0000-000000000000-2");
	assert_string_equal(c.argv[6], "1500");
	assert_string_equal(c.argv[8], "5");
	u.role = CONTEXT_ONCE;
	context_call(&u, 0, &c);
	assert_string_equal(c.argv[3], "-");
	u = (struct context_use){.role = CONTEXT_INTERPRETER, .language = CONTEXT_JAVASCRIPT, .generation = 1};
	context_call(&u, 0, &c);
	assert_string_equal(c.argv[0], "node");
	assert_null(c.argv[4]);
	assert_null(context_kernel(CONTEXT_BASH));
	assert_true(strlen(context_kernel(CONTEXT_PYTHON)) < 128 * 1024 &&
		    strlen(context_run(CONTEXT_JAVASCRIPT)) > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_execution_at_a_time),
	    cmocka_unit_test(an_end_has_its_reason),
	    cmocka_unit_test(a_restart_tells_again),
	    cmocka_unit_test(there_is_room_for_some),
	    cmocka_unit_test(lines_become_an_answer),
	    cmocka_unit_test(an_answer_has_bounds),
	    cmocka_unit_test(lines_of_strangers_are_bounded),
	    cmocka_unit_test(results_past_the_last_are_counted),
	    cmocka_unit_test(long_output_waits_for_its_turn),
	    cmocka_unit_test(what_is_kept_is_bounded),
	    cmocka_unit_test(programs_are_called),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
