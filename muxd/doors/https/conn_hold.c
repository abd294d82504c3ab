/*
 * Connections hold memory of all: bodies of strangers that are not whole, answers that are not read.
 *
 * Among strangers who has been at it for longest gives way: a body that somebody means comes within seconds, and a page
 * is read as fast as the network has it. A principal is refused, by name, before its call is begun: a 429 says that
 * nothing was done. Calls that were begun together may still bring more than there is room for. Then the oldest answer
 * of a grant below gives way, so that nobody loses an answer to what it let others do; else the new one is dropped,
 * which has a code of its own (answer_lost), as what was asked for is done.
 */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/doors/https/conn.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/doors/https/route.h"
#include "muxd/hub/core/hub.h"
#include "policy/grant_narrow.h"

#define ANSWER_SMALL ((size_t)32 << 10) /* not looked at */
#define RETRY_S      5

const struct hold_limits hold_limits = {.bodies = (size_t)16 << 20,
					.pages = (size_t)32 << 20,
					.begins = (size_t)16 << 20,
					.own = (size_t)32 << 20,
					.share = (size_t)64 << 20,
					.answers = (size_t)256 << 20};

/* ---- bodies */

static struct conn *oldest_body(const struct rest_door *d)
{
	struct conn *oldest = NULL;

	for (struct conn *c = d->conns; c; c = c->next)
		if (c->state == CONN_BODY && c->held && (!oldest || c->x->started_ns < oldest->x->started_ns))
			oldest = c;
	return oldest;
}

bool conn_hold_body(struct conn *c)
{
	struct rest_door *d = c->door;
	struct conn *v;

	if (c->x->authenticated)
		return true;
	d->bodies_held += c->x->body.cap - c->held;
	c->held = c->x->body.cap;
	while (d->bodies_held > d->hold.bodies && (v = oldest_body(d))) {
		struct err e = {0};

		err_limit(&e, ERR_LIMIT,
			  &(struct err_share){"fixed.bodies_held", "daemon", d->hold.bodies, d->bodies_held, RETRY_S},
			  "requests without a grant have filled what is kept for their bodies: send it again, whole");
		conn_refuse_for(v, &e);
	}
	return c->state == CONN_BODY;
}

/* ---- answers */

/* An answer's relation to the one that is asked about, by their grants. */
enum answer_kin { KIN_OTHER, KIN_ABOVE, KIN_BESIDE, KIN_OWN, KIN_BELOW, KINS };

static enum answer_kin answer_kin(const struct http_exchange *mine, const struct http_exchange *x)
{
	struct grant_line m, o;

	if (mine->authenticated != x->authenticated)
		return KIN_OTHER;
	if (!mine->authenticated)
		return KIN_OWN;
	if (!grant_same_root(mine->rq.grant.principal, x->rq.grant.principal))
		return KIN_OTHER;
	m = grant_line(&mine->rq.grant);
	o = grant_line(&x->rq.grant);
	if (id_equal(grant_line_first(&m), grant_line_first(&o)))
		return KIN_OWN;
	if (grant_line_has(&o, grant_line_first(&m)))
		return KIN_BELOW;
	return grant_line_has(&m, grant_line_first(&o)) ? KIN_ABOVE : KIN_BESIDE;
}

struct answers {
	size_t held[KINS];         /* bytes, without the one that is asked about */
	struct conn *oldest[KINS]; /* of those that are being written */
};

static struct answers answers_count(const struct conn *c)
{
	struct answers a = {0};
	uint64_t now = clock_boot_ns();

	for (struct conn *o = c->door->answers_held ? c->door->conns : NULL; o; o = o->next) {
		enum answer_kin kin;

		if (o == c || !o->answer_held || (o->limit_ns && now >= o->limit_ns))
			continue;
		kin = answer_kin(c->x, o->x);
		a.held[kin] += o->x->out.cap;
		if (o->state == CONN_WRITING && (!a.oldest[kin] || o->x->started_ns < a.oldest[kin]->x->started_ns))
			a.oldest[kin] = o;
	}
	return a;
}

static size_t held_of_root(const struct answers *a)
{
	return a->held[KIN_ABOVE] + a->held[KIN_BESIDE] + a->held[KIN_OWN] + a->held[KIN_BELOW];
}

/* The next sweep ends it, and it counts no more. */
static void answer_end(struct conn *c)
{
	c->deadline_ns = c->limit_ns = clock_boot_ns();
}

/* More of one grant than it can have where its calls come one behind the other. */
static bool own_full(const struct hold_limits *h, const struct answers *a, size_t n)
{
	return a->held[KIN_OWN] >= h->begins && a->held[KIN_OWN] + n > h->own;
}

/* Is there no room for n bytes more? What is small beside the share is not refused for what other principals hold. */
static bool root_full(const struct hold_limits *h, const struct answers *a, size_t n)
{
	size_t root = held_of_root(a) + n;

	return root > h->share || (root > h->begins && root + a->held[KIN_OTHER] > h->answers);
}

/* Answers of grants below give way to those above, and of a grant that holds much to one beside it that holds little.
 */
static struct conn *gives_way(const struct hold_limits *h, const struct answers *a, size_t n)
{
	if (a->oldest[KIN_BELOW])
		return a->oldest[KIN_BELOW];
	return !a->held[KIN_OWN] || a->held[KIN_OWN] + n <= h->begins ? a->oldest[KIN_BESIDE] : NULL;
}

static void answer_lose(struct conn *c, const struct answers *a)
{
	struct http_exchange *x = c->x;
	void (*done)(void *arg, struct http_exchange *x) = x->done;
	struct err e = {0};

	err_set(&e, ERR_ANSWER_LOST,
		"%zu MiB of answers to %.128s wait to be read, so this one was dropped: what was asked for is done",
		held_of_root(a) >> 20, x->rq.grant.principal);
	buf_finish(&x->out);
	buf_init(&x->out, HTTP_RESPONSE_MAX);
	x->done = NULL; /* it was told */
	http_reply_error(x, e.code, &e);
	x->done = done;
}

static void hold_of_grant(struct conn *c)
{
	const struct hold_limits *h = &c->door->hold;
	size_t n = c->x->out.cap;
	struct answers a = answers_count(c);
	struct conn *v;

	while (!own_full(h, &a, n) && root_full(h, &a, n) && (v = gives_way(h, &a, n))) {
		answer_end(v);
		a = answers_count(c);
	}
	/* one answer is let through beside what those above hold: no answer is too long for this */
	if (own_full(h, &a, n) || (root_full(h, &a, n) && a.held[KIN_OWN] + a.held[KIN_BELOW] + a.held[KIN_BESIDE]))
		answer_lose(c, &a);
}

static void hold_of_stranger(const struct conn *c)
{
	struct answers a = answers_count(c);

	if (a.oldest[KIN_OWN] && a.held[KIN_OWN] + c->x->out.cap > c->door->hold.pages)
		answer_end(a.oldest[KIN_OWN]);
}

void conn_hold_answer(struct conn *c)
{
	conn_hold_no_body(c);
	if (c->x->out.cap <= ANSWER_SMALL || c->x->streams)
		return;
	if (c->x->authenticated)
		hold_of_grant(c);
	else
		hold_of_stranger(c);
	c->answer_held = c->x->out.cap > ANSWER_SMALL;
	c->door->answers_held += c->answer_held;
}

/* A client that does not come to reading must still be able to end what it began. */
static bool ends_something(const struct http_exchange *x)
{
	return x->method == HTTP_DELETE || x->route->handle == rest_round_signal ||
	       x->route->handle == rest_session_terminate;
}

bool conn_hold_call(struct conn *c)
{
	struct http_exchange *x = c->x;
	struct err e = {0};
	size_t own;

	if (!c->door->answers_held || !x->authenticated || ends_something(x))
		return true;
	own = answers_count(c).held[KIN_OWN];
	if (own < c->door->hold.begins)
		return true;
	err_limit(&e, ERR_LIMIT,
		  &(struct err_share){"fixed.answers_unread", "grant", c->door->hold.begins, own, RETRY_S},
		  "%zu MiB of answers to %.128s wait to be read: read them, then ask again (nothing was done)",
		  own >> 20, x->rq.grant.principal);
	http_reply_error(x, e.code, &e);
	return false;
}
