/* Grants in force: keys, revocations, expiry of what is open. */
#define LOG_SUBSYS "grants"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/hub_state.h"
#include "muxd/hub/session_end.h"
#include "muxd/hub/session_state.h"
#include "muxd/hub/wake.h"

#include <stdlib.h>
#include <string.h>

int hub_set_grant_keys(struct hub *h, const struct grant_public_key *keys, size_t n)
{
	struct grant_public_key *copy = malloc((n ? n : 1) * sizeof(*copy));

	if (!copy)
		return ERR_NOMEM;
	memcpy(copy, keys, n * sizeof(*copy));
	free(h->keys);
	h->keys = copy;
	h->keyset = (struct grant_keyset){.keys = copy, .n = n};
	return 0;
}

static bool owned_alone(const struct session *s, const struct id *grant)
{
	const struct attachment *a;

	if (s->state == SESSION_ENDED || !id_equal(&s->grant.id, grant))
		return false;
	TAILQ_FOREACH(a, &s->attachments, of_session)
	if (!attachment_leaves(a))
		return false;
	return true;
}

static void end_owned(struct hub *h, const struct id *grant, const char *why)
{
	struct session *s;

	TAILQ_FOREACH(s, &h->order, order)
	if (owned_alone(s, grant))
		session_kill(s, EXIT_KILLED, why);
}

int hub_revoke(struct hub *h, const struct id *grant, int64_t expires_ns)
{
	struct attachment *a;
	int rc = revocations_add(h->revoked, grant, expires_ns);

	if (rc)
		return rc;
	TAILQ_FOREACH(a, &h->attachments, of_hub)
	if (id_equal(&a->grant, grant))
		attachment_cut(a, CUT_REVOKED, "the grant was revoked");
	end_owned(h, grant, "its grant was revoked");
	hub_flush(h);
	return 0;
}

static void warn(struct attachment *a, int64_t left_ns)
{
	char text[160], left[32];

	a->warned = true;
	clock_format_duration(((uint64_t)left_ns + NS_PER_SEC - 1) / NS_PER_SEC * NS_PER_SEC, left, sizeof(left));
	text_format(text, sizeof(text),
		    "access expires in %s; this session will be closed. Ask for a new grant to go on", left);
	attachment_notice(a, text, false);
}

/* A revocation may have come before the session was known again, or while somebody else was at it. */
static void end_without_grant(struct session *s, int64_t now)
{
	bool expired = s->grant.expires_ns && now >= s->grant.expires_ns;

	if (s->state == SESSION_ENDED || s->killing)
		return;
	if ((expired || revocations_has(s->hub->revoked, &s->grant.id)) && owned_alone(s, &s->grant.id))
		session_kill(s, EXIT_KILLED, expired ? "its grant has ended" : "its grant was revoked");
}

void grants_tick(struct hub *h)
{
	int64_t now = hub_now_wall(h);
	struct attachment *a;
	struct session *s;

	TAILQ_FOREACH(a, &h->attachments, of_hub)
	{
		if (now >= a->expires_ns)
			attachment_cut(a, CUT_EXPIRED, "the grant has ended");
		else if (!a->warned && a->expires_ns - now <= (int64_t)h->conf->grant_warn_ns)
			warn(a, a->expires_ns - now);
	}
	TAILQ_FOREACH(s, &h->order, order)
	end_without_grant(s, now);
	revocations_expire(h->revoked, now);
}
