#include "muxd/hub/record/share.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "policy/grant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DAY_NS     (86400 * NS_PER_SEC)
#define MINUTE_NS  (60 * NS_PER_SEC)
#define RETRY_S    1
#define BESIDE_NS  (10 * NS_PER_SEC)
#define PROMISE_NS (100 * NS_PER_MS)
#define EVEN_LEAST (1024 * 1024) /* bytes of a day: nobody who added less makes a disk full */

bool share_is_staff(const struct grant *g)
{
	return g->kind == GRANT_STAFF && (g->scopes & SCOPE_TERMINAL);
}

bool share_stands_apart(const struct grant *g)
{
	return g->kind == GRANT_STAFF;
}

const char *share_of_name(enum conf_share_of of)
{
	static const char *const names[CONF_SHARE_OFS] = {"principal", "task", "agent"};

	return names[of];
}

/* ---- the table */

struct share *share_find(const struct shares *x, enum conf_share_of of, const char *name)
{
	struct share *s = NULL;

	if (name)
		HASH_FIND_STR(x->all[of], name, s);
	return s;
}

struct share *share_get(struct shares *x, enum conf_share_of of, const char *name)
{
	struct share *s = share_find(x, of, name);

	if (s || !name || !(s = calloc(1, sizeof(*s))))
		return s;
	s->of = of;
	s->name = strdup(name);
	if (!s->name) {
		free(s);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, x->all[of], s->name, strlen(s->name), s);
	return s;
}

static void share_drop(struct shares *x, struct share *s)
{
	if (x->newest == s)
		x->newest = NULL;
	HASH_DEL(x->all[s->of], s);
	free(s->name);
	free(s);
}

void share_runs(struct shares *x, const struct share *agent, uint64_t now)
{
	if (x->newest && x->newest != agent)
		x->beside_until_ns = now + BESIDE_NS;
	x->newest = agent;
}

/* Forgotten earlier, the next share of that name would begin with a whole burst. */
static bool rates_are_full(const struct share *s, uint64_t now)
{
	return share_rate_full(&s->rate[SHARE_IN], now) && share_rate_full(&s->rate[SHARE_OUT], now) &&
	       share_rate_full(&s->beside, now);
}

void shares_sweep(struct shares *x, uint64_t now)
{
	struct share *s, *next;
	bool small = false;

	x->sharers = 0;
	x->shared = 0;
	for (int of = 0; of < CONF_SHARE_OFS; of++)
		HASH_ITER(hh, x->all[of], s, next)
		{
			uint64_t record = share_day_sum(&s->record, now);

			x->shared += record; /* of agents alone */
			x->sharers += record >= EVEN_LEAST;
			small = small || (record && record < EVEN_LEAST);
			if (!s->sessions && !record && !share_minute_sum(&s->requests, now) && rates_are_full(s, now))
				share_drop(x, s);
		}
	x->sharers += small;
}

void shares_finish(struct shares *x)
{
	struct share *s, *next;

	for (int of = 0; of < CONF_SHARE_OFS; of++)
		HASH_ITER(hh, x->all[of], s, next)
	share_drop(x, s);
}

struct shares *shares_create(void)
{
	return calloc(1, sizeof(struct shares));
}

void shares_destroy(struct shares *x)
{
	if (x)
		shares_finish(x);
	free(x);
}

/* ---- one more session */

/* The sessions that everybody may fill of a sandbox. */
static unsigned sandbox_limit(const struct conf *c)
{
	const unsigned most = SHARE_CHANNELS - SHARE_LIFECYCLE - SHARE_SANDBOX_RESERVE;

	return c->sessions_max_per_agent < most ? c->sessions_max_per_agent : most;
}

static unsigned with_reserve(unsigned limit, unsigned reserve, bool staff, unsigned mine)
{
	if (!staff)
		return limit;
	return limit + (mine < SHARE_FEW ? reserve : reserve / 2);
}

unsigned share_most(const struct conf *c)
{
	return c->sessions_max + SHARE_DAEMON_RESERVE;
}

static unsigned sessions_of(const struct share_load *l, enum conf_share_of of)
{
	return l->of[of] ? l->of[of]->sessions : 0;
}

static int ask_sessions(const struct conf *c, const struct share_load *l, struct err *e)
{
	unsigned mine = sessions_of(l, CONF_SHARE_PRINCIPAL), here = sessions_of(l, CONF_SHARE_AGENT);
	unsigned part = c->sessions_max - c->sessions_max / 4;
	unsigned most = with_reserve(c->sessions_max, SHARE_DAEMON_RESERVE, l->staff, mine);

	if (l->all >= most) {
		return err_limit(e, ERR_LIMIT, &(struct err_share){"sessions.max", "daemon", most, l->all, RETRY_S},
				 "%u sessions are open: sessions.max is reached", l->all);
	}
	if (!l->staff && mine >= part) {
		return err_limit(e, ERR_LIMIT, &(struct err_share){"sessions.max", "principal", part, mine, RETRY_S},
				 "%u sessions of %s are open: one principal's share of sessions.max is reached", mine,
				 l->principal);
	}
	most = with_reserve(sandbox_limit(c), SHARE_SANDBOX_RESERVE, l->staff, l->mine_here);
	if (here < most)
		return 0;
	return err_limit(e, ERR_LIMIT, &(struct err_share){"sessions.max_per_agent", "agent", most, here, RETRY_S},
			 "%u sessions of %s are open: sessions.max_per_agent is reached", here, l->agent);
}

static const char *const share_keys[CONF_SHARES][CONF_SHARE_OFS] = {
    {"shares.rounds_per_principal", "shares.rounds_per_task", "shares.rounds_per_agent"},
    {"shares.sessions_per_principal", "shares.sessions_per_task", "shares.sessions_per_agent"},
    {"shares.contexts_per_principal", "shares.contexts_per_task", "shares.contexts_per_agent"}};
static const char *const share_words[CONF_SHARES] = {"rounds", "terminals, programs and ports", "contexts"};

static int ask_row(const struct conf *c, const struct share *s, enum conf_share what, struct err *e)
{
	unsigned most = s && *s->name ? c->share_most[what][s->of] : 0;

	if (!most || s->counted[what] < most)
		return 0;
	struct err_share told = {.value = most, .in_use = s->counted[what], .retry_s = RETRY_S};

	text_put(told.limit, sizeof(told.limit), share_keys[what][s->of]);
	text_put(told.of, sizeof(told.of), share_of_name(s->of));
	return err_limit(e, ERR_LIMIT, &told, "%u %s of %s %.100s are live: %s is reached", s->counted[what],
			 share_words[what], told.of, s->name, told.limit);
}

int share_ask(const struct conf *c, const struct share_load *l, struct err *e)
{
	int rc = ask_sessions(c, l, e);

	for (int what = 0; what < CONF_SHARES && !l->apart; what++)
		for (int of = 0; of < CONF_SHARE_OFS && !rc && l->uses[what]; of++)
			rc = ask_row(c, l->of[of], (enum conf_share)what, e);
	return rc;
}

/* ---- bytes a second */

/* The room that it has come to. */
static int64_t room_at(const struct share_rate *r, uint64_t now)
{
	uint64_t since = now - r->at_ns;
	int64_t burst = (int64_t)r->burst, room = r->room;

	if (!r->at_ns || since > 3600 * NS_PER_SEC)
		return burst;
	room += (int64_t)((double)r->rate * (double)since / 1e9);
	return room < burst ? room : burst;
}

bool share_rate_full(const struct share_rate *r, uint64_t now)
{
	return room_at(r, now) >= (int64_t)r->burst;
}

bool share_rate_may(struct share_rate *r, uint64_t rate, uint64_t burst, uint64_t now)
{
	if (!rate)
		return true;
	r->rate = rate;
	r->burst = burst;
	if (!r->at_ns || now - r->at_ns >= NS_PER_MS) {
		r->room = room_at(r, now);
		r->at_ns = now;
	}
	if (now - r->promised_ns >= PROMISE_NS) {
		r->promised = 0;
		r->promised_ns = now;
	}
	return r->room > (int64_t)r->promised;
}

void share_rate_promise(struct share_rate *r, uint64_t n)
{
	r->promised += n;
}

void share_rate_took(struct share_rate *r, uint64_t n)
{
	if (r->at_ns)
		r->room -= (int64_t)n;
}

/* ---- bytes of a day, requests of a minute */

static struct share_day turned(const struct share_day *d, uint64_t now, uint64_t day_ns)
{
	uint64_t days = d->begun_ns ? (now - d->begun_ns) / day_ns : 0;

	if (!d->begun_ns)
		return (struct share_day){.begun_ns = now};
	if (!days)
		return *d;
	return (struct share_day){.begun_ns = d->begun_ns + days * day_ns, .before = days == 1 ? d->now : 0};
}

static uint64_t sum_of(const struct share_day *d, uint64_t now, uint64_t day_ns)
{
	const struct share_day t = turned(d, now, day_ns);
	double left = 1.0 - (double)(now - t.begun_ns) / (double)day_ns;

	return t.now + (uint64_t)((double)t.before * left);
}

void share_day_add(struct share_day *d, uint64_t n, uint64_t now)
{
	*d = turned(d, now, DAY_NS);
	d->now += n;
}

uint64_t share_day_sum(const struct share_day *d, uint64_t now)
{
	return sum_of(d, now, DAY_NS);
}

void share_minute_add(struct share_day *d, uint64_t n, uint64_t now)
{
	*d = turned(d, now, MINUTE_NS);
	d->now += n;
}

uint64_t share_minute_sum(const struct share_day *d, uint64_t now)
{
	return sum_of(d, now, MINUTE_NS);
}

static int refuse_record(struct err *e, const struct share *a, const char *limit, uint64_t value, uint64_t used,
			 unsigned retry_s)
{
	struct err_share told = {.of = "agent", .value = value, .in_use = used, .retry_s = retry_s};

	text_put(told.limit, sizeof(told.limit), limit);
	return err_limit(e, ERR_RECORD_SHARE, &told,
			 "agent %.100s added %" PRIu64 " bytes to the record in a day, its share is %" PRIu64 ": %s",
			 a->name, used, value, limit);
}

int share_record_ask(const struct conf *c, const struct shares *x, const struct share *a, bool disk_low, uint64_t now,
		     struct err *e)
{
	uint64_t used = a ? share_day_sum(&a->record, now) : 0, even;

	if (c->share_record && used >= c->share_record)
		return refuse_record(e, a, "shares.record_per_agent", c->share_record, used, 3600);
	if (!disk_low || used < EVEN_LEAST)
		return 0;
	even = x->sharers ? x->shared / x->sharers : 0;
	return x->sharers > 1 && used > even ? refuse_record(e, a, "shares.record_low", even, used, 60) : 0;
}
