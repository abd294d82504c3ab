/*
 * rule.h - who wins: the one rule of a filespace's sync (docs/filespace.md, "Who wins"). Pure; one path at a time.
 *
 * The two sides are the workspace and the owner's store. What they last agreed on tells who has changed a file since.
 * If one side did, its change counts, whatever any clock says. If both did, the last writer wins by the store's clock:
 * a workspace's time is that of its kernel (ctime), brought to the store's clock by the caller, and is held here
 * between the last agreement and now. A deletion spreads only where it is known to be the newer of the two.
 */
#ifndef CONTROL_FILESPACE_RULE_H
#define CONTROL_FILESPACE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#define FILESPACE_KEY_LEN 65 /* SHA-256 in hexadecimal, then 'x' for what is executable, else '-' */

/* One side, or what was agreed on. Not there: key "". */
struct filespace_side {
	char key[FILESPACE_KEY_LEN + 1];
	bool deleted;  /* the store keeps a deletion, of at_ms; or one was agreed on. Never with a key */
	int64_t at_ms; /* of the last change, by the store's clock; of the agreement: the store's updated_at then */
};

enum filespace_verdict {
	FILESPACE_NOTHING,      /* neither side has it, or neither has changed */
	FILESPACE_AGREE,        /* both have become the same: that is noted, and nothing travels */
	FILESPACE_COPY_UP,      /* workspace -> store */
	FILESPACE_COPY_DOWN,    /* store -> workspace */
	FILESPACE_DELETE_THERE, /* in the store */
	FILESPACE_DELETE_HERE,  /* in the workspace */
	FILESPACE_FORGET        /* both have lost it: the agreement is what the store keeps of it */
};
const char *filespace_verdict_name(enum filespace_verdict v);

/*
 * last: NULL, or neither key nor deletion: nothing was agreed on. now_ms: the store's clock. *out_conflict: both had
 * changed, to something different, and one of them loses; it is told, whichever way it goes.
 */
enum filespace_verdict filespace_rule(const struct filespace_side *here, const struct filespace_side *there,
				      const struct filespace_side *last, int64_t now_ms, bool *out_conflict);

/*
 * A workspace that is not the one of the agreements, as it was restored from a snapshot. Unpacking it has set each
 * ctime to its own time, so that none of them counts beyond the snapshot's.
 */
struct filespace_restored {
	int64_t at_ms;     /* the snapshot's time, by the store's clock; INT64_MAX: it was not restored, ctimes count */
	int64_t agreed_ms; /* of the last agreement, by the same clock */
};
/*
 * before: what was agreed on with the workspace that is gone; NULL: nothing. A file that equals it has not changed
 * here. What is not here was not deleted: it is older than what went.
 */
enum filespace_verdict filespace_rule_restored(const struct filespace_side *here, const struct filespace_side *there,
					       const struct filespace_side *before, const struct filespace_restored *r,
					       int64_t now_ms, bool *out_conflict);
/* When a file of it counts as written. */
int64_t filespace_restored_at(const struct filespace_side *here, const struct filespace_side *before,
			      const struct filespace_restored *r);

#endif
