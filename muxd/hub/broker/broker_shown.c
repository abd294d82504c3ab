#define LOG_SUBSYS "broker"
#include "muxd/hub/broker/broker_shown.h"

#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/broker/broker_grant.h"
#include "muxd/hub/broker/broker_state.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_state.h"
#include "policy/grant_narrow.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 256 /* by the first byte of the digest */

enum shown_state { SHOWN_ASKED, SHOWN_HELD };

/* A request that waits for the exchange: where it comes from. */
struct shown_waiter {
	struct shown_waiter *next;
	struct request rq;
	size_t held; /* bytes that its door keeps for it meanwhile */
	broker_grant_done *done;
	void *arg;
};

/* Its answer may come behind the hub's end: then nothing but this is touched. */
struct shown_job {
	struct hub *hub; /* NULL: it has ended, and its rows with it */
	uint8_t digest[SHA256_DIGEST_LENGTH];
	struct shown_waiter *first, **last;
};

struct shown_token {
	struct shown_token *next;
	uint8_t digest[SHA256_DIGEST_LENGTH];
	enum shown_state state;
	struct shown_job *job; /* ASKED */
	/* HELD */
	char *token; /* of the grant; wiped */
	char principal[GRANT_NAME_MAX + 1];
	char issuer[48]; /* "issuer NAME", as the monitor calls it */
	struct grant_line grant;
	int64_t since_ns;
};

struct shown_tokens {
	size_t asked;   /* of the rows */
	size_t waiting; /* bytes that the requests of these hold */
	struct shown_token *places[PLACES];
};

/* ---- the table */

static struct shown_token **place_of(struct shown_tokens *t, const uint8_t digest[SHA256_DIGEST_LENGTH])
{
	struct shown_token **at = &t->places[digest[0]];

	while (*at && CRYPTO_memcmp((*at)->digest, digest, SHA256_DIGEST_LENGTH) != 0)
		at = &(*at)->next;
	return at;
}

static void shown_drop(struct shown_tokens *t, struct shown_token **at)
{
	struct shown_token *s = *at;

	*at = s->next;
	t->asked -= s->state == SHOWN_ASKED;
	grant_token_free(s->token);
	free(s);
}

static void digest_of(const char *token, uint8_t out[SHA256_DIGEST_LENGTH])
{
	SHA256((const uint8_t *)token, strlen(token), out);
}

/* NULL: none was shown yet. */
static struct shown_tokens *shown_of(const struct hub *h)
{
	return hub_broker(h)->shown;
}

/* Of a grant that was taken back the token opens nothing more, however often it may be exchanged. */
static int64_t shown_ends(struct hub *h, const struct shown_token *s)
{
	struct grant_news news = hub_grant_news(h);
	uint64_t longest = 0;

	if (!grant_line_revoked(&s->grant, &news))
		return s->grant.expires_ns;
	for (size_t i = 0; i < hub_conf(h)->nissuers; i++)
		if (hub_conf(h)->issuers[i].lifetime_ns > longest)
			longest = hub_conf(h)->issuers[i].lifetime_ns;
	return s->since_ns + (int64_t)longest;
}

static bool shown_is_over(struct hub *h, const struct shown_token *s)
{
	return s->state == SHOWN_HELD && shown_ends(h, s) <= hub_now_wall(h);
}

static void shown_sweep(struct hub *h)
{
	for (size_t i = 0; i < PLACES; i++)
		for (struct shown_token **at = &shown_of(h)->places[i]; *at;)
			if (shown_is_over(h, *at))
				shown_drop(shown_of(h), at);
			else
				at = &(*at)->next;
}

enum shown_kin { SAME_PRINCIPAL, SAME_ISSUER };

static bool shown_is_kin(const struct shown_token *a, const struct shown_token *b, enum shown_kin kin)
{
	return kin == SAME_ISSUER ? strcmp(a->issuer, b->issuer) == 0 : grant_same_root(a->principal, b->principal);
}

/* Of its principal, with those made from it, or of its issuer: how many, and the one that came first. */
static size_t count_of(struct shown_tokens *t, const struct shown_token *s, enum shown_kin kin,
		       struct shown_token ***out_oldest)
{
	size_t n = 0;

	*out_oldest = NULL;
	for (size_t i = 0; i < PLACES; i++)
		for (struct shown_token **at = &t->places[i]; *at; at = &(*at)->next) {
			if ((*at)->state != SHOWN_HELD || !shown_is_kin(*at, s, kin))
				continue;
			n++;
			if (!*out_oldest || (*at)->since_ns < (**out_oldest)->since_ns)
				*out_oldest = at;
		}
	return n;
}

/* The part of one issuer: so one that has very many principals shuts nobody else's out. */
static size_t shown_share(const struct hub *h)
{
	size_t n = 0;

	for (const struct conf_issuer *i = NULL; (i = conf_issuer_shown(hub_conf(h), i ? i->name : NULL));)
		n++;
	return n > 1 ? SHOWN_MAX / n : SHOWN_MAX;
}

/* For one more like that, which is not held yet. */
static void shown_make_room(struct hub *h, const struct shown_token *s)
{
	struct shown_token **oldest;
	size_t share = shown_share(h);

	if (count_of(shown_of(h), s, SAME_ISSUER, &oldest) >= share)
		shown_sweep(h);
	while (count_of(shown_of(h), s, SAME_PRINCIPAL, &oldest) >= SHOWN_OF_ONE)
		shown_drop(shown_of(h), oldest);
	while (count_of(shown_of(h), s, SAME_ISSUER, &oldest) >= share)
		shown_drop(shown_of(h), oldest);
}

const char *broker_shown_find(struct hub *h, const char *token)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	struct shown_token **at;

	if (!shown_of(h))
		return NULL;
	digest_of(token, digest);
	at = place_of(shown_of(h), digest);
	if (!*at || (*at)->state != SHOWN_HELD)
		return NULL;
	if (!shown_is_over(h, *at))
		return (*at)->token;
	shown_drop(shown_of(h), at);
	return NULL;
}

void broker_shown_finish(struct hub *h)
{
	struct shown_tokens *t = shown_of(h);

	for (size_t i = 0; t && i < PLACES; i++)
		while (t->places[i]) {
			/* The job, with those who wait, is with the monitor, and its answer ends it. */
			if (t->places[i]->job)
				t->places[i]->job->hub = NULL;
			shown_drop(t, &t->places[i]);
		}
	free(t);
	hub_broker(h)->shown = NULL;
}

/* ---- the exchange */

static struct origin waiter_origin(const struct shown_waiter *w)
{
	return (struct origin){.door = w->rq.door, .peer = w->rq.peer, .endpoint = w->rq.endpoint};
}

static void waiter_free(struct shown_waiter *w)
{
	request_finish(&w->rq);
	free(w);
}

/* Each request is let in as by the grant's token; what is refused was audited for the first, and is for the others. */
static void waiter_tell(struct shown_job *j, struct shown_waiter *w, int rc, const struct err *e, const char *token)
{
	struct origin from = waiter_origin(w);
	struct request rq;
	struct err own = {0};

	if (rc && rc != ERR_CANCELLED && w != j->first)
		broker_audit_refused(j->hub, &from, "token of an issuer", NULL, e);
	if (rc == 0) {
		rc = broker_authenticate(j->hub, token, strlen(token), &from, &rq, &own);
		e = &own;
	}
	w->done(w->arg, rc, e, rc ? NULL : &rq);
	if (rc == 0)
		request_finish(&rq);
}

static void job_end(struct shown_job *j, int rc, const struct err *e, const char *token)
{
	struct shown_waiter *w, *next;

	for (w = j->first; w; w = w->next)
		waiter_tell(j, w, rc, e, token);
	for (w = j->first; w; w = next) {
		next = w->next;
		if (j->hub)
			shown_of(j->hub)->waiting -= w->held;
		waiter_free(w);
	}
	free(j);
}

/* The grant's token stands for it. ERR_TOKEN_*, ERR_NOMEM. */
static int shown_hold(struct hub *h, struct shown_token *s, const json_t *result, struct err *e)
{
	const char *token = json_get_text(result, "token");
	struct grant_trust trust = hub_trust(h);
	struct grant g;
	int rc = hub_grant_verify(h, token, strlen(token), &trust, hub_now_wall(h), &g, e);

	if (rc)
		return rc;
	if (!(s->token = strdup(token)))
		return err_set(e, ERR_NOMEM, "no memory");
	text_put(s->principal, sizeof(s->principal), g.principal);
	text_put(s->issuer, sizeof(s->issuer), json_get_text(result, "by"));
	shown_make_room(h, s);
	s->grant = grant_line(&g);
	s->since_ns = hub_now_wall(h);
	s->job = NULL;
	s->state = SHOWN_HELD;
	shown_of(h)->asked--;
	return 0;
}

/* Also where nobody answers any more (ERR_CANCELLED), with the hub still there: the next request asks anew. */
static void broker_shown_on_exchanged(void *arg, int rc, const struct err *e, json_t *result)
{
	struct shown_job *j = arg;
	struct err own = {0};

	if (!j->hub) {
		job_end(j, ERR_CANCELLED, rc ? e : &own, NULL);
		return;
	}
	if (rc == 0 && (rc = shown_hold(j->hub, *place_of(shown_of(j->hub), j->digest), result, &own)))
		e = &own;
	if (rc)
		shown_drop(shown_of(j->hub), place_of(shown_of(j->hub), j->digest));
	job_end(j, rc, e, json_get_text(result, "token"));
}

static int shown_begin(struct hub *h, const uint8_t digest[SHA256_DIGEST_LENGTH], struct shown_token **out,
		       struct err *e)
{
	struct shown_token *s;

	if (!shown_of(h) && !(hub_broker(h)->shown = calloc(1, sizeof(*shown_of(h)))))
		return err_set(e, ERR_NOMEM, "no memory");
	if (shown_of(h)->asked >= SHOWN_ASKED_MAX)
		return err_limit(
		    e, ERR_LIMIT,
		    &(struct err_share){"fixed.exchanges", "daemon", SHOWN_ASKED_MAX, shown_of(h)->asked, 5},
		    "%d tokens of issuers are being exchanged already: show it again", SHOWN_ASKED_MAX);
	s = calloc(1, sizeof(*s));
	if (!s || !(s->job = calloc(1, sizeof(*s->job)))) {
		free(s);
		return err_set(e, ERR_NOMEM, "no memory");
	}
	memcpy(s->digest, digest, sizeof(s->digest));
	memcpy(s->job->digest, digest, sizeof(s->digest));
	s->job->hub = h;
	s->job->last = &s->job->first;
	s->next = shown_of(h)->places[digest[0]];
	shown_of(h)->places[digest[0]] = s;
	shown_of(h)->asked++;
	*out = s;
	return 0;
}

/* Requests that wait have a bound of their own; a small one finds room where long ones have filled theirs. */
static int waiting_check(const struct hub *h, size_t held, struct err *e)
{
	size_t most = held > SHOWN_SMALL ? SHOWN_WAITING_MAX / 2 : SHOWN_WAITING_MAX;

	if (held <= most && (!shown_of(h) || shown_of(h)->waiting <= most - held))
		return 0;
	return err_limit(
	    e, ERR_LIMIT,
	    &(struct err_share){"fixed.exchange_bytes", "daemon", most, shown_of(h) ? shown_of(h)->waiting : 0, 5},
	    "requests with tokens of issuers that are being exchanged hold %u MiB: send it again, or begin with "
	    "a small one",
	    (unsigned)(most >> 20));
}

void broker_shown_enter(struct hub *h, const char *token, size_t held, const struct origin *from,
			broker_grant_done *done, void *arg)
{
	struct shown_waiter *w = calloc(1, sizeof(*w));
	struct grant_exchange x = {.token = token};
	uint8_t digest[SHA256_DIGEST_LENGTH];
	struct shown_token *s = NULL;
	struct err e = {0};
	bool first;
	int rc = w ? 0 : err_set(&e, ERR_NOMEM, "no memory");

	digest_of(token, digest);
	if (rc == 0 && shown_of(h))
		s = *place_of(shown_of(h), digest);
	first = !s;
	if (rc == 0 && (first || s->state == SHOWN_ASKED))
		rc = waiting_check(h, held, &e);
	if (rc == 0 && first)
		rc = shown_begin(h, digest, &s, &e);
	if (rc) {
		free(w);
		broker_audit_refused(h, from, "token of an issuer", NULL, &e);
		done(arg, rc, &e, NULL);
		return;
	}
	*w = (struct shown_waiter){.held = held, .done = done, .arg = arg};
	request_begin(&w->rq, from);
	if (s->state == SHOWN_HELD) { /* since its head was looked at */
		struct shown_job now = {.hub = h};

		waiter_tell(&now, w, 0, NULL, s->token);
		waiter_free(w);
		return;
	}
	shown_of(h)->waiting += held;
	*s->job->last = w;
	s->job->last = &w->next;
	if (first)
		broker_exchange(h, &x, from, broker_shown_on_exchanged, s->job);
}
