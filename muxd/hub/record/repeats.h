/*
 * repeats.h - what is told once and then counted: failed log-ins, what a valid grant was refused, and looks that the
 * policy allowed. A flood of them is few audit events, and none is forgotten.
 *
 * Owned by the hub. No clock and no file of its own: times are given, and what has to outlive a kill is handed to
 * `keep`. A failed log-in is known by its kind (door, what failed, outcome) and by the address that it came from (an
 * IPv6 one: its /64); with a good signature by its grant and endpoint too. The first of its sort is an event at once,
 * the caller's. Those that follow are counted, and written as one event a minute after the one before, with their
 * number, their time and the endpoints; a sort that stays quiet for a minute is forgotten.
 *
 * Bounded: as many sorts as REPEATS_SLOTS. When the sorts of single addresses are used up, those of new ones are
 * counted together: by /24 or /48, then by /16 or /32, then all of a family (now without grant and endpoint), at last
 * everything together. A verdict is known by its grant, door, operation (endpoint and what was asked), and outcome,
 * a denial and an allowance by the policy's operation, rule and version as well, wherever it comes from; further ones
 * are counted by grant and outcome, then by grant, by outcome, at last together. An event names the agents that were
 * asked for, and the ids of its first and last requests, REPEATS_IDS of each. So 257 events are written a minute at
 * most, and as many firsts. Of allowances all slots are for single sorts, and what finds none is an event each time,
 * since a wider one would have lost its rule.
 *
 * A slot: FREE -> COUNTING -> FREE, or OWED (what was kept before a kill) -> FREE once it is written. What is counted
 * is kept before repeats_note() returns. A kill between a write and the word that it was done writes that event once
 * more, with the same event_id.
 */
#ifndef MUXD_HUB_RECORD_REPEATS_H
#define MUXD_HUB_RECORD_REPEATS_H

#include "base/json.h"

struct repeats;
struct grant;
struct id;

#define REPEATS_SLOTS     257
#define REPEATS_EVERY_NS  UINT64_C(60000000000)
#define REPEATS_EVENT_MAX 4095 /* bytes of an event as it is kept */
#define REPEATS_IDS       8

/* Denials and allowances are the policy's, with events of their own. */
enum repeats_of { REPEATS_LOGINS, REPEATS_VERDICTS, REPEATS_DENIALS, REPEATS_ALLOWANCES, REPEATS_KINDS };

/* Borrowed. door to endpoint: of the program's own tables, short. */
struct repeat {
	const char *door, *what, *outcome, *endpoint;
	const char *peer, *message;
	const char *operation, *rule, *version; /* the policy's, as policy/verdict.h has them; NULL */
	const char *agent;                      /* of a verdict; NULL */
	const struct grant *who;                /* NULL, or without id: no good signature */
	const struct id *request;               /* that the caller was told; NULL: none */
};

struct repeats_ops {
	int (*write)(void *arg, const json_t *event); /* into the audit log; what fails is tried again */
	/* In place of what the slot had; n 0: nothing. */
	void (*keep)(void *arg, enum repeats_of of, size_t slot, const char *text, size_t n);
};

int repeats_create(enum repeats_of of, const struct repeats_ops *ops, void *arg, struct repeats **out);
void repeats_destroy(struct repeats *f); /* NULL-safe; writes nothing */
/* True: the first of its sort, to be audited by the caller; should that fail, the same is noted again. */
bool repeats_note(struct repeats *f, const struct repeat *it, uint64_t boot_ns, int64_t wall_ns);
/* A text that keep() was given before a kill: it is written as it is. False: it is no such text. */
bool repeats_owe(struct repeats *f, size_t slot, const char *text, size_t n);
/* Write what is due; all: now, since nobody will ask later. */
void repeats_tick(struct repeats *f, uint64_t boot_ns, int64_t wall_ns, bool all);

#endif
