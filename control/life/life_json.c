/* An agent's row and a snapshot as objects (requirement A6). */
#include "base/clock.h"
#include "control/life/life_state.h"

static void life_json_set_time(json_t *o, const char *key, int64_t wall_ns)
{
	char when[40];

	clock_format_utc(wall_ns, when, sizeof(when));
	json_object_set_new(o, key, wall_ns > 0 ? json_string(when) : json_null());
}

static void life_json_set_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, *text ? json_string(text) : json_null());
}

static void set_id(json_t *o, const char *key, const struct id *id)
{
	char text[ID_STR_LEN];

	id_format(id, text);
	life_json_set_text(o, key, id_is_nil(id) ? "" : text);
}

const char *life_cannot_sleep(const struct life *l, const struct life_wish *w)
{
	return w->idle_ttl_ns && l->inner->workspace_goes ? l->inner->workspace_goes : "";
}

static void set_timer(struct life *l, const struct life_row *r, json_t *o)
{
	struct life_activity act = {0};
	struct life_verdict v = {0};
	struct life_wish w;
	int64_t last = r->active_ns;

	life_wish(&l->policy, r->agent, r->idle_ttl_ns, &w);
	if (l->host.activity)
		l->host.activity(l->host.ctx, r->agent, &act);
	if (act.last_boot_ns && life_clock_of_boot(&l->clock, act.last_boot_ns) > last)
		last = life_clock_of_boot(&l->clock, act.last_boot_ns);
	if (r->state == LIFE_RUNNING)
		life_decide(&w, &act, last, life_now(l), true, &v);
	life_json_set_time(o, "last_activity_at", last ? life_clock_wall(&l->clock, last) : 0);
	life_json_set_time(o, "idle_stops_at", v.stops_at ? life_clock_wall(&l->clock, v.stops_at) : 0);
	life_json_set_time(o, "lease_expires_at",
			   r->expires_ns && r->expires_ns != LIFE_NEVER ? life_clock_wall(&l->clock, r->expires_ns)
									: 0);
	json_object_set_new(o, "ttl_action", json_string(w.ttl_delete ? "delete" : "stop"));
	json_object_set_new(o, "idle_ttl_ms", json_integer((json_int_t)(w.idle_ttl_ns * l->policy.speed / NS_PER_MS)));
	life_json_set_text(o, "cannot_sleep", life_cannot_sleep(l, &w));
	json_object_set_new(o, "holding", json_integer(act.holding));
	json_object_set_new(o, "attached", json_integer(act.attached));
}

json_t *life_describe(struct life *l, const struct life_row *r)
{
	static const struct id none;
	json_t *o = json_object();

	if (!o)
		return NULL;
	json_object_set_new(o, "agent", json_string(r->agent));
	json_object_set_new(o, "state", json_string(life_state_name(r->state)));
	json_object_set_new(o, "generation", json_integer((json_int_t)r->generation));
	life_json_set_text(o, "cause", r->cause);
	life_json_set_text(o, "detail", r->detail);
	life_json_set_text(o, "step", r->step);
	set_id(o, "sandbox_id", &r->sandbox);
	set_id(o, "workspace_snapshot_id", &r->snapshot);
	/* Of a restore it is the one before. */
	set_id(o, "next_snapshot_id",
	       strncmp(r->step, LIFE_STEP_RESTORE, strlen(LIFE_STEP_RESTORE)) == 0 ? &none : &r->next);
	json_object_set_new(o, "workspace", json_boolean(r->workspace));
	json_object_set_new(o, "read_only", json_boolean(r->read_only));
	if (r->fork_agent[0]) {
		json_t *f = json_object();

		life_json_set_text(f, "agent", r->fork_agent);
		set_id(f, "snapshot", &r->fork_snapshot);
		json_object_set_new(o, "forked_from", f);
	}
	life_json_set_text(o, "app_id", r->app_id);
	life_json_set_text(o, "image", r->image);
	json_object_set_new(o, "resources", resources_json(&r->resources));
	set_timer(l, r, o);
	life_json_set_time(o, "state_since", r->since_wall_ns);
	life_json_set_time(o, "created_at", r->created_wall_ns);
	life_json_set_time(o, "updated_at", r->updated_wall_ns);
	return o;
}

json_t *life_describe_snap(const struct life_snap *s)
{
	json_t *o = json_object();

	if (!o)
		return NULL;
	set_id(o, "id", &s->id);
	json_object_set_new(o, "agent", json_string(s->agent));
	json_object_set_new(o, "status", json_string(snap_status_name(s->status)));
	life_json_set_text(o, "name", s->name);
	life_json_set_text(o, "how", s->how);
	life_json_set_text(o, "digest", s->digest);
	life_json_set_text(o, "digest_state", life_digest_state(s));
	json_object_set_new(o, "size", s->size ? json_integer((json_int_t)s->size) : json_null());
	set_id(o, "previous_id", &s->previous);
	life_json_set_text(o, "cause", s->cause);
	life_json_set_text(o, "detail", s->detail);
	json_object_set_new(o, "quiesced", json_boolean(s->quiesced));
	json_object_set_new(o, "quiesce", json_string(snap_quiesce_name(s->quiesced)));
	life_json_set_time(o, "created_at", s->created_wall_ns);
	life_json_set_time(o, "ended_at", s->ended_wall_ns);
	return o;
}
