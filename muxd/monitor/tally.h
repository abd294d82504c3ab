/*
 * tally.h - how often something was used that may be used so often: a token of an issuer, a grant of a number of uses.
 *
 * Pure, in memory; grants.log has its lines (grants.h). Each count is kept until what it is of is over anyway. Whoever
 * counts has a share of its own, so that one issuer's tokens leave room for those of others. Embedded in the grants;
 * entries are its own.
 */
#ifndef MUXD_MONITOR_TALLY_H
#define MUXD_MONITOR_TALLY_H

#include "base/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TALLY_MAX 100000 /* of all; what a share is a part of */

struct tally_entry {
	struct id id;
	int64_t until_ns; /* wall */
	int64_t n;
	size_t of; /* place in its sources */
};
struct tally_source {
	char name[48]; /* "issuer NAME"; "": of a log that did not say */
	size_t n;      /* entries */
};
struct tally {
	struct tally_entry *list; /* sorted by id, but while a log is read */
	size_t n;
	struct tally_source *sources; /* none is ever taken away: the configuration names few */
	size_t nsources;
};

int64_t tally_count(const struct tally *t, const struct id *id); /* 0: it is not known */
/* One that is not known yet has no room: `of` counts `share` already. */
bool tally_is_full(const struct tally *t, const struct id *id, const char *of, size_t share);
/* Its count is kept until then at least; one that is not known: nothing. */
void tally_extend(struct tally *t, const struct id *id, int64_t until_ns);
/* more of it, whatever the share. ERR_NOMEM. */
int tally_add(struct tally *t, const struct id *id, const char *of, int64_t until_ns, int64_t more);
/*
 * The same while a log is read, in whatever order and however many; tally_settle() comes before anything else is asked.
 * What a log holds was counted once: no bound refuses it. ERR_NOMEM.
 */
int tally_gather(struct tally *t, const struct id *id, const char *of, int64_t until_ns, int64_t more);
size_t tally_settle(struct tally *t);                 /* how many lines were of what another is of, too */
size_t tally_expire(struct tally *t, int64_t now_ns); /* how many went */
void tally_finish(struct tally *t);

#endif
