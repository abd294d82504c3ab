/*
 * grant.h - the time-boxed permission behind every session and call.
 *
 * A grant travels as a compact JWS (RFC 7515) with alg EdDSA (RFC 8037), typ
 * "muxd-grant" and a kid; claims per RFC 7519: iss (instance id), jti, sub
 * (principal), iat, nbf, exp, and ours: kind, agent, scopes, task, reason; read, write, file_max, uses and operations
 * where they limit;
 * first, since and above where it renews another or was made from one (grant_kin.h).
 * Only the monitor signs; everybody else holds public keys. A token is at most
 * GRANT_TOKEN_MAX bytes so that every SSH client can send it as a password.
 *
 * A lease is a grant for one edge (docs/edge.md): its token has typ "muxd-lease" and the claim edge, so that no daemon
 * takes one for the other, whatever else the claims say. It is for one task, makes no grants and is not renewed.
 *
 * Pure: no files, no sockets, no clock of its own.
 */
#ifndef POLICY_GRANT_H
#define POLICY_GRANT_H

#include "base/ids.h"
#include "policy/grant_bounds.h"
#include "policy/grant_kin.h"
#include "policy/grant_paths.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define GRANT_TOKEN_MAX   1000
#define GRANT_REASON_MAX  256
#define GRANT_NAME_MAX    128
#define GRANT_SCOPES_TEXT 128 /* every name of a scope, with commas */
#define GRANT_KEY_LEN     32  /* Ed25519, seed and public key alike */
#define GRANT_KEYS_MAX    64  /* that verify the grants of one daemon */

enum grant_kind { GRANT_STAFF, GRANT_AGENT, GRANT_AUDITOR, GRANT_SERVICE };
enum grant_scope {
	SCOPE_TERMINAL = 1 << 0,
	SCOPE_ROUNDS = 1 << 1,
	SCOPE_FILES = 1 << 2,
	SCOPE_OBSERVE = 1 << 3,
	SCOPE_DRIVE = 1 << 4,
	SCOPE_REPLAY = 1 << 5,
	SCOPE_LIFECYCLE = 1 << 6,
	SCOPE_ADMIN = 1 << 7,
	SCOPE_PORTS = 1 << 8, /* connections to ports inside */
	SCOPE_GRANT = 1 << 9, /* grants made from it (grant_narrow.h) */
};

struct grant {
	struct id id;
	char issuer[ID_STR_LEN]; /* instance id of the daemon */
	enum grant_kind kind;
	uint32_t scopes;                              /* enum grant_scope */
	int64_t issued_ns, not_before_ns, expires_ns; /* wall clock; whole seconds in the token */
	char principal[GRANT_NAME_MAX + 1];
	/* A target (a pod covers its containers), the beginning of agents' names ("ci-*"), or "*": all. */
	char agent[AGENT_NAME_MAX + 1];
	char task[GRANT_NAME_MAX + 1]; /* "" = each call names its own */
	char reason[GRANT_REASON_MAX + 1];
	struct grant_files files; /* of scope files: where, and how much */
	struct grant_bounds bounds;
	struct grant_kin kin;
	char kid[GRANT_KID_SIZE]; /* of the key that signed it, where a token was opened; no claim */
	char edge[ID_STR_LEN];    /* a lease: the instance id of the edge that it is for; "": a grant */
	int64_t since_ns;         /* a renewal: when the first of them was issued; 0: the grant is no renewal */
};

struct grant_public_key {
	char kid[GRANT_KID_SIZE];
	uint8_t key[GRANT_KEY_LEN];
};
struct grant_keyset {
	struct grant_public_key *keys;
	size_t n;
};

/* The tokens that count: those of a daemon's own monitor, or at an edge the leases of its centre. Borrowed. */
struct grant_trust {
	const struct grant_keyset *keys;
	const char *issuer;   /* instance id of the daemon that signs */
	const char *edge;     /* at an edge its own instance id: leases for it, and no grants; NULL: grants alone */
	int64_t lease_max_ns; /* at an edge: what was minted for longer is refused */
};

/* Empty or blank reason: ERR_REASON_REQUIRED. Unknown scope, bad name, ttl <= 0 ...: ERR_INVAL naming it. */
int grant_check(const struct grant *g, struct err *e);
/* Sign a checked grant or lease; *out_token is the caller's (free with grant_token_free, which wipes it).
 * ERR_TOO_LARGE. */
int grant_sign(const struct grant *g, const char *kid, const uint8_t seed[GRANT_KEY_LEN], char **out_token,
	       struct err *e);
void grant_token_free(char *token);
/*
 * Verify signature, issuer, form and times (now_ns: the guarded wall clock, see
 * time_floor.h). Revocation is the caller's next question (grant_kin.h).
 * ERR_TOKEN_MALFORMED, _FORGED, _FOREIGN (a lease), _EXPIRED, _NOT_YET. Never says which byte differed. Whose it is is
 * in *out with _EXPIRED and _NOT_YET too, since the signature was good: for the audit log alone.
 */
int grant_verify(const char *token, size_t len, const struct grant_keyset *keys, const char *issuer, int64_t now_ns,
		 struct grant *out, struct err *e);
/*
 * The same by t, at an edge of leases. ERR_TOKEN_FOREIGN: a grant at an edge, a lease elsewhere or for another edge;
 * ERR_FORBIDDEN: a lease for longer than lease_max_ns.
 */
int grant_trusted(const char *token, size_t len, const struct grant_trust *t, int64_t now_ns, struct grant *out,
		  struct err *e);
/* Its two halves: signature and form, once for a token and a key; who it is of and for, and times, each time. */
int grant_open(const char *token, size_t len, const struct grant_trust *t, struct grant *out,
	       struct grant_public_key *out_key, struct err *e);
int grant_hold(const struct grant *g, const struct grant_trust *t, int64_t now_ns, struct err *e);
/* Does its task open what others keep under that task? Not where its holder named the task (grant_kin.h). */
bool grant_has_task(const struct grant *g);
/* The part of a grant that is kept with whatever goes on under it. */
struct grant_line grant_line(const struct grant *g);
/* Does the right to `wide` (an agent of a grant) reach `name`, a target or itself such a pattern? What muxd has made of
 * an agent under a name of its own making is reached as that agent is (target_origin()). */
bool grant_covers(const char *wide, const char *name);
/* Is it for one target, whose name is in agent? Else it is a pattern. */
bool grant_of_one(const struct grant *g);
/* Has it the form of a grant, whoever signed it? */
bool grant_is_token(const char *token, size_t len);
/* ERR_FORBIDDEN naming the agent or scope that is missing. all: every scope in `scopes` is needed. */
int grant_allows(const struct grant *g, const char *agent, uint32_t scopes, struct err *e);
/* The task of a call: the grant's and the call's (NULL or "" = none). ERR_TASK_REQUIRED, ERR_TASK_MISMATCH. */
int grant_task(const struct grant *g, const char *call_task, const char **out_task, struct err *e);

/*
 * Is what that principal did under that task this grant's own? of_run: a run's rounds belong to its task as well, so a
 * grant of another task is another's. A grant without a task is of each.
 */
bool grant_owns(const struct grant *g, const char *principal, bool of_run, const char *task);
/*
 * May it read what its own rounds and sessions printed? One of these scopes is needed, in memory and in the record
 * alike: another grant of the same principal may be for files alone.
 */
#define SCOPES_READ_OWN (SCOPE_ROUNDS | SCOPE_TERMINAL | SCOPE_OBSERVE)

const char *grant_kind_name(enum grant_kind k);
int grant_kind_parse(const char *s, enum grant_kind *out, struct err *e);
/* "terminal,rounds" both ways; out holds every name at GRANT_SCOPES_TEXT bytes. */
void grant_scopes_format(uint32_t scopes, char *out, size_t size);
int grant_scopes_parse(const char *s, uint32_t *out, struct err *e);

int grant_key_create(uint8_t out_seed[GRANT_KEY_LEN], struct grant_public_key *out_public);
/* The id of a public key: the first 8 bytes of its SHA-256, in hex. */
int grant_key_id(const uint8_t key[GRANT_KEY_LEN], char out[17]);
int grant_key_public(const uint8_t seed[GRANT_KEY_LEN], struct grant_public_key *out_public);

#endif
