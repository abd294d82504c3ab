/*
 * retention_policy.h - how long recordings are kept, as the log says it. Pure: no clock, no file.
 *
 * The state is what follows from the recorder's own events in their order, and from nothing else, so that the
 * recorder and whoever verifies the record later come to the same answer for any moment:
 *
 *   config.loaded     what is to hold from now on. Keeping longer holds at once; keeping shorter holds once the
 *                     waiting time in force has passed since that event. A shorter waiting time waits likewise.
 *   retention.apply   an admin's grant: what waits holds now
 *   retention.wait    the wall clock ran ahead: what waits begins to wait anew
 *
 * Each term: SETTLED -> WAITING (something shorter is wanted) -> SETTLED. A value; its owner serializes.
 */
#ifndef RECORDER_INDEX_RETENTION_POLICY_H
#define RECORDER_INDEX_RETENTION_POLICY_H

#include "base/clock_guard.h"
#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define RETENTION_RULE            "record.retain"
#define RETENTION_DIGEST          65
#define RETENTION_BY_MAX          128
#define RETENTION_FOREVER         0 /* as the configuration writes it */
#define RETENTION_WAIT_DEFAULT_NS ((uint64_t)24 * 3600 * 1000000000)

#define RETENTION_CONFIG_EVENT "config.loaded"
#define RETENTION_APPLY_EVENT  "retention.apply"
#define RETENTION_CLOCK_EVENT  "retention.wait"

#define RETENTION_JUMP_NS CLOCK_GUARD_JUMP_NS /* while it runs: wall against uptime */

/* Somebody's word: the configuration (its digest) and who loaded or applied it. */
struct retention_source {
	char digest[RETENTION_DIGEST];
	char by[RETENTION_BY_MAX];
};

struct retention_term {
	uint64_t now, next; /* ns; equal unless it waits */
	bool waits;
	int64_t since_ns, until_ns; /* wall clock; while it waits */
	struct retention_source source, next_source;
};

struct retention_policy {
	uint64_t seq; /* of the last event that was taken */
	bool known;   /* a configuration stands in the log */
	struct retention_term retain, wait;
	struct retention_source loaded; /* the last configuration */
	char load[ID_STR_LEN];          /* its mark: one load is told once */
};

/* Before any event: for ever, and nothing shorter before a day has passed. */
void retention_policy_init(struct retention_policy *p);
/* What had waited long enough at that moment holds. Moments that come before others change nothing. */
void retention_policy_advance(struct retention_policy *p, int64_t wall_ns);
/* The record of an audit event with its place in the log. Those before p->seq, and of other names, change nothing. */
void retention_policy_take(struct retention_policy *p, uint64_t seq, const json_t *record);
/* Is that one of the names which the recorder alone may say? */
bool retention_policy_reserved(const char *event);
/* a keeps shorter than b. */
bool retention_shorter(uint64_t a, uint64_t b);
/* Are recordings that were sealed then old enough now, by what holds now? */
bool retention_policy_due(const struct retention_policy *p, int64_t sealed_ns, int64_t now_ns);

/* What holds, and what will hold when: {"retain":{"now","by","digest","next":{...}},"retain_wait":{...}}. */
json_t *retention_policy_json(const struct retention_policy *p);

#endif
