/*
 * lists.h - lists of programs inside agents' sandboxes in control.db, in versions: one kind for each table.
 *
 * A list is the whole configuration of an agent's programs of that kind; each change makes a version, and the newest
 * LIST_VERSIONS are kept. Each is an audit event of the same transaction (control/work/outbox.c, by the table's
 * trigger). They go with the wipe of the agent's workspace.
 *
 * One loop. done is called once, from it; result is borrowed.
 */
#ifndef CONTROL_SERVERS_LISTS_H
#define CONTROL_SERVERS_LISTS_H

#include "base/json.h"

#include <stdint.h>

struct err;
struct sqlite3;
struct store;

#define LIST_VERSIONS 50

struct list_kind {
	const char *table, *member; /* the member of the answer that has the list, and its column */
	const char *none;           /* what there is before the first: "[]"; "{}" of what is an object */
};
extern const struct list_kind list_servers, list_services, list_settings;

typedef void list_done(void *arg, int rc, const struct err *e, json_t *result);

/* Texts and JSON are copied. */
struct list_put {
	const char *agent;
	const json_t *list; /* checked */
	int64_t if_version; /* the newest has to be that one, 0: there has to be none; -1: whichever there is */
	const char *principal;
	const json_t *call; /* who asks (audit_request_json()) */
	int64_t now_ns;
};
/* result: as lists_get() has it. The same list again makes no version. ERR_LIST_CHANGED. */
void lists_put(struct store *s, const struct list_kind *k, const struct list_put *p, list_done *done, void *arg);
/* The newest version against if_version. ERR_LIST_CHANGED. */
int list_version_check(const char *agent, int64_t version, int64_t wanted, struct err *e);
/* {agent, version, MEMBER, set_at, set_by}; without any version 0 and an empty list. version 0: the newest.
 * ERR_NOT_FOUND: it is not kept. */
int lists_get(struct store *s, const struct list_kind *k, const char *agent, int64_t version, json_t **out,
	      struct err *e);
/* Names of all agents whose newest list is not empty: a JSON list of texts. */
int lists_agents(struct store *s, const struct list_kind *k, json_t **out, struct err *e);

/* For files of this folder: the newest, inside a transaction; a time, and a column, as JSON. */
int lists_read_newest(struct sqlite3 *db, const struct list_kind *k, const char *agent, json_t **out, struct err *e);
json_t *lists_time(int64_t ns);        /* null of 0 */
json_t *lists_parse(const char *text); /* NULL: it is none */

#endif
