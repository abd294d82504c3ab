/*
 * edge.h - what an edge and its centre say to each other, signed (docs/edge.md).
 *
 * A state (typ "muxd-edge-state") is the centre's word on which leases of one edge it has taken back, and when it said
 * so: the edge uses it for as long as edge.state_max and no longer. A state replaces an older one whole.
 * A call (typ "muxd-edge-call") is how an edge shows the centre who it is: a short-lived token of its own key, for that
 * centre. Both name the two daemons by their instance ids, so what one edge was told serves no other.
 *
 * Pure: no files, no sockets, no clock of its own. A struct edge_state owns its list.
 */
#ifndef POLICY_EDGE_H
#define POLICY_EDGE_H

#include "base/ids.h"
#include "policy/grant.h"

struct err;

#define EDGE_LEASES_MAX 1000         /* leases of one edge that are not over */
#define EDGE_STATE_MAX  (128 * 1024) /* bytes of its token */
#define EDGE_CALL_MAX   600
#define EDGE_CALL_NS    (INT64_C(60) * 1000000000) /* how long a call's token is good */

struct edge_revoked {
	struct id id;
	int64_t until_ns; /* the lease's end: from then on it need not be known */
};
struct edge_state {
	char centre[ID_STR_LEN], edge[ID_STR_LEN];
	int64_t at_ns; /* wall clock of the centre, guarded */
	struct edge_revoked *revoked;
	size_t n;
};

/* *out_token: to be freed. ERR_TOO_LARGE. */
int edge_state_sign(const struct edge_state *s, const char *kid, const uint8_t seed[GRANT_KEY_LEN], char **out_token,
		    struct err *e);
/*
 * Is it that centre's, and for that edge? ERR_TOKEN_MALFORMED, _FORGED, _FOREIGN. Whether it is newer than another is
 * the caller's next question: at_ns.
 */
int edge_state_verify(const char *token, size_t len, const struct grant_keyset *keys, const char *centre,
		      const char *edge, struct edge_state *out, struct err *e);
void edge_state_finish(struct edge_state *s); /* NULL-safe */

int edge_call_sign(const char *edge, const char *centre, int64_t now_ns, const char *kid,
		   const uint8_t seed[GRANT_KEY_LEN], char **out_token, struct err *e);
/* The key that it names: who of several edges may have signed it. ERR_TOKEN_MALFORMED. */
int edge_call_kid(const char *token, size_t len, char out_kid[17], struct err *e);
/* key: of that edge. Clocks may differ by EDGE_CALL_NS. ERR_TOKEN_MALFORMED, _FORGED, _FOREIGN, _EXPIRED, _NOT_YET. */
int edge_call_verify(const char *token, size_t len, const struct grant_public_key *key, const char *edge,
		     const char *centre, int64_t now_ns, struct err *e);

#endif
