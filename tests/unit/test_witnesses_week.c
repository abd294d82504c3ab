// tier: check
/* A witness that is gone for a week, by a clock that the test moves: it is told once, its lag is true all the time, new
 * sessions are refused where the policy says so, nothing grows, and with its receipt all of that is over. */
#include "tests/lib/cutter_rig.h"

static uint64_t moved_ns; /* the clocks' lead */

static uint64_t moved_boot_ns(void)
{
	return clock_boot_ns() + moved_ns;
}

static int64_t moved_wall_ns(void)
{
	return clock_wall_ns() + (int64_t)moved_ns;
}

#define clock_boot_ns moved_boot_ns
#define clock_wall_ns moved_wall_ns
#include "recorder/serve/witnesses.c"
#undef clock_boot_ns
#undef clock_wall_ns

#define MINUTE_NS (60 * NS_PER_SEC)
#define WEEK_MIN  (7 * 24 * 60)

static const char conf_text[] =
    "witnesses:\n"
    "  - {name: far, kind: file, path: /nowhere/heads, interval: 1m, timeout: 10s, refuse_after: 1h}\n"
    "  - {name: idle, kind: file, path: /nowhere/else, interval: 1m, timeout: 10s}\n";

static json_t *status_of(struct witnesses *w, const char *name)
{
	json_t *list = witnesses_status(w), *o, *found = NULL;
	size_t i;

	json_array_foreach(list, i, o) if (strcmp(json_string_value(json_object_get(o, "name")), name) == 0) found =
	    json_incref(o);
	json_decref(list);
	assert_non_null(found);
	return found;
}

static void assert_status(struct witnesses *w, const char *state, uint64_t lag_s)
{
	json_t *o = status_of(w, "far");
	json_int_t lag = json_integer_value(json_object_get(o, "lag_seconds"));

	assert_string_equal(json_string_value(json_object_get(o, "state")), state);
	assert_in_range(lag, lag_s, lag_s + 60); /* the machine's own time comes on top */
	json_decref(o);
}

static bool refuses(struct place *p)
{
	struct ring_cursor c;

	for (int i = 0; i < 200 && ring_cursor_read(p->cursor_fd, &c); i++)
		usleep(1000);
	return c.flags & RING_CURSOR_REFUSE;
}

/* What was decided is in the cursor with the next turn of who writes it. */
static bool comes_to_refuse(struct place *p, bool want)
{
	for (int i = 0; i < 12000 && refuses(p) != want; i++)
		usleep(5000);
	return refuses(p) == want;
}

static unsigned told(struct place *p, const char *event)
{
	struct index_filter f = {.event = event, .limit = 100};
	unsigned n = 0;

	consumed(p, NULL);
	assert_int_equal(index_audit(p->reader, &f, count_row, &n, NULL), 0);
	return n;
}

static void receipt_comes(struct place *p, struct witnesses *w, const char *name)
{
	json_t *receipt = json_pack("{s:b}", "written", 1), *o;
	struct chain_head h;
	struct err e = {0};
	char *export;

	consumed(p, NULL);
	assert_int_equal(cutter_head(p->cutter, &h, &e), 0);
	export = chain_head_export(&h);
	o = json_loads(export, 0, NULL);
	if (!o || witnesses_receipt(w, name, o, receipt, &e))
		fail_msg("%s", e.message);
	free(export);
	json_decref(o);
	json_decref(receipt);
}

static void a_week_without_a_witness(void **state)
{
	struct place *p = *state;
	struct conf *conf;
	struct witnesses *w;
	struct err e = {0};
	struct id id;

	start(p);
	if (conf_parse(conf_text, sizeof(conf_text) - 1, "test", &conf, &e))
		fail_msg("%s", e.message);
	struct witnesses_params params = {
	    .dir = p->dir, .cutter = p->cutter, .drain = p->drain, .signer = p->signer, .conf = conf};
	assert_int_equal(witnesses_create(&params, &w, &e), 0);
	session_open(p, &id);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	receipt_comes(p, w, "far");
	witnesses_tick(w);
	assert_status(w, "current", 0);
	session_open(p, &id); /* news that it never gets */
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	witnesses_tick(w);
	for (uint64_t min = 0; min <= WEEK_MIN; min++) {
		witnesses_tick(w);
		if (min % 10 == 9)
			witnesses_failed(w, "far", "connection refused, and more words than anybody keeps of it");
		if (min == 1 || min == 4 || min == 58 || min == 62 || min % 1440 == 0) {
			assert_status(w, min < 3 ? "current" : "behind", min * 60);
			assert_true(comes_to_refuse(p, min > 60));
		}
		moved_ns += MINUTE_NS;
	}
	assert_int_equal(told(p, "witness.behind"), 2); /* once of each of them */
	json_t *o = status_of(w, "far");
	assert_int_equal(json_integer_value(json_object_get(o, "failures")), WEEK_MIN / 10);
	assert_non_null(strstr(json_string_value(json_object_get(o, "message")), "connection refused"));
	json_decref(o);
	receipt_comes(p, w, "far");
	witnesses_tick(w);
	assert_status(w, "current", 0);
	assert_true(comes_to_refuse(p, false));
	assert_int_equal(told(p, "witness.behind"), 2);
	assert_int_equal(told(p, "witness.current"), 2);
	witnesses_destroy(w);
	conf_destroy(conf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {CUTTER_TEST(a_week_without_a_witness)};

	return cmocka_run_group_tests_name("witnesses_week", tests, quiet, NULL);
}
