/* Grants in force: keys, revocations, expiry of what is open. */
#define LOG_SUBSYS "grants"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/shelf.h"
#include "muxd/hub/parts.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/hub/session/wake.h"
#include "muxd/hub/setup.h"

#include <stdlib.h>
#include <string.h>

/* Nobody stays whom a dropped key let in; the sessions that such grants hold alone end with the next tick. */
static void cut_unsigned(struct hub *h)
{
	struct grant_news news = hub_grant_news(h);
	struct attachment *a;

	TAILQ_FOREACH(a, hub_attachments(h), of_hub)
	{
		struct grant_line l = grant_line(a->grant);

		if (grant_line_unsigned(&l, &news))
			attachment_cut(a, CUT_REVOKED, "the key that signed the grant was dropped");
	}
}

int hub_set_grant_keys(struct hub *h, const struct grant_public_key *keys, size_t n)
{
	if (grants_keep_keys(h, keys, n))
		return ERR_NOMEM;
	cut_unsigned(h);
	return 0;
}

void hub_set_edge_state(struct hub *h, int64_t at_ns)
{
	grants_keep_edge(h, at_ns);
}

/* Nobody drives it under a grant that is in force: who watches lets nothing go on. */
static bool left_alone(const struct session *s)
{
	struct grant_news news = hub_grant_news(s->hub);
	int64_t now = hub_now_wall(s->hub);
	const struct attachment *a;

	if (s->state == SESSION_ENDED)
		return false;
	TAILQ_FOREACH(a, &s->attachments, of_session)
	{
		struct grant_line l = grant_line(a->grant);

		if (a->role == ROLE_DRIVER && !attachment_leaves(a) && grant_line_check(&l, &news, now, NULL) == 0)
			return false;
	}
	return true;
}

static void end_owned(struct hub *h, const struct id *grant, const char *why)
{
	struct session *s;

	TAILQ_FOREACH(s, hub_sessions(h), order)
	{
		struct grant_line l = grant_line(s->grant);

		if (grant_line_has(&l, grant) && left_alone(s))
			session_kill(s, EXIT_KILLED, why);
	}
}

int hub_revoke(struct hub *h, const struct id *grant, int64_t expires_ns)
{
	struct attachment *a;
	int rc = grants_keep_revoked(h, grant, expires_ns);

	if (rc)
		return rc;
	TAILQ_FOREACH(a, hub_attachments(h), of_hub)
	{
		struct grant_line l = grant_line(a->grant);

		if (grant_line_has(&l, grant))
			attachment_cut(a, CUT_REVOKED, "the grant was revoked");
	}
	end_owned(h, grant, "its grant was revoked");
	hub_flush(h);
	return 0;
}

/* The record has whose word it is that the session goes on. */
static void renew_session(struct session *s, const struct hub_renewal *r)
{
	char grant[ID_STR_LEN], until[40];

	if (s->state == SESSION_ENDED)
		return;
	id_format(&r->grant, grant);
	clock_format_utc(r->expires_ns, until, sizeof(until));
	session_event(s, "renew",
		      json_pack("{s:s,s:s,s:s,s:s}", "grant_id", grant, "expires_at", until, "principal", r->by,
				"reason", r->reason));
}

static void renew_attachment(struct attachment *a, const struct hub_renewal *r)
{
	char text[160], until[40];

	clock_format_utc(r->expires_ns, until, sizeof(until));
	text_format(text, sizeof(text), "access was renewed and ends at %s now", until);
	a->warned = false;
	attachment_notice(a, text, false);
}

int hub_renew(struct hub *h, const struct hub_renewal *r)
{
	struct attachment *a;
	struct session *s;
	int rc = grants_keep_renewed(h, r);

	if (rc || !r->by)
		return rc;
	TAILQ_FOREACH(s, hub_sessions(h), order)
	{
		struct grant_line l = grant_line(s->grant);

		if (id_equal(grant_line_first(&l), &r->first))
			renew_session(s, r);
	}
	TAILQ_FOREACH(a, hub_attachments(h), of_hub)
	{
		struct grant_line l = grant_line(a->grant);

		if (id_equal(grant_line_first(&l), &r->first))
			renew_attachment(a, r);
	}
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
	struct grant_line l = grant_line(s->grant);
	struct grant_news news = hub_grant_news(s->hub);
	bool expired = s->grant->expires_ns && now >= grant_line_ends(&l, &news);

	if (s->state == SESSION_ENDED || s->killing)
		return;
	if ((expired || grant_line_revoked(&l, &news) || grant_line_unsigned(&l, &news)) && left_alone(s))
		session_kill(s, EXIT_KILLED,
			     expired                         ? "its grant has ended"
			     : grant_line_revoked(&l, &news) ? "its grant was revoked"
							     : "the key that signed its grant was dropped");
}

void grants_tick(struct hub *h)
{
	struct grant_news news = hub_grant_news(h);
	int64_t now = hub_now_wall(h);
	struct attachment *a;
	struct session *s;

	TAILQ_FOREACH(a, hub_attachments(h), of_hub)
	{
		struct grant_line l = grant_line(a->grant);
		int64_t left = grant_line_ends(&l, &news) - now;

		if (left <= 0)
			attachment_cut(a, CUT_EXPIRED,
				       grant_news_check(&news, now, NULL) ? "the edge has not heard of revocations"
									  : "the grant has ended");
		else if (!a->warned && left <= (int64_t)hub_conf(h)->grant_warn_ns)
			warn(a, left);
	}
	TAILQ_FOREACH(s, hub_sessions(h), order)
	end_without_grant(s, now);
	hub_grants_expire(h, now);
}
