/* Numbers that are more than counts: how long rounds took, and what lifecycle has to tell. */
#include "control/life/life.h"
#include "muxd/hub/internal.h"

json_t *hub_metrics(struct hub *h)
{
	json_t *list = h->p.life ? life_metrics(h->p.life) : NULL;

	if (!json_is_array(list)) {
		json_decref(list);
		list = json_array();
	}
	metric_times_value(metric_family(list, "histogram", "muxd_round_duration_seconds",
					 "Time from the opening of a round to its end."),
			   NULL, NULL, &h->round_times);
	return list;
}
