/*
 * exec_ids.h - the exec_ids that make a round's start idempotent: which round each stands for.
 *
 * One exec_id belongs to an agent, in its present life, and a principal: what was wiped took its rounds along. It is
 * remembered for EXEC_IDS_KEPT_NS from the start of its round, and as long as the round runs. There are at most
 * EXEC_IDS_PER_AGENT of one agent and EXEC_IDS_MAX in all: beyond that the oldest whose rounds have ended are
 * forgotten, so an agent that starts very many rounds shortens its own memory first. Rounds that run are bounded by
 * sessions.max. Every call takes a time that does not grow with the number of ids.
 *
 * Owned by the hub, which says whether a round runs.
 */
#ifndef MUXD_HUB_CORE_EXEC_IDS_H
#define MUXD_HUB_CORE_EXEC_IDS_H

#include "base/clock.h"
#include "base/ids.h"

#define EXEC_IDS_KEPT_NS   (24 * 3600 * NS_PER_SEC)
#define EXEC_IDS_PER_AGENT 50000
#define EXEC_IDS_MAX       200000

struct exec_ids;

struct exec_use {
	struct id session;
	char digest[65]; /* of the call */
	int64_t life; /* of the agent that it ran in (struct life_current); 0 or less: not known, it counts for any */
};

typedef bool exec_ids_live(void *arg, const struct id *session);

struct exec_ids *exec_ids_create(exec_ids_live *live, void *arg); /* NULL: no memory */
void exec_ids_destroy(struct exec_ids *x);                        /* NULL-safe */

/* Valid until the next call that changes them; NULL: not used, or forgotten. One of another life is forgotten now. */
const struct exec_use *exec_ids_find(struct exec_ids *x, const char *agent, int64_t life, const char *principal,
				     const char *exec_id);
/* Is that a round which this principal started with an exec_id? */
bool exec_ids_has_session(struct exec_ids *x, const struct id *session, const char *principal);
/* An exec_id that is known already stays with the newer of both rounds. ERR_NOMEM, ERR_TOO_LARGE. */
int exec_ids_add(struct exec_ids *x, const char *agent, const char *principal, const char *exec_id,
		 const struct exec_use *use);
/* Its exec_id stands for no round any more, as that one never ran. */
void exec_ids_forget_session(struct exec_ids *x, const struct id *session);
/* Forgets what is too old; now: boot ns. Some thousands a call at most: call it often. */
void exec_ids_expire(struct exec_ids *x, uint64_t now);
unsigned exec_ids_count(const struct exec_ids *x);

#endif
