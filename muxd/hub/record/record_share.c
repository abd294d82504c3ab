#include "muxd/hub/record/record_share.h"

#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/session/session_state.h"

#define EVENT_COST 32 /* bytes of a record beside what it holds */

int record_share_lets(const struct hub *h, const struct share *agent, uint64_t now, struct err *e)
{
	bool low = journal_flags(hub_journal(h)) & RING_CURSOR_LOW;

	return share_record_ask(hub_conf(h), hub_shares(h), agent, low, now, e);
}

static void add(struct share *agent, uint64_t n)
{
	if (agent && n)
		share_day_add(&agent->record, n, clock_boot_ns());
}

void record_share_add(struct session *s, uint64_t n)
{
	if (!s->share_apart)
		add(s->shares[CONF_SHARE_AGENT], n);
}

void record_share_note(struct session *s, size_t n)
{
	record_share_add(s, EVENT_COST + n);
}

int record_share_ask_work(const struct hub *h, const char *agent, const struct grant *g, struct err *e)
{
	if (share_stands_apart(g))
		return 0;
	return record_share_lets(h, share_find(hub_shares(h), CONF_SHARE_AGENT, agent), clock_boot_ns(), e);
}

void record_share_add_work(struct hub *h, const char *agent, const struct grant *g, uint64_t n)
{
	if (!share_stands_apart(g))
		add(share_get(hub_shares(h), CONF_SHARE_AGENT, agent), n);
}
