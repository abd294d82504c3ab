/*
 * What is to be recorded waits for a record that cannot be written just now: a recorder that is started
 * again takes some hundred milliseconds, and no caller is to hear of it. After 5 s it is told; a full disk at once. A
 * grant that ended while its caller waited lets nothing begin.
 */
#define LOG_SUBSYS "hub"
#include "muxd/hub/access/gate.h"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/later.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>

#define WAIT_NS (5 * NS_PER_SEC)

struct gate_wait {
	TAILQ_ENTRY(gate_wait) entry;
	uint64_t until;
	const struct request *rq; /* the caller's, who keeps it until go */
	gate_go *go;
	void *arg;
};

struct gate {
	TAILQ_HEAD(, gate_wait) waits; /* in the order in which they came, all for the same time */
};

struct gate *gate_create(void)
{
	struct gate *g = calloc(1, sizeof(*g));

	if (g)
		TAILQ_INIT(&g->waits);
	return g;
}

void gate_destroy(struct gate *g)
{
	free(g);
}

bool gate_rests(const struct hub *h)
{
	return TAILQ_EMPTY(&hub_gate(h)->waits);
}

/* The policy of a witness may say that nothing begins while nobody outside knows what was recorded. */
static int may_begin(struct hub *h, struct err *e)
{
	int rc = hub_writable(h, e);

	if (rc == 0 && (journal_flags(hub_journal(h)) & RING_CURSOR_REFUSE))
		rc =
		    err_set(e, ERR_RECORD_UNAVAILABLE,
			    "a witness has not had the record's head for longer than its refuse_after: nothing new may "
			    "start until it has");
	return rc;
}

static bool may_pass_soon(const struct hub *h)
{
	enum hub_record_state s = journal_state(hub_journal(h));

	/* Failed, too: so it is for a moment when a recorder goes on that stood still in the middle of a write. */
	return !hub_stopping(h) && s != RECORD_OK && s != RECORD_DISK_FULL;
}

int gate_pass(struct hub *h, const struct request *rq, gate_go *go, void *arg, struct err *e)
{
	struct gate_wait *w = NULL;
	int rc = may_begin(h, e);

	if (rc && may_pass_soon(h)) /* what was read of it may be some milliseconds old */
		journal_refresh(hub_journal(h)), rc = may_begin(h, e);
	if (rc && may_pass_soon(h))
		w = calloc(1, sizeof(*w));
	if (!w)
		return rc;
	*w = (struct gate_wait){.until = clock_boot_ns() + WAIT_NS, .rq = rq, .go = go, .arg = arg};
	TAILQ_INSERT_TAIL(&hub_gate(h)->waits, w, entry);
	hub_stir(h);
	return GATE_WAITS;
}

static void gate_settle(struct hub *h, struct gate_wait *w, int rc, const struct err *e)
{
	TAILQ_REMOVE(&hub_gate(h)->waits, w, entry);
	w->go(w->arg, rc, e);
	free(w);
}

/* The first is taken again and again: whoever goes on may add others, at the end. */
void gate_tick(struct hub *h)
{
	uint64_t now = clock_boot_ns();
	struct gate_wait *w;

	while ((w = TAILQ_FIRST(&hub_gate(h)->waits))) {
		struct err e = {0};
		int rc = may_begin(h, &e);

		if (rc && may_pass_soon(h) && now < w->until)
			return;
		if (!rc)
			rc = broker_in_force(h, w->rq, "wait", &e);
		gate_settle(h, w, rc, rc ? &e : NULL);
	}
}

void gate_close(struct hub *h)
{
	struct gate_wait *w;
	struct err e = {0};

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	while ((w = TAILQ_FIRST(&hub_gate(h)->waits)))
		gate_settle(h, w, ERR_CANCELLED, &e);
	later_close(h, &e);
}
