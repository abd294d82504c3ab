/*
 * issue.h - making and revoking grants: the steps, each of which must have happened before an answer.
 *
 * Create: checked, signed, in grants.log (synced), journaled by net within 5 s; else
 * it is revoked again and refused with record_unavailable. Revoke: in grants.log
 * (synced), told to net and the recorder, in force in net (or net is not running).
 * grants.log owes its event to the record until that has it.
 */
#ifndef MUXD_MONITOR_ISSUE_H
#define MUXD_MONITOR_ISSUE_H

#include "base/json.h"
#include "policy/grant.h"

struct grants_revoked;
struct monitor;
struct err;

/* A grant that is new, made from another, or one that renews another. */
enum wish_how { WISH_NEW, WISH_CHILD, WISH_RENEWAL };
struct wish {
	enum wish_how how;
	/*
	 * Of a child and a renewal, the grant that they come from: alive, and checked by whoever asks. What a child's
	 * wish leaves open is as its parent has it; a renewal is as its grant, but for reason and time.
	 */
	const struct grant *from;
	const char *principal, *agent, *task, *reason; /* task NULL: the kind's default */
	const char *edge;                              /* a lease for the edge of this instance id; NULL: a grant */
	bool kind_given;
	enum grant_kind kind;
	struct grant_files files;
	struct grant_bounds bounds; /* of a child: what it does not name is as its parent has it */
	uint32_t scopes;            /* 0: the kind's default */
	uint64_t ttl_ns;            /* 0: grants.ttl; of a lease edge.lease_max */
	uint64_t least_ns;          /* then grants.ttl, but at least so long */
	const char *via;            /* "admin", "ssh-key", "cluster", "grant" (a token's holder), "issuer" */
	char by[48];                /* "uid 1000", "net", "issuer NAME" */
	/* For a token of an issuer: when that ends, what stands for it, how often it counts (0: any), how many of
	 * its issuer are counted at most, for the record.
	 */
	int64_t ends_ns;
	struct id used;
	bool shown; /* as it is, at /mcp */
	int64_t uses_max;
	size_t uses_share;
	json_t *detail; /* borrowed */
};

/* token is borrowed, NULL on failure. Called once, from the loop; possibly from inside the call. */
typedef void issue_done(void *arg, int rc, const struct err *e, const struct grant *g, const char *token);
/*
 * ERR_NOT_NARROWER, ERR_FORBIDDEN: a child that is wider than its parent or lasts longer. ERR_UNSUPPORTED,
 * ERR_FORBIDDEN: renewals that the configuration does not allow (grants.renew_max; `via` "admin": any).
 */
void issue_create(struct monitor *m, const struct wish *w, issue_done *done, void *arg);

typedef void revoke_done(void *arg, int rc, const struct err *e, const struct grant *g);
/*
 * The grant, what renews it and what was made from it. via: how the revocation was asked for, "admin", "grant" (by its
 * holder or that of one above it) or "configuration"; by: who asked.
 */
void issue_revoke(struct monitor *m, const struct id *id, const char *via, const char *by, revoke_done *done,
		  void *arg);
/* Tells net and the recorder of a revocation; done (NULL: nobody waits) once it is in force in net. */
void issue_enforce(struct monitor *m, const struct grants_revoked *what, revoke_done *done, void *arg);
/* Both are told; one that cannot be is started again. msg NULL: there was no memory for it. */
void issue_tell(struct monitor *m, const json_t *msg);
/* The events that grants.log owes to the record are sent, as many as the queue takes; those that follow go after them.
 */
void issue_tell_owed(struct monitor *m);
/* When a grant ends, renewals counted. */
int64_t issue_ends(const struct monitor *m, const struct grant *g);
/* A token that net passes on is looked at here again: signature, time, and what is known of its line. */
int issue_check_token(struct monitor *m, const char *token, struct grant *out, struct err *e);
void issue_revoked(struct monitor *m, const struct id *id); /* net: it is in force */
void issue_net_ended(struct monitor *m);                    /* in force by its absence */

#endif
