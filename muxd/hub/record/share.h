/*
 * share.h - how much everybody may have at a time, and who is refused: one table for the whole daemon.
 *
 * A share is of a principal, with those that it made grants for (grant_root()), a task or an agent (a sandbox): it
 * counts what lives of theirs, what their programs are sent and print, and what the record keeps of an agent's. Each
 * session is counted in its three shares from its beginning to its end; after a restart the sessions that are found
 * again are counted again.
 *
 * share_ask() goes through the rows: sessions.max and sessions.max_per_agent with a reserve beyond either that only
 * staff may use (a grant of the kind staff with the scope terminal), so whatever an agent opens, or leaves hanging, a
 * person gets in; half of a reserve is for people who have hardly anything open, so that one of them does not shut out
 * the next. Of sessions.max one principal that is not staff gets three quarters. Then shares.*, from which stand apart
 * grants of the kind staff and what runs inside for all (services, MCP servers): neither held nor counted there. A
 * profile's numbers (policy/profile.h) are read from the same counters.
 *
 * muxlet holds SHARE_CHANNELS channels. Those that lifecycle opens (sync, freeze) are no sessions: SHARE_LIFECYCLE of
 * them are never given away, however high sessions.max_per_agent is. The end of a sandbox needs neither.
 *
 * Pure: no clock and no session; the hub counts by session_share.h. A share without anything in it, whose rates are
 * full, goes by itself.
 */
#ifndef MUXD_HUB_RECORD_SHARE_H
#define MUXD_HUB_RECORD_SHARE_H

#include "base/conf.h"
#include "muxd/hub/core/journal.h"

#include <uthash.h>

struct err;
struct grant;

#define SHARE_CHANNELS        1024 /* CHANNELS_MAX of muxlet */
#define SHARE_LIFECYCLE       8
#define SHARE_SANDBOX_RESERVE 16
#define SHARE_DAEMON_RESERVE  64
#define SHARE_FEW             4 /* sessions of a person: the whole reserve is there for who has fewer */

/* Past a burst, bytes a second. */
struct share_rate {
	int64_t room;
	uint64_t at_ns, rate, burst;    /* as it was last asked */
	uint64_t promised, promised_ns; /* windows that were opened of late, and may not have been used yet */
};
enum share_way { SHARE_IN, SHARE_OUT, SHARE_WAYS };

/* Bytes of a day, as far as it is over of the day before. */
struct share_day {
	uint64_t begun_ns, now, before;
};

struct share {
	enum conf_share_of of;
	char *name;
	unsigned sessions;                  /* of any kind */
	unsigned live[CONF_SHARES];         /* as a profile counts them */
	unsigned counted[CONF_SHARES];      /* of them those that do not stand apart */
	struct share_rate rate[SHARE_WAYS]; /* shares.input_rate_*, output_rate_* */
	struct share_rate beside;           /* of an agent */
	struct share_day record;            /* of an agent */
	struct share_day requests;          /* of a task, to MCP servers inside; in a minute, not a day */
	struct journal_share ring;          /* of an agent: what is not durable yet of its programs' bytes */
	UT_hash_handle hh;
};
struct shares {
	struct share *all[CONF_SHARE_OFS];
	unsigned sharers;           /* agents that added 1 MiB or more in a day, all others as one; by the last sweep */
	uint64_t shared;            /* bytes of theirs */
	const struct share *newest; /* the agent that began something last */
	uint64_t beside_until_ns;   /* more than one did of late */
};

/* Task "" has what is done without one, and no limit. NULL: no name, or no memory: then it is not counted. */
struct share *share_get(struct shares *x, enum conf_share_of of, const char *name);
struct share *share_find(const struct shares *x, enum conf_share_of of, const char *name);
/* A program of that agent begins. */
void share_runs(struct shares *x, const struct share *agent, uint64_t now);
/* At each tick: shares in which nothing lives and nothing is remembered go; the sharers of the record are counted. */
void shares_sweep(struct shares *x, uint64_t now);
void shares_finish(struct shares *x);
struct shares *shares_create(void);    /* those of a hub; NULL: no memory */
void shares_destroy(struct shares *x); /* NULL-safe; finishes them */
const char *share_of_name(enum conf_share_of of);

/* One session that is to begin. */
struct share_load {
	bool staff, apart;
	unsigned all, mine_here;                /* sessions in the daemon; the principal's in the sandbox */
	bool uses[CONF_SHARES];                 /* what it would be */
	const struct share *of[CONF_SHARE_OFS]; /* NULL: nothing lives of theirs */
	const char *agent, *principal;          /* for the words of a refusal */
};

bool share_is_staff(const struct grant *g);
/* Neither held nor counted by shares.*: of the kind staff. */
bool share_stands_apart(const struct grant *g);
/* One more session: 0, or ERR_LIMIT with err.share: whose share, and the key whose limit is reached. */
int share_ask(const struct conf *c, const struct share_load *l, struct err *e);
/* The most sessions that can be open at once. */
unsigned share_most(const struct conf *c);

/* bytes a second, 0: no limit. May more be sent (way IN), or a window be opened that far (OUT)? */
bool share_rate_may(struct share_rate *r, uint64_t rate, uint64_t burst, uint64_t now);
/* Nothing of what it took is left to be waited for. */
bool share_rate_full(const struct share_rate *r, uint64_t now);
void share_rate_promise(struct share_rate *r, uint64_t n);
void share_rate_took(struct share_rate *r, uint64_t n);

void share_day_add(struct share_day *d, uint64_t n, uint64_t now);
uint64_t share_day_sum(const struct share_day *d, uint64_t now);
void share_minute_add(struct share_day *d, uint64_t n, uint64_t now);
uint64_t share_minute_sum(const struct share_day *d, uint64_t now);
/*
 * What the record keeps of an agent in a day is over its share: over shares.record_per_agent, or where the disk is low
 * over an even part of what all added (struct shares: sharers). ERR_RECORD_SHARE with err.share; 0. a NULL:
 * nothing was added.
 */
int share_record_ask(const struct conf *c, const struct shares *x, const struct share *a, bool disk_low, uint64_t now,
		     struct err *e);

#endif
