/*
 * edge.h - the monitor of an edge, and that of a centre (docs/edge.md).
 *
 * An edge signs no grants: it has the public keys of its centre, and what it knows of revocations: the newest state
 * that the centre signed, brought by net and looked at here again, and what was taken back at the edge itself. Both are
 * one file, DIR/edge.json, written whole: what was taken back here before the answer, a state that takes something back
 * before net is told of its age, others at most every EDGE_KEEP_NS. Too old a state ends every lease (grant_kin.h).
 *
 * A centre signs states on demand; leases are grants in grants.log, with their edge.
 *
 * Part of the monitor, on its loop. Zeros: this daemon is no edge.
 */
#ifndef MUXD_MONITOR_EDGE_H
#define MUXD_MONITOR_EDGE_H

#include "base/json.h"
#include "muxd/monitor/grants.h"
#include "policy/edge.h"

#include <limits.h>

struct conf;
struct err;
struct monitor;

#define EDGE_REVOKED_MAX 10000                      /* taken back at the edge itself, and not forgotten yet */
#define EDGE_KEEP_NS     (INT64_C(10) * 1000000000) /* a restart knows a state that is at most so much older */

struct edge {
	bool on;
	char
	    log_id[ID_STR_LEN]; /* of the record, as the recorder says; "": not yet. Of a daemon that is no edge, too */
	char centre[ID_STR_LEN];
	char seed[PATH_MAX]; /* of its calls: net's */
	struct grant_public_key key;
	struct edge_state state; /* at_ns 0: none was heard */
	char *state_text;
	int64_t kept_ns; /* at_ns of the state in the file */
	struct edge_revoked *own;
	size_t nown;
	bool own_unkept; /* the file lacks some of them: the disk was full */
};

/* Do an edge's command line and configuration go together? ERR_CONFIG names what does not. */
int edge_check(const struct monitor *m, struct err *e);
/* Keys, the centre's and its own; the file. After keys_open() without a key that signs. ERR_CONFIG, ERR_CORRUPT. */
int edge_open(struct monitor *m, struct err *e);
void edge_finish(struct edge *x); /* NULL-safe */

/*
 * A state that net was given by the centre. One that is older than what is known is refused (ERR_CONFLICT); one by
 * nobody, or for somebody else, as edge_state_verify() says.
 */
int edge_take_state(struct monitor *m, const char *token, struct err *e);
/*
 * At the edge itself: kept when it returns 0. *out: for issue_enforce(), also where it could not be kept
 * (ERR_DISK_FULL, ERR_SYS); its until_ns is 0 where there is nothing to enforce (ERR_LIMIT, ERR_NOMEM).
 */
int edge_revoke(struct monitor *m, const struct id *lease, struct grants_revoked *out, struct err *e);
/* Its audit event, edge.revoke; by: who asked, or "centre". */
void edge_audit_revoked(struct monitor *m, const struct id *lease, const char *by);
/* Every revocation that an edge knows. */
/* Was it taken back, there or here? */
bool edge_has_revoked(const struct edge *x, const struct id *lease);
int edge_each_revoked(const struct edge *x, grants_revoked_fn *fn, void *arg);
/* For start packets, {"centre", "at_ns"}, and to tell net and recorder of a newer state. */
json_t *edge_for_start(const struct edge *x);
/* All that net needs to speak with the centre; holds a key, so to be freed with grant_token_free(). */
int edge_text(const struct monitor *m, char **out, struct err *e);
/* The public face: of a centre {"centre", "keys"}, of an edge its id, keys and what it knows. */
json_t *edge_describe(struct monitor *m);

/* ---- at a centre */

/* The edge of that name or id, of the configuration. ERR_NOT_FOUND. */
int edge_find(const struct conf *c, const char *name, const char **out_id, struct err *e);
/* Signed, to be freed. */
int edge_sign_state(struct monitor *m, const char *id, char **out_token, struct err *e);

#endif
