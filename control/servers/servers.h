/*
 * servers.h - the MCP servers of agents in control.db: lists in versions, and what each server was seen to offer.
 *
 * A list is the whole configuration of an agent's servers; each change makes a version, and the newest SERVERS_VERSIONS
 * are kept. A catalogue is a server's as it is configured (server_def.h, fingerprint): of another definition there is
 * none. Lists and approvals are audit events of the same transaction (control/work/outbox.c). Both go with the wipe of
 * the agent's workspace.
 *
 * One loop. done is called once, from it; result is borrowed.
 */
#ifndef CONTROL_SERVERS_SERVERS_H
#define CONTROL_SERVERS_SERVERS_H

#include "base/json.h"

#include <stdint.h>

struct err;
struct store;

#define SERVERS_VERSIONS 50

typedef void servers_done(void *arg, int rc, const struct err *e, json_t *result);

/* Texts and JSON are copied. */
struct servers_put {
	const char *agent;
	const json_t *list; /* as server_list_check() made it */
	int64_t if_version; /* the newest has to be that one, 0: there has to be none; -1: whichever there is */
	const char *principal;
	const json_t *call; /* who asks (audit_request_json()) */
	int64_t now_ns;
};
/* result: as servers_get() has it. The same list again makes no version. ERR_LIST_CHANGED. */
void servers_put(struct store *s, const struct servers_put *p, servers_done *done, void *arg);
/* {agent, version, servers, set_at, set_by}; without any version 0 and no servers. version 0: the newest.
 * ERR_NOT_FOUND: it is not kept. */
int servers_get(struct store *s, const char *agent, int64_t version, json_t **out, struct err *e);

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
