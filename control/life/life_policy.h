/*
 * life_policy.h - what the configuration wants for an agent, and the one decision whether it sleeps (requirement A3).
 *
 * life_policy is a copy of the configuration's section, owned by lifecycle. The decision is pure: times in, verdict
 * out.
 */
#ifndef CONTROL_LIFE_LIFE_POLICY_H
#define CONTROL_LIFE_LIFE_POLICY_H

#include "control/life/life.h"

#include <stdbool.h>
#include <stdint.h>

struct conf_life_agent;

struct life_policy {
	uint64_t idle_ttl_ns, idle_warning_ns, ttl_ns, keep_age_ns; /* as written: life_scaled() before use */
	bool hold_attached, ttl_delete, at_rest_drop, end_snapshot;
	char *snapshot_reasons, *keep_reasons;
	uint32_t keep_snapshots, forks_max, speed;
	uint64_t start_timeout_ns, snapshot_timeout_ns; /* real time */
	uint64_t restore_timeout_ns; /* longer: whatever was written and proven in time is to come back */
	struct conf_life_agent *agents;
	size_t nagents;
};

/* What one agent gets. Durations of lifecycle's clock, scaled. */
struct life_wish {
	uint64_t idle_ttl_ns, idle_warning_ns, ttl_ns; /* 0: never, none */
	bool hold_attached, ttl_delete, at_rest_drop;
};

int life_policy_init(struct life_policy *p, const struct conf *c); /* ERR_NOMEM */
void life_policy_finish(struct life_policy *p);
uint64_t life_scaled(const struct life_policy *p, uint64_t ns);
/* own_idle_ttl: of the agent's row, LIFE_TTL_CONF or unscaled. */
void life_wish(const struct life_policy *p, const char *agent, int64_t own_idle_ttl, struct life_wish *out);
/* Between SNAPSHOT and KEEP, by the reason's first word. */
enum life_end life_end_by_reason(const struct life_policy *p, const char *reason);

struct life_verdict {
	bool due, warn;   /* stop it now; say on its screens that this comes */
	int64_t look_at;  /* when to look again; 0: never */
	int64_t stops_at; /* when it will stop if nothing happens; 0: never, or held */
};
/* active: last activity, now: both of lifecycle's clock. */
void life_decide(const struct life_wish *w, const struct life_activity *act, int64_t active, int64_t now, bool warned,
		 struct life_verdict *out);

#endif
