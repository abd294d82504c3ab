/*
 * holds.h - legal holds: what must not be removed, whatever retention says. Pure.
 *
 * A hold names a session, an agent, a principal, a time, or several of these, which must then all fit. It is set and
 * released by the recorder's own events hold.add and hold.release, which stand in the chain log as entries of type
 * `hold` too; the set of those in force follows from them in their order. Who serializes: its owner (the cutter).
 */
#ifndef RECORDER_INDEX_HOLDS_H
#define RECORDER_INDEX_HOLDS_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define HOLDS_OWN_MAX 1000  /* of one principal, and below it, without scope admin */
#define HOLDS_MAX     10000 /* looked after where they are asked for: one that stands in the log counts */
#define HOLD_NAME_MAX 128
#define HOLD_ADD      "hold.add"
#define HOLD_RELEASE  "hold.release"

struct hold {
	struct id id;
	struct id session;                 /* nil: any */
	char agent[AGENT_NAME_MAX + 1];    /* a pod covers its containers; "": any */
	char principal[HOLD_NAME_MAX + 1]; /* "": any */
	int64_t from_ns, until_ns;         /* wall clock; a session fits that ran in between; 0: no bound */
	int64_t at_ns;                     /* when it was set */
};

struct holds {
	struct hold *list;
	size_t n;
};

/* What a recording is about. Times of a session of which less is known: 0 and INT64_MAX. */
struct hold_subject {
	struct id session;
	const char *agent, *principal; /* NULL: not known, which fits nothing */
	int64_t opened_ns, ended_ns;
};

/* "held": {"session","agent","principal","from_ns","until_ns"}: at least one. ERR_INVAL names what is wrong. */
int hold_parse(const json_t *held, struct hold *out, struct err *e);
bool hold_covers(const struct hold *h, const struct hold_subject *s);

/* An event hold.add or hold.release; others, and what was taken before, change nothing. ERR_NOMEM. */
int holds_take(struct holds *hs, const json_t *record, struct err *e);
/* The first that covers it; NULL: it may go. */
const struct hold *holds_cover(const struct holds *hs, const struct hold_subject *s);
void holds_finish(struct holds *hs);

#endif
