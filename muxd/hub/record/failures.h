/*
 * failures.h - failed log-ins, or verdicts (what a valid grant was refused), so that a flood of them is few audit
 * events and none is forgotten.
 *
 * Owned by the hub. No clock and no file of its own: times are given, and what has to outlive a kill is handed to
 * `keep`. A failed log-in is known by its kind (door, what failed, outcome) and by the address that it came from (an
 * IPv6 one: its /64); with a good signature by its grant and endpoint too. The first of its sort is an event at once,
 * the caller's. Those that follow are counted, and written as one event a minute after the one before, with their
 * number, their time and the endpoints; a sort that stays quiet for a minute is forgotten.
 *
 * Bounded: as many sorts as FAILURES_SLOTS. When the sorts of single addresses are used up, those of new ones are
 * counted together: by /24 or /48, then by /16 or /32, then all of a family (now without grant and endpoint), at last
 * everything together. A verdict is known by its grant, door, operation (endpoint and what was asked), and outcome,
 * a denial by the policy's operation, rule and version as well, wherever it comes from; further ones are counted by
 * grant and outcome, then by grant, by outcome, at last together. An event names the agents that were asked for. So 257
 * events are written a minute at most, and as many firsts.
 *
 * A slot: FREE -> COUNTING -> FREE, or OWED (what was kept before a kill) -> FREE once it is written. What is counted
 * is kept before failures_note() returns. A kill between a write and the word that it was done writes that event once
 * more, with the same event_id.
 */
#ifndef MUXD_HUB_RECORD_FAILURES_H
#define MUXD_HUB_RECORD_FAILURES_H

#include "base/json.h"

struct failures;
struct grant;

#define FAILURES_SLOTS     257
#define FAILURES_EVERY_NS  UINT64_C(60000000000)
#define FAILURES_EVENT_MAX 4095 /* bytes of an event as it is kept */

/* Denials are the policy's: verdicts with an event of their own. */
enum failures_of { FAILURES_LOGINS, FAILURES_VERDICTS, FAILURES_DENIALS, FAILURES_KINDS };

/* Borrowed. door to endpoint: of the program's own tables, short. */
struct failure {
	const char *door, *what, *outcome, *endpoint;
	const char *peer, *message;
	const char *operation, *rule, *version; /* of a denial, as policy/verdict.h has them; NULL */
	const char *agent;                      /* of a verdict; NULL */
	const struct grant *who;                /* NULL, or without id: no good signature */
};

struct failures_ops {
	int (*write)(void *arg, const json_t *event); /* into the audit log; what fails is tried again */
	void (*keep)(void *arg, size_t slot, const char *text, size_t n); /* in place of what was; n 0: nothing */
};

int failures_create(enum failures_of of, const struct failures_ops *ops, void *arg, struct failures **out);
void failures_destroy(struct failures *f); /* NULL-safe; writes nothing */
/* True: the first of its sort, to be audited by the caller; should that fail, the same is noted again. */
bool failures_note(struct failures *f, const struct failure *it, uint64_t boot_ns, int64_t wall_ns);
/* A text that keep() was given before a kill: it is written as it is. False: it is no such text. */
bool failures_owe(struct failures *f, size_t slot, const char *text, size_t n);
/* Write what is due; all: now, since nobody will ask later. */
void failures_tick(struct failures *f, uint64_t boot_ns, int64_t wall_ns, bool all);

#endif
