// tier: check
/* Families of numbers become the text that Prometheus reads. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/metric.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct buf page;

static const char *render(json_t *list)
{
	buf_finish(&page);
	buf_init(&page, 65536);
	assert_int_equal(metric_render(list, &page), 0);
	json_decref(list);
	return buf_cstr(&page);
}

static void test_values(void **state)
{
	json_t *list = json_array(), *f = metric_family(list, "gauge", "muxd_agents", "Agents, by state.");

	(void)state;
	metric_value(f, "state", "running", 3);
	metric_value(f, "state", "stopped", 10000);
	metric_value(metric_family(list, "counter", "muxd_things_total", "Things."), NULL, NULL, 0.25);
	assert_string_equal(render(list), "# HELP muxd_agents Agents, by state.\n"
					  "# TYPE muxd_agents gauge\n"
					  "muxd_agents{state=\"running\"} 3\n"
					  "muxd_agents{state=\"stopped\"} 10000\n"
					  "# HELP muxd_things_total Things.\n"
					  "# TYPE muxd_things_total counter\n"
					  "muxd_things_total 0.25\n");
}

static void test_times(void **state)
{
	json_t *list = json_array();
	struct metric_times t = {0};
	const char *text;

	(void)state;
	metric_times_add(&t, NS_PER_MS); /* an end belongs to its bucket */
	metric_times_add(&t, 3 * NS_PER_MS);
	metric_times_add(&t, 3600 * NS_PER_SEC); /* longer than any */
	metric_times_value(metric_family(list, "histogram", "muxd_start_seconds", "Starts."), "how", "fresh", &t);
	text = render(list);
	assert_non_null(strstr(text, "muxd_start_seconds_bucket{how=\"fresh\",le=\"0.001\"} 1\n"));
	assert_non_null(strstr(text, "muxd_start_seconds_bucket{how=\"fresh\",le=\"0.0025\"} 1\n"));
	assert_non_null(strstr(text, "muxd_start_seconds_bucket{how=\"fresh\",le=\"0.005\"} 2\n"));
	assert_non_null(strstr(text, "muxd_start_seconds_bucket{how=\"fresh\",le=\"600\"} 2\n"));
	assert_non_null(strstr(text, "muxd_start_seconds_bucket{how=\"fresh\",le=\"+Inf\"} 3\n"));
	assert_non_null(strstr(text, "muxd_start_seconds_count{how=\"fresh\"} 3\n"));
	assert_non_null(strstr(text, "muxd_start_seconds_sum{how=\"fresh\"} 3600.004\n"));
}

static void test_one_family_of_a_name(void **state)
{
	json_t *list = json_array();

	(void)state;
	metric_value(metric_family(list, "counter", "muxd_x_total", "X."), "why", "a", 1);
	metric_value(metric_family(list, "counter", "muxd_x_total", "X."), "why", "b\"\\\n", 2);
	assert_string_equal(render(list), "# HELP muxd_x_total X.\n# TYPE muxd_x_total counter\n"
					  "muxd_x_total{why=\"a\"} 1\nmuxd_x_total{why=\"b\\\"\\\\\\n\"} 2\n");
}

static void test_full(void **state)
{
	json_t *list = json_array();
	struct buf small;

	(void)state;
	metric_value(metric_family(list, "counter", "muxd_x_total", "X."), NULL, NULL, 1);
	buf_init(&small, 20);
	assert_int_equal(metric_render(list, &small), ERR_TOO_LARGE);
	buf_finish(&small);
	json_decref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_values),
	    cmocka_unit_test(test_times),
	    cmocka_unit_test(test_one_family_of_a_name),
	    cmocka_unit_test(test_full),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	buf_finish(&page);
	return rc;
}
