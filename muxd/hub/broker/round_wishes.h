/*
 * round_wishes.h - what of a round is to become artifacts (control/artifacts/artifact_wish.h), until the round has
 * ended.
 *
 * session->artifacts says of each what has become of it: pending, kept, failed with its error. A round that has ended
 * puts its wishes among the hub's, where round_artifacts.c takes them up.
 *
 * Owned by its session's waiters, then by the hub, then by round_artifacts.c, which frees it.
 */
#ifndef MUXD_HUB_BROKER_ROUND_WISHES_H
#define MUXD_HUB_BROKER_ROUND_WISHES_H

#include "muxd/hub/core/request.h"
#include "muxd/hub/session/session_state.h"

/* The results outlive the session, which may go while files are being fetched. */
struct round_wishes {
	struct session_waiter waiter;
	TAILQ_ENTRY(round_wishes) entry;
	struct hub *hub;
	struct request rq;
	struct id round, sandbox; /* sandbox: it ran in, by its sandbox_id */
	char id_text[ID_STR_LEN], agent[AGENT_NAME_MAX + 1], task[GRANT_NAME_MAX + 1];
	json_t *wishes, *results;
	size_t next;
};

/* Of rounds that have ended; the hub's. */
struct wishes {
	TAILQ_HEAD(, round_wishes) due;
};
struct wishes *wishes_create(void);    /* NULL: no memory */
void wishes_destroy(struct wishes *x); /* NULL-safe; what is due is not done */
bool wishes_rest(const struct hub *h); /* none is due */

/* Of a round whose launch has a list of them; rq is copied, and wiped at the end. sandbox: its sandbox_id. ERR_NOMEM.
 */
int round_wishes_begin(struct session *s, const struct request *rq, const struct id *sandbox);
/* The same of one from before a restart, in its own grant's name: output needs a token, which nobody kept. */
int round_wishes_restore(struct session *s, const struct id *sandbox);
/* The next one is done: rc and message, or the artifact's row. */
void round_wishes_result(struct round_wishes *k, int rc, const char *message, const json_t *row);
void round_wishes_free(struct round_wishes *k);

#endif
