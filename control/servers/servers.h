/*
 * servers.h - what the MCP servers of agents were seen to offer, in control.db; their lists are lists.h's.
 *
 * A catalogue is a server's as it is configured (server_def.h, fingerprint): of another definition there is none. An
 * approval is an audit event of the same transaction (control/work/outbox.c). Both go with the wipe of the agent's
 * workspace.
 *
 * One loop. done is called once, from it; result is borrowed.
 */
#ifndef CONTROL_SERVERS_SERVERS_H
#define CONTROL_SERVERS_SERVERS_H

#include "base/json.h"

#include <stdint.h>

struct err;
struct store;

typedef void servers_done(void *arg, int rc, const struct err *e, json_t *result);

struct catalogue_key {
	const char *agent, *server, *fingerprint; /* of its definition */
};
/*
 * What a server offers now. seen: catalogue_fingerprints(). The first of a definition is approved as it is.
 * result: as catalogue_get() has it. ERR_LIST_CHANGED: the newest list does not have that definition.
 */
void catalogue_put(struct store *s, const struct catalogue_key *k, const json_t *catalogue, const json_t *seen,
		   int64_t now_ns, servers_done *done, void *arg);
/* From here on what was seen is approved, where it is still `seen` (digest_json() of the fingerprints):
 * ERR_LIST_CHANGED otherwise. ERR_NOT_FOUND: there is no catalogue. */
void catalogue_approve(struct store *s, const struct catalogue_key *k, const char *seen, const char *principal,
		       const json_t *call, int64_t now_ns, servers_done *done, void *arg);
/*
 * {catalogue, seen, fingerprint (of `seen`), seen_at, approved_at, approved_by, changes: as catalogue_changes()}.
 * ERR_NOT_FOUND.
 */
int catalogue_get(struct store *s, const struct catalogue_key *k, json_t **out, struct err *e);

#endif
