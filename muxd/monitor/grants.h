/*
 * grants.h - the store of grants: DIR/grants.log, JSON lines, durable before an answer.
 *
 * Tokens are never stored. A grant that was made from another or renews one has its line (policy/grant_kin.h); a
 * revocation is of all that have the revoked grant in theirs. Counted uses (tally.h) have lines of their own. A torn
 * last line (the crash during an append) is cut off and reported; damage anywhere else refuses the start, since a
 * revocation might be among it. Owned by the monitor's loop.
 */
#ifndef MUXD_MONITOR_GRANTS_H
#define MUXD_MONITOR_GRANTS_H

#include "base/json.h"
#include "policy/grant.h"

struct grants;
struct err;

#define GRANTS_MAX       50000 /* alive at once */
#define GRANTS_OF_ADMIN  1000  /* of them, which an administrator alone may take */
#define GRANTS_OF_SOURCE 10000 /* that one issuer let in; by a public key or the cluster, one person */
#define GRANTS_OF_ONE    1000  /* that came of one grant: made from it, or its renewals */

struct grants_load {
	size_t alive, expired, torn_bytes;
};

/* Reads the log, drops what expired before now_ns and writes it anew when something was dropped. */
int grants_open(const char *path, int64_t now_ns, struct grants **out, struct grants_load *out_load, struct err *e);
void grants_close(struct grants *g); /* NULL-safe */

/* via: "admin" or "ssh-key"; by: who asked, as "uid 1000". Synced when it returns 0. ERR_LIMIT, ERR_DISK_FULL. */
int grants_create(struct grants *g, const struct grant *grant, const char *via, const char *by, struct err *e);
/*
 * The same of a grant that a token of an issuer was exchanged for: what stands for the token, and when that ends. The
 * grant's revocation shuts the token out until then, however often it may be exchanged, and takes along those grants
 * that stand for it where it is shown.
 */
struct grants_token {
	struct id id;
	int64_t until_ns;
	bool shown; /* at /mcp, where the grant stands for the token and nobody is given it */
};
/* Whether there is room for it, before anything is spent on it. ERR_LIMIT. */
int grants_check_room(const struct grants *g, const struct grant *grant, const char *via, const char *by,
		      struct err *e);
int grants_create_for(struct grants *g, const struct grant *grant, const struct grants_token *t, const char *via,
		      const char *by, struct err *e);
/*
 * Before a grant is made of it; nil: of no token. ERR_TOKEN_REVOKED: shut out. ERR_LIMIT: as many tokens of `by` are
 * counted or shut out as its share (tally.h) is.
 */
int grants_token_check(const struct grants *g, const struct id *id, const char *by, size_t share, struct err *e);
/*
 * The reach of a revocation: the grant with all its renewals and all that was made from them, or a grant alone whose
 * token nobody has got.
 */
enum grants_reach { GRANTS_WITH_ALL, GRANTS_ALONE };
/* until_ns: the end of the last that it is of. id: what stands for them (grant_line_first()), or the grant's own. */
struct grants_revoked {
	struct grant grant;
	struct id id;
	int64_t until_ns;
	bool again; /* all that it reaches was revoked already: nothing changed */
};
/* via, by: how it was asked for, and by whom. Synced when it returns 0. ERR_NOT_FOUND; a second one is no error. */
int grants_revoke(struct grants *g, const struct id *id, enum grants_reach reach, int64_t now_ns, const char *via,
		  const char *by, struct grants_revoked *out, struct err *e);
/*
 * The event that a revoked grant owes to the record, from the line of its revocation until grants_told(): across
 * restarts, and beyond the grant's end. So no bound of a queue in memory can lose one.
 */
struct grants_owed {
	struct id event; /* nil: none is owed */
	int64_t at_ns;
	char via[16], by[48];
};
/* The events that nobody took yet. fn takes one by returning 0, and ends the walk with anything else. */
typedef int grants_owed_fn(void *arg, const struct grant *g, const struct grants_owed *o);
void grants_each_owed(struct grants *g, grants_owed_fn *fn, void *arg);
/* The record has that event. The line that says so is not synced: if it is lost, the event is owed again, as it was. */
void grants_told(struct grants *g, const struct id *id, const struct id *event);
/*
 * Revocations between these two are synced by the second, all at once: for those that would be made again after a
 * restart, as the configuration has them. ERR_SYS.
 */
void grants_together_begin(struct grants *g);
int grants_together_end(struct grants *g, struct err *e);
/*
 * A grant that is alive and was not revoked; of one that is over, a renewal. out_via: how it was asked for, borrowed
 * until the next change; may be NULL. ERR_NOT_FOUND, ERR_TOKEN_REVOKED.
 */
int grants_get(const struct grants *g, const struct id *id, struct grant *out, const char **out_via, struct err *e);
/* The one that asked for a grant ("issuer NAME"); "": there is no such grant. Borrowed until the next change. */
const char *grants_by(const struct grants *g, const struct id *id);
/* A renewal is in force: it has been journaled. Synced when it returns 0. One that was not is none after a restart. */
int grants_renewed(struct grants *g, const struct id *id, struct err *e);
/*
 * One more use of what may be used max times, until it is over: a token of an issuer, or a grant. Synced when it
 * returns 0. ERR_TOKEN_USED: it has been used so often. ERR_LIMIT: `by` counts as many as its share (tally.h) is.
 */
struct grants_use {
	struct id id;
	int64_t until_ns, max;
	const char *by; /* who counts: "issuer NAME"; borrowed */
	size_t share;
};
int grants_use(struct grants *g, const struct grants_use *u, struct err *e);
/*
 * A grant with a number of uses opens something: n of them, counted for it with all its renewals, and for each above it
 * that has a number. Synced when it returns 0. ERR_TOKEN_USED, with nothing counted: one of them has no so many left.
 * A key that was used so within its time is no further use. A lease counts for itself alone: what it was made from
 * gave its number away when it was minted.
 */
struct grants_spend {
	const struct grant *grant; /* verified */
	int64_t n;
	int64_t until_ns; /* its end, renewals counted */
	struct id key;    /* nil: none */
	int64_t key_until_ns;
};
int grants_spend(struct grants *g, const struct grants_spend *s, struct err *e);
/* How often it, its renewals and what was made from them opened something. */
int64_t grants_spent(const struct grants *g, const struct grant *grant);
/* When the newest renewal of that `first` ends that was not revoked; 0: there is none. */
int64_t grants_ends(const struct grants *g, const struct id *first);
/* Forget what has expired; rewrites the log once most of it is dead. */
int grants_expire(struct grants *g, int64_t now_ns, struct err *e);

/*
 * Newest first, at most limit, older than `before` (NULL = from the newest). of: only those that have that id in their
 * line; NULL: all. *out_more: there are older ones.
 */
int grants_list(const struct grants *g, const struct id *of, const struct id *before, size_t limit, json_t **out,
		bool *out_more);
/* Every revocation that still matters. */
typedef int grants_revoked_fn(void *arg, const struct id *id, int64_t expires_ns);
int grants_each_revoked(const struct grants *g, grants_revoked_fn *fn, void *arg);
/* The grants themselves that were revoked and are not over. */
typedef int grants_gone_fn(void *arg, const struct grant *g);
int grants_each_gone(const struct grants *g, grants_gone_fn *fn, void *arg);
/* Once those that the revocation of this one took along: they stand for the token that it was exchanged for, too. */
int grants_each_taken_along(struct grants *g, const struct id *id, grants_gone_fn *fn, void *arg);
/* Every renewal that holds. */
typedef int grants_renewed_fn(void *arg, const struct grant *g);
int grants_each_renewed(const struct grants *g, grants_renewed_fn *fn, void *arg);
/* Every grant that is alive and was not revoked; fn may revoke. Ends with fn's first that is not 0, which it returns.
 */
typedef int grants_alive_fn(void *arg, const struct grant *g, const char *via, const char *by);
int grants_each_alive(const struct grants *g, grants_alive_fn *fn, void *arg);
size_t grants_count(const struct grants *g);
/* The public face of a grant: {id, principal, kind, agent, scopes, task, reason, issued_at, not_before, expires_at,
 * read, write, file_max, uses, operations, first, above, edge}. */
json_t *grant_describe(const struct grant *g);
json_t *renewed_message(const struct grant *g); /* to net, of a renewal */

#endif
