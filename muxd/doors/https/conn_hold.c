/*
 * Connections hold memory of all: bodies of strangers that are not whole, answers that are not read.
 *
 * Among strangers who has been at it for longest gives way: a body that somebody means comes within seconds, and a page
 * is read as fast as the network has it. A principal is refused, by name, and only its own answers count: the answer is
 * lost, what was asked for is done. One answer is let through whatever else there is, so no answer is too long for
 * this.
 */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/doors/https/conn.h"
#include "muxd/hub/hub.h"
#include "policy/grant_narrow.h"

#define ANSWER_SMALL ((size_t)32 << 10) /* not looked at */
#define RETRY_S      5

const struct hold_limits hold_limits = {
    .bodies = (size_t)16 << 20, .pages = (size_t)32 << 20, .share = (size_t)64 << 20, .answers = (size_t)256 << 20};

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
		v->x->retry_after_s = RETRY_S;
		conn_refuse(v, 429, ERR_LIMIT,
			    "requests without a grant have filled what is kept for their bodies: send it again, whole");
	}
	return c->state == CONN_BODY;
}

/* ---- answers */

static bool same_holder(const struct http_exchange *a, const struct http_exchange *b)
{
	return a->authenticated == b->authenticated &&
	       (!a->authenticated || grant_same_root(a->rq.grant.principal, b->rq.grant.principal));
}

struct answers {
	size_t all, same;    /* bytes, without the one that is asked about */
	struct conn *oldest; /* of the same */
};

static struct answers answers_count(const struct conn *c)
{
	struct answers a = {0};
	uint64_t now = clock_boot_ns();

	for (struct conn *o = c->door->conns; o; o = o->next) {
		bool goes = o->state == CONN_READY || o->state == CONN_WRITING || o->state == CONN_DELAYED;

		if (o == c || !goes || !o->x || o->x->out.cap <= ANSWER_SMALL || (o->limit_ns && now >= o->limit_ns))
			continue;
		a.all += o->x->out.cap;
		if (!same_holder(c->x, o->x))
			continue;
		a.same += o->x->out.cap;
		if (o->state == CONN_WRITING && (!a.oldest || o->x->started_ns < a.oldest->x->started_ns))
			a.oldest = o;
	}
	return a;
}

static void answer_refuse(struct conn *c, const struct answers *a)
{
	struct http_exchange *x = c->x;
	void (*done)(void *arg, struct http_exchange *x) = x->done;
	struct err e = {0};

	err_set(&e, ERR_LIMIT,
		"%zu MiB of answers to %.128s wait to be read: read them, then ask again (what was asked for is done)",
		a->same >> 20, x->rq.grant.principal);
	buf_finish(&x->out);
	buf_init(&x->out, HTTP_RESPONSE_MAX);
	x->retry_after_s = RETRY_S;
	x->done = NULL; /* it was told */
	http_reply_error(x, e.code, &e);
	x->done = done;
}

void conn_hold_answer(struct conn *c)
{
	const struct http_exchange *x = c->x;
	struct answers a;

	conn_hold_no_body(c);
	if (x->out.cap <= ANSWER_SMALL || x->streams)
		return;
	a = answers_count(c);
	if (!x->authenticated) {
		if (a.oldest && a.same + x->out.cap > c->door->hold.pages) /* the next sweep ends it */
			a.oldest->deadline_ns = a.oldest->limit_ns = clock_boot_ns();
	} else if (a.same &&
		   (a.same + x->out.cap > c->door->hold.share || a.all + x->out.cap > c->door->hold.answers)) {
		answer_refuse(c, &a);
	}
}
