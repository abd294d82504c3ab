/*
 * grant_kin.h - where a grant comes from: the grant that it renews, and those above it that it was made from.
 *
 * A renewal is the same permission for longer, with an id of its own; `first` is the id of the grant that was renewed
 * first and stands for all of them. A child is a narrower permission that a principal made from its own grant; above[0]
 * is its parent's `first`, above[1] that one's parent's, and so on. The line travels in the token, so that a
 * grant that was taken back ends everything below it wherever the line is looked at, and nobody has to be told of each.
 *
 * A task that an administrator gave opens that task: its artifacts, whoever put them. One that the holder of a grant
 * without a task chose for a child, or asked for beside a token of others, narrows what may be done and opens nothing:
 * task_asked, which every child and renewal keeps.
 *
 * Values, no ownership. Pure.
 */
#ifndef POLICY_GRANT_KIN_H
#define POLICY_GRANT_KIN_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>

struct err;
struct grant_keyset;
struct id_times;

#define GRANT_KID_SIZE 17 /* the first 8 bytes of a key's SHA-256, in hex */

#define GRANT_DEPTH_MAX 3 /* grants above the lowest */

struct grant_kin {
	struct id first; /* nil: the grant renews none */
	struct id above[GRANT_DEPTH_MAX];
	unsigned depth; /* of above */
	bool task_asked;
};

/* The part of a grant that is kept with whatever goes on under it. */
struct grant_line {
	struct id id;
	struct grant_kin kin;
	int64_t expires_ns;       /* its own end; those of renewals are news */
	char kid[GRANT_KID_SIZE]; /* whose signature let it in; "": not known any more */
};

/* News of grants, which their tokens cannot have. Borrowed. */
struct grant_news {
	const struct id_times *revoked; /* each until the end of the last grant that it concerns */
	/* At an edge: until when what it knows of revocations may be used. 0: no such bound, as at who takes back
	 * itself. */
	int64_t known_until_ns;
	const struct id_times *renewed;  /* by `first`, until when the newest renewal holds; NULL: not known here */
	const struct grant_keyset *keys; /* that still count; NULL: whoever looks has just verified the signature */
};

/* The id that stands for a grant and all its renewals. */
const struct id *grant_line_first(const struct grant_line *l);
/* Is `id` the grant, the first of its renewals, or one above it? */
bool grant_line_has(const struct grant_line *l, const struct id *id);
/* Its own end, or that of its newest renewal; no later than known_until_ns. */
int64_t grant_line_ends(const struct grant_line *l, const struct grant_news *n);
/* Was it taken back, or one that it comes from? */
bool grant_line_revoked(const struct grant_line *l, const struct grant_news *n);
/* Was the key dropped that signed it? What a stolen key let in ends with the key, whatever the token said. */
bool grant_line_unsigned(const struct grant_line *l, const struct grant_news *n);
/* Is what is known of revocations young enough? ERR_REVOCATIONS_OLD. */
int grant_news_check(const struct grant_news *n, int64_t now_ns, struct err *e);
/* ERR_TOKEN_EXPIRED, ERR_TOKEN_REVOKED, ERR_TOKEN_FORGED (its key was dropped), ERR_REVOCATIONS_OLD. */
int grant_line_check(const struct grant_line *l, const struct grant_news *n, int64_t now_ns, struct err *e);

/* May a grant hold it? ERR_INVAL. */
int grant_kin_check(const struct grant_kin *k, struct err *e);
/* Members first, above (ids, nearest first) and task_asked of an object, where they are. ERR_INVAL; *out untouched
 * then. */
int grant_kin_take(const json_t *o, struct grant_kin *out, struct err *e);
/* The same into an object. 0, ERR_NOMEM. */
int grant_kin_put(json_t *o, const struct grant_kin *k);

#endif
