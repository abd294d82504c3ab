/*
 * keys.h - the keys of one daemon: grants (sign and verify), record, SSH host, links into pods.
 *
 * Made at first start, kept in DIR/keys. The newest grant seed signs; a rotation
 * makes a new one, removes the old seed and keeps its public half as long as a
 * grant of it may live. Seeds are 32 raw bytes, public keys one line of base64url.
 * Owned by the monitor; keys_finish() wipes.
 */
#ifndef MUXD_MONITOR_KEYS_H
#define MUXD_MONITOR_KEYS_H

#include "muxd/monitor/hostkey.h"
#include "muxd/monitor/identity.h"
#include "policy/grant.h"

#include <limits.h>

struct layout;

#define KEYS_LINK_SECRET_LEN 32

struct keys {
	struct grant_keyset set; /* every public key that verifies; the signing one among them */
	char kid[17];            /* of the signing key */
	uint8_t seed[GRANT_KEY_LEN];
	char record_seed[PATH_MAX];
	char ssh_host_key[PATH_MAX];
	char link_secret[PATH_MAX]; /* KEYS_LINK_SECRET_LEN bytes: secrets of links into pods are derived from it */
	char ssh_fingerprint[HOSTKEY_FINGERPRINT_MAX];
};

/*
 * signs false: an edge's; there is no key for grants, neither here nor on the disk (ERR_CONFLICT where there is one),
 * and set stays empty.
 */
int keys_open(const struct layout *l, const struct identity *who, bool signs, struct keys *out, struct err *e);
void keys_finish(struct keys *k); /* NULL-safe */
/*
 * A new signing key. drop_old: tokens of earlier keys stop verifying at once. On failure *k is as it was, or has the
 * new key beside those that could not be dropped: k->kid tells which.
 */
int keys_rotate(struct keys *k, const struct layout *l, bool drop_old, struct err *e);
/* Whether one more may be made for the record: asked before the log names it. ERR_LIMIT. */
int keys_record_room(const struct layout *l, struct err *e);
/*
 * This key signs the record from now on: it goes to the disk, and the seed of the one before it goes away. Public
 * halves stay for ever: what they signed stays.
 */
int keys_use_record(struct keys *k, const struct layout *l, const struct identity *who,
		    const uint8_t seed[GRANT_KEY_LEN], const struct grant_public_key *key, struct err *e);
/*
 * Drop public keys that were retired more than keep_s seconds before now_s. *out_dropped: as many left *k, on failure
 * as well: each that can be dropped is, and the others go on verifying.
 */
int keys_expire(struct keys *k, const struct layout *l, int64_t now_s, int64_t keep_s, size_t *out_dropped,
		struct err *e);

#endif
