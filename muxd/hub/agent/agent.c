/*
 * An agent as the hub knows it: its sandbox, the link into it, who waits for it.
 *
 * COLD (nothing known) -> WAKING (the provider was asked) -> UP (link up) ->
 * LOST (the stream broke; asked again with growing pauses) -> WAKING | COLD.
 */
#define LOG_SUBSYS "agent"
#include "muxd/hub/agent/agent.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>

const char *agent_state_name(enum agent_state s)
{
	static const char *const names[] = {"cold", "waking", "up", "lost"};

	return names[s];
}

void agent_set_state(struct agent *a, enum agent_state s)
{
	log_debug(&(struct log_ids){.agent = a->name}, "%s -> %s", agent_state_name(a->state), agent_state_name(s));
	a->state = s;
	hub_stir(a->hub);
}

struct agents *agents_create(void)
{
	return calloc(1, sizeof(struct agents));
}

void agents_destroy(struct agents *x)
{
	free(x);
}

struct agent *agent_find(struct hub *h, const char *name)
{
	struct agent *a = NULL;

	HASH_FIND_STR(hub_agents(h)->by_name, name, a);
	return a;
}

struct agent *agent_get(struct hub *h, const char *name)
{
	struct agent *a = agent_find(h, name);

	if (a || !(a = calloc(1, sizeof(*a))))
		return a;
	a->hub = h;
	text_put(a->name, sizeof(a->name), name);
	text_put(a->info.agent, sizeof(a->info.agent), name);
	a->retry_ms = AGENT_RETRY_MIN_MS;
	STAILQ_INIT(&a->waiters);
	HASH_ADD_STR(hub_agents(h)->by_name, name, a);
	return a;
}

static bool agent_has_channel(const struct agent *a, uint32_t channel)
{
	const struct session *s = NULL;

	HASH_FIND(hh_channel, a->channels, &channel, sizeof(channel), s);
	return s || (a->link && link_knows(a->link, channel));
}

/* A LIST may name the last one, of this sandbox or of one before it: that costs nobody a later sandbox. */
uint32_t agent_new_channel(struct agent *a)
{
	do
		a->next_channel = a->next_channel < LINK_CHANNEL_MAX ? a->next_channel + 1 : 1;
	while (agent_has_channel(a, a->next_channel));
	return a->next_channel;
}

int64_t agent_life(struct hub *h, const char *name)
{
	struct agent *a = agent_find(h, name);
	struct life_current here = {.since_wall_ns = LIFE_SINCE_UNKNOWN}, *c = a ? &a->current : &here;

	if (!hub_life(h) || target_is_pod(name))
		return LIFE_SINCE_UNKNOWN;
	life_current(hub_life(h), name, c);
	return c->since_wall_ns;
}

uint64_t agent_patience(const struct agent *a)
{
	const struct conf *c = hub_conf(a->hub);

	return a->info.backend == SANDBOX_LOCAL ? c->sandbox_create_timeout_ns : c->kubernetes_create_timeout_ns;
}

bool agent_may_end(const struct agent *a)
{
	return a->info.backend == SANDBOX_LOCAL;
}

int agent_plain(const struct agent *a, const char *what, const char *instead, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED,
		       "%s %.120s: muxlet does not run there (%.100s); %s, or let muxlet in: kubernetes.init_image, "
		       "kubernetes.ephemeral_image for pods of others",
		       what, a->name, a->info.why[0] ? a->info.why : "plain", instead);
}

void agent_unable(struct agent *a, const char *why)
{
	if (!a->unable[0]) {
		log_warn(&(struct log_ids){.agent = a->name}, "cannot serve: %s", why);
		(void)audit_event(a->hub, "sandbox.unable", NULL, a->name, "error", json_pack("{s:s}", "why", why));
	}
	text_put(a->unable, sizeof(a->unable), why);
}

/* The one place that decides what activity is (requirement A3). */
void agent_touch(struct agent *a)
{
	a->last_activity_wall_ns = clock_wall_ns();
	a->last_activity_boot_ns = clock_boot_ns();
}
