/*
 * issue.h - making and revoking grants: the steps, each of which must have happened before an answer.
 *
 * Create: checked, signed, in grants.log (synced), journaled by net within 5 s; else
 * it is revoked again and refused with record_unavailable. Revoke: in grants.log
 * (synced), told to net and the recorder, in force in net (or net is not running).
 */
#ifndef MUXD_MONITOR_ISSUE_H
#define MUXD_MONITOR_ISSUE_H

#include "policy/grant.h"

struct monitor;
struct err;

struct wish {
	const char *principal, *agent, *task, *reason; /* task NULL: the kind's default */
	enum grant_kind kind;
	struct grant_files files;
	uint32_t scopes;   /* 0: the kind's default */
	uint64_t ttl_ns;   /* 0: grants.ttl */
	uint64_t least_ns; /* then grants.ttl, but at least so long */
	const char *via;   /* "admin", "ssh-key" */
	char by[48];       /* "uid 1000", "net" */
};

/* token is borrowed, NULL on failure. Called once, from the loop; possibly from inside the call. */
typedef void issue_done(void *arg, int rc, const struct err *e, const struct grant *g, const char *token);
void issue_create(struct monitor *m, const struct wish *w, issue_done *done, void *arg);

typedef void revoke_done(void *arg, int rc, const struct err *e, const struct grant *g);
void issue_revoke(struct monitor *m, const struct id *id, const char *by, revoke_done *done, void *arg);
void issue_revoked(struct monitor *m, const struct id *id); /* net: it is in force */
void issue_net_ended(struct monitor *m);                    /* in force by its absence */

#endif
