/* What is told of an agent: one object of GET /v1/agents. */
#include "muxd/hub/broker/agent_json.h"
#include "base/clock.h"
#include "base/persist.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/agent/service_wait.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"

#include <string.h>

static unsigned live_sessions(const struct agent *a)
{
	unsigned n = 0;
	struct session *s;

	for (s = a->channels; s; s = s->hh_channel.next)
		n += s->state != SESSION_ENDED;
	return n;
}

static const char *state_shown(const struct agent *a, const struct sandbox_info *i)
{
	static const char *const hub[] = {"stopped", "starting", "running", "error"};
	static const char *const provider[] = {"stopped", "running", "stopped", "error"};

	return a && a->state != AGENT_COLD ? hub[a->state] : i ? provider[i->state] : "stopped";
}

static void agent_json_set_time(json_t *o, const char *key, int64_t wall_ns)
{
	char when[40];

	clock_format_utc(wall_ns, when, sizeof(when));
	json_object_set_new(o, key, wall_ns ? json_string(when) : json_null());
}

static void agent_json_set_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, *text ? json_string(text) : json_null());
}

/* What a connection found out of its backend stands until the next one; the provider's look from outside may not know.
 */
static void set_backend(json_t *o, const struct agent *a, const struct sandbox_info *i)
{
	const struct sandbox_info *best = a && a->state != AGENT_COLD && a->info.created_wall_ns ? &a->info : i;

	json_object_set_new(o, "backend", json_string(sandbox_backend_name(best->backend)));
	agent_json_set_text(o, "backend_reason", best->why);
	agent_json_set_text(o, "delivery", best->delivery);
	agent_json_set_text(o, "ephemeral_container", best->visitor);
	agent_json_set_text(o, "namespace", best->ns);
	agent_json_set_text(o, "pod", best->pod);
	agent_json_set_text(o, "pod_made_with", best->pod_template);
	agent_json_set_text(o, "image_made_with", best->image);
	agent_json_set_text(o, "image_digest", best->image_digest);
	json_object_set_new(o, "resources_made_with", resources_json(&best->limits));
}

/* Directories that outlive a sleep (sandbox.persist is this machine's alone). */
static json_t *persists_json(const struct hub *h, const struct sandbox_info *i)
{
	bool local = i->backend == SANDBOX_LOCAL && !i->ns[0] && strcmp(hub_conf(h)->sandbox_backend, "local") == 0;
	json_t *list = json_array();
	char path[256];
	size_t at = 0;

	if (local || i->has_workspace)
		json_array_append_new(list, json_string("/workspace"));
	while (local && persist_next(hub_conf(h)->sandbox_persist, &at, path, sizeof(path)))
		json_array_append_new(list, json_string(path));
	return list;
}

json_t *agent_describe(struct hub *h, const char *name, const struct sandbox_info *info)
{
	static const struct sandbox_info nothing;
	const struct sandbox_info *i;
	struct agent *a = agent_find(h, name);
	char id[ID_STR_LEN];
	json_t *o = json_object(), *endpoints;

	i = info ? info : a ? &a->info : &nothing;
	json_object_set_new(o, "agent", json_string(name));
	json_object_set_new(o, "state", json_string(state_shown(a, i)));
	id_format(&i->sandbox_id, id);
	agent_json_set_text(o, "sandbox_id", id_is_nil(&i->sandbox_id) ? "" : id);
	set_backend(o, a, i);
	agent_json_set_text(o, "workspace_snapshot_id", i->snapshot_id);
	agent_json_set_time(o, "last_activity_at", a ? a->last_activity_wall_ns : 0);
	agent_json_set_time(o, "created_at", i->created_wall_ns);
	json_object_set_new(o, "sessions", json_integer(a ? live_sessions(a) : 0));
	json_object_set_new(o, "oom_kills", json_integer(i->oom_kills));
	json_object_set_new(o, "detail", json_string(i->detail));
	json_object_set_new(o, "persists", persists_json(h, i));
	endpoints = service_ports(h, name);
	if (endpoints)
		json_object_set_new(o, "endpoints", endpoints);
	json_object_set_new(o, "enforced",
			    json_pack("{s:b,s:b,s:b,s:b}", "workspace_size", i->cap_enforced, "memory",
				      i->memory_enforced, "pids", i->pids_enforced, "cpu", i->cpu_enforced));
	return o;
}
