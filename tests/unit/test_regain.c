// tier: check
/*
 * A round that ran on over a restart, at its end: the record is asked for its digests, its first bytes and its last,
 * and output that the link still had comes behind any of the questions. The recorder is this test's own, which answers
 * when it is told to, as none can be made to.
 */
#include "base/err.h"
#include "base/json.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/session/regain.h"
#include "muxd/hub/session/session_state.h"
#include "recorder/serve/client.h"

#include <openssl/sha.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char text[] = "one two three four";

static struct {
	json_t *question; /* the one that waits for its answer */
	recorder_answer *told;
	void *arg;
} asked;
static unsigned overs;

int recorder_client_ask(struct recorder_client *c, const json_t *request, recorder_answer *told, void *arg)
{
	(void)c;
	assert_null(asked.question);
	asked.question = json_deep_copy(request);
	asked.told = told;
	asked.arg = arg;
	return 0;
}

static void on_over(struct session *s)
{
	(void)s;
	overs++;
}

static void hex_of(size_t n, char out[65])
{
	uint8_t md[SHA256_DIGEST_LENGTH];

	SHA256((const uint8_t *)text, n, md);
	for (size_t i = 0; i < sizeof(md); i++)
		sprintf(out + 2 * i, "%02x", md[i]);
}

/* As the record has it: of exactly so many bytes as were counted, or of none. */
static void answer_digests(json_t *q, size_t in_the_record)
{
	size_t total = (size_t)json_integer_value(json_array_get(json_object_get(q, "totals"), STREAM_OUTPUT));
	struct err e = {0};
	char out[65], none[65];
	json_t *o;

	if (total != in_the_record) {
		err_set(&e, ERR_EOF, "the record has other bytes of the session than were counted");
		asked.told(asked.arg, ERR_EOF, &e, NULL, NULL, 0, true);
		return;
	}
	hex_of(total, out);
	hex_of(0, none);
	o = json_pack("{s:s,s:s}", "stdout", out, "stderr", none);
	asked.told(asked.arg, 0, NULL, o, NULL, 0, true);
	json_decref(o);
}

static void answer_bytes(json_t *q)
{
	size_t at = (size_t)json_integer_value(json_object_get(q, "offset"));
	size_t n = (size_t)json_integer_value(json_object_get(q, "limit"));
	json_t *o = json_pack("{s:I}", "offset", (json_int_t)at);

	asked.told(asked.arg, 0, NULL, o, NULL, 0, false);
	asked.told(asked.arg, 0, NULL, NULL, (const uint8_t *)text + at, n, false);
	asked.told(asked.arg, 0, NULL, NULL, NULL, 0, true);
	json_decref(o);
}

/* One answer; false: nothing was asked. */
static bool recorder_answers(size_t in_the_record)
{
	json_t *q = asked.question;

	if (!q)
		return false;
	asked.question = NULL;
	if (strcmp(json_get_text(q, "op"), "digests") == 0)
		answer_digests(q, in_the_record);
	else
		answer_bytes(q);
	json_decref(q);
	return true;
}

static void comes(struct session *s, size_t n)
{
	assert_int_equal(keep_add(&s->keep[STREAM_OUTPUT], (const uint8_t *)text + s->stream[STREAM_OUTPUT].end, n), 0);
	s->stream[STREAM_OUTPUT].end += n;
}

/* late: behind which answer four more bytes come; early: of these questions the record has them already. */
static void ends_with(unsigned late, bool early)
{
	struct hub *h = calloc(1, sizeof(*h));
	struct agent *a = calloc(1, sizeof(*a));
	struct session *s = calloc(1, sizeof(*s));
	const size_t before = sizeof(text) - 1 - 4;
	size_t record = before;
	char whole[65];

	h->recorder = (struct recorder_client *)h; /* never looked into: asked by the function above */
	strcpy(a->name, "regained");
	*s = (struct session){.hub = h, .agent = a, .kind = SESSION_ROUND};
	s->launch.head = s->launch.tail = 8;
	s->keep = calloc(STREAM_COUNT, sizeof(*s->keep));
	assert_non_null(s->keep);
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		assert_int_equal(keep_init(&s->keep[i], 8, 8), 0);
	s->keep[STREAM_OUTPUT].whole = s->keep[STREAM_STDERR].whole = false;
	s->keep[STREAM_OUTPUT].total = s->stream[STREAM_OUTPUT].end = before;
	overs = 0;
	assert_true(regain_waits(s, on_over));
	for (unsigned n = 0; n == 0 || asked.question; n++) {
		if (n == late && early)
			record += 4; /* the recorder is ahead of what the hub has counted when it asked */
		if (n == late)
			comes(s, 4);
		record = s->stream[STREAM_OUTPUT].end > record ? s->stream[STREAM_OUTPUT].end : record;
		assert_true(n < 20 && recorder_answers(early || n != late ? record : before));
	}
	assert_int_equal(overs, 1);
	assert_false(regain_waits(s, on_over));
	hex_of(s->stream[STREAM_OUTPUT].end, whole);
	assert_int_equal(s->keep[STREAM_OUTPUT].total, s->stream[STREAM_OUTPUT].end);
	assert_string_equal(keep_digest(&s->keep[STREAM_OUTPUT]), whole);
	assert_memory_equal(s->keep[STREAM_OUTPUT].head, text, 8);
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		keep_finish(&s->keep[i]);
	free(s->keep);
	regain_forget(s);
	free(s);
	free(a);
	free(h);
}

static void a_digest_is_of_what_came_meanwhile_too(void **state)
{
	(void)state;
	for (unsigned late = 0; late < 5; late++)
		for (int early = 0; early < 2; early++)
			ends_with(late, early);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_digest_is_of_what_came_meanwhile_too)};

	return cmocka_run_group_tests_name("regain", tests, NULL, NULL);
}
