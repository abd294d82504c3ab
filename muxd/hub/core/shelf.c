#include "muxd/hub/core/shelf.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/metric.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

struct shelf {
	struct session *by_id;
	struct session_list order; /* newest first */
	struct session_list ended; /* oldest first */
	size_t ended_count;
	uint64_t ended_bytes;
	struct memory_rest rest; /* sessions that came and went */
	struct metric_times round_times;
};

struct shelf *shelf_create(void)
{
	struct shelf *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	TAILQ_INIT(&x->order);
	TAILQ_INIT(&x->ended);
	return x;
}

void shelf_destroy(struct shelf *x)
{
	free(x);
}

/* Newest first by id; only those found again after a restart come in another order. */
static void shelf_put_in_order(struct shelf *x, struct session *s)
{
	struct session *at = TAILQ_FIRST(&x->order);

	while (at && memcmp(at->id.b, s->id.b, sizeof(s->id.b)) > 0)
		at = TAILQ_NEXT(at, order);
	if (at)
		TAILQ_INSERT_BEFORE(at, s, order);
	else
		TAILQ_INSERT_TAIL(&x->order, s, order);
}

void shelf_put(struct session *s)
{
	struct shelf *x = hub_shelf(s->hub);

	HASH_ADD(hh, x->by_id, id, sizeof(s->id), s);
	shelf_put_in_order(x, s);
	memory_moved(&x->rest, clock_boot_ns());
}

void shelf_end(struct session *s, bool first)
{
	struct shelf *x = hub_shelf(s->hub);

	if (first)
		TAILQ_INSERT_HEAD(&x->ended, s, of_ended);
	else
		TAILQ_INSERT_TAIL(&x->ended, s, of_ended);
	x->ended_count++;
	x->ended_bytes += s->kept_bytes;
}

void shelf_take(struct session *s)
{
	struct shelf *x = hub_shelf(s->hub);

	memory_moved(&x->rest, clock_boot_ns());
	if (s->end == END_TOLD) {
		TAILQ_REMOVE(&x->ended, s, of_ended);
		x->ended_count--;
		x->ended_bytes -= s->kept_bytes;
	}
	HASH_DELETE(hh, x->by_id, s);
	TAILQ_REMOVE(&x->order, s, order);
}

struct session *hub_session_find(struct hub *h, const struct id *id)
{
	struct session *s = NULL;

	HASH_FIND(hh, hub_shelf(h)->by_id, id, sizeof(*id), s);
	return s;
}

const struct session_list *hub_sessions(const struct hub *h)
{
	return &hub_shelf(h)->order;
}

struct session *shelf_oldest(const struct hub *h)
{
	return TAILQ_FIRST(&hub_shelf(h)->ended);
}

bool shelf_is_full(const struct hub *h)
{
	const struct shelf *x = hub_shelf(h);
	const struct conf *c = hub_conf(h);

	return x->ended_count > c->round_keep_max || x->ended_bytes > c->round_keep_size;
}

void shelf_give_back(struct hub *h, uint64_t now)
{
	if (memory_due(&hub_shelf(h)->rest, now))
		memory_give();
}

struct metric_times *shelf_round_times(const struct hub *h)
{
	return &hub_shelf(h)->round_times;
}
