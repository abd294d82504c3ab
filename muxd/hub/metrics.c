/* Numbers that are more than counts: how long rounds took, and what lifecycle has to tell. */
#include "base/metric.h"
#include "control/life/life.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/shelf.h"
#include "muxd/hub/inside/inside.h"

static void of_witnesses(const json_t *witnesses, json_t *list)
{
	static const struct {
		const char *type, *name, *help, *key;
	} families[] = {
	    {"gauge", "muxd_witness_lag_seconds",
	     "For how long there has been something in the record that this witness does not know of.", "lag_seconds"},
	    {"counter", "muxd_witness_receipts_total", "Heads that this witness took.", "receipts"},
	    {"counter", "muxd_witness_failures_total", "Times that a head did not get to this witness.", "failures"}};
	const json_t *each;
	size_t i;

	for (size_t k = 0; witnesses && k < sizeof(families) / sizeof(families[0]); k++) {
		json_t *family = metric_family(list, families[k].type, families[k].name, families[k].help);

		json_array_foreach(witnesses, i, each)
		    metric_value(family, "witness", json_string_value(json_object_get(each, "name")),
				 (double)json_integer_value(json_object_get(each, families[k].key)));
	}
}

json_t *hub_metrics(struct hub *h)
{
	json_t *list = hub_life(h) ? life_metrics(hub_life(h)) : NULL;

	if (!json_is_array(list)) {
		json_decref(list);
		list = json_array();
	}
	metric_times_value(metric_family(list, "histogram", "muxd_round_duration_seconds",
					 "Time from the opening of a round to its end."),
			   NULL, NULL, shelf_round_times(h));
	metric_times_value(metric_family(list, "histogram", "muxd_mcp_request_duration_seconds",
					 "Time from a request to an MCP server inside to its end."),
			   NULL, NULL, insides_times(h));
	metric_value(metric_family(list, "counter", "muxd_mcp_server_failures_total",
				   "Times that an MCP server inside failed and was held down."),
		     NULL, NULL, (double)insides_failures(h));
	of_witnesses(hub_witnesses(h), list);
	return list;
}
