/* Calls at the hub's next tick: who was refused for a moment asks again, and the loop goes on meanwhile. */
#include "muxd/hub/core/later.h"
#include "base/err.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"

#include <stdlib.h>
#include <sys/queue.h>

struct later {
	TAILQ_ENTRY(later) entry;
	later_call *call;
	void *arg;
};

struct laters {
	TAILQ_HEAD(later_list, later) all; /* in the order in which they came */
};

struct laters *laters_create(void)
{
	struct laters *x = calloc(1, sizeof(*x));

	if (x)
		TAILQ_INIT(&x->all);
	return x;
}

void laters_destroy(struct laters *x)
{
	free(x);
}

bool laters_rest(const struct hub *h)
{
	return TAILQ_EMPTY(&hub_laters(h)->all);
}

int hub_later(struct hub *h, later_call *call, void *arg)
{
	struct later *l = calloc(1, sizeof(*l));

	if (!l)
		return ERR_NOMEM;
	*l = (struct later){.call = call, .arg = arg};
	TAILQ_INSERT_TAIL(&hub_laters(h)->all, l, entry);
	hub_stir(h);
	return 0;
}

static void later_settle(struct later_list *list, int rc, const struct err *e)
{
	struct later *l = TAILQ_FIRST(list);

	TAILQ_REMOVE(list, l, entry);
	l->call(l->arg, rc, e);
	free(l);
}

/* A caller that comes back meanwhile waits for the next tick. */
void later_tick(struct hub *h)
{
	struct later_list now = TAILQ_HEAD_INITIALIZER(now);

	TAILQ_CONCAT(&now, &hub_laters(h)->all, entry);
	while (!TAILQ_EMPTY(&now))
		later_settle(&now, 0, NULL);
}

void later_close(struct hub *h, const struct err *why)
{
	while (!laters_rest(h))
		later_settle(&hub_laters(h)->all, ERR_CANCELLED, why);
}
