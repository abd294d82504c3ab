/* What the builders know of streams that go on: for the hub, which has forgotten them by a restart. */
#include "base/clock.h"
#include "base/err.h"
#include "recorder/write/cutter_state.h"

#include <time.h>

#define LOOK_NS (5 * NS_PER_MS)

static bool reached(const struct cut_session *s, const uint64_t totals[STREAM_COUNT])
{
	for (unsigned i = 0; i < STREAM_COUNT; i++)
		if (builder_offset(s->b, i) < totals[i])
			return false;
	return true;
}

/* ERR_AGAIN: not yet. */
static int cutter_digest_look(struct cutter *c, const struct id *session, const uint64_t totals[STREAM_COUNT],
			      uint8_t out[STREAM_COUNT][32], struct err *e)
{
	const struct cut_session *s;
	int rc = ERR_AGAIN;

	pthread_mutex_lock(&c->turn);
	s = cut_find(c, session);
	if (s && reached(s, totals)) {
		rc = 0;
		for (unsigned i = 0; rc == 0 && i < STREAM_COUNT; i++)
			if (builder_offset(s->b, i) != totals[i] || builder_digest(s->b, i, out[i]))
				rc = err_set(e, ERR_EOF, "the record has other bytes of the session than were counted");
	}
	pthread_mutex_unlock(&c->turn);
	return rc;
}

int cutter_digests(struct cutter *c, const struct id *session, const uint64_t totals[STREAM_COUNT], uint64_t timeout_ns,
		   uint8_t out[STREAM_COUNT][32], struct err *e)
{
	uint64_t until = clock_boot_ns() + timeout_ns;
	struct timespec pause = {.tv_nsec = LOOK_NS};
	int rc;

	atomic_fetch_add(&c->waiters, 1);
	while ((rc = cutter_digest_look(c, session, totals, out, e)) == ERR_AGAIN && clock_boot_ns() < until)
		nanosleep(&pause, NULL);
	atomic_fetch_sub(&c->waiters, 1);
	return rc == ERR_AGAIN ? err_set(e, ERR_TIMEOUT, "the recorder did not get there in time") : rc;
}
