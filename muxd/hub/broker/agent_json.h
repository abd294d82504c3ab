/*
 * agent_json.h - agents as people and programs are shown them.
 */
#ifndef MUXD_HUB_BROKER_AGENT_JSON_H
#define MUXD_HUB_BROKER_AGENT_JSON_H

#include "base/json.h"
#include "control/sandbox.h"

struct hub;

/* What the hub knows of it, and the provider (info; NULL: what it said last). */
json_t *agent_describe(struct hub *h, const char *name, const struct sandbox_info *info);
/* broker_list.c: the same with the row that life keeps of it (NULL: none), which knows better. */
json_t *agent_show(struct hub *h, const char *name, const struct sandbox_info *info, const json_t *row);
json_t *agent_row(struct hub *h, const char *name);      /* NULL: none, or no life here */
json_t *agent_show_now(struct hub *h, const char *name); /* with the row as it is now */

/*
 * moment.c: snapshot_id and next_snapshot_id into o, of something opened then, with that snapshot ("": none). seen: an
 * object that one list shares, so that the store is asked once for each agent.
 */
void moment_add(struct hub *h, json_t *o, const char *agent, int64_t opened_wall_ns, const char *snapshot,
		json_t *seen);

#endif
