// tier: check
/* A witness that is gone for a week, by a clock that the test moves: it is told once, its lag is true all the time, new
 * sessions are refused where the policy says so, nothing grows, and with its receipt all of that is over. */
#include "tests/lib/cutter_rig.h"

static uint64_t moved_ns;  /* the clocks' lead */
static uint64_t booted_ns; /* when the host was started anew, by the moved clock; 0: it was not */

static uint64_t moved_boot_ns(void)
{
	return clock_boot_ns() + moved_ns - booted_ns;
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
#define HOUR_NS   (60 * MINUTE_NS)
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

static void receipt_for(struct witnesses *w, const char *name, const struct chain_head *h)
{
	json_t *receipt = json_pack("{s:b}", "written", 1), *o;
	struct err e = {0};
	char *export;

	export = chain_head_export(h);
	o = json_loads(export, 0, NULL);
	if (!o || witnesses_receipt(w, name, o, receipt, &e))
		fail_msg("%s", e.message);
	free(export);
	json_decref(o);
	json_decref(receipt);
}

static struct chain_head newest_head(struct place *p)
{
	struct chain_head h;

	consumed(p, NULL);
	assert_int_equal(cutter_head(p->cutter, &h, NULL), 0);
	return h;
}

static void receipt_comes(struct place *p, struct witnesses *w, const char *name)
{
	struct chain_head h = newest_head(p);

	receipt_for(w, name, &h);
}

static struct witnesses *watch(struct place *p)
{
	struct conf *conf;
	struct witnesses *w;
	struct err e = {0};

	if (conf_parse(conf_text, sizeof(conf_text) - 1, "test", &conf, &e))
		fail_msg("%s", e.message);
	struct witnesses_params params = {
	    .dir = p->dir, .cutter = p->cutter, .drain = p->drain, .signer = p->signer, .conf = conf};
	if (witnesses_create(&params, &w, &e))
		fail_msg("%s", e.message);
	conf_destroy(conf);
	return w;
}

static struct witnesses *watch_anew(struct place *p, struct witnesses *w)
{
	witnesses_destroy(w);
	return watch(p);
}

static void news_comes(struct place *p, struct witnesses *w)
{
	struct id id;

	session_open(p, &id);
	text(p, RING_EXIT, &id, "{\"cause\":\"exit\",\"code\":0}");
	consumed(p, &id);
	witnesses_tick(w);
}

static void entry_comes(struct place *p, const char *of)
{
	json_t *o = json_pack("{s:s}", "of", of);

	assert_int_equal(chain_append_json(cutter_chain(p->cutter), CHAIN_DIGEST, NULL, o, NULL), 0);
	json_decref(o);
}

/* Once whoever starts may be refused. */
static bool refuses_after_grace(struct place *p, struct witnesses *w, bool want)
{
	moved_ns += GRACE_NS + NS_PER_SEC;
	witnesses_tick(w);
	return comes_to_refuse(p, want) == want;
}

static void a_week_without_a_witness(void **state)
{
	struct place *p = *state;

	moved_ns = booted_ns = 0;
	start(p);
	struct witnesses *w = watch(p);
	news_comes(p, w);
	receipt_comes(p, w, "far");
	witnesses_tick(w);
	assert_status(w, "current", 0);
	news_comes(p, w); /* that it never gets */
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
}

/* A new recorder, and one on a host that was started anew, reckon the lag from the same news as the one before. */
static void a_start_takes_nothing_off_a_lag(void **state)
{
	struct place *p = *state;

	moved_ns = booted_ns = 0;
	start(p);
	struct witnesses *w = watch(p);
	news_comes(p, w);
	receipt_comes(p, w, "far");
	news_comes(p, w);
	moved_ns = 2 * HOUR_NS;
	w = watch_anew(p, w);
	assert_status(w, "current", 2 * 3600); /* the carrier could not ask yet */
	assert_false(refuses(p));
	assert_true(refuses_after_grace(p, w, true));
	assert_status(w, "behind", 2 * 3600);
	booted_ns = clock_boot_ns() + moved_ns - NS_PER_SEC;
	w = watch_anew(p, w);
	assert_true(refuses_after_grace(p, w, true));
	assert_status(w, "behind", 2 * 3600);
	receipt_comes(p, w, "far");
	witnesses_tick(w);
	w = watch_anew(p, w);
	assert_status(w, "current", 0);
	assert_false(refuses_after_grace(p, w, false));
	witnesses_destroy(w);
}

/* A log that was idle for long makes no lag: only what a witness lacks counts. */
static void a_log_that_was_idle_is_no_lag(void **state)
{
	struct place *p = *state;
	int64_t long_ago = clock_wall_ns() - 2 * (int64_t)HOUR_NS;
	struct chain_head h = {0};

	moved_ns = booted_ns = 0;
	start(p);
	struct witnesses *w = watch(p);
	for (int i = 0; i < 100 && h.wall_ns != long_ago; i++) { /* the cutter signs, too */
		entry_comes(p, "x");
		assert_int_equal(chain_sign_head(cutter_chain(p->cutter), long_ago, NULL), 0);
		chain_head(cutter_chain(p->cutter), &h, NULL);
	}
	receipt_for(w, "far", &h);
	assert_int_equal(w->list[0].head_wall_ns, long_ago);
	news_comes(p, w);
	w = watch_anew(p, w);
	assert_status(w, "current", 0);
	assert_false(refuses_after_grace(p, w, false));
	witnesses_destroy(w);
}

/* So much that the log goes on in a next file. */
static void log_grows(struct place *p)
{
	enum { SIZE = 100 * 1024 };
	char *fill = malloc(SIZE + 1);

	memset(fill, 'x', SIZE);
	fill[SIZE] = '\0';
	for (int i = 0; i <= CHAIN_FILE_TARGET / SIZE; i++)
		entry_comes(p, fill);
	free(fill);
}

/* The receipt is in a file before the last one, which is younger than refuse_after. */
static void a_receipt_of_an_older_file_counts(void **state)
{
	static const char said[] = "{\"event\":\"x\"}";
	struct place *p = *state;
	const struct ring_record rec = {
	    .type = RING_AUDIT, .seq = INT64_MAX, .payload = (const uint8_t *)said, .len = sizeof said - 1};
	int64_t long_ago = clock_wall_ns() - 2 * (int64_t)HOUR_NS;

	moved_ns = booted_ns = 0;
	start(p);
	struct witnesses *w = watch(p);
	news_comes(p, w);
	struct chain_head h = newest_head(p);
	assert_int_equal(chain_append_audit(cutter_chain(p->cutter), &rec, long_ago, NULL), 0);
	receipt_for(w, "far", &h);
	log_grows(p);
	log_grows(p);
	w = watch_anew(p, w);
	assert_true(refuses_after_grace(p, w, true));
	assert_status(w, "behind", 2 * 3600);
	witnesses_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CUTTER_TEST(a_week_without_a_witness),
	    CUTTER_TEST(a_start_takes_nothing_off_a_lag),
	    CUTTER_TEST(a_log_that_was_idle_is_no_lag),
	    CUTTER_TEST(a_receipt_of_an_older_file_counts),
	};

	return cmocka_run_group_tests_name("witnesses_week", tests, quiet, NULL);
}
