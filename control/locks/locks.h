/*
 * locks.h - advisory locks on paths of a workspace that several agents share: who has what, until when.
 *
 * A lock is exclusive and covers its path and all below it: another's conflicts where one is the other or lies in it.
 * Nothing is held back by it: whoever writes without asking writes. Locks are rows of control.db, so they outlive the
 * daemon, a sandbox that sleeps, and nothing else: the wipe of a workspace takes them, and their time does. Taking,
 * renewing, releasing and the end by time are audit events of the same transaction (control/work/outbox.c); one whose
 * time is over holds nobody, and is told when it is next looked for, within seconds.
 *
 * One loop. done is called once, from it.
 */
#ifndef CONTROL_LOCKS_LOCKS_H
#define CONTROL_LOCKS_LOCKS_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct store;

#define LOCK_LABEL_MAX 128
#define LOCKS_MAX      1000 /* of one agent */
#define LOCK_PATH_MAX  1024

/* Texts are copied. */
struct lock_wish {
	const char *agent, *path; /* relative, clean: no ".", no doubled slash; "." is the workspace */
	const char *principal, *task;
	const char *label;  /* whatever tells the holder's sessions apart; NULL */
	const json_t *call; /* who asks (audit_request_json()) */
	int64_t now_ns, expires_ns;
};
/*
 * result: the lock, {id, agent, path, principal, task_id, label, taken_at, expires_at}. ERR_LOCKED: result is the one
 * that is in the way; ERR_LIMIT. The same holder's (principal, task and label) on the same path is renewed.
 */
typedef void lock_done(void *arg, int rc, const struct err *e, json_t *result);
void lock_take(struct store *s, const struct lock_wish *w, lock_done *done, void *arg);
/* principal NULL: of anybody's. ERR_NOT_FOUND also where its time was over. */
struct lock_change {
	const char *agent, *id;
	const char *principal, *task; /* whose it has to be; NULL: anybody's */
	const json_t *call;
	int64_t now_ns, expires_ns; /* expires_ns 0: it is released */
};
void lock_change(struct store *s, const struct lock_change *c, lock_done *done, void *arg);
/* {"locks": [...]} by path. */
int locks_list(struct store *s, const char *agent, int64_t now_ns, json_t **out, struct err *e);
/* The caller's, zeroed at first: when there is something to look for. */
struct locks_watch {
	uint64_t changes;  /* store_changes() at the last look */
	int64_t next_ns;   /* wall: the first end of a lock */
	uint64_t again_ns; /* boot: no removal before */
};
/* At each tick: locks whose time is over go, and are told. Nothing is read while nothing can have changed. */
void locks_expire(struct store *s, struct locks_watch *w, int64_t now_ns);

#endif
