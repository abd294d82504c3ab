/*
 * quota.h - how many sessions may be open at once, and for whom there is room beyond that.
 *
 * sessions.max and sessions.max_per_agent bound what everybody may open. Beyond either stands a reserve that only
 * staff may use (a grant of the kind staff with the scope terminal): so whatever an agent opens, or leaves hanging, a
 * person gets in. Half of a reserve is for people who have hardly anything open, so that one of them does not shut out
 * the next. Of sessions.max one principal that is not staff gets three quarters, so that other agents go on.
 *
 * muxlet holds QUOTA_CHANNELS channels. Those that lifecycle opens (sync, freeze) are no sessions and are not counted
 * here: QUOTA_LIFECYCLE of them are never given away, however high sessions.max_per_agent is. The end of a sandbox
 * needs neither a session nor a channel.
 *
 * Pure: the hub counts (broker_open.c), this decides.
 */
#ifndef MUXD_HUB_QUOTA_H
#define MUXD_HUB_QUOTA_H

#include <stdbool.h>

struct conf;
struct err;
struct grant;

#define QUOTA_CHANNELS        1024 /* CHANNELS_MAX of muxlet */
#define QUOTA_LIFECYCLE       8
#define QUOTA_SANDBOX_RESERVE 16
#define QUOTA_DAEMON_RESERVE  64
#define QUOTA_FEW             4 /* sessions of a person: the whole reserve is there for who has fewer */

/* Sessions that have not ended. */
struct quota_load {
	unsigned all, mine;            /* in the daemon; of them the principal's */
	unsigned here, mine_here;      /* in the sandbox */
	const char *agent, *principal; /* for the words of a refusal */
};

bool quota_is_staff(const struct grant *g);
/* One more session: 0, or ERR_LIMIT naming the key whose limit is reached. */
int quota_check(const struct conf *c, bool staff, const struct quota_load *l, struct err *e);
/* Below this many in the daemon quota_check() asks for nobody's own number: `mine` need not be counted. */
unsigned quota_share(const struct conf *c);
/* The most sessions that can be open at once. */
unsigned quota_most(const struct conf *c);

#endif
