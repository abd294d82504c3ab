/*
 * Whose turn it is in one container. Programs wait for a place in the order in which they came, staff's ahead of
 * agents'; each is told its place. How many run at once is bounded by the configuration and by what the server was
 * seen to stand: a refusal for being busy lowers that, time without one raises it again, one by one. Few start at the
 * same time: a runtime that has to begin very many execs at once takes longer for all of them than for one after the
 * other.
 */
#define LOG_SUBSYS "plain"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/plain/peer.h"

#define STARTING    8                 /* execs that begin at the same time */
#define LEAST       4                 /* programs, however often the server refuses */
#define RAISE_NS    (10 * NS_PER_SEC) /* without a refusal: one more is tried */
#define PAUSE_NS    (250 * NS_PER_MS) /* after a refusal, doubling up to 32 times that */
#define PAUSE_STEPS 5
#define LOOK_NS     (300 * NS_PER_MS)             /* who has waited so long is told its place */
#define TELL_NS     (1 * NS_PER_SEC)              /* a changed place is told so often at most */
#define RESERVE(n)  ((n) > 1 ? ((n) + 7) / 8 : 0) /* of n places for staff alone */

static void set_stands(struct plain_peer *p, unsigned n, const char *why)
{
	p->stands_ns = clock_boot_ns();
	if (n == p->stands)
		return;
	log_info(&(struct log_ids){.agent = p->agent}, "programs that may run at a time: %u -> %u (%s)", p->stands, n,
		 why);
	p->stands = n;
}

static bool is_looked_at(const struct plain_peer *p)
{
	return p->look == LOOK_SHELL || p->look == LOOK_BARE;
}

static bool is_staff(const struct plain_channel *c)
{
	return c->open.flags & OPEN_RESERVE;
}

static bool has_place(const struct plain_peer *p, bool staff)
{
	return p->running < p->stands - (staff ? 0 : RESERVE(p->stands));
}

static struct plain_channel *queue_first(const struct plain_peer *p, bool staff)
{
	struct plain_channel *c;

	TAILQ_FOREACH(c, &p->channels, entry)
	if (c->state == CHANNEL_WAITING && is_staff(c) == staff)
		return c;
	return NULL;
}

struct plain_channel *queue_next(struct plain_peer *p)
{
	struct plain_channel *c = NULL;

	p->turn = false;
	if (!is_looked_at(p) || !p->waiting || p->starting >= STARTING || clock_boot_ns() < p->pause_ns)
		return NULL;
	if (has_place(p, true))
		c = queue_first(p, true);
	if (!c && has_place(p, false))
		c = queue_first(p, false);
	return c;
}

/* ---- what the server stands */

/*
 * A server that says that it is busy; or one that fails while it serves other programs of this container. Where none
 * runs, as in a container that has ended, its failure is the answer.
 */
static bool is_busy(const struct plain_peer *p, const struct rc_exit *x)
{
	if (x->cause != RC_NOT_STARTED)
		return false;
	if (x->http_status == 429 || x->http_status == 503)
		return true;
	return p->running > p->starting && (x->http_status == 500 || x->http_status == 502 || x->http_status == 504);
}

bool queue_again(struct plain_channel *c, const struct rc_exit *x)
{
	struct plain_peer *p = c->peer;

	if (!is_busy(p, x) || c->state != CHANNEL_STARTING || c->ending != ENDING_NOT || c->forgotten ||
	    clock_boot_ns() >= c->wait_until_ns)
		return false;
	channel_release(c);
	channel_set_state(c, CHANNEL_WAITING);
	c->deadline_ns = c->wait_until_ns;
	c->place = 0;
	p->pause_ns = clock_boot_ns() + backoff(++p->refusals, PAUSE_NS, PAUSE_NS << PAUSE_STEPS);
	text_put(p->busy, sizeof(p->busy), x->err.message);
	set_stands(p, p->running < LEAST ? LEAST < p->plain->programs ? LEAST : p->plain->programs : p->running,
		   x->err.message);
	peer_timer(p);
	return true;
}

void queue_begun(struct plain_peer *p)
{
	p->refusals = 0;
	p->busy[0] = '\0';
}

/* ---- places */

static bool is_news(const struct plain_channel *c, unsigned place, unsigned of, uint64_t now)
{
	if (!c->place)
		return now + c->peer->plain->wait_ns >= c->wait_until_ns + LOOK_NS;
	return (c->place != place || c->places != of) && now >= c->told_ns + TELL_NS;
}

static void queue_tell(struct plain_channel *c, unsigned place, unsigned of, uint64_t now)
{
	const struct plain_peer *p = c->peer;
	char text[FRAME_TEXT_MAX];

	if (!is_news(c, place, of, now))
		return;
	c->place = place;
	c->places = of;
	c->told_ns = now;
	text_format(text, sizeof(text), "waiting: place %u of %u, %u programs run in this container%s%.100s", place, of,
		    p->running, p->busy[0] ? "; the server is busy: " : "", p->busy);
	wire_error(c->peer, c->number, CODE_LIMIT, text);
}

static void tell_all(struct plain_peer *p, uint64_t now)
{
	struct plain_channel *c;
	unsigned place = 0;

	p->told_ns = now;
	for (int staff = 1; staff >= 0; staff--)
		TAILQ_FOREACH(c, &p->channels, entry)
	if (c->state == CHANNEL_WAITING && is_staff(c) == (bool)staff)
		queue_tell(c, ++place, p->waiting, now);
}

/* ---- time */

uint64_t queue_due(const struct plain_peer *p)
{
	uint64_t due = p->waiting && is_looked_at(p) ? p->told_ns + LOOK_NS : 0, raise = p->stands_ns + RAISE_NS;

	if (due && p->pause_ns && p->pause_ns < due)
		due = p->pause_ns;
	return p->stands < p->plain->programs && (!due || raise < due) ? raise : due;
}

void queue_tick(struct plain_peer *p, uint64_t now)
{
	if (p->pause_ns && now >= p->pause_ns) {
		p->pause_ns = 0;
		p->turn = true;
	}
	if (p->stands < p->plain->programs && now >= p->stands_ns + RAISE_NS) {
		set_stands(p, p->stands + 1, "no refusal lately");
		p->turn = true;
	}
	if (p->waiting && is_looked_at(p) && now >= p->told_ns + LOOK_NS)
		tell_all(p, now);
}
